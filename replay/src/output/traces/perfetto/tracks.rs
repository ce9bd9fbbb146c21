//! Tracks: those of clients, threads, records and values, in a group for each IOC.
//!
//! Slices of a track of Perfetto must lie inside of each other or follow each other: an end closes whichever slice is the
//! innermost. So a track here has as many lanes as it needs, each a track of Perfetto with the same name, which its page
//! shows together.

use super::super::otlp::shape::Attribute;
use super::packets::{shown, Packets};
use super::{int, text};
use std::collections::HashMap;

/// Tracks that are known at a time, 50 MB, and bytes of their names, each of which is held twice; bounds for hostile logs. If
/// there are more, all are begun anew.
const MAX_TRACKS: usize = 200_000;
const MAX_BYTES: usize = 16 << 20;
/// Lanes of a track that are looked through for room; beyond, the first is given up for a new one.
const MAX_LANES: usize = 64;
/// Slices inside of each other: Perfetto's limit is 512.
const MAX_DEPTH: usize = 100;
/// The largest process id that Linux gives.
const MAX_PID: i64 = 1 << 22;

/// The group of an IOC that a track is in, in the order in which they are shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Folder {
    Clients,
    Threads,
    Records,
    Values,
}

/// All tracks.
#[derive(Default)]
pub(super) struct Tracks {
    /// The last number that was given to a track.
    last: u64,
    /// Tracks of IOCs, by their instances.
    processes: HashMap<String, u64>,
    /// Process ids that are taken: an id is that of a process in the trace, and another host may have the same.
    pids: HashMap<i64, String>,
    /// The tracks that hold others.
    folders: HashMap<(u64, Folder), u64>,
    places: HashMap<(u64, Folder, String), usize>,
    tracks: Vec<Track>,
    counters: HashMap<(u64, String), u64>,
    /// Bytes of names.
    bytes: usize,
}

/// A track for slices.
struct Track {
    parent: u64,
    name: String,
    lanes: Vec<Lane>,
}

/// A track of Perfetto.
struct Lane {
    number: u64,
    /// The latest time that was written to it.
    latest: u64,
    /// Ends of its slices that last, the innermost last.
    ends: Vec<u64>,
}

impl Tracks {
    /// Whether there are so many that they should begin anew.
    pub(super) fn are_many(&self) -> bool {
        self.bytes > MAX_BYTES || self.processes.len() + self.tracks.len() + self.counters.len() > MAX_TRACKS
    }

