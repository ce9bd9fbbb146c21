//! Tells an IOC from the same IOC before it was started anew: what a record had in a process is gone with it.

use iocrec_log::context::Context;
use iocrec_log::event::Ioc;

/// Lines of processes of one name, and processes, that are told apart; bounds for hostile logs.
const MAX_LINES: usize = 100;
pub(super) const MAX_LIVES: usize = 10_000;

/// A process that is or was an IOC.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Life {
    /// Boot id of its host.
    boot: String,
    /// Start in nanoseconds after boot, and process id.
    began: (u64, u32),
}

/// Lines of processes of the same name on a host, each started anew after the one before it. Two IOCs of a name that run
/// side by side, as in two network namespaces, are two lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The latest process of each line.
    latest: Vec<Life>,
    /// All processes, and the number of their line.
    of: Vec<(Life, usize)>,
}

impl Lines {
    /// The number of the line that a process is in; `running` tells whether another one of the name runs at that time.
    pub(super) fn number(&mut self, life: Option<&Life>, running: impl Fn(&Life) -> bool) -> usize {
        let Some(life) = life else { return 0 };
        if let Some((_, number)) = self.of.iter().rev().find(|(known, _)| known == life) {
            return *number;
        }
        let before = self.latest.iter().position(|latest| {
            Life::began_after(Some(life), Some(latest)) && !(latest.boot == life.boot && running(latest))
        });
        let number = match before {
            Some(number) => number,
            None if self.latest.len() < MAX_LINES => self.latest.len(),
            None => return 0,
        };
        match self.latest.get_mut(number) {
            Some(latest) => *latest = life.clone(),
            None => self.latest.push(life.clone()),
        }
        if self.of.len() < MAX_LIVES {
            self.of.push((life.clone(), number));
        }
        number
    }

    /// Number of lines.
    pub(super) fn count(&self) -> usize {
        self.latest.len()
    }
}

impl Life {
    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.began.1
    }

    /// Whether an IOC of the context is this process.
    pub(super) fn is(&self, ioc: &Ioc) -> bool {
        self.began == (ioc.start, ioc.pid)
    }

    /// Whether it had begun by a monotonic time of its boot.
    pub(super) fn has_begun_by(&self, time: u64) -> bool {
        self.began.0 <= time
    }

    /// The life of an IOC; `None` without one.
    pub(super) fn of(context: &Context, ioc: Option<&Ioc>) -> Option<Life> {
        let boot = context.host().map(|host| host.boot_id.clone()).unwrap_or_default();
        ioc.map(|ioc| Life { boot, began: (ioc.start, ioc.pid) })
    }

    /// Whether the first is another process than the second, and began after it. Two IOCs of the same name that run
    /// side by side don't take turns in beginning anew. False if one of them is unknown.
    pub(super) fn began_after(later: Option<&Life>, earlier: Option<&Life>) -> bool {
        let Some((later, earlier)) = later.zip(earlier) else { return false };
        later.boot != earlier.boot || later.began > earlier.began
    }
}
