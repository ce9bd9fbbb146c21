//! The rig of the whole-program tests: real IOCs, real Channel Access clients and the two programs,
//! as child processes in a network of their own.
//!
//! Each [`Rig`] has its own network namespace (with nothing but loopback), its own directory and its
//! own children, so tests run side by side. Children are killed when the rig goes, also when a test
//! fails: by process group, and by the kernel when the test's thread ends.
//!
//! A test that can't run here says `NOT RUN` on stderr; with CI=true or IOCREC_REQUIRE_ALL=1 it
//! fails instead.

pub mod own_program;
pub mod spans;

use serde_json::{json, Value};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up. Long, since a busy machine is no defect.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How often [`Rig::record`]'s recorders write what they have.
pub const FLUSH: Duration = Duration::from_millis(500);

/// The agent.
pub const IOCREC: &str = env!("CARGO_BIN_EXE_iocrec");

/// What one test has: a network, a directory, children.
pub struct Rig {
    /// The test's own directory; goes with the rig unless the test fails.
    pub dir: PathBuf,
    /// Others may run beside it, or not.
    _turn: Turn,
}

/// Tests run side by side, but for those that the kernel must have time for: it places and takes out one probe at a time,
/// whoever asks.
static TURNS: RwLock<()> = RwLock::new(());

