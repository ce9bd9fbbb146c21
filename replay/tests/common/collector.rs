//! What a stand-in for a collector of OpenTelemetry reads: a request, and the protobuf message in it.

use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request, as it came.
pub struct Request {
    pub line: String,
    pub headers: BTreeMap<String, String>,
    /// Unpacked.
    pub body: Vec<u8>,
}

/// Reads a request.
pub fn request(stream: &TcpStream) -> Request {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let headers: BTreeMap<String, String> = lines[1..]
        .iter()
        .map(|line| line.split_once(':').unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut packed = vec![0; headers["content-length"].parse().unwrap()];
    reader.read_exact(&mut packed).unwrap();
    let mut body = Vec::new();
    GzDecoder::new(packed.as_slice()).read_to_end(&mut body).unwrap();
    Request { line: lines[0].clone(), headers, body }
}

/// A varint at the beginning, which is taken off.
fn varint(bytes: &mut &[u8]) -> usize {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        number |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

/// The fields of a protobuf message that have lengths.
pub fn fields(mut bytes: &[u8]) -> Vec<(usize, &[u8])> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let length = match tag & 7 {
            0 => {
                varint(&mut bytes);
                continue;
            }
            1 => 8,
            2 => varint(&mut bytes),
            other => panic!("wire type {other}"),
        };
        let (field, rest) = bytes.split_at(length);
        bytes = rest;
        fields.push((tag >> 3, field));
    }
    fields
}

/// Request lines and messages.
type Taken = Vec<(String, Vec<u8>)>;

/// What a stand-in does with requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It takes them.
    Takes,
    /// It cuts connections.
    Down,
    /// It answers 503.
    Busy,
    /// It answers nothing, and cuts the connection once it does something else.
    Slow,
}

/// A collector that takes everything, but for the time that it does something else: then it keeps nothing.
pub struct StandIn {
    pub url: String,
    taken: Arc<Mutex<Taken>>,
    mode: Arc<Mutex<Mode>>,
    refused: Arc<AtomicUsize>,
    /// It is down after so many more.
    left: Arc<AtomicUsize>,
}

impl StandIn {
    pub fn start() -> StandIn {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let of = StandIn {
            url,
            taken: Arc::default(),
            mode: Arc::new(Mutex::new(Mode::Takes)),
            refused: Arc::default(),
            left: Arc::new(AtomicUsize::new(usize::MAX)),
        };
        let (taken, mode, refused, left) =
            (Arc::clone(&of.taken), Arc::clone(&of.mode), Arc::clone(&of.refused), Arc::clone(&of.left));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let now = *mode.lock().unwrap();
                if now != Mode::Takes {
                    refused.fetch_add(1, Ordering::SeqCst);
                    if now == Mode::Busy {
                        request(&stream);
                        let _ = stream.write_all(b"HTTP/1.1 503 Not Now\r\nContent-Length: 0\r\n\r\n");
                    }
                    while now == Mode::Slow && *mode.lock().unwrap() == now {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                    continue;
                }
                let Request { line, body, .. } = request(&stream);
                taken.lock().unwrap().push((line, body));
                if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                    *mode.lock().unwrap() = Mode::Down;
                }
                let answer =
                    "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        of
    }

    /// From now on it does this.
    pub fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    /// It takes so many requests, and is down then.
    pub fn take_only(&self, count: usize) {
        self.left.store(count, Ordering::SeqCst);
        self.set(Mode::Takes);
    }

    /// Requests that were not taken.
    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::SeqCst)
    }

    /// The messages of a signal that it has taken, which are one message together.
    pub fn taken(&self, signal: &str) -> Vec<u8> {
        let path = format!("POST /v1/{signal} ");
        let taken = self.taken.lock().unwrap();
        taken.iter().filter(|(line, _)| line.starts_with(&path)).flat_map(|(_, body)| body.clone()).collect()
    }
}
