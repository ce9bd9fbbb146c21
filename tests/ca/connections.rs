//! What TCP does to a circuit.

use crate::wire::*;
use iocrec::ca::{Limits, SeedChannel};
use iocrec_log::event::{Address, Fact};

fn seed(cid: u32, sid: u32, pv: &str) -> SeedChannel {
    SeedChannel { cid: Some(cid), sid, pv: pv.into(), dbr: None, count: None }
}

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

fn lost(facts: &[String]) -> u64 {
    let count = |f: &String| f.split(' ').nth(1)?.parse::<u64>().ok();
    facts.iter().filter(|f| f.starts_with("loss") && f.contains("bytes")).filter_map(count).sum()
}

#[test]
fn closing_by_fin() {
    let mut w = with_channel();
    let [c, s] = w.seq;
    w.raw(true, c, None, FIN, &put(false, 7, 1, &[1.0]));
    assert_eq!(puts(&w.facts()), [1]);
    w.raw(false, s, Some(c), FIN, b"");
    assert_eq!(w.facts(), ["end of circuit 1"]);
    // Late ones change nothing.
    w.raw(true, c, None, FIN, &put(false, 7, 1, &[1.0]));
    w.raw(false, s, Some(c), FIN, b"");
    w.wait(10);
    assert_eq!(w.facts(), [""; 0]);
    assert_eq!(w.decoder.circuit(0, CLIENT, SERVER), None);
    // What is told later of a thread that served it still finds it.
    assert_eq!(w.decoder.circuit_then(0, CLIENT, SERVER, 0), Some(1));
    assert_eq!(w.decoder.circuit_then(0, SERVER, CLIENT, 0), None);
    assert_eq!(w.decoder.circuit_then(0, CLIENT, SERVER, u64::MAX), None, "it was closed by then");
}

/// Clients that use one port again at once: a thread is told of once the next circuit is there.
#[test]
fn a_circuit_in_whose_place_another_one_is() {
    let mut w = Wire::new();
    let mut hits = Vec::new();
    for number in 1..4 {
        w.seq = [number << 24, (number << 24) + 5000];
        w.handshake();
        w.client(&[version(), named(18, 5, 13, "A")].concat());
        w.server(&message(18, 6, 1, 5, 7, b""));
        hits.push(w.time);
        let [c, s] = w.seq;
        w.raw(true, c, None, FIN, b"");
        w.raw(false, s, Some(c + 1), FIN, b"");
    }
    let before = |time| w.decoder.circuit_before(0, CLIENT, SERVER, time);
    assert_eq!([before(hits[0]), before(hits[1]), before(hits[2])], [Some(1), Some(2), None]);
    assert_eq!(w.decoder.circuit_then(0, CLIENT, SERVER, hits[2]), Some(3), "it is still known");
    assert_eq!(before(0), None, "none was there yet");
    assert_eq!(w.decoder.circuit_before(0, SERVER, CLIENT, hits[0]), None);
}

#[test]
fn closing_half_seen() {
    let mut w = with_channel();
    let [c, s] = w.seq;
    w.raw(true, c, None, FIN, b"");
    w.wait(59_000);
    assert_eq!(w.facts(), [""; 0]);
    w.wait(2_000);
    assert_eq!(w.facts(), ["end of circuit 1"]);
    // A put whose last bytes were not captured before the end.
    let mut w = with_channel();
    w.raw(true, c + 100, None, FIN, b"");
    w.raw(false, s, None, FIN, b"");
    assert_eq!(w.facts(), [""; 0]);
    w.wait(1_500);
    let facts = w.facts();
    assert!(facts.contains(&"end of circuit 1".into()), "{facts:?}");
    assert_eq!(lost(&facts), 100);
}

/// What a server sent last was not captured, or left out by the socket filter, and its end comes after that of the client,
/// who sends nothing more.
#[test]
fn an_end_that_waits_for_bytes_counts_from_when_it_came() {
    for client_is_first in [true, false] {
        let mut w = with_channel();
        let [c, s] = w.seq;
        w.lose(false, 24);
        if client_is_first {
            w.raw(true, c, Some(s + 24), FIN, b"");
            w.raw(false, s + 24, Some(c + 1), FIN, b"");
        } else {
            w.raw(false, s + 24, Some(c), FIN, b"");
            w.raw(true, c, Some(s), FIN, b"");
        }
        let came = w.time;
        assert_eq!(w.facts(), [""; 0]);
        w.wait(1_500);
        let end = w.out.iter().find(|event| matches!(event.fact, Fact::CircuitEnd(1)));
        assert_eq!(end.map(|end| end.time), Some(came), "{:?}", w.out);
    }
}

