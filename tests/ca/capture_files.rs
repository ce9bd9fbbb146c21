//! Capture files of every kind give the facts that the packets themselves give; damaged ones give a part of them.

use crate::files::*;
use crate::fuzz::circuit;
use crate::packets::{Packet, Talk};
use crate::wire::*;
use flate::gzip;
use iocrec::net::capture_file::{CaptureFile, Problem};
use iocrec::recorder::reading::Outcome;
use iocrec_log::event::{Address, Event, Fact, LossSource};
use iocrec_testing::chance::{fuzz, mutate, Random};
use std::io::Write;
use std::time::Duration;

/// Packing for tests: the agent only unpacks.
mod flate {
    /// A member of a gzip file.
    pub fn gzip(bytes: &[u8]) -> Vec<u8> {
        // with a name, and stored in two pieces
        let mut packed = b"\x1f\x8b\x08\x08\0\0\0\0\0\x03capture.pcap\0".to_vec();
        packed.extend(miniz_oxide::deflate::compress_to_vec(bytes, 6));
        packed.extend(crc32fast::hash(bytes).to_le_bytes());
        packed.extend((bytes.len() as u32).to_le_bytes());
        packed
    }
}

const ETHERNET: (u16, &[u8]) = LINKS[0];
const BOTH: [Order; 2] = [Order::Little, Order::Big];

/// A circuit on an unusual port, beside other things.
fn packets() -> Vec<Packet> {
    at_port(circuit(40001), 5074)
}

/// The same with another port of the server.
fn at_port(mut packets: Vec<Packet>, port: u16) -> Vec<Packet> {
    for (_, packet) in &mut packets {
        for at in [20, 22] {
            if packet[at..at + 2] == SERVER.port.to_be_bytes() {
                packet[at..at + 2].copy_from_slice(&port.to_be_bytes());
            }
        }
    }
    packets
}

/// Puts and answers with their wall-clock times, from the events of a log.
fn puts(events: &[Event]) -> Vec<(i64, String)> {
    let mut context = iocrec_log::context::Context::default();
    let mut found = Vec::new();
    for event in events {
        context.apply(event.time, &event.fact);
        if let Fact::CaPut(_) | Fact::CaAnswer(_) = event.fact {
            found.push((context.wall(event.time).expect("a clock"), words(&event.fact)));
        }
    }
    found
}

/// What the decoder makes of the packets themselves.
fn truth(packets: &[Packet], port: u16) -> Vec<(i64, String)> {
    let mut wire = Wire::new();
    serve(&mut wire.decoder, &[port]);
    for (time, packet) in packets {
        wire.decoder.packet(0, *time, packet, packet.len(), &mut wire.out);
    }
    wire.decoder.finish(u64::MAX, &mut wire.out);
    let hits = wire.out.iter().filter(|event| matches!(event.fact, Fact::CaPut(_) | Fact::CaAnswer(_)));
    hits.map(|event| (BEGIN + event.time as i64, words(&event.fact))).collect()
}

fn lost(events: &[Event]) -> u64 {
    let count = |event: &Event| match &event.fact {
        Fact::Loss(loss) => loss.count,
        _ => 0,
    };
    events.iter().map(count).sum()
}

fn complaint(outcome: &Outcome) -> String {
    let lines: Vec<String> = outcome.errors.iter().map(ToString::to_string).collect();
    assert!(lines.iter().all(|line| !line.contains('\n')), "{lines:?}");
    lines.join("; ")
}

#[test]
fn every_format_and_link_gives_the_same() {
    let packets = packets();
    let truth = truth(&packets, 5074);
    assert!(truth.len() > 15, "{truth:?}");
    for link in LINKS {
        for order in BOTH {
            let files = [
                pcap(order, false, link, &packets),
                pcap(order, true, link, &packets),
                pcapng(order, 6, link, &packets),
                pcapng(order, 9, link, &packets),
            ];
            for file in files {
                for file in [gzip(&file), [gzip(&file[..50]), gzip(&file[50..]), vec![0; 9]].concat(), file] {
                    let (events, outcome) = read(&file);
                    assert_eq!(complaint(&outcome), "");
                    assert_eq!(puts(&events), truth, "{link:?} {order:?}");
                    assert_eq!(lost(&events), 0);
                    assert_eq!(
                        (outcome.packets, outcome.decoded),
                        (packets.len() as u64, [packets.len() as u64, 0])
                    );
                }
            }
        }
    }
}

#[test]
fn nothing_is_claimed_of_the_machine() {
    let (events, _) = read(&pcap(Order::Little, false, ETHERNET, &packets()));
    let Some(Fact::Host(host)) = events.first().map(|event| &event.fact) else { panic!("{events:?}") };
    assert!([&host.name, &host.kernel, &host.arch, &host.boot_id].iter().all(|text| text.is_empty()));
    assert!(events.iter().any(|event| matches!(&event.fact, Fact::Mark(text) if text.contains("read from"))));
    assert!(!events.iter().any(|event| matches!(event.fact, Fact::Ioc(_))));
    for event in &events {
        if let Fact::CircuitEnds(ends) = &event.fact {
            assert_eq!((ends.namespace, ends.server, ends.client), (0, None, None));
        }
    }
}

