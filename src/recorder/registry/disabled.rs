//! Alarms of disabled records.
//!
//! `dbProcess` gives a record whose DISA equals its DISV the alarm DISABLE with the severity of its DISS, once, and calls
//! nothing that is probed. So the record is read when it is found disabled, and not again before it has processed.
//!
//! Promises: two reads of a few bytes for a record that became disabled; at most [`MAX_RECORDS`] records of an IOC are
//! followed, and the alarms of others are left to the next snapshot.

use std::collections::HashSet;

use epics::alarm::DISABLE;
use iocrec_log::event::{Fact, RecordId, Snapshot};

use crate::ioc::snapshots::{sample, state, What};
use crate::recorder::env::Env;
use crate::recorder::registry::owner::Owner;

/// Disabled records that are remembered.
const MAX_RECORDS: usize = 10_000;

/// The records of one IOC that were found to have the alarm DISABLE, by address.
#[derive(Default)]
pub struct Disabled(HashSet<u64>);

impl Disabled {
    /// Notes that a record has completed: it has another alarm now.
    pub fn completed(&mut self, address: u64) {
        if !self.0.is_empty() {
            self.0.remove(&address);
        }
    }

    /// Reads the alarm of a record that is disabled, unless it was read already.
    pub fn read(&mut self, env: &mut Env<'_>, owner: Owner<'_>, record: RecordId, address: u64) {
        let Ok(layout) = &owner.process.layout else { return };
        if self.0.len() >= MAX_RECORDS || self.0.contains(&address) {
            return;
        }
        let memory = &owner.process.memory;
        let read = || sample(memory, layout, What::Values, &[address]).pop().flatten();
        // nothing but the record's processing changes it, which the first reading may have caught in the middle
        let Some(one) = read().filter(|one| read().is_some_and(|again| *one == again)) else { return };
        let Some(state) = state(memory.width(), layout, &one) else { return };
        if state.status != DISABLE || state.is_active {
            return;
        }
        self.0.insert(address);
        let time = env.monotonic();
        let (value, severity, status, stamp) = (state.value, state.severity, state.status, state.stamp);
        env.push(time, Fact::Snapshot(Snapshot { record, value, severity, status, stamp }));
    }
}
