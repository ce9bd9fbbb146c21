//! Callback queues of real IOCs that fill and overflow, compared with what the IOCs say of them themselves
//! (`callbackQueueStatus`, `scanOnceQueueStatus`).

use crate::rig::own_program::shared_library_for;
use crate::rig::{epics_versions, iocreplay, wait_until, Ioc, Rig};
use serde_json::Value;
use std::process::Command;

const PORT: u16 = 5078;

/// What iocreplay tells of queues.
fn queues(rig: &Rig) -> Vec<Value> {
    let out = Command::new(iocreplay())
        .args(["stuck", &rig.log(), "--format", "jsonl"])
        .output()
        .expect("iocreplay runs");
    let text = String::from_utf8_lossy(&out.stdout);
    let rows = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    rows.filter(|row: &Value| row["kind"] == "queue").collect()
}

/// High-water mark, size and overflows of the queue of low priority and of that of scanOnce, as the IOC says.
fn truth(rig: &Rig, ioc: &mut Ioc) -> [[u64; 3]; 2] {
    let file = rig.path("queues");
    ioc.command(&format!("epicsEnvSet QUEUES {file}"));
    put(ioc, "TRUTH.PROC", 1.0);
    let text = std::fs::read_to_string(file).unwrap();
    let numbers: Vec<u64> =
        text.split_ascii_whitespace().map(|word| word.parse().expect("a number")).collect();
    [0, 3].map(|at| [0, 1, 2].map(|member| numbers[at + member]))
}

fn told(row: &Value) -> [u64; 3] {
    ["queue_most", "queue_size", "overflows"].map(|key| row[key].as_u64().unwrap_or_else(|| panic!("{row}")))
}

fn put(ioc: &mut Ioc, field: &str, value: f64) {
    ioc.command(&format!("dbpf H:{field} {value}"));
}

/// Threads sleep in a record while the queues that they work off are filled. `waits`: until it is over.
fn fill(version: Option<&str>, waits: bool) {
    let name = version.unwrap_or("own");
    let Some(rig) = Rig::new(&format!("queues-{name}")) else { return };
    let library = shared_library_for(&rig, "stuck.c", version);
    let mut options = vec!["--macros", "P=H:", "--routines", &library];
    options.extend(version.iter().flat_map(|version| ["--epics", version]));
    let mut ioc = rig.ioc_with("queues", PORT, "stuck.db", &options);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    wait_until("the IOC is in the log", || {
        let out = Command::new(iocreplay()).args(["records", &rig.log()]).output().expect("iocreplay runs");
        String::from_utf8_lossy(&out.stdout).contains("H:FLOOD")
    });
    std::thread::sleep(std::time::Duration::from_millis(2500));
    // less than half: nothing to tell
    put(&mut ioc, "COUNT", 900.0);
    put(&mut ioc, "FLOOD.PROC", 1.0);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    // 1500 of 2000 while cbLow sleeps
    put(&mut ioc, "LOW.A", 4.0);
    put(&mut ioc, "EVENT.PROC", 1.0);
    std::thread::sleep(std::time::Duration::from_millis(100));
    put(&mut ioc, "COUNT", 1500.0);
    put(&mut ioc, "FLOOD.PROC", 1.0);
    // 1300 for the thousand of scanOnce
    put(&mut ioc, "SECONDS", 4.0);
    put(&mut ioc, "ONCE", 1.0);
    put(&mut ioc, "COUNT", 1300.0);
    put(&mut ioc, "FLOOD.PROC", 1.0);
    wait_until("both are told", || queues(&rig).len() >= 2);
    if waits {
        wait_until("both are over", || queues(&rig).iter().all(|row| !row["end"].is_null()));
    }
    let [low, once] = truth(&rig, &mut ioc);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    assert!(low[0] >= 1500 && low[2] == 0 && once[2] > 290, "{low:?} {once:?}");
    let rows = queues(&rig);
    assert_eq!(rows.len(), 2, "{rows:#?}");
    for (queue, truth, thread, record) in
        [("callback queue low", low, "cbLow", "H:LOW"), ("scanOnce queue", once, "scanOnce", "H:FLOOD")]
    {
        let row =
            rows.iter().find(|row| row["queue"] == queue).unwrap_or_else(|| panic!("{queue}: {rows:#?}"));
        assert_eq!(told(row), truth, "{row}");
        if waits {
            assert_eq!(
                (row["thread"].as_str(), row["record"].as_str()),
                (Some(thread), Some(record)),
                "{row}"
            );
            let seconds = ["seconds_min", "seconds_max"].map(|key| row[key].as_f64().unwrap());
            assert!(seconds[0] < 4.1 && (2.9..6.5).contains(&seconds[1]), "{row}");
        }
    }
}

#[test]
fn queues_fill_and_overflow() {
    fill(None, true);
}

#[test]
fn in_earlier_versions() {
    for version in epics_versions().iter().filter(|version| !version.contains('-')) {
        fill(Some(version), false);
    }
}
