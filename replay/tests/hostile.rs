//! Text from outside does no harm where it is printed: a log with control characters in every text of every fact, and
//! names of files and words on the command line that have them too, through every command and every format.

mod common;

use common::every::every;
use common::{happenings, outcome, run, segments, write_events, MS, SECOND};
use iocrec_log::escape::is_unsafe;
use iocrec_log::event::*;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

/// Everything that must not reach a terminal, and things that may; it tries to be a line of the put log.
const HOSTILE: &str = "x\r\n2026-09-21T14:13:21.000000+00:00  FORGED  1 -> 2  by root@console\u{1b}[2J\u{1b}]0;t\u{7}\0\u{8}\t\
                       \u{b}\u{c}\u{e}\u{1f}\u{7f}\u{80}\u{85}\u{9b}2J\u{9f}\u{ad}\u{61c}\u{200b}\u{200e}\u{200f}\u{2028}\u{2029}\
                       \u{202a}\u{202e}\u{2060}\u{2066}\u{2069}\u{feff}\u{fff9}\u{e0041}\u{ffff}\"\\'<é µ °C 電流";

fn hostile(name: &str) -> String {
    format!("{name}{HOSTILE}")
}

/// What can be a record's name, and a word on the command line.
fn name_of(name: &str) -> String {
    hostile(name).replace(['\0', '.'], "")
}

/// No byte that a terminal obeys, and lines only where they are ours.
fn is_harmless(what: &[&str], text: &str) {
    for line in text.lines() {
        if let Some(letter) = line.chars().find(|&letter| is_unsafe(letter)) {
            panic!("{what:?}: {letter:?} in {line:?}");
        }
        assert!(
            !line.trim_start().starts_with("2026-09-21T14:13:21.000000+00:00  FORGED"),
            "{what:?}: {line}"
        );
    }
}

/// The definitions of common's log once more, with such texts.
fn definitions() -> Vec<Fact> {
    let ioc = |id, port| Ioc {
        id,
        pid: 100 * id,
        start: SECOND,
        name: hostile("ioc"),
        exe: hostile("/opt/exe"),
        cwd: hostile("/cwd"),
        command: vec![hostile("command"), hostile("argument")],
        base_version: hostile("7.0"),
        ca_ports: vec![port],
        linkage: Linkage::Shared,
        not_probed: vec![hostile("reason")],
        user: hostile("user"),
        pva_ports: vec![5075],
        environment: vec![(hostile("TOP"), hostile("value"))],
    };
    let thread = |id, ioc, name: &str| {
        Fact::Thread(Thread { id, ioc, tid: 1000 + id, name: hostile(name), stack: 1 << 40 })
    };
    let record = |id, ioc, name: &str| {
        Fact::from(Record { id, ioc, address: 4096, name: name_of(name), rtype: hostile("ao") })
    };
    let circuit = |id, port| {
        Fact::from(Circuit {
            id,
            client: Address::new(Ipv4Addr::new(10, 0, 0, 5), 41_000),
            server: Address::new(Ipv4Addr::new(10, 0, 0, 9), port),
            user: hostile("alice"),
            host: hostile("console"),
            minor: 13,
            origin: Origin::Opened,
        })
    };
    let channel = |id, circuit, pv: &str| {
        let (cid, sid, dbr, count) = (Some(id), Some(id), Some(6), Some(1));
        Fact::from(Channel { id, circuit, cid, sid, pv: hostile(pv), dbr, count, origin: Origin::Opened })
    };
    let field = |id, name: &str, dbf, menu| {
        Fact::from(Field { id, ioc: 1, rtype: hostile("ao"), name: hostile(name), dbf, menu })
    };
    let site =
        |id| Fact::from(CallSite { id, ioc: 1, address: 1, function: hostile("f"), module: hostile("m") });
    let mut facts = vec![
        Fact::Tier(TierChoice { tier: Tier::Perf, refused: vec![(Tier::Ring, hostile("refused"))] }),
        Fact::ChainSampling(ChainSampling { chains: 3, window: SECOND, cause: hostile("thinned") }),
        Fact::from(ioc(1, 5064)),
        Fact::from(ioc(2, 5066)),
        Fact::Alias(Alias { record: 1, name: hostile("alias") }),
        Fact::EnumStrings(EnumStrings {
            record: 1,
            states: vec![hostile("off"), hostile("on"), hostile("third")],
        }),
        Fact::Menu(Menu {
            id: 1,
            ioc: 1,
            name: hostile("menu"),
            choices: vec![hostile("a"), hostile("b"), hostile("c")],
        }),
        Fact::ScanList(ScanList {
            id: 1,
            ioc: 1,
            kind: ScanKind::Event,
            name: hostile("event"),
            callback: 9,
        }),
        Fact::RecordScan(RecordScan { record: 2, list: Some(1) }),
    ];
    facts.extend([
        thread(1, 1, "CAS-client"),
        thread(2, 2, "CAS-client"),
        thread(3, 1, "odd"),
        thread(4, 1, "cbLow"),
    ]);
    facts.extend([
        record(1, 1, "T:SP"),
        record(2, 1, "T:CALC"),
        record(3, 1, "T:SLOW"),
        record(4, 2, "R:FAR"),
    ]);
    facts.extend([
        field(1, "VAL", Dbf::Menu, Some(1)),
        field(2, "A", Dbf::Double, None),
        field(3, "F", Dbf::Double, None),
    ]);
    facts.extend([site(1), site(2), site(3), circuit(1, 5064), circuit(2, 5066)]);
    facts.extend([channel(1, 1, "T:SP"), channel(2, 2, "R:FAR"), channel(3, 1, "T:CALC.A")]);
    facts
}

