//! Code that `record --read` and `watch --read` share: they read capture files and say at the end what was in them.

use iocrec_log::event::{CallSite, CallSiteId, CircuitId, Event, Fact, LossSource};
use iocrec_log::writer::Status;

use crate::failure::Failure;
use crate::net::capture_file::CaptureFile;
use crate::pva;
use crate::recorder::capture_clock::CaptureClock;
use crate::recorder::reading::{self, Outcome};
use crate::recorder::sink::Sink;
use crate::recorder::Options;
use crate::terminal::{complain, plural};

/// Nanoseconds of a second.
const SECOND: f64 = 1e9;

/// Counts what passes to another sink.
struct Counting<'a> {
    sink: &'a mut dyn Sink,
    /// Those of Channel Access, and those of PVAccess.
    puts: [u64; 2],
    circuits: [Circuits; 2],
    lost: Lost,
}

/// What was lost of streams.
#[derive(Clone, Copy, Default)]
struct Lost {
    bytes: u64,
    /// What is not counted by bytes: segments that are not believed, packets that are not decoded, and the like.
    others: u64,
}

/// Counts circuits of a protocol. Their numbers grow, and one is reported again when its client says who it is.
#[derive(Clone, Copy, Default)]
struct Circuits {
    count: u64,
    latest: Option<CircuitId>,
}

impl Circuits {
    fn notice(&mut self, id: CircuitId) {
        if self.latest.is_none_or(|latest| id > latest) {
            self.latest = Some(id);
            self.count += 1;
        }
    }
}

impl Sink for Counting<'_> {
    fn push(&mut self, event: Event) {
        let [ca, pva] = &mut self.circuits;
        match &event.fact {
            Fact::CaPut(_) => self.puts[0] += 1,
            Fact::PvaPut(_) => self.puts[1] += 1,
            Fact::Circuit(circuit) if circuit.id < pva::FIRST_ID => ca.notice(circuit.id),
            Fact::Circuit(circuit) => pva.notice(circuit.id),
            Fact::Loss(loss) if loss.source == LossSource::Stream => {
                // its cause goes on from the number
                let is_bytes = loss.cause.starts_with("bytes");
                *if is_bytes { &mut self.lost.bytes } else { &mut self.lost.others } += loss.count;
            }
            _ => {}
        }
        self.sink.push(event);
    }

    fn tick(&mut self, now: u64) {
        self.sink.tick(now);
    }

    fn await_site(&mut self, time: u64, site: CallSite) {
        self.sink.await_site(time, site);
    }

    fn site(&mut self, id: CallSiteId, function: String, module: String) {
        self.sink.site(id, function, module);
    }

    fn notice(&mut self) -> Option<String> {
        self.sink.notice()
    }
}

/// What reading has come to.
pub struct Finished {
    outcome: Outcome,
    names: String,
    puts: [u64; 2],
    circuits: [u64; 2],
    lost: Lost,
}

/// Reads capture files into a sink.
pub fn read(
    options: Options,
    files: Vec<CaptureFile>,
    clock: &CaptureClock,
    sink: &mut dyn Sink,
) -> Finished {
    let names = match files.as_slice() {
        [one] => one.name().to_owned(),
        several => format!("{} files", several.len()),
    };
    let mut counting =
        Counting { sink, puts: [0; 2], circuits: [Circuits::default(); 2], lost: Lost::default() };
    let outcome = reading::read(options, files, clock, &mut counting, &mut complain);
    let Counting { puts, circuits, lost, .. } = counting;
    Finished { outcome, names, puts, circuits: circuits.map(|circuits| circuits.count), lost }
}

/// What there is any of, in words.
fn told(counts: &[(u64, &str)]) -> Vec<String> {
    let some = counts.iter().filter(|(count, _)| *count > 0);
    some.map(|(count, what)| format!("{count} {what}")).collect()
}

