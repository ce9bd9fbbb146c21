//! Logs of a site's many machines, as benches/fleet measures them and a test asks them.
//!
//! Each machine has one IOC with magnets that clients put to, and temperatures that are scanned. What happens is
//! plausible, not real: rates are a site's after `iocrec record --thin`, which keeps a few of a record's chains. Planted in
//! it, so that each question of docs/fleet has an answer:
//!
//! - the beam is lost three times ([`BEAM`]), 4 s after a put in cell 7;
//! - two users fight over a magnet on every seventh machine;
//! - one put in fifty drives a magnet into alarm, and all that follows it with it;
//! - every eleventh IOC dies a while after a put, on every ninth machine hits are lost;
//! - one put in a hundred is denied;
//! - chains of puts take longer with older versions of EPICS Base.

use iocrec_log::event::*;
use iocrec_log::storage::{Clocked, Directory};
use iocrec_log::writer::{Options, Writer};
use std::cell::Cell;
use std::error::Error;
use std::path::Path;
use std::rc::Rc;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
/// Wall-clock time of the beginning: 2026-09-21T14:13:20 UTC.
const BEGUN: i64 = 1_790_000_000 * SECOND as i64;
const CELLS: u32 = 20;
const VERSIONS: [&str; 4] = ["3.15.9", "7.0.3.1", "7.0.8.1", "7.0.10"];
const CLIENTS: [(&str, &str); 4] =
    [("alice", "console1"), ("bob", "console2"), ("feedback", "fb1"), ("ops", "console3")];
const MAGNETS: u32 = 8;
/// Records: magnets from 1 on, what is read of each from 101 on, temperatures from 201 on, the beam.
const READ: u32 = 100;
const TEMPERATURES: u32 = 40;
const FIRST_TEMPERATURE: u32 = 201;
/// The temperatures that follow a magnet.
const FOLLOWERS: u32 = 6;
const BEAM: u32 = 300;
/// Threads: the scan thread, and those that serve clients.
const SCAN: u32 = 1;
const SERVER: u32 = 10;
const DOUBLE: u16 = epics::Dbr::DOUBLE.0;
const MAJOR: u16 = 2;
const HIHI: u16 = 3;
/// ECA_NOWTACCESS: no rights to write.
const DENIED: u32 = 376;

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Fleet {
    /// Number of machines.
    pub hosts: u32,
    /// Seconds that each was recorded.
    pub seconds: u64,
    /// Milliseconds from one scanned chain that is kept to the next, and from one put to the next on average.
    pub scan_ms: u64,
    pub put_ms: u64,
}

/// Writes the logs, a directory for each machine. Returns the number of events.
pub fn write(directory: &Path, fleet: Fleet) -> Result<u64, Box<dyn Error>> {
    let mut events = 0;
    for host in 0..fleet.hosts {
        let place = directory.join(name(host));
        std::fs::create_dir_all(&place)?;
        events += Machine::new(&place, fleet, host)?.run()?;
    }
    Ok(events)
}

fn name(host: u32) -> String {
    format!("box{host:03}")
}

struct Machine {
    fleet: Fleet,
    host: u32,
    writer: Writer<Clocked<Directory>>,
    wall: Rc<Cell<i64>>,
    random: u64,
    events: u64,
    ioid: u32,
    noted: u64,
    /// Of each magnet its value, and of each record whether it is in alarm.
    values: Vec<f64>,
    alarmed: Vec<bool>,
}

impl Machine {
    fn new(place: &Path, fleet: Fleet, host: u32) -> Result<Machine, Box<dyn Error>> {
        let wall = Rc::new(Cell::new(BEGUN));
        let storage = Clocked { storage: Directory::open(place)?, wall: Rc::clone(&wall) };
        let options = Options { max_disk: 4 << 30, ..Options::default() };
        Ok(Machine {
            fleet,
            host,
            writer: Writer::open(storage, options, u128::from(host) + 1)?,
            wall,
            random: 0x9e37_79b9_7f4a_7c15 ^ (u64::from(host) << 17),
            events: 0,
            ioid: 0,
            noted: 0,
            values: vec![10.0; MAGNETS as usize + 1],
            alarmed: vec![false; BEAM as usize + 1],
        })
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % limit
    }

