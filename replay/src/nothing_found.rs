//! Explanations of empty results: a line for the user instead of silence.
//!
//! Compares the request with the contents of the logs: hosts, IOCs, PVs (with suggestions), the time that they span, or
//! whether they hold anything of the kind. This reads the logs again, so it is done only if nothing was found.

use crate::filter::{names, Filter};
use crate::logs::Logs;
use crate::pattern::Pattern;
use crate::reading::runs::first_clock;
use crate::reading::runs::set::SetLater;
use crate::reading::scan::{Blocks, Part, Scan};
use crate::shown_names::{names_process, own_name, with_pid};
use crate::suggest;
use crate::time::Zone;
use epics::pv::{link_target, Pv};
use iocrec_log::context::Context;
use iocrec_log::event::{Container, Event, Fact, Ip6, Loss, LossSource, Tier};
use std::collections::BTreeSet;
use std::fmt;

/// Names of hosts and IOCs listed.
const MAX_LISTED: usize = 5;
/// Names remembered, and bytes of one; bounds for hostile logs.
const MAX_NAMES: usize = 1000;
const MAX_LENGTH: usize = 1000;

/// Kinds of items to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Puts, from outside the IOCs or all.
    Puts,
    /// Process chains.
    Chains,
    /// IOCs.
    Iocs,
    /// Records.
    Records,
    /// Values of fields.
    Values,
    /// Alarms.
    Alarms,
    /// Clients.
    Clients,
    /// The network.
    Network,
    /// What IOCs printed.
    Console,
    /// What IOCs used of the machine.
    Health,
    /// Threads that stood still.
    Stuck,
    /// What IOCs did with files.
    Files,
    /// What happened, of whatever sort.
    Happened,
    /// Numbers of whatever sort.
    Metrics,
}

/// Contents of the logs.
#[derive(Default)]
pub struct Held {
    hosts: BTreeSet<String>,
    iocs: BTreeSet<String>,
    /// Each of their processes as `NAME pid N`.
    processes: BTreeSet<String>,
    any_ioc: bool,
    users: BTreeSet<String>,
    /// Addresses of clients, with the port and without, and the hosts that they claim.
    ends: BTreeSet<String>,
    claimed: BTreeSet<String>,
    /// Names of containers and pods.
    pods: BTreeSet<String>,
    clients: bool,
    /// Wall-clock times of the beginning of the logs, and of the last event, the last reading of the clock or the end of the
    /// recording: where nothing happened, these show that the recorder ran.
    span: Option<(i64, i64)>,
    puts: bool,
    processing: bool,
    console: bool,
    resources: bool,
    stuck: bool,
    files: bool,
    /// Whether there is a loss that puts may be among, or packets were read from a file, which may lack what clients sent.
    may_lack_puts: bool,
    /// Whether everything was recorded without probes.
    packets_only: bool,
    /// Whether some run says how it was recorded.
    tier: bool,
}

impl Held {
    /// Looks through the logs. Parts that can't be read were reported when they were read for the answer.
    pub fn look(logs: &Logs) -> Held {
        Held::look_at(logs, Blocks::All)
    }

    /// The same of these blocks.
    fn look_at(logs: &Logs, blocks: Blocks) -> Held {
        let mut held = Held { packets_only: true, ..Held::default() };
        for run in logs.runs() {
            let mut context = Context::default();
            SetLater::find(run).inspect(|set| set.apply_to(&mut context));
            first_clock(run).into_iter().for_each(|(_, begun)| held.reach(begun));
            for part in Scan::new(run, blocks) {
                let Part::Block(block) = part else { continue };
                block.events.iter().for_each(|event| held.event(&mut context, event.time, &event.fact));
            }
        }
        held
    }

