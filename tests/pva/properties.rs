//! Whatever TCP does to a circuit, and whatever comes beside it: the same puts, or a loss that is counted.

use crate::wire::*;
use iocrec::net::protocol::Decoder as _;
use iocrec::pva::{Decoder, Limits};
use iocrec_log::event::{Address, Event, Fact};
use iocrec_testing::chance::{fuzz, Random};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A put: the channel's name, and a value that no other put has.
type Truth = Vec<(String, f64)>;

fn double(bytes: &[u8]) -> Option<f64> {
    match bytes {
        [1, 2, number @ ..] => number.try_into().ok().map(f64::from_le_bytes),
        _ => None,
    }
}

/// A client that puts to some channels, in the manner of pvAccessCPP (types by number, requests kept) or of pvxs (whole
/// types, a request for each put), with bulk beside it.
fn story(random: &mut Random) -> (Vec<(bool, Vec<u8>)>, Truth) {
    let mut said = vec![(false, hex("ca024102 00000000")), (true, identity("operator", "console"))];
    let (mut truth, mut ioid, keeps) = (Truth::new(), 100, random.below(2) == 0);
    let channels = 1 + random.below(4) as u32;
    let mut prepared = HashMap::new();
    for channel in 1..=channels {
        said.push((true, create(channel, &format!("LINAC:MAG{channel}"))));
        said.push((false, created(channel, 10 + channel)));
    }
    for put in 0..5 + random.below(30) {
        let channel = 1 + random.below(channels as usize) as u32;
        let sid = 10 + channel;
        let (of, is_new) = match prepared.get(&channel).filter(|_| keeps) {
            Some(of) => (*of, false),
            None => {
                ioid += 1;
                prepared.insert(channel, ioid);
                (ioid, true)
            }
        };
        if is_new {
            let is_first = !keeps || prepared.len() == 1;
            let kind = if keeps && !is_first {
                &b"\xfe\x01\x00"[..]
            } else if keeps {
                SCALAR
            } else {
                WHOLE
            };
            said.push((true, request(11, sid, of, 8, NO_OPTIONS)));
            said.push((false, answer(11, of, 8, &[&[0xff], kind].concat())));
        }
        let value = 1000.5 + put as f64;
        let bytes = [&[1, 2][..], &value.to_le_bytes()].concat();
        said.push((true, request(11, sid, of, 0, &bytes)));
        truth.push((format!("LINAC:MAG{channel}"), value));
        if random.below(3) == 0 {
            let size = random.below(9000);
            said.push((false, answer(13, 7, 0, &vec![0xca; size])));
        }
        said.push((false, answer(11, of, 0, &[0xff])));
        if random.below(6) == 0 {
            // an array to another request, in segments
            let array = request(11, sid, 7, 0, &vec![7; 3000 + random.below(3000)])[8..].to_vec();
            let (first, rest) = array.split_at(20);
            let (middle, last) = rest.split_at(rest.len() / 2);
            for (flags, part) in [(0x10, first), (0x30, middle), (0x20, last)] {
                said.push((true, message(flags, 11, part)));
            }
        }
    }
    (said, truth)
}

/// The packets of a story, cut anywhere.
fn packets(random: &mut Random, said: &[(bool, Vec<u8>)]) -> Vec<Packet> {
    let mut talk = Talk::open(CLIENT, SERVER, 1448);
    let mut held = (true, Vec::new());
    for (from_client, bytes) in said {
        if *from_client != held.0 || random.below(2) == 0 {
            talk.say(held.0, &held.1);
            held = (*from_client, Vec::new());
        }
        held.1.extend(bytes);
        while held.1.len() > 1 && random.below(4) == 0 {
            let rest = held.1.split_off(1 + random.below(held.1.len() - 1));
            talk.say(held.0, &held.1);
            held.1 = rest;
        }
    }
    talk.say(held.0, &held.1);
    talk.end()
}

/// The puts that the decoder reports with a whole value, and how much it counts as lost.
fn decoded(packets: &[Packet]) -> (Truth, u64) {
    let mut decoder = Decoder::new(Limits::default());
    serve(&mut decoder);
    let (mut out, mut now) = (Vec::new(), 0);
    for (number, (time, bytes)) in packets.iter().enumerate() {
        now = now.max(*time);
        decoder.packet(0, *time, bytes, bytes.len(), &mut out);
        if number % 16 == 0 {
            decoder.tick(now, &mut out);
        }
    }
    decoder.tick(now + 5000 * MS, &mut out);
    decoder.finish(now + 6000 * MS, &mut out);
    let (mut puts, mut lost, mut names) = (Truth::new(), 0, HashMap::new());
    for Event { fact, .. } in out {
        match fact {
            Fact::Channel(channel) => _ = names.insert(channel.id, channel.pv),
            Fact::PvaPut(put) => {
                let name = names.get(&put.channel).cloned().unwrap_or_default();
                puts.extend(double(&put.value.bytes).map(|value| (name, value)));
            }
            Fact::Loss(loss) => lost += loss.count,
            _ => {}
        }
    }
    (puts, lost)
}

