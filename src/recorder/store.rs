//! A log writer on its own thread.
//!
//! Writing may block: an SD card can take seconds to sync. Meanwhile the recorder must still take hits and packets, so
//! events wait in memory, up to a limit. Beyond that hits are dropped and counted, and the log has the count;
//! definitions, which later hits need, are never dropped.
//!
//! [`Store`] is the recorder's end; [`Answerer`] is the end of those who ask for the status or make a mark.

use std::fmt;
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use iocrec_log::event::{Class, Event, Fact, Loss, LossSource};
use iocrec_log::storage::Storage;
use iocrec_log::writer::{MarkError, Status, Writer};

use crate::control::Request;
use crate::linux::clock;
use crate::recorder::capture_clock::CaptureClock;
use crate::recorder::heartbeat::Heartbeat;
use crate::recorder::last_records::LastRecords;
use crate::recorder::report::Report;
use crate::recorder::sink::Sink;
use crate::recorder::sources::{ROUND, UNTIL_WOKEN};
use crate::recorder::triggers::Triggers;

/// Most events that wait for the writer: a busy IOC (20,000 hits/s) makes them in the three seconds that a bad card
/// takes to sync; some 7 MiB.
const MAX_WAITING: usize = 60_000;
/// Most batches on their way to the writer: one is written while the next is filled.
const UNDER_WAY: usize = 2;
/// Events of a batch, some 100 KiB. A smaller batch is handed to the writer at the next tick.
const BATCH: usize = 1024;
/// Least time between two batches that are not full, and an eighth of the flush interval if that is less, nanoseconds. A batch
/// goes with the first round after that, and the loop wakes up for it alone only when twice the time is over: it is woken
/// every 200 ms while the kernel hands over packets.
const PACE: u64 = 95_000_000;
/// Longest time that the first hit after a rest may wait in the kernel where it can't wake the recorder. A quarter of the
/// flush interval if that is less.
const PATIENCE: Duration = Duration::from_millis(500);
/// Interval at which the writer's thread calls what should be called each second, nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// Least time between two looks at the clock of a file that is read: its seconds pass in milliseconds, and each look
/// may end a block and sync it.
const TICK_OF_FILE: Duration = Duration::from_millis(200);

/// An order to the writer's thread.
enum Order {
    /// Events to store.
    Events(Vec<Event>),
    /// A mark to store at once.
    Mark {
        /// Time when it was made, monotonic.
        time: u64,
        /// Its text.
        text: String,
        /// Takes the result: if the mark is not stored, why.
        outcome: SyncSender<Result<(), MarkError>>,
    },
    /// Something to call each second from now on.
    EachSecond(Box<dyn FnMut() + Send>),
    /// No more orders come.
    End,
}

/// The time of the events of a log.
#[derive(Clone)]
pub enum Pace {
    /// This machine's. Events come when they happen, so there is no time to wait for the disk.
    Live,
    /// That of a capture file, which can wait.
    OfFile(CaptureClock),
}

impl Pace {
    /// The monotonic time of the log, nanoseconds.
    fn now(&self) -> u64 {
        match self {
            Pace::Live => clock::monotonic(),
            Pace::OfFile(clock) => clock.now(),
        }
    }
}

/// The recorder's end.
pub struct Store {
    pace: Pace,
    waiting: Vec<Event>,
    sender: SyncSender<Order>,
    /// Empty batches that come back, so that their memory need not be made anew twenty times a second.
    spare: Receiver<Vec<Event>>,
    notices: Receiver<String>,
    notice: SyncSender<String>,
    report: Arc<Mutex<Report>>,
    heartbeat: Heartbeat,
    writer: JoinHandle<Status>,
    dropped: u64,
    dropped_since: u64,
    flush: Duration,
    /// Earliest time of the next batch that is not full.
    next: u64,
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerError {
    /// The recorder is about to end.
    Ending,
    /// The recorder has ended meanwhile.
    Ended,
    /// The mark waits in memory, since storing is paused.
    Paused(MarkError),
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnswerError::Ending => f.write_str("the recorder is about to end"),
            AnswerError::Ended => f.write_str("the recorder has ended"),
            AnswerError::Paused(reason) => write!(
                f,
                "storing is paused: {reason}; the mark waits in memory and is stored when that is over"
            ),
        }
    }
}

