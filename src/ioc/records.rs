//! The records that `dbl` would list in an IOC, and aliases.
//!
//! Every record type has a list of dbRecordNodes, each with the record's address and name (dbBase.h). Base does not
//! change these lists after iocInit, but no lock is taken here, so a node may lead anywhere. The walk is bounded by the
//! lists' own counts and by [`MAX_NODES`], and ends where a list is circular. A record is accepted only if its RDES
//! leads back to the type whose list it is on.
//!
//! Each node leads to the next and costs a system call, which the reader process makes. The records and names to which
//! nodes point are read a few hundred at a time; no more than that is held at once, however many records there are.

use std::fmt;

use crate::ioc::layout::{state_texts, Layout, TypeLayout, STATE_BYTES};
use crate::ioc::offsets::Database;
use crate::linux::memory::Memory;
use crate::linux::text::printable;
use crate::linux::width::u32_at;

/// DBRN_FLAGS_ISALIAS in `flags`.
const IS_ALIAS: u32 = 2;
/// More records and aliases than an IOC has: the largest known have some hundred thousand.
pub const MAX_NODES: usize = 2_000_000;
/// `name` is the first member of dbCommon.
const NAME_BYTES: usize = epics::limits::PVNAME_STRINGSZ;
/// Pieces of memory read by one system call (the kernel takes 1024).
const BATCH: usize = 512;

/// A record, or an alias of one.
#[derive(Clone, Debug)]
pub struct RecordAt<'a> {
    /// Address of its dbCommon.
    pub address: u64,
    /// Name.
    pub name: String,
    /// Its type.
    pub rtype: &'a TypeLayout,
    /// Whether the name is an alias.
    pub alias: bool,
    /// Its enum strings, if its type has such fields; none for an alias.
    pub states: Vec<String>,
    /// Address of its dbRecordNode.
    pub node: u64,
}

/// Reason why not all records of an IOC could be walked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkError {
    /// Name of the record type whose list ended the walk.
    pub rtype: String,
    /// Fault of the list.
    pub fault: ListFault,
}

/// Fault of a list of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListFault {
    /// It cannot be read.
    Unreadable,
    /// It claims to have this number of nodes.
    Claims(usize),
    /// It ends before its last node.
    BreaksOff {
        /// Number of nodes found.
        found: usize,
        /// Number of nodes that it claims to have.
        claimed: usize,
    },
    /// A node leads back to one before it.
    Circle,
}

impl fmt::Display for WalkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the list of {} records ", self.rtype)?;
        match self.fault {
            ListFault::Unreadable => f.write_str("could not be read"),
            ListFault::Claims(count) => write!(f, "claims to have {count}"),
            ListFault::BreaksOff { found, claimed } => write!(f, "breaks off after {found} of {claimed}"),
            ListFault::Circle => f.write_str("runs in a circle"),
        }
    }
}

impl std::error::Error for WalkError {}

struct Node {
    address: u64,
    record: u64,
    name: u64,
    alias: bool,
}

