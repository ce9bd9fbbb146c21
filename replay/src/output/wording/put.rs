//! A put in words: the change, and who made it.

use crate::model::client::Holder;
use crate::model::contention::is_refused;
use crate::model::putlog::{ProcessLine, PutLine, Via};
use crate::model::{caller, enum_strings, outcome, value};
use crate::time::duration;
use iocrec_log::event::{Dbf, Value};
use std::fmt::Write as _;

/// What may have made a put, of which so many are named in a line.
const MOST: usize = 3;
/// Difference of two hosts' clocks that is worth a word, nanoseconds: less is what NTP leaves and the network takes.
const NOTABLE: u64 = 20_000_000;
/// In place of the value afterwards.
const NOT_KNOWN: &str = "not known";
/// The same where the server said that it refused.
const NOT_WRITTEN: &str = "not written";
/// Behind a value that nobody read: the put is known to have been accepted, the record may have made another of it.
const AS_ASKED: &str = "as asked, not read back";
/// Behind a value that was read when something else may have written it.
const READ_LATER: &str = "read later, perhaps another's";

/// `OLD -> NEW`, and the requested value if it is different. What was asked for never looks like a result: it is said
/// where the value afterwards is not known, or only follows from the request.
pub fn change(put: &PutLine) -> String {
    let Change { old, new, asked, unchanged, doubt, acknowledges } = parts(put);
    let mut change = String::new();
    if acknowledges {
        return new;
    }
    if let Some(old) = old {
        change.push_str(&old);
        change.push(' ');
    }
    change.push_str("-> ");
    change.push_str(&new);
    if unchanged {
        change.push_str(", not changed");
    }
    if let Some(doubt) = doubt {
        let _ = write!(change, " ({doubt})");
    }
    if let Some(asked) = asked {
        change.push_str(" (asked for ");
        change.push_str(&asked);
        change.push(')');
    }
    change
}

/// The parts of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The value before, if known.
    pub old: Option<String>,
    /// The value afterwards; words where it is not known.
    pub new: String,
    /// The requested value, if it is not shown by `new`.
    pub asked: Option<String>,
    /// Whether the value is known to have stayed as it was, though another was requested.
    pub unchanged: bool,
    /// Why `new` may not be what the put left.
    pub doubt: Option<&'static str>,
    /// Whether it acknowledges an alarm: `new` says so in words.
    pub acknowledges: bool,
}

/// The change that a put made, in parts.
pub fn parts(put: &PutLine) -> Change {
    if let Some(field) = put.acknowledges {
        return Change { new: acknowledgement(field, put), acknowledges: true, ..Change::default() };
    }
    let long = put.pv.as_deref().is_some_and(|pv| pv.ends_with('$')) || matches!(put.new, Value::Text(_));
    let [old, new, requested] =
        [&put.old, &put.new, &put.requested].map(
            |value| {
                if long {
                    value::long_text(value)
                } else {
                    value.clone()
                }
            },
        );
    let text = |value: &Value, is_cut: Option<bool>, word: Option<&str>| {
        let mut text = value::text(value);
        // The text of an array already shows it.
        if is_cut == Some(true) && matches!(value, Value::Text(_)) {
            text.push_str("...");
        }
        enum_strings::push(&mut text, word);
        text
    };
    let before = (old != Value::Unknown).then(|| text(&old, put.old_cut, put.old_text.as_deref()));
    if new == Value::Unknown {
        let new = if is_refused(put) { NOT_WRITTEN } else { NOT_KNOWN };
        let asked = match in_parts(put) {
            // no value was asked for, or those of members, which say themselves what became of them
            Some((new, false)) => return Change { old: before, new, ..Change::default() },
            Some((asked, true)) => asked,
            None if requested == Value::Unknown => {
                return Change { old: before, new: new.to_owned(), ..Change::default() }
            }
            None => text(&requested, put.requested_cut, None),
        };
        return Change { old: before, new: new.to_owned(), asked: Some(asked), ..Change::default() };
    }
    let mut change =
        Change { old: before, new: text(&new, put.new_cut, put.new_text.as_deref()), ..Change::default() };
    change.doubt = match (put.inexact, put.as_asked) {
        (true, true) => Some(AS_ASKED),
        (true, false) => Some(READ_LATER),
        (false, _) => None,
    };
    // A number sent as text equals the number.
    let as_number = value::convert(&requested, Dbf::Double);
    let is_requested = |word: &String| requested == Value::Text(word.clone().into_bytes());
    let as_asked = put.new_text.as_ref().is_some_and(is_requested);
    if !as_asked
        && value::same(&new, &requested) == Some(false)
        && value::same(&new, &as_number) != Some(true)
        && !outcome::is_same_text(&new, &requested)
    {
        // The value before is known, and nothing else has written to it since.
        let whole = put.old_cut != Some(true) && put.new_cut != Some(true);
        change.unchanged = whole && !put.inexact && value::same(&old, &new) == Some(true);
        change.asked = Some(value::text(&requested));
    }
    change
}

