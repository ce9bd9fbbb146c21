//! A time range shows what the whole log shows of that time: no less at its ends, and no more.

mod common;

use common::{iocreplay, outcome};
use iocrec_testing::chance::{fuzz, Random};
use iocreplay::{Filter, Logs};
use std::path::{Path, PathBuf};

fn lines(arguments: &[&str], log: &Path) -> Vec<String> {
    let log = log.to_str().unwrap();
    let (code, out, err) = outcome(iocreplay([arguments, &["--utc", log]].concat()).output().unwrap());
    assert_eq!(code, 0, "{arguments:?}: {err}");
    // Whether a value that was found there is news depends on what was seen before; and what is missing has a range of its
    // own.
    let other = ["found by a put", "read by the recorder", "  -- "];
    let is_news = |line: &&str| !other.iter().any(|other| line.contains(other));
    out.lines().filter(is_news).map(str::to_owned).collect()
}

/// The time that a line begins with; all are of the same length, so that they are in order as text.
fn time(line: &str) -> Option<&str> {
    line.get(..32).filter(|time| time.starts_with("20") && time.ends_with("+00:00"))
}

/// Each of these begins its lines with the time of which it is asked.
const COMMANDS: [&[&str]; 4] = [&["puts"], &["puts", "--all"], &["traces"], &["values", "*"]];

#[test]
fn a_time_range_shows_what_the_whole_shows() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let directory = tempfile::tempdir().unwrap();
    common::write_log(&directory.path().join("written"), "box", 1);
    let logs =
        [here.join("plant/log"), here.join("travelled/armv7-6.1/log"), directory.path().join("written")];
    let whole: Vec<(PathBuf, &[&str], Vec<String>)> = logs
        .iter()
        .flat_map(|log| COMMANDS.map(|command| (log.clone(), command, lines(command, log))))
        .collect();
    let mut compared = 0;
    fuzz(25, |random: &mut Random| {
        let (log, command, whole) = &whole[random.below(whole.len())];
        let times: Vec<&str> = whole.iter().filter_map(|line| time(line)).collect();
        let mut range = [times[random.below(times.len())], times[random.below(times.len())]];
        range.sort_unstable();
        let [since, until] = range;
        let found = lines(&[command, &["--since", since, "--until", until][..]].concat(), log);
        let mut inside = false;
        let of_range = |line: &&String| {
            // lines without a time belong to the one before
            if let Some(time) = time(line) {
                inside = time >= since && time < until;
            }
            inside
        };
        let expected: Vec<&String> = whole.iter().filter(of_range).collect();
        let found: Vec<&String> = found.iter().collect();
        compared += expected.len();
        assert_eq!(found, expected, "{command:?} {since} {until} {}", log.display());
    });
    assert!(std::env::var("FUZZ_SEED").is_ok() || compared > 1000, "{compared}");
}

/// The chain of a put is held for a while, since it may be the copy of another, or its links may lead on, and later
/// chains with it: none is lost where the reading ends, wherever the reader's batches end.
#[test]
fn chains_that_are_held_are_not_lost() {
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plant/log");
    let starts = |until: Option<i64>| -> Vec<i64> {
        let filter = Filter { until, ..Filter::default() };
        let chains = Logs::open([&log]).unwrap().chains(&filter).collect::<Vec<_>>();
        chains.iter().filter_map(|chain| Some(chain.run.wall(chain.root()?.start))).collect()
    };
    let all = starts(None);
    // 10:52:29.10 lies between a put and the next event that was read with it
    let known = std::iter::once(1_795_344_749_100_000_000);
    for until in known.chain((1..40).map(|step| all[0] + (all[all.len() - 1] - all[0]) / 40 * step)) {
        let before = all.iter().filter(|start| **start < until).count();
        assert_eq!(starts(Some(until)).len(), before, "{until}");
    }
}

/// What a time was taken for is said as exactly as it was written.
#[test]
fn a_fraction_of_a_second_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    common::write_log(&log, "box", 1);
    for (asked, taken) in [("14:13:21.5", "14:13:21.500+00:00"), ("14:13:21", "14:13:21+00:00")] {
        let words = ["puts", "--utc", "--since", asked, log.to_str().unwrap()];
        let (code, _, err) = outcome(iocreplay(words).output().unwrap());
        assert_eq!(code, 0, "{err}");
        let expected = format!("{asked} is 2026-09-21T{taken}; the log ends at 2026-09-21T14:13:24");
        assert!(err.contains(&expected), "{err}");
    }
    let (_, _, err) =
        outcome(iocreplay(["puts", "--utc", "--since", "-10ms", log.to_str().unwrap()]).output().unwrap());
    let told = err
        .lines()
        .find_map(|line| line.strip_prefix("iocreplay: -10ms is ")?.split_once("; the log ends at "));
    assert!(told.is_some_and(|(taken, end)| taken != end), "{err}");
}
