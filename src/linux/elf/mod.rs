//! Symbols of the programs and libraries that an IOC consists of.
//!
//! Anybody may run a program that looks like an IOC, so a file may be anything: terabytes long, all of them holes, with
//! tables that overlap. It is read in pieces of `CHUNK` bytes one after the other, and no more than `MOST_READ` in
//! all; what is kept is what was asked for. A small box has little memory, and a static IOC tens of megabytes.

mod unwind;

use std::cell::Cell;
use std::collections::HashMap;

use object::Architecture;

use crate::linux::elf::unwind::Unwind;
use crate::linux::opened::Opened;
use crate::linux::process::Mapping;
use crate::linux::text::printable;

/// Read at once.
const CHUNK: usize = 64 << 10;
/// Of one file no more is read: a static IOC with all drivers and debug information has 20 MB of symbols.
const MOST_READ: u64 = 128 << 20;
/// Segments and sections that are looked at: linkers make 13 and 40, with -ffunction-sections some thousands.
const MOST_SEGMENTS: u64 = 256;
const MOST_SECTIONS: u64 = 16384;
/// Places in a table of names where wanted names are found: each is there once, or twice where one ends as another.
const MOST_NAMES: usize = 4096;
/// Longest name of a function that is shown, bytes: C++ makes long ones.
const LONGEST_NAME: usize = 1024;

// The numbers of ELF (System V ABI, chapters 4 and 5; the processor supplements), with their names there.
const EM_386: u16 = 3;
const EM_ARM: u16 = 40;
const EM_X86_64: u16 = 62;
const EM_AARCH64: u16 = 183;
const EM_RISCV: u16 = 243;
const PT_LOAD: u32 = 1;
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
    /// Address as in the file: the load bias is to be added.
    pub address: u64,
    /// A function (else data).
    pub function: bool,
    /// The first bytes of the function, as they were in the file when the symbol was read; zeroes of data.
    pub code: [u8; CODE_WINDOW],
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
    /// Where it says at which addresses functions begin.
    unwind: Unwind,
}

/// Bytes that are kept of the beginning of a function: more than a landing pad and the longest instruction, so that
/// a probe's place can be judged by them.
pub const CODE_WINDOW: usize = 24;

/// Page size that segments are aligned to at least; larger ones divide by it.
const PAGE: u64 = 4096;

/// A file that is read piece by piece, up to a limit.
pub(super) struct Pieces<'a> {
    opened: &'a Opened,
    left: Cell<u64>,
}

impl<'a> Pieces<'a> {
    pub(super) fn of(opened: &'a Opened) -> Pieces<'a> {
        Pieces { opened, left: Cell::new(MOST_READ) }
    }

    /// Fills the head of `into`; how many bytes.
    pub(super) fn read(&self, into: &mut [u8], offset: u64) -> usize {
        let most = usize::try_from(self.left.get()).unwrap_or(usize::MAX).min(into.len());
        let have = self.opened.read_some(into.get_mut(..most).unwrap_or_default(), offset);
        self.left.set(self.left.get().saturating_sub(have as u64));
        have
    }

    /// That many bytes; `None` if they are not there.
    pub(super) fn bytes<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        (self.read(&mut bytes, offset) == N).then_some(bytes)
    }

    /// Hands over a range in pieces of whole entries of `each` bytes, until one is refused, the range or the file ends.
    fn entries(&self, offset: u64, bytes: u64, each: usize, mut work: impl FnMut(&[u8]) -> bool) {
        let mut buffer = vec![0; CHUNK / each * each];
        let mut at = 0;
        while at < bytes {
            let wanted = buffer.len().min(usize::try_from(bytes - at).unwrap_or(usize::MAX));
            let have = self.read(buffer.get_mut(..wanted).unwrap_or_default(), offset.saturating_add(at));
            let whole = buffer.get(..have / each * each).unwrap_or_default();
            if whole.is_empty() || !whole.chunks_exact(each).all(&mut work) {
                return;
            }
            at += whole.len() as u64;
        }
    }
}

