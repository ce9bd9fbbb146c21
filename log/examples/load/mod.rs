//! Synthetic logs, shaped like those of real IOCs, for the examples that measure reading.
//!
//! There are six loads. [`Load::Scanning`]: a thousand records scanned ten times a second in chains of four, some of
//! them in alarm now and then, and a client that puts every three seconds. [`Load::Mixture`]: two scan threads with a
//! thousand records each, half of them noisy, in chains of four, and a client that puts. [`Load::Losses`]: two clients
//! that put as fast as they can while a recorder that gets no CPU loses nine tenths of the hits, so that most messages
//! wait for hits that never come. [`Load::Flood`] and [`Load::Crowd`]: very many puts to very many PVs (see [`crowd`]);
//! [`Load::Loops`]: records that feed themselves (see [`loops`]). These three end by themselves, whatever size is asked for.

pub mod crowd;
pub mod loops;

use crowd::Crowd;
use iocrec_log::event::{
    Address, CaAnswer, CaPut, CallSite, Channel, Circuit, Clock, Complete, Dbf, Event, Fact, Field, Host,
    Ioc, Linkage, Loss, LossSource, Origin, Process, Put, PutKind, Record, ServerThread, Thread, Tier,
    TierChoice, Value,
};
use iocrec_log::storage::{Clocked, Directory};
use iocrec_log::writer::{Options, Writer};
use loops::Loops;
use std::cell::Cell;
use std::error::Error;
use std::path::Path;
use std::rc::Rc;

const SECOND: u64 = 1_000_000_000;
/// Monotonic time at which the puts of a crowd, or of loops, begin: after the definitions.
const BEGUN_AFTER: u64 = 2 * SECOND;
/// Wall-clock time of the first event: in February 2026.
const BEGUN: i64 = 1_770_000_000 * SECOND as i64;
/// Number of records per scan thread.
const SCANNED: u32 = 1000;
/// Number of records per chain.
const CHAIN: u32 = 4;
/// The scan threads, and the first of the threads that serve clients.
const SCAN_THREADS: [u32; 2] = [1, 2];
const SERVER_THREAD: u32 = 3;
const CLIENTS: u32 = 2;
/// The first of the records to which clients put.
const PUT_TO: u32 = 9000;
/// Callers: scanList, processTarget, process (of recGblFwdLink), the CA server, dbPutField.
const SITES: [&str; 5] = ["scanList", "processTarget", "process", "write_action", "dbPutField"];
const DOUBLE: u16 = epics::Dbr::DOUBLE.0;

/// The contents of the log.
#[derive(Clone, Copy, PartialEq)]
pub enum Load {
    /// What a plant's log is full of: scanning, with a put every few seconds.
    Scanning,
    /// Scanning, with an occasional put.
    Mixture,
    /// A flood of puts, with few of their hits.
    Losses,
    /// A flood of puts to 10,000 PVs.
    Flood,
    /// Puts to 100,000 PVs on 2,000 circuits.
    Crowd,
    /// Records that feed themselves through CA links.
    Loops,
}

impl Load {
    /// The load with this name on the command line.
    pub fn named(name: &str) -> Option<Load> {
        match name {
            "scanning" => Some(Load::Scanning),
            "mixture" => Some(Load::Mixture),
            "losses" => Some(Load::Losses),
            "flood" => Some(Load::Flood),
            "crowd" => Some(Load::Crowd),
            "loops" => Some(Load::Loops),
            _ => None,
        }
    }
}

/// xorshift: good enough for noise.
pub struct Noise(pub u64);

