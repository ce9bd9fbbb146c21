//! A test machine with an IOC on it, and a sink that keeps the events it gets.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use iocrec_log::event::{CallSite, Event, Fact, Ioc, IocId, Linkage};
use nix::errno::Errno;
use nix::poll::PollFd;

use crate::bpf::transport::Room;
use crate::ioc::image::{FieldLine, Image};
use crate::ioc::IocProcess;
use crate::linux::chosen::Chosen;
use crate::linux::clock::Clock;
use crate::linux::procfs::Procfs;
use crate::linux::width::Width;
use crate::probes::tiers::TierRequest;
use crate::recorder::circuits::Circuits;
use crate::recorder::context::Context;
use crate::recorder::env::Run;
use crate::recorder::env::{Env, Machine};
use crate::recorder::options::Options;
use crate::recorder::registry::traced_ioc::TracedIoc;
use crate::recorder::registry::Registry;
use crate::recorder::selection::Selection;
use crate::recorder::sink::Sink;

/// Nanoseconds.
pub const MILLISECOND: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MILLISECOND;

/// A clock that stands still until a test sets it or waits on it, or goes on by a step each time that it is read.
#[derive(Clone, Default)]
pub struct FakeClock {
    pub monotonic: Rc<Cell<u64>>,
    pub wall_offset: Rc<Cell<i64>>,
    pub step: Rc<Cell<u64>>,
}

impl Clock for FakeClock {
    fn monotonic(&self) -> u64 {
        self.monotonic.replace(self.monotonic.get() + self.step.get())
    }

    fn wall_offset(&self) -> i64 {
        self.wall_offset.get()
    }

    fn monotonic_of_boot(&self, boot: u64) -> u64 {
        boot
    }

    fn wait(&self, _descriptors: &mut [PollFd], longest: Duration) {
        self.monotonic.set(self.monotonic.get() + longest.as_nanos() as u64);
    }
}

/// A process of [`FakeProcfs`].
#[derive(Clone, Debug, Default)]
pub struct FakeProcess {
    pub start: u64,
    pub image: Option<(u64, u64)>,
    pub is_zombie: bool,
    /// Why its start and its network namespace can't be read.
    pub unread: Option<Errno>,
    /// Threads and their names.
    pub threads: Vec<(u32, &'static str)>,
    /// Those that the list of threads leaves out.
    pub unlisted: &'static [u32],
    pub namespace: u64,
    /// What its standard output is.
    pub stdout: &'static str,
}

/// Processes made up by tests.
#[derive(Clone, Default)]
pub struct FakeProcfs(pub Rc<RefCell<HashMap<u32, FakeProcess>>>);

impl FakeProcfs {
    pub fn set(&self, pid: u32, process: FakeProcess) {
        self.0.borrow_mut().insert(pid, process);
    }

    pub fn remove(&self, pid: u32) {
        self.0.borrow_mut().remove(&pid);
    }

    fn of<T>(&self, pid: u32, get: impl FnOnce(&FakeProcess) -> T) -> Option<T> {
        self.0.borrow().get(&pid).map(get)
    }
}

impl Procfs for FakeProcfs {
    fn pids(&self) -> io::Result<Vec<u32>> {
        // whoever may open no more files can read no directory either
        match self.0.borrow().values().any(|process| process.unread == Some(Errno::EMFILE)) {
            true => Err(Errno::EMFILE.into()),
            false => Ok(self.0.borrow().keys().copied().collect()),
        }
    }

    fn known_start(&self, pid: u32) -> Result<u64, Errno> {
        let start = |process: &FakeProcess| process.unread.map_or(Ok(process.start), Err);
        self.of(pid, start).unwrap_or(Err(Errno::ESRCH))
    }

    fn image(&self, pid: u32) -> Option<(u64, u64)> {
        self.of(pid, |process| process.image).flatten()
    }

    fn is_zombie(&self, pid: u32) -> bool {
        self.of(pid, |process| process.is_zombie).unwrap_or(false)
    }

    fn threads(&self, pid: u32) -> Vec<u32> {
        let listed = |process: &FakeProcess| -> Vec<u32> {
            let all = process.threads.iter().map(|thread| thread.0);
            all.filter(|tid| !process.unlisted.contains(tid)).collect()
        };
        self.of(pid, listed).unwrap_or_default()
    }

