//! Tests of recorder and client together, of names that are taken, and of directories that are replaced.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{chown, lchown, symlink};
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nix::sys::socket::{socket, AddressFamily, SockFlag, SockType, UnixAddr};

use super::name::{name_of, other_names, own_name, reach};
use super::request::TIMEOUT;
use super::*;
use crate::not_run::{not_run, Needs};
use iocrec_testing::chance::{fuzz, mutate, Random};

/// Holds it open as a recorder does: meanwhile no other directory gets the number.
fn hold(directory: &Path) {
    std::mem::forget(File::open(directory).unwrap());
}

#[test]
fn asked_and_answered() {
    let directory = tempfile::tempdir().unwrap();
    hold(directory.path());
    let (sender, requests) = channel();
    let answer = move |request| {
        let answer = match &request {
            Request::Status { .. } => Reply::Done("fine\n".to_owned()),
            Request::Mark(_) => Reply::Refused("no room".to_owned()),
        };
        sender.send(request).unwrap();
        answer
    };
    serve(directory.path(), answer, |line| panic!("{line}")).unwrap();
    let ask = |request: &Request| loop {
        match ask(directory.path(), request) {
            Err(AskError::NotRunning(_)) => thread::sleep(Duration::from_millis(5)), // the thread has just begun
            other => return other.unwrap(),
        }
    };
    assert_eq!(ask(&Request::Status { json: true }), Reply::Done("fine\n".into()));
    let text = "beam lost\nagain \u{fc}";
    assert_eq!(ask(&Request::Mark(text.into())), Reply::Refused("no room".into()));
    let requests: Vec<Request> = requests.try_iter().collect();
    assert_eq!(requests, [Request::Status { json: true }, Request::Mark(text.into())]);
    // Invalid requests are refused, and do no harm.
    let (name, _) = name_of(directory.path()).unwrap();
    for bytes in [&b"nonsense"[..], b"", b"mark \xff", &[b'x'; 10 * MAX_BYTES]] {
        let mut stream = reach(&name).unwrap();
        // it may stop listening before all is sent
        let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.is_empty() || answer.starts_with("no\n"), "{answer}");
    }
    assert!(matches!(ask(&Request::Status { json: false }), Reply::Done(_)));
}

/// Any bytes may arrive: a mark found in them was in them.
#[test]
fn requests_that_were_changed() {
    let seeds = ["status text", "status json", "mark beam lost \u{fc}"].map(str::as_bytes);
    let mut marks = 0;
    fuzz(5000, |random: &mut Random| {
        let mut bytes = seeds[random.below(seeds.len())].to_vec();
        mutate(random, &mut bytes);
        let Some(request) = Request::decode(&bytes) else { return };
        assert_eq!(request.encode().as_bytes(), bytes);
        marks += u64::from(matches!(request, Request::Mark(_)));
    });
    assert!(std::env::var("FUZZ_SEED").is_ok() || marks > 100);
}

/// A mark waits for the disk, which may hang.
#[test]
fn a_request_that_waits_holds_up_no_other() {
    let directory = tempfile::tempdir().unwrap();
    hold(directory.path());
    let (sender, marked) = channel();
    let (disk, answered) = channel();
    let answered = Arc::new(Mutex::new(answered));
    let answer = move |request: Request| match request {
        Request::Status { .. } => Reply::Done("fine".to_owned()),
        Request::Mark(text) => {
            sender.send(()).unwrap();
            answered.lock().unwrap().recv().unwrap();
            Reply::Done(text)
        }
    };
    serve(directory.path(), answer, |line| panic!("{line}")).unwrap();
    assert_eq!(patiently(directory.path()), "fine");
    let path = directory.path().to_owned();
    let mark = thread::spawn(move || ask(&path, &Request::Mark("beam lost".into())));
    marked.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(patiently(directory.path()), "fine");
    disk.send(()).unwrap();
    assert_eq!(mark.join().unwrap().unwrap(), Reply::Done("beam lost".into()));
}

