//! The counts of one circuit, and how they are noted.

use iocrec_log::event::{
    CaError, ChannelId, CircuitId, CircuitTraffic, EchoLate, Event, EventsOff, Fact, Message,
};

use super::counted::{Place, Subscription};
use super::sent::Sent;
use super::stall::Stall;
use super::SECOND;
use crate::ca::message::{self, Header};
use crate::keyed::KeyedMap;

/// Time after which libca calls a server unresponsive that does not answer an ECHO (CA_ECHO_TIMEOUT).
pub(super) const PATIENCE: u64 = 5 * SECOND;

/// Kinds of errors of one circuit; bytes of an error's text.
const MAX_ERRORS: usize = 8;
const MAX_TEXT: usize = 200;

/// Kinds of messages.
const KINDS: usize = 18;

/// What a client's EVENTS_OFF and EVENTS_ON come to.
#[derive(Debug, Default)]
pub(super) struct Off {
    pub(super) times: u32,
    pub(super) off: u64,
    /// Since when updates are off.
    pub(super) began: Option<u64>,
    pub(super) since: u64,
    /// When updates were switched on last.
    pub(super) ended: u64,
    pub(super) noted: u64,
    /// Whether the last note says that they are off.
    pub(super) told_off: bool,
}

#[derive(Debug)]
pub(super) struct Errors {
    pub(super) channel: Option<ChannelId>,
    pub(super) command: u16,
    pub(super) status: u32,
    pub(super) count: u32,
    pub(super) since: u64,
    pub(super) text: String,
}

/// A circuit.
#[derive(Debug)]
pub(super) struct Circuit {
    pub(super) opened: u64,
    pub(super) since: u64,
    pub(super) noted: u64,
    /// Bytes from the client since the last note, and from the server.
    pub(super) from_client: u64,
    pub(super) sent: Sent,
    pub(super) messages: [u32; KINDS],
    pub(super) off: Option<Box<Off>>,
    /// Whether a message of the server was understood: of a circuit that is older than the recorder, not all are, nor of one
    /// of which bytes are missing.
    pub(super) is_heard: bool,
    /// When the ECHO was sent that has no answer yet, and whether that was noted.
    pub(super) echo: Option<(u64, bool)>,
    /// Time of the latest answer to one.
    pub(super) echoed: u64,
    pub(super) errors: Vec<Errors>,
    pub(super) priority: u16,
    /// Subscriptions, by the client's numbers.
    pub(super) subscriptions: KeyedMap<u32, Subscription>,
    /// Where their updates are counted; `None` before the first.
    pub(super) place: Option<Place>,
    /// The client's closed window.
    pub(super) stall: Option<Stall>,
    /// Whether nothing the server sent was left unread so far.
    pub(super) complete: bool,
    /// Whether any of its channels was counted.
    pub(super) has_channels: bool,
}

impl Circuit {
    pub(super) fn new(time: u64) -> Circuit {
        Circuit {
            opened: time,
            since: time,
            noted: time,
            from_client: 0,
            sent: Sent::default(),
            messages: [0; KINDS],
            off: None,
            is_heard: false,
            echo: None,
            echoed: 0,
            errors: Vec::new(),
            priority: 0,
            subscriptions: KeyedMap::default(),
            place: None,
            stall: None,
            complete: true,
            has_channels: false,
        }
    }

    pub(super) fn count(&mut self, message: Message) {
        if let Some(count) = self.messages.get_mut(message as usize) {
            *count = count.saturating_add(1);
        }
    }

    pub(super) fn all_bytes(&self) -> u64 {
        self.from_client.saturating_add(self.sent.since_note())
    }

    pub(super) fn is_worth_noting(&self) -> bool {
        self.all_bytes() > 0
    }

