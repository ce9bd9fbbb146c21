//! Names of control sockets, and the users trusted at the other end of one.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{connect, getsockopt, socket, AddressFamily, SockFlag, SockType, UnixAddr};

use crate::directory;
use crate::linux::process;

/// The name of a directory's socket, and the id of the directory's owner.
pub(super) fn name_of(directory: &Path) -> io::Result<(String, u32)> {
    name(&fs::metadata(directory)?)
}

/// The same for its recorder. A link by which another user would make it answer for some other directory is an error.
pub(super) fn own_name(directory: &Path) -> io::Result<(String, u32)> {
    name(&File::from(directory::place(directory)?).metadata()?)
}

fn name(metadata: &Metadata) -> io::Result<(String, u32)> {
    if !metadata.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok((format!("iocrec/{:x}/{:x}", metadata.st_dev(), metadata.st_ino()), metadata.st_uid()))
}

/// Sockets of the same directory whose name was taken: its name with a number appended.
pub(super) fn other_names(name: &str) -> Vec<String> {
    let sockets = process::text("/proc/net/unix").unwrap_or_default();
    let found = sockets.lines().filter_map(|line| line.rsplit_once(" @")).map(|(_, found)| found);
    let mut names: Vec<String> = found
        .filter(|found| found.strip_prefix(name).is_some_and(|rest| rest.starts_with('/')))
        .map(str::to_owned)
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Connects without waiting.
pub(super) fn reach(name: &str) -> Result<UnixStream, Errno> {
    let kind = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket: OwnedFd = socket(AddressFamily::Unix, SockType::Stream, kind, None)?;
    connect(socket.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes())?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false).map_err(|_| Errno::EIO)?;
    Ok(stream)
}

pub(super) fn own_user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Whether the other end is run by root, by our own user, or by the user `also`.
pub(super) fn is_trusted(stream: &UnixStream, also: u32) -> bool {
    let user = getsockopt(stream, PeerCredentials).map(|peer| peer.uid());
    user.is_ok_and(|user| user == 0 || user == own_user() || user == also)
}
