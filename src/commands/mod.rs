//! The commands of iocrec but `record`, a file each.

pub mod check;
pub mod mark;
pub mod status;
pub mod watch;
