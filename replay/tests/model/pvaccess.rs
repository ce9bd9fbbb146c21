//! PVAccess: requests, their answers, and what the servers' threads did.

use crate::story::{sketch, story, Story, CLIENT, FAR, MS, PVA, REMOTE, SECOND, SP, STR, VAL};
use iocrec_log::event::*;
use iocreplay::model::order::Order;
use iocreplay::model::putlog::PutLine;
use iocreplay::Filter;
use std::collections::VecDeque;

const US: u64 = 1000;
/// Types: `value` a double; a group of two doubles.
const DOUBLE: u32 = 1;
const GROUP: u32 = 2;

/// Two circuits to one server (its thread serves both), 81 and 82. Channels n1 `T:SP`, n2 without a name, n3 a group,
/// where n is the circuit's last digit.
fn told() -> Story {
    let told = story();
    let define = |fact: Fact| told.run.apply(0, &fact);
    define(Fact::PvaType(PvaType { id: DOUBLE, description: b"\x80\x00\x01\x05value\x43".to_vec() }));
    define(Fact::PvaType(PvaType { id: GROUP, description: b"\x80\x00\x02\x01a\x43\x01b\x43".to_vec() }));
    for circuit in [81, 82] {
        let port = 40_000 + circuit as u16;
        define(Fact::from(Circuit {
            id: circuit,
            client: Address { ip: 1, port },
            server: Address { ip: 2, port: 5075 },
            user: format!("user{circuit}"),
            host: String::new(),
            minor: 0,
            origin: Origin::Opened,
        }));
        define(Fact::CircuitEnds(CircuitEnds { circuit, namespace: 0, server: Some(1), client: None }));
        for (number, pv) in [(1, "T:SP"), (2, ""), (3, "T:GROUP")] {
            let id = circuit % 10 * 10 + number;
            let pv = pv.to_owned();
            let (cid, sid, origin) = (Some(id), Some(id), Origin::Opened);
            define(Fact::from(Channel { id, circuit, cid, sid, pv, dbr: None, count: None, origin }));
        }
    }
    told
}

fn value(of: u32, bits: u8, numbers: &[f64]) -> PvaValue {
    let mut bytes = vec![1, bits];
    numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    PvaValue { types: vec![of], big_endian: false, length: bytes.len() as u32, bytes }
}

trait Pva {
    fn asks(&mut self, time: u64, channel: u32, kind: PvaKind, value: PvaValue) -> &mut Self;
    fn answers(&mut self, time: u64, circuit: u32, kind: PvaKind, status: u16, text: &str) -> &mut Self;
}

impl Pva for Story {
    fn asks(&mut self, time: u64, channel: u32, kind: PvaKind, value: PvaValue) -> &mut Self {
        let circuit = 80 + channel / 10;
        let options = PvaValue::default();
        let put = PvaPut { circuit, channel, ioid: 5, kind, options, value };
        self.push(time, Fact::PvaPut(Box::new(put)))
    }

    fn answers(&mut self, time: u64, circuit: u32, kind: PvaKind, status: u16, text: &str) -> &mut Self {
        let (text, value) = (text.to_owned(), PvaValue::default());
        let answer = PvaAnswer { circuit, ioid: 5, kind, status, text, value };
        self.push(time, Fact::PvaAnswer(Box::new(answer)))
    }
}

/// A put of the server's thread, which finds `old` in the field.
fn put(story: &mut Story, time: u64, record: RecordId, old: f64, number: f64) {
    story.put(time, PutKind::Put, PVA, 0, "dbChannelPut", record, number);
    if let Some(Event { fact: Fact::Put(put), .. }) = story.events.last_mut() {
        put.old = Value::Double(old);
    }
}

fn short(line: &PutLine) -> String {
    let (pv, user) = (line.pv.as_deref().unwrap_or("?"), line.user.as_deref().unwrap_or("?"));
    let old = iocreplay::model::value::text(&line.old);
    let new = iocreplay::model::value::text(&line.new);
    let members: Vec<String> = line.members().iter().map(short).collect();
    let members = if members.is_empty() { String::new() } else { format!(" [{}]", members.join(", ")) };
    format!("{pv} {old} -> {new} {} {user} {}{members}", line.status, line.source)
}

fn lines(story: &mut Story) -> Vec<String> {
    story.puts().iter().map(short).collect()
}

/// One thread carries out the requests of all circuits.
#[test]
fn two_clients_of_one_thread() {
    let mut story = told();
    story.asks(SECOND, 11, PvaKind::Put, value(DOUBLE, 2, &[5.0]));
    story.asks(SECOND + US, 21, PvaKind::Put, value(DOUBLE, 2, &[6.0]));
    // the second one's first
    put(&mut story, SECOND + 100 * US, SP, 1.0, 6.0);
    put(&mut story, SECOND + 120 * US, SP, 6.0, 5.0);
    story.answers(SECOND + 140 * US, 82, PvaKind::Put, 0, "");
    story.answers(SECOND + 150 * US, 81, PvaKind::Put, 0, "");
    assert_eq!(lines(&mut story), ["T:SP 1 -> 6 ok user82 both", "T:SP 6 -> 5 ok user81 both"]);
}

