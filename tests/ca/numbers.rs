//! A client that uses its numbers as it likes, against a server that does as RSRV does (seen with the RSRV of EPICS Base 7):
//! it goes by its own numbers alone, whatever the client's are, and answers in order. No put is told under a name that the
//! server did not write, and none by a user that the server did not take.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use crate::wire::*;
use iocrec::ca::SeedChannel;
use iocrec_log::event::Fact;
use proptest::prelude::*;

/// What a put was, in the server or in the log: the PV's name, and the user.
type Put = (String, String);

/// What the log tells of each put, by its ioid. Channels may be named later than put to.
fn told(w: &mut Wire) -> BTreeMap<u32, Put> {
    let (mut user, mut names, mut puts) = (String::new(), HashMap::new(), Vec::new());
    for event in w.out.drain(..) {
        match event.fact {
            Fact::Circuit(circuit) => user = circuit.user,
            Fact::Channel(channel) => _ = names.insert(channel.id, channel.pv),
            Fact::CaPut(put) => puts.push((put.ioid, put.channel, user.clone())),
            _ => {}
        }
    }
    puts.into_iter().map(|(ioid, channel, user)| (ioid, (names[&channel].clone(), user))).collect()
}

fn create(cid: u32, pv: &str) -> Vec<u8> {
    named(18, cid, 13, pv)
}

fn created(cid: u32, sid: u32) -> Vec<u8> {
    message(18, 6, 1, cid, sid, b"")
}

fn opened() -> Wire {
    let mut w = Wire::open();
    w.client(&[version(), named(20, 0, 0, "op"), named(21, 0, 0, "console")].concat());
    w
}

fn names(w: &mut Wire) -> Vec<String> {
    told(w).into_values().map(|(pv, _)| pv).collect()
}

#[test]
fn two_channels_that_wait_for_one_number() {
    let mut w = opened();
    w.client(&[create(7, "A"), create(7, "B")].concat());
    w.server(&[created(7, 1), created(7, 2)].concat());
    w.client(&[put(true, 1, 1, &[1.0]), put(true, 2, 2, &[2.0])].concat());
    // the number is free again
    w.client(&create(7, "C"));
    w.server(&created(7, 3));
    w.client(&put(true, 3, 3, &[3.0]));
    assert_eq!(names(&mut w), ["", "", "C"]);
    // of one name it does not matter which is which
    let mut w = opened();
    w.client(&[create(7, "A"), create(7, "A")].concat());
    w.server(&[created(7, 1), created(7, 2)].concat());
    w.client(&[put(true, 1, 1, &[1.0]), put(true, 2, 2, &[2.0])].concat());
    assert_eq!(names(&mut w), ["A", "A"]);
}

/// A name without its NUL: the server puts one in place of the last letter, and writes to the PV of that name.
#[test]
fn a_name_without_its_end_is_a_letter_shorter() {
    let mut w = opened();
    w.client(&message(18, 0, 0, 1, 13, b"PLANT:A1"));
    w.server(&created(1, 7));
    w.client(&put(true, 7, 1, &[1.0]));
    assert_eq!(names(&mut w), ["PLANT:A"]);
}

/// The server's memory is read, and then packets that came before that are processed.
#[test]
fn memory_tells_which_of_two_channels_is_which() {
    let seed = |sid: u32, pv: &str| SeedChannel { cid: Some(7), sid, pv: pv.into(), dbr: None, count: None };
    let orders = [[seed(1, "A"), seed(2, "B")], [seed(2, "B"), seed(1, "A")]];
    for (is_first, seeds) in
        [false, true].into_iter().flat_map(|is_first| orders.clone().map(|seeds| (is_first, seeds)))
    {
        let mut w = opened();
        let later = w.time + 5000 * MS;
        let read = |w: &mut Wire| {
            w.decoder.seed(0, later, CLIENT, SERVER, "op", "console", 13, &seeds, &mut w.out);
        };
        if is_first {
            read(&mut w);
        }
        w.client(&[create(7, "A"), create(7, "B")].concat());
        if !is_first {
            read(&mut w);
        }
        w.server(&[created(7, 1), created(7, 2)].concat());
        w.client(&[put(true, 1, 1, &[1.0]), put(true, 2, 2, &[2.0])].concat());
        let names = names(&mut w);
        let is_true = |(told, truth): (&String, &str)| told.is_empty() || told == truth;
        assert!(names.iter().zip(["A", "B"]).all(is_true), "{is_first}: {names:?}");
    }
}

