//! How hits come out of the kernel: one ring buffer, or a perf buffer a CPU.
//!
//! Either way hits are copied into a [`Batch`] and worked on from there, so that nothing of ours runs
//! inside libbpf. Nobody is woken for a single hit; the agent looks in on a timer.

use std::cell::RefCell;
use std::os::fd::{AsFd, RawFd};
use std::rc::Rc;

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};

use super::perf_buffer::PerfBuffer;
use super::ring::Ring;

/// Bytes taken over from the kernel at a time. The ring holds four times as much.
const BATCH: usize = 128 * 1024;

/// Hits as they came, one behind the other.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Where each begins and ends.
    places: Vec<(u32, u32)>,
}

impl Batch {
    /// Takes a hit, in one or two pieces; false once that is enough for a batch.
    pub(super) fn push(&mut self, sample: &[u8], rest: &[u8]) -> bool {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(sample);
        self.bytes.extend_from_slice(rest);
        self.places.push((start, self.bytes.len() as u32));
        self.bytes.len() < BATCH
    }

    /// Each hit in turn.
    pub fn samples(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().filter_map(|&(start, end)| self.bytes.get(start as usize..end as usize))
    }

    /// Puts the hits of several CPUs into the order of time: what one thread has begun another may have ended. They are
    /// in order for each CPU, so this takes hardly any time.
    fn sort(&mut self) {
        let time = |start: u32| {
            let bytes = self.bytes.get(start as usize..)?.first_chunk();
            bytes.map(|bytes| u64::from_ne_bytes(*bytes))
        };
        self.places.sort_by_key(|&(start, _)| time(start));
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }
}

enum Buffer {
    Ring { ring: Ring, lost: MapHandle },
    Perf(PerfBuffer),
}

/// The open end of the buffers.
pub struct Transport {
    buffer: Buffer,
    batch: Rc<RefCell<Batch>>,
    lost_before: u64,
}

impl Transport {
    /// Opens the `hits` map of a loaded object, whichever kind it is.
    pub fn open(object: &Object) -> libbpf_rs::Result<Transport> {
        let map = |name: &str| object.maps().find(|map| map.name() == name);
        let missing = || libbpf_rs::Error::from_raw_os_error(libc::ENOENT);
        let hits = map("hits").ok_or_else(missing)?;
        let batch = Rc::new(RefCell::new(Batch::default()));
        let buffer = match map("lost") {
            Some(lost) => {
                let ring = Ring::open(MapHandle::try_from(&hits)?)?;
                Buffer::Ring { ring, lost: MapHandle::try_from(&lost)? }
            }
            None => Buffer::Perf(PerfBuffer::open(hits.as_fd(), batch.clone())?),
        };
        Ok(Transport { buffer, batch, lost_before: 0 })
    }

    /// Becomes readable when hits wait and it is worth while.
    pub fn fd(&self) -> RawFd {
        match &self.buffer {
            Buffer::Ring { ring, .. } => ring.fd(),
            Buffer::Perf(perf) => perf.epoll_fd(),
        }
    }

    /// Hands the waiting hits over, at most a batch of them; true if there may be more.
    pub fn drain(&mut self, mut work: impl FnMut(&Batch)) -> bool {
        self.batch.borrow_mut().clear();
        match &self.buffer {
            Buffer::Ring { ring, .. } => {
                let mut batch = self.batch.borrow_mut();
                ring.consume(|first, second| batch.push(first, second));
            }
            Buffer::Perf(perf) => {
                perf.consume();
                self.batch.borrow_mut().sort();
            }
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
            Buffer::Perf(perf) => perf.lost(),
        };
        let new = now.saturating_sub(self.lost_before);
        self.lost_before = now;
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_of_all_cpus_are_in_the_order_of_time() {
        let mut batch = Batch::default();
        for time in [1u64, 4, 6, 2, 3, 5] {
            let mut sample = time.to_ne_bytes().to_vec();
            sample.resize(8 + time as usize, 0);
            assert!(batch.push(&sample, &[]));
        }
        batch.sort();
        let lengths: Vec<usize> = batch.samples().map(<[u8]>::len).collect();
        assert_eq!(lengths, [9, 10, 11, 12, 13, 14]);
    }
}
