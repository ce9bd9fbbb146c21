//! The socket filter, in classic BPF: it decides in the kernel which packets are captured.
//!
//! Classic BPF runs on every kernel that has packet sockets, needs no privilege of its own, and can't loop, so loops
//! are unrolled. Offsets count from the IPv4 header, as in an AF_PACKET socket of type SOCK_DGRAM. A read beyond the
//! packet's end drops the packet. The filter passes:
//!
//! - IPv4 TCP from or to one of the ports, whatever the IP options. Fragments without ports are
//!   dropped; their bytes count as a gap when the stream continues.
//! - on the loopback interface each packet once (the kernel shows it twice: outgoing and incoming);
//! - no bare acknowledgements: a later segment acknowledges the same.
//!
//! Each protocol adds a [`Rule`](crate::net::service::Rule) for each direction. A rule may leave out bytes at the end of a
//! segment, or the whole segment, if nothing in it is of interest. It knows nothing but this segment, so it can judge
//! only one that begins with a message. The decoder expects that
//! ([`Limits::filtered`](crate::net::connections::Limits)); a rule lets the headers of some segments pass that it leaves
//! out, lest sequence numbers wrap unseen.
//!
//! [`crate::net::stateful`] is better where the kernel has it.

use crate::net::program::{Program, ALL};
use crate::net::protocol::Side;
use crate::net::service::Ports;
use libc::{
    sock_filter, BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_JEQ, BPF_JSET, BPF_K, BPF_LD, BPF_LDX, BPF_MSH,
};

/// Messages of a segment that a rule may inspect: the first depth whose program the kernel accepts is used. The kernel
/// accepts 4096 instructions, but a socket's option memory, which must hold the program in use and the next one, may be
/// as small as 10 KiB (on 32-bit machines): enough for 16 messages of Channel Access.
pub const DEPTHS: [usize; 3] = [96, 16, 0];

/// Maximum number of ports: as many as fit beside the deepest rule.
pub const MAX_PORTS: usize = 256;

/// Builds the filter for segments that this side sends: from or to these ports and, if any are given, only on these
/// interfaces. `depth` is the number of messages that rules may inspect; 0 passes all segments whole. A segment between
/// two of the ports counts as sent to a server.
pub fn build(side: Side, ports: &Ports, interfaces: &[u32], depth: usize) -> Vec<sock_filter> {
    let mut p = Program::default();
    p.ancillary(libc::SKF_AD_PROTOCOL);
    // Outgoing tagged packets keep the tag's protocol number, but their network header is the inner one.
    p.unless_any(&[libc::ETH_P_IP as u32, libc::ETH_P_8021Q as u32, libc::ETH_P_8021AD as u32]);
    if !interfaces.is_empty() {
        p.ancillary(libc::SKF_AD_IFINDEX);
        p.unless_any(interfaces);
    }
    p.ancillary(libc::SKF_AD_PKTTYPE);
    p.jump(BPF_JEQ, libc::PACKET_OUTGOING.into(), 0, 3);
    p.ancillary(libc::SKF_AD_HATYPE);
    p.jump(BPF_JEQ, libc::ARPHRD_LOOPBACK.into(), 0, 1);
    p.ret(0);
    // IP version 4, TCP, not a later fragment.
    p.op(BPF_LD | BPF_B | BPF_ABS, 0);
    p.op(BPF_ALU | BPF_AND | BPF_K, 0xf0);
    p.jump(BPF_JEQ, 0x40, 1, 0);
    p.ret(0);
    p.op(BPF_LD | BPF_B | BPF_ABS, 9);
    p.jump(BPF_JEQ, libc::IPPROTO_TCP as u32, 1, 0);
    p.ret(0);
    p.op(BPF_LD | BPF_H | BPF_ABS, 6);
    p.jump(BPF_JSET, 0x1fff, 0, 1);
    p.ret(0);
    // X = length of the IP header.
    p.op(BPF_LDX | BPF_B | BPF_MSH, 0);
    let (source, destination) = (0, 2);
    if side == Side::Server {
        let all: Vec<u16> = ports.iter().flat_map(|(_, ports)| ports).copied().collect();
        p.ports(destination, &all, |p| p.ret(0));
    }
    for (service, ports) in ports.iter() {
        let (at, rule) = match side {
            Side::Client => (destination, service.requests),
            Side::Server => (source, service.rule),
        };
        p.ports(at, ports, |p| {
            p.tcp();
            rule(p, depth);
            p.ret(ALL);
        });
    }
    p.ret(0);
    p.0
}
