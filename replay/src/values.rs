//! Values of PVs, one moment at a time.
//!
//! Chains come in the order in which they began; their values are later than that, so they wait until no earlier value
//! can come.

use crate::filter::Filter;
use crate::model::chain::Chain;
use crate::model::history::{each_value, Origin, ValueLine, ValueSource};
use crate::model::replay::Replay;
use crate::model::value::same;
use iocrec_log::event::Value;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Fields whose last value is remembered; a bound for hostile logs.
const MAX_FIELDS: usize = 500_000;

/// A field: host, IOC, record, field.
type Key = (Rc<str>, Rc<str>, Rc<str>, Rc<str>);

/// The values that match a filter, in order of time.
pub struct Values<'a> {
    replay: Replay,
    filter: &'a Filter,
    /// The next chain to take values from, and when it began: all earlier values can be returned.
    chain: Option<(i64, Chain)>,
    waiting: BTreeMap<(i64, u64), ValueLine>,
    count: u64,
    known: HashMap<Key, Value>,
}

impl<'a> Values<'a> {
    pub(crate) fn new(replay: Replay, filter: &'a Filter) -> Self {
        Values { replay, filter, chain: None, waiting: BTreeMap::new(), count: 0, known: HashMap::new() }
    }

    /// Takes the values of a chain.
    fn take(&mut self, chain: Chain) {
        let mut found = Vec::new();
        each_value(&chain, self.filter, &mut |line, path| found.push((line, path.to_vec())));
        if found.is_empty() {
            return;
        }
        let chain = Rc::new(chain);
        for (line, path) in found {
            let by_chain = line.source != ValueSource::Found;
            let origin = by_chain.then(|| Origin { chain: Rc::clone(&chain), path });
            self.count += 1;
            self.waiting.insert((line.time, self.count), ValueLine { origin, ..line });
        }
    }

    /// Whether a line shows anything new; notes its value.
    fn is_news(&mut self, line: &ValueLine) -> bool {
        let [host, ioc, record, field] = [&line.host, &line.ioc, &line.record, &line.field].map(Rc::clone);
        let key = (host, ioc, record, field);
        let repeats = matches!(line.source, ValueSource::Found | ValueSource::Snapshot)
            && self.known.get(&key).is_some_and(|known| same(known, &line.value) == Some(true));
        if self.known.len() < MAX_FIELDS || self.known.contains_key(&key) {
            self.known.insert(key, line.value.clone());
        }
        !repeats
    }

    /// The next line, in order of time.
    fn next_line(&mut self) -> Option<ValueLine> {
        loop {
            let settled = self.chain.as_ref().map_or(i64::MIN, |(began, _)| *began);
            if let Some(first) = self.waiting.first_entry().filter(|first| first.key().0 < settled) {
                return Some(first.remove());
            }
            if let Some((_, chain)) = self.chain.take() {
                self.take(chain);
            }
            match self.replay.next() {
                Some(chain) => {
                    let began = chain.root().map_or(i64::MIN, |root| chain.run.wall(root.start));
                    self.chain = Some((began, chain));
                }
                None => return self.waiting.pop_first().map(|(_, line)| line),
            }
        }
    }
}

impl Iterator for Values<'_> {
    type Item = ValueLine;

    fn next(&mut self) -> Option<ValueLine> {
        loop {
            let line = self.next_line()?;
            if self.is_news(&line) {
                return Some(line);
            }
        }
    }
}
