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

/// Makes a descriptor a pipe that is full, and that nobody reads.
fn fill(descriptor: i32) {
    let (mut ends, page) = ([0; 2], [b'x'; 4096]);
    // SAFETY: the first call writes two descriptors; the others take these, numbers, and a page with its length.
    unsafe {
        libc::pipe(ends.as_mut_ptr());
        let [_, full] = ends;
        libc::fcntl(full, libc::F_SETFL, libc::O_NONBLOCK);
        while libc::write(full, page.as_ptr().cast(), page.len()) > 0 {}
        libc::fcntl(full, libc::F_SETFL, 0);
        libc::dup2(full, descriptor);
    }
}

/// Who starts it may read nothing of what it says, like a terminal that was stopped.
#[test]
fn a_starter_that_takes_no_lines() {
    works_and_ends("stderr", || fill(libc::STDERR_FILENO));
}

/// Makes a descriptor a terminal that nobody reads.
fn open_terminal(descriptor: i32) {
    let unlocked: i32 = 0;
    // SAFETY: the calls take a path, numbers, and a number that is read.
    unsafe {
        let terminal = libc::open(c"/dev/ptmx".as_ptr(), libc::O_RDWR | libc::O_NOCTTY);
        libc::ioctl(terminal, libc::TIOCSPTLCK, &raw const unlocked);
        let shown = libc::ioctl(terminal, libc::TIOCGPTPEER, libc::O_RDWR | libc::O_NOCTTY);
        libc::dup2(shown, descriptor);
    }
}

/// Who reads the lines of watch may take none, or only some; a signal ends it then.
fn watch_that_nobody_reads(name: &str, puts: i32, before: fn()) {
    let Some(rig) = Rig::new(&format!("inherited-{name}")) else { return };
    let ioc = rig.ioc("puts", PORT, "puts.db", &[]);
    let mut command = Command::new(IOCREC);
    command.args(["watch", "--no-console", "--pid", &ioc.pid_argument()]);
    // SAFETY: between fork and exec only system calls on numbers and the child's own stack.
    unsafe {
        command.pre_exec(move || {
            before();
            Ok(())
        });
    }
    let mut watch = rig.by("watch", &mut command);
    wait_until("it watches", || watch.errors().contains("recording puts"));
    let mut client = rig.client("libca", &[PORT], &[]);
    for value in 0..puts {
        client.put("PUT:LONG", 5, json!(value), true);
    }
    // it has lines to print by then
    std::thread::sleep(Duration::from_secs(2));
    assert!(watch.runs(), "{}", watch.errors());
    // fails after the rig's patience
    assert!(watch.stop().success(), "{}", watch.errors());
}

#[test]
fn watch_into_a_pipe_that_nobody_reads() {
    watch_that_nobody_reads("pipe", 50, || fill(libc::STDOUT_FILENO));
}

/// It takes the beginning of a line, and its writer waits with the rest: after 8 to 20 KB.
#[test]
fn watch_into_a_terminal_that_nobody_reads() {
    watch_that_nobody_reads("terminal", 600, || open_terminal(libc::STDOUT_FILENO));
}

