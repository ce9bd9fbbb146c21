//! Reading segments and runs of them: what comes before anything is joined.

pub(crate) mod ended_unseen;
pub mod namesakes;
pub(crate) mod read_until;
pub mod runs;
pub mod scan;