    fn event(&mut self, context: &mut Context, time: u64, fact: &Fact) {
        match fact {
            Fact::Host(host) => {
                self.may_lack_puts |= host.name.is_empty();
                remember(&mut self.hosts, &host.name);
            }
            Fact::Loss(Loss {
                source: LossSource::Hits | LossSource::Packets | LossSource::Stream, ..
            }) => {
                self.may_lack_puts = true;
            }
            Fact::Ioc(ioc) => {
                self.any_ioc = true;
                remember(&mut self.iocs, &ioc.name);
                remember(&mut self.iocs, own_name(&ioc.name));
                remember(&mut self.processes, &with_pid(&ioc.name, ioc.pid));
            }
            Fact::Circuit(circuit) => {
                self.clients = true;
                remember(&mut self.users, &circuit.user);
                remember(&mut self.claimed, &circuit.host);
                if circuit.client.ip >= Ip6::END {
                    let end = circuit.client.to_string();
                    remember(&mut self.claimed, end.rsplit_once(':').map_or("", |(address, _)| address));
                    remember(&mut self.ends, &end);
                }
            }
            Fact::Container(container) => {
                let Container { ioc: _, runtime: _, id, pod, is_kubernetes: _, host_name } = &**container;
                [id, pod, host_name].into_iter().for_each(|name| remember(&mut self.pods, name));
            }
            Fact::Tier(tier) => {
                self.tier = true;
                self.packets_only &= tier.tier == Tier::Packet;
            }
            Fact::CaPut(_) | Fact::PvaPut(_) | Fact::Put(_) | Fact::CaLinkPut(_) => self.puts = true,
            Fact::Process(_) | Fact::Complete(_) | Fact::RsetProcess(_) => self.processing = true,
            Fact::Resources(_) => self.resources = true,
            Fact::ConsoleLine(_) | Fact::ConsoleLeftOut(_) | Fact::GivingUp(_) => self.console = true,
            Fact::Stuck(_) | Fact::ScanOverruns(_) | Fact::QueueFill(_) => self.stuck = true,
            Fact::IoUse(_) => self.files = true,
            Fact::Clock(_) | Fact::SegmentEnd(_) => {}
            _ => return,
        }
        match fact {
            Fact::Host(_) | Fact::Clock(_) => context.apply(time, fact),
            Fact::Ioc(_) | Fact::Container(_) | Fact::Tier(_) | Fact::Circuit(_) | Fact::Loss(_) => {}
            _ => {
                let Some(wall) = context.wall(time) else { return };
                self.reach(wall);
            }
        }
        if let (Fact::Clock(clock), Some((_, last))) = (fact, &mut self.span) {
            *last = (*last).max(clock.wall);
        }
    }

    /// The recorder ran at this time.
    fn reach(&mut self, wall: i64) {
        let (first, last) = self.span.unwrap_or((wall, wall));
        self.span = Some((first.min(wall), last.max(wall)));
    }

    /// Whether processing could not be seen in any of these logs.
    pub fn has_no_probes(&self) -> bool {
        self.tier && self.packets_only
    }

    /// The part of the filter that nothing in these logs matches; `None` if each part by itself matches something.
    pub fn lacks(&self, filter: &Filter, zone: &Zone) -> Option<String> {
        if let Some(line) = none_of("host", &filter.host, &self.hosts) {
            return Some(line);
        }
        let iocs = match &filter.ioc {
            Some(ioc) if names_process(ioc) && !self.iocs.iter().any(|name| ioc.matches(name)) => {
                &self.processes
            }
            _ => &self.iocs,
        };
        if let Some(line) = none_of("IOC", &filter.ioc, iocs) {
            return Some(line);
        }
        if let Some(pods) = filter.pod.as_ref().filter(|pods| pods.is_empty()) {
            return Some(no_match("container or pod", pods.pattern(), &self.pods));
        }
        if let Some(line) = none_of("user", &filter.user, &self.users) {
            return Some(line);
        }
        if filter.client.as_ref().is_some_and(|client| client.text().is_empty()) {
            return Some(
                "no client matches '': name an address, ADDRESS:PORT, a claimed host or an IOC".to_owned(),
            );
        }
        if let Some(line) = filter.client.as_ref().and_then(|client| self.no_client(client)) {
            return Some(line);
        }
        if let (Some(since), Some(until)) = (filter.since, filter.until) {
            if since >= until {
                let [since, until] = [since, until].map(|time| zone.format(time, 3));
                return Some(format!("the time range is empty: {since} is not before {until}"));
            }
        }
        let (first, last) = self.span?;
        let outside = filter.since.is_some_and(|since| since > last)
            || filter.until.is_some_and(|until| until <= first);
        outside.then(|| {
            format!("nothing was recorded at that time; these logs hold {}", between(first, last, zone))
        })
    }

