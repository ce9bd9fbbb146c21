//! The threads of a run, each with its stack.
//!
//! A hit asks for its thread many times, and often the next hit is in the same thread: so the latest one asked for is
//! found without a search.

use super::numbered::Numbered;
use super::stack::Thread;
use iocrec_log::event::ThreadId;

/// The threads that have made hits.
#[derive(Default)]
pub struct Threads {
    all: Vec<(ThreadId, Thread)>,
    places: Numbered<ThreadId, usize>,
    /// Place of the latest one that [`Threads::of`] returned.
    latest: usize,
    /// Stands for a thread that has no place, which does not happen.
    nobody: Thread,
}

impl Threads {
    /// Number of threads.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// All threads.
    pub fn iter(&self) -> impl Iterator<Item = (ThreadId, &Thread)> {
        self.all.iter().map(|(id, thread)| (*id, thread))
    }

    /// A thread, if it has made hits.
    pub fn get(&self, id: ThreadId) -> Option<&Thread> {
        self.all.get(self.place(id)?).map(|(_, thread)| thread)
    }

    /// A thread, if it has made hits.
    pub fn get_mut(&mut self, id: ThreadId) -> Option<&mut Thread> {
        let place = self.place(id)?;
        self.all.get_mut(place).map(|(_, thread)| thread)
    }

    /// A thread, which is new if it has made no hits.
    pub fn of(&mut self, id: ThreadId) -> &mut Thread {
        self.latest = self.place(id).unwrap_or_else(|| {
            self.places.insert(id, self.all.len());
            self.all.push((id, Thread::default()));
            self.all.len() - 1
        });
        match self.all.get_mut(self.latest) {
            Some((_, thread)) => thread,
            None => &mut self.nobody,
        }
    }

    /// Forgets the threads that are not `wanted`.
    pub fn retain(&mut self, mut wanted: impl FnMut(&Thread) -> bool) {
        self.all.retain(|(_, thread)| wanted(thread));
        self.places = self.all.iter().enumerate().map(|(place, (id, _))| (*id, place)).collect();
        self.latest = 0;
    }

    fn place(&self, id: ThreadId) -> Option<usize> {
        match self.all.get(self.latest) {
            Some((latest, _)) if *latest == id => Some(self.latest),
            _ => self.places.get(&id).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_keeps_its_own_state() {
        let mut threads = Threads::default();
        assert!(threads.get(3).is_none());
        for id in [7, 3, 9, 3, 7] {
            threads.of(id).last += u64::from(id);
        }
        assert_eq!(threads.len(), 3);
        threads.get_mut(9).unwrap().last = 0;
        threads.retain(|thread| thread.last > 0);
        let mut kept: Vec<(ThreadId, u64)> = threads.iter().map(|(id, thread)| (id, thread.last)).collect();
        kept.sort_unstable();
        assert_eq!(kept, [(3, 6), (7, 14)]);
        assert!(threads.get(9).is_none() && threads.get_mut(9).is_none());
        assert_eq!(threads.of(9).last, 0);
        assert_eq!((threads.of(3).last, threads.len()), (6, 3));
    }
}
