//! Asks the kernel for sockets by sock_diag(7), instead of reading its table of all connections.
//!
//! /proc/net/tcp walks through the buckets of that table, used or not (1 ms where there are 262,144 of them, as on a
//! machine of 24 GB), and prints every connection that was closed in the last minute, too. sock_diag gives the listening
//! sockets alone (10 µs), and a connection by its addresses (2 µs).
//!
//! Promises: no call waits, but for the first one, for which the kernel may load a module. A kernel that has refused is
//! not asked again, so it does not look for that module again and again. Answers are bounded. Inside network namespaces
//! other than the recorder's own it can't be asked: a request concerns that in which its socket was made.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use iocrec_log::event::Address;

/// States of TCP sockets (linux/tcp_states.h). In CLOSE_WAIT the other end has closed the connection, but its owner
/// still has it; UDP sockets that are not connected are in CLOSE.
pub const ESTABLISHED: u8 = 1;
/// See [`ESTABLISHED`]. The connection was asked for.
pub const SYN_SENT: u8 = 2;
/// See [`ESTABLISHED`]. The owner has closed it first; TIME_WAIT remains of it for a minute.
pub const FIN_WAIT1: u8 = 4;
/// See [`FIN_WAIT1`].
pub const FIN_WAIT2: u8 = 5;
/// See [`FIN_WAIT1`].
pub const TIME_WAIT: u8 = 6;
/// See [`ESTABLISHED`].
pub const CLOSE: u8 = 7;
/// See [`ESTABLISHED`].
pub const CLOSE_WAIT: u8 = 8;
/// See [`ESTABLISHED`]. The owner has closed it, too, after the other end.
pub const LAST_ACK: u8 = 9;
/// See [`ESTABLISHED`].
pub const LISTEN: u8 = 10;

/// `struct nlmsghdr` and behind it `struct inet_diag_req_v2` (linux/netlink.h, linux/inet_diag.h).
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
    // struct inet_diag_sockid; ports and addresses in network order
    local_port: [u8; 2],
    remote_port: [u8; 2],
    local: [u8; 16],
    remote: [u8; 16],
    interface: u32,
    cookie: [u32; 2],
}

const _: () = assert!(size_of::<Request>() == 72);

/// SOCK_DIAG_BY_FAMILY, also the type of its answers.
const BY_FAMILY: u16 = 20;
/// INET_DIAG_INFO, struct tcp_info, as a kind of attribute; and as a bit of `extensions`. In it, `tcpi_total_retrans`.
const INFO: u16 = 2;
const WITH_INFO: u8 = 1 << (INFO - 1);
const RETRANSMITTED: usize = 100;
/// INET_DIAG_NOCOOKIE: whichever socket has these addresses.
const ANY: [u32; 2] = [u32::MAX; 2];
/// Bytes of an answer's header, and least bytes of the answer (`struct inet_diag_msg`).
const HEADER: usize = 16;
const MESSAGE: usize = 72;
/// Bytes of answers that are taken at a time, and in all: nobody makes the recorder count for ever. Some 70,000 sockets.
const ROOM: usize = 16 << 10;
const MAX_BYTES: usize = 8 << 20;
/// Errors that say nothing about what the kernel can do.
const TRANSIENT: [i32; 8] =
    [0, libc::EBUSY, libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOBUFS, libc::EINTR, libc::EAGAIN];
/// Answers to older requests that are passed over.
const MAX_STALE: usize = 8;

/// What this kernel has refused: a bit for each protocol. It may have a module for one and none for the other.
static REFUSED: AtomicU32 = AtomicU32::new(0);
const TCP: u32 = 1;
const UDP: u32 = 2;

/// A socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// AF_INET or AF_INET6.
    pub family: u8,
    /// Its state.
    pub state: u8,
    /// Its own port and the other end's.
    pub ports: [u16; 2],
    /// Its own address and the other end's, in network order; of IPv4 the first four bytes.
    pub addresses: [[u8; 16]; 2],
    /// The interface that it is bound to; 0 for none.
    pub interface: u32,
    /// It identifies the socket in descriptors. 0: nobody has accepted it yet, or it is closed.
    pub inode: u64,
    /// Number of the user who has made it.
    pub user: u32,
    /// Bytes in its send queue: of a connection those that the other end has not acknowledged.
    pub unsent: u32,
    /// The timer that runs for it: [`WINDOW_PROBE`], or another.
    pub timer: u8,
    /// Segments that it has sent again; 0 if that was not asked for.
    pub retransmitted: u32,
}

