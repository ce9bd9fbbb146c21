//! What the tests of this room share: [`image`], memory laid out as EPICS Base would.

pub(crate) mod image;
