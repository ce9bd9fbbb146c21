//! How a running recorder is talked to: `iocrec mark` and `iocrec status` ask, it answers.
//!
//! Over a Unix socket in Linux's abstract name space, named after the log directory's device and inode number. So
//! there is no file: nothing to be counted into the cap, nothing that a full or read-only disk could refuse, nothing
//! left behind by a crash, and nothing that gets into the way of those who copy the directory. Abstract names have no
//! permissions, so both ends look at whom they talk to: a recorder answers root and its own user only, and asking
//! takes only root's, one's own and the directory owner's word. Such names belong to a network namespace: who
//! asks must be in the recorder's.
//!
//! Anybody may take the name first. Then the recorder says who has, and takes the name with a random number behind it; who
//! asks finds that in the kernel's list of names, and believes it as little without looking at whose it is. When the
//! directory is replaced by another one, the socket gets the other one's name.
//!
//! One request a connection: bytes until the asker closes its side. The answer begins with `ok` or `no` and a
//! line end; the rest is for people or, if asked for, JSON.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::linux::fs::MetadataExt;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{connect, getsockopt, socket, AddressFamily, SockFlag, SockType, UnixAddr};

use crate::directory::{self, Sort};
use crate::linux::process;

/// How long either side waits for the other. A disk may take seconds to store a mark.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of a request at most: a mark is a line or two.
pub const MOST_BYTES: usize = 4096;
/// How often the recorder looks if its socket is still called after the directory, and tries for a name that it could not
/// have.
const LOOK: Duration = Duration::from_secs(1);
/// After so long a name that one of our own has is spoken of: the recorder before is ending.
const SPOKEN_OF: Duration = Duration::from_secs(10);
/// Tries to reach a recorder that many ask at once, and the pause between them.
const TRIES: (u32, Duration) = (20, Duration::from_millis(100));

/// What is asked of a recorder.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// How it does.
    Status {
        /// As JSON?
        json: bool,
    },
    /// Write this mark.
    Mark(String),
}

impl Request {
    fn encode(&self) -> String {
        match self {
            Request::Status { json: false } => "status text".into(),
            Request::Status { json: true } => "status json".into(),
            Request::Mark(text) => format!("mark {text}"),
        }
    }

    fn decode(bytes: &[u8]) -> Option<Request> {
        match std::str::from_utf8(bytes).ok()? {
            "status text" => Some(Request::Status { json: false }),
            "status json" => Some(Request::Status { json: true }),
            text => text.strip_prefix("mark ").map(|mark| Request::Mark(mark.into())),
        }
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// No recorder has the directory.
    NotRunning,
    /// It was asked in vain: why, in words, and what to do.
    Failed(String),
}

/// The name of a directory's socket, and the directory owner's number.
fn name_of(directory: &Path) -> io::Result<(String, u32)> {
    let about = fs::metadata(directory)?;
    if !about.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok((format!("iocrec/{:x}/{:x}", about.st_dev(), about.st_ino()), about.st_uid()))
}

fn own_user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Does that user's word count?
fn is_trusted(stream: &UnixStream, also: u32) -> bool {
    let user = getsockopt(stream, PeerCredentials).map(|peer| peer.uid());
    user.is_ok_and(|user| user == 0 || user == own_user() || user == also)
}

/// A socket that is listened on.
struct Bound {
    listener: UnixListener,
    /// The name that it should have.
    name: String,
    /// It has another one.
    beside: bool,
}

impl Bound {
    /// Takes a name, or the next best. The line says who has that name, if somebody does.
    fn take(name: String, owner: u32) -> io::Result<(Bound, Option<Taken>)> {
        let error = match listen(&name) {
            Ok(listener) => return Ok((Bound { listener, name, beside: false }, None)),
            Err(error) => error,
        };
        if error.kind() != io::ErrorKind::AddrInUse {
            return Err(error);
        }
        let taken = Taken::by(&name, owner);
        let mut number = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut number)?;
        let listener = listen(&format!("{name}/{:016x}", u64::from_ne_bytes(number)))?;
        Ok((Bound { listener, name, beside: true }, Some(taken)))
    }

    /// Waits for somebody who asks.
    fn accept(&self) -> Option<UnixStream> {
        let mut polled = [PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
        poll(&mut polled, PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::ZERO)).ok()?;
        match self.listener.accept() {
            Ok((stream, _)) => stream.set_nonblocking(false).is_ok().then_some(stream),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            // no descriptors, most likely: it would be tried without a pause
            Err(_) => {
                thread::sleep(TRIES.1);
                None
            }
        }
    }
}

