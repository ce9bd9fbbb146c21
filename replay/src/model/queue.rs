//! Events that wait to be put in order of time.
//!
//! They come block by block; each block is sorted, and blocks overlap a little. So they are kept as sorted runs, each
//! block appended to the run that it continues, and the next event is the earliest head of a run. A log as the recorder
//! writes it makes one run or a few. Guarantees for any log: an event costs at most a few more comparisons for each
//! doubling of the number waiting, however the blocks overlap; of equal times, the first one read comes first.

use iocrec_log::event::Event;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Limit of runs. Beyond it, the shorter half are merged into one: an event is then in a much longer run, so it is
/// merged only a few times.
const MAX_RUNS: usize = 64;
/// The latest runs that a block is compared with: it continues one of these, or begins its own.
const LOOKED_AT: usize = 8;

/// An event, and the number of its block: times may be equal.
type Waiting = (u64, Event);
/// Time and block of a run's first event, and the number of the run.
type Head = Reverse<(u64, u64, usize)>;

/// The waiting events.
#[derive(Default)]
pub struct Queue {
    runs: Vec<VecDeque<Waiting>>,
    heads: BinaryHeap<Head>,
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
        self.runs.get(*run)?.front().map(|(_, event)| event)
    }

    /// Takes the earliest.
    pub fn pop(&mut self) -> Option<Event> {
        let mut head = self.heads.peek_mut()?;
        let Reverse((.., number)) = *head;
        let run = self.runs.get_mut(number)?;
        let (_, event) = run.pop_front()?;
        self.length -= 1;
        match run.front() {
            Some((block, next)) => *head = Reverse((next.time, *block, number)),
            None => _ = std::collections::binary_heap::PeekMut::pop(head),
        }
        Some(event)
    }

    /// Adds a block's events.
    pub fn push(&mut self, mut events: Vec<Event>) {
        if !events.is_sorted_by_key(|event| event.time) {
            events.sort_by_key(|event| event.time);
        }
        let Some(first) = events.first().map(|event| event.time) else { return };
        self.length += events.len();
        self.blocks += 1;
        let block = self.blocks;
        let goes_on = |run: &VecDeque<Waiting>| run.back().is_some_and(|(_, last)| last.time <= first);
        let looked_at = self.runs.len().saturating_sub(LOOKED_AT);
        let latest = self.runs.iter().enumerate().skip(looked_at).filter(|(_, run)| goes_on(run));
        let run =
            latest.max_by_key(|(_, run)| run.back().map(|(_, last)| last.time)).map(|(number, _)| number);
        let waiting = events.into_iter().map(|event| (block, event));
        match run.and_then(|number| self.runs.get_mut(number)) {
            Some(run) => run.extend(waiting),
            None => self.begin(first, block, waiting.collect()),
        }
    }

    /// Begins a run, in the place of a finished one if there is one.
    fn begin(&mut self, first: u64, block: u64, events: VecDeque<Waiting>) {
        if self.runs.len() >= MAX_RUNS && self.heads.len() >= MAX_RUNS {
            self.unite();
        }
        let number = match self.runs.iter_mut().position(|run| run.is_empty()) {
            Some(number) => number,
            None => {
                self.runs.push(VecDeque::new());
                self.runs.len() - 1
            }
        };
        if let Some(run) = self.runs.get_mut(number) {
            *run = events;
            self.heads.push(Reverse((first, block, number)));
        }
    }

    /// Merges the shorter half of the runs into one.
    fn unite(&mut self) {
        self.runs.retain(|run| !run.is_empty());
        self.runs.sort_by_key(|run| Reverse(run.len()));
        let shorter = self.runs.split_off(self.runs.len() / 2);
        let mut one: Vec<Waiting> = Vec::with_capacity(shorter.iter().map(VecDeque::len).sum());
        shorter.into_iter().for_each(|run| one.extend(run));
        one.sort_by_key(|(block, event)| (event.time, *block));
        self.runs.push(one.into());
        let head = |(number, run): (usize, &VecDeque<Waiting>)| {
            run.front().map(|(block, first)| Reverse((first.time, *block, number)))
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
                queue.push(events);
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
