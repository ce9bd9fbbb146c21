//! A run's events, read from its segments and put in order of time.
//!
//! Blocks are sorted, but neighbouring blocks may overlap: the recorder reads several queues (hits of each CPU,
//! packets) in turn and writes a block once a second. An event can thus come later than another by as long as a flush
//! and a turn of the loop; `WINDOW` is twice that. Where other programs have all processors, a turn lasts longer, and the
//! hits of that time may be a few blocks before the packets, or after them: so a look at the next blocks shows whether one
//! is as old, and is read, too. Definitions take effect when they are read, so they may be a little early, never late. Ends take effect
//! `KEEP` after their time, when no chain that is still to be printed refers to the ended definition.
//!
//! Segments are decoded on other threads, a few ahead of the current one. With a start time, segments and blocks that
//! are `KEEP` older are not read.

use super::queue::Queue;
use super::quiet::{without_hits, Span};
use super::run::Run;
use super::selection::{Interest, Selection};
use super::silence::Sayings;
use super::{open_chains, value};
use crate::notices::{Notice, Notices};
use crate::reading::runs::set::{created, SetLater, Steps};
use crate::reading::scan::{abouts, Blocks, Choose, Part, Scan};
use crate::time::SECOND;
use iocrec_log::context::Budget;
use iocrec_log::event::{Class, Event, Fact, Ioc, PvaValue, SegmentEnd, Unpinned};
use iocrec_log::format::SegmentHeader;
use iocrec_log::reader::{fit, About, Block, Cause, Choice, Glance, SegmentFile};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

/// A pause after which what waits is given out before any number loses its meaning.
const SILENCE: u64 = SECOND;
/// Longest delay after which an event may be read and still come before another, as long as the recorder's turns are short.
const WINDOW: u64 = 2 * SECOND;
/// Limit of the events that wait to be sorted, 5 MB, 9 where two of five are puts, whatever their times; and of the bytes
/// of their values. These are four of the recorder's largest blocks. It writes such a block as soon as it is full and hands
/// over its queues every 40 ms, in which even a million events a second fill less than three: so where there are more in
/// two seconds, none comes that late.
const MAX_PENDING: usize = 65_000;
const MAX_PENDING_BYTES: usize = 16 << 20;
/// Blocks after the next one that are looked at, some seconds; no more once they hold so many events, or a megabyte: where so
/// much happens in a second, what may wait is soon full.
const MAX_BEYOND: usize = 3;
const MAX_BEYOND_EVENTS: usize = MAX_PENDING / 8;
/// Bytes of a block in the file that count as an event.
const AS_EVENT: u64 = 128;
/// Time that definitions stay in effect after their end; what is older than a start time by that is not read.
pub const KEEP: u64 = open_chains::LIMIT + 30 * SECOND;

/// A put's packet is older than its hit, mostly by less. What is missing is taken to begin and to end so long before and after what
/// overlaps around it, so that no put there is told by its packet and by its hit.
const AROUND: u64 = 2 * SECOND / 1000;
/// Places in time of missing parts that are remembered; a bound for hostile logs.
const MAX_GAPS: usize = 64;
/// Ends waiting to take effect; a bound for hostile logs.
const MAX_ENDS: usize = 500_000;

/// Reading position in a segment.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Its number in the run.
    sequence: u32,
    /// Number of its blocks, as far as known.
    blocks: u32,
    /// Set once its keyframe has begun: whether it repeats known definitions.
    repeats: Option<bool>,
    /// Whether something in it could not be read.
    harmed: bool,
}

impl Place {
    /// Whether the first block of the next segment shows that there was more.
    fn had_more(&self, block: &Block) -> bool {
        let more = |ended: &SegmentEnd| ended.segment == self.sequence && ended.blocks > self.blocks;
        block.events.iter().any(|event| matches!(&event.fact, Fact::SegmentEnd(ended) if more(ended)))
    }
}

/// The next thing that a run yields.
pub enum Item {
    /// An event. The end of an IOC comes as one, too, when it happens.
    Event(Event),
    /// A definition that has ended for good.
    Ended(Fact),
    /// Ends are due at this time that what came before may still need: give that out first.
    Passed(u64),
    /// Something is missing here: the next items do not continue the earlier ones.
    Gap,
}

