//! Shortfalls of an IOC's recording, and their reasons: the log's `not_probed`.
//!
//! They are values; [`Shortfalls::lines`] makes the sentences for the log.

use std::fmt;

use crate::bpf::table::MapError;
use crate::health::threads::Unwatched;
use crate::ioc::layout::LayoutError;
use crate::ioc::records::WalkError;
use crate::linux::reader::budget::Refused;
use crate::probes::attacher::ProbeError;
use crate::probes::not_probed::NotProbed;

/// Something that an IOC's recording lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shortfall {
    /// A function, or the whole process, is not probed.
    NotProbed(NotProbed),
    /// Its record layout is unknown.
    NoLayout(LayoutError),
    /// The BPF maps have no space for its record layout.
    NotInMaps(MapError),
    /// The BPF maps have no space for record types that it loaded later.
    NoNewTypes(MapError),
    /// The walk through its record database did not reach the end.
    NotWalked(WalkError),
    /// It does not answer, or costs too much to inspect.
    Unanswered(Refused),
    /// Its clients' packets are not seen.
    NotCaptured(String),
    /// Signals to it and its crashes are not told.
    NoDeaths(String),
    /// Not all of its threads are watched.
    Unwatched(Unwatched),
    /// Its TCP connections are not told.
    NoConnections,
    /// Not all of its TCP connections are told.
    ManyConnections,
    /// What it uses is not recorded, as the user wants.
    NoResources,
    /// Its probes were gone and could not be placed again.
    ProbesLost(ProbeError),
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shortfall::NotProbed(why) => why.fmt(f),
            Shortfall::NoNewTypes(reason) => reason.fmt(f),
            Shortfall::NotInMaps(reason) => write!(f, "no values or records: {reason}"),
            Shortfall::NoLayout(reason) => write!(f, "no values or records: {reason}"),
            Shortfall::NotWalked(reason) => write!(f, "records are named when they are first seen: {reason}"),
            Shortfall::Unanswered(refused) => write!(f, "names and changes may be missing: {refused}"),
            Shortfall::NotCaptured(reason) => write!(
                f,
                "its network namespace cannot be captured: {reason}; puts by its clients are recorded inside the IOC \
                 at most"
            ),
            Shortfall::NoDeaths(reason) => write!(f, "signals and crashes: {reason}"),
            Shortfall::Unwatched(why) => write!(f, "CPU time of some threads is unknown: {why}"),
            Shortfall::NoConnections => f.write_str(
                "its TCP connections are unknown: the kernel does not list them (CONFIG_INET_DIAG), or its network \
                 namespace cannot be entered",
            ),
            Shortfall::ManyConnections => {
                f.write_str("its TCP connections: some began and ended too often to be noted")
            }
            Shortfall::NoResources => f.write_str("resources: not recorded (--no-resources)"),
            Shortfall::ProbesLost(reason) => write!(
                f,
                "its probes hung on a thread that has ended, and could not be placed anew: {reason}"
            ),
        }
    }
}

/// The sentence of [`Shortfall::NotCaptured`].
pub fn not_captured(reason: &str) -> String {
    Shortfall::NotCaptured(reason.into()).to_string()
}

/// All shortfalls of an IOC, in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shortfalls(Vec<Shortfall>);

impl Shortfalls {
    /// The first shortfall found.
    pub fn first(&self) -> Option<&Shortfall> {
        self.0.first()
    }

    /// Adds a shortfall unless it is present.
    pub fn add(&mut self, shortfall: Shortfall) {
        if !self.0.contains(&shortfall) {
            self.0.push(shortfall);
        }
    }

    /// Adds several at the end; those that were present move there.
    pub fn renew(&mut self, shortfalls: Vec<Shortfall>) {
        self.0.retain(|old| !shortfalls.contains(old));
        self.0.extend(shortfalls);
    }

