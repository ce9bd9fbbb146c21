//! Finds IOCs among the processes.
//!
//! An IOC is a process that has mapped code with the global symbols `pdbbase` and `dbProcess`: a program with EPICS
//! Base in it, or a shared libdbCore (3.14: libdbIoc and others). Without `pdbbase`, a process counts as an IOC if its
//! program holds Base ([`stripped`](crate::ioc::stripped)) and a plausible record database.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::{fmt, io};

use crate::ioc::copies::ForkedCopy;
use crate::ioc::files::{files, MappedFile};
use crate::ioc::layout::LayoutError;
use crate::ioc::module::Module;
use crate::ioc::offsets::Generation;
use crate::ioc::process::IocProcess;
use crate::ioc::{copies, functions, queues, standing, stripped, translated, version};
use crate::linux::elf::Elf;
use crate::linux::memory::Memory;
use crate::linux::opened::{Identity, Opened};
use crate::linux::process;

/// Variables to read.
const VARIABLES: [&str; 6] =
    ["pdbbase", "clientQ", "environ", "__environ", "ca_server_port", "prsrv_cast_client"];
/// Bytes of programs' constants read at once, and then each second: reading those of all programs of a machine from an
/// SD card must not be noticeable.
const CONSTANTS_AT_ONCE: u64 = 64 << 20;
const CONSTANTS_A_SECOND: u64 = 4 << 20;
/// Most files remembered: a machine's programs map some hundreds.
const MAX_FILES: usize = 4096;

/// Cached facts about a file.
struct Known {
    /// `None` if it cannot be read or is not an ELF file.
    elf: Option<Arc<Elf>>,
    /// Whether it holds EPICS Base, though it does not define `pdbbase`; `None` if its constants were not searched.
    has_base: Option<bool>,
}

/// Reason why a process that looks like an IOC is not accepted as one.
#[derive(Debug)]
pub enum Refusal {
    /// It has `pdbbase`, but neither `dbProcess` nor a record database.
    NoDatabase(LayoutError),
    /// A file that it has mapped could not be read.
    File {
        /// Path of the file.
        path: String,
        /// Reason.
        error: io::Error,
    },
    /// It was forked from an IOC and runs none of its own.
    Copy(ForkedCopy),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoDatabase(error) => {
                write!(f, "it has the symbol pdbbase, but no dbProcess and no record database: {error}")
            }
            Refusal::File { path, error } => write!(f, "{path}: {error}"),
            Refusal::Copy(copy) => copy.fmt(f),
        }
    }
}

impl std::error::Error for Refusal {}

/// Finds IOCs. Remembers the files that it has read for as long as a process has them mapped.
pub struct Finder {
    files: HashMap<Identity, Known>,
    /// Files that each process had mapped when it was last examined.
    mapped: HashMap<u32, Vec<Identity>>,
    /// Bytes of constants that may still be read.
    constants_left: u64,
    /// Processes that may still turn out to be IOCs: `constants_left` did not suffice to search their programs, or the
    /// programs hold EPICS Base but no record database yet, or one that is not whole yet.
    undecided: HashSet<u32>,
    /// Reasons for which processes that look like IOCs were refused when they were last examined.
    refused: HashMap<u32, Refusal>,
}

impl Default for Finder {
    fn default() -> Finder {
        Finder {
            files: HashMap::new(),
            mapped: HashMap::new(),
            constants_left: CONSTANTS_AT_ONCE,
            undecided: HashSet::new(),
            refused: HashMap::new(),
        }
    }
}

impl Finder {
    /// Examines a process. Returns `Ok(None)` if it is not an IOC.
    ///
    /// # Errors
    /// It has ended, or access to it is denied.
    pub fn look(&mut self, pid: u32) -> io::Result<Option<IocProcess>> {
        self.refused.remove(&pid);
        let mappings = process::mappings(pid)?;
        let files = files(pid, &mappings)?;
        self.undecided.remove(&pid);
        let mut modules = self.modules(pid, &files);
        let defined = |modules: &[Module], name| modules.iter().any(|module| module.defines(name));
        let mut database = None;
        if !defined(&modules, "pdbbase") {
            let Some(program) = self.program(pid, &files) else { return Ok(None) };
            database = find_base(pid, &program);
            if database.is_none() {
                self.undecided.insert(pid);
                return Ok(None);
            }
            modules.retain(|module| module.file != program.file);
            modules.insert(0, program);
        }
        let start = process::known_start(pid)?;
        let mut ioc = IocProcess::read(pid, start, modules, database);
        ioc.is_translated = self.is_translated(pid, &ioc, &files);
        if let Some(copy) = copies::copy(&ioc) {
            self.refused.insert(pid, Refusal::Copy(copy));
            return Ok(None);
        }
        // programs other than IOCs may have a database of definitions alone
        match ioc.layout {
            Err(error) if !defined(&ioc.modules, "dbProcess") => {
                self.refused.insert(pid, Refusal::NoDatabase(error));
                // a small database fits into memory that the process has already
                self.undecided.insert(pid);
                Ok(None)
            }
            _ => Ok(Some(ioc)),
        }
    }