/// The definition that an end ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Name {
    Ioc(u32),
    Circuit(u32),
    Channel(u32),
}

/// Looks through blocks, and decides which of them are read; `None` if all must be.
type Select = dyn FnOnce(&[SegmentFile], Blocks) -> Option<Arc<Choose>>;

/// The events of one run.
pub struct Source {
    /// Where definitions take effect.
    pub run: Rc<Run>,
    scan: Scan,
    /// The segments and blocks to be read, as long as it remains to be seen which of them matter to what is asked.
    select: Option<(Vec<SegmentFile>, Blocks, Box<Select>)>,
    /// The first segment to be read.
    first: Option<SegmentFile>,
    notices: Rc<Notices>,
    /// The steps of the wall clock, and whether it was reported that it was set back.
    steps: Steps,
    set_back: bool,
    /// Monotonic time of the earliest hits wanted.
    since: u64,
    /// The time when the machine's clock was set, if it was not set at the beginning.
    set: Option<SetLater>,
    /// Wall-clock time of the first event, once looked up.
    begins: Option<i64>,
    started: bool,
    /// Total size of its files in bytes.
    bytes: u64,
    /// Sequence number that the next segment should have.
    expected: Option<u32>,
    /// Whether everything was read so far, so that a keyframe repeats known definitions.
    complete: bool,
    /// Reading position in the segment.
    place: Place,
    /// Final position in the segment before, until the next one has begun.
    before: Option<Place>,
    /// Hits and ends, given in the order of time.
    pending: Queue,
    /// Bytes of their values.
    pending_bytes: usize,
    /// The block after these, with the time of its earliest event.
    coming: Option<(u64, Block)>,
    /// What comes after it, as far as it was looked at, with the same time; nothing of it is in effect yet. Only the last
    /// may be anything else than a block.
    beyond: VecDeque<(u64, Part)>,
    /// The latest time read.
    newest: u64,
    /// Whether nothing of what comes next was late when that was last looked at: until more is read, it stays so.
    none_is_late: bool,
    /// Whether something is missing after the pending events.
    gap: bool,
    /// Times at which something is missing amid the pending events.
    gaps: BTreeSet<u64>,
    /// The latest time that was read before something that is missing, until the next block that holds hits.
    missing: Option<u64>,
    /// The time of the last [`Item::Passed`].
    told: u64,
    /// Ends that have not taken effect yet, and the latest end of each definition.
    ends: VecDeque<(u64, Fact)>,
    /// Time of the last item.
    passed: u64,
    last_end: HashMap<Name, u64>,
}

/// Wall-clock time of the start of a run, by its first block, which has a pair of clocks. The times in the files'
/// headers were written before the recorder knew more.
fn begins(first: Option<&SegmentFile>, set: Option<SetLater>) -> i64 {
    let Some(first) = first else { return 0 };
    let created = first.header.map_or(0, |header| created(&header, set));
    let Ok(scan) = Scan::one(first, Blocks::All) else { return created };
    // The very first may hold only how the segment before it ended.
    let has_events =
        |block: &Block| !block.events.iter().all(|event| matches!(event.fact, Fact::SegmentEnd(_)));
    let mut blocks = scan.map_while(|part| match part {
        Part::Block(block) => Some(block),
        _ => None,
    });
    let Some(block) = blocks.find(has_events) else { return created };
    let run = Run::new(set);
    block.events.iter().for_each(|event| run.apply(event.time, &event.fact));
    // Definitions count as well: when an IOC was named and recorded is told at its place in time, too. Clocks keep their own.
    let of_run = |event: &&Event| !matches!(event.fact, Fact::Clock(_) | Fact::SegmentEnd(_));
    let times = block.events.iter().filter(of_run).map(|event| event.time);
    let first = times.min().or(block.events.first().map(|event| event.time));
    let wall = first.and_then(|first| run.context().wall(first));
    wall.unwrap_or(created)
}

