//! A file that a process has mapped, held by a descriptor that only names it.
//!
//! The recorder must hold no descriptor by which such a file can be read: even closing one asks the file system and
//! waits for it. So this thread's reader process ([`super`]) reads the file; without one, a descriptor is opened for
//! each read.

use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use nix::sys::mman::{mmap, munmap, MapFlags, ProtFlags};

use crate::linux::proc::MAX_FILE;
pub use crate::linux::reader::shared::About;
pub use crate::linux::reader::shared::ATTRIBUTES;
use crate::linux::reader::shared::{Request, MAX_DATA};
use crate::linux::reader::thread::{
    has_reader, is_inspecting, pid_in, put_path, request, take_data, with_data,
};

/// A file. Cheap to keep: closing it does not involve the file system.
#[derive(Debug)]
pub struct Handle {
    /// Names the file (O_PATH).
    file: File,
    /// The key by which readers know it.
    key: u64,
}

fn by_descriptor(file: &File, process: &dyn std::fmt::Display) -> PathBuf {
    format!("/proc/{process}/fd/{}", file.as_raw_fd()).into()
}

fn about(data: &[u8]) -> About {
    let mut about = About::default();
    if data.len() >= size_of::<About>() {
        // SAFETY: there are enough bytes, any bytes are a valid About, and the read may be unaligned.
        about = unsafe { data.as_ptr().cast::<About>().read_unaligned() };
    }
    about
}

fn about_file(file: &File) -> io::Result<About> {
    let found = file.metadata()?;
    Ok(About {
        device: found.dev(),
        inode: found.ino(),
        size: found.size(),
        mode: found.mode().into(),
        modified: (found.mtime(), found.mtime_nsec()),
        changed: (found.ctime(), found.ctime_nsec()),
        born: found.created().map_or(0, seconds),
    })
}

fn seconds(time: SystemTime) -> i64 {
    let after = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(after.as_secs()).unwrap_or_default()
}

/// The line of the mapping that begins at an address.
fn line_at(maps: &[u8], address: usize) -> Option<String> {
    let text = String::from_utf8_lossy(maps);
    let begin = format!("{address:x}-");
    let mut lines = text.lines();
    lines.find(|line| line.trim_start_matches('0').starts_with(&begin)).map(str::to_string)
}

/// Reads a file of /proc at an offset; returns the number of bytes.
///
/// # Errors
/// The file can't be read, or not in time.
pub fn read_at(path: &Path, into: &mut [u8], offset: u64) -> io::Result<usize> {
    // for this read alone: no file has key 0
    let answer = request(pid_in(path), Request::Read, |buffer| {
        put_path(buffer, path);
        buffer.key = 0;
        buffer.offset = offset;
        buffer.length = into.len().min(MAX_DATA) as u64;
    });
    let Some(answer) = answer else { return File::open(path)?.read_at(into, offset) };
    let (have, _) = answer?;
    take_data(into, have);
    Ok(have)
}

impl Handle {
    /// The file that a path leads to now, and its attributes. No driver or file server is asked to open it.
    ///
    /// # Errors
    /// The file can't be named, or not in time.
    pub fn name(path: &Path) -> io::Result<(Handle, About)> {
        // old ARM processors have no 64-bit atomics; a reader remembers only its last file's key
        static KEYS: AtomicUsize = AtomicUsize::new(1);
        let key = KEYS.fetch_add(1, Ordering::Relaxed).max(1) as u64;
        match request(pid_in(path), Request::Name, |buffer| put_path(buffer, path)) {
            Some(answer) => {
                let (_, descriptor) = answer?;
                let file = File::from(descriptor.ok_or(io::ErrorKind::NotFound)?);
                Ok((Handle { file, key }, with_data(about)))
            }
            None => {
                let flags = libc::O_PATH | libc::O_CLOEXEC;
                let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
                let about = about_file(&file)?;
                Ok((Handle { file, key }, about))
            }
        }
    }

    /// The file's path for readers, which are other processes.
    fn path_for_readers(&self) -> PathBuf {
        by_descriptor(&self.file, &std::process::id())
    }

