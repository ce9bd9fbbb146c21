//! The channels to which an IOC's threads put as clients. Each is defined at the first put to it, by its number and the PV
//! that libca holds for it.
//!
//! A channel's address is used again after the channel is cleared. Its number is not, so one with another number at the
//! same address is another channel, and takes the place of the former.

use iocrec_log::event::{ClientChannel, Fact};

use crate::ioc::channels::pv;
use crate::recorder::env::Env;
use crate::recorder::registry::hash::AddressMap;
use crate::recorder::registry::owner::Owner;

/// Channels of one IOC that are remembered. Each is in every keyframe; puts to others are noted without their PV.
const MAX_CHANNELS: usize = 20_000;

/// The channels of one IOC, by the address: id and number.
#[derive(Default)]
pub struct ClientChannels(AddressMap<u64, (u32, u32)>);

impl ClientChannels {
    /// Defines a channel with this address and number, if it is new.
    pub fn note(&mut self, env: &mut Env<'_>, time: u64, owner: Owner<'_>, address: u64, cid: u32) {
        let known = self.0.get(&address).copied();
        if known.is_some_and(|(_, of)| of == cid) || known.is_none() && self.0.len() >= MAX_CHANNELS {
            return;
        }
        let id = known.map_or_else(|| env.run.ids.client_channel(), |(id, _)| id);
        self.0.insert(address, (id, cid));
        // if it is gone already nothing is said of it, nor of the one before it
        let pv = pv(&owner.process.memory, address, cid).unwrap_or_default();
        env.push(time, Fact::from(ClientChannel { id, ioc: owner.id, address, cid, pv }));
    }
}
