//! Inventory of a run: its IOCs and their records.
//!
//! An IOC that has ended is still listed, with its records: the inventory does not apply ends, and keeps all
//! definitions of a run within the bound that applies to definitions everywhere
//! ([`Budget`]).

use crate::answers::attached::Spans;
use crate::filter::Filter;
use crate::notices::{Notice, Notices};
use crate::pattern::Pattern;
use crate::reading::runs::budget;
use crate::reading::runs::set::SetLater;
use crate::reading::scan::{Blocks, Part, Scan};
use iocrec_log::context::{Budget, Context, RecordRef};
use iocrec_log::event::{Fact, Ioc, IocId, Tier};
use iocrec_log::reader::SegmentFile;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What of an IOC is not recorded on the packet tier.
const NO_PROBES: &str = "processing, alarms and console: the packet tier has no probes";

/// End of an IOC.
#[derive(Clone, Debug, Default)]
pub struct End {
    /// Wall-clock time, nanoseconds since 1970 UTC; if known.
    pub wall: Option<i64>,
    /// Monotonic time.
    pub time: u64,
    /// The exit status, or the signal that killed it. Empty if unknown.
    pub how: String,
}

/// The definitions of a run, and the ends of its IOCs.
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
    /// Times during which they were recorded.
    spans: Spans,
}

impl Inventory {
    /// An empty one whose definitions share a memory budget with others.
    pub fn sharing(budget: &Arc<Budget>) -> Inventory {
        Inventory { context: Context::sharing(budget), ..Inventory::default() }
    }

    /// Notes that the machine's clock was set late. Call it before the first fact.
    pub fn set_later(&mut self, set: SetLater) {
        set.apply_to(&mut self.context);
    }

    /// Reads a run's definitions. Reports the parts that can't be read, and returns the rest.
    pub fn read(files: &[SegmentFile], notices: &Notices) -> Inventory {
        let mut found = Inventory::sharing(&budget(files));
        SetLater::find(files).inspect(|set| found.set_later(*set));
        let mut scan = Scan::new(files, Blocks::Definitions);
        let mut expected = None;
        while let Some(part) = scan.next() {
            match part {
                Part::Segment(header) => notices.segment(&mut expected, header.sequence, scan.file()),
                Part::Unreadable(error) => notices.report(&Notice::of_segment(error)),
                Part::Block(block) => {
                    notices.cut_before(&scan);
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

    /// Takes a fact.
    pub fn take(&mut self, time: u64, fact: &Fact) {
        self.spans.take(time, fact, &self.context);
        match fact {
            Fact::IocEnd(end) => {
                if self.context.ioc(end.ioc).is_some() {
                    let end_of = End { wall: self.context.wall(time), time, how: end.how.clone() };
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

    /// Name of the host, if known.
    pub fn host(&self) -> Option<&str> {
        self.context.host().map(|host| host.name.as_str())
    }

    /// The end of an IOC; `None` if it was not seen to end.
    pub fn end(&self, ioc: IocId) -> Option<&End> {
        self.ended.get(&ioc)
    }

    /// What could not be recorded of an IOC, and why.
    pub fn not_probed<'a>(&'a self, ioc: &'a Ioc) -> Vec<&'a str> {
        let packets = self.context.tier().is_some_and(|choice| choice.tier == Tier::Packet);
        let lines = ioc.not_probed.iter().map(String::as_str);
        packets.then_some(NO_PROBES).into_iter().chain(lines).collect()
    }

    /// The times during which IOCs were recorded.
    pub fn spans(&self) -> &Spans {
        &self.spans
    }

    /// The IOCs that match.
    pub fn iocs<'a>(&'a self, filter: &'a Filter) -> impl Iterator<Item = &'a Ioc> {
        let host = self.host().unwrap_or_default();
        self.context.iocs().filter(move |ioc| filter.place(host, &ioc.name))
    }

    /// The records that match, by name or alias.
    pub fn records<'a>(&'a self, filter: &'a Filter) -> impl Iterator<Item = RecordRef<'a>> {
        let host = self.host().unwrap_or_default();
        self.context.records().filter(move |record| {
            let ioc = self.context.ioc(record.ioc).map(|ioc| ioc.name.as_str());
            let aliases = self.context.aliases(record.id);
            let named = |pattern: &Pattern| {
                pattern.matches(record.name) || aliases.iter().any(|alias| pattern.matches(alias))
            };
            filter.place(host, ioc.unwrap_or_default()) && filter.name(named)
        })
    }
}
