//! Receives hits from the kernel: through ring buffers, or through a perf buffer for each CPU. Puts have their own
//! buffers, so that a flood of processing does not push them out.
//!
//! Either way hits are copied into a `Batch` and processed from there, so that no code of ours runs inside libbpf. No
//! hit wakes the agent by itself; the agent polls on a timer. Only when it has seen no hit for a while does it let the
//! next one wake it ([`Transport::wake_at_next`]); while there are but few, it lets the next put ([`Transport::wake_at_put`]).
//! No hit of a thread is handed over before an older one of the same thread (see `crate::bpf::batch`).

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::rc::Rc;
use std::time::Duration;

use iocrec_log::event::Tier;
use libbpf_rs::Object;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

use crate::bpf::batch::Batch;
use crate::bpf::contract::{self, map, UNTIL_PUT};
use crate::bpf::diagnosis::diagnose;
use crate::bpf::failure::Step;
use crate::bpf::given::GivenHits;
use crate::bpf::libbpf;
use crate::bpf::perf_buffer::PerfBuffer;
use crate::bpf::refusal::Refusal;
use crate::bpf::ring::{Consumed, Ring};
use crate::bpf::table::{map_of, Table};
use crate::linux::clock;

/// Bytes of hits taken from the kernel at a time if they include no puts. The ring holds four times as much.
const BATCH: usize = 128 * 1024;
/// In `asleep`: the next hit wakes the agent.
const UNTIL_HIT: u32 = 1;
/// Bytes of hits that are few: a sixteenth of the ring.
const FEW: usize = 32 * 1024;
/// Time until such a hit is checked again.
const INTERRUPTED: Duration = Duration::from_millis(1);

/// Bytes of both rings (bpf/buffers.h), if no more were asked for.
const USUAL: u64 = 768 * 1024;
/// Most that can be asked for: 48 MiB, all of which counts as resident memory.
const MOST_TIMES: u64 = 64;

/// Room for the hits that wait for the agent, as a multiple of the usual: a power of two, as the kernel wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room(u32);

impl Default for Room {
    fn default() -> Room {
        Room(1)
    }
}

impl Room {
    /// For this number of bytes in rings; `None` if it is too much.
    pub fn for_bytes(bytes: u64) -> Option<Room> {
        let times = Some(bytes.div_ceil(USUAL)).filter(|times| *times <= MOST_TIMES)?;
        Some(Room(times.next_power_of_two() as u32))
    }

    /// How often the usual room it is.
    pub fn times(self) -> u32 {
        self.0
    }
}

/// Pages of 4 KiB for each CPU in the perf tier, if no more were asked for. 512 KiB hold the 5000 hits of a tenth of a
/// second of a very busy IOC; 128 KiB hold the hits of 350 puts.
const PAGES: usize = 128;
const PAGES_OF_PUTS: usize = 32;
/// Number of waiting hits on a CPU that wakes the reader: a fifth of its buffer, a quarter of that of puts. The reader
/// also polls every 50 ms.
const WAKE_AT: u32 = 1024;
const WAKE_AT_PUTS: u32 = 180;

struct Rings {
    hits: Ring,
    puts: Ring,
    lost: Table<u32, u64>,
    /// Not 0: the next hit wakes the agent, and sets this to 0; [`UNTIL_PUT`]: the next put from outside.
    asleep: Table<u32, u32>,
}

struct PerfBuffers {
    hits: PerfBuffer,
    puts: PerfBuffer,
    given: GivenHits,
}

enum Buffer {
    Rings(Box<Rings>),
    Perf(Box<PerfBuffers>),
}

/// Numbers of hits that did not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Of processing, of requests for it, and of links' puts.
    pub processing: u64,
    /// Of puts from outside.
    pub puts: u64,
}

/// Whether the next hit wakes the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// It does.
    Set,
    /// There are hits already.
    HitsWait,
    /// This tier can't do that.
    Impossible,
}

/// The reading end of the buffers.
pub struct Transport {
    buffer: Buffer,
    /// Reused; between rounds it holds hits that are too new.
    batch: Rc<RefCell<Batch>>,
    /// Of all buffers.
    epoll: Epoll,
    /// Whether the next hit wakes the agent, as far as is known: no hit has come since that was asked for.
    is_set: bool,
    /// The same for the next put from outside.
    awaits_put: bool,
    /// Whether what was taken last were many hits, or puts.
    took_much: bool,
    lost_before: Lost,
}

