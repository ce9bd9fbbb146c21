//! Values of fields after puts: the result of a put whose record's processing does not show it.
//!
//! The recorder reads a field again some time after a put to it, and the next put to a field holds its value before.
//! Either is the result of the put only if nothing else may have changed the field in between: [`After::alone`] records
//! that.

use super::{Engine, MAX_RECORDS};
use crate::model::chain::After;
use crate::model::links::is_cp;
use crate::model::open_chains::{span_number, SpanRef};
use crate::model::outcome::{is_cut, Source};
use crate::model::{attribute, enum_strings, value};
use crate::time::SECOND;
use iocrec_log::event::{FieldId, FieldValue, Ioc, RecordId, Value};

/// An earlier reading may have been made before `dbPut` wrote: it does so within microseconds, unless the thread is
/// held up. The recorder waits 20 ms.
const SOONEST: u64 = SECOND / 100;
/// A field that still holds its old value may yet change, if the put waits for its record's lock: the recorder reads it
/// once more. From this age on, a reading counts.
const LATE: u64 = SECOND / 4;
/// No reading is later than this: the recorder makes its last one half a second after the put.
const LAST: u64 = 2 * SECOND;
/// Fields of a record whose puts are watched at a time; the oldest are dropped. An operator's screen writes to a
/// handful.
const MAX_FIELDS: usize = 64;

/// Fields of every record that only puts change, whatever its type: neither dbProcess nor the functions that it calls
/// in EPICS Base write to them. (The same holds for links.)
const NOT_PROCESSED: [&str; 11] =
    ["NAME", "DESC", "ASG", "SCAN", "PINI", "PHAS", "EVNT", "DISV", "DISP", "DISS", "PRIO"];

/// Types of EPICS Base of whose fields a put changes one only, if it does not process the record (the .dbd files and
/// record support of 3.14.12, 3.15.9 and 7.0.8). Others, as mbboDirect with its bits, change several.
const SINGLE: [&str; 24] = [
    "ai",
    "ao",
    "aai",
    "aao",
    "bi",
    "bo",
    "calc",
    "calcout",
    "dfanout",
    "event",
    "fanout",
    "int64in",
    "int64out",
    "longin",
    "longout",
    "lsi",
    "lso",
    "mbbi",
    "mbbo",
    "sel",
    "seq",
    "stringin",
    "stringout",
    "waveform",
];

/// The latest put to a field.
pub(super) struct Written {
    field: FieldId,
    time: u64,
    at: SpanRef,
    alone: bool,
    /// Whether the record's processing never changes it.
    settled: bool,
}

impl Engine {
    /// Watches the field of a put: later events show the result.
    pub(super) fn watch(&mut self, time: u64, record: RecordId, at: SpanRef) {
        let Some(put) = self.chains.put(at) else { return };
        let Some(field) = put.field.filter(|_| !attribute::is_attribute(&self.run.context(), put)) else {
            return; // the recorder can't read it
        };
        let names_a_state =
            self.run.context().field(field).is_some_and(|field| enum_strings::names_a_state(&field.name));
        if names_a_state {
            self.run.states_change(time, record);
        }
        if self.written.len() >= MAX_RECORDS && !self.written.contains_key(&record) {
            return;
        }
        let settled = self
            .run
            .context()
            .field(field)
            .is_some_and(|field| field.dbf.is_link() || NOT_PROCESSED.contains(&field.name.as_str()));
        let unseen = self.processes_unseen(record);
        // mostly one field
        let fields = self.written.entry(record).or_insert_with(|| Vec::with_capacity(1));
        fields.retain(|written| written.field != field);
        if fields.len() >= MAX_FIELDS {
            fields.remove(0);
        }
        fields.push(Written { field, time, at, alone: settled || !unseen, settled });
    }

    /// Whether processing of the record may be missing in the log.
    fn processes_unseen(&self, record: RecordId) -> bool {
        let context = self.run.context();
        let ioc = context.record(record).and_then(|record| context.ioc(record.ioc));
        self.run.is_sampled() || ioc.is_some_and(Ioc::leaves_out_processing)
    }

    /// Notes a put to a field of a record: it may change its other fields, too.
    fn disturb_others(&mut self, record: RecordId, field: Option<FieldId>) {
        let Some(fields) = self.written.get_mut(&record) else { return };
        let context = self.run.context();
        let is_single =
            field.is_some() && context.record(record).is_some_and(|of| SINGLE.contains(&of.rtype));
        let others = fields.iter_mut().filter(|written| Some(written.field) != field);
        for written in others.filter(|written| field.is_none() || !is_single && !written.settled) {
            written.alone = false;
        }
    }

    /// Takes the value that a put found in the field: it is the result of the put before.
    pub(super) fn found(&mut self, record: RecordId, field: Option<FieldId>, value: &Value) {
        if !attribute::is_value_of_attribute(&self.run.context(), record, field, value) {
            self.found_watched(record, field, value);
            self.found_in_process(record, field, value);
        }
    }

    /// The put before is watched no more.
    fn found_watched(&mut self, record: RecordId, field: Option<FieldId>, value: &Value) {
        if self.written.is_empty() {
            return;
        }
        self.disturb_others(record, field);
        let (Some(fields), Some(field)) = (self.written.get_mut(&record), field) else { return };
        let Some(place) = fields.iter().position(|written| written.field == field) else { return };
        let Written { at, alone, .. } = fields.remove(place);
        if fields.is_empty() {
            self.written.remove(&record);
        }
        self.note_after(at, value.clone(), alone, Some(self.now));
    }

