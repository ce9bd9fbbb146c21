//! Tests of the life of traced processes, by the inspector's reports.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use iocrec_log::event::{Container, ContainerRuntime, Fact, Ioc, IocEnd, Linkage, Loss};

use super::{attach, ports, Processes};
use crate::ca::servers::Server;
use crate::inspector::{CaServer, Finding, FoundRecord, Inspector, ProcessInfo, Report, DATABASE_GONE};
use crate::ioc::functions::Function;
use crate::ioc::records::{ListFault, WalkError};
use crate::linux::ending::Ending;
use crate::linux::reader::budget::Refused;
use crate::probes::attacher::ProbeError;
use crate::probes::not_probed::NotProbed;
use crate::probes::probe::Hold;
use crate::pva;
use crate::recorder::circuits::places::Places;
use crate::recorder::env::EndedPorts;
use crate::recorder::error::{NotTraced, StartError};
use crate::recorder::registry::traced_ioc::Probing;
use crate::recorder::shortfall::Shortfall;
use crate::recorder::sources::{Resting, Source};
use crate::recorder::testing::{Bench, FakeProcess, TestIoc, OTHER_PID, PID, SECOND};

struct Bed {
    bench: Bench,
    processes: Processes,
    ioc: TestIoc,
}

fn bed() -> Bed {
    let bench = Bench::new();
    bench.clock.monotonic.set(10 * SECOND);
    let ioc = TestIoc::new(PID);
    bench.procfs.set(PID, FakeProcess { start: 1, image: Some((1, 2)), ..FakeProcess::default() });
    let processes = Processes::new(None, &bench.options, 10 * SECOND);
    bench.sink.take();
    Bed { bench, processes, ioc }
}

fn info() -> ProcessInfo {
    let command = vec!["softIoc".into(), "st.cmd".into()];
    ProcessInfo {
        command,
        exe: "/usr/bin/softIoc".into(),
        cwd: "/".into(),
        user: "ioc".into(),
        container: None,
    }
}

impl Bed {
    /// Handles a report of the process that began at `start`. Returns the facts handed to the sink.
    fn report(&mut self, start: u64, finding: Finding) -> Vec<Fact> {
        // what was known before is captured by now
        self.bench.iocs.iter_mut().for_each(|ioc| ioc.is_captured = true);
        let report = Report { pid: PID, start, finding };
        self.processes.work_on(&mut self.bench.context(), report);
        self.facts()
    }

    fn facts(&mut self) -> Vec<Fact> {
        self.bench.sink.take().into_iter().map(|event| event.fact).collect()
    }

    fn found(&self) -> Finding {
        let not_probed = vec![NotProbed::NoSymbol(Function::ScanOnce)];
        let (ioc, ending) = (self.ioc.process.clone(), Ending::expect(PID));
        Finding::Ioc { ioc, process: info(), placed: 3, not_probed, ending }
    }

    /// Notices ended processes, and lets them go once what they did last has been taken.
    fn survey(&mut self) -> Vec<Fact> {
        self.processes.survey(&mut self.bench.context());
        let noticed = self.facts();
        assert!(ends(&noticed).is_empty(), "what they did last may still wait: {noticed:?}");
        self.processes.process_ended(&mut self.bench.context());
        self.facts()
    }
}

/// The process serves Channel Access at these ports.
fn server(ports: &[u16]) -> Vec<CaServer> {
    found(ports, None)
}

/// The same, and perhaps PVAccess at another.
fn found(ports: &[u16], guess: Option<u16>) -> Vec<CaServer> {
    let (pva_search, is_guess) = (guess.map(|_| 5076), guess.is_some());
    let (ports, udp) = (ports.to_vec(), Vec::new());
    let server = Server { pid: PID, ports, pva_port: guess, pva_search, is_guess, udp };
    vec![CaServer { server, start: 1, process: Some(info()) }]
}

fn serves(ports: &[u16]) -> Finding {
    Finding::Servers(server(ports))
}

