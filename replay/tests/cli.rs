//! The program as a user meets it: outputs, exit codes, and the line for every error.

mod common;
#[path = "../../tests/rig/not_run.rs"]
mod not_run;

use common::{happenings, iocreplay, outcome, run, segments, write_events, write_log, write_set, MS, SECOND};
use not_run::{not_run, Needs};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tempfile::TempDir;

/// A directory with a log in `log`.
fn logged() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    write_log(&directory.path().join("log"), "box1", 7);
    directory
}

/// One line on stderr with all of these in it, nothing on stdout, and the exit code.
fn fails(directory: &Path, arguments: &[&str], code: i32, parts: &[&str]) {
    let (got, out, err) = run(directory, arguments);
    assert_eq!((got, out.as_str()), (code, ""), "{arguments:?}: {err}");
    assert_eq!(err.lines().count(), 1, "{arguments:?}: {err}");
    assert!(err.starts_with("iocreplay: "), "{err}");
    for part in parts {
        assert!(err.contains(part), "{arguments:?}: '{part}' is not in: {err}");
    }
}

fn works(directory: &Path, arguments: &[&str]) -> String {
    works_with(directory, arguments, 1)
}

/// The same with the logs of so many hosts, which share no circuit.
fn works_with(directory: &Path, arguments: &[&str], hosts: usize) -> String {
    let (code, out, err) = run(directory, arguments);
    assert_eq!(code, 0, "{arguments:?}: {err}");
    assert!(common::only_clocks_are_unknown(&err, hosts), "{arguments:?}: {err}");
    out
}

#[test]
fn help_on_every_level() {
    let here = tempfile::tempdir().unwrap();
    for (arguments, part) in [
        (vec!["--help"], "puts"),
        (vec!["info", "--help"], "--json"),
        (vec!["puts", "--help"], "jsonl"),
        (vec!["traces", "--help"], "otlp"),
        (vec!["why", "--help"], "--at"),
        (vec!["values", "--help"], "jsonl"),
        (vec!["verify", "--help"], "csv"),
    ] {
        let out = works(here.path(), &arguments);
        assert!(out.contains(part), "{arguments:?}: {out}");
    }
}

#[test]
fn bad_usage_is_exit_code_2() {
    let directory = logged();
    let here = directory.path();
    fails(here, &[], 2, &["no command", "info verify puts traces why", "see iocreplay --help"]);
    fails(here, &["fly"], 2, &["there is no command 'fly'; see iocreplay --help"]);
    fails(here, &["--wrong"], 2, &["--wrong; see iocreplay --help"]);
    fails(here, &["puts"], 2, &["no LOG", "iocreplay puts LOG"]);
    fails(here, &["why"], 2, &["pv"]);
    fails(here, &["why", "T:SP"], 2, &["no LOG", "iocreplay why PV LOG"]);
    fails(here, &["values"], 2, &["pv"]);
    fails(here, &["values", "T:SP"], 2, &["no LOG", "iocreplay values PV... LOG..."]);
    fails(here, &["values", "log", "T:SP"], 2, &["log is a log", "iocreplay values T:SP log"]);
    fails(here, &["values", "T:SP", "log", "logg"], 2, &["logg is neither a log", "before log"]);
    fails(here, &["last", "log", "demo"], 2, &["nor an IOC before the logs"]);
    fails(
        here,
        &["at", "log", "-15s"],
        2,
        &["log is a log; the time comes before it: iocreplay at TIME log"],
    );
    fails(here, &["diff", "-15s", "log", "-5s"], 2, &["log is a log", "iocreplay diff TIME TIME log"]);
    fails(here, &["values", "T:SP", "log", "--plot", "--follow"], 2, &["leave them or --follow out"]);
    fails(
        here,
        &["values", "T:SP", "log", "--svg", "x", "--format", "csv"],
        2,
        &["leave them or --format out"],
    );
    fails(here, &["puts", "--wrong", "log"], 2, &["--wrong; see iocreplay puts --help"]);
    fails(here, &["puts", "--since=-10s", "log"], 2, &["; write --since -10s; see iocreplay puts --help"]);
    fails(here, &["puts", "--format", "xml", "log"], 2, &["xml", "text, jsonl, csv"]);
    // in other words than those of the parser
    let twice = "'--since' with value '-2m': the option is there twice; leave one of them out; see iocreplay";
    fails(here, &["puts", "--since", "-1m", "--since", "-2m", "log"], 2, &[twice]);
    fails(
        here,
        &["puts", "log", "--pv"],
        2,
        &["No value provided for option '--pv'; see iocreplay puts --help"],
    );
    for (rows, says) in
        [("-5", "no whole number"), ("", "no whole number"), ("99999999999999999999", "too large")]
    {
        fails(
            here,
            &["top", "-n", rows, "log"],
            2,
            &[&format!("'-n' with value '{rows}': "), says, "write one like 10"],
        );
    }
    fails(here, &["puts", ""], 2, &["LOG is an empty name; name a segment, or a directory of segments"]);
    // what another format has, is not passed over
    for (option, value, format, of) in [
        ("--level", "1", "text", "caputlog and caputlog-json"),
        ("--burst", "1s", "csv", "caputlog and caputlog-json"),
        ("--prefix", "x", "caput", "caputlog and caputlog-json"),
        ("--metadata", "a=b", "caputlog", "caputlog-json"),
    ] {
        let told = format!("{option} is for --format {of} alone");
        fails(here, &["puts", option, value, "--format", format, "log"], 2, &[&told]);
    }
    fails(here, &["puts", "--timing", "log"], 2, &["--timing is for --format caput alone"]);
    let caputlog = ["puts", "--updates", "--format", "caputlog", "log"];
    fails(here, &caputlog, 2, &["--updates is for --format text and jsonl and csv alone"]);
    fails(here, &["puts", "--updates", "--follow", "log"], 2, &["leave out --follow, or --updates"]);
    // a script without its end would write nothing
    let followed = ["puts", "--format", "caput", "--follow", "log"];
    fails(here, &followed, 2, &["has an end", "leave out --follow, or use --format text"]);
    fails(
        here,
        &["traces", "--format", "xml", "log"],
        2,
        &["xml", "otlp-proto, otlp-proto-delimited, zipkin, perfetto, jsonl or csv"],
    );
    fails(here, &["puts", "--since", "tomorrow", "log"], 2, &["tomorrow", "2026-01-31T12:00:00"]);
    fails(here, &["traces", "--until", "x", "log"], 2, &["'x' is not a time"]);
    fails(here, &["why", "T:SP", "log", "--at", "x"], 2, &["'x' is not a time"]);
}

#[test]
fn logs_that_are_none() {
    let directory = logged();
    let here = directory.path();
    fs::write(here.join("empty.iocrec"), "").unwrap();
    fs::write(
        here.join("foreign.iocrec"),
        "not a log, but long enough to be looked at by a reader\n".repeat(9),
    )
    .unwrap();
    let whole = fs::read(&segments(&here.join("log"))[0]).unwrap();
    fs::write(here.join("stub.iocrec"), &whole[..30]).unwrap();
    fs::create_dir(here.join("nothing")).unwrap();
    for command in ["info", "puts", "traces"] {
        fails(here, &[command, "missing"], 1, &["missing does not exist", "name a segment"]);
        fails(here, &[command, "empty.iocrec"], 1, &["empty.iocrec is empty", "try the other segments"]);
        fails(here, &[command, "foreign.iocrec"], 1, &["foreign.iocrec is not an iocrec segment"]);
        fails(here, &[command, "stub.iocrec"], 1, &["stub.iocrec is cut off", "copy it again"]);
        fails(here, &[command, "nothing"], 1, &["nothing holds no segments"]);
    }
    fails(here, &["why", "T:SP", "missing"], 1, &["missing does not exist"]);
}

