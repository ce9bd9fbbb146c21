//! Return addresses on a stack, and the functions that they lie in.
//!
//! EPICS Base is built without frame pointers, so a stack can't be unwound without its unwind tables. Instead every word
//! of it is looked at: one that points into mapped code, behind an instruction that calls, is a return address. It may be
//! left over from a call that has returned; nothing here claims more than that it lies there.
//!
//! The process may have ended. Its files are found by what it had mapped before: those that define symbols of EPICS Base
//! are still open, others are opened by name and must be the ones that were mapped.

use std::collections::HashMap;
use std::sync::Arc;

use object::Architecture;

use crate::ioc::IocProcess;
use crate::linux::elf::{function_from, Elf};
use crate::linux::opened::{Named, Opened};
use crate::linux::process::{self, Mapping};
use crate::linux::width::Width;
use crate::linux::FileId;

/// Most return addresses told.
pub const MOST: usize = 48;
/// Bytes before a return address that may be a call.
const CALL: usize = 7;
/// Below this address no file is mapped: Linux keeps the first 64 KiB free (vm.mmap_min_addr), and whoever calls a function that
/// is not there stands at their beginning.
const LOWEST: u64 = 0x1_0000;

/// A place in an IOC's code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its address in the process.
    pub address: u64,
    /// The function; empty if unknown.
    pub function: String,
    /// Name of the file; empty if it is none.
    pub module: String,
    /// Bytes from the start of the function; where that is unknown, from the place where the file is loaded.
    pub offset: u64,
}

/// A return address, and the bytes from the stack pointer to the place where it lies.
pub type Found = (u32, Place);

/// A file of an IOC.
struct File {
    opened: Arc<Opened>,
    bias: u64,
    machine: Architecture,
}

/// The code of an IOC.
pub struct Code<'a> {
    ioc: &'a IocProcess,
    /// All that it has mapped, or had when it was last looked at.
    mappings: Vec<Mapping>,
    /// Whether it is what it has mapped now.
    is_now: bool,
    files: HashMap<FileId, Option<File>>,
}

