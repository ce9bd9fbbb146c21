//! What an IOC said, and what it died of.

use super::ids::*;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The descriptor that a process wrote to, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// Standard output, a terminal: the C library keeps a line at most.
    Terminal,
    /// Standard output, a pipe or a file: the C library keeps some kilobytes, so the text may be older than its time, and
    /// other threads' as well.
    Pipe,
    /// Standard output; whether it is a terminal is unknown.
    Unknown,
    /// Standard error, which is not kept back.
    Error,
}

/// A line that an IOC wrote to its console.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleLine {
    /// The thread that wrote its end.
    pub thread: ThreadId,
    /// Stack pointer at the entry of `write`, below the top of the thread's stack.
    pub sp: i64,
    /// Where it went.
    pub output: Output,
    /// The line without its end, with the colours and other sequences for terminals. Bytes that are not UTF-8 are `\xNN`.
    pub text: String,
    /// Bytes of the line that are not in `text`.
    pub cut: u32,
    /// Whether it has ended; if not, more of it may come as another line.
    pub is_ended: bool,
}

/// Text that an IOC wrote to its console and that was left out, since it was too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleLeftOut {
    /// The IOC.
    pub ioc: IocId,
    /// Lines left out.
    pub lines: u64,
    /// Calls of `write` left out, whose lines were not counted.
    pub writes: u64,
    /// Monotonic time after which the first of them was written; the last was written before the time of this event.
    pub since: u64,
}

impl fmt::Display for ConsoleLeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |f: &mut fmt::Formatter<'_>, count: u64, what: &str| {
            write!(f, "{count} {what}{}", if count == 1 { "" } else { "s" })
        };
        match (self.lines, self.writes) {
            (lines, 0) => number(f, lines, "line"),
            (0, writes) => number(f, writes, "write"),
            (lines, writes) => {
                number(f, lines, "line")?;
                f.write_str(" and ")?;
                number(f, writes, "write")
            }
        }
    }
}

/// A thread sent a message to EPICS' errlog. From Base 7.0.7 on another thread prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrlogCall {
    /// The thread.
    pub thread: ThreadId,
    /// Stack pointer at the function's entry.
    pub sp: i64,
    /// Its caller.
    pub site: CallSiteId,
    /// 0 info, 1 minor, 2 major, 3 fatal (errlog.h); `None` if it was sent without a severity.
    pub severity: Option<u16>,
    /// Its format as for printf, perhaps cut.
    pub format: String,
}

/// How an IOC's thread gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GaveUp {
    /// `exit` with this status: the process ends.
    Exit(i32),
    /// `epicsAssert`: the thread is suspended for ever, with what it holds; the process lives on.
    EpicsAssert,
}

/// A thread of an IOC ended the process, or gave itself up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivingUp {
    /// The thread.
    pub thread: ThreadId,
    /// Stack pointer at the function's entry.
    pub sp: i64,
    /// Its caller.
    pub site: CallSiteId,
    /// How.
    pub how: GaveUp,
    /// Of an assertion, the source file; else empty. Perhaps cut.
    pub file: String,
    /// And its line.
    pub line: u32,
    /// And what should have been true. Perhaps cut.
    pub expression: String,
}

impl fmt::Display for GivingUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GivingUp { file, line, expression, .. } = self;
        match self.how {
            GaveUp::Exit(status) => write!(f, "calls exit({status})"),
            GaveUp::EpicsAssert => {
                write!(f, "is suspended for ever: assertion \"{expression}\" failed at {file}:{line}")
            }
        }
    }
}
