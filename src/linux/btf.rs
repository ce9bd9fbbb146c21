//! The kernel's own description of its structures (BTF, /sys/kernel/btf/vmlinux): where their members are.
//!
//! The file has some 5 MB. It is read through, once for the names and once for the structures, in pieces of 64 KiB: so
//! the agent never has it in memory.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

/// The kernel's file (since Linux 5.4, with CONFIG_DEBUG_INFO_BTF).
pub const KERNEL: &str = "/sys/kernel/btf/vmlinux";

/// `BTF_MAGIC` of include/uapi/linux/btf.h, and the bytes of its header that are needed.
const MAGIC: u16 = 0xeb9f;
const HEADER: usize = 24;
/// Kinds of types of which something is needed: a structure, and those with bytes behind them.
const STRUCT: u32 = 4;
/// The newest kind that this module knows the length of (`BTF_KIND_ENUM64`).
const LAST_KIND: u32 = 19;
const PIECE: usize = 64 << 10;

/// The offsets of members, each named with its structure, in the order of `wanted`. `None` if the kernel does not describe
/// itself, or one of them is not there, is no whole bytes, or not at one place only.
pub fn offsets(wanted: &[(&str, &str)]) -> Option<Vec<u32>> {
    find(&mut File::open(KERNEL).ok()?, wanted)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn find(file: &mut (impl Read + Seek), wanted: &[(&str, &str)]) -> Option<Vec<u32>> {
    let mut header = [0; HEADER];
    file.seek(SeekFrom::Start(0)).ok()?;
    file.read_exact(&mut header).ok()?;
    if u16::from_ne_bytes(*header.first_chunk()?) != MAGIC {
        return None;
    }
    let number = |at: usize| word(&header, at).map(u64::from);
    let (length, types, types_length) = (number(4)?, number(8)?, number(12)?);
    let (strings, strings_length) = (number(16)?, number(20)?);
    file.seek(SeekFrom::Start(length + strings)).ok()?;
    let names = names(&mut BufReader::with_capacity(PIECE, file.by_ref().take(strings_length)), wanted)?;
    file.seek(SeekFrom::Start(length + types)).ok()?;
    members(&mut BufReader::with_capacity(PIECE, file.by_ref().take(types_length)), &names)
}

/// The numbers of the names: their offsets among the strings.
fn names(strings: &mut impl BufRead, wanted: &[(&str, &str)]) -> Option<Vec<(u32, u32)>> {
    let mut found: Vec<(Option<u32>, Option<u32>)> = vec![(None, None); wanted.len()];
    let (mut at, mut name) = (0u32, Vec::new());
    loop {
        name.clear();
        let length = strings.read_until(0, &mut name).ok()?;
        if length == 0 {
            break;
        }
        let text = name.strip_suffix(b"\0")?;
        for ((of, member), (of_number, number)) in wanted.iter().zip(&mut found) {
            if text == of.as_bytes() {
                *of_number = Some(at);
            }
            if text == member.as_bytes() {
                *number = Some(at);
            }
        }
        at = at.checked_add(u32::try_from(length).ok()?)?;
    }
    found.into_iter().map(|(of, member)| Some((of?, member?))).collect()
}

/// The offsets of the members with these names.
fn members(types: &mut impl Read, names: &[(u32, u32)]) -> Option<Vec<u32>> {
    let mut found: Vec<Option<u32>> = vec![None; names.len()];
    let (mut fixed, mut behind) = ([0; 12], Vec::new());
    while read_whole(types, &mut fixed)? {
        let (name, about) = (word(&fixed, 0)?, word(&fixed, 4)?);
        let (kind, count) = (about >> 24 & 31, (about & 0xffff) as usize);
        let length = match kind {
            // integer, variable, tag of a declaration
            1 | 14 | 17 => 4,
            // array
            3 => 12,
            // structure, union, section, enumeration of 64 bits
            STRUCT | 5 | 15 | 19 => 12 * count,
            // enumeration, arguments of a function
            6 | 13 => 8 * count,
            0..=LAST_KIND => 0,
            _ => return None,
        };
        behind.resize(length, 0);
        types.read_exact(&mut behind).ok()?;
        if kind != STRUCT || !names.iter().any(|(of, _)| *of == name) {
            continue;
        }
        for member in behind.chunks_exact(12) {
            let (member, place) = (word(member, 0)?, word(member, 8)?);
            // with bit fields the upper byte is the number of bits
            let (bits, size) = if about >> 31 == 1 { (place & 0xff_ffff, place >> 24) } else { (place, 0) };
            for (wanted, known) in names.iter().zip(&mut found) {
                if *wanted != (name, member) {
                    continue;
                }
                if bits % 8 != 0 || size != 0 || known.is_some_and(|known| known != bits / 8) {
                    return None;
                }
                *known = Some(bits / 8);
            }
        }
    }
    found.into_iter().collect()
}

/// Fills `bytes`; false at the end.
fn read_whole(from: &mut impl Read, bytes: &mut [u8]) -> Option<bool> {
    let mut have = 0;
    while let Some(rest) = bytes.get_mut(have..).filter(|rest| !rest.is_empty()) {
        match from.read(rest).ok()? {
            0 => return (have == 0).then_some(false),
            more => have += more,
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// A description of `struct pair { int first; int second; }`, with an integer type before it.
    fn described(second: u32, kind_of_first: u32) -> Vec<u8> {
        let strings = b"\0int\0pair\0first\0second\0";
        let words: Vec<u32> =
            vec![1, kind_of_first << 24, 4, 32, 5, STRUCT << 24 | 2, 8, 10, 1, 0, 16, 1, second];
        let types: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        for word in [HEADER, 0, types.len(), types.len(), strings.len()] {
            bytes.extend((word as u32).to_ne_bytes());
        }
        bytes.extend(types);
        bytes.extend(strings);
        bytes
    }

    fn of(bytes: &[u8], wanted: &[(&str, &str)]) -> Option<Vec<u32>> {
        find(&mut Cursor::new(bytes), wanted)
    }

    #[test]
    fn members_are_found_by_name() {
        let bytes = described(32, 1);
        assert_eq!(of(&bytes, &[("pair", "second"), ("pair", "first")]), Some(vec![4, 0]));
        assert_eq!(of(&bytes, &[("pair", "third")]), None);
        assert_eq!(of(&bytes, &[("int", "first")]), None, "no structure");
        assert_eq!(of(&described(33, 1), &[("pair", "second")]), None, "a bit field");
        assert_eq!(of(&described(32, 31), &[("pair", "second")]), None, "a kind of a later kernel");
        for cut in 0..bytes.len() {
            assert_eq!(of(&bytes[..cut], &[("pair", "second")]), None, "{cut}");
        }
        assert_eq!(of(&[7; 200], &[("pair", "second")]), None);
    }

    #[test]
    fn the_running_kernel() {
        if !std::path::Path::new(KERNEL).exists() {
            return;
        }
        assert_eq!(
            offsets(&[("list_head", "next"), ("list_head", "prev")]),
            Some(vec![0, size_of::<u64>() as u32])
        );
        assert_eq!(offsets(&[("task_struct", "no_such_member")]), None);
    }
}
