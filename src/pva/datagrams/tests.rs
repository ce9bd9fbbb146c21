//! Datagrams as clients and servers of PVAccess send them, and as nobody should.

use std::collections::HashMap;

use super::*;
use crate::net::udp::scope;
use crate::net::Namespace;
use iocrec_log::event::BeaconsNoted;
use iocrec_log::event::{Address, Ip6};
use iocrec_testing::chance::{fuzz, mutate, Random};

const SECOND: u64 = 1_000_000_000;
const HERE: Namespace = 1;
const GUID: [u8; 12] = [0xd5, 0x49, 0x12, 0x74, 0xa0, 0xc7, 0xa3, 0xdf, 0xbc, 0x33, 0xf7, 0x8f];

fn at(ip: [u8; 4], port: u16) -> Address {
    Address::new(ip.into(), port)
}

const CLIENT: [u8; 4] = [10, 0, 0, 7];
const SERVER: [u8; 4] = [10, 0, 0, 3];

/// A message; `big`: numbers have their highest byte first.
fn message(big: bool, from_server: bool, command: u8, payload: &[u8]) -> Vec<u8> {
    let flags = if big { 0x80 } else { 0 } | if from_server { 0x40 } else { 0 };
    let size = payload.len() as u32;
    let size = if big { size.to_be_bytes() } else { size.to_le_bytes() };
    [&[MAGIC, 2, flags, command][..], &size, payload].concat()
}

fn short(big: bool, number: u16) -> [u8; 2] {
    if big {
        number.to_be_bytes()
    } else {
        number.to_le_bytes()
    }
}

fn long(big: bool, number: u32) -> [u8; 4] {
    if big {
        number.to_be_bytes()
    } else {
        number.to_le_bytes()
    }
}

fn mapped(ip: [u8; 4]) -> Vec<u8> {
    [&[0; 10][..], &[0xff, 0xff], &ip].concat()
}

/// A search of a client that wants answers at this port.
fn search(big: bool, port: u16, names: &[(u32, &str)]) -> Vec<u8> {
    let mut payload = [&b"find"[..], &[0x80, 0, 0, 0], &[0; 16], &short(big, port), b"\x01\x03tcp"].concat();
    payload.extend(short(big, names.len() as u16));
    for (cid, name) in names {
        payload.extend(long(big, *cid));
        payload.push(name.len() as u8);
        payload.extend(name.as_bytes());
    }
    message(big, false, SEARCH, &payload)
}

fn answer(big: bool, guid: [u8; 12], ip: [u8; 4], port: u16, found: bool, cids: &[u32]) -> Vec<u8> {
    let mut payload =
        [&guid[..], b"find", &mapped(ip), &short(big, port), b"\x03tcp", &[found.into()]].concat();
    payload.extend(short(big, cids.len() as u16));
    cids.iter().for_each(|cid| payload.extend(long(big, *cid)));
    message(big, true, SEARCH_RESPONSE, &payload)
}

fn beacon_of(guid: [u8; 12], number: u8, port: u16) -> Vec<u8> {
    let payload =
        [&guid[..], &[0, number, 0, 1], &mapped([0; 4]), &short(true, port), b"\x03tcp\xff"].concat();
    message(true, true, BEACON, &payload)
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

    fn sent(&mut self, time: u64, source: impl Into<End>, destination: impl Into<End>, payload: &[u8]) {
        let seen = Seen { namespace: HERE, interface: 2, time };
        let datagram = Datagram {
            source: source.into(),
            destination: destination.into(),
            payload,
            length: payload.len(),
        };
        self.datagrams.datagram(seen, &datagram, &mut self.out);
    }

    fn second(&mut self, time: u64) -> Vec<Fact> {
        self.datagrams.watched.second(time, &mut self.out);
        self.out.drain(..).map(|event| event.fact).collect()
    }
}

/// A name, how often it was searched, who answered how often, and the number of GUIDs.
type Searched = (String, u32, Vec<(Address, u32)>, usize);

