//! Rows of puts.

use super::super::cells::{of_value, Cell};
use super::super::encoder::Row;
use super::super::export::{At, Export};
use super::super::schema::Of;
use super::chain::run;
use crate::filter::Filter;
use crate::model::chain::Chain;
use crate::model::putlog::{each_put_told, PutLine};
use crate::output::puts::detail;
use std::borrow::Cow;

/// Adds the puts of a chain.
pub fn add(export: &mut Export, filter: &Filter, chain: &Chain, id: &str) {
    let own = chain.run.host();
    each_put_told(chain, &mut |put, is_outside| {
        if !filter.put(&put) {
            return;
        }
        let host = put.host.as_deref().unwrap_or_default();
        // One that a CA link led to may be another host's.
        let run = run(chain).filter(|_| host == own);
        let at = At { run, time: put.time, host, ioc: put.ioc.as_deref().unwrap_or_default() };
        export.add(Of::Puts, at, |row| push(row, id, &put, is_outside));
    });
}

fn push<'a>(row: &mut Row, id: &'a str, put: &'a PutLine, is_outside: bool) {
    let text = |text: Option<&'a str>| Cell::from(text);
    let state = |text: &'a Option<String>| text.as_deref().map(Cow::from);
    row.push(id.into());
    row.extend(&[&put.pv, &put.record, &put.field].map(|text| Cell::from(text.as_deref())));
    row.extend(
        &[&put.rtype, &put.user, &put.client_host, &put.client, &put.server].map(|of| text(of.as_deref())),
    );
    row.push(put.via.name().into());
    row.push(is_outside.into());
    let has_type = !put.dbr.is_empty();
    row.push(text(has_type.then_some(&*put.dbr)));
    row.push(has_type.then_some(put.count).into());
    row.extend(&of_value(&put.requested, None, put.requested_cut));
    row.extend(&of_value(&put.old, state(&put.old_text), put.old_cut));
    row.extend(&of_value(&put.new, state(&put.new_text), put.new_cut));
    row.push(put.inexact.into());
    row.push((&*put.status).into());
    row.push(put.pva.as_ref().and_then(|pva| pva.message.as_deref()).into());
    row.push(put.callback_ms.into());
    row.push(text(put.thread.as_deref()));
    row.push(put.source.into());
    row.push(text(put.cause_record.as_deref()));
    row.push(text(put.client_ioc.as_deref()));
    row.push(put.protocol.into());
    row.push(put.pva.as_ref().map(|pva| pva.request).into());
    let process = put.process.as_deref();
    let only = process.and_then(|process| process.only());
    row.push(process.and_then(|process| process.host.as_deref()).into());
    row.push(only.map(|only| only.of.pid).into());
    row.push(only.map(|only| only.of.program.as_str()).into());
    row.push(only.map(|only| only.of.user.as_str()).into());
    row.push(put.pva.as_ref().map(|_| detail(put)).into());
}
