//! Where `follow` sends what it shows: syslog to real sockets, parsed as RFC 5424 has it, and Prometheus' text format,
//! parsed by Prometheus' own client.

mod common;
#[path = "../../tests/rig/not_run.rs"]
mod not_run;

use common::{happenings, iocreplay, outcome, run, write_events, write_log, MS, SECOND};
use iocrec_log::event::*;
use not_run::{not_run, Needs};
use std::fs;
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// A message, as RFC 5424 lays it out (section 6).
#[derive(Debug, PartialEq)]
struct Message {
    facility: u8,
    severity: u8,
    time: String,
    host: String,
    kind: String,
    text: String,
}

/// Parses it strictly: no field may be empty, of another form, or longer than it may be.
fn parse(message: &[u8]) -> Message {
    assert!(message.len() <= 2048, "{}", message.len());
    let message = std::str::from_utf8(message).expect("UTF-8");
    assert!(!message.chars().any(char::is_control), "{message:?}");
    let (priority, rest) = message.strip_prefix('<').unwrap().split_once('>').unwrap();
    let number: u8 = priority.parse().unwrap();
    assert!(number <= 191 && number.to_string() == priority, "{message}");
    let fields: Vec<&str> = rest.splitn(8, ' ').collect();
    let [version, time, host, app, process, kind, data, text] = fields.try_into().expect("eight fields");
    assert_eq!((version, app, process, data), ("1", "iocrec", "-", "-"), "{message}");
    let is_word =
        |word: &str, most| (1..=most).contains(&word.len()) && word.bytes().all(|b| (33..=126).contains(&b));
    assert!(is_word(host, 255) && is_word(kind, 32), "{message}");
    let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shape, "0000-00-00T00:00:00.000000Z", "{message}");
    let (time, host, kind, text) = (time.into(), host.into(), kind.into(), text.into());
    Message { facility: number >> 3, severity: number & 7, time, host, kind, text }
}

/// What happens, and what the recorder notes, on a host of this name.
fn log(here: &Path, host: &str) {
    let mut facts = happenings();
    let end = |how: &str| Fact::IocEnd(IocEnd { ioc: 2, how: how.into() });
    facts.push((5 * SECOND, Fact::Mark("beam\nlost".into())));
    let loss =
        Loss { source: LossSource::Hits, count: 7, since: SECOND, cause: "the buffer was full".into() };
    facts.push((5 * SECOND + MS, Fact::Loss(loss)));
    facts.push((6 * SECOND, end("killed by SIGKILL")));
    write_events(&here.join("log"), host, 7, facts);
}

fn logged() -> TempDir {
    let here = tempfile::tempdir().unwrap();
    log(here.path(), "box1");
    here
}

