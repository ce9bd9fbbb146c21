//! The stateful filter, run by the kernel, against the decoder: what it leaves out never changes the log of puts.

use crate::not_run::{not_run, Needs};
use crate::wire::*;
use iocrec::ca::{Decoder, Limits, SERVICE};
use iocrec::net::counts::Connection;
use iocrec::net::packet::Segment;
use iocrec::net::protocol::Side;
use iocrec::net::service::Ports;
use iocrec::net::stateful::Stateful;
use iocrec_log::event::{Address, Event, Fact};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeMap;

/// Bytes of a put that are kept here: the kernel runs programs on short packets only.
const KEPT: u32 = 64;
/// The longest segment.
const LONGEST: usize = 3000;

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
            not_run("ca::stateful", Needs::root_or_kernel(error.to_string()));
            None
        }
    }
}

/// A decoder behind the filter.
struct Filtered<'a> {
    filter: &'a Stateful,
    decoder: Decoder,
    out: Vec<Event>,
    passed: usize,
}

impl<'a> Filtered<'a> {
    fn new(filter: &'a Stateful) -> Filtered<'a> {
        let mut decoder = Decoder::new(Limits { payload: KEPT, filtered: true, ..Limits::default() });
        serve(&mut decoder, &[SERVER.port]);
        Filtered { filter, decoder, out: Vec::new(), passed: 0 }
    }

    fn packet(&mut self, time: u64, from_client: bool, packet: &[u8]) {
        let passed =
            [Side::Client, Side::Server].map(|side| self.filter.try_on(side, packet).expect("it runs"));
        assert!(passed[usize::from(from_client)] == 0, "it is for the other program");
        let kept = &packet[..packet.len().min(passed[usize::from(!from_client)] as usize)];
        if kept.is_empty() {
            return;
        }
        self.passed += kept.len();
        let place = self.filter.place(packet);
        let segment = Segment { place, ..Segment::parse(kept, packet.len()).expect("a segment") };
        self.decoder.segment(0, time, &segment, &mut self.out);
    }
}

/// One connection, seen by a decoder behind the filter and by another that sees everything.
struct Both<'a> {
    whole: Wire,
    filtered: Filtered<'a>,
}

