//! Who looks at other processes, and how long that may take.
//!
//! What belongs to others may never answer: a page of memory that a file system of theirs must fill, a library on a
//! server that is gone, a lock of the kernel's that one of their threads holds for ever. A thread that waits for such a thing
//! can't be ended, nor can the process that it belongs to. So the system calls that may block are done by *reader
//! processes* ([`client`], `child`), small children that are asked by message and given up where no answer comes in
//! time; all logic stays here. A thread that has called [`read_aside`] reads through one of its own.
//!
//! Two kinds of threads look at processes:
//!
//! * one that looks at a process as a whole begins a [`Look`]: the look has a budget of bytes and time, and once something
//!   was refused all else is, too, until the next look;
//! * the recorder's loop reads a little here and there (`Briefly`): for it a process that has not answered once
//!   is silent until a whole look at it has succeeded ([`speaks`]).
//!
//! What can't block (/proc/PID/stat and the like) is read in place, and so is everything on a thread that has not
//! called [`read_aside`], as in tests.

pub mod budget;
mod child;
pub mod client;
pub mod file;
pub(super) mod shared;

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::linux::proc;
use crate::linux::reader::budget::{Budget, Refused};
use crate::linux::reader::client::{NoAnswer, Reader};
use crate::linux::reader::shared::{Page, Question, DATA, PATH, PLACES};

/// How long a whole look waits for one read.
const PATIENT: Duration = Duration::from_secs(1);
/// The same for a probe: another one that is being taken out is waited for, which takes the kernel some grace periods.
const PATIENT_FOR_EVENTS: Duration = Duration::from_secs(5);
/// How long the loop waits for one read: what is in memory comes within some microseconds, a page from a disk within
/// some milliseconds.
const BRIEFLY: Duration = Duration::from_millis(100);
/// The loop waits in vain so often in [`VAIN_TIME`] at most; then everything of that user's is silent until it is over.
const VAIN: usize = 3;
const VAIN_TIME: Duration = Duration::from_secs(10);

/// Bytes of a list of mappings at most.
const MOST_MAPS: u64 = 8 << 20;

/// Of one thread.
pub(super) struct Aside {
    reader: Option<Reader>,
    /// A whole look at a process.
    look: Option<(u32, Budget)>,
    /// The reader may have something open.
    open: bool,
    /// Why what is asked in this look is refused.
    pub(super) refused: Option<Refused>,
    /// Processes that have not answered the loop, and since when.
    silent: HashMap<u32, Instant>,
    /// When the loop has waited in vain, and because of which user.
    vain: Vec<(Instant, Option<u32>)>,
}

thread_local! {
    pub(super) static ASIDE: RefCell<Option<Aside>> = const { RefCell::new(None) };
}

/// From now on what this thread reads of other processes is read by a reader process.
pub fn read_aside() {
    ASIDE.set(Some(Aside {
        reader: Reader::start().ok(),
        look: None,
        open: false,
        refused: None,
        silent: HashMap::new(),
        vain: Vec::new(),
    }));
}

/// A look at a process as a whole; ends when it goes.
pub struct Look(());

impl Look {
    /// Begins to look at a process, on this thread.
    pub fn begin(pid: u32, bytes: u64, time: Duration) -> Look {
        ASIDE.with_borrow_mut(|aside| {
            if let Some(aside) = aside {
                aside.look = Some((pid, Budget::new(bytes, time)));
                aside.refused = None;
            }
        });
        Look(())
    }

    /// Why something was refused, if it was. What was found is not all then.
    pub fn end(self) -> Option<Refused> {
        // what is closed may not answer either, and is this process's fault
        let _ = ask(None, Question::Close, |_| ());
        ASIDE.with_borrow(|aside| aside.as_ref()?.refused)
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        ASIDE.with_borrow_mut(|aside| {
            if let Some(aside) = aside {
                aside.look = None;
            }
        });
    }
}

/// A look at this process has succeeded: the loop may ask it again. To be called on the loop's thread.
pub fn speaks(pid: u32) {
    ASIDE.with_borrow_mut(|aside| {
        if let Some(aside) = aside {
            aside.silent.remove(&pid);
        }
    });
}

/// The processes that have not answered the loop, and since when; to be called on its thread.
pub fn silent() -> Vec<(u32, Instant)> {
    let of = |aside: &Aside| aside.silent.iter().map(|(pid, since)| (*pid, *since)).collect();
    ASIDE.with_borrow(|aside| aside.as_ref().map_or_else(Vec::new, of))
}