/// It mostly has them again when it starts again, and its clients may put to it before it is found.
#[test]
fn the_ports_of_an_ended_server_are_kept_unless_processes_were_chosen() {
    let many: Vec<u16> = (6000..6009).collect();
    let cases = [
        (Vec::new(), vec![5064], true),
        (vec![PID], vec![5064], false),
        // one without any, or with very many, takes no room from others
        (Vec::new(), Vec::new(), false),
        (Vec::new(), many, false),
    ];
    for (pids, ports, are_kept) in cases {
        let mut bed = bed();
        let found = bed.found();
        bed.report(1, found);
        bed.bench.iocs.get_mut(PID).expect("it is traced").about.ca_ports.clone_from(&ports);
        bed.bench.options.pids = pids;
        bed.bench.procfs.remove(PID);
        bed.survey();
        assert!(bed.bench.iocs.is_empty());
        let ended: Vec<Vec<u16>> = bed.bench.run.ended_ports.iter().map(|ended| ended.ca.clone()).collect();
        assert_eq!(ended, if are_kept { vec![ports] } else { Vec::new() });
    }
}

/// Anybody's servers may end as often as he likes.
#[test]
fn the_ended_servers_of_one_user_leave_room_for_those_of_others() {
    for (user, is_kept) in [("guest", false), ("ioc", true)] {
        let mut bed = bed();
        let ended = |port| EndedPorts {
            until: 60 * SECOND,
            namespace: 0,
            ca: vec![port],
            pva: Vec::new(),
            user: "guest".into(),
        };
        bed.bench.run.ended_ports = (6000..6064).map(ended).collect();
        let found = bed.found();
        bed.report(1, found);
        let about = &mut bed.bench.iocs.get_mut(PID).expect("it is traced").about;
        (about.ca_ports, about.user) = (vec![5064], user.into());
        bed.bench.procfs.remove(PID);
        bed.survey();
        assert!(bed.bench.iocs.is_empty());
        assert_eq!(bed.bench.run.ended_ports.iter().any(|ended| ended.ca == [5064]), is_kept, "{user}");
    }
}

fn found_record(address: u64, name: &str) -> FoundRecord {
    let (name, rtype, states) = (name.into(), "calc".into(), Vec::new());
    FoundRecord { address, name, rtype, alias: false, states, node: 1 }
}

fn only_ioc(facts: &[Fact]) -> &Ioc {
    match facts {
        [Fact::Ioc(ioc)] => ioc,
        other => panic!("{other:?}"),
    }
}

fn ends(facts: &[Fact]) -> Vec<&IocEnd> {
    facts.iter().filter_map(|fact| if let Fact::IocEnd(end) = fact { Some(end) } else { None }).collect()
}

#[test]
fn an_ioc_is_announced_followed_and_missed() {
    let mut bed = bed();
    let found = bed.found();
    let facts = bed.report(1, found);
    let ioc = only_ioc(&facts);
    assert_eq!((ioc.id, ioc.pid, ioc.name.as_str(), ioc.user.as_str()), (1, PID, "test", "ioc"));
    assert_eq!(ioc.not_probed, ["scanOnceCallback: no such symbol"]);
    let address = bed.ioc.calc("T:A");
    let facts = bed.report(1, Finding::Records(vec![found_record(address, "T:A")]));
    assert!(matches!(&facts[..], [Fact::Record(record)] if record.name == "T:A"));
    assert_eq!(bed.report(1, Finding::Changed(bed.ioc.process.clone())), [], "nothing new to announce");
    bed.bench.procfs.remove(PID);
    let facts = bed.survey();
    let how = "its process is gone; this kernel does not tell how it ended";
    assert_eq!(ends(&facts), [&IocEnd { ioc: 1, how: how.into() }]);
    assert!(bed.bench.iocs.is_empty());
    assert!(bed.bench.messages.iter().any(|line| line.starts_with("test (pid ")), "{:?}", bed.bench.messages);
}

/// Something may stop the recorder, and IOCs end meanwhile.
#[test]
fn an_end_during_a_stop_of_the_recorder_is_seen_late() {
    let mut bed = bed();
    let found = bed.found();
    bed.report(1, found);
    for now in [10 * SECOND, 11 * SECOND, 12 * SECOND] {
        let (iocs, circuits) = (&bed.bench.iocs, &bed.bench.circuits);
        bed.processes.rest(&Resting { now, patience: Duration::ZERO, iocs, circuits });
    }
    // it ends while the loop waits
    bed.bench.procfs.remove(PID);
    bed.bench.clock.monotonic.set(17 * SECOND);
    let facts = bed.survey();
    let [end] = ends(&facts)[..] else { panic!("{facts:?}") };
    assert!(end.how.ends_with(" (up to 6.0 s before this was seen)"), "{}", end.how);
}

