//! Packets from capture files, in place of those from the network.
//!
//! The files are read in the order in which they were named; connections continue from one to the next. What a file
//! can't tell is not claimed: the host is unknown, so are its IOCs, and a note says where the packets come from.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use iocrec_log::event::{Clock, Event, Fact, Host, Loss, LossSource, Tier, TierChoice};

use crate::linux::clock::{self, Clock as _};
use crate::net::capture_file::link::{inner, Inner};
use crate::net::capture_file::{CaptureFile, FileError, Next, Packet, Problem};
use crate::net::flows::{Flows, Verdict};
use crate::net::packet::Segment;
use crate::net::udp::datagram::Datagram;
use crate::net::udp::Seen;
use crate::protocols::datagrams::{Datagrams, Selection};
use crate::recorder::capture_clock::CaptureClock;
use crate::recorder::context::Context;
use crate::recorder::sources::{Source, ROUND};
use crate::terminal::Progress;

/// Packets of a round: some milliseconds of work.
const BATCH: usize = 4096;
/// Numbers of link types that are counted one by one.
const MAX_LINKS: usize = 16;
/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// Numbers of protocols above IP.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// What was read.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Packets.
    pub packets: u64,
    /// Those of connections of known protocols.
    pub decoded: u64,
    /// TCP of other connections.
    pub other_tcp: u64,
    /// Datagrams of Channel Access.
    pub datagrams: u64,
    /// Other UDP.
    pub udp: u64,
    /// Other IP packets: later fragments, other protocols, other versions.
    pub other_ip: u64,
    /// Not IP.
    pub not_ip: u64,
    /// Cut so short that nobody can tell.
    pub too_short: u64,
    /// Packets by link types that are not known.
    pub unknown_links: BTreeMap<u16, u64>,
    /// Packets that were cut, of those decoded.
    pub cut: u64,
    /// Without a time of their own.
    pub timeless: u64,
    /// Lost by the capturing program, as it says.
    pub dropped: u64,
    /// How often the capture's clock went back, and by how much at most, nanoseconds.
    pub went_back: (u64, u64),
    /// Servers recognized on other ports.
    pub servers: usize,
    /// Monotonic times of the first packet and the last.
    pub span: Option<(u64, u64)>,
    /// Files that could not be read, or not to their ends.
    pub errors: Vec<FileError>,
    /// Whether reading was ended before the end of the files.
    pub is_part: bool,
}

/// See the module.
pub struct CaptureFiles {
    files: VecDeque<CaptureFile>,
    flows: Flows,
    datagrams: Datagrams,
    /// Ports of the datagrams that are taken.
    selected: Selection,
    /// Facts of the datagrams; reused.
    facts: Vec<Event>,
    /// Time of the last work of each second.
    counted: u64,
    clock: CaptureClock,
    outcome: Rc<RefCell<Outcome>>,
    /// Reading ends after this much of the capture's time.
    duration: Option<Duration>,
    /// Monotonic time at which it ends.
    until: Option<u64>,
    /// Whether the file that is being read has been named in the log.
    is_named: bool,
    /// Time of the last work that is due by time alone.
    ticked: u64,
    /// When a pipe last had something.
    heard: Instant,
    progress: Progress,
    is_over: bool,
}

impl CaptureFiles {
    /// Reads these files.
    pub fn new(
        files: Vec<CaptureFile>,
        flows: Flows,
        selected: Selection,
        clock: CaptureClock,
        duration: Option<Duration>,
        outcome: Rc<RefCell<Outcome>>,
    ) -> CaptureFiles {
        CaptureFiles {
            files: files.into(),
            flows,
            datagrams: Datagrams::default(),
            selected,
            facts: Vec::new(),
            counted: 0,
            clock,
            outcome,
            duration,
            until: None,
            is_named: false,
            ticked: 0,
            heard: Instant::now(),
            progress: Progress::default(),
            is_over: false,
        }
    }

    /// Reads a file, as far as it is there.
    fn read(&mut self, cx: &mut Context<'_>, file: &mut CaptureFile) -> Read {
        let name = file.name().to_owned();
        for _ in 0..BATCH {
            match file.read() {
                Ok(Next::Packet(packet)) => {
                    self.heard = Instant::now();
                    if !self.packet(cx, &name, &packet) {
                        return Read::Enough;
                    }
                }
                Ok(Next::Dropped(count)) => self.dropped(cx, count),
                Ok(Next::Wait) => return Read::Wait,
                Ok(Next::End) => return Read::End,
                Err(error) => {
                    self.failed(cx, error);
                    return Read::End;
                }
            }
        }
        Read::More
    }