fn listen(name: &str) -> io::Result<UnixListener> {
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    // who goes away between poll and accept is not waited for
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Who has a name that a recorder wants.
struct Taken {
    /// In words.
    who: String,
    /// One of ours, a recorder that is about to end most likely.
    ours: bool,
}

impl Taken {
    fn by(name: &str, owner: u32) -> Taken {
        let peer = reach(name).ok().and_then(|stream| getsockopt(&stream, PeerCredentials).ok());
        let holder = match peer.map(|peer| (peer.pid(), peer.uid())) {
            Some((pid, uid)) if pid > 0 => {
                // who listened; by now another process may have the socket
                let holder = directory::process(pid.unsigned_abs(), owner);
                if holder.uid.is_some_and(|found| found != uid) {
                    return Taken { who: format!("process {pid} of user {uid}"), ours: false };
                }
                Some(holder)
            }
            Some((_, uid)) => {
                return Taken {
                    who: format!("a process of user {uid} that can't be seen from here"),
                    ours: false,
                };
            }
            None => directory::of_socket(name, owner),
        };
        match holder {
            Some(holder) => Taken { who: holder.in_words(), ours: holder.sort != Sort::Stranger },
            None => Taken { who: "a process that can't be seen from here".into(), ours: false },
        }
    }
}

/// Answers requests about a directory on a thread of its own, for as long as the program runs. `say` is given lines for
/// people: that there can be no socket, or that somebody has its name.
///
/// # Errors
/// The system gives no thread.
pub fn serve(
    directory: &Path,
    answer: impl Fn(Request) -> Result<String, String> + Send + 'static,
    mut say: impl FnMut(String) + Send + 'static,
) -> io::Result<()> {
    let directory = directory.to_owned();
    thread::Builder::new().name("control".into()).spawn(move || {
        let (mut bound, mut said, mut beside_since): (Option<Bound>, String, _) = (None, String::new(), None);
        loop {
            match wanted(&directory, bound.as_ref()) {
                Ok(None) => {}
                Ok(Some((name, owner))) => {
                    // what is left of the one before would be in the way of nobody, but tell of it
                    bound = bound.take().filter(|bound| bound.name == name);
                    match Bound::take(name, owner) {
                        Ok((_, Some(_))) if bound.is_some() => {} // taken as before
                        Ok((new, taken)) => {
                            beside_since = taken.is_some().then(Instant::now);
                            bound = Some(new);
                            if let Some(taken) = taken.filter(|taken| !taken.ours) {
                                tell(&mut said, &mut say, beside(&taken.who));
                            }
                        }
                        Err(error) => {
                            let line = format!(
                                "iocrec mark and status can't reach this recorder: no socket: {error}"
                            );
                            tell(&mut said, &mut say, line);
                        }
                    }
                }
                // as it was: it may come back
                Err(_) => {}
            }
            if let Some(bound) = bound.as_ref().filter(|bound| bound.beside) {
                if beside_since.is_some_and(|since: Instant| since.elapsed() > SPOKEN_OF) {
                    beside_since = None;
                    tell(&mut said, &mut say, beside(&Taken::by(&bound.name, own_user()).who));
                }
            }
            match &bound {
                Some(bound) => bound.accept().into_iter().for_each(|stream| answer_one(stream, &answer)),
                None => thread::sleep(LOOK),
            }
        }
    })?;
    Ok(())
}

/// The name that the socket should have, if it has another one.
fn wanted(directory: &Path, bound: Option<&Bound>) -> io::Result<Option<(String, u32)>> {
    let (name, owner) = name_of(directory)?;
    let has_it = bound.is_some_and(|bound| bound.name == name && !bound.beside);
    Ok((!has_it).then_some((name, owner)))
}

fn beside(who: &str) -> String {
    format!(
        "{who} has the socket name by which iocrec status and mark would reach this recorder; they reach it by another"
    )
}

/// Says a line that was not the last.
fn tell(said: &mut String, say: &mut impl FnMut(String), line: String) {
    if *said != line {
        said.clone_from(&line);
        say(line);
    }
}

/// Reads a request and answers it. Whoever is too slow or goes away gets no answer.
fn answer_one(mut stream: UnixStream, answer: &impl Fn(Request) -> Result<String, String>) {
    let waits = stream.set_read_timeout(Some(PATIENCE)).and(stream.set_write_timeout(Some(PATIENCE)));
    if waits.is_err() || !is_trusted(&stream, 0) {
        return;
    }
    let mut bytes = Vec::new();
    if (&stream).take(MOST_BYTES as u64).read_to_end(&mut bytes).is_err() {
        return;
    }
    let (word, text) = match Request::decode(&bytes).map(answer) {
        Some(Ok(text)) => ("ok", text),
        Some(Err(text)) => ("no", text),
        None => ("no", "this recorder does not know what is asked; is it of another version?".into()),
    };
    let _ = stream.write_all(format!("{word}\n{text}").as_bytes());
}

/// Connects without waiting.
fn reach(name: &str) -> Result<UnixStream, Errno> {
    let kind = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket: OwnedFd = socket(AddressFamily::Unix, SockType::Stream, kind, None)?;
    connect(socket.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes())?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false).map_err(|_| Errno::EIO)?;
    Ok(stream)
}

