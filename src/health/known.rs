//! The threads that pieces tell of: their names, and their numbers in the log.
//!
//! A piece may tell of a thread that has ended meanwhile, so its name is kept until nothing tells of it. Then its number
//! is free for another: an IOC whose clients come and go for years does not use up numbers, nor does its log keep their
//! names.

use std::collections::BTreeMap;

use crate::health::threads::Thread;

/// Threads that are remembered: those that are watched at most, and those that ended within a minute.
const MAX: usize = 1024;

/// A thread that pieces may tell of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its number in the kernel.
    pub tid: u32,
    /// Its start, nanoseconds after boot; 0 if unknown.
    pub start: u64,
    /// Its name.
    pub name: String,
    /// Its number in the log; 0 if it has none.
    id: u32,
    /// Whether the log has it with this name.
    told: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Known {
    all: BTreeMap<u32, Named>,
    free: Vec<u32>,
}

impl Known {
    /// Whether another thread of this number is remembered.
    pub fn is_another(&self, thread: &Thread) -> bool {
        self.all.get(&thread.tid).is_some_and(|known| known.start != thread.start)
    }

    /// Remembers a thread. False if there are too many.
    pub fn note(&mut self, thread: &Thread) -> bool {
        let full = self.all.len() >= MAX;
        let &Thread { tid, start, ref name, .. } = thread;
        match self.all.get_mut(&tid) {
            Some(known) if known.start == start && known.name == *name => true,
            Some(known) => {
                (known.start, known.told) = (start, false);
                known.name.clone_from(name);
                true
            }
            None if full => false,
            None => {
                self.all.insert(tid, Named { tid, start, name: name.clone(), id: 0, told: false });
                true
            }
        }
    }

    /// The number in the log of a thread that was noted. `new` makes one. With the thread if the log does not have it so.
    pub fn id(&mut self, tid: u32, new: &mut dyn FnMut() -> u32) -> Option<(u32, Option<Named>)> {
        let known = self.all.get_mut(&tid)?;
        if known.id == 0 {
            known.id = self.free.pop().unwrap_or_else(new);
        }
        let told = std::mem::replace(&mut known.told, true);
        Some((known.id, (!told).then(|| known.clone())))
    }

    /// Forgets the others.
    pub fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        let free = &mut self.free;
        self.all.retain(|&tid, known| {
            let kept = keep(tid);
            if !kept && known.id != 0 {
                free.push(known.id);
            }
            kept
        });
    }
}
