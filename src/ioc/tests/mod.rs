//! Shared by the tests of this room: [`image`], memory laid out as in EPICS Base.

pub(crate) mod image;
