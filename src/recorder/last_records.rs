//! The record that an IOC processed when it crashed, for the sentence about its end: only here, where events go into the
//! log, are the names of records known.

use std::collections::HashMap;

use iocrec_log::context::Context;
use iocrec_log::event::{Crash, Event, Fact, IocId, RecordId};

/// Most IOCs that are remembered.
const MOST: usize = 256;
/// The end of a sentence about a process that has left a core dump.
const CORE: &str = ", with a core dump";
/// Within this time a handler that got a fault may end the process by the same signal, nanoseconds.
const RELATED: u64 = 10_000_000_000;

/// What a crash tells of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    /// By its hits the thread processed it.
    Processed(RecordId),
    /// Its address lay on the stack.
    OnStack(RecordId),
}

/// The last crash of each IOC: its signal, what it tells, and when it was.
#[derive(Debug, Default)]
pub struct LastRecords(HashMap<IocId, (u16, Last, u64)>);

impl LastRecords {
    /// Takes note of a crash, and completes the sentence about the end that it led to. `context` is that from before the
    /// event.
    pub fn complete(&mut self, event: &mut Event, context: &Context) {
        match &mut event.fact {
            Fact::Crash(crash) => self.note(event.time, crash),
            Fact::IocEnd(end) => {
                let Some((signal, last, _)) = self.0.remove(&end.ioc) else { return };
                let name = crate::linux::ending::signal_name(signal.into());
                let killed = end.how.strip_prefix("killed by ").and_then(|how| how.strip_prefix(&name));
                if killed.is_none_or(|rest| rest.starts_with(|next: char| next.is_alphanumeric())) {
                    return;
                }
                let text = |id| context.record(id).map(|record| record.name.to_string());
                let text = match last {
                    Last::Processed(id) => text(id).map(|name| format!(", while processing {name}")),
                    Last::OnStack(id) => text(id).map(|name| format!(", with {name} on its stack")),
                };
                let Some(text) = text else { return };
                let at = if end.how.ends_with(CORE) { end.how.len() - CORE.len() } else { end.how.len() };
                end.how.insert_str(at, &text);
            }
            _ => {}
        }
    }

    fn note(&mut self, time: u64, crash: &Crash) {
        let on_stack = || crash.records.first().map(|found| Last::OnStack(found.record));
        // the raise() of a handler tells less than the fault that it got
        let known = self.0.remove(&crash.ioc).filter(|(signal, _, fault)| {
            crash.code <= 0 && *signal == crash.signal && time.saturating_sub(*fault) < RELATED
        });
        let last = crash.record.map(Last::Processed).or_else(on_stack);
        let told = known.or(last.map(|last| (crash.signal, last, time)));
        if let Some(told) = told.filter(|_| self.0.len() < MOST) {
            self.0.insert(crash.ioc, told);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::{IocEnd, Record, StackRecord};

    fn end(crash: Option<Crash>, how: &str) -> String {
        let mut context = Context::default();
        let record = Record { id: 3, ioc: 1, address: 8, name: "H:SEGV".into(), rtype: "sub".into() };
        context.apply(1, &Fact::from(record));
        let mut records = LastRecords::default();
        if let Some(crash) = crash {
            records.complete(&mut Event { time: 1, fact: Fact::from(crash) }, &context);
        }
        let mut event = Event { time: 2, fact: Fact::IocEnd(IocEnd { ioc: 1, how: how.into() }) };
        records.complete(&mut event, &context);
        let Fact::IocEnd(end) = event.fact else { panic!() };
        end.how
    }

    fn crash(record: Option<RecordId>, records: &[(u32, RecordId)]) -> Crash {
        let records = records.iter().map(|&(at, record)| StackRecord { at, record }).collect();
        Crash {
            ioc: 1,
            tid: 7,
            thread: "cbLow".into(),
            signal: 11,
            code: 1,
            address: None,
            handled: false,
            ip: 1,
            sp: 1,
            site: 0,
            offset: 0,
            record,
            from: 0,
            bytes: 0,
            frames: Vec::new(),
            records,
        }
    }

    /// A handler gets a fault, and raises the signal. One that goes on has nothing to do with a later end.
    #[test]
    fn a_crash_that_it_survived() {
        let mut context = Context::default();
        let record = Record { id: 3, ioc: 1, address: 8, name: "H:SEGV".into(), rtype: "sub".into() };
        context.apply(1, &Fact::from(record));
        let handled = Crash { handled: true, ..crash(Some(3), &[]) };
        let end = |later: u64, code: i32| {
            let mut records = LastRecords::default();
            let raised = Crash { code, ..crash(None, &[]) };
            let how = IocEnd { ioc: 1, how: "killed by SIGSEGV".into() };
            let facts = [Fact::from(handled.clone()), Fact::from(raised), Fact::IocEnd(how)];
            let mut told = String::new();
            for (fact, time) in facts.into_iter().zip([1, later, later + 1]) {
                let mut event = Event { time, fact };
                records.complete(&mut event, &context);
                if let Fact::IocEnd(end) = event.fact {
                    told = end.how;
                }
            }
            told
        };
        assert_eq!(end(1_000_000_000, -6), "killed by SIGSEGV, while processing H:SEGV");
        assert_eq!(end(3_600_000_000_000, 0), "killed by SIGSEGV", "somebody sent it an hour later");
        assert_eq!(end(1_000_000_000, 1), "killed by SIGSEGV", "another fault, of no record");
    }

    #[test]
    fn the_record_of_the_crash_that_ended_it() {
        let processed = Some(crash(Some(3), &[(8, 9)]));
        assert_eq!(end(processed.clone(), "killed by SIGSEGV"), "killed by SIGSEGV, while processing H:SEGV");
        let core = "killed by SIGSEGV in f, with a core dump";
        let whole = "killed by SIGSEGV in f, while processing H:SEGV, with a core dump";
        assert_eq!(end(processed.clone(), core), whole);
        for other in ["killed by SIGSEGVX", "killed by SIGKILL", "exit status 0", ""] {
            assert_eq!(end(processed.clone(), other), other);
        }
        let seen = Some(crash(None, &[(8, 3), (16, 4)]));
        assert_eq!(end(seen, "killed by SIGSEGV"), "killed by SIGSEGV, with H:SEGV on its stack");
        assert_eq!(end(Some(crash(Some(77), &[])), "killed by SIGSEGV"), "killed by SIGSEGV", "no name");
        assert_eq!(end(None, "killed by SIGSEGV"), "killed by SIGSEGV");
    }
}