/// [`Row::timer`]: data waits, and the other end has no room for it.
pub const WINDOW_PROBE: u8 = 4;

impl Row {
    fn parse(message: &[u8]) -> Option<Row> {
        let part = |at: usize| message.get(at..)?.first_chunk().copied();
        let port = |at: usize| Some(u16::from_be_bytes(*message.get(at..)?.first_chunk()?));
        let number = |at: usize| Some(u32::from_ne_bytes(*message.get(at..)?.first_chunk()?));
        Some(Row {
            family: *message.first()?,
            state: *message.get(1)?,
            ports: [port(4)?, port(6)?],
            addresses: [part(8)?, part(24)?],
            interface: number(40)?,
            inode: number(MESSAGE - 4)?.into(),
            user: number(MESSAGE - 8)?,
            unsent: number(MESSAGE - 12)?,
            timer: *message.get(2)?,
            retransmitted: attribute(message.get(MESSAGE..)?, INFO)
                .and_then(|info| Some(u32::from_ne_bytes(*info.get(RETRANSMITTED..)?.first_chunk()?)))
                .unwrap_or(0),
        })
    }

    /// The same connection, seen from the other end.
    pub fn swapped(&self) -> Row {
        let ([local, remote], [own, other]) = (self.ports, self.addresses);
        Row { ports: [remote, local], addresses: [other, own], ..*self }
    }

    /// Whether both have the same ends.
    pub fn is_between(&self, other: &Row) -> bool {
        (self.ports, self.addresses) == (other.ports, other.addresses)
    }

    /// One of its ends, 0 its own, as an address of IPv4: also that of an IPv6 socket that stands for one, and `::`, which
    /// counts as 0.0.0.0. `None` for other addresses.
    pub fn v4(&self, end: usize) -> Option<Address> {
        let (ip, port) = (self.addresses.get(end)?, *self.ports.get(end)?);
        let [a, b, c, d] = match i32::from(self.family) {
            libc::AF_INET => *ip.first_chunk()?,
            _ if *ip == [0; 16] => [0; 4],
            _ if ip.starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]) => *ip.last_chunk()?,
            _ => return None,
        };
        Some(Address::new(Ipv4Addr::new(a, b, c, d), port))
    }
}

