//! Looks at this machine and its processes for `iocrec check`.

use std::time::{Duration, Instant};

use iocrec_log::event::{Linkage, Tier};

use super::finding::{Found, FoundIoc, NoRecords, NotRecorded, Probe, Reason, Records};
use crate::bpf::maps::LeavesOut;
use crate::bpf::transport::Room;
use crate::ca::servers::{self, Server};
use crate::commands::recording;
use crate::deaths::Deaths;
use crate::failure::Failure;
use crate::health;
use crate::ioc::ports::{self, Divided};
use crate::ioc::{records, redact, Finder, IocProcess};
use crate::linux::chosen::Chosen;
use crate::linux::ending::Ends;
use crate::linux::process;
use crate::linux::reader::{self, budget, Inspection};
use crate::linux::user;
use crate::net::capture::{Capture, Filtering, BLOCKS};
use crate::net::captures;
use crate::net::service::Ports;
use crate::probes::catalog::Wanted;
use crate::probes::not_probed::NotProbed;
use crate::probes::place::Cost;
use crate::probes::probe;
use crate::probes::tiers::{self, TierRequest};
use crate::recorder::host;
use crate::recorder::host::deaths_lack;

/// Bytes to read of a process at most, as in the inspector.
const LOOK_BYTES: u64 = 96 << 20;
const LOOK_TIME: Duration = Duration::from_secs(5);
/// Time limit for all processes that do not answer together.
const UNANSWERED_TIME: Duration = Duration::from_secs(10);
/// Time for those together that are late, as a slow or busy machine makes them: some minutes of the recorder's tries.
const LATE_TIME: Duration = Duration::from_secs(60);

/// Surveys this machine. Processes other than these count as not recorded.
pub fn machine(chosen: &Chosen) -> Result<Found, Failure> {
    reader::use_reader_process();
    recording::raise_limits();
    let ends = Ends::open();
    let (_, tier) = tiers::open(TierRequest::Auto, LeavesOut::default(), Room::default());
    let (deaths, lacks) = Deaths::open(TierRequest::Auto.tiers());
    let (lines, refused) = deaths_lack(TierRequest::Auto, &tier, deaths.is_some(), &lacks);
    let mut no_deaths = if deaths.is_some() { lines } else { Vec::from_iter(refused) };
    no_deaths.extend(matches!(ends, Ends::Untold(_)).then(|| ends.to_string()));
    drop(deaths);
    let filtering = Filtering::of(tier.tier);
    let mut opened = Capture::with(&[], &Ports::default(), filtering, BLOCKS, Duration::ZERO);
    if let Ok(capture) = &mut opened {
        capture.settle();
    }
    let no_filter = opened.as_ref().ok().and_then(|capture| capture.refused().map(ToString::to_string));
    let no_connects = opened.as_ref().ok().and_then(|capture| capture.no_connects().map(ToString::to_string));
    let no_packets = opened.err();
    let (found, mut not_recorded) = find(chosen)?;
    let is_ioc = |pid| found.iter().any(|ioc: &IocProcess| ioc.pid == pid);
    let mut servers = look(0, || servers::find(&is_ioc, &[], &[]).unwrap_or_default());
    servers.retain(|server| {
        if is_ioc(server.pid) {
            return true;
        }
        let other = not_recorded.iter().find(|other| other.pid == server.pid);
        // whether one that does not answer is an IOC is not known; one that was forked from an IOC has its sockets
        if other.is_some_and(|other| matches!(other.reason, Reason::Unanswered(_) | Reason::Copy(_))) {
            return false;
        }
        let is_said = other.is_some();
        let Some(why) = chosen.why_not(server.pid) else { return true };
        if !is_said {
            not_recorded.push(NotRecorded::new(server.pid, Reason::NotChosen(why)));
        }
        false
    });
    let mut iocs: Vec<FoundIoc> = found
        .iter()
        .map(|ioc| {
            let server = servers.iter().find(|server| server.pid == ioc.pid);
            let ports = server.map(|server| look(ioc.pid, || ports::divide(ioc, server, &[])));
            look(ioc.pid, || describe(ioc, ports.unwrap_or_default()))
        })
        .collect();
    if no_packets.is_none() {
        let here = process::namespace(std::process::id());
        for ioc in iocs.iter_mut().filter(|ioc| process::namespace(ioc.pid) != here) {
            ioc.no_packets = captures::try_in(ioc.pid).err();
        }
    }
    if tier.tier == Tier::Packet {
        iocs.iter_mut().for_each(FoundIoc::remove_probes);
    }
    // ignore those that have ended meanwhile
    let lives = |ioc: &IocProcess| process::start(ioc.pid) == Some(ioc.start);
    iocs.retain(|line| found.iter().any(|ioc| ioc.pid == line.pid && lives(ioc)));
    iocs.extend(servers.into_iter().filter(|server| !is_ioc(server.pid)).map(foreign));
    let no_resources = health::lacks();
    Ok(Found {
        host: host()?,
        tier,
        no_deaths,
        no_resources,
        no_packets,
        no_filter,
        no_connects,
        iocs,
        not_recorded,
    })
}