impl<'a> Both<'a> {
    fn new(filter: &'a Stateful, port: u16) -> Both<'a> {
        let mut whole = Wire::with(Limits { payload: KEPT, ..Limits::default() });
        whole.client = Address { port, ..CLIENT };
        Both { whole, filtered: Filtered::new(filter) }
    }

    fn raw(&mut self, from_client: bool, seq: u32, ack: Option<u32>, flags: u8, payload: &[u8]) {
        let w = &mut self.whole;
        let (from, to) = if from_client { (w.client, w.server) } else { (w.server, w.client) };
        let ack = w.acknowledged(from_client, ack, flags);
        w.raw(from_client, seq, ack, flags, payload);
        let packet = packet(from, to, seq, ack, flags, payload);
        self.filtered.packet(w.time, from_client, &packet);
    }

    fn handshake(&mut self) {
        let [c, s] = self.whole.seq;
        self.raw(true, c.wrapping_sub(1), None, SYN, b"");
        self.raw(false, s.wrapping_sub(1), Some(c), SYN, b"");
    }

    fn send(&mut self, from_client: bool, payload: &[u8]) {
        let side = usize::from(!from_client);
        let seq = self.whole.seq[side];
        self.raw(from_client, seq, None, 0, payload);
        self.whole.seq[side] = seq.wrapping_add(payload.len() as u32);
    }

    /// The client is gone, and connects once more by the same port: its numbers go on a little later.
    fn connect_again(&mut self) {
        let [c, s] = self.whole.seq;
        self.raw(true, c, None, RST, b"");
        self.whole.seq = [c.wrapping_add(1_000_000), s.wrapping_add(77_000_000)];
        self.handshake();
    }

    /// Gives both the time to give up what they wait for.
    fn end(&mut self) {
        for _ in 0..2 {
            self.whole.wait(2000);
            let time = self.whole.time;
            self.filtered.decoder.tick(time, &mut self.filtered.out);
        }
        let time = self.whole.time;
        self.filtered.decoder.finish(time, &mut self.filtered.out);
        self.whole.decoder.finish(time, &mut self.whole.out);
    }
}

/// Everything but losses, and how a circuit became known.
fn facts(out: &[Event]) -> Vec<String> {
    out.iter()
        .filter(|event| !matches!(event.fact, Fact::Loss(_)))
        .map(|event| format!("{:?}", event.fact))
        .collect()
}

fn puts(out: &[Event]) -> Vec<String> {
    let put = |event: &Event| match &event.fact {
        Fact::CaPut(p) => {
            Some(format!("{:?} {} {} {} {} {:?}", p.notify, p.dbr, p.count, p.ioid, p.length, p.payload))
        }
        _ => None,
    };
    out.iter().filter_map(put).collect()
}

fn answers(out: &[Event]) -> Vec<String> {
    let answer = |event: &Event| match &event.fact {
        Fact::CaAnswer(a) => Some(format!("{} {} {} {}", a.ioid, a.notify, a.status, a.text)),
        _ => None,
    };
    out.iter().filter_map(answer).collect()
}

/// What a client may send. `deceives`: also arrays that look like puts, by which a decoder that has lost its place could be
/// taken in.
fn request(deceives: bool) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => (any::<bool>(), 0u32..4, any::<u32>(), 1usize..6)
            .prop_map(|(notify, sid, ioid, n)| put(notify, sid, ioid, &vec![1.5; n])),
        2 => (any::<bool>(), 0u32..4, any::<u32>(), 1usize..2000)
            .prop_map(|(notify, sid, ioid, n)| put(notify, sid, ioid, &vec![2.5; n])),
        // long ones that look like puts inside
        1 => (0u32..4, 1usize..60).prop_map(move |(sid, n)| {
            let inside = if deceives { put(false, 9, 9, &[9.0]) } else { vec![9; 24] }.repeat(n);
            message(4, 4, inside.len() as u32, sid, 7, &inside)
        }),
        1 => (0u32..4, 9000u32..20_000).prop_map(|(sid, n)| message(4, 4, 0x10000 + n, sid, 7, &vec![0; 0x10000 + n as usize])),
        1 => (0u32..4, "[A-Z]{1,20}").prop_map(|(cid, pv)| named(18, cid, 13, &pv)),
        1 => (0u32..4, 0u32..4).prop_map(|(sid, sub)| message(1, 20, 1, sid, sub, &[0; 16])),
        1 => Just(message(23, 0, 0, 0, 0, b"")),
        // of a size that does not fit
        1 => (0u32..4, 0usize..300).prop_map(|(sid, n)| message(4, 6, 1, sid, 8, &vec![1; n])),
    ]
}

fn answer() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (0u32..4, 1usize..4).prop_map(|(sub, n)| message(1, 20, 1, 1, sub, &[7; 24]).repeat(n)),
        // more than one call follows, and than one copy of a packet's bytes holds
        2 => (0u32..4, 1usize..4, 1usize..200)
            .prop_map(|(sub, words, n)| message(1, 20, 1, 1, sub, &vec![7; 8 * words]).repeat(n)),
        3 => (0u32..4, 1usize..20_000).prop_map(|(sub, n)| message(1, 4, n as u32, 1, sub, &vec![7; n])),
        1 => (0u32..4, 1usize..9000).prop_map(|(sub, n)| message(15, 4, n as u32, 1, sub, &vec![0; n])),
        1 => (0u32..4, 1u32..9000).prop_map(|(sub, n)| message(1, 4, 0x10000 + n, 1, sub, &vec![3; 0x10000 + n as usize])),
        1 => (0u32..4).prop_map(|sub| message(1, 20, 1, 192, sub, &[0; 8])),
        1 => (0u32..4).prop_map(|sub| message(1, 20, 1, 1, sub, b"")),
        2 => (1u32..500, any::<u32>()).prop_map(|(status, ioid)| message(19, 6, 1, status, ioid, b"")),
        1 => (0u16..7, 0u32..100, 0u32..4, 0u32..4).prop_map(|(dbr, n, cid, sid)| message(18, dbr, n, cid, sid, b"")),
        1 => (0u32..4).prop_map(|cid| message(22, 0, 0, cid, 3, b"")),
        1 => (0u32..4, any::<u32>(), "[ -~]{0,80}").prop_map(|(cid, ioid, text)| {
            let mut p = header(4, 8, 6, 1, 1, ioid);
            p.extend(text.as_bytes());
            p.push(0);
            message(11, 0, 0, cid, 376, &p)
        }),
    ]
}

