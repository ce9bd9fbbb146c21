//! What the page says without its scripts, and what its data holds.

use crate::common::{self, run, write_events, SECOND};
use crate::story;
use iocrec_log::event::*;
use serde_json::Value;
use std::path::Path;

/// The text of a page between two tags with these ids or classes, without tags and with entities as letters.
fn text(page: &str, from: &str, to: &str) -> String {
    let (_, rest) = page.split_once(from).unwrap_or_else(|| panic!("{from} is not in the page"));
    let (part, _) = rest.split_once(to).unwrap();
    let mut text = String::new();
    let mut inside = false;
    for letter in format!("<{part}").chars() {
        match letter {
            '<' => inside = true,
            '>' => inside = false,
            letter if !inside => text.push(letter),
            _ => {}
        }
    }
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words
        .replace("&#60;", "<")
        .replace("&#62;", ">")
        .replace("&#34;", "\"")
        .replace("&amp;", "&")
        .replace("&#38;", "&")
}

fn data(page: &str) -> Value {
    let (_, rest) = page.split_once(r#"id="data">"#).unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn the_head_says_what_ended_and_what_was_before() {
    let directory = tempfile::tempdir().unwrap();
    let page = story::report(directory.path());
    let verdict = text(&page, r#"class="verdict""#, "</p>");
    assert_eq!(
        verdict,
        "demo was killed by SIGKILL at 14:13:45. In the 24 s before, as far back as the log goes: at least 65 puts by 3 writers, \
         at least 1 record went MAJOR, 1 INVALID, and an event processed L:A up to 2 000 times a second."
    );
    let missing = text(&page, r#"id="missing""#, "</ul>");
    for part in [
        "Not in this log 17 hits lost 14:13:23.0–14:13:24.0, ring buffer full; counts there are minima.",
        "Tier perf only more may be lost under load than with tier ring: ring: kernel 4.19 is older than 5.8.",
        "Who sent SIGKILL to demo: not in this log.",
        "outcome unknown",
        "Gaps demo, second: the log does not say from when to when they were recorded.",
    ] {
        assert!(missing.contains(part), "{part} in {missing}");
    }
    let (_, rest) = page.split_once(r#"id="missing""#).unwrap();
    let (items, _) = rest.split_once("</ul>").unwrap();
    for (what, link) in
        [("17 hits lost", "#t="), ("Tier perf only", "#timeline"), ("Who sent SIGKILL", "#t=")]
    {
        let item = items.split("<li>").find(|item| item.contains(what)).unwrap();
        assert!(item.contains(&format!("href=\"{link}")) && item.contains(">show</a>"), "{item}");
    }
    let moments = text(&page, r#"id="moments""#, "</ol>");
    let order = [
        "14:13:22.100⊘ denied T:CALC.A ← 9 alice",
        "14:13:23.600⚑ “beam lost” mark",
        "14:13:30.000■ T:CALC MAJOR NO_ALARM, 120 scan .1 second",
        "14:13:40.0↻ L:A processed fast by an event from here on up to 2 000/s",
        "14:13:44.000✎ T:SP 2 → 5 asked 7 alice",
        "14:13:44.000◆ T:SP INVALID NO_ALARM, 5 same chain, +0.1 ms",
        "14:13:45✕ demo was killed by SIGKILL pid 100",
    ];
    let places: Vec<Option<usize>> = order.iter().map(|part| moments.find(part)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} in {moments}");
    let card = text(&page, r#"class="ioc rank3""#, "</article>");
    assert!(card.contains("demo on box1 was killed by SIGKILL at 14:13:45"), "{card}");
}

#[test]
fn a_log_in_which_nothing_is_missing_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let mut facts: Vec<(u64, Fact)> =
        vec![(SECOND, Fact::Tier(TierChoice { tier: Tier::Ring, refused: vec![] }))];
    for ioc in [1, 2] {
        let attached = Attached { ioc, from: 0, since: 0, cause: String::new() };
        facts.push((SECOND, Fact::Attached(attached)));
    }
    for n in 2..5 {
        facts.push((n * SECOND, crate::common::process(3, -100, 2, 2)));
        facts.push((n * SECOND + 1000, crate::common::complete(3, -200, 2, 1.0, 0)));
    }
    write_events(&directory.path().join("log"), "box1", 7, facts);
    let (code, page, err) = run(directory.path(), &["report", "--utc", "log"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let verdict = text(&page, r#"class="verdict""#, "</p>");
    assert_eq!(
        verdict,
        "No IOC ended, nothing is known to be lost, and no record was seen to go into alarm. In these 2.0 s: no puts from \
         outside."
    );
    assert!(text(&page, r#"id="missing""#, "</div>").contains("Nothing is known to be missing"));
    assert!(text(&page, r#"class="moments""#, "</section>").contains("None was seen: no IOC that ended"));
    // of some records it says so of these alone
    let (_, page, _) = run(directory.path(), &["report", "--utc", "log", "--pv", "T:CALC"]);
    let verdict = text(&page, r#"class="verdict""#, "</p>");
    assert_eq!(
        verdict,
        "No IOC ended, nothing is known to be lost, and no record of those asked for was seen to go into alarm. In these 2.0 s: \
         no puts from outside of those asked for."
    );
    let missing = text(&page, r#"id="missing""#, "</div>");
    assert!(missing.contains("every put that was asked for with its outcome"), "{missing}");
    let moments = text(&page, r#"class="moments""#, "</section>");
    assert!(moments.contains("only those that were asked for were looked at"), "{moments}");
}

/// The page on the log of the plant, whose script (`tests/rig/plant/record.py`) says who put what, and what was said.
fn of_plant(choice: &[&str]) -> (String, String) {
    let plant = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plant");
    let (code, page, err) = run(&plant, &[&["report", "--utc", "log"], choice].concat());
    assert_eq!(code, 0, "{choice:?}: {err}");
    (page, err)
}

/// The texts of a column of the page's data.
fn texts(data: &Value, column: &Value) -> Vec<String> {
    let numbers = column.as_array().expect("a column").iter();
    let text = |number: &Value| data["strings"][number.as_u64()? as usize].as_str().map(str::to_owned);
    numbers.filter_map(text).collect()
}

/// The records of a column of the page's data.
fn records(data: &Value, column: &Value) -> Vec<String> {
    let names = texts(data, &data["records"]["name"]);
    let numbers = column.as_array().expect("a column").iter().filter_map(Value::as_u64);
    numbers.filter_map(|number| names.get(number as usize).cloned()).collect()
}

/// The records that the page's data says to have processed.
fn processed(data: &Value) -> Vec<String> {
    let counts = data["records"]["processed"].as_array().expect("a column").iter();
    let names = texts(data, &data["records"]["name"]).into_iter();
    let seen = names.zip(counts).filter(|(_, count)| count.as_u64() != Some(0));
    seen.map(|(name, _)| name).collect()
}

const KILLED: &str =
    "RF1 was killed by SIGKILL at 10:52:45. In the 26 s before, as far back as the log goes: ";

#[test]
fn a_page_of_some_pvs_is_about_these() {
    let (whole, _) = of_plant(&[]);
    assert!(!whole.contains(r#"id="limits""#), "nothing limits it");
    // eight puts, the last after the end of the IOC that the verdict is about
    let (page, err) = of_plant(&["--pv", "LI:MAG1:SP"]);
    assert_eq!(err, "");
    let verdict = text(&page, r#"class="verdict""#, "</p>");
    assert_eq!(verdict, format!("{KILLED}7 puts of those asked for by 2 writers."));
    let limits = text(&page, r#"class="limits""#, "</p>");
    assert!(limits.contains("limited to PVs and records that match LI:MAG1:SP: their puts"), "{limits}");
    let foot = text(&page, "<footer", "</footer>");
    assert!(foot.contains("limited to PVs and records that match LI:MAG1:SP"), "{foot}");
    assert!(foot.contains("--pv"), "{foot}");
    let found = data(&page);
    assert_eq!(texts(&found, &found["puts"]["pv"]), ["LI:MAG1:SP"; 8]);
    assert_eq!((&found["puts"]["total"], &found["chain_total"]), (&8.into(), &8.into()));
    assert_eq!((&found["chosen"], &data(&whole)["chosen"]), (&true.into(), &false.into()));
    assert_eq!(processed(&found), ["LI:MAG1:SP"]);
    assert_eq!(found["alarms"]["total"], 0);
    // one that is in alarm by what others did: its transitions, and no others'
    let (page, _) = of_plant(&["--pv", "LI:TEMP1"]);
    let verdict = text(&page, r#"class="verdict""#, "</p>");
    let expected = "4 puts of those asked for by 2 writers and 1 record of those asked for went MAJOR.";
    assert_eq!(verdict, format!("{KILLED}{expected}"));
    let found = data(&page);
    assert_eq!(records(&found, &found["alarms"]["record"]), ["LI:TEMP1"; 6]);
    let card = text(&page, r#"class="ioc rank0""#, "</article>");
    assert!(card.contains("1 of those asked for seen to process"), "{card}");
    // all but some
    let (page, _) = of_plant(&["--exclude", "LI:*"]);
    let found = data(&page);
    assert!(processed(&found).iter().all(|name| name.starts_with("RF:")) && !processed(&found).is_empty());
    assert!(texts(&found, &found["puts"]["pv"]).iter().all(|pv| pv.starts_with("RF:")));
}

#[test]
fn a_page_of_some_users_is_about_their_puts() {
    let (page, err) = of_plant(&["--user", "daemon"]);
    assert_eq!(err, "");
    // what records did is not told by half: that of all is there
    let verdict = text(&page, r#"class="verdict""#, "</p>");
    let expected = "17 puts of those asked for by 1 writer, 10 records went MAJOR, 2 INVALID, and a CP loop";
    assert!(verdict.starts_with(&format!("{KILLED}{expected}")), "{verdict}");
    let limits = text(&page, r#"class="limits""#, "</p>");
    assert!(limits.contains("puts of user daemon and chains with one; values, alarms"), "{limits}");
    let (found, whole) = (data(&page), data(&of_plant(&[]).0));
    assert_eq!((&found["puts"]["total"], &found["chain_total"]), (&17.into(), &17.into()));
    assert_eq!(found["alarms"]["total"], whole["alarms"]["total"]);
    assert_eq!(processed(&found).len(), processed(&whole).len());
    // the two puts to the magnet that are hers
    let (page, _) = of_plant(&["--pv", "LI:MAG1:*", "--client", "laptop-7"]);
    let found = data(&page);
    assert_eq!(texts(&found, &found["puts"]["pv"]), ["LI:MAG1:SP"; 2]);
    assert_eq!(found["chain_total"], 2);
    let records = records(&found, &found["alarms"]["record"]);
    assert!(!records.is_empty() && records.iter().all(|name| name.starts_with("LI:MAG1:")), "{records:?}");
}

#[test]
fn a_page_of_what_is_not_there_says_so() {
    for (choice, reason) in [
        (["--pv", "LI:MAGG1:SP"], "no PV or record matches 'LI:MAGG1:SP'"),
        (["--user", "alise"], "no user matches 'alise'"),
        (["--client", "laptop-8"], "no client matches 'laptop-8'"),
    ] {
        let (page, err) = of_plant(&choice);
        assert!(err.contains(reason) && err.lines().count() == 1, "{err}");
        let verdict = text(&page, r#"class="verdict""#, "</p>");
        assert!(verdict.contains("no puts from outside of those asked for"), "{verdict}");
        assert_eq!(data(&page)["puts"]["total"], 0);
    }
}

/// The verdict on a log of these facts.
fn verdict(facts: Vec<(u64, Fact)>) -> String {
    let directory = tempfile::tempdir().unwrap();
    write_events(&directory.path().join("log"), "box1", 7, facts);
    let (_, page, _) = run(directory.path(), &["report", "--utc", "log"]);
    text(&page, r#"class="verdict""#, "</p>")
}

fn scan(time: u64, severity: u16) -> [(u64, Fact); 2] {
    let process = crate::common::process(3, -100, 2, 2);
    [(time, process), (time + 1000, crate::common::complete(3, -200, 2, 1.0, severity))]
}

#[test]
fn the_verdict_is_about_the_worst() {
    let end = |time, ioc, how: &str| (time, Fact::IocEnd(IocEnd { ioc, how: how.into() }));
    let first = scan(SECOND, 0);
    let both = |one: &str, other: &str| {
        verdict([first.to_vec(), vec![end(70 * SECOND, 1, one), end(90 * SECOND, 2, other)]].concat())
    };
    for (one, other, expected) in [
        (
            "exit status 0",
            "killed by SIGSEGV",
            "second was killed by SIGSEGV at 14:14:50. In the minute before: no puts",
        ),
        ("exit status 1", "exit status 0", "demo exited with status 1 at 14:14:30."),
        ("exit status 0", "", "second ended (how is not known) at 14:14:50."),
        (
            "exit status 0 (up to 6.0 s before this was seen)",
            "",
            "second ended (how is not known) at 14:14:50.",
        ),
        (
            "exit status 1 (up to 6.0 s before this was seen)",
            "",
            "demo exited with status 1 (up to 6.0 s before this was seen) at 14:14:30.",
        ),
        ("", "", "demo ended (how is not known) at 14:14:30."),
        ("killed by SIGTERM", "killed by SIGKILL", "demo was killed by SIGTERM at 14:14:30."),
    ] {
        let verdict = both(one, other);
        assert!(verdict.starts_with(expected), "{verdict}");
    }
    let alarm = verdict([first, scan(3 * SECOND, 1), scan(4 * SECOND, 2), scan(5 * SECOND, 2)].concat());
    assert_eq!(
        alarm,
        "No IOC ended; T:CALC went MAJOR NO_ALARM at 14:13:24.000. In the 3.0 s before, as far back as the log goes: no puts \
         from outside and 1 record went MAJOR."
    );
    // A record that was in alarm when it was first seen did not go there.
    let always = verdict([scan(SECOND, 2), scan(2 * SECOND, 2)].concat());
    assert!(always.contains("no record was seen to go into alarm"), "{always}");
}

/// A chain is told whole, also where it began in an IOC that was not asked for; that one's alarms are not counted.
#[test]
fn the_verdict_is_about_the_iocs_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let facts = [scan(SECOND / 2, 0).to_vec(), common::happenings()].concat();
    write_events(&directory.path().join("log"), "box1", 7, facts);
    for (ioc, is_its) in [("demo", true), ("second", false)] {
        let (_, page, _) = run(directory.path(), &["report", "--utc", "--ioc", ioc, "log"]);
        let verdict = text(&page, r#"class="verdict""#, "</p>");
        assert_eq!(verdict.contains("1 record went MAJOR"), is_its, "{ioc}: {verdict}");
        let moments = text(&page, r#"id="moments""#, "</ol>");
        assert_eq!(moments.contains("T:CALC MAJOR"), is_its, "{ioc}: {moments}");
    }
}

/// A record that events process, each `period` nanoseconds, 1000 times.
fn fast(id: u32, name: &str, since: u64, period: u64) -> Vec<(u64, Fact)> {
    let site = CallSite {
        id: 4,
        ioc: 1,
        address: 2,
        function: "eventCallback".into(),
        module: "libdbCore.so".into(),
    };
    let record = Record { id, ioc: 1, address: 4096, name: name.into(), rtype: "calc".into() };
    let mut facts = vec![(since, Fact::from(record)), (since, Fact::from(site))];
    for n in 0..1000 {
        let time = since + n * period;
        facts.push((time, crate::common::process(4, -100, 4, id)));
        facts.push((time + 1000, crate::common::complete(4, -200, id, 1.0, 0)));
    }
    facts
}

/// What is fast begins when it was first so itself, whatever else was fast before; of what is so as its recording begins,
/// that is not known.
#[test]
fn what_is_fast_has_its_own_beginning() {
    let moments = |facts: Vec<Vec<(u64, Fact)>>| {
        let directory = tempfile::tempdir().unwrap();
        write_events(&directory.path().join("log"), "box1", 7, facts.concat());
        let (_, page, _) = run(directory.path(), &["report", "--utc", "log"]);
        text(&page, r#"id="moments""#, "</ol>")
    };
    let slower = fast(11, "L:A", 5 * SECOND, 800_000);
    let faster = |since| fast(12, "L:B", since, 500_000);
    let two = moments(vec![scan(SECOND, 0).to_vec(), slower, faster(10 * SECOND)]);
    assert!(two.contains("14:13:30.0↻ L:B processed fast by an event from here on up to 2 000/s"), "{two}");
    let first = moments(vec![faster(SECOND)]);
    let expected = "14:13:21.0↻ L:B processed fast by an event, perhaps before, too up to 2 000/s";
    assert!(first.contains(expected), "{first}");
}

/// What leads to an IOC that was asked for is told, and how fast it is, only of its own.
#[test]
fn what_is_fast_in_another_ioc_is_not_told_of_this_one() {
    let directory = tempfile::tempdir().unwrap();
    let mut facts = [scan(SECOND, 0).to_vec(), fast(12, "L:B", 10 * SECOND, 500_000)].concat();
    for n in 0..1000 {
        let (time, value) = (10 * SECOND + n * 500_000, n as f64 + 1.0);
        let link = CaLinkPut {
            thread: 4,
            sp: -150,
            site: 0,
            record: Some(12),
            pv: "R:FAR".into(),
            dbf: Dbf::Double,
            count: 1,
            value: iocrec_log::event::Value::Double(value),
        };
        facts.push((time + 500, Fact::from(link)));
        facts.push((time + 50_000, common::ca_put(2, 2, false, n as u32, value)));
        for (after, kind, sp) in [(60_000, PutKind::PutField, -1000), (61_000, PutKind::Put, -1200)] {
            facts.push((time + after, common::put(kind, common::REMOTE, sp, 0, (4, 3), value - 1.0, value)));
        }
        facts.push((time + 62_000, common::process(common::REMOTE, -1200, 0, 4)));
        facts.push((time + 63_000, common::complete(common::REMOTE, -1300, 4, value, 0)));
    }
    facts.sort_by_key(|(time, _)| *time);
    write_events(&directory.path().join("log"), "box1", 7, facts);
    for (ioc, is_its) in [("demo", true), ("second", false)] {
        let (_, page, _) = run(directory.path(), &["report", "--utc", "--ioc", ioc, "log"]);
        let of_page =
            [text(&page, r#"class="verdict""#, "</p>"), text(&page, r#"class="moments""#, "</section>")]
                .concat();
        assert_eq!(of_page.contains("L:B"), is_its, "{ioc}: {of_page}");
    }
}

/// Between two recorders an IOC may have ended, and something gone into alarm.
#[test]
fn the_verdict_claims_nothing_of_times_without_a_recorder() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let facts = [scan(SECOND, 0), scan(2 * SECOND, 0)].concat();
    common::write_events_later(&log, "box1", 1, 0, facts.clone(), 3 * SECOND);
    let verdict = || {
        let (_, page, _) = run(directory.path(), &["report", "--utc", "log"]);
        text(&page, r#"class="verdict""#, "</p>")
    };
    let alone = verdict();
    assert!(alone.starts_with("No IOC ended, nothing is known to be lost, and no record"), "{alone}");
    common::write_events_later(&log, "box1", 2, 60, facts, 3 * SECOND);
    let both = verdict();
    assert!(both.starts_with("No IOC was seen to end, not all was recorded, and no record"), "{both}");
}

#[test]
fn an_empty_log_gives_a_page_and_a_word() {
    let directory = tempfile::tempdir().unwrap();
    write_events(&directory.path().join("log"), "box1", 7, vec![]);
    let (code, page, err) = run(directory.path(), &["report", "--utc", "log"]);
    assert_eq!(code, 0, "{err}");
    assert!(page.contains("</html>") && err.lines().count() == 1, "{err}");
}

/// Of an IOC that no log has, the page claims nothing, whatever else the logs hold.
#[test]
fn an_ioc_that_is_not_there() {
    let directory = tempfile::tempdir().unwrap();
    story::report(directory.path());
    for option in ["--ioc", "--pod"] {
        let (code, page, err) = run(directory.path(), &["report", "--utc", "log", option, "it's none"]);
        assert!(code == 0 && err.contains("it's none"), "{err}");
        let verdict = text(&page, r#"class="verdict""#, "</p>");
        assert_eq!(verdict, "Nothing was recorded of what was asked for.");
        for claim in ["No IOC ended", "Nothing is known to be missing", "None was seen"] {
            assert!(!page.contains(claim), "{claim}");
        }
        let command = format!(r"iocreplay report {option} 'it'\''s none' --utc log");
        let foot = text(&page, "<footer", "</footer>").replace("&#39;", "'");
        assert!(foot.contains(&command), "{foot}");
    }
}

#[test]
fn a_time_can_be_chosen() {
    let directory = tempfile::tempdir().unwrap();
    story::report(directory.path());
    let until = ["report", "--utc", "log", "--until", "2026-09-21T14:13:31"];
    let (code, page, _) = run(directory.path(), &until);
    let verdict = text(&page, r#"class="verdict""#, "</p>");
    assert!(code == 0 && verdict.starts_with("No IOC ended; 17 hits were lost in"), "{verdict}");
}

/// Text from a log is text: in the head it is escaped, in the data no `<` remains.
#[test]
fn hostile_texts_are_texts() {
    let directory = tempfile::tempdir().unwrap();
    let page = story::report(directory.path());
    let json = page.split_once(r#"id="data">"#).unwrap().1.split_once("</script>").unwrap().0;
    assert!(!json.contains('<'));
    assert!(!page.contains("<img") && !page.contains("<b>bold"), "it stands in the page as it is");
    assert_eq!(page.matches("<script").count(), 4, "ours alone");
    let data = data(&page);
    let strings: Vec<&str> = data["strings"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for text in [story::USER, story::RECORD] {
        assert!(strings.contains(&text), "{text} in {strings:?}");
    }
    assert!(page.lines().all(iocrec_log::escape::is_safe));
}

#[test]
fn the_data_are_those_of_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let data = data(&story::report(directory.path()));
    let (_, puts, _) = run(directory.path(), &["puts", "--utc", "--format", "jsonl", "log"]);
    assert_eq!(data["puts"]["time"].as_array().unwrap().len(), puts.lines().count());
    assert_eq!(data["puts"]["total"], puts.lines().count());
    let plot = |name: &str| {
        let of = |plot: &&Value| {
            let record = plot["record"].as_u64().unwrap() as usize;
            data["strings"][data["records"]["name"][record].as_u64().unwrap() as usize] == name
        };
        data["plots"]
            .as_array()
            .unwrap()
            .iter()
            .find(of)
            .unwrap_or_else(|| panic!("no plot of {name}"))
            .clone()
    };
    let calc = plot("T:CALC");
    assert_eq!(calc["time"].as_array().unwrap().len() as u64, story::VALUES + 1);
    assert_eq!((&calc["thinned"], &calc["seen"]), (&false.into(), &(story::VALUES + 6).into()));
    // The base is the first time, rounded down to a millisecond.
    let base = data["base"].as_i64().unwrap() as f64;
    assert_eq!(base + data["first"].as_f64().unwrap(), (crate::common::WALL / 1_000_000 + 1000) as f64);
    let first = data["alarms"]["time"][0].as_f64().unwrap();
    assert!((first - 0.15).abs() < 0.01, "{first}");
}

/// A page of a log with far too much of everything keeps its limits, and says what it leaves out.
#[test]
fn the_page_is_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let mut facts = Vec::new();
    for n in 0..600_u64 {
        let (id, name) = (100 + n as u32, format!("MANY:RECORD:NUMBER:{n}"));
        facts.push((SECOND, Fact::from(Record { id, ioc: 1, address: 1, name, rtype: "calc".into() })));
    }
    for n in 0..60_000_u64 {
        let (t, id) = (SECOND + n * 1_000_000, 100 + (n % 600) as u32);
        facts.push((t, crate::common::process(3, -100, 2, id)));
        facts.push((
            t + 1000,
            crate::common::complete(3, -200, id, (n * n % 977) as f64, (n / 600 % 4) as u16),
        ));
        if n % 2 == 0 {
            facts.push((t, crate::common::ca_put(1, 1, false, n as u32, n as f64)));
        }
    }
    facts.sort_by_key(|(time, _)| *time);
    write_events(&directory.path().join("log"), "box1", 7, facts);
    let (code, page, err) = run(directory.path(), &["report", "--utc", "log"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(page.len() < 5 << 20, "{}", page.len());
    let data = data(&page);
    let count = |path: &str| data.pointer(path).unwrap().as_array().unwrap().len();
    assert_eq!((count("/puts/time"), &data["puts"]["total"]), (20_000, &30_000.into()));
    assert_eq!(count("/alarms/time"), 5000);
    assert!(data["alarms"]["total"].as_u64().unwrap() > 50_000);
    assert_eq!((count("/plots"), count("/chains")), (40, 300));
    assert!(data["plots"]
        .as_array()
        .unwrap()
        .iter()
        .all(|plot| plot["time"].as_array().unwrap().len() <= 1400));
}

/// What a recorder lost on another host than the one that was asked for says nothing of this one.
#[test]
fn what_another_host_lost_is_not_told_of_this_one() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let scan = || common::process(common::SCAN, -100, 2, 2);
    let (source, cause) = (LossSource::Hits, "ring buffer full".to_owned());
    let loss = Fact::Loss(Loss { source, count: 17, since: SECOND, cause });
    write_events(&here.join("box1"), "box1", 1, vec![(SECOND, scan()), (3 * SECOND, scan())]);
    write_events(
        &here.join("box2"),
        "box2",
        2,
        vec![(SECOND, scan()), (2 * SECOND, loss), (3 * SECOND, scan())],
    );
    let head = |options: &[&str]| {
        let (code, _, err) = run(here, &[&["report", "box1", "box2", "-o", "page.html"], options].concat());
        assert_eq!(code, 0, "{err}");
        text(&std::fs::read_to_string(here.join("page.html")).unwrap(), r#"class="verdict""#, r#"id="data""#)
    };
    assert!(head(&[]).contains("17 hits"), "{}", head(&[]));
    assert!(!head(&["--host", "box1"]).contains("17 hits"), "{}", head(&["--host", "box1"]));
    // who gets the page does not see what was said on standard error
    let clocks = "Several hosts: how the clocks of box1, box2 differ is not known";
    assert!(head(&[]).contains(clocks), "{}", head(&[]));
    assert!(!head(&["--host", "box1"]).contains("clocks"), "{}", head(&["--host", "box1"]));
}

/// What puts left in a record that does not process is in its plot, as the values of its processing are.
#[test]
fn puts_that_process_nothing_are_points_of_a_plot() {
    let directory = tempfile::tempdir().unwrap();
    let mut facts = Vec::new();
    for (time, old, new) in [(SECOND, 1.0, 5.0), (2 * SECOND, 5.0, 7.0), (3 * SECOND, 7.0, 9.0)] {
        facts.push((time, common::put(PutKind::PutField, common::CLIENT, -1000, 1, (1, 1), old, new)));
        facts.push((time + 1000, common::put(PutKind::Put, common::CLIENT, -1200, 0, (1, 1), old, new)));
    }
    facts.push((3 * SECOND + 2000, common::process(common::CLIENT, -1200, 0, 1)));
    facts.push((3 * SECOND + 3000, common::complete(common::CLIENT, -1300, 1, 9.0, 0)));
    // it stands for the time after
    facts.extend(scan(6 * SECOND, 0));
    write_events(&directory.path().join("log"), "box1", 7, facts);
    let (code, page, err) = run(directory.path(), &["report", "--utc", "log"]);
    assert_eq!(code, 0, "{err}");
    let data = data(&page);
    let name = |plot: &Value| {
        let record = plot["record"].as_u64().unwrap() as usize;
        data["strings"][data["records"]["name"][record].as_u64().unwrap() as usize].clone()
    };
    let mut plots = data["plots"].as_array().unwrap().iter();
    let plot = plots.find(|plot| name(plot) == "T:SP").expect("a plot of T:SP");
    let values: Vec<f64> = plot["value"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    assert_eq!(values, [5.0, 7.0, 9.0], "{plot}");
}