/// Drops the segments that lie entirely before `since` (wall-clock time). Returns the monotonic time
/// before which the same holds in the first remaining segment.
fn pass_over(files: &mut VecDeque<SegmentFile>, since: i64, set_later: Option<SetLater>) -> u64 {
    // The wall clock at monotonic time zero: rises when the wall clock is set forward.
    let zero = |header: &SegmentHeader| i128::from(created(header, set_later)) - i128::from(header.created);
    let header = |file: Option<&SegmentFile>| file.and_then(|file| file.header);
    // The events of a segment come before the start of the next one.
    while let (Some(this), Some(next)) = (header(files.front()), header(files.get(1))) {
        let set_back = zero(&this) - zero(&next) > i128::from(SECOND);
        if created(&next, set_later) > since || set_back {
            // If the clock was not set in this segment, its start gives the time of everything in it.
            let set = (zero(&this) - zero(&next)).unsigned_abs() > u128::from(SECOND);
            let since = i128::from(since) - zero(&this);
            return if set { 0 } else { u64::try_from(since).unwrap_or(0) };
        }
        files.pop_front();
    }
    0
}

impl Source {
    /// The events in a run's segments, which are in order. Of the events before `since` (wall-clock time), returns only
    /// those needed for what began later.
    pub fn new(
        files: &[SegmentFile],
        since: Option<i64>,
        budget: &Arc<Budget>,
        notices: &Rc<Notices>,
    ) -> Self {
        let set = SetLater::find(files);
        let bytes = files.iter().map(|file| file.size).sum();
        let files = files.iter().cloned().collect();
        let kept = since.map(|since| since.saturating_sub(i64::try_from(KEEP).unwrap_or(i64::MAX)));
        Source::from(files, bytes, set, kept, budget, notices)
    }

    /// The events in a run's segments from `since` (wall-clock time) on, without those from before it that could be
    /// needed for what began later.
    pub fn recent(files: &[SegmentFile], since: i64, budget: &Arc<Budget>, notices: &Rc<Notices>) -> Self {
        let bytes = files.iter().map(|file| file.size).sum();
        Source::from(
            files.iter().cloned().collect(),
            bytes,
            SetLater::find(files),
            Some(since),
            budget,
            notices,
        )
    }

    fn from(
        mut files: VecDeque<SegmentFile>,
        bytes: u64,
        set: Option<SetLater>,
        since: Option<i64>,
        budget: &Arc<Budget>,
        notices: &Rc<Notices>,
    ) -> Self {
        let run = Rc::new(Run::sharing(set, budget));
        if files.front().and_then(|file| file.header).is_some_and(|header| header.sequence > 0) {
            run.has_lost_beginning();
        }
        let since = since.map_or(0, |since| pass_over(&mut files, since, set));
        Source {
            run,
            set,
            steps: Steps::default(),
            set_back: false,
            begins: None,
            scan: Scan::new(&files, Blocks::Since(since)),
            select: None,
            first: files.pop_front(),
            notices: Rc::clone(notices),
            since,
            started: false,
            bytes,
            expected: None,
            complete: true,
            place: Place::default(),
            before: None,
            pending: Queue::default(),
            pending_bytes: 0,
            coming: None,
            beyond: VecDeque::new(),
            newest: 0,
            none_is_late: false,
            gap: false,
            gaps: BTreeSet::new(),
            missing: None,
            told: 0,
            ends: VecDeque::new(),
            passed: 0,
            last_end: HashMap::new(),
        }
    }

    /// Gives only what can matter to this.
    pub fn asked_for(self, interest: Interest) -> Self {
        self.selecting(move |files, blocks| Selection::of(files, blocks, &interest).map(Selection::choose))
    }

    /// Whether CA links may have put, or programs through libca, in what is to be read.
    pub fn may_have_link_puts(&self) -> bool {
        let may = |about: &About| about.classes.is_none_or(|classes| classes.link_puts());
        self.scan.unopened().any(|file| abouts(file).is_none_or(|abouts| abouts.iter().any(may)))
    }

    /// Gives only what can matter to what IOCs said.
    pub fn asked_what_was_said(self) -> Self {
        self.selecting(|files, blocks| Sayings::of(files, blocks).map(Sayings::choose))
    }

