//! Times during which IOCs were recorded, and during which they ran unseen.
//!
//! The recorder notes the time from which it has an IOC's hits, and the last moment before it that was covered (the
//! IOC's start, or its last hit). The time between was not seen: a gap, like a loss. Logs of older recorders have
//! neither, and show no gaps.
//!
//! Once the packets of an IOC's clients are captured, the recorder describes the IOC anew, with its ports. Of one that
//! started beside the recorder, the time until then is a gap as well. So is that from the recorder's begin on of an older one
//! that is recorded by its packets alone, unless it is the moment in which a recorder that begins looks around.

use crate::model::caller::serves_clients;
use crate::reading::ended_unseen::UNSEEN;
use crate::time::Zone;
use iocrec_log::context::Context;
use iocrec_log::event::{Fact, Ioc, IocId, Tier};
use serde::Serialize;
use std::collections::BTreeMap;

/// Spans kept of one IOC; a bound for hostile logs.
const MAX_SPANS: usize = 100;
/// IOCs whose spans are kept; likewise.
const MAX_IOCS: usize = 10_000;
/// Bytes kept of a cause; likewise.
const MAX_CAUSE: usize = 200;
/// Within this time a recorder that begins has found the ports of the IOCs that run; nanoseconds.
const AT_ONCE: u64 = 1_000_000_000;
/// The reason of a gap in which an IOC's ports were not known.
const NO_PORTS: &str = "packets of its clients, perhaps: its ports were not captured before";

/// A span of time in which an IOC's hits were recorded, and the gap before it, in wall-clock time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Span {
    /// Monotonic time, to recognize a span that a later segment repeats.
    since: u64,
    unseen: Option<i64>,
    from: Option<i64>,
    to: Option<i64>,
    cause: String,
    until: String,
}

/// A span of time in which an IOC ran unseen, in wall-clock time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unseen<'a> {
    /// Start of the IOC, or its last recorded hit.
    pub from: Option<i64>,
    /// First time with recorded hits; `None` for the end of the IOC or of the log.
    pub to: Option<i64>,
    /// The reason.
    pub cause: &'a str,
}

/// The time in which a recorder ran and did not know the ports of an IOC, in wall-clock time.
#[derive(Clone, Copy, Debug)]
struct WithoutPorts {
    from: Option<i64>,
    /// `None`: it may serve nothing.
    to: Option<i64>,
    /// Whether the IOC started before the recorder.
    is_older: bool,
    /// Whether one of its threads serves clients.
    has_client: bool,
}

/// The spans of all IOCs.
#[derive(Default)]
pub struct Spans {
    all: BTreeMap<IocId, Vec<Span>>,
    without_ports: BTreeMap<IocId, WithoutPorts>,
    /// Monotonic time of the first fact: the recorder ran by then.
    began: Option<u64>,
}

/// A span of time in which an IOC was recorded, as JSON.
#[derive(Serialize)]
pub struct Attached {
    from: Option<String>,
    /// `None` for the end of the IOC or of the log.
    to: Option<String>,
}

/// A span of time in which an IOC ran unseen, as JSON.
#[derive(Serialize)]
pub struct Gap {
    /// Name of the IOC.
    pub ioc: String,
    /// Its process id.
    pub pid: u32,
    /// Start of the IOC, or its last recorded hit.
    pub from: Option<String>,
    /// First time with recorded hits; `None` for the end of the IOC or of the log.
    pub to: Option<String>,
    /// The reason.
    pub cause: String,
    /// Whether it is of nothing but packets of its clients, which may be missing.
    #[serde(skip)]
    pub is_of_packets: bool,
}

