//! The TCP connections of IOCs: when they begin, how they end, and what had to be sent again.
//!
//! A look lists all connections of a network namespace by sock_diag(7) and compares them with the look before, by inode
//! number and both ends. What is in no list any more is asked for once more by its ends: what remains of it tells who
//! closed it first, and a list may lack what it should have. A socket is an IOC's if one of its descriptors is that socket;
//! descriptors are listed only if there is a new socket in the namespace, if one is missing, or after ten seconds.
//!
//! To list them the kernel walks through the buckets of its table, used or not, twice. So while no connection is opened in the
//! namespace, which the kernel counts (/proc/net/snmp), no list is made: those of its IOCs are asked for one by one by their
//! ends, where that is cheaper. If one is not there, or an IOC has other sockets than at the last list, another is made at once.
//!
//! Nothing is concluded from a list that was cut, or could not be made. Looks take at most a two thousandth of a CPU: where
//! they are dear, since the machine has many connections, they are rare. They take more, up to a three hundredth, where there
//! would be more than three seconds from one to the next.

use std::fs::File;
use std::os::unix::fs::FileExt;

use iocrec_log::event::{CircuitId, TcpEnd, TcpState};

use crate::health::text;
use crate::linux::aside::aside;
use crate::linux::sock_diag::{
    self, Diag, Row, CLOSE_WAIT, ESTABLISHED, FIN_WAIT1, FIN_WAIT2, LAST_ACK, SYN_SENT, TIME_WAIT,
};
use crate::linux::{clock, process, sockets};
use crate::net::captures;
use crate::net::Namespace;

/// Sockets of an IOC that are watched at most, and descriptors among which they are looked for: 1.5 microseconds each.
const MAX_SOCKETS: usize = 1024;
const MAX_DESCRIPTORS: usize = 4096;
/// Least time between two looks, nanoseconds: somewhat less than that of the beats.
const PAUSE: u64 = 900_000_000;
/// The same in terms of what a look cost: a two thousandth of a CPU. Where looks would be further apart than this, a short
/// connection would not be seen at all, so they take up to a three hundredth. (With 262,144 buckets of connections, as a
/// machine of 24 GiB has, a look takes 1 ms, and 5 where others use the caches.)
const DEAR: u64 = 2000;
const APART: u64 = 3_000_000_000;
const TOO_DEAR: u64 = 300;
/// Longest time between two attempts to enter a namespace, nanoseconds: most that can't be entered never can.
const SELDOM: u64 = 60_000_000_000;
/// An IOC may get a socket from another process: its descriptors are listed after this at the latest, nanoseconds.
const LIST: u64 = 10_000_000_000;
/// Reckoned for each connection that is asked for alone, nanoseconds: a list is cheaper where the kernel's table is small.
const EACH: u64 = 3000;
/// Data that waits for this time may be more than what is on its way, nanoseconds: two looks.
const WAITS: u64 = 800_000_000;
/// Time between two notes of what one connection sends again, or of what waits in its socket, nanoseconds.
const NOTED: u64 = 10_000_000_000;

/// Connections of an IOC that are noted at once at most, and the time after which there may be one more, nanoseconds. A peer of
/// a server within the IOC may come and go a thousand times a second, which would fill the log.
const MOST: u64 = 200;
const ONE_MORE: u64 = 200_000_000;

/// 2^64 divided by the golden ratio: numbers that are multiplied by it and added up hardly ever give the same sum.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The states that are listed: all but those without an owner, of which there may be very many.
const STATES: [u8; 6] = [ESTABLISHED, SYN_SENT, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK];