    fn push(&mut self, time: u64, fact: impl Into<Fact>) {
        self.events += 1;
        self.wall.set(BEGUN + time as i64);
        if time >= self.noted + 10 * SECOND {
            self.noted = time;
            self.writer.push(Event { time, fact: Fact::Clock(Clock { wall: BEGUN + time as i64 }) });
        }
        self.writer.push(Event { time, fact: fact.into() });
    }

    fn cell(&self) -> u32 {
        self.host % CELLS + 1
    }

    /// The machine's life. What is planted has its own times; puts and scans fill the rest.
    fn run(mut self) -> Result<u64, Box<dyn Error>> {
        self.definitions();
        let end = self.fleet.seconds * SECOND;
        let part = |of: u64| end / 100 * of;
        let dies = self.host % 11 == 3;
        let last = if dies { part(80) } else { end };
        let losses = [part(30), part(60), part(90)];
        let (mut scan, mut put, mut beam, mut number) = (SECOND, 2 * SECOND, SECOND, 0_u32);
        let fight = (part(40), part(40) + (end / 10).min(60 * SECOND));
        let (mut fights, mut planted, mut lost, mut warned) = (fight.0, 0, false, false);
        loop {
            let time = scan.min(put).min(if self.host == 0 { beam } else { u64::MAX });
            if time >= last {
                break;
            }
            self.writer.tick(time);
            if self.host == 0 && time == beam {
                let is_lost = losses.iter().any(|at| (*at..*at + 5 * SECOND).contains(&time));
                self.alarmed[BEAM as usize] = is_lost;
                self.processed(time, SCAN, -100, BEAM, if is_lost { 0.0 } else { 500.0 }, 30_000);
                beam += SECOND;
            } else if time == scan {
                number = number.wrapping_add(1);
                self.scanned(time, number);
                scan += self.fleet.scan_ms * MS;
            } else {
                let next = time + self.fleet.put_ms * MS / 2 + self.below(self.fleet.put_ms) * MS;
                if self.cell() == 7 && planted < losses.len() && time + 4 * SECOND >= losses[planted] {
                    self.put(time, 1, 2, 33.0, false);
                    planted += 1;
                } else if self.host % 7 == 2 && (fight.0..fight.1).contains(&fights) && time >= fights {
                    // both want it their way
                    let turn = (fights / SECOND).is_multiple_of(2);
                    self.put(time, if turn { 0 } else { 2 }, 1, if turn { 11.0 } else { 12.0 }, false);
                    fights += SECOND;
                } else if dies && !warned && time + 20 * SECOND >= last {
                    self.put(time, 1, 3, 99.0, false);
                    warned = true;
                } else {
                    let (client, magnet) = (self.below(4) as usize, 1 + self.below(MAGNETS.into()) as u32);
                    let value = self.below(200) as f64 / 10.0;
                    let beyond = if self.below(50) == 0 { 100.0 } else { 0.0 };
                    self.put(time, client, magnet, value + beyond, true);
                }
                // the fight goes on at its own pace, what is planted comes in time
                put = next;
                if self.host % 7 == 2 && fights < fight.1 && next > fights {
                    put = fights.max(time + 10 * MS);
                }
                if self.cell() == 7 && planted < losses.len() && put + 4 * SECOND > losses[planted] {
                    put = (losses[planted] - 4 * SECOND).max(time + 10 * MS);
                }
                if dies && !warned && put + 20 * SECOND > last {
                    put = last.saturating_sub(20 * SECOND).max(time + 10 * MS);
                }
            }
            if self.host % 9 == 4 && !lost && time >= part(50) {
                lost = true;
                let cause = "the buffer between kernel and recorder was full".to_owned();
                let (source, since) = (LossSource::Hits, time + MS);
                self.push(time + 2 * MS, Fact::Loss(Loss { source, count: 500, since, cause }));
            }
        }
        if dies {
            let how = "killed by signal 11 (SIGSEGV)".into();
            self.push(last, Fact::IocEnd(IocEnd { ioc: 1, how }));
        }
        self.writer.close(last + MS);
        match self.writer.status().lost {
            0 => Ok(self.events),
            lost => Err(format!("{lost} events were lost").into()),
        }
    }

