//! IOCs: finding them among the processes, and knowing them from outside.
//!
//! An IOC is a process that maps code with the global symbols `pdbbase` and `dbProcess`: a program
//! with EPICS Base in it or a shared libdbCore (3.14: libdbIoc and others). Where one of them is missing, a process
//! counts whose program has Base in it ([`hidden`]) and a record database that makes sense. Nothing in it is
//! changed or stopped; whatever is read from it is checked before it is believed.

pub mod channels;
pub mod clients;
pub mod elf;
pub mod ending;
pub mod environment;
pub mod hidden;
#[cfg(test)]
mod image;
pub mod layout;
pub mod memory;
pub mod ports;
pub mod process;
pub mod records;
pub mod scanning;
pub mod sockets;
pub mod threads;
pub mod user;
pub mod version;
pub mod width;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::rc::Rc;

use iocrec_log::event::Linkage;

use self::elf::Elf;
use self::layout::{Fixed, Layout, Numbering};
use self::memory::Memory;
use self::process::Mapping;
use self::width::Width;
use crate::kernel::functions::FUNCTIONS;
use crate::kernel::{self, FileId};

/// Data symbols that are read.
const DATA: [&str; 6] = ["pdbbase", "clientQ", "environ", "__environ", "ca_server_port", "prsrv_cast_client"];
/// Prints Base's version: what defines it holds the version as text (3.14: libmiscIoc).
const CORE_RELEASE: &str = "coreRelease";
/// Its absence tells Base 3.14.
const DB_CHANNEL: &str = "dbChannelCreate";

/// Why a 32-bit process on a 64-bit kernel is not probed: the programs are made for the kernel's own width of
/// pointers. (x86_64 kernels from 4.15 to 5.3 would kill it at the first hit, and arm64 kernels refuse.)
const NARROW: &str =
    "a 32-bit process on a 64-bit kernel: its records are named, but only 64-bit processes are probed there";

/// Why a 64-bit process is left alone by a 32-bit agent.
const WIDE: &str = "a 64-bit process, whose memory a 32-bit iocrec cannot read: use the 64-bit one";

/// A program or library of an IOC, as mapped.
#[derive(Clone, Debug)]
pub struct Module {
    /// Which file.
    pub file: FileId,
    /// Its code in the process.
    code: Mapping,
    pid: u32,
    /// Its name in the process, for people.
    pub path: String,
    /// Its symbols.
    pub elf: Rc<Elf>,
    /// What to add to its addresses.
    pub bias: u64,
    /// Where its mappings begin and end.
    pub range: (u64, u64),
}

/// An IOC process.
#[derive(Debug)]
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

/// Finds IOCs; remembers every file that it has looked into.
pub struct Finder {
    /// `None`: cannot be read, or is no ELF file.
    files: HashMap<FileId, Option<Rc<Elf>>>,
    /// Programs that don't define `pdbbase`: is EPICS Base in them all the same?
    programs: HashMap<FileId, bool>,
    /// Constants of programs that may still be read.
    left: u64,
    /// Processes that may be IOCs all the same: their programs were not looked into for this, or have EPICS Base
    /// in them and no record database yet.
    undecided: HashSet<u32>,
}

