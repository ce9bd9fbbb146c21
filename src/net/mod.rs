//! Passive capture of TCP: captures packets in network namespaces, reads their headers, and puts each direction of a
//! connection back into order. Knows no protocol above TCP.

mod awaited;
pub mod capture;
pub mod capture_file;
pub mod captures;
pub mod checksum;
pub mod circuit;
mod connection;
pub mod connections;
pub mod connects;
pub mod counts;
pub mod decoder;
pub mod filter;
pub mod flows;
pub mod fragments;
pub mod frames;
pub mod group;
pub mod losses;
pub mod lru;
mod merge;
pub mod openings;
mod options;
pub mod packet;
pub mod program;
pub mod protocol;
mod ring;
pub mod served;
pub mod service;
pub mod sides;
pub mod stateful;
pub mod stream;
mod tap;
pub mod udp;

/// A network namespace, by the inode number of `/proc/PID/ns/net`; 0 on kernels without network namespaces.
pub type Namespace = u64;
