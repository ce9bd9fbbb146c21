//! The filter of the datagrams' sockets, in classic BPF (see [`crate::net::filter`] for why). Offsets count from the
//! IP header.

use crate::net::program::Program;
use crate::net::udp::datagram::Datagram;
use libc::{
    sock_filter, BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_IMM, BPF_IND, BPF_JEQ, BPF_JGE, BPF_JSET,
    BPF_K, BPF_LD, BPF_LDX, BPF_MSH, BPF_W,
};

/// Datagrams at these ports are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    /// All from and to these; those to them may be thinned out.
    pub asked: Vec<u16>,
    /// All to these. What comes from them are copies of what was sent to them.
    pub told: Vec<u16>,
    /// First 32 bits of answers from programs at the ports in `told`, which may come from any port.
    pub answers: &'static [u32],
    /// All whose payload begins so, whatever their ports: masks of the first 32 bits, and what they must be then.
    pub begins: &'static [(u32, u32)],
}

impl Selected {
    /// Whether a datagram is among these.
    pub fn takes(&self, datagram: &Datagram) -> bool {
        let ends = [datagram.source.port, datagram.destination.port];
        let first = datagram.payload.first_chunk().map(|first| u32::from_be_bytes(*first));
        let begins = |&(mask, value): &(u32, u32)| first.is_some_and(|first| first & mask == value);
        ends.iter().any(|port| self.asked.contains(port) || self.told.contains(port))
            || first.is_some_and(|first| self.answers.contains(&first))
            || self.begins.iter().any(begins)
    }

    /// These and what another protocol takes, which has neither [`Selected::told`] nor answers.
    pub fn with(mut self, other: &Selected) -> Selected {
        // the usual ones of both first: a filter takes only so many
        let at = self.asked.len().min(1);
        self.asked.splice(at..at, other.asked.iter().copied());
        let mut known = std::collections::HashSet::new();
        self.asked.retain(|port| known.insert(*port));
        self.begins = other.begins;
        self
    }
}

/// How much of the datagrams is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taking {
    /// One in so many of those to [`Selected::asked`]; a power of two.
    pub one_in: u32,
    /// Bytes of each, from the IP header on.
    pub bytes: u32,
}

/// Length of an IPv6 header.
const IP6: u32 = 40;
/// Most ports of each list.
pub const MAX_PORTS: usize = 32;

/// Builds the filter for these ports and, if any are given, only these interfaces.
pub(super) fn build(selected: &Selected, interfaces: &[u32], taking: Taking) -> Vec<sock_filter> {
    let mut p = Program::default();
    p.ancillary(libc::SKF_AD_PROTOCOL);
    // Outgoing tagged packets keep the tag's protocol number, but their network header is the inner one.
    p.unless_any(&[
        libc::ETH_P_IP as u32,
        libc::ETH_P_IPV6 as u32,
        libc::ETH_P_8021Q as u32,
        libc::ETH_P_8021AD as u32,
    ]);
    // X = length of the IP header. Version 6: UDP without headers between.
    p.op(BPF_LDX | BPF_W | BPF_IMM, IP6);
    p.op(BPF_LD | BPF_B | BPF_ABS, 0);
    p.op(BPF_ALU | BPF_AND | BPF_K, 0xf0);
    p.jump(BPF_JEQ, 0x60, 0, 4);
    p.op(BPF_LD | BPF_B | BPF_ABS, 6);
    p.jump(BPF_JEQ, libc::IPPROTO_UDP as u32, 1, 0);
    p.ret(0);
    let of_4 = p.open();
    // Version 4: UDP, not a later fragment.
    p.jump(BPF_JEQ, 0x40, 1, 0);
    p.ret(0);
    p.op(BPF_LD | BPF_B | BPF_ABS, 9);
    p.jump(BPF_JEQ, libc::IPPROTO_UDP as u32, 1, 0);
    p.ret(0);
    p.op(BPF_LD | BPF_H | BPF_ABS, 6);
    p.jump(BPF_JSET, 0x1fff, 0, 1);
    p.ret(0);
    p.op(BPF_LDX | BPF_B | BPF_MSH, 0);
    p.land_one(of_4);
    if !interfaces.is_empty() {
        p.ancillary(libc::SKF_AD_IFINDEX);
        p.unless_any(interfaces);
    }
    // On the loopback interface each packet appears twice: outgoing and incoming.
    p.ancillary(libc::SKF_AD_PKTTYPE);
    p.jump(BPF_JEQ, libc::PACKET_OUTGOING.into(), 0, 3);
    p.ancillary(libc::SKF_AD_HATYPE);
    p.jump(BPF_JEQ, libc::ARPHRD_LOOPBACK.into(), 0, 1);
    p.ret(0);
    let first = |ports: &[u16]| ports.iter().take(MAX_PORTS).copied().collect::<Vec<u16>>();
    p.ports(2, &first(&selected.told), |p| p.ret(taking.bytes));
    if !selected.begins.is_empty() || !selected.answers.is_empty() {
        // X is the length of the IP header, the length of the datagram is at 4, its payload at 8
        p.op(BPF_LD | BPF_H | BPF_IND, 4);
        p.when(BPF_JGE, 12, |p| {
            p.op(BPF_LD | BPF_W | BPF_IND, 8);
            for &answer in selected.answers {
                p.jump(BPF_JEQ, answer, 0, 1);
                p.ret(taking.bytes);
            }
            for &(mask, value) in selected.begins {
                p.op(BPF_LD | BPF_W | BPF_IND, 8);
                p.op(BPF_ALU | BPF_AND | BPF_K, mask);
                p.jump(BPF_JEQ, value, 0, 1);
                p.ret(taking.bytes);
            }
        });
    }
    p.ports(2, &first(&selected.asked), |p| {
        if taking.one_in > 1 {
            p.ancillary(libc::SKF_AD_RANDOM);
            p.jump(BPF_JSET, taking.one_in - 1, 0, 1);
            p.ret(0);
        }
        p.ret(taking.bytes);
    });
    p.ports(0, &first(&selected.asked), |p| p.ret(taking.bytes));
    p.ret(0);
    p.0
}
