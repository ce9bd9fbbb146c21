//! Chains from made-up events: every rule of the engine, each on the smallest example.

mod bounds;
mod ends;
mod outcome;

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

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
/// Where the wall clock stood at monotonic time 0.
const WALL: i64 = 1_790_000_000_000_000_000;

const CLIENT: ThreadId = 1;
const CLIENT2: ThreadId = 2;
const CB_LOW: ThreadId = 3;
const SCAN: ThreadId = 4;
const ONCE: ThreadId = 5;
const CA_LINK: ThreadId = 6;
const PVA: ThreadId = 7;
const MAIN: ThreadId = 8;
/// A client thread of the second IOC.
const REMOTE: ThreadId = 9;

const SP: RecordId = 1;
const CALC: RecordId = 2;
const FAN: RecordId = 3;
const RB1: RecordId = 4;
const STR: RecordId = 5;
const FAR: RecordId = 20;

const VAL: FieldId = 1;
const DESC: FieldId = 2;
const OUT: FieldId = 3;

/// Events of a run, told one after the other, and the definitions that they need.
struct Story {
    run: Rc<Run>,
    events: Vec<Event>,
}

fn story() -> Story {
    let run = Rc::new(Run::default());
    let define = |fact: Fact| run.apply(0, &fact);
    define(Fact::Clock(Clock { wall: WALL }));
    define(Fact::Host(Host {
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
        define(Fact::Record(Record { id, ioc: 1, address: 0, name: name.into(), rtype: rtype.into() }));
    }
    define(Fact::Record(Record { id: FAR, ioc: 2, address: 0, name: "R:FAR".into(), rtype: "ao".into() }));
    for (id, name, dbf) in
        [(VAL, "VAL", Dbf::Double), (DESC, "DESC", Dbf::String), (OUT, "OUT", Dbf::OutLink)]
    {
        define(Fact::Field(Field { id, ioc: 1, rtype: "ao".into(), name: name.into(), dbf, menu: None }));
    }
    for (id, function) in SITES {
        let function = function.to_string();
        define(Fact::CallSite(CallSite { id, ioc: 1, address: 0, function, module: "libdbCore.so".into() }));
    }
    for (circuit, port) in [(1, 5064), (2, 5064), (3, 5066)] {
        let ip = Ipv4Addr::new(10, 0, 0, circuit as u8);
        define(Fact::Circuit(Circuit {
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
        define(Fact::Channel(Channel {
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

const SITES: [(CallSiteId, &str); 9] = [
    (1, "dbChannel_put"),
    (2, "write_notify_action"),
    (3, "dbScanPassive"),
    (4, "scanList"),
    (5, "eventCallback"),
    (6, "dbChannelPut"),
    (7, "dbpf"),
    (8, "onceTask"),
    (9, "postEvent"),
];

fn site(function: &str) -> CallSiteId {
    SITES.iter().find(|(_, name)| *name == function).map_or(0, |(id, _)| *id)
}

impl Story {
    fn push(&mut self, time: u64, fact: Fact) -> &mut Self {
        self.events.push(Event { time, fact });
        self
    }

    #[allow(clippy::too_many_arguments)]
    fn put(
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
        self.push(time, Fact::Put(put))
    }

    fn process(&mut self, time: u64, thread: ThreadId, sp: i64, from: &str, record: RecordId) -> &mut Self {
        let process = Process { thread, sp, site: site(from), record, active: false };
        self.push(time, Fact::Process(process))
    }

    fn routine(&mut self, time: u64, thread: ThreadId, sp: i64, record: RecordId, active: bool) -> &mut Self {
        self.push(time, Fact::RsetProcess(Process { thread, sp, site: 0, record, active }))
    }

    fn complete(&mut self, time: u64, thread: ThreadId, sp: i64, record: RecordId, value: f64) -> &mut Self {
        let value = Value::Double(value);
        let complete = Complete { thread, sp, site: 0, record, value, severity: 0, status: 0 };
        self.push(time, Fact::Complete(complete))
    }

    fn cause(
        &mut self,
        time: u64,
        thread: ThreadId,
        sp: i64,
        kind: CauseKind,
        record: Option<RecordId>,
    ) -> &mut Self {
        self.push(time, Fact::Cause(Cause { thread, sp, site: 0, kind, object: 0, record }))
    }

    fn link(
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
            Fact::CaLinkPut(CaLinkPut { thread, sp, site: 0, record, pv, dbf: Dbf::Double, count: 1, value }),
        )
    }

    fn packet(
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
    fn answer(&mut self, time: u64, of: usize, status: u32) -> &mut Self {
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
    fn write(&mut self, time: u64, thread: ThreadId, record: RecordId, v: f64) -> &mut Self {
        self.put(time, PutKind::PutField, thread, -1000, "dbChannel_put", record, v)
            .put(time + 1, PutKind::Put, thread, -1100, "", record, v)
            .process(time + 2, thread, -1100, "", record)
            .complete(time + 3, thread, -1200, record, v)
    }

    /// The recorder reads a field of T:SP.
    fn held(&mut self, time: u64, field: FieldId, value: Value) -> &mut Self {
        self.push(time, Fact::FieldValue(FieldValue { record: SP, field, value }))
    }

    /// Reads the story as a log would be, whole before anything is given out.
    fn chains(&mut self) -> Vec<Chain> {
        self.events.sort_by_key(|event| event.time);
        let mut engine = Engine::new(Rc::clone(&self.run));
        let mut out = Vec::new();
        self.events.drain(..).for_each(|event| engine.push(event, &mut out));
        engine.finish(&mut out);
        out
    }

    /// Reads the story as a log would be.
    fn in_order(&mut self) -> Vec<Chain> {
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

    fn sketch(&mut self) -> String {
        self.in_order().iter().map(|chain| sketch(chain, 0)).collect()
    }

    fn puts(&mut self) -> Vec<PutLine> {
        let mut puts = Vec::new();
        self.in_order().iter().for_each(|chain| each_put(chain, true, &mut |put| puts.push(put)));
        puts
    }
}

/// A chain in short: a line a span, indented.
fn sketch(chain: &Chain, depth: usize) -> String {
    let children = chain.children();
    let mut text = String::new();
    node(&mut text, chain, &children, 0, depth);
    text
}

fn node(text: &mut String, chain: &Chain, children: &[Vec<usize>], number: usize, depth: usize) {
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
        SpanKind::Link(LinkSpan { pv, target, .. }) => {
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

/// The trace at the top of facts/epics.md, stack pointers and all.
#[test]
fn a_nested_chain_by_entry_probes_alone() {
    let mut story = story();
    for (n, (what, sp, record)) in [
        ("PUTF", 0x8d08, SP),
        ("PUT", 0x8be8, SP),
        ("P", 0x8be8, SP),
        ("PUT", 0x8ac8, CALC),
        ("P", 0x8a78, CALC),
        ("F", 0x8978, CALC),
        ("P", 0x88e8, FAN),
        ("P", 0x87b8, RB1),
        ("F", 0x86c8, RB1),
        ("P", 0x87b8, STR),
        ("F", 0x86e8, STR),
        ("F", 0x8838, FAN),
        ("F", 0x8b18, SP),
    ]
    .into_iter()
    .enumerate()
    {
        let time = SECOND + n as u64 * 1000;
        match what {
            "PUTF" => story.put(time, PutKind::PutField, CLIENT, sp, "", record, 2.0),
            "PUT" => story.put(time, PutKind::Put, CLIENT, sp, "", record, 2.0),
            "P" => story.process(time, CLIENT, sp, "", record),
            _ => story.complete(time, CLIENT, sp, record, f64::from(record)),
        };
    }
    assert_eq!(
        story.sketch(),
        "put T:SP 2\n  T:SP put = 1\n    put T:CALC 2\n      T:CALC OUT = 2\n        T:FAN FLNK = 3\n          \
         T:RB1 LNKn = 4\n          T:STR LNKn = 5\n"
    );
}

#[test]
fn forward_links_of_the_root_are_siblings_of_what_it_wrote_to() {
    let mut story = story();
    story
        .process(SECOND, SCAN, -100, "scanList", SP)
        .put(SECOND + 1, PutKind::Put, SCAN, -300, "", RB1, 7.0)
        .complete(SECOND + 2, SCAN, -200, SP, 7.0)
        .process(SECOND + 3, SCAN, -300, "dbScanPassive", CALC)
        .complete(SECOND + 4, SCAN, -400, CALC, 8.0)
        .process(SECOND + 5, SCAN, -100, "scanList", FAN)
        .complete(SECOND + 6, SCAN, -200, FAN, 0.0);
    assert_eq!(story.sketch(), "T:SP scan = 7\n  put T:RB1 7\n  T:CALC FLNK = 8\nT:FAN scan = 0\n");
}

/// Where only process routines are probed, one below another's stack pointer need not be called by it: nothing
/// is claimed, and none is taken for skipped.
#[test]
fn process_routines_stand_alone() {
    let mut story = story();
    story
        .routine(SECOND, CLIENT, -100, SP, false)
        .routine(SECOND + 1, CLIENT, -300, CALC, false)
        .routine(SECOND + 2, CB_LOW, -100, CALC, true)
        .routine(2 * SECOND, CLIENT, -100, SP, false);
    let expected =
        "T:SP unknown entered\nT:CALC unknown entered\nT:CALC unknown entered again\nT:SP unknown entered\n";
    assert_eq!(story.sketch(), expected);
}

#[test]
fn a_record_read_through_a_link_and_one_that_is_busy() {
    let mut story = story();
    story.process(SECOND, SCAN, -100, "scanList", CALC).process(SECOND + 1, SCAN, -300, "dbScanPassive", RB1);
    let active = Process { thread: SCAN, sp: -300, site: 0, record: SP, active: true };
    story.complete(SECOND + 2, SCAN, -400, RB1, 1.0).push(SECOND + 3, Fact::Process(active)).complete(
        SECOND + 4,
        SCAN,
        -200,
        CALC,
        2.0,
    );
    assert_eq!(story.sketch(), "T:CALC scan = 2\n  T:RB1 INP = 1\n  T:SP INP active\n");
}

#[test]
fn an_asynchronous_record_is_one_span() {
    let mut story = story();
    story
        .write(SECOND, CLIENT, SP, 1.0)
        .process(SECOND + 10, CLIENT, -1300, "dbScanPassive", CALC)
        .cause(SECOND + 11, CLIENT, -1400, CauseKind::CallbackRequestProcessDelayed, Some(CALC))
        // Half a second later, in a callback thread whose stack still shows an earlier callback.
        .process(SECOND + 400 * MS, CB_LOW, -100, "eventCallback", STR)
        .complete(SECOND + 401 * MS, CB_LOW, -150, STR, 9.0)
        .complete(SECOND + 500 * MS, CB_LOW, -200, CALC, 3.0)
        .process(SECOND + 501 * MS, CB_LOW, -300, "dbScanPassive", FAN)
        .complete(SECOND + 502 * MS, CB_LOW, -400, FAN, 0.0);
    let chains = story.in_order();
    assert_eq!(
        chains.iter().map(|chain| sketch(chain, 0)).collect::<String>(),
        "put T:SP 1\n  T:SP put = 1\n    T:CALC FLNK = 3 CallbackRequestProcessDelayed went on in cbLow\n      \
         T:FAN FLNK = 0\nT:STR event = 9\n"
    );
    let calc = &chains[0].spans[2];
    assert_eq!((calc.start, calc.end), (SECOND + 10, SECOND + 500 * MS));
    assert!(!chains[0].open);
}

#[test]
fn what_an_asynchronous_record_writes_to_before_it_completes() {
    let mut story = story();
    story
        .process(SECOND, SCAN, -100, "scanList", CALC)
        .cause(SECOND + 1, SCAN, -200, CauseKind::CallbackRequestProcessDelayed, Some(CALC))
        .put(SECOND + 300 * MS, PutKind::Put, CB_LOW, -500, "", RB1, 4.0)
        .process(SECOND + 301 * MS, CB_LOW, -520, "dbScanPassive", RB1)
        .complete(SECOND + 302 * MS, CB_LOW, -600, RB1, 4.0)
        .complete(SECOND + 303 * MS, CB_LOW, -200, CALC, 4.0);
    assert_eq!(
        story.sketch(),
        "T:CALC scan = 4 CallbackRequestProcessDelayed went on in cbLow\n  put T:RB1 4\n    T:RB1 OUT = 4\n"
    );
}

/// Frames of an earlier callback are never parents of what another callback does.
#[test]
fn callbacks_do_not_inherit_from_each_other() {
    let mut story = story();
    story
        .process(SECOND, CB_LOW, -100, "eventCallback", SP)
        .complete(SECOND + 1, CB_LOW, -200, SP, 1.0)
        .process(SECOND + 2, CB_LOW, -300, "eventCallback", CALC)
        .complete(SECOND + 3, CB_LOW, -400, CALC, 2.0);
    assert_eq!(story.sketch(), "T:SP event = 1\nT:CALC event = 2\n");
}

/// The same where the functions' names are not known: a record that has completed calls nothing more.
#[test]
fn callbacks_of_a_stripped_ioc() {
    let mut story = story();
    story
        .process(SECOND, CB_LOW, -100, "", SP)
        .complete(SECOND + 1, CB_LOW, -200, SP, 1.0)
        .process(SECOND + 2, CB_LOW, -150, "", CALC)
        .complete(SECOND + 3, CB_LOW, -250, CALC, 2.0)
        .process(SECOND + 4, CB_LOW, -350, "", FAN)
        .complete(SECOND + 5, CB_LOW, -450, FAN, 0.0)
        .process(SECOND + 6, CB_LOW, -350, "", STR)
        .complete(SECOND + 7, CB_LOW, -450, STR, 3.0);
    assert_eq!(
        story.sketch(),
        "T:SP callback = 1\nT:CALC callback = 2\n  T:FAN FLNK = 0\nT:STR callback = 3\n"
    );
}

/// Two asynchronous records, one after the other: the second's link is not the first's.
#[test]
fn what_one_asynchronous_record_writes_is_not_anothers() {
    let mut story = story();
    story
        .process(SECOND, SCAN, -100, "scanList", SP)
        .process(SECOND + 1, SCAN, -100, "scanList", CALC)
        .complete(SECOND + 200 * MS, CB_LOW, -200, SP, 4.0)
        .put(SECOND + 300 * MS, PutKind::Put, CB_LOW, -500, "", RB1, 4.0)
        .process(SECOND + 301 * MS, CB_LOW, -520, "dbScanPassive", RB1)
        .complete(SECOND + 302 * MS, CB_LOW, -600, RB1, 4.0)
        .complete(SECOND + 303 * MS, CB_LOW, -250, CALC, 5.0);
    assert_eq!(
        story.sketch(),
        "T:SP scan = 4 went on in cbLow\nT:CALC scan = 5 went on in cbLow\n  put T:RB1 4\n    T:RB1 OUT = 4\n"
    );
}

/// Two seq records in one callback thread, with delays. Base 3.14 completes a record in a frame that is deeper than
/// that of its put; each asks for its callback anew after each link.
#[test]
fn delayed_links_of_two_records_are_told_apart() {
    let mut story = story();
    let delayed = |story: &mut Story, time, thread, sp, object| {
        let (site, kind) = (0, CauseKind::CallbackRequestDelayed);
        story.push(time, Fact::Cause(Cause { thread, sp, site, kind, object, record: None }));
    };
    story.process(SECOND, SCAN, -100, "scanList", SP);
    delayed(&mut story, SECOND + 1, SCAN, -200, 0x10);
    story.process(SECOND + 2, SCAN, -100, "scanList", CALC);
    delayed(&mut story, SECOND + 3, SCAN, -200, 0x20);
    let link = |story: &mut Story, time, value| {
        story
            .put(time, PutKind::Put, CB_LOW, -32, "", RB1, value)
            .process(time + 1, CB_LOW, -32, "dbScanPassive", RB1)
            .complete(time + 2, CB_LOW, -96, RB1, value);
    };
    for (after, object) in [(100, 0x10), (101, 0x20)] {
        link(&mut story, SECOND + after * MS, after as f64);
        delayed(&mut story, SECOND + after * MS + 9, CB_LOW, -64, object);
    }
    link(&mut story, SECOND + 300 * MS, 300.0);
    story.complete(SECOND + 300 * MS + 9, CB_LOW, -48, CALC, 2.0);
    link(&mut story, SECOND + 400 * MS, 400.0);
    story.complete(SECOND + 400 * MS + 9, CB_LOW, -48, SP, 1.0);
    assert_eq!(
        story.sketch(),
        "T:SP scan = 1 CallbackRequestDelayed went on in cbLow\n  put T:RB1 100\n    T:RB1 OUT = 100\n  put T:RB1 400\n    T:RB1 OUT = 400\n\
         T:CALC scan = 2 CallbackRequestDelayed went on in cbLow\n  put T:RB1 101\n    T:RB1 OUT = 101\n  put T:RB1 300\n    T:RB1 OUT = 300\n"
    );
}

#[test]
fn a_record_that_never_completes() {
    let mut story = story();
    story
        .process(SECOND, SCAN, -100, "scanList", SP)
        .process(SECOND + 100 * MS, SCAN, -100, "scanList", SP)
        .complete(SECOND + 101 * MS, SCAN, -200, SP, 1.0)
        .process(SECOND + 200 * MS, SCAN, -100, "scanList", CALC);
    assert_eq!(story.sketch(), "T:SP scan not completed\nT:SP scan = 1\nT:CALC scan open\n");
}

#[test]
fn a_chain_that_takes_too_long_is_given_out_open() {
    let mut story = story();
    story.process(SECOND, SCAN, -100, "scanList", SP);
    for n in 0..100 {
        let time = SECOND + n * SECOND;
        story.process(time + 1, SCAN, -100, "scanList", CALC).complete(time + 2, SCAN, -200, CALC, 1.0);
    }
    story.complete(SECOND + 90 * SECOND + 9, CB_LOW, -200, SP, 5.0);
    let chains = story.in_order();
    assert!(chains[0].open);
    assert_eq!(sketch(&chains[0], 0), "T:SP scan open\n");
    let late: Vec<String> =
        chains.iter().map(|chain| sketch(chain, 0)).filter(|text| text.contains("completion")).collect();
    assert_eq!(late, ["T:SP completion = 5\n"]);
    assert_eq!(chains.len(), 102);
}

#[test]
fn packet_and_hit_are_one_put() {
    let mut story = story();
    story.packet(SECOND, 1, 1, false, 2.0).write(SECOND + MS, CLIENT, SP, 2.0);
    let puts = story.puts();
    assert_eq!(puts.len(), 1);
    let put = &puts[0];
    assert_eq!(put.source, "both");
    assert_eq!(put.status, "ok");
    assert_eq!(put.user.as_deref(), Some("user1"));
    assert_eq!(put.client.as_deref(), Some("10.0.0.1:40000"));
    assert_eq!(put.ioc.as_deref(), Some("demo"));
    assert_eq!((&put.old, &put.new, put.inexact), (&Value::Double(1.0), &Value::Double(2.0), false));
    assert_eq!(put.via.name(), "ca_write");
    assert_eq!(put.time, WALL + SECOND as i64);
    assert_eq!(put.callback_ms, None);
}

#[test]
fn a_put_with_callback_carries_its_value_in_the_put_inside() {
    let mut story = story();
    story
        .packet(SECOND, 1, 1, true, 2.0)
        .put(SECOND + MS, PutKind::Notify, CLIENT, -900, "write_notify_action", SP, 0.0)
        .put(SECOND + MS + 1, PutKind::Put, CLIENT, -1100, "dbChannelPut", SP, 2.0)
        .process(SECOND + MS + 2, CLIENT, -1100, "", SP)
        .complete(SECOND + MS + 3, CLIENT, -1200, SP, 2.0)
        .answer(SECOND + 4 * MS, 0, 1);
    let puts = story.puts();
    assert_eq!(puts.len(), 1);
    assert_eq!((puts[0].source, puts[0].via.name(), &*puts[0].status), ("both", "ca_write_notify", "ok"));
    assert_eq!(puts[0].callback_ms, Some(4.0));
    assert_eq!(puts[0].old, Value::Double(1.0));
}

/// The record was busy: the server carries the put out in a callback thread, when it is done.
#[test]
fn a_put_with_callback_to_a_busy_record() {
    let mut story = story();
    story
        .packet(SECOND, 1, 1, true, 2.0)
        .put(SECOND + MS, PutKind::Notify, CLIENT, -900, "write_notify_action", SP, 0.0)
        .packet(SECOND + 2 * MS, 1, 3, false, 8.0)
        .write(SECOND + 3 * MS, CLIENT, RB1, 8.0)
        .put(SECOND + 900 * MS, PutKind::Put, CB_LOW, -300, "dbChannelPut", SP, 2.0)
        .process(SECOND + 901 * MS, CB_LOW, -280, "", SP)
        .complete(SECOND + 902 * MS, CB_LOW, -380, SP, 2.0)
        .answer(SECOND + 903 * MS, 0, 1);
    let puts = story.puts();
    let seen: Vec<_> = puts
        .iter()
        .map(|put| (put.record.as_deref().unwrap(), put.source, &put.new, put.callback_ms))
        .collect();
    assert_eq!(
        seen,
        [("T:SP", "both", &Value::Double(2.0), Some(903.0)), ("T:RB1", "both", &Value::Double(8.0), None)]
    );
}

/// The record was busy, and is processed once more because of the put (RPRO).
#[test]
fn a_put_to_a_busy_record() {
    let mut story = story();
    story
        .put(SECOND, PutKind::PutField, CLIENT, -1000, "dbChannel_put", SP, 1.0)
        .put(SECOND + 1, PutKind::Put, CLIENT, -1100, "", SP, 1.0)
        .process(SECOND + 2, CLIENT, -1100, "", SP)
        .put(SECOND + MS, PutKind::PutField, CLIENT2, -1000, "dbChannel_put", SP, 2.0)
        .put(SECOND + MS + 1, PutKind::Put, CLIENT2, -1100, "", SP, 2.0)
        .complete(SECOND + 300 * MS, CB_LOW, -200, SP, 1.0)
        .cause(SECOND + 300 * MS + 1, CB_LOW, -300, CauseKind::ScanOnce, Some(SP))
        .process(SECOND + 301 * MS, ONCE, -100, "onceTask", SP)
        .complete(SECOND + 301 * MS + 1, ONCE, -200, SP, 2.0);
    assert_eq!(story.sketch(), "put T:SP 1\n  T:SP put = 1 went on in cbLow\nput T:SP 2\n  T:SP once = 2\n");
}

/// A PVAccess server's thread writes with and without callback: what comes after a put is not in it.
#[test]
fn a_put_after_one_with_callback_is_its_own() {
    let mut story = story();
    story
        .put(SECOND, PutKind::Notify, PVA, 700, "", SP, 0.0)
        .put(SECOND + 1, PutKind::Put, PVA, -150, "", SP, 1.0)
        .process(SECOND + 2, PVA, 650, "", SP)
        .complete(SECOND + 3, PVA, 450, SP, 1.0)
        .put(SECOND + MS, PutKind::Put, PVA, 0, "", STR, 2.0);
    let puts = story.puts();
    let seen: Vec<_> = puts.iter().map(|put| (put.record.as_deref(), put.via.name())).collect();
    assert_eq!(seen, [(Some("T:SP"), "pva"), (Some("T:STR"), "pva")]);
}

/// What an event record posts is processed for it, in a callback thread.
#[test]
fn an_event_belongs_to_the_record_that_posted_it() {
    let mut story = story();
    story.process(SECOND, SCAN, -100, "scanList", SP);
    let (kind, record) = (CauseKind::CallbackRequest, None);
    let posted = Cause { thread: SCAN, sp: -200, site: site("postEvent"), kind, object: 0x40, record };
    story
        .push(SECOND + 1, Fact::Cause(posted))
        .complete(SECOND + 2, SCAN, -150, SP, 1.0)
        .process(SECOND + 3, CB_LOW, -100, "scanList", CALC)
        .complete(SECOND + 4, CB_LOW, -200, CALC, 3.0);
    assert_eq!(story.sketch(), "T:SP scan = 1\n  T:CALC event = 3\n");
}

#[test]
fn denied_puts_have_an_answer_and_no_hit() {
    let mut story = story();
    story.packet(SECOND, 1, 1, true, 2.0).answer(SECOND + MS, 0, 0x178);
    story.packet(SECOND + 2 * MS, 1, 1, false, 3.0).answer(SECOND + 3 * MS, 2, 0x178);
    // The next, of the same value, is accepted: the hit is this one's.
    story.packet(SECOND + 4 * MS, 1, 1, false, 3.0).write(SECOND + 5 * MS, CLIENT, SP, 3.0);
    let puts = story.puts();
    let seen: Vec<_> = puts.iter().map(|put| (&*put.status, put.source, value::text(&put.new))).collect();
    assert_eq!(
        seen,
        [("denied", "packet", "?".into()), ("denied", "packet", "?".into()), ("ok", "both", "3".into())]
    );
}

#[test]
fn a_put_that_fails_in_the_ioc() {
    let mut story = story();
    story.packet(SECOND, 1, 1, false, 2.0);
    story.put(SECOND + MS, PutKind::PutField, CLIENT, -1000, "dbChannel_put", SP, 2.0);
    story.answer(SECOND + 2 * MS, 0, 160);
    let puts = story.puts();
    assert_eq!(puts.len(), 1);
    assert_eq!((&*puts[0].status, &puts[0].new), ("ECA_PUTFAIL", &Value::Unknown));
}

/// The client was connected before the recorder, which never learned the name of its channel.
#[test]
fn an_unnamed_channel_gets_its_name_from_the_hit() {
    let mut story = story();
    story.packet(SECOND, 1, 3, false, 2.0).write(SECOND + MS, CLIENT, SP, 2.0);
    let puts = story.puts();
    assert_eq!(puts.len(), 1);
    assert_eq!((puts[0].source, puts[0].pv.as_deref()), ("both", Some("T:SP")));
}

#[test]
fn an_alias_is_recognised_once_the_thread_is_known() {
    let mut story = story();
    story.packet(SECOND, 1, 1, false, 2.0).write(SECOND + MS, CLIENT, SP, 2.0);
    story.packet(SECOND + 2 * MS, 1, 5, false, 7.0).write(SECOND + 3 * MS, CLIENT, RB1, 7.0);
    let puts = story.puts();
    assert_eq!(puts.len(), 2);
    assert_eq!(
        (puts[1].source, puts[1].pv.as_deref(), puts[1].record.as_deref()),
        ("both", Some("ALIAS"), Some("T:RB1"))
    );
}

/// Two clients put the same value to the same PV at once; what each does next tells them apart.
#[test]
fn two_clients_at_once() {
    let mut story = story();
    story
        .packet(SECOND, 1, 1, false, 2.0)
        .packet(SECOND + 1, 2, 2, false, 2.0)
        // The second client's thread is the first to come to it.
        .write(SECOND + MS, CLIENT2, SP, 2.0)
        .write(SECOND + 2 * MS, CLIENT, SP, 2.0)
        .packet(SECOND + 10 * MS, 1, 1, false, 3.0)
        .write(SECOND + 11 * MS, CLIENT, SP, 3.0);
    let chains = story.in_order();
    let seen: Vec<(u32, Option<ThreadId>)> = chains
        .iter()
        .map(|chain| match &chain.spans[0].kind {
            SpanKind::Put(put) => (put.packet.as_ref().unwrap().circuit, chain.spans[0].thread),
            _ => panic!("no put"),
        })
        .collect();
    assert_eq!(seen, [(2, Some(CLIENT2)), (1, Some(CLIENT)), (1, Some(CLIENT))], "as they were carried out");
}

#[test]
fn the_recorder_knows_which_thread_serves_whom() {
    let mut story = story();
    for (thread, circuit) in [(CLIENT, 2), (CLIENT2, 1)] {
        story.push(1, Fact::ServerThread(ServerThread { thread, circuit }));
    }
    story
        .packet(SECOND, 1, 1, false, 2.0)
        .packet(SECOND + 1, 2, 2, false, 2.0)
        .write(SECOND + MS, CLIENT, SP, 2.0)
        .write(SECOND + 2 * MS, CLIENT2, SP, 2.0);
    assert_eq!(
        story.sketch(),
        "put T:SP 2 circuit 2\n  T:SP put = 2\nput T:SP 2 circuit 1\n  T:SP put = 2\n",
        "as they were carried out"
    );
}

/// Two clients write to a record as fast as they can: messages come many at once, and the server's threads take turns.
#[test]
fn puts_of_a_burst_stand_in_the_order_in_which_they_were_carried_out() {
    let mut story = story();
    for (thread, circuit) in [(CLIENT, 1), (CLIENT2, 2)] {
        story.push(1, Fact::ServerThread(ServerThread { thread, circuit }));
    }
    let value = |circuit: u64, number: u64| (circuit * 1000 + number) as f64;
    for number in 0..100 {
        // ten of a client in a packet
        let time = SECOND + number / 10;
        story.packet(time, 1, 1, false, value(1, number)).packet(time, 2, 2, false, value(2, number));
    }
    let mut done = Vec::new();
    for number in 0..100 {
        let turns = [(1, CLIENT), (2, CLIENT2)];
        // after some seven of its own a thread lets the other go on
        let turns = if number % 7 < 4 { turns } else { [turns[1], turns[0]] };
        for (which, (circuit, thread)) in turns.into_iter().enumerate() {
            let time = SECOND + MS + 2 * number * MS + which as u64 * MS;
            story.write(time, thread, SP, value(circuit, number));
            done.push(Value::Double(value(circuit, number)));
        }
    }
    let requested: Vec<Value> = story.puts().into_iter().map(|put| put.requested).collect();
    assert_eq!(requested, done);
}

/// Without probes nothing but the order of the messages is known.
#[test]
fn messages_that_came_together_keep_their_order() {
    let mut story = story();
    (0..200).for_each(|number| _ = story.packet(SECOND, 1, 1, false, f64::from(number)));
    let requested: Vec<Value> = story.puts().into_iter().map(|put| put.requested).collect();
    let sent: Vec<Value> = (0..200).map(|number| Value::Double(f64::from(number))).collect();
    assert_eq!(requested, sent);
}

#[test]
fn hits_lag_behind_on_a_busy_server_but_keep_their_order() {
    let mut story = story();
    for n in 0..20 {
        story.packet(SECOND + n * MS, 1, 1, false, f64::from(n as u32 % 3));
    }
    for n in 0..20 {
        story.write(4 * SECOND + n * MS, CLIENT, SP, f64::from(n as u32 % 3));
    }
    let puts = story.puts();
    assert_eq!(puts.len(), 20);
    assert!(puts.iter().all(|put| put.source == "both"));
    assert!(puts.iter().enumerate().all(|(n, put)| put.requested == Value::Double(f64::from(n as u32 % 3))));
}

#[test]
fn a_message_timed_a_little_after_its_hit() {
    let mut story = story();
    story.write(SECOND, CLIENT, SP, 2.0).packet(SECOND + 20 * MS, 1, 1, false, 2.0);
    let puts = story.puts();
    assert_eq!(puts.len(), 1);
    assert_eq!((puts[0].source, puts[0].time), ("both", WALL + SECOND as i64));
}

#[test]
fn messages_and_hits_alone() {
    let mut story = story();
    story.packet(SECOND, 1, 1, false, 2.0);
    story.write(30 * SECOND, CLIENT, SP, 5.0);
    story.put(31 * SECOND, PutKind::PutField, MAIN, -50, "dbpf", SP, 6.0);
    story.put(31 * SECOND + 1, PutKind::Put, MAIN, -150, "", SP, 6.0);
    story.put(32 * SECOND, PutKind::Put, PVA, -70, "dbChannelPut", SP, 7.0);
    story.process(32 * SECOND + 1, PVA, -60, "", SP).complete(32 * SECOND + 2, PVA, -160, SP, 7.0);
    story.put(33 * SECOND, PutKind::Put, PVA, -70, "dbChannelPut", SP, 8.0);
    story.put(34 * SECOND, PutKind::PutField, CA_LINK, -70, "dbChannel_put", SP, 9.0);
    let puts = story.puts();
    let seen: Vec<_> = puts.iter().map(|put| (put.source, put.via.name(), &*put.status)).collect();
    assert_eq!(
        seen,
        [
            ("packet", "ca_write", "unknown"),
            ("probe", "ca_write", "ok"),
            ("probe", "dbpf", "ok"),
            ("probe", "pva", "ok"),
            // the value of an ao takes all numbers
            ("probe", "pva", "ok"),
            ("probe", "ca_link", "unknown"),
        ]
    );
    assert_eq!((&puts[3].new, puts[3].inexact), (&Value::Double(7.0), false));
    // the next put found it
    assert_eq!((&puts[2].new, puts[2].inexact), (&Value::Double(6.0), false));
}

#[test]
fn a_put_to_a_link_field() {
    let mut story = story();
    let text = Value::Text(b"T:RB1 PP".to_vec());
    let put = Put {
        thread: CLIENT,
        sp: -1000,
        site: 1,
        kind: PutKind::PutField,
        record: SP,
        field: Some(OUT),
        dbf: Dbf::String,
        count: 1,
        requested: text.clone(),
        old: Value::Unknown,
    };
    story.push(SECOND, Fact::Put(put.clone()));
    // What the field holds since, and the next put's old value.
    story.held(SECOND + 20 * MS, OUT, Value::Text(b"T:RB1 PP NMS".to_vec()));
    story.held(SECOND + 500 * MS, OUT, Value::Text(b"T:RB1 PP NMS".to_vec()));
    let next = Put { requested: Value::Text(b"T:NONE PP".to_vec()), old: text.clone(), ..put };
    story.push(5 * SECOND, Fact::Put(next));
    story.held(5 * SECOND + 520 * MS, OUT, text.clone());
    let puts = story.puts();
    let of = |put: &PutLine| (put.status.to_string(), put.new.clone(), put.inexact);
    let found = Value::Text(b"T:RB1 PP NMS".to_vec());
    assert_eq!(of(&puts[0]), ("unknown".into(), found, false), "what it held before is not known");
    assert_eq!(of(&puts[1]), ("unknown".into(), text, false), "it still is what it was");
    assert_eq!(puts[0].pv.as_deref(), Some("T:SP.OUT"));
}

#[test]
fn a_ca_link_leads_on_into_a_second_ioc() {
    let mut story = story();
    story.packet(SECOND, 1, 1, false, 2.0).write(SECOND + 1, CLIENT, SP, 2.0).events.pop();
    story
        .link(SECOND + 4, CLIENT, -1200, SP, "R:FAR.VAL", 2.0)
        .complete(SECOND + 5, CLIENT, -1150, SP, 2.0)
        .packet(SECOND + MS, 3, 4, false, 2.0)
        .write(SECOND + 2 * MS, REMOTE, FAR, 2.0);
    let chains = story.in_order();
    assert_eq!(
        chains.iter().map(|chain| sketch(chain, 0)).collect::<String>(),
        "put T:SP 2 circuit 1\n  T:SP put = 2\n    link to R:FAR.VAL\n      put R:FAR 2 circuit 3\n        \
         R:FAR put = 2\n"
    );
    let mut puts = Vec::new();
    each_put(&chains[0], false, &mut |put| puts.push(put));
    assert_eq!(puts.len(), 1, "what an IOC's link wrote did not come from outside");
    each_put(&chains[0], true, &mut |put| puts.push(put));
    let linked = &puts[2];
    assert_eq!((linked.via.name(), linked.cause_record.as_deref()), ("ca_link", Some("T:SP")));
}

#[test]
fn a_ca_link_within_the_ioc_makes_no_packet() {
    let mut story = story();
    story
        .process(SECOND, SCAN, -100, "scanList", CALC)
        .link(SECOND + 1, SCAN, -300, CALC, "T:SP", 2.0)
        .complete(SECOND + 2, SCAN, -200, CALC, 2.0)
        .write(SECOND + MS, CA_LINK, SP, 2.0);
    assert_eq!(story.sketch(), "T:CALC scan = 2\n  link to T:SP\n    put T:SP 2\n      T:SP put = 2\n");
}

/// Two hosts: both see the message, the second saw what it did. Its clock is a little behind.
#[test]
fn a_ca_link_to_another_host_whose_clock_is_behind() {
    let (mut here, mut there) = (story(), story());
    here.process(SECOND, SCAN, -100, "scanList", CALC)
        .link(SECOND + 1, SCAN, -300, CALC, "R:FAR", 2.0)
        .complete(SECOND + 2, SCAN, -200, CALC, 2.0)
        .packet(SECOND + MS, 3, 4, false, 2.0);
    let behind = SECOND - 20 * MS;
    there.packet(behind, 3, 4, false, 2.0).write(behind + MS, REMOTE, FAR, 2.0);
    // And a put from outside that both have seen.
    here.packet(3 * SECOND, 3, 4, false, 5.0);
    there.packet(3 * SECOND - 20 * MS, 3, 4, false, 5.0).write(3 * SECOND, REMOTE, FAR, 5.0);
    let mut order = Order::default();
    here.chains().into_iter().chain(there.chains()).for_each(|chain| order.insert(chain));
    let mut chains = VecDeque::new();
    for until in 0..40 {
        order.release(WALL + until * 100 * MS as i64, &mut chains);
    }
    order.release(i64::MAX, &mut chains);
    let text: String = chains.iter().map(|chain| sketch(chain, 0)).collect();
    assert_eq!(
        text,
        "T:CALC scan = 2\n  link to R:FAR\n    put R:FAR 2 circuit 3\n      R:FAR put = 2\n\
         put R:FAR 5 circuit 3\n  R:FAR put = 5\n"
    );
}

/// Whose put is it? If it can't be told, nothing is claimed.
#[test]
fn a_ca_link_that_could_have_been_another() {
    let mut story = story();
    story
        .process(SECOND, SCAN, -100, "scanList", CALC)
        .link(SECOND + 1, SCAN, -300, CALC, "R:FAR", 2.0)
        .complete(SECOND + 2, SCAN, -200, CALC, 2.0)
        .process(SECOND + 3, SCAN, -100, "scanList", SP)
        .link(SECOND + 4, SCAN, -300, SP, "R:FAR", 2.0)
        .complete(SECOND + 5, SCAN, -200, SP, 2.0)
        .packet(SECOND + MS, 3, 4, false, 2.0);
    assert_eq!(
        story.sketch(),
        "T:CALC scan = 2\n  link to R:FAR\nT:SP scan = 2\n  link to R:FAR\nput - 2 circuit 3\n"
    );
}

#[test]
fn a_ca_link_that_writes_the_same_again_and_again() {
    let mut story = story();
    for n in 0..5 {
        let time = SECOND + n * 100 * MS;
        story
            .process(time, SCAN, -100, "scanList", CALC)
            .link(time + 1, SCAN, -300, CALC, "R:FAR", 2.0)
            .complete(time + 2, SCAN, -200, CALC, 2.0)
            .packet(time + MS, 3, 4, false, 2.0);
    }
    assert_eq!(story.sketch(), "T:CALC scan = 2\n  link to R:FAR\n    put - 2 circuit 3\n".repeat(5));
}

/// A ramp at 20,000 puts/s, each carried out 5 ms later: all are under way together, and the values tell which is
/// which. (Were each compared with all others, this would not end.)
#[test]
fn a_flood_through_a_ca_link() {
    const PUTS: u64 = 10_000;
    let mut story = story();
    for n in 0..PUTS {
        let (time, value) = (SECOND + n * 50_000, n as f64);
        story
            .process(time, SCAN, -100, "scanList", CALC)
            .link(time + 1, SCAN, -300, CALC, "T:SP", value)
            .complete(time + 2, SCAN, -200, CALC, value)
            .write(time + 5 * MS, CA_LINK, SP, value);
    }
    let chains = story.in_order();
    assert_eq!(chains.len() as u64, PUTS);
    for (n, chain) in chains.iter().enumerate() {
        let expected = format!("T:CALC scan = {n}\n  link to T:SP\n    put T:SP {n}\n      T:SP put = {n}\n");
        assert_eq!(sketch(chain, 0), expected);
    }
}

/// The same value twice, under way together: the later put of the link explains the first write, and no write is
/// claimed twice.
#[test]
fn a_ca_link_that_writes_the_same_twice_at_once() {
    let mut story = story();
    for n in 0..2 {
        let time = SECOND + n * MS;
        story
            .process(time, SCAN, -100, "scanList", CALC)
            .link(time + 1, SCAN, -300, CALC, "T:SP", 2.0)
            .complete(time + 2, SCAN, -200, CALC, 2.0)
            .write(SECOND + (5 + n) * MS, CA_LINK, SP, 2.0);
    }
    assert_eq!(
        story.sketch(),
        "T:CALC scan = 2\n  link to T:SP\nT:CALC scan = 2\n  link to T:SP\n    put T:SP 2\n      \
         T:SP put = 2\nput T:SP 2\n  T:SP put = 2\n"
    );
}

/// Two events asked for in one chain, and a third by nobody that was seen: which list a record is on tells.
#[test]
fn events_that_were_asked_for_at_once() {
    let mut story = story();
    let list = |id, kind, callback| {
        Fact::ScanList(ScanList { id, ioc: 1, kind, name: format!("event {id}"), callback })
    };
    story.run.apply(0, &list(1, ScanKind::Event, 0x100));
    story.run.apply(0, &list(2, ScanKind::Event, 0x200));
    story.run.apply(0, &list(3, ScanKind::IoInterrupt, 0x300));
    for (record, on) in [(RB1, 1), (STR, 2), (SP, 3)] {
        story.push(1, Fact::RecordScan(RecordScan { record, list: Some(on) }));
    }
    let asks = |time, object| {
        let (kind, site) = (CauseKind::CallbackRequest, site("postEvent"));
        (time, Fact::Cause(Cause { thread: SCAN, sp: -400, site, kind, object, record: None }))
    };
    let (first, second) = (asks(SECOND + 1, 0x100), asks(SECOND + 11, 0x200));
    story
        .process(SECOND, SCAN, -100, "scanList", CALC)
        .push(first.0, first.1)
        .complete(SECOND + 2, SCAN, -200, CALC, 1.0)
        .process(SECOND + 10, SCAN, -100, "scanList", FAN)
        .push(second.0, second.1)
        .complete(SECOND + 12, SCAN, -200, FAN, 0.0)
        .process(SECOND + 20, CB_LOW, -100, "scanList", STR)
        .complete(SECOND + 21, CB_LOW, -200, STR, 5.0)
        .process(SECOND + 30, CB_LOW, -100, "eventCallback", RB1)
        .complete(SECOND + 31, CB_LOW, -200, RB1, 6.0)
        .process(SECOND + 40, CB_LOW, -100, "scanList", SP)
        .complete(SECOND + 41, CB_LOW, -200, SP, 7.0)
        // moved to a period, and the thread says the rest
        .push(SECOND + 50, Fact::RecordScan(RecordScan { record: STR, list: None }))
        .process(SECOND + 60, SCAN, -100, "scanList", STR)
        .complete(SECOND + 61, SCAN, -200, STR, 8.0);
    assert_eq!(
        story.sketch(),
        "T:CALC scan = 1\n  T:RB1 event = 6\nT:FAN scan = 0\n  T:STR event = 5\nT:SP io_intr = 7\n\
         T:STR scan = 8\n"
    );
}

/// The recorder has looked at records that it did not see complete.
#[test]
fn records_that_were_looked_at() {
    let mut story = story();
    let looked = |record, active, disabled| Fact::PactCheck(PactCheck { record, active, disabled });
    for (n, record) in (0..).zip([SP, CALC, RB1]) {
        story.process(SECOND + n * MS, SCAN, -100, "scanList", record);
    }
    story
        .push(2 * SECOND, looked(SP, false, true))
        .push(2 * SECOND, looked(CALC, true, false))
        .push(2 * SECOND, looked(RB1, true, false))
        .complete(3 * SECOND, CB_LOW, -200, RB1, 1.0);
    assert_eq!(story.sketch(), "T:SP scan disabled\nT:CALC scan waiting\nT:RB1 scan = 1 went on in cbLow\n");
}

#[test]
fn scan_once_belongs_to_what_asked_for_it() {
    let mut story = story();
    story
        .process(SECOND, SCAN, -100, "scanList", CALC)
        .complete(SECOND + 1, SCAN, -200, CALC, 2.0)
        .cause(SECOND + 2, SCAN, -300, CauseKind::ScanOnce, Some(SP))
        .process(SECOND + 5 * MS, ONCE, -100, "onceTask", SP)
        .complete(SECOND + 6 * MS, ONCE, -200, SP, 3.0)
        // Asked for outside of any processing: a CP link.
        .cause(SECOND + 7 * MS, MAIN, -50, CauseKind::ScanOnce, Some(SP))
        .process(SECOND + 8 * MS, ONCE, -100, "onceTask", SP)
        .complete(SECOND + 9 * MS, ONCE, -200, SP, 4.0);
    assert_eq!(story.sketch(), "T:CALC scan = 2\n  T:SP once = 3\nT:SP once = 4\n");
}

/// A client's thread: what a WRITE left on the stack is no parent of the WRITE_NOTIFY after it.
#[test]
fn puts_of_both_kinds_in_one_thread() {
    let mut story = story();
    story.write(SECOND, CLIENT, SP, 1.0);
    story
        .put(SECOND + MS, PutKind::Notify, CLIENT, -1150, "", CALC, 0.0)
        .put(SECOND + MS + 1, PutKind::Put, CLIENT, -1300, "dbChannelPut", CALC, 4.0)
        .process(SECOND + MS + 2, CLIENT, -1300, "", CALC)
        .complete(SECOND + MS + 3, CLIENT, -1400, CALC, 4.0);
    assert_eq!(story.sketch(), "put T:SP 1\n  T:SP put = 1\nput T:CALC 4\n  T:CALC put = 4\n");
}

#[test]
fn chains_come_in_the_order_in_which_they_began() {
    let mut story = story();
    // The first is asynchronous and ends last.
    story.process(SECOND, SCAN, -100, "scanList", SP);
    for n in 1..50 {
        let time = SECOND + n * 100 * MS;
        story.process(time, SCAN, -100, "scanList", CALC).complete(time + 1, SCAN, -200, CALC, n as f64);
    }
    story.complete(SECOND + 20 * SECOND, CB_LOW, -200, SP, 5.0);
    let starts: Vec<u64> = story.in_order().iter().map(|chain| chain.spans[0].start).collect();
    assert_eq!(starts.len(), 50);
    assert!(starts.is_sorted());
}

/// Whatever hits come, in whatever order, no chain is lost or made twice and nothing panics.
#[test]
fn any_hits_at_all() {
    // A simple generator: the same stories every time.
    let mut state = 1_u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..200 {
        let mut story = story();
        let (mut time, mut spans) = (SECOND, 0);
        for _ in 0..200 {
            time += random(3) * random(400 * MS);
            let (thread, sp) = (1 + random(9) as u32, -(random(20) as i64) * 50);
            let (record, v) = (1 + random(5) as u32, random(3) as f64);
            let from = SITES[random(8) as usize].1;
            match random(10) {
                0..3 => story.process(time, thread, sp, from, record),
                3..6 => story.complete(time, thread, sp, record, v),
                6 => story.put(time, PutKind::Put, thread, sp, from, record, v),
                7 => story.cause(time, thread, sp, CauseKind::ScanOnce, Some(record)),
                8 => story.link(time, thread, sp, record, "T:SP", v),
                _ => story.packet(time, 1 + random(3) as u32, 1 + random(5) as u32, random(2) == 0, v),
            };
            spans += usize::from(matches!(
                story.events.last().map(|event| &event.fact),
                Some(Fact::Process(_) | Fact::CaLinkPut(_))
            ));
        }
        fn count(chains: &[Chain]) -> usize {
            let of = |chain: &Chain| -> usize {
                chain
                    .spans
                    .iter()
                    .map(|span| match &span.kind {
                        SpanKind::Put(_) => 0,
                        SpanKind::Process(process) => {
                            usize::from(process.trigger != iocreplay::model::chain::Trigger::Completion)
                        }
                        SpanKind::Link(link) => {
                            1 + link.target.as_ref().map_or(0, |chain| count(std::slice::from_ref(chain)))
                        }
                    })
                    .sum()
            };
            chains.iter().map(of).sum()
        }
        let chains = story.in_order();
        assert_eq!(count(&chains), spans);
        for chain in &chains {
            assert!(chain
                .spans
                .iter()
                .enumerate()
                .all(|(n, span)| span.parent.is_none_or(|parent| parent < n)));
            assert!(chain.spans.iter().skip(1).all(|span| span.parent.is_some()));
            assert!(chain.spans.iter().all(|span| span.end >= span.start));
        }
    }
}