#[test]
fn closing_by_reset() {
    let mut w = with_channel();
    let [c, s] = w.seq;
    // One that is far off is not for this connection.
    w.raw(true, c.wrapping_sub(1 << 20), None, RST, b"");
    assert_eq!(w.facts(), [""; 0]);
    // What waits behind a gap is not forgotten.
    w.raw(true, c + 16, None, 0, &put(false, 7, 9, &[1.0]));
    w.raw(true, c + 40, None, RST, b"");
    let facts = w.facts();
    assert_eq!(puts(&facts), [9]);
    assert_eq!(facts[1], "end of circuit 1");
    // Under way when it broke.
    w.raw(true, c + 40, None, 0, &put(false, 7, 10, &[1.0]));
    w.raw(false, s, None, RST, b"");
    assert_eq!(w.facts(), [""; 0]);
}

#[test]
fn ports_are_used_again() {
    let mut w = with_channel();
    w.seq = [77, 88];
    w.handshake();
    w.client(&version());
    let facts = w.facts();
    assert_eq!(facts[..2], ["end of circuit 1", "circuit 2 Opened user= host= minor=13"]);
    // The SYN was sent again, and seen on two interfaces.
    w.raw(true, 76, None, SYN, b"");
    w.raw(false, 87, Some(77), SYN, b"");
    assert_eq!(w.facts(), [""; 0]);
    // A SYN that was missed: only its answer was seen.
    w.seq = [200, 300];
    w.raw(false, 299, Some(200), SYN, b"");
    w.client(&version());
    assert_eq!(w.facts()[..2], ["end of circuit 2", "circuit 3 Opened user= host= minor=13"]);
}

#[test]
fn ports_are_used_again_after_the_end_and_the_opening_was_missed() {
    let mut w = with_channel();
    let [c, s] = w.seq;
    w.raw(true, c, None, FIN, b"");
    w.raw(false, s, None, FIN, b"");
    w.facts();
    w.seq = [c + 1_000_000, s + 1_000_000];
    w.client(&put(false, 8, 3, &[1.0]));
    let facts = w.facts();
    assert_eq!(facts[0], "circuit 2 MidStream user= host= minor=0");
    assert_eq!(puts(&facts), [3]);
}

#[test]
fn keep_alives_and_retransmissions() {
    let mut w = with_channel();
    w.client(&put(false, 7, 1, &[1.0]));
    let c = w.seq[0];
    w.raw(true, c - 1, None, 0, b"");
    w.raw(true, c - 1, None, 0, b"\0");
    w.raw(true, c - 24, None, 0, &put(false, 7, 1, &[1.0]));
    // Cut differently, with something new behind.
    w.raw(true, c - 10, None, 0, &[&put(false, 7, 1, &[1.0])[14..], &put(false, 7, 2, &[2.0])].concat());
    assert_eq!(puts(&w.facts()), [1, 2]);
}

#[test]
fn a_gap_is_waited_for_and_then_counted() {
    let mut w = with_channel();
    let c = w.seq[0];
    w.raw(true, c + 24, None, 0, &put(false, 7, 2, &[2.0]));
    w.wait(500);
    assert_eq!(w.facts(), [""; 0]);
    w.raw(true, c, None, 0, &put(false, 7, 1, &[1.0]));
    let times: Vec<_> = w.out.iter().map(|e| e.time).collect();
    assert_eq!(times, [w.time, w.time], "both are seen by the server now");
    assert_eq!(puts(&w.facts()), [1, 2]);
    w.lose(true, 48);
    w.lose(true, 240);
    w.client(&put(false, 7, 3, &[3.0]));
    let seen = w.time;
    w.wait(1100);
    assert_eq!(w.out.first().map(|e| e.time), Some(seen), "the server had it then");
    let facts = w.facts();
    assert_eq!(puts(&facts), [3]);
    assert_eq!(lost(&facts), 240);
    assert!(facts[1].contains("client 10.0.0.1:40001, server 10.0.0.2:5064"), "{facts:?}");
}

