//! The snapshots of each IOC's records, in figures: how many there are, and what the last one left out.

use crate::time::Zone;
use iocrec_log::event::{Fact, IocId, SnapshotEnd};
use serde::Serialize;
use std::collections::HashMap;

/// IOCs whose snapshots are counted; a bound for hostile logs.
const MAX_IOCS: usize = 1000;

/// Snapshots of one IOC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Snapshots {
    /// Number of snapshots.
    pub count: u64,
    /// End of the last one. What follows is about that.
    pub last: String,
    /// Number of records whose values it holds.
    pub taken: u32,
    /// Number of records that could not be read, or changed whenever they were.
    pub unread: u32,
    /// Number of records for which there was no room.
    pub left: u32,
    /// Number of records for whose properties there was none.
    pub properties_left: u32,
}

impl Snapshots {
    /// One line for people.
    pub fn text(&self) -> String {
        let Snapshots { count, last, taken, .. } = self;
        let mut text = format!("{count}, the last at {last}: values of {taken} records");
        for (count, what) in [
            (self.unread, "that changed or could not be read"),
            (self.left, "without room"),
            (self.properties_left, "without room for their properties"),
        ] {
            if count > 0 {
                text += &format!(", {count} {what}");
            }
        }
        text
    }
}

/// The ends of snapshots so far: of each IOC their number, and time (wall clock) and content of the last.
#[derive(Default)]
pub struct Ends(HashMap<IocId, (u64, i64, SnapshotEnd)>);

impl Ends {
    /// Takes a fact of this time.
    pub fn take(&mut self, wall: i64, fact: &Fact) {
        let Fact::SnapshotEnd(end) = fact else { return };
        if self.0.len() >= MAX_IOCS && !self.0.contains_key(&end.ioc) {
            return;
        }
        let kept = self.0.entry(end.ioc).or_insert((0, wall, *end));
        kept.0 = kept.0.saturating_add(1);
        if wall >= kept.1 {
            (kept.1, kept.2) = (wall, *end);
        }
    }

    /// Those of an IOC, if it has any; times in `zone`.
    pub fn of(&self, ioc: IocId, zone: &Zone) -> Option<Snapshots> {
        let (count, wall, end) = self.0.get(&ioc)?;
        let SnapshotEnd { taken, unread, left, properties_left, .. } = *end;
        Some(Snapshots { count: *count, last: zone.format(*wall, 3), taken, unread, left, properties_left })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_counts() {
        let end =
            |ioc, taken, left| SnapshotEnd { ioc, since: 0, taken, unread: 0, left, properties_left: 0 };
        let mut ends = Ends::default();
        for (wall, end) in [(2_000_000_000, end(1, 9, 3)), (1_000_000_000, end(1, 5, 7)), (0, end(2, 1, 0))] {
            ends.take(wall, &Fact::SnapshotEnd(end));
        }
        let found = ends.of(1, &Zone::utc()).unwrap();
        assert_eq!((found.count, found.taken), (2, 9));
        assert_eq!(
            found.text(),
            "2, the last at 1970-01-01T00:00:02.000+00:00: values of 9 records, 3 without room"
        );
        assert_eq!(ends.of(3, &Zone::utc()), None);
        (0..MAX_IOCS as u32 + 5).for_each(|ioc| ends.take(0, &Fact::SnapshotEnd(end(ioc, 1, 0))));
        assert_eq!(ends.0.len(), MAX_IOCS);
    }
}
