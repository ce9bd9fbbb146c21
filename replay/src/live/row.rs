//! What happened, of any kind, and all kinds in the order of time.

use super::notes::{Kind, Note};
use crate::answers::console::Row as ConsoleRow;
use crate::answers::happened::{Happened, Kind as Sort, LeftOut, What as Happening};
use crate::answers::resources::Row as Used;
use crate::filter::Filter;
use crate::follow::Timed;
use crate::logs::Logs;
use crate::model::alarms::{AlarmLine, What};
use crate::model::chain::Chain;
use crate::model::open_chains::LIMIT;
use crate::model::putlog::PutLine;
use std::iter::Peekable;

/// Kinds of what is shown, by their names for `--what`.
pub const KINDS: [&str; 7] = ["puts", "alarms", "deaths", "hangs", "console", "losses", "marks"];

/// What is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted(u16);

/// What is sent, not shown: chains; marks, ends and losses as log records have them; what IOCs used, and chains that were
/// left out.
const CHAINS: u16 = 1 << 7;
const EVENTS: u16 = 1 << 8;
const MEASURED: u16 = 1 << 9;
/// Puts and alarms with the ids of their spans.
const IDS: u16 = 1 << 10;

impl Wanted {
    /// Everything that can be shown.
    pub const ALL: Wanted = Wanted(CHAINS - 1);

    /// Reads names with commas between them.
    ///
    /// # Errors
    /// One of them is no kind.
    pub fn parse(text: &str) -> Result<Wanted, String> {
        text.split(',').map(str::trim).try_fold(Wanted(0), |Wanted(all), name| {
            let place = KINDS.iter().position(|kind| *kind == name);
            place.map(|place| Wanted(all | 1 << place)).ok_or_else(|| {
                format!("'{name}' is nothing that can be followed; name some of {}", KINDS.join(","))
            })
        })
    }

    /// These and those.
    pub fn and(self, other: Wanted) -> Wanted {
        Wanted(self.0 | other.0)
    }

    /// What traces are made of.
    pub const TRACES: Wanted = Wanted(CHAINS);

    /// What log records are made of: puts, alarms and lines, too.
    pub const LOGS: Wanted = Wanted(0b10011 | EVENTS | IDS);

    /// What metrics are made of: alarms and lines, too.
    pub const METRICS: Wanted = Wanted(0b10010 | CHAINS | EVENTS | MEASURED);

    /// Whether a kind is wanted.
    pub fn has(self, kind: &str) -> bool {
        KINDS.iter().position(|known| *known == kind).is_some_and(|place| self.0 & 1 << place != 0)
    }

    fn has_all(self, of: u16) -> bool {
        self.0 & of == of
    }
}

/// What happened.
pub enum Row {
    /// A put from outside.
    Put(Box<PutLine>),
    /// A change of an alarm, or an acknowledgement.
    Alarm(Box<AlarmLine>),
    /// A line that an IOC printed.
    Console(Box<ConsoleRow>),
    /// What the recorder noted.
    Note(Box<Note>),
    /// A chain.
    Chain(Box<Chain>),
    /// A mark, an end or a loss, for log records and metrics.
    Event(Box<Happened>),
    /// What an IOC used.
    Used(Box<Used>),
    /// Chains that were left out.
    LeftOut(Box<LeftOut>),
}

impl Row {
    /// Its kind, by the name for `--what`; what is only sent has none.
    pub fn kind(&self) -> &'static str {
        match self {
            Row::Put(_) => "puts",
            Row::Alarm(_) => "alarms",
            Row::Console(_) => "console",
            Row::Chain(_) | Row::Event(_) | Row::Used(_) | Row::LeftOut(_) => "",
            Row::Note(note) => match note.kind {
                Kind::Death => "deaths",
                Kind::Hang => "hangs",
                Kind::Loss => "losses",
                Kind::Mark => "marks",
            },
        }
    }
}

impl Timed for Row {
    fn time(&self) -> i64 {
        match self {
            Row::Put(put) => put.time(),
            Row::Alarm(alarm) => alarm.time(),
            Row::Console(line) => line.time(),
            Row::Note(note) => note.time,
            Row::Chain(chain) => chain.time(),
            Row::Event(event) => event.time,
            Row::Used(row) => row.time,
            Row::LeftOut(left) => left.time,
        }
    }

    fn even(&self) -> i64 {
        match self {
            Row::Put(put) => put.even(),
            Row::Alarm(alarm) => alarm.even(),
            Row::Console(line) => line.even(),
            Row::Note(note) => note.even,
            Row::Chain(chain) => chain.even(),
            Row::Event(event) => event.even,
            Row::Used(row) => row.even,
            Row::LeftOut(left) => left.even,
        }
    }

