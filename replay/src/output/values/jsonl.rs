//! Values as JSON lines and CSV: the keys.

use super::text::units;
use crate::model::enum_strings::{severity_name, status_name};
use crate::model::history::ValueLine;
use crate::model::value;
use crate::time::Zone;
use crate::wording::origin;
use serde::Serialize;

/// A value as a JSON line. Keys are null where nothing is known.
#[derive(Serialize)]
pub struct Line {
    time: String,
    host: Option<String>,
    ioc: Option<String>,
    pv: Option<String>,
    record: Option<String>,
    field: Option<String>,
    value: serde_json::Value,
    text: Option<String>,
    severity: Option<&'static str>,
    status: Option<&'static str>,
    source: &'static str,
    inexact: bool,
    cut: Option<bool>,
    cause: Option<String>,
    user: Option<String>,
    client: Option<String>,
    root: Option<String>,
    units: Option<String>,
    description: Option<String>,
    precision: Option<i32>,
    stamp: Option<String>,
    unseen: Option<&'static str>,
    since: Option<String>,
    lasts: Option<bool>,
}

/// The line of a value.
pub fn line(line: &ValueLine, zone: &Zone) -> Line {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let properties = line.properties().filter(|_| &*line.field == "VAL");
    let put = line.origin.as_ref().and_then(origin::put);
    Line {
        time: zone.format(line.time, 9),
        host: text(&line.host),
        ioc: text(&line.ioc),
        pv: text(&line.pv()).filter(|_| line.unseen.is_none()),
        record: text(&line.record),
        field: text(&line.field),
        value: value::json(&line.value),
        text: line.text.clone(),
        severity: line.alarm.map(|(severity, _)| severity_name(severity)),
        status: line.alarm.map(|(_, status)| status_name(status)),
        source: line.source.name(),
        inexact: line.inexact,
        cut: line.cut,
        cause: match &line.unseen {
            Some(unseen) => Some(unseen.words()),
            None => line.origin.as_ref().map(origin::cause),
        },
        user: put.as_ref().and_then(|put| put.user.as_deref().map(str::to_owned)),
        client: put.and_then(|put| put.client.as_deref().map(str::to_owned)),
        root: line.origin.as_ref().and_then(origin::began),
        units: units(line),
        description: properties.as_ref().and_then(|properties| text(&properties.description)),
        precision: properties.and_then(|properties| properties.precision),
        stamp: line.stamp.map(|stamp| zone.format(stamp, 9)),
        unseen: line.unseen.as_ref().map(|unseen| unseen.kind.name()),
        since: line.unseen.as_ref().map(|unseen| zone.format(unseen.since, 9)),
        lasts: line.unseen.as_ref().map(|unseen| unseen.open),
    }
}
