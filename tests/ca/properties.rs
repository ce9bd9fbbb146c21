//! Whatever TCP does to a stream, and whatever comes along, the facts stay right.

use crate::wire::*;
use iocrec::ca::{Decoder, Limits};
use iocrec_log::event::{Address, CaPut, Event, Fact};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashMap;

/// Payload bytes, also such that look like headers.
fn payload(longest: usize) -> impl Strategy<Value = Vec<u8>> {
    let small = vec(0u16..40, 0..longest / 2).prop_map(|v| v.iter().flat_map(|n| n.to_be_bytes()).collect());
    prop_oneof![vec(any::<u8>(), 0..longest), (0..longest).prop_map(|n| vec![0; n]), small]
}

fn id() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0u32..4, 1 => any::<u32>()]
}

fn name() -> impl Strategy<Value = String> {
    "[A-Z:a-z0-9.]{1,60}"
}

/// A put that a client may send: the size fits type and count.
fn fitting_put() -> impl Strategy<Value = (bool, u32, u32, u16, Vec<u8>)> {
    let size = |dbr: u16| [40, 2, 4, 2, 1, 4, 8][usize::from(dbr)];
    (any::<bool>(), id(), any::<u32>(), 0u16..7, prop_oneof![9 => payload(400), 1 => payload(70_000)])
        .prop_map(move |(notify, sid, ioid, dbr, mut bytes)| {
            bytes.resize((bytes.len() / size(dbr)).max(1) * size(dbr), 0);
            (notify, sid, ioid, dbr, bytes)
        })
}

fn put_message((notify, sid, ioid, dbr, bytes): &(bool, u32, u32, u16, Vec<u8>)) -> Vec<u8> {
    let count = bytes.len() / [40, 2, 4, 2, 1, 4, 8][usize::from(*dbr)];
    message(if *notify { 19 } else { 4 }, *dbr, count as u32, *sid, *ioid, bytes)
}

/// Anything that a client may send once the circuit is open.
fn request() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => fitting_put().prop_map(|p| put_message(&p)),
        3 => (id(), name()).prop_map(|(cid, pv)| named(18, cid, 13, &pv)),
        1 => (id(), id()).prop_map(|(sid, cid)| message(12, 0, 0, sid, cid, b"")),
        1 => (id(), id()).prop_map(|(sid, sub)| message(1, 20, 1, sid, sub, &[0; 16])),
        1 => Just(message(23, 0, 0, 0, 0, b"")),
        1 => name().prop_map(|n| named(20, 0, 0, &n)),
        1 => name().prop_map(|n| named(21, 0, 0, &n)),
        // Any other, in either form of the header.
        1 => (0u16..28, any::<u16>(), 0u32..70_000, id(), id(), payload(3000))
            .prop_map(|(command, dbr, count, p1, p2, bytes)| message(command, dbr, count, p1, p2, &bytes)),
        1 => (any::<bool>(), id(), payload(3000)).prop_map(|(notify, sid, bytes)| {
            let size = bytes.len().next_multiple_of(8);
            let mut m = long_header(if notify { 19 } else { 4 }, size as u32, 4, bytes.len() as u32, sid, 3);
            m.extend(&bytes);
            m.resize(24 + size, 0);
            m
        }),
    ]
}

/// Anything that a server may send.
fn answer() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => (0u16..7, 0u32..100_000, id(), id()).prop_map(|(dbr, n, cid, sid)| message(18, dbr, n, cid, sid, b"")),
        1 => id().prop_map(|cid| message(26, 0, 0, cid, 0, b"")),
        1 => id().prop_map(|cid| message(27, 0, 0, cid, 0, b"")),
        1 => (id(), id()).prop_map(|(sid, cid)| message(12, 0, 0, sid, cid, b"")),
        2 => (1u32..500, any::<u32>()).prop_map(|(status, ioid)| message(19, 6, 1, status, ioid, b"")),
        1 => (id(), any::<u32>(), "[ -~]{0,80}").prop_map(|(cid, ioid, text)| {
            let mut p = header(4, 8, 6, 1, 1, ioid);
            p.extend(text.as_bytes());
            p.push(0);
            message(11, 0, 0, cid, 376, &p)
        }),
        2 => (payload(3000), id()).prop_map(|(p, sub)| message(1, 4, p.len() as u32, 1, sub, &p)),
        1 => (payload(70_000), id()).prop_map(|(p, sub)| message(15, 4, p.len() as u32, 1, sub, &p)),
    ]
}

