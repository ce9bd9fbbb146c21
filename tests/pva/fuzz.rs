//! Circuits whose packets were changed at random: cut, left out, sent again, out of order. A fixed number of times here,
//! longer with `make fuzz`.

use crate::wire::*;
use iocrec::net::protocol::Decoder as _;
use iocrec::pva::{Decoder, Limits};
use iocrec_log::event::{Event, Fact};
use iocrec_testing::chance::{fuzz, mutate, Random};
use std::collections::HashSet;

/// A packet and when it came.
type Packet = (u64, Vec<u8>);

/// What a client and a server say to each other.
fn circuit() -> Vec<Packet> {
    let mut packets = Vec::new();
    let mut time = 1000 * MS;
    let mut seq = [1000_u32, 5000];
    let mut raw = |from_client: bool, seq: u32, ack, flags, payload: &[u8]| {
        let (from, to) = if from_client { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        time += MS;
        packets.push((time, packet(from, to, seq, ack, flags, payload)));
    };
    raw(true, 999, None, SYN, b"");
    raw(false, 4999, Some(1000), SYN, b"");
    let mut say = |from_client: bool, bytes: &[u8]| {
        for part in bytes.chunks(600) {
            let side = usize::from(!from_client);
            raw(from_client, seq[side], Some(seq[1 - side]), 0, part);
            seq[side] = seq[side].wrapping_add(part.len() as u32);
        }
    };
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
    raw(true, seq[0], Some(seq[1]), FIN, b"");
    raw(false, seq[1], Some(seq[0].wrapping_add(1)), FIN, b"");
    packets
}

/// Changes what came, and in what order.
fn change(random: &mut Random, packets: &mut Vec<Packet>) {
    for _ in 0..=random.below(6) {
        let at = random.below(packets.len());
        match random.below(8) {
            0..=3 => mutate(random, &mut packets[at].1),
            4 => drop(packets.remove(at)),
            5 => packets.insert(at, packets[random.below(packets.len())].clone()),
            6 => {
                let with = random.below(packets.len());
                packets.swap(at, with);
            }
            _ => packets[at].0 = packets[at].0.wrapping_add(random.next() >> random.below(64)),
        }
        if packets.is_empty() {
            return;
        }
    }
}

/// What is said of circuits, channels and types was said to be there.
fn check(out: &[Event], limits: &Limits) -> u64 {
    let (mut circuits, mut channels, mut types) = (HashSet::new(), HashSet::new(), HashSet::from([0]));
    let mut puts = 0;
    for event in out {
        match &event.fact {
            Fact::Circuit(circuit) => _ = circuits.insert(circuit.id),
            Fact::CircuitEnd(id) => assert!(circuits.remove(id), "circuit {id} ends"),
            Fact::PvaCircuit(circuit) => assert!(circuits.contains(&circuit.circuit)),
            Fact::Channel(channel) => {
                assert!(circuits.contains(&channel.circuit), "{channel:?}");
                channels.insert(channel.id);
            }
            Fact::ChannelEnd(id) => assert!(channels.remove(id), "channel {id} ends"),
            Fact::PvaType(found) => _ = types.insert(found.id),
            Fact::PvaPut(put) => {
                assert!(circuits.contains(&put.circuit) && channels.contains(&put.channel), "{put:?}");
                assert!(put.value.bytes.len() <= limits.payload.min(put.value.length as usize), "{put:?}");
                assert!(
                    put.value.types.iter().chain(&put.options.types).all(|id| types.contains(id)),
                    "{put:?}"
                );
                puts += 1;
            }
            Fact::PvaAnswer(answer) => {
                assert!(circuits.contains(&answer.circuit), "{answer:?}");
                assert!(answer.value.types.iter().all(|id| types.contains(id)), "{answer:?}");
            }
            Fact::PvaMonitor(monitor) => assert!(circuits.contains(&monitor.circuit)),
            Fact::PvaMessage(message) => assert!(circuits.contains(&message.circuit)),
            Fact::CircuitClosed(closed) => assert!(circuits.contains(&closed.circuit)),
            Fact::Loss(_) => {}
            other => panic!("{other:?}"),
        }
        assert!(circuits.len() <= limits.circuits);
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
        let (mut out, mut now) = (Vec::new(), 0);
        for (time, bytes) in &packets {
            now = now.max(*time);
            let cut = if random.below(30) == 0 { random.below(bytes.len() + 1) } else { bytes.len() };
            decoder.packet(0, *time, &bytes[..cut], bytes.len(), &mut out);
            if random.below(10) == 0 {
                decoder.tick(now, &mut out);
            }
        }
        decoder.finish(now, &mut out);
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
        // cut each packet in two, and send some twice
        let mut cut = Vec::new();
        for (time, bytes) in &whole {
            let at = 40 + random.below((bytes.len() - 40).max(1));
            if at <= 40 || at >= bytes.len() {
                cut.push((*time, bytes.clone()));
                continue;
            }
            let seq = u32::from_be_bytes(bytes[24..28].try_into().unwrap());
            for (from, to) in [(40, at), (at, bytes.len())] {
                let mut part = bytes[..40].to_vec();
                part.extend(&bytes[from..to]);
                let length = (part.len() as u16).to_be_bytes();
                part[2..4].copy_from_slice(&length);
                part[24..28].copy_from_slice(&seq.wrapping_add(from as u32 - 40).to_be_bytes());
                for _ in 0..=random.below(2) {
                    cut.push((*time, part.clone()));
                }
            }
        }
        assert_eq!(facts(&cut), expected);
    });
}
