//! What a stand-in for a collector of OpenTelemetry reads: a request, and the protobuf message in it.

use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

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

/// A collector that takes everything, but for the time that it is down: then it cuts connections, and keeps nothing.
pub struct StandIn {
    pub url: String,
    taken: Arc<Mutex<Taken>>,
    is_down: Arc<AtomicBool>,
    refused: Arc<AtomicUsize>,
}

impl StandIn {
    pub fn start() -> StandIn {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let of = StandIn { url, taken: Arc::default(), is_down: Arc::default(), refused: Arc::default() };
        let (taken, is_down, refused) =
            (Arc::clone(&of.taken), Arc::clone(&of.is_down), Arc::clone(&of.refused));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                if is_down.load(Ordering::SeqCst) {
                    refused.fetch_add(1, Ordering::SeqCst);
                    continue;
                }
                let Request { line, body, .. } = request(&stream);
                taken.lock().unwrap().push((line, body));
                let answer =
                    "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        of
    }

    /// From now on it is down, or takes what comes.
    pub fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::SeqCst);
    }

    /// Connections that were cut.
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
