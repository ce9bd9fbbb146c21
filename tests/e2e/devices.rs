//! TCP connections of a real IOC with devices, compared with what the devices did: an IOC whose record talks to a server of
//! this test (tests/rig/device.c), which hangs up in every way.

use crate::rig::own_program::{shared_library, succeed};
use crate::rig::{beside, join_networks, json_lines, wait_until, Ioc, Rig};
use serde_json::{json, Value};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

const PORT: u16 = 5186;
const OTHER: u16 = 5196;

/// What `iocreplay net` tells of connections.
fn connections(rig: &Rig) -> Vec<Value> {
    let lines = json_lines(&rig.replay("net", &["--format", "jsonl", "--all"]).stdout);
    lines.into_iter().filter(|line| line["protocol"] == "tcp").collect()
}

fn of<'a>(lines: &'a [Value], kind: &str, at: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["kind"] == kind && line["servers"] == json!([at])).collect()
}

/// How a device treats its client after some requests.
#[derive(Clone, Copy)]
enum Manner {
    Closes,
    Resets,
    Stays,
}

/// A device that serves one client after the other, each this many requests.
struct Device {
    address: String,
    clients: Arc<AtomicUsize>,
}

impl Device {
    fn new(manner: Manner, requests: usize) -> Device {
        Device::at("127.0.0.1", manner, requests)
    }

    fn at(ip: &str, manner: Manner, requests: usize) -> Device {
        let listener = TcpListener::bind((ip, 0)).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let clients = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&clients);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                counted.fetch_add(1, Ordering::Relaxed);
                serve(client.unwrap(), manner, requests);
            }
        });
        Device { address, clients }
    }

    fn port(&self) -> f64 {
        self.address.rsplit_once(':').unwrap().1.parse().unwrap()
    }
}

fn serve(mut client: TcpStream, manner: Manner, requests: usize) {
    let mut request = [0; 16];
    let mut served = 0;
    while client.read(&mut request).is_ok_and(|read| read > 0) {
        served += 1;
        if served > requests && !matches!(manner, Manner::Stays) {
            break;
        }
        // late
        sleep(Duration::from_millis(5));
        client.write_all(b"1\n").unwrap();
    }
    if let Manner::Resets = manner {
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        // SAFETY: the descriptor is open, and the structure has this size.
        let set = unsafe {
            let at = (&raw const linger).cast();
            libc::setsockopt(client.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, at, 8)
        };
        assert_eq!(set, 0);
    }
}

fn start(rig: &Rig) -> Ioc {
    let library = shared_library(rig, "device.c");
    let find = OTHER.to_string();
    let arguments = ["--macros", "P=D:", "--routines", &library, "--find", &find];
    rig.ioc_with("talker", PORT, "device.db", &arguments)
}

fn put(ioc: &mut Ioc, field: &str, value: f64) {
    ioc.command(&format!("dbpf D:TALK.{field} {value}"));
}

fn talk(ioc: &mut Ioc, device: &Device, how: f64) {
    put(ioc, "A", 0.0);
    sleep(Duration::from_millis(300)); // it hangs up at its next turn
    put(ioc, "B", device.port());
    put(ioc, "A", how);
}

