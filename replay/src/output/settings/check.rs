//! What no format can hold.

use crate::model::commands::is_command;
use crate::model::obstacle::Obstacle;
use crate::model::setting::{LeftOut, Setting};
use crate::output::caput::check_name;
use iocrec_log::event::{Array, Dbf, Value};
use std::collections::{HashMap, HashSet};

/// Fields that do something when they are written, beside commands.
const ACTIONS: [&str; 3] = ["RPRO", "ACKS", "ACKT"];

/// Passes each setting to `each`, which writes it or says why it can't. Returns those left out: also all of a name that
/// several IOCs have, since none of the formats says which of them a value is for.
pub fn sort<'a>(
    settings: &'a [Setting],
    mut each: impl FnMut(&'a Setting) -> Result<(), Obstacle>,
) -> Vec<LeftOut> {
    let (mut seen, mut left_out) = (HashSet::new(), Vec::new());
    let of_several = of_several(settings);
    for setting in settings {
        let result = match known(setting) {
            Err(reason) => Err(reason),
            Ok(()) if of_several.contains(setting.record.as_str()) => Err(Obstacle::SeveralIocs),
            Ok(()) if seen.contains(setting.pv.as_str()) => Err(Obstacle::Twice),
            Ok(()) => each(setting),
        };
        match result {
            Ok(()) => _ = seen.insert(setting.pv.as_str()),
            Err(reason) => left_out.push(LeftOut { pv: setting.pv.clone(), reason }),
        }
    }
    left_out
}

/// Records with values of different IOCs.
fn of_several(settings: &[Setting]) -> HashSet<&str> {
    let (mut places, mut several) = (HashMap::new(), HashSet::new());
    for setting in settings.iter().filter(|setting| setting.value != Value::Unknown) {
        let place = (&setting.host, &setting.ioc, setting.process);
        if *places.entry(setting.record.as_str()).or_insert(place) != place {
            several.insert(setting.record.as_str());
        }
    }
    several
}

/// Whether the value can be restored at all.
fn known(setting: &Setting) -> Result<(), Obstacle> {
    check_name(&setting.pv)?;
    match &setting.value {
        Value::Unknown => return Err(Obstacle::Unknown),
        Value::Array(Array { dbf, count, bytes }) => {
            let held = bytes.len() / dbf.size().max(1);
            if setting.cut == Some(true) || usize::try_from(*count).is_ok_and(|count| held < count) {
                return Err(Obstacle::Part);
            }
        }
        _ if setting.cut == Some(true) => return Err(Obstacle::Part),
        _ => {}
    }
    if setting.inexact {
        return Err(Obstacle::Uncertain);
    }
    if ACTIONS.contains(&setting.field.as_str()) || is_command(&setting.field) {
        return Err(Obstacle::Command);
    }
    Ok(())
}

/// Whether the value is a text that may be longer than a string field.
pub fn is_long_text(setting: &Setting) -> bool {
    setting.field == "VAL" && matches!(setting.rtype.as_str(), "lsi" | "lso" | "printf")
}

/// Whether the value is an array, even if it has one element.
pub fn is_array_record(setting: &Setting) -> bool {
    setting.field == "VAL" && matches!(setting.rtype.as_str(), "waveform" | "aai" | "aao" | "subArray")
}

/// The text of a string field, or of a long string; `None` if it is none.
pub fn text(setting: &Setting) -> Option<&[u8]> {
    match &setting.value {
        Value::Text(text) => Some(text),
        Value::Array(Array { dbf: Dbf::Char | Dbf::UChar, bytes, .. }) if is_long_text(setting) => {
            Some(iocrec_log::value::until_nul(bytes))
        }
        _ => None,
    }
}

/// Whether a number of this field stands for a text.
pub fn is_enum(setting: &Setting) -> bool {
    matches!(setting.dbf, Some(Dbf::Enum | Dbf::Menu | Dbf::Device))
        || setting.dbf.is_none() && (setting.text.is_some() || !setting.labels.is_empty())
}

/// The label of an enum, if no other state before it has the same.
pub fn label(setting: &Setting) -> Result<&str, Obstacle> {
    let label = setting.text.as_deref().filter(|text| !text.is_empty()).ok_or(Obstacle::StateWithoutName)?;
    let index = match &setting.value {
        Value::Int(number) => usize::try_from(*number).ok(),
        Value::UInt(number) => usize::try_from(*number).ok(),
        _ => None,
    };
    let first = setting.labels.iter().position(|one| one == label);
    match first.is_some() && first != index {
        true => Err(Obstacle::StateNamedTwice),
        false => Ok(label),
    }
}
