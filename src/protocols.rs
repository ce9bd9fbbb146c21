//! The protocols above TCP that are decoded from packets. Each has a room of its own; this is the list.
//!
//! All share one capture, so each packet goes to one decoder: the one that serves its port, else the first in the
//! list, which may recognize it by its content. Where both serve one of its ports, the connection's bytes tell: servers of
//! both may have the same, and a client may have that of another server.

pub mod datagrams;

use iocrec_log::event::{Event, Fact, Loss, LossSource};

use crate::ca;
use crate::net::flows::Mark;
use crate::net::fragments::Fragments;
use crate::net::frames::{Frame, Strange};
use crate::net::packet::{End, Segment};
use crate::net::protocol::Decoder;
use crate::net::served::Served;
use crate::net::Namespace;
use crate::pva;

/// How each protocol's connections begin: by this they are recognized in capture files on any port.
pub static MARKS: &[Mark] = &[
    Mark { service: &ca::SERVICE, begins: ca::begins_circuit },
    Mark { service: &pva::SERVICE, begins: pva::begins_circuit },
];

/// The decoders. A new protocol is a field here, and a place in `Protocols::all`.
#[derive(Debug)]
pub struct Protocols {
    /// Channel Access.
    pub ca: ca::Decoder,
    /// PVAccess.
    pub pva: pva::Decoder,
    /// Whether nobody has left out payloads on purpose: what is missing is lost. So it is in a capture file, whose
    /// packets were cut to some length.
    cuts_are_losses: bool,
    fragments: Fragments,
    /// Packets of kinds that are not decoded; not yet reported.
    strange: [Strangers; Strange::ALL.len()],
    /// Time of the last report of them.
    reported: Option<u64>,
}

/// Packets of a kind that is not decoded.
#[derive(Clone, Copy, Debug, Default)]
struct Strangers {
    count: u64,
    /// When the first of them came.
    since: u64,
    /// Its sender and receiver, if they are known, and whether those of others differ.
    ends: Option<(End, End)>,
    several: bool,
}

/// Time between two reports of packets that are not decoded, nanoseconds. They go on for as long as somebody sends them.
const STRANGE_INTERVAL: u64 = 60_000_000_000;

impl Default for Protocols {
    fn default() -> Protocols {
        Protocols {
            ca: ca::Decoder::new(ca::Limits::default()),
            pva: pva::Decoder::new(pva::Limits::default()),
            cuts_are_losses: false,
            fragments: Fragments::default(),
            strange: Default::default(),
            reported: None,
        }
    }
}

impl Protocols {
    /// For packets from a file.
    pub fn of_file() -> Protocols {
        Protocols { cuts_are_losses: true, ..Protocols::default() }
    }

    fn all(&mut self) -> [&mut dyn Decoder<Output = Vec<Event>>; 2] {
        [&mut self.ca, &mut self.pva]
    }

    /// Reports packets that are not decoded.
    fn report_strange(&mut self, now: u64, out: &mut Vec<Event>) {
        if self.strange.iter().all(|of| of.count == 0) {
            return;
        }
        self.reported = Some(now);
        for (kind, of) in Strange::ALL.into_iter().zip(std::mem::take(&mut self.strange)) {
            let Strangers { count, since, ends, several } = of;
            if count > 0 {
                let mut cause =
                    format!("packets from and to the servers' ports that are not decoded: {}", kind.name());
                if let Some((source, destination)) = ends {
                    let others = if several { ", and of other connections" } else { "" };
                    cause += &format!(": from {source} to {destination}{others}");
                }
                let loss = Loss { source: LossSource::Stream, count, since, cause };
                out.push(Event { time: now, fact: Fact::Loss(loss) });
            }
        }
    }

    /// Takes a packet that was captured in a network namespace, from its network header on, at `time` (nanoseconds,
    /// monotonic). `original_length` is its length before the capture cut anything off. `place`: see
    /// [`Segment::place`].
    pub fn packet(
        &mut self,
        namespace: Namespace,
        time: u64,
        packet: &[u8],
        original_length: usize,
        place: Option<u32>,
        out: &mut Vec<Event>,
    ) {
        let mut fragments = std::mem::take(&mut self.fragments);
        fragments.read(namespace, time, packet, original_length, &mut |namespace, frame| {
            self.frame(namespace, time, frame, place, out);
        });
        self.fragments = fragments;
    }

    /// The same for what a packet carries.
    pub fn frame(
        &mut self,
        namespace: Namespace,
        time: u64,
        frame: Frame<'_>,
        place: Option<u32>,
        out: &mut Vec<Event>,
    ) {
        if let Some(kind) = frame.strange {
            self.note_strange(kind, time, frame.segment.as_ref());
        }
        if let Some(segment) = frame.segment {
            if frame.joined && !self.all().iter().any(|decoder| decoder.serves(namespace, &segment)) {
                return;
            }
            let elided = segment.elided && !self.cuts_are_losses;
            self.segment(namespace, time, &Segment { elided, place, ..segment }, out);
        }
    }

    /// Counts a packet that is not decoded; the segment in it, as far as that can be read.
    pub fn note_strange(&mut self, kind: Strange, time: u64, segment: Option<&Segment>) {
        if let Some(of) = self.strange.get_mut(kind as usize) {
            let ends = segment.map(|segment| (segment.source, segment.destination));
            if of.count == 0 {
                *of = Strangers { since: time, ends, ..Strangers::default() };
            }
            of.several |= of.ends != ends && of.ends != ends.map(|(one, other)| (other, one));
            of.count += 1;
        }
    }

