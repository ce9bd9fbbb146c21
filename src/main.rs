//! iocrec.
fn main() {}
