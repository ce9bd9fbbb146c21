//! Turns events into lines.
//!
//! A put's line waits a moment for the two events that complete it: the hit inside the IOC (old value) and the server's
//! answer (status). If an event has not come by then, its part is not shown; `iocreplay` would find it in a log. If a
//! put without callback has reached the IOC's function, that is not a status yet, since the record may refuse it. If
//! its record is processed for it, the status is ok.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};
use std::time::Duration;

use super::deaths::{crashed, device, queue, runs_again, signal, slow, stuck_line};
use epics::alarm::severity_name;
use epics::{eca, Dbr, Pv};
use iocrec_log::context::Context;
use iocrec_log::escape::Lines;
use iocrec_log::event::{
    CaAnswer, CaPut, Circuit, CircuitEnds, CircuitId, Event, Fact, IocId, Put, PutKind, RecordId, ThreadId,
    Value,
};
use iocrec_log::terminal::without_sequences;
use iocrec_log::value::{from_channel_access, named, push_name, text};

use crate::commands::watch::pvaccess::{refused, Puts};
use crate::linux::clock;
use crate::recorder::sink::Sink;
use crate::recorder::sources::{ROUND, UNTIL_WOKEN};
use crate::terminal;

/// Longest wait of a WRITE for its hit or its ERROR, and of a hit for its packet, nanoseconds. Packets are handed over
/// up to 220 ms after they arrive, on a busy machine later: what comes too late is a line of its own, so that the put is there twice.
const WAIT_WRITE: u64 = 400_000_000;
/// Longest wait of a WRITE_NOTIFY for its answer, nanoseconds. Longer processing is shown as still busy.
const WAIT_NOTIFY: u64 = 1_000_000_000;
/// A hit is later than its packet, but their clocks may differ by this, nanoseconds.
const CLOCK_ERROR: u64 = 1_000_000;

/// A put on the network whose line is not yet printed.
struct Waiting {
    time: u64,
    put: CaPut,
    circuit: Circuit,
    /// The processes at its ends, as far as known when the put arrived.
    ends: Option<CircuitEnds>,
    /// Empty if unknown.
    pv: String,
    old: Option<Value>,
    status: Option<Cow<'static, str>>,
    /// The hit that carries it out, once seen.
    inside: Option<(ThreadId, RecordId)>,
}

/// A put inside an IOC, which may be one on the network.
struct Inside {
    time: u64,
    /// The record's name and aliases.
    names: Vec<String>,
    name: String,
    thread: String,
    /// Whether its record is processed for it, which means that it was accepted.
    accepted: bool,
    /// The IOC that the thread belongs to.
    ioc: Option<IocId>,
    circuit: Option<CircuitId>,
    notify: bool,
    put: Put,
}

impl Inside {
    /// Whether this carries out a put on the network.
    fn carries_out(&self, waiting: &Waiting, context: &Context) -> bool {
        let record = Pv::new(&waiting.pv).record;
        let is_named = self.names.iter().any(|name| name == record);
        let place = match self.circuit {
            // one that was refused has no hit: the next one's is another's
            Some(circuit) => waiting.circuit.id == circuit && (is_named || record.is_empty()),
            None => {
                // another IOC may have a record of that name
                let server = context.circuit_ends(waiting.circuit.id).and_then(|ends| ends.server);
                let other = server.is_some() && self.ioc.is_some() && server != self.ioc;
                !other && is_named
            }
        };
        place && self.notify == waiting.put.notify && self.time + CLOCK_ERROR >= waiting.time
    }
}

/// Prints events as lines.
pub struct Printer<W: Write> {
    out: Lines<W>,
    context: Context,
    waiting: VecDeque<Waiting>,
    inside: VecDeque<Inside>,
    /// Threads inside a put with callback, and the record of that put.
    notifying: HashMap<ThreadId, RecordId>,
    pva: Puts,
    /// Why nothing more is printed.
    failed: Option<io::Error>,
    /// Whether lines begin with their times: those that are printed later than they happened.
    times: bool,
}

