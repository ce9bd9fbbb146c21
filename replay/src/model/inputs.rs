//! The input links of a record at a time, by what the recorder noted of them.
//!
//! With each snapshot the recorder notes all input links of a record that are no constants, at one time; SDIS and TSEL
//! are always among them, which tells that these are all. Readings after puts and the CP links that the recorder notes
//! in between lack these two, and say nothing of the others. Links noted later were the same before, as long as no put
//! has changed one; after a put they are unknown until they are noted again.

use super::value;
use epics::pv::link_target;
use iocrec_log::event::{Dbf, Value};

/// Input links of one record; a bound for hostile logs. No record type of EPICS Base has more than 30.
pub const MAX_LINKS: usize = 256;

/// Where an input comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum From {
    /// A PV.
    Pv(String),
    /// A device, by the text behind `@`.
    Device(String),
    /// A link in JSON that names no PV that can be told.
    Json(String),
    /// Hardware by an address, whose text is not in the log.
    Hardware,
}

/// An input link that is no constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its field.
    pub field: String,
    /// Its text as caget shows it; `None` if that is not in the log.
    pub text: Option<String>,
    /// Where it leads.
    pub from: From,
}

/// The inputs of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inputs {
    /// The links that are no constants, but SDIS and TSEL: these decide whether and with which time it processes.
    pub links: Vec<Input>,
    /// Its device support, if it has a choice.
    pub device: Option<String>,
}

/// What is known of the inputs of a record at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// All of them.
    All(Inputs),
    /// A put changed one of the links, and they were not noted between that and the time.
    Changed,
    /// They were never noted.
    No,
}

/// What was noted at one time.
#[derive(Clone, Debug, Default)]
struct Noted {
    time: i64,
    fields: Vec<(String, Option<String>)>,
    device: Option<String>,
}

impl Noted {
    /// Whether these are all input links.
    fn is_whole(&self) -> bool {
        is_whole(self.fields.iter().map(|(field, _)| field.as_str()))
    }

    fn inputs(&self) -> Inputs {
        let link = |(field, text): &(String, Option<String>)| Input::of(field, text.as_deref());
        Inputs { links: self.fields.iter().filter_map(link).collect(), device: self.device.clone() }
    }
}

/// Whether the input links of a record that were noted together, by these fields, are all that it has.
pub fn is_whole<'a>(fields: impl Iterator<Item = &'a str> + Clone) -> bool {
    ["SDIS", "TSEL"].iter().all(|name| fields.clone().any(|field| field == *name))
}

impl Input {
    /// The input that a field with this text is; `None` if it is a constant, and for SDIS and TSEL.
    pub fn of(field: &str, text: Option<&str>) -> Option<Input> {
        if matches!(field, "SDIS" | "TSEL") {
            return None;
        }
        Some(Input { field: field.to_owned(), text: text.map(str::to_owned), from: from(text)? })
    }
}

/// The text of a link that was read; `None` if that is not in the log.
pub fn text_of(held: &Value) -> Option<String> {
    let Value::Text(text) = held else { return None };
    let mut lossy = String::new();
    value::push_lossy(&mut lossy, text);
    Some(lossy)
}

/// Where a link of this text leads; `None` if it is a constant.
fn from(text: Option<&str>) -> Option<From> {
    let Some(text) = text.map(str::trim) else { return Some(From::Hardware) };
    if let Some(device) = text.strip_prefix('@') {
        return Some(From::Device(device.to_owned()));
    }
    if text.starts_with('{') {
        let pv = serde_json::from_str::<serde_json::Value>(text).ok().and_then(|link| {
            let pva = link.get("pva")?;
            pva.as_str().or(pva.get("pv").and_then(|pv| pv.as_str())).map(str::to_owned)
        });
        return Some(pv.map_or_else(|| From::Json(text.to_owned()), From::Pv));
    }
    let target = link_target(text);
    (!target.is_empty()).then(|| From::Pv(target.to_owned()))
}

/// Finds the inputs of one record at one time. Takes what a log holds of that record, in any order but for the fields
/// that were noted together.
#[derive(Debug)]
pub struct Search {
    time: i64,
    current: Noted,
    /// The last ones noted by the time, and the first ones noted later.
    before: Option<Noted>,
    after: Option<Noted>,
    /// The last change by the time, and the first one later.
    changed: (Option<i64>, Option<i64>),
}

impl Search {
    /// Finds the inputs at this wall-clock time.
    pub fn at(time: i64) -> Search {
        Search { time, current: Noted::default(), before: None, after: None, changed: (None, None) }
    }

    /// Takes a field that was read: its name, type, value, and the word for that if it is an index.
    pub fn field(&mut self, time: i64, name: &str, dbf: Dbf, held: &Value, word: Option<&str>) {
        if self.current.time != time {
            self.close();
            self.current.time = time;
        }
        if dbf == Dbf::Device && name == "DTYP" {
            self.current.device = word.map(str::to_owned);
        }
        if dbf == Dbf::InLink && self.current.fields.len() < MAX_LINKS {
            self.current.fields.push((name.to_owned(), text_of(held)));
        }
    }

