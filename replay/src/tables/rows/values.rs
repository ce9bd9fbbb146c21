//! Rows of values.

use super::super::cells::{of_value, Cell};
use super::super::export::{At, Export};
use super::super::schema::Of;
use super::{chain, push_alarm};
use crate::filter::Filter;
use crate::model::chain::Chain;
use crate::model::history::ValueLine;
use crate::output::values::units;
use std::borrow::Cow;
use std::rc::Rc;

/// Makes the rows.
#[derive(Default)]
pub struct Rows {
    /// The chain of the last one, and its id: mostly there are several values of a chain in a row.
    last: Option<(Rc<Chain>, String)>,
}

impl Rows {
    /// Adds a value.
    pub fn add(&mut self, export: &mut Export, filter: &Filter, line: &ValueLine) {
        let chain = line.origin.as_ref().map(|origin| &origin.chain);
        if let Some(chain) =
            chain.filter(|chain| !self.last.as_ref().is_some_and(|last| Rc::ptr_eq(&last.0, chain)))
        {
            self.last = Some((Rc::clone(chain), chain::id(chain)));
        }
        let id = self.last.as_ref().filter(|_| chain.is_some()).map(|(_, id)| id.as_str());
        add(export, filter, line, (chain.map(|chain| &**chain), id));
    }
}

fn add(export: &mut Export, filter: &Filter, line: &ValueLine, (chain, id): (Option<&Chain>, Option<&str>)) {
    let is_named = filter.pv.is_empty() || line.is_named(&filter.pv);
    if line.unseen.is_some() || !is_named {
        return;
    }
    if filter.asks_who() && !chain.is_some_and(|chain| chain::is_by(filter, chain)) {
        return;
    }
    let of = line.of.as_ref().and_then(|of| of.run.peers()).map(|(_, number)| number);
    let at = At { run: of, time: line.time, host: &line.host, ioc: &line.ioc };
    export.add(Of::Values, at, |row| {
        row.push(id.into());
        row.push(match &*line.field {
            "VAL" => (&*line.record).into(),
            _ => line.pv().into(),
        });
        row.push((&*line.record).into());
        row.push((&*line.field).into());
        row.extend(&of_value(&line.value, line.text.as_deref().map(Cow::from), line.cut));
        push_alarm(row, line.alarm);
        row.push(line.source.name().into());
        row.push(line.inexact.into());
        row.push(line.stamp.map(Cell::Int).unwrap_or(Cell::Null));
        row.push(units(line).into());
    });
}
