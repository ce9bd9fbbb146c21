//! The system call in which a thread stands, as /proc/PID/task/TID/syscall tells it.
//!
//! The numbers are those of the architecture that the process was built for, which may be another than the recorder's:
//! i386 on x86_64, 32-bit ARM on arm64.

use object::Architecture;

use iocrec_log::event::Wait;

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It runs, or could.
    Running,
    /// It stands somewhere else than in a system call: it is stopped, or waits for a page.
    Elsewhere {
        /// Its stack pointer.
        sp: u64,
    },
    /// In a system call.
    Call(Call),
}

/// A system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number.
    pub number: u32,
    /// Its arguments.
    pub arguments: [u64; 6],
    /// The thread's stack pointer.
    pub sp: u64,
}

impl Place {
    /// Parses the text: `running`, `-1 sp pc`, or `number`, six arguments, sp, pc in hexadecimal (proc(5)).
    pub fn of(text: &str) -> Option<Place> {
        let mut words = text.split_ascii_whitespace();
        let first = words.next()?;
        if first == "running" {
            return Some(Place::Running);
        }
        let mut hex = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        if first == "-1" {
            return Some(Place::Elsewhere { sp: hex()? });
        }
        let number = first.parse().ok()?;
        let mut arguments = [0; 6];
        for argument in &mut arguments {
            *argument = hex()?;
        }
        Some(Place::Call(Call { number, arguments, sp: hex()? }))
    }

    /// The stack pointer, if it is known.
    pub fn sp(self) -> Option<u64> {
        match self {
            Place::Running => None,
            Place::Elsewhere { sp } | Place::Call(Call { sp, .. }) => Some(sp),
        }
    }
}

/// A kind of system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// futex: a mutex, or an event.
    Futex,
    /// poll, whose first argument is a list of descriptors.
    Poll,
    /// One on the descriptor that is its first argument.
    Descriptor(Wait),
    /// Another.
    Other(Wait),
}

/// The numbers of one architecture, by kind: futex; sleep; poll; select and epoll; receive; send; read; write; sync;
/// connect and accept.
type Numbers = [&'static [u32]; 10];

// From asm/unistd.h of each architecture. Those from 403 on are the same everywhere.
const X86_64: Numbers = [
    &[202, 449],
    &[35, 230],
    &[7, 271],
    &[23, 270, 232, 281, 441],
    &[45, 47, 299],
    &[44, 46, 307],
    &[0, 17, 19, 295],
    &[1, 18, 20, 296],
    &[74, 75, 162, 306],
    &[42, 43, 288],
];
const I386: Numbers = [
    &[240, 422, 449],
    &[162, 267, 407],
    &[168, 309, 414],
    &[82, 142, 308, 413, 256, 319, 441],
    &[371, 372, 337, 417],
    &[369, 370, 345],
    &[3, 145, 180, 333],
    &[4, 146, 181, 334],
    &[118, 148, 36, 344],
    &[362, 364],
];
const ARM: Numbers = [
    &[240, 422, 449],
    &[162, 265, 407],
    &[168, 336, 414],
    &[142, 335, 413, 252, 346, 441],
    &[291, 292, 297, 365, 417],
    &[289, 290, 296, 374],
    &[3, 145, 180, 361],
    &[4, 146, 181, 362],
    &[118, 148, 36, 373],
    &[283, 285, 366],
];
/// arm64 and RISC-V: asm-generic/unistd.h.
const GENERIC: Numbers = [
    &[98, 422, 449],
    &[101, 115, 407],
    &[73, 414],
    &[72, 413, 22, 441],
    &[207, 212, 243, 417],
    &[206, 211, 269],
    &[63, 65, 67, 69],
    &[64, 66, 68, 70],
    &[82, 83, 81, 267],
    &[203, 202, 242],
];

impl Call {
    /// Its kind, in a process of this architecture.
    pub fn kind(&self, machine: Architecture) -> Kind {
        let numbers: &Numbers = match machine {
            Architecture::X86_64 => &X86_64,
            Architecture::I386 => &I386,
            Architecture::Arm => &ARM,
            Architecture::Aarch64 | Architecture::Riscv64 => &GENERIC,
            _ => return Kind::Other(Wait::Unknown),
        };
        let kinds = [
            Kind::Futex,
            Kind::Other(Wait::Sleep),
            Kind::Poll,
            Kind::Other(Wait::Poll),
            Kind::Descriptor(Wait::Receive),
            Kind::Descriptor(Wait::Send),
            Kind::Descriptor(Wait::Read),
            Kind::Descriptor(Wait::Write),
            Kind::Descriptor(Wait::Sync),
            Kind::Descriptor(Wait::Connect),
        ];
        let mut found = numbers.iter().zip(kinds).filter(|(numbers, _)| numbers.contains(&self.number));
        found.next().map_or(Kind::Other(Wait::Unknown), |(_, kind)| kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn places() {
        assert_eq!(Place::of("running\n"), Some(Place::Running));
        assert_eq!(Place::of("-1 0x7ffd 0x55\n"), Some(Place::Elsewhere { sp: 0x7ffd }));
        let text = "202 0x7f00 0x86 0x2 0x0 0x0 0xffffffff 0x7ffc10 0x7f11\n";
        let Some(Place::Call(call)) = Place::of(text) else { panic!() };
        assert_eq!(
            (call.number, call.arguments[0], call.arguments[1], call.sp),
            (202, 0x7f00, 0x86, 0x7ffc10)
        );
        assert_eq!(call.kind(Architecture::X86_64), Kind::Futex);
        assert_eq!(call.kind(Architecture::Aarch64), Kind::Descriptor(Wait::Connect), "accept is 202 there");
        for wrong in ["", "202", "202 0x1", "-1", "x 0x1 0x1", "-2 0x1 0x1", "1 2 3 4 5 6 7 8 9"] {
            assert_eq!(Place::of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn numbers_of_this_machine() {
        let kind = |number: libc::c_long| {
            let call = Call { number: number as u32, arguments: [0; 6], sp: 0 };
            call.kind(crate::linux::machine::architecture().unwrap())
        };
        assert_eq!(kind(libc::SYS_futex), Kind::Futex);
        assert_eq!(kind(libc::SYS_clock_nanosleep), Kind::Other(Wait::Sleep));
        assert_eq!(kind(libc::SYS_ppoll), Kind::Poll);
        assert_eq!(kind(libc::SYS_epoll_pwait), Kind::Other(Wait::Poll));
        assert_eq!(kind(libc::SYS_recvfrom), Kind::Descriptor(Wait::Receive));
        assert_eq!(kind(libc::SYS_sendto), Kind::Descriptor(Wait::Send));
        assert_eq!(kind(libc::SYS_read), Kind::Descriptor(Wait::Read));
        assert_eq!(kind(libc::SYS_write), Kind::Descriptor(Wait::Write));
        assert_eq!(kind(libc::SYS_fsync), Kind::Descriptor(Wait::Sync));
        assert_eq!(kind(libc::SYS_connect), Kind::Descriptor(Wait::Connect));
        assert_eq!(kind(libc::SYS_restart_syscall), Kind::Other(Wait::Unknown));
    }

    proptest! {
        #[test]
        fn any_text(text in "\\PC{0,200}", number in any::<u32>()) {
            let _ = Place::of(&text);
            let call = Call { number, arguments: [0; 6], sp: 0 };
            for machine in [Architecture::X86_64, Architecture::I386, Architecture::Arm, Architecture::Unknown] {
                call.kind(machine);
            }
        }
    }
}