/// In the tier without probes, too.
fn devices_that_hang_up(tier: &str) {
    let Some(rig) = Rig::new(&format!("devices-{tier}")) else { return };
    let other = rig.ioc("device-other", OTHER, "first.db", &[]);
    let mut ioc = start(&rig);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    wait_until("the IOC is in the log", || !json_lines(&rig.replay("iocs", &["--json"]).stdout).is_empty());
    sleep(Duration::from_millis(2500)); // the first look
                                        // each connection lives for some five seconds: looks are two seconds apart where they are dear
    let closes = Device::new(Manner::Closes, 40);
    talk(&mut ioc, &closes, 1.0);
    wait_until("it has hung up twice", || closes.clients.load(Ordering::Relaxed) > 2);
    let resets = Device::new(Manner::Resets, 40);
    talk(&mut ioc, &resets, 1.0);
    wait_until("it has reset twice", || resets.clients.load(Ordering::Relaxed) > 2);
    let kept = Device::new(Manner::Resets, 40);
    talk(&mut ioc, &kept, 2.0);
    wait_until("it is told that it broke off", || {
        !of(&connections(&rig), "device_disconnected", &kept.address).is_empty()
    });
    let stays = Device::new(Manner::Stays, 0);
    talk(&mut ioc, &stays, 1.0);
    // looks are seconds apart on a busy machine: what ended before the first one was never there
    wait_until("it is told that they are connected", || {
        !of(&connections(&rig), "device_connected", &stays.address).is_empty()
    });
    put(&mut ioc, "A", 0.0);
    wait_until("it is told that the IOC closed it", || {
        !of(&connections(&rig), "device_disconnected", &stays.address).is_empty()
    });
    let shown = String::from_utf8(rig.replay("last", &[]).stdout).unwrap();
    ioc.kill();
    wait_until("its end", || {
        json_lines(&rig.replay("iocs", &["--json"]).stdout).iter().any(|line| !line["ended"].is_null())
    });
    assert!(recorder.stop().success(), "{}", recorder.errors());
    drop(other);

    let lines = connections(&rig);
    let ended = |device: &Device| of(&lines, "device_disconnected", &device.address);
    let why = |line: &Value| (line["reason"].clone(), line["by"].clone());
    for device in [&closes, &resets, &kept, &stays] {
        let ended = ended(device);
        assert!(!ended.is_empty(), "{}: {lines:#?}", device.address);
        assert!(!of(&lines, "device_connected", &device.address).is_empty(), "{lines:#?}");
        for line in ended {
            assert_eq!(line["ioc"], "talker", "{line}");
        }
    }
    // the last one of each was ended by the IOC
    let closed = ended(&closes);
    for line in closed.iter().take(2) {
        assert_eq!(why(line), (json!("closed"), json!("device")), "{line}");
        let least = line["duration_ms"].as_f64().unwrap();
        assert!((0.0..5500.0).contains(&least), "{line}");
    }
    assert_eq!(closed[0]["going_on"], false, "it was connected again: {}", closed[0]);
    let reset = ended(&resets);
    for line in reset.iter().take(2) {
        let (reason, by) = why(line);
        assert!(by.is_null() && (reason == "unknown" || reason == "broken_off"), "{line}");
    }
    let [broken] = ended(&kept)[..] else { panic!("{lines:#?}") };
    assert_eq!(why(broken), (json!("broken_off"), Value::Null), "{broken}");
    let [by_ioc] = ended(&stays)[..] else { panic!("{lines:#?}") };
    assert_eq!(why(by_ioc), (json!("closed"), json!("ioc")), "{by_ioc}");
    // as many as there were, each of which was there at a look
    for device in [&closes, &resets] {
        let (told, truth) = (ended(device).len(), device.clients.load(Ordering::Relaxed));
        assert!(told <= truth && told + 1 >= truth, "{told} of {truth}: {lines:#?}");
    }
    // a circuit is no device: neither that of a client nor the IOC's own
    let own: Vec<&Value> =
        [&closes, &resets, &kept, &stays].iter().flat_map(|device| ended(device)).collect();
    let all = lines.iter().filter(|line| line["kind"] == "device_disconnected").count();
    assert_eq!(own.len(), all, "{lines:#?}");
    assert!(shown.contains("devices ") && shown.contains(&stays.address), "{shown}");
}

/// An IOC in a network of its own, whose device is behind a cable that loses everything for a while.
#[test]
fn what_is_sent_again() {
    let Some(inside) = Rig::new("devices-again") else { return };
    let mut ioc = start(&inside);
    // From here on this thread, and so the recorder, is in another network.
    let Some(rig) = Rig::new("devices-again") else { return };
    let (here, there) = ("10.77.0.1", "10.77.0.2");
    join_networks(ioc.pid(), here, there);
    let device = Device::at(here, Manner::Stays, 0);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    put(&mut ioc, "C", f64::from(u32::from_be_bytes([10, 77, 0, 1])));
    talk(&mut ioc, &device, 2.0);
    wait_until("they are connected", || {
        !of(&connections(&rig), "device_connected", &device.address).is_empty()
    });
    assert!(of(&connections(&rig), "retransmissions", &device.address).is_empty());
    let address = |what: &str| {
        let mut command = std::process::Command::new("ip");
        succeed(command.args(["address", what, "10.77.0.1/24", "dev", "cable"]));
    };
    // what comes for it is dropped here
    address("del");
    wait_until("it is told", || !of(&connections(&rig), "retransmissions", &device.address).is_empty());
    sleep(Duration::from_secs(3));
    address("add");
    // noted each ten seconds
    sleep(Duration::from_secs(14));
    let mut command = std::process::Command::new("ss");
    command.args(["-tinH", "dst", here]);
    let shown = beside(ioc.pid(), command).output().expect("ss runs");
    let shown = String::from_utf8(shown.stdout).unwrap();
    let truth = shown.split_once(" retrans:").and_then(|(_, rest)| rest.split_once('/'));
    let truth = truth.and_then(|(_, rest)| rest.split(' ').next()?.parse::<u64>().ok());
    assert!(truth.is_some_and(|truth| truth > 2), "{shown}");
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let lines = connections(&rig);
    let [again] = of(&lines, "retransmissions", &device.address)[..] else { panic!("{lines:#?}") };
    assert_eq!(again["count"].as_u64(), truth, "{again}");
    assert!(of(&lines, "device_disconnected", &device.address).is_empty(), "{lines:#?}");
}

