//! Files as linkers make them, this very program, and files changed at random.

use crate::linux::elf::image::small;
use crate::linux::elf::pieces::Pieces;
use crate::linux::elf::unwind::Unwind;
use crate::linux::elf::{code, function_at, Elf, ElfError};
use crate::linux::opened::Opened;
use crate::linux::process::{mappings, Mapping};
use iocrec_testing::chance::{fuzz, mutate, Random};

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
    let of_file = || maps.iter().filter(|mapping| mapping.file == own.file);
    let bias = elf.bias(of_file()).unwrap();
    // mapped once more as data; and only a part of the code
    let data = Mapping { start: 0x1000, end: 0x9000, offset: 0, executable: false, ..own.clone() };
    assert_eq!(elf.bias(std::iter::once(&data).chain(of_file())), Some(bias));
    let part = Mapping { start: own.start + 0x1000, offset: own.offset + 0x1000, ..own.clone() };
    assert_eq!(elf.bias(std::iter::once(&part)), Some(bias));
    assert_eq!(elf.offset(address - bias), Some(address - own.start + own.offset));
    assert_eq!(function_at(&opened, address - bias + 1), "iocrec_elf_test_function");
}

const WANTED: [&str; 2] = ["pdbbase", "dbProcess"];

#[test]
fn small_files_are_read() {
    for is_64bit in [false, true] {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), small(is_64bit)).unwrap();
        let opened = Opened::named(file.path()).unwrap();
        let elf = Elf::read(&opened, &WANTED).unwrap();
        let of = |name| elf.symbol(name).map(|symbol| (symbol.address, symbol.function));
        assert_eq!(of("pdbbase"), Some((0x2010, false)));
        assert_eq!(of("dbProcess"), Some((0x1020, true)));
        assert_eq!(elf.symbol("dbProcess").unwrap().code, code(&opened, 0x20));
        assert_eq!(function_at(&opened, 0x1030), "dbProcess");
    }
}

/// Anyone may run a program that root's recorder inspects.
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
        // the largest possible numbers, where the file has numbers
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
                    let offset = elf.code_offset(address);
                    assert!(offset.is_none() || offset == elf.offset(address));
                    let _ = code(&opened, elf.offset(address).unwrap_or(address));
                }
                assert!(elf.variables().all(|(from, to)| from <= to));
                assert!(elf.symbols.len() <= WANTED.len());
                let _ = elf.bias(mappings(std::process::id()).unwrap().iter().take(3));
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
        }
    });
    println!("{read} files read, {refused} refused");
    assert!(std::env::var("FUZZ_SEED").is_ok() || (read > 100 && refused > 100));
}

#[test]
fn other_files_are_refused() {
    let text = Opened::named(std::path::Path::new("/proc/self/maps")).unwrap();
    assert_eq!(Elf::read(&text, &[]).unwrap_err(), ElfError::NotElf);
}

#[no_mangle]
extern "C" fn iocrec_unwind_test_function() -> u32 {
    11
}

/// This very program: its functions begin exactly where its tables say.
#[test]
fn functions_of_this_program() {
    let opened = Opened::named(&std::env::current_exe().unwrap()).unwrap();
    let elf = Elf::read(&opened, &["iocrec_unwind_test_function", "main"]).unwrap();
    let begin = elf.symbol("iocrec_unwind_test_function").unwrap().address;
    assert_eq!(iocrec_unwind_test_function(), 11);
    let pieces = Pieces::of(&opened);
    let places = [begin, begin + 1, begin + 4, 0, u64::MAX];
    let expected = Some(vec![true, false, false, false, false]);
    assert_eq!(elf.begins(&opened, &places), expected);
    let mut unwind = elf.unwind();
    assert!(unwind.sorted.is_some() || unwind.arm.is_some());
    if unwind.frames.is_some() && unwind.arm.is_none() {
        unwind.sorted = None;
        assert_eq!(unwind.begins(&pieces, elf.is_64bit, &places), expected, "without the sorted table");
    }
    assert_eq!(Unwind::default().begins(&pieces, elf.is_64bit, &places), None);
}
