//! The contract between the programs of bpf/death.bpf.c and the agent; the other side is bpf/deaths.h. See
//! [`crate::bpf::contract`] for its rules.

use crate::bpf::shared::{shared, shared_enum, Enum, Shared, Struct};

/// Name of the object.
pub const OBJECT: &str = "death";
/// Map of recorded processes: PID (u32) to [`Mortal`].
pub const MORTALS: &str = "mortals";
/// Map in which the perf tier's programs leave where a thread stood: the kernel's number of it (u32) to the address (u64).
pub const PLACES: &str = "places";
/// Buffer of events.
pub const DEATHS: &str = "deaths";

/// Most bytes of a stack in an event.
pub const STACK_BYTES: usize = 2048;
/// Bytes of a thread's name, with the NUL at its end.
pub const COMM_BYTES: usize = 16;

shared_enum! {
    /// Kind of an event.
    DeathKind as "death_kind" {
        /// A signal was sent to a recorded process.
        Sent as "DEATH_SENT" = 1,
        /// One that ends it with a core dump, or its own fault, was delivered.
        Delivered as "DEATH_DELIVERED" = 2,
        /// The kernel has chosen it to get memory back.
        Oom as "DEATH_OOM" = 3,
    }
}

shared! {
    /// `struct death`: an event, which a part of the stack may follow.
    Death {
        /// CLOCK_MONOTONIC, nanoseconds.
        time: u64,
        /// Delivered: `si_addr`, if `addressed`.
        address: u64,
        /// Delivered: the instruction at which the thread stood, or its key in map `places` if `is_key`; 0 if unknown.
        ip: u64,
        /// Delivered: its stack pointer; 0 if unknown.
        sp: u64,
        /// Delivered: address of the first byte of the stack that was read.
        from: u64,
        /// Sent: number of signals not told since the last one that was.
        left_out: u64,
        /// The recorded process.
        pid: u32,
        /// Delivered: its thread.
        tid: u32,
        /// Sent: the process that sent it; 0: the kernel.
        sender: u32,
        /// Sent: its real user.
        uid: u32,
        /// `si_code`, signed.
        code: u32,
        /// Delivered: bytes of the stack that follow.
        bytes: u32,
        /// The signal.
        signal: u16,
        /// [`DeathKind`].
        kind: u8,
        /// Delivered: 1 if a handler got it.
        handled: u8,
        /// 1 if `address` was read.
        addressed: u8,
        /// 1 if `ip` is a key.
        is_key: u8,
        /// 0.
        unused: [u8; 2],
        /// Name of the sender, or of the thread.
        comm: [u8; COMM_BYTES],
    }

    /// `struct mortal`, the value of map `mortals`: state of a recorded process, private to the programs.
    Mortal {
        /// Start of the second in which events are counted, CLOCK_MONOTONIC in nanoseconds.
        window: u64,
        /// Signals told in it: bit number - 1.
        seen: u64,
        /// Signals not told since the last one that was.
        left_out: u64,
        /// When a deadly one was delivered.
        dead: u64,
        /// When the last of its threads so far ended; 0 if none has.
        ended: u64,
        /// Signals told in the second.
        told: u32,
        /// Faults told in it that a handler got.
        faults: u32,
    }
}

/// All structs.
pub fn structs() -> [Struct; 2] {
    [Death::layout("death"), Mortal::layout("mortal")]
}

/// All enums.
pub const ENUMS: [Enum; 1] = [DeathKind::ENUM];