/// A client is killed in the middle of its message: what others put after that is theirs.
#[test]
fn a_put_that_was_broken_off_is_in_nobodys_way() {
    let mut story = told();
    let mut part = value(DOUBLE, 2, &[7.0]);
    part.bytes.pop();
    part.length -= 1;
    story.asks(SECOND, 11, PvaKind::Put, part);
    for (later, old, number) in [(1, 1.0, 5.0), (2000, 5.0, 6.0)] {
        let time = SECOND + later * MS;
        story.asks(time, 21, PvaKind::Put, value(DOUBLE, 2, &[number]));
        put(&mut story, time + 100 * US, SP, old, number);
        story.answers(time + 140 * US, 82, PvaKind::Put, 0, "");
    }
    let unknown = iocreplay::model::value::text(&Value::Unknown);
    let broken_off = format!("T:SP {unknown} -> {unknown} unknown user81 packet");
    assert_eq!(lines(&mut story), [&*broken_off, "T:SP 1 -> 5 ok user82 both", "T:SP 5 -> 6 ok user82 both"]);
}

/// A put that waits, to a record that takes none (DISP): no `dbPut` follows, nor anything else on the thread for long.
#[test]
fn a_put_that_gets_no_further_is_told_once() {
    let mut story = told();
    story.asks(SECOND, 11, PvaKind::Put, value(DOUBLE, 2, &[5.0]));
    story.put(SECOND + 100 * US, PutKind::Notify, PVA, -1000, "", SP, 5.0);
    story.answers(SECOND + 140 * US, 81, PvaKind::Put, 0, "");
    story.asks(4 * SECOND, 11, PvaKind::Put, value(DOUBLE, 2, &[6.0]));
    put(&mut story, 4 * SECOND + 100 * US, SP, 1.0, 6.0);
    story.answers(4 * SECOND + 140 * US, 81, PvaKind::Put, 0, "");
    let puts = story.puts();
    let sources: Vec<&str> = puts.iter().map(|put| put.source).collect();
    assert_eq!(sources, ["both", "both"], "{puts:?}");
    // QSRV1 answers that it was carried out
    let unknown = iocreplay::model::value::text(&Value::Unknown);
    assert_eq!(short(&puts[0]), format!("T:SP {unknown} -> {unknown} unknown user81 both"));
}

/// The thread of a short circuit to QSRV1 has ended before its name was read. A put that waits is its client's, too, also
/// one that gets no further.
#[test]
fn a_put_that_waits_on_a_thread_without_a_name_is_told_once() {
    for is_carried_out in [true, false] {
        let mut story = told();
        let (thread, site) = (90, 91);
        let nameless = Thread { id: thread, ioc: 1, tid: 1090, name: String::new(), stack: 0 };
        story.run.apply(0, &Fact::Thread(nameless));
        let (function, module) = (String::new(), "libqsrv.so.7.0.10".to_owned());
        story.run.apply(0, &Fact::from(CallSite { id: site, ioc: 1, address: 0, function, module }));
        let hit = |kind, sp, requested, old| {
            let (record, field, dbf, count) = (SP, Some(VAL), Dbf::Double, 1);
            Fact::from(Put { thread, sp, site, kind, record, field, dbf, count, requested, old })
        };
        story.asks(SECOND, 11, PvaKind::Put, value(DOUBLE, 2, &[5.0]));
        story.push(SECOND + 100 * US, hit(PutKind::Notify, 0, Value::Unknown, Value::Unknown));
        if is_carried_out {
            let (requested, old) = (Value::Double(5.0), Value::Double(1.0));
            story.push(SECOND + 110 * US, hit(PutKind::Put, -100, requested, old));
        }
        story.answers(SECOND + 140 * US, 81, PvaKind::Put, 0, "");
        let puts = story.puts();
        let seen: Vec<_> = puts.iter().map(|put| (put.source, put.user.as_deref())).collect();
        assert_eq!(seen, [("both", Some("user81"))], "{puts:?}");
    }
}

/// Servers believe of each channel who its client said to be when it asked for that. The recorder notes the name before
/// each put that has another one than the put before, at the same time.
#[test]
fn each_channel_has_its_user() {
    let mut story = told();
    let named = |time: u64, user: &str| {
        let [client, server] = [40_081, 5075].map(|port| Address { ip: port.into(), port });
        let (user, host) = (user.to_owned(), String::new());
        let circuit = Circuit { id: 81, client, server, user, host, minor: 0, origin: Origin::Opened };
        story.run.apply(time, &Fact::from(circuit));
    };
    for (time, user) in [(0, "first"), (SECOND, "second"), (2 * SECOND, "first"), (3 * SECOND, "second")] {
        named(time, user);
    }
    let channels = [(SECOND - MS, 11), (2 * SECOND, 11), (3 * SECOND, 13)];
    for (time, channel) in channels {
        let of = if channel == 11 { value(DOUBLE, 2, &[5.0]) } else { value(GROUP, 2, &[5.0]) };
        story.asks(time, channel, PvaKind::Put, of);
        story.answers(time + MS, 81, PvaKind::Put, 2, "Put not permitted");
    }
    story.events.sort_by_key(|event| event.time);
    let users: Vec<_> = story.puts().into_iter().map(|put| put.user).collect();
    assert_eq!(users, ["first", "first", "second"].map(|user| Some(user.into())));
}