    fn selecting(
        mut self,
        select: impl FnOnce(&[SegmentFile], Blocks) -> Option<Arc<Choose>> + 'static,
    ) -> Self {
        let files = self.scan.unopened().cloned().collect();
        self.select = Some((files, Blocks::Since(self.since), Box::new(select)));
        self
    }

    /// Gives no hits of blocks in these spans.
    pub fn without_hits(mut self, spans: Vec<Span>) -> Self {
        self.scan.choose(without_hits(spans));
        self
    }

    /// Gives only what the recorder noted, such as losses, and what is unpacked with it.
    pub fn only_notes(mut self) -> Self {
        self.scan.choose(Arc::new(|about| match about.classes {
            Some(classes) if !classes.notes() && !about.defines => Choice::Pass,
            _ => Choice::Only(Arc::new(|_| false)),
        }));
        self
    }

    /// Gives only what the recorder noted, and what it read of records, and what is unpacked with it.
    pub fn only_noted(mut self) -> Self {
        self.scan.choose(Arc::new(|about| match about.classes {
            Some(classes) if !classes.notes() && !classes.snapshots() && !about.defines => Choice::Pass,
            _ => Choice::Only(Arc::new(|_| false)),
        }));
        self
    }

    /// Takes what IOCs said and used, definitions, and whatever else is in the same blocks.
    pub fn only_health(mut self) -> Self {
        self.scan.choose(Arc::new(|about| match about.classes {
            Some(classes) if !classes.health() && !about.defines => Choice::Pass,
            _ => Choice::Only(Arc::new(|_| false)),
        }));
        self
    }

    /// Wall-clock time of the next item; `None` at the end. A run whose reading has not begun gives its start, and
    /// takes no memory.
    pub fn peek(&mut self) -> Option<i64> {
        if !self.started {
            return Some(*self.begins.get_or_insert_with(|| begins(self.first.as_ref(), self.set)));
        }
        // where several runs are read in turn, this is asked after each event
        let is_settled = |first: &Event| first.time.saturating_add(WINDOW) < self.newest;
        if !self.none_is_late || !self.pending.front().is_some_and(is_settled) {
            self.fill();
        }
        match self.pending.front() {
            Some(event) => Some(self.run.even(event.time)),
            None if self.gap || !self.gaps.is_empty() => Some(self.run.even(self.newest)),
            None => None,
        }
    }

    /// Its size on disk in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether its reading has begun, so that it takes memory.
    pub fn is_started(&self) -> bool {
        self.started
    }

    /// Monotonic time of the next item already read.
    pub fn next_time(&self) -> u64 {
        self.pending.front().map_or(self.newest, |event| event.time)
    }

    /// The next events, as far as they are in one piece: those before the time that is returned too are the next items,
    /// and nothing comes between them.
    pub fn ahead(&self) -> (&[Event], u64) {
        if !self.started || self.ends.len() > MAX_ENDS {
            return (&[], 0);
        }
        let (events, until) = self.pending.ahead();
        let until = until.min(self.newest.saturating_sub(WINDOW));
        let until = until.min(self.gaps.first().copied().unwrap_or(u64::MAX));
        let due = self.ends.front().map_or(u64::MAX, |(time, _)| time.saturating_add(KEEP));
        (events, until.min(due))
    }

    /// Passes over as many of these, the last of which came at this time. They must be hits without values of any size.
    pub fn pass(&mut self, count: usize, time: u64) {
        self.pending.pass(count);
        self.passed = self.passed.max(time);
    }

    /// Applies the oldest end, unless its number has been reused since.
    fn end(&mut self) -> Option<Fact> {
        let (time, fact) = self.ends.pop_front()?;
        let name = ends(&fact)?;
        if self.last_end.get(&name) != Some(&time) {
            return None;
        }
        self.last_end.remove(&name);
        self.run.apply(time, &fact);
        Some(fact)
    }

