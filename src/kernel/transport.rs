//! How hits come out of the kernel: one ring buffer, or a perf buffer a CPU.
//!
//! Either way hits are copied into a [`Batch`] and worked on from there, so that nothing of ours runs
//! inside libbpf. Nobody is woken for a single hit; the agent looks in on a timer.

use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use std::rc::Rc;

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, PerfBuffer, PerfBufferBuilder, RingBuffer, RingBufferBuilder};

/// Bytes taken over from the kernel at a time. The ring holds four times as much.
const BATCH: usize = 256 * 1024;
/// Pages of 4 KiB a CPU of the perf buffer: 256 KiB hold the 10 ms of a full load of 400 k hits/s.
const PERF_PAGES: usize = 64;

/// Hits as they came, one behind the other.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Batch {
    fn push(&mut self, sample: &[u8]) -> bool {
        self.bytes.extend_from_slice(sample);
        self.ends.push(self.bytes.len() as u32);
        self.bytes.len() < BATCH
    }

    /// Each hit in turn.
    pub fn samples(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().filter_map(move |&end| {
            let sample = self.bytes.get(start..end as usize);
            start = end as usize;
            sample
        })
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

enum Buffer {
    Ring { ring: RingBuffer<'static>, lost: MapHandle },
    Perf { perf: PerfBuffer<'static>, lost: Rc<Cell<u64>> },
}

/// The open end of the buffers.
pub struct Transport {
    buffer: Buffer,
    batch: Rc<RefCell<Batch>>,
    lost_before: u64,
}

/// Returned by a ring callback to stop for now: libbpf hands it back as the result of the poll.
const STOP: i32 = -libc::EAGAIN;

impl Transport {
    /// Opens the `hits` map of a loaded object, whichever kind it is.
    pub fn open(object: &Object) -> libbpf_rs::Result<Transport> {
        let map = |name: &str| object.maps().find(|map| map.name() == name);
        let missing = || libbpf_rs::Error::from_raw_os_error(libc::ENOENT);
        let hits = map("hits").ok_or_else(missing)?;
        let batch = Rc::new(RefCell::new(Batch::default()));
        let into = batch.clone();
        let buffer = match map("lost") {
            Some(lost) => {
                let mut builder = RingBufferBuilder::new();
                builder.add(&hits, move |sample| if into.borrow_mut().push(sample) { 0 } else { STOP })?;
                Buffer::Ring { ring: builder.build()?, lost: MapHandle::try_from(&lost)? }
            }
            None => {
                let lost = Rc::new(Cell::new(0));
                let count = lost.clone();
                let perf = PerfBufferBuilder::new(&hits)
                    .pages(PERF_PAGES)
                    .sample_cb(move |_, sample: &[u8]| _ = into.borrow_mut().push(sample))
                    .lost_cb(move |_, more| count.set(count.get() + more))
                    .build()?;
                Buffer::Perf { perf, lost }
            }
        };
        Ok(Transport { buffer, batch, lost_before: 0 })
    }

    /// Becomes readable when hits wait and it is worth while.
    pub fn fd(&self) -> RawFd {
        match &self.buffer {
            Buffer::Ring { ring, .. } => ring.epoll_fd(),
            Buffer::Perf { perf, .. } => perf.epoll_fd(),
        }
    }

    /// Hands the waiting hits over, at most a batch of them; true if there may be more.
    pub fn drain(&mut self, mut work: impl FnMut(&Batch)) -> bool {
        self.batch.borrow_mut().clear();
        match &self.buffer {
            Buffer::Ring { ring, .. } => _ = ring.consume_raw(),
            // an error here concerns one CPU's buffer and passes: the hits stay where they are
            Buffer::Perf { perf, .. } => _ = perf.consume(),
        }
        let batch = self.batch.borrow();
        work(&batch);
        batch.bytes.len() >= BATCH
    }

    /// Hits that found no room since last asked.
    pub fn lost(&mut self) -> u64 {
        let now = match &self.buffer {
            Buffer::Ring { lost, .. } => lost
                .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
                .ok()
                .flatten()
                .and_then(|bytes| Some(u64::from_ne_bytes(bytes.try_into().ok()?)))
                .unwrap_or(self.lost_before),
            Buffer::Perf { lost, .. } => lost.get(),
        };
        let new = now.saturating_sub(self.lost_before);
        self.lost_before = now;
        new
    }
}
