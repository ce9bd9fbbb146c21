//! A capture's packet sockets as a group (PACKET_FANOUT, packet(7)): the kernel asks a small program which of them a packet
//! is for, and shows it to that one alone.
//!
//! Whatever its filter says of a packet, each packet socket costs whoever sends one on this machine time. A group costs as
//! much as one socket.
//!
//! Whoever has CAP_NET_RAW in the network namespace, as root of a container has, may join a group that is not full, and would
//! get the packets of one of its sockets. So a group is made for as many as join it at once (`max_num_members`, Linux 5.12).
//! If somebody else is among them, one of ours is refused: then there is no group, and each socket sees every packet, as on
//! older kernels.

use std::os::fd::{AsRawFd, OwnedFd};

use libc::{
    c_int, sock_filter, socklen_t, BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_IND, BPF_JEQ, BPF_JSET,
    BPF_K, BPF_LD, BPF_LDX, BPF_MEM, BPF_MSH, BPF_ST, BPF_W, SOL_PACKET,
};
use nix::errno::Errno;

use crate::net::capture::CaptureError;
use crate::net::program::Program;
use crate::net::ring::set_option;
use crate::net::service::Ports;

/// The members, by the order in which they join: of what clients send, and of all that the program can't tell apart; of what
/// servers send; of datagrams. Where the last does not exist, what is for it goes to the first.
const REQUESTS: u32 = 0;
const ANSWERS: u32 = 1;
const DATAGRAMS: u32 = 2;

/// The kernel's packet(7) calls these so; libc does not have them all.
const PACKET_FANOUT: c_int = 18;
const PACKET_FANOUT_DATA: c_int = 22;
const PACKET_FANOUT_CBPF: u16 = 6;
/// The kernel chooses a number that no group of the namespace has.
const UNIQUE: u16 = 0x2000;

/// `struct fanout_args` of linux/if_packet.h: number and type in one word, in this order whatever the byte order.
#[repr(C)]
struct Arguments {
    word: u32,
    members: u32,
}

/// Makes bound sockets a group: that of what clients send, that of what servers send, and perhaps that of datagrams. Returns
/// how many are in it. If that is neither all nor none, all must be closed, since they lack what the others get.
pub(super) fn join(sockets: &[&OwnedFd], ports: &Ports) -> usize {
    let members = sockets.len() as u32;
    let mut id = 0;
    for (at, socket) in sockets.iter().enumerate() {
        let unique = if at == 0 { UNIQUE } else { 0 };
        let word = u32::from(PACKET_FANOUT_CBPF | unique) << 16 | id;
        if set_option(socket, SOL_PACKET, PACKET_FANOUT, &Arguments { word, members }).is_err() {
            return at;
        }
        if at == 0 {
            match number(socket) {
                Ok(number) if direct(socket, ports).is_ok() => id = number,
                _ => return 1,
            }
        }
    }
    sockets.len()
}

/// The number of a socket's group.
fn number(socket: &OwnedFd) -> Result<u32, Errno> {
    let mut word = 0u32;
    let mut length = size_of::<u32>() as socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `word`, which has that size.
    let read = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            SOL_PACKET,
            PACKET_FANOUT,
            (&raw mut word).cast(),
            &raw mut length,
        )
    };
    Errno::result(read).map(|_| word & 0xffff)
}

/// From now on the group of this socket tells these ports' segments apart.
pub(super) fn direct(socket: &OwnedFd, ports: &Ports) -> Result<(), CaptureError> {
    let mut program = member_of(ports);
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let directed = set_option(socket, SOL_PACKET, PACKET_FANOUT_DATA, &filter);
    directed.map_err(|errno| CaptureError::System("PACKET_FANOUT_DATA", errno))
}

/// Scratch memory: the source port.
const SOURCE: u32 = 0;
/// Length of the header of Ethernet, and of the loopback interface; its last two bytes are the protocol.
const ETHERNET: u32 = 14;

