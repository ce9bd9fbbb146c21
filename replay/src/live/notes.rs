//! What the recorder noted of IOCs and of itself, each as a line: how IOCs ended, threads that hang, losses, marks.
//!
//! Each is told when the recorder told it, since who follows a log waits for news. Definitions that a segment repeats at
//! its beginning are none; but that it does not repeat something, which has ended unseen then, is news.

use crate::answers::hangs::of_time;
use crate::filter::Filter;
use crate::logs::Logs;
use crate::model::run::Run;
use crate::names::{lost, number_of, source_name, things};
use crate::reading::ended_unseen::UNSEEN;
use crate::reading::runs::set::SetLater;
use crate::reading::scan::{Blocks, Part, Scan};
use crate::words::{self, counted, name, signal_name};
use iocrec_log::context::Context;
use iocrec_log::event::{
    Fact, IocId, Loss, LossSource, QueueFill, SignalFrom, SignalSent, Stuck, StuckEnd, Wait,
};
use iocrec_log::reader::{About, Choice};
use std::sync::Arc;

/// Notes of a run; a bound for hostile logs. The latest are kept.
const MAX_NOTES: usize = 20_000;
/// Bytes of a text; likewise.
const MAX_TEXT: usize = 4096;
/// A queue that fills is noted again when more is known of it. It is told within this time, nanoseconds, and later if entries were lost.
const FIRST: u64 = 3_000_000_000;

/// Kinds of notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An IOC ended or crashed, or got a signal that may kill it.
    Death,
    /// A thread stands still, or runs again; scans come too late; a queue fills.
    Hang,
    /// Something was not recorded.
    Loss,
    /// An operator's mark.
    Mark,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// Worth knowing.
    Notice,
    /// It should not be.
    Warning,
    /// Something does not work.
    Error,
    /// An IOC is gone.
    Critical,
}

/// A note.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// Wall-clock time, nanoseconds since 1970 UTC.
    pub time: i64,
    /// Its place in the order of time.
    pub even: i64,
    /// Host; empty if unknown.
    pub host: String,
    /// The IOC; empty if it is about none, or unknown.
    pub ioc: String,
    /// Its process.
    pub pid: Option<u32>,
    /// What it is about.
    pub kind: Kind,
    /// The same more exactly, for programs.
    pub what: &'static str,
    /// The sentence.
    pub text: String,
    /// How many, of losses.
    pub count: Option<u64>,
    /// Where, of losses.
    pub source: Option<&'static str>,
    /// How bad it is.
    pub grade: Grade,
}