    /// A record that still processes for an earlier put, or will do so once more, shows at its end what the later put
    /// has written: the value that the later put found is the earlier one's.
    fn found_in_process(&mut self, record: RecordId, field: Option<FieldId>, value: &Value) {
        if !self.open.contains(record) || field.is_none() {
            return;
        }
        let begun_by = self.open.get(record).and_then(|at| {
            let at = self.chains.resolve(*at)?;
            Some(SpanRef { span: span_number(self.chains.span(at)?.parent?), ..at })
        });
        let meanwhile = self.meanwhile.get(&record).copied();
        for at in [begun_by, meanwhile].into_iter().flatten() {
            let Some(put) = self.chains.put(at) else { continue };
            if put.record != Some(record) || put.field != field || !put.wrote {
                continue;
            }
            let after = put.after.as_ref();
            if after.is_none_or(|after| after.overwritten.is_none()) {
                // of a text, the later put shows the beginning only
                let is_beginning = is_cut(value, Source::Head) == Some(true);
                let read = after
                    .map(|read| &read.value)
                    .filter(|read| value::agrees(read, value, is_beginning) == Some(true));
                let alone = read.is_some() && after.is_some_and(|read| read.alone);
                let value = read.unwrap_or(value).clone();
                self.note_after(at, value, alone, Some(self.now));
            }
        }
    }

    /// Takes a reading of a field from the IOC's memory.
    pub(super) fn field_value(&mut self, time: u64, held: FieldValue) {
        let written = self.written.get(&held.record);
        let place = written.and_then(|fields| fields.iter().position(|written| written.field == held.field));
        let Some(place) = place else { return self.link_told(time, &held) };
        let Some(fields) = self.written.get_mut(&held.record) else { return };
        let Some(Written { time: put, at, alone, .. }) = fields.get(place) else { return };
        let (age, at, alone) = (time.saturating_sub(*put), *at, *alone);
        if age < SOONEST {
            return;
        }
        let old = self.chains.put(at).map(|put| &put.old);
        // of a text, the put may have found the beginning only
        let is_same = |old: &Value| value::agrees(&held.value, old, is_cut(old, Source::Head) == Some(true));
        let unchanged = old.and_then(is_same) != Some(false);
        if unchanged && age < LATE {
            return; // not yet, or not at all: the next reading decides
        }
        fields.remove(place);
        if fields.is_empty() {
            self.written.remove(&held.record);
        }
        self.note_after(at, held.value, alone, None);
    }

    /// Takes a reading of a field without a put: a CP link of a record that processes for one, or the room of an array.
    /// Other input links matter to [`crate::answers::inputs`] only.
    fn link_told(&self, time: u64, held: &FieldValue) {
        let is_room = self.run.context().field(held.field).is_some_and(|field| field.name == "NELM");
        let elements = match held.value {
            Value::Int(elements) => u32::try_from(elements).ok(),
            Value::UInt(elements) => u32::try_from(elements).ok(),
            _ => None,
        };
        if let Some(elements) = elements.filter(|_| is_room) {
            self.run.has_room(held.record, elements);
        }
        let is_link = self.run.context().field(held.field).is_some_and(|field| field.dbf.is_link());
        if let Value::Text(text) = &held.value {
            if is_link && is_cp(text) {
                self.run.has_link(time, held.record, held.field, text);
            }
        }
    }

    /// Notes that a record processes, in the chain of `at`, and may change its fields.
    pub(super) fn disturb(&mut self, record: RecordId, at: SpanRef) {
        if self.written.is_empty() {
            return;
        }
        let Some(fields) = self.written.get_mut(&record) else { return };
        let chain = self.chains.resolve(at).map(|at| at.chain);
        for written in fields.iter_mut().filter(|written| !written.settled) {
            written.alone &= chain.is_some() && self.chains.resolve(written.at).map(|at| at.chain) == chain;
        }
    }

    /// Notes that hits are missing since a time: puts and processing may be among them. A loss is reported up to a
    /// second late.
    pub(super) fn disturb_all(&mut self, since: u64) {
        self.written.values_mut().flatten().for_each(|written| written.alone = false);
        for (_, at) in self.judged.iter().filter(|(judged, _)| *judged >= since) {
            if let Some(after) = self.chains.put_mut(*at).and_then(|put| put.after.as_mut()) {
                after.alone = false;
            }
        }
    }

    /// Drops puts that no reading can follow any more, and those that were given out: what is found later comes too late
    /// for them. A reading of a field that only puts change is still told from one of a link.
    pub(super) fn forget_written(&mut self, now: u64) {
        let chains = &self.chains;
        self.written.retain(|_, fields| {
            fields.retain(|written| {
                let is_held = written.settled || chains.resolve(written.at).is_some();
                is_held && written.time.saturating_add(LAST) > now
            });
            !fields.is_empty()
        });
        let is_over = |(judged, at): &(u64, SpanRef)| {
            judged.saturating_add(LAST) <= now || chains.resolve(*at).is_none()
        };
        while self.judged.front().is_some_and(is_over) {
            self.judged.pop_front();
        }
    }

    fn note_after(&mut self, at: SpanRef, value: Value, alone: bool, overwritten: Option<u64>) {
        if value == Value::Unknown {
            return;
        }
        if let Some(put) = self.chains.put_mut(at) {
            put.after = Some(Box::new(After { value, alone, overwritten }));
            self.chains.weigh_again(at);
            if self.judged.len() < MAX_RECORDS {
                self.judged.push_back((self.now, at));
            }
        }
    }
}
