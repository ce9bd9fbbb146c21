//! Runs merged by wall clock and joined into chains.

use super::asides::{Aside, Asides};
use super::chain::Chain;
use super::engine::Engine;
use super::notes::{Note, Notes};
use super::order::Order;
use super::run::Run;
use super::source::{Item, Source};
use crate::notices::{Notice, Notices};
use crate::time::SECOND;
use iocrec_log::event::Fact;
use std::collections::VecDeque;
use std::rc::Rc;

/// Runs read at once however small they are, besides one for each MiB: each takes some MB. Hosts that share a directory
/// have logs of many MiB.
const MAX_OPEN_RUNS: usize = 16;
/// Events of one run after which finished chains are collected.
const BATCH: usize = 1024;
/// Runs that all may be looked at whenever [`BATCH`] events have come, or [`STEPS`] have passed. Of more, so many more pass
/// between two looks that these cost each step as much as a few runs would: of 100 hosts they took a third of the time of
/// `puts`.
const FEW_RUNS: usize = 8;
/// Where several hosts scan at once, a step takes a few events, and a look at all runs as long as these.
const STEPS: usize = 16;

/// A run being read.
struct Reading {
    source: Source,
    /// `None` before its first event and after its last.
    engine: Option<Engine>,
    /// Takes notes, if they are wanted.
    notes: Option<Notes>,
}

/// Reads all runs and yields their chains in the order in which they began.
pub struct Replay {
    readings: Vec<Reading>,
    /// By reading, the wall-clock time of its next item: together, since each step looks at all of them.
    next: Vec<i64>,
    /// Steps, and items read in them, since all readings were looked at.
    steps: usize,
    items: usize,
    /// Limit of the runs read at once.
    limit: usize,
    /// Whether the limit was reached.
    crowded: bool,
    /// Chains that a step has finished: empty between steps, and kept, since it would grow anew in each.
    done: Vec<Chain>,
    order: Order,
    until: i64,
    /// Chains to be yielded next, each with the start of the earliest that was held when it was its turn.
    ready: VecDeque<(i64, Chain)>,
    /// That of the last one that was yielded.
    earliest: i64,
    ended: bool,
    /// Wall-clock time before which all has been read.
    settled: i64,
    /// Notes taken since they were last asked for.
    notes: Vec<Note>,
    notices: Rc<Notices>,
    /// Number of chains given out before their time.
    early: u64,
    /// Facts beside the chains, if they are wanted.
    asides: Option<Asides>,
}

/// Result of a step.
pub enum Step {
    /// The next chain.
    Chain(Chain),
    /// No chain yet. None that comes will have begun before this wall-clock time, and all notes of earlier times were
    /// taken, unless [`Order`] held too much.
    Read(i64),
    /// There are no more.
    End,
}

impl Replay {
    /// Reads these runs. Ends after all chains that began before `until` (wall-clock time); some that began later may
    /// come, too.
    pub fn new(sources: Vec<Source>, until: i64, notices: &Rc<Notices>) -> Self {
        let (mut readings, mut next) = (Vec::new(), Vec::new());
        for mut source in sources {
            // one without any is not read
            let Some(time) = source.peek() else { continue };
            next.push(time);
            readings.push(Reading { source, engine: None, notes: None });
        }
        let bytes = readings.iter().map(|reading| reading.source.bytes()).sum::<u64>();
        let order = Order::of_logs(bytes).of_runs(readings.len());
        Replay {
            readings,
            next,
            steps: 0,
            items: 0,
            limit: usize::try_from(bytes >> 20).unwrap_or(usize::MAX).saturating_add(MAX_OPEN_RUNS),
            crowded: false,
            done: Vec::new(),
            order,
            until,
            ready: VecDeque::new(),
            earliest: i64::MIN,
            ended: false,
            settled: i64::MIN,
            notes: Vec::new(),
            notices: Rc::clone(notices),
            early: 0,
            asides: None,
        }
    }

    /// Also takes notes of what bears on values. Take them with [`Replay::notes`] after each chain.
    pub fn with_notes(mut self) -> Self {
        for reading in &mut self.readings {
            reading.notes = Some(Notes::new(Rc::clone(&reading.source.run)));
        }
        self
    }