impl<'a> Code<'a> {
    /// The code of an IOC, which may have ended.
    pub fn of(ioc: &'a IocProcess) -> Code<'a> {
        // it may still be there: files that were loaded lately are only in this list
        let lives = process::start(ioc.pid) == Some(ioc.start);
        let now = if lives { process::mappings(ioc.pid).unwrap_or_default() } else { Vec::new() };
        let has_code = now.iter().any(|mapping| mapping.executable);
        let mappings = if has_code { now } else { ioc.code.to_vec() };
        Code { ioc, mappings, is_now: has_code, files: HashMap::new() }
    }

    /// The place of an instruction, which is in no file if there is no code. `None` if that is not known: a process that has ended
    /// may have loaded a library after it was last looked at.
    pub fn place(&mut self, address: u64) -> Option<Place> {
        let is_known = self.is_now || address < LOWEST;
        self.look_up(address, address).or_else(|| is_known.then(Place::default))
    }

    /// The return addresses among the words of a part of a stack that begins `from` bytes behind the stack pointer.
    pub fn return_addresses(&mut self, stack: &[u8], from: u32) -> Vec<Found> {
        let width = self.ioc.memory.width();
        let found = words(stack, from, width).filter_map(|(at, word)| {
            let word = without_signature(cfg!(target_arch = "aarch64"), word);
            // the call before it belongs to the function, the address itself perhaps to the next one
            let before = word.checked_sub(1)?;
            self.is_behind_a_call(word).then(|| self.look_up(word, before))?.map(|place| (at, place))
        });
        found.take(MOST).collect()
    }

    fn mapping(&self, address: u64) -> Option<Mapping> {
        let holds =
            |mapping: &&Mapping| mapping.executable && (mapping.start..mapping.end).contains(&address);
        self.mappings.iter().find(holds).cloned()
    }

    /// Describes an address by the function that `within` lies in.
    fn look_up(&mut self, address: u64, within: u64) -> Option<Place> {
        let mapping = self.mapping(within)?;
        let module = mapping.path.rsplit('/').next().unwrap_or_default().to_string();
        let Some(file) = self.file(&mapping) else {
            // it can't be opened: what can be said is where it lies in the file
            let offset = (address - mapping.start).saturating_add(mapping.offset);
            return Some(Place { address, function: String::new(), module, offset });
        };
        let bias = file.bias;
        Some(match function_from(&file.opened, within.wrapping_sub(bias)) {
            Some((function, begin)) => {
                let offset = address.wrapping_sub(bias).wrapping_sub(begin);
                Place { address, function, module, offset }
            }
            None => Place { address, function: String::new(), module, offset: address.wrapping_sub(bias) },
        })
    }

    fn file(&mut self, mapping: &Mapping) -> Option<&File> {
        if !self.files.contains_key(&mapping.file) {
            let file = self.open(mapping);
            self.files.insert(mapping.file, file);
        }
        self.files.get(&mapping.file)?.as_ref()
    }

    fn open(&self, mapping: &Mapping) -> Option<File> {
        if let Some(module) = self.ioc.modules.iter().find(|module| module.file == mapping.file) {
            let machine = module.elf.machine;
            return Some(File { opened: module.opened.clone(), bias: module.bias, machine });
        }
        let by_mapping = Named::mapped(self.ioc.pid, mapping).and_then(|named| named.open());
        let opened = by_mapping.or_else(|_| Opened::named(mapping.path.as_ref())).ok()?;
        if !opened.is_of(mapping) {
            return None;
        }
        let elf = Elf::read(&opened, &[]).ok()?;
        let of_file = self.mappings.iter().filter(|other| other.file == mapping.file);
        Some(File { bias: elf.bias(of_file)?, machine: elf.machine, opened: Arc::new(opened) })
    }

    /// Whether an instruction that calls ends before an address.
    fn is_behind_a_call(&mut self, address: u64) -> bool {
        let Some(mapping) = address.checked_sub(1).and_then(|before| self.mapping(before)) else {
            return false;
        };
        let Some(offset) = (address - mapping.start).checked_add(mapping.offset) else { return false };
        let Some(file) = self.file(&mapping) else { return false };
        let mut bytes = [0; CALL];
        let Some(begin) = offset.checked_sub(CALL as u64) else { return false };
        let is_read = file.opened.read_some(&mut bytes, begin) == CALL;
        is_read && ends_in_a_call(file.machine, address, bytes)
    }
}

/// The words of a part of a stack that may be addresses, each with its distance from the stack pointer.
fn words(stack: &[u8], from: u32, width: Width) -> impl Iterator<Item = (u32, u64)> + '_ {
    let bytes = if width == Width::Bits64 { 8 } else { 4 };
    stack.chunks_exact(bytes).enumerate().map(move |(number, word)| {
        let value = word.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        (from.saturating_add((number * bytes) as u32), value)
    })
}

/// A return address without the signature that code of arm64 gives it (paciasp), which lies above its 48 bits.
fn without_signature(is_arm64: bool, word: u64) -> u64 {
    if is_arm64 {
        word & (u64::MAX >> 16)
    } else {
        word
    }
}

/// The same, for those who look for other addresses.
pub fn addresses(stack: &[u8], from: u32, is_64bit: bool) -> impl Iterator<Item = (u32, u64)> + '_ {
    words(stack, from, if is_64bit { Width::Bits64 } else { Width::Bits32 })
}

