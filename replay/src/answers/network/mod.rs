//! The network as the recorders saw it: searches that nobody answers, servers that come and go, circuits and their ends,
//! clients that cannot keep up.
//!
//! A recorder sees what passes its own interfaces: what its own clients and servers exchange, and what others broadcast,
//! but not what two other hosts say to each other. So a name counts as not answered only if the answer would have been
//! seen, or if it is searched for again and again, as after no answer; and logs of several hosts are taken together.

mod addresses;
mod beaconing;
mod circuits;
mod counted;
mod devices;
mod rights;
mod searching;

use crate::filter::{names_of_address, Filter};
use crate::logs::Logs;
use crate::notices::{Notice, Notices};
use crate::reading::runs::budget;
use crate::reading::runs::set::SetLater;
use crate::reading::scan::{Blocks, Part, Scan};
use crate::shown_names::selects;
use iocrec_log::context::Context;
use iocrec_log::event::{Address, CircuitId, Fact, IocId, Ip6, PvaMonitor};
use iocrec_log::reader::{About, Cause, Choice, Classes, SegmentFile};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use beaconing::Beaconing;
use circuits::Circuits;
pub use circuits::{names as end_names, refused_channel};
use devices::Devices;
use searching::Searching;

/// Lines of one kind; a bound for hostile logs.
const MAX_LINES: usize = 100_000;
/// Names listed in a line.
const MAX_NAMES: usize = 20;

/// The kinds of lines.
macro_rules! kinds {
    ($($(#[$doc:meta])* $Kind:ident $name:literal $ordinary:literal;)*) => {
        /// What a line says.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[$doc])* $Kind,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &'static [Kind] = &[$(Kind::$Kind,)*];

            /// Its name; part of the output formats.
            pub fn name(self) -> &'static str {
                match self {
                    $(Kind::$Kind => $name,)*
                }
            }

            /// Whether it is what happens every day, and shown only on request.
            pub fn is_ordinary(self) -> bool {
                match self {
                    $(Kind::$Kind => $ordinary,)*
                }
            }
        }
    };
}

kinds! {
    /// A name is searched for, and no recorder saw an answer.
    Unanswered "unanswered" false;
    /// Several servers answer for the same name.
    SeveralServers "several_servers" false;
    /// Very many searches.
    SearchStorm "search_storm" false;
    /// A server's first beacons.
    ServerStarted "server_started" false;
    /// A server's beacons count from the beginning again.
    ServerRestarted "server_restarted" false;
    /// Beacons do not follow each other.
    BeaconsIrregular "beacons_irregular" false;
    /// No beacons come any more.
    BeaconsMissing "beacons_missing" false;
    /// A circuit ended, but not because the client closed it in good order.
    Disconnected "disconnected" false;
    /// A server refused to make a channel.
    ChannelRefused "channel_refused" false;
    /// A server ended a channel.
    ChannelDisconnected "channel_disconnected" false;
    /// A client may not read or write.
    NoAccess "no_access" false;
    /// A client could not keep up with updates.
    SlowClient "slow_client" false;
    /// A server did not answer in time.
    Unresponsive "unresponsive" false;
    /// A server refused a request.
    Error "error" false;
    /// An IOC's connection with a device ended.
    DeviceDisconnected "device_disconnected" false;
    /// An IOC asked for a connection with a device, which did not come about.
    DeviceUnreachable "device_unreachable" false;
    /// An IOC had to send something again.
    Retransmissions "retransmissions" false;
    /// Searches that were answered, or that may have been.
    Searched "searched" true;
    /// A server whose beacons came when the recorder started.
    ServerSeen "server_seen" true;
    /// A client connected.
    Connected "connected" true;
    /// An IOC is connected with a device.
    DeviceConnected "device_connected" true;
    /// A client closed its circuit.
    Closed "closed" true;
    /// What went over a circuit.
    Traffic "traffic" true;
    /// A client of PVAccess subscribed to a PV.
    Monitored "monitored" true;
    /// What went over a channel.
    ChannelTraffic "channel_traffic" true;
    /// Clients registered at a repeater.
    Repeater "repeater" true;
}

impl Kind {
    /// Whether it is about a TCP connection of an IOC, circuit or not.
    pub fn is_of_devices(self) -> bool {
        matches!(
            self,
            Kind::DeviceConnected
                | Kind::DeviceDisconnected
                | Kind::DeviceUnreachable
                | Kind::Retransmissions
        )
    }
}