#[test]
fn a_gap_that_the_receiver_does_not_have_is_hardly_waited_for() {
    let mut w = with_channel();
    let s = w.seq[1];
    w.lose(true, 24);
    w.client(&put(true, 7, 2, &[2.0]));
    assert_eq!(w.facts(), [""; 0]);
    let answer = message(19, 6, 1, 1, 2, b"");
    let c = w.seq[0];
    w.raw(false, s, Some(c), 0, &answer);
    w.wait(450);
    assert_eq!(w.facts(), [""; 0], "it may be late in the capture, and the order stays");
    w.wait(50);
    let facts = w.facts();
    assert!(facts[0].starts_with("put with answer on 1 channel 1"), "{facts:?}");
    assert_eq!(facts[1], "answer on 1 ioid=2 notify=true status=1 ");
    assert_eq!(lost(&facts[2..]), 24);
}

#[test]
fn segments_from_far_away() {
    let mut w = with_channel();
    let c = w.seq[0];
    w.raw(true, c.wrapping_add(1 << 30), None, 0, &put(false, 7, 1, &[1.0]));
    w.client(&put(false, 7, 2, &[1.0]));
    assert_eq!(puts(&w.facts()), [2], "a stray changes nothing");
    // A gap larger than is ever waited for.
    w.lose(true, 100 << 20);
    for ioid in 3..6 {
        w.client(&put(false, 7, ioid, &[1.0]));
    }
    w.wait(1);
    let facts = w.facts();
    assert_eq!(puts(&facts), [4, 5]);
    assert_eq!(lost(&facts), (100 << 20) + 24);
}

#[test]
fn a_cid_in_use_again_after_its_end_was_missed() {
    let mut w = with_channel();
    w.client(&put(false, 9, 1, &[1.0]));
    let time = w.time;
    w.decoder.seed(0, time, CLIENT, SERVER, "", "", 0, &[seed(5, 9, "B")], &mut w.out);
    w.facts();
    w.client(&message(12, 0, 0, 7, 5, b""));
    assert_eq!(w.facts(), ["end of channel 1"]);
    w.server(&message(27, 0, 0, 5, 0, b""));
    assert_eq!(w.facts(), ["end of channel 2"]);
}

#[test]
fn much_behind_a_gap_ends_the_wait() {
    let mut w = Wire::with(Limits { buffered: 10_000, ..Limits::default() });
    w.handshake();
    w.client(&version());
    w.lose(true, 8);
    for ioid in 0..200 {
        w.client(&put(false, 7, ioid, &[1.0; 20]));
    }
    let facts = w.facts();
    assert_eq!(puts(&facts), (0..200).collect::<Vec<_>>());
    // All connections together may hold no more either.
    let mut w = Wire::with(Limits { all_buffered: 20_000, ..Limits::default() });
    for port in 1..20 {
        w.use_port(port);
        w.handshake();
        w.client(&version());
        w.lose(true, 8);
        w.client(&put(false, 7, 1, &[1.0; 500]));
    }
    assert!(puts(&w.facts()).len() >= 14);
}

#[test]
fn a_gap_inside_of_a_payload_costs_no_framing() {
    let mut w = with_channel();
    let m = put(false, 7, 1, &[1.0; 2000]);
    w.client(&m[..8000]);
    w.lose(true, 3000);
    w.client(&m[11_000..]);
    w.client(&put(false, 7, 2, &[1.0]));
    w.wait(1100);
    let facts = w.facts();
    assert_eq!(puts(&facts), [1, 2]);
    assert_eq!(lost(&facts), 0, "nothing that would have been kept");
    // In the part that is kept: what came before it stays.
    let m = put(false, 7, 3, &[1.0; 100]);
    w.client(&m[..416]);
    w.lose(true, 200);
    w.client(&m[616..]);
    w.client(&put(false, 7, 4, &[1.0]));
    w.wait(1100);
    let kept: Vec<_> = w
        .out
        .iter()
        .filter_map(|e| match &e.fact {
            Fact::CaPut(p) => Some((p.ioid, p.length, p.payload.len())),
            _ => None,
        })
        .collect();
    assert_eq!(kept, [(3, 800, 400), (4, 8, 8)]);
}

/// RSRV refuses what is too large for it when it has read the header: the rest is still on its way. Clients use one number for
/// all puts to a channel.
#[test]
fn a_put_may_be_refused_before_it_is_sent() {
    let mut w = with_channel();
    w.client(&put(false, 7, 5, &[1.0]));
    let large = put(false, 7, 5, &[1.0; 25_000]);
    w.client(&large[..1200]);
    let refusal = [&large[..24], &b"too large\0"[..]].concat();
    w.server(&message(11, 0, 0, 5, 72, &refusal));
    w.client(&large[1200..]);
    w.client(&put(false, 7, 6, &[1.0]));
    let kinds: Vec<String> = w
        .facts()
        .iter()
        .filter_map(|fact| {
            Some(fact.split(' ').next()?.to_owned()).filter(|kind| ["put", "answer"].contains(&kind.as_str()))
        })
        .collect();
    assert_eq!(kinds, ["put", "put", "answer", "put"]);
}

