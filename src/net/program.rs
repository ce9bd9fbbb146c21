//! Programs in classic BPF (linux/filter.h), written instruction by instruction.

use libc::{
    sock_filter, BPF_ABS, BPF_ADD, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_IND, BPF_JA, BPF_JEQ, BPF_JGT,
    BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_LDX, BPF_LEN, BPF_MEM, BPF_MISC, BPF_RET, BPF_RSH, BPF_ST, BPF_SUB,
    BPF_TAX, BPF_W, BPF_X,
};

/// The return value that passes a packet whole.
pub const ALL: u32 = u32::MAX;
/// Scratch memory: offset of the TCP payload.
pub const PAYLOAD: u32 = 0;
/// Scratch memory: length of the IP packet.
pub const END: u32 = 1;
/// Scratch memory for a rule's own use.
pub const OWN: u32 = 2;
/// Scratch memory: the window of the sender.
const WINDOW: u32 = 3;

/// A program that is being written.
///
/// A protocol's rule begins with X = offset of the payload, which is not empty, and scratch memory
/// [`PAYLOAD`] and [`END`]. It may use A, X and scratch memory from [`OWN`] on.
#[derive(Default)]
pub struct Program(pub(super) Vec<sock_filter>);

impl Program {
    /// Number of instructions so far.
    #[allow(clippy::len_without_is_empty)] // nobody asks for that
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// One instruction that does not jump, with its constant.
    pub fn op(&mut self, code: u32, k: u32) {
        self.0.push(sock_filter { code: code as u16, jt: 0, jf: 0, k });
    }

    /// Compares A with K and jumps over `jt` instructions if that holds, else over `jf`.
    pub fn jump(&mut self, comparison: u32, k: u32, jt: u8, jf: u8) {
        self.0.push(sock_filter { code: (BPF_JMP | comparison | BPF_K) as u16, jt, jf, k });
    }

    /// The same with A and X.
    pub fn jump_x(&mut self, comparison: u32, jt: u8, jf: u8) {
        self.0.push(sock_filter { code: (BPF_JMP | comparison | BPF_X) as u16, jt, jf, k: 0 });
    }

    /// Passes this number of bytes of the packet, counted from the IP header; 0 drops it.
    pub fn ret(&mut self, length: u32) {
        self.op(BPF_RET | BPF_K, length);
    }

    /// A = a property of the packet, as the kernel knows it (SKF_AD_...).
    pub fn ancillary(&mut self, what: libc::c_int) {
        self.op(BPF_LD | BPF_W | BPF_ABS, (libc::SKF_AD_OFF + what) as u32);
    }

    /// Drops the packet unless A is one of these.
    pub(super) fn unless_any(&mut self, values: &[u32]) {
        let start = self.0.len();
        for &value in values {
            // Distances are known only at the end, and may be too far for a conditional jump.
            self.jump(BPF_JEQ, value, 0, 1);
            self.op(BPF_JMP | BPF_JA, 0);
        }
        self.ret(0);
        self.land(start);
    }

    /// Runs `then` for packets with one of the ports at this offset in the TCP header.
    pub(super) fn ports(&mut self, offset: u32, ports: &[u16], then: impl FnOnce(&mut Program)) {
        self.op(BPF_LD | BPF_H | BPF_IND, offset);
        self.is_one_of(ports, then);
    }

    /// Runs `then` for packets of which A is one of these ports.
    pub(super) fn is_one_of(&mut self, ports: &[u16], then: impl FnOnce(&mut Program)) {
        let over = self.unless_one_of(ports);
        then(self);
        self.land_one(over);
    }

    /// An open jump for packets of which A is none of these ports; an instruction for each port.
    fn unless_one_of(&mut self, ports: &[u16]) -> usize {
        // how far a conditional jump may go
        const FAR: usize = 255;
        let mut found = Vec::new();
        let mut rest = ports.len();
        for (at, &port) in ports.iter().enumerate() {
            rest -= 1;
            let more = rest.min(FAR - 1 - at % FAR);
            self.jump(BPF_JEQ, port.into(), more as u8 + 1, 0);
            if more == 0 && rest > 0 {
                self.op(BPF_JMP | BPF_JA, 1);
                found.push(self.open());
            }
        }
        let over = self.open();
        for jump in found {
            self.land_one(jump);
        }
        over
    }

