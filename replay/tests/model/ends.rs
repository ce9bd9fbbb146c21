//! Whose a put is where addresses and ports don't tell.

use super::*;

/// Both IOCs have port 5064; circuits 1 and 2 lead to the first, circuit 3 to the second, as their sockets told. The second
/// has a record of the first one's name.
fn one_port() -> Story {
    let story = story();
    let second = story.run.context().ioc(2).cloned().expect("the second");
    story.run.apply(0, &Fact::from(Ioc { ca_ports: vec![5064], ..second }));
    let circuit = story.run.context().circuit(3).cloned().expect("the third");
    let server = Address { port: 5064, ..circuit.server };
    story.run.apply(0, &Fact::from(Circuit { server, ..circuit }));
    let channel = story.run.context().channel(4).cloned().expect("its channel");
    story.run.apply(0, &Fact::from(Channel { id: 6, pv: "T:SP".into(), ..channel }));
    for (circuit, server) in [(1, 1), (2, 1), (3, 2)] {
        let ends = CircuitEnds { circuit, namespace: 7, server: Some(server), client: None };
        story.run.apply(0, &Fact::CircuitEnds(ends));
    }
    story
}

#[test]
fn denied_puts_are_the_iocs_whose_socket_it_was() {
    let mut story = one_port();
    story.packet(SECOND, 3, 6, true, 1.0).packet(2 * SECOND, 1, 1, true, 2.0);
    story.answer(SECOND + MS, 0, 376).answer(2 * SECOND + MS, 1, 376);
    let puts: Vec<_> =
        story.puts().into_iter().map(|put| (put.ioc.unwrap_or_default(), put.status)).collect();
    assert_eq!(puts, [("second".into(), "denied".into()), ("demo".into(), "denied".into())]);
}

/// The same put to a record of that name in another IOC, whose message alone was seen.
#[test]
fn a_hit_takes_no_message_of_another_ioc() {
    let mut story = one_port();
    story.packet(SECOND, 3, 6, false, 2.0).write(SECOND + MS, CLIENT, SP, 2.0);
    let mut puts: Vec<_> =
        story.puts().into_iter().map(|put| (put.ioc.unwrap_or_default(), put.source)).collect();
    puts.sort();
    assert_eq!(puts, [("demo".into(), "probe"), ("second".into(), "packet")]);
}

/// A put in the log of a recorder. `server`: who serves its circuit, if the recorder knows it.
fn seen(order: &mut Order, boot: &str, namespace: u64, ip: Ipv4Addr, server: Option<IocId>) {
    let mut story = story();
    let host = story.run.context().host().cloned().expect("a host");
    story.run.apply(0, &Fact::from(Host { boot_id: boot.into(), ..host }));
    let circuit = story.run.context().circuit(3).cloned().expect("the third");
    let (client, at) = (Address::new(ip, 40_000), Address::new(ip, 5066));
    story.run.apply(0, &Fact::from(Circuit { client, server: at, ..circuit }));
    let ends = CircuitEnds { circuit: 3, namespace, server, client: None };
    story.run.apply(0, &Fact::CircuitEnds(ends));
    story.packet(SECOND, 3, 4, true, 5.0);
    story.chains().into_iter().for_each(|chain| order.insert(chain));
}

/// Puts in the logs of two recorders, on circuits between the same addresses and ports.
fn seen_twice(boot: [&str; 2], namespaces: [u64; 2], ip: Ipv4Addr) -> usize {
    let mut order = Order::default();
    for (boot, namespace) in boot.into_iter().zip(namespaces) {
        seen(&mut order, boot, namespace, ip, Some(2));
    }
    let mut chains = VecDeque::new();
    order.release(i64::MAX, &mut chains);
    chains.len()
}

/// A gateway's put: the recorder on the host of its client does not know who serves, the one on the gateway's does.
#[test]
fn of_a_put_on_two_recorders_the_one_that_knows_the_server_tells() {
    for servers in [[None, Some(2)], [Some(2), None]] {
        let mut order = Order::default();
        for (boot, server) in ["a", "b"].into_iter().zip(servers) {
            seen(&mut order, boot, 7, Ipv4Addr::new(10, 0, 0, 9), server);
        }
        let (mut chains, mut iocs) = (VecDeque::new(), Vec::new());
        order.release(i64::MAX, &mut chains);
        for chain in &chains {
            each_put(chain, true, &mut |put| iocs.push(put.ioc.unwrap_or_default().to_string()));
        }
        assert_eq!(iocs, ["second"], "{servers:?}");
    }
}

/// The recorders at both ends of a circuit see one put; each machine, and each network namespace, has a loopback of
/// its own.
#[test]
fn what_is_the_same_put_on_two_recorders() {
    let (local, distant) = (Ipv4Addr::LOCALHOST, Ipv4Addr::new(10, 0, 0, 9));
    assert_eq!(seen_twice(["a", "b"], [7, 8], distant), 1);
    assert_eq!(seen_twice(["a", "b"], [7, 7], local), 2);
    assert_eq!(seen_twice(["a", "a"], [7, 7], local), 1, "two recorders on a machine");
    assert_eq!(seen_twice(["a", "a"], [7, 8], local), 2, "two containers on it");
    assert_eq!(seen_twice(["a", "a"], [7, 0], local), 1, "one that does not know the namespace");
}

