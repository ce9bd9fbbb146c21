//! The stateful filter, run by the kernel, against the decoder of PVAccess: what it leaves out never changes the log of
//! puts, nor what a put's fields are called.

use crate::not_run::{not_run, Needs};
use crate::wire::*;
use iocrec::net::frames::Frame;
use iocrec::net::packet::Segment;
use iocrec::net::protocol::{Decoder as _, Side};
use iocrec::net::service::Ports;
use iocrec::net::stateful::Stateful;
use iocrec::pva::{Decoder, Limits, SERVICE};
use iocrec_log::event::{Address, Event, Fact, PvaKind};
use iocrec_testing::chance::{fuzz, Random};
use std::cell::Cell;
use std::collections::HashMap;

/// Bytes of a put's value that are kept here.
const KEPT: u32 = 64;
/// The longest segment: the kernel runs programs on short packets only.
const LONGEST: usize = 3000;
/// The IP and TCP headers.
const HEADERS: usize = 40;
/// What may lie between those over IPv6: nothing, options, a route.
const BETWEEN: [Option<(u8, u8)>; 4] = [None, Some((0, 0)), Some((60, 2)), Some((43, 0))];

fn load() -> Option<Stateful> {
    iocrec::bpf::raise_limits();
    match Stateful::load(4096) {
        Ok(mut filter) => {
            filter.keep(KEPT);
            filter.take_incoming();
            filter.watch(&Ports::of(&SERVICE, &[SERVER.port]), &[]);
            Some(filter)
        }
        Err(error) => {
            not_run("pva::stateful", Needs::root_or_kernel(error.to_string()));
            None
        }
    }
}

fn decoder(filtered: bool) -> Decoder {
    let mut decoder = Decoder::new(Limits { payload: KEPT as usize, filtered, ..Limits::default() });
    serve(&mut decoder);
    decoder
}

/// One connection, seen by a decoder behind the filter and by another that sees everything.
struct Both<'a> {
    filter: &'a Stateful,
    client: Address,
    /// With this between the headers, if it is over IPv6.
    ipv6: Option<Option<(u8, u8)>>,
    time: u64,
    seq: [u32; 2],
    filtered: (Decoder, Vec<Event>),
    whole: (Decoder, Vec<Event>),
    /// Bytes that passed.
    passed: usize,
}

impl<'a> Both<'a> {
    fn new(filter: &'a Stateful, seq: [u32; 2]) -> Both<'a> {
        thread_local!(static PORT: Cell<u16> = const { Cell::new(0) });
        // each test has a filter of its own
        let port = PORT.with(|port| port.replace(port.get().wrapping_add(1)));
        let client = Address { port: 10_000 + port % 50_000, ..CLIENT };
        let (filtered, whole) = ((decoder(true), Vec::new()), (decoder(false), Vec::new()));
        Both { filter, client, ipv6: None, time: 1000 * MS, seq, filtered, whole, passed: 0 }
    }

    /// Over either version of IP, by chance.
    fn any_ip(self, random: &mut Random) -> Both<'a> {
        let between = BETWEEN[random.below(BETWEEN.len())];
        Both { ipv6: (random.below(2) == 0).then_some(between), ..self }
    }

    fn open(&mut self) {
        let [client, server] = self.seq;
        self.raw(true, client.wrapping_sub(1), SYN, b"");
        self.raw(false, server.wrapping_sub(1), SYN, b"");
    }

    fn raw(&mut self, from_client: bool, seq: u32, flags: u8, payload: &[u8]) {
        let (from, to) = if from_client { (self.client, SERVER) } else { (SERVER, self.client) };
        let ack = (flags != SYN || !from_client).then_some(self.seq[usize::from(from_client)]);
        let mut packet = packet(from, to, seq, ack, flags, payload);
        if let Some(between) = self.ipv6 {
            packet = over_ipv6(&packet, between);
        }
        self.time += MS;
        let segment = Frame::read(&packet, packet.len()).segment.expect("a segment");
        self.whole.0.segment(0, self.time, &segment, &mut self.whole.1);
        let passed =
            [Side::Client, Side::Server].map(|side| self.filter.try_on(side, &packet).expect("it runs"));
        assert_eq!(passed[usize::from(from_client)], 0, "it is for the other program");
        let kept = &packet[..packet.len().min(passed[usize::from(!from_client)] as usize)];
        if !kept.is_empty() {
            self.passed += kept.len();
            let place = self.filter.place(&packet);
            let segment = Segment { place, ..Frame::read(kept, packet.len()).segment.expect("a segment") };
            self.filtered.0.segment(0, self.time, &segment, &mut self.filtered.1);
        }
    }

