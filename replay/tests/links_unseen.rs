//! Links whose other end no circuit of the log shows, such as links by way of a gateway.

mod common;

use common::{complete, iocreplay, outcome, process, run, write_events, SCAN, SECOND};
use iocrec_log::event::*;

/// A record that writes to this PV by a CA link.
fn told(pv: &str) -> Vec<(u64, Fact)> {
    let link = CaLinkPut {
        thread: SCAN,
        sp: -500,
        site: 0,
        record: Some(1),
        pv: pv.to_owned(),
        dbf: Dbf::Double,
        count: 1,
        value: Value::Double(2.0),
    };
    vec![
        (SECOND, process(SCAN, -100, 2, 1)),
        (SECOND + 1000, Fact::from(link)),
        (SECOND + 2000, complete(SCAN, -200, 1, 2.0, 0)),
        (20 * SECOND, process(SCAN, -100, 2, 2)),
        (20 * SECOND + 1000, complete(SCAN, -200, 2, 20.0, 0)),
    ]
}

/// The record behind the link is in another recorded IOC, or may be in some other one of that name.
#[test]
fn the_ioc_behind_a_link_that_was_not_followed_is_not_known() {
    let directory = tempfile::tempdir().unwrap();
    write_events(directory.path(), "box", 1, told("R:FAR"));
    for format in ["text", "dot"] {
        let log = directory.path().to_str().unwrap();
        let (code, out, err) = outcome(iocreplay(["graph", "--format", format, log]).output().unwrap());
        assert_eq!(code, 0, "{err}");
        assert!(out.contains("R:FAR") && out.contains("IOC not known"), "{out}");
        assert!(!out.contains("not recorded"), "R:FAR is recorded, of IOC second\n{out}");
    }
}

/// A PV that only the link names is in the log all the same.
#[test]
fn what_only_a_link_names_is_not_denied() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    write_events(&here.join("log"), "box", 1, told("X:ELSEWHERE"));
    let said = |words: &[&str]| {
        let (code, out, err) = run(here, words);
        assert_eq!(code, 0, "{words:?}: {err}");
        (out, err)
    };
    let (out, err) = said(&["traces", "log", "--pv", "X:ELSEWHERE"]);
    assert!(out.contains("to X:ELSEWHERE") && !err.contains("no PV"), "{out}{err}");
    for (pv, is_there) in [("X:ELSEWHERE*", true), ("X:NOWHERE", false)] {
        let (tables, page) = (format!("{is_there}"), format!("{is_there}.html"));
        for words in [&["report", "log", "-o", &page][..], &["export", "log", "--csv", &tables]] {
            let (_, err) = said(&[words, &["--pv", pv]].concat());
            let denied = format!("no PV or record matches '{pv}'");
            assert_eq!(err.contains(&denied), !is_there, "{words:?}: {err}");
        }
    }
}
