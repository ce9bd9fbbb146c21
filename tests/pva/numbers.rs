//! A client that uses its numbers as it likes, against servers that do as QSRV1 and QSRV2 do (seen with pvAccessCPP 7.1 and
//! pvxs 1.5): both give a channel to each request, whatever the client's number, and answer in order; both end channels by
//! their own number. QSRV1 has the requests of each channel apart; QSRV2 hangs up if a request's number comes twice. No put
//! is told under a name that the server did not write, or as of a user that it did not believe.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::wire::*;
use iocrec::pva::{Decoder, Limits};
use iocrec_log::event::{Address, ChannelReason, Fact};
use proptest::prelude::*;

/// What a put was, in the server or in the log: the PV's name, and the user.
type Put = (String, String);

/// What the log tells of each put, by the number that it puts. Channels may be named later than put to.
fn told(w: &mut Wire) -> BTreeMap<u32, Put> {
    let (mut user, mut names, mut puts) = (String::new(), HashMap::new(), Vec::new());
    for event in w.out.drain(..) {
        match event.fact {
            Fact::Circuit(circuit) => user = circuit.user,
            Fact::Channel(channel) => _ = names.insert(channel.id, channel.pv),
            Fact::PvaPut(put) => {
                let bytes: [u8; 8] = put.value.bytes[2..].try_into().expect("a double");
                puts.push((f64::from_le_bytes(bytes) as u32, put.channel, user.clone()));
            }
            _ => {}
        }
    }
    puts.into_iter().map(|(number, channel, user)| (number, (names[&channel].clone(), user))).collect()
}

fn names(w: &mut Wire) -> Vec<String> {
    told(w).into_values().map(|(pv, _)| pv).collect()
}

fn prepare(sid: u32, ioid: u32) -> Vec<u8> {
    request(11, sid, ioid, 8, NO_OPTIONS)
}

fn prepared(ioid: u32) -> Vec<u8> {
    answer(11, ioid, 8, &[&[0xff], SCALAR].concat())
}

fn put(sid: u32, ioid: u32, number: u32) -> Vec<u8> {
    request(11, sid, ioid, 0, &[&[1, 2][..], &f64::from(number).to_le_bytes()].concat())
}

fn pair(command: u8, first: u32, second: u32) -> Vec<u8> {
    message(0, command, &[first.to_le_bytes(), second.to_le_bytes()].concat())
}

fn refused(cid: u32) -> Vec<u8> {
    message(0x40, 7, &[&cid.to_le_bytes()[..], &[0; 4], &hex("02 02 4e4f 00")].concat())
}

fn opened() -> Wire {
    let mut w = Wire::open();
    w.client(&identity("op", "console"));
    w
}

/// Channels A and B, sids 1 and 2, cids 5 and 6.
fn with_two() -> Wire {
    let mut w = opened();
    w.client(&[create(5, "A"), create(6, "B")].concat());
    w.server(&[created(5, 1), created(6, 2)].concat());
    w
}

#[test]
fn two_channels_that_wait_for_one_number() {
    let mut w = opened();
    w.client(&[create(7, "A"), create(7, "B")].concat());
    w.server(&[created(7, 1), created(7, 2)].concat());
    w.client(&[prepare(1, 1), prepare(2, 2), put(1, 1, 1), put(2, 2, 2)].concat());
    // the number is free again, and then that of an open channel
    w.client(&create(7, "C"));
    w.server(&created(7, 3));
    w.client(&create(7, "D"));
    w.server(&created(7, 4));
    w.client(&[prepare(3, 3), prepare(4, 4), put(3, 3, 3), put(4, 4, 4)].concat());
    assert_eq!(names(&mut w), ["", "", "C", "D"]);
}

#[test]
fn a_channel_is_destroyed_by_the_number_of_the_server() {
    let mut w = with_two();
    w.facts();
    w.client(&pair(8, 77, 5));
    assert_eq!(w.facts(), [""; 0]);
    w.client(&pair(8, 1, 6));
    assert_eq!(w.facts(), ["channel 1 ends"]);
}

