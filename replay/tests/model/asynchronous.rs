//! Records that complete later, and callbacks.

use super::*;

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

/// A put with callback that had to wait begins its record in the callback thread. While that waits for its device, the
/// thread carries out the callbacks of others, from wherever their frames are.
#[test]
fn a_record_that_waits_has_left_its_thread() {
    let mut story = story();
    let delayed = CauseKind::CallbackRequestProcessDelayed;
    let writes = |story: &mut Story, time, value| {
        story
            .put(time, PutKind::Put, CB_LOW, -500, "", RB1, value)
            .process(time + 1, CB_LOW, -520, "dbScanPassive", RB1)
            .complete(time + 2, CB_LOW, -600, RB1, value);
    };
    story
        .process(SECOND, SCAN, -100, "scanList", SP)
        .cause(SECOND + 1, SCAN, -200, delayed, Some(SP))
        .process(SECOND + 100 * MS, CB_LOW, -300, "", CALC)
        .cause(SECOND + 100 * MS + 1, CB_LOW, -400, delayed, Some(CALC));
    writes(&mut story, SECOND + 300 * MS, 4.0);
    story.complete(SECOND + 301 * MS, CB_LOW, -200, SP, 4.0).complete(
        SECOND + 400 * MS,
        CB_LOW,
        -200,
        CALC,
        5.0,
    );
    assert_eq!(
        story.sketch(),
        "T:SP scan = 4 CallbackRequestProcessDelayed went on in cbLow\n  put T:RB1 4\n    T:RB1 OUT = 4\n\
         T:CALC callback = 5 CallbackRequestProcessDelayed went on in cbLow\n"
    );
}