/// Who is at the client's end, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// Address and port; empty if several or unknown.
    pub address: String,
    /// The user that it claims to be, or that its process has.
    pub user: String,
    /// The host that it claims to be on.
    pub host: String,
    /// The recorded IOC that it is.
    pub ioc: String,
    /// Its program, if it runs on the recorded host.
    pub program: String,
    /// Its process there.
    pub pid: Option<u32>,
}

/// A line of the answer.
#[derive(Clone, Debug)]
pub struct NetLine {
    /// What it says.
    pub kind: Kind,
    /// Host that recorded it; empty if unknown.
    pub host: Rc<str>,
    /// Whether it is about PVAccess, not Channel Access.
    pub is_pva: bool,
    /// Wall-clock time of its beginning.
    pub since: i64,
    /// Wall-clock time of its end, or of the last of it that was seen.
    pub last: Option<i64>,
    /// The PV; empty if it is not about one.
    pub pv: String,
    /// The PVs if it is about several, as far as they are known.
    pub pvs: Vec<String>,
    /// The client.
    pub client: Who,
    /// The servers.
    pub servers: Vec<String>,
    /// The recorded IOC that is the server.
    pub ioc: String,
    /// How often.
    pub count: u64,
    /// Whether it was at least so often: not everything was looked at.
    pub at_least: bool,
    /// Whether it went on when the log ended; `None` if that does not apply or is not known.
    pub going_on: Option<bool>,
    /// How it ended, or what it is; a fixed word.
    pub reason: &'static str,
    /// The side that ended it: `client`, `server` or nothing.
    pub by: &'static str,
    /// A length of time that matters, nanoseconds: of silence, of updates off.
    pub duration: Option<i64>,
    /// Wall-clock time since which the server is known to serve a name whose answer was not seen.
    pub served_since: Option<i64>,
    /// More, for people.
    pub text: String,
    /// The circuit that it is about, by its number in its run.
    pub circuit: Option<CircuitId>,
}

impl NetLine {
    fn new(kind: Kind, host: &Rc<str>, since: i64) -> NetLine {
        NetLine {
            kind,
            host: Rc::clone(host),
            is_pva: false,
            since,
            last: None,
            pv: String::new(),
            pvs: Vec::new(),
            client: Who::default(),
            servers: Vec::new(),
            ioc: String::new(),
            count: 1,
            at_least: false,
            going_on: None,
            reason: "",
            by: "",
            duration: None,
            served_since: None,
            text: String::new(),
            circuit: None,
        }
    }

    /// The PVs that it is about.
    fn names(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.pv).filter(|pv| !pv.is_empty()).chain(&self.pvs)
    }

    /// Whether it was there at some time of the filter's range.
    pub fn is_in_time(&self, filter: &Filter) -> bool {
        let last = self.last.unwrap_or(self.since);
        // a client may search ever more seldom, but for a name that it has found no longer
        let is_found = self.kind == Kind::Searched && matches!(self.reason, "answered" | "served");
        let is_search = matches!(self.kind, Kind::Unanswered | Kind::Searched);
        let may_last = is_search && !is_found || self.kind == Kind::BeaconsMissing;
        let may_go_on = may_last && self.going_on.is_none();
        let goes_on = self.going_on == Some(true) || may_go_on;
        filter.until.is_none_or(|until| self.since < until)
            && filter.since.is_none_or(|since| last >= since || goes_on)
    }

    /// Whether it was there then, and has all else that the filter asks for.
    fn is_wanted(&self, filter: &Filter) -> bool {
        let in_time = self.is_in_time(filter);
        let [address, ip, plain] = names_of_address(&self.client.address);
        let of_client = [address, ip, plain, &self.client.host];
        let named = |names: &[&str], wanted: &crate::Pattern| {
            names.iter().any(|name| !name.is_empty() && wanted.matches(name))
        };
        let by_pv = filter.pv.is_empty() && filter.exclude.is_empty();
        in_time
            && filter.place(&self.host, &self.ioc)
            && filter.user.as_ref().is_none_or(|user| named(&[&self.client.user], user))
            && filter.client.as_ref().is_none_or(|client| {
                named(&of_client, client)
                    || (!self.client.ioc.is_empty() && selects(client, &self.client.ioc))
            })
            && (by_pv || self.names().any(|name| filter.name(|pv| pv.matches(name))))
    }
}