/// Connects to a recorder that may be busy.
fn reach_patiently(name: &str) -> Result<UnixStream, Errno> {
    for _ in 0..TRIES.0 {
        match reach(name) {
            Err(Errno::EAGAIN) => thread::sleep(TRIES.1),
            other => return other,
        }
    }
    Err(Errno::EAGAIN)
}

/// Names beside a directory's own that somebody has taken.
fn names_beside(name: &str) -> Vec<String> {
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

/// The recorder of a directory, if one can be reached that may be believed.
fn find(directory: &Path) -> Result<UnixStream, NoAnswer> {
    let shown = directory.display();
    let failed =
        |error: io::Error| NoAnswer::Failed(format!("{shown}: {error}; name the directory of a log"));
    let (name, owner) = name_of(directory).map_err(failed)?;
    let first = reach_patiently(&name);
    let stranger = match first {
        Ok(stream) if is_trusted(&stream, owner) => return Ok(stream),
        Ok(_) => true,
        Err(_) => false,
    };
    let others = names_beside(&name);
    let found = others.iter().filter_map(|other| reach(other).ok()).find(|stream| is_trusted(stream, owner));
    if let Some(stream) = found {
        return Ok(stream);
    }
    let holders = File::open(directory).map(|handle| directory::holders(&handle)).unwrap_or_default();
    let recorder = holders.iter().find(|holder| holder.sort == Sort::Recorder);
    if stranger && (recorder.is_some() || holders.is_empty() && is_taken(directory)) {
        let who = Taken::by(&name, owner).who;
        return Err(NoAnswer::Failed(format!(
            "{who} has the socket name of {shown}'s recorder, and is not believed; run this as root, \
             in the recorder's network namespace"
        )));
    }
    if !is_taken(directory) {
        return Err(NoAnswer::NotRunning);
    }
    let who = match (recorder, holders.first()) {
        (Some(recorder), _) => format!("a recorder, {}, writes to {shown}", recorder.in_words()),
        (None, Some(stranger)) => {
            format!("no recorder answers for {shown}, which {} has locked", stranger.in_words())
        }
        (None, None) => format!("a recorder writes to {shown}"),
    };
    let why = first.err().unwrap_or(Errno::ECONNREFUSED).desc();
    Err(NoAnswer::Failed(format!(
        "{who}, but it can't be asked: {why}; run this in its network namespace (outside of the container)"
    )))
}

/// Asks the recorder that writes to a directory. `Ok(Err)` is its refusal, for people.
///
/// # Errors
/// There is none, or it does not answer.
pub fn ask(directory: &Path, request: &Request) -> Result<Result<String, String>, NoAnswer> {
    let name = directory.display();
    let mut stream = find(directory)?;
    let mut answer = String::new();
    let asked = stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.write_all(request.encode().as_bytes()))
        .and_then(|()| stream.shutdown(std::net::Shutdown::Write))
        .and_then(|()| stream.read_to_string(&mut answer));
    match (asked, answer.split_once('\n')) {
        (Ok(_), Some(("ok", text))) => Ok(Ok(text.into())),
        (Ok(_), Some(("no", text))) => Ok(Err(text.into())),
        (Ok(_), _) => Err(NoAnswer::Failed(format!(
            "the recorder of {name} does not answer this user; run this as root"
        ))),
        (Err(error), _) => Err(NoAnswer::Failed(format!(
            "the recorder of {name} does not answer: {error}; see if its disk hangs"
        ))),
    }
}

