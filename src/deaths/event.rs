//! An event of the programs, checked.

use crate::bpf::shared::Shared;
use crate::deaths::contract::{Death, DeathKind, COMM_BYTES, STACK_BYTES};
use crate::linux::text::printable;

/// A signal was sent to a recorded process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The signal.
    pub signal: u16,
    /// `si_code`.
    pub code: i32,
    /// The process that sent it; 0: the kernel.
    pub sender: u32,
    /// The sender's real user.
    pub uid: u32,
    /// The sender's name.
    pub program: String,
    /// Signals that were not told since the last one that was.
    pub left_out: u64,
}

/// A signal was delivered that ends the process, or the fault of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// The signal.
    pub signal: u16,
    /// `si_code`.
    pub code: i32,
    /// The address that could not be accessed.
    pub address: Option<u64>,
    /// Whether a handler got it.
    pub handled: bool,
    /// The instruction at which the thread stood; 0 if unknown.
    pub ip: u64,
    /// Its stack pointer; 0 if unknown.
    pub sp: u64,
    /// Bytes from `sp` to the first byte of `stack`.
    pub from: u32,
    /// The part of the stack that was read.
    pub stack: Vec<u8>,
}

impl Delivered {
    /// Whether it is known where the thread stood; at 0 it may, after a call of nothing.
    pub fn has_place(&self) -> bool {
        self.ip != 0 || self.sp != 0
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// See [`Sent`].
    Sent(Sent),
    /// See [`Delivered`].
    Delivered(Delivered),
    /// The kernel has chosen the process to get memory back.
    OutOfMemory,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub time: u64,
    /// The recorded process.
    pub pid: u32,
    /// What happened to it.
    pub what: What,
}

/// Parses an event as the programs send it. `place_of` gives the address that the programs left under a key. `None` if it
/// is none of theirs.
pub fn parse(bytes: &[u8], place_of: impl FnOnce(u32) -> Option<u64>) -> Option<Event> {
    let death = Death::read(bytes)?;
    let what = match DeathKind::of(death.kind.into())? {
        DeathKind::Sent => What::Sent(Sent {
            signal: death.signal,
            code: death.code.cast_signed(),
            sender: death.sender,
            uid: death.uid,
            program: name(&death.comm),
            left_out: death.left_out,
        }),
        DeathKind::Delivered => {
            let stack = bytes.get(size_of::<Death>()..).unwrap_or_default();
            let stack = stack.get(..(death.bytes as usize).min(STACK_BYTES)).unwrap_or_default();
            // a gap larger than this is none of the programs'
            let from = u32::try_from(death.from.wrapping_sub(death.sp)).ok();
            let stack = if from.is_some() { stack.to_vec() } else { Vec::new() };
            What::Delivered(Delivered {
                tid: death.tid,
                name: name(&death.comm),
                signal: death.signal,
                code: death.code.cast_signed(),
                address: (death.addressed == 1).then_some(death.address),
                handled: death.handled == 1,
                ip: match death.is_key {
                    0 => death.ip,
                    _ => u32::try_from(death.ip).ok().and_then(place_of).unwrap_or(0),
                },
                sp: death.sp,
                from: from.filter(|_| !stack.is_empty()).unwrap_or(0),
                stack,
            })
        }
        DeathKind::Oom => What::OutOfMemory,
    };
    Some(Event { time: death.time, pid: death.pid, what })
}

fn name(comm: &[u8; COMM_BYTES]) -> String {
    printable(comm.split(|&byte| byte == 0).next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nowhere(_: u32) -> Option<u64> {
        None
    }

    fn death(kind: DeathKind) -> Death {
        let mut comm = [0; COMM_BYTES];
        comm[..5].copy_from_slice(b"cbLow");
        Death { time: 7, pid: 8, kind: kind as u8, signal: 11, code: 1, comm, ..Death::zeroed() }
    }

    #[test]
    fn a_crash_with_its_stack() {
        let given = Death {
            sp: 0x1000,
            from: 0x1000,
            bytes: 16,
            address: 0x1230,
            addressed: 1,
            ..death(DeathKind::Delivered)
        };
        let mut bytes = given.bytes().to_vec();
        bytes.extend([9; STACK_BYTES]);
        let Some(Event { time: 7, pid: 8, what: What::Delivered(found) }) = parse(&bytes, nowhere) else {
            panic!()
        };
        assert_eq!((found.name.as_str(), found.address, found.stack), ("cbLow", Some(0x1230), vec![9; 16]));
        let cut = parse(&bytes[..size_of::<Death>() + 8], nowhere).unwrap();
        assert!(
            matches!(cut.what, What::Delivered(found) if found.stack.is_empty()),
            "not all that it claims"
        );
    }

    #[test]
    fn a_place_under_a_key() {
        let given = Death { ip: 5, is_key: 1, ..death(DeathKind::Delivered) };
        let ip = |place: Option<u64>| {
            let found = parse(given.bytes(), |key| (key == 5).then_some(place).flatten());
            match found.unwrap().what {
                What::Delivered(found) => found.ip,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((ip(Some(0x7000)), ip(None)), (0x7000, 0), "no key is told as an address");
    }

    #[test]
    fn no_event() {
        assert_eq!(parse(&[0; 95], nowhere), None);
        assert_eq!(parse(&[0; 96], nowhere), None, "kind 0");
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 0..5u8, stack in any::<u32>()) {
            let mut bytes = bytes;
            if let Some(place) = bytes.get_mut(std::mem::offset_of!(Death, kind)) {
                *place = kind;
            }
            if let Some(place) = bytes.get_mut(std::mem::offset_of!(Death, bytes)..).and_then(|rest| rest.get_mut(..4)) {
                place.copy_from_slice(&(stack % 400).to_ne_bytes());
            }
            if let Some(Event { what: What::Delivered(found), .. }) = parse(&bytes, nowhere) {
                prop_assert!(found.stack.len() <= bytes.len() - size_of::<Death>());
            }
        }
    }
}