    fn send(&mut self, from_client: bool, payload: &[u8]) {
        let side = usize::from(!from_client);
        let seq = self.seq[side];
        self.seq[side] = seq.wrapping_add(payload.len() as u32);
        self.raw(from_client, seq, 0, payload);
    }

    /// In segments of this length.
    fn send_all(&mut self, from_client: bool, bytes: &[u8], longest: usize) {
        bytes.chunks(longest).for_each(|part| self.send(from_client, part));
    }

    /// Gives both the time to give up what they wait for.
    fn end(&mut self) {
        for (decoder, out) in [&mut self.whole, &mut self.filtered] {
            decoder.tick(self.time + 2000 * MS, out);
            decoder.tick(self.time + 4000 * MS, out);
            decoder.finish(self.time + 4000 * MS, out);
        }
    }
}

fn is_loss(event: &Event) -> bool {
    matches!(event.fact, Fact::Loss(_))
}

/// Everything but losses.
fn facts(out: &[Event]) -> Vec<String> {
    out.iter().filter(|event| !is_loss(event)).map(|event| words(&event.fact)).collect()
}

/// The puts: the channel's name, the number that makes it unique, its length; and the structure of its value if known.
fn puts(out: &[Event]) -> Vec<(String, u64, u32, Option<Vec<u8>>)> {
    let (mut names, mut types, mut found) = (HashMap::new(), HashMap::new(), Vec::new());
    for event in out {
        match &event.fact {
            Fact::Channel(channel) => _ = names.insert(channel.id, channel.pv.clone()),
            Fact::PvaType(of) => _ = types.insert(of.id, of.description.clone()),
            Fact::PvaPut(put) if put.kind == PvaKind::Put => {
                // a set of one byte, then the number
                let number = put
                    .value
                    .bytes
                    .get(2..10)
                    .map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight")));
                let of = put.value.types.first().and_then(|id| types.get(id)).cloned();
                found.extend(number.map(|number| {
                    (names.get(&put.channel).cloned().unwrap_or_default(), number, put.value.length, of)
                }));
            }
            _ => {}
        }
    }
    found
}

/// A structure with an unsigned 64-bit field of a name that tells the number, with that number on the wire or whole.
fn structure(number: u16, defines: bool) -> Vec<u8> {
    let name = string(&format!("field{number}"));
    let whole = [&[0x80, 0, 1][..], &name, &[0x27]].concat();
    let [low, high] = number.to_le_bytes();
    if defines {
        [&[0xfd, low, high][..], &whole].concat()
    } else {
        whole
    }
}

/// A message of either side in two to five segments, with control messages and empty ones between.
fn segments(random: &mut Random, flags: u8, command: u8, payload: &[u8]) -> Vec<u8> {
    let mut rest = payload;
    let mut all = Vec::new();
    let parts = 2 + random.below(3);
    for number in 0..parts {
        let most = if number == 0 && random.below(3) > 0 { rest.len().min(30) } else { rest.len() };
        let (part, others) =
            rest.split_at(if number + 1 == parts { rest.len() } else { random.below(most + 1) });
        rest = others;
        let place = if number == 0 {
            0x10
        } else if number + 1 == parts {
            0x20
        } else {
            0x30
        };
        all.extend(message(flags | place, command, part));
        if random.below(3) == 0 {
            all.extend(message(flags & 0xc0 | 1, random.below(3) as u8, b""));
        }
    }
    all
}

/// Bytes of an image: some look like messages.
fn image(random: &mut Random, deceives: bool) -> Vec<u8> {
    let length = match random.below(4) {
        0 => random.below(30),
        1 => 60_000 + random.below(20_000),
        _ => random.below(9000),
    };
    let mut bytes = vec![random.next() as u8; length];
    let inside = [answer(11, 9, 0, &[0xff]), answer(13, 9, 8, &[&[0xff], SCALAR].concat())].concat();
    if deceives && random.below(2) == 0 {
        bytes = inside.repeat(1 + length / inside.len());
    }
    bytes
}

