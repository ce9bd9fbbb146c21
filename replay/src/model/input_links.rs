//! The input links of all records over time, as the recorder noted them: for whoever reads a log once, from its begin to
//! its end, and asks for the inputs of any record on the way. What counts is as in [`inputs`](super::inputs), which finds
//! those of one record.

use super::inputs::{is_whole, Input};
use super::numbered::Keyed;
use iocrec_log::event::RecordId;
use std::collections::HashSet;
use std::rc::Rc;

/// Records, times at which other links of one were noted, and bytes of all; bounds for hostile logs. Where they are
/// reached, inputs are not known.
const MAX_RECORDS: usize = 200_000;
const MAX_NOTED: usize = 8;
const MAX_BYTES: usize = 24 << 20;
/// What a record and a link take beside their texts, about.
const RECORD_BYTES: usize = 96;
const LINK_BYTES: usize = 48;

/// A link of a record: its field, and its text if that is in the log.
#[derive(Debug, PartialEq, Eq)]
pub struct Link {
    field: Rc<str>,
    text: Option<Box<str>>,
}

/// What was noted of a record at one time.
#[derive(Debug)]
struct Noted {
    time: u64,
    links: Box<[Link]>,
    device: Option<Rc<str>>,
}

#[derive(Debug, Default)]
struct OfRecord {
    /// In order of time; what was noted again without a change is left out.
    noted: Vec<Noted>,
    /// When some of its links were read and not all, as after a put to one.
    parts: Vec<u64>,
    /// Whether some of that was left out: nothing is known before the first that is noted.
    is_cut: bool,
}

/// The inputs of a record at a time.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// All of them.
    All(&'a [Link], Option<&'a Rc<str>>),
    /// They may have been changed, and were not noted since.
    Changed,
    /// They were never noted.
    No,
}

/// What is being noted: the fields of a record that were read at one time follow each other.
#[derive(Default)]
struct Current {
    of: (u32, RecordId),
    time: u64,
    fields: Vec<(Rc<str>, Option<Box<str>>)>,
    device: Option<Rc<str>>,
}

/// The input links of all records. Records are known by the number of their run and their own.
#[derive(Default)]
pub struct InputLinks {
    records: Keyed<(u32, RecordId), OfRecord>,
    current: Current,
    /// Names of fields and devices, each once.
    names: HashSet<Rc<str>>,
    bytes: usize,
}

impl InputLinks {
    /// Takes an input link that was read: its field, and its text if that is in the log.
    pub fn link(&mut self, of: (u32, RecordId), time: u64, field: &str, text: Option<String>) {
        self.begin(of, time);
        if self.current.fields.len() < super::inputs::MAX_LINKS {
            let field = self.name(field);
            self.current.fields.push((field, text.map(String::into_boxed_str)));
        }
    }

    /// Takes the device support of a record.
    pub fn device(&mut self, of: (u32, RecordId), time: u64, device: &str) {
        self.begin(of, time);
        self.current.device = Some(self.name(device));
    }

    fn name(&mut self, name: &str) -> Rc<str> {
        if let Some(known) = self.names.get(name) {
            return Rc::clone(known);
        }
        let new: Rc<str> = name.into();
        if self.names.len() < MAX_RECORDS {
            self.names.insert(Rc::clone(&new));
        }
        new
    }

    fn begin(&mut self, of: (u32, RecordId), time: u64) {
        if (self.current.of, self.current.time) != (of, time) {
            self.close();
            (self.current.of, self.current.time) = (of, time);
        }
    }

