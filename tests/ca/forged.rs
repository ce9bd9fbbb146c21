//! Segments with others' addresses: resets, openings and data that were guessed, floods of all of them, and clients that
//! open more than anybody should. What is real counts; what is not is counted.

use crate::wire::*;
use iocrec::ca::{Limits, SeedChannel};
use iocrec_log::event::{Address, Fact};
use iocrec_testing::chance::Random;

/// A circuit with channel A, cid 5, sid 7.
fn with_channel() -> Wire {
    let mut w = Wire::open();
    w.client(&[version(), named(18, 5, 13, "A")].concat());
    w.server(&message(18, 6, 1, 5, 7, b""));
    w.facts();
    w
}

fn puts(facts: &[String]) -> Vec<u32> {
    let ioid = |f: &String| f.split("ioid=").nth(1)?.split(' ').next()?.parse().ok();
    facts.iter().filter(|f| f.starts_with("put")).filter_map(ioid).collect()
}

/// How much was counted with these words.
fn counted(facts: &[String], what: &str) -> u64 {
    let count = |f: &String| f.split(' ').nth(1)?.parse::<u64>().ok();
    facts.iter().filter(|f| f.starts_with("loss") && f.contains(what)).filter_map(count).sum()
}

fn ends(facts: &[String]) -> usize {
    facts.iter().filter(|f| f.starts_with("end of circuit")).count()
}

impl Wire {
    /// A segment just as it is given, and some time for what is due.
    fn forge(&mut self, from_client: bool, seq: u32, ack: Option<u32>, flags: u8, payload: &[u8]) {
        let (from, to) = if from_client { (self.client, self.server) } else { (self.server, self.client) };
        let p = packet(from, to, seq, ack, flags, payload);
        self.decoder.packet(0, self.time, &p, p.len(), &mut self.out);
    }
}

#[test]
fn a_flood_of_resets_ends_nothing_and_the_real_one_does() {
    for real_from_client in [true, false] {
        let mut w = with_channel();
        let mut random = Random(1);
        for ioid in 0..300 {
            for _ in 0..50 {
                let (seq, ack) = (random.next() as u32, random.next() as u32);
                w.forge(random.below(2) == 0, seq, (random.below(2) == 0).then_some(ack), RST, b"");
            }
            w.client(&put(false, 7, ioid, &[1.0]));
            w.wait(10);
        }
        w.wait(1100);
        let facts = w.facts();
        assert_eq!(puts(&facts), (0..300).collect::<Vec<_>>());
        assert_eq!(ends(&facts), 0);
        assert_eq!(counted(&facts, "TCP resets not believed"), 300 * 50);
        assert_eq!(counted(&facts, "bytes"), 0);
        let [c, s] = w.seq;
        w.forge(real_from_client, if real_from_client { c } else { s }, None, RST, b"");
        assert_eq!(w.facts(), ["end of circuit 1"]);
        // The ports are used again: these names are not the old ones.
        w.seq = [70_000, 80_000];
        w.handshake();
        w.client(&[version(), put(false, 7, 1, &[1.0])].concat());
        let facts = w.facts();
        assert_eq!(facts[0], "circuit 2 Opened user= host= minor=13");
        assert!(
            facts.iter().any(|f| f.starts_with("channel 2 on 2 MidStream cid=- sid=7 pv= ")),
            "{facts:?}"
        );
    }
}

#[test]
fn a_reset_waits_for_the_data_before_it() {
    let mut w = with_channel();
    let [c, s] = w.seq;
    w.raw(true, c + 24, Some(s), RST, b"");
    assert_eq!(ends(&w.facts()), 0);
    w.client(&put(false, 7, 1, &[1.0]));
    let facts = w.facts();
    assert_eq!((puts(&facts), ends(&facts)), (vec![1], 1));
    // It answers what its sender has acknowledged: the server's data were not captured.
    let mut w = with_channel();
    let s = w.seq[1];
    w.seq[1] += 500;
    w.client(&put(false, 7, 1, &[1.0]));
    w.forge(false, s + 500, None, RST, b"");
    assert_eq!(ends(&w.facts()), 1);
}

