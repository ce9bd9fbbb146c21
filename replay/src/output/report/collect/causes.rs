//! The cause of a chain, in the few words that a table has room for.
//!
//! A chain that began by a CP link is followed to what changed the link's source, and on from there, as `iocreplay alarms`
//! does ([`origins`](crate::model::origins)): where one step is not certain, the cause is that CP link.

use crate::model::chain::{Chain, SpanKind, Trigger};
use crate::model::origins::{self, MAX_HOPS};
use crate::model::putlog::{root_put, PutLine};
use crate::output::report::strings::{Strings, Text};
use crate::wording::cause::cause;
use crate::wording::put::parts;
use std::collections::HashMap;

/// Causes held; a bound for hostile logs. A cause is only held for what is shown.
const MAX_CAUSES: usize = 20_000;

/// The kinds of causes.
const KINDS: [&str; 11] = [
    "unknown", "put", "scanOnce", "scan", "event", "I/O Intr", "callback", "CP link", "CA link", "PINI",
    "dbtr",
];

/// The cause of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// put, scan, CP link, event...
    pub kind: &'static str,
    /// The PV that was put to, or the rest in words.
    pub what: Text,
    /// Value that was put.
    pub value: Text,
    /// Who put; empty for other causes.
    pub who: Text,
    /// The records whose CP links were followed from there to the chain; empty if it began the chain itself.
    pub through: Text,
}

impl Cause {
    /// The cause of a chain; `followed`: what began it all, if it began by a CP link.
    pub fn of(chain: &Chain, followed: Option<&origins::Cause>, strings: &mut Strings) -> Cause {
        if let Some(origin) = followed.filter(|origin| !origin.through().is_empty()) {
            let mut through = origin.through().join(", ");
            if origin.through().len() >= MAX_HOPS {
                through.push_str(" and more");
            }
            let through = strings.add(&through);
            let Some(put) = &origin.put else {
                let text = origin.text.text();
                let (kind, what) = kind_of(&text);
                return Cause { kind, what: strings.add(what), value: 0, who: 0, through };
            };
            return Cause { through, ..Cause::of_put(put, strings) };
        }
        if let Some(put) = root_put(chain, None) {
            return Cause::of_put(&put, strings);
        }
        let text = cause(chain, None);
        let kind = chain.root().map_or("unknown", |root| match &root.kind {
            SpanKind::Process(process) => match process.trigger {
                Trigger::Scan => "scan",
                Trigger::Event => "event",
                Trigger::IoInterrupt | Trigger::Python => "I/O Intr",
                Trigger::Callback => "callback",
                Trigger::Once | Trigger::CpLink if process.for_link => "CP link",
                Trigger::Once | Trigger::CpLink => "scanOnce",
                Trigger::Pini => "PINI",
                Trigger::Shell => "dbtr",
                _ => "unknown",
            },
            SpanKind::Link(_) => "CA link",
            SpanKind::Put(_) => "put",
        });
        Cause { kind, what: strings.add(rest_of(&text, kind)), value: 0, who: 0, through: 0 }
    }

    fn of_put(put: &PutLine, strings: &mut Strings) -> Cause {
        let change = parts(put);
        let pv = put.pv.as_deref().unwrap_or("(unnamed channel)");
        Cause {
            kind: "put",
            what: strings.add(pv),
            value: strings.add(change.asked.as_deref().unwrap_or(&change.new)),
            who: strings.add(&super::puts::writer(put)),
            through: 0,
        }
    }
}

/// The kind of a cause that no put is, by its words, and the rest of them.
fn kind_of(text: &str) -> (&'static str, &str) {
    let kind = KINDS.into_iter().find(|kind| *kind != "put" && text.starts_with(kind)).unwrap_or("unknown");
    (kind, rest_of(text, kind))
}

fn rest_of<'a>(text: &'a str, kind: &str) -> &'a str {
    text.strip_prefix(kind).map_or(text, |rest| rest.trim_start_matches([',', ' ']))
}

/// A cause as it is held.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Held {
    /// Place in [`KINDS`].
    kind: u8,
    texts: [Text; 4],
}

/// The causes of what is shown, each once.
#[derive(Default)]
pub struct Causes {
    all: Vec<Held>,
    numbers: HashMap<Held, u32>,
}

impl Causes {
    /// The number of a cause.
    pub fn add(&mut self, cause: Cause) -> u32 {
        let Cause { kind, what, value, who, through } = cause;
        let kind = KINDS.into_iter().position(|known| known == kind).and_then(|kind| u8::try_from(kind).ok());
        let held = Held { kind: kind.unwrap_or_default(), texts: [what, value, who, through] };
        if let Some(number) = self.numbers.get(&held) {
            return *number;
        }
        if self.all.len() >= MAX_CAUSES {
            return u32::MAX;
        }
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push(held);
        self.numbers.insert(held, number);
        number
    }

    /// Calls `take` with the number of each text.
    pub fn each_text(&mut self, take: &mut impl FnMut(&mut Text)) {
        self.numbers.clear();
        for (number, held) in (0..).zip(&mut self.all) {
            held.texts.iter_mut().for_each(&mut *take);
            self.numbers.insert(*held, number);
        }
    }

    /// A cause.
    pub fn get(&self, number: u32) -> Option<Cause> {
        let Held { kind, texts: [what, value, who, through] } =
            *self.all.get(usize::try_from(number).ok()?)?;
        let kind = KINDS.get(usize::from(kind)).copied().unwrap_or("unknown");
        Some(Cause { kind, what, value, who, through })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_found_again() {
        let mut causes = Causes::default();
        let cause = |kind, what| Cause { kind, what, value: 1, who: 2, through: 3 };
        let numbers: Vec<u32> = KINDS.iter().map(|kind| causes.add(cause(kind, 7))).collect();
        for (number, kind) in numbers.iter().zip(KINDS) {
            assert_eq!(causes.get(*number), Some(cause(kind, 7)));
            assert_eq!(causes.add(cause(kind, 7)), *number);
        }
        assert_eq!(numbers, (0..KINDS.len() as u32).collect::<Vec<_>>());
        causes.each_text(&mut |text| *text += 10);
        assert_eq!(causes.get(1), Some(Cause { kind: "put", what: 17, value: 11, who: 12, through: 13 }));
        assert_eq!((causes.add(cause("put", 7)), causes.get(99)), (11, None), "another, of other texts");
    }

    #[test]
    fn the_kind_is_the_first_word_that_fits() {
        assert_eq!(kind_of("scan 1 second"), ("scan", "1 second"));
        assert_eq!(kind_of("scanOnce (CP link)"), ("scanOnce", "(CP link)"));
        assert_eq!(kind_of("putting"), ("unknown", "putting"));
    }
}