/// The IOCs among these processes, and processes that look like IOCs and are not recorded. Processes that ended meanwhile, or
/// that this user may not see, are in neither.
fn find(chosen: &Chosen) -> Result<(Vec<IocProcess>, Vec<NotRecorded>), Failure> {
    let (mut found, mut not_recorded) = (Vec::new(), Vec::new());
    let mut finder = Finder::default();
    let (mut unanswered, mut late) = (Duration::ZERO, LATE_TIME);
    for pid in process::pids()?.into_iter().filter(|&pid| pid != std::process::id()) {
        finder.allow_constants();
        let mut inspect = |time| {
            let inspection = Inspection::begin(pid, LOOK_BYTES, time);
            let ioc = finder.look(pid);
            inspection.end().map_or(Ok(ioc), Err)
        };
        let begin = Instant::now();
        let mut ioc = match unanswered < UNANSWERED_TIME {
            true => inspect(LOOK_TIME),
            false => Err(budget::Refused::TooManyStuck),
        };
        if matches!(ioc, Err(budget::Refused::Time)) && !late.is_zero() {
            let begin = Instant::now();
            ioc = inspect(late);
            late = late.saturating_sub(begin.elapsed());
        }
        let ioc = match ioc {
            Ok(ioc) => ioc,
            Err(why) => {
                unanswered += begin.elapsed();
                not_recorded.push(NotRecorded::unanswered(pid, why));
                continue;
            }
        };
        let reason = match ioc {
            Ok(Some(ioc)) => {
                let why_not = chosen.why_not(pid);
                if why_not.is_none() {
                    found.push(ioc);
                }
                why_not.map(Reason::NotChosen)
            }
            // one that has ended, or is ending, has nothing mapped any more
            _ => finder.why_refused(pid).filter(|_| has_code(pid)).map(Reason::from),
        };
        not_recorded.extend(reason.map(|reason| look(pid, || NotRecorded::new(pid, reason))));
    }
    Ok((found, not_recorded))
}

/// Whether a process has code mapped.
fn has_code(pid: u32) -> bool {
    look(pid, || process::mappings(pid)).is_ok_and(|all| all.iter().any(|mapping| mapping.executable))
}

/// Inspects a process within the limits. Anything that they refuse is missing from the result.
fn look<T>(pid: u32, work: impl FnOnce() -> T) -> T {
    let inspection = Inspection::begin(pid, LOOK_BYTES, LOOK_TIME);
    let found = work();
    let _ = inspection.end();
    found
}

fn describe(ioc: &IocProcess, (ca_ports, mut pva_ports, is_guess): Divided) -> FoundIoc {
    if is_guess {
        // only packets could show it
        pva_ports.clear();
    }
    let (probes, not_probed) = probes(ioc);
    let records = ioc.layout.as_ref().map_err(|error| NoRecords::Layout(error.clone())).map(|layout| {
        let mut records = 0;
        let walked = records::walk(&ioc.memory, layout, &mut |record| records += usize::from(!record.alias));
        Records { types: layout.types.len(), records, unread: walked.err() }
    });
    FoundIoc {
        pid: ioc.pid,
        name: ioc.name.clone(),
        base_version: ioc.base_version.clone(),
        linkage: ioc.linkage,
        ca_ports,
        pva_ports,
        user: user::user(ioc.pid),
        records,
        probes,
        not_probed,
        no_packets: None,
    }
}

/// The probes that an IOC would get, and the functions that would not be probed.
fn probes(ioc: &IocProcess) -> (Vec<Probe>, Vec<NotProbed>) {
    if let Some(reason) = ioc.unprobed() {
        return (Vec::new(), vec![NotProbed::Process(reason)]);
    }
    let (mut probes, mut not_probed) = (Vec::new(), Vec::new());
    if ioc.is_stripped() {
        not_probed.push(probe::stripped(ioc));
    }
    let all = Wanted { puts: true, process: true, console: true };
    for spec in probe::planned(ioc, all) {
        for target in probe::targets(ioc, spec) {
            match target {
                Ok(target) => probes.push(Probe::Function {
                    function: spec.function,
                    symbol: target.symbol,
                    slow: target.cost == Cost::Stepped,
                }),
                Err(reason) => reason.note(&mut not_probed),
            }
        }
    }
    let (routines, no_routines) = probe::routines(ioc);
    if !routines.is_empty() {
        let slow = routines.iter().filter(|target| target.cost == Cost::Stepped).count();
        probes.push(Probe::Routines { types: routines.len(), slow });
    }
    not_probed.extend(no_routines);
    not_probed.extend(ioc.has_musl().then_some(NotProbed::Musl));
    (probes, not_probed)
}

/// A server that is not an IOC.
fn foreign(server: Server) -> FoundIoc {
    FoundIoc {
        pid: server.pid,
        name: look(server.pid, || redact::command(&process::command(server.pid)).join(" ")),
        base_version: String::new(),
        linkage: Linkage::Foreign,
        ca_ports: server.ports,
        pva_ports: Vec::new(),
        user: look(server.pid, || user::user(server.pid)),
        records: Err(NoRecords::NotBase),
        probes: Vec::new(),
        not_probed: Vec::new(),
        no_packets: None,
    }
}
