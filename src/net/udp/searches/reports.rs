//! When entries and loads are reported, and which first.

use std::collections::HashMap;

use iocrec_log::event::{Address, Event, SearchLoad};

use super::entry::Entry;
use super::load::Load;
use super::{Searches, AGAIN, IDLE, MOST, SECOND};
use crate::net::udp::Scope;

impl Searches {
    /// Reports what is due.
    pub fn second(&mut self, now: u64, out: &mut Vec<Event>) {
        self.ration = self.ration.saturating_add(self.limits.rate).min(self.limits.burst);
        self.report(now, out, &|entry| entry.is_due(now));
        self.note_loads(now, out, false);
        let is_full = self.entries.len() >= self.limits.entries;
        let idle = if is_full { 2 * SECOND } else { IDLE };
        self.entries.retain(|_, entry| entry.is_new() || now.saturating_sub(entry.last) < idle);
        self.held.clear();
        for entry in self.entries.values() {
            *self.held.entry((entry.scope, entry.client)).or_default() += 1;
        }
        if now.saturating_sub(self.turned) >= AGAIN || self.numbers.new.len() >= self.limits.entries {
            self.turned = now;
            self.numbers.old = std::mem::take(&mut self.numbers.new);
        }
        if self.entries.is_empty() {
            // a storm is over
            self.entries.shrink_to_fit();
        }
    }

    /// Reports everything, as far as rations go.
    pub fn finish(&mut self, now: u64, out: &mut Vec<Event>) {
        self.report(now, out, &Entry::is_new);
        for entry in self.entries.values().filter(|entry| entry.is_new()) {
            if let Some(loads) = self.loads.get_mut(&entry.namespace) {
                let load = &mut loads.second;
                load.left_out = load.left_out.saturating_add(entry.count.into());
            }
        }
        self.note_loads(now, out, true);
    }

    pub(super) fn report(&mut self, now: u64, out: &mut Vec<Event>, is_due: &dyn Fn(&Entry) -> bool) {
        let mut due: Vec<(bool, u32, u64)> = Vec::new();
        for (hash, entry) in &self.entries {
            if is_due(entry) {
                due.push((entry.is_answered, u32::MAX - entry.count, *hash));
            }
        }
        due.sort_unstable();
        // by turns: one sender's names must not keep those of others waiting
        let mut turns: HashMap<(Scope, Address), u32> = HashMap::new();
        for (_, order, hash) in &mut due {
            let Some(entry) = self.entries.get(hash) else { continue };
            let turn = turns.entry((entry.scope, entry.client)).or_default();
            *order = *turn;
            *turn += 1;
        }
        due.sort_unstable();
        due.truncate(self.ration as usize);
        self.ration -= due.len() as u32;
        for (is_answered, _, hash) in due {
            let Some(entry) = self.entries.get_mut(&hash) else { continue };
            entry.report(now, &self.facts, out);
            let sender = (entry.namespace, entry.client);
            let is_new = self.senders.len() < 2 * MOST && !self.senders.contains(&sender);
            if !is_answered && !entry.tcp && is_new {
                self.senders.push(sender);
            }
        }
    }

    fn note_loads(&mut self, now: u64, out: &mut Vec<Event>, is_end: bool) {
        let facts = self.facts;
        for (namespace, loads) in &mut self.loads {
            let mut noted = loads.end_second(now);
            if is_end {
                noted.extend(loads.storm.take().map(|(storm, _)| storm));
                noted.push(std::mem::replace(&mut loads.calm, Load::starting(now)));
            }
            for load in noted {
                let most = if load.is_high() { load.senders.first(MOST) } else { Vec::new() };
                let senders = most.iter().map(|&(client, _)| (*namespace, client));
                self.senders.extend(senders.take((2 * MOST).saturating_sub(self.senders.len())));
                let note = SearchLoad {
                    namespace: *namespace,
                    since: load.since,
                    datagrams: load.datagrams,
                    names: load.names,
                    left_out: load.left_out,
                    cut: load.cut,
                    unread: load.unread,
                    one_in: load.one_in,
                    most,
                };
                out.push(Event { time: now, fact: (facts.load)(note) });
            }
        }
    }
}
