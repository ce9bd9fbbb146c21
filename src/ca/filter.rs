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
//! The other way round, what a long segment begins with counts as a message only if it is one that this side sends: else
//! arrays of zeros or of small numbers would pass whole, and fill the ring.

use crate::ca::message::{
    ACCESS_RIGHTS, CLEAR_CHANNEL, CLIENT_NAME, CREATE_CHAN, CREATE_CH_FAIL, ECHO, ERROR, EVENTS_OFF,
    EVENTS_ON, EVENT_ADD, EVENT_CANCEL, HEADER, HOST_NAME, LAST_COMMAND, LONG_HEADER, NOT_FOUND, READ,
    READ_NOTIFY, READ_SYNC, SEARCH, SERVER_DISCONN, VERSION, WRITE, WRITE_NOTIFY,
};
use crate::net::filter::BULK_REQUEST;
use crate::net::program::{Program, ALL, END, OWN, PAYLOAD};
use crate::net::stateful::KEPT;
use epics::eca;
use libc::{
    BPF_A, BPF_ADD, BPF_ALU, BPF_H, BPF_IMM, BPF_IND, BPF_JEQ, BPF_JGE, BPF_JGT, BPF_JSET, BPF_K, BPF_LD,
    BPF_LDX, BPF_MEM, BPF_MISC, BPF_RET, BPF_RSH, BPF_STX, BPF_SUB, BPF_TAX, BPF_W, BPF_X,
};

/// Highest DBR type.
const LAST_DBR: u32 = epics::Dbr::LAST.0 as u32;
/// Highest number of a version that is believed: it is 13 in Base 7.0 (CA_MINOR_PROTOCOL_REVISION).
const HIGHEST_VERSION: u32 = 255;
/// The size in a short header that stands for a long one.
const LONG: u32 = 0xffff;
/// Of so many segments without anything of interest the headers of one pass, by chance: at 64 KiB each, one in 2 MiB,
/// far below the 64 MiB after which a stream counts as another one.
const SAMPLE: u32 = 32;
/// A continuation of fewer bytes from a server passes whole.
const BULK_ANSWER: u32 = 4096;
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
    continuation(p, BULK_ANSWER, &OF_SERVERS, |p| {
        // an answer without payload
        p.before_end(HEADER as u32);
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

/// Messages that a long segment may begin with, a bit for each command. All else is data: by the highest command and type
/// alone an array of zeros, or of small numbers, would pass for messages.
struct Beginnings {
    /// Messages without payload.
    bare: u32,
    /// Messages whose size is a multiple of 8, or stands for a long one.
    sized: u32,
}

const fn bits(commands: &[u16]) -> u32 {
    let (mut bits, mut rest) = (0, commands);
    while let [first, others @ ..] = rest {
        bits |= 1 << *first;
        rest = others;
    }
    bits
}

const OF_SERVERS: Beginnings = Beginnings {
    bare: bits(&[
        CLEAR_CHANNEL,
        NOT_FOUND,
        CREATE_CHAN,
        WRITE_NOTIFY,
        ACCESS_RIGHTS,
        ECHO,
        CREATE_CH_FAIL,
        SERVER_DISCONN,
    ]),
    sized: bits(&[EVENT_ADD, READ, ERROR, READ_NOTIFY]),
};

const OF_CLIENTS: Beginnings = Beginnings {
    bare: bits(&[EVENT_CANCEL, READ, EVENTS_OFF, EVENTS_ON, READ_SYNC, CLEAR_CHANNEL, READ_NOTIFY, ECHO]),
    sized: bits(&[EVENT_ADD, WRITE, SEARCH, CREATE_CHAN, WRITE_NOTIFY, CLIENT_NAME, HOST_NAME]),
};

/// Cuts a segment at X that is longer than `bulk` and does not begin with a message, unless `end` finds a message at its
/// end. X is the same afterwards.
fn continuation(p: &mut Program, bulk: u32, of: &Beginnings, end: impl FnOnce(&mut Program)) {
    let (mut others, mut data) = (Vec::new(), Vec::new());
    let bit_of_command = |p: &mut Program, bits: u32| {
        p.op(BPF_LD | BPF_IMM, bits);
        p.op(BPF_ALU | BPF_RSH | BPF_X, 0);
    };
    p.op(BPF_LD | BPF_W | BPF_MEM, END);
    p.op(BPF_ALU | BPF_SUB | BPF_X, 0);
    p.jump(BPF_JGT, bulk, 1, 0);
    others.push(p.open());
    // VERSION tells a small number where others tell that of elements, and nothing else
    p.op(BPF_LD | BPF_W | BPF_IND, 0);
    p.when(BPF_JEQ, u32::from(VERSION) << 16, |p| {
        for parameter in [8, 12] {
            p.op(BPF_LD | BPF_W | BPF_IND, parameter);
            p.jump(BPF_JEQ, 0, 1, 0);
            data.push(p.open());
        }
        p.op(BPF_LD | BPF_H | BPF_IND, 6);
        p.jump(BPF_JEQ, 0, 1, 0);
        p.jump(BPF_JGT, HIGHEST_VERSION, 0, 1);
        data.push(p.open());
        others.push(p.open());
    });
    p.op(BPF_LD | BPF_H | BPF_IND, 4);
    p.jump(BPF_JGT, LAST_DBR, 0, 1);
    data.push(p.open());
    p.op(BPF_LD | BPF_H | BPF_IND, 0);
    p.jump(BPF_JGT, LAST_COMMAND.into(), 0, 1);
    data.push(p.open());
    p.op(BPF_MISC | BPF_TAX, 0);
    bit_of_command(p, of.bare);
    p.when(BPF_JSET, 1, |p| {
        p.op(BPF_LDX | BPF_W | BPF_MEM, PAYLOAD);
        p.op(BPF_LD | BPF_H | BPF_IND, 2);
        p.jump(BPF_JEQ, 0, 1, 0);
        data.push(p.open());
        others.push(p.open());
    });
    bit_of_command(p, of.sized);
    p.when(BPF_JSET, 1, |p| {
        p.op(BPF_LDX | BPF_W | BPF_MEM, PAYLOAD);
        p.op(BPF_LD | BPF_H | BPF_IND, 2);
        p.jump(BPF_JEQ, LONG, 0, 1);
        others.push(p.open());
        p.jump(BPF_JSET, 7, 1, 0);
        others.push(p.open());
    });
    data.iter().for_each(|&at| p.land_one(at));
    end(p);
    p.op(BPF_LD | BPF_W | BPF_MEM, PAYLOAD);
    p.op(BPF_ALU | BPF_ADD | BPF_K, SHOWN);
    p.op(BPF_RET | BPF_A, 0);
    others.iter().for_each(|&at| p.land_one(at));
    p.op(BPF_LDX | BPF_W | BPF_MEM, PAYLOAD);
}

/// Leaves out what is not kept of a put at the end of a segment.
pub fn requests(p: &mut Program, depth: usize) {
    if depth == 0 {
        return;
    }
    continuation(p, BULK_REQUEST, &OF_CLIENTS, |p| {
        for size in SMALL_PUTS {
            // command and size of a put that ends here
            p.before_end(HEADER as u32 + size);
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
