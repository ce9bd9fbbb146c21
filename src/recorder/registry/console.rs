//! What an IOC prints, line by line.
//!
//! The programs send what each call of `write` and `writev` hands to standard output and standard error. Here it becomes
//! lines: of each thread and descriptor, up to a line feed. Promises: never text that someone types (what the main thread
//! writes to a terminal counts only if it ends with a line feed, since readline echoes keys without one); at most as many
//! lines a second as the operator allows, the others counted; bounded memory.

use std::collections::HashMap;

use iocrec_log::event::{ConsoleLeftOut, ConsoleLine, Fact, IocId, Output, ThreadId};

use crate::linux::text::printable;
use crate::recorder::env::Env;

/// Bytes of a line that are kept. Base's own messages are at most 256 bytes long.
const MAX_LINE: usize = 1024;
/// Lines begun and not ended at a time.
const MAX_OPEN: usize = 64;
/// Time without more text after which a line that has not ended is handed over, nanoseconds.
const PATIENCE: u64 = 200_000_000;
/// Time for which it is remembered what standard output is, nanoseconds: who redirects it does so at the start.
const REMEMBERED: u64 = 10_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// Bytes of a call of `writev` that has more pieces than the programs read; as many are cut.
const MUCH: u32 = u32::MAX;
/// Calls of `write` that the programs keep for each line: C++ streams make several.
const WRITES_A_LINE: u32 = 8;

/// Calls of `write` a second that the programs keep for this number of lines.
pub fn writes(lines: u32) -> u32 {
    lines.saturating_mul(WRITES_A_LINE)
}

/// A call of `write`.
#[derive(Clone, Copy, Debug)]
pub struct Written<'a> {
    /// Monotonic time.
    pub time: u64,
    /// The thread's number in the kernel.
    pub tid: u32,
    /// The thread.
    pub thread: ThreadId,
    /// Its stack pointer, as in the log.
    pub sp: i64,
    /// 1 standard output, 2 standard error.
    pub descriptor: u64,
    /// Its bytes.
    pub length: u32,
    /// The first of them.
    pub text: &'a [u8],
}

/// A line that has begun.
struct Begun {
    time: u64,
    thread: ThreadId,
    sp: i64,
    output: Output,
    text: Vec<u8>,
    cut: u32,
}

/// The console of one IOC.
#[derive(Default)]
pub struct Console {
    begun: HashMap<(u32, u64), Begun>,
    /// What standard output is, and when that was looked at.
    stdout: Option<(Output, u64)>,
    /// The second in which lines are counted, and how many were kept in it.
    window: u64,
    kept: u32,
    /// What was left out since it was last noted, and since when.
    lines: u64,
    since: u64,
    /// Writes that the programs have left out, as far as noted.
    writes: u64,
}

