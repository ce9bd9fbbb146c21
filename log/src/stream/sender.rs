//! Sends a log as it is written. It only reads files: it takes no lock, and while it waits for the pipe it has no file
//! open, so a segment that the recorder deletes meanwhile is gone from the disk at once.

use super::{Position, BYTES, END, FRAME_HEADER, GAP, IDLE, MAGIC, MAX_PAYLOAD, REPLACED, VERSION};
use crate::checksum::checksum;
use crate::format::{BlockHeader, BLOCK_HEADER, FIRST_BLOCK};
use crate::name::SegmentName;
use crate::storage::{names, open_directory, open_to_read};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Bytes that are sent in a frame, but for a block that is larger. A pipe holds as many.
const CHUNK: u64 = 64 << 10;

/// Sends the segments in a directory.
#[derive(Debug)]
pub struct Sender {
    path: PathBuf,
    /// Where to go on; `None`: at the oldest segment.
    at: Option<Position>,
    /// Device and inode of the directory; `None` before the first look at it.
    directory: Option<(u64, u64)>,
    /// The segments of the look before.
    known: Vec<SegmentName>,
    /// The segment was last written then.
    written: Option<SystemTime>,
    /// The frame, with room for its header.
    frame: Vec<u8>,
}

impl Sender {
    /// Sends what is in this directory from a position on.
    pub fn new(path: &Path, from: Option<Position>) -> Sender {
        let (path, known, frame) = (path.to_owned(), Vec::new(), Vec::new());
        Sender { path, at: from, directory: None, known, written: None, frame }
    }

    /// Sends the next piece. Returns false if there is nothing to send for now.
    ///
    /// # Errors
    /// The log can't be read, which the error says, or `out` takes nothing.
    pub fn step(&mut self, out: &mut dyn Write) -> io::Result<bool> {
        let directory = match open_directory(&self.path) {
            // the recorder makes it anew
            Err(error) if self.directory.is_some() && error.kind() == ErrorKind::NotFound => {
                return Ok(false);
            }
            other => other.map_err(|error| self.unreadable("", error))?,
        };
        let about = directory.metadata()?;
        let names = names(&directory).map_err(|error| self.unreadable("", error))?;
        let identity = (about.dev(), about.ino());
        let is_other = match self.directory.replace(identity) {
            Some(before) => before != identity,
            None => {
                let mut header = [0; super::HEADER];
                header[..8].copy_from_slice(&MAGIC);
                header[8..10].copy_from_slice(&VERSION.to_le_bytes());
                let sum = checksum(&header[..12]);
                header[12..].copy_from_slice(&sum.to_le_bytes());
                out.write_all(&header)?;
                // it has no segment as new as those before
                let is_old = |at: Position| names.iter().all(|name| name.order() < at.segment.order());
                !names.is_empty() && self.at.is_some_and(is_old)
            }
        };
        if is_other {
            self.at = None;
            self.known.clear();
            self.send(REPLACED, None, 0, out)?;
        }
        let Some(first) = names.first() else { return Ok(false) };
        let at = *self.at.get_or_insert(Position { segment: *first, offset: 0 });
        self.send_renamed(&names, out)?;
        let order = at.segment.order();
        let next = names.iter().copied().find(|name| name.order() > order);
        match names.iter().find(|name| name.order() == order) {
            Some(name) => self.send_next(&directory, *name, next, out),
            None => next.map_or(Ok(false), |next| self.send_gap(next, true, out)),
        }
    }

    /// Tells that everything that is there was sent, and that this is the end, or that more may come.
    ///
    /// # Errors
    /// `out` takes nothing.
    pub fn rest(&mut self, is_end: bool, out: &mut dyn Write) -> io::Result<()> {
        let since = self.written.and_then(|time| time.elapsed().ok()).unwrap_or_default();
        self.begin_frame();
        self.frame.extend((since.as_millis() as u64).to_le_bytes());
        self.send(
            if is_end { END } else { IDLE },
            self.at.map(|at| at.segment),
            self.at.map_or(0, |at| at.offset),
            out,
        )
    }

    /// Tells the names of segments that have been pinned since, or are no longer pinned.
    fn send_renamed(&mut self, names: &[SegmentName], out: &mut dyn Write) -> io::Result<()> {
        let known = std::mem::replace(&mut self.known, names.to_vec());
        for name in names {
            let is_it = |before: &SegmentName| before.order() == name.order() && before.pin != name.pin;
            if known.iter().any(is_it) {
                self.begin_frame();
                self.send(BYTES, Some(*name), 0, out)?;
            }
        }
        Ok(())
    }

