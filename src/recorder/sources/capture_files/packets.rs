//! Packets, passed to the decoders of their protocols.

use iocrec_log::event::Fact;

use super::machines::MACHINES;
use super::outcome::{outcome_of, Outcome};
use super::CaptureFiles;
use crate::net::capture_file::link::{inner, Inner};
use crate::net::capture_file::Packet;
use crate::net::flows::{Started, Verdict};
use crate::net::frames::{Frame, FRAGMENT};
use crate::net::packet::Segment;
use crate::net::udp::datagram::Datagram;
use crate::net::udp::Seen;
use crate::recorder::context::Context;
use crate::{ca, pva};

/// Numbers of link types that are counted one by one.
const MAX_LINKS: usize = 16;

/// Number of the protocol UDP above IP.
pub(super) const UDP: u8 = 17;

/// Length of IPv6's fixed header.
const IP6: usize = 40;

/// Interfaces with loopback addresses that are told apart, to be counted.
const MAX_LOOPBACKS: usize = 64;

impl CaptureFiles {
    /// Passes a packet to the decoders, if it is of a known protocol.
    pub(super) fn decode(&mut self, cx: &mut Context<'_>, time: u64, packet: &Packet) {
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
    pub(super) fn frame(
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
        let mut namespace = 0;
        if segment.source.is_loopback() && segment.destination.is_loopback() {
            self.note_loopback(cx, time, interface, outcome);
            namespace = self.machines.namespace(time, (self.overlaps, interface), &segment);
        }
        cx.circuits.frame(namespace, time, frame);
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
        cx.circuits.serve(time, self.flows.ports(), MACHINES);
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
        let (is_ca, is_pva) = (has(&ca::SERVICE), has(&pva::SERVICE));
        outcome.has_clients |= self.flows.ports().has_any(segment.destination.port);
        let [ca, pva] = &mut outcome.decoded;
        *if is_pva && !is_ca { pva } else { ca } += packets;
        if is_pva && is_ca {
            outcome.shared += packets;
        }
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
            let text = "loopback addresses are from several interfaces: connections are told apart, but not \
                        whose they are if those are of several machines";
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
            [first, _, _, _, _, _, next, ..] if first >> 4 == 6 => {
                // a part: what it is of stands first in that header
                if *next == FRAGMENT && ip.get(IP6) == Some(&UDP) {
                    outcome.hidden_udp += 1;
                    return;
                }
                Some(*next)
            }
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
            cx.circuits.serve(time, self.flows.ports(), MACHINES);
        }
        let seen = Seen { namespace: 0, interface: interface.cast_signed(), time };
        if cx.env.options.net {
            self.datagrams.datagram(seen, datagram, &mut self.facts);
        }
        true
    }
}
