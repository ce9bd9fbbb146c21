//! What IOCs did with files, sockets and devices: the counters of each open, added up over the log or a part of it.
//!
//! What is not in the log is not made up: a file whose opening the log does not have is [not whole](Open::is_whole).

use crate::answers::events::Events;
use crate::filter::Filter;
use crate::logs::Logs;
use crate::model::run::Run;
use crate::model::source::Source;
use iocrec_log::event::files::{is_sum, word, CallKind, KIND_WORDS, WORDS};
use iocrec_log::event::{Fact, FileHow, IoFile, Word};
use iocrec_log::value::push_lossy;
use std::collections::btree_map::Entry;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

/// Opens whose counters are kept; a bound for hostile logs. Beyond it nothing new is taken, which [`Files::left_out`]
/// tells.
const MAX_OPENS: usize = 200_000;
/// struct sockaddr: families of Unix, IPv4 and IPv6.
const UNIX: u8 = 1;
const IPV4: u8 = 2;
const IPV6: u8 = 10;

/// The counters of an open, or of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words(Box<[u64; WORDS]>);

impl Default for Words {
    fn default() -> Words {
        Words(Box::new([0; WORDS]))
    }
}

impl Words {
    /// A word; 0 if there is none of that number.
    pub fn get(&self, number: usize) -> u64 {
        self.0.get(number).copied().unwrap_or_default()
    }

    /// A word of a kind of call.
    pub fn of(&self, kind: CallKind, number: usize) -> u64 {
        self.get(kind as usize * KIND_WORDS + number)
    }

    /// A word of all kinds together.
    pub fn sum(&self, number: usize) -> u64 {
        CallKind::ALL.iter().fold(0, |sum, kind| sum.saturating_add(self.of(*kind, number)))
    }

    /// Takes what has changed.
    fn change(&mut self, words: &[Word]) {
        for &Word { number, value } in words {
            let Some(word) = self.0.get_mut(usize::from(number)) else { continue };
            *word = if is_sum(number.into()) { word.saturating_add(value) } else { value };
        }
    }

    /// Values and their counts, by the first words of each, and how many have neither.
    pub fn slots(&self, counts: usize, values: usize) -> (Vec<(u64, u64)>, u64) {
        let slots = (0..word::SLOTS).map(|slot| (self.get(values + slot), self.get(counts + slot)));
        (slots.filter(|(_, count)| *count > 0).collect(), self.get(counts + word::SLOTS))
    }

    /// Adds those of another open of the same file. Sizes and strides are not added up: see [`Words::slots`].
    pub fn add(&mut self, other: &Words) {
        for kind in [CallKind::Read, CallKind::Write] {
            let at = word::LONGEST_BYTES + kind as usize;
            if other.of(kind, word::LONGEST) > self.of(kind, word::LONGEST) {
                if let Some(bytes) = self.0.get_mut(at) {
                    *bytes = other.get(at);
                }
            }
        }
        let slots = [word::ACCESSES, word::STRIDES].map(|from| from..=from + word::SLOTS);
        for (number, (word, other)) in self.0.iter_mut().zip(other.0.iter()).enumerate() {
            let in_kind = number % KIND_WORDS;
            let of_kind = number < CallKind::ALL.len() * KIND_WORDS;
            let is_longest = (word::LONGEST_BYTES..word::OPEN_END).contains(&number);
            if is_longest || slots.iter().any(|slots| slots.contains(&number)) || number >= word::ACCESS_SIZES
            {
                continue;
            }
            *word = if is_sum(number) {
                word.saturating_add(*other)
            } else if of_kind && in_kind == word::FIRST {
                [*word, *other].into_iter().filter(|time| *time > 0).min().unwrap_or_default()
            } else {
                (*word).max(*other)
            };
        }
    }
}

/// One open of a file, or a socket.
#[derive(Clone, Debug)]
pub struct Open {
    /// What the log says of it.
    pub file: IoFile,
    /// Its counters.
    pub words: Words,
    /// The process: its recorder's run as an address that is only compared, and its number there.
    pub key: (usize, u32),
}

impl Open {
    /// Whether its opening is in the log, and so all that came after.
    pub fn is_whole(&self) -> bool {
        match self.file.how {
            FileHow::Opened => self.words.get(word::OPENS) > 0,
            FileHow::Named | FileHow::Failed => true,
            _ => false,
        }
    }

