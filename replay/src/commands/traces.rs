//! `iocreplay traces`

use super::command::{Command, Outcome};
use super::options::{
    by_place, by_pv, by_who, reading, selection, since, time_zone, until, ByPlace, ByPv, ByWho, Chosen,
    Reading, Since, TimeZone, Until,
};
use crate::failure::Failure;
use crate::model::chain::Chain;
use crate::nothing_found::{explain, Kind};
use crate::out::Out;
use crate::output::format::{self, Format};
use crate::output::traces::FORMATS;
use crate::terminal::Terminal;
use iocrec_cli::command;

command! {
    /// Show process chains: what each put, scan or event set off, across threads, IOCs and hosts. A chain is shown whole if
    /// it began in the given time and any PV, IOC or host in it matches.
    #[argh(subcommand, name = "traces")]
    pub struct Traces {
        /// output format: text (default) or otlp (OpenTelemetry JSON lines)
        #[argh(option, default = "&FORMATS[0]", from_str_fn(parse_format))]
        pub format: &'static Format<Chain>,
    } with since: Since, until: Until, by_pv: ByPv, by_who: ByWho,
        by_place: ByPlace, time_zone: TimeZone, reading: Reading
}

fn parse_format(name: &str) -> Result<&'static Format<Chain>, String> {
    format::find(&FORMATS, name).map_err(|error| error.to_string())
}

impl Command for Traces {
    fn reading(&self) -> Reading {
        self.into()
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let logs = self.reading().open()?;
        let chosen: Chosen = (self.into(), self.into(), self.into(), self.into(), self.into());
        let filter = selection(&zone, &logs, &chosen)?;
        let mut writer = (self.format.writer)(&zone);
        let mut is_empty = true;
        writer.begin(out)?;
        for chain in logs.chains(&filter) {
            is_empty = false;
            writer.write(out, &chain)?;
        }
        writer.end(out)?;
        if is_empty {
            let logs = logs.without_notices();
            Terminal.report(&explain(Kind::Chains, &logs, &filter, false, &zone));
        }
        Ok(Outcome::from(&logs))
    }
}