/// A fact in words.
struct Told {
    ioc: Option<IocId>,
    kind: Kind,
    what: &'static str,
    text: String,
    grade: Grade,
    loss: Option<(u64, &'static str)>,
}

impl Told {
    fn new(ioc: IocId, kind: Kind, what: &'static str, grade: Grade, text: String) -> Option<Told> {
        Some(Told { ioc: Some(ioc), kind, what, text, grade, loss: None })
    }
}

/// A fact in words, if it is told. `unseen`: it is an end that nobody saw, known by what a keyframe does not name.
fn told(context: &Context, time: u64, fact: &Fact, unseen: bool) -> Option<Told> {
    let name = |id| context.record(id).map(|record| record.name.to_owned());
    match fact {
        Fact::IocEnd(end) => {
            let how = if end.how.is_empty() { "it is not known how" } else { &end.how };
            let is_well = end.how.starts_with("exit status 0");
            let grade = if is_well { Grade::Notice } else { Grade::Critical };
            let text = match unseen {
                true => format!("the IOC had ended by then, {how}"),
                false => format!("the IOC ended: {how}"),
            };
            Told::new(end.ioc, Kind::Death, "ended", grade, text)
        }
        Fact::Crash(crash) => {
            let record = crash.record.and_then(name).map(|name| format!(", processing {name}"));
            let handled = if crash.handled { "; a handler of its own got it" } else { "" };
            let signal = signal_name(crash.signal);
            let thread = words::name(&crash.thread);
            let text = format!("thread {thread} got {signal}{}{handled}", record.unwrap_or_default());
            Told::new(crash.ioc, Kind::Death, "crashed", Grade::Critical, text)
        }
        Fact::SignalSent(sent) => {
            let kernel = context.host().map_or("", |host| host.kernel.as_str());
            let own = context.ioc(sent.ioc).is_some_and(|ioc| ioc.pid == sent.pid);
            Told::new(sent.ioc, Kind::Death, "signal", Grade::Warning, signal(sent, kernel, own))
        }
        Fact::Stuck(stuck) => {
            let text = stuck.sentence(None, &|id| name(id));
            Told::new(stuck.ioc, Kind::Hang, "stuck", Grade::Error, text)
        }
        Fact::StuckEnd(end) => {
            let stuck = context.stuck(end.id)?;
            Told::new(stuck.ioc, Kind::Hang, "over", Grade::Notice, over(stuck, end, unseen))
        }
        Fact::ScanOverruns(late) => {
            let list = context.scan_list(late.list).map_or("an unknown list", |list| list.name.as_str());
            let text = format!("{} of {list} came too late", counted(late.more, "scan"));
            Told::new(late.ioc, Kind::Hang, "late", Grade::Warning, text)
        }
        Fact::QueueFill(fill) => queue(fill, time, fill.record.and_then(name).as_deref()),
        Fact::Loss(loss) => {
            let text = of_loss(loss);
            let loss = Some((loss.count, source_name(loss.source)));
            Some(Told { ioc: None, kind: Kind::Loss, what: "lost", text, grade: Grade::Warning, loss })
        }
        Fact::Mark(text) => {
            let (text, grade) = (text.clone(), Grade::Notice);
            Some(Told { ioc: None, kind: Kind::Mark, what: "mark", text, grade, loss: None })
        }
        _ => None,
    }
}

fn over(stuck: &Stuck, end: &StuckEnd, unseen: bool) -> String {
    let who = match stuck.thread.as_str() {
        _ if stuck.wait.is_of_process() => "the process".to_owned(),
        "" => format!("thread {}", stuck.tid),
        thread => format!("thread {}", name(thread)),
    };
    let seconds = end.after.saturating_sub(stuck.since) as f64 / 1e9;
    let now = match (end.has_ended, stuck.wait) {
        _ if unseen => return format!("{who}: over after at least {seconds:.1} s, {UNSEEN}"),
        (true, _) => "has ended",
        (false, Wait::Spins) => "spins no more",
        (false, _) => "runs again",
    };
    format!("{who} {now}, after at least {seconds:.1} s")
}

fn of_loss(loss: &Loss) -> String {
    let Loss { source, count, cause, .. } = loss;
    match (count, source) {
        (0, LossSource::Storage) => format!("recording was interrupted: {cause}"),
        (0, _) => format!("{}: {cause}", lost(loss)),
        // what is not counted by bytes, as segments and subscriptions: its cause goes on from the number
        (_, LossSource::Stream) if !cause.starts_with("bytes") => format!("lost of streams: {count} {cause}"),
        (_, LossSource::Stream) => format!("lost {} of streams: {cause}", counted(*count, "byte")),
        _ => format!("lost {}: {cause}", number_of(*count, things(loss))),
    }
}

/// A signal in words. `own`: the process itself is said to have sent it.
fn signal(sent: &SignalSent, kernel: &str, own: bool) -> String {
    const KILL: u16 = 9;
    let signal = signal_name(sent.signal);
    let by = match sent.from {
        _ if sent.signal == 0 => return format!("{} went unrecorded", counted(sent.left_out, "signal")),
        // while any process ran; a process may choose such a code, too
        SignalFrom::Kernel if sent.code < 0 => {
            format!("a timer, a message queue or the like (si_code {})", sent.code)
        }
        SignalFrom::Kernel => "the kernel".to_owned(),
        SignalFrom::OutOfMemory => "the kernel, which needed memory".to_owned(),
        SignalFrom::Process => {
            let is_sure = sent.signal != KILL || sent.code != 0 || !hides_its_kills(kernel);
            let or = if is_sure { "" } else { " or by the kernel for lack of memory" };
            let is_alike = own && sent.code == 0 && is_sent_alike(sent.signal);
            let or = if is_alike { " or by the kernel" } else { or };
            format!("{} (pid {}) of {}{or}", name(&sent.program), sent.pid, sent.user)
        }
    };
    let more =
        if sent.left_out > 0 { format!("; {} more were not recorded", sent.left_out) } else { String::new() };
    format!("{signal} was sent by {by}{more}")
}

/// Whether the kernel sends a signal to a thread as kill() of itself would: SIGPIPE, where nobody reads a pipe, and SIGXFSZ, where a
/// file has come to its limit.
fn is_sent_alike(signal: u16) -> bool {
    matches!(signal, 13 | 25)
}

/// Whether a kernel shows its SIGKILL for lack of memory as one of the process that asked for memory, and says nothing else of
/// it: before Linux 4.14.
fn hides_its_kills(kernel: &str) -> bool {
    let mut numbers = kernel.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    let version = (numbers.next(), numbers.next());
    matches!(version, (Some(major), Some(minor)) if (major, minor) < (4, 14))
}

fn queue(fill: &QueueFill, time: u64, record: Option<&str>) -> Option<Told> {
    if !fill.is_over && fill.overflows == 0 && time.saturating_sub(fill.since) > FIRST {
        return None;
    }
    let lasted = fill.last.saturating_sub(fill.since) as f64 / 1e9;
    let lasted = format!("{lasted:.0} s");
    let text = fill.sentence(fill.is_over.then_some(lasted.as_str()), record);
    let grade = if fill.is_over { Grade::Notice } else { Grade::Warning };
    Told::new(fill.ioc, Kind::Hang, "queue", grade, text)
}

impl Logs {
    /// The notes that match, in order of time: those of IOCs by their names, all by their hosts.
    pub fn notes(&self, filter: &Filter) -> Vec<Note> {
        let mut notes = Vec::new();
        for (number, files) in self.runs().iter().enumerate() {
            let files = of_time(files, filter);
            let run = Run::new(SetLater::find(files));
            if let Some(course) = self.courses().get(number).filter(|course| course.is_set_back()) {
                run.runs_in(course.clone());
            }
            let mut scan = Scan::new(files, Blocks::All);
            if self.uses_index() {
                scan.choose(Arc::new(|about: &About| match about.classes {
                    Some(classes) if !classes.notes() && !about.defines => Choice::Pass,
                    _ => Choice::Read,
                }));
            }
            let first = notes.len();
            // what can't be read is reported by whoever reads the rest
            for part in scan {
                let Part::Block(block) = part else { continue };
                for event in &block.events {
                    // no keyframe that was written tells ends
                    let is_end = matches!(event.fact, Fact::IocEnd(_) | Fact::StuckEnd(_));
                    if !block.keyframe || is_end {
                        let note = note(&run, event.time, &event.fact, block.keyframe);
                        notes.extend(note.filter(|note| is_wanted(filter, note)));
                    }
                    if event.fact.class().defines() {
                        run.apply(event.time, &event.fact);
                    }
                }
                if notes.len() > first + 2 * MAX_NOTES {
                    notes.drain(first..first + MAX_NOTES);
                }
            }
        }
        let between = self.between(filter).into_iter().filter(|between| filter.place(&between.host, ""));
        notes.extend(between.map(|between| Note {
            time: between.time,
            even: self.even(between.time),
            text: between.sentence(),
            host: between.host,
            ioc: String::new(),
            pid: None,
            kind: Kind::Loss,
            what: "unrecorded",
            count: None,
            source: None,
            grade: Grade::Warning,
        }));
        notes.sort_by_key(|note| note.even);
        notes
    }
}

fn is_wanted(filter: &Filter, note: &Note) -> bool {
    filter.place(&note.host, &note.ioc)
        && filter.since.is_none_or(|since| note.time >= since)
        && filter.until.is_none_or(|until| note.time < until)
}

fn note(run: &Run, time: u64, fact: &Fact, unseen: bool) -> Option<Note> {
    let Told { ioc, kind, what, mut text, grade, loss } = told(&run.context(), time, fact, unseen)?;
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push_str(" ... (cut)");
    }
    let (wall, even, host) = (run.wall(time), run.even(time), run.host());
    let context = run.context();
    let ioc = ioc.and_then(|id| context.ioc(id));
    let (name, pid) = (ioc.map(|ioc| ioc.name.clone()).unwrap_or_default(), ioc.map(|ioc| ioc.pid));
    let (count, source) = (loss.map(|loss| loss.0), loss.map(|loss| loss.1));
    Some(Note { time: wall, even, host, ioc: name, pid, kind, what, text, count, source, grade })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It fills slowly: that entries are lost is news, also minutes later; that a thread was found is not.
    #[test]
    fn a_queue_that_overflows_late() {
        let told = |seconds: u64, overflows| {
            let fill = QueueFill {
                ioc: 1,
                queue: iocrec_log::event::Queue::Low,
                since: 0,
                last: seconds * 1_000_000_000,
                is_over: false,
                size: 2000,
                used: 2000,
                most: 2000,
                overflows,
                thread: String::new(),
                record: None,
            };
            queue(&fill, seconds * 1_000_000_000, None).map(|told| told.text)
        };
        assert!(told(1, 0).is_some_and(|text| text.contains(" fills: ")));
        assert_eq!(told(60, 0), None);
        assert!(told(120, 5).is_some_and(|text| text.contains("has overflowed 5 times")));
    }

