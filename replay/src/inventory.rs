//! What there was: the IOCs of a run and their records.
//!
//! An IOC that has ended, and its records, are still there: what a run defined is kept here beyond its end, within the
//! bound that definitions have everywhere ([`Budget`](iocrec_log::context::Budget)), since the ends themselves are not
//! applied.

use crate::attached::Spans;
use crate::filter::{Filter, Pattern};
use crate::logs;
use crate::model::clock::SetLater;
use crate::notices::{Notice, Notices};
use crate::scan::{Blocks, Part, Scan};
use iocrec_log::context::{Context, RecordRef};
use iocrec_log::event::{Fact, Ioc, IocId};
use iocrec_log::reader::SegmentFile;
use std::collections::BTreeMap;

/// How an IOC ended.
#[derive(Clone, Debug, Default)]
pub struct End {
    /// When, by the wall clock, nanoseconds since 1970 UTC; where known.
    pub wall: Option<i64>,
    /// How: its exit status, or the signal that killed it. Empty where not known.
    pub how: String,
}

/// The definitions of a run, and when its IOCs ended.
///
/// ```
/// # let log = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/travelled/x86_64-6.1/log");
/// use iocreplay::{inventory::Inventory, Filter, Logs};
///
/// let logs = Logs::open([log])?;
/// let everything = Filter::default();
/// for run in logs.runs() {
///     let inventory = Inventory::read(run, logs.notices());
///     assert!(inventory.iocs(&everything).any(|ioc| ioc.name == "guest"));
///     assert_eq!(inventory.records(&everything).count(), 10);
/// }
/// # Ok::<(), iocreplay::OpenError>(())
/// ```
#[derive(Default)]
pub struct Inventory {
    context: Context,
    ended: BTreeMap<IocId, End>,
    /// From when to when they were recorded.
    spans: Spans,
}

impl Inventory {
    /// Reads a run's definitions. What can't be read is reported; what can is there.
    pub fn read(files: &[SegmentFile], notices: &Notices) -> Inventory {
        let context = Context::sharing(&logs::budget(files));
        let mut found = Inventory { context, ..Inventory::default() };
        SetLater::find(files).inspect(|set| set.apply_to(&mut found.context));
        let mut scan = Scan::new(files, Blocks::Definitions);
        while let Some(part) = scan.next() {
            match part {
                Part::Segment(_) => {}
                Part::Unreadable(error) => notices.report(&Notice::Unreadable(error)),
                Part::Block(block) => {
                    block.events.iter().for_each(|event| found.take(event.time, &event.fact));
                }
                Part::Damage(damage) => {
                    let Some(file) = scan.file() else { continue };
                    notices.damage(&file.path, damage);
                }
            }
        }
        notices.definitions_left_out(found.context.refused());
        found
    }

    /// Takes a fact in.
    pub fn take(&mut self, time: u64, fact: &Fact) {
        self.spans.take(time, fact, &self.context);
        match fact {
            Fact::IocEnd(end) => {
                if self.context.ioc(end.ioc).is_some() {
                    let end_of = End { wall: self.context.wall(time), how: end.how.clone() };
                    self.ended.insert(end.ioc, end_of);
                }
            }
            fact => self.context.apply(time, fact),
        }
    }

    /// The definitions.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Name of the host, where known.
    pub fn host(&self) -> Option<&str> {
        self.context.host().map(|host| host.name.as_str())
    }

    /// How an IOC ended; `None` if it was not seen to end.
    pub fn end(&self, ioc: IocId) -> Option<&End> {
        self.ended.get(&ioc)
    }

    /// From when to when IOCs were recorded.
    pub fn spans(&self) -> &Spans {
        &self.spans
    }

    /// The IOCs that match.
    pub fn iocs<'a>(&'a self, filter: &'a Filter) -> impl Iterator<Item = &'a Ioc> {
        let host = self.is_host_wanted(filter);
        self.context.iocs().filter(move |ioc| host && matches(&filter.ioc, &ioc.name))
    }

    /// The records that match, by name or alias.
    pub fn records<'a>(&'a self, filter: &'a Filter) -> impl Iterator<Item = RecordRef<'a>> {
        let host = self.is_host_wanted(filter);
        self.context.records().filter(move |record| {
            let ioc = self.context.ioc(record.ioc).map(|ioc| ioc.name.as_str());
            let aliases = self.context.aliases(record.id);
            let named = |pattern: &Pattern| {
                pattern.matches(record.name) || aliases.iter().any(|alias| pattern.matches(alias))
            };
            host && matches(&filter.ioc, ioc.unwrap_or_default()) && filter.pv.as_ref().is_none_or(named)
        })
    }

    /// Is this host asked for?
    fn is_host_wanted(&self, filter: &Filter) -> bool {
        matches(&filter.host, self.host().unwrap_or_default())
    }
}

fn matches(pattern: &Option<Pattern>, name: &str) -> bool {
    pattern.as_ref().is_none_or(|pattern| pattern.matches(name))
}
