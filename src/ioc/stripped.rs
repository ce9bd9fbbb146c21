//! Stripped IOCs: EPICS Base in a program that exports nothing (as 3.14 links programs) and has no symbol table.
//!
//! A program holds Base if the names of the iocsh commands that Base registers are among its constants. The search for
//! its record database follows all of its global variables: a dbBase begins with a list of menus and one of record
//! types, neither of them empty, and all of it must be plausible ([`Layout::read`]).
//!
//! Both searches are bounded: in the bytes of the program and of its variables, and in the number of places read
//! closely.

use crate::ioc::layout::Layout;
use crate::linux::elf::Elf;
use crate::linux::memory::Memory;
use crate::linux::opened::Opened;
use crate::linux::process;
use crate::linux::width::u32_at;
use std::ffi::CStr;

/// iocsh commands of every Base from 3.14 to 7.0 (dbStaticIocRegister.c, dbIocRegister.c, that of iocInit). They are
/// searched for with a terminating NUL, so that this program's own constants are not mistaken for Base's.
const COMMANDS: [&str; 3] = ["dbLoadDatabase", "dbLoadRecords", "iocInit"];
/// Most bytes read of a program's constants: Base has 200 kB, large programs some MB.
const MAX_CONSTANTS: u64 = 16 << 20;
/// Most bytes read of a program's variables: Base has 60 kB.
const MAX_VARIABLES: u64 = 64 << 20;
/// Bytes read at once.
const CHUNK: usize = 64 << 10;
/// Places read by one system call.
const BATCH: usize = 512;
/// Most places that look like a dbBase and are read completely: there is one, with a few variables that point to it.
const MAX_TRIED: usize = 64;
/// More menus and record types than there are: Base brings 20 and 35.
const MAX_LISTED: u32 = 2000;

/// Whether a program holds EPICS Base. Reads its constants.
pub fn has_base(opened: &Opened, elf: &Elf) -> bool {
    let Some((offset, bytes)) = elf.constants() else { return false };
    let longest = COMMANDS.iter().map(|name| name.len() + 1).max().unwrap_or(0);
    let mut missing: Vec<&str> = COMMANDS.to_vec();
    let mut buffer = vec![0; CHUNK + longest];
    let mut at = 0;
    while at < bytes.min(MAX_CONSTANTS) && !missing.is_empty() {
        let have @ 1.. = opened.read_some(&mut buffer, offset.saturating_add(at)) else { return false };
        let text = buffer.get(..have).unwrap_or_default();
        missing.retain(|name| !holds(text, name));
        at += CHUNK as u64;
    }
    missing.is_empty()
}

/// Whether `name` is in the text, followed by a NUL.
fn holds(text: &[u8], name: &str) -> bool {
    let mut left = text;
    while let Ok(found) = CStr::from_bytes_until_nul(left) {
        if found.to_bytes().ends_with(name.as_bytes()) {
            return true;
        }
        left = left.get(found.count_bytes() + 1..).unwrap_or_default();
    }
    false
}

/// Searches the variables of a program for the one that points to the record database. `variables` are their address
/// ranges in the process. Returns the address of the variable.
pub fn find_base(pid: u32, memory: &Memory, variables: &[(u64, u64)]) -> Option<u64> {
    let heap = process::writable(pid);
    let width = memory.width().bytes();
    let mut buffer = vec![0; CHUNK];
    let (mut left, mut tried) = (MAX_VARIABLES, 0);
    for &(start, end) in variables {
        let mut at = start;
        while at < end && left > 0 {
            let wanted = CHUNK.min(usize::try_from(end - at).unwrap_or(CHUNK));
            let have = memory.read_some(at, buffer.get_mut(..wanted)?);
            let words = buffer.get(..have)?.chunks_exact(width).map(|word| memory.width().pointer(word, 0));
            let places: Vec<(u64, u64)> = (at..)
                .step_by(width)
                .zip(words)
                .filter(|&(_, to)| to % width as u64 == 0 && within(&heap, to))
                .collect();
            for places in places.chunks(BATCH) {
                for variable in promising(memory, places) {
                    tried += 1;
                    let found = memory.pointer(variable).is_some_and(|to| Layout::read(memory, to).is_ok());
                    if found || tried >= MAX_TRIED {
                        return found.then_some(variable);
                    }
                }
            }
            left = left.saturating_sub(wanted as u64);
            at += wanted as u64;
        }
    }
    None
}