    /// Takes a packet. False if it is beyond the time that was asked for.
    fn packet(&mut self, cx: &mut Context<'_>, name: &str, packet: &Packet) -> bool {
        let is_first = self.outcome.borrow().span.is_none();
        let moment = self.clock.packet(packet.wall);
        let time = moment.time;
        if is_first {
            self.begin(cx, time);
        }
        if self.until.is_some_and(|until| time >= until) {
            return false;
        }
        if !std::mem::replace(&mut self.is_named, true) {
            self.hand_over(cx);
            cx.env.push(time, Fact::Mark(format!("packets are read from {name}")));
        }
        if moment.went_back.is_some() {
            // facts before this have the old offset
            self.hand_over(cx);
            self.note_clock(cx, time);
        }
        if packet.dropped > 0 {
            self.dropped(cx, packet.dropped);
        }
        if time >= self.ticked.saturating_add(ROUND.as_nanos() as u64) {
            self.ticked = time;
            cx.circuits.tick(&mut cx.env, time);
            self.second(time);
        }
        self.decode(cx, time, packet);
        let mut outcome = self.outcome.borrow_mut();
        outcome.packets += 1;
        outcome.timeless += u64::from(packet.wall.is_none());
        if let Some(back) = moment.went_back {
            outcome.went_back = (outcome.went_back.0 + 1, outcome.went_back.1.max(back));
        }
        let (first, last) = outcome.span.unwrap_or((time, time));
        outcome.span = Some((first.min(time), last.max(time)));
        true
    }

    /// Passes a packet to the decoders, if it is of a known protocol.
    fn decode(&mut self, cx: &mut Context<'_>, time: u64, packet: &Packet) {
        let all = self.outcome.clone();
        let outcome = &mut *all.borrow_mut();
        let (ip, length) = match inner(packet.link, packet.bytes, packet.length) {
            Inner::Ip(ip, length) => (ip, length),
            Inner::Other => {
                outcome.not_ip += 1;
                return;
            }
            Inner::Cut => {
                outcome.too_short += 1;
                return;
            }
            Inner::UnknownLink => {
                let links = &mut outcome.unknown_links;
                // the rest under the last number
                let link = if links.len() < MAX_LINKS { packet.link } else { u16::MAX };
                *links.entry(link).or_default() += 1;
                return;
            }
        };
        let Some(segment) = Segment::parse(ip, length) else {
            let kind = match ip {
                // later fragments have no ports
                [first, _, _, _, _, _, fragment, low, _, protocol, ..] if first >> 4 == 4 => {
                    (*fragment & 0x1f == 0 && *low == 0).then_some(*protocol)
                }
                [first, _, _, _, _, _, next, ..] if first >> 4 == 6 => Some(*next),
                _ => None,
            };
            if let Some(datagram) = Datagram::parse(ip) {
                let is_ours = self.datagram(cx, time, packet.interface, &datagram);
                outcome.datagrams += u64::from(is_ours);
                outcome.udp += u64::from(!is_ours);
                outcome.servers = self.flows.servers();
                return;
            }
            match kind {
                Some(UDP) => outcome.udp += 1,
                Some(TCP) if ip.first().is_some_and(|first| first >> 4 == 4) => outcome.too_short += 1,
                _ => outcome.other_ip += 1,
            }
            return;
        };
        match self.flows.judge(time, ip, &segment) {
            Verdict::Known => {}
            Verdict::Recognized(started) => {
                cx.circuits.serve(time, self.flows.ports());
                outcome.servers = self.flows.servers();
                // they counted as others
                outcome.decoded += started.packets;
                outcome.other_tcp = outcome.other_tcp.saturating_sub(started.packets);
                for opening in started.openings {
                    cx.circuits.packet(0, opening.time, &opening.headers, opening.headers.len());
                }
            }
            Verdict::Opens | Verdict::Other => {
                outcome.other_tcp += 1;
                return;
            }
        }
        outcome.decoded += 1;
        outcome.cut += u64::from(segment.payload.len() < segment.length as usize);
        cx.circuits.packet(0, time, ip, length);
    }

    /// Counts a datagram, if it is of a known protocol; and learns the servers that it names.
    fn datagram(&mut self, cx: &mut Context<'_>, time: u64, interface: u32, datagram: &Datagram) -> bool {
        if !self.selected.takes(datagram) {
            return false;
        }
        if self.selected.learn(datagram, &mut self.flows) {
            cx.circuits.serve(time, self.flows.ports());
        }
        let seen = Seen { namespace: 0, interface: interface.cast_signed(), time };
        self.datagrams.datagram(seen, datagram, &mut self.facts);
        true
    }

