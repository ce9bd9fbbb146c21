//! Values over time and at a time: what is known, what is in doubt, and what is not known.

mod common;

use common::{
    ca_put, complete, definitions, happenings, overtaken, process, put, run, write_defined, write_events,
    CLIENT, MS, SCAN, SECOND, WALL,
};
use iocrec_log::event::*;
use iocreplay::model::value::same;
use iocreplay::states::state::FieldState;
use iocreplay::{states, Entry, Filter, Logs, ValueLine};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A directory with a log of these events.
fn log_of(events: Vec<(u64, Fact)>) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    write_events(directory.path(), "box1", 7, events);
    directory
}

fn wall(time: u64) -> i64 {
    WALL + time as i64
}

/// What is known of a PV at a monotonic time: its value, and why it is in doubt or unknown.
fn at(directory: &Path, pv: &str, time: u64) -> (Value, Option<String>) {
    let found = fields(directory, wall(time)).into_iter().find(|field| field.pv() == pv);
    found.map_or((Value::Unknown, None), |field| (field.value(), field.doubt.as_deref().map(str::to_owned)))
}

fn fields(directory: &Path, time: i64) -> Vec<FieldState> {
    let (logs, filter) = (Logs::open([directory]).unwrap(), Filter::default());
    states::at(&logs, &filter, time).into_fields(&filter)
}

fn processed(time: u64, record: u32, v: f64) -> [(u64, Fact); 2] {
    processed_by(3, time, record, v)
}

fn processed_by(thread: u32, time: u64, record: u32, v: f64) -> [(u64, Fact); 2] {
    let (sp, site, value) = (-100, 2, Value::Double(v));
    let begun = Process { thread, sp, site, record, active: false };
    let done = Complete { thread, sp: sp - 100, site: 0, record, value, severity: 0, status: 0 };
    [(time, Fact::Process(begun)), (time + 1000, Fact::Complete(done))]
}

fn snapshot(time: u64, record: u32, v: f64) -> (u64, Fact) {
    let value = Value::Double(v);
    (time, Fact::Snapshot(Snapshot { record, value, severity: 1, status: 4, stamp: Some(wall(time) - 5) }))
}

fn attached(time: u64, from: u64, cause: &str) -> (u64, Fact) {
    (time, Fact::Attached(Attached { ioc: 1, from, since: time, cause: cause.into() }))
}

#[test]
fn a_loss_puts_in_doubt_what_was_seen_before_it() {
    let log = log_of(happenings()); // 17 hits lost between 3 s and 4 s
    let log = log.path();
    let doubt = Some("may have changed since: 17 events lost: ring buffer full".to_owned());
    assert_eq!(at(log, "T:SP", 2500 * MS), (Value::Double(2.0), None));
    assert_eq!(at(log, "T:SP", 3000 * MS - 1), (Value::Double(2.0), None));
    // noted at 4 s, but it may have been lost before
    assert_eq!(at(log, "T:SP", 3200 * MS), (Value::Double(2.0), doubt.clone()));
    assert_eq!(at(log, "T:CALC", 3450 * MS), (Value::Double(20.0), doubt.clone()));
    // a denied put changes nothing, and shows nothing
    assert_eq!(at(log, "T:CALC.A", 2500 * MS), (Value::Double(2.0), None));
    assert_eq!(at(log, "T:SP", 500 * MS), (Value::Unknown, Some("it was not seen before".into())));
}

#[test]
fn a_value_seen_after_a_loss_is_certain_again() {
    let mut events = happenings();
    events.extend(processed(5 * SECOND, 2, 21.0));
    events.push((9 * SECOND, Fact::Mark("later".into())));
    let log = log_of(events);
    assert_eq!(at(log.path(), "T:CALC", 6 * SECOND), (Value::Double(21.0), None));
    assert!(at(log.path(), "T:SP", 6 * SECOND).1.is_some());
}

#[test]
fn the_values_of_an_ioc_end_with_it() {
    let mut events = happenings();
    events.push((6 * SECOND, Fact::IocEnd(IocEnd { ioc: 1, how: "killed by SIGKILL".into() })));
    events.push((9 * SECOND, Fact::Mark("later".into())));
    let log = log_of(events);
    assert_eq!(at(log.path(), "T:SP", 6 * SECOND - 1).0, Value::Double(2.0));
    let gone = (Value::Unknown, Some("the IOC has ended: killed by SIGKILL".to_owned()));
    assert_eq!(at(log.path(), "T:SP", 6 * SECOND), gone);
    assert_eq!(at(log.path(), "R:FAR", 7 * SECOND).0, Value::Double(2.0), "the other IOC's remain");
}

#[test]
fn a_snapshot_shows_records_that_never_processed() {
    let mut events = vec![snapshot(100 * MS, 3, 7.5), snapshot(100 * MS, 1, 1.0)];
    events.extend(happenings());
    // after the loss: what is still there is certain again, what is not has changed unseen
    events.extend([snapshot(5 * SECOND, 1, 2.0), snapshot(5 * SECOND, 2, 33.0)]);
    let log = log_of(events);
    let log = log.path();
    assert_eq!(at(log, "T:SLOW", SECOND), (Value::Double(7.5), None));
    assert_eq!(at(log, "T:SP", 6 * SECOND - 1).0, Value::Double(2.0));
    let filter = Filter::default();
    let lines: Vec<ValueLine> = Logs::open([log]).unwrap().values(&filter).collect();
    let read = |pv: &str| -> Vec<Value> {
        let read = lines.iter().filter(|line| line.pv() == pv && line.source.name() == "snapshot");
        read.map(|line| line.value.clone()).collect()
    };
    assert_eq!(read("T:SP"), [Value::Double(1.0), Value::Double(2.0)], "with another alarm it is news");
    assert_eq!(read("T:CALC"), [Value::Double(33.0)]);
    let slow = fields(log, wall(5 * SECOND)).into_iter().find(|field| field.pv() == "T:CALC").unwrap();
    let seen = slow.seen.as_ref().unwrap();
    assert_eq!(
        (slow.value(), &slow.doubt, seen.set(), seen.alarm),
        (Value::Double(33.0), &None, None, Some((1, 4)))
    );
}

#[test]
fn chains_that_were_left_out_put_their_record_in_doubt() {
    let mut events = happenings();
    events.push((5 * SECOND, Fact::ChainsLeftOut(ChainsLeftOut { record: 2, count: 3, since: 4500 * MS })));
    events.extend([snapshot(4100 * MS, 1, 2.0), snapshot(4100 * MS, 2, 20.0)]);
    events.push((9 * SECOND, Fact::Mark("later".into())));
    events.sort_by_key(|(time, _)| *time);
    let log = log_of(events);
    assert_eq!(at(log.path(), "T:CALC", 4200 * MS), (Value::Double(20.0), None));
    let (value, doubt) = at(log.path(), "T:CALC", 6 * SECOND);
    assert_eq!(value, Value::Double(20.0));
    assert_eq!(
        doubt.as_deref(),
        Some("may have changed since: 3 chains of T:CALC left out by chain sampling")
    );
    assert_eq!(at(log.path(), "T:SP", 6 * SECOND), (Value::Double(2.0), None));
}

/// Chains of two records: sampling leaves out some of the one, after the last that was kept is one of the other.
#[test]
fn chains_that_were_left_out_put_all_in_doubt_that_was_seen_in_them() {
    let (sampled, root, other, follower) =
        (ChainSampling { chains: 1, window: SECOND, cause: "--thin".into() }, 3, 1, 2);
    let mut events = vec![attached(1, 0, ""), (2, Fact::ChainSampling(sampled))];
    let mut chain = |time: u64, root: u32, v: f64, severity: u16| {
        let done = |record, sp| {
            Fact::Complete(Complete {
                thread: 3,
                sp,
                site: 0,
                record,
                value: Value::Double(v),
                severity,
                status: 0,
            })
        };
        let begun = |record, sp, site| Fact::Process(Process { thread: 3, sp, site, record, active: false });
        events.push((time, begun(root, -100, 2)));
        events.push((time + 1000, begun(follower, -300, 0)));
        events.push((time + 2000, done(follower, -400)));
        events.push((time + 3000, done(root, -200)));
    };
    chain(SECOND, root, 1.0, 0);
    chain(2 * SECOND, other, 2.0, 2);
    chain(7 * SECOND, other, 3.0, 0);
    events
        .push((4 * SECOND, Fact::ChainsLeftOut(ChainsLeftOut { record: root, count: 2, since: 2500 * MS })));
    events.push((9 * SECOND, Fact::Mark("later".into())));
    events.sort_by_key(|(time, _)| *time);
    let log = log_of(events);
    let log = log.path();
    let doubt = Some("may have changed since: 2 chains of T:SLOW left out by chain sampling".to_owned());
    assert_eq!(at(log, "T:CALC", 2400 * MS), (Value::Double(2.0), None));
    assert_eq!(at(log, "T:CALC", 2600 * MS), (Value::Double(2.0), doubt.clone()));
    assert_eq!(at(log, "T:CALC", 6 * SECOND), (Value::Double(2.0), doubt));
    assert_eq!(at(log, "T:SP", 6 * SECOND), (Value::Double(2.0), None), "it begins chains of its own only");
    assert_eq!(at(log, "T:CALC", 8 * SECOND), (Value::Double(3.0), None));

    let values = run(log, &["values", "T:CALC", "."]).1;
    assert!(values.contains("left out"), "{values}");
    let values = run(log, &["values", "T:SP", "."]).1;
    assert!(!values.contains("left out"), "{values}");
    let alarms = |pv| run(log, &["alarms", ".", "--pv", pv]).1;
    assert!(alarms("T:CALC").contains("2 chains left out by chain sampling"), "{}", alarms("T:CALC"));
    assert!(!alarms("T:SP").contains("left out"), "{}", alarms("T:SP"));
    let why = |pv| run(log, &["why", pv, "."]).1;
    assert!(why("T:CALC").contains("chains that begin with T:SLOW: 2"), "{}", why("T:CALC"));
    assert!(!why("T:SP").contains("left out"), "{}", why("T:SP"));
    let last = run(log, &["last", ".", "--ioc", "demo", "--utc", "--until", "2026-09-21T14:13:23Z"]);
    assert!(last.1.contains("chain sampling leaves out chains"), "{last:?}");
}

