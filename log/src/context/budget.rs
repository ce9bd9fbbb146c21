//! What definitions may cost a reader: memory, and work when an IOC ends.
//!
//! Logs are hostile until they have been read, and many are read at once: the runs of a directory share one budget. It
//! grows with what lies on the disk, so that many hosts can be read together, and what was made small to
//! become huge stays small. A recorder's own context has none but [`MAX_HELD`](super::MAX_HELD).

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

/// Bytes that definitions may take however small the logs are: four times what a big site's box has (100,000 records and
/// 50,000 channels take 20 MiB).
const BASE: usize = 80 << 20;
/// And so many for each byte on the disk.
const PER_BYTE: usize = 2;
/// Things that may be looked at when IOCs and circuits end, one after the other: at the base, and for each fact that is
/// applied. An IOC that ends has all looked through for what is its own; where that comes often and much is
/// defined, it would never end. An IOC that restarts tells more than it has ended.
const BASE_WORK: usize = 500_000_000;
const WORK_PER_FACT: usize = 64;

/// What the contexts of one reader share.
#[derive(Debug)]
pub struct Budget {
    most: usize,
    held: AtomicUsize,
    /// Old ARM processors have no atomic numbers of 64 bits; 4,000,000,000 will do.
    work: AtomicUsize,
}

impl Budget {
    /// For logs that have so many bytes on the disk.
    pub fn new(bytes: u64) -> Arc<Budget> {
        let most = BASE.saturating_add(PER_BYTE.saturating_mul(usize::try_from(bytes).unwrap_or(usize::MAX)));
        Arc::new(Budget { most, held: AtomicUsize::new(0), work: AtomicUsize::new(BASE_WORK) })
    }
}

/// A context's part of a budget, if it has to do with one.
#[derive(Debug, Default)]
pub(super) struct Share {
    of: Option<Arc<Budget>>,
    taken: usize,
}

impl Share {
    pub fn of(budget: &Arc<Budget>) -> Self {
        Share { of: Some(Arc::clone(budget)), taken: 0 }
    }

    /// Takes so many bytes in all, if there are; fewer than before is always possible.
    pub fn take(&mut self, all: usize) -> bool {
        let Some(budget) = &self.of else { return true };
        let others = budget.held.load(Relaxed).saturating_sub(self.taken);
        if all > self.taken && others.saturating_add(all) > budget.most {
            return false;
        }
        budget.held.store(others.saturating_add(all), Relaxed);
        self.taken = all;
        true
    }

    /// A fact was applied.
    pub fn earn(&self) {
        if let Some(budget) = &self.of {
            let work = budget.work.load(Relaxed).saturating_add(WORK_PER_FACT);
            budget.work.store(work, Relaxed);
        }
    }

    /// May so many things be looked at?
    pub fn may_look_at(&self, things: usize) -> bool {
        let Some(budget) = &self.of else { return true };
        let left = budget.work.load(Relaxed).checked_sub(things);
        left.inspect(|left| budget.work.store(*left, Relaxed)).is_some()
    }
}

/// A copy is its maker's affair.
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
