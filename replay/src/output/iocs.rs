//! The recorded IOCs: text for people, JSON lines for programs.

use crate::answers::attached::{Attached, Gap};
use crate::answers::inventory::Inventory;
use crate::answers::processes::Processes;
use crate::answers::values::RESTARTED;
use crate::filter::Filter;
use crate::names::linkage_name;
use crate::out::{line, Out};
use crate::output::crash::{self, CrashKeys};
use crate::output::rows::{csv_line, Shape};
use crate::pods::ContainerKeys;
use crate::reading::ended_unseen::UNSEEN;
use crate::shown_names::without_pid;
use crate::time::{Zone, SECOND};
use iocrec_log::event::{Ioc, IocId, Linkage};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;

/// An IOC, as JSON.
#[derive(Serialize)]
struct IocLine<'a> {
    host: Option<&'a str>,
    ioc: &'a str,
    pid: u32,
    started: Option<String>,
    ended: Option<String>,
    end: Option<&'a str>,
    user: Option<&'a str>,
    base_version: Option<&'a str>,
    linkage: &'a str,
    ca_ports: &'a [u16],
    pva_ports: &'a [u16],
    exe: &'a str,
    cwd: &'a str,
    command: &'a [String],
    environment: BTreeMap<&'a str, &'a str>,
    records: usize,
    not_probed: Vec<&'a str>,
    /// Whether it ended after this run of the recorder had.
    #[serde(skip)]
    outlived: bool,
    /// Times during which its hits were recorded.
    attached: Vec<Attached>,
    /// Times during which it ran unseen although a recorder ran.
    gaps: Vec<Gap>,
    /// Its last crash.
    crash: Option<CrashKeys>,
    /// Between these times it ended, if no recorder saw it; of one whose end is in a part that is missing the second.
    ended_after: Option<String>,
    ended_by: Option<String>,
    /// The container that it runs in, if it is known to run in one.
    container: Option<ContainerKeys>,
}

/// Writes the IOCs of a run that match; returns their number. `is_first`: none was written before. `processes` has those
/// of all runs, with the number of this one: another run may tell how one ended.
pub fn write(
    out: &mut Out,
    found: &Inventory,
    (run, processes): (usize, &Processes),
    filter: &Filter,
    shape: Shape,
    is_first: bool,
    zone: &Zone,
) -> io::Result<u64> {
    let mut records: BTreeMap<IocId, usize> = BTreeMap::new();
    for record in found.context().records() {
        *records.entry(record.ioc).or_default() += 1;
    }
    let mut count = 0;
    for ioc in found.iocs(filter) {
        count += 1;
        let line = ioc_line(found, (run, processes), ioc, records.get(&ioc.id).copied().unwrap_or(0), zone);
        match shape {
            Shape::Text => {
                let crash = found.context().crash(ioc.id);
                let crash = crash.map(|crash| crash::lines(found.context(), crash)).unwrap_or_default();
                describe(out, &line, ioc.linkage, &crash)?;
            }
            Shape::JsonLines => out.json(&line)?,
            Shape::Csv => csv_line(out, &line, is_first && count == 1)?,
        }
    }
    Ok(count)
}

fn ioc_line<'a>(
    found: &'a Inventory,
    (run, processes): (usize, &'a Processes),
    ioc: &'a Ioc,
    records: usize,
    zone: &Zone,
) -> IocLine<'a> {
    let process = processes.number(Some(run), found.context(), ioc.id);
    let process = process.and_then(|number| processes.get(number));
    // another run may tell of one that this one did not see
    let own = found.end(ioc.id);
    let seen = own.filter(|end| end.how != UNSEEN);
    let end = seen.or(process.and_then(|process| process.end.as_ref())).or(own);
    let replaced = process.and_then(|process| process.replaced).filter(|_| end.is_none());
    // it ended at that time or before
    let unseen = end.filter(|end| end.how == UNSEEN).and_then(|end| end.wall);
    IocLine {
        host: found.host(),
        ioc: &ioc.name,
        pid: ioc.pid,
        started: found.context().wall(ioc.start).map(|wall| zone.format(wall, 0)),
        ended: end.and_then(|end| end.wall).filter(|_| unseen.is_none()).map(|wall| zone.format(wall, 0)),
        end: match replaced {
            Some(_) => Some(RESTARTED),
            None => end.and_then(|end| text(&end.how)),
        },
        user: text(&ioc.user),
        base_version: text(&ioc.base_version),
        linkage: linkage_name(ioc.linkage),
        ca_ports: &ioc.ca_ports,
        pva_ports: &ioc.pva_ports,
        exe: &ioc.exe,
        cwd: &ioc.cwd,
        command: &ioc.command,
        environment: ioc.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        records,
        not_probed: found.not_probed(ioc),
        attached: found.spans().attached(ioc.id, zone),
        gaps: found.spans().gaps(ioc.id, &ioc.name, ioc.pid, zone),
        crash: found.context().crash(ioc.id).map(|crash| crash::keys(found.context(), crash)),
        outlived: found.end(ioc.id).is_none()
            && (end.is_some() || replaced.is_some() || process.is_some_and(|process| process.is_left)),
        ended_after: replaced.map(|(after, _)| zone.format(after, 0)),
        // by the second that begins before it, it had perhaps not
        ended_by: replaced
            .map(|(_, by)| by)
            .or(unseen)
            .map(|by| zone.format(by.saturating_add(SECOND as i64 - 1), 0)),
        container: found
            .context()
            .container(ioc.id)
            .map(|container| ContainerKeys::of(container, found.host())),
    }
}

