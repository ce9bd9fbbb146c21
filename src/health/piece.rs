//! What is worth a fact: a while over which the use was much the same becomes one *piece*.
//!
//! An idle IOC needs a fact a minute so, and a burst of a second shows as that second. A beat that is like the last
//! recorded piece is held back and joined to those after it; one that is not is recorded at once, after what was held
//! back. Nothing is left out: the CPU time of all pieces is what was used.

use std::collections::BTreeMap;

/// Longest piece, nanoseconds: what a recorder that is killed may lose of an IOC whose use does not change.
const LONGEST: u64 = 60_000_000_000;
/// Differences that are not worth a fact: a hundredth of a CPU, or a quarter of what there was.
const CPU_SHARE: u64 = 100;
const CPU_PART: u64 = 4;
/// Page faults a second: a megabyte that is mapped anew. Those that need the disk are slow.
const MINOR_FAULTS: u64 = 256;
const MAJOR_FAULTS: u64 = 8;
/// KiB of memory: a leak of 100 bytes a second is a fact every 45 minutes. And the part of the whole.
const RESIDENT: u64 = 256;
const RESIDENT_PART: u64 = 64;
/// Threads in a fact: for a beat of a second, and one more for each 5 seconds that it covers.
const MOST: usize = 4;
const MOST_LONG: usize = 16;
const ONE_MORE: u64 = 5_000_000_000;
/// A thread that used less than this part of a CPU is in no fact; of a long piece a tenth of it.
const LEAST_SHARE: u64 = 1000;
const LEAST_SHARE_LONG: u64 = 10_000;
/// Pieces from this length on are long, nanoseconds.
const LONG: u64 = 30_000_000_000;

/// What threads of one name used over a piece: nanoseconds, and how often it got a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// CPU time.
    pub run: u64,
    /// Time that it waited for a CPU.
    pub waiting: u64,
    /// How often it got one.
    pub times: u64,
}

impl Share {
    /// Adds another.
    pub fn add(&mut self, other: Share) {
        self.run = self.run.saturating_add(other.run);
        self.waiting = self.waiting.saturating_add(other.waiting);
        self.times = self.times.saturating_add(other.times);
    }
}

/// What a process used from one time to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Its end, monotonic.
    pub end: u64,
    /// Its length, nanoseconds.
    pub period: u64,
    /// CPU time, nanoseconds.
    pub cpu: Option<u64>,
    /// Time that its threads waited for a CPU, nanoseconds.
    pub waiting: Option<u64>,
    /// Page faults without and with the disk.
    pub minor_faults: u64,
    /// See there.
    pub major_faults: u64,
    /// Resident memory at the end, KiB.
    pub resident: Option<u64>,
    /// Threads at the end.
    pub threads: u64,
    /// Descriptors as last counted.
    pub descriptors: Option<u32>,
    /// Dropped datagrams.
    pub drops: Option<u64>,
    /// Shares of the threads of each name ([`super::known`]).
    pub shares: BTreeMap<u32, Share>,
}

impl Piece {
    /// `amount` a second, if it is that of the whole piece.
    fn rate(&self, amount: u64) -> u64 {
        /// So that no product overflows: microseconds.
        const MICRO: u64 = 1000;
        const SECOND: u64 = 1_000_000_000;
        (amount / MICRO).saturating_mul(SECOND / MICRO).saturating_mul(MICRO) / (self.period / MICRO).max(1)
    }

    fn share(&self, name: u32) -> Share {
        self.shares.get(&name).copied().unwrap_or_default()
    }

