//! `iocreplay clients`

use super::command::{Command, Outcome};
use super::options::{
    by_place, by_pv, by_who, reading, selection, since, time_zone, until, ByPlace, ByPv, ByWho, Chosen,
    Reading, Since, TimeZone, Until,
};
use crate::answers::clients::{add_network, ClientLine, Clients as Found};
use crate::failure::Failure;
use crate::nothing_found::{explain, Kind};
use crate::out::{line, Out};
use crate::output::clients::{channels, FORMATS};
use crate::output::format::{self, Format};
use crate::terminal::Terminal;
use crate::words::counted;
use iocrec_cli::command;

command! {
    /// Show the clients of Channel Access and PVAccess: who was connected to which IOC, from where and when, and what
    /// they wrote. User and host are what the client claims. A client has a line for each IOC that it was connected to;
    /// with a time range, only those connected then, and their puts then.
    #[argh(subcommand, name = "clients")]
    pub struct Clients {
        /// output format: text (default), jsonl (a JSON object for each client) or csv
        #[argh(option, default = "&FORMATS[0]", from_str_fn(parse_format))]
        pub format: &'static Format<ClientLine>,
        /// list the names of the channels, too (jsonl and csv always do)
        #[argh(switch)]
        pub channels: bool,
    } with since: Since, until: Until, by_pv: ByPv, by_who: ByWho,
        by_place: ByPlace, time_zone: TimeZone, reading: Reading
}

fn parse_format(name: &str) -> Result<&'static Format<ClientLine>, String> {
    format::find(&FORMATS, name).map_err(|error| error.to_string())
}

impl Command for Clients {
    fn reading(&self) -> Reading {
        self.into()
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let logs = ByPlace::from(self).open(&self.reading())?;
        logs.report_mixed();
        let chosen: Chosen = (self.into(), self.into(), self.into(), self.into(), self.into());
        let filter = selection(&zone, &logs, &chosen)?;
        logs.report_recorded_twice(&filter);
        let found = Found::read(&logs, &filter);
        let (left_out, without_circuit) = (found.left_out, found.without_circuit);
        let mut lines = found.lines(&filter);
        add_network(&mut lines, &logs, &filter);
        let mut writer = (self.format.writer)(&zone);
        writer.begin(out)?;
        for client in &lines {
            writer.write(out, client)?;
            if self.channels && self.format.name == "text" && !client.names.is_empty() {
                line!(out, "    channels  {}", channels(client))?;
            }
        }
        writer.end(out)?;
        if left_out > 0 {
            let what = counted(left_out, "more circuit");
            Terminal.report(&format_args!("{what} not shown: there are too many"));
        }
        if without_circuit > 0 {
            Terminal.report(&format_args!(
                "not counted here: {} from an IOC's shell, or on a circuit that is not known; iocreplay \
                 puts shows them",
                counted(without_circuit, "put")
            ));
        }
        if lines.is_empty() {
            let logs = logs.without_notices();
            Terminal.report(&explain(Kind::Clients, &logs, &filter, false, &zone));
        }
        Ok(Outcome::from(&logs))
    }
}