enum Turn {
    Beside { _guard: RwLockReadGuard<'static, ()> },
    Alone { _guard: RwLockWriteGuard<'static, ()> },
}

impl Rig {
    /// Makes the surroundings of one test, or says why it can't run here.
    pub fn new(name: &str) -> Option<Rig> {
        // a test that failed has left nothing half done
        let guard = TURNS.read().unwrap_or_else(PoisonError::into_inner);
        Rig::with(name, Turn::Beside { _guard: guard })
    }

    /// The same for a test beside which no other runs, nor what others have left to be taken out of the kernel.
    pub fn alone(name: &str) -> Option<Rig> {
        let guard = TURNS.write().unwrap_or_else(PoisonError::into_inner);
        let is_leaving = |process: &fs::DirEntry| {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            name.trim_end() == "iocrec-parting"
        };
        wait_until("no recorder's probes are being taken out", || {
            !fs::read_dir("/proc").expect("/proc").flatten().any(|process| is_leaving(&process))
        });
        Rig::with(name, Turn::Alone { _guard: guard })
    }

    fn with(name: &str, turn: Turn) -> Option<Rig> {
        // SAFETY: geteuid has no preconditions.
        if unsafe { libc::geteuid() } != 0 {
            return not_run(name, "needs root");
        }
        enter_private_network();
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("iocrec-{}-{number}-{name}", std::process::id()));
        fs::create_dir_all(&dir).expect("the test's directory");
        Some(Rig { dir, _turn: turn })
    }

    /// The directory for logs, as an argument.
    pub fn log(&self) -> String {
        self.path("log")
    }

    /// Bytes in the log's files.
    pub fn log_bytes(&self) -> u64 {
        let files = fs::read_dir(self.log()).expect("the log");
        files.filter_map(|file| file.ok()?.metadata().ok()).map(|file| file.len()).sum()
    }

    /// A path in the rig's directory, as an argument.
    pub fn path(&self, name: &str) -> String {
        self.dir.join(name).to_str().expect("a UTF-8 path").to_string()
    }

    /// Starts an IOC with a database of tests/rig and waits until it serves.
    /// Its CA links look for their targets on `find` as well.
    pub fn ioc(&self, name: &str, port: u16, database: &str, find: &[u16]) -> Ioc {
        let ports: Vec<String> = find.iter().map(u16::to_string).collect();
        let ports = ports.join(",");
        let find: &[&str] = if find.is_empty() { &[] } else { &["--find", &ports] };
        self.ioc_with(name, port, database, find)
    }

    /// Starts an IOC as [`Rig::ioc`] does, with more of ioc.py's options.
    pub fn ioc_with(&self, name: &str, port: u16, database: &str, options: &[&str]) -> Ioc {
        let mut command = python("ioc.py");
        command.arg(name).arg(port.to_string()).arg(rig_file(database)).args(options);
        self.serving(name, command)
    }

    /// Starts the IOC of python_ioc.py, which softioc runs; its commands are `RECORD VALUE`.
    pub fn python_ioc(&self, name: &str, port: u16) -> Ioc {
        let mut command = python("python_ioc.py");
        command.arg(name).arg(port.to_string());
        self.serving(name, command)
    }

    fn serving(&self, name: &str, mut command: Command) -> Ioc {
        let mut ioc = Ioc { talk: Talk::start(name, &mut command, &self.dir) };
        ioc.talk.lines_until("ready");
        ioc
    }

    /// Starts an IOC by a command that says `ready` and `done` as ioc.py does, and waits until it serves.
    pub fn ioc_by(&self, name: &str, command: &mut Command) -> Ioc {
        self.ioc_at(name, command, "ready")
    }

    /// Starts an IOC by a command and waits until it says a word.
    pub fn ioc_at(&self, name: &str, command: &mut Command, word: &str) -> Ioc {
        let mut ioc = Ioc { talk: Talk::start(name, command, &self.dir) };
        ioc.talk.lines_until(word);
        ioc
    }

    /// Starts a client and waits until it takes commands.
    pub fn client(&self, library: &str, ports: &[u16], options: &[&str]) -> Client {
        self.client_by(python("client.py"), library, ports, options)
    }

    /// Starts a client in the network namespace of a process, and waits until it takes commands.
    pub fn client_beside(&self, pid: u32, library: &str, port: u16, options: &[&str]) -> Client {
        self.client_by(beside(pid, python("client.py")), library, &[port], options)
    }

    /// Starts an IOC in a network namespace of its own, which has nothing but loopback, and waits until it serves.
    pub fn ioc_apart(&self, name: &str, port: u16, database: &str, options: &[&str]) -> Ioc {
        let mut command = python("private_net.py");
        let script = python("ioc.py");
        command.arg(script.get_program()).args(script.get_args());
        command.arg(name).arg(port.to_string()).arg(rig_file(database)).args(options);
        self.serving(name, command)
    }

    /// Starts an IOC in the network namespace of a process, and waits until it serves.
    pub fn ioc_beside(&self, pid: u32, name: &str, port: u16, database: &str, options: &[&str]) -> Ioc {
        let mut command = beside(pid, python("ioc.py"));
        command.arg(name).arg(port.to_string()).arg(rig_file(database)).args(options);
        self.serving(name, command)
    }

    fn client_by(&self, mut command: Command, library: &str, ports: &[u16], options: &[&str]) -> Client {
        let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
        command.arg(library).arg(ports.join(",")).args(options);
        let mut talk = Talk::start(library, &mut command, &self.dir);
        let who = talk.line_as_json();
        let word = |key: &str| who[key].as_str().expect("who the client claims to be").to_string();
        Client { user: word("user"), host: word("host"), talk }
    }

    /// Starts a Channel Access server that is not EPICS Base, with one PV of that name.
    pub fn foreign_server(&self, port: u16, pv: &str) -> Talk {
        let mut command = python("foreign_server.py");
        command.arg(port.to_string()).arg(pv);
        let mut talk = Talk::start("foreign_server", &mut command, &self.dir);
        talk.lines_until("ready");
        talk
    }

    /// Starts `iocrec record` into the rig's log directory.
    pub fn record(&self, arguments: &[&str]) -> Running {
        let mut command = Command::new(IOCREC);
        let flush = format!("{}ms", FLUSH.as_millis());
        command.args(["record", "--dir", &self.log(), "--flush", &flush]).args(arguments);
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
}

impl Drop for Rig {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the test's files are kept in {}", self.dir.display());
        } else {
            // What can't be removed does no harm in a directory for temporary files.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// Says that a test did not run; fails where every test has to.
pub fn not_run<T>(name: &str, why: &str) -> Option<T> {
    let set = |key: &str, value: &str| std::env::var(key).is_ok_and(|found| found == value);
    assert!(!set("CI", "true") && !set("IOCREC_REQUIRE_ALL", "1"), "NOT RUN: {name}: {why}");
    // Past the test runner, which would swallow what a passing test prints.
    #[allow(clippy::disallowed_methods)] // a test's own words
    let _ = writeln!(std::io::stderr(), "NOT RUN: {name}: {why}");
    None
}

/// Moves this thread, and the children that it starts, into a network with only loopback.
fn enter_private_network() {
    // SAFETY: unshare takes no pointers; it concerns this thread alone.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: ifreq is plain data, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: the descriptor is checked and closed here, the request outlives the call.
    let up = unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let up = libc::ioctl(socket, libc::SIOCSIFFLAGS as _, &request);
        libc::close(socket);
        up
    };
    assert_eq!(up, 0, "loopback: {}", std::io::Error::last_os_error());
}

/// The same command in the network namespace of a process.
pub fn beside(pid: u32, command: Command) -> Command {
    let mut inside = Command::new("nsenter");
    inside.arg(format!("--net=/proc/{pid}/ns/net")).arg(command.get_program()).args(command.get_args());
    inside
}

/// Joins this thread's network namespace with that of a process by a cable (veth), with an address of a /24 at each end.
pub fn join_networks(pid: u32, here: &str, there: &str) {
    let pid = pid.to_string();
    let ip = |arguments: &[&str]| own_program::succeed(Command::new("ip").args(arguments));
    ip(&["link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", &pid]);
    ip(&["address", "add", &format!("{here}/24"), "dev", "cable"]);
    ip(&["link", "set", "cable", "up"]);
    let inside = |arguments: &[&str]| {
        let mut command = Command::new("ip");
        command.args(arguments);
        own_program::succeed(&mut beside(pid.parse().expect("a number"), command));
    };
    inside(&["address", "add", &format!("{there}/24"), "dev", "cable"]);
    inside(&["link", "set", "cable", "up"]);
}

/// Moves this thread into a mount namespace of its own, where a small file system may be mounted.
pub fn enter_private_mounts() {
    assert!(make_mounts_private(), "{}", std::io::Error::last_os_error());
}

fn make_mounts_private() -> bool {
    let (none, root) = (c"none".as_ptr(), c"/".as_ptr());
    // SAFETY: the arguments are constant C strings; both calls concern this thread alone.
    unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(none, root, std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE, std::ptr::null())
                == 0
    }
}

/// The /proc of this process's own namespace.
fn mount_proc() -> bool {
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

/// A file of tests/rig.
pub fn rig_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rig").join(name)
}

/// The interpreter of the virtual environment.
fn interpreter() -> PathBuf {
    let python = std::env::var_os("IOCREC_PYTHON")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv/bin/python"), PathBuf::from);
    assert!(python.exists(), "{} is missing; run scripts/setup", python.display());
    python
}

/// The virtual environment.
fn environment() -> PathBuf {
    interpreter().parent().and_then(Path::parent).expect("bin/python").to_path_buf()
}

/// A script of tests/rig, ready to be given arguments.
pub fn python(script: &str) -> Command {
    let mut command = Command::new(interpreter());
    command.arg(rig_file(script));
    command
}

/// The versions of epicscorelibs beside that of the virtual environment, for ioc.py's --epics.
pub fn epics_versions() -> Vec<String> {
    let list = fs::read_to_string(rig_file("epics-versions.txt")).expect("the list is there");
    let versions = list.lines().filter(|line| !line.starts_with('#'));
    let of_this_machine = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [version, python] if python != "source" => Some(version.to_string()),
        _ => None,
    };
    let versions: Vec<String> = versions.filter_map(of_this_machine).collect();
    for version in &versions {
        let libraries = environment().join("epics").join(version);
        assert!(libraries.exists(), "{} is missing; run scripts/setup", libraries.display());
    }
    versions
}

