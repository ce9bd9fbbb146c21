//! Threads that stand still though they should run or that do not get done with a record, and scans that came too late.

use super::ids::*;
use super::life::{allocated, owned_by_ioc, Ended, OwnedBy, Whole};
use crate::value::named;
use serde::{Deserialize, Serialize};

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wait {
    /// Not known.
    Unknown,
    /// A mutex.
    Mutex,
    /// Something that another thread must signal: an epicsEvent, a condition variable.
    Event,
    /// Nothing but time.
    Sleep,
    /// Something on one of some descriptors: poll, select, epoll.
    Poll,
    /// Data from a socket.
    Receive,
    /// A socket's other end, which must take data first.
    Send,
    /// A read of a file or device.
    Read,
    /// A write to a file or device.
    Write,
    /// A disk: fsync, fdatasync, sync.
    Sync,
    /// A connection that it asked for, or that another asks for.
    Connect,
    /// A processor: it could run, but gets none.
    Processor,
    /// Nothing: it has suspended itself for ever, as `epicsAssert` and `cantProceed` do.
    Suspended,
    /// The whole process is stopped by a signal.
    Stopped,
    /// The whole process is held by a debugger.
    Traced,
    /// The whole process is frozen by a control group.
    Frozen,
    /// Nothing: it uses the processor, and does not get done with a record.
    Spins,
}

impl Wait {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Wait::Unknown => "unknown",
            Wait::Mutex => "mutex",
            Wait::Event => "event",
            Wait::Sleep => "sleep",
            Wait::Poll => "poll",
            Wait::Receive => "receive",
            Wait::Send => "send",
            Wait::Read => "read",
            Wait::Write => "write",
            Wait::Sync => "sync",
            Wait::Connect => "connect",
            Wait::Processor => "processor",
            Wait::Suspended => "suspended",
            Wait::Stopped => "stopped",
            Wait::Traced => "traced",
            Wait::Frozen => "frozen",
            Wait::Spins => "spins",
        }
    }

    /// Whether it is the whole process that stands still.
    pub fn is_of_process(self) -> bool {
        matches!(self, Wait::Stopped | Wait::Traced | Wait::Frozen)
    }
}

/// The thread that holds a mutex.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Number of the thread in the kernel.
    pub tid: u32,
    /// Its name; empty if unknown.
    pub thread: String,
    /// The record that it processes or puts to; `None` if unknown.
    pub record: Option<RecordId>,
    /// Whether it held the mutex and processed that record at one and the same moment. If not, they were seen one after
    /// the other.
    pub is_certain: bool,
}

/// A thread stands still though it should run, or spins. It is told again when more is known of it, or the holder has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stuck {
    /// Its id.
    pub id: u32,
    /// The IOC.
    pub ioc: IocId,
    /// Number of the thread in the kernel.
    pub tid: u32,
    /// Name of the thread; empty if unknown.
    pub thread: String,
    /// Monotonic time after which it ran for the last time; nanoseconds. Of one that spins: when its record began.
    pub after: u64,
    /// Monotonic time since which it certainly stands still, or spins.
    pub since: u64,
    /// What it waits for.
    pub wait: Wait,
    /// The file or the other end of the connection that it waits for; of a mutex the line of source code that made it.
    /// Empty if unknown.
    pub object: String,
    /// The system call that it is in, by the number of the process's architecture; `None` if in none.
    pub call: Option<u32>,
    /// The record that it processes or puts to, or waits to. `None` if none is known.
    pub record: Option<RecordId>,
    /// Whether the mutex is known to be the lock of a lock set: that of `record`, or else that of the holder's record.
    pub is_lockset: bool,
    /// The holder of the mutex; `None` if it is none, or unknown.
    pub holder: Option<Holder>,
}

impl Stuck {
    /// What it does, for people. `standing`: for how long it has done so; `None`: it is about the present. `name` gives
    /// the names of records.
    pub fn sentence(&self, standing: Option<&str>, name: &dyn Fn(RecordId) -> Option<String>) -> String {
        let named = |id: Option<RecordId>| id.and_then(name);
        let record = named(self.record);
        let of = |before: &str| match self.object.as_str() {
            "" => String::new(),
            object => format!(" {before} {object}"),
        };
        let mut text = if self.wait.is_of_process() {
            "the process".to_string()
        } else {
            thread_called(&self.thread, self.tid)
        };
        let (now, then) = match self.wait {
            Wait::Sleep => ("sleeps", "slept"),
            Wait::Spins => ("spins", "spun"),
            Wait::Unknown => ("stands still", "stood still"),
            wait if wait.is_of_process() || wait == Wait::Suspended => ("is", "was"),
            _ => ("waits", "waited"),
        };
        text += &match standing {
            None => format!(" {now}"),
            Some(standing) if matches!(now, "is") => format!(" {then}, for {standing},"),
            Some(standing) => format!(" {then} {standing}"),
        };
        let for_lock = self.wait == Wait::Mutex && self.is_lockset;
        text += &match self.wait {
            Wait::Mutex => {
                let holder = self.holder.as_ref();
                let whose = record.clone().or_else(|| named(holder?.record));
                let what = match whose.filter(|_| for_lock) {
                    Some(record) => format!(" for the lockset of {record}"),
                    None if for_lock => " for a lockset".into(),
                    None => format!(" for a mutex{}", of("made at")),
                };
                let by = match holder {
                    None => ", held by an unknown thread".into(),
                    Some(Holder { thread, tid, record, is_certain }) => {
                        let thread = thread_called(thread, *tid);
                        let doing = named(*record).map(|name| format!(" processing {name}"));
                        let later = if *is_certain { "" } else { " (seen a moment later)" };
                        format!(", held by {thread}{}{later}", doing.unwrap_or_default())
                    }
                };
                what + &by
            }
            Wait::Unknown => ", it is not known why".into(),
            Wait::Event => " for a signal of another thread".into(),
            Wait::Sleep => String::new(),
            Wait::Spins => ", using CPU and never waiting".into(),
            Wait::Poll => format!(" in poll{}", of("for")),
            Wait::Receive => format!(" for data{}", of("from")),
            Wait::Send => format!(" to send{}", of("to")),
            Wait::Read => format!(" for a read{}", of("of")),
            Wait::Write => format!(" for a write{}", of("to")),
            Wait::Sync => format!(" for the disk{}", of("of")),
            Wait::Connect => " for a connection".into(),
            Wait::Processor => " for a processor".into(),
            Wait::Suspended => " suspended for ever, as after a failed assertion".into(),
            Wait::Stopped => " stopped by a signal".into(),
            Wait::Traced => " held by a debugger".into(),
            Wait::Frozen => " frozen by its control group".into(),
        };
        if let Some(record) = record.filter(|_| !for_lock) {
            text += &format!(", processing {record}");
        }
        text
    }
}

