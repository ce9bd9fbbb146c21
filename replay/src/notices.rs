//! Notices: reports beside the answer about logs that can't be read, damage, gaps, and limits reached.
//!
//! A [`Notice`] holds the facts; its `Display` is the sentence. [`Notices`] passes each to the handler of whoever
//! opened the logs, and remembers whether anything could not be read.

use crate::clocks::{wording, HostClock};
use crate::reading::namesakes::{Namesakes, Twice};
use crate::reading::scan::Scan;
use crate::time::duration;
use crate::words::{are, counted};
use iocrec_log::reader::{Cause, Damage, ReadError, SegmentFile};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};

/// Damage reports per file; a hostile or badly damaged file could fill the screen.
const MAX_REPORTS: usize = 5;
/// Sentences that are remembered, so that none is said twice; likewise.
const MAX_SAID: usize = 1000;
/// IOCs of one name that a line lists.
const MAX_SHOWN: usize = 5;

/// Something that the reader of a log needs to know.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice {
    /// A log or segment can't be read at all.
    Unreadable(ReadError),
    /// A segment that was found is not there any more.
    Gone(PathBuf),
    /// A part of a segment can't be read.
    Damaged {
        /// The segment.
        segment: PathBuf,
        /// The place and the cause.
        damage: Damage,
    },
    /// More parts of a segment can't be read, and are not reported individually.
    MoreDamage {
        /// The segment.
        segment: PathBuf,
    },
    /// Segments of a run are missing.
    MissingSegments {
        /// Number of segments.
        count: u32,
        /// The segment that follows them.
        before: PathBuf,
    },
    /// The end of a segment is missing.
    Truncated {
        /// The segment that follows it.
        before: PathBuf,
    },
    /// Definitions were left out: they would exceed the memory allowed for logs of this size.
    DefinitionsLeftOut {
        /// Number of definitions.
        count: u64,
    },
    /// More runs overlap than are read at once.
    RunsOverlap {
        /// Number of runs read at once.
        limit: usize,
    },
    /// A machine's clock was set back while it was recorded.
    ClockSetBack {
        /// The host; empty if unknown.
        host: String,
        /// By how much, nanoseconds.
        by: u64,
    },
    /// The same, where the answer is in the order of the clock.
    MixedByClock {
        /// The host; empty if unknown.
        host: String,
        /// By how much, nanoseconds.
        by: u64,
    },
    /// An IOC was recorded without the processing of its records, as the operator wished.
    NoProcessing {
        /// The IOC.
        ioc: String,
    },
    /// Clocks of hosts that are read together differ notably: those.
    ClocksDiffer(Vec<HostClock>),
    /// It is not known how the clocks of some of these hosts differ, which are read together.
    ClocksUnknown(Vec<HostClock>),
    /// Several IOCs are selected by the one name that they share.
    Namesakes(Namesakes),
    /// These IOCs were recorded by several recorders at the same time.
    RecordedTwice(Vec<Twice>),
    /// Chains were given out before their time, since there were too many.
    ChainsGivenOutEarly {
        /// Number of chains.
        count: u64,
    },
    /// Alarms changed too fast to wait for losses that were noted after them.
    AlarmsHurried {
        /// Number of changes.
        count: u64,
    },
    /// Chains came after others that began later.
    ChainsOutOfOrder {
        /// Number of chains.
        count: u64,
    },
}

impl Notice {
    /// Of a segment that was found, and can't be read.
    pub fn of_segment(error: ReadError) -> Notice {
        match error {
            ReadError::NotFound(path) => Notice::Gone(path),
            error => Notice::Unreadable(error),
        }
    }

