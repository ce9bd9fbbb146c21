//! Circuits as clients and servers of EPICS have them, whose packets were changed at random: bytes of headers and of
//! messages, cut, left out, sent again, out of order. A fixed number of times here, longer with `make fuzz`.

use crate::wire::*;
use iocrec::ca::{Decoder, Limits, SeedChannel};
use iocrec_log::event::{Address, CaPut, Event, Fact};
use iocrec_testing::chance::{fuzz, Random};

/// What libca and a server say to each other: who it is, channels, puts of every size, answers, updates, the end.
pub fn circuit(port: u16) -> Vec<Packet> {
    let mut talk = Talk::open(Address { port, ..CLIENT }, SERVER, 1448);
    let mut say = |from_client: bool, bytes: &[u8]| talk.say(from_client, bytes);
    let identity = [version(), named(20, 0, 0, "operator"), named(21, 0, 0, "console")].concat();
    say(true, &identity);
    say(false, &version());
    for channel in 1..4 {
        say(true, &named(18, channel, 13, &format!("LINAC:MAG{channel}:CUR")));
        let rights = message(22, 0, 0, channel, 3, b"");
        say(false, &[rights, message(18, 6, 1, channel, 10 + channel, b"")].concat());
    }
    say(true, &message(1, 20, 1, 11, 1, &[0; 16]));
    say(false, &message(1, 20, 1, 1, 1, &[7; 24]).repeat(20));
    for turn in 0..3 {
        say(true, &[put(false, 11, 1, &[1.5]), put(true, 12, 20 + turn, &[2.5, 3.5])].concat());
        say(false, &message(19, 6, 2, 1, 20 + turn, b""));
        say(true, &put(true, 13, 30 + turn, &vec![f64::from(turn); 700]));
        let text = message(4, 0, 1, 11, 3, b"some text\0");
        say(true, &[text, put(false, 13, 4, &[0.0; 1000])].concat());
        let refused = [header(19, 8, 6, 1, 12, 40), b"write access denied\0".to_vec()].concat();
        say(false, &message(11, 0, 0, 2, 376, &refused));
    }
    say(true, &message(12, 0, 0, 11, 1, b""));
    say(false, &message(12, 0, 0, 11, 1, b""));
    talk.end()
}

/// Which pairs of bytes follow each other in the packets.
struct Pairs(Vec<bool>);

impl Pairs {
    fn of(packets: &[Packet]) -> Pairs {
        let mut pairs = vec![false; 1 << 16];
        for (_, bytes) in packets {
            bytes.windows(2).for_each(|pair| pairs[Pairs::number(pair)] = true);
        }
        Pairs(pairs)
    }

    fn number(pair: &[u8]) -> usize {
        usize::from(pair[0]) << 8 | usize::from(pair[1])
    }

    /// Can the payload have come in these packets? Where one ends and another goes on there may be any pair.
    fn can_have(&self, payload: &[u8]) -> bool {
        let strange = payload.windows(2).filter(|pair| !self.0[Pairs::number(pair)]).count();
        strange <= 3 + payload.len() / 200
    }
}

/// What is said of circuits and channels was said to be there, and no put says more than the packets did.
fn check(out: &[Event], packets: &[Packet], limits: &Limits) -> u64 {
    let (mut said, mut puts, mut told) = (Said::default(), 0, 0);
    let pairs = Pairs::of(packets);
    for event in out {
        match &event.fact {
            Fact::CaPut(put) => {
                let CaPut { circuit, channel, payload, length, .. } = put;
                assert!(said.has_circuit(*circuit) && said.has_channel(*channel), "{put:?}");
                assert!(payload.len() as u32 <= limits.payload.min(*length), "{put:?}");
                assert!(pairs.can_have(payload), "{put:?} was made up");
                puts += 1;
                told += 16 + payload.len();
            }
            Fact::CaAnswer(answer) => assert!(said.has_circuit(answer.circuit), "{answer:?}"),
            other => assert!(said.take(other), "{other:?}"),
        }
        assert!(said.circuits() <= limits.circuits);
    }
    let given: usize = packets.iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(told <= given, "puts of {told} bytes were read from {given}");
    puts
}

#[test]
fn packets_that_were_changed() {
    let seeds: Vec<Vec<Packet>> = [40001, 40002].map(circuit).into();
    let (mut puts, mut losses) = (0, 0);
    fuzz(300, |random: &mut Random| {
        let limits = match random.below(3) {
            0 => Limits { circuits: 2, channels: 2, all_channels: 3, ..Limits::default() },
            1 => Limits { buffered: 4000, all_buffered: 6000, payload: 64, ..Limits::default() },
            _ => Limits::default(),
        };
        let mut packets: Vec<Packet> = seeds.concat();
        packets.sort_by_key(|(time, _)| *time);
        packets.drain(..random.below(packets.len()) / (1 + random.below(8)));
        change(random, &mut packets);
        let mut decoder = Decoder::new(limits.clone());
        if random.below(4) > 0 {
            serve(&mut decoder, &[SERVER.port]);
        }
        let mut out = Vec::new();
        if random.below(4) == 0 {
            let channel =
                SeedChannel { cid: Some(2), sid: 12, pv: "SEEDED".into(), dbr: Some(6), count: None };
            decoder.seed(0, 1000 * MS, CLIENT, SERVER, "operator", "", 13, &[channel], &mut out);
        }
        decode(&mut decoder, &packets, random, &mut out);
        puts += check(&out, &packets, &limits);
        losses += u64::from(out.iter().any(|event| matches!(event.fact, Fact::Loss(_))));
    });
    println!("{puts} puts decoded, losses told {losses} times");
    // Both happen, or it is not the decoder that was tried.
    assert!(std::env::var("FUZZ_SEED").is_ok() || (puts > 100 && losses > 10));
}