impl std::error::Error for AnswerError {}

/// The log's thread has failed: the log ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterFailed;

impl fmt::Display for WriterFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the log writer failed; the log ends early")
    }
}

impl std::error::Error for WriterFailed {}

/// Answers requests to a [`Store`], from another thread.
#[derive(Clone)]
pub struct Answerer {
    pace: Pace,
    orders: SyncSender<Order>,
    report: Arc<Mutex<Report>>,
    heartbeat: Heartbeat,
}

impl Answerer {
    /// Carries out a request.
    ///
    /// # Errors
    /// A mark is not stored.
    pub fn answer(&self, request: Request) -> Result<String, AnswerError> {
        match request {
            Request::Status { json } => {
                let report = self.report.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let now = clock::monotonic();
                let times = self.heartbeat.times();
                Ok(if json { report.json(now, times) } else { report.text(now, times) })
            }
            Request::Mark(text) => {
                let (outcome, done) = sync_channel(1);
                let mark = Order::Mark { time: self.pace.now(), text, outcome };
                // the mark waits behind what the disk has not taken yet, and so does its client
                self.orders.send(mark).map_err(|_| AnswerError::Ending)?;
                let stored = done.recv().map_err(|_| AnswerError::Ended)?;
                stored.map(|()| String::new()).map_err(AnswerError::Paused)
            }
        }
    }
}

/// The state of the writer's thread.
struct WriterThread<S: Storage> {
    pace: Pace,
    /// The latest time of an event; of files only.
    latest: u64,
    writer: Writer<S>,
    triggers: Triggers,
    last_records: LastRecords,
    report: Arc<Mutex<Report>>,
    notice: SyncSender<String>,
    spare: SyncSender<Vec<Event>>,
    each_second: Vec<Box<dyn FnMut() + Send>>,
}

impl<S: Storage> WriterThread<S> {
    fn run(mut self, orders: &Receiver<Order>) -> Status {
        let (mut second, mut ticked) = (0, None::<Instant>);
        loop {
            let rest = match self.pace {
                Pace::Live => self.writer.rest(self.pace.now()),
                // its clock does not go with ours
                _ => TICK_OF_FILE / 4,
            };
            let order = orders.recv_timeout(rest);
            let is_idle = order.is_err();
            match order {
                Ok(Order::Events(mut batch)) => {
                    self.store(&mut batch);
                    if batch.capacity() <= 2 * BATCH {
                        let _ = self.spare.try_send(batch);
                    }
                }
                Ok(Order::Mark { time, text, outcome }) => {
                    // the client may have gone
                    let _ = outcome.send(self.writer.mark(time, &text));
                }
                Ok(Order::EachSecond(work)) => self.each_second.push(work),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Order::End) | Err(RecvTimeoutError::Disconnected) => break,
            }
            let is_early = ticked.is_some_and(|ticked| ticked.elapsed() < TICK_OF_FILE);
            if matches!(self.pace, Pace::Live) || !is_early {
                ticked = Some(Instant::now());
                let now = match &self.pace {
                    // the packets are ahead of what has come here
                    Pace::OfFile(_) if !is_idle => self.latest,
                    _ => self.pace.now(),
                };
                self.arrive(now, None);
                self.writer.tick(now.max(self.latest));
            }
            let now = clock::monotonic();
            self.update_report(now);
            if now >= second {
                second = now.saturating_add(SECOND);
                self.each_second.iter_mut().for_each(|work| work());
            }
        }
        self.writer.close(self.pace.now());
        self.update_report(clock::monotonic());
        self.writer.status().clone()
    }

    /// Stores the events, and empties the batch.
    fn store(&mut self, batch: &mut Vec<Event>) {
        // not locked while the disk is written to: clients are still answered
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        batch.iter().for_each(|event| report.count(event));
        drop(report);
        for mut event in batch.drain(..) {
            self.last_records.complete(&mut event, self.writer.context());
            let cause = self.triggers.check(&event, self.writer.context());
            if let Some(line) = self.triggers.cannot_see(&event.fact) {
                let _ = self.notice.try_send(line.into());
            }
            let time = event.time;
            self.arrive(time, Some(&event.fact));
            self.writer.push(event);
            if let Some(cause) = cause {
                self.writer.pin(cause.pin, time, &cause.text);
            }
        }
    }

    /// What is stored from now on is of this time or later, in a log of a file.
    fn arrive(&mut self, time: u64, fact: Option<&Fact>) {
        let Pace::OfFile(clock) = &self.pace else { return };
        self.latest = self.latest.max(time);
        let offset = match fact {
            Some(Fact::Clock(read)) => Some(read.wall.saturating_sub_unsigned(time)),
            _ => None,
        };
        clock.writing(self.latest, offset);
        self.writer.advance(self.latest);
    }

    fn update_report(&mut self, now: u64) {
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.update(now, self.writer.status(), self.writer.context());
        drop(report);
        while let Some(line) = self.writer.take_notice() {
            let _ = self.notice.try_send(line);
        }
    }
}

