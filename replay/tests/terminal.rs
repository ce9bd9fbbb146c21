//! What a person sees on a terminal: progress while a log is read, and colours. Programs and files get neither.

mod common;

use common::SECOND;
use iocrec_log::event::*;
use iocrec_log::storage::Directory;
use iocrec_log::writer::{Options, Writer};
use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Three times as long as progress is silent at first.
const LONG: Duration = Duration::from_secs(3);

/// A terminal that is no device: what is written to the one end is read from the other.
fn terminal() -> (File, OwnedFd) {
    let (mut reader, mut writer) = (-1, -1);
    let none = std::ptr::null_mut();
    // SAFETY: the first two pointers are to live integers; the others may be null.
    let failed = unsafe { libc::openpty(&mut reader, &mut writer, none, none.cast(), none.cast()) };
    assert_eq!(failed, 0);
    // SAFETY: openpty has opened both, and nothing else owns them.
    unsafe { (File::from_raw_fd(reader), OwnedFd::from_raw_fd(writer)) }
}

/// Where standard output and standard error go.
#[derive(Clone, Copy, PartialEq)]
enum To {
    Terminal,
    Pipe,
    Nowhere,
}

/// Runs iocreplay with its output and its errors there. Returns what came of each.
fn run(arguments: &[&str], out: To, error: To, environment: &[(&str, &str)]) -> [String; 2] {
    let mut command: Command = common::iocreplay(arguments);
    command.env_remove("NO_COLOR").env("TERM", "xterm").envs(environment.iter().copied());
    let readers = [out, error].map(|to| {
        let (reader, writer): (Box<dyn Read + Send>, Stdio) = match to {
            To::Terminal => {
                let (reader, writer) = terminal();
                (Box::new(reader), writer.into())
            }
            To::Pipe => {
                let (reader, writer) = std::io::pipe().unwrap();
                (Box::new(reader), writer.into())
            }
            To::Nowhere => (Box::new(std::io::empty()), Stdio::null()),
        };
        (reader, writer)
    });
    let [(out, to_out), (error, to_error)] = readers;
    let mut child = command.stdout(to_out).stderr(to_error).spawn().unwrap();
    drop(command); // its ends of the terminal and pipes
    let read = |mut from: Box<dyn Read + Send>| {
        thread::spawn(move || {
            let mut all = Vec::new();
            // A terminal whose other end is closed fails, after all has been read.
            let _ = from.read_to_end(&mut all);
            String::from_utf8(all).unwrap()
        })
    };
    let texts = [read(out), read(error)];
    child.wait().unwrap();
    texts.map(|text| text.join().unwrap())
}

/// A log of so many processings.
fn write_long(directory: &Path, count: u32) {
    let options = Options { max_disk: 1 << 30, ..Options::default() };
    let mut writer = Writer::open(Directory::open(directory).unwrap(), options, 7).unwrap();
    let mut time = SECOND;
    for fact in common::definitions("box1") {
        writer.push(Event { time, fact });
    }
    for number in 0..count {
        time += 50_000;
        let (thread, sp, site, record) = (3, -100, 0, 1 + number % 2);
        writer.push(Event { time, fact: Fact::Process(Process { thread, sp, site, record, active: false }) });
        if number % 1000 == 0 {
            writer.tick(time);
        }
    }
    writer.close(time);
}

/// A log that this machine reads for [`LONG`] to answer that question.
fn long_log(question: &[&str]) -> tempfile::TempDir {
    let mut count = 300_000;
    loop {
        let directory = tempfile::tempdir().unwrap();
        write_long(directory.path(), count);
        let begin = Instant::now();
        let log = [directory.path().to_str().unwrap()];
        run(&[question, &log].concat(), To::Nowhere, To::Nowhere, &[]);
        let took = begin.elapsed();
        if took >= LONG {
            return directory;
        }
        count = (f64::from(count) * (1.2 * LONG.as_secs_f64() / took.as_secs_f64()).clamp(2.0, 8.0)) as u32;
    }
}

