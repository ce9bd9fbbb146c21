//! Channel Access's part of the stateless filter: does not copy monitor updates, nor the rest of long puts.
//!
//! Monitor updates and answers to gets are the bulk of what servers send, and are not recorded. A segment from a
//! server's port that consists wholly of them, at most `DEPTHS[0]`, exactly framed, is left out, but for the headers of
//! one in [`SAMPLE`]. If the last message goes on in the next segment, the captured part ends after that message's
//! header, so that the decoder knows where the next one begins.
//!
//! A segment that does not begin with a message is the continuation of a long one, and can't be judged: only its end
//! can tell that there is a message of interest. If it is long and its end tells nothing, its beginning alone passes. So
//! an answer behind the last part of an array may be missed, and is counted then: the decoder knows where the array
//! ends. Nothing like that is done to a segment to a server unless it is at least [`BULK_REQUEST`] bytes long.
//!
//! A segment that does not begin with a message could be mistaken for one that does only if array data looked like such
//! headers throughout; the decoder then notices (`framer`). 96 updates of a double with its time stamp take 3840 bytes.

use crate::ca::message::{
    CLEAR_CHANNEL, CREATE_CHAN, CREATE_CH_FAIL, EVENT_ADD, HEADER, LAST_COMMAND, LONG_HEADER, READ_NOTIFY,
    SERVER_DISCONN, WRITE, WRITE_NOTIFY,
};
use crate::net::program::{Program, ALL, END, OWN, PAYLOAD};
use crate::net::stateful::KEPT;
use epics::eca;
use libc::{
    BPF_A, BPF_ADD, BPF_ALU, BPF_H, BPF_IND, BPF_JEQ, BPF_JGE, BPF_JGT, BPF_JSET, BPF_K, BPF_LD, BPF_LDX,
    BPF_MEM, BPF_MISC, BPF_RET, BPF_STX, BPF_SUB, BPF_TAX, BPF_W, BPF_X,
};

/// Highest DBR type.
const LAST_DBR: u32 = epics::Dbr::LAST.0 as u32;
/// The size in a short header that stands for a long one.
const LONG: u32 = 0xffff;
/// Of so many segments without anything of interest the headers of one pass, by chance: at 64 KiB each, one in 2 MiB,
/// far below the 64 MiB after which a stream counts as another one.
const SAMPLE: u32 = 32;
/// A continuation of fewer bytes from a server passes whole.
const BULK_ANSWER: u32 = 4096;
/// The same to a server. Puts are what counts: clients send small ones in pieces of up to 16 KiB.
pub const BULK_REQUEST: u32 = 32 << 10;
/// What passes of longer ones.
const SHOWN: u32 = 16;
/// Payload sizes of puts of one value.
const SMALL_PUTS: [u32; 5] = [8, 16, 24, 32, 40];

/// Leaves out updates and answers to gets.
pub fn rule(p: &mut Program, depth: usize) {
    if depth == 0 {
        return;
    }
    let mut open = Open::default();
    continuation(p, BULK_ANSWER, |p| {
        // an answer without payload
        before_end(p, HEADER as u32);
        for command in [CLEAR_CHANNEL, CREATE_CHAN, WRITE_NOTIFY, CREATE_CH_FAIL, SERVER_DISCONN] {
            p.jump(BPF_JEQ, u32::from(command) << 16, 0, 1);
            p.ret(ALL);
        }
    });
    for _ in 0..depth {
        message(p, &mut open);
    }
    p.ret(ALL);
    // A long header at X.
    open.long.iter().for_each(|&at| p.land_one(at));
    p.op(BPF_LD | BPF_W | BPF_MEM, END);
    p.op(BPF_ALU | BPF_SUB | BPF_X, 0);
    p.jump(BPF_JGE, LONG_HEADER as u32, 1, 0);
    p.ret(ALL);
    p.op(BPF_STX, OWN);
    p.op(BPF_LD | BPF_W | BPF_IND, HEADER as u32);
    p.jump(BPF_JSET, 7, 0, 1);
    p.ret(ALL);
    p.op(BPF_ALU | BPF_ADD | BPF_K, LONG_HEADER as u32);
    p.op(BPF_ALU | BPF_ADD | BPF_X, 0);
    p.op(BPF_MISC | BPF_TAX, 0);
    p.op(BPF_LD | BPF_W | BPF_MEM, END);
    // wholly in this segment, and the last
    p.jump_x(BPF_JEQ, 0, 1);
    open.whole.push(p.open());
    // goes on in the next one
    p.jump_x(BPF_JGT, 3, 0);
    p.op(BPF_LD | BPF_W | BPF_MEM, OWN);
    p.op(BPF_ALU | BPF_ADD | BPF_K, LONG_HEADER as u32);
    p.op(BPF_RET | BPF_A, 0);
    p.ret(ALL);
    // Nothing of interest.
    open.whole.iter().for_each(|&at| p.land_one(at));
    p.ancillary(libc::SKF_AD_RANDOM);
    p.jump(BPF_JSET, SAMPLE - 1, 0, 1);
    p.ret(0);
    p.op(BPF_LD | BPF_W | BPF_MEM, PAYLOAD);
    p.op(BPF_RET | BPF_A, 0);
}

/// Jumps that go on behind the messages.
#[derive(Default)]
struct Open {
    /// To a long header at X.
    long: Vec<usize>,
    /// To the end of a segment without anything of interest.
    whole: Vec<usize>,
}

