//! Signals and crashes of the recorded processes, from the programs of [`crate::deaths`].
//!
//! An event is held until the hits have been taken once more: so what its thread processed is known.

use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::os::fd::RawFd;
use std::time::Duration;

use iocrec_log::event::{Fact, LossSource, SignalFrom, SignalSent};

use crate::deaths::{Deaths as Programs, Event, Sent, What};
use crate::ioc::redact;
use crate::linux::{process, user};
use crate::recorder::context::Context;
use crate::recorder::env::Env;
use crate::recorder::processes::crash;
use crate::recorder::registry::dying::Signal;
use crate::recorder::registry::traced_ioc::TracedIoc;
use crate::recorder::sources::{Lost, Resting, Source, UNTIL_WOKEN};

/// Time after a signal in which the number of those left out is looked at, nanoseconds: they are counted by the second.
const AFTER: u64 = 3_000_000_000;
/// Most users whose names are remembered.
const MAX_USERS: usize = 64;
/// Most bytes of a sender's command line.
const MAX_COMMAND: usize = 400;

/// See the module.
pub struct Deaths {
    programs: Programs,
    /// Watched processes, by pid: the IOC's start, and the time of its last signal.
    watched: HashMap<u32, (u64, u64)>,
    /// Events that wait for hits.
    waiting: Vec<Event>,
    users: HashMap<u32, String>,
    /// Processes that the programs have no room for.
    refused: u64,
}

impl Deaths {
    /// Takes events from these programs.
    pub fn new(programs: Programs) -> Deaths {
        let (watched, users) = (HashMap::new(), HashMap::new());
        Deaths { programs, watched, waiting: Vec::new(), users, refused: 0 }
    }

    fn work_on(&mut self, cx: &mut Context<'_>, event: Event) {
        let Event { time, pid, what } = event;
        let Some(ioc) = cx.iocs.get_mut(pid) else { return };
        match what {
            What::Sent(sent) => {
                if let Some((_, last)) = self.watched.get_mut(&pid) {
                    *last = time;
                }
                let user = if sent.sender == 0 { String::new() } else { self.user(sent.uid) };
                note_signal(&mut cx.env, ioc, time, sent, user, self.programs.tells_memory);
            }
            What::Delivered(delivered) => crash::note(&mut cx.env, ioc, time, delivered),
            What::OutOfMemory => {
                if !ioc.dying.out_of_memory(time) {
                    return;
                }
                let left_out = 0;
                let from = SignalFrom::OutOfMemory;
                let signal = SignalSent { signal: libc::SIGKILL as u16, from, left_out, ..nothing(ioc) };
                cx.env.push(time, Fact::from(signal));
            }
        }
    }

    fn user(&mut self, uid: u32) -> String {
        if self.users.len() >= MAX_USERS {
            self.users.clear();
        }
        self.users.entry(uid).or_insert_with(|| user::name_of(uid)).clone()
    }

    /// Notes the signals that were left out since the last that was told, and when those ended whose end was noticed.
    fn count(&mut self, cx: &mut Context<'_>) {
        let now = cx.env.monotonic();
        for ioc in cx.iocs.iter_mut().filter(|ioc| ioc.dying.noticed.is_some()) {
            ioc.dying.ended = self.programs.ended(ioc.pid);
        }
        for (&pid, &(_, last)) in &self.watched {
            if last == 0 || now.saturating_sub(last) > AFTER {
                continue;
            }
            let Some(ioc) = cx.iocs.get_mut(pid) else { continue };
            let left_out = ioc.dying.not_told(self.programs.left_out(pid));
            if left_out > 0 {
                let counted = SignalSent { left_out, ..nothing(ioc) };
                cx.env.push(now, Fact::from(counted));
            }
        }
    }
}

/// A signal of which nothing is known.
fn nothing(ioc: &TracedIoc) -> SignalSent {
    SignalSent {
        ioc: ioc.id,
        signal: 0,
        code: 0,
        from: SignalFrom::Kernel,
        pid: 0,
        uid: 0,
        user: String::new(),
        program: String::new(),
        command: Vec::new(),
        left_out: 0,
    }
}