/// The answer to a request is not captured, or late, but a put to the channel is seen; then the client's memory is read.
#[test]
fn a_channel_without_an_answer_is_one() {
    for comes_late in [false, true] {
        let mut w = opened();
        w.client(&[create(7, "A"), create(8, "B")].concat());
        w.client(&put(true, 1, 1, &[1.0]));
        let later = w.time + 5000 * MS;
        let seeds = [SeedChannel { cid: Some(7), sid: 1, pv: "A".into(), dbr: None, count: None }];
        w.decoder.seed(0, later, CLIENT, SERVER, "op", "console", 13, &seeds, &mut w.out);
        if comes_late {
            w.server(&created(7, 1));
        }
        w.server(&created(8, 2));
        w.client(&[put(true, 1, 2, &[2.0]), put(true, 2, 3, &[3.0])].concat());
        let mut open = BTreeSet::new();
        for event in &w.out {
            match &event.fact {
                Fact::Channel(channel) => _ = open.insert(channel.id),
                Fact::ChannelEnd(channel) => _ = open.remove(channel),
                _ => {}
            }
        }
        assert_eq!(open.len(), 2, "{comes_late}: {open:?}");
        assert_eq!(names(&mut w), ["A", "A", "B"], "{comes_late}");
    }
}

/// The client asks for a second channel of the same number and name. The memory that is read knows only the first.
#[test]
fn memory_knows_the_first_of_two_channels() {
    let mut w = opened();
    w.client(&create(7, "A"));
    w.server(&created(7, 1));
    w.client(&create(7, "A"));
    let now = w.time;
    let seeds = [SeedChannel { cid: Some(7), sid: 1, pv: "A".into(), dbr: None, count: None }];
    w.decoder.seed(0, now, CLIENT, SERVER, "op", "console", 13, &seeds, &mut w.out);
    w.server(&created(7, 2));
    w.client(&[put(true, 1, 1, &[1.0]), put(true, 2, 2, &[2.0])].concat());
    assert_eq!(names(&mut w), ["A", "A"]);
}

/// Memory shows the channel that came behind another name before the packets of both are processed.
#[test]
fn memory_is_ahead_of_a_name() {
    let mut w = opened();
    w.client(&create(1, "A"));
    w.server(&created(1, 1));
    let later = w.time + 5000 * MS;
    let seeds = [SeedChannel { cid: Some(2), sid: 2, pv: "B".into(), dbr: None, count: None }];
    w.decoder.seed(0, later, CLIENT, SERVER, "other", "console", 13, &seeds, &mut w.out);
    w.client(&[message(12, 0, 0, 1, 1, b""), named(20, 0, 0, "other"), create(2, "B")].concat());
    w.server(&[message(12, 0, 0, 1, 1, b""), created(2, 2)].concat());
    w.client(&put(true, 2, 1, &[1.0]));
    let (pv, user) = told(&mut w)[&1].clone();
    assert!(pv == "B" && ["", "other"].contains(&&*user), "{pv} {user}");
}

#[test]
fn the_number_of_an_open_channel_for_another() {
    let mut w = opened();
    w.client(&create(7, "A"));
    w.server(&created(7, 1));
    w.client(&create(7, "B"));
    w.server(&created(7, 2));
    w.client(&[put(true, 1, 1, &[1.0]), put(true, 2, 2, &[2.0])].concat());
    w.client(&[message(12, 0, 0, 1, 7, b""), put(true, 2, 3, &[3.0])].concat());
    assert_eq!(names(&mut w), ["A", "B", "B"]);
}

