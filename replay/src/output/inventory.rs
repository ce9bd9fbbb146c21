//! What there was: the IOCs of a run and their records.
//!
//! An IOC that has ended, and its records, are still shown: what a run defined is kept here beyond its
//! end, within the bound that definitions have everywhere ([`Budget`](iocrec_log::context::Budget)), since the ends
//! themselves are not applied.

use super::attached::{Attached, Gap, Spans};
use super::info::linkage_name;
use crate::filter::Filter;
use crate::input;
use crate::model::clock::SetLater;
use crate::notices::Notices;
use crate::out::{line, Out};
use crate::time::Zone;
use iocrec_log::context::{Context, RecordRef};
use iocrec_log::escape::Shown;
use iocrec_log::event::{Fact, Ioc, IocId, Linkage};
use iocrec_log::glob::Glob;
use iocrec_log::reader::SegmentFile;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;

/// The definitions of a run, and when its IOCs ended.
#[derive(Default)]
pub struct Inventory {
    context: Context,
    /// When, by the wall clock, and how.
    ended: BTreeMap<IocId, (Option<i64>, String)>,
    /// From when to when they were recorded.
    spans: Spans,
}

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
    not_probed: &'a [String],
    /// From when to when its hits were recorded.
    attached: Vec<Attached>,
    /// When it ran unseen though a recorder ran.
    gaps: Vec<Gap>,
}

/// A record, as JSON.
#[derive(Serialize)]
struct RecordLine<'a> {
    host: Option<&'a str>,
    ioc: Option<&'a str>,
    record: &'a str,
    #[serde(rename = "type")]
    rtype: Option<&'a str>,
    aliases: &'a [Box<str>],
    states: &'a [Box<str>],
}

impl Inventory {
    /// Reads a run's definitions. What can't be read is said; what can is there.
    pub fn read(files: &[SegmentFile], notices: &mut Notices) -> Inventory {
        let context = Context::sharing(&input::budget(files));
        let mut found = Inventory { context, ..Inventory::default() };
        SetLater::find(files).inspect(|set| set.tell(&mut found.context));
        for file in files {
            let mut segment = match file.open() {
                Ok(segment) => segment,
                Err(error) => {
                    notices.failure(&error);
                    continue;
                }
            };
            segment.only_definitions();
            while let Some(block) = segment.next_block() {
                match block {
                    Ok(block) => block.events.iter().for_each(|event| found.take(event.time, &event.fact)),
                    Err(damage) => notices.damage(&file.path, &damage),
                }
            }
        }
        notices.refused(found.context.refused());
        found
    }

    fn take(&mut self, time: u64, fact: &Fact) {
        self.spans.take(time, fact, &self.context);
        match fact {
            Fact::IocEnd(end) => {
                if self.context.ioc(end.ioc).is_some() {
                    self.ended.insert(end.ioc, (self.context.wall(time), end.how.clone()));
                }
            }
            fact => self.context.apply(time, fact),
        }
    }

    fn host(&self) -> Option<&str> {
        self.context.host().map(|host| host.name.as_str())
    }

    /// Is this host asked for?
    fn is_wanted(&self, filter: &Filter) -> bool {
        matches(&filter.host, self.host().unwrap_or_default())
    }

    /// Writes the IOCs; how many they are.
    pub fn iocs(&self, out: &mut Out, filter: &Filter, json: bool, zone: &Zone) -> io::Result<u64> {
        let mut count = 0;
        let mut records: BTreeMap<IocId, usize> = BTreeMap::new();
        for record in self.context.records() {
            *records.entry(record.ioc).or_default() += 1;
        }
        let wanted = |ioc: &&Ioc| self.is_wanted(filter) && matches(&filter.ioc, &ioc.name);
        for ioc in self.context.iocs().filter(wanted) {
            count += 1;
            let line = self.ioc_line(ioc, records.get(&ioc.id).copied().unwrap_or(0), zone);
            if json {
                out.json(&line)?;
            } else {
                describe(out, &line, ioc.linkage)?;
            }
        }
        Ok(count)
    }

