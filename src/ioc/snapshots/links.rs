//! The input links of a record, its device support, and how many elements its array can have: where its value comes
//! from, and what fits into it. And where it goes to over Channel Access: other links that write show when they do.
//!
//! A link is a structure, and its text lies behind a pointer. Other members of the structure change whenever another
//! link to the same record does, so a sample keeps only what the text is made of.

use std::collections::HashMap;

use iocrec_log::event::{Dbf, Value};
use iocrec_log::value::until_nul;

use crate::ioc::fields::{link_text, string, LinkParts};
use crate::ioc::layout::{FieldAt, Layout, TypeLayout};
use crate::ioc::offsets::Link;
use crate::ioc::snapshots::{field, part, Place, Sample, Span};
use crate::linux::memory::Memory;
use crate::linux::width::Width;

/// Bytes of a text that are read at once: the name of a record has 60 at most. A longer text takes a read of its own.
const AT_ONCE: u64 = 64;
/// Bytes of a page: what is behind its end may not be mapped.
const PAGE: u64 = 4096;

/// An input link, or one that writes over Channel Access, as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Input {
    /// Address of the field's description.
    description: u64,
    parts: LinkParts,
    /// Its name or text.
    text: Box<[u8]>,
    /// Its type, if it writes.
    writes: Option<Dbf>,
}

/// The spans of a type's records that hold its input links and the rest.
pub(super) fn spans(width: Width, layout: &Layout, rtype: &TypeLayout) -> Vec<Span> {
    let size = Link::of(width, layout.numbering).bytes as u16;
    let fits = |at: u16| u32::from(at) + u32::from(size) <= rtype.record_bytes;
    let outputs = rtype.outputs(layout.numbering).map(|(link, _)| link);
    let links = rtype.inputs(layout.numbering).chain(outputs).filter(|link| fits(link.offset));
    let spans = links.map(|link| Span { at: link.offset, size });
    spans.chain(others(rtype).filter_map(place).map(Span::from)).collect()
}

/// DTYP and NELM.
fn others(rtype: &TypeLayout) -> impl Iterator<Item = &FieldAt> {
    rtype.device.iter().chain(&rtype.capacity)
}

fn place(field: &FieldAt) -> Option<Place> {
    Some(Place { dbf: field.dbf, offset: field.offset, size: u16::try_from(field.size).ok()? })
}

/// Adds the texts of the links, and keeps of the rest what does not change without need. What can't be read is no sample.
pub(super) fn read_inputs(
    memory: &Memory,
    layout: &Layout,
    spans_of: &HashMap<u64, Vec<Span>>,
    samples: &mut [Option<Sample>],
) {
    let width = memory.width();
    let offsets = Link::of(width, layout.numbering);
    for sample in samples.iter_mut() {
        let Some(own) = sample else { continue };
        let (Some(rtype), Some(spans)) = (layout.types.get(&own.rtype), spans_of.get(&own.rtype)) else {
            continue;
        };
        let read = |link: &FieldAt, writes| {
            let bytes = part(spans, &own.bytes, link.offset, offsets.bytes as u16)?;
            let parts = LinkParts::of(width, &offsets, bytes)?;
            Some(Input { description: link.description, parts, text: Box::default(), writes })
        };
        let inputs = rtype.inputs(layout.numbering).filter_map(|link| read(link, None));
        let outputs = rtype.outputs(layout.numbering).filter_map(|(link, dbf)| read(link, Some(dbf)));
        own.links = inputs.chain(outputs.filter(|output| output.parts.is_ca())).collect();
        let rest = others(rtype).filter_map(place);
        own.bytes = rest
            .filter_map(|place| part(spans, &own.bytes, place.offset, place.size))
            .flatten()
            .copied()
            .collect();
    }
    let inputs = || samples.iter().flatten().flat_map(|sample| &sample.links);
    let wanted: Vec<u64> = inputs().filter_map(|input| input.parts.from).collect();
    let ranges: Vec<Vec<(u64, usize)>> =
        wanted.iter().map(|from| vec![(*from, AT_ONCE.min(PAGE - from % PAGE) as usize)]).collect();
    let mut texts = memory.groups(&ranges).into_iter().zip(wanted);
    for sample in samples.iter_mut() {
        let Some(own) = sample else { continue };
        let mut whole = true;
        for input in own.links.iter_mut().filter(|input| input.parts.from.is_some()) {
            let text = texts.next().and_then(|(bytes, from)| match bytes {
                Some(bytes) if bytes.contains(&0) => Some(until_nul(&bytes).to_vec()),
                _ => string(memory, from),
            });
            whole &= text.is_some();
            input.text = text.unwrap_or_default().into();
        }
        if !whole {
            *sample = None;
        }
    }
}

/// What a sample of [`What::Links`](super::What::Links) shows, each with the address of the field's description: all
/// input links but those that are constants; SDIS and TSEL even if they are, so that a reader can tell that these are all;
/// DTYP if there is a choice, and NELM. A link to hardware has an unknown text. Empty if the record's type does not have
/// SDIS and TSEL.
pub fn links(layout: &Layout, sample: &Sample) -> Vec<(u64, Value)> {
    let Some(rtype) = layout.types.get(&sample.rtype) else { return Vec::new() };
    let Some((sdis, tsel)) = rtype.common_inputs else { return Vec::new() };
    let told = |input: &&Input| {
        input.writes.is_none()
            && (!input.parts.is_constant() || input.description == sdis || input.description == tsel)
    };
    let value = |input: &Input| {
        let text = link_text(input.text.to_vec(), input.parts.kind, input.parts.mask, Dbf::InLink);
        (input.description, text.unwrap_or(Value::Unknown))
    };
    let mut found: Vec<(u64, Value)> = sample.links.iter().filter(told).map(value).collect();
    let mut at = 0;
    for other in others(rtype) {
        let Some(place) = place(other) else { continue };
        let bytes = sample.bytes.get(at..at + usize::from(place.size));
        at += usize::from(place.size);
        let value = bytes.and_then(|bytes| field(layout, place, bytes));
        found.extend(value.map(|value| (other.description, value)));
    }
    found
}

/// The links of such a sample that write over Channel Access, each with the address of the field's description, and its text.
pub fn outputs(sample: &Sample) -> Vec<(u64, Vec<u8>)> {
    let text = |link: &Input| {
        let text = link_text(link.text.to_vec(), link.parts.kind, link.parts.mask, link.writes?)?;
        match text {
            Value::Text(text) => Some((link.description, text)),
            _ => None,
        }
    };
    sample.links.iter().filter_map(text).collect()
}
