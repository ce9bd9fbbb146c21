//! Every command, whatever the log: it ends, soon, within its memory, without a panic, and says in lines of its own what
//! it can't read. Logs here are golden, travelled and recorded segments, changed at random with right checksums.
//! Commands and formats come from `--help` (common/every.rs), so a new command is tested here, too.

mod common;
#[path = "../../log/tests/common/mutate.rs"]
mod mutate;

use common::every::{every, every_once};
use common::measured;
use iocrec_log::escape::is_unsafe;
use iocrec_testing::chance::{fuzz, Random};
use mutate::Pieces;
use std::fs;
use std::path::{Path, PathBuf};

/// The bound of everything that a command holds.
const MOST: u64 = 256 << 20;

/// Segments that recorders wrote, and the golden ones.
fn segments() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = common::segments(&here.join("../log/tests/golden"));
    let travelled = fs::read_dir(here.join("tests/travelled")).unwrap();
    for directory in travelled.map(|entry| entry.unwrap().path()) {
        files.extend(common::segments(&directory.join("log")));
    }
    files.extend(common::segments(&here.join("tests/plant/log")));
    assert!(files.len() > 10);
    files.sort();
    files
}

#[test]
fn every_command_reads_sound_logs() {
    let here = tempfile::tempdir().unwrap();
    for (number, file) in segments().iter().enumerate() {
        let log = format!("{number}");
        fs::create_dir(here.path().join(&log)).unwrap();
        fs::copy(file, here.path().join(&log).join("0.iocrec")).unwrap();
        let list = if number == 0 { every } else { every_once };
        for words in list(&log, "*", "2026-11-21T06:00:00Z") {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let (code, out, err) = common::run(here.path(), &words);
            let what = format!("{words:?} on {}: {err}", file.display());
            // 1: nothing of the kind is in it, which a line says. The clocks of golden logs may stand still.
            let reasons = err.lines().filter(|line| !line.contains(" was set back by ")).count();
            assert!(code == 0 || (code == 1 && out.is_empty() && reasons == 1), "{code} {what}");
            assert!(err.lines().all(|line| line.starts_with("iocreplay: ")), "{what}");
        }
    }
}

#[test]
fn every_command_on_logs_that_nobody_would_write() {
    let segments: Vec<Pieces> = segments().iter().map(|file| Pieces::of(&fs::read(file).unwrap())).collect();
    let here = tempfile::tempdir().unwrap();
    let log = here.path().join("log");
    fs::create_dir(&log).unwrap();
    let mut answers = 0_u64;
    fuzz(4, |random: &mut Random| {
        for number in 0..2 {
            let mut pieces = segments[random.below(segments.len())].clone();
            if random.below(4) > 0 {
                pieces.mutate(random);
            }
            fs::write(log.join(format!("{number}.iocrec")), pieces.segment()).unwrap();
        }
        let pv = ["*", "LI:*", "T:SP", "A:1"][random.below(4)];
        let time = ["2026-11-22T10:13:30Z", "-5s", "1970-01-01", "2261-01-01"][random.below(4)];
        for words in every("log", pv, time) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let (code, said, most) = measured(here.path(), &words);
            assert!(code == 0 || code == 1, "{words:?}: {code} {said}");
            assert!(most < MOST, "{words:?}: {most} bytes");
            for line in said.lines() {
                assert!(
                    line.starts_with("iocreplay: ") && !line.chars().any(is_unsafe),
                    "{words:?}: {line:?}"
                );
            }
            answers += fs::metadata(here.path().join("answer")).unwrap().len();
        }
    });
    assert!(std::env::var("FUZZ_SEED").is_ok() || answers > 100_000, "{answers} bytes");
}
