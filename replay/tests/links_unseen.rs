//! Links whose other end no circuit of the log shows, such as links by way of a gateway.

mod common;

use common::{complete, iocreplay, outcome, process, write_events, SCAN, SECOND};
use iocrec_log::event::*;

/// The record behind the link is in another recorded IOC, or may be in some other one of that name.
#[test]
fn the_ioc_behind_a_link_that_was_not_followed_is_not_known() {
    let directory = tempfile::tempdir().unwrap();
    let link = CaLinkPut {
        thread: SCAN,
        sp: -500,
        site: 0,
        record: Some(1),
        pv: "R:FAR".to_owned(),
        dbf: Dbf::Double,
        count: 1,
        value: Value::Double(2.0),
    };
    let told = vec![
        (SECOND, process(SCAN, -100, 2, 1)),
        (SECOND + 1000, Fact::from(link)),
        (SECOND + 2000, complete(SCAN, -200, 1, 2.0, 0)),
        (20 * SECOND, process(SCAN, -100, 2, 2)),
        (20 * SECOND + 1000, complete(SCAN, -200, 2, 20.0, 0)),
    ];
    write_events(directory.path(), "box", 1, told);
    for format in ["text", "dot"] {
        let log = directory.path().to_str().unwrap();
        let (code, out, err) = outcome(iocreplay(["graph", "--format", format, log]).output().unwrap());
        assert_eq!(code, 0, "{err}");
        assert!(out.contains("R:FAR") && out.contains("IOC not known"), "{out}");
        assert!(!out.contains("not recorded"), "R:FAR is recorded, of IOC second\n{out}");
    }
}