impl Finished {
    /// Says what was read and what was not; `status` is that of the log, if there is one.
    ///
    /// # Errors
    /// A file could not be read to its end, or nothing in it could be.
    pub fn report(mut self, status: Option<&Status>) -> Result<(), Failure> {
        if self.outcome.packets > 0 {
            self.lines().iter().for_each(|line| complain(line));
        }
        if let Some(deleted) = status.map(|status| status.deleted).filter(|deleted| *deleted > 0) {
            let segments = if deleted == 1 { "segment was" } else { "segments were" };
            complain(&format!(
                "{deleted} {segments} deleted to stay within --max-disk: to keep all, give more"
            ));
        }
        let last = self.outcome.errors.pop();
        self.outcome.errors.iter().for_each(|error| complain(&error.to_string()));
        if let Some(error) = last {
            return Err(error.into());
        }
        let unknown: u64 = self.outcome.unknown_links.values().sum();
        if unknown > 0 && unknown == self.outcome.packets {
            let line = format!(
                "{}: no packet could be read, since its link type is unknown; capture with tcpdump -i any",
                self.names
            );
            return Err(Failure::Failed(line));
        }
        Ok(())
    }

    /// The summary.
    fn lines(&self) -> Vec<String> {
        let Outcome { packets, decoded, other_tcp, udp, other_ip, not_ip, too_short, .. } = self.outcome;
        let seconds = self.outcome.span.map_or(0.0, |(first, last)| (last - first) as f64 / SECOND);
        let part = if self.outcome.is_part { ", ended before the end of the file" } else { "" };
        let s = plural(packets);
        let mut lines = vec![format!("{}: {packets} packet{s} in {seconds:.3} s{part}", self.names)];
        let losses = [
            (self.lost.bytes, "bytes of their streams"),
            (self.lost.others, "segments not believed, packets not decoded or the like (iocreplay info)"),
            (self.outcome.dropped, "packets by the capturing program"),
            (self.outcome.errors.len() as u64, "of the files not read to the end"),
        ];
        let mut lost = told(&losses);
        if decoded != [0; 2] && !self.outcome.has_clients {
            lost.push("what clients sent, of which there is nothing".into());
        }
        let lost = if lost.is_empty() { "none".into() } else { lost.join(", ") };
        let [mut ca, mut pva] = [0, 1].map(|at| {
            let count = |of: [u64; 2]| of.get(at).copied().unwrap_or(0);
            (count(decoded), count(self.circuits), count(self.puts))
        });
        // what was found there tells what they are
        let (shared, mut of_both) = (self.outcome.shared, 0);
        if pva.1 > 0 {
            ca.0 = ca.0.saturating_sub(shared);
            *if ca.1 > 0 { &mut of_both } else { &mut pva.0 } += shared;
        }
        let datagrams = self.outcome.datagrams;
        let has_pva = pva.0 + pva.1 > 0;
        let mut found = Vec::new();
        if ca.0 + ca.1 > 0 || !has_pva {
            let (packets, circuits, puts) = ca;
            found.push(format!(
                "{packets} packet{} of Channel Access, {circuits} circuit{}, {puts} put{}",
                plural(packets),
                plural(circuits),
                plural(puts)
            ));
        }
        if has_pva {
            let (packets, circuits, puts) = pva;
            found.push(format!(
                "{packets} packet{} of PVAccess, {circuits} circuit{}, {puts} puts and calls",
                plural(packets),
                plural(circuits)
            ));
        }
        found.extend(told(&[(of_both, "on ports of both"), (datagrams, "of searches and beacons")]));
        lines.push(format!("{}; losses: {lost}", found.join("; ")));
        if self.outcome.cut > 0 {
            lines.push(format!(
                "{} of these packets were cut when they were captured: capture with tcpdump -s 0",
                self.outcome.cut
            ));
        }
        let others = [
            (other_tcp, "of TCP that begins neither as Channel Access nor as PVAccess does"),
            (udp, "of other UDP"),
            (self.outcome.hidden_udp, "of UDP over IPv6 in fragments"),
            (other_ip, "of other IP"),
            (not_ip, "not of IP"),
            (too_short, "cut before their ports, or unsound"),
            (self.outcome.fragments, "in fragments of which some are missing"),
            (self.outcome.tunnels, "of tunnels without IP inside"),
        ];
        let mut others = told(&others);
        let links = self.outcome.unknown_links.iter();
        others.extend(links.map(|(link, count)| format!("{count} of link type {link}, which is unknown")));
        if !others.is_empty() {
            lines.push(format!("packets not decoded: {}", others.join(", ")));
        }
        if other_tcp > 0 && self.circuits == [0; 2] {
            lines
                .push("a server on another port whose circuits were open before is named with --port".into());
        }
        if self.outcome.loopbacks > 1 {
            lines.push(format!(
                "loopback addresses are from {} interfaces: connections are told apart, but not whose they are if those are of several machines; read a file of each into a log of its own",
                self.outcome.loopbacks
            ));
        }
        if self.outcome.timeless > 0 {
            lines.push(format!(
                "{} packets have no time of their own: they count as of the time before",
                self.outcome.timeless
            ));
        }
        let (times, most) = self.outcome.went_back;
        if times > 0 {
            let most = most as f64 / SECOND;
            lines.push(format!(
                "the capture's clock goes back {times} time{}, by up to {most:.3} s: the log has it as a clock that was set",
                plural(times)
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::Loss;

    struct Nowhere;

    impl Sink for Nowhere {
        fn push(&mut self, _: Event) {}
        fn tick(&mut self, _: u64) {}
    }

    /// What is said of packets of Channel Access and of PVAccess, of which so many of ports of both; circuits and puts of each.
    fn said(packets: [u64; 2], shared: u64, circuits: [u64; 2], puts: [u64; 2]) -> String {
        let outcome =
            Outcome { packets: 200, decoded: packets, shared, has_clients: true, ..Outcome::default() };
        second_line(outcome, circuits, puts)
    }

    fn second_line(outcome: Outcome, circuits: [u64; 2], puts: [u64; 2]) -> String {
        let finished = Finished { outcome, names: "it".into(), puts, circuits, lost: Lost::default() };
        finished.lines().swap_remove(1)
    }

    #[test]
    fn what_was_found_on_a_named_port_is_told() {
        let none = "0 packets of Channel Access, 0 circuits, 0 puts; losses: none";
        assert_eq!(said([0, 0], 0, [0, 0], [0, 0]), none);
        let ca = "160 packets of Channel Access, 4 circuits, 40 puts";
        let pva = "160 packets of PVAccess, 20 circuits, 40 puts and calls";
        assert_eq!(said([160, 0], 160, [4, 0], [40, 0]), format!("{ca}; losses: none"));
        assert_eq!(said([160, 0], 160, [0, 20], [0, 40]), format!("{pva}; losses: none"));
        assert_eq!(said([160, 160], 0, [4, 20], [40, 40]), format!("{ca}; {pva}; losses: none"));
        let both = said([190, 160], 30, [4, 20], [40, 40]);
        assert_eq!(both, format!("{ca}; {pva}; 30 on ports of both; losses: none"));
    }

    /// As where one direction alone was captured.
    #[test]
    fn what_clients_sent_is_missed() {
        let of_servers = Outcome { packets: 200, decoded: [160, 0], ..Outcome::default() };
        let line = second_line(of_servers, [4, 0], [0, 0]);
        assert!(line.ends_with("0 puts; losses: what clients sent, of which there is nothing"), "{line}");
    }

    #[test]
    fn only_bytes_are_lost_bytes() {
        let mut counting = Counting {
            sink: &mut Nowhere,
            puts: [0; 2],
            circuits: [Circuits::default(); 2],
            lost: Lost::default(),
        };
        for (count, cause) in [(7, "bytes were not captured"), (5, "TCP resets not believed"), (0, "bytes")] {
            let loss = Loss { source: LossSource::Stream, count, since: 0, cause: cause.into() };
            counting.push(Event { time: 0, fact: Fact::Loss(loss) });
        }
        assert_eq!((counting.lost.bytes, counting.lost.others), (7, 5));
    }
}
