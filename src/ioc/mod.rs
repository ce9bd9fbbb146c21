//! IOCs: finding them among the processes, and knowing them from outside.
//!
//! An IOC is a process that maps code with the global symbols `pdbbase` and `dbProcess`: a program
//! with EPICS Base in it or a shared libdbCore (3.14: libdbIoc and others). Where one of them is missing, a process
//! counts whose program has Base in it ([`stripped`]) and a record database that makes sense. Nothing in it is
//! changed or stopped; whatever is read from it is checked before it is believed.

pub mod channels;
pub mod clients;
pub mod environment;
pub mod fields;
pub mod functions;
#[cfg(test)]
pub(crate) mod image;
pub mod layout;
pub mod ports;
pub mod records;
pub mod redact;
pub mod scanning;
pub mod script;
pub mod stripped;
pub mod threads;
pub mod version;

use crate::linux::{machine, opened, process};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::io;
use std::sync::Arc;

use iocrec_log::event::Linkage;

use crate::ioc::layout::{Fixed, Layout, Numbering};
use crate::linux::elf::{Elf, Symbol};
use crate::linux::memory::Memory;
use crate::linux::opened::{Identity, Named, Opened};
use crate::linux::process::Mapping;
use crate::linux::width::Width;
use crate::linux::FileId;

/// Data symbols that are read.
const DATA: [&str; 6] = ["pdbbase", "clientQ", "environ", "__environ", "ca_server_port", "prsrv_cast_client"];
/// Prints Base's version: what defines it holds the version as text (3.14: libmiscIoc).
const CORE_RELEASE: &str = "coreRelease";
/// Its absence tells Base 3.14.
const DB_CHANNEL: &str = "dbChannelCreate";

/// Why nothing of a process is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unprobed {
    /// It is a 32-bit process on a 64-bit kernel: the programs are made for the kernel's own width of pointers. (x86_64
    /// kernels from 4.15 to 5.3 would kill it at the first hit, and arm64 kernels refuse.)
    Process32Bit,
    /// It is a 64-bit process, and this program is a 32-bit one.
    Process64Bit,
}

impl fmt::Display for Unprobed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unprobed::Process32Bit => {
                "a 32-bit process on a 64-bit kernel: its records are named, but only 64-bit processes are probed there"
            }
            Unprobed::Process64Bit => {
                "a 64-bit process, whose memory a 32-bit iocrec cannot read: use the 64-bit one"
            }
        })
    }
}

/// A program or library of an IOC, as mapped.
#[derive(Clone, Debug)]
pub struct Module {
    /// Which file.
    pub file: FileId,
    /// It itself, as it was opened once.
    pub opened: Arc<Opened>,
    /// Where its code is in the process.
    code: Vec<Mapping>,
    /// It is the program that the process runs.
    is_program: bool,
    /// Its name in the process, for people.
    pub path: String,
    /// Its symbols.
    pub elf: Arc<Elf>,
    /// What to add to its addresses.
    pub bias: u64,
    /// Where its mappings begin and end.
    pub range: (u64, u64),
}

/// An IOC process.
#[derive(Clone, Debug)]
pub struct IocProcess {
    /// Process id.
    pub pid: u32,
    /// Start, nanoseconds after boot.
    pub start: u64,
    /// Its name.
    pub name: String,
    /// Version of EPICS Base; empty where not known.
    pub base_version: String,
    /// Variables of its environment that say what it is, in alphabetical order.
    pub environment: Vec<(String, String)>,
    /// Where its record code is.
    pub linkage: Linkage,
    /// Its memory.
    pub memory: Memory,
    /// What defines the symbols, the program first.
    pub modules: Vec<Module>,
    /// Address of the variable that points to its record database, where it has no symbol and had to be
    /// searched for.
    database: Option<u64>,
    /// Its record layout, or why it could not be read.
    pub layout: Result<Layout, String>,
    /// Offsets that depend on the version.
    pub fixed: Fixed,
}