/// QSRV2 writes links as arrays of characters: of an empty text, that is its end alone.
#[test]
fn a_link_that_is_emptied() {
    let mut story = told();
    let (text, link, channel) = (3, 9, 14);
    let define = |fact: Fact| story.run.apply(0, &fact);
    define(Fact::PvaType(PvaType { id: text, description: b"\x80\x00\x01\x05value\x60".to_vec() }));
    let (rtype, name, dbf) = ("ao".into(), "FLNK".into(), Dbf::FwdLink);
    define(Fact::from(Field { id: link, ioc: 1, rtype, name, dbf, menu: None }));
    let (cid, sid, origin) = (Some(channel), Some(channel), Origin::Opened);
    let pv = "T:SP.FLNK".into();
    define(Fact::from(Channel { id: channel, circuit: 81, cid, sid, pv, dbr: None, count: None, origin }));
    let empty = PvaValue { types: vec![text], big_endian: false, length: 3, bytes: vec![1, 2, 0] };
    story.asks(SECOND, channel, PvaKind::Put, empty);
    story.put(SECOND + 100 * US, PutKind::PutField, PVA, 0, "dbChannelPut", SP, 0.0);
    if let Some(Event { fact: Fact::Put(put), .. }) = story.events.last_mut() {
        let old = Value::Text(b"T:OUT".to_vec());
        **put = Put { field: Some(link), dbf: Dbf::Char, requested: Value::Int(0), old, ..**put };
    }
    story.answers(SECOND + 200 * US, 81, PvaKind::Put, 0, "");
    assert_eq!(lines(&mut story), ["T:SP.FLNK \"T:OUT\" -> \"\" ok user81 both"]);
}

#[test]
fn what_is_not_between_request_and_answer_is_not_the_put() {
    let mut story = told();
    put(&mut story, SECOND - 50 * MS, SP, 1.0, 5.0);
    story.asks(SECOND, 11, PvaKind::Put, value(DOUBLE, 2, &[5.0]));
    story.answers(SECOND + MS, 81, PvaKind::Put, 2, "Put not permitted");
    put(&mut story, SECOND + 50 * MS, SP, 5.0, 5.0);
    let mut found = lines(&mut story);
    found.sort();
    assert_eq!(
        found,
        ["T:SP 1 -> 5 ok ? probe", "T:SP 5 -> 5 ok ? probe", "T:SP Unknown -> Unknown denied user81 packet"]
            .map(|line| line.replace("Unknown", &iocreplay::model::value::text(&Value::Unknown)))
    );
}

/// A put of a Channel Access client's thread, at the same time and with the same value, is not this one.
#[test]
fn other_threads_puts_are_theirs() {
    let mut story = told();
    story.asks(SECOND, 11, PvaKind::Put, value(DOUBLE, 2, &[5.0]));
    story.write(SECOND + 50 * US, CLIENT, SP, 5.0);
    story.answers(SECOND + MS, 81, PvaKind::Put, 0, "");
    let found = lines(&mut story);
    assert!(found.iter().any(|line| line.ends_with("ok user81 packet")), "{found:?}");
}

/// What looks like the index of an enum is one on a record's channel, and anything on a group's.
#[test]
fn values_without_a_type_are_read_as_records_have_them() {
    let bytes = b"\x01\x04\x02\x00\x00\x00".to_vec();
    let like_an_index = PvaValue { types: vec![0], big_endian: false, length: 6, bytes };
    let mut story = told();
    for (time, channel) in [(SECOND, 11), (2 * SECOND, 13)] {
        story.asks(time, channel, PvaKind::Put, like_an_index.clone());
        story.answers(time + MS, 81, PvaKind::Put, 0, "");
    }
    let puts = story.puts();
    let asked: Vec<&Value> = puts.iter().map(|line| &line.requested).collect();
    assert_eq!(asked, [&Value::Int(2), &Value::Unknown]);
    let pva = puts[1].pva.as_ref().unwrap();
    assert!(pva.fields.is_empty() && pva.is_cut, "{pva:?}");
}

#[test]
fn a_group_is_one_put() {
    let mut story = group();
    let found = lines(&mut story);
    let unknown = iocreplay::model::value::text(&Value::Unknown);
    assert_eq!(found.len(), 2, "{found:?}");
    let expected =
        format!("T:GROUP {unknown} -> {unknown} ok user81 both [T:SP 4 -> 5 ok ? probe, T:STR 5 -> ");
    assert!(found[0].starts_with(&expected), "{found:?}");
    assert!(found[1].contains("probe"), "{found:?}");
    let chains = group().chains();
    let whole = chains.iter().find(|chain| chain.spans.len() > 2).expect("a chain of all");
    assert_eq!(whole.spans.iter().filter(|span| span.parent == Some(0)).count(), 2);
    // undo and caPutLog take its members
    let members = group().puts().swap_remove(0).to_records();
    let of: Vec<_> = members.iter().map(|put| (put.record.as_deref(), put.user.as_deref())).collect();
    assert_eq!(of, [(Some("T:SP"), Some("user81")), (Some("T:STR"), Some("user81"))]);
}