/// Cut at every byte: what is found is a part of what is there, from its start, and the cut is said.
#[test]
fn cut_anywhere() {
    let packets: Vec<Packet> = packets().into_iter().filter(|(_, packet)| packet.len() < 400).collect();
    let truth = truth(&packets, 5074);
    let plain = pcap(Order::Big, true, ETHERNET, &packets);
    for file in [gzip(&plain), pcapng(Order::Little, 9, ETHERNET, &packets), plain] {
        let mut most = 0;
        for length in 0..file.len() {
            let (events, outcome) = read(&file[..length]);
            let found = puts(&events);
            assert!(truth.starts_with(&found), "{length}: {found:?}");
            assert!(found.len() >= most, "{length}");
            most = found.len();
            let said = complaint(&outcome);
            match outcome.errors.first().map(|error| &error.problem) {
                Some(Problem::Empty) => assert_eq!(length, 0),
                Some(Problem::NoPackets | Problem::Foreign(_)) => assert_eq!(outcome.packets, 0),
                Some(Problem::Cut { at }) => {
                    assert!(
                        said.contains(&format!("byte {at}"))
                            && (file[0] == 0x1f || (*at as usize) <= file.len()),
                        "{said}"
                    );
                }
                // whole packets, and then nothing
                None => assert!(outcome.packets > 0 && file[0] != 0x1f, "{length}"),
                Some(other) => panic!("{other:?}"),
            }
            if outcome.packets > 0 && !said.is_empty() {
                let noted = |event: &Event| matches!(&event.fact, Fact::Loss(loss) if loss.source == LossSource::Packets);
                assert!(events.iter().any(noted), "the log has it, too");
            }
        }
        assert_eq!(most, truth.len());
    }
}

/// Whatever is in a file: no panic, no endless loop, times that don't go back, and an end.
#[test]
fn any_bytes() {
    let packets = packets();
    let plain = [
        pcap(Order::Little, false, ETHERNET, &packets),
        pcapng(Order::Big, 9, LINKS[4], &packets),
        [pcapng(Order::Little, 6, LINKS[6], &packets), pcapng(Order::Big, 9, LINKS[11], &packets)].concat(),
    ];
    let whole: Vec<usize> = plain.iter().map(|file| puts(&read(file).0).len()).collect();
    fuzz(150, |random: &mut Random| {
        let which = random.below(plain.len());
        let mut file = plain[which].clone();
        for _ in 0..=random.below(4) {
            mutate(random, &mut file);
        }
        if random.below(3) == 0 {
            file = gzip(&file);
            if random.below(2) == 0 {
                mutate(random, &mut file);
            }
        }
        let (events, outcome) = read(&file);
        complaint(&outcome);
        let clocks = events.iter().filter_map(|event| match event.fact {
            Fact::Clock(_) => Some(event.time),
            _ => None,
        });
        let clocks: Vec<u64> = clocks.collect();
        assert!(clocks.is_sorted(), "{clocks:?}");
        assert!(puts(&events).len() <= whole[which] * 2 + 8);
    });
}

/// A block or packet that claims any length: one line with its place, and what came before.
#[test]
fn lengths_that_cannot_be() {
    let packets = packets();
    let order = Order::Little;
    let good = pcapng(order, 9, ETHERNET, &packets);
    let whole = puts(&read(&good).0);
    let bad = |kind: u32, length: u32| [&order.u32(kind)[..], &order.u32(length), &[0; 64]].concat();
    for (block, cut) in [
        (bad(6, u32::MAX), false),
        (bad(6, u32::MAX - 3), false),
        (bad(6, 0), false),
        (bad(6, 8), false),
        (bad(6, 30), false),
        (bad(1, 0x8000_0000), false),
        (bad(5, 0x8000_0000), false),
        (bad(6, 64), false),
        // nobody knows what it is, so it may be as long as it likes
        (bad(0xbad, 0xffff_fffc), true),
        (bad(0x0a0d_0d0a, 12), false),
        (bad(0xbad, 0x10_0000), true),
        // a packet of an interface that there is not
        (enhanced(order, 1, 5, b"packet", 6), false),
        (enhanced(order, u32::MAX, 5, b"packet", 6), false),
    ] {
        let (events, outcome) = read(&[&good[..], &block].concat());
        assert_eq!(puts(&events), whole);
        let said = complaint(&outcome);
        assert!(said.contains(&format!("byte {}", good.len())), "{said}");
        assert_eq!(said.contains("cut off"), cut, "{said}");
    }
    let good = pcap(order, false, ETHERNET, &packets);
    for kept in [u32::MAX, 0x8000_0000, (1 << 20) + 1] {
        let packet = [1, 0, kept, kept].map(|word| order.u32(word)).concat();
        let (events, outcome) = read(&[good.clone(), packet, vec![0; 100]].concat());
        assert_eq!(puts(&events), whole);
        assert!(complaint(&outcome).contains(&format!("damaged at byte {}", good.len())));
    }
    let damaged = {
        let mut file = gzip(&good);
        let at = file.len() - 6;
        file[at] ^= 1;
        file
    };
    assert!(complaint(&read(&damaged).1).contains("gzip data is damaged"));
}

