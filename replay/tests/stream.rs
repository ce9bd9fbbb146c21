//! `follow -`: a stream through a pipe shows what the log shows, and nothing that anybody sends gets out of the spool.
//! Streams here are made by the agent's own sender, or changed at random.

mod common;

use common::{definitions, happenings, iocreplay, outcome, run, write_log, SECOND, WALL};
use iocrec_log::checksum::checksum;
use iocrec_log::event::Event;
use iocrec_log::storage::{Clocked, Directory};
use iocrec_log::stream::{Position, Sender, FRAME_HEADER, HEADER, MAGIC};
use iocrec_log::writer::{Options, Writer};
use iocrec_testing::chance::{fuzz, Random};
use std::cell::Cell;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::rc::Rc;
use tempfile::TempDir;

/// Everything that a sender sends now.
fn sent(log: &Path, from: Option<&str>, with_end: bool) -> Vec<u8> {
    let mut sender = Sender::new(log, from.map(|from| Position::parse(from).unwrap()));
    let mut bytes = Vec::new();
    while sender.step(&mut bytes).unwrap() {}
    if with_end {
        sender.rest(true, &mut bytes).unwrap();
    }
    bytes
}

/// Runs `follow -` with this stream: exit code, standard output, standard error.
fn follow(here: &Path, stream: &[u8], options: &[&str]) -> (i32, String, String) {
    let mut command = iocreplay(["follow", "-"]);
    command.args(options).current_dir(here).env("TMPDIR", here.join("tmp"));
    let _ = fs::create_dir(here.join("tmp"));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut stdin, stream) = (child.stdin.take().unwrap(), stream.to_vec());
    // it may end before it has read all
    let writer = std::thread::spawn(move || drop(stdin.write_all(&stream)));
    let outcome = outcome(child.wait_with_output().unwrap());
    writer.join().unwrap();
    outcome
}

fn logged() -> TempDir {
    let here = tempfile::tempdir().unwrap();
    write_log(&here.path().join("log"), "box1", 7);
    here
}

/// What is in a directory, however deep.
fn files(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![path.to_owned()];
    while let Some(path) = open.pop() {
        match fs::read_dir(&path) {
            Ok(entries) => open.extend(entries.map(|entry| entry.unwrap().path())),
            Err(_) => found.push(path),
        }
    }
    found.sort();
    found
}

