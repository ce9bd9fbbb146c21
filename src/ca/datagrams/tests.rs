//! Datagrams as clients and servers send them, and as nobody should.

use super::*;
use crate::net::udp::searches::Searches;
use iocrec_log::event::{Beacons, BeaconsNoted, SearchLoad};
use iocrec_testing::chance::{fuzz, Random};
use proptest::prelude::*;
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;
const HERE: Namespace = 1;

fn at(ip: [u8; 4], port: u16) -> Address {
    Address::new(ip.into(), port)
}

fn client(number: u16) -> Address {
    at([10, 0, 0, 7], 40_000 + number)
}

const SERVER: [u8; 4] = [10, 0, 0, 3];

fn message(command: u16, dbr: u16, count: u16, p1: u32, p2: u32, payload: &[u8]) -> Vec<u8> {
    let mut message = command.to_be_bytes().to_vec();
    message.extend((payload.len().next_multiple_of(8) as u16).to_be_bytes());
    message.extend(dbr.to_be_bytes());
    message.extend(count.to_be_bytes());
    message.extend(p1.to_be_bytes());
    message.extend(p2.to_be_bytes());
    message.extend(payload);
    message.resize(message.len().next_multiple_of(8), 0);
    message
}

fn search(cid: u32, name: &str) -> Vec<u8> {
    message(SEARCH, 5, 13, cid, cid, format!("{name}\0").as_bytes())
}

fn answer(cid: u32, port: u16, ip: u32) -> Vec<u8> {
    message(SEARCH, port, 0, ip, cid, &[0, 13])
}

fn beacon(number: u32, port: u16) -> Vec<u8> {
    message(RSRV_IS_UP, 13, port, number, 0, &[])
}

struct Network {
    datagrams: Datagrams,
    out: Vec<Event>,
}

impl Network {
    fn new() -> Network {
        let mut datagrams = Datagrams::default();
        let mut out = Vec::new();
        datagrams.watched.set_selected(0, HashMap::from([(HERE, selected(std::iter::empty()))]), &mut out);
        assert_eq!(out.len(), 1, "reading begins");
        Network { datagrams, out: Vec::new() }
    }

    fn sent(&mut self, time: u64, source: Address, destination: Address, messages: &[Vec<u8>]) {
        let payload = messages.concat();
        let datagram = Datagram {
            source: source.into(),
            destination: destination.into(),
            payload: &payload,
            length: payload.len(),
        };
        let seen = Seen { namespace: HERE, interface: 2, time };
        self.datagrams.datagram(seen, &datagram, &mut self.out);
    }

    fn asked(&mut self, time: u64, source: Address, messages: &[Vec<u8>]) {
        self.sent(time, source, at([10, 0, 0, 255], 5064), messages);
    }

    fn beacon(&mut self, time: u64, number: u32) {
        self.sent(time, at(SERVER, 41_000), at([10, 0, 0, 255], 5065), &[beacon(number, 5064)]);
    }

    fn second(&mut self, now: u64) -> Vec<Fact> {
        self.datagrams.second(now, &mut self.out);
        std::mem::take(&mut self.out).into_iter().map(|event| event.fact).collect()
    }

    /// The rest, without the note that all was calm.
    fn finish(&mut self, now: u64) -> Vec<Fact> {
        self.datagrams.finish(now, &mut self.out);
        let is_calm = |fact: &Fact| matches!(fact, Fact::SearchLoad(load) if load.left_out + load.cut + load.unread == 0 && load.one_in == 1);
        let all = std::mem::take(&mut self.out).into_iter().map(|event| event.fact);
        all.filter(|fact| !is_calm(fact)).collect()
    }
}

fn searches(facts: &[Fact]) -> Vec<&iocrec_log::event::Searches> {
    facts.iter().filter_map(|fact| if let Fact::Searches(it) = fact { Some(&**it) } else { None }).collect()
}

fn loads(facts: &[Fact]) -> Vec<&SearchLoad> {
    facts.iter().filter_map(|fact| if let Fact::SearchLoad(it) = fact { Some(&**it) } else { None }).collect()
}