/// A thread by its name, which any program chooses, or by its number.
fn thread_called(name: &str, tid: u32) -> String {
    match name {
        "" => format!("thread {tid}"),
        name => named(name),
    }
}

impl Whole for Stuck {
    owned_by_ioc!();

    fn heap(&self) -> usize {
        let holder = self.holder.as_ref().map_or(0, |holder| allocated(holder.thread.len()));
        allocated(self.thread.len()) + allocated(self.object.len()) + holder
    }

    fn ended_by(ended: Ended) -> Option<u32> {
        match ended {
            Ended::Stuck(id) => Some(id),
            _ => None,
        }
    }
}

/// A thread that stood still runs again, or has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StuckEnd {
    /// Its [`Stuck`].
    pub id: u32,
    /// The IOC.
    pub ioc: IocId,
    /// Monotonic time until which it certainly stood still; it ended before the time of this event.
    pub after: u64,
    /// Whether the thread has ended.
    pub has_ended: bool,
}

/// The periodic scans of a list that came too late: Base counts those that had to begin later than their period, since
/// the one before took longer than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanOverruns {
    /// The IOC.
    pub ioc: IocId,
    /// The list.
    pub list: ScanListId,
    /// Overruns since `since`.
    pub more: u64,
    /// All since the start of the IOC.
    pub total: u64,
    /// Monotonic time of the look before.
    pub since: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stuck(wait: Wait) -> Stuck {
        Stuck {
            id: 1,
            ioc: 1,
            tid: 12,
            thread: "scan-0.1".into(),
            after: 0,
            since: 1,
            wait,
            object: String::new(),
            call: None,
            record: Some(1),
            is_lockset: true,
            holder: None,
        }
    }

    fn name(id: RecordId) -> Option<String> {
        ["", "H:FAST", "H:LOW"].get(id as usize).map(|name| (*name).to_string())
    }

    #[test]
    fn sentences() {
        let holder = Holder { tid: 7, thread: "cbLow".into(), record: Some(2), is_certain: true };
        let mut lock = Stuck { holder: Some(holder), ..stuck(Wait::Mutex) };
        assert_eq!(
            lock.sentence(Some("2.9 s"), &name),
            "scan-0.1 waited 2.9 s for the lockset of H:FAST, held by cbLow processing H:LOW"
        );
        lock.record = None;
        assert_eq!(
            lock.sentence(None, &name),
            "scan-0.1 waits for the lockset of H:LOW, held by cbLow processing H:LOW"
        );
        if let Some(holder) = &mut lock.holder {
            (holder.record, holder.is_certain) = (None, false);
        }
        assert_eq!(
            lock.sentence(None, &name),
            "scan-0.1 waits for a lockset, held by cbLow (seen a moment later)"
        );
        if let Some(holder) = &mut lock.holder {
            (holder.thread, lock.thread) = ("b for PV".into(), "a, not b".into());
        }
        assert_eq!(
            lock.sentence(None, &name),
            "\"a, not b\" waits for a lockset, held by \"b for PV\" (seen a moment later)"
        );
        let mutex = Stuck { is_lockset: false, record: None, ..stuck(Wait::Mutex) };
        assert_eq!(mutex.sentence(None, &name), "scan-0.1 waits for a mutex, held by an unknown thread");
        let poll = Stuck { object: "10.0.0.1:5000".into(), ..stuck(Wait::Poll) };
        assert_eq!(
            poll.sentence(Some("3 s"), &name),
            "scan-0.1 waited 3 s in poll for 10.0.0.1:5000, processing H:FAST"
        );
        let gone = Stuck { record: Some(77), thread: String::new(), ..stuck(Wait::Sleep) };
        assert_eq!(gone.sentence(None, &name), "thread 12 sleeps", "no name is known");
        let spins = stuck(Wait::Spins);
        assert_eq!(
            spins.sentence(Some("3.2 s"), &name),
            "scan-0.1 spun 3.2 s, using CPU and never waiting, processing H:FAST"
        );
        let stopped = Stuck { record: None, ..stuck(Wait::Stopped) };
        assert_eq!(stopped.sentence(None, &name), "the process is stopped by a signal");
        assert_eq!(stopped.sentence(Some("4 s"), &name), "the process was, for 4 s, stopped by a signal");
    }
}
