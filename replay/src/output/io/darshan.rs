//! Files as Darshan has them: the POSIX module of a log that Darshan's own tools read, or the text of its darshan-parser.
//!
//! Layouts are those of Darshan 3.4 (darshan-log-format.h, darshan-posix-log-format.h): log format 3.41, POSIX module 4,
//! one process a log, not packed. A file is in it only if all its opens were seen from the beginning. What isn't known
//! is -1, Darshan's "not monitored".

use crate::answers::files::{Files, Open, Process, Words};
use iocrec_log::event::files::{word, CallKind};
use iocrec_log::event::FileHow;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Version of the log format, and its magic number.
const VERSION: &[u8; 8] = b"3.41\0\0\0\0";
const MAGIC: i64 = 6_567_223;
/// The regions are not packed.
const NOT_PACKED: u64 = 2;
/// Places for modules; the POSIX module's, and the version of its records.
const MODULES: usize = 64;
const POSIX: usize = 1;
const POSIX_VERSION: u32 = 4;
const METADATA: usize = 1024;
const HEADER: usize = 8 + 8 + 8 + 8 + 16 * (MODULES + 1) + 4 * MODULES;
/// Bytes to which offsets and memory should be aligned.
const FILE_ALIGNMENT: i64 = 4096;
const MEMORY_ALIGNMENT: i64 = 8;
const UNKNOWN: i64 = -1;
/// Most bytes of the command that Darshan keeps.
const MAX_COMMAND: usize = 1000;

/// Names of the whole numbers of a record, in order, without `POSIX_`.
const COUNTERS: [&str; 69] = [
    "OPENS",
    "FILENOS",
    "DUPS",
    "READS",
    "WRITES",
    "SEEKS",
    "STATS",
    "MMAPS",
    "FSYNCS",
    "FDSYNCS",
    "RENAME_SOURCES",
    "RENAME_TARGETS",
    "RENAMED_FROM",
    "MODE",
    "BYTES_READ",
    "BYTES_WRITTEN",
    "MAX_BYTE_READ",
    "MAX_BYTE_WRITTEN",
    "CONSEC_READS",
    "CONSEC_WRITES",
    "SEQ_READS",
    "SEQ_WRITES",
    "RW_SWITCHES",
    "MEM_NOT_ALIGNED",
    "MEM_ALIGNMENT",
    "FILE_NOT_ALIGNED",
    "FILE_ALIGNMENT",
    "MAX_READ_TIME_SIZE",
    "MAX_WRITE_TIME_SIZE",
    "SIZE_READ_0_100",
    "SIZE_READ_100_1K",
    "SIZE_READ_1K_10K",
    "SIZE_READ_10K_100K",
    "SIZE_READ_100K_1M",
    "SIZE_READ_1M_4M",
    "SIZE_READ_4M_10M",
    "SIZE_READ_10M_100M",
    "SIZE_READ_100M_1G",
    "SIZE_READ_1G_PLUS",
    "SIZE_WRITE_0_100",
    "SIZE_WRITE_100_1K",
    "SIZE_WRITE_1K_10K",
    "SIZE_WRITE_10K_100K",
    "SIZE_WRITE_100K_1M",
    "SIZE_WRITE_1M_4M",
    "SIZE_WRITE_4M_10M",
    "SIZE_WRITE_10M_100M",
    "SIZE_WRITE_100M_1G",
    "SIZE_WRITE_1G_PLUS",
    "STRIDE1_STRIDE",
    "STRIDE2_STRIDE",
    "STRIDE3_STRIDE",
    "STRIDE4_STRIDE",
    "STRIDE1_COUNT",
    "STRIDE2_COUNT",
    "STRIDE3_COUNT",
    "STRIDE4_COUNT",
    "ACCESS1_ACCESS",
    "ACCESS2_ACCESS",
    "ACCESS3_ACCESS",
    "ACCESS4_ACCESS",
    "ACCESS1_COUNT",
    "ACCESS2_COUNT",
    "ACCESS3_COUNT",
    "ACCESS4_COUNT",
    "FASTEST_RANK",
    "FASTEST_RANK_BYTES",
    "SLOWEST_RANK",
    "SLOWEST_RANK_BYTES",
];
/// Names of its other numbers, without `POSIX_F_`.
const TIMES: [&str; 17] = [
    "OPEN_START_TIMESTAMP",
    "READ_START_TIMESTAMP",
    "WRITE_START_TIMESTAMP",
    "CLOSE_START_TIMESTAMP",
    "OPEN_END_TIMESTAMP",
    "READ_END_TIMESTAMP",
    "WRITE_END_TIMESTAMP",
    "CLOSE_END_TIMESTAMP",
    "READ_TIME",
    "WRITE_TIME",
    "META_TIME",
    "MAX_READ_TIME",
    "MAX_WRITE_TIME",
    "FASTEST_RANK_TIME",
    "SLOWEST_RANK_TIME",
    "VARIANCE_RANK_TIME",
    "VARIANCE_RANK_BYTES",
];

