//! The datagrams' sockets of all recorded network namespaces.
//!
//! A packet socket belongs to the namespace in which it was opened, so helper threads open those of other namespaces,
//! as [`crate::net::captures`] does for TCP. Each is thinned out by itself: so many of its datagrams are skipped that
//! about [`WORTH_READING`] a second are left.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::RawFd;
use std::sync::mpsc::{channel, Receiver, TryRecvError};

use super::{Received, Selected, Socket, Taking};
use crate::linux::{aside, process};
use crate::net::capture::CaptureError;
use crate::net::captures::{enter, NamespaceError, MAX_OTHERS, MAX_WITH_USERS};
use crate::net::Namespace;

/// Datagrams a second that are worth reading. A plant's hosts see some ten a second; who floods a network sends the same
/// again and again.
pub const WORTH_READING: u64 = 400;
/// Most datagrams of a namespace to read in one round, so that a flood can't hold the caller.
const MOST: usize = 1000;
/// Bytes of a datagram when none is skipped: the longest that Ethernet carries.
const WHOLE: u32 = 1500;
/// Bytes when some are skipped: headers, and 256 bytes.
const CUT: u32 = 28 + 256;
/// Most skipped: more would leave nothing of the least that is worth seeing.
const MAX_ONE_IN: u32 = 1 << 12;
/// Time until a refused namespace is tried again, nanoseconds.
const RETRY: u64 = 60_000_000_000;

/// All are taken, whole.
pub const ALL: Taking = Taking { one_in: 1, bytes: WHOLE };

/// A namespace to listen in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// A process in it.
    pub pid: u32,
    /// What to take.
    pub selected: Selected,
}

enum Place {
    Opening(Receiver<Result<Socket, NamespaceError>>),
    Open(Open),
    /// Time of the next attempt.
    Refused(u64),
}

struct Open {
    socket: Socket,
    /// Datagrams to [`Selected::asked`] in the running second.
    asked: u64,
}

/// The state of a namespace's socket in the last second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Second {
    /// One datagram in so many was read.
    pub one_in: u32,
    /// Datagrams that passed the filter and were lost.
    pub lost: u64,
}

/// See the module.
#[derive(Default)]
pub struct Places {
    /// The recorder's own namespace, and interfaces to listen on there; none for all.
    here: Namespace,
    interfaces: Vec<u32>,
    /// A socket that listens there already, to nothing.
    ready: Option<Socket>,
    places: HashMap<Namespace, Place>,
    /// Namespaces of which it was said that they are refused.
    told: HashSet<Namespace>,
}

impl Places {
    /// No sockets yet. `interfaces`: indices of those to listen on in the recorder's own namespace; none for all.
    /// `ready`: a socket in that namespace which takes nothing yet.
    pub fn new(here: Namespace, interfaces: Vec<u32>, ready: Option<Socket>) -> Places {
        Places { here, interfaces, ready, places: HashMap::new(), told: HashSet::new() }
    }

    /// From the next [`Places::follow`] on listens on these interfaces of the recorder's own namespace.
    pub fn set_interfaces(&mut self, interfaces: Vec<u32>) {
        self.interfaces = interfaces;
    }

    /// Listens in these namespaces from now on, and in no others. Call it repeatedly: opening takes a moment.
    /// Returns why a namespace can't be listened in, once for each.
    pub fn follow(&mut self, now: u64, wanted: &BTreeMap<Namespace, Wanted>) -> Vec<NamespaceError> {
        let mut failures = Vec::new();
        let again = now.saturating_add(RETRY);
        self.places.retain(|namespace, _| wanted.contains_key(namespace));
        self.told.retain(|namespace| wanted.contains_key(namespace));
        for (&namespace, wanted) in wanted {
            let place = match self.places.remove(&namespace) {
                Some(Place::Open(mut open)) => {
                    if namespace == self.here {
                        open.socket.listen_on(&self.interfaces);
                    }
                    // the old filter stays if the new one is refused, and is tried again
                    let _ = open.socket.select(&wanted.selected, open.socket.taking());
                    Place::Open(open)
                }
                Some(Place::Opening(opened)) => match opened.try_recv() {
                    Ok(Ok(socket)) => Place::Open(Open { socket, asked: 0 }),
                    Err(TryRecvError::Empty) => Place::Opening(opened),
                    // another process may be there
                    Ok(Err(NamespaceError::Gone)) => continue,
                    Ok(Err(error)) => {
                        failures.extend(self.told.insert(namespace).then_some(error));
                        Place::Refused(again)
                    }
                    Err(TryRecvError::Disconnected) => Place::Refused(again),
                },
                Some(Place::Refused(later)) if now < later => Place::Refused(later),
                _ if namespace == self.here => match self.listen(wanted.selected.clone()) {
                    Ok(socket) => Place::Open(Open { socket, asked: 0 }),
                    Err(error) => {
                        let error = NamespaceError::Capture(error);
                        failures.extend(self.told.insert(namespace).then_some(error));
                        Place::Refused(again)
                    }
                },
                _ if self.others() >= MAX_OTHERS
                    || self.others() >= MAX_WITH_USERS && process::user_of_network(wanted.pid).is_some() =>
                {
                    Place::Refused(again)
                }
                _ => Place::Opening(open_in(namespace, wanted)),
            };
            self.places.insert(namespace, place);
        }
        failures
    }

    /// Number of other namespaces that are listened in, or will be.
    fn others(&self) -> usize {
        let is_other = |(namespace, place): &(&Namespace, &Place)| {
            **namespace != self.here && !matches!(place, Place::Refused(_))
        };
        self.places.iter().filter(is_other).count()
    }

