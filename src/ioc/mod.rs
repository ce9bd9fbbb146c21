//! IOCs: finding them among the processes, and knowing them from outside.
//!
//! An IOC is a process that maps code with the global symbols `pdbbase` and `dbProcess`: a program
//! with EPICS Base in it or a shared libdbCore (3.14: libdbIoc and others). Nothing in it is changed
//! or stopped; whatever is read from it is checked before it is believed.

pub mod channels;
pub mod clients;
pub mod elf;
pub mod ending;
pub mod environment;
#[cfg(test)]
mod image;
pub mod layout;
pub mod memory;
pub mod ports;
pub mod process;
pub mod records;
pub mod scanning;
pub mod sockets;
pub mod user;
pub mod version;
pub mod width;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::rc::Rc;

use iocrec_log::event::Linkage;

use self::elf::Elf;
use self::layout::{Fixed, Layout};
use self::memory::Memory;
use self::process::Mapping;
use self::width::Width;
use crate::kernel::functions::FUNCTIONS;
use crate::kernel::{self, FileId};

/// Data symbols that are read.
const DATA: [&str; 5] = ["pdbbase", "clientQ", "environ", "__environ", "ca_server_port"];
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
    /// A path that opens it as long as the process lives.
    pub open: PathBuf,
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
    /// Its record layout, or why it could not be read.
    pub layout: Result<Layout, String>,
    /// Offsets that depend on the version.
    pub fixed: Fixed,
}

/// What a file is to us.
#[derive(Clone, Debug)]
enum Known {
    /// Defines none of the symbols that are wanted, or cannot be read.
    Nothing,
    /// Defines some.
    Module(Rc<Elf>),
}

/// Finds IOCs; remembers every file that it has looked into.
#[derive(Default)]
pub struct Finder {
    files: HashMap<FileId, Known>,
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
        let modules = self.modules(pid, &mappings);
        let has = |name| modules.iter().any(|module| module.elf.symbol(name).is_some());
        if !(has("pdbbase") && has("dbProcess")) {
            return Ok(None);
        }
        Ok(process::start(pid).map(|start| describe(pid, start, modules)))
    }

    /// What an IOC's record layout is now, if it was not to be read before.
    pub fn layout_again(&self, ioc: &mut IocProcess) {
        ioc.layout = read_layout(&ioc.memory, &ioc.modules);
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
                let known = self.files.entry(file).or_insert_with(|| match Elf::read(&open, &wanted) {
                    Ok(elf) if wanted.iter().any(|name| elf.symbol(name).is_some()) => {
                        Known::Module(Rc::new(elf))
                    }
                    _ => Known::Nothing,
                });
                let Known::Module(elf) = known else { return None };
                Some(Module {
                    file,
                    path: code.path.clone(),
                    elf: elf.clone(),
                    bias: elf.bias(mappings.iter().copied())?,
                    range: (mappings.first()?.start, mappings.last()?.end),
                    open,
                })
            })
            .collect();
        // the order in which ld.so resolves: the program's copy of a library's variable is the live one
        modules.sort_by_key(|module| (module.path != exe, module.range));
        modules
    }
}

fn describe(pid: u32, start: u64, modules: Vec<Module>) -> IocProcess {
    let narrow = modules.iter().any(|module| !module.elf.wide);
    let width = if narrow { Width::Narrow } else { Width::Wide };
    let memory = Memory::of(pid, width);
    let environment = environment::Environment::read(&memory, &modules, pid);
    let has = |name| modules.iter().any(|module| module.elf.symbol(name).is_some());
    let exe = process::link(pid, "exe");
    let statically =
        modules.iter().any(|module| module.path == exe && module.elf.symbol("dbProcess").is_some());
    IocProcess {
        pid,
        start,
        name: environment.ioc_name(&process::command(pid)),
        base_version: environment.base_version().unwrap_or_else(|| version::of(&modules)),
        environment: environment.telling(),
        linkage: if statically { Linkage::Static } else { Linkage::Shared },
        memory,
        layout: read_layout(&memory, &modules),
        fixed: if has(DB_CHANNEL) { Fixed::base_3_15(width) } else { Fixed::base_3_14(width) },
        modules,
    }
}

fn read_layout(memory: &Memory, modules: &[Module]) -> Result<Layout, String> {
    let pdbbase = variable(memory, modules, "pdbbase").ok_or("its record database is not loaded yet")?;
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

impl IocProcess {
    /// Why no probes are put into it at all; `None` if they may be.
    pub fn unprobed(&self) -> Option<&'static str> {
        match self.memory.width() {
            Width::Narrow if !kernel::is_narrow() => Some(NARROW),
            Width::Wide if size_of::<usize>() < 8 => Some(WIDE),
            _ => None,
        }
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