    /// That no client matches, if that is certain: not all are remembered, nor their addresses of IPv6.
    fn no_client(&self, client: &Pattern) -> Option<String> {
        let all = [&self.ends, &self.claimed, &self.iocs, &self.processes];
        let is_known = all.into_iter().flatten().any(|name| client.matches(name));
        let is_ip6 = client.text().matches(':').count() > 1;
        let is_full = all.into_iter().any(|names| names.len() >= MAX_NAMES);
        (!is_known && !is_ip6 && !is_full).then(|| no_match("client", client, &self.claimed))
    }

    /// The time span of the logs as text.
    pub fn time(&self, zone: &Zone) -> Option<String> {
        self.span.map(|(first, last)| between(first, last, zone))
    }
}

/// Remembers a name; an empty one is not known.
fn remember(names: &mut BTreeSet<String>, name: &str) {
    if !name.is_empty() && name.len() <= MAX_LENGTH && names.len() < MAX_NAMES {
        names.insert(name.to_owned());
    }
}

fn between(first: i64, last: i64, zone: &Zone) -> String {
    let [first, last] = [first, last].map(|time| zone.format(time, 3));
    if first == last {
        return first;
    }
    format!("{first} to {last}")
}

/// Explains in a line why nothing was found. `only_links`: `--all` would show puts.
pub fn explain(kind: Kind, logs: &Logs, filter: &Filter, only_links: bool, zone: &Zone) -> String {
    let held = Held::look(logs);
    held.lacks(filter, zone)
        .or_else(|| {
            only_links.then(|| "only puts of database links and CA links match; --all shows them".to_owned())
        })
        .or_else(|| held.nothing_of(kind))
        .or_else(|| no_pv(&filter.pv, logs))
        .unwrap_or_else(|| {
            let nothing = match kind {
                Kind::Puts => "no put matches",
                Kind::Chains => "no chain matches",
                Kind::Iocs => "no IOC matches",
                Kind::Records => "no record matches",
                Kind::Values => "no value matches",
                Kind::Alarms => "no alarm matches",
                Kind::Clients => "no client matches",
                Kind::Network => "nothing unusual on the network matches",
                Kind::Console => "no line matches",
                Kind::Health | Kind::Happened | Kind::Metrics => "nothing of it matches",
                Kind::Files => "no file of an IOC that was recorded with --io matches",
                Kind::Stuck => "no thread that stood still, no late scan and no full queue matches",
            };
            let all = match (filter.narrows(), filter.count()) {
                (true, 2..) => " all filters at once; leave a filter out, or",
                (true, _) => ";",
                (false, 0) => ";",
                (false, _) => " at that time;",
            };
            format!("{nothing}{all} see iocreplay info")
        })
}

/// Says so if what was asked for can't be in these logs: no name matches, or the time lies outside. For answers with rows that
/// nothing was asked of.
pub fn mismatch(logs: &Logs, filter: &Filter, zone: &Zone) -> Option<String> {
    if filter.count() == 0 {
        return None;
    }
    // Blocks with definitions have all names, and most of the time. Only if something is not in them, all is read.
    let seems = Held::look_at(logs, Blocks::Definitions).lacks(filter, zone);
    let lacks = seems.and_then(|_| Held::look(logs).lacks(filter, zone));
    lacks.or_else(|| no_pv(&filter.pv, logs))
}

