//! Logs of a network: searches and circuits of clients, and what `net` says of them.

use super::{run, write_events, SECOND};
use iocrec_log::event::*;
use serde_json::Value as Json;
use std::path::Path;
use tempfile::TempDir;

pub const SERVER: Address = address(9, 5064);
pub const NAMESPACE: u64 = 7;

pub const fn address(last: u8, port: u16) -> Address {
    Address { ip: u32::from_be_bytes([10, 0, 0, last]), port }
}

pub fn log_of(mut events: Vec<(u64, Fact)>) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    events.sort_by_key(|(time, _)| *time);
    write_events(&directory.path().join("log"), "box1", 7, events);
    directory
}

/// Searches of a client for a name, from one second to another, and who answered.
pub fn searched(
    name: &str,
    client: Address,
    (since, last): (u64, u64),
    count: u32,
    answers: &[Address],
) -> (u64, Fact) {
    let searches = Searches {
        namespace: NAMESPACE,
        client,
        tcp: false,
        name: name.into(),
        count,
        since: since * SECOND,
        last: last * SECOND,
        not_found: 0,
        answers: answers.iter().map(|server| (*server, 1)).collect(),
    };
    ((last + 1) * SECOND, Fact::from(searches))
}

pub fn circuit(at: u64, id: u32, client: Address) -> Vec<(u64, Fact)> {
    let (user, host) = ("carol".to_owned(), "office".to_owned());
    let circuit = Circuit { id, client, server: SERVER, user, host, minor: 13, origin: Origin::Opened };
    let ends = CircuitEnds { circuit: id, namespace: NAMESPACE, server: Some(1), client: None };
    vec![(at * SECOND, Fact::from(circuit)), (at * SECOND, Fact::CircuitEnds(ends))]
}

pub fn channel(at: u64, id: u32, circuit: u32, pv: &str) -> (u64, Fact) {
    let (cid, sid, dbr, count) = (Some(id), Some(id), Some(6), Some(1));
    let origin = Origin::Opened;
    (at * SECOND, Fact::from(Channel { id, circuit, cid, sid, pv: pv.into(), dbr, count, origin }))
}

pub fn works(directory: &Path, arguments: &[&str]) -> String {
    let (code, out, err) = run(directory, &[&["net", "log", "--utc"], arguments].concat());
    assert_eq!(code, 0, "{arguments:?}: {err}");
    out
}

pub fn rows(directory: &Path, arguments: &[&str]) -> Vec<Json> {
    let out = works(directory, &[arguments, &["--format", "jsonl"]].concat());
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
