//! Notices new processes at no cost to other processes.
//!
//! The kernel's process connector and trace points report each new process at once, but slow down every fork and exec
//! on the machine (docs/internals/recorder.md has the numbers). /proc/loadavg ends with the last process id given out,
//! and costs one read. While that stays the same no process has started; otherwise all new processes are among the ids
//! since.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Above this number of new ids it is cheaper to list /proc.
const MAX_IDS: u32 = 4096;

/// Processes that have started since the last look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Started {
    /// None.
    None,
    /// Some of these ids. Each belongs to a process or a thread, or to one that has ended already.
    Ids(std::ops::RangeInclusive<u32>),
    /// Unknown: list /proc.
    Unknown,
}

/// Notices new processes.
#[derive(Debug, Default)]
pub struct Discovery {
    loadavg: Option<File>,
    /// The last ids at the last two looks: an id is given out a moment before its process shows up.
    last_ids: [Option<u32>; 2],
}

impl Discovery {
    /// Returns the processes that have started since the look before the last one.
    pub fn poll(&mut self) -> Started {
        let last = self.last_id();
        let [before, previous] = self.last_ids;
        self.last_ids = [previous, last];
        between(before, last)
    }

    fn last_id(&mut self) -> Option<u32> {
        if self.loadavg.is_none() {
            self.loadavg = File::open("/proc/loadavg").ok();
        }
        let mut text = [0; 128];
        let length = self.loadavg.as_ref()?.read_at(&mut text, 0).ok()?;
        // "0.00 0.01 0.05 1/123 4567"
        std::str::from_utf8(text.get(..length)?).ok()?.split_ascii_whitespace().nth(4)?.parse().ok()
    }
}

fn between(before: Option<u32>, last: Option<u32>) -> Started {
    match (before, last) {
        (Some(before), Some(last)) if before == last => Started::None,
        (Some(before), Some(last)) if before < last && last - before <= MAX_IDS => {
            Started::Ids(before + 1..=last)
        }
        // the first look, too many new ids, or the kernel has started again at low ids
        _ => Started::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_between_two_looks() {
        assert_eq!(between(None, Some(5)), Started::Unknown);
        assert_eq!(between(Some(5), Some(5)), Started::None);
        assert_eq!(between(Some(5), Some(7)), Started::Ids(6..=7));
        assert_eq!(between(Some(7), Some(5)), Started::Unknown, "ids began again");
        assert_eq!(between(Some(7), Some(70_000)), Started::Unknown);
        assert_eq!(between(Some(7), None), Started::Unknown);
    }

    #[test]
    fn a_child_is_noticed() {
        let mut discovery = Discovery::default();
        assert_eq!(discovery.poll(), Started::Unknown);
        assert_eq!(discovery.poll(), Started::Unknown);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        let seen = match discovery.poll() {
            Started::Ids(ids) => ids.contains(&pid),
            other => other == Started::Unknown,
        };
        assert!(seen);
        child.wait().unwrap();
    }
}
