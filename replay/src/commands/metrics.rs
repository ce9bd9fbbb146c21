//! `iocreplay metrics`

use super::command::{Command, Outcome};
use super::options::{
    by_place, reading, report_begins, since, time, time_zone, until, ByPlace, Reading, Since, TimeZone, Until,
};
use super::sending::Sending;
use crate::collector::Address;
use crate::failure::{Failure, UsageError};
use crate::filter::Filter;
use crate::nothing_found::Kind;
use crate::out::Out;
use crate::output::format::{self, Format};
use crate::output::metrics::{collect::collect, Table, FORMATS};
use crate::time::{Boundary, SECOND};
use iocrec_cli::command;

command! {
    /// Count and measure: puts, processing, alarms, lines and ends of IOCs, what they used of the machine, and what was not
    /// recorded; as OpenMetrics text for Prometheus, as a listing, or as metrics of OpenTelemetry.
    #[argh(subcommand, name = "metrics")]
    pub struct Metrics {
        /// output format: openmetrics (default), text (a line for each point), jsonl (a JSON object for each point), csv, otlp
        /// (OpenTelemetry JSON lines), otlp-proto (one protobuf message) or otlp-proto-delimited (protobuf messages after
        /// their lengths)
        #[argh(option, from_str_fn(parse_format))]
        pub format: Option<&'static Format<Table>>,
        /// a point for each while of this length, as 10s, 1m or 1h, instead of one at the end
        #[argh(option, arg_name = "length", from_str_fn(parse_step))]
        pub step: Option<i64>,
        /// send to a collector of OpenTelemetry instead, as http://HOST:4318
        #[argh(option, arg_name = "url", from_str_fn(super::sending::parse_address))]
        pub otlp: Option<Address>,
        /// with --otlp, go on after this many data points, which were sent before
        #[argh(option, arg_name = "n")]
        pub skip_points: Option<usize>,
    } with since: Since, until: Until, by_place: ByPlace, time_zone: TimeZone, reading: Reading
}

fn parse_format(name: &str) -> Result<&'static Format<Table>, String> {
    format::find(&FORMATS, name).map_err(|error| error.to_string())
}

/// A length of time of at least a second.
fn parse_step(text: &str) -> Result<i64, String> {
    let wrong = || format!("'{text}' is no length of time; write it as 10s, 1m, 1h or 1d");
    let letter = text.chars().next_back().ok_or_else(wrong)?;
    let seconds = match letter {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let count: i64 = text.strip_suffix(letter).unwrap_or_default().parse().map_err(|_| wrong())?;
    let step = count.checked_mul(seconds).and_then(|seconds| seconds.checked_mul(SECOND as i64));
    step.filter(|step| *step > 0).ok_or_else(wrong)
}

impl Command for Metrics {
    fn reading(&self) -> Reading {
        self.into()
    }

    fn check(&self) -> Result<(), UsageError> {
        self.sending().check()
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let logs = ByPlace::from(self).open(&self.reading())?;
        let (since, until): (Since, Until) = (self.into(), self.into());
        let filter = Filter {
            since: time(&zone, &since.since, Boundary::Start, &logs)?,
            until: time(&zone, &until.until, Boundary::End, &logs)?,
            ..ByPlace::from(self).filter_of(&logs)
        };
        report_begins(&zone, &logs, &filter);
        logs.report_recorded_twice(&filter);
        let table = collect(&logs, &filter, self.step).map_err(Failure::TooManyPoints)?;
        let table = std::iter::once(table);
        self.sending().pass_on(out, &FORMATS[0], table, (&logs, &zone), (Kind::Metrics, &filter))
    }
}

impl Metrics {
    fn sending(&self) -> Sending<'_, Table> {
        Sending {
            address: self.otlp.as_ref(),
            skip: self.skip_points,
            format: self.format,
            output: self.output.as_deref(),
            has_logs: !self.logs.is_empty(),
        }
    }
}
