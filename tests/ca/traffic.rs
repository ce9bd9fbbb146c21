//! What is noted of circuits beside puts: ends with their reasons, refusals, rights, slow clients, echoes, counts.

use crate::wire::*;
use iocrec::ca::Limits;
use iocrec_log::event::{ChannelReason, CircuitSide, CloseReason, Fact, Message};

/// A circuit whose traffic is counted, after its opening and the client's hello.
fn counted(priority: u16) -> Wire {
    let mut w = Wire::new();
    w.decoder.count_traffic();
    w.handshake();
    w.client(&message(0, priority, 13, 0, 0, b""));
    w.client(&[named(20, 0, 0, "ops"), named(21, 0, 0, "console")].concat());
    w
}

/// A channel, made by the server.
fn channel(w: &mut Wire, cid: u32, sid: u32, rights: u32) {
    w.client(&named(18, cid, 13, &format!("PV{cid}")));
    w.server(&[message(22, 0, 0, cid, rights, b""), message(18, 6, 1, cid, sid, b"")].concat());
}

fn noted(w: &mut Wire) -> Vec<Fact> {
    w.out.drain(..).map(|event| event.fact).collect()
}

#[test]
fn each_end_has_its_reason_and_its_side() {
    let ended = |end: &dyn Fn(&mut Wire)| {
        let mut w = counted(0);
        end(&mut w);
        let facts = noted(&mut w);
        let closed = facts.iter().position(|fact| matches!(fact, Fact::CircuitClosed(_))).expect("an end");
        assert!(matches!(facts[closed + 1], Fact::CircuitEnd(1)), "its reason comes before it");
        let Fact::CircuitClosed(closed) = facts[closed] else { unreachable!() };
        (closed.reason, closed.by)
    };
    let (client, server) = (Some(CircuitSide::Client), Some(CircuitSide::Server));
    let fin = |w: &mut Wire, from_client: bool| {
        let side = usize::from(!from_client);
        w.raw(from_client, w.seq[side], None, FIN, b"");
        w.seq[side] += 1;
    };
    assert_eq!(ended(&|w| (fin(w, true), fin(w, false)).0), (CloseReason::Closed, client));
    assert_eq!(ended(&|w| (fin(w, false), fin(w, true)).0), (CloseReason::Closed, server));
    // bytes of the server are not seen, be it that the filter left them out: its end waits for them, until the client
    // closes in turn and acknowledges them
    let unseen = ended(&|w| {
        w.lose(false, 64);
        fin(w, false);
        w.raw(true, w.seq[0], Some(w.seq[1]), FIN, b"");
        w.seq[0] += 1;
        w.wait(61_000);
    });
    assert_eq!(unseen, (CloseReason::Closed, server));
    let half = ended(&|w| {
        fin(w, false);
        w.wait(61_000);
    });
    assert_eq!(half, (CloseReason::HalfClosed, server));
    // recording ends meanwhile
    let half = ended(&|w| {
        channel(w, 1, 101, 3);
        fin(w, true);
        w.wait(1500);
        w.decoder.finish(w.time, &mut w.out);
    });
    assert_eq!(half, (CloseReason::HalfClosed, client));
    assert_eq!(ended(&|w| w.raw(true, w.seq[0], None, RST, b"")), (CloseReason::Reset, client));
    assert_eq!(ended(&|w| w.raw(false, w.seq[1], None, RST, b"")), (CloseReason::Reset, server));
    // what the server still sent to a client that had closed is left out by the filter; the client's machine refuses it
    let refused = ended(&|w| {
        fin(w, true);
        w.raw(true, w.seq[0], None, RST, b"");
    });
    assert_eq!(refused, (CloseReason::Reset, client));
    // the same, but the end waits for data that were captured late
    let refused = ended(&|w| {
        let at = w.seq[0];
        w.raw(true, at + 16, None, FIN, b"");
        w.raw(true, at + 17, None, RST, b"");
        w.client(&message(23, 0, 0, 0, 0, b""));
    });
    assert_eq!(refused, (CloseReason::Reset, client));
}

/// The answer to an end may be under way when recording ends.
#[test]
fn an_end_that_is_not_answered_yet() {
    let mut w = counted(0);
    channel(&mut w, 1, 101, 3);
    w.raw(true, w.seq[0], None, FIN, b"");
    w.wait(500);
    w.decoder.finish(w.time, &mut w.out);
    let is_end = |fact: &Fact| matches!(fact, Fact::CircuitClosed(_) | Fact::CircuitEnd(_));
    assert!(!noted(&mut w).iter().any(is_end), "it may be open");
}

