//! The environment of every part of the recorder, passed as one value: time, options, the machine, the sink of facts,
//! the list of messages, the state of the run.

pub mod ids;
pub mod limits;

use iocrec_log::event::{Event, Fact};

use crate::inspector::Request;
use crate::linux::clock::{self, Clock};
use crate::linux::procfs::{Proc, Procfs};
use crate::linux::signals;
use crate::net::Namespace;
use crate::recorder::env::ids::Ids;
use crate::recorder::env::limits::Limits;
use crate::recorder::options::Options;
use crate::recorder::sink::Sink;

/// The machine that the recorder runs on; tests put another in its place.
pub struct Machine {
    /// Its clock.
    pub clock: Box<dyn Clock>,
    /// Its processes.
    pub procfs: Box<dyn Procfs>,
    /// Whether a signal has come that ends the recording.
    pub is_told_to_end: fn() -> bool,
}

impl Machine {
    /// The machine that this process runs on.
    pub fn this() -> Machine {
        Machine { clock: Box::new(clock::System), procfs: Box::new(Proc), is_told_to_end: signals::ended }
    }
}

/// The environment of every part of the recorder.
pub struct Env<'a> {
    /// The monotonic time at which this round of the loop began, nanoseconds.
    pub now: u64,
    /// Offset from a monotonic time to nanoseconds since 1970, as the log has it.
    pub wall_offset: i64,
    /// The user's options.
    pub options: &'a Options,
    /// The machine.
    pub machine: &'a Machine,
    /// Sink of the facts.
    pub sink: &'a mut dyn Sink,
    /// Lines for people.
    pub messages: &'a mut Vec<String>,
    /// Ids, limits and requests of this run.
    pub run: &'a mut Run,
}

impl Env<'_> {
    /// The current monotonic time, nanoseconds.
    pub fn monotonic(&self) -> u64 {
        self.machine.clock.monotonic()
    }

    /// The machine's processes.
    pub fn procfs(&self) -> &dyn Procfs {
        &*self.machine.procfs
    }

    /// Hands a fact to the sink.
    pub fn push(&mut self, time: u64, fact: Fact) {
        self.sink.push(Event { time, fact });
    }
}

/// State of the run that belongs to none of its processes.
#[derive(Default)]
pub struct Run {
    /// The ids given so far.
    pub ids: Ids,
    /// Use of the limits that all IOCs share.
    pub limits: Limits,
    /// Records that the BPF programs do not know yet; `None` if they need not know any.
    pub new_records: Option<Vec<NewRecord>>,
    /// Why signals and crashes are not recorded, if they should be.
    pub no_deaths: Option<String>,
    /// Why packets are not captured, if they should be.
    pub no_packets: Option<String>,
    /// Requests to the inspector.
    pub requests: Vec<Request>,
    /// Whether the kernel gives out low numbers of processes and threads again, since that was last looked at.
    pub numbers_began_again: bool,
    /// TCP ports that servers of PVAccess have named lately in answers to searches, in the recorder's network namespace.
    pub pva_answers: Vec<u16>,
    /// Ports of servers that have ended not long ago.
    pub ended_ports: Vec<EndedPorts>,
    /// IOCs that ended while their processes lived on: process id, start, monotonic time of the IOC's end.
    pub outlived: Vec<(u32, u64, u64)>,
}

impl Run {
    /// Most processes of which the end of their last IOC is kept.
    const MOST_OUTLIVED: usize = 64;

    /// An IOC has ended at a monotonic time, and its process, which began at `start`, lives on as something else.
    pub fn note_outlived(&mut self, pid: u32, start: u64, time: u64) {
        self.outlived.retain(|outlived| outlived.0 != pid);
        if self.outlived.len() >= Run::MOST_OUTLIVED {
            self.outlived.remove(0);
        }
        self.outlived.push((pid, start, time));
    }

    /// When the last IOC of such a process ended; 0 if it has had none.
    pub fn last_end(&self, pid: u32, start: u64) -> u64 {
        self.outlived.iter().find(|last| (last.0, last.1) == (pid, start)).map_or(0, |last| last.2)
    }
}

/// The TCP ports of a server that has ended. If it starts again it mostly has them again, and what comes before it is found
/// is captured, too.
pub struct EndedPorts {
    /// Monotonic time until which they are captured, nanoseconds.
    pub until: u64,
    /// The network namespace.
    pub namespace: Namespace,
    /// Those of Channel Access.
    pub ca: Vec<u16>,
    /// Those of PVAccess.
    pub pva: Vec<u16>,
    /// Whose server it was.
    pub user: String,
}

/// A record that the BPF programs must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewRecord {
    /// Its process.
    pub pid: u32,
    /// Address of its dbCommon.
    pub address: u64,
    /// Whether the user wants it.
    pub wanted: bool,
}
