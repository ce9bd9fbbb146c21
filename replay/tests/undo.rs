//! The script of `undo`: names, values and users that try to be commands stay what they are.

mod common;

use common::{ca_put, complete, process, put as put_of, run, write_events, CLIENT, MS, SECOND};
use iocrec_log::event::*;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A put of a text to a record by a CA client's thread, its old value, and the value that the record has afterwards.
fn put(time: u64, record: u32, old: &str, new: &str) -> Vec<(u64, Fact)> {
    let text = |text: &str| Value::Text(text.as_bytes().to_vec());
    let (thread, field, dbf, count) = (1, Some(50 + record), Dbf::String, 1);
    let outer = Put {
        thread,
        sp: -1000,
        site: 1,
        kind: PutKind::PutField,
        record,
        field,
        dbf,
        count,
        requested: text(new),
        old: Value::Unknown,
    };
    let inner = Put { sp: -1200, site: 0, kind: PutKind::Put, old: text(old), ..outer.clone() };
    let (sp, site, value) = (-1200, 0, text(new));
    let process = Process { thread, sp, site, record, active: false };
    let complete = Complete { thread, sp: -1300, site, record, value, severity: 0, status: 0 };
    vec![
        (time, Fact::from(outer)),
        (time + 1000, Fact::from(inner)),
        (time + 2000, Fact::Process(process)),
        (time + 3000, Fact::Complete(complete)),
    ]
}

/// A log with a put to each of these records: name, old value, new value. Clients are called the same.
fn write(directory: &Path, puts: &[(&str, &str, &str)]) {
    let mut events = Vec::new();
    let user = puts.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(" ");
    events.push((
        MS,
        Fact::from(Circuit {
            id: 9,
            client: Address { ip: 1, port: 1 },
            server: Address { ip: 1, port: 5064 },
            user: user.clone(),
            host: user,
            minor: 13,
            origin: Origin::Opened,
        }),
    ));
    events.push((MS, Fact::ServerThread(ServerThread { thread: 1, circuit: 9 })));
    for (number, (name, old, new)) in (10..).zip(puts) {
        let (id, ioc, rtype) = (number, 1, "stringout".to_owned());
        events.push((
            MS,
            Fact::from(Record { id, ioc, address: 1, name: (*name).into(), rtype: rtype.clone() }),
        ));
        let (id, name) = (50 + number, "VAL".to_owned());
        events.push((MS, Fact::from(Field { id, ioc, rtype, name, dbf: Dbf::String, menu: None })));
        events.extend(put(SECOND + u64::from(number) * MS, number, old, new));
    }
    write_events(directory, "box1", 7, events);
}

/// Stand-ins for caget and caput that keep values in files and write down their arguments.
const CAGET: &str = r#"#!/bin/sh
for pv; do :; done
cat "$STAND/$(printf %s "$pv" | cksum | tr -d ' ').now"
"#;
const CAPUT: &str = r#"#!/bin/sh
printf '<%s>' "$@" >>"$STAND/put"
printf '\n' >>"$STAND/put"
shift 3
cp "$STAND/$(printf %s "$1" | cksum | tr -d ' ').then" "$STAND/$(printf %s "$1" | cksum | tr -d ' ').now"
"#;