/// Its copy may begin 0.1 s later.
#[test]
fn a_put_waits_for_its_copy_where_there_is_another_log() {
    let until = story().run.wall(SECOND + MS);
    for (runs, given) in [(1, 1), (2, 0)] {
        let mut order = Order::default().of_runs(runs);
        seen(&mut order, "a", 7, Ipv4Addr::new(10, 0, 0, 9), Some(2));
        let mut chains = VecDeque::new();
        order.release(until, &mut chains);
        assert_eq!(chains.len(), given, "of {runs}");
        order.release(i64::MAX, &mut chains);
        assert_eq!((chains.len(), order.late()), (1, 0), "of {runs}");
    }
}

/// A person writes the same to the same PV at the same time as an IOC's link.
#[test]
fn a_link_has_made_what_came_on_its_iocs_circuit() {
    for (client, expected) in [(Some(1), "put - 2 circuit 3"), (Some(2), "put - 2 circuit 2"), (None, "")] {
        let mut story = story();
        let channel = story.run.context().channel(4).cloned().expect("of the third circuit");
        story.run.apply(0, &Fact::from(Channel { id: 7, circuit: 2, ..channel }));
        let ends = CircuitEnds { circuit: 3, namespace: 7, server: Some(2), client };
        story.run.apply(0, &Fact::CircuitEnds(ends));
        story
            .process(SECOND, SCAN, -100, "scanList", CALC)
            .link(SECOND + 1, SCAN, -300, CALC, "R:FAR", 2.0)
            .complete(SECOND + 2, SCAN, -200, CALC, 2.0)
            .packet(SECOND + MS, 2, 7, true, 2.0)
            .packet(SECOND + 2 * MS, 3, 4, true, 2.0);
        let sketch = story.sketch();
        let made =
            sketch.lines().skip_while(|line| !line.contains("link to R:FAR")).nth(1).unwrap_or_default();
        let made = if made.starts_with("    ") { made.trim() } else { "" };
        assert_eq!(made, expected, "client {client:?}: {sketch}");
    }
}

/// Two recorders of a machine see a link's put on a loopback circuit. One of them found the circuit in the server's memory, and does not
/// know in which network namespace it is.
#[test]
fn a_link_has_made_what_two_recorders_saw() {
    let sketch = by_link(&[(7, true), (0, false)]);
    assert_eq!(sketch.matches("put - 2").count(), 1, "{sketch}");
    assert!(sketch.contains("link to R:FAR") && !sketch.starts_with("put"), "{sketch}");
    assert!(!sketch.contains("\nput"), "{sketch}");
}

/// One put in each of two containers: the third recorder's, which does not know its namespace, makes them no single one.
#[test]
fn a_link_has_made_neither_of_two_namespaces_puts() {
    for namespaces in [[(0, false), (7, true), (8, false)], [(7, true), (0, false), (8, false)]] {
        let sketch = by_link(&namespaces);
        assert!(sketch.contains("link to R:FAR"), "{sketch}");
        let of_link = |line: &str| line.starts_with(' ') && line.trim_start().starts_with("put");
        assert!(!sketch.lines().any(of_link), "{sketch}");
    }
}

/// What comes of a put on a loopback circuit, which several recorders saw in these namespaces, some of them with the link that may
/// have made it.
fn by_link(namespaces: &[(u64, bool)]) -> String {
    let mut order = Order::default();
    for (namespace, has_link) in namespaces.iter().copied() {
        let mut story = story();
        let circuit = story.run.context().circuit(3).cloned().expect("the third");
        let (client, server) = (Address::new(Ipv4Addr::LOCALHOST, 40_000), Ipv4Addr::LOCALHOST);
        let server = Address::new(server, 5066);
        story.run.apply(0, &Fact::from(Circuit { client, server, ..circuit }));
        if namespace > 0 {
            let ends = CircuitEnds { circuit: 3, namespace, server: Some(2), client: None };
            story.run.apply(0, &Fact::CircuitEnds(ends));
        }
        if has_link {
            story
                .process(SECOND, SCAN, -100, "scanList", CALC)
                .link(SECOND + 1, SCAN, -300, CALC, "R:FAR", 2.0)
                .complete(SECOND + 2, SCAN, -200, CALC, 2.0);
        }
        story.packet(SECOND + MS, 3, 4, true, 2.0);
        story.chains().into_iter().for_each(|chain| order.insert(chain));
    }
    let mut chains = VecDeque::new();
    order.release(i64::MAX, &mut chains);
    chains.iter().map(|chain| sketch(chain, 0)).collect()
}