    /// Calls that had not ended at the end.
    pub fn in_progress(&self) -> u64 {
        self.words.sum(word::BEGUN).saturating_sub(self.words.sum(word::CALLS))
    }

    /// Its name, or the peer's address; empty if unknown.
    pub fn name(&self) -> String {
        name(&self.file.name)
    }
}

/// A name as the log has it as text.
fn name(bytes: &[u8]) -> String {
    let after = |from: usize| bytes.get(from..);
    // no name has a zero there, and every address has one
    if let [family, 0, rest @ ..] = bytes {
        let port = rest.first_chunk().map_or(0, |port| u16::from_be_bytes(*port));
        return match *family {
            IPV4 => after(4)
                .and_then(|ip| ip.first_chunk::<4>())
                .map_or_else(String::new, |ip| format!("{}:{port}", Ipv4Addr::from(*ip))),
            IPV6 => after(8)
                .and_then(|ip| ip.first_chunk::<16>())
                .map_or_else(String::new, |ip| format!("[{}]:{port}", Ipv6Addr::from(*ip))),
            UNIX => {
                let (sign, path) = match rest {
                    [0, path @ ..] => ("@", path),
                    path => ("", path),
                };
                let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
                format!("unix:{sign}{}", lossy(path))
            }
            family => format!("address of family {family}"),
        };
    }
    lossy(bytes)
}

fn lossy(bytes: &[u8]) -> String {
    let mut text = String::new();
    push_lossy(&mut text, bytes);
    text
}

/// A process.
#[derive(Clone, Debug)]
pub struct Process {
    /// Host; empty if unknown.
    pub host: Rc<str>,
    /// The IOC, as it is shown; empty if unknown.
    pub ioc: Rc<str>,
    /// Its number.
    pub pid: Option<u32>,
    /// Its program and arguments, as far as they were recorded.
    pub command: String,
    /// Begin of the first call that is known, CLOCK_MONOTONIC in nanoseconds, and as wall-clock time.
    pub begin: (u64, i64),
    /// Wall-clock time of the last look.
    pub end: i64,
}

/// All files of the logs.
#[derive(Default)]
pub struct Files {
    /// Those of processes, in the order in which they are known.
    pub opens: Vec<Open>,
    /// By [`Open::key`].
    pub processes: BTreeMap<(usize, u32), Process>,
    /// Opens that were too many.
    pub left_out: u64,
    /// Keeps the addresses of runs.
    runs: Vec<Rc<Run>>,
}

impl Logs {
    /// What IOCs did with files.
    pub fn files(&self, filter: &Filter) -> Files {
        let sources = self.sources(filter.since, filter.until).into_iter();
        let events = Events::new(match self.uses_index() {
            true => sources.map(Source::only_health).collect(),
            false => sources.collect(),
        });
        let mut files = Files::default();
        let mut places: BTreeMap<(usize, u32), usize> = BTreeMap::new();
        for found in events {
            let Fact::IoUse(used) = &found.event.fact else { continue };
            if !filter.time(found.time) {
                continue;
            }
            let context = found.run.context();
            let Some(file) = context.io_file(used.file) else { continue };
            let ioc = context.ioc(file.ioc);
            let (name, host) = (ioc.map_or("", |ioc| ioc.name.as_str()), found.run.host());
            if !filter.place(&host, name) {
                continue;
            }
            let run = Rc::as_ptr(&found.run) as usize;
            let key = (run, file.ioc);
            let process = files.processes.entry(key).or_insert_with(|| Process {
                host: host.as_str().into(),
                ioc: name.into(),
                pid: ioc.map(|ioc| ioc.pid),
                command: ioc.map(|ioc| ioc.command.join(" ")).unwrap_or_default(),
                begin: (u64::MAX, i64::MAX),
                end: found.time,
            });
            process.end = process.end.max(found.time);
            if file.since > 0 && file.since < process.begin.0 && !matches!(file.how, FileHow::Others) {
                process.begin = (file.since, found.run.wall(file.since));
            }
            let next = files.opens.len();
            let place = match places.entry((run, used.file)) {
                Entry::Occupied(place) => *place.get(),
                Entry::Vacant(_) if next >= MAX_OPENS => {
                    files.left_out += 1;
                    continue;
                }
                Entry::Vacant(place) => {
                    files.opens.push(Open { file: file.clone(), words: Words::default(), key });
                    *place.insert(next)
                }
            };
            let Some(open) = files.opens.get_mut(place) else { continue };
            if open.file != *file {
                open.file.clone_from(file);
            }
            open.words.change(&used.words);
            if !files.runs.iter().any(|known| Rc::ptr_eq(known, &found.run)) {
                files.runs.push(Rc::clone(&found.run));
            }
        }
        files
    }
}