fn shell(stand: &Path, arguments: &[&str]) -> Output {
    let path = format!("{}:{}", stand.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(arguments).env("PATH", path).env("STAND", stand).current_dir(stand).output().unwrap()
}

/// The file of a stand-in for this PV.
fn stand_file(stand: &Path, pv: &str, end: &str) -> String {
    let script = "printf %s \"$1\" | cksum | tr -d ' '";
    let name = shell(stand, &["-c", script, "sh", pv]).stdout;
    format!("{}.{end}", String::from_utf8(name).unwrap().trim())
}

/// A script made of the log, and what was said about it.
fn undo(directory: &Path, options: &[&str]) -> (String, String) {
    let arguments = [&["undo", "--since", "2026-01-01", "log", "--utc"], options].concat();
    let (code, script, said) = run(directory, &arguments);
    assert_eq!(code, 0, "{said}");
    (script, said)
}

/// Of a big array the log holds the first elements; the others may have been written.
#[test]
fn an_array_that_is_held_in_part_may_have_changed() {
    let here = tempfile::tempdir().unwrap();
    let array = |held: usize| {
        let bytes = [1.0_f64, 2.0, 3.0].iter().take(held).flat_map(|number| number.to_le_bytes()).collect();
        Value::Array(Array { dbf: Dbf::Double, count: 3, bytes })
    };
    let rtype = || "waveform".to_owned();
    let record = Record { id: 10, ioc: 1, address: 1, name: "T:WF".into(), rtype: rtype() };
    let (name, dbf) = ("VAL".to_owned(), Dbf::NoAccess);
    let field = Field { id: 60, ioc: 1, rtype: rtype(), name, dbf, menu: None };
    let mut events = vec![(MS, Fact::from(record)), (MS, Fact::from(field))];
    for (time, fact) in put(SECOND, 10, "", "") {
        let fact = match fact {
            Fact::Put(put) => {
                let old = if put.kind == PutKind::Put { array(3) } else { Value::Unknown };
                Fact::from(Put { dbf: Dbf::Double, count: 3, requested: array(2), old, ..*put })
            }
            Fact::Complete(complete) => Fact::Complete(Complete { value: array(2), ..complete }),
            other => other,
        };
        events.push((time, fact));
    }
    write_events(&here.path().join("log"), "box1", 7, events);
    let (script, said) = undo(here.path(), &[]);
    let reason = "# not put back: only a part of its value after the put is known";
    assert!(script.contains(reason) && !said.contains("value that they had before"), "{script}{said}");
}

#[test]
fn nothing_in_a_log_becomes_a_command() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    // name, value before, value written; and the last two as caget shows them
    let good = [
        ("T:$(touch${IFS}pwned)", "it's", "`touch pwned`", r"it\'s", "`touch pwned`"),
        (
            "T:;touch${IFS}pwned;",
            "$(touch pwned)",
            "'; touch pwned; '",
            "$(touch pwned)",
            r"\'; touch pwned; \'",
        ),
        ("T:&touch${IFS}pwned&", "a\\b", "two\nlines", r"a\\b", r"two\nlines"),
        ("T:*", "-n", "--yes", "-n", "--yes"),
        ("T:#", " spaces  ", "\u{1b}[2J\u{7}", " spaces  ", r"\x1b[2J\a"),
        ("T:é", "é", "\u{202e}", r"\xc3\xa9", r"\xe2\x80\xae"),
    ];
    let bad =
        ["T:\ntouch pwned\n", "-T", "T A", "T:'touch pwned'", "T:\u{202e}"].map(|name| (name, "x", "y"));
    let puts: Vec<(&str, &str, &str)> =
        good.iter().map(|(name, old, new, ..)| (*name, *old, *new)).chain(bad).collect();
    write(&here.join("log"), &puts);
    let (script, said) = undo(here, &[]);
    for line in script
        .lines()
        .skip_while(|line| !line.starts_with('}') && !line.starts_with("# T:"))
        .filter(|line| line.contains("pwned"))
    {
        assert!(line.starts_with("# ") || line.starts_with("back "), "{line:?}");
    }
    assert_eq!(said.lines().filter(|line| line.contains("is left out")).count(), bad.len(), "{said}");
    assert_eq!(script.lines().filter(|line| line.starts_with("back ")).count(), good.len(), "{script}");
    assert_eq!(
        script.lines().filter(|line| line.starts_with("# not put back: ")).count(),
        bad.len(),
        "{script}"
    );

    let stand = here.join("stand");
    fs::create_dir(&stand).unwrap();
    for (name, text) in [("caget", CAGET), ("caput", CAPUT)] {
        use std::os::unix::fs::PermissionsExt;
        fs::write(stand.join(name), text).unwrap();
        fs::set_permissions(stand.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (name, _, _, old, new) in good {
        fs::write(stand.join(stand_file(&stand, name, "now")), format!("{new}\n")).unwrap();
        fs::write(stand.join(stand_file(&stand, name, "then")), format!("{old}\n")).unwrap();
    }
    fs::write(stand.join("undo.sh"), &script).unwrap();
    assert!(shell(&stand, &["-n", "undo.sh"]).status.success());
    let shown = shell(&stand, &["undo.sh"]);
    assert!(shown.status.success() && !stand.join("put").exists(), "{shown:?}");
    assert_eq!(
        String::from_utf8_lossy(&shown.stdout).lines().filter(|line| line.contains(" -> ")).count(),
        good.len()
    );
    let wrong = shell(&stand, &["undo.sh", "--yes", "more"]);
    assert!(wrong.status.code() == Some(2) && !stand.join("put").exists(), "{wrong:?}");
    let done = shell(&stand, &["undo.sh", "--yes"]);
    assert!(done.status.success(), "{script}\n{done:?}");
    let put = fs::read_to_string(stand.join("put")).unwrap();
    // the newest first, and each argument as caput must get it: with C's escapes, which it decodes
    let expected: String = good
        .iter()
        .rev()
        .map(|(name, old, ..)| format!("<-c><-w><5><{name}><{}>\n", old.replace('\\', "\\\\")))
        .collect();
    assert_eq!(put, expected);
    assert!(!stand.join("pwned").exists() && !here.join("pwned").exists());
}

#[test]
fn what_can_not_be_put_back_is_said() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let long = "x".repeat(40);
    write(
        &here.join("log"),
        &[("T:CUT", &long, "short"), ("T:SAME", "a", "a"), ("T:PLAIN", "before", "after")],
    );
    let (script, said) = undo(here, &[]);
    assert!(said.contains("1 PV has the value that it had before"), "{said}");
    let cut = "T:CUT is left out: its value before the put is not known, or not all of it";
    assert!(said.contains(cut), "{said}");
    assert!(script.contains("back one after before '' T:PLAIN T:PLAIN before"), "{script}");
    let (script, said) = undo(here, &["--pv", "nothing"]);
    assert!(said.contains("no PV or record matches 'nothing'"), "{said}");
    assert!(script.starts_with("#!/bin/sh\n"));
}

/// A put to a long string sees its beginning only. What the record had held all the time is known whole.
#[test]
fn a_long_string_is_put_back_whole() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let (record, rtype, held) = (10, || "lso".to_owned(), "q".repeat(60));
    let value = Value::Text(held.clone().into_bytes());
    let field = Field { id: 60, ioc: 1, rtype: rtype(), name: "VAL".into(), dbf: Dbf::String, menu: None };
    let begun = Process { thread: 3, sp: -100, site: 0, record, active: false };
    let done = Complete { thread: 3, sp: -200, site: 0, record, value, severity: 0, status: 0 };
    let mut events = vec![
        (MS, Fact::from(Record { id: record, ioc: 1, address: 1, name: "T:LONG".into(), rtype: rtype() })),
        (MS, Fact::from(field)),
        (MS, Fact::ServerThread(ServerThread { thread: 1, circuit: 1 })),
        (10 * MS, Fact::Process(begun)),
        (11 * MS, Fact::Complete(done)),
    ];
    events.extend(put(SECOND, record, &held[..40], "abc"));
    write_events(&here.join("log"), "box1", 7, events);
    let (script, said) = undo(here, &[]);
    assert!(!said.contains("left out"), "{said}");
    assert!(script.contains(&held), "{script}");
}

