//! What the recorder's code works with, passed as one value.
//!
//! [`Env`] is what every part needs: time, options, the machine, where facts and messages go, what belongs to the run.
//! [`Context`] adds what several sources share: the traced IOCs, the circuits, what the BPF programs know. A source
//! lends `env` to a part of the rest, so the two stand apart.

use std::time::Duration;

use iocrec_log::event::{Event, Fact};
use nix::poll::PollFd;

use crate::bpf::maps::Maps;
use crate::linux::clock::{self, Clock};
use crate::linux::procfs::{Proc, Procfs};
use crate::linux::signals;
use crate::recorder::circuits::Circuits;
use crate::recorder::options::Options;
use crate::recorder::registry::{Registry, Run};
use crate::recorder::sink::Sink;

/// What the recorder asks of the machine that it runs on; tests answer in its place.
pub struct Machine {
    /// Its clock.
    pub clock: Box<dyn Clock>,
    /// Its processes.
    pub procfs: Box<dyn Procfs>,
    /// Has a signal come that ends the recording?
    pub is_told_to_end: fn() -> bool,
}

impl Machine {
    /// The one that this runs on.
    pub fn this() -> Machine {
        Machine { clock: Box::new(clock::System), procfs: Box::new(Proc), is_told_to_end: signals::ended }
    }
}

/// What every part of the recorder works with.
pub struct Env<'a> {
    /// The monotonic time at which this round of the loop began, nanoseconds.
    pub now: u64,
    /// What to add to a monotonic time for nanoseconds since 1970, as the log knows it.
    pub wall_offset: i64,
    /// What the user wants.
    pub options: &'a Options,
    /// The machine.
    pub machine: &'a Machine,
    /// Where facts go.
    pub sink: &'a mut dyn Sink,
    /// Lines for people.
    pub messages: &'a mut Vec<String>,
    /// Ids, limits and requests of this run.
    pub run: &'a mut Run,
}

impl Env<'_> {
    /// The monotonic time at this very moment, nanoseconds.
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

    /// Lets time pass.
    pub fn sleep(&self, time: Duration) {
        self.machine.clock.wait(&mut [] as &mut [PollFd], time);
    }
}

/// What a source of facts works with.
pub struct Context<'a> {
    /// What every part needs.
    pub env: Env<'a>,
    /// The traced IOCs and what is known of them.
    pub iocs: &'a mut Registry,
    /// Channel Access circuits.
    pub circuits: &'a mut Circuits,
    /// What the BPF programs know; `None` where none run.
    pub maps: Option<&'a mut Maps>,
    /// Set by a source when IOCs, their ports or what is known of them have changed: all sources then adapt.
    pub changed: bool,
}
