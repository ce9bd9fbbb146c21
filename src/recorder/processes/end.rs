//! Ends the tracing of processes that have ended, or become something else.

use std::mem::take;

use iocrec_log::event::{Fact, IocEnd};

use crate::inspector::{Inspector, DATABASE_GONE};
use crate::recorder::context::Context;
use crate::recorder::env::{EndedPorts, Env};
use crate::recorder::processes::answers::Answers;
use crate::recorder::registry::traced_ioc::TracedIoc;
use crate::recorder::sources::health;
use crate::recorder::sources::hits::note_left_out;

/// For how long the ports of a server that has ended are captured, nanoseconds: whatever starts it again may wait for some
/// seconds, as procServ does.
const KEPT: u64 = 60_000_000_000;
/// Ports of which that is so at most. Each user has half of what others leave: anybody's servers may end as often as he likes.
const MOST_KEPT: usize = 128;
/// Ports of a server whose ports are kept: others need the room. A server of both protocols has two, or three.
const MOST_PORTS: usize = 8;

/// Ends the tracing of those of these processes that have ended, once what they did last has been taken: an end that is
/// first noticed now waits for the next call, because hits may have come since the last ones were taken. All that waits
/// must have been taken between two calls. At `alive` all that were traced still lived.
pub(super) fn let_go(
    cx: &mut Context<'_>,
    inspector: &Inspector,
    answers: &mut Answers,
    alive: u64,
    pids: &[u32],
) {
    let env = &cx.env;
    let mut gone: Vec<(u32, Option<&str>)> = Vec::new();
    let now = env.monotonic();
    let mut untold: Vec<u32> = Vec::new();
    for &pid in pids {
        let status = cx.iocs.status(pid);
        if cx.iocs.endings().may_change(status) {
            untold.push(pid);
        }
    }
    for ioc in cx.iocs.iter_mut().filter(|ioc| pids.contains(&ioc.pid)) {
        let has_ended = env.procfs().has_ended(ioc.pid, ioc.start);
        let why = if has_ended { None } else { became_another(env, ioc) };
        if !has_ended && why.is_none() {
            continue;
        }
        ioc.taken_to_its_end |= std::mem::replace(&mut ioc.end_noticed, true);
        if has_ended && ioc.dying.noticed.is_none() {
            (ioc.dying.noticed, ioc.dying.late) = (Some(now), now.saturating_sub(alive));
        }
        let is_awaited = has_ended && ioc.dying.is_awaited(now, untold.contains(&ioc.pid));
        if ioc.taken_to_its_end && !is_awaited {
            gone.push((ioc.pid, why));
        }
    }
    let now = cx.env.now;
    cx.changed |= !gone.is_empty();
    for (pid, why) in gone {
        end(cx, inspector, answers, now, pid, why);
    }
}

/// Ends the tracing of processes whose record database a hit has shown to be gone.
pub(super) fn end_those_without_database(cx: &mut Context<'_>, inspector: &Inspector, answers: &mut Answers) {
    let gone: Vec<u32> = cx.iocs.iter().filter(|ioc| ioc.database_is_gone).map(|ioc| ioc.pid).collect();
    for pid in gone {
        let Some(ioc) = cx.iocs.get(pid) else { continue };
        let why = became_another(&cx.env, ioc).unwrap_or(DATABASE_GONE);
        let now = cx.env.monotonic();
        end(cx, inspector, answers, now, pid, Some(why));
        cx.changed = true;
    }
}

/// Ends the tracing of a process. `why` is given for a process that lives on as something else.
pub(super) fn end(
    cx: &mut Context<'_>,
    inspector: &Inspector,
    answers: &mut Answers,
    now: u64,
    pid: u32,
    why: Option<&str>,
) {
    if !cx.iocs.has(pid) {
        return;
    }
    let status = cx.iocs.status(pid);
    if let Some(ioc) = cx.iocs.get_mut(pid) {
        super::crash::give_up(&mut cx.env, ioc);
    }
    inspector.forget(pid);
    answers.forget(pid);
    if why.is_some() {
        inspector.add(pid, false);
    }
    let writes = cx.maps.as_ref().and_then(|maps| maps.writes_left_out(pid));
    if let Some(ioc) = cx.iocs.get_mut(pid) {
        let id = ioc.id;
        ioc.console.second(&mut cx.env, id, u64::MAX, writes);
        health::end(&mut cx.env, ioc);
    }
    let left_out = cx.maps.as_mut().map(|maps| maps.forget(pid)).unwrap_or_default();
    note_left_out(cx, &left_out);
    let Some(mut ioc) = cx.iocs.remove(pid, cx.env.run) else { return };
    if why.is_some() {
        cx.env.run.note_outlived(pid, ioc.start, now);
    }
    if !left_out.is_empty() {
        // what is told of its records now must not come after its end
        ioc.dying.ended = 0;
    }
    let (time, how) = match why {
        Some(why) => (now, why.to_string()),
        None => (ioc.dying.time(now), ioc.dying.how(status)),
    };
    cx.env.messages.push(format!("{} has ended: {how}", ioc.label()));
    // until then packets of its clients were missing
    ioc.tell_ports(&mut cx.env, time);
    cx.env.push(time, Fact::IocEnd(IocEnd { ioc: ioc.id, how }));
    keep_ports(&mut cx.env, now, &mut ioc);
}

/// Has a server's ports captured for a while after its end, unless processes were chosen: another that was not may get them.
fn keep_ports(env: &mut Env<'_>, now: u64, ioc: &mut TracedIoc) {
    let kept = &mut env.run.ended_ports;
    kept.retain(|ended| now < ended.until);
    let is_any = env.options.pids.is_empty() && env.options.chosen.are_all();
    let count = ioc.about.ca_ports.len() + ioc.about.pva_ports.len();
    let has_few = (1..=MOST_PORTS).contains(&count);
    let (mut all, mut of_user) = (count, count);
    for ended in kept.iter() {
        let count = ended.ca.len() + ended.pva.len();
        all += count;
        of_user += if ended.user == ioc.about.user { count } else { 0 };
    }
    if let (true, Ok(namespace)) = (is_any && has_few && all + of_user <= MOST_KEPT, ioc.namespace) {
        let (ca, pva) = (take(&mut ioc.about.ca_ports), take(&mut ioc.about.pva_ports));
        let user = take(&mut ioc.about.user);
        kept.push(EndedPorts { until: now.saturating_add(KEPT), namespace, ca, pva, user });
    }
}

/// Why a traced process counts as ended although it lives: it runs another program.
pub(super) fn became_another(env: &Env<'_>, ioc: &TracedIoc) -> Option<&'static str> {
    // both are unknown for a process that is just ending
    let image = env.procfs().image(ioc.pid);
    let other = image.is_some() && ioc.image.is_some() && image != ioc.image;
    other.then_some("its process runs another program, or the same anew")
}
