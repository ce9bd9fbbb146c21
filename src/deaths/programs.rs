//! The loaded programs, and their events.

use std::cell::RefCell;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::rc::Rc;

use iocrec_log::event::Tier;
use libbpf_rs::{Link, Object};

use crate::bpf::batch::Batch;
use crate::bpf::diagnosis::diagnose;
use crate::bpf::failure::{Failure, Step};
use crate::bpf::load::{attach, load, LoadError};
use crate::bpf::perf_buffer::PerfBuffer;
use crate::bpf::ring::Ring;
use crate::bpf::shared::Shared;
use crate::bpf::table::{map_of, MapError, Table};
use crate::deaths::contract::{Mortal, DEATHS, MORTALS, OBJECT, PLACES};
use crate::deaths::event::{parse, Event};
use crate::deaths::self_test::{self, SelfTestError, Tried};
use crate::linux::process::is_first_pid_namespace;

/// Pages of 4 KiB for each CPU in the perf tier: 70 events.
const PAGES: usize = 2;
/// Most bytes of events taken at a time: all that the ring holds.
const MOST: usize = 1 << 16;

/// The programs of a tier without which nothing is told, the best choice first: of the second only one is loaded. The perf
/// tier's that is attached to a raw tracepoint tells addresses, and needs Linux 4.17.
const RING: [[&str; 2]; 1] = [["generated", "delivers"]];
const PERF: [[&str; 2]; 2] = [["generated", WITH_ADDRESS], ["generated", "delivers"]];
const WITH_ADDRESS: &str = "delivers_raw";
/// The program that tells that memory was short.
const OOM: &str = "marks_victim";

/// The program that tells when processes end.
const ENDS: &str = "ends";

/// Why nothing, or not everything, is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lacks {
    /// The programs of a tier are not loaded.
    Load(Tier, LoadError),
    /// They could not be attached.
    Attach(Tier, Failure),
    /// They tell nothing, or not the truth.
    SelfTest(Tier, SelfTestError),
    /// Kills for lack of memory cannot be told from others.
    NoOom(Failure),
    /// Of a crash the stack is not told, nor what is set.
    Parts {
        /// The tier of the programs.
        tier: Tier,
        /// Where the thread stood.
        place: bool,
        /// The address that could not be accessed.
        address: bool,
    },
}

impl Lacks {
    /// Whether nothing is told by the programs of a tier.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Lacks::Load(..) | Lacks::Attach(..) | Lacks::SelfTest(..))
    }
}

impl Display for Lacks {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Lacks::Load(_, why) => why.fmt(f),
            // a container has no tracefs, and would be told nothing with one
            Lacks::Attach(_, Failure { errno: libc::ENOENT, .. }) if !is_first_pid_namespace() => {
                SelfTestError::PidNamespace.fmt(f)
            }
            Lacks::Attach(_, Failure { errno: libc::ENOENT, .. }) => f.write_str(
                "the kernel's tracepoints of signals can't be used: tracefs is not mounted (mount -t tracefs tracefs \
                 /sys/kernel/tracing), or this kernel has none (CONFIG_EVENT_TRACING)",
            ),
            Lacks::Attach(_, why) => write!(f, "the kernel's tracepoints of signals can't be used: {why}"),
            Lacks::SelfTest(_, why) => why.fmt(f),
            Lacks::NoOom(Failure { errno: libc::ENOENT, .. }) => f.write_str(
                "kills for lack of memory look like others: this kernel has no tracepoint oom/mark_victim",
            ),
            Lacks::NoOom(why) => write!(f, "kills for lack of memory look like others: {why}"),
            Lacks::Parts { tier, place, address } => {
                let parts = match (place, address) {
                    (false, false) => "stack",
                    (true, false) => "place in the code and stack",
                    (false, true) => "address and stack",
                    (true, true) => "address, place in the code and stack",
                };
                let why = match tier {
                    Tier::Ring => "the kernel gives no registers",
                    _ => "that needs a 64-bit Linux, 5.8 (PREEMPT_RT: 6.12) or later, with BTF",
                };
                write!(f, "crashes are told without their {parts}: {why}")
            }
        }
    }
}

enum Buffer {
    Ring(Ring),
    Perf(Box<PerfBuffer>),
}

/// The programs, loaded and attached.
pub struct Deaths {
    buffer: Buffer,
    mortals: Table<u32, Mortal>,
    /// Where threads stood, in the perf tier.
    places: Option<Table<u32, u64>>,
    batch: Rc<RefCell<Batch>>,
    lost: u64,
    /// Whether they tell which process the kernel kills to get memory back.
    pub tells_memory: bool,
    /// Dropped before the programs.
    _links: Vec<Link>,
    _object: Object,
}