#[test]
fn cut_reordered_repeated_and_injected() {
    let mut total = 0;
    fuzz(150, |random: &mut Random| {
        let (said, truth) = story(random);
        let mut packets = packets(random, &said);
        // the opening is in order, and the ends
        for _ in 0..random.below(packets.len()) {
            let at = 2 + random.below(packets.len() - 4);
            match random.below(3) {
                0 => {
                    let again = packets[at].clone();
                    let later = (at + random.below(20)).min(packets.len() - 2);
                    packets.insert(later, again);
                }
                // of one side: its peer acknowledges what has come
                1 if at + 3 < packets.len() => {
                    if packets[at].1[12..16] == packets[at + 1].1[12..16] {
                        packets.swap(at, at + 1);
                    }
                }
                _ => {
                    // what does not prove to belong to the circuit
                    let from_client = random.below(2) == 0;
                    let (from, to) = if from_client { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
                    let far = (1 << 30) + random.next() as u32 % (1 << 30);
                    let flags = [RST, 0][random.below(2)];
                    let forged = request(11, 11, 101, 0, &[&[1, 2][..], &666.0f64.to_le_bytes()].concat());
                    let payload = if flags == RST { &[][..] } else { &forged };
                    let ack = Some(far).filter(|_| flags != RST);
                    packets.insert(at, (packets[at].0, packet(from, to, far, ack, flags, payload)));
                }
            }
        }
        let mut time = 1000 * MS;
        for packet in &mut packets {
            time += MS;
            packet.0 = time;
        }
        let (puts, lost) = decoded(&packets);
        assert_eq!(puts, truth, "{lost} lost");
        total += puts.len();
    });
    assert!(std::env::var("FUZZ_SEED").is_ok() || total > 1000, "{total}");
}

#[test]
fn what_is_missing_is_counted() {
    let (mut missed, mut all) = (0, 0);
    fuzz(150, |random: &mut Random| {
        let (said, truth) = story(random);
        let mut packets = packets(random, &said);
        for _ in 0..=random.below(4) {
            packets.remove(2 + random.below(packets.len() - 4));
        }
        let (puts, lost) = decoded(&packets);
        // each is one that there was, once, in its place
        let mut rest = truth.iter();
        for (name, value) in &puts {
            let found = rest.find(|(_, true_value)| true_value == value);
            let (true_name, _) =
                found.unwrap_or_else(|| panic!("{value} was made up, or came twice: {puts:?}"));
            assert!(name == true_name || name.is_empty(), "{value} went to {true_name}, not to {name}");
        }
        assert!(puts.len() == truth.len() || lost > 0, "{} of {} puts", puts.len(), truth.len());
        missed += truth.len() - puts.len();
        all += truth.len();
    });
    println!("{missed} of {all} puts missed");
    assert!(std::env::var("FUZZ_SEED").is_ok() || (missed > 10 && missed < all / 3), "{missed} of {all}");
}

/// Clients that begin long messages and never end them: what servers send others is kept as ever.
#[test]
fn messages_that_never_end() {
    let mut w = Wire::ready();
    let long = request(20, 1, 1, 0, &vec![0; 200_000]);
    for number in 0..40 {
        let mut talk = Talk::open(Address { port: 20_000 + number, ..CLIENT }, SERVER, 1400);
        talk.say(true, &long[..65_000]);
        let packets = talk.end();
        for (_, packet) in &packets[..packets.len() - 2] {
            w.time += MS;
            w.decoder.packet(0, w.time, packet, packet.len(), &mut w.out);
        }
    }
    // the structure of a group
    let fields = (0..200).flat_map(|field| [string(&format!("field{field:0>30}")), vec![0x22]].concat());
    let group: Vec<u8> = [0xff, 0x80, 0, 200].into_iter().chain(fields).collect();
    w.client(&request(11, 2, 4, 8, NO_OPTIONS));
    w.server(&answer(11, 4, 8, &group));
    w.client(&request(11, 2, 4, 0, &hex("0102 07000000")));
    let facts = w.facts();
    let put = facts.iter().find(|fact| fact.starts_with("Put to ")).expect("a put");
    assert!(!put.contains(": [0]"), "{put}");
}

/// 633 bytes in 40 messages: each type has twice the one before it, 1.6e12 fields in the end.
#[test]
fn types_that_double() {
    let began = Instant::now();
    let mut w = Wire::ready();
    w.client(&request(11, 2, 4, 8, b"\xfd\x0a\x00\x80\x00\x02\x01a\x22\x01b\x22\0\0\0\0\0\0\0\0"));
    for level in 11..50u8 {
        let before = level - 1;
        let pair = [0xfd, level, 0, 0x80, 0, 2, 1, b'a', 0xfe, before, 0, 1, b'b', 0xfe, before, 0];
        w.client(&request(11, 2, 4, 8, &pair));
        w.server(&answer(11, 4, 8, &[&[0xff][..], &pair].concat()));
        w.client(&request(11, 2, 4, 0, b"\x01\x01"));
    }
    w.wait(100);
    // beside it a put as ever
    w.client(&request(11, 2, 3, 0, &[&[1, 2][..], &3.5f64.to_le_bytes()].concat()));
    let longest = w.out.iter().filter_map(|event| match &event.fact {
        Fact::PvaType(found) => Some(found.description.len()),
        _ => None,
    });
    assert!(longest.max().is_some_and(|longest| longest <= 64 << 10));
    let puts = w.facts().into_iter().filter(|fact| fact.ends_with("01020000000000000c40")).count();
    assert_eq!(puts, 1);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}
