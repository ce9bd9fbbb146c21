//! The TCP connections of IOCs: when they begin, how they end, and what had to be sent again.
//!
//! A look lists all connections of a network namespace by sock_diag(7) and compares them with the look before, by inode
//! number and both ends. What is in no list any more is asked for once more by its ends: what remains of it tells who
//! closed it first, and a list may lack what it should have. A socket is an IOC's if one of its descriptors is that socket;
//! descriptors are listed only if there is a new socket in the namespace, if one is missing, or after [`LIST`].
//!
//! Nothing is concluded from a list that was cut. Looks take at most a two thousandth of a CPU: where they are dear, since
//! the machine has many connections, they are rare.

use std::collections::HashMap;
use std::sync::mpsc::{channel, Receiver};

use iocrec_log::event::{CircuitId, TcpEnd, TcpState};

use crate::linux::sock_diag::{
    Diag, Row, CLOSE_WAIT, ESTABLISHED, FIN_WAIT1, FIN_WAIT2, LAST_ACK, SYN_SENT, TIME_WAIT,
};
use crate::linux::{clock, process, sockets};
use crate::net::captures;
use crate::net::Namespace;

/// Sockets of an IOC that are watched at most, and descriptors among which they are looked for: 1.5 microseconds each.
const MAX_SOCKETS: usize = 1024;
const MAX_DESCRIPTORS: usize = 4096;
/// Least time between two looks, nanoseconds: somewhat less than that of the beats.
const PAUSE: u64 = 900_000_000;
/// The same in terms of what a look cost.
const DEAR: u64 = 2000;
/// An IOC may get a socket from another process: its descriptors are listed after this at the latest, nanoseconds.
const LIST: u64 = 10_000_000_000;
/// Time between two notes of what one connection sends again, nanoseconds.
const NOTED: u64 = 10_000_000_000;

/// The states that are listed: all but those without an owner, of which there may be very many.
const STATES: [u8; 6] = [ESTABLISHED, SYN_SENT, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK];

/// The connections of a network namespace.
struct Place {
    /// Hands over the way to ask, which a thread in that namespace opens.
    opening: Receiver<Option<Diag>>,
    /// `None` in the middle: not opened yet; inside: it can't be had.
    diag: Option<Option<Diag>>,
    /// When the last look was due, and when the next one is; and what the last one cost.
    looked: u64,
    next: u64,
    cost: u64,
    /// What it found; `None` if nothing can be concluded.
    list: Option<List>,
    /// Place of each socket in `rows`, by inode number.
    index: HashMap<u64, u64>,
}

/// All connections.
struct List {
    rows: Vec<Row>,
    /// Whether there is one that the look before did not show.
    has_new: bool,
}

/// The connections of all network namespaces with IOCs.
#[derive(Default)]
pub struct Places(HashMap<Namespace, Place>);

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
    /// Looks at the connections of a process, if that is due. Returns what has changed.
    pub fn look(&mut self, whose: &Whose<'_>, known: &mut Connections) -> Vec<Change> {
        let place = self.0.entry(whose.namespace).or_insert_with(|| Place::of(whose.namespace, whose.pid));
        if let Ok(diag) = place.opening.try_recv() {
            place.diag = Some(diag);
        }
        let Some(Some(diag)) = &mut place.diag else { return Vec::new() };
        let begin = clock::thread();
        if whose.now >= place.next {
            (place.looked, place.cost) = (whose.now, 0);
            place.list = list(diag, &mut place.index);
        }
        if place.looked != whose.now {
            return Vec::new();
        }
        let changes = place.list.as_ref().map(|list| known.compare(whose, diag, list, &place.index));
        place.cost += clock::thread().saturating_sub(begin);
        place.next = whose.now + place.cost.saturating_mul(DEAR).max(PAUSE);
        if place.list.is_none() && Diag::open().is_none() {
            place.diag = Some(None);
        }
        changes.unwrap_or_default()
    }

    /// Whether the connections of this namespace can't be told.
    pub fn are_unknown(&self, namespace: Namespace) -> bool {
        self.0.get(&namespace).is_some_and(|place| matches!(place.diag, Some(None)))
    }

    /// Ends a beat: frees what it needed, and forgets namespaces in which there is no IOC.
    pub fn end(&mut self, in_use: &dyn Fn(Namespace) -> bool) {
        self.0.retain(|namespace, place| {
            place.list = None;
            in_use(*namespace)
        });
    }
}

impl Place {
    fn of(namespace: Namespace, pid: u32) -> Place {
        let (sender, opening) = channel();
        let open = move || {
            let is_there = process::namespace(std::process::id()) == Ok(namespace);
            let is_there = is_there || captures::enter(namespace, pid).is_ok();
            drop(sender.send(Diag::open().filter(|_| is_there)));
        };
        // the thread stays in that namespace until it ends
        drop(std::thread::Builder::new().name("netns".into()).spawn(open));
        Place { opening, diag: None, looked: 0, next: 0, cost: 0, list: None, index: HashMap::new() }
    }
}

