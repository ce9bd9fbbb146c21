//! The records of an IOC, walked from outside: what `dbl` would list, and aliases.
//!
//! Every record type has a list of dbRecordNodes, each with the record's address and name (dbBase.h; the
//! same from Base 3.14.12 to 7.0.10). Base does not change these lists after iocInit, but nothing is
//! locked here: a node may lead anywhere, so the walk is bounded by the lists' own counts and by
//! [`MAX_RECORDS`], and a record is believed only if its RDES leads back to the type whose list it is on.
//!
//! Nodes hang one behind the other and cost a system call each; what they point to is read a few
//! hundred at a time.

use super::layout::{Layout, TypeLayout};
use super::memory::{printable, Memory};

/// dbRecordType.recList.
const TYPE_RECORDS: u64 = 40;
/// An ELLLIST: first node, last node, count.
const LIST_BYTES: usize = 24;
/// dbRecordNode: next node at 0, `precord`, `recordname`, `flags`.
const NODE_RECORD: usize = 16;
const NODE_NAME: usize = 24;
const NODE_FLAGS: usize = 56;
const NODE_BYTES: usize = 64;
/// DBRN_FLAGS_ISALIAS in `flags`.
const IS_ALIAS: u32 = 2;

/// More records than an IOC has: the largest known have some hundred thousand.
const MAX_RECORDS: usize = 2_000_000;
/// PVNAME_STRINGSZ of dbDefs.h: `name` is the first member of dbCommon.
const NAME_BYTES: usize = 61;
/// Pieces of memory read by one system call (the kernel takes 1024).
const BATCH: usize = 512;

/// A record, or another name of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordAt {
    /// Address of its dbCommon.
    pub address: u64,
    /// Name.
    pub name: String,
    /// Address of its dbRecordType.
    pub rtype: u64,
    /// The name is an alias.
    pub alias: bool,
}

struct Node {
    record: u64,
    name: u64,
    alias: bool,
}

/// All records, type by type in the IOC's order.
///
/// # Errors
/// What did not make sense, in words, with the records found before that.
pub fn walk(memory: &Memory, layout: &Layout) -> (Vec<RecordAt>, Option<String>) {
    let mut records = Vec::new();
    let mut types: Vec<&TypeLayout> = layout.types.values().collect();
    types.sort_by_key(|rtype| rtype.address);
    for rtype in types {
        let (nodes, wrong) = nodes(memory, rtype, MAX_RECORDS - records.len());
        let believed = nodes.chunks(BATCH).flat_map(|nodes| believed(memory, layout, rtype, nodes));
        records.extend(believed);
        if wrong.is_some() {
            return (records, wrong);
        }
    }
    (records, None)
}

/// The nodes of a record type's list.
fn nodes(memory: &Memory, rtype: &TypeLayout, limit: usize) -> (Vec<Node>, Option<String>) {
    let Some(list) = memory.bytes::<LIST_BYTES>(rtype.address + TYPE_RECORDS) else {
        return (Vec::new(), Some(format!("the list of {} records could not be read", rtype.name)));
    };
    let count = u32::from_ne_bytes([list[16], list[17], list[18], list[19]]) as usize;
    if count > limit {
        return (Vec::new(), Some(format!("the list of {} records claims {count}", rtype.name)));
    }
    let mut nodes = Vec::with_capacity(count);
    let mut next = word(&list, 0);
    while next != 0 && nodes.len() < count {
        let Some(bytes) = memory.bytes::<NODE_BYTES>(next) else {
            let wrong = format!("the list of {} records breaks off after {} of {count}", rtype.name, nodes.len());
            return (nodes, Some(wrong));
        };
        let flags = word(&bytes, NODE_FLAGS) as u32;
        let alias = flags & IS_ALIAS != 0;
        nodes.push(Node { record: word(&bytes, NODE_RECORD), name: word(&bytes, NODE_NAME), alias });
        next = word(&bytes, 0);
    }
    (nodes, None)
}

/// Those of a batch of nodes whose records are what they should be.
fn believed(memory: &Memory, layout: &Layout, rtype: &TypeLayout, nodes: &[Node]) -> Vec<RecordAt> {
    let rdes = memory.each::<8>(nodes.iter().map(|node| node.record.wrapping_add(layout.rdes.into())));
    // a record's own name stands in the record, an alias's elsewhere
    let place = |node: &Node| if node.alias { node.name } else { node.record };
    let names = memory.each::<NAME_BYTES>(nodes.iter().map(place));
    let both = rdes.into_iter().zip(names);
    let records = nodes.iter().zip(both).filter_map(|(node, (rdes, name))| {
        let name = name?;
        let end = name.iter().position(|&byte| byte == 0).filter(|&end| end > 0)?;
        (u64::from_ne_bytes(rdes?) == rtype.address).then(|| RecordAt {
            address: node.record,
            name: printable(&name[..end]),
            rtype: rtype.address,
            alias: node.alias,
        })
    });
    records.collect()
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes)
}