/// What a server sends that is nothing to the log: updates and answers to gets.
fn bulk(random: &mut Random, deceives: bool) -> Vec<u8> {
    let command = [13, 13, 13, 10][random.below(4)];
    let flags = [0x40, 0x40, 0x40, 0xc0][random.below(4)];
    match random.below(5) {
        0 => answer(command, 7, 0, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0]).repeat(1 + random.below(40)),
        1 => {
            let payload = [&7u32.to_le_bytes()[..], &[0], &image(random, deceives)].concat();
            segments(random, flags, command, &payload)
        }
        _ => message(
            flags,
            command,
            &[&7u32.to_le_bytes()[..], &[0x10 * random.below(2) as u8], &image(random, deceives)].concat(),
        ),
    }
}

/// What a client says besides its puts.
fn aside(random: &mut Random) -> Vec<u8> {
    match random.below(6) {
        0 => message(0, 2, &vec![1; random.below(9)]),
        1 => request(13, 11, 7, 0x80, &4u32.to_le_bytes()),
        2 => request(13, 11, 7, 0x44, b""),
        3 => message(1, 0, b""),
        4 => request(10, 11, 8, 0, b""),
        // a call with arguments
        _ => request(20, 11, 6, 0, &[WHOLE, &vec![7; 8 + random.below(6000)]].concat()),
    }
}

/// What both say, in turns.
fn dialogue(random: &mut Random, deceives: bool) -> Vec<(bool, Vec<u8>)> {
    let mut said = vec![(false, message(0x41, 2, b"")), (true, identity("operator", "console"))];
    let mut number = 1000u64;
    let (mut ioid, mut types, mut requests) = (100, 0u16, Vec::new());
    for channel in 1..=3 {
        said.push((true, create(channel, &format!("LINAC:MAG{channel}"))));
        said.push((false, created(channel, 10 + channel)));
    }
    for _ in 0..6 + random.below(20) {
        let sid = 11 + random.below(3) as u32;
        if requests.is_empty() || random.below(3) == 0 {
            ioid += 1;
            // defined, whole, or known by its number: sometimes by the answer to the INIT of a monitor or get
            let kind = match random.below(3) {
                0 => structure(900 + random.below(20) as u16, false),
                1 if types > 0 => {
                    let [low, high] = (1 + random.below(types.into()) as u16).to_le_bytes();
                    vec![0xfe, low, high]
                }
                _ => {
                    types += 1;
                    structure(types, true)
                }
            };
            let other = [11, 13, 10][random.below(3)];
            if other != 11 && kind[0] == 0xfd {
                said.push((true, request(other, sid, 50, 8, NO_OPTIONS)));
                let payload = [&50u32.to_le_bytes()[..], &[8, 0xff], &kind].concat();
                said.push((
                    false,
                    if random.below(3) == 0 {
                        segments(random, 0x40, other, &payload)
                    } else {
                        message(0x40, other, &payload)
                    },
                ));
                continue;
            }
            said.push((true, request(11, sid, ioid, 8, NO_OPTIONS)));
            said.push((false, answer(11, ioid, 8, &[&[0xff][..], &kind].concat())));
            requests.push((sid, ioid));
        }
        let (sid, ioid) = requests[random.below(requests.len())];
        number += 1;
        let more =
            [0, 0, 0, random.below(300), random.below(9000), 60_000 + random.below(30_000)][random.below(6)];
        let value = [&[1, 2][..], &number.to_le_bytes(), &vec![random.next() as u8; more]].concat();
        let payload = [&sid.to_le_bytes()[..], &ioid.to_le_bytes(), &[0], &value].concat();
        said.push((
            true,
            match random.below(4) {
                0 => segments(random, 0, 11, &payload),
                _ => message(0, 11, &payload),
            },
        ));
        for _ in 0..random.below(5) {
            let bytes = bulk(random, deceives);
            said.push((false, bytes));
        }
        said.push((
            false,
            match random.below(5) {
                0 => answer(11, ioid, 0, &[&[2][..], &string("Put not permitted"), &string("")].concat()),
                1 => answer(11, ioid, 0x40, &[&[0xff, 1, 2][..], &vec![9; random.below(3000)]].concat()),
                2 => message(0x40, 18, &[&ioid.to_le_bytes()[..], &[1], &string("slow")].concat()),
                _ => answer(11, ioid, 0, &[0xff]),
            },
        ));
        if random.below(3) == 0 {
            let bytes = aside(random);
            said.push((true, bytes));
        }
    }
    said
}