#[test]
fn joined_in_mid_stream() {
    let mut w = Wire::new();
    w.client(&put(false, 7, 1, &[1.0]));
    let facts = w.facts();
    assert_eq!(
        facts[..2],
        ["circuit 1 MidStream user= host= minor=0", "channel 1 on 1 MidStream cid=- sid=7 pv= dbr=- count=-"]
    );
    assert_eq!(puts(&facts), [1]);
    w.server(&message(19, 6, 1, 1, 1, b""));
    assert_eq!(w.facts(), ["answer on 1 ioid=1 notify=true status=1 "]);
    // Named later, from the server's memory.
    let (user, time) = ("operator", w.time);
    let channels = [seed(5, 7, "A"), seed(6, 8, "B")];
    let id = w.decoder.seed(0, time, CLIENT, SERVER, user, "opi", 13, &channels, &mut w.out);
    assert_eq!(id, 1);
    assert_eq!(
        w.facts(),
        [
            "circuit 1 MidStream user=operator host=opi minor=13",
            "channel 1 on 1 MidStream cid=5 sid=7 pv=A dbr=- count=-",
            "channel 2 on 1 Memory cid=6 sid=8 pv=B dbr=- count=-",
        ]
    );
    w.client(&put(false, 8, 2, &[1.0]));
    assert!(w.facts()[0].starts_with("put on 1 channel 2 "));
    // Told once more, nothing new.
    let time = w.time;
    w.decoder.seed(0, time, CLIENT, SERVER, user, "opi", 13, &channels, &mut w.out);
    assert_eq!(w.facts(), [""; 0]);
}

#[test]
fn joined_inside_of_a_large_put() {
    let mut w = Wire::new();
    let m = put(false, 7, 1, &[0.0; 3000]);
    for part in m[2000..].chunks(1448) {
        w.client(part);
    }
    w.client(&put(false, 7, 2, &[2.0; 1000])[..4000]);
    assert_eq!(puts(&w.facts()), [0; 0], "in doubt");
    w.client(&put(false, 7, 2, &[2.0; 1000])[4000..]);
    w.client(&put(false, 7, 3, &[2.0]));
    assert_eq!(puts(&w.facts()), [2, 3]);
    w.wait(1);
    let facts = w.facts();
    assert_eq!(lost(&facts), m.len() as u64 - 2000, "{facts:?}");
}

/// Two captures of one connection, one behind the other: bytes of megabytes before come again, each with all that speaks for it.
#[test]
fn what_was_sent_megabytes_before_is_not_told_again() {
    let mut w = with_channel();
    let sent: Vec<Vec<u8>> = (1..150).map(|ioid| put(false, 7, ioid, &[f64::from(ioid); 2000])).collect();
    let mut sequence = w.seq[0];
    sent.iter().for_each(|put| w.client(put));
    assert_eq!(puts(&w.facts()), (1..150).collect::<Vec<_>>());
    for put in sent.iter().take(50) {
        w.raw(true, sequence, None, 0, put);
        sequence = sequence.wrapping_add(put.len() as u32);
    }
    w.client(&put(false, 7, 150, &[1.0]));
    w.wait(1100);
    w.wait(1100);
    let facts = w.facts();
    assert_eq!((puts(&facts), lost(&facts)), (vec![150], 0), "{facts:?}");
}

/// What a stranger sent far ahead was believed. The client goes on where it was.
#[test]
fn a_client_that_was_left_for_a_stranger_is_followed_again() {
    let mut w = with_channel();
    let mut sequence = w.seq[0].wrapping_add(10 << 20);
    for ioid in 101..104 {
        let strange = put(false, 7, ioid, &[6.0]);
        w.raw(true, sequence, None, 0, &strange);
        sequence = sequence.wrapping_add(strange.len() as u32);
    }
    w.wait(1);
    assert_eq!(puts(&w.facts()), [102, 103]);
    for ioid in 1..6 {
        w.client(&put(false, 7, ioid, &[1.0]));
    }
    w.wait(1);
    assert_eq!(puts(&w.facts()), [2, 3, 4, 5]);
}

