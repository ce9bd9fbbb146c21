//! What holds for every fact that a log can have, with random ones. The strategies that make them take longer to compile
//! than all of these tests, so they are one program.

#[path = "../common/mod.rs"]
mod common;
mod facts;

mod contents;
mod context;
mod damage;
mod document;
mod roundtrip;
