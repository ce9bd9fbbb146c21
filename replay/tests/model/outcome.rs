//! What puts came to: each sign of it, and what looks like one and is none.

use super::*;

/// `dbpf T:SP.DESC`: no answer, no processing.
fn describe(story: &mut Story, time: u64, from: &str, to: &str) {
    write_text(story, time, DESC, from, to);
}

/// The same to another field.
fn write_text(story: &mut Story, time: u64, field: FieldId, from: &str, to: &str) {
    let text = |text: &str| Value::Text(text.as_bytes().to_vec());
    for (after, kind, sp, from_site) in [(0, PutKind::PutField, -50, "dbpf"), (1, PutKind::Put, -150, "")] {
        let put = Put {
            thread: MAIN,
            sp,
            site: site(from_site),
            kind,
            record: SP,
            field: Some(field),
            dbf: Dbf::String,
            count: 1,
            requested: text(to),
            old: text(from),
        };
        story.push(time + after, Fact::from(put));
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.as_bytes().to_vec())
}

/// Status, value, inexact.
fn outcomes(story: &mut Story) -> Vec<(String, Value, bool)> {
    story.puts().iter().map(|put| (put.status.to_string(), put.new.clone(), put.inexact)).collect()
}

#[test]
fn a_put_that_changes_nothing_is_not_said_to_be_ok() {
    let mut story = story();
    describe(&mut story, SECOND, "before", "after");
    story.held(SECOND + 20 * MS, DESC, text("before")).held(SECOND + 500 * MS, DESC, text("before"));
    assert_eq!(outcomes(&mut story), [("unknown".into(), text("before"), false)]);
}

#[test]
fn a_field_that_holds_what_was_asked_for_says_that_it_was_taken() {
    let mut story = story();
    describe(&mut story, SECOND, "before", "after");
    story.held(SECOND + 20 * MS, DESC, text("after"));
    assert_eq!(outcomes(&mut story), [("ok".into(), text("after"), false)]);
}

/// `caput` sends numbers as texts, also those that no double is.
#[test]
fn an_integer_in_a_text_keeps_its_digits() {
    const BIG: FieldId = 35;
    const NUMBER: i64 = 9_007_199_254_740_993;
    let mut story = story();
    let field =
        Field { id: BIG, ioc: 1, rtype: "ao".into(), name: "BIG".into(), dbf: Dbf::Int64, menu: None };
    story.run.apply(0, &Fact::from(field));
    write_text(&mut story, SECOND, BIG, "", &NUMBER.to_string());
    if let Some(Event { fact: Fact::Put(put), .. }) = story.events.last_mut() {
        put.old = Value::Int(1);
    }
    story.held(SECOND + 20 * MS, BIG, Value::Int(NUMBER));
    assert_eq!(outcomes(&mut story), [("ok".into(), Value::Int(NUMBER), false)]);
}

/// A put finds the beginning of a long text. That a reading is longer does not show that the put has written by then.
#[test]
fn a_long_text_that_is_as_before_is_read_once_more() {
    let mut story = story();
    write_text(&mut story, SECOND, DESC, &"x".repeat(152), "after");
    story.held(SECOND + 20 * MS, DESC, text(&"x".repeat(300))).held(SECOND + 500 * MS, DESC, text("after"));
    assert_eq!(outcomes(&mut story), [("ok".into(), text("after"), false)]);
}

#[test]
fn without_any_sign_it_is_unknown() {
    let mut story = story();
    describe(&mut story, SECOND, "before", "after");
    // before `dbPut` can have written; and one that could not be read
    story.held(SECOND + MS, DESC, text("before")).held(SECOND + 20 * MS, DESC, Value::Unknown);
    assert_eq!(outcomes(&mut story), [("unknown".into(), Value::Unknown, false)]);
    // It held that before: it may have been refused.
    describe(&mut story, 5 * SECOND, "same", "same");
    story.held(5 * SECOND + 500 * MS, DESC, text("same"));
    assert_eq!(outcomes(&mut story), [("unknown".into(), text("same"), false)]);
}

