//! The part of `follow` that sends to a collector of OpenTelemetry, on a thread of its own.
//!
//! It reads the log for itself, and how far it has come is its own, too: a collector that is down, slow or busy holds up
//! nothing else. What waits for it waits in the log, or in the spool of a stream, whose sizes are bounded; if segments are
//! deleted before they were sent, that is said.

use super::{is_due, Follow, Following};
use crate::answers::aliases;
use crate::collector::Address;
use crate::commands::alarms::Known;
use crate::commands::options::ByPlace;
use crate::commands::sending::tell;
use crate::failure::Failure;
use crate::filter::Filter;
use crate::follow::{follow_until, Memory, Pace, Step};
use crate::live::kept::Done;
use crate::live::receiver::Receiver;
use crate::live::row::{rows, Row};
use crate::live::telemetry::{Outgoing, Patience};
use crate::terminal::Terminal;
use crate::words::counted;
use crate::Logs;
use iocrec_log::stream::Position;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Rows after which all that waits is sent, so that it is known how far that has come: some batches.
const EVERY: usize = 5000;
/// When everything was shown, a collector that is down has so long, if a later run can go on: as long as a command tries.
const LONGEST: Duration = Duration::from_secs(31);
/// Rows that are remembered beside what was kept last, 100 bytes each.
const MAX_SINCE: usize = 100_000;

/// How the two parts of `follow` know of each other's end.
#[derive(Default)]
pub struct Ends {
    /// When everything was shown, and whether that went well.
    shown: OnceLock<(Instant, bool)>,
    /// Sending has failed.
    failed: AtomicBool,
    /// How often segments were deleted before they were sent.
    gaps: AtomicU32,
}

impl Ends {
    /// Everything was shown, or that has failed.
    pub fn shown(&self, is_well: bool) {
        // once
        let _ = self.shown.set((Instant::now(), is_well));
    }

    /// How often segments were deleted before they were sent.
    pub fn gaps(&self) -> u64 {
        u64::from(self.gaps.load(Ordering::Relaxed))
    }

    /// Whether sending has failed.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}

/// What is sent where.
pub struct Sending<'a> {
    /// The options.
    pub follow: &'a Follow,
    /// The collector.
    pub address: &'a Address,
    /// What is followed.
    pub following: Following<'a>,
    /// The end.
    pub ends: &'a Ends,
}

impl Sending<'_> {
    /// Sends, until there is no more or the rest of the program ends.
    ///
    /// # Errors
    /// If the collector refuses something, or how far it was sent can't be kept.
    pub fn run(&self) -> Result<(), Failure> {
        let sent = self.send();
        self.ends.failed.store(sent.is_err(), Ordering::Relaxed);
        sent
    }

    /// Whether waiting for the collector is to end.
    fn is_over(&self) -> bool {
        let Following { stop, kept, .. } = self.following;
        let is_late =
            |(shown, is_well): &(Instant, bool)| !is_well || kept.is_some() && shown.elapsed() >= LONGEST;
        stop.is_set() || self.ends.shown.get().is_some_and(is_late)
    }

    fn pace(&self) -> Pace {
        let Following { stop, receiver, .. } = self.following;
        match self.ends.shown.get() {
            Some((_, false)) => Pace::Finish { whole: false },
            _ => self.follow.pace(stop, receiver),
        }
    }

    fn say_gap(&self, gap: &dyn Display) {
        Terminal.report(gap);
        self.ends.gaps.fetch_add(1, Ordering::Relaxed);
    }

    fn send(&self) -> Result<(), Failure> {
        let Following { reading, receiver, kept, since, .. } = self.following;
        let signals = self.follow.signals();
        let (memory, known, deleted) = kept.map_or_else(Default::default, |kept| kept.load(Done::Sent));
        let (known, deleted) = (RefCell::new(Known::from(known)), RefCell::new(deleted));
        let filter = self.follow.filter(since);
        let is_over = || self.is_over();
        let patience = Patience { is_endless: !self.follow.once, is_kept: kept.is_some(), is_over: &is_over };
        let outgoing = RefCell::new(Outgoing::new((self.address, signals), filter.clone(), &tell, patience));
        let interval = Duration::from_secs(self.follow.interval);
        let ends = Cell::new(false);
        let pace = || {
            let pace = self.pace();
            ends.set(matches!(pace, Pace::Finish { .. }));
            // also while the log stands still
            outgoing.borrow_mut().measure(interval)?;
            Ok(pace)
        };
        let opened: Cell<Option<Position>> = Cell::new(None);
        // what was deleted in the middle of a pass, which may wait for long
        let gone: Rc<RefCell<HashSet<PathBuf>>> = Rc::default();
        receiver.inspect(|receiver| receiver.has_done(Done::Sent, None));
        let open = || {
            opened.set(receiver.and_then(Receiver::position));
            let found = Rc::clone(&gone);
            let note = move |path: &Path| {
                found.borrow_mut().insert(path.to_owned());
            };
            Ok(ByPlace::from(self.follow).open_missing(reading, note).ok())
        };
        let ask = |logs: &Logs, filter: &Filter, each: &mut dyn FnMut(Row) -> Result<(), Failure>| {
            let (filter, _) = aliases::resolve(logs, filter.clone());
            if receiver.is_none() {
                let gaps = deleted.borrow_mut().look(logs, "sent", self.follow.once);
                gaps.iter().for_each(|gap| self.say_gap(gap));
            }
            outgoing.borrow_mut().look(logs, &filter);
            rows(logs, &filter, signals.wanted(), each)?;
            let gone = std::mem::take(&mut *gone.borrow_mut()).len() as u64;
            // of a stream, the receiver says it
            if gone > 0 && receiver.is_none() {
                let (gone, address) = (counted(gone, "segment"), self.address);
                self.say_gap(&format!("a gap: the recorder deleted {gone} that had to wait for {address}"));
            }
            Ok(())
        };
        let mut saved: Option<Instant> = None;
        let mut note = |memory: &Memory, is_through: bool, is_last: bool| {
            let Some(kept) = kept else {
                outgoing.borrow_mut().forget();
                return Ok(());
            };
            if is_last || is_due(memory.len(), saved) || outgoing.borrow().since() >= MAX_SINCE {
                saved = Some(Instant::now());
                let deleted = deleted.borrow();
                kept.note(Done::Sent, memory, known.borrow().all(), Some(&*deleted).filter(|_| is_through));
                outgoing.borrow_mut().forget();
                kept.save()?;
            }
            Ok::<(), Failure>(())
        };
        let write = |step: Step<Row>| match step {
            Step::Row(Row::Alarm(alarm), _) if !known.borrow_mut().is_news(alarm) => Ok(()),
            Step::Row(row, key) => Ok(outgoing.borrow_mut().take(row, key)?),
            Step::Within(memory) => {
                outgoing.borrow_mut().flush(interval)?;
                note(memory, false, false)
            }
            Step::Through(memory) => {
                outgoing.borrow_mut().flush(if ends.get() { Duration::ZERO } else { interval })?;
                receiver.inspect(|receiver| receiver.has_done(Done::Sent, opened.get()));
                note(memory, true, ends.get())
            }
        };
        let sent = follow_until(&reading.logs, filter, memory.every(EVERY), pace, open, ask, write);
        if let (Err(_), Some(kept)) = (&sent, kept) {
            kept.add(&outgoing.borrow().taken());
            // why it ended is worth more
            let _ = kept.save();
        }
        sent
    }
}
