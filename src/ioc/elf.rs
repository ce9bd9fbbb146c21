//! Symbols of the programs and libraries that an IOC consists of.
//!
//! Files are read piece by piece, never whole: a static IOC has tens of megabytes, a small box has not.

use std::collections::HashMap;
use std::fs::File;

use object::read::{Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadCache};
use object::{elf, Architecture, SegmentFlags, SymbolKind};

use super::opened::Opened;
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
    pub fn read(opened: &Opened, wanted: &[&'static str]) -> Result<Elf, String> {
        let file = File::open(opened.path()).map_err(|e| e.to_string())?;
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
pub fn code(opened: &Opened, offset: u64) -> [u8; LOOK] {
    let mut code = [0; LOOK];
    // short at the end of a file, or not readable: zeroes
    opened.read_some(&mut code, offset);
    code
}

/// The function that covers an address of the file, local ones included; empty where none does.
pub fn function_at(opened: &Opened, address: u64) -> String {
    let Ok(file) = File::open(opened.path()) else { return String::new() };
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
    use crate::chance::{fuzz, mutate, Random};
    use crate::ioc::hidden;
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
        let opened = Opened::named(&path).unwrap();
        let elf = Elf::read(&opened, &[]).unwrap();
        let bias = elf.bias(maps.iter().filter(|mapping| mapping.file == own.file)).unwrap();
        assert_eq!(elf.offset(address - bias), Some(address - own.start + own.offset));
        assert_eq!(function_at(&opened, address - bias + 1), "iocrec_elf_test_function");
    }

    const NAMES: &[u8] = b"\0pdbbase\0dbProcess\0.rodata\0.dynsym\0.dynstr\0.symtab\0";

    /// A small ELF file as linkers make them: a segment of code and one of data, two symbols in the dynamic table and in the
    /// full one, constants.
    fn small(wide: bool) -> Vec<u8> {
        let word = |value: u64| {
            if wide {
                value.to_le_bytes().to_vec()
            } else {
                (value as u32).to_le_bytes().to_vec()
            }
        };
        let half = |value: u16| value.to_le_bytes().to_vec();
        let quad = |value: u32| value.to_le_bytes().to_vec();
        let (head, program, section, entry) = if wide { (64, 56, 64, 24) } else { (52, 32, 40, 16) };
        let symbols_at = head + 2 * program;
        let names_at = symbols_at + 3 * entry;
        let constants_at = names_at + NAMES.len() as u64;
        // Not as they are looked for, or this program would be taken for an IOC.
        let constants = "dbLoadDatabase|dbLoadRecords|iocInit|".replace('|', "\0").into_bytes();
        let sections_at = constants_at + constants.len() as u64;
        let class = if wide { 2 } else { 1 };
        let mut file = vec![0x7F, b'E', b'L', b'F', class, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        file.extend([half(3), half(if wide { 62 } else { 3 }), quad(1), word(0x1000), word(head)].concat());
        file.extend([word(sections_at), quad(0), half(head as u16), half(program as u16), half(2)].concat());
        file.extend([half(section as u16), half(6), half(3)].concat());
        for (flags, address) in [(5, 0x1000), (6, 0x2000)] {
            let place = [word(0), word(address), word(address), word(0x400), word(0x800)].concat();
            let flags = quad(flags);
            let (before, after) = if wide { (flags, Vec::new()) } else { (Vec::new(), flags) };
            file.extend([quad(1), before, place, after, word(0x1000)].concat());
        }
        file.extend(vec![0; entry as usize]);
        for (name, kind, address) in [(1, 0x11, 0x2010), (9, 0x12, 0x1020)] {
            let rest = [vec![kind, 0], half(1)].concat();
            let (value, size) = (word(address), word(0x40));
            let parts = if wide { [quad(name), rest, value, size] } else { [quad(name), value, size, rest] };
            file.extend(parts.concat());
        }
        file.extend(NAMES);
        file.extend(&constants);
        let (symbols, names) = (3 * entry, NAMES.len() as u64);
        let constants = constants.len() as u64;
        for (name, kind, at, size, link, each) in [
            (0, 0, 0, 0, 0, 0),
            (19, 1, constants_at, constants, 0, 0),
            (27, 11, symbols_at, symbols, 3, entry),
            (35, 3, names_at, names, 0, 0),
            (43, 2, symbols_at, symbols, 3, entry),
            (0, 0, 0, 0, 0, 0),
        ] {
            let place = [word(0), word(0x1000), word(at), word(size)].concat();
            file.extend([quad(name), quad(kind), place, quad(link), quad(1), word(1), word(each)].concat());
        }
        file
    }

    const WANTED: [&str; 2] = ["pdbbase", "dbProcess"];

    #[test]
    fn small_files_are_read() {
        for wide in [false, true] {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), small(wide)).unwrap();
            let opened = Opened::named(file.path()).unwrap();
            let elf = Elf::read(&opened, &WANTED).unwrap();
            assert_eq!(elf.symbol("pdbbase"), Some(Symbol { address: 0x2010, function: false }));
            assert_eq!(elf.symbol("dbProcess"), Some(Symbol { address: 0x1020, function: true }));
            assert_eq!(function_at(&opened, 0x1030), "dbProcess");
            assert!(hidden::has_base(&opened, &elf));
        }
    }

    /// Anyone may run a program that root's recorder looks into.
    #[test]
    fn files_that_were_changed() {
        let seeds = [small(false), small(true)];
        let file = tempfile::NamedTempFile::new().unwrap();
        let (mut read, mut refused) = (0_u64, 0_u64);
        fuzz(2000, |random: &mut Random| {
            let mut bytes = seeds[random.below(2)].clone();
            for _ in 0..random.below(3) {
                mutate(random, &mut bytes);
            }
            // numbers as large as can be, where numbers are
            for _ in 0..random.below(3) {
                let at = random.below(bytes.len() / 4) * 4;
                let large = u64::MAX >> random.below(64);
                bytes.iter_mut().skip(at).zip(large.to_le_bytes()).for_each(|(byte, new)| *byte = new);
            }
            std::fs::write(file.path(), &bytes).unwrap();
            let address = random.next() >> random.below(64);
            let opened = Opened::named(file.path()).unwrap();
            let function = function_at(&opened, [0x1030, address][random.below(2)]);
            assert!(function.len() <= bytes.len());
            match Elf::read(&opened, &WANTED) {
                Ok(elf) => {
                    read += 1;
                    for address in [0x1020, 0x2010, address] {
                        let code = elf.code_offset(address);
                        assert!(code.is_none() || code == elf.offset(address));
                        let _ = self::code(&opened, elf.offset(address).unwrap_or(address));
                    }
                    let _ = hidden::has_base(&opened, &elf);
                    assert!(elf.variables().all(|(from, to)| from <= to));
                    assert!(elf.symbols.len() <= WANTED.len());
                    let _ = elf.bias(mappings(std::process::id()).unwrap().iter().take(3));
                }
                Err(line) => {
                    assert!(!line.is_empty());
                    refused += 1;
                }
            }
        });
        println!("{read} files read, {refused} refused");
        assert!(std::env::var("FUZZ_SEED").is_ok() || (read > 100 && refused > 100));
    }

    #[test]
    fn what_is_no_elf_is_refused_in_words() {
        let text = Opened::named(std::path::Path::new("/proc/self/maps")).unwrap();
        assert!(!Elf::read(&text, &[]).unwrap_err().is_empty());
    }
}
