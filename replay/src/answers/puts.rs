//! The put log, one put at a time.
//!
//! Chains come in the order in which they began; their puts are later than that, so they wait until no earlier put can
//! come.

use crate::filter::Filter;
use crate::logs::Logs;
use crate::model::chain::Chain;
use crate::model::numbered::Keyed;
use crate::model::order::OWN_SKEW;
use crate::model::putlog::{each_put, each_put_with_ids, PutLine};
use crate::model::replay::Replay;
use crate::model::updates::{tell, Updates};
use std::collections::BTreeMap;
use std::rc::Rc;

impl Logs {
    /// The puts that match, in order of time: those from outside the IOCs, unless [`Puts::with_links`] adds the others.
    ///
    /// ```
    /// # let log = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/travelled/x86_64-6.1/log");
    /// use iocreplay::{Filter, Logs};
    ///
    /// let logs = Logs::open([log])?;
    /// let filter = Filter::default();
    /// assert_eq!(logs.puts(&filter).filter(|put| put.status == "ok").count(), 99);
    /// assert_eq!(logs.puts(&filter).with_links().count(), 99);
    /// # Ok::<(), iocreplay::OpenError>(())
    /// ```
    pub fn puts<'a>(&self, filter: &'a Filter) -> Puts<'a> {
        Puts::new(self.with(Rc::clone(self.notices())), filter)
    }
}

/// The puts of logs that match a filter, in order of time.
pub struct Puts<'a> {
    logs: Logs,
    /// Begun with the first put that is asked for.
    replay: Option<Replay>,
    filter: &'a Filter,
    with_links: bool,
    with_ids: bool,
    /// What clients had subscribed to, if that is wanted and they had.
    updates: Option<Updates>,
    /// The next chain to take puts from, when it began, and the time before which all puts can be returned.
    chain: Option<(i64, i64, Chain)>,
    waiting: BTreeMap<(i64, u64), PutLine>,
    order: PutOrder,
    count: u64,
}

impl<'a> Puts<'a> {
    pub(crate) fn new(logs: Logs, filter: &'a Filter) -> Self {
        Puts {
            logs,
            replay: None,
            filter,
            with_links: false,
            with_ids: false,
            updates: None,
            chain: None,
            waiting: BTreeMap::new(),
            order: PutOrder::default(),
            count: 0,
        }
    }

    /// Adds the recorded puts of database links and CA links, and values that Python code sets in the IOC that it
    /// hosts.
    pub fn with_links(mut self) -> Self {
        self.with_links = true;
        self
    }

    /// Gives each put the ids of its span, which are those of the chains ([`Logs::chains`]).
    pub fn with_ids(mut self) -> Self {
        self.with_ids = true;
        self
    }

    /// Tells of puts that a process made by itself which updates may have made it act: of PVs to which it had subscribed, and
    /// which a recorded IOC changed just before. Reads in the logs who had subscribed to what.
    pub fn with_updates(mut self) -> Self {
        let span = (self.filter.since.unwrap_or(i64::MIN), self.filter.until.unwrap_or(i64::MAX));
        self.updates = Some(self.logs.subscriptions(span)).filter(|updates| !updates.is_empty());
        self
    }

    /// A put with all that was asked for. All chains that began before it were taken.
    fn told(&self, mut put: PutLine) -> PutLine {
        if let Some(updates) = &self.updates {
            let before = updates.before(&put);
            tell(&mut put, before);
        }
        put
    }

    /// Takes the puts of a chain.
    fn take(&mut self, began: i64, chain: &Chain) {
        if let Some(updates) = &mut self.updates {
            updates.take(chain);
        }
        let mut take = |put| {
            if self.filter.put(&put) {
                self.count += 1;
                self.waiting.insert((self.order.place(began, &put), self.count), put);
            }
        };
        match self.with_ids {
            true => each_put_with_ids(chain, self.with_links, &mut take),
            false => each_put(chain, self.with_links, &mut take),
        }
    }
}

impl Iterator for Puts<'_> {
    type Item = PutLine;

    fn next(&mut self) -> Option<PutLine> {
        loop {
            let settled = self.chain.as_ref().map_or(i64::MIN, |(_, settled, _)| *settled);
            // an update may come later than the put that it set off, where clocks differ
            let settled = settled.saturating_sub(self.updates.as_ref().map_or(0, Updates::late));
            if let Some(first) = self.waiting.first_entry().filter(|first| first.key().0 < settled) {
                let put = first.remove();
                return Some(self.told(put));
            }
            if let Some((began, _, chain)) = self.chain.take() {
                self.take(began, &chain);
            }
            let replay = self.replay.get_or_insert_with(|| match &self.updates {
                // updates are of chains without puts; those before the last put may be late
                Some(updates) => {
                    let until = self.filter.until.map(|until| until.saturating_add(updates.late()));
                    self.logs.replay(&Filter { until, ..self.filter.clone() })
                }
                // ids are those of whole chains
                None if self.with_links || self.with_ids => self.logs.replay(self.filter),
                None => self.logs.replay_puts(self.filter),
            });
            match replay.next() {
                Some(chain) => {
                    let began = chain.root().map_or(i64::MIN, |root| chain.run.even(root.start));
                    self.chain = Some((began, replay.earliest().saturating_sub(OWN_SKEW), chain));
                }
                None => {
                    let (_, put) = self.waiting.pop_first()?;
                    return Some(self.told(put));
                }
            }
        }
    }
}

/// Records whose last place is remembered before those that no longer matter are forgotten.
const MAX_RECORDS: usize = 10_000;

/// Order of puts.
///
/// The chains of a record come in the order in which their initial puts were carried out; the message of one may be
/// older than that of another carried out before it. The later one still follows, or their old values would contradict
/// each other. Holds the last place of each record that was put to, by IOC and record.
#[derive(Default)]
struct PutOrder {
    places: Keyed<Option<Rc<str>>, Places>,
    /// Number of places.
    count: usize,
}

/// The last places of an IOC's records, and of what has no record.
#[derive(Default)]
struct Places {
    named: Keyed<String, i64>,
    unnamed: Option<i64>,
}

impl PutOrder {
    /// The time that determines the place of a put from a chain that began at `began`.
    fn place(&mut self, began: i64, put: &PutLine) -> i64 {
        if put.even != began {
            return put.even;
        }
        if self.count > MAX_RECORDS {
            self.forget(began);
        }
        let places = self.places.entry(put.ioc.clone()).or_default();
        let known = match &put.record {
            Some(record) => places.named.get_mut(record),
            None => places.unnamed.as_mut(),
        };
        if let Some(last) = known {
            *last = (*last).max(began);
            return *last;
        }
        self.count += 1;
        match &put.record {
            Some(record) => _ = places.named.insert(record.clone(), began),
            None => places.unnamed = Some(began),
        }
        began
    }

    /// Forgets places that no longer matter.
    fn forget(&mut self, began: i64) {
        self.count = 0;
        self.places.retain(|_, Places { named, unnamed }| {
            named.retain(|_, last| *last > began);
            *unnamed = unnamed.filter(|last| *last > began);
            let left = named.len() + usize::from(unnamed.is_some());
            self.count += left;
            left > 0
        });
    }
}
