//! The socket filter, in classic BPF, that decides in the kernel what is captured.
//!
//! Classic BPF runs on every kernel that has packet sockets, needs no right of its own, and can't
//! loop; so it is written out straight. Offsets count from the IPv4 header, as in an AF_PACKET
//! socket of type SOCK_DGRAM. A read behind the packet's end drops the packet. It lets through:
//!
//! - IPv4 TCP from or to one of the ports, whatever the IP options. Fragments without ports are
//!   dropped: their bytes are counted as missing when the stream goes on.
//! - on the loopback interface each packet once (the kernel shows it twice: going out, coming in);
//! - no bare acknowledgements: they say nothing that a later segment doesn't say too.
//!
//! Monitor updates are the bulk of what servers send, and nothing that is recorded. A segment from
//! a server's port that consists wholly of updates (EVENT_ADD) and answers to gets (READ_NOTIFY),
//! at most [`WALKS`]`[0]` of them, exactly framed, comes through as bare headers; when the last one goes
//! on in the next segment, what comes through ends behind that one's header. So hardly more than
//! 100 bytes of it are copied, and yet its sequence number and length are known: a segment that was
//! lost can't be taken for one that was left out. (To drop these segments would cost a little less
//! still, but would leave gaps that can't be told from losses, and sequence numbers that wrap
//! unseen.) A segment in which a stream's framing does not begin with its first byte could be
//! mistaken only if array data looked like such headers all through, which the decoder then notices
//! (`ca/framer.rs`).

use crate::ca::message::{EVENT_ADD, HEADER, READ_NOTIFY};
use epics::eca;
use libc::{
    sock_filter, BPF_A, BPF_ABS, BPF_ADD, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_IND, BPF_JA, BPF_JEQ, BPF_JGE,
    BPF_JGT, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_LDX, BPF_LEN, BPF_MEM, BPF_MISC, BPF_MSH, BPF_RET,
    BPF_RSH, BPF_ST, BPF_STX, BPF_SUB, BPF_TAX, BPF_W, BPF_X,
};

/// Messages of a segment that are looked at, the longest program first that the kernel takes. 96
/// updates of a double with its time stamp are 3840 bytes. The kernel takes 4096 instructions, but
/// a socket's option memory, which must hold the program in use and the one to come, may be as
/// small as 10 KiB (on 32-bit machines): enough for 16 messages.
pub const WALKS: [usize; 3] = [96, 16, 0];

/// Most ports: as many as fit beside the longest walk.
pub const MOST_PORTS: usize = 256;

/// Whole packets.
const ALL: u32 = u32::MAX;
/// Highest DBR type (CLASS_NAME).
const LAST_DBR: u32 = epics::Dbr::LAST.0 as u32;

/// Scratch memory: offset of the TCP payload.
const PAYLOAD: u32 = 0;
/// Scratch memory: length of the IP packet.
const END: u32 = 1;
/// Scratch memory: offset of the message looked at.
const MESSAGE: u32 = 2;

/// Builds the filter for these ports and, if there are any, these interfaces only. `walk` is the
/// number of messages looked at in segments from servers; 0 lets them through whole.
pub fn build(ports: &[u16], interfaces: &[u32], walk: usize) -> Vec<sock_filter> {
    let mut p = Program(Vec::new());
    p.ancillary(libc::SKF_AD_PROTOCOL);
    // Tagged packets on their way out keep the tag's protocol number, but their network header is
    // the inner one.
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
    p.ports(0, ports, |p| {
        p.tcp();
        for _ in 0..walk {
            p.message();
        }
        p.ret(ALL);
    });
    p.ports(2, ports, |p| {
        p.tcp();
        p.ret(ALL);
    });
    p.ret(0);
    p.0
}

/// A program that is being written.
struct Program(Vec<sock_filter>);

impl Program {
    fn op(&mut self, code: u32, k: u32) {
        self.0.push(sock_filter { code: code as u16, jt: 0, jf: 0, k });
    }

    /// A jump over so many instructions, if the comparison of A with K holds and if not.
    fn jump(&mut self, comparison: u32, k: u32, jt: u8, jf: u8) {
        self.0.push(sock_filter { code: (BPF_JMP | comparison | BPF_K) as u16, jt, jf, k });
    }

    /// The same with X.
    fn jump_x(&mut self, comparison: u32, jt: u8, jf: u8) {
        self.0.push(sock_filter { code: (BPF_JMP | comparison | BPF_X) as u16, jt, jf, k: 0 });
    }

    fn ret(&mut self, length: u32) {
        self.op(BPF_RET | BPF_K, length);
    }

    /// A = something that the kernel knows of the packet.
    fn ancillary(&mut self, what: libc::c_int) {
        self.op(BPF_LD | BPF_W | BPF_ABS, (libc::SKF_AD_OFF + what) as u32);
    }

