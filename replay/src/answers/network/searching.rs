//! Searches: by client and name, with the servers that answer.

use super::addresses::Addresses;
use super::{is_loopback, is_pva, place, push, Kind, NetLine, Reading, Who};
use crate::words;
use iocrec_log::event::{Address, Fact, IocId, SearchLoad, Searches, Sender};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

const SECOND: i64 = 1_000_000_000;
/// Pairs of client and name; a bound for hostile logs. The same for names of channels, and for clients.
const MAX_SEARCHES: usize = 200_000;
/// Servers and clients' addresses remembered for a name.
const MAX_SERVERS: usize = 16;
/// Time of repeating a search after which it had no answer: libca's searches come ever more seldom, so in half a minute
/// a client asks some ten times. Answers come at once.
const REPEATED: i64 = 30 * SECOND;
/// Longest time between two searches of libca (EPICS_CA_MAX_SEARCH_PERIOD), and the time after which the recorder
/// reports one.
const PERIOD: i64 = 300 * SECOND + 60 * SECOND;
/// Searches a second that are a storm.
const STORM: u64 = 500;
/// Time between two notes of one storm.
const PAUSE: i64 = 15 * SECOND;
/// Senders named in a storm.
const MOST: usize = 5;

/// Whom a search comes from: addresses of loopback are those of one host, in one network namespace.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Client {
    host: Rc<str>,
    namespace: u64,
    address: Address,
    tcp: bool,
    pva: bool,
}

impl Client {
    fn new(host: &Rc<str>, namespace: u64, address: Address, tcp: bool, pva: bool) -> Client {
        if is_loopback(address) {
            Client { host: Rc::clone(host), namespace, address, tcp, pva }
        } else {
            Client { host: "".into(), namespace: 0, address, tcp, pva }
        }
    }
}

#[derive(Debug)]
struct Search {
    /// The recorder that saw it first.
    host: Rc<str>,
    since: i64,
    last: i64,
    count: u64,
    not_found: u64,
    answers: BTreeMap<Address, u64>,
    /// The GUIDs of these, with PVAccess.
    guids: BTreeMap<Address, Vec<u8>>,
    /// End of the log in which it was seen last.
    log_ends: i64,
}

impl Search {
    /// Whether it went on when the log ended, so long after the last one; `None` if that can't be told, since clients
    /// search ever more seldom.
    fn goes_on(&self, before_end: i64) -> Option<bool> {
        if before_end >= PERIOD {
            return Some(false);
        }
        let pauses = i64::try_from(self.count.saturating_sub(1)).unwrap_or(i64::MAX);
        let pause = self.last.saturating_sub(self.since).checked_div(pauses)?;
        (before_end <= pause.saturating_mul(2)).then_some(true)
    }
}

/// A time in which not every datagram was read in a namespace of a host, or of which a part of its log is missing.
#[derive(Debug)]
struct Partial {
    host: Rc<str>,
    /// Whether those of PVAccess, and the namespace; `None`: whatever was noted then.
    of: Option<(bool, u64)>,
    since: i64,
    end: i64,
}

impl Served {
    /// Whether clients reached it in another network namespace than this one's, all at loopback addresses.
    fn is_apart_from(&self, client: &Client) -> bool {
        let known = [client.namespace, self.namespace].iter().all(|namespace| *namespace != 0);
        known && is_loopback(self.server) && is_loopback(client.address) && client.namespace != self.namespace
    }
}

impl Partial {
    /// Whether a search of this client may have been missed, or an answer to it.
    fn concerns(&self, client: &Client, search: &Search) -> bool {
        let is_here = self.of.is_none_or(|(_, namespace)| namespace == client.namespace);
        let is_elsewhere = is_loopback(client.address) && (self.host != client.host || !is_here);
        let is_noted_there = self.of.is_some() || self.host == search.host;
        !is_elsewhere
            && is_noted_there
            && self.of.is_none_or(|(pva, _)| pva == client.pva)
            && self.since <= search.last.saturating_add(SECOND)
            && self.end >= search.since
    }
}

