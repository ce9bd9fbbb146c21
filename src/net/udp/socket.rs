//! A packet socket for datagrams. See the [parent](super) for what it is for.
//!
//! It is "cooked" (SOCK_DGRAM), so packets begin with the IPv4 header, and bound to a protocol only after its filter is
//! in place. The kernel queues what passes; [`Socket::drain`] takes it without waiting.

use super::filter::{build, Selected, Taking};
use crate::net::capture::CaptureError;
use libc::{c_int, c_void, socklen_t, SOL_PACKET, SOL_SOCKET};
use nix::errno::Errno;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Memory for queued packets, bytes: some 500 small ones, as the kernel counts. Without CAP_NET_ADMIN it grants at most
/// net.core.rmem_max, which is half of this by default; it doubles both.
const QUEUE: c_int = 512 << 10;
/// Room for a packet; longer ones are cut.
const LONGEST: usize = 2048;
/// Room for control messages: a time stamp takes 32 bytes.
const CONTROL: usize = 128;
/// SO_TIMESTAMPNS and its control message, in both of the kernel's forms: 32-bit times, then 64-bit times
/// (asm-generic/socket.h; none of our targets differs).
const SO_TIMESTAMPNS: [c_int; 2] = [35, 64];

/// A packet.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// The kernel's time stamp: nanoseconds since 1970-01-01 UTC; `None` if it gave none.
    pub wall: Option<i64>,
    /// From the IPv4 header on. The filter may have cut it.
    pub bytes: &'a [u8],
    /// Index of the interface.
    pub interface: i32,
}

/// See the module.
#[derive(Debug)]
pub struct Socket {
    socket: OwnedFd,
    interfaces: Vec<u32>,
    selected: Selected,
    taking: Taking,
}

impl Socket {
    /// Opens a socket that takes these datagrams, in the network namespace of this thread. `interfaces`: indices of
    /// those to listen on; none for all.
    ///
    /// # Errors
    /// Packets can't be captured.
    pub fn open(selected: Selected, interfaces: &[u32], taking: Taking) -> Result<Socket, CaptureError> {
        // Protocol 0: the socket receives nothing yet.
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        let fd = Errno::result(fd).map_err(|errno| match errno {
            Errno::EPERM | Errno::EACCES => CaptureError::NotAllowed,
            Errno::EAFNOSUPPORT => CaptureError::NoPacketSockets,
            errno => CaptureError::System("socket", errno),
        })?;
        // SAFETY: the descriptor was just made and nobody else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let socket = Socket { socket, interfaces: interfaces.to_vec(), selected, taking };
        socket.attach()?;
        let on: c_int = 1;
        // a shorter queue and times of reading are second best, not errors
        let _ = socket.set(SOL_SOCKET, libc::SO_RCVBUF, &QUEUE);
        let _ = socket.set(SOL_SOCKET, SO_TIMESTAMPNS[0], &on);
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            // Only a socket for all protocols sees outgoing packets.
            sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
            sll_ifindex: 0,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: the address lives until the call returns, and its size is passed.
        let bound = unsafe {
            libc::bind(
                socket.socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as socklen_t,
            )
        };
        Errno::result(bound).map_err(|errno| CaptureError::System("bind", errno))?;
        Ok(socket)
    }

    /// Takes these datagrams from now on, so much of them.
    ///
    /// # Errors
    /// The old filter stays.
    pub fn select(&mut self, selected: &Selected, taking: Taking) -> Result<(), CaptureError> {
        if (&self.selected, self.taking) == (selected, taking) {
            return Ok(());
        }
        let before = (std::mem::replace(&mut self.selected, selected.clone()), self.taking);
        self.taking = taking;
        self.attach().inspect_err(|_| (self.selected, self.taking) = before)
    }

    /// Listens on these interfaces from now on, or on the old ones if that is refused.
    pub fn listen_on(&mut self, interfaces: &[u32]) {
        if self.interfaces != interfaces {
            let before = std::mem::replace(&mut self.interfaces, interfaces.to_vec());
            if self.attach().is_err() {
                self.interfaces = before;
            }
        }
    }

    /// The descriptor, to be made one of a group.
    pub(in crate::net) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// A descriptor that polls as readable when datagrams wait.
    pub fn raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// How much is taken.
    pub fn taking(&self) -> Taking {
        self.taking
    }

