//! The recorder: what the kernel and the network hand over becomes events in a sink.
//!
//! One thread, one loop: packets and hits are taken over some twenty times a second, everything else is
//! done at a slow beat. Processes are looked at, and probes placed, by other threads ([`crate::linux::reader`]): the loop waits
//! for none of that, but for a few words of an IOC's memory now and then, and never long. It survives IOCs that
//! come and go; what is lost is said in the log.

mod after_puts;
mod ends;
mod hits;
pub mod holding;
mod lists;
mod local_clients;
mod names;
mod pulse;
pub mod report;
pub mod selection;
pub mod sink;
pub mod store;
pub mod thinning;
pub mod triggers;
mod value;
mod watched;

use std::collections::HashSet;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use iocrec_log::event::{ChainSampling, Clock, Event, Fact, Host, Loss, LossSource, Tier, TierChoice};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::utsname::uname;

use crate::bpf::maps::LeavesOut;
use crate::ca::{Decoder, Limits};
use crate::linux::user::Users;
use crate::linux::{clock, reader, signals};
use crate::net::capture::{Capture, CaptureError};
use crate::net::captures::Captures;
use crate::net::service::Ports;
use crate::probes::kernel::Kernel;
use crate::probes::tiers::{self, TierRequest};
use crate::recorder::ends::{Ends, Places};
use crate::recorder::local_clients::LocalClients;
use crate::recorder::names::Names;
use crate::recorder::selection::Selection;
use crate::recorder::sink::Sink;
use crate::recorder::thinning::{in_words, Change, Retain, Thinner};
pub use crate::recorder::watched::not_captured;
use crate::recorder::watched::{Desk, Watched};

/// How often waiting hits and packets are taken over. The ring holds eight times what a busy IOC (20,000
/// hits/s of 64 bytes) makes in it; it wakes the recorder earlier when a quarter has filled.
const BEAT: Duration = Duration::from_millis(50);
/// How often IOCs are looked for: an IOC that starts is seen within this.
const SCAN: u64 = 1_000_000_000;
/// What the start waits for, nanoseconds: that all processes have been looked at. What takes longer is looked at
/// while others are recorded.
const START: u64 = 5_000_000_000;
/// How long the end waits for what the last hits need to be known, nanoseconds: who ends the recorder waits for a second at
/// most in all.
const LAST: u64 = 300_000_000;
/// How often it is seen whether they have.
const START_BEAT: Duration = Duration::from_millis(2);
/// Takes before a look for ended IOCs and at the end: more than the ring holds. Under a load that fills it as
/// fast there must be an end all the same.
const MOST_TAKEN: usize = 8;
/// How often the wall clock is noted: a step of it is known to this.
const CLOCK: u64 = 10_000_000_000;
/// Wall clock steps that are noted at once, nanoseconds.
const CLOCK_STEP: u64 = 1_000_000;

/// What to record.
pub struct Options {
    /// The tier wished for.
    pub wish: TierRequest,
    /// Interfaces to capture on; `any` for all.
    pub interfaces: Vec<String>,
    /// CA server ports besides those that are found.
    pub ports: Vec<u16>,
    /// Only these processes; all where empty.
    pub pids: Vec<u32>,
    /// Whose processes.
    pub users: Users,
    /// Which records and PVs.
    pub selection: Selection,
    /// Leave the IOCs' command lines out of the log.
    pub no_command_lines: bool,
    /// Record puts?
    pub puts: bool,
    /// Record processing?
    pub process: bool,
    /// End after so long.
    pub duration: Option<Duration>,
    /// Keep at most so many chains a second of each record that begins them.
    pub thin: Option<u32>,
    /// Thin chains as much as needed for the log to hold so long.
    pub retain: Option<Retain>,
}

/// A recorder that has been set up.
pub struct Recorder {
    options: Options,
    kernel: Option<Kernel>,
    captures: Option<Captures>,
    decoder: Decoder,
    names: Names,
    watched: Watched,
    local_clients: LocalClients,
    unwanted: HashSet<u32>,
    /// Whose the circuits are.
    ends: Ends,
    /// The network namespaces and CA servers' ports that are captured.
    places: Places,
    thinner: Thinner,
    wall_offset: i64,
    /// When the counts of what was lost were last looked at: what is new came after it.
    counted: u64,
    /// Has something new been found since memory was last given back?
    changed: bool,
    /// Had it before?
    changed_before: bool,
    /// Lines for the user that are yet to be said.
    said: Vec<String>,
    /// Filled and emptied again and again.
    events: Vec<Event>,
}

