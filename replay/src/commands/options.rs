//! Options shared by several commands. Each is written here once; a command names the groups that it takes
//! (`iocrec_cli::command!`).

use crate::answers::aliases;
use crate::clocks::Offsets;
use crate::failure::{Failure, UsageError};
use crate::filter::{field_of_channel, Filter};
use crate::notices::Notice;
use crate::output::rows::Shape;
use crate::pattern::Pattern;
use crate::terminal::{progress, Terminal};
use crate::time::relative::{refers_to_log, Reference};
use crate::time::{Boundary, Zone};
use crate::words::counted;
use crate::{Logs, OpenOptions};
use iocrec_cli::option_group;
use iocrec_log::reader::ReadError;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// If it is in the environment, every block is unpacked, whatever it says of itself: tests compare the answers with those
/// of the same commands without it, which must be the same. Nobody else has a use for it, so no option is spent on it.
const WITHOUT_INDEX: &str = "IOCREPLAY_WITHOUT_INDEX";

option_group! { $
    /// The logs, and the destination of the answer. Every command takes this group, as the last.
    pub struct Reading as reading {
        /// read on where a segment holds far more events than any recorder writes into so few bytes
        #[argh(switch)]
        no_limit: bool,
        /// write to this file instead of standard output; with gzip if its name ends in .gz
        #[argh(option, short = 'o', arg_name = "file")]
        output: Option<std::path::PathBuf>,
        /// set a host's clock right, which was ahead by so many seconds (box2=+1.250; negative: behind); auto: by what the
        /// circuits show that hosts share; repeatable
        #[argh(option, arg_name = "host=seconds")]
        clock_offset: Vec<crate::clocks::Offset>,
        /// segments, or directories of segments
        #[argh(positional, arg_name = "log")]
        logs: Vec<std::path::PathBuf>,
    }
}

impl Reading {
    /// The file that the answer goes to; `None`: standard output.
    pub fn file(&self) -> Option<&Path> {
        named_file(self.output.as_deref())
    }

    /// Opens the logs; notices go to standard error. `ioc`: the processes that are asked for.
    pub fn open(&self, ioc: Option<Pattern>) -> Result<Logs, Failure> {
        self.open_with(true, ioc, None)
    }

    fn open_with(&self, notices: bool, ioc: Option<Pattern>, pod: Option<Pattern>) -> Result<Logs, Failure> {
        self.open_telling(notices.then_some(|notice: &Notice| Terminal.report(notice)), ioc, pod)
    }

    /// Opens the logs; notices are passed to `tell`.
    fn open_telling(
        &self,
        tell: Option<impl Fn(&Notice) + 'static>,
        ioc: Option<Pattern>,
        pod: Option<Pattern>,
    ) -> Result<Logs, Failure> {
        let offsets = self.offsets();
        let mut options = OpenOptions::new().no_limit(self.no_limit).clock_offsets(offsets.clone());
        options = options.naming(ioc).in_pods(pod).without_index(std::env::var_os(WITHOUT_INDEX).is_some());
        if let Some(tell) = tell {
            options = options.on_notice(tell);
        }
        // The reasons were reported as notices.
        let logs = options.open(&self.logs).map_err(|_| Failure::Reported)?;
        if !offsets.is_empty() {
            self.check_hosts(&logs.host_names())?;
        }
        Ok(logs)
    }

    /// Checks that each host whose clock is set right is one of these, and has one offset.
    pub fn check_hosts(&self, hosts: &[String]) -> Result<(), UsageError> {
        let offsets = self.offsets();
        if let Some(host) = offsets.twice() {
            return Err(UsageError::OffsetTwice(host.to_owned()));
        }
        match offsets.unknown(hosts) {
            Some(host) => Err(UsageError::unknown_host(host, hosts)),
            None => Ok(()),
        }
    }

    /// The offsets of clocks.
    pub fn offsets(&self) -> Offsets {
        Offsets::from(self.clock_offset.as_slice())
    }
}

