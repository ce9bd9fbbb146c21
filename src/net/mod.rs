//! TCP as it passes by: packets captured in network namespaces, their headers, and each direction of a connection put
//! back into order. No protocol above TCP in it.

pub mod capture;
pub mod captures;
pub mod connections;
pub mod filter;
pub mod packet;
pub mod program;
pub mod protocol;
pub mod served;
pub mod service;
pub mod stream;

/// A network namespace, by the inode number of `/proc/PID/ns/net`; 0 on kernels that have but one.
pub type Namespace = u64;