impl Recorder {
    /// Loads the programs, opens the capture, finds the IOCs; lines for the user come back beside it.
    ///
    /// # Errors
    /// Nothing can be recorded at all; the reason in words.
    pub fn new(options: Options, sink: &mut dyn Sink) -> Result<(Recorder, Vec<String>), String> {
        let mut said = Vec::new();
        // before there is much in memory of which the reader would keep a copy
        reader::use_reader_process();
        crate::probes::stale_events::remove();
        let thinner = Thinner::new(options.thin, options.retain);
        let leaves_out = LeavesOut { chains: thinner.thins(), records: !options.selection.is_all() };
        let (kernel, choice) = tiers::open(options.wish, leaves_out);
        let mut no_packets = None;
        let captures = match Capture::open(&options.interfaces, &Ports::default()) {
            _ if !options.puts => None,
            Ok(capture) => Some(Captures::new(capture)),
            Err(error @ CaptureError::NoSuchInterface { .. }) => return Err(error.to_string()),
            Err(error) => {
                no_packets = Some(error.to_string());
                None
            }
        };
        if captures.is_none() && kernel.is_none() {
            let no_hits = choice.refused.last().map(|(_, reason)| reason.clone());
            let reasons: Vec<String> = no_packets.into_iter().chain(no_hits).collect();
            return Err(format!("nothing can be recorded: {}", reasons.join("; ")));
        }
        said.extend(lower_tier(options.wish, &choice));
        if kernel.is_none() && thinner.thins() {
            said.push("nothing is thinned: without probes there are no chains".into());
        }
        said.extend(
            no_packets.map(|error| format!("no packets, puts are recorded inside the IOCs only: {error}")),
        );
        let now = clock::monotonic();
        let mut decoder = Decoder::new(Limits::default());
        decoder.report_ends();
        sink.push(Event { time: now, fact: Fact::Host(host()?) });
        let watched = Watched::new(kernel.as_ref(), &options);
        let mut recorder = Recorder {
            options,
            kernel,
            captures,
            decoder,
            names: Names::new(leaves_out.any()),
            watched,
            local_clients: LocalClients::default(),
            unwanted: HashSet::new(),
            ends: Ends::default(),
            places: Places::default(),
            thinner,
            wall_offset: 0,
            counted: now,
            changed: false,
            changed_before: false,
            said: Vec::new(),
            events: Vec::new(),
        };
        recorder.note_clock(now, sink);
        sink.push(Event { time: now, fact: Fact::Tier(choice) });
        recorder.thin(now, sink, &mut said);
        let through = recorder.start(now, sink, &mut said);
        if signals::ended() {
            // not all was looked at
            return Ok((recorder, said));
        }
        let wrong: Vec<u32> =
            recorder.options.pids.iter().copied().filter(|&pid| !recorder.watched.has(pid)).collect();
        // one that takes long to look at may be one all the same
        let wrong: Vec<u32> =
            wrong.into_iter().filter(|&pid| through || recorder.watched.is_known(pid)).collect();
        for pid in &wrong {
            said.push(recorder.watched.why_not(*pid, &recorder.options.users));
        }
        if !wrong.is_empty() && wrong.len() == recorder.options.pids.len() {
            return Err(said.pop().unwrap_or_default());
        }
        if !through {
            said.push(
                "not all processes have been looked at yet; IOCs are recorded as they are found".into(),
            );
        } else if recorder.watched.is_empty() {
            said.push(
                "no IOC is running; IOCs are recorded as they start (iocrec check shows what is looked for)"
                    .into(),
            );
        }
        Ok((recorder, said))
    }

