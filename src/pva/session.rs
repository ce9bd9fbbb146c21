//! The state of one circuit: the client's claimed identity, its channels, and the requests that it has prepared.
//!
//! A client prepares a request (INIT) and then carries it out, once or often: the server's answer to INIT has the
//! structure that the bits of later puts count. Ids are the circuit's own and begin with the same numbers on each.

mod seed;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use epics::pva::cursor::text;
use epics::pva::types::ANY;
use epics::pva::value::{self, Visitor};
use epics::pva::{Cursor, Leaf, Read};
use iocrec_log::event::{
    Channel, ChannelId, CircuitId, Event, Fact, Origin, PvaAnswer, PvaCircuit, PvaKind, PvaMessage,
    PvaMonitor, PvaPut, PvaTypeId, PvaValue,
};

use crate::net::circuit::Circuit;
use crate::net::protocol::{Ends, Side};
use crate::pva::framer::Message;
use crate::pva::message::{
    CANCEL_REQUEST, CONNECTION_VALIDATED, CONNECTION_VALIDATION, CREATE_CHANNEL, DESTROY_CHANNEL,
    DESTROY_REQUEST, GET, GET_FIELD, MESSAGE, MONITOR, PROCESS, PUT, PUT_GET, RPC,
};
pub use crate::pva::session::seed::Seed;
use crate::pva::types::{Known, TypeRef, Types};

/// Numbers of circuits and channels begin here, so that they differ from those of Channel Access.
pub const FIRST_ID: u32 = 1 << 31;
/// Bytes to keep of a request's options. Clients send five, or a few dozen.
const KEPT_OPTIONS: usize = 256;
/// Longest name of a channel: QSRV1 accepts no longer ones.
const LONGEST_NAME: usize = 500;
/// Bytes to keep of a server's text.
const KEPT_TEXT: usize = 512;
/// Longest user or host name, as in Channel Access.
const LONGEST_USER: usize = 512;

/// Subcommand: prepares a request.
const INIT: u8 = 0x08;
/// Subcommand of PUT: fetches the value.
const FETCH: u8 = 0x40;
/// Subcommand: the request ends with this.
const LAST: u8 = 0x10;
/// Subcommands of MONITOR.
const MONITOR_START: u8 = 0x44;
const MONITOR_STOP: u8 = 0x04;
/// Status of a request whose answer the client doesn't wait for.
const CANCELLED: u16 = 4;

/// Assigns ids to circuits and channels, and counts what all circuits hold.
#[derive(Debug)]
pub struct Ids {
    circuit: CircuitId,
    channel: ChannelId,
    /// Channels and requests of all circuits.
    open: usize,
    /// Of these, how many had to be forgotten while open, not yet reported.
    pub forgotten: u64,
}

impl Default for Ids {
    fn default() -> Ids {
        Ids { circuit: FIRST_ID, channel: FIRST_ID, open: 0, forgotten: 0 }
    }
}

/// Bounds.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// Channels, and likewise requests and monitors, of one circuit.
    pub circuit: usize,
    /// All of these of all circuits.
    pub all: usize,
    /// Bytes to keep of a value.
    pub payload: usize,
}

/// The shared state that a session uses.
#[derive(Debug)]
pub struct Context<'a> {
    /// Assigns ids.
    pub ids: &'a mut Ids,
    /// The types of all circuits.
    pub types: &'a mut Types,
    /// Bounds.
    pub limits: SessionLimits,
    /// Receives the facts.
    pub out: &'a mut Vec<Event>,
}

impl Context<'_> {
    fn emit(&mut self, time: u64, fact: Fact) {
        self.out.push(Event { time, fact });
    }
}

/// A request that the client has prepared.
#[derive(Debug)]
struct Request {
    kind: PvaKind,
    channel: ChannelId,
    /// The options' type and bytes.
    options: (Option<TypeRef>, Vec<PvaTypeId>, bool, u32, Box<[u8]>),
    /// The structure to put to, and the one that the server sends back.
    to_put: Option<TypeRef>,
    to_get: Option<TypeRef>,
    /// Whether an answer is awaited.
    waits: bool,
}