#[test]
fn openings_that_nobody_answers_change_nothing() {
    let mut w = with_channel();
    let mut random = Random(2);
    for ioid in 0..300 {
        for _ in 0..50 {
            let (seq, ack) = (random.next() as u32, random.next() as u32);
            // also with an answer that fits nothing, and data after it from one side
            w.forge(true, seq, None, SYN, b"");
            w.forge(false, seq ^ 1, Some(ack), SYN, b"");
        }
        w.client(&put(false, 7, ioid, &[1.0]));
        w.wait(10);
    }
    w.wait(1100);
    let facts = w.facts();
    assert_eq!(puts(&facts), (0..300).collect::<Vec<_>>());
    assert!(facts.iter().filter(|f| f.starts_with("put")).all(|f| f.contains(" on 1 channel 1 ")));
    assert_eq!((ends(&facts), counted(&facts, "bytes")), (0, 0));
    assert_eq!(counted(&facts, "TCP openings of circuits that are open"), 300 * 50);
    // The real one: the client has come again without having said goodbye.
    w.seq = [123, 456];
    w.handshake();
    w.client(&version());
    assert_eq!(w.facts()[..2], ["end of circuit 1", "circuit 2 Opened user= host= minor=13"]);
    // The server is the first to speak.
    w.seq = [1_000_123, 2_000_456];
    w.handshake();
    w.server(&version());
    w.client(&version());
    assert_eq!(w.facts()[..2], ["end of circuit 2", "circuit 3 Opened user= host= minor=0"]);
}

/// A flood of openings from other ports does not push out that of a client.
#[test]
fn a_client_opens_in_a_flood_of_openings() {
    let mut w = Wire::with(Limits { circuits: 50, ..Limits::default() });
    let mut random = Random(3);
    for port in 1..=40 {
        w.client.port = port;
        w.seq = [random.next() as u32, random.next() as u32];
        w.handshake();
        // 22,000 a second; it takes the client 20 ms to say something
        for _ in 0..440 {
            let from = Address {
                ip: 0x0a01_0000 | random.below(65536) as u32,
                port: 1024 + random.below(60_000) as u16,
            };
            let (client, server) =
                (packet(from, SERVER, 1, None, SYN, b""), packet(SERVER, from, 9, Some(2), SYN, b""));
            for p in [client, server] {
                w.decoder.packet(0, w.time, &p, p.len(), &mut w.out);
            }
        }
        w.client(&[version(), named(18, 5, 13, "A")].concat());
    }
    let facts = w.facts();
    let opened = facts.iter().filter(|f| f.ends_with("Opened user= host= minor=13")).count();
    assert_eq!(opened, 40, "{:?}", facts.iter().take(5).collect::<Vec<_>>());
    assert_eq!(facts.iter().filter(|f| f.starts_with("forgotten")).count(), 0);
}

#[test]
fn data_that_were_guessed_make_up_no_put() {
    let mut w = with_channel();
    let mut random = Random(4);
    let made_up = put(false, 7, 66_666, &[6.0; 20]);
    for ioid in 0..300 {
        let [c, s] = w.seq;
        for _ in 0..50 {
            let near = random.below(1 << 20) as u32;
            let seq = [random.next() as u32, c.wrapping_add(near), c.wrapping_sub(near)][random.below(3)];
            let ack = [random.next() as u32, 0][random.below(2)];
            w.forge(true, seq, (ack != 0).then_some(ack), 0, &made_up);
            w.forge(true, seq.wrapping_add(176), Some(ack), FIN, &made_up);
            w.forge(
                false,
                s.wrapping_add(near),
                Some(random.next() as u32),
                0,
                &message(19, 6, 1, 1, ioid, b""),
            );
        }
        w.client(&put(true, 7, ioid, &[1.0]));
        w.server(&message(19, 6, 1, 1, ioid, b""));
        w.wait(10);
    }
    w.wait(2000);
    let facts = w.facts();
    assert_eq!(puts(&facts), (0..300).collect::<Vec<_>>());
    assert_eq!(facts.iter().filter(|f| f.starts_with("answer")).count(), 300);
    assert_eq!(facts.iter().filter(|f| f.contains("66666")).count(), 0);
    assert_eq!((ends(&facts), counted(&facts, "bytes")), (0, 0));
    assert!(counted(&facts, "TCP segments not believed") > 20_000);
}