/// A server that made a channel of a name for clients at an address, which must have found it.
#[derive(Debug)]
struct Served {
    server: Address,
    /// The clients' address, and their network namespace if that is of loopback.
    ip: u32,
    namespace: u64,
    /// When the first was made, or was found to be open.
    since: i64,
}

#[derive(Debug)]
struct Storm {
    host: Rc<str>,
    pva: bool,
    since: i64,
    last: i64,
    names: u64,
    one_in: u32,
    at_least: bool,
    unread: u64,
    peak: f64,
    most: BTreeMap<Address, u64>,
    namespace: u64,
}

/// A name, as it is meant in a host's namespace by one protocol.
type Place<'a> = (&'a str, &'a str, u64, bool);

/// See the module.
#[derive(Default)]
pub struct Searching {
    addresses: Addresses,
    searches: HashMap<(Client, String), Search>,
    senders: HashMap<Client, Sender>,
    /// The name of the IOC that a sender is.
    ioc_names: HashMap<Client, String>,
    /// Names of channels that were made, by whether over PVAccess, with the servers that made them, and how many of these there are.
    channels: HashMap<(bool, String), Vec<Served>>,
    served: usize,
    /// Addresses of recorded hosts.
    own: HashSet<u32>,
    storms: Vec<Storm>,
    /// Where and when not every datagram was read.
    gaps: Vec<Partial>,
    /// Searches of this run, whose log's end is not known yet.
    left_out: u64,
}

impl Searching {
    pub(super) fn take(&mut self, reading: &Reading, time: u64, fact: &Fact) {
        match fact {
            Fact::Searches(searches) => self.searches(reading, searches, None),
            Fact::SearchLoad(load) => self.load(reading, load, false, reading.wall(time)),
            Fact::PvaSearches(of) => self.searches(reading, &of.searches, Some(&of.guids)),
            Fact::PvaSearchLoad(load) => self.load(reading, load, true, reading.wall(time)),
            Fact::Sender(sender) => {
                let address = self.addresses.of(reading.context, sender.client);
                // a socket is of one protocol, whichever that is
                for pva in [false, true] {
                    let client = Client::new(reading.host, sender.namespace, address, false, pva);
                    if self.senders.len() < MAX_SEARCHES {
                        let ioc = sender.ioc.and_then(|ioc| reading.context.ioc(ioc));
                        ioc.map(|ioc| self.ioc_names.insert(client.clone(), ioc.name.clone()));
                        self.own.insert(address.ip);
                        self.senders.insert(client, Sender::clone(sender));
                    }
                }
            }
            Fact::Channel(channel) if channel.sid.is_some() && !channel.pv.is_empty() => {
                if let Some(circuit) = reading.context.circuit(channel.circuit) {
                    let namespace = reading.context.circuit_ends(circuit.id).map_or(0, |ends| ends.namespace);
                    let ends = self.addresses.of_circuit(reading.context, circuit.id);
                    let Some([client, server]) = ends.filter(|[client, _]| client.ip != 0) else { return };
                    let namespace = place(namespace, client).0;
                    let (ip, since) = (client.ip, reading.wall(time));
                    let key = (is_pva(reading.context, circuit.id), channel.pv.clone());
                    self.serves(key, Served { server, ip, namespace, since });
                }
            }
            Fact::CircuitEnds(ends) => {
                let Some([client, server]) = self.addresses.of_circuit(reading.context, ends.circuit) else {
                    return;
                };
                let ends = [(ends.server, server), (ends.client, client)];
                let is_told = |(ioc, end): &&(Option<IocId>, Address)| ioc.is_some() && end.ip != 0;
                let own = ends.iter().filter(is_told).map(|(_, end)| end.ip);
                if self.own.len() < MAX_SEARCHES {
                    self.own.extend(own);
                }
            }
            _ => {}
        }
    }

    /// A server made a channel of this name.
    fn serves(&mut self, name: (bool, String), served: Served) {
        if let Some(known) = self.channels.get_mut(&name) {
            let same = |of: &&mut Served| {
                (of.server, of.ip, of.namespace) == (served.server, served.ip, served.namespace)
            };
            if let Some(known) = known.iter_mut().find(same) {
                known.since = known.since.min(served.since);
                return;
            }
        }
        let known = self.channels.get(&name).map_or(0, Vec::len);
        if self.served < MAX_SEARCHES && known < MAX_SERVERS {
            self.served += 1;
            self.channels.entry(name).or_default().push(served);
        }
    }