/// What can be read is read, whatever else is named.
#[test]
fn one_log_of_two_is_missing() {
    let directory = logged();
    let (code, out, err) = run(directory.path(), &["puts", "missing", "log"]);
    assert_eq!((code, out.lines().count(), err.lines().count()), (1, 3, 1), "{out}{err}");
}

#[test]
fn a_log_that_is_cut() {
    let directory = logged();
    let here = directory.path();
    let file = &segments(&here.join("log"))[0];
    let whole = fs::read(file).unwrap();
    fs::write(file, &whole[..whole.len() - 200]).unwrap();
    let (code, out, err) = run(here, &["traces", "log"]);
    assert_eq!((code, err.lines().count()), (1, 1), "{err}");
    assert!(err.contains("is cut") && err.contains("all before is read"), "{err}");
    assert!(out.contains("T:SP"), "{out}");
}

#[test]
fn a_damaged_block_costs_itself() {
    let directory = logged();
    let here = directory.path();
    let file = &segments(&here.join("log"))[0];
    let mut bytes = fs::read(file).unwrap();
    let place = bytes.len() - 200;
    bytes[place] ^= 0x10;
    fs::write(file, bytes).unwrap();
    let (code, out, err) = run(here, &["traces", "log"]);
    assert_eq!((code, err.lines().count()), (1, 1), "{err}");
    assert!(err.contains("is damaged at byte") && err.contains("the rest is read"), "{err}");
    assert!(out.contains("T:SP"), "{out}");
    let (code, out, _) = run(here, &["info", "log"]);
    assert!(code == 1 && out.contains("\ndamage    "), "{out}");
}

/// Puts at a steady pace, of values that don't compress, for several segments.
fn many_puts(directory: &Path, pace: u64) -> Vec<PathBuf> {
    many_puts_set(directory, pace, 0)
}

/// The same on a machine whose clock was set at a monotonic time.
fn many_puts_set(directory: &Path, pace: u64, set: u64) -> Vec<PathBuf> {
    let mut state = 1_u64;
    let mut facts = Vec::new();
    for n in 0..30_000_u64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let v = f64::from_bits(state >> 2);
        let put = iocrec_log::event::CaPut {
            circuit: 1,
            channel: 1,
            notify: false,
            dbr: 6,
            count: 1,
            ioid: 1,
            length: 8,
            payload: v.to_be_bytes().to_vec(),
        };
        facts.push((SECOND + n * pace, iocrec_log::event::Fact::CaPut(put)));
    }
    write_set(directory, "box1", 7, facts, set);
    let files = segments(directory);
    assert!(files.len() >= 4, "{}", files.len());
    files
}

#[test]
fn segments_that_are_missing() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let files = many_puts(&here.join("log"), MS);
    let all = works(here, &["puts", "log"]).lines().count();
    assert_eq!(all, 30_000);
    fs::remove_file(&files[1]).unwrap();
    let (code, out, err) = run(here, &["puts", "log"]);
    assert_eq!((code, err.lines().count()), (0, 1), "{err}");
    assert!(err.contains("1 segment of its run is missing"), "{err}");
    let rest = out.lines().count();
    assert!(rest < all && rest > all / 2, "{rest} of {all}");
    // The oldest are gone when the recorder has kept to its cap: nothing to be said.
    fs::remove_file(&files[0]).unwrap();
    assert_eq!(run(here, &["puts", "log"]).0, 0);
    assert_eq!(run(here, &["puts", "log"]).2, "");
    // What is there is sound, and what is not there is said.
    let begins = works(here, &["info", "log"]);
    assert!(
        begins.contains("the first 2 of the run are not here: deleted to make room, or not copied"),
        "{begins}"
    );
    let verdict = works(here, &["verify", "log"]);
    assert!(
        verdict.starts_with("sound ") && verdict.contains("its first 2 segments were deleted"),
        "{verdict}"
    );
    // It may be one of those that nothing can be read of.
    fs::write(&files[0], "no segment").unwrap();
    let (_, verdict, _) = run(here, &["verify", "log"]);
    assert!(
        verdict.contains(" deleted to stay under the cap, or not copied, or can't be read\n"),
        "{verdict}"
    );
    fs::remove_file(&files[0]).unwrap();
    // Out of the middle of a run, a segment is read alone.
    let alone = works(here, &["puts", files[2].to_str().unwrap()]);
    assert!(alone.lines().count() > 1000 && alone.contains("alice@console3"), "{alone}");
}

/// Blocks that are gone from the end of a file in the middle of a run are missed.
#[test]
fn a_segment_cut_between_two_blocks() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let files = many_puts(&here.join("log"), MS);
    let whole = fs::read(&files[1]).unwrap();
    let mut segment = iocrec_log::reader::Segment::open(&files[1]).unwrap();
    let blocks: Vec<_> = std::iter::from_fn(|| segment.next_block()).map(Result::unwrap).collect();
    let middle = &blocks[blocks.len() / 2];
    fs::write(&files[1], &whole[..middle.offset as usize]).unwrap();
    let (code, out, err) = run(here, &["puts", "log"]);
    assert_eq!((code, err.lines().count()), (1, 1), "{err}");
    assert!(err.contains("blocks are missing at the end of the segment before"), "{err}");
    let gone: usize = blocks.iter().skip(blocks.len() / 2).map(|block| block.events.len()).sum();
    assert_eq!(out.lines().count(), 30_000 - (gone - 1)); // the last says that the segment ends

    let (code, out, _) = run(here, &["verify", "log", "--utc"]);
    assert_eq!((code, out.lines().count()), (1, 2), "{out}");
    let gone = format!("; {} blocks gone; from 2026-09-21T14:13:", blocks.len() - blocks.len() / 2);
    assert!(out.contains("1.iocrec: blocks are missing at its end") && out.contains(&gone), "{out}");
}

#[test]
fn the_output_can_go_to_a_file_or_nowhere() {
    let directory = logged();
    let here = directory.path();
    let out = works(here, &["puts", "log"]);
    assert_eq!(works(here, &["puts", "log", "-o", "puts.txt"]), "");
    assert_eq!(fs::read_to_string(here.join("puts.txt")).unwrap(), out);
    fails(
        here,
        &["puts", "log", "-o", "no/such/file"],
        1,
        &["can't write no/such/file", "name another file"],
    );
    let segment = segments(&here.join("log")).remove(0);
    let before = fs::read(&segment).unwrap();
    fails(here, &["puts", "log", "-o", segment.to_str().unwrap()], 2, &["would overwrite a log"]);
    assert_eq!(fs::read(&segment).unwrap(), before);
    if Path::new("/dev/full").exists() {
        fails(here, &["puts", "log", "-o", "/dev/full"], 1, &["can't write /dev/full"]);
    }
}