/// The state of one circuit. See the module.
#[derive(Debug)]
pub struct Session {
    /// Its ends, and the client's identity.
    pub circuit: Circuit,
    method: String,
    version: u8,
    channels: BTreeMap<ChannelId, Channel>,
    by_sid: HashMap<u32, ChannelId>,
    by_cid: HashMap<u32, ChannelId>,
    requests: BTreeMap<u32, Request>,
    /// Channels of the monitors that run.
    monitors: BTreeMap<u32, ChannelId>,
    /// The requests and monitors of each channel.
    of_channel: BTreeSet<(ChannelId, u32)>,
    /// Types that each side has defined.
    from_client: Known,
    from_server: Known,
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
            channels: BTreeMap::new(),
            by_sid: HashMap::new(),
            by_cid: HashMap::new(),
            requests: BTreeMap::new(),
            monitors: BTreeMap::new(),
            of_channel: BTreeSet::new(),
            from_client: Known::default(),
            from_server: Known::default(),
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

    fn request(&mut self, time: u64, message: &Message, context: &mut Context) -> Read<()> {
        let cursor = &mut Cursor::new(message.payload, message.header.is_big_endian());
        match message.header.command {
            CONNECTION_VALIDATION => {
                // size of the buffer, number of types that it keeps, quality of service
                cursor.take(4 + 2 + 2)?;
                let method = text(cursor.string()?);
                let mut claims = Claims::default();
                if let Some(of) = self.from_client.read(cursor, context.types)? {
                    let description = context.types.get(of).unwrap_or_default().to_vec();
                    // an incomplete one still says what it says
                    let _ = value::whole(&description, cursor, &mut claims);
                }
                self.identity(time, method, claims, context);
            }
            CREATE_CHANNEL => {
                for _ in 0..cursor.u16()? {
                    let cid = cursor.u32()?;
                    let name = cursor.string()?;
                    if !name.is_empty() && name.len() <= LONGEST_NAME {
                        self.create(time, cid, text(name), context);
                    }
                }
            }
            DESTROY_CHANNEL => {
                let (sid, cid) = (cursor.u32()?, cursor.u32()?);
                let found = self.by_sid.get(&sid).or_else(|| self.by_cid.get(&cid)).copied();
                if let Some(channel) = found {
                    self.close(time, channel, context);
                }
            }
            DESTROY_REQUEST | CANCEL_REQUEST => {
                let (_, ioid) = (cursor.u32()?, cursor.u32()?);
                self.give_up(time, ioid, message.header.command == DESTROY_REQUEST, context);
            }
            command @ (GET..=MONITOR | PROCESS | RPC) => {
                let (sid, ioid, subcommand) = (cursor.u32()?, cursor.u32()?, cursor.u8()?);
                if subcommand & INIT != 0 {
                    self.prepare(time, command, (sid, ioid), cursor, context)?;
                } else if command == MONITOR {
                    self.monitor(time, subcommand, (sid, ioid), context);
                } else if let Some(kind) = kind(command).filter(|_| subcommand & FETCH == 0) {
                    let length = message.length.saturating_sub(9);
                    self.put(time, kind, (sid, ioid), cursor, length, context)?;
                } else if let Some(request) = self.requests.get_mut(&ioid) {
                    request.waits = true;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn answer(&mut self, time: u64, message: &Message, context: &mut Context) -> Read<()> {
        let cursor = &mut Cursor::new(message.payload, message.header.is_big_endian());
        let command = message.header.command;
        match command {
            CONNECTION_VALIDATED => self.judge(time, command, None, cursor, context)?,
            CREATE_CHANNEL => {
                let (cid, sid) = (cursor.u32()?, cursor.u32()?);
                let asked = self.by_cid.get(&cid).copied();
                if self.judge(time, command, asked, cursor, context).is_ok() {
                    self.created(time, cid, sid, context);
                } else if let Some(channel) = asked {
                    self.close(time, channel, context);
                }
            }
            DESTROY_CHANNEL => {
                let (sid, cid) = (cursor.u32()?, cursor.u32()?);
                // the request has closed it already, unless it was not seen
                let found = self.by_sid.get(&sid).filter(|channel| self.by_cid.get(&cid) == Some(*channel));
                if let Some(channel) = found.copied() {
                    self.close(time, channel, context);
                }
            }
            MESSAGE => {
                let (ioid, level) = (cursor.u32()?, cursor.u8()?);
                let channel = self.requests.get(&ioid).map(|request| request.channel);
                let said = cursor.string()?;
                self.say(time, command, channel, level.into(), said, context);
            }
            GET_FIELD => {
                cursor.u32()?;
                if cursor.status()?.is_success() {
                    self.from_server.read(cursor, context.types)?;
                }
            }
            GET..=MONITOR | PROCESS | RPC => {
                let (ioid, subcommand) = (cursor.u32()?, cursor.u8()?);
                if subcommand & INIT != 0 {
                    self.prepared(time, command, ioid, cursor, context)?;
                } else if let Some(kind) = kind(command) {
                    let fetched = command == PUT && subcommand & FETCH != 0;
                    let kind = if fetched { PvaKind::Get } else { kind };
                    self.answered(time, kind, ioid, cursor, message.length, context)?;
                    if subcommand & LAST != 0 {
                        self.forget_request(ioid, context.ids);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The client's identity.
    fn identity(&mut self, time: u64, method: String, claims: Claims, context: &mut Context) {
        if (&claims.user, &claims.host) != (&self.circuit.user, &self.circuit.host) {
            (self.circuit.user, self.circuit.host) = (claims.user, claims.host);
            self.circuit.report(time, context.out);
        }
        if method != self.method {
            self.method = method;
            self.describe(time, context.out);
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

    /// The client prepares a request.
    fn prepare(
        &mut self,
        time: u64,
        command: u8,
        (sid, ioid): (u32, u32),
        cursor: &mut Cursor<'_>,
        context: &mut Context,
    ) -> Read<()> {
        self.forget_request(ioid, context.ids);
        // whatever the request: the types that it defines may come again in another
        let of = self.from_client.read(cursor, context.types);
        let Some(kind) = kind(command) else { return Ok(()) };
        let length = cursor.rest().len();
        let bytes = cursor.rest().get(..KEPT_OPTIONS).unwrap_or(cursor.rest()).into();
        let known = of.ok().flatten();
        let others = self.types_within(time, Side::Client, known, false, cursor, context);
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let channel = self.channel_of(time, sid, context);
        self.make_room(self.requests.len(), context, |session, ids| {
            let old = session.requests.keys().next().copied();
            old.is_some_and(|old| session.forget_request(old, ids))
        });
        context.ids.open += 1;
        let options = (known, others, cursor.is_big_endian(), length, bytes);
        let request = Request { kind, channel, options, to_put: None, to_get: None, waits: false };
        self.requests.insert(ioid, request);
        self.of_channel.insert((channel, ioid));
        Ok(())
    }

    /// The server's answer to that.
    fn prepared(
        &mut self,
        time: u64,
        command: u8,
        ioid: u32,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
    ) -> Read<()> {
        let channel = self.requests.get(&ioid).map(|request| request.channel);
        if let Err(refused) = self.judge(time, command, channel, cursor, context) {
            self.forget_request(ioid, context.ids);
            return Err(refused);
        }
        if matches!(command, PROCESS | RPC) {
            return Ok(());
        }
        let to_put = self.from_server.read(cursor, context.types);
        let to_get = match command {
            PUT_GET => self.from_server.read(cursor, context.types),
            _ => to_put,
        };
        if let Some(request) = self.requests.get_mut(&ioid) {
            request.to_put = to_put.ok().flatten();
            request.to_get = to_get.ok().flatten();
        }
        Ok(())
    }

    /// The client carries out a request.
    fn put(
        &mut self,
        time: u64,
        kind: PvaKind,
        (sid, ioid): (u32, u32),
        cursor: &mut Cursor<'_>,
        length: u64,
        context: &mut Context,
    ) -> Read<()> {
        let channel = self.channel_of(time, sid, context);
        let circuit = self.number(time, context);
        let value = match kind {
            PvaKind::Process => PvaValue::default(),
            PvaKind::Rpc => {
                let before = cursor.rest().len();
                let of = self.from_client.read(cursor, context.types);
                let length = length.saturating_sub((before - cursor.rest().len()) as u64);
                self.value(time, Side::Client, of.ok().flatten(), false, cursor, length, context)
            }
            _ => {
                let of = self.requests.get(&ioid).and_then(|request| request.to_put);
                self.value(time, Side::Client, of, true, cursor, length, context)
            }
        };
        let options = match self.requests.get_mut(&ioid) {
            Some(request) => {
                request.waits = true;
                let (of, others, big_endian, length, bytes) = &request.options;
                let mut types = vec![context.types.number(time, *of, context.out)];
                types.extend(others);
                PvaValue { types, big_endian: *big_endian, length: *length, bytes: bytes.to_vec() }
            }
            None => PvaValue::default(),
        };
        let put = PvaPut { circuit, channel, ioid, kind, options, value };
        context.emit(time, Fact::PvaPut(Box::new(put)));
        Ok(())
    }

    /// The server's answer to that.
    fn answered(
        &mut self,
        time: u64,
        kind: PvaKind,
        ioid: u32,
        cursor: &mut Cursor<'_>,
        length: u64,
        context: &mut Context,
    ) -> Read<()> {
        let whole = cursor.rest().len();
        let status = cursor.status()?;
        let used = (whole - cursor.rest().len()) as u64;
        let length = length.saturating_sub(5 + used);
        let circuit = self.number(time, context);
        let mut of = None;
        if let Some(request) = self.requests.get_mut(&ioid) {
            request.waits = false;
            of = request.to_get;
        }
        let value = match kind {
            _ if !status.is_success() => PvaValue::default(),
            PvaKind::Rpc => {
                let before = cursor.rest().len();
                let of = self.from_server.read(cursor, context.types);
                let length = length.saturating_sub((before - cursor.rest().len()) as u64);
                match of {
                    Ok(None) => PvaValue::default(),
                    of => self.value(time, Side::Server, of.ok().flatten(), false, cursor, length, context),
                }
            }
            PvaKind::Get | PvaKind::PutGet => {
                self.value(time, Side::Server, of, true, cursor, length, context)
            }
            PvaKind::Put | PvaKind::Process => PvaValue::default(),
        };
        let said = status.text.get(..KEPT_TEXT).unwrap_or(status.text);
        let (status, text) = (u16::from(status.code), text(said));
        let answer = PvaAnswer { circuit, ioid, kind, status, text, value };
        context.emit(time, Fact::PvaAnswer(Box::new(answer)));
        Ok(())
    }

    /// A value of this type, `length` bytes long, of which the first are at `cursor`.
    #[allow(clippy::too_many_arguments)] // a value's members
    fn value(
        &mut self,
        time: u64,
        side: Side,
        of: Option<TypeRef>,
        changed: bool,
        cursor: &mut Cursor<'_>,
        length: u64,
        context: &mut Context,
    ) -> PvaValue {
        let rest = cursor.rest();
        let bytes = rest.get(..context.limits.payload).unwrap_or(rest).to_vec();
        let mut types = vec![context.types.number(time, of, context.out)];
        types.extend(self.types_within(time, side, of, changed, cursor, context));
        PvaValue {
            types,
            big_endian: cursor.is_big_endian(),
            length: u32::try_from(length).unwrap_or(u32::MAX),
            bytes,
        }
    }

    /// The types of the anys in a value, which may define more.
    fn types_within(
        &mut self,
        time: u64,
        side: Side,
        of: Option<TypeRef>,
        changed: bool,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
    ) -> Vec<PvaTypeId> {
        let description = of.and_then(|of| context.types.get(of)).unwrap_or_default();
        if !description.iter().any(|code| code & !0x08 == ANY) {
            return Vec::new();
        }
        let description = description.to_vec();
        let known = match side {
            Side::Client => &mut self.from_client,
            Side::Server => &mut self.from_server,
        };
        let mut anys = Anys { known, types: context.types, found: Vec::new() };
        // as far as it can be read
        let _ = match changed {
            true => cursor.bits().and_then(|bits| value::changed(&description, bits, cursor, &mut anys)),
            false => value::whole(&description, cursor, &mut anys),
        };
        let found = anys.found;
        found.into_iter().map(|of| context.types.number(time, of, context.out)).collect()
    }

    fn monitor(&mut self, time: u64, subcommand: u8, (sid, ioid): (u32, u32), context: &mut Context) {
        if subcommand & MONITOR_START == MONITOR_START {
            let channel = self.channel_of(time, sid, context);
            if !self.monitors.contains_key(&ioid) {
                self.make_room(self.monitors.len(), context, |session, ids| {
                    let old = session.monitors.keys().next().copied();
                    old.is_some_and(|old| session.forget_monitor(old, ids).is_some())
                });
                context.ids.open += 1;
                self.monitors.insert(ioid, channel);
                self.of_channel.insert((channel, ioid));
            }
            self.report_monitor(time, channel, ioid, true, context);
        } else if subcommand & (MONITOR_STOP | LAST) != 0 {
            self.stop(time, ioid, context);
        }
    }

    fn stop(&mut self, time: u64, ioid: u32, context: &mut Context) {
        if let Some(channel) = self.forget_monitor(ioid, context.ids) {
            self.report_monitor(time, channel, ioid, false, context);
        }
    }

    fn report_monitor(
        &mut self,
        time: u64,
        channel: ChannelId,
        ioid: u32,
        starts: bool,
        context: &mut Context,
    ) {
        let circuit = self.number(time, context);
        context.emit(time, Fact::PvaMonitor(PvaMonitor { circuit, channel, ioid, starts }));
    }

    /// The client ends a request, or does not wait for its answer.
    fn give_up(&mut self, time: u64, ioid: u32, ends: bool, context: &mut Context) {
        self.stop(time, ioid, context);
        let request = self.requests.get_mut(&ioid);
        let waiting = request.and_then(|request| std::mem::take(&mut request.waits).then_some(request.kind));
        if let Some(kind) = waiting {
            let circuit = self.number(time, context);
            let (text, value) = (String::new(), PvaValue::default());
            let answer = PvaAnswer { circuit, ioid, kind, status: CANCELLED, text, value };
            context.emit(time, Fact::PvaAnswer(Box::new(answer)));
        }
        if ends {
            self.forget_request(ioid, context.ids);
        }
    }

    fn forget_request(&mut self, ioid: u32, ids: &mut Ids) -> bool {
        let Some(request) = self.requests.remove(&ioid) else { return false };
        if !self.monitors.contains_key(&ioid) {
            self.of_channel.remove(&(request.channel, ioid));
        }
        ids.open = ids.open.saturating_sub(1);
        true
    }

    fn forget_monitor(&mut self, ioid: u32, ids: &mut Ids) -> Option<ChannelId> {
        let channel = self.monitors.remove(&ioid)?;
        if !self.requests.contains_key(&ioid) {
            self.of_channel.remove(&(channel, ioid));
        }
        ids.open = ids.open.saturating_sub(1);
        Some(channel)
    }

    /// Makes room for one more, beside `have` of its kind.
    fn make_room(
        &mut self,
        have: usize,
        context: &mut Context,
        forget: impl FnOnce(&mut Session, &mut Ids) -> bool,
    ) {
        let full = have >= context.limits.circuit || context.ids.open >= context.limits.all;
        if full && have > 0 && forget(self, context.ids) {
            context.ids.forgotten += 1;
        }
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
        let fact = Fact::PvaCircuit(PvaCircuit {
            circuit,
            version: self.version.into(),
            method: self.method.clone(),
            client_ip: self.circuit.client.ip6().map(Vec::from).unwrap_or_default(),
            server_ip: self.circuit.server.ip6().map(Vec::from).unwrap_or_default(),
        });
        out.push(Event { time, fact });
    }

    /// Takes the client's request for a channel.
    fn create(&mut self, time: u64, cid: u32, pv: String, context: &mut Context) {
        if self.is_seeded(cid, &pv) {
            return;
        }
        if let Some(id) = self.by_cid.get(&cid).copied() {
            self.close(time, id, context);
        }
        self.add(time, Some(cid), None, pv, Origin::Opened, context);
    }

    /// Takes the server's answer that it has made a channel.
    fn created(&mut self, time: u64, cid: u32, sid: u32, context: &mut Context) {
        if let Some(held) = self.by_sid.get(&sid).copied().filter(|held| self.by_cid.get(&cid) != Some(held))
        {
            self.close(time, held, context);
        }
        match self.by_cid.get(&cid).and_then(|id| self.channels.get(id)).cloned() {
            Some(asked) => self.replace(time, Channel { sid: Some(sid), ..asked }, context),
            None => _ = self.add(time, Some(cid), Some(sid), String::new(), Origin::MidStream, context),
        }
    }

    /// The channel with this SID; creates it if it is not known.
    fn channel_of(&mut self, time: u64, sid: u32, context: &mut Context) -> ChannelId {
        match self.by_sid.get(&sid) {
            Some(&id) => id,
            None => self.add(time, None, Some(sid), String::new(), Origin::MidStream, context),
        }
    }

    fn add(
        &mut self,
        time: u64,
        cid: Option<u32>,
        sid: Option<u32>,
        mut pv: String,
        origin: Origin,
        context: &mut Context,
    ) -> ChannelId {
        let full = self.channels.len() >= context.limits.circuit || context.ids.open >= context.limits.all;
        if let Some(oldest) = self.channels.keys().next().copied().filter(|_| full) {
            self.close(time, oldest, context);
            context.ids.forgotten += 1;
        }
        pv.shrink_to_fit();
        context.ids.channel = context.ids.channel.wrapping_add(1);
        context.ids.open += 1;
        let id = context.ids.channel;
        let circuit = self.number(time, context);
        self.replace(time, Channel { id, circuit, cid, sid, pv, dbr: None, count: None, origin }, context);
        id
    }

    /// Stores and reports a channel.
    fn replace(&mut self, time: u64, channel: Channel, context: &mut Context) {
        self.by_sid.extend(channel.sid.map(|sid| (sid, channel.id)));
        self.by_cid.extend(channel.cid.map(|cid| (cid, channel.id)));
        context.emit(time, Fact::from(channel.clone()));
        self.channels.insert(channel.id, channel);
    }

    fn close(&mut self, time: u64, id: ChannelId, context: &mut Context) {
        let Some(channel) = self.channels.remove(&id) else { return };
        for (ids, key) in [(&mut self.by_sid, channel.sid), (&mut self.by_cid, channel.cid)] {
            if key.is_some_and(|key| ids.get(&key) == Some(&id)) {
                key.map(|key| ids.remove(&key));
            }
        }
        let own: Vec<u32> = self.of_channel.range((id, 0)..=(id, u32::MAX)).map(|(_, ioid)| *ioid).collect();
        for ioid in own {
            self.forget_request(ioid, context.ids);
            self.forget_monitor(ioid, context.ids);
            self.of_channel.remove(&(id, ioid));
        }
        context.ids.open = context.ids.open.saturating_sub(1);
        context.emit(time, Fact::ChannelEnd(id));
    }
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

/// What a client claims of itself.
#[derive(Debug, Default)]
struct Claims {
    user: String,
    host: String,
    path: Vec<Vec<u8>>,
}

impl Visitor for Claims {
    fn enter(&mut self, name: &[u8]) {
        self.path.push(name.to_vec());
    }

    fn leave(&mut self) {
        self.path.pop();
    }

    fn leaf(&mut self, leaf: Leaf<'_>) {
        let Leaf::One(_, bytes) = leaf else { return };
        let [name] = self.path.as_slice() else { return };
        let claim = match name.as_slice() {
            b"user" => &mut self.user,
            b"host" => &mut self.host,
            _ => return,
        };
        *claim = text(bytes.get(..LONGEST_USER).unwrap_or(bytes));
    }

    fn any(&mut self, value: &mut Cursor<'_>, out: &mut Vec<u8>) -> Read<bool> {
        value::any_alone(value, out)
    }
}

/// Collects the types of anys.
struct Anys<'a> {
    known: &'a mut Known,
    types: &'a mut Types,
    found: Vec<Option<TypeRef>>,
}

impl Visitor for Anys<'_> {
    fn enter(&mut self, _: &[u8]) {}

    fn leave(&mut self) {}

    fn leaf(&mut self, _: Leaf<'_>) {}

    fn any(&mut self, value: &mut Cursor<'_>, out: &mut Vec<u8>) -> Read<bool> {
        let of = self.known.read(value, self.types);
        self.found.push(of.ok().flatten());
        let description = of?.and_then(|of| self.types.get(of));
        out.extend_from_slice(description.unwrap_or_default());
        Ok(description.is_some())
    }
}
