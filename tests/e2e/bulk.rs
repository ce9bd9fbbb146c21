//! Puts beside bulk traffic: none is lost or without a name, whatever else runs over the same port.

use crate::rig::Rig;
use serde_json::json;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PORT: u16 = 5074;
/// Where the bulk comes from: another address than the IOC's, with the same port.
const BULK: &str = "127.0.0.2:5074";
const PUTS: u32 = 200;
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
    /// Less than this tests nothing.
    least: u64,
}

impl Bulk {
    fn new(least: u64) -> Bulk {
        Bulk { ends: Arc::new(AtomicBool::new(false)), sent: Arc::new(AtomicU64::new(0)), least }
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

/// Sends a message again and again, from the server or from the client.
fn bulk(message: Vec<u8>, from_server: bool, pause: Duration) -> Bulk {
    let bulk = Bulk::new(8_000_000);
    let (ends, sent) = (bulk.ends.clone(), bulk.sent.clone());
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

/// How often the scene is repeated where other work keeps the recorder, built without optimization, from its rings.
const ATTEMPTS: usize = 3;

/// Records puts beside bulk. (Of the bulk itself packets may be lost until its flow is known.)
fn puts_beside(name: &str, tier: &str, begin: impl Fn() -> Bulk) {
    for attempt in 1..=ATTEMPTS {
        let Some(rig) = Rig::alone(name) else { return };
        let Err(missing) = attempt_beside(&rig, name, tier, &begin) else { return };
        // what is missing is never unsaid
        assert!(missing.contains("\nloss "), "{missing}");
        assert!(attempt < ATTEMPTS, "{missing}");
        eprintln!("{name}: once more: {missing}");
    }
}

/// Returns what is missing, with the log's losses.
fn attempt_beside(rig: &Rig, name: &str, tier: &str, begin: impl Fn() -> Bulk) -> Result<(), String> {
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
    let sent = bulk.sent.load(Ordering::Relaxed);
    eprintln!("{name}: {sent} in {:?}", started.elapsed());
    assert!(sent > bulk.least, "nothing is tested");
    drop(bulk);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let puts = rig.puts(&["--pv", "PUT:LONG"]);
    let info = rig.replay("info", &[]);
    let text = String::from_utf8_lossy(&info.stdout);
    let requested: Vec<Option<f64>> = puts.iter().map(|put| put["requested"].as_f64()).collect();
    let all: Vec<Option<f64>> = (0..PUTS).map(|number| Some(number.into())).collect();
    if requested != all {
        let made_up = requested.iter().any(|requested| !all.contains(requested));
        assert!(!made_up && requested.is_sorted(), "in order, and none that was not sent: {requested:?}");
        return Err(format!("{} of {PUTS} puts: {text}", requested.len()));
    }
    if !puts.iter().all(|put| put["user"].is_string()) {
        return Err(format!("a put without its user: {text}"));
    }
    let answered = puts.iter().filter(|put| put["status"] == "ok").count();
    eprintln!("{name}: {answered} of {PUTS} answers");
    // below the ring tier they are looked for among whatever else servers send
    if tier == "ring" && answered != PUTS as usize {
        return Err(format!("{answered} of {PUTS} answers: {text}"));
    }
    Ok(())
}

/// Values of an array: some look like messages at first sight.
#[derive(Clone, Copy)]
enum Values {
    /// Bytes that can't begin a message.
    Sevens,
    Zeros,
    /// Integers of 32 bits, from 0 to 39.
    Small,
    /// Floats, 0 and 1 in turn.
    Floats,
}

impl Values {
    fn bytes(self, length: usize) -> Vec<u8> {
        let of = |n: usize| match self {
            Values::Sevens => [7; 4],
            Values::Zeros => [0; 4],
            Values::Small => (n as u32 % 40).to_be_bytes(),
            Values::Floats => ((n % 2) as f32).to_be_bytes(),
        };
        (0..length / 4).flat_map(of).collect()
    }
}

fn waveforms(of: Values) -> impl Fn() -> Bulk {
    move || bulk(long(1, 4, 1, &of.bytes(ARRAY)), true, Duration::ZERO)
}

fn long_puts(of: Values) -> impl Fn() -> Bulk {
    move || bulk(long(19, 4, 7, &of.bytes(LONG_PUT)), false, Duration::from_millis(200))
}

#[test]
fn no_put_is_lost_beside_waveforms() {
    puts_beside("bulk-waveforms-ring", "ring", waveforms(Values::Small));
}

/// Its filter is the packet tier's; its rings of hits are others, and are asked in the same turns.
#[test]
fn no_put_is_lost_beside_waveforms_on_the_perf_tier() {
    puts_beside("bulk-waveforms-perf", "perf", waveforms(Values::Zeros));
}

#[test]
fn no_put_is_lost_beside_waveforms_on_the_packet_tier() {
    for (name, of) in [("sevens", Values::Sevens), ("zeros", Values::Zeros)] {
        puts_beside(&format!("bulk-waveforms-packet-{name}"), "packet", waveforms(of));
    }
}

#[test]
fn no_put_is_lost_beside_long_puts() {
    puts_beside("bulk-puts-ring", "ring", long_puts(Values::Zeros));
}

#[test]
fn no_put_is_lost_beside_long_puts_on_the_perf_tier() {
    puts_beside("bulk-puts-perf", "perf", long_puts(Values::Zeros));
}

#[test]
fn no_put_is_lost_beside_long_puts_on_the_packet_tier() {
    for (name, of) in [
        ("sevens", Values::Sevens),
        ("zeros", Values::Zeros),
        ("small", Values::Small),
        ("floats", Values::Floats),
    ] {
        puts_beside(&format!("bulk-puts-packet-{name}"), "packet", long_puts(of));
    }
}

/// Checksum of the IP protocols.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// An opening of a connection (SYN) to the IOC, from another address and port each time.
fn opening(number: u32) -> Vec<u8> {
    let [_, a, b, c] = (number % 0x00ff_fffe + 2).to_be_bytes();
    let addresses = [127, a, b, c, 127, 0, 0, 1];
    let mut tcp = Vec::new();
    tcp.extend((1024 + (number % 60_000) as u16).to_be_bytes());
    tcp.extend(PORT.to_be_bytes());
    tcp.extend(number.wrapping_mul(0x9e37_79b1).to_be_bytes());
    // no acknowledgement; 20 bytes, SYN, a window; checksum and urgent pointer
    tcp.extend([0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]);
    let sum = checksum(&[&addresses[..], &[0, 6, 0, 20], &tcp].concat());
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    // the kernel fills in the checksum
    [&[0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0][..], &addresses, &tcp].concat()
}

/// 20,000 openings a second.
fn openings() -> Bulk {
    const AT_ONCE: u32 = 100;
    const PAUSE: Duration = Duration::from_millis(5);
    let bulk = Bulk::new(10_000);
    let (ends, sent) = (bulk.ends.clone(), bulk.sent.clone());
    // SAFETY: no pointers are passed.
    let raw = unsafe { libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW) };
    assert!(raw >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the descriptor was just made and nobody else owns it.
    let raw = unsafe { OwnedFd::from_raw_fd(raw) };
    let to = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
        sin_zero: [0; 8],
    };
    std::thread::spawn(move || {
        let mut next = Instant::now();
        for number in 0.. {
            let segment = opening(number);
            // SAFETY: both live until the call returns, and have these sizes.
            let done = unsafe {
                let address = (&raw const to).cast();
                let length = size_of::<libc::sockaddr_in>() as u32;
                libc::sendto(raw.as_raw_fd(), segment.as_ptr().cast(), segment.len(), 0, address, length)
            };
            if done < 0 || ends.load(Ordering::Relaxed) {
                break;
            }
            sent.fetch_add(1, Ordering::Relaxed);
            if (number + 1) % AT_ONCE == 0 {
                next += PAUSE;
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        }
    });
    bulk
}

#[test]
fn no_put_is_lost_beside_a_flood_of_openings() {
    puts_beside("bulk-openings-ring", "ring", openings);
}

#[test]
fn no_put_is_lost_beside_a_flood_of_openings_on_the_packet_tier() {
    puts_beside("bulk-openings-packet", "packet", openings);
}
