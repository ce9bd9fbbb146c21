//! The headers of an ELF file: its class, its segment and section tables, its symbols.

use std::fmt;

use object::Architecture;

use crate::linux::elf::pieces::{half, long, word, Pieces};
use crate::linux::machine;

/// Maximum number of segments read: linkers make 13.
const MAX_SEGMENTS: u64 = 256;
/// Maximum number of sections read: linkers make 40, or some thousands with -ffunction-sections.
const MAX_SECTIONS: u64 = 16384;

/// Why a file can't be read as ELF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElfError {
    /// The file does not begin as an ELF file.
    NotElf,
    /// The file is for a big-endian machine; probes are not placed on those.
    BigEndian,
    /// The size of the program headers does not match the file's class.
    HeaderSize,
    /// The file has more segments than any linker makes.
    TooManySegments,
}

impl fmt::Display for ElfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ElfError::NotElf => "not ELF",
            ElfError::BigEndian => "a big-endian ELF file",
            ElfError::HeaderSize => "not ELF: its program headers have another size",
            ElfError::TooManySegments => "not ELF as linkers make it: too many segments",
        })
    }
}

impl std::error::Error for ElfError {}
/// A section's header.
#[derive(Clone, Copy)]
pub(super) struct Section {
    pub name: u32,
    pub kind: u32,
    pub address: u64,
    pub offset: u64,
    pub bytes: u64,
    pub link: u32,
}

/// An entry of a symbol table.
pub(super) struct Entry {
    pub name: u32,
    pub kind: u8,
    pub local: bool,
    pub defined: bool,
    pub address: u64,
    pub bytes: u64,
}

/// The head of a file: its class, and the places of its tables.
pub(super) struct Head {
    pub is_64bit: bool,
    pub machine: Architecture,
    /// Offset, bytes per entry, number of entries.
    pub programs: (u64, usize, u64),
    pub sections: Vec<Section>,
    /// The section names: offset and size.
    pub names: (u64, u64),
}

impl Head {
    pub fn read(pieces: &Pieces) -> Result<Head, ElfError> {
        let mut head = [0; 64];
        let have = pieces.read(&mut head, 0);
        let is_64bit = match head {
            [0x7f, b'E', b'L', b'F', 1, 1, ..] if have >= 52 => false,
            [0x7f, b'E', b'L', b'F', 2, 1, ..] if have >= 64 => true,
            [0x7f, b'E', b'L', b'F', _, 2, ..] => return Err(ElfError::BigEndian),
            _ => return Err(ElfError::NotElf),
        };
        let pick = |bits32: usize, bits64: usize| if is_64bit { bits64 } else { bits32 };
        let place = |bytes: &[u8], bits32: usize, bits64: usize| {
            if is_64bit {
                long(bytes, bits64)
            } else {
                word(bytes, bits32).into()
            }
        };
        let machine = machine::of_elf(half(&head, 18), is_64bit);
        let (program, section) = (pick(32, 56), pick(40, 64));
        if usize::from(half(&head, pick(42, 54))) != program {
            return Err(ElfError::HeaderSize);
        }
        let programs = (place(&head, 28, 32), program, half(&head, pick(44, 56)).into());
        if programs.2 > MAX_SEGMENTS {
            return Err(ElfError::TooManySegments);
        }
        let mut sections = Vec::new();
        let count = u64::from(half(&head, pick(48, 60))).min(MAX_SECTIONS);
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
        Ok(Head { is_64bit, machine, programs, sections, names })
    }

    /// The section with this name.
    pub fn section(&self, pieces: &Pieces, name: &str) -> Option<&Section> {
        let name = [name.as_bytes(), &[0]].concat();
        let mut found = vec![0; name.len()];
        self.sections.iter().find(|section| {
            let at = u64::from(section.name);
            at < self.names.1
                && pieces.read(&mut found, self.names.0.saturating_add(at)) == name.len()
                && found == name
        })
    }

    /// The symbol tables of a kind, each with its names: offset and size.
    pub fn tables(&self, kind: u32) -> impl Iterator<Item = (&Section, (u64, u64))> {
        let of_kind = self.sections.iter().filter(move |section| section.kind == kind);
        of_kind.filter_map(|section| {
            let names = self.sections.get(usize::try_from(section.link).ok()?)?;
            Some((section, (names.offset, names.bytes)))
        })
    }

    /// Calls `work` for each symbol of a table, until it returns false.
    pub fn symbols(&self, pieces: &Pieces, table: &Section, mut work: impl FnMut(Entry) -> bool) {
        let is_64bit = self.is_64bit;
        pieces.entries(table.offset, table.bytes, if is_64bit { 24 } else { 16 }, |bytes| {
            let info = bytes.get(if is_64bit { 4 } else { 12 }).copied().unwrap_or(0);
            work(Entry {
                name: word(bytes, 0),
                kind: info & 0xf,
                local: info >> 4 == 0,
                defined: half(bytes, if is_64bit { 6 } else { 14 }) != 0,
                address: if is_64bit { long(bytes, 8) } else { word(bytes, 4).into() },
                bytes: if is_64bit { long(bytes, 16) } else { word(bytes, 8).into() },
            })
        });
    }
}
