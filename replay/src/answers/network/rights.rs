//! What a client may not do with its channels, and until when. A server tells it when it makes a channel, and again when
//! its access security has changed.

use super::counted::{Counted, Room};
use super::NetLine;
use iocrec_log::event::ChannelId;
use std::collections::{BTreeMap, BTreeSet};

/// Channels of all circuits; a bound for hostile logs.
const MAX_CHANNELS: usize = 100_000;
/// To read and to write.
const ALL: u16 = 3;

/// What a channel's client may not do.
struct Denied {
    rights: u16,
    since: i64,
    pv: String,
    /// Whether the channel has ended with it.
    is_over: bool,
}

/// Whether a client got its rights back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Now {
    /// It has them not.
    Denied,
    /// The channel ended without them.
    Over,
    /// It has them again.
    Regained,
}

/// The rights of one circuit.
#[derive(Default)]
pub(super) struct Rights {
    denied: BTreeMap<ChannelId, Denied>,
    regained: BTreeMap<u16, Counted>,
    /// The channels that are counted there: one may lose its rights several times.
    counted: BTreeSet<(u16, ChannelId)>,
}

/// How many channels may be held yet.
pub(super) struct Channels(usize);

impl Default for Channels {
    fn default() -> Channels {
        Channels(MAX_CHANNELS)
    }
}

impl Rights {
    /// The server says what may be done with a channel. False if there is no room for it.
    pub(super) fn told(
        &mut self,
        (channel, pv): (ChannelId, &str),
        rights: u16,
        time: i64,
        (channels, room): (&mut Channels, &mut Room),
    ) -> bool {
        let rights = rights & ALL;
        // a keyframe repeats what is known
        if self.denied.get(&channel).is_some_and(|denied| denied.rights == rights && !denied.is_over) {
            return true;
        }
        if let Some(before) = self.denied.remove(&channel) {
            channels.0 += 1;
            if !before.is_over {
                let is_new = channels.0 > 0 && self.counted.insert((before.rights, channel));
                channels.0 -= usize::from(is_new);
                let regained = self.regained.entry(before.rights).or_default();
                regained.add(is_new.into(), before.since, time, Some(&before.pv), room);
            }
        }
        if rights == ALL {
            return true;
        }
        if channels.0 == 0 {
            return false;
        }
        channels.0 -= 1;
        self.denied.insert(channel, Denied { rights, since: time, pv: pv.to_owned(), is_over: false });
        true
    }

    /// A channel ended.
    pub(super) fn ended(&mut self, channel: ChannelId) {
        if let Some(denied) = self.denied.get_mut(&channel) {
            denied.is_over = true;
        }
    }

    /// The lines. `is_open`: the circuit is.
    pub(super) fn lines(&self, is_open: bool, room: &mut Room, new: impl Fn(i64) -> NetLine) -> Vec<NetLine> {
        let mut counted: BTreeMap<(u16, Now), Counted> = BTreeMap::new();
        for denied in self.denied.values() {
            let now = if is_open && !denied.is_over { Now::Denied } else { Now::Over };
            let counted = counted.entry((denied.rights, now)).or_default();
            counted.add(1, denied.since, denied.since, Some(&denied.pv), room);
        }
        let all = counted.iter().map(|((rights, now), counted)| (*rights, *now, counted));
        let regained = self.regained.iter().map(|(rights, counted)| (*rights, Now::Regained, counted));
        let mut lines = Vec::new();
        for (rights, now, counted) in all.chain(regained) {
            let mut line = counted.tell(new(counted.since));
            line.reason = match rights {
                1 => "no_write",
                2 => "no_read",
                _ => "no_read_no_write",
            };
            line.going_on = match now {
                Now::Denied => Some(true),
                Now::Over => None,
                Now::Regained => Some(false),
            };
            lines.push(line);
        }
        lines
    }
}
