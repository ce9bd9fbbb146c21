//! `iocrec cat`: sends a log as it is written through a pipe.

use std::io::ErrorKind;

use iocrec_cli::command;
use iocrec_log::stream::{Position, Sender};

use super::options::{log_directory, LogDirectory};
use super::Command;
use crate::failure::{Failure, UsageError};
use crate::terminal;

command! {
    /// Send a log as it is written to standard output, for iocreplay follow - at the other end of a pipe
    #[argh(subcommand, name = "cat")]
    pub struct Cat {
        /// begin at this position, which iocreplay follow has printed (default: oldest, the beginning of the log)
        #[argh(option, arg_name = "position")]
        pub from: Option<String>,

        /// end when everything that is there was sent
        #[argh(switch)]
        pub no_follow: bool,
    } with log_directory: LogDirectory
}

impl Command for Cat {
    /// SIGTERM ends it at once: it has nothing to clean up.
    fn run(self) -> Result<(), Failure> {
        let from = match self.from.as_deref() {
            None | Some("oldest") => None,
            Some(text) => Some(Position::parse(text).ok_or_else(|| {
                let line =
                    format!("{text} is no position; leave out --from, or copy it from iocreplay follow");
                UsageError::Value(line)
            })?),
        };
        let Some(mut pipe) = terminal::pipe()? else {
            let line = "a terminal can't show the stream; pipe it into iocreplay follow -";
            return Err(UsageError::Value(line.into()).into());
        };
        let mut sender = Sender::new(&self.dir, from);
        let mut looks = 0;
        let mut send = || -> std::io::Result<()> {
            loop {
                if sender.step(&mut pipe)? {
                    looks = 0;
                    continue;
                }
                // every second while there is nothing to send, so that the receiver can tell a rest from a broken line
                if self.no_follow || looks % 5 == 0 {
                    sender.rest(self.no_follow, &mut pipe)?;
                }
                looks += 1;
                if self.no_follow || terminal::is_closed(&pipe) {
                    return Ok(());
                }
            }
        };
        match send() {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        }
    }
}
