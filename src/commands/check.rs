//! `iocrec check`: what this machine allows, and the IOCs that are found on it. Changes nothing.

use std::time::{Duration, Instant};

use iocrec_log::event::{Host, Linkage, Tier, TierChoice};

use crate::bpf;
use crate::bpf::maps::LeavesOut;
use crate::ca::servers;
use crate::ioc::{ports, records, redact, Finder, IocProcess};
use crate::json::{array, string};
use crate::linux::process;
use crate::linux::reader::{self, budget, Inspection};
use crate::linux::user::{self, Users};
use crate::net::capture::Capture;
use crate::net::captures;
use crate::net::service::Ports;
use crate::probes::catalog::CATALOG;
use crate::probes::not_probed::NotProbed;
use crate::probes::place::Cost;
use crate::probes::probe;
use crate::probes::tiers::{self, TierRequest};
use crate::recorder::{host, name_of, not_captured};
use crate::terminal;

/// All that is found out.
struct Report {
    host: Host,
    tier: TierChoice,
    /// Why packets cannot be captured.
    no_packets: Option<String>,
    iocs: Vec<IocLine>,
    refused: Vec<Refused>,
}

/// A process that looks like an IOC and is not recorded.
struct Refused {
    pid: u32,
    /// Its command line.
    command: String,
    user: String,
    reason: String,
}

impl Refused {
    fn new(pid: u32, reason: String) -> Refused {
        let command = redact::command(&process::command(pid)).join(" ");
        Refused { pid, command, user: user::user(pid), reason }
    }

    /// One that does not answer: only what the kernel tells of it without its help.
    fn unanswered(pid: u32, why: budget::Refused) -> Refused {
        let user = process::user_id(pid).map(|user| user.to_string()).unwrap_or_default();
        Refused { pid, command: process::thread_name(pid, pid), user, reason: why.to_string() }
    }
}

/// What is found of an IOC.
struct IocLine {
    pid: u32,
    name: String,
    base_version: String,
    linkage: Linkage,
    ca_ports: Vec<u16>,
    pva_ports: Vec<u16>,
    user: String,
    /// Record types and records, or why they are not known.
    known: Result<(usize, usize), String>,
    /// What of the records could not be read.
    unread: Option<String>,
    probes: Vec<String>,
    /// Of processing only the entry of records' process routines is seen.
    by_routines: bool,
    left_out: Vec<NotProbed>,
    /// Why the packets of its network namespace cannot be captured, if it has another one than this program.
    no_packets: Option<String>,
}

/// Prints the report.
///
/// # Errors
/// This machine cannot be looked at; the reason in words.
pub fn run(json: bool, users: &Users) -> Result<(), String> {
    let report = look(users)?;
    let text = if json { report.json() } else { report.text() };
    terminal::print(&text);
    Ok(())
}