    /// Whether this piece is so much like a recorded one that it can wait.
    fn is_like(&self, recorded: &Piece) -> bool {
        let near =
            |now: u64, before: u64, least: u64, part: u64| now.abs_diff(before) <= least.max(before / part);
        // nanoseconds a second
        let cpu = |now: u64, before: u64| {
            near(self.rate(now), recorded.rate(before), 1_000_000_000 / CPU_SHARE, CPU_PART)
        };
        let known = |now: Option<u64>, before: Option<u64>| match (now, before) {
            (Some(now), Some(before)) => cpu(now, before),
            (now, before) => now == before,
        };
        let faults = |now: u64, before: u64, least: u64| {
            let a_second =
                |piece: &Piece, count: u64| count.saturating_mul(1000) / (piece.period / 1_000_000).max(1);
            near(a_second(self, now), a_second(recorded, before), least, CPU_PART)
        };
        let names = self.shares.keys().chain(recorded.shares.keys());
        let same = |name: &u32| {
            let (now, before) = (self.share(*name), recorded.share(*name));
            cpu(now.run, before.run) && cpu(now.waiting, before.waiting)
        };
        let resident = match (self.resident, recorded.resident) {
            (Some(now), Some(before)) => near(now, before, RESIDENT, RESIDENT_PART),
            (now, before) => now == before,
        };
        known(self.cpu, recorded.cpu)
            && known(self.waiting, recorded.waiting)
            && faults(self.minor_faults, recorded.minor_faults, MINOR_FAULTS)
            && faults(self.major_faults, recorded.major_faults, MAJOR_FAULTS)
            && resident
            && self.threads == recorded.threads
            && self.descriptors == recorded.descriptors
            && self.drops.unwrap_or_default() == 0
            && { names }.all(same)
    }

    /// Adds the piece that follows.
    fn add(&mut self, next: Piece) {
        let sum = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
        self.cpu = sum(self.cpu, next.cpu);
        self.waiting = sum(self.waiting, next.waiting);
        self.period = self.period.saturating_add(next.period);
        self.minor_faults = self.minor_faults.saturating_add(next.minor_faults);
        self.major_faults = self.major_faults.saturating_add(next.major_faults);
        self.drops = sum(self.drops, next.drops).or(self.drops).or(next.drops);
        for (name, share) in next.shares {
            self.shares.entry(name).or_default().add(share);
        }
        (self.end, self.resident, self.threads, self.descriptors) =
            (next.end, next.resident, next.threads, next.descriptors);
    }

    /// The names of threads that are worth being told, the most first.
    pub fn most(&self) -> Vec<(u32, Share)> {
        let weight = |share: &Share| share.run.saturating_add(share.waiting);
        let share = if self.period < LONG { LEAST_SHARE } else { LEAST_SHARE_LONG };
        let least = (self.period / share).max(1);
        let all = self.shares.iter().map(|(name, share)| (*name, *share));
        let mut most: Vec<_> = all.filter(|(_, share)| weight(share) >= least).collect();
        most.sort_by_key(|(name, share)| (std::cmp::Reverse(weight(share)), *name));
        most.truncate((MOST + (self.period / ONE_MORE) as usize).min(MOST_LONG));
        most
    }
}

/// The pieces of a process.
#[derive(Debug, Default)]
pub struct Pieces {
    recorded: Option<Piece>,
    held: Option<Piece>,
}

impl Pieces {
    /// Adds a beat. `apart`: it must not be joined to the one before it. Returns the pieces to record now.
    pub fn add(&mut self, beat: Piece, apart: bool) -> impl Iterator<Item = Piece> {
        let is_like = !apart && self.recorded.as_ref().is_some_and(|recorded| beat.is_like(recorded));
        let mut due = [None, None];
        if is_like {
            match &mut self.held {
                Some(held) => held.add(beat),
                None => self.held = Some(beat),
            }
            due[0] = self.held.take_if(|held| held.period >= LONGEST);
        } else {
            due = [self.held.take(), Some(beat)];
        }
        let due = due.into_iter().flatten();
        due.clone().for_each(|piece| self.recorded = Some(piece));
        due
    }