/// What the logs say about the network.
#[derive(Default)]
pub struct Network {
    searching: Searching,
    lines: Vec<NetLine>,
    /// Lines, names or circuits that were left out because there are too many.
    left_out: u64,
    /// Whether any log has facts of this kind: a recorder that was too old, or told to leave them out, wrote none.
    pub is_recorded: bool,
    /// Whether datagrams were read in any log.
    pub has_datagrams: bool,
}

/// A run that is being read.
struct Reading<'a> {
    context: &'a Context,
    host: &'a Rc<str>,
    /// Wall-clock time of the first event of the run.
    began: i64,
}

impl Reading<'_> {
    fn wall(&self, time: u64) -> i64 {
        self.context.wall(time).unwrap_or(0)
    }
}

/// Whether a block of these classes is needed.
type Needs = fn(Classes, &About) -> bool;

/// Whether a block may tell that a PVAccess monitor starts or stops. Most with puts do not.
pub(super) fn may_tell_monitors(about: &About) -> bool {
    let monitor = Fact::PvaMonitor(PvaMonitor { circuit: 0, channel: 0, ioid: 0, starts: true }).number();
    about.contents.as_ref().is_none_or(|contents| contents.counts.iter().any(|(kind, _)| *kind == monitor))
}

/// Which blocks are needed, if that is asked before they are read.
fn needs(logs: &Logs, needs: Needs) -> Option<Needs> {
    logs.uses_index().then_some(needs)
}

/// Whether a block may tell of the network.
pub(super) fn may_tell(classes: Classes, about: &About) -> bool {
    classes.others() || classes.notes() || classes.network() && may_tell_monitors(about)
}

impl Network {
    /// Reads all runs, and reports what can't be read.
    pub fn read(logs: &Logs) -> Network {
        let mut found = Network::default();
        for run in logs.runs() {
            found.run(run, needs(logs, may_tell), Some(logs.notices()));
        }
        found
    }

    /// What the logs tell of each circuit that is wanted, by the numbers of its run and its own. What can't be read is not
    /// reported.
    pub fn of_circuits(
        logs: &Logs,
        is_wanted: &dyn Fn(&NetLine) -> bool,
    ) -> HashMap<(usize, CircuitId), Vec<NetLine>> {
        let mut all: HashMap<(usize, CircuitId), Vec<NetLine>> = HashMap::new();
        for (number, run) in logs.runs().iter().enumerate() {
            let mut found = Network::default();
            found.run(run, needs(logs, may_tell), None);
            for line in found.lines.into_iter().filter(|line| is_wanted(line)) {
                if let Some(circuit) = line.circuit {
                    all.entry((number, circuit)).or_default().push(line);
                }
            }
        }
        all
    }

    /// Reads only what the logs tell of connections with devices, and of what was sent again.
    pub fn of_devices(logs: &Logs, filter: &Filter) -> Vec<NetLine> {
        let mut found = Network::default();
        for run in logs.runs() {
            found.run(run, needs(logs, |classes, _| classes.notes()), None);
        }
        found.lines.retain(|line| line.kind.is_of_devices());
        found.lines(filter, false).0
    }

    /// The lines that match, in the order of time; ordinary ones only if `all`.
    ///
    /// Also returns the number of ordinary ones that were left out, and of all that there was no room for.
    pub fn lines(mut self, filter: &Filter, all: bool) -> (Vec<NetLine>, u64, u64) {
        let (searches, left_out) = std::mem::take(&mut self.searching).lines();
        self.lines.extend(searches);
        let wanted = self.lines.into_iter().filter(|line| line.is_wanted(filter));
        let (mut shown, mut ordinary) = (Vec::new(), 0);
        for line in wanted {
            if all || !line.kind.is_ordinary() {
                shown.push(line);
            } else {
                ordinary += 1;
            }
        }
        let left_out = self.left_out + left_out;
        shown.sort_by(|a, b| (a.since, a.kind, &a.pv).cmp(&(b.since, b.kind, &b.pv)));
        (shown, ordinary, left_out)
    }