    /// The notes taken since the last call. All that was noted before the start of a chain was noted when the chain is
    /// given out; notes of one run are in order of time, apart from definitions.
    pub fn notes(&mut self) -> std::vec::Drain<'_, Note> {
        self.notes.drain(..)
    }

    /// Reads on, but not further than to the next chain or the next look at all runs.
    pub fn step(&mut self) -> Step {
        while self.ready.is_empty() && !self.ended {
            self.advance();
            if self.steps == 0 {
                break; // nothing became ready, but time has passed
            }
        }
        match self.pop() {
            Some(chain) => Step::Chain(chain),
            None if self.ended => Step::End,
            None => Step::Read(self.settled.min(self.order.earliest().unwrap_or(i64::MAX))),
        }
    }

    /// The next chain that is ready.
    fn pop(&mut self) -> Option<Chain> {
        let (earliest, chain) = self.ready.pop_front()?;
        self.earliest = earliest;
        Some(chain)
    }

    /// The place in the order of time before which no chain begins that is yet to be yielded, unless [`Order`] held too much.
    /// Mostly the start of the last one, but puts to a record are yielded in the order in which they were carried out: then it
    /// is that of the earliest chain that one has overtaken. A hit may be [`OWN_SKEW`](super::order::OWN_SKEW) older than the message that its chain
    /// begins with.
    pub fn earliest(&self) -> i64 {
        self.earliest
    }

    /// The receiver of notices.
    pub fn notices(&self) -> &Rc<Notices> {
        &self.notices
    }

    /// Keeps the facts beside the chains, for [`Replay::aside`].
    pub fn with_asides(mut self) -> Self {
        self.asides = Some(Asides::default());
        self
    }

    /// The same of what IOCs said alone.
    pub fn with_sayings(mut self) -> Self {
        self.asides = Some(Asides::only_said());
        self
    }

    /// The earliest fact beside the chains that is older than `before` (wall-clock time). All that are older than the
    /// start of the last chain have been read; after the last chain, all have.
    pub fn aside(&mut self, before: i64) -> Option<Aside> {
        self.asides.as_mut()?.take(before)
    }

    /// Reads a batch of events of the run that is furthest behind.
    fn advance(&mut self) {
        let Some((turn, limit)) = self.turn() else { return self.end() };
        let Some(reading) = self.readings.get_mut(turn) else { return self.end() };
        let Batch { next, items, ends_are_due } =
            reading.advance(limit, &mut self.done, &mut self.notes, &mut self.asides);
        self.done.drain(..).for_each(|chain| self.order.insert(chain));
        // the end of a run finishes all that is open
        self.done.shrink_to(BATCH);
        match (next, self.next.get_mut(turn)) {
            (Some(next), Some(time)) => *time = next,
            _ => {
                // Finished runs are dropped, and their definitions with the last of their chains.
                let reading = self.readings.swap_remove(turn);
                self.next.swap_remove(turn);
                self.early += reading.engine.as_ref().map_or(0, Engine::early);
                self.notices.definitions_left_out(reading.source.run.context().refused());
            }
        }
        self.steps += 1;
        self.items += items;
        let times = (self.readings.len() / FEW_RUNS).max(1);
        let is_due = self.steps >= times.max(STEPS) || self.items >= times * BATCH;
        // what ends must not be gone before the chains are given out that need it, and nothing is read that nobody wants
        if is_due || ends_are_due || next.is_none_or(|next| next > self.until) {
            self.settle();
        }
    }

    /// The run whose turn it is, and the time of the next item of the others: the run with the earliest next item; if as many
    /// are being read already as may be, the earliest of those.
    fn turn(&mut self) -> Option<(usize, i64)> {
        let (mut turn, mut earliest, mut limit) = (None, i64::MAX, i64::MAX);
        for (number, time) in self.next.iter().copied().enumerate() {
            if turn.is_none() || time < earliest {
                limit = earliest;
                (turn, earliest) = (Some(number), time);
            } else {
                limit = limit.min(time);
            }
        }
        let turn = turn?;
        let is_started =
            |number: &usize| self.readings.get(*number).is_some_and(|reading| reading.source.is_started());
        let started = || (0..self.readings.len()).filter(is_started);
        if is_started(&turn) || started().count() < self.limit {
            return Some((turn, limit));
        }
        self.crowded = true;
        let time = |number: &usize| self.next.get(*number).copied().unwrap_or(i64::MAX);
        // the first is earlier
        Some((started().min_by_key(time)?, earliest))
    }

    /// Lets time pass in all runs, and gives out the chains before which nothing more comes.
    fn settle(&mut self) {
        (self.steps, self.items) = (0, 0);
        let mut done = Vec::new();
        let now = self.next.iter().copied().min().unwrap_or(i64::MAX);
        self.readings.iter_mut().for_each(|reading| reading.idle(now, &mut done));
        done.drain(..).for_each(|chain| self.order.insert(chain));
        let settled = self.readings.iter_mut().zip(&self.next).map(|(reading, next)| reading.settled(*next));
        let settled = settled.min().unwrap_or(i64::MAX);
        self.release(settled);
        self.settled = settled;
        // Chains may be held that began before `until`, and wait for what their links led to.
        self.ended = settled.min(self.order.earliest().unwrap_or(i64::MAX)) > self.until;
        if self.ended {
            self.report_early();
        }
    }

    /// Makes ready the chains that began before this time.
    fn release(&mut self, until: i64) {
        let ready = &mut self.ready;
        self.order.release_each(until, &mut |earliest, chain| ready.push_back((earliest, chain)));
    }

    /// Reports chains that were given out before their time.
    fn report_early(&self) {
        let engines = self.readings.iter().filter_map(|reading| reading.engine.as_ref());
        let count = self.early + engines.map(Engine::early).sum::<u64>();
        if count > 0 {
            self.notices.report(&Notice::ChainsGivenOutEarly { count });
        }
    }

    /// Ends the reading after the last event.
    fn end(&mut self) {
        self.ended = true;
        self.release(i64::MAX);
        if self.crowded {
            self.notices.report(&Notice::RunsOverlap { limit: self.limit });
        }
        self.report_early();
        if self.order.late() > 0 {
            self.notices.report(&Notice::ChainsOutOfOrder { count: self.order.late() });
        }
    }
}