impl<W: Write> Printer<W> {
    /// Prints to `out`.
    pub fn new(out: Lines<W>) -> Printer<W> {
        Printer {
            out,
            context: Context::default(),
            waiting: VecDeque::new(),
            inside: VecDeque::new(),
            notifying: HashMap::new(),
            pva: Puts::default(),
            failed: None,
            times: false,
        }
    }

    /// Begins lines with their times: what is printed happened at another time.
    pub fn with_times(self) -> Printer<W> {
        Printer { times: true, ..self }
    }

    /// Prints the puts that still wait as they are.
    ///
    /// # Errors
    /// Standard output took no more.
    pub fn end(mut self) -> io::Result<()> {
        self.tick(u64::MAX);
        terminal::printed(self.failed.map_or(Ok(()), Err))
    }

    /// The time of a line, with the space behind it; empty if times are not wanted.
    fn time(&self, time: u64) -> String {
        match self.context.wall(time) {
            Some(wall) if self.times => format!("{} ", clock::iso_nanoseconds(wall)),
            _ => String::new(),
        }
    }

    fn line(&mut self, line: &str) {
        if self.failed.is_some() {
            return;
        }
        // a line must be visible at once, even through a pipe
        let done = self.out.line(format_args!("{line}")).and_then(|()| self.out.flush());
        if let Err(error) = done {
            self.failed = Some(error);
            // the reader is gone, or the disk is full: end as at SIGINT
            crate::linux::signals::end_now();
        }
    }

    fn record(&self, id: u32) -> String {
        self.context.record(id).map_or_else(|| format!("record {id}"), |record| record.name.to_string())
    }

    fn thread(&self, id: u32) -> String {
        named(self.context.thread(id).map_or("?", |thread| &thread.name))
    }

    /// A thread, and its IOC.
    fn place(&self, thread: ThreadId) -> String {
        let found = self.context.thread(thread);
        let ioc = found.and_then(|thread| self.context.ioc(thread.ioc));
        let ioc = ioc.map_or("?", |ioc| ioc.name.as_str());
        match self.thread(thread).as_str() {
            // it had ended before its name was read
            "" => ioc.to_owned(),
            thread => format!("{ioc} ({thread})"),
        }
    }

    /// Takes a put inside an IOC, which carries out one on the network or is one of the IOC's own.
    fn put(&mut self, time: u64, put: Put) {
        if put.kind != PutKind::Notify && self.pva.hit(time, &put, &self.context) {
            return;
        }
        let notify = match put.kind {
            PutKind::Notify => {
                self.notifying.insert(put.thread, put.record);
                return;
            }
            // a put with callback to a link has no dbPut
            PutKind::PutField => {
                let field = put.field.and_then(|id| self.context.field(id));
                field.is_some_and(|field| field.dbf.is_link())
                    && self.notifying.remove(&put.thread) == Some(put.record)
            }
            // the value of a put with callback; other dbPuts come from links or belong to a dbPutField
            PutKind::Put if self.notifying.remove(&put.thread) == Some(put.record) => true,
            PutKind::Put => return,
        };
        let record = self.record(put.record);
        let name = match put.field.and_then(|id| self.context.field(id)) {
            Some(field) if field.name != "VAL" => format!("{record}.{}", field.name),
            _ => record.clone(),
        };
        let (thread, circuit) = (self.thread(put.thread), self.context.circuit_of_thread(put.thread));
        let mut names = vec![record];
        names.extend(self.context.aliases(put.record).iter().map(|alias| alias.to_string()));
        let ioc = self.context.thread(put.thread).map(|thread| thread.ioc);
        self.inside.push_back(Inside {
            time,
            names,
            name,
            thread,
            accepted: false,
            ioc,
            circuit,
            notify,
            put,
        });
    }

