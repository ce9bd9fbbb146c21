//! Strict readers of the files that iocreplay writes for other programs, by the rules of those programs' own readers as their
//! sources state them (docs/exchange.md). They panic where the program would refuse a file, stop in it, or silently read
//! something else than what is there.

pub mod autosave;
pub mod burt;
pub mod phoebus;
pub mod samples;