#[test]
fn a_channel_is_cleared_by_the_number_of_the_server() {
    for cid in [5, 6, 99] {
        let mut w = opened();
        w.client(&[create(5, "A"), create(6, "B")].concat());
        w.server(&[created(5, 1), created(6, 2)].concat());
        w.facts();
        w.client(&message(12, 0, 0, 1, cid, b""));
        assert_eq!(w.facts(), ["end of channel 1"], "{cid}");
        // an unknown one clears nothing
        w.client(&message(12, 0, 0, 77, 6, b""));
        assert_eq!(w.facts(), [""; 0], "{cid}");
    }
}

#[test]
fn who_has_cleared_all_channels_may_rename_itself_whatever_the_number() {
    let mut w = opened();
    w.client(&create(5, "A"));
    w.server(&created(5, 1));
    w.client(&[message(12, 0, 0, 1, 99, b""), named(20, 0, 0, "other"), create(6, "B")].concat());
    w.server(&[message(12, 0, 0, 1, 99, b""), created(6, 2)].concat());
    w.client(&put(true, 2, 1, &[1.0]));
    assert_eq!(told(&mut w)[&1], ("B".into(), "other".into()));
    // but not while one is open whose number another has taken over
    let mut w = opened();
    w.client(&create(7, "A"));
    w.server(&created(7, 1));
    w.client(&create(7, "B"));
    w.server(&created(7, 2));
    w.client(&[message(12, 0, 0, 2, 7, b""), named(20, 0, 0, "other"), put(true, 1, 1, &[1.0])].concat());
    assert_eq!(told(&mut w)[&1], ("A".into(), "op".into()));
}

/// A name counts where the channel before it is refused, but which of two of one number was refused is not known.
#[test]
fn a_name_between_two_channels_of_one_number() {
    for answers in
        [[message(26, 0, 0, 7, 0, b""), created(7, 1)], [created(7, 1), message(26, 0, 0, 7, 0, b"")]]
    {
        let mut w = opened();
        w.client(&[create(7, "A"), named(20, 0, 0, "other"), create(7, "B")].concat());
        w.server(&answers.concat());
        w.client(&put(true, 1, 1, &[1.0]));
        assert_eq!(told(&mut w)[&1], (String::new(), String::new()));
    }
}

/// An ordinary client asks again for a channel that the server has taken from it, by the same number; an answer was lost.
#[test]
fn a_channel_that_comes_back() {
    let mut w = opened();
    w.client(&create(7, "A"));
    for sid in 1..4 {
        w.lose(false, 16);
        w.server(&message(27, 0, 0, 7, 0, b""));
        w.client(&create(7, "A"));
        w.server(&created(7, sid));
        w.client(&put(true, sid, sid, &[1.0]));
        w.server(&message(27, 0, 0, 7, 0, b""));
        w.client(&create(7, "A"));
    }
    w.wait(6000);
    assert_eq!(names(&mut w), ["A", "A", "A"]);
}

/// More numbers than are watched.
#[test]
fn a_flood_of_doubtful_numbers() {
    let mut w = opened();
    for cid in 0..100 {
        w.client(&[create(cid, "A"), create(cid, "B")].concat());
    }
    let answers = |cid| [created(cid, 2 * cid + 1), created(cid, 2 * cid + 2)].concat();
    (0..100).for_each(|cid| w.server(&answers(cid)));
    (1..=200).for_each(|sid| w.client(&put(false, sid, sid, &[1.0])));
    assert!(names(&mut w).iter().all(String::is_empty));
}

