//! Names in a string table.

use crate::linux::elf::pieces::{Pieces, CHUNK};
use std::ffi::CStr;

/// Maximum number of matches in a string table: a name is there once, or twice if it also ends another.
pub(super) const MAX_MATCHES: usize = 4096;
/// Offsets of the `wanted` names in a string table (offset and size in the file), sorted.
pub(super) fn find(pieces: &Pieces, names: (u64, u64), wanted: &[&'static str]) -> Vec<(u32, &'static str)> {
    let longest = wanted.iter().map(|name| name.len()).max().unwrap_or(0);
    // most of a hundred thousand names end like none of them
    let mut ends = vec![false; 1 << 16];
    let end_of = |name: &[u8]| name.last_chunk().map_or(0, |end| usize::from(u16::from_ne_bytes(*end)));
    let places = wanted.iter().map(|name| end_of(name.as_bytes()));
    places.for_each(|place| ends.get_mut(place).into_iter().for_each(|is_end| *is_end = true));
    let mut found = Vec::new();
    // the end of the previous piece, where a name may begin, and the piece itself
    let mut text: Vec<u8> = Vec::with_capacity(longest + CHUNK);
    let mut buffer = vec![0; CHUNK];
    let mut at = 0;
    while at < names.1.min(u64::from(u32::MAX)) && found.len() < MAX_MATCHES {
        let wanted_bytes = buffer.len().min(usize::try_from(names.1 - at).unwrap_or(usize::MAX));
        let have =
            pieces.read(buffer.get_mut(..wanted_bytes).unwrap_or_default(), names.0.saturating_add(at));
        if have == 0 {
            break;
        }
        let kept = text.len();
        text.extend_from_slice(buffer.get(..have).unwrap_or_default());
        // a symbol's name extends from the symbol's offset to a NUL
        let mut end = kept;
        while let Ok(name) = CStr::from_bytes_until_nul(text.get(end..).unwrap_or_default()) {
            end += name.count_bytes();
            let before = text.get(..end).unwrap_or_default();
            if ends.get(end_of(before)) == Some(&true) {
                let names = wanted.iter().filter(|name| before.ends_with(name.as_bytes()));
                let start = at + end as u64 - kept as u64;
                let place =
                    |name: &&'static str| Some((u32::try_from(start).ok()? - name.len() as u32, *name));
                found.extend(names.filter_map(place));
            }
            end += 1;
        }
        at += have as u64;
        let done = text.len().saturating_sub(longest);
        text.drain(..done);
    }
    found.sort_unstable();
    found
}