/// In order, nothing lost: every fact is the same, and there are no losses.
#[test]
fn what_it_leaves_out_changes_nothing() {
    let Some(filter) = load() else { return };
    let (mut passed, mut all, mut put) = (0, 0, 0);
    fuzz(400, |random: &mut Random| {
        let said = dialogue(random, true);
        let sequence = [random.next() as u32, random.next() as u32];
        let mut both = Both::new(&filter, sequence).any_ip(random);
        both.open();
        for (from_client, part) in as_tcp_sends(random, &said, [LONGEST; 2]) {
            all += part.len();
            both.send(from_client, &part);
        }
        both.end();
        assert_eq!(facts(&both.filtered.1), facts(&both.whole.1));
        let losses: Vec<_> = both.filtered.1.iter().filter(|event| is_loss(event)).collect();
        assert!(losses.is_empty(), "{losses:?}");
        passed += both.passed;
        put += puts(&both.filtered.1).len();
    });
    println!("{passed} of {all} bytes passed, {put} puts");
    assert!(
        std::env::var("FUZZ_SEED").is_ok() || (passed < all / 2 && put > 2000),
        "{passed} of {all}, {put}"
    );
}

/// Out of order, sent again, lost on the way: no put is made up or has others' fields, and none is missing that is not
/// counted.
#[test]
fn whatever_happens_on_the_way_the_puts_are_the_same() {
    let Some(filter) = load() else { return };
    let (mut all, mut named) = (0, 0);
    fuzz(400, |random: &mut Random| {
        let said = dialogue(random, false);
        let loses = random.below(2) == 0;
        let sequence = [random.next() as u32, random.next() as u32];
        let mut both = Both::new(&filter, sequence).any_ip(random);
        both.open();
        let mut sequence = both.seq;
        let mut order = Vec::new();
        let mut lost = false;
        for (at, (from_client, part)) in as_tcp_sends(random, &said, [LONGEST; 2]).into_iter().enumerate() {
            let side = usize::from(!from_client);
            let segment = (from_client, sequence[side], part);
            sequence[side] = sequence[side].wrapping_add(segment.2.len() as u32);
            match random.below(30) {
                0 => order.push((at + 1 + random.below(4), segment)),
                1 => order.extend([(at, segment.clone()), (at + 1 + random.below(4), segment)]),
                2 if loses && at > 8 => lost = true,
                _ => order.push((at, segment)),
            }
        }
        order.sort_by_key(|(at, _)| *at);
        for (_, (from_client, seq, part)) in order {
            both.raw(from_client, seq, 0, &part);
        }
        both.end();
        let mut plain = (decoder(false), Vec::new());
        let mut talk = Talk::open(CLIENT, SERVER, 60_000);
        said.iter().for_each(|(from_client, bytes)| talk.say(*from_client, bytes));
        for (time, packet) in talk.end() {
            plain.0.packet(0, time, &packet, packet.len(), &mut plain.1);
        }
        let (made, whole, filtered) = (puts(&plain.1), puts(&both.whole.1), puts(&both.filtered.1));
        let counted = both.filtered.1.iter().any(is_loss);
        if !lost {
            let what = |all: &[(String, u64, u32, Option<Vec<u8>>)]| -> Vec<_> {
                all.iter().map(|put| (put.0.clone(), put.1, put.2)).collect()
            };
            assert_eq!(what(&filtered), what(&whole));
        }
        let mut rest = made.iter();
        for (name, number, length, of) in &filtered {
            let truth = rest.find(|put| put.1 == *number);
            let truth = truth.unwrap_or_else(|| panic!("{number} was made up, or came twice"));
            // a put may overtake the answer that tells its channel's number
            assert!(truth.0 == *name || name.is_empty(), "put {number} went to {}, not to {name:?}", truth.0);
            assert_eq!(truth.2, *length, "put {number}");
            assert!(of.is_none() || *of == truth.3, "put {number} has {of:?}, not {:?}", truth.3);
            named += usize::from(of.is_some() || truth.3.is_none());
        }
        all += filtered.len();
        assert!(filtered.len() == made.len() || counted, "{} of {} puts", filtered.len(), made.len());
    });
    println!("{named} of {all} puts have their structure");
    // two thirds as a rule, a little more or less by chance
    assert!(std::env::var("FUZZ_SEED").is_ok() || named > all / 2, "{named} of {all}");
}

