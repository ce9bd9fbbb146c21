//! The recorder's end: a thread that answers requests.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;

use crate::control::name::{is_trusted, own_name, own_user, reach};
use crate::control::request::{Reply, Request, MAX_BYTES, TIMEOUT};
use crate::directory::{self, HolderKind};
use crate::linux::aside;
use crate::linux::bell::Bell;

/// Interval at which the recorder retries a name that was taken. Whether its socket still has the directory's name is
/// checked when a [`Doorbell`] rings.
const CHECK: Duration = Duration::from_secs(1);
/// Time after which a name that another recorder has is reported, too. Before that it is most likely the previous
/// recorder, which is about to end.
const REPORT_OURS: Duration = Duration::from_secs(10);
/// Requests that have a thread of their own at a time.
const AT_ONCE: usize = 8;
/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Tells the thread that answers requests that another directory may have come in place of this one. Until it is checked
/// for the first time, that thread checks the directory itself.
pub struct Doorbell {
    directory: PathBuf,
    shared: Arc<Rung>,
    /// The name of the directory's socket at the last check.
    name: Option<String>,
}

impl Doorbell {
    /// Checks the directory, and rings if it is another one. Call this each second, on a thread that may wait for the
    /// disk.
    pub fn check(&mut self) {
        let name = own_name(&self.directory).ok().map(|(name, _)| name);
        // a removed directory may come back
        if name.is_some() && name != self.name {
            self.name = name;
            self.shared.is_checked.store(true, Ordering::Relaxed);
            self.shared.bell.ring();
        }
    }
}

/// What both ends of a doorbell share.
struct Rung {
    bell: Bell,
    is_checked: AtomicBool,
}

/// Answers requests about a directory on its own thread, for as long as the program runs. `warn` gets lines for people:
/// that there can be no socket, or that another process has its name. The doorbell must be checked each second.
///
/// # Errors
/// The system refuses the thread.
pub fn serve(
    directory: &Path,
    answer: impl Fn(Request) -> Reply + Clone + Send + 'static,
    warn: impl FnMut(String) + Send + 'static,
) -> io::Result<Doorbell> {
    let rung = Arc::new(Rung { bell: Bell::default(), is_checked: AtomicBool::new(false) });
    let doorbell = Doorbell { directory: directory.to_owned(), shared: rung.clone(), name: None };
    let server = Server {
        directory: directory.to_owned(),
        rung,
        warn,
        warned: String::new(),
        bound: None,
        taken_since: None,
    };
    aside::start("control", Box::new(move || server.run(&answer)))?;
    Ok(doorbell)
}

struct Server<W> {
    directory: PathBuf,
    rung: Arc<Rung>,
    warn: W,
    /// The last warning, which is not repeated.
    warned: String,
    bound: Option<Bound>,
    /// Since when another recorder has had the name, until that is reported.
    taken_since: Option<Instant>,
}

impl<W: FnMut(String)> Server<W> {
    fn run(mut self, answer: &(impl Fn(Request) -> Reply + Clone + Send + 'static)) {
        let others = Arc::new(());
        loop {
            let Rung { bell, is_checked } = &*self.rung.clone();
            bell.hear();
            self.follow_name();
            // a name that was taken may be free, and a taken one is reported after a while
            let has_name = self.bound.as_ref().is_some_and(|bound| !bound.has_other_name);
            let waits = has_name && is_checked.load(Ordering::Relaxed) && bell.as_fd().is_some();
            let limit = (!waits).then_some(CHECK);
            match &self.bound {
                Some(bound) => {
                    let streams = bound.accept(bell, limit).into_iter();
                    streams.for_each(|stream| answer_aside(stream, answer, &others));
                }
                None => thread::sleep(CHECK),
            }
        }
    }

    /// Makes the socket follow the name of the directory that is there now.
    fn follow_name(&mut self) {
        // a removed directory may come back: the socket stays until then
        if let Ok(Some((name, owner))) = self.missing_name() {
            // the previous directory's socket is useless, but could still be found
            self.bound = self.bound.take().filter(|bound| bound.name == name);
            match Bound::take(name, owner) {
                Ok((_, Some(_))) if self.bound.is_some() => {} // still taken
                Ok((bound, holder)) => {
                    self.taken_since = holder.is_some().then(Instant::now);
                    self.bound = Some(bound);
                    if let Some(holder) = holder.filter(|holder| !holder.is_ours) {
                        self.warn_once(name_is_taken(&holder.text));
                    }
                }
                Err(error) => {
                    self.warn_once(format!(
                        "iocrec mark and status cannot reach this recorder: no socket: {error}"
                    ));
                }
            }
        }
        let bound = self.bound.as_ref().filter(|bound| bound.has_other_name);
        let is_due = self.taken_since.is_some_and(|since| since.elapsed() > REPORT_OURS);
        if let Some(bound) = bound.filter(|_| is_due) {
            let line = name_is_taken(&NameHolder::of(&bound.name, own_user()).text);
            self.taken_since = None;
            self.warn_once(line);
        }
    }

    /// The name that the socket should have but does not, with the directory's owner.
    fn missing_name(&self) -> io::Result<Option<(String, u32)>> {
        let (name, owner) = own_name(&self.directory)?;
        let has_it = self.bound.as_ref().is_some_and(|bound| bound.name == name && !bound.has_other_name);
        Ok((!has_it).then_some((name, owner)))
    }

    fn warn_once(&mut self, line: String) {
        if self.warned != line {
            self.warned.clone_from(&line);
            (self.warn)(line);
        }
    }
}

fn name_is_taken(holder: &str) -> String {
    format!(
        "{holder} has the socket name by which iocrec status and mark would reach this recorder; they find it by \
         another name"
    )
}

/// A listening socket.
struct Bound {
    listener: UnixListener,
    /// The name that it should have.
    name: String,
    /// Whether it has a number appended, since the name was taken.
    has_other_name: bool,
}

impl Bound {
    /// Takes a name; if another process has it, takes it with a random number appended. Returns that process.
    fn take(name: String, owner: u32) -> io::Result<(Bound, Option<NameHolder>)> {
        let error = match listen(&name) {
            Ok(listener) => return Ok((Bound { listener, name, has_other_name: false }, None)),
            Err(error) => error,
        };
        if error.kind() != io::ErrorKind::AddrInUse {
            return Err(error);
        }
        let holder = NameHolder::of(&name, owner);
        let mut number = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut number)?;
        let listener = listen(&format!("{name}/{:016x}", u64::from_ne_bytes(number)))?;
        Ok((Bound { listener, name, has_other_name: true }, Some(holder)))
    }

