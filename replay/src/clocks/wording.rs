//! What is said of clocks that differ.

use super::{apart, HostClock, Relative};
use std::fmt::{self, Formatter};

/// Hosts that a sentence names.
const MAX_SAID: usize = 5;

/// A length of time, to the microsecond and rounded up below a millisecond: clocks differ by less than what other lengths
/// are shown with.
pub fn length(nanoseconds: i64) -> String {
    match nanoseconds {
        ..1_000_000 => format!("{} us", nanoseconds.max(0).saturating_add(999) / 1000),
        1_000_000..1_000_000_000 => format!("{:.3} ms", nanoseconds as f64 / 1e6),
        _ => format!("{:.6} s", nanoseconds as f64 / 1e9),
    }
}

/// A difference: `1.250000 s ahead of box1's, to within 310 us`.
pub fn difference(relative: &Relative) -> String {
    let Relative { of, bounds, changed, through, .. } = relative;
    let mut text = match bounds.middle() {
        middle if middle < 0 => format!("{} behind {of}'s", length(middle.saturating_neg())),
        middle => format!("{} ahead of {of}'s", length(middle)),
    };
    text += &format!(", to within {}", length(bounds.width() / 2));
    if *changed > 0 {
        text += &format!(" (it changed by at least {})", length(*changed));
    }
    if !through.is_empty() {
        text += &format!(", by way of {}", through.join(", "));
    }
    text
}

fn list(names: impl ExactSizeIterator<Item = String>, between: &str) -> String {
    let count = names.len();
    let mut shown: Vec<String> = names.take(MAX_SAID).collect();
    if count > MAX_SAID {
        shown.push(format!("{} more", count - MAX_SAID));
    }
    shown.join(between)
}

/// Clocks that differ notably.
pub fn differ(clocks: &[HostClock], f: &mut Formatter<'_>) -> fmt::Result {
    let said: Vec<String> = clocks
        .iter()
        .filter_map(|clock| Some(format!("{}'s is {}", clock.host, difference(clock.relative.as_ref()?))))
        .collect();
    write!(
        f,
        "hosts' clocks differ, and times are as each showed them: {}; --clock-offset sets them right (HOST=SECONDS, or auto), \
         iocreplay info has the bounds",
        list(said.into_iter(), "; ")
    )
}

/// Clocks that can't be compared, of all that are read together.
pub fn unknown(clocks: &[HostClock], f: &mut Formatter<'_>) -> fmt::Result {
    let apart = apart(clocks);
    let others = if apart.len() == clocks.len() { "" } else { " from the others'" };
    write!(
        f,
        "how the clocks of {} differ{others} is not known, since no circuit between them has messages of both ways in both \
         logs: what happened on several hosts may be in the wrong order; if you know it, say --clock-offset HOST=SECONDS",
        list(apart.iter().map(|clock| clock.host.clone()), ", ")
    )
}