/// The recorder may open no more files: that tells nothing of an IOC.
#[test]
fn an_ioc_that_cannot_be_read_has_not_ended() {
    let mut bed = bed();
    let unread = |unread| FakeProcess { start: 1, image: Some((1, 2)), unread, ..FakeProcess::default() };
    bed.bench.procfs.set(PID, unread(Some(Errno::EMFILE)));
    let found = bed.found();
    only_ioc(&bed.report(1, found));
    let begin = Instant::now();
    bed.processes.inspector.set_inspected(PID, 1, true);
    for _ in 0..3 {
        assert!(ends(&bed.survey()).is_empty());
        assert!(bed.processes.inspector.has_inspected(PID, begin), "it is forgotten, and so are its probes");
        bed.bench.clock.monotonic.set(bed.bench.clock.monotonic.get() + 10 * SECOND);
    }
    bed.bench.procfs.set(PID, unread(Some(Errno::ESRCH)));
    assert_eq!(ends(&bed.survey()).len(), 1);
}

/// Probes that could not be placed again at once may be later; and a process that has ended has lost nothing.
#[test]
fn probes_are_lost_and_found() {
    let mut bed = bed();
    let found = bed.found();
    bed.report(1, found);
    let probing = |bed: &mut Bed| std::mem::take(&mut bed.bench.iocs.get_mut(PID).expect("the IOC").probing);
    let attach = |bed: &mut Bed| {
        bed.bench.iocs.get_mut(PID).expect("the IOC").probing =
            Probing { placed: 3, ready: true, in_maps: true, attached: true, lost: 0 };
    };
    attach(&mut bed);
    let (hold, until) = (Hold::Lost(ProbeError::Ended), 5 * SECOND);
    let facts = bed.report(1, Finding::ProbesGone { hold, until, placed: 0 });
    let detached = |fact: &Fact| matches!(fact, Fact::Detached(detached) if detached.since == until);
    assert!(facts.iter().any(detached), "{facts:?}");
    bed.report(1, Finding::ProbesGone { hold: Hold::HeldAnew, until: 0, placed: 3 });
    let now = probing(&mut bed);
    assert_eq!((now.placed, now.lost), (3, until));
    attach(&mut bed);
    bed.bench.procfs.remove(PID);
    assert_eq!(bed.report(1, Finding::ProbesGone { hold: Hold::HeldAnew, until, placed: 3 }), []);
}

/// An IOC's hits are not taken if its probes were lost while it loaded its records.
#[test]
fn probes_that_are_lost_before_hits_are_taken() {
    let mut bed = bed();
    let found = bed.found();
    bed.report(1, found);
    let ioc = |bed: &mut Bed| {
        let ioc = bed.bench.iocs.get_mut(PID).expect("the IOC");
        let lacks = ioc.shortfalls.have(|shortfall| matches!(shortfall, Shortfall::ProbesLost(_)));
        (ioc.probing.placed, lacks)
    };
    assert_eq!(ioc(&mut bed), (3, false));
    let lost = || Finding::ProbesGone { hold: Hold::Lost(ProbeError::Ended), until: SECOND, placed: 3 };
    bed.report(1, lost());
    bed.report(1, lost());
    assert_eq!(ioc(&mut bed), (0, true));
    bed.report(1, Finding::ProbesGone { hold: Hold::HeldAnew, until: 0, placed: 3 });
    assert_eq!(ioc(&mut bed), (3, false));
}

/// Probes that are added while others are lost do not make the recording whole.
#[test]
fn probes_that_are_added_do_not_replace_those_that_are_lost() {
    let mut bed = bed();
    let found = bed.found();
    bed.report(1, found);
    let probing = |bed: &mut Bed| bed.bench.iocs.get_mut(PID).expect("the IOC").probing;
    bed.bench.iocs.get_mut(PID).expect("the IOC").probing =
        Probing { placed: 3, ready: true, in_maps: true, attached: true, lost: 0 };
    let (hold, until) = (Hold::Lost(ProbeError::Ended), 5 * SECOND);
    bed.report(1, Finding::ProbesGone { hold, until, placed: 3 });
    for added in [
        Finding::ProcessRoutines { placed: 4, not_probed: Vec::new() },
        Finding::NoDebugger { placed: 5, not_probed: Vec::new() },
    ] {
        bed.report(1, added);
        let now = probing(&mut bed);
        assert_eq!((now.placed, now.attached, now.lost), (0, false, until));
    }
    bed.report(1, Finding::ProbesGone { hold: Hold::HeldAnew, until: 0, placed: 5 });
    assert_eq!(probing(&mut bed).placed, 5);
}

