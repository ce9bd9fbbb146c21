//! A put in little memory, for what holds very many: its values and its result; who made it is shared with other puts.
//!
//! It can be said in words as the whole line can. What it lacks is where it went to, which is known where it is kept, and
//! the names of the server, its thread and the type.

use super::putlog::{PutLine, PvaLine};
use super::who::Clients;
use iocrec_log::event::{Dbf, Value};
use std::borrow::Cow;
use std::rc::Rc;

/// What is kept of a put that acknowledges nothing.
pub struct KeptPut {
    /// Who made it.
    pub who: Rc<PutLine>,
    /// Wall-clock time, nanoseconds since 1970 UTC.
    pub time: i64,
    /// Its place in the order of time.
    pub even: i64,
    /// The value of the field before, and the text for it.
    pub old: Value,
    /// See `old`.
    pub old_text: Option<Box<str>>,
    /// The value of the field afterwards.
    pub new: Value,
    /// Whether the log holds only part of the values; `None` if it holds nothing.
    pub old_cut: Option<bool>,
    /// See `old_cut`.
    pub new_cut: Option<bool>,
    /// Record type.
    pub rtype: Option<Box<str>>,
    new_text: Option<Box<str>>,
    requested: Value,
    requested_cut: Option<bool>,
    status: Cow<'static, str>,
    source: &'static str,
    inexact: bool,
    as_asked: bool,
    wrote: bool,
    /// Whether the client asked for a long text.
    is_long: bool,
    dbf: Option<Dbf>,
    pva: Option<Box<PvaLine>>,
}

impl KeptPut {
    /// Keeps a put; `clients` has those who made the others.
    pub fn of(put: PutLine, clients: &mut Clients) -> KeptPut {
        let is_long = put.pv.as_deref().is_some_and(|pv| pv.ends_with('$'));
        let put = PutLine { host: None, ioc: None, server: None, thread: None, ..put };
        let who = clients.of(&put);
        let short = |text: Option<String>| text.map(String::into_boxed_str);
        KeptPut {
            who,
            time: put.time,
            even: put.even,
            old: put.old,
            old_text: short(put.old_text),
            new: put.new,
            old_cut: put.old_cut,
            new_cut: put.new_cut,
            rtype: short(put.rtype),
            new_text: short(put.new_text),
            requested: put.requested,
            requested_cut: put.requested_cut,
            status: put.status,
            source: put.source,
            inexact: put.inexact,
            as_asked: put.as_asked,
            wrote: put.wrote,
            is_long,
            dbf: put.dbf,
            pva: put.pva,
        }
    }

    /// The put, to be said in words.
    pub fn line(&self) -> PutLine {
        let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        PutLine {
            time: self.time,
            even: self.even,
            // of the name, only whether it asks for a long text matters
            pv: self.is_long.then(|| "$".to_owned()),
            old: self.old.clone(),
            old_text: text(&self.old_text),
            old_cut: self.old_cut,
            new: self.new.clone(),
            new_text: text(&self.new_text),
            new_cut: self.new_cut,
            requested: self.requested.clone(),
            requested_cut: self.requested_cut,
            status: self.status.clone(),
            source: self.source,
            inexact: self.inexact,
            as_asked: self.as_asked,
            wrote: self.wrote,
            rtype: text(&self.rtype),
            dbf: self.dbf,
            pva: self.pva.clone(),
            ..PutLine::clone(&self.who)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::puts::sample::put;
    use crate::output::wording::put::{change, who};

    /// Whatever a put was, it is said as if its whole line had been kept.
    #[test]
    fn it_is_said_as_the_whole_put() {
        let mut clients = Clients::default();
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
        ];
        for other in others {
            let kept = KeptPut::of(other.clone(), &mut clients).line();
            assert_eq!((change(&kept), who(&kept)), (change(&other), who(&other)));
            assert_eq!(
                (kept.time, kept.even, kept.has_failed()),
                (other.time, other.even, other.has_failed())
            );
        }
    }
}
