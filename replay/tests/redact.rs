//! A redacted copy: sound, with the same structure, and nothing of the original left in any byte.
//!
//! What must be gone is found without the code under test: each fact of the original is turned into JSON by serde, and
//! every text, every list of bytes and every number with a fraction in it counts. So a new member of a fact is looked for
//! from the day on which a log holds it.

#[path = "../../tests/rig/not_run.rs"]
mod not_run;

use iocrec_log::reader::{find, Segment};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn iocreplay(words: &[&str]) -> (i32, String, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_iocreplay")).args(words).env("TZ", "UTC").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
}

/// Redacts a log into a new directory.
fn redacted(log: &Path, options: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("copy");
    let words = [&["redact", log.to_str().unwrap(), "-o", to.to_str().unwrap()], options].concat();
    let (code, out, err) = iocreplay(&words);
    assert_eq!((code, err.as_str()), (0, ""), "{log:?}: {out}");
    (place, to)
}

/// The logs of the repository: of machines of every kind, of a plant, and the golden ones, which together hold every fact.
fn logs() -> Vec<PathBuf> {
    let mut logs = vec![here("tests/plant/log")];
    logs.extend(
        fs::read_dir(here("tests/travelled")).unwrap().map(|entry| entry.unwrap().path().join("log")),
    );
    let golden = fs::read_dir(here("../log/tests/golden")).unwrap().map(|entry| entry.unwrap().path());
    logs.extend(golden.filter(|path| path.extension().is_some_and(|ending| ending == "iocrec")));
    assert!(logs.len() > 20);
    logs
}

/// What a log holds of texts, bytes and numbers.
#[derive(Default)]
struct Held {
    texts: BTreeSet<Vec<u8>>,
    /// Bits of numbers with a fraction.
    numbers: BTreeSet<u64>,
    addresses: BTreeSet<u32>,
    kinds: BTreeSet<String>,
    events: usize,
    times: Vec<u64>,
}

impl Held {
    fn add(&mut self, key: &str, value: &Value) {
        match value {
            Value::String(text) => {
                self.texts.insert(text.clone().into_bytes());
            }
            Value::Number(number) if number.is_f64() => {
                let number = number.as_f64().unwrap();
                if number.fract() != 0.0 {
                    self.numbers.insert(number.abs().to_bits());
                }
            }
            Value::Number(number) if key == "ip" => {
                self.addresses.insert(number.as_u64().unwrap() as u32);
            }
            Value::Array(all) => {
                let byte = |value: &Value| u8::try_from(value.as_u64()?).ok();
                match all.iter().map(byte).collect::<Option<Vec<u8>>>() {
                    Some(bytes) if !all.is_empty() => {
                        if key == "ip" && bytes.len() == 4 {
                            self.addresses.insert(u32::from_be_bytes(bytes.clone().try_into().unwrap()));
                        }
                        self.texts.insert(bytes);
                    }
                    _ => all.iter().for_each(|value| self.add(key, value)),
                }
            }
            Value::Object(all) => {
                for (key, value) in all {
                    if key.starts_with(|c: char| c.is_ascii_uppercase()) {
                        self.kinds.insert(key.clone());
                    }
                    self.add(key, value);
                }
            }
            _ => {}
        }
    }
}

fn held(log: &Path) -> Held {
    let mut held = Held::default();
    for file in find(log).unwrap() {
        let header = file.header.unwrap();
        held.texts.insert(header.run.to_le_bytes().to_vec());
        held.texts.insert(header.boot_id.to_vec());
        let mut segment = Segment::open(&file.path).unwrap();
        while let Some(block) = segment.next_block() {
            for event in block.unwrap().events {
                held.events += 1;
                held.times.push(event.time);
                held.add("", &serde_json::to_value(&event.fact).unwrap());
            }
        }
    }
    held
}