/// What PVAccess asked for, if that is more or less than one value; and whether it is values to be written.
fn in_parts(put: &PutLine) -> Option<(String, bool)> {
    let pva = put.pva.as_ref()?;
    if !pva.members.is_empty() {
        let member = |put: &PutLine| {
            let name = put.pv.as_deref().unwrap_or("?");
            format!("{name} {}", change(put))
        };
        return Some((shortened(pva.members.iter().map(member), pva.is_cut), false));
    }
    let fields = || {
        let field = |(name, found): &(String, Value)| format!("{name}={}", value::text(found));
        shortened(pva.fields.iter().map(field), pva.is_cut)
    };
    match pva.request {
        "process" => Some(("process".to_owned(), false)),
        "rpc" => Some((format!("call({})", fields()), false)),
        _ if put.requested != Value::Unknown => None,
        _ if pva.fields.is_empty() && !pva.is_cut => Some(("no field".to_owned(), false)),
        _ if pva.fields.is_empty() => None,
        _ => Some((fields(), true)),
    }
}

/// The first few of these, and whether there are more.
fn shortened(parts: impl Iterator<Item = String>, is_cut: bool) -> String {
    const FEW: usize = 6;
    let mut parts: Vec<String> = parts.take(FEW + 1).collect();
    if parts.len() > FEW || is_cut {
        parts.truncate(FEW);
        parts.push("...".to_owned());
    }
    parts.join(", ")
}

/// An acknowledgement of alarms, with its result if known.
fn acknowledgement(field: &str, put: &PutLine) -> String {
    let number = |value: &Value| match value {
        Value::Int(number) => u16::try_from(*number).ok(),
        _ => None,
    };
    let Some(asked) = number(&put.requested) else { return format!("set {field}") };
    if field == "ACKT" {
        let word = match asked {
            0 => "NO",
            1 => "YES",
            _ => return format!("set ACKT to {asked}"),
        };
        return format!(
            "set ACKT to {word} (alarms that have gone {} be acknowledged)",
            match asked {
                0 => "need not",
                _ => "must",
            }
        );
    }
    let severity = enum_strings::severity_name(asked);
    match number(&put.new).filter(|left| *left > 0 && !put.inexact) {
        // The record accepts an acknowledgement only if it is at least as severe as its own alarm.
        Some(left) => format!(
            "asked to acknowledge alarm (severity {severity}), {} is left to acknowledge",
            enum_strings::severity_name(left)
        ),
        None => format!("acknowledged alarm (severity {severity})"),
    }
}

/// Who made the put, and from where; for puts within IOCs, the link or code that made it.
pub fn who(put: &PutLine) -> String {
    let who = claimed(put);
    match put.process.as_deref().and_then(|of| by(of, put.cause_record.is_some())) {
        Some(by) => format!("{who} ({by})"),
        None => who,
    }
}

