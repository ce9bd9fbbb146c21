//! What IOCs do with files, sockets and devices.
//!
//! An [`IoFile`] is one open of a file, or a socket; an [`IoUse`] says by how much its counters have changed. Counters are
//! numbered words: [`KIND_WORDS`] for each [`CallKind`], then those of the file as a whole. So the recorder needs to know
//! none of them but what it reads in /proc, and numbers behind the last can be added.

use super::ids::*;
use super::life::{allocated, owned_by_ioc, Ended, OwnedBy, Whole};
use serde::{Deserialize, Serialize};

/// Number of words.
pub const WORDS: usize = 242;
/// Words of each kind of call.
pub const KIND_WORDS: usize = 32;

/// Kinds of calls; the first word of each is `KIND_WORDS` times its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// Reading and receiving.
    Read = 0,
    /// Writing and sending.
    Write = 1,
    /// fsync, fdatasync.
    Sync = 2,
    /// poll, epoll, accept: waiting for others.
    Wait = 3,
    /// All else: open, close, seek, stat, dup, connect.
    Meta = 4,
}

impl CallKind {
    /// All kinds, in order.
    pub const ALL: [CallKind; 5] =
        [CallKind::Read, CallKind::Write, CallKind::Sync, CallKind::Wait, CallKind::Meta];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            CallKind::Read => "read",
            CallKind::Write => "write",
            CallKind::Sync => "sync",
            CallKind::Wait => "wait",
            CallKind::Meta => "meta",
        }
    }
}

/// The words of a kind, counted from its first, and those of a file.
pub mod word {
    /// Calls that have ended.
    pub const CALLS: usize = 0;
    /// Of these, failed ones.
    pub const ERRORS: usize = 1;
    /// Bytes read or written.
    pub const BYTES: usize = 2;
    /// Time in them, nanoseconds.
    pub const TIME: usize = 3;
    /// Calls that have begun; of a file that was found by a call, that call counts here when it ends.
    pub const BEGUN: usize = 4;
    /// Calls by their time: below 1024 ns, then up to twice that of the one before; the last has no end.
    pub const HISTOGRAM: usize = 5;
    /// Number of these.
    pub const BUCKETS: usize = 24;
    /// Longest time, nanoseconds. Here begin the words of a kind that are no sums.
    pub const LONGEST: usize = 29;
    /// Begin of the first call, CLOCK_MONOTONIC in nanoseconds.
    pub const FIRST: usize = 30;
    /// End of the last.
    pub const LAST: usize = 31;

    /// Reads by size, then writes: up to 100, 1 Ki, 10 Ki, 100 Ki, 1 Mi, 4 Mi, 10 Mi, 100 Mi, 1 Gi bytes, and more.
    pub const SIZES: usize = 160;
    /// Number of these for each.
    pub const BINS: usize = 10;
    /// Reads, then writes, that began right behind the one before.
    pub const CONSECUTIVE: usize = 180;
    /// Reads, then writes, that began behind the one before.
    pub const SEQUENTIAL: usize = 182;
    /// Changes between reading and writing.
    pub const SWITCHES: usize = 184;
    /// Accesses whose memory was not aligned to 8 bytes.
    pub const MEMORY_NOT_ALIGNED: usize = 185;
    /// Accesses whose offset was not aligned to 4096 bytes.
    pub const FILE_NOT_ALIGNED: usize = 186;
    /// Successful opens.
    pub const OPENS: usize = 187;
    /// Descriptors made from others.
    pub const DUPLICATES: usize = 188;
    /// Successful seeks.
    pub const SEEKS: usize = 189;
    /// Successful stats.
    pub const STATS: usize = 190;
    /// Successful calls of fsync.
    pub const FSYNCS: usize = 191;
    /// Successful calls of fdatasync.
    pub const FDATASYNCS: usize = 192;
    /// It was given another name.
    pub const RENAMED_FROM: usize = 193;
    /// A file was given its name.
    pub const RENAMED_TO: usize = 194;
    /// Accesses of each of the first sizes that were seen; behind them, of all others.
    pub const ACCESSES: usize = 195;
    /// Number of these sizes, and of strides.
    pub const SLOTS: usize = 8;
    /// Accesses by stride, likewise.
    pub const STRIDES: usize = 204;
    /// Polls that ended since their time was over.
    pub const TIMEOUTS: usize = 213;
    /// Accesses through several buffers in one call, whose alignment is not looked at.
    pub const VECTORS: usize = 214;
    /// Of the others: opens of files for which there was no room.
    pub const LEFT_OUT: usize = 215;
    /// Of a process: bytes read from disks.
    pub const DISK_READ: usize = 216;
    /// Of a process: bytes to be written to disks.
    pub const DISK_WRITTEN: usize = 217;
    /// Highest offset read, then written. Here begin the words of a file that are no sums.
    pub const HIGHEST: usize = 218;
    /// Bytes of the longest read, then write.
    pub const LONGEST_BYTES: usize = 220;
    /// When open returned, CLOCK_MONOTONIC in nanoseconds.
    pub const OPEN_END: usize = 222;
    /// When close was called.
    pub const CLOSE_START: usize = 223;
    /// When it returned.
    pub const CLOSE_END: usize = 224;
    /// errno of the last call that failed.
    pub const ERROR: usize = 225;
    /// Sizes of `ACCESSES`.
    pub const ACCESS_SIZES: usize = 226;
    /// Strides of `STRIDES`.
    pub const STRIDE_SIZES: usize = 234;
}

