//! What the IOCs used of the machine: the rows of `iocreplay health`, as series and as a sentence for each IOC.

use super::collect::places::{Places, NONE};
use crate::answers::resources::SLACK;
use crate::filter::Filter;
use crate::output::health::drawing::{Drawings, Drawn};
use crate::output::health::summary::Summary;
use crate::Logs;
use std::collections::HashMap;
use std::rc::Rc;

/// See the module. IOCs are numbered as on the page.
#[derive(Default)]
pub struct Usage {
    /// The series of each IOC that has any, in the page's order.
    pub drawn: Vec<(u32, Drawn)>,
    /// IOCs that had no room.
    pub left_out: usize,
    /// The sentence of each.
    pub words: HashMap<u32, String>,
    /// First and last time of any of it.
    pub span: Option<(i64, i64)>,
}

/// Reads it. Runs of the recorder that saw the same process are joined; of two beside each other one counts.
pub fn read(logs: &Logs, filter: &Filter, places: &mut Places) -> Usage {
    let (mut drawings, mut summary) = (Drawings::default(), Summary::default());
    let mut span: Option<(i64, i64)> = None;
    // the run that told of an IOC last, and until when
    let mut told: HashMap<u32, (usize, i64)> = HashMap::new();
    for mut row in logs.resources(filter) {
        places.enter(&row.run);
        let number = places.ioc_of(&row.run.context(), row.key.1);
        if number == NONE {
            continue;
        }
        row.key = (0, number);
        // by a clock that goes on where the machine's is set back
        let begun = row.even.saturating_sub_unsigned(row.used.period.saturating_mul(1000));
        let run = Rc::as_ptr(&row.run) as usize;
        let is_told = |(other, until): &(usize, i64)| *other != run && begun < until.saturating_sub(SLACK);
        if told.get(&number).is_some_and(is_told) {
            continue;
        }
        told.insert(number, (run, row.even));
        // a row may begin before the time that is asked for
        let begin = row.since.max(filter.since.unwrap_or(i64::MIN));
        let (first, last) = span.unwrap_or((begin, row.time));
        span = Some((first.min(begin), last.max(row.time)));
        drawings.add(&row);
        summary.add(&row);
    }
    Usage {
        left_out: drawings.left_out(),
        drawn: drawings.drawn().map(|drawn| (drawn.key.1, drawn)).collect(),
        words: summary.words().map(|((_, number), words)| (number, words)).collect(),
        span,
    }
}
