//! Spans for Zipkin, by the definition of its interface (zipkin2-api.yaml): no key that it does not have, its patterns of ids,
//! tags that are all texts. Each is compared with the span of the same id in OTLP JSON.

mod common;

use common::{run, segments, write_log};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const KEYS: [&str; 11] = [
    "traceId",
    "parentId",
    "id",
    "kind",
    "name",
    "timestamp",
    "duration",
    "localEndpoint",
    "remoteEndpoint",
    "annotations",
    "tags",
];

fn keys_are(value: &Value, known: &[&str]) {
    for key in value.as_object().unwrap_or_else(|| panic!("{value}")).keys() {
        assert!(known.contains(&key.as_str()), "{key} in {value}");
    }
}

fn endpoint(value: &Value) {
    keys_are(value, &["serviceName", "ipv4", "ipv6", "port"]);
    for (key, part) in value.as_object().unwrap() {
        match key.as_str() {
            "serviceName" => assert!(part.is_string()),
            "ipv4" => assert!(part.as_str().unwrap().parse::<std::net::Ipv4Addr>().is_ok(), "{value}"),
            "ipv6" => assert!(part.as_str().unwrap().parse::<std::net::Ipv6Addr>().is_ok(), "{value}"),
            _ => assert!((1..=65535).contains(&part.as_u64().unwrap()), "{value}"),
        }
    }
}

fn is_hex(value: &Value, digits: usize) -> bool {
    let text = value.as_str().unwrap();
    text.len() == digits
        && text.bytes().all(|c| b"0123456789abcdef".contains(&c))
        && text.bytes().any(|c| c != b'0')
}

/// All spans, each checked.
fn zipkin(directory: &Path) -> Vec<Value> {
    let (code, out, err) = run(directory, &["traces", "log", "--format", "zipkin"]);
    assert_eq!(code, 0, "{err}");
    let spans: Vec<Value> = serde_json::from_str(&out).unwrap();
    for span in &spans {
        keys_are(span, &KEYS);
        assert!(is_hex(&span["traceId"], 32) && is_hex(&span["id"], 16), "{span}");
        assert!(span.get("parentId").is_none_or(|id| is_hex(id, 16)), "{span}");
        assert!(
            span.get("kind").is_none_or(|kind| ["CLIENT", "SERVER"].contains(&kind.as_str().unwrap())),
            "{span}"
        );
        assert!(!span["name"].as_str().unwrap().is_empty());
        assert!(span.get("timestamp").is_none_or(|time| time.as_u64().unwrap() > 0), "{span}");
        assert!(span["duration"].as_u64().unwrap() > 0, "{span}");
        endpoint(&span["localEndpoint"]);
        assert!(span["localEndpoint"]["serviceName"].is_string());
        span.get("remoteEndpoint").into_iter().for_each(endpoint);
        for annotation in span["annotations"].as_array().into_iter().flatten() {
            keys_are(annotation, &["timestamp", "value"]);
            assert!(annotation["timestamp"].is_u64() && annotation["value"].is_string(), "{span}");
        }
        assert!(span["tags"].as_object().unwrap().values().all(Value::is_string), "{span}");
    }
    spans
}

/// What an AnyValue of OTLP JSON is as a tag.
fn tag(value: &Value) -> String {
    let (kind, value) = value.as_object().unwrap().iter().next().unwrap();
    match (kind.as_str(), value) {
        ("arrayValue", _) => {
            let parts = value["values"].as_array().unwrap().iter();
            let parts: Vec<Value> = parts
                .map(|part| match part.as_object().unwrap().iter().next().unwrap() {
                    (kind, text) if kind == "intValue" => {
                        text.as_str().unwrap().parse::<i64>().unwrap().into()
                    }
                    (_, other) => other.clone(),
                })
                .collect();
            Value::from(parts).to_string()
        }
        (_, Value::String(text)) => text.clone(),
        (_, other) => other.to_string(),
    }
}