/// The attribute of a kind (`struct nlattr`).
fn attribute(mut bytes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let [length, of] = [0, 2].map(|at| Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?)));
        let length = usize::from(length?);
        let content = bytes.get(4..length)?;
        if of == Some(kind) {
            return Some(content);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

/// A way to ask the kernel about the sockets of this thread's network namespace.
pub struct Diag {
    socket: OwnedFd,
    sequence: u32,
    room: Vec<u8>,
    /// Whether the last list held all: it was not cut.
    pub is_whole: bool,
}

impl Diag {
    /// `None` if the kernel has nothing of that kind, or doesn't allow it.
    pub fn open() -> Option<Diag> {
        if has_refused(TCP) {
            return None;
        }
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_SOCK_DIAG) };
        if fd < 0 {
            if !TRANSIENT.contains(&io::Error::last_os_error().raw_os_error().unwrap_or(0)) {
                refuse(TCP | UDP);
            }
            return None;
        }
        // SAFETY: the descriptor is open and nobody else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        Some(Diag { socket, sequence: 0, room: vec![0; ROOM], is_whole: true })
    }

    /// Calls `each` for the sockets of a protocol, of IPv4 and IPv6, that are in one of these states. `None` if the kernel
    /// doesn't tell all.
    pub fn each(&mut self, protocol: i32, states: &[u8], each: &mut dyn FnMut(Row)) -> Option<()> {
        self.list(libc::AF_INET, protocol, states, 0, each)?;
        let is_whole = self.is_whole;
        self.list(libc::AF_INET6, protocol, states, 0, each)?;
        self.is_whole &= is_whole;
        Some(())
    }

    /// The same for TCP and one family, with what they have sent again. A list of sockets that change meanwhile may lack some that
    /// have not changed; [`Diag::again`] tells.
    pub fn connections(&mut self, family: i32, states: &[u8], each: &mut dyn FnMut(Row)) -> Option<()> {
        self.list(family, libc::IPPROTO_TCP, states, WITH_INFO, each)
    }

    fn list(
        &mut self,
        family: i32,
        protocol: i32,
        states: &[u8],
        extensions: u8,
        each: &mut dyn FnMut(Row),
    ) -> Option<()> {
        let kernel_part = if protocol == libc::IPPROTO_UDP { UDP } else { TCP };
        if has_refused(kernel_part) {
            return None;
        }
        let states = states.iter().fold(0, |bits, state| bits | 1 << state);
        self.ask(libc::NLM_F_DUMP, |request| {
            (request.family, request.protocol, request.states) = (family as u8, protocol as u8, states);
            request.extensions = extensions;
        })?;
        let (mut all, sequence) = (0, self.sequence);
        self.is_whole = true;
        while all < MAX_BYTES {
            let have = self.receive()?;
            all += have.len();
            match answers(have, sequence, each) {
                Answers::More => {}
                Answers::End => return Some(()),
                Answers::Error(error) => return refused(family, error, kernel_part),
            }
        }
        // as much as there is room for; what is left in the socket goes with it
        self.is_whole = false;
        Some(())
    }

    /// The connection with these two ends, of IPv4, on this interface (0: of a socket that is bound to none). The outer
    /// `None`: the kernel doesn't tell. Call [`Diag::each`] before: only that shows whether the kernel can answer.
    pub fn find(&mut self, local: Address, remote: Address, interface: u32) -> Option<Option<Row>> {
        let at = |address: Address| {
            let mut bytes = [0; 16];
            bytes.iter_mut().zip(address.ip.to_be_bytes()).for_each(|(to, from)| *to = from);
            bytes
        };
        let (ports, addresses) = ([local.port, remote.port], [at(local), at(remote)]);
        let found = self.between(libc::AF_INET as u8, ports, addresses, interface, 0)?;
        Some(found.filter(|row| (row.v4(0), row.v4(1)) == (Some(local), Some(remote))))
    }

    /// What there is now between the ends of a connection: itself, what remains of it, or another; with what it has sent again.
    /// As [`Diag::find`].
    pub fn again(&mut self, row: &Row) -> Option<Option<Row>> {
        let found = self.between(row.family, row.ports, row.addresses, row.interface, WITH_INFO)?;
        Some(found.filter(|found| found.is_between(row)))
    }

    /// A socket with these ends, or one that listens at the first.
    fn between(
        &mut self,
        family: u8,
        ports: [u16; 2],
        addresses: [[u8; 16]; 2],
        interface: u32,
        extensions: u8,
    ) -> Option<Option<Row>> {
        self.ask(0, |request| {
            (request.family, request.protocol) = (family, libc::IPPROTO_TCP as u8);
            request.extensions = extensions;
            [request.local, request.remote] = addresses;
            [request.local_port, request.remote_port] = ports.map(u16::to_be_bytes);
            (request.interface, request.cookie) = (interface, ANY);
        })?;
        let sequence = self.sequence;
        for _ in 0..MAX_STALE {
            let mut found = None;
            match answers(self.receive()?, sequence, &mut |row| found = Some(row)) {
                _ if found.is_some() => return Some(found),
                Answers::Error(libc::ENOENT) => return Some(None),
                Answers::Error(_) => return None,
                Answers::More | Answers::End => {}
            }
        }
        None
    }

    fn ask(&mut self, flags: i32, fill: impl FnOnce(&mut Request)) -> Option<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut request = Request {
            length: size_of::<Request>() as u32,
            kind: BY_FAMILY,
            flags: (libc::NLM_F_REQUEST | flags) as u16,
            sequence: self.sequence,
            port: 0,
            family: 0,
            protocol: 0,
            extensions: 0,
            unused: 0,
            states: u32::MAX,
            local_port: [0; 2],
            remote_port: [0; 2],
            local: [0; 16],
            remote: [0; 16],
            interface: 0,
            cookie: [0; 2],
        };
        fill(&mut request);
        let at = (&raw const request).cast();
        // SAFETY: a live structure of this length.
        let sent =
            unsafe { libc::send(self.socket.as_raw_fd(), at, size_of::<Request>(), libc::MSG_DONTWAIT) };
        (sent == size_of::<Request>() as isize).then_some(())
    }

    /// The next answers. The kernel has made them before it is asked for them, so this never waits.
    fn receive(&mut self) -> Option<&[u8]> {
        let at = self.room.as_mut_ptr().cast();
        // SAFETY: the buffer has this length.
        let have = unsafe { libc::recv(self.socket.as_raw_fd(), at, self.room.len(), libc::MSG_DONTWAIT) };
        let have = usize::try_from(have).ok().filter(|&have| have > 0)?;
        self.room.get(..have)
    }
}

