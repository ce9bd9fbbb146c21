//! Threads of CA servers and the circuits that they serve.
//!
//! A thread becomes known by its first hit, a circuit by its packets or the server's memory. Either may come first, and
//! waits here for the other. Threads here outlive their IOC: the packets of its last circuits may come after its end.

use iocrec_log::event::{Address, Event, Fact, ServerThread, ThreadId};

use crate::inspector::Request;
use crate::ioc::clients::Client;
use crate::net::Namespace;
use crate::recorder::env::Env;
use crate::recorder::registry::threads::NewThread;
use crate::recorder::registry::traced_ioc::TracedIoc;

/// A server thread whose circuit has no id yet.
pub struct Unknown {
    /// The thread.
    pub thread: ThreadId,
    /// Time of its first hit.
    pub time: u64,
    /// Time at which its client was found, which on a busy machine may be long after.
    pub noted: u64,
    /// Its client.
    pub client: Client,
    /// The server's network namespace.
    pub namespace: Namespace,
    /// The server's end of the circuit.
    pub server: Address,
}

/// See the module.
#[derive(Default)]
pub struct ServerThreads {
    /// Threads whose circuit has no id yet.
    pub unknown: Vec<Unknown>,
    /// Facts about threads whose circuit is known: they follow the circuits' own.
    pub(super) known: Vec<Event>,
}

impl ServerThreads {
    /// Finds the client of a thread that had its first hit.
    pub fn first_hit(&mut self, env: &mut Env<'_>, ioc: &mut TracedIoc, new: NewThread) {
        let NewThread { id: thread, tid, time, may_serve_ca } = new;
        if let Some(circuit) = ioc.serving.remove(&tid) {
            self.known.push(Event { time, fact: Fact::ServerThread(ServerThread { thread, circuit }) });
            return;
        }
        let Some(process) = ioc.process.as_ref().filter(|_| may_serve_ca) else { return };
        let ports = ioc.about.ca_ports.clone();
        env.run.requests.push(Request::ThreadClients { ioc: process.clone(), thread, tid, time, ports });
    }
}
