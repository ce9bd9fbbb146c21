//! iocreplay: reads logs of the flight recorder for EPICS IOCs.

use std::process::ExitCode;

fn main() -> ExitCode {
    iocreplay::program::run(std::env::args_os().skip(1))
}
