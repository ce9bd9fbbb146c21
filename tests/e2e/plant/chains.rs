//! What led to what: `why` and `traces`.

use super::truth::{record_of, time, Truth};
use super::{is_right, iso, nanoseconds, plant, same};
use crate::rig::spans::{parse, shape};
use serde_json::Value;

/// For each change whose cause is known: its value, who put, and the records on the way.
#[test]
fn changes_have_their_causes() {
    let Some(plant) = plant("plant-why") else { return };
    let mut wrong = Vec::new();
    for cause in plant.truth.list("causes").iter().filter(|cause| cause["kind"] != "scan") {
        let pv = cause["pv"].as_str().expect("a PV");
        let at = iso(time(cause, "time"));
        let why = plant.object(&["why", "--json", "--utc", "--at", &at, pv]);
        let put = &plant.truth.puts()[cause["put"].as_u64().expect("a number") as usize];
        let client = plant.truth.client(&put["client"]).expect("a client");
        let (first, path) = followed(&why);
        let mut expect = |what: &str, found: &Value, truth: &Value| {
            if !same(found, truth) {
                wrong.push(format!("{pv} ({}): {what} is not {truth} in {why}", cause["kind"]));
            }
        };
        expect("to", &why["to"], &cause["to"]);
        expect("ioc", &why["ioc"], &plant.truth.ioc_of(pv)["name"]);
        expect("user", &first["user"], &client["user"]);
        expect("client_host", &first["client_host"], &client["host"]);
        expect("path", &path.into(), &cause["path"]);
        let begun = nanoseconds(&first["chain"][0]["time"]);
        expect("put", &(begun >= time(put, "begin") && begun <= time(put, "end")).into(), &true.into());
    }
    is_right(&wrong);
}

/// The change that the CP links of an answer lead to, which nothing in the log caused; and the records that processed from
/// there on. One source for each link here: nothing else changed.
fn followed(why: &Value) -> (&Value, Vec<Value>) {
    let links = why["links"].as_array().expect("links");
    assert!(links.len() <= 1, "a record here has one CP link: {why}");
    let (first, mut path) = match links.first() {
        Some(link) => followed(&link["change"]),
        None => (why, Vec::new()),
    };
    let steps = why["chain"].as_array().expect("steps").iter();
    path.extend(steps.filter(|step| step["what"] == "process").map(|step| step["record"].clone()));
    (first, path)
}

/// A scanned record's input leads to the put to its source. The puts made meanwhile are all listed, too.
#[test]
fn causes_of_scanned_records_are_only_possible() {
    let Some(plant) = plant("plant-why-scan") else { return };
    let scanned: Vec<&Value> =
        plant.truth.list("causes").iter().filter(|cause| cause["kind"] == "scan").collect();
    assert!(!scanned.is_empty());
    for cause in scanned {
        let pv = cause["pv"].as_str().expect("a PV");
        let why = plant.object(&["why", "--json", "--utc", "--at", &iso(time(cause, "time")), pv]);
        let put = &plant.truth.puts()[cause["put"].as_u64().expect("a number") as usize];
        assert!(same(&why["to"], &cause["to"]), "{why}");
        assert!(why["user"].is_null() && why["begun_by"].is_null(), "{why}");
        // every put since the record processed before, and no other; of one that was under way at the time of either
        // process the client does not know on which side it was
        let (since, until) = (nanoseconds(&why["last_before"]), nanoseconds(&why["time"]));
        let meanwhile = why["meanwhile"].as_array().expect("puts");
        let found: Vec<&Value> = meanwhile.iter().map(|line| &line["pv"]).collect();
        let puts = || plant.truth.puts().iter().filter(|put| put["outcome"] != "denied");
        let count = |pv: &Value, certain: bool| {
            let is_between = |put: &&Value| {
                let (begin, end) = (time(put, "begin"), time(put, "end"));
                put["pv"] == *pv
                    && if certain { begin > since && end < until } else { end > since && begin < until }
            };
            puts().filter(is_between).count()
        };
        // the earliest of many are only counted
        let more = why["meanwhile_more"].as_u64().expect("a number") as usize;
        for pv in puts().map(|put| &put["pv"]).chain(found.iter().copied()) {
            let told = found.iter().filter(|told| **told == pv).count();
            let is_true = told <= count(pv, false) && told + more >= count(pv, true);
            assert!(is_true, "{told} puts of {pv}, and {more} of any: {why}");
        }
        let it = meanwhile.iter().find(|line| line["pv"] == put["pv"]).expect("the put");
        assert_eq!(it["same_value"], true, "{why}");
        let changed: Vec<&Value> = why["sources"]
            .as_array()
            .expect("sources")
            .iter()
            .filter(|source| source["since_last"] == true)
            .collect();
        let client = plant.truth.client(&put["client"]).expect("a client");
        assert_eq!(changed.len(), 1, "{why}");
        let change = &changed[0]["change"];
        assert_eq!((&change["pv"], &change["user"]), (&cause["path"][0], &client["user"]), "{why}");
    }
}