/// QSRV1 has both requests, QSRV2 hangs up.
#[test]
fn a_request_of_two_channels() {
    let mut w = with_two();
    w.client(&[prepare(1, 9), prepare(2, 9)].concat());
    w.server(&[prepared(9), prepared(9)].concat());
    w.client(&[put(1, 9, 1), put(2, 9, 2)].concat());
    assert_eq!(names(&mut w), ["", "B"]);
    // QSRV1 does not end the request, QSRV2 does
    let mut w = with_two();
    w.client(&[prepare(1, 9), pair(15, 2, 9), prepare(2, 9)].concat());
    w.server(&[prepared(9), prepared(9)].concat());
    w.client(&[put(1, 9, 1), put(2, 9, 2)].concat());
    assert_eq!(names(&mut w), ["", "B"]);
}

/// pvxs up to 1.5.0, and servers without records, put by the number of a get, too, to its channel.
#[test]
fn a_put_by_the_number_of_a_get() {
    let mut w = with_two();
    w.client(&request(10, 1, 9, 8, NO_OPTIONS));
    w.server(&answer(10, 9, 8, &[&[0xff], SCALAR].concat()));
    w.client(&put(2, 9, 1));
    assert_eq!(names(&mut w), ["A"]);
}

/// Each with a number of its own, as p4p and Phoebus have it: ended with the last fetch or behind it.
#[test]
fn gets_leave_no_doubt() {
    let mut w = with_two();
    for ioid in 100..20_100 {
        w.client(&request(10, 1, ioid, 8, NO_OPTIONS));
        w.server(&answer(10, ioid, 8, &[&[0xff], WHOLE].concat()));
        if ioid % 2 == 0 {
            w.client(&request(10, 1, ioid, 0x10, b""));
        } else {
            w.client(&request(10, 1, ioid, 0, b""));
            w.client(&pair(15, 1, ioid));
        }
    }
    // prepared before the recorder began, as far as it knows
    w.client(&put(2, 9, 1));
    w.wait(2000);
    assert!(!w.out.iter().any(|event| matches!(event.fact, Fact::Loss(_))));
    assert_eq!(names(&mut w), ["B"]);
}

/// The server has it still: it puts to A.
#[test]
fn a_put_by_a_number_that_was_forgotten() {
    let mut w = with_two();
    w.client(&prepare(1, 9));
    w.server(&prepared(9));
    (10..9000).for_each(|ioid| w.client(&prepare(2, ioid)));
    w.client(&put(2, 9, 1));
    // likewise with its channel
    let mut others = with_two();
    others.client(&prepare(1, 9));
    others.server(&prepared(9));
    for number in 100..9000 {
        others.client(&create(number, "C"));
        others.server(&created(number, number));
    }
    others.client(&put(8999, 9, 1));
    assert_eq!([names(&mut w), names(&mut others)].concat(), ["", ""]);
}

/// Who opens channels without end loses some of them, and no other client does.
#[test]
fn nobody_takes_the_room_of_others() {
    let mut w = Wire::new();
    w.decoder = Decoder::new(Limits { circuits: 4, channels: 40, all_channels: 40, ..Limits::default() });
    serve(&mut w.decoder);
    w.raw(true, 999, None, SYN, b"");
    w.raw(false, 4999, Some(1000), SYN, b"");
    for number in 1..100 {
        w.client(&create(number, "FLOOD"));
        w.server(&created(number, number));
    }
    let mut talk = Talk::open(Address { port: 40_002, ..CLIENT }, SERVER, 1400);
    talk.say(true, &[create(1, "A"), create(2, "B")].concat());
    talk.say(false, &[created(1, 1), created(2, 2)].concat());
    talk.say(true, &[prepare(1, 1), prepare(2, 2)].concat());
    talk.say(false, &[prepared(1), prepared(2)].concat());
    talk.say(true, &[put(1, 1, 1), put(2, 2, 2)].concat());
    for (_, packet) in talk.end() {
        w.time += MS;
        w.decoder.packet(0, w.time, &packet, packet.len(), &mut w.out);
    }
    assert_eq!(names(&mut w), ["A", "B"]);
}