/// The recorder on the client's host has the message alone, and may have it first. A member writes on through a link.
#[test]
fn of_a_group_on_two_recorders_the_one_that_saw_its_members_tells() {
    let linked = || {
        let mut story = group();
        story.link(SECOND + 115 * US, PVA, -30, SP, "R:FAR", 5.0);
        story.packet(SECOND + 200 * US, 3, 4, false, 5.0).write(SECOND + 300 * US, REMOTE, FAR, 5.0);
        story
    };
    let expected = linked().sketch();
    assert!(expected.contains("link to R:FAR"), "{expected}");
    for is_first in [true, false] {
        let mut alone = told();
        let host = alone.run.context().host().cloned().expect("a host");
        alone.run.apply(0, &Fact::from(Host { boot_id: "other".into(), ..host }));
        alone.asks(SECOND, 13, PvaKind::Put, value(GROUP, 6, &[5.0, 6.0]));
        alone.answers(SECOND + 140 * US, 81, PvaKind::Put, 0, "");
        let mut stories = [alone, linked()];
        if !is_first {
            stories.reverse();
        }
        let mut order = Order::default();
        for story in &mut stories {
            story.chains().into_iter().for_each(|chain| order.insert(chain));
        }
        let mut chains = VecDeque::new();
        order.release(i64::MAX, &mut chains);
        let found: String = chains.iter().map(|chain| sketch(chain, 0)).collect();
        assert_eq!(found, expected, "{is_first}");
    }
}

fn group() -> Story {
    let mut story = told();
    story.asks(SECOND, 13, PvaKind::Put, value(GROUP, 6, &[5.0, 6.0]));
    put(&mut story, SECOND + 100 * US, SP, 4.0, 5.0);
    story.process(SECOND + 110 * US, PVA, -10, "", SP).complete(SECOND + 120 * US, PVA, -20, SP, 5.0);
    put(&mut story, SECOND + 130 * US, STR, 5.0, 6.0);
    // not what was sent
    put(&mut story, SECOND + 135 * US, SP, 5.0, 7.0);
    story.answers(SECOND + 140 * US, 81, PvaKind::Put, 0, "");
    story
}

/// Neither name nor type is known.
#[test]
fn channels_without_names_are_learned() {
    let mut story = told();
    let at = |turn: u64| SECOND + turn * 10 * MS;
    // two clients put the same value at the same time, to records that are not known
    for turn in 0..2 {
        let number = if turn == 0 { 1.0 } else { 2.0 };
        story.asks(at(turn), 12, PvaKind::Put, value(0, 2, &[number]));
        put(&mut story, at(turn) + 100 * US, SP, number - 1.0, number);
        if turn == 0 {
            put(&mut story, at(turn) + 110 * US, STR, number - 1.0, number);
        }
        story.answers(at(turn) + 200 * US, 81, PvaKind::Put, 0, "");
    }
    story.asks(at(60), 12, PvaKind::Put, value(0, 2, &[3.0]));
    put(&mut story, at(60) + 100 * US, STR, 1.0, 3.0);
    put(&mut story, at(60) + 110 * US, SP, 2.0, 3.0);
    story.answers(at(60) + 200 * US, 81, PvaKind::Put, 0, "");
    let found = lines(&mut story);
    let of_user: Vec<&String> = found.iter().filter(|line| line.contains("user81")).collect();
    let unknown = iocreplay::model::value::text(&Value::Unknown);
    assert_eq!(
        of_user,
        [
            &format!("? {unknown} -> {unknown} ok user81 packet"),
            &"T:SP 1 -> 2 ok user81 both".to_owned(),
            &"T:SP 2 -> 3 ok user81 both".to_owned()
        ],
        "{found:?}"
    );
}

/// The client asked for the value before; the server has no records.
#[test]
fn what_packets_alone_show() {
    let mut story = told();
    let (text, ioid, kind) = (String::new(), 5, PvaKind::Get);
    let answer = PvaAnswer { circuit: 81, ioid, kind, status: 0, text, value: value(DOUBLE, 2, &[1.5]) };
    story.push(SECOND, Fact::PvaAnswer(Box::new(answer)));
    story.asks(SECOND + MS, 11, PvaKind::Put, value(DOUBLE, 2, &[2.5]));
    story.answers(SECOND + 2 * MS, 81, PvaKind::Put, 1, "limited");
    // no answer, and one that the client did not wait for
    story.asks(SECOND + 3 * MS, 21, PvaKind::Put, value(DOUBLE, 2, &[3.5]));
    story.asks(SECOND + 4 * MS, 11, PvaKind::Put, value(DOUBLE, 2, &[4.5]));
    story.answers(SECOND + 5 * MS, 81, PvaKind::Put, 4, "");
    let lines = story.puts();
    let [first, second, third] = lines.as_slice() else { panic!("{lines:#?}") };
    assert_eq!((&first.old, &first.new, &*first.status), (&Value::Double(1.5), &Value::Double(2.5), "ok"));
    assert!(first.inexact && first.callback_ms == Some(1.0));
    assert_eq!(first.pva.as_ref().and_then(|pva| pva.message.as_deref()), Some("limited"));
    assert_eq!((&*second.status, &*third.status, &third.new), ("unknown", "unknown", &Value::Unknown));
    assert_eq!((second.callback_ms, &second.requested), (None, &Value::Double(3.5)));
}

