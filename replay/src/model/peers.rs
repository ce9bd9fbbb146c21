//! Circuits that several logs have: the recorders at both ends, each with its own clock.
//!
//! A circuit is the same if its addresses and ports are the same at the same time. A port is used again after some
//! minutes at the earliest, so clocks may differ by [`MAX_DIFFERENCE`]; where the logs of both hosts have the circuit's
//! beginning, the difference is known, and stated. If two processes fit, none is named. Loopback addresses belong to
//! their host and network namespace.
//!
//! The logs are read for this only when a put's client is not known by its own log, and another host's is there.

use super::asked::{Ask, Asked, Threads};
use super::client::{Client, Joined, Outputs};
use crate::clocks::MAX_DIFFERENCE;
use crate::reading::runs::budget;
use crate::reading::runs::set::SetLater;
use crate::reading::scan::{Blocks, Part, Scan};
use crate::time::SECOND;
use iocrec_log::context::Context;
use iocrec_log::event::{Address, Circuit, CircuitId, Event, Fact, IocId, Origin};
use iocrec_log::reader::SegmentFile;
use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

/// Circuits of all logs that are compared, and PVs that their IOCs' links write to; bounds for hostile logs.
const MAX_CIRCUITS: usize = 200_000;
/// Links to one PV.
const MAX_WRITERS: usize = 16;
/// Circuits with the same ends that are looked through.
const MAX_SAME: usize = 1000;
/// Differences of two logs that are remembered.
const MAX_DIFFERENCES: usize = 1000;

/// A circuit's ends, client and server, and where they are meant: the same in whichever log.
pub type Ends = (Address, Address, Place);

/// Where a circuit's addresses are meant: those of loopback belong to their host and network namespace, others are the same
/// everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// A number for the host in its current boot; 0 for everywhere.
    pub host: u64,
    /// The network namespace; 0 for everywhere, and where it is not known: a recorder that has read a circuit out of a
    /// server's memory, and captures none of its packets, does not know it.
    pub namespace: u64,
}

impl Place {
    /// Whether both can be one.
    pub fn can_be(self, other: Place) -> bool {
        self.host == other.host && can_be_namespace(self.namespace, other.namespace)
    }
}

fn can_be_namespace(one: u64, other: u64) -> bool {
    one == other || one == 0 || other == 0
}

/// Whether the ends in two logs can be those of one circuit.
pub fn can_be_one(one: Ends, other: Ends) -> bool {
    (one.0, one.1) == (other.0, other.1) && one.2.can_be(other.2)
}

/// A circuit in a log.
struct Seen {
    run: usize,
    /// See [`Place::namespace`].
    namespace: u64,
    /// Wall-clock times between which it was open.
    since: i64,
    until: i64,
    /// Whether its beginning was seen.
    opened: bool,
    client: Option<Rc<Client>>,
}

#[derive(Default)]
struct Found {
    /// By the ends and the number of the host.
    by_ends: HashMap<(Address, Address, u64), Vec<Seen>>,
    count: usize,
    /// By two runs, how far the second's clock is ahead of the first's.
    ahead: HashMap<(usize, usize), i64>,
    most: i64,
    /// By run, IOC and PV: the links that write to it.
    writers: HashMap<(usize, IocId, (String, String)), BTreeSet<String>>,
}

/// See the module.
#[derive(Default)]
pub struct Peers {
    runs: Vec<Vec<SegmentFile>>,
    found: OnceCell<Found>,
    asked: RefCell<Asked>,
}

impl Peers {
    /// Of these runs. Reads nothing yet.
    pub fn new(runs: &[Vec<SegmentFile>]) -> Peers {
        Peers { runs: runs.to_vec(), ..Peers::default() }
    }

    fn found(&self) -> &Found {
        self.found.get_or_init(|| {
            let mut found = Found::default();
            if !can_be_several(&self.runs) {
                return found;
            }
            for (number, files) in self.runs.iter().enumerate() {
                found.read(number, files);
            }
            found.compare();
            found
        })
    }

    /// Who another run than this says is the client of a circuit that was open at a wall-clock time of this run's clock.
    pub fn find(&self, run: usize, ends: Ends, time: i64) -> Option<(usize, Joined, Rc<Client>)> {
        self.found().find(run, ends, time)
    }