/// A capture of what a server sends alone does not show whether its client closed the circuit, too, or first.
#[test]
fn an_end_of_which_one_side_was_captured() {
    let mut w = Wire::new();
    w.decoder.count_traffic();
    w.raw(false, w.seq[1] - 1, Some(w.seq[0]), SYN, b"");
    w.server(&message(0, 0, 13, 0, 0, b""));
    w.server(&[message(22, 0, 0, 1, 3, b""), message(18, 6, 1, 1, 101, b"")].concat());
    w.raw(false, w.seq[1], None, FIN, b"");
    w.wait(61_000);
    let closed = noted(&mut w).into_iter().find_map(|fact| match fact {
        Fact::CircuitClosed(closed) => Some((closed.reason, closed.by)),
        _ => None,
    });
    assert_eq!(closed, Some((CloseReason::Closed, None)));
}

/// What the filter left out last is known by what the client acknowledges when it ends the circuit.
#[test]
fn bytes_that_were_left_out_last_count() {
    for flags in [FIN, RST] {
        let mut w = Wire::with(Limits { filtered: true, ..Limits::default() });
        w.decoder.count_traffic();
        w.handshake();
        let first = w.seq[1];
        w.client(&message(0, 0, 13, 0, 0, b""));
        w.server(&message(0, 0, 13, 0, 0, b""));
        channel(&mut w, 1, 101, 3);
        w.wait(2000);
        w.lose(false, 4800);
        w.raw(true, w.seq[0], Some(w.seq[1]), flags, b"");
        if flags == FIN {
            w.raw(false, w.seq[1], None, FIN, b"");
        }
        w.wait(61_000);
        let counts: Vec<(u64, u64)> = noted(&mut w)
            .into_iter()
            .filter_map(|fact| match fact {
                Fact::CircuitTraffic(of) => Some((of.from_server, of.not_looked_at)),
                _ => None,
            })
            .collect();
        let all = counts.iter().fold((0, 0), |all, of| (all.0 + of.0, all.1 + of.1));
        assert_eq!(all, (u64::from(w.seq[1] - first), 4800), "{flags}: {counts:?}");
    }
}

#[test]
fn a_client_that_takes_nothing() {
    let mut w = counted(0);
    channel(&mut w, 1, 101, 3);
    noted(&mut w);
    let stalls = |w: &mut Wire| -> Vec<(u64, u64, bool)> {
        let of = |fact| match fact {
            Fact::ClientStalled(of) => Some((of.since, of.until, of.is_over)),
            _ => None,
        };
        noted(w).into_iter().filter_map(of).collect()
    };
    // full for a moment: that is how TCP works
    w.window(true);
    w.wait(900);
    w.window(false);
    assert_eq!(stalls(&mut w), []);
    w.window(true);
    let since = w.time;
    w.wait(5000);
    assert_eq!(stalls(&mut w), [], "nothing says that it is still closed, nor that data wait");
    w.window(true);
    let last = w.time;
    assert_eq!(stalls(&mut w), [(since, last, false)]);
    for _ in 0..3 {
        w.wait(9_000);
        w.window(true);
    }
    assert_eq!(stalls(&mut w), [], "it was said");
    w.wait(9_000);
    w.window(true);
    let last = w.time;
    assert_eq!(stalls(&mut w), [(since, last, false)]);
    w.wait(1000);
    w.window(false);
    let open = w.time;
    assert_eq!(stalls(&mut w), [(since, open, true)]);
    w.window(false);
    assert_eq!(stalls(&mut w), []);
    // one that ends with its circuit; somebody else's acknowledgements change nothing
    w.window(true);
    let since = w.time;
    w.wait(2000);
    w.window(true);
    noted(&mut w);
    let forged = bare(w.client, w.server, w.seq.map(|seq| seq.wrapping_add(1 << 24)), false);
    w.decoder.packet(0, w.time, &forged, forged.len(), &mut w.out);
    assert_eq!(stalls(&mut w), []);
    w.raw(true, w.seq[0], None, RST, b"");
    assert_eq!(stalls(&mut w), [(since, w.time, true)]);
}

