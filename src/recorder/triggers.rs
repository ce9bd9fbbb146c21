//! Automatic triggers that pin segments: an IOC that dies, a record that goes into a severe alarm, a put to a PV that
//! matters.
//!
//! A repeated event must not displace what happened before it. So a flapping trigger pins at most once an hour, and all
//! alarms and puts together share a limit; the next pin gives the number left out. Deaths have a limit of their own for
//! each IOC, so that no flood of alarms, and no other IOC that restarts repeatedly, leaves one out.

use std::collections::HashMap;

use epics::alarm::MAJOR;
use epics::Pv;
use iocrec_log::context::Context;
use iocrec_log::event::{Event, Fact, IocId, PutKind, RecordId, Tier};
use iocrec_log::glob::Glob;
use iocrec_log::writer::Pin;

/// Nanoseconds in which the same cause pins once.
const ONCE_IN: u64 = 3_600_000_000_000;
/// Most pins at once.
const MAX_AT_ONCE: u64 = 8;
/// Nanoseconds after which one more pin is allowed.
const ANOTHER: u64 = 900_000_000_000;
/// Most pins at once for deaths of one IOC: if it is restarted for ever, its first deaths are kept, then one now and
/// then.
const MAX_DEATHS: u64 = 4;
/// Most causes that are remembered; a log does not have more PVs that matter.
const MAX_CAUSES: usize = 4096;

/// The deaths of an IOC.
#[derive(Default)]
struct Deaths {
    allowance: Allowance,
    left_out: u64,
}

/// The last state seen of a record.
struct Seen {
    ioc: IocId,
    wanted: bool,
    severity: u16,
}

/// An allowance of pins: some at once, and one more after each [`ANOTHER`].
#[derive(Default)]
struct Allowance {
    /// Nanoseconds saved up.
    saved: u64,
    at: Option<u64>,
}

impl Allowance {
    /// Whether a pin is allowed now. `max` at once.
    fn take(&mut self, now: u64, max: u64) -> bool {
        let passed = self.at.replace(now).map_or(u64::MAX, |before| now.saturating_sub(before));
        self.saved = self.saved.saturating_add(passed).min(max * ANOTHER);
        let may = self.saved >= ANOTHER;
        if may {
            self.saved -= ANOTHER;
        }
        may
    }
}

/// A reason to pin segments.
#[derive(Debug, PartialEq, Eq)]
pub struct Cause {
    /// The text for people.
    pub text: String,
    /// The kind of pin, which decides the order of unpinning.
    pub pin: Pin,
}

/// Checks events on their way into the log.
#[derive(Default)]
pub struct Triggers {
    alarms: Vec<Glob>,
    puts: Vec<Glob>,
    records: HashMap<RecordId, Seen>,
    /// Time of each cause's last pin.
    last: HashMap<String, u64>,
    allowance: Allowance,
    left_out: u64,
    /// Deaths of each IOC, by its name.
    deaths: HashMap<String, Deaths>,
}

impl Triggers {
    /// `alarms`: names of records whose alarms matter; `puts`: names of PVs and records whose puts matter.
    pub fn new(alarms: &[String], puts: &[String]) -> Triggers {
        let globs = |patterns: &[String]| patterns.iter().map(|pattern| Glob::new(pattern)).collect();
        Triggers { alarms: globs(alarms), puts: globs(puts), ..Triggers::default() }
    }