/// The connections of a network namespace.
#[derive(Default)]
struct Place {
    namespace: Namespace,
    /// `None` if the kernel tells nothing, or could not be asked yet.
    diag: Option<Diag>,
    /// Its /proc/net/snmp, if that can be opened.
    counters: Option<File>,
    /// When the last look, or attempt, was due, and when the next one is; and what the last one cost.
    looked: u64,
    next: u64,
    cost: u64,
    /// Time from the last attempt in vain to the next.
    pause: u64,
    /// What it found; `None` if nothing can be concluded, or there is no list so far.
    list: Option<Vec<Row>>,
    /// What the last list cost.
    took: u64,
    /// A number that changes with the sockets in the list, and whether it has.
    sum: u64,
    has_changed: bool,
    /// Whether all connections of the list had an owner.
    are_owned: bool,
    /// How many connections had been opened by the last look, and whether they were as many at the one before.
    opened: Option<u64>,
    is_same: bool,
    /// Whether the last look needs no list so far, and how many connections IOCs had at it.
    rests: bool,
    known: usize,
}

/// The connections of all network namespaces with IOCs.
#[derive(Default)]
pub struct Places(Vec<Place>);

/// Whose connections are looked at.
pub struct Whose<'a> {
    /// Its network namespace.
    pub namespace: Namespace,
    /// The process.
    pub pid: u32,
    /// Monotonic time of the beat.
    pub now: u64,
    /// Whether it is still that process.
    pub is_alive: &'a dyn Fn() -> bool,
    /// The circuit that a connection is.
    pub circuit: &'a dyn Fn(&Row) -> Option<CircuitId>,
}

impl Places {
    /// Looks at the connections of a process, if that is due. Hands over what has changed. False if nothing can be told.
    pub fn look(
        &mut self,
        whose: &Whose<'_>,
        known: &mut Connections,
        changed: &mut dyn FnMut(&mut Known, Change),
    ) -> bool {
        let namespace = whose.namespace;
        let at = self.0.iter().position(|place| place.namespace == namespace).unwrap_or_else(|| {
            self.0.push(Place { namespace, has_changed: true, ..Place::default() });
            self.0.len() - 1
        });
        let Some(place) = self.0.get_mut(at) else { return false };
        // each of several IOCs may lead to it
        let is_due = whose.now >= place.next || whose.now == place.looked;
        if place.diag.is_none() && is_due && !sock_diag::is_refused() {
            if let Some((diag, counters)) = open(namespace, whose.pid) {
                (place.diag, place.counters) = (Some(diag), counters);
            } else {
                // each attempt takes a thread
                if place.looked != whose.now {
                    place.pause = (2 * place.pause).clamp(APART, SELDOM);
                }
                (place.looked, place.next) = (whose.now, whose.now + place.pause);
            }
        }
        if place.diag.is_none() {
            // of its own namespace perhaps only for want of a descriptor or memory
            return is_own(namespace) && !sock_diag::is_refused();
        }
        let begin = clock::thread();
        if whose.now >= place.next {
            (place.looked, place.cost) = (whose.now, 0);
            if !place.may_rest() {
                place.make_list();
            }
        }
        if place.looked != whose.now {
            return true;
        }
        place.known += known.known.len();
        let rests = place.rests;
        let is_done = place.diag.as_mut().filter(|_| rests).is_some_and(|diag| {
            let own = known.ask(diag);
            own.is_some_and(|own| known.compare(whose, diag, (own.as_slice(), false), false, changed))
        });
        if rests && !is_done {
            place.make_list();
        }
        if let (false, Some(diag), Some(list)) = (is_done, &mut place.diag, &place.list) {
            known.compare(whose, diag, (list.as_slice(), true), place.has_changed, changed);
        }
        place.cost += clock::thread().saturating_sub(begin);
        place.next = whose.now + pause(place.cost);
        if !place.rests && place.list.is_none() && sock_diag::is_refused() {
            place.diag = None;
        }
        true
    }

    /// Ends a beat: frees what it needed, and forgets namespaces in which there is no IOC.
    pub fn end(&mut self, in_use: &dyn Fn(Namespace) -> bool) {
        self.0.retain_mut(|place| {
            place.list = None;
            in_use(place.namespace)
        });
    }
}

