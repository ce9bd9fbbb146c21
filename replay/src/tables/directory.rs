//! The directory of the tables: whose it is, which files are written, which stay and which go.
//!
//! A file is for a segment of a run. `_iocreplay/RUN.json` tells how much of each segment was written, so that an export knows
//! where the directory has more than the log: of a segment before which one was deleted meanwhile, or of which an older copy is
//! exported. Such files stay. All others of the log's segments are replaced, and removed if nothing is left in them.

use super::names::{file, parse};
use super::places::{Place, Places, Segment};
use super::refused::Refused;
use super::schema::Of;
use super::sheets::{check_links, create, Unwritten};
use super::Format;
use crate::unfinished::Unfinished;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What marks a directory as one of tables.
const MARKER: &str = "_iocreplay.json";
/// Where it is noted what was written of each run.
const RUNS: &str = "_iocreplay";
/// The version of layout and columns.
const VERSION: u32 = 1;
/// Age of a file that an export left unfinished when it died: none takes so long between two parts of a file.
const LEFT: Duration = Duration::from_secs(3600);

/// The content of the marker.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Marker {
    format: String,
    version: u32,
    selection: String,
}

/// What was written of a run.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Written {
    /// Partitions with its files.
    hosts: BTreeSet<String>,
    /// By table and segment.
    tables: BTreeMap<String, Segments>,
}

/// How much was written of the segments of a run.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Segments {
    /// Ranges of those that were whole, with the next one there.
    whole: Vec<(u32, u32)>,
    /// Those after which none was there, with the bytes that they had.
    last: BTreeMap<u32, u64>,
}

/// See the module.
pub struct Directory {
    root: PathBuf,
    format: Format,
    /// By run.
    written: Vec<Written>,
}

impl Directory {
    /// Opens the directory, and makes it if it is not there. `selection`: which rows are wanted, in words; empty for all.
    ///
    /// # Errors
    /// If it is not for this.
    pub fn open(root: &Path, format: Format, selection: &str, places: &Places) -> Result<Directory, Refused> {
        let unwritten = |file: &Path| {
            let file = file.to_owned();
            |error| Refused::from(Unwritten { file, error })
        };
        fs::create_dir_all(root).map_err(unwritten(root))?;
        let marker =
            Marker { format: format.name().to_owned(), version: VERSION, selection: selection.to_owned() };
        let path = root.join(MARKER);
        match fs::read(&path) {
            Ok(bytes) => {
                let found: Marker =
                    serde_json::from_slice(&bytes).map_err(|_| Refused::Foreign(root.to_owned()))?;
                let directory = root.to_owned();
                if found.version > VERSION {
                    return Err(Refused::Newer(directory));
                }
                if found.format != marker.format {
                    return Err(Refused::Format { directory, has: found.format });
                }
                if found.selection != marker.selection {
                    return Err(Refused::Selection { directory, has: found.selection });
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let mut entries = fs::read_dir(root).map_err(unwritten(root))?;
                if entries.next().is_some() {
                    return Err(Refused::Foreign(root.to_owned()));
                }
                replace(&path, 0, &marker).map_err(unwritten(&path))?;
            }
            Err(error) => return Err(unwritten(&path)(error)),
        }
        let written = places.runs.iter().map(|place| {
            let noted = fs::read(note_of(root, &place.run)).ok();
            noted.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
        });
        Ok(Directory { root: root.to_owned(), format, written: written.collect() })
    }

    /// The segments of a run of which the directory has more than the log, so that their files stay.
    pub fn kept(&self, of: Of, run: usize, place: &Place) -> HashSet<u32> {
        let Some(before) = self.written.get(run).and_then(|run| run.tables.get(of.table().name)) else {
            return HashSet::new();
        };
        let has_more = |segment: &Segment| {
            let has = |number: u32| place.segments.iter().any(|other| other.number == number);
            let has_next = segment.number.checked_add(1).is_some_and(has);
            let is_cut = segment.number.checked_sub(1).is_some_and(|before| !has(before));
            let was_whole = before.whole.iter().any(|(from, to)| (*from..=*to).contains(&segment.number));
            match before.last.get(&segment.number) {
                _ if was_whole => is_cut || !has_next,
                Some(bytes) if !has_next => *bytes > segment.size || *bytes == segment.size && is_cut,
                _ => false,
            }
        };
        place.segments.iter().filter(|segment| has_more(segment)).map(|segment| segment.number).collect()
    }

    /// The path of a file.
    pub fn path(&self, of: Of, host: &str, date: &str, run: &str, segment: u32, part: u32) -> PathBuf {
        let name = file(run, segment, part, self.format);
        self.root.join(of.table().name).join(host).join(format!("date={date}")).join(name)
    }

    /// Removes files of a table in which nothing is left, and notes what was written. `written`: the files; `hosts`: the
    /// partitions of this run's.
    ///
    /// # Errors
    /// If that can't be done.
    pub fn finish(
        &mut self,
        of: Of,
        (run, place): (usize, &Place),
        kept: &HashSet<u32>,
        hosts: &BTreeSet<String>,
        written: &HashSet<PathBuf>,
    ) -> Result<(), Unwritten> {
        let Some(note) = self.written.get_mut(run) else { return Ok(()) };
        note.hosts.extend(hosts.iter().cloned());
        let replaced: HashSet<u32> = place
            .segments
            .iter()
            .map(|segment| segment.number)
            .filter(|number| !kept.contains(number))
            .collect();
        for host in &note.hosts {
            let partition = self.root.join(of.table().name).join(host);
            for date in entries(&partition) {
                for found in entries(&date).filter(|file| !written.contains(file)) {
                    let name = found.file_name().unwrap_or_default().to_string_lossy();
                    let is_gone = match parse(&name, &place.run, self.format) {
                        Some(segment) => replaced.contains(&segment),
                        None => is_left(&name, &found, &place.run),
                    };
                    if is_gone {
                        fs::remove_file(&found).map_err(|error| Unwritten { file: found.clone(), error })?;
                    }
                }
                let _ = fs::remove_dir(&date); // if it is empty now
            }
        }
        let segments = note.tables.entry(of.table().name.to_owned()).or_default();
        for (segment, next) in
            place.segments.iter().zip(place.segments.iter().skip(1).map(Some).chain([None]))
        {
            if !replaced.contains(&segment.number) {
                continue;
            }
            segments.last.remove(&segment.number);
            match next.is_some_and(|next| next.number == segment.number.wrapping_add(1)) {
                true => add(&mut segments.whole, segment.number),
                false => {
                    segments.last.insert(segment.number, segment.size);
                }
            }
        }
        Ok(())
    }

    /// Stores what was noted of a run.
    ///
    /// # Errors
    /// If that can't be written.
    pub fn store(&self, run: usize, place: &Place) -> Result<(), Unwritten> {
        let path = note_of(&self.root, &place.run);
        let Some(written) = self.written.get(run) else { return Ok(()) };
        let notes = self.root.join(RUNS);
        let stored = check_links(&notes, 1)
            .and_then(|()| fs::create_dir_all(notes))
            .and_then(|()| replace(&path, 1, written));
        stored.map_err(|error| Unwritten { file: path, error })
    }
}

/// Where it is noted what was written of a run.
fn note_of(root: &Path, run: &str) -> PathBuf {
    root.join(RUNS).join(format!("{run}.json"))
}

/// Writes a file of JSON in place of the one that is there, through no foreign link in place of the last so many directories.
fn replace(path: &Path, last: usize, content: &impl Serialize) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let own = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
    // what a run that was killed has left, or a link that somebody has put there
    let _ = fs::remove_file(&own);
    let written = create(&own, last).and_then(|mut file| {
        let _unfinished = Unfinished::new(&own);
        file.write_all(&serde_json::to_vec(content)?)?;
        fs::rename(&own, path)
    });
    written.inspect_err(|_| _ = fs::remove_file(&own))
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Whether a file was left unfinished by an export of this run that died.
fn is_left(name: &str, file: &Path, run: &str) -> bool {
    let is_part = name.strip_prefix('.').is_some_and(|name| name.starts_with(run) && name.ends_with(".part"));
    let changed = || fs::metadata(file).and_then(|about| about.modified()).ok();
    is_part && changed().is_some_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > LEFT))
}

