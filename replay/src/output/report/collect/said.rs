//! The last lines that the IOCs printed.

use crate::answers::console::{Console, Row};
use crate::filter::Filter;
use crate::model::asides::Aside;
use std::collections::VecDeque;

/// Lines on the page: what was printed last tells most, and `iocreplay console` has the rest.
const MAX_LINES: usize = 300;

/// See the module.
#[derive(Default)]
pub struct Said {
    console: Console,
    /// The lines, in order of time.
    pub lines: VecDeque<Row>,
    /// Number of lines before them.
    pub more: u64,
}

impl Said {
    /// Takes what was said, in order of time.
    pub fn take(&mut self, aside: &Aside, filter: &Filter) {
        let Some(row) = self.console.aside(aside) else { return };
        if !filter.time(row.time) || !filter.place(&row.host, &row.ioc) {
            return;
        }
        self.lines.push_back(row);
        if self.lines.len() > MAX_LINES {
            self.lines.pop_front();
            self.more += 1;
        }
    }
}
