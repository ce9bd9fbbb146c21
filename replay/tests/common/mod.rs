//! A log on disk as the recorder writes it, with what happens at an IOC: a put through a chain of
//! records, an asynchronous record, a put with callback, a denied put, a CA link into a second IOC.

#![allow(dead_code)] // each test program uses its part

pub mod collector;
pub mod consumers;
pub mod every;
pub mod growing;
pub mod network;

use iocrec_log::event::*;
use iocrec_log::storage::{Clocked, Directory};
use iocrec_log::writer::{Options, Writer};
use std::cell::Cell;
use std::io::Read;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::rc::Rc;

/// Where the wall clock stood at monotonic time 0: 2026-09-21T14:13:20 UTC.
pub const WALL: i64 = 1_790_000_000_000_000_000;
pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MS;

pub const CLIENT: u32 = 1;
pub const REMOTE: u32 = 2;
pub const SCAN: u32 = 3;
const CB_LOW: u32 = 4;

/// What common logs begin with.
pub fn definitions(host: &str) -> Vec<Fact> {
    let mut facts = vec![
        Fact::from(Host {
            name: host.into(),
            kernel: "6.1.0".into(),
            arch: "x86_64".into(),
            boot_id: "8f4b3c1e-0000-4000-8000-000000000001".into(),
            recorder: "0.1.0".into(),
            utc_offset: 0,
        }),
        Fact::Clock(Clock { wall: WALL }),
        Fact::Tier(TierChoice {
            tier: Tier::Perf,
            refused: vec![(Tier::Ring, "kernel 4.19 is older than 5.8".into())],
        }),
    ];
    for (id, name, port) in [(1, "demo", 5064), (2, "second", 5066)] {
        facts.push(Fact::from(Ioc {
            id,
            pid: 100 * id,
            start: 1_000_000_000,
            name: name.into(),
            exe: "/opt/epics/bin/softIoc".into(),
            cwd: "/".into(),
            command: vec!["softIoc".into()],
            base_version: "7.0.8.1".into(),
            ca_ports: vec![port],
            linkage: Linkage::Shared,
            not_probed: vec![],
            user: String::new(),
            pva_ports: Vec::new(),
            environment: Vec::new(),
        }));
    }
    for (id, ioc, name) in
        [(CLIENT, 1, "CAS-client"), (REMOTE, 2, "CAS-client"), (SCAN, 1, "scan-0.1"), (CB_LOW, 1, "cbLow")]
    {
        facts.push(Fact::Thread(Thread { id, ioc, tid: 1000 + id, name: name.into(), stack: 1 << 40 }));
    }
    for (id, ioc, name, rtype) in
        [(1, 1, "T:SP", "ao"), (2, 1, "T:CALC", "calc"), (3, 1, "T:SLOW", "calcout"), (4, 2, "R:FAR", "ao")]
    {
        facts.push(Fact::from(Record { id, ioc, address: 4096, name: name.into(), rtype: rtype.into() }));
    }
    for (id, ioc, rtype, name) in [(1, 1, "ao", "VAL"), (2, 1, "calc", "A"), (3, 2, "ao", "VAL")] {
        facts.push(Fact::from(Field {
            id,
            ioc,
            rtype: rtype.into(),
            name: name.into(),
            dbf: Dbf::Double,
            menu: None,
        }));
    }
    for (id, function) in [(1, "dbChannel_put"), (2, "scanList"), (3, "write_notify_action")] {
        let (function, module) = (function.into(), "libdbCore.so".into());
        facts.push(Fact::from(CallSite { id, ioc: 1, address: 1, function, module }));
    }
    let server = Ipv4Addr::new(10, 0, 0, 9);
    for (id, port, user, console) in [(1, 5064, "alice", "console3"), (2, 5066, "softioc", "box1")] {
        facts.push(Fact::from(Circuit {
            id,
            client: Address::new(Ipv4Addr::new(10, 0, 0, 5), 41_000 + id as u16),
            server: Address::new(server, port),
            user: user.into(),
            host: console.into(),
            minor: 13,
            origin: Origin::Opened,
        }));
    }
    for (id, circuit, pv) in [(1, 1, "T:SP"), (2, 2, "R:FAR"), (3, 1, "T:CALC.A")] {
        let (cid, sid) = (Some(id), Some(id));
        let (dbr, count) = (Some(6), Some(1));
        facts.push(Fact::from(Channel {
            id,
            circuit,
            cid,
            sid,
            pv: pv.into(),
            dbr,
            count,
            origin: Origin::Opened,
        }));
    }
    facts
}

