//! `--clock-offset`: setting clocks right.
//!
//! Every wall-clock time of a run follows from its segments' headers and its readings of the clock. Both are moved where
//! segments are opened and read ([`SegmentFile::ahead`]), so no output can forget them. Times that a record or a client
//! sent itself (a record's time stamp) stay: they need not be of that machine's clock.

use super::compare;
use iocrec_log::reader::SegmentFile;
use std::collections::{BTreeMap, BTreeSet};

/// Largest offset, seconds: a clock that was never set is off by half a century.
const MAX_SECONDS: f64 = 2e9;

/// One `--clock-offset`.
#[derive(Clone, Debug, PartialEq)]
pub enum Offset {
    /// `auto`: clocks that circuits join are moved to one of them.
    Auto,
    /// `HOST=SECONDS`: the host's clock is ahead by so much.
    Host {
        /// The host.
        host: String,
        /// By this, nanoseconds.
        ahead: i64,
    },
}

impl std::str::FromStr for Offset {
    type Err = String;

    fn from_str(text: &str) -> Result<Offset, String> {
        if text == "auto" {
            return Ok(Offset::Auto);
        }
        let wrong = || format!("'{text}' is no clock offset; write HOST=SECONDS, as box2=+1.250, or auto");
        let (host, seconds) = text.rsplit_once('=').filter(|(host, _)| !host.is_empty()).ok_or_else(wrong)?;
        let seconds: f64 = seconds.trim().trim_end_matches('s').parse().map_err(|_| wrong())?;
        if !seconds.is_finite() || seconds.abs() > MAX_SECONDS {
            return Err(wrong());
        }
        Ok(Offset::Host { host: host.to_owned(), ahead: (seconds * 1e9).round() as i64 })
    }
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct Offsets {
    /// By host, nanoseconds.
    fixed: BTreeMap<String, i64>,
    auto: bool,
    /// A host that has two.
    twice: Option<String>,
}

impl From<&[Offset]> for Offsets {
    fn from(all: &[Offset]) -> Offsets {
        let mut offsets = Offsets::default();
        for offset in all {
            match offset {
                Offset::Auto => offsets.auto = true,
                Offset::Host { host, ahead } => {
                    if offsets.fixed.insert(host.clone(), *ahead).is_some() {
                        offsets.twice = Some(host.clone());
                    }
                }
            }
        }
        offsets
    }
}

/// As on the command line, in the order of hosts.
impl std::fmt::Display for Offsets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let auto = self.auto.then(|| "--clock-offset auto".to_owned());
        let fixed = self
            .fixed
            .iter()
            .map(|(host, ahead)| format!("--clock-offset {host}={:.9}", *ahead as f64 / 1e9));
        f.write_str(&auto.into_iter().chain(fixed).collect::<Vec<_>>().join(" "))
    }
}

impl Offsets {
    /// Whether clocks are moved by what circuits show.
    pub fn is_auto(&self) -> bool {
        self.auto
    }

    /// A host that has two offsets.
    pub fn twice(&self) -> Option<&str> {
        self.twice.as_deref()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        !self.auto && self.fixed.is_empty()
    }

    /// Moves the clocks of these runs, whose hosts have these names. They may have another order then.
    pub fn apply(&self, runs: &mut [Vec<SegmentFile>], names: &[String]) {
        move_by(runs, names, &self.fixed);
        if !self.auto {
            return;
        }
        let right: BTreeSet<String> = self.fixed.keys().cloned().collect();
        let clocks = compare(runs, names, (i64::MIN, i64::MAX), None, &right).into_iter();
        let ahead = clocks.filter_map(|clock| Some((clock.host, clock.relative?.bounds.middle())));
        move_by(runs, names, &ahead.collect());
    }

    /// The first host that none of these logs is of.
    pub fn unknown(&self, names: &[String]) -> Option<&str> {
        self.fixed.keys().find(|host| !names.contains(host)).map(String::as_str)
    }
}

fn move_by(runs: &mut [Vec<SegmentFile>], names: &[String], by_host: &BTreeMap<String, i64>) {
    for (files, name) in runs.iter_mut().zip(names) {
        let Some(ahead) = by_host.get(name) else { continue };
        files.iter_mut().for_each(|file| file.move_clock(*ahead));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_as_seconds_that_a_clock_is_ahead() {
        let parse = |text: &str| text.parse::<Offset>();
        let host = |host: &str, ahead| Ok(Offset::Host { host: host.into(), ahead });
        assert_eq!(parse("box2=+1.250"), host("box2", 1_250_000_000));
        assert_eq!(parse("a=b=-0.000000001"), host("a=b", -1));
        assert_eq!(parse("box2=3s"), host("box2", 3_000_000_000));
        assert_eq!(parse("auto"), Ok(Offset::Auto));
        for wrong in ["", "box2", "box2=", "=1", "box2=nan", "box2=inf", "box2=1e300", "box2=1m"] {
            assert!(parse(wrong).is_err_and(|error| error.contains("HOST=SECONDS")), "{wrong}");
        }
    }
}
