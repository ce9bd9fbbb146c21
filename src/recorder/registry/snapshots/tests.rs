use super::*;
use crate::inspector::FoundRecord;
use crate::recorder::registry::traced_ioc::TracedIoc;
use crate::recorder::testing::{
    Bench, FakeProcess, TestIoc, EGU, INPUT, MILLISECOND, PACT, PID, SEVR, TIME, VAL,
};
use iocrec_log::event::{Properties, Value};

/// An IOC that is traced, with so many calc records; their values are their numbers.
fn traced(records: u32) -> (Bench, TestIoc, Vec<u64>) {
    let (mut bench, mut ioc) = (Bench::new(), TestIoc::new(PID));
    bench.procfs.set(PID, FakeProcess { start: 1, ..FakeProcess::default() });
    bench.trace(&ioc);
    let addresses: Vec<u64> = (0..records).map(|number| ioc.calc(&format!("C{number}"))).collect();
    for (number, &address) in addresses.iter().enumerate() {
        ioc.put(address, VAL, &(number as f64).to_ne_bytes());
    }
    let found = addresses.iter().map(|&address| FoundRecord {
        address,
        name: format!("R{address}"),
        rtype: "calc".into(),
        alias: false,
        states: Vec::new(),
        node: address + 1,
    });
    let found = found.collect();
    bench.with(PID, |ioc, env| ioc.define(env, 1, found));
    bench.sink.take();
    (bench, ioc, addresses)
}

fn begin(bench: &mut Bench, budget: usize) {
    bench.with(PID, |ioc, env| {
        let TracedIoc { snapshots, records, .. } = ioc;
        snapshots.begin(env.monotonic(), records, budget);
    });
}

/// Takes a step 50 ms later, and returns its facts.
fn step(bench: &mut Bench) -> Vec<Fact> {
    bench.clock.monotonic.set(bench.clock.monotonic.get() + 50 * MILLISECOND);
    bench.with(PID, |ioc, env| ioc.step_snapshot(env));
    bench.sink.take().into_iter().map(|event| event.fact).collect()
}

fn is_under_way(bench: &mut Bench) -> bool {
    bench.with(PID, |ioc, _| ioc.snapshots.is_under_way())
}

/// Takes steps until the round ends.
fn round(bench: &mut Bench) -> Vec<Fact> {
    let mut facts = Vec::new();
    for _ in 0..10_000 {
        facts.extend(step(bench));
        if !is_under_way(bench) {
            return facts;
        }
    }
    panic!("the round never ends");
}

fn values(facts: &[Fact]) -> Vec<(u32, Value)> {
    let values = facts.iter().filter_map(|fact| match fact {
        Fact::Snapshot(snapshot) => Some((snapshot.record, snapshot.value.clone())),
        _ => None,
    });
    values.collect()
}

fn end(facts: &[Fact]) -> SnapshotEnd {
    let Some(Fact::SnapshotEnd(end)) = facts.last() else { panic!("{facts:?}") };
    *end
}

#[test]
fn all_records_in_turn() {
    let (mut bench, _ioc, addresses) = traced(150);
    begin(&mut bench, 100_000);
    assert!(step(&mut bench).is_empty(), "once is not enough");
    assert_eq!(values(&step(&mut bench)).len(), BATCH);
    let facts = round(&mut bench);
    assert_eq!(values(&facts).len() + BATCH, addresses.len());
    assert_eq!(end(&facts).taken as usize, addresses.len());
    let SnapshotEnd { unread, left, properties_left, since, .. } = end(&facts);
    assert_eq!((unread, left, properties_left, since), (0, 0, 0, 0));
    begin(&mut bench, 100_000);
    let expected: Vec<(u32, Value)> = (0..150).map(|at| (at + 1, Value::Double(f64::from(at)))).collect();
    assert_eq!(values(&round(&mut bench)), expected, "and again");
}

