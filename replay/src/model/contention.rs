//! Who writes: puts by user and client, and the PVs that clients fight over.
//!
//! A fight is a PV that two clients overwrite in turn. A put **overrides** if the put before it to the same PV came from
//! another client, not more than [`WINDOW`] earlier, with another requested value. A PV is fought over if puts of at
//! least two clients override at least [`MIN_EACH`] times each. Puts that were refused do not count: they changed
//! nothing.
//!
//! Clients differ by user, host or address. Where these are the same on all sides, circuits are the clients: two
//! programs of one operator can fight, too. A script that opens a circuit for each put overrides once on each, so it
//! does not fight with itself.

use super::finder::Finder;
use super::packed_texts::PackedTexts;
use super::putlog::{PutLine, Via};
use super::small_value::SmallValue;
use super::value;
use crate::room;
use crate::time::SECOND;
use iocrec_log::event::Value;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Puts that are further apart are no fight: somebody corrects another.
pub const WINDOW: i64 = 60 * SECOND as i64;
/// How often each side must override.
pub const MIN_EACH: u64 = 2;
/// PVs, and clients of one, that are remembered; bounds for hostile logs.
const MAX_PVS: usize = 100_000;
const MAX_CLIENTS: usize = 64;
/// Circuits that PVs share in memory: a big IOC has some thousand.
const MAX_CIRCUITS: usize = 10_000;
/// Users and clients that are told apart.
const MAX_WRITERS: usize = 100_000;

/// A client that writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Writer {
    /// Claimed user; empty if unknown.
    pub user: String,
    /// Claimed host; empty if unknown.
    pub host: String,
    /// Address, with or without the port; empty if unknown.
    pub address: String,
}

impl Writer {
    /// The circuit that a put from outside came by; `None` if nothing is known of it.
    pub fn of(put: &PutLine) -> Option<Writer> {
        let address = put.client.as_deref();
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let writer = Writer {
            user: text(put.user.as_deref()),
            host: text(put.client_host.as_deref()),
            address: text(address),
        };
        (!writer.user.is_empty() || !writer.address.is_empty()).then_some(writer)
    }

    /// The writer on any of its circuits.
    pub fn without_port(&self) -> Writer {
        let address = self.address.rsplit_once(':').map_or(&*self.address, |(address, _)| address);
        Writer { address: address.to_owned(), ..self.clone() }
    }

    /// `USER@HOST (ADDRESS)`, as far as known.
    pub fn text(&self) -> String {
        let Writer { user, host, address } = self;
        let user = if user.is_empty() { "unknown user" } else { user };
        let at = if host.is_empty() { String::new() } else { format!("@{host}") };
        let from = if address.is_empty() { String::new() } else { format!(" ({address})") };
        format!("{user}{at}{from}")
    }
}

/// Puts of a user or client.
#[derive(Clone, Debug, Default)]
pub struct Puts {
    /// How many.
    pub count: u64,
    /// How many of them were refused.
    pub refused: u64,
    /// Wall-clock time of the first and the last.
    pub span: Option<(i64, i64)>,
}

impl Puts {
    fn add(&mut self, put: &PutLine) {
        self.count += 1;
        self.refused += u64::from(put.has_failed());
        let (first, last) = self.span.unwrap_or((put.time, put.time));
        self.span = Some((first.min(put.time), last.max(put.time)));
    }
}

/// A PV with puts of clients; small, since there may be a hundred thousand.
#[derive(Clone, Debug)]
struct Contended {
    /// The number of its place.
    place: u32,
    /// The last put: its time, the circuit that it came by, and the requested value.
    last: (i64, Rc<Writer>, SmallValue),
    /// `None` as long as there are none: few PVs have any.
    overrides: Option<Box<Overrides>>,
}

const _: () = assert!(size_of::<Contended>() <= 48);

/// Puts to a PV that overrode another client's.
#[derive(Clone, Debug)]
struct Overrides {
    /// By writers without ports, and by circuits.
    by: [BTreeMap<Writer, Side>; 2],
    /// Wall-clock time of the first and the last.
    span: (i64, i64),
}

/// One side of a fight.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// How often it overrode another.
    pub overrides: u64,
    /// The value that it requested last.
    pub value: Value,
}

/// A PV that clients fight over.
#[derive(Clone, Debug)]
pub struct Fight {
    /// Host.
    pub host: String,
    /// IOC.
    pub ioc: String,
    /// PV.
    pub pv: String,
    /// The sides, the one that overrode most first.
    pub sides: Vec<(Writer, Side)>,
    /// Wall-clock time of the first and the last override.
    pub span: (i64, i64),
}