pub fn ca_put(circuit: u32, channel: u32, notify: bool, ioid: u32, v: f64) -> Fact {
    let payload = v.to_be_bytes().to_vec();
    Fact::CaPut(CaPut { circuit, channel, notify, dbr: 6, count: 1, ioid, length: 8, payload })
}

pub fn put(
    kind: PutKind,
    thread: u32,
    sp: i64,
    site: u32,
    (record, field): (u32, u32),
    old: f64,
    v: f64,
) -> Fact {
    let (old, requested) = match kind {
        PutKind::Notify => (Value::Unknown, Value::Unknown),
        PutKind::PutField => (Value::Unknown, Value::Double(v)),
        PutKind::Put => (Value::Double(old), Value::Double(v)),
    };
    Fact::from(Put {
        thread,
        sp,
        site,
        kind,
        record,
        field: Some(field),
        dbf: Dbf::Double,
        count: 1,
        requested,
        old,
    })
}

pub fn process(thread: u32, sp: i64, site: u32, record: u32) -> Fact {
    Fact::Process(Process { thread, sp, site, record, active: false })
}

pub fn complete(thread: u32, sp: i64, record: u32, v: f64, severity: u16) -> Fact {
    Fact::Complete(Complete { thread, sp, site: 0, record, value: Value::Double(v), severity, status: 0 })
}

/// Two puts to T:SP from 1 s on: what Bob requests 100 ms later is carried out 80 ms earlier.
pub fn overtaken() -> Vec<(u64, Fact)> {
    let bob = 9;
    let address = |last, port| Address::new(Ipv4Addr::new(10, 0, 0, last), port);
    let circuit = Circuit {
        id: bob,
        client: address(6, 41_009),
        server: address(9, 5064),
        user: "bob".into(),
        host: "console4".into(),
        minor: 13,
        origin: Origin::Opened,
    };
    let (cid, sid, dbr, count) = (Some(bob), Some(bob), Some(6), Some(1));
    let channel =
        Channel { id: bob, circuit: bob, cid, sid, pv: "T:SP".into(), dbr, count, origin: Origin::Opened };
    let thread = Thread { id: bob, ioc: 1, tid: 1009, name: "CAS-client".into(), stack: 1 << 40 };
    let written = |time: u64, thread: u32, old: f64, v: f64| {
        [
            (time, put(PutKind::PutField, thread, -1000, 1, (1, 1), old, v)),
            (time + 1000, put(PutKind::Put, thread, -1200, 0, (1, 1), old, v)),
            (time + 2000, process(thread, -1200, 0, 1)),
            (time + 3000, complete(thread, -1300, 1, v, 0)),
        ]
    };
    let mut facts = vec![(0, Fact::Thread(thread)), (0, Fact::from(circuit)), (0, Fact::from(channel))];
    facts.push((1000 * MS, ca_put(1, 1, false, 1, 5.0)));
    facts.push((1100 * MS, ca_put(bob, bob, false, 1, 6.0)));
    facts.extend(written(1120 * MS, bob, 1.0, 6.0));
    facts.extend(written(1200 * MS, CLIENT, 6.0, 5.0));
    facts
}