impl Default for Finder {
    fn default() -> Finder {
        Finder {
            files: HashMap::new(),
            programs: HashMap::new(),
            left: CONSTANTS_AT_ONCE,
            undecided: HashSet::new(),
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
        let mappings = process::mappings(pid).map_err(gone)?;
        let mut modules = self.modules(pid, &mappings);
        let defined =
            |modules: &[Module], name| modules.iter().any(|module| module.elf.symbol(name).is_some());
        let mut database = None;
        if !defined(&modules, "pdbbase") {
            let Some(program) = self.program(pid, &mappings) else { return Ok(None) };
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
        let certain = defined(&ioc.modules, "dbProcess") || ioc.layout.is_ok();
        Ok(certain.then_some(ioc))
    }

    /// A second has passed, and these processes live.
    pub fn tick(&mut self, pids: &HashSet<u32>) {
        self.left = self.left.max(CONSTANTS_A_SECOND);
        self.undecided.retain(|pid| pids.contains(pid));
    }

    /// Should a process that was found to be no IOC be looked at again, though it has not changed?
    pub fn is_undecided(&self, pid: u32) -> bool {
        self.undecided.contains(&pid)
    }

    /// The program of a process, if EPICS Base is in it.
    fn program(&mut self, pid: u32, mappings: &[Mapping]) -> Option<Module> {
        let exe = process::link(pid, "exe");
        let code = mappings.iter().find(|mapping| mapping.executable && mapping.path == exe)?;
        let elf = self.files.get(&code.file)?.clone()?;
        let open = code.open_path(pid);
        self.undecided.remove(&pid);
        if !self.programs.contains_key(&code.file) {
            let bytes = elf.constants().map_or(0, |(_, bytes)| bytes);
            if self.left == 0 {
                self.undecided.insert(pid);
                return None;
            }
            self.left = self.left.saturating_sub(bytes);
            self.programs.insert(code.file, hidden::has_base(&open, &elf));
        }
        let here = || mappings.iter().filter(|mapping| mapping.file == code.file);
        self.programs.get(&code.file).filter(|&&has_base| has_base)?;
        Some(Module {
            file: code.file,
            path: code.path.clone(),
            bias: elf.bias(here())?,
            range: (here().next()?.start, here().next_back()?.end),
            elf,
            code: code.clone(),
            pid,
        })
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
        ioc.name = environment.ioc_name(&process::command(ioc.pid));
        if let Some(version) = environment.base_version() {
            ioc.base_version = version;
        }
        ioc.environment = environment.telling();
    }

    fn modules(&mut self, pid: u32, mappings: &[Mapping]) -> Vec<Module> {
        let mut wanted: Vec<&'static str> =
            FUNCTIONS.iter().flat_map(|function| function.symbols).copied().collect();
        wanted.extend(DATA);
        wanted.extend([DB_CHANNEL, CORE_RELEASE]);
        let mut files: BTreeMap<FileId, Vec<&Mapping>> = BTreeMap::new();
        for mapping in mappings {
            files.entry(mapping.file).or_default().push(mapping);
        }
        let exe = process::link(pid, "exe");
        let mut modules: Vec<Module> = files
            .into_iter()
            .filter_map(|(file, mappings)| {
                let code = mappings.iter().find(|mapping| mapping.executable)?;
                let open = code.open_path(pid);
                let read = || Elf::read(&open, &wanted).ok().map(Rc::new);
                let elf = self.files.entry(file).or_insert_with(read).as_ref()?;
                wanted.iter().find(|name| elf.symbol(name).is_some())?;
                Some(Module {
                    file,
                    path: code.path.clone(),
                    elf: elf.clone(),
                    bias: elf.bias(mappings.iter().copied())?,
                    range: (mappings.first()?.start, mappings.last()?.end),
                    code: (*code).clone(),
                    pid,
                })
            })
            .collect();
        // the order in which ld.so resolves: the program's copy of a library's variable is the live one
        modules.sort_by_key(|module| (module.path != exe, module.range));
        modules
    }
}

fn describe(pid: u32, start: u64, modules: Vec<Module>, database: Option<u64>) -> IocProcess {
    let narrow = modules.iter().any(|module| !module.elf.wide);
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
    /// A path that opens this very file as long as the process lives. Not for keeping: it names a thread.
    pub fn open(&self) -> PathBuf {
        self.code.open_path(self.pid)
    }

    /// Looks for the variable of this program that points to the record database.
    fn find_base(&self, pid: u32) -> Option<u64> {
        let memory = Memory::of(pid, if self.elf.wide { Width::Wide } else { Width::Narrow });
        let here = |(start, end): (u64, u64)| (start.wrapping_add(self.bias), end.wrapping_add(self.bias));
        let variables: Vec<(u64, u64)> = self.elf.variables().map(here).collect();
        hidden::find_base(pid, &memory, &variables)
    }
}

impl IocProcess {
    /// Why no probes are put into it at all; `None` if they may be.
    pub fn unprobed(&self) -> Option<&'static str> {
        match self.memory.width() {
            Width::Narrow if !kernel::is_narrow() => Some(NARROW),
            Width::Wide if size_of::<usize>() < 8 => Some(WIDE),
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

    /// The module that defines a function, and its file offset there.
    pub fn function(&self, name: &str) -> Option<(&Module, u64)> {
        self.modules.iter().find_map(|module| {
            let symbol = module.elf.symbol(name).filter(|symbol| symbol.function)?;
            Some((module, module.elf.offset(symbol.address)?))
        })
    }

    /// The module whose mappings hold an address.
    pub fn module_at(&self, address: u64) -> Option<&Module> {
        self.modules.iter().find(|module| (module.range.0..module.range.1).contains(&address))
    }
}
