//! The reader process of each thread: its state, deadlines and budgets.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::linux::proc;
use crate::linux::reader::budget::{Budget, Refused};
use crate::linux::reader::client::{self, ReaderError, ReaderProcess};
use crate::linux::reader::shared::{Buffer, Request, MAX_PATH};

/// Deadline of one read of an inspection.
const INSPECTION_DEADLINE: Duration = Duration::from_secs(1);
/// The same for placing a probe: it waits for the removal of others, which takes the kernel some grace periods.
const PROBE_DEADLINE: Duration = Duration::from_secs(5);
/// Deadline of one read by the loop: pages in memory arrive within some microseconds, a page from a disk within some
/// milliseconds.
const LOOP_DEADLINE: Duration = Duration::from_millis(100);
/// Deadlines that the loop may miss within [`TIMEOUT_WINDOW`]. After that all processes of that user are unresponsive
/// until the window has passed.
const MAX_TIMEOUTS: usize = 3;
const TIMEOUT_WINDOW: Duration = Duration::from_secs(10);
/// Time that the loop may wait within [`TIMEOUT_WINDOW`] for processes of a user that answer before the deadline. After that it
/// counts as a deadline that was missed: else reads that take nearly as long each would leave it no time for others.
const MAX_WAITS: Duration = Duration::from_millis(300);
/// Users of whom that is known.
const MAX_USERS: usize = 64;

/// State of one thread.
struct ThreadReader {
    reader: Option<ReaderProcess>,
    /// The current inspection: its process and budget.
    inspection: Option<(u32, Budget)>,
    /// Whether the reader may have a file open.
    has_open: bool,
    /// Why the rest of this inspection is refused.
    refused: Option<Refused>,
    /// Processes that have not answered the loop, and since when.
    unresponsive: HashMap<u32, Instant>,
    /// Deadlines that the loop has missed, newest first, with the users of those processes.
    timeouts: Vec<(Instant, Option<u32>)>,
    /// Time that the loop has waited for a user's processes, and since when that is counted.
    waits: Vec<(Option<u32>, Instant, Duration)>,
}

thread_local! {
    static STATE: RefCell<Option<ThreadReader>> = const { RefCell::new(None) };
}

/// From now on this thread reads other processes through a reader process of its own.
pub fn use_reader_process() {
    STATE.set(Some(ThreadReader::new(ReaderProcess::start().ok())));
}

/// The inspection of one process, with a budget; ends when it is dropped.
pub struct Inspection(());

impl Inspection {
    /// Begins to inspect a process on this thread: reads at most `bytes`, for at most `time`.
    pub fn begin(pid: u32, bytes: u64, time: Duration) -> Inspection {
        STATE.with_borrow_mut(|state| {
            if let Some(state) = state {
                state.inspection = Some((pid, Budget::new(bytes, time)));
                state.refused = None;
            }
        });
        Inspection(())
    }

    /// Why a read was refused, if one was; the findings are then incomplete.
    pub fn end(self) -> Option<Refused> {
        // closing a file may block as well, and counts for this process
        let _ = request(None, Request::Close, |_| ());
        refused()
    }
}

impl Drop for Inspection {
    fn drop(&mut self) {
        STATE.with_borrow_mut(|state| {
            if let Some(state) = state {
                state.inspection = None;
            }
        });
    }
}

/// Why a read of this inspection was refused, if one was so far.
pub(in crate::linux) fn refused() -> Option<Refused> {
    STATE.with_borrow(|state| state.as_ref()?.refused)
}

/// An inspection of this process has succeeded, so the loop may read it again. Call it on the loop's thread.
pub fn mark_responsive(pid: u32) {
    STATE.with_borrow_mut(|state| {
        if let Some(state) = state {
            state.unresponsive.remove(&pid);
        }
    });
}

/// The processes that have not answered the loop, and since when. Call it on the loop's thread.
pub fn unresponsive() -> Vec<(u32, Instant)> {
    let list = |state: &ThreadReader| state.unresponsive.iter().map(|(pid, since)| (*pid, *since)).collect();
    STATE.with_borrow(|state| state.as_ref().map_or_else(Vec::new, list))
}

