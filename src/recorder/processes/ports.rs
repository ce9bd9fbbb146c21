//! The ports of Channel Access and PV Access servers: of IOCs, and of other CA servers.
//!
//! To find the servers means reading all processes' descriptors, so it is done when a socket has begun or ceased to
//! listen, which is looked at every few seconds, and each second for IOCs that have just started; when a server of
//! PVAccess has answered a search with a port that is new; once a minute if IOCs live in other network namespaces, of
//! which the kernel does not tell what listens; and every ten minutes for a socket that a process was given by another. A
//! new server counts as not an IOC once an inspection that began after it started to serve has found no EPICS Base: IOCs
//! map Base before they serve. One that failed has found nothing.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::ca::servers::Server;
use crate::inspector::{CaServer, Inspector, Request};
use crate::ioc::copies::ForkedCopy;
use crate::ioc::ports;
use crate::net::Namespace;
use crate::recorder::context::Context;
use crate::recorder::env::Env;
use crate::recorder::error::{NotTraced, StartError};
use crate::recorder::processes::describe::{container, describe, recording};
use crate::recorder::registry::traced_ioc::TracedIoc;
use crate::recorder::registry::Registry;

/// Interval between searches for servers, nanoseconds.
const PERIOD: u64 = 5_000_000_000;
/// Longest time without a search: where an IOC lives in another network namespace, and elsewhere.
const LONGEST: u64 = 60_000_000_000;
const LONGEST_HERE: u64 = 600_000_000_000;
/// Least time between two searches for what has answered: anybody can answer with another port each time.
const AFTER_ANSWERS: u64 = 30_000_000_000;
/// Interval while a server may be an IOC.
const SOON: u64 = 100_000_000;
/// Longest wait of the start for that.
const SUSPECTED: Duration = Duration::from_secs(1);

/// The search for servers.
#[derive(Default)]
pub struct PortSearch {
    /// Time of the next search of all processes, monotonic.
    next: u64,
    /// Time when the next search must not be left out, though nothing has begun to listen.
    search_by: u64,
    /// Whether the inspector has a request for all servers that it has not answered yet. Where processes have very many
    /// descriptors that takes long.
    is_asked: bool,
    /// Whether it has one for those of young IOCs; and whether it has got one since it was last asked for all.
    is_asked_of_young: bool,
    knows_young: bool,
    /// Processes that serve and may be IOCs, until their next inspection; since when.
    suspects: HashMap<u32, Instant>,
    /// TCP ports that servers of PVAccess had named in answers to searches by the last search of all processes.
    answered: Vec<u16>,
    /// Time from which a new one of them makes a search due.
    answers_from: u64,
    /// Whether the recorder has started.
    pub is_started: bool,
    /// Processes that were forked from an IOC, and the program that they ran then. They have its sockets, but nobody there
    /// serves.
    copies: HashMap<u32, (ForkedCopy, Option<(u64, u64)>)>,
}

impl PortSearch {
    /// Notes that a process is an IOC.
    pub fn found_ioc(&mut self, pid: u32) {
        self.suspects.remove(&pid);
        self.copies.remove(&pid);
        (self.next, self.search_by) = (0, 0);
    }

    /// Notes that a process was forked from an IOC.
    pub fn found_copy(&mut self, pid: u32, copy: ForkedCopy, image: Option<(u64, u64)>) {
        self.copies.insert(pid, (copy, image));
    }

    /// A process that was forked from an IOC and runs none of its own, unless it has executed another program since.
    pub fn copy(&self, env: &Env<'_>, pid: u32) -> Option<ForkedCopy> {
        let (copy, image) = self.copies.get(&pid)?;
        (env.procfs().image(pid) == *image).then_some(*copy)
    }

    /// Forgets all processes but these.
    pub fn retain(&mut self, pids: &HashSet<u32>, iocs: &Registry) {
        self.suspects.retain(|&pid, _| pids.contains(&pid) && !iocs.has(pid));
        self.copies.retain(|pid, _| pids.contains(pid));
    }

    /// Whether every server is known that existed at the start.
    pub fn is_through(&self) -> bool {
        // wait for a server that might be an IOC, but not for one that does not answer
        let waits = self.suspects.values().any(|since| since.elapsed() < SUSPECTED);
        !self.is_asked && !self.is_asked_of_young && self.next != 0 && !waits
    }

    /// Whether it waits for the servers among all processes, and for those among young IOCs.
    #[cfg(test)]
    pub fn asked(&self) -> (bool, bool) {
        (self.is_asked, self.is_asked_of_young)
    }

    /// Whether a process serves and may be an IOC.
    pub fn suspects(&self, pid: u32) -> bool {
        self.suspects.contains_key(&pid)
    }

    /// Whether there are any.
    pub fn has_suspects(&self) -> bool {
        !self.suspects.is_empty()
    }

