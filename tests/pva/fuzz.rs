//! Circuits whose packets were changed at random: cut, left out, sent again, out of order. A fixed number of times here,
//! longer with `make fuzz`.

use crate::wire::*;
use iocrec::net::protocol::Decoder as _;
use iocrec::pva::{Decoder, Limits};
use iocrec_log::event::{Event, Fact};
use iocrec_testing::chance::{fuzz, Random};
use std::collections::HashSet;

/// What a client and a server say to each other.
fn circuit() -> Vec<Packet> {
    let mut talk = Talk::open(CLIENT, SERVER, 600);
    let mut say = |from_client: bool, bytes: &[u8]| talk.say(from_client, bytes);
    let number = 3.5f64.to_le_bytes();
    say(false, &hex("ca024102 00000000"));
    say(true, &identity("operator", "console"));
    for channel in 1..4u32 {
        say(true, &create(channel, &format!("LINAC:MAG{channel}")));
        say(false, &created(channel, 10 + channel));
        say(
            true,
            &request(11, 10 + channel, channel, 8, b"\xfd\x02\x00\x80\x00\x01\x01a\x82\x22\x01\x00\x00\x00"),
        );
        let kind = b"\xff\xfd\x01\x00\x80\x00\x04\x05value\x43\x01x\x82\x01u\x81\x00\x01\x01s\x60\x01r\x88\x80\x00\x01\x01n\x4b";
        say(false, &answer(11, channel, 8, kind));
        say(true, &request(11, 10 + channel, channel, 0x40, b""));
        say(false, &answer(11, channel, 0x40, &[&hex("ff 01 02")[..], &number].concat()));
        for _ in 0..3 {
            say(true, &request(11, 10 + channel, channel, 0, &[&hex("01 02")[..], &number].concat()));
            say(false, &answer(11, channel, 0, &[0xff]));
            let all = [
                &hex("01 01")[..],
                &number,
                &hex("fd0300 80 00 01 01 6e 22 05000000 00 02 6869 02 01 01"),
                &number,
                &[0],
            ]
            .concat();
            say(true, &request(11, 10 + channel, channel, 0, &all));
            say(false, &answer(11, channel, 0, &[&[2][..], &string("Put not permitted"), &[0]].concat()));
        }
        let whole =
            request(11, 10 + channel, channel, 0, &[&hex("01 02 fe 88130000")[..], &[7; 5000]].concat());
        let cut = [
            message(0x10, 11, &whole[8..20]),
            message(0x30, 11, &whole[20..4000]),
            message(0x20, 11, &whole[4000..]),
        ];
        say(true, &cut.concat());
        say(false, &answer(13, 7, 0, &[1; 2000]).repeat(3));
        say(true, &request(20, 10 + channel, 9, 8, NO_OPTIONS));
        say(true, &request(20, 10 + channel, 9, 0, b"\xfe\x02\x00\xfe\x03\x00\x07\x00\x00\x00"));
    }
    say(true, &message(0, 8, &hex("0b000000 01000000")));
    talk.end()
}

/// What is said of circuits, channels and types was said to be there.
fn check(out: &[Event], limits: &Limits) -> u64 {
    let (mut said, mut types, mut puts) = (Said::default(), HashSet::from([0]), 0);
    for event in out {
        match &event.fact {
            Fact::PvaCircuit(circuit) => assert!(said.has_circuit(circuit.circuit)),
            Fact::PvaType(found) => _ = types.insert(found.id),
            Fact::PvaPut(put) => {
                assert!(said.has_circuit(put.circuit) && said.has_channel(put.channel), "{put:?}");
                assert!(put.value.bytes.len() <= limits.payload.min(put.value.length as usize), "{put:?}");
                assert!(
                    put.value.types.iter().chain(&put.options.types).all(|id| types.contains(id)),
                    "{put:?}"
                );
                puts += 1;
            }
            Fact::PvaAnswer(answer) => {
                assert!(said.has_circuit(answer.circuit), "{answer:?}");
                assert!(answer.value.types.iter().all(|id| types.contains(id)), "{answer:?}");
            }
            Fact::PvaMonitor(monitor) => assert!(said.has_circuit(monitor.circuit)),
            Fact::PvaMessage(message) => assert!(said.has_circuit(message.circuit)),
            // a message whose command was changed to one; it names its own addresses
            Fact::PvaSearches(_) => {}
            other => assert!(said.take(other), "{other:?}"),
        }
        assert!(said.circuits() <= limits.circuits);
    }
    puts
}

#[test]
fn pvaccess_packets_that_were_changed() {
    let seed = circuit();
    let (mut puts, mut losses) = (0, 0);
    fuzz(400, |random: &mut Random| {
        let limits = match random.below(3) {
            0 => Limits { circuits: 2, channels: 2, all_channels: 3, ..Limits::default() },
            1 => Limits { buffered: 4000, all_buffered: 6000, payload: 64, ..Limits::default() },
            _ => Limits::default(),
        };
        let mut packets = seed.clone();
        packets.drain(..random.below(packets.len()) / (1 + random.below(8)));
        change(random, &mut packets);
        let mut decoder = Decoder::new(limits.clone());
        serve(&mut decoder);
        let mut out = Vec::new();
        decode(&mut decoder, &packets, random, &mut out);
        puts += check(&out, &limits);
        losses += u64::from(out.iter().any(|event| matches!(event.fact, Fact::Loss(_))));
    });
    println!("{puts} puts decoded, losses told {losses} times");
    assert!(std::env::var("FUZZ_SEED").is_ok() || (puts > 400 && losses > 10), "{puts} {losses}");
}

/// The same stream cut anywhere, in whatever order its packets come, gives the same facts.
#[test]
fn however_it_is_cut() {
    let whole = circuit();
    let facts = |packets: &[Packet]| {
        let mut decoder = Decoder::new(Limits::default());
        serve(&mut decoder);
        let mut out = Vec::new();
        packets.iter().for_each(|(time, bytes)| decoder.packet(0, *time, bytes, bytes.len(), &mut out));
        decoder.finish(u64::MAX, &mut out);
        out.into_iter().map(|event| words(&event.fact)).collect::<Vec<String>>()
    };
    let expected = facts(&whole);
    assert!(expected.iter().filter(|fact| fact.starts_with("Put to")).count() == 21, "{expected:#?}");
    fuzz(30, |random: &mut Random| {
        let cut = cut_in_two(random, &whole);
        assert_eq!(facts(&cut), expected);
    });
}