    fn ioc_line<'a>(&'a self, ioc: &'a Ioc, records: usize, zone: &Zone) -> IocLine<'a> {
        let ended = self.ended.get(&ioc.id);
        IocLine {
            host: self.host(),
            ioc: &ioc.name,
            pid: ioc.pid,
            started: self.context.wall(ioc.start).map(|wall| zone.format(wall, 0)),
            ended: ended.and_then(|(wall, _)| wall.map(|wall| zone.format(wall, 0))),
            end: ended.and_then(|(_, how)| text(how)),
            user: text(&ioc.user),
            base_version: text(&ioc.base_version),
            linkage: linkage_name(ioc.linkage),
            ca_ports: &ioc.ca_ports,
            pva_ports: &ioc.pva_ports,
            exe: &ioc.exe,
            cwd: &ioc.cwd,
            command: &ioc.command,
            environment: ioc
                .environment
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect(),
            records,
            not_probed: &ioc.not_probed,
            attached: self.spans.attached(ioc.id, zone),
            gaps: self.spans.gaps(ioc.id, &ioc.name, ioc.pid, zone),
        }
    }

    /// Writes the records; how many they are.
    pub fn records(&self, out: &mut Out, filter: &Filter, json: bool) -> io::Result<u64> {
        let mut count = 0;
        if !self.is_wanted(filter) {
            return Ok(count);
        }
        for record in self.context.records() {
            let ioc = self.context.ioc(record.ioc).map(|ioc| ioc.name.as_str());
            let aliases = self.context.aliases(record.id);
            let named =
                |glob: &Glob| glob.matches(record.name) || aliases.iter().any(|alias| glob.matches(alias));
            if matches(&filter.ioc, ioc.unwrap_or_default()) && filter.pv.as_ref().is_none_or(named) {
                self.record(out, record, ioc, json)?;
                count += 1;
            }
        }
        Ok(count)
    }

    fn record(&self, out: &mut Out, record: RecordRef<'_>, ioc: Option<&str>, json: bool) -> io::Result<()> {
        let (aliases, states) = (self.context.aliases(record.id), self.context.enum_strings(record.id));
        if json {
            let (host, rtype) = (self.host(), text(record.rtype));
            let line = RecordLine { host, ioc, record: record.name, rtype, aliases, states };
            return out.json(&line);
        }
        let ioc = or_dash(ioc.unwrap_or_default());
        let [name, rtype, ioc] = [record.name, or_dash(record.rtype), ioc].map(Shown);
        let mut line = format!("{name:<32}  {rtype:<12}  {ioc:<16}");
        if !aliases.is_empty() {
            line.push_str(&format!("  also {}", aliases.join(" ")));
        }
        if !states.is_empty() {
            let numbered = states.iter().enumerate();
            let texts: Vec<String> = numbered.map(|(number, text)| format!("{number} \"{text}\"")).collect();
            line.push_str(&format!("  {}", texts.join(", ")));
        }
        line!(out, "{}", line.trim_end())
    }
}

/// An IOC for people.
fn describe(out: &mut Out, line: &IocLine<'_>, linkage: Linkage) -> io::Result<()> {
    let version = match (linkage, line.base_version) {
        (Linkage::Foreign, _) => "no EPICS Base".to_owned(),
        (_, Some(version)) => format!("EPICS Base {version}"),
        (_, None) => "EPICS Base".to_owned(),
    };
    let on = line.host.map(|host| format!(" on {host}")).unwrap_or_default();
    line!(out, "{}{on}  pid {}  {version}, {}", line.ioc, line.pid, line.linkage)?;
    let mut say = |what: &str, text: String| -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        line!(out, "    {what:<10} {text}")
    };
    let ports = |ports: &[u16]| ports.iter().map(u16::to_string).collect::<Vec<_>>().join(" ");
    say("user", line.user.unwrap_or_default().to_owned())?;
    say("started", line.started.clone().unwrap_or_default())?;
    say("ended", line.ended.clone().unwrap_or_default())?;
    say("how", line.end.unwrap_or_default().to_owned())?;
    say("CA ports", ports(line.ca_ports))?;
    say("PVA ports", ports(line.pva_ports))?;
    say("program", line.exe.to_owned())?;
    say("command", line.command.join(" "))?;
    say("directory", line.cwd.to_owned())?;
    for (name, value) in &line.environment {
        say("set", format!("{name}={value}"))?;
    }
    say("records", line.records.to_string())?;
    for reason in line.not_probed {
        say("not probed", reason.clone())?;
    }
    for attached in &line.attached {
        say("attached", attached.words())?;
    }
    for gap in &line.gaps {
        say("unseen", format!("{}: {}", gap.words(), gap.cause))?;
    }
    Ok(())
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() {
        "-"
    } else {
        text
    }
}

