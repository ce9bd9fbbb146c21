//! Limits the cost of definitions for a reader: memory, and work when an IOC ends.
//!
//! Logs count as hostile until they have been read, and many are read at once: the runs of a directory share one
//! budget. It grows with the size of the logs, so that many hosts can be read together, yet a small file can't unpack
//! to something huge. A recorder's own context has no limit but [`MAX_HELD`](super::MAX_HELD).

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

/// Bytes that the definitions of logs of any size may take: four times those of a big site's box (100,000 records and
/// 50,000 channels take 20 MiB).
const BASE: usize = 80 << 20;
/// Number of further bytes for each byte of the logs.
const PER_BYTE: usize = 2;
/// Number of definitions that may be examined when IOCs and circuits end: at the start, and in addition for each
/// applied fact. When an IOC ends, all definitions are searched for its own; a log with many definitions and many ends
/// would take for ever. An IOC that restarts defines more than it has ended.
const BASE_WORK: usize = 500_000_000;
const WORK_PER_FACT: usize = 64;

/// The limit that the contexts of one reader share.
#[derive(Debug)]
pub struct Budget {
    max_held: usize,
    held: AtomicUsize,
    /// Old ARM processors have no 64-bit atomics; a maximum of 4,000,000,000 is enough.
    work: AtomicUsize,
}

impl Budget {
    /// Makes a budget for logs of this size, in bytes.
    pub fn new(bytes: u64) -> Arc<Budget> {
        let max_held =
            BASE.saturating_add(PER_BYTE.saturating_mul(usize::try_from(bytes).unwrap_or(usize::MAX)));
        Arc::new(Budget { max_held, held: AtomicUsize::new(0), work: AtomicUsize::new(BASE_WORK) })
    }
}

/// A context's part of a budget, if it has one.
#[derive(Debug, Default)]
pub(super) struct Share {
    of: Option<Arc<Budget>>,
    taken: usize,
}

impl Share {
    pub fn of(budget: &Arc<Budget>) -> Self {
        Share { of: Some(Arc::clone(budget)), taken: 0 }
    }

    /// Sets the total to `all` bytes, if the budget has them. Fewer than before always succeeds.
    pub fn take(&mut self, all: usize) -> bool {
        let Some(budget) = &self.of else { return true };
        let others = budget.held.load(Relaxed).saturating_sub(self.taken);
        if all > self.taken && others.saturating_add(all) > budget.max_held {
            return false;
        }
        budget.held.store(others.saturating_add(all), Relaxed);
        self.taken = all;
        true
    }

    /// Notes that a fact was applied.
    pub fn earn(&self) {
        if let Some(budget) = &self.of {
            let work = budget.work.load(Relaxed).saturating_add(WORK_PER_FACT);
            budget.work.store(work, Relaxed);
        }
    }

    /// Takes the work of examining this many definitions, if the budget has it.
    pub fn may_look_at(&self, count: usize) -> bool {
        let Some(budget) = &self.of else { return true };
        let left = budget.work.load(Relaxed).checked_sub(count);
        left.inspect(|left| budget.work.store(*left, Relaxed)).is_some()
    }
}

/// A copy has no share of the budget.
impl Clone for Share {
    fn clone(&self) -> Self {
        Share::default()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.take(0);
    }
}