/// A gateway has a client for each panel and archiver of a site.
#[test]
fn two_thousand_circuits_are_kept() {
    let mut w = Wire::new();
    let mut send = |port: u16, from_client: bool, numbers: (u32, Option<u32>), flags: u8, payload: &[u8]| {
        let client = Address { port, ..CLIENT };
        let (from, to) = if from_client { (client, SERVER) } else { (SERVER, client) };
        let packet = packet(from, to, numbers.0, numbers.1, flags, payload);
        w.time += MS;
        w.decoder.packet(0, w.time, &packet, packet.len(), &mut w.out);
    };
    for port in 40_000..42_000 {
        // each begins with numbers of its own: with those of another one it would pass for that, translated
        let (first, asks) = (u32::from(port) * 1000, create(1, "A"));
        send(port, true, (first - 1, None), SYN, b"");
        send(port, false, (4999, Some(first)), SYN, b"");
        send(port, true, (first, Some(5000)), 0, &asks);
        send(port, false, (5000, Some(first + asks.len() as u32)), 0, &created(1, 1));
    }
    let told = |is_it: fn(&Fact) -> bool| w.out.iter().filter(|event| is_it(&event.fact)).count();
    assert_eq!(told(|fact| matches!(fact, Fact::Circuit(_))), 2000);
    assert_eq!(told(|fact| matches!(fact, Fact::CircuitForgotten(_))), 0);
}

/// pvxs makes a channel of a name with filters, however long, and of those in a message that is not kept whole.
#[test]
fn channels_whose_names_are_not_kept() {
    let long = |length: u32| [&[0xfe][..], &length.to_le_bytes(), &vec![b' '; length as usize]].concat();
    let one = [&[1, 0][..], &7u32.to_le_bytes(), &long(600)].concat();
    let other = (100..249u32).flat_map(|cid| [&cid.to_le_bytes()[..], &long(480)].concat());
    let many: Vec<u8> = [150, 0].into_iter().chain(other).collect();
    let many = [&many[..], &7u32.to_le_bytes(), &string("A")].concat();
    for names_of in [one, many] {
        let mut w = opened();
        message(0, 7, &names_of).chunks(1448).for_each(|part| w.client(part));
        w.client(&create(7, "B"));
        w.server(&[created(7, 1), created(7, 2)].concat());
        w.client(&[prepare(1, 1), put(1, 1, 1)].concat());
        assert_eq!(names(&mut w), [""]);
    }
}

#[test]
fn the_server_ends_a_channel_whose_number_the_client_has_used_again() {
    let mut w = with_two();
    w.client(&create(5, "C"));
    w.server(&pair(8, 1, 5).tap(|m| m[2] = 0x40));
    let facts = w.facts();
    assert!(facts.contains(&"channel 1 ends".to_owned()), "{facts:?}");
}

/// That the server ended a channel is said only if its client has not asked for it, as far as is known.
#[test]
fn who_ended_a_channel() {
    let told = |happens: fn(&mut Wire)| {
        let mut w = with_two();
        w.facts();
        happens(&mut w);
        w.server(&pair(8, 1, 5).tap(|m| m[2] = 0x40));
        w.wait(1000);
        let is_by_server = w.out.iter().any(|event| match &event.fact {
            Fact::ChannelClosed(closed) => closed.reason == ChannelReason::Disconnected,
            _ => false,
        });
        let facts = w.facts();
        assert!(facts.contains(&"channel 1 ends".to_owned()), "{facts:?}");
        is_by_server
    };
    assert!(told(|_| ()));
    assert!(!told(|w| w.client(&pair(8, 1, 5))));
    // the request was not captured, whether or not something came behind it
    assert!(!told(|w| w.lose(true, 16)));
    assert!(!told(|w| {
        w.lose(true, 16);
        w.client(&prepare(2, 9));
    }));
}

