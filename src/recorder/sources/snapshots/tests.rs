use super::*;
use crate::inspector::FoundRecord;
use crate::recorder::testing::{Bench, FakeProcess, TestIoc, MILLISECOND, OTHER_PID, PID, SECOND};
use iocrec_log::event::{Fact, SnapshotEnd};
use iocrec_testing::chance::{fuzz, Random};

/// Whatever is written when, a log that has filled its cap holds no more than 2 %.
#[test]
fn never_more_than_two_percent() {
    const MAX: u64 = 1_000_000;
    fuzz(100, |random: &mut Random| {
        let mut allowance = Allowance::new(MAX);
        // what was written, and how much of that was of snapshots
        let mut log: Vec<(u64, u64)> = Vec::new();
        let mut written = 0;
        for _ in 0..500 {
            let (others, greed) = (random.below(20_000) as u64, random.below(5) as u64);
            let spent = allowance.level * greed / 4;
            allowance.spend(spent as usize);
            written += others + spent;
            allowance.grow(written);
            log.push((others + spent, spent));
            assert!(allowance.level <= MAX / ONCE);
            // the newest of it that fit
            let (mut all, mut of_snapshots) = (0, 0);
            for (bytes, spent) in log.iter().rev() {
                all += bytes;
                if all > MAX {
                    break;
                }
                of_snapshots += spent;
            }
            assert!(of_snapshots <= MAX / 50, "{of_snapshots} of {MAX}");
        }
    });
}

fn trace(bench: &mut Bench, pid: u32, records: u32) -> TestIoc {
    let mut ioc = TestIoc::new(pid);
    bench.procfs.set(pid, FakeProcess { start: 1, ..FakeProcess::default() });
    bench.trace(&ioc);
    let found = (0..records).map(|number| FoundRecord {
        address: ioc.calc(&format!("{pid}:{number}")),
        name: format!("{pid}:{number}"),
        rtype: "calc".into(),
        alias: false,
        states: Vec::new(),
        node: u64::from(number) + 1,
    });
    let found = found.collect();
    bench.with(pid, |ioc, env| {
        ioc.define(env, 1, found);
        ioc.snapshots.due = true;
    });
    ioc
}

/// Lets a time pass. Returns the facts of snapshots.
fn run(bench: &mut Bench, source: &mut Snapshots, time: u64) -> Vec<Fact> {
    let until = bench.clock.monotonic.get() + time;
    while bench.clock.monotonic.get() < until {
        source.take(&mut bench.context());
        bench.clock.monotonic.set(bench.clock.monotonic.get() + 10 * MILLISECOND);
    }
    let facts = bench.sink.take().into_iter().map(|event| event.fact);
    facts.filter(|fact| matches!(fact, Fact::Snapshot(_) | Fact::SnapshotEnd(_))).collect()
}

fn ends(facts: &[Fact]) -> Vec<SnapshotEnd> {
    facts
        .iter()
        .filter_map(|fact| if let Fact::SnapshotEnd(end) = fact { Some(*end) } else { None })
        .collect()
}

#[test]
fn once_when_found_and_once_for_each_segment() {
    let (mut bench, mut source) = (Bench::new(), Snapshots::new(64 << 20));
    bench.clock.monotonic.set(100 * SECOND);
    let _ioc = trace(&mut bench, PID, 10);
    assert!(run(&mut bench, &mut source, SECOND).is_empty(), "no log");
    bench.sink.1.set(Some((0, 0)));
    let facts = run(&mut bench, &mut source, SECOND);
    assert_eq!((facts.len(), ends(&facts)[0].taken), (11, 10));
    bench.sink.1.set(Some((1, 10_000)));
    assert!(
        run(&mut bench, &mut source, SECOND).is_empty(),
        "the first segment was begun by its first events"
    );
    bench.sink.1.set(Some((2, 20_000)));
    assert_eq!(run(&mut bench, &mut source, SECOND).len(), 11);
    assert!(run(&mut bench, &mut source, 10 * SECOND).is_empty());
}

/// iocInit gives records values that no hit shows.
#[test]
fn not_before_the_ioc_is_initialized() {
    let (mut bench, mut source) = (Bench::new(), Snapshots::new(64 << 20));
    bench.sink.1.set(Some((1, 0)));
    let _ioc = trace(&mut bench, PID, 10);
    assert!(run(&mut bench, &mut source, SECOND).is_empty());
    bench.with(PID, |ioc, _| ioc.about.ca_ports = vec![5064]);
    assert_eq!(run(&mut bench, &mut source, SECOND).len(), 11);
}

#[test]
fn iocs_share_by_their_records_until_nothing_is_left() {
    let (mut bench, mut source) = (Bench::new(), Snapshots::new(800_000));
    bench.clock.monotonic.set(100 * SECOND);
    bench.sink.1.set(Some((1, 0)));
    let _iocs = (trace(&mut bench, PID, 100), trace(&mut bench, OTHER_PID, 300));
    let facts = run(&mut bench, &mut source, 5 * SECOND);
    let ends_of_both = ends(&facts);
    assert_eq!(ends_of_both.len(), 2, "{facts:?}");
    assert!(ends_of_both.iter().all(|end| end.taken > 0), "{ends_of_both:?}");
    // the log does not grow
    let mut segment = 1;
    loop {
        segment += 1;
        assert!(segment < 100, "they take more than there is");
        bench.sink.1.set(Some((segment, 0)));
        if run(&mut bench, &mut source, 5 * SECOND).is_empty() {
            break;
        }
    }
    bench.sink.1.set(Some((segment, 800_000)));
    assert!(!run(&mut bench, &mut source, SECOND).is_empty());
}
