//! Channel Access's part of the socket filter: does not copy monitor updates.
//!
//! Monitor updates are the bulk of what servers send, and are not recorded. A segment from a server's port passes as
//! bare headers if it consists wholly of updates (EVENT_ADD) and answers to gets (READ_NOTIFY), at most `DEPTHS[0]` of
//! them, exactly framed; if the last message continues in the next segment, the captured part ends after that message's
//! header.
//!
//! A segment that does not begin with a message could be mistaken for one that does only if array data looked like such
//! headers throughout; the decoder then notices (`framer`). 96 updates of a double with its time stamp take 3840 bytes.

use crate::ca::message::{EVENT_ADD, HEADER, READ_NOTIFY};
use crate::net::program::{Program, ALL, END, OWN, PAYLOAD};
use epics::eca;
use libc::{
    BPF_A, BPF_ADD, BPF_ALU, BPF_H, BPF_IND, BPF_JEQ, BPF_JGE, BPF_JGT, BPF_JSET, BPF_K, BPF_LD, BPF_MEM,
    BPF_MISC, BPF_RET, BPF_STX, BPF_SUB, BPF_TAX, BPF_W, BPF_X,
};

/// Highest DBR type.
const LAST_DBR: u32 = epics::Dbr::LAST.0 as u32;

/// Cuts segments that contain only updates and answers to gets.
pub fn rule(p: &mut Program, depth: usize) {
    for _ in 0..depth {
        message(p);
    }
}

/// Inspects the message at X. Continues with X at the next message if this one is an update or an answer to a get, and
/// not the last.
fn message(p: &mut Program) {
    p.op(BPF_LD | BPF_W | BPF_MEM, END);
    p.op(BPF_ALU | BPF_SUB | BPF_X, 0);
    p.jump(BPF_JGE, HEADER as u32, 1, 0);
    p.ret(ALL);
    p.op(BPF_LD | BPF_H | BPF_IND, 0);
    p.jump(BPF_JEQ, EVENT_ADD.into(), 2, 0);
    p.jump(BPF_JEQ, READ_NOTIFY.into(), 1, 0);
    p.ret(ALL);
    p.op(BPF_LD | BPF_H | BPF_IND, 4);
    p.jump(BPF_JGT, LAST_DBR, 0, 1);
    p.ret(ALL);
    p.op(BPF_LD | BPF_W | BPF_IND, 8);
    p.jump(BPF_JEQ, eca::NORMAL, 1, 0);
    p.ret(ALL);
    // Sizes are multiples of 8. That also excludes the long header, whose size is 0xffff.
    p.op(BPF_LD | BPF_H | BPF_IND, 2);
    p.jump(BPF_JSET, 7, 0, 1);
    p.ret(ALL);
    p.op(BPF_STX, OWN);
    p.op(BPF_ALU | BPF_ADD | BPF_K, HEADER as u32);
    p.op(BPF_ALU | BPF_ADD | BPF_X, 0);
    p.op(BPF_MISC | BPF_TAX, 0);
    p.op(BPF_LD | BPF_W | BPF_MEM, END);
    // The last one, wholly in this segment: only the headers are wanted.
    p.jump_x(BPF_JEQ, 0, 2);
    p.op(BPF_LD | BPF_W | BPF_MEM, PAYLOAD);
    p.op(BPF_RET | BPF_A, 0);
    // The last one, continuing in the next segment: up to its header.
    p.jump_x(BPF_JGT, 3, 0);
    p.op(BPF_LD | BPF_W | BPF_MEM, OWN);
    p.op(BPF_ALU | BPF_ADD | BPF_K, HEADER as u32);
    p.op(BPF_RET | BPF_A, 0);
}
