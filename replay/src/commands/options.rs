//! Options shared by several commands. Each is written here once; a command names the groups that it takes
//! (`iocrec_cli::command!`).

use crate::failure::{Failure, UsageError};
use crate::filter::{Filter, Pattern};
use crate::terminal::Terminal;
use crate::time::{Boundary, Zone};
use crate::{Logs, OpenOptions};
use iocrec_cli::option_group;

option_group! { $
    /// The logs, and the destination of the answer. Every command takes this group, as the last.
    pub struct Reading as reading {
        /// read on where a segment holds far more events than any recorder writes into so few bytes
        #[argh(switch)]
        no_limit: bool,
        /// write to this file instead of standard output
        #[argh(option, short = 'o', arg_name = "file")]
        output: Option<std::path::PathBuf>,
        /// segments, or directories of segments
        #[argh(positional, arg_name = "log")]
        logs: Vec<std::path::PathBuf>,
    }
}

impl Reading {
    /// Opens the logs; notices go to standard error.
    pub fn open(&self) -> Result<Logs, Failure> {
        let options = OpenOptions::new().no_limit(self.no_limit).on_notice(|notice| Terminal.report(notice));
        // The reasons were reported as notices.
        options.open(&self.logs).map_err(|_| Failure::Reported)
    }
}

option_group! { $
    /// Text or JSON.
    pub struct Json as json {
        /// write JSON instead of text
        #[argh(switch)]
        json: bool,
    }
}

option_group! { $
    /// The zone of times.
    pub struct TimeZone as time_zone {
        /// read and write times in UTC instead of this machine's zone
        #[argh(switch)]
        utc: bool,
    }
}

impl TimeZone {
    /// The zone. If the requested one is unknown, reports that and returns UTC.
    pub fn zone(&self) -> Zone {
        if self.utc {
            return Zone::utc();
        }
        let (zone, problem) = Zone::local();
        problem.inspect(|problem| Terminal.report(problem));
        zone
    }
}

option_group! { $
    /// Start of the time range.
    pub struct Since as since {
        /// only what began at this time or later (ISO 8601; in this machine's zone unless it has an offset)
        #[argh(option, arg_name = "time")]
        since: Option<String>,
    }
}

option_group! { $
    /// End of the time range.
    pub struct Until as until {
        /// only what began before this time
        #[argh(option, arg_name = "time")]
        until: Option<String>,
    }
}

option_group! { $
    /// PVs and records.
    pub struct ByPv as by_pv {
        /// only PVs and records whose names match, with * ? [a-z]
        #[argh(option, arg_name = "glob")]
        pv: Option<String>,
    }
}

option_group! { $
    /// IOCs and hosts.
    pub struct ByPlace as by_place {
        /// only IOCs whose names match
        #[argh(option, arg_name = "glob")]
        ioc: Option<String>,
        /// only recorded hosts whose names match
        #[argh(option, arg_name = "glob")]
        host: Option<String>,
    }
}

impl ByPlace {
    /// The filter for these options.
    pub fn filter(&self) -> Filter {
        Filter { ioc: pattern(&self.ioc), host: pattern(&self.host), ..Filter::default() }
    }
}

/// A pattern, if given.
pub fn pattern(text: &Option<String>) -> Option<Pattern> {
    text.as_deref().map(Pattern::from)
}

/// A time, if given. Reports it if the clocks of the zone don't show it exactly once.
pub fn time(zone: &Zone, text: &Option<String>, boundary: Boundary) -> Result<Option<i64>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let parsed = zone.parse(text, boundary).map_err(|error| Failure::Usage(UsageError::Time(error)))?;
    parsed.ambiguity.inspect(|ambiguity| Terminal.report(ambiguity));
    Ok(Some(parsed.wall))
}
