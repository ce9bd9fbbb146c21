//! The loaded programs, and what they have counted.

use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::io::{self, Write};

use iocrec_log::event::files::{word, CallKind, KIND_WORDS};
use iocrec_log::event::Tier;
use libbpf_rs::{Link, Object};

use crate::bpf::diagnosis::diagnose;
use crate::bpf::failure::{Failure, Step};
use crate::bpf::load::{attach, load, LoadError};
use crate::bpf::shared::Shared;
use crate::bpf::table::{MapError, Table};
use crate::files::calls::{entry, COMPAT, COMPAT_HERE, NATIVE};
use crate::files::contract::{Descriptor, FileUse, How, Traced, DESCRIPTORS, FILES, OBJECT, TABLE, TRACED};

/// Why the programs are not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The user has chosen a tier without them.
    Tier,
    /// They are not loaded.
    Load(LoadError),
    /// They could not be attached.
    Attach(Failure),
    /// They do not count what this process does itself.
    SelfTest,
}

impl Display for Lack {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Lack::Tier => f.write_str("more needs the ring tier, which --tier leaves out"),
            Lack::Load(why) => why.fmt(f),
            Lack::Attach(why) => write!(f, "the kernel's tracepoints of system calls can't be used: {why}"),
            Lack::SelfTest => f.write_str("the test of the programs for it failed"),
        }
    }
}

/// The programs, loaded and attached.
pub struct Files {
    traced: Table<u32, Traced>,
    descriptors: Table<u64, Descriptor>,
    files: Table<u64, FileUse>,
    /// Dropped before the programs.
    _links: [Link; 2],
    _object: Object,
}

impl Files {
    /// Loads, attaches and tries them. `tiers`: those that the user allows.
    ///
    /// # Errors
    /// They can't be used.
    pub fn open(tiers: &[Tier]) -> Result<Files, Lack> {
        if !tiers.contains(&Tier::Ring) {
            return Err(Lack::Tier);
        }
        let refused =
            |error: io::Error| Lack::Load(LoadError::Refused(diagnose(Step::Buffers, Failure::from(error))));
        let object = load(OBJECT, Tier::Ring, |_| Ok(())).map_err(Lack::Load)?;
        let table: Table<u32, u32> = Table::open(&object, TABLE).map_err(refused)?;
        for (calls, shift) in [(NATIVE, 0), (COMPAT, 16), (COMPAT_HERE, 16)] {
            for call in calls {
                let number = call.0.into();
                let both = table.get(number).unwrap_or(0) | entry(call) << shift;
                // a number that the map doesn't have is left out, and shows in the test
                let _ = table.set(number, both);
            }
        }
        let links = [attach(&object, "exits"), attach(&object, "enters")];
        let [exits, enters] = links;
        let files = Files {
            traced: Table::open(&object, TRACED).map_err(refused)?,
            descriptors: Table::open(&object, DESCRIPTORS).map_err(refused)?,
            files: Table::open(&object, FILES).map_err(refused)?,
            _links: [exits.map_err(Lack::Attach)?, enters.map_err(Lack::Attach)?],
            _object: object,
        };
        if files.is_true().is_some_and(|is_true| is_true) {
            Ok(files)
        } else {
            Err(Lack::SelfTest)
        }
    }

    /// Whether they count a write of this process.
    fn is_true(&self) -> Option<bool> {
        let own = std::process::id();
        self.watch(own, false).ok()?;
        let written = File::create("/dev/null").and_then(|mut file| file.write_all(b"iocrec"));
        let write = CallKind::Write as usize * KIND_WORDS;
        let is_it = |file: FileUse| {
            file.pid == own
                && file.path.starts_with(b"/dev/null\0")
                && file.words.get(write + word::BYTES) == Some(&6)
                && file.closed > 0
        };
        let found = self.ids().into_iter().filter_map(|id| self.file(id)).any(is_it);
        self.forget(own);
        written.ok()?;
        Some(found)
    }

    /// Begins to count for a process. `is_compat`: it has 32 bits, and the kernel 64.
    ///
    /// # Errors
    /// A map is full.
    pub fn watch(&self, pid: u32, is_compat: bool) -> Result<(), MapError> {
        let others = FileUse { id: pid.into(), pid, how: How::Others as u32, ..FileUse::zeroed() };
        self.files.set(pid.into(), others)?;
        self.traced.set(pid, Traced { compat: is_compat.into(), ..Traced::zeroed() })
    }

    /// Counts no more for a process.
    pub fn forget(&self, pid: u32) {
        self.traced.remove(pid);
        for id in self.ids() {
            if self.file(id).is_some_and(|file| file.pid == pid) {
                self.files.remove(id);
            }
        }
        for key in self.descriptors.keys() {
            if (key >> 32) as u32 == pid {
                self.descriptors.remove(key);
            }
        }
    }

    /// State of a process.
    pub fn process(&self, pid: u32) -> Option<Traced> {
        self.traced.get(pid)
    }

    /// All files that there are now.
    pub fn ids(&self) -> Vec<u64> {
        self.files.keys()
    }

    /// A file.
    pub fn file(&self, id: u64) -> Option<FileUse> {
        self.files.get(id)
    }

    /// Gives the place of a file to others.
    pub fn drop_file(&self, id: u64) {
        self.files.remove(id);
    }

    /// Whether a descriptor is still that of a file.
    pub fn is_behind(&self, file: &FileUse) -> bool {
        let key = u64::from(file.pid) << 32 | u64::from(file.fd);
        self.descriptors.get(key).is_some_and(|descriptor| descriptor.id == file.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::not_run::{is_root, not_run, Needs};

    #[test]
    fn they_count_what_this_process_does() {
        if !is_root() {
            return not_run("files::they_count_what_this_process_does", Needs::Root);
        }
        let files = Files::open(&[Tier::Ring]);
        assert!(files.is_ok(), "{:?}", files.err());
        assert_eq!(Files::open(&[]).err(), Some(Lack::Tier));
    }
}
