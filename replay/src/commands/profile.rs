//! `iocreplay profile`

use super::command::{Command, Outcome};
use super::options::{
    by_place, by_pv, by_who, reading, selection, since, time_zone, until, with_aliases, ByPlace, ByPv, ByWho,
    Chosen, Reading, Since, TimeZone, Until,
};
use crate::failure::Failure;
use crate::model::profile::Profile as Model;
use crate::nothing_found::{explain, Kind};
use crate::out::Out;
use crate::output::format::{self, Format};
use crate::output::profile::FORMATS;
use crate::terminal::Terminal;
use crate::words::{are, counted};
use iocrec_cli::command;

command! {
    /// Show where the time of processing goes: by record and chain, as folded stacks for flame graphs, or as a file for
    /// speedscope.
    #[argh(subcommand, name = "profile")]
    pub struct Profile {
        /// output format: folded (default, also named text; for inferno-flamegraph or flamegraph.pl), speedscope,
        /// jsonl (a JSON object for each stack) or csv
        #[argh(option, default = "&FORMATS[0]", from_str_fn(parse_format))]
        pub format: &'static Format<Model>,
    } with since: Since, until: Until, by_pv: ByPv, by_who: ByWho, by_place: ByPlace, time_zone: TimeZone,
        reading: Reading
}

fn parse_format(name: &str) -> Result<&'static Format<Model>, String> {
    format::find(&FORMATS, name).map_err(|error| error.to_string())
}

impl Command for Profile {
    fn reading(&self) -> Reading {
        self.into()
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let logs = ByPlace::from(self).open(&self.reading())?;
        let chosen: Chosen = (self.into(), self.into(), self.into(), self.into(), self.into());
        let filter = with_aliases(&logs, selection(&zone, &logs, &chosen)?);
        logs.report_recorded_twice(&filter);
        let mut profile = Model::default();
        logs.chains(&filter).for_each(|chain| profile.take(&chain, &filter));
        let mut writer = (self.format.writer)(&zone);
        writer.write(out, &profile)?;
        if profile.untimed > 0 {
            let (what, are) = (counted(profile.untimed, "processing"), are(profile.untimed));
            let text = format!("{what} without a known time {are} not in the profile");
            Terminal.report(&text);
        }
        let is_empty = profile.is_empty();
        if is_empty {
            Terminal.report(&explain(Kind::Chains, &logs.without_notices(), &filter, false, &zone));
        }
        Ok(Outcome::from(&logs))
    }
}
