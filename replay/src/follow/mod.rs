//! `--follow`: rows of a log that grows.
//!
//! The log is read again whenever its files have changed, but only its last minutes, and every row is returned once. A
//! row comes when its time lies [`SETTLED`] before the end of its host's log, or when the log has stopped growing for as
//! long: by then its outcome is recorded, except that of puts with callback that take longer.
//!
//! What was returned can be [saved](Memory::save), so that another process goes on from there.
//!
//! What the last minutes are is counted for each host from where its log ended when it was read before: logs of other
//! hosts may come late. Time goes on evenly also where a clock was set back.

pub mod deleted;

use crate::filter::Filter;
use crate::follow::deleted::Deleted;
use crate::model::open_chains;
use crate::terminal::{self, Terminal};
use crate::time::SECOND;
use crate::Logs;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fs, io};

/// Time after which a row is returned: the recorder writes a block each second (`--flush`), and reads several queues in
/// turn, so an event can be two seconds late.
pub const SETTLED: Duration = Duration::from_secs(3);
/// Time between looks at the files.
const INTERVAL: Duration = Duration::from_millis(500);
/// The part of the log that is read again, nanoseconds: no row is later than its chain.
const AGAIN: i64 = (open_chains::LIMIT + 5 * SECOND) as i64;
/// At least this many times the time that reading took passes before the log is read again. Time in which what was read
/// was written does not count: a collector that was down for an hour would stop it for four.
const REST: u32 = 4;

/// A row that can be followed.
pub trait Timed {
    /// Wall-clock time, nanoseconds since 1970 UTC.
    fn time(&self) -> i64;
    /// Its place in the order of time ([`Run::even`](crate::model::run::Run::even)).
    fn even(&self) -> i64;
    /// Distinguishes it from other rows of the same time. Its first line is the host.
    fn name(&self) -> String;
}

/// How far a host's log was read.
#[derive(Clone, Copy)]
struct Read {
    /// Its end: a place in the order of time.
    end: i64,
    /// Since when it has not grown.
    since: Instant,
    /// Whether all of its rows were returned, since it had not grown for [`SETTLED`].
    is_whole: bool,
    /// Since when its segments are gone, if they are.
    gone: Option<Instant>,
}

impl Read {
    /// The same of a host whose segments are gone at this moment; `None`: for so long that the host is forgotten. How long it
    /// was quiet before means nothing: all of its rows would come again when its segments are back.
    fn gone(self, now: Instant) -> Option<Read> {
        let since = self.gone.unwrap_or(now);
        let is_recent = now.saturating_duration_since(since) < FORGOTTEN;
        is_recent.then_some(Read { gone: Some(since), ..self })
    }
}

/// Time after which a host is forgotten whose segments are gone.
const FORGOTTEN: Duration = Duration::from_secs(3600);

/// A row that was returned.
#[derive(Clone, Serialize, Deserialize)]
struct Returned {
    /// How often.
    count: u32,
    /// How often it has come in this pass.
    seen: u32,
    /// Its place in the order of time when it came last.
    even: i64,
}

/// What tells a row from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    host: String,
    /// Its time, and the number of its name.
    row: (i64, u64),
    even: i64,
}

impl Key {
    fn of(row: &impl Timed) -> Key {
        Key::new(row.time(), row.even(), &row.name())
    }

    fn new(time: i64, even: i64, name: &str) -> Key {
        let host = name.split('\n').next().unwrap_or_default().to_owned();
        Key { host, row: (time, numbered(name)), even }
    }
}

/// The rows of each host that were returned and may be read again, by time and name.
#[derive(Default)]
pub struct Follower(HashMap<String, BTreeMap<(i64, u64), Returned>>);

