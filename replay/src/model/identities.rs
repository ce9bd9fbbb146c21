//! Who the clients of circuits said to be before they said something else. Definitions are read ahead of the puts that they
//! are needed for, and a server believes another name once the client has no channel left.

use iocrec_log::event::{Circuit, CircuitId};
use std::collections::HashMap;

/// Circuits whose clients have had other names, and such names of each; bounds for hostile logs.
const MAX_CIRCUITS: usize = 10_000;
const MAX_NAMES: usize = 64;

/// What a client said to be until another time; `None` if it had not said anything yet. Empty: nobody, as PVAccess's anonymous.
struct Earlier {
    until: u64,
    user: Option<String>,
    host: Option<String>,
}

/// See the module.
#[derive(Default)]
pub struct Identities {
    of: HashMap<CircuitId, Vec<Earlier>>,
}

impl Identities {
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
            names.push(Earlier { until: time, user, host });
        }
    }

    /// User and host of a circuit at a time.
    pub fn at(&self, time: u64, circuit: &Circuit) -> (String, String) {
        let earlier = self.of.get(&circuit.id).map(Vec::as_slice).unwrap_or_default();
        let valid = || earlier.iter().filter(|earlier| time < earlier.until);
        let user = valid().find_map(|earlier| earlier.user.as_ref());
        let host = valid().find_map(|earlier| earlier.host.as_ref());
        (user.unwrap_or(&circuit.user).clone(), host.unwrap_or(&circuit.host).clone())
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

    fn at(identities: &Identities, time: u64, now: &Circuit) -> [String; 2] {
        identities.at(time, now).into()
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
