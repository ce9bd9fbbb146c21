//! `iocreplay traces`

use super::command::{Command, Outcome};
use super::options::{
    by_place, by_pv, by_who, growing, reading, selection, since, time_zone, until, with_aliases, ByPlace,
    ByPv, ByWho, Chosen, Growing, Reading, Since, TimeZone, Until,
};
use super::sending::{tell, Sending};
use crate::collector::{Address, Sender};
use crate::failure::{Failure, UsageError};
use crate::filter::Filter;
use crate::follow::{follow, follow_to_send, Timed};
use crate::model::chain::{Chain, SpanKind};
use crate::model::open_chains::LIMIT;
use crate::nothing_found::Kind;
use crate::out::Out;
use crate::output::format::{self, Format};
use crate::output::traces::otlp::Batch;
use crate::output::traces::{needs_end, FORMATS};
use crate::time::Zone;
use crate::Logs;
use iocrec_cli::command;

command! {
    /// Show process chains: what each put, scan or event set off, across threads, IOCs and hosts. A chain is shown whole if
    /// it began in the given time and any PV, IOC or host in it matches.
    #[argh(subcommand, name = "traces")]
    pub struct Traces {
        /// output format: text (default), otlp (OpenTelemetry JSON lines), otlp-proto (one protobuf message),
        /// otlp-proto-delimited (protobuf messages after their lengths), zipkin (a JSON array of Zipkin's spans), perfetto (a
        /// trace for ui.perfetto.dev), jsonl (a JSON object for each put, processed record and CA link) or csv
        #[argh(option, from_str_fn(parse_format))]
        pub format: Option<&'static Format<Chain>>,
        /// send to a collector of OpenTelemetry instead, as http://HOST:4318
        #[argh(option, arg_name = "url", from_str_fn(super::sending::parse_address))]
        pub otlp: Option<Address>,
        /// with --otlp, go on after this many spans, which were sent before
        #[argh(option, arg_name = "n")]
        pub skip_spans: Option<usize>,
    } with since: Since, until: Until, by_pv: ByPv, by_who: ByWho,
        by_place: ByPlace, growing: Growing, time_zone: TimeZone, reading: Reading
}

fn parse_format(name: &str) -> Result<&'static Format<Chain>, String> {
    format::find(&FORMATS, name).map_err(|error| error.to_string())
}

impl Command for Traces {
    fn reading(&self) -> Reading {
        self.into()
    }

    fn follows(&self) -> bool {
        self.follow
    }

    fn check(&self) -> Result<(), UsageError> {
        self.sending().check()?;
        if self.skip_spans.is_some() && self.follow {
            return Err(UsageError::SkippedInFollowing);
        }
        if let Some(format) = self.format.filter(|format| self.follow && needs_end(format)) {
            return Err(UsageError::FollowedWithoutEnd { format: format.name, instead: "otlp" });
        }
        Growing::from(self).check(&self.reading())
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let logs = ByPlace::from(self).open(&self.reading())?;
        let chosen: Chosen = (self.into(), self.into(), self.into(), self.into(), self.into());
        let filter = with_aliases(&logs, selection(&zone, &logs, &chosen)?);
        logs.report_recorded_twice(&filter);
        if self.follow {
            return self.follow(out, filter, &zone);
        }
        let chains = logs.chains(&filter);
        self.sending().pass_on(out, &FORMATS[0], chains, (&logs, &zone), (Kind::Chains, &filter))
    }
}

impl Traces {
    fn sending(&self) -> Sending<'_, Chain> {
        Sending {
            address: self.otlp.as_ref(),
            skip: self.skip_spans,
            format: self.format,
            output: self.output.as_deref(),
            has_logs: !self.logs.is_empty(),
        }
    }

    /// Follows the log, and writes or sends what comes.
    fn follow(&self, out: &mut Out, filter: Filter, zone: &Zone) -> Result<Outcome, Failure> {
        if let Some(address) = &self.otlp {
            let mut sender: Sender<Batch> = Sender::new(address, 0, &tell).following(&|| false);
            return self.chains(filter, &mut |chain| match chain {
                Some(chain) => Ok(sender.add(chain)?),
                None => Ok(sender.flush()?),
            });
        }
        let mut writer = (self.format.unwrap_or(&FORMATS[0]).writer)(zone);
        writer.begin(out)?;
        self.chains(filter, &mut |chain| match chain {
            Some(chain) => Ok(writer.write(out, chain)?),
            None => {
                writer.flush(out)?;
                Ok(out.flush()?)
            }
        })
    }

    /// The chains of a log that grows, each once it is over, or has taken longer than a chain may.
    fn chains(
        &self,
        filter: Filter,
        write: &mut dyn FnMut(Option<&Chain>) -> Result<(), Failure>,
    ) -> Result<Outcome, Failure> {
        let reading = self.reading();
        let rows = |logs: &Logs, filter: &Filter, each: &mut dyn FnMut(Chain) -> Result<(), Failure>| {
            let limit = i64::try_from(LIMIT).unwrap_or(i64::MAX);
            // a host whose log comes late is not overdue yet
            let ends = logs.ends();
            let overdue = |chain: &Chain| {
                ends.get(&chain.run.host()).is_none_or(|end| chain.even() < end.saturating_sub(limit))
            };
            logs.chains(filter).filter(|chain| !chain.open || overdue(chain)).try_for_each(each)
        };
        let open = || ByPlace::from(self).open_again(&reading);
        match self.otlp {
            Some(_) => follow_to_send(&reading.logs, filter, open, rows, write)?,
            None => follow(&reading.logs, filter, open, rows, write)?,
        }
        Ok(Outcome::Complete)
    }
}

impl Timed for Chain {
    fn time(&self) -> i64 {
        self.root().map_or(0, |root| self.run.wall(root.start))
    }

    fn even(&self) -> i64 {
        self.root().map_or(0, |root| self.run.even(root.start))
    }

    fn name(&self) -> String {
        let thread = self.root().and_then(|root| root.thread);
        let of = self.root().and_then(|root| match &root.kind {
            SpanKind::Process(process) => Some(process.record),
            SpanKind::Put(put) => put.record,
            SpanKind::Link(link) => link.record,
        });
        format!("{}\n{thread:?}\n{of:?}", self.run.host())
    }
}
