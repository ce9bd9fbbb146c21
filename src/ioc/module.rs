//! A program or library that an IOC has mapped, and the symbols in it.

use std::sync::Arc;

use crate::ioc::functions;
use crate::linux::elf::{Elf, Symbol};
use crate::linux::memory::Memory;
use crate::linux::opened::Opened;
use crate::linux::process::Mapping;
use crate::linux::width::Width;
use crate::linux::FileId;

/// A program or library of an IOC, as mapped.
#[derive(Clone, Debug)]
pub struct Module {
    /// Device and inode of the file.
    pub file: FileId,
    /// The file itself, opened once.
    pub opened: Arc<Opened>,
    /// Mappings of its code.
    pub(super) code: Vec<Mapping>,
    /// Whether it is the program that the process runs.
    pub(super) is_program: bool,
    /// Path as the process sees it, for display.
    pub path: String,
    /// Its symbols.
    pub elf: Arc<Elf>,
    /// Difference between addresses in the process and addresses in the file.
    pub bias: u64,
    /// Start of its first mapping, and end of its last.
    pub range: (u64, u64),
}

impl Module {
    /// Whether its code may be probed: true for the program itself, and for libraries of EPICS Base.
    pub fn is_of_base(&self) -> bool {
        self.is_program || are_of_base(&|name| self.function(name).is_some())
    }

    /// Whether it defines the record database or a function of EPICS Base.
    pub(super) fn is_of_base_itself(&self) -> bool {
        self.defines("pdbbase") || functions::symbols().any(|name| self.function(name).is_some())
    }

    /// Converts an address in the file to the address in the process and the offset in the file, if the process has
    /// mapped the file's code there.
    pub fn code_at(&self, address: u64) -> Option<(u64, u64)> {
        let (here, offset) = (address.wrapping_add(self.bias), self.elf.code_offset(address)?);
        let holds = |mapping: &&Mapping| (mapping.start..mapping.end).contains(&here);
        let mapping = self.code.iter().find(holds)?;
        (here - mapping.start).checked_add(mapping.offset).filter(|&at| at == offset).map(|_| (here, offset))
    }

    /// Width of its pointers.
    pub(super) fn width(&self) -> Width {
        if self.elf.is_64bit {
            Width::Bits64
        } else {
            Width::Bits32
        }
    }

    /// Whether it defines the symbol.
    pub(super) fn defines(&self, name: &str) -> bool {
        self.elf.symbol(name).is_some()
    }

    /// The symbol of a function.
    pub(super) fn function(&self, name: &str) -> Option<Symbol> {
        self.elf.symbol(name).filter(|symbol| symbol.function)
    }
}

/// Whether the library that has these functions is one of EPICS Base: each of those has several that are sought. Another may
/// have one of such a name, like `postEvent`.
fn are_of_base(has: &dyn Fn(&str) -> bool) -> bool {
    functions::symbols().filter(|name| has(name)).nth(1).is_some()
}

/// Value of a global pointer variable: the first, in the order of ld.so, that is not NULL. (A shared library's own copy
/// of `pdbbase` stays NULL if the program has one.)
pub(super) fn variable(memory: &Memory, modules: &[Module], name: &str) -> Option<u64> {
    addresses(modules, name).filter_map(|address| memory.pointer(address)).find(|&value| value != 0)
}

/// Addresses of a global variable in the process.
pub(super) fn addresses<'a>(modules: &'a [Module], name: &'a str) -> impl Iterator<Item = u64> + 'a {
    modules.iter().filter_map(move |module| {
        let symbol = module.elf.symbol(name).filter(|symbol| !symbol.function)?;
        Some(symbol.address.wrapping_add(module.bias))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_base_have_several_of_its_functions() {
        let is = |names: &[&str]| are_of_base(&|name| names.contains(&name));
        for of_base in [
            &["ca_array_put", "ca_array_put_callback"][..],
            &["errlogVprintf", "errlogSevVprintf", "errPrintf", "epicsAssert"],
            &["dbProcess", "dbPut", "dbPutNotify", "post_event"],
        ] {
            assert!(is(of_base), "{of_base:?}");
        }
        for other in [&[][..], &["postEvent"], &["write", "exit", "environ", "epicsAssert"]] {
            assert!(!is(other), "{other:?}");
        }
    }
}
