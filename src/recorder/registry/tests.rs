//! Tests of the registry: everything is defined once, and forgotten with its process.

use iocrec_log::event::{Fact, PactCheck};

use crate::inspector::{FoundRecord, Request};
use crate::recorder::env::limits::MAX_CALL_SITES;
use crate::recorder::env::NewRecord;
use crate::recorder::registry::threads::{HitPlace, Step};
use crate::recorder::registry::Registry;
use crate::recorder::selection::Selection;
use crate::recorder::testing::{Bench, FakeProcess, TestIoc, OTHER_PID, PACT, PID};

fn found(address: u64, name: &str, states: &[&str]) -> FoundRecord {
    let states = states.iter().map(ToString::to_string).collect();
    FoundRecord { address, name: name.into(), rtype: "calc".into(), alias: false, states, node: address + 1 }
}

fn names(bench: &Bench) -> Vec<(u32, String)> {
    let name = |fact: Fact| match fact {
        Fact::Record(record) => Some((record.id, record.name)),
        _ => None,
    };
    bench.facts().into_iter().filter_map(name).collect()
}

fn record(bench: &mut Bench, pid: u32, address: u64) -> Option<u32> {
    bench.with(pid, |ioc, env| ioc.record(env, 1, address))
}

#[test]
fn a_record_is_defined_once_however_it_becomes_known() {
    let (mut bench, mut ioc) = (Bench::new(), TestIoc::new(PID));
    let (first, second) = (ioc.calc("T:A"), ioc.bo("T:B"));
    let id = bench.trace(&ioc);
    assert_eq!([1, 2].map(|_| record(&mut bench, PID, first)), [Some(1); 2]);
    let all = vec![found(first, "T:A", &[]), found(second, "T:B", &["off", "on"])];
    bench.with(PID, |ioc, env| ioc.define(env, 2, all));
    assert_eq!(record(&mut bench, PID, second), Some(2));
    let facts = bench.facts();
    let [Fact::Record(one), Fact::Record(other), Fact::EnumStrings(states)] = &facts[..] else {
        panic!("{facts:?}")
    };
    assert_eq!((one.id, one.ioc, one.name.as_str(), one.rtype.as_str()), (1, id, "T:A", "calc"));
    assert_eq!((other.id, other.address), (2, second));
    assert_eq!((states.record, &states.states[..]), (2, &["off".to_string(), "on".into()][..]));
}

/// `record("#", "T:A")` has freed a record, and one that was loaded later has got its memory.
#[test]
fn a_record_in_the_place_of_one_that_was_deleted_is_another() {
    let (mut bench, mut ioc) = (Bench::new(), TestIoc::new(PID));
    bench.options.selection = Selection::new(&[], &["T:B".into()]);
    bench.run.new_records = Some(Vec::new());
    let address = ioc.calc("T:A");
    bench.trace(&ioc);
    for name in ["T:A", "T:A", "T:B", "T:C", "T:C"] {
        bench.with(PID, |ioc, env| ioc.define(env, 1, vec![found(address, name, &[])]));
    }
    assert_eq!(names(&bench), [(1, "T:A".to_string()), (2, "T:C".to_string())]);
    assert_eq!(record(&mut bench, PID, address), Some(2));
    let only = NewRecord { pid: PID, address, wanted: true };
    assert_eq!(bench.run.new_records, Some(vec![only]), "the programs learn of the last one");
}

#[test]
fn an_alias_is_defined_once_and_of_a_record_that_is_known() {
    let (mut bench, mut ioc) = (Bench::new(), TestIoc::new(PID));
    let address = ioc.calc("T:A");
    bench.trace(&ioc);
    let alias = |node| FoundRecord { alias: true, node, ..found(address, "T:OTHER", &[]) };
    bench.with(PID, |ioc, env| ioc.define(env, 1, vec![alias(7)]));
    assert!(bench.facts().is_empty(), "of nothing that the log has");
    bench.with(PID, |ioc, env| {
        ioc.define(env, 1, vec![found(address, "T:A", &[]), alias(7), alias(7), alias(8)]);
    });
    let aliases = bench.facts().iter().filter(|fact| matches!(fact, Fact::Alias(_))).count();
    assert_eq!(aliases, 2, "one for each node");
}