/// The file that `-o` names. `-` is standard output, as in most programs; a file of that name is `./-`.
pub fn named_file(output: Option<&Path>) -> Option<&Path> {
    // of follow, which reads standard input by that name, with the space that keeps it from being an option
    output.filter(|file| !matches!(file.to_str(), Some("-" | " -")))
}

option_group! { $
    /// The shape of an answer of few rows with much in them.
    pub struct Json as json {
        /// output format: text (default), jsonl (a JSON object on each line) or csv
        #[argh(option, arg_name = "format", from_str_fn(crate::commands::options::shape))]
        format: Option<crate::output::rows::Shape>,
        /// write one JSON object over many lines
        #[argh(switch)]
        json: bool,
    }
}

impl Json {
    /// The shape; `None`: one JSON object over many lines.
    pub fn shape(&self) -> Option<Shape> {
        match self.format {
            None if self.json => None,
            format => Some(format.unwrap_or_default()),
        }
    }
}

option_group! { $
    /// The shape of a listing.
    pub struct Listing as listing {
        /// output format: text (default), jsonl (a JSON object on each line) or csv
        #[argh(option, arg_name = "format", from_str_fn(crate::commands::options::shape))]
        format: Option<crate::output::rows::Shape>,
        /// the same as --format jsonl
        #[argh(switch)]
        json: bool,
    }
}

impl Listing {
    /// The shape.
    pub fn shape(&self) -> Shape {
        self.format.unwrap_or(if self.json { Shape::JsonLines } else { Shape::Text })
    }
}

/// The shape of that name.
pub fn shape(name: &str) -> Result<Shape, String> {
    Shape::find(name).ok_or_else(|| format!("unknown format '{name}'; choose text, jsonl or csv"))
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
        progress::in_utc(self.utc);
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
        /// only what began at this time or later: ISO 8601 (in this machine's zone unless it has an offset); -10m: ten
        /// minutes before the end of the log; 10:03: the last one in the log; yesterday; yesterday 10:03
        #[argh(option, arg_name = "time")]
        since: Option<String>,
    }
}

option_group! { $
    /// End of the time range.
    pub struct Until as until {
        /// only what began before this time; written like --since
        #[argh(option, arg_name = "time")]
        until: Option<String>,
    }
}

option_group! { $
    /// PVs and records.
    pub struct ByPv as by_pv {
        /// only PVs and records whose names match, with * ? [a-z]; repeatable
        #[argh(option, arg_name = "glob")]
        pv: Vec<String>,
        /// leave out PVs and records whose names match; repeatable
        #[argh(option, arg_name = "glob")]
        exclude: Vec<String>,
    }
}

option_group! { $
    /// Users and clients.
    pub struct ByWho as by_who {
        /// only puts of users whose (claimed) names match
        #[argh(option, arg_name = "glob")]
        user: Option<String>,
        /// only puts of clients that match: an address, ADDRESS:PORT, a claimed host, or an IOC that is the client
        #[argh(option, arg_name = "glob")]
        client: Option<String>,
    }
}

option_group! { $
    /// Logs that grow.
    pub struct Growing as growing {
        /// keep reading as the log grows, until interrupted; a row comes some seconds after its time
        #[argh(switch)]
        follow: bool,
    }
}

impl Growing {
    /// Checks that the answer can be written while the log is followed.
    pub fn check(&self, reading: &Reading) -> Result<(), UsageError> {
        match reading.file() {
            Some(file) if self.follow => Err(UsageError::FollowIntoFile(file.to_owned())),
            _ if self.follow && reading.offsets().is_auto() => Err(UsageError::AutoWhileGrowing("--follow")),
            _ => Ok(()),
        }
    }
}

option_group! { $
    /// IOCs and hosts.
    pub struct ByPlace as by_place {
        /// only IOCs whose names match; NAME pid N is one process of an IOC
        #[argh(option, arg_name = "glob")]
        ioc: Option<String>,
        /// only IOCs in pods or containers that match: the pod's uid or name, or the container's id or its first digits,
        /// at least 12. An IOC in no container never matches
        #[argh(option, arg_name = "glob")]
        pod: Option<String>,
        /// only recorded hosts whose names match
        #[argh(option, arg_name = "glob")]
        host: Option<String>,
    }
}

