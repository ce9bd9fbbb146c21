//! Times about which a log says nothing of an IOC, or not all.
//!
//! | kind | since | until | values known before |
//! |---|---|---|---|
//! | `lost` | nothing was lost before | the loss was noted | may have changed since |
//! | `missing` | the last event before missing or damaged segments | the first event after | may have changed since |
//! | `unrecorded` | the last time at which the IOC was recorded | it is recorded again, or open | may have changed since |
//! | `left out` | the first chain that chain sampling left out | that was noted | those of such chains may have changed since |
//! | `unfinished` | a record began to process and was not seen to complete | open | its value may have changed since |
//! | `ended` | the IOC has ended | open | are gone with it |
//!
//! A recorder that ends leaves its IOCs unrecorded until another one records them.

use super::names::IocProcess;
use crate::names::number_of;
use crate::reading::ended_unseen::UNSEEN;
use crate::words::counted;
use std::rc::Rc;

/// Something that went unseen. Times are nanoseconds since 1970 UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unseen {
    /// When it was over or, if it lasts on, when it was noted.
    pub time: i64,
    /// Nothing went unseen before this time.
    pub since: i64,
    /// The places of `since` and `time` in the order of time.
    pub even: (i64, i64),
    /// Whether it lasts on.
    pub open: bool,
    /// The process that it concerns; `None` for all that the run records.
    pub process: Option<Rc<IocProcess>>,
    /// The run that noted it: a number for comparison.
    pub run: usize,
    /// The record with which the chains left out began.
    pub record: Option<Rc<str>>,
    /// Its kind.
    pub kind: Kind,
    /// Number of events lost or of chains left out; 0 if unknown.
    pub count: u64,
    /// Why, or how it ended; empty where not known.
    pub cause: String,
    /// Whether others that were attached all the time record whatever of it was asked for.
    pub is_seen_beside: bool,
}

/// Kinds of what went unseen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Hits were lost.
    Lost,
    /// Segments are missing or damaged.
    Missing,
    /// The IOC was not recorded.
    Unrecorded,
    /// The recorder's run has ended.
    RunEnd,
    /// Chain sampling left out chains.
    LeftOut,
    /// The IOC has ended.
    Ended,
    /// A record began to process and was not seen to complete.
    Unfinished,
}

impl Kind {
    /// Its name; part of the output formats.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Lost => "lost",
            Kind::Missing => "missing",
            Kind::Unrecorded | Kind::RunEnd => "unrecorded",
            Kind::LeftOut => "left out",
            Kind::Ended => "ended",
            Kind::Unfinished => "unfinished",
        }
    }
}

impl Unseen {
    /// What went unseen, in words, without times.
    pub fn words(&self) -> String {
        let why = match self.cause.as_str() {
            "" => String::new(),
            cause => format!(": {cause}"),
        };
        match self.kind {
            Kind::Lost => format!("{} lost{why}", number_of(self.count, "events")),
            Kind::Missing => "a part of the log is missing or damaged".to_owned(),
            Kind::Unrecorded => format!("not recorded{why}"),
            Kind::RunEnd => "the recorder's run ended, or the log of it".to_owned(),
            Kind::LeftOut => {
                let of = self.record.as_deref().map_or(String::new(), |record| format!(" of {record}"));
                format!("{}{of} left out by chain sampling", counted(self.count, "chain"))
            }
            Kind::Ended if self.cause == UNSEEN => format!("the IOC has ended by then, {UNSEEN}"),
            Kind::Ended => format!("the IOC has ended{why}"),
            Kind::Unfinished => {
                let record = self.record.as_deref().unwrap_or("a record");
                format!("{record} has processed, and was not seen to complete")
            }
        }
    }
}
