//! Mount namespaces, and small file systems in them.

use super::child::run;
use std::fs;
use std::process::Command;

/// Moves this thread into a mount namespace of its own, where a small file system may be mounted.
pub fn enter_private_mounts() {
    assert!(make_mounts_private(), "{}", std::io::Error::last_os_error());
}

pub(super) fn make_mounts_private() -> bool {
    let (none, root) = (c"none".as_ptr(), c"/".as_ptr());
    // SAFETY: the arguments are constant C strings; both calls concern this thread alone.
    unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(none, root, std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE, std::ptr::null())
                == 0
    }
}

/// Moves this thread into a mount namespace of its own that has tracefs, which systemd mounts at boot elsewhere.
pub fn enter_mounts_with_tracefs() {
    enter_private_mounts();
    let at = "/sys/kernel/tracing";
    // it can't be mounted twice at one place
    if !std::path::Path::new(at).join("uprobe_events").exists() {
        let mounted =
            Command::new("mount").args(["-t", "tracefs", "tracefs", at]).output().expect("mount runs");
        assert!(mounted.status.success(), "{}", String::from_utf8_lossy(&mounted.stderr));
    }
}

/// The /proc of this process's own namespace.
pub(super) fn mount_proc() -> bool {
    let (proc, at) = (c"proc".as_ptr(), c"/proc".as_ptr());
    // SAFETY: the arguments are constant C strings.
    unsafe { libc::mount(proc, at, proc, 0, std::ptr::null()) == 0 }
}

/// Mounts a file system in memory, for this thread's mount namespace alone.
pub fn mount_small(path: &str, options: &str) {
    fs::create_dir_all(path).expect("a directory to mount on");
    let mut command = Command::new("mount");
    let output = run(command.args(["-t", "tmpfs", "-o", options, "iocrec-test", path]));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