/// Writes an IOC as text.
fn describe(out: &mut Out, line: &IocLine<'_>, linkage: Linkage, crash: &[(&str, String)]) -> io::Result<()> {
    let version = match (linkage, line.base_version) {
        (Linkage::Foreign, _) => "no EPICS Base found".to_owned(),
        (_, Some(version)) => format!("EPICS Base {version}"),
        (_, None) => "EPICS Base".to_owned(),
    };
    let on = line.host.map(|host| format!(" on {host}")).unwrap_or_default();
    line!(out, "{}{on}  pid {}  {version}, {}", without_pid(line.ioc, line.pid), line.pid, line.linkage)?;
    let mut detail = |name: &str, text: String| -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        line!(out, "    {name:<10} {text}")
    };
    let ports = |ports: &[u16]| ports.iter().map(u16::to_string).collect::<Vec<_>>().join(" ");
    detail("user", line.user.unwrap_or_default().to_owned())?;
    detail("started", line.started.clone().unwrap_or_default())?;
    detail("ended", line.ended.clone().unwrap_or_default())?;
    if let (Some(after), Some(by)) = (&line.ended_after, &line.ended_by) {
        detail("ended", format!("between {after} and {by}"))?;
    } else if let Some(by) = &line.ended_by {
        detail("ended", format!("{by} or before"))?;
    }
    detail("how", line.end.unwrap_or_default().to_owned())?;
    crash.iter().try_for_each(|(name, text)| detail(name, text.clone()))?;
    detail("CA ports", ports(line.ca_ports))?;
    detail("PVA ports", ports(line.pva_ports))?;
    if let Some(container) = &line.container {
        let (container, pod) = container.lines();
        detail("container", container)?;
        detail("pod", pod.unwrap_or_default())?;
    }
    detail("program", line.exe.to_owned())?;
    detail("command", line.command.join(" "))?;
    detail("directory", line.cwd.to_owned())?;
    for (name, value) in &line.environment {
        detail("set", format!("{name}={value}"))?;
    }
    detail("records", line.records.to_string())?;
    for reason in &line.not_probed {
        detail("not probed", (*reason).to_owned())?;
    }
    for attached in &line.attached {
        detail("attached", if line.outlived { attached.text_of_run() } else { attached.text() })?;
    }
    for gap in &line.gaps {
        detail(gap.name(), format!("{}: {}", gap.text(), gap.cause))?;
    }
    Ok(())
}

fn text(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::sample::inventory;

    #[test]
    fn iocs_that_ended_are_there_with_their_end() {
        let mut out = Vec::new();
        write(
            &mut Out::new(&mut out),
            &inventory(),
            (0, &Processes::default()),
            &Filter::default(),
            Shape::Text,
            true,
            &Zone::utc(),
        )
        .unwrap();
        let text = String::from_utf8(out).unwrap();
        for part in [
            "demo on box1  pid 7  EPICS Base 7.0.8.1, shared",
            "killed by SIGKILL",
            "TOP=/opt",
            "softIoc st.cmd",
            "postEvent: slow",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let mut out = Vec::new();
        write(
            &mut Out::new(&mut out),
            &inventory(),
            (0, &Processes::default()),
            &Filter::default(),
            Shape::JsonLines,
            true,
            &Zone::utc(),
        )
        .unwrap();
        let line: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!((&line["records"], &line["end"]), (&2.into(), &"killed by SIGKILL".into()));
        assert_eq!(line["environment"]["TOP"], "/opt");
    }
}