impl Place {
    /// Whether a look needs no list, since no connection was opened since the last one. One that was opened while that was made
    /// may be missing in it: it is made once more. An owner that a connection had not got yet would not be noticed.
    fn may_rest(&mut self) -> bool {
        let opened = self.counters.as_ref().and_then(opened);
        let is_same = opened.is_some() && opened == self.opened;
        let was_same = std::mem::replace(&mut self.is_same, is_same);
        self.opened = opened;
        let is_cheaper = std::mem::take(&mut self.known) as u64 * EACH < self.took;
        self.rests = is_same && was_same && self.are_owned && is_cheaper;
        self.rests
    }

    /// Makes the list.
    fn make_list(&mut self) {
        self.rests = false;
        let Some(diag) = &mut self.diag else { return };
        let begin = clock::thread();
        (self.list, self.are_owned) = list(diag);
        self.took = clock::thread().saturating_sub(begin);
        let sum = sum(&mut self.list.iter().flatten().map(|row| row.inode));
        self.has_changed = sum != self.sum;
        self.sum = sum;
    }
}

/// How many connections have been opened in a network namespace, by its /proc/net/snmp.
fn opened(counters: &File) -> Option<u64> {
    let mut bytes = [0; 4096];
    let length = counters.read_at(&mut bytes, 0).ok()?;
    text::opened(bytes.get(..length)?)
}

/// A number that hardly ever is the same for other sockets.
fn sum(inodes: &mut dyn Iterator<Item = u64>) -> u64 {
    inodes.fold(0, |sum, inode| sum.wrapping_add(inode.wrapping_mul(GOLDEN)))
}

/// Time from a look that cost so much to the next one, nanoseconds.
fn pause(cost: u64) -> u64 {
    let most = cost.saturating_mul(TOO_DEAR).max(APART);
    cost.saturating_mul(DEAR).clamp(PAUSE, most)
}

/// What tells of a namespace in which this process is, and its /proc/net/snmp; `None` if it can't be entered now, or the
/// kernel tells nothing.
fn open(namespace: Namespace, pid: u32) -> Option<(Diag, Option<File>)> {
    let here = || Some((Diag::open()?, File::open("/proc/thread-self/net/snmp").ok()));
    if is_own(namespace) {
        return here();
    }
    let mut found = None;
    // a namespace is a thread's own
    aside(&mut || found = captures::enter(namespace, pid).ok().and_then(|()| here()));
    found
}

/// Whether it is the recorder's own.
fn is_own(namespace: Namespace) -> bool {
    process::namespace(std::process::id()) == Ok(namespace)
}

/// Why connections can't be told on this machine.
pub fn lacks() -> Option<&'static str> {
    let mut diag = Diag::open();
    let told = diag.as_mut().and_then(|diag| diag.connections(libc::AF_INET, &[], &mut |_| ()));
    let why = "the kernel does not list TCP connections (CONFIG_INET_DIAG): lost devices and slow clients are unknown";
    told.is_none().then_some(why)
}

/// Lists all connections that somebody has; `None` if they are not all. The second part: whether every open one in it has an
/// owner. One that nobody has accepted yet has none.
fn list(diag: &mut Diag) -> (Option<Vec<Row>>, bool) {
    let (mut rows, mut are_owned) = (Vec::new(), true);
    for family in [libc::AF_INET, libc::AF_INET6] {
        let told = diag.connections(family, &STATES, &mut |row| {
            if row.inode > 0 {
                rows.push(row);
            } else {
                are_owned &= !matches!(row.state, ESTABLISHED | SYN_SENT | CLOSE_WAIT);
            }
        });
        if told.is_none() || !diag.is_whole {
            return (None, false);
        }
    }
    (Some(rows), are_owned)
}