#[test]
fn progress_is_shown_only_to_people() {
    let question = ["traces", "--user", "nobody", "--utc"];
    let directory = long_log(&question);
    let log = directory.path().to_str().unwrap();
    let traces = [question.as_slice(), &[log]].concat();
    let error = |error, environment: &[(&str, &str)]| {
        let [out, error] = run(&traces, To::Nowhere, error, environment);
        assert_eq!(out, "");
        error
    };
    let shown = error(To::Terminal, &[]);
    assert!(shown.contains("\r\x1b[?7liocreplay: ") && shown.contains(" kB read, at 20"), "{shown:?}");
    // At last nothing of it is left, and what follows is on a line of its own.
    let (_, last) = shown.rsplit_once("\r\x1b[K").unwrap();
    assert!(last.starts_with("iocreplay: ") && !last.contains("% of"), "{shown:?}");
    for quiet in [error(To::Pipe, &[]), error(To::Terminal, &[("TERM", "dumb")])] {
        assert!(!quiet.contains('\x1b') && !quiet.contains("% of"), "{quiet:?}");
    }
    // What is printed meanwhile is not disturbed: its lines are those of a pipe, and nothing comes between.
    let [printed, shown] = run(&["traces", "--utc", log], To::Terminal, To::Terminal, &[]);
    let [expected, _] = run(&["traces", "--utc", log], To::Pipe, To::Nowhere, &[]);
    assert!(printed.replace("\r\n", "\n") == expected, "the same lines");
    assert!(!shown.contains("% of"), "{shown:?}");
}

/// Bytes of a log, which a terminal may obey, and pages of HTML are for files and pipes; `-o -` names none.
#[test]
fn what_is_no_text_is_not_shown() {
    let directory = tempfile::tempdir().unwrap();
    common::write_log(directory.path(), "box1", 1);
    let log = [directory.path().to_str().unwrap()];
    let commands: [&[&str]; 3] =
        [&["traces", "--format", "otlp-proto"], &["traces", "--format", "perfetto"], &["report"]];
    let outputs: [&[&str]; 2] = [&[], &["-o", "-"]];
    for words in commands {
        for output in outputs {
            let arguments = [words, output, &log].concat();
            let [out, error] = run(&arguments, To::Terminal, To::Pipe, &[]);
            assert!(
                out.is_empty() && error.contains("a terminal can't show"),
                "{arguments:?}: {out} {error}"
            );
        }
    }
}

#[test]
fn colours_are_shown_only_to_people() {
    let directory = tempfile::tempdir().unwrap();
    common::write_log(directory.path(), "box1", 1);
    let log = directory.path().to_str().unwrap();
    let commands: [&[&str]; 6] = [
        &["puts", "--utc", log],
        &["traces", "--utc", log],
        &["why", "R:FAR", "--utc", log],
        &["alarms", "--utc", log],
        &["values", "*", "--utc", log],
        &["at", "2026-09-21T14:13:22Z", "--utc", log],
    ];
    for command in commands {
        let [plain, _] = run(command, To::Pipe, To::Pipe, &[]);
        assert!(!plain.contains('\x1b') && !plain.is_empty());
        let [coloured, _] = run(command, To::Terminal, To::Pipe, &[]);
        let codes = ["\x1b[31m", "\x1b[33m", "\x1b[35m", "\x1b[0m"];
        let without = codes.iter().fold(coloured.clone(), |text, code| text.replace(code, ""));
        assert_eq!(without.replace("\r\n", "\n"), plain);
        match command[0] {
            "puts" | "traces" => assert!(coloured.contains("\x1b[31mdenied"), "{coloured:?}"),
            "why" => {}
            _ => assert!(
                coloured.contains("  \x1b[31mMAJOR\x1b[0m ") || coloured.contains("-> \x1b[31mMAJOR\x1b[0m "),
                "{coloured:?}"
            ),
        }
        for environment in [("NO_COLOR", "1"), ("TERM", "dumb")] {
            let [refused, _] = run(command, To::Terminal, To::Terminal, &[environment]);
            assert_eq!(refused.replace("\r\n", "\n"), plain);
        }
    }
    let missing = ["puts", "/nonexistent"];
    let [_, said] = run(&missing, To::Pipe, To::Terminal, &[]);
    assert!(said.contains("iocreplay:"), "{said:?}");
    let usage = ["puts", "--nonsense", log];
    let [_, said] = run(&usage, To::Pipe, To::Terminal, &[]);
    assert!(said.starts_with("\x1b[31miocreplay:\x1b[0m "), "{said:?}");
    for (to, environment) in [(To::Pipe, ("NO_COLOR", "")), (To::Terminal, ("NO_COLOR", "1"))] {
        let [_, said] = run(&usage, To::Pipe, to, &[environment]);
        assert!(said.starts_with("iocreplay: "), "{said:?}");
    }
}