impl Iterator for Replay {
    type Item = Chain;

    fn next(&mut self) -> Option<Chain> {
        while self.ready.is_empty() && !self.ended {
            self.advance();
        }
        self.pop()
    }
}

/// What a reading has read at once.
struct Batch {
    /// Wall-clock time of the next item; `None` at the end.
    next: Option<i64>,
    /// Number of items.
    items: usize,
    /// Whether it stopped since definitions are about to end that what came before may still need.
    ends_are_due: bool,
}

/// Keeps what was said beside the chains, if that is wanted.
fn keep(engine: &mut Engine, run: &Rc<Run>, asides: &mut Option<Asides>) {
    let said = engine.said();
    if let Some(asides) = asides {
        said.for_each(|said| asides.said(run, said));
    }
}

impl Reading {
    /// Reads a batch of items, or up to `limit`.
    fn advance(
        &mut self,
        limit: i64,
        done: &mut Vec<Chain>,
        notes: &mut Vec<Note>,
        asides: &mut Option<Asides>,
    ) -> Batch {
        let source = &mut self.source;
        let engine = self.engine.get_or_insert_with(|| Engine::new(Rc::clone(&source.run)));
        // Alone, a run is read as far as it goes.
        let alone = limit == i64::MAX;
        let (mut left, mut ends_are_due) = (BATCH, false);
        while left > 0 {
            if self.notes.as_ref().is_none_or(Notes::is_calm) {
                let (events, until) = source.ahead();
                let run = Rc::clone(&source.run);
                let wanted = |time| alone || run.wall(time) <= limit;
                let taken = engine.push_scans(events, until, left, wanted, done);
                if taken > 0 {
                    source.pass(taken, engine.now());
                    self.notes.iter_mut().for_each(|notes| notes.passed(engine.now()));
                    left = left.saturating_sub(taken);
                    if !alone && source.peek().is_none_or(|next| next > limit) {
                        break;
                    }
                    continue;
                }
            }
            left -= 1;
            match source.next() {
                Some(Item::Event(event)) => {
                    source.run.note(&event);
                    if let Some(taken) = &mut self.notes {
                        taken.event(&event, notes);
                    }
                    if let Some(asides) = asides {
                        asides.note(&source.run, &event);
                    }
                    engine.push(event, done);
                    keep(engine, &source.run, asides);
                }
                Some(Item::Ended(Fact::CircuitEnd(circuit) | Fact::CircuitForgotten(circuit))) => {
                    engine.forget(circuit);
                }
                Some(Item::Ended(_)) => {}
                Some(Item::Passed(time)) => {
                    engine.tick(time, done);
                    ends_are_due = true;
                    break;
                }
                Some(Item::Gap) => {
                    if let Some(taken) = &mut self.notes {
                        taken.gap();
                    }
                    if let Some(asides) = asides {
                        asides.gap(&source.run, engine.now());
                    }
                    source.run.lacks(engine.now(), source.next_time());
                    engine.finish(done);
                    keep(engine, &source.run, asides);
                }
                None => break,
            }
            if !alone && source.peek().is_none_or(|next| next > limit) {
                break;
            }
        }
        let next = source.peek();
        if next.is_none() {
            engine.finish(done);
            keep(engine, &source.run, asides);
            if let Some(taken) = &mut self.notes {
                taken.end(notes);
            }
        }
        Batch { next, items: BATCH - left, ends_are_due }
    }

    /// Lets time pass in the run up to `wall`, since a run with few events must not hold up the others.
    fn idle(&mut self, wall: i64, done: &mut Vec<Chain>) {
        let Some(engine) = &mut self.engine else { return };
        let passed = wall.saturating_sub(self.source.run.even(engine.now()));
        if let Some(passed) = u64::try_from(passed).ok().filter(|passed| *passed > SECOND) {
            engine.tick(engine.now().saturating_add(passed).min(self.source.next_time()), done);
        }
    }

    /// Wall-clock time before which no more chains of the run begin. `next`: that of its next item.
    fn settled(&mut self, next: i64) -> i64 {
        match self.engine.as_mut().and_then(Engine::oldest) {
            Some(oldest) => self.source.run.even(oldest).min(next),
            None => next,
        }
    }
}