    /// Notes that a record is processed: `dbPutField` has accepted the put to it in that thread.
    fn process(&mut self, thread: ThreadId, record: RecordId) {
        let own = |inside: &&mut Inside| inside.put.thread == thread && inside.put.record == record;
        if let Some(inside) = self.inside.iter_mut().rev().find(own) {
            inside.accepted = true;
            return;
        }
        let own = |waiting: &&mut Waiting| waiting.inside == Some((thread, record));
        if let Some(waiting) = self.waiting.iter_mut().rev().find(own).filter(|waiting| !waiting.put.notify) {
            waiting.status.get_or_insert_with(|| "ok".into());
        }
    }

    /// Joins puts on the network with the puts inside IOCs that carry them out.
    fn join(&mut self) {
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.old.is_none()) {
            let Some(place) =
                self.inside.iter().position(|inside| inside.carries_out(waiting, &self.context))
            else {
                continue;
            };
            let Some(inside) = self.inside.remove(place) else { continue };
            waiting.old = Some(inside.put.old);
            waiting.inside = Some((inside.put.thread, inside.put.record));
            if waiting.pv.is_empty() {
                waiting.pv = inside.name;
            }
            if !inside.notify && inside.accepted {
                waiting.status.get_or_insert_with(|| "ok".into());
            }
        }
    }

    fn answer(&mut self, answer: &CaAnswer) {
        let meant = |waiting: &&mut Waiting| {
            waiting.circuit.id == answer.circuit
                && waiting.put.ioid == answer.ioid
                && waiting.put.notify == answer.notify
        };
        if let Some(waiting) = self.waiting.iter_mut().find(meant) {
            waiting.status = Some(eca::put_status(answer.status));
        }
    }

    /// Prints the puts that are complete or have waited long enough.
    fn print_waiting(&mut self, now: u64) {
        self.join();
        while let Some(first) = self.waiting.front() {
            let limit = if first.put.notify { WAIT_NOTIFY } else { WAIT_WRITE };
            let complete = first.status.is_some() && first.old.is_some();
            if !complete && now < first.time.saturating_add(limit) {
                break;
            }
            let Some(waiting) = self.waiting.pop_front() else { break };
            self.print_put(&waiting);
        }
        while self.inside.front().is_some_and(|inside| now >= inside.time.saturating_add(WAIT_WRITE)) {
            let Some(Inside { name, thread, put, .. }) = self.inside.pop_front() else { break };
            self.line(&format!("Put: {name} {} by {thread} old={}", text(&put.requested), text(&put.old)));
        }
    }

    fn print_put(&mut self, waiting: &Waiting) {
        let Waiting { put, circuit, pv, .. } = waiting;
        let value = from_channel_access(put.dbr, put.count, &put.payload);
        let value = match (Dbr(put.dbr), &value) {
            // these carry no value, but acknowledge the record's alarm (db_access.h)
            (Dbr::PUT_ACKT, _) => format!("ACKT={}", text(&value)),
            (Dbr::PUT_ACKS, Value::Int(severity)) => {
                let severity = u16::try_from(*severity).ok().and_then(severity_name);
                format!("asked to acknowledge alarm (severity {})", severity.unwrap_or("?"))
            }
            _ => text(&value),
        };
        let pv = if pv.is_empty() { "(channel opened before)" } else { pv };
        let time = self.time(waiting.time);
        let mut line = format!("{time}Write: {pv} {value} from {} to {}", circuit.client, circuit.server);
        for (name, known) in [("user", &circuit.user), ("host", &circuit.host)] {
            if !known.is_empty() {
                line.extend([" ", name, "="]);
                push_name(&mut line, known);
            }
        }
        // the processes at both ends, if known
        let ends = self.context.circuit_ends(circuit.id).copied().or(waiting.ends);
        for (name, ioc) in
            [("ioc", ends.and_then(|ends| ends.server)), ("by_ioc", ends.and_then(|ends| ends.client))]
        {
            if let Some(ioc) = ioc.and_then(|ioc| self.context.ioc(ioc)) {
                line.extend([" ", name, "="]);
                push_name(&mut line, &ioc.name);
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

impl<W: Write> Sink for Printer<W> {
    fn push(&mut self, event: Event) {
        // an end takes away what tells about it
        let ended = match &event.fact {
            Fact::StuckEnd(end) => runs_again(end, &self.context),
            _ => None,
        };
        self.context.apply(event.time, &event.fact);
        match event.fact {
            Fact::CaPut(put) => {
                let Some(circuit) = self.context.circuit(put.circuit).cloned() else { return };
                let pv =
                    self.context.channel(put.channel).map_or_else(String::new, |channel| channel.pv.clone());
                self.waiting.push_back(Waiting {
                    time: event.time,
                    put,
                    ends: self.context.circuit_ends(circuit.id).copied(),
                    circuit,
                    pv,
                    old: None,
                    status: None,
                    inside: None,
                });
            }
            Fact::CaAnswer(answer) => self.answer(&answer),
            Fact::PvaPut(put) => self.pva.put(event.time, &put, &self.context),
            Fact::PvaAnswer(answer) => self.pva.answer(event.time, &answer),
            Fact::PvaMessage(said) => {
                if let Some(line) = refused(&said, &self.context) {
                    let time = self.time(event.time);
                    self.line(&format!("{time}{line}"));
                }
            }
            Fact::Put(put) => self.put(event.time, *put),
            Fact::Process(process) => self.process(process.thread, process.record),
            // if dbProcess cannot be found; an active record began before the put
            Fact::RsetProcess(process) if !process.active => self.process(process.thread, process.record),
            Fact::Complete(complete) => {
                let severity = severity_name(complete.severity).unwrap_or("?");
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
            Fact::ChainsLeftOut(thinned) => {
                let (count, record) = (thinned.count, self.record(thinned.record));
                let line = format!("Thinned: {count} chain{} of {record} left out", terminal::plural(count));
                self.line(&line);
            }
            Fact::SignalSent(sent) => {
                let line = signal(&sent, &self.context);
                let time = self.time(event.time);
                self.line(&format!("{time}{line}"));
            }
            Fact::Crash(crash) => {
                let line = crashed(&crash, &self.context);
                let time = self.time(event.time);
                self.line(&format!("{time}{line}"));
            }
            Fact::Stuck(stuck) => {
                let line = stuck_line(&stuck, &self.context);
                let time = self.time(event.time);
                self.line(&format!("{time}{line}"));
            }
            Fact::StuckEnd(_) => {
                if let Some(line) = ended {
                    let time = self.time(event.time);
                    self.line(&format!("{time}{line}"));
                }
            }
            Fact::ScanOverruns(late) => {
                let name = self.context.ioc(late.ioc).map_or("?", |ioc| ioc.name.as_str());
                let list = self.context.scan_list(late.list).map_or("?", |list| &list.name);
                let scans = if late.more == 1 { "scan" } else { "scans" };
                let line = format!("Late: {name}: {} {scans} of {list} came too late", late.more);
                self.line(&line);
            }
            Fact::QueueFill(fill) => {
                let line = queue(&fill, &self.context);
                let time = self.time(event.time);
                self.line(&format!("{time}{line}"));
            }
            Fact::SlowClient(client) => {
                let line = slow(&client, &self.context);
                self.line(&line);
            }
            Fact::TcpConnection(connection) => {
                if let Some(line) = device(&connection, &self.context) {
                    self.line(&line);
                }
            }
            Fact::Attached(attached) if !attached.cause.is_empty() => {
                let name = self.context.ioc(attached.ioc).map_or("?", |ioc| ioc.name.as_str());
                let unseen = attached.since.saturating_sub(attached.from) as f64 / 1e9;
                let line = format!("Unseen: {name} for {unseen:.3} s until now: {}", attached.cause);
                self.line(&line);
            }
            Fact::Detached(detached) if !detached.cause.is_empty() => {
                let name = self.context.ioc(detached.ioc).map_or("?", |ioc| ioc.name.as_str());
                let line = format!("Unseen: {name} from now on: {}", detached.cause);
                self.line(&line);
            }
            Fact::ConsoleLine(said) => {
                let text = without_sequences(&said.text);
                let line = format!("Console: {}: {text}", self.place(said.thread));
                self.line(&line);
            }
            Fact::ConsoleLeftOut(left_out) => {
                let name = self.context.ioc(left_out.ioc).map_or("?", |ioc| ioc.name.as_str());
                let line = format!("Console: {name}: {left_out} left out");
                self.line(&line);
            }
            Fact::GivingUp(end) => {
                let line = format!("{}: {}", self.place(end.thread), end);
                self.line(&line);
            }
            Fact::Loss(loss) => {
                let time = self.time(event.time);
                let line = format!("{time}Lost: {} {:?}: {}", loss.count, loss.source, loss.cause);
                self.line(&line);
            }
            _ => {}
        }
    }

    fn tick(&mut self, now: u64) {
        self.print_waiting(now);
        for (time, line) in self.pva.lines(now) {
            let time = self.time(time);
            self.line(&format!("{time}{line}"));
        }
    }

    fn rest(&self, _now: u64) -> Duration {
        if self.waiting.is_empty() && self.inside.is_empty() && self.pva.is_empty() {
            UNTIL_WOKEN
        } else {
            ROUND
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::{
        Address, Channel, Dbf, Field, Origin, Process, PvaAnswer, PvaKind, PvaMessage, PvaPut, PvaValue,
        Record, ServerThread,
    };

    /// The lines printed for these facts, with a circuit, a channel and a record that are known.
    fn seen(facts: impl IntoIterator<Item = Fact>) -> String {
        let mut printed = Vec::new();
        let mut printer = Printer::new(Lines::new(&mut printed));
        let address = Address { ip: 0x7f00_0001, port: 5064 };
        let (client, server, origin) = (address, address, Origin::Opened);
        let (user, host) = ("ann".into(), String::new());
        let circuit = Circuit { id: 1, client, server, user, host, minor: 13, origin };
        let (cid, sid, dbr, count) = (None, None, None, None);
        let channel = Channel { id: 1, circuit: 1, cid, sid, pv: "T:SP".into(), dbr, count, origin };
        let (name, rtype) = ("T:SP".into(), "ao".into());
        let record = Record { id: 3, ioc: 1, address: 0, name, rtype };
        let thread = ServerThread { thread: 2, circuit: 1 };
        let known =
            [Fact::from(circuit), Fact::from(channel), Fact::from(record), Fact::ServerThread(thread)];
        for fact in known.into_iter().chain(facts) {
            printer.push(Event { time: 1, fact });
        }
        printer.tick(2 * WAIT_NOTIFY);
        drop(printer);
        String::from_utf8(printed).unwrap()
    }

    /// A put of 7 to the record.
    fn put(notify: bool, ioid: u32) -> Fact {
        let (dbr, payload) = (5, vec![0, 0, 0, 7]);
        Fact::CaPut(CaPut { circuit: 1, channel: 1, notify, dbr, count: 1, ioid, length: 8, payload })
    }

    fn statuses(printed: &str) -> Vec<&str> {
        printed.lines().filter_map(|line| Some(line.split_once("status=")?.1)).collect()
    }

    #[test]
    fn refusals_over_pvaccess_have_the_servers_text() {
        let of = |command, level, text: &str| {
            let text = text.into();
            Fact::PvaMessage(PvaMessage { circuit: 1, channel: Some(1), command, level, text })
        };
        let put = |ioid| {
            let (kind, options, value) = (PvaKind::Put, PvaValue::default(), PvaValue::default());
            Fact::PvaPut(Box::new(PvaPut { circuit: 1, channel: 1, ioid, kind, options, value }))
        };
        let answer = |ioid, status, text: &str| {
            let (kind, text, value) = (PvaKind::Put, text.into(), PvaValue::default());
            Fact::PvaAnswer(Box::new(PvaAnswer { circuit: 1, ioid, kind, status, text, value }))
        };
        let printed = seen([
            of(12, 2, "Not Implemented"),
            of(12, 1, "a warning"),
            of(7, 2, "no such channel"),
            put(1),
            put(2),
            answer(1, 2, "Put not permitted"),
            answer(2, 3, ""),
        ]);
        let refused: Vec<&str> = printed.lines().filter(|line| line.contains("Refused")).collect();
        let [line] = &refused[..] else { panic!("{printed}") };
        assert!(
            line.ends_with("T:SP (put_get) from 127.0.0.1:5064 to 127.0.0.1:5064: Not Implemented"),
            "{line}"
        );
        assert_eq!(statuses(&printed), ["error: Put not permitted", "error"]);
    }

    #[test]
    fn statuses_are_named_as_the_reader_names_them() {
        let answered = [eca::NORMAL, eca::NOWTACCESS, 160, 496].into_iter().zip(1..);
        let printed = seen(answered.flat_map(|(status, ioid)| {
            let answer = CaAnswer { circuit: 1, ioid, notify: true, status, text: "".into() };
            [put(true, ioid), Fact::CaAnswer(answer)]
        }));
        assert_eq!(statuses(&printed), ["ok", "denied", "ECA_PUTFAIL", "ECA 0x1f0"]);
    }

    /// What a put with callback finds that was refused (DISP), nobody sees: the next put's is its own. One to a link shows
    /// what it finds in dbPutField.
    #[test]
    fn a_put_has_no_other_ones_old_value() {
        let (name, rtype) = ("T:OTHER".into(), "ao".into());
        let other = Record { id: 4, ioc: 1, address: 0, name, rtype };
        let (cid, sid, dbr, count) = (None, None, None, None);
        let (pv, origin) = ("T:OTHER".into(), Origin::Opened);
        let channel = Channel { id: 2, circuit: 1, cid, sid, pv, dbr, count, origin };
        let (rtype, name) = ("ao".into(), "OUT".into());
        let link = Field { id: 5, ioc: 1, rtype, name, dbf: Dbf::OutLink, menu: None };
        let ask = |channel, ioid| {
            let (notify, dbr, payload) = (true, 5, vec![0, 0, 0, 7]);
            Fact::CaPut(CaPut { circuit: 1, channel, notify, dbr, count: 1, ioid, length: 8, payload })
        };
        let hit = |kind, record, field, old| {
            let (thread, sp, site, dbf, count) = (2, -8, 0, Dbf::Long, 1);
            let (requested, old) = (Value::Int(7), Value::Int(old));
            Fact::from(Put { thread, sp, site, kind, record, field, dbf, count, requested, old })
        };
        let printed = seen([
            Fact::from(other),
            Fact::from(channel),
            Fact::from(link),
            ask(1, 1),
            hit(PutKind::Notify, 3, None, 0),
            ask(2, 2),
            hit(PutKind::Notify, 4, None, 0),
            hit(PutKind::Put, 4, None, 99),
            ask(2, 3),
            hit(PutKind::Notify, 4, None, 0),
            hit(PutKind::PutField, 4, Some(5), 98),
        ]);
        let told: Vec<Option<&str>> =
            printed.lines().map(|line| line.split_once("old=").map(|(_, old)| old)).collect();
        assert_eq!(told, [None, Some("99"), Some("98")], "{printed}");
    }

    /// Also in an IOC whose dbProcess cannot be found.
    #[test]
    fn a_put_whose_record_is_processed_was_taken() {
        let (thread, sp, site, record) = (2, -8, 0, 3);
        let (kind, dbf, value) = (PutKind::PutField, Dbf::Long, Value::Int(7));
        let (requested, old) = (value.clone(), value);
        let inside =
            Fact::from(Put { thread, sp, site, kind, record, field: None, dbf, count: 1, requested, old });
        let process = |active| Process { thread, sp, site, record, active };
        for (process, status) in [
            (Fact::Process(process(false)), &["ok"][..]),
            (Fact::RsetProcess(process(false)), &["ok"]),
            (Fact::RsetProcess(process(true)), &[]),
        ] {
            let printed = seen([put(false, 1), inside.clone(), process.clone()]);
            assert_eq!(statuses(&printed), status, "{process:?}: {printed}");
        }
    }
}
