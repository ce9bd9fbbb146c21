//! What happens in an IOC, event by event, and the chains that come of it in short.

use iocrec_log::event::*;
use iocreplay::model::chain::{Chain, LinkSpan, Outcome, SpanKind};
use iocreplay::model::engine::Engine;
use iocreplay::model::order::Order;
use iocreplay::model::putlog::{each_put, PutLine};
use iocreplay::model::run::{record_name, Run};
use iocreplay::model::value;
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::rc::Rc;

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MS;
/// Where the wall clock stood at monotonic time 0.
pub const WALL: i64 = 1_790_000_000_000_000_000;

pub const CLIENT: ThreadId = 1;
pub const CLIENT2: ThreadId = 2;
pub const CB_LOW: ThreadId = 3;
pub const SCAN: ThreadId = 4;
pub const ONCE: ThreadId = 5;
pub const CA_LINK: ThreadId = 6;
pub const PVA: ThreadId = 7;
pub const MAIN: ThreadId = 8;
/// A client thread of the second IOC.
pub const REMOTE: ThreadId = 9;

pub const SP: RecordId = 1;
pub const CALC: RecordId = 2;
pub const FAN: RecordId = 3;
pub const RB1: RecordId = 4;
pub const STR: RecordId = 5;
pub const FAR: RecordId = 20;

pub const VAL: FieldId = 1;
pub const DESC: FieldId = 2;
pub const OUT: FieldId = 3;

/// Events of a run, told one after the other, and the definitions that they need.
pub struct Story {
    pub run: Rc<Run>,
    pub events: Vec<Event>,
}

pub fn story() -> Story {
    let run = Rc::new(Run::default());
    let define = |fact: Fact| run.apply(0, &fact);
    define(Fact::Clock(Clock { wall: WALL }));
    define(Fact::from(Host {
        name: "box1".into(),
        kernel: String::new(),
        arch: String::new(),
        boot_id: "b".into(),
        recorder: String::new(),
        utc_offset: 0,
    }));
    for (id, name, port) in [(1, "demo", 5064), (2, "second", 5066)] {
        define(Fact::from(Ioc {
            id,
            pid: 100 * id,
            start: 1,
            name: name.into(),
            exe: String::new(),
            cwd: String::new(),
            command: vec![],
            base_version: String::new(),
            ca_ports: vec![port],
            linkage: Linkage::Shared,
            not_probed: vec![],
            user: String::new(),
            pva_ports: Vec::new(),
            environment: Vec::new(),
        }));
    }
    for (id, name) in [
        (CLIENT, "CAS-client"),
        (CLIENT2, "CAS-client"),
        (CB_LOW, "cbLow"),
        (SCAN, "scan-0.1"),
        (ONCE, "scanOnce"),
        (CA_LINK, "dbCaLink"),
        (PVA, "PVXTCP"),
        (REMOTE, "CAS-client"),
    ] {
        let ioc = if id == REMOTE { 2 } else { 1 };
        define(Fact::Thread(Thread { id, ioc, tid: 1000 + id, name: name.into(), stack: 0 }));
    }
    define(Fact::Thread(Thread { id: MAIN, ioc: 1, tid: 100, name: "softIoc".into(), stack: 0 }));
    for (id, name, rtype) in [
        (SP, "T:SP", "ao"),
        (CALC, "T:CALC", "calc"),
        (FAN, "T:FAN", "fanout"),
        (RB1, "T:RB1", "ai"),
        (STR, "T:STR", "stringin"),
    ] {
        define(Fact::from(Record { id, ioc: 1, address: 0, name: name.into(), rtype: rtype.into() }));
    }
    define(Fact::from(Record { id: FAR, ioc: 2, address: 0, name: "R:FAR".into(), rtype: "ao".into() }));
    for (id, name, dbf) in
        [(VAL, "VAL", Dbf::Double), (DESC, "DESC", Dbf::String), (OUT, "OUT", Dbf::OutLink)]
    {
        define(Fact::from(Field { id, ioc: 1, rtype: "ao".into(), name: name.into(), dbf, menu: None }));
    }
    for (id, function) in SITES {
        let function = function.to_string();
        define(Fact::from(CallSite { id, ioc: 1, address: 0, function, module: "libdbCore.so".into() }));
    }
    for (circuit, port) in [(1, 5064), (2, 5064), (3, 5066)] {
        let ip = Ipv4Addr::new(10, 0, 0, circuit as u8);
        define(Fact::from(Circuit {
            id: circuit,
            client: Address::new(ip, 40_000),
            server: Address::new(Ipv4Addr::new(10, 0, 0, 9), port),
            user: format!("user{circuit}"),
            host: format!("console{circuit}"),
            minor: 13,
            origin: Origin::Opened,
        }));
    }
    for (id, circuit, pv) in [(1, 1, "T:SP"), (2, 2, "T:SP"), (3, 1, ""), (4, 3, "R:FAR"), (5, 1, "ALIAS")] {
        define(Fact::from(Channel {
            id,
            circuit,
            cid: Some(id),
            sid: Some(id),
            pv: pv.into(),
            dbr: Some(6),
            count: Some(1),
            origin: Origin::Opened,
        }));
    }
    Story { run, events: Vec::new() }
}