impl ByPlace {
    /// Opens the logs; notices go to standard error.
    pub fn open(&self, reading: &Reading) -> Result<Logs, Failure> {
        self.open_naming(reading, pattern(&self.ioc))
    }

    /// The same if another pattern than `--ioc` names processes.
    pub fn open_naming(&self, reading: &Reading, ioc: Option<Pattern>) -> Result<Logs, Failure> {
        let logs = reading.open_with(true, ioc, pattern(&self.pod))?;
        Ok(logs.comparing_only(pattern(&self.host)))
    }

    /// Opens the logs without notices: they were reported before.
    pub fn open_again(&self, reading: &Reading) -> Result<Logs, Failure> {
        reading.open_with(false, pattern(&self.ioc), pattern(&self.pod))
    }

    /// Opens the logs, and passes on which segments turn out to be gone when they are to be read.
    pub fn open_missing(&self, reading: &Reading, gone: impl Fn(&Path) + 'static) -> Result<Logs, Failure> {
        let tell = move |notice: &Notice| {
            let unread = match notice {
                Notice::Unreadable(ReadError::NotFound(path) | ReadError::Io(path, _)) => Some(path),
                Notice::Gone(path) => Some(path),
                _ => None,
            };
            if let Some(path) = unread {
                if !path.exists() {
                    gone(path);
                }
            }
        };
        reading.open_telling(Some(tell), pattern(&self.ioc), pattern(&self.pod))
    }

    /// The filter for these options, but for `--pod`, whose IOCs the [logs](Logs::pods) know.
    pub fn filter(&self) -> Filter {
        Filter { ioc: pattern(&self.ioc), host: pattern(&self.host), ..Filter::default() }
    }

    /// The filter for these options. Reports if it selects several IOCs by one name.
    pub fn filter_of(&self, logs: &Logs) -> Filter {
        let filter = Filter { pod: logs.pods(), ..self.filter() };
        logs.report_namesakes(&filter);
        filter
    }
}

impl ByPv {
    /// Adds these options to a filter.
    pub fn add_to(&self, filter: Filter) -> Filter {
        Filter { pv: patterns(&self.pv), exclude: patterns(&self.exclude), ..filter }
    }
}

impl ByWho {
    /// Adds these options to a filter.
    pub fn add_to(&self, filter: Filter) -> Filter {
        Filter { user: pattern(&self.user), client: pattern(&self.client), ..filter }
    }
}

/// A pattern, if given.
pub fn pattern(text: &Option<String>) -> Option<Pattern> {
    text.as_deref().map(Pattern::from)
}

/// Patterns for PVs, as many as were given; a channel's name that says more than its field is a name of that, too.
pub fn patterns(texts: &[String]) -> Vec<Pattern> {
    let fields =
        texts.iter().filter_map(|text| field_of_channel(text)).map(|text| Pattern::from(text.as_str()));
    texts.iter().map(|text| Pattern::from(text.as_str())).chain(fields).collect()
}

/// Adds to a filter the records whose aliases it names, and reports these.
pub fn with_aliases(logs: &Logs, filter: Filter) -> Filter {
    let (filter, named) = aliases::resolve(logs, filter);
    named.iter().for_each(|alias| Terminal.report(alias));
    filter
}

/// The options that choose a part of the logs.
pub type Chosen = (Since, Until, ByPv, ByWho, ByPlace);

/// The filter for these options.
pub fn selection(zone: &Zone, logs: &Logs, chosen: &Chosen) -> Result<Filter, Failure> {
    let (since, until, by_pv, by_who, by_place) = chosen;
    let filter = Filter {
        since: time(zone, &since.since, Boundary::Start, logs)?,
        until: time(zone, &until.until, Boundary::End, logs)?,
        ..by_who.add_to(by_pv.add_to(by_place.filter_of(logs)))
    };
    report_begins(zone, logs, &filter);
    Ok(filter)
}