/// The program: its result is a member's place. Where it can't read a packet the kernel makes that 0.
///
/// The members' filters (`filter.rs`, `udp/filter.rs`) see an outgoing packet from its IP header on. To this program it begins
/// with the interface's own header: of the usual length, or it counts from where the kernel knows that IP's begins, which
/// takes longer.
pub fn member_of(ports: &Ports) -> Vec<sock_filter> {
    let ports: Vec<u16> = ports.iter().flat_map(|(_, ports)| ports).copied().collect();
    let mut p = Program::default();
    // jumps to where A is the destination's port
    let mut found = Vec::new();
    p.ancillary(libc::SKF_AD_PKTTYPE);
    p.when(BPF_JEQ, libc::PACKET_OUTGOING.into(), |p| {
        p.ancillary(libc::SKF_AD_HATYPE);
        p.jump(BPF_JEQ, libc::ARPHRD_LOOPBACK.into(), 1, 0);
        p.jump(BPF_JEQ, libc::ARPHRD_ETHER.into(), 0, 3);
        p.op(BPF_LD | BPF_H | BPF_ABS, ETHERNET - 2);
        p.jump(BPF_JEQ, libc::ETH_P_IP as u32, 2, 0);
        p.jump(BPF_JEQ, libc::ETH_P_IPV6 as u32, 1, 0);
        let elsewhere = p.open();
        member_from(p, ETHERNET, &mut found);
        p.land_one(elsewhere);
        member_from(p, libc::SKF_NET_OFF as u32, &mut found);
    });
    // the filters take only outgoing segments there
    p.ancillary(libc::SKF_AD_HATYPE);
    p.when(BPF_JEQ, libc::ARPHRD_LOOPBACK.into(), |p| p.ret(DATAGRAMS));
    member_from(&mut p, 0, &mut found);
    for jump in found {
        p.land_one(jump);
    }
    p.is_one_of(&ports, |p| p.ret(REQUESTS));
    p.op(BPF_LD | BPF_W | BPF_MEM, SOURCE);
    p.is_one_of(&ports, |p| p.ret(ANSWERS));
    p.ret(DATAGRAMS);
    p.0
}

/// The same for packets whose IP header is at this offset, up to a segment's ports.
fn member_from(p: &mut Program, ip: u32, found: &mut Vec<usize>) {
    const TCP: u32 = libc::IPPROTO_TCP as u32;
    const UDP: u32 = libc::IPPROTO_UDP as u32;
    const IP_HEADER: u32 = 20;
    const IP6_HEADER: u32 = 40;
    let load = |p: &mut Program, size, at: u32| p.op(BPF_LD | size | BPF_ABS, ip.wrapping_add(at));
    let mut ports = |p: &mut Program, mode, at: u32| {
        p.op(BPF_LD | BPF_H | mode, ip.wrapping_add(at));
        p.op(BPF_ST, SOURCE);
        p.op(BPF_LD | BPF_H | mode, ip.wrapping_add(at + 2));
        found.push(p.open());
    };
    load(p, BPF_B, 0);
    p.op(BPF_ALU | BPF_AND | BPF_K, 0xf0);
    p.when(BPF_JEQ, 0x40, |p| {
        load(p, BPF_B, 9);
        p.when(BPF_JEQ, UDP, |p| p.ret(DATAGRAMS));
        p.when(BPF_JEQ, TCP, |p| {
            load(p, BPF_H, 6);
            p.when(BPF_JSET, 0x1fff, |p| p.ret(REQUESTS));
            load(p, BPF_B, 0);
            p.when(BPF_JEQ, 0x45, |p| ports(p, BPF_ABS, IP_HEADER));
            p.op(BPF_LDX | BPF_B | BPF_MSH, ip);
            ports(p, BPF_IND, 0);
        });
        // tunnels
        p.ret(REQUESTS);
    });
    // other protocols, and tags
    p.jump(BPF_JEQ, 0x60, 1, 0);
    p.ret(REQUESTS);
    // one that the kernel left in place may begin like this
    p.ancillary(libc::SKF_AD_PROTOCOL);
    p.jump(BPF_JEQ, libc::ETH_P_IPV6 as u32, 5, 0);
    load(p, BPF_H, 2);
    p.jump(BPF_JEQ, libc::ETH_P_IP as u32, 2, 0);
    p.jump(BPF_JEQ, libc::ETH_P_8021Q as u32, 1, 0);
    p.jump(BPF_JEQ, libc::ETH_P_8021AD as u32, 0, 1);
    p.ret(REQUESTS);
    load(p, BPF_B, 6);
    p.when(BPF_JEQ, UDP, |p| p.ret(DATAGRAMS));
    // further headers, and other protocols
    p.jump(BPF_JEQ, TCP, 1, 0);
    p.ret(REQUESTS);
    // The end, since the kernel takes what follows a return to have the memory from before it.
    ports(p, BPF_ABS, IP6_HEADER);
}
