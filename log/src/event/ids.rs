//! Numbers that definitions assign to lasting things. One recorder run assigns them; they mean nothing outside it.

/// Number of an [`Ioc`](super::Ioc).
pub type IocId = u32;
/// Number of a [`Thread`](super::Thread).
pub type ThreadId = u32;
/// Number of a [`Record`](super::Record).
pub type RecordId = u32;
/// Number of a [`Field`](super::Field).
pub type FieldId = u32;
/// Number of a [`Menu`](super::Menu).
pub type MenuId = u32;
/// Number of a [`ScanList`](super::ScanList).
pub type ScanListId = u32;
/// Number of a [`CallSite`](super::CallSite); 0 means that the caller is not known.
pub type CallSiteId = u32;
/// Number of a [`Circuit`](super::Circuit).
pub type CircuitId = u32;
/// Number of a [`Channel`](super::Channel).
pub type ChannelId = u32;
/// Number of a [`PvaType`](super::PvaType); 0 means that the type is not known.
pub type PvaTypeId = u32;
