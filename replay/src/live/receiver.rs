//! Receives a stream on a thread of its own, into a spool, however long reading it takes.

use super::kept::Done;
use super::spool::{Spool, SpoolError};
use crate::follow::SETTLED;
use iocrec_log::stream::{Frame, Incoming, Position, SegmentName, StreamError};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Lines for people that wait to be shown; more are counted.
const MAX_SAID: usize = 20;

/// How a stream ended.
#[derive(Debug)]
pub enum Ending {
    /// As its sender wished. `settled`: the log had stood still for so long that nothing can still change.
    Whole {
        /// Whether that is so.
        settled: bool,
    },
    /// It broke off.
    Cut,
    /// It is no stream, or damaged.
    Stream(StreamError),
    /// It can't be stored.
    Spool(SpoolError),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Whole { .. } => f.write_str("everything that was there has come"),
            Ending::Cut => f.write_str("the stream broke off"),
            Ending::Stream(error) => error.fmt(f),
            Ending::Spool(error) => error.fmt(f),
        }
    }
}

/// What the receiver tells.
#[derive(Default)]
struct Told {
    said: Vec<String>,
    unsaid: u64,
    ending: Option<Ending>,
    position: Option<Position>,
    /// How far it was shown.
    shown: Option<Position>,
    /// How far a collector has taken it; `None`: there is none.
    sent: Option<Option<Position>>,
    /// The sender's log stands still.
    rests: bool,
    gaps: u64,
    dropped: u64,
}

/// A stream that is being received.
pub struct Receiver {
    path: PathBuf,
    is_private: bool,
    told: Arc<Mutex<Told>>,
    spool: Arc<Mutex<Option<Spool>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Receiver {
    /// Receives from `input` into `spool`.
    pub fn start(input: impl Read + Send + 'static, spool: Spool) -> Receiver {
        let (path, is_private) = (spool.path().to_owned(), spool.is_private());
        let told = Told { position: spool.position(), ..Told::default() };
        let (told, spool) = (Arc::new(Mutex::new(told)), Arc::new(Mutex::new(Some(spool))));
        let (own_told, own_spool) = (Arc::clone(&told), Arc::clone(&spool));
        std::thread::spawn(move || {
            let ending = receive(input, &own_spool, &own_told);
            lock(&own_told).ending = Some(ending);
        });
        Receiver { path, is_private, told, spool }
    }

    /// The directory to follow.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether what is received is kept, so that it can go on later.
    pub fn is_kept(&self) -> bool {
        !self.is_private
    }

    /// Takes the lines for people.
    pub fn said(&self) -> Vec<String> {
        let mut told = lock(&self.told);
        let mut said = std::mem::take(&mut told.said);
        let unsaid = std::mem::take(&mut told.unsaid);
        if unsaid > 0 {
            said.push(format!("{unsaid} more such lines are not shown"));
        }
        said
    }

    /// Whether the stream has ended, and whether that was as its sender wished and all has settled.
    pub fn has_ended(&self) -> Option<bool> {
        lock(&self.told).ending.as_ref().map(|ending| matches!(ending, Ending::Whole { settled: true }))
    }

    /// Whether the sender's log stands still.
    pub fn rests(&self) -> bool {
        lock(&self.told).rests
    }

    /// How far it has come.
    pub fn position(&self) -> Option<Position> {
        lock(&self.told).position
    }

    /// Notes that this was done with everything up to there.
    pub fn has_done(&self, done: Done, position: Option<Position>) {
        let mut told = lock(&self.told);
        match done {
            Done::Shown => told.shown = position,
            Done::Sent => told.sent = Some(position),
        }
    }

    /// How often something was missing.
    pub fn gaps(&self) -> u64 {
        lock(&self.told).gaps
    }

    /// Ends: how the stream ended, if it has, and how far it was received.
    pub fn end(self) -> (Option<Ending>, Option<Position>) {
        let mut told = lock(&self.told);
        (told.ending.take(), told.position)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // The thread may wait for its input for ever; without a spool it ends at the next frame.
        lock(&self.spool).take();
    }
}

impl Told {
    fn say(&mut self, line: String) {
        match self.said.len() < MAX_SAID {
            true => self.said.push(line),
            false => self.unsaid += 1,
        }
    }
}

fn receive(input: impl Read, spool: &Mutex<Option<Spool>>, told: &Mutex<Told>) -> Ending {
    let mut incoming = match Incoming::begin(input) {
        Ok(Some(incoming)) => incoming,
        Ok(None) => return Ending::Cut,
        Err(error) => return Ending::Stream(error),
    };
    loop {
        let frame = match incoming.next_frame() {
            Ok(Some(frame)) => frame,
            Ok(None) => return Ending::Cut,
            Err(error) => return Ending::Stream(error),
        };
        let mut spool = lock(spool);
        let Some(spool) = spool.as_mut() else { return Ending::Cut };
        match frame {
            Frame::Bytes { segment, offset, bytes } => {
                let dropped = match spool.write(segment, offset, bytes) {
                    Ok(dropped) => dropped,
                    Err(error) => return Ending::Spool(error),
                };
                let mut told = lock(told);
                told.position = spool.position();
                told.rests &= bytes.is_empty();
                let is_unread =
                    |name: &SegmentName| told.shown.is_none_or(|read| name.order() >= read.segment.order());
                let is_unsent = |name: &SegmentName| {
                    let is_after = |sent: Position| name.order() >= sent.segment.order();
                    told.sent.is_some_and(|sent| sent.is_none_or(is_after))
                };
                let unread = dropped.iter().filter(|name| is_unread(name)).count();
                let unsent = dropped.iter().filter(|name| is_unsent(name)).count();
                if unread > 0 {
                    told.gaps += 1;
                    told.say(format!(
                        "a gap: {unread} segments came so fast that they were dropped from the full spool before they \
                         were read; --spool-size makes it larger"
                    ));
                } else if unsent > 0 {
                    told.gaps += 1;
                    told.say(format!(
                        "a gap: {unsent} segments were dropped from the full spool before the collector had taken what is in \
                         them; --spool-size makes it larger"
                    ));
                } else if !dropped.is_empty() && told.dropped == 0 {
                    told.say(format!(
                        "the spool {} is full: from now on its oldest segments are dropped; --spool-size makes it larger",
                        spool.path().display()
                    ));
                }
                told.dropped += dropped.len() as u64;
            }
            Frame::Gap { segment, offset, missing, is_cut } => {
                let mut told = lock(told);
                told.gaps += 1;
                told.say(gap(Position { segment, offset }, missing, is_cut));
            }
            Frame::Replaced => {
                spool.replace();
                lock(told)
                    .say("the recorder's directory is another one now: what follows is its log".to_owned());
            }
            Frame::Rest { idle, is_end } => {
                let settled = u128::from(idle) >= SETTLED.as_millis();
                if is_end {
                    return Ending::Whole { settled };
                }
                lock(told).rests = settled;
            }
        }
    }
}

fn gap(at: Position, missing: u64, is_cut: bool) -> String {
    let segments = if missing == 1 { "1 segment".to_owned() } else { format!("{missing} segments") };
    match (missing, is_cut) {
        (0, _) => format!("a gap: the recorder deleted the segment after {at} before its end was seen"),
        (_, false) => format!("a gap: the recorder deleted {segments} after {at} before they could be sent"),
        (_, true) => format!(
            "a gap: the recorder deleted what follows {at}, and {segments} after that one, before they could be sent"
        ),
    }
}
