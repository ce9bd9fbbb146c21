//! Receives a stream. It is untrusted: any bytes give frames or an error, in bounded memory, without a panic. A name is
//! one that a recorder gives to a segment, so it leads nowhere else.

use super::{
    SegmentName, BYTES, END, FRAME_HEADER, GAP, HEADER, IDLE, MAGIC, MAX_NAME, MAX_PAYLOAD, REPLACED, VERSION,
};
use crate::checksum::checksum;
use std::fmt;
use std::io::{self, ErrorKind, Read};

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Bytes of a segment; none if only its name has changed.
    Bytes {
        /// The segment, with its present pin.
        segment: SegmentName,
        /// Their offset in it.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Something was deleted before it could be sent.
    Gap {
        /// The last segment before it.
        segment: SegmentName,
        /// How far that one was sent.
        offset: u64,
        /// Number of whole segments that are missing.
        missing: u64,
        /// Whether that segment was deleted before its end was seen.
        is_cut: bool,
    },
    /// The directory is another one; what follows is a log of its own.
    Replaced,
    /// Everything that was there has come.
    Rest {
        /// Milliseconds since the last segment was written.
        idle: u64,
        /// Whether the stream ends here.
        is_end: bool,
    },
}

/// Why a stream can't be received any further.
#[derive(Debug)]
pub enum StreamError {
    /// It does not begin as one; its first bytes.
    NotAStream(Vec<u8>),
    /// It has another version.
    Newer(u16),
    /// Its header or a frame is damaged; what is wrong.
    Damaged(&'static str),
    /// A frame names something that is no segment; the name.
    NotASegment(Vec<u8>),
    /// It can't be read.
    Io(io::Error),
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamError::NotAStream(bytes) => write!(
                f,
                "standard input is no stream of iocrec cat: it begins with '{}'; pipe iocrec cat --dir DIR into it",
                bytes.escape_ascii()
            ),
            StreamError::Newer(version) => write!(
                f,
                "the stream has version {version}, and this iocreplay reads {VERSION}; use a newer iocreplay"
            ),
            StreamError::Damaged(what) => write!(
                f,
                "the stream is damaged: {what}; it must come through a connection that changes no byte (ssh without -t)"
            ),
            StreamError::NotASegment(name) => write!(
                f,
                "the stream names a file '{}', which is no segment; it does not come from iocrec cat",
                name.escape_ascii()
            ),
            StreamError::Io(error) => write!(f, "can't read standard input: {error}; run iocrec cat again"),
        }
    }
}

impl std::error::Error for StreamError {}

/// A stream that is being received.
#[derive(Debug)]
pub struct Incoming<R> {
    input: R,
    body: Vec<u8>,
}

impl<R: Read> Incoming<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// It is none. `None`: there is nothing at all.
    pub fn begin(mut input: R) -> Result<Option<Self>, StreamError> {
        let mut header = Vec::with_capacity(HEADER);
        (&mut input).take(HEADER as u64).read_to_end(&mut header).map_err(StreamError::Io)?;
        if header.is_empty() {
            return Ok(None);
        }
        let Some(header) = header.first_chunk::<HEADER>().filter(|header| header.starts_with(&MAGIC)) else {
            return Err(StreamError::NotAStream(header));
        };
        let [.., a, b, _, _, c, d, e, f] = *header; // version, two bytes to come, checksum
        if checksum(&header[..HEADER - 4]) != u32::from_le_bytes([c, d, e, f]) {
            return Err(StreamError::Damaged("the checksum of its header is wrong"));
        }
        match u16::from_le_bytes([a, b]) {
            VERSION => Ok(Some(Incoming { input, body: Vec::new() })),
            version => Err(StreamError::Newer(version)),
        }
    }

    /// The next frame. Frames of kinds that this version does not know are passed over. `None`: the stream was cut here.
    ///
    /// # Errors
    /// It is damaged, or can't be read.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, StreamError> {
        loop {
            let mut header = [0; FRAME_HEADER];
            if !self.fill(&mut header)? {
                return Ok(None);
            }
            let part = |from: usize| header.get(from..).unwrap_or_default();
            let number = |from: usize| part(from).first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
            let short = |from: usize| part(from).first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes));
            if checksum(&header[..FRAME_HEADER - 4]) != number(FRAME_HEADER - 4) {
                return Err(StreamError::Damaged("the checksum of a frame's header is wrong"));
            }
            let (kind, name, payload) = (short(0), usize::from(short(2)), number(4) as usize);
            if name > MAX_NAME || payload > MAX_PAYLOAD {
                return Err(StreamError::Damaged("a frame is longer than any can be"));
            }
            let offset = part(8).first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            let mut body = std::mem::take(&mut self.body);
            body.resize(payload + name, 0);
            let is_whole = self.fill(&mut body);
            self.body = body;
            if !is_whole? {
                return Ok(None);
            }
            if checksum(&self.body) != number(16) {
                return Err(StreamError::Damaged("the checksum of a frame is wrong"));
            }
            if (BYTES..=IDLE).contains(&kind) {
                return self.frame(kind, payload, offset).map(Some);
            }
        }
    }

    fn frame(&self, kind: u16, payload: usize, offset: u64) -> Result<Frame<'_>, StreamError> {
        let (bytes, name) = self.body.split_at_checked(payload).unwrap_or_default();
        let segment = || {
            let text = std::str::from_utf8(name).ok();
            text.and_then(SegmentName::parse).ok_or_else(|| StreamError::NotASegment(name.to_vec()))
        };
        let number = || {
            let bytes = bytes.first_chunk().ok_or(StreamError::Damaged("a frame is too short"))?;
            Ok(u64::from_le_bytes(*bytes))
        };
        Ok(match kind {
            GAP => {
                let is_cut = bytes.get(8).is_some_and(|cut| *cut != 0);
                Frame::Gap { segment: segment()?, offset, missing: number()?, is_cut }
            }
            REPLACED => Frame::Replaced,
            END | IDLE => Frame::Rest { idle: number()?, is_end: kind == END },
            _ => Frame::Bytes { segment: segment()?, offset, bytes },
        })
    }

    /// Fills the buffer. Returns false if the stream ends before.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<bool, StreamError> {
        match self.input.read_exact(buffer) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(StreamError::Io(error)),
        }
    }
}