/// Who is known to have made a put.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum User {
    /// Whom the client names.
    Claimed(String),
    /// Whoever typed at the shell of this IOC, or its start-up script.
    Shell(String),
    /// Nobody is.
    Unknown,
}

impl User {
    /// The user of a put.
    pub fn of(put: &PutLine) -> User {
        match (&put.user, put.via) {
            (Some(user), _) if !user.is_empty() => User::Claimed(user.as_ref().to_owned()),
            (_, Via::Dbpf) => User::Shell(put.ioc.as_deref().unwrap_or_default().to_owned()),
            _ => User::Unknown,
        }
    }

    /// In words.
    pub fn text(&self) -> String {
        match self {
            User::Claimed(user) => user.clone(),
            User::Shell(ioc) if ioc.is_empty() => "IOC shell".to_owned(),
            User::Shell(ioc) => format!("IOC shell of {ioc}"),
            User::Unknown => "unknown user".to_owned(),
        }
    }
}

/// Puts from outside, by who wrote.
#[derive(Default)]
pub struct Contention {
    /// By user.
    pub users: HashMap<User, Puts>,
    /// By client.
    pub clients: HashMap<Writer, Puts>,
    pvs: Vec<Contended>,
    /// Their names.
    names: PackedTexts,
    found: Finder,
    /// Hosts and IOCs, with their numbers.
    places: HashMap<(String, String), u32>,
    /// The place that was asked for last.
    latest_place: Option<((String, String), u32)>,
    /// The circuits that are kept of PVs, each once as far as there is room.
    circuits: HashMap<Rc<Writer>, ()>,
}

impl Contention {
    /// Takes the next put from outside, in order of time.
    pub fn take(&mut self, put: &PutLine) {
        let user = User::of(put);
        if self.users.len() < MAX_WRITERS || self.users.contains_key(&user) {
            self.users.entry(user).or_default().add(put);
        }
        let Some(circuit) = Writer::of(put) else { return };
        let writer = circuit.without_port();
        if self.clients.len() < MAX_WRITERS || self.clients.contains_key(&writer) {
            self.clients.entry(writer.clone()).or_default().add(put);
        }
        if is_refused(put) || put.acknowledges.is_some() || put.requested == Value::Unknown {
            return;
        }
        let Some(pv) = name(put) else { return };
        let place = self.place(put);
        let is_there = |known: &Contended| known.place == place;
        let is = |at: usize| self.pvs.get(at).is_some_and(is_there) && self.names.get(at) == Some(&*pv);
        let found = self.found.find((place, &*pv), is);
        let Some(contended) = found.and_then(|at| self.pvs.get_mut(at)) else {
            if self.pvs.len() < MAX_PVS {
                let last = (put.time, self.shared(circuit), put.requested.clone().into());
                let places = self.pvs.iter().map(|known| known.place);
                self.found.add((place, &*pv), places.zip(self.names.iter()));
                room::for_one_more(&mut self.pvs);
                self.pvs.push(Contended { place, last, overrides: None });
                self.names.push(&pv);
            }
            return;
        };
        let (time, other, requested) = &contended.last;
        let soon = put.time.saturating_sub(*time) <= WINDOW;
        let differs = value::same(&requested.value(), &put.requested) == Some(false);
        let is_other = **other != circuit;
        if is_other && soon && differs {
            let none = || Box::new(Overrides { by: Default::default(), span: (put.time, put.time) });
            let overrides = contended.overrides.get_or_insert_with(none);
            overrides.span.1 = put.time;
            let [writers, circuits] = &mut overrides.by;
            if other.without_port() != writer {
                note_override(writers, writer.clone());
            }
            note_override(circuits, circuit.clone());
        }
        if let Some(Overrides { by: [writers, circuits], .. }) = contended.overrides.as_deref_mut() {
            let sides = writers.get_mut(&writer).into_iter().chain(circuits.get_mut(&circuit));
            sides.for_each(|side| side.value = put.requested.clone());
        }
        (contended.last.0, contended.last.2) = (put.time, put.requested.clone().into());
        if is_other {
            let circuit = self.shared(circuit);
            let known = found.and_then(|at| self.pvs.get_mut(at));
            known.into_iter().for_each(|contended| contended.last.1 = Rc::clone(&circuit));
        }
    }

