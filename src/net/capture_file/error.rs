//! Why a capture file can't be read, or no further, with the remedy.

use std::fmt;
use std::io;

/// A problem with a file.
#[derive(Debug)]
pub struct FileError {
    /// The file's name.
    pub name: String,
    /// The problem.
    pub problem: Problem,
}

/// See the module. Places count bytes from the start of the data, unpacked if it is packed.
#[derive(Debug)]
pub enum Problem {
    /// It can't be opened.
    Open(io::Error),
    /// It can't be read further.
    Read {
        /// The place.
        at: u64,
        /// The reason.
        error: io::Error,
    },
    /// It has no bytes.
    Empty,
    /// It has no packets.
    NoPackets,
    /// It is no capture in a known format.
    Foreign(Foreign),
    /// A version of the format that is not known.
    Version {
        /// The first number.
        major: u16,
        /// The second number.
        minor: u16,
    },
    /// It ends within something.
    Cut {
        /// Where that begins.
        at: u64,
    },
    /// Something in it makes no sense.
    Damaged {
        /// Where it begins.
        at: u64,
        /// What it is.
        what: &'static str,
    },
}

/// What a file that is no capture looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// Packed by another program; this one unpacks it to standard output.
    Packed(&'static str),
    /// A capture in another format.
    OtherFormat,
    /// Unknown.
    Unknown,
}

/// First bytes of other files.
const KNOWN: [(&[u8], Foreign); 9] = [
    (b"\x28\xb5\x2f\xfd", Foreign::Packed("zstdcat")),
    (b"\xfd7zXZ", Foreign::Packed("xzcat")),
    (b"BZh", Foreign::Packed("bzcat")),
    (b"\x04\x22\x4d\x18", Foreign::Packed("lz4cat")),
    (b"PK\x03\x04", Foreign::Packed("unzip -p")),
    (b"snoop\0\0\0", Foreign::OtherFormat),
    (b"GMBU", Foreign::OtherFormat),
    // pcap with longer headers of packets, as patched kernels wrote it about 2000
    (b"\x34\xcd\xb2\xa1", Foreign::OtherFormat),
    (b"\xa1\xb2\xcd\x34", Foreign::OtherFormat),
];

impl Problem {
    /// The problem of a file that begins with these bytes.
    pub fn foreign(bytes: &[u8]) -> Problem {
        let known = KNOWN.iter().find(|(begin, _)| bytes.starts_with(begin));
        Problem::Foreign(known.map_or(Foreign::Unknown, |(_, foreign)| *foreign))
    }

    /// Something makes no sense, at a place that is still to be given.
    pub fn damaged(what: &'static str) -> Problem {
        Problem::Damaged { at: 0, what }
    }

    /// With the place.
    pub fn at(self, place: u64) -> Problem {
        match self {
            Problem::Damaged { what, .. } => Problem::Damaged { at: place, what },
            other => other,
        }
    }
}

impl FileError {
    /// The problem of a file.
    pub fn new(name: &str, problem: Problem) -> FileError {
        FileError { name: name.into(), problem }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.problem {
            Problem::Open(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                write!(f, "{name}: not allowed to read it: make it readable, or pass it through a pipe to --read -")
            }
            Problem::Open(error) if error.kind() == io::ErrorKind::IsADirectory => {
                write!(f, "{name} is a directory: name the capture files in it, each with --read")
            }
            Problem::Open(error) => write!(f, "{name}: {error}: name a capture that exists, or - for a pipe"),
            Problem::Read { at, error } => {
                write!(f, "{name} can't be read beyond byte {at}: {error}; what came before is kept: copy the file again")
            }
            Problem::Empty => {
                write!(f, "{name} is empty: check that the capturing program could write, and capture again")
            }
            Problem::NoPackets => write!(
                f,
                "{name} holds no packets: capture for longer, or with another filter (tcp port 5064)"
            ),
            Problem::Foreign(Foreign::Packed(unpack)) => {
                write!(f, "{name} is packed: unpack it with {unpack} and pass it to --read -")
            }
            Problem::Foreign(Foreign::OtherFormat) => {
                write!(f, "{name} is neither pcap nor pcapng: convert it with editcap -F pcapng (Wireshark)")
            }
            Problem::Foreign(Foreign::Unknown) => write!(
                f,
                "{name} is not a capture: it begins neither as pcap nor as pcapng; write one with tcpdump -w"
            ),
            Problem::Version { major, minor } => write!(
                f,
                "{name} has version {major}.{minor} of its format, which is unknown: convert it with editcap -F pcap (Wireshark)"
            ),
            Problem::Cut { at } => write!(
                f,
                "{name} is cut off in what begins at byte {at}; what came before is kept: copy the file again, or end the capturing program first"
            ),
            Problem::Damaged { at, what } => write!(
                f,
                "{name} is damaged at byte {at} ({what}); what came before is kept: copy the file again, or repair it with pcapfix"
            ),
        }
    }
}

impl std::error::Error for FileError {}