/// Reports it if logs begin after the time from which on something is asked for.
pub fn report_begins(zone: &Zone, logs: &Logs, filter: &Filter) {
    if let Some(begins) = filter.since.and_then(|since| begins_after(zone, logs, filter, since)) {
        Terminal.report(&format_args!("{begins}: what was before is not known"));
    }
}

/// Hosts named of those whose logs begin after a time.
const BEGINS: usize = 5;

/// What is shown of a begin is cut to so many nanoseconds: who asks from then on asks for all.
const SHOWN: i64 = 1_000_000;

/// That logs begin after a time, and when: nothing that is asked for before is in them. `None` if the logs of all hosts that
/// the filter selects begin before, and if its time range ends before any of them begins: that is explained where nothing
/// is found.
pub fn begins_after(zone: &Zone, logs: &Logs, filter: &Filter, time: i64) -> Option<String> {
    let is_asked = |name: &str| filter.host.as_ref().is_none_or(|host| host.matches(name));
    let later = logs.begins_after(time.saturating_add(SHOWN - 1), is_asked);
    let mut hosts = logs.host_names();
    hosts.retain(|name| is_asked(name));
    hosts.sort_unstable();
    hosts.dedup();
    let first = *later.values().min()?;
    if later.len() >= hosts.len() && filter.until.is_some_and(|until| until <= first) {
        return None;
    }
    if hosts.len() < 2 {
        return Some(format!("the log begins at {}", zone.format(first, 3)));
    }
    let name = |name: &str| if name.is_empty() { "a host".to_owned() } else { name.to_owned() };
    let named = later.iter().take(BEGINS);
    let named = named.map(|(host, begin)| format!("that of {} at {}", name(host), zone.format(*begin, 3)));
    let more = match later.len().saturating_sub(BEGINS) {
        0 => String::new(),
        more => format!(", and those of {} later", counted(more as u64, "more host")),
    };
    Some(format!("logs begin later: {}{more}", named.collect::<Vec<_>>().join(", ")))
}

/// A time, if given. Reports it if the clocks of the zone don't show it exactly once, and what a time that refers to the
/// end of the log was taken for.
pub fn time(
    zone: &Zone,
    text: &Option<String>,
    boundary: Boundary,
    logs: &Logs,
) -> Result<Option<i64>, Failure> {
    let Some(text) = text else { return Ok(None) };
    moment(zone, text, boundary, logs).map(Some)
}

/// Refuses a log in place of a time, which comes before the logs. `usage`: the operands of the command.
pub fn no_log_as_time(times: &[&str], usage: &'static str) -> Result<(), UsageError> {
    let is_time = |text: &str| {
        Zone::utc().parse_relative(text.trim(), Boundary::Start, Reference { now: 0, end: 0 }).is_ok()
    };
    match times.iter().find(|text| !is_time(text) && Path::new(text).exists()) {
        Some(log) => Err(UsageError::LogBeforeTime { log: (*log).to_owned(), usage }),
        None => Ok(()),
    }
}

/// A time. See [`time`].
pub fn moment(zone: &Zone, text: &str, boundary: Boundary, logs: &Logs) -> Result<i64, Failure> {
    moment_in(zone, text, boundary, Some(logs))
}

/// The same. Without logs, as if they ended now.
pub fn moment_in(zone: &Zone, text: &str, boundary: Boundary, logs: Option<&Logs>) -> Result<i64, Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
    let text = text.trim();
    let logs = logs.filter(|_| refers_to_log(text));
    let end = logs.and_then(Logs::end).unwrap_or(now);
    let parsed = zone.parse_relative(text, boundary, Reference { now, end });
    let parsed = parsed.map_err(|error| Failure::Usage(UsageError::Time(error)))?;
    match &parsed.ambiguity {
        Some(ambiguity) => Terminal.report(ambiguity),
        None if logs.is_some() => {
            let digits = if text.contains('.') || text.ends_with("ms") { 3 } else { 0 };
            let [taken, end] = [parsed.wall, end].map(|time| zone.format(time, digits));
            Terminal.report(&format_args!("{text} is {taken}; the log ends at {end}"));
        }
        None => {}
    }
    Ok(parsed.wall)
}
