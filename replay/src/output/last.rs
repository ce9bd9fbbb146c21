//! The last minute of an IOC, on one screen; `json` has the same for programs.

mod json;

use super::clients::slow_words;
use super::console::said;
use super::net::of_device;
use crate::answers::between::NO_LOG;
use crate::answers::clients::{ClientLine, Slow};
use crate::answers::last::{Begun, Ending, Last, NotSeen, ThreadLine, BEFORE, MINUTE};
use crate::answers::network::NetLine;
use crate::model::alarms::{Alarm, AlarmLine, Source};
use crate::model::enum_strings;
use crate::model::putlog::PutLine;
use crate::out::{line, Out};
use crate::output::rows::{write_row, Shape};
use crate::shown_names::without_pid;
use crate::time::{duration, Zone, SECOND};
use crate::wording::inputs::push_all;
use crate::wording::put::{change, who};
use crate::words::{self, counted};
use std::fmt::Write as _;
use std::io;

/// Columns of the screen, and those before the text of a line; and the lines of each part. The manual says how many all are at most:
/// with the puts, headings and counts of what is not shown.
const COLUMNS: usize = 100;
const NAME: usize = 12;
const MOST_MISSING: usize = 2;
const MOST_BEGUN: usize = 5;
const MOST_THREADS: usize = 6;
const MOST_ALARMS: usize = 5;
const MOST_STANDING: usize = 2;
const MOST_CLIENTS: usize = 3;
const MOST_SAID: usize = 6;
const MOST_STUCK: usize = 4;
const MOST_DEVICES: usize = 4;
const MOST_SLOW: usize = 3;

