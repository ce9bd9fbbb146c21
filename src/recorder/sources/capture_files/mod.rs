//! Packets from capture files, in place of those from the network.
//!
//! The files are read in the order in which they were named; connections continue from one to the next. What a file
//! can't tell is not claimed: the host is unknown, so are its IOCs, and a note says where the packets come from.

mod machines;
mod notes;
mod outcome;
mod packets;

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use iocrec_log::event::{Event, Fact};

use crate::net::capture_file::{CaptureFile, Next, Packet};
use crate::net::flows::Flows;
use crate::net::fragments::Fragments;
use crate::protocols::datagrams::{Datagrams, Selection};
use crate::recorder::capture_clock::CaptureClock;
use crate::recorder::context::Context;
use crate::recorder::sources::{Source, ROUND};
use crate::terminal::Progress;

use machines::{Machines, Place};
use outcome::outcome_of;
pub use outcome::Outcome;

/// Packets of a round: some milliseconds of work.
const BATCH: usize = 4096;
/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// See the module.
pub struct CaptureFiles {
    files: VecDeque<CaptureFile>,
    flows: Flows,
    fragments: Fragments,
    /// Files that began with the clock going back so far, and the interfaces in them on which there are loopback addresses.
    overlaps: u32,
    loopbacks: BTreeSet<Place>,
    machines: Machines,
    datagrams: Datagrams,
    /// Ports of the datagrams that are taken.
    selected: Selection,
    /// Facts of the datagrams; reused.
    facts: Vec<Event>,
    /// Time of the last work of each second.
    counted: u64,
    clock: CaptureClock,
    outcome: Rc<RefCell<Outcome>>,
    /// Reading ends after this much of the capture's time.
    duration: Option<Duration>,
    /// Monotonic time at which it ends.
    until: Option<u64>,
    /// Whether the file that is being read has been named in the log.
    is_named: bool,
    /// Time of the last work that is due by time alone.
    ticked: u64,
    /// When a pipe last had something.
    heard: Instant,
    progress: Progress,
    is_over: bool,
}

impl CaptureFiles {
    /// Reads these files.
    pub fn new(
        files: Vec<CaptureFile>,
        flows: Flows,
        selected: Selection,
        clock: CaptureClock,
        duration: Option<Duration>,
        outcome: Rc<RefCell<Outcome>>,
    ) -> CaptureFiles {
        CaptureFiles {
            files: files.into(),
            flows,
            fragments: Fragments::default(),
            overlaps: 0,
            loopbacks: BTreeSet::new(),
            machines: Machines::default(),
            datagrams: Datagrams::default(),
            selected,
            facts: Vec::new(),
            counted: 0,
            clock,
            outcome,
            duration,
            until: None,
            is_named: false,
            ticked: 0,
            heard: Instant::now(),
            progress: Progress::default(),
            is_over: false,
        }
    }

    /// Reads a file, as far as it is there.
    fn read(&mut self, cx: &mut Context<'_>, file: &mut CaptureFile) -> Read {
        let name = file.name().to_owned();
        for _ in 0..BATCH {
            match file.read() {
                Ok(Next::Packet(packet)) => {
                    self.heard = Instant::now();
                    if !self.packet(cx, &name, &packet) {
                        return Read::Enough;
                    }
                }
                Ok(Next::Dropped(count)) => self.dropped(cx, count),
                Ok(Next::Nothing) => return Read::More,
                Ok(Next::Wait) => return Read::Wait,
                Ok(Next::End) => return Read::End,
                Err(error) => {
                    self.failed(cx, error);
                    return Read::End;
                }
            }
        }
        Read::More
    }

