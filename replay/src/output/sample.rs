//! An inventory for tests.

use crate::answers::inventory::Inventory;
use iocrec_log::event::{Alias, Clock, EnumStrings, Fact, Host, Ioc, IocEnd, Linkage, Record};

/// An IOC that was killed, and two records of it.
pub fn inventory() -> Inventory {
    let mut found = Inventory::default();
    let host = Host {
        name: "box1".into(),
        kernel: String::new(),
        arch: String::new(),
        boot_id: String::new(),
        recorder: String::new(),
        utc_offset: 0,
    };
    let ioc = Ioc {
        id: 1,
        pid: 7,
        start: 0,
        name: "demo".into(),
        exe: "/opt/softIoc".into(),
        cwd: "/".into(),
        command: vec!["softIoc".into(), "st.cmd".into()],
        base_version: "7.0.8.1".into(),
        ca_ports: vec![5064],
        linkage: Linkage::Shared,
        not_probed: vec!["postEvent: slow".into()],
        user: "ioc".into(),
        pva_ports: vec![],
        environment: vec![("TOP".into(), "/opt".into())],
    };
    let record = |id, name: &str, rtype: &str| {
        Fact::from(Record { id, ioc: 1, address: 0, name: name.into(), rtype: rtype.into() })
    };
    for fact in [
        Fact::from(host),
        Fact::Clock(Clock { wall: 1_790_000_000_000_000_000 }),
        Fact::from(ioc),
        record(1, "T:SP", "ao"),
        record(2, "T:VALVE", "bo"),
        Fact::Alias(Alias { record: 2, name: "V1\u{1b}[2J".into() }),
        Fact::EnumStrings(EnumStrings { record: 2, states: vec!["Closed".into(), "Open".into()] }),
        Fact::IocEnd(IocEnd { ioc: 1, how: "killed by SIGKILL".into() }),
    ] {
        found.take(0, &fact);
    }
    found
}
