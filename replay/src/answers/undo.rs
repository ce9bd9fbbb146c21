//! What would put back the values that puts have overwritten.
//!
//! Of each field, the latest uninterrupted series of selected puts is undone: those after the last put of somebody else.
//! The value before the series is put back, if it is known whole, if the value that the series left is known, and if
//! nothing else is known to have changed the field since.

use crate::answers::states;
use crate::answers::states::state::FieldState;
use crate::answers::states::to_setting::setting;
use crate::answers::values::Entry;
use crate::filter::Filter;
use crate::logs::Logs;
use crate::model::commands::is_command;
use crate::model::kept_put::{Keeper, KeptPut};
use crate::model::numbered::Keyed;
use crate::model::obstacle::Obstacle;
use crate::model::putlog::PutLine;
use crate::model::setting::Setting;
use crate::model::value::{agree, agrees, long_text, same};
use crate::reading::runs::course::Course;
use iocrec_log::event::{Array, Dbf, Value};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

/// Fields whose puts are remembered; a bound for hostile logs.
const MAX_FIELDS: usize = 100_000;
/// Names of hosts, IOCs, fields and types that are shared; likewise.
const MAX_TEXTS: usize = 10_000;

/// Puts that wait for one that was written earlier; likewise.
const MAX_WAITING: usize = 10_000;

/// What two recorders of a machine tell of one put is less than this apart, nanoseconds.
const AT_ONCE: u64 = 1_000_000;

/// What of a field's name many have in common.
#[derive(PartialEq, Eq, Hash)]
struct Common {
    host: Rc<str>,
    ioc: Rc<str>,
    field: Rc<str>,
}

/// The name of a field: its record, and what it has in common with others.
#[derive(PartialEq, Eq, Hash)]
struct Name {
    common: Rc<Common>,
    record: Box<str>,
}

/// Host, IOC, record.
type Place<'a> = [&'a str; 3];

impl Name {
    fn place(&self) -> Place<'_> {
        [&self.common.host, &self.common.ioc, &self.record]
    }
}

/// The latest series of selected puts to a field. There may be very many.
struct Series {
    first: KeptPut,
    /// `None`: the first is the last.
    last: Option<KeptPut>,
    count: u64,
    /// The put of somebody else before the series, but after earlier selected puts.
    before: Option<Box<KeptPut>>,
    /// The put of somebody else after it, the last one.
    after: Option<Box<Other>>,
    /// The one before that.
    earlier: Option<Box<Other>>,
    /// When the last put of the series was written.
    written: i64,
    /// Whether a put of it found another value than the one before had left.
    has_changed: bool,
}

/// A put of somebody else, as far as its recorder knows.
struct Other {
    put: KeptPut,
    /// When it was written.
    written: i64,
}

impl Series {
    fn beginning_with(first: KeptPut, written: i64, before: Option<Box<KeptPut>>) -> Box<Series> {
        let (last, after, earlier) = (None, None, None);
        Box::new(Series { first, last, count: 1, before, after, earlier, written, has_changed: false })
    }

    fn last(&self) -> &KeptPut {
        self.last.as_ref().unwrap_or(&self.first)
    }

    /// Whether this put is its last one, of which another recorder tells.
    fn ends_with(&self, put: &KeptPut, written: i64) -> bool {
        self.after.is_none() && is_told_again((self.last(), self.written), (put, written))
    }

    /// Takes what another recorder tells of its last put, if that one knows whose it is, and the first one did not.
    fn learn(&mut self, put: KeptPut) {
        let last = self.last.as_mut().unwrap_or(&mut self.first);
        if last.who.user.is_none() && put.who.user.is_some() {
            *last = put;
        }
    }
}

impl Other {
    /// Whether this put is the same, of which another recorder tells.
    fn is(&self, put: &KeptPut, written: i64) -> bool {
        is_told_again((&self.put, self.written), (put, written))
    }
}

/// All series.
type All = Keyed<Name, Box<Series>>;