/// gzip itself reads what is written to a file of that name; a failure leaves the old one as it was.
#[test]
fn a_file_named_gz_is_packed() {
    let directory = logged();
    let here = directory.path();
    for (arguments, file) in [
        (&["puts", "log"][..], "puts.gz"),
        (&["traces", "log", "--format", "otlp"], "traces.jsonl.gz"),
        (&["traces", "log", "--format", "perfetto"], "traces.perfetto.gz"),
        (&["puts", "log", "--ioc", "nobody"], "empty.gz"),
    ] {
        fs::write(here.join(file), "of yesterday").unwrap();
        let plain = [arguments, &["-o", "plain"]].concat();
        assert_eq!(run(here, &plain).0, 0);
        assert_eq!(run(here, &[arguments, &["-o", file]].concat()).0, 0);
        let gzip = std::process::Command::new("gzip").arg("-dc").arg(here.join(file)).output().unwrap();
        assert!(gzip.status.success(), "{file}: {}", String::from_utf8_lossy(&gzip.stderr));
        assert_eq!(gzip.stdout, fs::read(here.join("plain")).unwrap(), "{file}");
        let before = fs::read(here.join(file)).unwrap();
        let missing: Vec<&str> =
            arguments.iter().map(|part| if *part == "log" { "missing" } else { part }).collect();
        assert_ne!(run(here, &[missing.as_slice(), &["-o", file]].concat()).0, 0);
        assert_eq!(fs::read(here.join(file)).unwrap(), before, "{file}");
    }
    let left: Vec<_> = fs::read_dir(here).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().ends_with(".part")), "{left:?}");
    if Path::new("/dev/full").exists() {
        std::os::unix::fs::symlink("/dev/full", here.join("full.gz")).unwrap();
        fails(here, &["puts", "log", "-o", "full.gz"], 1, &["can't write full.gz"]);
    }
}

#[test]
fn a_broken_pipe_ends_quietly() {
    let directory = tempfile::tempdir().unwrap();
    // Far more than a pipe and the program's own buffer hold.
    let mut facts = Vec::new();
    for n in 0..5_000 {
        let rest = happenings().into_iter().take(1);
        facts.extend(rest.map(|(_, fact)| (SECOND + n * MS, fact)));
    }
    write_events(&directory.path().join("log"), "box1", 7, facts);
    let mut child = iocreplay(["puts", "log", "--format", "jsonl"])
        .current_dir(directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("{\"time\":"), "{line}");
    let (code, _, err) = outcome(child.wait_with_output().unwrap());
    assert_eq!((code, err.as_str()), (0, ""));
}

#[test]
fn the_put_log_as_text() {
    let directory = logged();
    let out = works(directory.path(), &["puts", "log", "--utc"]);
    let lines: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    let alice = ["alice@console3", "10.0.0.5:41001"];
    let expected: [&[&str]; 3] = [
        &[
            "2026-09-21T14:13:21.000000+00:00",
            "T:SP",
            "1",
            "->",
            "2",
            alice[0],
            alice[1],
            "demo",
            "ok",
            "ca_write",
        ],
        &[
            "2026-09-21T14:13:22.000000+00:00",
            "T:SP",
            "2",
            "->",
            "2",
            alice[0],
            alice[1],
            "demo",
            "ok",
            "ca_write_notify",
            "3.0",
            "ms",
        ],
        &[
            "2026-09-21T14:13:22.100000+00:00",
            "T:CALC.A",
            "->",
            "not",
            "written",
            "(asked",
            "for",
            "9)",
            alice[0],
            alice[1],
            "demo",
            "denied",
            "ca_write_notify",
            "1.0",
            "ms",
        ],
    ];
    assert_eq!(lines, expected);
    let filtered = works(directory.path(), &["puts", "log", "--pv", "*CALC*"]);
    assert_eq!(filtered.lines().count(), 1);
    let since = works(
        directory.path(),
        &["puts", "log", "--since", "2026-09-21T14:13:22Z", "--until", "2026-09-21T14:13:22.1Z"],
    );
    assert_eq!(since.lines().count(), 1, "{since}");
    assert_eq!(works(directory.path(), &["puts", "log", "--host", "box?"]).lines().count(), 3);
}

#[test]
fn the_put_log_as_json_lines() {
    let directory = logged();
    let out = works(directory.path(), &["puts", "log", "--format", "jsonl", "--all", "--utc"]);
    let lines: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |key: &str| -> Vec<String> { lines.iter().map(|line| line[key].to_string()).collect() };
    assert_eq!(of("pv"), ["\"T:SP\"", "\"T:CALC.A\"", "\"R:FAR\"", "\"T:SP\"", "\"T:CALC.A\""]);
    assert_eq!(
        of("via"),
        ["\"ca_write\"", "\"db_link\"", "\"ca_link\"", "\"ca_write_notify\"", "\"ca_write_notify\""]
    );
    assert_eq!(of("source"), ["\"both\"", "\"probe\"", "\"both\"", "\"both\"", "\"packet\""]);
    assert_eq!(of("status"), ["\"ok\"", "\"ok\"", "\"ok\"", "\"ok\"", "\"denied\""]);
    assert_eq!(of("old"), ["1.0", "1.0", "0.0", "2.0", "null"]);
    assert_eq!(of("new"), ["2.0", "2.0", "2.0", "2.0", "null"]);
    assert_eq!(of("inexact"), ["false", "true", "false", "false", "false"]);
    assert_eq!(of("ioc"), ["\"demo\"", "\"demo\"", "\"second\"", "\"demo\"", "\"demo\""]);
    assert_eq!(of("cause_record"), ["null", "\"T:SP\"", "\"T:SP\"", "null", "null"]);
    assert_eq!(of("time")[0], "\"2026-09-21T14:13:21.000000000+00:00\"");
}

#[test]
fn chains_as_text() {
    let directory = logged();
    let out = works(directory.path(), &["traces", "log", "--pv", "R:FAR", "--utc"]);
    let expected = "\
2026-09-21T14:13:21.000000+00:00  ca_write T:SP 1 -> 2 by alice@console3 10.0.0.5:41001  [demo]
  T:SP             put      = 2  70 µs
    T:CALC.A         put      1 -> 2
      T:CALC           OUT      = 20 MAJOR  10 µs
        T:SLOW           FLNK     = NaN INVALID  499.84 ms asynchronous, delayed by itself
    CA link T:SP -> 2 to R:FAR
      ca_link R:FAR 0 -> 2 by CA link of T:SP  [box1:second]
        R:FAR            put      = 2  1 µs
";
    assert_eq!(out, expected);
    let scans = works(directory.path(), &["traces", "log", "--since", "2026-09-21T14:13:23Z"]);
    assert_eq!(scans.matches("scan .1 second  [demo]").count(), 5, "{scans}");
}

#[test]
fn why_did_it_change() {
    let directory = logged();
    let here = directory.path();
    let out = works(here, &["why", "T:SLOW", "log", "--utc"]);
    assert!(out.contains("T:SLOW may have changed"), "what it held before is not known: {out}");
    let out = works(here, &["why", "R:FAR", "log", "--utc"]);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(
        lines[0],
        "R:FAR changed from 0 to 2 at 2026-09-21T14:13:21.002003000+00:00  [second on box1]"
    );
    assert_eq!(
        lines[1],
        "There may be later changes: after it, not all was recorded: 17 hits or events lost: ring buffer full."
    );
    assert_eq!(lines[2], "Cause: ca_write T:SP 1 -> 2 by alice@console3 10.0.0.5:41001");
    assert!(lines.iter().any(|line| line.contains("CA link of T:SP writes 2 to R:FAR")), "{out}");
    let json: serde_json::Value =
        serde_json::from_str(&works(here, &["why", "R:FAR", "log", "--json"])).unwrap();
    assert_eq!(
        (json["user"].as_str(), json["from"].as_f64(), json["to"].as_f64()),
        (Some("alice"), Some(0.0), Some(2.0))
    );
    assert_eq!(json["chain"].as_array().unwrap().len(), 5);
    // T:SP was written once more with the same value.
    let out = works(here, &["why", "T:SP", "log", "--utc"]);
    assert!(out.starts_with("T:SP changed from 1 to 2 at 2026-09-21T14:13:21"), "{out}");
    assert!(out.contains("again, without a change, last at 2026-09-21T14:13:22"), "{out}");
    // A field that is no value field.
    let out = works(here, &["why", "T:CALC.A", "log", "--utc"]);
    assert!(out.starts_with("T:CALC.A changed from 1 to 2"), "{out}");
    fails(here, &["why", "T:SPP", "log"], 1, &["no record or PV 'T:SPP'", "did you mean T:SP"]);
    fails(here, &["why", "completely:else", "log"], 1, &["no record or PV 'completely:else'"]);
    fails(
        here,
        &["why", "T:SP", "log", "--at", "2026-01-01"],
        1,
        &["T:SP was neither processed nor written"],
    );
}