/// Every byte of a log, packed and unpacked, with the names of its files.
fn bytes(log: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for file in find(log).unwrap() {
        all.extend(file.path.file_name().unwrap().as_encoded_bytes());
        let raw = fs::read(&file.path).unwrap();
        all.extend(&raw);
        let mut at = 160;
        while let Some(header) = raw.get(at..at + 52) {
            let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap()) as usize;
            let body = &raw[at + 52..at + 52 + word(20)];
            all.extend(zstd::decode_all(body).unwrap());
            at += 52 + word(20);
        }
        assert_eq!(at, raw.len());
        let mut segment = Segment::open(&file.path).unwrap();
        while let Some(block) = segment.next_block() {
            for event in block.unwrap().events {
                // numbers stand as differences in a body
                all.extend(format!("{:?}", event.fact).into_bytes());
            }
        }
    }
    all
}

fn contains(all: &[u8], part: &[u8]) -> bool {
    let first = part[0];
    let mut from = 0;
    while let Some(found) = all[from..].iter().position(|byte| *byte == first) {
        from += found;
        if all[from..].starts_with(part) {
            return true;
        }
        from += 1;
    }
    false
}

/// Names of variants and members that `{:?}` prints, words of Base and of the kernel: they tell nothing of a site. A text
/// is looked for only from five bytes on, since shorter ones are found in anything by chance.
fn is_public(text: &[u8]) -> bool {
    const WORDS: &str = "CAS-client CAS-TCP CAS-event CAS-UDP CAS-beacon CAC-event scan-0.1 scan-1 scanOnce cbLow cbMedium \
        cbHigh dbCaLink errlog taskwd _main_ PVXTCP TCP-rx longin longout calcout stringin stringout waveform mbbi mbbo \
        compress menuScan Passive Event localhost x86_64 aarch64 armv7l riscv64 softIoc process record value Unknown \
        localtime anonymous dbProcess dbPut dbPutField processTarget dbScanPassive recGblFwdLink scanList periodicTask \
        dbCaTask dbChannel_put dbNotifyCompletion db_put_process processNotifyCommon scanStop write_notify_action postEvent \
        python scan-0.5 timerQueue int64in int64out menuAlarmSevr menuYesNo 7.0.10.1-DEV MINOR MAJOR INVALID";
    // a type of PVAccess: a structure with a double named value
    if text == b"\x80\0\x01\x05valueC" {
        return true;
    }
    // a socket's address on loopback
    if matches!(text, [2, 0, _, _, 127, 0, 0, 1, ..]) {
        return true;
    }
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let is_version = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.len() < 5
        || is_version
        || WORDS.split_whitespace().any(|word| word == text)
        || text.ends_with(" second")
        || text.strip_prefix("exit status ").is_some_and(|status| status.parse::<u8>().is_ok())
        || text
            .strip_prefix("killed by SIG")
            .is_some_and(|signal| signal.bytes().all(|c| c.is_ascii_uppercase()))
        || text.starts_with("EPICS_")
        || text.starts_with("lib") && text.contains(".so")
        || ["processing", "puts", "console", "resources"]
            .iter()
            .any(|of| text.starts_with(&format!("{of}: not recorded (--")))
        || VARIANTS.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == text)
        || text.split(' ').all(|word| word.starts_with("127.0.0.1:"))
        || PUBLIC.contains(&text)
}

/// Variants of enums, as serde and `{:?}` write them.
const VARIANTS: &str = include_str!("../../docs/format.md");
/// Texts of Base with blanks in them.
const PUBLIC: [&str; 7] = [
    "I/O Intr",
    "Soft Channel",
    "Raw Soft Channel",
    "Async Soft Channel",
    "NO_ALARM",
    "Continue normally",
    "Don't drive outputs",
];

/// Whether bytes are whole numbers up to 15, which stay: of any width, behind a set of changed fields or not.
fn is_choices(bytes: &[u8]) -> bool {
    let whole = |number: f64| number.fract() == 0.0 && number.abs() < 16.0;
    let double = |part: &[u8]| part.try_into().is_ok_and(|part| whole(f64::from_le_bytes(part)));
    let single = |part: &[u8]| part.try_into().is_ok_and(|part| whole(f32::from_le_bytes(part).into()));
    let short = |part: &[u8]| part.try_into().is_ok_and(|part| i16::from_le_bytes(part).unsigned_abs() < 16);
    let network = |part: &[u8]| part.try_into().is_ok_and(|part| whole(f64::from_be_bytes(part)));
    [bytes, bytes.get(2..).unwrap_or_default()].into_iter().any(|bytes| {
        bytes.iter().all(|byte| *byte < 16)
            || bytes.chunks(2).all(short)
            || bytes.chunks(8).all(double)
            || bytes.chunks(4).all(single)
            || bytes.chunks(8).all(network)
    })
}