    /// Records until told to end, by a signal or by the duration. Lines for the user go to `say`.
    pub fn run(&mut self, sink: &mut dyn Sink, say: &mut dyn FnMut(&str)) {
        let start = clock::monotonic();
        let end = self.options.duration.map(|duration| start.saturating_add(duration.as_nanos() as u64));
        let (mut scanned, mut clocked) = (start, start);
        let mut said = Vec::new();
        loop {
            let more = self.take(sink);
            let now = clock::monotonic();
            if signals::ended() || end.is_some_and(|end| now >= end) {
                break;
            }
            self.look(sink, &mut said);
            if now - scanned >= SCAN {
                scanned = now;
                self.scan(now, sink, &mut said);
                self.names.look_for_lists(now, sink);
                self.names.inspect(now - SCAN, sink);
                self.note_losses(now, sink);
                self.thin(now, sink, &mut said);
            }
            if now - clocked >= CLOCK || self.wall_offset.abs_diff(clock::wall_offset()) >= CLOCK_STEP {
                clocked = now;
                self.note_clock(now, sink);
            }
            sink.tick(now);
            said.extend(sink.notice());
            said.drain(..).for_each(|line| say(&line));
            if !more && self.wait() {
                // what an IOC did last comes before its end
                self.take_all(sink);
                let now = clock::monotonic();
                self.with_desk(sink, &mut said, |watched, desk| watched.let_go(now, desk));
            }
        }
        // what the kernel still holds: the last packets are handed over with the next beat
        if self.captures.is_some() {
            std::thread::sleep(BEAT);
        }
        let left_out = self.kernel.as_mut().map(|kernel| kernel.maps.forget_all()).unwrap_or_default();
        self.take_all(sink);
        self.ask_for_the_last(sink, &mut said);
        let now = clock::monotonic();
        self.names.inspect(now, sink);
        self.names.thinned(now, &left_out, sink);
        self.decoder.finish(clock::monotonic(), &mut self.events);
        self.hand_over(sink);
        self.note_losses(clock::monotonic(), sink);
        // at the process's end they would be closed one after the other
        drop(self.captures.take());
        said.extend(sink.notice());
        said.drain(..).for_each(|line| say(&line));
    }

    /// What the last hits need to know of their IOCs comes some milliseconds after them; it is waited for, but not long.
    fn ask_for_the_last(&mut self, sink: &mut dyn Sink, said: &mut Vec<String>) {
        let end = clock::monotonic().saturating_add(LAST);
        while clock::monotonic() < end {
            self.look(sink, said);
            if !sink.awaits() && self.watched.are_answered() {
                break;
            }
            std::thread::sleep(START_BEAT);
        }
        self.take_all(sink);
    }

    /// Sleeps until there is something to do, at most a beat. True if a recorded process has ended.
    fn wait(&self) -> bool {
        let fds = self.kernel.iter().map(|kernel| kernel.transport.fd());
        let fds: Vec<RawFd> = fds.chain(self.captures.iter().flat_map(Captures::fds)).collect();
        let mut polled: Vec<PollFd> = fds
            .iter()
            .map(|&fd| {
                // SAFETY: the descriptors belong to `kernel` and `captures`, which live longer than `polled`.
                let fd = unsafe { BorrowedFd::borrow_raw(fd) };
                PollFd::new(fd, PollFlags::POLLIN)
            })
            .collect();
        let own = polled.len();
        polled.extend(self.watched.endings().map(|ending| PollFd::new(ending, PollFlags::POLLIN)));
        // interrupted by a signal, or out of memory: the loop looks at everything either way
        let _ = poll(&mut polled, PollTimeout::try_from(BEAT).unwrap_or(PollTimeout::ZERO));
        polled.iter().skip(own).any(|ending| ending.any() == Some(true))
    }