#[test]
fn refusals_rights_and_the_ends_of_channels() {
    let mut w = counted(20);
    channel(&mut w, 1, 101, 3);
    channel(&mut w, 2, 102, 1);
    w.client(&named(18, 3, 13, "NO:SUCH"));
    w.server(&message(26, 0, 0, 3, 0, b""));
    w.server(&message(27, 0, 0, 1, 0, b""));
    w.client(&message(12, 0, 0, 102, 2, b""));
    w.server(&message(22, 0, 0, 2, 3, b""));
    let facts = noted(&mut w);
    let of = |fact: &Fact| match fact {
        Fact::CircuitPriority(of) => Some(format!("priority {}", of.priority)),
        Fact::AccessRights(of) => Some(format!("rights {} of {}", of.rights, of.channel)),
        Fact::ChannelClosed(of) => Some(format!("{:?} {}", of.reason, of.channel)),
        Fact::ChannelEnd(channel) => Some(format!("end of {channel}")),
        _ => None,
    };
    let (refused, disconnected) = (ChannelReason::Refused, ChannelReason::Disconnected);
    let expected = [
        "priority 20".to_owned(),
        "rights 1 of 2".to_owned(),
        format!("{refused:?} 3"),
        "end of 3".to_owned(),
        format!("{disconnected:?} 1"),
        "end of 1".to_owned(),
        format!("{:?} 2", ChannelReason::Cleared),
        "end of 2".to_owned(),
    ];
    assert_eq!(facts.iter().filter_map(of).collect::<Vec<_>>(), expected);
}

/// Rights are told of any number of channels, and when they are given back; those of ended channels take no room.
#[test]
fn rights_of_many_channels() {
    let mut w = counted(0);
    let told = |w: &mut Wire| -> Vec<u16> {
        let of = |fact| if let Fact::AccessRights(of) = fact { Some(of.rights) } else { None };
        noted(w).into_iter().filter_map(of).collect()
    };
    let all: Vec<u32> = (1..=4200).collect();
    let parts = || all.chunks(20);
    let each = |part: &[u32], of: &dyn Fn(u32) -> Vec<u8>| -> Vec<u8> {
        part.iter().flat_map(|cid| of(*cid)).collect()
    };
    for part in parts() {
        w.client(&each(part, &|cid| named(18, cid, 13, &format!("PV{cid}"))));
        w.server(&each(part, &|cid| message(22, 0, 0, cid, 1, b"")));
        w.server(&each(part, &|cid| message(18, 6, 1, cid, 10_000 + cid, b"")));
    }
    assert_eq!(told(&mut w), vec![1; 4200]);
    for part in parts() {
        w.server(&each(part, &|cid| message(22, 0, 0, cid, 1, b"")));
    }
    assert_eq!(told(&mut w), [], "nothing new");
    for part in parts() {
        w.server(&each(part, &|cid| message(22, 0, 0, cid, 3, b"")));
    }
    assert_eq!(told(&mut w), vec![3; 4200]);
    // as a gateway does: it closes them, and opens others
    for part in parts() {
        w.server(&each(part, &|cid| message(22, 0, 0, cid, 0, b"")));
        w.client(&each(part, &|cid| message(12, 0, 0, 10_000 + cid, cid, b"")));
    }
    assert_eq!(told(&mut w), vec![0; 4200]);
    channel(&mut w, 9001, 29_001, 3);
    assert_eq!(told(&mut w), [], "what the channel before it had is forgotten");
    channel(&mut w, 9002, 29_002, 2);
    assert_eq!(told(&mut w), [2]);
}

#[test]
fn a_client_that_cannot_keep_up() {
    let mut w = counted(0);
    channel(&mut w, 1, 101, 3);
    w.client(&message(8, 0, 0, 0, 0, b""));
    w.wait(1500);
    w.wait(2500);
    w.client(&message(9, 0, 0, 0, 0, b""));
    w.wait(1500);
    w.wait(20_000);
    let off: Vec<(u32, u64, bool)> = noted(&mut w)
        .iter()
        .filter_map(|fact| match fact {
            Fact::EventsOff(of) => Some((of.times, of.off / MS / 100, of.is_off)),
            _ => None,
        })
        .collect();
    assert_eq!(off.iter().map(|(times, ..)| times).sum::<u32>(), 1, "{off:?}");
    assert_eq!(off.last().map(|(.., is_off)| *is_off), Some(false), "{off:?}");
    assert_eq!(off.iter().map(|(_, off, _)| off).sum::<u64>(), 40, "4.0 s: {off:?}");
    assert!(off.len() <= 3, "{off:?}");
}