#[test]
fn the_container_of_an_ioc_is_told_once() {
    let mut bed = bed();
    let container = Container {
        ioc: 0,
        runtime: ContainerRuntime::Docker,
        id: "4f3c".repeat(16),
        pod: String::new(),
        is_kubernetes: false,
        host_name: "vac".into(),
    };
    let process = ProcessInfo { container: Some(container.clone()), ..info() };
    let (ioc, not_probed, ending) = (bed.ioc.process.clone(), Vec::new(), Ending::expect(PID));
    let facts = bed.report(1, Finding::Ioc { ioc, process, placed: 3, not_probed, ending });
    let [Fact::Ioc(ioc), Fact::Container(told)] = facts.as_slice() else { panic!("{facts:?}") };
    assert_eq!(**told, Container { ioc: ioc.id, ..container });
    let process = Arc::new({
        let mut process = (*bed.ioc.process).clone();
        process.name = "renamed".into();
        process
    });
    assert_eq!(only_ioc(&bed.report(1, Finding::Changed(process))).name, "renamed");
}

#[test]
fn a_report_about_the_process_that_had_the_number_before_counts_for_nothing() {
    let mut bed = bed();
    let found = bed.found();
    bed.bench.procfs.set(PID, FakeProcess { start: 7, ..FakeProcess::default() });
    assert_eq!(bed.report(1, found), [], "it has ended meanwhile");
    bed.ioc.process = Arc::new({
        let mut process = (*bed.ioc.process).clone();
        process.start = 7;
        process
    });
    let found = bed.found();
    assert_eq!(only_ioc(&bed.report(7, found)).start, 7);
    assert_eq!(bed.report(1, Finding::DatabaseGone), []);
    let address = bed.ioc.calc("T:A");
    assert_eq!(bed.report(1, Finding::Records(vec![found_record(address, "T:A")])), []);
    assert_eq!(bed.report(7, Finding::Records(vec![found_record(address, "T:A")])).len(), 1);
    assert!(bed.bench.iocs.has(PID));
    // another process has the number now
    bed.bench.procfs.set(PID, FakeProcess { start: 8, ..FakeProcess::default() });
    assert_eq!(ends(&bed.survey()).len(), 1);
}

/// To place its probes may take longer than it lives.
#[test]
fn an_ioc_that_ended_before_it_was_recorded_is_told() {
    let mut bed = bed();
    let start = 11 * SECOND;
    bed.ioc.process = Arc::new({
        let mut process = (*bed.ioc.process).clone();
        process.start = start;
        process
    });
    bed.bench.procfs.remove(PID);
    bed.bench.clock.monotonic.set(14 * SECOND);
    let found = bed.found();
    let facts = bed.report(start, found);
    let [Fact::Ioc(ioc), Fact::IocEnd(end)] = &facts[..] else { panic!("{facts:?}") };
    assert_eq!((ioc.pid, ioc.start, ioc.name.as_str()), (PID, start, "test"));
    assert_eq!((end.ioc, end.how.as_str()), (ioc.id, "it ended before it was recorded"));
    assert!(bed.bench.iocs.is_empty());
}

/// A process that ended and whose parent has not waited for it tells that on each kernel.
#[test]
fn how_an_ioc_ended_before_it_was_recorded_is_told() {
    let mut child = std::process::Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
    let begin = Instant::now();
    while Ending::expect(child.id()).status().is_none() && begin.elapsed().as_secs() < 20 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut bed = bed();
    let start = 11 * SECOND;
    let mut process = (*bed.ioc.process).clone();
    process.start = start;
    bed.bench.procfs.remove(PID);
    bed.bench.clock.monotonic.set(14 * SECOND);
    let (ioc, ending) = (Arc::new(process), Ending::expect(child.id()));
    let facts =
        bed.report(start, Finding::Ioc { ioc, process: info(), placed: 3, not_probed: Vec::new(), ending });
    let [Fact::Ioc(_), Fact::IocEnd(end)] = &facts[..] else { panic!("{facts:?}") };
    assert_eq!(end.how, "exit status 3, before it was recorded");
    child.wait().unwrap();
}