/// Asks by name until there is an answer.
fn patiently(directory: &Path) -> String {
    for _ in 0..1000 {
        match ask(directory, &Request::Status { json: false }) {
            Ok(Reply::Done(text)) => return text,
            _ => thread::sleep(Duration::from_millis(5)),
        }
    }
    panic!("no answer")
}

/// Another process has taken the name first, and releases it later.
#[test]
fn a_name_that_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    hold(directory.path());
    let (name, _) = name_of(directory.path()).unwrap();
    // bound, but not listened on: nobody can connect
    let squatter = socket(AddressFamily::Unix, SockType::Stream, SockFlag::empty(), None).unwrap();
    nix::sys::socket::bind(squatter.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes()).unwrap()).unwrap();
    let (sender, lines) = channel();
    serve(directory.path(), |_| Reply::Done("it is me".into()), move |line| sender.send(line).unwrap())
        .unwrap();
    assert_eq!(patiently(directory.path()), "it is me");
    let line = lines.recv_timeout(TIMEOUT).unwrap();
    let pid = format!("process {} ", std::process::id());
    assert!(line.contains(&pid) && line.contains("has the socket name"), "{line}");
    assert_eq!(other_names(&name).len(), 1);
    drop(squatter);
    while !other_names(&name).is_empty() {
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(patiently(directory.path()), "it is me");
    assert!(lines.try_recv().is_err(), "it is reported once");
}

/// Another directory replaces it.
#[test]
fn a_directory_that_is_replaced() {
    let parent = tempfile::tempdir().unwrap();
    let (path, other) = (parent.path().join("log"), parent.path().join("other"));
    fs::create_dir(&path).unwrap();
    hold(&path);
    serve(&path, |_| Reply::Done("it is me".into()), |line| panic!("{line}")).unwrap();
    assert_eq!(patiently(&path), "it is me");
    fs::rename(&path, &other).unwrap();
    fs::create_dir(&path).unwrap();
    hold(&path);
    assert_eq!(patiently(&path), "it is me");
    let asked = ask(&other, &Request::Status { json: false });
    assert!(matches!(asked, Err(AskError::NotRunning(_))), "{asked:?}");
}

/// Who may exchange a recorder's directory can't make it answer for one that nobody records to.
#[test]
fn a_link_of_another_user_is_not_followed() {
    const OTHER: u32 = 1234;
    let top = tempfile::tempdir().unwrap();
    let (theirs, log) = (top.path().join("theirs"), top.path().join("log"));
    let link = theirs.join("log");
    fs::create_dir(&theirs).and_then(|()| fs::create_dir(&log)).and_then(|()| symlink(&log, &link)).unwrap();
    assert_eq!(own_name(&log).unwrap(), name_of(&log).unwrap());
    assert_eq!(own_name(&link).unwrap(), name_of(&log).unwrap());
    let given = chown(&theirs, Some(OTHER), None).and_then(|()| lchown(&link, Some(OTHER), None));
    if given.is_err() {
        return not_run("control::a_link_of_another_user_is_not_followed", Needs::Root);
    }
    let error = own_name(&link).unwrap_err().to_string();
    assert!(error.contains("link"), "{error}");
}

#[test]
fn nobody_answers() {
    let directory = tempfile::tempdir().unwrap();
    let status = Request::Status { json: false };
    assert!(matches!(ask(directory.path(), &status), Err(AskError::NotRunning(_))));
    // Locked, but by a process that cannot be asked.
    let lock = File::open(directory.path()).unwrap();
    lock.try_lock().unwrap();
    let line = ask(directory.path(), &status).unwrap_err().to_string();
    assert!(line.contains("network namespace"), "{line}");
    let line = ask(&directory.path().join("no"), &status).unwrap_err().to_string();
    assert!(line.contains("No such file"), "{line}");
}
