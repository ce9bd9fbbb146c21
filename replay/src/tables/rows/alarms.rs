//! Rows of alarms.

use super::super::cells::{known, of_value, texts};
use super::super::export::{At, Export};
use super::super::schema::Of;
use super::push_alarm;
use crate::filter::Filter;
use crate::logs::Logs;
use crate::model::alarms::{AlarmLine, Source, Until, What};
use crate::model::enum_strings::{severity_name, status_name};
use crate::wording::put::who;
use std::borrow::Cow;

/// Adds the alarms. Those that still last at the end have had their row when they began.
pub fn add(export: &mut Export, logs: &Logs, filter: &Filter) {
    for line in logs.alarms(filter).with_all() {
        if line.what != What::Still {
            push(export, &line);
        }
        if export.has_failed() {
            return;
        }
    }
}

fn push(export: &mut Export, line: &AlarmLine) {
    let cause = line.cause.as_deref();
    let put = line.put.as_deref().or(cause.and_then(|cause| cause.put.as_deref()));
    let at = At { run: None, time: line.time, host: &line.place.host, ioc: &line.place.ioc };
    export.add(Of::Alarms, at, |row| {
        row.push((&*line.place.record).into());
        row.push(line.what.name().into());
        row.push(line.from.map(|from| severity_name(from.0)).into());
        row.push(line.from.map(|from| status_name(from.1)).into());
        push_alarm(row, line.to);
        row.extend(&of_value(&line.value, line.text.as_deref().map(Cow::from), None));
        row.push(cause.map(|cause| cause.text.text().into_owned()).into());
        row.push(put.map(who).into());
        row.push(put.and_then(|put| put.user.as_deref()).into());
        row.push(put.and_then(|put| put.client_host.as_deref()).into());
        row.push(put.and_then(|put| put.client.as_deref()).into());
        row.push(texts(cause.into_iter().flat_map(|cause| cause.through().iter().map(|name| &**name))));
        row.push(match line.source {
            Source::Process => "process".into(),
            Source::Snapshot => "snapshot".into(),
        });
        row.push(line.lasted.into());
        row.push(line.until.map(Until::name).into());
        row.push(known(line.gap.as_deref().unwrap_or_default()));
        row.push(line.unprocessed.into());
    });
}
