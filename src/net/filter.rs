//! The socket filter, in classic BPF: it decides in the kernel which packets are captured.
//!
//! Classic BPF runs on every kernel that has packet sockets, needs no privilege of its own, and can't loop, so loops
//! are unrolled. Offsets count from the IPv4 header, as in an AF_PACKET socket of type SOCK_DGRAM. A read beyond the
//! packet's end drops the packet. The filter passes:
//!
//! - IPv4 TCP from or to one of the ports, whatever the IP options. Fragments without ports are
//!   dropped; their bytes count as a gap when the stream continues.
//! - beside what clients send, such segments of both sides that are carried by a tag that the kernel left in place, GRE or
//!   IP in IP (of usual form: without options), whole; and the headers of those carried by IPv6, to be counted;
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

use crate::net::program::{Program, ALL, OWN};
use crate::net::protocol::Side;
use crate::net::service::Ports;
use libc::{
    sock_filter, BPF_A, BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_IMM, BPF_JEQ, BPF_JSET, BPF_K, BPF_LD,
    BPF_LDX, BPF_MEM, BPF_MSH, BPF_RET, BPF_ST, BPF_W,
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
    if side == Side::Client {
        p.when(BPF_JEQ, libc::ETH_P_IPV6 as u32, |p| {
            p.op(BPF_LD | BPF_B | BPF_ABS, 0);
            p.op(BPF_ALU | BPF_AND | BPF_K, 0xf0);
            p.jump(BPF_JEQ, 0x60, 1, 0);
            p.ret(0);
            p.ancillary(libc::SKF_AD_PROTOCOL);
        });
    }
    // Outgoing tagged packets keep the tag's protocol number, but their network header is the inner one.
    let ip6 = if side == Side::Client { libc::ETH_P_IPV6 as u32 } else { libc::ETH_P_IP as u32 };
    p.unless_any(&[libc::ETH_P_IP as u32, libc::ETH_P_8021Q as u32, libc::ETH_P_8021AD as u32, ip6]);
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
    let all: Vec<u16> = ports.iter().flat_map(|(_, ports)| ports).copied().collect();
    p.op(BPF_LD | BPF_B | BPF_ABS, 0);
    p.op(BPF_ALU | BPF_AND | BPF_K, 0xf0);
    p.jump(BPF_JEQ, 0x40, 0, 3);
    p.op(BPF_LD | BPF_B | BPF_ABS, 9);
    p.jump(BPF_JEQ, libc::IPPROTO_TCP as u32, 0, 1);
    let plain = p.open();
    if side == Side::Client {
        carried(&mut p, &all);
    }
    p.ret(0);
    p.land_one(plain);
    p.op(BPF_LD | BPF_H | BPF_ABS, 6);
    p.jump(BPF_JSET, 0x1fff, 0, 1);
    p.ret(0);
    // X = length of the IP header.
    p.op(BPF_LDX | BPF_B | BPF_MSH, 0);
    let (source, destination) = (0, 2);
    if side == Side::Server {
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

/// Bytes to keep of a segment that is only counted.
const COUNTED: u32 = 128;

/// Passes segments from and to these ports that are carried by something else than plain IPv4.
fn carried(p: &mut Program, ports: &[u16]) {
    const TCP: u32 = libc::IPPROTO_TCP as u32;
    const GRE_KEY: u32 = 0x2000_0000;
    let ip4 = libc::ETH_P_IP as u32;
    let half = |p: &mut Program, at| p.op(BPF_LD | BPF_H | BPF_ABS, at);
    let byte = |p: &mut Program, at| p.op(BPF_LD | BPF_B | BPF_ABS, at);
    // X = offset of the TCP header, scratch memory = bytes to pass.
    let mut found = Vec::new();
    let mut tcp = |p: &mut Program, at: u32, length: u32| {
        p.op(BPF_LD | BPF_IMM, length);
        p.op(BPF_ST, OWN);
        p.op(BPF_LDX | BPF_IMM, at);
        found.push(p.open());
    };
    let mut inner = |p: &mut Program, at: u32| {
        byte(p, at + 9);
        p.when(BPF_JEQ, TCP, |p| tcp(p, at + 20, ALL));
    };
    half(p, 2);
    p.when(BPF_JEQ, ip4, |p| inner(p, 4));
    for tag in [libc::ETH_P_8021Q as u32, libc::ETH_P_8021AD as u32] {
        half(p, 2);
        p.when(BPF_JEQ, tag, |p| {
            half(p, 6);
            p.when(BPF_JEQ, ip4, |p| inner(p, 8));
        });
    }
    byte(p, 0);
    p.when(BPF_JEQ, 0x45, |p| {
        byte(p, 9);
        p.when(BPF_JEQ, libc::IPPROTO_IPIP as u32, |p| inner(p, 20));
        byte(p, 9);
        p.when(BPF_JEQ, libc::IPPROTO_GRE as u32, |p| {
            p.op(BPF_LD | BPF_W | BPF_ABS, 20);
            p.when(BPF_JEQ, ip4, |p| inner(p, 24));
            p.op(BPF_LD | BPF_W | BPF_ABS, 20);
            p.when(BPF_JEQ, GRE_KEY | ip4, |p| inner(p, 28));
        });
    });
    byte(p, 0);
    p.op(BPF_ALU | BPF_AND | BPF_K, 0xf0);
    p.when(BPF_JEQ, 0x60, |p| {
        byte(p, 6);
        p.when(BPF_JEQ, TCP, |p| tcp(p, 40, COUNTED));
    });
    p.ret(0);
    for jump in found {
        p.land_one(jump);
    }
    for at in [0, 2] {
        p.ports(at, ports, |p| {
            p.op(BPF_LD | BPF_MEM, OWN);
            p.op(BPF_RET | BPF_A, 0);
        });
    }
}
