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

/// The clients that made puts.
#[derive(Default)]
pub struct Clients(Keyed<(Option<String>, Option<String>), Rc<PutLine>>);

impl Clients {
    /// The line of who made this put: without what it wrote, where and when.
    pub fn of(&mut self, put: PutLine) -> Rc<PutLine> {
        let who = PutLine {
            time: 0,
            even: 0,
            pv: None,
            record: None,
            field: None,
            dbr: String::new(),
            count: 0,
            requested: Value::Unknown,
            old: Value::Unknown,
            new: Value::Unknown,
            old_text: None,
            new_text: None,
            status: "".into(),
            callback_ms: None,
            source: "",
            inexact: false,
            as_asked: false,
            requested_cut: None,
            old_cut: None,
            new_cut: None,
            acknowledges: None,
            ended: 0,
            processed: None,
            rtype: None,
            dbf: None,
            wrote: false,
            pva: None,
            ..put
        };
        let key = (who.ioc.clone(), who.client.clone());
        if let Some(known) = self.0.get(&key).filter(|known| ***known == who) {
            return Rc::clone(known);
        }
        let who = Rc::new(who);
        if self.0.len() < MAX_CLIENTS || self.0.contains_key(&key) {
            self.0.insert(key, Rc::clone(&who));
        }
        who
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::puts::sample::put;

    #[test]
    fn puts_of_one_client_share_a_line() {
        let mut clients = Clients::default();
        let first = clients.of(put());
        let other_value = PutLine { requested: Value::Int(77), time: 9, pv: Some("T:OTHER".into()), ..put() };
        assert!(Rc::ptr_eq(&first, &clients.of(other_value)));
        assert_eq!((&first.user, &first.client, &first.pv), (&put().user, &put().client, &None));
        let other_user = clients.of(PutLine { user: Some("another".into()), ..put() });
        assert_eq!(other_user.user.as_deref(), Some("another"));
        assert_eq!(clients.of(put()).user, put().user);
    }
}