    /// Ends all slices and forgets the tracks. Nothing may wait to be put on one.
    pub(super) fn begin_anew(&mut self, packets: &mut Packets) {
        self.end(packets);
        *self = Tracks { last: self.last, ..Tracks::default() };
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The track of an IOC, or of a server of which only the address is known.
    pub(super) fn process(&mut self, packets: &mut Packets, resource: &[Attribute]) -> u64 {
        let service = text(resource, "service.name").unwrap_or("unnamed");
        let host = text(resource, "host.name").unwrap_or_default();
        let instance = text(resource, "service.instance.id");
        let key = format!("{}\n{service}\n{host}", instance.unwrap_or_default());
        if let Some(number) = self.processes.get(&key) {
            return *number;
        }
        let number = self.next();
        let own = int(resource, "process.pid");
        // One that is taken already, or unknown, is replaced by one that no process has.
        let free = own.filter(|pid| (1..=MAX_PID).contains(pid) && !self.pids.contains_key(pid));
        let pid = free.unwrap_or(MAX_PID + number.cast_signed());
        self.pids.insert(pid, key.clone());
        let name = match own {
            Some(pid) => format!("{service} (pid {pid} on {host})"),
            None => service.to_owned(),
        };
        packets.track(|to| {
            to.number(1, number);
            to.message(3, |to| {
                to.number(1, pid.cast_unsigned());
                to.bytes(6, shown(&name).as_bytes());
            });
            // EXPLICIT
            to.number(11, 3);
        });
        self.bytes += key.len();
        self.processes.insert(key, number);
        number
    }

    fn folder(&mut self, packets: &mut Packets, process: u64, folder: Folder) -> u64 {
        if let Some(number) = self.folders.get(&(process, folder)) {
            return *number;
        }
        let number = self.next();
        let (rank, name) = match folder {
            Folder::Clients => (1, "clients"),
            Folder::Threads => (2, "threads"),
            Folder::Records => (3, "records that complete later"),
            Folder::Values => (4, "values"),
        };
        packets.track(|to| {
            to.number(1, number);
            to.number(5, process);
            to.bytes(2, name.as_bytes());
            // LEXICOGRAPHIC
            to.number(11, 1);
            to.number(12, rank);
        });
        self.folders.insert((process, folder), number);
        number
    }

    /// The place of a track for slices.
    pub(super) fn track(&mut self, packets: &mut Packets, process: u64, folder: Folder, name: &str) -> usize {
        let key = (process, folder, name.to_owned());
        if let Some(place) = self.places.get(&key) {
            return *place;
        }
        let parent = self.folder(packets, process, folder);
        self.tracks.push(Track { parent, name: shown(name), lanes: Vec::new() });
        let place = self.tracks.len() - 1;
        self.bytes += name.len();
        self.places.insert(key, place);
        place
    }

    /// The track of a record's values.
    pub(super) fn counter(&mut self, packets: &mut Packets, process: u64, record: &str) -> u64 {
        let key = (process, record.to_owned());
        if let Some(number) = self.counters.get(&key) {
            return *number;
        }
        let parent = self.folder(packets, process, Folder::Values);
        let number = self.next();
        packets.track(|to| {
            to.number(1, number);
            to.number(5, parent);
            to.bytes(2, shown(record).as_bytes());
            to.message(8, |_| {});
        });
        self.bytes += record.len();
        self.counters.insert(key, number);
        number
    }

    /// A lane of a track in which a slice of this time lies inside of others or after them. Slices before it end.
    pub(super) fn lane(&mut self, packets: &mut Packets, track: usize, time: (u64, u64)) -> u64 {
        let Some(of) = self.tracks.get_mut(track) else { return 0 };
        if let Some(lane) = of.lanes.iter_mut().find_map(|lane| lane.take(packets, time)) {
            return lane;
        }
        if of.lanes.len() >= MAX_LANES {
            let mut first = of.lanes.remove(0);
            first.end(packets, u64::MAX);
        }
        self.last += 1;
        let mut lane = of.new_lane(packets, self.last);
        (lane.latest, lane.ends) = (time.0, vec![time.1]);
        let number = lane.number;
        of.lanes.push(lane);
        number
    }

    /// A lane of a track, whichever.
    pub(super) fn any_lane(&mut self, packets: &mut Packets, track: usize) -> u64 {
        let Some(of) = self.tracks.get_mut(track) else { return 0 };
        if let Some(lane) = of.lanes.first() {
            return lane.number;
        }
        self.last += 1;
        let lane = of.new_lane(packets, self.last);
        let number = lane.number;
        of.lanes.push(lane);
        number
    }

    /// Ends all slices.
    pub(super) fn end(&mut self, packets: &mut Packets) {
        for lane in self.tracks.iter_mut().flat_map(|track| &mut track.lanes) {
            lane.end(packets, u64::MAX);
        }
    }
}

impl Track {
    fn new_lane(&self, packets: &mut Packets, number: u64) -> Lane {
        packets.track(|to| {
            to.number(1, number);
            to.number(5, self.parent);
            to.bytes(2, self.name.as_bytes());
        });
        Lane { number, latest: 0, ends: Vec::new() }
    }
}

impl Lane {
    /// Takes a slice if there is room.
    fn take(&mut self, packets: &mut Packets, (start, end): (u64, u64)) -> Option<u64> {
        if start < self.latest {
            return None;
        }
        self.end(packets, start);
        let fits = self.ends.len() < MAX_DEPTH && self.ends.last().is_none_or(|last| *last >= end);
        fits.then(|| {
            self.latest = start;
            self.ends.push(end);
            self.number
        })
    }

    /// Ends the slices that end until then.
    fn end(&mut self, packets: &mut Packets, until: u64) {
        while let Some(end) = self.ends.pop_if(|end| *end <= until) {
            packets.end_slice(end, self.number);
            self.latest = self.latest.max(end);
        }
    }
}