    /// Takes a segment.
    fn segment(&mut self, namespace: Namespace, time: u64, segment: &Segment, out: &mut Vec<Event>) {
        let mut all = self.all();
        // servers of both may have this port, or the client of one has that of the other
        let serves = all.each_ref().map(|decoder| decoder.serves(namespace, segment));
        let at = if serves != [true; 2] {
            serves.iter().position(|serves| *serves)
        } else if segment.length == 0 {
            // openings and ends, of whatever it is
            return all.into_iter().for_each(|decoder| decoder.segment(namespace, time, segment, out));
        } else {
            let [ca, pva] = all.each_ref().map(|decoder| decoder.claim(namespace, segment));
            // a handshake of TLS, of which Channel Access knows nothing
            let is_encrypted = segment.payload.starts_with(&[0x16, 3]);
            Some(usize::from(pva > ca || pva == ca && is_encrypted))
        };
        let is_ip6 = segment.source.v4().is_none() || segment.destination.v4().is_none();
        match at {
            Some(0) if is_ip6 => return self.note_strange(Strange::Ip6, time, Some(segment)),
            // behind several headers, no filter has looked at its ports
            None if is_ip6 => return,
            _ => {}
        }
        if let Some(decoder) = all.get_mut(at.unwrap_or(0)) {
            decoder.segment(namespace, time, segment, out);
        }
    }

    /// Decodes what waits for other fragments, as far as it goes: all of it, or what is due.
    fn give_up_fragments(&mut self, now: u64, all: bool, out: &mut Vec<Event>) {
        let mut fragments = std::mem::take(&mut self.fragments);
        let mut sink = |namespace, frame: Frame<'_>| self.frame(namespace, now, frame, None, out);
        match all {
            true => fragments.finish(&mut sink),
            false => fragments.tick(now, &mut sink),
        }
        self.fragments = fragments;
    }

    /// From now on, what a client is said to send on a connection whose opening was not seen waits for a sign that the
    /// connection exists.
    pub fn expect_confirmation(&mut self) {
        self.all().into_iter().for_each(Decoder::expect_confirmation);
    }

    /// The connections whose clients' data has begun to wait for that: namespace, client and server.
    pub fn take_unconfirmed(&mut self) -> Vec<(Namespace, End, End)> {
        self.all().into_iter().flat_map(Decoder::take_unconfirmed).collect()
    }

    /// This connection exists: the kernel has a socket for it.
    pub fn confirm(&mut self, namespace: Namespace, ends: (End, End), out: &mut Vec<Event>) {
        for decoder in self.all() {
            decoder.confirm(namespace, ends.0, ends.1, out);
        }
    }

    /// Sets the servers of each captured network namespace. Connections in namespaces that are no longer among them are
    /// closed.
    pub fn set_served(&mut self, now: u64, served: &[Served], out: &mut Vec<Event>) {
        for decoder in self.all() {
            decoder.set_served(now, served.to_vec(), out);
        }
    }

    /// Sets the namespaces whose packets are captured; those that were not before, since that time.
    pub fn set_captured(&mut self, since: u64, namespaces: &[Namespace]) {
        for decoder in self.all() {
            decoder.set_captured(since, namespaces);
        }
    }

    /// Does the work that is due by time alone. Call this some times a second.
    pub fn tick(&mut self, now: u64, out: &mut Vec<Event>) {
        self.give_up_fragments(now, false, out);
        for decoder in self.all() {
            decoder.tick(now, out);
        }
        if self.reported.is_none_or(|last| now.saturating_sub(last) >= STRANGE_INTERVAL) {
            self.report_strange(now, out);
        }
    }

    /// Gives up all waiting and reports every loss when recording ends.
    pub fn finish(&mut self, now: u64, out: &mut Vec<Event>) {
        self.give_up_fragments(now, true, out);
        for decoder in self.all() {
            decoder.finish(now, out);
        }
        self.report_strange(now, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_decoded_is_said_of_a_connection() {
        let told = |others: &[Option<Segment>]| {
            let (mut protocols, mut out) = (Protocols::default(), Vec::new());
            others.iter().for_each(|of| protocols.note_strange(Strange::Damaged, 5, of.as_ref()));
            protocols.tick(6, &mut out);
            match out.as_slice() {
                [Event { fact: Fact::Loss(loss), .. }] => (loss.count, loss.since, loss.cause.clone()),
                _ => panic!("{out:?}"),
            }
        };
        // IP and TCP headers, as far as they matter: 10.0.0.1:40000 and 10.0.0.2:5064
        let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend([0x9c, 0x40, 0x13, 0xc8, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 16, 1, 0, 0, 0, 0, 0]);
        let there = Segment::parse(&packet, packet.len());
        let back = there.map(|of| Segment { source: of.destination, destination: of.source, ..of });
        let other = there.map(|of| Segment { source: End::v6(1, 2), ..of });
        assert!(there.is_some());
        let (count, since, cause) = told(&[there, back]);
        assert_eq!((count, since), (2, 5));
        assert!(cause.ends_with("drop them: from 10.0.0.1:40000 to 10.0.0.2:5064"), "{cause}");
        assert!(told(&[there, other]).2.ends_with(":5064, and of other connections"));
        assert!(told(&[None, there]).2.ends_with("drop them"));
    }
}
