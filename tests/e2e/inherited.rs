//! What a program inherits from the one that starts it: ignored and blocked signals, limits. The recorder works all the same,
//! or says what keeps it from working.

use crate::rig::{wait_until, Ioc, Rig, Running, IOCREC};
use serde_json::json;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

const PORT: u16 = 5074;

/// Starts a recorder of the IOC in a process that did this before.
fn recorder(rig: &Rig, ioc: &Ioc, arguments: &[&str], before: fn()) -> Running {
    let mut command = Command::new(IOCREC);
    command.args(["record", "--no-console", "--flush", "500ms", "--dir", &rig.log()]).args(arguments);
    command.args(["--pid", &ioc.pid_argument()]);
    // SAFETY: between fork and exec only system calls on numbers and the child's own stack.
    unsafe {
        command.pre_exec(move || {
            before();
            Ok::<(), io::Error>(())
        });
    }
    rig.by("inheriting", &mut command)
}

/// A recorder whose starter had done this records, tells how IOCs end, and ends when it is told to.
fn works_and_ends(name: &str, before: fn()) {
    let Some(rig) = Rig::new(&format!("inherited-{name}")) else { return };
    let mut ioc = rig.ioc("puts", PORT, "puts.db", &[]);
    let mut recorder = recorder(&rig, &ioc, &[], before);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    ioc.kill();
    wait_until("its end is told", || {
        String::from_utf8_lossy(&rig.replay("iocs", &[]).stdout).contains("killed by SIGKILL, sent by")
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
    assert!(!recorder.errors().contains("are not recorded"), "{}", recorder.errors());
}

fn ignore(signal: i32) {
    // SAFETY: the signal exists and may be ignored.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

#[test]
fn a_starter_that_ignores_sigterm() {
    works_and_ends("term", || ignore(libc::SIGTERM));
}

#[test]
fn a_starter_that_ignores_the_end_of_children() {
    works_and_ends("child", || ignore(libc::SIGCHLD));
}

#[test]
fn a_starter_that_blocks_all_signals() {
    works_and_ends("blocked", || {
        // SAFETY: sigfillset fills the set before it is used; both calls touch nothing else.
        unsafe {
            let mut all = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
        }
    });
}

/// nohup means that a terminal that closes ends nothing.
#[test]
fn watch_under_nohup() {
    let Some(rig) = Rig::new("inherited-nohup") else { return };
    let ioc = rig.ioc("puts", PORT, "puts.db", &[]);
    let mut command = Command::new(IOCREC);
    command.args(["watch", "--no-console", "--pid", &ioc.pid_argument()]);
    // SAFETY: one system call on numbers.
    unsafe {
        command.pre_exec(|| {
            ignore(libc::SIGHUP);
            Ok(())
        });
    }
    let mut watch = rig.by("watch", &mut command);
    let mut client = rig.client("libca", &[PORT], &[]);
    wait_until("a put is shown", || {
        client.put("PUT:READY", 6, json!(1.0), false);
        watch.line_within(Duration::from_millis(300)).is_some()
    });
    // SAFETY: no pointers.
    assert_eq!(unsafe { libc::kill(watch.pid().cast_signed(), libc::SIGHUP) }, 0);
    while watch.line_within(Duration::from_secs(1)).is_some() {}
    assert!(watch.runs(), "{}", watch.errors());
    assert!(watch.stop().success(), "{}", watch.errors());
}

/// Limits the size of files, or their number.
fn limit(resource: libc::__rlimit_resource_t, most: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: the call reads the struct, which outlives it.
    unsafe { libc::setrlimit(resource, &raw const limit) };
}

/// The kernel sends SIGXFSZ, which kills without a word.
#[test]
fn a_limit_of_file_sizes() {
    let Some(rig) = Rig::new("inherited-sizes") else { return };
    let ioc = rig.ioc("puts", PORT, "puts.db", &[]);
    let mut recorder = recorder(&rig, &ioc, &[], || limit(libc::RLIMIT_FSIZE, 1000));
    wait_until("it says so", || recorder.errors().contains("storing paused: writing: File too large"));
    assert_eq!(recorder.stop().code(), Some(1), "{}", recorder.errors());
    assert!(recorder.errors().contains("were not stored"), "{}", recorder.errors());
}

#[test]
fn a_limit_of_open_files() {
    let Some(rig) = Rig::new("inherited-files") else { return };
    let ioc = rig.ioc("puts", PORT, "puts.db", &[]);
    let mut recorder = recorder(&rig, &ioc, &[], || limit(libc::RLIMIT_NOFILE, 20));
    assert_eq!(recorder.wait().code(), Some(1), "{}", recorder.errors());
    let errors = recorder.errors();
    assert!(errors.contains("20 files may be open (RLIMIT_NOFILE)"), "{errors}");
    assert!(!errors.contains("neither"), "it is an IOC: {errors}");
}