/// The recording ends while the record processes, which may make something else of what was put.
#[test]
fn a_record_that_still_processes_does_not_tell_its_value() {
    let begun = |rtype: &str| {
        let mut story = story();
        let of_type = Record { id: SP, ioc: 1, address: 0, name: "T:SP".into(), rtype: rtype.into() };
        story.run.apply(0, &Fact::from(of_type));
        story.put(SECOND, PutKind::PutField, MAIN, -50, "dbpf", SP, 2.0);
        story.put(SECOND + 1, PutKind::Put, MAIN, -150, "", SP, 2.0);
        story.process(SECOND + 2, MAIN, -150, "", SP);
        story
    };
    for rtype in ["calc", "ao"] {
        assert_eq!(outcomes(&mut begun(rtype)), [("ok".into(), Value::Unknown, false)], "{rtype}");
        let mut ended = begun(rtype);
        ended.complete(SECOND + 3, MAIN, -250, SP, 3.0);
        assert_eq!(outcomes(&mut ended), [("ok".into(), Value::Double(3.0), false)], "{rtype}");
        // or the next put has found it
        let mut found = begun(rtype);
        found.put(SECOND + 100 * MS, PutKind::PutField, MAIN, -50, "dbpf", SP, 4.0);
        found.put(SECOND + 100 * MS + 1, PutKind::Put, MAIN, -150, "", SP, 4.0);
        assert_eq!(outcomes(&mut found)[0].1, Value::Double(3.0), "{rtype}");
    }
    // while its motor moves it is not active, and passes nothing on
    assert_eq!(outcomes(&mut begun("motor")), [("ok".into(), Value::Double(2.0), true)]);
}

#[test]
fn a_put_in_between_tells_what_it_found() {
    let mut story = story();
    describe(&mut story, SECOND, "a", "b");
    describe(&mut story, SECOND + 10 * MS, "b", "c");
    describe(&mut story, SECOND + 12 * MS, "c", "bad");
    describe(&mut story, SECOND + 14 * MS, "c", "d");
    story.held(SECOND + 34 * MS, DESC, text("d"));
    let ok = |value| ("ok".to_owned(), text(value), false);
    assert_eq!(outcomes(&mut story), [ok("b"), ok("c"), ("unknown".into(), text("c"), false), ok("d")]);
}

#[test]
fn processing_in_between_may_have_made_it_so() {
    const EGU: FieldId = 8;
    let mut story = story();
    let egu = Field { id: EGU, ioc: 1, rtype: "ao".into(), name: "EGU".into(), dbf: Dbf::String, menu: None };
    story.run.apply(0, &Fact::from(egu));
    let processed = |story: &mut Story| {
        story.process(SECOND + 10 * MS, SCAN, -100, "scanList", SP);
        story.complete(SECOND + 11 * MS, SCAN, -200, SP, 1.0);
    };
    write_text(&mut story, SECOND, EGU, "before", "after");
    processed(&mut story);
    story.held(SECOND + 20 * MS, EGU, text("after"));
    assert_eq!(outcomes(&mut story), [("unknown".into(), text("after"), true)]);
    // but there are fields that no processing changes
    describe(&mut story, SECOND, "before", "after");
    processed(&mut story);
    story.held(SECOND + 20 * MS, DESC, text("after"));
    assert_eq!(outcomes(&mut story), [("ok".into(), text("after"), false)]);
    // nor is what was read while hits were lost
    describe(&mut story, 5 * SECOND, "before", "after");
    let loss = Loss { source: LossSource::Hits, count: 1, since: 5 * SECOND, cause: String::new() };
    story.push(5 * SECOND + 10 * MS, Fact::Loss(loss.clone())).held(
        5 * SECOND + 20 * MS,
        DESC,
        text("after"),
    );
    assert_eq!(outcomes(&mut story), [("unknown".into(), text("after"), true)]);
    // which is told later
    describe(&mut story, 5 * SECOND, "before", "after");
    story.held(5 * SECOND + 20 * MS, DESC, text("after")).push(5 * SECOND + 800 * MS, Fact::Loss(loss));
    assert_eq!(outcomes(&mut story), [("unknown".into(), text("after"), true)]);
}

