//! `iocreplay logs`

use super::command::{Command, Outcome};
use super::options::{
    by_place, by_pv, by_who, reading, selection, since, time_zone, until, with_aliases, ByPlace, ByPv, ByWho,
    Chosen, Reading, Since, TimeZone, Until,
};
use super::sending::{check, report, Sending};
use crate::collector::{Address, Sender};
use crate::failure::{Failure, UsageError};
use crate::happened::Kind;
use crate::nothing_found::{explain, Kind as Asked};
use crate::out::Out;
use crate::output::format::{self, Format};
use crate::output::logs::{find_kind, Batch, Entry, Item, Items, FORMATS};
use crate::terminal::Terminal;
use iocrec_cli::command;
use std::fmt::Display;

command! {
    /// Show all that happened in one order of time: puts, changes of alarms, what IOCs printed, marks, ends of IOCs, and
    /// what was not recorded; or write or send it as log records of OpenTelemetry, those of puts and alarms with the ids of
    /// their spans (see traces).
    #[argh(subcommand, name = "logs")]
    pub struct WhatHappened {
        /// output format: text (default), otlp (OpenTelemetry JSON lines), otlp-proto (one protobuf message) or
        /// otlp-proto-delimited (protobuf messages after their lengths)
        #[argh(option, from_str_fn(parse_format))]
        pub format: Option<&'static Format<Item>>,
        /// only puts, alarms, console, marks, ends or losses; repeatable
        #[argh(option, arg_name = "kind", from_str_fn(find_kind))]
        pub kind: Vec<Kind>,
        /// send to a collector of OpenTelemetry instead, as http://HOST:4318
        #[argh(option, arg_name = "url", from_str_fn(super::sending::parse_address))]
        pub otlp: Option<Address>,
        /// with --otlp, go on after this many records, which were sent before
        #[argh(option, arg_name = "n")]
        pub skip_records: Option<usize>,
    } with since: Since, until: Until, by_pv: ByPv, by_who: ByWho, by_place: ByPlace, time_zone: TimeZone,
        reading: Reading
}

fn parse_format(name: &str) -> Result<&'static Format<Item>, String> {
    format::find(&FORMATS, name).map_err(|error| error.to_string())
}

impl Command for WhatHappened {
    fn reading(&self) -> Reading {
        self.into()
    }

    fn check(&self) -> Result<(), UsageError> {
        check(&Sending {
            address: self.otlp.as_ref(),
            skip: self.skip_records.map(|_| "--skip-records"),
            format: self.format.map(|format| format.name),
            output: self.output.as_deref(),
            has_logs: !self.logs.is_empty(),
        })
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let logs = ByPlace::from(self).open(&self.reading())?;
        let chosen: Chosen = (self.into(), self.into(), self.into(), self.into(), self.into());
        let filter = with_aliases(&logs, selection(&zone, &logs, &chosen)?);
        let every = Kind::ALL.map(|(kind, _)| kind);
        let kinds = if self.kind.is_empty() { &every[..] } else { &self.kind };
        let mut items = Items::of(&logs);
        let all = logs.happened(&filter, kinds).map(|happened| items.item(happened));
        let mut is_empty = true;
        let outcome = if let Some(address) = &self.otlp {
            let tell = |said: &dyn Display| Terminal.report(&said);
            let mut sender: Sender<Batch> = Sender::new(address, self.skip_records.unwrap_or(0), &tell);
            for item in all {
                is_empty = false;
                sender.add(&Entry::from(&item))?;
            }
            report(address, &sender.finish()?, &logs)
        } else {
            let mut writer = (self.format.unwrap_or(&FORMATS[0]).writer)(&zone);
            writer.begin(out)?;
            for item in all {
                is_empty = false;
                writer.write(out, &item)?;
            }
            writer.end(out)?;
            Outcome::from(&logs)
        };
        if is_empty {
            Terminal.report(&explain(Asked::Happened, &logs.without_notices(), &filter, false, &zone));
        }
        Ok(outcome)
    }
}
