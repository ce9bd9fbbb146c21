//! Symbols of the programs and libraries that an IOC consists of.
//!
//! Files are read piece by piece, never whole: a static IOC has tens of megabytes, a small box has not.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use object::read::{Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadCache};
use object::{elf, Architecture, SegmentFlags, SymbolKind};

use super::process::Mapping;
use crate::kernel::place::LOOK;

/// A defined global symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Address as in the file: the load bias is to be added.
    pub address: u64,
    /// A function (else data).
    pub function: bool,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    address: u64,
    offset: u64,
    bytes: u64,
    /// Size in memory: what is more than `bytes` is zero at first (.bss).
    memory: u64,
    writable: bool,
    executable: bool,
}

/// What is wanted of an ELF file.
#[derive(Clone, Debug)]
pub struct Elf {
    /// The machine that its code is for.
    pub machine: Architecture,
    /// 64-bit?
    pub wide: bool,
    segments: Vec<Segment>,
    /// Offset and size of .rodata.
    constants: Option<(u64, u64)>,
    symbols: HashMap<&'static str, Symbol>,
}

/// Page size that segments are aligned to at least; larger ones divide by it.
const PAGE: u64 = 4096;

impl Elf {
    /// Reads a file and looks up the `wanted` symbols: among the dynamic ones, and where the first of them is
    /// not there among all. (A program that was linked without `-rdynamic` exports none of its own.)
    ///
    /// # Errors
    /// A reason in words: not readable, not ELF, damaged.
    pub fn read(path: &Path, wanted: &[&'static str]) -> Result<Elf, String> {
        let file = File::open(path).map_err(|e| e.to_string())?;
        let cache = ReadCache::new(file);
        let object = object::File::parse(&cache).map_err(|e| e.to_string())?;
        let segments = object
            .segments()
            .map(|segment| {
                let (offset, bytes) = segment.file_range();
                let SegmentFlags::Elf { p_flags, .. } = segment.flags() else { return None };
                Some(Segment {
                    address: segment.address(),
                    offset,
                    bytes,
                    memory: segment.size(),
                    writable: p_flags & elf::PF_W == elf::PF_W,
                    executable: p_flags & elf::PF_X == elf::PF_X,
                })
            })
            .collect::<Option<_>>()
            .ok_or("not ELF")?;
        let constants = object.section_by_name(".rodata").and_then(|section| section.file_range());
        let mut symbols = HashMap::new();
        let note = |symbols: &mut HashMap<&'static str, Symbol>, symbol: object::Symbol<'_, '_, _>| {
            if symbol.is_undefined() || !symbol.is_global() {
                return;
            }
            let function = match symbol.kind() {
                SymbolKind::Text => true,
                SymbolKind::Data => false,
                _ => return,
            };
            let Ok(name) = symbol.name_bytes() else { return };
            if let Some(name) = wanted.iter().find(|wanted| wanted.as_bytes() == name) {
                symbols.entry(*name).or_insert(Symbol { address: symbol.address(), function });
            }
        };
        object.dynamic_symbols().for_each(|symbol| note(&mut symbols, symbol));
        if wanted.first().is_some_and(|first| !symbols.contains_key(first)) {
            object.symbols().for_each(|symbol| note(&mut symbols, symbol));
        }
        Ok(Elf { machine: object.architecture(), wide: object.is_64(), segments, constants, symbols })
    }

    /// A symbol that was asked for and is there.
    pub fn symbol(&self, name: &str) -> Option<Symbol> {
        self.symbols.get(name).copied()
    }

    /// Where in the file an address lies; `None` for what has no bytes there (.bss).
    pub fn offset(&self, address: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let within = address.checked_sub(segment.address)?;
            (within < segment.bytes).then(|| segment.offset.checked_add(within))?
        })
    }

    /// The same for an address of code; `None` for data.
    pub fn code_offset(&self, address: u64) -> Option<u64> {
        let executable = |segment: &&Segment| {
            segment.executable
                && address.checked_sub(segment.address).is_some_and(|within| within < segment.bytes)
        };
        self.segments.iter().find(executable).and_then(|_| self.offset(address))
    }

    /// Where in the file its constants are, and how many bytes: .rodata, which `strip` leaves its name.
    pub fn constants(&self) -> Option<(u64, u64)> {
        self.constants
    }

    /// Where its variables are in memory, from and to, before the bias is added.
    pub fn variables(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let writable = self.segments.iter().filter(|segment| segment.writable);
        writable.map(|segment| (segment.address, segment.address.saturating_add(segment.memory)))
    }

    /// What is to be added to the file's addresses in a process that has it mapped so.
    pub fn bias<'a>(&self, mut mappings: impl Iterator<Item = &'a Mapping>) -> Option<u64> {
        mappings.find_map(|mapping| {
            let segment =
                self.segments.iter().find(|segment| segment.offset / PAGE * PAGE == mapping.offset)?;
            Some(mapping.start.wrapping_sub(segment.address / PAGE * PAGE))
        })
    }
}

/// The first bytes of a function, from its file: memory may hold another tracer's breakpoint.
pub fn code(path: &Path, offset: u64) -> [u8; LOOK] {
    let mut code = [0; LOOK];
    // short at the end of a file, or not readable: zeroes, which count as single-stepped
    let _ = File::open(path).and_then(|file| file.read_at(&mut code, offset));
    code
}

/// The function that covers an address of the file, local ones included; empty where none does.
pub fn function_at(path: &Path, address: u64) -> String {
    let Ok(file) = File::open(path) else { return String::new() };
    let cache = ReadCache::new(file);
    let Ok(object) = object::File::parse(&cache) else { return String::new() };
    object
        .symbols()
        .chain(object.dynamic_symbols())
        .find(|symbol| {
            let within = address.wrapping_sub(symbol.address());
            symbol.kind() == SymbolKind::Text && within < symbol.size() && !symbol.is_undefined()
        })
        .and_then(|symbol| symbol.name().ok().map(str::to_string))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ioc::process::mappings;

    #[no_mangle]
    extern "C" fn iocrec_elf_test_function() -> u32 {
        7
    }

    #[test]
    fn finds_a_function_of_this_program() {
        let path = std::env::current_exe().unwrap();
        let address = iocrec_elf_test_function as *const () as usize as u64;
        let maps = mappings(std::process::id()).unwrap();
        let own = maps.iter().find(|mapping| (mapping.start..mapping.end).contains(&address)).unwrap();
        let elf = Elf::read(&path, &[]).unwrap();
        let bias = elf.bias(maps.iter().filter(|mapping| mapping.file == own.file)).unwrap();
        assert_eq!(elf.offset(address - bias), Some(address - own.start + own.offset));
        assert_eq!(function_at(&path, address - bias + 1), "iocrec_elf_test_function");
    }

    #[test]
    fn what_is_no_elf_is_refused_in_words() {
        assert!(Elf::read(Path::new("/proc/self/maps"), &[]).is_err());
        assert!(Elf::read(Path::new("/nonexistent"), &[]).unwrap_err().contains("No such file"));
    }
}
