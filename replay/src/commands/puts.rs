//! `iocreplay puts`

use super::command::{Command, Outcome};
use super::options::{
    by_place, by_pv, by_who, growing, reading, selection, since, time_zone, until, with_aliases, ByPlace,
    ByPv, ByWho, Chosen, Growing, Reading, Since, TimeZone, Until,
};
use crate::failure::{Failure, UsageError};
use crate::follow::{follow, Timed, SETTLED};
use crate::model::putlog::PutLine;
use crate::nothing_found::{explain, Kind};
use crate::out::Out;
use crate::output::puts::caputlog::Level;
use crate::output::puts::{find, Options, PutFormat, BURST, FORMATS};
use crate::shown_names::own_name;
use crate::terminal::Terminal;
use iocrec_cli::command;
use std::time::{SystemTime, UNIX_EPOCH};

command! {
    /// Show the put log: who wrote what to which PV, from where, and with what result. By default, puts from outside the
    /// IOCs.
    #[argh(subcommand, name = "puts")]
    pub struct Puts {
        /// output format: text (default), jsonl (a JSON object for each put), csv, caputlog or caputlog-json (as the
        /// module caPutLog logs puts), or caput (a shell script that repeats them)
        #[argh(option, default = "&FORMATS[0]", from_str_fn(parse_format))]
        pub format: &'static PutFormat,
        /// caputlog: 0: what changed a value (default); 1: every put; 2: every put by itself
        #[argh(option, arg_name = "0|1|2", from_str_fn(parse_level))]
        pub level: Option<Level>,
        /// caputlog: how long puts in a row to the same field are taken together (default: 5s)
        #[argh(option, arg_name = "duration", from_str_fn(parse_duration))]
        pub burst: Option<i64>,
        /// caputlog: begin each line with this text
        #[argh(option, arg_name = "text")]
        pub prefix: Option<String>,
        /// caputlog-json: add this key and text to each line; repeatable
        #[argh(option, arg_name = "key=text", from_str_fn(parse_metadata))]
        pub metadata: Vec<(String, String)>,
        /// caput: wait between puts as long as the clients did
        #[argh(switch)]
        pub timing: bool,
        /// also show puts of database links and CA links
        #[argh(switch)]
        pub all: bool,
        /// also show which updates may have made a program put
        #[argh(switch)]
        pub updates: bool,
    } with since: Since, until: Until, by_pv: ByPv, by_who: ByWho,
        by_place: ByPlace, growing: Growing, time_zone: TimeZone, reading: Reading
}

fn parse_format(name: &str) -> Result<&'static PutFormat, String> {
    find(name).map_err(|error| error.to_string())
}

fn parse_level(text: &str) -> Result<Level, String> {
    match text {
        "0" => Ok(Level::Changes),
        "1" => Ok(Level::Puts),
        "2" => Ok(Level::Everything),
        _ => Err(format!("'{text}' is no level; choose 0, 1 or 2")),
    }
}

/// A duration in nanoseconds: `5s`, `0.5s`, `200ms`, `1m`.
fn parse_duration(text: &str) -> Result<i64, String> {
    let parsed = [("ms", 1e6), ("s", 1e9), ("m", 60e9)].iter().find_map(|(unit, nanoseconds)| {
        let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
        let time = number * nanoseconds;
        // a day is more than anybody waits for
        (time > 0.0 && time <= 86_400e9).then_some(time as i64)
    });
    parsed.ok_or_else(|| format!("'{text}' is no duration; write 5s, 200ms or 1m"))
}

fn parse_metadata(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("'{text}' is no key and text; write KEY=TEXT")),
    }
}

impl Puts {
    fn options(&self) -> Options {
        Options {
            level: self.level.unwrap_or(Level::Changes),
            burst: self.burst.unwrap_or(BURST),
            prefix: self.prefix.clone().unwrap_or_default(),
            metadata: self.metadata.iter().cloned().collect(),
            timing: self.timing,
        }
    }

