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
pub mod signal;

pub use address::Address;
pub use signal::{Batch, Signal};

use answer::{Answer, Reply};
use flate2::write::GzEncoder;
use flate2::Compression;
use iocrec_log::escape::Shown;
use signal::SIZE;
use std::fmt::{self, Display};
use std::io::{self, Write};
use std::thread::sleep;
use std::time::Duration;

/// Pauses before a request is sent again: half a minute in all, in which a collector restarts.
const PAUSES: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(16),
];
/// No collector keeps us waiting for longer, whatever it asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
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
    followed: bool,
}

/// What a collector took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// What it is.
    pub signal: &'static Signal,
    /// How many were before the first that was sent.
    pub skipped: usize,
    /// How many were sent, and their requests answered with success.
    pub count: usize,
    /// Those requests.
    pub requests: usize,
    /// How many among them the collector rejected.
    pub rejected: u64,
    /// The reason that it gave last, as far as it gave one.
    pub reason: String,
}

/// Sending ended before the last.
#[derive(Debug)]
pub struct Stopped {
    /// Where to.
    pub address: Box<str>,
    /// Why.
    pub reason: Reason,
    /// What the collector took before.
    pub sent: Sent,
    /// Whether the log was being followed: then all came in an order that no later run has.
    pub followed: bool,
}

/// Why sending ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Reason {
    /// The collector answered that it won't.
    Refused(String),
    /// It was not reached, or not ready, however often it was tried.
    Unavailable {
        /// What happened last.
        last: String,
        /// How often it was tried.
        tries: usize,
    },
    /// One part that can't be divided, with so many, is more than the collector takes.
    TooLarge(usize),
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
            followed: false,
        }
    }

    /// The same for a log that is being followed.
    pub fn following(self) -> Self {
        Sender { followed: true, ..self }
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
        self.batch.add(part);
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
                    self.sent.requests += 1;
                    self.sent.count += batch.count();
                    self.sent.rejected += rejected;
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
        let (sent, followed) = (self.sent.clone(), self.followed);
        Stopped { address: self.address.to_string().into_boxed_str(), reason, sent, followed }
    }

    /// Sends a message, again if need be.
    fn deliver(&self, message: &[u8]) -> Result<Taken, Reason> {
        let body = compress(message)
            .map_err(|error| Reason::Refused(format!("was sent nothing: packing: {error}")))?;
        let mut pauses = self.pauses.iter();
        loop {
            let (last, asked) = match self.post(&body) {
                Answer::Taken { rejected, reason } => return Ok(Taken::Yes { rejected, reason }),
                Answer::TooLarge => return Ok(Taken::TooLarge),
                Answer::Refused(reason) => return Err(Reason::Refused(reason)),
                Answer::Later { reason, after } => (reason, after),
            };
            let Some(pause) = pauses.next() else {
                return Err(Reason::Unavailable { last, tries: self.pauses.len() + 1 });
            };
            let pause = asked.unwrap_or(*pause).min(LONGEST_PAUSE);
            (self.tell)(&format_args!("{}: {last}; next try in {} s", self.address, pause.as_secs()));
            sleep(pause);
        }
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

impl Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sent { signal, skipped, count: items, requests, rejected, reason } = self;
        let number = |count: usize, of: &str| format!("{count} {of}{}", if count == 1 { "" } else { "s" });
        write!(f, "sent {} in {}", number(*items, signal.noun), number(*requests, "request"))?;
        if *skipped > 0 {
            write!(f, ", after {skipped} that were skipped")?;
        }
        if *rejected > 0 {
            write!(f, "; the collector rejected {rejected} of them")?;
        }
        match reason.is_empty() {
            true => Ok(()),
            false if *rejected > 0 => write!(f, ": {}", Shown(reason)),
            false => write!(f, "; the collector warns: {}", Shown(reason)),
        }
    }
}

impl Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stopped { address, reason, sent, followed } = self;
        let signal = sent.signal;
        let Signal { whole, skip, .. } = signal;
        match reason {
            Reason::Refused(reason) => write!(f, "the collector at {address} {}", Shown(reason))?,
            Reason::Unavailable { last, tries } => {
                write!(f, "the collector at {address}: {} (tried {tries} times)", Shown(last))?;
            }
            Reason::TooLarge(count) => {
                let Signal { whole, noun, .. } = signal;
                let plural = if *count == 1 { "" } else { "s" };
                write!(
                    f,
                    "the collector at {address} answered 413: a {whole} of {count} {noun}{plural} is too large for it"
                )?;
            }
        }
        let next = sent.skipped + sent.count;
        write!(f, "; {sent} before")?;
        match reason {
            _ if *followed => {
                f.write_str("; the log has the rest: send it with --since; what comes twice has the same ids")
            }
            Reason::TooLarge(count) => {
                write!(f, "; raise its limit, or leave the {whole} out: {skip} {}", next + count)
            }
            _ => write!(f, "; go on with {skip} {next}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;
    use crate::output::traces::otlp::Batch as Spans;
    use std::cell::RefCell;
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
        let stopped = sender.following().stopped(Reason::Refused("answered 400".into()));
        assert!(
            !stopped.to_string().contains("--skip-spans") && stopped.to_string().contains("--since"),
            "{stopped}"
        );
    }

    #[test]
    fn a_count_says_what_was_rejected() {
        let sent = Sent {
            signal: &signal::TRACES,
            skipped: 0,
            count: 1,
            requests: 1,
            rejected: 0,
            reason: String::new(),
        };
        assert_eq!(sent.to_string(), "sent 1 span in 1 request");
        let sent = Sent {
            signal: &signal::TRACES,
            skipped: 7,
            count: 20,
            requests: 2,
            rejected: 3,
            reason: "a\nb\x1b[2J".into(),
        };
        assert_eq!(
            sent.to_string(),
            "sent 20 spans in 2 requests, after 7 that were skipped; the collector rejected 3 of them: a\\nb\\x1b[2J"
        );
    }
}
