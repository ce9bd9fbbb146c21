//! The searches of one sender for one name.

use iocrec_log::event::{self, Address, Event};

use super::facts::{Answer, Facts};
use super::{AGAIN, SECOND};
use crate::linux::text::printable;
use crate::net::udp::Scope;
use crate::net::Namespace;

/// Time for an answer to come before the first report.
const ANSWERED: u64 = SECOND;

/// Time between later ones than the first.
const LATER: u64 = 60 * SECOND;

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) namespace: Namespace,
    pub(super) scope: Scope,
    pub(super) client: Address,
    pub(super) tcp: bool,
    pub(super) name: Box<[u8]>,
    pub(super) count: u32,
    pub(super) since: u64,
    pub(super) last: u64,
    pub(super) not_found: u32,
    pub(super) answers: Vec<(Answer, u32)>,
    /// Whether anybody has ever answered.
    pub(super) is_answered: bool,
    /// Time and number of the reports so far.
    pub(super) reported: u64,
    pub(super) reports: u32,
}

impl Entry {
    pub(super) fn is_new(&self) -> bool {
        self.count > 0 || self.not_found > 0 || !self.answers.is_empty()
    }

    pub(super) fn is_due(&self, now: u64) -> bool {
        let after = |time: u64, pause: u64| now.saturating_sub(time) >= pause;
        self.is_new()
            && match self.reports {
                0 => after(self.since, ANSWERED),
                1..=3 => after(self.reported, AGAIN),
                _ => after(self.reported, LATER),
            }
    }

    pub(super) fn report(&mut self, now: u64, facts: &Facts, out: &mut Vec<Event>) {
        self.reported = now;
        self.reports = self.reports.saturating_add(1);
        let answers = std::mem::take(&mut self.answers);
        let guids = answers.iter().map(|(answer, _)| answer.guid).collect();
        let searches = event::Searches {
            namespace: self.namespace,
            client: self.client,
            tcp: self.tcp,
            name: printable(&self.name),
            count: std::mem::take(&mut self.count),
            since: self.since,
            last: self.last,
            not_found: std::mem::take(&mut self.not_found),
            answers: answers.into_iter().map(|(answer, count)| (answer.server, count)).collect(),
        };
        out.push(Event { time: now, fact: (facts.searches)(searches, guids) });
    }
}