/// A log with all of that, in a directory with such a name.
fn write_hostile(directory: &Path) {
    let text = || {
        Value::Text(
            HOSTILE.as_bytes().iter().copied().filter(|byte| *byte != 0).chain([0xff, 0x9b]).collect(),
        )
    };
    let place = |sp| (1, sp, 1);
    let mut facts: Vec<(u64, Fact)> = definitions().into_iter().map(|fact| (MS, fact)).collect();
    facts.extend(happenings());
    let mut time = 5 * SECOND;
    let mut tell = |fact| {
        time += MS;
        facts.push((time, fact));
    };
    let (thread, sp, site) = place(-1000);
    let put = |kind, requested, old| {
        Fact::from(Put {
            thread,
            sp,
            site,
            kind,
            record: 1,
            field: Some(1),
            dbf: Dbf::String,
            count: 1,
            requested,
            old,
        })
    };
    tell(put(PutKind::PutField, text(), text()));
    let payload = HOSTILE.as_bytes()[..39].to_vec();
    let length = payload.len() as u32;
    tell(Fact::CaPut(CaPut {
        circuit: 1,
        channel: 1,
        notify: true,
        dbr: 0,
        count: 1,
        ioid: 9,
        length,
        payload,
    }));
    tell(Fact::CaAnswer(CaAnswer {
        circuit: 1,
        ioid: 9,
        notify: true,
        status: 0xffff,
        text: hostile("error"),
    }));
    tell(Fact::Process(Process { thread, sp, site, record: 1, active: false }));
    let (dbf, count, pv) = (Dbf::String, 1, hostile("R:FAR"));
    tell(Fact::from(CaLinkPut { thread, sp: sp - 10, site, record: Some(1), pv, dbf, count, value: text() }));
    tell(Fact::Complete(Complete {
        thread,
        sp: sp - 20,
        site,
        record: 1,
        value: text(),
        severity: 99,
        status: 99,
    }));
    let source = LossSource::Names;
    tell(Fact::Loss(Loss { source, count: 1, since: SECOND, cause: hostile("cause") }));
    tell(Fact::Mark(hostile("mark")));
    tell(Fact::Pinned(Pinned { from: SECOND, to: 2 * SECOND, cause: hostile("pin") }));
    tell(Fact::IocEnd(IocEnd { ioc: 2, how: hostile("killed") }));
    write_events(directory, &hostile("host"), 7, facts);
}

/// Every command in every format, on a log.
fn commands(log: &str) -> Vec<Vec<String>> {
    let pv = name_of("T:SP");
    let mut all: Vec<Vec<String>> = Vec::new();
    for command in [
        "info",
        "info --json",
        "verify",
        "verify --json",
        "puts",
        "puts --all",
        "puts --all --format jsonl",
        "puts --updates",
        "traces",
        "traces --format otlp",
        "logs",
        "logs --format otlp",
        "iocs",
        "iocs --json",
        "records",
        "records --json",
    ] {
        let words = command
            .split(' ')
            .chain([log, "--utc"])
            .filter(|word| *word != "--utc" || !command.starts_with("records"));
        all.push(words.map(String::from).collect());
    }
    for json in [None, Some("--json")] {
        all.push(["why", &pv, log].into_iter().chain(json).map(String::from).collect());
    }
    for format in ["text", "jsonl", "csv"] {
        all.push(["values", "*", log, "--utc", "--format", format].map(String::from).to_vec());
        let (first, second) = ("2026-09-21T14:13:20.5", "2026-09-21T14:13:26");
        all.push(["at", second, log, "--utc", "--format", format].map(String::from).to_vec());
        all.push(["diff", first, second, log, "--utc", "--format", format].map(String::from).to_vec());
    }
    all
}