/// Constants of programs that are read at once, and then in every second, bytes: reading those of all programs of a
/// machine from an SD card is not to be felt.
const CONSTANTS_AT_ONCE: u64 = 64 << 20;
const CONSTANTS_A_SECOND: u64 = 4 << 20;

/// Files that are remembered at most: a machine's programs map some hundreds.
const MOST_FILES: usize = 4096;

/// What was found in a file.
struct Known {
    /// `None`: cannot be read, or is no ELF file.
    elf: Option<Arc<Elf>>,
    /// Is EPICS Base in it, though it does not define `pdbbase`? `None`: its constants were not looked into.
    has_base: Option<bool>,
}

/// Finds IOCs; remembers the files that it has looked into, as long as a process has them mapped.
pub struct Finder {
    files: HashMap<Identity, Known>,
    /// The files that a process had mapped when it was looked at.
    mapped: HashMap<u32, Vec<Identity>>,
    /// Constants of programs that may still be read.
    left: u64,
    /// Processes that may be IOCs all the same: their programs were not looked into for this, or have EPICS Base
    /// in them and no record database yet.
    undecided: HashSet<u32>,
    /// Why processes that look like IOCs were not taken for some when they were looked at.
    refused: HashMap<u32, String>,
}

impl Default for Finder {
    fn default() -> Finder {
        Finder {
            files: HashMap::new(),
            mapped: HashMap::new(),
            left: CONSTANTS_AT_ONCE,
            undecided: HashSet::new(),
            refused: HashMap::new(),
        }
    }
}

