//! The processes that have opened circuits, told by the kernel at that moment ([`crate::net::connects`]).
//!
//! A client that ends within milliseconds is gone before its packets are handed over. Its pid, its name and its user are
//! known all the same; the rest is read from /proc at once, on a thread of its own, if the process still lives. A burst
//! of clients does not keep that thread busy: it looks at so many of them in a second, and takes the others as told.
//!
//! Whose circuit it is, is not guessed: the segment that opened it has a sequence number, which the kernel has told with
//! the process. So a process is not taken for another that has had the same port before.

use std::collections::{HashMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::mpsc::{channel, sync_channel, Receiver, Sender, SyncSender, TryRecvError};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use iocrec_log::event::{Address, SocketHolder};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};

use super::look::describe;
use crate::linux::aside;
use crate::linux::bell::Bell;
use crate::linux::user;
use crate::net::connects::{Connect, Connects};
use crate::net::Namespace;

/// Processes and opening segments that are remembered: those of a second and more of a busy machine, which is longer than
/// packets take.
const MAX_KNOWN: usize = 1024;
const MAX_OPENINGS: usize = 2048;
/// Processes that are looked at: in a second, and at once. A look takes some 0.1 ms.
const LOOKS: u64 = 100;
const BURST: u64 = 50;
/// Pause after processes were told: so the thread wakes at most 500 times a second. In a burst, of which none is looked at
/// any more, it is this long: 4 KiB of those told then are 3,000 a second.
const PAUSE: Duration = Duration::from_millis(2);
const LONG_PAUSE: Duration = Duration::from_millis(15);
/// Time for which what was seen of the process that was looked at last is taken for all its connections.
const SEEN_LASTS: Duration = Duration::from_secs(1);
/// Time for which users' names are remembered, and how many.
const NAMES_LAST: Duration = Duration::from_secs(10);
const MAX_NAMES: usize = 64;

/// A connection: the network namespace of its packets, client and server.
pub(super) type Pair = (Namespace, Address, Address);

/// A process that has opened a connection, and what is known of it.
struct Known {
    pair: Pair,
    sequence: u32,
    holder: SocketHolder,
    /// Whether it was looked at: what the kernel tells comes first, since a look may take its time.
    is_described: bool,
}

impl Known {
    fn of(connect: &Connect, holder: SocketHolder, is_described: bool) -> Known {
        let pair = (connect.namespace, connect.client, connect.server);
        Known { pair, sequence: connect.sequence, holder, is_described }
    }
}

/// A segment that opens a connection.
struct Opening {
    pair: Pair,
    sequence: u32,
    time: u64,
}

/// See the module.
#[derive(Default)]
pub(super) struct Connected {
    watcher: Option<Watcher>,
    known: VecDeque<Known>,
    openings: VecDeque<Opening>,
}

impl Connected {
    /// From now on takes what this capture of a namespace tells. `commands`: with command lines.
    pub fn watch(&mut self, namespace: Namespace, connects: Connects, commands: bool) {
        if self.watcher.is_none() {
            self.watcher = Watcher::start(commands);
        }
        if let Some(watcher) = &self.watcher {
            drop(watcher.rings.send((namespace, connects)));
            watcher.bell.ring();
        }
    }

    /// Whether anything is told.
    pub fn is_watching(&self) -> bool {
        self.watcher.is_some()
    }

    /// Takes over what was told. Returns whether that was anything.
    pub fn take(&mut self) -> bool {
        let Some(watcher) = &self.watcher else { return false };
        let mut any = false;
        // the queue is bounded
        while let Ok(known) = watcher.told.try_recv() {
            any = true;
            if !known.is_described {
                push(&mut self.known, known, MAX_KNOWN);
                continue;
            }
            let same = |of: &&mut Known| (of.pair, of.sequence) == (known.pair, known.sequence);
            if let Some(of) = self.known.iter_mut().rev().find(same) {
                of.holder = known.holder;
            }
        }
        any
    }

    /// Notes a segment that opens a connection.
    pub fn note_opening(&mut self, time: u64, pair: Pair, sequence: u32) {
        push(&mut self.openings, Opening { pair, sequence, time }, MAX_OPENINGS);
    }

    /// The process that has opened the circuit of this connection, of which a message was seen at a time.
    pub fn opener(&mut self, time: u64, pair: Pair) -> Option<SocketHolder> {
        // of clients on other machines nothing is told, and there may be thousands of openings
        if !self.known.iter().any(|known| known.pair == pair) {
            return None;
        }
        let of_pair = |opening: &&Opening| opening.pair == pair && opening.time <= time;
        let opening = self.openings.iter().rev().find(of_pair)?;
        let is_it = |known: &Known| known.pair == pair && known.sequence == opening.sequence;
        let at = self.known.iter().rposition(is_it)?;
        self.known.remove(at).map(|known| known.holder)
    }
}