/// A client's process in words: `caput pid 812`. `None` if none is known.
pub fn process_name(of: &ProcessLine) -> Option<String> {
    by(of, false)
}

/// The process that made a put, in words: `caput pid 812`. `None` if there is nothing to add: a link's record is said
/// already.
fn by(of: &ProcessLine, is_link: bool) -> Option<String> {
    let mut words = Vec::new();
    match (of.record.as_deref(), of.thread.as_deref(), &of.ioc) {
        _ if is_link => return of.is_joined.then(|| on_host(of)),
        (Some(link), ..) => words.push(format!("CA link {link}")),
        (None, Some(caller::CA_LINKS), _) if of.part.links.is_empty() => words.push("CA link".to_owned()),
        (None, Some(caller::CA_LINKS), _) => words.push(format!("CA link {}", of.part.links.join(" or "))),
        (None, Some(thread), _) => words.push(format!("thread {thread}")),
        (None, None, Some(_)) => {
            let mut may_be = of.part.links.iter().map(|link| format!("CA link {link}")).collect::<Vec<_>>();
            let threads = if of.part.threads.is_empty() { &of.part.programs } else { &of.part.threads };
            may_be.extend(threads.iter().map(|thread| format!("thread {thread}")));
            if !may_be.is_empty() {
                let more = may_be.len() > MOST;
                may_be.truncate(MOST);
                let more = if more { " or another" } else { "" };
                words.push(format!("perhaps {}{more}", may_be.join(" or ")));
            }
        }
        (None, None, None) => {}
    }
    let process = |holder: &Holder| format!("{} pid {}", holder.of.program, holder.of.pid);
    match (of.only(), of.holders.as_slice(), &of.ioc) {
        (Some(only), ..) if of.is_whole || of.ioc.is_some() => words.push(process(only)),
        (Some(only), ..) => words.push(format!("{}, if no other process shares it", process(only))),
        (None, [], Some((_, pid, program))) => words.push(format!("{program} pid {pid}")),
        (None, [], None) => return None,
        (None, several, _) => {
            let names: Vec<String> = several.iter().map(process).collect();
            let more = if of.more > 0 { format!(" or {} more", of.more) } else { String::new() };
            words.push(format!("one of {}{more}, which share it", names.join(", ")));
        }
    }
    if of.is_joined {
        words.push(on_host(of));
    }
    Some(words.join(", "))
}

/// The host of a process that another log tells of, and its clock if that is another one.
fn on_host(of: &ProcessLine) -> String {
    let host = of.host.as_deref().unwrap_or("another host");
    match of.ahead {
        Some(ahead) if ahead.unsigned_abs() >= NOTABLE => {
            let word = if ahead > 0 { "ahead" } else { "behind" };
            format!("on {host}, whose clock is {} {word}", duration(ahead.unsigned_abs()))
        }
        _ => format!("on {host}"),
    }
}