#[test]
fn what_is_not_wanted_has_no_id_and_the_programs_learn_of_it() {
    let (mut bench, mut ioc) = (Bench::new(), TestIoc::new(PID));
    bench.options.selection = Selection::new(&[], &["*:B".into()]);
    bench.run.new_records = Some(Vec::new());
    let (first, second) = (ioc.calc("T:A"), ioc.calc("T:B"));
    bench.trace(&ioc);
    assert_eq!([first, second, second].map(|at| record(&mut bench, PID, at)), [Some(1), None, None]);
    assert_eq!(names(&bench), [(1, "T:A".to_string())]);
    let new = |address, wanted| NewRecord { pid: PID, address, wanted };
    assert_eq!(bench.run.new_records, Some(vec![new(first, true), new(second, false)]));
    bench.iocs.remove(PID, &mut bench.run);
    assert_eq!(bench.run.new_records, Some(Vec::new()), "nor of what is gone");
}

/// Two IOCs that run the same program have their records at the same addresses.
#[test]
fn each_ioc_has_its_own() {
    let (mut bench, mut ioc) = (Bench::new(), TestIoc::new(PID));
    let address = ioc.calc("T:A");
    bench.trace(&ioc);
    let mut twin = (*ioc.process).clone();
    twin.pid = OTHER_PID;
    ioc.process = twin.into();
    let other = bench.trace(&ioc);
    let ids = [PID, OTHER_PID, PID].map(|pid| record(&mut bench, pid, address));
    assert_eq!(ids, [Some(1), Some(2), Some(1)]);
    let iocs: Vec<u32> = bench
        .facts()
        .into_iter()
        .filter_map(|fact| if let Fact::Record(record) = fact { Some(record.ioc) } else { None })
        .collect();
    assert_eq!(iocs, [1, other]);
}

#[test]
fn what_ended_is_forgotten_and_its_ids_are_not_used_again() {
    let (mut bench, mut ioc) = (Bench::new(), TestIoc::new(PID));
    let address = ioc.calc("T:A");
    bench.trace(&ioc);
    assert_eq!(record(&mut bench, PID, address), Some(1));
    let site = |bench: &mut Bench| bench.with(PID, |ioc, env| ioc.call_site(env, 1, 0x1234));
    assert_eq!((site(&mut bench), site(&mut bench)), (1, 1));
    assert_eq!(bench.run.limits.call_sites, 1);
    assert!(bench.iocs.remove(PID, &mut bench.run).is_some());
    assert!(bench.iocs.is_empty() && bench.iocs.get(PID).is_none());
    assert_eq!(bench.run.limits.call_sites, 0);
    // another process with the same number, and the same program
    let again = bench.trace(&ioc);
    assert_eq!(again, 2);
    assert_eq!((record(&mut bench, PID, address), site(&mut bench)), (Some(2), 2));
    assert_eq!(names(&bench), [(1, "T:A".to_string()), (2, "T:A".to_string())]);
    // and one that takes its place before its end was noticed
    bench.trace(&ioc);
    assert_eq!(bench.run.limits.call_sites, 0);
    assert_eq!(record(&mut bench, PID, address), Some(3));
}

#[test]
fn call_sites_have_a_limit_for_all_iocs_together() {
    let (mut bench, mut ioc) = (Bench::new(), TestIoc::new(PID));
    bench.trace(&ioc);
    let sites = |bench: &mut Bench, from: u64, to: u64| -> Vec<u32> {
        bench.with(PID, |ioc, env| (from..to).map(|address| ioc.call_site(env, 1, address)).collect())
    };
    let alone = MAX_CALL_SITES / 2;
    let all = sites(&mut bench, 1, alone as u64 + 3);
    assert_eq!(all.iter().filter(|&&id| id == 0).count(), 2);
    assert_eq!(bench.run.requests.len(), alone, "each is looked up once");
    assert!(bench.run.requests.iter().all(|request| matches!(request, Request::CallSite { .. })));
    assert_eq!(sites(&mut bench, 1, 2), [1], "those that are known stay so");
    assert_eq!(sites(&mut bench, 0, 1), [0], "no return address");
    // one that calls from everywhere leaves room for others
    let mut twin = (*ioc.process).clone();
    twin.pid = OTHER_PID;
    ioc.process = twin.into();
    bench.trace(&ioc);
    let site = bench.with(OTHER_PID, |ioc, env| ioc.call_site(env, 1, 0x1234));
    assert_eq!(site, alone as u32 + 1);
}