pub const SITES: [(CallSiteId, &str); 16] = [
    (1, "dbChannel_put"),
    (2, "write_notify_action"),
    (3, "dbScanPassive"),
    (4, "scanList"),
    (5, "eventCallback"),
    (6, "dbChannelPut"),
    (7, "dbpf"),
    (8, "onceTask"),
    (9, "postEvent"),
    (10, "dbpfCallFunc"),
    (11, "dbpfCallFunc.lto_priv.0"),
    (12, "dbpf.part.0"),
    (13, "dbPutField"),
    (14, "dbPutLink"),
    (15, "dbtpf"),
    (16, "tpnThread"),
];

pub fn site(function: &str) -> CallSiteId {
    SITES.iter().find(|(_, name)| *name == function).map_or(0, |(id, _)| *id)
}

impl Story {
    pub fn push(&mut self, time: u64, fact: Fact) -> &mut Self {
        self.events.push(Event { time, fact });
        self
    }

    #[allow(clippy::too_many_arguments)]
    pub fn put(
        &mut self,
        time: u64,
        kind: PutKind,
        thread: ThreadId,
        sp: i64,
        from: &str,
        record: RecordId,
        v: f64,
    ) -> &mut Self {
        let requested = if kind == PutKind::Notify { Value::Unknown } else { Value::Double(v) };
        let old = if kind == PutKind::Notify { Value::Unknown } else { Value::Double(v - 1.0) };
        let (dbf, count, field) = (Dbf::Double, 1, Some(VAL));
        let put = Put { thread, sp, site: site(from), kind, record, field, dbf, count, requested, old };
        self.push(time, Fact::from(put))
    }

    pub fn process(
        &mut self,
        time: u64,
        thread: ThreadId,
        sp: i64,
        from: &str,
        record: RecordId,
    ) -> &mut Self {
        let process = Process { thread, sp, site: site(from), record, active: false };
        self.push(time, Fact::Process(process))
    }

    pub fn routine(
        &mut self,
        time: u64,
        thread: ThreadId,
        sp: i64,
        record: RecordId,
        active: bool,
    ) -> &mut Self {
        self.push(time, Fact::RsetProcess(Process { thread, sp, site: 0, record, active }))
    }

    pub fn complete(
        &mut self,
        time: u64,
        thread: ThreadId,
        sp: i64,
        record: RecordId,
        value: f64,
    ) -> &mut Self {
        let value = Value::Double(value);
        let complete = Complete { thread, sp, site: 0, record, value, severity: 0, status: 0 };
        self.push(time, Fact::Complete(complete))
    }

    pub fn cause(
        &mut self,
        time: u64,
        thread: ThreadId,
        sp: i64,
        kind: CauseKind,
        record: Option<RecordId>,
    ) -> &mut Self {
        self.push(time, Fact::Cause(Cause { thread, sp, site: 0, kind, object: 0, record }))
    }

    pub fn link(
        &mut self,
        time: u64,
        thread: ThreadId,
        sp: i64,
        record: RecordId,
        pv: &str,
        v: f64,
    ) -> &mut Self {
        let value = Value::Double(v);
        let (pv, record) = (pv.to_owned(), Some(record));
        self.push(
            time,
            Fact::from(CaLinkPut { thread, sp, site: 0, record, pv, dbf: Dbf::Double, count: 1, value }),
        )
    }

    pub fn packet(
        &mut self,
        time: u64,
        circuit: CircuitId,
        channel: ChannelId,
        notify: bool,
        v: f64,
    ) -> &mut Self {
        let payload = v.to_be_bytes().to_vec();
        let ioid = self.events.len() as u32;
        self.push(
            time,
            Fact::CaPut(CaPut { circuit, channel, notify, dbr: 6, count: 1, ioid, length: 8, payload }),
        )
    }