/// Turns of client and server, and how each is cut into segments.
type Dialogue = Vec<(bool, Vec<u8>, Vec<usize>)>;

fn dialogue(deceives: bool) -> impl Strategy<Value = Dialogue> {
    let cuts = || vec(prop_oneof![2 => 1usize..100, 2 => 100usize..LONGEST, 1 => Just(1448usize)], 1..6);
    let client = (vec(request(deceives), 1..6), cuts()).prop_map(|(m, cuts)| (true, m.concat(), cuts));
    let server = (vec(answer(), 1..8), cuts()).prop_map(|(m, cuts)| (false, m.concat(), cuts));
    vec(prop_oneof![client, server], 4..16)
}

/// The segments of a dialogue, in order.
fn segments(dialogue: &Dialogue) -> Vec<(bool, &[u8])> {
    let mut all = Vec::new();
    for (from_client, bytes, cuts) in dialogue {
        let mut rest = &bytes[..];
        for &cut in cuts.iter().cycle() {
            // not thousands of one byte each
            let cut = cut.max(bytes.len() / 100).min(rest.len()).min(LONGEST);
            let (part, others) = rest.split_at(cut);
            all.push((*from_client, part));
            rest = others;
            if rest.is_empty() {
                break;
            }
        }
    }
    all
}

