//! Tests of hits in an IOC's memory, and of the facts that they become.

use iocrec_log::event::{
    CaLinkPut, Cause, CauseKind, ChainsLeftOut, Dbf, Fact, FieldValue, GaveUp, Process, Put, PutKind, Value,
};

use super::record_hit;
use crate::bpf::hit::{Body, Form, Head, Raw};
use crate::recorder::env::limits::MAX_LINKS;
use crate::recorder::registry::threads::NewThread;
use crate::recorder::testing::{Bench, FakeProcess, TestIoc, MILLISECOND, PID};

const TID: u32 = 7;
const DOUBLE: u16 = 10;

fn head(time: u64, object: u64) -> Head {
    let (caller, status, severity) = (0, 0, 0);
    Head { time, sp: 1000, caller, object, pid: PID, tid: TID, status, severity, active: false, dbf: None }
}

fn double(bytes: &[u8; 8]) -> Raw<'_> {
    Raw { dbf: DOUBLE, count: 1, bytes }
}

fn bench(ioc: &TestIoc) -> Bench {
    let mut bench = Bench::new();
    let threads = vec![(TID, "CAS-client")];
    bench.procfs.set(PID, FakeProcess { threads, ..FakeProcess::default() });
    bench.trace(ioc);
    bench
}

/// Handles a hit. Returns the new thread, and the facts handed to the sink.
fn hit(bench: &mut Bench, head: &Head, body: Body<'_>) -> (Option<NewThread>, Vec<Fact>) {
    let new = bench.with(PID, |ioc, env| record_hit(env, ioc, head, body));
    (new, bench.sink.take().into_iter().map(|event| event.fact).collect())
}

#[test]
fn definitions_come_before_what_refers_to_them_and_once() {
    let mut ioc = TestIoc::new(PID);
    let record = ioc.calc("T:A");
    let mut bench = bench(&ioc);
    let begins = Head { caller: 0x4000, active: true, ..head(5, record) };
    let (new, facts) = hit(&mut bench, &begins, Body::Process);
    assert_eq!(new, Some(NewThread { id: 1, tid: TID, time: 5, may_serve_ca: true }));
    let [Fact::Thread(thread), Fact::Record(_), Fact::CallSite(site), Fact::Process(process)] = &facts[..]
    else {
        panic!("{facts:?}")
    };
    assert_eq!((thread.name.as_str(), site.address), ("CAS-client", 0x4000));
    assert_eq!(*process, Process { thread: 1, sp: 0, site: 1, record: 1, active: true });
    // from a deeper frame
    let (new, facts) = hit(&mut bench, &Head { sp: 900, ..begins }, Body::RsetProcess);
    assert_eq!(new, None);
    let deeper = Process { thread: 1, sp: -100, site: 1, record: 1, active: true };
    assert_eq!(facts, [Fact::RsetProcess(deeper)]);
}

#[test]
fn a_completion_has_value_and_alarm() {
    let mut ioc = TestIoc::new(PID);
    let record = ioc.calc("T:A");
    let mut bench = bench(&ioc);
    let value = 1.5f64.to_ne_bytes();
    let done = Head { severity: 2, status: 3, ..head(5, record) };
    let complete = |form, value| Body::Complete { form, value };
    let (_, facts) = hit(&mut bench, &done, complete(Form::Single, Some(double(&value))));
    let Some(Fact::Complete(complete_fact)) = facts.last() else { panic!("{facts:?}") };
    assert_eq!(complete_fact.value, Value::Double(1.5));
    assert_eq!((complete_fact.severity, complete_fact.status), (2, 3));
    let text = Raw { dbf: 1, count: 3, bytes: b"abcd" };
    let (_, facts) = hit(&mut bench, &done, complete(Form::Text, Some(text)));
    let Some(Fact::Complete(complete_fact)) = facts.last() else { panic!("{facts:?}") };
    assert_eq!(complete_fact.value, Value::Text(b"abc".to_vec()));
    let (_, facts) = hit(&mut bench, &done, complete(Form::Single, None));
    assert!(matches!(&facts[..], [Fact::Complete(complete)] if complete.value == Value::Unknown));
}