/// A busy record, recorded by packets alone: it holds what was put from then on, and no more when the put is answered.
#[test]
fn a_put_that_packets_alone_show_has_written_when_it_came() {
    let answer = CaAnswer { circuit: 1, ioid: 9, notify: true, status: 1, text: String::new() };
    let log = log_of(vec![(SECOND, ca_put(1, 1, true, 9, 5.0)), (4 * SECOND, Fact::CaAnswer(answer))]);
    let (code, out, err) = run(log.path(), &["values", "T:SP", ".", "--utc"]);
    assert_eq!((code, out.lines().count()), (0, 1), "{out}{err}");
    let head = "2026-09-21T14:13:21.000000+00:00  T:SP";
    assert!(out.starts_with(head) && out.contains(" 5 (not certain)"), "{out}");
    assert_eq!(at(log.path(), "T:SP", 2 * SECOND).0, Value::Double(5.0));
}

/// The hit of `dbPut` is missing, that of `dbProcessNotify` is there. The CA server answers that all is well only if it was written.
#[test]
fn a_put_that_the_server_answered_has_written() {
    let answer = CaAnswer { circuit: 1, ioid: 9, notify: true, status: 1, text: String::new() };
    let log = log_of(vec![
        (SECOND, ca_put(1, 1, true, 9, 5.0)),
        (SECOND + MS, put(PutKind::Notify, CLIENT, -900, 3, (1, 1), 0.0, 0.0)),
        (SECOND + 3 * MS, Fact::CaAnswer(answer)),
        (9 * SECOND, Fact::Mark("end".into())),
    ]);
    assert_eq!(at(log.path(), "T:SP", 8 * SECOND).0, Value::Double(5.0));
}

/// Bob's put was requested later than Alice's, and carried out earlier. What other records did meanwhile stands where it
/// belongs in time.
#[test]
fn rows_are_in_order_where_a_put_waits() {
    let mut events = overtaken();
    // the asynchronous record has its value while both puts wait
    events.push((900 * MS, process(SCAN, -100, 2, 3)));
    let kind = CauseKind::CallbackRequestProcessDelayed;
    let asks = Cause { thread: SCAN, sp: -200, site: 0, kind, object: 7, record: Some(3) };
    events.push((900 * MS + 1000, Fact::Cause(asks)));
    events.extend(processed(1050 * MS, 2, 1.0));
    events.push((1080 * MS, complete(4, -300, 3, 7.0, 0)));
    events.sort_by_key(|(time, _)| *time);
    let log = log_of(events);
    let (code, out, err) = run(log.path(), &["values", "T:CALC", "T:SLOW", "T:SP", ".", "--utc"]);
    assert_eq!(code, 0, "{err}");
    let order: Vec<&str> = ["T:CALC", "T:SLOW", "T:SP"].into_iter().filter(|pv| out.contains(pv)).collect();
    assert_eq!(order.len(), 3, "{out}");
    let times: Vec<&str> = out.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(times.len() > 3 && times.is_sorted(), "{out}");
}

/// Another recorder ran beside the first for a while. What the first one lost after that was seen by nobody.
#[test]
fn a_loss_counts_once_the_other_recorder_has_ended() {
    let place = tempfile::tempdir().unwrap();
    let [first, beside] = ["first", "other"].map(|name| place.path().join(name));
    let (source, cause) = (LossSource::Hits, "ring buffer full".to_owned());
    let mut events = vec![attached(100 * MS, 0, "")];
    events.extend(processed(SECOND, 2, 1.0).into_iter().chain(processed(40 * SECOND, 2, 2.0)));
    events.push((51 * SECOND, Fact::Loss(Loss { source, count: 17, since: 50 * SECOND, cause })));
    events.push((70 * SECOND, Fact::Mark("end".into())));
    write_events(&first, "box1", 7, events);
    let mut events = vec![attached(100 * MS, 0, "")];
    events.extend(processed(2 * SECOND, 2, 1.5));
    events.push((20 * SECOND, Fact::Mark("end".into())));
    write_events(&beside, "box1", 8, events);
    let doubt = "may have changed since: 17 events lost: ring buffer full";
    assert_eq!(at(place.path(), "T:CALC", 45 * SECOND), (Value::Double(2.0), None));
    assert_eq!(at(place.path(), "T:CALC", 60 * SECOND), (Value::Double(2.0), Some(doubt.to_owned())));
}

/// Another recorder comes while the first goes on: it saw nothing of what the first had lost before that, and of a loss
/// that was not over by then only the rest.
#[test]
fn a_loss_before_the_other_recorder_came_still_counts() {
    let place = tempfile::tempdir().unwrap();
    let [first, beside] = ["first", "other"].map(|name| place.path().join(name));
    let loss = |since, time| {
        let (source, cause) = (LossSource::Hits, "ring buffer full".to_owned());
        (time, Fact::Loss(Loss { source, count: 17, since, cause }))
    };
    let mut events = vec![attached(100 * MS, 0, "")];
    events.extend(processed(SECOND, 2, 1.0));
    events.push(loss(3 * SECOND, 4 * SECOND));
    events.extend(processed(20 * SECOND, 2, 2.0));
    events.push(loss(29 * SECOND, 31 * SECOND));
    events.extend(processed(40 * SECOND, 2, 3.0));
    events.push(loss(41 * SECOND, 42 * SECOND));
    events.push((70 * SECOND, Fact::Mark("end".into())));
    write_events(&first, "box1", 7, events);
    // its log names the IOC from the start, and it is attached to it later
    let later = vec![attached(30 * SECOND, SECOND, ""), (70 * SECOND, Fact::Mark("end".into()))];
    write_events(&beside, "box1", 8, later);
    let doubt = Some("may have changed since: 17 events lost: ring buffer full".to_owned());
    assert_eq!(at(place.path(), "T:CALC", 10 * SECOND), (Value::Double(1.0), doubt.clone()));
    assert_eq!(at(place.path(), "T:CALC", 25 * SECOND), (Value::Double(2.0), None));
    assert_eq!(at(place.path(), "T:CALC", 35 * SECOND), (Value::Double(2.0), doubt));
    assert_eq!(at(place.path(), "T:CALC", 50 * SECOND), (Value::Double(3.0), None), "the other one saw it");
}

/// A recorder beside the first that leaves out processing has seen nothing of what the first one lost.
#[test]
fn a_loss_counts_where_the_other_recorder_leaves_out_processing() {
    let place = tempfile::tempdir().unwrap();
    let [first, beside] = ["first", "other"].map(|name| place.path().join(name));
    let (source, cause) = (LossSource::Hits, "ring buffer full".to_owned());
    let mut events = vec![attached(100 * MS, 0, "")];
    events.extend(processed(40 * SECOND, 2, 3.0));
    events.push((42 * SECOND, Fact::Loss(Loss { source, count: 17, since: 41 * SECOND, cause })));
    events.push((70 * SECOND, Fact::Mark("end".into())));
    write_events(&first, "box1", 7, events);
    let demo = definitions("box1").into_iter().find_map(|fact| match fact {
        Fact::Ioc(ioc) if ioc.id == 1 => Some(*ioc),
        _ => None,
    });
    let without = Ioc { not_probed: vec![NO_PROCESSING.to_owned()], ..demo.unwrap() };
    let mut events = vec![(SECOND, Fact::from(without)), attached(30 * SECOND, SECOND, "")];
    events.push((70 * SECOND, Fact::Mark("end".into())));
    write_events(&beside, "box1", 8, events);
    let doubt = Some("may have changed since: 17 events lost: ring buffer full".to_owned());
    assert_eq!(at(place.path(), "T:CALC", 50 * SECOND), (Value::Double(3.0), doubt));
}

/// Writes a log of a recorder that was told to leave out T:CALC.
fn write_without_calc(directory: &Path, events: Vec<(u64, Fact)>) {
    let is_left_out = |fact: &Fact| matches!(fact, Fact::Record(record) if record.name == "T:CALC");
    let definitions = definitions("box1").into_iter().filter(|fact| !is_left_out(fact)).collect();
    write_defined(directory, definitions, 8, events, 0);
}