/// What is said on one circuit: turns of the client and the server.
fn dialogue() -> impl Strategy<Value = Vec<(bool, Vec<u8>)>> {
    let client = vec(request(), 1..8).prop_map(|m| (true, m.concat()));
    let server = vec(answer(), 1..8).prop_map(|m| (false, m.concat()));
    vec(prop_oneof![client, server], 1..6).prop_map(|mut turns| {
        turns.insert(0, (true, [version(), named(20, 0, 0, "u")].concat()));
        turns
    })
}

/// How a turn is cut and sent: for each segment its length, how far it reaches into the next one,
/// whether it is sent twice, and its place in the order.
type Cuts = Vec<(usize, usize, bool, u16)>;

fn cuts() -> impl Strategy<Value = Cuts> {
    let length = prop_oneof![3 => 1usize..60, 3 => 60usize..2000, 1 => 2000usize..60_000];
    let overlap = prop_oneof![3 => Just(0usize), 1 => 1usize..100];
    vec((length, overlap, any::<bool>(), any::<u16>()), 1..40)
}

fn segments(bytes: &[u8], cuts: &Cuts) -> Vec<(usize, Vec<u8>)> {
    let mut parts = Vec::new();
    let mut at = 0;
    for (length, overlap, twice, place) in cuts.iter().cycle() {
        if at >= bytes.len() {
            break;
        }
        // Not thousands of one byte each.
        let length = (*length).max(bytes.len() / 300);
        let end = (at + length + overlap).min(bytes.len());
        parts.push((*place, at, bytes[at..end].to_vec()));
        if *twice {
            parts.push((place.wrapping_mul(31), at, bytes[at..end].to_vec()));
        }
        at += length;
    }
    parts.sort_by_key(|p| p.0);
    parts.into_iter().map(|(_, at, bytes)| (at, bytes)).collect()
}

/// A segment: number of the circuit, from the client, sequence number, bytes.
type Part = (usize, bool, u32, Vec<u8>);

/// Whether it counts segments that nobody believes.
fn is_forged(event: &Event) -> bool {
    let says = |what: &str| matches!(&event.fact, Fact::Loss(loss) if loss.cause.contains(what));
    // before the first data of a connection that has been opened, they are no part of it
    says("not believed") || says("openings") || says("their beginning was not seen")
}

/// The facts of each circuit, with channels numbered within it.
fn by_circuit(out: &[Event]) -> HashMap<Address, Vec<Fact>> {
    let mut clients = HashMap::new();
    let mut channels: HashMap<u32, (Address, u32)> = HashMap::new();
    let mut facts: HashMap<Address, Vec<Fact>> = HashMap::new();
    for event in out.iter().filter(|event| !is_forged(event)) {
        let mut fact = event.fact.clone();
        let mut channel = |circuit: &mut u32, id: &mut u32| {
            let client = clients[circuit];
            let next = channels.values().filter(|c| c.0 == client).count() as u32;
            *id = channels.entry(*id).or_insert((client, next)).1;
            *circuit = 0;
            client
        };
        let client = match &mut fact {
            Fact::Circuit(c) => {
                clients.insert(c.id, c.client);
                c.id = 0;
                c.client
            }
            Fact::CircuitEnd(id) => clients[&std::mem::take(id)],
            Fact::Channel(c) => channel(&mut c.circuit, &mut c.id),
            Fact::CaPut(p) => channel(&mut p.circuit, &mut p.channel),
            Fact::CaAnswer(a) => clients[&std::mem::take(&mut a.circuit)],
            Fact::ChannelEnd(id) => {
                let (client, number) = channels[id];
                *id = number;
                client
            }
            other => panic!("{other:?}"),
        };
        let facts = facts.entry(client).or_default();
        // messages of one packet are told at once
        if matches!((&fact, facts.last()), (Fact::Circuit(_), Some(Fact::Circuit(_)))) {
            facts.pop();
        }
        facts.push(fact);
    }
    facts
}

