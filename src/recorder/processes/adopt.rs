//! Takes processes in, and says why one is not taken in.

use std::sync::Arc;

use iocrec_log::event::{Fact, Ioc, IocEnd, IocId, Linkage};

use crate::inspector::ProcessInfo;
use crate::ioc::{redact, script, IocProcess};
use crate::linux::{process, user};
use crate::probes::not_probed::NotProbed;
use crate::recorder::context::{Context, Env};
use crate::recorder::error::{NotTraced, StartError};
use crate::recorder::processes::Processes;
use crate::recorder::registry::traced_ioc::TracedIoc;
use crate::recorder::shortfall::Shortfall;

/// An IOC opens its ports some time after it has been found; for this long they are looked for at every survey,
/// nanoseconds.
const YOUNG: u64 = 30_000_000_000;

impl Processes {
    /// Takes an IOC in, whose probes are in place.
    pub(super) fn adopt(
        &mut self,
        cx: &mut Context<'_>,
        now: u64,
        process: Arc<IocProcess>,
        about: &ProcessInfo,
        placed: usize,
        not_probed: Vec<NotProbed>,
    ) {
        let (pid, start) = (process.pid, process.start);
        let env = &mut cx.env;
        if env.procfs().start(pid) != Some(start) {
            // it has ended meanwhile
            return;
        }
        // one that was taken for a server that is no IOC
        if let Some(server) = cx.iocs.remove(pid, env.run) {
            let how = "it has become an IOC".to_string();
            env.push(now, Fact::IocEnd(IocEnd { ioc: server.id, how }));
        }
        self.ports.is_ioc(pid);
        let mut described = describe(env, pid, start, about);
        identify(&process, &mut described);
        described.linkage = process.linkage;
        let is_stripped = process.is_stripped();
        let mut ioc = TracedIoc::new(env, described, Some(process));
        ioc.young_until = now.saturating_add(YOUNG);
        ioc.probing.placed = placed;
        ioc.shortfalls = not_probed.into_iter().map(Shortfall::NotProbed).collect();
        // of one without symbols process routines are probed as they come to be
        if let (0, false, Some(reason)) = (placed, is_stripped, ioc.shortfalls.first()) {
            env.messages.push(format!("{} is not probed: {reason}", ioc.label()));
        }
        ioc.announce(env, now);
        cx.iocs.add(ioc, env.run);
    }

    /// Why a process that the user asked for is not traced.
    pub(super) fn why_not_traced(&self, env: &Env<'_>, pid: u32) -> StartError {
        let reason = if let Some(refused) = self.answers.unanswered(pid) {
            NotTraced::DoesNotAnswer(refused)
        } else if env.procfs().start(pid).is_none() {
            NotTraced::NoProcess
        } else if !env.options.users.have(pid) {
            NotTraced::OtherUser(user::user(pid))
        } else {
            NotTraced::NoIoc { command: redact::command(&process::command(pid)).join(" ") }
        };
        StartError::NotTraced { pid, reason }
    }
}

/// What /proc says of a process that is traced from now on.
pub(super) fn describe(env: &mut Env<'_>, pid: u32, start: u64, about: &ProcessInfo) -> Ioc {
    let ProcessInfo { command, exe, cwd, user } = about.clone();
    let id: IocId = env.run.ids.ioc();
    Ioc {
        id,
        pid,
        start,
        name: script::name_of_server(&command, &exe),
        cwd,
        exe,
        command: if env.options.no_command_lines { Vec::new() } else { redact::command(&command) },
        base_version: String::new(),
        ca_ports: Vec::new(),
        linkage: Linkage::Foreign,
        not_probed: Vec::new(),
        user,
        pva_ports: Vec::new(),
        environment: Vec::new(),
    }
}

/// What an IOC says of itself.
pub(super) fn identify(process: &IocProcess, about: &mut Ioc) {
    // read while it ended it has none
    if !process.name.is_empty() {
        about.name.clone_from(&process.name);
    }
    about.base_version.clone_from(&process.base_version);
    about.environment.clone_from(&process.environment);
}

/// The line about a process that is recorded from now on.
pub(super) fn recording(ioc: &Ioc) -> String {
    let what = match (ioc.linkage, ioc.base_version.as_str()) {
        (Linkage::Foreign, _) => "a CA server that is not EPICS Base".to_string(),
        (_, "") => "EPICS Base".to_string(),
        (_, version) => format!("EPICS Base {version}"),
    };
    format!("recording {} (pid {}, {what})", ioc.name, ioc.pid)
}