/// Numbers in a file: little-endian, as all machines are that probes are placed on.
pub(super) fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_le_bytes)
}

pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

pub(super) fn long(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// A section's header.
#[derive(Clone, Copy)]
struct Section {
    name: u32,
    kind: u32,
    address: u64,
    offset: u64,
    bytes: u64,
    link: u32,
}

/// An entry of a table of symbols.
struct Entry {
    name: u32,
    kind: u8,
    local: bool,
    defined: bool,
    address: u64,
    bytes: u64,
}

/// The head of a file: its class, and where its tables are.
struct Head {
    wide: bool,
    machine: Architecture,
    /// Offset, bytes of each, number.
    programs: (u64, usize, u64),
    sections: Vec<Section>,
    /// The names of sections: offset and size.
    names: (u64, u64),
}

impl Head {
    fn read(pieces: &Pieces) -> Result<Head, &'static str> {
        let mut head = [0; 64];
        let have = pieces.read(&mut head, 0);
        let wide = match head {
            [0x7f, b'E', b'L', b'F', 1, 1, ..] if have >= 52 => false,
            [0x7f, b'E', b'L', b'F', 2, 1, ..] if have >= 64 => true,
            [0x7f, b'E', b'L', b'F', _, 2, ..] => return Err("a big-endian ELF file"),
            _ => return Err("not ELF"),
        };
        let pick = |narrow: usize, broad: usize| if wide { broad } else { narrow };
        let place = |bytes: &[u8], narrow: usize, broad: usize| {
            if wide {
                long(bytes, broad)
            } else {
                word(bytes, narrow).into()
            }
        };
        let machine = match (half(&head, 18), wide) {
            (EM_386, false) => Architecture::I386,
            (EM_X86_64, true) => Architecture::X86_64,
            (EM_X86_64, false) => Architecture::X86_64_X32,
            (EM_ARM, false) => Architecture::Arm,
            (EM_AARCH64, true) => Architecture::Aarch64,
            (EM_AARCH64, false) => Architecture::Aarch64_Ilp32,
            (EM_RISCV, true) => Architecture::Riscv64,
            (EM_RISCV, false) => Architecture::Riscv32,
            _ => Architecture::Unknown,
        };
        let (program, section) = (pick(32, 56), pick(40, 64));
        if usize::from(half(&head, pick(42, 54))) != program {
            return Err("not ELF: its program headers have another size");
        }
        let programs = (place(&head, 28, 32), program, half(&head, pick(44, 56)).into());
        if programs.2 > MOST_SEGMENTS {
            return Err("not ELF as linkers make it: too many segments");
        }
        let mut sections = Vec::new();
        let count = u64::from(half(&head, pick(48, 60))).min(MOST_SECTIONS);
        if usize::from(half(&head, pick(46, 58))) == section {
            pieces.entries(place(&head, 32, 40), count * section as u64, section, |bytes| {
                sections.push(Section {
                    name: word(bytes, 0),
                    kind: word(bytes, 4),
                    address: place(bytes, 12, 16),
                    offset: place(bytes, 16, 24),
                    bytes: place(bytes, 20, 32),
                    link: word(bytes, pick(24, 40)),
                });
                true
            });
        }
        let names = sections.get(usize::from(half(&head, pick(50, 62))));
        let names = names.map_or((0, 0), |names| (names.offset, names.bytes));
        Ok(Head { wide, machine, programs, sections, names })
    }

    /// The section of that name.
    fn section(&self, pieces: &Pieces, name: &str) -> Option<&Section> {
        let name = [name.as_bytes(), &[0]].concat();
        let mut found = vec![0; name.len()];
        self.sections.iter().find(|section| {
            let at = u64::from(section.name);
            at < self.names.1
                && pieces.read(&mut found, self.names.0.saturating_add(at)) == name.len()
                && found == name
        })
    }

    /// The tables of symbols of a kind, each with its names: offset and size.
    fn tables(&self, kind: u32) -> impl Iterator<Item = (&Section, (u64, u64))> {
        let of_kind = self.sections.iter().filter(move |section| section.kind == kind);
        of_kind.filter_map(|section| {
            let names = self.sections.get(usize::try_from(section.link).ok()?)?;
            Some((section, (names.offset, names.bytes)))
        })
    }

    /// Looks at the symbols of a table, until one is refused.
    fn symbols(&self, pieces: &Pieces, table: &Section, mut work: impl FnMut(Entry) -> bool) {
        let wide = self.wide;
        pieces.entries(table.offset, table.bytes, if wide { 24 } else { 16 }, |bytes| {
            let info = bytes.get(if wide { 4 } else { 12 }).copied().unwrap_or(0);
            work(Entry {
                name: word(bytes, 0),
                kind: info & 0xf,
                local: info >> 4 == 0,
                defined: half(bytes, if wide { 6 } else { 14 }) != 0,
                address: if wide { long(bytes, 8) } else { word(bytes, 4).into() },
                bytes: if wide { long(bytes, 16) } else { word(bytes, 8).into() },
            })
        });
    }
}