/// QSRV1 answers as if nothing had been said, QSRV2 likewise where the request is not ended.
#[test]
fn a_put_that_is_cancelled_by_the_number_of_another_channel() {
    for command in [15, 21] {
        let mut w = with_two();
        w.client(&prepare(1, 9));
        w.server(&prepared(9));
        w.client(&[put(1, 9, 1), pair(command, 2, 9)].concat());
        w.server(&answer(11, 9, 0, &[0xff]));
        let facts = w.facts();
        let answers: Vec<&String> = facts.iter().filter(|fact| fact.starts_with("Put answered")).collect();
        assert_eq!(answers, ["Put answered 0 \"\": [] 0 "], "{command}");
    }
}

/// A fetch beside a put is refused, and then the put is cancelled; a fetch that is cancelled is no put.
#[test]
fn a_put_that_is_cancelled_beside_a_fetch() {
    let mut w = with_two();
    w.client(&[prepare(1, 9), prepare(1, 10)].concat());
    w.server(&[prepared(9), prepared(10)].concat());
    let fetch = |ioid: u32| request(11, 1, ioid, 0x40, b"");
    w.client(&[put(1, 9, 1), fetch(9)].concat());
    w.server(&answer(11, 9, 0x40, &hex("02 02 4e4f 00")));
    w.facts();
    w.client(&pair(21, 1, 9));
    assert_eq!(w.facts(), ["Put answered 4 \"\": [] 0 "]);
    w.client(&[fetch(10), pair(21, 1, 10)].concat());
    assert_eq!(w.facts(), [""; 0]);
}

/// pvxs passes over the start of a monitor that was not prepared; its number is free.
#[test]
fn the_end_of_a_channel_ends_no_request_of_another() {
    let mut w = with_two();
    w.client(&create(7, "C"));
    w.server(&created(7, 3));
    w.client(&[request(13, 1, 9, 0x44, b""), prepare(2, 9)].concat());
    w.server(&prepared(9));
    w.client(&[pair(8, 1, 5), put(3, 9, 1)].concat());
    assert_eq!(names(&mut w), ["B"]);
}

/// QSRV2 passes over PROCESS and PUT_GET: the number stays that of A's request.
#[test]
fn a_request_that_is_passed_over() {
    for command in [12, 16] {
        let mut w = with_two();
        w.client(&prepare(1, 9));
        w.server(&prepared(9));
        w.client(&[request(command, 2, 9, 8, NO_OPTIONS), put(2, 9, 1)].concat());
        assert_eq!(names(&mut w), [""], "{command}");
    }
}

/// pvxs ends a request with its last put only if that succeeds.
#[test]
fn a_last_put_that_fails() {
    let mut w = with_two();
    w.client(&prepare(1, 9));
    w.server(&prepared(9));
    w.client(&put(1, 9, 1).tap(|m| m[16] = 0x10));
    w.server(&answer(11, 9, 0x10, &hex("02 02 4e4f 00")));
    w.client(&put(2, 9, 2));
    w.server(&answer(11, 9, 0, &[0xff]));
    assert_eq!(names(&mut w), ["A", "A"]);
}

/// The structure of A's request is not that of B's, also where A's has ended by itself or with its channel.
#[test]
fn structures_of_requests_with_one_number() {
    for ends in [Vec::new(), pair(15, 1, 9), pair(8, 1, 5)] {
        let mut w = with_two();
        w.client(&[prepare(1, 9), ends, prepare(2, 9)].concat());
        w.server(&answer(11, 9, 8, b"\xff\x80\x00\x01\x05value\x23"));
        w.facts();
        w.client(&put(2, 9, 1));
        let facts = w.facts();
        assert!(facts.iter().any(|fact| fact.starts_with("Put to 2: [0] ")), "{facts:?}");
    }
}

