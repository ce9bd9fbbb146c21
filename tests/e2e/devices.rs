//! TCP connections of a real IOC with devices, compared with what the devices did: an IOC whose record talks to a server of
//! this test (tests/rig/device.c), which hangs up in every way.

use crate::rig::own_program::shared_library;
use crate::rig::{json_lines, wait_until, Ioc, Rig};
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
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
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

fn start(rig: &Rig, macros: &str) -> Ioc {
    let library = shared_library(rig, "device.c");
    rig.ioc_with("device", PORT, "device.db", &["--macros", macros, "--routines", &library])
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
    let mut ioc = start(&rig, "P=D:");
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    wait_until("the IOC is in the log", || {
        !json_lines(&rig.replay("iocs", &["--json"]).stdout).is_empty()
    });
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
    sleep(Duration::from_secs(4));
    put(&mut ioc, "A", 0.0);
    sleep(Duration::from_millis(2500));
    let shown = String::from_utf8(rig.replay("last", &["device"]).stdout).unwrap();
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
            assert_eq!(line["ioc"], "device", "{line}");
        }
    }
    // the last one of each was ended by the IOC
    let closed = ended(&closes);
    for line in closed.iter().take(2) {
        assert_eq!(why(line), (json!("closed"), json!("device")), "{line}");
        assert_eq!(line["going_on"], false, "it was connected again: {line}");
        let least = line["duration_ms"].as_f64().unwrap();
        assert!((0.0..5500.0).contains(&least), "{line}");
    }
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
    let own: Vec<&Value> = [&closes, &resets, &kept, &stays].iter().flat_map(|device| ended(device)).collect();
    let all = lines.iter().filter(|line| line["kind"] == "device_disconnected").count();
    assert_eq!(own.len(), all, "{lines:#?}");
    assert!(shown.contains("devices ") && shown.contains(&stays.address), "{shown}");
}

#[test]
fn devices_that_hang_up_in_the_packet_tier() {
    devices_that_hang_up("packet");
}