/// A busy client's segments begin anywhere. After a hole its puts are found again inside them.
#[test]
fn puts_after_a_hole_are_found_inside_segments() {
    for (values, puts) in [(1, 600), (10, 600), (300, 60), (3000, 60)] {
        for cut in [1448, 536, 1000] {
            let mut w = with_channel();
            let all: Vec<u8> = (0..puts)
                .flat_map(|ioid| put(ioid % 2 == 0, 7, ioid, &vec![f64::from(ioid); values]))
                .collect();
            let (mut given, mut lost) = (0, 0);
            for (number, part) in all.chunks(cut).enumerate() {
                // at least one header is lost
                if number == 1 || number > 1 && number * cut < 16 + 8 * values + 100 {
                    w.lose(true, part.len() as u32);
                    lost += part.len();
                } else {
                    w.client(part);
                    given += part.len();
                }
            }
            w.client(&put(false, 7, 1000, &[1.0]));
            w.wait(1100);
            w.wait(1100);
            let out = std::mem::take(&mut w.out);
            let mut seen = 0;
            for event in &out {
                if let Fact::CaPut(put) = &event.fact {
                    seen += 1;
                    let value = if put.ioid == 1000 { 1.0 } else { f64::from(put.ioid) };
                    assert!(put.payload.chunks(8).all(|bytes| bytes == value.to_be_bytes()), "{put:?}");
                }
            }
            w.out = out;
            let counted = self::lost(&w.facts()) as usize;
            let each = 16 + 8 * values;
            let least = puts as usize + 1 - lost / each - 3;
            assert!(seen >= least, "{values} {cut}: {seen}, {least} expected");
            // what is missing at the end of a value that was cut is not in the count
            assert!(
                counted > 0 && counted <= lost + 3 * each,
                "{values} {cut}: {counted}, {lost} of {given}"
            );
        }
    }
}

#[test]
fn seeded_before_the_packets_are_looked_at() {
    // once more for a thread whose first hit was earlier
    for is_again in [false, true] {
        let mut w = Wire::new();
        let (earlier, time) = (w.time, w.time + 500 * MS);
        w.decoder.seed(0, time, CLIENT, SERVER, "u", "h", 13, &[seed(5, 7, "A")], &mut w.out);
        assert_eq!(w.facts().len(), 2);
        if is_again {
            w.decoder.seed(0, earlier, CLIENT, SERVER, "u", "h", 13, &[seed(5, 7, "A")], &mut w.out);
            assert_eq!(w.facts(), [""; 0]);
        }
        w.handshake();
        w.client(&[version(), named(20, 0, 0, "u"), named(21, 0, 0, "h"), named(18, 5, 13, "A")].concat());
        w.server(&message(18, 6, 1, 5, 7, b""));
        w.client(&put(false, 7, 2, &[1.0]));
        let facts = w.facts();
        assert_eq!(facts[0], "channel 1 on 1 Memory cid=5 sid=7 pv=A dbr=6 count=1");
        assert_eq!(puts(&facts), [2]);
        assert_eq!(facts.len(), 2);
    }
}

#[test]
fn a_put_overtakes_the_answer_that_names_its_channel() {
    let mut w = Wire::open();
    w.client(&[version(), named(18, 5, 13, "A")].concat());
    w.client(&put(false, 7, 1, &[1.0]));
    w.facts();
    w.server(&message(18, 6, 1, 5, 7, b""));
    assert_eq!(w.facts(), ["end of channel 1", "channel 2 on 1 MidStream cid=5 sid=7 pv=A dbr=6 count=1"]);
}

#[test]
fn other_protocols_are_left_alone() {
    for first in [
        &b"\xca\x02\x00\x01\x00\x00\x00\x06......"[..],
        b"GET / HTTP/1.1\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abcde",
    ] {
        let mut w = Wire::open();
        w.client(first);
        for _ in 0..1000 {
            w.client(&[0xca; 1400]);
            w.server(&[0xca; 1400]);
            w.wait(50);
        }
        let facts = w.facts();
        assert_eq!(facts.len(), 1, "{facts:?}");
        assert!(facts[0].contains("else than Channel Access"), "{facts:?}");
        // The next client on these ports may be another.
        w.seq = [9, 9];
        w.handshake();
        w.client(&version());
        assert_eq!(w.facts()[0], "circuit 1 Opened user= host= minor=13");
    }
    // Joined in mid-stream: after a while it is plain.
    let mut w = Wire::new();
    for _ in 0..1000 {
        w.client(&[0xca; 1400]);
        w.server(&[0xca; 1400]);
        w.wait(50);
    }
    assert!(w.facts().len() <= 4);
}