    /// A path that leads to this very file in this process, whatever becomes of its name.
    pub fn path(&self) -> PathBuf {
        by_descriptor(&self.file, &"self")
    }

    fn opened(&self) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK)
            .open(self.path())
    }

    /// Opens the file for reading; returns its attributes.
    ///
    /// # Errors
    /// The file may not be read, or not in time.
    pub fn open(&self) -> io::Result<About> {
        let path = self.path_for_readers();
        let answer = request(None, Request::Open, |buffer| {
            put_path(buffer, &path);
            buffer.key = self.key;
        });
        match answer {
            Some(answer) => answer.map(|_| with_data(about)),
            None => about_file(&self.opened()?),
        }
    }

    /// The file's current attributes.
    ///
    /// # Errors
    /// The file can't be named, or not in time.
    pub fn about(&self) -> io::Result<About> {
        let path = self.path_for_readers();
        match request(None, Request::Name, |buffer| put_path(buffer, &path)) {
            Some(answer) => answer.map(|_| with_data(about)),
            None => about_file(&self.file),
        }
    }

    /// Fills the head of `into` from an offset on; returns the number of bytes, 0 at the file's end.
    ///
    /// # Errors
    /// The file can't be read, or not in time.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        if !has_reader() {
            return self.opened()?.read_at(into, offset);
        }
        let path = self.path_for_readers();
        let answer = request(None, Request::Read, |buffer| {
            put_path(buffer, &path);
            buffer.key = self.key;
            buffer.offset = offset;
            buffer.length = into.len().min(MAX_DATA) as u64;
        });
        let (have, _) = answer.unwrap_or(Err(io::ErrorKind::Unsupported.into()))?;
        take_data(into, have);
        Ok(have)
    }

    /// The line of /proc/PID/maps for a mapping of this file; maps the file for a moment.
    pub fn mapped_line(&self) -> Option<String> {
        if !has_reader() {
            return self.mapped_here();
        }
        let path = self.path_for_readers();
        let mapped = request(None, Request::Map, |buffer| {
            put_path(buffer, &path);
            buffer.key = self.key;
            buffer.offset = 0;
        })?;
        let (address, _) = mapped.ok()?;
        let maps = crate::linux::reader::contents(Path::new("/proc/self/maps"), MAX_FILE)?;
        let _ = request(None, Request::Map, |buffer| buffer.offset = address as u64);
        line_at(&maps.ok()?, address)
    }

    /// The same in this process.
    fn mapped_here(&self) -> Option<String> {
        let page = NonZeroUsize::new(4096)?;
        let file = self.opened().ok()?;
        // SAFETY: a new mapping, placed by the kernel and never read.
        let at = unsafe { mmap(None, page, ProtFlags::PROT_NONE, MapFlags::MAP_PRIVATE, &file, 0) }.ok()?;
        let maps = std::fs::read("/proc/self/maps");
        // SAFETY: the mapping was just made, and nobody else knows of it.
        let _ = unsafe { munmap(at, page.get()) };
        line_at(&maps.ok()?, at.as_ptr() as usize)
    }

    /// Opens a perf event that is a probe in this file, for a thread of a process. `attributes`: a struct
    /// perf_event_attr, whose path is filled in. `None` on a thread that is not inspecting a process.
    ///
    /// # Errors
    /// The kernel refuses, or doesn't answer in time.
    pub fn event(&self, pid: u32, thread: i32, attributes: &[u8]) -> Option<io::Result<OwnedFd>> {
        if !is_inspecting() {
            return None;
        }
        let path = self.path_for_readers();
        let answer = request(Some(pid), Request::Event, |buffer| {
            put_path(buffer, &path);
            buffer.thread = thread;
            buffer.data.iter_mut().zip(attributes.iter().take(ATTRIBUTES)).for_each(|(to, from)| *to = *from);
        })?;
        // the event is there, but not the descriptor: this program may open no more
        let no_room = || io::Error::from_raw_os_error(libc::EMFILE);
        Some(answer.and_then(|(_, descriptor)| descriptor.ok_or_else(no_room)))
    }
}