    /// A line for the user if a requested trigger cannot be seen.
    pub fn cannot_see(&self, fact: &Fact) -> Option<&'static str> {
        match fact {
            Fact::Tier(choice) if choice.tier == Tier::Packet && !self.alarms.is_empty() => {
                Some("--pin-on keeps nothing: the packet tier sees no alarms")
            }
            _ => None,
        }
    }

    /// The reason to pin segments for this event, if any. `context` is that from before it.
    pub fn check(&mut self, event: &Event, context: &Context) -> Option<Cause> {
        let cause = match &event.fact {
            Fact::IocEnd(end) => {
                self.records.retain(|_, seen| seen.ioc != end.ioc);
                // whoever ended it in good order has no question
                let died = !end.how.starts_with("exit status 0");
                let ioc = context.ioc(end.ioc).filter(|_| died)?;
                return self.death(&ioc.name, format!("IOC {} ended: {}", ioc.name, end.how), event.time);
            }
            // a hang is pinned like a death, once
            Fact::Stuck(stuck) if context.stuck(stuck.id).is_none() => {
                let ioc = context.ioc(stuck.ioc)?;
                let name = |id| context.record(id).map(|record| record.name.to_string());
                let text = format!("IOC {}: {}", ioc.name, stuck.sentence(None, &name));
                return self.death(&format!("{} stuck", ioc.name), text, event.time);
            }
            Fact::Record(record) => {
                // it may get its name only now
                self.records.remove(&record.id);
                return None;
            }
            Fact::Complete(complete) if !self.alarms.is_empty() => {
                let severity = self.severity(complete.record, complete.severity, context)?;
                let name = context.record(complete.record)?.name;
                (format!("alarm {name}"), format!("{name} went into {severity}"))
            }
            Fact::CaPut(put) if !self.puts.is_empty() => {
                let pv = &context.channel(put.channel)?.pv;
                let record = Pv::new(pv).record;
                self.puts.iter().any(|glob| glob.matches(pv) || glob.matches(record)).then_some(())?;
                (format!("put {record}"), format!("put to {pv}"))
            }
            Fact::Put(put) if !self.puts.is_empty() && put.kind != PutKind::Put => {
                let record = context.record(put.record)?.name;
                let field = put.field.and_then(|field| context.field(field));
                let pv = field.map_or(record.into(), |field| format!("{record}.{}", field.name));
                self.puts.iter().any(|glob| glob.matches(&pv) || glob.matches(record)).then_some(())?;
                (format!("put {record}"), format!("put to {pv}"))
            }
            _ => return None,
        };
        self.limit(cause, event.time).map(|text| Cause { text, pin: Pin::Auto })
    }

    /// The name of the severity, if the record has just risen to it and it matters.
    fn severity(&mut self, id: RecordId, severity: u16, context: &Context) -> Option<&'static str> {
        let alarms = &self.alarms;
        let seen = self.records.entry(id).or_insert_with(|| {
            let record = context.record(id);
            let wanted =
                record.as_ref().is_some_and(|record| alarms.iter().any(|glob| glob.matches(record.name)));
            Seen { ioc: record.map_or(0, |record| record.ioc), wanted, severity: 0 }
        });
        let before = std::mem::replace(&mut seen.severity, severity);
        let rose = seen.wanted && severity >= MAJOR && severity > before;
        rose.then_some(if severity == MAJOR { "MAJOR alarm" } else { "INVALID alarm" })
    }

    /// Pins the death of an IOC, unless it dies all the time. `name`: the limit that it counts for.
    fn death(&mut self, name: &str, text: String, now: u64) -> Option<Cause> {
        if self.deaths.len() >= MAX_CAUSES && !self.deaths.contains_key(name) {
            // an IOC whose last death was this long ago has its full allowance again
            let whole = MAX_DEATHS * ANOTHER;
            self.deaths
                .retain(|_, deaths| deaths.allowance.at.is_some_and(|last| now.saturating_sub(last) < whole));
        }
        let deaths = self.deaths.entry(name.to_owned()).or_default();
        if !deaths.allowance.take(now, MAX_DEATHS) {
            deaths.left_out += 1;
            return None;
        }
        let text = match std::mem::take(&mut deaths.left_out) {
            0 => text,
            more => format!("{text} ({more} other ends of it since its last pin were left out)"),
        };
        Some(Cause { text, pin: Pin::Death })
    }

    /// Pins a cause unless it has pinned recently.
    fn limit(&mut self, (key, cause): (String, String), now: u64) -> Option<String> {
        let lately = self.last.get(&key).is_some_and(|last| now.saturating_sub(*last) < ONCE_IN);
        if lately || self.last.len() >= MAX_CAUSES || !self.allowance.take(now, MAX_AT_ONCE) {
            self.last.retain(|_, last| now.saturating_sub(*last) < ONCE_IN);
            self.left_out += 1;
            return None;
        }
        self.last.insert(key, now);
        match std::mem::take(&mut self.left_out) {
            0 => Some(cause),
            more => Some(format!("{cause} ({more} other causes since the last pin were left out)")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::{Channel, Complete, Dbf, Ioc, IocEnd, Linkage, Origin, Put, Record, Value};

    const SECOND: u64 = 1_000_000_000;

    struct World(Context, Triggers, u64);

    impl World {
        fn new(alarms: &[&str], puts: &[&str]) -> World {
            let strings = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
            let mut world =
                World(Context::default(), Triggers::new(&strings(alarms), &strings(puts)), 10_000 * SECOND);
            world.see(Fact::from(Ioc {
                id: 1,
                pid: 1,
                start: 0,
                name: "linac".into(),
                exe: String::new(),
                cwd: String::new(),
                command: vec![],
                base_version: String::new(),
                ca_ports: vec![],
                linkage: Linkage::Shared,
                not_probed: vec![],
                user: String::new(),
                pva_ports: vec![],
                environment: vec![],
            }));
            for (id, name) in [(1, "LI:VAC1"), (2, "LI:VAC2"), (3, "LI:TEMP")] {
                world.see(Fact::from(Record {
                    id,
                    ioc: 1,
                    address: 0,
                    name: name.into(),
                    rtype: "ai".into(),
                }));
            }
            world
        }

        fn see(&mut self, fact: Fact) -> Option<String> {
            let event = Event { time: self.2, fact };
            let cause = self.1.check(&event, &self.0);
            self.0.apply(event.time, &event.fact);
            cause.map(|cause| cause.text)
        }

        fn complete(&mut self, record: u32, severity: u16) -> Option<String> {
            self.2 += SECOND;
            let value = Value::Int(0);
            self.see(Fact::Complete(Complete {
                thread: 0,
                sp: 0,
                site: 0,
                record,
                value,
                severity,
                status: 0,
            }))
        }

        fn put(&mut self, record: u32, kind: PutKind) -> Option<String> {
            self.2 += SECOND;
            let (requested, old) = (Value::Int(0), Value::Unknown);
            let (thread, sp, site, field, dbf, count) = (0, 0, 0, None, Dbf::Double, 1);
            self.see(Fact::from(Put { thread, sp, site, kind, record, field, dbf, count, requested, old }))
        }
    }

    #[test]
    fn alarms_that_rise() {
        let mut world = World::new(&["LI:VAC*"], &[]);
        assert_eq!(world.complete(3, 3), None, "not asked for");
        assert_eq!(world.complete(1, 0), None);
        assert_eq!(world.complete(1, 1), None, "MINOR");
        assert_eq!(world.complete(1, 2).as_deref(), Some("LI:VAC1 went into MAJOR alarm"));
        assert_eq!(world.complete(1, 2), None, "it lasts");
        assert_eq!(world.complete(2, 3).as_deref(), Some("LI:VAC2 went into INVALID alarm"));
    }

    #[test]
    fn a_flapping_trigger_pins_once_an_hour() {
        let mut world = World::new(&["*"], &[]);
        let mut counted = Vec::new();
        for _ in 0..3600 {
            counted.extend(world.complete(1, 2));
            counted.extend(world.complete(1, 0));
        }
        // two hours: it pins at their beginning and once in between
        assert_eq!(counted.len(), 2, "{counted:?}");
        assert!(counted[1].contains("1799 other causes"), "{counted:?}");
    }

    #[test]
    fn many_at_once_are_limited() {
        let mut world = World::new(&["*"], &[]);
        for id in 10..1000 {
            let name = format!("R{id}");
            world.see(Fact::from(Record { id, ioc: 1, address: 0, name, rtype: "ai".into() }));
        }
        assert_eq!((10..1000).filter_map(|id| world.complete(id, 3)).count() as u64, MAX_AT_ONCE + 1);
    }

    #[test]
    fn puts_from_outside() {
        let mut world = World::new(&[], &["LI:VAC1", "*.PROC"]);
        assert_eq!(world.put(1, PutKind::Put), None, "by a link");
        assert_eq!(world.put(2, PutKind::PutField), None, "not asked for");
        assert_eq!(world.put(1, PutKind::PutField).as_deref(), Some("put to LI:VAC1"));
        let (circuit, cid, sid, dbr, count, origin) = (1, None, None, None, None, Origin::Opened);
        let pv = "X:Y.PROC".to_owned();
        world.see(Fact::from(Channel { id: 5, circuit, cid, sid, pv, dbr, count, origin }));
        let put = iocrec_log::event::CaPut {
            circuit,
            channel: 5,
            notify: false,
            dbr: 5,
            count: 1,
            ioid: 1,
            length: 4,
            payload: vec![],
        };
        assert_eq!(world.see(Fact::CaPut(put)).as_deref(), Some("put to X:Y.PROC"));
    }

    fn end(how: &str) -> Fact {
        Fact::IocEnd(IocEnd { ioc: 1, how: how.into() })
    }

    impl World {
        /// The IOC ends. Returns the cause of the pin, if there is one.
        fn die(&mut self, how: &str) -> Option<Cause> {
            self.1.check(&Event { time: self.2, fact: end(how) }, &self.0)
        }
    }

    #[test]
    fn an_ioc_that_dies() {
        let mut world = World::new(&[], &[]);
        let text = "IOC linac ended: killed by SIGSEGV".to_owned();
        assert_eq!(world.die("killed by SIGSEGV"), Some(Cause { text, pin: Pin::Death }));
        assert_eq!(world.die("exit status 0"), None, "ended by somebody");
        assert_eq!(world.die("exit status 0 (up to 6.0 s before this was seen)"), None, "as well");
    }

    /// However many alarms come and are left out, a death is kept.
    #[test]
    fn alarms_leave_no_death_out() {
        let mut world = World::new(&["*"], &[]);
        for id in 10..5010 {
            let name = format!("R{id}");
            world.see(Fact::from(Record { id, ioc: 1, address: 0, name, rtype: "ai".into() }));
        }
        let alarms = (10..5010).filter_map(|id| world.complete(id, 3)).count() as u64;
        assert!((MAX_AT_ONCE..100).contains(&alarms), "{alarms} alarms: nothing is tested");
        assert!(world.die("killed by SIGKILL").is_some());
        // nor do deaths leave alarms out
        world.2 += ANOTHER;
        assert!(world.complete(11, 0).is_none() && world.complete(5011, 0).is_none());
    }

    #[test]
    fn an_ioc_that_dies_all_the_time_leaves_no_other_out() {
        let mut world = World::new(&[], &[]);
        let mut kept = Vec::new();
        for _ in 0..3600 {
            world.2 += SECOND;
            kept.extend(world.die("exit status 1").map(|cause| cause.text));
        }
        assert_eq!(kept.len() as u64, MAX_DEATHS + 3, "{kept:?}");
        assert!(kept[4].contains(" other ends of it since its last pin were left out"), "{kept:?}");
        let other = Ioc { id: 2, name: "vacuum".into(), ..world.0.ioc(1).unwrap().clone() };
        world.see(Fact::from(other));
        let died = Fact::IocEnd(IocEnd { ioc: 2, how: "killed by SIGABRT".into() });
        assert!(world.see(died).is_some());
    }
}