    /// The number of the put's host and IOC.
    fn place(&mut self, put: &PutLine) -> u32 {
        let (host, ioc) = (put.host.as_deref().unwrap_or_default(), put.ioc.as_deref().unwrap_or_default());
        match &self.latest_place {
            Some(((known, of), number)) if known == host && of == ioc => *number,
            _ => {
                let (place, next) = ((host.to_owned(), ioc.to_owned()), self.places.len());
                // there are no more than PVs; of a hostile log those without number are one
                let next = if next < MAX_PVS { next as u32 } else { u32::MAX };
                let number = match self.places.get(&place) {
                    Some(number) => *number,
                    None if next == u32::MAX => next,
                    None => *self.places.entry(place.clone()).or_insert(next),
                };
                self.latest_place = Some((place, number));
                number
            }
        }
    }

    /// The circuit, shared with other PVs if there is room.
    fn shared(&mut self, circuit: Writer) -> Rc<Writer> {
        if let Some((known, ())) = self.circuits.get_key_value(&circuit) {
            return Rc::clone(known);
        }
        let circuit = Rc::new(circuit);
        if self.circuits.len() < MAX_CIRCUITS {
            self.circuits.insert(Rc::clone(&circuit), ());
        }
        circuit
    }

    /// The PVs that are fought over, the fiercest first.
    pub fn fights(&self) -> Vec<Fight> {
        let places: HashMap<u32, &(String, String)> =
            self.places.iter().map(|(place, number)| (*number, place)).collect();
        let mut fights: Vec<Fight> = self
            .pvs
            .iter()
            .zip(self.names.iter())
            .filter_map(|(contended, pv)| {
                let overrides = contended.overrides.as_ref()?;
                let mut sides = overrides.by.iter().map(sides).find(|sides| sides.len() >= 2)?;
                sides.sort_by_key(|(_, side)| std::cmp::Reverse(side.overrides));
                let (host, ioc) =
                    places.get(&contended.place).map(|place| (*place).clone()).unwrap_or_default();
                Some(Fight { host, ioc, pv: pv.to_owned(), sides, span: overrides.span })
            })
            .collect();
        fights.sort_by_key(|fight| (std::cmp::Reverse(fight.overrides()), fight.pv.clone()));
        fights
    }
}

/// The name of what a put writes to. Clients write a field's name in several ways (`A`, `A.VAL`, `A.VAL$`, an alias), so it
/// is the field's own where that is known.
fn name(put: &PutLine) -> Option<Cow<'_, str>> {
    Some(match (put.record.as_deref(), put.field.as_deref()) {
        (Some(record), Some("VAL")) => record.into(),
        (Some(record), Some(field)) => format!("{record}.{field}").into(),
        _ => put.pv.as_deref()?.into(),
    })
}

fn note_override(sides: &mut BTreeMap<Writer, Side>, by: Writer) {
    if sides.len() >= MAX_CLIENTS && !sides.contains_key(&by) {
        return;
    }
    let side = sides.entry(by).or_insert(Side { overrides: 0, value: Value::Unknown });
    side.overrides += 1;
}

/// Those that overrode often enough.
fn sides(of: &BTreeMap<Writer, Side>) -> Vec<(Writer, Side)> {
    let often = of.iter().filter(|(_, side)| side.overrides >= MIN_EACH);
    often.map(|(writer, side)| (writer.clone(), side.clone())).collect()
}

impl Fight {
    /// How often one side overrode another.
    pub fn overrides(&self) -> u64 {
        self.sides.iter().map(|(_, side)| side.overrides).sum()
    }
}