/// What a put sets off within its thread, and over CA links, by the databases: the tree as it is drawn.
pub fn tree(truth: &Truth, put: &Value) -> Vec<String> {
    let pv = put["pv"].as_str().expect("a PV");
    let root = if put["client"].is_null() { format!("put {pv}") } else { format!("caput {pv}") };
    let mut tree = vec![root];
    let is_refused = ["denied", "ECA_PUTFAIL"].iter().any(|outcome| put["outcome"] == **outcome);
    if is_refused || put["dbr"].as_u64() >= Some(35) || pv.ends_with(".DESC") {
        return tree;
    }
    let record = record_of(pv);
    match record {
        "LI:RF:REQ" => tree.extend(
            [
                "  process LI:RF:REQ",
                "    caputlink RF:AMP:SP",
                "      caput RF:AMP:SP",
                "        process RF:AMP:SP",
                "          process RF:AMP:RB",
            ]
            .map(String::from),
        ),
        "LI:PUMP:RATIO" => {
            tree.extend(["  process LI:PUMP:RATIO", "    process LI:PUMP:SUM"].map(String::from))
        }
        "LI:SLOW" => tree.extend(["  process LI:SLOW", "    process LI:SLOW:DONE"].map(String::from)),
        // each turn posts the event of the next, but for the one that changes nothing
        "RF:EVENT:LOOP" => {
            let is_it = |looped: &&Value| looped["records"][0] == record;
            let turns =
                truth.list("loops").iter().find(is_it).and_then(|it| it["turns"].as_u64()).expect("turns");
            tree.extend(
                (1..=turns as usize + 1).map(|turn| format!("{}process {record}", "  ".repeat(turn))),
            );
        }
        _ => {
            tree.push(format!("  process {record}"));
            if (record.starts_with("LI:COR") || record == "LI:MAG1:SP") && record.ends_with(":SP") {
                tree.push(format!("    process {}:RB", record.trim_end_matches(":SP")));
            }
        }
    }
    tree
}

/// The chain of every put has what it set off, and nothing else.
#[test]
fn puts_set_off_what_they_did() {
    let Some(plant) = plant("plant-traces") else { return };
    let spans = parse(plant.replay(&["traces", "--format", "otlp"]).as_bytes());
    let linked = |id: &String| spans.iter().any(|span| span.id == *id);
    let is_put = |name: &str| name.starts_with("caput ") || name.starts_with("put ");
    let roots = spans
        .iter()
        .filter(|span| span.parent.is_empty() && is_put(&span.name) && !span.links.iter().any(linked));
    let drawn: Vec<String> = roots.map(|root| shape(&spans, root)).collect();
    let lines = |put: &Value| tree(&plant.truth, put).iter().map(|line| format!("{line}\n")).collect();
    let truth: Vec<String> = plant.truth.puts().iter().map(lines).collect();
    let mut wrong = Vec::new();
    for (number, (drawn, truth)) in drawn.iter().zip(&truth).enumerate() {
        if drawn != truth {
            wrong.push(format!("chain {number} is\n{drawn}and not\n{truth}"));
        }
    }
    is_right(&wrong);
    assert_eq!(drawn.len(), truth.len());
}
