//! What IOCs said, and the record that was being processed then.
//!
//! A line is printed while a record is processed if the thread was below that record's `dbProcess`: its stack pointer
//! says so. It is certain once the record completes in the same call, on the same thread: then `dbProcess` cannot have
//! returned before. An asynchronous record, one that is never seen to complete, and a process that dies leave it likely.

use iocrec_log::event::{ConsoleLeftOut, ConsoleLine, ErrlogCall, GivingUp, RecordId, ThreadId};
use std::collections::HashMap;

/// Lines that wait for their records; a bound for hostile logs.
const MAX_WAITING: usize = 10_000;

/// Something that an IOC said.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A line on its console.
    Line(ConsoleLine),
    /// Lines that are missing.
    LeftOut(ConsoleLeftOut),
    /// A message for errlog, which another thread may print.
    Errlog(ErrlogCall),
    /// A thread ended the process, or gave itself up.
    GaveUp(GivingUp),
}

impl What {
    /// The thread that said it.
    pub fn thread(&self) -> Option<ThreadId> {
        self.place().map(|(thread, _)| thread)
    }

    /// The thread, and its stack pointer.
    pub fn place(&self) -> Option<(ThreadId, i64)> {
        match self {
            What::Line(line) => Some((line.thread, line.sp)),
            What::Errlog(call) => Some((call.thread, call.sp)),
            What::GaveUp(end) => Some((end.thread, end.sp)),
            What::LeftOut(_) => None,
        }
    }
}

/// The record that was being processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct During {
    /// The record.
    pub record: RecordId,
    /// Whether that is certain.
    pub is_certain: bool,
}

/// Something said, with the record that was being processed.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// Monotonic time.
    pub at: u64,
    /// What.
    pub what: What,
    /// During whose processing; `None` if none is known.
    pub during: Option<During>,
}

/// One that waits for its record to complete.
struct Waiting {
    said: Said,
    record: RecordId,
    /// Stack pointer of the record's `dbProcess`.
    sp: i64,
}

/// Finds the records.
#[derive(Default)]
pub struct Sayings {
    waiting: HashMap<ThreadId, Vec<Waiting>>,
    count: usize,
    done: Vec<Said>,
}

impl Sayings {
    /// Whether none waits for its record.
    pub fn is_calm(&self) -> bool {
        self.count == 0
    }

    /// Takes what was said while a record was being processed, the stack pointer of whose `dbProcess` this is.
    pub fn take(&mut self, at: u64, what: What, open: Option<(RecordId, i64)>) {
        let mut said = Said { at, what, during: None };
        match (said.what.thread(), open) {
            (Some(thread), Some((record, sp))) if self.count < MAX_WAITING => {
                self.count += 1;
                self.waiting.entry(thread).or_default().push(Waiting { said, record, sp });
            }
            (_, open) => {
                said.during = open.map(|(record, _)| During { record, is_certain: false });
                self.done.push(said);
            }
        }
    }

    /// A record completes on a thread: `recGblFwdLink` is called with this stack pointer.
    pub fn completes(&mut self, thread: ThreadId, record: RecordId, sp: i64) {
        self.settle(thread, |waiting| (waiting.record == record && sp < waiting.sp).then_some(true));
    }

    /// The functions of a thread at or below this stack pointer have returned.
    pub fn returned(&mut self, thread: ThreadId, sp: i64) {
        self.settle(thread, |waiting| (waiting.sp <= sp).then_some(false));
    }

    /// Nothing more comes.
    pub fn finish(&mut self) {
        for thread in self.waiting.keys().copied().collect::<Vec<_>>() {
            self.settle(thread, |_| Some(false));
        }
    }

    /// What is settled since the last call, not in order of time.
    pub fn settled(&mut self) -> std::vec::Drain<'_, Said> {
        self.done.drain(..)
    }

    /// Settles those of a thread for which the answer tells whether the record is certain.
    fn settle(&mut self, thread: ThreadId, answer: impl Fn(&Waiting) -> Option<bool>) {
        let Some(waiting) = self.waiting.get_mut(&thread) else { return };
        let before = waiting.len();
        for mut settled in waiting.extract_if(.., |waiting| answer(waiting).is_some()) {
            let is_certain = answer(&settled) == Some(true);
            settled.said.during = Some(During { record: settled.record, is_certain });
            self.done.push(settled.said);
        }
        self.count -= before - waiting.len();
        if waiting.is_empty() {
            self.waiting.remove(&thread);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::Output;

    fn line(thread: ThreadId, sp: i64) -> What {
        let (output, text) = (Output::Error, String::new());
        What::Line(ConsoleLine { thread, sp, output, text, cut: 0, is_ended: true })
    }

    fn during(sayings: &mut Sayings) -> Vec<Option<(RecordId, bool)>> {
        let during = |said: Said| said.during.map(|during| (during.record, during.is_certain));
        sayings.settled().map(during).collect()
    }

    #[test]
    fn a_record_that_completes_in_the_same_call_is_certain() {
        let mut sayings = Sayings::default();
        sayings.take(1, line(7, -300), Some((1, -100)));
        assert!(!sayings.is_calm() && during(&mut sayings).is_empty());
        sayings.completes(8, 1, -200);
        sayings.completes(7, 2, -200);
        assert!(during(&mut sayings).is_empty(), "of another thread, another record");
        sayings.completes(7, 1, -200);
        assert_eq!(during(&mut sayings), [Some((1, true))]);
        assert!(sayings.is_calm());
    }

    #[test]
    fn one_that_does_not_is_likely() {
        let mut sayings = Sayings::default();
        sayings.take(1, line(7, -300), Some((1, -100)));
        sayings.returned(7, -110);
        assert!(during(&mut sayings).is_empty(), "a function that it called");
        // it completes later, from a callback
        sayings.completes(7, 1, -50);
        assert!(during(&mut sayings).is_empty());
        sayings.returned(7, -100);
        assert_eq!(during(&mut sayings), [Some((1, false))]);
        sayings.take(2, line(7, -300), Some((1, -100)));
        sayings.finish();
        assert_eq!(during(&mut sayings), [Some((1, false))]);
        sayings.take(3, line(7, -300), None);
        assert_eq!(during(&mut sayings), [None]);
    }

    #[test]
    fn bounded() {
        let mut sayings = Sayings::default();
        for turn in 0..3 * MAX_WAITING as u32 {
            sayings.take(1, line(turn, -300), Some((1, -100)));
        }
        assert_eq!(sayings.settled().count(), 2 * MAX_WAITING);
        sayings.finish();
        assert_eq!(sayings.settled().count(), MAX_WAITING);
    }
}
