//! Puts as a shell script that repeats them with `caput`, in the same order.
//!
//! It writes what clients asked for, not what the records made of it. What it leaves out is in it as a comment, and counted.

use super::Options;
use crate::model::obstacle::Obstacle;
use crate::model::putlog::{PutLine, Via};
use crate::model::value::text;
use crate::out::{line, Out};
use crate::output::caput::{arguments, shell, Target};
use crate::output::format::Writer;
use crate::time::Zone;
use crate::wording::put::{change, who};
use iocrec_log::event::{Array, Dbf, Value};
use std::collections::BTreeMap;
use std::io;

/// PVs that are named where puts are left out.
const MAX_NAMED: usize = 5;

/// The functions of the script.
const FUNCTIONS: &str = r#"put() {
    printf '%s\n' "caput $*"
    [ -n "$write" ] || return 0
    caput -c -w 5 "$@" >/dev/null || failed=$((failed + 1))
}
pause() {
    [ -z "$write" ] || sleep "$1"
}"#;

/// Writes the script.
pub struct Script<'a> {
    zone: &'a Zone,
    options: &'a Options,
    /// When the last put was made, in the order of time.
    last: Option<i64>,
    /// Number of puts left out and the first of their PVs, by reason.
    left_out: BTreeMap<String, (u64, Vec<String>)>,
}

impl<'a> Script<'a> {
    /// An empty one.
    pub fn new(zone: &'a Zone, options: &'a Options) -> Self {
        Script { zone, options, last: None, left_out: BTreeMap::new() }
    }

    fn write_one(&mut self, out: &mut Out, put: &PutLine) -> io::Result<()> {
        line!(out)?;
        let time = self.zone.format(put.time, 6);
        line!(out, "# {time} {}: {}, {}", who(put), change(put), put.status)?;
        let command = command(put);
        match &command {
            Ok(arguments) => {
                let pause = self.last.map_or(0, |last| put.even.saturating_sub(last) / 1_000_000);
                if self.options.timing && pause > 0 {
                    line!(out, "pause {}.{:03}", pause / 1000, pause % 1000)?;
                }
                self.last = Some(put.even.max(self.last.unwrap_or(i64::MIN)));
                line!(out, "put {}", shell::words(arguments))
            }
            Err(reason) => {
                let pv = put.pv.as_deref().unwrap_or("(unnamed channel)");
                let (count, named) = self.left_out.entry(reason.to_string()).or_default();
                *count += 1;
                if named.len() <= MAX_NAMED && !named.iter().any(|named| named == pv) {
                    named.push(pv.to_owned());
                }
                line!(out, "# {pv} {} is left out: {reason}", text(&put.requested))
            }
        }
    }
}

impl Writer<PutLine> for Script<'_> {
    fn begin(&mut self, out: &mut Out) -> io::Result<()> {
        for text in [
            "#!/bin/sh",
            "# Repeats puts that iocrec recorded, with caput of EPICS Base. Made by: iocreplay puts --format caput",
            "# Shows them; with --yes it writes them. It waits for each to be done, up to 5 s.",
        ] {
            line!(out, "{text}")?;
        }
        if self.options.timing {
            line!(
                out,
                "# It waits as long before each as the clients did; sleep must take fractions of a second."
            )?;
        }
        let mut lines = shell::OPTION.lines().chain(FUNCTIONS.lines());
        lines.try_for_each(|text| line!(out, "{text}"))
    }

    fn write(&mut self, out: &mut Out, put: &PutLine) -> io::Result<()> {
        put.clone().to_records().iter().try_for_each(|put| self.write_one(out, put))
    }

    fn end(&mut self, out: &mut Out) -> io::Result<()> {
        line!(out)?;
        shell::END.lines().try_for_each(|text| line!(out, "{text}"))
    }

    fn remarks(&self) -> Vec<String> {
        let remark = |(reason, (count, named)): (&String, &(u64, Vec<String>))| {
            let names: Vec<&str> = named.iter().take(MAX_NAMED).map(String::as_str).collect();
            let more = if named.len() > MAX_NAMED { " ..." } else { "" };
            let puts = if *count == 1 { "put to" } else { "puts to" };
            format!("{count} {puts} {}{more} left out: {reason}", names.join(", "))
        };
        self.left_out.iter().map(remark).collect()
    }
}

