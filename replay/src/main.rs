//! iocreplay.
fn main() {}