/// PUT_GET that a server carries out, with records and without: its outcome, and what the server sent back.
#[test]
fn a_put_and_get_that_was_carried_out() {
    for with_records in [true, false] {
        let mut story = told();
        story.asks(SECOND, 11, PvaKind::PutGet, value(DOUBLE, 2, &[5.0]));
        if with_records {
            put(&mut story, SECOND + 100 * US, SP, 1.0, 5.0);
        }
        let (text, value) = (String::new(), value(DOUBLE, 2, &[5.5]));
        let answer = PvaAnswer { circuit: 81, ioid: 5, kind: PvaKind::PutGet, status: 0, text, value };
        story.push(SECOND + 2 * MS, Fact::PvaAnswer(Box::new(answer)));
        let lines = story.puts();
        let [line] = lines.as_slice() else { panic!("{lines:#?}") };
        let pva = line.pva.clone().expect("it came by PVAccess");
        assert_eq!((pva.request, &*line.status, line.callback_ms), ("put_get", "ok", Some(2.0)));
        assert_eq!(pva.fields, [("value".to_owned(), Value::Double(5.0))]);
        assert_eq!(pva.result, [("value".to_owned(), Value::Double(5.5))]);
        assert_eq!(line.source, if with_records { "both" } else { "packet" });
        if with_records {
            assert_eq!((&line.old, &line.new), (&Value::Double(1.0), &Value::Double(5.0)));
        }
    }
}

#[test]
fn process_and_calls() {
    let mut story = calls();
    let lines = story.puts();
    let pva = |line: &PutLine| line.pva.clone().expect("it came by PVAccess");
    let [process, call] = lines.as_slice() else { panic!("{lines:#?}") };
    assert_eq!(
        (pva(process).request, &*process.status, process.record.as_deref()),
        ("process", "ok", Some("T:SP"))
    );
    assert_eq!((pva(call).request, &*call.status), ("rpc", "error"));
    assert_eq!(pva(call).fields, [("value".to_owned(), Value::Double(2.0))]);
    let chains = calls().chains();
    let processed = chains.iter().find(|chain| chain.spans.len() == 2).expect("what it did");
    assert_eq!(processed.spans[1].parent, Some(0));
}

fn calls() -> Story {
    let mut story = told();
    story.asks(SECOND, 11, PvaKind::Process, PvaValue::default());
    story.process(SECOND + 100 * US, PVA, -10, "", SP).complete(SECOND + 120 * US, PVA, -20, SP, 5.0);
    story.answers(SECOND + 200 * US, 81, PvaKind::Process, 0, "");
    let query = PvaValue {
        types: vec![DOUBLE],
        length: 8,
        bytes: 2f64.to_le_bytes().to_vec(),
        ..PvaValue::default()
    };
    story.asks(SECOND + MS, 13, PvaKind::Rpc, query);
    story.answers(SECOND + 2 * MS, 81, PvaKind::Rpc, 2, "no such procedure");
    story
}

/// Circuits of twenty clients, 83 to 102, with a channel to `T:SP` each, whose number is the circuit's and 100.
const MANY: std::ops::Range<u32> = 83..103;

fn many() -> Story {
    let told = told();
    MANY.for_each(|circuit| opens(&told, circuit, 5075, Some(1), "T:SP"));
    told
}

/// A circuit with a channel to a PV, whose number is the circuit's and 100. `server`: who serves at that port, if it is known.
fn opens(story: &Story, circuit: u32, port: u16, server: Option<IocId>, pv: &str) {
    let define = |fact: Fact| story.run.apply(0, &fact);
    define(Fact::from(Circuit {
        id: circuit,
        client: Address { ip: 1, port: 40_000 + circuit as u16 },
        server: Address { ip: 2, port },
        user: format!("user{circuit}"),
        host: String::new(),
        minor: 0,
        origin: Origin::Opened,
    }));
    define(Fact::CircuitEnds(CircuitEnds { circuit, namespace: 0, server, client: None }));
    let (id, pv, dbr, count) = (circuit + 100, pv.to_owned(), None, None);
    let (cid, sid, origin) = (Some(1), Some(1), Origin::Opened);
    define(Fact::from(Channel { id, circuit, cid, sid, pv, dbr, count, origin }));
}

/// A put of that client, which is answered 50 ms later.
fn asks_for(story: &mut Story, time: u64, circuit: u32, number: f64) {
    asks_until(story, time, time + 50 * MS, circuit, number);
}

fn asks_until(story: &mut Story, time: u64, answered: u64, circuit: u32, number: f64) {
    let options = PvaValue::default();
    let (channel, kind) = (circuit + 100, PvaKind::Put);
    let put = PvaPut { circuit, channel, ioid: 5, kind, options, value: value(DOUBLE, 2, &[number]) };
    story.push(time, Fact::PvaPut(Box::new(put)));
    let (text, value) = (String::new(), PvaValue::default());
    let answer = PvaAnswer { circuit, ioid: 5, kind, status: 0, text, value };
    story.push(answered, Fact::PvaAnswer(Box::new(answer)));
}

/// Twenty clients put the same value to the same PV at the same time, and one thread carries all of it out; so do three
/// clients of Channel Access. Nobody knows who was first, so nobody is named.
#[test]
fn nobody_is_named_for_what_any_of_twenty_may_have_done() {
    let mut story = many();
    for circuit in MANY {
        asks_for(&mut story, SECOND, circuit, 5.0);
    }
    for turn in 0..20 {
        put(&mut story, SECOND + MS + turn * MS, SP, if turn == 0 { 1.0 } else { 5.0 }, 5.0);
    }
    for turn in 0..3 {
        story.write(SECOND + MS + turn * 7 * MS + US, CLIENT, SP, 5.0);
    }
    story.events.sort_by_key(|event| event.time);
    let found = lines(&mut story);
    let pva: Vec<&String> = found
        .iter()
        .filter(|line| line.contains("user8") || line.contains("user9") || line.contains("user10"))
        .collect();
    let unknown = iocreplay::model::value::text(&Value::Unknown);
    assert_eq!(pva.len(), 20, "{found:#?}");
    assert!(pva.iter().all(|line| line.starts_with(&format!("T:SP {unknown} -> 5 ok user"))), "{found:#?}");
    assert!(pva.iter().all(|line| line.ends_with("packet")), "{found:#?}");
    assert_eq!(found.len(), 23, "a put is one line: {found:#?}");
}