    /// Reads until nothing can come before the first pending event any more.
    fn fill(&mut self) {
        if let Some((files, blocks, select)) = self.select.take() {
            if let Some(choose) = select(&files, blocks) {
                self.scan.choose(choose);
            }
        }
        while !self.gap && self.pending.len() < MAX_PENDING && self.pending_bytes < MAX_PENDING_BYTES {
            let settled = |first: &Event| first.time.saturating_add(WINDOW) < self.newest;
            if self.pending.front().is_some_and(settled) && !self.next_is_late() {
                // at the end there may yet come what a recorder is writing
                self.none_is_late = self.coming.is_some();
                return;
            }
            self.none_is_late = false;
            let coming = self.coming.take().map(|(_, block)| block);
            match coming.or_else(|| self.next_block()) {
                Some(block) => self.take(block),
                None => return,
            }
        }
    }

    /// Whether one of the next blocks holds what is older than what is given out by time: the recorder had no processor for
    /// a while.
    fn next_is_late(&mut self) -> bool {
        if self.coming.is_none() {
            self.coming = self.next_block().map(|block| (earliest(&block), block));
        }
        let newest = self.newest;
        let is_late = |earliest: u64| earliest.saturating_add(WINDOW) < newest;
        match &self.coming {
            None => return false,
            Some((earliest, _)) if is_late(*earliest) => return true,
            Some(_) => {}
        }
        // What a new segment, damage or an end means depends on all before it, so nothing is looked at beyond that.
        let events = |part: &Part| match part {
            Part::Block(block) => block.events.len() + (block.length / AS_EVENT) as usize,
            _ => MAX_BEYOND_EVENTS,
        };
        let mut held: usize = self.beyond.iter().map(|(_, part)| events(part)).sum();
        while self.beyond.len() < MAX_BEYOND && held < MAX_BEYOND_EVENTS {
            let Some(part) = self.scan.next() else { break };
            held += events(&part);
            let earliest = match &part {
                Part::Block(block) => earliest(block),
                _ => u64::MAX,
            };
            self.beyond.push_back((earliest, part));
        }
        self.beyond.iter().any(|(earliest, _)| is_late(*earliest))
    }

    /// The next part of the scan.
    fn next_part(&mut self) -> Option<Part> {
        match self.beyond.pop_front() {
            Some((_, part)) => Some(part),
            None => self.scan.next(),
        }
    }

    /// The next block; `None` at the end, and where something is missing, which is noted in `gap`.
    fn next_block(&mut self) -> Option<Block> {
        loop {
            match self.next_part()? {
                Part::Segment(header) => {
                    self.begin_segment(header.sequence);
                    if self.gap {
                        return None;
                    }
                }
                Part::Unreadable(error) => {
                    self.notices.report(&Notice::of_segment(error));
                    self.complete = false;
                    self.gap = true;
                    return None;
                }
                Part::Block(block) => {
                    let more = self.before.take().is_some_and(|before| before.had_more(&block));
                    self.place.blocks = block.sequence.saturating_add(1);
                    if more {
                        self.complete = false;
                        // With a start time, blocks may have been skipped at its end.
                        if self.since == 0 || self.scan.is_cut_before() {
                            let before = self.scan.file().map(|file| file.path.clone()).unwrap_or_default();
                            self.notices.report(&Notice::Truncated { before });
                            if self.is_placed(None) {
                                continue; // the block holds nothing else
                            }
                            self.gap = true;
                            return None;
                        }
                    }
                    return Some(block);
                }
                Part::Damage(damage) => {
                    self.place.harmed = true;
                    self.place.blocks = self.place.blocks.saturating_add(damage.blocks);
                    let is_harmless = matches!(damage.cause, Cause::Header | Cause::Repeated);
                    let times = damage.times;
                    if let Some(file) = self.scan.file() {
                        self.notices.damage(&file.path, damage);
                    }
                    if !is_harmless {
                        self.complete = false;
                        if self.is_placed(times) {
                            continue;
                        }
                        self.gap = true;
                        return None;
                    }
                }
            }
        }
    }

    /// Notes where in time something is missing, from the first to the second time if they are known: false if too much is. What
    /// comes behind it may be older than what was read before it, by a turn of the recorder's, or by all the time in which it had
    /// no processor. So what was read waits, and what follows is sorted in.
    fn is_placed(&mut self, times: Option<(u64, u64)>) -> bool {
        if self.gaps.len() >= MAX_GAPS {
            return false;
        }
        match times.filter(|(first, _)| *first < self.newest) {
            // What was read of that time may lack what led to it, and so may what follows.
            Some((first, last)) => {
                self.gaps.extend([first, last.clamp(first, self.newest.saturating_add(1))]);
            }
            None => {
                self.gaps.insert(self.newest.saturating_add(1));
                self.missing = times.is_none().then_some(self.newest);
            }
        }
        true
    }