impl Spans {
    /// Takes a fact.
    pub fn take(&mut self, time: u64, fact: &Fact, context: &Context) {
        let began = *self.began.get_or_insert(time);
        match fact {
            Fact::Ioc(ioc) => self.describe(time, ioc, began, context),
            Fact::Thread(thread) if serves_clients(&thread.name) => {
                if let Some(ports) = self.without_ports.get_mut(&thread.ioc) {
                    ports.has_client = true;
                }
            }
            Fact::Attached(attached) => {
                let full = self.all.len() >= MAX_IOCS && !self.all.contains_key(&attached.ioc);
                if full {
                    return;
                }
                let spans = self.all.entry(attached.ioc).or_default();
                let known = spans.iter().any(|span| span.since == attached.since);
                if !known && spans.len() < MAX_SPANS {
                    spans.push(Span {
                        since: attached.since,
                        unseen: context.wall(attached.from),
                        from: context.wall(attached.since),
                        to: None,
                        cause: attached.cause.chars().take(MAX_CAUSE).collect(),
                        until: String::new(),
                    });
                }
            }
            Fact::Detached(detached) => {
                let span = self.all.get_mut(&detached.ioc).and_then(|spans| spans.last_mut());
                if let Some(span) = span.filter(|span| span.to.is_none()) {
                    // a recorder that ends may attach to it after it has taken its last hits
                    span.to = context.wall(detached.since.max(span.since));
                    span.until = detached.cause.chars().take(MAX_CAUSE).collect();
                }
            }
            Fact::IocEnd(end) => {
                let span = self.all.get_mut(&end.ioc).and_then(|spans| spans.last_mut());
                // that it had ended by then is no end of its recording
                if let Some(span) = span.filter(|span| span.to.is_none() && end.how != UNSEEN) {
                    // its time may be the kernel's own, from before the recorder had looked
                    span.to = context.wall(time.max(span.since));
                }
            }
            _ => {}
        }
    }

    /// Takes what is known of an IOC: at first without its ports.
    fn describe(&mut self, time: u64, ioc: &Ioc, began: u64, context: &Context) {
        let serves = !ioc.ca_ports.is_empty() || !ioc.pva_ports.is_empty();
        if serves {
            if let Some(ports) = self.without_ports.get_mut(&ioc.id).filter(|ports| ports.to.is_none()) {
                let is_begin = ports.is_older && time.saturating_sub(began) < AT_ONCE;
                ports.to = if is_begin { ports.from } else { context.wall(time) };
            }
        } else if self.without_ports.len() < MAX_IOCS {
            let is_older = ioc.start <= began;
            // with probes, puts are seen from when they are placed
            let has_packets_alone = context.tier().is_some_and(|choice| choice.tier == Tier::Packet);
            if !is_older || has_packets_alone {
                let from = context.wall(ioc.start.max(began));
                let ports = WithoutPorts { from, to: None, is_older, has_client: false };
                self.without_ports.entry(ioc.id).or_insert(ports);
            }
        }
    }

    /// The time in which an IOC's hits were recorded at most, and the packets of its clients were not.
    fn without_packets(&self, ioc: IocId) -> Option<Unseen<'_>> {
        let ports = self.without_ports.get(&ioc)?;
        let hits = self.all.get(&ioc).and_then(|spans| spans.first()).and_then(|span| span.from);
        // before its hits were recorded, nothing was
        let (from, to) = (hits.or(ports.from), ports.to);
        let is_gap = match to {
            Some(to) => from.is_none_or(|from| from < to),
            // it serves, though its ports were not found until the end
            None => ports.has_client,
        };
        is_gap.then_some(Unseen { from, to, cause: NO_PORTS })
    }

    /// The times during which an IOC was recorded.
    pub fn attached(&self, ioc: IocId, zone: &Zone) -> Vec<Attached> {
        let time = |wall: Option<i64>| wall.map(|wall| zone.format(wall, 3));
        let spans = self.all.get(&ioc).into_iter().flatten();
        spans.map(|span| Attached { from: time(span.from), to: time(span.to) }).collect()
    }

    /// The times during which an IOC, or the packets of its clients, went unseen while a recorder ran.
    pub fn gaps(&self, ioc: IocId, name: &str, pid: u32, zone: &Zone) -> Vec<Gap> {
        let time = |wall: Option<i64>| wall.map(|wall| zone.format(wall, 3));
        let gap = |unseen: Unseen, is_of_packets| Gap {
            ioc: name.to_owned(),
            pid,
            from: time(unseen.from),
            to: time(unseen.to),
            cause: unseen.cause.to_owned(),
            is_of_packets,
        };
        let unseen = self.unseen(ioc).into_iter().map(|unseen| gap(unseen, false));
        unseen.chain(self.without_packets(ioc).map(|packets| gap(packets, true))).collect()
    }

    /// The times during which an IOC ran unseen, in wall-clock time.
    pub fn unseen(&self, ioc: IocId) -> Vec<Unseen<'_>> {
        let spans = self.all.get(&ioc).map(Vec::as_slice).unwrap_or_default();
        let before = spans.iter().filter(|span| !span.cause.is_empty());
        let mut gaps: Vec<Unseen> =
            before.map(|span| Unseen { from: span.unseen, to: span.from, cause: &span.cause }).collect();
        // recording stopped in the last span and never resumed
        let last = spans.last().filter(|span| !span.until.is_empty());
        gaps.extend(last.map(|span| Unseen { from: span.to, to: None, cause: &span.until }));
        gaps
    }

    /// The times during which an IOC was recorded, in wall-clock time; an end is `None` if it was not seen.
    pub fn recorded(&self, ioc: IocId) -> impl Iterator<Item = (Option<i64>, Option<i64>)> + '_ {
        self.all.get(&ioc).into_iter().flatten().map(|span| (span.from, span.to))
    }
}

