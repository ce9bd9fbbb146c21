//! The processes that open connections, told by the segments that open them (bpf/connects.h).
//!
//! The programs of the [stateful filter](crate::net::stateful) see such a segment mostly within the system call that sends
//! it, and tell which process that is, if one of its descriptors is the very socket that sends the segment. So a client
//! is known that is gone before its packets are handed over. Whatever can't be proven is not told.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use std::os::fd::{AsFd, AsRawFd, RawFd};

use iocrec_log::event::Address;
use libbpf_rs::Object;

use crate::bpf::refusal::Refusal;
use crate::bpf::ring::Ring;
use crate::bpf::shared::{shared, Shared};
use crate::linux::text::printable;
use crate::linux::{btf, process};
use crate::net::Namespace;

shared! {
    /// `struct connect` of bpf/connects.h.
    Told {
        /// CLOCK_MONOTONIC, nanoseconds.
        time: u64,
        /// When the process has started, nanoseconds after boot.
        start: u64,
        /// In network order; 0 if it is IPv6.
        client: u32,
        /// The same.
        server: u32,
        /// The client's, then the server's, both in network order.
        ports: u32,
        /// The number of the opening segment.
        sequence: u32,
        /// Of the process, as the first PID namespace counts.
        pid: u32,
        /// Its effective user, as the first user namespace counts.
        user: u32,
        /// The name of its first thread, with zeroes behind it.
        name: [u8; 16],
    }
    /// `struct kernel_layout` of bpf/connects.h: offsets.
    KernelLayout {
        /// Whether the others are known.
        is_known: u32,
        /// In the order of `MEMBERS`.
        offsets: [u32; 16],
    }
}

/// The members of the kernel's structures that the programs read (include/linux/sched.h, cred.h, fdtable.h, fs.h, net.h,
/// tcp.h).
const MEMBERS: [(&str, &str); 16] = [
    ("task_struct", "tgid"),
    ("task_struct", "group_leader"),
    ("task_struct", "start_boottime"),
    ("task_struct", "comm"),
    ("task_struct", "real_cred"),
    ("task_struct", "files"),
    ("cred", "euid"),
    ("files_struct", "next_fd"),
    ("files_struct", "fdt"),
    ("fdtable", "max_fds"),
    ("fdtable", "fd"),
    ("file", "f_inode"),
    ("file", "private_data"),
    ("inode", "i_mode"),
    ("socket", "sk"),
    ("tcp_sock", "snd_una"),
];

/// /proc shows the start of a process in units of this, USER_HZ being 100 wherever Linux runs today, nanoseconds.
const TICK: u64 = 10_000_000;

/// Why it is not told which processes connect.
#[derive(Debug)]
pub enum Untold {
    /// The recorder's PID namespace is not the machine's: the kernel's numbers of processes are others there.
    PidNamespace,
    /// The kernel does not describe its structures.
    Undescribed,
    /// The kernel refuses programs that read them.
    Refused(Refusal),
    /// The system has no memory or descriptor to spare.
    NoMemory,
}

impl fmt::Display for Untold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Untold::PidNamespace => "the recorder's PID namespace is not the machine's",
            Untold::Undescribed => "the kernel does not describe its structures (CONFIG_DEBUG_INFO_BTF)",
            Untold::Refused(why) => return why.fmt(f),
            Untold::NoMemory => "there is no memory to spare",
        })
    }
}

/// Whether the processes that connect may be told here, as far as can be seen at once.
pub(super) fn may_be_told() -> bool {
    process::is_first_pid_namespace() && Path::new(btf::KERNEL).exists()
}

/// Where the running kernel has these members, or why that is not known.
pub(super) fn layout() -> Result<KernelLayout, Untold> {
    static FOUND: OnceLock<Option<KernelLayout>> = OnceLock::new();
    if !process::is_first_pid_namespace() {
        return Err(Untold::PidNamespace);
    }
    let find = || Some(KernelLayout { is_known: 1, offsets: btf::offsets(&MEMBERS)?.try_into().ok()? });
    FOUND.get_or_init(find).ok_or(Untold::Undescribed)
}