/// The second put finds another value than the first had left: what came between is not known, and not put back.
#[test]
fn what_changed_between_two_puts_is_said() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    for (log, found, is_said) in [("as_left", "b", false), ("changed", "c", true)] {
        let (record, rtype) = (10, || "stringout".to_owned());
        let field =
            Field { id: 60, ioc: 1, rtype: rtype(), name: "VAL".into(), dbf: Dbf::String, menu: None };
        let name = "T:TWICE".to_owned();
        let mut events = vec![
            (MS, Fact::from(Record { id: record, ioc: 1, address: 1, name, rtype: rtype() })),
            (MS, Fact::from(field)),
            (MS, Fact::ServerThread(ServerThread { thread: 1, circuit: 1 })),
        ];
        events.extend(put(SECOND, record, "a", "b"));
        events.extend(put(3 * SECOND, record, found, "d"));
        write_events(&here.join(log), "box1", 7, events);
        let (code, script, said) = run(here, &["undo", "--since", "2026-01-01", log, "--utc"]);
        assert_eq!(code, 0, "{said}");
        assert!(script.contains("back one d a '' T:TWICE T:TWICE a"), "{log}: {script}");
        assert_eq!(script.contains("# it changed between these puts"), is_said, "{log}: {script}");
        let rows = ["undo", "--since", "2026-01-01", log, "--utc", "--format", "jsonl"];
        let (_, row, _) = run(here, &rows);
        assert!(row.contains(&format!("\"changed_between\":{is_said}")), "{log}: {row}");
    }
}