#[test]
fn files_that_are_no_captures() {
    let told = |bytes: &[u8]| complaint(&read(bytes).1);
    assert!(told(b"").contains("is empty"));
    assert!(told(&pcap_header(Order::Little, false, 1)).contains("no packets"));
    assert!(told(&section(Order::Big)).contains("no packets"));
    assert!(told(b"#!/bin/sh\n").contains("not a capture"));
    assert!(told(b"x").contains("not a capture"));
    assert!(told(&gzip(b"some text")).contains("not a capture"));
    assert!(told(&gzip(b"")).contains("is empty"));
    assert!(told(b"\x28\xb5\x2f\xfd zstandard").contains("zstdcat"));
    assert!(told(b"snoop\0\0\0\0\0\0\x02").contains("editcap"));
    let mut old = pcap_header(Order::Little, false, 1);
    old[6] = 2;
    assert!(told(&old).contains("version 2.2"));
    let mut new = section(Order::Big);
    new[13] = 7;
    assert!(told(&new).contains("version 7.0"));
    let missing = CaptureFile::open("/nowhere/at.pcap").unwrap_err().to_string();
    assert!(missing.starts_with("/nowhere/at.pcap: "), "{missing}");
    let directory = CaptureFile::open("/tmp").unwrap_err().to_string();
    assert!(directory.contains("is a directory"), "{directory}");
}

/// Cut by a snap length: the puts are there, with what was kept of them, and what is missing counts.
#[test]
fn cut_packets() {
    let packets = packets();
    let mut file = pcap_header(Order::Little, true, 1);
    for (time, ip) in &packets {
        file.extend(pcap_packet(Order::Little, true, BEGIN + *time as i64, &linked(ETHERNET.1, ip), 96));
    }
    let (events, outcome) = read(&file);
    assert_eq!(complaint(&outcome), "");
    assert!(outcome.cut > 5 && lost(&events) > 0, "{outcome:?}");
    let whole = truth(&packets, 5074);
    let cut: Vec<i64> = puts(&events).iter().map(|put| put.0).collect();
    assert!(!cut.is_empty() && cut.iter().all(|time| whole.iter().any(|put| put.0 == *time)));
    // what is told of a value is its beginning, and that there is more
    let values = |events: &[Event]| -> Vec<(u64, u32, Vec<u8>)> {
        let value = |event: &Event| match &event.fact {
            Fact::CaPut(put) => Some((event.time, put.length, put.payload.clone())),
            _ => None,
        };
        events.iter().filter_map(value).collect()
    };
    let all = values(&read(&pcap(Order::Little, true, ETHERNET, &packets)).0);
    let mut shorter = 0;
    for (time, length, payload) in values(&events) {
        let is_part =
            |of: &&(u64, u32, Vec<u8>)| of.0 == time && of.1 == length && of.2.starts_with(&payload);
        assert!(all.iter().any(|of| is_part(&of)), "{time} {length}: {payload:?}");
        shorter += usize::from(payload.len() < length as usize);
    }
    assert!(shorter > 0, "some were cut");
    // headers alone: nothing can be said, and that is said
    let mut file = pcap_header(Order::Little, true, 1);
    for (time, ip) in &at_port(circuit(40001), 5064) {
        file.extend(pcap_packet(Order::Little, true, BEGIN + *time as i64, &linked(ETHERNET.1, ip), 54));
    }
    let (events, _) = read(&file);
    assert!(puts(&events).is_empty());
    let bytes: usize = packets.iter().map(|(_, packet)| packet.len() - 40).sum();
    assert_eq!(lost(&events), bytes as u64);
}

/// Several sections and interfaces, with units of time of their own; packets lost by the program that captured.
#[test]
fn sections_and_interfaces() {
    let packets = packets();
    let mut file = Vec::new();
    for (part, order) in packets.chunks(packets.len() / 2 + 1).zip(BOTH) {
        file.extend(section(order));
        file.extend(interface(order, 127, None));
        file.extend(interface(order, 101, Some(9)));
        // names, and a block that nobody knows
        file.extend(block(order, 4, b"\0\0\0\0"));
        file.extend(interface(order, 1, Some(0x80 | 20)));
        file.extend(block(order, 0x4000_0bad, &[7; 99]));
        for (number, (time, ip)) in part.iter().enumerate() {
            let wall = BEGIN as u64 + time;
            file.extend(match number % 3 {
                0 => enhanced(order, 1, wall, ip, usize::MAX),
                _ => {
                    let (seconds, rest) = (wall / 1_000_000_000, wall % 1_000_000_000);
                    let ticks = (seconds << 20) | ((rest << 20) / 1_000_000_000);
                    enhanced(order, 2, ticks, &linked(ETHERNET.1, ip), usize::MAX)
                }
            });
        }
        let statistics =
            [&order.u32(2)[..], &[0; 8], &option(order, 5, &order.u64(3)), &option(order, 7, &order.u64(3))];
        file.extend(block(order, 5, &statistics.concat()));
        // again, with one more
        let statistics = [&order.u32(2)[..], &[0; 8], &option(order, 5, &order.u64(4))];
        file.extend(block(order, 5, &statistics.concat()));
    }
    file.extend(enhanced(Order::Big, 0, 1 << 50, b"a frame of a wireless network", usize::MAX));
    let (events, outcome) = read(&file);
    assert_eq!(complaint(&outcome), "");
    let (found, truth) = (puts(&events), truth(&packets, 5074));
    assert_eq!(found.len(), truth.len());
    for (found, truth) in found.iter().zip(&truth) {
        assert_eq!(found.1, truth.1);
        assert!((truth.0 - found.0).abs() < 1_000, "{found:?} {truth:?}");
    }
    assert_eq!((outcome.dropped, outcome.unknown_links.get(&127)), (8, Some(&1)));
    let by = |source| {
        let count = |event: &Event| match &event.fact {
            Fact::Loss(loss) if loss.source == source => loss.count,
            _ => 0,
        };
        events.iter().map(count).sum::<u64>()
    };
    assert_eq!((by(LossSource::Packets), by(LossSource::Stream)), (9, 0));
}

