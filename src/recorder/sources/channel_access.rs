//! Channel Access packets, from the network namespaces of all traced processes, and the owners of the circuits' ends.

use std::os::fd::RawFd;
use std::time::Duration;

use iocrec_log::event::{Fact, Loss, LossSource};

use crate::net::capture::Filtering;
use crate::net::captures::Captures;
use crate::recorder::circuits::places::Places;
use crate::recorder::context::Context;
use crate::recorder::processes::describe::recording;
use crate::recorder::processes::ports;
use crate::recorder::shortfall::Shortfall;
use crate::recorder::sources::stamps::Stamps;
use crate::recorder::sources::{Lost, Resting, Source, ROUND, UNTIL_WOKEN};

/// Time after the last packet for which rounds go on, nanoseconds: longer than the decoder waits for a missing packet.
const LULL: u64 = 1_000_000_000;
/// Interval of these rounds, unless something waits, and of the decoder's work that becomes due with time: its times are
/// seconds, and it looks at all connections of the last minute. Longer than the kernel mostly takes to hand over packets: where
/// these wake the loop, it needs no rounds besides.
const TICK: Duration = Duration::from_millis(300);
/// The same while packets wait for those of another ring. These mostly wake the loop before; if not, a packet is passed on
/// within 600 ms all the same, of which the kernel may have kept it for 400: who waits for packets waits no longer.
const HELD: Duration = Duration::from_millis(200);
/// Interval between looks at the network namespaces of the processes, nanoseconds: a process hardly ever changes its own.
/// A namespace that could not be captured is tried again, too.
pub(super) const LOOK_AGAIN: u64 = 5_000_000_000;
/// Longest wait of the start for the filters that tell who connects, nanoseconds.
const LOADED: u64 = 2_000_000_000;

/// See the module.
pub struct ChannelAccess {
    /// `None`: no packets are captured.
    captures: Option<Captures>,
    /// Packets lost up to the end: from clients, from servers.
    lost: [u64; 2],
    /// Time of the last packet, monotonic.
    last_packet: u64,
    /// Time when work of the decoder is due.
    next_tick: u64,
    /// Time when the namespaces of all processes are looked at again, though nothing is known to have changed.
    look_again: u64,
    /// At the end: the time by which the kernel has handed over the last packets. They wait for no others then.
    handed_over: Option<u64>,
    /// Whether that time has come.
    is_settled: bool,
    /// Whether the packets of all servers that are known are captured, where they can be, and whoever connects is told.
    is_through: bool,
    /// When that is no longer waited for.
    loaded_by: u64,
    /// When the interfaces that were named were there last, as before.
    watched: u64,
}

impl ChannelAccess {
    /// Takes packets from these captures, if there are any.
    pub fn new(captures: Option<Captures>) -> ChannelAccess {
        ChannelAccess {
            captures,
            lost: [0; 2],
            last_packet: 0,
            next_tick: 0,
            look_again: 0,
            handed_over: None,
            is_settled: true,
            is_through: true,
            loaded_by: 0,
            watched: 0,
        }
    }

    /// Finds the owners of the circuits, and captures packets in the servers' namespaces.
    fn find_ends(&mut self, cx: &mut Context<'_>, now: u64, at_once: bool) {
        if !cx.env.options.puts {
            return;
        }
        if cx.circuits.find_ends(&mut cx.env, now, at_once) {
            self.capture_places(cx, now);
            cx.circuits.hand_over(&mut cx.env);
        } else if self.captures.as_ref().is_some_and(|captures| !captures.settled()) {
            self.capture_places(cx, now);
        }
        // the places of what has changed are set first
        if !cx.changed {
            self.look_through(cx);
        }
    }

    /// Finds out whether a capture is still to come. If not, the log gets the ports of the IOCs.
    fn look_through(&mut self, cx: &mut Context<'_>) {
        let is_opening = self.captures.as_ref().is_some_and(Captures::is_opening);
        let is_captured = cx.circuits.is_placed() && !is_opening;
        if is_captured {
            tell_ports(cx);
        }
        // clients that live for milliseconds are named by what it tells alone
        let is_loading = self.captures.as_ref().is_some_and(Captures::is_loading);
        let waits = is_loading && cx.env.options.puts && cx.env.monotonic() < self.loaded_by;
        self.is_through = is_captured && !waits;
    }