    /// Whether it means that something could not be read.
    pub fn is_failure(&self) -> bool {
        match self {
            // A damaged copy of the header, or a repeated block, costs nothing.
            Notice::Damaged { damage, .. } => !matches!(damage.cause, Cause::Header | Cause::Repeated),
            Notice::Unreadable(_)
            | Notice::Gone(_)
            | Notice::MoreDamage { .. }
            | Notice::Truncated { .. }
            | Notice::DefinitionsLeftOut { .. } => true,
            Notice::MissingSegments { .. }
            | Notice::RunsOverlap { .. }
            | Notice::ClockSetBack { .. }
            | Notice::MixedByClock { .. }
            | Notice::NoProcessing { .. }
            | Notice::ClocksDiffer(_)
            | Notice::ClocksUnknown(_)
            | Notice::Namesakes(_)
            | Notice::RecordedTwice(_)
            | Notice::ChainsGivenOutEarly { .. }
            | Notice::AlarmsHurried { .. }
            | Notice::ChainsOutOfOrder { .. } => false,
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Gone(path) => write!(
                f,
                "{} is gone: a recorder deletes its oldest segments to make room, also while they are read; \
                 what was in it is missing",
                path.display()
            ),
            Notice::Unreadable(error) => error.fmt(f),
            Notice::Damaged { segment, damage } => {
                let segment = segment.display();
                match damage.cause {
                    Cause::Cut => write!(
                        f,
                        "{segment} is cut: {damage}; all before is read (copy it again if the original is longer)"
                    ),
                    // The cause states what is not read.
                    Cause::Inflated { .. } => write!(f, "{segment}: {}", damage.cause),
                    _ => write!(f, "{segment} is damaged {damage}; the rest is read"),
                }
            }
            Notice::MoreDamage { segment } => write!(f, "{}: more damage follows", segment.display()),
            Notice::MissingSegments { count, before } => write!(
                f,
                "{} of its run {} missing before {}: deleted by the recorder to stay under its cap, or not copied; the \
                 events in there are not shown",
                counted(u64::from(*count), "segment"),
                if *count == 1 { "is" } else { "are" },
                before.display()
            ),
            Notice::Truncated { before } => write!(
                f,
                "blocks are missing at the end of the segment before {}; the rest is read (copy it again if the \
                 original is longer)",
                before.display()
            ),
            Notice::DefinitionsLeftOut { count } => write!(
                f,
                "{} {} left out, to take no more memory than logs of this size may: some records and PVs have no names, \
                 or are not shown; name fewer segments",
                counted(*count, "definition"),
                are(*count)
            ),
            Notice::RunsOverlap { limit } => write!(
                f,
                "more than {limit} recorders' runs overlap, which is more than is read at once: chains of different \
                 runs may be out of order, and not joined; name fewer logs"
            ),
            Notice::ClockSetBack { host, by } => write!(
                f,
                "the clock of {} was set back by {}: some times come twice. Chains, puts, values and alarms are in the \
                 order in which they happened, with the times that the machine showed; a range of times takes both; \
                 iocreplay info says when",
                if host.is_empty() { "a host" } else { host },
                duration(*by)
            ),
            Notice::MixedByClock { host, by } => write!(
                f,
                "the clock of {} was set back by {}: what happened before and after that is mixed here, so what seems \
                 earlier, later or last may not be; iocreplay info says when",
                if host.is_empty() { "a host" } else { host },
                duration(*by)
            ),
            Notice::NoProcessing { ioc } => write!(
                f,
                "{} was recorded with --no-process: there are no chains, causes and alarms of it, and of values only \
                 those of puts and snapshots",
                if ioc.is_empty() { "an IOC" } else { ioc }
            ),
            Notice::ClocksDiffer(clocks) => wording::differ(clocks, f),
            Notice::ClocksUnknown(clocks) => wording::unknown(clocks, f),
            Notice::Namesakes(Namesakes { host, name, shown }) => write!(
                f,
                "{} IOCs{} are called {name}, and all are shown; to choose one: --ioc '{}'",
                shown.len(),
                if host.is_empty() { String::new() } else { format!(" of {host}") },
                shown.iter().take(MAX_SHOWN).map(String::as_str).collect::<Vec<_>>().join("' or '")
            ),
            Notice::RecordedTwice(iocs) => {
                let name = |of: &Twice| match of.host.as_str() {
                    "" => of.ioc.clone(),
                    host => format!("{} of {host}", of.ioc),
                };
                let mut names: Vec<String> = iocs.iter().take(MAX_SHOWN).map(name).collect();
                if iocs.len() > MAX_SHOWN {
                    names.push(format!("{} others", iocs.len() - MAX_SHOWN));
                }
                write!(
                    f,
                    "recorded by several recorders at the same time: {}. What more than one of them saw may be told and \
                     counted as often; to have it once, name the log of one",
                    names.join(", ")
                )
            }
            Notice::ChainsGivenOutEarly { count } => write!(
                f,
                "so much happened at a time that {} {} shown as they were less than a second after they began: what came \
                 later, such as a refusal or a value read back, may be missing from them",
                counted(*count, "chain"),
                are(*count)
            ),
            Notice::AlarmsHurried { count } => write!(
                f,
                "so many alarms changed at a time that {} {} shown without waiting for losses that were noted later: what \
                 may have been missed just before is not said",
                counted(*count, "change"),
                are(*count)
            ),
            Notice::ChainsOutOfOrder { count } => write!(
                f,
                "{} came after others that began later: more happened meanwhile than is kept in memory; read less at a time \
                 with --since and --until to have all in order",
                counted(*count, "chain")
            ),
        }
    }
}