impl Finder {
    /// Looks at a process. `Ok(None)`: it is no IOC.
    ///
    /// # Errors
    /// It is gone or may not be looked at, in words.
    pub fn look(&mut self, pid: u32) -> Result<Option<IocProcess>, String> {
        let gone = |e: std::io::Error| match e.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => format!("there is no process {pid}"),
            _ => format!("process {pid}: {e}"),
        };
        self.refused.remove(&pid);
        let mappings = process::mappings(pid).map_err(gone)?;
        let files = files(pid, &mappings);
        let mut modules = self.modules(pid, &files);
        let defined =
            |modules: &[Module], name| modules.iter().any(|module| module.elf.symbol(name).is_some());
        let mut database = None;
        if !defined(&modules, "pdbbase") {
            let Some(program) = self.program(pid, &files) else { return Ok(None) };
            database = program.find_base(pid);
            if database.is_none() {
                self.undecided.insert(pid);
                return Ok(None);
            }
            modules.retain(|module| module.file != program.file);
            modules.insert(0, program);
        }
        let Some(start) = process::start(pid) else { return Ok(None) };
        let ioc = describe(pid, start, modules, database);
        // others than IOCs may have a database of definitions alone
        match &ioc.layout {
            Err(reason) if !defined(&ioc.modules, "dbProcess") => {
                let why =
                    format!("it has the symbol pdbbase, but no dbProcess and no record database: {reason}");
                self.refused.insert(pid, why);
                Ok(None)
            }
            _ => Ok(Some(ioc)),
        }
    }

    /// Why a process that looks like an IOC was not taken for one when it was last looked at; `None` if it doesn't
    /// look like one.
    pub fn why_refused(&self, pid: u32) -> Option<&str> {
        self.refused.get(&pid).map(String::as_str)
    }

    /// The next process's constants may be read even if those of the ones before were many: for who looks once.
    pub fn one_more(&mut self) {
        self.left = self.left.max(CONSTANTS_A_SECOND);
    }

    /// A second has passed, and these processes live.
    pub fn tick(&mut self, pids: &HashSet<u32>) {
        self.left = self.left.max(CONSTANTS_A_SECOND);
        self.undecided.retain(|pid| pids.contains(pid));
        self.refused.retain(|pid, _| pids.contains(pid));
        let before = self.mapped.len();
        self.mapped.retain(|pid, _| pids.contains(pid));
        if self.mapped.len() < before {
            self.forget_unused();
        }
    }

    /// Forgets the files that no process has mapped that was looked at.
    fn forget_unused(&mut self) {
        let used: HashSet<Identity> = self.mapped.values().flatten().copied().collect();
        self.files.retain(|identity, _| used.contains(identity));
    }

    /// Should a process that was found to be no IOC be looked at again, though it has not changed?
    pub fn is_undecided(&self, pid: u32) -> bool {
        self.undecided.contains(&pid)
    }

    /// The program of a process, if EPICS Base is in it.
    fn program(&mut self, pid: u32, files: &[MappedFile]) -> Option<Module> {
        let exe = process::link(pid, "exe");
        let file = files.iter().find(|file| file.code.path == exe)?;
        let known = self.files.get_mut(&file.named.identity)?;
        let elf = known.elf.clone()?;
        self.undecided.remove(&pid);
        if known.has_base == Some(false) {
            return None;
        }
        let opened = file.open(pid).ok()?;
        if known.has_base.is_none() {
            let bytes = elf.constants().map_or(0, |(_, bytes)| bytes);
            if self.left == 0 {
                self.undecided.insert(pid);
                return None;
            }
            self.left = self.left.saturating_sub(bytes);
            known.has_base = Some(stripped::has_base(&opened, &elf));
        }
        known.has_base.filter(|&has_base| has_base)?;
        file.module(opened, elf, &exe)
    }

    /// What an IOC's record layout is now, if it was not to be read before.
    pub fn layout_again(&self, ioc: &mut IocProcess) {
        ioc.layout = read_layout(&ioc.memory, &ioc.modules, ioc.database);
    }

    /// Takes in record types that have come since; false as long as they cannot be read.
    pub fn layout_extended(&self, ioc: &mut IocProcess) -> bool {
        let layout = read_layout(&ioc.memory, &ioc.modules, ioc.database);
        let read = layout.is_ok();
        if read {
            ioc.layout = layout;
        }
        read
    }

    /// What an IOC says of itself now: its start-up script may have set the environment meanwhile.
    pub fn identity_again(&self, ioc: &mut IocProcess) {
        let environment = environment::Environment::read(&ioc.memory, &ioc.modules, ioc.pid);
        let command = process::command(ioc.pid);
        // of one that is just ending only a part can be read, and it is not called otherwise for that
        if environment.is_empty() || command.iter().all(String::is_empty) || is_ending(ioc) {
            return;
        }
        ioc.name = environment.ioc_name(&command);
        if let Some(version) = environment.base_version() {
            ioc.base_version = version;
        }
        ioc.environment = environment.telling();
    }

    fn modules(&mut self, pid: u32, files: &[MappedFile]) -> Vec<Module> {
        let mut wanted: Vec<&'static str> = functions::symbols().collect();
        wanted.extend(DATA);
        wanted.extend([DB_CHANNEL, CORE_RELEASE]);
        self.mapped.insert(pid, files.iter().map(|file| file.named.identity).collect());
        if self.files.len() > MOST_FILES {
            self.forget_unused();
        }
        let exe = process::link(pid, "exe");
        let mut modules: Vec<Module> = files
            .iter()
            .filter_map(|file| {
                let identity = file.named.identity;
                let mut opened = None;
                if !self.files.contains_key(&identity) {
                    opened = self.learn(pid, file, &wanted);
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

    /// Looks into a file that is not known yet. What could not be read as it is says nothing of the file, whoever
    /// else has it: then the process is looked at again.
    fn learn(&mut self, pid: u32, file: &MappedFile, wanted: &[&'static str]) -> Option<Opened> {
        let read = file.open(pid).and_then(|opened| {
            let elf = Elf::read(&opened, wanted).ok();
            if opened.is_unchanged() {
                Ok((opened, elf))
            } else {
                Err(io::Error::other("the file is being changed"))
            }
        });
        match read {
            Ok((opened, elf)) => {
                if self.files.len() >= 2 * MOST_FILES {
                    self.files.clear();
                }
                let known = Known { elf: elf.map(Arc::new), has_base: None };
                self.files.insert(file.named.identity, known);
                Some(opened)
            }
            // who may not look now may not in a second
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            Err(error) => {
                self.undecided.insert(pid);
                self.refused.insert(pid, format!("{}: {error}", file.code.path));
                None
            }
        }
    }
}

/// A file whose code a process has mapped.
struct MappedFile<'a> {
    mappings: Vec<&'a Mapping>,
    /// The first with code.
    code: &'a Mapping,
    named: Named,
}

/// The files whose code a process has mapped, as far as they can be looked at.
fn files(pid: u32, mappings: &[Mapping]) -> Vec<MappedFile<'_>> {
    let mut files: BTreeMap<FileId, Vec<&Mapping>> = BTreeMap::new();
    for mapping in mappings {
        files.entry(mapping.file).or_default().push(mapping);
    }
    let mapped = files.into_values().filter_map(|mappings| {
        let code = mappings.iter().copied().find(|mapping| mapping.executable)?;
        Some(MappedFile { named: Named::mapped(pid, code).ok()?, code, mappings })
    });
    mapped.collect()
}

impl MappedFile<'_> {
    /// Opens it; an error, too, if it is not what the process has mapped there now.
    fn open(&self, pid: u32) -> io::Result<Opened> {
        let opened = self.named.open()?;
        if opened::is_still_mapped(pid, self.code) && opened.is_of(self.code) {
            Ok(opened)
        } else {
            Err(io::Error::other("what was opened is not what is mapped"))
        }
    }

    fn module(&self, opened: Opened, elf: Arc<Elf>, exe: &str) -> Option<Module> {
        let code = self.mappings.iter().copied().filter(|mapping| mapping.executable);
        Some(Module {
            file: self.code.file,
            path: self.code.path.clone(),
            bias: elf.bias(self.mappings.iter().copied())?,
            range: (self.mappings.first()?.start, self.mappings.last()?.end),
            elf,
            opened: Arc::new(opened),
            code: code.cloned().collect(),
            is_program: self.code.path == exe,
        })
    }
}

/// Is the process gone, or about to be?
fn is_ending(ioc: &IocProcess) -> bool {
    process::start(ioc.pid) != Some(ioc.start) || process::image(ioc.pid).is_none()
}

fn describe(pid: u32, start: u64, modules: Vec<Module>, database: Option<u64>) -> IocProcess {
    let narrow = modules.iter().any(|module| !module.elf.is_64bit);
    let width = if narrow { Width::Narrow } else { Width::Wide };
    let memory = Memory::of(pid, width);
    let environment = environment::Environment::read(&memory, &modules, pid);
    let has = |name| modules.iter().any(|module| module.elf.symbol(name).is_some());
    let exe = process::link(pid, "exe");
    // where no file defines dbProcess it is in the program that has the database
    let inside = |module: &Module| {
        module.path == exe && (module.elf.symbol("dbProcess").is_some() || !has("dbProcess"))
    };
    let layout = read_layout(&memory, &modules, database);
    // without symbols 3.14 cannot be told from 3.15
    let since_3_15 = has(DB_CHANNEL)
        || database.is_some() && layout.as_ref().is_ok_and(|found| found.numbering == Numbering::Since3161);
    IocProcess {
        pid,
        start,
        name: environment.ioc_name(&process::command(pid)),
        base_version: environment.base_version().unwrap_or_else(|| version::of(&modules)),
        environment: environment.telling(),
        linkage: if modules.iter().any(inside) { Linkage::Static } else { Linkage::Shared },
        memory,
        database,
        layout,
        fixed: if since_3_15 { Fixed::base_3_15(width) } else { Fixed::base_3_14(width) },
        modules,
    }
}

/// What has become of a record database whose layout was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// It is as it was.
    Same,
    /// It has more record types.
    Extended,
    /// It is not there any more, or another one is.
    Gone,
}