/// dbFreeBase and another database: later hits may belong to that one.
#[test]
fn a_record_of_a_reloaded_database_is_not_taken_for_the_old_ones() {
    let (mut bench, mut ioc) = (Bench::new(), TestIoc::new(PID));
    let (known, later) = (ioc.calc("T:A"), ioc.calc("T:B"));
    bench.trace(&ioc);
    assert_eq!(record(&mut bench, PID, known), Some(1));
    ioc.reload();
    assert_eq!(record(&mut bench, PID, later), None);
    assert!(bench.iocs.get(PID).is_some_and(|ioc| ioc.database_is_gone));
    assert_eq!(names(&bench), [(1, "T:A".to_string())]);
}

fn hit(bench: &mut Bench, tid: u32, sp: u64, time: u64, step: Step) -> (u32, bool) {
    let place = HitPlace { tid, sp, time };
    let (known, new) = bench.with(PID, |ioc, env| ioc.hit(env, place, step)).expect("an IOC");
    (known.id, new.is_some())
}

#[test]
fn a_thread_s_number_may_be_another_s_after_its_end() {
    let (mut bench, ioc) = (Bench::new(), TestIoc::new(PID));
    let mut process =
        FakeProcess { threads: vec![(7, "scan-1"), (8, "CAS-client")], ..FakeProcess::default() };
    bench.procfs.set(PID, process.clone());
    bench.trace(&ioc);
    assert_eq!(hit(&mut bench, 7, 100, 1, Step::Other), (1, true));
    assert_eq!(hit(&mut bench, 8, 100, 1, Step::Other), (2, true));
    let clock = bench.clock.clone();
    clock.monotonic.set(2);
    let sweep = |iocs: &mut Registry, procfs: &_| iocs.sweep_threads(procfs, &clock).len();
    assert_eq!(sweep(&mut bench.iocs, &bench.procfs), 2);
    assert_eq!(hit(&mut bench, 7, 90, 2, Step::Other), (1, false), "it lives");
    process.threads = vec![(8, "CAS-client")];
    bench.procfs.set(PID, process.clone());
    assert_eq!(sweep(&mut bench.iocs, &bench.procfs), 1);
    process.threads.push((7, "cbLow"));
    bench.procfs.set(PID, process);
    assert_eq!(hit(&mut bench, 7, 50, 3_000_000_000, Step::Other), (3, true));
    assert_eq!(hit(&mut bench, 8, 50, 3_000_000_000, Step::Other), (2, false));
    let threads: Vec<_> = bench.facts().into_iter().collect();
    let name = |fact: &Fact| match fact {
        Fact::Thread(thread) => (thread.id, thread.tid, thread.name.clone(), thread.stack),
        other => panic!("{other:?}"),
    };
    let expected = [(1, 7, "scan-1", 100), (2, 8, "CAS-client", 100), (3, 7, "cbLow", 50)];
    let expected = expected.map(|(id, tid, name, stack)| (id, tid, name.to_string(), stack));
    assert_eq!(threads.iter().map(name).collect::<Vec<_>>(), expected);
}

/// The kernel goes through the threads one by one, and loses its place where one ends.
#[test]
fn a_thread_that_the_list_leaves_out_is_the_same_thread() {
    let (mut bench, ioc) = (Bench::new(), TestIoc::new(PID));
    let mut process = FakeProcess { threads: vec![(7, "CAS-client")], ..FakeProcess::default() };
    bench.procfs.set(PID, process.clone());
    bench.trace(&ioc);
    assert_eq!(hit(&mut bench, 7, 100, 1, Step::Other), (1, true));
    process.unlisted = &[7];
    bench.procfs.set(PID, process);
    assert!(bench.iocs.sweep_threads(&bench.procfs, &bench.clock).contains(&7));
    assert_eq!(hit(&mut bench, 7, 100, 2, Step::Other), (1, false));
}

