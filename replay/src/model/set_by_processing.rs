//! Fields that records set themselves when they process, beside their value: no hit shows what they hold then. So what a
//! put left in one is in doubt once its record has processed again.

use super::history::{ValueLine, ValueSource};
use super::names::IocProcess;
use super::numbered::Keyed;
use super::state::{Key, MAX_FIELDS};
use std::collections::HashSet;
use std::rc::Rc;

/// Those of EPICS Base's record types that clients may write (.dbd files and C of 7.0.10), but for the bits of mbbiDirect
/// and mbboDirect. What an input link sets (A of calc) is not among them: most have no link.
const FIELDS: [&str; 8] = ["CMD", "OLDN", "OVAL", "POVL", "PVAL", "RES", "RVAL", "UDF"];

/// Why such a field is in doubt.
pub const PROCESSED: &str = "its record has processed, which sets this field";

/// One that was seen.
struct Seen {
    field: Rc<str>,
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
        let processed = &**field == "VAL" && line.source == ValueSource::Process && !self.0.is_empty();
        if !processed && !is_set_by_processing(field) {
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
            seen.push(Seen { field: Rc::clone(field), chain, is_over: false });
        }
    }

    /// Whether its record may have set the field since it was seen.
    pub fn is_over(&self, (process, record, field): &Key) -> bool {
        if self.0.is_empty() || !is_set_by_processing(field) {
            return false;
        }
        let seen = self.0.get(&(Rc::clone(process), Rc::clone(record)));
        seen.into_iter().flatten().any(|seen| seen.field == *field && seen.is_over)
    }

    /// Takes what another knows of these records.
    pub fn replace(&mut self, records: &HashSet<String>, other: SetByProcessing) {
        self.0.retain(|(_, record), _| !records.contains(&**record));
        self.0.extend(other.0.into_iter().filter(|((_, record), _)| records.contains(&**record)));
    }
}

/// Whether processing sets a field of this name.
pub fn is_set_by_processing(field: &str) -> bool {
    let is_bit = |digits: &str| (1..=2).contains(&digits.len()) && u8::from_str_radix(digits, 16).is_ok();
    FIELDS.contains(&field) || field.strip_prefix('B').is_some_and(is_bit)
}

#[cfg(test)]
mod tests {
    use super::is_set_by_processing;

    #[test]
    fn bits_are_told_from_inputs_and_links() {
        assert!(["B0", "BF", "B1F", "OVAL", "UDF"].iter().all(|field| is_set_by_processing(field)));
        assert!(!["B", "BB2X", "A", "VAL", "EGU", "BKPT"].iter().any(|field| is_set_by_processing(field)));
    }
}
