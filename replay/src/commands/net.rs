//! `iocreplay net`

use super::command::{Command, Outcome};
use super::options::{
    begins_after, by_place, by_pv, by_who, reading, selection, since, time_zone, until, ByPlace, ByPv, ByWho,
    Chosen, Reading, Since, TimeZone, Until,
};
use crate::answers::network::{Kind, NetLine, Network};
use crate::failure::Failure;
use crate::filter::Filter;
use crate::nothing_found::{explain, mismatch, Kind as Nothing};
use crate::out::Out;
use crate::output::format::{self, Format};
use crate::output::net::FORMATS;
use crate::terminal::Terminal;
use crate::words::{are, counted};
use iocrec_cli::command;

command! {
    /// Show what the network was doing: searches for PVs that nobody answers and who makes them, PVs with several
    /// servers, storms of searches, servers that started or fell silent, circuits that broke off and why, refused
    /// channels and rights, clients that could not keep up. A recorder sees what passes its host: not the answers between
    /// two other hosts.
    #[argh(subcommand, name = "net")]
    pub struct Net {
        /// output format: text (default), jsonl (a JSON object for each line) or csv
        #[argh(option, default = "&FORMATS[0]", from_str_fn(parse_format))]
        pub format: &'static Format<NetLine>,
        /// show the ordinary, too: searches that were answered, connects, circuits closed by their clients, traffic
        #[argh(switch)]
        pub all: bool,
        /// only this kind, such as unanswered or disconnected; repeatable
        #[argh(option, arg_name = "kind", from_str_fn(parse_kind))]
        pub kind: Vec<Kind>,
    } with since: Since, until: Until, by_pv: ByPv, by_who: ByWho,
        by_place: ByPlace, time_zone: TimeZone, reading: Reading
}

fn parse_format(name: &str) -> Result<&'static Format<NetLine>, String> {
    format::find(&FORMATS, name).map_err(|error| error.to_string())
}

fn parse_kind(name: &str) -> Result<Kind, String> {
    Kind::ALL.iter().find(|kind| kind.name() == name).copied().ok_or_else(|| {
        let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        format!("unknown kind '{name}'; choose one of {}", names.join(", "))
    })
}

impl Command for Net {
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
        let found = Network::read(&logs);
        let (is_recorded, has_datagrams) = (found.is_recorded, found.has_datagrams);
        let (mut lines, ordinary, left_out) = found.lines(&filter, self.all || !self.kind.is_empty());
        let matches = ordinary > 0 || !lines.is_empty();
        lines.retain(|line| self.kind.is_empty() || self.kind.contains(&line.kind));
        let mut writer = (self.format.writer)(&zone);
        writer.begin(out)?;
        for line in &lines {
            writer.write(out, line)?;
        }
        writer.end(out)?;
        if left_out > 0 {
            let are = are(left_out);
            Terminal.report(&format_args!("{left_out} more {are} not shown: there are too many"));
        }
        if !is_recorded {
            Terminal.report(
                &"these logs hold no Channel Access traffic beside puts: they were recorded by an older iocrec, or \
                 without packets or with --no-net",
            );
        } else if !has_datagrams {
            Terminal.report(&"these logs hold no searches and beacons: no datagrams were read");
        }
        // what lasted when the log began is known from then on
        let before = filter.until.filter(|_| ordinary > 0 || !lines.is_empty());
        let before = before.map(|until| until.saturating_sub(1));
        let begins = before
            .and_then(|time| begins_after(&zone, &logs, &Filter { until: None, ..filter.clone() }, time));
        if let Some(begins) = begins {
            Terminal
                .report(&format_args!("{begins}: of the time before, only what still lasted then is known"));
        }
        let hidden = Some(ordinary).filter(|ordinary| *ordinary > 0 && self.format.name == "text");
        if let Some(ordinary) = hidden {
            let what = counted(ordinary, "ordinary line");
            Terminal.report(&format_args!(
                "{what} not shown: connects, closed circuits, answered searches, traffic; see --all"
            ));
        } else if lines.is_empty() && matches {
            // names that only a search had are in these lines alone: they are not to be denied
            Terminal.report(match self.kind.is_empty() {
                true => &"nothing unusual on the network matches; --all shows what is ordinary",
                false => &"nothing of that kind matches, but lines of other kinds do",
            });
        } else if lines.is_empty() && is_recorded {
            Terminal.report(&explain(Nothing::Network, &logs.without_notices(), &filter, false, &zone));
        } else if let Some(line) =
            lines.is_empty().then(|| mismatch(&logs.without_notices(), &filter, &zone)).flatten()
        {
            Terminal.report(&line);
        }
        Ok(Outcome::from(&logs))
    }
}
