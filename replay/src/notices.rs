//! What has to be said beside the answer: one line each on stderr, and whether all went well.

use crate::out::complain;
use iocrec_log::reader::{Cause, Damage, ReadError};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Lines about one file; a hostile or badly damaged one could fill the screen.
const MAX_LINES: usize = 5;

/// Says things on stderr and remembers whether something could not be read.
#[derive(Default)]
pub struct Notices {
    failed: bool,
    quiet: bool,
    lines: HashMap<PathBuf, usize>,
}

impl Notices {
    /// Says nothing.
    pub fn quiet() -> Self {
        Notices { quiet: true, ..Notices::default() }
    }

    /// Was there anything that could not be read?
    pub fn failed(&self) -> bool {
        self.failed
    }

    /// A log or segment can't be read at all.
    pub fn failure(&mut self, error: &ReadError) {
        self.failed = true;
        self.say(&error.to_string());
    }

    /// A part of a segment can't be read.
    pub fn damage(&mut self, path: &Path, damage: &Damage) {
        // A spare copy of the header, or a block twice, costs nothing.
        self.failed |= !matches!(damage.cause, Cause::Header | Cause::Repeated);
        let lines = self.lines.entry(path.to_owned()).or_default();
        *lines += 1;
        match (*lines).cmp(&MAX_LINES) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => {
                return self.say(&format!("{}: more damage follows", path.display()))
            }
            std::cmp::Ordering::Greater => return,
        }
        let line = match damage.cause {
            Cause::Cut => format!(
                "{} is cut: {damage}; all before is read (copy it again if the original is longer)",
                path.display()
            ),
            // it says itself what is not read
            Cause::Inflated { .. } => format!("{}: {}", path.display(), damage.cause),
            _ => format!("{} is damaged {damage}; the rest is read", path.display()),
        };
        self.say(&line);
    }

    /// Segments of a run are missing before `path`.
    pub fn missing(&mut self, path: &Path, expected: u32, found: u32) {
        let count = found.saturating_sub(expected);
        self.say(&format!(
            "{count} segments of its run are missing before {}: deleted by the recorder to stay under its cap, \
             or not copied; their events are not shown",
            path.display()
        ));
    }

    /// The segment before `path` in its run has lost what was at its end.
    pub fn cut_before(&mut self, path: &Path) {
        self.failed = true;
        self.say(&format!(
            "blocks are missing at the end of the segment before {}; the rest is read (copy it again if the original \
             is longer)",
            path.display()
        ));
    }

    /// Definitions had no room in memory.
    pub fn refused(&mut self, count: u64) {
        if count > 0 {
            self.failed = true;
            self.say(&format!(
                "{count} definitions are left out, since they take more memory than logs of this size may: some records \
                 and PVs have no names, or are not shown; name fewer segments"
            ));
        }
    }

    /// Anything else.
    pub fn say(&self, line: &str) {
        if !self.quiet {
            complain(line);
        }
    }
}
