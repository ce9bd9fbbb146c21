//! `std::map` and `std::string` of GNU's C++ library in the memory of a 64-bit process.
//!
//! Both are read as they may be: half changed, freed, or something else altogether. Everything is bounded, and what
//! does not have the structure's own marks is not there.

use std::collections::HashSet;

use crate::linux::memory::Memory;
use crate::linux::width::{u32_at, Width};

/// Bytes of a map's head: colour, root, first, last, count.
pub const HEAD: usize = 40;
/// Bytes of a node: colour, parent, left, right, the key (32 bits here), a shared pointer's address.
const NODE: usize = 48;
/// Structures read in one call: the kernel takes 1024 at most.
const AT_ONCE: usize = 512;
/// No tree with nodes for all numbers of 32 bits is deeper: twice the logarithm.
const DEEPEST: usize = 64;
/// Longest text accepted: the longest name of a channel that QSRV1 takes.
const LONGEST: u64 = 500;
/// Bytes of the two layouts of a `std::string`: since GCC 5, and before it (PyPI's packages still have that one).
pub const STRINGS: [usize; 2] = [32, 8];
/// Bytes before the text of the old one: length, capacity, references.
const OLD_HEAD: u64 = 24;

fn word(bytes: &[u8], at: usize) -> u64 {
    Width::Bits64.pointer(bytes, at)
}

/// Whether this may be the address of a structure.
pub fn may_point(address: u64) -> bool {
    address > 0xffff && address % 8 == 0 && address < 1 << 56
}

/// The number of entries of the map whose head is in `bytes` at `at`, and `address` in memory; `None` if there is no map
/// that has any.
pub fn map_at(memory: &Memory, bytes: &[u8], at: usize, address: u64, most: usize) -> Option<usize> {
    let head = bytes.get(at..at.checked_add(HEAD)?)?;
    let count = usize::try_from(word(head, 32)).ok().filter(|count| (1..=most).contains(count))?;
    let points = [8, 16, 24].into_iter().all(|link| may_point(word(head, link)));
    // a head is red, and its root's parent
    let is_head = u32_at(head, 0) == 0 && points && memory.pointer(word(head, 8) + 8) == Some(address);
    is_head.then_some(count)
}

/// Keys and values of the map with this head: at most as many as it claims to have.
pub fn entries(memory: &Memory, head: u64, count: usize) -> Vec<(u32, u64)> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut level: Vec<u64> = memory.pointer(head + 8).into_iter().collect();
    for _ in 0..DEEPEST {
        level.retain(|&node| may_point(node) && node != head && seen.insert(node));
        level.truncate(count.saturating_sub(found.len()));
        if level.is_empty() {
            break;
        }
        let mut next = Vec::new();
        for some in level.chunks(AT_ONCE) {
            for node in memory.each::<NODE>(some.iter().copied()).into_iter().flatten() {
                next.extend([word(&node, 16), word(&node, 24)]);
                found.push((u32_at(&node, 32), word(&node, 40)));
            }
        }
        level = next;
    }
    found
}

/// The texts of the strings at these addresses.
pub fn texts(memory: &Memory, strings: &[u64]) -> Vec<Option<String>> {
    strings.chunks(AT_ONCE).flat_map(|some| texts_of(memory, some)).collect()
}

/// One of them.
pub fn text(memory: &Memory, string: u64) -> Option<String> {
    texts_of(memory, &[string]).pop().flatten()
}

fn texts_of(memory: &Memory, strings: &[u64]) -> Vec<Option<String>> {
    let heads: Vec<(u64, [u8; 32])> =
        memory.each_some(strings).into_iter().zip(strings).map(|(head, &at)| (at, head)).collect();
    let old = memory.each_some::<{ OLD_HEAD as usize }>(
        &heads.iter().map(|(_, head)| word(head, 0).wrapping_sub(OLD_HEAD)).collect::<Vec<u64>>(),
    );
    let places: Vec<Vec<(u64, usize)>> =
        heads.iter().zip(old).map(|((at, head), old)| place(*at, head, &old).into_iter().collect()).collect();
    memory.groups(&places).into_iter().map(|bytes| readable(&bytes?)).collect()
}

/// Where a string's text is, its end included.
fn place(at: u64, head: &[u8; 32], old: &[u8; OLD_HEAD as usize]) -> Option<(u64, usize)> {
    let (text, length, capacity) = (word(head, 0), word(head, 8), word(head, 16));
    let is_inside = text == at.wrapping_add(16) && length <= 15;
    let is_new = is_inside || may_point(text) && length > 15 && capacity >= length && capacity < 1 << 32;
    let length = if is_new {
        length
    } else {
        let (length, capacity) = (word(old, 0), word(old, 8));
        (may_point(text) && length <= capacity && capacity < 1 << 32).then_some(length)?
    };
    (length <= LONGEST).then_some((text, length as usize + 1))
}

/// A text with its end, if it is one.
fn readable(bytes: &[u8]) -> Option<String> {
    let (end, text) = bytes.split_last()?;
    let text = std::str::from_utf8(text).ok()?;
    (*end == 0 && !text.chars().any(char::is_control)).then(|| text.to_owned())
}