#[test]
fn what_is_in_the_log() {
    let directory = logged();
    let out = works(directory.path(), &["info", "log", "--utc"]);
    for part in [
        "host      box1  6.1.0 x86_64  iocrec 0.1.0\n",
        "tier      perf\n          not ring: kernel 4.19 is older than 5.8\n",
        "time      2026-09-21T14:13:21.000000000+00:00 to 2026-09-21T14:13:24.000000000+00:00 (3.000 s)\n",
        "segments  1, ",
        "IOC       demo  pid 100  Base 7.0.8.1  /opt/epics/bin/softIoc (shared)  CA port 5064  3 records seen\n",
        "fact      process                10\n",
        "fact      ca_put                  4\n",
        "loss      hits: 17 from 2026-09-21T14:13:23.000+00:00 to 2026-09-21T14:13:24.000+00:00: ring buffer full\n",
        "mark      2026-09-21T14:13:23.600+00:00 beam lost\n",
    ] {
        assert!(out.contains(part), "'{part}' is not in\n{out}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&works(directory.path(), &["info", "log", "--json"])).unwrap();
    assert_eq!(json["runs"][0]["iocs"][1]["name"], "second");
    assert_eq!(json["runs"][0]["losses"][0]["count"], 17);
}

/// A server of PVAccess alone has no port of Channel Access that would be unknown.
#[test]
fn the_ports_of_servers() {
    use iocrec_log::event::{Fact, Ioc};
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let demo = common::definitions("box1").into_iter().find_map(|fact| match fact {
        Fact::Ioc(ioc) => Some(*ioc),
        _ => None,
    });
    let demo = demo.unwrap();
    let mut facts = happenings();
    for (id, ca_ports, pva_ports) in [(21, vec![], vec![5075]), (22, vec![5068], vec![5076, 5077])] {
        let ioc = Ioc { id, pid: id, name: format!("server{id}"), ca_ports, pva_ports, ..demo.clone() };
        facts.push((4 * SECOND, Fact::from(ioc)));
    }
    write_events(&here.join("log"), "box1", 3, facts);
    let out = works(here, &["info", "log", "--utc"]);
    assert!(out.contains("softIoc (shared)  PVA port 5075  0 records seen"), "{out}");
    assert!(out.contains("softIoc (shared)  CA port 5068  PVA port 5076, 5077  0 records seen"), "{out}");
    let out = works(here, &["info", "log", "--format", "jsonl"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["iocs"][3]["pva_ports"], serde_json::json!([5076, 5077]));
}

/// Logs of several hosts, in directories of one, are read together in the order of time.
#[test]
fn logs_of_two_hosts() {
    let directory = tempfile::tempdir().unwrap();
    let all = directory.path().join("all");
    fs::create_dir(&all).unwrap();
    write_log(&all.join("box1"), "box1", 7);
    let later = happenings().into_iter().map(|(time, fact)| (time + 1500 * MS, fact)).collect();
    write_events(&all.join("box2"), "box2", 8, later);
    let out = works_with(directory.path(), &["puts", "all", "--format", "jsonl"], 2);
    let hosts = |host: &str| out.matches(&format!("\"host\":\"{host}\"")).count();
    assert_eq!((hosts("box1"), hosts("box2")), (3, 3));
    let times: Vec<&str> = out.lines().map(|line| &line[..45]).collect();
    assert!(times.is_sorted(), "{out}");
    // The same log named twice is read once.
    assert_eq!(works(directory.path(), &["puts", "all/box1", "all/box1"]).lines().count(), 3);
}

/// The recorder reads several queues: what comes later may be earlier, by more than a block is long.
#[test]
fn events_that_were_written_out_of_order() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let mut facts = Vec::new();
    for n in 0..20 {
        let later = |(time, fact)| (time + n * 3500 * MS, fact);
        facts.extend(happenings().into_iter().filter(|(time, _)| *time < 3 * SECOND).map(later));
    }
    write_events(&here.join("ordered"), "box1", 7, facts.clone());
    // Packets come at once, hits 1.5 s later; within a queue the order stays.
    facts.sort_by_key(|(time, fact)| match fact {
        iocrec_log::event::Fact::CaPut(_) | iocrec_log::event::Fact::CaAnswer(_) => *time,
        _ => time + 1500 * MS,
    });
    write_events(&here.join("shuffled"), "box1", 7, facts);
    for command in [vec!["puts", "--format", "jsonl", "--all"], vec!["traces"]] {
        let read = |log| works(here, &[command.as_slice(), &[log]].concat());
        let ordered = read("ordered");
        assert!(ordered.lines().count() > 60);
        assert_eq!(read("shuffled"), ordered);
    }
}

#[test]
fn otlp_is_json_lines_with_stable_ids() {
    let directory = logged();
    let out = works(directory.path(), &["traces", "log", "--format", "otlp"]);
    assert_eq!(out, works(directory.path(), &["traces", "log", "--format", "otlp", "--utc"]));
    assert_eq!(out.lines().count(), 1, "so few are one batch: {out}");
    let first: serde_json::Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    let resources = first["resourceSpans"].as_array().unwrap();
    assert_eq!(resources.len(), 2, "the demo IOC and the second");
    let traces: std::collections::HashSet<&str> = resources
        .iter()
        .flat_map(|resource| resource["scopeSpans"][0]["spans"].as_array().unwrap())
        .map(|span| span["traceId"].as_str().unwrap())
        .collect();
    assert_eq!(traces.len(), 8);
    let spans = resources[0]["scopeSpans"][0]["spans"].as_array().unwrap();
    assert_eq!((spans[0]["name"].as_str(), spans[0]["kind"].as_u64()), (Some("caput T:SP"), Some(2)));
    assert!(spans[0].get("parentSpanId").is_none());
    assert_eq!(spans[1]["parentSpanId"], spans[0]["spanId"]);
    assert!(!out.contains("NaN\":") && out.contains("\"stringValue\":\"NaN\""));
}

/// With a time, what is long before it is not even read.
#[test]
fn from_a_time_on() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let files = many_puts(&here.join("log"), 20 * MS);
    let all = works(here, &["puts", "log", "--utc", "--format", "jsonl"]);
    // Puts begin at 14:13:21 and go on for 600 s.
    let since = "2026-09-21T14:20:00";
    let arguments = ["puts", "log", "--utc", "--format", "jsonl", "--since", since];
    let late: Vec<&str> = all.lines().filter(|line| line["{\"time\":\"".len()..] >= *since).collect();
    assert!(late.len() > 5000 && late.len() < 15_000);
    assert!(works(here, &arguments).lines().eq(late.iter().copied()));

    // Nor is anybody told of damage there: in the first segment, and in what is early in the first that is read.
    let read_from = files.iter().rposition(|file| {
        let info = works(here, &["info", "--utc", "--json", file.to_str().unwrap()]);
        let info: serde_json::Value = serde_json::from_str(&info).unwrap();
        info["runs"][0]["first"].as_str().unwrap() < "2026-09-21T14:18:00"
    });
    for file in [&files[0], &files[read_from.unwrap()]] {
        let mut bytes = fs::read(file).unwrap();
        let place = bytes.len() / 20;
        bytes[place] ^= 0x10;
        fs::write(file, bytes).unwrap();
    }
    assert!(works(here, &arguments).lines().eq(late));
    assert_eq!(run(here, &["puts", "log"]).0, 1);
}

/// A box boots in 1970 and hears of the time later: everything has the time that it would have had with a clock.
#[test]
fn a_clock_that_is_set_later() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let files = many_puts(&here.join("right"), 20 * MS);
    let last = files.len() - 1;
    let commands: [&[&str]; 2] = [
        &["puts", "--utc"],
        &["traces", "--utc", "--since", "2026-09-21T14:16:00", "--until", "2026-09-21T14:17:00"],
    ];
    let outputs = |log: &str| commands.map(|command| works(here, &[command, &[log]].concat()));
    let right = outputs("right");
    assert!(right.iter().all(|output| output.lines().count() > 1000));
    assert!(!works(here, &["info", "right"]).contains("was not set"));
    // in the first segment, in one between, and in the last
    for (log, set) in [("first", 5), ("between", 250), ("end", 599)] {
        let files = many_puts_set(&here.join(log), 20 * MS, set * SECOND);
        assert_eq!(files.len(), last + 1, "{log}");
        for (got, right) in outputs(log).iter().zip(&right) {
            let differ = got.lines().zip(right.lines()).find(|(got, right)| got != right);
            assert!(got == right, "{log}: {differ:?}");
        }
        let info = works(here, &["info", "--utc", log]);
        let line = "clock     was not set before 2026-09-21T14:";
        assert!(info.contains(line) && info.contains("time      2026-09-21T14:13:21"), "{info}");
    }
    // Among those of another machine they come in the order of time.
    write_events(&here.join("between/box2"), "box2", 8, happenings());
    let lines = works_with(here, &["puts", "between", "--utc"], 2);
    assert!(lines.lines().next().unwrap().contains("14:13:21"), "{lines}");
    let times: Vec<&str> = lines.lines().map(|line| &line[..26]).collect();
    assert!(times.is_sorted());
    // One that nobody ever set says what it showed.
    many_puts_set(&here.join("never"), 20 * MS, u64::MAX);
    assert!(works(here, &["puts", "never", "--utc"]).starts_with("1970-01-01T00:00:01"));
}

