//! The report's page: its verdict, its key moments and its data.

use super::truth::{record_of, time};
use super::values::ALARMS_BY_PUT;
use super::{is_how, is_right, plant, Plant};
use serde_json::Value;
use std::collections::BTreeMap;

/// How long after the end of an IOC the recorder may see it: it looks at intervals, and a busy machine is no defect.
const NOTICED: i64 = 3_000_000_000;
/// A PV's event is sent after the record has processed, whose time it has; the log's times are those of the probes.
const NEAR: i64 = 50_000_000;

/// The page's data, and its columns as rows.
pub struct Page {
    pub text: String,
    /// Kinds and names of the key moments; a mark's text is its name.
    moments: Vec<(String, String)>,
    data: Value,
}

impl Page {
    pub fn of(plant: &Plant, more: &[&str]) -> Page {
        let page = plant.replay(&[&["report", "--utc"], more].concat());
        let moments = page.split_once(r#"<ol id="moments">"#).map_or("", |(_, rest)| rest);
        let moments = moments.split_once("</ol>").map_or("", |(list, _)| list);
        let moments = moments.split("<li><a class=\"").skip(1).map(|moment| {
            let (kind, rest) = moment.split_once('"').expect("its end");
            let (_, rest) = rest.split_once(r#"<b class="name">"#).expect("a name");
            let (name, rest) = rest.split_once("</b>").expect("its end");
            let text = rest.split('<').next().unwrap_or_default().trim();
            (kind.to_owned(), if name.is_empty() { text } else { name }.to_owned())
        });
        let moments = moments.collect();
        let (_, data) = page.split_once(r#"id="data">"#).expect("the page has data");
        let data = serde_json::from_str(data.split_once("</script>").expect("their end").0).expect("JSON");
        let head = page.split_once("<main>").expect("a head").1.split_once("<noscript>").expect("its end").0;
        let mut text = String::new();
        let mut inside = false;
        for letter in head.chars() {
            match letter {
                '<' => inside = true,
                '>' => inside = false,
                letter if !inside => text.push(letter),
                _ => {}
            }
        }
        Page { text: text.split_whitespace().collect::<Vec<_>>().join(" "), moments, data }
    }

    fn string(&self, number: &Value) -> &str {
        let number =
            number.as_u64().and_then(|number| usize::try_from(number).ok()).expect("a string's number");
        self.data["strings"][number].as_str().expect("a string")
    }

    fn record(&self, number: &Value) -> &str {
        let number =
            number.as_u64().and_then(|number| usize::try_from(number).ok()).expect("a record's number");
        self.string(&self.data["records"]["name"][number])
    }

    /// Nanoseconds since 1970.
    fn time(&self, ms: &Value) -> i64 {
        let base = self.data["base"].as_i64().expect("a base");
        (base * 1_000_000) + (ms.as_f64().expect("milliseconds") * 1e6) as i64
    }

    fn rows<'a>(&'a self, table: &'a str, column: &'a str) -> impl Iterator<Item = &'a Value> {
        self.data[table][column].as_array().expect("a column").iter()
    }
}

#[test]
fn the_verdict_and_the_key_moments() {
    let Some(plant) = plant("the_verdict_and_the_key_moments") else { return };
    let (page, truth) = (Page::of(plant, &[]), &plant.truth);
    let killed =
        truth.list("iocs").iter().find(|ioc| ioc["how"] == "killed by SIGKILL").expect("one is killed");
    let name = killed["name"].as_str().expect("a name");
    assert!(page.text.contains(&format!("{name} was killed by SIGKILL")), "{}", page.text);
    let mut wrong = Vec::new();
    for ioc in page.data["iocs"].as_array().expect("IOCs") {
        let truth = truth.ioc(&ioc["name"]);
        let end = page.time(&ioc["end"]);
        if !(time(truth, "begin")..=time(truth, "end") + NOTICED).contains(&end)
            || !is_how(&ioc["how"], truth)
        {
            wrong.push(format!("{ioc} is {truth}"));
        }
    }
    // Everything before the end is in the minute before: the script takes half of one.
    let before = truth.puts().iter().filter(|put| time(put, "end") < time(killed, "begin")).count();
    let users = truth
        .puts()
        .iter()
        .map(|put| put["client"].as_str())
        .collect::<std::collections::BTreeSet<_>>()
        .len();
    for part in [
        format!("{before} puts by {users} writers"),
        "a CP loop processed RF:LOOP:".to_owned(),
        "CP loop begins".to_owned(),
        "denied LI:GUN:HV ← ".to_owned(),
        "asked 130".to_owned(),
        "“beam on” mark".to_owned(),
        format!("{name} was killed by SIGKILL, sent by pid "),
    ] {
        if !page.text.contains(&part) {
            wrong.push(format!("{part} is not in {}", page.text));
        }
    }
    is_right(&wrong);
}

/// The list as a whole: it has what the rules choose of what truly happened, and nothing else.
#[test]
fn the_key_moments_are_these_and_no_others() {
    const MOST: usize = 8;
    let Some(plant) = plant("the_key_moments_are_these_and_no_others") else { return };
    let (page, truth) = (Page::of(plant, &[]), &plant.truth);
    let moments: Vec<(&str, &str)> =
        page.moments.iter().map(|(kind, name)| (kind.as_str(), name.as_str())).collect();
    // a busy machine may add a thread that stood still or a slow client: what is chosen last has no room then
    let found: Vec<(&str, &str)> =
        moments.iter().copied().filter(|(kind, _)| !matches!(*kind, "stuck" | "slow")).collect();
    let room = MOST - (moments.len() - found.len());
    let first_put = |outcome: &str| {
        let put = truth.puts().iter().find(|put| put["outcome"] == outcome).expect("such a put");
        put["pv"].as_str().expect("a PV")
    };
    let mark = format!("“{}”", truth.list("marks")[0]["text"].as_str().expect("a text"));
    let ends = truth.list("iocs").iter().map(|ioc| ("end", ioc["name"].as_str().expect("a name")));
    let mut expected: Vec<(&str, &str)> = ends.collect();
    assert_eq!(expected.len(), 2, "both ended");
    // in the order of the rules, but for alarms
    expected.extend([("denied", first_put("denied")), ("mark", mark.as_str())]);
    expected.extend([("fast", "RF:LOOP:"), ("put", first_put("clamped"))]);
    expected.truncate(room - 1);
    let is_alarm = |kind: &str| matches!(kind, "major" | "invalid");
    let alarms: Vec<&str> = found.iter().filter(|(kind, _)| is_alarm(kind)).map(|(_, name)| *name).collect();
    let others = found.iter().filter(|(kind, _)| !is_alarm(kind));
    let mut others: Vec<(&str, &str)> = others
        .map(
            |(kind, name)| if *kind == "fast" { (*kind, &name[..name.len().min(8)]) } else { (*kind, *name) },
        )
        .collect();
    let count = expected.len();
    expected.sort_unstable();
    others.sort_unstable();
    assert_eq!(others, expected, "{moments:?}");
    // when each record went MAJOR or INVALID for the first time
    let mut truly: Vec<(i64, &str)> = Vec::new();
    for (pv, events) in truth.part("events").as_object().expect("by PV") {
        if pv.contains('.') || truth.list("looping").iter().any(|looping| looping == record_of(pv)) {
            continue;
        }
        let severity = |event: &Value| event["severity"].as_u64().expect("a number");
        let events = events.as_array().expect("events");
        let went = events.windows(2).find(|pair| severity(&pair[0]) < 2 && severity(&pair[1]) >= 2);
        truly.extend(went.map(|pair| (time(&pair[1], "stamp"), pv.as_str())));
    }
    truly.sort_unstable();
    let first = truly[0].0;
    assert_eq!(alarms.len(), room - count, "{moments:?}");
    let (at, _) = truly.iter().find(|(_, pv)| *pv == alarms[0]).expect("it truly went MAJOR");
    assert!(at - first < NEAR, "{moments:?}: {truly:?}");
    for (number, name) in alarms.iter().enumerate() {
        let is_new = !alarms[..number].contains(name);
        assert!(is_new && truly.iter().any(|(_, pv)| pv == name), "{name}: {truly:?}");
    }
}

#[test]
fn the_page_has_every_put() {
    let Some(plant) = plant("the_page_has_every_put") else { return };
    let (page, truth) = (Page::of(plant, &[]), &plant.truth);
    let found: Vec<(i64, &str)> = page
        .rows("puts", "time")
        .zip(page.rows("puts", "pv"))
        .map(|(time, pv)| (page.time(time), page.string(pv)))
        .collect();
    assert_eq!(found.len(), truth.puts().len());
    let mut wrong = Vec::new();
    for ((at, pv), put) in found.iter().zip(truth.puts()) {
        let during = time(put, "begin")..=time(put, "end");
        // times are rounded down to a microsecond here
        if *pv != put["pv"] || !during.contains(&(at + 1000)) {
            wrong.push(format!("{pv} at {at} is {put}"));
        }
    }
    let flags = |flag: u64| {
        page.rows("puts", "flags").filter(|flags| flags.as_u64().unwrap_or(0) & flag != 0).count()
    };
    let outcomes = |outcome: &str| truth.puts().iter().filter(|put| put["outcome"] == outcome).count();
    for (flag, outcome) in [(1, "denied"), (2, "ECA_PUTFAIL"), (4, "clamped")] {
        if flags(flag) != outcomes(outcome) {
            wrong.push(format!("{} puts {outcome}, not {}", flags(flag), outcomes(outcome)));
        }
    }
    is_right(&wrong);
}

/// What an independent client was sent of each record's alarms, against the page's transitions.
#[test]
fn the_page_has_every_alarm() {
    let Some(plant) = plant("the_page_has_every_alarm") else { return };
    let (page, truth) = (Page::of(plant, &[]), &plant.truth);
    let mut found: BTreeMap<&str, Vec<(i64, u64)>> = BTreeMap::new();
    let begin = truth.moment("T0");
    for ((at, record), to) in
        page.rows("alarms", "time").zip(page.rows("alarms", "record")).zip(page.rows("alarms", "to"))
    {
        let at = page.time(at);
        if at >= begin {
            found.entry(page.record(record)).or_default().push((at, to.as_u64().expect("a severity")));
        }
    }
    let mut wrong = Vec::new();
    for (pv, events) in truth.part("events").as_object().expect("by PV") {
        if pv.contains('.') || truth.list("looping").iter().any(|looping| looping == record_of(pv)) {
            continue;
        }
        let mut expected: Vec<(i64, u64)> = Vec::new();
        let mut last: Option<(u64, u64)> = None;
        for event in events.as_array().expect("events") {
            let alarm = ["severity", "status"].map(|key| event[key].as_u64().expect("a number"));
            let alarm = (alarm[0], alarm[1]);
            let at = time(event, "stamp");
            if last.is_some_and(|last| last != alarm) && at >= begin {
                expected.push((at, alarm.0));
            }
            last = Some(alarm);
        }
        let seen = found.remove(pv.as_str()).unwrap_or_default();
        let same = seen.len() == expected.len()
            && seen
                .iter()
                .zip(&expected)
                .all(|((at, to), (stamp, severity))| to == severity && (at - stamp).abs() < NEAR);
        if !same {
            wrong.push(format!("{pv}: {seen:?}, not {expected:?}"));
        }
    }
    is_right(&wrong);
}

/// Alarms that a put led to, by links or not, name whoever put.
#[test]
fn the_page_names_who_led_to_an_alarm() {
    let Some(plant) = plant("the_page_names_who_led_to_an_alarm") else { return };
    let (page, truth) = (Page::of(plant, &[]), &plant.truth);
    let mut seen = 0;
    let rows = page.rows("alarms", "time").zip(page.rows("alarms", "record"));
    for ((at, record), cause) in rows.zip(page.rows("alarms", "cause")) {
        let (at, record) = (page.time(at), page.record(record));
        let Some((_, source)) = ALARMS_BY_PUT.iter().find(|(name, _)| *name == record) else { continue };
        let put = truth.puts().iter().rev().find(|put| put["pv"] == *source && time(put, "begin") <= at);
        let (Some(put), Some(cause)) = (put, cause.as_u64()) else { continue };
        let cause = &page.data["causes"][cause as usize];
        let text = |part: usize| page.string(&cause[part]);
        let client = truth.client(&put["client"]).expect("a client");
        assert_eq!(cause[0], "put", "{record}: {cause}");
        assert_eq!(text(1), *source, "{record}");
        assert!(text(3).contains(client["user"].as_str().expect("a user")), "{record}: {}", text(3));
        seen += 1;
    }
    assert!(seen >= 15, "{seen}");
}