    pub(super) fn note(&mut self, id: CircuitId, now: u64, out: &mut Vec<Event>) {
        let counts = std::mem::replace(&mut self.messages, [0; KINDS]);
        let (from_server, not_looked_at) = self.sent.note();
        let messages = MESSAGES.iter().zip(counts).filter(|(_, count)| *count > 0);
        let traffic = CircuitTraffic {
            circuit: id,
            since: self.since,
            from_client: std::mem::take(&mut self.from_client),
            from_server,
            messages: messages.map(|(message, count)| (*message, count)).collect(),
            not_looked_at,
        };
        (self.since, self.noted) = (now, now);
        out.push(Event { time: now, fact: Fact::from(traffic) });
    }

    /// Notes what must not wait for long; everything if it `is_over`.
    pub(super) fn note_unusual(&mut self, id: CircuitId, now: u64, is_over: bool, out: &mut Vec<Event>) {
        for error in self.errors.iter_mut().filter(|error| error.count > 0) {
            let error = CaError {
                circuit: id,
                channel: error.channel,
                command: error.command,
                status: error.status,
                count: std::mem::take(&mut error.count),
                since: error.since,
                text: error.text.clone(),
            };
            out.push(Event { time: now, fact: Fact::CaError(error) });
        }
        if let Some((since, is_noted)) = &mut self.echo {
            if !*is_noted && now.saturating_sub(*since) >= PATIENCE {
                *is_noted = true;
                let late = EchoLate { circuit: id, since: *since, is_answered: false };
                out.push(Event { time: now, fact: Fact::EchoLate(late) });
            }
        }
        if let Some(off) = &mut self.off {
            // at once when it begins and when it ends, and then ever more seldom
            let is_over_now = off.began.is_none() && (off.off > 0 || off.told_off);
            let is_quiet = now.saturating_sub(off.noted) >= SECOND;
            let pause = if off.noted == 0 || is_over_now && is_quiet { 0 } else { 10 * SECOND };
            let is_due = off.times > 0 || off.began.is_some() || is_over_now;
            if is_due && (is_over || now.saturating_sub(off.noted) >= pause) {
                if let Some(began) = &mut off.began {
                    off.off = off.off.saturating_add(now.saturating_sub(*began));
                    *began = now;
                }
                let note = EventsOff {
                    circuit: id,
                    since: off.since,
                    times: std::mem::take(&mut off.times),
                    off: std::mem::take(&mut off.off),
                    is_off: off.began.is_some(),
                };
                // that it is over is noted a second or two later
                let time = if note.is_off { now } else { off.ended.max(off.noted).min(now) };
                (off.since, off.noted, off.told_off) = (now, now, note.is_off);
                out.push(Event { time, fact: Fact::EventsOff(note) });
            }
        }
    }
}

/// All kinds of messages, in the order of their numbers.
pub(super) const MESSAGES: [Message; KINDS] = [
    Message::Subscribe,
    Message::Unsubscribe,
    Message::Update,
    Message::Get,
    Message::GetAnswer,
    Message::Put,
    Message::EventsOff,
    Message::EventsOn,
    Message::Error,
    Message::Clear,
    Message::Create,
    Message::CreateFailed,
    Message::Disconnect,
    Message::Echo,
    Message::EchoAnswer,
    Message::Search,
    Message::NotFound,
    Message::Other,
];

impl Circuit {
    pub(super) fn error(
        &mut self,
        time: u64,
        request: &Header,
        status: u32,
        channel: Option<ChannelId>,
        payload: &[u8],
    ) {
        let same = |error: &&mut Errors| {
            error.command == request.command && error.status == status && error.channel == channel
        };
        let has_room = self.errors.len() < MAX_ERRORS;
        match self.errors.iter_mut().find(same) {
            Some(error) => {
                if error.count == 0 {
                    error.since = time;
                }
                error.count = error.count.saturating_add(1);
            }
            None if has_room => {
                let text = payload.get(request.bytes()..).unwrap_or_default();
                let text = message::text(text.get(..MAX_TEXT.min(text.len())).unwrap_or_default());
                let command = request.command;
                self.errors.push(Errors { channel, command, status, count: 1, since: time, text });
            }
            // still counted as messages
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_in_the_order_of_their_numbers() {
        for (number, message) in MESSAGES.iter().enumerate() {
            assert_eq!(*message as usize, number);
        }
    }
}