#[test]
fn what_changes_is_read_again_and_what_never_rests_is_left_out() {
    let (mut bench, mut ioc, addresses) = traced(4);
    let [changing, active, late, _] = addresses[..] else { panic!() };
    ioc.put(active, PACT, &[1]);
    begin(&mut bench, 100_000);
    let (mut facts, mut turn) = (Vec::new(), 0u32);
    while is_under_way(&mut bench) {
        turn += 1;
        ioc.put(changing, VAL, &f64::from(turn).to_ne_bytes());
        if turn == 2 {
            // the value first, the alarm later: never one with the other's
            ioc.put(late, VAL, &7.5f64.to_ne_bytes());
        } else if turn == 3 {
            ioc.put(late, SEVR, &2u16.to_ne_bytes());
            ioc.put(late, TIME, &[1, 0, 0, 0, 5, 0, 0, 0]);
        }
        facts.extend(step(&mut bench));
    }
    assert_eq!(end(&facts), SnapshotEnd { taken: 2, unread: 2, ..end(&facts) });
    let stamp = (cfg!(target_endian = "little")).then_some(631_152_001_000_000_005);
    let of_late = Snapshot { record: 3, value: Value::Double(7.5), severity: 2, status: 0, stamp };
    let expected = [4, 3];
    assert_eq!(values(&facts).iter().map(|value| value.0).collect::<Vec<_>>(), expected);
    assert!(facts.contains(&Fact::Snapshot(of_late)), "{facts:?}");
    let never = |fact: &Fact| matches!(fact, Fact::Snapshot(snapshot) if snapshot.record == 4 && snapshot.stamp.is_none());
    assert!(facts.iter().any(never));
}

#[test]
fn what_has_no_room_is_next() {
    let (mut bench, mut ioc, addresses) = traced(200);
    for (number, &address) in addresses.iter().enumerate() {
        // so that they do not pack to nothing
        let noise = (number as f64 * 78.233).sin();
        ioc.put(address, VAL, &noise.to_ne_bytes());
        ioc.put(address, EGU, format!("u{number}").as_bytes());
    }
    let budget = 1200;
    let (mut seen, mut units, mut rounds) = (Vec::new(), Vec::new(), 0);
    while seen.len() < addresses.len() || units.len() < addresses.len() {
        begin(&mut bench, budget);
        let facts = round(&mut bench);
        let own: Vec<u32> = values(&facts).into_iter().map(|value| value.0).collect();
        let end = end(&facts);
        assert_eq!((end.taken as usize, end.taken + end.left), (own.len(), 200));
        assert!(packed_size(&facts) <= budget + END_BYTES, "{}", packed_size(&facts));
        let own_units = facts.iter().filter(|fact| matches!(fact, Fact::Properties(_))).count();
        assert_eq!(end.properties_left as usize + own_units, 200);
        for fact in facts {
            match fact {
                Fact::Snapshot(snapshot) if !seen.contains(&snapshot.record) => seen.push(snapshot.record),
                Fact::Properties(properties) if !units.contains(&properties.record) => {
                    assert_eq!(properties.units, format!("u{}", properties.record - 1));
                    units.push(properties.record);
                }
                _ => {}
            }
        }
        rounds += 1;
        assert!(rounds < 100, "some never have their turn: {} {}", seen.len(), units.len());
    }
    let in_order: Vec<u32> = (1..=200).collect();
    assert_eq!((&seen, &units), (&in_order, &in_order), "in {rounds} rounds");
}

#[test]
fn one_that_never_has_room_does_not_stop_the_others() {
    let (mut bench, _ioc, _) = traced(3);
    begin(&mut bench, END_BYTES + 4);
    let facts = round(&mut bench);
    assert_eq!(end(&facts), SnapshotEnd { taken: 0, left: 3, ..end(&facts) });
    // it begins with the second
    begin(&mut bench, 10_000);
    let order: Vec<u32> = values(&round(&mut bench)).into_iter().map(|value| value.0).collect();
    assert_eq!(order, [2, 3, 1]);
}

#[test]
fn nothing_counts_of_a_process_that_is_another_now() {
    for change in [
        |bench: &mut Bench, _: &mut TestIoc| bench.procfs.remove(PID),
        |bench: &mut Bench, _: &mut TestIoc| {
            bench.procfs.set(PID, FakeProcess { start: 2, ..FakeProcess::default() });
        },
        |bench: &mut Bench, _: &mut TestIoc| {
            bench.procfs.set(PID, FakeProcess { start: 1, image: Some((1, 2)), ..FakeProcess::default() });
        },
        |bench: &mut Bench, _: &mut TestIoc| {
            bench.procfs.set(PID, FakeProcess { start: 1, is_zombie: true, ..FakeProcess::default() });
        },
        |_: &mut Bench, ioc: &mut TestIoc| ioc.reload(),
    ] {
        let (mut bench, mut ioc, _) = traced(3);
        begin(&mut bench, 10_000);
        step(&mut bench);
        change(&mut bench, &mut ioc);
        assert_eq!((step(&mut bench), is_under_way(&mut bench)), (Vec::new(), false));
    }
}

