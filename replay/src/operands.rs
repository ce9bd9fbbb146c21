//! Operands that are names followed by logs, as in `values PV... LOG...` and `last [IOC] LOG...`.
//!
//! A log is an operand that exists as a file or directory, or ends in `.iocrec`. The operands before the first log are
//! names; all others must be logs. A PV can have the name of an existing file, so where a command needs a name its
//! first operand is one, unless that leaves no log.

use std::fmt;
use std::path::{Path, PathBuf};

/// Ending of a segment's file name.
const SEGMENT: &str = ".iocrec";

/// Names, then logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operands {
    /// The names.
    pub names: Vec<String>,
    /// The logs.
    pub logs: Vec<PathBuf>,
}

/// The usage of a command's operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The command.
    pub command: &'static str,
    /// A name, as in usage: `PV`.
    pub name: &'static str,
    /// Limit of the names; `usize::MAX` for any number.
    pub most: usize,
}

/// Wrong operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrongOperands {
    /// A log is in place of the name, and this name after it.
    LogFirst {
        /// The log.
        log: String,
        /// An operand after it that can be the name.
        name: Option<String>,
        /// The usage.
        usage: Usage,
    },
    /// Too many names before the logs: this one is neither.
    Surplus {
        /// The operand.
        operand: String,
        /// The usage.
        usage: Usage,
    },
    /// An operand after a log that is not a log.
    AfterLog {
        /// The operand.
        operand: String,
        /// The log.
        log: String,
        /// The usage.
        usage: Usage,
    },
    /// There is no log, but the last name looks like a path.
    NoSuchLog {
        /// The path.
        path: String,
    },
}

impl fmt::Display for WrongOperands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WrongOperands::LogFirst { log, name, usage } => {
                let name = name.as_deref().unwrap_or(usage.name);
                write!(
                    f,
                    "{log} is a log; the {} comes before it: iocreplay {} {name} {log}",
                    usage.name, usage.command
                )
            }
            WrongOperands::Surplus { operand, usage } => write!(
                f,
                "{operand} is neither a log nor the only {} (no such file or directory); correct its path",
                usage.name
            ),
            WrongOperands::AfterLog { operand, log, usage } => write!(
                f,
                "{operand} is neither a log (no such file or directory) nor {} {} before the logs; correct its path, or \
                 write it before {log}",
                if usage.name == "IOC" { "an" } else { "a" },
                usage.name
            ),
            WrongOperands::NoSuchLog { path } => {
                write!(f, "{path} is not a log: no such file or directory; correct its path")
            }
        }
    }
}

/// Whether an operand is a log.
fn is_log(operand: &Path) -> bool {
    operand.exists() || operand.to_string_lossy().ends_with(SEGMENT)
}

impl Operands {
    /// Divides the operands after those that are names in any case.
    pub fn new(names: &[String], rest: &[PathBuf]) -> Operands {
        let first = rest.iter().position(|operand| is_log(operand)).unwrap_or(rest.len());
        let (more, logs) = rest.split_at(first);
        let more = more.iter().map(|name| name.to_string_lossy().into_owned());
        Operands { names: names.iter().cloned().chain(more).collect(), logs: logs.to_vec() }
    }

    /// Checks them. A command without a log is reported elsewhere.
    ///
    /// # Errors
    /// If an operand is in the wrong place, or neither a name nor a log.
    pub fn check(&self, usage: Usage) -> Result<(), WrongOperands> {
        self.wrong(usage).map_or(Ok(()), Err)
    }

    fn wrong(&self, usage: Usage) -> Option<WrongOperands> {
        let stray = self.logs.iter().find(|operand| !is_log(operand));
        let stray = stray.map(|operand| operand.to_string_lossy().into_owned());
        let first = self.names.first().filter(|name| is_log(Path::new(name)));
        if let Some(log) = first.filter(|_| self.logs.is_empty() || stray.is_some()) {
            let name = self.names.get(1).cloned().or(stray);
            return Some(WrongOperands::LogFirst { log: log.clone(), name, usage });
        }
        if let (Some(operand), Some(log)) = (stray, self.logs.first()) {
            let log = log.to_string_lossy().into_owned();
            return Some(WrongOperands::AfterLog { operand, log, usage });
        }
        let path = self.names.last().filter(|name| self.logs.is_empty() && name.contains('/'));
        if let Some(path) = path {
            return Some(WrongOperands::NoSuchLog { path: path.clone() });
        }
        let operand = self.names.get(usage.most)?.clone();
        Some(WrongOperands::Surplus { operand, usage })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: Usage = Usage { command: "values", name: "PV", most: usize::MAX };
    const LAST: Usage = Usage { command: "last", name: "IOC", most: 1 };

    /// Operands of a command that needs a name, or of one that does not. `LOG` exists.
    fn operands(needs: bool, line: &str) -> Operands {
        let words: Vec<String> =
            line.split(' ').map(|word| word.replace("LOG", env!("CARGO_MANIFEST_DIR"))).collect();
        let (names, rest) = words.split_at(usize::from(needs));
        Operands::new(names, &rest.iter().map(PathBuf::from).collect::<Vec<_>>())
    }

    fn wrong(needs: bool, line: &str) -> String {
        let usage = if needs { VALUES } else { LAST };
        let wrong =
            operands(needs, line).check(usage).map_or_else(|error| error.to_string(), |()| String::new());
        wrong.replace(env!("CARGO_MANIFEST_DIR"), "LOG")
    }

    #[test]
    fn names_come_before_logs() {
        let divided = |needs, line| {
            let Operands { names, logs } = operands(needs, line);
            (names.len(), logs.len(), wrong(needs, line))
        };
        let right = |names, logs| (names, logs, String::new());
        assert_eq!(divided(true, "A:B LOG"), right(1, 1));
        assert_eq!(divided(true, "A:B C*.VAL D LOG LOG gone.iocrec"), right(3, 3));
        assert_eq!(divided(true, "LOG LOG"), right(1, 1), "a record may have the name of a file");
        assert_eq!(divided(true, "A:B"), right(1, 0), "reported as a missing log");
        assert_eq!(divided(false, "LOG LOG"), right(0, 2));
        assert_eq!(divided(false, "ioc1 LOG"), right(1, 1));
    }

    #[test]
    fn wrong_operands_are_named() {
        for (needs, line, expected) in [
            (true, "LOG", "LOG is a log; the PV comes before it: iocreplay values PV LOG"),
            (true, "LOG A:B", "LOG is a log; the PV comes before it: iocreplay values A:B LOG"),
            (true, "/copies/x", "/copies/x is not a log: no such file or directory; correct its path"),
            (true, "A:B /copies/x", "/copies/x is not a log: no such file or directory; correct its path"),
            (
                true,
                "A:B LOG C:D",
                "C:D is neither a log (no such file or directory) nor a PV before the logs; correct its path, or write \
                 it before LOG",
            ),
            (
                false,
                "ioc1 coppies LOG",
                "coppies is neither a log nor the only IOC (no such file or directory); correct its path",
            ),
        ] {
            assert_eq!(wrong(needs, line), expected, "{line}");
        }
    }
}