/// A field that was written. There may be very many.
pub struct Undo {
    name: Name,
    /// Record type; empty if unknown.
    pub rtype: Rc<str>,
    /// Type of the field.
    pub dbf: Option<Dbf>,
    /// The value before.
    pub value: Value,
    /// The value that the puts left: it must still be there.
    pub left: Value,
    series: Box<Series>,
    /// Why it can't be undone; `None` if it can.
    pub obstacle: Option<Obstacle>,
    /// Why the field may no longer have the value that the series left.
    pub doubt: Option<Rc<str>>,
}

/// All fields that selected puts wrote.
#[derive(Default)]
pub struct Plan {
    /// The fields, in the reverse order of their first puts: fields of a record may depend on each other, so what was written
    /// last must be put back first.
    pub fields: Vec<Undo>,
    /// Selected puts that were refused: there is nothing to undo.
    pub refused: u64,
    /// Selected puts that acknowledged alarms: they can't be undone.
    pub acknowledgements: u64,
    /// Fields that selected puts left as they were.
    pub unchanged: u64,
    /// Selected puts whose record or field is not known.
    pub unnamed: u64,
    /// Whether there were more fields than are held.
    pub full: bool,
}

/// Finds what would undo the puts that the filter selects.
pub fn plan(logs: &Logs, filter: &Filter) -> Plan {
    let mut plan = Plan::default();
    let mut all = All::default();
    let (mut keeper, mut texts) = (Keeper::default(), Texts::default());
    // puts of others, and later ones, may have changed the fields again
    let wider = Filter { until: None, user: None, client: None, ..filter.clone() };
    for put in AsWritten::of(logs.puts(&wider)) {
        take(&mut plan, &mut all, (&mut keeper, &mut texts), put, filter);
    }
    drop(keeper);
    if all.is_empty() {
        return plan;
    }
    let fields = Filter { since: None, ..wider };
    let mut now = states::at(&logs.without_notices(), &fields, i64::MAX).into_fields(&fields);
    let owners = now.iter().map(|FieldState { key: (process, record, _), .. }| (&**record, process));
    let places = all.keys().map(|name| (&*name.record, [&*name.common.host, &*name.common.ioc]));
    let mut several = with_several(owners);
    several.extend(with_several(places));
    let before = values_before(logs, &fields, &all);
    // fields that the puts left as they were, which to put back others of their record may change
    let mut same_again: Vec<Undo> = Vec::new();
    plan.fields.reserve_exact(all.len());
    let mut add = |name: Name, series: Box<Series>, now: Option<FieldState>| {
        let before = before.get(&name);
        match judge(name, series, now, before, &mut texts) {
            Some(undo) if undo.is_unchanged() => same_again.push(undo),
            Some(undo) if several.contains(undo.record()) => {
                plan.fields.push(Undo { obstacle: Some(Obstacle::SeveralIocs), ..undo })
            }
            Some(undo) => plan.fields.push(undo),
            None => plan.unchanged += 1,
        }
    };
    // of several processes of a name, the last
    while let Some(field) = now.pop() {
        // the name that is held already, which is shared
        if let Some((name, series)) = all.remove_entry(&name_of(&field)) {
            add(name, series, Some(field));
        }
    }
    all.into_iter().for_each(|(name, series)| add(name, series, None));
    let may_be_needed = |undo: &Undo| undo.obstacle.is_none() && !several.contains(undo.record());
    let needed: HashSet<Place> =
        same_again.iter().filter(|undo| may_be_needed(undo)).map(|undo| undo.name.place()).collect();
    let places = plan.fields.iter().map(|undo| undo.name.place());
    let records: HashSet<Place> = places.filter(|place| needed.contains(place)).collect();
    let is_needed = |undo: &Undo| may_be_needed(undo) && records.contains(&undo.name.place());
    let are_needed: Vec<bool> = same_again.iter().map(is_needed).collect();
    for (undo, is_needed) in same_again.into_iter().zip(are_needed) {
        match is_needed {
            true => plan.fields.push(undo),
            false => plan.unchanged += 1,
        }
    }
    plan.fields.sort_by(|a, b| {
        let (first, second) = (a.first().even(), b.first().even());
        second.cmp(&first).then_with(|| a.pv().cmp(&b.pv()))
    });
    plan
}

