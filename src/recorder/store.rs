//! A log writer on a thread of its own.
//!
//! Writing may block: an SD card can take seconds to sync. The recorder must go on taking hits and packets
//! over meanwhile, so events wait in memory, up to a limit. Beyond that hits are dropped and
//! counted, and the log says how many; definitions, which later hits need, never are.

use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use iocrec_log::event::{Event, Fact, Loss, LossSource, Sort};
use iocrec_log::storage::Storage;
use iocrec_log::writer::{Status, Writer};

use super::sink::Sink;
use crate::clock;

/// Events that wait for the writer at most: the three seconds of a busy IOC (20,000 hits/s) that a
/// bad card takes to sync, some 7 MiB.
const MOST_WAITING: usize = 60_000;
/// Batches under way to the writer. One is worked on while the next is made.
const UNDER_WAY: usize = 2;
/// Events are handed to the writer when there are so many, at the latest at the next tick: 100 KiB each batch.
const BATCH: usize = 1024;
/// How often the writer looks at its clocks when nothing comes.
const BEAT: Duration = Duration::from_millis(50);

/// The recorder's end.
pub struct Store {
    waiting: Vec<Event>,
    sender: SyncSender<Vec<Event>>,
    notices: Receiver<String>,
    writer: JoinHandle<Status>,
    dropped: u64,
    dropped_since: u64,
    /// Bytes written so far.
    written: Arc<Mutex<u64>>,
}

impl Store {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start<S: Storage + Send + 'static>(mut writer: Writer<S>) -> std::io::Result<Store> {
        let (sender, events) = sync_channel::<Vec<Event>>(UNDER_WAY);
        // few notices come, rate-limited by the writer; one too many is dropped rather than waited for
        let (notice, notices) = sync_channel(16);
        let written = Arc::new(Mutex::new(0));
        let tell_written = written.clone();
        let thread = thread::Builder::new().name("log".into()).spawn(move || {
            loop {
                match events.recv_timeout(BEAT) {
                    Ok(batch) => batch.into_iter().for_each(|event| writer.push(event)),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                writer.tick(clock::monotonic());
                if let Ok(mut written) = tell_written.lock() {
                    *written = writer.status().written;
                }
                if let Some(line) = writer.take_notice() {
                    let _ = notice.try_send(line);
                }
            }
            writer.close(clock::monotonic());
            if let Some(line) = writer.take_notice() {
                let _ = notice.try_send(line);
            }
            writer.status().clone()
        })?;
        let waiting = Vec::new();
        Ok(Store { waiting, sender, notices, writer: thread, dropped: 0, dropped_since: 0, written })
    }

    /// Waits until everything is written; how the writer did, and what it last said.
    pub fn close(mut self) -> Result<(Status, Vec<String>), String> {
        self.tell_of_dropped(clock::monotonic());
        // the thread ends when the channel is closed; if it is gone already the join says so
        let _ = self.sender.send(std::mem::take(&mut self.waiting));
        drop(self.sender);
        let status =
            self.writer.join().map_err(|_| "the log writer failed; the log ends early".to_string())?;
        Ok((status, self.notices.try_iter().collect()))
    }

    /// Hands what waits to the writer, if that has room.
    fn hand_over(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        match self.sender.try_send(std::mem::take(&mut self.waiting)) {
            Ok(()) => {}
            Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) => self.waiting = batch,
        }
    }

    fn tell_of_dropped(&mut self, now: u64) {
        let count = std::mem::take(&mut self.dropped);
        if count > 0 {
            let cause = "the disk was too slow".into();
            let loss = Loss { source: LossSource::Storage, count, since: self.dropped_since, cause };
            self.waiting.push(Event { time: now, fact: Fact::Loss(loss) });
        }
    }
}

/// May it be dropped? What defines or ends something may not, nor what people are to read.
fn is_hit(fact: &Fact) -> bool {
    fact.sort() == Sort::Hit && !matches!(fact, Fact::Loss(_) | Fact::Thinned(_) | Fact::Mark(_))
}

impl Sink for Store {
    fn push(&mut self, event: Event) {
        if self.waiting.len() < MOST_WAITING || !is_hit(&event.fact) {
            self.waiting.push(event);
            if self.waiting.len().is_multiple_of(BATCH) {
                self.hand_over();
            }
            return;
        }
        if self.dropped == 0 {
            self.dropped_since = event.time;
        }
        self.dropped += 1;
    }

    fn tick(&mut self, now: u64) {
        if self.waiting.len() < MOST_WAITING {
            self.tell_of_dropped(now);
        }
        self.hand_over();
    }

    fn written(&self) -> Option<u64> {
        self.written.lock().ok().map(|written| *written)
    }

    fn notice(&mut self) -> Option<String> {
        self.notices.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::Clock;
    use iocrec_log::reader::{find, Segment};
    use iocrec_log::storage::Directory;
    use iocrec_log::writer::Options;
    use std::io;
    use std::sync::{Arc, Barrier};

    /// A directory whose first append waits.
    struct Slow(Directory, Arc<Barrier>, bool);

    impl Storage for Slow {
        fn list(&mut self) -> io::Result<Vec<(String, u64)>> {
            self.0.list()
        }
        fn create(&mut self, name: &str) -> io::Result<()> {
            self.0.create(name)
        }
        fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
            if !std::mem::replace(&mut self.2, true) {
                self.1.wait();
                self.1.wait();
            }
            self.0.append(bytes)
        }
        fn sync(&mut self) -> io::Result<()> {
            self.0.sync()
        }
        fn remove(&mut self, name: &str) -> io::Result<()> {
            self.0.remove(name)
        }
        fn wall_clock(&self) -> i64 {
            self.0.wall_clock()
        }
    }

    #[test]
    fn a_slow_disk_loses_hits_that_are_counted_and_no_definitions() {
        let dir = tempfile::tempdir().unwrap();
        let barrier = Arc::new(Barrier::new(2));
        let slow = Slow(Directory::open(dir.path()).unwrap(), barrier.clone(), false);
        let options = Options { flush: Duration::from_millis(1), ..Options::default() };
        let mut store = Store::start(Writer::open(slow, options, 1).unwrap()).unwrap();
        let hit = |time| Event {
            time,
            fact: Fact::CaAnswer(iocrec_log::event::CaAnswer {
                circuit: 1,
                ioid: 1,
                notify: true,
                status: 1,
                text: String::new(),
            }),
        };
        store.push(hit(1));
        store.tick(1);
        barrier.wait(); // the writer hangs in its first append
        let more = MOST_WAITING as u64 * 4;
        for time in 2..more {
            store.push(hit(time));
            store.tick(time);
        }
        store.push(Event { time: more, fact: Fact::Clock(Clock { wall: 5 }) });
        barrier.wait();
        let (status, _) = store.close().unwrap();
        assert_eq!(status.lost, 0);
        let (mut hits, mut lost, mut clocks) = (0, 0, 0);
        for file in find(dir.path()).unwrap() {
            let mut segment = Segment::open(&file.path).unwrap();
            while let Some(block) = segment.next_block() {
                let block = block.unwrap();
                for event in block.events.iter().filter(|_| !block.keyframe) {
                    match &event.fact {
                        Fact::CaAnswer(_) => hits += 1,
                        Fact::Loss(loss) => lost += loss.count,
                        Fact::Clock(_) => clocks += 1,
                        _ => {}
                    }
                }
            }
        }
        assert_eq!(hits + lost, more - 1, "each hit is in the log or counted");
        assert!(lost > 0 && hits >= MOST_WAITING as u64);
        assert_eq!(clocks, 1);
    }
}