impl Console {
    /// Takes a call of `write` of the process `pid`.
    pub fn write(&mut self, env: &mut Env<'_>, pid: u32, written: Written<'_>) {
        let Written { time, tid, descriptor, length, text, .. } = written;
        let output = if descriptor == 2 { Output::Error } else { self.stdout(env, pid, time) };
        let is_whole = text.len() >= length as usize;
        if may_echo(output, tid == pid) && !(is_whole && text.ends_with(b"\n")) {
            return;
        }
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.iter().position(|&byte| byte == b'\n');
            let (piece, behind) = rest.split_at(end.unwrap_or(rest.len()));
            rest = behind.get(1..).unwrap_or_default();
            let begun = self.begin(&written, output);
            let room = MAX_LINE.saturating_sub(begun.text.len());
            let (kept, cut) = piece.split_at(room.min(piece.len()));
            begun.text.extend_from_slice(kept);
            begun.cut = begun.cut.saturating_add(cut.len() as u32);
            if end.is_some() {
                self.hand_over(env, (tid, descriptor), true);
            }
        }
        if !is_whole {
            // whether the rest has a line feed is not known
            let begun = self.begin(&written, output);
            let more = if length == MUCH { MUCH } else { length - text.len() as u32 };
            begun.cut = begun.cut.saturating_add(more);
            self.hand_over(env, (tid, descriptor), false);
        }
        if self.begun.len() > MAX_OPEN {
            self.flush(env, u64::MAX);
        }
    }

    /// The line to which a call of `write` adds.
    fn begin(&mut self, written: &Written<'_>, output: Output) -> &mut Begun {
        let Written { time, tid, thread, sp, descriptor, .. } = *written;
        let begun = self.begun.entry((tid, descriptor));
        let begun = begun.or_insert(Begun { time, thread, sp, output, text: Vec::new(), cut: 0 });
        (begun.time, begun.sp) = (time, sp);
        begun
    }

    /// Hands over the lines that have not ended and to which nothing was added for a while, and notes what was left out.
    /// `writes`: calls that the programs have left out so far. Call this each second, and with the time `u64::MAX` at the
    /// process's end.
    pub fn second(&mut self, env: &mut Env<'_>, ioc: IocId, now: u64, writes: Option<u64>) {
        self.flush(env, now);
        let writes = writes.unwrap_or(self.writes);
        let new = writes.saturating_sub(self.writes);
        if self.lines > 0 || new > 0 {
            let time = env.monotonic();
            let since = if self.lines > 0 { self.since } else { time.saturating_sub(SECOND) };
            let fact = ConsoleLeftOut { ioc, lines: self.lines, writes: new, since };
            env.push(time, Fact::ConsoleLeftOut(fact));
        }
        (self.lines, self.writes) = (0, writes);
    }

    /// Whether something was printed lately: [`Console::second`] has work.
    pub fn is_busy(&self, now: u64) -> bool {
        !self.begun.is_empty() || self.lines > 0 || now.saturating_sub(self.window) < 3 * SECOND
    }

    fn flush(&mut self, env: &mut Env<'_>, now: u64) {
        let is_old = |begun: &Begun| now.saturating_sub(begun.time) >= PATIENCE;
        let old = self.begun.iter().filter(|(_, begun)| is_old(begun)).map(|(key, _)| *key);
        for key in old.collect::<Vec<_>>() {
            self.hand_over(env, key, false);
        }
    }

    fn hand_over(&mut self, env: &mut Env<'_>, key: (u32, u64), is_ended: bool) {
        let Some(begun) = self.begun.remove(&key) else { return };
        let Begun { time, thread, sp, output, mut text, cut } = begun;
        if text.ends_with(b"\r") && is_ended {
            text.pop();
        }
        if text.is_empty() && cut == 0 {
            return;
        }
        if time.saturating_sub(self.window) >= SECOND {
            (self.window, self.kept) = (time, 0);
        }
        if self.kept >= env.options.console_rate {
            if self.lines == 0 {
                self.since = time;
            }
            self.lines += 1;
            return;
        }
        self.kept += 1;
        env.push(time, Fact::from(ConsoleLine { thread, sp, output, text: printable(&text), cut, is_ended }));
    }

    /// What standard output is.
    fn stdout(&mut self, env: &Env<'_>, pid: u32, time: u64) -> Output {
        if let Some((output, looked)) = self.stdout {
            if time.saturating_sub(looked) < REMEMBERED {
                return output;
            }
        }
        let link = env.procfs().descriptor(pid, 1);
        let output = if link.is_empty() {
            Output::Unknown
        } else if ["/dev/pts/", "/dev/tty", "/dev/console"].iter().any(|begin| link.starts_with(begin)) {
            Output::Terminal
        } else {
            Output::Pipe
        };
        self.stdout = Some((output, time));
        output
    }
}

/// Whether what is written may be the echo of what someone types: readline writes it to standard output, from the thread
/// that reads commands.
fn may_echo(output: Output, is_main: bool) -> bool {
    is_main && matches!(output, Output::Terminal | Output::Unknown)
}

#[cfg(test)]
mod tests;