    fn count_lost(&mut self) {
        let [requests, answers] = self.captures.as_mut().map_or([0; 2], Captures::losses);
        self.lost = [self.lost[0] + requests, self.lost[1] + answers];
    }

    fn capture_places(&mut self, cx: &mut Context<'_>, now: u64) {
        let Some(captures) = &mut self.captures else { return };
        let failures = captures.follow(now, &cx.circuits.places().wanted);
        cx.env.messages.extend(failures);
        // what was taken so far counts where it was seen; at the beginning that is nothing
        let since = if self.last_packet == 0 { 0 } else { cx.env.monotonic() };
        cx.circuits.set_captured(since, &captures.namespaces());
        let (is_gone, has_moved) = captures.take_interfaces();
        // they were there when the captures were opened, before anything was recorded
        if self.watched == 0 {
            self.watched = now;
        }
        if has_moved {
            self.note_unwatched(cx, now);
        }
        if !is_gone {
            self.watched = now;
        }
    }

    /// Notes that packets may be missing since the interfaces were there.
    fn note_unwatched(&self, cx: &mut Context<'_>, now: u64) {
        let cause = "any number: an interface was gone, or is another one of its name".into();
        let loss = Loss { source: LossSource::Packets, count: 1, since: self.watched, cause };
        cx.env.push(now, Fact::Loss(loss));
    }

    /// Notes the IOCs whose clients' packets are not seen.
    fn note_not_captured(&self, cx: &mut Context<'_>) {
        let now = cx.env.now;
        for ioc in cx.iocs.iter_mut() {
            let reason = match (&self.captures, &ioc.namespace) {
                (None, _) => cx.env.run.no_packets.clone(),
                (Some(captures), Ok(namespace)) => {
                    let ports = [ioc.about.ca_ports.as_slice(), ioc.about.pva_ports.as_slice()];
                    captures.refused(*namespace, ports).map(ToString::to_string)
                }
                (Some(_), Err(errno)) => Some(std::io::Error::from(*errno).to_string()),
            };
            if reason.as_deref() == ioc.shortfalls.not_captured() {
                continue;
            }
            ioc.shortfalls.remove(|shortfall| matches!(shortfall, Shortfall::NotCaptured(_)));
            if let Some(reason) = reason {
                let shortfall = Shortfall::NotCaptured(reason);
                cx.env.messages.push(format!("{}: {shortfall}", ioc.label()));
                ioc.shortfalls.add(shortfall);
            }
            ioc.announce(&mut cx.env, now);
        }
    }
}

/// How long the loop may rest: by whether packets wait for older ones, whether the kernel has some that are still to be handed
/// over, and whether none have come for a while.
fn pause(holds: bool, is_awaited: bool, is_quiet: bool) -> Duration {
    match (holds, is_awaited) {
        // what they wait for wakes the loop
        (true, true) => HELD,
        (true, false) => ROUND,
        // the kernel wakes the loop when it hands over packets
        (false, _) if is_quiet => UNTIL_WOKEN,
        (false, _) => TICK,
    }
}

/// Tells the ports of all IOCs: packets are captured there by now, if ever.
fn tell_ports(cx: &mut Context<'_>) {
    // later than the last packet that was missed
    let now = cx.env.monotonic();
    for ioc in cx.iocs.iter_mut() {
        let is_new = ioc.tell_ports(&mut cx.env, now);
        // where there are probes, it is said once they are placed
        if is_new && cx.maps.is_none() && ioc.shortfalls.not_captured().is_none() {
            cx.env.messages.push(recording(&ioc.about));
        }
    }
}

impl Source for ChannelAccess {
    fn descriptors(&self) -> Vec<RawFd> {
        self.captures.iter().flat_map(Captures::fds).collect()
    }

