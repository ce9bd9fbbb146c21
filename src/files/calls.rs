//! Which system calls are followed, and what each does: numbers of this machine, and of 32-bit programs on it.
//!
//! Not followed: select, splice and its like, io_uring, asynchronous I/O, messages in bulk (recvmmsg), mmap, and what
//! makes descriptors otherwise (pipe, eventfd, memfd): these are found at their first use.

use crate::files::contract::Action::*;
use crate::files::contract::{Action, Kind};

/// A system call: number, kind, action, and which argument is a path and which the second.
type Call = (u16, Kind, Action, u16);

/// The path is the second argument.
const SECOND: u16 = 1;
/// There are two paths: the first and the second argument.
const BOTH: u16 = 1 << 2;
/// Likewise, the second and the fourth.
#[cfg(target_pointer_width = "64")]
const BOTH_AT: u16 = 1 | 3 << 2;
/// It has several buffers.
const VECTOR: u16 = 1 << 4;

/// What the programs are told of a call.
pub(super) fn entry(&(_, kind, action, more): &Call) -> u32 {
    kind as u32 | (action as u32) << 3 | u32::from(more) << 8
}

/// Calls of this machine, of all widths and ages.
#[cfg(target_pointer_width = "64")]
pub(super) const NATIVE: &[Call] = {
    macro_rules! calls {
        ($($name:ident $kind:ident $action:ident $more:expr;)*) => {
            &[$((libc::$name as u16, Kind::$kind, $action, $more)),*]
        };
    }
    macro_rules! with {
        ($($old:tt)*) => {
            calls! {
                $($old)*
                SYS_read Read Move 0;
                SYS_write Write Move 0;
                SYS_readv Read Move VECTOR;
                SYS_writev Write Move VECTOR;
                SYS_pread64 Read At 0;
                SYS_pwrite64 Write At 0;
                SYS_preadv Read At VECTOR;
                SYS_pwritev Write At VECTOR;
                SYS_preadv2 Read At VECTOR;
                SYS_pwritev2 Write At VECTOR;
                SYS_recvfrom Read Send 0;
                SYS_recvmsg Read Send 0;
                SYS_sendto Write Send 0;
                SYS_sendmsg Write Send 0;
                SYS_fsync Sync Fsync 0;
                SYS_fdatasync Sync Fdatasync 0;
                SYS_lseek Meta Seek 0;
                SYS_fstat Meta Stat 0;
                SYS_newfstatat Meta StatAt SECOND;
                SYS_statx Meta StatAt SECOND;
                SYS_openat Meta Open SECOND;
                SYS_openat2 Meta OpenHow SECOND;
                SYS_close Meta Close 0;
                SYS_close_range Meta CloseRange 0;
                SYS_dup Meta Duplicate 0;
                SYS_dup3 Meta Duplicate 0;
                SYS_fcntl Meta Fcntl 0;
                SYS_renameat2 Meta Rename BOTH_AT;
                SYS_ppoll Wait Poll 0;
                SYS_epoll_pwait Wait Count 0;
                SYS_socket Meta Socket 0;
                SYS_accept Wait Accept 0;
                SYS_accept4 Wait Accept 0;
                SYS_connect Meta Connect 0;
            }
        };
    }
    #[cfg(target_arch = "x86_64")]
    {
        with! {
            SYS_open Meta Open 0;
            SYS_creat Meta Create 0;
            SYS_stat Meta StatPath 0;
            SYS_lstat Meta StatPath 0;
            SYS_poll Wait Poll 0;
            SYS_epoll_wait Wait Count 0;
            SYS_dup2 Meta Duplicate 0;
            SYS_rename Meta Rename BOTH;
            SYS_renameat Meta Rename BOTH_AT;
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        with! { SYS_renameat Meta Rename BOTH_AT; }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        with! {}
    }
};
/// A 32-bit recorder has no programs for a 64-bit kernel.
#[cfg(not(target_pointer_width = "64"))]
pub(super) const NATIVE: &[Call] = &[];

/// Calls of 32-bit programs whose numbers are the same on x86 and ARM (arch/x86/entry/syscalls/syscall_32.tbl,
/// arch/arm64/include/asm/unistd32.h). Offsets of 64 bits are in two arguments, and are not followed.
pub(super) const COMPAT: &[Call] = &[
    (3, Kind::Read, Move, 0),
    (4, Kind::Write, Move, 0),
    (145, Kind::Read, Move, VECTOR),
    (146, Kind::Write, Move, VECTOR),
    (180, Kind::Read, Somewhere, 0),
    (181, Kind::Write, Somewhere, 0),
    (118, Kind::Sync, Fsync, 0),
    (148, Kind::Sync, Fdatasync, 0),
    (19, Kind::Meta, Seek, 0),
    (140, Kind::Meta, SeekSomewhere, 0),
    (5, Kind::Meta, Open, 0),
    (8, Kind::Meta, Create, 0),
    (437, Kind::Meta, OpenHow, SECOND),
    (6, Kind::Meta, Close, 0),
    (436, Kind::Meta, CloseRange, 0),
    (41, Kind::Meta, Duplicate, 0),
    (63, Kind::Meta, Duplicate, 0),
    (55, Kind::Meta, Fcntl, 0),
    (221, Kind::Meta, Fcntl, 0),
    (38, Kind::Meta, Rename, BOTH),
    (195, Kind::Meta, StatPath, 0),
    (196, Kind::Meta, StatPath, 0),
    (197, Kind::Meta, Stat, 0),
    (168, Kind::Wait, Poll, 0),
    (414, Kind::Wait, Poll, 0),
];

/// Those whose numbers differ.
#[cfg(target_arch = "x86_64")]
pub(super) const COMPAT_HERE: &[Call] = &[
    (295, Kind::Meta, Open, SECOND),
    (300, Kind::Meta, StatAt, SECOND),
    (383, Kind::Meta, StatAt, SECOND),
    (302, Kind::Meta, Rename, BOTH_AT),
    (353, Kind::Meta, Rename, BOTH_AT),
    (309, Kind::Wait, Poll, 0),
    (256, Kind::Wait, Count, 0),
    (330, Kind::Meta, Duplicate, 0),
    (359, Kind::Meta, Socket, 0),
    (362, Kind::Meta, Connect, 0),
    (364, Kind::Wait, Accept, 0),
    (369, Kind::Write, Send, 0),
    (370, Kind::Write, Send, 0),
    (371, Kind::Read, Send, 0),
    (372, Kind::Read, Send, 0),
];
/// Those whose numbers differ.
#[cfg(target_arch = "aarch64")]
pub(super) const COMPAT_HERE: &[Call] = &[
    (322, Kind::Meta, Open, SECOND),
    (327, Kind::Meta, StatAt, SECOND),
    (397, Kind::Meta, StatAt, SECOND),
    (329, Kind::Meta, Rename, BOTH_AT),
    (382, Kind::Meta, Rename, BOTH_AT),
    (336, Kind::Wait, Poll, 0),
    (252, Kind::Wait, Count, 0),
    (358, Kind::Meta, Duplicate, 0),
    (281, Kind::Meta, Socket, 0),
    (283, Kind::Meta, Connect, 0),
    (285, Kind::Wait, Accept, 0),
    (366, Kind::Wait, Accept, 0),
    (290, Kind::Write, Send, 0),
    (296, Kind::Write, Send, 0),
    (292, Kind::Read, Send, 0),
    (297, Kind::Read, Send, 0),
];
/// Other machines have no 32-bit programs.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) const COMPAT_HERE: &[Call] = &[];