/// Two recorders of a machine tell of the same put, which is one: nothing changed between. The second one's probe was hit after the
/// first one's, and it may not know whose put it is.
#[test]
fn what_two_recorders_saw_is_put_back_once() {
    let (record, rtype) = (10, || "stringout".to_owned());
    for (knows, asked) in [(true, ""), (false, ""), (false, "--user alice")] {
        let here = tempfile::tempdir().unwrap();
        for (name, run, late) in [("one", 7, 0), ("other", 8, 10_000)] {
            let name_of = "T:ONE".to_owned();
            let field =
                Field { id: 60, ioc: 1, rtype: rtype(), name: "VAL".into(), dbf: Dbf::String, menu: None };
            let mut events = vec![
                (MS, Fact::from(Record { id: record, ioc: 1, address: 1, name: name_of, rtype: rtype() })),
                (MS, Fact::from(field)),
            ];
            if knows || name == "one" {
                events.push((MS, Fact::ServerThread(ServerThread { thread: 1, circuit: 1 })));
            }
            events.extend(put(SECOND + late, record, "a", "b"));
            events.extend(put(3 * SECOND + late, record, "b", "d"));
            write_events(&here.path().join(name), "box1", run, events);
        }
        let words = ["undo", "--since", "2026-01-01", "one", "other", "--utc", "--format", "jsonl"];
        let words: Vec<&str> = words.into_iter().chain(asked.split_whitespace()).collect();
        let (code, row, err) = run(here.path(), &words);
        assert!(code == 0 && err.contains("recorded by several recorders"), "{err}");
        assert!(row.contains("\"count\":2") && row.contains("\"changed_between\":false"), "{row}");
        assert!(row.contains("\"from\":\"d\"") && row.contains("\"to\":\"a\""), "{row}");
    }
}

/// A recorder that does not know whose a put is may tell of it before the other one, which began the series with an earlier put.
/// What somebody else really wrote between two puts still ends the series.
#[test]
fn a_put_that_is_told_first_as_nobodys_goes_on_with_the_series() {
    let (record, rtype) = (10, || "stringout".to_owned());
    for other_wrote in [false, true] {
        let here = tempfile::tempdir().unwrap();
        // the first is known to write for alice; the other one sees each later put a moment earlier
        for (name, run, early) in [("one", 7, 0), ("other", 8, 10_000)] {
            let name_of = "T:ONE".to_owned();
            let field =
                Field { id: 60, ioc: 1, rtype: rtype(), name: "VAL".into(), dbf: Dbf::String, menu: None };
            let mut events = vec![
                (MS, Fact::from(Record { id: record, ioc: 1, address: 1, name: name_of, rtype: rtype() })),
                (MS, Fact::from(field)),
            ];
            if name == "one" {
                events.push((MS, Fact::ServerThread(ServerThread { thread: 1, circuit: 1 })));
            }
            events.extend(put(SECOND - early, record, "a", "b"));
            let found = if other_wrote { "c" } else { "b" };
            if other_wrote {
                let by_nobody = |(time, fact): (u64, Fact)| match fact {
                    Fact::Put(put) => (time, Fact::from(Put { thread: 3, ..*put })),
                    Fact::Process(process) => (time, Fact::Process(Process { thread: 3, ..process })),
                    Fact::Complete(done) => (time, Fact::Complete(Complete { thread: 3, ..done })),
                    fact => (time, fact),
                };
                events.extend(put(2 * SECOND - early, record, "b", "c").into_iter().map(by_nobody));
            }
            events.extend(put(3 * SECOND - early, record, found, "d"));
            write_events(&here.path().join(name), "box1", run, events);
        }
        let words = ["undo", "--since", "2026-01-01", "one", "other", "--utc", "--format", "jsonl"];
        let words: Vec<&str> = words.into_iter().chain(["--user", "alice"]).collect();
        let (code, row, err) = run(here.path(), &words);
        assert!(code == 0, "{err}");
        let (count, to) = if other_wrote { (1, "c") } else { (2, "a") };
        assert!(row.contains(&format!("\"count\":{count}")), "{other_wrote}: {row}");
        assert!(row.contains("\"from\":\"d\"") && row.contains(&format!("\"to\":\"{to}\"")), "{row}");
        // whose it is one of them knows
        let words = ["undo", "--since", "2026-01-01", "one", "other", "--utc", "--format", "jsonl"];
        let (_, row, _) = run(here.path(), &words);
        let row: serde_json::Value = serde_json::from_str(row.trim()).unwrap();
        assert!(row["by"].as_str().is_some_and(|by| by.contains("alice")), "{row}");
    }
}

