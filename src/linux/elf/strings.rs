//! Names in a string table.

use crate::linux::elf::pieces::{Pieces, CHUNK};

/// Maximum number of matches in a string table: a name is there once, or twice if it also ends another.
pub(super) const MAX_MATCHES: usize = 4096;
/// Offsets of the `wanted` names in a string table (offset and size in the file), sorted.
pub(super) fn find(pieces: &Pieces, names: (u64, u64), wanted: &[&'static str]) -> Vec<(u32, &'static str)> {
    let longest = wanted.iter().map(|name| name.len()).max().unwrap_or(0);
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