/// A client's thread ends with its circuit, and its last hits are taken afterwards.
#[test]
fn hits_from_before_a_thread_s_end_are_that_thread_s() {
    let (mut bench, ioc) = (Bench::new(), TestIoc::new(PID));
    let mut process = FakeProcess { threads: vec![(7, "CAS-client")], ..FakeProcess::default() };
    bench.procfs.set(PID, process.clone());
    bench.trace(&ioc);
    assert_eq!(hit(&mut bench, 7, 100, 1_000, Step::Other), (1, true));
    process.threads.clear();
    bench.procfs.set(PID, process);
    for now in [3_000, 4_000] {
        bench.clock.monotonic.set(now);
        assert!(bench.iocs.sweep_threads(&bench.procfs, &bench.clock).is_empty());
        assert_eq!(hit(&mut bench, 7, 90, 2_000, Step::Other), (1, false), "{now}");
    }
    assert_eq!(hit(&mut bench, 7, 50, 50_000_000, Step::Other), (2, true), "its number is given out again");
    for now in [60_000_000, 5_000_000_000] {
        bench.clock.monotonic.set(now);
        bench.iocs.sweep_threads(&bench.procfs, &bench.clock);
    }
    assert_eq!(hit(&mut bench, 7, 50, 51_000_000, Step::Other), (3, true), "it was forgotten");
}

/// A record whose processing is not seen to complete is checked: always once the processing has returned, before that
/// only if PACT says why.
#[test]
fn records_that_do_not_complete_are_looked_at() {
    let (mut bench, mut ioc) = (Bench::new(), TestIoc::new(PID));
    let (done, hangs, returned, works) =
        (ioc.calc("DONE"), ioc.calc("HANGS"), ioc.calc("RETURNED"), ioc.calc("WORKS"));
    // it may be active again, which shows nothing about the time that has completed
    ioc.put(done, PACT, &[1]);
    ioc.put(hangs, PACT, &[1]);
    bench.trace(&ioc);
    for record in [done, hangs, returned, works] {
        bench.with(PID, |ioc, env| ioc.record(env, 1, record));
    }
    hit(&mut bench, 1, 100, 10, Step::Process(done));
    // it completes on another thread
    hit(&mut bench, 2, 500, 11, Step::Complete(done));
    hit(&mut bench, 3, 100, 10, Step::Process(hangs));
    hit(&mut bench, 4, 100, 10, Step::Process(returned));
    hit(&mut bench, 4, 120, 11, Step::Other);
    hit(&mut bench, 5, 100, 10, Step::Process(works));
    let checks = |bench: &mut Bench, before| {
        bench.sink.take();
        bench.with(PID, |ioc, env| ioc.check_pact(env, before));
        let check = |fact| if let Fact::PactCheck(check) = fact { Some(check) } else { None };
        let mut checks: Vec<(u32, bool)> = bench
            .facts()
            .into_iter()
            .filter_map(check)
            .map(|PactCheck { record, active, .. }| (record, active))
            .collect();
        checks.sort_unstable();
        checks
    };
    assert_eq!(checks(&mut bench, 10), [], "it is not yet time");
    assert_eq!(checks(&mut bench, 20), [(2, true), (3, false)]);
    assert_eq!(checks(&mut bench, 20), [], "once");
}

/// One that is scanned and never completes, since it is disabled, began each time a moment ago.
#[test]
fn records_that_begin_again_before_the_look_are_looked_at() {
    let (mut bench, mut ioc) = (Bench::new(), TestIoc::new(PID));
    let scanned = ioc.calc("SCANNED");
    bench.trace(&ioc);
    bench.with(PID, |ioc, env| ioc.record(env, 1, scanned));
    for time in [10, 15, 25, 30] {
        hit(&mut bench, 1, 100, time, Step::Process(scanned));
    }
    bench.sink.take();
    bench.with(PID, |ioc, env| ioc.check_pact(env, 20));
    assert!(bench.facts().iter().any(|fact| matches!(fact, Fact::PactCheck(_))));
}

#[test]
fn a_field_and_what_a_put_to_it_changes() {
    let (mut bench, ioc) = (Bench::new(), TestIoc::new(PID));
    let (value, name) = (ioc.calc_value(), ioc.bo_name());
    bench.trace(&ioc);
    let mut field = |description| bench.with(PID, |ioc, env| ioc.field(env, 1, description));
    let (value, again, name, nonsense) = (field(value), field(value), field(name), field(8));
    assert_eq!((value, nonsense), (again, None));
    assert_eq!(value.map(|field| (field.id, field.reread)), Some((1, None)));
    assert!(name.is_some_and(|field| field.id == 2 && field.reread.is_some()));
    let defined: Vec<(String, String)> = bench
        .facts()
        .into_iter()
        .filter_map(|fact| if let Fact::Field(field) = fact { Some((field.rtype, field.name)) } else { None })
        .collect();
    assert_eq!(defined, [("calc".into(), "VAL".into()), ("bo".to_string(), "ONAM".to_string())]);
}
