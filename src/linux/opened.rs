//! A mapped file, opened once: its identity, its bytes, and a path that nobody can redirect.
//!
//! A name can lead to another file each time, and an inode can get other content. So a file that a process has mapped
//! is opened through its mapping, once, and compared with the mapping. Symbols, bytes and constants are read through
//! that descriptor, and probes are placed through it. Device files are never opened, since opening one may have
//! effects.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::linux::process::{self, FileId, Mapping};
use crate::linux::reader::file::{About, Handle};

/// The identity of a file and its content: two contents of one inode differ in the change time, which nobody can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    device: u64,
    inode: u64,
    /// Bytes.
    size: u64,
    /// Time of the last change of the content: seconds and nanoseconds after 1970, as all times here.
    modified: (i64, i64),
    /// Time of the last change of content or attributes.
    changed: (i64, i64),
}

impl Identity {
    fn of(found: About) -> io::Result<Identity> {
        if found.mode & u64::from(libc::S_IFMT) != u64::from(libc::S_IFREG) {
            return Err(io::Error::other("not a regular file"));
        }
        let About { device, inode, size, modified, changed, .. } = found;
        Ok(Identity { device, inode, size, modified, changed })
    }
}

/// A file whose descriptor names it but cannot read it (O_PATH): no driver or file server was asked to open it.
#[derive(Debug)]
pub struct Named {
    handle: Arc<Handle>,
    /// Its identity.
    pub identity: Identity,
}

/// A regular file that can be read.
#[derive(Debug)]
pub struct Opened {
    handle: Arc<Handle>,
    /// Its identity when it was opened.
    pub identity: Identity,
    /// When it was made, seconds; 0 if unknown.
    born: i64,
}

impl Named {
    /// The file of a process's mapping.
    ///
    /// # Errors
    /// The file can't be named, or is not a regular file.
    pub fn mapped(pid: u32, mapping: &Mapping) -> io::Result<Named> {
        Named::at(&mapping.open_path(pid))
    }

    fn at(path: &Path) -> io::Result<Named> {
        let (handle, about) = Handle::name(path)?;
        Ok(Named { identity: Identity::of(about)?, handle: Arc::new(handle) })
    }

    /// Opens the file.
    ///
    /// # Errors
    /// The file may not be read, or has been changed meanwhile.
    pub fn open(&self) -> io::Result<Opened> {
        let found = self.handle.open()?;
        let (identity, born) = (Identity::of(found)?, found.born);
        if identity != self.identity {
            return Err(io::Error::other("the file is being changed"));
        }
        Ok(Opened { handle: self.handle.clone(), identity, born })
    }
}

impl Opened {
    /// The file that a name leads to now.
    ///
    /// # Errors
    /// The file does not exist, may not be read, or is not a regular file.
    pub fn named(path: &Path) -> io::Result<Opened> {
        Named::at(path)?.open()
    }

    /// Whether it may have had another content within this time, or in the future (if the clock was set). Not if all of it was
    /// written when it was made, as by a compiler or a package manager, which put a new file in place of an old one.
    pub fn had_other_content(&self, within: Duration) -> bool {
        /// Seconds for which a compiler or a linker may write.
        const WRITING: i64 = 20;
        let changed = self.identity.changed.0;
        if self.born != 0 && (0..=WRITING).contains(&changed.saturating_sub(self.born)) {
            return false;
        }
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let age = i64::try_from(now.as_secs()).unwrap_or(i64::MAX).saturating_sub(changed);
        age < i64::try_from(within.as_secs()).unwrap_or(i64::MAX)
    }

    /// The file, for placing probes in it.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// A path that leads to this very file in this process, whatever becomes of its name.
    pub fn path(&self) -> PathBuf {
        self.handle.path()
    }

    /// Fills the head of `into` with the file's bytes from `offset` on; returns the number of bytes: 0 at the end of
    /// the file or if it can't be read.
    pub fn read_some(&self, into: &mut [u8], offset: u64) -> usize {
        let mut have = 0;
        while let Some(left) = into.get_mut(have..).filter(|left| !left.is_empty()) {
            match self.handle.read_at(left, offset.saturating_add(have as u64)) {
                Ok(0) => break,
                Ok(more) => have += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        have
    }

    /// Whether this is the file of a mapping, as the kernel shows that file in /proc/PID/maps.
    ///
    /// Some file systems (overlay, btrfs) give stat() other numbers than /proc/PID/maps. If they differ, this process
    /// maps the file too and compares the lines.
    pub fn is_of(&self, mapping: &Mapping) -> bool {
        let device = self.identity.device;
        let device = u64::from(libc::major(device)) << 32 | u64::from(libc::minor(device));
        mapping.file == (device, self.identity.inode) || self.shown_as() == Some(mapping.file)
    }

    /// The file as the kernel shows it if mapped.
    fn shown_as(&self) -> Option<FileId> {
        let line = self.handle.mapped_line()?;
        Some(process::mapping(&line)?.file)
    }

    /// Whether the file still has the content that it had when it was opened.
    pub fn is_unchanged(&self) -> bool {
        self.handle.about().and_then(Identity::of).is_ok_and(|identity| identity == self.identity)
    }
}

/// Whether a process still has this mapping. (It may have mapped another file there meanwhile.)
pub fn is_still_mapped(pid: u32, mapping: &Mapping) -> bool {
    process::mappings(pid).is_ok_and(|mappings| mappings.contains(mapping))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_file_whatever_becomes_of_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("library");
        std::fs::write(&path, b"one").unwrap();
        let opened = Opened::named(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, b"two").unwrap();
        let mut bytes = [0; 8];
        assert_eq!((opened.read_some(&mut bytes, 0), &bytes[..3]), (3, &b"one"[..]));
        assert_eq!(opened.read_some(&mut bytes, 3), 0);
        assert_eq!(std::fs::read(opened.path()).unwrap(), b"one");
        assert_ne!(Opened::named(&path).unwrap().identity, opened.identity);
    }

    #[test]
    fn the_file_of_a_mapping() {
        let maps = process::mappings(std::process::id()).unwrap();
        let address = the_file_of_a_mapping as *const () as usize as u64;
        let own = maps.iter().find(|mapping| (mapping.start..mapping.end).contains(&address)).unwrap();
        let opened = Named::mapped(std::process::id(), own).unwrap().open().unwrap();
        assert!(opened.is_of(own) && is_still_mapped(std::process::id(), own));
        assert_eq!(opened.shown_as(), Some(own.file), "where stat() gives other numbers");
        let other = Mapping { file: (own.file.0, own.file.1 + 1), ..own.clone() };
        assert!(!opened.is_of(&other) && !is_still_mapped(std::process::id(), &other));
        let moved = Mapping { offset: own.offset + 4096, ..own.clone() };
        assert!(!is_still_mapped(std::process::id(), &moved), "something else is there now");
    }

    #[test]
    fn another_content_is_seen() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"one").unwrap();
        let opened = Opened::named(file.path()).unwrap();
        assert!(opened.is_unchanged());
        // the file system's clock advances in steps
        while std::fs::metadata(file.path()).unwrap().ctime_nsec() == opened.identity.changed.1 {
            std::fs::write(file.path(), b"two").unwrap();
        }
        assert!(!opened.is_unchanged());
    }

    #[test]
    fn devices_and_pipes_are_not_opened() {
        for path in ["/dev/null", "/dev/tty", "/proc/self"] {
            assert!(Opened::named(Path::new(path)).is_err(), "{path}");
        }
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(Opened::named(&fifo).is_err(), "and does not wait for a writer");
    }
}
