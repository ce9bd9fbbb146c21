//! An IOC process, as far as it is visible from outside.

use std::fmt;
use std::sync::Arc;

use epics::dbf::Numbering;
use iocrec_log::event::Linkage;

use crate::ioc::environment::Environment;
use crate::ioc::functions;
use crate::ioc::layout::{Database, Layout, LayoutError};
use crate::ioc::module::{addresses, variable, Module};
use crate::ioc::offsets::{Abi, Generation};
use crate::ioc::version;
use crate::linux::elf::Symbol;
use crate::linux::memory::Memory;
use crate::linux::process::Mapping;
use crate::linux::width::Width;
use crate::linux::{machine, process};

/// An IOC process.
#[derive(Clone, Debug)]
pub struct IocProcess {
    /// Process id.
    pub pid: u32,
    /// Start of the process, nanoseconds after boot.
    pub start: u64,
    /// Name of the IOC.
    pub name: String,
    /// Version of EPICS Base; empty where unknown.
    pub base_version: String,
    /// Variables of its environment that may go into a log, sorted by name.
    pub environment: Vec<(String, String)>,
    /// Whether EPICS Base is in the program or in shared libraries.
    pub linkage: Linkage,
    /// Its memory.
    pub memory: Memory,
    /// The files that define the symbols, the program first.
    pub modules: Vec<Module>,
    /// Address of the variable that points to its record database, if it has no symbol and was searched for.
    pub(super) database: Option<u64>,
    /// The files whose code it had mapped when it was last looked at: when it has ended, nothing tells any more.
    pub code: Arc<[Mapping]>,
    /// Whether valgrind or the like carries out its code in translation.
    pub(super) is_translated: bool,
    /// Its record layout, or the reason why it could not be read.
    pub layout: Result<Layout, LayoutError>,
    /// Factors that determine its structures.
    pub abi: Abi,
}

/// Reason why no probes are placed in an IOC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unprobed {
    /// The BPF programs are built for the pointers of the kernel. (x86_64 kernels from 4.15 to 5.3 would kill the
    /// process at the first hit, and arm64 kernels refuse the probe.)
    Process32Bit,
    /// A 32-bit agent cannot read its memory.
    Process64Bit,
    /// A probe would kill it: a program within it carries out its code in translation, breakpoints too.
    Translated,
}

impl fmt::Display for Unprobed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unprobed::Process32Bit => {
                "a 32-bit process on a 64-bit kernel: its records are named, but only 64-bit processes are probed there"
            }
            Unprobed::Translated => {
                "valgrind or the like carries out its code in translation, and a probe would kill it: only its records and packets are read"
            }
            Unprobed::Process64Bit => {
                "a 64-bit process, whose memory a 32-bit iocrec cannot read: use the 64-bit one"
            }
        })
    }
}

impl std::error::Error for Unprobed {}

impl IocProcess {
    /// Reads all about an IOC that these modules reveal. `database` is the address of the variable that points to its
    /// record database, if it has no symbol.
    pub(super) fn read(pid: u32, start: u64, modules: Vec<Module>, database: Option<u64>) -> IocProcess {
        let is_32_bit = modules.iter().any(|module| module.width() == Width::Bits32);
        let width = if is_32_bit { Width::Bits32 } else { Width::Bits64 };
        let memory = Memory::of(pid, width);
        let environment = Environment::read(&memory, &modules, pid);
        let has = |name: &str| modules.iter().any(|module| module.defines(name));
        let exe = process::link(pid, "exe");
        // the dynamic linker may have been started by name, with the program as its argument
        let is_program = |module: &Module| module.path == exe || module.elf.has_interpreter;
        // if no file defines dbProcess, it is in the program that has the database
        let holds_base =
            |module: &Module| is_program(module) && (module.defines("dbProcess") || !has("dbProcess"));
        let layout = read_layout(&memory, &modules, database);
        let is_since_3_16_1 = layout.as_ref().is_ok_and(|found| found.numbering == Numbering::Since3161);
        let generation = match Generation::of(has) {
            // without symbols, 3.14 cannot be distinguished from 3.15
            Generation::Base314 if is_since_3_16_1 => Generation::Base315,
            found => found,
        };
        IocProcess {
            pid,
            start,
            name: environment.ioc_name(&process::command(pid)),
            base_version: environment.base_version().unwrap_or_else(|| version::of(&modules)),
            environment: environment.logged(),
            linkage: if modules.iter().any(holds_base) { Linkage::Static } else { Linkage::Shared },
            memory,
            database,
            code: code_of(pid),
            is_translated: false,
            layout,
            abi: Abi { width, generation },
            modules,
        }
    }