fn text(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

fn matches(glob: &Option<Glob>, name: &str) -> bool {
    glob.as_ref().is_none_or(|glob| glob.matches(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::{Alias, Clock, EnumStrings, Host, IocEnd, Record};

    fn inventory() -> Inventory {
        let mut found = Inventory::default();
        let host = Host {
            name: "box1".into(),
            kernel: String::new(),
            arch: String::new(),
            boot_id: String::new(),
            recorder: String::new(),
            utc_offset: 0,
        };
        let ioc = Ioc {
            id: 1,
            pid: 7,
            start: 0,
            name: "demo".into(),
            exe: "/opt/softIoc".into(),
            cwd: "/".into(),
            command: vec!["softIoc".into(), "st.cmd".into()],
            base_version: "7.0.8.1".into(),
            ca_ports: vec![5064],
            linkage: Linkage::Shared,
            not_probed: vec!["postEvent: slow".into()],
            user: "ioc".into(),
            pva_ports: vec![],
            environment: vec![("TOP".into(), "/opt".into())],
        };
        let record = |id, name: &str, rtype: &str| {
            Fact::Record(Record { id, ioc: 1, address: 0, name: name.into(), rtype: rtype.into() })
        };
        for fact in [
            Fact::Host(host),
            Fact::Clock(Clock { wall: 1_790_000_000_000_000_000 }),
            Fact::from(ioc),
            record(1, "T:SP", "ao"),
            record(2, "T:VALVE", "bo"),
            Fact::Alias(Alias { record: 2, name: "V1\u{1b}[2J".into() }),
            Fact::EnumStrings(EnumStrings { record: 2, states: vec!["Closed".into(), "Open".into()] }),
            Fact::IocEnd(IocEnd { ioc: 1, how: "killed by SIGKILL".into() }),
        ] {
            found.take(0, &fact);
        }
        found
    }

    fn records(filter: Filter, json: bool) -> String {
        let mut out = Vec::new();
        inventory().records(&mut Out::new(&mut out), &filter, json).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn records_with_what_is_known_of_them() {
        let text = records(Filter::default(), false);
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[0], "T:SP ao demo");
        assert!(lines[1].starts_with("T:VALVE bo demo also V1"), "{text}");
        assert!(lines[1].ends_with(r#"0 "Closed", 1 "Open""#), "{text}");
        assert!(!text.contains('\u{1b}'), "no escapes reach the terminal");
        let by_alias = records(Filter { pv: Some(Glob::new("V1*")), ..Filter::default() }, true);
        let line: serde_json::Value = serde_json::from_str(by_alias.trim()).unwrap();
        assert_eq!((&line["record"], &line["type"]), (&"T:VALVE".into(), &"bo".into()));
        assert_eq!(line["states"], serde_json::json!(["Closed", "Open"]));
        assert_eq!(records(Filter { ioc: Some(Glob::new("x")), ..Filter::default() }, false), "");
        assert_eq!(records(Filter { host: Some(Glob::new("x")), ..Filter::default() }, false), "");
    }

    #[test]
    fn iocs_that_ended_are_there_with_their_end() {
        let mut out = Vec::new();
        inventory().iocs(&mut Out::new(&mut out), &Filter::default(), false, &Zone::utc()).unwrap();
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
        inventory().iocs(&mut Out::new(&mut out), &Filter::default(), true, &Zone::utc()).unwrap();
        let line: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!((&line["records"], &line["end"]), (&2.into(), &"killed by SIGKILL".into()));
        assert_eq!(line["environment"]["TOP"], "/opt");
    }
}