fn within(ranges: &[(u64, u64)], address: u64) -> bool {
    let before = ranges.partition_point(|range| range.0 <= address);
    before.checked_sub(1).and_then(|last| ranges.get(last)).is_some_and(|range| address < range.1)
}

/// Returns the variables that point to the beginning of a dbBase: `menuList` and `recordTypeList`, two ELLLISTs.
fn promising(memory: &Memory, places: &[(u64, u64)]) -> Vec<u64> {
    let width = memory.width();
    let is_list = |bytes: &[u8]| {
        (1..=MAX_LISTED).contains(&u32_at(bytes, 2 * width.bytes()))
            && width.pointer(bytes, 0) != 0
            && width.pointer(bytes, width.bytes()) != 0
    };
    let list_bytes = width.pick(12, 24);
    let both = |bytes: &[u8]| is_list(bytes) && bytes.get(list_bytes..).is_some_and(is_list);
    let heads = memory.each::<48>(places.iter().map(|&(_, to)| to));
    let good = places.iter().zip(heads).filter(|(_, head)| head.as_ref().is_some_and(|head| both(head)));
    good.map(|((variable, _), _)| *variable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ioc::image::Image;
    use crate::linux::elf::image::small;
    use crate::linux::width::Width;
    use iocrec_testing::chance::{fuzz, mutate, Random};

    #[test]
    fn names_with_an_end() {
        assert!(holds(b"xxiociocInit\0", "iocInit"));
        assert!(!holds(b"iocInit not\0iocIni", "iocInit"));
        assert!(!holds(b"", "iocInit"));
    }

    #[test]
    fn this_program_is_no_ioc() {
        let path = std::env::current_exe().unwrap();
        let opened = Opened::named(&path).unwrap();
        assert!(!has_base(&opened, &Elf::read(&opened, &[]).unwrap()));
    }

    #[test]
    fn ranges() {
        let ranges = [(10, 20), (30, 40)];
        assert_eq!(
            [9, 10, 19, 20, 35, 40].map(|at| within(&ranges, at)),
            [false, true, true, false, true, false]
        );
    }

    #[test]
    fn the_database_is_found_among_variables() {
        for width in [Width::Bits32, Width::Bits64] {
            let mut image = Image::new(width);
            let (base, types) = image.base();
            let last = 17;
            let fields =
                [("VAL", 10, 464, 8), ("RDES", last, 376, 8), ("STAT", 4, 298, 2), ("PACT", 2, 313, 1)];
            let rtype = image.record_type(types, "ao", &fields);
            image.put(types + width.pick(8, 16), &1u32.to_ne_bytes());
            image.point(types + width.bytes(), rtype);
            let menu = image.room(64);
            image.point(base, menu);
            image.point(base + width.bytes(), menu);
            image.put(base + width.pick(8, 16), &3u32.to_ne_bytes());
            let variables = image.room(800);
            let end = image.address(variables + 800);
            let find = |image: &Image| {
                find_base(std::process::id(), &image.memory(), &[(image.address(variables), end)])
            };
            // a pointer to lists that lead nowhere
            let decoy = image.room(100);
            image.put(decoy, &[1; 100]);
            image.point(variables + 16, decoy);
            assert_eq!(find(&image), None, "{width:?}");
            image.point(variables + 400, base);
            assert_eq!(find(&image), Some(image.address(variables + 400)), "{width:?}");
        }
    }

    #[test]
    fn small_files_have_base() {
        for is_64bit in [false, true] {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), small(is_64bit)).unwrap();
            let opened = Opened::named(file.path()).unwrap();
            assert!(has_base(&opened, &Elf::read(&opened, &[]).unwrap()));
        }
    }

    /// Anyone may run a program that root's recorder looks into. (`make fuzz` runs it by this name.)
    #[test]
    fn files_that_were_changed() {
        let seeds = [small(false), small(true)];
        let file = tempfile::NamedTempFile::new().unwrap();
        let (mut with, mut without) = (0_u64, 0_u64);
        fuzz(2000, |random: &mut Random| {
            let mut bytes = seeds[random.below(2)].clone();
            for _ in 0..=random.below(3) {
                mutate(random, &mut bytes);
            }
            std::fs::write(file.path(), &bytes).unwrap();
            let opened = Opened::named(file.path()).unwrap();
            let Ok(elf) = Elf::read(&opened, &[]) else { return };
            *if has_base(&opened, &elf) { &mut with } else { &mut without } += 1;
        });
        println!("{with} files with EPICS Base, {without} without");
        assert!(std::env::var("FUZZ_SEED").is_ok() || (with > 100 && without > 100));
    }
}