    /// The links of a run's IOC that write to this record and field over Channel Access, at whatever time.
    pub fn writers(&self, run: usize, ioc: IocId, target: &(String, String)) -> Vec<String> {
        let found = self.found().writers.get(&(run, ioc, target.clone()));
        found.into_iter().flatten().cloned().collect()
    }

    /// Notes that a thread of a run's IOC asked libca to put.
    pub fn asks(&self, run: usize, ioc: IocId, ask: &Ask<'_>) {
        self.asked.borrow_mut().note(run, ioc, ask);
    }

    /// Notes that hits of a run were lost between two wall-clock times.
    pub fn lost(&self, run: usize, since: i64, until: i64) {
        self.asked.borrow_mut().lost(run, since, until);
    }

    /// Notes that a run's log may lack what was between two wall-clock times.
    pub fn lacks(&self, run: usize, since: i64, until: i64) {
        self.asked.borrow_mut().lacks(run, since, until);
    }

    /// Whether hits of any run were lost, or may be missing, between two wall-clock times.
    pub fn has_lost(&self, since: i64, until: i64) -> bool {
        self.asked.borrow().has_lost(since, until)
    }

    /// The threads of a run's IOC that asked for a put to a channel, by its number and PV, just before a wall-clock time.
    pub fn threads(
        &self,
        run: usize,
        ioc: IocId,
        time: i64,
        channel: (Option<u32>, &str),
    ) -> Option<Threads> {
        self.asked.borrow().threads(run, ioc, time, channel)
    }

    /// How far the clock of one run's host is ahead of another's, nanoseconds; 0 if unknown.
    pub fn ahead(&self, of: usize, before: usize) -> i64 {
        self.difference(of, before).unwrap_or(0)
    }

    /// The same; `None` if it is unknown.
    pub fn difference(&self, of: usize, before: usize) -> Option<i64> {
        self.found().ahead.get(&(before, of)).copied()
    }

    /// The largest of these.
    pub fn most_ahead(&self) -> i64 {
        self.found().most
    }
}

/// Whether two of these runs can be of one time: several hosts', or of several directories, each of which only one
/// recorder writes to at a time.
fn can_be_several(runs: &[Vec<SegmentFile>]) -> bool {
    if runs.len() < 2 {
        return false;
    }
    let places = runs.iter().filter_map(|files| files.first()?.path.parent());
    places.collect::<BTreeSet<_>>().len() > 1 || {
        let hosts: BTreeSet<String> = runs.iter().filter_map(|files| host(files.first()?)).collect();
        hosts.len() > 1
    }
}

/// The name of the host in a segment's first definitions.
fn host(file: &SegmentFile) -> Option<String> {
    let scan = Scan::one(file, Blocks::Definitions).ok()?;
    let blocks = scan.take(8).filter_map(|part| match part {
        Part::Block(block) => Some(block),
        _ => None,
    });
    let mut events = blocks.flat_map(|block| block.events);
    events.find_map(|event| match event.fact {
        Fact::Host(host) => Some(host.name),
        _ => None,
    })
}

/// Where the addresses of a circuit are meant.
pub fn place(context: &Context, circuit: &Circuit) -> Place {
    if circuit.server.ip >> 24 != 127 {
        return Place::default();
    }
    let mut hasher = DefaultHasher::new();
    context.host().map(|host| (&host.boot_id, &host.name)).hash(&mut hasher);
    let namespace = context.circuit_ends(circuit.id).map_or(0, |ends| ends.namespace);
    Place { host: hasher.finish(), namespace }
}

/// A run while it is read.
struct Reading {
    number: usize,
    context: Context,
    /// Of each open circuit, when it was first seen and whether its beginning was.
    open: HashMap<CircuitId, (u64, bool)>,
    last: u64,
}

impl Found {
    fn read(&mut self, number: usize, files: &[SegmentFile]) {
        let mut context = Context::sharing(&budget(files));
        SetLater::find(files).inspect(|set| set.apply_to(&mut context));
        let mut reading = Reading { number, context, open: HashMap::new(), last: 0 };
        for part in Scan::new(files, Blocks::Definitions) {
            let Part::Block(block) = part else { continue };
            block.events.iter().for_each(|event| self.event(&mut reading, event, block.keyframe));
        }
        let open: Vec<CircuitId> = reading.open.keys().copied().collect();
        let last = reading.last;
        // what is open when the log ends was so for as long as can be
        open.into_iter().for_each(|circuit| self.end(&mut reading, last, circuit, true));
    }