/// Inspects the message at X. Continues with X at the next message if this one is an update or an answer to a get, and
/// not the last.
fn message(p: &mut Program, open: &mut Open) {
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
    p.op(BPF_LD | BPF_H | BPF_IND, 2);
    p.jump(BPF_JEQ, LONG, 0, 1);
    open.long.push(p.open());
    // Sizes are multiples of 8.
    p.jump(BPF_JSET, 7, 0, 1);
    p.ret(ALL);
    p.op(BPF_STX, OWN);
    p.op(BPF_ALU | BPF_ADD | BPF_K, HEADER as u32);
    p.op(BPF_ALU | BPF_ADD | BPF_X, 0);
    p.op(BPF_MISC | BPF_TAX, 0);
    p.op(BPF_LD | BPF_W | BPF_MEM, END);
    // The last one, wholly in this segment.
    p.jump_x(BPF_JEQ, 0, 1);
    open.whole.push(p.open());
    // The last one, continuing in the next segment: up to its header.
    p.jump_x(BPF_JGT, 3, 0);
    p.op(BPF_LD | BPF_W | BPF_MEM, OWN);
    p.op(BPF_ALU | BPF_ADD | BPF_K, HEADER as u32);
    p.op(BPF_RET | BPF_A, 0);
}

/// Cuts a segment at X that is longer than `bulk` and does not begin with a message, unless `end` finds a message at its
/// end. X is the same afterwards.
fn continuation(p: &mut Program, bulk: u32, end: impl FnOnce(&mut Program)) {
    let mut short = Vec::new();
    p.op(BPF_LD | BPF_W | BPF_MEM, END);
    p.op(BPF_ALU | BPF_SUB | BPF_X, 0);
    p.jump(BPF_JGT, bulk, 1, 0);
    short.push(p.open());
    // a message has a known command and data type, and a size that is a multiple of 8 or stands for a long one
    let mut data = Vec::new();
    p.op(BPF_LD | BPF_H | BPF_IND, 0);
    p.jump(BPF_JGT, LAST_COMMAND.into(), 0, 1);
    data.push(p.open());
    p.op(BPF_LD | BPF_H | BPF_IND, 4);
    p.jump(BPF_JGT, LAST_DBR, 0, 1);
    data.push(p.open());
    p.op(BPF_LD | BPF_H | BPF_IND, 2);
    p.jump(BPF_JEQ, LONG, 0, 1);
    short.push(p.open());
    p.jump(BPF_JSET, 7, 1, 0);
    short.push(p.open());
    data.iter().for_each(|&at| p.land_one(at));
    end(p);
    p.op(BPF_LD | BPF_W | BPF_MEM, PAYLOAD);
    p.op(BPF_ALU | BPF_ADD | BPF_K, SHOWN);
    p.op(BPF_RET | BPF_A, 0);
    short.iter().for_each(|&at| p.land_one(at));
    p.op(BPF_LDX | BPF_W | BPF_MEM, PAYLOAD);
}

/// A = the word so many bytes before the segment's end. (Old kernels load nothing from a negative offset to X.)
fn before_end(p: &mut Program, bytes: u32) {
    p.op(BPF_LD | BPF_W | BPF_MEM, END);
    p.op(BPF_ALU | BPF_SUB | BPF_K, bytes);
    p.op(BPF_MISC | BPF_TAX, 0);
    p.op(BPF_LD | BPF_W | BPF_IND, 0);
}

/// Leaves out what is not kept of a put at the end of a segment.
pub fn requests(p: &mut Program, depth: usize) {
    if depth == 0 {
        return;
    }
    continuation(p, BULK_REQUEST, |p| {
        for size in SMALL_PUTS {
            // command and size of a put that ends here
            before_end(p, HEADER as u32 + size);
            for command in [WRITE, WRITE_NOTIFY] {
                p.jump(BPF_JEQ, u32::from(command) << 16 | size, 0, 1);
                p.ret(ALL);
            }
        }
    });
    p.op(BPF_LD | BPF_W | BPF_MEM, END);
    p.op(BPF_ALU | BPF_SUB | BPF_X, 0);
    p.jump(BPF_JGT, LONG_HEADER as u32 + KEPT, 1, 0);
    p.ret(ALL);
    p.op(BPF_LD | BPF_H | BPF_IND, 0);
    p.jump(BPF_JEQ, WRITE.into(), 2, 0);
    p.jump(BPF_JEQ, WRITE_NOTIFY.into(), 1, 0);
    p.ret(ALL);
    p.op(BPF_LD | BPF_H | BPF_IND, 2);
    let mut long = Vec::new();
    p.jump(BPF_JEQ, LONG, 0, 1);
    long.push(p.open());
    up_to_end(p, HEADER as u32);
    long.iter().for_each(|&at| p.land_one(at));
    p.op(BPF_LD | BPF_W | BPF_IND, HEADER as u32);
    // larger than anything that is sent: sums could overflow
    p.jump(BPF_JGT, 1 << 30, 0, 1);
    p.ret(ALL);
    up_to_end(p, LONG_HEADER as u32);
}

/// Cuts a put with this header and A bytes of payload if it ends with the segment, or later.
fn up_to_end(p: &mut Program, header: u32) {
    p.op(BPF_STX, OWN);
    p.op(BPF_ALU | BPF_ADD | BPF_K, header);
    p.op(BPF_ALU | BPF_ADD | BPF_X, 0);
    p.op(BPF_MISC | BPF_TAX, 0);
    p.op(BPF_LD | BPF_W | BPF_MEM, END);
    p.jump_x(BPF_JGT, 0, 1);
    p.ret(ALL);
    p.op(BPF_LD | BPF_W | BPF_MEM, OWN);
    p.op(BPF_ALU | BPF_ADD | BPF_K, header + KEPT);
    p.op(BPF_RET | BPF_A, 0);
}