fn look(users: &Users) -> Result<Report, String> {
    reader::use_reader_process();
    bpf::raise_limits();
    let (_, tier) = tiers::open(TierRequest::Auto, LeavesOut::default());
    let no_packets = Capture::open(&["any".into()], &Ports::default()).err().map(|error| error.to_string());
    let mut finder = Finder::default();
    let pids = process::pids().map_err(|error| error.to_string())?;
    let others = pids.into_iter().filter(|&pid| pid != std::process::id());
    // those that ended meanwhile or are hidden from us are no concern
    let mut found: Vec<IocProcess> = Vec::new();
    let mut refused = Vec::new();
    let mut wasted = Duration::ZERO;
    for pid in others {
        let begin = Instant::now();
        finder.allow_constants();
        let look = (wasted < ALL_TIME).then(|| Inspection::begin(pid, LOOK_BYTES, LOOK_TIME));
        let ioc = look.as_ref().map(|_| finder.look(pid));
        if let Some(why) = look.map_or(Some(budget::Refused::TooManyStuck), Inspection::end) {
            wasted += begin.elapsed();
            refused.push(Refused::unanswered(pid, why));
            continue;
        }
        match ioc {
            Some(Ok(Some(ioc))) if users.have(pid) => found.push(ioc),
            Some(Ok(Some(_))) => refused.push(aside(pid, || Refused::new(pid, NOT_THEIRS.into()))),
            _ => {
                let why = finder.why_refused(pid);
                refused.extend(why.map(|reason| aside(pid, || Refused::new(pid, reason.to_string()))));
            }
        }
    }
    let is_ioc = |pid| found.iter().any(|ioc: &IocProcess| ioc.pid == pid);
    let mut servers = aside(0, || servers::find(&is_ioc).unwrap_or_default());
    servers.retain(|server| {
        let known = found.iter().any(|ioc| ioc.pid == server.pid);
        let said = refused.iter().any(|other: &Refused| other.pid == server.pid);
        let wanted = known || users.have(server.pid);
        if !wanted && !said {
            refused.push(Refused::new(server.pid, NOT_THEIRS.into()));
        }
        wanted
    });
    let server = |pid| servers.iter().find(|server| server.pid == pid);
    let ports =
        |ioc: &IocProcess| server(ioc.pid).map(|server| aside(ioc.pid, || ports::divide(ioc, server)));
    let line = |ioc: &IocProcess| aside(ioc.pid, || IocLine::new(ioc, ports(ioc).unwrap_or_default()));
    let mut iocs: Vec<IocLine> = found.iter().map(line).collect();
    if no_packets.is_none() {
        let here = process::namespace(std::process::id());
        for line in iocs.iter_mut().filter(|line| process::namespace(line.pid) != here) {
            line.no_packets = captures::try_in(line.pid).err().map(|error| error.to_string());
        }
    }
    if tier.tier == Tier::Packet {
        iocs.iter_mut().for_each(IocLine::without_probes);
    }
    // nor those that ended while they were looked at
    iocs.retain(|line| {
        found.iter().any(|ioc| ioc.pid == line.pid && process::start(ioc.pid) == Some(ioc.start))
    });
    let foreign = servers.into_iter().filter(|server| found.iter().all(|ioc| ioc.pid != server.pid));
    iocs.extend(foreign.map(|server| IocLine {
        pid: server.pid,
        name: aside(server.pid, || redact::command(&process::command(server.pid)).join(" ")),
        base_version: String::new(),
        linkage: Linkage::Foreign,
        ca_ports: server.ports,
        pva_ports: Vec::new(),
        user: aside(server.pid, || user::user(server.pid)),
        known: Err("not EPICS Base: puts are taken from packets".into()),
        unread: None,
        probes: Vec::new(),
        by_routines: false,
        left_out: Vec::new(),
        no_packets: None,
    }));
    let host = host().map_err(|error| error.to_string())?;
    Ok(Report { host, tier, no_packets, iocs, refused })
}

/// Why a process is left out though it is an IOC or a server.
const NOT_THEIRS: &str = "it is of a user whom --user leaves out";

/// What a look at a process may cost, as the recorder's.
const LOOK_BYTES: u64 = 96 << 20;
const LOOK_TIME: Duration = Duration::from_secs(5);
/// And those at all that do not answer.
const ALL_TIME: Duration = Duration::from_secs(10);

/// Looks at a process within that; what is refused is missing.
fn aside<T>(pid: u32, look_at: impl FnOnce() -> T) -> T {
    let look = Inspection::begin(pid, LOOK_BYTES, LOOK_TIME);
    let found = look_at();
    let _ = look.end();
    found
}

impl IocLine {
    fn new(ioc: &IocProcess, (ca_ports, pva_ports): (Vec<u16>, Vec<u16>)) -> IocLine {
        let (mut probes, mut left_out) = (Vec::new(), Vec::new());
        let unprobed = ioc.unprobed();
        left_out.extend(unprobed.map(NotProbed::Process));
        let stripped = ioc.is_stripped();
        left_out.extend((stripped && unprobed.is_none()).then_some(NotProbed::Stripped));
        for spec in CATALOG.iter().filter(|_| unprobed.is_none() && !stripped) {
            match probe::target(ioc, spec) {
                Ok(target) if target.cost == Cost::Emulated => probes.push(target.symbol.to_string()),
                Ok(target) => probes.push(format!("{} (single-stepped: slow)", target.symbol)),
                Err(reason) => left_out.push(reason),
            }
        }
        let (routines, no_routines) =
            if unprobed.is_some() { Default::default() } else { probe::routines(ioc) };
        let slow = routines.iter().filter(|target| target.cost == Cost::Stepped).count();
        let of_them = if slow > 0 { format!(" ({slow} single-stepped: slow)") } else { String::new() };
        let named = format!("process routines of {} record types{of_them}", routines.len());
        probes.extend((!routines.is_empty()).then_some(named));
        left_out.extend(no_routines);
        let by_routines = !routines.is_empty();
        let mut unread = None;
        let known = ioc.layout.as_ref().map(|layout| {
            let mut count = 0;
            let walked =
                records::walk(&ioc.memory, layout, &mut |record| count += usize::from(!record.alias));
            unread = walked.err().map(|error| error.to_string());
            (layout.types.len(), count)
        });
        IocLine {
            pid: ioc.pid,
            name: ioc.name.clone(),
            base_version: ioc.base_version.clone(),
            linkage: ioc.linkage,
            ca_ports,
            pva_ports,
            user: user::user(ioc.pid),
            known: known.map_err(ToString::to_string),
            unread,
            probes,
            by_routines,
            left_out,
            no_packets: None,
        }
    }
}