/// Whether the put was answered with an error and is not known to have changed its field nevertheless.
pub fn is_refused(put: &PutLine) -> bool {
    put.has_failed() && !put.has_changed_anyway()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::puts::sample::put;

    fn by(user: &str, seconds: i64, value: f64) -> PutLine {
        let requested = Value::Double(value);
        let time = seconds * SECOND as i64;
        PutLine { user: Some(user.into()), time, requested, status: "ok".into(), ..put() }
    }

    fn fights(puts: &[PutLine]) -> Vec<(u64, Vec<String>)> {
        let mut contention = Contention::default();
        puts.iter().for_each(|put| contention.take(put));
        let sides = |fight: &Fight| fight.sides.iter().map(|(writer, _)| writer.user.clone()).collect();
        contention.fights().iter().map(|fight| (fight.overrides(), sides(fight))).collect()
    }

    /// A link of more than 40 characters, to which the IOC refuses a put: what the put found is its beginning.
    #[test]
    fn a_put_that_was_refused_has_not_changed_the_end_of_a_text() {
        let text = |text: &str| Value::Text(text.as_bytes().to_vec());
        let link = "SR:C01-MG:G02A{Quad:1}Current:Readback-I CP MS";
        let refused = PutLine {
            old: text(&link[..40]),
            old_cut: Some(true),
            new: text(link),
            status: "ECA_PUTFAIL".into(),
            ..put()
        };
        assert!(is_refused(&refused));
        assert!(!is_refused(&PutLine { new: text("SR:OTHER NPP NMS"), ..refused }));
    }

    #[test]
    fn a_put_at_the_shell_is_not_an_unknown_users() {
        let shell = PutLine { user: None, via: Via::Dbpf, ioc: Some("demo".into()), ..put() };
        let nobody = PutLine { user: None, ..put() };
        let texts = [&shell, &nobody, &by("alice", 0, 1.0)].map(|put| User::of(put).text());
        assert_eq!(texts, ["IOC shell of demo", "unknown user", "alice"]);
    }

    #[test]
    fn two_who_overwrite_each_other_fight() {
        let mut puts = Vec::new();
        for turn in 0..3 {
            puts.push(by("alice", 2 * turn, 5.0));
            puts.push(by("bob", 2 * turn + 1, 10.0));
        }
        assert_eq!(fights(&puts), [(5, vec!["bob".into(), "alice".into()])]);
        puts.truncate(4);
        assert!(fights(&puts).is_empty(), "alice overrode only once");
    }

    #[test]
    fn a_pv_is_the_same_by_each_of_its_names() {
        let names = ["T:SP", "T:SP.VAL", "T:ALIAS.VAL", "T:SP.$"];
        let puts: Vec<PutLine> = (0..8)
            .map(|turn| PutLine {
                pv: Some(names[turn % names.len()].into()),
                ..by(["alice", "bob"][turn % 2], turn as i64, turn as f64)
            })
            .collect();
        assert_eq!(fights(&puts), [(7, vec!["bob".into(), "alice".into()])]);
        let fields: Vec<PutLine> = (0..8)
            .map(|turn| PutLine {
                field: Some(["VAL", "DRVH"][turn % 2].into()),
                ..by(["alice", "bob"][turn % 2], turn as i64, turn as f64)
            })
            .collect();
        assert!(fights(&fields).is_empty(), "of two fields");
    }

    #[test]
    fn what_a_side_asked_for_last_need_not_override_anything() {
        let puts =
            [("alice", 5.0), ("bob", 10.0), ("alice", 5.0), ("bob", 10.0), ("alice", 5.0), ("alice", 7.0)];
        let mut contention = Contention::default();
        (0..).zip(puts).for_each(|(second, (user, value))| contention.take(&by(user, second, value)));
        let fights = contention.fights();
        let last = |user: &str| {
            fights[0].sides.iter().find(|(writer, _)| writer.user == user).unwrap().1.value.clone()
        };
        assert_eq!((last("alice"), last("bob")), (Value::Double(7.0), Value::Double(10.0)));
    }

    #[test]
    fn what_is_no_fight() {
        let programs: Vec<PutLine> = (0..8)
            .map(|turn| PutLine {
                client: Some(format!("10.0.0.5:{}", 5000 + turn % 2).into()),
                ..by("ops", turn, turn as f64)
            })
            .collect();
        assert_eq!(fights(&programs), [(7, vec!["ops".into(), "ops".into()])], "two programs of one user");
        let script: Vec<PutLine> = (0..8)
            .map(|turn| PutLine {
                client: Some(format!("10.0.0.5:{}", 5000 + turn).into()),
                ..by("ops", turn, turn as f64)
            })
            .collect();
        assert!(fights(&script).is_empty(), "a script with a circuit for each put");
        let turns = |who: fn(i64) -> &'static str, step: i64, value: fn(i64) -> f64| -> Vec<PutLine> {
            (0..8).map(|turn| by(who(turn), turn * step, value(turn))).collect()
        };
        let in_turn = |turn: i64| if turn % 2 == 0 { "alice" } else { "bob" };
        assert!(!fights(&turns(in_turn, 1, |turn| turn as f64)).is_empty());
        assert!(fights(&turns(|_| "alice", 1, |turn| turn as f64)).is_empty(), "alone");
        assert!(fights(&turns(in_turn, 1, |_| 5.0)).is_empty(), "both want the same");
        assert!(fights(&turns(in_turn, 61, |turn| turn as f64)).is_empty(), "minutes apart");
        let mut denied = turns(in_turn, 1, |turn| turn as f64);
        denied.iter_mut().filter(|put| put.user.as_deref() == Some("bob")).for_each(|put| {
            put.status = "denied".into();
        });
        assert!(fights(&denied).is_empty(), "bob's puts were refused");
    }
}
