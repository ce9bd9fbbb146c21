//! Clocks of hosts that differ: logs of several machines whose clocks are off by known amounts, joined by messages with
//! known delays. What iocreplay says must hold the truth; what it sets right must be right.

mod common;

use common::{ca_put, run, SECOND, WALL};
use iocrec_log::event::*;
use iocrec_log::storage::{Clocked, Directory};
use iocrec_log::writer::{Options, Writer};
use serde_json::Value as Json;
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

const US: u64 = 1000;

/// A machine: its address is 10.0.0.NUMBER, and its clock is ahead by `offset` (at a true time).
struct Machine {
    name: &'static str,
    number: u8,
    offset: fn(u64) -> i64,
}

const RIGHT: Machine = Machine { name: "right", number: 1, offset: |_| 0 };
const AHEAD: Machine = Machine { name: "ahead", number: 2, offset: |_| 1_250_000_000 };
const BEHIND: Machine = Machine { name: "behind", number: 3, offset: |_| -40_000_000 };
const ALONE: Machine = Machine { name: "alone", number: 4, offset: |_| 7_000_000 };
/// Drifts by 50 ms in 1000 s.
const DRIFTING: Machine = Machine { name: "drifting", number: 5, offset: |time| (time / 20_000) as i64 };

/// A circuit from one machine to another: true times of a put's way there, and of its answer's way back.
struct Line {
    client: &'static Machine,
    server: &'static Machine,
    /// A put each so often, true time; until the end.
    every: u64,
    until: u64,
    /// The shortest delays, there and back.
    delays: (u64, u64),
}

impl Line {
    fn circuit(&self) -> Fact {
        let address = |machine: &Machine, port| Address::new([10, 0, 0, machine.number].into(), port);
        Fact::from(Circuit {
            id: self.id(),
            client: address(self.client, 41_000),
            server: address(self.server, 5064),
            user: "alice".into(),
            host: self.client.name.into(),
            minor: 13,
            origin: Origin::MidStream,
        })
    }

    fn id(&self) -> u32 {
        u32::from(self.client.number) * 100 + u32::from(self.server.number)
    }

    /// The messages as one of the machines sees them: true time and fact.
    fn seen_by(&self, machine: &Machine) -> Vec<(u64, Fact)> {
        let mut seen = Vec::new();
        let mut random = 12345_u64;
        let mut jitter = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 40) % (300 * US)
        };
        let count = (self.until / self.every) as u32;
        for ioid in 1..=count {
            let sent = u64::from(ioid) * self.every;
            let arrived = sent + self.delays.0 + jitter();
            let answered = arrived + 150 * US;
            let back = answered + self.delays.1 + jitter();
            let (put, answer) =
                if machine.name == self.client.name { (sent, back) } else { (arrived, answered) };
            let (circuit, notify, status, text) = (self.id(), true, 1, String::new());
            seen.push((put, ca_put(circuit, circuit, true, ioid, f64::from(ioid))));
            seen.push((answer, Fact::CaAnswer(CaAnswer { circuit, ioid, notify, status, text })));
        }
        seen
    }
}

/// Writes the log of a machine.
fn record(directory: &Path, machine: &Machine, lines: &[&Line]) {
    // each machine has been up for another time
    let up = u64::from(machine.number) * 1000 * SECOND;
    let shown = |time: u64| WALL + time as i64 + (machine.offset)(time);
    let wall = Rc::new(Cell::new(shown(0)));
    let place = directory.join(machine.name);
    let storage = Clocked { storage: Directory::open(&place).unwrap(), wall: Rc::clone(&wall) };
    let options = Options { segment: Some(256 << 10), ..Options::default() };
    let mut writer = Writer::open(storage, options, u128::from(machine.number)).unwrap();
    let mut push = |time: u64, fact: Fact| writer.push(Event { time: up + time, fact });
    push(
        0,
        Fact::from(Host {
            name: machine.name.into(),
            kernel: "6.1.0".into(),
            arch: "x86_64".into(),
            boot_id: format!("boot of {}", machine.name),
            recorder: "0.1.0".into(),
            utc_offset: 0,
        }),
    );
    push(0, Fact::Clock(Clock { wall: shown(0) }));
    push(
        0,
        Fact::from(Ioc {
            id: 1,
            pid: 100,
            start: up,
            name: format!("ioc-{}", machine.name),
            exe: "/softIoc".into(),
            cwd: "/".into(),
            command: vec![],
            base_version: "7.0.8".into(),
            ca_ports: vec![5064],
            linkage: Linkage::Shared,
            not_probed: vec![],
            user: String::new(),
            pva_ports: vec![],
            environment: vec![],
        }),
    );
    let mut events = Vec::new();
    for line in lines.iter().filter(|line| [line.client.name, line.server.name].contains(&machine.name)) {
        let id = line.id();
        push(0, line.circuit());
        let is = |end: &Machine| (end.name == machine.name).then_some(1);
        let (server, client) = (is(line.server), is(line.client));
        push(0, Fact::CircuitEnds(CircuitEnds { circuit: id, namespace: 1, server, client }));
        push(
            0,
            Fact::from(Channel {
                id,
                circuit: id,
                cid: Some(id),
                sid: Some(id),
                pv: format!("T:{id}"),
                dbr: Some(6),
                count: Some(1),
                origin: Origin::MidStream,
            }),
        );
        events.extend(line.seen_by(machine));
    }
    events.push((SECOND / 2, Fact::Mark(format!("half a second on {}", machine.name))));
    events.sort_by_key(|(time, _)| *time);
    let mut noted = 0;
    for (time, fact) in events {
        if time >= noted + SECOND {
            noted = time;
            push(time, Fact::Clock(Clock { wall: shown(time) }));
        }
        push(time, fact);
        wall.set(shown(time));
    }
    let end = noted + 2 * SECOND;
    writer.close(up + end);
    assert_eq!(writer.status().lost, 0);
}