    /// Runs `then` for packets for which the comparison of A with K holds.
    pub fn when(&mut self, comparison: u32, k: u32, then: impl FnOnce(&mut Program)) {
        let over = self.unless(comparison, k);
        then(self);
        self.land_one(over);
    }

    /// An open jump for packets for which the comparison does not hold.
    fn unless(&mut self, comparison: u32, k: u32) -> usize {
        self.jump(comparison, k, 1, 0);
        self.open()
    }

    /// Makes the open jumps since `start` land here.
    fn land(&mut self, start: usize) {
        self.land_before(start, self.0.len());
    }

    /// Makes the open jumps from `start` to `end` land here.
    fn land_before(&mut self, start: usize, end: usize) {
        for at in start..end {
            self.land_one(at);
        }
    }

    /// A = the word so many bytes before the segment's end; X changes. (Old kernels load nothing from a negative offset
    /// to X.)
    pub fn before_end(&mut self, bytes: u32) {
        self.op(BPF_LD | BPF_W | BPF_MEM, END);
        self.op(BPF_ALU | BPF_SUB | BPF_K, bytes);
        self.op(BPF_MISC | BPF_TAX, 0);
        self.op(BPF_LD | BPF_W | BPF_IND, 0);
    }

    /// A jump that lands where [`Program::land_one`] says later. Returns its place.
    pub fn open(&mut self) -> usize {
        self.op(BPF_JMP | BPF_JA, 0);
        self.0.len() - 1
    }

    /// Makes the open jump at this place land here.
    pub fn land_one(&mut self, at: usize) {
        let here = self.0.len();
        if let Some(op) = self.0.get_mut(at).filter(|op| u32::from(op.code) == BPF_JMP | BPF_JA && op.k == 0)
        {
            op.k = (here - at - 1) as u32;
        }
    }

    /// Scratch memory [`END`] = the packet's length: the half word at this offset and `header`.
    pub(super) fn total(&mut self, at: u32, header: u32) {
        self.op(BPF_LD | BPF_H | BPF_ABS, at);
        // Packets joined to more than 64 KiB carry no length.
        self.jump(BPF_JEQ, 0, 0, 2);
        self.op(BPF_LD | BPF_W | BPF_LEN, 0);
        self.jump(BPF_JEQ, 0, 1, 1);
        self.op(BPF_ALU | BPF_ADD | BPF_K, header);
        self.op(BPF_ST, END);
    }

    /// Passes segments that open or end a connection; drops others without payload, except, with `windows`, those that
    /// close the sender's window. X is the offset of the TCP header, and afterwards that of the payload; scratch memory
    /// has [`END`].
    pub(super) fn tcp(&mut self, windows: bool) {
        if windows {
            self.op(BPF_LD | BPF_H | BPF_IND, 14);
            self.op(BPF_ST, WINDOW);
        }
        self.op(BPF_LD | BPF_B | BPF_IND, 13);
        self.jump(BPF_JSET, 0b111, 0, 1);
        self.ret(ALL);
        self.op(BPF_LD | BPF_B | BPF_IND, 12);
        self.op(BPF_ALU | BPF_AND | BPF_K, 0xf0);
        self.op(BPF_ALU | BPF_RSH | BPF_K, 2);
        self.op(BPF_ALU | BPF_ADD | BPF_X, 0);
        self.op(BPF_ST, PAYLOAD);
        self.op(BPF_LD | BPF_W | BPF_MEM, END);
        self.op(BPF_LDX | BPF_W | BPF_MEM, PAYLOAD);
        if windows {
            self.jump_x(BPF_JGT, 4, 0);
            self.op(BPF_LD | BPF_W | BPF_MEM, WINDOW);
            self.jump(BPF_JEQ, 0, 0, 1);
            self.ret(ALL);
        } else {
            self.jump_x(BPF_JGT, 1, 0);
        }
        self.ret(0);
    }
}