impl Held {
    /// Says so if the logs hold nothing of the kind, whatever the filter.
    fn nothing_of(&self, kind: Kind) -> Option<String> {
        let line = match kind {
            Kind::Iocs | Kind::Records if !self.any_ioc => {
                "these logs hold no IOC: none ran, it was left out (--pid, --user, --pod), it had not been inspected yet when \
                 they end, or they were made of a capture (record --read), which tells of none"
            }
            Kind::Alarms if !self.processing && self.packets_only => {
                "these logs hold no alarms: they were recorded without probes (the packet tier; iocreplay info says \
                 why)"
            }
            Kind::Alarms if !self.processing => {
                "these logs hold no alarms: no record processed in an IOC that had probes (iocreplay iocs says which \
                 had), or recording was off (--no-process)"
            }
            Kind::Clients if !self.clients => {
                "these logs hold no clients: none was connected to an IOC while it was recorded, or \
                 recording was off (--no-puts)"
            }
            Kind::Chains if !self.processing && !self.puts && self.packets_only => {
                "these logs hold no processing: they were recorded without probes (the packet tier; iocreplay info \
                 says why)"
            }
            Kind::Chains if !self.processing && !self.puts => {
                "these logs hold no processing and no puts: nothing happened in an IOC while it was recorded, or \
                 recording was off (--no-process, --no-puts)"
            }
            Kind::Health if !self.resources => {
                "these logs hold nothing of what IOCs used of the machine: an older iocrec recorded them, no IOC ran \
                 for a second, or recording was off (--no-resources)"
            }
            Kind::Console if !self.console && self.packets_only => {
                "these logs hold nothing that IOCs printed: they were recorded without probes (the packet tier; \
                 iocreplay info says why)"
            }
            Kind::Console if !self.console => {
                "these logs hold nothing that IOCs printed: they printed nothing while they had probes, they are \
                 linked to musl (iocreplay info says so), an older iocrec recorded them, or recording was off (--no-console)"
            }
            Kind::Files if !self.files => {
                "these logs hold nothing of what IOCs did with files: it is recorded with iocrec record --io"
            }
            Kind::Stuck if !self.stuck => {
                "these logs hold no thread that stood still, no late scan and no full queue: none was seen, as far as \
                 such are looked for (docs/stuck.md), or an older iocrec recorded them"
            }
            Kind::Puts if !self.puts && self.may_lack_puts => {
                "these logs hold no puts: nobody wrote to a PV of an IOC while it was recorded, recording was off \
                 (--no-puts), or what clients sent was lost, or is not in the capture (iocreplay info)"
            }
            Kind::Puts if !self.puts => {
                "these logs hold no puts: nobody wrote to a PV of an IOC while it was recorded, or recording was off \
                 (--no-puts)"
            }
            _ => return None,
        };
        Some(line.to_owned())
    }
}

/// Says so if no PV's name matches one of the patterns.
fn no_pv(patterns: &[Pattern], logs: &Logs) -> Option<String> {
    let first = patterns.first()?.text();
    let names = suggest::names(logs);
    // A pattern may include a field, which the names do not.
    let records = patterns.iter().filter_map(|pattern| pattern.text().rsplit_once('.'));
    let records: Vec<Pattern> = records.map(|(record, _)| Pattern::from(record)).collect();
    let is_there =
        |name: &String| patterns.iter().chain(&records).any(|pattern| pattern.matches(name.as_str()));
    if names.iter().any(is_there) || is_link_target(patterns, logs) {
        return None;
    }
    Some(match suggest::nearest(&names, first.trim_matches('*')).as_slice() {
        [] => format!("no PV or record matches '{first}'; list names with iocreplay records"),
        nearby => format!("no PV or record matches '{first}'; did you mean {}?", nearby.join(", ")),
    })
}

/// Whether a CA link was seen to write to a PV that matches: nothing else tells the name of one that is recorded nowhere.
fn is_link_target(patterns: &[Pattern], logs: &Logs) -> bool {
    let is_it = |event: &Event| match &event.fact {
        Fact::CaLinkPut(put) => {
            let Pv { record, field } = Pv::new(link_target(&put.pv));
            patterns.iter().any(|pattern| names(pattern, record, Some(field)))
        }
        _ => false,
    };
    let has_it = |part: Part| matches!(&part, Part::Block(block) if block.events.iter().any(is_it));
    logs.scan(Blocks::All).any(has_it)
}

/// Says so if no host or IOC has a name that matches, if that is certain: not all are remembered.
fn none_of(kind: &str, pattern: &Option<Pattern>, names: &BTreeSet<String>) -> Option<String> {
    let pattern = pattern.as_ref()?;
    if names.len() >= MAX_NAMES || names.iter().any(|name| pattern.matches(name)) {
        return None;
    }
    Some(no_match(kind, pattern, names))
}