    #[test]
    fn senders_of_signals() {
        let of_kernel = SignalSent {
            ioc: 1,
            signal: 0,
            code: 0,
            from: SignalFrom::Kernel,
            pid: 0,
            uid: 0,
            user: String::new(),
            program: String::new(),
            command: Vec::new(),
            left_out: 0,
        };
        let told = |number, code, left_out| {
            signal(&SignalSent { signal: number, code, left_out, ..of_kernel.clone() }, "4.9.115", false)
        };
        assert_eq!(told(15, 0x80, 0), "SIGTERM was sent by the kernel");
        assert_eq!(told(15, -2, 0), "SIGTERM was sent by a timer, a message queue or the like (si_code -2)");
        assert_eq!(told(0, 0, 5), "5 signals went unrecorded", "it is no signal, but a number");
        let (user, program) = ("op".to_owned(), "bash".to_owned());
        let killed = SignalSent { signal: 9, from: SignalFrom::Process, pid: 12, user, program, ..of_kernel };
        let sure = "SIGKILL was sent by bash (pid 12) of op";
        for kernel in ["4.14.0", "6.1.0-18-amd64", "4.19", "?", ""] {
            assert_eq!(signal(&killed, kernel, false), sure, "{kernel}");
        }
        for kernel in ["4.9.115", "4.13.0-46-generic", "3.10.0-1160.el7.x86_64"] {
            let said = signal(&killed, kernel, false);
            assert_eq!(said, format!("{sure} or by the kernel for lack of memory"));
        }
        let odd = SignalSent { program: "x (pid 1) of r".to_owned(), ..killed.clone() };
        assert_eq!(signal(&odd, "6.1", false), "SIGKILL was sent by \"x (pid 1) of r\" (pid 12) of op");
        let of_limit = SignalSent { signal: 25, ..killed.clone() };
        assert_eq!(signal(&of_limit, "6.1", false), "SIGXFSZ was sent by bash (pid 12) of op");
        let said = signal(&of_limit, "6.1", true);
        assert_eq!(said, "SIGXFSZ was sent by bash (pid 12) of op or by the kernel", "its file's size");
        let by_thread = SignalSent { code: -6, ..killed };
        assert_eq!(signal(&by_thread, "4.9.115", false), sure, "the kernel gives no such code");
    }

