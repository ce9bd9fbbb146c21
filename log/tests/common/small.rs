//! Small real file systems: in memory, and ext4 in an image file. Mounted in a mount namespace of the test's
//! thread, so they go with it. Needs root.

use super::not_run::{not_run, Needs};
use iocrec_log::storage::Reserve;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory on a small file system.
pub struct Small {
    /// Where it is mounted.
    pub path: PathBuf,
    /// The image that it is in, if it is.
    pub image: Option<PathBuf>,
    directory: tempfile::TempDir,
}

impl Small {
    /// So many KiB in memory. `None` if this can't be had here.
    pub fn in_memory(kib: u64) -> Option<Small> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mounted");
        let made = private_mounts()
            .and_then(|()| mount(&path, &["-t", "tmpfs", "-o", &format!("size={kib}k"), "iocrec-test"]));
        made.map_or_else(none, |()| Some(Small { path, image: None, directory }))
    }

    /// So many KiB of ext4 in an image file. `None` if this can't be had here.
    pub fn ext4(kib: u64) -> Option<Small> {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("image");
        let path = directory.path().join("mounted");
        let make = || {
            File::create(&image)
                .and_then(|file| file.set_len(kib << 10))
                .map_err(|error| error.to_string())?;
            run(Command::new("mkfs.ext4").args(["-q", "-b", "4096"]).arg(&image))?;
            mount(&path, &["-o", "loop", image.to_str().unwrap()])
        };
        let made = private_mounts().and_then(|()| make());
        made.map_or_else(none, |()| Some(Small { path, image: Some(image.clone()), directory }))
    }

    /// What would be on the disk if the power went now: the image as it is, mounted anew.
    pub fn after_a_power_cut(&self, name: &str) -> PathBuf {
        let image = self.directory.path().join(format!("{name}.image"));
        fs::copy(self.image.as_ref().unwrap(), &image).unwrap();
        let path = self.directory.path().join(name);
        mount(&path, &["-o", "loop", image.to_str().unwrap()]).unwrap();
        path
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        for entry in fs::read_dir(self.directory.path()).unwrap().flatten() {
            if entry.path().is_dir() {
                let _ = Command::new("umount").arg("-l").arg(entry.path()).status();
            }
        }
    }
}

/// Moves this thread into a mount namespace of its own.
fn private_mounts() -> Result<(), String> {
    // SAFETY: unshare takes no pointers; it concerns this thread alone.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(format!("a mount namespace: {}", io::Error::last_os_error()));
    }
    run(Command::new("mount").args(["--make-rprivate", "/"]))
}

fn mount(path: &Path, arguments: &[&str]) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|error| error.to_string())?;
    run(Command::new("mount").args(arguments).arg(path))
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// Reports that there can be no small file system here, and returns none.
fn none<T>(error: String) -> Option<T> {
    let has_mkfs = Command::new("mkfs.ext4").arg("-V").output().is_ok();
    let needs = if has_mkfs { Needs::root_or_kernel(error) } else { Needs::Program("mkfs.ext4") };
    not_run("a small file system", needs);
    None
}

/// Sets space aside as the recorder does.
pub const RESERVE: Reserve = |file, bytes| {
    let bytes = libc::off_t::try_from(bytes).unwrap();
    // SAFETY: fallocate takes no pointers, and the file is open.
    if unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, 0, bytes) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
};

/// Bytes of the disk that a directory with its content takes, as `du` counts them.
pub fn du(path: &Path) -> u64 {
    let output = Command::new("du").args(["-s", "--block-size=1"]).arg(path).output().unwrap();
    String::from_utf8_lossy(&output.stdout).split_whitespace().next().unwrap().parse().unwrap()
}
