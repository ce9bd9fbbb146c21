//! Requests: a client prepares one (INIT), carries it out, once or often, and ends it.

use std::collections::BTreeMap;

use epics::pva::cursor::text;
use epics::pva::{Cursor, Read};
use iocrec_log::event::{ChannelId, Fact, PvaAnswer, PvaKind, PvaPut, PvaTypeId, PvaValue};

use super::context::{Context, Ids};
use super::{kind, Session, KEPT_TEXT};
use crate::net::protocol::Side;
use crate::pva::message::{GET, PROCESS, PUT_GET, RPC};
use crate::pva::types::TypeRef;

/// Bytes to keep of a request's options. Clients send five, or a few dozen.
const KEPT_OPTIONS: usize = 256;

/// Prepared gets of a circuit that are remembered; likewise requests that ended before they were answered.
const MOST_GETS: usize = 2048;

/// No channel: numbers of PVAccess begin higher.
const NOBODYS: ChannelId = 0;

/// Status of a request whose answer the client doesn't wait for.
const CANCELLED: u16 = 4;

/// A request that the client has prepared.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) kind: PvaKind,
    pub(super) channel: ChannelId,
    /// The options' type and bytes.
    pub(super) options: (Option<TypeRef>, Vec<PvaTypeId>, bool, u32, Box<[u8]>),
    /// The structure to put to, and the one that the server sends back.
    pub(super) to_put: Option<TypeRef>,
    pub(super) to_get: Option<TypeRef>,
    /// Whether another one with its number was prepared before it: which structure is whose is not known.
    pub(super) shares_number: bool,
    /// Whether an answer is awaited, and whether it is one to a put.
    waits: bool,
    pub(super) puts: bool,
    /// Answers that are to come, the one to INIT as well.
    owed: u32,
    /// [`Session::doubts`] when it was asked for.
    doubts: u32,
    /// Whether it is not certain that the server was asked for this.
    is_doubtful: bool,
}

impl Request {
    /// No answer is awaited any more; with `fetched`, still the one to a put. Returns whether one to a put was.
    fn settle(&mut self, doubts: u32, fetched: bool) -> bool {
        let put = self.puts;
        self.is_doubtful |= self.waits && self.doubts != doubts;
        self.puts &= fetched;
        self.waits = self.puts;
        put
    }
}

impl Session {
    /// The client prepares a request.
    pub(super) fn prepare(
        &mut self,
        time: u64,
        command: u8,
        (sid, ioid): (u32, u32),
        cursor: &mut Cursor<'_>,
        context: &mut Context,
    ) -> Read<()> {
        let shares_number = self.forget_request(ioid, context.ids) || self.unanswered.contains_key(&ioid);
        self.mixes |= shares_number;
        let before = self.gets.remove(&ioid);
        self.mixes |= before.is_some_and(|of| self.channels.contains_key(&of));
        // whatever the request: the types that it defines may come again in another
        let of = self.from_client.read(cursor, context.types);
        self.misses_types |= of.is_err();
        let known = of.ok().flatten();
        let options = cursor.rest();
        let mut others = self.types_within(time, Side::Client, known, false, cursor, context);
        let Some(kind) = kind(command) else {
            if command == GET {
                self.prepare_get(sid, ioid);
            }
            return Ok(());
        };
        let length = options.len();
        let bytes = options.get(..KEPT_OPTIONS).unwrap_or(options).into();
        // an any takes two bytes at least
        others.truncate(KEPT_OPTIONS / 2);
        others.shrink_to_fit();
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let channel = self.channel_of(time, sid, context);
        self.make_room(self.requests.len(), context, |session, ids| {
            let old = session.requests.keys().next().copied();
            session.mixes = true;
            old.is_some_and(|old| session.forget_request(old, ids))
        });
        context.ids.open += 1;
        let options = (known, others, cursor.is_big_endian(), length, bytes);
        let request = Request {
            kind,
            channel,
            options,
            to_put: None,
            to_get: None,
            shares_number,
            waits: false,
            puts: false,
            owed: 1,
            doubts: 0,
            is_doubtful: false,
        };
        self.requests.insert(ioid, request);
        self.of_channel.insert((channel, ioid));
        Ok(())
    }

