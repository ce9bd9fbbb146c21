//! The socket filter, in classic BPF: it decides in the kernel which packets are captured.
//!
//! Classic BPF runs on every kernel that has packet sockets, needs no privilege of its own, and can't loop, so loops
//! are unrolled. Offsets count from the IP header, as in an AF_PACKET socket of type SOCK_DGRAM. A read beyond the
//! packet's end drops the packet. The filter passes:
//!
//! - TCP from or to one of the ports, over IPv4 and IPv6, whatever the IP options;
//! - beside what clients send, later fragments of TCP, which carry no ports: they are rare, and the decoder puts them
//!   together ([`crate::net::fragments`]); and segments of IPv6 behind several headers. Fragments of tunnels are not among
//!   them: a tunnel's own interface shows what was in them;
//! - beside what clients send, such segments of both sides that are carried by a tag that the kernel left in place, GRE or
//!   IP in IP (of usual form: without options), whole;
//! - on the loopback interface each packet once. The kernel shows it twice: the outgoing one is in order, while the
//!   incoming ones of a connection may overtake each other on different CPUs;
//! - no bare acknowledgements, since a later segment acknowledges the same, but those by which a client says that it
//!   takes nothing more at present (a closed window).
//!
//! Each protocol adds a [`Rule`](crate::net::service::Rule) for each direction. A rule may leave out bytes at the end of a
//! segment, or the whole segment, if nothing in it is of interest. It knows nothing but this segment, so it can judge
//! only one that begins with a message. The decoder expects that
//! ([`Limits::filtered`](crate::net::connections::Limits)); a rule lets the headers of some segments pass that it leaves
//! out, lest sequence numbers wrap unseen.
//!
//! [`crate::net::stateful`] is better where the kernel has it.

use crate::net::program::{Program, ALL, END};
use crate::net::protocol::Side;
use crate::net::service::Ports;
use libc::{
    sock_filter, BPF_ABS, BPF_ADD, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_IMM, BPF_JEQ, BPF_JSET, BPF_K, BPF_LD,
    BPF_LDX, BPF_LSH, BPF_MEM, BPF_MISC, BPF_MSH, BPF_ST, BPF_TAX, BPF_W,
};

/// Messages of a segment that a rule may inspect: the first depth whose program the kernel accepts is used. The kernel
/// accepts 4096 instructions, but a socket's option memory, which must hold the program in use and the next one, may be
/// as small as 10 KiB (on 32-bit machines): enough for 14 messages of Channel Access.
pub const DEPTHS: [usize; 3] = [92, 14, 0];

/// Maximum number of ports: as many as fit beside the deepest rule.
pub const MAX_PORTS: usize = 256;

/// A segment to a server that is no longer passes whole, unless a rule knows that its end is not kept. Puts are what counts:
/// clients send small ones in pieces of up to 16 KiB.
pub const BULK_REQUEST: u32 = 32 << 10;

/// Builds the filter for segments that this side sends: from or to these ports and, if any are given, only on these
/// interfaces. `depth` is the number of messages that rules may inspect; 0 passes all segments whole. A segment between
/// two of the ports counts as sent to a server. If the socket belongs to a [group](crate::net::group), what servers send is
/// passed whole, too, where it comes here.
pub fn build(side: Side, ports: &Ports, interfaces: &[u32], depth: usize, grouped: bool) -> Vec<sock_filter> {
    let mut p = Program::default();
    p.ancillary(libc::SKF_AD_PROTOCOL);
    p.when(BPF_JEQ, libc::ETH_P_IPV6 as u32, |p| {
        p.op(BPF_LD | BPF_B | BPF_ABS, 0);
        p.op(BPF_ALU | BPF_AND | BPF_K, 0xf0);
        p.jump(BPF_JEQ, 0x60, 1, 0);
        p.ret(0);
        p.ancillary(libc::SKF_AD_PROTOCOL);
    });
    // Outgoing tagged packets keep the tag's protocol number, but their network header is the inner one.
    let tags = [libc::ETH_P_8021Q as u32, libc::ETH_P_8021AD as u32];
    p.unless_any(&[libc::ETH_P_IP as u32, tags[0], tags[1], libc::ETH_P_IPV6 as u32]);
    if !interfaces.is_empty() {
        p.ancillary(libc::SKF_AD_IFINDEX);
        p.unless_any(interfaces);
    }
    p.ancillary(libc::SKF_AD_PKTTYPE);
    p.jump(BPF_JEQ, libc::PACKET_OUTGOING.into(), 3, 0);
    p.ancillary(libc::SKF_AD_HATYPE);
    p.jump(BPF_JEQ, libc::ARPHRD_LOOPBACK.into(), 0, 1);
    p.ret(0);
    // X = offset of the TCP header; scratch memory = length of the packet, or 0: it is carried by something else than IP
    let all: Vec<u16> = ports.iter().flat_map(|(_, ports)| ports).copied().collect();
    p.op(BPF_LD | BPF_B | BPF_ABS, 0);
    p.op(BPF_ALU | BPF_AND | BPF_K, 0xf0);
    p.jump(BPF_JEQ, 0x40, 0, 3);
    p.op(BPF_LD | BPF_B | BPF_ABS, 9);
    p.jump(BPF_JEQ, libc::IPPROTO_TCP as u32, 0, 1);
    let plain = p.open();
    let carried = if side == Side::Client { Some(carried(&mut p)) } else { None };
    // after the tags, some of which begin as IPv6 does
    p.op(BPF_LD | BPF_B | BPF_ABS, 0);
    p.op(BPF_ALU | BPF_AND | BPF_K, 0xf0);
    let mut of_ip6 = Vec::new();
    p.when(BPF_JEQ, 0x60, |p| of_ip6 = ip6(p, side));
    p.ret(0);
    p.land_one(plain);
    p.op(BPF_LD | BPF_H | BPF_ABS, 6);
    p.jump(BPF_JSET, 0x1fff, 0, 1);
    p.ret(later_fragment(side));
    p.total(2, 0);
    p.op(BPF_LDX | BPF_B | BPF_MSH, 0);
    for jump in of_ip6.into_iter().chain(carried) {
        p.land_one(jump);
    }
    let carried_whole = |p: &mut Program| {
        p.op(BPF_LD | BPF_W | BPF_MEM, END);
        p.when(BPF_JEQ, 0, |p| p.ret(ALL));
    };
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
            if side == Side::Client {
                carried_whole(p);
            }
            p.tcp(side == Side::Client);
            rule(p, depth);
            p.ret(ALL);
        });
    }
    if side == Side::Client {
        if !grouped {
            p.op(BPF_LD | BPF_W | BPF_MEM, END);
            p.jump(BPF_JEQ, 0, 1, 0);
            p.ret(0);
        }
        p.ports(source, &all, |p| {
            carried_whole(p);
            // what the group could not tell apart
            p.tcp(false);
            p.ret(ALL);
        });
    }
    p.ret(0);
    p.0
}