/// A client puts by a gateway, which may be on another machine, and the gateway puts the same to the IOC: two requests
/// wait for one hit, and only one of them can have made it.
#[test]
fn what_a_gateway_puts_on_is_the_gateways() {
    let mut story = told();
    opens(&story, 90, 8101, None, "T:SP");
    opens(&story, 91, 5075, Some(1), "T:SP");
    asks_until(&mut story, SECOND, SECOND + 4 * MS, 90, 5.0);
    asks_until(&mut story, SECOND + MS, SECOND + 3 * MS, 91, 5.0);
    put(&mut story, SECOND + 2 * MS, SP, 1.0, 5.0);
    story.events.sort_by_key(|event| event.time);
    let found = lines(&mut story);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found.iter().any(|line| line == "T:SP 1 -> 5 ok user91 both"), "{found:#?}");
    assert!(found.iter().any(|line| line.ends_with(" -> 5 ok user90 packet")), "{found:#?}");
}

/// Code in the IOC's process serves a PV that is no record, and takes its time. Another client puts the same to a record.
#[test]
fn what_is_put_to_another_server_of_the_process_is_no_group() {
    let mut story = told();
    opens(&story, 90, 8600, Some(1), "OWN:SLOW");
    opens(&story, 91, 5075, Some(1), "T:SP");
    asks_until(&mut story, SECOND, SECOND + 500 * MS, 90, 5.0);
    asks_until(&mut story, SECOND + 100 * MS, SECOND + 103 * MS, 91, 5.0);
    put(&mut story, SECOND + 102 * MS, SP, 1.0, 5.0);
    story.events.sort_by_key(|event| event.time);
    let found = lines(&mut story);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found.iter().any(|line| line == "T:SP 1 -> 5 ok user91 both"), "{found:#?}");
    assert!(found.iter().any(|line| line.ends_with(" ok user90 packet")), "{found:#?}");
}

/// While code in the IOC's process serves a PV that is no record, and takes its time, members of a group are written with the
/// value that was put to that PV.
#[test]
fn members_of_a_group_are_its_own_while_another_server_is_slow() {
    let mut story = told();
    opens(&story, 90, 8600, Some(1), "OWN:SLOW");
    // a record that is put to shows which server has records
    story.asks(SECOND / 2, 21, PvaKind::Put, value(DOUBLE, 2, &[4.0]));
    put(&mut story, SECOND / 2 + 100 * US, SP, 1.0, 4.0);
    story.answers(SECOND / 2 + 140 * US, 82, PvaKind::Put, 0, "");
    asks_until(&mut story, SECOND, SECOND + 500 * MS, 90, 5.0);
    let at = SECOND + 100 * MS;
    story.asks(at, 13, PvaKind::Put, value(GROUP, 6, &[5.0, 6.0]));
    put(&mut story, at + 100 * US, SP, 4.0, 5.0);
    story.process(at + 110 * US, PVA, -10, "", SP).complete(at + 120 * US, PVA, -20, SP, 5.0);
    put(&mut story, at + 130 * US, STR, 5.0, 6.0);
    story.answers(at + 140 * US, 81, PvaKind::Put, 0, "");
    story.events.sort_by_key(|event| event.time);
    let found = lines(&mut story);
    let is_group = |line: &&String| line.starts_with("T:GROUP ");
    let group = found.iter().find(is_group).unwrap_or_else(|| panic!("{found:#?}"));
    assert!(group.contains("T:SP 4 -> 5 ok ? probe") && group.contains("T:STR 5 -> "), "{found:#?}");
    assert!(found.iter().any(|line| line.ends_with(" ok user90 packet")), "{found:#?}");
    assert_eq!(found.len(), 3, "{found:#?}");
}

/// A group may be called like a field of a record, which the record does not have.
#[test]
fn a_group_beside_a_record_is_no_field_of_it() {
    let asks = |story: &mut Story, bits: u8, numbers: &[f64]| {
        let (options, value) = (PvaValue::default(), value(GROUP, bits, numbers));
        let put = PvaPut { circuit: 90, channel: 190, ioid: 5, kind: PvaKind::Put, options, value };
        story.push(SECOND, Fact::PvaPut(Box::new(put)));
    };
    let mut story = told();
    opens(&story, 90, 5075, Some(1), "T:SP.GRP");
    asks(&mut story, 6, &[5.0, 6.0]);
    put(&mut story, SECOND + 100 * US, SP, 4.0, 5.0);
    story.process(SECOND + 110 * US, PVA, -10, "", SP).complete(SECOND + 120 * US, PVA, -20, SP, 5.0);
    put(&mut story, SECOND + 130 * US, STR, 5.0, 6.0);
    story.answers(SECOND + 140 * US, 90, PvaKind::Put, 0, "");
    let found = lines(&mut story);
    let unknown = iocreplay::model::value::text(&Value::Unknown);
    let expected =
        format!("T:SP.GRP {unknown} -> {unknown} ok user90 both [T:SP 4 -> 5 ok ? probe, T:STR 5 -> ");
    assert!(found.len() == 1 && found[0].starts_with(&expected), "{found:?}");
    // of another group with such a name T:SP is no member
    let mut story = told();
    opens(&story, 90, 5075, Some(1), "T:SP.GRP");
    asks(&mut story, 2, &[6.0]);
    put(&mut story, SECOND + 130 * US, STR, 5.0, 6.0);
    story.answers(SECOND + 140 * US, 90, PvaKind::Put, 0, "");
    let puts = story.puts();
    let selected = |pv: &str| {
        let filter = Filter { pv: vec![pv.into()], ..Filter::default() };
        puts.iter().any(|line| filter.put(line))
    };
    let of = ["T:SP", "T:STR", "T:SP.GRP"].map(selected);
    assert_eq!(of, [false, true, true], "{:?}", puts.iter().map(short).collect::<Vec<_>>());
}