/// Passes all records to `hand`, type by type in the IOC's order; within each type, aliases come last.
///
/// # Errors
/// A list is implausible. The records before the fault have been passed on.
pub fn walk(memory: &Memory, layout: &Layout, hand: &mut dyn FnMut(RecordAt<'_>)) -> Result<(), WalkError> {
    let mut types: Vec<&TypeLayout> = layout.types.values().collect();
    types.sort_by_key(|rtype| rtype.address);
    let mut left = MAX_NODES;
    for rtype in types {
        let mut aliases = Vec::new();
        nodes(memory, rtype, &mut left, &mut |mut nodes| {
            aliases.extend(nodes.extract_if(.., |node| node.alias));
            believed(memory, layout, rtype, &nodes, hand);
        })?;
        aliases.chunks(BATCH).for_each(|nodes| believed(memory, layout, rtype, nodes, hand));
    }
    Ok(())
}

/// The nodes of a record type's list, in batches.
fn nodes(
    memory: &Memory,
    rtype: &TypeLayout,
    left: &mut usize,
    hand: &mut dyn FnMut(Vec<Node>),
) -> Result<(), WalkError> {
    let (offsets, width) = (Database::of(memory.width()), memory.width());
    let wrong = |fault| Err(WalkError { rtype: rtype.name.clone(), fault });
    let list = memory.head::<32>(rtype.address.wrapping_add(offsets.type_records), offsets.list_bytes);
    let Some(list) = list else { return wrong(ListFault::Unreadable) };
    let count = u32_at(&list, offsets.list_count) as usize;
    if count > *left {
        return wrong(ListFault::Claims(count));
    }
    *left -= count;
    let mut batch = Vec::with_capacity(BATCH.min(count));
    let mut next = width.pointer(&list, 0);
    // an earlier node, replaced at each power of two: a circle leads back to it
    let mut passed = 0;
    let mut index = 0;
    while index < count {
        let read = if next == 0 { Vec::new() } else { memory.list(next, offsets.node_bytes, count - index) };
        if read.is_empty() {
            hand(batch);
            return wrong(ListFault::BreaksOff { found: index, claimed: count });
        }
        for bytes in read.chunks_exact(offsets.node_bytes) {
            if next == passed {
                hand(batch);
                return wrong(ListFault::Circle);
            }
            if index.is_power_of_two() {
                passed = next;
            }
            batch.push(Node {
                address: next,
                record: width.pointer(bytes, offsets.node_record),
                name: width.pointer(bytes, offsets.node_name),
                alias: u32_at(bytes, offsets.node_flags) & IS_ALIAS != 0,
            });
            if batch.len() == BATCH {
                hand(std::mem::replace(&mut batch, Vec::with_capacity(BATCH)));
            }
            next = width.pointer(bytes, 0);
            index += 1;
        }
    }
    hand(batch);
    Ok(())
}

/// Passes on the nodes of a batch whose records are plausible.
fn believed(
    memory: &Memory,
    layout: &Layout,
    rtype: &TypeLayout,
    nodes: &[Node],
    hand: &mut dyn FnMut(RecordAt<'_>),
) {
    let rdes_of = |node: &Node| node.record.wrapping_add(layout.rdes.into());
    let rdes: Vec<Option<u64>> = match memory.width().bytes() {
        4 => memory
            .each::<4>(nodes.iter().map(rdes_of))
            .into_iter()
            .map(|bytes| bytes.map(|bytes| u32::from_ne_bytes(bytes).into()))
            .collect(),
        _ => memory
            .each::<8>(nodes.iter().map(rdes_of))
            .into_iter()
            .map(|bytes| bytes.map(u64::from_ne_bytes))
            .collect(),
    };
    // a record contains its own name, aliases are elsewhere
    let place = |node: &Node| if node.alias { node.name } else { node.record };
    let names = memory.each::<NAME_BYTES>(nodes.iter().map(place));
    let mut states = states(memory, rtype, nodes).into_iter();
    for (node, (rdes, name)) in nodes.iter().zip(rdes.into_iter().zip(names)) {
        let states = states.next().unwrap_or_default();
        let name = match name {
            Some(bytes) => bytes.iter().position(|&byte| byte == 0).map(|end| printable(&bytes[..end])),
            // an alias's name may lie at the very end of a mapping
            None => memory.string(place(node), NAME_BYTES - 1),
        };
        let Some(name) = name.filter(|name| !name.is_empty() && rdes == Some(rtype.address)) else {
            continue;
        };
        let states = if node.alias { Vec::new() } else { states };
        hand(RecordAt { address: node.record, name, rtype, alias: node.alias, states, node: node.address });
    }
}

/// The enum strings of a batch of records; empty if their type has none.
fn states(memory: &Memory, rtype: &TypeLayout, nodes: &[Node]) -> Vec<Vec<String>> {
    let Some((offset, count)) = rtype.states else { return Vec::new() };
    let places = nodes.iter().map(|node| node.record.wrapping_add(offset.into()));
    let texts = |bytes: Option<&[u8]>| bytes.map(state_texts).unwrap_or_default();
    if count == 2 {
        let each = memory.each::<{ 2 * STATE_BYTES }>(places);
        return each.iter().map(|bytes| texts(bytes.as_ref().map(|bytes| bytes.as_slice()))).collect();
    }
    let each = memory.each::<{ 16 * STATE_BYTES }>(places);
    each.iter().map(|bytes| texts(bytes.as_ref().map(|bytes| bytes.as_slice()))).collect()
}

#[cfg(test)]
mod tests;