/// From EPICS Base 3.15 on `dbProcessNotify` processes its record whatever `dbPut` has said.
#[test]
fn processing_proves_nothing_of_a_put_with_callback() {
    let mut story = story();
    let refused = |story: &mut Story, time| {
        story.put(time, PutKind::Notify, CLIENT, -1000, "", SP, 3.0);
        let put = Put {
            thread: CLIENT,
            sp: -1100,
            site: 0,
            kind: PutKind::Put,
            record: SP,
            field: Some(VAL),
            dbf: Dbf::String,
            count: 1,
            requested: text("bad"),
            old: Value::Double(3.0),
        };
        story.push(time + 1, Fact::from(put));
        story.process(time + 2, CLIENT, -1100, "", SP).complete(time + 3, CLIENT, -1200, SP, 3.0);
    };
    refused(&mut story, SECOND);
    assert_eq!(outcomes(&mut story), [("unknown".into(), Value::Double(3.0), false)]);
    // one that has changed the value was taken
    story.put(SECOND, PutKind::Notify, CLIENT, -1000, "", SP, 4.0);
    story.put(SECOND + 1, PutKind::Put, CLIENT, -1100, "", SP, 4.0);
    story.process(SECOND + 2, CLIENT, -1100, "", SP).complete(SECOND + 3, CLIENT, -1200, SP, 4.0);
    assert_eq!(outcomes(&mut story), [("ok".into(), Value::Double(4.0), false)]);
}

/// A scan of synApps writes the same to PROC again and again, with callback and inside of the IOC.
#[test]
fn any_number_may_be_written_to_proc() {
    let mut story = story();
    let name = "PROC".to_owned();
    let field = Field { id: VAL, ioc: 1, rtype: "calc".into(), name, dbf: Dbf::UChar, menu: None };
    story.run.apply(0, &Fact::from(field));
    for (time, old) in [(SECOND, 0.0), (2 * SECOND, 1.0)] {
        story.put(time, PutKind::Notify, CLIENT, -1000, "", SP, 1.0);
        story.put(time + 1, PutKind::Put, CLIENT, -1100, "", SP, 1.0);
        if let Some(Event { fact: Fact::Put(put), .. }) = story.events.last_mut() {
            put.old = Value::Double(old);
        }
        story.process(time + 2, CLIENT, -1100, "", SP).complete(time + 3, CLIENT, -1200, SP, 3.0);
        story.held(time + 20 * MS, VAL, Value::Double(1.0));
    }
    let found = outcomes(&mut story);
    assert_eq!(found.iter().map(|(status, ..)| &**status).collect::<Vec<_>>(), ["ok", "ok"], "{found:?}");
}

/// A link without PP, as of a dfanout: nothing processes, and nobody reads the field.
#[test]
fn a_number_to_an_input_of_a_calculation_is_taken() {
    let taken = ("ok".to_owned(), Value::Double(5.0), true);
    for (rtype, expected) in [("calc", taken), ("other", ("unknown".to_owned(), Value::Unknown, false))] {
        let mut story = story();
        let name = "A".to_owned();
        let field = Field { id: VAL, ioc: 1, rtype: rtype.into(), name, dbf: Dbf::Double, menu: None };
        story.run.apply(0, &Fact::from(field));
        story
            .process(SECOND, SCAN, -100, "scanList", FAN)
            .put(SECOND + 1, PutKind::Put, SCAN, -300, "", CALC, 5.0)
            .complete(SECOND + 2, SCAN, -200, FAN, 0.0);
        assert_eq!(outcomes(&mut story), [expected], "{rtype}");
    }
}

/// A server answers a WRITE only to refuse it: with a field that tells, that is enough.
#[test]
fn what_the_server_does_not_refuse() {
    let mut story = story();
    // of a type whose VAL may refuse
    let field =
        Field { id: VAL, ioc: 1, rtype: "mbbo".into(), name: "VAL".into(), dbf: Dbf::Double, menu: None };
    story.run.apply(0, &Fact::from(field));
    let write = |story: &mut Story, time| {
        story.packet(time, 1, 1, false, 2.0);
        story.put(time + MS, PutKind::PutField, CLIENT, -1000, "dbChannel_put", SP, 2.0);
        story.put(time + MS + 1, PutKind::Put, CLIENT, -1100, "", SP, 2.0);
    };
    write(&mut story, SECOND);
    assert_eq!(outcomes(&mut story), [("unknown".into(), Value::Unknown, false)], "nothing more is known");
    // something else processed the record, but it holds what was asked for
    write(&mut story, SECOND);
    story.process(SECOND + 10 * MS, SCAN, -100, "scanList", SP);
    story.complete(SECOND + 11 * MS, SCAN, -200, SP, 2.0).held(SECOND + 20 * MS, VAL, Value::Double(2.0));
    assert_eq!(outcomes(&mut story), [("ok".into(), Value::Double(2.0), true)]);
    // the record has made something else of it
    write(&mut story, SECOND);
    story.held(SECOND + 22 * MS, VAL, Value::Double(1.5));
    assert_eq!(outcomes(&mut story), [("ok".into(), Value::Double(1.5), false)]);
    // refused
    write(&mut story, SECOND);
    story.answer(SECOND + 3 * MS, 0, 160).held(SECOND + 500 * MS, VAL, Value::Double(1.0));
    assert_eq!(outcomes(&mut story), [("ECA_PUTFAIL".into(), Value::Double(1.0), false)]);
}