fn read_layout(memory: &Memory, modules: &[Module], database: Option<u64>) -> Result<Layout, String> {
    let found = database.and_then(|at| memory.pointer(at)).filter(|&to| to != 0);
    let pdbbase = found.or_else(|| variable(memory, modules, "pdbbase"));
    let pdbbase = pdbbase.ok_or("its record database is not loaded yet")?;
    Layout::read(memory, pdbbase)
}

/// Value of a global pointer variable: the first that is not NULL in the order of ld.so. (A shared
/// library's own copy of `pdbbase` stays NULL where the program has one.)
pub fn variable(memory: &Memory, modules: &[Module], name: &str) -> Option<u64> {
    addresses(modules, name).filter_map(|address| memory.pointer(address)).find(|&value| value != 0)
}

/// Addresses of a global variable in the process.
pub fn addresses<'a>(modules: &'a [Module], name: &'a str) -> impl Iterator<Item = u64> + 'a {
    modules.iter().filter_map(move |module| {
        let symbol = module.elf.symbol(name).filter(|symbol| !symbol.function)?;
        Some(symbol.address.wrapping_add(module.bias))
    })
}

impl Module {
    /// Is that the program itself, or a library that defines functions of EPICS Base? No other code is probed: that
    /// a library has a variable which is looked for, as libc has its `environ`, does not make it one of Base.
    pub fn is_of_base(&self) -> bool {
        self.is_program
            || functions::symbols().any(|name| self.elf.symbol(name).is_some_and(|symbol| symbol.function))
    }