impl Undo {
    /// Whether the puts left the field as it was.
    fn is_unchanged(&self) -> bool {
        // of a value that is held in part, the rest may be another
        let is_open = matches!(self.obstacle, Some(Obstacle::WrittenLater(_) | Obstacle::PartAfter));
        !is_open && same(&self.left, &self.value) == Some(true)
    }

    /// The first put of the series.
    pub fn first(&self) -> &KeptPut {
        &self.series.first
    }

    /// The last put of the series.
    pub fn last(&self) -> &KeptPut {
        self.series.last()
    }

    /// Number of puts in the series.
    pub fn count(&self) -> u64 {
        self.series.count
    }

    /// A put of somebody else before the series: earlier puts are not undone.
    pub fn before(&self) -> Option<&KeptPut> {
        self.series.before.as_deref()
    }

    /// Whether the value changed between puts of the series, as the later ones found.
    pub fn has_changed_between(&self) -> bool {
        self.series.has_changed
    }

    /// Its host; empty if unknown.
    pub fn host(&self) -> &str {
        &self.name.common.host
    }

    /// Its IOC; empty if unknown.
    pub fn ioc(&self) -> &str {
        &self.name.common.ioc
    }

    /// Its record.
    pub fn record(&self) -> &str {
        &self.name.record
    }

    /// The field.
    pub fn field(&self) -> &str {
        &self.name.common.field
    }

    /// The PV: the record for VAL, or `record.FIELD`.
    pub fn pv(&self) -> String {
        match (self.record(), self.field()) {
            (record, "VAL") => record.to_owned(),
            (record, field) => format!("{record}.{field}"),
        }
    }
}

/// Texts that many fields share.
#[derive(Default)]
struct Texts {
    known: HashSet<Rc<str>>,
    common: HashSet<Rc<Common>>,
    /// That of the last put: many puts to fields that share it come together.
    latest: Option<Rc<Common>>,
}

impl Texts {
    fn common(&mut self, host: &str, ioc: &str, field: &str) -> Rc<Common> {
        let is_it =
            |common: &&Rc<Common>| *common.field == *field && *common.ioc == *ioc && *common.host == *host;
        if let Some(latest) = self.latest.as_ref().filter(is_it) {
            return Rc::clone(latest);
        }
        let [host, ioc, field] = [host, ioc, field].map(|text| self.shared(text));
        let common = Rc::new(Common { host, ioc, field });
        let common = match self.common.get(&common) {
            Some(known) => Rc::clone(known),
            None => {
                if self.common.len() < MAX_TEXTS {
                    self.common.insert(Rc::clone(&common));
                }
                common
            }
        };
        self.latest = Some(Rc::clone(&common));
        common
    }

    fn shared(&mut self, text: &str) -> Rc<str> {
        if let Some(known) = self.known.get(text) {
            return Rc::clone(known);
        }
        let text: Rc<str> = text.into();
        if self.known.len() < MAX_TEXTS {
            self.known.insert(Rc::clone(&text));
        }
        text
    }
}

/// When a put was written, a place in the order of time. Its message came before; where the call that writes was not seen, that
/// is all there is.
fn written(put: &PutLine) -> i64 {
    put.written.unwrap_or(put.even)
}

/// Puts to records in the order in which they were written. They come by their messages, which may wait, and of one put one
/// recorder may have seen the message and another only the call.
struct AsWritten<I> {
    puts: I,
    waiting: BTreeMap<(i64, u64), PutLine>,
    count: u64,
    /// Of puts that are yet to come, none was written before.
    now: i64,
}