fn beacons(facts: &[Fact]) -> Vec<(BeaconsNoted, u32, u32)> {
    let of = |fact: &Fact| match fact {
        Fact::Beacons(Beacons { noted, count, last, .. }) => Some((*noted, *count, *last)),
        _ => None,
    };
    facts.iter().filter_map(of).collect()
}

#[test]
fn who_searches_for_what_and_who_has_it() {
    let mut network = Network::new();
    let version = message(message::VERSION, 0, 13, 0, 0, &[]);
    for turn in 0..3 {
        let names = [version.clone(), search(1, "SR:THERE"), search(2, "SR:MISSING")];
        network.asked(turn * SECOND / 10, client(1), &names);
    }
    network.sent(SECOND / 2, at(SERVER, 5064), client(1), &[version, answer(1, 5064, u32::MAX)]);
    network.sent(SECOND / 2, at([10, 0, 0, 4], 5064), client(1), &[answer(1, 33_000, u32::MAX)]);
    network.sent(SECOND / 2, at([10, 0, 0, 9], 5064), client(1), &[answer(1, 5064, 0x0a00_0005)]);
    assert_eq!(network.second(SECOND / 2), [], "an answer may come yet");
    let facts = network.second(2 * SECOND);
    let found: Vec<_> = searches(&facts)
        .iter()
        .map(|it| (it.name.as_str(), it.client, it.count, it.since, it.last, it.answers.clone()))
        .collect();
    let servers = vec![(at(SERVER, 5064), 1), (at([10, 0, 0, 4], 33_000), 1), (at([10, 0, 0, 5], 5064), 1)];
    assert_eq!(
        found,
        [
            ("SR:MISSING", client(1), 3, 0, SECOND / 5, vec![]),
            ("SR:THERE", client(1), 3, 0, SECOND / 2, servers)
        ]
    );
    assert_eq!(loads(&facts), [] as [&SearchLoad; 0]);
    assert_eq!(network.datagrams.watched.searches.take_senders(), [(HERE, client(1))]);
    // it goes on searching: the next report comes later
    network.asked(3 * SECOND, client(1), &[search(2, "SR:MISSING")]);
    assert_eq!(network.second(4 * SECOND), []);
    let facts = network.second(13 * SECOND);
    assert_eq!(searches(&facts).iter().map(|it| (it.count, it.since)).collect::<Vec<_>>(), [(1, 3 * SECOND)]);
}

#[test]
fn the_same_datagram_on_two_interfaces_counts_once() {
    let mut network = Network::new();
    let payload = search(1, "SR:MISSING");
    let datagram = Datagram {
        source: client(1).into(),
        destination: at([10, 0, 0, 255], 5064).into(),
        payload: &payload,
        length: payload.len(),
    };
    for turn in 0..4 {
        for interface in [2, 3, 4] {
            let seen = Seen { namespace: HERE, interface, time: turn * SECOND };
            network.datagrams.datagram(seen, &datagram, &mut network.out);
        }
    }
    // twice from one interface is twice
    let seen = Seen { namespace: HERE, interface: 2, time: 3 * SECOND };
    network.datagrams.datagram(seen, &datagram, &mut network.out);
    // before another interface was seen, nothing could be a copy
    assert_eq!(searches(&network.finish(9 * SECOND)).iter().map(|it| it.count).collect::<Vec<_>>(), [6]);
}

#[test]
fn an_answer_to_nothing_names_nothing() {
    let mut network = Network::new();
    network.sent(0, at(SERVER, 5064), client(1), &[answer(7, 5064, u32::MAX)]);
    network.asked(0, client(2), &[search(7, "A")]);
    network.sent(SECOND, at(SERVER, 5064), client(1), &[answer(7, 5064, u32::MAX)]);
    let facts = network.finish(2 * SECOND);
    let found: Vec<_> = searches(&facts).iter().map(|it| (it.client, it.answers.len())).collect();
    assert_eq!(found, [(client(2), 0)]);
}