impl Store {
    /// Starts the thread, with the report of a run that starts.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn start<S: Storage + Send + 'static>(
        writer: Writer<S>,
        triggers: Triggers,
        report: Report,
        pace: Pace,
    ) -> std::io::Result<Store> {
        let (sender, orders) = sync_channel(UNDER_WAY);
        // notices are few, rate-limited by the writer; one too many is dropped rather than waited for
        let (notice, notices) = sync_channel(16);
        let (spare, spares) = sync_channel(1);
        let report = Arc::new(Mutex::new(report));
        let flush = writer.options().flush;
        let thread = WriterThread {
            pace: pace.clone(),
            latest: 0,
            writer,
            triggers,
            last_records: LastRecords::default(),
            report: report.clone(),
            notice: notice.clone(),
            spare,
            each_second: Vec::new(),
        };
        let writer = thread::Builder::new().name("log".into()).spawn(move || thread.run(&orders))?;
        Ok(Store {
            pace,
            waiting: Vec::new(),
            sender,
            spare: spares,
            notices,
            notice,
            report,
            heartbeat: Heartbeat::default(),
            writer,
            dropped: 0,
            dropped_since: 0,
            flush,
            next: 0,
        })
    }

    /// An answerer of requests to this store.
    pub fn answerer(&self) -> Answerer {
        Answerer {
            pace: self.pace.clone(),
            orders: self.sender.clone(),
            report: self.report.clone(),
            heartbeat: self.heartbeat.clone(),
        }
    }

    /// Has the writer's thread call this each second from now on. It may wait for the disk.
    pub fn each_second(&self, work: impl FnMut() + Send + 'static) {
        // if the thread has ended, its join reports it
        let _ = self.sender.send(Order::EachSecond(Box::new(work)));
    }

    /// A sender of lines that people should read, usable from any thread.
    pub fn notices(&self) -> SyncSender<String> {
        self.notice.clone()
    }

    /// Waits until everything is written. Returns the writer's status, and the last lines for people.
    ///
    /// # Errors
    /// The thread failed.
    pub fn close(mut self) -> Result<(Status, Vec<String>), WriterFailed> {
        self.note_dropped(self.pace.now());
        // if the thread has ended already, the join reports it
        let _ = self.sender.send(Order::Events(std::mem::take(&mut self.waiting)));
        let _ = self.sender.send(Order::End);
        let status = self.writer.join().map_err(|_| WriterFailed)?;
        Ok((status, self.notices.try_iter().collect()))
    }

    /// Least time between two batches that are not full, nanoseconds.
    fn between_batches(&self) -> u64 {
        PACE.min(self.flush.as_nanos() as u64 / 8)
    }

    /// Hands the waiting events to the writer, if it can take them.
    fn hand_over(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let next = self.spare.try_recv().unwrap_or_default();
        let order = Order::Events(std::mem::replace(&mut self.waiting, next));
        if matches!(self.pace, Pace::OfFile(_)) {
            // if the thread has ended, closing reports it
            let _ = self.sender.send(order);
            return;
        }
        let sent = self.sender.try_send(order);
        if let Err(
            TrySendError::Full(Order::Events(batch)) | TrySendError::Disconnected(Order::Events(batch)),
        ) = sent
        {
            self.waiting = batch;
        }
    }

    fn note_dropped(&mut self, now: u64) {
        let count = std::mem::take(&mut self.dropped);
        if count > 0 {
            let cause = "the disk was too slow".into();
            let loss = Loss { source: LossSource::Storage, count, since: self.dropped_since, cause };
            self.waiting.push(Event { time: now, fact: Fact::Loss(loss) });
        }
    }
}