    /// Reason for which a process that looks like an IOC was refused when it was last examined; `None` if it does not
    /// look like one.
    pub fn why_refused(&self, pid: u32) -> Option<&Refusal> {
        self.refused.get(&pid)
    }

    /// Lets the next examination read a program's constants, however many were read before.
    pub fn allow_constants(&mut self) {
        self.constants_left = self.constants_left.max(CONSTANTS_A_SECOND);
    }

    /// Call this each second with the live processes. Forgets the others, and files that no process has mapped.
    pub fn tick(&mut self, pids: &HashSet<u32>) {
        self.allow_constants();
        self.undecided.retain(|pid| pids.contains(pid));
        self.refused.retain(|pid, _| pids.contains(pid));
        let before = self.mapped.len();
        self.mapped.retain(|pid, _| pids.contains(pid));
        if self.mapped.len() < before {
            self.forget_unmapped();
        }
    }

    /// Whether a process that is not an IOC so far must be examined again, though it has not changed.
    pub fn is_undecided(&self, pid: u32) -> bool {
        self.undecided.contains(&pid)
    }

    /// Whether a program within the process carries out its code in translation.
    fn is_translated(&self, pid: u32, ioc: &IocProcess, files: &[MappedFile]) -> bool {
        let exe = process::link(pid, "exe");
        let file = files.iter().find(|file| file.code.path == exe);
        let known = file.and_then(|file| self.files.get(&file.named.identity)?.elf.clone());
        // it was forgotten meanwhile, if those of too many files are known
        let read = || Some(Arc::new(Elf::read(&file?.open(pid).ok()?, &[]).ok()?));
        let elf = known.or_else(read);
        let has_base = |module: &Module| module.is_program && module.is_of_base_itself();
        let has_base = ioc.is_stripped() || ioc.modules.iter().any(has_base);
        let paths = files.iter().map(|file| file.code.path.as_str());
        translated::is_translated(elf.as_deref().map(|elf| (elf, exe.as_str())), has_base, paths)
    }

    fn forget_unmapped(&mut self) {
        let mapped: HashSet<Identity> = self.mapped.values().flatten().copied().collect();
        self.files.retain(|identity, _| mapped.contains(identity));
    }

    /// The program of a process, if it holds EPICS Base.
    fn program(&mut self, pid: u32, files: &[MappedFile]) -> Option<Module> {
        let exe = process::link(pid, "exe");
        files.iter().find_map(|file| {
            let known = self.files.get(&file.named.identity)?;
            // the dynamic linker may have been started by name, with the program as its argument
            let may_be = file.code.path == exe || known.elf.as_ref()?.has_interpreter;
            if may_be {
                self.with_base(pid, file)
            } else {
                None
            }
        })
    }

    /// A file as the program of a process, if it holds EPICS Base.
    fn with_base(&mut self, pid: u32, file: &MappedFile) -> Option<Module> {
        let known = self.files.get_mut(&file.named.identity)?;
        let mut elf = known.elf.clone()?;
        if known.has_base == Some(false) {
            return None;
        }
        let opened = file.open(pid).ok()?;
        if known.has_base.is_none() {
            let bytes = elf.constants().map_or(0, |(_, bytes)| bytes);
            if self.constants_left == 0 {
                self.undecided.insert(pid);
                return None;
            }
            self.constants_left = self.constants_left.saturating_sub(bytes);
            let has_base = stripped::has_base(&opened, &elf);
            // what was not found may be in what could not be read
            if !has_base && !opened.is_unchanged() {
                self.undecided.insert(pid);
                return None;
            }
            known.has_base = Some(has_base);
            if has_base {
                let mut more = (*elf).clone();
                read_more(&opened, &mut more);
                elf = Arc::new(more);
                known.elf = Some(elf.clone());
            }
        }
        known.has_base.filter(|&has_base| has_base)?;
        file.module(opened, elf, &file.code.path)
    }