#[test]
fn a_storm_names_its_sender_and_takes_no_room() {
    let mut network = Network::new();
    for name in 0..50_000_u32 {
        network.asked(u64::from(name) * 10_000, client(1), &[search(name, &format!("STORM:{name}"))]);
    }
    network.asked(SECOND / 2, client(2), &[search(1, "SR:MISSING")]);
    network.datagrams.watched.left_out(HERE, 4, 77);
    let facts = network.second(2 * SECOND);
    let load = loads(&facts)[0];
    assert_eq!((load.datagrams, load.names, load.unread, load.one_in), (50_001, 50_001, 77, 4));
    assert_eq!(load.most, [(client(1), 50_000), (client(2), 1)]);
    let reported = searches(&facts);
    assert!(reported.iter().any(|it| it.client == client(2)), "others have their turn");
    let kept = network.datagrams.watched.searches.held();
    assert!(kept <= 4096, "{kept}");
    assert_eq!(load.left_out, 50_001 - kept as u64);
    assert!(reported.len() <= 2020, "{} reports", reported.len());
    let facts = network.second(3 * SECOND);
    assert!(searches(&facts).len() <= 20 && loads(&facts).len() == 1, "the end of the storm");
    assert!(loads(&network.second(4 * SECOND)).is_empty());
    let begun = network.datagrams.watched.searches.take_senders();
    assert!(begun.contains(&(HERE, client(1))), "{begun:?}");
}

#[test]
fn a_note_holds_for_one_share_of_the_datagrams() {
    let mut network = Network::new();
    let mut notes = Vec::new();
    for (second, one_in) in [1_u64, 8, 8, 4].into_iter().enumerate() {
        for name in 0..800 / one_in as u32 {
            network.asked(second as u64 * SECOND + u64::from(name), client(1), &[search(name, "STORM")]);
        }
        network.datagrams.watched.left_out(HERE, one_in as u32, 0);
        let facts = network.second((second as u64 + 1) * SECOND);
        notes.extend(loads(&facts).into_iter().map(|load| (load.one_in, load.names)));
    }
    notes.extend(loads(&network.finish(5 * SECOND)).into_iter().map(|load| (load.one_in, load.names)));
    let estimate: u64 = notes.iter().map(|(one_in, names)| u64::from(*one_in) * names).sum();
    assert_eq!(estimate, 4 * 800, "{notes:?}");
}

#[test]
fn beacons_of_a_server_that_is_started_again() {
    let mut network = Network::new();
    let mut time = SECOND;
    let mut gap = SECOND / 50;
    for number in 0..12 {
        network.beacon(time, number);
        // to each of its interfaces
        network.beacon(time + 100, number);
        time += gap;
        gap = (2 * gap).min(15 * SECOND);
    }
    assert_eq!(beacons(&network.second(time)), [(BeaconsNoted::First, 1, 0)]);
    network.beacon(time, 0);
    network.beacon(time + SECOND / 50, 1);
    assert_eq!(
        beacons(&network.second(time)),
        [(BeaconsNoted::InStep, 11, 11), (BeaconsNoted::OutOfStep, 1, 0)]
    );
    network.beacon(time + SECOND, 2);
    assert_eq!(beacons(&network.second(time + 30 * SECOND)), []);
    assert_eq!(beacons(&network.second(time + 40 * SECOND)), [(BeaconsNoted::Overdue, 2, 2)]);
    assert_eq!(beacons(&network.second(time + 80 * SECOND)), [], "that is said once");
    network.beacon(time + 90 * SECOND, 3);
    assert_eq!(beacons(&network.second(time + 91 * SECOND)), [(BeaconsNoted::Again, 1, 3)]);
    assert_eq!(beacons(&network.finish(time + 92 * SECOND)), []);
}