/// What a list amounts to that ended with this error: nothing if the kernel doesn't tell. The same module answers for IPv6, if
/// the kernel has that: else it has no sockets of it.
fn refused(family: i32, error: i32, kernel_part: u32) -> Option<()> {
    if TRANSIENT.contains(&error) {
        return None;
    }
    if family == libc::AF_INET {
        refuse(kernel_part);
        return None;
    }
    Some(())
}

/// Whether the kernel does not tell of TCP: that does not pass.
pub fn is_refused() -> bool {
    has_refused(TCP)
}

/// Notes that this kernel need not be asked again.
fn refuse(what: u32) {
    REFUSED.fetch_or(what, Ordering::Relaxed);
}

fn has_refused(what: u32) -> bool {
    REFUSED.load(Ordering::Relaxed) & what == what
}

/// What a datagram of answers ends with.
#[derive(Debug, PartialEq, Eq)]
enum Answers {
    /// More may follow.
    More,
    /// The last one.
    End,
    /// An error of the kernel; 0 if the answer makes no sense.
    Error(i32),
}

/// Calls `each` for the sockets in some answers to this request.
fn answers(mut bytes: &[u8], sequence: u32, each: &mut dyn FnMut(Row)) -> Answers {
    while let Some(header) = bytes.get(..HEADER) {
        let number = |at: usize| Some(u32::from_ne_bytes(*header.get(at..)?.first_chunk()?));
        let (Some(length), Some(of)) = (number(0), number(8)) else { return Answers::Error(0) };
        let length = length as usize;
        let Some(message) = bytes.get(HEADER..length.max(HEADER)) else { return Answers::Error(0) };
        let kind =
            header.get(4..).and_then(|kind| kind.first_chunk()).map_or(0, |kind| u16::from_ne_bytes(*kind));
        let error = message.first_chunk().map_or(0, |error| i32::from_ne_bytes(*error));
        match i32::from(kind) {
            _ if of != sequence => {}
            // it carries the error of a list that could not be made
            libc::NLMSG_DONE if error < 0 => return Answers::Error(error.saturating_neg()),
            libc::NLMSG_DONE => return Answers::End,
            libc::NLMSG_ERROR => return Answers::Error(error.saturating_neg()),
            _ => match Row::parse(message) {
                Some(row) => each(row),
                None => return Answers::Error(0),
            },
        }
        bytes = bytes.get(length.next_multiple_of(4).max(HEADER)..).unwrap_or_default();
    }
    Answers::More
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

    fn v4(address: SocketAddr) -> Address {
        match address {
            SocketAddr::V4(address) => Address::new(*address.ip(), address.port()),
            SocketAddr::V6(_) => panic!("{address}"),
        }
    }

    #[test]
    fn sockets_of_our_own() {
        let Some(mut diag) = Diag::open() else { return };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let (client, server) = (v4(stream.local_addr().unwrap()), v4(listener.local_addr().unwrap()));
        let mut rows = Vec::new();
        diag.each(libc::IPPROTO_TCP, &[LISTEN], &mut |row| rows.push(row)).unwrap();
        assert!(rows.iter().all(|row| row.state == LISTEN));
        let found = rows.iter().find(|row| row.v4(0) == Some(server)).unwrap();
        assert_eq!((found.v4(1), found.interface), (Some(Address::new([0; 4].into(), 0)), 0));
        let of_client = diag.find(client, server, 0).unwrap().unwrap();
        let of_server = diag.find(server, client, 0).unwrap().unwrap();
        assert_eq!((of_client.state, of_server.state), (ESTABLISHED, ESTABLISHED));
        let expected = [&stream, &accepted]
            .map(|of| super::super::sockets::inode(std::process::id(), of.as_raw_fd() as u32));
        assert_eq!([Some(of_client.inode), Some(of_server.inode)], expected);
        assert_eq!(of_client.user, nix::unistd::geteuid().as_raw());
        // the listening socket is not taken for a connection that does not exist
        let nobody = Address::new([127, 0, 0, 1].into(), 1);
        assert_eq!(diag.find(server, nobody, 0), Some(None));
        assert_eq!(diag.find(nobody, server, 0), Some(None));
        drop(stream);
        assert_eq!(diag.find(server, client, 0).unwrap().unwrap().state, CLOSE_WAIT);
        drop(accepted);
        assert!(diag.find(server, client, 0).unwrap().is_none_or(|row| row.inode == 0), "nobody has it");
    }

    /// An IPv6 socket that has an IPv4 connection is found by its IPv4 addresses.
    #[test]
    fn a_socket_of_ipv6_that_serves_ipv4() {
        let (Some(mut diag), Ok(listener)) = (Diag::open(), TcpListener::bind("[::]:0")) else { return };
        let port = listener.local_addr().unwrap().port();
        let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) else { return };
        let (accepted, _) = listener.accept().unwrap();
        let (client, server) = (v4(stream.local_addr().unwrap()), Address::new([127, 0, 0, 1].into(), port));
        let found = diag.find(server, client, 0).unwrap().unwrap();
        assert_eq!(i32::from(found.family), libc::AF_INET6);
        let inode = super::super::sockets::inode(std::process::id(), accepted.as_raw_fd() as u32);
        assert_eq!(Some(found.inode), inode);
    }

    /// A kernel without IPv6 has told all; one that lacks memory has not.
    #[test]
    fn a_list_that_fails_is_not_empty() {
        for error in [libc::ENOMEM, libc::ENOBUFS, libc::EMFILE] {
            assert_eq!(refused(libc::AF_INET6, error, 0), None, "{error}");
            assert_eq!(refused(libc::AF_INET, error, 0), None, "{error}");
        }
        assert_eq!(refused(libc::AF_INET6, libc::ENOENT, 0), Some(()));
        assert_eq!(refused(libc::AF_INET, libc::ENOENT, 0), None);
    }

    #[test]
    fn datagram_sockets() {
        let Some(mut diag) = Diag::open() else { return };
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (mut found, own) = (false, v4(socket.local_addr().unwrap()));
        let told = diag.each(libc::IPPROTO_UDP, &[CLOSE], &mut |row| found |= row.v4(0) == Some(own));
        assert_eq!(found, told.is_some());
    }

    #[test]
    fn answers_cut_or_strange() {
        let message = |kind: u16, length: u32, payload: usize| {
            let mut bytes = length.to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend([0; 2]);
            bytes.extend(9u32.to_ne_bytes());
            bytes.resize(HEADER, 0);
            bytes.resize(HEADER + payload, 7);
            bytes
        };
        let mut rows = 0;
        let mut take = |bytes: &[u8], sequence| answers(bytes, sequence, &mut |_| rows += 1);
        let socket = message(BY_FAMILY, 88, 72);
        let mut done = message(libc::NLMSG_DONE as u16, 20, 4);
        done[HEADER..].fill(0);
        assert_eq!(take(&[socket.clone(), done.clone()].concat(), 9), Answers::End);
        assert_eq!(take(&[socket.clone(), done.clone()].concat(), 8), Answers::More, "of another request");
        assert_eq!(take(&socket, 9), Answers::More);
        for cut in 0..socket.len() {
            let expected = if cut < HEADER { Answers::More } else { Answers::Error(0) };
            assert_eq!(take(&socket[..cut], 9), expected, "{cut}");
        }
        for length in [0, 3, u32::MAX] {
            assert_eq!(take(&message(BY_FAMILY, length, 72), 9), Answers::Error(0), "{length}");
        }
        done[HEADER..].copy_from_slice(&(-2i32).to_ne_bytes());
        assert_eq!(take(&done, 9), Answers::Error(libc::ENOENT), "a list that could not be made");
        let mut error = message(libc::NLMSG_ERROR as u16, 36, 20);
        error[HEADER..HEADER + 4].copy_from_slice(&i32::MIN.to_ne_bytes());
        assert_eq!(take(&error, 9), Answers::Error(i32::MAX));
        assert_eq!(rows, 2);
    }

    #[test]
    fn addresses() {
        let mut row = Row {
            family: libc::AF_INET6 as u8,
            state: 1,
            ports: [1, 2],
            addresses: [[0; 16]; 2],
            interface: 0,
            inode: 1,
            user: 0,
            unsent: 0,
            timer: 0,
            retransmitted: 0,
        };
        row.addresses[0][15] = 1;
        assert_eq!((row.v4(0), row.v4(1), row.v4(2)), (None, Some(Address::new([0; 4].into(), 2)), None));
        row.addresses[0][10..].copy_from_slice(&[0xff, 0xff, 10, 1, 2, 3]);
        assert_eq!(row.v4(0), Some(Address::new([10, 1, 2, 3].into(), 1)));
    }
}
