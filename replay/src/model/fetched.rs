//! Fields that an input link fetches whenever its record processes: A of a calc by INPA, SVAL by SIOL. What a put left in
//! one lasts only where the link is a constant, or empty.
//!
//! Which field a link fetches into is in the C of EPICS Base's record types, dbProcess (DISA) and recGbl (SIMM, TSE) of
//! 3.14.12, 3.15.9 and 7.0.8. VAL is not among them: the end of processing shows it.

use super::base_types::always_forwards;
use super::numbered::Numbered;
use super::run::Run;
use iocrec_log::event::{FieldId, RecordId, Value};

/// Records whose links are remembered, and links of one that are set; bounds for hostile logs. No record type of EPICS
/// Base has more than 30. Of others, it is not known whether a link is set.
const MAX_RECORDS: usize = 500_000;
const MAX_LINKS: usize = 256;

/// SDIS and TSEL are noted even if they are constants, and only together with all links that are none.
const SDIS: u8 = 1;
const TSEL: u8 = 2;
/// A put has changed one of them: from then on, and before it was noted, it may have been another.
const CHANGED: u8 = 4;

/// What is known of the input links of a record.
#[derive(Default)]
struct OfRecord {
    flags: u8,
    /// Those that were set whenever they were noted.
    set: Vec<FieldId>,
}

/// The input links of records that are no constants, as far as they were noted.
#[derive(Default)]
pub struct InputLinks(Numbered<RecordId, OfRecord>);

impl InputLinks {
    /// Notes a link of a record as it was read.
    pub fn add(&mut self, record: RecordId, (id, name): (FieldId, &str), text: &Value) {
        let Some(of) = self.of(record) else { return };
        of.flags |= match name {
            "SDIS" => SDIS,
            "TSEL" => TSEL,
            _ => 0,
        };
        if is_set(text) && !of.set.contains(&id) {
            match of.set.len() < MAX_LINKS {
                true => of.set.push(id),
                false => of.flags |= CHANGED,
            }
        }
    }

    /// Notes a put to a link of a record.
    pub fn change(&mut self, record: RecordId) {
        if let Some(of) = self.of(record) {
            of.flags |= CHANGED;
        }
    }

    fn of(&mut self, record: RecordId) -> Option<&mut OfRecord> {
        let has_room = self.0.len() < MAX_RECORDS || self.0.contains_key(&record);
        has_room.then(|| self.0.entry(record).or_default())
    }

    /// Those of a record that were ever seen to be set; `None` if it is not known which were.
    pub fn set(&self, record: RecordId) -> Option<&[FieldId]> {
        let of = self.0.get(&record)?;
        (of.flags == SDIS | TSEL).then_some(of.set.as_slice())
    }
}

/// Whether a link of this text is no constant. A link to a PV has modifiers behind its name; an unknown text is that of a
/// link to hardware.
fn is_set(text: &Value) -> bool {
    match text {
        Value::Text(text) => text.contains(&b' ') || text.starts_with(b"@") || text.starts_with(b"{"),
        _ => true,
    }
}

/// The link that fetches into a field of this name.
fn link(field: &str, rtype: &str) -> Option<String> {
    let name = match (field, field.as_bytes()) {
        ("DISA", _) => "SDIS",
        ("SELN", _) if rtype == "sel" => "NVL",
        ("SELN", _) => "SELL",
        ("SGNL", _) => "SVL",
        ("SIMM", _) => "SIML",
        ("SNAM", _) => "SUBL",
        ("SVAL", _) => "SIOL",
        ("TSE", _) => "TSEL",
        (_, [b'A'..=b'U']) => return Some(format!("INP{field}")),
        (_, [b'D', b'O', group]) if group.is_ascii_hexdigit() => {
            return Some(format!("DOL{}", char::from(*group)))
        }
        _ => return None,
    };
    Some(name.to_owned())
}

/// Whether a field of this name may be fetched.
pub fn is_fetched(field: &str) -> bool {
    link(field, "").is_some()
}

/// Whether a field of this name may be set when this record processes. Not if its link is known to be a constant.
pub fn may_be_set(run: &Run, record: RecordId, field: &str) -> bool {
    let context = run.context();
    let Some(record) = context.record(record) else { return is_fetched(field) };
    let Some(link) = link(field, record.rtype) else { return false };
    let is_common = matches!(field, "DISA" | "TSE");
    // Code of the IOC's own sets what it likes: a subroutine has the whole record, and the device support of a histogram
    // writes what it has read.
    let by_code = !always_forwards(record.rtype) || matches!(record.rtype, "aSub" | "histogram" | "sub");
    if by_code && !is_common {
        return true;
    }
    let links = run.input_links();
    let Some(set) = links.set(record.id) else { return true };
    set.iter().any(|id| context.field(*id).is_none_or(|of| of.name == link))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    #[test]
    fn links_of_fields() {
        let links = [("A", "INPA"), ("U", "INPU"), ("DO1", "DOL1"), ("DOA", "DOLA"), ("SELN", "SELL")];
        for (field, expected) in links {
            assert_eq!(link(field, "seq").as_deref(), Some(expected));
        }
        assert_eq!(link("SELN", "sel").as_deref(), Some("NVL"));
        let others = ["VAL", "V", "AA", "DOL", "DOL1", "INPA", "OVAL", "PREC", "DO", "a"];
        assert!(others.iter().all(|field| link(field, "calc").is_none()));
    }

    #[test]
    fn all_links_are_known_once_those_that_are_always_noted_were() {
        let mut links = InputLinks::default();
        links.add(7, (1, "INPA"), &text("A:B NPP NMS"));
        assert_eq!(links.set(7), None, "one that was read after a put");
        links.add(7, (2, "SDIS"), &text(""));
        links.add(7, (3, "TSEL"), &text("0"));
        assert_eq!(links.set(7), Some(&[1][..]));
        links.add(7, (2, "SDIS"), &text("A:C CP NMS"));
        links.add(7, (4, "INP"), &Value::Unknown);
        assert_eq!(links.set(7), Some(&[1, 2, 4][..]));
        links.change(7);
        assert_eq!((links.set(7), links.set(8)), (None, None));
    }
}