#[test]
fn a_format_beside_files_or_drawings_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    write_log(&here.join("log"), "box1", 7);
    for listed in [&["--format", "csv"][..], &["--json"]] {
        let said = format!("leave them or {} out", listed[0]);
        for words in [&["health", "log", "--plot"][..], &["io", "log", "--darshan", "files"]] {
            fails(here, &[words, listed].concat(), 2, &[&said]);
        }
    }
    assert!(!here.join("files").exists());
}

#[test]
fn two_formats_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    write_log(&here.join("log"), "box1", 7);
    for (command, is_one_object) in [("info", true), ("verify", true), ("iocs", false), ("records", false)] {
        for format in ["csv", "text", "jsonl"] {
            let words = [command, "log", "--json", "--format", format];
            if format == "jsonl" && !is_one_object {
                assert_eq!(works(here, &words), works(here, &[command, "log", "--json"]));
            } else {
                fails(here, &words, 2, &["--json and --format ", " are two formats"]);
            }
        }
    }
    fails(here, &["why", "T:SP", "log", "--format", "jsonl", "--json"], 2, &[" are two formats"]);
}

#[test]
fn a_dash_is_standard_output() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    write_log(&here.join("log"), "box1", 7);
    assert_eq!(works(here, &["puts", "log", "-o", "-"]), works(here, &["puts", "log"]));
    let follow = ["follow", "log", "--once"];
    assert_eq!(works(here, &[&follow[..], &["-o", "-"]].concat()), works(here, &follow));
    assert!(!here.join("-").exists());
    assert_eq!(works(here, &["puts", "log", "-o", "./-"]), "");
    assert!(here.join("-").exists());
}

/// What one of the two options wrote there was lost, and nothing said so.
#[test]
fn two_options_do_not_write_one_file() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    write_log(&here.join("log"), "box1", 7);
    fs::write(here.join("there"), "kept").unwrap();
    std::os::unix::fs::symlink("there", here.join("link")).unwrap();
    for (words, options) in [
        (&["follow", "log", "--once", "--state", "f", "--textfile", "./f"][..], "--state and --textfile"),
        (&["values", "T:SP", "log", "--plot", "-o", "f", "--svg", "./f"], "-o and --svg"),
        (&["values", "T:SP", "log", "--plot", "-o", "there", "--svg", "link"], "-o and --svg"),
        (&["health", "log", "--plot", "-o", "f", "--svg", "log/../f"], "-o and --svg"),
        (&["io", "log", "--darshan", "f", "--darshan-text", "f"], "--darshan and --darshan-text"),
    ] {
        fails(here, words, 2, &[options, "both write", "name two files"]);
    }
    assert!(!here.join("f").exists());
    assert_eq!(fs::read_to_string(here.join("there")).unwrap(), "kept");
    // a device takes both
    let (code, _, err) =
        run(here, &["values", "T:SP", "log", "--plot", "-o", "/dev/null", "--svg", "/dev/null"]);
    assert!(code == 0 && !err.contains("both write"), "{err}");
}

/// Those that write something else than the answer made a file or a directory of that name; of follow with a space before it.
#[test]
fn a_dash_is_no_file_beside_the_answer() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    write_log(&here.join("log"), "box1", 7);
    for words in [
        &["redact", "log", "-o", "-"][..],
        &["redact", "log", "-o", "copy", "--map", "-"],
        &["export", "log", "--csv", "-"],
        &["values", "T:SP", "log", "--svg", "-"],
        &["follow", "log", "--once", "--state", "-"],
        &["follow", "log", "--once", "--textfile", "-"],
        &["follow", "--position", "--spool", "-"],
    ] {
        let option = words[words.len() - 2];
        fails(here, words, 2, &[option, "does not write to standard output", "or ./- if it is meant"]);
    }
    let left: Vec<_> = fs::read_dir(here).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["log"]);
    fails(here, &["follow", "log", "--once", "--textfile", "log/x"], 2, &["in the directory of a log"]);
    fails(here, &["follow", "--position", "--spool", ""], 2, &["--spool has an empty file name"]);
    let (code, _, err) = run(here, &["redact", "log", "-o", "./-"]);
    assert_eq!((code, here.join("-").is_dir()), (0, true), "{err}");
}

/// Access security denied one of three.
#[test]
fn top_tells_what_the_server_refused() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    write_log(&here.join("log"), "box1", 7);
    let (_, out, err) = run(here, &["top", "log", "--utc"]);
    let alice: Vec<&str> = out.lines().filter(|line| line.contains("alice")).collect();
    assert!(!alice.is_empty() && alice.iter().all(|line| line.contains("  1 refused  ")), "{out}{err}");
}