/// The server answers in another order than it was asked. A hit that may be any of several requests counts as the one that
/// later hits can't be.
#[test]
fn answers_out_of_order_make_no_put_more() {
    let mut story = many();
    for (circuit, asked, answered) in [(83, 0, 10), (84, 1, 3), (85, 4, 10)] {
        asks_until(&mut story, SECOND + asked * MS, SECOND + answered * MS, circuit, 5.0);
    }
    for time in [2, 6, 8] {
        put(&mut story, SECOND + time * MS, SP, 5.0, 5.0);
    }
    story.events.sort_by_key(|event| event.time);
    let found = lines(&mut story);
    assert_eq!(found.len(), 3, "a put is one line: {found:#?}");
    assert!(found.iter().all(|line| line.contains("user8")), "{found:#?}");
}

/// A put that none of them can have made is a line of its own.
#[test]
fn more_hits_than_requests_are_not_hidden() {
    let mut story = many();
    asks_for(&mut story, SECOND, 83, 5.0);
    asks_for(&mut story, SECOND, 84, 5.0);
    for turn in 0..3 {
        put(&mut story, SECOND + MS + turn * MS, SP, 5.0, 5.0);
    }
    story.events.sort_by_key(|event| event.time);
    let found = lines(&mut story);
    assert_eq!(found.len(), 3, "{found:#?}");
    assert_eq!(found.iter().filter(|line| line.ends_with("ok ? probe")).count(), 1, "{found:#?}");
}

/// QSRV1 has a thread for each circuit. Once one put has shown whose it is, the threads tell twenty clients apart, whatever
/// they put, before and after that.
#[test]
fn threads_of_their_own_tell_clients_apart() {
    let mut story = many();
    let thread = |circuit: u32| 100 + circuit;
    for circuit in MANY {
        let (id, tid, name) = (thread(circuit), 5000 + circuit, "TCP-rx".to_owned());
        story.run.apply(0, &Fact::Thread(Thread { id, ioc: 1, tid, name, stack: 0 }));
    }
    let hit = |story: &mut Story, time, circuit, old, number| {
        story.put(time, PutKind::Put, thread(circuit), 0, "dbChannelPut", SP, number);
        if let Some(Event { fact: Fact::Put(put), .. }) = story.events.last_mut() {
            put.old = Value::Double(old);
        }
    };
    // all at once, in another order than they asked; then each with a value of its own; then all at once again
    for (turn, circuit) in MANY.rev().enumerate() {
        asks_for(&mut story, SECOND, circuit, 5.0);
        hit(&mut story, SECOND + MS + turn as u64 * MS, circuit, f64::from(circuit), 5.0);
        let (own, time) = (f64::from(1000 + circuit), SECOND + 300 * MS + turn as u64 * MS);
        asks_for(&mut story, time, circuit, own);
        hit(&mut story, time + MS / 2, circuit, f64::from(circuit), own);
        asks_for(&mut story, 3 * SECOND, circuit, 6.0);
        hit(&mut story, 3 * SECOND + MS + turn as u64 * MS, circuit, f64::from(circuit), 6.0);
    }
    story.events.sort_by_key(|event| event.time);
    let found = lines(&mut story);
    assert_eq!(found.len(), 60, "{found:#?}");
    for circuit in MANY {
        let own = format!("T:SP {circuit} -> ");
        let user = format!("user{circuit} both");
        let right = found.iter().filter(|line| line.starts_with(&own) && line.ends_with(&user)).count();
        assert_eq!(right, 3, "{circuit}: {found:#?}");
    }
}

/// A recorder that came later knows no type: an array without elements looks like a number, or like a text without letters.
#[test]
fn an_array_of_an_unknown_type_that_is_emptied() {
    let mut story = told();
    let empty = PvaValue { types: vec![0], big_endian: false, length: 3, bytes: vec![1, 2, 0] };
    story.asks(SECOND, 11, PvaKind::Put, empty);
    put(&mut story, SECOND + 100 * US, SP, 4.0, 0.0);
    if let Some(Event { fact: Fact::Put(put), .. }) = story.events.last_mut() {
        put.count = 0;
        put.requested = Value::Array(Array { dbf: Dbf::Double, count: 0, bytes: Vec::new() });
    }
    story.answers(SECOND + 140 * US, 81, PvaKind::Put, 0, "");
    let puts = story.puts();
    let seen: Vec<_> = puts.iter().map(|put| (put.source, put.user.as_deref())).collect();
    assert_eq!(seen, [("both", Some("user81"))], "{puts:#?}");
}