/// A process that has opened a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    /// The network namespace in which the segment was seen.
    pub namespace: Namespace,
    /// CLOCK_MONOTONIC, nanoseconds.
    pub time: u64,
    /// The client, as in the segment; IP address 0 if it is one of IPv6.
    pub client: Address,
    /// The server, in the same way.
    pub server: Address,
    /// The segment's sequence number.
    pub sequence: u32,
    /// The process.
    pub pid: u32,
    /// When it has started, nanoseconds after boot, as [`process::start`] tells it.
    pub start: u64,
    /// The number of its effective user.
    pub user: u32,
    /// The name of its first thread.
    pub name: String,
}

impl Connect {
    fn of(namespace: Namespace, told: &Told) -> Connect {
        let [a, b, c, d] = told.ports.to_ne_bytes();
        let at = |ip: u32, port: [u8; 2]| Address::new(ip.to_ne_bytes().into(), u16::from_be_bytes(port));
        let name = told.name.split(|byte| *byte == 0).next().unwrap_or_default();
        Connect {
            namespace,
            time: told.time,
            client: at(told.client, [a, b]),
            server: at(told.server, [c, d]),
            sequence: told.sequence,
            pid: told.pid,
            start: told.start / TICK * TICK,
            user: told.user,
            name: printable(name),
        }
    }
}

/// What the programs of a capture tell.
pub struct Connects {
    ring: Ring,
    is_closed: Arc<AtomicBool>,
}

impl Connects {
    /// `None` if the system has no descriptor or memory to spare.
    pub(super) fn open(object: &Object) -> Option<(Connects, Closing)> {
        let ring = Ring::open(object, "connects").ok()?;
        let is_closed = Arc::new(AtomicBool::new(false));
        Some((Connects { ring, is_closed: is_closed.clone() }, Closing(is_closed)))
    }

    /// A descriptor that polls as readable when something is told.
    pub fn descriptor(&self) -> RawFd {
        self.ring.map().as_fd().as_raw_fd()
    }

    /// Whether the capture is closed: nothing more will be told.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Takes what is told by now, in a capture of this namespace.
    pub fn take(&self, namespace: Namespace, each: &mut dyn FnMut(Connect)) {
        self.ring.consume(self.ring.produced(), |first, second| {
            // 64 bytes in a row, but where the ring wraps around
            let told =
                if second.is_empty() { Told::read(first) } else { Told::read(&[first, second].concat()) };
            if let Some(told) = told {
                each(Connect::of(namespace, &told));
            }
            true
        });
    }
}

/// Says when dropped that the capture is closed.
#[derive(Debug)]
pub(super) struct Closing(Arc<AtomicBool>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_in_the_order_of_the_network() {
        let mut name = [0; 16];
        name[..5].copy_from_slice(b"caput");
        let told = Told {
            time: 7,
            start: 123_456_789_012,
            client: u32::from_ne_bytes([10, 0, 0, 5]),
            server: u32::from_ne_bytes([10, 0, 0, 1]),
            ports: u32::from_ne_bytes([0xa0, 0x01, 0x13, 0xc8]),
            sequence: 9,
            pid: 812,
            user: 1000,
            name,
        };
        let connect = Connect::of(3, &told);
        assert_eq!(connect.client, Address::new([10, 0, 0, 5].into(), 0xa001));
        assert_eq!(connect.server, Address::new([10, 0, 0, 1].into(), 5064));
        assert_eq!((connect.name.as_str(), connect.start), ("caput", 123_450_000_000));
        let nameless = Told { name: [b'x'; 16], ..told };
        assert_eq!(Connect::of(3, &nameless).name.len(), 16, "as long as it can be");
    }
}
