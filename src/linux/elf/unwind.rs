//! Finds where functions begin, from the tables for unwinding a stack.
//!
//! Today's compilers put these tables into every program and library, and `strip` keeps them, since exceptions and
//! debuggers need them: `.eh_frame` with a sorted table of its entries (`.eh_frame_hdr`; LSB Core, "Exception Frames"),
//! on 32-bit ARM `.ARM.exidx` (Exception Handling ABI for the Arm Architecture). A breakpoint must lie at the beginning
//! of an instruction, and the beginning of a function is one.
//!
//! The tables alone are not trusted: the bytes there are checked as well (`probes/place.rs`).

use crate::linux::elf::pieces::{half, long, word, Pieces};

/// Maximum number of `.eh_frame` entries read if there is no sorted table: large programs have 100,000.
const MAX_FRAMES: u32 = 1 << 20;
/// Bytes to read of an entry: its head, or a whole CIE.
const ENTRY: usize = 48;

/// Places of these tables: address, offset in the file, bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unwind {
    /// `.eh_frame_hdr`.
    pub sorted: Option<(u64, u64, u64)>,
    /// `.eh_frame`.
    pub frames: Option<(u64, u64, u64)>,
    /// `.ARM.exidx`.
    pub arm: Option<(u64, u64, u64)>,
}

impl Unwind {
    /// For each address, whether a function begins there; `None` if there is no table.
    pub fn begins(&self, pieces: &Pieces, is_64bit: bool, addresses: &[u64]) -> Option<Vec<bool>> {
        let sorted = || Sorted::eh_frame_hdr(pieces, self.sorted?);
        let arm = || Some(Sorted::exidx(self.arm?));
        if let Some(table) = sorted().or_else(arm) {
            return Some(addresses.iter().map(|&address| table.has(pieces, address)).collect());
        }
        let mut found = vec![false; addresses.len()];
        frames(pieces, self.frames?, is_64bit, |begin| {
            for (found, _) in found.iter_mut().zip(addresses).filter(|(_, address)| **address == begin) {
                *found = true;
            }
        })?;
        Some(found)
    }
}

/// A table of 8-byte entries in the order of addresses; the first 4 bytes give the beginning of a function.
struct Sorted {
    /// Offset of the first entry in the file.
    offset: u64,
    count: u64,
    /// The first 4 bytes are relative to this fixed address, or (`exidx`) to the address of the entry; this is the
    /// first one's.
    base: u64,
    exidx: bool,
}

impl Sorted {
    fn eh_frame_hdr(pieces: &Pieces, (address, offset, bytes): (u64, u64, u64)) -> Option<Sorted> {
        // version 1; a pointer of 4 bytes (DW_EH_PE_udata4, sdata4); a count of 4 (udata4); pairs relative to the
        // beginning of the table (datarel | sdata4): as all linkers write it
        let head: [u8; 12] = pieces.bytes(offset)?;
        let [1, pointer, 0x03, 0x3b, ..] = head else { return None };
        (pointer & 0x07 == 0x03).then_some(())?;
        let count = u64::from(word(&head, 8)).min(bytes.saturating_sub(12) / 8);
        (count > 0).then_some(Sorted { offset: offset.checked_add(12)?, count, base: address, exidx: false })
    }

    fn exidx((address, offset, bytes): (u64, u64, u64)) -> Sorted {
        Sorted { offset, count: bytes / 8, base: address, exidx: true }
    }

    /// Whether a function begins at this address.
    fn has(&self, pieces: &Pieces, address: u64) -> bool {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            let entry = pieces.bytes::<4>(self.offset.saturating_add(middle * 8));
            let Some(relative) = entry.map(|entry| word(&entry, 0)) else { return false };
            let begin = if self.exidx {
                // 31 bits, signed (prel31)
                let relative = ((relative << 1) as i32 >> 1) as u32;
                u64::from((self.base.wrapping_add(middle * 8) as u32).wrapping_add(relative))
            } else {
                self.base.wrapping_add_signed((relative as i32).into())
            };
            match begin.cmp(&address) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return true,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        false
    }
}