    fn begin(&mut self, cx: &mut Context<'_>) {
        if cx.env.options.net {
            cx.circuits.count_traffic();
        }
        self.loaded_by = cx.env.monotonic().saturating_add(LOADED);
        // nothing is stored before packets are captured: whoever sees a log begin may rely on that
        self.adapt(cx);
        if let Some(captures) = &self.captures {
            cx.circuits.expect_filter(captures.filtering());
        }
        let now = cx.env.now;
        self.find_ends(cx, now, true);
    }

    fn take(&mut self, cx: &mut Context<'_>) -> bool {
        let now = cx.env.monotonic();
        if let Some(captures) = &mut self.captures {
            if !self.is_settled && self.handed_over.is_some_and(|time| now >= time) {
                captures.hurry();
                self.is_settled = true;
            }
            let circuits = &mut *cx.circuits;
            let mut stamps = Stamps::new(&*cx.env.machine.clock, cx.env.wall_offset, now);
            let last = &mut self.last_packet;
            for (namespace, told) in captures.take_told() {
                circuits.watch_told(namespace, now, told, !cx.env.options.no_command_lines);
            }
            // before the packets of what they tell
            circuits.take_connects(now);
            let all = cx.env.options.interfaces.iter().all(|name| name == "any");
            captures.drain(&mut |namespace, packet| {
                *last = now;
                circuits.captured(namespace, stamps.time(Some(packet.wall)), &packet, all);
            });
            circuits.name_channels(now);
            let refused = captures.take_refused();
            cx.env.messages.extend(refused.map(|why| format!("{}: {why}", Filtering::REFUSED)));
        }
        // before what their first circuits carry
        for (namespace, server) in cx.circuits.take_shown() {
            ports::confirm(cx, namespace, server.port);
        }
        if now >= self.next_tick {
            self.next_tick = now.saturating_add(TICK.as_nanos() as u64);
            cx.circuits.tick(&mut cx.env, now);
        } else {
            cx.circuits.hand_over(&mut cx.env);
        }
        self.find_ends(cx, now, false);
        false
    }

    fn rest(&mut self, cx: &Resting<'_>) -> Duration {
        let Some(captures) = &self.captures else { return UNTIL_WOKEN };
        let is_quiet = cx.now.saturating_sub(self.last_packet) >= LULL;
        if !captures.settled() || cx.circuits.is_busy() {
            ROUND
        } else {
            pause(captures.holds(), captures.is_awaited(), is_quiet)
        }
    }

    fn adapt(&mut self, cx: &mut Context<'_>) {
        if cx.env.options.puts && (cx.changed || cx.env.now >= self.look_again) {
            self.look_again = cx.env.now.saturating_add(LOOK_AGAIN);
            cx.circuits.set_places(Places::find(&cx.env, cx.iocs));
            let now = cx.env.now;
            self.capture_places(cx, now);
            self.note_not_captured(cx);
        }
        self.look_through(cx);
        cx.circuits.seed(&mut cx.env, cx.iocs);
    }

    fn lost(&mut self) -> Vec<Lost> {
        self.count_lost();
        let [requests, answers] = std::mem::take(&mut self.lost);
        let lost = |count, cause| Lost { source: LossSource::Packets, count, cause };
        vec![
            lost(requests, "the ring of packets to servers was full"),
            lost(answers, "the ring of packets from servers was full"),
        ]
    }

    fn stop(&mut self, cx: &mut Context<'_>) {
        // the end goes on with its rounds meanwhile: an IOC's hits would fill their buffers
        self.is_settled = self.captures.is_none();
        let now = cx.env.monotonic();
        cx.iocs.iter_mut().for_each(|ioc| _ = ioc.tell_ports(&mut cx.env, now));
        let handed_over = self.captures.as_ref().map_or(Duration::ZERO, Captures::handed_over);
        self.handed_over = Some(cx.env.monotonic().saturating_add(handed_over.as_nanos() as u64));
    }

    fn is_through(&self) -> bool {
        self.is_through
    }

    fn is_settled(&self) -> bool {
        self.is_settled
    }