    /// A put by a client, all that it sets off, and the answer. `may_fail`: it may be denied.
    fn put(&mut self, time: u64, client: usize, magnet: u32, value: f64, may_fail: bool) {
        self.ioid += 1;
        let (circuit, ioid, thread) = (client as u32 + 1, self.ioid, SERVER + client as u32);
        let channel = circuit * 100 + magnet;
        let notify = ioid.is_multiple_of(2);
        let payload = value.to_be_bytes().to_vec();
        let (dbr, count, length) = (DOUBLE, 1, 8);
        self.push(time, Fact::CaPut(CaPut { circuit, channel, notify, dbr, count, ioid, length, payload }));
        let mut at = time + 50_000;
        let denied = may_fail && self.below(100) == 0;
        if !denied {
            let old = std::mem::replace(&mut self.values[magnet as usize], value);
            let (old, new) = (Value::Double(old), Value::Double(value));
            let asked = if notify { Value::Unknown } else { new.clone() };
            let put = |sp, site, kind, requested, old| {
                let (field, dbf, record) = (Some(1), Dbf::Double, magnet);
                Fact::from(Put { thread, sp, site, kind, record, field, dbf, count, requested, old })
            };
            let kind = if notify { PutKind::Notify } else { PutKind::PutField };
            let before = if notify { Value::Unknown } else { old.clone() };
            self.push(at, put(-400, 4, kind, asked, before));
            self.push(at + 2000, put(-480, 5, PutKind::Put, new, old));
            // the magnet and all that follows it: older Base takes longer
            let step = 20_000 * (1 + u64::from(3 - self.host % 4)) + self.below(5000);
            let beyond = value > 90.0;
            self.alarmed[magnet as usize] = beyond;
            self.alarmed[(READ + magnet) as usize] = beyond;
            at = self.processed(at + 4000, thread, -500, magnet, value, step);
            at = self.processed(at, thread, -700, READ + magnet, value, step);
            let temperatures = if beyond || self.below(4) == 0 { FOLLOWERS } else { 1 };
            for place in 0..temperatures {
                let record = FIRST_TEMPERATURE + (magnet - 1) * FOLLOWERS % TEMPERATURES + place;
                self.alarmed[record as usize] = beyond;
                let sp = -900 - 200 * i64::from(place);
                at = self.processed(at, thread, sp, record, 20.0 + value / 10.0, step);
            }
        }
        if notify || denied {
            let status = if denied { DENIED } else { 1 };
            let text = if denied && !notify { "write access denied".to_owned() } else { String::new() };
            self.push(at + 100_000, Fact::CaAnswer(CaAnswer { circuit, ioid, notify, status, text }));
        }
    }

    /// A scanned chain of four temperatures.
    fn scanned(&mut self, time: u64, number: u32) {
        let mut at = time;
        for place in 0..4 {
            let record = FIRST_TEMPERATURE + (number % (TEMPERATURES / 4)) * 4 + place;
            let value = 20.0 + self.below(1000) as f64 / 1000.0;
            at = self.processed(at, SCAN, -100 - 200 * i64::from(place), record, value, 15_000);
        }
    }

    /// A record processes, for this long. Returns the time after that.
    fn processed(&mut self, time: u64, thread: u32, sp: i64, record: u32, value: f64, length: u64) -> u64 {
        let site = match (thread == SCAN, sp) {
            (true, -100) => 1,
            (false, -500) => 5,
            _ => 2,
        };
        self.push(time, Fact::Process(Process { thread, sp, site, record, active: false }));
        let alarmed = self.alarmed.get(record as usize).copied().unwrap_or(false);
        let (severity, status) = if alarmed { (MAJOR, HIHI) } else { (0, 0) };
        let (sp, site, value) = (sp - 80, 3, Value::Double(value));
        self.push(
            time + length,
            Fact::Complete(Complete { thread, sp, site, record, value, severity, status }),
        );
        time + length + 2000
    }

