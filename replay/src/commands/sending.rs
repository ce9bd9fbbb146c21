//! What commands that write or send for OpenTelemetry have in common.

use super::command::Outcome;
use super::options::named_file;
use crate::collector::{Address, Batch, Sender};
use crate::failure::{Failure, UsageError};
use crate::filter::Filter;
use crate::nothing_found::{explain, mismatch, Kind};
use crate::out::Out;
use crate::output::format::Format;
use crate::output::otlp::Telemetry;
use crate::terminal::{self, Terminal};
use crate::time::Zone;
use crate::Logs;
use std::fmt::Display;
use std::io::IsTerminal;
use std::path::Path;

/// The options of such a command.
pub struct Sending<'a, T: 'static> {
    /// `--otlp`.
    pub address: Option<&'a Address>,
    /// The option that skips what was sent before, if it is given.
    pub skip: Option<usize>,
    /// The format, if it is given.
    pub format: Option<&'static Format<T>>,
    /// `-o`.
    pub output: Option<&'a Path>,
    /// Whether logs are given.
    pub has_logs: bool,
}

impl<T: Telemetry> Sending<'_, T> {
    /// Checks that the options go together.
    pub fn check(&self) -> Result<(), UsageError> {
        let unused = [("--format", self.format.is_some()), ("-o", self.output.is_some())];
        match (self.address, unused.iter().find(|(_, is_given)| *is_given)) {
            (Some(_), Some((option, _))) => return Err(UsageError::SentAndWritten(option)),
            (None, _) if self.skip.is_some() => {
                return Err(UsageError::SkippedUnsent(T::Batch::SIGNAL.skip));
            }
            _ => {}
        }
        if let Some(Format { name, .. }) = self.format.filter(|format| is_binary(format.name)) {
            if named_file(self.output).is_none() && self.has_logs && terminal::standard().is_terminal() {
                return Err(UsageError::BinaryToTerminal(name));
            }
        }
        Ok(())
    }

    /// Writes what was found, in the given format or this one, or sends it. If it is nothing, says why: `asked` is what
    /// was asked for.
    pub fn pass_on(
        &self,
        out: &mut Out,
        otherwise: &'static Format<T>,
        items: impl Iterator<Item = T>,
        (logs, zone): (&Logs, &Zone),
        asked: (Kind, &Filter),
    ) -> Result<Outcome, Failure> {
        let mut is_empty = true;
        let mut items = items.inspect(|item| is_empty &= item.is_empty());
        let sent = match self.address {
            Some(address) => {
                let mut sender: Sender<T::Batch> = Sender::new(address, self.skip.unwrap_or(0), &tell);
                items.try_for_each(|item| item.parts(|part| sender.add(part)))?;
                Some((address, sender.finish()?))
            }
            None => {
                let mut writer = (self.format.unwrap_or(otherwise).writer)(zone);
                writer.begin(out)?;
                items.try_for_each(|item| writer.write(out, &item))?;
                writer.end(out)?;
                None
            }
        };
        let quiet = logs.without_notices();
        if is_empty {
            Terminal.report(&explain(asked.0, &quiet, asked.1, false, zone));
        } else if let Some(line) =
            (asked.0 == Kind::Metrics).then(|| mismatch(&quiet, asked.1, zone)).flatten()
        {
            // marks are counted whatever was asked for
            Terminal.report(&line);
        }
        match sent {
            Some((address, sent)) => {
                Terminal.report(&format_args!("{address}: {sent}"));
                Ok(if sent.rejected == 0 { Outcome::from(logs) } else { Outcome::Incomplete })
            }
            None => Ok(Outcome::from(logs)),
        }
    }
}

/// Tells people what goes on with a collector.
pub fn tell(said: &dyn Display) {
    Terminal.report(&said);
}

/// Whether a format of this name is bytes that are no text.
fn is_binary(format: &str) -> bool {
    format.starts_with("otlp-proto") || format == "perfetto"
}

/// Reads the URL of a collector.
pub fn parse_address(text: &str) -> Result<Address, String> {
    Address::parse(text).map_err(|error| error.to_string())
}