    /// Ends what is being noted. Call it after the last.
    pub fn close(&mut self) {
        let Current { of, time, fields, device } = std::mem::take(&mut self.current);
        if fields.is_empty() && device.is_none() {
            return;
        }
        let has_room = self.records.len() < MAX_RECORDS && self.bytes < MAX_BYTES;
        if !has_room && !self.records.contains_key(&of) {
            return;
        }
        let record = self.records.entry(of).or_insert_with(|| {
            self.bytes += RECORD_BYTES;
            OfRecord::default()
        });
        if !is_whole(fields.iter().map(|(field, _)| &**field)) {
            if !fields.is_empty() {
                record.is_cut |= record.parts.len() >= MAX_NOTED;
                record.parts.truncate(MAX_NOTED - 1);
                record.parts.push(time);
            }
            return;
        }
        let links = fields.into_iter().map(|(field, text)| Link { field, text });
        let links: Box<[Link]> = links.filter(|link| link.input().is_some()).collect();
        let is_same = |last: &Noted| {
            last.links == links
                && last.device == device
                && record.parts.last().is_none_or(|part| *part < last.time)
        };
        if record.noted.last().is_some_and(is_same) {
            return;
        }
        if record.noted.len() >= MAX_NOTED || self.bytes >= MAX_BYTES {
            record.is_cut = true;
            record.noted.clear();
        }
        let texts = links.iter().map(|link| LINK_BYTES + link.text.as_ref().map_or(0, |text| text.len()));
        self.bytes += texts.sum::<usize>();
        record.noted.push(Noted { time, links, device });
    }

    /// The inputs of a record at a time. `changed`: the last put to one of its links by then.
    pub fn at(&self, of: (u32, RecordId), time: u64, changed: Option<u64>) -> Found<'_> {
        let Some(record) = self.records.get(&of) else { return Found::No };
        let later = record.noted.partition_point(|noted| noted.time <= time);
        let before = later.checked_sub(1).and_then(|last| record.noted.get(last));
        let before = before.filter(|noted| changed.is_none_or(|changed| changed < noted.time));
        // Links noted later were the same before, as long as none was changed; then one is read alone.
        let is_same = |noted: &&Noted| {
            !record.is_cut && !record.parts.iter().any(|part| (time..noted.time).contains(part))
        };
        match before.or_else(|| record.noted.get(later).filter(is_same)) {
            Some(found) => Found::All(&found.links, found.device.as_ref()),
            None if record.noted.is_empty() && !record.is_cut => Found::No,
            None => Found::Changed,
        }
    }

    /// The names of the PVs that links lead to.
    pub fn pvs(&self) -> impl Iterator<Item = String> + '_ {
        let links = self.records.values().flat_map(|record| &record.noted).flat_map(|noted| &*noted.links);
        links.filter_map(|link| match link.input()?.from {
            super::inputs::From::Pv(pv) => Some(pv),
            _ => None,
        })
    }
}

impl Link {
    /// The input; `None` if it is a constant, or says only whether and with which time the record processes.
    pub fn input(&self) -> Option<Input> {
        Input::of(&self.field, self.text.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: [(&str, &str); 2] = [("SDIS", ""), ("TSEL", "")];
    const OF: (u32, u32) = (0, 7);

    fn note(links: &mut InputLinks, time: u64, all: &[(&str, &str)]) {
        all.iter().for_each(|(field, text)| links.link(OF, time, field, Some((*text).to_owned())));
    }

    fn found(links: &InputLinks, time: u64, changed: Option<u64>) -> String {
        match links.at(OF, time, changed) {
            Found::All(links, _) => links.iter().map(|link| &*link.field).collect::<Vec<_>>().join(" "),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn the_last_that_were_noted_whole_count() {
        let mut links = InputLinks::default();
        note(&mut links, 10, &[("INPA", "A:B CP NMS")]);
        links.close();
        assert_eq!(found(&links, 50, None), "No", "one that was read after a put, or a CP link");
        for (time, field) in [(20, "INPA"), (30, "INPA"), (40, "INPB")] {
            note(&mut links, time, &[&WHOLE[..], &[(field, "A:B NPP NMS"), ("INPC", "")]].concat());
        }
        links.close();
        let at = |time, changed| found(&links, time, changed);
        assert_eq!([at(25, None), at(35, None), at(45, None)], ["INPA", "INPA", "INPB"]);
        assert_eq!(at(15, None), "INPA", "it was the same before");
        assert_eq!(at(5, None), "Changed", "a link was read alone since");
        assert_eq!((at(45, Some(42)), at(45, Some(37))), ("Changed".into(), "INPB".into()));
        assert_eq!(at(39, Some(38)), "INPB", "it is noted after the put");
    }
}