    /// Places what is missing before this block, which may begin before the end of what was read.
    fn follow_missing(&mut self, block: &Block) {
        let passed = block.about.as_ref().filter(|_| block.passed).map(|about| about.first);
        let first = earliest(block).min(passed.unwrap_or(u64::MAX));
        if block.keyframe || first == u64::MAX {
            return;
        }
        let Some(last) = self.missing.take().filter(|last| first <= *last) else { return };
        self.gaps.remove(&last.saturating_add(1));
        self.gaps.extend([first.saturating_sub(AROUND), last.saturating_add(AROUND)]);
    }

    /// Begins a segment: notes a gap if it is not the expected one.
    fn begin_segment(&mut self, sequence: u32) {
        if let Some(expected) = self.expected.filter(|expected| *expected != sequence) {
            let before = self.scan.file().map(|file| file.path.clone()).unwrap_or_default();
            let count = sequence.saturating_sub(expected);
            self.notices.report(&Notice::MissingSegments { count, before });
            self.complete = false;
            self.gap = true;
        }
        // The first segment's report on the one before concerns one that is gone or was not wanted.
        let is_first = self.expected.is_none();
        self.expected = Some(sequence.saturating_add(1));
        let next = Place { sequence, ..Place::default() };
        let before = std::mem::replace(&mut self.place, next);
        self.before = Some(before).filter(|before| !is_first && !before.harmed);
    }

    fn take(&mut self, block: Block) {
        if self.missing.is_some() {
            self.follow_missing(&block);
        }
        let mut repeats = false;
        if block.keyframe {
            // what was defined while storing was paused, or lost, is in the keyframe alone
            let before = self.place.sequence.checked_sub(1);
            let follows =
                |event: &Event| matches!(&event.fact, Fact::SegmentEnd(end) if Some(end.segment) == before);
            let known = self.complete && self.newest > 0 && block.events.iter().any(follows);
            repeats = *self.place.repeats.get_or_insert(known);
            self.complete = !self.place.harmed;
        }
        if let Some(about) = &block.about {
            // Events that were not read have passed, too.
            self.newest = self.newest.max(about.last);
        }
        let unread = unread(&block);
        let mut events = block.events;
        // The only look at most of them: they come from another processor's memory.
        let (mut sorted, mut latest, mut heap, mut all_wanted) = (true, 0, 0, true);
        if let Some(Glance { others, in_order: true }) = &block.glance {
            latest = events.last().map_or(0, |last| last.time);
            all_wanted = events.first().is_none_or(|first| first.time >= self.since);
            for other in others.iter().filter_map(|place| events.get(*place as usize)) {
                heap += bytes(&other.fact);
                all_wanted &= other.fact.class() != Class::Definition;
            }
            self.newest = self.newest.max(latest);
        } else {
            for event in &events {
                self.newest = self.newest.max(event.time);
                sorted &= latest <= event.time;
                latest = event.time;
                heap += bytes(&event.fact);
                all_wanted &= event.fact.class() != Class::Definition && event.time >= self.since;
            }
        }
        if all_wanted {
            self.pending_bytes += heap;
            self.pending.push(events, sorted);
        } else {
            self.take_some(&mut events, repeats);
            let sorted = events.is_sorted_by_key(|event| event.time);
            self.pending.push(fit(events), sorted);
        }
        let unread: Vec<Event> = unread.into_iter().filter(|event| event.time >= self.since).collect();
        let sorted = unread.is_sorted_by_key(|event| event.time);
        self.pending.push(unread, sorted);
    }