/// Whether this thread has a reader process.
pub(super) fn has_reader() -> bool {
    STATE.with_borrow(Option::is_some)
}

/// Whether an inspection is under way on this thread.
pub(super) fn is_inspecting() -> bool {
    STATE.with_borrow(|state| state.as_ref().is_some_and(|state| state.inspection.is_some()))
}

/// A number of bytes, or the number that the request returns, and a descriptor.
type Reply = (usize, Option<OwnedFd>);

/// Sends a request about a process to this thread's reader process; `fill` writes the parameters. `None`: this thread
/// has no reader.
pub(super) fn request(
    pid: Option<u32>,
    request: Request,
    fill: impl FnOnce(&mut Buffer),
) -> Option<io::Result<Reply>> {
    STATE.with_borrow_mut(|state| state.as_mut().map(|state| state.request(pid, request, fill)))
}

impl ThreadReader {
    fn new(reader: Option<ReaderProcess>) -> ThreadReader {
        ThreadReader {
            reader,
            inspection: None,
            has_open: false,
            refused: None,
            unresponsive: HashMap::new(),
            timeouts: Vec::new(),
            waits: Vec::new(),
        }
    }

    fn request(
        &mut self,
        pid: Option<u32>,
        request: Request,
        fill: impl FnOnce(&mut Buffer),
    ) -> io::Result<Reply> {
        let subject = self.inspection.as_ref().map(|(pid, _)| *pid).or(pid);
        let deadline = if let Some((_, budget)) = &mut self.inspection {
            let closes = request == Request::Close;
            if let Some(refused) = self.refused.or(budget.take(0).err()).filter(|_| !closes) {
                self.refused = Some(refused);
                return Err(refused.into());
            }
            if request == Request::Event {
                PROBE_DEADLINE
            } else {
                INSPECTION_DEADLINE
            }
        } else {
            if self.is_unresponsive(subject) {
                return Err(Refused::NoAnswer.into());
            }
            LOOP_DEADLINE
        };
        match request {
            Request::Close if !self.has_open || self.reader.is_none() => return Ok((0, None)),
            Request::Close => self.has_open = false,
            Request::Contents | Request::Open | Request::Read | Request::Map => self.has_open = true,
            _ => {}
        }
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => ReaderProcess::start().inspect_err(|error| {
                let is_stuck = error.raw_os_error().is_none();
                self.refused = Some(if is_stuck { Refused::TooManyStuck } else { Refused::NoRoom });
            })?,
        };
        fill(reader.buffer());
        match reader.request(request, deadline) {
            Ok(reply) => {
                let waited = reader.take_waited();
                self.reader = Some(reader);
                if self.inspection.is_none() {
                    self.note_wait(subject, waited);
                }
                if let (Ok((bytes, _)), Some((_, budget))) = (&reply, &mut self.inspection) {
                    // that of a mapping is its address
                    let bytes = if request == Request::Map { 0 } else { *bytes as u64 };
                    if let Err(refused) = budget.take(bytes) {
                        self.refused = Some(refused);
                        return Err(refused.into());
                    }
                }
                // the kernel leaves out a descriptor that there is no room for
                let passes_one = matches!(request, Request::Name | Request::Event);
                let is_left_out = passes_one && matches!(reply, Ok((_, None)));
                let lacks_room = reply.as_ref().err().and_then(Refused::by);
                self.refused = lacks_room.or(is_left_out.then_some(Refused::NoRoom)).or(self.refused);
                reply
            }
            Err(error) => {
                // by number, since looking up the name could block as well
                let user = subject.and_then(proc::sharer);
                reader.abandon(user);
                if error == ReaderError::Timeout && self.inspection.is_none() {
                    self.note_missed(subject, user);
                }
                let refused = match error {
                    ReaderError::Timeout => Refused::NoAnswer,
                    ReaderError::Died => Refused::Killed,
                };
                self.refused = Some(refused);
                Err(refused.into())
            }
        }
    }

    /// Notes that the loop has missed a deadline.
    fn note_missed(&mut self, subject: Option<u32>, user: Option<u32>) {
        self.unresponsive.extend(subject.map(|pid| (pid, Instant::now())));
        self.timeouts.truncate(MAX_TIMEOUTS * MAX_TIMEOUTS);
        self.timeouts.insert(0, (Instant::now(), user));
    }

    /// Notes that the loop has waited for a process that has answered.
    fn note_wait(&mut self, subject: Option<u32>, waited: Duration) {
        if waited.is_zero() {
            return;
        }
        let user = subject.and_then(proc::sharer);
        self.waits.retain(|(_, since, _)| since.elapsed() < TIMEOUT_WINDOW);
        let known = self.waits.iter().position(|(of, ..)| *of == user).map(|at| self.waits.swap_remove(at));
        let (_, since, before) = known.unwrap_or((user, Instant::now(), Duration::ZERO));
        if before + waited >= MAX_WAITS {
            self.note_missed(subject, user);
        } else if self.waits.len() < MAX_USERS {
            self.waits.push((user, since, before + waited));
        }
    }

    /// Whether the loop must not read this process.
    fn is_unresponsive(&mut self, pid: Option<u32>) -> bool {
        if pid.is_some_and(|pid| self.unresponsive.contains_key(&pid)) {
            return true;
        }
        if self.timeouts.is_empty() {
            return false;
        }
        if client::stuck() > 0 && !client::may_ask(pid.and_then(proc::sharer)) {
            return true;
        }
        // while a reader is stuck, remember the user who caused it
        if client::stuck() == 0 {
            self.timeouts.retain(|(time, _)| time.elapsed() < TIMEOUT_WINDOW);
        }
        let lately = |(time, _): &&(Instant, Option<u32>)| time.elapsed() < TIMEOUT_WINDOW;
        self.timeouts.iter().filter(lately).count() >= MAX_TIMEOUTS && {
            let user = pid.and_then(proc::sharer);
            self.timeouts.iter().any(|(_, other)| *other == user)
        }
    }
}

