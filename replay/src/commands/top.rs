//! `iocreplay top`

use super::command::{Command, Outcome};
use super::options::{
    by_place, by_pv, by_who, reading, selection, since, time_zone, until, with_aliases, ByPlace, ByPv, ByWho,
    Chosen, Reading, Since, TimeZone, Until,
};
use crate::failure::Failure;
use crate::nothing_found::{explain, Kind};
use crate::out::Out;
use crate::output::format::{self, Format};
use crate::output::top::{self, Section, TopLine, FORMATS};
use crate::terminal::Terminal;
use iocrec_cli::command;

command! {
    /// Show what runs most: records by rate and by time, chains by time, users and clients by puts, PVs that clients
    /// fight over, loops that feed themselves.
    #[argh(subcommand, name = "top")]
    pub struct Top {
        /// only one table: records (by rate), time, chains, users, clients, fights or loops
        #[argh(option, arg_name = "table", from_str_fn(parse_section))]
        pub by: Option<Section>,
        /// rows of each table (default 10; 0: all)
        #[argh(option, short = 'n', arg_name = "rows", default = "10")]
        pub rows: usize,
        /// output format: text (default), jsonl (a JSON object for each row) or csv
        #[argh(option, default = "&FORMATS[0]", from_str_fn(parse_format))]
        pub format: &'static Format<TopLine>,
    } with since: Since, until: Until, by_pv: ByPv, by_who: ByWho, by_place: ByPlace, time_zone: TimeZone,
        reading: Reading
}

fn parse_format(name: &str) -> Result<&'static Format<TopLine>, String> {
    format::find(&FORMATS, name).map_err(|error| error.to_string())
}

fn parse_section(name: &str) -> Result<Section, String> {
    Section::find(name).ok_or_else(|| {
        let names: Vec<&str> = Section::ALL.iter().map(|section| section.name()).collect();
        format!("unknown table '{name}'; choose one of {}", names.join(", "))
    })
}

/// What is said of an empty table where others are not.
fn none_of(section: Section) -> Option<&'static str> {
    match section {
        Section::Records | Section::Time | Section::Chains => None,
        Section::Users | Section::Clients => Some("no put by a client matches; iocreplay puts --all has those of links"),
        Section::Fights => {
            Some("no PV was fought over: no two clients overwrote each other's value twice or more, within a minute each time")
        }
        Section::Loops => Some("no loop was seen: no records made each other process again and again"),
    }
}

impl Command for Top {
    fn reading(&self) -> Reading {
        self.into()
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let logs = ByPlace::from(self).open(&self.reading())?;
        let chosen: Chosen = (self.into(), self.into(), self.into(), self.into(), self.into());
        let filter = with_aliases(&logs, selection(&zone, &logs, &chosen)?);
        logs.report_recorded_twice(&filter);
        let tables = top::Tables::read(&logs, &filter);
        let rows = if self.rows == 0 { usize::MAX } else { self.rows };
        let mut writer = (self.format.writer)(&zone);
        let mut is_empty = true;
        writer.begin(out)?;
        for section in Section::ALL.into_iter().filter(|section| self.by.is_none_or(|by| by == *section)) {
            for line in tables.lines(section, rows) {
                is_empty = false;
                writer.write(out, &line)?;
            }
        }
        writer.end(out)?;
        // of what was asked for there may be everything but this
        let has_others = || Section::ALL.into_iter().any(|section| !tables.lines(section, 1).is_empty());
        let none = self.by.and_then(none_of).filter(|_| is_empty && has_others());
        if let Some(none) = none {
            Terminal.report(&none);
        } else if is_empty {
            Terminal.report(&explain(Kind::Chains, &logs.without_notices(), &filter, false, &zone));
        }
        if (!is_empty || none.is_some()) && tables.is_minimum() {
            Terminal.report(
                &"parts of these logs are missing or were left out (iocreplay info): counts are minima",
            );
        }
        Ok(Outcome::from(&logs))
    }
}
