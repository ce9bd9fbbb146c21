//! Questions to a log: alarms, `why` by way of links, the last minute of an IOC, clients.

mod common;

use common::{ca_put, complete, iocreplay, outcome, process, put, run, write_events, MS, SECOND, WALL};
use iocrec_log::event::*;
use serde_json::Value as Json;
use std::path::Path;
use tempfile::TempDir;

const CLIENT: u32 = 1;
const SCAN: u32 = 3;
const CA_LINK: u32 = 6;

const SP: u32 = 1;
const CALC: u32 = 2;
const SLOW: u32 = 3;
const FAR: u32 = 4;
/// Follows T:SP by a CP link.
const RB: u32 = 11;
/// Follows T:SP and T:OTHER.
const TWO: u32 = 12;
const OTHER: u32 = 13;
/// Follow each other.
const ONE_WAY: u32 = 14;
const OTHER_WAY: u32 = 15;

const INPA: u32 = 21;
const INPB: u32 = 22;

const HIHI: (u16, u16) = (2, 3);
const NO_ALARM: (u16, u16) = (0, 0);

/// A story, told event by event.
#[derive(Default)]
struct Story(Vec<(u64, Fact)>);

impl Story {
    /// The definitions that it needs beside the common ones.
    fn new() -> Story {
        let mut story = Story::default();
        let thread = Thread { id: CA_LINK, ioc: 1, tid: 1006, name: "dbCaLink".into(), stack: 1 << 40 };
        story.tell(0, Fact::Thread(thread));
        for (id, name) in
            [(RB, "T:RB"), (TWO, "T:TWO"), (OTHER, "T:OTHER"), (ONE_WAY, "T:L1"), (OTHER_WAY, "T:L2")]
        {
            let (name, rtype) = (name.into(), "calc".into());
            story.tell(0, Fact::from(Record { id, ioc: 1, address: 4096, name, rtype }));
        }
        for (id, name) in [(INPA, "INPA"), (INPB, "INPB")] {
            let (rtype, name, dbf) = ("calc".into(), name.into(), Dbf::InLink);
            story.tell(0, Fact::from(Field { id, ioc: 1, rtype, name, dbf, menu: None }));
        }
        story
    }

    fn tell(&mut self, time: u64, fact: Fact) {
        self.0.push((time, fact));
    }

    /// alice puts a value to a record, which processes.
    fn put(&mut self, time: u64, record: u32, old: f64, v: f64) {
        self.tell(time, ca_put(1, 1, false, 1, v));
        self.tell(time + 1000, put(PutKind::PutField, CLIENT, -1000, 1, (record, 1), old, v));
        self.tell(time + 2000, put(PutKind::Put, CLIENT, -1200, 0, (record, 1), old, v));
        self.tell(time + 3000, process(CLIENT, -1200, 0, record));
        self.completes(time + 4000, CLIENT, record, v, NO_ALARM);
    }

    /// A record is processed on its own.
    fn scan(&mut self, time: u64, record: u32, v: f64, alarm: (u16, u16)) {
        self.tell(time, process(SCAN, -100, 2, record));
        self.completes(time + 1000, SCAN, record, v, alarm);
    }

    /// A record is processed for a CP link.
    fn follow(&mut self, time: u64, record: u32, v: f64, alarm: (u16, u16)) {
        self.tell(time, process(CA_LINK, -100, 0, record));
        self.completes(time + 1000, CA_LINK, record, v, alarm);
    }

    fn completes(&mut self, time: u64, thread: u32, record: u32, v: f64, (severity, status): (u16, u16)) {
        let sp = if thread == CLIENT { -1300 } else { -200 };
        let Fact::Complete(fact) = complete(thread, sp, record, v, severity) else { unreachable!() };
        self.tell(time, Fact::Complete(Complete { status, ..fact }));
    }

    /// The recorder notes a record's CP links.
    fn links(&mut self, time: u64, record: u32, links: &[(u32, &str)]) {
        for (field, source) in links {
            let value = Value::Text(format!("{source} CP NMS").into_bytes());
            self.tell(time, Fact::FieldValue(FieldValue { record, field: *field, value }));
        }
    }

    fn loses(&mut self, since: u64, time: u64) {
        let cause = "ring buffer full".to_owned();
        self.tell(time, Fact::Loss(Loss { source: LossSource::Hits, count: 17, since, cause }));
    }

    fn write(mut self, directory: &Path) {
        self.0.sort_by_key(|(time, _)| *time);
        write_events(&directory.join("log"), "box1", 7, self.0);
    }

    fn written(self) -> TempDir {
        let directory = tempfile::tempdir().unwrap();
        self.write(directory.path());
        directory
    }
}

/// alice puts T:SP up and down, which T:RB follows; T:CALC flaps; T:SLOW begins and does not complete; the IOC is
/// killed at 30 s; the other IOC lives for a second longer.
fn plant() -> TempDir {
    let mut story = Story::new();
    story.scan(1500 * MS, RB, 10.0, NO_ALARM);
    story.put(2 * SECOND, SP, 1.0, 2.0);
    story.follow(2 * SECOND + MS, RB, 20.0, HIHI);
    story.links(2 * SECOND + 20 * MS, RB, &[(INPA, "T:SP")]);
    let acknowledge = CaPut {
        circuit: 1,
        channel: 1,
        notify: false,
        dbr: 36,
        count: 1,
        ioid: 9,
        length: 8,
        payload: vec![0, 2, 0, 0, 0, 0, 0, 0],
    };
    story.tell(3 * SECOND, Fact::CaPut(acknowledge));
    story.put(5 * SECOND, SP, 2.0, 1.0);
    story.follow(5 * SECOND + MS, RB, 10.0, NO_ALARM);
    for n in 0..50 {
        let alarm = if n % 2 == 1 { HIHI } else { NO_ALARM };
        story.scan(10 * SECOND + n * 100 * MS, CALC, n as f64, alarm);
    }
    story.scan(18 * SECOND, SLOW, 1.0, NO_ALARM);
    story.loses(19 * SECOND, 20 * SECOND);
    story.scan(21 * SECOND, SLOW, 2.0, HIHI);
    story.tell(29 * SECOND + 500 * MS, process(CLIENT, -1200, 0, SLOW));
    story.tell(30 * SECOND, Fact::IocEnd(IocEnd { ioc: 1, how: "killed by SIGKILL".into() }));
    story.tell(31 * SECOND, process(2, -1200, 0, FAR));
    story.tell(31 * SECOND + 1000, complete(2, -1300, FAR, 2.0, 0));
    story.written()
}