    /// Time from `now` until the next search, if that can't wait for the next survey.
    pub fn rest(&self, now: u64) -> Duration {
        let is_asked = self.is_asked || self.is_asked_of_young;
        if is_asked || self.suspects.is_empty() && self.next != 0 {
            return Duration::MAX;
        }
        Duration::from_nanos(self.next.saturating_sub(now))
    }

    /// Searches at once where a search is due.
    pub fn search_if_due(&mut self, cx: &Context<'_>, inspector: &Inspector) {
        let now = cx.env.monotonic();
        if self.next <= now && !self.is_asked {
            self.search(cx, inspector, now);
        }
    }

    /// Asks which processes serve, if a search is due.
    pub fn search(&mut self, cx: &Context<'_>, inspector: &Inspector, now: u64) {
        if self.is_asked_of_young {
            return;
        }
        if now >= self.next && !self.is_asked {
            self.next = now + PERIOD;
            let iocs = cx.iocs.iter().filter(|ioc| ioc.process.is_some());
            let is_news = |port: &u16| {
                !self.answered.contains(port) && !cx.iocs.iter().any(|ioc| ioc.about.pva_ports.contains(port))
            };
            let has_answered = now >= self.answers_from && cx.env.run.pva_answers.iter().any(is_news);
            let at_once = now >= self.search_by || !self.suspects.is_empty() || has_answered;
            if has_answered {
                self.answers_from = now + AFTER_ANSWERS;
            }
            if at_once {
                self.answered.clone_from(&cx.env.run.pva_answers);
                let here = cx.env.procfs().namespace(std::process::id());
                let is_elsewhere = cx.iocs.iter().any(|ioc| ioc.namespace != here);
                self.search_by = now + if is_elsewhere { LONGEST } else { LONGEST_HERE };
            } else if inspector.listen_the_same() {
                return;
            }
            let (mut answered, only) = (self.answered.clone(), cx.env.options.pids.clone());
            answered.extend(&cx.env.options.ports);
            let iocs = iocs.map(|ioc| ioc.pid).collect();
            self.knows_young = false;
            self.is_asked = inspector.request(Request::Servers { iocs, at_once, answered, only });
        } else {
            let young: Vec<&TracedIoc> = cx.iocs.iter().filter(|ioc| now < ioc.young_until).collect();
            // the kernel tells of this namespace alone
            let is_news = !young.is_empty() && {
                let here = cx.env.procfs().namespace(std::process::id());
                young.iter().any(|ioc| ioc.namespace != here) || !inspector.listen_the_same()
            };
            if is_news {
                let iocs = young.iter().map(|ioc| ioc.pid).collect();
                self.is_asked_of_young = inspector.request(Request::ServersAmong { iocs });
                self.knows_young |= self.is_asked_of_young;
            }
        }
    }

    /// Leaves a server that can't be inspected until a later search: it may be an IOC, and is inspected again by itself.
    fn leave(&mut self, pid: u32, now: u64) {
        self.suspects.remove(&pid);
        self.search_by = self.search_by.min(now + LONGEST);
    }