    /// Takes a packet. False if it is beyond the time that was asked for.
    fn packet(&mut self, cx: &mut Context<'_>, name: &str, packet: &Packet) -> bool {
        let is_first = self.outcome.borrow().span.is_none();
        let moment = self.clock.packet(packet.wall);
        let time = moment.time;
        if is_first {
            self.begin(cx, time);
        }
        if self.until.is_some_and(|until| time >= until) {
            return false;
        }
        if !std::mem::replace(&mut self.is_named, true) {
            let is_older = moment.went_back.is_some();
            self.overlaps += u32::from(is_older);
            self.hand_over(cx);
            cx.env.push(time, Fact::Mark(format!("packets are read from {name}")));
            if is_older {
                let line = format!("{name} begins before the end of the file before it: name files in the order of their times; what both have may be told twice");
                cx.env.messages.push(line.clone());
                cx.env.push(time, Fact::Mark(line));
            }
        }
        if moment.went_back.is_some() {
            // facts before this have the old offset
            self.hand_over(cx);
            self.note_clock(cx, time);
        }
        if packet.dropped > 0 {
            self.dropped(cx, packet.dropped);
        }
        if time >= self.ticked.saturating_add(ROUND.as_nanos() as u64) {
            self.ticked = time;
            cx.circuits.tick(&mut cx.env, time);
            self.second(time);
            self.hand_over(cx);
        }
        self.decode(cx, time, packet);
        let mut outcome = self.outcome.borrow_mut();
        outcome.packets += 1;
        outcome.timeless += u64::from(packet.wall.is_none());
        if let Some(back) = moment.went_back {
            outcome.went_back = (outcome.went_back.0 + 1, outcome.went_back.1.max(back));
        }
        let (first, last) = outcome.span.unwrap_or((time, time));
        outcome.span = Some((first.min(time), last.max(time)));
        true
    }

    /// Does what is due each second of the capture.
    fn second(&mut self, time: u64) {
        if time >= self.counted.saturating_add(SECOND) {
            self.counted = time;
            self.datagrams.second(time, &mut self.facts);
        }
    }

    /// Hands over all facts so far.
    fn hand_over(&mut self, cx: &mut Context<'_>) {
        cx.circuits.hand_over(&mut cx.env);
        self.facts.drain(..).for_each(|event| cx.env.sink.push(event));
    }

    /// The pipe is silent.
    fn wait(&mut self, cx: &mut Context<'_>) {
        self.clock.silent_for(self.heard.elapsed());
        let now = self.clock.now();
        self.is_over |= self.until.is_some_and(|until| now >= until);
        cx.env.sink.tick(now);
    }
}

/// How far a file was read.
enum Read {
    /// There is more.
    More,
    /// It is a pipe in which nothing waits.
    Wait,
    /// To its end, or as far as it can be read.
    End,
    /// As far as was asked for.
    Enough,
}

impl Source for CaptureFiles {
    fn descriptors(&self) -> Vec<RawFd> {
        self.files.front().map(CaptureFile::raw_fd).into_iter().collect()
    }

    fn take(&mut self, cx: &mut Context<'_>) -> bool {
        let mut more = false;
        while let (false, Some(mut file)) = (self.is_over, self.files.pop_front()) {
            let read = self.read(cx, &mut file);
            let (done, all) = file.progress();
            self.progress.show(done, all, file.packets());
            match read {
                Read::End => {
                    self.is_named = false;
                    continue;
                }
                Read::More => more = true,
                Read::Wait => self.wait(cx),
                Read::Enough => self.is_over = true,
            }
            self.files.push_front(file);
            break;
        }
        self.is_over |= self.files.is_empty();
        self.hand_over(cx);
        more && !self.is_over
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn stop(&mut self, _cx: &mut Context<'_>) {
        self.is_over = true;
        self.progress.clear();
        self.outcome.borrow_mut().is_part = !self.files.is_empty();
    }

    fn finish(&mut self, cx: &mut Context<'_>) {
        let (now, all) = (self.clock.now(), self.outcome.clone());
        let outcome = &mut *all.borrow_mut();
        let mut fragments = std::mem::take(&mut self.fragments);
        fragments.finish(&mut |_, frame| {
            let others = outcome_of(&frame);
            if frame.segment.is_some() {
                self.frame(cx, now, (&[], 0), frame, outcome);
            }
            others.into_iter().for_each(|count| *count(outcome) += 1);
        });
        self.finish_all(cx, outcome);
    }
}

impl CaptureFiles {
    fn finish_all(&mut self, cx: &mut Context<'_>, outcome: &Outcome) {
        cx.circuits.finish(&mut cx.env);
        self.datagrams.finish(self.clock.now(), &mut self.facts);
        self.hand_over(cx);
        for (link, count) in &outcome.unknown_links {
            let cause = format!("packets of link type {link}, which is not known");
            self.note_loss(cx, outcome.span, *count, cause);
        }
    }
}