/// What a receiver gets of the whole log.
fn received(here: &Path, target: &str, mut receive: impl FnMut(&mut [u8]) -> usize) -> Vec<Message> {
    let (code, out, err) = run(here, &["follow", "--once", "--utc", "--syslog", target, "log"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let mut buffer = vec![0; 1 << 16];
    let messages: Vec<Message> = out
        .lines()
        .map(|_| {
            let length = receive(&mut buffer);
            parse(&buffer[..length])
        })
        .collect();
    // each is a line that was shown
    for (message, line) in messages.iter().zip(out.lines()) {
        let time = message.time.replace('Z', "+00:00");
        assert!(line.starts_with(&time) && line.contains(&message.text), "{message:?} {line}");
    }
    messages
}

#[test]
fn syslog_gets_each_line_once() {
    let here = logged();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let target = format!("udp://{}", udp.local_addr().unwrap());
    let by_udp = received(here.path(), &target, |buffer| udp.recv(buffer).unwrap());
    let path = here.path().join("dev-log");
    let unix = UnixDatagram::bind(&path).unwrap();
    unix.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let target = format!("unix:{}", path.display());
    let by_unix = received(here.path(), &target, |buffer| unix.recv(buffer).unwrap());
    assert_eq!(by_udp, by_unix);
    let has = |kind: &str, severity: u8, text: &str| {
        let is_it = |m: &Message| (m.kind.as_str(), m.severity) == (kind, severity) && m.text.contains(text);
        assert!(by_udp.iter().any(is_it), "{kind} {severity} {text}: {by_udp:#?}");
    };
    assert!(by_udp.iter().all(|message| message.facility == 16 && message.host == "box1"));
    has("put", 6, "T:SP");
    has("put", 4, "denied");
    has("alarm", 3, "MAJOR");
    has("death", 2, "second        the IOC ended: killed by SIGKILL");
    has("mark", 5, "mark: beam\\nlost");
    has("loss", 4, "lost 7 hits: the buffer was full");
}

/// An acknowledgement tells of an alarm, and changes none.
#[test]
fn acknowledgements_are_no_alarms() {
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plant/log");
    let here = tempfile::tempdir().unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let target = format!("udp://{}", udp.local_addr().unwrap());
    let follow = ["follow", "--once", "--what", "alarms", "--pv", "LI:TEMP1", "--textfile", "counts.prom"];
    let to = ["--syslog", target.as_str(), log];
    let (code, shown, err) = run(here.path(), &[&follow[..], &to[..]].concat());
    assert_eq!(code, 0, "{err}");
    let mut buffer = [0; 4096];
    let messages: Vec<Message> = shown
        .lines()
        .map(|_| {
            let length = udp.recv(&mut buffer).unwrap();
            parse(&buffer[..length])
        })
        .collect();
    let acknowledged: Vec<u8> = messages
        .iter()
        .filter(|message| message.text.contains("acknowledge"))
        .map(|message| message.severity)
        .collect();
    assert_eq!(acknowledged, [5, 5, 5], "{messages:#?}");
    let text = fs::read_to_string(here.path().join("counts.prom")).unwrap();
    let counts = text.lines().filter_map(|line| line.strip_prefix("iocrec_follow_alarms_total{"));
    let counted: f64 = counts.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum();
    assert_eq!(counted, (messages.len() - acknowledged.len()) as f64, "{text}");
}

#[test]
fn hostile_names_stay_in_their_fields() {
    let here = tempfile::tempdir().unwrap();
    log(here.path(), "box 1\n<13>1 - \u{202e}");
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let target = format!("udp://{}", udp.local_addr().unwrap());
    let messages = received(here.path(), &target, |buffer| udp.recv(buffer).unwrap());
    assert!(messages.iter().all(|message| message.host == "box?1?<13>1?-??"), "{messages:?}");
    let (code, _, _) = run(here.path(), &["follow", "--once", "--textfile", "metrics.prom", "log"]);
    assert_eq!(code, 0);
    let text = fs::read_to_string(here.path().join("metrics.prom")).unwrap();
    assert!(text.contains("host=\"box 1\\\\n<13>1 - \\\\u{202e}\""), "{text}");
}

#[test]
fn a_syslog_that_is_not_there_is_said() {
    let here = logged();
    let follow =
        |target: &str| run(here.path(), &["follow", "--once", "--what", "puts", "--syslog", target, "log"]);
    let (code, out, err) = follow("unix:/nowhere/log");
    assert_eq!((code, out.as_str(), err.lines().count()), (1, "", 1), "{err}");
    assert!(err.contains("can't send to unix:/nowhere/log"), "{err}");
    for wrong in ["unix:log", "udp://box", "udp://:514", "udp://box:0", "tcp://box:514", ""] {
        let (code, _, err) = follow(wrong);
        assert!(code == 2 && err.contains("write unix:/dev/log or udp://HOST:514"), "{wrong}: {err}");
    }
    // nobody listens there: the log has the rest
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (code, out, err) = follow(&format!("udp://127.0.0.1:{port}"));
    assert!(code == 0 && !out.is_empty() && err.lines().count() <= 2, "{err}");
}

/// What Prometheus' client reads: name, labels and value of each sample, as JSON.
fn parsed(file: &Path, name: &'static str) -> Option<serde_json::Value> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.venv/bin/python");
    let script = "import sys, json\nfrom prometheus_client.parser import text_string_to_metric_families as f\n\
                  print(json.dumps([[s.name, s.labels, s.value, m.type] for m in f(open(sys.argv[1]).read()) for s in m.samples]))";
    let output = Command::new(python).args(["-c", script]).arg(file).output();
    let Ok((0, out, _)) = output.map(outcome) else {
        not_run(name, Needs::Program("prometheus_client, which scripts/setup installs"));
        return None;
    };
    Some(serde_json::from_str(&out).unwrap())
}

#[test]
fn prometheus_reads_the_textfile() {
    let here = logged();
    let file = here.path().join("metrics.prom");
    fs::write(&file, "old").unwrap();
    let words = ["follow", "--once", "--what", "marks", "--textfile", "metrics.prom", "log"];
    let (code, _, err) = run(here.path(), &words);
    assert_eq!((code, err.as_str()), (0, ""));
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.ends_with('\n'), "{text}");
    let Some(samples) = parsed(&file, "follow_out::prometheus_reads_the_textfile") else { return };
    let sum = |name: &str, label: &str, of: &str| -> f64 {
        let samples = samples.as_array().unwrap().iter();
        let found = samples.filter(|sample| sample[0] == name && (of.is_empty() || sample[1][label] == of));
        found.map(|sample| sample[2].as_f64().unwrap()).sum()
    };
    let (_, puts, _) = run(here.path(), &["puts", "--format", "jsonl", "log"]);
    let of_demo = puts.lines().filter(|line| line.contains("\"ioc\":\"demo\"")).count();
    assert_eq!(sum("iocrec_follow_puts_total", "ioc", "demo"), of_demo as f64, "{text}");
    assert_eq!(sum("iocrec_follow_puts_total", "", ""), puts.lines().count() as f64, "{text}");
    let (_, info, _) = run(here.path(), &["info", "--json", "log"]);
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    let losses = info["runs"][0]["losses"].as_array().unwrap().iter();
    let hits: u64 =
        losses.filter(|loss| loss["source"] == "hits").filter_map(|loss| loss["count"].as_u64()).sum();
    assert!(hits >= 7);
    assert_eq!(sum("iocrec_follow_lost_total", "source", "hits"), hits as f64, "{text}");
    assert_eq!(sum("iocrec_follow_ioc_ends_total", "ioc", "second"), 1.0, "{text}");
    assert_eq!(sum("iocrec_follow_iocs_alive", "host", "box1"), 1.0, "{text}");
    assert!(sum("iocrec_follow_alarms_total", "severity", "MAJOR") >= 1.0, "{text}");
    let newest = sum("iocrec_follow_newest_event_timestamp_seconds", "host", "box1");
    assert!((newest - 1_790_000_006.0).abs() < 1.0, "{newest}");
    // the log is of another year: its age is the difference to this machine's clock
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let age = sum("iocrec_follow_newest_event_age_seconds", "host", "box1");
    assert!((now - newest - age).abs() < 60.0, "{age}");
    let refused = run(here.path(), &["follow", "--once", "--textfile", "log/metrics.prom", "log"]);
    assert!(refused.0 == 2 && refused.2.contains("--textfile"), "{refused:?}");
}

/// It is replaced while a reader looks at it all the time.
#[test]
fn the_textfile_is_never_half_written() {
    let here = logged();
    write_log(&here.path().join("log"), "box2", 8);
    let file = here.path().join("metrics.prom");
    let mut command = iocreplay(["follow", "--textfile", "metrics.prom", "--interval", "1", "log"]);
    let mut child = command.current_dir(here.path()).stdout(std::process::Stdio::null()).spawn().unwrap();
    let (mut versions, begun) = (Vec::<String>::new(), std::time::Instant::now());
    while versions.len() < 3 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{versions:?}");
        let Ok(text) = fs::read_to_string(&file) else { continue };
        assert!(text.starts_with("# HELP iocrec_follow_puts_total ") && text.ends_with('\n'), "{text}");
        assert!(text.contains("newest_event_age_seconds{host=\"box1\"}"), "{text}");
        if versions.last() != Some(&text) {
            versions.push(text);
        }
    }
    // SAFETY: kill takes no pointers; the child is not reaped, so the pid is its.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
    assert_eq!(child.wait().unwrap().code(), Some(0), "SIGTERM ends it in good order");
}