    fn thread_name(&self, pid: u32, tid: u32) -> String {
        let name = |process: &FakeProcess| process.threads.iter().find(|thread| thread.0 == tid).map(|t| t.1);
        self.of(pid, name).flatten().unwrap_or_default().to_string()
    }

    fn namespace(&self, pid: u32) -> Result<u64, Errno> {
        let namespace = |process: &FakeProcess| process.unread.map_or(Ok(process.namespace), Err);
        self.of(pid, namespace).unwrap_or(Err(Errno::ENOENT))
    }

    fn descriptor(&self, pid: u32, _number: u32) -> String {
        self.of(pid, |process| process.stdout.to_string()).unwrap_or_default()
    }
}

/// A sink that keeps the events it gets. Clones share one value. The second part: the segments begun and the bytes
/// written, if it is to look like a log.
#[derive(Clone, Default)]
pub struct Collected(pub Rc<RefCell<Vec<Event>>>, pub Rc<Cell<Option<(u32, u64)>>>);

impl Collected {
    pub fn facts(&self) -> Vec<Fact> {
        self.0.borrow().iter().map(|event| event.fact.clone()).collect()
    }

    /// Facts since the last call.
    pub fn take(&self) -> Vec<Event> {
        self.0.take()
    }
}

impl Sink for Collected {
    fn push(&mut self, event: Event) {
        self.0.borrow_mut().push(event);
    }

    fn tick(&mut self, _now: u64) {}

    fn await_site(&mut self, time: u64, site: CallSite) {
        self.push(Event { time, fact: Fact::from(site) });
    }

    fn segments(&self) -> Option<u32> {
        self.1.get().map(|log| log.0)
    }

    fn written(&self) -> Option<u64> {
        self.1.get().map(|log| log.1)
    }
}

pub fn options() -> Options {
    Options {
        tier: TierRequest::Auto,
        room: Room::default(),
        interfaces: Vec::new(),
        ports: Vec::new(),
        pids: Vec::new(),
        chosen: Chosen::default(),
        selection: Selection::default(),
        no_command_lines: false,
        puts: true,
        net: true,
        process: true,
        console: true,
        console_rate: 20,
        resources: true,
        io: false,
        snapshots: None,
        duration: None,
        thin: None,
        retain: None,
    }
}

/// Everything that parts of the recorder work with.
pub struct Bench {
    pub clock: FakeClock,
    pub procfs: FakeProcfs,
    pub sink: Collected,
    pub messages: Vec<String>,
    pub options: Options,
    pub run: Run,
    pub iocs: Registry,
    pub circuits: Circuits,
    machine: Machine,
}

/// A machine made of these.
pub fn machine(clock: &FakeClock, procfs: &FakeProcfs) -> Machine {
    Machine { clock: Box::new(clock.clone()), procfs: Box::new(procfs.clone()), is_told_to_end: || false }
}

impl Bench {
    pub fn new() -> Bench {
        let (clock, procfs) = (FakeClock::default(), FakeProcfs::default());
        let machine = machine(&clock, &procfs);
        Bench {
            clock,
            procfs,
            sink: Collected::default(),
            messages: Vec::new(),
            options: options(),
            run: Run::default(),
            iocs: Registry::default(),
            circuits: Circuits::default(),
            machine,
        }
    }

    pub fn context(&mut self) -> Context<'_> {
        let env = Env {
            now: self.clock.monotonic(),
            wall_offset: 0,
            options: &self.options,
            machine: &self.machine,
            sink: &mut self.sink,
            messages: &mut self.messages,
            run: &mut self.run,
        };
        Context { env, iocs: &mut self.iocs, circuits: &mut self.circuits, maps: None, changed: false }
    }

    pub fn env(&mut self) -> Env<'_> {
        self.context().env
    }

    pub fn facts(&self) -> Vec<Fact> {
        self.sink.facts()
    }
}

/// Pids that no process has.
pub const PID: u32 = 4_000_000_000;
pub const OTHER_PID: u32 = PID + 100;

/// Offsets of fields in a record of [`TestIoc`].
pub const PACT: usize = 425;
pub const SEVR: usize = 412;
pub const TIME: usize = 512;
pub const VAL: usize = 688;
pub const EGU: usize = 700;
/// A link: its kind lies 8 bytes in it, and the pointer to its name 48.
pub const INPUT: usize = 900;
const RDES: u16 = 568;
const VALUE: u16 = VAL as u16;
const SCAN: usize = 132;
const DISV: usize = 182;