/// What a client does.
#[derive(Clone, Copy, Debug)]
enum Step {
    Create(u32, usize),
    /// Of the server's numbers, this one counted from the next to be given.
    Clear(u32, u32),
    Put(u32),
    Name(usize),
    /// So many of the server's answers are seen.
    Answers(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0u32..3, 0usize..5).prop_map(|(cid, pv)| Step::Create(cid, pv)),
        3 => (0u32..6, 0u32..3).prop_map(|(back, cid)| Step::Clear(back, cid)),
        5 => (0u32..6).prop_map(Step::Put),
        2 => (0usize..3).prop_map(Step::Name),
        6 => (1usize..5).prop_map(Step::Answers),
    ];
    prop::collection::vec(step, 1..60)
}

const PVS: [&str; 5] = ["A", "B", "C", "NONE:1", "NONE:2"];
const USERS: [&str; 3] = ["first", "second", "third"];

/// A server as RSRV is, and what it did.
#[derive(Default)]
struct Server {
    channels: BTreeMap<u32, &'static str>,
    last: u32,
    user: String,
    answers: VecDeque<Vec<u8>>,
    puts: BTreeMap<u32, Put>,
}

impl Server {
    /// Takes a request, and whether the circuit goes on.
    fn take(&mut self, step: Step, ioid: u32) -> bool {
        match step {
            Step::Create(cid, pv) if PVS[pv].starts_with("NONE") => {
                self.answers.push_back(message(26, 0, 0, cid, 0, b""));
            }
            Step::Create(cid, pv) => {
                self.last += 1;
                self.channels.insert(self.last, PVS[pv]);
                self.answers.push_back([message(22, 0, 0, cid, 3, b""), created(cid, self.last)].concat());
            }
            Step::Clear(sid, cid) => {
                if self.channels.remove(&sid).is_none() {
                    return false;
                }
                self.answers.push_back(message(12, 0, 0, sid, cid, b""));
            }
            Step::Put(sid) => {
                let Some(pv) = self.channels.get(&sid) else { return false };
                self.puts.insert(ioid, ((*pv).into(), self.user.clone()));
                self.answers.push_back(message(19, 6, 1, 1, ioid, b""));
            }
            Step::Name(user) if self.channels.is_empty() => self.user = USERS[user].into(),
            Step::Name(_) | Step::Answers(_) => {}
        }
        true
    }
}

proptest! {
    #[test]
    fn no_put_is_told_under_another_name(steps in steps()) {
        let mut w = opened();
        let mut server = Server { user: "op".into(), ..Server::default() };
        let mut calm = Vec::new();
        for (ioid, step) in (1..).zip(steps) {
            let step = match step {
                Step::Clear(back, cid) => Step::Clear((server.last + 2).saturating_sub(back), cid),
                Step::Put(back) => Step::Put((server.last + 2).saturating_sub(back)),
                step => step,
            };
            let request = match step {
                Step::Create(cid, pv) => create(cid, PVS[pv]),
                Step::Clear(sid, cid) => message(12, 0, 0, sid, cid, b""),
                Step::Put(sid) => put(true, sid, ioid, &[1.0]),
                Step::Name(user) => named(20, 0, 0, USERS[user]),
                Step::Answers(count) => {
                    let count = count.min(server.answers.len());
                    server.answers.drain(..count).for_each(|answer| w.server(&answer));
                    continue;
                }
            };
            if server.answers.is_empty() {
                calm.push(ioid);
            }
            w.client(&request);
            if !server.take(step, ioid) {
                break;
            }
        }
        server.answers.drain(..).for_each(|answer| w.server(&answer));
        let told = told(&mut w);
        for (ioid, truth) in &server.puts {
            let (pv, user) = &told[ioid];
            prop_assert!(pv.is_empty() || *pv == truth.0, "put {ioid} to {} is told as one to {pv}", truth.0);
            if calm.contains(ioid) {
                prop_assert!(user.is_empty() || *user == truth.1, "put {ioid} by {} is told as by {user}", truth.1);
            }
        }
    }
}