/// The oldest forms of a packet, one of them without a time.
#[test]
fn old_and_simple_packets() {
    let order = Order::Big;
    let packets = packets();
    let mut file = [section(order), interface(order, 101, Some(9))].concat();
    for (number, (time, ip)) in packets.iter().enumerate() {
        let wall = BEGIN as u64 + time;
        if number % 2 == 0 {
            let words = [(wall >> 32) as u32, wall as u32, ip.len() as u32, ip.len() as u32];
            let head = [&order.u16(0)[..], &order.u16(if number == 2 { 5 } else { u16::MAX })].concat();
            file.extend(block(
                order,
                2,
                &[head, words.map(|word| order.u32(word)).concat(), ip.clone()].concat(),
            ));
        } else {
            file.extend(block(order, 3, &[&order.u32(ip.len() as u32)[..], ip].concat()));
        }
    }
    let (events, outcome) = read(&file);
    assert_eq!(complaint(&outcome), "");
    let names = |found: &[(i64, String)]| found.iter().map(|put| put.1.clone()).collect::<Vec<_>>();
    assert_eq!(names(&puts(&events)), names(&truth(&packets, 5074)));
    assert_eq!((outcome.timeless, outcome.dropped), (packets.len() as u64 / 2, 5));
}

/// A file that is older follows: the log's time goes on, its wall clock is set back.
#[test]
fn time_goes_back() {
    let first = at_port(circuit(40001), 5064);
    let second = at_port(circuit(40002), 5064);
    let files = [pcap(Order::Little, true, ETHERNET, &first), {
        let mut file = pcap_header(Order::Little, true, 1);
        for (time, ip) in &second {
            let wall = BEGIN - 3_600_000_000_000 + *time as i64;
            file.extend(pcap_packet(Order::Little, true, wall, &linked(ETHERNET.1, ip), usize::MAX));
        }
        file
    }];
    let (events, outcome) = read_all(options(), &[&files[0], &files[1]]);
    assert_eq!(outcome.went_back.0, 1);
    let mut last = 0;
    for event in &events {
        assert!(event.time >= last || matches!(event.fact, Fact::Loss(_)), "{event:?}");
        last = last.max(event.time);
    }
    let walls: Vec<i64> = puts(&events).iter().map(|put| put.0).collect();
    let (early, late) = (truth(&first, 5064), truth(&second, 5064));
    let expected: Vec<i64> =
        early.iter().map(|put| put.0).chain(late.iter().map(|put| put.0 - 3_600_000_000_000)).collect();
    assert_eq!(walls, expected);
    let mark = |event: &Event| if let Fact::Mark(text) = &event.fact { Some(text.clone()) } else { None };
    let marks: Vec<String> = events.iter().filter_map(mark).collect();
    let parts =
        ["packets are read from", "packets are read from", "begins before the end of the file before it"];
    assert_eq!(marks.len(), parts.len(), "{marks:?}");
    assert!(marks.iter().zip(parts).all(|(mark, part)| mark.contains(part)), "{marks:?}");
}

/// A circuit goes on in the next file, as tcpdump -C makes them; the time asked for ends it.
#[test]
fn several_files_and_a_part_of_them() {
    let packets = packets();
    let halves = packets.split_at(packets.len() / 2);
    let files =
        [pcap(Order::Little, true, ETHERNET, halves.0), gzip(&pcapng(Order::Big, 9, LINKS[4], halves.1))];
    let (events, outcome) = read_all(options(), &[&files[0], &files[1]]);
    assert_eq!((puts(&events), complaint(&outcome).as_str()), (truth(&packets, 5074), ""));
    assert!(!outcome.is_part);
    let duration = Some(Duration::from_millis(20));
    let (events, outcome) =
        read_all(iocrec::recorder::Options { duration, ..options() }, &[&files[0], &files[1]]);
    let end = packets[0].0 + 20 * MS;
    let early: Vec<Packet> = packets.iter().filter(|packet| packet.0 < end).cloned().collect();
    assert_eq!((puts(&events), outcome.is_part), (truth(&early, 5074), true));
    assert_eq!(outcome.packets, early.len() as u64);
}