    fn definitions(&mut self) {
        let (host, cell) = (self.host, self.cell());
        let prefix = format!("CELL{cell:02}:{host:03}");
        self.push(
            0,
            Fact::from(Host {
                name: name(host),
                kernel: "6.1.0".into(),
                arch: "x86_64".into(),
                boot_id: format!("boot-{host}"),
                recorder: "0.1.0".into(),
                utc_offset: 0,
            }),
        );
        self.push(0, Fact::Clock(Clock { wall: BEGUN }));
        self.push(0, Fact::Tier(TierChoice { tier: Tier::Ring, refused: Vec::new() }));
        self.push(
            0,
            Fact::from(Ioc {
                id: 1,
                pid: 4000 + host,
                start: 0,
                name: format!("ioc{host:03}"),
                exe: "/opt/ioc/bin/softIoc".into(),
                cwd: "/opt/ioc".into(),
                command: vec!["softIoc".into(), "st.cmd".into()],
                base_version: VERSIONS[host as usize % VERSIONS.len()].into(),
                ca_ports: vec![5064],
                linkage: Linkage::Shared,
                not_probed: vec![],
                user: "ioc".into(),
                pva_ports: vec![],
                environment: vec![],
            }),
        );
        let (rtype, dbf) = ("ao".to_owned(), Dbf::Double);
        self.push(0, Fact::from(Field { id: 1, ioc: 1, rtype, name: "VAL".into(), dbf, menu: None }));
        for (id, function) in
            (1..).zip(["scanList", "processTarget", "process", "write_action", "dbPutField"])
        {
            let (function, module, address) =
                (function.into(), "libdbCore.so.3.23".into(), 4096 + u64::from(id));
            self.push(0, Fact::from(CallSite { id, ioc: 1, address, function, module }));
        }
        let mut record = |id: u32, name: String, rtype: &str| {
            let address = 0x1000 * u64::from(id);
            self.push(0, Fact::from(Record { id, ioc: 1, address, name, rtype: rtype.into() }));
        };
        for magnet in 1..=MAGNETS {
            record(magnet, format!("{prefix}:MAG{magnet}:CUR"), "ao");
            record(READ + magnet, format!("{prefix}:MAG{magnet}:READ"), "ai");
        }
        // those that follow the last magnets, too
        for place in 0..TEMPERATURES + FOLLOWERS {
            record(FIRST_TEMPERATURE + place, format!("{prefix}:TEMP{place:02}"), "calc");
        }
        if host == 0 {
            record(BEAM, "RING:BEAM".into(), "ai");
        }
        let thread = |id: u32, name: &str| {
            Fact::Thread(Thread { id, ioc: 1, tid: 5000 + id, name: name.into(), stack: u64::from(id) << 32 })
        };
        self.push(0, thread(SCAN, "scan-1"));
        for (number, (user, console)) in (0_u32..).zip(CLIENTS) {
            let circuit = number + 1;
            self.push(0, thread(SERVER + number, "CAS-client"));
            self.push(
                0,
                Fact::from(Circuit {
                    id: circuit,
                    client: Address::new([192, 168, 1, number as u8 + 1].into(), 40_000 + host as u16),
                    server: Address::new([192, 168, 2 + (host >> 8) as u8, host as u8].into(), 5064),
                    user: user.into(),
                    host: console.into(),
                    minor: 13,
                    origin: Origin::MidStream,
                }),
            );
            let (server, client) = (Some(1), None);
            self.push(0, Fact::CircuitEnds(CircuitEnds { circuit, namespace: 1, server, client }));
            self.push(0, Fact::ServerThread(ServerThread { thread: SERVER + number, circuit }));
            for magnet in 1..=MAGNETS {
                let (id, cid, sid) = (circuit * 100 + magnet, Some(magnet), Some(magnet));
                let (pv, dbr, count) = (format!("{prefix}:MAG{magnet}:CUR"), Some(DOUBLE), Some(1));
                let origin = Origin::MidStream;
                self.push(0, Fact::from(Channel { id, circuit, cid, sid, pv, dbr, count, origin }));
            }
        }
    }
}
