//! Clients that live for milliseconds, as each caput of a script does: the log names their processes, and never a wrong
//! one.

use crate::rig::{self, json_lines, wait_until, Rig};
use serde_json::{json, Value};
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const PORT: u16 = 5264;
const DOUBLE: u16 = 6;
/// A user without rights.
const NOBODY: u32 = 65534;
const PV: &str = "PUT:DOUBLE";

/// How a client is started.
#[derive(Clone, Copy, Default)]
struct How {
    /// Another user.
    user: Option<u32>,
    /// Another network namespace, by a descriptor.
    network: Option<i32>,
    /// Descriptors that it has opened before.
    files: usize,
}

/// A message of Channel Access.
fn message(to: &mut [u8], command: u16, dbr: u16, count: u16, ids: [u32; 2], payload: &[u8]) -> usize {
    let size = payload.len().next_multiple_of(8);
    to[..2].copy_from_slice(&command.to_be_bytes());
    to[2..4].copy_from_slice(&(size as u16).to_be_bytes());
    to[4..6].copy_from_slice(&dbr.to_be_bytes());
    to[6..8].copy_from_slice(&count.to_be_bytes());
    to[8..12].copy_from_slice(&ids[0].to_be_bytes());
    to[12..16].copy_from_slice(&ids[1].to_be_bytes());
    to[16..16 + size].fill(0);
    to[16..16 + payload.len()].copy_from_slice(payload);
    16 + size
}

/// What a client does: system calls alone, since it is a fork of a program with threads.
fn live(server: [u8; 4], value: f64, how: How) -> bool {
    // SAFETY: system calls on live buffers with their lengths, on descriptors of this process.
    unsafe {
        for _ in 0..how.files {
            libc::dup(2);
        }
        if how.network.is_some_and(|at| libc::setns(at, libc::CLONE_NEWNET) != 0)
            || how.user.is_some_and(|user| libc::setuid(user) != 0)
        {
            return false;
        }
        let socket = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        let mut address: libc::sockaddr_in = std::mem::zeroed();
        address.sin_family = libc::AF_INET as _;
        address.sin_port = PORT.to_be();
        address.sin_addr.s_addr = u32::from_ne_bytes(server);
        if libc::connect(socket, (&raw const address).cast(), size_of::<libc::sockaddr_in>() as _) != 0 {
            return false;
        }
        let mut bytes = [0; 512];
        let mut length = message(&mut bytes, 0, 0, 13, [0, 0], &[]);
        length += message(&mut bytes[length..], 20, 0, 0, [0, 0], b"shorty\0");
        length += message(&mut bytes[length..], 21, 0, 0, [0, 0], b"here\0");
        length += message(&mut bytes[length..], 18, 0, 0, [1, 13], b"PUT:DOUBLE\0");
        if libc::send(socket, bytes.as_ptr().cast(), length, 0) != length as isize {
            return false;
        }
        let (mut have, mut at) = (0, 0);
        let sid = loop {
            while have < at + 16 {
                let more = libc::recv(socket, bytes[have..].as_mut_ptr().cast(), bytes.len() - have, 0);
                if more <= 0 {
                    return false;
                }
                have += more as usize;
            }
            let head = &bytes[at..at + 16];
            if head[..2] == [0, 18] {
                break u32::from_be_bytes([head[12], head[13], head[14], head[15]]);
            }
            at += 16 + usize::from(u16::from_be_bytes([head[2], head[3]]));
        };
        let length = message(&mut bytes, 4, DOUBLE, 1, [sid, 7], &value.to_be_bytes());
        libc::send(socket, bytes.as_ptr().cast(), length, 0) == length as isize
    }
}

/// A client that puts a value and ends: its pid, and how long it has lived.
fn put_and_end(server: [u8; 4], value: f64, how: How) -> (u32, Duration) {
    let begin = Instant::now();
    // SAFETY: the child makes system calls alone, and never returns.
    let pid = unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::prctl(libc::PR_SET_NAME, c"shorty".as_ptr());
            libc::_exit(i32::from(!live(server, value, how)));
        }
        pid
    };
    assert!(pid > 0, "{}", std::io::Error::last_os_error());
    let mut status = 0;
    // SAFETY: the status is a live number.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(status, 0, "it has put");
    (pid as u32, begin.elapsed())
}

/// The puts of these values with the pids that the log names, if any.
fn named(puts: &[Value], truth: &HashMap<u64, u32>) -> Vec<(u64, Option<u64>)> {
    let of = |put: &Value| {
        let value = put["requested"].as_f64()? as u64;
        truth.contains_key(&value).then(|| (value, put["process"]["pid"].as_u64()))
    };
    puts.iter().filter_map(of).collect()
}

/// All puts are there, and all of their processes are named, and are the right ones.
#[track_caller]
fn compare(rig: &Rig, truth: &HashMap<u64, u32>) {
    wait_until("all puts are seen", || named(&rig.puts(&["--pv", PV]), truth).len() == truth.len());
    // what the probes saw of the last put may be in a block before that of its packets
    let begun = Instant::now();
    let mut named_now = named(&rig.puts(&["--pv", PV]), truth);
    while named_now.iter().any(|(_, pid)| pid.is_none()) && begun.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(100));
        named_now = named(&rig.puts(&["--pv", PV]), truth);
    }
    let named = named_now;
    let wrong: Vec<_> = named
        .iter()
        .filter(|(value, pid)| {
            pid.is_some_and(|pid| truth.get(value).is_none_or(|own| u64::from(*own) != pid))
        })
        .collect();
    let unknown: Vec<_> = named.iter().filter(|(_, pid)| pid.is_none()).collect();
    assert!(wrong.is_empty(), "wrong: {wrong:?}");
    assert!(unknown.is_empty(), "{} of {} unknown: {unknown:?}", unknown.len(), truth.len());
}