/// A connection of an IOC.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// What the kernel shows of it.
    pub row: Row,
    /// What it is.
    pub state: TcpState,
    /// The circuit that it is.
    pub circuit: Option<CircuitId>,
    /// See [`iocrec_log::event::TcpConnection`].
    pub opened: u64,
    /// The same.
    pub opened_after: u64,
    /// What was last noted of what it sent again, and when.
    noted: (u32, u64),
    /// The first look since which data has waited in its socket at all looks, and when that was last handed over; 0: it
    /// does not, or was not.
    pub waits_since: u64,
    /// See `waits_since`.
    told: u64,
    /// Whether it was found to be slow, and how many updates had been replaced.
    pub slow: (bool, Option<u64>),
    /// Whether it is in the log; `None` before it is known.
    pub in_log: Option<bool>,
}

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its state; with the time of the look before, 0 if there was none.
    State(u64),
    /// It has sent something again.
    Retransmission(u64),
    /// Data waits in its socket, and has done so for a while.
    Waits,
    /// No more.
    WaitsNoMore,
}

/// How many more connections of an IOC may be noted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quota {
    /// When all those that were noted may be made good.
    until: u64,
}

impl Quota {
    /// Whether there may be one more at this monotonic time, which counts then.
    pub fn take(&mut self, now: u64) -> bool {
        let until = self.until.max(now) + ONE_MORE;
        let may = until <= now + MOST * ONE_MORE;
        if may {
            self.until = until;
        }
        may
    }
}

/// The connections of one IOC.
#[derive(Debug, Default)]
pub struct Connections {
    known: Vec<Known>,
    /// Time of the last look, and of the last list of descriptors.
    last: u64,
    listed: u64,
    /// A number that changes with the sockets among its descriptors, as of the last list of both.
    held: u64,
}

impl Connections {
    /// What the kernel shows of each of them, asked for one by one. `None` if one is not as it was, or could not be asked for.
    fn ask(&self, diag: &mut Diag) -> Option<Vec<Row>> {
        let again =
            |known: &Known| diag.again(&known.row).flatten().filter(|row| row.inode == known.row.inode);
        self.known.iter().map(again).collect()
    }

    /// Compares them with these rows, and whether those are of all connections or of these alone. False if they do not suffice:
    /// there is a socket of which nothing is known.
    fn compare(
        &mut self,
        whose: &Whose<'_>,
        diag: &mut Diag,
        (rows, are_all): (&[Row], bool),
        lists: bool,
        changed: &mut dyn FnMut(&mut Known, Change),
    ) -> bool {
        let now = whose.now;
        let find = |inode: u64| rows.iter().find(|row| row.inode == inode).copied();
        let of = |known: &Known| find(known.row.inode).filter(|row| row.is_between(&known.row));
        let (mut held, mut is_whole) = (Vec::new(), false);
        // one that is missing has changed the sum
        let lists = lists || now.saturating_sub(self.listed) >= LIST;
        if lists {
            let mut count = 0;
            let listed = sockets::descriptors(&process::directory(whose.pid))
                .map(|all| all.take(MAX_DESCRIPTORS).inspect(|_| count += 1).flatten().collect::<Vec<_>>());
            // they are listed at the next look if they can't be now
            self.listed = 0;
            let Ok(listed) = listed else { return true };
            // what was listed just now may be of another process with its number
            if !(whose.is_alive)() {
                return true;
            }
            let sum = sum(&mut listed.iter().copied());
            if are_all {
                self.held = sum;
            } else if self.held != sum {
                return false;
            }
            (held, is_whole, self.listed) = (listed, count < MAX_DESCRIPTORS, now);
        }
        let after = std::mem::replace(&mut self.last, now);
        let mut at = 0;
        while let Some(known) = self.known.get_mut(at) {
            at += 1;
            let is_held = held.contains(&known.row.inode);
            let mut row = of(known);
            let mut is_now = row.and_then(state);
            if row.is_none() || is_whole && !is_held {
                // it is asked for again at the next look if the kernel does not tell
                let Some(found) = diag.again(&known.row) else { continue };
                (row, is_now) = judge(diag, &known.row, found, is_held);
            }
            if let Some(row) = row {
                let retransmitted = row.retransmitted.max(known.row.retransmitted);
                known.row = Row { retransmitted, ..row };
                known.circuit = known.circuit.or_else(|| (whose.circuit)(&row));
            }
            let is_now = is_now.unwrap_or(known.state);
            let has_changed =
                is_now != known.state && matches!(known.state, TcpState::Open | TcpState::Opening);
            known.state = is_now;
            if is_now == TcpState::Open && known.opened == 0 {
                (known.opened, known.opened_after) = (now, after);
            }
            let (noted, noted_at) = known.noted;
            let sends_again = known.row.retransmitted > noted && now.saturating_sub(noted_at) >= NOTED;
            if has_changed || sends_again {
                known.noted = (known.row.retransmitted, now);
                changed(
                    known,
                    if has_changed { Change::State(after) } else { Change::Retransmission(after) },
                );
            }
            let waits = row.is_some_and(|row| row.unsent > 0);
            if waits && known.waits_since == 0 {
                known.waits_since = now;
            } else if waits && now >= known.waits_since + WAITS && now >= known.told + NOTED {
                known.told = now;
                changed(known, Change::Waits);
            } else if !waits && known.waits_since > 0 {
                changed(known, Change::WaitsNoMore);
                (known.waits_since, known.told, known.slow.0) = (0, 0, false);
            }
            if row.is_none() {
                at -= 1;
                self.known.swap_remove(at);
            }
        }
        for row in held.into_iter().filter_map(find) {
            let Some(state) = state(row).filter(|_| self.known.len() < MAX_SOCKETS) else { continue };
            if self.known.iter().any(|known| known.row.inode == row.inode) {
                continue;
            }
            let (opened, opened_after) = if state == TcpState::Opening { (0, 0) } else { (now, after) };
            let (noted, circuit) = ((row.retransmitted, 0), (whose.circuit)(&row));
            let (waits_since, told, slow, in_log) = (0, 0, (false, None), None);
            let mut known =
                Known { row, state, circuit, opened, opened_after, noted, waits_since, told, slow, in_log };
            changed(&mut known, Change::State(after));
            self.known.push(known);
        }
        true
    }
}