#[test]
fn beacons_that_a_repeater_hands_on_are_not_a_servers() {
    let mut network = Network::new();
    network.sent(0, at(SERVER, 5065), at([10, 0, 0, 255], 5065), &[beacon(1, 5064)]);
    network.sent(0, at([127, 0, 0, 1], 5065), at([127, 0, 0, 1], 45_000), &[beacon(1, 5064)]);
    assert_eq!(network.finish(1), []);
    let register = message(REPEATER_REGISTER, 0, 0, 0, 0x7f00_0001, &[]);
    let confirm = message(REPEATER_CONFIRM, 0, 0, 0, 0x7f00_0001, &[]);
    let (here, repeater) = (at([127, 0, 0, 1], 45_000), at([127, 0, 0, 1], 5065));
    network.sent(1, here, repeater, &[register]);
    network.sent(2, repeater, here, &[confirm]);
    network.sent(3, here, repeater, &[]);
    let Fact::Registrations(counted) = &network.finish(9)[0] else { panic!("registrations") };
    assert_eq!((counted.repeater, counted.requests, counted.confirmed, counted.since), (repeater, 2, 1, 1));
}

/// As caRepeater of EPICS Base does it: clients send it nothing in a datagram, and it confirms to each from another port.
#[test]
fn a_repeater_confirms_from_other_ports() {
    let mut network = Network::new();
    let confirm = || [message(REPEATER_CONFIRM, 0, 0, 0, 0x7f00_0001, &[])];
    let blank = || [message(0, 0, 0, 0, 0, &[])];
    let local = |port| at([127, 0, 0, 1], port);
    let repeater = local(5065);
    for client in 0..100 {
        network.sent(1, local(40_000 + client), repeater, &[]);
    }
    for client in 80..100 {
        network.sent(2, local(50_000 + client), local(40_000 + client), &confirm());
        network.sent(2, local(50_000), local(40_000 + client), &blank());
    }
    // nobody there asked, or too many have since
    network.sent(3, local(50_000), local(39_999), &confirm());
    network.sent(3, local(50_000), at([127, 0, 0, 2], 40_099), &confirm());
    network.sent(3, local(50_000), local(40_000), &confirm());
    // each has asked once
    for client in 90..100 {
        network.sent(4, local(50_000), local(40_000 + client), &[confirm(), confirm()].concat());
    }
    let facts = network.finish(9);
    let [Fact::Registrations(counted)] = &facts[..] else { panic!("{facts:?}") };
    assert_eq!((counted.repeater, counted.requests, counted.confirmed), (repeater, 100, 20));
}

#[test]
fn two_servers_behind_one_address_do_not_fill_the_log() {
    let mut network = Network::new();
    for turn in 0..200 {
        network.beacon(turn * 15 * SECOND, turn as u32);
        network.beacon(turn * 15 * SECOND + 7 * SECOND, 1_000_000 + turn as u32);
        network.datagrams.second(turn * 15 * SECOND + 8 * SECOND, &mut network.out);
    }
    let noted = beacons(&network.finish(4000 * SECOND));
    assert!((50..150).contains(&noted.len()), "{} notes in 50 minutes", noted.len());
    let count: u32 = noted.iter().map(|(_, count, _)| count).sum();
    assert_eq!(count, 400, "each is counted");
}

#[test]
fn ports_of_environments() {
    let environment = [
        ("EPICS_CAS_SERVER_PORT", "5164"),
        ("EPICS_CA_REPEATER_PORT", " 5165 "),
        ("EPICS_CA_ADDR_LIST", "10.0.0.1:6064 gateway [::1]:x 10.0.0.2:5064"),
        ("EPICS_CA_SERVER_PORT", "70000"),
        ("EPICS_CAS_BEACON_PORT", "0"),
        ("PATH", "5000"),
    ];
    let found = selected(environment.into_iter());
    assert_eq!((found.asked, found.told), (vec![5064, 5164, 6064], vec![5065, 5165]));
}

/// A network's traffic: who, which name, or an answer to it.
fn traffic() -> impl Strategy<Value = Vec<(u64, u16, u32, bool)>> {
    proptest::collection::vec((0..3 * SECOND, 0..4_u16, 0..12_u32, any::<bool>()), 0..300)
}

