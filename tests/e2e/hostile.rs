//! A client may claim any user and host, and an IOC may have any name. The output of both programs contains no control
//! sequences from outside, and no forged lines.

use crate::rig::{self, iocreplay, run, wait_until, Rig, IOCREC};
use iocrec_log::escape::is_unsafe;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

const PORT: u16 = 5074;
/// Attempts to forge a line, to control the terminal and its title, and to reverse text.
const BAD: &str = "x\r\nWrite: FORGED 1 from 10.0.0.1:1 to 10.0.0.2:2\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}2J\u{202e}\u{2028}\u{feff}\u{7f}";

/// A Channel Access message: header, and payload padded with zeros.
fn message(command: u16, dbr: u16, count: u16, parameters: [u32; 2], payload: &[u8]) -> Vec<u8> {
    let length = payload.len().next_multiple_of(8);
    let mut bytes = Vec::new();
    for number in [command, length as u16, dbr, count] {
        bytes.extend(number.to_be_bytes());
    }
    parameters.iter().for_each(|number| bytes.extend(number.to_be_bytes()));
    bytes.extend(payload);
    bytes.resize(16 + length, 0);
    bytes
}

fn text(command: u16, text: &[u8], parameters: [u32; 2]) -> Vec<u8> {
    message(command, 0, 0, parameters, &[text, &[0]].concat())
}

/// A client that sends what no client library would.
struct Client {
    stream: TcpStream,
    sid: u32,
}

impl Client {
    fn connect(pv: &str) -> Client {
        let mut stream = TcpStream::connect(("127.0.0.1", PORT)).expect("the IOC serves");
        stream.set_read_timeout(Some(rig::PATIENCE)).expect("a timeout");
        // bytes that are no text as well
        let user = [BAD.as_bytes(), b"\xff\x9b"].concat();
        for part in [
            message(0, 0, 13, [0, 0], &[]),                       // VERSION
            text(20, &user, [0, 0]),                              // CLIENT_NAME
            text(21, format!("console{BAD}").as_bytes(), [0, 0]), // HOST_NAME
            text(18, pv.as_bytes(), [1, 13]),                     // CREATE_CHAN
        ] {
            stream.write_all(&part).expect("a message is sent");
        }
        loop {
            let mut header = [0; 16];
            stream.read_exact(&mut header).expect("an answer");
            let length = u16::from_be_bytes([header[2], header[3]]);
            std::io::copy(&mut (&mut stream).take(length.into()), &mut std::io::sink()).expect("its rest");
            if header[..2] == [0, 18] {
                let sid = u32::from_be_bytes([header[12], header[13], header[14], header[15]]);
                return Client { stream, sid };
            }
        }
    }

    /// WRITE of a DBR_STRING.
    fn put(&mut self, value: &[u8]) {
        self.stream.write_all(&message(4, 0, 1, [self.sid, 1], value)).expect("a put is sent");
    }
}

#[track_caller]
fn is_harmless(what: &str, text: &[u8]) {
    let text = std::str::from_utf8(text).expect("UTF-8");
    for line in text.lines() {
        assert!(!line.chars().any(is_unsafe), "{what}: {line:?}");
        assert!(!line.starts_with("Write: FORGED"), "{what}: {line:?}");
    }
}

#[test]
fn names_that_are_sequences_for_a_terminal() {
    let Some(rig) = Rig::new("hostile") else { return };
    let mut command = rig::python("ioc.py");
    command.arg(format!("ioc{BAD}")).arg(PORT.to_string()).arg(rig::rig_file("puts.db"));
    let mut ioc = rig.ioc_by("hostile", &mut command);
    let pid = ioc.pid_argument();
    let mut client = Client::connect("PUT:TEXT");

    let mut watch = rig.agent(&["watch", "--pid", &pid]);
    let mut lines = Vec::new();
    let mut written = 0;
    while written < 3 {
        client.put(b"\x1b[2J\r\n\xe2\x80\xae\x9b");
        while let Some(line) = watch.line_within(Duration::from_millis(300)) {
            is_harmless("watch", line.as_bytes());
            written += usize::from(line.starts_with("Write:"));
            lines.push(line);
        }
        assert!(lines.len() < 2000 && watch.runs(), "{lines:?} {}", watch.errors());
    }
    assert!(watch.stop().success());
    is_harmless("watch's errors", watch.errors().as_bytes());
    let known = r#"user="x\r\nWrite: FORGED 1 from 10.0.0.1:1 to 10.0.0.2:2\x1b[2J\x1b]0;title\x07"#;
    assert!(lines.iter().any(|line| line.contains(known)), "{lines:?}");

    let mut recorder = rig.record(&["--pid", &pid]);
    wait_until("the recorder sees a put", || {
        client.put(b"\x1b[2J\r\nFORGED");
        std::thread::sleep(Duration::from_millis(300));
        rig.puts(&["--pv", "PUT:TEXT"]).iter().any(|put| put["source"] == "both")
    });
    let dir = rig.log();
    let mark = run(Command::new(IOCREC).args(["mark", "--dir", &dir, &format!("mark{BAD}")]));
    assert_eq!(mark.status.code(), Some(0), "{}", String::from_utf8_lossy(&mark.stderr));
    for words in [
        &["check"][..],
        &["check", "--json"],
        &["status", "--dir", &dir],
        &["status", "--dir", &dir, "--json"],
        &["status", "--dir", BAD],
        &["mark", "--dir", BAD, "x"],
        &["record", "--dir", &dir, "--iface", BAD],
        &["record", "--dir", BAD, "--max-disk", BAD],
        &[BAD],
    ] {
        let output = run(Command::new(IOCREC).args(words));
        is_harmless(&format!("{words:?}"), &output.stdout);
        is_harmless(&format!("{words:?}"), &output.stderr);
        if words.contains(&"--json") {
            let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let names: Vec<_> =
                json["iocs"].as_array().expect("IOCs").iter().map(|ioc| &ioc["name"]).collect();
            assert!(names.contains(&&format!("ioc{BAD}").into()), "{json}");
        }
    }
    ioc.command("dbpr PUT:TEXT");
    assert!(recorder.stop().success(), "{}", recorder.errors());
    is_harmless("the recorder's errors", recorder.errors().as_bytes());

    for words in [
        "info",
        "info --json",
        "puts --all",
        "puts --all --format jsonl",
        "traces",
        "traces --format otlp",
        "iocs",
        "iocs --json",
        "records",
        "records --json",
        "verify",
        "why PUT:TEXT",
        "why PUT:TEXT --json",
    ] {
        let output = run(Command::new(iocreplay()).args(words.split(' ')).arg(&dir));
        is_harmless(words, &output.stdout);
        is_harmless(words, &output.stderr);
        assert_eq!(output.status.code(), Some(0), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!output.stdout.is_empty(), "{words}");
    }
    let puts = rig.puts(&["--pv", "PUT:TEXT"]);
    let last = puts.last().expect("a put");
    assert_eq!(last["user"], format!(r"{BAD}\xff\x9b"), "what is no text stands as it was");
    assert_eq!(last["client_host"], format!("console{BAD}"));
}