    /// Applies definitions, and keeps the events that are to be given out.
    fn take_some(&mut self, events: &mut Vec<Event>, repeats: bool) {
        events.retain(|event| {
            if event.fact.class() == Class::Definition {
                if let Fact::Clock(clock) = &event.fact {
                    let step = self.steps.take(event.time, clock.wall);
                    if let Some(step) = step {
                        self.run.clock_steps(event.time, step);
                    }
                    if let Some(by) = step.and_then(|step| step.back()).filter(|_| !self.set_back) {
                        self.set_back = true;
                        self.notices.report(&Notice::ClockSetBack { host: self.run.host(), by });
                    }
                }
                if let Fact::Ioc(ioc) = &event.fact {
                    let is_new = ioc.leaves_out_processing()
                        && !self.run.context().ioc(ioc.id).is_some_and(Ioc::leaves_out_processing);
                    if is_new {
                        self.notices.report(&Notice::NoProcessing { ioc: ioc.name.clone() });
                    }
                }
                if !repeats {
                    self.run.apply(event.time, &event.fact);
                    if let Some(name) = defines(&event.fact) {
                        self.last_end.remove(&name);
                    }
                }
                // The circuit that a thread serves, and the list that a record is on at that time, matter to the chains
                // too; IOCs and the times at which they were recorded, to values.
                let for_chains = match event.fact {
                    Fact::ServerThread(_) => true,
                    Fact::RecordScan(_) | Fact::Ioc(_) | Fact::Attached(_) => !repeats,
                    _ => false,
                };
                if !for_chains {
                    return false;
                }
            }
            if event.time < self.since && !event.fact.class().defines() {
                return false; // it is in a block only because of others that are wanted
            }
            self.pending_bytes += bytes(&event.fact);
            true
        });
    }
}

/// Time of the earliest event in a block, but for definitions and ends, which stand out of order.
fn earliest(block: &Block) -> u64 {
    let mut events = block.events.iter();
    events.find(|event| !event.fact.class().defines()).map_or(u64::MAX, |event| event.time)
}

/// Events that stand for those of a block that were not read: at these times something was recorded.
fn unread(block: &Block) -> Vec<Event> {
    let about = block.about.as_ref().filter(|_| block.passed);
    let span = about.map(|about| (about.first, about.last)).or(block.left_out.span);
    let event = |time| Event { time, fact: Fact::Unpinned(Unpinned { segments: 0 }) };
    span.map(|(first, last)| vec![event(first), event(last)]).unwrap_or_default()
}

impl Iterator for Source {
    type Item = Item;

    #[inline]
    fn next(&mut self) -> Option<Item> {
        self.started = true;
        loop {
            let mut first = self.pending.front().map(|event| event.time);
            if first.is_none_or(|first| first.saturating_add(WINDOW) >= self.newest) {
                self.fill();
                first = self.pending.front().map(|event| event.time);
            }
            if self.gaps.first().is_some_and(|gap| first.is_some_and(|first| first >= *gap)) {
                while self.gaps.first().is_some_and(|gap| first.is_some_and(|first| first >= *gap)) {
                    self.gaps.pop_first();
                }
                return Some(Item::Gap);
            }
            let now = first.unwrap_or(self.newest);
            let due = |(time, _): &(u64, Fact)| time.saturating_add(KEEP) <= now;
            let is_due = self.ends.front().is_some_and(due);
            if self.ends.len() > MAX_ENDS || is_due {
                // A batch may span minutes where few blocks are read: its chains still need the names.
                let chain_waits =
                    |(time, _): &(u64, Fact)| self.told < time.saturating_add(open_chains::LIMIT);
                let first = is_due && self.ends.front().is_some_and(chain_waits);
                if first || now > self.passed.saturating_add(SILENCE) {
                    self.passed = self.passed.max(now);
                    self.told = now;
                    return Some(Item::Passed(now));
                }
                if let Some(ended) = self.end() {
                    return Some(Item::Ended(ended));
                }
                continue;
            }
            let Some(event) = self.pending.pop() else {
                // What is missing at the end comes after everything.
                let is_gap = std::mem::take(&mut self.gap) | !self.gaps.is_empty();
                self.gaps.clear();
                return is_gap.then_some(Item::Gap);
            };
            self.passed = self.passed.max(event.time);
            if matches!(event.fact, Fact::Process(_)) {
                return Some(Item::Event(event)); // nearly half of them
            }
            self.pending_bytes = self.pending_bytes.saturating_sub(bytes(&event.fact));
            let Some(name) = ends(&event.fact) else { return Some(Item::Event(event)) };
            self.last_end.insert(name, event.time);
            if matches!(event.fact, Fact::IocEnd(_)) {
                self.ends.push_back((event.time, event.fact.clone()));
                return Some(Item::Event(event));
            }
            self.ends.push_back((event.time, event.fact));
        }
    }
}

