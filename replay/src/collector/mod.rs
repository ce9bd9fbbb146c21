//! A collector of OpenTelemetry, to which spans, log records and metrics are sent: OTLP over HTTP, as protobuf with gzip.
//!
//! Follows "OTLP/HTTP" of the specification of OpenTelemetry's protocol 1.x: a request is sent again only after the
//! answers 429, 502, 503 and 504 and where the connection broke, with pauses that double or as `Retry-After` says;
//! what was rejected in part is never sent again. There is no TLS: a collector on this machine or network forwards.
//!
//! What is sent counts only once the collector has said so. If it took a request and its answer was lost, it gets that
//! twice; spans then have the same ids.

mod address;
mod answer;
pub mod outcome;
pub mod signal;

pub use address::Address;
pub use outcome::{Reason, Rest, Sent, Stopped};
pub use signal::{Batch, Signal};

use crate::words::counted;
use answer::{Answer, Reply};
use flate2::write::GzEncoder;
use flate2::Compression;
use iocrec_log::escape::Shown;
use signal::SIZE;
use std::fmt::Display;
use std::io::{self, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Pauses before a request is sent again: half a minute in all, in which a collector restarts.
const PAUSES: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(16),
];
/// How often it is looked whether waiting is to end.
const LOOK: Duration = Duration::from_millis(500);
/// No collector keeps us waiting for longer, whatever it asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// A collector that asks for no pause (`Retry-After: 0`) while it takes nothing is not asked in a loop.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// Time for a request and its answer, seconds.
const TIMEOUT: u64 = 30;

/// Sends batches to a collector, and counts what is in them.
pub struct Sender<'a, B> {
    address: &'a Address,
    pauses: &'a [Duration],
    /// What the person at the terminal should know while it goes on.
    tell: &'a dyn Fn(&dyn Display),
    batch: B,
    /// A batch with so many is sent: fewer once one was too large.
    limit: usize,
    /// How many are yet to be skipped.
    skip: usize,
    sent: Sent,
    /// A log is being followed until this is so.
    until: Option<&'a dyn Fn() -> bool>,
    /// Whether it is tried without end.
    is_patient: bool,
    /// Whether another run goes on with what was not sent.
    is_kept: bool,
    /// How many parts were added, and how many of them the collector has taken.
    parts: (usize, usize),
    /// How many had been rejected when that was said last.
    said: u64,
}

impl<'a, B: Batch> Sender<'a, B> {
    /// To this address. What is before the number `skip` is not sent: a part is left out if it ends before it.
    pub fn new(address: &'a Address, skip: usize, tell: &'a dyn Fn(&dyn Display)) -> Self {
        Sender {
            address,
            pauses: &PAUSES,
            tell,
            batch: B::default(),
            limit: SIZE,
            skip,
            sent: Sent {
                signal: B::SIGNAL,
                skipped: 0,
                count: 0,
                requests: 0,
                rejected: 0,
                reason: String::new(),
            },
            until: None,
            is_patient: false,
            is_kept: false,
            parts: (0, 0),
            said: 0,
        }
    }

    /// The same for a log that is being followed, and has what happens meanwhile: it is tried again without end, `until` it
    /// is to end, which is asked for twice a second.
    pub fn following(self, until: &'a dyn Fn() -> bool) -> Self {
        Sender { until: Some(until), is_patient: true, ..self }
    }

    /// The same, but it is tried without end only if this is so.
    pub fn patient(self, is_patient: bool) -> Self {
        Sender { is_patient, ..self }
    }

    /// The same, where another run goes on with what was not sent, if this is so.
    pub fn kept(self, is_kept: bool) -> Self {
        Sender { is_kept, ..self }
    }

    /// How many parts were added, and how many of them, the first ones, the collector has taken.
    pub fn parts(&self) -> (usize, usize) {
        self.parts
    }