/// pvxs refuses the first request, has ended it then, and puts by the second, to B, whatever channel the put names. Only
/// of a get, whose answers are no put's, it is known which of the two is refused.
#[test]
fn a_request_that_is_refused_when_another_has_its_number() {
    for (first, second, expected) in [(11, 11, ""), (10, 11, "B"), (11, 10, ""), (10, 10, "B")] {
        for ends in [pair(15, 1, 9), pair(8, 1, 5)] {
            let mut w = with_two();
            w.client(&create(7, "C"));
            w.server(&created(7, 3));
            let again = request(second, 2, 9, 8, NO_OPTIONS);
            w.client(&[request(first, 1, 9, 8, NO_OPTIONS), ends, again].concat());
            w.server(&answer(first, 9, 8, &hex("02 02 4e4f 00")));
            w.server(&answer(second, 9, 8, &[&[0xff], SCALAR].concat()));
            w.client(&put(3, 9, 1));
            assert_eq!(names(&mut w), [expected], "{first} {second}");
        }
    }
}

/// The answer to A's last put ends no request of B.
#[test]
fn a_last_put_that_is_answered_when_another_request_has_its_number() {
    for ends in [pair(15, 1, 9), pair(8, 1, 5)] {
        let mut w = with_two();
        w.client(&create(7, "C"));
        w.server(&created(7, 3));
        w.client(&prepare(1, 9));
        w.server(&prepared(9));
        w.client(&[put(1, 9, 1).tap(|m| m[16] = 0x10), ends, prepare(2, 9)].concat());
        w.server(&[answer(11, 9, 0x10, &[0xff]), prepared(9)].concat());
        w.client(&put(3, 9, 2));
        assert_eq!(names(&mut w), ["A", ""]);
    }
}

#[test]
fn who_asked_for_which_channel_is_not_known() {
    let mut w = opened();
    w.client(&[create(7, "A"), create(7, "B"), identity("other", "console")].concat());
    w.server(&[created(7, 1), created(7, 2)].concat());
    w.client(&[prepare(1, 1), put(1, 1, 1)].concat());
    let user = told(&mut w)[&1].1.clone();
    assert!(user.is_empty() || user == "op", "{user}");
}

/// What a client does. Numbers of the server are counted back from the next to be given.
#[derive(Clone, Copy, Debug)]
enum Step {
    Create(u32, usize),
    Destroy(u32, u32),
    Prepare(u32, u32),
    Put(u32, u32),
    /// A put with which the request ends.
    Last(u32, u32),
    EndRequest(u32, u32),
    Name(usize),
    /// So many of the server's answers are seen.
    Answers(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (sid, cid, ioid) = (|| 0u32..5, || 0u32..3, || 0u32..3);
    let step = prop_oneof![
        4 => (cid(), 0usize..4).prop_map(|(cid, pv)| Step::Create(cid, pv)),
        1 => (sid(), cid()).prop_map(|(sid, cid)| Step::Destroy(sid, cid)),
        4 => (sid(), ioid()).prop_map(|(sid, ioid)| Step::Prepare(sid, ioid)),
        6 => (sid(), ioid()).prop_map(|(sid, ioid)| Step::Put(sid, ioid)),
        2 => (sid(), ioid()).prop_map(|(sid, ioid)| Step::Last(sid, ioid)),
        2 => (sid(), ioid()).prop_map(|(sid, ioid)| Step::EndRequest(sid, ioid)),
        1 => (0usize..3).prop_map(Step::Name),
        6 => (1usize..5).prop_map(Step::Answers),
    ];
    prop::collection::vec(step, 1..60)
}

/// The server refuses requests of the third, and the last does not exist.
const PVS: [&str; 4] = ["A", "B", "C", "NONE"];
const USERS: [&str; 3] = ["first", "second", "third"];

/// A server, and what it did.
#[derive(Default)]
struct Server {
    is_qsrv2: bool,
    channels: BTreeMap<u32, (&'static str, String)>,
    /// Channel and number of each request.
    requests: Vec<(u32, u32)>,
    last: u32,
    user: String,
    answers: VecDeque<Vec<u8>>,
    puts: BTreeMap<u32, Put>,
}

impl Server {
    fn find(&self, sid: u32, ioid: u32) -> Option<usize> {
        self.requests.iter().position(|own| own.1 == ioid && (self.is_qsrv2 || own.0 == sid))
    }