/// It ends as where a pipe is closed, without a word of a disk.
#[test]
fn watch_into_a_terminal_that_was_closed() {
    let Some(rig) = Rig::new("inherited-closed") else { return };
    let ioc = rig.ioc("puts", PORT, "puts.db", &[]);
    let mut command = Command::new(IOCREC);
    command.args(["watch", "--no-console", "--pid", &ioc.pid_argument()]);
    // SAFETY: between fork and exec only system calls on numbers and a path.
    unsafe {
        command.pre_exec(|| {
            // its other end is the lowest descriptor that is free
            let lowest = libc::open(c"/".as_ptr(), libc::O_PATH);
            libc::close(lowest);
            open_terminal(libc::STDOUT_FILENO);
            libc::close(lowest);
            Ok(())
        });
    }
    let mut watch = rig.by("watch", &mut command);
    wait_until("it watches", || watch.errors().contains("recording puts"));
    let mut client = rig.client("libca", &[PORT], &[]);
    wait_until("it ends", || {
        client.put("PUT:LONG", 5, json!(1), true);
        !watch.runs()
    });
    assert!(watch.wait().success(), "{}", watch.errors());
    assert!(!watch.errors().contains("standard output"), "{}", watch.errors());
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

/// Limits the number of open files, and lets nobody raise it, who may be root.
fn limit_files(most: libc::rlim_t) {
    /// CAP_SYS_RESOURCE of linux/capability.h.
    const RESOURCE: libc::c_ulong = 24;
    limit(libc::RLIMIT_NOFILE, most);
    // SAFETY: the call takes numbers.
    unsafe { libc::prctl(libc::PR_CAPBSET_DROP, RESOURCE, 0, 0, 0) };
}

/// The recorder, which keeps no capability to pass over modes, must be let into its log.
#[test]
fn a_mask_that_leaves_nothing() {
    use std::os::unix::fs::MetadataExt;
    let Some(rig) = Rig::new("inherited-mask") else { return };
    let ioc = rig.ioc("puts", PORT, "puts.db", &[]);
    let before = || {
        // SAFETY: a number.
        unsafe { libc::umask(0o777) };
    };
    let mut recorder = recorder(&rig, &ioc, &[], before);
    let mut client = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut client, "PUT:READY", "both");
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let mode = |path: &std::path::Path| std::fs::metadata(path).expect("it is there").mode() & 0o777;
    let log = std::path::PathBuf::from(rig.log());
    assert_eq!(mode(&log), 0o700);
    let files = std::fs::read_dir(&log).expect("a directory").map(|file| file.expect("a file").path());
    let modes: Vec<u32> = files.map(|file| mode(&file)).collect();
    assert!(!modes.is_empty() && modes.iter().all(|mode| *mode == 0o600), "{modes:?}");
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

/// The kernel ends who needs more, and tells a stack that overflowed.
#[test]
fn a_limit_of_the_stack() {
    works_and_ends("stack", || {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: each call gets a struct that outlives it.
        unsafe {
            libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit);
            limit.rlim_cur = 64 << 10;
            libc::setrlimit(libc::RLIMIT_STACK, &raw const limit);
        }
    });
}

#[test]
fn a_limit_of_open_files() {
    let Some(rig) = Rig::new("inherited-files") else { return };
    let ioc = rig.ioc("puts", PORT, "puts.db", &[]);
    let mut recorder = recorder(&rig, &ioc, &[], || limit_files(20));
    assert_eq!(recorder.wait().code(), Some(1), "{}", recorder.errors());
    let errors = recorder.errors();
    assert!(errors.contains("20 files may be open (RLIMIT_NOFILE)"), "{errors}");
    assert!(!errors.contains("neither"), "it is an IOC: {errors}");
}

/// Enough for the probes of one or two IOCs, and not of four. The others' packets are recorded, all are told to live, and
/// when one has ended another one is probed.
#[test]
fn files_for_some_iocs_of_four() {
    let Some(rig) = Rig::new("inherited-few") else { return };
    let ports = [0, 10, 20, 30].map(|more| PORT + more);
    let mut iocs = ports.map(|port| rig.ioc(&format!("of-{port}"), port, "puts.db", &[]));
    let pids: Vec<String> = iocs.iter().map(Ioc::pid_argument).collect();
    let more = ["--pid", &pids[1], "--pid", &pids[2], "--pid", &pids[3]];
    let mut recorder = recorder(&rig, &iocs[0], &more, || limit_files(390));
    wait_until("it says so", || recorder.errors().contains("only 390 files may be open"));
    let mut clients = ports.map(|port| rig.client("libca", &[port], &[]));
    for client in &mut clients {
        client.connect("PUT:DOUBLE");
    }
    // the others are probed by then
    wait_until("one is probed", || {
        clients[0].put("PUT:LONG", 5, json!(1), true);
        clients[1].put("PUT:LONG", 5, json!(1), true);
        clients[2].put("PUT:LONG", 5, json!(1), true);
        clients[3].put("PUT:LONG", 5, json!(1), true);
        rig.puts(&["--pv", "PUT:LONG"]).iter().any(|put| put["source"] == "both")
    });
    for value in 1..=20 {
        for client in &mut clients {
            client.put("PUT:DOUBLE", 6, json!(f64::from(value)), true);
        }
    }
    let of = |port: u16| rig.puts(&["--pv", "PUT:DOUBLE", "--ioc", &format!("of-{port}")]);
    wait_until("all puts are stored", || {
        ports.iter().all(|port| of(*port).iter().any(|put| put["requested"] == json!(20.0)))
    });
    assert!(!recorder.errors().contains("ended"), "{}", recorder.errors());
    let sources = ports.map(|port| {
        let puts = of(port);
        assert_eq!(puts.len(), 20, "each once: {puts:?}");
        puts[19]["source"].as_str().unwrap_or_default().to_owned()
    });
    let probed = sources.iter().position(|source| source == "both").expect("one is probed");
    assert!(sources.iter().any(|source| source == "packet"), "{sources:?}");
    iocs[probed].kill();
    wait_until("another one is probed", || {
        recorder.errors().contains("is probed from now on: enough files may be opened")
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
}