    /// Adds a part, and sends what is a batch.
    ///
    /// # Errors
    /// If the collector refuses it, or can't be reached.
    pub fn add(&mut self, part: &B::Part) -> Result<(), Stopped> {
        if self.skip > 0 {
            let mut alone = B::default();
            alone.add(part);
            if alone.count() <= self.skip {
                self.skip -= alone.count();
                self.sent.skipped += alone.count();
                return Ok(());
            }
            self.skip = 0;
        }
        let before = self.batch.parts();
        self.batch.add(part);
        self.parts.0 += self.batch.parts() - before;
        match self.batch.count() >= self.limit {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Sends what has been added.
    ///
    /// # Errors
    /// As of [`Sender::add`].
    pub fn flush(&mut self) -> Result<(), Stopped> {
        let mut waiting = vec![std::mem::take(&mut self.batch)];
        while let Some(batch) = waiting.pop() {
            if batch.count() == 0 {
                continue;
            }
            match self.deliver(&batch.protobuf()) {
                Ok(Taken::Yes { rejected, reason }) => {
                    // no collector rejects more than it got, whatever it says
                    let rejected = rejected.min(batch.count() as u64);
                    self.sent.requests += 1;
                    self.sent.count += batch.count();
                    self.parts.1 += batch.parts();
                    self.sent.rejected += rejected;
                    if rejected > 0 && self.until.is_some() {
                        self.say_rejected(rejected, &reason);
                    }
                    if !reason.is_empty() {
                        self.sent.reason = reason;
                    }
                }
                Ok(Taken::TooLarge) => {
                    self.limit = (batch.count() / 2).max(1);
                    let (first, second) =
                        batch.halves().map_err(|batch| self.stopped(Reason::TooLarge(batch.count())))?;
                    waiting.push(second);
                    waiting.push(first);
                }
                Err(reason) => return Err(self.stopped(reason)),
            }
        }
        Ok(())
    }

    /// Sends what is left; returns what was sent in all.
    ///
    /// # Errors
    /// As of [`Sender::add`].
    pub fn finish(mut self) -> Result<Sent, Stopped> {
        self.flush()?;
        Ok(self.sent)
    }

    fn stopped(&self, reason: Reason) -> Stopped {
        let rest = match self.until {
            None => Rest::Skip,
            Some(_) if self.is_kept => Rest::Kept,
            Some(_) => Rest::Since,
        };
        Stopped { address: self.address.to_string().into_boxed_str(), reason, sent: self.sent.clone(), rest }
    }

    /// Sends a message, again if need be.
    fn deliver(&self, message: &[u8]) -> Result<Taken, Reason> {
        let body = compress(message)
            .map_err(|error| Reason::Refused(format!("was sent nothing: packing: {error}")))?;
        let mut tries = 0;
        loop {
            let (last, asked) = match self.post(&body) {
                Answer::Taken { rejected, reason } => {
                    if tries > self.pauses.len() {
                        (self.tell)(&format_args!("{} takes {}s again", self.address, B::SIGNAL.noun));
                    }
                    return Ok(Taken::Yes { rejected, reason });
                }
                Answer::TooLarge => return Ok(Taken::TooLarge),
                Answer::Refused(reason) => return Err(Reason::Refused(reason)),
                Answer::Later { reason, after } => (reason, after),
            };
            tries += 1;
            let pause = match self.pauses.get(tries - 1) {
                Some(pause) => pause,
                None if self.is_patient => self.pauses.last().unwrap_or(&LOOK),
                None => return Err(Reason::Unavailable { last, tries }),
            };
            let pause = asked.map_or(*pause, |asked| asked.clamp(SHORTEST_PAUSE, LONGEST_PAUSE));
            if tries <= self.pauses.len() {
                (self.tell)(&format_args!("{}: {last}; next try in {} s", self.address, pause.as_secs()));
            } else if tries == self.pauses.len() + 1 {
                (self.tell)(&format_args!(
                    "{}: {last}; it is tried until it takes {}s, which the log keeps meanwhile",
                    self.address,
                    B::SIGNAL.noun
                ));
            }
            if !self.rest(pause) {
                return Err(Reason::Unavailable { last, tries });
            }
        }
    }

    /// Waits; whether it is to be tried again.
    fn rest(&self, pause: Duration) -> bool {
        let Some(is_over) = self.until else {
            sleep(pause);
            return true;
        };
        let begun = Instant::now();
        while !is_over() {
            let left = pause.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return true;
            }
            sleep(left.min(LOOK));
        }
        false
    }

    /// Says what was rejected while a log is followed, which has no end that would.
    fn say_rejected(&mut self, rejected: u64, reason: &str) {
        let all = self.sent.rejected;
        // each time that there are as many as before: a collector may reject all
        if all < self.said.saturating_mul(2) {
            return;
        }
        self.said = all;
        let so_far = if all > rejected { format!(" ({all} so far)") } else { String::new() };
        let reason = if reason.is_empty() { "it gives no reason" } else { reason };
        let (address, rejected) = (self.address, counted(rejected, B::SIGNAL.noun));
        (self.tell)(&format_args!("{address} rejected {rejected}{so_far}: {}", Shown(reason)));
    }

    /// Sends a body once.
    fn post(&self, body: &[u8]) -> Answer {
        let request = minreq::post(self.address.at(B::SIGNAL.path))
            .with_header("Content-Type", "application/x-protobuf")
            .with_header("Content-Encoding", "gzip")
            .with_header("User-Agent", concat!("iocreplay/", env!("CARGO_PKG_VERSION")))
            // One connection for each request.
            .with_header("Connection", "close")
            .with_body(body)
            .with_max_redirects(0)
            .with_max_headers_size(answer::BOUND)
            .with_max_status_line_length(answer::BOUND)
            .with_timeout(TIMEOUT);
        match request.send_lazy() {
            Ok(response) => {
                Reply::read(response).map_or_else(answer::broken, |reply| Answer::of(reply, B::SIGNAL))
            }
            Err(error) => answer::broken(error),
        }
    }
}

/// Whether a message was taken.
enum Taken {
    Yes { rejected: u64, reason: String },
    TooLarge,
}

fn compress(message: &[u8]) -> io::Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(message)?;
    gzip.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;
    use crate::output::traces::otlp::Batch as Spans;
    use std::cell::{Cell, RefCell};
    use std::io::Read;
    use std::net::TcpListener;

