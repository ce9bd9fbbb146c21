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
use crate::deaths::contract::{Mortal, DEATHS, MORTALS, OBJECT};
use crate::deaths::event::{parse, Event};
use crate::deaths::self_test::{self, SelfTestError, Tried};

/// Pages of 4 KiB for each CPU in the perf tier: 70 events.
const PAGES: usize = 2;
/// Most bytes of events taken at a time: all that the ring holds.
const MOST: usize = 1 << 16;

/// The programs without which nothing is told.
const NEEDED: [&str; 2] = ["generated", "delivers"];
/// The program that tells that memory was short.
const OOM: &str = "marks_victim";

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
    /// Neither registers nor stack of a crash are told.
    NoStack,
    /// Neither addresses nor registers: the perf tier's programs are used.
    PerfTier,
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
            Lacks::Attach(_, why) => write!(f, "the kernel's tracepoints of signals can't be used: {why}"),
            Lacks::SelfTest(_, why) => why.fmt(f),
            Lacks::NoOom(why) => write!(f, "kills for lack of memory look like others: {why}"),
            Lacks::NoStack => f.write_str(
                "crashes are told without their place in the code: the kernel gives no registers (Linux 5.15)",
            ),
            Lacks::PerfTier => f.write_str(
                "crashes are told without address and place in the code: that needs Linux 5.15 with BTF",
            ),
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
    batch: Rc<RefCell<Batch>>,
    lost: u64,
    /// Dropped before the programs.
    _links: Vec<Link>,
    _object: Object,
}

impl Deaths {
    /// The best programs of these tiers that work here. Also returns what is missing, and why.
    pub fn open(tiers: &[Tier]) -> (Option<Deaths>, Vec<Lacks>) {
        let mut lacks = Vec::new();
        for &tier in tiers {
            let mut parts = Vec::new();
            match Deaths::of(tier, &mut parts) {
                Ok(mut deaths) => match self_test::run(&mut deaths) {
                    Ok(tried) => {
                        match (tier, tried) {
                            (Tier::Ring, Tried::WithoutStack) => parts.push(Lacks::NoStack),
                            (Tier::Ring, Tried::Whole) => {}
                            _ => parts.push(Lacks::PerfTier),
                        }
                        lacks.extend(parts);
                        return (Some(deaths), lacks);
                    }
                    Err(why) => lacks.push(Lacks::SelfTest(tier, why)),
                },
                Err(why) => lacks.push(why),
            }
        }
        (None, lacks)
    }

    fn of(tier: Tier, parts: &mut Vec<Lacks>) -> Result<Deaths, Lacks> {
        let object = load(OBJECT, tier, |_| Ok(())).map_err(|why| Lacks::Load(tier, why))?;
        let refused = |error: io::Error| {
            Lacks::Load(tier, LoadError::Refused(diagnose(Step::Buffers, Failure::from(error))))
        };
        let batch = Rc::new(RefCell::new(Batch::default()));
        let mortals = Table::open(&object, MORTALS).map_err(refused)?;
        let buffer = match tier {
            Tier::Ring => Ring::open(&object, DEATHS).map(Buffer::Ring),
            _ => map_of(&object, DEATHS)
                .and_then(|map| PerfBuffer::open(map.as_fd(), PAGES, 1, batch.clone()))
                .map(|buffer| Buffer::Perf(Box::new(buffer))),
        };
        let buffer = buffer.map_err(refused)?;
        let attached: Result<Vec<Link>, Failure> = NEEDED.iter().map(|name| attach(&object, name)).collect();
        let mut links = attached.map_err(|failure| Lacks::Attach(tier, failure))?;
        match attach(&object, OOM) {
            Ok(link) => links.push(link),
            Err(failure) => parts.push(Lacks::NoOom(failure)),
        }
        Ok(Deaths { buffer, mortals, batch, lost: 0, _links: links, _object: object })
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
        let events = batch.samples().filter_map(parse).collect();
        batch.clear(0);
        events
    }
}