    /// `guids`: those of the servers that answered, with PVAccess.
    fn searches(&mut self, reading: &Reading, of: &Searches, guids: Option<&Vec<Vec<u8>>>) {
        let client = Client::new(
            reading.host,
            of.namespace,
            self.addresses.of(reading.context, of.client),
            of.tcp,
            guids.is_some(),
        );
        let key = (client, of.name.clone());
        if self.searches.len() >= MAX_SEARCHES && !self.searches.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let (since, last) = (reading.wall(of.since), reading.wall(of.last));
        let search = self.searches.entry(key).or_insert_with(|| Search {
            host: Rc::clone(reading.host),
            since,
            last,
            count: 0,
            not_found: 0,
            answers: BTreeMap::new(),
            guids: BTreeMap::new(),
            log_ends: i64::MIN,
        });
        // Another host may have seen the same datagrams.
        if search.host == *reading.host {
            search.count += u64::from(of.count);
        }
        search.since = search.since.min(since);
        if last >= search.last {
            (search.last, search.log_ends) = (last, i64::MIN);
        }
        search.not_found += u64::from(of.not_found);
        let answers: Vec<(Address, u32)> = of
            .answers
            .iter()
            .map(|(server, count)| (self.addresses.of(reading.context, *server), *count))
            .collect();
        for (server, count) in &answers {
            *search.answers.entry(*server).or_default() += u64::from(*count);
        }
        for ((server, _), guid) in answers.iter().zip(guids.into_iter().flatten()) {
            search.guids.insert(*server, guid.clone());
        }
    }

    /// Takes a note of the load, which was written when it ended.
    fn load(&mut self, reading: &Reading, load: &SearchLoad, pva: bool, end: i64) {
        let since = reading.wall(load.since);
        let is_partial = load.one_in > 1 || load.left_out > 0 || load.cut > 0 || load.unread > 0;
        if is_partial && self.gaps.len() < MAX_SEARCHES {
            let (host, of) = (Rc::clone(reading.host), Some((pva, load.namespace)));
            self.gaps.push(Partial { host, of, since, end });
        }
        let length = end.saturating_sub(since).max(SECOND / 10);
        let names = load.names.saturating_mul(u64::from(load.one_in.max(1)));
        let rate = names as f64 * 1e9 / length as f64;
        if rate < STORM as f64 {
            return;
        }
        let goes_on = |storm: &&mut Storm| {
            storm.host == *reading.host
                && storm.pva == pva
                && storm.namespace == load.namespace
                && since.saturating_sub(storm.last) < PAUSE
        };
        let storm = match self.storms.iter_mut().rev().find(goes_on) {
            Some(storm) => storm,
            None => {
                let storm = Storm {
                    host: Rc::clone(reading.host),
                    pva,
                    since,
                    last: since,
                    names: 0,
                    one_in: 1,
                    at_least: false,
                    unread: 0,
                    peak: 0.0,
                    most: BTreeMap::new(),
                    namespace: load.namespace,
                };
                push(&mut self.storms, storm, &mut self.left_out);
                let Some(storm) = self.storms.last_mut() else { return };
                storm
            }
        };
        storm.last = storm.last.max(end);
        storm.names = storm.names.saturating_add(names);
        storm.one_in = storm.one_in.max(load.one_in);
        storm.at_least |= load.cut > 0 || load.unread > 0;
        storm.unread = storm.unread.saturating_add(load.unread);
        storm.peak = storm.peak.max(rate);
        for (sender, count) in &load.most {
            if storm.most.len() < 1000 {
                let count = count.saturating_mul(load.one_in.max(1).into());
                *storm.most.entry(self.addresses.of(reading.context, *sender)).or_default() += count;
            }
        }
    }

    /// A part of a host's log is missing from one time to another: what was answered may be noted in it.
    pub(super) fn missing(&mut self, host: &Rc<str>, since: i64, end: i64) {
        if self.gaps.len() < MAX_SEARCHES {
            self.gaps.push(Partial { host: Rc::clone(host), of: None, since, end });
        }
    }