/// Lists all connections that somebody has; `None` if they are not all.
fn list(diag: &mut Diag, index: &mut HashMap<u64, u64>) -> Option<List> {
    let before = std::mem::take(index);
    let (mut rows, mut has_new) = (Vec::new(), false);
    for family in [libc::AF_INET, libc::AF_INET6] {
        let told = diag.connections(family, &STATES, &mut |row| {
            if row.inode > 0 {
                has_new |= !before.contains_key(&row.inode);
                index.insert(row.inode, rows.len() as u64);
                rows.push(row);
            }
        });
        // a kernel without IPv6
        if told.is_none() && family == libc::AF_INET || !diag.is_whole {
            return None;
        }
    }
    Some(List { rows, has_new })
}

/// A connection of an IOC.
#[derive(Clone, Debug)]
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
}

/// Something that has changed.
#[derive(Debug)]
pub struct Change {
    /// The connection as it is now.
    pub known: Known,
    /// Time of the look before; 0: there was none.
    pub after: u64,
    /// Whether it only sent something again.
    pub is_retransmission: bool,
}

/// The connections of one IOC.
#[derive(Debug, Default)]
pub struct Connections {
    known: Vec<Known>,
    /// Time of the last look, and of the last list of descriptors.
    last: u64,
    listed: u64,
}

impl Connections {
    fn compare(
        &mut self,
        whose: &Whose<'_>,
        diag: &mut Diag,
        List { rows, has_new }: &List,
        index: &HashMap<u64, u64>,
    ) -> Vec<Change> {
        let now = whose.now;
        let find = |inode: u64| rows.get(usize::try_from(*index.get(&inode)?).ok()?);
        let of = |known: &Known| find(known.row.inode).filter(|row| row.is_between(&known.row)).copied();
        let is_missing = self.known.iter().any(|known| of(known).is_none());
        let mut held = HashMap::new();
        let lists = *has_new || is_missing || now.saturating_sub(self.listed) >= LIST;
        if lists {
            let inodes = sockets::held(&process::directory(whose.pid)).take(MAX_DESCRIPTORS);
            held.extend(inodes.map(|inode| (inode, 0)));
            // what was listed just now may be of another process with its number
            if !(whose.is_alive)() {
                return Vec::new();
            }
            self.listed = now;
        }
        let is_whole = lists && held.len() < MAX_DESCRIPTORS;
        let after = std::mem::replace(&mut self.last, now);
        let mut changes = Vec::new();
        self.known.retain_mut(|known| {
            let is_held = held.remove(&known.row.inode).is_some();
            let mut row = of(known);
            let mut is_now = row.and_then(state);
            if row.is_none() || is_whole && !is_held {
                // it is asked for again at the next look if the kernel does not tell
                let Some(found) = diag.again(&known.row) else { return true };
                (row, is_now) = judge(diag, &known.row, found, is_held);
            }
            if let Some(row) = row {
                let retransmitted = row.retransmitted.max(known.row.retransmitted);
                known.row = Row { retransmitted, ..row };
                known.circuit = known.circuit.or_else(|| (whose.circuit)(&row));
            }
            let is_now = is_now.unwrap_or(known.state);
            let has_changed = is_now != known.state && !is_over(known.state);
            known.state = is_now;
            if is_now == TcpState::Open && known.opened == 0 {
                (known.opened, known.opened_after) = (now, after);
            }
            let (noted, noted_at) = known.noted;
            let sends_again = known.row.retransmitted > noted && now.saturating_sub(noted_at) >= NOTED;
            if has_changed || sends_again {
                known.noted = (known.row.retransmitted, now);
                changes.push(Change { known: known.clone(), after, is_retransmission: !has_changed });
            }
            row.is_some()
        });
        for row in held.keys().filter_map(|inode| find(*inode)) {
            let Some(state) = state(*row).filter(|_| self.known.len() < MAX_SOCKETS) else { continue };
            let (opened, opened_after) = if state == TcpState::Opening { (0, 0) } else { (now, after) };
            let (noted, circuit) = ((row.retransmitted, 0), (whose.circuit)(row));
            let known = Known { row: *row, state, circuit, opened, opened_after, noted };
            changes.push(Change { known: known.clone(), after, is_retransmission: false });
            self.known.push(known);
        }
        changes
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

/// Whether a connection has ended in one way or another.
fn is_over(state: TcpState) -> bool {
    !matches!(state, TcpState::Open | TcpState::Opening)
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
