//! `--follow`: rows of a log that grows.
//!
//! The log is read again whenever its files have changed, but only its last minutes, and every row is returned once. A
//! row comes when its time lies [`SETTLED`] before the end of the log, or when the log has stopped growing for as long:
//! by then its outcome is recorded, except that of puts with callback that take longer.

use crate::filter::Filter;
use crate::model::open_chains;
use crate::time::SECOND;
use crate::Logs;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time after which a row is returned: the recorder writes a block each second (`--flush`), and reads several queues in
/// turn, so an event can be two seconds late.
pub const SETTLED: Duration = Duration::from_secs(3);
/// Time between looks at the files.
const INTERVAL: Duration = Duration::from_millis(500);
/// The part of the log that is read again, nanoseconds: no row is later than its chain.
const AGAIN: i64 = (open_chains::LIMIT + 5 * SECOND) as i64;
/// At least this many times the time that reading took passes before the log is read again.
const REST: u32 = 4;

/// A row that can be followed.
pub trait Timed {
    /// Wall-clock time, nanoseconds since 1970 UTC.
    fn time(&self) -> i64;
    /// Distinguishes it from other rows of the same time.
    fn name(&self) -> String;
}

/// The rows that were returned and may be read again.
#[derive(Default)]
pub struct Follower {
    /// How often each row was returned, by time and name.
    returned: BTreeMap<(i64, String), u32>,
    /// How often each row has come in this pass.
    seen: HashMap<(i64, String), u32>,
}

impl Follower {
    /// Begins another pass over rows. Those before `since` will not be read again.
    pub fn begin(&mut self, since: i64) {
        self.returned = self.returned.split_off(&(since, String::new()));
        self.seen.clear();
    }

    /// Whether this row of the pass was not returned before. Notes that it is returned now.
    pub fn is_new(&mut self, time: i64, name: String) -> bool {
        let count = self.seen.entry((time, name.clone())).or_default();
        *count += 1;
        let returned = self.returned.entry((time, name)).or_default();
        let is_new = *count > *returned;
        *returned = (*returned).max(*count);
        is_new
    }
}

/// Reads the log again and again, and passes every row on once. Returns only with an error. `open` opens the logs,
/// `rows` asks them, `flush` is called when there is nothing to write for the moment.
///
/// # Errors
/// Those of the callbacks.
pub fn follow<T: Timed, E: From<io::Error>>(
    paths: &[PathBuf],
    mut filter: Filter,
    mut open: impl FnMut() -> Result<Logs, E>,
    mut rows: impl FnMut(&Logs, &Filter, &mut dyn FnMut(T) -> Result<(), E>) -> Result<(), E>,
    mut write: impl FnMut(Option<&T>) -> Result<(), E>,
) -> Result<(), E> {
    let (first, mut follower) = (filter.since, Follower::default());
    let (mut state, mut changed) = (None, Instant::now());
    let (mut complete, mut is_first_pass) = (false, true);
    loop {
        let now = files(paths);
        if state.as_ref() != Some(&now) {
            (state, changed, complete) = (Some(now), Instant::now(), false);
        }
        let still = changed.elapsed() >= SETTLED;
        if complete || (!still && changed.elapsed() > INTERVAL) {
            sleep(INTERVAL);
            continue;
        }
        let begun = Instant::now();
        let logs = open()?;
        let end = logs.end().unwrap_or(i64::MIN);
        let until = if still { i64::MAX } else { end.saturating_sub(SETTLED.as_nanos() as i64) };
        let again = end.saturating_sub(AGAIN);
        let is_first = std::mem::replace(&mut is_first_pass, false); // its older rows never come again
        follower.begin(filter.since.unwrap_or(i64::MIN));
        rows(&logs, &filter, &mut |row| {
            let time = row.time();
            if time <= until && (is_first && time < again || follower.is_new(time, row.name())) {
                write(Some(&row))?;
            }
            Ok(())
        })?;
        write(None)?;
        complete = still;
        filter.since = Some(first.map_or(again, |first| first.max(again)));
        // The first pass is the only one that reads everything.
        sleep(if is_first { INTERVAL } else { INTERVAL.max(begun.elapsed() * REST) });
    }
}

/// Names and lengths of the files in these logs.
fn files(paths: &[PathBuf]) -> Vec<(PathBuf, u64)> {
    let mut files = Vec::new();
    let mut open: Vec<(PathBuf, u32)> = paths.iter().map(|path| (path.clone(), 0)).collect();
    while let Some((path, depth)) = open.pop() {
        let Ok(about) = fs::metadata(&path) else { continue };
        if about.is_file() {
            files.push((path, about.len()));
        } else if depth < 2 {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            open.extend(entries.map(|entry| (entry.path(), depth + 1)));
        }
    }
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_comes_once() {
        let mut follower = Follower::default();
        let mut pass = |since, rows: &[(i64, &str)]| -> Vec<i64> {
            follower.begin(since);
            let is_new = |row: &&(i64, &str)| follower.is_new(row.0, row.1.to_owned());
            rows.iter().filter(is_new).map(|row| row.0).collect()
        };
        assert_eq!(pass(0, &[(1, "a"), (2, "a")]), [1, 2]);
        assert_eq!(pass(0, &[(1, "a"), (2, "a"), (2, "b"), (9, "a")]), [2, 9], "one came late");
        assert_eq!(pass(2, &[(2, "a"), (2, "a"), (2, "b"), (9, "a")]), [2], "two are alike");
        assert_eq!(pass(9, &[(9, "a"), (9, "a")]), [9]);
        assert_eq!(follower.returned.len(), 1, "earlier rows are forgotten");
    }
}