/// Where in a table of names those are that are wanted, in order.
fn places(pieces: &Pieces, names: (u64, u64), wanted: &[&'static str]) -> Vec<(u32, &'static str)> {
    let longest = wanted.iter().map(|name| name.len()).max().unwrap_or(0);
    let mut found = Vec::new();
    // what lay before the piece that is looked at, as far as a name may begin there
    let mut text: Vec<u8> = Vec::with_capacity(longest + CHUNK);
    let mut buffer = vec![0; CHUNK];
    let mut at = 0;
    while at < names.1.min(u64::from(u32::MAX)) && found.len() < MOST_NAMES {
        let wanted_bytes = buffer.len().min(usize::try_from(names.1 - at).unwrap_or(usize::MAX));
        let have =
            pieces.read(buffer.get_mut(..wanted_bytes).unwrap_or_default(), names.0.saturating_add(at));
        if have == 0 {
            break;
        }
        let kept = text.len();
        text.extend_from_slice(buffer.get(..have).unwrap_or_default());
        // a symbol's name reaches from where it points to up to a NUL
        for end in (kept..text.len()).filter(|&end| text.get(end) == Some(&0)) {
            let before = text.get(..end).unwrap_or_default();
            let names = wanted
                .iter()
                .filter(|name| before.last() == name.as_bytes().last() && before.ends_with(name.as_bytes()));
            let start = at + end as u64 - kept as u64;
            let place = |name: &&'static str| Some((u32::try_from(start).ok()? - name.len() as u32, *name));
            found.extend(names.filter_map(place));
        }
        at += have as u64;
        let done = text.len().saturating_sub(longest);
        text.drain(..done);
    }
    found.sort_unstable();
    found
}

impl Elf {
    /// Reads a file and looks up the `wanted` symbols: among the dynamic ones, and where the first of them is
    /// not there among all. (A program that was linked without `-rdynamic` exports none of its own.)
    ///
    /// # Errors
    /// A reason in words: not ELF, or damaged.
    pub fn read(opened: &Opened, wanted: &[&'static str]) -> Result<Elf, &'static str> {
        let pieces = Pieces::of(opened);
        let head = Head::read(&pieces)?;
        let (mut segments, mut unwind) = (Vec::new(), Unwind::default());
        let (at, each, count) = head.programs;
        let wide = head.wide;
        pieces.entries(at, each as u64 * count, each, |bytes| {
            let place = |narrow, broad| if wide { long(bytes, broad) } else { word(bytes, narrow).into() };
            let (offset, address) = (place(4, 8), place(8, 16));
            let (in_file, memory) = (place(16, 32), place(20, 40));
            let flags = word(bytes, if wide { 4 } else { 24 });
            match word(bytes, 0) {
                PT_LOAD => segments.push(Segment {
                    address,
                    offset,
                    bytes: in_file,
                    memory,
                    writable: flags & PF_W != 0,
                    executable: flags & PF_X != 0,
                }),
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
        let constants = section(".rodata").map(|found| (found.offset, found.bytes));
        let mut elf =
            Elf { machine: head.machine, wide, segments, constants, symbols: HashMap::new(), unwind };
        elf.look_up(&pieces, &head, SHT_DYNSYM, wanted);
        if wanted.first().is_some_and(|first| !elf.symbols.contains_key(first)) {
            elf.look_up(&pieces, &head, SHT_SYMTAB, wanted);
        }
        Ok(elf)
    }

    fn look_up(&mut self, pieces: &Pieces, head: &Head, kind: u32, wanted: &[&'static str]) {
        for (table, names) in head.tables(kind) {
            let places = places(pieces, names, wanted);
            if places.is_empty() {
                continue;
            }
            let mut found = Vec::new();
            head.symbols(pieces, table, |entry| {
                let known = places.binary_search_by_key(&entry.name, |place| place.0);
                if let (Some((_, name)), true, false) =
                    (known.ok().and_then(|known| places.get(known)), entry.defined, entry.local)
                {
                    let is_data = matches!(entry.kind, STT_OBJECT | STT_COMMON);
                    if is_data || entry.kind == STT_FUNC {
                        found.push((*name, entry.address, !is_data));
                    }
                }
                found.len() < MOST_NAMES
            });
            for (name, address, function) in found {
                let offset = self.code_offset(address).filter(|_| function);
                let code = offset.and_then(|offset| pieces.bytes(offset)).unwrap_or_default();
                self.symbols.entry(name).or_insert(Symbol { address, function, code });
            }
        }
    }

    /// Its tables for unwinding.
    #[cfg(test)]
    pub(in crate::linux::elf) fn unwind(&self) -> Unwind {
        self.unwind
    }

    /// Which of some addresses functions begin at, as far as the file tells; `None` if it doesn't.
    pub fn begins(&self, opened: &Opened, addresses: &[u64]) -> Option<Vec<bool>> {
        self.unwind.begins(&Pieces::of(opened), self.wide, addresses)
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
pub fn code(opened: &Opened, offset: u64) -> [u8; CODE_WINDOW] {
    let mut code = [0; CODE_WINDOW];
    // short at the end of a file, or not readable: zeroes
    opened.read_some(&mut code, offset);
    code
}

/// The function that covers an address of the file, local ones included; empty where none does.
pub fn function_at(opened: &Opened, address: u64) -> String {
    let pieces = Pieces::of(opened);
    let Ok(head) = Head::read(&pieces) else { return String::new() };
    let mut found = None;
    for (table, names) in head.tables(SHT_SYMTAB).chain(head.tables(SHT_DYNSYM)) {
        head.symbols(&pieces, table, |entry| {
            let covers = address.wrapping_sub(entry.address) < entry.bytes;
            if entry.kind == STT_FUNC && entry.defined && covers {
                found = Some((names, entry.name));
            }
            found.is_none()
        });
        if found.is_some() {
            break;
        }
    }
    let Some(((offset, bytes), at)) = found else { return String::new() };
    let mut name = [0; LONGEST_NAME];
    let have =
        if u64::from(at) < bytes { pieces.read(&mut name, offset.saturating_add(at.into())) } else { 0 };
    let name = name.get(..have).unwrap_or_default();
    printable(name.iter().position(|&byte| byte == 0).and_then(|end| name.get(..end)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::{fuzz, mutate, Random};
    use crate::ioc::stripped;
    use crate::linux::process::mappings;

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
            let of = |name| elf.symbol(name).map(|symbol| (symbol.address, symbol.function));
            assert_eq!(of("pdbbase"), Some((0x2010, false)));
            assert_eq!(of("dbProcess"), Some((0x1020, true)));
            assert_eq!(elf.symbol("dbProcess").unwrap().code, code(&opened, 0x20));
            assert_eq!(function_at(&opened, 0x1030), "dbProcess");
            assert!(stripped::has_base(&opened, &elf));
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
                    let _ = stripped::has_base(&opened, &elf);
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