    /// Takes over the servers found, since when they serve, and their descriptions by /proc where they are not IOCs. `of_all`:
    /// all processes were searched. What was found of a young IOC is older then than what it was asked for meanwhile.
    pub fn note(
        &mut self,
        cx: &mut Context<'_>,
        inspector: &Inspector,
        now: u64,
        found: Vec<CaServer>,
        of_all: bool,
    ) {
        if of_all {
            self.is_asked = false;
            let procfs = cx.env.procfs();
            cx.iocs.guesses().retain(|guess| {
                // if nothing has begun to listen, nobody was looked for
                let serves = found.is_empty() || found.iter().any(|found| found.server.pid == guess.pid);
                serves && !procfs.has_ended(guess.pid, guess.start)
            });
        } else {
            self.is_asked_of_young = false;
            // they may not have been read for want of descriptors
            self.knows_young &= !found.is_empty();
        }
        let is_older = of_all && self.knows_young;
        let here = cx.env.procfs().namespace(std::process::id());
        for CaServer { server, start, process: about } in found {
            let pid = server.pid;
            let options = cx.env.options;
            let wanted = cx.iocs.has(pid)
                || (options.pids.is_empty() || options.pids.contains(&pid)) && options.chosen.users.have(pid);
            if !wanted || cx.env.procfs().start(pid) != Some(start) {
                continue;
            }
            let is_new = !cx.iocs.has(pid);
            let is_named = server.pva_port.is_some_and(|port| options.ports.contains(&port));
            let is_guess = server.is_guess && !is_named;
            if is_older && cx.iocs.get(pid).is_some_and(|ioc| now < ioc.young_until) {
                continue;
            }
            let guess = cx.iocs.guesses().iter().position(|guess| (guess.pid, guess.start) == (pid, start));
            if let Some(guess) = guess {
                let guess = cx.iocs.guesses().swap_remove(guess);
                record_or_wait(cx, guess, &server, is_guess);
            } else if is_new {
                if let Some(copy) = self.copy(&cx.env, pid) {
                    // the start may have ended without saying so
                    if self.suspects.remove(&pid).is_some() && self.is_started && options.pids.contains(&pid)
                    {
                        let why = StartError::NotTraced { pid, reason: NotTraced::Copy(copy) };
                        cx.env.messages.push(why.to_string());
                    }
                    continue;
                }
                if inspector.is_silent(pid) {
                    self.leave(pid, now);
                    continue;
                }
                // IOCs map Base before they serve, so an inspection from now on is decisive
                let since = *self.suspects.entry(pid).or_insert_with(Instant::now);
                let Some(about) = about.filter(|_| inspector.has_inspected(pid, since)) else {
                    self.next = self.next.min(now + SOON);
                    continue;
                };
                // one that ended just now may have failed, and one whose files could not be opened for want of descriptors
                if inspector.is_silent(pid) || !crate::linux::descriptors::have_room_for(1) {
                    self.leave(pid, now);
                    continue;
                }
                self.suspects.remove(&pid);
                if !options.chosen.have_container(about.container.as_ref()) {
                    continue;
                }
                let described = describe(&mut cx.env, pid, start, &about);
                let mut ioc = TracedIoc::new(&cx.env, described, None);
                ioc.container = container(ioc.id, &about);
                record_or_wait(cx, ioc, &server, is_guess);
            }
            let Some(ioc) = cx.iocs.get_mut(pid) else { continue };
            let mut guessed: Vec<u16> = Vec::new();
            let (ca_ports, mut pva_ports, is_guess) = match &ioc.process {
                Some(process) => {
                    let (ca, mut pva, is_guess) = ports::divide(process, &server, &ioc.about.pva_ports);
                    // A server of PVAccess that finds its port taken has whatever was free, as all but one of several in a
                    // process, and something else may listen there, too. Anybody can answer with any port.
                    if ioc.namespace == here {
                        let is_known = |port: &u16| ca.contains(port) || pva.contains(port);
                        let is_other = |port: &u16| self.answered.contains(port) && !is_known(port);
                        guessed = server.ports.iter().copied().filter(is_other).collect();
                        pva.extend(guessed.extract_if(.., |port| ioc.about.pva_ports.contains(port)));
                    }
                    (ca, pva, is_guess)
                }
                None => {
                    ioc.pva_search = server.pva_search;
                    (server.ports, server.pva_port.into_iter().collect(), is_guess)
                }
            };
            if is_guess && ioc.about.pva_ports != pva_ports {
                guessed = std::mem::take(&mut pva_ports);
            }
            cx.changed |= ioc.guessed != guessed;
            ioc.guessed = guessed;
            if ioc.about.ca_ports == ca_ports && ioc.about.pva_ports == pva_ports {
                continue;
            }
            ioc.about.ca_ports = ca_ports;
            ioc.about.pva_ports = pva_ports;
            cx.changed = true;
            ioc.announce(&mut cx.env, now);
            if is_new {
                cx.env.messages.push(recording(&ioc.about));
            } else if let Some(process) = &ioc.process {
                inspector
                    .request(Request::Clients { ioc: process.clone(), ports: ioc.about.ca_ports.clone() });
            }
        }
    }
}

/// Records a process that serves. One that only may do so waits: packets will show it.
fn record_or_wait(cx: &mut Context<'_>, mut ioc: TracedIoc, server: &Server, is_guess: bool) {
    if !is_guess || !server.ports.is_empty() {
        cx.iocs.add(ioc, cx.env.run);
        return;
    }
    let guessed: Vec<u16> = server.pva_port.into_iter().collect();
    if ioc.guessed != guessed {
        let line = format!("{} may serve PVAccess: it is recorded once packets show that", ioc.label());
        cx.env.messages.push(line);
        ioc.guessed = guessed;
        cx.changed = true;
    }
    ioc.pva_search = server.pva_search;
    let guesses = cx.iocs.guesses();
    guesses.retain(|guess| guess.pid != ioc.pid);
    guesses.push(ioc);
}

/// A server of PVAccess has shown itself at a port: it is that of the processes that might have had it.
pub fn confirm(cx: &mut Context<'_>, namespace: Namespace, port: u16) {
    let is_it = |ioc: &TracedIoc| ioc.namespace == Ok(namespace) && ioc.guessed.contains(&port);
    while let Some(at) = cx.iocs.guesses().iter().position(is_it) {
        let ioc = cx.iocs.guesses().swap_remove(at);
        cx.env.messages.push(recording(&ioc.about));
        cx.iocs.add(ioc, cx.env.run);
    }
    let now = cx.env.monotonic();
    for ioc in cx.iocs.iter_mut().filter(|ioc| is_it(ioc)) {
        ioc.guessed.retain(|guessed| *guessed != port);
        ioc.about.pva_ports.push(port);
        ioc.announce(&mut cx.env, now);
        cx.changed = true;
    }
}