/// On a loaded machine the IOC reads a message long after it came, and others have come by then. One recorder saw them, the other one the
/// IOC's function alone.
#[test]
fn a_put_whose_message_came_long_before_is_put_back_once() {
    for second in [3 * SECOND, SECOND + 10 * MS] {
        let here = tempfile::tempdir().unwrap();
        for (name, run) in [("packets", 7), ("probes", 8)] {
            let mut events = Vec::new();
            let mut put_at = |time: u64, ioid: u32, old: f64, new: f64| {
                if name == "packets" {
                    events.push((time, ca_put(1, 1, false, ioid, new)));
                }
                let later = time + 40 * MS;
                let (outer, inner) = (-1000, -1100);
                let call = |kind, sp, site| put_of(kind, CLIENT, sp, site, (1, 1), old, new);
                events.push((later, call(PutKind::PutField, outer, 1)));
                events.push((later + 1000, call(PutKind::Put, inner, 0)));
                events.push((later + 2000, process(CLIENT, inner, 0, 1)));
                events.push((later + 3000, complete(CLIENT, -1200, 1, new, 0)));
            };
            put_at(SECOND, 1, 1.0, 2.0);
            put_at(second, 2, 2.0, 3.0);
            events.sort_by_key(|(time, _)| *time);
            write_events(&here.path().join(name), "box1", run, events);
        }
        let words = ["undo", "--since", "2026-01-01", "packets", "probes", "--utc", "--format", "jsonl"];
        let (code, row, err) = run(here.path(), &words);
        assert!(code == 0, "{err}");
        assert!(row.contains("\"count\":2") && row.contains("\"changed_between\":false"), "{second}: {row}");
        assert!(row.contains("\"from\":3") && row.contains("\"to\":1"), "{second}: {row}");
    }
}

/// The end of processing shows the beginning of a long text, which is no other than the whole.
#[test]
fn a_long_string_that_is_read_whole_has_not_changed() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let (record, rtype) = (10, || "lso".to_owned());
    let field = Field { id: 60, ioc: 1, rtype: rtype(), name: "VAL".into(), dbf: Dbf::String, menu: None };
    let value = Value::Text(vec![b'q'; 300]);
    let mut events = vec![
        (MS, Fact::from(Record { id: record, ioc: 1, address: 1, name: "T:LONG".into(), rtype: rtype() })),
        (MS, Fact::from(field)),
        (MS, Fact::ServerThread(ServerThread { thread: 1, circuit: 1 })),
    ];
    events.extend(put(SECOND, record, "before", &"q".repeat(152)));
    events
        .push((5 * SECOND, Fact::Snapshot(Snapshot { record, value, severity: 0, status: 0, stamp: None })));
    write_events(&here.join("log"), "box1", 7, events);
    let (script, said) = undo(here, &[]);
    assert!(!said.contains("changed again"), "{said}");
    assert!(script.contains("only a part of its value after the put is known"), "{script}{said}");
}

/// What was written before the log begins may be much: the segments that held it are gone.
#[test]
fn a_time_before_the_log_is_not_said_to_be_undone() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    write(&here.join("log"), &[("T:PLAIN", "before", "after")]);
    let (script, said) = undo(here, &[]);
    let begin = "the log begins at 2026-09-21T14:13:20.000+00:00";
    assert!(said.contains(&format!("{begin}: what was written before is not undone")), "{said}");
    assert!(script.contains(&format!("since 2026-01-01T00:00:00.000+00:00 ({begin})")), "{script}");
    let (code, script, said) = run(here, &["undo", "--since", "2026-09-21T14:13:20Z", "log", "--utc"]);
    assert!(code == 0 && !said.contains("begins") && !script.contains("begins"), "{said}{script}");
}