/// A recorder beside the first that was told to record some records only has seen nothing of what the first one lost of
/// others.
#[test]
fn a_loss_counts_for_records_that_the_other_recorder_leaves_out() {
    let place = tempfile::tempdir().unwrap();
    let (source, cause) = (LossSource::Hits, "ring buffer full".to_owned());
    let mut events = vec![attached(100 * MS, 0, "")];
    events.extend(processed(SECOND, 1, 4.0));
    events.extend(processed(39 * SECOND, 1, 5.0).into_iter().chain(processed(40 * SECOND, 2, 3.0)));
    events.push((42 * SECOND, Fact::Loss(Loss { source, count: 17, since: 41 * SECOND, cause })));
    events.extend(processed(55 * SECOND, 2, 4.0));
    events.push((70 * SECOND, Fact::Mark("end".into())));
    write_events(&place.path().join("first"), "box1", 7, events);
    let later = vec![attached(30 * SECOND, SECOND, ""), (70 * SECOND, Fact::Mark("end".into()))];
    write_without_calc(&place.path().join("other"), later);
    let doubt = Some("may have changed since: 17 events lost: ring buffer full".to_owned());
    assert_eq!(at(place.path(), "T:SP", 50 * SECOND), (Value::Double(5.0), None), "the other one saw it");
    assert_eq!(at(place.path(), "T:CALC", 50 * SECOND), (Value::Double(3.0), doubt));
    assert_eq!(at(place.path(), "T:CALC", 60 * SECOND), (Value::Double(4.0), None), "seen since");
    let (_, out, _) = run(place.path(), &["values", "T:CALC", ".", "--utc"]);
    assert!(out.contains("17 events lost"), "{out}");
}

/// Of three recorders one lost hits, one leaves the record out, and one saw it.
#[test]
fn what_any_other_recorder_saw_is_certain() {
    let loss = |since, time| {
        let (source, cause) = (LossSource::Hits, "ring buffer full".to_owned());
        (time, Fact::Loss(Loss { source, count: 17, since, cause }))
    };
    let end = || (70 * SECOND, Fact::Mark("end".into()));
    let place = tempfile::tempdir().unwrap();
    let mut events = vec![attached(100 * MS, 0, "")];
    events.extend(processed(40 * SECOND, 2, 3.0));
    events.extend([loss(41 * SECOND, 42 * SECOND), end()]);
    write_events(&place.path().join("first"), "box1", 7, events);
    write_events(&place.path().join("second"), "box1", 9, vec![attached(20 * SECOND, SECOND, ""), end()]);
    write_without_calc(&place.path().join("third"), vec![attached(30 * SECOND, SECOND, ""), end()]);
    assert_eq!(at(place.path(), "T:CALC", 50 * SECOND), (Value::Double(3.0), None));
}

/// The recorder that came last loses hits, and the one beside it saw all. What both lost at once nobody saw.
#[test]
fn what_the_last_recorder_lost_another_one_saw() {
    let loss = |since, time| {
        let (source, cause) = (LossSource::Hits, "ring buffer full".to_owned());
        (time, Fact::Loss(Loss { source, count: 17, since, cause }))
    };
    let end = || (70 * SECOND, Fact::Mark("end".into()));
    let doubt = "may have changed since: 17 events lost: ring buffer full".to_owned();
    for (both, doubt) in [(false, None), (true, Some(doubt))] {
        let place = tempfile::tempdir().unwrap();
        let mut events = vec![attached(100 * MS, 0, "")];
        events.extend(processed(40 * SECOND, 2, 3.0));
        if both {
            events.push(loss(40_500 * MS, 41_500 * MS));
        }
        events.push(end());
        write_events(&place.path().join("first"), "box1", 7, events);
        let events = vec![attached(30 * SECOND, SECOND, ""), loss(41 * SECOND, 42 * SECOND), end()];
        write_events(&place.path().join("last"), "box1", 8, events);
        assert_eq!(at(place.path(), "T:CALC", 50 * SECOND), (Value::Double(3.0), doubt), "{both}");
    }
}

/// The first block of a log tells when its recorder was attached, and of hits from long after. What another one saw in between comes
/// after the one and before the others.
#[test]
fn entries_of_two_recorders_come_in_order() {
    let place = tempfile::tempdir().unwrap();
    let mut events = vec![attached(100 * MS, 0, "")];
    for second in 1..20 {
        events.extend(processed(second * SECOND, 2, second as f64));
    }
    write_events(&place.path().join("first"), "box1", 7, events);
    let mut events = vec![attached(200 * MS, SECOND, "")];
    events.extend(processed(30 * SECOND, 2, 0.5));
    write_events(&place.path().join("other"), "box1", 8, events);
    let (logs, filter) = (Logs::open([place.path()]).unwrap(), Filter::default());
    let is_unseen = |entry: &Entry| matches!(entry, Entry::Value(line) if line.unseen.is_some());
    let entries = logs.history(&filter).filter(|entry| !is_unseen(entry));
    let times: Vec<i64> = entries.map(|entry| entry.time()).collect();
    assert!(times.len() > 20 && times.is_sorted(), "{times:?}");
}

/// What one recorder lost is no reason for doubt in `why` where another one saw it: one that records the record, and lost nothing
/// itself then.
#[test]
fn why_knows_what_another_recorder_saw() {
    let loss = |since, time| {
        let (source, cause) = (LossSource::Hits, "ring buffer full".to_owned());
        (time, Fact::Loss(Loss { source, count: 17, since, cause }))
    };
    let is_doubted = |write: &dyn Fn(&Path)| {
        let place = tempfile::tempdir().unwrap();
        let mut events = vec![attached(100 * MS, 0, "")];
        events.extend(processed(SECOND, 2, 1.0).into_iter().chain(processed(40 * SECOND, 2, 2.0)));
        events.push(loss(50 * SECOND, 51 * SECOND));
        events.push((70 * SECOND, Fact::Mark("end".into())));
        write_events(&place.path().join("first"), "box1", 7, events);
        write(&place.path().join("other"));
        let (code, out, err) = run(place.path(), &["why", "T:CALC", ".", "--utc"]);
        assert!(
            code == 0 && out.starts_with("T:CALC changed from 1 to 2 at 2026-09-21T14:14:00"),
            "{out}{err}"
        );
        out.contains("There may be later changes: after it, not all was recorded: 17 hits or events lost")
    };
    let beside = |since: u64| vec![attached(since, SECOND, ""), (70 * SECOND, Fact::Mark("end".into()))];
    assert!(!is_doubted(&|other| write_events(other, "box1", 8, beside(5 * SECOND))), "it saw all");
    assert!(is_doubted(&|other| write_events(other, "box1", 8, beside(50_500 * MS))), "it came later");
    assert!(is_doubted(&|other| write_without_calc(other, beside(5 * SECOND))), "it leaves the record out");
    let both = || {
        let mut events = beside(5 * SECOND);
        events.insert(1, loss(50_500 * MS, 52 * SECOND));
        events
    };
    assert!(is_doubted(&|other| write_events(other, "box1", 8, both())), "it lost, too");
}

/// Of two recorders one ends. The other one sees on what it records, and the IOC was recorded all along when a third one
/// comes.
#[test]
fn another_recorder_goes_on_when_one_ends() {
    let place = tempfile::tempdir().unwrap();
    let mut events = vec![attached(100 * MS, 0, "")];
    events.extend(processed(10 * SECOND, 1, 5.0).into_iter().chain(processed(11 * SECOND, 2, 3.0)));
    events.push((20 * SECOND, Fact::Mark("end".into())));
    write_events(&place.path().join("first"), "box1", 7, events);
    let beside = vec![attached(5 * SECOND, SECOND, ""), (70 * SECOND, Fact::Mark("end".into()))];
    write_without_calc(&place.path().join("other"), beside);
    let third = vec![attached(60 * SECOND, SECOND, ""), (70 * SECOND, Fact::Mark("end".into()))];
    write_events(&place.path().join("third"), "box1", 9, third);
    let doubt =
        "may have changed since: not recorded: the recorder that was attached to it leaves out records";
    for time in [50, 65] {
        assert_eq!(at(place.path(), "T:SP", time * SECOND), (Value::Double(5.0), None), "{time}");
        let expected = (Value::Double(3.0), Some(doubt.to_owned()));
        assert_eq!(at(place.path(), "T:CALC", time * SECOND), expected, "{time}");
    }
    assert!(at(place.path(), "T:SP", 80 * SECOND).1.is_some(), "the others have ended, too");
    let (code, out, err) = run(place.path(), &["values", "T:SP", ".", "--utc"]);
    assert!(code == 0 && !out.contains("not recorded"), "{out}{err}");
    let (_, out, _) = run(place.path(), &["values", "T:CALC", ".", "--utc"]);
    let gap =
        "not recorded: the recorder that was attached to it leaves out records since 2026-09-21T14:13:40.00";
    assert!(out.contains(gap), "{out}");
}