#[test]
fn devices_that_hang_up_in_the_packet_tier() {
    devices_that_hang_up("packet");
}

/// What the IOC itself says of a PV's subscriptions: updates replaced, the most first.
fn replaced(ioc: &mut Ioc, pv: &str) -> Vec<u64> {
    let told = ioc.command(&format!("dbel {pv} 3"));
    let of = |line: &String| {
        let digits = line.split_once("discarded by replacement=")?.1;
        digits.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
    };
    let mut counts: Vec<u64> = told.iter().filter_map(of).collect();
    counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
    counts
}

/// Two clients subscribe to the same, and one of them never reads.
#[test]
fn a_client_that_does_not_read() {
    let Some(rig) = Rig::new("devices-slow") else { return };
    let mut ioc = start(&rig);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument()]);
    let (mut slow, _) = rig.raw_client(PORT);
    let (mut quick, _) = rig.raw_client(PORT);
    let subscribe = json!({"do": "stall", "pv": "D:WAVE", "count": 50_000, "also": "D:COUNT"});
    quick.send(&subscribe.to_string());
    let quick_at = quick.line_as_json()["circuit"].clone();
    quick.send(&json!({"do": "read", "seconds": 300.0}).to_string());
    slow.send(&subscribe.to_string());
    let slow_at = slow.line_as_json()["circuit"].clone();
    let clients = || json_lines(&rig.replay("clients", &["--format", "jsonl"]).stdout);
    let of = |at: &Value| clients().into_iter().find(|line| line["client"] == *at);
    let lost = |line: &Value| line["slow"].as_array().and_then(|all| all.last().cloned());
    let last = || lost(&of(&slow_at)?);
    wait_until("updates were replaced", || {
        last().is_some_and(|slow| slow["updates"][0]["replaced"].as_u64() > Some(20))
    });
    // each ten seconds there is another
    let truth = replaced(&mut ioc, "D:COUNT");
    let told = last().unwrap();
    let before = told["updates"][0]["replaced"].as_u64().unwrap();
    assert_eq!(told["updates"][0]["pv"], "D:COUNT", "{told}");
    assert!(before <= truth[0] && truth[0] <= before + 200, "{told}, truth {truth:?}");
    wait_until("it is told again", || {
        last().is_some_and(|slow| slow["updates"][0]["replaced"].as_u64() > Some(before))
    });
    let after = replaced(&mut ioc, "D:COUNT");
    let told = last().unwrap();
    let count = told["updates"][0]["replaced"].as_u64().unwrap();
    assert!(truth[0] <= count && count <= after[0], "{told}, truth {truth:?} to {after:?}");
    assert_eq!(told["over"], false, "{told}");
    let wave = told["updates"].as_array().unwrap().iter().find(|updates| updates["pv"] == "D:WAVE");
    assert!(wave.is_none_or(|wave| wave["replaced"].is_null()), "arrays are not counted: {told}");
    let line = of(&slow_at).unwrap();
    assert_eq!((&line["user"], &line["client_host"]), (&json!("raw"), &json!("rawhost")), "{line}");
    assert_eq!(of(&quick_at).unwrap()["slow"], json!([]), "it reads");
    slow.send(&json!({"do": "read", "seconds": 8.0}).to_string());
    slow.line_as_json();
    wait_until("it has caught up", || last().is_some_and(|slow| slow["over"] == true));
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let text = String::from_utf8(rig.replay("clients", &[]).stdout).unwrap();
    assert!(text.contains(" updates of D:COUNT replaced"), "{text}");
}