#[test]
fn what_comes_through_is_what_the_log_holds() {
    let here = logged();
    let stream = sent(&here.path().join("log"), None, true);
    let (code, out, err) = follow(here.path(), &stream, &["--what", "puts", "--format", "jsonl", "--utc"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let (_, puts, _) = run(here.path(), &["puts", "--format", "jsonl", "--utc", "log"]);
    let lines: Vec<String> = out.lines().map(|line| line.replacen("\"event\":\"put\",", "", 1)).collect();
    assert_eq!(lines, puts.lines().collect::<Vec<_>>());
    assert!(lines.len() >= 3);
    let (code, text, err) = follow(here.path(), &stream, &["--what", "puts", "--utc"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(text, run(here.path(), &["puts", "--utc", "log"]).1);
    let (_, all, _) = follow(here.path(), &stream, &[]);
    assert_eq!(all, run(here.path(), &["follow", "--once", "log"]).1);
    assert!(all.lines().count() > lines.len());
    assert_eq!(files(&here.path().join("tmp")), Vec::<PathBuf>::new(), "the private spool is gone");
    // what is kept is the log, byte for byte
    let (code, _, err) = follow(here.path(), &stream, &["--spool", "kept"]);
    assert!(code == 0 && err.contains("to go on: iocrec cat --from "), "{err}");
    for file in files(&here.path().join("log")) {
        let copy = here.path().join("kept").join(file.file_name().unwrap());
        assert_eq!(fs::read(&file).unwrap(), fs::read(copy).unwrap());
    }
}

/// A recorder that is killed has written a block only in part. That is sent once another segment exists.
#[test]
fn a_block_that_is_being_written_waits() {
    let here = logged();
    let log = here.path().join("log");
    let [segment] = files(&log).try_into().unwrap();
    let whole = fs::read(&segment).unwrap();
    let magic = whole.windows(4).rposition(|bytes| bytes == iocrec_log::format::BLOCK_MAGIC).unwrap();
    for cut in [magic + 1, magic + 30, magic + 52, whole.len() - 1] {
        fs::write(&segment, &whole[..cut]).unwrap();
        let mut sender = Sender::new(&log, None);
        let mut bytes = Vec::new();
        while sender.step(&mut bytes).unwrap() {}
        let frame = bytes.windows(4).rposition(|bytes| bytes == iocrec_log::format::BLOCK_MAGIC).unwrap();
        assert!(!bytes.ends_with(&whole[magic..cut]) && frame > 0, "{cut}");
        fs::write(&segment, &whole).unwrap();
        while sender.step(&mut bytes).unwrap() {}
        sender.rest(true, &mut bytes).unwrap();
        let _ = fs::remove_dir_all(here.path().join("kept"));
        assert_eq!(follow(here.path(), &bytes, &["--spool", "kept"]).0, 0);
        let kept = here.path().join("kept").join(segment.file_name().unwrap());
        assert_eq!(fs::read(kept).unwrap(), whole);
    }
    // the same end in a segment that is over
    fs::write(&segment, &whole[..whole.len() - 7]).unwrap();
    write_log(&log, "box1", 8);
    let _ = fs::remove_dir_all(here.path().join("kept"));
    assert_eq!(follow(here.path(), &sent(&log, None, true), &["--spool", "kept"]).0, 0);
    for file in files(&log) {
        let copy = here.path().join("kept").join(file.file_name().unwrap());
        assert_eq!(fs::read(&file).unwrap(), fs::read(copy).unwrap());
    }
}

/// A recorder whose log grows while a test looks.
struct Recorder {
    writer: Writer<Clocked<Directory>>,
    wall: Rc<Cell<i64>>,
}

impl Recorder {
    fn begin(log: &Path, run: u128) -> Recorder {
        fs::create_dir_all(log).unwrap();
        let wall = Rc::new(Cell::new(WALL));
        let storage = Clocked { storage: Directory::open(log).unwrap(), wall: Rc::clone(&wall) };
        let options = Options { segment: Some(64 << 10), ..Options::default() };
        let mut writer = Writer::open(storage, options, run).unwrap();
        definitions("box1").into_iter().for_each(|fact| writer.push(Event { time: 1, fact }));
        Recorder { writer, wall }
    }

    /// The same happenings once more, `times` four seconds later.
    fn go_on(&mut self, times: u64) {
        let later = times * 4 * SECOND;
        for (time, fact) in happenings() {
            self.writer.push(Event { time: time + later, fact });
        }
        let until = later + 5 * SECOND;
        self.wall.set(WALL + until as i64);
        self.writer.tick(until);
    }
}

#[test]
fn what_broke_off_goes_on_without_a_row_twice_or_missing() {
    let here = tempfile::tempdir().unwrap();
    let log = here.path().join("log");
    let mut recorder = Recorder::begin(&log, 7);
    let options = ["--spool", "kept", "--format", "jsonl", "--utc", "--what", "puts,alarms,losses,marks"];
    let (mut lines, mut from) = (Vec::new(), "oldest".to_owned());
    for times in 0..6 {
        recorder.go_on(times);
        let is_last = times == 5;
        let stream = sent(&log, Some(&from).filter(|from| *from != "oldest").map(String::as_str), is_last);
        // it breaks off between frames, and within one
        let stream = if times % 2 == 0 || is_last { &stream[..] } else { &stream[..stream.len() - 5] };
        let (code, out, err) = follow(here.path(), stream, &options);
        let has_broken = err.contains("the stream broke off; go on with iocrec cat --from 2");
        assert!(code == i32::from(!is_last) && has_broken != is_last, "{code} {err}");
        lines.extend(out.lines().map(str::to_owned));
        let (code, position, err) = run(here.path(), &["follow", "--position", "--spool", "kept"]);
        assert_eq!((code, err.as_str()), (0, ""));
        from = position.trim().to_owned();
    }
    // what had not settled at the end comes when it has
    let before = lines.len();
    std::thread::sleep(std::time::Duration::from_secs(4));
    let stream = sent(&log, Some(&from), true);
    let (code, out, err) = follow(here.path(), &stream, &options);
    assert_eq!(code, 0, "{err}");
    lines.extend(out.lines().map(str::to_owned));
    assert!(lines.len() > before);
    let once =
        ["follow", "--once", "--format", "jsonl", "--utc", "--what", "puts,alarms,losses,marks", "log"];
    let (code, all, _) = run(here.path(), &once);
    assert_eq!(code, 0);
    // how long an alarm lasted is known only later
    let key = |line: &str| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        for later in ["lasted_s", "until", "unseen"] {
            line.as_object_mut().unwrap().remove(later);
        }
        line.to_string()
    };
    let mut lines: Vec<String> = lines.iter().map(|line| key(line)).collect();
    let mut all: Vec<String> = all.lines().map(key).collect();
    lines.sort();
    all.sort();
    assert_eq!(lines, all);
    assert!(lines.iter().filter(|line| line.contains("\"event\":\"put\"")).count() >= 12);
    // and once more, nothing
    assert_eq!(follow(here.path(), &stream, &options).1, "");
}

#[test]
fn segments_that_the_cap_deletes_are_a_gap() {
    let here = tempfile::tempdir().unwrap();
    let log = here.path().join("log");
    for run in 1..6 {
        write_log(&log, "box1", run);
    }
    let segments = files(&log);
    let mut sender = Sender::new(&log, None);
    let mut stream = Vec::new();
    for _ in 0..2 {
        sender.step(&mut stream).unwrap();
    }
    // those that it reads and the next two
    segments[..3].iter().for_each(|segment| fs::remove_file(segment).unwrap());
    while sender.step(&mut stream).unwrap() {}
    sender.rest(true, &mut stream).unwrap();
    let (code, _, err) = follow(here.path(), &stream, &["--textfile", "metrics.prom"]);
    assert!(code == 0 && err.contains("a gap: the recorder deleted"), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    let metrics = fs::read_to_string(here.path().join("metrics.prom")).unwrap();
    assert!(metrics.contains("\niocrec_follow_gaps_total 1\n"), "{metrics}");
    // a position in what is gone
    let id = segments[1].file_name().unwrap().to_str().unwrap().trim_end_matches(".iocrec").to_owned();
    let (_, _, err) = follow(here.path(), &sent(&log, Some(&format!("{id}:160")), true), &[]);
    assert!(err.contains(&format!("{id}:160")), "{err}");
    // another directory in its place
    fs::rename(&log, here.path().join("away")).unwrap();
    write_log(&log, "box2", 99);
    while sender.step(&mut stream).unwrap() {}
    let (_, _, err) = follow(here.path(), &stream[..], &["--spool", "kept"]);
    assert!(!err.contains("differs"), "{err}");
}

/// Segments are pinned by renaming them.
#[test]
fn pins_and_replaced_directories_come_through() {
    let here = logged();
    let log = here.path().join("log");
    let mut sender = Sender::new(&log, None);
    let mut stream = Vec::new();
    while sender.step(&mut stream).unwrap() {}
    let [segment] = files(&log).try_into().unwrap();
    let pinned = segment.to_str().unwrap().replace(".iocrec", "-mark.iocrec");
    fs::rename(&segment, &pinned).unwrap();
    assert!(!sender.step(&mut stream).unwrap(), "there is nothing new but the name");
    fs::rename(&log, here.path().join("away")).unwrap();
    write_log(&log, "box2", 9);
    while sender.step(&mut stream).unwrap() {}
    sender.rest(true, &mut stream).unwrap();
    let (code, out, err) = follow(here.path(), &stream, &["--spool", "kept", "--format", "jsonl"]);
    assert!(code == 0 && err.contains("the recorder's directory is another one now"), "{err}");
    let name = Path::new(&pinned).file_name().unwrap();
    assert!(here.path().join("kept").join(name).exists());
    // both hosts tell of the same put on the same circuit at the same time: it is one, and told once
    assert_eq!(out.matches("\"pv\":\"T:SP\"").count(), 1, "{out}");
    let [new] = files(&log).try_into().unwrap();
    let copy = here.path().join("kept/00000001").join(new.file_name().unwrap());
    assert_eq!(fs::read(&new).unwrap(), fs::read(copy).unwrap());
    let (_, iocs, _) = run(here.path(), &["iocs", "--json", "kept"]);
    assert!(iocs.contains("\"host\":\"box1\"") && iocs.contains("\"host\":\"box2\""), "{iocs}");
}

/// One line, exit code 1, and no file outside of the spool.
fn refuses(here: &Path, stream: &[u8], part: &str) {
    let before = files(here);
    let (code, out, err) = follow(here, stream, &["--utc"]);
    assert_eq!((code, err.lines().count()), (1, 1), "{err}");
    assert!(err.starts_with("iocreplay: ") && err.contains(part), "'{part}' is not in: {err}");
    assert!(out.is_empty() || part != "no stream", "{out}");
    assert_eq!(files(here), before);
}

/// A frame with right checksums, whatever it says.
fn frame(kind: u16, name: &[u8], offset: u64, payload: &[u8]) -> Vec<u8> {
    let body = [payload, name].concat();
    let mut frame = Vec::new();
    frame.extend(kind.to_le_bytes());
    frame.extend((name.len() as u16).to_le_bytes());
    frame.extend((payload.len() as u32).to_le_bytes());
    frame.extend(offset.to_le_bytes());
    frame.extend(checksum(&body).to_le_bytes());
    frame.extend(checksum(&frame).to_le_bytes());
    [frame, body].concat()
}

fn header() -> Vec<u8> {
    let mut header = [&MAGIC[..], &[1, 0, 0, 0]].concat();
    header.extend(checksum(&header).to_le_bytes());
    header
}

#[test]
fn hostile_streams_are_refused() {
    let here = logged();
    let here = here.path();
    refuses(here, b"", "broke off");
    refuses(
        here,
        b"Last login: Mon\n\x1b[2Jroot@box:~# ",
        "no stream of iocrec cat: it begins with 'Last login",
    );
    refuses(here, &[0; 100_000], "no stream");
    refuses(here, &header()[..HEADER - 1], "no stream");
    let mut newer = [&MAGIC[..], &[2, 0, 0, 0]].concat();
    newer.extend(checksum(&newer).to_le_bytes());
    refuses(here, &newer, "version 2");
    let sound = sent(&here.join("log"), None, true);
    let mut wrong = sound.clone();
    wrong[HEADER - 1] ^= 1;
    refuses(here, &wrong, "its header is wrong");
    for at in [HEADER, HEADER + 5, HEADER + FRAME_HEADER - 1] {
        let mut wrong = sound.clone();
        wrong[at] ^= 1;
        refuses(here, &wrong, "a frame's header is wrong");
    }
    let mut wrong = sound.clone();
    wrong[HEADER + FRAME_HEADER + 200] ^= 1;
    refuses(here, &wrong, "the checksum of a frame is wrong");
    let good = "20260131T235959Z-0000000042.iocrec";
    for name in [
        &b"../20260131T235959Z-0000000042.iocrec"[..],
        b"/etc/20260131T235959Z-0000000042.iocrec",
        b"20260131T235959Z-0000000042.iocrec\0",
        b"..",
        b"",
        b"20260131T235959Z-0000000042-../x.iocrec",
        b"\xff\xfe.iocrec",
        b".iocreplay-spool",
        b"x/20260131T235959Z-0000000042.iocrec",
    ] {
        for kind in [1, 2] {
            refuses(here, &[header(), frame(kind, name, 0, &[7; 20])].concat(), "which is no segment");
        }
    }
    // lengths that nobody has, with a right checksum
    for (name, payload) in [(60_u16, u32::MAX), (u16::MAX, 1), (65, 1), (0, 263_285)] {
        let mut huge = Vec::from(1_u16.to_le_bytes());
        huge.extend(name.to_le_bytes());
        huge.extend(payload.to_le_bytes());
        huge.extend([0; 12]);
        huge.extend(checksum(&huge).to_le_bytes());
        refuses(here, &[header(), huge].concat(), "longer than any can be");
    }
    let ahead = frame(1, good.as_bytes(), u64::MAX, b"x");
    refuses(here, &[header(), ahead].concat(), "the stream goes on at");
    let hole = [header(), frame(1, good.as_bytes(), 0, b"x"), frame(1, good.as_bytes(), 2, b"x")].concat();
    refuses(here, &hole, "ends at 20260131T235959Z-0000000042:1");
    let other = [header(), frame(1, good.as_bytes(), 0, b"xy"), frame(1, good.as_bytes(), 0, b"xz")].concat();
    refuses(here, &other, "other bytes");
    for kind in [2, 4, 5] {
        refuses(here, &[header(), frame(kind, good.as_bytes(), 0, b"")].concat(), "too short");
    }
    // kinds to come are passed over
    let unknown = [header(), frame(77, b"\0", 0, b"x"), sound[HEADER..].to_vec()].concat();
    assert_eq!(follow(here, &unknown, &[]).0, 0);
}

#[test]
fn streams_at_random() {
    let here = logged();
    let log = here.path().join("log");
    write_log(&log, "box1", 8);
    let sound = sent(&log, None, true);
    let before = files(here.path()).len();
    fuzz(25, |random: &mut Random| {
        let mut stream = sound.clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(stream.len());
            match random.below(3) {
                0 => stream[at] ^= 1 << random.below(8),
                1 => stream.truncate(at.max(1)),
                _ => drop(stream.splice(at..(at + 9).min(stream.len()), [0xff; 5])),
            }
        }
        let (code, _, err) = follow(here.path(), &stream, &[]);
        assert!(code <= 1 && err.lines().count() <= 1 && err.is_empty() == (code == 0), "{code} {err}");
        assert_eq!(files(here.path()).len(), before);
    });
}

/// A spool never grows beyond its size, and never touches what is not its own.
#[test]
fn spools_are_bounded_and_careful() {
    let here = logged();
    let path = here.path();
    let (code, _, err) = follow(path, &[], &["--spool", "log"]);
    assert!(code == 1 && err.contains("log holds other files") && err.lines().count() == 1, "{err}");
    // many segments of noise
    let mut stream = header();
    let noise = vec![0x55; 200_000];
    for number in 0..30 {
        let name = format!("20260131T235959Z-{number:010}.iocrec");
        stream.extend(frame(1, name.as_bytes(), 0, &noise));
    }
    let (code, _, err) = follow(path, &stream, &["--spool", "kept", "--spool-size", "1M"]);
    assert!(code == 1, "{err}");
    let bytes: u64 = files(&path.join("kept")).iter().map(|file| file.metadata().unwrap().len()).sum();
    assert!(bytes < (1 << 20) + 4096, "{bytes}");
    assert!(err.contains("dropped from the full spool") || err.contains("is full"), "{err}");
    // two at once, and a note that is no note
    let (code, position, _) = run(path, &["follow", "--position", "--spool", "kept"]);
    assert_eq!((code, position.trim()), (0, "20260131T235959Z-0000000029:200000"));
    // a link in place of a segment
    #[cfg(unix)]
    {
        let (name, victim) = ("20260131T235959Z-0000000030.iocrec", path.join("victim"));
        fs::write(&victim, "another's").unwrap();
        std::os::unix::fs::symlink(&victim, path.join("kept").join(name)).unwrap();
        let _ = follow(path, &[header(), frame(1, name.as_bytes(), 0, b"x")].concat(), &["--spool", "kept"]);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "another's");
        assert_eq!(fs::read(path.join("kept").join(name)).unwrap(), b"x");
        use std::os::unix::fs::MetadataExt;
        let mode = fs::metadata(path.join("kept").join(name)).unwrap().mode();
        assert_eq!(mode & 0o137, 0, "as a log, for its owner and group: {mode:o}");
    }
    fs::write(path.join("kept/.iocreplay-followed"), "{").unwrap();
    let (code, _, err) = follow(path, &header(), &["--spool", "kept"]);
    assert!(code == 1 && err.contains(".iocreplay-followed is damaged; delete it"), "{err}");
    let (code, position, _) = run(path, &["follow", "--position", "--spool", "new"]);
    assert_eq!((code, position.trim()), (0, "oldest"));
}
