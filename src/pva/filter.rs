//! PVAccess's part of the socket filter: does not copy monitor updates, nor most of what continues long puts.
//!
//! A segment from a server's port passes as bare headers if it consists wholly of updates (MONITOR) and answers to gets
//! (GET) without types, exactly framed, and at most `MESSAGES` of them; if the last message continues in the next
//! segment, the captured part ends where the message shows what it is. A long segment that does not begin with a message
//! continues a large array: of it the headers pass, too, unless it ends with the answer to a put. So another answer in the
//! segment in which an array ends may be missed. The same with a segment to a server, if it is longer than
//! [`BULK_REQUEST`], unless it ends with a put of a number: so whoever writes an image does not drive out the puts of others.

use crate::net::filter::BULK_REQUEST;
use crate::net::program::{Program, ALL, END, OWN, PAYLOAD};
use crate::pva::message::{FROM_SERVER, GET, HEADER, MONITOR, PUT};
use libc::{
    BPF_A, BPF_ADD, BPF_ALU, BPF_AND, BPF_B, BPF_IND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JGT, BPF_JMP, BPF_JSET,
    BPF_K, BPF_LD, BPF_LDX, BPF_LSH, BPF_MEM, BPF_MISC, BPF_OR, BPF_RET, BPF_ST, BPF_STX, BPF_SUB, BPF_TAX,
    BPF_W, BPF_X,
};

/// Messages of a segment to inspect: beside the rule of Channel Access and many ports there is room for one. Servers send
/// most updates in a segment of their own.
const MESSAGES: usize = 1;
/// A continuation of fewer bytes passes whole.
const BULK: u32 = 4096;
/// What the first bytes of a server's message have in common: the mark, a version, flags.
const BEGINS: (u32, u32) = (0xfffc_4e00, 0xca00_4000);
/// The flag that a client's message lacks.
const FROM_SERVERS: u32 = (FROM_SERVER as u32) << 8;
/// Length of the answer to a put: id, subcommand, OK.
const ANSWER: u32 = HEADER as u32 + 6;
/// Length of a put to one of the first eight fields, up to the value: ids of channel and request, subcommand, set of fields.
const PUT_OF_NOTHING: u32 = HEADER as u32 + 11;
/// Sizes of a number.
const SMALL_VALUES: [u32; 4] = [1, 2, 4, 8];
/// Depth of a filter for sockets of little memory.
const SMALL: usize = 16;
/// A message up to its subcommand: header, request id, subcommand.
const SHOWS: u32 = HEADER as u32 + 5;
/// Scratch memory: the four bytes of the message's size.
const BYTES: u32 = OWN + 1;
/// Instructions that put them together.
const LITTLE_ENDIAN: u32 = 18;
/// A larger message is looked at by the decoder; additions can't overflow.
const MAX_SIZE: u32 = 1 << 30;

/// Leaves out what continues a long put.
pub fn requests(p: &mut Program, depth: usize) {
    if depth == 0 {
        return;
    }
    continuation(p, BULK_REQUEST, (BEGINS.0, BEGINS.1 & !FROM_SERVERS), |p| {
        for size in SMALL_VALUES {
            p.before_end(PUT_OF_NOTHING + size);
            p.op(BPF_ALU | BPF_AND | BPF_K, BEGINS.0 | 0xff);
            p.jump(BPF_JEQ, BEGINS.1 & !FROM_SERVERS | u32::from(PUT), 0, 1);
            p.ret(ALL);
        }
    });
}

/// Cuts segments that contain only updates and answers to gets.
pub fn rule(p: &mut Program, depth: usize) {
    // a socket of little memory has no room beside the rule of Channel Access
    let messages = if depth > SMALL { MESSAGES } else { 0 };
    if messages > 0 {
        continuation(p, BULK, BEGINS, |p| {
            p.before_end(ANSWER);
            p.op(BPF_ALU | BPF_AND | BPF_K, BEGINS.0);
            p.jump(BPF_JEQ, BEGINS.1, 0, 1);
            p.ret(ALL);
        });
    }
    for _ in 0..messages {
        message(p);
    }
}

