//! Properties of records: units, precision, limits, description, as the recorder last read them.

use iocrec_log::event::{Properties, RecordId};
use std::collections::HashMap;
use std::rc::Rc;

/// Approximate size of all properties of a run in bytes; a bound for hostile logs. 100,000 records take 20 MB.
const MAX_BYTES: usize = 64 << 20;

/// The latest properties of each record of a run.
#[derive(Default)]
pub struct Kept {
    of: HashMap<RecordId, Rc<Properties>>,
    bytes: usize,
}

impl Kept {
    /// Keeps them, in place of earlier ones of the record.
    pub fn add(&mut self, properties: &Properties) {
        let known = self.of.get(&properties.record);
        if known.is_some_and(|known| **known == *properties) {
            return; // each segment repeats them
        }
        let size = |properties: &Properties| {
            size_of::<Properties>() + properties.description.len() + properties.units.len()
        };
        let bytes = self.bytes - known.map_or(0, |known| size(known)) + size(properties);
        if bytes <= MAX_BYTES {
            self.bytes = bytes;
            self.of.insert(properties.record, Rc::new(properties.clone()));
        }
    }

    /// The properties of a record.
    pub fn of(&self, record: RecordId) -> Option<Rc<Properties>> {
        self.of.get(&record).map(Rc::clone)
    }
}
