//! ELF files: symbols, segments, constants, and the beginnings of functions.
//!
//! Anybody may run a program that looks like an IOC, so a file may hold anything: terabytes of holes, or tables that
//! overlap. It is read in pieces (`pieces`), one after the other and up to a limit, and only the wanted symbols are
//! kept: a small box has little memory, and a static IOC has tens of megabytes.

mod headers;
#[cfg(test)]
pub(crate) mod image;
mod local;
mod pieces;
mod strings;
#[cfg(test)]
mod tests;
mod unwind;

use std::collections::HashMap;

use object::Architecture;

pub use crate::linux::elf::headers::ElfError;
use crate::linux::elf::headers::Head;
use crate::linux::elf::pieces::{long, word, Pieces};
use crate::linux::elf::unwind::Unwind;
use crate::linux::opened::Opened;
use crate::linux::process::Mapping;
use crate::linux::text::printable;

/// Longest function name to show, bytes: C++ makes long ones.
const MAX_NAME: usize = 1024;

// Numbers and names from ELF (System V ABI, chapters 4 and 5; the processor supplements).
const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const PT_ARM_EXIDX: u32 = 0x7000_0001;
const PF_X: u32 = 1;
const PF_W: u32 = 2;
const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;
const STT_OBJECT: u8 = 1;
const STT_FUNC: u8 = 2;
const STT_COMMON: u8 = 5;

/// A defined global symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Address in the file; add the load bias.
    pub address: u64,
    /// Whether it is a function; otherwise it is data.
    pub function: bool,
    /// The first bytes of the function, as in the file when the symbol was read; zeroes for data.
    pub code: [u8; CODE_WINDOW],
    /// Size of the function or variable, as the file has it.
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    address: u64,
    offset: u64,
    bytes: u64,
    /// Size in memory: the part beyond `bytes` is initially zero (.bss).
    memory: u64,
    writable: bool,
    executable: bool,
}

/// The parts of an ELF file to keep.
#[derive(Clone, Debug)]
pub struct Elf {
    /// The machine that the code is for.
    pub machine: Architecture,
    /// ELF class 64: pointers take 8 bytes.
    pub is_64bit: bool,
    /// It names a dynamic linker (PT_INTERP): it is a program that uses shared libraries.
    pub has_interpreter: bool,
    segments: Vec<Segment>,
    /// Offset and size of .rodata, with .rodata.str.
    constants: Option<(u64, u64)>,
    symbols: HashMap<&'static str, Symbol>,
    /// Names that only local symbols have.
    local: Vec<&'static str>,
    /// The tables that show the beginnings of functions.
    unwind: Unwind,
}

/// Bytes kept of the beginning of a function: more than a landing pad and the longest instruction, enough to judge
/// where to place a probe.
pub const CODE_WINDOW: usize = 24;