/// Whether a word is a sum: an [`IoUse`] has by how much it has grown. Of another it has the value.
pub fn is_sum(word: usize) -> bool {
    if word < CallKind::ALL.len() * KIND_WORDS {
        word % KIND_WORDS < word::LONGEST
    } else {
        word < word::HIGHEST
    }
}

/// How a file is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileHow {
    /// All for which there was no room.
    Others,
    /// It was seen to be opened.
    Opened,
    /// It could not be opened or renamed.
    Failed,
    /// It was renamed, or looked at, by its name.
    Named,
    /// A socket was made.
    Socket,
    /// A connection was accepted.
    Accepted,
    /// It was open already, or came by a call that isn't followed.
    Found,
    /// Not a file, but all that a process did, by /proc/PID/io; the name says why there is no more.
    Process,
}

/// One open of a file, or a socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoFile {
    /// Its number.
    pub id: u32,
    /// The IOC.
    pub ioc: IocId,
    /// How it is known.
    pub how: FileHow,
    /// When the call began that opened it, or the first that was seen, CLOCK_MONOTONIC in nanoseconds. That of the new
    /// name of a renamed file is one behind that of the old.
    pub since: u64,
    /// Its first descriptor; `None` if it has none.
    pub descriptor: Option<u32>,
    /// Flags of open; of a socket its family.
    pub flags: u32,
    /// Mode given to open; of a socket its type.
    pub mode: u32,
    /// Its name as the IOC gave it, or if it was found as /proc has it; of a socket the peer's `struct sockaddr`. Empty if
    /// unknown.
    pub name: Vec<u8>,
    /// Whether the name is longer.
    pub is_cut: bool,
    /// Whether its offset is not known, from the beginning or from some access on.
    pub is_unplaced: bool,
}

impl Whole for IoFile {
    owned_by_ioc!();

    fn heap(&self) -> usize {
        allocated(self.name.len())
    }

    fn ended_by(ended: Ended) -> Option<u32> {
        match ended {
            Ended::File(id) => Some(id),
            _ => None,
        }
    }
}

/// What changed of a file since the last, or since its beginning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoUse {
    /// Number of the [`IoFile`].
    pub file: u32,
    /// The words that changed.
    pub words: Vec<Word>,
}

/// A word that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Word {
    /// Its number.
    pub number: u16,
    /// By how much it has grown if it [is a sum](is_sum), else its value.
    pub value: u64,
}

/// A file has no descriptor any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoFileEnd {
    /// Number of the [`IoFile`].
    pub id: u32,
    /// When the last was closed; 0 if that was not seen.
    pub closed: u64,
}
