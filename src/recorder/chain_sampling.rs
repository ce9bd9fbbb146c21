//! Chain sampling: the number of chains kept, set by the user (`--thin`) or by the disk space (`--retain`).
//!
//! `--retain` compares the rate at which the log grows with the rate that would just fill the disk's share in the time
//! asked for. While it is higher, the pause between the chains kept of each record grows; while it is lower, the pause
//! shrinks. So the sampler leaves out as little as possible, and keeps space for puts and definitions, which are never
//! left out.

use std::time::Duration;

use crate::bpf::maps::ChainSampling;

/// Nanoseconds over which the rate is measured: several times as long as a block waits to be written.
const PERIOD: u64 = 5_000_000_000;
/// Shortest pause, nanoseconds: half the period of EPICS's fastest scan, .1 second. Anything shorter counts as none.
const SHORTEST: u64 = 50_000_000;
/// Longest pause: each record that processes is seen every ten minutes.
const LONGEST: u64 = 600_000_000_000;
/// Part of the disk's share that is always in use: the oldest segment is deleted whole, a tenth of the share at most.
const SHARE: f64 = 0.9;
/// Target rate, as a part of the allowed rate.
const AIM: f64 = 0.9;
/// Lowest part of the allowed rate that needs no change.
const LOW: f64 = 0.8;
/// Largest factor by which one step changes the pause, since one period may differ from the next.
const STEP: f64 = 3.0;
/// Least time between two messages for people, nanoseconds.
const MESSAGE_PERIOD: u64 = 60_000_000_000;

/// The time that a log must cover, and the disk space for it.
#[derive(Clone, Copy, Debug)]
pub struct Retain {
    /// `--max-disk`.
    pub max_disk: u64,
    /// `--retain`.
    pub time: Duration,
}

/// A change of the number of chains to keep.
#[derive(Debug, PartialEq)]
pub struct Change {
    /// `None`: all.
    pub sampling: Option<ChainSampling>,
    /// Reason for the change.
    pub cause: String,
    /// Whether people should read it, too.
    pub aloud: bool,
}

/// Decides how many chains to keep.
pub struct Sampler {
    /// The user's limit.
    limit: Option<ChainSampling>,
    retain: Option<Retain>,
    /// Nanoseconds between two chains that are kept; 0: only `limit` applies.
    pause: u64,
    /// Time of the last look at the rate, and the bytes written by then. The first look only sets the start.
    looked: Option<(u64, u64)>,
    last_message: u64,
    begun: bool,
}

impl Sampler {
    /// Keeps at most `thin` chains a second, fewer where `retain` needs it.
    pub fn new(thin: Option<u32>, retain: Option<Retain>) -> Sampler {
        let limit = thin.map(|chains| ChainSampling { chains, window: 1_000_000_000 });
        Sampler { limit, retain, pause: 0, looked: None, last_message: 0, begun: false }
    }

    /// Whether chains may be left out at all.
    pub fn leaves_out(&self) -> bool {
        self.limit.is_some() || self.retain.is_some()
    }

    /// Call this about once a second with the monotonic time and the bytes written so far.
    pub fn step(&mut self, now: u64, written: Option<u64>) -> Option<Change> {
        if !std::mem::replace(&mut self.begun, true) {
            let limit = self.limit?;
            let cause = format!("--thin {}", limit.chains);
            return Some(Change { sampling: self.limit, cause, aloud: false });
        }
        let (retain, written) = (self.retain?, written?);
        let Some((looked, before)) = self.looked else {
            self.looked = Some((now, written));
            return None;
        };
        let passed = now.saturating_sub(looked);
        if passed < PERIOD {
            return None;
        }
        self.looked = Some((now, written));
        let rate = written.saturating_sub(before) as f64 / passed as f64 * 1e9;
        let allowed = retain.max_disk as f64 * SHARE / retain.time.as_secs_f64();
        let pause = self.next_pause(rate / allowed);
        if pause == self.pause {
            return None;
        }
        self.pause = pause;
        let cause = format!(
            "--retain {}s within --max-disk {} allows {allowed:.0} bytes/s, {rate:.0} were written",
            retain.time.as_secs(),
            retain.max_disk
        );
        let aloud = self.last_message == 0 || now >= self.last_message.saturating_add(MESSAGE_PERIOD);
        if aloud {
            self.last_message = now;
        }
        Some(Change { sampling: self.in_force(), cause, aloud })
    }