impl Noise {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// The host, its clock, the tier, and the IOC, which has number 1.
pub fn machine() -> Vec<Fact> {
    vec![
        Fact::from(Host {
            name: "ioc-box".into(),
            kernel: "6.1.0".into(),
            arch: "x86_64".into(),
            boot_id: "0b8c2a3e-6f52-4d8e-9b35-0f3c1d0a7e11".into(),
            recorder: "0.1.0".into(),
            utc_offset: 0,
        }),
        Fact::Clock(Clock { wall: BEGUN }),
        Fact::Tier(TierChoice { tier: Tier::Ring, refused: Vec::new() }),
        Fact::from(Ioc {
            id: 1,
            pid: 4242,
            start: 77,
            name: "LINAC".into(),
            exe: "/opt/ioc/bin/linux-x86_64/softIoc".into(),
            cwd: "/opt/ioc/iocBoot".into(),
            command: vec!["softIoc".into(), "st.cmd".into()],
            base_version: "7.0.10".into(),
            ca_ports: vec![5064],
            linkage: Linkage::Shared,
            not_probed: vec![],
            user: String::new(),
            pva_ports: Vec::new(),
            environment: Vec::new(),
        }),
    ]
}

/// The field that is put to, and the callers.
fn sites() -> Vec<Fact> {
    let (rtype, name, dbf) = ("ao".into(), "VAL".into(), Dbf::Double);
    let mut facts = vec![Fact::from(Field { id: 1, ioc: 1, rtype, name, dbf, menu: None })];
    for (id, function) in (1..).zip(SITES) {
        let (function, module) = (function.into(), "libdbCore.so.3.23".into());
        let address = 0x7f00_4567_8000 + u64::from(id);
        facts.push(Fact::from(CallSite { id, ioc: 1, address, function, module }));
    }
    facts
}

fn definitions() -> Vec<Fact> {
    let thread = |id: u32, name: &str| {
        let (name, stack) = (name.into(), 0x7f00_0000_0000 + (u64::from(id) << 20));
        Fact::Thread(Thread { id, ioc: 1, tid: 4242 + id, name, stack })
    };
    let record = |id: u32, name: String, rtype: &str| {
        let address = 0x55aa_0000_0000 + u64::from(id) * 1216;
        Fact::from(Record { id, ioc: 1, address, name, rtype: rtype.into() })
    };
    let mut facts = machine();
    facts.extend([thread(SCAN_THREADS[0], "scan-0.1"), thread(SCAN_THREADS[1], "scan-0.1")]);
    facts.extend(sites());
    facts.extend((0..SCANNED * SCAN_THREADS.len() as u32).map(|id| {
        let rtype = ["ai", "calc", "ao", "longin"][id as usize % 4];
        record(id, format!("LINAC:BPM{:04}:X{}", id / CHAIN, id % CHAIN), rtype)
    }));
    for client in 0..CLIENTS {
        let (circuit, end) = (client + 1, |ip, port| Address { ip: 0x0a00_0000 + ip, port });
        let name = format!("LINAC:MAG{client:04}:CUR");
        facts.extend([
            thread(SERVER_THREAD + client, "CAS-client"),
            record(PUT_TO + client, name.clone(), "ao"),
            Fact::from(Circuit {
                id: circuit,
                client: end(client, 40_000),
                server: end(100, 5064),
                user: "operator".into(),
                host: "console".into(),
                minor: 13,
                origin: Origin::Opened,
            }),
            Fact::from(Channel {
                id: circuit,
                circuit,
                cid: Some(1),
                sid: Some(1),
                pv: name,
                dbr: Some(DOUBLE),
                count: Some(1),
                origin: Origin::Opened,
            }),
            Fact::ServerThread(ServerThread { thread: SERVER_THREAD + client, circuit }),
        ]);
    }
    facts
}

/// Processes a record. `depth`: the number of other records of the chain around it.
fn process(out: &mut Vec<Fact>, thread: u32, record: u32, depth: u32, turn: u64, noise: &mut Noise) {
    let sp = -112 - 480 * i64::from(depth);
    let site = 1 + u32::from(depth > 0);
    out.push(Fact::Process(Process { thread, sp, site, record, active: false }));
    let value = match record % 4 {
        0 | 1 => Value::Double(f64::from(record) + 3.7 + noise.next() as f64 / 1e22),
        2 => Value::Int(turn as i64),
        _ => Value::Double(12.5),
    };
    let (sp, site) = (sp - 160, 3);
    out.push(Fact::Complete(Complete { thread, sp, site, record, value, severity: 0, status: 0 }));
}

/// Sends the message of a put.
fn message(out: &mut Vec<Fact>, client: u32, notify: bool, ioid: u32) {
    let (circuit, channel, payload) = (client + 1, client + 1, f64::from(ioid).to_be_bytes().to_vec());
    let (dbr, count, length) = (DOUBLE, 1, 8);
    out.push(Fact::CaPut(CaPut { circuit, channel, notify, dbr, count, ioid, length, payload }));
}

/// Carries out a put in the IOC.
fn carried_out(out: &mut Vec<Fact>, client: u32, notify: bool, ioid: u32) {
    let (thread, record, value) = (SERVER_THREAD + client, PUT_TO + client, f64::from(ioid));
    carry_out(out, thread, record, notify, (value - 1.0, value));
}

/// The same in this thread, with the values before and after.
fn carry_out(out: &mut Vec<Fact>, thread: u32, record: u32, notify: bool, (old, new): (f64, f64)) {
    let (old, new) = (Value::Double(old), Value::Double(new));
    let kind = if notify { PutKind::Notify } else { PutKind::PutField };
    let put = |sp, site, kind, requested, old| {
        let (field, dbf, count) = (Some(1), Dbf::Double, 1);
        Fact::from(Put { thread, sp, site, kind, record, field, dbf, count, requested, old })
    };
    let asked = if notify { Value::Unknown } else { new.clone() };
    out.push(put(-400, 4, kind, asked, old.clone()));
    out.push(put(-480, 5, PutKind::Put, new.clone(), old));
    out.push(Fact::Process(Process { thread, sp: -500, site: 5, record, active: false }));
    let (sp, site, severity, status) = (-600, 3, 0, 0);
    out.push(Fact::Complete(Complete { thread, sp, site, record, value: new, severity, status }));
}

/// A scan of the records of the first thread, and every three seconds a put, with and without callback in turn.
fn scanning(out: &mut Vec<Fact>, turn: u64, noise: &mut Noise) {
    for record in 0..SCANNED {
        process(out, SCAN_THREADS[0], record, record % CHAIN, turn, noise);
        // One record in fifty is in alarm for six seconds of each minute, each at its own time.
        let alarmed = record.is_multiple_of(50) && (turn / 10 + u64::from(record)) % 60 < 6;
        if let (true, Some(Fact::Complete(complete))) = (alarmed, out.last_mut()) {
            (complete.severity, complete.status) = (2, 3);
        }
    }
    if turn.is_multiple_of(30) {
        let (client, ioid, notify) = ((turn / 30 % 2) as u32, turn as u32, turn.is_multiple_of(60));
        message(out, client, notify, ioid);
        carried_out(out, client, notify, ioid);
        if notify {
            let (circuit, text) = (client + 1, String::new());
            out.push(Fact::CaAnswer(CaAnswer { circuit, ioid, notify, status: 1, text }));
        }
    }
}

/// A scan of all records, and a put with callback.
fn mixture(out: &mut Vec<Fact>, turn: u64, noise: &mut Noise) {
    for number in 0..SCANNED {
        for (scan, thread) in (0..).zip(SCAN_THREADS) {
            process(out, thread, scan * SCANNED + number, number % CHAIN, turn, noise);
        }
    }
    let (client, ioid, notify) = (0, turn as u32, true);
    message(out, client, notify, ioid);
    carried_out(out, client, notify, ioid);
    out.push(Fact::CaAnswer(CaAnswer { circuit: 1, ioid, notify, status: 1, text: String::new() }));
}

/// 4,000 puts; in every tenth turn also their effects in the IOC.
fn losses(out: &mut Vec<Fact>, turn: u64, time: u64) {
    const PUTS: u32 = 2000;
    let seen = turn.is_multiple_of(10);
    for number in 0..PUTS {
        let ioid = (turn as u32).wrapping_mul(PUTS) + number;
        for client in 0..CLIENTS {
            message(out, client, false, ioid);
            if seen {
                carried_out(out, client, false, ioid);
            }
        }
    }
    if !seen {
        out.push(Fact::Loss(Loss {
            source: LossSource::Hits,
            count: u64::from(4 * CLIENTS * PUTS),
            since: time,
            cause: "the buffer between kernel and recorder was full".into(),
        }));
    }
}

/// Writes a log of at least this many bytes. Returns the number of events.
pub fn write(directory: &Path, bytes: u64, load: Load) -> Result<u64, Box<dyn Error>> {
    match load {
        Load::Flood => return write_crowd(directory, crowd::FLOOD),
        Load::Crowd => return write_crowd(directory, crowd::CROWD),
        Load::Loops => return write_loops(directory, loops::LOOPS),
        Load::Scanning | Load::Mixture | Load::Losses => {}
    }
    let options = Options { max_disk: 2 * bytes + (64 << 20), ..Options::default() };
    // The segments' headers must agree with the events, or a reader could not tell where a time is.
    let wall = Rc::new(Cell::new(BEGUN));
    let clocked = Clocked { storage: Directory::open(directory)?, wall: Rc::clone(&wall) };
    let mut writer = Writer::open(clocked, options, 1)?;
    let (mut noise, mut time, mut turn) = (Noise(1), SECOND, 0);
    let mut facts = definitions();
    let mut events = 0;
    while writer.status().written < bytes {
        turn += 1;
        let begun = time;
        match load {
            Load::Scanning => scanning(&mut facts, turn, &mut noise),
            Load::Mixture => mixture(&mut facts, turn, &mut noise),
            Load::Losses => losses(&mut facts, turn, begun),
            Load::Flood | Load::Crowd | Load::Loops => {}
        }
        for fact in facts.drain(..) {
            time += 800 + noise.next() % 1000;
            writer.push(Event { time, fact });
            events += 1;
        }
        time = time.max(begun + SECOND / 10);
        wall.set(BEGUN + (time - SECOND) as i64);
        writer.tick(time);
    }
    writer.close(time);
    if writer.status().lost > 0 {
        return Err("events were lost".into());
    }
    Ok(events)
}

/// Writes the log of a crowd.
pub fn write_crowd(directory: &Path, crowd: Crowd) -> Result<u64, Box<dyn Error>> {
    write_all(directory, crowd.definitions(), crowd.puts(BEGUN_AFTER))
}

/// Writes the log of loops.
pub fn write_loops(directory: &Path, loops: Loops) -> Result<u64, Box<dyn Error>> {
    write_all(directory, loops.definitions(), loops.puts())
}

/// Writes these definitions, and what happens after them.
fn write_all(
    directory: &Path,
    definitions: Vec<Fact>,
    happens: impl Iterator<Item = Event>,
) -> Result<u64, Box<dyn Error>> {
    let options = Options { max_disk: 1 << 30, ..Options::default() };
    let wall = Rc::new(Cell::new(BEGUN));
    let clocked = Clocked { storage: Directory::open(directory)?, wall: Rc::clone(&wall) };
    let mut writer = Writer::open(clocked, options, 1)?;
    let (mut events, mut ticked, mut last) = (0, SECOND, SECOND);
    let facts = machine().into_iter().chain(sites()).chain(definitions);
    let facts = facts.map(|fact| Event { time: SECOND, fact });
    for event in facts.chain(happens) {
        last = last.max(event.time);
        events += 1;
        writer.push(event);
        // as the recorder's loop does
        if last >= ticked + SECOND / 10 {
            ticked = last;
            wall.set(BEGUN + (last - SECOND) as i64);
            writer.tick(last);
        }
    }
    writer.close(last);
    if writer.status().lost > 0 {
        return Err("events were lost".into());
    }
    Ok(events)
}