/// One who reads along can send what fits. The server takes what comes first, and so does the recorder; it says that there
/// was another.
#[test]
fn the_first_of_two_segments_counts() {
    for forged_first in [true, false] {
        let mut w = with_channel();
        let c = w.seq[0];
        let (real, other) = (put(false, 7, 1, &[1.0]), put(false, 7, 2, &[6.0]));
        let (first, second) = if forged_first { (&other, &real) } else { (&real, &other) };
        w.raw(true, c, None, 0, first);
        w.raw(true, c, None, 0, second);
        // the same behind a gap
        w.raw(true, c + 48, None, 0, first);
        w.raw(true, c + 48, None, 0, second);
        w.raw(true, c + 24, None, 0, &put(false, 7, 3, &[1.0]));
        w.seq[0] = c + 72;
        w.client(&put(false, 7, 4, &[1.0]));
        w.wait(1100);
        let facts = w.facts();
        let which = if forged_first { 2 } else { 1 };
        assert_eq!(puts(&facts), [which, 3, which, 4]);
        assert_eq!(counted(&facts, "repeated with other bytes"), 2, "{facts:?}");
    }
}

/// With time stamps, as most clients send them, a gap needs nothing of the server.
#[test]
fn time_stamps_speak_for_data_behind_a_gap() {
    let stamped = |w: &mut Wire, skip: u32, stamp: u32, payload: &[u8]| {
        w.seq[0] = w.seq[0].wrapping_add(skip);
        // acknowledges what nobody has captured
        let p = packet(CLIENT, SERVER, w.seq[0], Some(w.seq[1].wrapping_add(400 << 20)), 0, payload);
        let mut with = p[..40].to_vec();
        with[32] = 0x80;
        with.extend([1, 1, 8, 10]);
        with.extend(stamp.to_be_bytes());
        with.extend([0; 4]);
        with.extend(payload);
        let total = with.len() as u16;
        with[2..4].copy_from_slice(&total.to_be_bytes());
        w.time += MS;
        w.decoder.packet(0, w.time, &with, with.len(), &mut w.out);
        w.seq[0] = w.seq[0].wrapping_add(payload.len() as u32);
    };
    let mut w = with_channel();
    stamped(&mut w, 0, 5000, &put(false, 7, 1, &[1.0]));
    stamped(&mut w, 24, 5001, &put(false, 7, 2, &[1.0]));
    w.wait(1100);
    assert_eq!(puts(&w.facts()), [1, 2]);
    // guessed
    let forged = w.seq[0];
    stamped(&mut w, 100, 900_000_000, &put(false, 7, 66, &[1.0]));
    w.seq[0] = forged;
    stamped(&mut w, 0, 6200, &put(false, 7, 3, &[1.0]));
    w.wait(1100);
    let facts = w.facts();
    assert_eq!((puts(&facts), counted(&facts, "bytes")), (vec![3], 0));
}

/// A stream that has moved on is found again, even if nothing speaks for it.
#[test]
fn a_stream_is_not_lost_for_ever() {
    let mut w = with_channel();
    w.lose(true, 500 << 20);
    w.lose(false, 900 << 20);
    for ioid in 0..20 {
        w.client(&put(false, 7, ioid, &[1.0]));
        w.wait(5000);
    }
    let facts = w.facts();
    let seen = puts(&facts);
    assert!(seen.len() > 10 && seen.ends_with(&[19]), "{seen:?}");
    assert!(counted(&facts, "bytes were not captured") >= 500 << 20);
}