    /// Takes a put to one of its links.
    pub fn change(&mut self, time: i64) {
        let (by, later) = &mut self.changed;
        if time <= self.time {
            *by = (*by).max(Some(time));
        } else {
            *later = Some(later.map_or(time, |later| later.min(time)));
        }
    }

    fn close(&mut self) {
        let noted = std::mem::take(&mut self.current);
        if !noted.is_whole() {
            return;
        }
        if noted.time <= self.time {
            if self.before.as_ref().is_none_or(|before| before.time <= noted.time) {
                self.before = Some(noted);
            }
        } else if self.after.as_ref().is_none_or(|after| after.time > noted.time) {
            self.after = Some(noted);
        }
    }

    /// When all of them were last noted by the time.
    pub fn last_noted(&mut self) -> Option<i64> {
        self.close();
        self.before.as_ref().map(|noted| noted.time)
    }

    /// Whether a put is known to have changed one by the time, since they were noted.
    pub fn is_changed(&mut self) -> bool {
        let noted = self.last_noted();
        self.changed.0.is_some_and(|by| noted.is_none_or(|noted| by >= noted))
    }

    /// What is known.
    pub fn known(mut self) -> Known {
        self.close();
        let noted = self.before.is_some() || self.after.is_some();
        let (by, later) = self.changed;
        let before = self.before.filter(|before| by.is_none_or(|by| by < before.time));
        let after = self.after.filter(|after| later.is_none_or(|later| later > after.time));
        match before.or(after) {
            Some(found) => Known::All(found.inputs()),
            None if noted => Known::Changed,
            None => Known::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes links at a time.
    fn note(search: &mut Search, time: i64, links: &[(&str, &str)]) {
        for (field, text) in links {
            search.field(time, field, Dbf::InLink, &Value::Text(text.as_bytes().to_vec()), None);
        }
    }

    const WHOLE: [(&str, &str); 3] = [("SDIS", ""), ("TSEL", ""), ("INPA", "A:B.HIHI CP MS")];

    fn names(known: &Known) -> Vec<&str> {
        let Known::All(inputs) = known else { return Vec::new() };
        inputs.links.iter().map(|link| link.field.as_str()).collect()
    }

    #[test]
    fn only_what_was_noted_whole_counts() {
        let mut search = Search::at(50);
        note(&mut search, 10, &[("INPA", "A:B CP NMS")]);
        note(&mut search, 20, &[("SDIS", "A:C CP NMS"), ("INPA", "A:B CP NMS")]);
        assert_eq!(search.known(), Known::No, "an older recorder's, or readings after puts");
        let mut search = Search::at(50);
        note(&mut search, 10, &WHOLE);
        search.field(10, "DTYP", Dbf::Device, &Value::UInt(2), Some("Soft Timestamp"));
        note(&mut search, 20, &[("INPB", "A:B CP NMS")]);
        let link = Input {
            field: "INPA".into(),
            text: Some("A:B.HIHI CP MS".into()),
            from: From::Pv("A:B.HIHI".into()),
        };
        let inputs = Inputs { links: vec![link], device: Some("Soft Timestamp".into()) };
        assert_eq!(search.known(), Known::All(inputs));
    }

    #[test]
    fn a_put_to_a_link_makes_them_unknown_until_they_are_noted_again() {
        let with = |time, changes: &[i64], noted: &[(i64, &str)]| {
            let mut search = Search::at(time);
            changes.iter().for_each(|change| search.change(*change));
            for (at, field) in noted {
                note(&mut search, *at, &[("SDIS", ""), ("TSEL", ""), (field, "X PP MS")]);
            }
            search.known()
        };
        assert_eq!(names(&with(5, &[], &[(10, "INPA")])), ["INPA"], "it was the same before");
        assert_eq!(with(5, &[7], &[(10, "INPA")]), Known::Changed);
        assert_eq!(with(15, &[12], &[(10, "INPA")]), Known::Changed);
        assert_eq!(names(&with(15, &[12], &[(10, "INPA"), (20, "INPB")])), ["INPB"]);
        assert_eq!(with(15, &[12, 18], &[(10, "INPA"), (20, "INPB")]), Known::Changed);
        assert_eq!(names(&with(30, &[12], &[(10, "INPA"), (20, "INPB")])), ["INPB"]);
        assert_eq!(with(30, &[], &[]), Known::No);
    }

    #[test]
    fn texts_of_links() {
        let pv = |name: &str| Some(From::Pv(name.to_owned()));
        assert_eq!(from(Some("A:B.C NPP MS")), pv("A:B.C"));
        assert_eq!(from(Some("@asyn(P1 0)x")), Some(From::Device("asyn(P1 0)x".into())));
        assert_eq!(from(None), Some(From::Hardware));
        assert_eq!(from(Some("  ")), None, "a constant");
        assert_eq!(from(Some("{\"pva\":\"A:B\"}")), pv("A:B"));
        assert_eq!(
            from(Some("{pva:{pv:'A'}}")),
            Some(From::Json("{pva:{pv:'A'}}".into())),
            "not strict JSON"
        );
        assert_eq!(from(Some("{\"pva\":{\"pv\":\"A:C\",\"proc\":true}}")), pv("A:C"));
        assert_eq!(from(Some("{\"const\":3}")), Some(From::Json("{\"const\":3}".into())));
    }
}
