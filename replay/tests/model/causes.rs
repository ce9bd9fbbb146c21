//! Events, I/O Intr and scanOnce: who asked for processing.

use super::*;

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

/// Simulation mode swaps SCAN and SSCN without a put to SCAN: the log still has the list before, but threads tell.
#[test]
fn a_record_on_another_list_than_the_log_has() {
    let mut story = story();
    let list = |id, kind, name: &str, callback| {
        Fact::ScanList(ScanList { id, ioc: 1, kind, name: name.to_owned(), callback })
    };
    let lists = [
        (1, ScanKind::Periodic, ".1 second", 0),
        (2, ScanKind::Periodic, "2 second", 0),
        (3, ScanKind::IoInterrupt, "", 0x300),
        (4, ScanKind::Event, "on", 0x400),
    ];
    for (id, kind, name, callback) in lists {
        story.run.apply(0, &list(id, kind, name, callback));
    }
    for (record, on) in [(SP, 1), (CALC, 2), (RB1, 3), (STR, 4), (FAN, 1)] {
        story.push(1, Fact::RecordScan(RecordScan { record, list: Some(on) }));
    }
    let (kind, site) = (CauseKind::CallbackRequest, site("postEvent"));
    let asks = Cause { thread: MAIN, sp: -400, site, kind, object: 0x400, record: None };
    // all but SP are on other lists by now
    for (turn, record) in [SP, CALC, RB1, STR].into_iter().enumerate() {
        let time = SECOND + turn as u64 * MS;
        story.process(time, SCAN, -100, "scanList", record).complete(time + 1, SCAN, -200, record, 1.0);
    }
    story
        .push(SECOND + 5 * MS, Fact::Cause(asks))
        .process(SECOND + 6 * MS, CB_LOW, -100, "scanList", FAN)
        .complete(SECOND + 7 * MS, CB_LOW, -200, FAN, 0.0);
    let lists: Vec<_> = story
        .chains()
        .iter()
        .flat_map(|chain| chain.spans.iter())
        .map(|span| match &span.kind {
            SpanKind::Process(process) => (process.record, process.trigger.name(), process.list),
            _ => panic!("no put"),
        })
        .collect();
    let scan = |record, list| (record, "scan", list);
    assert_eq!(
        lists,
        [scan(SP, Some(1)), scan(CALC, None), scan(RB1, None), scan(STR, None), (FAN, "event", None)]
    );
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

/// A callback thread has done with a record that completed in it, and carries out another callback, which goes deeper: that
/// a put of sscan is done.
#[test]
fn scan_once_in_another_callback_belongs_to_no_record_that_completed_before() {
    let mut story = story();
    story
        .process(SECOND, CB_LOW, -100, "eventCallback", CALC)
        .complete(SECOND + 1, CB_LOW, -200, CALC, 2.0)
        .cause(SECOND + 2, CB_LOW, -300, CauseKind::ScanOnce, Some(SP))
        .process(SECOND + 5 * MS, ONCE, -100, "onceTask", SP)
        .complete(SECOND + 6 * MS, ONCE, -200, SP, 3.0);
    assert_eq!(story.sketch(), "T:CALC event = 2\nT:SP once = 3\n");
}

/// A callback of device support processes a record from a deeper frame than that of a record which completed in the thread
/// before. Only the database follows forward links.
#[test]
fn what_code_of_the_ioc_processes_is_no_forward_link_of_what_completed_before() {
    const OWN: CallSiteId = 50;
    let mut story = story();
    let (function, module) = ("readBack".to_owned(), "plant".to_owned());
    story.run.apply(0, &Fact::from(CallSite { id: OWN, ioc: 1, address: 0, function, module }));
    let deeper = Process { thread: CB_LOW, sp: -600, site: OWN, record: SP, active: false };
    story
        .process(SECOND, CB_LOW, -100, "eventCallback", CALC)
        .complete(SECOND + 1, CB_LOW, -200, CALC, 2.0)
        .push(SECOND + 2, Fact::Process(deeper))
        .complete(SECOND + 3, CB_LOW, -700, SP, 3.0)
        // a forward link is
        .process(SECOND + MS, CB_LOW, -100, "eventCallback", CALC)
        .complete(SECOND + MS + 1, CB_LOW, -200, CALC, 4.0)
        .process(SECOND + MS + 2, CB_LOW, -300, "dbScanPassive", SP)
        .complete(SECOND + MS + 3, CB_LOW, -400, SP, 5.0);
    assert_eq!(story.sketch(), "T:CALC event = 2\nT:SP callback = 3\nT:CALC event = 4\n  T:SP FLNK = 5\n");
}

/// The same behind a motor that moves, which has returned without a trace: what device support, or a driver's thread, does then
/// is not the motor's doing.
#[test]
fn what_code_of_the_ioc_does_after_a_motor_is_not_of_the_motor() {
    const OWN: CallSiteId = 50;
    const DRIVER: ThreadId = 60;
    const MOTOR: RecordId = 60;
    let mut story = story();
    let thread = Thread { id: DRIVER, ioc: 1, tid: 1060, name: "motorPoll".into(), stack: 0 };
    story.run.apply(0, &Fact::Thread(thread));
    let (name, rtype) = ("T:MOTOR".to_owned(), "motor".into());
    story.run.apply(0, &Fact::from(Record { id: MOTOR, ioc: 1, address: 0, name, rtype }));
    let (function, module) = ("readBack".to_owned(), "libplant.so".to_owned());
    story.run.apply(0, &Fact::from(CallSite { id: OWN, ioc: 1, address: 0, function, module }));
    let deeper = |thread| Fact::Process(Process { thread, sp: -600, site: OWN, record: SP, active: false });
    story.process(SECOND, CB_LOW, -100, "eventCallback", MOTOR).push(SECOND + 2, deeper(CB_LOW)).complete(
        SECOND + 3,
        CB_LOW,
        -700,
        SP,
        3.0,
    );
    assert_eq!(story.sketch(), "T:MOTOR event open\nT:SP callback = 3\n");
    story.process(2 * SECOND, DRIVER, -100, "", MOTOR);
    story.put(2 * SECOND + 2, PutKind::PutField, DRIVER, -600, "", SP, 5.0);
    if let Some(Event { fact: Fact::Put(put), .. }) = story.events.last_mut() {
        put.site = OWN;
    }
    assert_eq!(story.sketch(), "T:MOTOR unknown open\nput T:SP 5\n");
}

/// A driver's thread tells a motor that it moves, which completes only when it has arrived, and then asks for what has I/O
/// Intr or an event itself. Of a record that completes each time it is known whether it has returned.
#[test]
fn what_a_driver_asks_for_after_a_motor_is_not_of_the_motor() {
    const DRIVER: ThreadId = 60;
    const MOTOR: RecordId = 60;
    let mut story = story();
    let thread = Thread { id: DRIVER, ioc: 1, tid: 1060, name: "motorPoll".into(), stack: 0 };
    story.run.apply(0, &Fact::Thread(thread));
    let (name, rtype) = ("T:MOTOR".to_owned(), "motor".into());
    story.run.apply(0, &Fact::from(Record { id: MOTOR, ioc: 1, address: 0, name, rtype }));
    let (kind, record) = (CauseKind::CallbackRequest, None);
    let asks = Cause { thread: DRIVER, sp: -300, site: site("postEvent"), kind, object: 0x40, record };
    story
        .process(SECOND, DRIVER, -100, "", MOTOR)
        .push(SECOND + 1, Fact::Cause(asks))
        .process(SECOND + 3, CB_LOW, -100, "scanList", CALC)
        .complete(SECOND + 4, CB_LOW, -200, CALC, 3.0)
        .process(SECOND + MS, DRIVER, -100, "", SP)
        .push(SECOND + MS + 1, Fact::Cause(asks))
        .complete(SECOND + MS + 2, DRIVER, -150, SP, 1.0)
        .process(SECOND + MS + 3, CB_LOW, -100, "scanList", CALC)
        .complete(SECOND + MS + 4, CB_LOW, -200, CALC, 4.0);
    let expected = "T:MOTOR unknown open\nT:CALC event = 3\nT:SP unknown = 1\n  T:CALC event = 4\n";
    assert_eq!(story.sketch(), expected);
}
