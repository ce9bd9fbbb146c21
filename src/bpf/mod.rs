//! BPF: loading the objects that this binary carries, their maps, and the hits from the kernel.
//!
//! Knows nothing of IOCs or the places of probes: the layout of an IOC comes in as [`maps::Layouts`], and the placer of
//! probes has the [`Object`](libbpf_rs::Object). To add a source of facts, add another bpf/NAME.bpf.c, which build.rs
//! compiles with the others, and a room that [loads](load::load) it, with its own contract.
//!
//! Nothing here outlives the process: maps and programs disappear when the agent ends, however it ends.

pub(crate) mod batch;
pub mod contract;
pub mod diagnosis;
pub mod failure;
pub mod given;
pub mod hit;
pub(crate) mod libbpf;
pub mod limits;
pub mod load;
pub mod maps;
mod objects;
pub(crate) mod perf_buffer;
pub mod refusal;
pub(crate) mod ring;
pub mod shared;
pub mod table;
pub mod transport;
mod user_reads;

pub use limits::raise_limits;