/// The same, and the other one ends, too, before a third one comes: what it left out was unseen from when the first one ended.
#[test]
fn what_was_left_out_is_unseen_since_the_first_recorder_ended() {
    let place = tempfile::tempdir().unwrap();
    let mut events = vec![attached(100 * MS, 0, "")];
    events.extend(processed(10 * SECOND, 1, 5.0).into_iter().chain(processed(11 * SECOND, 2, 3.0)));
    events.push((20 * SECOND, Fact::Mark("end".into())));
    write_events(&place.path().join("first"), "box1", 7, events);
    let beside = vec![attached(5 * SECOND, SECOND, ""), (40 * SECOND, Fact::Mark("end".into()))];
    write_without_calc(&place.path().join("other"), beside);
    let third = vec![attached(60 * SECOND, SECOND, ""), (70 * SECOND, Fact::Mark("end".into()))];
    write_events(&place.path().join("third"), "box1", 9, third);
    let gaps = |pv: &str| -> Vec<String> {
        let (code, out, err) = run(place.path(), &["values", pv, ".", "--utc"]);
        assert_eq!(code, 0, "{err}");
        let gaps = out.lines().filter_map(|line| line.split_once("not recorded: "));
        gaps.map(|(_, gap)| gap.to_owned()).collect()
    };
    let nobody = "no recorder in the logs was attached to it since 2026-09-21T14:14:00.00";
    let left_out = "the recorder that was attached to it leaves out records since 2026-09-21T14:13:40.00";
    let told = gaps("T:SP");
    assert!(told.len() == 1 && told[0].starts_with(nobody), "{told:?}");
    let told = gaps("T:CALC");
    assert!(told.len() == 2 && told[0].starts_with(left_out) && told[1].starts_with(nobody), "{told:?}");
    // the other one saw the rest until it ended
    assert_eq!(at(place.path(), "T:SP", 35 * SECOND), (Value::Double(5.0), None));
    assert!(at(place.path(), "T:CALC", 35 * SECOND).1.is_some());
}

/// Of two recorders that one ends which alone records T:CALC. The other one leaves it out until it ends itself, also when its
/// probes are placed anew, and then nobody records anything until a third one comes.
#[test]
fn what_the_other_recorder_leaves_out_is_told_to_its_end() {
    let place = tempfile::tempdir().unwrap();
    let end = |time| (time, Fact::Mark("end".into()));
    let mut events = vec![attached(100 * MS, 0, "")];
    events.extend(processed(10 * SECOND, 2, 3.0));
    events.push(end(20 * SECOND));
    write_events(&place.path().join("first"), "box1", 7, events);
    let again = attached(30 * SECOND, 29 * SECOND, "a thread had ended");
    let beside = vec![attached(5 * SECOND, SECOND, ""), again, end(40 * SECOND)];
    write_without_calc(&place.path().join("other"), beside);
    let late = attached(60 * SECOND, 50 * SECOND, "its probes had to be placed");
    write_events(&place.path().join("third"), "box1", 9, vec![late, end(70 * SECOND)]);
    let (_, out, _) = run(place.path(), &["values", "T:CALC", ".", "--utc"]);
    let gaps = out.lines().filter_map(|line| line.split_once("  -- ")?.1.split_once('.'));
    let gaps: Vec<&str> = gaps.map(|(gap, _)| gap).collect();
    let expected = [
        "demo: not recorded: a thread had ended since 2026-09-21T14:13:49",
        "demo: not recorded: the recorder that was attached to it leaves out records since 2026-09-21T14:13:40",
        "demo: not recorded: no recorder in the logs was attached to it since 2026-09-21T14:14:00",
    ];
    assert_eq!(gaps, expected, "{out}");
}

/// The gaps of a PV that `values` tells: why, and since when, to the hundredth of a second.
fn gaps(directory: &Path, pv: &str) -> Vec<String> {
    let (code, out, err) = run(directory, &["values", pv, ".", "--utc"]);
    assert_eq!(code, 0, "{err}");
    let gaps = out.lines().filter_map(|line| line.split_once("not recorded: ")?.1.split_once('.'));
    gaps.map(|(gap, _)| gap.to_owned()).collect()
}

const END: (u64, Fact) = (70 * SECOND, Fact::Mark(String::new()));

/// A recorder whose probes are placed anew has missed nothing that another one recorded meanwhile.
#[test]
fn what_another_recorder_saw_is_no_gap() {
    let why = "a thread had ended";
    let events = || {
        let mut events = vec![attached(100 * MS, 0, "")];
        events.extend(processed(10 * SECOND, 2, 3.0));
        let detached = Detached { ioc: 1, since: 20 * SECOND, cause: why.into() };
        events.push((20 * SECOND, Fact::Detached(detached)));
        events.extend([attached(25 * SECOND, 20 * SECOND, why), END]);
        events
    };
    let place = tempfile::tempdir().unwrap();
    write_events(&place.path().join("first"), "box1", 7, events());
    write_events(&place.path().join("other"), "box1", 8, vec![attached(5 * SECOND, SECOND, ""), END]);
    assert_eq!(gaps(place.path(), "T:CALC"), [""; 0]);
    assert_eq!(at(place.path(), "T:CALC", 50 * SECOND), (Value::Double(3.0), None));
    // the other one leaves the record out, or comes too late
    let place = tempfile::tempdir().unwrap();
    write_events(&place.path().join("first"), "box1", 7, events());
    write_without_calc(&place.path().join("other"), vec![attached(5 * SECOND, SECOND, ""), END]);
    let told = gaps(place.path(), "T:CALC");
    assert!(told.contains(&format!("{why} since 2026-09-21T14:13:40")), "{told:?}");
    let place = tempfile::tempdir().unwrap();
    write_events(&place.path().join("first"), "box1", 7, events());
    write_events(&place.path().join("other"), "box1", 8, vec![attached(22 * SECOND, SECOND, ""), END]);
    let told = gaps(place.path(), "T:CALC");
    assert!(told.contains(&format!("{why} since 2026-09-21T14:13:40")), "{told:?}");
}

/// A recorder that leaves out processing, or the same records as the one that goes on, ends no gap: only who records them does.
#[test]
fn a_recorder_that_leaves_out_records_ends_no_gap_of_them() {
    let nobody = "no recorder in the logs was attached to it since 2026-09-21T14:13:";
    let left_out = "the recorder that was attached to it leaves out records since 2026-09-21T14:13:";
    let first = || {
        let mut events = vec![attached(100 * MS, 0, "")];
        events.extend(processed(10 * SECOND, 2, 3.0));
        events.push((20 * SECOND, Fact::Mark("end".into())));
        events
    };
    let demo = definitions("box1").into_iter().find_map(|fact| match fact {
        Fact::Ioc(ioc) if ioc.id == 1 => Some(*ioc),
        _ => None,
    });
    let without = Ioc { not_probed: vec![NO_PROCESSING.to_owned()], ..demo.unwrap() };
    // it comes when nobody records, or before and goes on
    for (since, until, expected) in
        [(30, 65, vec![format!("{nobody}40"), format!("{left_out}50")]), (5, 50, vec![format!("{nobody}40")])]
    {
        let place = tempfile::tempdir().unwrap();
        write_events(&place.path().join("first"), "box1", 7, first());
        let end = (until * SECOND, Fact::Mark("end".into()));
        let named = (SECOND, Fact::from(without.clone()));
        let events = vec![named, attached(since * SECOND, SECOND, ""), end];
        write_events(&place.path().join("other"), "box1", 8, events);
        write_events(&place.path().join("third"), "box1", 9, vec![attached(60 * SECOND, SECOND, ""), END]);
        assert_eq!(gaps(place.path(), "T:CALC"), expected, "{since}");
    }
    // two that leave out the record, and at last one that records it
    let place = tempfile::tempdir().unwrap();
    write_events(&place.path().join("first"), "box1", 7, first());
    write_without_calc(&place.path().join("other"), vec![attached(5 * SECOND, SECOND, ""), END]);
    let is_left_out = |fact: &Fact| matches!(fact, Fact::Record(record) if record.name == "T:CALC");
    let definitions = definitions("box1").into_iter().filter(|fact| !is_left_out(fact)).collect();
    let events = vec![attached(30 * SECOND, SECOND, ""), END];
    write_defined(&place.path().join("third"), definitions, 10, events, 0);
    write_events(&place.path().join("fourth"), "box1", 9, vec![attached(60 * SECOND, SECOND, ""), END]);
    assert_eq!(gaps(place.path(), "T:CALC"), [format!("{left_out}40")]);
    assert_eq!(gaps(place.path(), "T:SP"), [""; 0]);
}