/// Whether an event may be dropped. Definitions, ends and events that people should read may not.
fn is_hit(fact: &Fact) -> bool {
    fact.class() == Class::Hit
}

impl Sink for Store {
    fn push(&mut self, event: Event) {
        if self.waiting.len() < MAX_WAITING || !is_hit(&event.fact) {
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
        self.heartbeat.beat(if matches!(self.pace, Pace::Live) { now } else { clock::monotonic() });
        if self.waiting.len() < MAX_WAITING {
            self.note_dropped(now);
        }
        if now >= self.next && !self.waiting.is_empty() {
            self.next = now.saturating_add(self.between_batches());
            self.hand_over();
        }
    }

    fn rest(&self, now: u64) -> Duration {
        // what waits goes to the writer as soon as that can take it
        if self.waiting.is_empty() {
            UNTIL_WOKEN
        } else {
            let latest = self.next.saturating_add(self.between_batches());
            Duration::from_nanos(latest.saturating_sub(now)).max(ROUND)
        }
    }

    fn patience(&self) -> Duration {
        PATIENCE.min(self.flush / 4).max(ROUND)
    }

    fn inspecting(&mut self, since: Option<u64>) {
        self.heartbeat.inspecting(since);
    }

    fn written(&self) -> Option<u64> {
        Some(self.report.lock().unwrap_or_else(PoisonError::into_inner).written())
    }

    fn segments(&self) -> Option<u32> {
        Some(self.report.lock().unwrap_or_else(PoisonError::into_inner).segments())
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
    use iocrec_log::storage::{Directory, Stored};
    use iocrec_log::writer::Options;
    use std::io;
    use std::sync::{Arc, Barrier};

    /// A directory whose first append waits.
    struct Slow(Directory, Arc<Barrier>, bool);

    impl Storage for Slow {
        fn list(&mut self) -> io::Result<Vec<Stored>> {
            self.0.list()
        }
        fn create(&mut self, name: &str, reserve: u64) -> io::Result<()> {
            self.0.create(name, reserve)
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
        fn finish(&mut self) -> io::Result<()> {
            self.0.finish()
        }
        fn trim(&mut self, name: &str) -> io::Result<()> {
            self.0.trim(name)
        }
        fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
            self.0.rename(from, to)
        }
        fn remove(&mut self, name: &str) -> io::Result<()> {
            self.0.remove(name)
        }
        fn sync_names(&mut self) -> io::Result<()> {
            self.0.sync_names()
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
        let mut store = Store::start(
            Writer::open(slow, options, 1).unwrap(),
            Triggers::default(),
            Report::default(),
            Pace::Live,
        )
        .unwrap();
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
        let more = MAX_WAITING as u64 * 4;
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
        assert!(lost > 0 && hits >= MAX_WAITING as u64);
        assert_eq!(clocks, 1);
    }
}