/// What Darshan counts of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    id: u64,
    name: Vec<u8>,
    counters: [i64; 69],
    times: [f64; 17],
}

/// A process's log.
#[derive(Debug)]
pub struct Job<'a> {
    process: &'a Process,
    records: Vec<Record>,
    /// Files that are not in it, since not all of them is known.
    pub not_whole: usize,
}

/// Darshan's number of a file: any hash of its name.
fn id(name: &[u8]) -> u64 {
    // FNV-1a
    name.iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The four most frequent values of all opens, the most first, of equals the larger first; `None` if that isn't certain.
fn most(opens: &[&Open], counts: usize, values: usize) -> Option<[(i64, i64); 4]> {
    let mut all: BTreeMap<u64, u64> = BTreeMap::new();
    let mut others = 0_u64;
    for open in opens {
        let (slots, more) = open.words.slots(counts, values);
        slots.into_iter().for_each(|(value, count)| *all.entry(value).or_default() += count);
        others = others.saturating_add(more);
    }
    let mut all: Vec<(u64, u64)> = all.into_iter().collect();
    all.sort_by_key(|&(value, count)| std::cmp::Reverse((count, value)));
    // one that is among the others may be as frequent as they all are, and may be one of these, too
    if others > 0 {
        return None;
    }
    let mut top = [(0, 0); 4];
    for (place, (value, count)) in top.iter_mut().zip(all) {
        *place = (signed(value), signed(count));
    }
    Some(top)
}

fn record(name: Vec<u8>, opens: &[&Open], begin: u64, renamed_from: Option<u64>) -> Record {
    let mut words = Words::default();
    opens.iter().for_each(|open| words.add(&open.words));
    let number = |at: usize| signed(words.get(at));
    let succeeded = |kind| signed(words.of(kind, word::CALLS).saturating_sub(words.of(kind, word::ERRORS)));
    let of = |kind, at| signed(words.of(kind, at));
    let opened = |open: &&&Open| open.file.how == FileHow::Opened;
    let placed = !opens.iter().filter(opened).any(|open| open.file.is_unplaced);
    let if_placed = |at: usize| if placed { number(at) } else { UNKNOWN };
    let strides = most(opens, word::STRIDES, word::STRIDE_SIZES).filter(|_| placed);
    let accesses = most(opens, word::ACCESSES, word::ACCESS_SIZES);
    let (read, write) = (CallKind::Read, CallKind::Write);
    let aligned = if words.get(word::VECTORS) > 0 { UNKNOWN } else { number(word::MEMORY_NOT_ALIGNED) };
    let mode = opens.iter().rfind(opened).map_or(0, |open| i64::from(open.file.mode & 0o7777));
    let mut counters = vec![
        number(word::OPENS) + number(word::DUPLICATES),
        UNKNOWN, // fileno is no system call
        number(word::DUPLICATES),
        succeeded(read),
        succeeded(write),
        number(word::SEEKS),
        number(word::STATS),
        UNKNOWN, // mmap
        number(word::FSYNCS),
        number(word::FDATASYNCS),
        number(word::RENAMED_FROM),
        number(word::RENAMED_TO),
        renamed_from.map_or(0, u64::cast_signed),
        mode,
        of(read, word::BYTES),
        of(write, word::BYTES),
        if_placed(word::HIGHEST),
        if_placed(word::HIGHEST + 1),
        if_placed(word::CONSECUTIVE),
        if_placed(word::CONSECUTIVE + 1),
        if_placed(word::SEQUENTIAL),
        if_placed(word::SEQUENTIAL + 1),
        number(word::SWITCHES),
        aligned,
        MEMORY_ALIGNMENT,
        if_placed(word::FILE_NOT_ALIGNED),
        FILE_ALIGNMENT,
        number(word::LONGEST_BYTES),
        number(word::LONGEST_BYTES + 1),
    ];
    counters.extend((0..2 * word::BINS).map(|bin| number(word::SIZES + bin)));
    for top in [strides, accesses] {
        let top = top.unwrap_or([(UNKNOWN, UNKNOWN); 4]);
        counters.extend(top.iter().map(|(value, _)| value).chain(top.iter().map(|(_, count)| count)));
    }
    counters.extend([0; 4]); // of one process there is no fastest and no slowest

    let since = |time: u64| if time == 0 { 0.0 } else { time.saturating_sub(begin) as f64 / 1e9 };
    let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
    let first = |times: &mut dyn Iterator<Item = u64>| times.filter(|time| *time > 0).min().unwrap_or(0);
    let whole = || opens.iter().filter(opened);
    let times = [
        since(first(&mut whole().map(|open| open.file.since))),
        since(words.of(read, word::FIRST)),
        since(words.of(write, word::FIRST)),
        since(first(&mut whole().map(|open| open.words.get(word::CLOSE_START)))),
        since(words.get(word::OPEN_END)),
        since(words.of(read, word::LAST)),
        since(words.of(write, word::LAST)),
        since(words.get(word::CLOSE_END)),
        seconds(words.of(read, word::TIME)),
        seconds(words.of(write, word::TIME).saturating_add(words.of(CallKind::Sync, word::TIME))),
        seconds(words.of(CallKind::Meta, word::TIME)),
        seconds(words.of(read, word::LONGEST)),
        seconds(words.of(write, word::LONGEST)),
        0.0,
        0.0,
        0.0,
        0.0,
    ];
    let mut all = [0; 69];
    all.iter_mut().zip(counters).for_each(|(place, counter)| *place = counter);
    Record { id: id(&name), name, counters: all, times }
}

/// The opens of a process, by name.
type ByName<'a> = BTreeMap<&'a [u8], Vec<&'a Open>>;

/// The logs of all processes that had files.
pub fn jobs(files: &Files) -> Vec<Job<'_>> {
    let mut by_process: BTreeMap<(usize, u32), ByName> = BTreeMap::new();
    for open in &files.opens {
        let is_path = !matches!(open.file.how, FileHow::Process | FileHow::Others | FileHow::Failed)
            && open.file.name.get(1) != Some(&0);
        if is_path {
            by_process.entry(open.key).or_default().entry(&open.file.name).or_default().push(open);
        }
    }
    let job = |(key, names): ((usize, u32), ByName)| {
        let process = files.processes.get(&key)?;
        let (mut records, mut not_whole) = (Vec::new(), 0);
        for (name, opens) in &names {
            let whole = |open: &&Open| open.is_whole() && !open.file.is_cut && !open.file.name.is_empty();
            if !opens.iter().all(whole) {
                not_whole += 1;
                continue;
            }
            // the old name's number is the time one before
            let target = opens.iter().find(|open| open.words.get(word::RENAMED_TO) > 0);
            let source = target.and_then(|target| {
                let is_it = |open: &&Open| {
                    open.key == key
                        && open.file.since == target.file.since.wrapping_sub(1)
                        && open.file.how == FileHow::Named
                };
                files.opens.iter().find(is_it).map(|open| id(&open.file.name))
            });
            records.push(record(name.to_vec(), opens, process.begin.0, source));
        }
        Some(Job { process, records, not_whole })
    };
    by_process.into_iter().filter_map(job).collect()
}