/// Cuts a segment at X that is longer than `bulk` and does not begin with a message, of which the first bytes are as `begins`
/// says, unless `end` finds one at its end. X is the same afterwards.
fn continuation(p: &mut Program, bulk: u32, begins: (u32, u32), end: impl FnOnce(&mut Program)) {
    let mut others = Vec::new();
    p.op(BPF_LD | BPF_W | BPF_MEM, END);
    p.op(BPF_ALU | BPF_SUB | BPF_X, 0);
    p.jump(BPF_JGT, bulk, 1, 0);
    others.push(p.open());
    p.op(BPF_LD | BPF_W | BPF_IND, 0);
    p.op(BPF_ALU | BPF_AND | BPF_K, begins.0);
    p.jump(BPF_JEQ, begins.1, 0, 1);
    others.push(p.open());
    end(p);
    p.op(BPF_LD | BPF_W | BPF_MEM, PAYLOAD);
    p.op(BPF_RET | BPF_A, 0);
    others.iter().for_each(|&at| p.land_one(at));
    p.op(BPF_LDX | BPF_W | BPF_MEM, PAYLOAD);
}

/// Inspects the message at X. Continues with X at the next message if this one is an update or an answer to a get, and
/// not the last.
fn message(p: &mut Program) {
    p.op(BPF_LD | BPF_W | BPF_MEM, END);
    p.op(BPF_ALU | BPF_SUB | BPF_X, 0);
    p.jump(BPF_JGE, SHOWS, 1, 0);
    p.ret(ALL);
    // The mark, a version; flags: from the server, no control message, nothing that nobody sets, whole; byte order any.
    p.op(BPF_LD | BPF_W | BPF_IND, 0);
    p.op(BPF_ALU | BPF_AND | BPF_K, 0xfffc_7f00);
    p.jump(BPF_JEQ, 0xca00_4000, 1, 0);
    p.ret(ALL);
    p.op(BPF_LD | BPF_B | BPF_IND, 3);
    p.jump(BPF_JEQ, MONITOR.into(), 2, 0);
    p.jump(BPF_JEQ, GET.into(), 1, 0);
    p.ret(ALL);
    // Not the answer to INIT, which has a type.
    p.op(BPF_LD | BPF_B | BPF_IND, HEADER as u32 + 4);
    p.jump(BPF_JSET, 0x08, 0, 1);
    p.ret(ALL);
    // The size in the order that the flags tell: as it is, or put together.
    p.op(BPF_STX, OWN);
    p.op(BPF_LD | BPF_B | BPF_IND, 2);
    p.jump(BPF_JSET, 0x80, 0, 2);
    p.op(BPF_LD | BPF_W | BPF_IND, 4);
    p.op(BPF_JMP | BPF_JA, LITTLE_ENDIAN);
    let start = p.len();
    for at in 0..4 {
        p.op(BPF_LD | BPF_B | BPF_IND, 4 + at);
        p.op(BPF_ST, BYTES + at);
    }
    for at in (0..3).rev() {
        p.op(BPF_ALU | BPF_LSH | BPF_K, 8);
        p.op(BPF_LDX | BPF_W | BPF_MEM, BYTES + at);
        p.op(BPF_ALU | BPF_OR | BPF_X, 0);
    }
    p.op(BPF_LDX | BPF_W | BPF_MEM, OWN);
    debug_assert_eq!(p.len() - start, LITTLE_ENDIAN as usize);
    p.jump(BPF_JGT, MAX_SIZE, 0, 1);
    p.ret(ALL);
    p.op(BPF_ALU | BPF_ADD | BPF_K, HEADER as u32);
    p.op(BPF_ALU | BPF_ADD | BPF_X, 0);
    p.op(BPF_MISC | BPF_TAX, 0);
    p.op(BPF_LD | BPF_W | BPF_MEM, END);
    // The last one, wholly in this segment: only the headers are wanted.
    p.jump_x(BPF_JEQ, 0, 2);
    p.op(BPF_LD | BPF_W | BPF_MEM, PAYLOAD);
    p.op(BPF_RET | BPF_A, 0);
    // The last one, continuing in the next segment: up to its subcommand.
    p.jump_x(BPF_JGT, 3, 0);
    p.op(BPF_LD | BPF_W | BPF_MEM, OWN);
    p.op(BPF_ALU | BPF_ADD | BPF_K, SHOWS);
    p.op(BPF_RET | BPF_A, 0);
}
