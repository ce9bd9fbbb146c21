//! Rows of circuits.

use super::super::cells::{known, Cell};
use super::super::export::{At, Export};
use super::super::schema::Of;
use crate::answers::clients::{ClientLine, Clients};
use crate::filter::Filter;
use crate::logs::Logs;
use crate::terminal::Terminal;
use crate::words::counted;
use iocrec_log::event::Origin;

/// Adds the circuits, in the order in which they ended.
pub fn add(export: &mut Export, logs: &Logs, filter: &Filter) {
    let found = Clients::read(logs, filter);
    if found.left_out > 0 {
        let what = counted(found.left_out, "more circuit");
        Terminal.report(&format_args!("{what} left out: there are too many"));
    }
    let mut lines = found.lines(filter);
    lines.sort_by_key(|line| (end(line), line.run, line.circuit));
    for line in &lines {
        push(export, line);
    }
}

/// The time of its row.
fn end(line: &ClientLine) -> i64 {
    line.disconnected.or(line.watched).unwrap_or(line.seen)
}

fn push(export: &mut Export, line: &ClientLine) {
    let at = At { run: Some(line.run), time: end(line), host: &line.host, ioc: &line.ioc };
    export.add(Of::Circuits, at, |row| {
        row.push(line.circuit.into());
        row.push(line.client.as_str().into());
        row.push(line.server.as_str().into());
        row.extend(&[&line.user, &line.client_host, &line.client_ioc, &line.program].map(|text| known(text)));
        row.push(if line.is_pva { "pva" } else { "ca" }.into());
        row.push(Some(i64::from(line.minor)).filter(|minor| *minor > 0).into());
        row.push(match line.origin {
            Origin::Opened => "opened".into(),
            Origin::MidStream => "mid_stream".into(),
            Origin::Memory => "memory".into(),
        });
        row.extend(&[Cell::Int(line.seen), Cell::Int(line.seen)]);
        row.push(line.connected.into());
        row.push(line.disconnected.into());
        row.push(line.ended.name().into());
        row.push(line.how.map(|(reason, _)| reason).into());
        row.push(known(line.how.map_or("", |(_, by)| by)));
        row.extend(&[line.channels, line.puts, line.denied, line.failed, line.unknown].map(Cell::from));
    });
}