/// Writes a path into the request.
pub(super) fn put_path(buffer: &mut Buffer, path: &Path) {
    let bytes = path.as_os_str().as_bytes();
    // a path that is too long leads nowhere
    let bytes = if bytes.len() < MAX_PATH { bytes } else { b"" };
    buffer.path = [0; MAX_PATH];
    buffer.path.iter_mut().zip(bytes).for_each(|(into, byte)| *into = *byte);
}

/// Passes on this thread's buffer, with the reply to its last request.
pub(super) fn with_buffer<T: Default>(take: impl FnOnce(&Buffer) -> T) -> T {
    STATE.with_borrow_mut(|state| {
        let reader = state.as_mut().and_then(|state| state.reader.as_mut());
        reader.map_or_else(T::default, |reader| take(reader.buffer()))
    })
}

/// Passes on the bytes of this thread's last read, and the rest of the buffer behind them.
pub(super) fn with_data<T: Default>(take: impl FnOnce(&[u8]) -> T) -> T {
    with_buffer(|buffer| take(&buffer.data))
}

/// Copies the first `have` bytes of this thread's last read, as far as there is room.
pub(super) fn take_data(into: &mut [u8], have: usize) {
    with_data(|data| {
        let have = have.min(into.len()).min(data.len());
        if let (Some(into), Some(data)) = (into.get_mut(..have), data.get(..have)) {
            into.copy_from_slice(data);
        }
    });
}

/// The process in a path like /proc/PID/maps.
pub(super) fn pid_in(path: &Path) -> Option<u32> {
    path.to_str()?.strip_prefix("/proc/")?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_that_take_nearly_too_long_count_as_deadlines_that_were_missed() {
        let mut state = ThreadReader::new(None);
        let own = Some(std::process::id());
        state.note_wait(own, Duration::ZERO);
        assert!(state.waits.is_empty());
        for missed in 1..=MAX_TIMEOUTS {
            assert!(!state.is_unresponsive(own));
            (0..4).for_each(|_| state.note_wait(own, LOOP_DEADLINE * 9 / 10));
            assert_eq!((state.timeouts.len(), state.unresponsive.len()), (missed, 1));
            // an inspection has succeeded
            state.unresponsive.clear();
        }
        assert!(state.is_unresponsive(own), "all of this user");
        assert!(!state.is_unresponsive(Some(u32::MAX)), "of nobody");
    }
}