/// It had not moved on, but seemed to: then it comes back to where it was. How much of it was missed meanwhile nobody knows.
#[test]
fn a_stream_that_goes_back_has_not_lost_all_numbers() {
    let mut w = with_channel();
    for distance in [500 << 20, (500_u32 << 20).wrapping_neg()] {
        w.lose(true, distance);
        w.lose(false, 900 << 20);
        for ioid in 0..20 {
            w.client(&put(false, 7, ioid, &[1.0]));
            w.wait(5000);
        }
        let facts = w.facts();
        assert!(puts(&facts).ends_with(&[19]), "{facts:?}");
        let lost = counted(&facts, "bytes were not captured");
        assert!(lost > 0 && lost < 1 << 30, "{lost}");
    }
}

#[test]
fn unknown_channels_without_end_cost_their_circuit_only() {
    let mut w = Wire::new();
    for port in 1..=3 {
        w.use_port(port);
        w.handshake();
        w.client(&version());
        for cid in 0..3000 {
            w.client(&named(18, cid, 13, &format!("PORT{port}:{cid}")));
            w.server(&message(18, 6, 1, cid, 10_000 + cid, b""));
        }
    }
    let other = w.seq;
    w.facts();
    w.use_port(9);
    w.handshake();
    w.client(&version());
    for sid in 0..60_000 {
        w.client(&put(false, 500_000 + sid, 1, &[1.0]));
    }
    w.wait(1100);
    let facts = w.facts();
    assert_eq!(facts.iter().filter(|f| f.starts_with("put")).count(), 60_000);
    let forgotten = facts.iter().filter(|f| f.starts_with("forgotten: channel")).count();
    assert!(forgotten > 20_000);
    assert_eq!(counted(&facts, "channels forgotten"), forgotten as u64);
    assert_eq!(facts.iter().filter(|f| f.starts_with("end of")).count(), 0);
    w.client.port = 3;
    w.seq = other;
    for cid in 0..3000 {
        w.client(&put(false, 10_000 + cid, 1, &[1.0]));
    }
    let facts = w.facts();
    assert_eq!(
        facts.iter().filter(|f| !f.starts_with("put")).count(),
        0,
        "all are known: {:?}",
        facts.first()
    );
}

/// A name is kept rather than a number that only puts have shown.
#[test]
fn names_are_kept_before_numbers() {
    let mut w = Wire::with(Limits { channels: 100, ..Limits::default() });
    w.handshake();
    w.client(&[version(), named(18, 5, 13, "A")].concat());
    w.server(&message(18, 6, 1, 5, 7, b""));
    for sid in 0..1000 {
        w.client(&put(false, 500 + sid, 1, &[1.0]));
    }
    w.facts();
    w.client(&put(false, 7, 1, &[1.0]));
    assert!(w.facts()[0].starts_with("put on 1 channel 1 "));
}

#[test]
fn many_circuits_are_all_open() {
    let mut w = Wire::new();
    for port in 1..=1200 {
        w.use_port(port);
        w.handshake();
        w.client(&[version(), named(18, 5, 13, "A")].concat());
        w.server(&message(18, 6, 1, 5, 7, b""));
    }
    w.wait(1100);
    let facts = w.facts();
    assert_eq!(
        facts
            .iter()
            .filter(|f| f.starts_with("end") || f.starts_with("forgotten") || f.starts_with("loss"))
            .count(),
        0
    );
    for port in 1..=1200 {
        w.use_port(port);
        w.seq = [w.seq[0] + 16 + 24, w.seq[1] + 16];
        w.client(&put(false, 7, 1, &[1.0]));
    }
    let facts = w.facts();
    assert_eq!(facts.iter().filter(|f| f.starts_with("put")).count(), 1200);
    assert_eq!(facts.len(), 1200, "{:?}", facts.first());
}