/// What a recorder read that leaves out processing, another one beside it would have seen change.
#[test]
fn what_one_recorder_leaves_out_another_one_sees() {
    let place = tempfile::tempdir().unwrap();
    let mut events = vec![attached(100 * MS, 0, "")];
    events.extend(processed(20 * SECOND, 2, 3.0));
    events.push((70 * SECOND, Fact::Mark("end".into())));
    write_events(&place.path().join("first"), "box1", 7, events);
    let demo = definitions("box1").into_iter().find_map(|fact| match fact {
        Fact::Ioc(ioc) if ioc.id == 1 => Some(*ioc),
        _ => None,
    });
    let without = Ioc { not_probed: vec![NO_PROCESSING.to_owned()], ..demo.clone().unwrap() };
    let mut events = vec![(SECOND, Fact::from(without)), attached(30 * SECOND, SECOND, "")];
    events.push(snapshot(40 * SECOND, 2, 3.0));
    events.push((60 * SECOND, Fact::Mark("end".into())));
    write_events(&place.path().join("other"), "box1", 8, events);
    assert_eq!(at(place.path(), "T:CALC", 50 * SECOND), (Value::Double(3.0), None));
    assert_eq!(at(&place.path().join("other"), "T:CALC", 50 * SECOND).0, Value::Double(3.0));
    assert!(at(&place.path().join("other"), "T:CALC", 50 * SECOND).1.is_some(), "that one alone");
    // one that leaves out puts records processing, also once another one has ended
    let place = tempfile::tempdir().unwrap();
    let ends = vec![attached(100 * MS, 0, ""), (20 * SECOND, Fact::Mark("end".into()))];
    write_events(&place.path().join("first"), "box1", 7, ends);
    let without = Ioc { not_probed: vec![NO_PUTS.to_owned()], ..demo.unwrap() };
    let mut events = vec![(SECOND, Fact::from(without)), attached(5 * SECOND, SECOND, "")];
    events.push(snapshot(30 * SECOND, 2, 3.0));
    events.push((60 * SECOND, Fact::Mark("end".into())));
    write_events(&place.path().join("other"), "box1", 8, events);
    assert_eq!(at(place.path(), "T:CALC", 50 * SECOND), (Value::Double(3.0), None));
}

#[test]
fn times_without_a_recorder() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path();
    let mut first = vec![attached(500 * MS, 0, "")];
    first.extend(processed(SECOND, 2, 1.0));
    write_events(log, "box1", 7, first);
    // the same processes, recorded again 50 s later
    let mut second = vec![attached(50 * SECOND, SECOND, "")];
    second.extend(processed(60 * SECOND, 2, 2.0));
    second.push((
        61 * SECOND,
        Fact::Detached(Detached { ioc: 1, since: 60_500 * MS, cause: "thread ended".into() }),
    ));
    second.push((70 * SECOND, Fact::Mark("end".into())));
    write_events(log, "box1", 8, second);
    assert_eq!(at(log, "T:CALC", SECOND + 1000), (Value::Double(1.0), None));
    let (value, doubt) = at(log, "T:CALC", 30 * SECOND);
    assert_eq!(value, Value::Double(1.0));
    assert!(doubt.is_some(), "nobody recorded at that time");
    let (_, doubt) = at(log, "T:CALC", 55 * SECOND);
    assert_eq!(
        doubt.as_deref(),
        Some("may have changed since: not recorded: no recorder in the logs was attached to it")
    );
    assert_eq!(at(log, "T:CALC", 60_400 * MS), (Value::Double(2.0), None));
    let (_, doubt) = at(log, "T:CALC", 65 * SECOND);
    assert_eq!(doubt.as_deref(), Some("may have changed since: not recorded: thread ended"));
    let (code, out, err) = run(log, &["values", "T:CALC", ".", "--utc"]);
    // by its header, the second run began with the first one
    assert!(code == 0 && err.contains("several recorders at the same time"), "{code} {err}");
    let gaps: Vec<&str> =
        out.lines().filter_map(|line| line.split_once("  -- ")).map(|(_, gap)| gap).collect();
    assert_eq!(
        gaps,
        [
            "demo: not recorded: no recorder in the logs was attached to it since 2026-09-21T14:13:21.000001+00:00; values may have changed",
            "demo: not recorded: thread ended from 2026-09-21T14:14:20.500000+00:00 on; values may have changed",
        ]
    );
    let (_, out, _) = run(log, &["values", "R:FAR", ".", "--utc"]);
    assert_eq!(out, "", "the IOC of R:FAR has no gap that was noted, and no value");
}

/// A recorder that comes later names the time that it took to attach. Nobody recorded the time before that either. A gap of
/// that one itself begins where it says.
#[test]
fn a_recorder_that_comes_later_does_not_hide_the_time_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path();
    let mut first = vec![attached(500 * MS, 0, "")];
    first.extend(processed(SECOND, 2, 1.0));
    write_events(log, "box1", 7, first);
    let mut second = vec![attached(50 * SECOND, 40 * SECOND, "its probes had to be placed")];
    second.extend(processed(60 * SECOND, 2, 2.0));
    second.push(attached(65 * SECOND, 64 * SECOND, "a thread had ended"));
    second.push((70 * SECOND, Fact::Mark("end".into())));
    write_events(log, "box1", 8, second);
    let (_, out, _) = run(log, &["values", "T:CALC", ".", "--utc"]);
    let gaps: Vec<&str> =
        out.lines().filter_map(|line| line.split_once("  -- ")).map(|(_, gap)| gap).collect();
    assert_eq!(
        gaps,
        [
            "demo: not recorded: no recorder in the logs was attached to it since 2026-09-21T14:13:21.000001+00:00; values may have changed",
            "demo: not recorded: a thread had ended since 2026-09-21T14:14:24.000000+00:00; values may have changed",
        ]
    );
}

#[test]
fn a_restarted_ioc_is_another_one() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path();
    write_events(log, "box1", 7, processed(SECOND, 2, 1.0).to_vec());
    let end = IocEnd { ioc: 1, how: String::new() };
    let mut second = vec![(10 * SECOND, Fact::IocEnd(end))];
    for fact in definitions("box1") {
        // its process began after the first run
        match fact {
            Fact::Ioc(ioc) if ioc.id == 1 => {
                let ioc = Ioc { id: 11, pid: ioc.pid + 1, start: 20 * SECOND, ..*ioc };
                second.push((20 * SECOND, Fact::from(ioc)));
            }
            Fact::Thread(thread) if thread.id == 3 => {
                second.push((20 * SECOND, Fact::Thread(Thread { id: 13, ioc: 11, ..thread })));
            }
            Fact::Record(record) if record.ioc == 1 => {
                let record = Record { id: record.id + 10, ioc: 11, ..*record };
                second.push((20 * SECOND, Fact::from(record)));
            }
            _ => {}
        }
    }
    second.extend(processed_by(13, 30 * SECOND, 11, 5.0));
    write_events(log, "box1", 8, second);
    assert_eq!(at(log, "T:CALC", SECOND + 1000), (Value::Double(1.0), None));
    assert!(at(log, "T:CALC", 2 * SECOND).1.is_some(), "the recorder has ended");
    assert_eq!(at(log, "T:CALC", 25 * SECOND), (Value::Unknown, Some("it was not seen before".into())));
    assert_eq!(at(log, "T:SP", 31 * SECOND).0, Value::Double(5.0));
    let calcs = fields(log, wall(25 * SECOND)).into_iter().filter(|field| field.pv() == "T:CALC").count();
    assert_eq!(calcs, 1, "that of the process that lives");
}

/// Logs of real recorders, and one with most of what can happen.
fn logs() -> Vec<(PathBuf, Option<tempfile::TempDir>)> {
    let travelled = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/travelled");
    let mut logs: Vec<_> = ["x86_64-6.1", "arm64-ioc-6.12", "riscv64-6.12", "i686-5.10"]
        .map(|name| (travelled.join(name).join("log"), None))
        .into();
    let mut events = vec![snapshot(100 * MS, 3, 7.5)];
    events.extend(happenings());
    events.extend(processed(5 * SECOND, 2, 21.0));
    events.push((6 * SECOND, Fact::IocEnd(IocEnd { ioc: 1, how: String::new() })));
    events.push((8 * SECOND, Fact::Mark("later".into())));
    let own = log_of(events);
    logs.push((own.path().to_owned(), Some(own)));
    logs
}

/// In the packet tier records process unseen.
#[test]
fn without_probes_nothing_that_was_read_stays_certain() {
    let tier = Fact::Tier(TierChoice { tier: Tier::Packet, refused: vec![] });
    let ioc =
        |time| (time, definitions("box1").into_iter().find(|fact| matches!(fact, Fact::Ioc(_))).unwrap());
    let events =
        vec![(1, tier), ioc(2), snapshot(100 * MS, 1, 7.5), (9 * SECOND, Fact::Mark("later".into()))];
    let log = log_of(events);
    let doubt = "may have changed since: the processing of its records is not recorded";
    assert_eq!(at(log.path(), "T:SP", 6 * SECOND), (Value::Double(7.5), Some(doubt.into())));
}