#[test]
fn verify_says_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let files = many_puts(&here.join("log"), MS);
    let good = works(here, &["verify", "log", "--utc"]);
    assert!(
        good.starts_with("sound     box1, 2026-09-21T14:13:20.000+00:00 to 2026-09-21T14:13:50.999"),
        "{good}"
    );
    assert_eq!(good.lines().count(), 1, "{good}");

    let mut bytes = fs::read(&files[1]).unwrap();
    let length = bytes.len();
    bytes[length / 2] ^= 1;
    fs::write(&files[1], bytes).unwrap();
    fs::remove_file(&files[2]).unwrap();
    let last = files.last().unwrap();
    let whole = fs::read(last).unwrap();
    fs::write(last, &whole[..whole.len() - 5]).unwrap();
    fs::write(here.join("log/none.iocrec"), "no segment").unwrap();

    let (code, out, err) = run(here, &["verify", "log", "--utc"]);
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    let lines: Vec<&str> = out.lines().collect();
    let parts: [&[&str]; 5] = [
        &["DAMAGED   box1, "],
        &["  damage  ", "wrong checksum", "; 1 block gone; from 2026-09-21T14:13:", " at byte "],
        &["  damage  ", "segments are missing", "; 1 segment gone; from 2026-09-21T14:13:", " to 2026-"],
        &[
            "  note    ",
            "it ends within a block: the recorder was writing it",
            "or the end is missing; other commands read up to there, say so, and have exit code 1",
            "; after 2026-09-21T14:13:",
        ],
        &["UNREADABLE ", "none.iocrec is not an iocrec segment"],
    ];
    assert_eq!(lines.len(), parts.len(), "{out}");
    for (line, parts) in lines.iter().zip(parts) {
        assert!(parts.iter().all(|part| line.contains(part)), "{parts:?}: {line}");
    }

    let (code, out, _) = run(here, &["verify", "log", "--json", "--utc"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &json["sound"]), (1, &serde_json::Value::Bool(false)));
    let findings = json["runs"][0]["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 3);
    assert!(findings[0]["offset"].as_u64().unwrap() < length as u64 / 2 && findings[0]["blocks"] == 1);
    assert_eq!(findings.iter().filter(|finding| finding["harmless"] == true).count(), 1);
    assert_eq!(json["unreadable"].as_array().unwrap().len(), 1);

    let (code, out, _) = run(here, &["verify", "log", "--format", "jsonl", "--utc"]);
    let rows: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let what: Vec<&str> = rows.iter().filter_map(|row| row["what"].as_str()).collect();
    assert_eq!((code, what), (1, vec!["run", "finding", "finding", "finding", "unreadable"]));
    for (row, finding) in rows[1..].iter().zip(findings) {
        for key in ["segment", "offset", "length", "blocks", "segments", "cause", "harmless", "from", "to"] {
            assert_eq!(row[key], finding[key], "{key}");
        }
    }
    assert_eq!((&rows[0]["events"], &rows[0]["sound"]), (&json["runs"][0]["events"], &json["sound"]));
    assert_eq!(rows[4]["reason"], json["unreadable"][0]["reason"]);
}

/// Old segments are deleted in normal operation, one at a time: what is left is sound. So it is if a time passes over them.
/// Not all names of files are text.
#[cfg(target_os = "linux")]
#[test]
fn verify_tells_of_files_with_any_name() {
    use std::os::unix::ffi::OsStrExt;
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    fs::create_dir(here.join("log")).unwrap();
    fs::write(here.join("log").join(std::ffi::OsStr::from_bytes(b"a\xff.iocrec")), "x").unwrap();
    for format in [&["--json"][..], &["--format", "jsonl"], &["--format", "csv"]] {
        let (code, out, err) = run(here, &[&["verify", "log"][..], format].concat());
        assert!(code == 1 && out.contains("a\u{fffd}.iocrec"), "{format:?}: {code} {out}{err}");
    }
}

#[test]
fn a_run_without_its_first_segment_is_sound() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let files = many_puts(&here.join("log"), 20 * MS);
    // in the second of two, which is read with the first and without it
    fs::create_dir(here.join("two")).unwrap();
    for file in &files[..2] {
        fs::copy(file, here.join("two").join(file.file_name().unwrap())).unwrap();
    }
    let second = iocrec_log::reader::find(&files[1]).unwrap()[0].header.unwrap();
    for later in [1, 60, 100] {
        let since = second.created_wall / SECOND as i64 + later;
        let since = jiff::Timestamp::from_second(since).unwrap().to_string();
        for log in ["two", "log"] {
            let out = works(here, &["puts", log, "--since", &since]);
            assert!(out.lines().count() > 100, "{log} {since}");
        }
    }
    fs::remove_file(&files[0]).unwrap();
    for command in ["puts", "traces", "info", "verify"] {
        works(here, &[command, "log"]);
    }
    // what the first segment held is gone, and that is said
    let (code, _, err) = run(here, &["puts", "log", "--since", "2026-09-21T14:13:22", "--utc"]);
    let begin = jiff::Timestamp::from_nanosecond(second.created_wall.into()).unwrap();
    let begin = format!("iocreplay: the log begins at {begin:.3}")
        .replace('Z', "+00:00: what was before is not known");
    assert!(code == 0 && err.starts_with(&begin), "{begin}, not {err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    works(here, &["puts", files[1].to_str().unwrap()]);
    assert!(works(here, &["info", "log"]).contains("the first one of the run is not here"));
}

/// The zone that TZ names is looked up in the system's database by the program itself.
#[test]
fn the_local_zone() {
    if !Path::new("/usr/share/zoneinfo/Europe/Zurich").exists() {
        return not_run("the_local_zone", Needs::Program("tzdata"));
    }
    let directory = logged();
    let with = |zone: &str, arguments: &[&str]| {
        outcome(iocreplay(arguments).current_dir(directory.path()).env("TZ", zone).output().unwrap())
    };
    // 14:13:21 UTC
    for (zone, shown) in [
        ("Europe/Zurich", "2026-09-21T16:13:21.000000+02:00"),
        (":Europe/Zurich", "2026-09-21T16:13:21.000000+02:00"),
        ("/usr/share/zoneinfo/Europe/Zurich", "2026-09-21T16:13:21.000000+02:00"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "2026-09-21T16:13:21.000000+02:00"),
        ("Asia/Kolkata", "2026-09-21T19:43:21.000000+05:30"),
        ("", "2026-09-21T14:13:21.000000+00:00"),
    ] {
        let (code, out, err) = with(zone, &["puts", "log"]);
        assert!(code == 0 && err.is_empty() && out.starts_with(shown), "{zone}: {out}{err}");
    }
    let (_, out, _) = with(
        "Europe/Zurich",
        &["puts", "log", "--since", "2026-09-21T16:13:22", "--until", "2026-09-21T16:13:22.05"],
    );
    assert_eq!(out.lines().count(), 1, "{out}");
    for unknown in ["Europe/Zurick", "Nowhere", "/etc/passwd", "../../etc/passwd"] {
        let (code, out, err) = with(unknown, &["puts", "log"]);
        assert!(code == 0 && out.starts_with("2026-09-21T14:13:21.000000+00:00"), "{out}");
        assert!(
            err.lines().count() == 1
                && err.contains("names no time zone that is known here: times are in UTC"),
            "{err}"
        );
    }
    // Who asks for UTC needs none.
    assert_eq!(with("Nowhere", &["puts", "log", "--utc"]).2, "");
    let (_, _, err) = with("Europe/Zurich", &["puts", "log", "--until", "2026-10-25T02:30"]);
    assert!(
        err.contains("2026-10-25T02:30 occurs twice: taking the second, 2026-10-25T02:30:00+01:00"),
        "{err}"
    );
}

#[cfg(unix)]
#[test]
fn a_log_is_never_written_to() {
    let directory = logged();
    let here = directory.path();
    let segment = segments(&here.join("log")).remove(0);
    let before = fs::read(&segment).unwrap();
    fs::hard_link(&segment, here.join("hard.txt")).unwrap();
    std::os::unix::fs::symlink(&segment, here.join("soft.txt")).unwrap();
    fs::create_dir(here.join("all")).unwrap();
    std::os::unix::fs::symlink("../log", here.join("all/box1")).unwrap();
    for log in ["log", "all", segment.to_str().unwrap()] {
        for (file, part) in [
            ("hard.txt", "would overwrite a log"),
            ("soft.txt", "would overwrite a log"),
            (segment.to_str().unwrap(), "would overwrite a log"),
            ("new.iocrec", "has a name that makes it part of a log"),
        ] {
            fails(here, &["puts", log, "-o", file], 2, &[part, "name another file"]);
        }
    }
    for (log, file) in [("log", "log/puts.txt"), ("all", "log/puts.txt"), ("all", "all/box1/puts.txt")] {
        fails(here, &["puts", log, "-o", file], 2, &["is in the directory of a log"]);
    }
    assert_eq!(fs::read(&segment).unwrap(), before);
    assert_eq!(segments(&here.join("log")).len(), 1);
    assert_eq!(fs::read_dir(here.join("log")).unwrap().count(), 1, "nothing was left there");
}