#[test]
fn a_put_has_its_field_and_is_followed_up() {
    let mut ioc = TestIoc::new(PID);
    let record = ioc.calc("T:A");
    let mut bench = bench(&ioc);
    let (new, old) = (2.5f64.to_ne_bytes(), 1.0f64.to_ne_bytes());
    ioc.put(record, 688, &new);
    let field = ioc.calc_value();
    let put = |kind| Body::Put { kind, field, requested: double(&new), old: double(&old), link: None };
    let time = 100 * MILLISECOND;
    let (_, facts) = hit(&mut bench, &head(time, record), put(PutKind::PutField));
    let [Fact::Thread(_), Fact::Record(_), Fact::Field(defined), Fact::Put(fact)] = &facts[..] else {
        panic!("{facts:?}")
    };
    assert_eq!((defined.name.as_str(), defined.dbf), ("VAL", Dbf::Double));
    let expected = Put {
        thread: 1,
        sp: 0,
        site: 0,
        kind: PutKind::PutField,
        record: 1,
        field: Some(1),
        dbf: Dbf::Double,
        count: 1,
        requested: Value::Double(2.5),
        old: Value::Double(1.0),
    };
    assert_eq!(**fact, expected);
    let read = |bench: &mut Bench, now: u64| {
        bench.clock.monotonic.set(now);
        bench.with(PID, |ioc, env| ioc.read_due(env, now));
        bench.sink.take()
    };
    assert_eq!(read(&mut bench, time + MILLISECOND), [], "too soon");
    let events = read(&mut bench, time + 20 * MILLISECOND);
    let value = FieldValue { record: 1, field: 1, value: Value::Double(2.5) };
    assert_eq!(events.iter().map(|event| &event.fact).collect::<Vec<_>>(), [&Fact::FieldValue(value)]);
    assert_eq!(read(&mut bench, time + 900 * MILLISECOND), [], "it has changed, so once is enough");
    // a completion on the same thread shows the value: nothing is read
    hit(&mut bench, &head(2 * time, record), put(PutKind::PutField));
    let done = Body::Complete { form: Form::Single, value: Some(double(&new)) };
    hit(&mut bench, &head(2 * time + 1, record), done);
    assert_eq!(read(&mut bench, 20 * time), []);
}

#[test]
fn a_put_that_notifies_carries_no_value_and_records_links_are_not_followed_up() {
    let mut ioc = TestIoc::new(PID);
    let record = ioc.calc("T:A");
    let mut bench = bench(&ioc);
    let (bytes, field) = (2.5f64.to_ne_bytes(), ioc.calc_value());
    let put = |kind| Body::Put { kind, field, requested: double(&bytes), old: double(&bytes), link: None };
    let (_, facts) = hit(&mut bench, &head(1, record), put(PutKind::Put));
    assert!(matches!(facts.last(), Some(Fact::Put(put)) if put.requested == Value::Double(2.5)));
    bench.clock.monotonic.set(1000 * MILLISECOND);
    bench.with(PID, |ioc, env| ioc.read_due(env, 1000 * MILLISECOND));
    assert_eq!(bench.sink.take(), [], "dbPut alone is a record's link");
    let (_, facts) = hit(&mut bench, &head(1, record), put(PutKind::Notify));
    assert!(matches!(&facts[..], [Fact::Put(put)] if put.requested == Value::Unknown));
}

/// The probe of exit is there twice while it is bound to another thread.
#[test]
fn one_exit_is_told_once() {
    let ioc = TestIoc::new(PID);
    let mut bench = bench(&ioc);
    let exit = || Body::GivingUp { how: GaveUp::Exit(3), file: b"", expression: b"" };
    let mut told = |time, sp| {
        let (_, facts) = hit(&mut bench, &Head { sp, ..head(time, 0) }, exit());
        facts.iter().filter(|fact| matches!(fact, Fact::GivingUp(_))).count()
    };
    let time = 100 * MILLISECOND;
    assert_eq!([told(time, 900), told(time + 1, 900)], [1, 0]);
    assert_eq!(told(time + 2, 800), 1, "another call");
}