    /// Rereads the layout and returns whether that succeeded. If not, the previous layout, if any, is kept.
    pub fn read_layout_again(&mut self) -> bool {
        let layout = read_layout(&self.memory, &self.modules, self.database);
        let is_read = layout.is_ok();
        if is_read || self.layout.is_err() {
            self.layout = layout;
        }
        is_read
    }

    /// Rereads name, version and environment, which the start-up script may have set meanwhile. False if they can't be
    /// read now.
    pub fn read_identity_again(&mut self) -> bool {
        let environment = Environment::read(&self.memory, &self.modules, self.pid);
        let command = process::command(self.pid);
        // while a process is ending, only a part of this can be read; that must not change its name
        if environment.is_empty() || command.iter().all(String::is_empty) || self.is_ending() {
            return false;
        }
        self.name = environment.ioc_name(&command);
        if let Some(version) = environment.base_version() {
            self.base_version = version;
        }
        self.environment = environment.logged();
        // device support may have been loaded since
        let code = code_of(self.pid);
        if !code.is_empty() {
            self.code = code;
        }
        true
    }

    /// Whether the process has ended, or is about to.
    fn is_ending(&self) -> bool {
        process::start(self.pid) != Some(self.start) || process::image(self.pid).is_none()
    }

    /// Reason why no probes are placed in it; `None` if they are.
    pub fn unprobed(&self) -> Option<Unprobed> {
        match self.memory.width() {
            _ if self.is_translated => Some(Unprobed::Translated),
            Width::Bits32 if !machine::is_32_bit() => Some(Unprobed::Process32Bit),
            Width::Bits64 if size_of::<usize>() < 8 => Some(Unprobed::Process64Bit),
            _ => None,
        }
    }

    /// Offset and bytes of the enum strings of the records of a type, by its name, if they have some.
    pub fn states_of(&self, rtype: &str) -> Option<(u16, u16)> {
        let layout = self.layout.as_ref().ok()?;
        layout.types.values().find(|of| of.name == rtype)?.states()
    }

    /// Change of its record database.
    pub fn database(&self) -> Database {
        let Ok(layout) = &self.layout else { return Database::Same };
        let variables = self.database.into_iter().chain(addresses(&self.modules, "pdbbase"));
        let values: Vec<u64> = variables.filter_map(|variable| self.memory.pointer(variable)).collect();
        // a process that is ending cannot be read
        if values.is_empty() {
            return Database::Same;
        }
        if !values.contains(&layout.base()) {
            return Database::Gone;
        }
        layout.compare(&self.memory)
    }

    /// Whether it is stripped, so that its record database was searched for.
    pub fn is_stripped(&self) -> bool {
        self.database.is_some()
    }

    /// Whether its C library is musl, in the program or beside it.
    pub fn has_musl(&self) -> bool {
        self.modules.iter().any(|module| {
            let name = module.path.rsplit('/').next().unwrap_or_default();
            module.elf.has_local(functions::OF_MUSL)
                || name.starts_with("ld-musl-")
                || name.starts_with("libc.musl-")
        })
    }

    /// The first module that defines a function, and the function's symbol.
    pub fn function(&self, name: &str) -> Option<(&Module, Symbol)> {
        self.functions(name).next()
    }

    /// The modules that define a function, and its symbol in each.
    pub fn functions<'a, 'b>(
        &'a self,
        name: &'b str,
    ) -> impl Iterator<Item = (&'a Module, Symbol)> + use<'a, 'b> {
        self.modules.iter().filter_map(move |module| Some((module, module.function(name)?)))
    }

    /// The module whose mappings hold an address.
    pub fn module_at(&self, address: u64) -> Option<&Module> {
        self.modules.iter().find(|module| (module.range.0..module.range.1).contains(&address))
    }
}

/// The mappings of a process's code.
fn code_of(pid: u32) -> Arc<[Mapping]> {
    let mappings = process::mappings(pid).unwrap_or_default();
    mappings.into_iter().filter(|mapping| mapping.executable).collect()
}

fn read_layout(memory: &Memory, modules: &[Module], database: Option<u64>) -> Result<Layout, LayoutError> {
    let found = database.and_then(|variable| memory.pointer(variable)).filter(|&base| base != 0);
    let base = found.or_else(|| variable(memory, modules, "pdbbase"));
    Layout::read(memory, base.ok_or(LayoutError::NotLoaded)?)
}