fn line(client: &'static Machine, server: &'static Machine) -> Line {
    Line { client, server, every: SECOND / 10, until: 30 * SECOND, delays: (100 * US, 100 * US) }
}

/// Logs of four machines: one shares no circuit with any other.
fn fleet() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (line(&RIGHT, &AHEAD), line(&AHEAD, &BEHIND));
    for machine in [&RIGHT, &AHEAD, &BEHIND, &ALONE] {
        record(directory.path(), machine, &[&first, &second]);
    }
    directory
}

/// What `info --json` says of the clocks, by host.
fn clocks(directory: &Path, options: &[&str]) -> impl Fn(&str) -> Json {
    let words: Vec<&str> = ["info", "--json", "."].iter().chain(options).copied().collect();
    let (code, out, err) = run(directory, &words);
    assert_eq!(code, 0, "{err}");
    let all: Json = serde_json::from_str(&out).unwrap();
    move |host: &str| {
        let of = all["clocks"].as_array().unwrap().iter().find(|clock| clock["host"] == host);
        of.unwrap_or_else(|| panic!("{host}: {all}")).clone()
    }
}

/// Checks that the bounds hold the truth, and are no wider than what the delays allow.
fn holds(clock: &Json, truth: f64, width: f64) {
    let number = |key: &str| clock[key].as_f64().unwrap_or_else(|| panic!("{key} of {clock}"));
    let (least, most) = (number("ahead_least_s"), number("ahead_most_s"));
    assert!((least..=most).contains(&truth), "{truth}: {clock}");
    assert!(most - least < width, "{clock}");
    assert!((number("ahead_s") - truth).abs() <= (most - least) / 2.0 + 1e-9, "{clock}");
}

#[test]
fn bounds_hold_the_truth() {
    let fleet = fleet();
    let of = clocks(fleet.path(), &[]);
    // most circuits join `ahead` to others
    assert_eq!(of("ahead")["ahead_of"], Json::Null);
    holds(&of("right"), -1.25, 0.0012);
    holds(&of("behind"), -1.29, 0.0012);
    assert_eq!(
        (&of("right")["ahead_of"], &of("behind")["ahead_of"]),
        (&Json::from("ahead"), &Json::from("ahead"))
    );
    assert!(of("right")["messages"].as_u64().unwrap() > 500, "{}", of("right"));
    assert_eq!((&of("alone")["ahead_of"], &of("alone")["ahead_s"]), (&Json::Null, &Json::Null));
    // through the middle one, if that is not the right one
    let of = clocks(fleet.path(), &["--clock-offset", "auto", "--clock-offset", "right=0"]);
    holds(&of("behind"), 0.0, 0.0024);
}

#[test]
fn delays_that_differ_by_way_do_not_deceive() {
    let directory = tempfile::tempdir().unwrap();
    let slow = Line { delays: (9000 * US, 50 * US), ..line(&RIGHT, &AHEAD) };
    for machine in [&RIGHT, &AHEAD] {
        record(directory.path(), machine, &[&slow]);
    }
    let of = clocks(directory.path(), &[]);
    assert_eq!(of("ahead")["ahead_of"], Json::Null, "the first of two");
    holds(&of("right"), -1.25, 0.0106);
}

#[test]
fn a_clock_that_drifts_is_bounded_throughout() {
    let directory = tempfile::tempdir().unwrap();
    let long = Line { every: SECOND, until: 1000 * SECOND, ..line(&RIGHT, &DRIFTING) };
    for machine in [&RIGHT, &DRIFTING] {
        record(directory.path(), machine, &[&long]);
    }
    let of = clocks(directory.path(), &[])("right");
    let number = |key: &str| of[key].as_f64().unwrap();
    // of those 50 ms, all but what is within the bounds of the first and the last
    assert!(number("changed_s") > 0.045 && number("changed_s") <= 0.050, "{of}");
    assert!(number("ahead_least_s") <= -0.0495 && number("ahead_most_s") >= -0.0005, "{of}");
    let (_, _, said) = run(directory.path(), &["puts", "."]);
    assert!(said.contains("changed by at least 4"), "{said}");
}

