//! Processes that have just begun, noticed without a cost to anybody else.
//!
//! The kernel's process connector and its trace points tell of each process at once, and make every fork and exec on the
//! machine a little slower for it (docs/design.md has the numbers). /proc/loadavg ends with the number that was given out last: that
//! costs a read, and as long as it is the same nothing has begun. What has begun is among the numbers since.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// More new numbers than this are not tried one by one: all of /proc is listed.
const MOST: u32 = 4096;

/// What has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Nothing.
    None,
    /// Processes or threads of these numbers, if they live.
    Numbers(std::ops::RangeInclusive<u32>),
    /// That can't be told: look at all.
    Any,
}

/// Notices them.
#[derive(Debug, Default)]
pub struct Watch {
    file: Option<File>,
    /// The last number at the last two looks: a number is given out a moment before its process is there.
    last: [Option<u32>; 2],
}

impl Watch {
    /// What has begun since the look before the last one.
    pub fn look(&mut self) -> Arrivals {
        let last = self.last_number();
        let [before, later] = self.last;
        self.last = [later, last];
        between(before, last)
    }

    fn last_number(&mut self) -> Option<u32> {
        if self.file.is_none() {
            self.file = File::open("/proc/loadavg").ok();
        }
        let mut text = [0; 128];
        let have = self.file.as_ref()?.read_at(&mut text, 0).ok()?;
        // "0.00 0.01 0.05 1/123 4567"
        std::str::from_utf8(text.get(..have)?).ok()?.split_ascii_whitespace().nth(4)?.parse().ok()
    }
}

fn between(before: Option<u32>, last: Option<u32>) -> Arrivals {
    match (before, last) {
        (Some(before), Some(last)) if before == last => Arrivals::None,
        (Some(before), Some(last)) if before < last && last - before <= MOST => {
            Arrivals::Numbers(before + 1..=last)
        }
        // the first time, too many, or numbers begin anew
        _ => Arrivals::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_between() {
        assert_eq!(between(None, Some(5)), Arrivals::Any);
        assert_eq!(between(Some(5), Some(5)), Arrivals::None);
        assert_eq!(between(Some(5), Some(7)), Arrivals::Numbers(6..=7));
        assert_eq!(between(Some(7), Some(5)), Arrivals::Any, "numbers began anew");
        assert_eq!(between(Some(7), Some(70_000)), Arrivals::Any);
        assert_eq!(between(Some(7), None), Arrivals::Any);
    }

    #[test]
    fn a_child_is_among_them() {
        let mut watch = Watch::default();
        assert_eq!(watch.look(), Arrivals::Any);
        assert_eq!(watch.look(), Arrivals::Any);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        let seen = match watch.look() {
            Arrivals::Numbers(numbers) => numbers.contains(&pid),
            other => other == Arrivals::Any,
        };
        assert!(seen);
        child.wait().unwrap();
    }
}