    /// Removes the shortfalls that are over.
    pub fn remove(&mut self, is_over: fn(&Shortfall) -> bool) {
        self.0.retain(|shortfall| !is_over(shortfall));
    }

    /// Whether there is one of these.
    pub fn have(&self, is_it: impl Fn(&Shortfall) -> bool) -> bool {
        self.0.iter().any(is_it)
    }

    /// Why its packets are not seen.
    pub fn not_captured(&self) -> Option<&str> {
        self.0.iter().find_map(|shortfall| match shortfall {
            Shortfall::NotCaptured(reason) => Some(reason.as_str()),
            _ => None,
        })
    }

    /// The sentences for the log, as far as a block has room for them beside the rest: the paths in them may be as long as
    /// those who run the IOC like.
    pub fn lines(&self) -> Vec<String> {
        /// Bytes of all.
        const MOST: usize = 64 << 10;
        let mut left = MOST;
        let fits = |line: &String| {
            left = left.saturating_sub(line.len());
            left > 0
        };
        let mut lines: Vec<String> = self.0.iter().map(ToString::to_string).take_while(fits).collect();
        let more = self.0.len() - lines.len();
        lines.extend((more > 0).then(|| format!("and {more} more")));
        lines
    }
}

impl FromIterator<Shortfall> for Shortfalls {
    fn from_iter<I: IntoIterator<Item = Shortfall>>(shortfalls: I) -> Shortfalls {
        Shortfalls(shortfalls.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_fit_into_a_block() {
        let long = |number: usize| Shortfall::NotCaptured(format!("{number}: {}", "x".repeat(4000)));
        let all: Shortfalls = (0..100).map(long).collect();
        let lines = all.lines();
        assert!(lines.iter().map(String::len).sum::<usize>() < 65 << 10, "{}", lines.len());
        assert!(lines.last().is_some_and(|last| *last == format!("and {} more", 101 - lines.len())));
    }
    use crate::ioc::functions::Function;
    use crate::ioc::records::ListFault;

    #[test]
    fn each_is_there_once_and_goes_by_what_it_is() {
        let missing = |function| Shortfall::NotProbed(NotProbed::NoSymbol(function));
        let (one, other) = (missing(Function::ScanOnce), missing(Function::PostEvent));
        let full = |map| MapError { map, errno: libc::E2BIG };
        let not_in_maps = Shortfall::NotInMaps(full("processes"));
        let mut all: Shortfalls = [one.clone(), not_in_maps.clone()].into_iter().collect();
        all.add(one.clone());
        all.add(Shortfall::Unanswered(Refused::Time));
        let no_new_types = Shortfall::NoNewTypes(full("types"));
        all.add(no_new_types.clone());
        all.remove(|shortfall| matches!(shortfall, Shortfall::Unanswered(_)));
        let in_maps = "no values or records: the BPF map of processes is full".to_string();
        assert_eq!(all.lines(), [one.to_string(), in_maps, "the BPF map of types is full".into()]);
        all.renew(vec![other.clone(), one.clone()]);
        let expected = [not_in_maps, no_new_types, other, one];
        assert_eq!(all, expected.into_iter().collect());
        assert_eq!(all.not_captured(), None);
    }

    /// The log has these sentences, and people's scripts quote them.
    #[test]
    fn sentences() {
        for (shortfall, sentence) in [
            (
                Shortfall::NotCaptured("setns: x".into()),
                "its network namespace cannot be captured: setns: x; puts by its clients are recorded inside the IOC \
                 at most",
            ),
            (
                Shortfall::ProbesLost(ProbeError::Ended),
                "its probes hung on a thread that has ended, and could not be placed anew: its process has ended",
            ),
            (
                Shortfall::NotWalked(WalkError { rtype: "ao".into(), fault: ListFault::Circle }),
                "records are named when they are first seen: the list of ao records runs in a circle",
            ),
        ] {
            assert_eq!(shortfall.to_string(), sentence);
        }
    }
}