    /// The server answers the put that was told as number `of`.
    pub fn answer(&mut self, time: u64, of: usize, status: u32) -> &mut Self {
        let Fact::CaPut(put) = &self.events[of].fact else { panic!("no packet") };
        let answer = CaAnswer {
            circuit: put.circuit,
            ioid: put.ioid,
            notify: put.notify,
            status,
            text: String::new(),
        };
        self.push(time, Fact::CaAnswer(answer))
    }

    /// A WRITE's hits in a client thread: the put, and the processing of its record.
    pub fn write(&mut self, time: u64, thread: ThreadId, record: RecordId, v: f64) -> &mut Self {
        self.put(time, PutKind::PutField, thread, -1000, "dbChannel_put", record, v)
            .put(time + 1, PutKind::Put, thread, -1100, "", record, v)
            .process(time + 2, thread, -1100, "", record)
            .complete(time + 3, thread, -1200, record, v)
    }

    /// The recorder reads a field of T:SP.
    pub fn held(&mut self, time: u64, field: FieldId, value: Value) -> &mut Self {
        self.push(time, Fact::FieldValue(FieldValue { record: SP, field, value }))
    }

    /// Reads the story as a log would be, whole before anything is given out.
    pub fn chains(&mut self) -> Vec<Chain> {
        self.events.sort_by_key(|event| event.time);
        let mut engine = Engine::new(Rc::clone(&self.run));
        let mut out = Vec::new();
        self.events.drain(..).for_each(|event| engine.push(event, &mut out));
        engine.finish(&mut out);
        out
    }

    /// Reads the story as a log would be.
    pub fn in_order(&mut self) -> Vec<Chain> {
        self.events.sort_by_key(|event| event.time);
        let mut engine = Engine::new(Rc::clone(&self.run));
        let (mut out, mut order, mut chains) = (Vec::new(), Order::default(), VecDeque::new());
        for event in self.events.drain(..) {
            engine.push(event, &mut out);
            out.drain(..).for_each(|chain| order.insert(chain));
            let settled = engine.oldest().unwrap_or(engine.now()).min(engine.now());
            order.release(self.run.wall(settled), &mut chains);
        }
        engine.finish(&mut out);
        out.drain(..).for_each(|chain| order.insert(chain));
        order.release(i64::MAX, &mut chains);
        chains.into()
    }

    pub fn sketch(&mut self) -> String {
        self.in_order().iter().map(|chain| sketch(chain, 0)).collect()
    }

    pub fn puts(&mut self) -> Vec<PutLine> {
        let mut puts = Vec::new();
        self.in_order().iter().for_each(|chain| each_put(chain, true, &mut |put| puts.push(put)));
        puts
    }
}

/// A chain in short: a line a span, indented.
pub fn sketch(chain: &Chain, depth: usize) -> String {
    let children = chain.children();
    let mut text = String::new();
    node(&mut text, chain, &children, 0, depth);
    text
}

pub fn node(text: &mut String, chain: &Chain, children: &[Vec<usize>], number: usize, depth: usize) {
    let context = chain.run.context();
    let span = &chain.spans[number];
    text.push_str(&"  ".repeat(depth));
    match &span.kind {
        SpanKind::Put(put) => {
            let record = put.record.map_or("-".into(), |record| record_name(&context, record));
            text.push_str(&format!("put {record} {}", value::text(&put.requested)));
            if let Some(packet) = &put.packet {
                text.push_str(&format!(" circuit {}", packet.circuit));
            }
        }
        SpanKind::Process(process) => {
            text.push_str(&format!("{} {}", record_name(&context, process.record), process.trigger.name()));
            match &process.outcome {
                Outcome::Open => text.push_str(" open"),
                Outcome::Active => text.push_str(" active"),
                Outcome::Skipped => text.push_str(" not completed"),
                Outcome::Disabled => text.push_str(" disabled"),
                Outcome::Waiting => text.push_str(" waiting"),
                Outcome::Entered { again } => {
                    text.push_str(if *again { " entered again" } else { " entered" })
                }
                Outcome::Completed(completed) => {
                    text.push_str(&format!(" = {}", value::text(&completed.value)))
                }
            }
            for phase in &process.phases {
                text.push_str(&match phase.asked {
                    Some(kind) => format!(" {kind:?}"),
                    None => format!(" went on in {}", context.thread(phase.thread).unwrap().name),
                });
            }
        }
        SpanKind::Link(link) => {
            let LinkSpan { pv, target, .. } = &**link;
            text.push_str(&format!("link to {pv}"));
            if let Some(target) = target {
                text.push('\n');
                text.push_str(sketch(target, depth + 1).trim_end());
            }
        }
    }
    text.push('\n');
    children[number].iter().for_each(|child| node(text, chain, children, *child, depth + 1));
}
