//! Packets from capture files, in place of those from the network.
//!
//! The files are read in the order in which they were named; connections continue from one to the next. What a file
//! can't tell is not claimed: the host is unknown, so are its IOCs, and a note says where the packets come from.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use iocrec_log::event::{Clock, Event, Fact, Host, Loss, LossSource, Tier, TierChoice};

use crate::linux::clock::{self, Clock as _};
use crate::net::capture_file::link::{inner, Inner};
use crate::net::capture_file::{CaptureFile, FileError, Next, Packet, Problem};
use crate::net::flows::{Flows, Started, Verdict};
use crate::net::fragments::Fragments;
use crate::net::frames::{Frame, Strange};
use crate::net::packet::Segment;
use crate::net::udp::datagram::Datagram;
use crate::net::udp::Seen;
use crate::protocols::datagrams::{Datagrams, Selection};
use crate::recorder::capture_clock::CaptureClock;
use crate::recorder::context::Context;
use crate::recorder::sources::{Source, ROUND};
use crate::terminal::Progress;
use crate::{ca, pva};

/// Packets of a round: some milliseconds of work.
const BATCH: usize = 4096;
/// Numbers of link types that are counted one by one.
const MAX_LINKS: usize = 16;
/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// Number of the protocol UDP above IP.
const UDP: u8 = 17;
/// Interfaces with loopback addresses that are told apart, to be counted.
const MAX_LOOPBACKS: usize = 64;

