//! The objects that build.rs has compiled for all kernels, and the instructions of their programs.

use std::collections::HashSet;

use object::read::{Object, ObjectSection, ObjectSymbol};
use object::{RelocationTarget, SymbolKind};

/// An object.
pub struct Compiled {
    /// It was compiled from bpf/NAME.bpf.c.
    pub name: &'static str,
    /// The kernel's.
    pub machine: &'static str,
    /// For the ring tier, else for the perf tier.
    pub ring: bool,
    /// Its file.
    pub path: &'static str,
}

/// All of them.
pub static ALL: &[Compiled] = include!(concat!(env!("OUT_DIR"), "/objects_of_all.rs"));

impl Compiled {
    /// What a failure calls it.
    pub fn label(&self) -> String {
        format!("{} for {}, {}", self.name, self.machine, if self.ring { "ring" } else { "perf" })
    }

    /// The bytes of its file.
    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.path).unwrap_or_else(|error| panic!("{}: {error}", self.path))
    }
}

/// Those of the perf tier, which is the one for old kernels.
pub fn of_perf_tier() -> impl Iterator<Item = &'static Compiled> {
    ALL.iter().filter(|object| !object.ring)
}

/// The operation of an [`Instruction`] that calls a function.
pub const CALL: u8 = 0x85;

/// An instruction (struct bpf_insn): operation, registers, offset, immediate.
pub struct Instruction {
    pub code: u8,
    pub destination: u8,
    pub source: u8,
    pub offset: i16,
    pub immediate: i32,
}

/// A program of one of the objects.
pub struct Program {
    /// The object, and its own name.
    pub label: String,
    pub instructions: Vec<Instruction>,
    /// Which instructions load the address of a map.
    pub relocated: HashSet<usize>,
    /// Labels of the functions that it calls.
    pub calls: HashSet<String>,
}

/// All programs of the perf tier.
pub fn programs() -> Vec<Program> {
    of_perf_tier().flat_map(programs_of).collect()
}

/// All programs of an object: at least one.
pub fn programs_of(compiled: &Compiled) -> Vec<Program> {
    let bytes = compiled.bytes();
    let object = object::File::parse(&*bytes).unwrap();
    let is_program = |symbol: &object::Symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0;
    let label = |symbol: &object::Symbol| format!("{}: {}", compiled.label(), symbol.name().unwrap());
    // a function that only this object knows is named by its place in the section
    let called = |relocation: &object::Relocation, immediate: i32| {
        let RelocationTarget::Symbol(index) = relocation.target() else { panic!("a call of no symbol") };
        let symbol = object.symbol_by_index(index).unwrap();
        let address = (i64::from(immediate) + 1) as u64 * 8;
        let is_there = |other: &object::Symbol| {
            other.section_index() == symbol.section_index() && other.address() == address
        };
        let of_section = symbol.kind() == SymbolKind::Section;
        let found =
            if of_section { object.symbols().filter(is_program).find(is_there) } else { Some(symbol) };
        label(&found.unwrap())
    };
    let programs: Vec<Program> = object
        .symbols()
        .filter(is_program)
        .map(|symbol| {
            let section = object.section_by_index(symbol.section_index().unwrap()).unwrap();
            let data = section.data_range(symbol.address(), symbol.size()).unwrap().unwrap();
            let instructions = data.chunks_exact(8).map(|bytes| Instruction {
                code: bytes[0],
                destination: bytes[1] & 0xf,
                source: bytes[1] >> 4,
                offset: i16::from_le_bytes([bytes[2], bytes[3]]),
                immediate: i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            });
            let instructions: Vec<Instruction> = instructions.collect();
            let own = symbol.address()..symbol.address() + symbol.size();
            let relocations = section.relocations().filter(|(at, _)| own.contains(at));
            let relocations: Vec<_> =
                relocations.map(|(at, how)| ((at - own.start) as usize / 8, how)).collect();
            let calls = relocations.iter().filter(|(at, _)| instructions[*at].code == CALL);
            Program {
                label: label(&symbol),
                calls: calls.map(|(at, how)| called(how, instructions[*at].immediate)).collect(),
                relocated: relocations.iter().map(|&(at, _)| at).collect(),
                instructions,
            }
        })
        .collect();
    assert!(!programs.is_empty(), "{}: no programs", compiled.label());
    programs
}
