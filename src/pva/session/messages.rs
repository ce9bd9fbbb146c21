//! Messages of either side, taken apart: what each asks the session to do.

use epics::pva::cursor::text;
use epics::pva::value;
use epics::pva::{Cursor, Fault, Read};
use iocrec_log::event::{ChannelClosed, ChannelReason, Fact, PvaKind};

use super::claims::Claims;
use super::context::Context;
use super::{fetches, kind, Session, FETCH_PUT, INIT, LAST};
use crate::net::protocol::Side;
use crate::pva::framer::{Message, FEW};
use crate::pva::message::{
    ARRAY, AUTHNZ, CANCEL_REQUEST, CONNECTION_VALIDATED, CONNECTION_VALIDATION, CREATE_CHANNEL,
    DESTROY_CHANNEL, DESTROY_REQUEST, GET, GET_FIELD, MESSAGE, MONITOR, PROCESS, PUT, PUT_GET, RPC,
};
use crate::pva::types::Known;

/// Size of the buffer that a server of pvAccessCPP says to have, as no other does: it goes by the byte order of the
/// connection, and passes over the flag of each message.
const PVACCESSCPP: u32 = 0x4400;

/// Bytes to keep of the name of a method. Those that there are have up to nine.
const LONGEST_METHOD: usize = 64;

/// Longest name of a channel: QSRV1 accepts no longer ones.
pub(super) const LONGEST_NAME: usize = 500;

impl Session {
    pub(super) fn request(&mut self, time: u64, message: &Message, context: &mut Context) -> Read<()> {
        let cursor = &mut Cursor::new(message.payload, message.header.is_big_endian());
        match message.header.command {
            CONNECTION_VALIDATION => {
                // size of the buffer, number of types that it keeps, quality of service
                cursor.take(4 + 2 + 2)?;
                // channels may have been asked for that were not seen to be
                let is_later = !self.circuit.is_opened() || self.misses_types;
                let method = cursor.string()?;
                let method = text(method.get(..LONGEST_METHOD).unwrap_or(method));
                let mut claims = Claims::default();
                // where the server may know other types than are known here, only one that is described whole counts
                let mut alone = Known::default();
                let known = if self.misses_types { &mut alone } else { &mut self.from_client };
                let of = match context.types.may_walk(time) {
                    true => known.read(cursor, context.types),
                    false => Err(Fault::TooMuch),
                };
                alone.forget(context.types);
                self.misses_types |= of.is_err();
                if let Some(of) = of.ok().flatten() {
                    let description = context.types.get(of).unwrap_or_default().to_vec();
                    let (read, steps) = value::counted(&description, None, cursor, &mut claims);
                    context.types.count_walk(time, steps + description.len() / 8);
                    if read.is_err() {
                        // pvxs takes the last field of that name, which may be in what can't be read
                        claims.user = String::new();
                        self.misses_types = true;
                    }
                }
                // whatever else comes with another method, servers do not believe
                if method != "ca" {
                    claims = Claims::default();
                }
                self.identity(time, method, claims, is_later, context);
            }
            // what it says is passed over, but it may define types
            AUTHNZ => {
                let of = self.from_client.read(cursor, context.types);
                self.misses_types |= of.is_err();
                self.types_within(time, Side::Client, of?, false, cursor, context);
            }
            CREATE_CHANNEL => {
                let read = self.create_all(time, cursor, context);
                // answers come for the names that were cut off, too, with whatever numbers
                self.owed.is_full |= read.is_err() && message.payload.len() >= FEW;
                read?;
            }
            DESTROY_CHANNEL => {
                let (sid, cid) = (cursor.u32()?, cursor.u32()?);
                self.destroy(time, sid, cid, context);
            }
            DESTROY_REQUEST | CANCEL_REQUEST => {
                let (sid, ioid) = (cursor.u32()?, cursor.u32()?);
                let ends = message.header.command == DESTROY_REQUEST;
                if ends {
                    self.end_get(sid, ioid);
                }
                if self.requests.get(&ioid).is_none_or(|of| self.by_sid.get(&sid) == Some(&of.channel)) {
                    self.give_up(time, ioid, ends, context);
                } else {
                    // by another channel's number QSRV1 ends nothing, and QSRV2 cancels nothing
                    self.mixes = true;
                    if ends {
                        self.forget_request(ioid, context.ids);
                    }
                }
            }
            command @ (GET..=ARRAY | PROCESS | RPC) => {
                let (sid, ioid, subcommand) = (cursor.u32()?, cursor.u32()?, cursor.u8()?);
                if subcommand & INIT != 0 {
                    self.prepare(time, command, (sid, ioid), cursor, context)?;
                } else if command == MONITOR {
                    self.monitor(time, subcommand, (sid, ioid), context);
                } else if let Some(kind) = kind(command).filter(|_| !fetches(command, subcommand)) {
                    let length = message.length.saturating_sub(9);
                    self.put(time, kind, (sid, ioid), cursor, length, context)?;
                } else {
                    if command == GET && subcommand & LAST != 0 {
                        self.gets.remove(&ioid);
                    }
                    self.ask(ioid, false);
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn answer(&mut self, time: u64, message: &Message, context: &mut Context) -> Read<()> {
        let cursor = &mut Cursor::new(message.payload, message.header.is_big_endian());
        let command = message.header.command;
        match command {
            // once, at the beginning: if the old connection's end was missed, its types are not those of this one
            CONNECTION_VALIDATION => {
                self.from_server.forget(context.types);
                self.keeps_users = cursor.u32()? == PVACCESSCPP;
                self.order = self.keeps_users.then(|| cursor.is_big_endian());
            }
            CONNECTION_VALIDATED => self.judge(time, command, None, cursor, context)?,
            CREATE_CHANNEL => {
                let (cid, sid) = (cursor.u32()?, cursor.u32()?);
                let asked = self.by_cid.get(&cid).copied();
                if self.judge(time, command, asked, cursor, context).is_ok() {
                    self.created(time, cid, sid, context);
                } else {
                    self.refused(time, cid, context);
                }
            }
            DESTROY_CHANNEL => {
                // the request has closed it already, unless it was not seen; no server gives a number again
                if let Some(&channel) = self.by_sid.get(&cursor.u32()?) {
                    if !self.misses_requests {
                        let reason = ChannelReason::Disconnected;
                        context.emit(time, Fact::ChannelClosed(ChannelClosed { channel, reason }));
                    }
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
                self.judge(time, command, None, cursor, context)?;
                self.from_server.read(cursor, context.types)?;
            }
            GET..=MONITOR | PROCESS | RPC => {
                let (ioid, subcommand) = (cursor.u32()?, cursor.u8()?);
                if subcommand & INIT != 0 {
                    self.prepared(time, command, ioid, cursor, context)?;
                } else if let Some(kind) = kind(command) {
                    let fetched = matches!(command, PUT | PUT_GET) && fetches(command, subcommand);
                    let kind = if fetched { PvaKind::Get } else { kind };
                    let of_put = command == PUT_GET && subcommand & FETCH_PUT != 0;
                    // pvxs ends no request that fails
                    let mut ahead = *cursor;
                    let succeeds = ahead.status().is_ok_and(|status| status.is_success());
                    self.answered(time, (kind, of_put), ioid, cursor, message.length, context)?;
                    if subcommand & LAST != 0 && succeeds {
                        self.forget_request(ioid, context.ids);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}