impl Attached {
    /// The span as text.
    pub fn text(&self) -> String {
        span(self.from.as_deref(), self.to.as_deref())
    }

    /// The same of an IOC that went on after the recorder's run had ended.
    pub fn text_of_run(&self) -> String {
        span(self.from.as_deref(), self.to.as_deref().or(Some("the end of the recorder's run")))
    }
}

impl Gap {
    /// What it is called.
    pub fn name(&self) -> &'static str {
        if self.is_of_packets {
            "gap"
        } else {
            "unseen"
        }
    }

    /// The gap as text.
    pub fn text(&self) -> String {
        span(self.from.as_deref(), self.to.as_deref())
    }
}

/// `TIME to TIME`, with words for unknown times.
fn span(from: Option<&str>, to: Option<&str>) -> String {
    format!("{} to {}", from.unwrap_or("an unknown time"), to.unwrap_or("the end"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::{Attached as AttachedFact, Clock, Detached, IocEnd, Linkage, Thread, TierChoice};

    const SECOND: u64 = 1_000_000_000;

    fn spans(facts: &[(u64, Fact)]) -> Spans {
        let mut context = Context::default();
        context.apply(0, &Fact::Clock(Clock { wall: 0 }));
        let mut spans = Spans::default();
        for (time, fact) in facts {
            spans.take(*time, fact, &context);
            if let Fact::Tier(_) = fact {
                context.apply(*time, fact);
            }
        }
        spans
    }

    fn attached(from: u64, since: u64, cause: &str) -> (u64, Fact) {
        (since, Fact::Attached(AttachedFact { ioc: 1, from, since, cause: cause.into() }))
    }

    #[test]
    fn gaps_before_between_and_at_the_end() {
        let detached =
            |since, cause: &str| (since, Fact::Detached(Detached { ioc: 1, since, cause: cause.into() }));
        let zone = Zone::utc();
        let spans = spans(&[
            attached(SECOND, 2 * SECOND, "found late"),
            // a keyframe repeats it
            attached(SECOND, 2 * SECOND, "found late"),
            detached(5 * SECOND, "thread ended"),
            attached(5 * SECOND, 6 * SECOND, "thread ended"),
            detached(9 * SECOND, "lost"),
            (10 * SECOND, Fact::IocEnd(IocEnd { ioc: 1, how: String::new() })),
        ]);
        let gaps = spans.gaps(1, "ioc", 7, &zone);
        let causes: Vec<&str> = gaps.iter().map(|gap| gap.cause.as_str()).collect();
        assert_eq!(causes, ["found late", "thread ended", "lost"]);
        assert!(
            gaps[2].to.is_none() && gaps[0].from.as_deref().is_some_and(|from| from.contains("00:00:01"))
        );
        assert!(gaps.iter().all(|gap| gap.name() == "unseen"));
        assert_eq!(spans.attached(1, &zone).len(), 2);
    }

    #[test]
    fn none_ends_before_it_begins() {
        let late = Detached { ioc: 1, since: 5 * SECOND, cause: String::new() };
        let ended = IocEnd { ioc: 1, how: "exit status 0".into() };
        for end in [(7 * SECOND, Fact::Detached(late)), (5 * SECOND, Fact::IocEnd(ended))] {
            let spans = spans(&[attached(SECOND, 6 * SECOND, "found late"), end]);
            let attached = &spans.attached(1, &Zone::utc())[0];
            assert!(attached.from.is_some() && attached.from == attached.to, "{:?}", attached.to);
        }
    }

    #[test]
    fn what_began_before_the_recorder_was_not_missed() {
        let spans = spans(&[attached(1, 2, "")]);
        assert!(spans.gaps(1, "ioc", 7, &Zone::utc()).is_empty());
        assert!(spans.attached(1, &Zone::utc())[0].to.is_none());
    }

    #[test]
    fn packets_from_before_the_ports_were_found_were_missed() {
        let ioc = |time, start, ca_ports: &[u16]| {
            let ioc = Ioc {
                id: 1,
                pid: 7,
                start,
                name: "ioc".into(),
                exe: String::new(),
                cwd: String::new(),
                command: Vec::new(),
                base_version: String::new(),
                ca_ports: ca_ports.to_vec(),
                linkage: Linkage::Shared,
                not_probed: Vec::new(),
                user: String::new(),
                pva_ports: Vec::new(),
                environment: Vec::new(),
            };
            (time, Fact::from(ioc))
        };
        let begin = (SECOND, Fact::Clock(Clock { wall: SECOND.cast_signed() }));
        let gaps = |facts: &[(u64, Fact)]| -> Vec<[String; 2]> {
            let gaps = spans(facts).gaps(1, "ioc", 7, &Zone::utc());
            // its hits may have been seen while its packets were not
            let called = |gap: &Gap| if gap.cause == "found late" { "unseen" } else { "gap" };
            assert!(gaps.iter().all(|gap| gap.name() == called(gap)));
            let seconds = |time: Option<String>| time.map_or(String::new(), |time| time[17..23].to_owned());
            gaps.into_iter().map(|gap| [seconds(gap.from), seconds(gap.to)]).collect()
        };
        let (found, ports) = (ioc(3 * SECOND, 2 * SECOND, &[]), ioc(5 * SECOND, 2 * SECOND, &[5064]));
        // a keyframe repeats it
        let again = ioc(9 * SECOND, 2 * SECOND, &[5064]);
        let by_packets = [begin.clone(), found.clone(), ports.clone(), again];
        assert_eq!(gaps(&by_packets), [["02.000", "05.000"]]);
        assert_eq!(gaps(&by_packets[..2]), [[""; 2]; 0], "it may serve nothing");
        let thread = |name: &str| {
            (4 * SECOND, Fact::Thread(Thread { id: 1, ioc: 1, tid: 8, name: name.into(), stack: 0 }))
        };
        let never_found = |name| gaps(&[begin.clone(), found.clone(), thread(name)]);
        assert_eq!(never_found("CAS-client"), [["02.000", ""]], "it serves, until the log ends");
        assert_eq!(never_found("scan-1"), [[""; 2]; 0]);
        let hits = |since| attached(2 * SECOND, since, "found late");
        let then = [begin.clone(), found.clone(), hits(4 * SECOND), ports.clone()];
        assert_eq!(gaps(&then), [["02.000", "04.000"], ["04.000", "05.000"]]);
        let before = [begin.clone(), found, ports, hits(6 * SECOND)];
        assert_eq!(gaps(&before), [["02.000", "06.000"]], "nothing of it was seen");
        let older =
            |found| [begin.clone(), ioc(SECOND, SECOND / 2, &[]), ioc(found, SECOND / 2, &[5064])].to_vec();
        assert_eq!(gaps(&older(4 * SECOND)), [[""; 2]; 0], "its probes were placed");
        let packets_alone = |found| {
            let mut facts = older(found);
            facts.insert(1, (SECOND, Fact::Tier(TierChoice { tier: Tier::Packet, refused: Vec::new() })));
            facts
        };
        assert_eq!(gaps(&packets_alone(4 * SECOND)), [["01.000", "04.000"]]);
        assert_eq!(gaps(&packets_alone(SECOND + SECOND / 3)), [[""; 2]; 0], "the recorder has just begun");
    }
}