    /// Gives out what is held back: nothing may follow it without a gap.
    pub fn end(&mut self) -> Option<Piece> {
        self.recorded = None;
        self.held.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A beat of a second that used so many milliseconds.
    fn beat(at: u64, ms: u64) -> Piece {
        let run = ms * 1_000_000;
        Piece {
            end: at * SECOND,
            period: SECOND,
            cpu: Some(run),
            waiting: Some(0),
            resident: Some(20_000),
            threads: 2,
            shares: [(7, Share { run, waiting: 0, times: 3 })].into(),
            ..Piece::default()
        }
    }

    #[test]
    fn idle_is_one_fact_a_minute_and_a_burst_is_its_second() {
        let mut pieces = Pieces::default();
        let mut all = Vec::new();
        for at in 1..=200 {
            let ms = if at == 100 { 900 } else { 3 + at % 5 };
            all.extend(pieces.add(beat(at, ms), false));
        }
        let ends: Vec<u64> = all.iter().map(|piece| piece.end / SECOND).collect();
        assert_eq!(ends, [1, 61, 99, 100, 101, 161]);
        assert_eq!((all[3].cpu, all[3].period), (Some(900_000_000), SECOND), "the burst alone");
        all.extend(pieces.end());
        assert!(all.windows(2).all(|pair| pair[0].end + pair[1].period == pair[1].end), "without a gap");
        let sum: u64 = all.iter().filter_map(|piece| piece.cpu).sum();
        let used: u64 = (1..=200).map(|at| if at == 100 { 900 } else { 3 + at % 5 }).sum();
        assert_eq!(sum, used * 1_000_000, "nothing is left out");
        let of_thread: u64 = all.iter().map(|piece| piece.shares[&7].run).sum();
        assert_eq!(of_thread, sum);
    }

    #[test]
    fn whatever_changes_is_told_at_once() {
        let base = || beat(2, 100);
        let changes: [fn(&mut Piece); 10] = [
            |piece| piece.cpu = Some(130_000_000),
            |piece| piece.cpu = None,
            |piece| piece.waiting = Some(20_000_000),
            |piece| piece.resident = Some(20_400),
            |piece| piece.threads = 3,
            |piece| piece.descriptors = Some(5),
            |piece| piece.drops = Some(1),
            |piece| piece.minor_faults = 300,
            |piece| piece.major_faults = 9,
            |piece| piece.shares = [(8, Share { run: 100_000_000, waiting: 0, times: 3 })].into(),
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let mut pieces = Pieces::default();
            assert_eq!(pieces.add(beat(1, 100), false).count(), 1, "the first");
            assert_eq!(pieces.add(base(), false).count(), 0, "the same");
            let mut other = beat(3, 100);
            change(&mut other);
            let told: Vec<_> = pieces.add(other.clone(), false).collect();
            assert_eq!(told, [base(), other], "change {at}");
        }
        let mut pieces = Pieces::default();
        assert_eq!(pieces.add(beat(1, 100), false).count(), 1);
        assert_eq!(pieces.add(beat(2, 100), true).count(), 1, "after a pause");
    }

    #[test]
    fn threads_are_told_as_far_as_they_matter() {
        let share = |ms: u64| Share { run: ms * 1_000_000, waiting: 0, times: 1 };
        let mut piece = beat(1, 100);
        piece.shares = (0..20).map(|name| (name, share(u64::from(name)))).collect();
        let names = |piece: &Piece| piece.most().iter().map(|(name, _)| *name).collect::<Vec<_>>();
        assert_eq!(names(&piece), [19, 18, 17, 16]);
        piece.period = 60 * SECOND;
        assert_eq!(names(&piece), (6..20).rev().collect::<Vec<_>>(), "from 6 ms of a minute on");
        piece.shares.insert(3, Share { run: 0, waiting: 90_000_000, times: 1 });
        assert_eq!(names(&piece).first(), Some(&3));
    }

    #[test]
    fn no_number_overflows() {
        let most = Piece {
            end: u64::MAX,
            period: u64::MAX,
            cpu: Some(u64::MAX),
            waiting: Some(u64::MAX),
            minor_faults: u64::MAX,
            major_faults: u64::MAX,
            resident: Some(u64::MAX),
            threads: u64::MAX,
            descriptors: Some(u32::MAX),
            drops: Some(u64::MAX),
            shares: [(1, Share { run: u64::MAX, waiting: u64::MAX, times: u64::MAX })].into(),
        };
        for period in [0, 1, u64::MAX] {
            let mut pieces = Pieces::default();
            let piece = Piece { period, ..most.clone() };
            for _ in 0..3 {
                let told: Vec<_> = pieces.add(piece.clone(), false).collect();
                assert!(told.iter().all(|piece| piece.most().len() < 2));
            }
        }
    }
}