#[test]
fn nothing_of_the_originals_is_left() {
    let (mut kinds, mut found, mut checked) = (BTreeSet::new(), Vec::new(), 0);
    for log in logs() {
        let (_place, copy) = redacted(&log, &[]);
        let (before, after, all) = (held(&log), held(&copy), bytes(&copy));
        kinds.extend(before.kinds.iter().cloned());
        assert_eq!(before.times, after.times, "{log:?}");
        let mut left = BTreeSet::new();
        for text in before.texts.iter().filter(|text| !is_public(text)) {
            if is_choices(text) {
                continue;
            }
            checked += 1;
            if contains(&all, text) {
                left.insert(String::from_utf8_lossy(text).into_owned());
            }
        }
        if !left.is_empty() {
            found.push(format!("{log:?}: {left:?}"));
        }
        for address in before.addresses.iter().filter(|ip| **ip >= 1 << 24 && **ip >> 24 != 127) {
            assert!(!after.addresses.contains(address), "{log:?}: {address:#x}");
            let dotted = std::net::Ipv4Addr::from(*address).to_string();
            assert!(!contains(&all, dotted.as_bytes()), "{log:?}: {dotted}");
        }
        let same: Vec<f64> =
            before.numbers.intersection(&after.numbers).map(|bits| f64::from_bits(*bits)).collect();
        assert_eq!(same, Vec::<f64>::new(), "{log:?}");
        let name = log.display().to_string();
        assert_eq!(
            iocreplay(&["verify", copy.to_str().unwrap()]).0,
            iocreplay(&["verify", &name]).0,
            "{name}"
        );
    }
    assert!(found.is_empty(), "left in copies: {}", found.join("\n"));
    assert!(checked > 1000, "{checked} texts");
    // serde names a fact without members by a text
    for kind in iocrec_log::event::Fact::KINDS {
        let is_seen = kinds.contains(kind.variant);
        assert!(is_seen, "no log here holds {}: add a golden segment", kind.variant);
    }
}

/// Times in the JSON lines of an answer, and how many lines there are.
fn shape(log: &Path, words: &[&str], leave_out: &str) -> Vec<Vec<String>> {
    let (code, out, _) = iocreplay(&[words, &[log.to_str().unwrap()]].concat());
    assert_eq!(code, 0, "{words:?} {log:?}");
    let keys = [
        "time",
        "outcome",
        "status",
        "severity",
        "old_severity",
        "from",
        "to",
        "kind",
        "client_port",
        "trigger",
    ];
    let line = |line: &str| {
        let Ok(Value::Object(all)) = serde_json::from_str(line) else { return vec![] };
        let keys = keys.iter().filter(|key| **key != leave_out);
        keys.filter_map(|key| Some(format!("{key} {}", all.get(*key)?))).collect()
    };
    out.lines().map(line).collect()
}

#[test]
fn a_copy_has_the_same_structure() {
    for log in logs().iter().filter(|log| log.is_dir()) {
        for values in ["replace", "scale", "drop"] {
            let (_place, copy) = redacted(log, &["--values", values]);
            for words in [
                ["puts", "--all", "--format", "jsonl", "--utc"].as_slice(),
                &["traces", "--utc"],
                &["alarms", "--all", "--format", "jsonl", "--utc"],
                &["records", "--format", "jsonl"],
                &["iocs", "--format", "jsonl"],
                &["clients", "--format", "jsonl"],
                &["console", "--format", "jsonl"],
            ] {
                // by its value alone it is known of some puts that they were carried out
                let leave_out = if values == "drop" { "status" } else { "" };
                let (before, after) = (shape(log, words, leave_out), shape(&copy, words, leave_out));
                let different = before.iter().zip(&after).find(|(before, after)| before != after);
                assert_eq!((different, before.len()), (None, after.len()), "{values} {words:?} {log:?}");
            }
            let (code, page, err) = iocreplay(&["report", copy.to_str().unwrap(), "--utc"]);
            assert_eq!((code, err.as_str()), (0, ""), "{log:?}");
            assert!(page.contains("</html>"));
        }
    }
}

