//! The packets of a circuit, captured in other orders than they were sent: several processors write to the capture, and one
//! of them may be late.

use crate::wire::*;
use iocrec::net::protocol::Decoder as _;
use iocrec::pva::{Decoder, Limits};

/// A circuit from its opening to two puts.
fn circuit() -> Vec<Packet> {
    let mut talk = Talk::open(CLIENT, SERVER, 1400);
    talk.say(false, &hex("ca024102 00000000"));
    talk.say(
        false,
        &message(0x40, 1, &[hex("00440000 ff7f 02"), string("anonymous"), string("ca")].concat()),
    );
    talk.say(true, &identity("op", "console"));
    talk.say(false, &message(0x40, 9, &[0xff]));
    talk.say(true, &create(1, "T:AO"));
    talk.say(false, &created(1, 2));
    talk.say(true, &request(11, 2, 3, 8, NO_OPTIONS));
    talk.say(false, &answer(11, 3, 8, &[&[0xff], SCALAR].concat()));
    for number in [3.5f64, 4.5] {
        talk.say(true, &request(11, 2, 3, 0, &[&hex("0102")[..], &number.to_le_bytes()].concat()));
        talk.say(false, &answer(11, 3, 0, &[0xff]));
    }
    talk.end()
}

/// What is told of a request for a channel that is captured so long after its answer.
fn asked_late(ms: u64) -> Vec<String> {
    let mut w = Wire::open();
    w.client(&identity("op", "console"));
    let (at, asked) = (w.seq[0], create(1, "T:AO"));
    w.lose(true, asked.len() as u32);
    w.server(&created(1, 2));
    w.time += ms * MS;
    w.decoder.tick(w.time, &mut w.out);
    w.raw(true, at, Some(w.seq[1]), 0, &asked);
    w.decoder.finish(w.time, &mut w.out);
    w.facts()
}

/// The server's channel has no name then.
#[test]
fn what_comes_too_late_is_a_loss() {
    for (ms, is_late) in [(100, false), (490, false), (510, true), (2000, true)] {
        let facts = asked_late(ms);
        let is_named = facts.iter().any(|fact| fact.ends_with(" T:AO cid Some(1) sid Some(2)"));
        let length = create(1, "T:AO").len();
        let loss = format!("lost {length} bytes of PVAccess were not captured, or too late");
        assert_eq!((is_named, facts.contains(&loss)), (!is_late, is_late), "{ms} {facts:#?}");
        assert_eq!(facts.iter().any(|fact| fact.starts_with("lost")), is_late, "{ms} {facts:#?}");
    }
}

/// What is behind it in the same segment was not answered before.
#[test]
fn no_more_is_too_late_than_was_answered() {
    let mut w = Wire::open();
    w.client(&identity("op", "console"));
    let (at, asked) = (w.seq[0], create(1, "T:AO"));
    w.lose(true, asked.len() as u32);
    w.server(&created(1, 2));
    w.time += 500 * MS;
    w.decoder.tick(w.time, &mut w.out);
    w.raw(true, at, Some(w.seq[1]), 0, &[&asked[..], &create(2, "T:BO")].concat());
    w.decoder.finish(w.time, &mut w.out);
    let lost: Vec<String> = w.facts().into_iter().filter(|fact| fact.starts_with("lost")).collect();
    assert_eq!(lost, [format!("lost {} bytes of PVAccess were not captured, or too late", asked.len())]);
}

fn told(packets: &[Packet], filtered: bool, confirms: bool) -> Vec<String> {
    let mut w = Wire::new();
    w.decoder = Decoder::new(Limits { filtered, ..Limits::default() });
    serve(&mut w.decoder);
    if confirms {
        w.decoder.expect_confirmation();
    }
    for (_, packet) in packets {
        w.time += MS;
        w.decoder.packet(0, w.time, packet, packet.len(), &mut w.out);
        w.decoder.tick(w.time, &mut w.out);
    }
    w.time += 6000 * MS;
    w.decoder.tick(w.time, &mut w.out);
    w.decoder.finish(w.time, &mut w.out);
    w.facts()
}

/// All that there is to tell is told, and nothing else.
fn check(facts: &[String], how: &str) {
    assert_eq!(facts.iter().filter(|fact| fact.starts_with("Put to 1: [3]")).count(), 2, "{how}");
    assert!(facts.iter().any(|fact| fact.starts_with("channel 1 T:AO")), "{how}");
    assert!(facts.iter().any(|fact| fact.contains("op@console")), "{how}");
    assert_eq!(facts.iter().filter(|fact| *fact == "circuit 1 ends").count(), 1, "{how}");
    assert!(!facts.iter().any(|fact| fact.starts_with("lost")), "{how}");
}

#[test]
fn packets_that_are_late() {
    let packets = circuit();
    for (filtered, confirms) in [(false, false), (false, true), (true, false), (true, true)] {
        let whole = told(&packets, filtered, confirms);
        check(&whole, "as they were sent");
        for changed in orders(&packets, 6) {
            let facts = told(&changed, filtered, confirms);
            let sent: Vec<_> = changed.iter().map(|(time, _)| (time / MS) % 1000).collect();
            check(&facts, &format!("{sent:?} {filtered} {confirms}: {facts:#?}"));
        }
    }
}