/// Each circuit that is open has its notes, however many there are.
#[test]
fn a_client_among_many_that_cannot_keep_up() {
    let mut w = Wire::new();
    w.decoder.count_traffic();
    for port in 1..=2600 {
        w.use_port(port);
        w.handshake();
        w.client(&[version(), named(18, 5, 13, "A")].concat());
        w.server(&message(18, 6, 1, 5, 7, b""));
    }
    noted(&mut w);
    w.client(&message(8, 0, 0, 0, 0, b""));
    w.wait(1500);
    let of = |fact| if let Fact::EventsOff(of) = fact { Some(of.circuit) } else { None };
    let off: Vec<_> = noted(&mut w).into_iter().filter_map(of).collect();
    assert_eq!(off, [2600]);
}

/// What ends it may be captured before a note that it lasts, and taken after it: packets wait for each other. No time is left
/// to be told then, but that it is over is.
#[test]
fn a_client_that_keeps_up_again_by_the_time_of_a_note() {
    for early in [0, 50] {
        let mut w = counted(0);
        channel(&mut w, 1, 101, 3);
        w.client(&message(8, 0, 0, 0, 0, b""));
        w.wait(1500);
        // the next packet is a millisecond later than this
        w.time -= (1 + early) * MS;
        w.client(&message(9, 0, 0, 0, 0, b""));
        for _ in 0..3 {
            w.wait(1500);
        }
        let off: Vec<(u32, bool)> = noted(&mut w)
            .iter()
            .filter_map(|fact| match fact {
                Fact::EventsOff(of) => Some((of.times, of.is_off)),
                _ => None,
            })
            .collect();
        assert_eq!(off, [(1, true), (0, false)], "{early} ms before");
    }
}

#[test]
fn an_echo_without_an_answer_in_five_seconds() {
    let mut w = counted(0);
    let echo = message(23, 0, 0, 0, 0, b"");
    w.client(&echo);
    w.wait(4000);
    w.server(&echo);
    w.wait(10_000);
    let late = |facts: Vec<Fact>| -> Vec<bool> {
        let of = |fact: &Fact| if let Fact::EchoLate(of) = fact { Some(of.is_answered) } else { None };
        facts.iter().filter_map(of).collect()
    };
    assert_eq!(late(noted(&mut w)), [] as [bool; 0], "in time");
    w.client(&echo);
    w.wait(5500);
    w.wait(5500);
    assert_eq!(late(noted(&mut w)), [false], "noted once");
    w.server(&echo);
    assert_eq!(late(noted(&mut w)), [true]);
    // the two directions of a connection may come in another order than that of their times
    w.wait(10_000);
    w.server(&echo);
    w.time -= 2 * MS;
    w.client(&echo);
    w.wait(10_000);
    assert_eq!(late(noted(&mut w)), [] as [bool; 0], "answered");
    w.client(&echo);
    w.time += 7000 * MS;
    w.server(&echo);
    assert_eq!(late(noted(&mut w)), [true], "of a recorder that stood still, too");
}

/// Of a circuit that is older than the recorder a put is understood, but not yet what the server sends.
#[test]
fn echoes_of_a_circuit_that_is_older_than_the_recorder() {
    for filtered in [false, true] {
        let mut w = Wire::with(Limits { filtered, ..Limits::default() });
        w.decoder.count_traffic();
        let echo = message(23, 0, 0, 0, 0, b"");
        w.client(&put(false, 7, 5, &[1.0]).repeat(4));
        for _ in 0..4 {
            w.client(&echo);
            w.wait(1);
            w.server(&echo);
            w.wait(15_000);
        }
        w.decoder.finish(w.time, &mut w.out);
        let facts = noted(&mut w);
        assert!(
            facts.iter().any(|fact| matches!(fact, Fact::CaPut(_))),
            "the client is understood: {facts:?}"
        );
        assert!(!facts.iter().any(|fact| matches!(fact, Fact::EchoLate(_))), "each was answered: {facts:?}");
    }
}