/// What was read.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Packets.
    pub packets: u64,
    /// Those of connections of Channel Access, and of PVAccess.
    pub decoded: [u64; 2],
    /// TCP of other connections.
    pub other_tcp: u64,
    /// Datagrams of Channel Access.
    pub datagrams: u64,
    /// Other UDP.
    pub udp: u64,
    /// Other IP packets: other protocols, later fragments of those.
    pub other_ip: u64,
    /// Not IP.
    pub not_ip: u64,
    /// Cut so short that nobody can tell, or unsound.
    pub too_short: u64,
    /// Packets whose other fragments are missing: of those that carry a segment or a tunnel.
    pub fragments: u64,
    /// Tunnels that are not decoded.
    pub tunnels: u64,
    /// Interfaces, or files that overlap in time, whose connections between loopback addresses count as of one machine.
    pub loopbacks: usize,
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
    fragments: Fragments,
    /// Files that began with the clock going back so far, and the interfaces in them on which there are loopback addresses.
    overlaps: u32,
    loopbacks: BTreeSet<(u32, u32)>,
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
            fragments: Fragments::default(),
            overlaps: 0,
            loopbacks: BTreeSet::new(),
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
                Ok(Next::Nothing) => return Read::More,
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
            self.overlaps += u32::from(moment.went_back.is_some());
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
            self.hand_over(cx);
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
        let mut fragments = std::mem::take(&mut self.fragments);
        fragments.read(0, time, ip, length, &mut |_, frame| {
            let others = outcome_of(&frame);
            self.frame(cx, time, (ip, packet.interface), frame, outcome);
            others.into_iter().for_each(|count| *count(outcome) += 1);
        });
        self.fragments = fragments;
    }

    /// Takes what a packet carries. `ip`: the packet from its IP header on; of a packet that came in fragments, the last
    /// of them.
    fn frame(
        &mut self,
        cx: &mut Context<'_>,
        time: u64,
        (ip, interface): (&[u8], u32),
        frame: Frame,
        outcome: &mut Outcome,
    ) {
        let Some(segment) = frame.segment else {
            if frame.strange.is_none() {
                self.other(cx, time, (ip, interface), outcome);
            }
            return;
        };
        match self.flows.judge(time, ip, &segment) {
            Verdict::Known => {}
            Verdict::Recognized(started) => self.recognized(cx, time, &segment, started, outcome),
            Verdict::Opens | Verdict::Other => {
                outcome.other_tcp += 1;
                return;
            }
        }
        self.count_decoded(&segment, 1, outcome);
        outcome.cut += u64::from(segment.payload.len() < segment.length as usize);
        if segment.source.is_loopback() && segment.destination.is_loopback() {
            self.note_loopback(cx, time, interface, outcome);
        }
        cx.circuits.frame(0, time, frame);
    }

    /// A connection on an unknown port turns out to be of a known protocol.
    fn recognized(
        &mut self,
        cx: &mut Context<'_>,
        time: u64,
        segment: &Segment,
        started: Started,
        outcome: &mut Outcome,
    ) {
        cx.circuits.serve(time, self.flows.ports());
        outcome.servers = self.flows.servers();
        // they counted as others
        self.count_decoded(segment, started.packets, outcome);
        outcome.other_tcp = outcome.other_tcp.saturating_sub(started.packets);
        for opening in started.openings {
            cx.circuits.packet(0, opening.time, &opening.headers, opening.headers.len());
        }
    }

    fn count_decoded(&self, segment: &Segment, packets: u64, outcome: &mut Outcome) {
        let has = |service| {
            [segment.source, segment.destination].iter().any(|end| self.flows.ports().has(service, end.port))
        };
        // as the decoders share them: the first that serves the port
        let is_pva = !has(&ca::SERVICE) && has(&pva::SERVICE);
        let [ca, pva] = &mut outcome.decoded;
        *if is_pva { pva } else { ca } += packets;
    }

    /// Loopback addresses are each machine's own, but the file does not say whose an interface is.
    fn note_loopback(&mut self, cx: &mut Context<'_>, time: u64, interface: u32, outcome: &mut Outcome) {
        let place = (self.overlaps, interface);
        if self.loopbacks.len() >= MAX_LOOPBACKS || !self.loopbacks.insert(place) {
            return;
        }
        outcome.loopbacks = self.loopbacks.len();
        if outcome.loopbacks == 2 {
            self.hand_over(cx);
            let text = "loopback addresses are from several interfaces: if those are of several machines, \
                        their connections can't be told apart";
            cx.env.push(time, Fact::Mark(text.into()));
        }
    }

    /// Takes an IP packet that carries no TCP.
    fn other(
        &mut self,
        cx: &mut Context<'_>,
        time: u64,
        (ip, interface): (&[u8], u32),
        outcome: &mut Outcome,
    ) {
        if let Some(datagram) = Datagram::parse(ip) {
            let is_ours = self.datagram(cx, time, interface, &datagram);
            outcome.datagrams += u64::from(is_ours);
            outcome.udp += u64::from(!is_ours);
            outcome.servers = self.flows.servers();
            return;
        }
        let protocol = match ip {
            // later fragments have no ports
            [first, _, _, _, _, _, fragment, low, _, protocol, ..] if first >> 4 == 4 => {
                (*fragment & 0x1f == 0 && *low == 0).then_some(*protocol)
            }
            [first, _, _, _, _, _, next, ..] if first >> 4 == 6 => Some(*next),
            _ => None,
        };
        *if protocol == Some(UDP) { &mut outcome.udp } else { &mut outcome.other_ip } += 1;
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
        cx.env.push(time, Fact::from(host));
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
        let span = self.outcome.borrow().span;
        self.note_loss(cx, span, count, cause);
    }

    fn note_loss(&self, cx: &mut Context<'_>, span: Option<(u64, u64)>, count: u64, cause: String) {
        let Some((since, _)) = span else { return };
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

/// The number that a packet of a strange kind counts in.
fn outcome_of(frame: &Frame) -> Option<fn(&mut Outcome) -> &mut u64> {
    Some(match frame.strange? {
        Strange::Fragment => |outcome| &mut outcome.fragments,
        Strange::Tunnel => |outcome| &mut outcome.tunnels,
        Strange::Unsound => |outcome| &mut outcome.too_short,
        // told when it is decoded
        Strange::Ip6 => return None,
    })
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
        let (now, all) = (self.clock.now(), self.outcome.clone());
        let outcome = &mut *all.borrow_mut();
        let mut fragments = std::mem::take(&mut self.fragments);
        fragments.finish(&mut |_, frame| {
            let others = outcome_of(&frame);
            if frame.segment.is_some() {
                self.frame(cx, now, (&[], 0), frame, outcome);
            }
            others.into_iter().for_each(|count| *count(outcome) += 1);
        });
        self.finish_all(cx, outcome);
    }
}

impl CaptureFiles {
    fn finish_all(&mut self, cx: &mut Context<'_>, outcome: &Outcome) {
        cx.circuits.finish(&mut cx.env);
        self.datagrams.finish(self.clock.now(), &mut self.facts);
        self.hand_over(cx);
        for (link, count) in &outcome.unknown_links {
            let cause = format!("packets of link type {link}, which is not known");
            self.note_loss(cx, outcome.span, *count, cause);
        }
    }
}
