//! The state of one circuit: the client's claimed identity, its channels, and the requests that it has prepared.
//!
//! A client prepares a request (INIT) and then carries it out, once or often: the server's answer to INIT has the
//! structure that the bits of later puts count. Ids are the circuit's own and begin with the same numbers on each.

mod channels;
mod claims;
mod context;
mod messages;
mod monitors;
mod requests;
mod seed;
mod values;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use epics::pva::cursor::text;
use epics::pva::{Cursor, Read};
use iocrec_log::event::{
    Channel, ChannelId, CircuitId, Event, Fact, Origin, PvaCircuit, PvaKind, PvaMessage,
};

use crate::net::circuit::Circuit;
use crate::net::protocol::{Ends, Side};
use crate::owed::Owed;
use crate::pva::framer::Message;
use crate::pva::message::{PROCESS, PUT, PUT_GET, RPC};
use crate::pva::types::{Known, Types};

use claims::Claims;
pub use context::{Context, Ids, SessionLimits, FIRST_ID};
use requests::Request;
pub use seed::Seed;

/// Method of a circuit that is encrypted.
pub const ENCRYPTED: &str = "tls";

/// Bytes to keep of a server's text.
const KEPT_TEXT: usize = 512;

/// Identities of a circuit that are kept. Clients have one.
const MOST_SAID: usize = 8;

/// Subcommand: prepares a request.
const INIT: u8 = 0x08;
/// Subcommand of PUT: fetches the value; of PUT_GET: what it would send back.
const FETCH: u8 = 0x40;
/// Subcommand of PUT_GET: fetches the value that it puts to.
const FETCH_PUT: u8 = 0x80;
/// Subcommand: the request ends with this.
const LAST: u8 = 0x10;

/// The state of one circuit. See the module.
#[derive(Debug)]
pub struct Session {
    /// Its ends, and the client's identity.
    pub circuit: Circuit,
    method: String,
    version: u8,
    /// The order of the numbers of all messages to the server, once it shows that it goes by that.
    pub order: Option<bool>,
    /// Whether the server believes, for each channel, who the client said to be when it asked for that. QSRV2 believes, for
    /// a channel or for a request, who the client says to be when it first puts by that.
    keeps_users: bool,
    /// Who the client said to be, each with the last channel that it asked for as such; empty if it has not changed that.
    said: Vec<(ChannelId, String, String)>,
    channels: BTreeMap<ChannelId, Channel>,
    by_sid: HashMap<u32, ChannelId>,
    by_cid: HashMap<u32, ChannelId>,
    /// Answers to requests for channels, by the client's numbers.
    owed: Owed,
    /// Whether the client has used a request's number for several channels, or before there was one: then it is not known
    /// which of them a number of a request means.
    mixes: bool,
    requests: BTreeMap<u32, Request>,
    /// How often something came twice, with other bytes.
    doubts: u32,
    /// Channels of the gets that are prepared, as far as they are known. They take no other's place.
    gets: BTreeMap<u32, ChannelId>,
    /// Requests that ended before all their answers had come: these may be taken for those to a later one with the number.
    unanswered: BTreeMap<u32, ChannelId>,
    /// Channels of the monitors that run.
    monitors: BTreeMap<u32, ChannelId>,
    /// The requests and monitors of each channel.
    of_channel: BTreeSet<(ChannelId, u32)>,
    /// Types that each side has defined.
    from_client: Known,
    from_server: Known,
    /// Whether the client may have defined others, which were not seen or could not be read.
    misses_types: bool,
    /// Whether not all that the client has asked for was seen.
    pub misses_requests: bool,
}

impl Session {
    /// A session of which only the ends are known.
    pub fn new(ends: &Ends, reports_ends: bool) -> Session {
        Session::of(Circuit::new(ends, reports_ends))
    }

    fn of(circuit: Circuit) -> Session {
        Session {
            circuit,
            method: String::new(),
            version: 0,
            order: None,
            keeps_users: false,
            said: Vec::new(),
            channels: BTreeMap::new(),
            by_sid: HashMap::new(),
            by_cid: HashMap::new(),
            owed: Owed::default(),
            mixes: false,
            requests: BTreeMap::new(),
            doubts: 0,
            gets: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            monitors: BTreeMap::new(),
            of_channel: BTreeSet::new(),
            from_client: Known::default(),
            from_server: Known::default(),
            misses_types: false,
            misses_requests: false,
        }
    }

    /// The circuit was closed or forgotten, which `fact` says.
    pub fn end(
        &mut self,
        time: u64,
        fact: fn(CircuitId) -> Fact,
        ids: &mut Ids,
        types: &mut Types,
        out: &mut Vec<Event>,
    ) {
        let held = self.channels.len() + self.requests.len() + self.monitors.len();
        ids.open = ids.open.saturating_sub(held);
        self.from_client.forget(types);
        self.from_server.forget(types);
        self.circuit.end(time, fact, out);
        *self = Session::of(self.circuit.bare());
    }

    /// Takes a message of either side. What can't be read in it is passed over.
    pub fn message(&mut self, side: Side, time: u64, message: &Message, context: &mut Context) {
        if message.after_loss {
            let known = match side {
                Side::Client => &mut self.from_client,
                Side::Server => &mut self.from_server,
            };
            known.forget(context.types);
            self.misses_types |= side == Side::Client;
        }
        let version = message.header.version;
        if self.circuit.id().is_none() || version > self.version && version <= 2 {
            self.version = self.version.max(version.min(2));
            self.number(time, context);
            self.describe(time, context.out);
        }
        // what comes after something unreadable is not understood either
        let _ = match side {
            Side::Client => self.request(time, message, context),
            Side::Server => self.answer(time, message, context),
        };
    }