/// In a directory for all, such as /tmp.
#[cfg(unix)]
#[test]
fn what_another_user_has_put_in_place_of_the_output() {
    use std::os::unix::fs::{chown, lchown, symlink, MetadataExt, OpenOptionsExt, PermissionsExt};
    const OTHER: u32 = 1234;
    let directory = logged();
    let here = directory.path();
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let (shared, victim, link) = (here.join("shared"), here.join("victim"), here.join("shared/link.txt"));
    fs::create_dir(&shared).unwrap();
    set(&shared, 0o1777);
    fs::write(&victim, "root's").unwrap();
    symlink(&victim, &link).unwrap();
    works(here, &["puts", "log", "-o", "shared/link.txt"]);
    assert_ne!(fs::read_to_string(&victim).unwrap(), "root's", "one's own link is followed");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    if lchown(&link, Some(OTHER), None).is_err() {
        return not_run("what_another_user_has_put_in_place_of_the_output", Needs::Root);
    }
    fs::write(&victim, "root's").unwrap();
    let part = "is a symbolic link of user 1234";
    fails(here, &["puts", "log", "-o", "shared/link.txt"], 1, &["can't write shared/link.txt", part]);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "root's");
    let pipe = shared.join("pipe");
    let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
    // SAFETY: a path that ends with a NUL.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o666) }, 0);
    // so that whoever writes does not wait for it
    let reader = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&pipe).unwrap();
    works(here, &["puts", "log", "-o", "shared/pipe"]);
    chown(&pipe, Some(OTHER), None).unwrap();
    let part = "is a pipe of user 1234";
    fails(here, &["puts", "log", "-o", "shared/pipe"], 1, &["can't write shared/pipe", part]);
    drop(reader);
    let file = shared.join("puts.txt");
    for (owner, mode, expected) in [(OTHER, 0o6777, 0o755), (OTHER, 0o600, 0o600), (0, 0o4666, 0o666)] {
        let _ = fs::remove_file(&file);
        fs::write(&file, "").unwrap();
        chown(&file, Some(owner), None).unwrap();
        set(&file, mode);
        works(here, &["puts", "log", "-o", "shared/puts.txt"]);
        let about = fs::metadata(&file).unwrap();
        assert_eq!((about.uid(), about.mode() & 0o7777), (0, expected), "{owner} {mode:o}");
        assert!(about.len() > 0);
    }
}

/// What was there stays until all is written.
#[test]
fn a_file_is_replaced_when_all_is_written() {
    let directory = logged();
    let here = directory.path();
    let file = here.join("puts.txt");
    fs::write(&file, "of yesterday").unwrap();
    for arguments in [
        &["puts", "missing", "-o", "puts.txt"][..],
        &["why", "T:SPP", "log", "-o", "puts.txt"],
        &["puts", "log", "--since", "x", "-o", "puts.txt"],
    ] {
        assert_ne!(run(here, arguments).0, 0);
        assert_eq!(fs::read_to_string(&file).unwrap(), "of yesterday", "{arguments:?}");
    }
    works(here, &["puts", "log", "-o", "puts.txt"]);
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 3);
    // Of a log that is damaged all that can be had.
    let segment = segments(&here.join("log")).remove(0);
    let whole = fs::read(&segment).unwrap();
    fs::write(&segment, &whole[..whole.len() - 200]).unwrap();
    assert_eq!(run(here, &["traces", "log", "-o", "puts.txt"]).0, 1);
    assert!(fs::read_to_string(&file).unwrap().contains("ca_write T:SP"));
    let mut names: Vec<_> = fs::read_dir(here).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["log", "puts.txt"], "and nothing else is left");
    fails(here, &["puts", "log", "-o", "log"], 1, &["can't write log", "is a directory"]);
}

#[cfg(unix)]
#[test]
fn a_pipe_among_the_segments_is_said_and_the_rest_is_read() {
    let directory = logged();
    let here = directory.path();
    let pipe = std::ffi::CString::new(here.join("log/0.iocrec").to_str().unwrap()).unwrap();
    // SAFETY: a path that ends with a NUL.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    for (command, lines) in [("puts", 3), ("info", 20), ("traces", 8), ("iocs", 8), ("records", 4)] {
        let (code, out, err) = run(here, &[command, "log"]);
        assert!(code == 1 && out.lines().count() >= lines, "{command}: {out}");
        assert!(err.lines().count() == 1 && err.contains("log/0.iocrec is a pipe, not a file"), "{err}");
    }
    let (code, out, _) = run(here, &["verify", "log"]);
    assert!(code == 1 && out.contains("UNREADABLE log/0.iocrec is a pipe"), "{out}");
    fails(here, &["puts", "log/0.iocrec"], 1, &["log/0.iocrec is a pipe, not a file"]);
}

#[test]
fn the_version() {
    let here = tempfile::tempdir().unwrap();
    for word in ["--version", "-V"] {
        let line = format!("iocreplay {}\n", env!("CARGO_PKG_VERSION"));
        assert_eq!(works(here.path(), &[word]), line);
    }
    assert!(works(here.path(), &["--help"]).contains("--version"));
}

#[test]
fn the_pv_comes_before_the_log() {
    let directory = logged();
    let here = directory.path();
    fails(
        here,
        &["why", "log", "T:SP"],
        2,
        &["log is a log; the PV comes before it: iocreplay why T:SP log"],
    );
    fails(here, &["why", "log"], 2, &["iocreplay why PV log"]);
    fails(here, &["why", "log", "log", "T:SP"], 2, &["iocreplay why T:SP log log"]);
    // A file that has the name of a record is none.
    fs::write(here.join("T:SP"), "").unwrap();
    works(here, &["why", "T:SP", "log"]);
}

