//! Crashes: from an event of the kernel to the fact. Between them an inspector's thread looks up the functions on the
//! stack; the end of the process waits for that, but not for long.

use iocrec_log::event::{Crash, Fact, Frame, StackRecord};

use crate::deaths::Delivered;
use crate::inspector::Request;
use crate::ioc::stack::{addresses, Found, Place};
use crate::linux::width::Width;
use crate::recorder::env::Env;
use crate::recorder::registry::dying::Asked;
use crate::recorder::registry::owner::Owner;
use crate::recorder::registry::traced_ioc::TracedIoc;

/// Most records on a stack that are told.
const MOST_RECORDS: usize = 32;
/// Most crashes whose names are awaited: a program that lives with faults has two a second.
const MOST_ASKED: usize = 8;

/// Notes a crash, and asks for the functions on its stack.
pub fn note(env: &mut Env<'_>, ioc: &mut TracedIoc, time: u64, delivered: Delivered) {
    let process =
        ioc.process.as_ref().filter(|_| delivered.has_place() && ioc.dying.asked.len() < MOST_ASKED);
    let Some(process) = process else {
        ioc.dying.crash(time, &delivered, None);
        tell(env, ioc, time, &delivered, None, &[]);
        return;
    };
    let number = ioc.dying.crashes;
    ioc.dying.crashes = number.wrapping_add(1);
    env.run.requests.push(Request::Crash {
        ioc: process.clone(),
        number,
        ip: delivered.ip,
        stack: delivered.stack.clone(),
        from: delivered.from,
    });
    ioc.dying.asked.push(Asked { number, time, delivered });
}

/// Tells a crash whose functions are known now.
pub(super) fn named(
    env: &mut Env<'_>,
    ioc: &mut TracedIoc,
    number: u32,
    place: Option<&Place>,
    frames: &[Found],
) {
    let Some(at) = ioc.dying.asked.iter().position(|asked| asked.number == number) else { return };
    let Asked { time, delivered, .. } = ioc.dying.asked.remove(at);
    ioc.dying.crash(time, &delivered, place);
    // that there is no file is known, too
    tell(env, ioc, time, &delivered, place.filter(|place| !place.module.is_empty()), frames);
}

/// Tells the crashes whose functions will not be known.
pub(super) fn give_up(env: &mut Env<'_>, ioc: &mut TracedIoc) {
    for Asked { time, delivered, .. } in std::mem::take(&mut ioc.dying.asked) {
        ioc.dying.crash(time, &delivered, None);
        tell(env, ioc, time, &delivered, None, &[]);
    }
}

fn tell(
    env: &mut Env<'_>,
    ioc: &mut TracedIoc,
    time: u64,
    delivered: &Delivered,
    place: Option<&Place>,
    found: &[Found],
) {
    let is_64bit = ioc.process.as_ref().is_none_or(|process| process.memory.width() == Width::Bits64);
    let on_stack = addresses(&delivered.stack, delivered.from, is_64bit);
    let records = on_stack.filter_map(|(at, word)| Some(StackRecord { at, record: ioc.records.id(word)? }));
    let records = records.take(MOST_RECORDS).collect();
    let record = ioc.threads.processes_at(delivered.tid, delivered.sp);
    let record = record.and_then(|address| ioc.records.id(address));
    let mut site = 0;
    let mut frames = Vec::new();
    if let Some(process) = &ioc.process {
        let owner = Owner { id: ioc.id, process };
        let mut define = |place: &Place, returns| ioc.call_sites.note(env, time, owner, place, returns);
        site = place.map_or(0, |place| define(place, false));
        for (at, place) in found {
            frames.push(Frame { at: *at, site: define(place, true), offset: place.offset });
        }
    }
    let crash = Crash {
        ioc: ioc.id,
        tid: delivered.tid,
        thread: delivered.name.clone(),
        signal: delivered.signal,
        code: delivered.code,
        address: delivered.address,
        handled: delivered.handled,
        ip: delivered.ip,
        sp: delivered.sp,
        site,
        offset: place.map_or(0, |place| place.offset),
        record,
        from: delivered.from,
        bytes: delivered.stack.len() as u32,
        frames,
        records,
    };
    env.push(time, Fact::from(crash));
}