    /// Where an address of the file lies in the process and in the file, if the process has the file's code there.
    pub fn code_at(&self, address: u64) -> Option<(u64, u64)> {
        let (here, offset) = (address.wrapping_add(self.bias), self.elf.code_offset(address)?);
        let holds = |mapping: &&Mapping| (mapping.start..mapping.end).contains(&here);
        let mapping = self.code.iter().find(holds)?;
        (here - mapping.start).checked_add(mapping.offset).filter(|&at| at == offset).map(|_| (here, offset))
    }

    /// Looks for the variable of this program that points to the record database.
    fn find_base(&self, pid: u32) -> Option<u64> {
        let memory = Memory::of(pid, if self.elf.is_64bit { Width::Wide } else { Width::Narrow });
        let here = |(start, end): (u64, u64)| (start.wrapping_add(self.bias), end.wrapping_add(self.bias));
        let variables: Vec<(u64, u64)> = self.elf.variables().map(here).collect();
        stripped::find_base(pid, &memory, &variables)
    }
}

impl IocProcess {
    /// Why no probes are put into it at all; `None` if they may be.
    pub fn unprobed(&self) -> Option<Unprobed> {
        match self.memory.width() {
            Width::Narrow if !machine::is_32_bit() => Some(Unprobed::Process32Bit),
            Width::Wide if size_of::<usize>() < 8 => Some(Unprobed::Process64Bit),
            _ => None,
        }
    }

    /// What has become of its record database.
    pub fn database(&self) -> Database {
        let Ok(layout) = &self.layout else { return Database::Same };
        let at = self.database.into_iter().chain(addresses(&self.modules, "pdbbase"));
        let values: Vec<u64> = at.filter_map(|at| self.memory.pointer(at)).collect();
        // a process that ends cannot be read
        if values.is_empty() {
            return Database::Same;
        }
        if !values.contains(&layout.base()) {
            return Database::Gone;
        }
        layout.compare(&self.memory)
    }

    /// Its record database was searched for, since it has no symbols.
    pub fn is_hidden(&self) -> bool {
        self.database.is_some()
    }

    /// The module that defines a function, and the function.
    pub fn function(&self, name: &str) -> Option<(&Module, Symbol)> {
        self.modules.iter().find_map(|module| {
            let symbol = module.elf.symbol(name).filter(|symbol| symbol.function)?;
            Some((module, symbol))
        })
    }

    /// The module whose mappings hold an address.
    pub fn module_at(&self, address: u64) -> Option<&Module> {
        self.modules.iter().find(|module| (module.range.0..module.range.1).contains(&address))
    }
}
