//! Rows of what IOCs used of the machine.

use super::super::cells::Cell;
use super::super::export::{At, Export};
use super::super::schema::Of;
use crate::answers::resources::Row;
use crate::filter::Filter;
use crate::logs::Logs;

/// Adds each while that was recorded.
pub fn add(export: &mut Export, logs: &Logs, filter: &Filter) {
    for found in logs.resources(filter) {
        push(export, &found);
        if export.has_failed() {
            return;
        }
    }
}

fn push(export: &mut Export, found: &Row) {
    let run = found.run.peers().map(|(_, number)| number);
    let used = &found.used;
    let serves = found.serves();
    let at = At { run, time: found.time, host: &found.host, ioc: &found.ioc };
    export.add(Of::Health, at, |row| {
        row.push(found.pid.into());
        row.extend(&[Cell::Int(found.since), Cell::Int(found.since)]);
        row.push(found.percent(used.cpu).into());
        row.push(found.percent(used.waiting).into());
        row.push(found.resident().into());
        row.push(used.minor_faults.into());
        row.push(used.major_faults.into());
        row.push(used.threads.into());
        row.push(used.descriptors.into());
        row.push(used.udp_drops.into());
        row.push(serves.map(|count| count.clients).into());
        row.push(serves.map(|count| count.channels).into());
    });
}
