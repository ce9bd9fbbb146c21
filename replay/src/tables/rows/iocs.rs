//! Rows of IOCs.

use super::super::cells::{known, texts, Cell};
use super::super::export::{At, Export};
use super::super::schema::Of;
use crate::answers::inventory::Inventory;
use crate::answers::processes::Processes;
use crate::answers::values::RESTARTED;
use crate::filter::Filter;
use crate::logs::Logs;
use crate::names::linkage_name;
use crate::pods::ContainerKeys;
use crate::reading::ended_unseen::UNSEEN;
use iocrec_log::event::IocId;
use std::collections::HashMap;

/// Adds the IOCs of each run that were recorded in the filter's time range.
pub fn add(export: &mut Export, logs: &Logs, filter: &Filter) {
    let processes = Processes::read(logs);
    for (number, run) in logs.runs().iter().enumerate() {
        let found = Inventory::read(run, logs.notices());
        let begin = run.first().and_then(|file| file.header).map_or(0, |header| header.created_wall);
        let until = logs.end_of(run).unwrap_or(begin);
        push(export, &found, &processes, (number, begin, until), filter);
    }
}

fn push(
    export: &mut Export,
    found: &Inventory,
    processes: &Processes,
    (run, begin, until): (usize, i64, i64),
    filter: &Filter,
) {
    let context = found.context();
    let mut records: HashMap<IocId, u64> = HashMap::new();
    for record in context.records() {
        *records.entry(record.ioc).or_default() += 1;
    }
    let about = context.host();
    for ioc in found.iocs(filter) {
        let process = processes.number(Some(run), context, ioc.id);
        let process = process.and_then(|number| processes.get(number));
        // another run may tell of one that this one did not see
        let own = found.end(ioc.id);
        let seen = own.filter(|end| end.how != UNSEEN);
        let end = seen.or(process.and_then(|process| process.end.as_ref())).or(own);
        let replaced = process.and_then(|process| process.replaced).filter(|_| end.is_none());
        let ended = end.and_then(|end| end.wall);
        let started = context.wall(ioc.start);
        let time = ended.unwrap_or(until);
        let is_before = filter.since.is_some_and(|since| time < since);
        let is_after = filter.until.is_some_and(|until| started.unwrap_or(begin).max(begin) >= until);
        if is_before || is_after {
            continue;
        }
        let at = At { run: Some(run), time, host: found.host().unwrap_or_default(), ioc: &ioc.name };
        let container = context.container(ioc.id).map(|of| ContainerKeys::of(of, found.host()));
        export.add(Of::Iocs, at, |row| {
            let ports = |ports: &[u16]| Cell::Ints(ports.iter().map(|port| i64::from(*port)).collect());
            row.push(ioc.pid.into());
            row.push(started.into());
            row.push(ended.into());
            row.push(match replaced {
                Some(_) => RESTARTED.into(),
                None => known(end.map_or("", |end| end.how.as_str())),
            });
            row.push(known(&ioc.user));
            row.push(known(&ioc.base_version));
            row.push(linkage_name(ioc.linkage).into());
            row.push(ioc.exe.as_str().into());
            row.push(ioc.cwd.as_str().into());
            row.push(texts(ioc.command.iter().map(String::as_str)));
            row.push(ports(&ioc.ca_ports));
            row.push(ports(&ioc.pva_ports));
            row.push(records.get(&ioc.id).copied().unwrap_or(0).into());
            row.push(texts(found.not_probed(ioc)));
            row.push(known(about.map_or("", |host| host.boot_id.as_str())));
            row.push(known(about.map_or("", |host| host.kernel.as_str())));
            row.push(known(about.map_or("", |host| host.arch.as_str())));
            let text =
                |of: fn(&ContainerKeys) -> Option<&str>| known(container.as_ref().and_then(of).unwrap_or(""));
            row.push(text(|of| Some(&of.id)));
            row.push(text(|of| of.runtime));
            row.push(text(|of| of.pod_uid.as_deref()));
            row.push(text(|of| of.pod_name.as_deref()));
            row.push(text(|of| of.podman_pod.as_deref()));
            row.push(text(|of| of.host_name.as_deref()));
        });
    }
}
