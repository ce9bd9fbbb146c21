//! What the log means: events merged in the order of time, joined to chains and puts.
//!
//! The way of an event: [`source`] reads it and brings it into the order of its run; the runs are
//! merged here by the wall clock; [`engine`] makes chains of a run's events; [`order`] brings the chains
//! of all runs into order and follows CA links from one to the other. Everything streams: memory is
//! bounded by what happens within the limits that these pages name, and by their MAX_ constants where that is more,
//! not by the length of the logs.

pub mod caller;
pub mod clock;
pub mod engine;
pub mod forest;
pub mod links;
pub mod order;
pub mod outcome;
pub mod packets;
pub mod putlog;
mod queue;
pub mod requests;
pub mod run;
pub mod source;
pub mod span;
pub mod stack;
pub mod value;
pub mod words;

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;

use crate::notices::Notices;
use crate::time::SECOND;
use engine::Engine;
use iocrec_log::event::Fact;
use order::Order;
use source::{Item, Source};
use span::Tree;
use std::rc::Rc;

/// Runs that are read at once however small they are, besides one for each MiB: each takes some MB. Hosts in one
/// directory have logs of many MiB.
const AT_ONCE: usize = 16;
/// Events after which finished chains are looked for.
const TURN: usize = 4096;

/// A run that is being read.
struct Reading {
    source: Source,
    /// None before its first event, and after its last.
    engine: Option<Engine>,
    /// Wall-clock time of the next item; `None` at the end.
    next: Option<i64>,
}

/// Reads all runs and gives their chains, in the order in which they began, to `sink`. Stops when
/// all that began before `until` (wall-clock time) are given.
pub fn replay<E>(
    sources: Vec<Source>,
    until: i64,
    notices: &mut Notices,
    sink: &mut impl FnMut(Tree) -> Result<(), E>,
) -> Result<(), E> {
    let mut readings: Vec<Reading> = sources
        .into_iter()
        .map(|mut source| Reading { next: source.peek(notices), source, engine: None })
        .collect();
    let bytes = readings.iter().map(|reading| reading.source.bytes()).sum::<u64>();
    let most = usize::try_from(bytes >> 20).unwrap_or(usize::MAX).saturating_add(AT_ONCE);
    let (mut order, mut crowded) = (Order::of_logs(bytes), false);
    let mut done = Vec::new();
    while let Some(turn) = first(&readings, most, &mut crowded) {
        let others = readings.iter().enumerate().filter(|(number, _)| *number != turn);
        let limit = others.filter_map(|(_, other)| other.next).min().unwrap_or(i64::MAX);
        let Some(reading) = readings.get_mut(turn) else { break };
        reading.advance(limit, notices, &mut done);
        done.drain(..).for_each(|tree| order.insert(tree));
        if reading.next.is_none() {
            // The runs that have been read go, and their definitions with the last of their chains.
            let reading = readings.swap_remove(turn);
            notices.refused(reading.source.run.context().refused());
        }
        let now = readings.iter().filter_map(|reading| reading.next).min().unwrap_or(i64::MAX);
        readings.iter_mut().for_each(|reading| reading.idle(now, &mut done));
        done.drain(..).for_each(|tree| order.insert(tree));
        let settled = readings.iter().map(Reading::settled).min().unwrap_or(i64::MAX);
        order.release(settled, sink)?;
        if settled > until {
            return Ok(());
        }
    }
    order.release(i64::MAX, sink)?;
    if crowded {
        notices.say(&format!(
            "more than {most} recorders' runs overlap, which is more than is read at once: chains of different runs may \
             be out of order, and not joined; name fewer logs"
        ));
    }
    if order.late() > 0 {
        notices.say(&format!(
            "{} chains come after others that began later: more happened while they lasted than is kept in memory; \
             read less at a time with --since and --until to have all in order",
            order.late()
        ));
    }
    Ok(())
}

/// The run whose next item is the earliest; if so many are being read, of these. `crowded`: others would have been.
fn first(readings: &[Reading], most: usize, crowded: &mut bool) -> Option<usize> {
    let times = |only_started: bool| {
        let wanted = move |reading: &Reading| !only_started || reading.source.is_started();
        let all = readings.iter().enumerate().filter(move |(_, reading)| wanted(reading));
        all.filter_map(|(number, reading)| Some((reading.next?, number))).min().map(|(_, number)| number)
    };
    let first = times(false)?;
    let is_new = readings.get(first).is_some_and(|reading| !reading.source.is_started());
    if is_new && readings.iter().filter(|reading| reading.source.is_started()).count() >= most {
        *crowded = true;
        return times(true);
    }
    Some(first)
}

impl Reading {
    /// Reads a turn's items, or up to `limit`.
    fn advance(&mut self, limit: i64, notices: &mut Notices, done: &mut Vec<Tree>) {
        let source = &mut self.source;
        let engine = self.engine.get_or_insert_with(|| Engine::new(Rc::clone(&source.run)));
        for _ in 0..TURN {
            match source.next(notices) {
                Some(Item::Event(event)) => engine.push(event, done),
                Some(Item::Ended(Fact::CircuitEnd(circuit))) => engine.forget(circuit),
                Some(Item::Ended(_)) => {}
                Some(Item::Gap) => engine.finish(done),
                None => {}
            }
            self.next = source.peek(notices);
            if self.next.is_none_or(|next| next > limit) {
                break;
            }
        }
        if self.next.is_none() {
            engine.finish(done);
        }
    }

    /// A run with few events must not hold the others up: lets time pass in it up to `wall`.
    fn idle(&mut self, wall: i64, done: &mut Vec<Tree>) {
        let Some(engine) = &mut self.engine else { return };
        let passed = wall.saturating_sub(self.source.run.wall(engine.now()));
        if let Some(passed) = u64::try_from(passed).ok().filter(|passed| *passed > SECOND) {
            engine.tick(engine.now().saturating_add(passed).min(self.source.next_time()), done);
        }
    }

    /// Wall-clock time before which no more chain of the run begins.
    fn settled(&self) -> i64 {
        let next = self.next.unwrap_or(i64::MAX);
        match self.engine.as_ref().and_then(Engine::oldest) {
            Some(oldest) => self.source.run.wall(oldest).min(next),
            None => next,
        }
    }
}