impl Deaths {
    /// The best programs of these tiers that work here. Also returns what is missing, and why.
    pub fn open(tiers: &[Tier]) -> (Option<Deaths>, Vec<Lacks>) {
        let mut lacks = Vec::new();
        for &tier in tiers {
            let choices = if tier == Tier::Ring { RING.as_slice() } else { PERF.as_slice() };
            for (number, needed) in choices.iter().enumerate() {
                let mut parts = Vec::new();
                match Deaths::tried(tier, needed, &mut parts) {
                    Ok((deaths, tried)) => {
                        let has_address = needed.contains(&WITH_ADDRESS) || tier == Tier::Ring;
                        if tried != Tried::Whole {
                            let place = tried == Tried::Nothing;
                            parts.push(Lacks::Parts { tier, place, address: !has_address });
                        }
                        lacks.extend(parts);
                        return (Some(deaths), lacks);
                    }
                    // of two the reason of the simpler one
                    Err(why) if number + 1 == choices.len() => lacks.push(why),
                    Err(_) => {}
                }
            }
        }
        (None, lacks)
    }

    /// These programs of a tier, and what they can tell.
    pub(super) fn tried(
        tier: Tier,
        needed: &[&'static str],
        parts: &mut Vec<Lacks>,
    ) -> Result<(Deaths, Tried), Lacks> {
        let mut deaths = Deaths::of(tier, needed, parts)?;
        let tried = self_test::run(&mut deaths).map_err(|why| Lacks::SelfTest(tier, why))?;
        Ok((deaths, tried))
    }

    fn of(tier: Tier, needed: &[&'static str], parts: &mut Vec<Lacks>) -> Result<Deaths, Lacks> {
        let object = load(OBJECT, tier, |object| {
            for mut program in object.progs_mut() {
                let is_wanted = [OOM, ENDS].iter().chain(needed).any(|name| program.name() == *name);
                program.set_autoload(is_wanted);
            }
            Ok(())
        });
        let object = object.map_err(|why| Lacks::Load(tier, why))?;
        let refused = |error: io::Error| {
            Lacks::Load(tier, LoadError::Refused(diagnose(Step::Buffers, Failure::from(error))))
        };
        let batch = Rc::new(RefCell::new(Batch::default()));
        let mortals = Table::open(&object, MORTALS).map_err(refused)?;
        let (buffer, places) = match tier {
            Tier::Ring => (Ring::open(&object, DEATHS).map(Buffer::Ring), None),
            _ => (
                map_of(&object, DEATHS)
                    .and_then(|map| PerfBuffer::open(map.as_fd(), PAGES, 1, batch.clone()))
                    .map(|buffer| Buffer::Perf(Box::new(buffer))),
                Some(Table::open(&object, PLACES).map_err(refused)?),
            ),
        };
        let buffer = buffer.map_err(refused)?;
        let attached: Result<Vec<Link>, Failure> = needed.iter().map(|name| attach(&object, name)).collect();
        let mut links = attached.map_err(|failure| Lacks::Attach(tier, failure))?;
        match attach(&object, OOM) {
            Ok(link) => links.push(link),
            Err(failure) => parts.push(Lacks::NoOom(failure)),
        }
        let tells_memory = links.len() > needed.len();
        // without it an end has the time at which it is noticed
        links.extend(attach(&object, ENDS).ok());
        Ok(Deaths { buffer, mortals, places, batch, lost: 0, tells_memory, _links: links, _object: object })
    }

    /// Becomes readable when an event waits.
    pub fn fd(&self) -> RawFd {
        match &self.buffer {
            Buffer::Ring(ring) => ring.map().as_raw_fd(),
            Buffer::Perf(buffer) => buffer.epoll_fd().as_raw_fd(),
        }
    }

    /// Begins to tell of a process.
    ///
    /// # Errors
    /// The map is full.
    pub fn watch(&self, pid: u32) -> Result<(), MapError> {
        self.mortals.set(pid, Mortal::zeroed())
    }

    /// Tells no more of a process.
    pub fn forget(&self, pid: u32) {
        self.mortals.remove(pid);
    }

    /// Number of signals to a process that were not told so far.
    pub fn left_out(&self, pid: u32) -> u64 {
        self.mortals.get(pid).map_or(0, |mortal| mortal.left_out)
    }

    /// Monotonic time at which the last thread of a process that has ended ended; 0 if that is not known.
    pub fn ended(&self, pid: u32) -> u64 {
        self.mortals.get(pid).map_or(0, |mortal| mortal.ended)
    }

    /// Number of events that did not fit since the last call, as far as the kernel tells.
    pub fn lost(&mut self) -> u64 {
        let Buffer::Perf(buffer) = &self.buffer else { return 0 };
        let before = std::mem::replace(&mut self.lost, buffer.lost());
        self.lost - before
    }

    /// Takes the waiting events.
    pub fn take(&self) -> Vec<Event> {
        match &self.buffer {
            Buffer::Ring(ring) => {
                let mut batch = self.batch.borrow_mut();
                ring.consume(ring.produced(), |first, second| {
                    batch.push(first, second);
                    batch.bytes() < MOST
                });
            }
            Buffer::Perf(buffer) => buffer.consume(),
        }
        let mut batch = self.batch.borrow_mut();
        batch.sort();
        let place_of = |key| {
            let places = self.places.as_ref()?;
            let place = places.get(key);
            places.remove(key);
            place
        };
        let events = batch.samples().filter_map(|bytes| parse(bytes, place_of)).collect();
        batch.clear(0);
        events
    }
}