#[test]
fn links_causes_and_chains_that_were_left_out() {
    let mut ioc = TestIoc::new(PID);
    let (record, other) = (ioc.calc("T:A"), ioc.calc("T:B"));
    let mut bench = bench(&ioc);
    let bytes = 2.5f64.to_ne_bytes();
    let chains = Body::ChainsLeftOut { since: 3, count: 4 };
    let (_, facts) = hit(&mut bench, &head(5, record), chains);
    assert_eq!(facts.last(), Some(&Fact::ChainsLeftOut(ChainsLeftOut { record: 1, count: 4, since: 3 })));
    // a link that does not name its record lies in a record
    let link = Body::LinkPut { record: 0, pv: b"X:Y", value: double(&bytes) };
    let (_, facts) = hit(&mut bench, &head(6, record + 300), link);
    let pv = "X:Y".to_string();
    let expected = CaLinkPut {
        thread: 1,
        sp: 0,
        site: 0,
        record: Some(1),
        pv,
        dbf: Dbf::Double,
        count: 1,
        value: Value::Double(2.5),
    };
    assert_eq!(facts, [Fact::from(expected)]);
    // also one of those that are more than are remembered
    bench.run.limits.link_owners = MAX_LINKS;
    let link = Body::LinkPut { record: 0, pv: b"X:Y", value: double(&bytes) };
    let (_, facts) = hit(&mut bench, &head(6, record + 308), link);
    assert!(matches!(&facts[..], [Fact::CaLinkPut(put)] if put.record == Some(1)), "{facts:?}");
    // the address in a request may be a record, or anything: it does not define one
    let cause = |user| Body::Cause { kind: CauseKind::ScanOnce, user };
    for (user, record) in [(record, Some(1)), (other, None)] {
        let (_, facts) = hit(&mut bench, &head(7, 99), cause(user));
        let kind = CauseKind::ScanOnce;
        assert_eq!(facts, [Fact::Cause(Cause { thread: 1, sp: 0, site: 0, kind, object: 99, record })]);
    }
}

/// A chid leads to an nciu, and that to a name (in this process's memory).
#[test]
fn a_put_as_a_client_names_its_channel_once() {
    let ioc = TestIoc::new(PID);
    let mut bench = bench(&ioc);
    let name = b"OTHER:SP\0";
    let mut channel = [0u8; 128];
    channel[16..20].copy_from_slice(&7u32.to_ne_bytes());
    channel[104..112].copy_from_slice(&(name.as_ptr() as u64).to_ne_bytes());
    let mut chid = [0u8; 24];
    chid[16..24].copy_from_slice(&(channel.as_ptr() as u64).to_ne_bytes());
    let address = chid.as_ptr() as u64;
    let of = |bench: &mut Bench, cid| hit(bench, &head(5, address), Body::ClientPut { cid }).1;
    let put = |facts: &[Fact]| match facts.last() {
        Some(Fact::CaClientPut(put)) => put.channel == address,
        _ => false,
    };
    let first = of(&mut bench, Some(7));
    let [Fact::Thread(_), Fact::ClientChannel(defined), _] = &first[..] else { panic!("{first:?}") };
    assert!(put(&first));
    assert_eq!((defined.id, defined.address, defined.cid, defined.pv.as_str()), (1, address, 7, "OTHER:SP"));
    let again = of(&mut bench, Some(7));
    assert!(again.len() == 1 && put(&again), "{again:?}");
    // another channel at the same address, which is gone already
    let other = of(&mut bench, Some(8));
    let [Fact::ClientChannel(defined), _] = &other[..] else { panic!("{other:?}") };
    assert_eq!((defined.id, defined.cid, defined.pv.as_str()), (1, 8, ""));
    let unread = of(&mut bench, None);
    assert!(unread.len() == 1 && put(&unread), "{unread:?}");
}
