//! A log for the report: users, alarms, a script, a loop, hostile texts, a loss, and a killed IOC.

use crate::common::{self, ca_put, complete, happenings, process, put, MS, SECOND};
use iocrec_log::event::*;
use std::net::Ipv4Addr;
use std::path::Path;

/// A user and a value that try to be a part of the page.
pub const USER: &str = "<img src=x onerror=alert(1)>";
pub const TEXT: &str = "</script><b>bold</b>";
pub const RECORD: &str = "<script>alert(1)</script>";

/// Monotonic time of the second at which the first IOC is killed.
pub const KILLED: u64 = 25 * SECOND;
/// Changes of T:CALC's value by its scan: each is a point of its plot. The put at 1 s and the scan at 3 s give two more.
pub const VALUES: u64 = 150;
/// Puts of the script.
pub const SCRIPTED: u64 = 60;

fn circuit(id: u32, user: &str, host: &str) -> Fact {
    Fact::from(Circuit {
        id,
        client: Address::new(Ipv4Addr::new(10, 0, 0, 6), 42_000 + id as u16),
        server: Address::new(Ipv4Addr::new(10, 0, 0, 9), 5064),
        user: user.into(),
        host: host.into(),
        minor: 13,
        origin: Origin::Opened,
    })
}

fn channel(id: u32, circuit: u32, pv: &str) -> Fact {
    let (cid, sid) = (Some(id), Some(id));
    let (dbr, count, origin) = (Some(6), Some(1), Origin::Opened);
    Fact::from(Channel { id, circuit, cid, sid, pv: pv.into(), dbr, count, origin })
}

fn record(id: u32, name: &str, rtype: &str) -> Fact {
    Fact::from(Record { id, ioc: 1, address: 4096, name: name.into(), rtype: rtype.into() })
}

/// What happens.
pub fn facts() -> Vec<(u64, Fact)> {
    let us = 1000;
    let mut facts = happenings();
    facts.push((4 * SECOND, circuit(3, "script", "control-2")));
    facts.push((4 * SECOND, channel(10, 3, "T:SP")));
    facts.push((4 * SECOND, circuit(4, USER, TEXT)));
    facts.push((4 * SECOND, channel(11, 4, RECORD)));
    facts.push((4 * SECOND, record(10, RECORD, "stringin")));
    facts.push((4 * SECOND, record(11, "L:A", "calc")));
    facts.push((
        4 * SECOND,
        Fact::Thread(Thread { id: 9, ioc: 1, tid: 9, name: "CAS-client".into(), stack: 1 << 40 }),
    ));
    // A script writes ten times a second. Nothing of it is seen in the IOC but the put.
    for n in 0..SCRIPTED {
        facts.push((5 * SECOND + n * 100 * MS, ca_put(3, 10, false, 100 + n as u32, n as f64)));
    }
    // A scan, whose record goes MAJOR at 10 s and comes back at 12 s.
    for n in 0..VALUES {
        let t = 8 * SECOND + n * 100 * MS;
        let severity = if (20..40).contains(&n) { 2 } else { 0 };
        facts.push((t, process(3, -100, 2, 2)));
        facts.push((t + us, complete(3, -200, 2, 100.0 + n as f64, severity)));
    }
    // A put of a text by someone with a hostile name, to a record with one.
    let mut payload = TEXT.as_bytes().to_vec();
    payload.push(0);
    let length = payload.len() as u32;
    let text = CaPut { circuit: 4, channel: 11, notify: false, dbr: 0, count: 1, ioid: 7, length, payload };
    facts.push((15 * SECOND, Fact::CaPut(text)));
    // A record that events process 2000 times a second for half a second.
    for n in 0..1000 {
        let t = 20 * SECOND + n * 500 * us;
        facts.push((t, process(4, -100, 4, 11)));
        facts.push((t + us, complete(4, -200, 11, (n / 100) as f64, 0)));
    }
    facts.push((
        20 * SECOND,
        Fact::from(CallSite {
            id: 4,
            ioc: 1,
            address: 2,
            function: "eventCallback".into(),
            module: "libdbCore.so".into(),
        }),
    ));
    // Two more puts by alice, in the last seconds.
    facts.push((24 * SECOND, ca_put(1, 1, false, 50, 7.0)));
    facts.push((24 * SECOND + 100 * us, put(PutKind::PutField, 1, -1000, 1, (1, 1), 2.0, 7.0)));
    facts.push((24 * SECOND + 110 * us, put(PutKind::Put, 1, -1200, 0, (1, 1), 2.0, 7.0)));
    facts.push((24 * SECOND + 120 * us, process(1, -1200, 0, 1)));
    facts.push((24 * SECOND + 130 * us, complete(1, -1300, 1, 5.0, 3)));
    facts.push((KILLED, Fact::IocEnd(IocEnd { ioc: 1, how: "killed by SIGKILL".into() })));
    facts.push((27 * SECOND, Fact::Mark(format!("restarted {TEXT}"))));
    facts.sort_by_key(|(time, _)| *time);
    facts
}

/// Writes the log into `log` of a directory, and the report of it beside; returns the page.
pub fn report(directory: &Path) -> String {
    common::write_events(&directory.join("log"), "box1", 7, facts());
    let (code, out, err) = common::run(directory, &["report", "--utc", "log", "-o", "report.html"]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""));
    std::fs::read_to_string(directory.join("report.html")).unwrap()
}