    /// The pause that fits a rate, given as a part of the allowed one.
    fn next_pause(&self, of_allowed: f64) -> u64 {
        let pause = match (self.pause, of_allowed) {
            (0, ..=1.0) => return 0,
            (0, _) => return SHORTEST,
            (pause, LOW..=1.0) => return pause,
            (pause, _) => pause as f64 * (of_allowed / AIM).clamp(1.0 / STEP, STEP),
        };
        if pause < SHORTEST as f64 {
            0
        } else {
            (pause as u64).min(LONGEST)
        }
    }

    fn in_force(&self) -> Option<ChainSampling> {
        let paused = (self.pause > 0).then_some(ChainSampling { chains: 1, window: self.pause });
        match (self.limit, paused) {
            (Some(limit), Some(paused)) if limit.window / u64::from(limit.chains.max(1)) >= paused.window => {
                Some(limit)
            }
            (limit, None) => limit,
            (_, paused) => paused,
        }
    }
}

/// The number of chains kept, for people.
pub fn in_words(sampling: Option<ChainSampling>) -> String {
    match sampling {
        None => "all chains are kept".into(),
        Some(ChainSampling { chains, window }) => {
            let seconds = window as f64 / 1e9;
            format!("of the chains that a record begins {chains} in {seconds:.3} s are kept")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Simulates an IOC whose records begin chains at these rates a second, 100 bytes each, beside `other` bytes/s that
    /// are never left out. Returns the bytes/s written after some minutes, and the pause.
    fn settles(sampler: &mut Sampler, rates: &[f64], other: f64) -> (f64, u64) {
        let (mut written, mut rate) = (0.0, 0.0);
        for second in 1..=600u64 {
            let kept = |&chains: &f64| match sampler.in_force() {
                None => chains,
                Some(ChainSampling { chains: limit, window }) => {
                    chains.min(f64::from(limit) * SECOND as f64 / window as f64)
                }
            };
            rate = other + rates.iter().map(kept).sum::<f64>() * 100.0;
            written += rate;
            sampler.step(second * SECOND, Some(written as u64));
        }
        (rate, sampler.pause)
    }

    fn retain(allowed: f64) -> Sampler {
        let retain = Retain { max_disk: (allowed / SHARE * 1000.0) as u64, time: Duration::from_secs(1000) };
        Sampler::new(None, Some(retain))
    }

    #[test]
    fn leaves_out_as_much_as_needed_and_no_more() {
        for allowed in [600.0, 3_000.0, 20_000.0, 90_000.0] {
            let (rate, pause) = settles(&mut retain(allowed), &[10.0; 100], 500.0);
            assert!((LOW..=1.0).contains(&(rate / allowed)), "{rate} of {allowed}, pause {pause}");
            assert!(pause > 0);
        }
        let (rate, pause) = settles(&mut retain(200_000.0), &[10.0; 100], 500.0);
        assert_eq!((rate as u64, pause), (100_500, 0), "there is room for all");
    }

    #[test]
    fn what_is_never_left_out_takes_the_longest_pause_at_most() {
        let (rate, pause) = settles(&mut retain(100.0), &[10.0], 500.0);
        assert!(pause == LONGEST && rate < 501.0, "{rate} {pause}");
    }

    #[test]
    fn comes_back_when_there_is_room_again() {
        let mut sampler = retain(5_000.0);
        let (_, pause) = settles(&mut sampler, &[10.0; 100], 0.0);
        assert!(pause > SHORTEST);
        sampler.looked = None;
        let (rate, pause) = settles(&mut sampler, &[1.0; 10], 0.0);
        assert_eq!((rate as u64, pause), (1000, 0));
    }

    #[test]
    fn the_user_s_number_holds_where_it_is_lower() {
        let mut sampler = Sampler::new(Some(2), None);
        let first = sampler.step(SECOND, None).unwrap();
        assert_eq!(first.sampling, Some(ChainSampling { chains: 2, window: SECOND }));
        assert_eq!(sampler.step(2 * SECOND, Some(0)), None);
        let mut both = Sampler { limit: first.sampling, ..retain(1e9) };
        assert_eq!(both.in_force(), first.sampling);
        both.pause = SECOND / 10;
        assert_eq!(both.in_force(), first.sampling, "ten a second are more than two");
        both.pause = SECOND;
        assert_eq!(both.in_force(), Some(ChainSampling { chains: 1, window: SECOND }));
    }
}