/// Nothing is no answer: why there is nothing is said, and the exit code is that of success.
#[test]
fn an_empty_answer_says_why() {
    use iocrec_log::event::{Fact, Loss, LossSource};
    let directory = logged();
    let here = directory.path();
    let says = |arguments: &[&str], parts: &[&str]| {
        let (code, out, err) = run(here, arguments);
        assert_eq!((code, out.as_str()), (0, ""), "{arguments:?}: {err}");
        assert_eq!(err.lines().count(), 1, "{arguments:?}: {err}");
        for part in parts {
            assert!(err.contains(part), "{arguments:?}: '{part}' is not in: {err}");
        }
    };
    for command in ["puts", "traces", "records"] {
        says(&[command, "log", "--pv", "T:SPP"], &["no PV or record matches 'T:SPP'", "did you mean T:SP"]);
        says(&[command, "log", "--pv", "t:sp"], &["did you mean T:SP"]);
        says(&[command, "log", "--pv", "nothing:like:it"], &["no PV or record matches", "iocreplay records"]);
    }
    for command in ["puts", "traces", "records", "iocs"] {
        says(&[command, "log", "--ioc", "demmo"], &["no IOC matches 'demmo'; these logs have demo, second"]);
        says(&[command, "log", "--host", "box2"], &["no host matches 'box2'; these logs have box1"]);
    }
    // these have rows that no option chooses
    let also_says = |arguments: &[&str], part: &str| {
        let (code, _, err) = run(here, arguments);
        assert!(code == 0 && err.contains(part), "{arguments:?}: '{part}' is not in: {err}");
    };
    also_says(&["export", "log", "--csv", "tables", "--pv", "T:SPP"], "did you mean T:SP");
    also_says(&["metrics", "log", "--ioc", "demmo"], "no IOC matches 'demmo'; these logs have demo, second");
    also_says(&["report", "log", "--ioc", "demmo"], "no IOC matches 'demmo'; these logs have demo, second");
    also_says(&["follow", "log", "--once", "--pv", "T:SPP"], "did you mean T:SP");
    also_says(&["follow", "log", "--once", "--since", "2030-01-01"], "nothing was recorded at that time");
    also_says(&["diff", "2030-01-01", "2031-01-01", "log"], "nothing was recorded at that time");
    also_says(&["net", "log", "--pv", "T:SPP"], "did you mean T:SP");
    for command in ["puts", "traces"] {
        for (option, time) in [("--since", "2026-09-22"), ("--until", "2026-09-21T14:13:20Z")] {
            says(
                &[command, "log", "--utc", option, time],
                &[
                    "nothing was recorded at that time",
                    "2026-09-21T14:13:20.000+00:00 to 2026-09-21T14:13:24.000",
                ],
            );
        }
        says(
            &[command, "log", "--since", "2026-09-22", "--until", "2026-09-20"],
            &["the time range is empty"],
        );
    }
    // a chain may reach several IOCs, a put one
    says(
        &["puts", "log", "--pv", "T:SP", "--ioc", "second"],
        &["matches all filters at once; leave a filter out"],
    );
    says(&["puts", "log", "--exclude", "*"], &["no put matches; see iocreplay info"]);
    for command in ["puts", "traces", "clients"] {
        says(&[command, "log", "--client", "9.9.9.9"], &["no client matches '9.9.9.9'; these logs have "]);
    }
    says(&["puts", "log", "--pv", "R:FAR"], &["only puts of database links and CA links match; --all"]);
    // nothing happened, but the recorder ran
    let mut quiet = common::happenings();
    quiet.push((
        20 * SECOND,
        iocrec_log::event::Fact::Clock(iocrec_log::event::Clock { wall: common::WALL + 20 * SECOND as i64 }),
    ));
    write_events(&here.join("quiet"), "box1", 9, quiet);
    says(&["puts", "quiet", "--since", "2026-09-21T14:13:30Z"], &["no put matches at that time"]);
    common::write_events_later(&here.join("calm"), "box1", 10, 0, common::happenings(), 8 * SECOND);
    says(&["puts", "calm", "--since", "2026-09-21T14:13:26Z"], &["no put matches at that time"]);
    says(
        &["puts", "calm", "--since", "2026-09-21T14:13:29Z"],
        &["nothing was recorded", "14:13:28.000+00:00"],
    );
    says(&["logs", "calm", "--kind", "ends"], &["nothing of it matches; see iocreplay info"]);
    let only_marks = vec![(SECOND, iocrec_log::event::Fact::Mark("x".into()))];
    write_events(&here.join("idle"), "box1", 8, only_marks);
    // one that was found and not attached to yet may have been written to
    says(&["puts", "idle"], &["hold no puts", "of an IOC while it was recorded", "--no-puts"]);
    // what clients sent may have been lost, or a capture of a machine that is not known has what servers send alone
    let (source, cause) = (LossSource::Stream, "not captured".to_owned());
    let lost = vec![(SECOND, Fact::Loss(Loss { source, count: 1, since: 0, cause }))];
    write_events(&here.join("lossy"), "box1", 11, lost);
    write_events(&here.join("captured"), "", 12, vec![(SECOND, Fact::Mark("x".into()))]);
    for log in ["lossy", "captured"] {
        says(
            &["puts", log],
            &["hold no puts", "--no-puts", "was lost, or is not in the capture (iocreplay info)"],
        );
    }
    says(&["traces", "idle"], &["hold no processing", "in an IOC while it was recorded", "--no-process"]);
    let held = "(they hold 2026-09-21T14:13:20.000+00:00 to 2026-09-21T14:13:21.000+00:00)";
    fails(here, &["why", "T:SP", "idle", "--utc"], 1, &["neither processed nor written", held]);
    fails(
        here,
        &["why", "T:SP", "log", "--at", "2026-01-01"],
        1,
        &["neither processed nor written", "these logs hold 2026-09-21T14:13:20"],
    );
    fails(
        here,
        &["why", "T:SP", "log", "--ioc", "nobody"],
        1,
        &["no IOC matches 'nobody'; these logs have demo, second"],
    );
}

/// There are chains, and none of them is a loop.
#[test]
fn a_table_that_is_empty_says_of_what_there_is_none() {
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/travelled/x86_64-6.1/log");
    for (table, says) in [("loops", "no loop was seen"), ("fights", "no PV was fought over")] {
        let (code, out, err) = run(&log, &["top", "--by", table, "."]);
        assert_eq!((code, out.as_str()), (0, ""), "{err}");
        assert!(err.contains(says) && !err.contains("no chain matches"), "{err}");
    }
}

/// Of several IOCs some were recorded with `--io`, and not the one that is asked for.
#[test]
fn files_of_an_ioc_that_was_recorded_without_them() {
    let directory = logged();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../log/tests/golden/v1-files.iocrec");
    let (code, out, err) = run(directory.path(), &["io", "log", golden.to_str().unwrap(), "--ioc", "demo"]);
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
    assert!(err.contains("no file of an IOC that was recorded with --io matches"), "{err}");
}

/// A limit of file sizes is told as a full disk is, and nothing that was begun stays.
#[cfg(unix)]
#[test]
fn a_limit_of_file_sizes_is_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plant/log");
    for (words, names) in [("report \"$1\" -o big.html", "big.html"), ("redact \"$1\" -o copy", "copy")] {
        let script = format!("ulimit -f 1; exec \"$0\" {words}");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_iocreplay"), log]).current_dir(here);
        let (code, out, err) = outcome(command.output().unwrap());
        assert_eq!((code, out.as_str(), err.lines().count()), (1, "", 1), "{words}: {err}");
        assert!(err.contains(&format!("can't write {names}")), "{words}: {err}");
        assert_eq!(fs::read_dir(here).unwrap().count(), 0, "{words}");
    }
}

/// It is held up by standard error, which nobody reads, while its file is unfinished.
#[cfg(target_os = "linux")]
#[test]
fn a_signal_leaves_no_unfinished_file() {
    use std::io::Write;
    use std::os::unix::process::ExitStatusExt;
    let directory = logged();
    let here = directory.path();
    let (mut full, _nobody) = std::os::unix::net::UnixStream::pair().unwrap();
    full.set_nonblocking(true).unwrap();
    while full.write_all(&[b'x'; 4096]).is_ok() {}
    while full.write_all(b"x").is_ok() {}
    full.set_nonblocking(false).unwrap();
    let mut command = iocreplay(["puts", "log", "--since", "-1m", "-o", "puts.txt"]);
    let command = command.current_dir(here).stderr(Stdio::from(std::os::fd::OwnedFd::from(full)));
    let mut child = command.spawn().unwrap();
    let begun = std::time::Instant::now();
    let left = || {
        let entries = fs::read_dir(here).unwrap().map(|entry| entry.unwrap().file_name());
        entries.filter(|name| name != "log").count()
    };
    let pid = child.id().to_string();
    // the file is there before signals are caught, SIGTERM as the last
    let is_caught = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let bits = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(bits.trim(), 16).unwrap() & (1 << 14) != 0
    };
    while !is_caught() && begun.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(is_caught());
    assert_eq!(left(), 1);
    assert!(std::process::Command::new("sh").args(["-c", "kill -TERM $0", &pid]).status().unwrap().success());
    let status = child.wait().unwrap();
    assert_eq!((status.signal(), left()), (Some(15), 0), "{status}");
}