/// All opens of one file or peer by one process.
#[derive(Clone, Debug)]
pub struct Named<'a> {
    /// Its process.
    pub process: &'a Process,
    /// See [`Open::key`].
    pub key: (usize, u32),
    /// Its name; of one without, its kind and descriptor.
    pub name: String,
    /// Whether the name is known.
    pub is_named: bool,
    /// Its opens.
    pub opens: Vec<&'a Open>,
    /// Their counters together.
    pub words: Words,
}

impl Files {
    /// The opens by process and name, those with most time first.
    pub fn by_name(&self) -> Vec<Named<'_>> {
        let mut places = BTreeMap::new();
        let mut all: Vec<Named<'_>> = Vec::new();
        for open in &self.opens {
            let Some(process) = self.processes.get(&open.key) else { continue };
            let (name, is_named) = shown(open);
            let next = all.len();
            let is_cut = open.file.is_cut;
            let place = *places.entry((open.key, name.clone(), is_named, is_cut)).or_insert(next);
            if place == next {
                let (opens, words) = (Vec::new(), Words::default());
                all.push(Named { process, key: open.key, name, is_named, opens, words });
            }
            if let Some(named) = all.get_mut(place) {
                named.words.add(&open.words);
                named.opens.push(open);
            }
        }
        all.sort_by_key(|named| std::cmp::Reverse(named.words.sum(word::TIME)));
        all
    }
}

/// What stands for an open, and whether that is its name.
fn shown(open: &Open) -> (String, bool) {
    /// SOCK_DGRAM
    const DATAGRAM: u32 = 2;
    let name = open.name();
    let descriptor = open.file.descriptor.map_or_else(String::new, |number| format!(", descriptor {number}"));
    match open.file.how {
        FileHow::Others => ("others, for which there was no room".to_owned(), false),
        FileHow::Process => (format!("all of the process (by /proc: {name})"), false),
        _ if !name.is_empty() => (if open.file.is_cut { format!("{name}...") } else { name }, true),
        FileHow::Socket if open.file.mode & 0xf == DATAGRAM => {
            (format!("datagram socket{descriptor}"), false)
        }
        FileHow::Socket | FileHow::Accepted => (format!("socket without a known peer{descriptor}"), false),
        _ => (format!("name unknown{descriptor}"), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_and_peers() {
        assert_eq!(name(b"/tmp/a\xff\n"), "/tmp/a\\xff\n");
        assert_eq!(name(&[2, 0, 0x13, 0x88, 127, 0, 0, 1, 0, 0]), "127.0.0.1:5000");
        assert_eq!(name(b"\x01\0/run/x\0\0"), "unix:/run/x");
        assert_eq!(name(b"\x01\0\0x"), "unix:@x");
        let mut six = [0; 28];
        (six[0], six[2], six[3], six[23]) = (10, 0x13, 0x88, 1);
        assert_eq!(name(&six), "[::1]:5000");
        assert_eq!(
            (name(&[2, 0]).as_str(), name(&[]).as_str(), name(&[9, 0]).as_str()),
            ("", "", "address of family 9")
        );
    }

    #[test]
    fn counters_of_two_opens() {
        let mut one = Words::default();
        let words = |words: &[(u16, u64)]| -> Vec<Word> {
            words.iter().map(|&(number, value)| Word { number, value }).collect()
        };
        one.change(&words(&[(0, 2), (0, 1), (29, 7), (30, 50), (218, 9), (900, 1), (195, 3), (226, 100)]));
        let mut two = Words::default();
        two.change(&words(&[(0, 4), (29, 5), (30, 40), (218, 99)]));
        one.add(&two);
        assert_eq!((one.get(0), one.get(29), one.get(30), one.get(218)), (7, 7, 40, 99));
        assert_eq!(one.slots(word::ACCESSES, word::ACCESS_SIZES), (vec![(100, 3)], 0), "of the first alone");
    }
}