/// Bulk leaves the flow as nothing, an answer behind it is found, and of a long put passes what is kept.
#[test]
fn images_are_left_out() {
    let Some(filter) = load() else { return };
    images(Both::new(&filter, [1000, 5000]), HEADERS);
}

/// The same over IPv6.
#[test]
fn images_are_left_out_over_ipv6() {
    let Some(filter) = load() else { return };
    for (between, length) in BETWEEN.into_iter().zip([0, 8, 24, 8]) {
        let both = Both { ipv6: Some(between), ..Both::new(&filter, [1000, 5000]) };
        images(both, HEADERS + 20 + length);
    }
}

fn images(mut both: Both, headers: usize) {
    both.open();
    both.send(false, &message(0x41, 2, b""));
    both.send(true, &[identity("operator", "console"), create(1, "T:AO")].concat());
    both.send(true, &request(11, 2, 3, 8, NO_OPTIONS));
    both.send(false, &[created(1, 2), answer(11, 3, 8, &[&[0xff], SCALAR].concat())].concat());
    both.send(false, &answer(13, 7, 8, &[&[0xff], SCALAR].concat()));
    both.send(false, &answer(13, 7, 0, &[9; 20]).repeat(3));
    let image = vec![0xca; 200_000];
    let first = [&7u32.to_le_bytes()[..], &[0, 1, 2, 6], &200_000u32.to_le_bytes()[..3]].concat();
    let in_segments =
        [message(0x50, 13, &first), message(0x41, 0, b""), message(0x70, 13, &image), message(0x60, 13, b"")]
            .concat();
    let passed = both.passed;
    both.send_all(false, &answer(13, 7, 0, &image), 1448);
    both.send_all(false, &answer(10, 8, 0, &image), 1448);
    // the control message may matter
    both.send_all(false, &message(0x50, 13, &first), 1448);
    both.send_all(false, &[message(0x70, 13, &image), message(0x60, 13, b"")].concat(), 1448);
    assert_eq!(both.passed, passed, "updates");
    // a put, and its answer behind an image in segments, in the last packet
    both.send(true, &request(11, 2, 3, 0, &[&[1, 2][..], &3.5f64.to_le_bytes()].concat()));
    let put = headers + 8 + 9 + 10;
    let rest = both.passed;
    let all = [in_segments, answer(11, 3, 0, &[0xff])].concat();
    both.send_all(false, &all, 1448);
    assert_eq!(rest - passed, put);
    let control = headers + 8 + 11 + 8;
    assert_eq!(both.passed - rest, control + headers + all.len() % 1448);
    // of a long put as much as is kept, and the headers of its end
    let passed = both.passed;
    both.send_all(true, &request(11, 2, 3, 0, &[&[1, 2][..], &[7; 9000]].concat()), 1448);
    assert_eq!(both.passed - passed, headers + 17 + KEPT as usize + headers);
    both.end();
    assert_eq!(facts(&both.filtered.1), facts(&both.whole.1));
    let losses: Vec<_> = both.filtered.1.iter().filter(|event| is_loss(event)).collect();
    assert!(losses.is_empty(), "{losses:?}");
    let said = facts(&both.filtered.1);
    assert!(said.iter().any(|fact| fact.starts_with("Put answered 0")), "{said:#?}");
}

/// A recorder that joins while images are sent knows the flow once one begins with its segment.
#[test]
fn images_are_left_out_of_what_is_joined() {
    let Some(filter) = load() else { return };
    let mut both = Both::new(&filter, [1000, 5000]);
    let image = answer(13, 7, 0, &[7; 100_000]);
    both.send_all(false, &image[50_000..], 1448);
    let passed = both.passed;
    assert!(passed > 50_000);
    both.send_all(false, &image, 1448);
    assert_eq!(both.passed - passed, HEADERS + 1448, "its first segment");
    both.send_all(false, &[image.clone(), answer(11, 3, 0, &[0xff])].concat(), 1448);
    both.end();
    let said = facts(&both.filtered.1);
    assert!(said.iter().any(|fact| fact.starts_with("Put answered 0")), "{said:#?}");
}