/// Whether these bytes, which end before `address`, end in an instruction that calls.
fn ends_in_a_call(machine: Architecture, address: u64, bytes: [u8; CALL]) -> bool {
    let [.., a, b, c, d] = bytes;
    let word = u32::from_le_bytes([a, b, c, d]);
    match machine {
        // Intel SDM 2A, CALL: E8 with 4 bytes, or FF /2 with ModRM, SIB and a displacement of 0, 1 or 4 bytes
        Architecture::X86_64 | Architecture::X86_64_X32 | Architecture::I386 => {
            let indirect = |at: usize| -> bool {
                let (Some(0xff), Some(&modrm)) = (bytes.get(at), bytes.get(at + 1)) else { return false };
                let (mode, reg, rm) = (modrm >> 6, modrm >> 3 & 7, modrm & 7);
                let sib = usize::from(mode != 3 && rm == 4);
                let no_base = sib == 1 && bytes.get(at + 2).is_some_and(|sib| sib & 7 == 5);
                let displacement = match mode {
                    0 if rm == 5 || no_base => 4,
                    1 => 1,
                    2 => 4,
                    _ => 0,
                };
                reg == 2 && at + 2 + sib + displacement == CALL
            };
            bytes[2] == 0xe8 || (0..CALL - 1).any(indirect)
        }
        // Arm ARM: BL, BLR; BLRAA and the like
        Architecture::Aarch64 => {
            address.is_multiple_of(4)
                && (word >> 26 == 0b10_0101
                    || word & 0xffff_fc1f == 0xd63f_0000
                    || word & 0xfeff_f800 == 0xd63f_0800)
        }
        // JAL and JALR with ra, and C.JALR
        Architecture::Riscv64 => {
            let half = u32::from(u16::from_le_bytes([c, d]));
            matches!(word & 0xfff, 0x0ef | 0x0e7) || (half & 0xf07f == 0x9002 && half & 0x0f80 != 0)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ioc::image::Image;
    use iocrec_testing::chance::fuzz;
    use proptest::prelude::*;

    fn x86(code: &[u8]) -> bool {
        let mut bytes = [0x90; CALL];
        bytes[CALL - code.len()..].copy_from_slice(code);
        ends_in_a_call(Architecture::X86_64, 0x1000, bytes)
    }

    /// As code that is built with -mbranch-protection leaves them on the stack.
    #[test]
    fn signed_return_addresses() {
        assert_eq!(without_signature(true, 0x002d_ffff_8a1b_2c3c), 0xffff_8a1b_2c3c);
        assert_eq!(without_signature(true, 0xffff_8a1b_2c3c), 0xffff_8a1b_2c3c);
        assert_eq!(without_signature(false, 0x002d_ffff_8a1b_2c3c), 0x002d_ffff_8a1b_2c3c, "data");
    }

    #[test]
    fn calls_of_x86() {
        for call in [
            &[0xe8, 1, 2, 3, 4][..],
            &[0xff, 0xd0],                   // *%rax
            &[0x41, 0xff, 0xd4],             // *%r12
            &[0xff, 0x10],                   // *(%rax)
            &[0xff, 0x50, 0x18],             // *0x18(%rax)
            &[0xff, 0x54, 0x24, 0x08],       // *0x8(%rsp)
            &[0xff, 0x15, 1, 2, 3, 4],       // *x(%rip)
            &[0xff, 0x90, 1, 2, 3, 4],       // *x(%rax)
            &[0xff, 0x14, 0xc3],             // *(%rbx,%rax,8)
            &[0xff, 0x14, 0xc5, 1, 2, 3, 4], // *x(,%rax,8)
        ] {
            assert!(x86(call), "{call:x?}");
        }
        for other in [&[0xff, 0xe0][..], &[0xff, 0x25, 1, 2, 3, 4], &[0xe9, 1, 2, 3, 4], &[0xc3], &[]] {
            assert!(!x86(other), "{other:x?}");
        }
    }

    #[test]
    fn calls_of_others() {
        let of = |machine, address, word: u32| {
            let mut bytes = [0; CALL];
            bytes[3..].copy_from_slice(&word.to_le_bytes());
            ends_in_a_call(machine, address, bytes)
        };
        assert!(of(Architecture::Aarch64, 0x1000, 0x9400_0010) && of(Architecture::Aarch64, 4, 0xd63f_0100));
        assert!(
            !of(Architecture::Aarch64, 0x1002, 0x9400_0010) && !of(Architecture::Aarch64, 4, 0xd61f_0100)
        );
        assert!(!of(Architecture::Aarch64, 4, 0x1400_0010) && !of(Architecture::Arm, 4, 0xeb00_0000));
        assert!(of(Architecture::Riscv64, 4, 0x0000_00ef) && of(Architecture::Riscv64, 4, 0x9782_0000));
        assert!(!of(Architecture::Riscv64, 4, 0x0000_006f) && !of(Architecture::Riscv64, 4, 0x9002_0000));
    }

    /// A library may have come since the last look, but none to the address of a function that is not there.
    #[test]
    fn what_was_mapped_before_tells_little_of_an_ended_process() {
        let mut image = Image::new(Width::Bits64);
        let (base, _) = image.base();
        let (mut process, _) = image.process(std::process::id(), base);
        let nowhere = Some(Place::default());
        process.start = crate::linux::process::start(process.pid).unwrap();
        let of = |process: &IocProcess| [0, 1 << 62].map(|address| Code::of(process).place(address));
        assert_eq!(of(&process), [nowhere.clone(), nowhere.clone()]);
        process.start += 1;
        assert_eq!(of(&process), [nowhere, None], "its number is another one's by now");
    }

    /// Stacks of this process, with words that lie in its code, at its edges, and anywhere.
    #[test]
    fn images_that_were_changed() {
        let mut image = Image::new(Width::Bits64);
        let (base, _) = image.base();
        let (mut process, _) = image.process(std::process::id(), base);
        process.start = crate::linux::process::start(process.pid).unwrap();
        let mut named = 0;
        fuzz(200, |random| {
            let mut code = Code::of(&process);
            let mappings = code.mappings.clone();
            let stack: Vec<u8> = (0..random.below(300))
                .flat_map(|_| {
                    let Mapping { start, end, .. } = mappings[random.below(mappings.len())];
                    let within = start + random.next() % (end - start);
                    let word = [start, end, end - 1, start + 1, random.next(), within, within, within];
                    word[random.below(8)].to_ne_bytes()
                })
                .collect();
            let from = if random.below(9) == 0 { u32::MAX } else { random.below(3000) as u32 };
            let found = code.return_addresses(&stack, from);
            assert!(found.len() <= MOST);
            for (_, place) in found {
                let holds = |mapping: &Mapping| {
                    mapping.executable && (mapping.start..=mapping.end).contains(&place.address)
                };
                assert!(mappings.iter().any(holds), "{place:?}");
                named += usize::from(!place.function.is_empty());
            }
            code.place(random.next());
        });
        assert!(std::env::var("FUZZ_SEED").is_ok() || named > 5, "{named}");
    }

    proptest! {
        /// Words are counted from the stack pointer, and nothing beyond the stack is read.
        #[test]
        fn any_stack(stack in proptest::collection::vec(any::<u8>(), 0..100), from in any::<u32>(), wide in any::<bool>()) {
            let bytes = if wide { 8 } else { 4 };
            let found: Vec<_> = addresses(&stack, from, wide).collect();
            prop_assert_eq!(found.len(), stack.len() / bytes);
            for (number, (at, word)) in found.into_iter().enumerate() {
                prop_assert_eq!(at, from.saturating_add((number * bytes) as u32));
                prop_assert_eq!(&word.to_le_bytes()[..bytes], &stack[number * bytes..][..bytes]);
            }
        }

        #[test]
        fn any_code(bytes in any::<[u8; CALL]>(), address in any::<u64>()) {
            for machine in [Architecture::X86_64, Architecture::Aarch64, Architecture::Riscv64, Architecture::Arm] {
                ends_in_a_call(machine, address, bytes);
            }
        }
    }
}
