//! Servers' threads that serve one circuit each, as those of QSRV1 do: once a put has shown whose a thread is, it tells
//! which of several clients' requests its hits are.

use crate::model::numbered::Numbered;
use iocrec_log::event::{CircuitId, ThreadId};

/// Threads that are remembered; a bound for hostile logs.
const MAX_THREADS: usize = 100_000;

/// See the module.
#[derive(Default)]
pub(super) struct OwnThreads {
    /// The circuits that a thread may serve.
    served: Numbered<ThreadId, Vec<CircuitId>>,
    /// The threads of circuits that are certain.
    of_circuit: Numbered<CircuitId, ThreadId>,
}

impl OwnThreads {
    /// The circuit that a thread serves, if that is certain.
    pub(super) fn certain(&self, thread: ThreadId) -> Option<CircuitId> {
        match self.served.get(&thread)?.as_slice() {
            [only] => Some(*only),
            _ => None,
        }
    }

    /// A thread did what requests on these circuits asked for. Keeps those that it may serve: those that it may have
    /// served all along, and that no other thread is known to serve. None are left if that contradicts, and then what was
    /// known of it is forgotten. True if its circuit has become certain.
    pub(super) fn serve(&mut self, thread: ThreadId, circuits: &mut Vec<CircuitId>) -> bool {
        circuits.sort_unstable();
        circuits.dedup();
        let free = |circuit: &CircuitId| self.of_circuit.get(circuit).is_none_or(|other| *other == thread);
        circuits.retain(free);
        let before = self.served.remove(&thread);
        if let Some(before) = &before {
            circuits.retain(|circuit| before.contains(circuit));
        }
        match circuits.as_slice() {
            [] => {
                for circuit in before.into_iter().flatten() {
                    if self.of_circuit.get(&circuit) == Some(&thread) {
                        self.of_circuit.remove(&circuit);
                    }
                }
                false
            }
            some => {
                if self.served.len() >= MAX_THREADS {
                    return false;
                }
                self.served.insert(thread, some.to_vec());
                match some {
                    [only] => self.of_circuit.insert(*only, thread).is_none(),
                    _ => false,
                }
            }
        }
    }
}
