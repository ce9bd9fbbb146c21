//! The last crash of an IOC: where its thread stood, and what lay on its stack.

use crate::words::{name, signal_name};
use iocrec_log::context::Context;
use iocrec_log::event::{CallSiteId, Crash};
use serde::Serialize;

/// Return addresses in text; JSON has all.
const MOST: usize = 16;

/// The JSON keys of a crash.
#[derive(Serialize)]
pub struct CrashKeys {
    signal: String,
    code: i32,
    address: Option<String>,
    /// Whether a handler of the IOC got it.
    handled: bool,
    thread: String,
    tid: u32,
    ip: Option<String>,
    sp: Option<String>,
    function: Option<String>,
    module: Option<String>,
    /// From the start of the function, else from where the module is loaded.
    offset: Option<u64>,
    /// The record that the thread processed, by its hits.
    record: Option<String>,
    /// Bytes of the stack that were looked through.
    stack_bytes: u32,
    /// Return addresses found on the stack; some may be left over from calls that had returned.
    stack: Vec<FrameKeys>,
    /// Records whose addresses were found there.
    stack_records: Vec<RecordKeys>,
}

/// The JSON keys of a return address.
#[derive(Serialize)]
pub struct FrameKeys {
    /// Bytes from the stack pointer.
    at: u32,
    address: Option<String>,
    function: Option<String>,
    module: Option<String>,
    offset: u64,
}

/// The JSON keys of a record on the stack.
#[derive(Serialize)]
pub struct RecordKeys {
    at: u32,
    record: Option<String>,
}

fn known(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn hexadecimal(number: u64) -> Option<String> {
    (number != 0).then(|| format!("{number:#x}"))
}

fn place(context: &Context, site: CallSiteId) -> (Option<String>, Option<String>, Option<String>) {
    match context.call_site(site) {
        Some(site) => (known(&site.function), known(&site.module), hexadecimal(site.address)),
        None => (None, None, None),
    }
}

/// A crash for JSON.
pub fn keys(context: &Context, crash: &Crash) -> CrashKeys {
    let (function, module, _) = place(context, crash.site);
    let record = |id| context.record(id).map(|record| record.name.to_string());
    let frames = crash.frames.iter().map(|frame| {
        let (function, module, address) = place(context, frame.site);
        FrameKeys { at: frame.at, address, function, module, offset: frame.offset }
    });
    CrashKeys {
        signal: signal_name(crash.signal),
        code: crash.code,
        address: crash.address.map(|address| format!("{address:#x}")),
        handled: crash.handled,
        thread: crash.thread.clone(),
        tid: crash.tid,
        ip: (crash.ip != 0 || crash.sp != 0).then(|| format!("{:#x}", crash.ip)),
        sp: hexadecimal(crash.sp),
        offset: module.is_some().then_some(crash.offset),
        function,
        module,
        record: crash.record.and_then(record),
        stack_bytes: crash.bytes,
        stack: frames.collect(),
        stack_records: crash
            .records
            .iter()
            .map(|found| RecordKeys { at: found.at, record: record(found.record) })
            .collect(),
    }
}

/// A function or module, with the offset in it, and its file.
fn named(function: Option<&str>, module: Option<&str>, offset: u64) -> String {
    match (function, module) {
        (Some(function), Some(module)) => format!("{function}+{offset:#x} ({module})"),
        (Some(name), None) | (None, Some(name)) => format!("{name}+{offset:#x}"),
        (None, None) => "unknown code".to_owned(),
    }
}

/// A crash as lines, each with its name.
pub fn lines(context: &Context, crash: &Crash) -> Vec<(&'static str, String)> {
    let keys = keys(context, crash);
    let mut first = keys.signal.clone();
    if let Some(address) = &keys.address {
        first += &format!(" at address {address}");
    }
    if keys.function.is_some() || keys.module.is_some() {
        let name = named(keys.function.as_deref(), keys.module.as_deref(), crash.offset);
        first += &format!(" in {name}");
    } else if let Some(ip) = &keys.ip {
        first += &format!(" in unknown code at {ip}");
    }
    first += &format!(", thread {}", name(&keys.thread));
    if let Some(record) = &keys.record {
        first += &format!(", while processing {record}");
    }
    if keys.handled {
        first += "; a handler of its own got it";
    }
    let mut lines = vec![("crash", first)];
    // both in the order in which they lie there
    let mut found: Vec<(u32, String)> = keys
        .stack
        .iter()
        .map(|frame| (frame.at, named(frame.function.as_deref(), frame.module.as_deref(), frame.offset)))
        .collect();
    let of_records = keys.stack_records.iter();
    found.extend(
        of_records.filter_map(|found| Some((found.at, format!("record {}", found.record.as_ref()?)))),
    );
    found.sort_by_key(|(at, _)| *at);
    let more = found.len().saturating_sub(MOST);
    lines.extend(found.into_iter().take(MOST).map(|(at, name)| ("on stack", format!("+{at:#x} {name}"))));
    if more > 0 {
        lines.push(("on stack", format!("({more} more: --json)")));
    }
    lines
}
