//! The bytes of a capture: from a file or a pipe, unpacked if they are packed, in a window that moves along.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use super::error::Problem;
use super::gzip::{self, Gzip, Unpacked};

/// Bytes asked of the system at a time.
const CHUNK: usize = 128 << 10;

/// Outcome of asking for more bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// There may be more.
    More,
    /// Nothing has come yet.
    Wait,
    /// There are no more.
    End,
}

/// See the module.
#[derive(Debug)]
pub struct Input {
    file: File,
    /// Bytes of a regular file; `None` for all else, which may have to be waited for.
    size: Option<u64>,
    /// Bytes read from the file.
    read: u64,
    /// The unpacker, if the data is packed; `None` in it until the first bytes have shown whether.
    gzip: Option<Option<Box<Gzip>>>,
    /// Packed bytes, from `packed_at` on.
    packed: Vec<u8>,
    packed_at: usize,
    /// Unpacked bytes, from `at` on.
    bytes: Vec<u8>,
    at: usize,
    /// Place of `at` in the unpacked data.
    position: u64,
    /// Whether the file has ended.
    over: bool,
}

impl Input {
    /// Opens a file; `-` is standard input.
    pub fn open(path: &str) -> io::Result<Input> {
        let file = match path {
            "-" => File::from(io::stdin().as_fd().try_clone_to_owned()?),
            // else a named pipe that nobody writes would hold us up, deaf to signals
            _ => File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?,
        };
        let about = file.metadata()?;
        if about.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(Input {
            file,
            size: about.is_file().then_some(about.len()),
            read: 0,
            gzip: None,
            packed: Vec::new(),
            packed_at: 0,
            bytes: Vec::new(),
            at: 0,
            position: 0,
            over: false,
        })
    }

    pub fn raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    pub fn is_pipe(&self) -> bool {
        self.size.is_none()
    }

    /// Bytes read, and the size of the file, if it has one.
    pub fn progress(&self) -> (u64, Option<u64>) {
        (self.read, self.size)
    }

    /// Place of the next byte in the unpacked data.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The bytes that are there.
    pub fn available(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Takes this number of bytes.
    pub fn take(&mut self, count: usize) -> &[u8] {
        let from = self.at;
        self.at = from.saturating_add(count).min(self.bytes.len());
        self.position += (self.at - from) as u64;
        self.bytes.get(from..self.at).unwrap_or_default()
    }

    /// Drops up to this number of bytes; returns how many there were.
    pub fn skip(&mut self, count: u64) -> u64 {
        self.take(usize::try_from(count).unwrap_or(usize::MAX)).len() as u64
    }

    /// Whether the data is packed.
    pub fn is_packed(&self) -> bool {
        matches!(self.gzip, Some(Some(_)))
    }

    /// Whether packed data ended before its end.
    pub fn is_cut(&self) -> bool {
        match &self.gzip {
            Some(Some(gzip)) => {
                self.over && (!gzip.is_between_members() || self.packed_at < self.packed.len())
            }
            _ => false,
        }
    }

    /// Gets more bytes; `wanted` in all would do.
    pub fn fill(&mut self, wanted: usize) -> Result<Fill, Problem> {
        if self.available().len() >= wanted {
            return Ok(Fill::More);
        }
        self.bytes.drain(..self.at);
        self.at = 0;
        let outcome = match &self.gzip {
            Some(Some(_)) => self.unpack(),
            _ => self.fill_plain(),
        };
        outcome.map_err(|error| Problem::Read { at: self.position + self.bytes.len() as u64, error })
    }

    fn fill_plain(&mut self) -> io::Result<Fill> {
        let filled = read(&mut self.file, self.size.is_none(), &mut self.bytes, &mut self.read)?;
        if self.gzip.is_none() && self.bytes.len() >= gzip::MAGIC.len() {
            let is_packed = self.bytes.starts_with(&gzip::MAGIC);
            self.gzip = Some(is_packed.then(|| Box::new(Gzip::new())));
            if is_packed {
                std::mem::swap(&mut self.packed, &mut self.bytes);
            }
        }
        self.over |= filled == Fill::End;
        Ok(filled)
    }

    fn unpack(&mut self) -> io::Result<Fill> {
        let Some(Some(gzip)) = &mut self.gzip else { return Ok(Fill::End) };
        let have = self.bytes.len();
        self.bytes.resize(have + CHUNK, 0);
        let (mut given, mut has_read) = (0, false);
        let mut outcome = Ok(Fill::More);
        loop {
            let packed = self.packed.get(self.packed_at..).unwrap_or_default();
            let out = self.bytes.get_mut(have + given..).unwrap_or_default();
            match gzip.unpack(packed, out) {
                // what came before the damage is still of use
                Err(error) if given == 0 => outcome = Err(error),
                // there may be no end of data that unpacks to nothing
                Ok(Unpacked { taken: 0, given: 0 }) if given == 0 && has_read => {}
                Ok(Unpacked { taken: 0, given: 0 }) if given == 0 => {
                    has_read = true;
                    self.packed.drain(..self.packed_at);
                    self.packed_at = 0;
                    match read(&mut self.file, self.size.is_none(), &mut self.packed, &mut self.read) {
                        Ok(Fill::More) => continue,
                        other => {
                            self.over |= matches!(other, Ok(Fill::End));
                            outcome = other;
                        }
                    }
                }
                Err(_) | Ok(Unpacked { taken: 0, given: 0 }) => {}
                Ok(unpacked) => {
                    self.packed_at += unpacked.taken;
                    given += unpacked.given;
                    if given < CHUNK {
                        continue;
                    }
                }
            }
            break;
        }
        self.bytes.truncate(have + given);
        outcome
    }
}

/// Appends what can be read without waiting.
fn read(file: &mut File, may_wait: bool, to: &mut Vec<u8>, count: &mut u64) -> io::Result<Fill> {
    if may_wait {
        let mut polled = [PollFd::new(file.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, PollTimeout::ZERO) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => return Ok(Fill::Wait),
            Ok(_) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    let have = to.len();
    to.resize(have + CHUNK, 0);
    let read = file.read(to.get_mut(have..).unwrap_or_default());
    to.truncate(have + read.as_ref().copied().unwrap_or(0));
    match read {
        Ok(0) => Ok(Fill::End),
        Ok(bytes) => {
            *count += bytes as u64;
            Ok(Fill::More)
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {
            Ok(Fill::Wait)
        }
        Err(error) => Err(error),
    }
}