impl IocLine {
    /// Where the tier has no probes it does not matter which there could be.
    fn without_probes(&mut self) {
        self.probes.clear();
        self.by_routines = false;
        self.left_out = vec![NotProbed::PacketTier];
    }

    /// What of it would be recorded, in words.
    fn recorded(&self, packets: bool) -> String {
        let packets = packets && self.no_packets.is_none();
        let hits = self.known.is_ok() && !self.probes.is_empty();
        let mut what = Vec::new();
        let puts = self.probes.iter().any(|probe| probe.starts_with("dbPut"));
        what.extend((hits && puts && !self.by_routines).then_some("puts and processing inside the IOC"));
        what.extend((hits && puts && self.by_routines).then_some("puts inside the IOC"));
        what.extend((hits && self.by_routines).then_some("which records begin to process"));
        what.extend((packets && !self.ca_ports.is_empty()).then_some("puts by packets"));
        if what.is_empty() {
            what.push("nothing but that it is there");
        }
        what.join(", ")
    }
}

fn linkage_name(linkage: Linkage) -> &'static str {
    match linkage {
        Linkage::Shared => "shared",
        Linkage::Static => "static",
        Linkage::Foreign => "foreign",
    }
}

impl Report {
    fn text(&self) -> String {
        let mut text = terminal::page();
        let mut line = |line: std::fmt::Arguments| terminal::add(&mut text, line);
        let host = &self.host;
        line(format_args!("iocrec {} on {}, Linux {} {}", host.recorder, host.name, host.kernel, host.arch));
        line(format_args!("tier     {}", name_of(self.tier.tier)));
        for (tier, reason) in &self.tier.refused {
            line(format_args!("         not {}: {reason}", name_of(*tier)));
        }
        match &self.no_packets {
            None => line(format_args!("packets  yes")),
            Some(reason) => line(format_args!("packets  no: {reason}")),
        }
        if self.iocs.is_empty() {
            line(format_args!("IOCs     none is running (or none can be seen: run as root)"));
        }
        for ioc in &self.iocs {
            let ports: Vec<String> = ioc.ca_ports.iter().map(ToString::to_string).collect();
            let version = match (ioc.linkage, ioc.base_version.as_str()) {
                (Linkage::Foreign, _) => "no EPICS Base",
                (_, "") => "EPICS Base, version not known",
                (_, version) => &format!("EPICS Base {version}"),
            };
            line(format_args!(
                "IOC      {}: pid {}, {version}, {}, CA port {}",
                ioc.name,
                ioc.pid,
                linkage_name(ioc.linkage),
                if ports.is_empty() { "none".into() } else { ports.join(" ") }
            ));
            for port in &ioc.pva_ports {
                line(format_args!("         PV Access port {port}"));
            }
            line(format_args!("         user: {}", ioc.user));
            match &ioc.known {
                Ok((types, records)) => {
                    line(format_args!("         records: {records} of {types} types, with values"));
                }
                Err(reason) => line(format_args!("         records: none: {reason}")),
            }
            if let Some(reason) = &ioc.unread {
                line(format_args!("         records: named when they are first seen: {reason}"));
            }
            line(format_args!("         recorded: {}", ioc.recorded(self.no_packets.is_none())));
            if !ioc.probes.is_empty() {
                line(format_args!("         probes: {}", ioc.probes.join(" ")));
            }
            if let Some(reason) = &ioc.no_packets {
                line(format_args!("         no packets: {}", not_captured(reason)));
            }
            for reason in &ioc.left_out {
                line(format_args!("         not probed: {reason}"));
            }
        }
        for Refused { pid, command, user, reason } in &self.refused {
            line(format_args!("refused  pid {pid} of {user} ({command}): {reason}"));
        }
        text.into_text()
    }