fn found(facts: &[Fact]) -> Vec<Searched> {
    let of = |fact: &Fact| match fact {
        Fact::PvaSearches(of) => {
            assert_eq!(of.searches.client, at(CLIENT, 40_001));
            let searches = of.searches.clone();
            Some((searches.name, searches.count, searches.answers, of.guids.len()))
        }
        _ => None,
    };
    let mut found: Vec<_> = facts.iter().filter_map(of).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

#[test]
fn where_servers_are_that_answered() {
    let (mut network, client) = (Network::new(), at(CLIENT, 40_001));
    for (time, port, is_there) in [(1, 40_002, true), (2, 40_002, true), (3, 40_003, false), (4, 5075, true)]
    {
        let says = answer(false, GUID, [0; 4], port, is_there, &[1, 3]);
        network.sent(time * SECOND, at(SERVER, 57_899), client, &says);
    }
    assert_eq!(network.datagrams.take_answered(), [(HERE, 40_002), (HERE, 5075)]);
    assert!(network.datagrams.take_answered().is_empty());
}

#[test]
fn names_and_who_has_them() {
    for big in [false, true] {
        let mut network = Network::new();
        let (client, everybody) = (at(CLIENT, 40_001), at([10, 0, 0, 255], 5076));
        let names = [(1, "A"), (2, "B"), (3, "C")];
        network.sent(SECOND, client, everybody, &search(big, 40_001, &names));
        // from whatever port, and twice
        for delay in [0, 1_000_000] {
            let yes = answer(big, GUID, [0; 4], 5075, true, &[1, 3]);
            network.sent(SECOND + 100 + delay, at(SERVER, 57_899), client, &yes);
        }
        let other = answer(big, [7; 12], [10, 0, 0, 4], 5075, true, &[3]);
        network.sent(SECOND + 200, at([10, 0, 0, 4], 5076), client, &other);
        network.sent(SECOND + 300, at(SERVER, 5076), client, &answer(big, GUID, [0; 4], 5075, false, &[2]));
        let facts = network.second(3 * SECOND);
        let (server, another) = (at(SERVER, 5075), at([10, 0, 0, 4], 5075));
        let expected = [
            ("A".to_owned(), 1, vec![(server, 1)], 1),
            ("B".to_owned(), 1, vec![], 0),
            ("C".to_owned(), 1, vec![(server, 1), (another, 1)], 2),
        ];
        assert_eq!(found(&facts), expected);
        let denied = |fact: &Fact| matches!(fact, Fact::PvaSearches(of) if of.searches.not_found == 1);
        assert!(facts.iter().any(denied));
    }
}

/// As pvxs passes on what it was asked alone, seen with pvxslibs 1.5.3.
#[test]
fn what_a_server_passes_on_counts_once() {
    let mut network = Network::new();
    let (client, server) = (at(CLIENT, 40_001), at(SERVER, 5076));
    let asked = search(false, 40_001, &[(9, "X")]);
    network.sent(SECOND, client, server, &asked);
    let passed_on = [message(false, false, ORIGIN_TAG, &mapped(SERVER)), asked].concat();
    network.sent(SECOND + 100, server, at([224, 0, 0, 128], 5076), &passed_on);
    assert_eq!(found(&network.second(3 * SECOND)), [("X".to_owned(), 1, vec![], 0)]);
}

#[test]
fn servers_start_again_and_fall_silent() {
    let mut network = Network::new();
    let (from, to) = (at(SERVER, 57_570), at([10, 0, 0, 255], 5076));
    let mut noted = Vec::new();
    let mut time = SECOND;
    let beacons = |facts: Vec<Fact>| {
        let of = |fact| match fact {
            Fact::PvaBeacons(of) => {
                assert_eq!(of.beacons.server, at(SERVER, 5075));
                Some((of.beacons.noted, of.beacons.last, of.guid, of.before))
            }
            _ => None,
        };
        facts.into_iter().filter_map(of).collect::<Vec<_>>()
    };
    // numbers go on behind 255, and the time between them grows
    for number in (250..=260).map(|number| number as u8) {
        network.sent(time, from, to, &beacon_of(GUID, number, 5075));
        noted.extend(beacons(network.second(time)));
        time += if number < 250 && number > 1 { 180 } else { 15 } * SECOND;
    }
    assert_eq!(noted, [(BeaconsNoted::First, 250, GUID.to_vec(), vec![])]);
    network.sent(time, from, to, &beacon_of([8; 12], 0, 5075));
    let restarted = beacons(network.second(time));
    assert_eq!(restarted.last(), Some(&(BeaconsNoted::Restarted, 0, vec![8; 12], GUID.to_vec())));
    assert_eq!(beacons(network.second(time + 440 * SECOND)), []);
    let silent = beacons(network.second(time + 460 * SECOND));
    assert_eq!(silent, [(BeaconsNoted::Overdue, 0, vec![8; 12], vec![])]);
    assert_eq!(
        servers_in(&Datagram {
            source: from.into(),
            destination: to.into(),
            payload: &beacon_of(GUID, 1, 5075),
            length: 60
        }),
        [End::from(at(SERVER, 5075))]
    );
}

/// The same over IPv6: addresses that the log tells before they are used.
#[test]
fn over_ipv6() {
    let fd = |last: u128| 0xfd00 << 112 | last;
    let (client, everybody) = (End::v6(fd(7), 40_001), End::v6(0xff02 << 112 | 0x42_0001, 5076));
    for loopback in [false, true] {
        let mut network = Network::new();
        let (from, server) = match loopback {
            true => (End::v6(1, 40_001), End::v6(1, 57_899)),
            false => (client, End::v6(fd(3), 57_899)),
        };
        network.sent(SECOND, from, everybody, &search(false, 40_001, &[(1, "A"), (2, "B")]));
        let own = [&GUID[..], b"find", &[0; 16], &short(false, 5075), b"\x03tcp\x01\x01\0", &long(false, 1)];
        network.sent(SECOND + 100, server, from, &message(false, true, SEARCH_RESPONSE, &own.concat()));
        // one that answers for another
        let other = fd(4).to_be_bytes();
        let payload =
            [&GUID[..], b"find", &other, &short(false, 5075), b"\x03tcp\x01\x01\0", &long(false, 2)];
        network.sent(SECOND + 200, server, from, &message(false, true, SEARCH_RESPONSE, &payload.concat()));
        network.sent(SECOND + 300, server, everybody, &beacon_of(GUID, 0, 5075));
        let mut told = std::collections::BTreeMap::new();
        let mut address = |facts: &[Fact], of: Address| {
            for fact in facts {
                if let Fact::Ip6(of) = fact {
                    told.insert(of.ip, u128::from_be_bytes(of.bytes.clone().try_into().unwrap()));
                }
            }
            (*told.get(&of.ip).expect("told before"), of.port)
        };
        let facts = network.second(3 * SECOND);
        let mut found = std::collections::BTreeMap::new();
        for (at, fact) in facts.iter().enumerate() {
            match fact {
                Fact::PvaSearches(of) => {
                    let of = &of.searches;
                    let answers: Vec<_> =
                        of.answers.iter().map(|(to, _)| address(&facts[..at], *to)).collect();
                    let client = address(&facts[..at], of.client);
                    found.insert(of.name.clone(), (client, answers));
                    assert_eq!(scope(HERE, of.client.ip), if loopback { HERE } else { 0 });
                }
                Fact::PvaBeacons(of) => {
                    let server = address(&facts[..at], of.beacons.server);
                    assert_eq!(server, (if loopback { 1 } else { fd(3) }, 5075));
                }
                _ => {}
            }
        }
        let (client, server) = if loopback { (1, 1) } else { (fd(7), fd(3)) };
        let expected = [
            ("A".to_owned(), ((client, 40_001), vec![(server, 5075)])),
            ("B".to_owned(), ((client, 40_001), vec![(fd(4), 5075)])),
        ];
        assert_eq!(found, expected.into());
    }
}

#[test]
fn ports_of_environments() {
    let set = [
        ("EPICS_PVA_ADDR_LIST", "10.0.0.1 10.0.0.2:7076 [fe80::1]:7078 fe80::7"),
        ("EPICS_PVAS_BROADCAST_PORT", "7077"),
    ];
    assert_eq!(selected(set.into_iter()).asked, [5076, 7076, 7077, 7078]);
}

/// Whatever comes, each datagram that asks says at most what is in it.
#[test]
fn random_datagrams() {
    let seeds = [
        search(false, 40_001, &[(1, "LINAC:A"), (2, "LINAC:B")]),
        search(true, 40_001, &[(1, "LINAC:C")]),
        answer(false, GUID, [0; 4], 5075, true, &[1, 2]),
        beacon_of(GUID, 3, 5075),
    ];
    let mut total = 0;
    fuzz(300, |random: &mut Random| {
        let mut network = Network::new();
        for turn in 0..20 {
            let mut payload: Vec<u8> =
                (0..=random.below(3)).flat_map(|_| seeds[random.below(seeds.len())].clone()).collect();
            if random.below(3) > 0 {
                mutate(random, &mut payload);
            }
            let ends = match random.below(2) {
                0 => [at(CLIENT, 40_001), at(SERVER, 5076)].map(End::from),
                _ => [End::v6(0xfd00 << 112 | random.below(9) as u128, 40_001), End::v6(1, 5076)],
            };
            let side = random.below(2);
            network.sent(turn * SECOND / 4, ends[side], ends[1 - side], &payload);
            let named = servers_in(&Datagram {
                source: ends[side],
                destination: ends[1 - side],
                payload: &payload,
                length: payload.len(),
            });
            assert!(named.len() <= payload.len());
        }
        network.datagrams.watched.finish(10 * SECOND, &mut network.out);
        for event in network.out.drain(..) {
            match event.fact {
                Fact::PvaSearches(of) => {
                    total += of.searches.count;
                    assert_eq!(of.guids.len(), of.searches.answers.len());
                    assert!(of.searches.name.len() <= 800 && !of.searches.name.is_empty());
                }
                Fact::Ip6(of) => assert!(of.ip > 0 && of.ip < Ip6::END && of.bytes.len() == 16),
                Fact::PvaSearchLoad(_) | Fact::PvaBeacons(_) | Fact::Loss(_) => {}
                other => panic!("{other:?}"),
            }
        }
    });
    assert!(total > 1000, "{total}");
}