    /// Ends unless A is one of these.
    fn unless_any(&mut self, values: &[u32]) {
        let start = self.0.len();
        for &value in values {
            // Distances are only known, and may be too far for a conditional jump, at the end.
            self.jump(BPF_JEQ, value, 0, 1);
            self.op(BPF_JMP | BPF_JA, 0);
        }
        self.ret(0);
        self.land(start);
    }

    /// What follows is for packets with one of the ports at this offset in the TCP header.
    fn ports(&mut self, offset: u32, ports: &[u16], then: impl FnOnce(&mut Program)) {
        self.op(BPF_LD | BPF_H | BPF_IND, offset);
        let start = self.0.len();
        for &port in ports {
            self.jump(BPF_JEQ, port.into(), 0, 1);
            self.op(BPF_JMP | BPF_JA, 0);
        }
        let over = self.0.len();
        self.op(BPF_JMP | BPF_JA, 0);
        self.land_before(start, over);
        then(self);
        self.land_one(over);
    }

    /// Lets the open jumps since `start` land here.
    fn land(&mut self, start: usize) {
        self.land_before(start, self.0.len());
    }

    /// Lets the open jumps from `start` to `end` land here.
    fn land_before(&mut self, start: usize, end: usize) {
        for at in start..end {
            self.land_one(at);
        }
    }

    fn land_one(&mut self, at: usize) {
        let here = self.0.len();
        if let Some(op) = self.0.get_mut(at).filter(|op| u32::from(op.code) == BPF_JMP | BPF_JA && op.k == 0)
        {
            op.k = (here - at - 1) as u32;
        }
    }

    /// Keeps what opens or ends a connection; drops what has no payload. X is the offset of the TCP
    /// header, and then that of the payload.
    fn tcp(&mut self) {
        self.op(BPF_LD | BPF_B | BPF_IND, 13);
        self.jump(BPF_JSET, 0b111, 0, 1);
        self.ret(ALL);
        self.op(BPF_LD | BPF_B | BPF_IND, 12);
        self.op(BPF_ALU | BPF_AND | BPF_K, 0xf0);
        self.op(BPF_ALU | BPF_RSH | BPF_K, 2);
        self.op(BPF_ALU | BPF_ADD | BPF_X, 0);
        self.op(BPF_ST, PAYLOAD);
        // Packets put together to more than 64 KiB carry no length.
        self.op(BPF_LD | BPF_H | BPF_ABS, 2);
        self.jump(BPF_JEQ, 0, 0, 1);
        self.op(BPF_LD | BPF_W | BPF_LEN, 0);
        self.op(BPF_ST, END);
        self.op(BPF_LDX | BPF_W | BPF_MEM, PAYLOAD);
        self.jump_x(BPF_JGT, 1, 0);
        self.ret(0);
    }

    /// Looks at the message at X. Goes on with X at the next one if it is an update or an answer to
    /// a get, and not the last.
    fn message(&mut self) {
        self.op(BPF_LD | BPF_W | BPF_MEM, END);
        self.op(BPF_ALU | BPF_SUB | BPF_X, 0);
        self.jump(BPF_JGE, HEADER as u32, 1, 0);
        self.ret(ALL);
        self.op(BPF_LD | BPF_H | BPF_IND, 0);
        self.jump(BPF_JEQ, EVENT_ADD.into(), 2, 0);
        self.jump(BPF_JEQ, READ_NOTIFY.into(), 1, 0);
        self.ret(ALL);
        self.op(BPF_LD | BPF_H | BPF_IND, 4);
        self.jump(BPF_JGT, LAST_DBR, 0, 1);
        self.ret(ALL);
        self.op(BPF_LD | BPF_W | BPF_IND, 8);
        self.jump(BPF_JEQ, eca::NORMAL, 1, 0);
        self.ret(ALL);
        // Sizes are multiples of 8. That leaves out the long header, too, whose size is 0xffff.
        self.op(BPF_LD | BPF_H | BPF_IND, 2);
        self.jump(BPF_JSET, 7, 0, 1);
        self.ret(ALL);
        self.op(BPF_STX, MESSAGE);
        self.op(BPF_ALU | BPF_ADD | BPF_K, HEADER as u32);
        self.op(BPF_ALU | BPF_ADD | BPF_X, 0);
        self.op(BPF_MISC | BPF_TAX, 0);
        self.op(BPF_LD | BPF_W | BPF_MEM, END);
        // The last one, wholly in this segment: nothing but the headers is wanted.
        self.jump_x(BPF_JEQ, 0, 2);
        self.op(BPF_LD | BPF_W | BPF_MEM, PAYLOAD);
        self.op(BPF_RET | BPF_A, 0);
        // The last one, going on in the next segment: up to its header.
        self.jump_x(BPF_JGT, 3, 0);
        self.op(BPF_LD | BPF_W | BPF_MEM, MESSAGE);
        self.op(BPF_ALU | BPF_ADD | BPF_K, HEADER as u32);
        self.op(BPF_RET | BPF_A, 0);
    }
}