/// Runs a property on dialogues, each on a connection of its own.
fn check<S: Strategy>(
    deceives: bool,
    with: S,
    property: impl Fn(Both<'_>, Dialogue, S::Value) -> Result<(), TestCaseError>,
) {
    let Some(filter) = load() else { return };
    let port = std::cell::Cell::new(1000u16);
    let mut runner = TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
    let result = runner.run(&(dialogue(deceives), with), |(dialogue, with)| {
        port.set(port.get().wrapping_add(1).max(10_000));
        property(Both::new(&filter, port.get()), dialogue, with)
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// Updates that a server sends in a dialogue, and their bytes, by the numbers of subscriptions.
fn updates(dialogue: &Dialogue) -> BTreeMap<u32, (u64, u64)> {
    let mut all = BTreeMap::<u32, (u64, u64)>::new();
    for (_, bytes, _) in dialogue.iter().filter(|(from_client, ..)| !from_client) {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let word = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().expect("four bytes"));
            let (size, header) = match word(0) & 0xffff {
                0xffff => (word(16), 24),
                size => (size, 16),
            };
            let length = header + size as usize;
            if word(0) >> 16 == 1 && size > 0 && word(8) == 1 {
                let (count, bytes) = all.entry(word(12)).or_default();
                (*count, *bytes) = (*count + 1, *bytes + length as u64);
            }
            rest = &rest[length..];
        }
    }
    all
}

/// The same as the programs have counted them, and whether they say that this is all. Takes them out.
fn counted(both: &Both<'_>) -> (BTreeMap<u32, (u64, u64)>, bool) {
    let counts = both.filtered.filter.counts().upgrade().expect("counts");
    let connection = Connection::new(both.whole.client, both.whole.server);
    let is_whole = counts.missed(connection) == 0;
    let mut all = BTreeMap::new();
    for number in 0..4 {
        let found = counts.of(connection, number);
        all.extend(found.map(|found| (number, (u64::from(found.updates), found.bytes))));
        counts.forget(connection, number);
    }
    counts.forget_missed(connection);
    (all, is_whole)
}

/// In order, nothing lost: every fact is the same, and there are no losses.
#[test]
fn what_it_leaves_out_changes_nothing() {
    check(true, any::<[u32; 2]>(), |mut both, dialogue, sequences| {
        both.whole.seq = sequences;
        both.handshake();
        both.send(
            true,
            &[version(), named(20, 0, 0, "u"), named(21, 0, 0, "h"), named(18, 9, 13, "A")].concat(),
        );
        both.send(false, &version());
        for (from_client, part) in segments(&dialogue) {
            both.send(from_client, part);
        }
        both.end();
        prop_assert_eq!(facts(&both.filtered.out), facts(&both.whole.out));
        let losses: Vec<_> = both.filtered.out.iter().filter(|e| matches!(e.fact, Fact::Loss(_))).collect();
        prop_assert!(losses.is_empty(), "{losses:?}");
        prop_assert_eq!(counted(&both), (updates(&dialogue), true));
        Ok(())
    });
}

/// Out of order, sent again, lost on the way: no put is made up, and none is missing that is not counted.
#[test]
fn whatever_happens_on_the_way_the_puts_are_the_same() {
    let fates = vec((0u8..20, 1usize..4), 1..40);
    check(false, fates, |mut both, dialogue, fates| {
        both.handshake();
        both.send(
            true,
            &[version(), named(20, 0, 0, "u"), named(21, 0, 0, "h"), named(18, 9, 13, "A")].concat(),
        );
        both.send(false, &version());
        let mut sequence = both.whole.seq;
        let mut all = Vec::new();
        for (from_client, part) in segments(&dialogue) {
            let side = usize::from(!from_client);
            all.push((from_client, sequence[side], part));
            sequence[side] = sequence[side].wrapping_add(part.len() as u32);
        }
        let mut order = Vec::new();
        let lost = fates.iter().any(|&(fate, _)| fate == 3);
        let all: Vec<(bool, u32, Vec<u8>)> =
            all.into_iter().map(|(c, s, part)| (c, s, part.to_vec())).collect();
        for (at, (segment, &(fate, by))) in all.iter().zip(fates.iter().cycle()).enumerate() {
            let segment = segment.clone();
            match fate {
                // later than those after it
                0 => order.push((at + by, segment)),
                // twice
                1 => order.extend([(at, segment.clone()), (at + by, segment)]),
                // together with the one before it
                2 if at > 0
                    && all[at - 1].0 == segment.0
                    && all[at - 1].2.len() + segment.2.len() <= LONGEST =>
                {
                    let both = [&all[at - 1].2[..], &segment.2].concat();
                    order.push((at, (segment.0, all[at - 1].1, both)));
                }
                3 => {}
                _ => order.push((at, segment)),
            }
        }
        order.sort_by_key(|(at, _)| *at);
        for (_, (from_client, sequence, part)) in order {
            both.raw(from_client, sequence, None, 0, &part);
        }
        both.end();
        // never more than were sent, and less only if that is said, or never came
        let (truth, (counts, is_whole)) = (updates(&dialogue), counted(&both));
        let most = |number| truth.get(number).copied().unwrap_or_default();
        for (number, (count, bytes)) in &counts {
            prop_assert!((*count, *bytes) <= most(number), "{number}: {count} of {:?}", most(number));
        }
        prop_assert!(lost || !is_whole || counts == truth, "{counts:?} of {truth:?}");
        let mut plain = Wire::with(Limits { payload: KEPT, ..Limits::default() });
        plain.handshake();
        plain.client(&version());
        dialogue
            .iter()
            .filter(|(from_client, ..)| *from_client)
            .for_each(|(_, bytes, _)| plain.client(bytes));
        let (made, whole, filtered) = (puts(&plain.out), puts(&both.whole.out), puts(&both.filtered.out));
        // All that the other decoder has; but where segments were lost on the way, it may find messages inside bytes that
        // the filter left out. Then that is counted.
        let mut rest = filtered.iter();
        let is_loss = |event: &Event| matches!(event.fact, Fact::Loss(_));
        let counted = lost && both.filtered.out.iter().any(is_loss);
        prop_assert!(
            counted || whole.iter().all(|put| rest.any(|other| other == put)),
            "{filtered:?} lacks some of {whole:?}"
        );
        if filtered != whole {
            let mut rest = made.iter();
            prop_assert!(
                // of a value in which bytes are missing there is what came before them
                filtered.iter().all(|put| rest.any(|other| other.starts_with(put.trim_end_matches(']')))),
                "not all made: {filtered:?}"
            );
        }
        Ok(())
    });
}

/// Bulk leaves it as nothing, and an answer behind it is found.
#[test]
fn bulk_is_left_out() {
    let Some(filter) = load() else { return };
    let mut both = Both::new(&filter, 900);
    both.handshake();
    both.send(true, &[version(), named(20, 0, 0, "u"), named(21, 0, 0, "h"), named(18, 9, 13, "A")].concat());
    let updates = message(1, 20, 1, 1, 3, &[0; 24]).repeat(20);
    both.send(false, &[version(), message(18, 6, 1, 9, 7, b"")].concat());
    both.send(false, &updates);
    let passed = both.filtered.passed;
    for _ in 0..100 {
        both.send(false, &updates);
    }
    // an array in many segments, with an answer behind it in the last one
    let array = [message(1, 4, 100_000, 1, 3, &vec![4; 100_000]), message(19, 6, 1, 1, 5, b"")].concat();
    both.send(true, &put(true, 7, 5, &[1.0]));
    for part in array.chunks(1448) {
        both.send(false, part);
    }
    let put_bytes = 40 + 24;
    let last = 40 + array.len() % 1448;
    assert_eq!(both.filtered.passed - passed, put_bytes + last);
    // of a long put as much as is kept, and the headers of its end
    let passed = both.filtered.passed;
    for part in put(false, 7, 6, &vec![1.0; 3000]).chunks(1448) {
        both.send(true, part);
    }
    assert_eq!(both.filtered.passed - passed, 40 + 16 + KEPT as usize + 40);
    both.end();
    assert_eq!(facts(&both.filtered.out), facts(&both.whole.out));
    assert_eq!(answers(&both.filtered.out), ["5 true 1 "]);
}

/// The recorder looks at packets some time after they have passed: by then thousands may have.
#[test]
fn places_are_told_of_all_packets_that_wait() {
    let Some(filter) = load() else { return };
    let mut both = Both::new(&filter, 901);
    both.handshake();
    both.send(true, &[version(), named(20, 0, 0, "u"), named(21, 0, 0, "h"), named(18, 9, 13, "A")].concat());
    let waiting: Vec<Vec<u8>> = (0..1000u32)
        .map(|number| {
            let put = put(true, 7, number, &[1.0]);
            let seq = both.whole.seq[0];
            both.send(true, &put);
            packet(both.whole.client, both.whole.server, seq, Some(both.whole.seq[1]), 0, &put)
        })
        .collect();
    // the first ones pass before the filter knows the connection
    let untold = waiting.iter().skip(8).filter(|packet| filter.place(packet) != Some(0)).count();
    assert_eq!(untold, 0, "of {}", waiting.len());
}

/// A server of bulk sends now and then once more what has come. What it sent before it was followed passes, and so does
/// everything of the next connection of the same ports, which may begin at any sequence number.
#[test]
fn bulk_sent_again_is_left_out() {
    let Some(filter) = load() else { return };
    let mut both = Both::new(&filter, 901);
    both.handshake();
    both.send(true, &[version(), named(20, 0, 0, "u"), named(21, 0, 0, "h"), named(18, 9, 13, "A")].concat());
    let updates = message(1, 20, 1, 1, 3, &[0; 24]).repeat(20);
    let opened = [version(), message(18, 6, 1, 9, 7, b"")].concat();
    // this one is overtaken by the next
    let first = both.whole.seq[1];
    both.whole.seq[1] += opened.len() as u32;
    let begin = both.whole.seq[1];
    (0..3).for_each(|_| both.send(false, &updates));
    let passed = both.filtered.passed;
    both.raw(false, first, None, 0, &opened);
    assert_eq!(both.filtered.passed - passed, 40 + opened.len(), "what was not followed");
    (0..3).for_each(|_| both.send(false, &updates));
    let passed = both.filtered.passed;
    for sequence in [both.whole.seq[1] - updates.len() as u32, both.whole.seq[1] - 2 * updates.len() as u32] {
        both.raw(false, sequence, None, 0, &updates);
        both.send(false, &updates);
    }
    assert_eq!(both.filtered.passed, passed, "sent again, and what comes then");
    // with what is new behind it
    both.raw(false, both.whole.seq[1] - updates.len() as u32, None, 0, &updates.repeat(2));
    both.whole.seq[1] += updates.len() as u32;
    both.send(false, &updates);
    assert_eq!(both.filtered.passed, passed, "sent again together with others");
    let sent = 3 + 3 + 2 + 1 + 1;
    assert_eq!(counted(&both).0[&3], (20 * sent, 20 * 40 * sent), "each once");
    // more than has come; the flow is known again soon
    both.raw(false, both.whole.seq[1] - 8, None, 0, &updates);
    assert_eq!(both.filtered.passed - passed, 40 + updates.len());

    both.whole.seq[1] = begin;
    (0..9).for_each(|_| both.send(false, &updates));
    both.whole.seq[1] = begin + 40;
    let passed = both.filtered.passed;
    both.handshake();
    both.send(false, &opened);
    assert_eq!(both.filtered.passed - passed, 40 + 40 + 40 + opened.len(), "the next connection");
}

/// Segments that are carried by something else than plain IPv4 pass, whoever sends them.
#[test]
fn what_is_carried_passes() {
    let Some(filter) = load() else { return };
    let inside = packet(SERVER, CLIENT, 1, Some(1), 0, &message(19, 6, 1, 1, 1, b""));
    let other = packet(Address { port: 22, ..SERVER }, CLIENT, 1, Some(1), 0, b"ssh");
    for before in [&[0x40, 42, 8, 0][..], &[0, 42, 0x88, 0xa8, 0x60, 7, 8, 0]] {
        let carried = |inside: &[u8]| [before, inside].concat();
        let passes = |packet: &[u8]| {
            [Side::Client, Side::Server].map(|side| filter.try_on(side, packet).expect("it runs") as usize)
        };
        let whole = carried(&inside);
        let [requests, answers] = passes(&whole);
        assert!(requests >= whole.len() && answers == 0, "{requests} {answers}");
        assert_eq!(passes(&carried(&other)), [0, 0]);
    }
}

/// Segments over IPv6 pass whole, to the ring of their side; fragments of TCP pass.
#[test]
fn ipv6_and_fragments_pass() {
    let Some(filter) = load() else { return };
    let passes = |packet: &[u8]| {
        [Side::Client, Side::Server].map(|side| filter.try_on(side, packet).expect("the kernel runs it") > 0)
    };
    let ipv6 = |next: u8, inside: &[u8]| {
        let mut bytes = vec![0x60, 0, 0, 0];
        bytes.extend((inside.len() as u16).to_be_bytes());
        bytes.extend([next, 64]);
        bytes.extend([0x20; 32]);
        [&bytes, inside].concat()
    };
    let whole = put(true, 7, 1, &[1.0; 3]);
    for (from, to, payload, flags, expected) in [
        (CLIENT, SERVER, &whole[..], 0, [true, false]),
        (SERVER, CLIENT, &whole, 0, [false, true]),
        (CLIENT, SERVER, b"", 0, [false, false]),
        (SERVER, CLIENT, b"", RST, [false, true]),
        (CLIENT, Address { port: 22, ..SERVER }, b"ssh", 0, [false, false]),
    ] {
        let tcp = &packet(from, to, 1, Some(1), flags, payload)[20..];
        assert_eq!(passes(&ipv6(6, tcp)), expected);
        assert_eq!(passes(&ipv6(60, &[&[6, 0, 1, 2, 3, 4, 5, 6][..], tcp].concat())), expected);
        assert_eq!(passes(&ipv6(0, &[&[6, 1][..], &[0; 14], tcp].concat())), expected);
        assert_eq!(passes(&ipv6(44, &[&[6, 0, 0, 1, 0, 0, 0, 9][..], tcp].concat())), expected);
        assert_eq!(passes(&ipv6(51, &[&[6, 1][..], &[0; 10], tcp].concat())), expected, "AH");
        let later = [&[6, 0, 0x10, 1, 0, 0, 0, 9][..], tcp].concat();
        assert_eq!(passes(&ipv6(44, &later)), [true, false]);
        // only the recorder looks behind several headers
        let options = [6, 0, 1, 4, 0, 0, 0, 0];
        assert_eq!(
            passes(&ipv6(0, &[&[60, 0, 1, 4, 0, 0, 0, 0], &options[..], tcp].concat())),
            [true, false]
        );
        assert_eq!(passes(&ipv6(0, &[&[44, 0, 1, 4, 0, 0, 0, 0], &later[..]].concat())), [true, false]);
        assert_eq!(
            passes(&ipv6(44, &[&[60, 0, 0, 1, 0, 0, 0, 9], &options[..], tcp].concat())),
            [true, false]
        );
        assert_eq!(passes(&ipv6(17, tcp)), [false, false]);
        let mut later = packet(from, to, 1, Some(1), flags, payload);
        later[7] = 9;
        assert_eq!(passes(&later), [true, false]);
    }
}

/// Of bare acknowledgements those of a known client pass that close its window, not too many, and the first that opens it
/// again.
#[test]
fn closed_windows_pass() {
    let Some(filter) = load() else { return };
    let mut both = Both::new(&filter, 41_777);
    both.handshake();
    both.send(true, &message(0, 0, 13, 0, 0, b""));
    let passed = |seq: [u32; 2], is_closed: bool| {
        let p = bare(Address { port: 41_777, ..CLIENT }, SERVER, seq, is_closed);
        let passed = filter.try_on(Side::Client, &p).expect("it runs");
        assert!(passed == 0 || passed == 40, "{passed}");
        passed > 0
    };
    let seq = both.whole.seq;
    assert!(!passed(seq, false), "nothing was closed");
    assert!(passed(seq, true));
    let began = std::time::Instant::now();
    let count = (0..20).filter(|_| passed(seq, true)).count();
    let most = 1 + began.elapsed().as_millis() as usize / 100;
    assert!(count <= most, "{count}: the time between them is too short");
    std::thread::sleep(std::time::Duration::from_millis(150));
    assert!(passed(seq, true));
    assert!(passed(seq, false) && !passed(seq, false) && !passed(seq, false));
    let unknown = bare(Address { port: 41_778, ..CLIENT }, SERVER, seq, true);
    assert_eq!(filter.try_on(Side::Client, &unknown).expect("it runs"), 0, "nobody's");
}

/// A put of 64 MB that is broken off: what the same ports say next is not taken for the rest of it.
#[test]
fn another_connection_of_the_same_ports_is_no_rest_of_a_put() {
    let Some(filter) = load() else { return };
    let mut both = Both::new(&filter, 41_700);
    let open = [version(), named(18, 1, 13, "A")].concat();
    both.handshake();
    both.send(true, &open);
    both.send(false, &message(18, 4, 1, 1, 7, b""));
    let big = [long_header(4, 64 << 20, 4, 64 << 20, 7, 1), vec![1; 2000]].concat();
    big.chunks(LONGEST).for_each(|part| both.send(true, part));
    both.connect_again();
    both.send(true, &open);
    both.send(false, &message(18, 6, 1, 1, 8, b""));
    both.send(true, &put(true, 8, 2, &[5.0]));
    both.end();
    let ioids = |events: &[Event]| -> Vec<u32> {
        let puts =
            events
                .iter()
                .filter_map(|event| if let Fact::CaPut(put) = &event.fact { Some(put.ioid) } else { None });
        puts.collect()
    };
    assert_eq!(ioids(&both.whole.out), [2]);
    assert_eq!(ioids(&both.filtered.out), [2]);
}
