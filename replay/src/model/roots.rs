//! The records with which the chains of a record begin, as far as they were seen: where chain sampling leaves out chains of
//! one of them, the record may have processed unseen.
//!
//! Sampling keeps the first chain of each record in each window (`bpf/chains.h`), so a record that begins chains always
//! is seen to do so, and what processes in all of them is known. What processes in some of them only, by a condition, may
//! be missing here.

use std::borrow::Borrow;

/// Roots held of a record: scans, inputs and processing by hand are few. With more, any may be one.
const MOST: usize = 16;

/// The records with which the chains of a record were seen to begin.
#[derive(Clone)]
pub struct Roots<Root>(Vec<Root>);

impl<Root> Default for Roots<Root> {
    fn default() -> Self {
        Roots(Vec::new())
    }
}

impl<Root: PartialEq> Roots<Root> {
    /// Notes one.
    pub fn note(&mut self, root: Root) {
        if self.0.len() <= MOST && !self.0.contains(&root) {
            self.0.push(root);
        }
    }

    /// Whether there are more than it holds: any may be one.
    pub fn is_full(&self) -> bool {
        self.0.len() > MOST
    }

    /// Whether a chain of the record may begin with this one.
    pub fn may_be<As>(&self, root: &As) -> bool
    where
        Root: Borrow<As>,
        As: PartialEq + ?Sized,
    {
        self.is_full() || self.0.iter().any(|known| known.borrow() == root)
    }

    /// Those that were seen.
    pub fn iter(&self) -> impl Iterator<Item = &Root> {
        self.0.iter()
    }
}