pub(super) fn push<T>(to: &mut VecDeque<T>, new: T, most: usize) {
    if to.len() >= most {
        to.pop_front();
    }
    to.push_back(new);
}

/// The thread that waits for what is told.
struct Watcher {
    rings: Sender<(Namespace, Connects)>,
    bell: Arc<Bell>,
    told: Receiver<Known>,
}

impl Watcher {
    /// `None` if the system gives no thread.
    fn start(commands: bool) -> Option<Watcher> {
        let (rings, new_rings) = channel();
        let (tell, told) = sync_channel(MAX_KNOWN);
        let bell = Arc::new(Bell::default());
        let heard = bell.clone();
        let work = move || watch(&new_rings, &heard, &tell, commands);
        aside::start("connects", Box::new(work)).ok()?;
        Some(Watcher { rings, bell, told })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // so the thread sees that nobody listens any more
        let (rings, _) = channel();
        self.rings = rings;
        self.bell.ring();
    }
}

fn watch(new: &Receiver<(Namespace, Connects)>, bell: &Bell, tell: &SyncSender<Known>, commands: bool) {
    let mut rings: Vec<(Namespace, Connects)> = Vec::new();
    let mut describer = Describer::new(commands);
    let mut told = Vec::new();
    loop {
        wait(bell, &rings);
        bell.hear();
        loop {
            match new.try_recv() {
                Ok(ring) => rings.push(ring),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        for (namespace, ring) in &rings {
            ring.take(*namespace, &mut |connect| told.push(connect));
        }
        rings.retain(|(_, ring)| !ring.is_closed());
        if told.is_empty() {
            // one that the kernel is still writing is readable, but can't be taken
            thread::sleep(PAUSE);
            continue;
        }
        told.retain(|connect| {
            let seen = describer.seen(connect);
            let is_seen = seen.is_some();
            let holder = seen.unwrap_or_else(|| describer.as_told(connect));
            // if the recorder does not keep up, they stay unknown
            drop(tell.try_send(Known::of(connect, holder, false)));
            !is_seen
        });
        let mut pause = LONG_PAUSE;
        for connect in told.drain(..) {
            if let Some(holder) = describer.look(&connect) {
                drop(tell.try_send(Known::of(&connect, holder, true)));
                pause = PAUSE;
            }
        }
        thread::sleep(pause);
    }
}

/// Waits until something is told, or the bell rings.
fn wait(bell: &Bell, rings: &[(Namespace, Connects)]) {
    let mut polled: Vec<PollFd> = rings
        .iter()
        .map(|(_, ring)| {
            // SAFETY: the descriptor is the ring's, which outlives this call.
            let fd = unsafe { BorrowedFd::borrow_raw(ring.descriptor()) };
            PollFd::new(fd, PollFlags::POLLIN)
        })
        .collect();
    polled.extend(bell.as_fd().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
    // without a bell it looks for new rings now and then
    let longest = if bell.as_fd().is_some() { PollTimeout::NONE } else { PollTimeout::from(1000u16) };
    if poll(&mut polled, longest).is_err() {
        thread::sleep(PAUSE);
    }
}

/// Finds out what is to be known of processes that have just connected.
struct Describer {
    commands: bool,
    has_reader: bool,
    /// Looks that may be made now.
    looks: u64,
    counted: Instant,
    names: HashMap<u32, String>,
    named: Instant,
    /// The process that was looked at last, as the kernel told of it, when, and what was seen.
    last: Option<(Connect, Instant, SocketHolder)>,
}

impl Describer {
    fn new(commands: bool) -> Describer {
        let now = Instant::now();
        Describer {
            commands,
            has_reader: false,
            looks: BURST,
            counted: now,
            names: HashMap::new(),
            named: now,
            last: None,
        }
    }

    fn as_told(&mut self, connect: &Connect) -> SocketHolder {
        SocketHolder {
            pid: connect.pid,
            start: connect.start,
            program: connect.name.clone(),
            command: Vec::new(),
            is_cut: false,
            user: self.user(connect.user),
        }
    }

    /// What was seen of it, if it was looked at last.
    fn seen(&self, connect: &Connect) -> Option<SocketHolder> {
        let (last, at, seen) = self.last.as_ref()?;
        let is_it = (last.pid, last.start, last.user, &last.name)
            == (connect.pid, connect.start, connect.user, &connect.name);
        (is_it && at.elapsed() < SEEN_LASTS).then(|| seen.clone())
    }

    /// What /proc shows of it, if it still lives.
    fn look(&mut self, connect: &Connect) -> Option<SocketHolder> {
        if let Some(seen) = self.seen(connect) {
            return Some(seen);
        }
        if !self.may_look() {
            return None;
        }
        if !self.has_reader {
            crate::linux::reader::use_reader_process();
            self.has_reader = true;
        }
        let mut seen = describe(connect.pid, connect.start, self.commands)?;
        seen.user = self.user(connect.user);
        self.last = Some((connect.clone(), Instant::now(), seen.clone()));
        Some(seen)
    }

    fn may_look(&mut self) -> bool {
        let since = u64::try_from(self.counted.elapsed().as_millis()).unwrap_or(u64::MAX);
        let more = since.saturating_mul(LOOKS) / 1000;
        if more > 0 {
            (self.looks, self.counted) = (self.looks.saturating_add(more).min(BURST), Instant::now());
        }
        let may = self.looks > 0;
        self.looks = self.looks.saturating_sub(1);
        may
    }

    fn user(&mut self, number: u32) -> String {
        if self.named.elapsed() > NAMES_LAST || self.names.len() > MAX_NAMES {
            self.names.clear();
            self.named = Instant::now();
        }
        self.names.entry(number).or_insert_with(|| user::name_of(number)).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(port: u16) -> Pair {
        (7, Address::new([127, 0, 0, 1].into(), port), Address::new([127, 0, 0, 1].into(), 5064))
    }

    fn known(port: u16, sequence: u32, pid: u32) -> Known {
        let holder = SocketHolder {
            pid,
            start: 1,
            program: "caput".into(),
            command: Vec::new(),
            is_cut: false,
            user: "ops".into(),
        };
        Known { pair: pair(port), sequence, holder, is_described: false }
    }

    /// Two clients have had the same port one after the other, and a third, of which nothing was told.
    #[test]
    fn each_circuit_has_its_own_opener() {
        let mut connected = Connected::default();
        let pid = |connected: &mut Connected, time| connected.opener(time, pair(1)).map(|holder| holder.pid);
        connected.known.extend([known(1, 100, 11), known(2, 100, 12), known(1, 200, 13)]);
        for (time, sequence) in [(10, 100), (20, 200), (30, 300)] {
            connected.note_opening(time, pair(1), sequence);
        }
        assert_eq!(pid(&mut connected, 9), None, "before any of them");
        assert_eq!(pid(&mut connected, 19), Some(11));
        assert_eq!(pid(&mut connected, 19), None, "once");
        assert_eq!(pid(&mut connected, 31), None, "the third is not the second");
        assert_eq!(pid(&mut connected, 29), Some(13));
        assert_eq!(connected.opener(31, pair(2)), None, "its opening was not seen");
        assert_eq!(connected.known.len(), 1);
    }

    #[test]
    fn a_bounded_number_is_remembered() {
        let mut connected = Connected::default();
        for at in 0..3 * MAX_OPENINGS as u32 {
            connected.note_opening(u64::from(at), pair(1), at);
            push(&mut connected.known, known(1, at, at), MAX_KNOWN);
        }
        assert_eq!((connected.known.len(), connected.openings.len()), (MAX_KNOWN, MAX_OPENINGS));
        assert_eq!(
            connected.opener(u64::MAX, pair(1)).map(|holder| holder.pid),
            Some(3 * MAX_OPENINGS as u32 - 1)
        );
    }

    #[test]
    fn a_burst_of_processes_is_not_looked_at() {
        let mut describer = Describer::new(true);
        let looked = (0..10 * BURST).filter(|_| describer.may_look()).count() as u64;
        assert!((BURST..2 * BURST).contains(&looked), "{looked}");
    }

    #[test]
    fn a_process_that_is_gone_has_the_name_that_was_told() {
        /// Nobody runs the tests as this user.
        const ANOTHER: u32 = 61_234;
        let connect = |pid, start| Connect {
            namespace: 7,
            time: 1,
            client: pair(1).1,
            server: pair(1).2,
            sequence: 5,
            pid,
            start,
            user: ANOTHER,
            name: "caput".into(),
        };
        let own = std::process::id();
        let start = crate::linux::process::start(own).unwrap();
        let mut describer = Describer { has_reader: true, ..Describer::new(true) };
        assert!(describer.seen(&connect(own, start)).is_none());
        let lives = describer.look(&connect(own, start)).unwrap();
        assert_eq!(describer.seen(&connect(own, start)).as_ref(), Some(&lives));
        assert!(describer.seen(&connect(own, start + 1)).is_none());
        assert!(lives.program != "caput" && !lives.command.is_empty(), "{lives:?}");
        assert_eq!(lives.user, user::name_of(ANOTHER), "of the moment when it connected");
        assert!(describer.look(&connect(own, start + 1)).is_none(), "another of its number");
        let gone = describer.as_told(&connect(own, start + 1));
        assert_eq!((gone.program.as_str(), gone.command.len(), gone.pid), ("caput", 0, own));
        assert_eq!(gone.user, user::name_of(ANOTHER));
    }
}
