//! Processes that do not answer, or cost too much to inspect: reports them to people and to the log, and tries again.

use std::collections::{HashMap, HashSet};

use crate::inspector::Inspector;
use crate::linux::reader;
use crate::linux::reader::budget::Refused;
use crate::recorder::context::Context;
use crate::recorder::env::Env;
use crate::recorder::registry::traced_ioc::TracedIoc;
use crate::recorder::shortfall::Shortfall;

/// Processes that an inspection found not to answer: the reason, and since when.
#[derive(Default)]
pub struct Answers(HashMap<u32, (Refused, u64)>);

impl Answers {
    /// Notes that a process has not answered since a time.
    pub fn note(&mut self, pid: u32, refused: Refused, now: u64) {
        self.0.insert(pid, (refused, now));
    }

    /// Forgets a process that answers again, or has ended.
    pub fn forget(&mut self, pid: u32) {
        self.0.remove(&pid);
        reader::mark_responsive(pid);
    }

    /// Why a process does not answer, if it does not.
    pub fn unanswered(&self, pid: u32) -> Option<Refused> {
        self.0.get(&pid).map(|(refused, _)| *refused)
    }

    /// Whether some process is not inspected for want of this program's own descriptors or processes.
    pub fn lack_room(&self) -> bool {
        self.0.values().any(|(refused, _)| *refused == Refused::NoRoom)
    }

    /// Forgets all processes but these.
    pub fn retain(&mut self, pids: &HashSet<u32>) {
        self.0.retain(|pid, _| pids.contains(pid));
    }

    /// Since when the process that has waited longest has waited.
    pub fn oldest(&self) -> Option<u64> {
        self.0.values().map(|(_, since)| *since).min()
    }
}

impl Answers {
    /// Asks processes again that have not answered the loop, and notes these.
    pub(super) fn ask_silent_again(&self, cx: &mut Context<'_>, inspector: &Inspector, now: u64) {
        for (pid, since) in reader::unresponsive() {
            let Some(ioc) = cx.iocs.get_mut(pid) else {
                reader::mark_responsive(pid);
                continue;
            };
            if !std::mem::replace(&mut ioc.is_stalled, true) {
                note_unanswered(cx, now, pid, Refused::NoAnswer);
            } else if inspector.has_inspected(pid, since) && self.unanswered(pid).is_none() {
                reader::mark_responsive(pid);
                ioc.is_stalled = false;
            }
        }
    }
}

/// Notes that a process does not answer.
pub(super) fn note_unanswered(cx: &mut Context<'_>, now: u64, pid: u32, refused: Refused) {
    let env = &mut cx.env;
    let Some(ioc) = cx.iocs.get_mut(pid) else {
        // that of all processes has one message
        if refused == Refused::NoRoom && !env.options.pids.contains(&pid) {
            return;
        }
        env.messages.push(format!("process {pid} is not inspected: {refused}; iocrec tries again"));
        return;
    };
    let shortfall = Shortfall::Unanswered(refused);
    env.messages.push(format!("{}: {shortfall}; iocrec tries again", ioc.label()));
    ioc.shortfalls.add(shortfall);
    ioc.announce(env, now);
}

/// Notes that an IOC answers again.
pub(super) fn note_answer(env: &mut Env<'_>, ioc: &mut TracedIoc) {
    ioc.shortfalls.remove(|shortfall| matches!(shortfall, Shortfall::Unanswered(_)));
    env.messages.push(format!("{} answers again", ioc.label()));
}