    fn json(&self) -> String {
        let host = &self.host;
        let refused = self.tier.refused.iter().map(|(tier, reason)| {
            format!("{{\"tier\":{},\"reason\":{}}}", string(name_of(*tier)), string(reason))
        });
        let iocs = self.iocs.iter().map(|ioc| {
            let (types, records, reason) = match &ioc.known {
                Ok((types, records)) => (types.to_string(), records.to_string(), ioc.unread.as_deref()),
                Err(reason) => ("null".into(), "null".into(), Some(reason.as_str())),
            };
            let reason = reason.map_or("null".into(), string);
            let recorded = string(&ioc.recorded(self.no_packets.is_none()));
            format!(
                "{{\"pid\":{},\"name\":{},\"base_version\":{},\"linkage\":{},\"ca_ports\":{},\"pva_ports\":{},\
                 \"user\":{},\"record_types\":{types},\"records\":{records},\"no_records\":{reason},\
                 \"recorded\":{recorded},\"probes\":{},\"not_probed\":{},\"no_packets\":{}}}",
                ioc.pid,
                string(&ioc.name),
                string(&ioc.base_version),
                string(linkage_name(ioc.linkage)),
                array(ioc.ca_ports.iter().map(ToString::to_string)),
                array(ioc.pva_ports.iter().map(ToString::to_string)),
                string(&ioc.user),
                array(ioc.probes.iter().map(|probe| string(probe))),
                array(ioc.left_out.iter().map(|reason| string(&reason.to_string()))),
                ioc.no_packets.as_ref().map_or("null".into(), |reason| string(reason)),
            )
        });
        let not_recorded = self.refused.iter().map(|Refused { pid, command, user, reason }| {
            let [command, user, reason] = [command, user, reason].map(|text| string(text));
            format!("{{\"pid\":{pid},\"command\":{command},\"user\":{user},\"reason\":{reason}}}")
        });
        format!(
            "{{\"recorder\":{},\"host\":{},\"kernel\":{},\"arch\":{},\"tier\":{},\"refused\":{},\
             \"packets\":{},\"no_packets\":{},\"iocs\":{},\"not_recorded\":{}}}\n",
            string(&host.recorder),
            string(&host.name),
            string(&host.kernel),
            string(&host.arch),
            string(name_of(self.tier.tier)),
            array(refused),
            self.no_packets.is_none(),
            self.no_packets.as_ref().map_or("null".into(), |reason| string(reason)),
            array(iocs),
            array(not_recorded),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_json_whatever_the_names() {
        let odd = "a\"b\\c\n\u{1}é";
        let ioc = IocLine {
            pid: 1,
            name: odd.into(),
            base_version: "7.0.10".into(),
            linkage: Linkage::Shared,
            ca_ports: vec![5064, 5070],
            pva_ports: vec![5075],
            user: odd.into(),
            known: Ok((3, 5)),
            unread: Some(odd.into()),
            probes: vec!["dbPut".into()],
            by_routines: false,
            left_out: vec![],
            no_packets: Some(odd.into()),
        };
        let host = Host {
            name: odd.into(),
            kernel: "6".into(),
            arch: "x".into(),
            boot_id: String::new(),
            recorder: "0".into(),
            utc_offset: 0,
        };
        let tier = TierChoice { tier: iocrec_log::event::Tier::Packet, refused: vec![] };
        let refused = Refused { pid: 7, command: odd.into(), user: odd.into(), reason: odd.into() };
        let report =
            Report { host, tier, no_packets: Some(odd.into()), iocs: vec![ioc], refused: vec![refused] };
        let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(json["host"], odd);
        assert_eq!(json["not_recorded"][0]["reason"], odd);
        assert_eq!(json["not_recorded"][0]["pid"], 7);
        assert_eq!(json["iocs"][0]["name"], odd);
        assert_eq!(json["iocs"][0]["no_packets"], odd);
        assert_eq!(json["iocs"][0]["records"], 5);
        assert_eq!(json["iocs"][0]["no_records"], odd);
        assert_eq!(json["iocs"][0]["ca_ports"], serde_json::json!([5064, 5070]));
        assert_eq!(json["iocs"][0]["pva_ports"], serde_json::json!([5075]));
        assert!(report.text().contains("not probed") || report.text().contains("CA port 5064 5070"));
    }
}
