//! What the threads of a process did, by its chains.

use crate::answers::processes::Processes;
use crate::model::chain::{PutSpan, Span};
use crate::model::origins::Wording;
use crate::model::run::{ioc_of_circuit, record_name, Run};
use iocrec_log::event::{IocId, RecordId, ThreadId};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

/// Threads remembered; a bound for hostile logs.
const MAX_THREADS: usize = 10_000;
/// Names of records at hand; with more, they are looked up again. There may be 100,000 records.
const MAX_NAMES: usize = 5_000;
/// Records remembered that were not seen to complete; a bound for hostile logs.
const MAX_BEGUN: usize = 100_000;

/// What the threads of one name did.
#[derive(Clone, Debug, Default)]
pub struct ThreadLine {
    /// Their name.
    pub name: String,
    /// Their number, as far as they did anything; one that several recorders saw is one.
    pub threads: usize,
    /// Wall-clock time of the last thing that one of them was seen to do, and its record.
    pub last: i64,
    /// See `last`.
    pub record: String,
    /// Records processed in the minute, and before it.
    pub in_minute: u64,
    /// See `in_minute`.
    pub before: u64,
}

/// A walk through the chains, with what it learns of threads.
pub(super) struct Walk<'a> {
    processes: &'a Processes,
    number: usize,
    /// Whether an IOC of a run is the process.
    owners: HashMap<(usize, IocId), bool>,
    threads: HashMap<(usize, ThreadId), Did>,
    /// Names of records: the definitions may have ended when they are printed.
    names: HashMap<(usize, RecordId), Rc<str>>,
    /// Records that began to process and were not seen to complete.
    begun: HashSet<(usize, RecordId)>,
    pub(super) wording: Wording,
}

/// What a thread did, as one recorder saw it.
struct Did {
    name: String,
    /// Its number in the kernel, by which the threads of several recorders are told apart.
    tid: Option<u32>,
    last: i64,
    record: Option<Rc<str>>,
    in_minute: u64,
    before: u64,
}

impl<'a> Walk<'a> {
    /// A walk in which nothing was met yet. `number`: the process, of all of them.
    pub(super) fn new(processes: &'a Processes, number: usize, wording: Wording) -> Self {
        let (owners, threads, names) = (HashMap::new(), HashMap::new(), HashMap::new());
        Walk { processes, number, owners, threads, names, begun: HashSet::new(), wording }
    }

    /// Notes that a record of a run has begun and was not seen to complete.
    pub(super) fn begins(&mut self, record: (usize, RecordId)) {
        if self.begun.len() < MAX_BEGUN {
            self.begun.insert(record);
        }
    }

    /// Whether it ever did.
    pub(super) fn has_begun(&self, record: (usize, RecordId)) -> bool {
        self.begun.contains(&record)
    }

    fn is_process(&mut self, run: &Rc<Run>, ioc: IocId) -> bool {
        let (processes, number) = (self.processes, self.number);
        let key = (Rc::as_ptr(run) as usize, ioc);
        *self.owners.entry(key).or_insert_with(|| {
            let of = run.peers().map(|(_, of)| of);
            processes.number(of, &run.context(), ioc) == Some(number)
        })
    }

    /// Whether a thread is one of the process.
    pub(super) fn is_own(&mut self, run: &Rc<Run>, thread: ThreadId) -> bool {
        let ioc = run.context().thread(thread).map(|thread| thread.ioc);
        ioc.is_some_and(|ioc| self.is_process(run, ioc))
    }

    /// Whether a put was made to the process.
    pub(super) fn is_own_put(&mut self, run: &Rc<Run>, span: &Span, put: &PutSpan) -> bool {
        if let Some(thread) = span.thread {
            return self.is_own(run, thread);
        }
        let Some(packet) = &put.packet else { return false };
        let ioc = ioc_of_circuit(&run.context(), packet.circuit).map(|ioc| ioc.id);
        ioc.is_some_and(|ioc| self.is_process(run, ioc))
    }

    /// Notes that a thread did something. `in_minute`: whether it processed a record in the minute, or before it.
    pub(super) fn did(
        &mut self,
        run: &Rc<Run>,
        thread: ThreadId,
        time: i64,
        record: Option<RecordId>,
        in_minute: Option<bool>,
    ) {
        let key = (Rc::as_ptr(run) as usize, thread);
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&key) {
            return;
        }
        let names = &mut self.names;
        if names.len() >= MAX_NAMES {
            names.clear();
        }
        let record = record.map(|record| {
            let name = || record_name(&run.context(), record).into();
            Rc::clone(names.entry((key.0, record)).or_insert_with(name))
        });
        let did = self.threads.entry(key).or_insert_with(|| {
            let context = run.context();
            let thread = context.thread(thread);
            Did {
                name: thread.map(|thread| thread.name.clone()).unwrap_or_default(),
                tid: thread.map(|thread| thread.tid),
                last: time,
                record: None,
                in_minute: 0,
                before: 0,
            }
        });
        if time >= did.last {
            did.last = time;
            did.record = record.or(did.record.take());
        }
        match in_minute {
            Some(true) => did.in_minute += 1,
            Some(false) => did.before += 1,
            None => {}
        }
    }

    /// The threads by name, the last to do something first.
    pub(super) fn lines(self) -> Vec<ThreadLine> {
        let mut names: BTreeMap<String, ThreadLine> = BTreeMap::new();
        let mut counted = HashSet::new();
        for did in self.threads.into_values() {
            let line = names.entry(did.name.clone()).or_default();
            // each recorder numbers the threads anew
            if did.tid.is_none_or(|tid| counted.insert((did.name.clone(), tid))) {
                line.threads += 1;
            }
            line.name = did.name;
            line.in_minute += did.in_minute;
            line.before += did.before;
            if did.last >= line.last {
                line.last = did.last;
                line.record = did.record.as_deref().unwrap_or_default().to_owned();
            }
        }
        let mut lines: Vec<ThreadLine> = names.into_values().collect();
        lines.sort_by_key(|line| std::cmp::Reverse(line.last));
        lines
    }
}