/// Whether these bytes hold a put's message, header and all, to the byte: anywhere, since a segment may begin anywhere.
fn holds(bytes: &[u8], put: &CaPut) -> bool {
    let command = if put.notify { 19 } else { 4 };
    let header = header(command, put.length as u16, put.dbr, put.count as u16, 0, put.ioid);
    let is_it = |at: &[u8]| {
        at[..8] == header[..8] && at[12..16] == header[12..] && at[16..].starts_with(&put.payload)
    };
    bytes.windows(16 + put.payload.len()).any(is_it)
}

/// The length of the message that seems to begin here, if a client may send it: its header, and what that claims.
fn alike(bytes: &[u8]) -> usize {
    match *bytes {
        [0, 0, 0, 0, 0, _, 0, 1..=31, 0, 0, 0, 0, ..] => 16,
        [0, 1, 0, 16, ..] => 32,
        [0, 2 | 3 | 15, 0, 0, ..] => 16,
        [0, 8..=10 | 12 | 23, 0, 0, 0, 0, 0, 0, ..] => 16,
        [0, 4 | 19, 0, size, 0, _, 0, count, ..] if size % 8 == 0 && (1..=size).contains(&count) => {
            16 + usize::from(size)
        }
        [0, 6, 0, size, _, _, 0, 0..=31, a, b, c, d, e, f, g, h, ..]
            if size % 8 == 0 && [a, b, c, d] == [e, f, g, h] =>
        {
            16 + usize::from(size)
        }
        [0, 18, 0, size, 0, 0, 0, 0, ..] | [0, 20 | 21, 0, size, 0, 0, _, _, 0, 0, 0, 0, ..]
            if size % 8 == 0 =>
        {
            16 + usize::from(size)
        }
        _ => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Cut anywhere, reordered, sent again, overlapping, wrapping around, with segments of somebody who guesses numbers in
    /// between: the facts are those of the same messages one turn a packet.
    #[test]
    fn segmentation_changes_nothing(
        dialogues in vec((dialogue(), cuts(), any::<[u32; 2]>()), 1..4),
        near_wrap in any::<bool>(),
        forged in vec((any::<bool>(), any::<[u32; 2]>(), 0usize..6, fitting_put()), 1..10),
    ) {
        let mut forged = forged.iter().cycle();
        let longest = dialogues.iter().flat_map(|d| &d.0).map(|t| t.1.len()).max().unwrap_or(0);
        let limits = Limits { buffered: longest * 20 + 100_000, all_buffered: usize::MAX, ..Limits::default() };
        let mut plain = Wire::with(limits.clone());
        let mut rough = Wire::with(limits);
        let turns = dialogues.iter().map(|d| d.0.len()).max().unwrap_or(0);
        let mut sequences: Vec<[u32; 2]> = dialogues
            .iter()
            .map(|d| if near_wrap { d.2.map(|n| u32::MAX - n % 1000) } else { d.2 })
            .collect();
        for turn in 0..=turns {
            // The circuits' segments of this turn, one of each in turn.
            let mut rounds: Vec<Vec<Part>> = Vec::new();
            for (number, (dialogue, cuts, _)) in dialogues.iter().enumerate() {
                for w in [&mut plain, &mut rough] {
                    w.client.port = 1000 + number as u16;
                    w.seq = sequences[number];
                    if turn == 0 {
                        w.handshake();
                    }
                }
                let Some((from_client, bytes)) = dialogue.get(turn) else { continue };
                plain.send(*from_client, bytes);
                let base = rough.seq[usize::from(!from_client)];
                for (round, (at, part)) in segments(bytes, cuts).into_iter().enumerate() {
                    if rounds.len() <= round {
                        rounds.push(Vec::new());
                    }
                    rounds[round].push((number, *from_client, base.wrapping_add(at as u32), part));
                }
                sequences[number] = plain.seq;
            }
            for (number, from_client, seq, part) in rounds.into_iter().flatten() {
                rough.client.port = 1000 + number as u16;
                rough.seq = sequences[number];
                if let Some((by_client, [sequence, acknowledged], flags, put)) = forged.next() {
                    let (from, to) = if *by_client { (rough.client, SERVER) } else { (SERVER, rough.client) };
                    let (flags, ack) = [(0, true), (FIN, true), (RST, false), (RST, true), (SYN, false), (0, false)][*flags];
                    let bytes = if flags & (SYN | RST) == 0 { put_message(put) } else { Vec::new() };
                    let p = packet(from, to, *sequence, ack.then_some(*acknowledged), flags, &bytes);
                    rough.decoder.packet(0, rough.time, &p, p.len(), &mut rough.out);
                }
                rough.raw(from_client, seq, None, 0, &part);
            }
        }
        plain.wait(1);
        rough.wait(1);
        prop_assert_eq!(by_circuit(&plain.out), by_circuit(&rough.out));
    }

    /// A decoder that joins at any segment reports no put that was not made, and each put that
    /// fills a segment of its own after that. It can be deceived by a payload that holds a put's
    /// message, header and all, to the byte.
    #[test]
    fn joining_in_mid_stream_yields_no_wrong_put(
        puts in vec(fitting_put(), 1..20),
        cuts in cuts(),
        skip in 0usize..30,
        aligned in vec(fitting_put(), 1..5),
    ) {
        let mut w = Wire::new();
        let bytes: Vec<u8> = puts.iter().flat_map(put_message).collect();
        let mut parts = Vec::new();
        let mut at = 0;
        for (length, ..) in cuts.iter().cycle() {
            if at >= bytes.len() {
                break;
            }
            let end = (at + (*length).max(bytes.len() / 300)).min(bytes.len());
            parts.push(&bytes[at..end]);
            at = end;
        }
        for part in parts.iter().skip(skip) {
            w.client(part);
        }
        for put in &aligned {
            w.client(&put_message(put));
        }
        let made: Vec<_> = puts.iter().chain(&aligned).map(facts_of).collect();
        let seen = puts_of(&w.out);
        let sent: Vec<u8> = puts.iter().chain(&aligned).flat_map(put_message).collect();
        // In order, each one that was made.
        let mut rest = made.iter();
        for put in &seen {
            if !rest.any(|m| m == put) {
                prop_assert!(holds(&sent, put), "{:?} was not put", put);
                return Ok(());
            }
        }
        prop_assert!(seen.len() >= aligned.len(), "{} of {}", seen.len(), aligned.len());
    }

    /// Lost segments cost what was in them, are counted, and never make a put up. The same payload deceives the decoder.
    #[test]
    fn lost_segments_yield_no_wrong_put(
        puts in vec(fitting_put(), 1..20),
        cuts in cuts(),
        lost in vec(any::<bool>(), 1..40),
    ) {
        let mut w = Wire::open();
        w.client(&version());
        let bytes: Vec<u8> = puts.iter().flat_map(put_message).collect();
        let mut missing = 0;
        let mut at = 0;
        for ((length, ..), lost) in cuts.iter().cycle().zip(lost.iter().cycle()) {
            if at >= bytes.len() {
                break;
            }
            let end = (at + (*length).max(bytes.len() / 300)).min(bytes.len());
            if *lost {
                w.lose(true, (end - at) as u32);
                missing += end - at;
            } else {
                w.client(&bytes[at..end]);
            }
            at = end;
        }
        // two of them: what looks like a message may hold the first one and more, and then the second one shows that
        let last = [77, 78].map(|ioid| put(false, 1, ioid, &[1.0]));
        last.iter().for_each(|message| w.client(message));
        w.wait(2000);
        w.wait(2000);
        let of_last = [77, 78].map(|ioid| facts_of(&(false, 1, ioid, 6, 1f64.to_be_bytes().to_vec())));
        let made: Vec<_> = puts.iter().map(facts_of).chain(of_last).collect();
        let mut rest = made.iter();
        let seen = puts_of(&w.out);
        for put in &seen {
            let same = |m: &&CaPut| m.payload.starts_with(&put.payload)
                && (m.ioid, m.dbr, m.count, m.length, m.notify) == (put.ioid, put.dbr, put.count, put.length, put.notify);
            if !rest.any(|m| same(&m)) {
                prop_assert!(holds(&[&bytes[..], &last.concat()].concat(), put), "{:?} was not put", put);
                return Ok(());
            }
        }
        let counted: u64 = w.out.iter().map(|e| match &e.fact { Fact::Loss(l) => l.count, _ => 0 }).sum();
        // Every byte is in a put or counted.
        let in_puts: usize = seen.iter().map(|p| p.length as usize + if long(p) { 24 } else { 16 }).sum();
        // What looks like a message may be one: nobody can tell, and it is not counted.
        let begins = puts.iter().scan(0, |at, put| {
            let begin = *at;
            *at += put_message(put).len();
            Some(begin)
        });
        let begins: Vec<usize> = begins.collect();
        let lengths = (0..bytes.len()).map(|at| (at, alike(&bytes[at..])));
        let others = lengths.filter(|(at, length)| *length > 0 && !begins.contains(at));
        let alike: usize = others.map(|(_, length)| length).sum();
        let found = counted as usize + in_puts;
        let whole = bytes.len() + last.concat().len();
        prop_assert!(found <= whole && found + alike >= whole, "{found} of {whole}, {missing} missing");
    }

    #[test]
    fn any_packets_are_survived(packets in vec((vec(any::<u8>(), 0..200), 0usize..300, any::<u64>()), 0..50)) {
        let mut decoder = Decoder::new(Limits::default());
        let mut out = Vec::new();
        for (bytes, length, time) in packets {
            decoder.packet(0, time, &bytes, length, &mut out);
            decoder.tick(time, &mut out);
        }
        decoder.finish(0, &mut out);
    }

    /// Sound packets with anything in them, on few ports so that they meet.
    #[test]
    fn any_streams_are_survived(
        packets in vec((0u8..8, prop_oneof![Just(0u32), 0u32..3000, any::<u32>()], any::<bool>(), 0u8..64, prop_oneof![request(), answer(), payload(2000)], any::<u16>(), 0u64..3000), 0..80),
    ) {
        let mut w = Wire::with(Limits { circuits: 3, channels: 4, all_channels: 6, buffered: 5000, all_buffered: 9000, payload: 64, wait: 1000 * MS, filtered: false });
        for (port, seq, ack, flags, bytes, cut, wait) in packets {
            let (a, b) = (Address { port: 1000 + u16::from(port >> 1), ..CLIENT }, SERVER);
            let (from, to) = if port & 1 == 0 { (a, b) } else { (b, a) };
            let p = packet(from, to, seq, ack.then_some(seq), flags, &bytes);
            let kept = if cut % 4 == 0 { usize::from(cut) % (p.len() + 1) } else { p.len() };
            w.time += wait * MS;
            let time = w.time;
            w.decoder.packet(0, time, &p[..kept], p.len(), &mut w.out);
            w.wait(0);
            let id = w.decoder.circuit(0, a, b);
            prop_assert!(id != Some(0));
        }
        let time = w.time;
        w.decoder.finish(time, &mut w.out);
    }
}

fn long(p: &CaPut) -> bool {
    p.length >= 0xffff || p.count >= 0xffff
}

/// What a put must be reported as, but for its numbers.
fn facts_of((notify, _, ioid, dbr, bytes): &(bool, u32, u32, u16, Vec<u8>)) -> CaPut {
    let mut payload = bytes.clone();
    payload.resize(bytes.len().next_multiple_of(8), 0);
    let length = payload.len() as u32;
    payload.truncate(4096);
    let count = (bytes.len() / [40, 2, 4, 2, 1, 4, 8][usize::from(*dbr)]) as u32;
    CaPut { circuit: 1, channel: 0, notify: *notify, dbr: *dbr, count, ioid: *ioid, length, payload }
}

fn puts_of(out: &[Event]) -> Vec<CaPut> {
    out.iter()
        .filter_map(|e| match &e.fact {
            Fact::CaPut(p) => Some(CaPut { channel: 0, ..p.clone() }),
            _ => None,
        })
        .collect()
}
