//! Puts take precedence over processing: where a flood of processing fills the buffers between kernel and recorder, no
//! put is lost with it, and the loss is reported as one of processing.

use crate::rig::{iocreplay, json_lines, not_run, run, wait_until, Needs, Rig};
use serde_json::{json, Value};
use std::fmt::Write;
use std::process::Command;
use std::time::{Duration, Instant};

const PORT: u16 = 5074;

/// Number of records that process ten times a second, each with a link that puts.
const FLOOD: usize = 1000;
/// Hits of such a record each time: it begins, puts, and is complete.
const HITS: usize = 3;
/// Time for the flood to fill the buffer, at 300 bytes a record.
const STALL: Duration = Duration::from_millis(1000);
/// How long the capture keeps packets: 16 blocks of at least 40 ms (src/net/ring.rs), less some for the recorder to wake up.
const BRIDGED: Duration = Duration::from_millis(600);
/// How often the scene is repeated where the machine is too busy for it.
const ATTEMPTS: usize = 5;
/// Number of puts with callback, one after the other.
const CALLBACKS: u32 = 20;

/// A database with the flood, and two records to put to.
fn database(rig: &Rig) -> String {
    let mut records = String::from(r#"record(ao, "FLOOD:SP") {} record(longout, "FLOOD:READY") {}"#);
    for number in 0..FLOOD {
        let calc = format!(
            "record(calcout, \"FLOOD:{number}\") {{ field(SCAN, \".1 second\") field(CALC, \"A+1\") \
             field(INPA, \"FLOOD:{number}\") field(OUT, \"FLOOD:{number}:TO\") }} record(ao, \"FLOOD:{number}:TO\") {{}}\n"
        );
        records.write_str(&calc).expect("a string takes all");
    }
    let path = rig.path("flood.db");
    std::fs::write(&path, records).expect("the database");
    path
}

/// The losses in the log.
fn losses(rig: &Rig) -> Vec<String> {
    let info = rig.replay("info", &[]);
    let text = String::from_utf8_lossy(&info.stdout).into_owned();
    text.lines().filter(|line| line.contains("loss ")).map(str::to_string).collect()
}

/// A client puts `count` values in a row while the recorder is stopped for as long as its packet capture can bridge.
fn puts_survive(tier: &str, count: u32) {
    let name = format!("flood-{tier}");
    for _ in 0..ATTEMPTS {
        let Some(rig) = Rig::alone(&name) else { return };
        if flood(&rig, tier, count) {
            return;
        }
    }
    not_run(&name, Needs::Machine("one that carries out a few hundred puts in 600 ms"));
}

/// Returns false if the puts took so long that packets may be lost with reason.
fn flood(rig: &Rig, tier: &str, count: u32) -> bool {
    let ioc = rig.ioc("flooded", PORT, &database(rig), &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    client.connect("FLOOD:SP");
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    rig.wait_until_recording(&mut client, "FLOOD:READY", "both");
    client.put("FLOOD:SP", 6, json!(-1), true);
    recorder.signal(libc::SIGSTOP);
    std::thread::sleep(STALL);
    let begin = Instant::now();
    client.flood("FLOOD:SP", count);
    for number in count..count + CALLBACKS {
        client.put("FLOOD:SP", 6, json!(number), true);
    }
    recorder.signal(libc::SIGCONT);
    if begin.elapsed() > BRIDGED {
        eprintln!("the puts took {:?}: once more", begin.elapsed());
        return false;
    }
    client.put("FLOOD:SP", 6, json!(count + CALLBACKS), true);
    assert!(recorder.stop().success(), "{}", recorder.errors());

    let losses = losses(rig);
    let lost = |what: &str| losses.iter().any(|line| line.contains(what));
    assert!(lost("the buffer between kernel and recorder was full"), "nothing is tested: {losses:?}");
    assert!(!lost("puts"), "{losses:?}");
    let puts = rig.puts(&["--pv", "FLOOD:SP"]);
    let requested: Vec<Option<f64>> = puts.iter().map(|put| put["requested"].as_f64()).collect();
    let all: Vec<Option<f64>> =
        (-1..=i64::from(count + CALLBACKS)).map(|number| Some(number as f64)).collect();
    assert_eq!(requested, all, "each once, in order; {losses:?}");
    let is_wrong = |pair: &&[Value]| {
        let put = &pair[1];
        put["source"] != "both" || put["old"] != pair[0]["requested"] || put["status"] != "ok"
    };
    let wrong: Vec<&[Value]> = puts.windows(2).filter(is_wrong).collect();
    assert!(wrong.is_empty(), "{} of {count}: {:#?}", wrong.len(), wrong.first());
    true
}

#[test]
fn puts_survive_a_flood_of_processing() {
    puts_survive("ring", 450);
}

/// Perf buffers have a buffer of puts for each CPU.
#[test]
fn puts_survive_a_flood_of_processing_in_perf_buffers() {
    puts_survive("perf", 250);
}

/// The kernel tells of hits that did not fit into a perf buffer only before the next one on the same CPU that does. Here
/// none follows: the IOC stands still.
#[test]
fn what_a_full_perf_buffer_lost_is_said_though_no_hit_follows() {
    let Some(rig) = Rig::alone("flood-said") else { return };
    let ioc = rig.ioc("flooded", PORT, &database(&rig), &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    client.connect("FLOOD:SP");
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", "perf"]);
    rig.wait_until_recording(&mut client, "FLOOD:READY", "both");
    recorder.signal(libc::SIGSTOP);
    std::thread::sleep(2 * STALL);
    ioc.signal(libc::SIGSTOP);
    recorder.signal(libc::SIGCONT);
    let said = || {
        let runs = rig.runs();
        let losses = runs.iter().filter_map(|run| run["losses"].as_array()).flatten();
        let of_hits = losses.filter(|loss| loss["source"] == "hits");
        of_hits.map(|loss| loss["count"].as_u64().expect("a count")).sum::<u64>()
    };
    wait_until("what was lost is said", || said() > 0);
    let lost = said();
    ioc.signal(libc::SIGCONT);
    std::thread::sleep(2 * STALL);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    assert_eq!(said(), lost, "no more than once, and none where there was room");
    // All records process in turn: what is missing of one is missing of all, but for a part of a round at either end.
    let mut values = Command::new(iocreplay());
    let values = run(values.args(["values", "--format", "jsonl", "FLOOD:500", &rig.log()]));
    let values: Vec<f64> =
        json_lines(&values.stdout).iter().filter_map(|row| row["value"].as_f64()).collect();
    let missing = values.windows(2).map(|pair| pair[1] - pair[0] - 1.0).fold(0.0, f64::max);
    let of_a_round = (FLOOD * HITS) as f64;
    let rounds = lost as f64 / of_a_round;
    assert!(missing > 3.0 && (rounds - missing).abs() <= 2.0, "{missing} rounds are missing, {rounds} lost");
}

/// A client puts in a row while the recorder is stopped, as it is where an IOC's threads have the only processor. Returns
/// the hits lost, and the puts of the burst.
fn burst(tier: &str, count: u32, options: &[&str]) -> Option<(u64, Vec<Value>)> {
    let rig = Rig::alone("burst")?;
    let database = rig.path("burst.db");
    std::fs::write(&database, r#"record(ao, "BURST:SP") {} record(longout, "BURST:READY") {}"#)
        .expect("a file");
    let ioc = rig.ioc("burst", PORT, &database, &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    client.connect("BURST:SP");
    let pid = ioc.pid_argument();
    let mut recorder = rig.record(&[&["--pid", &pid, "--tier", tier], options].concat());
    rig.wait_until_recording(&mut client, "BURST:READY", "both");
    client.put("BURST:SP", 6, json!(-1), true);
    recorder.signal(libc::SIGSTOP);
    client.flood("BURST:SP", count);
    // what comes on the same circuit after them is answered after them
    assert_eq!(client.get("BURST:SP"), json!(f64::from(count - 1)));
    recorder.signal(libc::SIGCONT);
    client.put("BURST:SP", 6, json!(count), true);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let runs = rig.runs();
    let losses = runs.iter().filter_map(|run| run["losses"].as_array()).flatten();
    let of_hits = losses.filter(|loss| loss["source"] == "hits");
    let lost = of_hits.map(|loss| loss["count"].as_u64().expect("a count")).sum();
    let mut puts = rig.puts(&["--pv", "BURST:SP"]);
    puts.retain(|put| {
        put["requested"].as_f64().is_some_and(|value| (0.0..f64::from(count)).contains(&value))
    });
    Some((lost, puts))
}

/// Each put of a burst is in the put log, whatever room there is. With room enough, its chain is known, too.
#[test]
fn a_burst_has_room_in_a_larger_buffer() {
    // More than the usual buffer holds; and no larger perf buffers than ten processors may have, where root locks 8 MiB.
    for (tier, count, buffer) in [("ring", 2000, "6M"), ("perf", 500, "1536K")] {
        let Some((lost, puts)) = burst(tier, count, &[]) else { return };
        assert!(lost > 0, "{tier}: nothing is tested");
        assert_eq!(puts.len(), count as usize, "{tier}: by packets");
        let Some((lost, puts)) = burst(tier, count, &["--buffer", buffer]) else { return };
        assert_eq!(lost, 0, "{tier}");
        let told: Vec<_> = puts.iter().map(|put| (&put["old"], &put["requested"], &put["status"])).collect();
        assert_eq!(told.len(), count as usize, "{tier}");
        for (number, told) in (0..count).map(f64::from).zip(told) {
            assert_eq!(told, (&json!(number - 1.0), &json!(number), &json!("ok")), "{tier}");
        }
    }
}