#[test]
fn it_is_said_where_hosts_are_merged() {
    let fleet = fleet();
    let (code, _, said) = run(fleet.path(), &["puts", "."]);
    assert_eq!(code, 0);
    assert!(said.contains("right's is 1.250") && said.contains("behind ahead's"), "{said}");
    assert!(said.contains("how the clocks of alone differ from the others' is not known"), "{said}");
    for quiet in [&["puts", ".", "--host", "right"][..], &["puts", "right"], &["iocs", "."]] {
        let (code, _, said) = run(fleet.path(), quiet);
        assert_eq!((code, said.contains("clock")), (0, false), "{quiet:?}: {said}");
    }
    let (code, out, _) = run(fleet.path(), &["info", "."]);
    assert_eq!(code, 0);
    assert!(out.contains("clocks    alone  not known"), "{out}");
}

#[test]
fn offsets_move_all_times_of_a_host() {
    let fleet = fleet();
    // what a command prints, without its head
    let times = |words: &[&str]| {
        let (code, out, err) = run(fleet.path(), words);
        assert_eq!(code, 0, "{words:?}: {err}");
        out
    };
    let plain = times(&["info", "ahead", "--json"]);
    let moved = times(&["info", "ahead", "--json", "--clock-offset", "ahead=+1.25"]);
    let of = |text: &str| serde_json::from_str::<Json>(text).unwrap()["runs"][0].clone();
    let (plain, moved) = (of(&plain), of(&moved));
    assert_eq!(plain["marks"][0]["time"], "2026-09-21T14:13:21.750+00:00", "{plain}");
    assert_eq!(moved["marks"][0]["time"], "2026-09-21T14:13:20.500+00:00");
    assert_eq!((&plain["clock_offset_s"], &moved["clock_offset_s"]), (&Json::from(0.0), &Json::from(1.25)));
    assert_eq!(plain["clock_steps"], moved["clock_steps"]);
    // every command that tells times tells others
    for command in [&["puts"][..], &["iocs"], &["verify"], &["clients"], &["values", "T:102"], &["info"]] {
        let words = |more: &[&'static str]| [command, &["ahead", "--utc"], more].concat();
        let (plain, moved) = (times(&words(&[])), times(&words(&["--clock-offset", "ahead=3600"])));
        let at = |text: &str, hour: &str| text.matches(&format!("T{hour}:")).count();
        if at(&plain, "14") > 0 {
            assert_eq!((at(&moved, "13"), at(&moved, "14")), (at(&plain, "14"), 0), "{command:?}: {moved}");
        }
    }
    let since = ["puts", "ahead", "--utc", "--since", "2026-09-21T14:13:40", "--clock-offset", "ahead=1.25"];
    let of_since = times(&since);
    let first = of_since.lines().next().unwrap();
    assert!(first.starts_with("2026-09-21T14:13:40.00"), "{first}");
}

#[test]
fn set_right_all_is_in_the_true_order() {
    let fleet = fleet();
    let order = |options: &[&str]| -> Vec<String> {
        let words = [&["puts", ".", "--format", "jsonl"], options].concat();
        let (code, out, err) = run(fleet.path(), &words);
        assert_eq!(code, 0, "{err}");
        let line = |line: &str| -> Json { serde_json::from_str(line).unwrap() };
        out.lines().map(line).map(|put| format!("{} {}", put["host"], put["requested"])).collect()
    };
    let is_true = |all: &[String]| {
        let value = |text: &String| text.split(' ').next_back().unwrap().parse::<f64>().unwrap();
        all.windows(2).all(|pair| value(&pair[0]) <= value(&pair[1]))
    };
    let (plain, auto) = (order(&[]), order(&["--clock-offset", "auto"]));
    assert!(plain.len() > 500 && !is_true(&plain));
    assert!(is_true(&auto), "{auto:?}");
    let by_hand = order(&["--clock-offset", "ahead=1.25", "--clock-offset", "behind=-0.04"]);
    assert!(is_true(&by_hand), "{by_hand:?}");
}

#[test]
fn what_is_wrong_is_said() {
    let fleet = fleet();
    for (words, reason) in [
        (
            &["puts", ".", "--clock-offset", "box=1"][..],
            "no log is of host 'box'; the logs are of ahead, alone, behind, right",
        ),
        (&["verify", ".", "--clock-offset", "box=1"], "no log is of host 'box'"),
        (&["puts", ".", "--clock-offset", "ahead"], "write HOST=SECONDS"),
        (
            &["puts", ".", "--clock-offset", "ahead=1", "--clock-offset", "ahead=2"],
            "gives host 'ahead' two offsets",
        ),
        (&["puts", ".", "--follow", "--clock-offset", "auto"], "changes as the logs grow"),
    ] {
        let (code, _, said) = run(fleet.path(), words);
        assert_eq!(code, 2, "{words:?}: {said}");
        assert!(said.contains(reason), "{words:?}: {said}");
    }
}