/// Clients fetch values and never put: there is room for what another one fetches all the same.
#[test]
fn what_was_fetched_before_a_put_is_known_behind_many_that_only_look() {
    let mut story = told();
    let fetched = |ioid: u32, number: f64| {
        let (kind, text, value) = (PvaKind::Get, String::new(), value(DOUBLE, 2, &[number]));
        Fact::PvaAnswer(Box::new(PvaAnswer { circuit: 81, ioid, kind, status: 0, text, value }))
    };
    for ioid in 100..20_200 {
        story.push(SECOND, fetched(ioid, 7.0));
    }
    story.push(2 * SECOND, fetched(5, 1.5));
    story.asks(2 * SECOND + MS, 11, PvaKind::Put, value(DOUBLE, 2, &[2.5]));
    story.answers(2 * SECOND + 2 * MS, 81, PvaKind::Put, 0, "");
    let puts = story.puts();
    assert_eq!(puts.len(), 1);
    assert_eq!((&puts[0].old, &puts[0].new), (&Value::Double(1.5), &Value::Double(2.5)));
}

/// A group whose channel, and the type of its values, are older than the recorder.
#[test]
fn a_group_of_an_unknown_type() {
    let mut story = told();
    story.asks(SECOND, 13, PvaKind::Put, value(0, 6, &[5.5, 6.5]));
    put(&mut story, SECOND + 100 * US, SP, 4.0, 5.5);
    put(&mut story, SECOND + 130 * US, STR, 5.0, 6.5);
    // not what was sent
    put(&mut story, SECOND + 135 * US, SP, 5.5, 7.0);
    story.answers(SECOND + 140 * US, 81, PvaKind::Put, 0, "");
    let found = lines(&mut story);
    let unknown = iocreplay::model::value::text(&Value::Unknown);
    let expected =
        format!("T:GROUP {unknown} -> {unknown} ok user81 both [T:SP 4 -> 5.5 ok ? probe, T:STR 5 -> ");
    assert!(found.len() == 2 && found[0].starts_with(&expected), "{found:#?}");
}

/// The client cancelled its request, or left: nobody answered, so there is no time until an answer. If the answer was under
/// way, it comes all the same, so that of the next request with this number is not known.
#[test]
fn a_client_that_gives_up_gets_no_answer() {
    let mut story = told();
    story.asks(SECOND, 11, PvaKind::Put, value(DOUBLE, 2, &[5.0]));
    story.answers(SECOND + 300 * MS, 81, PvaKind::Put, 4, "");
    story.asks(2 * SECOND, 11, PvaKind::Put, value(DOUBLE, 2, &[6.0]));
    story.answers(2 * SECOND + 3 * MS, 81, PvaKind::Put, 0, "");
    let puts = story.puts();
    let seen: Vec<_> = puts.iter().map(|put| (&*put.status, put.callback_ms)).collect();
    assert_eq!(seen, [("unknown", None), ("unknown", None)]);
}

/// Two requests of one number at once: QSRV1 refuses the second, before or after it answers the first (seen), and QSRV2
/// passes it over. Which answer is whose is not known then, nor with that number later.
#[test]
fn answers_to_requests_of_one_number() {
    let ok = |story: &mut Story, time: u64| _ = story.answers(time, 81, PvaKind::Put, 0, "");
    let busy = |story: &mut Story, time: u64| {
        story.answers(time, 81, PvaKind::Put, 2, "other request pending");
    };
    let none = |_: &mut Story, _: u64| {};
    type Answers<'a> = [&'a dyn Fn(&mut Story, u64); 2];
    let orders: [Answers; 3] = [[&ok, &busy], [&busy, &ok], [&ok, &none]];
    for (number, order) in orders.iter().enumerate() {
        let mut story = told();
        story.asks(SECOND, 11, PvaKind::Put, value(DOUBLE, 2, &[1.5]));
        story.asks(SECOND + MS, 11, PvaKind::Put, value(DOUBLE, 2, &[2.5]));
        order[0](&mut story, SECOND + 2 * MS);
        order[1](&mut story, SECOND + 3 * MS);
        // another client's
        story.asks(SECOND + 4 * MS, 21, PvaKind::Put, value(DOUBLE, 2, &[3.5]));
        story.answers(SECOND + 5 * MS, 82, PvaKind::Put, 0, "");
        let lines = story.puts();
        let told: Vec<&str> = lines.iter().map(|line| &*line.status).collect();
        assert_eq!(told, ["unknown", "unknown", "ok"], "{number}: {lines:#?}");
        assert!(lines[..2].iter().all(|line| line.new == Value::Unknown), "{lines:#?}");
    }
    // the answer to the first, which its client did not wait for, comes behind the second: what QSRV1 said (seen)
    let mut story = told();
    story.asks(SECOND, 11, PvaKind::Put, value(DOUBLE, 2, &[1.5]));
    story.answers(SECOND, 81, PvaKind::Put, 4, "");
    story.asks(SECOND, 11, PvaKind::Put, value(DOUBLE, 2, &[2.5]));
    ok(&mut story, SECOND + MS);
    busy(&mut story, SECOND + 2 * MS);
    let lines = story.puts();
    let told: Vec<&str> = lines.iter().map(|line| &*line.status).collect();
    assert_eq!(told, ["unknown", "unknown"], "{lines:#?}");
}