impl<I: Iterator<Item = PutLine>> AsWritten<I> {
    fn of(puts: I) -> Self {
        AsWritten { puts, waiting: BTreeMap::new(), count: 0, now: i64::MIN }
    }
}

impl<I: Iterator<Item = PutLine>> Iterator for AsWritten<I> {
    type Item = PutLine;

    fn next(&mut self) -> Option<PutLine> {
        loop {
            let is_due = self.waiting.first_key_value().is_some_and(|((time, _), _)| *time < self.now);
            if is_due || self.waiting.len() > MAX_WAITING {
                return self.waiting.pop_first().map(|(_, put)| put);
            }
            let Some(put) = self.puts.next() else { return self.waiting.pop_first().map(|(_, put)| put) };
            self.now = put.even;
            for put in put.to_records() {
                self.count += 1;
                self.waiting.insert((written(&put), self.count), put);
            }
        }
    }
}

/// Takes the next put.
fn take(
    plan: &mut Plan,
    all: &mut All,
    (keeper, texts): (&mut Keeper, &mut Texts),
    put: PutLine,
    filter: &Filter,
) {
    let selected = filter.put(&put);
    let refused = put.has_failed() && !put.has_changed_anyway();
    if put.acknowledges.is_some() || refused {
        if selected {
            plan.acknowledgements += u64::from(put.acknowledges.is_some() && !refused);
            plan.refused += u64::from(refused);
        }
        return;
    }
    let (Some(record), Some(field)) = (&put.record, &put.field) else {
        plan.unnamed += u64::from(selected);
        return;
    };
    let [host, ioc] = [&put.host, &put.ioc].map(|name| name.as_deref().unwrap_or_default());
    let name = Name { common: texts.common(host, ioc, field), record: record.as_str().into() };
    let written = written(&put);
    let (held, put) = (all.len(), keeper.keep(put));
    match all.get_mut(&name) {
        // also where that recorder does not know whose it is
        Some(series) if series.ends_with(&put, written) => series.learn(put),
        Some(series) if !selected => {
            let next = Box::new(Other { put, written });
            match series.after.take() {
                Some(after) if after.is(&next.put, written) => {
                    let knows_user = after.put.who.user.is_some();
                    series.after = Some(if knows_user { after } else { next });
                }
                after => (series.earlier, series.after) = (after, Some(next)),
            }
        }
        Some(series) => {
            // a recorder that does not know whose it is has told of it before
            if series.after.as_ref().is_some_and(|after| after.is(&put, written)) {
                series.after = series.earlier.take();
            }
            match series.after.take() {
                Some(before) => *series = Series::beginning_with(put, written, Some(Box::new(before.put))),
                None => {
                    let has_changed = has_changed(series.last(), &put);
                    series.has_changed |= has_changed;
                    series.count += 1;
                    (series.last, series.written) = (Some(put), written);
                }
            }
        }
        None if !selected => {}
        None if held >= MAX_FIELDS => plan.full = true,
        None => _ = all.insert(name, Series::beginning_with(put, written, None)),
    }
}

/// Whether another recorder tells of the same put: it found the value that the last one had overwritten, at the same time. `written`:
/// when each was written.
fn is_told_again((last, written): (&KeptPut, i64), (next, next_written): (&KeptPut, i64)) -> bool {
    let is_alike = |one: &Value, other: &Value| same(one, other) == Some(true);
    next_written.abs_diff(written) <= AT_ONCE
        && is_alike(&last.old_value(), &next.old_value())
        && is_alike(&last.new_value(), &next.new_value())
        && same(&last.old_value(), &last.new_value()) == Some(false)
        && (last.who.user == next.who.user || last.who.user.is_none() || next.who.user.is_none())
}

/// Whether a field changed between two puts that follow each other: its record may have done it, or a put that was not seen.
fn has_changed(last: &KeptPut, next: &KeptPut) -> bool {
    let left = (&last.new_value(), last.kind.new_cut == Some(true));
    let found = (&next.old_value(), next.kind.old_cut == Some(true));
    !last.kind.inexact && agree(left, found) == Some(false)
}