    /// Takes a request, and whether the circuit goes on.
    fn take(&mut self, step: Step, number: u32) -> bool {
        match step {
            Step::Create(cid, pv) if PVS[pv] == "NONE" => self.answers.push_back(refused(cid)),
            Step::Create(cid, pv) => {
                self.last += 1;
                self.channels.insert(self.last, (PVS[pv], self.user.clone()));
                self.answers.push_back(created(cid, self.last));
            }
            Step::Destroy(sid, cid) => {
                if self.channels.remove(&sid).is_some() {
                    self.requests.retain(|own| own.0 != sid);
                    self.answers.push_back(pair(8, sid, cid).tap(|m| m[2] = 0x40));
                }
            }
            Step::Prepare(sid, ioid) => {
                if self.find(sid, ioid).is_some() {
                    return false;
                }
                match self.channels.get(&sid) {
                    Some(("C", _)) => self.answers.push_back(answer(11, ioid, 8, &hex("02 02 4e4f 00"))),
                    Some(_) => {
                        self.requests.push((sid, ioid));
                        self.answers.push_back(prepared(ioid));
                    }
                    None => {}
                }
            }
            Step::Put(sid, ioid) | Step::Last(sid, ioid) => {
                if let Some(own) = self.find(sid, ioid) {
                    let (pv, user) = self.channels[&self.requests[own].0].clone();
                    self.puts.insert(number, (pv.into(), user));
                    let is_last = matches!(step, Step::Last(..));
                    if is_last {
                        self.requests.remove(own);
                    }
                    self.answers.push_back(answer(11, ioid, if is_last { 0x10 } else { 0 }, &[0xff]));
                }
            }
            Step::EndRequest(sid, ioid) => {
                if let Some(own) = self.find(sid, ioid) {
                    self.requests.remove(own);
                }
            }
            Step::Name(user) => self.user = USERS[user].into(),
            Step::Answers(_) => {}
        }
        true
    }
}

/// Changes a message in place.
trait Tap: Sized {
    fn tap(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl Tap for Vec<u8> {}

proptest! {
    #[test]
    fn no_put_is_told_under_another_name(steps in steps(), is_qsrv2: bool) {
        let mut w = opened();
        let mut server = Server { is_qsrv2, user: "op".into(), ..Server::default() };
        for (number, step) in (1..).zip(steps) {
            let sid = |back: u32| (server.last + 2).saturating_sub(back);
            let step = match step {
                Step::Destroy(back, cid) => Step::Destroy(sid(back), cid),
                Step::Prepare(back, ioid) => Step::Prepare(sid(back), ioid),
                Step::Put(back, ioid) => Step::Put(sid(back), ioid),
                Step::Last(back, ioid) => Step::Last(sid(back), ioid),
                Step::EndRequest(back, ioid) => Step::EndRequest(sid(back), ioid),
                step => step,
            };
            let request = match step {
                Step::Create(cid, pv) => create(cid, PVS[pv]),
                Step::Destroy(sid, cid) => pair(8, sid, cid),
                Step::Prepare(sid, ioid) => prepare(sid, ioid),
                Step::Put(sid, ioid) => put(sid, ioid, number),
                Step::Last(sid, ioid) => put(sid, ioid, number).tap(|m| m[16] = 0x10),
                Step::EndRequest(sid, ioid) => pair(15, sid, ioid),
                Step::Name(user) => identity(USERS[user], "console"),
                Step::Answers(count) => {
                    let count = count.min(server.answers.len());
                    server.answers.drain(..count).for_each(|answer| w.server(&answer));
                    continue;
                }
            };
            w.client(&request);
            if !server.take(step, number) {
                break;
            }
        }
        server.answers.drain(..).for_each(|answer| w.server(&answer));
        let told = told(&mut w);
        for (number, (pv, user)) in &server.puts {
            let (as_pv, by) = &told[number];
            prop_assert!(as_pv.is_empty() || as_pv == pv, "put {number} to {pv} is told as one to {as_pv}");
            prop_assert!(by.is_empty() || by == user, "put {number} by {user} is told as by {by}");
        }
    }
}