/// Runs a script of the repository that checks a file; its output.
pub fn check_script(path: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(interpreter());
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).args(arguments);
    command.output().expect("the script runs")
}

/// The reader, of the same build as the agent. It is another package's program, so it is built when
/// cargo runs the tests, and found beside the agent otherwise.
pub fn iocreplay() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        let beside = Path::new(IOCREC).parent().expect("a directory");
        if let Some(cargo) = std::env::var_os("CARGO") {
            let mut build = Command::new(cargo);
            build.args(["build", "--quiet", "--locked", "-p", "iocreplay", "--bin", "iocreplay"]);
            build.current_dir(env!("CARGO_MANIFEST_DIR"));
            build.arg("--target-dir").arg(beside.parent().expect("the target directory"));
            if beside.ends_with("release") {
                build.arg("--release");
            }
            assert!(build.status().expect("cargo runs").success(), "iocreplay could not be built");
        }
        beside.join("iocreplay")
    })
}

/// Waits for a condition; fails the test when it does not come.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Each line as a JSON value.
pub fn json_lines(text: &[u8]) -> Vec<Value> {
    String::from_utf8_lossy(text)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("not JSON: {error}: {line}")))
        .collect()
}

/// A child process that is talked to by lines. Its stderr goes to a file in the rig's directory.
pub struct Talk {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Receiver<String>,
    /// What it said on stderr.
    stderr: PathBuf,
    name: String,
}