#[test]
fn an_end_before_all_is_read_says_so() {
    let (mut bench, _ioc, _) = traced(3 * BATCH as u32);
    begin(&mut bench, 100_000);
    step(&mut bench);
    let taken = values(&step(&mut bench)).len();
    bench.with(PID, |ioc, env| ioc.end_snapshot(env));
    let facts: Vec<Fact> = bench.sink.take().into_iter().map(|event| event.fact).collect();
    let left = 2 * BATCH as u32;
    assert_eq!(taken, BATCH);
    assert_eq!(
        end(&facts),
        SnapshotEnd { taken: BATCH as u32, left, properties_left: 3 * BATCH as u32, ..end(&facts) }
    );
    begin(&mut bench, 100_000);
    step(&mut bench);
    assert_eq!(values(&step(&mut bench))[0].0, BATCH as u32 + 1, "it goes on");
}

#[test]
fn what_is_not_set_has_no_properties() {
    let (mut bench, mut ioc, addresses) = traced(2);
    ioc.put(addresses[1], EGU, b"mm\0");
    begin(&mut bench, 10_000);
    let properties: Vec<Fact> =
        round(&mut bench).into_iter().filter(|fact| matches!(fact, Fact::Properties(_))).collect();
    let expected = Properties {
        record: 2,
        description: String::new(),
        units: "mm".into(),
        precision: None,
        display: None,
        control: None,
        lolo: None,
        low: None,
        high: None,
        hihi: None,
    };
    assert_eq!(properties, [Fact::Properties(Box::new(expected))]);
}

/// Record and text of the links.
fn links(facts: &[Fact]) -> Vec<(u32, String)> {
    let links = facts.iter().filter_map(|fact| match fact {
        Fact::FieldValue(FieldValue { record, value: Value::Text(text), .. }) => {
            Some((*record, String::from_utf8(text.clone()).unwrap()))
        }
        _ => None,
    });
    links.collect()
}

/// Points a record's input to a PV of this name.
fn link(ioc: &mut TestIoc, record: u64, name: &str) {
    let text = ioc.image.string(name);
    let text = ioc.image.address(text);
    ioc.put(record, INPUT + 8, &10u16.to_ne_bytes());
    ioc.put(record, INPUT + 48, &text.to_ne_bytes());
}

#[test]
fn links_are_read_in_turn_each_record_whole_or_not_at_all() {
    let (mut bench, mut ioc, addresses) = traced(100);
    for (number, &address) in addresses.iter().enumerate() {
        link(&mut ioc, address, &format!("SOURCE{number}.A"));
    }
    begin(&mut bench, 100_000);
    let facts = round(&mut bench);
    let found = links(&facts);
    assert_eq!(found.len(), 3 * addresses.len());
    let expected: Vec<(u32, String)> = (1..=100u32)
        .flat_map(|record| {
            [
                (record, String::new()),
                (record, String::new()),
                (record, format!("SOURCE{}.A NPP NMS", record - 1)),
            ]
        })
        .collect();
    assert_eq!(found, expected);
    assert_eq!(
        end(&facts),
        SnapshotEnd { taken: 100, unread: 0, left: 0, properties_left: 0, ..end(&facts) }
    );
    let (mut seen, mut rounds) = (Vec::new(), 0);
    while seen.len() < addresses.len() {
        begin(&mut bench, 1500);
        let facts = round(&mut bench);
        assert!(packed_size(&facts) <= 1500 + END_BYTES);
        let own = links(&facts);
        for group in own.chunks(3) {
            assert!(group.iter().all(|link| link.0 == group[0].0), "{own:?}");
            seen.extend((!seen.contains(&group[0].0)).then_some(group[0].0));
        }
        rounds += 1;
        assert!(rounds < 100, "some never have their turn: {seen:?}");
    }
    assert!(rounds > 1);
}

#[test]
fn a_link_that_changes_while_it_is_read_is_read_again() {
    let (mut bench, mut ioc, addresses) = traced(2);
    link(&mut ioc, addresses[0], "ONE");
    link(&mut ioc, addresses[1], "TWO");
    begin(&mut bench, 100_000);
    let (mut facts, mut turn) = (Vec::new(), 0u32);
    while is_under_way(&mut bench) {
        turn += 1;
        // each time anew, until it rests
        if turn <= 7 {
            link(&mut ioc, addresses[0], &format!("ONE{turn}"));
        }
        facts.extend(step(&mut bench));
    }
    let texts: Vec<String> =
        links(&facts).into_iter().map(|link| link.1).filter(|text| !text.is_empty()).collect();
    assert_eq!(texts, ["TWO NPP NMS", "ONE7 NPP NMS"]);
}
