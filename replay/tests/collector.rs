//! Spans sent to a collector of OpenTelemetry. The collector here is a stand-in of our own: it answers what a real one
//! can't be made to answer at will, and keeps what it was sent. What is inside is compared with the formats for files, which
//! `check_otlp.py` compares with the official definitions.

mod common;

use common::collector::{fields, request, Request};
use common::{ca_put, complete, iocreplay, outcome, process, put, run, write_events, write_log, MS, SECOND};
use flate2::write::GzEncoder;
use flate2::Compression;
use iocrec_log::event::{Fact, PutKind};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the stand-in does with a request.
enum Does {
    /// Answers with this status line, these further headers and this body.
    Answer(&'static str, &'static str, &'static [u8]),
    /// Closes the connection without an answer.
    Cut,
    /// Answers just this, and cuts the connection.
    Raw(String),
    /// Answers so, byte by byte, for ever.
    Endless,
}

const OK: Does = Does::Answer("200 OK", "Content-Type: application/x-protobuf", b"");

/// Starts a stand-in that does this with the requests, in order; more are not answered. Gives its URL, and the requests
/// once all came.
fn stand_in(does: Vec<Does>) -> (String, JoinHandle<Vec<Request>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serve = move || {
        let mut requests = Vec::new();
        for does in does {
            let (stream, _) = listener.accept().unwrap();
            requests.push(request(&stream));
            let mut stream = stream;
            match does {
                Does::Answer(status, headers, body) => {
                    let head =
                        format!("HTTP/1.1 {status}\r\n{headers}\r\nContent-Length: {}\r\n\r\n", body.len());
                    stream.write_all(head.as_bytes()).unwrap();
                    stream.write_all(body).unwrap();
                }
                Does::Cut => {}
                Does::Raw(text) => stream.write_all(text.as_bytes()).unwrap(),
                Does::Endless => {
                    let _ = stream.write_all(b"HTTP/1.1 400 No\r\n\r\n");
                    while stream.write_all(&[b'x'; 1000]).is_ok() {}
                }
            }
        }
        requests
    };
    (url, std::thread::spawn(serve))
}

/// Each span in a message, by its trace and id.
fn spans(message: &[u8]) -> BTreeMap<(Vec<u8>, Vec<u8>), Vec<u8>> {
    let inner = |fields: Vec<(usize, Vec<u8>)>, number: usize| -> Vec<(usize, Vec<u8>)> {
        let wanted = fields.into_iter().filter(|(own, _)| *own == number);
        wanted.flat_map(|(_, bytes)| owned(&bytes)).collect()
    };
    let resources = inner(vec![(1, message.to_vec())], 1);
    let scopes = inner(resources, 1);
    let spans: Vec<_> = inner(scopes, 2).into_iter().filter(|(own, _)| *own == 2).collect();
    let mut found = BTreeMap::new();
    for (_, span) in spans {
        let of = |number| fields(&span).iter().find(|(own, _)| *own == number).unwrap().1.to_vec();
        assert!(found.insert((of(1), of(2)), span.clone()).is_none(), "a span came twice");
    }
    found
}

fn owned(bytes: &[u8]) -> Vec<(usize, Vec<u8>)> {
    fields(bytes).into_iter().map(|(number, bytes)| (number, bytes.to_vec())).collect()
}

/// A log of so many puts, each with a chain of three spans.
fn write_puts(directory: &Path, puts: u64) {
    let mut facts: Vec<(u64, Fact)> = Vec::new();
    for n in 0..puts {
        let (t, v) = (SECOND + n * MS, n as f64);
        facts.push((t, ca_put(1, 1, false, 1, v)));
        facts.push((t + 100, put(PutKind::PutField, common::CLIENT, -1000, 1, (1, 1), v - 1.0, v)));
        facts.push((t + 110, put(PutKind::Put, common::CLIENT, -1200, 0, (1, 1), v - 1.0, v)));
        facts.push((t + 120, process(common::CLIENT, -1200, 0, 1)));
        facts.push((t + 130, put(PutKind::Put, common::CLIENT, -1500, 0, (2, 2), v - 1.0, v)));
        facts.push((t + 140, process(common::CLIENT, -1550, 0, 2)));
        facts.push((t + 150, complete(common::CLIENT, -1700, 2, v, 0)));
        facts.push((t + 160, complete(common::CLIENT, -1300, 1, v, 0)));
    }
    write_events(directory, "box1", 7, facts);
}

/// The protobuf file of a log.
fn file(directory: &Path) -> Vec<u8> {
    let made =
        iocreplay(["traces", "log", "--format", "otlp-proto"]).current_dir(directory).output().unwrap();
    assert!(made.status.success());
    made.stdout
}

/// Sends a log; gives exit code and what was said.
fn send(directory: &Path, url: &str, more: &[&str]) -> (i32, String) {
    let (code, out, err) = run(directory, &[&["traces", "log", "--otlp", url], more].concat());
    assert_eq!(out, "");
    (code, err)
}

#[test]
fn a_collector_gets_what_a_file_has() {
    let here = tempfile::tempdir().unwrap();
    write_puts(&here.path().join("log"), 1000);
    let whole = file(here.path());
    let count = spans(&whole).len();
    assert!(count >= 3000, "{count}");
    let requests = count.div_ceil(1000);
    let (url, server) = stand_in((0..requests).map(|_| OK).collect());
    let (code, said) = send(here.path(), &url, &[]);
    assert_eq!((code, said), (0, format!("iocreplay: {url}: sent {count} spans in {requests} requests\n")));
    let requests = server.join().unwrap();
    for request in &requests {
        assert_eq!(request.line, "POST /v1/traces HTTP/1.1");
        assert_eq!(request.headers["content-type"], "application/x-protobuf");
        assert_eq!(request.headers["content-encoding"], "gzip");
    }
    let sent: Vec<u8> = requests.into_iter().flat_map(|request| request.body).collect();
    assert_eq!(sent, whole, "the batches of both are the same");
}

#[test]
fn what_is_sent_again_and_what_is_not() {
    let here = tempfile::tempdir().unwrap();
    write_log(&here.path().join("log"), "box1", 7);
    let whole = file(here.path());
    let count = spans(&whole).len();
    for again in ["429 Too Many", "502 Bad Gateway", "503 Not Now", "504 Gateway Timeout"] {
        let (url, server) = stand_in(vec![Does::Answer(again, "Retry-After: 0", b"busy"), OK]);
        let (code, said) = send(here.path(), &url, &[]);
        assert_eq!(code, 0, "{said}");
        let expected = format!("iocreplay: {url}: answered {again}: busy; next try in 1 s\n");
        assert_eq!(said, format!("{expected}iocreplay: {url}: sent {count} spans in 1 request\n"));
        let requests = server.join().unwrap();
        assert!(requests.iter().all(|request| request.body == whole));
    }
    for never in ["400 Bad Request", "401 Unauthorized", "404 Not Found", "500 Internal", "301 Moved"] {
        let (url, server) = stand_in(vec![Does::Answer(never, "Location: /x", b"no\nway\x1b[2J")]);
        let (code, said) = send(here.path(), &url, &[]);
        assert_eq!(code, 1, "{said}");
        let [line] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
        assert!(line.ends_with("; sent 0 spans in 0 requests before; go on with --skip-spans 0"), "{said}");
        assert!(!said.contains('\x1b'), "{said:?}");
        assert_eq!(server.join().unwrap().len(), 1, "{never}");
    }
}

#[test]
fn a_connection_that_breaks_is_tried_again() {
    let here = tempfile::tempdir().unwrap();
    write_log(&here.path().join("log"), "box1", 7);
    let (url, server) = stand_in(vec![Does::Cut, OK]);
    let (code, said) = send(here.path(), &url, &[]);
    assert!(code == 0 && said.contains("next try in 1 s") && said.contains(" in 1 request\n"), "{said}");
    let requests = server.join().unwrap();
    assert_eq!(requests[0].body, requests[1].body);
}

/// An answer that is cut may have said what was rejected.
#[test]
fn an_answer_that_breaks_off_is_no_success() {
    let here = tempfile::tempdir().unwrap();
    write_log(&here.path().join("log"), "box1", 7);
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\n";
    for cut in [
        format!("{head}Content-Length: 100\r\n\r\n\x0a\x04"),
        format!("{head}Transfer-Encoding: chunked\r\n\r\n40\r\nabc"),
        "HTTP/1.1 20".to_owned(),
    ] {
        let (url, server) = stand_in(vec![Does::Raw(cut), OK]);
        let (code, said) = send(here.path(), &url, &[]);
        assert!(code == 0 && said.contains("broke within the answer; next try in 1 s"), "{said}");
        let requests = server.join().unwrap();
        assert_eq!(requests[0].body, requests[1].body);
    }
    // a whole answer in chunks is one
    let whole = format!("{head}Transfer-Encoding: chunked\r\n\r\n2\r\n\x0a\x00\r\n0\r\n\r\n");
    let (url, server) = stand_in(vec![Does::Raw(whole)]);
    let (code, said) = send(here.path(), &url, &[]);
    assert!(code == 0 && said.lines().count() == 1 && said.ends_with(" in 1 request\n"), "{said}");
    server.join().unwrap();
}

/// Nobody asked for it: what it says is not known, and nothing is unpacked, however much it would be.
#[test]
fn a_packed_answer_is_not_unpacked() {
    let here = tempfile::tempdir().unwrap();
    write_log(&here.path().join("log"), "box1", 7);
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    (0..50).for_each(|_| bomb.write_all(&[0; 1 << 20]).unwrap());
    let bomb: &'static [u8] = bomb.finish().unwrap().leak();
    let headers = "Content-Encoding: gzip\r\nContent-Type: application/x-protobuf";
    let (url, server) = stand_in(vec![Does::Answer("200 OK", headers, bomb)]);
    let (code, said) = send(here.path(), &url, &[]);
    assert!(
        code == 0 && said.contains("; the collector warns: whether it rejected some is not known"),
        "{said}"
    );
    server.join().unwrap();
    let (url, server) = stand_in(vec![Does::Answer("400 No", headers, bomb)]);
    let (code, said) = send(here.path(), &url, &[]);
    assert!(
        code == 1 && said.contains("answered 400 No: its text is packed (gzip)") && said.len() < 300,
        "{said}"
    );
    server.join().unwrap();
}

#[test]
fn an_answer_without_end_is_cut() {
    let here = tempfile::tempdir().unwrap();
    write_log(&here.path().join("log"), "box1", 7);
    let (url, server) = stand_in(vec![Does::Endless]);
    let begun = Instant::now();
    let (code, said) = send(here.path(), &url, &[]);
    assert!(code == 1 && said.contains("answered 400 No: xxx") && said.len() < 1000, "{said}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    server.join().unwrap();
}

#[test]
fn a_request_that_is_too_large_is_halved() {
    let here = tempfile::tempdir().unwrap();
    write_puts(&here.path().join("log"), 250);
    let whole = spans(&file(here.path()));
    let large = || Does::Answer("413 Too Large", "X: y", b"");
    // The whole, its first half; its quarter, and the rest of the first half.
    let (url, server) = stand_in(vec![large(), large(), OK, OK, OK]);
    let (code, said) = send(here.path(), &url, &[]);
    assert_eq!((code, said), (0, format!("iocreplay: {url}: sent {} spans in 3 requests\n", whole.len())));
    let mut sent = BTreeMap::new();
    for request in server.join().unwrap().split_off(2) {
        let part = spans(&request.body);
        let traces: Vec<_> = part.keys().map(|(trace, _)| trace).collect();
        assert!(
            sent.keys().all(|(trace, _): &(Vec<u8>, Vec<u8>)| !traces.contains(&trace)),
            "a trace was divided"
        );
        sent.extend(part);
    }
    assert_eq!(sent, whole);
}

#[test]
fn a_trace_that_is_too_large_is_said_and_can_be_left_out() {
    let here = tempfile::tempdir().unwrap();
    write_puts(&here.path().join("log"), 1);
    let count = spans(&file(here.path())).len();
    let (url, server) = stand_in(vec![Does::Answer("413 Too Large", "X: y", b"")]);
    let (code, said) = send(here.path(), &url, &[]);
    let expected = format!("a trace of {count} spans is too large for it");
    assert!(code == 1 && said.contains(&expected), "{said}");
    assert!(said.ends_with(&format!("leave the trace out: --skip-spans {count}\n")), "{said}");
    server.join().unwrap();
    let (code, said) = send(here.path(), "http://127.0.0.1:9", &["--skip-spans", &count.to_string()]);
    assert!(code == 0 && said.contains(&format!("sent 0 spans in 0 requests, after {count} that")), "{said}");
}

#[test]
fn it_goes_on_where_it_stopped() {
    let here = tempfile::tempdir().unwrap();
    write_puts(&here.path().join("log"), 1000);
    let whole = file(here.path());
    let (url, server) = stand_in(vec![OK, Does::Answer("400 Bad Request", "X: y", b"")]);
    let (code, said) = send(here.path(), &url, &[]);
    assert_eq!(code, 1, "{said}");
    let skip = said.trim_end().rsplit(' ').next().unwrap().to_owned();
    let first = server.join().unwrap().remove(0).body;
    assert_eq!(spans(&first).len().to_string(), skip, "{said}");
    let rest = spans(&whole).len() - spans(&first).len();
    let (url, server) = stand_in((0..rest.div_ceil(1000)).map(|_| OK).collect());
    let (code, said) = send(here.path(), &url, &["--skip-spans", &skip]);
    assert!(code == 0 && said.contains(&format!(", after {skip} that were skipped")), "{said}");
    let sent: Vec<u8> = server.join().unwrap().into_iter().flat_map(|request| request.body).collect();
    assert_eq!([first, sent].concat(), whole);
}

/// Two IOCs by turns: a half of a batch is the first of the log, not the first IOC's.
#[test]
fn it_goes_on_after_a_half() {
    let here = tempfile::tempdir().unwrap();
    let mut facts: Vec<(u64, Fact)> = Vec::new();
    for n in 0..100 {
        let t = SECOND + n * MS;
        let (thread, record) = if n % 2 == 0 { (common::SCAN, 2) } else { (common::REMOTE, 4) };
        facts.push((t, process(thread, -100, 2, record)));
        facts.push((t + 1000, complete(thread, -200, record, n as f64, 0)));
    }
    write_events(&here.path().join("log"), "box1", 7, facts);
    let whole = spans(&file(here.path()));
    let large = Does::Answer("413 Too Large", "X: y", b"");
    let (url, server) = stand_in(vec![large, OK, Does::Answer("400 Bad Request", "X: y", b"")]);
    let (code, said) = send(here.path(), &url, &[]);
    assert!(
        code == 1 && said.contains("sent 50 spans in 1 request before; go on with --skip-spans 50"),
        "{said}"
    );
    let mut sent = spans(&server.join().unwrap().swap_remove(1).body);
    let (url, server) = stand_in(vec![OK]);
    let (code, said) = send(here.path(), &url, &["--skip-spans", "50"]);
    assert_eq!(code, 0, "{said}");
    for (id, span) in spans(&server.join().unwrap().swap_remove(0).body) {
        assert!(sent.insert(id, span).is_none(), "a span was sent twice");
    }
    assert_eq!(sent, whole);
}

#[test]
fn spans_that_were_rejected_are_told() {
    let here = tempfile::tempdir().unwrap();
    write_log(&here.path().join("log"), "box1", 7);
    let part = b"\x0a\x0c\x08\x02\x12\x08too\x1b old";
    let (url, server) = stand_in(vec![Does::Answer("200 OK", "Content-Type: application/x-protobuf", part)]);
    let (code, said) = send(here.path(), &url, &[]);
    assert!(code == 1 && said.contains("; the collector rejected 2 of them: too\\x1b old\n"), "{said}");
    assert_eq!(server.join().unwrap().len(), 1, "what was rejected is not sent again");
    // A server of pages takes no spans.
    let (url, server) = stand_in(vec![Does::Answer("200 OK", "Content-Type: text/html", b"<h1>hello</h1>")]);
    let (code, said) = send(here.path(), &url, &[]);
    assert!(code == 1 && said.contains("text/html, not as a collector does"), "{said}");
    server.join().unwrap();
}

#[test]
fn an_empty_answer_is_explained_and_nothing_sent() {
    let here = tempfile::tempdir().unwrap();
    write_log(&here.path().join("log"), "box1", 7);
    let (code, said) = send(here.path(), "http://127.0.0.1:9", &["--pv", "NONE"]);
    assert!(code == 0 && said.contains("NONE") && said.contains("sent 0 spans in 0 requests"), "{said}");
}

#[test]
fn options_that_do_not_go_together() {
    let here = tempfile::tempdir().unwrap();
    write_log(&here.path().join("log"), "box1", 7);
    for (more, reason) in [
        (vec!["--otlp", "https://x:4318"], "TLS is not spoken"),
        (vec!["--otlp", "x:4318"], "write http://HOST:4318"),
        (vec!["--otlp", "http://x:4318", "--format", "otlp"], "leave out --format"),
        (vec!["--otlp", "http://x:4318", "-o", "x"], "leave out -o"),
        (vec!["--skip-spans", "3"], "name the collector, too"),
        (vec!["--otlp", "http://x:4318", "--follow", "--skip-spans", "3"], "use --since"),
    ] {
        let (code, out, err) = outcome(
            iocreplay([&["traces", "log"], more.as_slice()].concat())
                .current_dir(here.path())
                .output()
                .unwrap(),
        );
        assert!(code == 2 && out.is_empty() && err.contains(reason) && err.lines().count() == 1, "{err}");
    }
}
