//! What IOCs use of the machine, compared with what the kernel says of them when the test asks: a real IOC whose records
//! spin, take memory and open files (tests/rig/using.c).

use crate::rig::own_program::shared_library;
use crate::rig::{json_lines, wait_until, Ioc, Rig};
use serde_json::{json, Value};
use std::fs;
use std::time::{Duration, Instant};

const PORT: u16 = 5078;
/// DBR_DOUBLE, the protocol's number.
const DOUBLE: u16 = 6;

/// What the log has, oldest first.
fn rows(rig: &Rig) -> Vec<Value> {
    json_lines(&rig.replay("health", &["--json", "--utc"]).stdout)
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or(f64::NAN)
}

/// CPU time of a process and of its thread of a name, seconds, by /proc.
fn used(pid: u32, thread: &str) -> (f64, f64) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("its stat");
    let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    let ticks: f64 = fields[11..13].iter().map(|field| field.parse::<f64>().expect("a number")).sum();
    let mut of_thread = 0.0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).expect("threads").flatten() {
        let read = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
        if read("comm").trim() == thread {
            let run = read("schedstat");
            of_thread +=
                run.split(' ').next().and_then(|run| run.parse::<f64>().ok()).expect("its time") / 1e9;
        }
    }
    (ticks / 100.0, of_thread)
}

fn start(rig: &Rig) -> Ioc {
    let library = shared_library(rig, "using.c");
    rig.ioc_with("using", PORT, "using.db", &["--macros", "P=USE:", "--routines", &library])
}

/// In the packet tier, too, which has no probes.
#[test]
fn what_an_ioc_uses_is_what_the_kernel_says() {
    let Some(rig) = Rig::new("health") else { return };
    let mut ioc = start(&rig);
    let pid = ioc.pid();
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", "packet"]);
    let mut client = rig.client("libca", &[PORT], &[]);
    wait_until("the first row", || !rows(&rig).is_empty());
    let first = rows(&rig).remove(0);
    assert_eq!((&first["ioc"], &first["pid"]), (&json!("using"), &json!(pid)), "{first}");
    assert!((0.8..2.5).contains(&number(&first, "seconds")), "of its own period: {first}");

    // 60 ms each 200 ms
    client.put("USE:SPIN.A", DOUBLE, json!(60.0), true);
    wait_until("it spins", || rows(&rig).last().is_some_and(|row| number(row, "cpu_percent") > 20.0));
    let (begin, before) = (Instant::now(), used(pid, "scan-0.2"));
    let count = rows(&rig).len();
    std::thread::sleep(Duration::from_secs(10)); // what is compared is a rate
    let (passed, after) = (begin.elapsed().as_secs_f64(), used(pid, "scan-0.2"));
    let truth = [after.0 - before.0, after.1 - before.1].map(|used| 100.0 * used / passed);
    // what was held back comes with a change
    client.put("USE:SPIN.A", DOUBLE, json!(0.0), true);
    wait_until("it rests", || rows(&rig).last().is_some_and(|row| number(row, "cpu_percent") < 10.0));
    let all = rows(&rig);
    let spinning: Vec<&Value> =
        all.iter().skip(count).filter(|row| number(row, "cpu_percent") > 0.8 * truth[0]).collect();
    let seconds: f64 = spinning.iter().map(|row| number(row, "seconds")).sum();
    let weighted = |of: &dyn Fn(&Value) -> f64| {
        spinning.iter().map(|row| of(row) * number(row, "seconds")).sum::<f64>() / seconds
    };
    let scan = |row: &Value| {
        let most = row["most"].as_array().expect("threads");
        most.iter()
            .find(|thread| thread["thread"] == "scan-0.2")
            .map_or(0.0, |thread| number(thread, "cpu_percent"))
    };
    let told = [weighted(&|row| number(row, "cpu_percent")), weighted(&scan)];
    assert!(seconds > 5.0, "{all:#?}");
    for (told, truth) in told.iter().zip(truth) {
        assert!((told - truth).abs() < 0.05 * truth, "told {told} %, truth {truth} %: {all:#?}");
    }
    assert!(truth[1] > 20.0 && number(spinning[0], "waiting_percent") >= 0.0);

    let resident = |row: &Value| number(row, "resident_bytes") / f64::from(1 << 20);
    let before = resident(all.last().expect("rows"));
    client.put("USE:GROW.A", DOUBLE, json!(48.0), true);
    wait_until("it has grown", || rows(&rig).last().is_some_and(|row| resident(row) > before + 40.0));
    let grown = resident(rows(&rig).last().expect("rows")) - before;
    assert!((47.0..50.0).contains(&grown), "{grown} MiB");
    let faults: f64 = rows(&rig).iter().skip(all.len()).map(|row| number(row, "minor_faults")).sum();
    assert!(faults >= 1.0, "{faults}");

    client.put("USE:OPEN.A", DOUBLE, json!(37.0), true);
    let open = || fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors").count();
    let counted = || rows(&rig).last().and_then(|row| row["descriptors"].as_u64());
    let begin = Instant::now();
    // looked at each ten seconds
    while counted() != Some(open() as u64) {
        assert!(begin.elapsed().as_secs() < 60, "told {:?}, truth {}", counted(), open());
        std::thread::sleep(Duration::from_millis(200));
    }
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("threads").count();
    assert_eq!(rows(&rig).last().expect("rows")["threads"], threads);

    ioc.kill();
    wait_until("its end", || {
        let iocs = json_lines(&rig.replay("iocs", &["--json"]).stdout);
        iocs.iter().any(|line| line["pid"] == pid && !line["ended"].is_null())
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let all = rows(&rig);
    // one after the other, without a gap
    for pair in all.windows(2) {
        assert_eq!(
            pair[0]["time"].as_str().map(|time| &time[..22]),
            pair[1]["since"].as_str().map(|time| &time[..22])
        );
    }
    let text = String::from_utf8_lossy(&rig.replay("health", &[]).stdout).into_owned();
    assert!(text.contains("scan-0.2") && text.contains("using"), "{text}");
}

#[test]
fn nothing_of_it_if_it_is_not_wanted() {
    let Some(rig) = Rig::new("health-none") else { return };
    let ioc = start(&rig);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--no-resources", "--duration", "4s"]);
    assert!(recorder.wait().success(), "{}", recorder.errors());
    assert_eq!(rows(&rig), Vec::<Value>::new());
    let said = rig.replay("health", &[]);
    assert!(String::from_utf8_lossy(&said.stderr).contains("--no-resources"));
    let iocs = String::from_utf8_lossy(&rig.replay("iocs", &[]).stdout).into_owned();
    assert!(iocs.contains("resources: not recorded (--no-resources)"), "{iocs}");
}