/// What a connection is that its owner still has.
fn state(row: Row) -> Option<TcpState> {
    Some(match row.state {
        ESTABLISHED => TcpState::Open,
        SYN_SENT => TcpState::Opening,
        CLOSE_WAIT | LAST_ACK => TcpState::PeerClosed,
        FIN_WAIT1 | FIN_WAIT2 => TcpState::Closed,
        _ => return None,
    })
}

/// What has become of a connection that is not listed any more, or not held: what is now between its ends (`found`),
/// and how it ended. The former only if it is still there.
fn judge(
    diag: &mut Diag,
    before: &Row,
    found: Option<Row>,
    is_held: bool,
) -> (Option<Row>, Option<TcpState>) {
    let is_closed_by = |row: &Row| matches!(row.state, FIN_WAIT1 | FIN_WAIT2 | TIME_WAIT);
    let how = match found {
        Some(row) if row.inode == before.inode && is_held => return (Some(row), state(row)),
        // another process has it, too
        Some(row) if row.inode == before.inode => TcpState::Closed,
        Some(row) if row.inode > 0 => TcpState::Gone,
        Some(row) if is_closed_by(&row) => TcpState::Closed,
        Some(row) if row.state == LAST_ACK => TcpState::PeerClosed,
        Some(_) => TcpState::Gone,
        None if is_held => TcpState::Aborted,
        // the other end may be on this machine
        None => match diag.again(&before.swapped()).flatten() {
            Some(row) if row.inode == 0 && is_closed_by(&row) => TcpState::PeerClosed,
            _ => TcpState::Gone,
        },
    };
    (None, Some(how))
}