impl Talk {
    fn start(name: &str, command: &mut Command, dir: &Path) -> Talk {
        let (child, stderr) = spawn(name, command, dir);
        Talk::with(name, child, stderr)
    }

    fn with(name: &str, mut child: Child, stderr: PathBuf) -> Talk {
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
    pub fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        writeln!(stdin, "{line}").unwrap_or_else(|error| panic!("{}: {error}: {}", self.name, self.errors()));
    }

    /// The next line; None when it said its last.
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

    /// What it said on stderr so far.
    pub fn errors(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    /// Is it still there?
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
fn spawn(name: &str, command: &mut Command, dir: &Path) -> (Child, PathBuf) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let stderr = dir.join(format!("{name}-{number}.stderr"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(fs::File::create(&stderr).expect("a file for stderr"));
    let child = in_own_group(command).spawn().unwrap_or_else(|error| panic!("{name}: {error}"));
    (child, stderr)
}

/// Makes the command lead a process group of its own, and die with the thread that starts it.
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

/// A running IOC.
pub struct Ioc {
    talk: Talk,
}

impl Ioc {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.talk.pid()
    }

    /// Its process id, as an argument.
    pub fn pid_argument(&self) -> String {
        self.talk.pid().to_string()
    }

    /// Carries out an iocsh command; the lines that it printed.
    pub fn command(&mut self, line: &str) -> Vec<String> {
        self.talk.say(line);
        self.talk.lines_until("done")
    }

    /// Says a line and waits for a word.
    pub fn command_until(&mut self, line: &str, word: &str) {
        self.talk.say(line);
        self.talk.lines_until(word);
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.talk.signal(libc::SIGKILL);
        self.talk.wait();
    }

    /// Is it still there?
    pub fn runs(&mut self) -> bool {
        self.talk.runs()
    }
}

/// A running Channel Access client.
pub struct Client {
    /// Whom it claims to act for.
    pub user: String,
    /// Which host it claims to be.
    pub host: String,
    talk: Talk,
}

impl Client {
    fn ask(&mut self, command: Value) -> Value {
        self.talk.say(&command.to_string());
        let answer = self.talk.line_as_json();
        assert!(answer["error"].is_null(), "{command}: {answer}");
        answer
    }

    /// Connects the channel; this client's `ip:port`.
    pub fn connect(&mut self, pv: &str) -> String {
        let answer = self.ask(json!({"do": "connect", "pv": pv}));
        answer["address"].as_str().expect("an address").to_string()
    }

    /// Puts; the ECA status (1 is normal; without callback always 1).
    pub fn put(&mut self, pv: &str, dbr: u16, value: Value, notify: bool) -> u64 {
        let answer = self.ask(json!({"do": "put", "pv": pv, "dbr": dbr, "value": value, "notify": notify}));
        answer["status"].as_u64().expect("a status")
    }

    /// Reads.
    pub fn get(&mut self, pv: &str) -> Value {
        self.ask(json!({"do": "get", "pv": pv}))["value"].take()
    }

    /// Puts 0, 1, 2 ... without callback, and waits until all are carried out.
    pub fn flood(&mut self, pv: &str, count: u32) {
        self.ask(json!({"do": "flood", "pv": pv, "count": count}));
    }

    /// Begins what [`flood`](Self::flood) does; nothing else can be asked of this client after it.
    pub fn begin_flood(&mut self, pv: &str, count: u32) {
        self.talk.say(&json!({"do": "flood", "pv": pv, "count": count}).to_string());
    }
}

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
    pub fn says_more(&mut self) -> bool {
        self.talk.line().is_some()
    }

    /// What it said on stderr so far.
    pub fn errors(&self) -> String {
        self.talk.errors()
    }

    /// Is it still there?
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

/// Runs a command to its end, without leaving it when the test's thread goes.
pub fn run(command: &mut Command) -> Output {
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
        if begin.elapsed() > PATIENCE {
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
