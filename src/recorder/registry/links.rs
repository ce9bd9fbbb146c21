//! The links of an IOC's records: the record that a link lies in, and the CP links of a record.
//!
//! When a record is processed for a CP link, the log gets the record's CP links, so that iocreplay can name the source
//! if there is only one candidate.

use iocrec_log::event::{Fact, FieldValue, RecordId};

use crate::ioc::fields;
use crate::recorder::env::limits::{Limits, PerSecond, MAX_LINKS};
use crate::recorder::env::Env;
use crate::recorder::registry::fields::Fields;
use crate::recorder::registry::hash::AddressMap;
use crate::recorder::registry::owner::Owner;
use crate::recorder::registry::records::Records;

/// Least time between two writes of a record's CP links, nanoseconds, so that every log of some minutes has them.
const CP_LINKS_HOLD: u64 = 60_000_000_000;
/// Records a second whose CP links are read, of one IOC or a little more of several, since each link takes a read.
const CP_LINKS_A_SECOND: u64 = 20;

/// The links of one IOC.
#[derive(Default)]
pub struct Links {
    /// By the address of a struct link that does not name its record: the address of the record.
    owners: AddressMap<u64, u64>,
    /// By the address of a record: the time when its CP links were written.
    linked: AddressMap<u64, u64>,
    /// Records whose CP links were read.
    read: PerSecond,
}

impl Links {
    /// Returns this IOC's share of the limits when the IOC is forgotten.
    pub fn give_back(&self, limits: &mut Limits) {
        limits.link_owners = limits.link_owners.saturating_sub(self.owners.len());
        limits.linked_records = limits.linked_records.saturating_sub(self.linked.len());
    }

    /// The address of the record that a struct link lies in, where the link does not name it (before Base 3.16.1).
    pub fn owner(&mut self, env: &mut Env<'_>, of: Owner<'_>, records: &Records, link: u64) -> Option<u64> {
        if let Some(&known) = self.owners.get(&link) {
            return Some(known);
        }
        let (memory, layout) = (&of.process.memory, of.process.layout.as_ref().ok()?);
        let record = records.last_up_to(link)?;
        let end = record.checked_add(layout.type_of(memory, record)?.record_bytes.into())?;
        if link >= end {
            return None;
        }
        // any more are looked up each time
        if env.run.limits.link_owners + self.owners.len() < MAX_LINKS {
            env.run.limits.link_owners += 1;
            self.owners.insert(link, record);
        }
        Some(record)
    }

    /// Writes the CP links of a record that was processed at a time on a thread that follows links, unless they were
    /// written recently.
    pub fn write_cp_links(
        &mut self,
        env: &mut Env<'_>,
        time: u64,
        owner: Owner<'_>,
        defined: &mut Fields,
        (record, address): (RecordId, u64),
    ) {
        let written = self.linked.get(&address).is_some_and(|written| written + CP_LINKS_HOLD > time);
        if written || !env.run.limits.cp_links.share(&mut self.read, time, CP_LINKS_A_SECOND) {
            return;
        }
        if env.run.limits.linked_records + self.linked.len() >= MAX_LINKS {
            env.run.limits.linked_records -= self.linked.len();
            self.linked.clear();
        }
        if self.linked.insert(address, time).is_none() {
            env.run.limits.linked_records += 1;
        }
        let Ok(layout) = &owner.process.layout else { return };
        let links = fields::cp_links(&owner.process.memory, layout, address);
        let now = env.monotonic();
        for (description, value) in links {
            if let Some(field) = defined.get(env, time, owner, description) {
                env.push(now, Fact::FieldValue(FieldValue { record, field: field.id, value }));
            }
        }
    }

    /// Notes a changed link of a record: its CP links are written anew.
    pub fn changed(&mut self, env: &mut Env<'_>, address: u64) {
        if self.linked.remove(&address).is_some() {
            env.run.limits.linked_records -= 1;
        }
    }
}
