//! `iocrec watch`: the same events as a log would get, a line each, as they happen.
//!
//! A put's line waits a moment for what belongs to it: the hit inside the IOC (old value) and the answer
//! (status). What has not come by then is not shown; the log, and `iocreplay`, would tell.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};

use iocrec_log::context::Context;
use iocrec_log::event::{
    CaAnswer, CaPut, ChannelId, Circuit, Event, Fact, Put, PutKind, RecordId, ThreadId, Value,
};
use iocrec_log::value::{from_channel_access, text};

use crate::recorder::sink::Sink;

/// How long a WRITE waits for its hit or its ERROR. The packet ring and the hits are taken over
/// every 50 ms; twice that, and a busy IOC's delay.
const WAIT_WRITE: u64 = 250_000_000;
/// How long a WRITE_NOTIFY waits for its answer: longer processing is shown as still busy.
const WAIT_NOTIFY: u64 = 1_000_000_000;
/// ECA_NORMAL and ECA_NOWTACCESS (caerr.h: severity and number of the message).
const ECA_NORMAL: u32 = 1;
const ECA_NOWTACCESS: u32 = 376;
/// menuAlarmSevr.
const SEVERITIES: [&str; 4] = ["NO_ALARM", "MINOR", "MAJOR", "INVALID"];

/// A put whose line is not yet printed.
struct Waiting {
    time: u64,
    put: CaPut,
    circuit: Circuit,
    pv: String,
    old: Option<Value>,
    status: Option<String>,
}

/// Prints lines.
pub struct Watch<W: Write> {
    out: W,
    context: Context,
    waiting: VecDeque<Waiting>,
    /// Threads that are inside a put with callback, and its record.
    notifying: HashMap<ThreadId, RecordId>,
    failed: bool,
}

impl<W: Write> Watch<W> {
    /// Onto `out`.
    pub fn new(out: W) -> Watch<W> {
        Watch { out, context: Context::default(), waiting: VecDeque::new(), notifying: HashMap::new(), failed: false }
    }

    fn line(&mut self, line: &str) {
        // every line is to be seen at once, also through a pipe
        let done = writeln!(self.out, "{line}").and_then(|()| self.out.flush());
        if done.is_err() && !std::mem::replace(&mut self.failed, true) {
            // nobody reads any more: end as if told to
            crate::signals::end_now();
        }
    }

    /// PV and place of a channel.
    fn channel(&self, channel: ChannelId) -> String {
        match self.context.channel(channel) {
            Some(channel) if !channel.pv.is_empty() => channel.pv.clone(),
            Some(channel) => format!("(unnamed, SID {})", channel.sid.unwrap_or(0)),
            None => "(unnamed)".into(),
        }
    }

    fn record(&self, id: u32) -> String {
        self.context.record(id).map_or_else(|| format!("record {id}"), |record| record.name.to_string())
    }

    fn thread(&self, id: u32) -> &str {
        self.context.thread(id).map_or("?", |thread| &thread.name)
    }

    /// A put inside the IOC: part of one that waits, or one of its own.
    fn put(&mut self, put: &Put) {
        let from_outside = match put.kind {
            PutKind::Notify => {
                self.notifying.insert(put.thread, put.record);
                return;
            }
            PutKind::PutField => true,
            PutKind::Put => self.notifying.remove(&put.thread) == Some(put.record),
        };
        let record = self.record(put.record);
        let field = put.field.and_then(|id| self.context.field(id)).map_or("VAL", |field| &field.name);
        let name = if field == "VAL" { record.clone() } else { format!("{record}.{field}") };
        let circuit = self.context.serves(put.thread);
        let meant = |waiting: &Waiting| {
            waiting.old.is_none()
                && circuit.map_or(waiting.pv.starts_with(&record), |circuit| waiting.circuit.id == circuit)
                && (put.kind == PutKind::PutField) != waiting.put.notify
        };
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| meant(waiting)) {
            waiting.old = Some(put.old.clone());
            if waiting.pv.starts_with('(') {
                waiting.pv = name;
            }
            if !waiting.put.notify {
                waiting.status = Some("ok".into());
            }
        } else if from_outside {
            let line = format!(
                "Put: {name} {} by {} old={}",
                text(&put.requested),
                self.thread(put.thread),
                text(&put.old)
            );
            self.line(&line);
        }
    }

    fn answer(&mut self, answer: &CaAnswer) {
        let meant = |waiting: &&mut Waiting| {
            waiting.circuit.id == answer.circuit
                && waiting.put.ioid == answer.ioid
                && waiting.put.notify == answer.notify
        };
        if let Some(waiting) = self.waiting.iter_mut().find(meant) {
            waiting.status = Some(match answer.status {
                ECA_NORMAL => "ok".into(),
                ECA_NOWTACCESS => "denied".into(),
                other => format!("ECA {other}"),
            });
        }
    }

    /// Prints the puts that are complete or have waited long enough, in their order.
    fn print_waiting(&mut self, now: u64) {
        while let Some(first) = self.waiting.front() {
            let limit = if first.put.notify { WAIT_NOTIFY } else { WAIT_WRITE };
            let complete = first.status.is_some() && first.old.is_some();
            if !complete && now < first.time.saturating_add(limit) {
                break;
            }
            let Some(waiting) = self.waiting.pop_front() else { break };
            let Waiting { put, circuit, .. } = &waiting;
            let value = text(&from_channel_access(put.dbr, put.count, &put.payload));
            let mut line = format!("Write: {} {value} from {} to {}", waiting.pv, circuit.client, circuit.server);
            for (name, known) in [("user", &circuit.user), ("host", &circuit.host)] {
                if !known.is_empty() {
                    line += &format!(" {name}={known}");
                }
            }
            if let Some(old) = &waiting.old {
                line += &format!(" old={}", text(old));
            }
            if let Some(status) = &waiting.status {
                line += &format!(" status={status}");
            }
            self.line(&line);
        }
    }
}

impl<W: Write> Sink for Watch<W> {
    fn push(&mut self, event: Event) {
        self.context.apply(event.time, &event.fact);
        match event.fact {
            Fact::CaPut(put) => {
                let Some(circuit) = self.context.circuit(put.circuit).cloned() else { return };
                let pv = self.channel(put.channel);
                self.waiting.push_back(Waiting { time: event.time, put, circuit, pv, old: None, status: None });
            }
            Fact::CaAnswer(answer) => self.answer(&answer),
            Fact::Put(put) => self.put(&put),
            Fact::Complete(complete) => {
                let severity = SEVERITIES.get(usize::from(complete.severity)).unwrap_or(&"?");
                let line = format!(
                    "Process: {} {} {severity} by {}",
                    self.record(complete.record),
                    text(&complete.value),
                    self.thread(complete.thread)
                );
                self.line(&line);
            }
            Fact::CaLinkPut(put) => {
                let from = put.record.map_or_else(|| "?".into(), |record| self.record(record));
                let line = format!("Link: {from} writes {} to {}", text(&put.value), put.pv);
                self.line(&line);
            }
            Fact::Loss(loss) => {
                let line = format!("Lost: {} {:?}: {}", loss.count, loss.source, loss.cause);
                self.line(&line);
            }
            _ => {}
        }
    }

    fn tick(&mut self, now: u64) {
        self.print_waiting(now);
    }
}

/// Onto standard output.
pub fn on_stdout() -> Watch<io::Stdout> {
    Watch::new(io::stdout())
}
