//! Puts beside bulk traffic: none is lost or without a name, whatever else runs over the same port.

use crate::rig::Rig;
use serde_json::json;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PORT: u16 = 5074;
/// Where the bulk comes from: another address than the IOC's, with the same port.
const BULK: &str = "127.0.0.2:5074";
const PUTS: u32 = 100;
/// Bytes of an array.
const ARRAY: usize = 80_000;
/// Bytes of a long put.
const LONG_PUT: usize = 8_000_000;

/// A message of Channel Access with a long header.
fn long(command: u16, dbr: u16, first: u32, payload: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    [command, 0xffff, dbr, 0].iter().for_each(|word| message.extend(word.to_be_bytes()));
    let length = payload.len() as u32;
    [first, 3, length, length].iter().for_each(|word| message.extend(word.to_be_bytes()));
    message.extend(payload);
    message
}

/// Threads that send bulk until it is dropped.
struct Bulk {
    ends: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
}

impl Drop for Bulk {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

/// Sends a message again and again, from the server or from the client.
fn bulk(message: Vec<u8>, from_server: bool, pause: Duration) -> Bulk {
    let (ends, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let bulk = Bulk { ends: ends.clone(), sent: sent.clone() };
    let listener = TcpListener::bind(BULK).expect("the port on another address");
    let client = TcpStream::connect(BULK).expect("connect");
    let (server, _) = listener.accept().expect("accept");
    let (mut sender, mut receiver) = if from_server { (server, client) } else { (client, server) };
    std::thread::spawn(move || {
        let mut room = vec![0; 1 << 20];
        while receiver.read(&mut room).is_ok_and(|read| read > 0) {}
    });
    std::thread::spawn(move || {
        while !ends.load(Ordering::Relaxed) && sender.write_all(&message).is_ok() {
            sent.fetch_add(message.len() as u64, Ordering::Relaxed);
            std::thread::sleep(pause);
        }
    });
    bulk
}

/// Records puts beside bulk that begins after `ahead`.
fn puts_beside(name: &str, tier: &str, begin: impl FnOnce() -> Bulk) {
    let Some(rig) = Rig::new(name) else { return };
    let ioc = rig.ioc("bulk", PORT, "puts.db", &[]);
    let mut client = rig.client("libca", &[PORT], &[]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    client.connect("PUT:READY");
    let source = if tier == "packet" { "packet" } else { "both" };
    rig.wait_until_recording(&mut client, "PUT:READY", source);
    let (started, bulk) = (Instant::now(), begin());
    // its channel is made beside the bulk, too
    client.connect("PUT:LONG");
    for number in 0..PUTS {
        client.put("PUT:LONG", 5, json!(number), true);
        std::thread::sleep(Duration::from_millis(5));
    }
    let megabytes = bulk.sent.load(Ordering::Relaxed) as f64 / 1e6;
    eprintln!("{name}: {megabytes:.0} MB in {:?}", started.elapsed());
    assert!(megabytes > 8.0, "nothing is tested");
    drop(bulk);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let puts = rig.puts(&["--pv", "PUT:LONG"]);
    let requested: Vec<Option<f64>> = puts.iter().map(|put| put["requested"].as_f64()).collect();
    let all: Vec<Option<f64>> = (0..PUTS).map(|number| Some(number.into())).collect();
    let info = rig.replay("info", &[]);
    let text = String::from_utf8_lossy(&info.stdout);
    assert_eq!(requested, all, "each once, in order: {text}");
    assert!(puts.iter().all(|put| put["user"].is_string()), "each has its user");
    let answered = puts.iter().filter(|put| put["status"] == "ok").count();
    eprintln!("{name}: {answered} of {PUTS} answers");
    if tier != "packet" {
        assert_eq!(answered, PUTS as usize, "each has its answer: {text}");
        assert!(!text.contains("not captured"), "{text}");
    }
    assert!(!text.contains("packets to servers"), "{text}");
}

fn waveforms() -> Bulk {
    bulk(long(1, 4, 1, &vec![7; ARRAY]), true, Duration::ZERO)
}

fn long_puts() -> Bulk {
    bulk(long(19, 4, 7, &vec![7; LONG_PUT]), false, Duration::from_millis(200))
}

#[test]
fn no_put_is_lost_beside_waveforms() {
    puts_beside("bulk-waveforms-ring", "ring", waveforms);
}

#[test]
fn no_put_is_lost_beside_waveforms_on_the_packet_tier() {
    puts_beside("bulk-waveforms-packet", "packet", waveforms);
}

#[test]
fn no_put_is_lost_beside_long_puts() {
    puts_beside("bulk-puts-ring", "ring", long_puts);
}

#[test]
fn no_put_is_lost_beside_long_puts_on_the_packet_tier() {
    puts_beside("bulk-puts-packet", "packet", long_puts);
}
