//! The recorder turns hits from the kernel and packets from the network into facts, and hands them to a sink.
//!
//! One thread, one loop (`run`): it asks the `sources` in turn. Other threads inspect processes and place probes
//! ([`crate::inspector`]), so the loop never waits for them. It waits only for short reads of an IOC's memory. IOCs may
//! start and end at any time; the log has every loss.
//!
//! The `registry` holds the traced processes, `circuits` the Channel Access circuits.

pub mod capture_clock;
pub mod chain_sampling;
mod circuits;
mod context;
mod env;
pub mod error;
mod heartbeat;
mod hits;
pub mod holding;
pub mod host;
mod last_records;
pub mod options;
mod processes;
pub mod reading;
mod registry;
pub mod report;
mod run;
pub mod selection;
mod senders;
pub mod shortfall;
pub mod sink;
pub mod sources;
pub mod store;
#[cfg(test)]
mod testing;
pub mod triggers;
mod value;

use iocrec_log::event::{Event, Fact};

use crate::bpf::maps::LeavesOut;
use crate::deaths::Deaths;
use crate::files::Files;
use crate::health;
use crate::linux::clock;
use crate::linux::ending::Ends;
use crate::linux::reader;
use crate::net::capture::{Capture, CaptureError, Filtering, BLOCKS};
use crate::net::captures::Captures;
use crate::net::service::Ports;
use crate::probes::kernel::Kernel;
use crate::probes::tiers;
use crate::recorder::chain_sampling::Sampler;
use crate::recorder::env::Machine;
use crate::recorder::env::Run;
use crate::recorder::error::StartError;
use crate::recorder::host::{deaths_lack, lower_tier};
use crate::recorder::processes::Processes;
use crate::recorder::run::Loop;
use crate::recorder::sink::Sink;
use crate::recorder::sources::channel_access::ChannelAccess;
use crate::recorder::sources::datagrams::Datagrams;
use crate::recorder::sources::health::Health;
use crate::recorder::sources::hits::Hits;
use crate::recorder::sources::readings::Readings;
use crate::recorder::sources::sampling::Sampling;
use crate::recorder::sources::server_threads::ServerThreads;
use crate::recorder::sources::snapshots::Snapshots;

pub use crate::recorder::host::{host, name_of};
pub use crate::recorder::options::Options;
pub use crate::recorder::shortfall::not_captured;

/// A recorder that has been set up.
pub struct Recorder(Loop);

impl Recorder {
    /// Loads the programs, opens the capture, finds the IOCs. `ends` tells how they end. Also returns lines for the user.
    ///
    /// # Errors
    /// Nothing can be recorded at all.
    pub fn new(
        options: Options,
        ends: Ends,
        sink: &mut dyn Sink,
    ) -> Result<(Recorder, Vec<String>), StartError> {
        if clock::is_set_apart() {
            return Err(StartError::TimeNamespace);
        }
        let mut messages = Vec::new();
        // before there is much memory for the reader to copy
        reader::use_reader_process();
        crate::probes::stale_events::remove();
        let sampler = Sampler::new(options.thin, options.retain);
        let leaves_out = LeavesOut { chains: sampler.leaves_out(), records: !options.selection.is_all() };
        let (kernel, choice) = tiers::open(options.tier, leaves_out, options.room);
        let mut no_packets = None;
        let filtering = Filtering::of(choice.tier);
        let patience = sink.patience();
        let open = || Capture::with(&options.interfaces, &Ports::default(), filtering, BLOCKS, patience);
        let mut captures = match options.puts.then(open).unwrap_or(Err(CaptureError::NoPacketSockets)) {
            _ if !options.puts => None,
            Ok(capture) => Some(Captures::new(capture, filtering)),
            Err(error @ CaptureError::NoSuchInterface { .. }) => return Err(StartError::Capture(error)),
            Err(error) => {
                no_packets = Some(error);
                None
            }
        };
        let (deaths, lacks) = Deaths::open(options.tier.tiers());
        if captures.is_none() && kernel.is_none() {
            let probes = choice.refused.last().map(|(_, reason)| reason.clone());
            return Err(StartError::NothingToRecord { packets: no_packets, probes });
        }
        messages.extend(lower_tier(options.tier, &choice));
        if kernel.is_none() && sampler.leaves_out() {
            messages.push("chains are not sampled: without probes there are none".into());
        }
        let no_packets = no_packets.map(|error| error.to_string());
        messages.extend(
            no_packets
                .iter()
                .map(|error| format!("no packets, puts are recorded inside the IOCs only: {error}")),
        );
        let (lines, no_deaths) = deaths_lack(options.tier, &choice, deaths.is_some(), &lacks);
        messages.extend(lines);
        if let Ends::Untold(_) = &ends {
            messages.push(ends.to_string());
        }
        if let Some(lack) = health::lacks().filter(|_| options.resources) {
            messages.push(lack.into());
        }
        let files = options.io.then(|| Files::open(options.tier.tiers()));
        if let Some(Err(lack)) = &files {
            messages.push(format!("of files and devices only each IOC's sums are recorded: {lack}"));
        }
        let machine = Machine::this();
        let now = machine.clock.monotonic();
        sink.push(Event { time: now, fact: Fact::from(host().map_err(StartError::Host)?) });
        let attacher = kernel.as_ref().map(Kernel::attacher);
        let processes = Processes::new(attacher.as_ref(), &options, now);
        let (maps, transport) = kernel.map(|Kernel { maps, transport, .. }| (maps, transport)).unzip();
        let new_records = leaves_out.any().then(Vec::new);
        let run = Run { no_deaths, no_packets, new_records, ..Run::default() };
        let (snapshots, resources) = (options.snapshots, options.resources);
        let datagrams = options.net.then(|| {
            Datagrams::new(&options.interfaces, captures.as_mut().and_then(Captures::take_datagrams))
        });
        let mut recorder = Loop::new(options, machine, maps, run);
        if let Ends::Connector(connector) = ends {
            recorder.listen(connector);
        }
        // in the order in which the loop asks them: see the module
        recorder.add(Sampling(sampler));
        // a process that was just found may be killed while the others adapt to it; its events wait for its hits anyway
        if let Some(deaths) = deaths {
            recorder.add(sources::deaths::Deaths::new(deaths));
        }
        recorder.add(ChannelAccess::new(captures));
        if let Some(datagrams) = datagrams {
            recorder.add(datagrams);
        }
        if let (Some(transport), Some(attacher)) = (transport, attacher) {
            recorder.add(Hits::new(transport, attacher));
        }
        recorder.add(Readings);
        if let Some(max_disk) = snapshots {
            recorder.add(Snapshots::new(max_disk));
        }
        recorder.add(ServerThreads);
        if resources {
            // before the processes, whose ends must come after their last facts
            recorder.add(Health::default());
        }
        if let Some(files) = files {
            recorder.add(sources::files::Files::new(files));
        }
        recorder.add(processes);
        recorder.note_clock(now, sink);
        sink.push(Event { time: now, fact: Fact::Tier(choice) });
        recorder.start(sink, &mut messages)?;
        Ok((Recorder(recorder), messages))
    }

    /// Records until a signal or the duration ends it. Lines for the user go to `say`.
    pub fn run(&mut self, sink: &mut dyn Sink, say: &mut dyn FnMut(&str)) {
        self.0.run(sink, say);
    }
}
