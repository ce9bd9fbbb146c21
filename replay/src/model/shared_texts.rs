//! Texts that many puts have in common: names of users, hosts, IOCs and threads, and addresses. Each is held once and shared,
//! since a million puts of a thousand clients have the same few.

use super::numbered::{Keyed, Numbered};
use iocrec_log::context::Context;
use iocrec_log::event::{Address, CircuitId};
use std::rc::Rc;

/// Texts, and circuits, that are remembered before all are forgotten; bounds for hostile logs. A big IOC has some thousand
/// circuits.
const MAX_TEXTS: usize = 10_000;
const MAX_CIRCUITS: usize = 10_000;

/// The ends of a circuit, and what they are called.
type Ends = ([Address; 2], [Option<Rc<str>>; 2]);

/// See the module.
#[derive(Default)]
pub struct SharedTexts {
    known: Keyed<Rc<str>, ()>,
    ends: Numbered<CircuitId, Ends>,
}

impl SharedTexts {
    /// This text; `None` if it is empty.
    pub fn share(&mut self, text: &str) -> Option<Rc<str>> {
        if text.is_empty() {
            return None;
        }
        if let Some((known, ())) = self.known.get_key_value(text) {
            return Some(Rc::clone(known));
        }
        if self.known.len() >= MAX_TEXTS {
            self.known.clear();
        }
        let shared: Rc<str> = text.into();
        self.known.insert(Rc::clone(&shared), ());
        Some(shared)
    }

    /// The addresses of client and server, as [`Context::addresses`] has them.
    pub fn addresses(&mut self, context: &Context, id: CircuitId) -> [Option<Rc<str>>; 2] {
        let made = || context.addresses(id).map(|address| address.map(Rc::from));
        let circuit = context.circuit(id).filter(|_| context.in_force().pva_circuits.get(id).is_none());
        // those over IPv6 have their addresses from elsewhere
        let Some(circuit) = circuit else { return made() };
        let ends = [circuit.client, circuit.server];
        match self.ends.get(&id) {
            Some((known, texts)) if *known == ends => texts.clone(),
            _ => {
                if self.ends.len() >= MAX_CIRCUITS {
                    self.ends.clear();
                }
                let texts = made();
                self.ends.insert(id, (ends, texts.clone()));
                texts
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::{Circuit, Fact, Origin};

    #[test]
    fn texts_are_held_once() {
        let mut texts = SharedTexts::default();
        let first = texts.share("alice").unwrap();
        assert!(Rc::ptr_eq(&first, &texts.share("alice").unwrap()));
        assert_eq!((texts.share("").as_deref(), texts.share("bob").as_deref()), (None, Some("bob")));
        for number in 0..2 * MAX_TEXTS {
            texts.share(&number.to_string());
            assert!(texts.known.len() <= MAX_TEXTS);
        }
        assert_eq!(texts.share("alice").as_deref(), Some("alice"));
    }

    #[test]
    fn a_number_of_another_circuit_has_its_addresses() {
        let (mut texts, mut context) = (SharedTexts::default(), Context::default());
        for port in [40_001, 40_002, 0] {
            let [client, server] = [port, 5064].map(|port| Address { ip: u32::from(port > 0), port });
            let (user, host) = (String::new(), String::new());
            let circuit = Circuit { id: 7, client, server, user, host, minor: 13, origin: Origin::Opened };
            context.apply(1, &Fact::from(circuit));
            for _ in 0..2 {
                let expected = context.addresses(7);
                assert_eq!(
                    texts.addresses(&context, 7).map(|text| text.as_deref().map(str::to_owned)),
                    expected
                );
            }
        }
        assert_eq!(texts.addresses(&context, 8), [None, None]);
    }
}