/// DBR_PUT_ACKS to a PV of the record, as a recorder tells it, and as an old one did.
#[test]
fn an_acknowledgement_is_no_put_to_the_value() {
    const ACKS: FieldId = 9;
    for field in [ACKS, VAL] {
        let mut story = story();
        let definition =
            Field { id: ACKS, ioc: 1, rtype: "ao".into(), name: "ACKS".into(), dbf: Dbf::Menu, menu: None };
        story.run.apply(0, &Fact::from(definition));
        let put = CaPut {
            circuit: 1,
            channel: 1,
            notify: false,
            dbr: 36,
            count: 1,
            ioid: 1,
            length: 2,
            payload: vec![0, 2],
        };
        story.push(SECOND, Fact::CaPut(put));
        for (kind, sp, from) in [(PutKind::PutField, -1000, "dbChannel_put"), (PutKind::Put, -1100, "")] {
            let put = Put {
                thread: CLIENT,
                sp,
                site: site(from),
                kind,
                record: SP,
                field: Some(field),
                dbf: if field == VAL { Dbf::Device } else { Dbf::UShort },
                count: 1,
                requested: Value::Int(2),
                old: if field == VAL { Value::Double(7.0) } else { Value::Unknown },
            };
            story.push(SECOND + MS, Fact::from(put));
        }
        let puts = story.puts();
        assert_eq!(puts.len(), 1, "{puts:?}");
        let put = &puts[0];
        assert_eq!((put.field.as_deref(), put.acknowledges), (Some("ACKS"), Some("ACKS")));
        assert_eq!((&*put.dbr, &put.requested), ("DBR_PUT_ACKS", &Value::Int(2)));
        assert_eq!((&put.old, &put.new, &*put.status), (&Value::Unknown, &Value::Unknown, "ok"));
        assert_eq!((put.source, put.user.as_deref()), ("both", Some("user1")));
    }
}

/// Two clients, gone before the recorder could look at their threads, write to one record by two names.
#[test]
fn an_alias_is_a_name_of_its_record() {
    let mut story = story();
    story.run.apply(0, &Fact::Alias(Alias { record: SP, name: "ALIAS".into() }));
    let channel = Channel {
        id: 6,
        circuit: 2,
        cid: Some(6),
        sid: Some(6),
        pv: "ALIAS.VAL{\"dbnd\":{}}".into(),
        dbr: Some(6),
        count: Some(1),
        origin: Origin::Opened,
    };
    story.run.apply(0, &Fact::from(channel));
    story.packet(SECOND, 1, 1, false, 2.0).packet(SECOND, 2, 6, false, 3.0);
    story.write(SECOND + MS, CLIENT2, SP, 3.0).write(SECOND + 2 * MS, CLIENT, SP, 2.0);
    let puts = story.puts();
    let seen: Vec<_> = puts
        .iter()
        .map(|put| (put.pv.as_deref(), put.record.as_deref(), put.user.as_deref(), put.source, &put.new))
        .collect();
    let (two, three) = (Value::Double(2.0), Value::Double(3.0));
    let by_alias = (Some("ALIAS.VAL{\"dbnd\":{}}"), Some("T:SP"), Some("user2"), "both", &three);
    // in the order in which the record took them
    assert_eq!(seen, [by_alias, (Some("T:SP"), Some("T:SP"), Some("user1"), "both", &two)]);
    // Seen on the network alone, it is its record's all the same.
    let mut story = self::story();
    story.run.apply(0, &Fact::Alias(Alias { record: SP, name: "ALIAS".into() }));
    story.packet(SECOND, 1, 5, false, 2.0);
    assert_eq!(story.puts()[0].record.as_deref(), Some("T:SP"));
    // A put with callback that never gets to dbPut (DISP) carries no value: the name alone has to do.
    let mut story = self::story();
    story.run.apply(0, &Fact::Alias(Alias { record: SP, name: "ALIAS".into() }));
    story.packet(SECOND, 1, 5, true, 2.0).put(SECOND + MS, PutKind::Notify, CLIENT, -1000, "", SP, 2.0);
    let puts = story.puts();
    assert_eq!(puts.len(), 1, "{puts:?}");
    assert_eq!((puts[0].source, puts[0].user.as_deref()), ("both", Some("user1")));
}