/// An answer that was not captured is no late one, nor are those behind it that are not understood.
#[test]
fn echoes_whose_answers_were_not_captured() {
    for filtered in [false, true] {
        let mut w = Wire::with(Limits { filtered, ..Limits::default() });
        w.decoder.count_traffic();
        w.handshake();
        w.client(&[version(), named(18, 5, 13, "A")].concat());
        w.server(&[version(), message(18, 6, 1, 5, 7, b"")].concat());
        let echo = message(23, 0, 0, 0, 0, b"");
        for number in 0..8 {
            w.client(&echo);
            w.wait(1);
            if number == 2 {
                w.lose(false, 16);
                // the next shows that something is missing
                w.wait(100);
                w.server(&message(22, 0, 0, 5, 3, b""));
            } else {
                w.server(&echo);
            }
            w.wait(15_000);
        }
        w.decoder.finish(w.time, &mut w.out);
        let facts = noted(&mut w);
        assert!(!facts.iter().any(|fact| matches!(fact, Fact::EchoLate(_))), "each was answered: {facts:?}");
        // one that is not seen to be answered until it is late was answered by when something is seen to be missing
        w.client(&echo);
        w.lose(false, 16);
        w.wait(7000);
        w.server(&message(22, 0, 0, 5, 3, b""));
        w.wait(15_000);
        let late = |fact: &Fact| if let Fact::EchoLate(of) = fact { Some(of.is_answered) } else { None };
        let late: Vec<bool> = noted(&mut w).iter().filter_map(late).collect();
        assert_eq!(late, [false, true], "filtered {filtered}");
    }
}

#[test]
fn messages_and_bytes_are_counted() {
    let mut w = counted(0);
    channel(&mut w, 1, 101, 3);
    let before = w.seq;
    let get = message(15, 6, 1, 101, 5, b"");
    w.client(&[message(1, 20, 1, 101, 9, &[0; 16]), get.clone(), get].concat());
    let update = message(1, 6, 1, 1, 9, &1.5_f64.to_be_bytes());
    w.server(&[update.clone(), update].concat());
    // An error about anything but a put.
    let about = message(1, 20, 1, 101, 9, b"");
    w.server(&message(11, 0, 0, 1, 48, &[&about[..16], b"no such thing\0\0\0"].concat()));
    w.wait(2000);
    w.decoder.finish(w.time, &mut w.out);
    let facts = noted(&mut w);
    let error = facts.iter().find_map(|fact| if let Fact::CaError(of) = fact { Some(of) } else { None });
    let error = error.expect("an error");
    assert_eq!((error.command, error.status, error.count, error.text.as_str()), (1, 48, 1, "no such thing"));
    let traffic =
        facts.iter().find_map(|fact| if let Fact::CircuitTraffic(of) = fact { Some(of) } else { None });
    let traffic = traffic.expect("a count");
    let count =
        |of: Message| traffic.messages.iter().find(|(kind, _)| *kind == of).map_or(0, |(_, count)| *count);
    assert_eq!(
        [Message::Subscribe, Message::Get, Message::Update, Message::Error, Message::Create].map(count),
        [1, 2, 2, 1, 1]
    );
    let sent = [w.seq[0] - before[0], w.seq[1] - before[1]].map(u64::from);
    assert!(traffic.from_client > sent[0] && traffic.from_server > sent[1]);
    assert_eq!(
        (traffic.from_client, traffic.from_server),
        (u64::from(w.seq[0] - 1000), u64::from(w.seq[1] - 5000))
    );
    assert_eq!(traffic.not_looked_at, 0);
    let channel =
        facts.iter().find_map(|fact| if let Fact::ChannelTraffic(of) = fact { Some(*of) } else { None });
    let channel = channel.expect("a channel's count");
    assert_eq!(
        (channel.gets, channel.subscriptions, channel.updates, channel.bytes, channel.complete),
        (2, 1, 2, 48, true)
    );
}

/// Be it that they were counted for a get or for a monitor alone: not at the end of recording either.
#[test]
fn channels_are_counted_no_longer_than_their_circuit() {
    for used in [message(15, 6, 1, 101, 5, b""), message(1, 20, 1, 101, 9, &[0; 16])] {
        let mut w = counted(0);
        channel(&mut w, 1, 101, 3);
        w.client(&used);
        w.raw(true, w.seq[0], None, RST, b"");
        w.decoder.finish(w.time, &mut w.out);
        let facts = noted(&mut w);
        assert!(facts.iter().any(|fact| matches!(fact, Fact::CircuitEnd(_))), "{facts:?}");
        assert!(!facts.iter().any(|fact| matches!(fact, Fact::ChannelTraffic(_))), "{facts:?}");
    }
}