/// Bytes of an event's values, beside the event itself.
fn bytes(fact: &Fact) -> usize {
    match fact {
        Fact::CaPut(put) => put.payload.len(),
        Fact::CaAnswer(answer) => answer.text.len(),
        Fact::Put(put) => value::heap(&put.requested) + value::heap(&put.old),
        Fact::Complete(complete) => value::heap(&complete.value),
        Fact::CaLinkPut(put) => value::heap(&put.value) + put.pv.len(),
        Fact::Loss(loss) => loss.cause.len(),
        Fact::QueueFill(fill) => size_of_val(fill.as_ref()) + fill.thread.len(),
        Fact::FieldValue(held) => value::heap(&held.value),
        Fact::Snapshot(snapshot) => value::heap(&snapshot.value),
        Fact::Properties(set) => size_of_val(set.as_ref()) + set.description.len() + set.units.len(),
        Fact::Mark(text) => text.len(),
        Fact::PvaPut(put) => size_of_val(put.as_ref()) + pva_bytes(&put.options) + pva_bytes(&put.value),
        Fact::PvaAnswer(answer) => {
            size_of_val(answer.as_ref()) + answer.text.len() + pva_bytes(&answer.value)
        }
        Fact::PvaMessage(message) => message.text.len(),
        Fact::Searches(searches) => searches.name.len() + size_of_val(searches.answers.as_slice()),
        Fact::PvaSearches(of) => {
            of.searches.name.len() + size_of_val(of.searches.answers.as_slice()) + 36 * of.guids.len()
        }
        Fact::SearchLoad(load) | Fact::PvaSearchLoad(load) => size_of_val(load.most.as_slice()),
        Fact::Sender(sender) => sender.program.len() + sender.user.len(),
        Fact::CircuitTraffic(traffic) => size_of_val(traffic.messages.as_slice()),
        Fact::CaError(error) => error.text.len(),
        Fact::SignalSent(sent) => {
            size_of_val(sent.as_ref())
                + sent.user.len()
                + sent.program.len()
                + sent.command.iter().map(|word| size_of_val(word) + word.len()).sum::<usize>()
        }
        Fact::IoFile(file) => size_of_val(file.as_ref()) + file.name.len(),
        Fact::IoUse(used) => size_of_val(used.words.as_slice()),
        Fact::Resources(used) => size_of_val(used.as_ref()) + size_of_val(used.most.as_slice()),
        Fact::WatchedThread(thread) => size_of_val(thread.as_ref()) + thread.name.len(),
        Fact::Crash(crash) => {
            size_of_val(crash.as_ref())
                + crash.thread.len()
                + size_of_val(crash.frames.as_slice())
                + size_of_val(crash.records.as_slice())
        }
        _ => 0,
    }
}

fn pva_bytes(value: &PvaValue) -> usize {
    value.bytes.len() + size_of_val(value.types.as_slice())
}

fn ends(fact: &Fact) -> Option<Name> {
    match fact {
        Fact::IocEnd(end) => Some(Name::Ioc(end.ioc)),
        Fact::CircuitEnd(circuit) | Fact::CircuitForgotten(circuit) => Some(Name::Circuit(*circuit)),
        Fact::ChannelEnd(channel) | Fact::ChannelForgotten(channel) => Some(Name::Channel(*channel)),
        _ => None,
    }
}

fn defines(fact: &Fact) -> Option<Name> {
    match fact {
        Fact::Ioc(ioc) => Some(Name::Ioc(ioc.id)),
        Fact::Circuit(circuit) => Some(Name::Circuit(circuit.id)),
        Fact::Channel(channel) => Some(Name::Channel(channel.id)),
        _ => None,
    }
}
