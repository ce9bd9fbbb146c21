//! What the network was doing, by what the clients truly did: `net`, for one client, in a time, with what is left out.

use super::truth::time;
use super::{nanoseconds, plant, Plant};
use serde_json::Value;

/// How late the recorder may learn of an end, nanoseconds.
const LATE: i64 = 2_000_000_000;

fn lines(plant: &Plant, more: &[&str]) -> Vec<Value> {
    let (code, out, said) = plant.outcome(&[&["net", "--all", "--utc", "--format", "jsonl"], more].concat());
    assert_eq!(code, 0, "{said}");
    crate::rig::json_lines(out.as_bytes())
}

/// Of each client's circuit: that it came and went if it did, who ended it, and what went over it.
#[test]
fn each_client_did_what_it_did() {
    let Some(plant) = plant("plant-net") else { return };
    let truth = &plant.truth;
    let recorded = time(truth.part("recording"), "begin");
    for client in truth.list("clients") {
        for (port, address) in client["addresses"].as_object().expect("addresses") {
            let address = address.as_str().expect("an address");
            let ioc = truth
                .list("iocs")
                .iter()
                .find(|ioc| port.parse().is_ok_and(|port: u16| ioc["port"] == port))
                .expect("an IOC");
            let rows = lines(plant, &["--client", address]);
            assert!(
                rows.iter().all(|row| row["client"] == address && row["user"] == client["user"]),
                "{rows:?}"
            );
            let of = |kind: &'static str| rows.iter().filter(move |row| row["kind"] == kind);

            // it was there before, or came after the client had begun
            let connected: Vec<&Value> = of("connected").collect();
            let before = time(client, "began") < recorded && port == "5074";
            assert_eq!(connected.len(), usize::from(!before), "{rows:?}");
            for row in connected {
                assert!(nanoseconds(&row["time"]) >= time(client, "began"), "{row}");
            }
            // the visitor left by itself; what RF1 had ended with it, and by it
            let (closed, broken): (Vec<&Value>, Vec<&Value>) =
                (of("closed").collect(), of("disconnected").collect());
            let left = time(client, "ended") < time(ioc, "begin");
            match (left, port.as_str()) {
                (true, "5074") if client["name"] == "visitor" => {
                    assert_eq!((closed.len(), broken.len()), (1, 0), "{rows:?}");
                    assert_eq!(closed[0]["by"], "client", "{rows:?}");
                    let at = nanoseconds(&closed[0]["time"]);
                    assert!((at - time(client, "ended")).abs() < LATE, "{rows:?}");
                }
                (_, "5084") => {
                    assert_eq!((closed.len(), broken.len()), (0, 1), "killed, so not the client's: {rows:?}");
                    assert_eq!((&broken[0]["by"], &broken[0]["ioc"]), (&"server".into(), &"RF1".into()));
                    let at = nanoseconds(&broken[0]["time"]);
                    assert!(at >= time(ioc, "begin") && at <= time(ioc, "end") + LATE, "{rows:?}");
                }
                _ => {}
            }
            // what the server refuses it says beforehand
            let barred: Vec<&Value> = of("no_access").collect();
            let denied = truth.puts().iter().filter(|put| {
                put["client"] == client["name"]
                    && put["outcome"] == "denied"
                    && truth.ioc_of(put["pv"].as_str().unwrap())["name"] == ioc["name"]
            });
            let first = denied.map(|put| time(put, "begin")).min();
            assert_eq!(barred.len(), usize::from(first.is_some()), "{rows:?}");
            for row in barred {
                assert_eq!((&row["pv"], &row["reason"]), (&"LI:GUN:HV".into(), &"no_write".into()), "{row}");
                assert!(first.is_some_and(|first| nanoseconds(&row["time"]) <= first), "{row}");
            }
            // a put without callback is followed by a read
            let own: Vec<&Value> = truth
                .puts()
                .iter()
                .filter(|put| {
                    put["client"] == client["name"]
                        && truth.ioc_of(put["pv"].as_str().expect("a PV"))["name"] == ioc["name"]
                })
                .collect();
            let traffic: Vec<&Value> = of("traffic").collect();
            if client["name"] == "visitor" {
                continue; // it was there for a tenth of a second: too short to be counted apart
            }
            assert_eq!(traffic.len(), 1, "{rows:?}");
            let text = traffic[0]["text"].as_str().expect("a text");
            let gets = own.iter().filter(|put| put["notify"] == false).count();
            let said = |count: usize, what: &str| {
                let ending = if count == 1 { "" } else { "s" };
                text.contains(&format!(" {count} {what}{ending}"))
            };
            assert!(said(own.len(), "put") && said(gets, "get"), "{} puts, {gets} gets: {text}", own.len());
            assert!(said(0, "new subscription"), "{text}");
        }
    }
}

/// Filters leave out what they say, and nothing else.
#[test]
fn some_of_the_network() {
    let Some(plant) = plant("plant-net-some") else { return };
    let all = lines(plant, &[]);
    let (since, until) = (plant.truth.moment("T4"), plant.truth.moment("T5"));
    let found =
        lines(plant, &["--since", &super::iso(since), "--until", &super::iso(until), "--kind", "connected"]);
    let expected: Vec<&Value> = all
        .iter()
        .filter(|row| row["kind"] == "connected" && (since..until).contains(&nanoseconds(&row["time"])))
        .collect();
    assert!(!expected.is_empty());
    assert_eq!(found.iter().collect::<Vec<_>>(), expected);
    for user in ["bob", "b*"] {
        let found = lines(plant, &["--user", user]);
        let is_one = |row: &&Value| {
            row["user"].as_str().is_some_and(|name| name == "bob" || (user == "b*" && name.starts_with('b')))
        };
        assert_eq!(found.iter().collect::<Vec<_>>(), all.iter().filter(is_one).collect::<Vec<_>>());
        assert!(!found.is_empty());
    }
    let found = lines(plant, &["--kind", "channel_traffic", "--exclude", "LI:*"]);
    let expected: Vec<&Value> = all
        .iter()
        .filter(|row| {
            row["kind"] == "channel_traffic" && row["pv"].as_str().is_some_and(|pv| !pv.starts_with("LI:"))
        })
        .collect();
    assert_eq!(found.iter().collect::<Vec<_>>(), expected);
}