/// Has a recorder locked the directory?
fn is_taken(directory: &Path) -> bool {
    let lock = File::open(directory).map(|handle| handle.try_lock_shared());
    matches!(lock, Ok(Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::{fuzz, mutate, Random};
    use std::sync::mpsc::channel;

    /// A recorder has it open: as long as it runs, no other directory gets the number.
    fn hold(directory: &Path) {
        std::mem::forget(File::open(directory).unwrap());
    }

    #[test]
    fn asked_and_answered() {
        let directory = tempfile::tempdir().unwrap();
        hold(directory.path());
        let (sender, requests) = channel();
        let answer = move |request| {
            let answer = match &request {
                Request::Status { .. } => Ok("fine\n".to_owned()),
                Request::Mark(_) => Err("no room".to_owned()),
            };
            sender.send(request).unwrap();
            answer
        };
        serve(directory.path(), answer, |line| panic!("{line}")).unwrap();
        let ask = |request: &Request| loop {
            match ask(directory.path(), request) {
                Err(NoAnswer::NotRunning) => thread::sleep(Duration::from_millis(5)), // the thread has just begun
                other => return other.unwrap(),
            }
        };
        assert_eq!(ask(&Request::Status { json: true }), Ok("fine\n".into()));
        let text = "beam lost\nagain \u{fc}";
        assert_eq!(ask(&Request::Mark(text.into())), Err("no room".into()));
        let requests: Vec<Request> = requests.try_iter().collect();
        assert_eq!(requests, [Request::Status { json: true }, Request::Mark(text.into())]);
        // What is no request is refused, and does no harm.
        let (name, _) = name_of(directory.path()).unwrap();
        for bytes in [&b"nonsense"[..], b"", b"mark \xff", &[b'x'; 10 * MOST_BYTES]] {
            let mut stream = reach(&name).unwrap();
            // It may stop listening before all is said.
            let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            assert!(answer.is_empty() || answer.starts_with("no\n"), "{answer}");
        }
        assert!(ask(&Request::Status { json: false }).is_ok());
    }

    /// Bytes that anyone may send: a mark that is found in them was in them.
    #[test]
    fn requests_that_were_changed() {
        let seeds = ["status text", "status json", "mark beam lost \u{fc}"].map(str::as_bytes);
        let mut marks = 0;
        fuzz(5000, |random: &mut Random| {
            let mut bytes = seeds[random.below(seeds.len())].to_vec();
            mutate(random, &mut bytes);
            let Some(request) = Request::decode(&bytes) else { return };
            assert_eq!(request.encode().as_bytes(), bytes);
            marks += u64::from(matches!(request, Request::Mark(_)));
        });
        assert!(std::env::var("FUZZ_SEED").is_ok() || marks > 100);
    }

    /// Asked under a name until there is an answer.
    fn patiently(directory: &Path) -> String {
        for _ in 0..1000 {
            match ask(directory, &Request::Status { json: false }) {
                Ok(Ok(text)) => return text,
                _ => thread::sleep(Duration::from_millis(5)),
            }
        }
        panic!("no answer")
    }

    /// Somebody has taken the name first, and lets go of it later.
    #[test]
    fn a_name_that_is_taken() {
        let directory = tempfile::tempdir().unwrap();
        hold(directory.path());
        let (name, _) = name_of(directory.path()).unwrap();
        // bound, but not listened on: nobody can connect
        let squatter = socket(AddressFamily::Unix, SockType::Stream, SockFlag::empty(), None).unwrap();
        nix::sys::socket::bind(squatter.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes()).unwrap())
            .unwrap();
        let (sender, lines) = channel();
        serve(directory.path(), |_| Ok("it is me".into()), move |line| sender.send(line).unwrap()).unwrap();
        assert_eq!(patiently(directory.path()), "it is me");
        let line = lines.recv_timeout(PATIENCE).unwrap();
        let pid = format!("process {} ", std::process::id());
        assert!(line.contains(&pid) && line.contains("has the socket name"), "{line}");
        assert_eq!(names_beside(&name).len(), 1);
        drop(squatter);
        while !names_beside(&name).is_empty() {
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(patiently(directory.path()), "it is me");
        assert!(lines.try_recv().is_err(), "it is said once");
    }

    /// Another directory comes into its place.
    #[test]
    fn a_directory_that_is_replaced() {
        let parent = tempfile::tempdir().unwrap();
        let (path, other) = (parent.path().join("log"), parent.path().join("other"));
        fs::create_dir(&path).unwrap();
        hold(&path);
        serve(&path, |_| Ok("it is me".into()), |line| panic!("{line}")).unwrap();
        assert_eq!(patiently(&path), "it is me");
        fs::rename(&path, &other).unwrap();
        fs::create_dir(&path).unwrap();
        hold(&path);
        assert_eq!(patiently(&path), "it is me");
        let asked = ask(&other, &Request::Status { json: false });
        assert!(matches!(asked, Err(NoAnswer::NotRunning)), "{asked:?}");
    }

    #[test]
    fn nobody_answers() {
        let directory = tempfile::tempdir().unwrap();
        let status = Request::Status { json: false };
        assert!(matches!(ask(directory.path(), &status), Err(NoAnswer::NotRunning)));
        // Locked, but by one that can't be asked.
        let lock = File::open(directory.path()).unwrap();
        lock.try_lock().unwrap();
        let Err(NoAnswer::Failed(line)) = ask(directory.path(), &status) else { panic!() };
        assert!(line.contains("network namespace"), "{line}");
        let Err(NoAnswer::Failed(line)) = ask(&directory.path().join("no"), &status) else { panic!() };
        assert!(line.contains("No such file"), "{line}");
    }
}
