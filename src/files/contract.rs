//! The contract between the programs of bpf/files.bpf.c and the agent; the other side is bpf/files.h. See
//! [`crate::bpf::contract`] for its rules.

use iocrec_log::event::files::WORDS;

use crate::bpf::shared::{shared, shared_enum, Enum, Shared, Struct};

/// Name of the object.
pub const OBJECT: &str = "files";
/// Map of what system calls do: their number (u32) to an entry of [`Action`] and kind.
pub const TABLE: &str = "table";
/// Map of recorded processes: PID (u32) to [`Traced`].
pub const TRACED: &str = "traced";
/// Map of descriptors: PID in the upper half and descriptor (u64) to [`Descriptor`].
pub const DESCRIPTORS: &str = "descriptors";
/// Map of files: id (u64) to [`FileUse`].
pub const FILES: &str = "files";
/// Most bytes of a path.
pub const PATH_BYTES: usize = 512;

shared_enum! {
    /// Kind of a call.
    Kind as "call_kind" {
        /// Reading and receiving.
        Read as "CALL_READ" = 0,
        /// Writing and sending.
        Write as "CALL_WRITE" = 1,
        /// fsync, fdatasync.
        Sync as "CALL_SYNC" = 2,
        /// Waiting for others.
        Wait as "CALL_WAIT" = 3,
        /// All else.
        Meta as "CALL_META" = 4,
    }

    /// What a system call does.
    Action as "call_action" {
        /// Nothing but calls and time are counted.
        Count as "DOES_COUNT" = 1,
        /// Reads or writes at the offset.
        Move as "DOES_MOVE" = 2,
        /// Reads or writes at the offset of argument 4.
        At as "DOES_AT" = 3,
        /// Reads or writes at an offset that isn't known.
        Somewhere as "DOES_SOMEWHERE" = 4,
        /// Sends or receives.
        Send as "DOES_SEND" = 5,
        /// fsync.
        Fsync as "DOES_FSYNC" = 6,
        /// fdatasync.
        Fdatasync as "DOES_FDATASYNC" = 7,
        /// lseek.
        Seek as "DOES_SEEK" = 8,
        /// Seeks; the offset isn't known.
        SeekSomewhere as "DOES_SEEK_SOMEWHERE" = 9,
        /// fstat.
        Stat as "DOES_STAT" = 10,
        /// By a path, or an empty path and a descriptor.
        StatAt as "DOES_STAT_AT" = 11,
        /// stat, lstat.
        StatPath as "DOES_STAT_PATH" = 12,
        /// open, openat.
        Open as "DOES_OPEN" = 13,
        /// openat2.
        OpenHow as "DOES_OPEN_HOW" = 14,
        /// creat.
        Create as "DOES_CREATE" = 15,
        /// close.
        Close as "DOES_CLOSE" = 16,
        /// close_range.
        CloseRange as "DOES_CLOSE_RANGE" = 17,
        /// dup.
        Duplicate as "DOES_DUPLICATE" = 18,
        /// fcntl, which may duplicate.
        Fcntl as "DOES_FCNTL" = 19,
        /// rename.
        Rename as "DOES_RENAME" = 20,
        /// poll.
        Poll as "DOES_POLL" = 21,
        /// socket.
        Socket as "DOES_SOCKET" = 22,
        /// accept.
        Accept as "DOES_ACCEPT" = 23,
        /// connect.
        Connect as "DOES_CONNECT" = 24,
    }

    /// How a file is known.
    How as "file_how" {
        /// All for which there is no room.
        Others as "FILE_OTHERS" = 0,
        /// It was opened.
        Opened as "FILE_OPENED" = 1,
        /// It could not be opened or renamed.
        Failed as "FILE_FAILED" = 2,
        /// It was renamed, or looked at.
        Named as "FILE_NAMED" = 3,
        /// A socket was made.
        Socket as "FILE_SOCKET" = 4,
        /// A connection was accepted.
        Accepted as "FILE_ACCEPTED" = 5,
        /// It was open already, or came by a call that isn't followed.
        Found as "FILE_FOUND" = 6,
    }
}

shared! {
    /// `struct file`, the value of map `files`: what one open of a file was used for.
    FileUse {
        /// Counters: [`iocrec_log::event::files::word`].
        words: [u64; WORDS],
        /// When the call that made it began, CLOCK_MONOTONIC in nanoseconds; of the others the pid.
        id: u64,
        /// When its last descriptor was closed; 0: open.
        closed: u64,
        /// Number of its descriptors.
        refs: u64,
        /// Offset of the next byte.
        offset: u64,
        /// Last byte read, and written.
        last: [u64; 2],
        /// The process; 0: not ready.
        pid: u32,
        /// The first descriptor.
        fd: u32,
        /// Flags of open; of a socket its family.
        flags: u32,
        /// Mode of open; of a socket its type.
        mode: u32,
        /// [`How`].
        how: u32,
        /// Bytes of the path.
        path_bytes: u32,
        /// 1 if the path is longer.
        cut: u32,
        /// 1 if its offset isn't known.
        unplaced: u32,
        /// Kind of the last read or write, plus 1.
        before: u32,
        /// 0.
        unused: u32,
        /// The path, or `struct sockaddr` of the peer.
        path: [u8; PATH_BYTES],
    }

    /// `struct traced`, the value of map `traced`.
    Traced {
        /// 1 if its system calls are those of 32 bits.
        compat: u32,
        /// Calls of close_range so far.
        ranges: u32,
        /// Their first descriptor.
        first: u32,
        /// And the last.
        last: u32,
        /// Calls that were not counted.
        lost: u64,
    }

    /// `struct descriptor`, the value of map `descriptors`.
    Descriptor {
        /// Its file.
        id: u64,
        /// Calls of close_range of its process when it was made.
        ranges: u32,
        /// 0.
        unused: u32,
    }
}

/// All structs.
pub fn structs() -> [Struct; 3] {
    [FileUse::layout("file"), Traced::layout("traced"), Descriptor::layout("descriptor")]
}

/// All enums.
pub const ENUMS: [Enum; 3] = [Kind::ENUM, Action::ENUM, How::ENUM];