    fn event(&mut self, reading: &mut Reading, event: &Event, keyframe: bool) {
        reading.last = reading.last.max(event.time);
        match &event.fact {
            Fact::Circuit(circuit) if reading.open.len() < MAX_CIRCUITS => {
                let opened = circuit.origin == Origin::Opened && !keyframe;
                reading.open.entry(circuit.id).or_insert((event.time, opened));
            }
            // in a keyframe it is one that nobody saw
            Fact::CircuitEnd(circuit) => self.end(reading, event.time, *circuit, keyframe),
            Fact::CircuitForgotten(circuit) => self.end(reading, event.time, *circuit, true),
            _ => {}
        }
        reading.context.apply(event.time, &event.fact);
        if let Fact::OutputLinks(of) = &event.fact {
            let Some(ioc) = reading.context.record(of.record).map(|record| record.ioc) else { return };
            for (target, link) in Outputs::each(&reading.context, of) {
                if self.writers.len() < MAX_CIRCUITS {
                    let all = self.writers.entry((reading.number, ioc, target)).or_default();
                    if all.len() < MAX_WRITERS {
                        all.insert(link);
                    }
                }
            }
        }
    }

    /// Keeps what is known of a circuit that ends. `lasts`: it may have been open for longer.
    fn end(&mut self, reading: &mut Reading, time: u64, id: CircuitId, lasts: bool) {
        let Some((since, opened)) = reading.open.remove(&id) else { return };
        let context = &reading.context;
        // the addresses of IPv6 are not compared
        let compared = |circuit: &&Circuit| circuit.client.ip != 0 && circuit.server.ip != 0;
        let circuit = context.circuit(id).filter(compared).filter(|_| self.count < MAX_CIRCUITS);
        let Some(circuit) = circuit else { return };
        let (Some(since), Some(until)) = (context.wall(since), context.wall(time)) else { return };
        self.count += 1;
        let client = Client::of(context, id).filter(Client::is_known).map(Rc::new);
        let until = if lasts { i64::MAX } else { until };
        let Place { host, namespace } = place(context, circuit);
        let seen = Seen { run: reading.number, namespace, since, until, opened, client };
        self.by_ends.entry((circuit.client, circuit.server, host)).or_default().push(seen);
    }

    /// Compares the clocks of the runs by the circuits that several of them saw beginning.
    fn compare(&mut self) {
        let mut differences: HashMap<(usize, usize), Vec<i64>> = HashMap::new();
        for seen in self.by_ends.values() {
            for one in seen.iter().take(MAX_SAME).filter(|one| one.opened) {
                let mut others = seen.iter().take(MAX_SAME).filter(|other| {
                    other.opened
                        && other.run != one.run
                        && can_be_namespace(other.namespace, one.namespace)
                        && other.since.abs_diff(one.since) <= MAX_DIFFERENCE as u64
                });
                let (Some(other), None) = (others.next(), others.next()) else { continue };
                let all = differences.entry((one.run, other.run)).or_default();
                if all.len() < MAX_DIFFERENCES {
                    all.push(other.since - one.since);
                }
            }
        }
        for (of, mut all) in differences {
            all.sort_unstable();
            let Some(middle) = all.get(all.len() / 2) else { continue };
            self.most = self.most.max(middle.abs());
            self.ahead.insert(of, *middle);
        }
    }

    fn find(
        &self,
        run: usize,
        (client, server, place): Ends,
        time: i64,
    ) -> Option<(usize, Joined, Rc<Client>)> {
        let all = self.by_ends.get(&(client, server, place.host))?.iter().take(MAX_SAME);
        let all = all.filter(|seen| can_be_namespace(seen.namespace, place.namespace));
        let own = all.clone().filter(|own| own.run == run && own.since <= time.saturating_add(SLACK));
        let own = own.max_by_key(|own| own.since)?;
        let difference = |other: &Seen| other.since.saturating_sub(own.since);
        let fits = |other: &&Seen| {
            if own.opened && other.opened {
                return difference(other).abs() <= MAX_DIFFERENCE;
            }
            other.since.saturating_sub(MAX_DIFFERENCE) <= own.until
                && own.since.saturating_sub(MAX_DIFFERENCE) <= other.until
        };
        let mut others =
            all.filter(|other| other.run != run && other.client.is_some()).filter(fits).filter_map(|other| {
                let ahead = (own.opened && other.opened).then(|| difference(other));
                Some((other.run, Joined { ahead }, Rc::clone(other.client.as_ref()?)))
            });
        let first = others.next()?;
        others.all(|other| other.2.is_same(&first.2)).then_some(first)
    }
}