/// The records that are in more than one place. Holds one place of each, since there may be very many records.
fn with_several<'a, P: PartialEq>(places: impl Iterator<Item = (&'a str, P)>) -> HashSet<Box<str>> {
    let (mut known, mut several) = (HashMap::new(), HashSet::new());
    for (record, place) in places {
        if known.get(record).is_some_and(|known| *known != place) {
            several.insert(record.into());
        }
        known.entry(record).or_insert(place);
    }
    several
}

fn name_of(field: &FieldState) -> Name {
    let (process, record, name) = &field.key;
    name_with([&process.host, &process.ioc, name], record)
}

fn name_with([host, ioc, field]: [&Rc<str>; 3], record: &str) -> Name {
    let [host, ioc, field] = [host, ioc, field].map(Rc::clone);
    Name { common: Rc::new(Common { host, ioc, field }), record: record.into() }
}

/// Whole values of fields directly before their series, for those whose first put does not show it.
fn values_before(logs: &Logs, filter: &Filter, all: &All) -> HashMap<Name, Value> {
    let lacks = |series: &Series| series.first.kind.old_cut != Some(false);
    let wanted: HashMap<&Name, i64> = all
        .iter()
        .filter(|(_, series)| lacks(series))
        .map(|(name, series)| (name, series.first.even()))
        .collect();
    let mut before: HashMap<Name, Value> = HashMap::new();
    let lacking = all.values().filter(|series| lacks(series));
    let Some(last) = lacking.map(|series| series.first.time).max() else { return before };
    let logs = logs.without_notices();
    let is_even = !logs.courses().iter().any(Course::is_set_back);
    let filter = if is_even { filter.until(last) } else { filter.clone() };
    let value_field: Rc<str> = "VAL".into();
    for entry in logs.history(&filter) {
        let line = match entry {
            Entry::Value(line) => line,
            Entry::Begun { time, completed: false, process, record, .. } => {
                // until the next value, this one is not certain
                let name = name_with([&process.host, &process.ioc, &value_field], &record);
                if wanted.get(&name).is_some_and(|until| time < *until) {
                    before.remove(&name);
                }
                continue;
            }
            _ => continue,
        };
        if let Some(unseen) = &line.unseen {
            // until the next value, nothing is certain
            if !unseen.is_seen_beside {
                before.retain(|name, _| wanted.get(name).is_some_and(|time| *time <= unseen.even.0));
            }
            continue;
        }
        let name = name_with([&line.host, &line.ioc, &line.field], &line.record);
        if wanted.get(&name).is_none_or(|time| line.even >= *time) {
            continue;
        }
        let known = before.get(&name);
        let as_known =
            known.is_some_and(|known| agrees(known, &line.value, line.cut == Some(true)) == Some(true));
        match line.cut {
            Some(false) if !line.inexact => drop(before.insert(name, line.value)),
            Some(true) if as_known => {}
            _ => drop(before.remove(&name)),
        }
    }
    // what the put itself found may be another value
    before.retain(|name, value| {
        all.get(name).is_some_and(|series| {
            let is_cut = series.first.kind.old_cut == Some(true);
            agrees(value, &series.first.old_value(), is_cut) != Some(false)
        })
    });
    before
}

