//! Replaces names in types of PVAccess, and what values hold, in the places where it stands: numbers by numbers of the
//! same type, texts by letters of the same length. Where the type is not known, or the bytes do not fit it, a value is cut
//! off before what can't be told.

use super::{words, Redaction, Values};
use epics::pva::cursor::Cursor;
use epics::pva::types::{head, Head, Scalar, DEEPEST};
use epics::pva::value::{self, Leaf, Visitor};
use epics::pva::{Fault, Read};
use iocrec_log::event::{Dbf, PvaType, PvaValue};
use std::ops::Range;

/// Most steps through a description; the longest one that a recorder writes has no more bytes.
const MOST_STEPS: usize = epics::pva::types::LONGEST;

/// From this size on, a text's size takes more bytes than one.
const ONE_BYTE_SIZE: usize = 254;

/// Where a part of bytes stands in them.
fn place(whole: &[u8], part: &[u8]) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    let end = start.checked_add(part.len())?;
    (end <= whole.len()).then_some(start..end)
}

/// Where the names stand in a whole description: those of types and of fields.
fn names(description: &[u8]) -> Read<Vec<Range<usize>>> {
    let (mut cursor, mut names, mut steps) = (Cursor::new(description, false), Vec::new(), MOST_STEPS);
    part(description, &mut cursor, &mut names, &mut steps, 0)?;
    cursor.is_empty().then_some(names).ok_or(Fault::Wrong)
}

fn part(
    whole: &[u8],
    cursor: &mut Cursor<'_>,
    names: &mut Vec<Range<usize>>,
    steps: &mut usize,
    depth: usize,
) -> Read<()> {
    *steps = steps.checked_sub(1).ok_or(Fault::TooMuch)?;
    if depth > DEEPEST {
        return Err(Fault::TooMuch);
    }
    match head(cursor)? {
        Head::Scalar(..) | Head::Any(_) => {}
        Head::Elements => part(whole, cursor, names, steps, depth + 1)?,
        Head::Fields(_, id, count) => {
            names.extend(place(whole, id));
            for _ in 0..count {
                names.extend(place(whole, cursor.string()?));
                part(whole, cursor, names, steps, depth + 1)?;
            }
        }
    }
    Ok(())
}

/// A leaf to be replaced.
struct Found {
    scalar: Scalar,
    /// Where it stands.
    place: Range<usize>,
    /// Whether the value was cut in it: of a text, its size is that of the whole one.
    is_cut: bool,
}

/// Finds where the leaves stand.
struct Leaves<'a> {
    bytes: &'a [u8],
    big_endian: bool,
    found: Vec<Found>,
    /// Up to where everything is known.
    end: usize,
}

impl Leaves<'_> {
    fn keep(&mut self, scalar: Scalar, bytes: &[u8], is_cut: bool) {
        if let Some(place) = place(self.bytes, bytes) {
            self.end = self.end.max(place.end);
            self.found.push(Found { scalar, place, is_cut });
        }
    }
}

impl Visitor for Leaves<'_> {
    fn enter(&mut self, _: &[u8]) {}

    fn leave(&mut self) {}

    fn leaf(&mut self, leaf: Leaf<'_>) {
        match leaf {
            Leaf::One(scalar, bytes) => self.keep(scalar, bytes, false),
            Leaf::Beginning(bytes) => self.keep(Scalar::STRING, bytes, true),
            Leaf::Many(Scalar::STRING, _, bytes) => {
                let mut cursor = Cursor::new(bytes, self.big_endian);
                while !cursor.is_empty() {
                    let mut ahead = cursor;
                    match cursor.string() {
                        Ok(text) => self.keep(Scalar::STRING, text, false),
                        // the last one is cut: what there is of it
                        Err(_) => {
                            let _ = ahead.size();
                            return self.keep(Scalar::STRING, ahead.rest(), true);
                        }
                    }
                }
            }
            Leaf::Many(scalar, _, bytes) => self.keep(scalar, bytes, false),
            Leaf::Empty | Leaf::Nothing => {}
        }
    }

    fn any(&mut self, value: &mut Cursor<'_>, out: &mut Vec<u8>) -> Read<bool> {
        let is_there = value::any_alone(value, out)?;
        match head(&mut Cursor::new(out, false)) {
            Ok(Head::Scalar(..)) => Ok(true),
            _ if !is_there => Ok(false),
            // Its type stands among the values with all its names: nothing from here on can be told apart.
            _ => Err(Fault::UnknownType),
        }
    }
}

/// The type in Channel Access's words.
fn dbf(scalar: Scalar) -> Dbf {
    match scalar.0 {
        0x20 => Dbf::Char,
        0x21 => Dbf::Short,
        0x22 => Dbf::Long,
        0x23 => Dbf::Int64,
        0x25 => Dbf::UShort,
        0x26 => Dbf::ULong,
        0x27 => Dbf::UInt64,
        0x42 => Dbf::Float,
        0x43 => Dbf::Double,
        0x60 => Dbf::String,
        _ => Dbf::UChar,
    }
}

impl Redaction {
    /// A type: names of PVAccess's own types stay, others become letters. What can't be read becomes the type of anything.
    pub(super) fn pva_type(&mut self, of: &mut PvaType) {
        let PvaType { id, description } = of;
        self.types.define(*id, description);
        let found = names(description);
        let Ok(found) = found else {
            *description = vec![epics::pva::types::ANY];
            return;
        };
        for place in found {
            let Some(name) = description.get_mut(place) else { continue };
            let is_kept = self.choice.keep_names && self.choice.values == Values::Keep;
            if !is_kept && !words::is_pva_name(name) {
                let letters = self.secret.letters("pva", name);
                name.copy_from_slice(&letters);
            }
        }
    }