    /// Waits for a client until the bell rings, for `limit` at most.
    fn accept(&self, bell: &Bell, limit: Option<Duration>) -> Option<UnixStream> {
        let mut polled = vec![PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
        polled.extend(bell.as_fd().map(|bell| PollFd::new(bell, PollFlags::POLLIN)));
        let limit = limit
            .map_or(PollTimeout::NONE, |limit| PollTimeout::try_from(limit).unwrap_or(PollTimeout::ZERO));
        poll(&mut polled, limit).ok()?;
        match self.listener.accept() {
            Ok((stream, _)) => stream.set_nonblocking(false).is_ok().then_some(stream),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            // most likely out of descriptors: without a pause this would spin
            Err(_) => {
                thread::sleep(ACCEPT_PAUSE);
                None
            }
        }
    }
}

fn listen(name: &str) -> io::Result<UnixListener> {
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    // do not wait for a client that goes away between poll and accept
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The process that has a name that a recorder wants.
pub(super) struct NameHolder {
    /// Its description for people.
    pub text: String,
    /// Whether it is a recorder of ours, which is most likely about to end.
    is_ours: bool,
}

impl NameHolder {
    /// Finds the process that has a name; `owner` owns the directory.
    pub fn of(name: &str, owner: u32) -> NameHolder {
        let peer = reach(name).ok().and_then(|stream| getsockopt(&stream, PeerCredentials).ok());
        let holder = match peer.map(|peer| (peer.pid(), peer.uid())) {
            Some((pid, uid)) if pid > 0 => {
                // this is the listener; by now another process may have the socket
                let holder = directory::process(pid.unsigned_abs(), owner);
                if holder.uid.is_some_and(|found| found != uid) {
                    return NameHolder { text: format!("process {pid} of user {uid}"), is_ours: false };
                }
                Some(holder)
            }
            Some((_, uid)) => {
                let text = format!("a process of user {uid} that cannot be seen from here");
                return NameHolder { text, is_ours: false };
            }
            None => directory::of_socket(name, owner),
        };
        match holder {
            Some(holder) => {
                NameHolder { text: holder.to_string(), is_ours: holder.kind != HolderKind::Stranger }
            }
            None => NameHolder { text: "a process that cannot be seen from here".into(), is_ours: false },
        }
    }
}

/// Answers on a thread of its own: a mark waits for the disk, which may hang, and meanwhile others ask for the status, or make
/// marks. If `others` are many already, or the system has no thread to spare, answers here.
fn answer_aside(
    stream: UnixStream,
    answer: &(impl Fn(Request) -> Reply + Clone + Send + 'static),
    others: &Arc<()>,
) {
    // who is not trusted costs no thread
    if !is_trusted(&stream, 0) {
        return;
    }
    let here = stream.try_clone();
    let has_room = Arc::strong_count(others) <= AT_ONCE;
    let (own, counted) = (answer.clone(), others.clone());
    let work = move || {
        answer_one(stream, &own);
        drop(counted);
    };
    let is_aside = has_room && aside::start("answer", Box::new(work)).is_ok();
    if !is_aside {
        here.into_iter().for_each(|stream| answer_one(stream, answer));
    }
}

/// Reads a request and replies. A client that is too slow or goes away gets no reply.
fn answer_one(mut stream: UnixStream, answer: &impl Fn(Request) -> Reply) {
    let limits = stream.set_read_timeout(Some(TIMEOUT)).and(stream.set_write_timeout(Some(TIMEOUT)));
    if limits.is_err() {
        return;
    }
    let mut bytes = Vec::new();
    if (&stream).take(MAX_BYTES as u64).read_to_end(&mut bytes).is_err() {
        return;
    }
    let reply = Request::decode(&bytes).map_or_else(
        || Reply::Refused("this recorder does not know the request; is it of another version?".into()),
        answer,
    );
    let _ = stream.write_all(reply.encode().as_bytes());
}