/// No hit shows the alarm of a disabled record (DISS).
#[test]
fn a_disabled_record_has_an_unknown_alarm() {
    let mut events = vec![snapshot(100 * MS, 2, 5.0)];
    for second in 1..4 {
        let begun = Process { thread: 3, sp: -100, site: 2, record: 2, active: false };
        events.push((second * SECOND, Fact::Process(begun)));
    }
    events.extend(processed(4 * SECOND, 2, 6.0));
    events.push((9 * SECOND, Fact::Mark("later".into())));
    let log = log_of(events);
    let alarm = |time: u64| {
        let field = fields(log.path(), wall(time)).into_iter().find(|field| field.pv() == "T:CALC").unwrap();
        (field.value(), field.seen.unwrap().alarm)
    };
    assert_eq!(alarm(SECOND / 2), (Value::Double(5.0), Some((1, 4))));
    assert_eq!(alarm(3500 * MS), (Value::Double(5.0), None));
    assert_eq!(alarm(6 * SECOND), (Value::Double(6.0), Some((0, 0))));
}

/// A record that is active for long has to process again and again: at the eleventh time dbProcess gives it the alarm SCAN, which no hit
/// shows. Not so one that is INVALID.
#[test]
fn a_record_that_is_active_for_long_has_an_unknown_alarm() {
    for severity in [0, 3] {
        let begun = |active| Process { thread: 3, sp: -100, site: 2, record: 2, active };
        let mut events = vec![
            (SECOND, Fact::Process(begun(false))),
            (SECOND + 1000, complete(3, -200, 2, 5.0, severity)),
            (2 * SECOND, Fact::Process(begun(false))),
            (2 * SECOND + 50 * MS, Fact::PactCheck(PactCheck { record: 2, active: true, disabled: false })),
        ];
        let times = (1..=15).map(|time| 2 * SECOND + time * 100 * MS);
        events.extend(times.map(|time| (time, Fact::Process(begun(true)))));
        events.push((5 * SECOND, complete(4, -200, 2, 6.0, 0)));
        events.push((9 * SECOND, Fact::Mark("later".into())));
        let log = log_of(events);
        let alarm = |time: u64| {
            let found = fields(log.path(), wall(time)).into_iter().find(|field| field.pv() == "T:CALC");
            found.unwrap().seen.unwrap().alarm
        };
        assert_eq!(alarm(3 * SECOND), Some((severity, 0)), "ten times give it none");
        assert_eq!(alarm(4 * SECOND), Some((3, 0)).filter(|_| severity == 3));
        assert_eq!(alarm(6 * SECOND), Some((0, 0)));
    }
}

/// Of a chain whose beginning was not seen, nobody knows with which record it began.
#[test]
fn the_root_is_told_where_the_beginning_was_seen() {
    let mut events = vec![(SECOND, complete(4, -300, 3, 7.0, 0))];
    events.extend(processed(2 * SECOND, 2, 1.0));
    let log = log_of(events);
    let (_, out, err) = run(log.path(), &["values", "T:*", ".", "--format", "jsonl"]);
    let rows: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let roots: Vec<_> = rows.iter().map(|row| (&row["pv"], &row["root"])).collect();
    let [slow, calc] = ["T:SLOW", "T:CALC"].map(serde_json::Value::from);
    assert_eq!(roots, [(&slow, &serde_json::Value::Null), (&calc, &calc)], "{err}");
}

/// A record may change its value at any time while it processes, and after it was not seen to complete.
#[test]
fn a_value_is_in_doubt_once_its_record_has_begun_to_process() {
    let begun =
        |time, record| (time, Fact::Process(Process { thread: 3, sp: -100, site: 2, record, active: false }));
    let name = "T:MOTOR".to_owned();
    let motor = Record { id: 30, ioc: 1, address: 4096, name, rtype: "motor".into() };
    let mut events = vec![(MS, Fact::from(motor)), snapshot(4500 * MS, 30, 2.0), snapshot(100 * MS, 3, 7.5)];
    events.extend(happenings()); // T:SLOW processes from 1.00016 s to 1.5 s
    events.extend([begun(5200 * MS, 30), begun(5300 * MS, 30), snapshot(6 * SECOND, 30, 2.0)]);
    events.push((9 * SECOND, Fact::Mark("later".into())));
    events.sort_by_key(|(time, _)| *time);
    let log = log_of(events);
    let at = |pv, time| at(log.path(), pv, time);
    let doubt = |words: &str| Some(format!("may have changed since: {words}"));
    assert_eq!(at("T:SLOW", SECOND), (Value::Double(7.5), None));
    assert_eq!(at("T:SLOW", 1200 * MS), (Value::Double(7.5), doubt("its record was processing")));
    assert_eq!(at("T:SLOW", 1600 * MS).1, None);
    let unfinished = "its record has processed, and was not seen to complete";
    assert_eq!(at("T:MOTOR", 5500 * MS), (Value::Double(2.0), doubt(unfinished)));
    assert_eq!(at("T:MOTOR", 7 * SECOND), (Value::Double(2.0), None), "it was read again");
    let time = "2026-09-21T14:13:25.5Z";
    let (_, file, left_out) = run(log.path(), &["at", time, ".", "--pv", "T:MOTOR", "--format", "autosave"]);
    assert!(left_out.contains("T:MOTOR is left out: its value is not certain"), "{file}{left_out}");
    let (_, lines, _) = run(log.path(), &["values", "T:MOTOR", ".", "--utc"]);
    let lines: Vec<&str> = lines.lines().collect();
    let gap =
        "2026-09-21T14:13:25.200000+00:00  -- demo: T:MOTOR has processed, and was not seen to complete";
    let [.., gap_line, read] = lines.as_slice() else { panic!("{lines:?}") };
    assert!(gap_line.starts_with(gap) && read.ends_with("read by the recorder"), "{lines:?}");
}

/// A put that finds the last value known finds nothing that was set unseen, also if the record was not seen to complete.
#[test]
fn what_a_put_finds_after_an_unfinished_record_was_seen_if_it_is_the_last_known() {
    const MOTOR: u32 = 30;
    const VAL: u32 = 31;
    let rtype = || "motor".to_owned();
    let motor = Record { id: MOTOR, ioc: 1, address: 4096, name: "T:MOTOR".into(), rtype: rtype() };
    let field = Field { id: VAL, ioc: 1, rtype: rtype(), name: "VAL".into(), dbf: Dbf::Double, menu: None };
    let mut events = vec![(MS, Fact::from(motor)), (MS, Fact::from(field)), snapshot(100 * MS, MOTOR, 2.0)];
    for (time, found, to) in [(SECOND, 3.0, 5.0), (3 * SECOND, 5.0, 7.0)] {
        events.push((time, put(PutKind::PutField, CLIENT, -1000, 1, (MOTOR, VAL), found, to)));
        events.push((time + 1000, put(PutKind::Put, CLIENT, -1200, 0, (MOTOR, VAL), found, to)));
        events.push((time + 2000, process(CLIENT, -1200, 0, MOTOR)));
    }
    events.push((9 * SECOND, Fact::Mark("later".into())));
    let log = log_of(events);
    let (_, out, err) = run(log.path(), &["values", "T:MOTOR", ".", "--utc"]);
    let found: Vec<&str> = out.lines().filter(|line| line.contains("found by a put: ")).collect();
    let [unseen, known] = found.as_slice() else { panic!("{out}{err}") };
    assert!(unseen.contains("  3  ") && unseen.ends_with("found by a put: set before, unseen"), "{out}");
    assert!(known.contains("  5  ") && known.ends_with("found by a put: as before"), "{out}");
}

/// A field's name: host, IOC, PV.
type Name = (String, String, String);

