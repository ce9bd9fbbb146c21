//! Properties of records: units, precision, limits, description, as the recorder read them, and as puts changed them since.

use super::series::number;
use iocrec_log::event::{AlarmLimit, FieldValue, Limits, Properties, RecordId, Value};
use std::collections::HashMap;
use std::rc::Rc;

/// Approximate size of all properties of a run in bytes; a bound for hostile logs. 100,000 records take 20 MB.
const MAX_BYTES: usize = 64 << 20;
/// Earlier properties of a record that are kept: lines are shown some seconds after their time, and hardly ever more puts
/// to such fields come meanwhile.
const MAX_EARLIER: usize = 8;

/// Properties, and since when they are known, wall-clock time.
type Since = (i64, Rc<Properties>);

/// Those of one record.
struct OfRecord {
    latest: Since,
    /// Those before, the latest last.
    earlier: Vec<Since>,
}

/// The latest properties of each record of a run.
#[derive(Default)]
pub struct Kept {
    of: HashMap<RecordId, OfRecord>,
    bytes: usize,
}

/// Properties of a record of which none are set.
pub fn none(record: RecordId) -> Properties {
    Properties {
        record,
        description: String::new(),
        units: String::new(),
        precision: None,
        display: None,
        control: None,
        lolo: None,
        low: None,
        high: None,
        hihi: None,
    }
}

/// Approximate bytes of properties.
fn size(properties: &Properties) -> usize {
    size_of::<Properties>() + properties.description.len() + properties.units.len()
}

/// These properties after a field got a value; `None` if the field is none of them. A severity that is put tells which alarm
/// limits are in force, but not what they are, so it takes one away or leaves it.
fn with(mut properties: Properties, field: &str, value: &Value) -> Option<Properties> {
    let number = || number(value);
    let set = |limits: &mut Option<Limits>, place: fn(&mut Limits) -> &mut f64| {
        let mut changed = limits.unwrap_or(Limits { low: 0.0, high: 0.0 });
        match number() {
            Some(number) => *place(&mut changed) = number,
            None => return *limits = None,
        }
        *limits = Some(changed).filter(|limits| (limits.low, limits.high) != (0.0, 0.0));
    };
    let limit = |alarm: &mut Option<AlarmLimit>| {
        *alarm = alarm.zip(number()).map(|(alarm, limit)| AlarmLimit { limit, ..alarm });
    };
    let severity = |alarm: &mut Option<AlarmLimit>| {
        let severity = match value {
            Value::Int(severity) => u16::try_from(*severity).ok().filter(|severity| *severity > 0),
            _ => None,
        };
        *alarm = alarm.zip(severity).map(|(alarm, severity)| AlarmLimit { severity, ..alarm });
    };
    match (field, value) {
        ("EGU", Value::Text(text)) => properties.units = String::from_utf8_lossy(text).into_owned(),
        ("DESC", Value::Text(text)) => properties.description = String::from_utf8_lossy(text).into_owned(),
        ("PREC", _) => properties.precision = number().map(|number| number as i32),
        ("LOPR", _) => set(&mut properties.display, |limits| &mut limits.low),
        ("HOPR", _) => set(&mut properties.display, |limits| &mut limits.high),
        ("DRVL", _) => set(&mut properties.control, |limits| &mut limits.low),
        ("DRVH", _) => set(&mut properties.control, |limits| &mut limits.high),
        ("LOLO", _) => limit(&mut properties.lolo),
        ("LOW", _) => limit(&mut properties.low),
        ("HIGH", _) => limit(&mut properties.high),
        ("HIHI", _) => limit(&mut properties.hihi),
        ("LLSV", _) => severity(&mut properties.lolo),
        ("LSV", _) => severity(&mut properties.low),
        ("HSV", _) => severity(&mut properties.high),
        ("HHSV", _) => severity(&mut properties.hihi),
        _ => return None,
    }
    Some(properties)
}

impl Kept {
    /// Keeps what was read at a time, in place of what was known of the record.
    pub fn add(&mut self, wall: i64, properties: &Properties) {
        let known = self.of.get(&properties.record);
        if known.is_some_and(|known| *known.latest.1 == *properties) {
            return; // each segment repeats them
        }
        if self.bytes + size(properties) > MAX_BYTES {
            return;
        }
        self.bytes += size(properties);
        let latest = (wall, Rc::new(properties.clone()));
        let Some(known) = self.of.get_mut(&properties.record) else {
            self.of.insert(properties.record, OfRecord { latest, earlier: Vec::new() });
            return;
        };
        known.earlier.push(std::mem::replace(&mut known.latest, latest));
        if known.earlier.len() > MAX_EARLIER {
            self.bytes -= size(&known.earlier.remove(0).1);
        }
    }

    /// A field of a record had this value at a time.
    pub fn changed(&mut self, wall: i64, field: &str, held: &FieldValue) {
        let known = self.of.get(&held.record).map(|known| (*known.latest.1).clone());
        let is_new = known.is_none();
        let changed = with(known.unwrap_or_else(|| none(held.record)), field, &held.value);
        if let Some(changed) = changed.filter(|changed| !is_new || *changed != none(held.record)) {
            self.add(wall, &changed);
        }
    }

    /// The properties that a record had at a time; before the first that are known, those.
    pub fn of(&self, record: RecordId, wall: i64) -> Option<Rc<Properties>> {
        let known = self.of.get(&record)?;
        let all = || std::iter::once(&known.latest).chain(known.earlier.iter().rev());
        let (_, properties) = all().find(|(since, _)| *since <= wall).or_else(|| all().last())?;
        Some(Rc::clone(properties))
    }
}
