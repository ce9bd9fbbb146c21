//! CP links: the record whose change makes another process.
//!
//! Nothing in EPICS Base shows for which of its CP links a record is processed. If it has only one, that is the one.
//! The recorder notes a record's CP links when the record is first seen to process for one, and again from time to
//! time.

use super::numbered::Numbered;
use super::value;
use epics::pv::link_target;
use iocrec_log::event::{FieldId, RecordId};

/// Records remembered, snapshots of each, and links in one; bytes of a link's text (the recorder reads a kilobyte), and
/// of all: bounds for hostile logs.
const MAX_RECORDS: usize = 100_000;
const MAX_TEXT: usize = 1100;
const MAX_BYTES: usize = 32 << 20;
const MAX_SNAPSHOTS: usize = 8;
const MAX_LINKS: usize = 64;

/// Whether the text is that of a CP or CPP link.
pub fn is_cp(link: &[u8]) -> bool {
    link.split(|byte| *byte == b' ').skip(1).any(|word| word == b"CP" || word == b"CPP")
}

/// A record's CP links at one time; if empty, they have changed in an unknown way.
struct Snapshot {
    time: u64,
    links: Vec<(FieldId, Box<[u8]>)>,
}

/// The known CP links of records.
#[derive(Default)]
pub struct Links {
    records: Numbered<RecordId, Vec<Snapshot>>,
    bytes: usize,
}

impl Links {
    /// Adds a CP link of a record.
    pub fn add(&mut self, time: u64, record: RecordId, field: FieldId, link: &[u8]) {
        if link.len() > MAX_TEXT {
            return self.change(time, record);
        }
        self.bytes += 64 + link.len();
        if self.bytes > MAX_BYTES {
            (self.records, self.bytes) = (Numbered::default(), 0);
        }
        let link = (field, link.into());
        if let Some(last) = self.records.get_mut(&record).and_then(|snapshot| snapshot.last_mut()) {
            if last.time == time && !last.links.is_empty() {
                if last.links.len() < MAX_LINKS {
                    last.links.push(link);
                }
                return;
            }
            // no need to store the same link twice
            if last.links == [link.clone()] {
                return;
            }
        }
        self.push(record, Snapshot { time, links: vec![link] });
    }

    /// Notes that a link of a record is changed.
    pub fn change(&mut self, time: u64, record: RecordId) {
        if self.records.contains_key(&record) {
            self.push(record, Snapshot { time, links: Vec::new() });
        }
    }

    fn push(&mut self, record: RecordId, snapshot: Snapshot) {
        if self.records.len() >= MAX_RECORDS && !self.records.contains_key(&record) {
            return;
        }
        let all = self.records.entry(record).or_default();
        if all.len() >= MAX_SNAPSHOTS {
            all.remove(0);
        }
        all.push(snapshot);
    }

    /// The only CP link that the record had at that time, and its source.
    pub fn only(&self, time: u64, record: RecordId) -> Option<(FieldId, String)> {
        match self.all(time, record).as_slice() {
            [only] => Some(only.clone()),
            _ => None,
        }
    }

    /// All CP links that the record had at that time, and their sources; none if they are not known.
    pub fn all(&self, time: u64, record: RecordId) -> Vec<(FieldId, String)> {
        self.at(time, record).unwrap_or_default()
    }

    fn at(&self, time: u64, record: RecordId) -> Option<Vec<(FieldId, String)>> {
        let all = self.records.get(&record)?;
        let after = all.partition_point(|snapshot| snapshot.time <= time);
        // A link noted later was the same before, as long as nothing has changed.
        let before =
            after.checked_sub(1).and_then(|last| all.get(last)).filter(|snapshot| !snapshot.links.is_empty());
        let snapshot = before.or_else(|| all.get(after))?;
        let source = |(field, link): &(FieldId, Box<[u8]>)| {
            let mut text = String::new();
            value::push_lossy(&mut text, link);
            (*field, link_target(&text).to_owned())
        };
        Some(snapshot.links.iter().map(source).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_link_is_the_cause() {
        let mut links = Links::default();
        let only =
            |links: &Links, time| links.only(time, 7).map(|(field, source)| format!("{field} {source}"));
        assert_eq!(only(&links, 5), None);
        links.add(10, 7, 1, b"A:SOURCE CP NMS");
        assert_eq!(only(&links, 5).as_deref(), Some("1 A:SOURCE"), "it is noted after it was first needed");
        links.change(20, 7);
        assert_eq!(only(&links, 25), None);
        links.add(30, 7, 1, b"A:SOURCE CP NMS");
        links.add(30, 7, 2, b"A:OTHER CPP NMS");
        assert_eq!((only(&links, 15).as_deref(), only(&links, 25)), (Some("1 A:SOURCE"), None), "one of two");
        assert_eq!(only(&links, 35), None);
        let all: Vec<String> = links.all(35, 7).into_iter().map(|(_, source)| source).collect();
        assert_eq!(all, ["A:SOURCE", "A:OTHER"]);
    }
}