/// Who made the put, by what the client claims and by the circuit.
fn claimed(put: &PutLine) -> String {
    let person = match (put.user.as_deref(), put.client_host.as_deref()) {
        (Some(user), Some(host)) => Some(format!("{user}@{host}")),
        (Some(user), None) => Some(user.to_owned()),
        (None, Some(host)) => Some(format!("?@{host}")),
        (None, None) => None,
    };
    match (person, put.client.as_deref(), put.cause_record.as_deref()) {
        (_, _, Some(record)) => format!("CA link of {record}"),
        // shown with the claimed user: any program can look like an IOC
        (person, Some(address), None) if put.via == Via::CaLink => {
            let ioc = put.client_ioc.as_deref().map_or("an IOC".to_owned(), |ioc| format!("IOC {ioc}"));
            let person = person.map_or(String::new(), |person| format!(" ({person})"));
            format!("{ioc}{person} {address}")
        }
        (Some(person), Some(address), _) => format!("{person} {address}"),
        (None, Some(address), _) => format!("? {address}"),
        (Some(person), None, _) => person,
        (None, None, _) => match put.via {
            Via::Dbpf => "IOC shell".to_owned(),
            Via::DbLink => "a record's link".to_owned(),
            Via::CaLink => "a CA link".to_owned(),
            Via::Python => "Python".to_owned(),
            _ => "?".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::client::Part;
    use crate::output::puts::sample::put;
    use iocrec_log::event::{Array, SocketHolder};

    #[test]
    fn what_is_not_known_is_left_out() {
        let denied = PutLine { old: Value::Unknown, new: Value::Unknown, status: "denied".into(), ..put() };
        assert_eq!(change(&denied), "-> not written (asked for 12)");
        let unanswered = PutLine { status: "unknown".into(), ..denied };
        assert_eq!(change(&unanswered), "-> not known (asked for 12)");
        let on_the_wire = PutLine { inexact: true, as_asked: true, new: Value::Double(12.0), ..put() };
        assert_eq!(change(&on_the_wire), "1.5 -> 12 (as asked, not read back)");
        let limited = PutLine { new: Value::Double(10.0), as_asked: false, ..on_the_wire };
        assert_eq!(change(&limited), "1.5 -> 10 (read later, perhaps another's) (asked for 12)");
        let text = PutLine { requested: Value::Text(b"10".to_vec()), ..put() };
        assert_eq!(change(&text), "1.5 -> 10");
        let refused = PutLine {
            requested: Value::Text(b"bad".to_vec()),
            old: Value::Int(5),
            new: Value::Int(5),
            status: "unknown".into(),
            ..put()
        };
        assert_eq!(change(&refused), r#"5 -> 5, not changed (asked for "bad")"#);
        assert_eq!(
            change(&PutLine { inexact: true, ..refused }),
            r#"5 -> 5 (read later, perhaps another's) (asked for "bad")"#
        );
        let link = PutLine {
            requested: Value::Text(b"A:B".to_vec()),
            old: Value::Text(vec![b'x'; 40]),
            old_cut: Some(true),
            new: Value::Text(b"A:B NPP NMS".to_vec()),
            ..put()
        };
        assert!(change(&link).ends_with(r#"x"... -> "A:B NPP NMS" (asked for "A:B")"#), "{}", change(&link));
        let states = PutLine {
            requested: Value::Text(b"On".to_vec()),
            old: Value::Int(0),
            new: Value::Int(1),
            old_text: Some("Off".into()),
            new_text: Some("On".into()),
            ..put()
        };
        assert_eq!(change(&states), r#"0 "Off" -> 1 "On""#);
        let bytes = |text: &[u8]| Value::Array(Array { dbf: Dbf::Char, count: 4, bytes: text.to_vec() });
        let long = PutLine {
            pv: Some("A.B$".into()),
            requested: bytes(b"new\0"),
            old: bytes(b"old\0"),
            new: bytes(b"new\0"),
            ..put()
        };
        assert_eq!(change(&long), r#""old" -> "new""#);
        let shell = PutLine { user: None, client_host: None, client: None, via: Via::Dbpf, ..put() };
        assert_eq!(who(&shell), "IOC shell");
        let link = PutLine { cause_record: Some("A:OUT".into()), ..put() };
        assert_eq!(who(&link), "CA link of A:OUT");
        let other = PutLine { via: Via::CaLink, client_ioc: Some("second".into()), ..put() };
        assert_eq!(who(&other), "IOC second (alice@console3) 10.0.0.5:41022", "never as a person alone");
    }

    #[test]
    fn the_process_behind_a_claim() {
        let holder = |pid, program: &str| Holder {
            of: SocketHolder {
                pid,
                start: 1,
                program: program.into(),
                command: Vec::new(),
                is_cut: false,
                user: "ops".into(),
            },
            ioc: None,
        };
        let by = |of: ProcessLine| who(&PutLine { process: Some(Box::new(of)), ..put() });
        let claimed = "alice@console3 10.0.0.5:41022";
        let one =
            ProcessLine { holders: vec![holder(812, "caput")], is_whole: true, ..ProcessLine::default() };
        assert_eq!(by(one.clone()), format!("{claimed} (caput pid 812)"));
        let unsure = ProcessLine { is_whole: false, ..one.clone() };
        assert_eq!(by(unsure), format!("{claimed} (caput pid 812, if no other process shares it)"));
        let shared = ProcessLine { holders: vec![holder(1, "a"), holder(2, "b")], more: 3, ..one.clone() };
        assert_eq!(by(shared), format!("{claimed} (one of a pid 1, b pid 2 or 3 more, which share it)"));
        assert_eq!(by(ProcessLine::default()), claimed, "it is here, but was not found");
        let far = ProcessLine { host: Some("box2".into()), is_joined: true, ..one.clone() };
        assert_eq!(by(far.clone()), format!("{claimed} (caput pid 812, on box2)"));
        let late = ProcessLine { ahead: Some(-2_500_000_000), ..far };
        assert!(
            by(late.clone()).ends_with("(caput pid 812, on box2, whose clock is 2.500 s behind)"),
            "{}",
            by(late)
        );
        let ioc = ProcessLine { ioc: Some(("first".into(), 812, "softIoc".into())), ..one };
        assert_eq!(by(ioc.clone()), format!("{claimed} (caput pid 812)"));
        let part = |links: &[&str], threads: &[&str], programs: &[&str]| {
            let all = |of: &[&str]| of.iter().map(ToString::to_string).collect();
            Part { links: all(links), threads: all(threads), programs: all(programs) }
        };
        let maybe =
            ProcessLine { part: part(&["A.OUT", "B.OUT"], &[], &["sncRamp", "python3"]), ..ioc.clone() };
        assert!(by(maybe).contains("(perhaps CA link A.OUT or CA link B.OUT or thread sncRamp or another, "));
        let thread = |thread: &str, links: &[&str]| {
            by(ProcessLine { thread: Some(thread.into()), part: part(links, &[thread], &[]), ..ioc.clone() })
        };
        assert!(thread("sncRamp", &["A.OUT"]).contains("(thread sncRamp, "), "links don't matter then");
        assert!(thread("dbCaLink", &["A.OUT", "B.OUT"]).contains("(CA link A.OUT or B.OUT, "));
        assert!(thread("dbCaLink", &[]).contains("(CA link, "));
        let known = by(ProcessLine { record: Some("A.OUT".into()), thread: Some("dbCaLink".into()), ..ioc });
        assert!(known.contains("(CA link A.OUT, caput pid 812)"), "{known}");
    }

    #[test]
    fn acknowledgements_are_no_changes() {
        let acknowledge = |field, asked, new| PutLine {
            acknowledges: Some(field),
            requested: Value::Int(asked),
            old: Value::Unknown,
            new,
            ..put()
        };
        let text = |field, asked, new| change(&acknowledge(field, asked, new));
        assert_eq!(text("ACKS", 2, Value::Unknown), "acknowledged alarm (severity MAJOR)");
        assert_eq!(text("ACKS", 2, Value::Int(0)), "acknowledged alarm (severity MAJOR)");
        assert_eq!(
            text("ACKS", 1, Value::Int(2)),
            "asked to acknowledge alarm (severity MINOR), MAJOR is left to acknowledge"
        );
        assert_eq!(
            text("ACKT", 0, Value::Unknown),
            "set ACKT to NO (alarms that have gone need not be acknowledged)"
        );
        assert_eq!(text("ACKT", 7, Value::Unknown), "set ACKT to 7");
    }
}