#[test]
fn noise_ends_no_circuit_for_good() {
    let mut w = with_channel();
    w.client(&[0xee; 100]);
    w.client(&put(false, 7, 1, &[1.0]));
    w.wait(1);
    let facts = w.facts();
    assert_eq!(puts(&facts), [1]);
    assert_eq!(lost(&facts), 100);
}

#[test]
fn segments_of_updates_may_lack_their_bytes() {
    let mut w = with_channel();
    let updates = message(1, 20, 1, 1, 3, &[0; 24]).repeat(4);
    let answer = message(19, 6, 1, 1, 9, b"");
    for _ in 0..3 {
        let p = packet(SERVER, CLIENT, w.seq[1], Some(w.seq[0]), 0, &updates);
        let time = w.time;
        w.decoder.packet(0, time, &p[..40], p.len(), &mut w.out);
        w.lose(false, updates.len() as u32);
    }
    w.server(&answer);
    w.wait(2000);
    assert_eq!(w.facts(), ["answer on 1 ioid=9 notify=true status=1 "]);
    // Cut behind the header of the last one.
    let m = [message(19, 6, 1, 1, 10, b""), message(1, 20, 500, 1, 3, &[0; 4016])].concat();
    let p = packet(SERVER, CLIENT, w.seq[1], Some(w.seq[0]), 0, &m);
    let time = w.time;
    w.decoder.packet(0, time, &p[..40 + 32], p.len(), &mut w.out);
    w.lose(false, m.len() as u32);
    w.server(&message(19, 6, 1, 1, 11, b""));
    w.wait(2000);
    assert_eq!(
        w.facts(),
        ["answer on 1 ioid=10 notify=true status=1 ", "answer on 1 ioid=11 notify=true status=1 "]
    );
}

#[test]
fn ends_are_told_apart_without_an_opening() {
    // Neither port is known.
    let mut w = Wire::new();
    serve(&mut w.decoder, &[]);
    w.server(&message(1, 20, 1, 1, 3, &[0; 24]));
    w.client(&put(false, 7, 1, &[1.0]));
    assert_eq!(puts(&w.facts()), [1]);
    assert_eq!(w.decoder.circuit(0, CLIENT, SERVER), Some(1));
    // A client on a port that a server has elsewhere.
    let mut w = Wire::new();
    serve(&mut w.decoder, &[SERVER.port, CLIENT.port]);
    w.client(&[version(), named(20, 0, 0, "u")].concat());
    assert_eq!(w.decoder.circuit(0, CLIENT, SERVER), Some(1));
    // The opening is believed before the ports.
    let mut w = Wire::new();
    serve(&mut w.decoder, &[CLIENT.port]);
    w.handshake();
    w.client(&version());
    assert_eq!(w.decoder.circuit(0, CLIENT, SERVER), Some(1));
}

#[test]
fn tables_are_bounded() {
    let mut w = Wire::with(Limits { circuits: 10, channels: 20, all_channels: 50, ..Limits::default() });
    for port in 1..=30 {
        w.use_port(port);
        w.handshake();
        w.client(&version());
        for cid in 0..30 {
            w.client(&named(18, cid, 13, "A"));
        }
    }
    // Connections that never say anything push out no circuit.
    for port in 1000..2000 {
        w.raw_from(Address { port, ..CLIENT }, SYN);
    }
    w.wait(1);
    w.wait(2000);
    let facts = w.facts();
    let count = |start: &str| facts.iter().filter(|f| f.starts_with(start)).count();
    assert_eq!(count("circuit") - count("forgotten: circuit"), 10);
    assert_eq!(count("end of"), 0, "all are open");
    let ended_with_circuit = 30 * 30 - count("forgotten: channel");
    assert!(ended_with_circuit >= 50 - 10, "{ended_with_circuit}");
    assert!(facts.iter().any(|f| f.contains("circuits forgotten")));
    assert!(facts.iter().any(|f| f.contains("channels forgotten")));
}

impl Wire {
    fn raw_from(&mut self, client: Address, flags: u8) {
        let p = packet(client, SERVER, 1, None, flags, b"");
        let time = self.time;
        self.decoder.packet(0, time, &p, p.len(), &mut self.out);
    }
}