/// What happens, in the time from 1 s to 4 s.
pub fn happenings() -> Vec<(u64, Fact)> {
    let us = 1000;
    let mut facts = Vec::new();
    let mut tell = |time: u64, fact: Fact| facts.push((time, fact));
    // alice puts 2 to T:SP, which writes to T:CALC, whose forward link is asynchronous.
    let t = SECOND;
    tell(t, ca_put(1, 1, false, 1, 2.0));
    tell(t + 100 * us, put(PutKind::PutField, CLIENT, -1000, 1, (1, 1), 1.0, 2.0));
    tell(t + 110 * us, put(PutKind::Put, CLIENT, -1200, 0, (1, 1), 1.0, 2.0));
    tell(t + 120 * us, process(CLIENT, -1200, 0, 1));
    tell(t + 130 * us, put(PutKind::Put, CLIENT, -1500, 0, (2, 2), 1.0, 2.0));
    tell(t + 140 * us, process(CLIENT, -1550, 0, 2));
    tell(t + 150 * us, complete(CLIENT, -1700, 2, 20.0, 2));
    tell(t + 160 * us, process(CLIENT, -1900, 0, 3));
    let delayed = CauseKind::CallbackRequestProcessDelayed;
    tell(
        t + 170 * us,
        Fact::Cause(Cause { thread: CLIENT, sp: -2100, site: 0, kind: delayed, object: 7, record: Some(3) }),
    );
    let pv = "R:FAR".to_owned();
    let link = CaLinkPut {
        thread: CLIENT,
        sp: -1500,
        site: 0,
        record: Some(1),
        pv,
        dbf: Dbf::Double,
        count: 1,
        value: Value::Double(2.0),
    };
    tell(t + 180 * us, Fact::from(link));
    tell(t + 190 * us, complete(CLIENT, -1300, 1, 2.0, 0));
    tell(t + 500 * MS, complete(CB_LOW, -300, 3, f64::NAN, 3));
    // The CA link's put in the second IOC.
    tell(t + MS, ca_put(2, 2, false, 1, 2.0));
    tell(t + 2 * MS, put(PutKind::PutField, REMOTE, -1000, 0, (4, 3), 0.0, 2.0));
    tell(t + 2 * MS + us, put(PutKind::Put, REMOTE, -1200, 0, (4, 3), 0.0, 2.0));
    tell(t + 2 * MS + 2 * us, process(REMOTE, -1200, 0, 4));
    tell(t + 2 * MS + 3 * us, complete(REMOTE, -1300, 4, 2.0, 0));
    // A put with callback, and one that is denied.
    let t = 2 * SECOND;
    tell(t, ca_put(1, 1, true, 2, 2.0));
    tell(t + 100 * us, put(PutKind::Notify, CLIENT, -900, 3, (1, 1), 0.0, 0.0));
    tell(t + 110 * us, put(PutKind::Put, CLIENT, -1200, 0, (1, 1), 2.0, 2.0));
    tell(t + 120 * us, process(CLIENT, -1200, 0, 1));
    tell(t + 130 * us, complete(CLIENT, -1300, 1, 2.0, 0));
    tell(
        t + 3 * MS,
        Fact::CaAnswer(CaAnswer { circuit: 1, ioid: 2, notify: true, status: 1, text: String::new() }),
    );
    tell(t + 100 * MS, ca_put(1, 3, true, 3, 9.0));
    let denied = CaAnswer { circuit: 1, ioid: 3, notify: true, status: 376, text: String::new() };
    tell(t + 101 * MS, Fact::CaAnswer(denied));
    // A scan, a mark, a loss.
    let t = 3 * SECOND;
    for n in 0..5 {
        tell(t + n * 100 * MS, process(SCAN, -100, 2, 2));
        tell(t + n * 100 * MS + us, complete(SCAN, -200, 2, 20.0, 0));
    }
    tell(t + 600 * MS, Fact::Mark("beam lost".into()));
    let cause = "ring buffer full".to_owned();
    tell(4 * SECOND, Fact::Loss(Loss { source: LossSource::Hits, count: 17, since: t, cause }));
    facts.sort_by_key(|(time, _)| *time);
    facts
}

/// Writes a log of what happens.
pub fn write_log(directory: &Path, host: &str, run: u128) {
    write_events(directory, host, run, happenings());
}

/// Writes a log of certain events.
pub fn write_events(directory: &Path, host: &str, run: u128, happenings: Vec<(u64, Fact)>) {
    write_set(directory, host, run, happenings, 0);
}

/// The same on a machine that began in 1970 and whose clock was set at a monotonic time.
pub fn write_set(directory: &Path, host: &str, run: u128, happenings: Vec<(u64, Fact)>, set: u64) {
    write_defined(directory, definitions(host), run, happenings, set);
}

/// The same of a log that begins with these definitions.
pub fn write_defined(
    directory: &Path,
    definitions: Vec<Fact>,
    run: u128,
    happenings: Vec<(u64, Fact)>,
    set: u64,
) {
    let shown = |time: u64| if time < set { time as i64 } else { WALL + time as i64 };
    let options = Options { segment: Some(64 << 10), ..Options::default() };
    let wall = Rc::new(Cell::new(shown(0)));
    let clocked = Clocked { storage: Directory::open(directory).unwrap(), wall: Rc::clone(&wall) };
    let mut writer = Writer::open(clocked, options, run).unwrap();
    for fact in definitions {
        let fact = if let Fact::Clock(_) = fact { Fact::Clock(Clock { wall: shown(0) }) } else { fact };
        writer.push(Event { time: 0, fact });
    }
    let (mut now, mut noted) = (0, 0);
    for (time, fact) in happenings {
        // as the recorder does: every ten seconds, and when the clock is set
        if time >= noted + 10 * SECOND || (now < set && time >= set) {
            noted = time;
            writer.push(Event { time, fact: Fact::Clock(Clock { wall: shown(time) }) });
        }
        writer.push(Event { time, fact });
        now = now.max(time);
        wall.set(shown(now));
        writer.tick(now);
    }
    writer.close(now);
    assert_eq!(writer.status().lost, 0);
}

