//! Lines of puts, processing and calls over PVAccess.
//!
//! As with Channel Access a line waits a moment for what completes it: the server's answer, and the hit inside the IOC
//! with the old value. The hit is that of the server's thread that puts this value to this record meanwhile.

use std::collections::VecDeque;

use epics::Pv;
use iocrec_log::context::Context;
use iocrec_log::event::{CircuitId, Put, PvaAnswer, PvaKind, PvaMessage, PvaPut};
use iocrec_log::pva_value::{options, sent, shown};
use iocrec_log::value::{push_name, text};

use crate::pva::message::{PROCESS, PUT, PUT_GET, RPC};

/// Threads of QSRV and of pvxs that carry out puts.
const SERVERS: [&str; 2] = ["TCP-rx", "PVXTCP"];
/// Longest wait for the answer; and for the hit, once the answer is there, nanoseconds.
const WAIT_ANSWER: u64 = 1_000_000_000;
const WAIT_HIT: u64 = 400_000_000;
/// A hit is later than its packet, but their clocks may differ by this, nanoseconds.
const CLOCK_ERROR: u64 = 1_000_000;
/// Lines that wait, and hits: more come only in a flood, and then the oldest is printed as it is.
const MOST: usize = 1000;
/// Fields shown of a value.
const FIELDS: usize = 10;

struct Waiting {
    time: u64,
    circuit: CircuitId,
    ioid: u32,
    kind: PvaKind,
    /// The channel's name; empty if unknown.
    pv: String,
    /// What is put, and the field that is a record's.
    shown: String,
    value: Option<String>,
    /// What follows the value.
    rest: String,
    status: Option<(u64, String)>,
    old: Option<String>,
}

struct Inside {
    time: u64,
    names: Vec<String>,
    thread: String,
    requested: String,
    old: String,
}

/// The line of a request that the server refused before it was made: when the client prepared it.
pub fn refused(said: &PvaMessage, context: &Context) -> Option<String> {
    // warnings are no refusals
    if said.level < 2 {
        return None;
    }
    let what = match u8::try_from(said.command).ok()? {
        PUT => "put",
        PUT_GET => "put_get",
        PROCESS => "process",
        RPC => "rpc",
        _ => return None,
    };
    let pv = said.channel.and_then(|channel| context.channel(channel)).map(|channel| channel.pv.as_str());
    let pv = pv.filter(|pv| !pv.is_empty()).unwrap_or("(channel opened before)");
    let [client, server] = context.addresses(said.circuit).map(|end| end.unwrap_or_else(|| "?".to_owned()));
    let text = if said.text.is_empty() { "no reason is given" } else { &said.text };
    Some(format!("Refused: {pv} ({what}) from {client} to {server}: {text}"))
}

/// The puts that wait for something. See the module.
#[derive(Default)]
pub struct Puts {
    waiting: VecDeque<Waiting>,
    inside: VecDeque<Inside>,
}