    /// Works with what is known of processes.
    fn with_desk<T>(
        &mut self,
        sink: &mut dyn Sink,
        said: &mut Vec<String>,
        work: impl FnOnce(&mut Watched, &mut Desk<'_>) -> T,
    ) -> T {
        let mut desk =
            Desk { options: &self.options, names: &mut self.names, kernel: self.kernel.as_mut(), sink, said };
        work(&mut self.watched, &mut desk)
    }

    /// Looks for all IOCs that there are; false if that takes too long.
    fn start(&mut self, now: u64, sink: &mut dyn Sink, said: &mut Vec<String>) -> bool {
        // nothing is stored before packets are captured: who sees a log begin may rely on that
        self.adapt(now, false, sink, said);
        self.find_ends(now, true, sink);
        self.with_desk(sink, said, |watched, desk| watched.scan(now, desk));
        let end = now.saturating_add(START);
        let mut through = false;
        while !through && !signals::ended() && clock::monotonic() < end {
            through = self.watched.is_through();
            if !through {
                std::thread::sleep(START_BEAT);
            }
            self.take(sink);
            self.look(sink, said);
            sink.tick(clock::monotonic());
        }
        self.watched.has_begun();
        through
    }

    /// Takes over what others have found out about processes.
    fn look(&mut self, sink: &mut dyn Sink, said: &mut Vec<String>) {
        self.watched.arrivals(&self.options);
        loop {
            let (more, changed) = self.with_desk(sink, said, Watched::reports);
            if changed {
                self.adapt(clock::monotonic(), true, sink, said);
                self.changed = true;
            }
            if !more {
                break;
            }
            // hits don't wait for what there is to say of processes
            self.take(sink);
        }
    }

    /// Takes over what waits now, however much comes meanwhile.
    fn take_all(&mut self, sink: &mut dyn Sink) {
        for _ in 0..MOST_TAKEN {
            if !self.take(sink) {
                break;
            }
        }
    }

    /// Takes over what waits, packets first: they tell the names of channels. True if there may be more.
    fn take(&mut self, sink: &mut dyn Sink) -> bool {
        self.packets(sink);
        let Some(kernel) = &mut self.kernel else { return false };
        let (names, selection) = (&mut self.names, &self.options.selection);
        let mut new = Vec::new();
        let more = kernel.transport.drain(|batch| {
            for (head, body) in batch.samples().filter_map(crate::bpf::hit::parse) {
                new.extend(hits::hit(names, selection, &head, body, sink));
            }
        });
        for thread in new {
            self.watched.new_thread(&self.names, thread);
        }
        self.names.read_again(clock::monotonic(), sink);
        self.watched.tie(&mut self.decoder, &mut self.events, sink);
        self.hand_over(sink);
        more
    }

    fn packets(&mut self, sink: &mut dyn Sink) {
        let now = clock::monotonic();
        if let Some(captures) = &mut self.captures {
            let (decoder, events, offset) = (&mut self.decoder, &mut self.events, self.wall_offset);
            captures.drain(&mut |namespace, packet| {
                let time = u64::try_from(packet.wall - offset).unwrap_or(now).min(now);
                decoder.packet(namespace, time, packet.bytes, packet.length, events);
            });
            self.local_clients.step(now, &self.places, &mut self.decoder, &mut self.events);
        }
        self.decoder.tick(now, &mut self.events);
        self.hand_over(sink);
        self.find_ends(now, false, sink);
    }

    /// Finds out whose the circuits are, and takes packets where the servers are.
    fn find_ends(&mut self, now: u64, at_once: bool, sink: &mut dyn Sink) {
        if !self.options.puts {
            return;
        }
        if let Some((served, places)) = self.ends.step(now, at_once, &mut self.events) {
            self.hand_over(sink);
            self.decoder.set_served(now, served, &mut self.events);
            if places != self.places {
                self.places = places;
                self.local_clients.all_are_due();
            }
            self.capture_places(now);
            self.hand_over(sink);
        } else if self.captures.as_ref().is_some_and(|captures| !captures.settled()) {
            self.capture_places(now);
        }
    }

    fn capture_places(&mut self, now: u64) {
        let said = self.captures.as_mut().map(|captures| captures.follow(now, &self.places.wanted));
        self.said.extend(said.into_iter().flatten());
        if let Some(captures) = &self.captures {
            self.decoder.set_captured(&captures.namespaces());
        }
    }

    /// Hands the decoder's events to the sink, but for puts to PVs that are not wanted.
    fn hand_over(&mut self, sink: &mut dyn Sink) {
        let (selection, unwanted) = (&self.options.selection, &mut self.unwanted);
        for event in self.events.drain(..) {
            self.local_clients.notice(&event);
            self.ends.notice(&event);
            match &event.fact {
                Fact::Channel(channel) if selection.pv(&channel.pv) => _ = unwanted.remove(&channel.id),
                Fact::Channel(channel) => _ = unwanted.insert(channel.id),
                Fact::ChannelEnd(channel) if unwanted.remove(channel) => continue,
                Fact::CaPut(put) if unwanted.contains(&put.channel) => continue,
                _ => {}
            }
            sink.push(event);
        }
    }

    /// Looks for processes that came and went.
    fn scan(&mut self, now: u64, sink: &mut dyn Sink, said: &mut Vec<String>) {
        // what an IOC did last comes before its end
        self.take_all(sink);
        let changed = self.with_desk(sink, said, |watched, desk| watched.scan(now, desk));
        let alive = self.names.sweep_threads();
        if let Some(kernel) = &mut self.kernel {
            kernel.maps.sweep(&alive);
        }
        self.adapt(now, changed, sink, said);
        // after a change, and once more when the log's thread has worked on what it brought
        let changed = changed | std::mem::take(&mut self.changed);
        if changed || self.changed_before {
            give_memory_back();
        }
        self.changed_before = changed;
    }

    /// Tells the programs, the filter and the decoder what has become known.
    fn adapt(&mut self, now: u64, changed: bool, sink: &mut dyn Sink, said: &mut Vec<String>) {
        if let Some(kernel) = &mut self.kernel {
            if let Some(new) = &mut self.names.new_records {
                // those of processes that are not traced yet wait
                new.retain(|record| !kernel.maps.record(record.pid, record.address, record.wanted));
                new.shrink_to_fit();
            }
            let unknown = kernel.maps.unknown();
            if unknown > 0 {
                said.push(format!(
                    "{unknown} records are too many for the kernel to be told of: none of their chains is thinned"
                ));
            }
        }
        if self.options.puts {
            self.ends.set_places(self.watched.places(&self.options.ports));
            self.capture_places(now);
            if let Some(captures) = &self.captures {
                self.watched.note_captures(now, captures, sink, said);
            }
            said.append(&mut self.said);
        }
        if changed {
            self.watched.seed(&mut self.decoder, now, &self.names, &mut self.events);
            self.hand_over(sink);
        }
    }

    /// Changes how many chains are kept, if it is time to.
    fn thin(&mut self, now: u64, sink: &mut dyn Sink, said: &mut Vec<String>) {
        let Some(kernel) = &mut self.kernel else { return };
        let Some(Change { thinning, cause, aloud }) = self.thinner.step(now, sink.written()) else { return };
        if let Err(reason) = kernel.maps.thin(thinning) {
            said.push(format!("chains could not be thinned: {reason}"));
            return;
        }
        if aloud {
            said.push(format!("{}: {cause}", in_words(thinning)));
        }
        let (chains, window) = thinning.map_or((0, 0), |thinning| (thinning.chains, thinning.window));
        sink.push(Event { time: now, fact: Fact::ChainSampling(ChainSampling { chains, window, cause }) });
    }

    fn note_clock(&mut self, now: u64, sink: &mut dyn Sink) {
        self.wall_offset = clock::wall_offset();
        sink.push(Event {
            time: now,
            fact: Fact::Clock(Clock { wall: self.wall_offset.saturating_add_unsigned(now) }),
        });
    }

    fn note_losses(&mut self, now: u64, sink: &mut dyn Sink) {
        let hits = self.kernel.as_mut().map(|kernel| kernel.transport.lost()).unwrap_or_default();
        let packets = self.captures.as_mut().map_or(0, Captures::losses);
        // not a beat ago: a recorder that was stopped has lost since it last looked
        let since = std::mem::replace(&mut self.counted, now);
        for (source, count, cause) in [
            (LossSource::Hits, hits.processing, "the buffer between kernel and recorder was full"),
            (LossSource::Hits, hits.puts, "the puts' buffer between kernel and recorder was full"),
            (LossSource::Packets, packets, "the packet ring was full"),
        ] {
            if count > 0 {
                let loss = Loss { source, count, since, cause: cause.into() };
                sink.push(Event { time: now, fact: Fact::Loss(loss) });
            }
        }
    }
}

/// Symbol tables were read, megabytes for some programs: glibc would keep that memory.
fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// A line for the user where the tier is lower than asked for; a reason that two tiers share is given once.
fn lower_tier(wish: TierRequest, choice: &TierChoice) -> Option<String> {
    let mut reasons: Vec<(String, &str)> = Vec::new();
    for (tier, reason) in &choice.refused {
        match reasons.last_mut() {
            Some((names, same)) if same == reason => *names = format!("{names} and {}", name_of(*tier)),
            _ => reasons.push((name_of(*tier).into(), reason)),
        }
    }
    let reasons: Vec<String> = reasons.iter().map(|(names, reason)| format!("{names}: {reason}")).collect();
    (!reasons.is_empty() && wish != TierRequest::Only(choice.tier)).then(|| {
        format!("recording on the {} tier; refused were {}", name_of(choice.tier), reasons.join("; "))
    })
}

/// A tier's name on the command line and for people.
pub fn name_of(tier: Tier) -> &'static str {
    match tier {
        Tier::Ring => "ring",
        Tier::Perf => "perf",
        Tier::Packet => "packet",
    }
}

/// This machine.
///
/// # Errors
/// uname(2) fails: not on Linux.
pub fn host() -> Result<Host, String> {
    let names = uname().map_err(|e| format!("uname: {e}"))?;
    let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    Ok(Host {
        name: text(names.nodename()),
        kernel: text(names.release()),
        arch: text(names.machine()),
        boot_id: boot_id.trim().into(),
        recorder: env!("CARGO_PKG_VERSION").into(),
        utc_offset: clock::utc_offset(),
    })
}
