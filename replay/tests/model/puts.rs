//! Puts from outside: the message and the hit of each.

use super::*;

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

/// One packet may hold several puts, also to the same PV: each is a trace of its own.
#[test]
fn puts_of_one_packet_have_ids_of_their_own() {
    for number in [1, 2] {
        let mut story = story();
        for value in [2.0, 3.0, 2.0] {
            story.packet(SECOND, 1, 1, false, value);
        }
        // another name of it, and another client
        story.packet(SECOND, 1, 5, false, 2.0);
        story.packet(SECOND, 2, 2, false, 2.0);
        if number == 2 {
            let hits = [2.0, 3.0, 2.0].into_iter().zip(1..);
            for (value, at) in hits {
                story.write(SECOND + at * MS, CLIENT, SP, value);
            }
        }
        let chains = story.chains();
        let traces: HashSet<_> = chains.iter().filter_map(trace_id).collect();
        let spans: HashSet<_> = chains.iter().flat_map(span_ids).collect();
        let count: usize = chains.iter().map(|chain| chain.spans.len()).sum();
        assert_eq!((traces.len(), spans.len()), (chains.len(), count));
        assert_eq!(chains.len(), 5);
    }
}

/// Of a text only the begin was captured.
#[test]
fn the_begin_of_a_text_is_not_the_text() {
    let put = |payload: &[u8]| {
        let payload = payload.to_vec();
        Fact::CaPut(CaPut {
            circuit: 1,
            channel: 1,
            notify: false,
            dbr: 0,
            count: 1,
            ioid: 1,
            length: 24,
            payload,
        })
    };
    let mut story = story();
    story.push(SECOND, put(b"MOVE TO HOME P"));
    story.push(2 * SECOND, put(b"MOVE\0"));
    let puts = story.puts();
    let told: Vec<_> = puts.iter().map(|put| (put.requested.clone(), put.requested_cut)).collect();
    let text = |text: &str| Value::Text(text.as_bytes().into());
    assert_eq!(told, [(text("MOVE TO HOME P"), Some(true)), (text("MOVE"), Some(false))]);
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

/// A client writes the same value again and again, and the IOC is attached after its second put: nobody saw what the first two
/// did. Each put from then on has its own hit, also the one that was on its way.
#[test]
fn a_put_from_before_the_ioc_was_attached_does_not_take_the_hit_of_another() {
    for on_its_way in [false, true] {
        let mut story = story();
        story.packet(SECOND, 1, 1, false, 2.0).packet(2 * SECOND, 1, 1, false, 2.0);
        let since = 2 * SECOND + 500 * MS;
        if on_its_way {
            story.packet(since - MS / 2, 1, 1, false, 2.0);
        }
        story
            .run
            .apply(0, &Fact::Attached(Attached { ioc: 1, from: SECOND / 2, since, cause: String::new() }));
        if on_its_way {
            story.write(since + MS / 2, CLIENT, SP, 2.0);
        }
        for second in 3..6 {
            story.packet(second * SECOND, 1, 1, false, 2.0).write(second * SECOND + MS, CLIENT, SP, 2.0);
        }
        let puts = story.puts();
        let seen: Vec<_> = puts.iter().map(|put| put.source).collect();
        let expected = ["packet", "packet", "both", "both", "both", "both"];
        assert_eq!(seen, expected[..5 + usize::from(on_its_way)]);
    }
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

/// A server answers once it has put: what is put later is no answered request's, whatever that asked for.
#[test]
fn a_put_after_the_answer_is_another() {
    let mut story = story();
    story.packet(SECOND, 1, 1, true, 2.0).answer(SECOND + MS, 0, 114);
    story.put(2 * SECOND, PutKind::Notify, CLIENT, -1000, "dbChannel_put", SP, 0.0);
    story.put(2 * SECOND + 1, PutKind::Put, CLIENT, -1100, "", SP, 2.0);
    let puts = story.puts();
    let seen: Vec<_> = puts.iter().map(|put| (&*put.status, put.source)).collect();
    assert_eq!(seen, [("ECA_BADTYPE", "packet"), ("ok", "probe")]);
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
    story.push(SECOND, Fact::from(put.clone()));
    // What the field holds since, and the next put's old value.
    story.held(SECOND + 20 * MS, OUT, Value::Text(b"T:RB1 PP NMS".to_vec()));
    story.held(SECOND + 500 * MS, OUT, Value::Text(b"T:RB1 PP NMS".to_vec()));
    let next = Put { requested: Value::Text(b"T:NONE PP".to_vec()), old: text.clone(), ..put };
    story.push(5 * SECOND, Fact::from(next));
    story.held(5 * SECOND + 520 * MS, OUT, text.clone());
    let puts = story.puts();
    let of = |put: &PutLine| (put.status.to_string(), put.new.clone(), put.inexact);
    let found = Value::Text(b"T:RB1 PP NMS".to_vec());
    assert_eq!(of(&puts[0]), ("unknown".into(), found, false), "what it held before is not known");
    assert_eq!(of(&puts[1]), ("unknown".into(), text, false), "it still is what it was");
    assert_eq!(puts[0].pv.as_deref(), Some("T:SP.OUT"));
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

/// Packets of a hundred puts are lost. That of one is sent again, and comes 0.3 s later, with the next put behind it.
#[test]
fn the_late_copy_of_a_lost_packet_is_joined_where_many_are_lost() {
    let mut story = story();
    story.packet(500 * MS, 1, 1, false, 1.0).write(501 * MS, CLIENT, SP, 1.0);
    for number in 0..100 {
        story.write(SECOND + number * MS / 10, CLIENT, SP, 1000.0 + number as f64);
    }
    // the log is looked through just before
    story.write(1350 * MS, CLIENT, SP, 5000.0);
    story.packet(1351 * MS, 1, 1, false, 1050.0).packet(1352 * MS, 1, 1, false, 2.0);
    story.write(1353 * MS, CLIENT, SP, 2.0);
    let puts = story.puts();
    let told = |value: f64| -> Vec<&str> {
        let own = puts.iter().filter(|put| put.requested == Value::Double(value));
        own.map(|put| put.source).collect()
    };
    assert_eq!((told(1050.0), told(2.0)), (vec!["both"], vec!["both"]));
    assert_eq!(told(1051.0), ["probe"]);
    assert_eq!(puts.len(), 103);
}
