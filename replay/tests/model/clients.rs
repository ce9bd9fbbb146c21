//! Several clients, and many messages at once: which hit belongs to which.

use super::*;

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

/// The client sent all before the server began, and most hits were lost.
#[test]
fn a_flood_of_which_hits_were_lost_counts_each_put_once() {
    let mut story = story();
    for n in 0..3000_u32 {
        story.packet(SECOND + u64::from(n), 1, 1, false, f64::from(n));
    }
    for n in (0..300_u32).chain(1500..1510).chain(2990..3000) {
        story.write(2 * SECOND + u64::from(n) * MS / 10, CLIENT, SP, f64::from(n));
    }
    let puts = story.puts();
    assert_eq!(puts.len(), 3000);
    assert_eq!(puts.iter().filter(|put| put.source == "both").count(), 320);
    assert!(puts.iter().all(|put| put.source != "probe"));
}

#[test]
fn a_message_timed_a_little_after_its_hit() {
    let mut story = story();
    story.write(SECOND, CLIENT, SP, 2.0).packet(SECOND + 20 * MS, 1, 1, false, 2.0);
    let puts = story.puts();
    assert_eq!(puts.len(), 1);
    assert_eq!((puts[0].source, puts[0].time), ("both", WALL + SECOND as i64));
}

/// The hit's own message was not captured, and another client writes the same value soon after.
#[test]
fn a_message_well_after_a_hit_belongs_to_the_hit_that_follows_it() {
    let mut story = story();
    story.write(SECOND, CLIENT2, SP, 2.0);
    story.packet(SECOND + 65 * MS, 1, 1, false, 2.0).write(SECOND + 66 * MS, CLIENT, SP, 2.0);
    // that client goes on, which shows its thread
    story.packet(2 * SECOND, 1, 1, false, 3.0).write(2 * SECOND + MS, CLIENT, SP, 3.0);
    let puts = story.puts();
    let seen: Vec<_> = puts.iter().map(|put| (put.source, put.time)).collect();
    let times = [SECOND, SECOND + 65 * MS, 2 * SECOND].map(|time| WALL + time as i64);
    assert_eq!(seen, [("probe", times[0]), ("both", times[1]), ("both", times[2])]);
}

/// The recorder's clock is being set: it gives a packet the time at which it reads it.
#[test]
fn a_message_that_was_read_well_after_its_hit_is_its_own() {
    let mut story = story();
    for second in 1..4 {
        story.write(second * SECOND, CLIENT, SP, 2.0);
        story.packet(second * SECOND + 65 * MS, 1, 1, false, 2.0);
    }
    let sources: Vec<_> = story.puts().iter().map(|put| put.source).collect();
    assert_eq!(sources, ["both"; 3]);
}

/// The message of a put was not captured, and soon after that its client puts the same value to another PV.
#[test]
fn a_message_to_another_name_well_after_a_hit_is_another_puts() {
    let mut story = story();
    story.push(1, Fact::ServerThread(ServerThread { thread: CLIENT, circuit: 1 }));
    story.write(SECOND, CLIENT, SP, 5.0);
    story.packet(SECOND + 460 * MS, 1, 5, false, 5.0).write(SECOND + 461 * MS, CLIENT, RB1, 5.0);
    let puts = story.puts();
    let seen: Vec<_> = puts.iter().map(|put| (put.source, put.time)).collect();
    let times = [WALL + SECOND as i64, WALL + (SECOND + 460 * MS) as i64];
    assert_eq!(seen, [("probe", times[0]), ("both", times[1])]);
}

/// autosave restores values with `dbPut` in the IOC's first thread, before the IOC has a shell.
#[test]
fn code_in_the_first_thread_is_no_shell() {
    let mut story = story();
    let (id, function, module) = (90, "scalar_restore".to_owned(), "libautosave.so".to_owned());
    story.run.apply(0, &Fact::from(CallSite { id, ioc: 1, address: 0, function, module }));
    let (kind, value) = (PutKind::Put, Value::Text(b"12".to_vec()));
    let (requested, old, dbf) = (value, Value::Double(0.0), Dbf::String);
    let (sp, record, field, count) = (-70, SP, Some(VAL), 1);
    let put = Put { thread: MAIN, sp, site: id, kind, record, field, dbf, count, requested, old };
    story.push(SECOND, Fact::from(put));
    story.put(2 * SECOND, PutKind::PutField, MAIN, -50, "dbpf", SP, 6.0);
    let mut outside = Vec::new();
    story.in_order().iter().for_each(|chain| each_put(chain, false, &mut |put| outside.push(put.via.name())));
    assert_eq!(outside, ["unknown", "dbpf"]);
}