/// Passes on the beginnings of the functions in `.eh_frame`; `None` if it is not in the form that compilers write.
fn frames(
    pieces: &Pieces,
    (address, offset, bytes): (u64, u64, u64),
    is_64bit: bool,
    mut work: impl FnMut(u64),
) -> Option<()> {
    let mut at = 0;
    // the CIE that was read last: its place, and the encoding of addresses in its entries
    let mut common = (u64::MAX, 0);
    for _ in 0..MAX_FRAMES {
        if at + 8 > bytes {
            break;
        }
        let mut entry = [0; ENTRY];
        let have = pieces.read(&mut entry, offset.checked_add(at)?);
        let length = u64::from(word(&entry, 0));
        // the last one; a 64-bit one, which nobody writes; or not an entry
        if have < 8 || length == 0 {
            break;
        }
        if !(4..0xffff_fff0).contains(&length) {
            return None;
        }
        let id = u64::from(word(&entry, 4));
        if id != 0 {
            let of = (at + 4).checked_sub(id)?;
            if common.0 != of {
                let mut bytes = [0; ENTRY];
                let have = pieces.read(&mut bytes, offset.checked_add(of)?);
                common = (of, encoding(bytes.get(..have)?, is_64bit)?);
            }
            work(begin(&entry, address.wrapping_add(at + 8), common.1, is_64bit)?);
        }
        at = at.checked_add(length + 4)?;
    }
    Some(())
}

/// The encoding of addresses that a CIE names (DW_EH_PE_...).
fn encoding(cie: &[u8], is_64bit: bool) -> Option<u8> {
    // length, id 0, version, augmentation up to a NUL
    let version = *cie.get(8)?;
    let augmentation = cie.get(9..)?;
    let end = augmentation.iter().position(|&byte| byte == 0)?;
    let (letters, mut rest) = (augmentation.get(..end)?, augmentation.get(end + 1..)?);
    let mut skip_number = || {
        let end = rest.iter().position(|&byte| byte < 0x80)?;
        rest = rest.get(end + 1..)?;
        Some(())
    };
    // alignment of code and of data, the return address register
    skip_number()?;
    skip_number()?;
    if version == 1 {
        rest = rest.get(1..)?;
    } else {
        skip_number()?;
    }
    let letters =
        letters.strip_prefix(b"z").map(|letters| (letters, rest.iter().position(|&byte| byte < 0x80)));
    let Some((letters, length)) = letters else { return Some(0) };
    rest = rest.get(length? + 1..)?;
    for letter in letters {
        match letter {
            b'R' => return rest.first().copied(),
            b'L' => rest = rest.get(1..)?,
            b'P' => rest = rest.get(1 + width(*rest.first()?, is_64bit)?..)?,
            b'S' | b'B' | b'G' => {}
            _ => return None,
        }
    }
    Some(0)
}

/// Bytes of an address in this encoding.
fn width(encoding: u8, is_64bit: bool) -> Option<usize> {
    match encoding & 0x07 {
        0 => Some(if is_64bit { 8 } else { 4 }),
        2 => Some(2),
        3 => Some(4),
        4 => Some(8),
        _ => None,
    }
}

/// The address where the function of an entry begins; `here` is the address of the field that holds it.
fn begin(entry: &[u8], here: u64, encoding: u8, is_64bit: bool) -> Option<u64> {
    let signed = encoding & 0x08 != 0;
    let number = match (width(encoding, is_64bit)?, signed) {
        (2, false) => half(entry, 8).into(),
        (2, true) => i64::from(half(entry, 8) as i16) as u64,
        (4, false) => word(entry, 8).into(),
        (4, true) => i64::from(word(entry, 8) as i32) as u64,
        _ => long(entry, 8),
    };
    let address = match encoding & 0x70 {
        0x00 => number,
        0x10 => here.wrapping_add(number),
        _ => return None,
    };
    Some(if is_64bit { address } else { address & 0xffff_ffff })
}