/// The circuit that was silent for longest goes, and the log does not say that it was closed.
#[test]
fn a_circuit_that_is_forgotten_is_not_closed() {
    let mut w = Wire::with(Limits { circuits: 3, ..Limits::default() });
    // what a port's client sends behind so many bytes
    let say = |w: &mut Wire, port: u16, behind: u32, bytes: &[u8]| {
        w.use_port(port);
        w.seq[0] += behind;
        w.client(bytes);
    };
    let begins = version().len() as u32;
    for port in 1..=3 {
        w.use_port(port);
        w.handshake();
        say(&mut w, port, 0, &version());
    }
    say(&mut w, 1, begins, &put(false, 7, 1, &[1.0]));
    w.facts();
    w.use_port(4);
    w.handshake();
    say(&mut w, 4, 0, &version());
    w.wait(1100);
    let facts = w.facts();
    assert_eq!(facts[0], "forgotten: circuit 2", "{facts:?}");
    assert_eq!((ends(&facts), counted(&facts, "circuits forgotten")), (0, 1));
    // It goes on, and is another from here on.
    say(&mut w, 2, begins, &put(false, 7, 9, &[1.0]));
    let facts = w.facts();
    assert!(facts.contains(&"circuit 5 MidStream user= host= minor=0".to_string()), "{facts:?}");
    assert_eq!(puts(&facts), [9]);
}

#[test]
fn twenty_thousand_channels_of_two_clients_are_named() {
    let mut w = Wire::new();
    let mut last = [[0; 2]; 2];
    for port in 0..2_u16 {
        w.use_port(1000 + port);
        w.handshake();
        w.client(&version());
        for cid in 0..10_000 {
            w.client(&named(18, cid, 13, &format!("LINAC:SECTION{port}:MAGNET{cid}:CUR")));
            w.server(&message(18, 6, 1, cid, 20_000 + cid, b""));
        }
        last[usize::from(port)] = w.seq;
    }
    // and what the server's memory says of them adds nothing
    let channels: Vec<SeedChannel> = (0..10_000)
        .map(|cid| SeedChannel {
            cid: Some(cid),
            sid: 20_000 + cid,
            pv: format!("LINAC:SECTION1:MAGNET{cid}:CUR"),
            dbr: None,
            count: None,
        })
        .collect();
    w.facts();
    let (client, time) = (w.client, w.time);
    w.decoder.seed(0, time, client, SERVER, "u", "h", 13, &channels, &mut w.out);
    for port in 0..2_u16 {
        w.client.port = 1000 + port;
        w.seq = last[usize::from(port)];
        for sid in 0..10_000 {
            w.client(&put(false, 20_000 + sid, sid, &[1.0]));
        }
    }
    w.wait(1100);
    let others = w.out.iter().filter(|e| !matches!(e.fact, Fact::CaPut(_) | Fact::Circuit(_))).count();
    assert_eq!(others, 0, "{:?}", w.facts().iter().find(|f| !f.starts_with("put")));
}

/// How far changed bytes are noticed: in the last four segments of a side, in their first 512 bytes. The first bytes count
/// always.
#[test]
fn changed_bytes_are_noticed_for_a_while() {
    let changed = "repeated with other bytes";
    for (later, at, noticed) in [(0, 20, 1), (3, 20, 1), (4, 20, 0), (0, 700, 0)] {
        let mut w = with_channel();
        let sequence = w.seq[0];
        let first = put(false, 7, 1, &[1.0; 100]);
        w.client(&first);
        (0..later).for_each(|number| w.client(&put(false, 7, 2 + number, &[2.0])));
        let mut other = first.clone();
        other[at] ^= 1;
        w.raw(true, sequence, None, 0, &other);
        w.wait(2_000);
        let facts = w.facts();
        assert_eq!(counted(&facts, changed), noticed, "{later} {at}: {facts:?}");
        assert_eq!(puts(&facts).len() as u32, 1 + later);
    }
}