/// Writes a run of what happens that begins this many seconds after [`WALL`], and ends four seconds later.
pub fn write_later(directory: &Path, host: &str, run: u128, later: i64) {
    write_events_later(directory, host, run, later, happenings(), 4 * SECOND);
}

/// The same of these events, and ends at a monotonic time.
pub fn write_events_later(
    directory: &Path,
    host: &str,
    run: u128,
    later: i64,
    happenings: impl IntoIterator<Item = (u64, Fact)>,
    end: u64,
) {
    let begin = WALL + later * SECOND as i64;
    let wall = Rc::new(Cell::new(begin));
    let clocked = Clocked { storage: Directory::open(directory).unwrap(), wall: Rc::clone(&wall) };
    let mut writer = Writer::open(clocked, Options::default(), run).unwrap();
    let clock = |fact| if let Fact::Clock(_) = fact { Fact::Clock(Clock { wall: begin }) } else { fact };
    let all = definitions(host).into_iter().map(|fact| (0, clock(fact)));
    for (time, fact) in all.chain(happenings) {
        writer.push(Event { time, fact });
        wall.set(begin + time as i64);
        writer.tick(time);
    }
    writer.close(end);
}

/// The segments in a directory, in order.
pub fn segments(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "iocrec"))
        .collect();
    files.sort();
    files
}

/// iocreplay, with the arguments.
pub fn iocreplay<A: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iocreplay"));
    command.args(arguments).env("TZ", "UTC").stdin(Stdio::null());
    command
}

/// What a run of iocreplay gave: exit code, standard output, standard error.
pub fn outcome(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

/// Whether nothing is on stderr; or where logs of several hosts are merged, that it is not known how their clocks differ.
pub fn only_clocks_are_unknown(stderr: &str, hosts: usize) -> bool {
    let may_be_said = hosts > 1 && stderr.starts_with("iocreplay: how the clocks of ");
    stderr.is_empty() || may_be_said && stderr.lines().count() == 1
}

/// Whether a command writes bytes that are no text.
pub fn is_binary<A: AsRef<str>>(arguments: &[A]) -> bool {
    arguments.iter().any(|word| word.as_ref().starts_with("otlp-proto") || word.as_ref() == "perfetto")
}

/// Runs iocreplay in a directory. Bytes that are no text are shown as replacement characters.
pub fn run(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut output = iocreplay(arguments).current_dir(directory).output().unwrap();
    if is_binary(arguments) {
        output.stdout = String::from_utf8_lossy(&output.stdout).into_owned().into_bytes();
    }
    outcome(output)
}

/// The longest that a command may take: a busy machine and a slow build are no reason to fail.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(300);

/// Runs iocreplay and tells its exit code, what it said, and its memory at the most, bytes. Its answer is in the file
/// `answer` in that directory.
///
/// # Panics
/// If a signal ends it, or it takes far too long.
pub fn measured(directory: &Path, arguments: &[&str]) -> (i32, String, u64) {
    let mut command = iocreplay(arguments);
    let answer = std::fs::File::create(directory.join("answer")).unwrap();
    command.current_dir(directory).stdout(answer).stderr(Stdio::piped());
    #[allow(clippy::zombie_processes)] // waited for below, by wait4
    let mut child = command.spawn().unwrap();
    let pid = libc::pid_t::try_from(child.id()).unwrap();
    let (ended, end) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        if end.recv_timeout(LONGEST) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            // SAFETY: kill takes no pointers; the child is not reaped before this thread has ended.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    });
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    drop(ended);
    watch.join().unwrap();
    let mut status = 0;
    // SAFETY: zeros are a valid rusage; both pointers are to live values of the right types.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::wait4(pid, &mut status, 0, &mut usage), pid);
        usage
    };
    assert!(libc::WIFEXITED(status), "{arguments:?}: {status:#x} {said}");
    (libc::WEXITSTATUS(status), said, usage.ru_maxrss as u64 * 1024)
}