/// `dbProcessNotify` tells neither type nor count: a refused put of which no message was seen has none.
#[test]
fn a_refused_put_without_its_message_has_no_type() {
    let mut story = story();
    story.put(SECOND, PutKind::Notify, CLIENT, -1000, "", SP, 2.0);
    let puts = story.puts();
    assert_eq!(puts.len(), 1, "{puts:?}");
    assert_eq!((puts[0].source, &*puts[0].dbr, &puts[0].requested), ("probe", "", &Value::Unknown));
}

/// What an IOC's process writes is nobody's, whoever its circuit says that it is.
#[test]
fn an_ioc_is_no_person() {
    let mut story = story();
    let ends = CircuitEnds { circuit: 1, namespace: 0, server: Some(1), client: Some(2) };
    story.run.apply(0, &Fact::CircuitEnds(ends));
    story.packet(SECOND, 1, 1, false, 2.0).write(SECOND + MS, CLIENT, SP, 2.0);
    story.write(2 * SECOND, CA_LINK, SP, 3.0);
    let mut from_outside = Vec::new();
    let chains = story.in_order();
    chains.iter().for_each(|chain| each_put(chain, false, &mut |put| from_outside.push(put)));
    // from outside, though of no person
    let seen: Vec<_> = from_outside.iter().map(|put| (put.via.name(), put.client_ioc.as_deref())).collect();
    assert_eq!(seen, [("ca_link", Some("second"))]);
    let mut all = Vec::new();
    chains.iter().for_each(|chain| each_put(chain, true, &mut |put| all.push(put)));
    let seen: Vec<_> = all.iter().map(|put| (put.via.name(), put.client_ioc.as_deref())).collect();
    assert_eq!(seen, [("ca_link", Some("second")), ("ca_link", None)]);
}

/// `dbpf T:SP.UNIT`, read half a second later, with something in between.
fn unit(rtype: &str, between: impl Fn(&mut Story)) -> (String, Value, bool) {
    const UNIT: FieldId = 31;
    let mut story = story();
    let name = |id, name: &str| {
        let (rtype, name) = (rtype.into(), name.into());
        Fact::from(Field { id, ioc: 1, rtype, name, dbf: Dbf::String, menu: None })
    };
    let of_type = Record { id: SP, ioc: 1, address: 4096, name: "T:SP".into(), rtype: rtype.into() };
    for fact in [Fact::from(of_type), name(UNIT, "UNIT"), name(32, "OTHER")] {
        story.run.apply(0, &fact);
    }
    write_text(&mut story, SECOND, UNIT, "a", "b");
    between(&mut story);
    story.held(SECOND + 500 * MS, UNIT, text("b"));
    outcomes(&mut story).remove(0)
}

#[test]
fn what_something_else_may_have_written_is_not_certain() {
    let ok = |inexact| ("ok".to_owned(), text("b"), inexact);
    let unknown = || ("unknown".to_owned(), text("b"), true);
    assert_eq!(unit("ao", |_| {}), ok(false));
    let other = |story: &mut Story| write_text(story, SECOND + 100 * MS, 32, "x", "y");
    assert_eq!(unit("ao", other), ok(false), "a put to another field of an ao changes only that");
    assert_eq!(unit("motor", other), unknown());
    let unnamed = |story: &mut Story| write_text(story, SECOND + 100 * MS, 33, "x", "y");
    assert_eq!(unit("ao", unnamed), ok(false), "a field whose number is known is another");
    let scanned = |story: &mut Story| {
        story.process(SECOND + 100 * MS, SCAN, -100, "scanList", SP);
        story.complete(SECOND + 101 * MS, SCAN, -200, SP, 1.0);
    };
    assert_eq!(unit("ao", scanned), unknown());
    let routine = |story: &mut Story| _ = story.routine(SECOND + 100 * MS, SCAN, -100, SP, false);
    assert_eq!(unit("ao", routine), unknown(), "of a stripped program");
}