    fn finish(&mut self, cx: &mut Context<'_>) {
        cx.circuits.finish(&mut cx.env);
        if self.captures.as_mut().is_some_and(|captures| captures.take_interfaces().0) {
            let now = cx.env.monotonic();
            self.note_unwatched(cx, now);
        }
        self.count_lost();
        // when the process ends they would be closed one after the other
        drop(self.captures.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::Event;

    use crate::net::capture::Capture;
    use crate::net::service::Ports;
    use crate::not_run::{not_run, Needs};
    use crate::recorder::testing::{Bench, SECOND};

    /// The number of no interface.
    const NOBODY: u32 = u32::MAX;

    /// The losses of packets that a look at this time notes, by their beginnings.
    fn losses(source: &mut ChannelAccess, at: u64, is_last: bool) -> Vec<u64> {
        let mut bench = Bench::new();
        bench.clock.monotonic.set(at);
        if is_last {
            source.finish(&mut bench.context());
        } else {
            source.capture_places(&mut bench.context(), at);
        }
        let since = |event| match event {
            Event { time, fact: Fact::Loss(loss) } if time == at => Some(loss.since),
            _ => None,
        };
        bench.sink.take().into_iter().filter_map(since).collect()
    }

    /// Another interface of the name that was given is found some seconds after it came: until then nobody watches it.
    #[test]
    fn the_time_without_an_interface_is_a_loss() {
        let capture = match Capture::open(&["lo".into()], &Ports::default()) {
            Ok(capture) => capture,
            Err(error) => {
                let name = "channel_access::the_time_without_an_interface_is_a_loss";
                return not_run(name, Needs::root_or_kernel(error.to_string()));
            }
        };
        let mut source = ChannelAccess::new(Some(Captures::new(capture, Filtering::Stateless)));
        let mut look = |at: u64, pretends: Option<(&str, u32)>, is_last: bool| {
            if let (Some((name, index)), Some(captures)) = (pretends, &mut source.captures) {
                captures.pretend(name, index);
            }
            losses(&mut source, at, is_last)
        };
        assert_eq!(look(2 * SECOND, None, false), [0u64; 0]);
        assert_eq!(look(4 * SECOND, Some(("gone0", NOBODY)), false), [0u64; 0], "it may come back as it was");
        assert_eq!(look(6 * SECOND, Some(("lo", NOBODY)), false), [2 * SECOND], "it is another one");
        assert_eq!(look(8 * SECOND, None, false), [0u64; 0]);
        assert_eq!(look(10 * SECOND, Some(("gone0", NOBODY)), false), [0u64; 0]);
        assert_eq!(look(11 * SECOND, None, true), [8 * SECOND], "it has not come back");
    }

    /// A put may wait for what its server sends now and then: the next of that is handed over up to 400 ms after the put was.
    #[test]
    fn what_waits_for_another_ring_does_not_wait_too_long() {
        for is_quiet in [false, true] {
            let longest = Duration::from_millis(600 - 400);
            assert!(pause(true, true, is_quiet) <= longest, "threads are tied without packets after 600 ms");
            assert_eq!(pause(true, false, is_quiet), ROUND, "nothing else wakes the loop");
        }
        assert_eq!([pause(false, true, true), pause(false, true, false)], [UNTIL_WOKEN, TICK]);
    }

    /// Between the opening of the captures and the first look.
    #[test]
    fn an_interface_that_goes_at_once() {
        let capture = match Capture::open(&["lo".into()], &Ports::default()) {
            Ok(capture) => capture,
            Err(error) => {
                let name = "channel_access::an_interface_that_goes_at_once";
                return not_run(name, Needs::root_or_kernel(error.to_string()));
            }
        };
        let mut captures = Captures::new(capture, Filtering::Stateless);
        captures.pretend("gone0", NOBODY);
        let mut source = ChannelAccess::new(Some(captures));
        assert_eq!(losses(&mut source, 5 * SECOND, false), [0u64; 0]);
        assert_eq!(losses(&mut source, 9 * SECOND, true), [5 * SECOND], "nothing was recorded before");
    }
}