    #[test]
    fn a_collector_that_is_down_is_tried_until_the_pauses_end() {
        // A port that was just free, and that nobody listens on.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = Address::parse(&format!("http://127.0.0.1:{port}")).unwrap();
        let told = RefCell::new(Vec::new());
        let tell = |said: &dyn Display| told.borrow_mut().push(said.to_string());
        let pauses = [Duration::from_millis(1); 2];
        let sender: Sender<Spans> = Sender { pauses: &pauses, ..Sender::new(&address, 0, &tell) };
        let Err(reason) = sender.deliver(b"x") else { panic!("nobody took it") };
        let text = Failure::from(sender.stopped(reason)).to_string();
        assert!(text.contains("refused") && text.contains("(tried 3 times)"), "{text}");
        assert!(text.ends_with("sent 0 spans in 0 requests before; go on with --skip-spans 0"), "{text}");
        assert_eq!(told.borrow().len(), 2, "{told:?}");
        let stopped = sender.following(&|| false).stopped(Reason::Refused("answered 400".into()));
        assert!(
            !stopped.to_string().contains("--skip-spans") && stopped.to_string().contains("--since"),
            "{stopped}"
        );
    }

    #[test]
    fn while_a_log_is_followed_it_is_tried_without_end() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = Address::parse(&format!("http://127.0.0.1:{port}")).unwrap();
        let told = RefCell::new(Vec::new());
        let tell = |said: &dyn Display| told.borrow_mut().push(said.to_string());
        let asked = Cell::new(0);
        // a collector comes after many times, at the same port
        let is_over = || {
            asked.set(asked.get() + 1);
            if asked.get() == 20 {
                let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
                std::thread::spawn(move || {
                    let (mut stream, _) = listener.accept().unwrap();
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";
                    stream.write_all(head.as_bytes()).unwrap();
                    // until it has read the answer
                    let _ = stream.read_to_end(&mut Vec::new());
                });
            }
            false
        };
        let pauses = [Duration::from_millis(1); 2];
        let sender: Sender<Spans> =
            Sender { pauses: &pauses, ..Sender::new(&address, 0, &tell).following(&is_over) };
        assert!(matches!(sender.deliver(b"x"), Ok(Taken::Yes { rejected: 0, .. })));
        let told = told.take();
        let [first, second, third, last] = &told[..] else { panic!("{told:?}") };
        assert!(first.contains("next try") && second.contains("next try"), "{told:?}");
        assert!(
            third.contains("it is tried until it takes spans, which the log keeps meanwhile"),
            "{told:?}"
        );
        assert!(last.ends_with("takes spans again"), "{told:?}");
        // and until it is to end
        let is_over = || true;
        let sender = sender.following(&is_over);
        assert!(matches!(sender.deliver(b"x"), Err(Reason::Unavailable { tries: 1, .. })));
    }

    #[test]
    fn a_collector_that_asks_for_no_pause_is_not_flooded() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let head = "HTTP/1.1 503 Not Now\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n";
                stream.write_all(head.as_bytes()).unwrap();
                // until it has read the answer
                let _ = stream.read_to_end(&mut Vec::new());
            }
        });
        let begun = Instant::now();
        let is_over = || begun.elapsed() >= Duration::from_millis(2500);
        let tell = |_: &dyn Display| {};
        let sender = Sender::<Spans>::new(&address, 0, &tell).following(&is_over);
        let Err(Reason::Unavailable { tries, .. }) = sender.deliver(b"x") else { panic!("nobody took it") };
        assert!((1..=3).contains(&tries), "{tries} in {:?}", begun.elapsed());
    }

    #[test]
    fn while_a_log_is_followed_rejections_are_said_seldom() {
        let address = Address::parse("http://127.0.0.1:9").unwrap();
        let told = RefCell::new(Vec::new());
        let tell = |said: &dyn Display| told.borrow_mut().push(said.to_string());
        let mut sender: Sender<Spans> = Sender::new(&address, 0, &tell);
        for count in 1..=100 {
            sender.sent.rejected += 1;
            sender.say_rejected(1, if count == 1 { "too old" } else { "" });
        }
        let told = told.borrow();
        assert_eq!(told.len(), 7, "1, 2, 4, up to 64: {told:?}");
        assert_eq!(told[0], "http://127.0.0.1:9 rejected 1 span: too old");
        assert_eq!(told[6], "http://127.0.0.1:9 rejected 1 span (64 so far): it gives no reason");
    }
}