    /// Checks that what is asked of a format is asked of one that has it.
    fn check_format(&self) -> Result<(), UsageError> {
        const CA_PUT_LOG: &[&str] = &["caputlog", "caputlog-json"];
        const OWN: &[&str] = &["text", "jsonl", "csv"];
        let asked: [(&str, bool, &[&str]); 6] = [
            ("--level", self.level.is_some(), CA_PUT_LOG),
            ("--burst", self.burst.is_some(), CA_PUT_LOG),
            ("--prefix", self.prefix.is_some(), CA_PUT_LOG),
            ("--metadata", !self.metadata.is_empty(), &["caputlog-json"]),
            ("--timing", self.timing, &["caput"]),
            ("--updates", self.updates, OWN),
        ];
        match asked.into_iter().find(|(_, is_asked, of)| *is_asked && !of.contains(&self.format.name)) {
            Some((option, _, formats)) => Err(UsageError::OfFormat { option, formats }),
            None => Ok(()),
        }
    }
}

/// Wall-clock time before which nothing more comes from a log that grows on this machine.
fn settled() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let settled = now.saturating_sub(SETTLED * 3);
    i64::try_from(settled.as_nanos()).unwrap_or(i64::MAX)
}

impl Timed for PutLine {
    fn time(&self) -> i64 {
        self.time
    }

    fn even(&self) -> i64 {
        self.even
    }

    fn name(&self) -> String {
        let part = |part: Option<&str>| part.unwrap_or_default().to_owned();
        // others of its name may come to light while the log grows
        let ioc = own_name(self.ioc.as_deref().unwrap_or_default()).to_owned();
        [part(self.host.as_deref()), ioc, part(self.pv.as_deref()), part(self.client.as_deref())].join("\n")
    }
}

impl Command for Puts {
    fn reading(&self) -> Reading {
        self.into()
    }

    fn follows(&self) -> bool {
        self.follow
    }

    fn check(&self) -> Result<(), UsageError> {
        self.check_format()?;
        // without its end the script writes nothing and says nothing
        if self.follow && self.format.name == "caput" {
            return Err(UsageError::FollowedWithoutEnd { format: "caput", instead: "text" });
        }
        // what a client had subscribed to is written a minute later
        if self.follow && self.updates {
            return Err(UsageError::UpdatesFollowed);
        }
        Growing::from(self).check(&self.reading())
    }

    fn run(&self, out: &mut Out) -> Result<Outcome, Failure> {
        let zone = TimeZone::from(self).zone();
        let logs = ByPlace::from(self).open(&self.reading())?;
        let chosen: Chosen = (self.into(), self.into(), self.into(), self.into(), self.into());
        let filter = with_aliases(&logs, selection(&zone, &logs, &chosen)?);
        logs.report_recorded_twice(&filter);
        let options = self.options();
        let mut writer = (self.format.writer)(&zone, &options);
        let mut is_empty = true;
        writer.begin(out)?;
        if self.follow {
            let reading = self.reading();
            follow(
                &reading.logs,
                filter,
                || ByPlace::from(self).open_again(&reading),
                |logs, filter, each| {
                    let puts = logs.puts(filter);
                    (if self.all { puts.with_links() } else { puts }).try_for_each(each)
                },
                |put| match put {
                    Some(put) => Ok(writer.write(out, put)?),
                    None => {
                        writer.pass(out, settled())?;
                        Ok(out.flush()?)
                    }
                },
            )?;
            writer.end(out)?;
            return Ok(Outcome::Complete);
        }
        let puts = logs.puts(&filter);
        let puts = if self.all { puts.with_links() } else { puts };
        for put in if self.updates { puts.with_updates() } else { puts } {
            is_empty = false;
            writer.write(out, &put)?;
        }
        writer.end(out)?;
        writer.remarks().iter().for_each(|remark| Terminal.report(remark));
        if is_empty {
            // Parts that can't be read were reported.
            let logs = logs.without_notices();
            let only_links = !self.all && logs.puts(&filter).with_links().next().is_some();
            Terminal.report(&explain(Kind::Puts, &logs, &filter, only_links, &zone));
        }
        Ok(Outcome::from(&logs))
    }
}