impl Elf {
    /// Reads a file and looks up the `wanted` symbols: among the dynamic symbols, or among all if the first wanted
    /// symbol is not dynamic. (A program that was linked without `-rdynamic` exports none of its own.)
    ///
    /// # Errors
    /// The file is not ELF, or damaged.
    pub fn read(opened: &Opened, wanted: &[&'static str]) -> Result<Elf, ElfError> {
        let pieces = Pieces::of(opened);
        let head = Head::read(&pieces)?;
        let (mut segments, mut unwind) = (Vec::new(), Unwind::default());
        let mut has_interpreter = false;
        let (at, each, count) = head.programs;
        let is_64bit = head.is_64bit;
        pieces.entries(at, each as u64 * count, each, |bytes| {
            let place =
                |bits32, bits64| if is_64bit { long(bytes, bits64) } else { word(bytes, bits32).into() };
            let (offset, address) = (place(4, 8), place(8, 16));
            let (in_file, memory) = (place(16, 32), place(20, 40));
            let flags = word(bytes, if is_64bit { 4 } else { 24 });
            match word(bytes, 0) {
                PT_LOAD => segments.push(Segment {
                    address,
                    offset,
                    bytes: in_file,
                    memory,
                    writable: flags & PF_W != 0,
                    executable: flags & PF_X != 0,
                }),
                PT_INTERP => has_interpreter = true,
                PT_GNU_EH_FRAME => unwind.sorted = Some((address, offset, in_file)),
                PT_ARM_EXIDX if head.machine == Architecture::Arm => {
                    unwind.arm = Some((address, offset, in_file));
                }
                _ => {}
            }
            true
        });
        let section = |name| head.section(&pieces, name);
        unwind.frames = section(".eh_frame").map(|found| (found.address, found.offset, found.bytes));
        let part = |name| section(name).map(|found| (found.offset, found.offset.saturating_add(found.bytes)));
        // mold leaves strings in a section of their own
        let constants = match (part(".rodata"), part(".rodata.str")) {
            (Some((from, to)), Some((other, end))) => Some((from.min(other), to.max(end))),
            (one, other) => one.or(other),
        };
        let mut elf = Elf {
            machine: head.machine,
            is_64bit,
            has_interpreter,
            segments,
            constants: constants.map(|(from, to)| (from, to.saturating_sub(from))),
            symbols: HashMap::new(),
            local: Vec::new(),
            unwind,
        };
        elf.look_up(&pieces, &head, (SHT_DYNSYM, false), wanted);
        if wanted.first().is_some_and(|first| !elf.symbols.contains_key(first)) {
            elf.look_up(&pieces, &head, (SHT_SYMTAB, false), wanted);
        }
        Ok(elf)
    }

    /// Looks up private variables, too: among all symbols, which a file may lack.
    ///
    /// # Errors
    /// The same as of [`Elf::read`].
    pub fn read_private(&mut self, opened: &Opened, wanted: &[&'static str]) -> Result<(), ElfError> {
        let pieces = Pieces::of(opened);
        let head = Head::read(&pieces)?;
        self.look_up(&pieces, &head, (SHT_SYMTAB, true), wanted);
        Ok(())
    }

    fn look_up(&mut self, pieces: &Pieces, head: &Head, which: (u32, bool), wanted: &[&'static str]) {
        for (name, symbol) in self.found(pieces, head, which, wanted) {
            self.symbols.entry(name).or_insert(symbol);
        }
    }

    /// The wanted symbols in the tables of a kind, the local or the others.
    fn found(
        &self,
        pieces: &Pieces,
        head: &Head,
        (kind, local): (u32, bool),
        wanted: &[&'static str],
    ) -> Vec<(&'static str, Symbol)> {
        let mut all = Vec::new();
        for (table, names) in head.tables(kind) {
            let places = strings::find(pieces, names, wanted);
            if places.is_empty() {
                continue;
            }
            let mut found = Vec::new();
            head.symbols(pieces, table, |entry| {
                let known = places.binary_search_by_key(&entry.name, |place| place.0);
                if let (Some((_, name)), true, true) =
                    (known.ok().and_then(|known| places.get(known)), entry.defined, entry.local == local)
                {
                    let is_data = matches!(entry.kind, STT_OBJECT | STT_COMMON);
                    if is_data || entry.kind == STT_FUNC {
                        found.push((*name, entry.address, entry.bytes, !is_data));
                    }
                }
                found.len() < strings::MAX_MATCHES
            });
            all.extend(found.into_iter().map(|(name, address, bytes, function)| {
                let offset = self.code_offset(address).filter(|_| function);
                let code = offset.and_then(|offset| pieces.bytes(offset)).unwrap_or_default();
                (name, Symbol { address, function, code, bytes })
            }));
        }
        all
    }

    /// The file's unwind tables.
    #[cfg(test)]
    fn unwind(&self) -> Unwind {
        self.unwind
    }

    /// For each address, whether a function begins there; `None` if the file has no unwind tables.
    pub fn begins(&self, opened: &Opened, addresses: &[u64]) -> Option<Vec<bool>> {
        self.unwind.begins(&Pieces::of(opened), self.is_64bit, addresses)
    }

    /// A wanted symbol, if the file has it.
    pub fn symbol(&self, name: &str) -> Option<Symbol> {
        self.symbols.get(name).copied()
    }

    /// Offset in the file of an address; `None` if the file has no bytes for it (.bss).
    pub fn offset(&self, address: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let within = address.checked_sub(segment.address)?;
            (within < segment.bytes).then(|| segment.offset.checked_add(within))?
        })
    }

    /// The same for a code address; `None` for data.
    pub fn code_offset(&self, address: u64) -> Option<u64> {
        let executable = |segment: &&Segment| {
            segment.executable
                && address.checked_sub(segment.address).is_some_and(|within| within < segment.bytes)
        };
        self.segments.iter().find(executable).and_then(|_| self.offset(address))
    }

    /// Offset and size of the constants (.rodata and .rodata.str, whose names `strip` keeps).
    pub fn constants(&self) -> Option<(u64, u64)> {
        self.constants
    }

    /// Address ranges of the variables, without the load bias.
    pub fn variables(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let writable = self.segments.iter().filter(|segment| segment.writable);
        writable.map(|segment| (segment.address, segment.address.saturating_add(segment.memory)))
    }

    /// The load bias in a process with these mappings of the file, by the first with code: whoever looks up symbols has mapped
    /// the file once more, as data.
    pub fn bias<'a>(&self, mut mappings: impl Iterator<Item = &'a Mapping>) -> Option<u64> {
        mappings.find_map(|mapping| {
            let end = mapping.offset.wrapping_add(mapping.end.wrapping_sub(mapping.start));
            let is_there = |segment: &&Segment| {
                segment.executable
                    && segment.offset < end
                    && mapping.offset < segment.offset.saturating_add(segment.bytes)
            };
            let segment = self.segments.iter().find(is_there).filter(|_| mapping.executable)?;
            // where the file's first byte would be, here and in the file
            let (here, there) =
                (mapping.start.wrapping_sub(mapping.offset), segment.address.wrapping_sub(segment.offset));
            Some(here.wrapping_sub(there))
        })
    }
}

/// The first bytes of a function, from its file: memory may contain another tracer's breakpoint.
pub fn code(opened: &Opened, offset: u64) -> [u8; CODE_WINDOW] {
    let mut code = [0; CODE_WINDOW];
    // short at the end of a file, or unreadable: zeroes
    opened.read_some(&mut code, offset);
    code
}

/// Name of the function that covers an address of the file, local functions included; empty if there is none.
pub fn function_at(opened: &Opened, address: u64) -> String {
    function_from(opened, address).map(|(name, _)| name).unwrap_or_default()
}

/// The same with the address at which the function begins; `None` if there is none.
pub fn function_from(opened: &Opened, address: u64) -> Option<(String, u64)> {
    let pieces = Pieces::of(opened);
    let head = Head::read(&pieces).ok()?;
    let mut found = None;
    for (table, names) in head.tables(SHT_SYMTAB).chain(head.tables(SHT_DYNSYM)) {
        head.symbols(&pieces, table, |entry| {
            let covers = address.wrapping_sub(entry.address) < entry.bytes;
            if entry.kind == STT_FUNC && entry.defined && covers {
                found = Some((names, entry.name, entry.address));
            }
            found.is_none()
        });
        if found.is_some() {
            break;
        }
    }
    let ((offset, bytes), at, begin) = found?;
    let mut name = [0; MAX_NAME];
    let have =
        if u64::from(at) < bytes { pieces.read(&mut name, offset.saturating_add(at.into())) } else { 0 };
    let name = name.get(..have).unwrap_or_default();
    let name = name.iter().position(|&byte| byte == 0).and_then(|end| name.get(..end)).unwrap_or_default();
    Some((printable(name), begin)).filter(|(name, _)| !name.is_empty())
}