impl Puts {
    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.inside.is_empty()
    }

    /// Takes a request.
    pub fn put(&mut self, time: u64, put: &PvaPut, context: &Context) {
        let Some(circuit) = context.circuit(put.circuit) else { return };
        let found = sent(context, &put.value, !matches!(put.kind, PvaKind::Rpc | PvaKind::Process));
        let only_value = matches!(&found.fields[..], [(path, _)] if path == "value" || path == "value.index");
        let mut parts: Vec<String> = match (put.kind, found.main()) {
            (PvaKind::Process, _) => vec!["(process)".to_owned()],
            (_, Some(value)) if only_value => vec![text(value)],
            _ => {
                let fields = found.fields.iter().take(FIELDS);
                fields.map(|(path, value)| format!("{path}={}", shown(value))).collect()
            }
        };
        if found.is_cut || found.fields.len() > FIELDS {
            parts.push("...".to_owned());
        }
        if parts.is_empty() {
            parts.push("(no field)".to_owned());
        }
        let shown = parts;
        let ends = context.addresses(put.circuit).map(|end| end.unwrap_or_else(|| "?".to_owned()));
        let [client, server] = ends;
        let mut rest = format!(" from {client} to {server}");
        for (name, known) in [("user", &circuit.user), ("host", &circuit.host)] {
            if !known.is_empty() {
                rest.extend([" ", name, "="]);
                push_name(&mut rest, known);
            }
        }
        for (name, value) in options(context, &put.options) {
            rest += &format!(" {name}={value}");
        }
        let ends = context.circuit_ends(put.circuit);
        for (name, ioc) in [("ioc", ends.and_then(|of| of.server)), ("by_ioc", ends.and_then(|of| of.client))]
        {
            if let Some(ioc) = ioc.and_then(|ioc| context.ioc(ioc)) {
                rest.extend([" ", name, "="]);
                push_name(&mut rest, &ioc.name);
            }
        }
        let pv = context.channel(put.channel).map_or_else(String::new, |channel| channel.pv.clone());
        let value = found.main().filter(|_| !found.is_cut).map(text);
        let (circuit, ioid, kind, shown) = (put.circuit, put.ioid, put.kind, shown.join(" "));
        let waiting = Waiting { time, circuit, ioid, kind, pv, shown, value, rest, status: None, old: None };
        self.waiting.push_back(waiting);
    }

    /// Takes an answer.
    pub fn answer(&mut self, time: u64, answer: &PvaAnswer) {
        let meant = |waiting: &&mut Waiting| {
            let request = (waiting.circuit, waiting.ioid, waiting.kind);
            request == (answer.circuit, answer.ioid, answer.kind) && waiting.status.is_none()
        };
        let Some(waiting) = self.waiting.iter_mut().find(meant) else { return };
        let status = match (answer.status, answer.text.is_empty()) {
            (0 | 1, _) => "ok".to_owned(),
            (2 | 3, true) => "error".to_owned(),
            (2 | 3, false) => format!("error: {}", answer.text),
            _ => "unknown: the client did not wait".to_owned(),
        };
        waiting.status = Some((time, status));
    }

    /// Takes a put inside an IOC, if a server's thread carries it out; returns whether it does.
    pub fn hit(&mut self, time: u64, put: &Put, context: &Context) -> bool {
        let name = context.thread(put.thread).map_or("", |thread| thread.name.as_str());
        let Some(record) = context.record(put.record).filter(|_| SERVERS.contains(&name)) else {
            return false;
        };
        let mut names = vec![record.name.to_string()];
        names.extend(context.aliases(put.record).iter().map(|alias| alias.to_string()));
        let (requested, old) = (text(&put.requested), text(&put.old));
        let thread = name.to_owned();
        self.inside.push_back(Inside { time, names, thread, requested, old });
        true
    }

    fn join(&mut self) {
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.old.is_none()) {
            let Some(value) = &waiting.value else { continue };
            let record = Pv::new(&waiting.pv).record;
            let end = waiting.status.as_ref().map_or(u64::MAX, |(time, _)| time.saturating_add(CLOCK_ERROR));
            let place = self.inside.iter().position(|inside| {
                inside.time.saturating_add(CLOCK_ERROR) >= waiting.time
                    && inside.time <= end
                    && inside.requested == *value
                    && inside.names.iter().any(|name| name == record)
            });
            waiting.old = place.and_then(|place| self.inside.remove(place)).map(|inside| inside.old);
        }
    }

    /// The lines that are complete or have waited long enough, each with the time of its put.
    pub fn lines(&mut self, now: u64) -> Vec<(u64, String)> {
        self.join();
        let mut lines = Vec::new();
        while let Some(first) = self.waiting.front() {
            let until = match &first.status {
                // nothing inside the IOC belongs to these
                Some((_, status)) if first.old.is_some() || first.value.is_none() || status != "ok" => 0,
                Some((time, _)) => time.saturating_add(WAIT_HIT),
                None => first.time.saturating_add(WAIT_ANSWER),
            };
            if now < until && self.waiting.len() <= MOST {
                break;
            }
            let Some(Waiting { time, kind, pv, shown, rest, status, old, .. }) = self.waiting.pop_front()
            else {
                break;
            };
            let what = if kind == PvaKind::Rpc { "Call" } else { "Write" };
            let pv = if pv.is_empty() { "(channel opened before)" } else { &pv };
            let mut line = format!("{what}: {pv} {shown}{rest}");
            if let Some(old) = old {
                line += &format!(" old={old}");
            }
            if let Some((_, status)) = status {
                line += &format!(" status={status}");
            }
            lines.push((time, line));
        }
        let old = |inside: &Inside| now >= inside.time.saturating_add(WAIT_ANSWER + WAIT_HIT);
        while self.inside.front().is_some_and(old) || self.inside.len() > MOST {
            // a member of a group, or its packet was missed
            let Some(Inside { time, names, thread, requested, old }) = self.inside.pop_front() else { break };
            let name = names.into_iter().next().unwrap_or_default();
            lines.push((time, format!("Put: {name} {requested} by {thread} old={old}")));
        }
        lines
    }
}
