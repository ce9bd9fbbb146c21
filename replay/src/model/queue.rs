//! Events that wait to be put in order of time.
//!
//! They come block by block; each block is sorted, and blocks overlap a little. So they are kept as sorted runs, each
//! block appended to the run that it continues, and the next event is the earliest head of a run. A log as the recorder
//! writes it makes one run or a few. Guarantees for any log: an event costs at most a few more comparisons for each
//! doubling of the number waiting, however the blocks overlap; of equal times, the first one read comes first.

use iocrec_log::event::Event;
use iocrec_log::reader::give_back;
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};
use std::vec;

/// Limit of runs. Beyond it, the shorter half are merged into one: an event is then in a much longer run, so it is
/// merged only a few times.
const MAX_RUNS: usize = 64;
/// The latest runs that a block is compared with: it continues one of these, or begins its own.
const LOOKED_AT: usize = 8;

/// Time and block of a run's first event, and the number of the run.
type Head = Reverse<(u64, u64, usize)>;

/// Sorted events.
enum Part {
    /// Those of a block, and its number. They stay where they were read to.
    Block(u64, VecDeque<Event>),
    /// Those of several, each with the number of its block: times may be equal.
    Mixed(vec::IntoIter<(u64, Event)>),
}

impl Part {
    /// The first event, and the number of its block.
    fn first(&self) -> Option<(u64, &Event)> {
        match self {
            Part::Block(block, events) => events.front().map(|event| (*block, event)),
            Part::Mixed(events) => events.as_slice().first().map(|(block, event)| (*block, event)),
        }
    }

    #[inline]
    fn next(&mut self) -> Option<Event> {
        match self {
            Part::Block(_, events) => events.pop_front(),
            Part::Mixed(events) => events.next().map(|(_, event)| event),
        }
    }
}

/// Parts of which each follows the one before; none is empty.
#[derive(Default)]
struct Run {
    parts: VecDeque<Part>,
    /// Number of events.
    length: usize,
    /// Time of the last event.
    last: u64,
}

impl Run {
    /// The first event, and the number of its block.
    fn first(&self) -> Option<(u64, &Event)> {
        self.parts.front()?.first()
    }

    #[inline]
    fn next(&mut self) -> Option<Event> {
        let part = self.parts.front_mut()?;
        let event = part.next();
        if part.first().is_none() {
            self.end_part();
        }
        self.length -= usize::from(event.is_some());
        event
    }
}

impl Run {
    /// Drops the first part, which is empty. Its memory is used again.
    fn end_part(&mut self) {
        if let Some(Part::Block(_, events)) = self.parts.pop_front() {
            give_back(events.into());
        }
    }
}

/// The waiting events.
#[derive(Default)]
pub struct Queue {
    runs: Vec<Run>,
    heads: BinaryHeap<Head>,
    /// Time before which the first run has all events: that of the first event of any other run. It saves most looks at
    /// the heads.
    alone: u64,
    length: usize,
    blocks: u64,
}

impl Queue {
    /// Number of waiting events.
    pub fn len(&self) -> usize {
        self.length
    }

    /// The earliest.
    pub fn front(&self) -> Option<&Event> {
        let Reverse((.., run)) = self.heads.peek()?;
        self.runs.get(*run)?.first().map(|(_, event)| event)
    }

    /// Takes the earliest.
    #[inline]
    pub fn pop(&mut self) -> Option<Event> {
        let Reverse((.., number)) = *self.heads.peek()?;
        let run = self.runs.get_mut(number)?;
        let event = run.next();
        self.length -= usize::from(event.is_some());
        // While its run stays the first, its head in the heap may keep an earlier time.
        if run.first().is_none_or(|(_, next)| next.time >= self.alone) {
            self.change_run();
        }
        event
    }

    /// The next events: those before the time that is returned too come in this order, with nothing between them.
    pub fn ahead(&self) -> (&[Event], u64) {
        let first = self.heads.peek().and_then(|Reverse((.., run))| self.runs.get(*run)?.parts.front());
        match first {
            Some(Part::Block(_, events)) => (events.as_slices().0, self.alone),
            _ => (&[], 0),
        }
    }

    /// Drops as many of these.
    pub fn pass(&mut self, count: usize) {
        let Some(Reverse((.., number))) = self.heads.peek() else { return };
        let Some(run) = self.runs.get_mut(*number) else { return };
        let Some(Part::Block(_, events)) = run.parts.front_mut() else { return };
        let count = count.min(events.len());
        events.drain(..count);
        if events.is_empty() {
            run.end_part();
        }
        run.length -= count;
        self.length -= count;
        if run.first().is_none_or(|(_, next)| next.time >= self.alone) {
            self.change_run();
        }
    }

