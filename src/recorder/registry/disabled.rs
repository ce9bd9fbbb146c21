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
        let one = read();
        // what is equal before and after that was true then; hits that come later show what happened later
        let time = env.monotonic();
        let Some(one) = one.filter(|one| read().is_some_and(|again| *one == again)) else { return };
        let Some(state) = state(memory.width(), layout, &one) else { return };
        if state.status != DISABLE || state.is_active {
            return;
        }
        self.0.insert(address);
        let (value, severity, status, stamp) = (state.value, state.severity, state.status, state.stamp);
        env.push(time, Fact::Snapshot(Snapshot { record, value, severity, status, stamp }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::clock::Clock;
    use crate::recorder::env::{Machine, Run};
    use crate::recorder::testing::{options, Collected, FakeProcfs, TestIoc, PID, SEVR};
    use nix::poll::PollFd;
    use std::cell::RefCell;
    use std::time::Duration;

    /// A clock that an IOC's record processes with, if one is named: it has no alarm from that time on.
    struct Meanwhile(RefCell<TestIoc>, Option<u64>);

    impl Clock for Meanwhile {
        fn monotonic(&self) -> u64 {
            self.1.iter().for_each(|&record| self.0.borrow_mut().put(record, SEVR - 2, &[0; 2]));
            7
        }

        fn wall_offset(&self) -> i64 {
            0
        }

        fn monotonic_of_boot(&self, boot: u64) -> u64 {
            boot
        }

        fn wait(&self, _descriptors: &mut [PollFd], _longest: Duration) {}
    }

    #[test]
    fn what_is_told_was_so_at_its_time() {
        for processes in [false, true] {
            let mut ioc = TestIoc::new(PID);
            let address = ioc.calc("T:A");
            ioc.put(address, SEVR - 2, &DISABLE.to_ne_bytes());
            let process = ioc.process.clone();
            let clock = Meanwhile(RefCell::new(ioc), processes.then_some(address));
            let procfs = FakeProcfs::default();
            let machine =
                Machine { clock: Box::new(clock), procfs: Box::new(procfs), is_told_to_end: || false };
            let (options, mut sink) = (options(), Collected::default());
            let (mut messages, mut run) = (Vec::new(), Run::default());
            let mut env = Env {
                now: 1,
                wall_offset: 0,
                options: &options,
                machine: &machine,
                sink: &mut sink,
                messages: &mut messages,
                run: &mut run,
            };
            Disabled::default().read(&mut env, Owner { id: 1, process: &process }, 1, address);
            let told: Vec<u64> = sink.take().iter().map(|event| event.time).collect();
            let expected: &[u64] = if processes { &[] } else { &[7] };
            assert_eq!(told, expected);
        }
    }
}
