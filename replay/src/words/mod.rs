//! Words that all text consists of: counts, rates, ages, names that somebody chose, and signals.

pub mod age;

use crate::shown_names::own_name;

/// Times in a second, `12.5/s`: with two digits that say something where it is less than one, since 0.0 would be never.
pub fn rate(per_second: f64) -> String {
    let digits = match per_second.log10() {
        log if log.is_finite() => (1.0 - log.floor()).clamp(1.0, 9.0) as usize,
        _ => 1,
    };
    format!("{per_second:.digits$}/s")
}

/// A count with its noun: `1 put`, `2 puts`.
pub fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

/// `is` or `are`, after a count.
pub fn are(count: u64) -> &'static str {
    if count == 1 {
        "is"
    } else {
        "are"
    }
}

/// A name that somebody chose, as one word of a line.
pub fn name(text: &str) -> String {
    let mut name = String::new();
    iocrec_log::value::push_name(&mut name, text);
    name
}

/// The name of an IOC, which any program chooses for itself, in the same way; the process that tells it from its namesakes
/// stands behind it.
pub fn ioc(shown: &str) -> String {
    let own = own_name(shown);
    name(own) + shown.get(own.len()..).unwrap_or_default()
}

/// Linux's names of signals 1 to 31, the same on all machines that the recorder runs on.
const SIGNALS: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

/// The name of a signal by its number on Linux.
pub fn signal_name(number: u16) -> String {
    let name = usize::from(number).checked_sub(1).and_then(|place| SIGNALS.get(place));
    name.map_or_else(|| format!("signal {number}"), |name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_signals() {
        let names = [1, 9, 11, 15, 31, 0, 40].map(signal_name);
        assert_eq!(names, ["SIGHUP", "SIGKILL", "SIGSEGV", "SIGTERM", "SIGSYS", "signal 0", "signal 40"]);
    }

    #[test]
    fn rates_of_what_happened_are_not_zero() {
        for (rate_of, text) in [
            (1234.56, "1234.6/s"),
            (10.0, "10.0/s"),
            (1.04, "1.0/s"),
            (0.25, "0.25/s"),
            (1.0 / 3600.0, "0.00028/s"),
            (0.0, "0.0/s"),
            (f64::NAN, "NaN/s"),
        ] {
            assert_eq!(rate(rate_of), text);
        }
        assert_eq!((counted(1, "put"), counted(2, "put")), ("1 put".into(), "2 puts".into()));
        assert_eq!([0, 1, 2].map(are), ["are", "is", "are"]);
    }
}