/// A put from a port that is in no use, of which no opening was seen: it is a put only if the server shows that it has it.
#[test]
fn puts_on_connections_that_nobody_confirms_are_none() {
    let awaiting = || {
        let mut w = Wire::new();
        w.decoder.expect_confirmation();
        w.client(&[version(), put(false, 7, 1, &[1.0]), put(false, 7, 2, &[2.0])].concat());
        assert_eq!(w.facts(), [""; 0], "it waits");
        w
    };
    let refused = "to servers that did not confirm them";
    // nobody answers
    let mut w = awaiting();
    w.wait(5_000);
    let facts = w.facts();
    assert_eq!((puts(&facts).len(), counted(&facts, refused)), (0, 1), "{facts:?}");
    // the server refuses: with what the segment acknowledged, as the kernel does
    let mut w = awaiting();
    let sequence = w.seq[1];
    w.raw(false, sequence, None, RST, b"");
    w.wait(1_000);
    let facts = w.facts();
    assert_eq!((puts(&facts).len(), counted(&facts, refused)), (0, 1), "{facts:?}");
    // somebody else's refusal
    let mut w = awaiting();
    w.raw(false, sequence + 9, None, RST, b"");
    w.server(b"");
    let facts = w.facts();
    assert_eq!((puts(&facts), counted(&facts, refused)), (vec![1, 2], 0), "{facts:?}");
    // the server acknowledges, sends, or its socket is found; the puts have their own times
    for confirm in [
        (|w: &mut Wire| w.raw(false, w.seq[1], None, 0, b"")) as fn(&mut Wire),
        |w| w.server(&message(19, 6, 1, 1, 2, b"")),
        |w| w.decoder.confirm(0, w.client.into(), w.server.into(), &mut w.out),
    ] {
        let mut w = awaiting();
        assert_eq!(w.decoder.take_unconfirmed(), [(0, w.client.into(), w.server.into())]);
        let then = w.time;
        w.wait(900);
        confirm(&mut w);
        assert!(w
            .out
            .iter()
            .filter(|event| matches!(event.fact, Fact::CaPut(_)))
            .all(|put| put.time == then));
        let facts = w.facts();
        assert_eq!((puts(&facts), counted(&facts, refused)), (vec![1, 2], 0), "{facts:?}");
        // from now on nothing waits
        w.client(&put(false, 7, 3, &[3.0]));
        assert_eq!(puts(&w.facts()), [3]);
        assert!(w.decoder.take_unconfirmed().is_empty());
    }
    // the server goes on with something else: it does not have these
    let mut w = awaiting();
    let far = w.seq[0].wrapping_add(500 << 20);
    w.raw(false, w.seq[1], Some(far), 0, b"");
    let facts = w.facts();
    assert_eq!(puts(&facts).len(), 0, "{facts:?}");
    // an opening that nobody answered is none
    let mut w = Wire::new();
    w.decoder.expect_confirmation();
    let first = w.seq[0];
    w.raw(true, first.wrapping_sub(1), None, SYN, b"");
    w.client(&[version(), put(false, 7, 1, &[1.0])].concat());
    assert_eq!(puts(&w.facts()).len(), 0);
    // its answer may come late
    w.raw(false, w.seq[1].wrapping_sub(1), Some(first), SYN, b"");
    assert_eq!(puts(&w.facts()), [1]);
    // the recorder ends
    let mut w = awaiting();
    let end = w.time;
    w.decoder.finish(end, &mut w.out);
    let facts = w.facts();
    assert_eq!((puts(&facts).len(), counted(&facts, refused)), (0, 1), "{facts:?}");
}

/// A flood of blind puts from ports without end: memory is bounded, and each counts.
#[test]
fn a_flood_of_blind_puts_is_counted() {
    let mut w = Wire::new();
    w.decoder.expect_confirmation();
    for number in 0..20_000_u32 {
        w.client = Address { ip: 0x0a01_0000 | number >> 12, port: 20_000 + (number & 0xfff) as u16 };
        w.raw(true, number, Some(number), 0, &[version(), put(false, 7, number, &[1.0; 40])].concat());
        assert!(w.decoder.take_unconfirmed().len() <= 1);
    }
    w.wait(60_000);
    let facts = w.facts();
    assert_eq!((puts(&facts).len(), counted(&facts, "to servers that did not confirm them")), (0, 20_000));
}