fn works(directory: &Path, arguments: &[&str]) -> String {
    let (code, out, err) = run(directory, arguments);
    assert_eq!((code, err.as_str()), (0, ""), "{arguments:?}: {out}");
    out
}

fn rows(directory: &Path, arguments: &[&str]) -> Vec<Json> {
    let (code, out, err) = run(directory, arguments);
    assert_eq!(code, 0, "{arguments:?}: {err}");
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The values of these keys, as text.
fn keys(row: &Json, keys: &[&str]) -> String {
    keys.iter().map(|key| row[*key].to_string()).collect::<Vec<_>>().join(" ")
}

#[test]
fn alarms_with_their_causes() {
    let directory = plant();
    let here = directory.path();
    let rows = rows(here, &["alarms", "log", "--utc", "--format", "jsonl"]);
    let told: Vec<String> = rows
        .iter()
        .map(|row| keys(row, &["record", "what", "from_severity", "severity", "lasted_s", "until"]))
        .collect();
    let expected = [
        r#""T:RB" "change" "NO_ALARM" "MAJOR" 3.0 "left""#,
        r#""T:SP" "acknowledged" "NO_ALARM" "NO_ALARM" null null"#,
        r#""T:RB" "change" "MAJOR" "NO_ALARM" null null"#,
        r#""T:CALC" "change" "NO_ALARM" "MAJOR" 0.1 "left""#,
        r#""T:CALC" "change" "MAJOR" "NO_ALARM" null null"#,
        r#""T:CALC" "change" "NO_ALARM" "MAJOR" 0.1 "left""#,
        r#""T:CALC" "change" "MAJOR" "NO_ALARM" null null"#,
        r#""T:CALC" "flapping" "NO_ALARM" "MAJOR" 4.4 null"#,
        r#""T:SLOW" "change" "NO_ALARM" "MAJOR" 8.999999 "ioc_end""#,
        // hits were lost after that
        r#""T:CALC" "still" null "MAJOR" 0.0 "gap""#,
        r#""T:SLOW" "still" null "MAJOR" 8.999999 "ioc_end""#,
    ];
    assert_eq!(told, expected);
    // The put that T:RB followed, by whom.
    let cause = keys(&rows[0], &["cause", "user", "client_host", "through", "status", "value"]);
    assert_eq!(
        cause,
        r#""ca_write T:SP 1 -> 2 by alice@console3 10.0.0.5:41001" "alice" "console3" ["T:RB"] "HIHI" 20.0"#
    );
    assert_eq!((&rows[1]["user"], &rows[3]["cause"]), (&"alice".into(), &"scan .1 second".into()));
    assert_eq!(
        (&rows[7]["changes"], &rows[8]["gap"]),
        (&45.into(), &"17 hits lost: ring buffer full".into())
    );
    assert_eq!(rows[3]["gap"], Json::Null, "nothing was lost then");

    let text = works(here, &["alarms", "log", "--utc"]);
    for part in [
        "T:RB                  NO_ALARM -> MAJOR HIHI        = 20          demo        3.000 s     ca_write T:SP 1 -> 2 \
         by alice@console3 10.0.0.5:41001, by CP link of T:RB",
        "asked to acknowledge alarm (severity MAJOR)",
        "flaps: 45 changes, 23 alarms in 4.400 s; the last is MAJOR HIHI",
        "9.000 s, IOC ended",
        "not all before it was recorded (17 hits lost",
        "at the end                        T:SLOW                was, when its IOC ended, MAJOR HIHI  demo",
        ", its value then 2, no",
        "no acknowledgement in the log",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn alarms_can_be_chosen() {
    let directory = plant();
    let here = directory.path();
    let count = |arguments: &[&str]| {
        let all = [&["alarms", "log", "--utc", "--format", "csv"], arguments].concat();
        works(here, &all).lines().count() - 1
    };
    assert_eq!(count(&["--all", "--pv", "T:CALC"]), 49 + 1, "each change, and that it lasts");
    assert_eq!(count(&["--pv", "T:RB"]), 2);
    assert_eq!(count(&["--user", "alice"]), 3, "what alice caused and acknowledged");
    assert_eq!(count(&["--exclude", "T:CALC", "--until", "2026-09-21T14:13:25Z"]), 3, "one, a still, an ack");
    assert_eq!(
        count(&["--severity", "INVALID"]),
        2,
        "what may have been worse: flapping, an acknowledgement"
    );
    let (code, _, err) = run(here, &["alarms", "log", "--severity", "BAD"]);
    assert_eq!((code, err.contains("choose MINOR, MAJOR or INVALID")), (2, true), "{err}");
    let (code, out, err) = run(here, &["alarms", "log", "--pv", "T:SPP"]);
    assert_eq!((code, out.as_str()), (0, ""));
    assert!(err.contains("no PV or record matches 'T:SPP'; did you mean T:SP"), "{err}");
}

/// A motor completes when it has arrived, in a thread of its driver, and a put with callback is answered then: it changed when
/// the put wrote.
#[test]
fn why_takes_a_put_with_callback_from_when_it_wrote() {
    let mut story = Story::new();
    story.scan(SECOND, SP, 0.0, NO_ALARM);
    let at = 2 * SECOND;
    story.tell(at, ca_put(1, 1, true, 2, 5.0));
    story.tell(at + 1000, put(PutKind::Notify, CLIENT, -900, 3, (SP, 1), 0.0, 0.0));
    story.tell(at + 2000, put(PutKind::Put, CLIENT, -1200, 0, (SP, 1), 0.0, 5.0));
    story.tell(at + 3000, process(CLIENT, -1200, 0, SP)); // it moves
    let read = FieldValue { record: SP, field: 1, value: Value::Double(5.0) };
    story.tell(at + 500 * MS, Fact::FieldValue(read));
    story.scan(4 * SECOND, SP, 5.0, NO_ALARM); // it has arrived
    let answer = CaAnswer { circuit: 1, ioid: 2, notify: true, status: 1, text: String::new() };
    story.tell(4 * SECOND + 5000, Fact::CaAnswer(answer));
    story.tell(9 * SECOND, Fact::Mark("later".into()));
    let directory = story.written();
    for at in ["2026-09-21T14:13:23Z", "2026-09-21T14:13:28Z"] {
        let (_, text, err) = run(directory.path(), &["why", "T:SP", "log", "--utc", "--at", at]);
        assert!(
            text.starts_with("T:SP changed from 0 to 5 at 2026-09-21T14:13:22.00000"),
            "{at}: {text}{err}"
        );
        assert!(text.contains("Cause: ca_write_notify T:SP 0 -> 5"), "{at}: {text}");
    }
}

#[test]
fn why_follows_cp_links() {
    let directory = plant();
    let here = directory.path();
    let text = works(here, &["why", "T:RB", "log", "--utc"]);
    for part in [
        "T:RB changed from 20 to 10 at 2026-09-21T14:13:25.001",
        "Cause: CP link T:RB.INPA from T:SP\n",
        "Begun by: ca_write T:SP 2 -> 1 by alice@console3 10.0.0.5:41001\n",
        "T:RB.INPA follows T:SP, which changed 996 µs before\n",
        "T:SP changed from 2 to 1 at 2026-09-21T14:13:25.000",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let json: Json = serde_json::from_str(&works(here, &["why", "T:RB", "log", "--json"])).unwrap();
    assert_eq!((&json["by"], &json["cause"]), (&Json::Null, &"CP link T:RB.INPA from T:SP".into()));
    let link = &json["links"][0];
    assert_eq!(keys(link, &["link", "source", "before_s", "prompt"]), r#""T:RB.INPA" "T:SP" 0.000996 true"#);
    assert_eq!(link["change"]["user"], "alice");
}

/// A CPP link makes a passive record process as a CP link does.
#[test]
fn why_follows_cpp_links() {
    let mut story = Story::new();
    story.scan(1500 * MS, RB, 10.0, NO_ALARM);
    let link = Value::Text(b"T:SP CPP NMS".to_vec());
    story.tell(1600 * MS, Fact::FieldValue(FieldValue { record: RB, field: INPA, value: link }));
    story.put(2 * SECOND, SP, 1.0, 2.0);
    story.follow(2 * SECOND + MS, RB, 20.0, NO_ALARM);
    let directory = story.written();
    let text = works(directory.path(), &["why", "T:RB", "log", "--utc"]);
    for part in [
        "T:RB changed from 10 to 20 at ",
        "Cause: CP link T:RB.INPA from T:SP\n",
        "T:RB.INPA follows T:SP, which changed ",
        "T:SP changed from 1 to 2 at ",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

/// The report names what began it all, by way of two CP links, as `alarms` does; not where a link's source is not known.
#[test]
fn the_report_follows_cp_links_as_alarms_does() {
    let mut story = Story::new();
    story.links(500 * MS, RB, &[(INPA, "T:SP")]);
    story.links(500 * MS, TWO, &[(INPA, "T:RB")]);
    story.scan(SECOND, TWO, 1.0, NO_ALARM);
    story.scan(SECOND + MS, OTHER, 1.0, NO_ALARM);
    story.put(2 * SECOND, SP, 1.0, 2.0);
    story.follow(2 * SECOND + MS, RB, 20.0, NO_ALARM);
    story.follow(2 * SECOND + 2 * MS, TWO, 40.0, HIHI);
    story.follow(3 * SECOND, OTHER, 2.0, HIHI);
    story.tell(5 * SECOND, Fact::Mark("later".into()));
    let directory = story.written();
    let here = directory.path();
    let alarms = rows(here, &["alarms", "log", "--utc", "--format", "jsonl", "--pv", "T:TWO"]);
    assert_eq!(keys(&alarms[0], &["user", "through"]), r#""alice" ["T:RB","T:TWO"]"#);
    let (code, _, err) = run(here, &["report", "log", "--utc", "-o", "report.html"]);
    assert_eq!(code, 0, "{err}");
    let page = std::fs::read_to_string(here.join("report.html")).unwrap();
    let (_, rest) = page.split_once(r#"id="data">"#).unwrap();
    let data: Json = serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    let of = |number: &Json| data["strings"][number.as_u64().unwrap() as usize].as_str().unwrap().to_owned();
    let causes: Vec<String> = data["alarms"]["cause"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| &data["causes"][cause.as_u64().unwrap() as usize])
        .map(|cause| {
            let texts: Vec<String> = (1..5).map(|part| of(&cause[part])).collect();
            format!("{} {}", cause[0].as_str().unwrap(), texts.join("|"))
        })
        .collect();
    assert_eq!(causes, ["put T:SP|2|alice|T:RB, T:TWO", "CP link source not known|||"]);
    assert!(page.contains("put T:SP, by CP link of T:RB, T:TWO"), "a key moment says it, too");
}

/// Of the chains that chain sampling left out, those bear on a change that begin like its own.
#[test]
fn why_where_chains_were_left_out() {
    let mut story = Story::new();
    for (time, value) in [(2, 1.0), (3, 2.0)] {
        story.scan(time * SECOND, RB, value, NO_ALARM);
        story.scan(time * SECOND + MS, TWO, value, NO_ALARM);
    }
    let left_out = ChainsLeftOut { record: RB, count: 7, since: 3 * SECOND + 100 * MS };
    story.tell(4 * SECOND, Fact::ChainsLeftOut(left_out));
    story.scan(5 * SECOND, OTHER, 1.0, NO_ALARM);
    let directory = story.written();
    let why = |pv: &str| works(directory.path(), &["why", pv, "log", "--utc"]);
    let text = why("T:RB");
    let missed = "after it, not all was recorded: chain sampling left out chains that begin with T:RB: 7";
    assert!(text.contains("changed from 1 to 2") && text.contains(missed), "{text}");
    assert!(!why("T:TWO").contains("not all was recorded"), "{}", why("T:TWO"));
}

#[test]
fn why_of_an_alarm() {
    let directory = plant();
    let here = directory.path();
    let text = works(here, &["why", "T:RB", "log", "--utc", "--alarm", "--at", "2026-09-21T14:13:24Z"]);
    assert!(
        text.starts_with("T:RB went from NO_ALARM to MAJOR HIHI, value 20, at 2026-09-21T14:13:22"),
        "{text}"
    );
    assert!(text.contains("Begun by: ca_write T:SP 1 -> 2 by alice"), "{text}");
    let text = works(here, &["why", "T:SLOW", "log", "--utc", "--alarm"]);
    assert!(text.contains("since then not all was recorded: 17 hits or events lost"), "{text}");
    let text = works(here, &["why", "T:SP", "log", "--utc", "--alarm"]);
    assert!(
        text.starts_with("The alarm of T:SP did not change in these logs (processed 2 times, NO_ALARM)"),
        "{text}"
    );
    let json: Json =
        serde_json::from_str(&works(here, &["why", "T:RB", "log", "--json", "--alarm"])).unwrap();
    assert_eq!((&json["asked"], &json["from_alarm"]["severity"]), (&"alarm".into(), &"MAJOR".into()));
    assert_eq!(json["to_alarm"]["status"], "NO_ALARM");
}

/// The only link need not be the cause if its source may have changed once more, unseen.
#[test]
fn why_with_a_loss_behind_the_only_link() {
    for is_lost in [false, true] {
        let mut story = Story::new();
        story.scan(1500 * MS, RB, 10.0, NO_ALARM);
        story.put(2 * SECOND, SP, 1.0, 2.0);
        if is_lost {
            story.loses(2 * SECOND + 500_000, 2 * SECOND + 800_000);
        }
        story.follow(2 * SECOND + MS, RB, 20.0, NO_ALARM);
        story.links(2 * SECOND + 20 * MS, RB, &[(INPA, "T:SP")]);
        let directory = story.written();
        let text = works(directory.path(), &["why", "T:RB", "log", "--utc"]);
        let told = "; after that, not all was recorded: 17 hits or events lost: ring buffer full\n";
        assert_eq!((text.contains("Begun by: "), text.contains(told)), (!is_lost, is_lost), "{text}");
    }
}

/// Several links are several causes: none is picked.
#[test]
fn why_with_several_links() {
    let mut story = Story::new();
    story.scan(SECOND, OTHER, 1.0, NO_ALARM);
    story.scan(2 * SECOND, OTHER, 2.0, NO_ALARM);
    story.follow(2 * SECOND + MS, TWO, 3.0, NO_ALARM);
    story.put(14 * SECOND, SP, 1.0, 2.0);
    story.follow(14 * SECOND + MS, TWO, 4.0, NO_ALARM);
    story.links(14 * SECOND + 20 * MS, TWO, &[(INPA, "T:OTHER"), (INPB, "T:SP")]);
    let directory = story.written();
    let text = works(directory.path(), &["why", "T:TWO", "log", "--utc"]);
    for part in [
        "Cause: CP link, source not known\n",
        "It may have been any of these CP links, the latest change first:\n\
         T:TWO.INPB follows T:SP, which changed 996 µs before\n\
         T:TWO.INPA follows T:OTHER, which last changed 12.001 s before: too early for a CP link\n",
        "T:OTHER changed from 1 to 2",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("Begun by"), "{text}");
}

#[test]
fn why_of_records_that_feed_each_other() {
    let mut story = Story::new();
    story.scan(SECOND, ONE_WAY, 0.0, NO_ALARM);
    for n in 1..20 {
        let at = SECOND + n * MS;
        story.follow(at, OTHER_WAY, n as f64, NO_ALARM);
        story.follow(at + 500_000, ONE_WAY, n as f64, NO_ALARM);
    }
    story.links(2 * SECOND, ONE_WAY, &[(INPA, "T:L2")]);
    story.links(2 * SECOND, OTHER_WAY, &[(INPA, "T:L1")]);
    let directory = story.written();
    let text = works(directory.path(), &["why", "T:L1", "log", "--utc"]);
    assert!(text.contains("T:L1.INPA follows T:L2, which changed 499 µs before\n"), "{text}");
    assert!(text.contains("and follows it in turn: they feed each other\n"), "{text}");
    assert!(!text.contains("Begun by") && text.lines().count() < 12, "{text}");
}

/// The recorder noted the links long before.
#[test]
fn why_knows_links_that_were_noted_long_before() {
    let mut story = Story::new();
    story.put(SECOND, SP, 1.0, 2.0);
    story.follow(SECOND + MS, RB, 10.0, NO_ALARM);
    story.follow(SECOND + 2 * MS, TWO, 100.0, NO_ALARM);
    story.links(SECOND + 20 * MS, RB, &[(INPA, "T:SP")]);
    story.links(SECOND + 20 * MS, TWO, &[(INPA, "T:RB")]);
    story.put(1000 * SECOND, SP, 2.0, 3.0);
    story.follow(1000 * SECOND + MS, RB, 11.0, NO_ALARM);
    story.follow(1000 * SECOND + 2 * MS, TWO, 101.0, NO_ALARM);
    let directory = story.written();
    let text = works(directory.path(), &["why", "T:TWO", "log", "--utc"]);
    assert!(text.contains("Begun by: ca_write T:SP 2 -> 3 by alice@console3"), "{text}");
    assert!(text.contains("Cause: CP link T:RB.INPA from T:SP\n") && !text.contains("not known"), "{text}");
}

/// The same numbers in the log of another recorder stand for the records of a former process, which may have had other links.
#[test]
fn why_takes_no_links_of_a_former_process() {
    let directory = tempfile::tempdir().unwrap();
    let first = directory.path().join("first");
    let mut story = Story::new();
    story.put(SECOND, SP, 1.0, 2.0);
    story.follow(SECOND + MS, RB, 10.0, NO_ALARM);
    story.links(SECOND + 20 * MS, RB, &[(INPA, "T:SP")]);
    story.0.sort_by_key(|(time, _)| *time);
    common::write_events_later(&first, "box1", 1, 0, story.0, 2 * SECOND);
    let demo = common::definitions("box1").into_iter().find_map(|fact| match fact {
        Fact::Ioc(ioc) if ioc.id == 1 => Some(ioc),
        _ => None,
    });
    let demo = demo.unwrap();
    for (pid, is_same) in [(demo.pid, true), (555, false)] {
        let mut story = Story::new();
        if !is_same {
            story.tell(0, Fact::from(Ioc { pid, start: 12 * SECOND, ..Ioc::clone(&demo) }));
        }
        story.follow(20 * SECOND, RB, 20.0, NO_ALARM);
        story.0.sort_by_key(|(time, _)| *time);
        let second = pid.to_string();
        common::write_events_later(&directory.path().join(&second), "box1", 2, 60, story.0, 21 * SECOND);
        let (code, text, err) = run(directory.path(), &["why", "T:RB", "first", &second, "--utc"]);
        assert_eq!(code, 0, "{err}");
        let told = ["Cause: CP link T:RB.INPA from T:SP\n", "Cause: CP link, source not known\n"];
        assert_eq!(told.map(|cause| text.contains(cause)), [is_same, !is_same], "{text}");
    }
}

/// A scanned record's inputs are not in the log: what was put meanwhile is no cause.
#[test]
fn why_of_a_scanned_record() {
    let mut story = Story::new();
    story.scan(SECOND, CALC, 1.0, NO_ALARM);
    story.scan(2 * SECOND, CALC, 1.0, NO_ALARM);
    story.put(2 * SECOND + 400 * MS, SP, 1.0, 2.0);
    story.scan(3 * SECOND, CALC, 2.0, NO_ALARM);
    story.scan(4 * SECOND, CALC, 3.0, NO_ALARM);
    let directory = story.written();
    let here = directory.path();
    let text = works(here, &["why", "T:CALC", "log", "--utc", "--at", "2026-09-21T14:13:23.5Z"]);
    for part in [
        "T:CALC changed from 1 to 2 ",
        "Cause: scan .1 second\n",
        "The inputs of T:CALC are not known: ",
        "Since it was last seen to process, 1.000 s before, these puts were made to demo:\n",
        "T:SP 1 -> 2 by alice@console3 10.0.0.5:41001, 600.00 ms before (the same value)\n",
        "Nothing in the log says whether one of them was its cause.\n",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let text = works(here, &["why", "T:CALC", "log", "--utc"]);
    assert!(
        text.contains("No put to demo is recorded since it was last seen to process, 1.000 s before."),
        "{text}"
    );
}

/// What the recorder read tells what was there before the first change, and alarms that nothing showed.
#[test]
fn what_the_recorder_has_read() {
    let mut story = Story::new();
    let mut read = |time, record, v, (severity, status), stamp| {
        let value = Value::Double(v);
        story.tell(time, Fact::Snapshot(Snapshot { record, value, severity, status, stamp }));
    };
    read(SECOND, RB, 5.0, HIHI, Some(1));
    read(SECOND, OTHER, 0.0, (3, 17), None);
    read(SECOND, CALC, 1.0, NO_ALARM, Some(1));
    read(8 * SECOND, CALC, 7.0, HIHI, Some(1));
    story.scan(2 * SECOND, RB, 6.0, NO_ALARM);
    story.scan(3 * SECOND, OTHER, 1.0, NO_ALARM);
    let directory = story.written();
    let here = directory.path();
    let text = works(here, &["why", "T:RB", "log", "--utc"]);
    assert!(text.starts_with("T:RB changed from 5 to 6 at 2026-09-21T14:13:22"), "{text}");
    let text = works(here, &["why", "T:RB", "log", "--utc", "--alarm"]);
    assert!(text.starts_with("T:RB went from MAJOR HIHI to NO_ALARM, value 6"), "{text}");
    let rows = rows(here, &["alarms", "log", "--utc", "--format", "jsonl"]);
    let told: Vec<String> = rows
        .iter()
        .map(|row| keys(row, &["record", "what", "from_severity", "severity", "source", "lasted_s", "cause"]))
        .collect();
    let expected = [
        r#""T:RB" "change" null "MAJOR" "snapshot" 1.000001 null"#,
        r#""T:RB" "change" "MAJOR" "NO_ALARM" "process" null "scan .1 second""#,
        r#""T:CALC" "change" "NO_ALARM" "MAJOR" "snapshot" 0.0 null"#,
        r#""T:CALC" "still" null "MAJOR" "process" 0.0 null"#,
    ];
    assert_eq!(told, expected, "T:OTHER only loses the alarm that all records begin with");
}

#[test]
fn the_last_minute() {
    let directory = plant();
    let here = directory.path();
    let (code, out, err) = run(here, &["last", "log", "--utc"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains(
            "shows demo, pid 100, which ended or was recorded last; there is another process in these logs"
        ),
        "{err}"
    );
    for part in [
        "IOC         demo on box1, pid 100: killed by SIGKILL at 2026-09-21T14:13:50.000+00:00\n",
        "missing     14:13:39.000 to 14:13:40.000: 17 hits lost: ring buffer full\n",
        "unfinished  14:13:49.500 T:SLOW: begun 500.00 ms before the end",
        "puts        14:13:22.000 T:SP 1 -> 2  alice@console3 10.0.0.5:41001\n",
        "1 record was in alarm at the end\n",
        "1 record in alarm when last seen; at the end it is not known\n",
        "clients     alice@console3 10.0.0.5:41001, 2 channels, 3 puts in this time\n",
    ] {
        assert!(out.contains(part), "{part} is not in\n{out}");
    }
    assert!(out.lines().count() <= 40 && out.lines().all(|line| line.chars().count() <= 100), "{out}");
    let json: Json = serde_json::from_str(&works(here, &["last", "demo", "log", "--json", "--utc"])).unwrap();
    assert_eq!(
        keys(&json, &["ioc", "until", "how", "in_alarm", "end"]),
        r#""demo" "ended" "killed by SIGKILL" 1 "2026-09-21T14:13:50.000000000+00:00""#
    );
    let scan =
        json["threads"].as_array().unwrap().iter().find(|thread| thread["thread"] == "scan-0.1").unwrap();
    assert_eq!(keys(scan, &["processed", "record"]), r#"53 "T:SLOW""#);

    let out = works(here, &["last", "second", "log", "--utc"]);
    assert!(out.starts_with("IOC         second on box1, pid 200: still ran when the log ends, at"), "{out}");
    let out = works(here, &["last", "demo", "log", "--utc", "--until", "2026-09-21T14:13:23Z"]);
    assert!(out.contains("until 2026-09-21T14:13:23.000+00:00, as asked for"), "{out}");
    assert!(out.contains("1 record was in alarm at the end") && !out.contains("unfinished  14"), "{out}");
    let (code, out, err) = run(here, &["last", "nobody", "log"]);
    assert_eq!((code, out.as_str()), (0, ""));
    assert!(err.contains("no IOC matches 'nobody'; these logs have demo, second"), "{err}");
    let (code, _, err) = run(here, &["last", "log", "demo"]);
    assert_eq!(code, 2, "{err}");
}

#[test]
fn clients_and_what_they_did() {
    let directory = tempfile::tempdir().unwrap();
    common::write_log(&directory.path().join("log"), "box1", 7);
    let here = directory.path();
    let (code, out, err) = run(here, &["clients", "log", "--utc", "--format", "jsonl"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let rows: Vec<Json> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 2);
    let alice = rows.iter().find(|row| row["user"] == "alice").unwrap();
    assert_eq!(
        keys(
            alice,
            &["client", "ioc", "client_host", "channels", "puts", "denied", "last_pv", "most_written"]
        ),
        r#""10.0.0.5:41001" "demo" "console3" 2 3 1 "T:CALC.A" [["T:SP",2],["T:CALC.A",1]]"#
    );
    assert_eq!(keys(alice, &["state", "channel_names"]), r#""open" ["T:CALC.A","T:SP"]"#);
    let text = works(here, &["clients", "log", "--utc", "--user", "alice", "--channels"]);
    assert!(text.contains("  2 channels, 3 puts, 1 denied"), "{text}");
    assert!(text.contains("wrote T:SP 2x, T:CALC.A 1x; last T:CALC.A at 2026-09-21T14:13:22.100"), "{text}");
    assert!(text.ends_with("    channels  T:CALC.A T:SP\n"), "{text}");
    // Only puts of the time asked for.
    let since =
        ["clients", "log", "--utc", "--client", "10.0.0.5:41001", "--since", "2026-09-21T14:13:22.05Z"];
    assert!(works(here, &since).contains("2 channels, 1 put, 1 denied"), "{}", works(here, &since));
    let (code, out, err) = run(here, &["clients", "log", "--user", "nobody"]);
    assert_eq!((code, out.as_str()), (0, ""));
    assert!(err.contains("no user matches 'nobody'; these logs have alice, softioc"), "{err}");
    let csv = works(here, &["clients", "log", "--format", "csv"]);
    assert!(csv.starts_with("host,ioc,client,server,user,client_host,"), "{csv}");
}

/// A circuit that was closed and one that was never seen to be opened.
#[test]
fn clients_that_come_and_go() {
    let mut story = Story::new();
    let circuit = |id: u32, origin| {
        Fact::from(Circuit {
            id,
            client: Address { ip: 0x0a00_0007, port: 50_000 + id as u16 },
            server: Address { ip: 0x0a00_0009, port: 5064 },
            user: "visitor".into(),
            host: String::new(),
            minor: 13,
            origin,
        })
    };
    story.tell(2 * SECOND, circuit(8, Origin::Opened));
    story.tell(2 * SECOND, circuit(9, Origin::Memory));
    story.tell(3 * SECOND, Fact::CircuitEnd(8));
    let directory = story.written();
    let text = works(directory.path(), &["clients", "log", "--utc", "--user", "visitor"]);
    let lines: Vec<&str> = text.lines().collect();
    let came = lines.iter().find(|line| line.contains("50008")).unwrap();
    let before = lines.iter().find(|line| line.contains("50009")).unwrap();
    assert!(
        came.contains("visitor@?")
            && came.contains("from 2026-09-21T14:13:22.000+00:00 to 2026-09-21T14:13:23.000"),
        "{came}"
    );
    assert!(
        before.contains("before 2026-09-21T14:13:22.000+00:00 still connected when its recording ended, "),
        "{before}"
    );
}

/// Two processes of one name and port, one after the other. The second one's circuit was too short-lived for the recorder
/// to see whose socket it was.
#[test]
fn clients_of_a_restarted_ioc() {
    let mut story = Story::new();
    story.put(2 * SECOND, 1, 1.0, 2.0);
    story.tell(3 * SECOND, Fact::IocEnd(IocEnd { ioc: 1, how: "killed by SIGKILL".into() }));
    let Some(Fact::Ioc(first)) = common::definitions("box1").into_iter().find(|f| matches!(f, Fact::Ioc(_)))
    else {
        panic!("an IOC")
    };
    story.tell(4 * SECOND, Fact::from(Ioc { id: 9, pid: 900, start: 4 * SECOND, ..*first }));
    let thread = Thread { id: 90, ioc: 9, tid: 1090, name: "CAS-client".into(), stack: 1 << 40 };
    story.tell(4 * SECOND, Fact::Thread(thread));
    let (name, rtype) = ("T:SP".into(), "ao".into());
    story.tell(4 * SECOND, Fact::from(Record { id: 91, ioc: 9, address: 4096, name, rtype }));
    let client = Address { ip: 0x0a00_0007, port: 50_010 };
    let server = Address { ip: 0x0a00_0009, port: 5064 };
    let (user, host, origin) = ("visitor".into(), "there".into(), Origin::Opened);
    story.tell(5 * SECOND, Fact::from(Circuit { id: 10, client, server, user, host, minor: 13, origin }));
    let (cid, sid, dbr, count) = (Some(1), Some(1), Some(6), Some(1));
    let channel =
        Channel { id: 10, circuit: 10, cid, sid, pv: "T:SP".into(), dbr, count, origin: Origin::Opened };
    story.tell(5 * SECOND, Fact::from(channel));
    let ends = CircuitEnds { circuit: 10, namespace: 7, server: None, client: None };
    story.tell(5 * SECOND, Fact::CircuitEnds(ends));
    story.tell(5 * SECOND + MS, ca_put(10, 10, false, 1, 3.0));
    story.tell(5 * SECOND + 2 * MS, put(PutKind::PutField, 90, -1000, 1, (91, 1), 1.0, 3.0));
    story.tell(6 * SECOND, Fact::IocEnd(IocEnd { ioc: 9, how: "exit status 0".into() }));
    let directory = story.written();
    let row = rows(directory.path(), &["clients", "log", "--user", "visitor", "--format", "jsonl"]);
    assert_eq!(keys(&row[0], &["ioc", "state", "puts"]), r#""demo" "ioc_ended" 1"#, "{row:?}");
    let (_, last, _) = run(directory.path(), &["last", "demo", "log", "--utc"]);
    assert!(last.contains("demo on box1, pid 900"), "{last}");
    assert!(last.contains("clients     visitor@there 10.0.0.7:50010, 1 channel, 1 put"), "{last}");
    assert!(
        !last.contains("alice@console3 10.0.0.5:41001, "),
        "she was connected to the process before: {last}"
    );
}

/// The clock was set by an hour while it was recorded.
#[test]
fn an_ioc_that_ran_while_the_clock_was_set() {
    for (hours, ends) in [(1, true), (-1, true), (1, false)] {
        let mut story = Story::new();
        let wall = WALL + hours * 3_600_000_000_000 + 4 * SECOND as i64;
        story.tell(4 * SECOND, Fact::Clock(Clock { wall }));
        story.tell(6 * SECOND, Fact::Mark(String::new()));
        if ends {
            story.tell(6 * SECOND, Fact::IocEnd(IocEnd { ioc: 1, how: "exit status 0".into() }));
        }
        let directory = story.written();
        let (_, last, _) = run(directory.path(), &["last", "demo", "log", "--utc"]);
        assert!(last.contains("it had run for 5.000 s; "), "{last}");
        let (_, out, _) = run(directory.path(), &["last", "demo", "log", "--json"]);
        let row: Json = serde_json::from_str(&out).unwrap();
        assert_eq!(row["uptime_s"], 5.0, "{row}");
    }
}

/// Its end was seen seconds later, so how long it ran is not known either.
#[test]
fn an_ioc_whose_end_was_seen_late() {
    let mut story = Story::new();
    let how = "exit status 9 (up to 3.0 s before this was seen)".to_owned();
    story.tell(6 * SECOND, Fact::IocEnd(IocEnd { ioc: 1, how }));
    let (_, last, _) = run(story.written().path(), &["last", "demo", "log", "--utc"]);
    assert!(last.contains("it had run for at most 5.000 s; "), "{last}");
    assert!(last.contains("(up to 3.0 s before this was seen)"), "{last}");
}

/// In the packet tier nobody knows what records do, and the log is older than the IOC.
#[test]
fn the_last_minute_by_packets_alone() {
    let mut story = Story::new();
    story.tell(1, Fact::Tier(TierChoice { tier: Tier::Packet, refused: vec![] }));
    story.tell(2 * SECOND, ca_put(1, 1, false, 1, 3.0));
    story.tell(6 * SECOND, Fact::IocEnd(IocEnd { ioc: 1, how: "exit status 0".into() }));
    let (_, last, _) = run(story.written().path(), &["last", "demo", "log", "--utc"]);
    assert!(last.contains("it had run for 5.000 s; only its last 5.000 s are recorded"), "{last}");
    assert!(last.contains("processing and alarms: packets do not show them"), "{last}");
    assert!(last.contains("alarms      not known: recorded from packets alone"), "{last}");
    assert!(!last.contains("nothing is known to be missing"), "{last}");
}

/// A client that comes for one put, as caput does, after which next to nothing happens for minutes: all of that is read
/// at once, and the put keeps its name.
#[test]
fn a_put_before_a_quiet_time() {
    let mut story = Story::new();
    let client = Address { ip: 0x0a00_0007, port: 50_010 };
    let server = Address { ip: 0x0a00_0009, port: 5064 };
    let (user, host, origin) = ("visitor".into(), "there".into(), Origin::Opened);
    story.tell(2 * SECOND, Fact::from(Circuit { id: 10, client, server, user, host, minor: 13, origin }));
    let (cid, sid, dbr, count) = (Some(1), Some(1), Some(6), Some(1));
    let (pv, origin) = ("T:SP".into(), Origin::Opened);
    story.tell(2 * SECOND, Fact::from(Channel { id: 10, circuit: 10, cid, sid, pv, dbr, count, origin }));
    story.tell(2 * SECOND + MS, ca_put(10, 10, false, 1, 3.0));
    story.tell(3 * SECOND, Fact::CircuitEnd(10));
    for second in 3..300 {
        story.tell(second * SECOND + MS, Fact::Mark(String::new()));
    }
    let directory = story.written();
    let text = works(directory.path(), &["puts", "log", "--utc"]);
    assert!(text.contains("visitor@there 10.0.0.7:50010"), "{text}");
}

/// A put whose circuit was closed at once, after which nothing happened for an hour, keeps its name.
#[test]
fn a_put_before_a_long_silence() {
    let mut story = Story::new();
    for (number, time) in [(8u32, 2 * SECOND), (9, 3602 * SECOND)] {
        let address = |ip, port| Address { ip, port };
        story.tell(
            time,
            Fact::from(Circuit {
                id: number,
                client: address(0x0a00_0007, 50_000 + number as u16),
                server: address(0x0a00_0009, 5064),
                user: "visitor".into(),
                host: String::new(),
                minor: 13,
                origin: Origin::Opened,
            }),
        );
        let (id, circuit, pv) = (number, number, format!("T:SILENT{number}"));
        let (cid, sid, dbr, count) = (Some(1), Some(1), Some(6), Some(1));
        story.tell(
            time,
            Fact::from(Channel { id, circuit, cid, sid, pv, dbr, count, origin: Origin::Opened }),
        );
        let (dbr, payload) = (6, 1.5f64.to_be_bytes().to_vec());
        let (notify, ioid, length) = (false, 1, 8);
        let put = CaPut { circuit, channel: number, notify, dbr, count: 1, ioid, length, payload };
        story.tell(time + 1000, Fact::CaPut(put));
        story.tell(time + 2000, Fact::ChannelEnd(number));
        story.tell(time + 3000, Fact::CircuitEnd(number));
    }
    let directory = story.written();
    let text = works(directory.path(), &["puts", "log", "--utc", "--user", "visitor"]);
    assert!(text.contains("T:SILENT8") && text.contains("T:SILENT9"), "{text}");
}

/// The answers go to a pipe that closes, and to nobody.
#[test]
fn quiet_where_nobody_listens() {
    let directory = plant();
    let output =
        iocreplay(["alarms", "log", "-o", "alarms.txt"]).current_dir(directory.path()).output().unwrap();
    assert_eq!(outcome(output).0, 0);
    assert!(std::fs::read_to_string(directory.path().join("alarms.txt")).unwrap().contains("T:RB"));
}

/// `top` counts what processed: also records that were not seen to complete, as a motor record that moves its motor. Not
/// those that were disabled, nor the second entry of a record that goes on.
#[test]
fn top_counts_what_processed() {
    let mut story = Story::new();
    let routine =
        |active| Fact::RsetProcess(Process { thread: CLIENT, sp: -100, site: 0, record: SLOW, active });
    for second in 1..4 {
        story.tell(second * SECOND, process(SCAN, -100, 2, SP));
        story.tell(second * SECOND + 2 * MS, process(SCAN, -100, 2, CALC));
        let disabled = PactCheck { record: CALC, active: false, disabled: true };
        if second != 2 {
            story.tell(second * SECOND + 500 * MS, Fact::PactCheck(disabled));
        }
        story.tell(second * SECOND + 600 * MS, routine(false));
        story.tell(second * SECOND + 900 * MS, routine(true));
    }
    story.tell(9 * SECOND, Fact::Mark("later".into()));
    let log = story.written();
    let (_, out, err) = run(log.path(), &["top", "log", "--by", "records", "--format", "jsonl"]);
    let rows: Vec<Json> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rows: Vec<(&Json, &Json, &Json)> =
        rows.iter().map(|row| (&row["name"], &row["count"], &row["untimed"])).collect();
    let three = Json::from(3);
    let [slow, motor] = ["T:SLOW", "T:SP"].map(Json::from);
    assert_eq!(rows, [(&slow, &three, &three), (&motor, &three, &three)], "{err}");
}

/// As the put log and the values do, it names the states of a record.
#[test]
fn why_names_states() {
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plant/log");
    let here = tempfile::tempdir().unwrap();
    let (code, text, err) = run(here.path(), &["why", "LI:VALVE", log]);
    assert_eq!(code, 0, "{err}");
    assert!(text.starts_with("LI:VALVE changed from 1 \"Open\" to 0 \"Closed\" at "), "{text}");
    let (code, text, err) = run(here.path(), &["why", "--alarm", "LI:VALVE", log]);
    assert_eq!(code, 0, "{err}");
    assert!(
        text.starts_with("LI:VALVE went from MINOR STATE to NO_ALARM, value 0 \"Closed\", at "),
        "{text}"
    );
}
