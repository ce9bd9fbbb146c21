//! Fields that records set themselves when they process, beside their value: no hit shows what they hold then. So what a
//! put left in one is in doubt once its record has processed again. So are those that an input link fetches
//! (the module `fetched`), unless that link is known to be a constant.

use super::state::{Key, MAX_FIELDS};
use crate::model::commands::is_command;
use crate::model::fetched::{self, is_fetched};
use crate::model::history::{Of, ValueLine, ValueSource};
use crate::model::names::IocProcess;
use crate::model::numbered::Keyed;
use std::collections::HashSet;
use std::rc::Rc;

/// Those of EPICS Base's record types that clients may write (.dbd files and C of 7.0.10), but for the bits of mbbiDirect
/// and mbboDirect. RPRO is that of all types (recGblFwdLink).
const FIELDS: [&str; 9] = ["CMD", "OLDN", "OVAL", "POVL", "PVAL", "RES", "RPRO", "RVAL", "UDF"];

/// Why such a field is in doubt.
const SETS: &str = "its record has processed, which sets this field";
/// The same of one that a link, or code of the IOC's own, may set.
const MAY_SET: &str = "its record has processed, which may set this field";

/// One that was seen.
struct Seen {
    field: Rc<str>,
    /// The same in its run; `None` if the log does not know its record.
    of: Option<Of>,
    /// The chain of the put that wrote it: when that began.
    chain: Option<u64>,
    /// Whether its record has processed in another one since.
    is_over: bool,
}

/// Those that were seen, by record.
#[derive(Default)]
pub struct SetByProcessing(Keyed<(Rc<IocProcess>, Rc<str>), Vec<Seen>>);

impl SetByProcessing {
    /// Takes the next value of a field.
    pub fn take(&mut self, key: &Key, line: &ValueLine) {
        let (process, record, field) = key;
        // nearly all are of VAL, and mostly nothing was seen that its processing sets: no more is asked of them
        let is_value = &**field == "VAL";
        let processed = is_value && line.source == ValueSource::Process && !self.0.is_empty();
        if !processed && (is_value || !is_set_by_processing(field)) {
            return;
        }
        let of = (Rc::clone(process), Rc::clone(record));
        let chain = line.origin.as_ref().and_then(|origin| Some(origin.chain.root()?.start));
        if processed {
            let seen = self.0.get_mut(&of).into_iter().flatten();
            seen.for_each(|seen| seen.is_over |= chain.is_none() || seen.chain != chain);
        } else if self.0.len() < MAX_FIELDS {
            let seen = self.0.entry(of).or_default();
            seen.retain(|seen| seen.field != *field);
            seen.push(Seen { field: Rc::clone(field), of: line.of.clone(), chain, is_over: false });
        }
    }

    /// Notes that a record had to process and did not, since it was disabled: dbProcess has fetched DISA before.
    pub fn disabled(&mut self, process: &Rc<IocProcess>, record: &Rc<str>) {
        if self.0.is_empty() {
            return;
        }
        let seen = self.0.get_mut(&(Rc::clone(process), Rc::clone(record)));
        let fetched = seen.into_iter().flatten().filter(|seen| &*seen.field == "DISA");
        fetched.for_each(|seen| seen.is_over = true);
    }

    /// Notes that a record has begun to process, in a chain that began at this time, and was not seen to complete.
    pub fn begun(&mut self, process: &Rc<IocProcess>, record: &Rc<str>, chain: u64) {
        if self.0.is_empty() {
            return;
        }
        let seen = self.0.get_mut(&(Rc::clone(process), Rc::clone(record)));
        seen.into_iter().flatten().for_each(|seen| seen.is_over |= seen.chain != Some(chain));
    }

    /// Why its record may have set the field since it was seen.
    pub fn is_over(&self, (process, record, field): &Key) -> Option<&'static str> {
        if self.0.is_empty() || !is_set_by_processing(field) {
            return None;
        }
        let seen = self.0.get(&(Rc::clone(process), Rc::clone(record)))?;
        let seen = seen.iter().find(|seen| seen.field == *field && seen.is_over)?;
        if !is_fetched(field) {
            return Some(SETS);
        }
        let may_be_set = |of: &Of| fetched::may_be_set(&of.run, of.record, field);
        seen.of.as_ref().is_none_or(may_be_set).then_some(MAY_SET)
    }

    /// Takes what another knows of these records.
    pub fn replace(&mut self, records: &HashSet<String>, other: SetByProcessing) {
        self.0.retain(|(_, record), _| !records.contains(&**record));
        self.0.extend(other.0.into_iter().filter(|((_, record), _)| records.contains(&**record)));
    }
}

/// Whether processing may set a field of this name.
pub fn is_set_by_processing(field: &str) -> bool {
    let is_bit = |digits: &str| (1..=2).contains(&digits.len()) && u8::from_str_radix(digits, 16).is_ok();
    FIELDS.contains(&field)
        || is_command(field)
        || is_fetched(field)
        || field.strip_prefix('B').is_some_and(is_bit)
}

#[cfg(test)]
mod tests {
    use super::is_set_by_processing;

    #[test]
    fn bits_are_told_from_inputs_and_links() {
        assert!(["A", "B", "B0", "BF", "B1F", "OVAL", "UDF"].iter().all(|field| is_set_by_processing(field)));
        assert!(!["BB2X", "VAL", "EGU", "BKPT", "INPA"].iter().any(|field| is_set_by_processing(field)));
    }
}
