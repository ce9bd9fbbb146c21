//! The places in an IOC's code that call the probed functions.
//!
//! A call site is defined at its first hit. To find its function, another thread searches a symbol table; meanwhile the
//! sink holds events back ([`crate::recorder::sink::Sink::await_site`]).

use iocrec_log::event::{CallSite, CallSiteId, Fact};

use crate::inspector::Request;
use crate::ioc::stack::Place;
use crate::recorder::env::limits::MAX_CALL_SITES;
use crate::recorder::env::Env;
use crate::recorder::registry::hash::AddressMap;
use crate::recorder::registry::owner::Owner;

/// The call sites of one IOC, by return address.
#[derive(Default)]
pub struct CallSites(AddressMap<u64, CallSiteId>);

impl CallSites {
    /// Number of call sites remembered.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The call site at an address if it is already defined; 0 for address 0, which means that it could not be read.
    pub fn known(&self, address: u64) -> Option<CallSiteId> {
        if address == 0 {
            return Some(0);
        }
        self.0.get(&address).copied()
    }

    /// Notes a place that has been looked up already. `returns`: its address is a return address.
    pub fn note(
        &mut self,
        env: &mut Env<'_>,
        time: u64,
        owner: Owner<'_>,
        place: &Place,
        returns: bool,
    ) -> CallSiteId {
        let Place { address, function, module, .. } = place;
        if let Some(known) = self.known(*address).filter(|_| returns) {
            return known;
        }
        if env.run.limits.call_sites + self.count() >= MAX_CALL_SITES {
            return 0;
        }
        let id = env.run.ids.call_site();
        if returns {
            env.run.limits.call_sites += 1;
            self.0.insert(*address, id);
        }
        let (function, module) = (function.clone(), module.clone());
        env.push(time, Fact::from(CallSite { id, ioc: owner.id, address: *address, function, module }));
        id
    }

    /// Defines the call site with this return address; 0 if there are too many.
    pub fn define(&mut self, env: &mut Env<'_>, time: u64, owner: Owner<'_>, address: u64) -> CallSiteId {
        if env.run.limits.call_sites + self.count() >= MAX_CALL_SITES {
            return 0;
        }
        env.run.limits.call_sites += 1;
        let id = env.run.ids.call_site();
        let Owner { id: ioc, process } = owner;
        let module = process.module_at(address).and_then(|module| module.path.rsplit('/').next());
        let module = module.unwrap_or_default().to_string();
        env.sink.await_site(time, CallSite { id, ioc, address, function: String::new(), module });
        env.run.requests.push(Request::CallSite { ioc: process.clone(), id, address });
        self.0.insert(address, id);
        id
    }
}
