//! What an IOC did before it ended: `last`.

use super::truth::time;
use super::{nanoseconds, plant, same};
use serde_json::{json, Value};

/// What `last` looks back at, nanoseconds.
const MINUTE: i64 = 60_000_000_000;

/// The IOC that was killed: how, what it was at, who had put last; and of the other one, that it was at nothing.
#[test]
fn what_an_ioc_was_at_when_it_ended() {
    let Some(plant) = plant("plant-last") else { return };
    let truth = &plant.truth;
    for ioc in truth.list("iocs") {
        let name = ioc["name"].as_str().expect("a name");
        let last = plant.object(&["last", "--json", "--utc", name]);
        assert_eq!(
            (&last["ioc"], &last["pid"], &last["how"]),
            (&ioc["name"], &ioc["pid"], &ioc["how"]),
            "{last}"
        );
        let end = nanoseconds(&last["end"]);
        assert!(end >= time(ioc, "begin") && end <= time(ioc, "end") + 1_000_000_000, "{last}");
        assert_eq!(last["not_seen"], json!([]), "{last}");
        let begun = last["begun"].as_array().expect("records");
        let busy: Value = begun.iter().map(|record| record["record"].clone()).collect();
        assert_eq!(busy, ioc["busy"], "{last}");

        // its last puts, newest last: as many as are shown
        let own = |put: &&Value| {
            let pv = put["pv"].as_str().expect("a PV");
            truth.ioc_of(pv)["name"] == *name && time(put, "begin") > time(ioc, "begin") - MINUTE
        };
        let own: Vec<&Value> = truth.puts().iter().filter(own).collect();
        let shown = last["puts"].as_array().expect("puts").iter();
        let shown: Vec<&Value> = shown.filter(|put| put["via"] != "ca_link").collect();
        assert!(!shown.is_empty() && shown.len() <= own.len(), "{last}");
        for (shown, put) in shown.iter().rev().zip(own.iter().rev()) {
            assert_eq!(shown["pv"], put["pv"], "{last}");
            assert!(same(&shown["requested"], &put["requested"]), "{shown}");
            let user = truth.client(&put["client"]).map_or(&Value::Null, |client| &client["user"]);
            assert_eq!(shown["user"], *user, "{shown}");
        }
    }
    // without a name, the one that ended last, which is said
    let (code, last, said) = plant.outcome(&["last", "--json", "--utc"]);
    let last: Value = serde_json::from_str(&last).expect("JSON");
    assert!(code == 0 && said.contains("shows LINAC1"), "{said}");
    let ended = truth.list("iocs").iter().max_by_key(|ioc| time(ioc, "end")).expect("an IOC");
    assert_eq!(last["ioc"], ended["name"]);
}