    /// Does what is due each second of the capture.
    fn second(&mut self, time: u64) {
        if time >= self.counted.saturating_add(SECOND) {
            self.counted = time;
            self.datagrams.second(time, &mut self.facts);
        }
    }

    /// Hands over all facts so far.
    fn hand_over(&mut self, cx: &mut Context<'_>) {
        cx.circuits.hand_over(&mut cx.env);
        self.facts.drain(..).for_each(|event| cx.env.sink.push(event));
    }

    /// Begins the log, at the time of the first packet.
    fn begin(&mut self, cx: &mut Context<'_>, time: u64) {
        self.until = self.duration.map(|all| time.saturating_add(all.as_nanos() as u64));
        let unknown = String::new;
        // nothing is known of the machine that captured; times are shown as this one's zone has them
        let host = Host {
            name: unknown(),
            kernel: unknown(),
            arch: unknown(),
            boot_id: unknown(),
            recorder: env!("CARGO_PKG_VERSION").into(),
            utc_offset: clock::utc_offset(),
        };
        cx.env.push(time, Fact::Host(host));
        self.note_clock(cx, time);
        let reason = || "packets are read from a capture file".to_owned();
        let refused = vec![(Tier::Ring, reason()), (Tier::Perf, reason())];
        cx.env.push(time, Fact::Tier(TierChoice { tier: Tier::Packet, refused }));
        cx.circuits.serve(time, self.flows.ports());
        self.counted = time;
        let selected = [(0, self.selected.clone())].into();
        self.datagrams.set_selected(time, &selected, &mut self.facts);
    }

    fn note_clock(&self, cx: &mut Context<'_>, time: u64) {
        let wall = self.clock.wall_offset().saturating_add_unsigned(time);
        cx.env.push(time, Fact::Clock(Clock { wall }));
    }

    /// The capturing program says that it lost packets.
    fn dropped(&mut self, cx: &mut Context<'_>, count: u64) {
        self.outcome.borrow_mut().dropped += count;
        self.note_lost(cx, count, "the capturing program lost packets, as the file says".into());
    }

    /// A file can't be read to its end.
    fn failed(&mut self, cx: &mut Context<'_>, error: FileError) {
        if matches!(error.problem, Problem::Cut { .. } | Problem::Damaged { .. } | Problem::Read { .. }) {
            self.note_lost(cx, 1, format!("at least one packet, since {error}"));
        }
        self.outcome.borrow_mut().errors.push(error);
    }

    fn note_lost(&self, cx: &mut Context<'_>, count: u64, cause: String) {
        let Some((since, _)) = self.outcome.borrow().span else { return };
        let loss = Loss { source: LossSource::Packets, count, since, cause };
        cx.env.push(self.clock.now(), Fact::Loss(loss));
    }

    /// The pipe is silent.
    fn wait(&mut self, cx: &mut Context<'_>) {
        self.clock.silent_for(self.heard.elapsed());
        let now = self.clock.now();
        self.is_over |= self.until.is_some_and(|until| now >= until);
        cx.env.sink.tick(now);
    }
}

/// How far a file was read.
enum Read {
    /// There is more.
    More,
    /// It is a pipe in which nothing waits.
    Wait,
    /// To its end, or as far as it can be read.
    End,
    /// As far as was asked for.
    Enough,
}

impl Source for CaptureFiles {
    fn descriptors(&self) -> Vec<RawFd> {
        self.files.front().map(CaptureFile::raw_fd).into_iter().collect()
    }

    fn take(&mut self, cx: &mut Context<'_>) -> bool {
        let mut more = false;
        while let (false, Some(mut file)) = (self.is_over, self.files.pop_front()) {
            let read = self.read(cx, &mut file);
            let (done, all) = file.progress();
            self.progress.show(done, all, file.packets());
            match read {
                Read::End => {
                    self.is_named = false;
                    continue;
                }
                Read::More => more = true,
                Read::Wait => self.wait(cx),
                Read::Enough => self.is_over = true,
            }
            self.files.push_front(file);
            break;
        }
        self.is_over |= self.files.is_empty();
        self.hand_over(cx);
        more && !self.is_over
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn stop(&mut self, _cx: &mut Context<'_>) {
        self.is_over = true;
        self.progress.clear();
        self.outcome.borrow_mut().is_part = !self.files.is_empty();
    }

    fn finish(&mut self, cx: &mut Context<'_>) {
        cx.circuits.finish(&mut cx.env);
        self.datagrams.finish(self.clock.now(), &mut self.facts);
        self.hand_over(cx);
        let links = self.outcome.borrow().unknown_links.clone();
        for (link, count) in links {
            self.note_lost(cx, count, format!("packets of link type {link}, which is not known"));
        }
    }
}