/// A number for a name, always the same (FNV-1a): two rows of one time and one number, of which one would not come, are
/// less likely than a fault of the disk.
fn numbered(name: &str) -> u64 {
    let step = |number: u64, byte: u8| (number ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

impl Follower {
    /// Begins another pass over rows. Those of a host before its place in `since` are over, and will not come again.
    pub fn begin(&mut self, since: &BTreeMap<String, i64>) {
        for (host, returned) in &mut self.0 {
            let since = since.get(host).copied().unwrap_or(i64::MIN);
            returned.retain(|_, row| row.even >= since);
            returned.values_mut().for_each(|row| row.seen = 0);
        }
    }

    /// Whether this row of the pass was not returned before. Notes that it is returned now.
    pub fn is_new(&mut self, key: &Key) -> bool {
        if !self.0.contains_key(&key.host) {
            self.0.insert(key.host.clone(), BTreeMap::new());
        }
        let Some(returned) = self.0.get_mut(&key.host) else { return true };
        let row = returned.entry(key.row).or_insert(Returned { count: 0, seen: 0, even: key.even });
        row.seen += 1;
        row.even = key.even;
        let is_new = row.seen > row.count;
        row.count = row.count.max(row.seen);
        is_new
    }

    /// Forgets what can't come again if a later pass begins there.
    fn forget(&mut self, before: i64) {
        self.0.values_mut().for_each(|returned| returned.retain(|_, row| row.even >= before));
    }
}

/// What was returned of each host's log, and how far it was read.
#[derive(Default)]
pub struct Memory {
    follower: Follower,
    /// Each host's log as the pass before has read it.
    before: Option<BTreeMap<String, Read>>,
    /// After so many rows it is passed on within a pass, too.
    every: Option<usize>,
}

/// A host's part of a [`Memory`] that is saved.
#[derive(Clone, Serialize, Deserialize)]
pub struct Saved {
    host: String,
    end: i64,
    returned: Vec<(i64, u64, Returned)>,
}

/// Adds rows that were returned since.
pub fn add(saved: &mut Vec<Saved>, rows: &[Key]) {
    for Key { host, row: (time, name), even } in rows {
        let place = saved.iter().position(|of| of.host == *host).unwrap_or_else(|| {
            // everything that it has may be yet to come
            saved.push(Saved { host: host.clone(), end: i64::MIN, returned: Vec::new() });
            saved.len() - 1
        });
        let Some(Saved { returned, .. }) = saved.get_mut(place) else { continue };
        match returned.iter_mut().find(|(own_time, own, _)| (own_time, own) == (time, name)) {
            Some((_, _, known)) => known.count += 1,
            None => returned.push((*time, *name, Returned { count: 1, seen: 0, even: *even })),
        }
    }
}

impl Memory {
    /// Goes on from what was saved; the first time, as that of nothing.
    pub fn load(saved: Vec<Saved>) -> Memory {
        if saved.is_empty() {
            return Memory::default();
        }
        let (mut follower, mut before) = (Follower::default(), BTreeMap::new());
        for Saved { host, end, returned } in saved {
            let rows = returned.into_iter().map(|(time, name, row)| ((time, name), row));
            follower.0.insert(host.clone(), rows.collect());
            before.insert(host, Read { end, since: Instant::now(), is_whole: false, gone: None });
        }
        Memory { follower, before: Some(before), every: None }
    }

    /// The same, which is passed on after so many rows within a pass, too.
    pub fn every(self, rows: usize) -> Memory {
        Memory { every: Some(rows), ..self }
    }

    /// Passes on what is remembered in the middle of a pass, when all rows before the place `even` were returned. `known`:
    /// what the pass before has read, `now`: what this one reads.
    fn within(
        &mut self,
        known: Option<&BTreeMap<String, Read>>,
        now: &BTreeMap<String, Read>,
        even: i64,
    ) -> &Memory {
        let at = |host: &String, of: &Read| Read {
            end: match known {
                // the first pass has read everything up to there
                None => of.end.min(even),
                // the next one begins where this one did
                Some(known) => known.get(host).map_or(i64::MIN, |known| known.end),
            },
            is_whole: false,
            ..*of
        };
        self.before = Some(now.iter().map(|(host, of)| (host.clone(), at(host, of))).collect());
        if known.is_none() {
            self.follower.forget(even.saturating_sub(AGAIN));
        }
        self
    }

    /// What another process needs to go on from here.
    pub fn save(&self) -> Vec<Saved> {
        let of_host = |(host, read): (&String, &Read)| {
            let rows = self.follower.0.get(host).into_iter().flatten();
            let row = |(&(time, name), row): (&(i64, u64), &Returned)| {
                (time, name, Returned { count: row.count, seen: 0, even: row.even })
            };
            Saved { host: host.clone(), end: read.end, returned: rows.map(row).collect() }
        };
        self.before.iter().flatten().map(of_host).collect()
    }

    /// Number of rows that it holds.
    pub fn len(&self) -> usize {
        self.follower.0.values().map(BTreeMap::len).sum()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Whether to go on following.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Yes.
    Go,
    /// Yes, but that the log does not grow means nothing: there may be more that has not come yet.
    Wait,
    /// No: the log is read once more. `whole`: it grows no further, so all rows are returned.
    Finish {
        /// Whether rows come that may still change.
        whole: bool,
    },
}

/// A step of following.
pub enum Step<'a, T> {
    /// A row comes.
    Row(&'a T, &'a Key),
    /// So much was returned so far in a pass, in which more will come.
    Within(&'a Memory),
    /// There is nothing to write for the moment.
    Through(&'a Memory),
}

/// Whether somebody reads what is written, if it is a pipe.
///
/// # Errors
/// Nobody does: it is as if something had been written.
pub fn read_on() -> io::Result<()> {
    match terminal::is_unread() {
        true => Err(io::ErrorKind::BrokenPipe.into()),
        false => Ok(()),
    }
}

/// Reads the log again and again, and passes every row on once. Returns only with an error, or when the log has passed the end
/// of the filter's time for so long that no row of before can come. `open` opens the logs, `rows` asks them, `write` gets `None`
/// when there is nothing to write for the moment. Reports what was deleted unread.
///
/// # Errors
/// Those of the callbacks.
pub fn follow<T: Timed, E: From<io::Error>>(
    paths: &[PathBuf],
    filter: Filter,
    open: impl FnMut() -> Result<Logs, E>,
    rows: impl FnMut(&Logs, &Filter, &mut dyn FnMut(T) -> Result<(), E>) -> Result<(), E>,
    write: impl FnMut(Option<&T>) -> Result<(), E>,
) -> Result<(), E> {
    follow_while(paths, filter, read_on, open, rows, write)
}

/// The same of what is sent instead of written to standard output, so that nobody need read that.
///
/// # Errors
/// Those of the callbacks.
pub fn follow_to_send<T: Timed, E: From<io::Error>>(
    paths: &[PathBuf],
    filter: Filter,
    open: impl FnMut() -> Result<Logs, E>,
    rows: impl FnMut(&Logs, &Filter, &mut dyn FnMut(T) -> Result<(), E>) -> Result<(), E>,
    send: impl FnMut(Option<&T>) -> Result<(), E>,
) -> Result<(), E> {
    follow_while(paths, filter, || Ok(()), open, rows, send)
}

fn follow_while<T: Timed, E: From<io::Error>>(
    paths: &[PathBuf],
    filter: Filter,
    goes_on: impl Fn() -> io::Result<()>,
    mut open: impl FnMut() -> Result<Logs, E>,
    mut rows: impl FnMut(&Logs, &Filter, &mut dyn FnMut(T) -> Result<(), E>) -> Result<(), E>,
    mut write: impl FnMut(Option<&T>) -> Result<(), E>,
) -> Result<(), E> {
    let mut deleted = Deleted::default();
    let rows = |logs: &Logs, filter: &Filter, each: &mut dyn FnMut(T) -> Result<(), E>| {
        deleted.look(logs, "read", false).iter().for_each(|gap| Terminal.report(gap));
        rows(logs, filter, each)
    };
    let write = |step: Step<T>| match step {
        Step::Row(row, _) => write(Some(row)),
        Step::Within(_) => Ok(()),
        Step::Through(_) => write(None),
    };
    let pace = || goes_on().map(|()| Pace::Go).map_err(E::from);
    follow_until(paths, filter, Memory::default(), pace, || open().map(Some), rows, write)
}

/// The same from what is remembered on, until `pace`, which is called twice a second, says that it ends. `open` may find
/// nothing yet; `write` gets what is remembered when there is nothing to write for the moment, and within a pass
/// [as it says](Memory::every).
///
/// # Errors
/// Those of the callbacks.
pub fn follow_until<T: Timed, E: From<io::Error>>(
    paths: &[PathBuf],
    mut filter: Filter,
    memory: Memory,
    mut pace: impl FnMut() -> Result<Pace, E>,
    mut open: impl FnMut() -> Result<Option<Logs>, E>,
    mut rows: impl FnMut(&Logs, &Filter, &mut dyn FnMut(T) -> Result<(), E>) -> Result<(), E>,
    mut write: impl FnMut(Step<T>) -> Result<(), E>,
) -> Result<(), E> {
    let (first, mut memory) = (filter.since, memory);
    let (mut state, mut changed) = (None, Instant::now());
    let mut complete = false;
    loop {
        let ends = pace()?;
        let (is_last, may_rest) =
            (matches!(ends, Pace::Finish { .. }), matches!(ends, Pace::Go | Pace::Finish { whole: true }));
        let now = files(paths);
        if state.as_ref() != Some(&now) {
            (state, changed, complete) = (Some(now), Instant::now(), false);
        }
        let still = match ends {
            Pace::Go => changed.elapsed() >= SETTLED,
            Pace::Wait => false,
            Pace::Finish { whole } => whole,
        };
        if !is_last && (complete || (!still && changed.elapsed() > INTERVAL)) {
            sleep(INTERVAL);
            continue;
        }
        let begun = Instant::now();
        let Some(logs) = open()? else {
            if is_last {
                return Ok(());
            }
            sleep(INTERVAL);
            continue;
        };
        // IOCs may have begun in these pods
        if let Some(pods) = logs.pods() {
            filter.pod = Some(pods);
        }
        let is_first = memory.before.is_none();
        let known = memory.before.take().unwrap_or_default();
        let read = |(host, end): (String, i64)| {
            let of = match known.get(&host) {
                Some(known) if known.end == end => {
                    let is_whole = may_rest && known.since.elapsed() >= SETTLED;
                    Read { is_whole, gone: None, ..*known }
                }
                _ => Read { end, since: begun, is_whole: false, gone: None },
            };
            (host, of)
        };
        let mut now: BTreeMap<String, Read> = logs.ends().into_iter().map(read).collect();
        let there: BTreeSet<String> = now.keys().cloned().collect();
        // a host whose segments are gone for a moment has not begun anew, and does not keep the others from their rest
        let gone = known.iter().filter(|(host, _)| !there.contains(*host));
        now.extend(gone.filter_map(|(host, of)| Some((host.clone(), of.gone(begun)?))));
        // The first pass is the only one that reads everything; its older rows never come again.
        let last = if is_first { &now } else { &known };
        let again: BTreeMap<String, i64> =
            last.iter().map(|(host, of)| (host.clone(), of.end.saturating_sub(AGAIN))).collect();
        memory.follower.begin(&again);
        if !is_first {
            // hosts whose logs have grown, are new, or had rows that could not be returned yet
            let is_over = |host: &String, of: &Read| {
                known.get(host).is_some_and(|known| known.is_whole && known.end == of.end)
            };
            let open = now.iter().filter(|(host, of)| there.contains(*host) && !is_over(host, of));
            let oldest = open.map(|(host, _)| again.get(host).copied().unwrap_or(i64::MIN)).min();
            let oldest = oldest.unwrap_or(i64::MAX);
            filter.since =
                Some(first.map_or(oldest, |first| first.max(oldest))).filter(|since| *since > i64::MIN);
        }
        let mut returned = 0_usize;
        let mut writing = Duration::ZERO;
        let mut write = |step: Step<T>| {
            let begun = Instant::now();
            let written = write(step);
            writing += begun.elapsed();
            written
        };
        rows(&logs, &filter, &mut |row| {
            let key = Key::of(&row);
            let settled = now.get(&key.host).filter(|of| !of.is_whole && !still);
            let settled = settled.map_or(i64::MAX, |of| of.end.saturating_sub(SETTLED.as_nanos() as i64));
            if key.even > settled {
                return Ok(());
            }
            let is_old = again.get(&key.host).is_some_and(|again| key.even < *again);
            let is_new = match (is_old, is_first) {
                (true, false) => false,
                // all are new; they are remembered for the case that the pass does not get to its end
                (true, true) => memory.every.is_none() || memory.follower.is_new(&key),
                (false, _) => memory.follower.is_new(&key),
            };
            if !is_new {
                return Ok(());
            }
            write(Step::Row(&row, &key))?;
            returned += 1;
            if memory.every.is_some_and(|every| returned.is_multiple_of(every)) {
                let known = Some(&known).filter(|_| !is_first);
                write(Step::Within(memory.within(known, &now, key.even)))?;
            }
            Ok(())
        })?;
        complete = still;
        let is_over = filter.until.is_some_and(|until| has_passed(&logs, &filter, &now, until));
        memory.before = Some(now);
        write(Step::Through(&memory))?;
        if is_last || is_over {
            return Ok(());
        }
        let reading = begun.elapsed().saturating_sub(writing);
        let rest = if is_first { INTERVAL } else { INTERVAL.max(reading * REST) };
        let begun = Instant::now();
        while begun.elapsed() < rest && !matches!(pace()?, Pace::Finish { .. }) {
            sleep(INTERVAL);
        }
    }
}

/// Whether the logs of all hosts that are asked for end so long after this time that all rows from before it have come.
fn has_passed(logs: &Logs, filter: &Filter, now: &BTreeMap<String, Read>, until: i64) -> bool {
    let is_asked = |host: &str| filter.host.as_ref().is_none_or(|glob| glob.matches(host));
    let mut asked = now.iter().filter(|(host, _)| is_asked(host)).peekable();
    let has_any = asked.peek().is_some();
    has_any && asked.all(|(host, of)| of.end > logs.even_of(host, until).max(until).saturating_add(AGAIN))
}

/// Names and lengths of the files in these logs.
fn files(paths: &[PathBuf]) -> Vec<(PathBuf, u64)> {
    let mut files = Vec::new();
    let mut open: Vec<(PathBuf, u32)> = paths.iter().map(|path| (path.clone(), 0)).collect();
    while let Some((path, depth)) = open.pop() {
        let Ok(about) = fs::metadata(&path) else { continue };
        if about.is_file() {
            // what else is in a log's directory, such as what was shown of a spool, says nothing about the log
            if depth == 0 || path.extension().is_some_and(|ending| ending == "iocrec") {
                files.push((path, about.len()));
            }
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
            follower.begin(&BTreeMap::from([("a".to_owned(), since), ("b".to_owned(), since)]));
            let is_new = |row: &&(i64, &str)| follower.is_new(&Key::new(row.0, row.0, row.1));
            rows.iter().filter(is_new).map(|row| row.0).collect()
        };
        assert_eq!(pass(0, &[(1, "a"), (2, "a")]), [1, 2]);
        assert_eq!(pass(0, &[(1, "a"), (2, "a"), (2, "b"), (9, "a")]), [2, 9], "one came late");
        assert_eq!(pass(2, &[(2, "a"), (2, "a"), (2, "b"), (9, "a")]), [2], "two are alike");
        assert_eq!(pass(9, &[(9, "a"), (9, "a")]), [9]);
        assert_eq!(follower.0["a"].len(), 1, "earlier rows are forgotten");
        assert!(follower.0["b"].is_empty());
    }

    #[test]
    fn a_host_is_forgotten_when_its_segments_are_gone_for_long_not_when_it_was_quiet() {
        let since = Instant::now();
        let after = |of: Read, time: Duration| of.gone(since + time);
        let quiet = Read { end: 1, since, is_whole: true, gone: None };
        let gone = after(quiet, 2 * FORGOTTEN).expect("its segments were there until now");
        let still = after(gone, 3 * FORGOTTEN - SETTLED).expect("they are gone for less than the time");
        assert_eq!(still.gone, gone.gone, "they are gone since the first time");
        assert!(after(still, 3 * FORGOTTEN).is_none());
    }

    #[test]
    fn rows_of_a_host_that_is_late_are_kept_as_long_as_they_can_come_again() {
        let mut follower = Follower::default();
        let since = |fast, late| BTreeMap::from([("fast".to_owned(), fast), ("late".to_owned(), late)]);
        follower.begin(&since(0, 0));
        let is_new = |follower: &mut Follower, time, host| follower.is_new(&Key::new(time, time, host));
        assert!(is_new(&mut follower, 100, "fast") && is_new(&mut follower, 20, "late"));
        follower.begin(&since(90, 10));
        assert!(!is_new(&mut follower, 20, "late") && is_new(&mut follower, 25, "late"));
        assert!(!is_new(&mut follower, 100, "fast"));
    }
}