#[test]
fn a_process_that_becomes_another_is_another() {
    let mut bed = bed();
    let found = bed.found();
    bed.report(1, found);
    bed.bench.procfs.set(PID, FakeProcess { start: 1, image: Some((5, 6)), ..FakeProcess::default() });
    let facts = bed.survey();
    let [end] = ends(&facts)[..] else { panic!("{facts:?}") };
    assert!(end.how.contains("another program"), "{}", end.how);
    // its database alone
    bed.bench.procfs.set(PID, FakeProcess { start: 1, image: None, ..FakeProcess::default() });
    let found = bed.found();
    assert_eq!(only_ioc(&bed.report(1, found)).id, 2);
    // what it did as the first one was recorded
    let began = |bed: &mut Bed| bed.bench.with(PID, |ioc, env| attach::beginning(env, ioc));
    assert_eq!(began(&mut bed), 10 * SECOND);
    bed.bench.clock.monotonic.set(20 * SECOND);
    let facts = bed.report(1, Finding::DatabaseGone);
    assert_eq!(ends(&facts), [&IocEnd { ioc: 2, how: DATABASE_GONE.into() }]);
    // or a hit finds it gone
    let found = bed.found();
    bed.report(1, found);
    assert_eq!(began(&mut bed), 20 * SECOND);
    let record = bed.ioc.calc("T:A");
    bed.ioc.reload();
    assert_eq!(bed.bench.with(PID, |ioc, env| ioc.record(env, 1, record)), None);
    bed.processes.take(&mut bed.bench.context());
    assert_eq!(ends(&bed.facts()), [&IocEnd { ioc: 3, how: DATABASE_GONE.into() }]);
}

#[test]
fn what_is_missing_is_announced_and_taken_back() {
    let mut bed = bed();
    let found = bed.found();
    bed.report(1, found);
    let missing = |facts: &[Fact]| only_ioc(facts).not_probed.get(1..).map(<[String]>::to_vec);
    let facts = bed.report(1, Finding::Unanswered(Refused::Time));
    let line = "names and changes may be missing: reading it takes longer than is allowed".to_string();
    assert_eq!(missing(&facts), Some(vec![line]));
    assert_eq!(bed.report(1, Finding::Unanswered(Refused::Time)), [], "nothing new");
    assert_eq!(missing(&bed.report(1, Finding::AnswersAgain)), Some(vec![]));
    let fault = ListFault::Circle;
    let outcome = Err(WalkError { rtype: "ao".into(), fault });
    let facts = bed.report(1, Finding::AllRecords { claimed: 10, found: 4, outcome });
    let [Fact::Loss(Loss { count: 6, .. }), Fact::Ioc(ioc)] = &facts[..] else { panic!("{facts:?}") };
    assert!(ioc.not_probed[1].starts_with("records are named when they are first seen: "));
    let facts = bed.report(1, Finding::AllRecords { claimed: 10, found: 10, outcome: Ok(()) });
    assert_eq!(missing(&facts), Some(vec![]));
}

#[test]
fn a_server_may_come_to_be_an_ioc() {
    let mut bed = bed();
    // it may be an IOC: it is inspected first
    assert_eq!(bed.report(0, serves(&[5064])), []);
    assert!(!bed.bench.iocs.has(PID) && !bed.processes.is_through());
    let found = bed.found();
    assert_eq!(only_ioc(&bed.report(1, found)).id, 1);
    let facts = bed.report(0, serves(&[5064]));
    assert_eq!(only_ioc(&facts).ca_ports, [5064]);
    assert_eq!(bed.report(0, serves(&[5064])), [], "nothing new");
    assert_eq!(only_ioc(&bed.report(0, serves(&[5066]))).ca_ports, [5066]);
}

/// What its clients send before that is missing.
#[test]
fn ports_are_told_once_packets_are_captured_there() {
    let mut bed = bed();
    let found = bed.found();
    bed.report(1, found);
    let report = Report { pid: PID, start: 0, finding: serves(&[5064]) };
    bed.processes.work_on(&mut bed.bench.context(), report);
    assert_eq!(bed.facts(), [], "nothing is captured there yet");
    bed.bench.with(PID, |ioc, env| ioc.tell_ports(env, SECOND));
    assert_eq!(only_ioc(&bed.facts()).ca_ports, [5064]);
    bed.bench.with(PID, |ioc, env| ioc.tell_ports(env, 2 * SECOND));
    assert_eq!(bed.facts(), [], "nothing new");
}

