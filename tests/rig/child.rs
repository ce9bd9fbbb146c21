//! Child processes: they end with the test, and tests exchange lines with them.

use super::wait::{wait_until, PATIENCE};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// A child process with which a test exchanges lines. Its stderr goes to a file in the rig's directory.
pub struct Talk {
    child: Child,
    pub(super) stdin: Option<ChildStdin>,
    pub(super) stdout: Receiver<String>,
    /// The file with its stderr.
    stderr: PathBuf,
    name: String,
}

impl Talk {
    pub(super) fn start(name: &str, command: &mut Command, dir: &Path) -> Talk {
        let (child, stderr) = spawn(name, command, dir);
        Talk::with(name, child, stderr)
    }

    pub(super) fn with(name: &str, mut child: Child, stderr: PathBuf) -> Talk {
        let stdin = child.stdin.take();
        let (sender, stdout) = channel();
        let pipe = child.stdout.take().expect("a pipe");
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Talk { child, stdin, stdout, stderr, name: name.to_string() }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a line.
    pub fn send(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        writeln!(stdin, "{line}").unwrap_or_else(|error| panic!("{}: {error}: {}", self.name, self.errors()));
    }

    /// The next line; None at the end of its output.
    pub fn line(&mut self) -> Option<String> {
        match self.stdout.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("{} says nothing: {}", self.name, self.errors()),
        }
    }

    /// The next line, which must be JSON.
    pub fn line_as_json(&mut self) -> Value {
        let line = self.line().unwrap_or_else(|| panic!("{} ended: {}", self.name, self.errors()));
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{}: {error}: {line}", self.name))
    }

    /// The lines before one that is `word`.
    pub fn lines_until(&mut self, word: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            match self.line() {
                Some(line) if line == word => return lines,
                Some(line) => lines.push(line),
                None => panic!("{} ended: {lines:?} {}", self.name, self.errors()),
            }
        }
    }

    /// Its stderr so far.
    pub fn errors(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    /// Is it still running?
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: kill takes no pointers; the child is not yet reaped, so the pid is its.
        unsafe { libc::kill(self.child.id() as libc::pid_t, signal) };
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until(&format!("{} ends", self.name), || {
            status = self.child.try_wait().expect("the child can be waited for");
            status.is_some()
        });
        status.expect("it ended")
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        if self.runs() {
            // SAFETY: killpg takes no pointers; the leader is not reaped, so the group is its.
            unsafe { libc::killpg(self.child.id() as libc::pid_t, libc::SIGKILL) };
            let _ = self.child.wait();
        }
    }
}

/// Starts a child with pipes for its stdin and stdout, and a file for its stderr.
pub(super) fn spawn(name: &str, command: &mut Command, dir: &Path) -> (Child, PathBuf) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let stderr = dir.join(format!("{name}-{number}.stderr"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(fs::File::create(&stderr).expect("a file for stderr"));
    let child = in_own_group(command).spawn().unwrap_or_else(|error| panic!("{name}: {error}"));
    (child, stderr)
}

/// Makes the command the leader of a process group that dies with the thread that starts it.
fn in_own_group(command: &mut Command) -> &mut Command {
    command.process_group(0);
    // SAFETY: prctl is safe between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        })
    }
}

/// Runs a command to its end. It dies with the test's thread.
pub fn run(command: &mut Command) -> Output {
    run_within(command, PATIENCE)
}

/// The same for what may take longer.
pub fn run_within(command: &mut Command, patience: Duration) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = in_own_group(command).spawn().expect("it starts");
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut stderr = child.stderr.take().expect("a pipe");
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stdout.read_to_end(&mut bytes);
        bytes
    });
    let errors = thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stderr.read_to_end(&mut bytes);
        bytes
    });
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("the child can be waited for") {
            break status;
        }
        if begin.elapsed() > patience {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{command:?} does not end");
        }
        thread::sleep(Duration::from_millis(5));
    };
    Output {
        status,
        stdout: reader.join().expect("the reader ends"),
        stderr: errors.join().expect("the reader ends"),
    }
}
