//! The agent as a child process, and its log as the reader prints it.

use super::child::{spawn, Talk};
use super::client::Client;
use super::mounts::{make_mounts_private, mount_proc};
use super::programs::{iocreplay, IOCREC};
use super::wait::wait_until;
use super::Rig;
use serde_json::{json, Value};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// How often [`Rig::record`]'s recorders write what they have.
pub const FLUSH: Duration = Duration::from_millis(500);

/// A running `iocrec`.
pub struct Running {
    talk: Talk,
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.talk.pid()
    }

    /// The next line of its stdout, if it comes in that time.
    pub fn line_within(&mut self, time: Duration) -> Option<String> {
        self.talk.stdout.recv_timeout(time).ok()
    }

    /// Takes a line of its stdout; false if that is closed and all was taken.
    pub fn has_output(&mut self) -> bool {
        self.talk.line().is_some()
    }

    /// Its stderr so far.
    pub fn errors(&self) -> String {
        self.talk.errors()
    }

    /// Is it still running?
    pub fn runs(&mut self) -> bool {
        self.talk.runs()
    }

    /// Ends it as a service manager would; its exit status.
    pub fn stop(&mut self) -> ExitStatus {
        self.talk.signal(libc::SIGTERM);
        self.talk.wait()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        self.talk.signal(signal);
    }

    /// Ends it without warning.
    pub fn kill(&mut self) {
        self.talk.signal(libc::SIGKILL);
        self.talk.wait();
    }

    /// Waits for its own end.
    pub fn wait(&mut self) -> ExitStatus {
        self.talk.wait()
    }

    /// Closes its stdin, and waits for the end that comes of it.
    pub fn close(&mut self) -> ExitStatus {
        self.talk.stdin = None;
        self.talk.wait()
    }
}

impl Rig {
    /// Starts `iocrec record` into the rig's log directory. It leaves out the console, unless `--console-rate` asks for it:
    /// the kernel takes out one probe at a time, and hundreds of tests would wait for those that they don't need.
    pub fn record(&self, arguments: &[&str]) -> Running {
        let mut command = Command::new(IOCREC);
        let flush = format!("{}ms", FLUSH.as_millis());
        command.args(["record", "--dir", &self.log(), "--flush", &flush]).args(arguments);
        if !arguments.contains(&"--console-rate") {
            command.arg("--no-console");
        }
        Running { talk: Talk::start("iocrec", &mut command, &self.dir) }
    }

    /// Starts `iocrec` where it sees no process but itself, and so none of other tests' IOCs.
    pub fn isolated_agent(&self, arguments: &[&str]) -> Running {
        let mut command = Command::new(IOCREC);
        command.args(arguments);
        // SAFETY: between fork and exec only system calls on constants.
        unsafe {
            command.pre_exec(|| {
                if make_mounts_private() && mount_proc() {
                    Ok(())
                } else {
                    Err(std::io::Error::last_os_error())
                }
            });
        }
        let own = fs::File::open("/proc/thread-self/ns/pid").expect("our process namespace");
        // SAFETY: no pointers; children of this thread alone start in the new namespace.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWPID) }, 0, "{}", std::io::Error::last_os_error());
        let (child, stderr) = spawn("isolated", &mut command, &self.dir);
        // SAFETY: the descriptor is open; later children start where we are again. (Threads too, which
        // can't start in between.)
        assert_eq!(unsafe { libc::setns(own.as_raw_fd(), libc::CLONE_NEWPID) }, 0);
        Running { talk: Talk::with("isolated", child, stderr) }
    }

    /// Starts `iocrec` with these arguments.
    pub fn agent(&self, arguments: &[&str]) -> Running {
        let mut command = Command::new(IOCREC);
        command.args(arguments);
        Running { talk: Talk::start("iocrec", &mut command, &self.dir) }
    }

    /// Starts `iocrec` by a command of one's own.
    pub fn by(&self, name: &str, command: &mut Command) -> Running {
        Running { talk: Talk::start(name, command, &self.dir) }
    }

    /// Waits until the recorder records the IOC: puts to a record until the log shows one of them
    /// as seen from where `source` says (`both`, or `packet` where there are no probes).
    pub fn wait_until_recording(&self, client: &mut Client, pv: &str, source: &str) {
        // A value for each put, so that none of an earlier run or another test is taken for ours.
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let (address, first) = (client.connect(pv), NUMBER.load(Ordering::Relaxed));
        wait_until("the recorder sees a put", || {
            client.put(pv, 6, json!(NUMBER.fetch_add(1, Ordering::Relaxed)), false);
            thread::sleep(Duration::from_millis(300));
            let ours =
                |put: &Value| put["client"] == *address && put["requested"].as_f64() >= Some(first.into());
            self.puts(&["--pv", pv]).iter().any(|put| ours(put) && put["source"] == source)
        });
    }

    /// Runs `iocreplay` on the rig's log.
    pub fn replay(&self, command: &str, arguments: &[&str]) -> Output {
        Command::new(iocreplay())
            .arg(command)
            .arg(self.log())
            .args(arguments)
            .output()
            .expect("iocreplay runs")
    }

    /// Runs `iocreplay why`.
    pub fn why(&self, pv: &str) -> Output {
        Command::new(iocreplay()).args(["why", pv, &self.log()]).output().expect("iocreplay runs")
    }

    /// The put log as JSON objects; empty while there is no readable log.
    pub fn puts(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.replay("puts", &[&["--format", "jsonl"], arguments].concat());
        json_lines(&output.stdout)
    }

    /// The runs in the log, as `iocreplay info --json` prints them; empty while there is no readable log.
    pub fn runs(&self) -> Vec<Value> {
        let info: Value =
            serde_json::from_slice(&self.replay("info", &["--json"]).stdout).unwrap_or_default();
        info["runs"].as_array().cloned().unwrap_or_default()
    }

    /// How many facts of a kind the log holds, by the kind's key in `iocreplay info --json`.
    pub fn facts(&self, kind: &str) -> u64 {
        self.runs().iter().filter_map(|run| run["facts"][kind].as_u64()).sum()
    }

    /// Bytes in the log's files.
    pub fn log_bytes(&self) -> u64 {
        let files = fs::read_dir(self.log()).expect("the log");
        files.filter_map(|file| file.ok()?.metadata().ok()).map(|file| file.len()).sum()
    }
}

/// Each line as a JSON value.
pub fn json_lines(text: &[u8]) -> Vec<Value> {
    String::from_utf8_lossy(text)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("not JSON: {error}: {line}")))
        .collect()
}