/// That a pattern matches nothing of that kind, and what there is instead.
fn no_match(kind: &str, pattern: &Pattern, names: &BTreeSet<String>) -> String {
    let text = pattern.text();
    let nearby = suggest::nearest(names, text.trim_matches('*'));
    let mut listed: Vec<&str> = nearby.iter().map(String::as_str).collect();
    listed.extend(names.iter().map(String::as_str).filter(|name| !nearby.iter().any(|other| other == name)));
    let more = listed.len().saturating_sub(MAX_LISTED);
    listed.truncate(MAX_LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    match listed.as_slice() {
        [] => format!("no {kind} matches '{text}': these logs have none"),
        listed => format!("no {kind} matches '{text}'; these logs have {}{more}", listed.join(", ")),
    }
}

/// The reason why `why` has no answer.
#[derive(Debug, PartialEq, Eq)]
pub enum NoChange {
    /// The logs hold nothing of the requested host, IOC or time.
    NothingAskedFor {
        /// The PV.
        pv: String,
        /// The missing part.
        lacks: String,
    },
    /// The record is known, but was neither processed nor written.
    Never {
        /// The PV.
        pv: String,
        /// The time span of the logs.
        time: Option<String>,
        /// The restriction besides the PV.
        narrowed: Narrowed,
        /// Why it may have been unseen.
        missed: Option<String>,
    },
    /// Puts to it were seen on the network, and nothing of it in its IOC.
    OnNetwork {
        /// The PV.
        pv: String,
    },
    /// No put to it was seen on the network, and what its IOC did was not recorded.
    WithoutProbes {
        /// The PV.
        pv: String,
    },
    /// Nothing in the logs but a link names it.
    Linked {
        /// The PV.
        pv: String,
        /// The link.
        link: String,
    },
    /// The PV is not in the logs.
    Unknown {
        /// The PV.
        pv: String,
        /// Similar names.
        suggestions: Vec<String>,
    },
}

/// Restriction of a query besides the PV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Narrowed {
    /// Nothing.
    No,
    /// A time.
    ToTime,
    /// An IOC or a host.
    ToPlace,
}

impl fmt::Display for NoChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoChange::NothingAskedFor { pv, lacks } => {
                write!(f, "{pv} was neither processed nor written in these logs as asked for: {lacks}")
            }
            NoChange::Never { pv, time, narrowed, missed } => {
                let time = time.as_ref().map_or(String::new(), |time| format!(" (they hold {time})"));
                write!(f, "{pv} was neither processed nor written in these logs")?;
                match narrowed {
                    Narrowed::No => write!(f, "{time}; try more segments")?,
                    Narrowed::ToTime => write!(f, " at that time{time}; try another --at, or more segments")?,
                    Narrowed::ToPlace => {
                        write!(f, "{time} by that IOC or host; leave out --ioc or --host")?;
                    }
                }
                match missed {
                    Some(missed) => write!(f, "; but not all was recorded: {missed}"),
                    None => Ok(()),
                }
            }
            NoChange::OnNetwork { pv } => write!(
                f,
                "puts to {pv} were seen on the network, but not what they did in the IOC: whether and why it changed is \
                 not known; list them with iocreplay puts --pv"
            ),
            NoChange::WithoutProbes { pv } => write!(
                f,
                "whether {pv} changed is not known: these logs hold no processing, as they were recorded without probes (the \
                 packet tier; iocreplay info says why), and no put to it as asked for"
            ),
            NoChange::Linked { pv, link } => write!(
                f,
                "whether {pv} changed is not known: a link names it ({link}), and no IOC in these logs has it; name the logs of \
                 the IOC that has it as well"
            ),
            NoChange::Unknown { pv, suggestions } if suggestions.is_empty() => write!(
                f,
                "no record or PV '{pv}' in these logs; list names with iocreplay records or puts --all"
            ),
            NoChange::Unknown { pv, suggestions } => {
                write!(f, "no record or PV '{pv}' in these logs; did you mean {}?", suggestions.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where IOCs start again and again, not all of their processes are remembered: one of the others is not denied.
    #[test]
    fn a_name_that_may_have_been_forgotten_is_not_denied() {
        let (mut held, zone) = (Held::default(), Zone::utc());
        let asked = Filter { ioc: Some("demo pid 7000".into()), ..Filter::default() };
        for pid in 1..MAX_NAMES {
            remember(&mut held.processes, &with_pid("demo", u32::try_from(pid).unwrap()));
        }
        remember(&mut held.iocs, "demo");
        let said = held.lacks(&asked, &zone).expect("it is not there");
        assert!(said.starts_with("no IOC matches 'demo pid 7000'; these logs have demo pid "), "{said}");
        for pid in [6999, 7000] {
            remember(&mut held.processes, &with_pid("demo", pid));
        }
        assert_eq!(held.lacks(&asked, &zone), None);
    }
}