/// Adds a number to ranges of numbers.
fn add(ranges: &mut Vec<(u32, u32)>, number: u32) {
    if ranges.iter().any(|(from, to)| (*from..=*to).contains(&number)) {
        return;
    }
    ranges.push((number, number));
    ranges.sort_unstable();
    ranges.dedup_by(|next, before| {
        let follows = before.1.checked_add(1) == Some(next.0);
        if follows {
            before.1 = next.1;
        }
        follows
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_grow_together() {
        let mut ranges = vec![];
        [3, 1, 2, 7, 2].into_iter().for_each(|number| add(&mut ranges, number));
        assert_eq!(ranges, [(1, 3), (7, 7)]);
    }

    #[test]
    fn what_the_log_knows_less_of_stays() {
        let place = |numbers: &[u32], size| Place {
            run: "r".into(),
            host: String::new(),
            segments: numbers.iter().map(|number| Segment { number: *number, since: 0, size }).collect(),
        };
        let mut directory =
            Directory { root: "none".into(), format: Format::Csv, written: vec![Written::default()] };
        let mut export = |place: &Place| {
            let mut kept: Vec<u32> = directory.kept(Of::Puts, 0, place).into_iter().collect();
            kept.sort_unstable();
            let set = kept.iter().copied().collect();
            directory.finish(Of::Puts, (0, place), &set, &BTreeSet::new(), &HashSet::new()).unwrap();
            kept
        };
        assert!(export(&place(&[0, 1, 2], 10)).is_empty());
        assert!(export(&place(&[0, 1, 2], 10)).is_empty(), "the same again");
        assert_eq!(export(&place(&[0, 1, 2], 9)), [2], "an older copy");
        assert_eq!(export(&place(&[1, 2, 3], 10)), [1], "its predecessor was deleted");
        assert_eq!(export(&place(&[0, 1], 10)), [1], "an older copy again");
        assert!(
            export(&place(&[3, 4], 10)).is_empty(),
            "it was the last: more is known of its end than before"
        );
        assert!(export(&place(&[9, 10], 10)).is_empty(), "never seen before");
    }
}