impl Transport {
    /// Opens the buffers of a loaded object, of either kind.
    ///
    /// # Errors
    /// One is missing, or the kernel provides no mapping or no descriptor.
    pub fn open(object: &Object, tier: Tier, room: Room) -> Result<Transport, Refusal> {
        let refused = |step| move |error: io::Error| diagnose(step, error.into());
        let batch = Rc::new(RefCell::new(Batch::default()));
        // before libbpf makes its own: so a later ENOSYS is that of perf_event_open()
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC);
        let epoll = epoll.map_err(|errno| refused(Step::Epoll)(errno.into()))?;
        let buffer = libbpf::listen(|| match tier {
            Tier::Ring => Ok(Buffer::Rings(Box::new(Rings {
                hits: Ring::open(object, map::HITS)?,
                puts: Ring::open(object, map::PUTS)?,
                lost: Table::open(object, map::LOST)?,
                asleep: Table::open(object, map::ASLEEP)?,
            }))),
            _ => {
                let (hits, puts) = (map_of(object, map::HITS)?, map_of(object, map::PUTS)?);
                let open = |map: &libbpf_rs::Map, pages, wake_at| {
                    PerfBuffer::open(map.as_fd(), pages * room.times() as usize, wake_at, batch.clone())
                };
                Ok(Buffer::Perf(Box::new(PerfBuffers {
                    hits: open(&hits, PAGES, WAKE_AT)?,
                    puts: open(&puts, PAGES_OF_PUTS, WAKE_AT_PUTS)?,
                    given: GivenHits::open(object)?,
                })))
            }
        });
        let buffer = buffer.map_err(|failure| diagnose(Step::Buffers, failure))?;
        // A ring itself is readable as soon as there is a single hit; through epoll, only when the programs wake it.
        for buffer in buffer.fds() {
            let added = epoll.add(buffer, EpollEvent::new(EpollFlags::EPOLLIN, 0));
            added.map_err(|errno| refused(Step::Epoll)(errno.into()))?;
        }
        let (is_set, awaits_put, took_much) = (false, false, false);
        Ok(Transport { buffer, batch, epoll, is_set, awaits_put, took_much, lost_before: Lost::default() })
    }

    /// Becomes readable when enough hits wait.
    pub fn fd(&self) -> RawFd {
        self.epoll.0.as_raw_fd()
    }

    /// Makes the next hit wake the agent, whatever the number of waiting ones, if none waits now. Where the kernel wakes
    /// it nevertheless, the hit has been handed over in the moment between.
    pub fn wake_at_next(&mut self) -> Wake {
        let Buffer::Rings(rings) = &self.buffer else { return Wake::Impossible };
        let Rings { hits, puts, asleep, .. } = &**rings;
        // first: a hit that comes before this is seen below, one that comes after it wakes the agent
        if !self.is_set && asleep.set(0, UNTIL_HIT).is_err() {
            return Wake::Impossible;
        }
        self.awaits_put = false;
        let is_empty = hits.is_empty(hits.produced()) && puts.is_empty(puts.produced());
        self.is_set = is_empty && self.batch.borrow().is_empty();
        if self.is_set {
            Wake::Set
        } else {
            Wake::HitsWait
        }
    }

    /// Makes the next put from outside wake the agent, if the hits that were taken last are few and none of them is a put.
    /// Returns whether it does; else hits are to be taken as soon as usual.
    pub fn wake_at_put(&mut self) -> bool {
        let Buffer::Rings(rings) = &self.buffer else { return false };
        if self.took_much || !self.awaits_put && rings.asleep.set(0, UNTIL_PUT).is_err() {
            return false;
        }
        (self.is_set, self.awaits_put) = (false, true);
        // a put that came before this is seen here, one that comes after it wakes the agent
        rings.puts.is_empty(rings.puts.produced())
    }

    /// Hands over the waiting hits, those of each thread in order. True if there may be more.
    pub fn drain(&mut self, mut work: impl FnMut(&Batch)) -> bool {
        // before any hit is taken: see the module of the batch
        let now = clock::monotonic();
        let done = match &self.buffer {
            Buffer::Rings(rings) => {
                let Rings { hits, puts, .. } = &**rings;
                // In this order: a put that comes after the second read is not older than a hit before the first.
                let (hits_until, puts_until) = (hits.produced(), puts.produced());
                let mut batch = self.batch.borrow_mut();
                if puts.is_empty(puts_until) && batch.bytes() == 0 {
                    // hits in the ring alone are in the right order
                    let done = hits.consume(hits_until, |first, second| {
                        batch.push(first, second);
                        batch.bytes() < BATCH
                    });
                    self.is_set &= batch.is_empty();
                    self.took_much = batch.bytes() > FEW;
                    work(&batch);
                    let more = batch.bytes() >= BATCH;
                    batch.clear(2 * BATCH);
                    if done == Consumed::Waits {
                        std::thread::sleep(INTERRUPTED);
                    }
                    return more || done == Consumed::Waits;
                }
                // one of the puts may have woken the agent
                (self.awaits_put, self.took_much) = (false, true);
                // Most that is held back while an interrupted program writes a hit. Beyond that, completeness matters
                // more than order.
                let most = hits.size() + puts.size();
                let mut take = |ring: &Ring, until| {
                    ring.consume(until, |first, second| {
                        batch.push(first, second);
                        batch.bytes() < most
                    })
                };
                [take(puts, puts_until), take(hits, hits_until)]
            }
            Buffer::Perf(buffers) => {
                buffers.puts.consume();
                buffers.hits.consume();
                [Consumed::All; 2]
            }
        };
        if done.contains(&Consumed::Waits) && !done.contains(&Consumed::Enough) {
            std::thread::sleep(INTERRUPTED);
            return true;
        }
        let mut batch = self.batch.borrow_mut();
        batch.sort();
        let later = if done.contains(&Consumed::Enough) { Batch::default() } else { batch.split(now) };
        self.is_set &= batch.is_empty() && later.is_empty();
        work(&batch);
        let more = batch.bytes() >= BATCH;
        batch.clear(2 * BATCH);
        later.samples().for_each(|sample| batch.push(sample, &[]));
        more
    }

    /// Number of hits that did not fit since the last call, as far as is known: none too many, and after the end of all
    /// tracing none too few.
    pub fn lost(&mut self) -> Lost {
        let now = match &self.buffer {
            Buffer::Rings(rings) => {
                let count = |sort: contract::Lost| rings.lost.get(sort as u32);
                let before = self.lost_before;
                Lost {
                    processing: count(contract::Lost::Processing).unwrap_or(before.processing),
                    puts: count(contract::Lost::Puts).unwrap_or(before.puts),
                }
            }
            Buffer::Perf(buffers) => buffers.lost(),
        };
        let before = self.lost_before;
        // a hit that is taken before it is counted makes the difference smaller for a moment
        let now = Lost { processing: now.processing.max(before.processing), puts: now.puts.max(before.puts) };
        self.lost_before = now;
        Lost { processing: now.processing - before.processing, puts: now.puts - before.puts }
    }
}

impl PerfBuffers {
    /// Numbers of hits that did not fit since the buffers were opened.
    ///
    /// Hits given to a buffer are counted after it got them. So those counted before all waiting ones are taken have
    /// been taken, or are lost; of those taken only the ones that are not later than the count matter. The kernel's own
    /// notes come later, but are right even where a count is too low (see `give` in bpf/buffers.h).
    fn lost(&self) -> Lost {
        let (hits, puts) =
            (self.given.count(contract::Lost::Processing), self.given.count(contract::Lost::Puts));
        let until = clock::monotonic();
        let of = |given: u64, buffer: &PerfBuffer| {
            given.saturating_sub(buffer.taken_until(until)).max(buffer.lost())
        };
        Lost { processing: of(hits, &self.hits), puts: of(puts, &self.puts) }
    }
}

impl Buffer {
    /// Descriptors that become readable.
    fn fds(&self) -> [BorrowedFd<'_>; 2] {
        match self {
            Buffer::Rings(rings) => [rings.hits.map(), rings.puts.map()],
            Buffer::Perf(buffers) => [buffers.hits.epoll_fd(), buffers.puts.epoll_fd()],
        }
    }
}
