//! Who made a put: what the client claims, its circuit, and the process behind it.

use crate::model::caller;
use crate::model::client::Holder;
use crate::model::putlog::{ProcessLine, PutLine, Via};
use crate::model::updates::{Before, Update};
use crate::time::duration;
use crate::words::{ioc, name};
use iocrec_log::value::push_name;
use std::fmt::Write as _;

/// What may have made a put, of which so many are named in a line.
const MOST: usize = 3;
/// Difference of two hosts' clocks that is worth a word, nanoseconds: less is what NTP leaves and the network takes.
const NOTABLE: u64 = 20_000_000;

/// Who made the put, and from where; for puts within IOCs, the link or code that made it.
pub fn who(put: &PutLine) -> String {
    let mut who = String::new();
    push_who(&mut who, put);
    who
}

/// Appends what [`who`] returns.
pub fn push_who(who: &mut String, put: &PutLine) {
    push_claimed(who, put);
    if let Some(by) = put.process.as_deref().and_then(|of| by(of, put.cause_record.is_some())) {
        let _ = write!(who, " ({by})");
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
        (Some(link), ..) => words.push(format!("CA link {}", name(link))),
        (None, Some(caller::CA_LINKS), _) if of.part.links.is_empty() => words.push("CA link".to_owned()),
        (None, Some(caller::CA_LINKS), _) => {
            words.push(format!(
                "CA link {}",
                of.part.links.iter().map(|link| name(link)).collect::<Vec<_>>().join(" or ")
            ));
        }
        (None, Some(thread), _) => words.push(match of.part.sequencer.as_deref() {
            Some(program) if program == thread => format!("program {}", name(program)),
            Some(program) => format!("program {}, its thread {}", name(program), name(thread)),
            None => format!("thread {}", name(thread)),
        }),
        (None, None, Some(_)) => {
            let mut may_be =
                of.part.links.iter().map(|link| format!("CA link {}", name(link))).collect::<Vec<_>>();
            let threads = if of.part.threads.is_empty() { &of.part.programs } else { &of.part.threads };
            may_be.extend(threads.iter().map(|thread| format!("thread {}", name(thread))));
            if !may_be.is_empty() {
                let more = may_be.len() > MOST;
                may_be.truncate(MOST);
                let more = if more { " or another" } else { "" };
                words.push(format!("perhaps {}{more}", may_be.join(" or ")));
            }
        }
        (None, None, None) => {}
    }
    let process = |holder: &Holder| format!("{} pid {}", name(&holder.of.program), holder.of.pid);
    match (of.only(), of.holders.as_slice(), &of.ioc) {
        (Some(only), ..) if of.is_whole || of.ioc.is_some() => words.push(process(only)),
        // it held the circuit; whether others do, too, is not known
        (Some(only), ..) => words.push(format!("circuit of {}", process(only))),
        (None, [], Some((_, pid, program))) => words.push(format!("{} pid {pid}", name(program))),
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
    words.extend(of.after.as_deref().map(|before| format!("perhaps after {}", updates_before(before))));
    Some(words.join(", "))
}

/// The updates that may have made a program put, in words: `X:PV changed 3.00 ms before`, or `was processed` where it is not
/// known to have changed.
pub fn updates_before(before: &Before) -> String {
    let one = |update: &Update| {
        let ago = duration(update.ago.unsigned_abs());
        let times = match update.times {
            1 => String::new(),
            times => format!("{times} times, last "),
        };
        let what = if update.is_sure { "changed" } else { "was processed" };
        format!("{} {what} {times}{ago} before", name(&update.pv))
    };
    let shown: Vec<String> = before.updates.iter().take(MOST).map(one).collect();
    let more = before.may_be_others || before.updates.len() > MOST;
    format!("{}{}", shown.join(" or "), if more { " or another" } else { "" })
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
fn push_claimed(text: &mut String, put: &PutLine) {
    let is_named = put.user.is_some() || put.client_host.is_some();
    let _ = match (put.client.as_deref(), put.cause_record.as_deref()) {
        (_, Some(record)) if put.via == Via::DbLink => write!(text, "link of {record}"),
        (_, Some(record)) => write!(text, "CA link of {record}"),
        // shown with the claimed user: any program can look like an IOC
        (Some(address), None) if matches!(put.via, Via::CaLink | Via::PvaLink) => {
            match put.client_ioc.as_deref() {
                Some(name) => {
                    text.push_str("IOC ");
                    text.push_str(&ioc(name));
                }
                None => text.push_str("an IOC"),
            }
            if is_named {
                text.push_str(" (");
                push_person(text, put);
                text.push(')');
            }
            write!(text, " {address}")
        }
        (Some(address), None) => {
            match is_named {
                true => push_person(text, put),
                false => text.push('?'),
            }
            text.push(' ');
            text.push_str(address);
            Ok(())
        }
        (None, None) if is_named => {
            push_person(text, put);
            Ok(())
        }
        (None, None) => {
            match (put.via, own_thread(put)) {
                (Via::Dbpf, _) => text.push_str("IOC shell"),
                (Via::DbLink, _) => text.push_str("a record's link"),
                (Via::CaLink, _) => text.push_str("a CA link"),
                (Via::PvaLink, _) => text.push_str("a PVA link"),
                (Via::Python, _) => text.push_str("Python"),
                (Via::Unknown, Some(thread)) => {
                    text.push_str("thread ");
                    push_name(text, thread);
                }
                _ => text.push('?'),
            }
            Ok(())
        }
    };
}

/// The IOC's thread that made a put, unless it serves clients: a program of the sequencer's, or device support.
fn own_thread(put: &PutLine) -> Option<&str> {
    let thread = put.thread.as_deref().filter(|thread| !thread.is_empty())?;
    (!caller::serves_clients(thread)).then_some(thread)
}

/// The person whom the client claims: `alice@console3`.
fn push_person(text: &mut String, put: &PutLine) {
    push_name(text, put.user.as_deref().unwrap_or("?"));
    if let Some(host) = put.client_host.as_deref() {
        text.push('@');
        push_name(text, host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::client::Part;
    use crate::output::puts::sample::put;
    use iocrec_log::event::SocketHolder;

    fn update(pv: &str, ago: i64, times: usize) -> Update {
        Update { pv: pv.into(), host: "box1".into(), ioc: "demo".into(), ago, times, is_sure: true }
    }

    #[test]
    fn what_made_it_if_no_client_did() {
        let shell = PutLine { user: None, client_host: None, client: None, via: Via::Dbpf, ..put() };
        assert_eq!(who(&shell), "IOC shell");
        let link = PutLine { cause_record: Some("A:OUT".into()), ..put() };
        assert_eq!(who(&link), "CA link of A:OUT");
        assert_eq!(who(&PutLine { via: Via::DbLink, ..link }), "link of A:OUT");
        let other = PutLine { via: Via::CaLink, client_ioc: Some("second".into()), ..put() };
        assert_eq!(who(&other), "IOC second (alice@console3) 10.0.0.5:41022", "never as a person alone");
        // any program says what its name is
        let odd = PutLine { client_ioc: Some("second (root@console) 10.0.0.9:1".into()), ..other };
        assert_eq!(who(&odd), "IOC \"second (root@console) 10.0.0.9:1\" (alice@console3) 10.0.0.5:41022");
        let twin = PutLine { client_ioc: Some("second pid 12".into()), ..odd };
        assert_eq!(who(&twin), "IOC second pid 12 (alice@console3) 10.0.0.5:41022", "one of two");
    }

    #[test]
    fn a_sequencer_s_thread_is_named_and_a_server_s_is_nobody() {
        let unknown = PutLine { user: None, client_host: None, client: None, via: Via::Unknown, ..put() };
        assert_eq!(who(&PutLine { thread: Some("ramp".into()), ..unknown.clone() }), "thread ramp");
        assert_eq!(who(&PutLine { thread: None, ..unknown.clone() }), "?");
        assert_eq!(who(&unknown), "?", "some client's");
    }

    /// Else a claim would look like what the recorder has found.
    #[test]
    fn a_claim_is_told_from_what_was_seen() {
        let claim = "root@console3 10.0.0.5:41022 (caput pid 7)";
        let claimed = PutLine { user: Some(claim.into()), client_host: Some("a b".into()), ..put() };
        assert_eq!(who(&claimed), format!("\"{claim}\"@\"a b\" 10.0.0.5:41022"));
    }

    /// What may have made a program put is never said as certain, and all of it is.
    #[test]
    fn updates_before_a_put() {
        let by = |before: &[Update], may_be_others| {
            let after = Some(Box::new(Before { updates: before.to_vec(), may_be_others }));
            let ioc = Some(("second".into(), 12, "softIoc".into()));
            let thread = Some("ramp".into());
            who(&PutLine {
                process: Some(Box::new(ProcessLine { ioc, thread, after, ..ProcessLine::default() })),
                ..put()
            })
        };
        let one = by(&[update("A:X", 3_000_000, 1)], false);
        let said = "(thread ramp, softIoc pid 12, perhaps after A:X changed 3.00 ms before)";
        assert!(one.ends_with(said), "{one}");
        let often = by(&[update("A:X", 3_000_000, 4)], false);
        assert!(often.ends_with("perhaps after A:X changed 4 times, last 3.00 ms before)"), "{often}");
        let may = [Update { is_sure: false, ..update("A:X", 3_000_000, 1) }];
        let may = by(&may, false);
        assert!(may.ends_with("perhaps after A:X was processed 3.00 ms before)"), "{may}");
        let two = [update("A:X", 3_000_000, 1), update("B, root", 12_000_000, 1)];
        let said = "perhaps after A:X changed 3.00 ms before or \"B, root\" changed 12.00 ms before)";
        assert!(by(&two, false).ends_with(said), "{}", by(&two, false));
        assert!(by(&two, true).ends_with(" before or another)"));
        let many = [1, 2, 3, 4].map(|ago| update("A:X", ago * 1_000_000, 1));
        assert!(by(&many, false).ends_with("3.00 ms before or another)"), "{}", by(&many, false));
    }

    /// Any program names its threads.
    #[test]
    fn a_name_of_a_thread_is_one_word() {
        let thread = ProcessLine {
            ioc: Some(("second".into(), 12, "softIoc".into())),
            thread: Some("x, root pid 1".into()),
            ..ProcessLine::default()
        };
        let told = who(&PutLine { process: Some(Box::new(thread)), ..put() });
        assert!(told.contains("(thread \"x, root pid 1\", softIoc pid 12)"), "{told}");
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
        assert_eq!(by(unsure), format!("{claimed} (circuit of caput pid 812)"));
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
            Part { links: all(links), threads: all(threads), sequencer: None, programs: all(programs) }
        };
        let maybe =
            ProcessLine { part: part(&["A.OUT", "B.OUT"], &[], &["sncRamp", "python3"]), ..ioc.clone() };
        assert!(by(maybe).contains("(perhaps CA link A.OUT or CA link B.OUT or thread sncRamp or another, "));
        let thread = |thread: &str, links: &[&str]| {
            by(ProcessLine { thread: Some(thread.into()), part: part(links, &[thread], &[]), ..ioc.clone() })
        };
        assert!(thread("sncRamp", &["A.OUT"]).contains("(thread sncRamp, "), "links don't matter then");
        let program = |thread: &str| {
            let sequencer = Some("ramp".to_owned());
            let part = Part { sequencer, ..part(&[], &[thread], &[]) };
            by(ProcessLine { thread: Some(thread.into()), part, ..ioc.clone() })
        };
        assert!(program("ramp").contains("(program ramp, "));
        assert!(program("ramp_1").contains("(program ramp, its thread ramp_1, "));
        assert!(thread("dbCaLink", &["A.OUT", "B.OUT"]).contains("(CA link A.OUT or B.OUT, "));
        assert!(thread("dbCaLink", &[]).contains("(CA link, "));
        let known = by(ProcessLine { record: Some("A.OUT".into()), thread: Some("dbCaLink".into()), ..ioc });
        assert!(known.contains("(CA link A.OUT, caput pid 812)"), "{known}");
    }
}