    /// Of the records of a list that claims an absurd number some are missing, but recording went on.
    #[test]
    fn only_storing_is_interrupted() {
        let of =
            |source, count, cause: &str| of_loss(&Loss { source, count, since: 0, cause: cause.to_owned() });
        let told = |source, count| of(source, count, "why");
        assert_eq!(told(LossSource::Storage, 0), "recording was interrupted: why");
        assert_eq!(told(LossSource::Names, 0), "an unknown number of names lost: why");
        assert_eq!(told(LossSource::Names, 3), "lost 3 names: why");
        assert_eq!(told(LossSource::Storage, 3), "lost 3 events: why");
        let bytes = of(LossSource::Stream, 3, "bytes were not captured");
        assert_eq!(bytes, "lost 3 bytes of streams: bytes were not captured");
        let resets = of(LossSource::Stream, 3, "TCP resets not believed");
        assert_eq!(resets, "lost of streams: 3 TCP resets not believed");
    }

    #[test]
    fn ends_of_hangs() {
        let told = |thread: &str, wait, has_ended| {
            let stuck = Stuck {
                id: 1,
                ioc: 1,
                tid: 12,
                thread: thread.into(),
                after: 0,
                since: 1_000_000_000,
                wait,
                object: String::new(),
                call: None,
                record: None,
                is_lockset: false,
                holder: None,
            };
            over(&stuck, &StuckEnd { id: 1, ioc: 1, after: 5_000_000_000, has_ended }, false)
        };
        assert_eq!(told("cbLow", Wait::Sleep, false), "thread cbLow runs again, after at least 4.0 s");
        assert_eq!(told("cbLow", Wait::Spins, false), "thread cbLow spins no more, after at least 4.0 s");
        assert_eq!(told("", Wait::Mutex, true), "thread 12 has ended, after at least 4.0 s");
        assert_eq!(told("", Wait::Stopped, false), "the process runs again, after at least 4.0 s");
    }
}
