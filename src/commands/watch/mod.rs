//! `iocrec watch`: prints the events that a log would get, one line each, as they happen.

mod deaths;
mod printer;
mod pvaccess;

use iocrec_cli::command;

use super::options::{capture, process_choice, Capture, ProcessChoice};
use super::{reading, recording, Command};
use crate::failure::Failure;
use crate::linux::signals::{self, HangUp};
use crate::recorder::capture_clock::CaptureClock;
use crate::terminal;
use printer::Printer;

command! {
    /// Print puts and processing as they happen, one line each; writes no log
    #[argh(subcommand, name = "watch")]
    pub struct Watch {} with process_choice: ProcessChoice, capture: Capture
}

impl Command for Watch {
    fn run(self) -> Result<(), Failure> {
        let (choice, capture) = (ProcessChoice::from(&self), Capture::from(&self));
        let files = capture.files(choice.given())?;
        let options = capture.options(choice.chosen()?, None);
        if !files.is_empty() {
            recording::drop_privileges(false);
            signals::catch(HangUp::Ends);
            let mut printer = Printer::new(terminal::standard_output()).with_times();
            let finished = reading::read(options, files, &CaptureClock::default(), &mut printer);
            printer.end()?;
            return finished.report(None);
        }
        terminal::wait_for_nobody();
        let ends = recording::limit_privileges(false);
        signals::catch(HangUp::Ends);
        let mut printer = Printer::new(terminal::standard_output());
        let recorder = recording::record(options, ends, &mut printer)?;
        let printed = printer.end();
        recording::end(recorder);
        Ok(printed?)
    }
}