/// Does this thread read through a reader process?
fn is_aside() -> bool {
    ASIDE.with_borrow(Option::is_some)
}

/// Does it look at a process as a whole?
fn is_looking() -> bool {
    ASIDE.with_borrow(|aside| aside.as_ref().is_some_and(|aside| aside.look.is_some()))
}

type Given = (usize, Option<OwnedFd>);

/// Asks this thread's reader about a process. `None`: this thread has none.
fn ask(pid: Option<u32>, question: Question, words: impl FnOnce(&mut Page)) -> Option<io::Result<Given>> {
    ASIDE.with_borrow_mut(|aside| aside.as_mut().map(|aside| aside.ask(pid, question, words)))
}

impl Aside {
    fn ask(
        &mut self,
        pid: Option<u32>,
        question: Question,
        words: impl FnOnce(&mut Page),
    ) -> io::Result<Given> {
        let subject = self.look.as_ref().map(|(pid, _)| *pid).or(pid);
        let time = if let Some((_, budget)) = &mut self.look {
            let closes = question == Question::Close;
            if let Some(refused) = self.refused.or(budget.take(0).err()).filter(|_| !closes) {
                self.refused = Some(refused);
                return Err(refused.into());
            }
            if question == Question::Event {
                PATIENT_FOR_EVENTS
            } else {
                PATIENT
            }
        } else {
            if self.is_silent(subject) {
                return Err(Refused::NoAnswer.into());
            }
            BRIEFLY
        };
        match question {
            Question::Close if !self.open || self.reader.is_none() => return Ok((0, None)),
            Question::Close => self.open = false,
            Question::Contents | Question::Open | Question::Read | Question::Map => self.open = true,
            _ => {}
        }
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => Reader::start().inspect_err(|_| self.refused = Some(Refused::Crowded))?,
        };
        words(reader.page());
        match reader.ask(question, time) {
            Ok(answer) => {
                self.reader = Some(reader);
                if let (Ok((bytes, _)), Some((_, budget))) = (&answer, &mut self.look) {
                    if let Err(refused) = budget.take(*bytes as u64) {
                        self.refused = Some(refused);
                        return Err(refused.into());
                    }
                }
                answer
            }
            Err(reason) => {
                // by number, since to look its name up would be one more thing to wait for
                let user = subject.and_then(proc::user_id);
                reader.give_up(user);
                if reason == NoAnswer::InTime && self.look.is_none() {
                    self.silent.extend(subject.map(|pid| (pid, Instant::now())));
                    self.vain.truncate(VAIN * VAIN);
                    self.vain.insert(0, (Instant::now(), user));
                }
                self.refused = Some(Refused::NoAnswer);
                Err(Refused::NoAnswer.into())
            }
        }
    }

    /// Is the loop not to ask it?
    fn is_silent(&mut self, pid: Option<u32>) -> bool {
        if pid.is_some_and(|pid| self.silent.contains_key(&pid)) {
            return true;
        }
        if self.vain.is_empty() {
            return false;
        }
        if client::stuck() > 0 && !client::may_ask(pid.and_then(proc::user_id)) {
            return true;
        }
        // as long as a reader is held up it is kept in mind whose fault that was
        if client::stuck() == 0 {
            self.vain.retain(|(time, _)| time.elapsed() < VAIN_TIME);
        }
        let lately = |(time, _): &&(Instant, Option<u32>)| time.elapsed() < VAIN_TIME;
        self.vain.iter().filter(lately).count() >= VAIN && {
            let user = pid.and_then(proc::user_id);
            self.vain.iter().any(|(_, other)| *other == user)
        }
    }
}

/// Puts a path where the reader looks for it.
fn put_path(page: &mut Page, path: &Path) {
    let bytes = path.as_os_str().as_bytes();
    // one that is too long leads nowhere
    let bytes = if bytes.len() < PATH { bytes } else { b"" };
    page.path = [0; PATH];
    page.path.iter_mut().zip(bytes).for_each(|(into, byte)| *into = *byte);
}

/// Hands over what this thread's reader has read last, and what lies behind it.
fn with_data<T: Default>(take: impl FnOnce(&[u8]) -> T) -> T {
    ASIDE.with_borrow_mut(|aside| {
        let reader = aside.as_mut().and_then(|aside| aside.reader.as_mut());
        reader.map_or_else(T::default, |reader| take(&reader.page().data))
    })
}

fn answered(bytes: usize) -> Vec<u8> {
    with_data(|data| data.get(..bytes).unwrap_or_default().to_vec())
}