    /// The number of the request whose put a server's message answers, if the client has not asked for it yet, as far as is
    /// known.
    pub fn unasked(&self, side: Side, message: &Message) -> Option<u32> {
        let mut cursor = Cursor::new(message.payload, message.header.is_big_endian());
        let is_answer = side == Side::Server && message.header.command == PUT;
        let (ioid, subcommand) = (cursor.u32().ok().filter(|_| is_answer)?, cursor.u8().ok()?);
        let request = self.requests.get(&ioid)?;
        (subcommand & (INIT | FETCH) == 0 && !request.puts).then_some(ioid)
    }

    /// The client's identity. If it has channels, or may have (`is_later`), these keep the name before, or have none any more:
    /// the new one is reported with the first put on a later channel, so that nothing that came in the packet before it is
    /// told by it.
    fn identity(&mut self, time: u64, method: String, claims: Claims, is_later: bool, context: &mut Context) {
        let circuit = &self.circuit;
        // which name which channel was asked for by is not known
        let claims = if self.owed.is_any() { Claims::default() } else { claims };
        let known = self.said.last().map_or((&circuit.user, &circuit.host), |(_, user, host)| (user, host));
        let is_other = (&claims.user, &claims.host) != known;
        if is_other && self.channels.is_empty() && !is_later {
            self.said.clear();
            (self.circuit.user, self.circuit.host) = (claims.user, claims.host);
            self.circuit.report(time, context.out);
        } else if is_other {
            if self.said.is_empty() {
                self.said.push((0, circuit.user.clone(), circuit.host.clone()));
            }
            self.said.last_mut().into_iter().for_each(|last| last.0 = context.ids.channel);
            self.said.push((ChannelId::MAX, claims.user, claims.host));
            if self.said.len() > MOST_SAID || !self.keeps_users {
                while self.said.len() > 2 {
                    self.said.remove(0);
                }
                // which of the names counts for the older channels is not known
                if let Some((_, user, host)) = self.said.first_mut() {
                    user.clear();
                    host.clear();
                }
            }
        }
        if method != self.method {
            self.method = method;
            self.describe(time, context.out);
        }
    }

    /// Reports who a channel is used by, as far as it is known whom the server believes.
    fn speak_as(&mut self, time: u64, channel: ChannelId, out: &mut Vec<Event>) {
        if self.said.is_empty() {
            return;
        }
        // when a channel was asked for that was not seen to be, is not known
        let is_seen = self.channels.get(&channel).is_some_and(|channel| channel.origin == Origin::Opened);
        let said = self.said.iter().find(|said| channel <= said.0).filter(|_| is_seen);
        let (user, host) = said.map(|(_, user, host)| (user.clone(), host.clone())).unwrap_or_default();
        if (&user, &host) != (&self.circuit.user, &self.circuit.host) {
            (self.circuit.user, self.circuit.host) = (user, host);
            self.circuit.report(time, out);
        }
    }

    /// Takes the server's status. What it says beside OK is noted.
    fn judge(
        &mut self,
        time: u64,
        command: u8,
        channel: Option<ChannelId>,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
    ) -> Read<()> {
        let status = cursor.status()?;
        if status.code > 0 {
            self.say(time, command, channel, status.code.into(), status.text, context);
        }
        if status.is_success() {
            Ok(())
        } else {
            Err(epics::pva::Fault::Wrong)
        }
    }

    fn say(
        &mut self,
        time: u64,
        command: u8,
        channel: Option<ChannelId>,
        level: u16,
        said: &[u8],
        context: &mut Context,
    ) {
        let circuit = self.number(time, context);
        let text = text(said.get(..KEPT_TEXT).unwrap_or(said));
        let message = PvaMessage { circuit, channel, command: command.into(), level, text };
        context.emit(time, Fact::PvaMessage(message));
    }

    /// The circuit is encrypted: that there is one is all that shows.
    pub fn encrypted(&mut self, time: u64, context: &mut Context) {
        self.method = ENCRYPTED.to_owned();
        self.number(time, context);
        self.describe(time, context.out);
    }

    /// The circuit's number; assigns and reports one if it has none yet.
    fn number(&mut self, time: u64, context: &mut Context) -> CircuitId {
        let is_new = self.circuit.id().is_none();
        let id = self.circuit.number(time, &mut context.ids.circuit, context.out);
        if is_new && [self.circuit.client, self.circuit.server].iter().any(|end| end.ip6().is_some()) {
            // the circuit's own report can't say where it is
            self.describe(time, context.out);
        }
        id
    }

    fn describe(&self, time: u64, out: &mut Vec<Event>) {
        let Some(circuit) = self.circuit.id() else { return };
        let fact = Fact::from(PvaCircuit {
            circuit,
            version: self.version.into(),
            method: self.method.clone(),
            client_ip: self.circuit.client.ip6().map(Vec::from).unwrap_or_default(),
            server_ip: self.circuit.server.ip6().map(Vec::from).unwrap_or_default(),
        });
        out.push(Event { time, fact });
    }
}

/// Whether a request only fetches values, and puts nothing.
fn fetches(command: u8, subcommand: u8) -> bool {
    let fetch = match command {
        PUT_GET => FETCH | FETCH_PUT,
        _ => FETCH,
    };
    subcommand & fetch != 0
}

/// The requests that are recorded.
fn kind(command: u8) -> Option<PvaKind> {
    match command {
        PUT => Some(PvaKind::Put),
        PUT_GET => Some(PvaKind::PutGet),
        PROCESS => Some(PvaKind::Process),
        RPC => Some(PvaKind::Rpc),
        _ => None,
    }
}