/// An IOC with two record types, calc and bo, in this process's own memory.
pub struct TestIoc {
    pub image: Image,
    calc: usize,
    bo: usize,
    variable: usize,
    pub process: Arc<IocProcess>,
}

impl TestIoc {
    pub fn new(pid: u32) -> TestIoc {
        let mut image = Image::new(Width::Bits64);
        let common: [FieldLine; 8] = [
            ("STAT", 12, 410, 2),
            ("PACT", 2, PACT as u16, 1),
            ("RDES", 17, RDES, 8),
            ("SCAN", 12, SCAN as u16, 2),
            ("SPVT", 17, 456, 8),
            ("EVNT", 0, 140, 40),
            ("DISA", 3, 180, 2),
            ("DISV", 3, DISV as u16, 2),
        ];
        let with = |own: &[FieldLine<'static>]| common.iter().chain(own).copied().collect::<Vec<_>>();
        let (base, first) = image.base();
        let of_calc = [
            ("VAL", 10, VALUE, 8),
            ("TIME", 17, TIME as u16, 8),
            ("DESC", 0, 61, 41),
            ("EGU", 0, 700, 16),
            ("HIGH", 10, 720, 8),
            ("HSV", 12, 728, 2),
            ("SDIS", 14, 740, 80),
            ("TSEL", 14, 820, 80),
            ("INPA", 14, INPUT as u16, 80),
        ];
        let calc = image.record_type(first, "calc", &with(&of_calc));
        let states = [("VAL", 11, VALUE, 2), ("ZNAM", 0, 700, 26), ("ONAM", 0, 726, 26)];
        let bo = image.record_type(calc, "bo", &with(&states));
        let (process, variable) = image.process(pid, base);
        assert!(process.layout.is_ok(), "{:?}", process.layout.err());
        TestIoc { image, calc, bo, variable, process: Arc::new(process) }
    }

    fn record(&mut self, rtype: usize, name: &str) -> u64 {
        let at = self.image.record(rtype, RDES, name);
        self.image.put(at + DISV, &1u16.to_ne_bytes());
        self.image.address(at)
    }

    /// Makes a new calc record. Returns its address.
    pub fn calc(&mut self, name: &str) -> u64 {
        self.record(self.calc, name)
    }

    /// Makes a new bo record. Returns its address.
    pub fn bo(&mut self, name: &str) -> u64 {
        self.record(self.bo, name)
    }

    /// The descriptions of calc's VAL and SCAN, and of bo's ONAM.
    pub fn calc_value(&self) -> u64 {
        self.image.address(self.image.field(self.calc, 8))
    }

    pub fn bo_name(&self) -> u64 {
        self.image.address(self.image.field(self.bo, 10))
    }

    /// Writes into a record.
    pub fn put(&mut self, record: u64, offset: usize, bytes: &[u8]) {
        let at = (record - self.image.address(0)) as usize;
        self.image.put(at + offset, bytes);
    }

    /// dbFreeBase and another dbLoadDatabase: the variable points to another database.
    pub fn reload(&mut self) {
        let (base, _) = self.image.base();
        self.image.point(self.variable, base);
    }
}

/// The log's description of an IOC.
pub fn about(id: IocId, pid: u32) -> Ioc {
    Ioc {
        id,
        pid,
        start: 1,
        name: "test".into(),
        exe: String::new(),
        cwd: String::new(),
        command: Vec::new(),
        base_version: String::new(),
        ca_ports: Vec::new(),
        linkage: Linkage::Shared,
        not_probed: Vec::new(),
        user: String::new(),
        pva_ports: Vec::new(),
        environment: Vec::new(),
    }
}

impl Bench {
    /// Traces an IOC.
    pub fn trace(&mut self, ioc: &TestIoc) -> IocId {
        let pid = ioc.process.pid;
        let id = self.run.ids.ioc();
        let traced = TracedIoc::new(&self.env(), about(id, pid), Some(ioc.process.clone()));
        self.iocs.add(traced, &mut self.run);
        id
    }

    /// Works with a traced IOC.
    pub fn with<T>(&mut self, pid: u32, work: impl FnOnce(&mut TracedIoc, &mut Env<'_>) -> T) -> T {
        let mut cx = self.context();
        work(cx.iocs.get_mut(pid).expect("it is traced"), &mut cx.env)
    }
}