#[test]
fn what_is_to_be_kept_stays() {
    let log = here("tests/plant/log");
    let (_place, copy) = redacted(&log, &["--keep-names", "--values", "keep"]);
    let puts = |log: &Path| -> Vec<Value> {
        let (_, out, _) = iocreplay(&["puts", "--all", "--format", "jsonl", "--utc", log.to_str().unwrap()]);
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let (before, after) = (puts(&log), puts(&copy));
    assert!(before.len() > 20);
    assert_eq!(before.len(), after.len());
    for (before, after) in before.iter().zip(&after) {
        for key in ["pv", "requested", "old", "new", "ioc", "time", "requested_cut", "new_text", "dbr"] {
            assert_eq!(before.get(key), after.get(key), "{before} {after}");
        }
        assert!(before["user"].is_null() || before["user"] != after["user"], "{after}");
    }
}

#[test]
fn the_same_is_replaced_by_the_same_and_a_map_tells_by_what() {
    let logs = [here("tests/travelled/x86_64-6.1/log"), here("tests/travelled/i686-5.10/log")];
    let place = tempfile::tempdir().unwrap();
    let (to, map) = (place.path().join("copy"), place.path().join("map"));
    let words = [logs[0].to_str().unwrap(), logs[1].to_str().unwrap(), "-o", to.to_str().unwrap()];
    let (code, _, err) = iocreplay(&[&["redact", "--map", map.to_str().unwrap()], words.as_slice()].concat());
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(fs::metadata(&map).unwrap().permissions().mode() & 0o777, 0o600);
    let lines = fs::read_to_string(&map).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // the names of both logs' records, each once, and as the copy has them
    let of = |kind: &str, key: &str| -> BTreeSet<String> {
        let of_kind = lines.iter().filter(|line| line["kind"] == kind);
        of_kind.map(|line| line[key].as_str().unwrap().to_owned()).collect()
    };
    let records = |logs: &[&Path]| -> BTreeSet<String> {
        let paths: Vec<&str> = logs.iter().map(|log| log.to_str().unwrap()).collect();
        let (_, out, _) = iocreplay(&[["records", "--format", "jsonl"].as_slice(), &paths].concat());
        let name =
            |line: &str| serde_json::from_str::<Value>(line).unwrap()["record"].as_str().unwrap().to_owned();
        out.lines().map(name).collect()
    };
    let originals = records(&[&logs[0], &logs[1]]);
    assert!(originals.len() > 3 && originals.is_subset(&of("pv", "original")), "{originals:?}");
    assert!(records(&[&to]).is_subset(&of("pv", "replacement")));
    assert_eq!(of("pv", "original").len(), of("pv", "replacement").len());
    // another run has another secret
    let (_place, other) = redacted(&logs[0], &[]);
    assert!(records(&[&other]).is_disjoint(&records(&[&to])));
}

#[test]
fn nothing_is_overwritten() {
    let log = here("tests/travelled/x86_64-6.1/log");
    let log = log.to_str().unwrap();
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir(at("full")).unwrap();
    fs::write(at("full/file"), "mine").unwrap();
    fs::write(at("file"), "mine").unwrap();
    let inside = format!("{log}/copy");
    for (words, says) in [
        (vec!["redact", log, "-o", &at("full")], "not an empty directory"),
        (vec!["redact", log, "-o", &at("file")], "not an empty directory"),
        (vec!["redact", log, "-o", log], "not an empty directory"),
        (vec!["redact", log, "-o", &inside], "in the directory of a log"),
        (vec!["redact", log, "-o", &at("new"), "--map", &at("file")], "is not overwritten"),
        (vec!["redact", log, "-o", &at("no/such")], "can't write"),
    ] {
        let (code, out, err) = iocreplay(&words);
        assert_eq!((code, out.as_str(), err.lines().count()), (1, "", 1), "{words:?}: {err}");
        assert!(err.contains(says), "{err}");
    }
    assert!(!Path::new(&inside).exists() && !Path::new(&at("new")).exists(), "what was made is removed");
    assert_eq!(fs::read_to_string(at("full/file")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(at("file")).unwrap(), "mine");
    for words in [
        vec!["redact", log, "--map", "x"],
        vec!["redact", log, "-o", ""],
        // a copy is to be sent on as it is, without what tells the originals
        vec!["redact", log, "-o", &at("new"), "--map", &at("new/map")],
        vec!["redact", log, "-o", &at("new"), "--map", &at("new/../new/deep/map")],
        vec!["redact", log, "--values", "x"],
        vec!["redact", log, "--clock-offset", "box1=3600"],
    ] {
        let (code, _, err) = iocreplay(&words);
        assert_eq!((code, err.lines().count()), (2, 1), "{words:?}: {err}");
    }
    assert!(!Path::new(&at("new")).exists());
    // without a place it only counts
    let (code, out, _) = iocreplay(&["redact", log]);
    assert_eq!((code, out.contains("events: ")), (0, true), "{out}");
}

/// A disk that is full, in a mount namespace of its own.
#[test]
fn a_full_disk_is_one_line_and_leaves_nothing() {
    let script = "mount -t tmpfs -o size=16k,mode=700 none \"$1\" || exit 99; \
        \"$0\" redact \"$2\" -o \"$1/copy\"; code=$?; ls -A \"$1\"; exit $code";
    let place = tempfile::tempdir().unwrap();
    let done = Command::new("unshare")
        .args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_iocreplay")])
        .args([place.path(), &here("tests/plant/log")])
        .output();
    let done = match done {
        Ok(done) if done.status.code() == Some(99) || done.status.code().is_none() => {
            return not_run::not_run(
                "a full disk",
                not_run::Needs::root_or_kernel("a tmpfs in a mount namespace"),
            )
        }
        Ok(done) if String::from_utf8_lossy(&done.stderr).starts_with("unshare:") => {
            return not_run::not_run(
                "a full disk",
                not_run::Needs::root_or_kernel("a tmpfs in a mount namespace"),
            )
        }
        Ok(done) => done,
        Err(_) => return not_run::not_run("a full disk", not_run::Needs::Program("unshare")),
    };
    let err = String::from_utf8_lossy(&done.stderr);
    assert_eq!((done.status.code(), err.lines().count(), done.stdout.len()), (Some(1), 1, 0), "{err}");
    assert!(err.contains("No space left on device"), "{err}");
}

/// Damaged logs: no panic, and what was damaged is missing in the copy as well.
#[test]
fn damaged_logs_give_a_copy_without_what_is_damaged() {
    let original = find(&here("tests/plant/log")).unwrap().remove(0);
    let bytes = fs::read(&original.path).unwrap();
    for seed in 1..40_usize {
        let mut bytes = bytes.clone();
        let at = 160 + (seed * 7919 * 131) % (bytes.len() - 160);
        match seed % 3 {
            0 => bytes.truncate(at),
            1 => bytes[at] ^= 1 << (seed % 8),
            _ => drop(bytes.drain(at..(at + 64 * seed).min(bytes.len()))),
        }
        let place = tempfile::tempdir().unwrap();
        let log = place.path().join("secret-name.iocrec");
        fs::write(&log, &bytes).unwrap();
        let to = place.path().join("copies");
        fs::create_dir(&to).unwrap();
        let to = to.join("copy");
        let (code, _, err) = iocreplay(&["redact", log.to_str().unwrap(), "-o", to.to_str().unwrap()]);
        assert!(code <= 1 && !err.contains(" 1 blocks"), "{seed}: {err}");
        let name = find(&to).unwrap().remove(0).path;
        assert!(!name.to_str().unwrap().contains("secret"));
        // Every block of the copy is right.
        let mut segment = Segment::open(&name).unwrap();
        let mut count = 0;
        while let Some(block) = segment.next_block() {
            match block {
                Ok(_) => count += 1,
                Err(damage) => assert_eq!(damage.cause, iocrec_log::reader::Cause::Missing, "{seed}"),
            }
        }
        let mut damaged = Segment::open(&log).unwrap();
        let readable = std::iter::from_fn(|| damaged.next_block()).filter(Result::is_ok).count();
        assert_eq!(count, readable, "{seed}");
    }
}
