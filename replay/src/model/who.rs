//! Who made puts, each client once.
//!
//! What is said of who made a put is the same for all puts of a circuit, or nearly: so of a million puts a few lines are
//! kept. At most 10,000 are shared; puts of further ones have a line each.

use super::numbered::Keyed;
use super::putlog::PutLine;
use iocrec_log::event::Value;
use std::rc::Rc;

/// Clients whose lines are shared; a bound for hostile logs. A big IOC has some thousand circuits.
const MAX_CLIENTS: usize = 10_000;

/// An IOC, and a client's address.
type Circuit = (Option<Rc<str>>, Option<Rc<str>>);

/// The clients that made puts.
#[derive(Default)]
pub struct Clients {
    known: Keyed<Circuit, Rc<PutLine>>,
    /// The client of the latest put: many puts of one come together.
    latest: Option<Rc<PutLine>>,
}

impl Clients {
    /// The line of who made this put: without what it wrote, where and when.
    pub fn of(&mut self, put: &PutLine) -> Rc<PutLine> {
        if let Some(known) = self.latest.as_ref().filter(|known| is_by(known, put)) {
            return Rc::clone(known);
        }
        let key = (put.ioc.clone(), put.client.clone());
        let who = match self.known.get(&key).filter(|known| is_by(known, put)) {
            Some(known) => Rc::clone(known),
            None => {
                let who = Rc::new(made_by(put));
                if self.known.len() < MAX_CLIENTS || self.known.contains_key(&key) {
                    self.known.insert(key, Rc::clone(&who));
                }
                who
            }
        };
        self.latest = Some(Rc::clone(&who));
        who
    }
}

/// Whether this line says who made the put.
fn is_by(line: &PutLine, put: &PutLine) -> bool {
    // the other fields are those that such a line lacks
    line.client == put.client
        && line.user == put.user
        && line.client_host == put.client_host
        && line.ioc == put.ioc
        && line.host == put.host
        && line.server == put.server
        && line.via == put.via
        && line.thread == put.thread
        && line.cause_record == put.cause_record
        && line.client_ioc == put.client_ioc
        && line.protocol == put.protocol
        && line.process == put.process
}

/// The line of who made this put.
fn made_by(put: &PutLine) -> PutLine {
    PutLine {
        span: None,
        time: 0,
        even: 0,
        host: put.host.clone(),
        ioc: put.ioc.clone(),
        ioc_process: None,
        pv: None,
        record: None,
        field: None,
        user: put.user.clone(),
        client_host: put.client_host.clone(),
        client: put.client.clone(),
        server: put.server.clone(),
        via: put.via,
        dbr: "".into(),
        count: 0,
        requested: Value::Unknown,
        old: Value::Unknown,
        new: Value::Unknown,
        old_text: None,
        new_text: None,
        status: "".into(),
        callback_ms: None,
        thread: put.thread.clone(),
        source: "",
        inexact: false,
        as_asked: false,
        cause_record: put.cause_record.clone(),
        requested_cut: None,
        old_cut: None,
        new_cut: None,
        acknowledges: None,
        client_ioc: put.client_ioc.clone(),
        ended: 0,
        processed: None,
        rtype: None,
        dbf: None,
        wrote: false,
        written: None,
        protocol: put.protocol,
        pva: None,
        process: put.process.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::puts::sample::put;

    #[test]
    fn puts_of_one_client_share_a_line() {
        let mut clients = Clients::default();
        let first = clients.of(&put());
        let other_value = PutLine { requested: Value::Int(77), time: 9, pv: Some("T:OTHER".into()), ..put() };
        assert!(Rc::ptr_eq(&first, &clients.of(&other_value)));
        assert_eq!((&first.user, &first.client, &first.pv), (&put().user, &put().client, &None));
        let other_user = clients.of(&PutLine { user: Some("another".into()), ..put() });
        assert_eq!(other_user.user.as_deref(), Some("another"));
        assert_eq!(clients.of(&put()).user, put().user);
    }
}
