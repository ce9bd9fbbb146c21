//! Colours, few and with a meaning: what is bad, and what needs attention.
//!
//! They are used on a terminal that can show them, and never if `NO_COLOR` is set (<https://no-color.org>).

/// The look of a part of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// As everything else.
    Plain,
    /// Severity MINOR.
    Minor,
    /// Severity MAJOR, a put that was refused, an error.
    Bad,
    /// Severity INVALID.
    Invalid,
}

impl Style {
    /// The style of an alarm severity (0 to 3).
    pub fn of_severity(severity: u16) -> Style {
        match severity {
            epics::alarm::MINOR => Style::Minor,
            epics::alarm::MAJOR => Style::Bad,
            epics::alarm::INVALID => Style::Invalid,
            _ => Style::Plain,
        }
    }

    /// The style of a put's status.
    pub fn of_status(status: &str) -> Style {
        match status {
            "ok" | "unknown" => Style::Plain,
            _ => Style::Bad,
        }
    }

    /// The codes that begin and end it; none if `wanted` is not set.
    pub fn codes(self, wanted: bool) -> (&'static str, &'static str) {
        const END: &str = "\x1b[0m";
        match self {
            _ if !wanted => ("", ""),
            Style::Plain => ("", ""),
            Style::Minor => ("\x1b[33m", END),
            Style::Bad => ("\x1b[31m", END),
            Style::Invalid => ("\x1b[35m", END),
        }
    }
}

/// Whether to use colours on a terminal, or on something that is none.
pub fn is_wanted(is_terminal: bool) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    is_terminal && !refused && !is_dumb()
}

/// Whether the terminal understands no codes.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|name| name == "dumb")
}