    /// What is taken.
    pub fn selected(&self) -> &Selected {
        &self.selected
    }

    /// Passes on waiting packets, at most `most`. Returns how many there were.
    pub fn drain(&mut self, most: usize, f: &mut dyn FnMut(Received)) -> usize {
        let mut bytes = [0u8; LONGEST];
        for count in 0..most {
            let Some(received) = self.receive(&mut bytes) else { return count };
            f(received);
        }
        most
    }

    /// Packets that passed the filter and were lost because the queue was full, since the last call.
    pub fn losses(&mut self) -> u64 {
        // struct tpacket_stats: packets, drops. Reading resets them.
        let mut stats = [0u32; 2];
        let mut length = size_of::<[u32; 2]>() as socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to `stats`, which has that size.
        let read = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut length,
            )
        };
        if read == 0 {
            stats[1].into()
        } else {
            0
        }
    }

    fn receive<'a>(&self, bytes: &'a mut [u8; LONGEST]) -> Option<Received<'a>> {
        // Aligned as control messages must be.
        let mut control = [0u64; CONTROL / 8];
        // SAFETY: all zeros are a valid address.
        let mut from: libc::sockaddr_ll = unsafe { zeroed() };
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: LONGEST };
        // SAFETY: all zeros are a valid header without buffers.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_name = (&raw mut from).cast();
        header.msg_namelen = size_of::<libc::sockaddr_ll>() as socklen_t;
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast::<c_void>();
        header.msg_controllen = CONTROL as _;
        // SAFETY: all buffers in the header live until the call returns, and have the lengths given in it.
        let length = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
        let length = usize::try_from(length).ok()?;
        let mut wall = None;
        // SAFETY: the header and its control buffer are as the kernel left them.
        let mut message = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
        while !message.is_null() {
            // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR return pointers to whole messages in the control buffer.
            let found = unsafe { &*message };
            if found.cmsg_level == SOL_SOCKET && SO_TIMESTAMPNS.contains(&found.cmsg_type) {
                // SAFETY: the data of a message begin there, and go on for its length less that of its header.
                let (data, head) = unsafe { (libc::CMSG_DATA(message), libc::CMSG_LEN(0) as usize) };
                wall = match (found.cmsg_len as usize).checked_sub(head) {
                    // SAFETY: the message holds 16 bytes, which may be anything.
                    Some(16) => Some(unsafe { data.cast::<[i64; 2]>().read_unaligned() }),
                    // SAFETY: the same with 8.
                    Some(8) => Some(unsafe { data.cast::<[i32; 2]>().read_unaligned() }.map(i64::from)),
                    _ => None,
                }
                .and_then(|[seconds, rest]| seconds.checked_mul(1_000_000_000)?.checked_add(rest));
            }
            // SAFETY: as for CMSG_FIRSTHDR.
            message = unsafe { libc::CMSG_NXTHDR(&raw const header, message) };
        }
        Some(Received { wall, bytes: bytes.get(..length)?, interface: from.sll_ifindex })
    }

    fn attach(&self) -> Result<(), CaptureError> {
        let mut program = build(&self.selected, &self.interfaces, self.taking);
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        let set = self.set(SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter);
        set.map_err(|errno| CaptureError::System("SO_ATTACH_FILTER", errno))
    }

    fn set<T>(&self, level: c_int, name: c_int, value: &T) -> Result<(), Errno> {
        let length = size_of::<T>() as socklen_t;
        // SAFETY: the kernel reads `length` bytes from `value`, which has that size.
        let set = unsafe {
            libc::setsockopt(self.socket.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), length)
        };
        Errno::result(set).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::udp::datagram::Datagram;
    use crate::not_run::{not_run, Needs};
    use std::net::UdpSocket;
    use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

    const WHOLE: Taking = Taking { one_in: 1, bytes: 1500 };

    /// Two sockets on loopback, the second at the port that is listened to.
    fn pair() -> (UdpSocket, UdpSocket, u16) {
        let [client, server] = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
        let port = server.local_addr().unwrap().port();
        client.connect(("127.0.0.1", port)).unwrap();
        (client, server, port)
    }

    fn drained(socket: &mut Socket, wanted: usize) -> Vec<(Vec<u8>, Option<i64>)> {
        let mut found = Vec::new();
        let begin = Instant::now();
        while found.len() < wanted && begin.elapsed() < Duration::from_secs(10) {
            socket.drain(1000, &mut |received| {
                let datagram = Datagram::parse(received.bytes).unwrap();
                found.push((datagram.payload.to_vec(), received.wall));
            });
        }
        found
    }

    #[test]
    fn takes_each_datagram_once_with_its_time() {
        let (client, server, port) = pair();
        let asked = Selected { asked: vec![port], ..Selected::default() };
        let mut socket = match Socket::open(asked.clone(), &[], WHOLE) {
            Ok(socket) => socket,
            Err(error) => return not_run("datagrams", Needs::root_or_kernel(error.to_string())),
        };
        client.send(b"question").unwrap();
        server.send_to(b"answer", client.local_addr().unwrap()).unwrap();
        client.send(b"").unwrap();
        let found = drained(&mut socket, 3);
        let texts: Vec<&[u8]> = found.iter().map(|(text, _)| text.as_slice()).collect();
        assert_eq!(texts, [&b"question"[..], b"answer", b""]);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
        assert!(found.iter().all(|(_, wall)| wall.is_some_and(|wall| (now - wall).abs() < 10_000_000_000)));
        // what comes from the other kind of port, or any, counts only if it is an answer
        let told = Selected { told: vec![port], answers: &[0x11_0000], ..Selected::default() };
        socket.select(&told, WHOLE).unwrap();
        let here = client.local_addr().unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        for from in [&server, &other] {
            from.send_to(&[0, 13, 0, 0, 1], here).unwrap();
            from.send_to(&[0, 17, 0], here).unwrap();
            from.send_to(&[0, 17, 0, 8, 2], here).unwrap();
            from.send_to(&[0, 17, 0, 0, 2], here).unwrap();
        }
        client.send(b"told").unwrap();
        let texts: Vec<Vec<u8>> = drained(&mut socket, 3).into_iter().map(|(text, _)| text).collect();
        assert_eq!(texts, [&[0, 17, 0, 0, 2][..], &[0, 17, 0, 0, 2], b"told"]);
        // cut, and thinned out
        socket.select(&asked, Taking { one_in: 8, bytes: 32 }).unwrap();
        (0..200).for_each(|_| assert_eq!(client.send(b"question").unwrap(), 8));
        let found = drained(&mut socket, 3);
        std::thread::sleep(Duration::from_millis(50));
        let count = found.len() + drained(&mut socket, 0).len();
        assert!((3..100).contains(&count), "{count} of 200 are one in eight");
        assert!(found.iter().all(|(text, _)| text == b"ques"), "28 bytes of headers, and 4");
        assert_eq!(socket.losses(), 0);
    }

    /// An interface that comes back has another number.
    #[test]
    fn listens_on_the_interfaces_that_it_was_given_last() {
        let (client, _server, port) = pair();
        let asked = Selected { asked: vec![port], ..Selected::default() };
        let mut socket = match Socket::open(asked, &[1 << 30], WHOLE) {
            Ok(socket) => socket,
            Err(error) => return not_run("interfaces", Needs::root_or_kernel(error.to_string())),
        };
        client.send(b"elsewhere").unwrap();
        socket.listen_on(&[nix::net::if_::if_nametoindex("lo").unwrap()]);
        client.send(b"here").unwrap();
        let texts: Vec<Vec<u8>> = drained(&mut socket, 1).into_iter().map(|(text, _)| text).collect();
        assert_eq!(texts, [b"here"]);
    }

    #[test]
    fn what_the_queue_cannot_hold_is_counted() {
        let (client, _server, port) = pair();
        let Ok(mut socket) = Socket::open(Selected { asked: vec![port], ..Selected::default() }, &[], WHOLE)
        else {
            return;
        };
        let sent = 20_000;
        (0..sent).for_each(|_| _ = client.send(&[7; 600]));
        let mut read = 0;
        while socket.drain(1000, &mut |_| read += 1) > 0 {}
        let lost = socket.losses();
        assert!(lost > 0 && read > 50, "{lost} lost, {read} read");
        assert_eq!(lost + read, sent);
    }
}