/// Compares both formats; gives how many spans there are.
fn compare(directory: &Path) -> usize {
    let spans = zipkin(directory);
    let by_id: BTreeMap<&str, &Value> =
        spans.iter().map(|span| (span["id"].as_str().unwrap(), span)).collect();
    assert_eq!(by_id.len(), spans.len());
    let (_, otlp, _) = run(directory, &["traces", "log", "--format", "otlp"]);
    let mut seen = 0;
    for batch in otlp.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        for resource in batch["resourceSpans"].as_array().unwrap() {
            let of_resource = resource["resource"]["attributes"].as_array().unwrap();
            for span in resource["scopeSpans"][0]["spans"].as_array().unwrap() {
                seen += 1;
                let own = by_id[span["spanId"].as_str().unwrap()];
                assert_eq!((&own["traceId"], &own["name"]), (&span["traceId"], &span["name"]));
                assert_eq!(own.get("parentId"), span.get("parentSpanId"));
                let time = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
                let (start, end) = (time("startTimeUnixNano"), time("endTimeUnixNano"));
                assert_eq!(own["timestamp"].as_u64().unwrap_or(0), start / 1000);
                let duration = own["duration"].as_u64().unwrap();
                assert!(duration * 1000 >= end - start && duration * 1000 < end - start + 2000, "{own}");
                let mut tags: BTreeMap<String, String> = of_resource
                    .iter()
                    .chain(span["attributes"].as_array().unwrap())
                    .map(|attribute| {
                        (attribute["key"].as_str().unwrap().to_owned(), tag(&attribute["value"]))
                    })
                    .collect();
                assert_eq!(own["localEndpoint"]["serviceName"], tags.remove("service.name").unwrap());
                tags.insert("start.unix_nano".into(), start.to_string());
                tags.insert("end.unix_nano".into(), end.to_string());
                if let Some(status) = span.get("status") {
                    tags.insert("error".into(), status["message"].as_str().unwrap().to_owned());
                }
                let own_tags: BTreeMap<String, String> = serde_json::from_value(own["tags"].clone()).unwrap();
                assert_eq!(own_tags, tags);
                let events = span["events"].as_array().map_or(0, Vec::len);
                assert_eq!(own["annotations"].as_array().map_or(0, Vec::len), events);
            }
        }
    }
    assert_eq!(seen, spans.len());
    seen
}

#[test]
fn spans_are_those_of_otlp() {
    let here = tempfile::tempdir().unwrap();
    write_log(&here.path().join("log"), "box1", 7);
    assert!(compare(here.path()) >= 10);
    let spans = zipkin(here.path());
    let named = |name: &str| spans.iter().find(|span| span["name"] == name).unwrap();
    let remote = serde_json::json!({"serviceName": "console3", "ipv4": "10.0.0.5", "port": 41001});
    assert_eq!(named("caput T:SP")["remoteEndpoint"], remote);
    let remote = serde_json::json!({"serviceName": "second", "ipv4": "10.0.0.9", "port": 5066});
    assert_eq!(named("caputlink R:FAR")["remoteEndpoint"], remote);
    let late = &named("process T:SLOW")["annotations"][1]["value"];
    assert_eq!(*late, "asynchronous completion: {\"thread.name\":\"cbLow\"}");
}

#[test]
fn logs_that_were_recorded() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut spans = 0;
    for file in
        segments(&here.join("tests/plant/log")).into_iter().chain(segments(&here.join("../log/tests/golden")))
    {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("log")).unwrap();
        fs::copy(&file, place.path().join("log/0.iocrec")).unwrap();
        spans += compare(place.path());
    }
    assert!(spans > 1000, "{spans}");
}

#[test]
fn nothing_is_an_empty_array_and_following_has_no_end() {
    let here = tempfile::tempdir().unwrap();
    write_log(&here.path().join("log"), "box1", 7);
    let (code, out, _) = run(here.path(), &["traces", "log", "--format", "zipkin", "--pv", "NONE"]);
    assert_eq!((code, serde_json::from_str::<Vec<Value>>(&out).unwrap().len()), (0, 0));
    let (code, _, err) = run(here.path(), &["traces", "log", "--format", "zipkin", "--follow"]);
    assert!(code == 2 && err.contains("--follow never writes") && err.lines().count() == 1, "{err}");
}
