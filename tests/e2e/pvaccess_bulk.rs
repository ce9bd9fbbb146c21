//! Puts beside images over PVAccess: neither they nor their answers are lost, whichever protocol they use.

use crate::pva_messages::message;
use crate::rig::{wait_until, Rig};
use serde_json::{json, Value};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PORT: u16 = 5474;
/// Where the images come from: other addresses than the IOC's, with the port on which ioc.py serves PVAccess.
const IMAGES: &str = "127.0.0.2:6474";
const IMAGES_OVER_IPV6: &str = "[::1]:6474";
const PUTS: u32 = 200;
/// Bytes of an image.
const IMAGE: usize = 8_000_000;
/// How often the scene is repeated where other work keeps the recorder, built without optimization, from its rings.
const ATTEMPTS: usize = 3;

/// Who sends images.
#[derive(Clone, Copy)]
enum By {
    /// A server, as updates.
    Server,
    /// A client, as puts of zeros.
    Client,
}

/// A server or a client that sends images, and the other side, until it is dropped.
struct Images {
    ends: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
}

impl Images {
    fn new(address: &str, by: By) -> Images {
        let images = Images { ends: Arc::default(), sent: Arc::default() };
        let (ends, sent) = (images.ends.clone(), images.sent.clone());
        let listener = TcpListener::bind(address).expect("the port on another address");
        let client = TcpStream::connect(address).expect("connect");
        let (server, _) = listener.accept().expect("accept");
        let (mut sender, mut receiver) = match by {
            By::Server => (server, client),
            By::Client => (client, server),
        };
        std::thread::spawn(move || {
            let mut room = vec![0; 1 << 20];
            while receiver.read(&mut room).is_ok_and(|read| read > 0) {}
        });
        std::thread::spawn(move || {
            let (image, pause) = match by {
                // 0x20 is a shape of no message
                By::Server => {
                    let ids = [&0x1000_2000u32.to_le_bytes()[..], &[0]].concat();
                    let _ = sender.write_all(b"\xca\x02\x41\x02\0\0\0\0");
                    (message(0x40, 13, &[ids, vec![0x20; IMAGE]].concat()), Duration::ZERO)
                }
                By::Client => (message(0, 11, &vec![0; IMAGE]), Duration::from_millis(50)),
            };
            while !ends.load(Ordering::Relaxed) && sender.write_all(&image).is_ok() {
                sent.fetch_add(image.len() as u64, Ordering::Relaxed);
                std::thread::sleep(pause);
            }
        });
        images
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

/// What is missing of the puts to a PV, in words. `step`: the difference between one and the next.
fn missing(rig: &Rig, pv: &str, protocol: &str, step: f64, needs_answers: bool) -> Option<String> {
    let puts = rig.puts(&["--pv", pv]);
    let requested: Vec<Option<f64>> = puts.iter().map(|put| put["requested"].as_f64()).collect();
    let all: Vec<Option<f64>> = (0..PUTS).map(|number| Some(f64::from(number) * step)).collect();
    // of one whose type was lost on the way the value is unknown
    let known: Vec<f64> = requested.iter().copied().flatten().collect();
    let made_up = known.iter().any(|value| !all.contains(&Some(*value)));
    assert!(!made_up && known.is_sorted(), "in order, and none that was not sent: {requested:?}");
    let answered = puts.iter().filter(|put| put["status"] == "ok").count();
    eprintln!("{pv}: {} of {PUTS} puts, {answered} answers", puts.len());
    let wrong = |put: &Value| put["protocol"] != *protocol || !put["user"].is_string();
    let wrong: Vec<&Value> = puts.iter().filter(|put| wrong(put)).collect();
    if requested == all && wrong.is_empty() && (!needs_answers || answered == PUTS as usize) {
        return None;
    }
    let what = format!("{pv}: {} of {PUTS} puts, {answered} answers", requested.len());
    Some(wrong.first().map_or(what.clone(), |first| format!("{what}, {} like {first}", wrong.len())))
}

/// Returns what is missing, with the log's losses.
fn attempt(rig: &Rig, tier: &str, images: (&str, By)) -> Result<(), String> {
    let ioc = rig.ioc_with("images", PORT, "pvaccess.db", &["--pva", "pvxs"]);
    let mut recorder = rig.record(&["--pid", &ioc.pid_argument(), "--tier", tier]);
    // who a client is comes at the begin of its circuit, which the packet tier must see
    wait_until("the IOC's port is followed", || {
        rig.runs()
            .iter()
            .any(|run| run["iocs"][0]["ca_ports"].as_array().is_some_and(|ports| !ports.is_empty()))
    });
    let mut ca = rig.client("libca", &[PORT], &[]);
    let mut pva = rig.client("p4p", &[PORT], &[]);
    let source = if tier == "packet" { "packet" } else { "both" };
    rig.wait_until_recording(&mut ca, "PVA:READY", source);
    let (started, images) = (Instant::now(), Images::new(images.0, images.1));
    for number in 0..PUTS {
        ca.put("PVA:STILL", 5, json!(number), true);
        // it prepares each put anew, and its type comes each time
        pva.put("PVA:SP", 6, json!(f64::from(number) / 2.0), false);
        std::thread::sleep(Duration::from_millis(5));
    }
    let sent = images.sent.load(Ordering::Relaxed);
    eprintln!("{tier}: {} MB in {:?}", sent / 1_000_000, started.elapsed());
    assert!(sent > 15 * IMAGE as u64, "nothing is tested");
    drop(images);
    assert!(recorder.stop().success(), "{}", recorder.errors());
    let info = rig.replay("info", &[]);
    let text = String::from_utf8_lossy(&info.stdout);
    eprintln!("{}", text.lines().filter(|line| line.contains("loss")).collect::<Vec<_>>().join("\n"));
    let needs_answers = tier != "packet";
    for (pv, protocol, step) in [("PVA:STILL", "ca", 1.0), ("PVA:SP", "pva", 0.5)] {
        if let Some(missing) = missing(rig, pv, protocol, step, needs_answers) {
            return Err(format!("{missing}: {text}"));
        }
    }
    Ok(())
}

fn puts_beside_images(name: &str, tier: &str, images: (&str, By)) {
    for number in 1..=ATTEMPTS {
        let Some(rig) = Rig::alone(name) else { return };
        let Err(missing) = attempt(&rig, tier, images) else { return };
        // what is missing is never unsaid
        assert!(missing.contains("\nloss "), "{missing}");
        assert!(number < ATTEMPTS, "{missing}");
        eprintln!("{name}: once more: {missing}");
    }
}

#[test]
fn no_put_and_no_answer_is_lost_beside_images() {
    puts_beside_images("pva-images-ring", "ring", (IMAGES, By::Server));
}

#[test]
fn no_put_and_no_answer_is_lost_beside_images_over_ipv6() {
    puts_beside_images("pva-images-ipv6", "ring", (IMAGES_OVER_IPV6, By::Server));
}

#[test]
fn no_put_is_lost_beside_images_on_the_packet_tier() {
    puts_beside_images("pva-images-packet", "packet", (IMAGES, By::Server));
}

#[test]
fn no_put_is_lost_beside_long_puts_on_the_packet_tier() {
    puts_beside_images("pva-puts-packet", "packet", (IMAGES, By::Client));
}