/// A put may be a little earlier than its circuit: its name comes with the first message.
const SLACK: i64 = SECOND as i64 / 10;

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = SECOND as i64;

    fn ends(port: u16) -> Ends {
        (Address { ip: 1, port }, Address { ip: 2, port: 5064 }, Place::default())
    }

    fn client(pid: u32) -> Option<Rc<Client>> {
        let named = Some(("first".to_owned(), pid, "softIoc".to_owned()));
        Some(Rc::new(Client { host: "box".into(), ioc: Some(pid), named, ..Client::default() }))
    }

    fn found(seen: impl IntoIterator<Item = (u16, usize, i64, i64, bool, Option<u32>)>) -> Found {
        let mut found = Found::default();
        for (port, run, since, until, opened, pid) in seen {
            let (since, until, client) = (since * S, until * S, pid.and_then(client));
            let seen = Seen { run, namespace: 0, since, until, opened, client };
            let (at, server, Place { host, .. }) = ends(port);
            found.by_ends.entry((at, server, host)).or_default().push(seen);
        }
        found.compare();
        found
    }

    fn pid(found: &Found, time: i64) -> Option<(u32, Option<i64>)> {
        let (_, joined, client) = found.find(0, ends(1), time * S)?;
        Some((client.ioc.unwrap(), joined.ahead.map(|ahead| ahead / S)))
    }

    #[test]
    fn a_circuit_that_two_logs_have_is_one() {
        let at_both = [(1, 0, 1000, 1100, true, None), (1, 1, 1007, 1107, true, Some(7))];
        let at = found(at_both);
        assert_eq!(pid(&at, 1050), Some((7, Some(7))));
        assert_eq!((at.ahead[&(0, 1)], at.ahead[&(1, 0)], at.most), (7 * S, -7 * S, 7 * S));
        assert_eq!(pid(&at, 990), None, "it was not open");
        assert_eq!(at.find(1, ends(1), 1050 * S).map(|_| ()), None, "the other log does not know");
        assert_eq!(at.find(0, ends(2), 1050 * S).map(|_| ()), None, "another port");
        // the port was used before, and is again later
        let again = [
            (1, 1, 700, 800, true, Some(6)),
            (1, 0, 705, 805, true, None),
            (1, 1, 2000, 2100, true, Some(8)),
        ];
        let again = found(at_both.into_iter().chain(again));
        assert_eq!((pid(&again, 1050), pid(&again, 750)), (Some((7, Some(7))), Some((6, Some(-5)))));
        // clocks that differ by more than can be told apart from another use
        let far = found([(1, 0, 1000, 1100, true, None), (1, 1, 1061, 1161, true, Some(7))]);
        assert_eq!((pid(&far, 1050), far.most), (None, 0));
    }

    #[test]
    fn of_two_that_fit_none_is_named() {
        let one = (1, 0, 1000, 1100, true, None);
        let two = |pid| found([one, (1, 1, 1001, 1010, true, Some(7)), (1, 1, 1030, 1100, true, Some(pid))]);
        assert_eq!(pid(&two(8), 1050), None);
        assert_eq!(pid(&two(7), 1050).map(|(pid, _)| pid), Some(7), "it is the same either way");
    }

    #[test]
    fn one_that_was_open_before() {
        let late = found([(1, 0, 1000, 1100, true, None), (1, 1, 1040, 1107, false, Some(7))]);
        assert_eq!(pid(&late, 1050), Some((7, None)), "the difference is not known");
        let over = found([(1, 0, 1000, 1100, true, None), (1, 1, 1200, 1300, false, Some(7))]);
        assert_eq!(pid(&over, 1050), None, "at another time");
    }
}
