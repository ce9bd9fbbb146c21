//! The cause of a chain, in the few words that a table has room for.

use crate::model::chain::{Chain, SpanKind, Trigger};
use crate::model::putlog::root_put;
use crate::output::report::strings::{Strings, Text};
use crate::output::wording::cause::cause;
use crate::output::wording::put::parts;
use std::collections::HashMap;

/// Causes held; a bound for hostile logs. A cause is only held for what is shown.
const MAX_CAUSES: usize = 20_000;

/// The cause of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cause {
    /// put, scan, CP link, event...
    pub kind: &'static str,
    /// The PV that was put to, or the rest in words.
    pub what: Text,
    /// Value that was put.
    pub value: Text,
    /// Who put; empty for other causes.
    pub who: Text,
}

impl Cause {
    /// The cause of a chain.
    pub fn of(chain: &Chain, strings: &mut Strings) -> Cause {
        if let Some(put) = root_put(chain, None) {
            let change = parts(&put);
            let pv = put.pv.as_deref().unwrap_or("(unnamed channel)");
            return Cause {
                kind: "put",
                what: strings.add(pv),
                value: strings.add(change.asked.as_deref().unwrap_or(&change.new)),
                who: strings.add(&super::puts::writer(&put)),
            };
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
        let rest = text.strip_prefix(kind).map_or(text.as_str(), |rest| rest.trim_start_matches([',', ' ']));
        Cause { kind, what: strings.add(rest), value: 0, who: 0 }
    }
}

/// The causes of what is shown, each once.
#[derive(Default)]
pub struct Causes {
    all: Vec<Cause>,
    numbers: HashMap<Cause, u32>,
}

impl Causes {
    /// The number of a cause.
    pub fn add(&mut self, cause: Cause) -> u32 {
        if let Some(number) = self.numbers.get(&cause) {
            return *number;
        }
        if self.all.len() >= MAX_CAUSES {
            return u32::MAX;
        }
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push(cause.clone());
        self.numbers.insert(cause, number);
        number
    }

    /// A cause.
    pub fn get(&self, number: u32) -> Option<&Cause> {
        self.all.get(usize::try_from(number).ok()?)
    }
}
