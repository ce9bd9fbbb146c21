//! How the program ends: the one place for exit codes.

use crate::out::complain;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// Why a command stopped, or what it has to confess at its end.
#[derive(Debug)]
pub enum Failure {
    /// It was called wrongly; the line says how it should be.
    Usage(String),
    /// It could not be done; the line says what to do.
    Failed(String),
    /// Something could not be read; it has been said already.
    Said,
    /// Nobody reads the output any more, as in `iocreplay puts LOG | head -1`.
    Pipe,
}

impl Failure {
    /// What became of writing to `file` (standard output if none).
    pub fn writing(error: io::Error, file: Option<&Path>) -> Self {
        match (error.kind(), file) {
            (io::ErrorKind::BrokenPipe, _) => Failure::Pipe,
            (_, Some(file)) => {
                Failure::Failed(format!("can't write {}: {error}; name another file with -o", file.display()))
            }
            (_, None) => Failure::Failed(format!("can't write to standard output: {error}; try -o FILE")),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::writing(error, None)
    }
}

/// 0 on success, 1 on failure, 2 on bad usage; says what is to be said on stderr.
pub fn exit(result: Result<(), Failure>) -> ExitCode {
    let (line, code) = match result {
        Ok(()) | Err(Failure::Pipe) => return ExitCode::SUCCESS,
        Err(Failure::Said) => return ExitCode::FAILURE,
        Err(Failure::Failed(line)) => (line, ExitCode::FAILURE),
        Err(Failure::Usage(line)) => (line, ExitCode::from(2)),
    };
    complain(&line);
    code
}
