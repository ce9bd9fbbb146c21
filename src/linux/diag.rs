//! Tells whether sockets have begun or ceased to listen, without reading the kernel's table of all connections.
//!
//! /proc/net/tcp walks through the buckets of that table, used or not: 1 ms where there are 262,144 of them, as on a
//! machine of 24 GB. sock_diag(7) asks for listening sockets alone (10 µs). Of the answers only a number is kept that
//! changes with them.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `struct inet_diag_req_v2` behind a `struct nlmsghdr` (linux/inet_diag.h, linux/netlink.h).
#[repr(C)]
struct Request {
    length: u32,
    kind: u16,
    flags: u16,
    sequence: u32,
    port: u32,
    family: u8,
    protocol: u8,
    extensions: u8,
    unused: u8,
    states: u32,
    socket: [u8; 48],
}

const _: () = assert!(size_of::<Request>() == 72);

/// SOCK_DIAG_BY_FAMILY.
const BY_FAMILY: u16 = 20;
/// TCP_LISTEN, and TCP_CLOSE, the state of UDP sockets that are not connected; as bits.
const LISTENING: u32 = 1 << 10;
const UNCONNECTED: u32 = 1 << 7;
/// Bytes of an answer: its header, then `struct inet_diag_msg`, of which the ports and addresses (8 to 36) and the inode
/// (68) count.
const HEADER: usize = 16;
const MESSAGE: usize = 72;
/// Most answers: nobody makes the recorder count for ever.
const MAX_BYTES: usize = 8 << 20;

/// A number that changes when a socket of this network namespace begins or ceases to listen on TCP, or to be bound to
/// UDP. `None` if the kernel doesn't tell.
pub fn listening() -> Option<u64> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_SOCK_DIAG) };
    if fd < 0 {
        return None;
    }
    // SAFETY: the descriptor is open and nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut sum = 0u64;
    for (protocol, states) in [(libc::IPPROTO_TCP, LISTENING), (libc::IPPROTO_UDP, UNCONNECTED)] {
        for family in [libc::AF_INET, libc::AF_INET6] {
            match ask(&socket, family as u8, protocol as u8, states) {
                Some(part) => sum = sum.wrapping_mul(31).wrapping_add(part),
                // a kernel without IPv6
                None if family == libc::AF_INET6 => {}
                None => return None,
            }
        }
    }
    Some(sum)
}

fn ask(socket: &OwnedFd, family: u8, protocol: u8, states: u32) -> Option<u64> {
    let request = Request {
        length: size_of::<Request>() as u32,
        kind: BY_FAMILY,
        flags: (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16,
        sequence: 1,
        port: 0,
        family,
        protocol,
        extensions: 0,
        unused: 0,
        states,
        socket: [0; 48],
    };
    // SAFETY: a live structure of this length.
    let sent =
        unsafe { libc::send(socket.as_raw_fd(), (&raw const request).cast(), size_of::<Request>(), 0) };
    if sent != size_of::<Request>() as isize {
        return None;
    }
    let mut bytes = vec![0u8; 16 << 10];
    let (mut sum, mut all) = (0u64, 0);
    while all < MAX_BYTES {
        // SAFETY: the buffer has this length.
        let have = unsafe { libc::recv(socket.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        let have = usize::try_from(have).ok().filter(|&have| have > 0)?;
        all += have;
        if !add(bytes.get(..have)?, &mut sum)? {
            return Some(sum);
        }
    }
    None
}

/// Adds the sockets of some answers to the sum, whatever their order. False after the last one; `None` for an error.
fn add(mut bytes: &[u8], sum: &mut u64) -> Option<bool> {
    while let Some(header) = bytes.get(..HEADER) {
        let length = u32::from_ne_bytes(*header.first_chunk()?) as usize;
        let kind = u16::from_ne_bytes(*header.get(4..)?.first_chunk()?);
        let message = bytes.get(HEADER..length.max(HEADER))?;
        match i32::from(kind) {
            libc::NLMSG_DONE => return Some(false),
            libc::NLMSG_ERROR => return None,
            _ => {
                let (address, inode) = (message.get(4..40)?, message.get(MESSAGE - 4..MESSAGE)?);
                // FNV-1a
                let hash = address.iter().chain(inode).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                    (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
                });
                *sum = sum.wrapping_add(hash);
            }
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    /// Other tests open sockets, too, so this can only wait for a number that stays and then changes.
    #[test]
    fn a_socket_that_listens_changes_the_number() {
        let Some(_) = listening() else { return };
        let mut changed = [false; 2];
        for _ in 0..200 {
            let (before, again) = (listening(), listening());
            let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
            let with_tcp = listening();
            let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
            let with_both = listening();
            drop((tcp, udp));
            changed = [with_tcp != again, with_both != with_tcp];
            assert_eq!(changed, [true; 2]);
            if before == again && listening() == before {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("never the same number twice: {changed:?}");
    }

    #[test]
    fn answers_cut_or_strange() {
        let mut sum = 0;
        let message = |kind: u16, length: u32, payload: usize| {
            let mut bytes = length.to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.resize(HEADER + payload, 7);
            bytes
        };
        let socket = message(BY_FAMILY, 88, 72);
        let done = message(libc::NLMSG_DONE as u16, 20, 4);
        assert_eq!(add(&[socket.clone(), done].concat(), &mut sum), Some(false));
        assert_ne!(sum, 0);
        assert_eq!(add(&socket, &mut sum), Some(true), "more follow");
        for cut in 0..socket.len() {
            add(socket.get(..cut).unwrap(), &mut sum);
        }
        assert_eq!(add(&message(BY_FAMILY, 3, 72), &mut sum), None);
        assert_eq!(add(&message(BY_FAMILY, u32::MAX, 72), &mut sum), None);
        assert_eq!(add(&message(libc::NLMSG_ERROR as u16, 20, 4), &mut sum), None);
    }
}
