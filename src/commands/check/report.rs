//! The report of `iocrec check`, as text and as JSON.

use std::fmt::Display;

use iocrec_log::event::Linkage;

use super::finding::{Found, NotRecorded, Records};
use crate::json::{array, string};
use crate::linux::privileges::{may_read_others, TO_READ_OTHERS};
use crate::net::capture::Filtering;
use crate::recorder::{name_of, not_captured};
use crate::terminal;

fn linkage_name(linkage: Linkage) -> &'static str {
    match linkage {
        Linkage::Shared => "shared",
        Linkage::Static => "static",
        Linkage::Foreign => "foreign",
    }
}

/// A value's text as a JSON string.
fn shown(value: impl Display) -> String {
    string(&value.to_string())
}

fn or_null(value: Option<impl Display>) -> String {
    value.map_or("null".into(), shown)
}

/// The report as text.
pub fn text(found: &Found) -> String {
    let mut text = terminal::page();
    let mut line = |line: std::fmt::Arguments| terminal::add(&mut text, line);
    let host = &found.host;
    line(format_args!("iocrec {} on {}, Linux {} {}", host.recorder, host.name, host.kernel, host.arch));
    line(format_args!("tier     {}", name_of(found.tier.tier)));
    for (tier, reason) in &found.tier.refused {
        line(format_args!("         not {}: {reason}", name_of(*tier)));
    }
    match &found.no_packets {
        None => line(format_args!("packets  yes")),
        Some(reason) => line(format_args!("packets  no: {reason}")),
    }
    if let Some(reason) = &found.no_filter {
        line(format_args!("         {}: {reason}", Filtering::REFUSED));
    }
    if let Some(reason) = &found.no_connects {
        line(format_args!("         clients that end within milliseconds stay without a pid: {reason}"));
    }
    for reason in &found.no_deaths {
        line(format_args!("deaths   {reason}"));
    }
    if let Some(reason) = found.no_resources {
        line(format_args!("resources {reason}"));
    }
    if found.iocs.is_empty() {
        let none = match found.not_recorded.as_slice() {
            [] if may_read_others() => "none is running (or none can be seen)",
            [] => "none was found; those of others can't be: ",
            _ => "none that would be recorded",
        };
        let remedy = if none.ends_with(' ') { TO_READ_OTHERS } else { "" };
        line(format_args!("IOCs     {none}{remedy}"));
    }
    for ioc in &found.iocs {
        let ports: Vec<String> = ioc.ca_ports.iter().map(ToString::to_string).collect();
        let version = match (ioc.linkage, ioc.base_version.as_str()) {
            (Linkage::Foreign, _) => "no EPICS Base found",
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
        match &ioc.records {
            Ok(Records { types, records, unread }) => {
                line(format_args!("         records: {records} of {types} types, with values"));
                if let Some(reason) = unread {
                    line(format_args!("         records: named when they are first seen: {reason}"));
                }
            }
            Err(reason) => line(format_args!("         records: none: {reason}")),
        }
        line(format_args!("         recorded: {}", ioc.recorded(found.no_packets.is_none())));
        if !ioc.probes.is_empty() {
            let probes: Vec<String> = ioc.probes.iter().map(ToString::to_string).collect();
            line(format_args!("         probes: {}", probes.join(" ")));
        }
        if let Some(reason) = &ioc.no_packets {
            line(format_args!("         no packets: {}", not_captured(&reason.to_string())));
        }
        for reason in &ioc.not_probed {
            line(format_args!("         not probed: {reason}"));
        }
    }
    for NotRecorded { pid, command, user, reason } in &found.not_recorded {
        line(format_args!("refused  pid {pid} of {user} ({command}): {reason}"));
    }
    text.into_text()
}

/// The report as JSON. Its keys never change.
pub fn json(found: &Found) -> String {
    let host = &found.host;
    let refused = found.tier.refused.iter().map(|(tier, reason)| {
        format!("{{\"tier\":{},\"reason\":{}}}", string(name_of(*tier)), string(reason))
    });
    let iocs = found.iocs.iter().map(|ioc| {
        let (types, records, reason) = match &ioc.records {
            Ok(Records { types, records, unread }) => {
                (types.to_string(), records.to_string(), or_null(unread.as_ref()))
            }
            Err(reason) => ("null".into(), "null".into(), or_null(Some(reason))),
        };
        let recorded = string(&ioc.recorded(found.no_packets.is_none()));
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
            array(ioc.probes.iter().map(shown)),
            array(ioc.not_probed.iter().map(shown)),
            or_null(ioc.no_packets.as_ref()),
        )
    });
    let not_recorded = found.not_recorded.iter().map(|NotRecorded { pid, command, user, reason }| {
        let (command, user, reason) = (string(command), string(user), shown(reason));
        format!("{{\"pid\":{pid},\"command\":{command},\"user\":{user},\"reason\":{reason}}}")
    });
    format!(
        "{{\"recorder\":{},\"host\":{},\"kernel\":{},\"arch\":{},\"tier\":{},\"refused\":{},\
             \"packets\":{},\"no_packets\":{},\"no_filter\":{},\"no_connects\":{},\"no_deaths\":{},\"no_resources\":{},\"iocs\":{},\"not_recorded\":{}}}\n",
        string(&host.recorder),
        string(&host.name),
        string(&host.kernel),
        string(&host.arch),
        string(name_of(found.tier.tier)),
        array(refused),
        found.no_packets.is_none(),
        or_null(found.no_packets.as_ref()),
        or_null(found.no_filter.as_ref()),
        or_null(found.no_connects.as_ref()),
        array(found.no_deaths.iter().map(shown)),
        or_null(found.no_resources.as_ref()),
        array(iocs),
        array(not_recorded),
    )
}