/// Any bytes, from and to any of the ports: no panic, and nothing is made of bytes that hold no message.
#[test]
fn random_datagrams() {
    fuzz(256, |random: &mut Random| {
        let mut network = Network::new();
        for turn in 0..random.below(40) {
            let byte = |random: &mut Random| match random.below(3) {
                0 => 0,
                1 => random.below(30) as u8,
                _ => random.next() as u8,
            };
            let payload: Vec<u8> = (0..random.below(120)).map(|_| byte(random)).collect();
            let mut port = || [5064, 5065, 40_000, 40_001, 0, 5064][random.below(6)];
            let datagram = Datagram {
                source: at([10, 0, 0, 1], port()).into(),
                destination: at([10, 0, 0, 2], port()).into(),
                payload: &payload,
                length: payload.len() + random.below(200),
            };
            let seen = Seen { namespace: HERE, interface: (turn % 3) as i32, time: turn as u64 * SECOND / 4 };
            network.datagrams.datagram(seen, &datagram, &mut network.out);
            network.datagrams.second(turn as u64 * SECOND / 4, &mut network.out);
        }
        network.datagrams.finish(100 * SECOND, &mut network.out);
        assert!(network.out.len() < 60 * 120);
    });
}

proptest! {
    /// Whatever the table can hold: each request is in one report, or counted as left out.
    #[test]
    fn no_request_is_lost(
        traffic in traffic(),
        entries in prop_oneof![3 => 1..60_usize, 1 => Just(4096)],
        burst in prop_oneof![3 => 0..40_u32, 1 => Just(2000)],
        rate in 0..9_u32,
    ) {
        let mut searches = Searches::new(searches::Limits { entries, burst, rate }, FACTS);
        let (mut out, mut truth, mut time) = (Vec::new(), BTreeMap::new(), 0);
        searches.set_places(&[HERE], 0, &mut out);
        for (pause, who, name, is_answer) in traffic {
            let asking = Asking { client: client(who), tcp: false, cid: name };
            if is_answer {
                searches.answer(HERE, asking, Some(Answer { server: at(SERVER, 5064), guid: None }), time);
            } else {
                searches.request(HERE, asking, format!("PV{name}").as_bytes(), time);
                *truth.entry((client(who), format!("PV{name}"))).or_insert(0_u64) += 1;
            }
            if pause > 2 * SECOND {
                time += pause;
                searches.second(time, &mut out);
            }
        }
        searches.finish(time, &mut out);
        let (mut counted, mut left_out) = (BTreeMap::new(), 0);
        for event in &out {
            match &event.fact {
                Fact::Searches(it) => {
                    prop_assert!(it.since <= it.last && it.last <= event.time);
                    *counted.entry((it.client, it.name.clone())).or_insert(0) += u64::from(it.count);
                }
                Fact::SearchLoad(it) => left_out += it.left_out,
                _ => {}
            }
        }
        counted.retain(|_, count| *count > 0);
        let sum = |counts: &BTreeMap<_, u64>| counts.values().sum::<u64>();
        prop_assert_eq!(sum(&counted) + left_out, sum(&truth));
        prop_assert!(counted.iter().all(|(who, count)| truth[who] >= *count));
        if entries == 4096 && burst == 2000 {
            prop_assert_eq!(counted, truth, "exact while there is room");
        }
    }

    /// The same messages whole and cut short: what is left of them counts the same.
    #[test]
    fn a_cut_datagram_holds_what_came_before(names in proptest::collection::vec("[A-Z:]{1,30}", 1..20), cut in 0..700_usize) {
        let messages: Vec<Vec<u8>> = names.iter().zip(0..).map(|(name, cid)| search(cid, name)).collect();
        let payload = messages.concat();
        let whole = payload.get(..cut.min(payload.len())).unwrap();
        let mut network = Network::new();
        let datagram = Datagram { source: client(1).into(), destination: at(SERVER, 5064).into(), payload: whole, length: payload.len() };
        network.datagrams.datagram(Seen { namespace: HERE, interface: 1, time: 0 }, &datagram, &mut network.out);
        let facts = network.finish(SECOND);
        let mut ends = messages.iter().scan(0, |end, message| {
            *end += message.len();
            Some(*end)
        });
        let fit = ends.by_ref().take_while(|end| *end <= cut).count();
        prop_assert_eq!(searches(&facts).iter().map(|it| it.count as usize).sum::<usize>(), fit);
        prop_assert_eq!(loads(&facts).iter().map(|it| it.cut).sum::<u64>(), u64::from(cut < payload.len()));
    }
}