/// A receiver of notices.
type Handler = Box<dyn Fn(&Notice)>;

/// Passes notices on and remembers whether anything could not be read.
#[derive(Default)]
pub struct Notices {
    handler: Option<Handler>,
    failed: Cell<bool>,
    /// Whether segments are missing.
    missing: Cell<bool>,
    /// By segment, the damage that was reported.
    reports: RefCell<HashMap<PathBuf, Vec<Damage>>>,
    said: RefCell<HashSet<String>>,
}

impl Notices {
    /// Passes each notice to `handler`.
    pub fn to(handler: impl Fn(&Notice) + 'static) -> Self {
        Notices { handler: Some(Box::new(handler)), ..Notices::default() }
    }

    /// Whether anybody hears of them.
    pub fn are_heard(&self) -> bool {
        self.handler.is_some()
    }

    /// Whether anything could not be read.
    pub fn failed(&self) -> bool {
        self.failed.get()
    }

    /// Whether anything of the logs is missing, be it that it could not be read or that it is not there.
    pub fn lacks(&self) -> bool {
        self.failed.get() || self.missing.get()
    }

    /// Reports a notice, once: an answer may read its logs several times.
    pub fn report(&self, notice: &Notice) {
        if notice.is_failure() {
            self.failed.set(true);
        }
        if matches!(notice, Notice::MissingSegments { .. }) {
            self.missing.set(true);
        }
        let Some(handler) = &self.handler else { return };
        let mut said = self.said.borrow_mut();
        if said.len() >= MAX_SAID || said.insert(notice.to_string()) {
            drop(said);
            handler(notice);
        }
    }

    /// Reports the segments that are missing before this one. `expected`: the number that it should have; then that of the
    /// next one.
    pub fn segment(&self, expected: &mut Option<u32>, number: u32, file: Option<&SegmentFile>) {
        let count = number.saturating_sub(expected.unwrap_or(number));
        if let Some(file) = file.filter(|_| count > 0) {
            self.report(&Notice::MissingSegments { count, before: file.path.clone() });
        }
        *expected = Some(number.saturating_add(1));
    }

    /// Reports that blocks are missing at the end of the segment before the one that is read, where they are.
    pub fn cut_before(&self, scan: &Scan) {
        if let Some(file) = scan.file().filter(|_| scan.is_cut_before()) {
            self.report(&Notice::Truncated { before: file.path.clone() });
        }
    }

    /// Reports a part of a segment that can't be read; only the first few parts of each segment.
    pub fn damage(&self, segment: &Path, damage: Damage) {
        let mut reports = self.reports.borrow_mut();
        let reported = reports.entry(segment.to_owned()).or_default();
        if reported.len() >= MAX_REPORTS || reported.contains(&damage) {
            return;
        }
        reported.push(damage.clone());
        let segment = segment.to_owned();
        let notice = match reported.len() {
            MAX_REPORTS => Notice::MoreDamage { segment },
            _ => Notice::Damaged { segment, damage },
        };
        drop(reports);
        self.report(&notice);
    }

    /// Reports the number of definitions left out, if any.
    pub fn definitions_left_out(&self, count: u64) {
        if count > 0 {
            self.report(&Notice::DefinitionsLeftOut { count });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_that_was_deleted_while_it_was_read() {
        let notice = Notice::of_segment(ReadError::NotFound("log/1.iocrec".into()));
        let line = notice.to_string();
        assert!(line.starts_with("log/1.iocrec is gone: ") && line.ends_with(" is missing"), "{line}");
        assert!(!line.contains("name a segment") && notice.is_failure());
    }
}