    /// Reads a run; of its blocks all, or those that are needed. Damage is reported to `notices`, if not where hits are read.
    fn run(&mut self, files: &[SegmentFile], needs: Option<Needs>, notices: Option<&Rc<Notices>>) {
        let mut context = Context::sharing(&budget(files));
        SetLater::find(files).inspect(|set| set.apply_to(&mut context));
        let mut host: Rc<str> = "".into();
        let (mut beaconing, mut circuits) = (Beaconing::default(), Circuits::default());
        let mut devices = Devices::default();
        let mut span: Option<(i64, i64)> = None;
        let mut scan = Scan::new(files, Blocks::All);
        if let Some(needs) = needs {
            // Bulk, mostly hits of other kinds, need not be unpacked.
            scan.choose(Arc::new(move |about: &About| match about.classes {
                Some(classes) if !needs(classes, about) && !about.defines => Choice::Pass,
                _ => Choice::Read,
            }));
        }
        let mut expected = None;
        // the last time before something that can't be read, and whether nothing was read since but a keyframe without damage
        let (mut gap, mut begins) = (None::<i64>, false);
        // circuits of which something was read since
        let mut heard: HashSet<CircuitId> = HashSet::new();
        // the same time, if nothing was read since but keyframes; and the segment that should come next
        let (mut missing, mut follows) = (None::<i64>, None::<u32>);
        while let Some(part) = scan.next() {
            let last = span.map(|(_, last)| last);
            if scan.is_cut_before() {
                missing = missing.or(last);
            }
            match &part {
                Part::Segment(header) => {
                    begins = true;
                    if follows.is_some_and(|follows| follows != header.sequence) {
                        missing = missing.or(last);
                    }
                    follows = Some(header.sequence.saturating_add(1));
                }
                Part::Damage(damage) if matches!(damage.cause, Cause::Header | Cause::Repeated) => {}
                Part::Damage(_) | Part::Unreadable(_) => {
                    begins = false;
                    gap = gap.or(last);
                    missing = missing.or(last);
                    heard.clear();
                }
                // what ended before it was told with its keyframe
                Part::Block(block) if !block.keyframe && std::mem::take(&mut begins) => gap = None,
                Part::Block(_) => {}
            }
            let block = match (part, notices) {
                (Part::Block(block), notices) => {
                    if let Some(notices) = notices {
                        notices.cut_before(&scan);
                    }
                    block
                }
                (Part::Segment(header), Some(notices)) => {
                    notices.segment(&mut expected, header.sequence, scan.file());
                    continue;
                }
                (Part::Unreadable(error), Some(notices)) => {
                    notices.report(&Notice::of_segment(error));
                    continue;
                }
                (Part::Damage(damage), Some(notices)) => {
                    if let Some(file) = scan.file() {
                        notices.damage(&file.path, damage);
                    }
                    continue;
                }
                (Part::Segment(_) | Part::Unreadable(_) | Part::Damage(_), None) => continue,
            };
            // what is passed over tells that the log goes on
            let about = block.about.as_ref().filter(|_| block.passed && !block.keyframe);
            let times = about.map(|about| [about.first, about.last]);
            for wall in times.into_iter().flatten().filter_map(|time| context.wall(time)) {
                self.goes_on(wall, &host, (&mut span, &mut missing), &mut beaconing);
            }
            for event in &block.events {
                let (time, fact) = (event.time, &event.fact);
                if gap.is_some() && heard.len() < MAX_LINES {
                    heard.extend(circuit_of(fact));
                }
                // an end in a keyframe is one that nobody saw
                let last_seen = gap.or(span.map(|(_, last)| last)).or(context.wall(time));
                let last_seen = last_seen.filter(|_| block.keyframe);
                if let Fact::IocEnd(of) = fact {
                    let reading = Reading { context: &context, host: &host, began: 0 };
                    devices.take(&reading, time, fact);
                    circuits.ioc_ended(&reading, time, of.ioc, last_seen);
                    beaconing.ioc_ended(&reading, time, of.ioc);
                }
                match fact {
                    // whoever is named by it may be asked for later
                    Fact::IocEnd(_) | Fact::Detached(_) => continue,
                    Fact::Host(of) => host = of.name.as_str().into(),
                    _ => {}
                }
                if let Some(wall) = context.wall(time).filter(|_| !block.keyframe) {
                    self.goes_on(wall, &host, (&mut span, &mut missing), &mut beaconing);
                }
                let began = span.map_or(0, |(first, _)| first);
                let before = Reading { context: &context, host: &host, began };
                circuits.ending(&before, time, fact, last_seen);
                let ends = matches!(
                    fact,
                    Fact::CircuitEnd(_)
                        | Fact::CircuitForgotten(_)
                        | Fact::ChannelEnd(_)
                        | Fact::ChannelForgotten(_)
                );
                if !ends {
                    context.apply(time, fact);
                }
                let reading = Reading { context: &context, host: &host, began };
                circuits.take(&reading, time, fact, block.keyframe);
                beaconing.take(&reading, time, fact);
                devices.take(&reading, time, fact);
                self.searching.take(&reading, time, fact);
                self.is_recorded |= Fact::KINDS.get(usize::from(fact.number())).is_some_and(|kind| {
                    matches!(
                        kind.name,
                        "search_load" | "circuit_closed" | "circuit_traffic" | "beacons" | "pva_search_load"
                    )
                });
                self.has_datagrams |= matches!(fact, Fact::SearchLoad(_) | Fact::PvaSearchLoad(_));
            }
        }
        let (_, end) = span.unwrap_or_default();
        // behind a log that was cut is nothing more
        if let Some(gap) = gap.filter(|gap| *gap < end) {
            circuits.unheard(gap, &heard);
        }
        let reading = Reading { context: &context, host: &host, began: span.map_or(0, |(first, _)| first) };
        self.searching.end_run(end);
        for (lines, left_out) in
            [beaconing.lines(&reading, end), circuits.lines(&reading, end), devices.lines()]
        {
            self.lines.extend(lines);
            self.left_out += left_out;
        }
    }