#[test]
fn clients_that_live_for_milliseconds_are_named() {
    let Some(rig) = Rig::alone("short-clients") else { return };
    let ioc = rig.ioc("served", PORT, "puts.db", &[]);
    let mut recorder = rig.record(&["--tier", "ring", "--pid", &ioc.pid_argument()]);
    let mut probe = rig.client("libca", &[PORT], &[]);
    rig.wait_until_recording(&mut probe, PV, "both");
    // others connect meanwhile, and the processors are busy
    let ends = Arc::new(AtomicBool::new(false));
    let spin = |_| {
        let ends = ends.clone();
        thread::spawn(move || while !ends.load(Ordering::Relaxed) {})
    };
    let loads: Vec<_> = (0..2).map(spin).collect();
    let mut truth = HashMap::new();
    let mut lived = Vec::new();
    let ways =
        [How::default(), How { user: Some(NOBODY), ..How::default() }, How { files: 100, ..How::default() }];
    for number in 0..60u64 {
        let value = 5000 + number;
        let (pid, time) = put_and_end([127, 0, 0, 1], value as f64, ways[number as usize % ways.len()]);
        truth.insert(value, pid);
        lived.push(time);
    }
    ends.store(true, Ordering::Relaxed);
    loads.into_iter().for_each(|load| load.join().expect("it ends"));
    lived.sort_unstable();
    eprintln!("they lived for {:?} to {:?}, half of them up to {:?}", lived[0], lived[59], lived[30]);
    compare(&rig, &truth);
    // and of a client of a library, that lives for longer
    probe.put(PV, DOUBLE, json!(901.0), true);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let puts = rig.puts(&["--pv", PV]);
    let users: Vec<&Value> = puts
        .iter()
        .filter(|put| put["requested"].as_f64().is_some_and(|value| (5000.0..5060.0).contains(&value)))
        .map(|put| &put["process"]["user"])
        .collect();
    assert_eq!(users.iter().filter(|user| **user == "nobody").count(), 20, "{users:?}");
    let own = puts.iter().find(|put| put["requested"] == 901.0).expect("its put");
    assert_eq!(own["process"]["pid"], probe.pid(), "{own}");
    let clients = json_lines(&rig.replay("clients", &["--format", "jsonl"]).stdout);
    let pids: Vec<u64> = clients.iter().filter_map(|line| line["process"]["pid"].as_u64()).collect();
    assert!(truth.values().all(|pid| pids.contains(&u64::from(*pid))), "{pids:?}");
}

/// Whoever has read that an IOC is recorded may rely on it.
#[test]
fn the_first_client_after_it_says_that_it_records_is_named() {
    let Some(rig) = Rig::alone("short-clients-first") else { return };
    let ioc = rig.ioc("served", PORT, "puts.db", &[]);
    let mut truth = HashMap::new();
    for round in 0..3u64 {
        let mut recorder = rig.record(&["--tier", "ring", "--pid", &ioc.pid_argument()]);
        wait_until("it is recorded", || recorder.errors().contains("recording served"));
        for number in 0..3 {
            let value = 7000 + 10 * round + number;
            truth.insert(value, put_and_end([127, 0, 0, 1], value as f64, How::default()).0);
        }
        compare(&rig, &truth);
        assert!(recorder.stop().success(), "{}", recorder.errors());
    }
}

/// A container's client has another network namespace, and the recorder sees its segments when they come in; and the other
/// way round.
#[test]
fn short_clients_in_another_network_are_named() {
    let Some(rig) = Rig::alone("short-clients-apart") else { return };
    let holder = rig.ioc_apart("holder", PORT + 50, "puts.db", &[]);
    rig::join_networks(holder.pid(), "10.98.0.1", "10.98.0.2");
    let outside = rig.ioc_with("outside", PORT, "puts.db", &["--address", "10.98.0.1"]);
    let inside = rig.ioc_beside(holder.pid(), "inside", PORT, "puts.db", &["--address", "10.98.0.2"]);
    let network = File::open(format!("/proc/{}/ns/net", holder.pid())).expect("its network");
    let pids = [outside.pid_argument(), inside.pid_argument()];
    let mut recorder = rig.record(&["--tier", "ring", "--pid", &pids[0], "--pid", &pids[1]]);
    for address in ["10.98.0.1", "10.98.0.2"] {
        let mut probe = rig.client("libca", &[PORT], &["--address", address]);
        rig.wait_until_recording(&mut probe, PV, "both");
    }
    let mut truth = HashMap::new();
    for value in (6000..6040u64).step_by(2) {
        let there = How { network: Some(network.as_raw_fd()), ..How::default() };
        truth.insert(value, put_and_end([10, 98, 0, 1], value as f64, there).0);
        truth.insert(value + 1, put_and_end([10, 98, 0, 2], value as f64 + 1.0, How::default()).0);
    }
    compare(&rig, &truth);
    assert!(recorder.stop().success(), "{}", recorder.errors());
}