/// The arguments of caput that repeat a put, or why it is left out.
fn command(put: &PutLine) -> Result<Vec<String>, Obstacle> {
    match put.via {
        Via::CaLink | Via::PvaLink | Via::DbLink | Via::Python => return Err(Obstacle::MadeInside),
        Via::CaWrite | Via::CaWriteNotify | Via::Pva | Via::Dbpf | Via::Unknown => {}
    }
    match &*put.status {
        "ok" | "unknown" => {}
        _ => return Err(Obstacle::Refused),
    }
    if put.acknowledges.is_some() {
        return Err(Obstacle::Acknowledges);
    }
    if put.protocol == Some("pva") && put.record.is_none() && put.pv.is_some() {
        return Err(Obstacle::NoRecord);
    }
    if put.requested_cut == Some(true) {
        return Err(Obstacle::PartRequested);
    }
    let pv = put.pv.as_deref().unwrap_or_default();
    let long = pv.strip_suffix(".$").or_else(|| pv.strip_suffix('$'));
    // caput refuses characters above 127, whose element in an array is a number with a sign
    let dbf = match &put.new {
        Value::Array(Array { dbf: dbf @ (Dbf::Char | Dbf::UChar), .. }) => Some(*dbf),
        _ => put.dbf,
    };
    match (long, &put.requested) {
        (Some(pv), requested) if is_text(requested) => {
            let mut arguments = arguments(Target { pv, dbf: put.dbf, is_long_text: true }, requested)?;
            // the name as the client wrote it
            if let Some(name) = arguments.get_mut(1) {
                *name = put.pv.clone().unwrap_or_default();
            }
            Ok(arguments)
        }
        // a number to a text field and the like is sent as text, too
        (_, requested) => arguments(Target { pv, dbf, is_long_text: false }, requested),
    }
}

/// Whether characters are a text with its NUL, as `caput -S` sends it.
fn is_text(value: &Value) -> bool {
    match value {
        Value::Array(Array { dbf: Dbf::Char | Dbf::UChar, count, bytes }) => {
            usize::try_from(*count) == Ok(bytes.len())
                && bytes.iter().position(|byte| *byte == 0) == bytes.len().checked_sub(1)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::puts::sample::put;

    fn script(puts: &[PutLine], timing: bool) -> (String, Vec<String>) {
        let (zone, options, mut bytes) = (Zone::utc(), Options { timing, ..Options::default() }, Vec::new());
        let mut out = Out::new(&mut bytes);
        let mut writer = Script::new(&zone, &options);
        writer.begin(&mut out).unwrap();
        puts.iter().for_each(|put| writer.write(&mut out, put).unwrap());
        writer.end(&mut out).unwrap();
        let remarks = writer.remarks();
        (String::from_utf8(bytes).unwrap(), remarks)
    }

    #[test]
    fn puts_with_their_timing() {
        let later = PutLine {
            time: put().time + 1_250_000_000,
            even: put().even + 1_250_000_000,
            requested: Value::Double(-2.5),
            ..put()
        };
        let (text, remarks) = script(&[put(), later], true);
        let commands: Vec<&str> = text.lines().skip_while(|l| !l.starts_with("# 2026")).collect();
        assert_eq!(
            commands.join("\n"),
            "# 2026-09-21T14:13:20.123456+00:00 alice@console3 10.0.0.5:41022: 1.5 -> 10 (asked for 12), ok\n\
             put T:SP 12\n\n\
             # 2026-09-21T14:13:21.373456+00:00 alice@console3 10.0.0.5:41022: 1.5 -> 10 (asked for -2.5), ok\n\
             pause 1.250\n\
             put T:SP -2.5\n\n\
             [ \"$failed\" = 0 ] || echo \"$failed failed\" >&2\n\
             [ \"$failed\" = 0 ]"
        );
        assert!(remarks.is_empty());
        assert!(!script(&[put(), put()], false).0.contains("pause 0"));
    }

    /// An element of an array of characters, sent by itself.
    #[test]
    fn a_character_above_127() {
        let new = Value::Array(Array { dbf: Dbf::Char, count: 1, bytes: vec![200] });
        let put = PutLine { requested: Value::Int(200), new, dbf: Some(Dbf::NoAccess), ..put() };
        let (text, remarks) = script(&[put], false);
        assert!(text.contains("\nput T:SP -56\n") && remarks.is_empty(), "{text}");
    }

    /// A group, or a PV of a server without records.
    #[test]
    fn what_only_pvaccess_has_is_left_out() {
        let over = PutLine { via: Via::Pva, protocol: Some("pva"), ..put() };
        let group = PutLine { pv: Some("T:GROUP".into()), record: None, field: None, ..over.clone() };
        let (text, remarks) = script(&[over, group], false);
        let puts: Vec<&str> = text.lines().filter(|line| line.starts_with("put ")).collect();
        assert_eq!(puts, ["put T:SP 12"], "{text}");
        assert!(text.contains("\n# T:GROUP 12 is left out: it came over PVAccess"), "{text}");
        let reason = "it came over PVAccess, and is no record that caput would find";
        assert_eq!(remarks, [format!("1 put to T:GROUP left out: {reason}")]);
    }

    #[test]
    fn what_is_left_out_is_a_comment_and_counted() {
        let cut = PutLine { requested_cut: Some(true), ..put() };
        let refused = PutLine { status: "ECA_PUTFAIL".into(), pv: Some("T\n$(reboot)".into()), ..put() };
        let hostile = PutLine { pv: Some("x\nreboot".into()), user: Some("u\nreboot".into()), ..put() };
        let (text, remarks) = script(&[cut, refused, hostile], false);
        assert!(!text.contains("\nput "), "{text}");
        assert!(text.lines().all(|line| !line.starts_with("reboot") && !line.starts_with("$(")), "{text}");
        assert_eq!(
            remarks,
            [
                "1 put to x\nreboot left out: its name is none that a tool would take as it is",
                "1 put to T\n$(reboot) left out: refused",
                "1 put to T:SP left out: the log holds only a part of the value",
            ]
        );
    }
}