/// Files that were put together by `cat`, plain or packed, are read as several files are, whatever their links and units of
/// time.
#[test]
fn one_file_behind_the_other() {
    let packets = packets();
    let truth = truth(&packets, 5074);
    let halves = packets.split_at(packets.len() / 2);
    for order in BOTH {
        let files = [pcap(order, true, ETHERNET, halves.0), pcap(order, false, LINKS[4], halves.1)];
        let packed = files.each_ref().map(|file| gzip(file));
        for joined in [files.concat(), packed.concat()] {
            let (events, outcome) = read(&joined);
            assert_eq!((puts(&events), complaint(&outcome).as_str()), (truth.clone(), ""));
            assert_eq!(outcome.packets, packets.len() as u64);
        }
        let cut = files[0].len() + 10;
        let (_, outcome) = read(&files.concat()[..cut]);
        assert!(complaint(&outcome).contains("is cut off"), "{}", complaint(&outcome));
        assert_eq!(outcome.packets, halves.0.len() as u64);
    }
}

/// A machine that translates addresses sees each packet twice, between other ends. The server speaks first, so the side at its
/// usual port begins before the client's side is recognized, which was opened before.
#[test]
fn both_sides_of_a_translation() {
    let side = |port: u16| {
        let mut talk = Talk::open(CLIENT, Address { port, ..SERVER }, 1448);
        talk.say(false, &version());
        talk.say(true, &[version(), named(20, 0, 0, "operator"), named(18, 1, 13, "A")].concat());
        talk.say(false, &message(18, 6, 1, 1, 11, b""));
        talk.say(true, &put(true, 11, 1, &[1.5]));
        talk.say(false, &message(19, 6, 1, 1, 1, b""));
        talk.end()
    };
    let mut both: Vec<Packet> = Vec::new();
    for ((time, outer), (_, inner)) in side(9999).into_iter().zip(side(5064)) {
        let is_of_client = outer[20..22] == CLIENT.port.to_be_bytes();
        let (first, second) = if is_of_client { (outer, inner) } else { (inner, outer) };
        both.extend([(time, first), (time + 1000, second)]);
    }
    let (events, outcome) = read(&pcap(Order::Little, true, ETHERNET, &both));
    assert_eq!((complaint(&outcome).as_str(), lost(&events)), ("", 0));
    let told = puts(&events);
    assert_eq!(told.len(), 2, "a put and its answer, once: {told:?}");
}

/// Which connections are Channel Access, where nobody says which ports are.
#[test]
fn connections_of_others() {
    let other = |port: u16, payload: &[u8]| {
        let (from, to) = (Address { port: 50_000, ..CLIENT }, Address { port, ..SERVER });
        vec![
            (1000 * MS, packet(from, to, 9, None, SYN, b"")),
            (1001 * MS, packet(to, from, 19, Some(10), SYN, b"")),
            (1002 * MS, packet(from, to, 10, Some(20), 0, payload)),
            (1003 * MS, packet(to, from, 20, Some(10), 0, b"HTTP/1.1 200 OK\r\n")),
        ]
    };
    let web = other(80, b"GET / HTTP/1.1\r\n\r\n");
    let zeros = other(9000, &[0; 64]);
    let ours = packets();
    let mixed = [web.clone(), zeros, ours.clone(), web].concat();
    let (events, outcome) = read(&pcap(Order::Little, true, ETHERNET, &mixed));
    assert_eq!(puts(&events), truth(&ours, 5074));
    assert_eq!((outcome.decoded, outcome.other_tcp, outcome.servers), ([ours.len() as u64, 0], 12, 1));
    assert_eq!(lost(&events), 0, "what others say is no loss");

    // without its opening a connection counts from the client's first words
    let joined: Vec<Packet> = ours[2..].to_vec();
    let (events, _) = read(&pcap(Order::Little, true, ETHERNET, &joined));
    assert_eq!(puts(&events).len(), truth(&ours, 5074).len());
    // without those it needs its port
    let later: Vec<Packet> = ours[4..].to_vec();
    let file = pcap(Order::Little, true, ETHERNET, &later);
    assert!(puts(&read(&file).0).is_empty());
    let ports = vec![5074];
    let (events, _) = read_all(iocrec::recorder::Options { ports, ..options() }, &[&file]);
    assert_eq!(puts(&events).len(), truth(&ours, 5074).len());
    // port 5064 needs no telling
    let later = at_port(circuit(40001), 5064)[4..].to_vec();
    assert!(!puts(&read(&pcap(Order::Little, true, ETHERNET, &later)).0).is_empty());
}