    /// A value. `changed`: it begins with the set of changed fields. `is_options`: it is the options of a request, whose
    /// words are those of PVAccess. `links`: whether its texts are links.
    pub(super) fn pva_value(&mut self, value: &mut PvaValue, changed: bool, is_options: bool, links: Links) {
        let PvaValue { types, big_endian, length, bytes } = value;
        let is_kept = self.choice.values == Values::Keep;
        match self.choice.values {
            Values::Keep if links == Links::None => return,
            Values::Drop if !is_options => return bytes.clear(),
            Values::Keep | Values::Drop | Values::Scale | Values::Replace => {}
        }
        let (found, end) = match types.first().and_then(|of| self.types.get(*of)) {
            Some(description) => leaves(description, bytes, *big_endian, changed),
            None => (Vec::new(), 0),
        };
        bytes.truncate(end);
        let (mut replaced, mut done) = (Vec::with_capacity(bytes.len()), 0);
        for Found { scalar, place, is_cut } in found {
            let end = place.end;
            replaced.extend_from_slice(bytes.get(done..place.start).unwrap_or_default());
            let leaf = bytes.get(place).unwrap_or_default();
            done = end;
            if scalar == Scalar::STRING {
                let text = match () {
                    () if is_kept => self.kept_text(leaf, is_cut, links),
                    () if is_options && words::is_pva_name(leaf) => leaf.to_vec(),
                    () if is_cut || is_options => self.secret.letters("text", leaf),
                    // as the record's value is: it must be found again there
                    () => self.value_text(leaf),
                };
                replace_text(&mut replaced, leaf, text, || self.secret.letters("text", leaf));
            } else {
                let first = replaced.len();
                replaced.extend_from_slice(leaf);
                if scalar != Scalar::BOOLEAN && !is_kept {
                    let own = replaced.get_mut(first..).unwrap_or_default();
                    self.elements(dbf(scalar), own, *big_endian);
                }
            }
        }
        replaced.extend_from_slice(bytes.get(done..).unwrap_or_default());
        // its true length, by as much as what is there of it has changed
        *length = (*length).saturating_add(replaced.len() as u32).saturating_sub(bytes.len() as u32);
        *bytes = replaced;
    }
}

impl Redaction {
    /// A text of a value that is kept: names of PVs in links are not.
    fn kept_text(&mut self, text: &[u8], is_cut: bool, links: Links) -> Vec<u8> {
        let readable = epics::pva::cursor::text(text);
        let mut flags = readable.split_ascii_whitespace().skip(1).peekable();
        let is_link = match links {
            Links::All => true,
            Links::ByTheirFlags => flags.peek().is_some() && flags.all(words::is_link_flag),
            Links::None => false,
        };
        match is_link && !self.choice.keep_names {
            // what is left of it is not told apart
            true if is_cut => self.secret.letters("text", text),
            true => self.link(&readable).into_bytes(),
            false => text.to_vec(),
        }
    }
}

/// Which texts of a value are links.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    /// None.
    None,
    /// Those that end with what an IOC writes behind a link's target: it is not known whose value it is.
    ByTheirFlags,
    /// All.
    All,
}

/// Appends a text in place of another, whose size stands right before it.
fn replace_text(bytes: &mut Vec<u8>, old: &[u8], new: Vec<u8>, of_same_length: impl FnOnce() -> Vec<u8>) {
    if new.len() == old.len() {
        return bytes.extend(new);
    }
    // numbers and their like: their size is one byte
    match bytes.last_mut() {
        Some(size) if old.len() < ONE_BYTE_SIZE && new.len() < ONE_BYTE_SIZE => {
            *size = new.len() as u8;
            bytes.extend(new);
        }
        _ => bytes.extend(of_same_length()),
    }
}

/// The leaves of a value, and up to where it is known.
fn leaves(description: &[u8], bytes: &[u8], big_endian: bool, changed: bool) -> (Vec<Found>, usize) {
    let mut cursor = Cursor::new(bytes, big_endian);
    let mut leaves = Leaves { bytes, big_endian, found: Vec::new(), end: 0 };
    let done = if changed {
        match cursor.bits() {
            Ok(bits) => {
                leaves.end = bytes.len() - cursor.rest().len();
                value::changed(description, bits, &mut cursor, &mut leaves)
            }
            Err(fault) => Err(fault),
        }
    } else {
        value::whole(description, &mut cursor, &mut leaves)
    };
    if done.is_ok() {
        leaves.end = bytes.len() - cursor.rest().len();
    }
    (leaves.found, leaves.end)
}

/// Types of values, by their numbers, as they were before they were redacted.
#[derive(Default)]
pub(super) struct Types {
    known: std::collections::HashMap<u32, Box<[u8]>>,
    bytes: usize,
}

/// Bytes of all types that are kept: a recorder's have some hundred, and none of its segments as many as this.
const MOST_BYTES: usize = 16 << 20;
/// Bytes that an entry takes beside.
const ENTRY: usize = 64;

impl Types {
    fn define(&mut self, id: u32, description: &[u8]) {
        if self.bytes + description.len() + ENTRY > MOST_BYTES {
            // Values of what is forgotten are cut off.
            *self = Types::default();
        }
        self.bytes += description.len() + ENTRY;
        self.known.insert(id, description.into());
    }

    fn get(&self, id: u32) -> Option<&[u8]> {
        self.known.get(&id).map(|description| &**description)
    }
}
