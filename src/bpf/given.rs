//! The counts of hits that the programs of the perf tier have given to the buffers of each CPU, whether they fitted or
//! not: what has not arrived of them is lost.
//!
//! The kernel itself tells of hits that did not fit only before the next one on the same CPU that does: never, if the
//! thread that made them has moved to another CPU.

use std::io;

use libbpf_rs::{libbpf_sys, Object};

use crate::bpf::contract::{map, Given, Lost};
use crate::bpf::table::Table;

/// Entries of a CPU.
const SORTS: u32 = Lost::Sorts as u32;

/// Number of entries that map `given` needs, for all CPUs that there may ever be.
pub fn entries() -> u32 {
    // SAFETY: the call only reads a file of sysfs; a number below 1 is an error.
    let cpus = unsafe { libbpf_sys::libbpf_num_possible_cpus() };
    u32::try_from(cpus).unwrap_or(1).max(1).saturating_mul(SORTS)
}

/// The map of these counts.
pub struct GivenHits {
    entries: Table<u32, Given>,
}

impl GivenHits {
    /// Opens the map of a loaded object.
    ///
    /// # Errors
    /// It is missing, or there are no more descriptors.
    pub fn open(object: &Object) -> io::Result<GivenHits> {
        Ok(GivenHits { entries: Table::open(object, map::GIVEN)? })
    }

    /// Number of hits of this sort that programs on any CPU have handed over: none too many.
    pub fn count(&self, sort: Lost) -> u64 {
        // GIVEN_PLACE of bpf/hits.h
        let places = (sort as u32..self.entries.entries()).step_by(SORTS as usize);
        places.filter_map(|place| self.entry(place)).fold(0, u64::wrapping_add)
    }

    fn entry(&self, place: u32) -> Option<u64> {
        let count = || Some(self.entries.get(place)?.count);
        let first = count()?;
        // a 32-bit kernel adds to the two halves one after the other
        Some(if cfg!(target_pointer_width = "32") { first.min(count()?) } else { first })
    }
}