/// An end of a connection, 0 its own.
pub fn end(row: &Row, end: usize) -> TcpEnd {
    let port = row.ports.get(end).copied().unwrap_or(0);
    let address = row.addresses.get(end).copied().unwrap_or_default();
    let ip = match row.v4(end) {
        // `::` counts as such an address
        Some(address) if address.ip > 0 => address.ip.to_be_bytes().to_vec(),
        _ => address.to_vec(),
    };
    TcpEnd { ip, port }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::descriptors::without_any;
    use crate::not_run::{not_run, Needs};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    /// Looks of this process at itself, each long enough after the one before.
    struct Looks {
        places: Places,
        known: Connections,
        now: u64,
    }

    impl Looks {
        /// What has changed of the connection with this port at its own end.
        fn look(&mut self, port: u16) -> Vec<(TcpState, u64)> {
            self.look_at(std::process::id(), port)
        }

        /// The same with the descriptors of another process.
        fn look_at(&mut self, pid: u32, port: u16) -> Vec<(TcpState, u64)> {
            self.now += 1_000_000_000_000;
            let namespace = process::namespace(std::process::id()).unwrap();
            let whose = Whose { namespace, pid, now: self.now, is_alive: &|| true, circuit: &|_| None };
            let mut changes = Vec::new();
            let told = self.places.look(&whose, &mut self.known, &mut |known, change| {
                if let (true, Change::State(after)) = (known.row.ports[0] == port, change) {
                    changes.push((known.state, after));
                }
            });
            assert!(told);
            self.places.end(&|_| true);
            changes
        }
    }

    fn connection(at: &str) -> Option<(TcpStream, TcpStream, u16)> {
        // a machine may have no IPv6
        let listener = TcpListener::bind((at, 0)).ok()?;
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let port = stream.local_addr().unwrap().port();
        Some((stream, listener.accept().unwrap().0, port))
    }

    #[test]
    fn every_end_of_a_connection() {
        if let Some(why) = lacks() {
            return not_run("connections::every_end_of_a_connection", Needs::Kernel(why.to_owned()));
        }
        let mut looks = Looks { places: Places::default(), known: Connections::default(), now: 0 };
        for at in ["127.0.0.1", "::1"] {
            let Some((stream, accepted, port)) = connection(at) else { continue };
            let before = looks.now;
            assert_eq!(looks.look(port), [(TcpState::Open, before)], "{at}");
            assert_eq!(looks.look(port), [], "nothing new");
            drop(accepted);
            let before = looks.now;
            assert_eq!(looks.look(port), [(TcpState::PeerClosed, before)], "{at}");
            drop(stream);
            assert_eq!(looks.look(port), [], "that is told once");

            let (stream, accepted, port) = connection(at).unwrap();
            looks.look(port);
            drop(stream);
            assert_eq!(looks.look(port).first().map(|change| change.0), Some(TcpState::Closed), "{at}");
            drop(accepted);

            // the other end first, and this one before the next look
            let (stream, accepted, port) = connection(at).unwrap();
            looks.look(port);
            drop(accepted);
            drop(stream);
            assert_eq!(looks.look(port).first().map(|change| change.0), Some(TcpState::PeerClosed), "{at}");

            for keeps in [true, false] {
                let (stream, accepted, port) = connection(at).unwrap();
                looks.look(port);
                let linger = libc::linger { l_onoff: 1, l_linger: 0 };
                // SAFETY: the descriptor is open, and the structure has this size.
                let set = unsafe {
                    let at = (&raw const linger).cast();
                    let size = size_of::<libc::linger>() as libc::socklen_t;
                    libc::setsockopt(accepted.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, at, size)
                };
                assert_eq!(set, 0);
                drop(accepted);
                let kept = keeps.then_some(stream);
                let expected = if keeps { TcpState::Aborted } else { TcpState::Gone };
                assert_eq!(looks.look(port).first().map(|change| change.0), Some(expected), "{at}");
                drop(kept);
                assert_eq!(looks.look(port), [], "that is told once");
            }
        }
    }

    /// As where the recorder may open no more files: the owner still has its connection.
    #[test]
    fn a_connection_is_not_closed_if_descriptors_cannot_be_listed() {
        if let Some(why) = lacks() {
            let name = "connections::a_connection_is_not_closed_if_descriptors_cannot_be_listed";
            return not_run(name, Needs::Kernel(why.to_owned()));
        }
        let mut looks = Looks { places: Places::default(), known: Connections::default(), now: 0 };
        let (_stream, accepted, port) = connection("127.0.0.1").unwrap();
        looks.look(port);
        assert_eq!(looks.look_at(u32::MAX, port), [], "nothing is known of that process");
        assert_eq!(looks.look(port), [], "it is still open");
        drop(accepted);
        assert_eq!(looks.look(port).first().map(|change| change.0), Some(TcpState::PeerClosed));
    }

    /// It can't ask the kernel for a moment.
    #[test]
    fn connections_are_told_again_once_files_can_be_opened() {
        let name = "connections::connections_are_told_again_once_files_can_be_opened";
        if let Some(why) = lacks() {
            return not_run(name, Needs::Kernel(why.to_owned()));
        }
        for has_asked in [false, true] {
            let mut looks = Looks { places: Places::default(), known: Connections::default(), now: 0 };
            let (_stream, accepted, port) = connection("127.0.0.1").unwrap();
            if has_asked {
                looks.look(port);
            }
            let Some(changes) = without_any(|| looks.look(port)) else {
                return not_run(name, Needs::Kernel("close_range".into()));
            };
            assert_eq!(changes, []);
            looks.look(port);
            looks.look(port);
            drop(accepted);
            let end = looks.look(port).first().map(|change| change.0);
            assert_eq!(end, Some(TcpState::PeerClosed), "{has_asked}");
        }
    }

    /// The first process that leads to a namespace may have ended, or descriptors may be lacking.
    #[test]
    fn another_namespace_is_entered_once_it_can_be() {
        let name = "connections::another_namespace_is_entered_once_it_can_be";
        if let Some(why) = lacks() {
            return not_run(name, Needs::Kernel(why.to_owned()));
        }
        let mut command = Command::new("unshare");
        command.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let here = process::namespace(std::process::id()).unwrap();
        let namespace = loop {
            if child.try_wait().unwrap().is_some() {
                return not_run(name, Needs::root_or_kernel("unshare"));
            }
            match process::namespace(child.id()) {
                Ok(namespace) if namespace != here => break namespace,
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let tells = |places: &mut Places, pid: u32, seconds: u64| {
            let now = seconds * 1_000_000_000;
            let whose = Whose { namespace, pid, now, is_alive: &|| true, circuit: &|_| None };
            places.look(&whose, &mut Connections::default(), &mut |_, _| ())
        };
        let mut places = Places::default();
        assert!(!tells(&mut places, u32::MAX, 10));
        assert!(tells(&mut places, child.id(), 10), "another IOC is there");
        let mut places = Places::default();
        assert!(!tells(&mut places, u32::MAX, 10));
        assert!(!tells(&mut places, child.id(), 11), "not that often");
        assert!(tells(&mut places, child.id(), 20));
        drop((child.kill(), child.wait()));
    }

    /// Nothing but the connections themselves shows what becomes of them.
    #[test]
    fn looks_without_a_list() {
        let name = "connections::looks_without_a_list";
        if let Some(why) = lacks() {
            return not_run(name, Needs::Kernel(why.to_owned()));
        }
        let [(one, other_one, port), (two, other_two, second)] =
            [(); 2].map(|()| connection("127.0.0.1").unwrap());
        // a process that has these two connections, and no other
        let mut command = Command::new("sleep");
        command.arg("60").stderr(Stdio::null());
        command.stdin(Stdio::from(OwnedFd::from(one))).stdout(Stdio::from(OwnedFd::from(two)));
        let mut child = command.spawn().unwrap();
        drop(command);
        let pid = child.id();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("snmp");
        let count = |opened: u32| std::fs::write(&path, format!("Tcp: names\nTcp: 1 2 3 -1 {opened} 0\n"));
        count(4_000_000_000).unwrap();

        let mut looks = Looks { places: Places::default(), known: Connections::default(), now: 0 };
        assert_eq!(looks.look_at(pid, port), [(TcpState::Open, 0)]);
        looks.places.0[0].counters = Some(File::open(&path).unwrap());
        // a second later; whether others' connections, which come and go, are accepted is left out, and what a list costs
        let again = |looks: &mut Looks, port: u16| {
            let before = looks.now;
            looks.now -= 999_000_000_000;
            let place = &mut looks.places.0[0];
            (place.next, place.are_owned, place.took) = (0, true, u64::MAX);
            let changes: Vec<_> = looks.look_at(pid, port).into_iter().map(|(state, _)| state).collect();
            assert_eq!(looks.now, before + 1_000_000_000);
            (changes, looks.places.0[0].rests)
        };
        let rests = [(); 4].map(|()| again(&mut looks, port));
        assert_eq!(rests, [false, false, true, true].map(|rests| (Vec::new(), rests)));
        drop(other_one);
        assert_eq!(again(&mut looks, port), (vec![TcpState::PeerClosed], true));
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        // SAFETY: the descriptor is open, and the structure has this size.
        let set = unsafe {
            let at = (&raw const linger).cast();
            let size = size_of::<libc::linger>() as libc::socklen_t;
            libc::setsockopt(other_two.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, at, size)
        };
        assert_eq!(set, 0);
        drop(other_two);
        assert_eq!(again(&mut looks, second), (vec![TcpState::Aborted], false), "it was not there");
        count(4_000_000_001).unwrap();
        let rests = [(); 3].map(|()| again(&mut looks, port).1);
        assert_eq!(rests, [false, false, true], "a connection was opened");
        looks.look_at(pid, port);
        assert!(looks.places.0[0].rests, "it has the sockets that it had");
        looks.known.held ^= 1;
        looks.look_at(pid, port);
        assert!(!looks.places.0[0].rests, "it has another one");
        drop((child.kill(), child.wait()));
    }

    /// For years, perhaps.
    #[test]
    fn a_namespace_that_cannot_be_entered_is_tried_ever_more_rarely() {
        let (mut places, mut attempts) = (Places::default(), 0);
        for now in (1..=600).map(|second| second * 1_000_000_000) {
            // two of its processes
            for pid in [u32::MAX, u32::MAX - 1] {
                let whose = Whose { namespace: 1, pid, now, is_alive: &|| true, circuit: &|_| None };
                places.look(&whose, &mut Connections::default(), &mut |_, _| ());
            }
            attempts += u32::from(places.0[0].looked == now);
        }
        assert!(attempts < 20, "{attempts}");
    }

    #[test]
    fn notes_are_limited() {
        let mut quota = Quota::default();
        let mut taken = |now: u64| (0..1000).filter(|_| quota.take(now * 1_000_000_000)).count();
        assert_eq!((taken(100), taken(100), taken(101), taken(1000)), (200, 0, 5, 200));
    }

    #[test]
    fn a_dear_look_is_not_the_last_for_long() {
        let after = |cost_ms: u64| pause(cost_ms * 1_000_000) / 1_000_000;
        assert_eq!([0, 1, 2, 5, 10, 20, 100].map(after), [900, 2000, 3000, 3000, 3000, 6000, 30_000]);
        assert!(pause(u64::MAX) > 0);
    }

    /// Looks that would take more than their share of a CPU are left out, and conclude nothing.
    #[test]
    fn looks_are_rare_where_they_are_dear() {
        if let Some(why) = lacks() {
            return not_run("connections::looks_are_rare_where_they_are_dear", Needs::Kernel(why.to_owned()));
        }
        let mut looks = Looks { places: Places::default(), known: Connections::default(), now: 0 };
        let (stream, _accepted, port) = connection("127.0.0.1").unwrap();
        looks.look(port);
        let place = &mut looks.places.0[0];
        assert!(place.next >= looks.now + PAUSE);
        place.next = u64::MAX;
        drop(stream);
        assert_eq!(looks.look(port), []);
        looks.places.0[0].next = 0;
        assert_eq!(looks.look(port).len(), 1);
    }
}