    /// A socket in the recorder's own namespace.
    fn listen(&mut self, selected: Selected) -> Result<Socket, CaptureError> {
        match self.ready.take() {
            Some(mut socket) => socket.select(&selected, ALL).map(|()| socket),
            None => Socket::open(selected, &self.interfaces, ALL),
        }
    }

    /// The namespaces that are listened in.
    pub fn open(&self) -> impl Iterator<Item = Namespace> + '_ {
        let is_open = |place: &Place| matches!(place, Place::Open(_));
        self.places.iter().filter(move |(_, place)| is_open(place)).map(|(&namespace, _)| namespace)
    }

    /// Whether every wanted namespace is either listened in or refused.
    pub fn settled(&self) -> bool {
        !self.places.values().any(|place| matches!(place, Place::Opening(_)))
    }

    /// Descriptors that poll as readable when datagrams wait.
    pub fn fds(&self) -> impl Iterator<Item = RawFd> + '_ {
        self.places.values().filter_map(|place| match place {
            Place::Open(open) => Some(open.socket.raw_fd()),
            _ => None,
        })
    }

    /// Passes on waiting datagrams.
    pub fn drain(&mut self, f: &mut dyn FnMut(Namespace, Received)) {
        for (&namespace, place) in &mut self.places {
            if let Place::Open(open) = place {
                let Open { socket, asked } = open;
                let ports = socket.selected().asked.clone();
                socket.drain(MOST, &mut |received| {
                    let at = super::datagram::Datagram::parse(received.bytes).map(|it| it.destination.port);
                    *asked += u64::from(at.is_some_and(|port| ports.contains(&port)));
                    f(namespace, received);
                });
            }
        }
    }

    /// Does the work of each second: takes as many of the datagrams as are worth reading. Returns how each socket fared
    /// since the last call.
    pub fn second(&mut self) -> Vec<(Namespace, Second)> {
        let mut fared = Vec::new();
        for (&namespace, place) in &mut self.places {
            let Place::Open(open) = place else { continue };
            let lost = open.socket.losses();
            let one_in = open.socket.taking().one_in;
            let asked = std::mem::take(&mut open.asked);
            // the lost ones came, too, though perhaps not all of them asked
            let rate = asked.saturating_add(lost).saturating_mul(one_in.into());
            let taking = taking(rate, one_in);
            let selected = open.socket.selected().clone();
            let _ = open.socket.select(&selected, taking);
            fared.push((namespace, Second { one_in, lost }));
        }
        fared
    }
}

/// How much to take if so many come in a second.
fn taking(rate: u64, before: u32) -> Taking {
    let mut one_in = 1;
    while one_in < MAX_ONE_IN && rate / u64::from(one_in) > WORTH_READING {
        one_in *= 2;
    }
    // of a rate just at the limit not now these, now those
    let one_in = if one_in * 2 == before && rate > WORTH_READING * 3 / 4 { before } else { one_in };
    Taking { one_in, bytes: if one_in == 1 { WHOLE } else { CUT } }
}

/// Opens a socket in the namespace of a process.
fn open_in(namespace: Namespace, wanted: &Wanted) -> Receiver<Result<Socket, NamespaceError>> {
    let (sender, receiver) = channel();
    let Wanted { pid, selected } = wanted.clone();
    // The thread stays in that namespace until it ends.
    let work = move || {
        let opened = enter(namespace, pid)
            .and_then(|()| Socket::open(selected, &[], ALL).map_err(NamespaceError::Capture));
        drop(sender.send(opened));
    };
    drop(aside::start("netns", Box::new(work)));
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::captures::tests::{children, of_user, wanted as namespaces, Children};
    use crate::not_run::{not_run, Needs};
    use std::time::{Duration, Instant};

    #[test]
    fn a_flood_is_thinned_out_and_all_are_taken_again() {
        let mut one_in = 1;
        for (rate, expected) in [
            (0, 1),
            (400, 1),
            (401, 2),
            (700, 2),
            (100_000, 256),
            (u64::MAX, MAX_ONE_IN),
            (100_000, 256),
            (350, 1),
            (10, 1),
        ] {
            let taking = taking(rate, one_in);
            one_in = taking.one_in;
            assert_eq!(one_in, expected, "at {rate}");
            assert_eq!(taking.bytes, if one_in == 1 { WHOLE } else { CUT });
        }
        assert_eq!(super::taking(390, 2).one_in, 2, "just below");
    }

    #[test]
    fn users_leave_room_for_root_s_containers() {
        let name = "udp::places::users_leave_room_for_root_s_containers";
        if let Err(error) = Socket::open(Selected::default(), &[], ALL) {
            return not_run(name, Needs::root_or_kernel(error.to_string()));
        }
        let Some(users) = of_user(MAX_WITH_USERS + 1) else {
            return not_run(name, Needs::root_or_kernel("user namespaces for users other than root"));
        };
        let roots = children(1);
        let here = process::namespace(std::process::id()).expect("it lives");
        let mut places = Places::new(here, Vec::new(), None);
        let mut all = BTreeMap::new();
        let mut opened = |children: &Children| {
            let new = namespaces(here, &children.0).into_iter();
            all.extend(new.map(|(at, of)| (at, Wanted { pid: of.pid, ..Wanted::default() })));
            let begin = Instant::now();
            loop {
                let failures = places.follow(0, &all);
                assert!(failures.is_empty(), "{failures:?}");
                if places.settled() {
                    return places.open().count();
                }
                assert!(begin.elapsed() < Duration::from_secs(60), "it opens");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        assert_eq!(opened(&users), MAX_WITH_USERS);
        assert_eq!(opened(&roots), MAX_WITH_USERS + 1);
    }
}
