//! A put in little memory, for what holds very many: its values and its result; who made it is shared with other puts, and
//! so is whatever else is the same of many.
//!
//! It can be said in words as the whole line can. What it lacks is where it went to, which is known where it is kept, and
//! the names of the server, its thread and the type.

use super::putlog::{PutLine, PvaLine};
use super::small_value::{is_identical, SmallValue};
use super::who::Clients;
use iocrec_log::event::{Dbf, Value};
use std::borrow::Cow;
use std::collections::HashSet;
use std::rc::Rc;

/// Kinds of puts that are shared; a bound for hostile logs.
const MAX_KINDS: usize = 10_000;

/// What is kept of a put that acknowledges nothing.
pub struct KeptPut {
    /// Who made it.
    pub who: Rc<PutLine>,
    /// What is the same of many puts.
    pub kind: Rc<Kind>,
    /// Wall-clock time, nanoseconds since 1970 UTC.
    pub time: i64,
    old: SmallValue,
    new: SmallValue,
    /// What few puts have.
    rare: Option<Box<Rare>>,
}

const _: () = assert!(size_of::<KeptPut>() <= 64);

/// What few puts have.
#[derive(Default)]
struct Rare {
    /// Its place in the order of time, if that is not its time.
    even: Option<i64>,
    /// The requested value, if it is not `new`.
    requested: Option<Value>,
    /// The texts for `old` and `new`.
    texts: [Option<Box<str>>; 2],
    pva: Option<Box<PvaLine>>,
}

/// What is the same of many puts.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    /// Whether the log holds only part of the values; `None` if it holds nothing.
    pub old_cut: Option<bool>,
    /// See `old_cut`.
    pub new_cut: Option<bool>,
    /// Record type.
    pub rtype: Option<Rc<str>>,
    requested_cut: Option<bool>,
    status: Cow<'static, str>,
    source: &'static str,
    /// Whether the value after it is not certain to be its result.
    pub inexact: bool,
    as_asked: bool,
    wrote: bool,
    /// Whether the client asked for a long text.
    is_long: bool,
    dbf: Option<Dbf>,
}

/// Keeps puts.
#[derive(Default)]
pub struct Keeper {
    clients: Clients,
    kinds: HashSet<Rc<Kind>>,
}

impl Keeper {
    /// Keeps a put.
    pub fn keep(&mut self, put: PutLine) -> KeptPut {
        let is_long = put.pv.as_deref().is_some_and(|pv| pv.ends_with('$'));
        let put = PutLine { host: None, ioc: None, server: None, thread: None, ..put };
        let who = self.clients.of(&put);
        let short = |text: Option<String>| text.map(String::into_boxed_str);
        let rare = Rare {
            even: Some(put.even).filter(|even| *even != put.time),
            requested: (!is_identical(&put.requested, &put.new)).then_some(put.requested),
            texts: [short(put.old_text), short(put.new_text)],
            pva: put.pva,
        };
        let kind = Kind {
            old_cut: put.old_cut,
            new_cut: put.new_cut,
            rtype: put.rtype,
            requested_cut: put.requested_cut,
            status: put.status,
            source: put.source,
            inexact: put.inexact,
            as_asked: put.as_asked,
            wrote: put.wrote,
            is_long,
            dbf: put.dbf,
        };
        KeptPut {
            who,
            kind: self.shared(kind),
            time: put.time,
            old: put.old.into(),
            new: put.new.into(),
            rare: rare.is_any().then(|| Box::new(rare)),
        }
    }

    fn shared(&mut self, kind: Kind) -> Rc<Kind> {
        if let Some(known) = self.kinds.get(&kind) {
            return Rc::clone(known);
        }
        let kind = Rc::new(kind);
        if self.kinds.len() < MAX_KINDS {
            self.kinds.insert(Rc::clone(&kind));
        }
        kind
    }
}

impl Rare {
    fn is_any(&self) -> bool {
        let Rare { even, requested, texts, pva } = self;
        even.is_some() || requested.is_some() || texts.iter().any(Option::is_some) || pva.is_some()
    }
}

impl KeptPut {
    /// Its place in the order of time.
    pub fn even(&self) -> i64 {
        self.rare.as_ref().and_then(|rare| rare.even).unwrap_or(self.time)
    }

    /// The value of the field before.
    pub fn old_value(&self) -> Value {
        self.old.value()
    }

    /// The value of the field afterwards.
    pub fn new_value(&self) -> Value {
        self.new.value()
    }

    /// The text for the value of the field before.
    pub fn old_text(&self) -> Option<&str> {
        self.rare.as_ref().and_then(|rare| rare.texts[0].as_deref())
    }

    fn new_text(&self) -> Option<&str> {
        self.rare.as_ref().and_then(|rare| rare.texts[1].as_deref())
    }

    /// The put, to be said in words.
    pub fn line(&self) -> PutLine {
        let kind = &*self.kind;
        let requested = self.rare.as_ref().and_then(|rare| rare.requested.clone());
        PutLine {
            time: self.time,
            even: self.even(),
            // of the name, only whether it asks for a long text matters
            pv: kind.is_long.then(|| "$".to_owned()),
            old: self.old_value(),
            old_text: self.old_text().map(str::to_owned),
            old_cut: kind.old_cut,
            new: self.new_value(),
            new_text: self.new_text().map(str::to_owned),
            new_cut: kind.new_cut,
            requested: requested.unwrap_or_else(|| self.new_value()),
            requested_cut: kind.requested_cut,
            status: kind.status.clone(),
            source: kind.source,
            inexact: kind.inexact,
            as_asked: kind.as_asked,
            wrote: kind.wrote,
            rtype: kind.rtype.clone(),
            dbf: kind.dbf,
            pva: self.rare.as_ref().and_then(|rare| rare.pva.clone()),
            ..PutLine::clone(&self.who)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::puts::sample::put;
    use crate::wording::put::{change, who};

    /// Whatever a put was, it is said as if its whole line had been kept.
    #[test]
    fn it_is_said_as_the_whole_put() {
        let mut keeper = Keeper::default();
        let text = |text: &str| Value::Text(text.as_bytes().to_vec());
        let long = PutLine { pv: Some("T:LONG$".into()), new: text("long"), ..put() };
        let others = [
            put(),
            long,
            PutLine { user: None, client_host: None, ..put() },
            PutLine { new_text: Some("ON".into()), old_text: Some("OFF".into()), ..put() },
            PutLine { new: Value::Unknown, status: "denied".into(), ..put() },
            PutLine { new: Value::Unknown, status: "ECA_PUTFAIL".into(), wrote: true, ..put() },
            PutLine { inexact: true, as_asked: true, ..put() },
            PutLine { old_cut: Some(true), old: text("cut"), new_cut: Some(true), new: text("new"), ..put() },
            PutLine { requested: Value::Int(5), requested_cut: Some(false), ..put() },
            PutLine { requested: Value::Double(-0.0), new: Value::Double(0.0), inexact: true, ..put() },
            PutLine { requested: Value::Double(f64::NAN), new: Value::Double(f64::NAN), ..put() },
            PutLine { even: put().even - 5, ..put() },
        ];
        for other in others {
            let kept = keeper.keep(other.clone()).line();
            assert_eq!((change(&kept), who(&kept)), (change(&other), who(&other)));
            assert_eq!(
                (kept.time, kept.even, kept.has_failed()),
                (other.time, other.even, other.has_failed())
            );
        }
    }
}