    fn name(&self) -> String {
        // the host is the first line
        let mut name = match self {
            Row::Put(put) => put.name(),
            Row::Alarm(alarm) => alarm.name(),
            Row::Console(line) => line.name(),
            Row::Note(note) => format!("{}\n{:?}\n{}", note.host, note.pid, note.text),
            Row::Chain(chain) => chain.name(),
            Row::Event(event) => match &event.what {
                // the numbers of runs in it change
                Happening::Unrecorded(_) => format!("{}\nunrecorded", event.host),
                what => format!("{}\n{:?}\n{what:?}", event.host, event.pid),
            },
            Row::Used(row) => format!("{}\n{:?}\nused", row.host, row.pid),
            Row::LeftOut(left) => format!("{}\n{:?}\n{} left out", left.host, left.pid, left.record),
        };
        name.push('\n');
        name.push_str(self.kind());
        name
    }
}

/// Rows of some kinds in the order of time, and the next of them.
type Source<'a> = Peekable<Box<dyn Iterator<Item = Row> + 'a>>;

fn source<'a>(rows: impl Iterator<Item = Row> + 'a) -> Source<'a> {
    let rows: Box<dyn Iterator<Item = Row> + 'a> = Box::new(rows);
    rows.peekable()
}

/// Passes on what is wanted and matches, in the order of time.
///
/// # Errors
/// Those of `each`.
pub fn rows<E>(
    logs: &Logs,
    filter: &Filter,
    wanted: Wanted,
    each: &mut dyn FnMut(Row) -> Result<(), E>,
) -> Result<(), E> {
    let mut sources: Vec<Source> = Vec::new();
    // what can't be read is reported once
    let quiet = logs.without_notices();
    let mut logs = logs;
    if wanted.has("puts") {
        let logs = std::mem::replace(&mut logs, &quiet);
        let puts = logs.puts(filter);
        let puts = if wanted.has_all(IDS) { puts.with_ids() } else { puts };
        sources.push(source(puts.map(|put| Row::Put(Box::new(put)))));
    }
    if wanted.has("alarms") {
        let logs = std::mem::replace(&mut logs, &quiet);
        let is_news =
            |line: &AlarmLine| matches!(line.what, What::Change | What::Acknowledged) && !line.unprocessed;
        let alarms = logs.alarms(filter).with_all();
        let alarms = if wanted.has_all(IDS) { alarms.with_ids() } else { alarms };
        sources.push(source(alarms.filter(is_news).map(|alarm| Row::Alarm(Box::new(alarm)))));
    }
    if wanted.has("console") {
        let logs = std::mem::replace(&mut logs, &quiet);
        sources.push(source(logs.console(filter).map(|line| Row::Console(Box::new(line)))));
    }
    if ["deaths", "hangs", "losses", "marks"].iter().any(|kind| wanted.has(kind)) {
        let notes = logs.notes(filter).into_iter().map(|note| Row::Note(Box::new(note)));
        sources.push(source(notes.filter(move |note| wanted.has(note.kind()))));
    }
    if wanted.has_all(CHAINS) {
        let limit = i64::try_from(LIMIT).unwrap_or(i64::MAX);
        let ends = logs.ends();
        let is_over = move |chain: &Chain| {
            let overdue = |end: &i64| chain.even() < end.saturating_sub(limit);
            !chain.open || ends.get(&chain.run.host()).is_none_or(overdue)
        };
        sources.push(source(logs.chains(filter).filter(is_over).map(|chain| Row::Chain(Box::new(chain)))));
    }
    if wanted.has_all(EVENTS) {
        let events = quiet.happened(filter, &[Sort::Marks, Sort::Ends, Sort::Losses]);
        sources.push(source(events.map(|event| Row::Event(Box::new(event)))));
    }
    if wanted.has_all(MEASURED) {
        sources.push(source(quiet.resources(filter).map(|row| Row::Used(Box::new(row)))));
        sources.push(source(quiet.left_out(filter).map(|left| Row::LeftOut(Box::new(left)))));
    }
    loop {
        let next = |(place, rows): (usize, &mut Source)| {
            let row: &Row = rows.peek()?;
            Some((row.even(), place))
        };
        let Some((_, place)) = sources.iter_mut().enumerate().filter_map(next).min() else { return Ok(()) };
        if let Some(row) = sources.get_mut(place).and_then(Iterator::next) {
            each(row)?;
        }
    }
}