    /// The client prepares a get, which is not recorded. But pvxs puts by its number, too, to its channel.
    fn prepare_get(&mut self, sid: u32, ioid: u32) {
        if self.gets.len() >= MOST_GETS {
            self.gets = BTreeMap::new();
            self.mixes = true;
        }
        self.gets.insert(ioid, self.by_sid.get(&sid).copied().unwrap_or(NOBODYS));
    }

    /// The client ends a get. QSRV1 does so by the number of its channel alone.
    pub(super) fn end_get(&mut self, sid: u32, ioid: u32) {
        let named = self.by_sid.get(&sid).copied();
        if self.of_get(ioid).is_none_or(|of| of == NOBODYS || named == Some(of)) {
            self.gets.remove(&ioid);
        }
    }

    /// The channel of a get, unless that is over.
    fn of_get(&self, ioid: u32) -> Option<ChannelId> {
        self.gets.get(&ioid).copied().filter(|of| *of == NOBODYS || self.channels.contains_key(of))
    }

    /// The server's answer to that.
    pub(super) fn prepared(
        &mut self,
        time: u64,
        command: u8,
        ioid: u32,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
    ) -> Read<()> {
        // one of another kind with that number may have ended before it was answered
        let request = self.requests.get_mut(&ioid).filter(|request| kind(command) == Some(request.kind));
        let channel = request.map(|request| {
            request.owed = request.owed.saturating_sub(1);
            request.channel
        });
        if let Err(refused) = self.judge(time, command, channel, cursor, context) {
            if channel.is_some() {
                self.forget_request(ioid, context.ids);
            }
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
        let request = self.requests.get_mut(&ioid).filter(|request| !request.shares_number);
        if let Some(request) = request.filter(|_| channel.is_some()) {
            request.to_put = to_put.ok().flatten();
            request.to_get = to_get.ok().flatten();
        }
        Ok(())
    }

    /// The client carries out a request.
    pub(super) fn put(
        &mut self,
        time: u64,
        kind: PvaKind,
        (sid, ioid): (u32, u32),
        cursor: &mut Cursor<'_>,
        length: u64,
        context: &mut Context,
    ) -> Read<()> {
        // QSRV2 looks at the request's number alone, QSRV1 refuses what does not fit, unless it fits what was prepared
        // for that channel with the same number
        let named = self.by_sid.get(&sid).copied();
        let request = self.requests.get(&ioid);
        let prepared = request.map(|request| request.channel).or_else(|| self.of_get(ioid));
        // QSRV2 passes over some requests, and goes by the one before
        let is_passed_over = request.is_some_and(|request| request.shares_number && request.kind != kind);
        let is_nobodys = prepared == Some(NOBODYS)
            || is_passed_over
            || self.mixes && (prepared.is_none() || named != prepared);
        let channel = match prepared.filter(|_| !is_nobodys) {
            Some(prepared) => prepared,
            None if is_nobodys => self.nameless(time, context),
            None => self.channel_of(time, sid, context),
        };
        self.speak_as(time, channel, context.out);
        let circuit = self.number(time, context);
        let value = match kind {
            PvaKind::Process => PvaValue::default(),
            PvaKind::Rpc => {
                let before = cursor.rest().len();
                let of = self.from_client.read(cursor, context.types);
                self.misses_types |= of.is_err();
                let length = length.saturating_sub((before - cursor.rest().len()) as u64);
                self.value(time, Side::Client, of.ok().flatten(), false, cursor, length, context)
            }
            _ => {
                let request = self.requests.get(&ioid).filter(|_| !is_nobodys);
                let of = request.and_then(|request| request.to_put);
                self.misses_types |= of.is_none();
                self.value(time, Side::Client, of, true, cursor, length, context)
            }
        };
        self.ask(ioid, true);
        let options = match self.requests.get(&ioid).filter(|_| !is_nobodys) {
            Some(request) => {
                let (of, others, big_endian, length, bytes) = &request.options;
                let mut types = vec![context.types.number(time, *of, context.out)];
                types.extend(others);
                PvaValue { types, big_endian: *big_endian, length: *length, bytes: bytes.to_vec() }
            }
            None => PvaValue::default(),
        };
        let put = PvaPut { circuit, channel, ioid, kind, options, value };
        context.emit(time, Fact::PvaPut(Box::new(put)));
        if is_nobodys {
            context.emit(time, Fact::ChannelEnd(channel));
        }
        Ok(())
    }

    /// The server's answer to that; with `of_put` it sends what the request puts to.
    pub(super) fn answered(
        &mut self,
        time: u64,
        (kind, of_put): (PvaKind, bool),
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
            request.settle(self.doubts, kind == PvaKind::Get);
            request.owed = request.owed.saturating_sub(1);
            of = if of_put { request.to_put } else { request.to_get };
            if std::mem::take(&mut request.is_doubtful) {
                return Ok(());
            }
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

    /// What waits for an answer has come twice, with other bytes: whose the answers are is not known.
    pub fn doubt(&mut self) {
        self.doubts = self.doubts.wrapping_add(1);
    }

    /// An answer is awaited, to a put or else to what puts nothing.
    pub(super) fn ask(&mut self, ioid: u32, puts: bool) {
        let Some(request) = self.requests.get_mut(&ioid) else { return };
        request.owed = request.owed.saturating_add(1);
        if !request.waits {
            (request.waits, request.doubts) = (true, self.doubts);
        }
        request.puts |= puts;
    }

    /// The client ends a request, or does not wait for its answer.
    pub(super) fn give_up(&mut self, time: u64, ioid: u32, ends: bool, context: &mut Context) {
        self.stop(time, ioid, context);
        let request = self.requests.get_mut(&ioid);
        let waiting = request.and_then(|request| request.settle(self.doubts, false).then_some(request.kind));
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

    pub(super) fn forget_request(&mut self, ioid: u32, ids: &mut Ids) -> bool {
        let Some(request) = self.requests.remove(&ioid) else { return false };
        if request.owed > 0 {
            if self.unanswered.len() >= MOST_GETS {
                self.unanswered = BTreeMap::new();
                self.mixes = true;
            }
            self.unanswered.insert(ioid, request.channel);
        }
        if self.monitors.get(&ioid) != Some(&request.channel) {
            self.of_channel.remove(&(request.channel, ioid));
        }
        ids.open = ids.open.saturating_sub(1);
        true
    }

    /// Makes room for one more, beside `have` of its kind.
    pub(super) fn make_room(
        &mut self,
        have: usize,
        context: &mut Context,
        forget: impl FnOnce(&mut Session, &mut Ids) -> bool,
    ) {
        if context.is_full(have) && have > 0 && forget(self, context.ids) {
            context.ids.forgotten += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::packet::End;
    use crate::net::protocol::{Ends, Start};
    use crate::pva::message::PUT;
    use crate::pva::session::SessionLimits;
    use crate::pva::types::Types;

    fn put(session: &mut Session, ioid: u32, context: &mut Context) {
        let cursor = &mut Cursor::new(b"\x01\x02\x07", false);
        session.put(1, PvaKind::Put, (1, ioid), cursor, 3, context).expect("it can be read");
    }

    /// Whether the server's answer is taken for a put's.
    fn is_answered(session: &mut Session, ioid: u32, context: &mut Context) -> bool {
        let before = context.out.len();
        let cursor = &mut Cursor::new(b"\xff", false);
        session.answered(2, (PvaKind::Put, false), ioid, cursor, 6, context).expect("it can be read");
        context.out.len() > before
    }

    /// However often that is, and however many requests there are.
    #[test]
    fn what_came_twice_with_other_bytes_has_no_answer() {
        let end = End::v6(1, 5075);
        let (start, listener) = (Start::Opened, None);
        let ends = Ends { namespace: 0, client: end, server: end, start, listener, is_guess: false };
        let (mut ids, mut types, mut out) = (Ids::default(), Types::default(), Vec::new());
        let limits = SessionLimits { circuit: 100, all: 100, own: 1, payload: 64 };
        let mut context = Context { ids: &mut ids, types: &mut types, limits, out: &mut out };
        let mut session = Session::new(&ends, false);
        for ioid in 1..=3 {
            let options = &mut Cursor::new(b"\x80\x00\x00", false);
            session.prepare(1, PUT, (1, ioid), options, &mut context).expect("it can be read");
        }
        put(&mut session, 1, &mut context);
        put(&mut session, 3, &mut context);
        (0..1000).for_each(|_| session.doubt());
        session.give_up(1, 3, false, &mut context);
        put(&mut session, 2, &mut context);
        put(&mut session, 3, &mut context);
        let answered = [1, 2, 3].map(|ioid| is_answered(&mut session, ioid, &mut context));
        assert_eq!(answered, [false, true, false]);
        put(&mut session, 1, &mut context);
        assert!(is_answered(&mut session, 1, &mut context));
    }
}