/// It completes in another thread, and processes anew: what its callback thread does then is that processing's.
#[test]
fn a_record_that_processes_anew_has_left_its_thread() {
    let mut story = story();
    story
        .process(SECOND, CB_LOW, -300, "", CALC)
        .complete(SECOND + 100 * MS, CLIENT, -200, CALC, 5.0)
        .process(SECOND + 200 * MS, SCAN, -100, "scanList", CALC)
        .cause(SECOND + 200 * MS + 1, SCAN, -200, CauseKind::CallbackRequestProcessDelayed, Some(CALC))
        .put(SECOND + 300 * MS, PutKind::Put, CB_LOW, -500, "", RB1, 4.0)
        .process(SECOND + 301 * MS, CB_LOW, -520, "dbScanPassive", RB1)
        .complete(SECOND + 302 * MS, CB_LOW, -600, RB1, 4.0)
        .complete(SECOND + 303 * MS, CB_LOW, -200, CALC, 6.0);
    assert_eq!(
        story.sketch(),
        "T:CALC callback = 5 went on in CAS-client\n\
         T:CALC scan = 6 CallbackRequestProcessDelayed went on in cbLow\n  put T:RB1 4\n    T:RB1 OUT = 4\n"
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

/// An sseq record of synApps asks for its callback at once where a link has no delay.
#[test]
fn links_without_delay_are_the_records_own() {
    let mut story = story();
    let asked = |story: &mut Story, time, thread, sp, kind| {
        story.push(time, Fact::Cause(Cause { thread, sp, site: 0, kind, object: 0x10, record: None }));
    };
    let link = |story: &mut Story, time, value| {
        story
            .put(time, PutKind::Put, CB_LOW, -64, "dbDbPutValue", RB1, value)
            .process(time + 1, CB_LOW, -64, "processTarget", RB1)
            .complete(time + 2, CB_LOW, -96, RB1, value);
    };
    story.process(SECOND, SCAN, -100, "scanList", SP);
    asked(&mut story, SECOND + 1, SCAN, -200, CauseKind::CallbackRequest);
    for after in [1, 2] {
        link(&mut story, SECOND + after * MS, after as f64);
        asked(&mut story, SECOND + after * MS + 9, CB_LOW, -48, CauseKind::CallbackRequest);
    }
    // the callback of a CA link that it waited for completes it, in another thread
    story.complete(SECOND + 700 * MS, ONCE, -48, SP, 1.0);
    let links: String =
        [1, 2].map(|value| format!("  put T:RB1 {value}\n    T:RB1 OUT = {value}\n")).concat();
    let sketch = story.sketch();
    assert!(sketch.starts_with("T:SP scan = 1 ") && sketch.ends_with(&links), "{sketch}");
    assert_eq!(sketch.lines().count(), 5, "{sketch}");
}

/// A seq has neither OUT nor INP: it writes by LNKn, and what it reads from processes by DOLn or SELL.
#[test]
fn links_of_a_sequence() {
    let mut story = story();
    let rtype = "seq".to_owned();
    story.run.apply(0, &Fact::from(Record { id: SP, ioc: 1, address: 0, name: "T:SP".into(), rtype }));
    let asked = |story: &mut Story, time, thread, sp| {
        let kind = CauseKind::CallbackRequest;
        story.push(time, Fact::Cause(Cause { thread, sp, site: 0, kind, object: 0x10, record: None }));
    };
    story.process(SECOND, SCAN, -100, "scanList", SP);
    asked(&mut story, SECOND + 1, SCAN, -200);
    story
        .process(SECOND + MS, CB_LOW, -70, "dbScanPassive", CALC)
        .complete(SECOND + MS + 1, CB_LOW, -96, CALC, 5.0)
        .put(SECOND + MS + 2, PutKind::Put, CB_LOW, -64, "dbDbPutValue", RB1, 5.0)
        .process(SECOND + MS + 3, CB_LOW, -64, "processTarget", RB1)
        .complete(SECOND + MS + 4, CB_LOW, -96, RB1, 5.0)
        .complete(SECOND + MS + 9, CB_LOW, -48, SP, 1.0);
    let sketch = story.sketch();
    let links: Vec<&str> = sketch.lines().skip(1).map(str::trim).collect();
    assert_eq!(links, ["T:CALC link = 5", "put T:RB1 5", "T:RB1 LNKn = 5"], "{sketch}");
}

#[test]
fn a_record_that_never_completes() {
    let mut story = story();
    story
        .process(SECOND - 100 * MS, SCAN, -100, "scanList", SP)
        .complete(SECOND - 99 * MS, SCAN, -200, SP, 0.0)
        .process(SECOND, SCAN, -100, "scanList", SP)
        .process(SECOND + 100 * MS, SCAN, -100, "scanList", SP)
        .complete(SECOND + 101 * MS, SCAN, -200, SP, 1.0)
        .process(SECOND + 200 * MS, SCAN, -100, "scanList", CALC);
    assert_eq!(story.sketch(), "T:SP scan = 0\nT:SP scan not completed\nT:SP scan = 1\nT:CALC scan open\n");
}

/// StreamDevice calls a record's process function itself when a device speaks without being asked: nothing began before.
#[test]
fn only_the_end_of_processing_was_seen() {
    let mut story = story();
    story.complete(SECOND, CB_LOW, -100, CALC, 7.0).process(SECOND + 1, CB_LOW, -200, "", FAN);
    let chains = story.in_order();
    let cause = iocreplay::wording::cause::cause(&chains[0], None);
    assert_eq!(cause, "only the end was seen, in thread cbLow");
}

/// A motor record forwards only once its motor stands; each time that the driver tells of its way it is processed, too.
#[test]
fn a_record_that_works_without_a_forward_link() {
    let mut story = story();
    let motor = |rtype: &str| Record { id: 70, ioc: 1, address: 0, name: "M:1".into(), rtype: rtype.into() };
    for (rtype, meanwhile) in [("motor", "open"), ("ao", "not completed")] {
        story.run.apply(0, &Fact::from(motor(rtype)));
        // it does call recGblFwdLink
        story.process(0, MAIN, -100, "", 70).complete(MS, MAIN, -200, 70, 0.0);
        let check = PactCheck { record: 70, active: false, disabled: false };
        story
            .put(SECOND, PutKind::PutField, CLIENT, -1000, "dbChannel_put", 70, 5.0)
            .put(SECOND + 1, PutKind::Put, CLIENT, -1100, "", 70, 5.0)
            .process(SECOND + 2, CLIENT, -1100, "", 70)
            .process(SECOND + 100 * MS, MAIN, -100, "", 70)
            .push(SECOND + 150 * MS, Fact::PactCheck(check))
            .process(SECOND + 200 * MS, MAIN, -100, "", 70)
            .complete(SECOND + 201 * MS, MAIN, -200, 70, 5.0);
        let sketch = format!(
            "M:1 unknown = 0\nput M:1 5\n  M:1 put {meanwhile}\nM:1 unknown {meanwhile}\nM:1 unknown = 5\n"
        );
        assert_eq!(story.sketch(), sketch);
    }
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