/// What would undo a series; `None` if it left the field as it was.
fn judge(
    name: Name,
    series: Box<Series>,
    now: Option<FieldState>,
    before: Option<&Value>,
    texts: &mut Texts,
) -> Option<Undo> {
    let field = &*name.common.field;
    let of = now.as_ref().map(setting).unwrap_or_default();
    let (first, last) = (&series.first, series.last());
    let old = match first.kind.old_cut {
        Some(false) => Some(first.old_value()),
        _ => before.cloned(),
    };
    let old = as_field(old.unwrap_or(Value::Unknown), field, &of);
    let new = as_field(last.new_value(), field, &of);
    let is_whole = last.kind.new_cut != Some(true);
    if is_whole && same(&old, &new) == Some(true) && series.after.is_none() && series.count == 1 {
        return None;
    }
    let after = series.after.as_ref().map(|after| &after.put);
    let obstacle = obstacle(field, &old, &new, last, after, now.as_ref())
        .or_else(|| is_other_type(first, last).then_some(Obstacle::OtherType));
    let (rtype, doubt) = (texts.shared(&of.rtype), now.and_then(|now| now.doubt));
    Some(Undo { name, rtype, dbf: of.dbf, value: old, left: new, series, obstacle, doubt })
}

fn obstacle(
    field: &str,
    old: &Value,
    new: &Value,
    last: &KeptPut,
    after: Option<&KeptPut>,
    now: Option<&FieldState>,
) -> Option<Obstacle> {
    if is_command(field) {
        return Some(Obstacle::CommandField);
    }
    if let Some(after) = after {
        return Some(Obstacle::WrittenLater(after.who.user.as_deref().map(str::to_owned)));
    }
    let changed = now.is_some_and(|now| {
        let read_after = now.seen.as_ref().is_some_and(|seen| seen.even >= last.even());
        // of what is known in part, the other may be the whole
        let is_cut = now.seen.as_ref().is_some_and(|seen| seen.cut == Some(true));
        let known = (new, last.kind.new_cut == Some(true));
        read_after && now.is_certain() && agree((&now.value(), is_cut), known) == Some(false)
    });
    if changed {
        // or it is what the put made of it
        return Some(if last.kind.inexact { Obstacle::UnknownAfter } else { Obstacle::ChangedSince });
    }
    match (old, new) {
        (Value::Unknown, _) => Some(Obstacle::UnknownBefore),
        (_, Value::Unknown) => Some(Obstacle::UnknownAfter),
        _ if last.kind.new_cut != Some(false) => Some(Obstacle::PartAfter),
        _ => None,
    }
}

/// Whether the records that two puts went to have different types, or the values that they found can't be of the same
/// type. Arrays of one element may be noted as one.
fn is_other_type(first: &KeptPut, last: &KeptPut) -> bool {
    let is_text = |array: &Array| array.dbf == Dbf::String;
    let types = first.kind.rtype.as_ref().zip(last.kind.rtype.as_ref());
    if types.is_some_and(|(first, last)| first != last) {
        return true;
    }
    match (&first.old_value(), &last.old_value()) {
        (Value::Unknown, _) | (_, Value::Unknown) => false,
        (Value::Array(first), Value::Array(last)) => is_text(first) != is_text(last),
        // a long text (lso, or a field by its name with $) is characters to one client and a string to another
        (Value::Array(Array { dbf: Dbf::Char | Dbf::UChar, .. }), Value::Text(_))
        | (Value::Text(_), Value::Array(Array { dbf: Dbf::Char | Dbf::UChar, .. }))
            if types.is_some() =>
        {
            false
        }
        (Value::Array(array), one) | (one, Value::Array(array)) if types.is_some() => {
            is_text(array) != matches!(one, Value::Text(_))
        }
        (Value::Array(array), _) | (_, Value::Array(array)) => array.count != 1,
        (first, last) => matches!(first, Value::Text(_)) != matches!(last, Value::Text(_)),
    }
}

/// A value in the form of the field: characters of a text are a text. `of`: what the log says of the field.
fn as_field(value: Value, field: &str, of: &Setting) -> Value {
    match is_text(field, of) {
        true => long_text(&value),
        false => value,
    }
}

/// Whether the field is a text, which a client may have written as characters.
fn is_text(field: &str, of: &Setting) -> bool {
    let long = field == "VAL" && matches!(of.rtype.as_str(), "lsi" | "lso" | "printf");
    long || of.dbf.is_some_and(|dbf| dbf == Dbf::String || dbf.is_link())
}
