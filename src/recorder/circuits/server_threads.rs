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
        let ports = &ioc.about.ca_ports;
        // once they are known all of its clients are read
        let may_be_found = may_serve_ca && !ports.is_empty();
        let Some(process) = ioc.process.as_ref().filter(|_| may_be_found) else { return };
        let ports = ports.clone();
        env.run.requests.push(Request::ThreadClients { ioc: process.clone(), thread, tid, time, ports });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::testing::{Bench, TestIoc, PID};

    /// A client is found by the port that it is connected to.
    #[test]
    fn no_client_is_asked_for_before_a_port_is_known() {
        let mut bench = Bench::new();
        bench.trace(&TestIoc::new(PID));
        let mut asked_of = |ports: Vec<u16>, may_serve_ca| {
            bench.with(PID, |ioc, env| {
                ioc.about.ca_ports = ports;
                let new = NewThread { id: 1, tid: 7, time: 5, may_serve_ca };
                ServerThreads::default().first_hit(env, ioc, new);
                std::mem::take(&mut env.run.requests).len()
            })
        };
        assert_eq!(asked_of(Vec::new(), true), 0);
        assert_eq!(asked_of(vec![5064], true), 1);
        assert_eq!(asked_of(vec![5064], false), 0, "it serves nobody");
    }
}
