//! Things that happened several times on a circuit, and the PVs that they were about.

use super::{NetLine, MAX_NAMES};
use std::collections::BTreeSet;

/// Names that are held of all circuits together, to be counted without saying one twice; a bound for hostile logs.
const MAX_HELD: usize = 100_000;
/// Bytes of a name that is held.
const MAX_LENGTH: usize = 200;

/// How many names may be held yet.
pub(super) struct Room(usize);

impl Default for Room {
    fn default() -> Room {
        Room(MAX_HELD)
    }
}

/// Things that happened several times.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) count: u64,
    pub(super) since: i64,
    pub(super) last: i64,
    pub(super) text: String,
    pvs: BTreeSet<String>,
    /// Whether some were about a PV that is not held.
    has_others: bool,
}

impl Counted {
    pub(super) fn add(&mut self, count: u64, since: i64, last: i64, pv: Option<&str>, room: &mut Room) {
        self.since = if self.count == 0 { since } else { self.since.min(since) };
        self.last = if self.count == 0 { last } else { self.last.max(last) };
        self.count = self.count.saturating_add(count);
        match pv.filter(|pv| !pv.is_empty()) {
            Some(pv) if self.pvs.contains(pv) => {}
            Some(pv) if room.0 > 0 && pv.len() <= MAX_LENGTH => {
                room.0 -= 1;
                self.pvs.insert(pv.to_owned());
            }
            _ => self.has_others = true,
        }
    }

    /// The names of the PVs; empty if none is known.
    fn names(&self) -> String {
        let listed: Vec<&str> = self.pvs.iter().take(MAX_NAMES).map(String::as_str).collect();
        let (listed, more) = (listed.join(" "), self.pvs.len().saturating_sub(MAX_NAMES));
        match (listed.is_empty(), more, self.has_others) {
            (true, ..) => listed,
            (false, 0, false) => listed,
            (false, 0, true) => format!("{listed} and others"),
            (false, more, false) => format!("{listed} and {more} more"),
            (false, more, true) => format!("{listed} and at least {more} more"),
        }
    }

    /// Tells it in a line.
    pub(super) fn tell(&self, mut line: NetLine) -> NetLine {
        line.count = self.count;
        line.last = Some(self.last);
        match self.pvs.first() {
            Some(pv) if self.pvs.len() == 1 && !self.has_others => line.pv.clone_from(pv),
            _ => {
                line.text = self.names();
                line.pvs = self.pvs.iter().cloned().collect();
            }
        }
        line
    }
}