/// Where others have millions of descriptors a search of all processes takes long.
#[test]
fn a_young_ioc_does_not_wait_for_a_search_of_all_processes() {
    let mut bed = bed();
    let found = bed.found();
    bed.report(1, found);
    let Bed { bench, processes, .. } = &mut bed;
    let mut search = || processes.ports.search(&bench.context(), &processes.inspector, 10 * SECOND);
    search();
    search();
    assert_eq!(processes.ports.asked(), (true, true));
    let facts = bed.report(0, Finding::ServersAmong(server(&[5064, 5066])));
    assert_eq!(only_ioc(&facts).ca_ports, [5064, 5066]);
    assert_eq!(bed.processes.ports.asked(), (true, false));
    assert_eq!(bed.report(0, serves(&[5064])), [], "it has looked before");
    assert_eq!(bed.processes.ports.asked(), (false, false));
    bed.processes.ports.search(&bed.bench.context(), &bed.processes.inspector, 700 * SECOND);
    assert_eq!(only_ioc(&bed.report(0, serves(&[5064]))).ca_ports, [5064]);
}

/// Anybody can answer a search with the port at which a client of PVAccess serves something else.
#[test]
fn a_server_of_pvaccess_is_told_once_packets_show_it() {
    let mut bed = bed();
    let guess = || Finding::Servers(found(&[], Some(40001)));
    let places = |bed: &mut Bed| {
        let cx = bed.bench.context();
        Places::find(&cx.env, cx.iocs)
    };
    assert_eq!(bed.report(0, guess()), [], "it may be an IOC");
    bed.processes.inspector.set_inspected(PID, 1, true);
    for _ in 0..2 {
        assert_eq!(bed.report(0, guess()), []);
        let found = places(&mut bed);
        assert!(found.wanted[&0].ports.has(&pva::SERVICE, 40001), "its first client is captured");
        assert_eq!((&found.wanted[&0].guessed, &found.recorded), (&vec![40001], &Vec::new()));
        assert_eq!(found.guesses, [(1, PID)]);
    }
    assert_eq!(bed.report(0, Finding::Servers(Vec::new())), [], "nothing has begun to listen");
    bed.bench.options.pids = vec![PID];
    assert!(bed.processes.started(&mut bed.bench.context(), true).is_ok(), "it is waited for");
    for (namespace, port) in [(0, 40002), (7, 40001)] {
        ports::confirm(&mut bed.bench.context(), namespace, port);
        assert_eq!(bed.facts(), [], "another's");
    }
    ports::confirm(&mut bed.bench.context(), 0, 40001);
    let facts = bed.facts();
    let ioc = only_ioc(&facts);
    assert_eq!((ioc.id, ioc.linkage, ioc.pva_ports.as_slice()), (1, Linkage::Foreign, &[40001][..]));
    assert_eq!(bed.report(0, guess()), [], "nothing new");
    let found = places(&mut bed);
    assert_eq!((&found.wanted[&0].guessed, found.recorded.len()), (&Vec::new(), 1));
    assert!(found.wanted[&0].ports.has(&pva::SERVICE, 40001));
}

/// Another process may get its port.
#[test]
fn what_might_have_been_a_server_is_forgotten_at_its_end() {
    let mut bed = bed();
    let guess = || Finding::Servers(found(&[], Some(40001)));
    bed.report(0, guess());
    bed.processes.inspector.set_inspected(PID, 1, true);
    bed.report(0, guess());
    assert!(bed.bench.iocs.is_guess(PID));
    bed.bench.procfs.remove(PID);
    bed.report(0, Finding::Servers(Vec::new()));
    assert!(!bed.bench.iocs.is_guess(PID));
}

/// What serves Channel Access is a server, whatever its other ports are for.
#[test]
fn another_port_of_a_server_is_told_once_packets_show_it() {
    let mut bed = bed();
    let both = || Finding::Servers(found(&[5064], Some(40001)));
    assert_eq!(bed.report(0, both()), []);
    bed.processes.inspector.set_inspected(PID, 1, true);
    let facts = bed.report(0, both());
    let ioc = only_ioc(&facts);
    assert_eq!((ioc.ca_ports.as_slice(), ioc.pva_ports.as_slice()), (&[5064][..], &[][..]));
    ports::confirm(&mut bed.bench.context(), 0, 40001);
    assert_eq!(only_ioc(&bed.facts()).pva_ports, [40001]);
    assert_eq!(bed.report(0, both()), [], "nothing new");
}

