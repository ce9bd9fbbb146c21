//! The definitions in force.

use crate::facts;
use iocrec_log::context::Context;
use iocrec_log::event::*;
use proptest::prelude::*;

fn facts_of(context: &Context) -> Vec<String> {
    context.facts().map(|fact| format!("{fact:?}")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A keyframe gives the same answers as the events that led to it.
    #[test]
    fn a_keyframe_is_enough(events in facts::events(0..120)) {
        let mut context = Context::default();
        for event in &events {
            context.apply(event.time, &event.fact);
        }
        let mut copy = Context::default();
        for event in context.events(12) {
            copy.apply(event.time, &event.fact);
        }
        prop_assert_eq!(facts_of(&copy), facts_of(&context));
        for id in 0..6 {
            prop_assert_eq!(copy.record(id), context.record(id));
            prop_assert_eq!(copy.circuit_of_thread(id), context.circuit_of_thread(id));
        }
        // Ends work on the copy as on the first one: nothing that they go by is missing.
        for end in [Fact::CircuitEnd(1), Fact::IocEnd(IocEnd { ioc: 2, how: String::new() }), Fact::ChannelEnd(3)] {
            context.apply(9, &end);
            copy.apply(9, &end);
            prop_assert_eq!(facts_of(&copy), facts_of(&context));
        }
    }
}

fn thread(id: u32, ioc: u32) -> Fact {
    Fact::Thread(Thread { id, ioc, tid: id, name: format!("t{id}"), stack: 0 })
}

fn record(id: u32, ioc: u32, name: &str) -> Fact {
    Fact::from(Record { id, ioc, address: 1, name: name.into(), rtype: "ai".into() })
}

fn channel(id: u32, circuit: u32) -> Fact {
    let (pv, origin) = (format!("pv{id}"), Origin::Opened);
    Fact::from(Channel { id, circuit, cid: None, sid: None, pv, dbr: None, count: None, origin })
}

fn circuit(id: u32) -> Fact {
    let address = Address { ip: 1, port: 1 };
    let (user, host, origin) = (String::new(), String::new(), Origin::Opened);
    Fact::from(Circuit { id, client: address, server: address, user, host, minor: 0, origin })
}

#[test]
fn ends_take_what_belongs_to_them() {
    let mut context = Context::default();
    let field = |id, ioc| {
        Fact::from(Field { id, ioc, rtype: "ai".into(), name: "VAL".into(), dbf: Dbf::Double, menu: None })
    };
    let site =
        |id, ioc| Fact::from(CallSite { id, ioc, address: 0, function: "f".into(), module: String::new() });
    for ioc in 1..=2 {
        for fact in [thread(ioc, ioc), record(ioc, ioc, "r"), field(ioc, ioc), site(ioc, ioc), circuit(ioc)] {
            context.apply(0, &fact);
        }
        let menu = Menu { id: ioc, ioc, name: "menuYesNo".into(), choices: vec!["NO".into(), "YES".into()] };
        context.apply(0, &Fact::Menu(menu));
        for name in ["other", "third", "other"] {
            context.apply(0, &Fact::Alias(Alias { record: ioc, name: name.into() }));
        }
        context.apply(0, &Fact::EnumStrings(EnumStrings { record: ioc, states: vec!["Off".into()] }));
        let kind = ScanKind::Event;
        context.apply(0, &Fact::ScanList(ScanList { id: ioc, ioc, kind, name: "7".into(), callback: 9 }));
        context.apply(0, &Fact::RecordScan(RecordScan { record: ioc, list: Some(ioc) }));
        context.apply(0, &channel(ioc, ioc));
        context.apply(0, &channel(ioc + 10, ioc));
        context.apply(0, &Fact::ServerThread(ServerThread { thread: ioc, circuit: ioc }));
    }
    context.apply(0, &Fact::IocEnd(IocEnd { ioc: 1, how: String::new() }));
    for (id, there) in [(1, false), (2, true)] {
        assert_eq!(context.thread(id).is_some(), there);
        assert_eq!(context.record(id).is_some(), there);
        assert_eq!(context.field(id).is_some(), there);
        assert_eq!(context.menu(id).is_some(), there);
        assert_eq!(context.aliases(id).len(), if there { 2 } else { 0 });
        assert_eq!(context.enum_strings(id).len(), usize::from(there));
        assert_eq!(context.scan_list(id).is_some(), there);
        assert_eq!(context.scan_list_of(id).is_some(), there);
        assert_eq!(context.call_site(id).is_some(), there);
        assert_eq!(context.circuit_of_thread(id).is_some(), there);
        assert!(context.circuit(id).is_some() && context.channel(id).is_some());
    }
    context.apply(0, &Fact::CircuitEnd(2));
    assert_eq!(context.circuit_of_thread(2), None);
    assert!(context.channel(2).is_none() && context.channel(12).is_none() && context.circuit(2).is_none());
    assert!(context.channel(1).is_some() && context.channel(11).is_some());
    // A channel that is defined again on another circuit ends with that one.
    context.apply(0, &channel(1, 7));
    context.apply(0, &Fact::CircuitEnd(1));
    assert!(context.channel(1).is_some() && context.channel(11).is_none());
    context.apply(0, &Fact::RecordScan(RecordScan { record: 2, list: None }));
    assert!(context.scan_list_of(2).is_none() && context.scan_list(2).is_some());
    context.apply(0, &record(2, 2, "renamed"));
    assert_eq!(context.record(2).unwrap().name, "renamed");
}

#[test]
fn the_calendar() {
    let mut context = Context::default();
    assert_eq!(context.wall(5), None);
    context.apply(100, &Fact::Clock(Clock { wall: 1_000_000 }));
    assert_eq!(
        (context.wall(100), context.wall(130), context.wall(70)),
        (Some(1_000_000), Some(1_000_030), Some(999_970))
    );
    context.apply(200, &Fact::Clock(Clock { wall: 5_000_000 })); // the clock was set
    assert_eq!((context.wall(199), context.wall(201)), (Some(1_000_099), Some(5_000_001)));
    // A clock that was never set counts no more as soon as there is a better one, before it or after it.
    context.apply(300, &Fact::Clock(Clock { wall: 1_790_000_000_000_000_000 }));
    context.apply(300, &Fact::Clock(Clock { wall: 6_000_000 }));
    assert_eq!(context.wall(100), Some(1_789_999_999_999_999_800));
    assert_eq!(context.wall(301), Some(1_790_000_000_000_000_001));
    // However many pairs there are, and however odd, it remembers some and copes.
    for number in 0..1000 {
        context.apply(300 + number, &Fact::Clock(Clock { wall: i64::MAX }));
    }
    assert_eq!((context.wall(1299), context.wall(2000)), (Some(i64::MAX), Some(i64::MAX)));
    assert!(context.wall(u64::MAX).is_some() && context.wall(0).is_some());
    let pair = context.events(7).next().unwrap();
    assert_eq!((pair.time, pair.fact), (1299, Fact::Clock(Clock { wall: i64::MAX })));
}