    /// Something was recorded at this time. `span`: from when to when something was; `missing`: the last time before
    /// something that is missing, if nothing was since.
    fn goes_on(
        &mut self,
        wall: i64,
        host: &Rc<str>,
        (span, missing): (&mut Option<(i64, i64)>, &mut Option<i64>),
        beaconing: &mut Beaconing,
    ) {
        if let Some(since) = missing.take() {
            self.searching.missing(host, since, wall);
            beaconing.missing(since);
        }
        let (first, last) = span.unwrap_or((wall, wall));
        *span = Some((first.min(wall), last.max(wall)));
    }
}

/// The circuit that is open if a fact tells of it.
fn circuit_of(fact: &Fact) -> Option<CircuitId> {
    match fact {
        Fact::Circuit(circuit) => Some(circuit.id),
        Fact::Channel(channel) => Some(channel.circuit),
        Fact::CircuitTraffic(traffic) => Some(traffic.circuit),
        Fact::EventsOff(of) => Some(of.circuit),
        Fact::ClientStalled(of) => Some(of.circuit),
        Fact::PvaMonitor(of) => Some(of.circuit),
        _ => None,
    }
}

/// An address as text.
fn text(address: Address) -> String {
    address.to_string()
}

/// Whether a circuit speaks PVAccess.
fn is_pva(context: &Context, circuit: CircuitId) -> bool {
    context.in_force().pva_circuits.get(circuit).is_some()
}

/// Adds to a list that is bounded.
fn push<T>(list: &mut Vec<T>, item: T, left_out: &mut u64) {
    if list.len() < MAX_LINES {
        list.push(item);
    } else {
        *left_out += 1;
    }
}

/// An address and the network namespace in which it is meant: loopback addresses are each namespace's own, others the
/// same in all (0).
type Place = (u64, Address);

fn place(namespace: u64, address: Address) -> Place {
    (if is_loopback(address) { namespace } else { 0 }, address)
}

fn is_loopback(address: Address) -> bool {
    address.ip >> 24 == 127 || address.ip == Ip6::LOOPBACK
}

/// The recorded IOCs that served at a place, one after the other, by the time when they started.
type Served = BTreeMap<i64, IocId>;

/// The recorded IOCs that served at each place, by the circuits in these definitions.
fn iocs_by_server(context: &Context) -> HashMap<Place, Served> {
    let mut found: HashMap<Place, Served> = HashMap::new();
    for (id, circuit) in context.in_force().circuits.iter() {
        let Some(ends) = context.circuit_ends(id) else { continue };
        if let Some(ioc) = ends.server.and_then(|server| context.ioc(server)) {
            let started = context.wall(ioc.start).unwrap_or(i64::MIN);
            found.entry(place(ends.namespace, circuit.server)).or_default().insert(started, ioc.id);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::Kind;

    /// The manual page and docs/net.md name each kind.
    #[test]
    fn pages_name_each_kind() {
        let manual = include_str!("../../../../docs/man/iocreplay.1.in");
        let section = manual.split("\n.Ss net\n").nth(1).expect("a section").split("\n.Ss ").next();
        let section = section.expect("its beginning");
        let page = include_str!("../../../../docs/net.md");
        for name in Kind::ALL.iter().map(|kind| kind.name()) {
            assert!(section.contains(&format!("\n.Cm {name} ")), "iocreplay(1): {name}");
            assert!(page.contains(&format!("`{name}`")), "docs/net.md: {name}");
        }
    }
}
