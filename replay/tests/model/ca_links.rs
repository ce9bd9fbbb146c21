//! CA links: which put a link has made.

use super::*;

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

/// A record that feeds itself through a link writes to it again and again.
#[test]
fn the_name_of_a_links_target_is_held_once() {
    let mut story = story();
    for (time, pv) in (1..).map(|n| n * MS).zip(["T:SP", "T:SP", "R:FAR"]) {
        story.process(time, SCAN, -100, "scanList", CALC).link(time + 1, SCAN, -300, CALC, pv, 2.0).complete(
            time + 2,
            SCAN,
            -200,
            CALC,
            2.0,
        );
    }
    let chains = story.chains();
    let links = chains.iter().flat_map(|chain| &chain.spans).filter_map(|span| match &span.kind {
        SpanKind::Link(link) => Some(&link.pv),
        _ => None,
    });
    let pvs: Vec<&Rc<str>> = links.collect();
    assert_eq!(pvs.iter().map(|pv| &***pv).collect::<Vec<_>>(), ["T:SP", "T:SP", "R:FAR"]);
    assert!(Rc::ptr_eq(pvs[0], pvs[1]));
}

/// What a link writes is converted to its target's type before it is sent.
#[test]
fn a_ca_link_to_a_shorter_type() {
    // DBR_INT, DBR_ENUM, DBR_CHAR and DBR_LONG
    for (given, dbr, payload) in [
        (70_000.0, 1, 4464_u16.to_be_bytes().to_vec()),
        (-1.0, 3, 65_535_u16.to_be_bytes().to_vec()),
        (300.7, 4, vec![44]),
        (f64::NAN, 5, i32::MIN.to_be_bytes().to_vec()),
        (1e10, 5, i32::MIN.to_be_bytes().to_vec()),
    ] {
        let mut story = story();
        story
            .process(SECOND, SCAN, -100, "scanList", CALC)
            .link(SECOND + 1, SCAN, -300, CALC, "R:FAR", given)
            .complete(SECOND + 2, SCAN, -200, CALC, given);
        let length = payload.len() as u32;
        let put = CaPut { circuit: 3, channel: 4, notify: false, dbr, count: 1, ioid: 7, length, payload };
        story.push(SECOND + MS, Fact::CaPut(put));
        let text = story.sketch();
        assert!(text.contains("  link to R:FAR\n    put - "), "{given} as {dbr}: {text}");
    }
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

/// Of more puts of links than are remembered, some are forgotten. What is left of them looks like the only one that can have
/// made a put, and is not.
#[test]
fn a_ca_link_beside_others_that_are_forgotten() {
    let mut story = story();
    for n in 0..4 {
        let (time, record) = (SECOND + n * MS, if n == 1 { SP } else { CALC });
        story
            .process(time, SCAN, -100, "scanList", record)
            .link(time + 1, SCAN, -300, record, "R:FAR", 2.0)
            .complete(time + 2, SCAN, -200, record, 2.0);
    }
    story.packet(SECOND + 5 * MS, 3, 4, false, 2.0);
    // and one that none of them can have made
    let later = 4 * SECOND;
    story
        .process(later, SCAN, -100, "scanList", CALC)
        .link(later + 1, SCAN, -300, CALC, "R:FAR", 2.0)
        .complete(later + 2, SCAN, -200, CALC, 2.0)
        .packet(later + MS, 3, 4, false, 2.0);
    let mut order = Order::default().remembering(2);
    story.chains().into_iter().for_each(|chain| order.insert(chain));
    let mut chains = VecDeque::new();
    order.release(i64::MAX, &mut chains);
    let text: String = chains.iter().map(|chain| sketch(chain, 0)).collect();
    assert_eq!(
        text,
        "T:CALC scan = 2\n  link to R:FAR\nT:SP scan = 2\n  link to R:FAR\nT:CALC scan = 2\n  link to R:FAR\n\
         T:CALC scan = 2\n  link to R:FAR\nput - 2 circuit 3\nT:CALC scan = 2\n  link to R:FAR\n    put - 2 circuit 3\n"
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

/// A put that came in on a circuit is no link's of the IOC that has the record, since links to own records have no circuit;
/// even if what the link wrote was never seen, or another link may have written it.
#[test]
fn what_clients_write_is_no_ca_link_of_the_same_ioc() {
    let mut story = story();
    story
        .process(SECOND, SCAN, -100, "scanList", CALC)
        .link(SECOND + 1, SCAN, -300, CALC, "T:SP", 2.0)
        .complete(SECOND + 2, SCAN, -200, CALC, 2.0)
        .packet(SECOND + 500 * MS, 1, 1, false, 2.0)
        .write(SECOND + 501 * MS, CLIENT, SP, 2.0);
    assert_eq!(story.sketch(), "T:CALC scan = 2\n  link to T:SP\nput T:SP 2 circuit 1\n  T:SP put = 2\n");
}

/// The first of two puts may be either link's. The second came too late for one of them, but the other may have written the
/// first: then the second is anybody's.
#[test]
fn a_ca_link_behind_a_put_that_may_be_its_own() {
    let mut story = story();
    for (time, record) in [(SECOND, SP), (SECOND + 300 * MS, CALC)] {
        story
            .process(time, SCAN, -100, "scanList", record)
            .link(time + 1, SCAN, -300, record, "R:FAR", 2.0)
            .complete(time + 2, SCAN, -200, record, 2.0);
    }
    story.packet(SECOND + 301 * MS, 3, 4, false, 2.0).packet(SECOND + 1100 * MS, 3, 4, false, 2.0);
    let links = "T:SP scan = 2\n  link to R:FAR\nT:CALC scan = 2\n  link to R:FAR\n";
    let puts = "put - 2 circuit 3\nput - 2 circuit 3\n";
    assert_eq!(story.sketch(), format!("{links}{puts}"));
}

/// Who holds a client's socket is that client.
#[test]
fn what_another_process_writes_is_no_ca_link() {
    for (pid, is_whole, is_links) in [(100, true, true), (4711, true, false), (4711, false, true)] {
        let mut story = story();
        let holder = SocketHolder {
            pid,
            start: 1,
            program: "python".into(),
            command: Vec::new(),
            is_cut: false,
            user: "op".into(),
        };
        let behind = CircuitProcess { circuit: 3, holders: vec![holder], more: 0, is_whole };
        story.run.apply(0, &Fact::CircuitProcess(behind));
        story
            .process(SECOND, SCAN, -100, "scanList", CALC)
            .link(SECOND + 1, SCAN, -300, CALC, "R:FAR", 2.0)
            .complete(SECOND + 2, SCAN, -200, CALC, 2.0)
            .packet(SECOND + MS, 3, 4, false, 2.0);
        let put = if is_links { "    put - 2 circuit 3\n" } else { "put - 2 circuit 3\n" };
        assert_eq!(
            story.sketch(),
            format!("T:CALC scan = 2\n  link to R:FAR\n{put}"),
            "pid {pid}, {is_whole}"
        );
    }
}
