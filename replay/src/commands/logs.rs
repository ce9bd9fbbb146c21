//! `iocreplay logs`

use super::alarms::Known;
use super::command::{Command, Outcome};
use super::options::{
    by_place, by_pv, by_who, growing, reading, selection, since, time_zone, until, with_aliases, ByPlace,
    ByPv, ByWho, Chosen, Growing, Reading, Since, TimeZone, Until,
};
use super::sending::Sending;
use crate::answers::happened::{AllHappened, Happened, Kind, What};
use crate::collector::Address;
use crate::failure::{Failure, UsageError};
use crate::filter::Filter;
use crate::follow::{follow, Timed};
use crate::nothing_found::Kind as Asked;
use crate::out::Out;
use crate::output::format::{self, Format};
use crate::output::logs::{find_kind, has_ids, Item, Items, FORMATS};
use crate::time::Zone;
use crate::Logs;
use iocrec_cli::command;

command! {
    /// Show all that happened in one order of time: puts, changes of alarms, what IOCs printed, marks, ends of IOCs, and
    /// what was not recorded; or write or send it as log records of OpenTelemetry, those of puts and alarms with the ids of
    /// their spans (see traces).
    #[argh(subcommand, name = "logs")]
    pub struct WhatHappened {
        /// output format: text (default), jsonl (a JSON object for each row), csv, otlp (OpenTelemetry JSON lines), otlp-proto (one protobuf message) or
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
    } with since: Since, until: Until, by_pv: ByPv, by_who: ByWho, by_place: ByPlace, growing: Growing,
        time_zone: TimeZone, reading: Reading
}

fn parse_format(name: &str) -> Result<&'static Format<Item>, String> {
    format::find(&FORMATS, name).map_err(|error| error.to_string())
}

impl Command for WhatHappened {
    fn reading(&self) -> Reading {
        self.into()
    }

    fn follows(&self) -> bool {
        self.follow
    }

    fn check(&self) -> Result<(), UsageError> {
        self.sending().check()?;
        if self.follow && self.otlp.is_some() {
            let instead = "--follow, or send with iocreplay follow --otlp URL --signals logs";
            return Err(UsageError::SentAndWritten(instead));
        }
        Growing::from(self).check(&self.reading())
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let logs = ByPlace::from(self).open(&self.reading())?;
        let chosen: Chosen = (self.into(), self.into(), self.into(), self.into(), self.into());
        let filter = with_aliases(&logs, selection(&zone, &logs, &chosen)?);
        logs.report_recorded_twice(&filter);
        let every = Kind::ALL.map(|(kind, _)| kind);
        let kinds = if self.kind.is_empty() { &every[..] } else { &self.kind };
        if self.follow {
            return self.follow(out, filter, kinds, &zone);
        }
        let mut items = Items::of(&logs);
        let all = self.happened(&logs, &filter, kinds).map(|happened| items.item(happened));
        self.sending().pass_on(out, &FORMATS[0], all, (&logs, &zone), (Asked::Happened, &filter))
    }
}

impl WhatHappened {
    /// What happened, with the ids of spans where somebody sees them.
    fn happened<'a>(&self, logs: &Logs, filter: &'a Filter, kinds: &[Kind]) -> AllHappened<'a> {
        match self.otlp.is_some() || self.format.is_some_and(has_ids) {
            true => logs.happened_with_ids(filter, kinds),
            false => logs.happened(filter, kinds),
        }
    }

    /// Follows the log, and writes what comes.
    fn follow(&self, out: &mut Out, filter: Filter, kinds: &[Kind], zone: &Zone) -> Result<Outcome, Failure> {
        let reading = self.reading();
        let mut known = Known::default();
        let mut writer = (self.format.unwrap_or(&FORMATS[0]).writer)(zone);
        writer.begin(out)?;
        let rows = |logs: &Logs, filter: &Filter, each: &mut dyn FnMut(Item) -> Result<(), Failure>| {
            // there may be more IOCs than before
            let mut items = Items::of(logs);
            self.happened(logs, filter, kinds).map(|happened| items.item(happened)).try_for_each(each)
        };
        let write = |item: Option<&Item>| -> Result<(), Failure> {
            match item {
                Some(Item { happened: Happened { what: What::Alarm(alarm), .. }, .. })
                    if !known.is_news(alarm) => {}
                Some(item) => writer.write(out, item)?,
                None => {
                    writer.flush(out)?;
                    out.flush()?;
                }
            }
            Ok(())
        };
        follow(&reading.logs, filter, || ByPlace::from(self).open_again(&reading), rows, write)?;
        Ok(Outcome::Complete)
    }

    fn sending(&self) -> Sending<'_, Item> {
        Sending {
            address: self.otlp.as_ref(),
            skip: self.skip_records,
            format: self.format,
            output: self.output.as_deref(),
            has_logs: !self.logs.is_empty(),
        }
    }
}

impl Timed for Item {
    fn time(&self) -> i64 {
        self.happened.time
    }

    fn even(&self) -> i64 {
        self.happened.even
    }

    fn name(&self) -> String {
        let Happened { host, pid, what, .. } = &self.happened;
        let (name, sort) = match what {
            What::Put(put) => (put.name(), "put"),
            What::Alarm(alarm) => (alarm.name(), "alarm"),
            What::Said(line) => (line.name(), "line"),
            // the numbers of runs in it change
            What::Unrecorded(_) => (host.to_string(), "unrecorded"),
            what => (format!("{host}\n{pid:?}\n{what:?}"), "noted"),
        };
        format!("{name}\n{sort}")
    }
}