    /// Puts the run that was the first in its place, and finds out until when the new first one has the earliest events.
    fn change_run(&mut self) {
        self.settle();
        // The two that may come after the top of a heap are its children.
        let next = self.heads.as_slice().iter().skip(1).take(2);
        self.alone = next.map(|Reverse((time, ..))| *time).min().unwrap_or(u64::MAX);
    }

    /// Gives the first run's head its true time.
    fn settle(&mut self) {
        let Some(mut head) = self.heads.peek_mut() else { return };
        let Reverse((.., number)) = *head;
        match self.runs.get(number).and_then(Run::first) {
            Some((block, next)) => *head = Reverse((next.time, block, number)),
            None => _ = PeekMut::pop(head),
        }
    }

    /// Adds a block's events. `sorted`: they are in order of time already, as the caller has seen.
    pub fn push(&mut self, mut events: Vec<Event>, sorted: bool) {
        if !sorted {
            events.sort_by_key(|event| event.time);
        }
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return };
        let (first, last, length) = (first.time, last.time, events.len());
        self.settle();
        self.length += length;
        self.blocks += 1;
        let block = self.blocks;
        let looked_at = self.runs.len().saturating_sub(LOOKED_AT);
        let latest = self.runs.iter_mut().skip(looked_at).filter(|run| run.length > 0 && run.last <= first);
        match latest.max_by_key(|run| run.last) {
            Some(run) => {
                run.parts.push_back(Part::Block(block, events.into()));
                run.length += length;
                run.last = last;
            }
            None => {
                let parts = VecDeque::from([Part::Block(block, events.into())]);
                self.begin(first, block, Run { parts, length, last });
            }
        }
        self.change_run();
    }

    /// Begins a run, in the place of a finished one if there is one.
    fn begin(&mut self, first: u64, block: u64, new: Run) {
        if self.runs.len() >= MAX_RUNS && self.heads.len() >= MAX_RUNS {
            self.unite();
        }
        let number = match self.runs.iter_mut().position(|run| run.length == 0) {
            Some(number) => number,
            None => {
                self.runs.push(Run::default());
                self.runs.len() - 1
            }
        };
        if let Some(run) = self.runs.get_mut(number) {
            *run = new;
            self.heads.push(Reverse((first, block, number)));
        }
    }

    /// Merges the shorter half of the runs into one.
    fn unite(&mut self) {
        self.runs.retain(|run| run.length > 0);
        self.runs.sort_by_key(|run| Reverse(run.length));
        let shorter = self.runs.split_off(self.runs.len() / 2);
        let mut one: Vec<(u64, Event)> = Vec::with_capacity(shorter.iter().map(|run| run.length).sum());
        for part in shorter.into_iter().flat_map(|run| run.parts) {
            match part {
                Part::Block(block, events) => one.extend(events.into_iter().map(|event| (block, event))),
                Part::Mixed(events) => one.extend(events),
            }
        }
        one.sort_by_key(|(block, event)| (event.time, *block));
        let (length, last) = (one.len(), one.last().map_or(0, |(_, event)| event.time));
        self.runs.push(Run { parts: VecDeque::from([Part::Mixed(one.into_iter())]), length, last });
        let head = |(number, run): (usize, &Run)| {
            run.first().map(|(block, first)| Reverse((first.time, block, number)))
        };
        self.heads = self.runs.iter().enumerate().filter_map(head).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::Fact;

    fn event(time: u64, number: u32) -> Event {
        Event { time, fact: Fact::ChannelEnd(number) }
    }

    /// In the order of one stable sort, however blocks overlap, even if some are taken meanwhile.
    #[test]
    fn as_a_stable_sort() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for turn in 0..200 {
            let (mut queue, mut sorted, mut number) = (Queue::default(), Vec::new(), 0);
            let spread = [1, 10, 1000, 1_000_000][turn % 4];
            for block in 0..200 {
                let begin = if turn % 3 == 0 { (200 - block) * 10 } else { random(spread) };
                let mut events: Vec<Event> = (0..random(20))
                    .map(|_| {
                        number += 1;
                        event(begin + random(spread), number)
                    })
                    .collect();
                if turn % 2 == 0 {
                    events.sort_by_key(|event| event.time);
                }
                sorted.extend(events.clone());
                let is_sorted = events.is_sorted_by_key(|event| event.time);
                queue.push(events, is_sorted);
                if turn % 5 == 0 && random(3) == 0 {
                    sorted.sort_by_key(|event: &Event| event.time);
                    let taken = (random(30) as usize).min(sorted.len());
                    for expected in sorted.drain(..taken) {
                        assert_eq!(queue.front(), Some(&expected));
                        assert_eq!(queue.pop(), Some(expected));
                    }
                }
                assert_eq!(queue.len(), sorted.len());
                assert!(queue.runs.len() <= MAX_RUNS);
            }
            sorted.sort_by_key(|event| event.time);
            let all: Vec<Event> = std::iter::from_fn(|| queue.pop()).collect();
            assert!(all == sorted, "turn {turn}");
        }
    }
}
