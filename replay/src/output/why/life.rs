//! Tells an IOC from the same IOC before it was started anew: what a record had in a process is gone with it.

use iocrec_log::context::Context;
use iocrec_log::event::Ioc;

/// A process that is or was an IOC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Life {
    /// Boot id of its host.
    boot: String,
    /// Start in nanoseconds after boot, and process id.
    began: (u64, u32),
}

impl Life {
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
