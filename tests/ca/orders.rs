//! The packets of a circuit, captured in other orders than they were sent: several processors write to the capture, and one
//! of them may be late.

use crate::wire::*;
use iocrec::ca::Limits;

/// A circuit from its opening to two puts.
fn circuit() -> Vec<Packet> {
    let mut talk = Talk::open(CLIENT, SERVER, 1400);
    talk.say(false, &version());
    talk.say(true, &[version(), named(20, 0, 0, "op"), named(21, 0, 0, "console")].concat());
    talk.say(true, &named(18, 5, 13, "A"));
    talk.say(false, &message(22, 0, 0, 5, 3, b""));
    talk.say(false, &message(18, 6, 1, 5, 7, b""));
    for ioid in 1..3 {
        talk.say(true, &put(true, 7, ioid, &[f64::from(ioid)]));
        talk.say(false, &message(19, 6, 1, 1, ioid, b""));
    }
    talk.end()
}

/// What the packets tell, and losses.
fn told(packets: &[Packet], filtered: bool, confirms: bool) -> Vec<String> {
    let mut w = Wire::with(Limits { filtered, ..Limits::default() });
    if confirms {
        w.decoder.expect_confirmation();
    }
    for (_, packet) in packets {
        w.time += MS;
        w.decoder.packet(0, w.time, packet, packet.len(), &mut w.out);
        w.decoder.tick(w.time, &mut w.out);
    }
    w.wait(6000);
    let time = w.time;
    w.decoder.finish(time, &mut w.out);
    w.facts()
}

/// All that there is to tell is told, and nothing else.
fn check(facts: &[String], how: &str) {
    assert_eq!(facts.iter().filter(|fact| fact.starts_with("put")).count(), 2, "{how}");
    assert!(facts.iter().any(|fact| fact.contains("pv=A") && fact.contains("sid=7")), "{how}");
    assert!(facts.iter().any(|fact| fact.contains("user=op host=console")), "{how}");
    assert_eq!(facts.iter().filter(|fact| fact.starts_with("end of circuit")).count(), 1, "{how}");
    assert!(!facts.iter().any(|fact| fact.starts_with("loss")), "{how}");
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
