//! What was sent to a collector, and why sending ended before the last.

use super::signal::{self, Signal};
use iocrec_log::escape::Shown;
use std::fmt::{self, Display};

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
    /// How to go on.
    pub rest: Rest,
}

/// How the rest can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// By skipping what was sent.
    Skip,
    /// By time: the log was followed, and all came in an order that no later run has.
    Since,
    /// The same, and it is kept how far that had come.
    Kept,
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
        let Stopped { address, reason, sent, rest } = self;
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
            // what it won't take comes first again
            Reason::Refused(_) if *rest == Rest::Kept => {
                f.write_str("; mend that first: a later run begins with what was refused")
            }
            Reason::TooLarge(_) if *rest == Rest::Kept => {
                write!(f, "; raise its limit: a later run begins with this {whole}")
            }
            Reason::Unavailable { .. } if *rest == Rest::Kept => f.write_str("; a later run sends the rest"),
            _ if *rest == Rest::Since => {
                f.write_str("; the log has the rest: send it with --since")?;
                match *signal == signal::TRACES {
                    true => f.write_str("; what comes twice has the same ids"),
                    false => Ok(()),
                }
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

    #[test]
    fn a_later_run_sends_the_rest_only_of_what_may_be_taken() {
        let said = |reason: Reason| {
            let (address, reason_given) = ("http://x:4318".into(), String::new());
            let signal = &signal::TRACES;
            let sent = Sent { signal, skipped: 0, count: 0, requests: 0, rejected: 0, reason: reason_given };
            Stopped { address, reason, sent, rest: Rest::Kept }.to_string()
        };
        let unavailable = said(Reason::Unavailable { last: "answered 503".into(), tries: 6 });
        assert!(unavailable.ends_with(" before; a later run sends the rest"), "{unavailable}");
        let refused = said(Reason::Refused("answered 401 Unauthorized".into()));
        let next = " before; mend that first: a later run begins with what was refused";
        assert!(refused.ends_with(next), "{refused}");
        let large = said(Reason::TooLarge(9000));
        assert!(large.ends_with(" before; raise its limit: a later run begins with this trace"), "{large}");
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
