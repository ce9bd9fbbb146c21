//! What commands that write or send for OpenTelemetry have in common.

use super::command::Outcome;
use crate::collector::{Address, Sent};
use crate::failure::UsageError;
use crate::terminal::{self, Terminal};
use crate::Logs;
use std::io::IsTerminal;
use std::path::Path;

/// The options of such a command.
pub struct Sending<'a> {
    /// `--otlp`.
    pub address: Option<&'a Address>,
    /// The option that skips what was sent before, if it is given.
    pub skip: Option<&'static str>,
    /// The name of the format, if it is given.
    pub format: Option<&'static str>,
    /// `-o`.
    pub output: Option<&'a Path>,
    /// Whether logs are given.
    pub has_logs: bool,
}

/// Checks that the options go together.
pub fn check(of: &Sending) -> Result<(), UsageError> {
    let unused = [("--format", of.format.is_some()), ("-o", of.output.is_some())];
    match (of.address, unused.iter().find(|(_, is_given)| *is_given)) {
        (Some(_), Some((option, _))) => return Err(UsageError::SentAndWritten(option)),
        (None, _) => {
            if let Some(skip) = of.skip {
                return Err(UsageError::SkippedUnsent(skip));
            }
        }
        _ => {}
    }
    if let Some(format) = of.format.filter(|format| is_binary(format)) {
        if of.output.is_none() && of.has_logs && terminal::standard().is_terminal() {
            return Err(UsageError::BinaryToTerminal(format));
        }
    }
    Ok(())
}

/// Whether a format of this name is bytes that are no text.
fn is_binary(format: &str) -> bool {
    format.starts_with("otlp-proto") || format == "perfetto"
}

/// Reads the URL of a collector.
pub fn parse_address(text: &str) -> Result<Address, String> {
    Address::parse(text).map_err(|error| error.to_string())
}

/// Says what was sent.
pub fn report(address: &Address, sent: &Sent, logs: &Logs) -> Outcome {
    Terminal.report(&format_args!("{address}: {sent}"));
    match sent.rejected {
        0 => Outcome::from(logs),
        _ => Outcome::Incomplete,
    }
}