#[cfg(test)]
mod tests {
    use iocrec_log::event::{Host, Tier, TierChoice};

    use super::super::finding::{FoundIoc, Probe, Reason};
    use super::*;
    use crate::ioc::functions::Function;
    use crate::ioc::records::{ListFault, WalkError};
    use crate::net::capture::CaptureError;
    use crate::net::captures::NamespaceError;

    #[test]
    fn json_is_json_whatever_the_names() {
        let odd = "a\"b\\c\n\u{1}é";
        let unread = WalkError { rtype: odd.into(), fault: ListFault::Circle };
        let function = Function::DbPut;
        let ioc = FoundIoc {
            pid: 1,
            name: odd.into(),
            base_version: "7.0.10".into(),
            linkage: Linkage::Shared,
            ca_ports: vec![5064, 5070],
            pva_ports: vec![5075],
            user: odd.into(),
            records: Ok(Records { types: 3, records: 5, unread: Some(unread.clone()) }),
            probes: vec![Probe::Function { function, symbol: "dbPut", slow: false }],
            not_probed: vec![],
            no_packets: Some(NamespaceError::NoThread),
        };
        let host = Host {
            name: odd.into(),
            kernel: "6".into(),
            arch: "x".into(),
            boot_id: String::new(),
            recorder: "0".into(),
            utc_offset: 0,
        };
        let reason = Reason::NoIoc(odd.into());
        let found = Found {
            host,
            tier: TierChoice { tier: Tier::Packet, refused: vec![] },
            no_packets: Some(CaptureError::NotAllowed),
            no_filter: Some("bpf(): not permitted".into()),
            no_connects: Some(odd.into()),
            no_deaths: vec![odd.into()],
            no_resources: Some("no schedstat"),
            iocs: vec![ioc],
            not_recorded: vec![NotRecorded { pid: 7, command: odd.into(), user: odd.into(), reason }],
        };
        let report: serde_json::Value = serde_json::from_str(&json(&found)).unwrap();
        assert_eq!(report["host"], odd);
        assert_eq!(report["no_packets"], CaptureError::NotAllowed.to_string());
        assert_eq!(report["no_filter"], "bpf(): not permitted");
        assert_eq!(report["no_connects"], odd);
        assert_eq!(report["no_deaths"][0], odd);
        assert_eq!(report["no_resources"], "no schedstat");
        assert_eq!(report["not_recorded"][0]["reason"], odd);
        assert_eq!(report["not_recorded"][0]["pid"], 7);
        assert_eq!(report["iocs"][0]["name"], odd);
        assert_eq!(report["iocs"][0]["no_packets"], NamespaceError::NoThread.to_string());
        assert_eq!(report["iocs"][0]["records"], 5);
        assert_eq!(report["iocs"][0]["no_records"], unread.to_string());
        assert_eq!(report["iocs"][0]["probes"], serde_json::json!(["dbPut"]));
        assert_eq!(report["iocs"][0]["ca_ports"], serde_json::json!([5064, 5070]));
        assert_eq!(report["iocs"][0]["pva_ports"], serde_json::json!([5075]));
        assert!(text(&found).contains("CA port 5064 5070"));
        crate::json::assert_documented("check", &report);
    }
}
