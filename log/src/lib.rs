//! The log of the flight recorder for EPICS IOCs: its contents, its writer and its reader.
//!
//! A log is a directory of *segments*. A segment begins with a header and a *keyframe*, the
//! definitions in force at that moment, and continues with *blocks*, each a compressed batch of
//! [events](event). Every segment can be read alone. docs/format.md documents the bytes.
//!
//! - [`event`]: the facts that a log can hold;
//! - [`context`]: the definitions in force, for writing keyframes and looking up numbers;
//! - [`escape`]: safe display of text from outside;
//! - [`storage`]: the few operations that a writer needs of a disk, and a real directory that provides them;
//! - [`writer`]: turns events into segments, under a hard cap on disk use. Its module page is the contract on the
//!   cost of a crash;
//! - [`stream`]: sends a log that is being written through a pipe;
//! - [`reader`]: turns segments into events, whatever happened to the file.
//!
//! ```
//! use iocrec_log::event::{Event, Fact};
//! use iocrec_log::{reader, storage::Directory, writer::{Options, Writer}};
//!
//! let dir = tempfile::tempdir()?;
//! let mut writer = Writer::open(Directory::open(dir.path())?, Options::default(), 7)?;
//! writer.push(Event { time: 1, fact: Fact::Mark("beam lost".into()) });
//! writer.close(2);
//! assert_eq!(writer.status().stored, 1);
//!
//! for file in reader::find(dir.path())? {
//!     let mut segment = reader::Segment::open(&file.path)?;
//!     while let Some(block) = segment.next_block() {
//!         println!("{:?}", block?.events);
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod block;
pub mod checksum;
pub mod clock;
pub mod context;
pub mod escape;
pub mod event;
pub mod format;
pub mod glob;
mod name;
pub mod pva_value;
pub mod reader;
pub mod storage;
pub mod stream;
pub mod terminal;
pub mod value;
pub mod writer;
