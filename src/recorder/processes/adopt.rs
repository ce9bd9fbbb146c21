//! Begins to trace processes, and says why one is not traced.

use std::fs;
use std::io::ErrorKind::PermissionDenied;
use std::sync::Arc;

use iocrec_log::event::{Attached, Fact, IocEnd};
use nix::errno::Errno;

use crate::inspector::ProcessInfo;
use crate::ioc::{redact, IocProcess};
use crate::linux::ending::Ending;
use crate::linux::{descriptors, process};
use crate::probes::not_probed::NotProbed;
use crate::recorder::context::Context;
use crate::recorder::env::Env;
use crate::recorder::error::{NotTraced, StartError};
use crate::recorder::processes::answers::Answers;
use crate::recorder::processes::attach::NOT_YET;
use crate::recorder::processes::describe::{container, describe, identify};
use crate::recorder::processes::ports::PortSearch;
use crate::recorder::registry::console;
use crate::recorder::registry::dying::Dying;
use crate::recorder::registry::traced_ioc::TracedIoc;
use crate::recorder::shortfall::Shortfall;
use crate::recorder::sources::health;

/// An IOC opens its ports some time after it has been found; for this long every survey looks for them, nanoseconds.
const YOUNG: u64 = 30_000_000_000;

/// Begins to trace an IOC whose probes are in place.
pub(super) fn adopt(
    cx: &mut Context<'_>,
    ports: &mut PortSearch,
    now: u64,
    process: Arc<IocProcess>,
    about: &ProcessInfo,
    placed: usize,
    not_probed: Vec<NotProbed>,
) {
    let (pid, start) = (process.pid, process.start);
    let env = &mut cx.env;
    // until now it counted as a CA server that is not an IOC
    if let Some(mut server) = cx.iocs.remove(pid, env.run) {
        health::end(env, &mut server);
        let is_known = server.process.is_some();
        let how = if is_known {
            env.run.note_outlived(pid, server.start, now);
            "the recorder lost sight of it, and found it anew"
        } else {
            "it has become an IOC"
        };
        let how = how.to_string();
        env.push(now, Fact::IocEnd(IocEnd { ioc: server.id, how }));
    }
    ports.found_ioc(pid);
    let mut described = describe(env, pid, start, about);
    identify(&process, &mut described);
    described.linkage = process.linkage;
    let is_stripped = process.is_stripped();
    let mut ioc = TracedIoc::new(env, described, Some(process));
    ioc.container = container(ioc.id, about);
    ioc.young_until = now.saturating_add(YOUNG);
    ioc.probing.placed = placed;
    ioc.shortfalls = not_probed.into_iter().map(Shortfall::NotProbed).collect();
    let no_deaths = env.run.no_deaths.clone();
    // an IOC without symbols gets its process routines probed as they appear
    if let (0, false, Some(reason)) = (placed, is_stripped, ioc.shortfalls.first()) {
        env.messages.push(format!("{} is not probed: {reason}", ioc.label()));
    }
    if let Some(maps) = &mut cx.maps {
        if let Err(error) = maps.listen(pid, console::writes(env.options.console_rate)) {
            ioc.shortfalls.add(Shortfall::NotInMaps(error));
        }
    }
    if !env.options.resources {
        ioc.shortfalls.add(Shortfall::NoResources);
    }
    no_deaths.into_iter().for_each(|why| ioc.shortfalls.add(Shortfall::NoDeaths(why)));
    ioc.announce(env, now);
    cx.iocs.add(ioc, env.run);
}

/// Notes an IOC that ended while its probes were placed, if it began beside the recorder, which did so at `since`: all that it
/// did is missing.
pub(super) fn note_ended(
    cx: &mut Context<'_>,
    since: u64,
    now: u64,
    process: &IocProcess,
    about: &ProcessInfo,
    ending: &Ending,
) {
    let (pid, env) = (process.pid, &mut cx.env);
    let from = env.machine.clock.monotonic_of_boot(process.start);
    if from < since || cx.iocs.has(pid) {
        return;
    }
    let mut described = describe(env, pid, process.start, about);
    identify(process, &mut described);
    described.linkage = process.linkage;
    let ioc = described.id;
    env.push(now, Fact::from(described));
    if cx.maps.is_some() {
        let (from, cause) = (from.min(now), NOT_YET.into());
        env.push(now, Fact::Attached(Attached { ioc, from, since: now, cause }));
    }
    let how = match ending.status() {
        Some(status) => Dying::default().how(Some(status)) + ", before it was recorded",
        None => "it ended before it was recorded".into(),
    };
    env.push(now, Fact::IocEnd(IocEnd { ioc, how }));
}

/// Why a process that the user asked for is not traced.
pub(super) fn why_not_traced(env: &Env<'_>, answers: &Answers, ports: &PortSearch, pid: u32) -> StartError {
    let reason = if let Some(refused) = answers.unanswered(pid) {
        NotTraced::DoesNotAnswer(refused)
    } else if let Err(errno) = env.procfs().known_start(pid) {
        match errno {
            Errno::ESRCH if process::exists(pid) => NotTraced::Hidden,
            Errno::ESRCH => NotTraced::NoProcess,
            _ => NotTraced::Unread(errno),
        }
    } else if env.procfs().is_zombie(pid) {
        NotTraced::HasEnded
    } else if let Some(why) = env.options.chosen.why_not(pid) {
        NotTraced::NotChosen(why)
    } else if let Some(copy) = ports.copy(env, pid) {
        NotTraced::Copy(copy)
    } else if descriptors::are_few() {
        // its files could not be opened, so what it is was not seen
        NotTraced::Unread(Errno::EMFILE)
    } else if fs::read_link(format!("/proc/{pid}/exe")).is_err_and(|e| e.kind() == PermissionDenied) {
        // its mappings may be read for CAP_PERFMON alone by newer kernels (6.18 here), its memory may not
        NotTraced::Forbidden
    } else {
        NotTraced::NoIoc { command: command(env, pid) }
    };
    StartError::NotTraced { pid, reason }
}

/// The command line of a process as it may be shown, or the kernel's name of one that has none, as threads of the kernel do; empty
/// if it has ended.
fn command(env: &Env<'_>, pid: u32) -> String {
    let command = redact::command(&process::command(pid)).join(" ");
    if command.is_empty() {
        return env.procfs().thread_name(pid, pid);
    }
    command
}