    /// Sends the next bytes of a segment, or goes on to the next one.
    fn send_next(
        &mut self,
        directory: &File,
        name: SegmentName,
        next: Option<SegmentName>,
        out: &mut dyn Write,
    ) -> io::Result<bool> {
        let offset = self.at.map_or(0, |at| at.offset);
        self.begin_frame();
        let length = match self.read(directory, name, offset, next.is_some()) {
            Ok(length) => length,
            // deleted or renamed just now: the next look tells
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(self.unreadable(&name.to_string(), error)),
        };
        if length > 0 {
            self.send(BYTES, Some(name), offset, out)?;
            self.at = Some(Position { segment: name, offset: offset + length });
            return Ok(true);
        }
        next.map_or(Ok(false), |next| self.send_gap(next, false, out))
    }

    /// Reads whole blocks into the frame; of a segment that has a next one, and so is not written any more, also what is no
    /// block. Returns the number of bytes.
    fn read(&mut self, directory: &File, name: SegmentName, offset: u64, is_over: bool) -> io::Result<u64> {
        let mut file = open_to_read(directory, &name.to_string())?;
        let about = file.metadata()?;
        self.written = about.modified().ok();
        let left = about.len().saturating_sub(offset);
        file.seek(SeekFrom::Start(offset))?;
        (&mut file).take(left.min(CHUNK)).read_to_end(&mut self.frame)?;
        let bytes = self.frame.get(FRAME_HEADER..).unwrap_or_default();
        let (mut whole, mut next) = (0, if offset == 0 { Some(FIRST_BLOCK) } else { block(bytes) });
        while let Some(end) = next.filter(|end| *end <= bytes.len()) {
            whole = end;
            next = bytes.get(end..).and_then(block).map(|length| end + length);
        }
        if whole == 0 {
            match next {
                // one large block
                Some(length) if length as u64 <= left => {
                    let more = length.saturating_sub(bytes.len()) as u64;
                    file.take(more).read_to_end(&mut self.frame)?;
                    whole = length;
                }
                _ if is_over => whole = bytes.len(),
                _ => {}
            }
        }
        // fewer were read if it was cut meanwhile
        self.frame.truncate(FRAME_HEADER + whole);
        Ok((self.frame.len() - FRAME_HEADER) as u64)
    }

    /// Goes on at the segment `next`, and says if something before it is missing: segments, and, if `is_cut`, what the one
    /// before them may still have held.
    fn send_gap(&mut self, next: SegmentName, is_cut: bool, out: &mut dyn Write) -> io::Result<bool> {
        let at = self.at.replace(Position { segment: next, offset: 0 });
        if let Some(at) = at {
            let missing = next.order().1.saturating_sub(at.segment.order().1).saturating_sub(1);
            if missing > 0 || is_cut {
                self.begin_frame();
                self.frame.extend(missing.to_le_bytes());
                self.frame.push(is_cut.into());
                self.send(GAP, Some(at.segment), at.offset, out)?;
            }
        }
        Ok(true)
    }

    fn begin_frame(&mut self) {
        self.frame.clear();
        self.frame.resize(FRAME_HEADER, 0);
    }

    /// Sends the frame. Its name stands behind its payload.
    fn send(
        &mut self,
        kind: u16,
        name: Option<SegmentName>,
        offset: u64,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if self.frame.is_empty() {
            self.begin_frame();
        }
        let payload = (self.frame.len() - FRAME_HEADER).min(MAX_PAYLOAD);
        let name = name.map(|name| name.to_string()).unwrap_or_default();
        self.frame.extend(name.as_bytes());
        let mut header = Vec::with_capacity(FRAME_HEADER);
        header.extend(kind.to_le_bytes());
        header.extend((name.len() as u16).to_le_bytes());
        header.extend((payload as u32).to_le_bytes());
        header.extend(offset.to_le_bytes());
        header.extend(checksum(self.frame.get(FRAME_HEADER..).unwrap_or_default()).to_le_bytes());
        header.extend(checksum(&header).to_le_bytes());
        self.frame.splice(..FRAME_HEADER, header);
        out.write_all(&self.frame)?;
        self.frame.clear();
        Ok(())
    }

    fn unreadable(&self, name: &str, error: io::Error) -> io::Error {
        let path = self.path.join(name);
        io::Error::other(format!(
            "can't read {}: {error}; name the log that iocrec record writes",
            path.display()
        ))
    }
}

/// The length of the block that begins here, if its header is whole and sound.
fn block(bytes: &[u8]) -> Option<usize> {
    let header = BlockHeader::decode(bytes.first_chunk()?).ok().filter(BlockHeader::plausible)?;
    Some(BLOCK_HEADER + header.stored as usize)
}