fn note_signal(
    env: &mut Env<'_>,
    ioc: &mut TracedIoc,
    time: u64,
    sent: Sent,
    user: String,
    tells_memory: bool,
) {
    let Sent { signal, code, sender, uid, program, left_out } = sent;
    let from = if sender == 0 { SignalFrom::Kernel } else { SignalFrom::Process };
    let own = sender == ioc.pid;
    let more = ioc.dying.not_told(left_out);
    let remembered = Signal {
        time,
        number: signal,
        from,
        code,
        own,
        or_kernel: !tells_memory && code == 0,
        pid: sender,
        program: program.clone(),
        user: user.clone(),
    };
    ioc.dying.signal(remembered, left_out);
    let command = if sender == 0 || own || env.options.no_command_lines {
        Vec::new()
    } else {
        command_of(env, sender, time)
    };
    let sent = SignalSent {
        signal,
        code,
        from,
        pid: sender,
        uid,
        user,
        program,
        command,
        left_out: more,
        ..nothing(ioc)
    };
    env.push(time, Fact::from(sent));
}

/// The command line of the process that had this number at a time, if it still lives, without secrets.
fn command_of(env: &Env<'_>, pid: u32, time: u64) -> Vec<String> {
    let is_it = || {
        let start = env.procfs().start(pid)?;
        Some(env.machine.clock.monotonic_of_boot(start) <= time)
    };
    if is_it() != Some(true) {
        return Vec::new();
    }
    let mut left = MAX_COMMAND;
    let words = redact::command(&process::command(pid));
    let fits = |word: &String| {
        let fits = word.len() <= left;
        left = left.saturating_sub(word.len());
        fits
    };
    let words = words.into_iter().take_while(fits).collect();
    // it may have ended meanwhile, and its number been given out again
    if is_it() == Some(true) {
        words
    } else {
        Vec::new()
    }
}

impl Source for Deaths {
    fn descriptors(&self) -> Vec<RawFd> {
        vec![self.programs.fd()]
    }

    fn take(&mut self, cx: &mut Context<'_>) -> bool {
        for event in std::mem::take(&mut self.waiting) {
            self.work_on(cx, event);
        }
        self.waiting = self.programs.take();
        !self.waiting.is_empty()
    }

    fn rest(&mut self, _cx: &Resting<'_>) -> Duration {
        UNTIL_WOKEN
    }

    fn process_ended(&mut self, cx: &mut Context<'_>) {
        self.count(cx);
    }

    fn adapt(&mut self, cx: &mut Context<'_>) {
        let programs = &self.programs;
        self.watched.retain(|&pid, (start, _)| {
            let is_there = cx.iocs.get(pid).is_some_and(|ioc| ioc.start == *start);
            if !is_there {
                programs.forget(pid);
            }
            is_there
        });
        for ioc in cx.iocs.iter() {
            let Entry::Vacant(place) = self.watched.entry(ioc.pid) else { continue };
            match programs.watch(ioc.pid) {
                Ok(()) => _ = place.insert((ioc.start, 0)),
                Err(error) => {
                    if self.refused == 0 {
                        let label = ioc.label();
                        let line = format!("signals to {label} and its crashes are not recorded: {error}");
                        cx.env.messages.push(line);
                    }
                    self.refused += 1;
                }
            }
        }
    }

    fn second(&mut self, cx: &mut Context<'_>) {
        self.count(cx);
    }

    fn lost(&mut self) -> Vec<Lost> {
        let count = self.programs.lost();
        vec![Lost { source: LossSource::Hits, count, cause: "the buffer of signals and crashes was full" }]
    }

    fn finish(&mut self, cx: &mut Context<'_>) {
        for event in std::mem::take(&mut self.waiting) {
            self.work_on(cx, event);
        }
    }
}
