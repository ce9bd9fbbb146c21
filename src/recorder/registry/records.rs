//! The records of an IOC and their aliases.
//!
//! Hits carry a record's address. A record is defined when the walk through the record database finds it, or else at
//! its first hit, by the name in its memory. Records that the user does not want have no id.
//!
//! While an IOC loads its database, `record("#", "name")` frees a record, and one that is loaded later may get its memory. So
//! another name at an address that is known is another record.

use std::collections::hash_map::Entry;
use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use iocrec_log::event::{Alias, EnumStrings, Fact, Loss, LossSource, Record, RecordId};

use crate::inspector::FoundRecord;
use crate::recorder::env::{Env, NewRecord};
use crate::recorder::registry::hash::{AddressHasher, AddressMap};
use crate::recorder::registry::owner::Owner;
use crate::recorder::registry::states::hash_of;

/// The id of a record that is wanted.
fn wanted(id: RecordId) -> Option<RecordId> {
    (id > 0).then_some(id)
}

/// Bytes of a record's name without its NUL; the name is the first member of dbCommon.
const RECORD_NAME: usize = epics::limits::PVNAME_STRINGSZ - 1;

/// The records of one IOC.
#[derive(Default)]
pub struct Records {
    /// By the address of the dbCommon: its id, 0 if it is not wanted; and a hash of its name.
    ids: AddressMap<u64, (RecordId, u32)>,
    /// Addresses of the nodes whose alias the log has.
    aliases: HashSet<u64, BuildHasherDefault<AddressHasher>>,
}

impl Records {
    /// The record at an address: `None` if it is not known yet, `Some(None)` if it is not wanted.
    pub fn known(&self, address: u64) -> Option<Option<RecordId>> {
        self.ids.get(&address).map(|&(id, _)| wanted(id))
    }

    /// The id of the record at an address, if it has one.
    pub fn id(&self, address: u64) -> Option<RecordId> {
        self.known(address).flatten()
    }

    /// The records that the user wants, with their addresses, in no order.
    pub fn wanted(&self) -> Vec<(RecordId, u64)> {
        self.ids.iter().filter_map(|(&address, &(id, _))| Some((wanted(id)?, address))).collect()
    }

    /// Number of records, those that are not wanted included.
    pub fn count(&self) -> usize {
        self.ids.len()
    }

    /// The address of the last record that begins at or before an address.
    pub fn last_up_to(&self, address: u64) -> Option<u64> {
        self.ids.keys().copied().filter(|&record| record <= address).max()
    }

    /// Defines the record of a hit by its memory; `None` if it is not wanted.
    pub fn define(
        &mut self,
        env: &mut Env<'_>,
        time: u64,
        owner: Owner<'_>,
        address: u64,
    ) -> Option<RecordId> {
        let memory = &owner.process.memory;
        let name = memory.string(address, RECORD_NAME).unwrap_or_default();
        if name.is_empty() {
            let pid = owner.process.pid;
            let cause = format!("pid {pid}: the record at {address:#x} has no name that can be read");
            env.push(time, Fact::Loss(Loss { source: LossSource::Names, count: 1, since: time, cause }));
        }
        let layout = owner.process.layout.as_ref().ok();
        let rtype = layout.and_then(|layout| layout.type_of(memory, address)).map(|rtype| rtype.name.clone());
        self.enter(env, time, owner, address, name, rtype.unwrap_or_default())
    }

    /// Defines a record found in the database, or an alias of one. Returns the record's id if it is wanted.
    pub fn define_found(
        &mut self,
        env: &mut Env<'_>,
        time: u64,
        owner: Owner<'_>,
        found: FoundRecord,
    ) -> Option<RecordId> {
        let FoundRecord { address, name, rtype, alias, states, node } = found;
        if alias {
            // of a record that is unwanted or was not valid: the log has nothing to tie the name to
            let record = self.id(address)?;
            if self.aliases.insert(node) {
                env.push(time, Fact::Alias(Alias { record, name }));
            }
            return Some(record);
        }
        if let Some(&(id, of)) = self.ids.get(&address) {
            if of == hash_of(std::slice::from_ref(&name)) as u32 {
                return wanted(id);
            }
            self.ids.remove(&address);
            if let Some(new) = &mut env.run.new_records {
                new.retain(|record| (record.pid, record.address) != (owner.process.pid, address));
            }
        }
        let record = self.enter(env, time, owner, address, name, rtype)?;
        if !states.is_empty() {
            env.push(time, Fact::EnumStrings(EnumStrings { record, states }));
        }
        Some(record)
    }

    /// Adds a record that is not known yet.
    fn enter(
        &mut self,
        env: &mut Env<'_>,
        time: u64,
        owner: Owner<'_>,
        address: u64,
        name: String,
        rtype: String,
    ) -> Option<RecordId> {
        let place = match self.ids.entry(address) {
            Entry::Occupied(known) => return wanted(known.get().0),
            Entry::Vacant(place) => place,
        };
        let of = hash_of(std::slice::from_ref(&name)) as u32;
        let is_wanted = env.options.selection.record(&name);
        if let Some(new) = &mut env.run.new_records {
            new.push(NewRecord { pid: owner.process.pid, address, wanted: is_wanted });
        }
        if !is_wanted {
            place.insert((0, of));
            return None;
        }
        let id = env.run.ids.record();
        place.insert((id, of));
        env.push(time, Fact::from(Record { id, ioc: owner.id, address, name, rtype }));
        Some(id)
    }
}