#[test]
fn at_any_time_is_the_fold_of_values() {
    let filter = Filter::default();
    let mut compared = 0;
    for (path, _keep) in logs() {
        let logs = Logs::open([&path]).unwrap();
        let lines: Vec<ValueLine> = logs.values(&filter).with_gaps().collect();
        let (first, last) = (lines.first().unwrap().time, lines.last().unwrap().time);
        let step = ((last - first) / 9).max(1);
        let mut times: Vec<i64> = (0..10).map(|n| first + n * step).collect();
        times.extend([first - 1, last, lines[lines.len() / 2].time, lines[lines.len() / 3].time - 1]);
        for time in times {
            let mut folded: BTreeMap<Name, &Value> = BTreeMap::new();
            let mut unseen = false;
            for line in lines.iter() {
                match &line.unseen {
                    Some(gap) if gap.kind.name() == "ended" && line.time <= time => {
                        folded.retain(|(_, ioc, _), _| **ioc != *line.ioc);
                    }
                    Some(gap) => unseen |= gap.since <= time,
                    None if line.time <= time => {
                        let name = (line.host.to_string(), line.ioc.to_string(), line.pv());
                        folded.insert(name, &line.value);
                    }
                    None => {}
                }
            }
            folded.retain(|_, value| **value != Value::Unknown);
            let state = states::at(&logs, &filter, time).into_fields(&filter);
            let known: Vec<&FieldState> = state.iter().filter(|field| field.is_known()).collect();
            assert_eq!(known.len(), folded.len(), "{} at {time}", path.display());
            for field in known {
                let (process, ..) = &field.key;
                let name = (process.host.to_string(), process.ioc.to_string(), field.pv());
                // a cut array equals the whole
                assert_ne!(same(&field.value(), folded[&name]), Some(false), "{name:?} at {time}");
                let is_processing = lines.iter().any(|line| {
                    let begun = line.origin.as_ref().and_then(|origin| {
                        let (chain, span, _) = origin.last()?;
                        Some(chain.run.wall(span.start))
                    });
                    line.pv() == field.pv() && line.time > time && begun.is_some_and(|begun| begun <= time)
                });
                // after the last event of the log, nothing is certain
                assert!(
                    field.doubt.is_none() || unseen || is_processing || time >= last,
                    "{name:?} at {time}: {:?}",
                    field.doubt
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 250, "{compared}");
}

#[test]
fn differences_are_those_of_the_two_states() {
    let log = log_of(happenings());
    let log = log.path();
    let diff = |from: &str, to: &str| run(log, &["diff", from, to, ".", "--utc", "--format", "jsonl"]);
    let (code, out, err) = diff("2026-09-21T14:13:20.9", "2026-09-21T14:13:22.05");
    assert_eq!(code, 0, "{err}");
    let lines: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let far = lines.iter().find(|line| line["pv"] == "R:FAR").unwrap();
    assert_eq!(
        (&far["before"], &far["before_known"], &far["after"]),
        (&serde_json::Value::Null, &"no".into(), &2.0.into())
    );
    let (code, out, _) = diff("2026-09-21T14:13:22.05", "2026-09-21T14:13:22.06");
    assert_eq!((code, out.as_str()), (0, ""));
    let (code, _, err) = diff("2026-09-21T14:13:22", "2026-09-21T14:13:21");
    assert!(code == 0 && err.contains("taking it as the first time"), "{code} {err}");
    let (code, _, err) = diff("-2s", "-1s");
    assert!(code == 0 && err.contains("-2s is "), "{code} {err}");
}

/// An array of so many elements, of which the log holds two, that processes each second with these.
fn arrays(count: u32) -> tempfile::TempDir {
    let bytes = [1.0_f64, 2.0].map(f64::to_le_bytes).concat();
    let held = Value::Array(Array { dbf: Dbf::Double, count, bytes });
    let mut events: Vec<(u64, Fact)> =
        [1, 2, 3].into_iter().flat_map(|second| processed(second * SECOND, 2, 0.0)).collect();
    for (_, fact) in &mut events {
        if let Fact::Complete(Complete { value, .. }) = fact {
            *value = held.clone();
        }
    }
    log_of(events)
}

/// Of a big array the log holds the first elements: that the others have not changed is not known.
#[test]
fn an_array_that_is_cut_may_have_changed_behind_that() {
    let diff = |count: u32| {
        let (log, times) = (arrays(count), ["2026-09-21T14:13:21.5", "2026-09-21T14:13:22.5"]);
        let words = ["diff", times[0], times[1], ".", "--pv", "T:CALC", "--utc"];
        let (code, out, err) = run(log.path(), &words);
        assert_eq!((code, out.as_str()), (0, ""), "{err}");
        err
    };
    assert!(diff(2).ends_with("0 of 1 PVs had another value\n"), "{}", diff(2));
    let cut = diff(100);
    assert!(cut.contains("1 had the same value, but may have changed unseen"), "{cut}");
    // since when it is known to have its value
    let first = |count: u32| {
        let words = ["at", "2026-09-21T14:13:22.5", ".", "--pv", "T:CALC", "--utc", "--format", "jsonl"];
        let (_, out, err) = run(arrays(count).path(), &words);
        let line: serde_json::Value = serde_json::from_str(out.trim()).expect(&err);
        line["first"].as_str().unwrap()[..19].to_owned()
    };
    assert_eq!([2, 100].map(first), ["2026-09-21T14:13:21", "2026-09-21T14:13:22"]);
    let why = |count: u32| run(arrays(count).path(), &["why", "T:CALC", ".", "--utc"]).1;
    let (whole, cut) = (why(2), why(100));
    assert!(
        whole.contains("may have changed in these logs with the first of these, and not since"),
        "{whole}"
    );
    let unknown =
        "is not known to have changed in these logs (processed or written 3 times, value [1, 2, ...] \
                   (2 of 100), 2 times with a value that is not known whole)";
    assert!(cut.contains(unknown), "{cut}");
}

/// A long string that processes with the first text, and to which a client then puts: `dbPut` of a text shows the first 40
/// bytes of what is asked for and of what it finds.
fn long_string(first: &str, asked: &str, then: &str) -> tempfile::TempDir {
    log_of(long_events(first, asked, then))
}

fn long_events(first: &str, asked: &str, then: &str) -> Vec<(u64, Fact)> {
    let text = |text: &str| Value::Text(text.as_bytes().to_vec());
    let head = |text: &str| Value::Text(text.bytes().take(40).collect());
    let (thread, record, rtype) = (CLIENT, 10, || "lso".to_owned());
    let outer = Put {
        thread,
        sp: -1000,
        site: 1,
        kind: PutKind::PutField,
        record,
        field: Some(10),
        dbf: Dbf::String,
        count: 1,
        requested: head(asked),
        old: Value::Unknown,
    };
    let inner = Put { sp: -1200, site: 0, kind: PutKind::Put, old: head(first), ..outer.clone() };
    let complete = |thread: u32, sp: i64, held: &str| {
        let value = text(held);
        Fact::Complete(Complete { thread, sp, site: 0, record, value, severity: 0, status: 0 })
    };
    let begin = |thread: u32, sp: i64| Fact::Process(Process { thread, sp, site: 0, record, active: false });
    let field = Field { id: 10, ioc: 1, rtype: rtype(), name: "VAL".into(), dbf: Dbf::String, menu: None };
    vec![
        (MS, Fact::from(Record { id: record, ioc: 1, address: 1, name: "T:LONG".into(), rtype: rtype() })),
        (MS, Fact::from(field)),
        (SECOND, begin(SCAN, -100)),
        (SECOND + 1000, complete(SCAN, -200, first)),
        (2 * SECOND, Fact::from(outer)),
        (2 * SECOND + 1000, Fact::from(inner)),
        (2 * SECOND + 2000, begin(CLIENT, -1200)),
        (2 * SECOND + 3000, complete(CLIENT, -1300, then)),
        (3 * SECOND, Fact::Mark("later".into())),
    ]
}

/// The rows that a question has for T:LONG.
fn long_rows(log: &Path, words: &[&str]) -> Vec<serde_json::Value> {
    let words = [words, &[".", "--pv", "T:LONG", "--utc", "--format", "jsonl"]].concat();
    let (code, out, err) = run(log, &words);
    assert_eq!(code, 0, "{err}");
    out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The beginning of a long string that a put finds is no other value than the string.
#[test]
fn a_put_that_finds_the_beginning_of_a_text_finds_nothing_new() {
    let log = long_string(&"q".repeat(60), "abc", "abc");
    let (code, out, err) = run(log.path(), &["values", "T:LONG", ".", "--utc"]);
    assert!(code == 0 && out.contains("\"abc\""), "{out}{err}");
    assert!(!out.contains("found by a put"), "{out}");
    let diff = long_rows(log.path(), &["diff", "2026-09-21T14:13:21.5", "2026-09-21T14:13:22.5"]);
    assert_eq!((&diff[0]["changes"], &diff[0]["after"]), (&1.into(), &"abc".into()), "{diff:?}");
    assert_eq!(diff[0]["at_least"], false, "{diff:?}");
    let told = long_rows(log.path(), &["puts", "--all"]);
    assert_eq!((&told[0]["old_cut"], &told[0]["requested_cut"]), (&true.into(), &false.into()), "{told:?}");
}

/// Nothing is known of the string before a put, which finds its beginning and writes the same again.
#[test]
fn why_takes_a_text_for_no_other_than_its_beginning() {
    let (same, other) = ("q".repeat(60), "r".repeat(60));
    let why = |then: &str| {
        let mut events = long_events(&same, then, then);
        events.retain(|(time, _)| !(SECOND..2 * SECOND).contains(time));
        run(log_of(events).path(), &["why", "T:LONG", ".", "--utc"]).1
    };
    let told = why(&same);
    let may_have = told.contains("may have changed") || told.contains("is not known to have changed");
    assert!(may_have && !told.contains("changed from"), "{told}");
    let told = why(&other);
    assert!(told.contains("changed from") || told.contains("became"), "{told}");
}

/// A text of 40 bytes, such as the hash of a commit in git, is whole in a long string; only a put sees no more of one.
#[test]
fn a_long_string_of_40_bytes_is_whole() {
    let hash = "0123456789abcdef0123456789abcdef01234567";
    let log = long_string(hash, "abc", hash);
    let (_, out, err) = run(log.path(), &["values", "T:LONG", ".", "--utc", "--format", "jsonl"]);
    let rows: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let values: Vec<_> = rows.iter().filter(|row| row["source"] != "gap").collect();
    let is_whole = |row: &&serde_json::Value| row["value"] == hash && row["cut"] == false;
    assert!(values.len() == 2 && values.iter().all(is_whole), "{out}{err}");
    // (what is asked for, what the record then holds), (requested_cut, new_cut)
    let long = "t".repeat(70);
    for (asked, then, expected) in [
        (long.as_str(), long.as_str(), (true, false)),
        (hash, hash, (false, false)),
        ("abc", "abc", (false, false)),
    ] {
        let log = long_string("", asked, then);
        let put = &long_rows(log.path(), &["puts", "--all"])[0];
        let told = (put["requested_cut"].as_bool(), put["new_cut"].as_bool());
        assert_eq!(told, (Some(expected.0), Some(expected.1)), "{put}");
    }
}

/// A file that restores has what changed, as it was at the first time, and names the rest.
#[test]
fn differences_can_be_restored() {
    let mut events = happenings();
    let new = Record { id: 9, ioc: 1, address: 1, name: "T:NEW".into(), rtype: "ai".into() };
    events.push((4900 * MS, Fact::from(new)));
    events.extend(processed(5 * SECOND, 1, 7.0));
    events.extend(processed(5100 * MS, 9, 1.0));
    events.push((6 * SECOND, Fact::Mark("later".into())));
    let log = log_of(events);
    let diff = |format: &str| {
        let times = ["2026-09-21T14:13:22.5", "2026-09-21T14:13:25.5"];
        run(log.path(), &["diff", times[0], times[1], ".", "--utc", "--format", format])
    };
    let (_, rows, _) = diff("jsonl");
    let rows: Vec<serde_json::Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (code, file, err) = diff("autosave");
    assert_eq!(code, 0, "{err}");
    let mut restored = 0;
    for row in &rows {
        let pv = row["pv"].as_str().unwrap();
        let value = file.lines().find_map(|line| line.strip_prefix(&format!("{pv} ")));
        match (value, &row["before"]) {
            (Some(value), before) => {
                assert_eq!(value.parse::<f64>().ok(), before.as_f64(), "{row}");
                restored += 1;
            }
            (None, _) => assert!(err.contains(pv), "{pv} is neither restored nor named: {file}{err}"),
        }
    }
    assert!(restored > 0 && rows.len() > restored, "{rows:?} {file}");
    let written = file.lines().filter(|line| !line.starts_with(['#', '!', '<'])).count();
    assert_eq!(written, restored, "{file}");
}

#[test]
fn pictures_of_hostile_names_are_harmless() {
    let name = "T<script>alert(1)</script>&\"'\n\u{1b}[2J\u{202e}";
    let record = Record { id: 9, ioc: 1, address: 1, name: name.into(), rtype: "ai".into() };
    let mut events = vec![(MS, Fact::from(record))];
    events.extend(processed(SECOND, 9, f64::MAX));
    events.extend(processed(2 * SECOND, 9, -f64::MAX));
    events.extend(processed(3 * SECOND, 9, f64::NAN));
    let log = log_of(events);
    let (code, out, err) =
        run(log.path(), &["values", "T<*", ".", "--plot", "--svg", "../hostile-values.svg"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let file = log.path().parent().unwrap().join("hostile-values.svg");
    let svg = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    for text in [&out, &svg] {
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
        assert!(!text.chars().any(|letter| letter.is_control() && letter != '\n'));
    }
    assert!(!svg.contains("<script") && svg.contains("T&lt;script&gt;"), "{svg}");
    assert!(
        svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf")
    );
    let (code, _, err) = run(log.path(), &["values", "T<*", ".", "--svg", "here.svg"]);
    assert!(code == 2 && err.contains("is in the directory of a log"), "{err}");
}

/// Units and precision are those of a value's time, though puts changed them afterwards.
#[test]
fn properties_of_the_time() {
    let field = |id, name: &str, dbf| {
        (0, Fact::from(Field { id, ioc: 1, rtype: "ao".into(), name: name.into(), dbf, menu: None }))
    };
    let mut events: Vec<(u64, Fact)> = definitions("box1").into_iter().map(|fact| (0, fact)).collect();
    events.extend([
        field(20, "EGU", Dbf::String),
        field(21, "PREC", Dbf::Short),
        field(22, "HSV", Dbf::Menu),
    ]);
    let read = Properties {
        record: 1,
        description: "a motor".into(),
        units: "mm".into(),
        precision: Some(1),
        display: None,
        control: None,
        lolo: None,
        low: None,
        high: Some(AlarmLimit { limit: 9.0, severity: 1 }),
        hihi: None,
    };
    events.push((SECOND, Fact::Properties(Box::new(read))));
    let held = |time, record, field, value| (time, Fact::FieldValue(FieldValue { record, field, value }));
    events.extend(processed(2 * SECOND, 1, 2.5));
    events.push(held(3 * SECOND, 1, 20, Value::Text(b"kV".to_vec())));
    events.push(held(3 * SECOND, 1, 21, Value::Int(3)));
    events.extend(processed(3 * SECOND + 100 * MS, 1, 3.5));
    // a put of what it is already changes nothing, and of a record without properties one is known now
    events.push(held(4 * SECOND, 1, 20, Value::Text(b"kV".to_vec())));
    events.push(held(4 * SECOND, 3, 20, Value::Text(b"A".to_vec())));
    events.extend(processed(5 * SECOND, 3, 4.5));
    let log = log_of(events);
    let (code, out, _) = run(log.path(), &["values", "*", ".", "--format", "jsonl"]);
    assert_eq!(code, 0);
    let rows: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<(f64, Option<&str>, Option<i64>)> = rows
        .iter()
        .map(|row| (row["value"].as_f64().unwrap(), row["units"].as_str(), row["precision"].as_i64()))
        .collect();
    let expected = [(2.5, Some("mm"), Some(1)), (3.5, Some("kV"), Some(3)), (4.5, Some("A"), None)];
    assert_eq!(told, expected, "{out}");
    for (time, units) in [(2500 * MS, "mm"), (6 * SECOND, "kV")] {
        let properties = fields(log.path(), wall(time)).into_iter().find(|field| field.pv() == "T:SP");
        let properties = properties.and_then(|field| field.properties(wall(time))).expect("properties");
        assert_eq!(
            (properties.units.as_str(), properties.description.as_str()),
            (units, "a motor"),
            "{time}"
        );
        assert_eq!(properties.high, Some(AlarmLimit { limit: 9.0, severity: 1 }));
    }
}

/// A put to a link from inside the IOC (`dbpf`): dbPutField changes links without dbPut. The second one was refused, or is of
/// what the link was already.
#[test]
fn a_put_to_a_link_by_the_shell_changes_it() {
    const INPA: u32 = 20;
    let text = |text: &str| Value::Text(text.into());
    let (rtype, name) = ("calc".into(), "INPA".into());
    let mut events =
        vec![(0, Fact::from(Field { id: INPA, ioc: 1, rtype, name, dbf: Dbf::InLink, menu: None }))];
    for (time, asked, old, new) in [
        (SECOND, "T:SP", "T:SLOW NPP NMS", "T:SP NPP NMS"),
        (3 * SECOND, "T:SLOW", "T:SP NPP NMS", "T:SP NPP NMS"),
    ] {
        let (kind, record, field) = (PutKind::PutField, 2, Some(INPA));
        let (thread, sp, site, dbf, count) = (CLIENT, -1000, 1, Dbf::String, 1);
        let (requested, old) = (text(asked), text(old));
        let hit = Put { thread, sp, site, kind, record, field, dbf, count, requested, old };
        events.push((time, Fact::from(hit)));
        let value = text(new);
        events.push((time + SECOND / 2, Fact::FieldValue(FieldValue { record, field: INPA, value })));
    }
    events.push((9 * SECOND, Fact::Mark("later".into())));
    let log = log_of(events);
    for time in [2 * SECOND, 5 * SECOND] {
        assert_eq!(at(log.path(), "T:CALC.INPA", time), (text("T:SP NPP NMS"), None), "{time}");
    }
}

/// Two hosts that scan in turn are read a few events at a time; one of them pauses for a while.
#[test]
fn hosts_that_scan_at_once_are_told_as_each_alone() {
    let directory = tempfile::tempdir().unwrap();
    for (number, host) in [(0, "box1"), (1, "box2")] {
        let mut defined = definitions(host);
        for fact in &mut defined {
            match fact {
                Fact::Host(of) => of.boot_id = host.into(),
                Fact::Ioc(ioc) => ioc.name = format!("{host}-{}", ioc.name),
                _ => {}
            }
        }
        let mut scans = Vec::new();
        for turn in (0..6000_u64).filter(|turn| number == 0 || !(1000..4000).contains(turn)) {
            // some turns of one come right behind each other
            let time = SECOND + (turn * 400 + turn % 7 * 9 + number * 170) * 1000;
            scans.extend(processed(time, 2, (turn / 3) as f64));
        }
        write_defined(&directory.path().join(host), defined, 7 + u128::from(number), scans, 0);
    }
    let rows = |logs: &[&str]| {
        let words = [&["values", "--format", "jsonl", "T:CALC"][..], logs].concat();
        let (code, out, said) = run(directory.path(), &words);
        assert_eq!(code, 0, "{said}");
        out.lines().map(str::to_owned).collect::<Vec<String>>()
    };
    let mut alone = [rows(&["box1"]), rows(&["box2"])].concat();
    let time = |row: &String| serde_json::from_str::<serde_json::Value>(row).unwrap()["time"].to_string();
    alone.sort_by_cached_key(time);
    assert!(alone.len() >= 6000 + 3000);
    assert!(rows(&["box1", "box2"]) == alone);
}