/// On a busy machine reading it takes longer than is allowed: then nothing is known of it.
#[test]
fn a_server_that_could_not_be_read_may_be_an_ioc() {
    let mut bed = bed();
    let server = || serves(&[5064]);
    for is_read in [false, true] {
        assert_eq!(bed.report(0, server()), []);
        bed.processes.inspector.set_inspected(PID, 1, is_read);
        let facts = bed.report(0, server());
        let linkage = facts.iter().find_map(|fact| match fact {
            Fact::Ioc(ioc) => Some(ioc.linkage),
            _ => None,
        });
        assert_eq!(linkage, is_read.then_some(Linkage::Foreign));
        // as when it could be read a moment later
        bed.processes.inspector.set_inspected(PID, 1, true);
    }
}

/// The search for servers may answer between an inspection's report and the loop that takes it.
#[test]
fn an_ioc_whose_report_still_waits_is_no_other_server() {
    let mut bed = bed();
    let server = || serves(&[5064]);
    assert_eq!(bed.report(0, server()), []);
    bed.processes.inspector.put_report(Report { pid: PID, start: 1, finding: bed.found() });
    bed.processes.inspector.set_inspected(PID, 1, true);
    assert_eq!(bed.report(0, server()), [], "its report comes behind this one");
    bed.processes.take(&mut bed.bench.context());
    let facts = bed.facts();
    assert_eq!(only_ioc(&facts).linkage, bed.ioc.process.linkage);
    assert_eq!(bed.report(0, server()).iter().filter(|fact| matches!(fact, Fact::IocEnd(_))).count(), 0);
}

/// What could not be inspected may be an IOC: none of its limits may make the recorder say that there is none.
#[test]
fn a_start_without_room_or_threads_does_not_call_processes_no_iocs() {
    let mut bed = bed();
    assert!(bed.processes.started(&mut bed.bench.context(), true).is_ok());
    assert!(bed.bench.messages.iter().any(|line| line.contains("no IOC was found")));
    bed.bench.messages.clear();
    bed.report(1, Finding::Unanswered(Refused::NoRoom));
    assert!(bed.processes.started(&mut bed.bench.context(), true).is_ok());
    let [line] = bed.bench.messages.as_slice() else { panic!("{:?}", bed.bench.messages) };
    assert!(line.contains("can be inspected") && line.contains("lacks files, processes or memory"), "{line}");
    bed.bench.options.pids = vec![PID];
    bed.processes.inspector = Inspector::without_threads();
    let refused = bed.processes.started(&mut bed.bench.context(), true);
    assert!(matches!(refused, Err(StartError::NoThread)), "{refused:?}");
}

#[test]
fn a_start_without_what_was_asked_for_says_why() {
    let mut bed = bed();
    bed.bench.options.pids = vec![PID, OTHER_PID];
    let refused = bed.processes.started(&mut bed.bench.context(), true);
    let Err(StartError::NotTraced { pid: OTHER_PID, reason: NotTraced::NoProcess }) = refused else {
        panic!("{refused:?}")
    };
    let found = bed.found();
    bed.report(1, found);
    assert!(bed.processes.started(&mut bed.bench.context(), true).is_ok(), "one of the two is there");
    let line = format!("there is no process {OTHER_PID}; iocrec check lists the running IOCs");
    assert_eq!(bed.bench.messages.last(), Some(&line));
    // this one exists, and /proc does not show it here
    let own = std::process::id();
    bed.bench.options.pids = vec![own];
    let refused = bed.processes.started(&mut bed.bench.context(), true);
    let line = format!("process {own} is hidden from this user (hidepid of /proc); run as root");
    assert_eq!(refused.err().map(|error| error.to_string()), Some(line));
    // a process that takes long to inspect may be an IOC, but one that has ended is not
    bed.bench.options.pids = vec![PID + 1];
    bed.bench.procfs.set(PID + 1, FakeProcess::default());
    assert!(bed.processes.started(&mut bed.bench.context(), false).is_ok());
}