    /// Files that define any of the symbols sought.
    fn modules(&mut self, pid: u32, files: &[MappedFile]) -> Vec<Module> {
        let mut wanted: Vec<&'static str> = functions::symbols().collect();
        wanted.extend(VARIABLES);
        wanted.extend(Generation::symbols());
        wanted.push(version::CORE_RELEASE);
        wanted.extend(standing::SUSPEND);
        wanted.push(queues::STATUS);
        wanted.extend(functions::symbols_of_c_library());
        wanted.push(functions::OF_GLIBC);
        self.mapped.insert(pid, files.iter().map(|file| file.named.identity).collect());
        if self.files.len() > MAX_FILES {
            self.forget_unmapped();
        }
        let exe = process::link(pid, "exe");
        let mut modules: Vec<Module> = files
            .iter()
            .filter_map(|file| {
                let identity = file.named.identity;
                let mut opened = None;
                if !self.files.contains_key(&identity) {
                    opened = self.read_file(pid, file, &wanted);
                }
                let elf = self.files.get(&identity)?.elf.as_ref()?;
                wanted.iter().find(|name| elf.symbol(name).is_some())?;
                file.module(opened.or_else(|| file.open(pid).ok())?, elf.clone(), &exe)
            })
            .collect();
        // the order in which ld.so resolves: the program's copy of a library's variable is the live one
        modules.sort_by_key(|module| (!module.is_program, module.range));
        modules
    }

    /// Reads the symbols of a file. A file that cannot be read through this process is not remembered, since it may be
    /// readable through another; this process is examined again.
    fn read_file(&mut self, pid: u32, file: &MappedFile, wanted: &[&'static str]) -> Option<Opened> {
        let read = file.open(pid).and_then(|opened| {
            let mut elf = Elf::read(&opened, wanted).ok();
            if let Some(elf) = elf.as_mut().filter(|elf| elf.symbol("pdbbase").is_some()) {
                read_more(&opened, elf);
            }
            if let Some(elf) = elf.as_mut().filter(|elf| elf.symbol(queues::STATUS).is_some()) {
                // without them the queues are unknown
                let _ = elf.read_private(&opened, &queues::VARIABLES);
            }
            if opened.is_unchanged() {
                Ok((opened, elf))
            } else {
                Err(io::Error::other("the file is being changed"))
            }
        });
        match read {
            Ok((opened, elf)) => {
                if self.files.len() >= 2 * MAX_FILES {
                    self.files.clear();
                }
                let known = Known { elf: elf.map(Arc::new), has_base: None };
                self.files.insert(file.named.identity, known);
                Some(opened)
            }
            Err(error) => {
                // access that is denied now will still be denied in a second
                if error.kind() != io::ErrorKind::PermissionDenied {
                    self.undecided.insert(pid);
                }
                self.refused.insert(pid, Refusal::File { path: file.code.path.clone(), error });
                None
            }
        }
    }
}

/// Reads what local symbols say of a file that holds, or shows, EPICS Base. What they lack stays unknown.
fn read_more(opened: &Opened, elf: &mut Elf) {
    let mut names = vec![functions::OF_MUSL];
    if elf.symbol("dbProcess").is_none() {
        names.extend(functions::symbols());
    }
    let _ = elf.note_local(opened, &names);
    // in a static glibc these are hidden, and this name is its own
    let of_c_library: Vec<&'static str> = functions::symbols_of_c_library().collect();
    let _ = elf.read_local(opened, &["__libc_write"], &of_c_library);
}

/// Searches the variables of a program for the one that points to the record database.
fn find_base(pid: u32, program: &Module) -> Option<u64> {
    let memory = Memory::of(pid, program.width());
    let here = |(start, end): (u64, u64)| (start.wrapping_add(program.bias), end.wrapping_add(program.bias));
    let variables: Vec<(u64, u64)> = program.elf.variables().map(here).collect();
    stripped::find_base(pid, &memory, &variables)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::reader::{use_reader_process, Inspection};
    use std::time::Duration;

    /// A program may be on a server that answers late, or its process have used up the time for it.
    #[test]
    fn a_program_that_could_not_be_read_is_searched_again() {
        let work = || {
            use_reader_process();
            let own = std::process::id();
            let inspect = |bytes| Inspection::begin(own, bytes, Duration::from_secs(60));
            let all = inspect(u64::MAX);
            let exe = process::link(own, "exe");
            let mappings = process::mappings(own).unwrap();
            let files = files(own, &mappings).unwrap();
            let program = files.iter().find(|file| file.code.path == exe).unwrap();
            let mut finder = Finder::default();
            finder.modules(own, &files);
            drop(all);
            let is_known = |finder: &Finder| finder.files[&program.named.identity].has_base.is_some();
            // enough to open it, less than its constants
            let part = inspect(128 << 10);
            assert!(finder.with_base(own, program).is_none());
            assert!(!is_known(&finder));
            assert!(finder.is_undecided(own));
            drop(part);
            let _all = inspect(u64::MAX);
            finder.with_base(own, program);
            assert!(is_known(&finder));
        };
        std::thread::spawn(work).join().unwrap();
    }
}