/// Bytes to pass of a fragment that has no ports: of either side, beside what clients send.
fn later_fragment(side: Side) -> u32 {
    match side {
        Side::Client => ALL,
        Side::Server => 0,
    }
}

/// For a packet of IPv6 that carries TCP, sets X to the offset of the TCP header, and scratch memory to the packet's
/// length, and jumps; drops others. Returns the open jumps.
fn ip6(p: &mut Program, side: Side) -> Vec<usize> {
    const TCP: u32 = libc::IPPROTO_TCP as u32;
    const HEADER: u32 = 40;
    const FRAGMENT: u32 = 44;
    const AUTHENTICATION: u32 = 51;
    let byte = |p: &mut Program, at| p.op(BPF_LD | BPF_B | BPF_ABS, at);
    // what is behind further headers only the recorder finds
    let only_tcp = |p: &mut Program| {
        byte(p, HEADER);
        if side == Side::Client {
            for (further, jump) in [0, 43, FRAGMENT, AUTHENTICATION, 60].into_iter().zip((0..5).rev()) {
                p.jump(BPF_JEQ, further, jump, u8::from(jump == 0));
            }
            p.ret(ALL);
        }
        p.jump(BPF_JEQ, TCP, 1, 0);
        p.ret(0);
    };
    let mut found = Vec::new();
    p.total(4, HEADER);
    byte(p, 6);
    p.when(BPF_JEQ, TCP, |p| {
        p.op(BPF_LDX | BPF_IMM, HEADER);
        found.push(p.open());
    });
    p.when(BPF_JEQ, FRAGMENT, |p| {
        only_tcp(p);
        p.op(BPF_LD | BPF_H | BPF_ABS, HEADER + 2);
        p.jump(BPF_JSET, 0xfff8, 0, 1);
        p.ret(later_fragment(side));
        p.op(BPF_LDX | BPF_IMM, HEADER + 8);
        found.push(p.open());
    });
    if side == Side::Client {
        p.jump(BPF_JEQ, AUTHENTICATION, 0, 1);
        p.ret(ALL);
    }
    // options, a route, or options for the destination: of eight bytes and as many times eight as it says
    p.jump(BPF_JEQ, 0, 3, 0);
    p.jump(BPF_JEQ, 43, 2, 0);
    p.jump(BPF_JEQ, 60, 1, 0);
    p.ret(0);
    only_tcp(p);
    byte(p, HEADER + 1);
    p.op(BPF_ALU | BPF_LSH | BPF_K, 3);
    p.op(BPF_ALU | BPF_ADD | BPF_K, HEADER + 8);
    p.op(BPF_MISC | BPF_TAX, 0);
    found.push(p.open());
    found
}

/// For a segment that is carried by something else than plain IPv4, sets X to the offset of the TCP header, and scratch
/// memory to 0, and jumps: returns the open jump.
fn carried(p: &mut Program) -> usize {
    const TCP: u32 = libc::IPPROTO_TCP as u32;
    const GRE_KEY: u32 = 0x2000_0000;
    let ip4 = libc::ETH_P_IP as u32;
    let half = |p: &mut Program, at| p.op(BPF_LD | BPF_H | BPF_ABS, at);
    let byte = |p: &mut Program, at| p.op(BPF_LD | BPF_B | BPF_ABS, at);
    // IPv6 is no tag, though its label may be any of these numbers
    p.ancillary(libc::SKF_AD_PROTOCOL);
    p.jump(BPF_JEQ, libc::ETH_P_IPV6 as u32, 0, 1);
    let ip6 = p.open();
    // X = offset of the TCP header.
    let mut found = Vec::new();
    let mut inner = |p: &mut Program, at: u32| {
        byte(p, at + 9);
        p.when(BPF_JEQ, TCP, |p| {
            p.op(BPF_LDX | BPF_IMM, at + 20);
            found.push(p.open());
        });
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
    let nothing = p.open();
    for jump in found {
        p.land_one(jump);
    }
    p.op(BPF_LD | BPF_IMM, 0);
    p.op(BPF_ST, END);
    let carried = p.open();
    p.land_one(nothing);
    p.land_one(ip6);
    carried
}