#[test]
fn processing_that_is_left_out_of_the_log_may_have_written() {
    let mut story = story();
    let sampling = ChainSampling { chains: 1, window: SECOND, cause: "--thin".into() };
    story.run.apply(0, &Fact::ChainSampling(sampling));
    write_text(&mut story, SECOND, 31, "a", "b");
    story.held(SECOND + 500 * MS, 31, text("b"));
    assert_eq!(outcomes(&mut story), [("unknown".into(), text("b"), true)]);
    // only puts change a description
    describe(&mut story, 3 * SECOND, "a", "b");
    story.held(3 * SECOND + 500 * MS, DESC, text("b"));
    assert_eq!(outcomes(&mut story)[0], ("ok".into(), text("b"), false));
}

/// `dbpf T:SP.RTYP other`: in the IOC's memory it looks like NAME, but for the value that it finds.
#[test]
fn an_attribute_of_the_type_keeps_its_value() {
    const NAME: FieldId = 34;
    let mut story = story();
    let name =
        Field { id: NAME, ioc: 1, rtype: "ao".into(), name: "NAME".into(), dbf: Dbf::String, menu: None };
    story.run.apply(0, &Fact::from(name));
    write_text(&mut story, SECOND, NAME, "ao", "other");
    write_text(&mut story, SECOND + 100 * MS, NAME, "T:SP", "other");
    story.held(SECOND + 500 * MS, NAME, text("T:SP"));
    let puts: Vec<_> = story
        .puts()
        .iter()
        .map(|put| (put.pv.clone().unwrap(), put.field.clone().unwrap(), put.old.clone(), put.new.clone()))
        .collect();
    let line = |field: &str, value| (format!("T:SP.{field}"), field.to_owned(), text(value), text(value));
    assert_eq!(puts, [line("RTYP", "ao"), line("NAME", "T:SP")]);
}

/// RSRV answers puts with callback to several channels in any order: one that is refused at once before one that takes long
/// (seen). With one number for both, nobody can tell which was refused; once both are answered, the number is free.
#[test]
fn puts_of_one_number_to_several_channels() {
    let mut story = story();
    let ask = |story: &mut Story, time: u64, channel: u32, v: f64| {
        let payload = v.to_be_bytes().to_vec();
        let put = CaPut { circuit: 1, channel, notify: true, dbr: 6, count: 1, ioid: 9, length: 8, payload };
        story.push(time, Fact::CaPut(put));
    };
    let answer = |story: &mut Story, time: u64, status: u32| {
        let (circuit, ioid, notify, text) = (1, 9, true, String::new());
        story.push(time, Fact::CaAnswer(CaAnswer { circuit, ioid, notify, status, text }));
    };
    ask(&mut story, SECOND, 1, 1.0);
    ask(&mut story, SECOND + MS, 5, 2.0);
    answer(&mut story, SECOND + 2 * MS, 376);
    answer(&mut story, SECOND + 300 * MS, 1);
    ask(&mut story, SECOND + 400 * MS, 1, 3.0);
    answer(&mut story, SECOND + 401 * MS, 1);
    let puts = story.puts();
    let told: Vec<&str> = puts.iter().map(|put| &*put.status).collect();
    assert_eq!(told, ["unknown", "unknown", "ok"], "{puts:#?}");
}

/// RSRV says that a put without callback failed by the number that the client gave it, which libca gives to all puts of a
/// channel. Of two in one segment the first failed (seen: a text that is no number, and a number).
#[test]
fn one_of_several_puts_without_callback_was_refused() {
    for (status, second, expected) in
        [(160, 1, ["unknown", "ok"]), (376, 5, ["unknown"; 2]), (376, 1, ["denied"; 2])]
    {
        let mut story = story();
        for (time, channel, v) in [(SECOND, 1, 1.0), (SECOND + MS, second, 2.0)] {
            let (circuit, notify, payload) = (1, false, f64::to_be_bytes(v).to_vec());
            let put = CaPut { circuit, channel, notify, dbr: 6, count: 1, ioid: 9, length: 8, payload };
            story.push(time, Fact::CaPut(put));
        }
        if expected[1] == "ok" {
            story.write(SECOND + 2 * MS, CLIENT, SP, 2.0);
        }
        for time in 0..if expected[0] == "denied" { 2 } else { 1 } {
            let (circuit, ioid, notify, text) = (1, 9, false, String::new());
            let time = SECOND + (5 + time) * MS;
            story.push(time, Fact::CaAnswer(CaAnswer { circuit, ioid, notify, status, text }));
        }
        let puts = story.puts();
        let told: Vec<&str> = puts.iter().map(|put| &*put.status).collect();
        assert_eq!(told, expected, "{status} {second}: {puts:#?}");
    }
}
