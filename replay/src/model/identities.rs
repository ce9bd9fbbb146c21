//! Who the clients of circuits said to be before they said something else. Definitions are read ahead of the puts that they
//! are needed for, and a server believes another name once the client has no channel left. A put, the end of its channel, the
//! new name and the next channel may come in one packet, at the same time: then the channel tells whose a put is.

use iocrec_log::event::{ChannelId, Circuit, CircuitId};
use std::collections::HashMap;

/// Circuits whose clients have had other names, and such names of each; bounds for hostile logs.
const MAX_CIRCUITS: usize = 10_000;
const MAX_NAMES: usize = 64;

/// What a client said to be until another time; `None` if it had not said anything yet. Empty: nobody, as PVAccess's anonymous.
struct Earlier {
    until: u64,
    /// The last channel that was known then.
    last: ChannelId,
    user: Option<String>,
    host: Option<String>,
}

/// See the module.
#[derive(Default)]
pub struct Identities {
    of: HashMap<CircuitId, Vec<Earlier>>,
    /// The last channel; numbers of channels rise.
    last: ChannelId,
}

impl Identities {
    /// Notes that a channel is known.
    pub fn has_channel(&mut self, channel: ChannelId) {
        self.last = self.last.max(channel);
    }

    /// Notes that a circuit has become known anew. `before`: what was known of its number.
    pub fn note(&mut self, time: u64, before: Option<&Circuit>, now: &Circuit) {
        let ends = |circuit: &Circuit| (circuit.client, circuit.server);
        let Some(before) = before.filter(|before| ends(before) == ends(now)) else {
            self.of.remove(&now.id);
            return;
        };
        let names = self.of.get(&now.id).map(Vec::as_slice).unwrap_or_default();
        // an empty name that comes after another was said
        let said = |before: &str, is_known: bool| (is_known || !before.is_empty()).then(|| before.to_owned());
        let user = said(&before.user, names.iter().any(|earlier| earlier.user.is_some()));
        let host = said(&before.host, names.iter().any(|earlier| earlier.host.is_some()));
        let is_other =
            |before: &Option<String>, now: &str| before.as_deref().is_some_and(|before| before != now);
        if !is_other(&user, &now.user) && !is_other(&host, &now.host) {
            return;
        }
        if self.of.len() < MAX_CIRCUITS || self.of.contains_key(&now.id) {
            let names = self.of.entry(now.id).or_default();
            if names.len() >= MAX_NAMES {
                names.remove(0);
            }
            names.push(Earlier { until: time, last: self.last, user, host });
        }
    }

    /// User and host of a circuit at a time, when a put came on this channel.
    pub fn at<'a>(
        &'a self,
        time: u64,
        channel: Option<ChannelId>,
        circuit: &'a Circuit,
    ) -> (&'a str, &'a str) {
        let earlier = self.of.get(&circuit.id).map(Vec::as_slice).unwrap_or_default();
        let is_before = |earlier: &&Earlier| {
            let is_at_once = time == earlier.until && channel.is_some_and(|channel| channel <= earlier.last);
            time < earlier.until || is_at_once
        };
        let valid = || earlier.iter().filter(is_before);
        let user = valid().find_map(|earlier| earlier.user.as_ref());
        let host = valid().find_map(|earlier| earlier.host.as_ref());
        (user.unwrap_or(&circuit.user), host.unwrap_or(&circuit.host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::{Address, Origin};

    fn circuit(user: &str, host: &str) -> Circuit {
        let [client, server] = [40001, 5064].map(|port| Address { ip: 1, port });
        let (user, host) = (user.to_owned(), host.to_owned());
        Circuit { id: 7, client, server, user, host, minor: 13, origin: Origin::Opened }
    }

    fn at<'a>(identities: &'a Identities, time: u64, now: &'a Circuit) -> [&'a str; 2] {
        identities.at(time, None, now).into()
    }

    #[test]
    fn a_put_belongs_to_who_the_client_was_then() {
        let mut identities = Identities::default();
        let said = [
            (10, circuit("", "")),
            (11, circuit("op", "")),
            (12, circuit("op", "console")),
            (20, circuit("guest", "console")),
            (30, circuit("guest", "elsewhere")),
        ];
        let mut before: Option<&Circuit> = None;
        for (time, circuit) in &said {
            identities.note(*time, before, circuit);
            before = Some(circuit);
        }
        let now = &said[4].1;
        assert_eq!(
            at(&identities, 5, now),
            ["op", "console"],
            "what was not known yet is known by what came next"
        );
        assert_eq!(at(&identities, 19, now), ["op", "console"]);
        assert_eq!(at(&identities, 20, now), ["guest", "console"]);
        assert_eq!(at(&identities, 30, now), ["guest", "elsewhere"]);
        // the number of another circuit now
        let other = Circuit { client: Address { ip: 2, port: 1 }, ..circuit("third", "") };
        identities.note(40, Some(now), &other);
        assert_eq!(at(&identities, 5, &other), ["third", ""]);
    }

    #[test]
    fn channels_tell_what_came_at_the_same_time() {
        let mut identities = Identities::default();
        let names = ["first", "second", "third"].map(|user| circuit(user, "console"));
        // each packet has a put, the end of its channel, a name, and a channel
        identities.has_channel(8);
        for (number, time) in [20, 30].into_iter().enumerate() {
            identities.note(time, Some(&names[number]), &names[number + 1]);
            identities.has_channel(9 + number as ChannelId);
        }
        let user = |time, channel| identities.at(time, channel, &names[2]).0;
        assert_eq!([user(20, Some(8)), user(20, Some(9)), user(20, None)], ["first", "second", "second"]);
        assert_eq!([user(30, Some(9)), user(30, Some(10)), user(25, Some(8))], ["second", "third", "second"]);
    }

    #[test]
    fn who_became_nobody_was_nobody_until_the_next_name() {
        let mut identities = Identities::default();
        let said =
            [(10, "", ""), (11, "op", "console"), (20, "", ""), (30, "guest", "elsewhere"), (40, "", "")];
        let said = said.map(|(time, user, host)| (time, circuit(user, host)));
        for (number, (time, circuit)) in said.iter().enumerate() {
            identities.note(*time, number.checked_sub(1).map(|before| &said[before].1), circuit);
        }
        let expected =
            [(15, ["op", "console"]), (25, ["", ""]), (35, ["guest", "elsewhere"]), (45, ["", ""])];
        for (time, names) in expected {
            assert_eq!(at(&identities, time, &said[4].1), names, "{time}");
        }
    }
}