    /// A run is over: its log ends at this time.
    pub fn end_run(&mut self, end: i64) {
        for search in self.searches.values_mut().filter(|search| search.log_ends == i64::MIN) {
            search.log_ends = end;
        }
    }

    fn who(&self, client: &Client) -> Who {
        let mut who = Who { address: self.addresses.text(client.address), ..Who::default() };
        if let Some(sender) = self.senders.get(client) {
            who.user.clone_from(&sender.user);
            who.program.clone_from(&sender.program);
            who.pid = Some(sender.pid);
        }
        who.ioc = self.ioc_names.get(client).cloned().unwrap_or_default();
        who
    }

    /// The server that made channels of this name first for clients at the same address.
    fn served(&self, client: &Client, name: &str) -> Option<&Served> {
        let (namespace, _) = place(client.namespace, client.address);
        let here = |served: &&Served| (served.ip, served.namespace) == (client.address.ip, namespace);
        self.channels
            .get(&(client.pva, name.to_owned()))?
            .iter()
            .filter(here)
            .min_by_key(|served| served.since)
    }

    /// The lines, and how much was left out.
    pub fn lines(self) -> (Vec<NetLine>, u64) {
        let mut lines = Vec::new();
        let mut left_out = self.left_out;
        // Clients with loopback addresses are each in a network of their own: other servers may have the name there.
        let mut servers: BTreeMap<Place, BTreeMap<Address, u64>> = BTreeMap::new();
        let mut guids: BTreeMap<Place, BTreeMap<Address, &[u8]>> = BTreeMap::new();
        for ((client, name), search) in &self.searches {
            let place = (name.as_str(), &*client.host, client.namespace, client.pva);
            for (server, count) in &search.answers {
                *servers.entry(place).or_default().entry(*server).or_default() += count;
            }
            let known = search.guids.iter().map(|(server, guid)| (*server, guid.as_slice()));
            guids.entry(place).or_default().extend(known);
        }
        for ((client, name), search) in &self.searches {
            let of_name = servers.get(&(name.as_str(), &*client.host, client.namespace, client.pva));
            let is_own = is_loopback(client.address)
                || self.own.contains(&client.address.ip)
                || self.senders.contains_key(client);
            let is_repeated = search.last.saturating_sub(search.since) >= REPEATED && search.count > 2;
            let missed = self.gaps.iter().any(|gap| gap.concerns(client, search));
            let served = self.served(client, name).filter(|_| search.answers.is_empty());
            // Until there was a server it may have been long; and who found a name no longer searches for it.
            let at_once = served.is_some_and(|served| {
                let both = served.since.max(search.since);
                let goes_on = search.last.saturating_sub(both) >= REPEATED && search.count > 2;
                served.since.saturating_sub(search.since) < REPEATED && !goes_on
            });
            let unanswered = search.answers.is_empty() && !at_once && (is_own && !missed || is_repeated);
            let kind = if unanswered { Kind::Unanswered } else { Kind::Searched };
            let mut line = NetLine::new(kind, &search.host, search.since);
            line.last = Some(search.last);
            line.pv.clone_from(name);
            line.is_pva = client.pva;
            line.client = self.who(client);
            line.count = search.count;
            line.at_least = missed;
            line.servers = search.answers.keys().map(|server| self.addresses.text(*server)).collect();
            let before_end = search.log_ends.saturating_sub(search.last);
            line.going_on = search.goes_on(before_end).filter(|_| search.answers.is_empty() && !at_once);
            line.duration = Some(before_end.max(0)).filter(|_| search.log_ends > i64::MIN);
            line.reason = match (unanswered, search.answers.is_empty()) {
                _ if served.is_some() => "served",
                _ if search.not_found > 0 && search.answers.is_empty() => "not_found",
                (true, _) => "no_answer_seen",
                (false, true) => "answer_may_be_unseen",
                (false, false) => "answered",
            };
            if let Some(served) = served {
                line.servers.push(self.addresses.text(served.server));
                line.served_since = Some(served.since);
            } else if search.answers.is_empty() {
                let made = || self.channels.get(&(client.pva, name.clone()))?.first();
                let text = |at: Address| format!("server {} has it", self.addresses.text(at));
                line.text = match (of_name.and_then(|of| of.keys().next()), made()) {
                    (Some(at), _) => format!("{}, seen elsewhere in these logs", text(*at)),
                    (None, Some(of)) => match of.is_apart_from(client) {
                        true => format!("{}, but in another network namespace", text(of.server)),
                        false => format!("{}, seen elsewhere in these logs", text(of.server)),
                    },
                    (None, None) => String::new(),
                };
            }
            push(&mut lines, line, &mut left_out);
        }
        for (place @ (name, host, namespace, pva), servers) in servers.iter().filter(|(_, of)| of.len() > 1) {
            let guids = guids.get(place).filter(|guids| guids.len() == servers.len());
            // one server with several addresses has one GUID
            if guids.is_some_and(|guids| guids.values().collect::<HashSet<_>>().len() == 1) {
                continue;
            }
            let of_name = self.searches.iter().filter(|((client, of), search)| {
                (of.as_str(), &*client.host, client.namespace, client.pva) == (*name, *host, *namespace, *pva)
                    && !search.answers.is_empty()
            });
            let all: Vec<(&Client, &Search)> =
                of_name.map(|((client, _), search)| (client, search)).collect();
            let since = all.iter().map(|(_, search)| search.since).min().unwrap_or(0);
            let Some((client, first)) = all.iter().min_by_key(|(client, search)| (search.since, *client))
            else {
                continue;
            };
            let mut line = NetLine::new(Kind::SeveralServers, &first.host, since);
            line.last = all.iter().map(|(_, search)| search.last).max();
            line.pv = (*name).to_owned();
            line.is_pva = *pva;
            line.servers = servers.keys().map(|server| self.addresses.text(*server)).collect();
            line.count = servers.values().sum();
            let ports: HashSet<u16> = servers.keys().map(|server| server.port).collect();
            let ips: HashSet<u32> = servers.keys().map(|server| server.ip).collect();
            let mut may_be = Vec::new();
            if guids.is_none() && ports.len() < servers.len() {
                may_be.push("those with the same port may be one server with several addresses");
            }
            // a second server on a host has another port each time
            if ips.len() < servers.len() {
                may_be.push("those on the same host may be one server before and after a restart");
            }
            line.text = may_be.join("; ");
            if all.len() == 1 {
                line.client = self.who(client);
            }
            push(&mut lines, line, &mut left_out);
        }
        for storm in &self.storms {
            let mut line = NetLine::new(Kind::SearchStorm, &storm.host, storm.since);
            line.last = Some(storm.last);
            line.is_pva = storm.pva;
            line.count = storm.names;
            line.at_least = storm.at_least;
            line.reason = if storm.one_in > 1 { "estimated" } else { "counted" };
            let mut most: Vec<(&Address, &u64)> = storm.most.iter().collect();
            most.sort_by_key(|(address, count)| (std::cmp::Reverse(**count), **address));
            let named = |address: &Address| {
                let client = Client::new(&storm.host, storm.namespace, *address, false, storm.pva);
                self.who(&client)
            };
            if let Some((address, _)) = most.first() {
                line.client = named(address);
            }
            let about = if storm.one_in > 1 { "about " } else { "" };
            let listed: Vec<String> = most
                .iter()
                .take(MOST)
                .map(|(address, count)| {
                    let who = named(address);
                    let program = if who.program.is_empty() {
                        String::new()
                    } else {
                        format!(" ({} pid {})", words::name(&who.program), who.pid.unwrap_or(0))
                    };
                    let address = self.addresses.text(**address);
                    format!("{address}{program} {about}{count}")
                })
                .collect();
            line.text = format!("{about}{:.0} names/s at most; from {}", storm.peak, listed.join(", "));
            if storm.one_in > 1 {
                line.text += &format!("; of the datagrams down to one in {} were read", storm.one_in);
            }
            if storm.unread > 0 {
                line.text += &format!("; {} lost", words::counted(storm.unread, "datagram"));
            }
            lines.push(line);
        }
        (lines, left_out)
    }
}