#[test]
fn every_text_of_every_fact_in_every_output() {
    let here = tempfile::tempdir().unwrap();
    write_hostile(&here.path().join("log"));
    for words in commands("log") {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (code, out, err) = run(here.path(), &words);
        // what is not known of the values is counted there
        let counts = err.is_empty() || ["at", "diff"].contains(&words[0]) && err.contains(" PVs ");
        assert!(code == 0 && counts, "{words:?}: {code} {err}");
        is_harmless(&words, &out);
        is_harmless(&words, &err);
        assert!(out.lines().count() > 0 && !out.contains('\r'), "{words:?}");
        // JSON is JSON, and says exactly what the log does.
        let json: Vec<serde_json::Value> =
            match words.iter().any(|word| ["--json", "jsonl", "otlp"].contains(word)) {
                false => continue,
                true => serde_json::Deserializer::from_str(&out).into_iter().map(Result::unwrap).collect(),
            };
        let text = serde_json::to_string(&json).unwrap();
        let known = [HOSTILE.to_owned(), name_of("")].map(|known| serde_json::to_string(&known).unwrap());
        let is_there = known.iter().any(|known| text.contains(known.get(1..known.len() - 1).unwrap()));
        assert!(is_there || words[0] == "verify", "{words:?}: {out}");
    }
    // Nothing is left out of what people read either.
    let (_, out, _) = run(here.path(), &["puts", "log", "--utc"]);
    assert!(out.contains(r"\x1b[2J\x1b]0;t\x07\x00\x08\t\x0b\x0c\x0e\x1f\x7f\u{80}\u{85}\u{9b}2J"), "{out}");
    assert!(
        out.contains(r#"\u{202e}\u{2060}\u{2066}\u{2069}\u{feff}\u{fff9}\u{e0041}\u{ffff}"\'<é µ °C 電流"#),
        "{out}"
    );
    assert!(out.contains(r"\xff\x9b"), "bytes that are no text: {out}");
}

/// Every command that there is, in each of its formats.
#[test]
fn every_command_shows_hostile_texts_harmlessly() {
    let here = tempfile::tempdir().unwrap();
    write_hostile(&here.path().join("log"));
    for pv in [name_of("T:SP"), "*".to_owned()] {
        for words in every("log", &pv, "2026-09-21T14:13:22Z") {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let (code, out, err) = run(here.path(), &words);
            assert!(code == 0 || code == 1, "{words:?}: {code} {err}");
            if !common::is_binary(&words) {
                is_harmless(&words, &out);
            }
            is_harmless(&words, &err);
            // an empty answer says why
            assert!(!out.is_empty() || !err.is_empty(), "{words:?}");
        }
    }
}

#[test]
fn words_and_paths_in_every_error() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    // a file's name can't have a NUL or a slash in it, nor be long
    let name = "log\r\n\u{1b}[2J\u{202e}\u{2028}\u{9b}";
    write_hostile(&here.join(name));
    let segment = segments(&here.join(name)).remove(0);
    let bytes = fs::read(&segment).unwrap();
    fs::write(here.join(name).join(format!("{name}.iocrec")), "no log").unwrap();
    fs::write(&segment, &bytes[..bytes.len() - 30]).unwrap();
    let hostile = HOSTILE.replace('\0', "");
    let hostile = hostile.as_str();
    let cut = format!("{name}/{}", segment.file_name().unwrap().to_str().unwrap());
    let lists: [&[&str]; 17] = [
        &[hostile],
        &["puts", hostile],
        &["puts", "--format", hostile, name],
        &["puts", "--since", hostile, name],
        &["puts", "--pv", hostile, name],
        &["puts", "--ioc", hostile, name],
        &["records", "--host", hostile, name],
        &["puts", hostile, name, "-o", hostile],
        &["puts", name, "-o", &cut],
        &["traces", &cut],
        &["puts", "--wrong\u{1b}[2J\n", name],
        &["info", name],
        &["verify", name],
        &["verify", "--json", name],
        &["why", "T:SPx", name],
        &["why", name, hostile],
        &["why", "T:SP\n\u{1b}[2J", name],
    ];
    for words in lists {
        let (code, out, err) = run(here, words);
        is_harmless(words, &out);
        is_harmless(words, &err);
        assert!(code != 0 || !err.is_empty(), "{words:?}: {out}");
        assert!(err.lines().all(|line| line.starts_with("iocreplay: ")), "{words:?}: {err}");
    }
    let mut bad = common::iocreplay(["puts", name]);
    bad.current_dir(here).env("TZ", "Nowhere\n\u{1b}[2J");
    let (_, _, err) = outcome(bad.output().unwrap());
    is_harmless(&["TZ"], &err);
    assert!(err.contains(r"TZ=Nowhere\n\x1b[2J names no time zone"), "{err}");
}
