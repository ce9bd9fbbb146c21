//! The examples, on a log that was recorded.

#[path = "../examples/chains.rs"]
mod chains;
#[path = "../examples/events.rs"]
mod events;
#[path = "../examples/puts.rs"]
mod puts;

use iocreplay::Logs;

fn logs() -> Logs {
    Logs::open([concat!(env!("CARGO_MANIFEST_DIR"), "/tests/travelled/i686-5.10/log")]).unwrap()
}

#[test]
fn the_put_log() {
    let lines = puts::lines(&logs());
    assert_eq!(lines.len(), 99);
    assert_eq!(lines[5], "GUEST:R0: 50 -> 51 by ?, ok");
}

#[test]
fn causes_of_chains() {
    let causes = chains::causes(&logs());
    assert_eq!(causes.into_iter().collect::<Vec<_>>(), [("put", (99, 990))]);
}

#[test]
fn completions_of_records() {
    let records = events::completions(&logs());
    assert_eq!(records.len(), 10);
    assert!(records.values().all(|completed| *completed == (99, 0)), "{records:?}");
}