/// What is in a file of /proc, up to `most` bytes; `None` on a thread that reads in place.
///
/// # Errors
/// It can't be read, or not in time.
pub fn contents(path: &Path, most: u64) -> Option<io::Result<Vec<u8>>> {
    let first = ask(pid_in(path), Question::Contents, |page| {
        put_path(page, path);
        page.length = most.min(DATA as u64);
    })?;
    let mut bytes = match first {
        Ok((have, _)) => answered(have),
        Err(error) => return Some(Err(error)),
    };
    let mut last = bytes.len();
    while last == DATA && (bytes.len() as u64) < most {
        let left = (most - bytes.len() as u64).min(DATA as u64);
        match ask(pid_in(path), Question::More, |page| page.length = left)? {
            Ok((have, _)) => {
                bytes.extend(answered(have));
                last = have;
            }
            Err(error) => return Some(Err(error)),
        }
    }
    Some(Ok(bytes))
}

/// The process in a path like /proc/PID/maps.
fn pid_in(path: &Path) -> Option<u32> {
    path.to_str()?.strip_prefix("/proc/")?.split('/').next()?.parse().ok()
}

/// Where a link leads; `None` on a thread that reads in place.
///
/// # Errors
/// It is none, or can't be read, or not in time.
pub fn link(path: &Path) -> Option<io::Result<PathBuf>> {
    let answer = ask(pid_in(path), Question::Link, |page| put_path(page, path))?;
    Some(answer.map(|(have, _)| PathBuf::from(std::ffi::OsString::from_vec(answered(have)))))
}

/// Fills `into` from these places (address, length) in a process's memory, as far as they are there: how many bytes.
/// `thread` is the one that is asked. `None` on a thread that reads in place.
///
/// # Errors
/// Nothing is there, or it can't be read, or not in time.
pub fn memory(
    pid: u32,
    thread: i32,
    into: &mut [u8],
    places: &[(usize, usize)],
) -> Option<io::Result<usize>> {
    if !is_aside() {
        return None;
    }
    // long ones in parts, since an answer has room for so much
    let parts = places.iter().flat_map(|&(address, length)| {
        (0..length).step_by(DATA).map(move |at| (address.wrapping_add(at), DATA.min(length - at)))
    });
    let mut parts = parts.peekable();
    let (mut batch, mut copied) = (Vec::with_capacity(places.len().min(PLACES)), 0);
    while parts.peek().is_some() {
        batch.clear();
        let mut bytes = 0;
        while let Some(part) = parts.next_if(|part| batch.len() < PLACES && bytes + part.1 <= DATA) {
            bytes += part.1;
            batch.push(part);
        }
        match piece(pid, thread, into.get_mut(copied..).unwrap_or_default(), &batch) {
            Ok(have) => {
                copied += have;
                if have < bytes {
                    break;
                }
            }
            Err(error) if copied == 0 => return Some(Err(error)),
            Err(_) => break,
        }
    }
    Some(Ok(copied))
}

/// As much as one answer has room for.
fn piece(pid: u32, thread: i32, into: &mut [u8], places: &[(usize, usize)]) -> io::Result<usize> {
    let answer = ask(Some(pid), Question::Memory, |page| {
        page.thread = thread;
        page.count = places.len() as u64;
        page.places.iter_mut().zip(places).for_each(|(to, from)| *to = *from);
        put_path(page, Path::new(&format!("/proc/{thread}/mem")));
    });
    let (have, _) = answer.unwrap_or(Err(io::ErrorKind::Unsupported.into()))?;
    with_data(|data| into.iter_mut().zip(data.iter().take(have)).for_each(|(to, from)| *to = *from));
    Ok(have)
}

/// The nodes of a list in a process's memory, one behind the other, each beginning with the next one's address in
/// `width` bytes: as many as one answer has room for, `count` at most; `bytes` is the length of each. `None` on a thread that
/// reads in place.
///
/// # Errors
/// Not even the first is there, or it can't be read, or not in time.
pub fn list(
    pid: u32,
    thread: i32,
    first: u64,
    bytes: usize,
    count: usize,
    width: usize,
) -> Option<io::Result<Vec<u8>>> {
    let answer = ask(Some(pid), Question::List, |page| {
        page.thread = thread;
        page.offset = first;
        page.length = bytes as u64;
        page.count = count as u64;
        page.width = width as u32;
        put_path(page, Path::new(&format!("/proc/{thread}/mem")));
    })?;
    Some(answer.map(|(have, _)| answered(have * bytes)))
}
