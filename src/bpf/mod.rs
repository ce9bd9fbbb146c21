//! BPF: the objects that this binary carries, loaded; their maps; the hits that come out of the kernel.
//!
//! Knows nothing of IOCs and of where probes go: what an IOC looks like comes in as [`maps::Layouts`], and who places
//! probes has the [`Object`](libbpf_rs::Object). A further source of facts is another bpf/NAME.bpf.c, which build.rs
//! compiles with the others, and a room that [loads](load::load) it, with a contract of its own.
//!
//! Everything here goes with the process: maps and programs disappear when the agent ends, however it ends.

mod batch;
pub mod contract;
pub mod diagnosis;
pub mod failure;
pub mod hit;
pub(crate) mod libbpf;
pub mod limits;
pub mod load;
pub mod maps;
mod objects;
mod perf_buffer;
pub mod refusal;
mod ring;
pub mod shared;
pub mod table;
pub mod transport;
mod user_reads;

pub use limits::raise_limits;