/// Opens a channel for each number, with a monitor.
fn monitored(w: &mut Wire, numbers: std::ops::Range<u32>) {
    let numbers: Vec<u32> = numbers.collect();
    for part in numbers.chunks(20) {
        let each = |of: &dyn Fn(u32) -> Vec<u8>| part.iter().flat_map(|cid| of(*cid)).collect::<Vec<u8>>();
        w.client(&each(&|cid| named(18, cid, 13, &format!("PV{cid}"))));
        w.server(&each(&|cid| message(18, 6, 1, cid, 10_000 + cid, b"")));
        w.client(&each(&|cid| message(1, 20, 1, 10_000 + cid, 50_000 + cid, &[0; 16])));
    }
}

/// An archiver's busiest channel may be that to which it subscribed last.
#[test]
fn updates_of_a_client_with_many_monitors() {
    let mut w = counted(0);
    monitored(&mut w, 0..1100);
    noted(&mut w);
    for _ in 0..500 {
        w.server(&message(1, 6, 1, 1, 51_099, &[0; 8]));
    }
    w.wait(2000);
    w.decoder.finish(w.time, &mut w.out);
    let of = |fact: &Fact| if let Fact::ChannelTraffic(of) = fact { Some(of.updates) } else { None };
    let facts = noted(&mut w);
    assert_eq!(facts.iter().filter_map(of).max(), Some(500));
    assert!(!facts.iter().any(|fact| matches!(fact, Fact::Loss(_))), "{facts:?}");
}

/// What has no room is said. Subscriptions of channels that have ended take none, whether or not the client cancels them.
#[test]
fn subscriptions_without_end() {
    let mut w = counted(0);
    monitored(&mut w, 0..5000);
    w.wait(1100);
    let lost = |w: &mut Wire| -> u64 {
        let of = |fact| match fact {
            Fact::Loss(loss) if loss.cause.starts_with("subscriptions") => Some(loss.count),
            _ => None,
        };
        noted(w).into_iter().filter_map(of).sum()
    };
    assert_eq!(lost(&mut w), 5000 - 4096, "a circuit may have half of the room");
    let all: Vec<u32> = (0..5000).collect();
    for part in all.chunks(20) {
        let clear = part.iter().flat_map(|cid| message(12, 0, 0, 10_000 + cid, *cid, b""));
        w.client(&clear.collect::<Vec<u8>>());
    }
    w.wait(61_000);
    monitored(&mut w, 5000..9000);
    w.wait(1100);
    w.decoder.finish(w.time, &mut w.out);
    assert_eq!(lost(&mut w), 0);
}

#[test]
fn what_is_not_looked_at_makes_a_lower_bound() {
    let mut w = counted(0);
    channel(&mut w, 1, 101, 3);
    w.client(&message(1, 20, 1, 101, 9, &[0; 16]));
    w.lose(false, 4800);
    w.server(&message(1, 6, 1, 1, 9, &[0; 8]));
    w.wait(3000);
    w.decoder.finish(w.time, &mut w.out);
    let facts = noted(&mut w);
    let left = facts.iter().find_map(|fact| {
        if let Fact::CircuitTraffic(of) = fact {
            Some(of.not_looked_at)
        } else {
            None
        }
    });
    assert_eq!(left, Some(4800));
    let is_partial = |fact: &Fact| matches!(fact, Fact::ChannelTraffic(of) if !of.complete);
    assert!(facts.iter().any(is_partial), "{facts:?}");
}

#[test]
fn nothing_is_noted_unless_it_is_wanted() {
    let mut w = Wire::open();
    w.client(&message(0, 20, 13, 0, 0, b""));
    channel(&mut w, 1, 101, 1);
    w.client(&message(8, 0, 0, 0, 0, b""));
    w.wait(100_000);
    w.raw(true, w.seq[0], None, RST, b"");
    let new = |fact: &Fact| (48..62).contains(&fact.number());
    assert!(!noted(&mut w).iter().any(new));
}
