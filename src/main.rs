//! The program iocrec; all its code is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    iocrec::cli::run(std::env::args_os().skip(1))
}