/// What comes through a pipe is there before its end.
#[test]
fn a_pipe() {
    let packets = packets();
    let truth = truth(&packets, 5074);
    for file in
        [pcap(Order::Little, true, ETHERNET, &packets), gzip(&pcapng(Order::Big, 9, ETHERNET, &packets))]
    {
        let pipe = Temporary::name();
        nix::unistd::mkfifo(&pipe.0, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let path = pipe.0.clone();
        let writer = std::thread::spawn(move || {
            let mut to = std::fs::OpenOptions::new().write(true).open(path).expect("it opens");
            for part in file.chunks(file.len() / 7) {
                to.write_all(part).expect("it is read");
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let (events, outcome) = read_open(options(), vec![CaptureFile::open(pipe.path()).expect("it opens")]);
        writer.join().expect("it writes");
        assert_eq!((puts(&events), complaint(&outcome).as_str()), (truth.clone(), ""));
    }
}

/// A UDP datagram.
fn udp(from: Address, to: Address, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((28 + payload.len() as u16).to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    packet.extend(from.ip.to_be_bytes());
    packet.extend(to.ip.to_be_bytes());
    packet.extend(from.port.to_be_bytes());
    packet.extend(to.port.to_be_bytes());
    packet.extend((8 + payload.len() as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend_from_slice(payload);
    packet
}

/// Beacons and answers to searches name servers, so that their circuits are decoded mid-stream, too; searches are facts.
#[test]
fn datagrams() {
    let later = packets()[4..].to_vec();
    let all = truth(&packets(), 5074).len();
    let everyone = Address { ip: u32::MAX, port: 5065 };
    let beacon = udp(Address { port: 40_000, ..SERVER }, everyone, &message(13, 13, 5074, 7, 0, b""));
    let to_others =
        udp(Address { port: 40_000, ..SERVER }, everyone, &message(13, 13, 5074, 7, 0x0a00_0063, b""));
    let asking = Address { port: 50_000, ..CLIENT };
    let search = udp(
        asking,
        Address { port: 5064, ..SERVER },
        &[version(), named(6, 3, 3, "LINAC:MAG1:CUR")].concat(),
    );
    let found = [version(), message(6, 5074, 0, u32::MAX, 3, &13u64.to_be_bytes())].concat();
    let answer = udp(Address { port: 5064, ..SERVER }, asking, &found);
    let file = |first: &[&Vec<u8>]| {
        let first = first.iter().map(|packet| (500 * MS, (*packet).clone()));
        pcap(Order::Little, true, ETHERNET, &first.chain(later.clone()).collect::<Vec<_>>())
    };
    for (first, puts_found) in
        [(vec![], 0), (vec![&to_others], 0), (vec![&beacon], all), (vec![&search, &answer], all)]
    {
        let (events, outcome) = read(&file(&first));
        assert_eq!((puts(&events).len(), complaint(&outcome).as_str()), (puts_found, ""), "{first:?}");
        assert_eq!((outcome.datagrams, outcome.udp), (first.len() as u64, 0));
        let has = |name| events.iter().any(|event| event.fact.kind().name == name);
        assert_eq!((has("beacons"), has("searches")), (first.len() == 1, first.len() == 2), "{first:?}");
    }
    let other = udp(Address { port: 53, ..SERVER }, asking, b"a name server's");
    assert_eq!(read(&file(&[&other])).1.udp, 1);
}

/// Of datagrams over IPv6 in parts nothing is read, but they are counted; those behind other headers are read.
#[test]
fn hidden_datagrams() {
    let ip = |next: u8, inside: &[&[u8]]| {
        let inside = inside.concat();
        let mut bytes = vec![0x60, 0, 0, 0];
        bytes.extend((inside.len() as u16).to_be_bytes());
        bytes.extend([next, 64]);
        bytes.extend([&[0xfd][..], &[0; 14], &[5], &[0xff, 2], &[0; 13], &[1]].concat());
        bytes.extend(inside);
        (500 * MS, bytes)
    };
    let datagram: &[u8] = &[0x9c, 0x41, 0x13, 0xd4, 0, 20, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    let (first, last) = datagram.split_at(16);
    let packets = [
        ip(44, &[&[17, 0, 0, 1, 0, 0, 0, 10], first]),
        ip(44, &[&[17, 0, 0, 16, 0, 0, 0, 10], last]),
        ip(60, &[&[17, 0, 1, 4, 0, 0, 0, 0], &[0x9c, 0x41, 0, 53, 0, 20, 0, 0], &datagram[8..]]),
        ip(58, &[datagram]),
    ];
    let (_, outcome) = read(&pcap(Order::Little, true, (101, b""), &packets));
    assert_eq!((outcome.hidden_udp, outcome.other_ip, outcome.udp), (2, 1, 1));
}

/// A file of some kilobytes that unpacks to gigabytes: memory stays small, and a signal or another file gets its turn.
#[test]
fn what_is_packed_far_too_well() {
    let (order, packets) = (Order::Little, packets());
    let good = pcapng(order, 9, ETHERNET, &packets);
    // 4 GiB that claim to be a block of which nobody knows what it is, as far as they are there
    let zeros = vec![0; 64 << 20];
    let bomb = [good.clone(), [order.u32(0xbad), order.u32(0xffff_fffc)].concat(), zeros.clone()].concat();
    let file = Temporary::new(&gzip(&bomb));
    let size = std::fs::metadata(&file.0).expect("it is there").len();
    assert!(size < 200_000, "{size}");
    let mut open = CaptureFile::open(file.path()).expect("it opens");
    let (mut turns, mut found) = (0, 0);
    let end = loop {
        match open.read() {
            Ok(iocrec::net::capture_file::Next::Packet(_)) => found += 1,
            Ok(iocrec::net::capture_file::Next::Nothing) => turns += 1,
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
    };
    assert_eq!((found, turns > 5), (packets.len(), true), "{turns} turns");
    assert!(matches!(end.problem, Problem::Cut { .. }), "{end}");
    // zeros as packets: each of no bytes, at the beginning of time
    let file = gzip(&[pcap_header(order, true, 1), vec![0; 16 * 100_000]].concat());
    let (events, outcome) = read(&file);
    assert_eq!((outcome.packets, outcome.too_short, puts(&events).len()), (100_000, 100_000, 0));
    // members that hold nothing, without end
    let file = [gzip(&good), gzip(b"").repeat(100_000)].concat();
    let (events, outcome) = read(&file);
    assert_eq!((puts(&events).len(), complaint(&outcome).as_str()), (truth(&packets, 5074).len(), ""));
}

/// A clock that jumps by years, forth and back: each put has the time of its packet, and the log's time never goes back.
#[test]
fn clocks_that_jump() {
    const YEAR: i64 = 31_557_600_000_000_000;
    let packets = at_port(circuit(40001), 5064);
    let order = Order::Little;
    let walls = |number: usize, time: u64| {
        let far = if number.is_multiple_of(7) { 20 * YEAR } else { 0 };
        // after 2026: clocks before that count as never set
        BEGIN + 20 * YEAR - 5 * YEAR * i64::from(number % 11 == 3) + far + time as i64
    };
    let mut file = [section(order), interface(order, 101, Some(9))].concat();
    let mut all = Vec::new();
    for (number, (time, ip)) in packets.iter().enumerate() {
        all.push(walls(number, *time));
        file.extend(enhanced(order, 0, walls(number, *time) as u64, ip, usize::MAX));
    }
    let (events, outcome) = read(&file);
    assert_eq!(complaint(&outcome), "");
    assert!(outcome.went_back.0 > 3 && outcome.went_back.1 > YEAR as u64, "{:?}", outcome.went_back);
    let mut last = 0;
    for event in &events {
        assert!(event.time + 1_000_000_000 >= last || matches!(event.fact, Fact::Loss(_)), "{event:?}");
        last = last.max(event.time);
    }
    let found = puts(&events);
    assert!(!found.is_empty());
    for (wall, put) in &found {
        assert!(all.contains(wall), "{wall} {put}");
    }
}

/// Interfaces with links and units of time of their own, packet by packet, one of them of an unknown type.
#[test]
fn interfaces_in_turn() {
    let (order, packets) = (Order::Big, packets());
    let mut file = section(order);
    for (number, (link, _)) in LINKS.iter().enumerate() {
        file.extend(interface(order, *link, Some([9, 6, 0x80 | 30][number % 3])));
    }
    file.extend(interface(order, 127, Some(9)));
    for (number, (time, ip)) in packets.iter().enumerate() {
        let at = number % LINKS.len();
        let wall = BEGIN as u64 + time;
        let (seconds, rest) = (wall / 1_000_000_000, wall % 1_000_000_000);
        let ticks = [wall, wall / 1000, (seconds << 30) | ((rest << 30) / 1_000_000_000)][at % 3];
        file.extend(enhanced(order, at as u32, ticks, &linked(LINKS[at].1, ip), usize::MAX));
        file.extend(enhanced(order, LINKS.len() as u32, wall, b"a radio's", usize::MAX));
    }
    let (events, outcome) = read(&file);
    assert_eq!(complaint(&outcome), "");
    let (found, truth) = (puts(&events), truth(&packets, 5074));
    let texts = |of: &[(i64, String)]| of.iter().map(|put| put.1.clone()).collect::<Vec<_>>();
    assert_eq!(texts(&found), texts(&truth));
    assert!(found.iter().zip(&truth).all(|(a, b)| (b.0 - a.0).abs() < 1_000));
    assert_eq!(outcome.unknown_links.get(&127), Some(&(packets.len() as u64)));
    assert_eq!(lost(&events), packets.len() as u64, "those, and nothing else");
}

/// The same packets on loopback addresses.
fn on_loopback(mut packets: Vec<Packet>) -> Vec<Packet> {
    for (_, packet) in &mut packets {
        packet[12..20].copy_from_slice(&[127, 0, 0, 1, 127, 0, 0, 1]);
    }
    packets
}

/// Whose loopback addresses are, a file of several interfaces does not say; that is said. Those of one are not doubted.
#[test]
fn several_loopback_interfaces() {
    let order = Order::Little;
    let (first, second) = (on_loopback(circuit(40001)), on_loopback(circuit(40002)));
    let file = |interfaces: u32| {
        let mut file = section(order);
        (0..interfaces).for_each(|_| file.extend(interface(order, 101, Some(9))));
        for (number, packets) in [&first, &second].into_iter().enumerate() {
            for (time, ip) in packets {
                let at = number as u32 % interfaces;
                let wall = BEGIN as u64 + time + number as u64 * 10_000_000_000;
                file.extend(enhanced(order, at, wall, ip, usize::MAX));
            }
        }
        file
    };
    let said = |events: &[Event]| {
        events
            .iter()
            .any(|event| matches!(&event.fact, Fact::Mark(text) if text.contains("not whose they are")))
    };
    let (events, outcome) = read(&file(2));
    assert_eq!((outcome.loopbacks, said(&events)), (2, true));
    let (events, outcome) = read(&file(1));
    assert_eq!((outcome.loopbacks, said(&events)), (1, false));
    // files that follow each other are one machine's; those that overlap may be anybody's
    let [one, two] = [&first, &second].map(|packets| pcap(order, true, LINKS[7], packets));
    let (events, outcome) = read_all(options(), &[&one, &two]);
    assert_eq!((outcome.loopbacks, said(&events)), (1, false), "at the same times");
    let late: Vec<Packet> = first.iter().map(|(time, ip)| (time + 3_600_000_000_000, ip.clone())).collect();
    let late = pcap(order, true, LINKS[7], &late);
    let (events, outcome) = read_all(options(), &[&late, &two]);
    assert_eq!((outcome.loopbacks, said(&events)), (2, true));
}

/// The same connection with other sequence numbers, as on another machine.
fn with_other_numbers(mut packets: Vec<Packet>) -> Vec<Packet> {
    for (_, packet) in &mut packets {
        let from_server = packet[20..22] == SERVER.port.to_be_bytes();
        for (at, of_server) in [(24, from_server), (28, !from_server)] {
            let number = u32::from_be_bytes(packet[at..at + 4].try_into().unwrap());
            let other = number.wrapping_add(if of_server { 0x3000_0000 } else { 0x9000_0000 });
            packet[at..at + 4].copy_from_slice(&other.to_be_bytes());
        }
    }
    packets
}

/// Connections of two machines between the same loopback addresses and ports, at the same time: each has its puts. What
/// is seen on two interfaces counts once.
#[test]
fn loopbacks_of_two_machines() {
    let order = Order::Little;
    let one = on_loopback(circuit(40001));
    let other = with_other_numbers(one.clone());
    let file = |machines: &[(u32, &[Packet])]| {
        let mut file = section(order);
        (0..4).for_each(|_| file.extend(interface(order, 101, Some(9))));
        for at in 0..one.len() {
            for (number, (interface, packets)) in machines.iter().enumerate() {
                let (time, ip) = &packets[at];
                let wall = BEGIN as u64 + time + number as u64 * 1000;
                file.extend(enhanced(order, *interface, wall, ip, usize::MAX));
            }
        }
        file
    };
    let count = |machines: &[(u32, &[Packet])]| {
        let (events, outcome) = read(&file(machines));
        assert_eq!(complaint(&outcome), "");
        puts(&events).len()
    };
    let alone = count(&[(0, &one)]);
    assert!(alone > 0);
    assert_eq!(count(&[(0, &one), (1, &one)]), alone, "the same packets");
    assert_eq!(count(&[(0, &one), (1, &other)]), 2 * alone, "two machines");
    assert_eq!(count(&[(0, &one), (1, &other), (2, &one), (3, &other)]), 2 * alone, "each on two interfaces");
}

/// Tunnels and fragments give what the packets in them give.
#[test]
fn tunnels_and_fragments() {
    let packets = packets();
    let truth = truth(&packets, 5074);
    let ip = |protocol: u8, number: u16, flags: u16, inside: &[u8]| {
        let mut bytes = vec![0x45, 0];
        bytes.extend((20 + inside.len() as u16).to_be_bytes());
        bytes.extend(number.to_be_bytes());
        bytes.extend(flags.to_be_bytes());
        bytes.extend([64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        [&bytes, inside].concat()
    };
    let mut cut = Vec::new();
    for (number, (time, packet)) in packets.iter().enumerate() {
        let inside = [&[0, 0, 8, 0][..], packet].concat();
        let parts: Vec<&[u8]> = inside.chunks(400).collect();
        for (at, part) in parts.iter().enumerate() {
            let flags = (at * 400 / 8) as u16 | u16::from(at + 1 < parts.len()) << 13;
            cut.push((*time, ip(47, number as u16, flags, part)));
        }
    }
    assert!(cut.len() > packets.len() + 20);
    let (events, outcome) = read(&pcap(Order::Little, true, ETHERNET, &cut));
    assert_eq!(puts(&events), truth);
    assert_eq!((outcome.fragments, lost(&events)), (0, 0));
    assert_eq!(outcome.decoded, [packets.len() as u64, 0]);
    // without the last part of one, that one counts
    let is_last = |packet: &[u8]| packet[6] & 0x20 == 0 && (packet[6], packet[7]) != (0, 0);
    let missing = cut.iter().position(|(_, packet)| is_last(packet)).expect("a part");
    cut.remove(missing);
    let (events, outcome) = read(&pcap(Order::Little, true, ETHERNET, &cut));
    assert!(lost(&events) > 0);
    assert_eq!(outcome.fragments, 1);
}