fn known(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// Items per second in the part of a span of time that was recorded; `None` if there is none.
fn rate(last: &Last, count: u64, from: i64, to: i64) -> Option<f64> {
    let recorded = last.recorded(from, to);
    (recorded > 0).then(|| count as f64 * SECOND as f64 / recorded as f64)
}

/// Whether a line of a part is shown whole.
fn fits(text: &str) -> bool {
    NAME + text.chars().count() <= COLUMNS
}

/// A part of the screen: its name stands before its first line.
struct Part<'a, 'b> {
    out: &'a mut Out<'b>,
    name: &'static str,
}

impl Part<'_, '_> {
    fn line(&mut self, text: &str) -> io::Result<()> {
        let whole = format!("{:<NAME$}{text}", std::mem::take(&mut self.name));
        let mut shown: String = whole.chars().take(COLUMNS).collect();
        if shown.len() < whole.len() {
            shown.truncate(shown.char_indices().nth(COLUMNS - 3).map_or(shown.len(), |(at, _)| at));
            shown.push_str("...");
        }
        line!(self.out, "{}", shown.trim_end())
    }

    /// Writes as many lines as there is room for: the last ones if `newest`. Says how many more there are.
    fn lines(&mut self, lines: &[String], most: usize, newest: bool, more: &str) -> io::Result<()> {
        self.lines_of_more(lines, most, newest, (0, more))
    }

    /// The same of lines before which there were more.
    fn lines_of_more(
        &mut self,
        lines: &[String],
        most: usize,
        newest: bool,
        (before, more): (u64, &str),
    ) -> io::Result<()> {
        let left_out = lines.len().saturating_sub(most);
        let not_shown = left_out as u64 + before;
        let shown = match newest {
            true => lines.get(left_out..),
            false => lines.get(..lines.len() - left_out),
        };
        if not_shown > 0 && newest {
            self.line(&format!("({not_shown} {more})"))?;
        }
        shown.unwrap_or_default().iter().try_for_each(|line| self.line(line))?;
        if left_out > 0 && !newest {
            self.line(&format!("({left_out} {more})"))?;
        }
        Ok(())
    }
}

/// Writes it: as text on one screen, or as a row.
///
/// # Errors
/// If the output can't be written.
pub fn write(out: &mut Out, last: &Last, shape: Shape, zone: &Zone) -> io::Result<()> {
    match shape {
        Shape::Text => text(out, last, zone),
        shape => write_row(out, shape, true, &json::keys(last, zone)),
    }
}

fn text(out: &mut Out, last: &Last, zone: &Zone) -> io::Result<()> {
    head(out, last, zone)?;
    missing(out, last, zone)?;
    begun(out, last, zone)?;
    stuck(out, last, zone)?;
    devices(out, last, zone)?;
    slow(out, last, zone)?;
    threads(out, last)?;
    let puts: Vec<String> = last.puts.iter().map(|put| put_text(put, last.end, zone)).collect();
    let mut part = Part { out, name: "puts" };
    match puts.is_empty() {
        true => part.line(&no_puts(last))?,
        false => part.lines(&puts, puts.len(), true, "")?,
    }
    alarms(out, last, zone)?;
    console(out, last, zone)?;
    clients(out, last)
}

/// That no puts were recorded: in the minute, and in the time before it, as far as that is in the log.
fn no_puts(last: &Last) -> String {
    let before = duration(u64::try_from(last.from.saturating_sub(last.before)).unwrap_or(0));
    match last.from.saturating_sub(last.before) {
        ..=0 => "none recorded in this time".to_owned(),
        BEFORE.. => "none recorded in this time or the 2 minutes before".to_owned(),
        _ => format!("none recorded in this time or the {before} before"),
    }
}

/// Of an IOC without probes.
const NOT_SEEN: &str = "not known: recorded from packets alone";

fn head(out: &mut Out, last: &Last, zone: &Zone) -> io::Result<()> {
    let process = &last.process;
    let end = zone.format(last.end, 3);
    let what = match &last.ending {
        Ending::Ended(how) if how.is_empty() => format!("ended at {end}; how is not known"),
        Ending::Ended(how) => format!("{how} at {end}"),
        Ending::Unseen(_) => format!("ended unseen after {end}"),
        Ending::NotRecorded(cause) => format!("not recorded since {end}: {cause}"),
        Ending::Replaced => format!("not recorded since {end}: {NO_LOG}"),
        Ending::LogEnds => format!("still ran when the log ends, at {end}"),
        Ending::RunEnds => {
            format!("still ran when its recorder's run ended, at {end}; later logs don't tell of it")
        }
        Ending::Asked => format!("until {end}, as asked for"),
    };
    let host = known(&process.host).map(|host| format!(" on {host}")).unwrap_or_default();
    let mut part = Part { out, name: "IOC" };
    let place = format!("{}{host}, pid {}", without_pid(&process.ioc, process.pid), process.pid);
    match &last.ending {
        // a long story must not push the time off the screen
        Ending::Ended(how) if !fits(&format!("{place}: {what}")) => {
            part.line(&format!("{place}: ended at {end}"))?;
            part.line(how)?;
        }
        _ => part.line(&format!("{place}: {what}"))?,
    }
    if let Ending::Unseen(by) = last.ending {
        part.line(&format!("ended by {}: a part of the log is missing", zone.format(by, 3)))?;
    }
    if let (Ending::Replaced, Some((_, by))) = (&last.ending, process.replaced) {
        part.line(&format!("ended unseen by {}: another process of its name began", zone.format(by, 3)))?;
    }
    let span = duration(u64::try_from(last.end.saturating_sub(last.from)).unwrap_or(0));
    let is_late = matches!(&last.ending, Ending::Ended(how) if how.contains(" s before this was seen)"));
    let most = if is_late { "at most " } else { "" };
    let uptime = process.ran_until(last.end).map(|ran| format!("it had run for {most}{}; ", duration(ran)));
    let recorded = match last.end.saturating_sub(last.from) {
        ..=0 => "nothing of it is recorded".to_owned(),
        1..MINUTE => format!("only its last {span} are recorded"),
        _ => format!("its last {span}, from {}", zone.format(last.from, 3)),
    };
    part.line(&format!("{}{recorded}", uptime.unwrap_or_default()))
}

fn missing(out: &mut Out, last: &Last, zone: &Zone) -> io::Result<()> {
    let mut part = Part { out, name: "missing" };
    let text = |seen: &NotSeen| match (clock(seen.from, zone), clock(seen.to, zone)) {
        // to the end of the log
        (_, to) if seen.to.saturating_sub(seen.from) <= 1 => format!("after {to}: {}", seen.cause),
        (from, to) => format!("{from} to {to}: {}", seen.cause),
    };
    let mut lines: Vec<String> = last.not_seen.iter().map(text).collect();
    if let Some(begin) = last.begins() {
        let since =
            if lines.is_empty() && !last.sampled { "; nothing is known to be missing since" } else { "" };
        lines.insert(0, format!("before {}: its record begins then{since}", clock(begin, zone)));
    }
    if last.sampled {
        lines.insert(0, "chain sampling leaves out chains: counts and rates are minima".to_owned());
    }
    match lines.is_empty() {
        true => part.line("nothing is known to be missing in this time"),
        false => part.lines(&lines, MOST_MISSING, false, "more; see iocreplay info"),
    }
}

fn begun(out: &mut Out, last: &Last, zone: &Zone) -> io::Result<()> {
    let mut part = Part { out, name: "unfinished" };
    let mut lines: Vec<String> = last.begun.iter().map(|begun| begun_text(begun, last.end, zone)).collect();
    for unanswered in &last.unanswered {
        let put = &unanswered.put;
        let pv = put.pv.as_deref().unwrap_or("(unnamed channel)");
        lines.push(format!(
            "{} {pv}: put with callback, no answer seen, {}",
            clock(put.time, zone),
            who(put)
        ));
    }
    if lines.is_empty() {
        return part.line(match last.packets_only {
            true => NOT_SEEN,
            false => "no record was seen to begin and not to complete",
        });
    }
    let more = (last.more_begun, "earlier records that were not seen to complete");
    part.lines_of_more(&lines, MOST_BEGUN, true, more)
}

fn begun_text(begun: &Begun, end: i64, zone: &Zone) -> String {
    let mut text = format!(
        "{} {}: begun {} before the end",
        clock(begun.time, zone),
        begun.record,
        ago(begun.time, end)
    );
    if begun.waits {
        text.push_str(", asked for a delay");
    } else if begun.active {
        text.push_str(", was seen active");
    }
    let _ = write!(text, "; {}", begun.cause);
    text
}

fn threads(out: &mut Out, last: &Last) -> io::Result<()> {
    let mut part = Part { out, name: "threads" };
    if last.threads.is_empty() {
        return part.line(match last.packets_only {
            true => NOT_SEEN,
            false => "no thread was seen to do anything",
        });
    }
    let compared = last.before < last.from;
    let before = |text: &str| if compared { format!(" {text:>10}") } else { String::new() };
    // what was lost was not counted
    let least = if last.lost_before { ">=" } else { "" };
    part.line(&format!("{:<18} {:>12}{}  last seen", "", "processed/s", before("before")))?;
    let per_second = |count, from, to| match rate(last, count, from, to) {
        Some(rate) => format!("{rate:.1}"),
        None => "-".to_owned(),
    };
    let text = |thread: &ThreadLine| {
        let mut name = known(&thread.name).map_or_else(|| "?".to_owned(), words::name);
        if thread.threads > 1 {
            let _ = write!(name, " ({})", thread.threads);
        }
        let now = per_second(thread.in_minute, last.from, last.end);
        let of_before = per_second(thread.before, last.before, last.from);
        let before = before(&format!("{}{of_before}", if of_before == "-" { "" } else { least }));
        format!(
            "{name:<18} {now:>12}{before}  {} before the end: {}",
            ago(thread.last, last.end),
            known(&thread.record).unwrap_or("?")
        )
    };
    let lines: Vec<String> = last.threads.iter().map(text).collect();
    part.lines(&lines, MOST_THREADS, false, "more that did something earlier")
}

fn put_text(put: &PutLine, end: i64, zone: &Zone) -> String {
    let pv = put.pv.as_deref().unwrap_or("(unnamed channel)");
    let mut text = format!("{} {pv} {}  {}", clock(put.time, zone), change(put), who(put));
    if put.status != "ok" {
        let _ = write!(text, "  {}", put.status);
    }
    if end.saturating_sub(put.time) > MINUTE {
        let _ = write!(text, "  ({} before)", ago(put.time, end));
    }
    text
}

fn alarms(out: &mut Out, last: &Last, zone: &Zone) -> io::Result<()> {
    let mut part = Part { out, name: "alarms" };
    let name = |alarm: Option<Alarm>| {
        alarm.map_or("?".to_owned(), |(severity, status)| enum_strings::alarm(severity, status))
    };
    let text = |line: &AlarmLine| {
        let mut text = format!("{} {} ", clock(line.time, zone), line.place.record);
        let _ = match line.what.name() {
            "flapping" => write!(text, "flaps: {} changes, the last {}", line.changes, name(line.to)),
            "acknowledged" => {
                let put = line.put.as_deref();
                write!(text, "{}  {}", put.map(change).unwrap_or_default(), put.map(who).unwrap_or_default())
            }
            _ => write!(text, "{} -> {}", name(line.from), name(line.to)),
        };
        if line.source == Source::Snapshot {
            text.push_str("  found so by the recorder: since when and why is not known");
        }
        if let Some(cause) = &line.cause {
            text.push_str("  ");
            push_all(&mut text, cause, &line.inputs);
        }
        text
    };
    let lines: Vec<String> = last.alarms.iter().map(text).collect();
    let more = (last.more_alarms, "earlier changes; see iocreplay alarms");
    part.lines_of_more(&lines, MOST_ALARMS, true, more)?;
    let when_seen = last.in_alarm_when_seen;
    match (lines.is_empty() && when_seen == 0, last.in_alarm) {
        (true, 0) if last.packets_only => part.line(NOT_SEEN)?,
        (true, 0) => part.line("none")?,
        (_, 0) if when_seen > 0 => {}
        (_, 1) => part.line(&format!("1 record was in alarm at the end{}", standing(last)))?,
        (_, count) => part.line(&format!("{count} records were in alarm at the end{}", standing(last)))?,
    }
    if when_seen > 0 {
        let records = counted(when_seen as u64, "record");
        part.line(&format!("{records} in alarm when last seen; at the end it is not known"))?;
    }
    Ok(())
}

/// The worst of the alarms that have lasted for longer than anything was seen of their records.
fn standing(last: &Last) -> String {
    let mut text = String::new();
    for (alarm, record) in last.standing.iter().take(MOST_STANDING) {
        text.push_str(if text.is_empty() { "; since before: " } else { ", " });
        let _ = write!(text, "{record} {}", enum_strings::alarm(alarm.0, alarm.1));
    }
    let more = last.standing.len().saturating_sub(MOST_STANDING);
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text
}

fn stuck(out: &mut Out, last: &Last, zone: &Zone) -> io::Result<()> {
    if last.hangs.is_empty() {
        return Ok(());
    }
    let mut part = Part { out, name: "stuck" };
    let lines: Vec<String> =
        last.hangs.iter().map(|row| format!("{} {}", clock(row.time, zone), row.text)).collect();
    part.lines_of_more(&lines, MOST_STUCK, true, (0, "earlier; see iocreplay stuck"))
}

fn devices(out: &mut Out, last: &Last, zone: &Zone) -> io::Result<()> {
    if last.devices.is_empty() {
        return Ok(());
    }
    let mut part = Part { out, name: "devices" };
    let text = |line: &NetLine| {
        format!(
            "{} {}: {}",
            clock(line.since, zone),
            line.servers.join(", "),
            of_device(line, &|time| clock(time, zone))
        )
    };
    let lines: Vec<String> = last.devices.iter().map(text).collect();
    part.lines_of_more(&lines, MOST_DEVICES, true, (0, "earlier; see iocreplay net"))
}

fn slow(out: &mut Out, last: &Last, zone: &Zone) -> io::Result<()> {
    if last.slow.is_empty() {
        return Ok(());
    }
    let mut part = Part { out, name: "slow" };
    let text = |(line, slow): &(ClientLine, Slow)| {
        format!("{} {} {}", clock(slow.since, zone), line.client, slow_words(slow, &|time| clock(time, zone)))
    };
    let lines: Vec<String> = last.slow.iter().map(text).collect();
    part.lines_of_more(&lines, MOST_SLOW, true, (0, "earlier; see iocreplay clients"))
}

fn console(out: &mut Out, last: &Last, zone: &Zone) -> io::Result<()> {
    // an older log, or an IOC that prints nothing: no room is spent on that
    if last.said.is_empty() {
        return Ok(());
    }
    let mut part = Part { out, name: "console" };
    let lines: Vec<String> =
        last.said.iter().map(|row| format!("{} {}", clock(row.time, zone), said(row))).collect();
    part.lines_of_more(&lines, MOST_SAID, true, (last.more_said, "earlier lines; see iocreplay console"))
}

fn clients(out: &mut Out, last: &Last) -> io::Result<()> {
    let mut part = Part { out, name: "clients" };
    let text = |line: &ClientLine| {
        let name = |text: &str| words::name(known(text).unwrap_or("?"));
        let mut text = format!("{}@{} {}", name(&line.user), name(&line.client_host), line.client);
        let _ = write!(text, ", {}", counted(line.channels, "channel"));
        if line.puts > 0 {
            let _ = write!(text, ", {} in this time", counted(line.puts, "put"));
        }
        if let Some(ioc) = known(&line.client_ioc) {
            let _ = write!(text, ", is IOC {}", words::ioc(ioc));
        }
        text
    };
    let mut clients: Vec<&ClientLine> = last.clients.iter().collect();
    clients.sort_by_key(|line| std::cmp::Reverse(line.puts));
    let lines: Vec<String> = clients.into_iter().map(text).collect();
    match lines.is_empty() {
        true => part.line("none was seen to be connected at the end"),
        false => part.lines(&lines, MOST_CLIENTS, false, "more connected; see iocreplay clients"),
    }
}

/// The time of day of a moment, to the millisecond.
fn clock(time: i64, zone: &Zone) -> String {
    let text = zone.format(time, 3);
    text.get(11..23).unwrap_or(&text).to_owned()
}

fn ago(time: i64, end: i64) -> String {
    duration(u64::try_from(end.saturating_sub(time)).unwrap_or(0))
}