impl Job<'_> {
    /// Name of its file without ending: the IOC's and its process's, with nothing that a directory can't have.
    pub fn file_name(&self) -> String {
        let plain = |letter: char| {
            if letter.is_ascii_alphanumeric() || "-_.".contains(letter) {
                letter
            } else {
                '_'
            }
        };
        let ioc: String = self.process.ioc.chars().map(plain).take(100).collect();
        let pid = self.process.pid.map_or_else(String::new, |pid| format!("_{pid}"));
        let begin = self.process.begin.1 / 1_000_000_000;
        format!("{}{pid}_{begin}", ioc.trim_start_matches('.'))
    }

    /// The bytes of a log.
    pub fn bytes(&self) -> Vec<u8> {
        let mut job = Vec::new();
        let (begin, end) = (self.process.begin.1, self.process.end);
        let parts = [
            UNKNOWN, // the user's number
            begin.div_euclid(1_000_000_000),
            begin.rem_euclid(1_000_000_000),
            end.div_euclid(1_000_000_000),
            end.rem_euclid(1_000_000_000),
            1,
            i64::from(self.process.pid.unwrap_or_default()),
        ];
        parts.iter().for_each(|part| job.extend(part.to_le_bytes()));
        let mut metadata = b"lib_ver=3.4.0\nrecorder=iocrec\n".to_vec();
        metadata.resize(METADATA, 0);
        job.extend(metadata);
        job.extend(self.command().into_bytes());
        job.extend(b"\nunknown\t/\0");
        let mut names = Vec::new();
        let mut records = Vec::new();
        for record in &self.records {
            names.extend(record.id.to_le_bytes());
            // Darshan's Python reader takes nothing but UTF-8
            let mut name = String::new();
            iocrec_log::value::push_lossy(&mut name, &record.name);
            names.extend(name.bytes().filter(|byte| *byte != 0));
            names.push(0);
            records.extend(record.id.to_le_bytes());
            records.extend(0_i64.to_le_bytes());
            record.counters.iter().for_each(|counter| records.extend(counter.to_le_bytes()));
            record.times.iter().for_each(|time| records.extend(time.to_le_bytes()));
        }
        let mut all = Vec::with_capacity(HEADER + job.len() + names.len() + records.len());
        all.extend(VERSION);
        all.extend(MAGIC.to_le_bytes());
        all.extend(NOT_PACKED.to_le_bytes());
        all.extend(0_u64.to_le_bytes());
        let mut region = |from: usize, length: usize| {
            all.extend((from as u64).to_le_bytes());
            all.extend((length as u64).to_le_bytes());
        };
        let after_job = HEADER + job.len();
        region(after_job, names.len());
        for module in 0..MODULES {
            match module {
                POSIX => region(after_job + names.len(), records.len()),
                _ => region(0, 0),
            }
        }
        for module in 0..MODULES {
            let version = if module == POSIX { POSIX_VERSION } else { 0 };
            all.extend(version.to_le_bytes());
        }
        all.extend(job);
        all.extend(names);
        all.extend(records);
        all
    }

    fn command(&self) -> String {
        let line = |letter: &char| !letter.is_control();
        let command: String = self.process.command.chars().filter(line).collect();
        let mut end = command.len().min(MAX_COMMAND);
        while !command.is_char_boundary(end) {
            end -= 1;
        }
        command.get(..end).filter(|command| !command.is_empty()).unwrap_or("unknown").to_owned()
    }

    /// The lines of darshan-parser.
    pub fn text(&self) -> String {
        let (begin, end) = (self.process.begin.1 / 1_000_000_000, self.process.end / 1_000_000_000);
        let mut text = format!(
            "# darshan log version: 3.41\n# compression method: NONE\n# exe: {}\n# uid: -1\n# jobid: {}\n\
             # start_time: {begin}\n# end_time: {end}\n# nprocs: 1\n# run time: {:.4}\n\
             # mount entry:\t/\tunknown\n\n\
             #<module>\t<rank>\t<record id>\t<counter>\t<value>\t<file name>\t<mount pt>\t<fs type>\n",
            self.command(),
            self.process.pid.unwrap_or_default(),
            self.process.end.saturating_sub(self.process.begin.1) as f64 / 1e9,
        );
        for record in &self.records {
            let mut name = String::new();
            iocrec_log::value::push_lossy(&mut name, &record.name);
            let name: String = name
                .chars()
                .flat_map(|letter| {
                    let is_plain = !letter.is_control();
                    let escaped: Vec<char> =
                        if is_plain { vec![letter] } else { letter.escape_default().collect() };
                    escaped
                })
                .collect();
            let mut row = |counter: &str, value: &str| {
                let _ = writeln!(text, "POSIX\t0\t{}\t{counter}\t{value}\t{name}\t/\tunknown", record.id);
            };
            for (counter, value) in COUNTERS.iter().zip(record.counters) {
                let value = if *counter == "RENAMED_FROM" {
                    value.cast_unsigned().to_string()
                } else {
                    value.to_string()
                };
                row(&format!("POSIX_{counter}"), &value);
            }
            for (counter, value) in TIMES.iter().zip(record.times) {
                row(&format!("POSIX_F_{counter}"), &format!("{value:.6}"));
            }
        }
        text
    }
}
