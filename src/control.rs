//! How a running recorder is talked to: `iocrec mark` and `iocrec status` ask, it answers.
//!
//! Over a Unix socket in Linux's abstract name space, named after the log directory's device and inode number. So
//! there is no file: nothing to be counted into the cap, nothing that a full or read-only disk could refuse, nothing
//! left behind by a crash, and nothing that gets into the way of those who copy the directory. Abstract names have no
//! permissions, so both ends look at whom they talk to: a recorder answers root and its own user only, and asking
//! takes only root's, one's own and the directory owner's word. Such names belong to a network namespace: who
//! asks must be in the recorder's.
//!
//! One request a connection: bytes until the asker closes its side. The answer begins with `ok` or `no` and a
//! line end; the rest is for people or, if asked for, JSON.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::linux::fs::MetadataExt;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

/// How long either side waits for the other. A disk may take seconds to store a mark.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of a request at most: a mark is a line or two.
pub const MOST_BYTES: usize = 4096;
/// How often a socket is tried for again that could not be had.
const RETRY: Duration = Duration::from_secs(10);

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

/// The name of a directory's socket.
fn address(directory: &Path) -> io::Result<(SocketAddr, u32)> {
    let about = fs::metadata(directory)?;
    if !about.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let name = format!("iocrec/{:x}/{:x}", about.st_dev(), about.st_ino());
    Ok((SocketAddr::from_abstract_name(name)?, about.st_uid()))
}

fn own_user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Does that user's word count?
fn is_trusted(stream: &UnixStream, also: u32) -> bool {
    let user = getsockopt(stream, PeerCredentials).map(|peer| peer.uid());
    user.is_ok_and(|user| user == 0 || user == own_user() || user == also)
}

/// Answers requests about a directory on a thread of its own, for as long as the program runs. `no_socket` is told
/// once where there can be none yet.
///
/// # Errors
/// The system gives no thread.
pub fn serve(
    directory: &Path,
    answer: impl Fn(Request) -> Result<String, String> + Send + 'static,
    no_socket: impl FnOnce(String) + Send + 'static,
) -> io::Result<()> {
    let directory = directory.to_owned();
    thread::Builder::new().name("control".into()).spawn(move || {
        let mut no_socket = Some(no_socket);
        loop {
            match address(&directory).and_then(|(address, _)| UnixListener::bind_addr(&address)) {
                Ok(listener) => listener.incoming().flatten().for_each(|stream| answer_one(stream, &answer)),
                Err(error) => {
                    if let Some(say) = no_socket.take() {
                        say(format!("iocrec mark and status can't reach this recorder: no socket: {error}"));
                    }
                }
            }
            thread::sleep(RETRY);
        }
    })?;
    Ok(())
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

/// Asks the recorder that writes to a directory. `Ok(Err)` is its refusal, for people.
///
/// # Errors
/// There is none, or it does not answer.
pub fn ask(directory: &Path, request: &Request) -> Result<Result<String, String>, NoAnswer> {
    let name = directory.display();
    let failed = |error: io::Error| NoAnswer::Failed(format!("{name}: {error}; name the directory of a log"));
    let (address, owner) = address(directory).map_err(failed)?;
    let mut stream = match UnixStream::connect_addr(&address) {
        Ok(stream) => stream,
        Err(_) if !is_taken(directory) => return Err(NoAnswer::NotRunning),
        Err(error) => {
            return Err(NoAnswer::Failed(format!(
                "a recorder writes to {name} but can't be asked: {error}; \
                 run this in its network namespace (outside of the container)"
            )));
        }
    };
    if !is_trusted(&stream, owner) {
        return Err(NoAnswer::Failed(format!("the recorder of {name} is another user's; run this as root")));
    }
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

    #[test]
    fn asked_and_answered() {
        let directory = tempfile::tempdir().unwrap();
        // A recorder has it open: as long as it runs, no other directory gets the number.
        std::mem::forget(File::open(directory.path()).unwrap());
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
        let (address, _) = address(directory.path()).unwrap();
        for bytes in [&b"nonsense"[..], b"", b"mark \xff", &[b'x'; 10 * MOST_BYTES]] {
            let mut stream = UnixStream::connect_addr(&address).unwrap();
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