/// The recorder could not read the names in time: in Python's thread it may have been anything, also `dbpf`.
#[test]
fn a_nameless_caller_in_python_is_not_known() {
    let mut story = story();
    let thread = 90;
    story
        .run
        .apply(0, &Fact::Thread(Thread { id: thread, ioc: 1, tid: 100, name: "python3".into(), stack: 0 }));
    for (id, module) in [(91, "libdbCore.so.7.0.10"), (92, "_extension.abi3.so")] {
        let module = module.to_owned();
        let site = CallSite { id, ioc: 1, address: 0, function: String::new(), module };
        story.run.apply(0, &Fact::from(site));
        let (kind, value) = (PutKind::PutField, Value::Text(b"12".to_vec()));
        let (requested, old, dbf) = (value, Value::Double(0.0), Dbf::String);
        let (sp, record, field, count) = (-70, SP, Some(VAL), 1);
        let put = Put { thread, sp, site: id, kind, record, field, dbf, count, requested, old };
        story.push(u64::from(id) * SECOND, Fact::from(put));
    }
    let mut all = Vec::new();
    story.in_order().iter().for_each(|chain| each_put(chain, true, &mut |put| all.push(put.via.name())));
    assert_eq!(all, ["unknown", "python"]);
}

/// The block with the circuit, its channel and the thread that serves it is damaged.
#[test]
fn a_put_on_a_circuit_that_is_not_defined_is_told_once() {
    let mut story = story();
    story.packet(SECOND, 9, 9, false, 2.0).write(SECOND + MS, CLIENT, SP, 2.0);
    let puts = story.puts();
    assert_eq!(puts.len(), 1);
    assert_eq!((puts[0].source, puts[0].user.as_deref()), ("both", None));
}

/// The first message of a client is missing, and another client's looks like it: that the thread does not serve that one shows
/// in what comes later.
#[test]
fn what_was_learned_of_a_thread_from_anothers_message_is_learned_anew() {
    let mut story = story();
    story.packet(SECOND, 1, 1, false, 5.0).write(SECOND + MS, CLIENT2, SP, 5.0);
    story.packet(10 * SECOND, 2, 2, false, 6.0).write(10 * SECOND + MS, CLIENT2, SP, 6.0);
    story.packet(15 * SECOND, 1, 1, false, 7.0).write(15 * SECOND + MS, CLIENT, SP, 7.0);
    story.packet(20 * SECOND, 2, 2, false, 8.0).write(20 * SECOND + MS, CLIENT2, SP, 8.0);
    let puts = story.puts();
    let seen: Vec<_> = puts.iter().skip(1).map(|put| (put.source, put.user.as_deref())).collect();
    assert_eq!(seen, [("both", Some("user2")), ("both", Some("user1")), ("both", Some("user2"))]);
}

/// Where the hit around it was lost, the caller of `dbPut` alone can tell whether a client asked for an answer.
#[test]
fn the_way_of_a_bare_put_in_a_servers_thread() {
    let mut story = story();
    for (second, from) in (1_u64..).zip(["", "dbPutField", "dbChannelPut", "dbPutLink"]) {
        story.put(second * SECOND, PutKind::Put, CLIENT, -1100, from, SP, second as f64);
    }
    let (mut all, mut outside) = (Vec::new(), Vec::new());
    for chain in story.in_order() {
        each_put(&chain, true, &mut |put| all.push(put.via.name()));
        each_put(&chain, false, &mut |put| outside.push(put.via.name()));
    }
    assert_eq!(all, ["unknown", "ca_write", "ca_write_notify", "db_link"]);
    assert_eq!(outside, all[..3]);
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
