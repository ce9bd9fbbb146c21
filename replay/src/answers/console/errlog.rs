//! Who sent a message that EPICS' errlog thread prints.
//!
//! From Base 7.0.7 on `errlogPrintf` and its kin leave the text to a thread of the name errlog, which prints the messages
//! one after the other. The log has the call, with its thread and its format, and later the text. They are joined if the
//! text can have come of the format, in the order of the calls. A message that fits none has no known sender.

use iocrec_log::terminal::without_sequences;
use std::collections::VecDeque;

/// Calls of an IOC that wait for their text; a bound for hostile logs.
const MAX_WAITING: usize = 1000;
/// Longest time that a message waits for the thread that prints it, nanoseconds: that has nothing else to do.
const LATE: u64 = 2_000_000_000;
/// Bytes of a text and of a format that are compared; bounds for hostile logs.
const MAX_COMPARED: usize = 1000;

/// The thread that prints for others.
pub const PRINTER: &str = "errlog";

/// A call that waits for its text.
struct Call<T> {
    at: u64,
    format: String,
    sender: T,
}

/// The messages of one IOC that wait to be printed.
pub struct Waiting<T> {
    calls: VecDeque<Call<T>>,
    /// When the last text came, and who sent it: further lines of it come at the same time.
    last: Option<(u64, Option<T>)>,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Waiting { calls: VecDeque::new(), last: None }
    }
}

impl<T: Clone + PartialEq> Waiting<T> {
    /// A thread sends a message.
    pub fn call(&mut self, at: u64, format: &str, sender: T) {
        self.forget(at);
        if self.calls.len() >= MAX_WAITING {
            self.calls.pop_front();
        }
        let format = format.chars().take(MAX_COMPARED).collect();
        self.calls.push_back(Call { at, format, sender });
    }

    /// The errlog thread prints a line: whose message it is, if that is known.
    pub fn printed(&mut self, at: u64, line: &str) -> Option<T> {
        self.forget(at);
        if let Some((_, sender)) = self.last.as_ref().filter(|(last, _)| *last == at) {
            return sender.clone();
        }
        let line: String = without_sequences(line).chars().take(MAX_COMPARED).collect();
        let found = self.calls.iter().position(|call| call.at <= at && fits(&call.format, &line));
        let mut sender = None;
        if let Some(found) = found {
            // the messages before it were not printed: there was no room for them, or they are not for the console
            self.calls.drain(..found);
            let call = self.calls.pop_front();
            // a message that does not end with its line goes on with the next one
            let mut is_open = call.as_ref().is_some_and(|call| !ends_line(&call.format));
            sender = call.map(|call| call.sender);
            while let Some(next) =
                self.calls.front().filter(|next| is_open && Some(&next.sender) == sender.as_ref())
            {
                is_open = !ends_line(&next.format);
                self.calls.pop_front();
            }
        }
        self.last = Some((at, sender.clone()));
        sender
    }

    /// A thread prints its own message, as before Base 7.0.7: it does not wait.
    pub fn printed_by(&mut self, sender: impl Fn(&T) -> bool) {
        if let Some(place) = self.calls.iter().position(|call| sender(&call.sender)) {
            self.calls.remove(place);
        }
    }

    /// Lines are missing: those of the messages that wait may be among them.
    pub fn clear(&mut self) {
        self.calls.clear();
    }

    fn forget(&mut self, now: u64) {
        while self.calls.front().is_some_and(|call| call.at.saturating_add(LATE) < now) {
            self.calls.pop_front();
        }
    }
}

fn ends_line(format: &str) -> bool {
    format.ends_with('\n')
}

/// Whether the first line of a message can have come of a format as for printf. Errlog puts the severity, the status or
/// the place in the source file in front.
fn fits(format: &str, line: &str) -> bool {
    let format = without_sequences(format.split('\n').next().unwrap_or_default());
    let pieces = pieces_of(&format);
    // what is in front of it
    let line = match line.strip_prefix("sevr=") {
        Some(rest) => rest.split_once(' ').map_or("", |(_, rest)| rest),
        None => line,
    };
    let anchored = in_order(&pieces, line, true);
    anchored || (line.contains("line number=") && in_order(&pieces, line, false))
}

/// A part of a format between its conversions.
struct Piece {
    /// The letter of the conversion before it; a NUL at the beginning.
    after: char,
    text: String,
}

impl Piece {
    /// Whether the conversion before it can have made this text.
    fn may_follow(&self, made: &str) -> bool {
        let all = |allowed: &dyn Fn(char) -> bool| !made.is_empty() && made.chars().all(allowed);
        match self.after {
            'd' | 'i' | 'u' => all(&|letter| letter.is_ascii_digit() || "-+ ".contains(letter)),
            'x' | 'X' | 'o' | 'p' => all(&|letter| letter.is_ascii_hexdigit() || "xX ()nil".contains(letter)),
            'e' | 'E' | 'f' | 'F' | 'g' | 'G' | 'a' | 'A' => {
                all(&|letter| letter.is_ascii_hexdigit() || "-+. ()xXpPinfINFnaNA".contains(letter))
            }
            _ => true,
        }
    }
}

/// The parts of a format.
fn pieces_of(format: &str) -> Vec<Piece> {
    let mut pieces = vec![Piece { after: '\0', text: String::new() }];
    let mut letters = format.chars().peekable();
    while let Some(letter) = letters.next() {
        let percent = letter == '%';
        if !percent || letters.next_if_eq(&'%').is_some() {
            pieces.last_mut().into_iter().for_each(|piece| piece.text.push(letter));
            continue;
        }
        // flags, width, precision and length, up to the conversion's letter
        let is_before = |letter: &char| letter.is_ascii_digit() || "-+ #.*'hlLqjzt".contains(*letter);
        while letters.next_if(is_before).is_some() {}
        pieces.push(Piece { after: letters.next().unwrap_or('s'), text: String::new() });
    }
    pieces
}

/// Whether the pieces stand in the text in this order, with what their conversions can have made between them: the
/// first at its beginning, if `anchored`, and the last at its end.
fn in_order(pieces: &[Piece], text: &str, anchored: bool) -> bool {
    let Some((first, others)) = pieces.split_first() else { return false };
    let place = if anchored { text.starts_with(&first.text).then_some(0) } else { text.find(&first.text) };
    let Some(place) = place else { return false };
    let mut rest = text.get(place + first.text.len()..).unwrap_or_default();
    let Some((last, between)) = others.split_last() else { return rest.is_empty() };
    for piece in between {
        let mut places = rest.match_indices(&piece.text);
        let fits = |place: &(usize, &str)| rest.get(..place.0).is_some_and(|made| piece.may_follow(made));
        let Some((place, _)) = places.find(fits) else { return false };
        rest = rest.get(place + piece.text.len()..).unwrap_or_default();
    }
    rest.strip_suffix(last.text.as_str()).is_some_and(|made| last.may_follow(made))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_formats() {
        for (format, line) in [
            ("%s: no answer in %d s\n", "X: no answer in 3 s"),
            ("plain\n", "plain"),
            ("plain", "plain"),
            ("%s", "anything"),
            ("%d%% of %-8.3f\n", "50% of 1.234   "),
            ("%s\nsecond line %d\n", "first"),
            ("%s warns of %g\n", "sevr=major S:X warns of 0"),
            ("%s errs\n", "filename=\"a.c\" line number=77S:X errs"),
            ("\u{1b}[31mERROR\u{1b}[0m: %s\n", "ERROR: x"),
        ] {
            assert!(fits(format, line), "{format:?} {line:?}");
        }
        for (format, line) in [
            ("%s: no answer in %d s\n", "X: no answer in 3 m"),
            ("plain\n", "plainer"),
            ("a %d b\n", "xa 1 b"),
            ("%d\n", "a text"),
            ("%x of %s\n", "g of x"),
            ("%s errs\n", "S:X errs by 1"),
        ] {
            assert!(!fits(format, line), "{format:?} {line:?}");
        }
    }

    #[test]
    fn messages_are_printed_in_order() {
        let mut waiting = Waiting::default();
        for (at, format, sender) in
            [(1, "%d\n", 'a'), (2, "lost %s\n", 'b'), (3, "%d\n", 'c'), (4, "x\ny\n", 'd')]
        {
            waiting.call(at, format, sender);
        }
        assert_eq!(waiting.printed(10, "1"), Some('a'));
        assert_eq!(waiting.printed(11, "nobody's text"), None);
        // b's was not printed
        assert_eq!(waiting.printed(12, "3"), Some('c'));
        assert_eq!(waiting.printed(13, "x"), Some('d'));
        assert_eq!(waiting.printed(13, "y"), Some('d'), "its second line");
        assert_eq!(waiting.printed(14, "y"), None);
    }

    #[test]
    fn a_message_in_parts() {
        let mut waiting = Waiting::default();
        for (format, sender) in [("begin %d", 'a'), (" more", 'a'), (" end\n", 'a'), ("next\n", 'b')] {
            waiting.call(1, format, sender);
        }
        assert_eq!(waiting.printed(2, "begin 5"), Some('a'));
        assert_eq!(waiting.printed(3, "next"), Some('b'));
    }

    #[test]
    fn a_call_does_not_wait_for_ever() {
        let mut waiting = Waiting::default();
        waiting.call(1, "%s\n", 'a');
        assert_eq!(waiting.printed(LATE + 2, "text"), None);
        waiting.call(LATE + 3, "%s\n", 'b');
        assert_eq!(waiting.printed(LATE + 2, "before it was sent"), None);
        waiting.printed_by(|sender| *sender == 'b');
        assert_eq!(waiting.printed(LATE + 4, "text"), None, "it has printed it itself");
        for turn in 0..5 * MAX_WAITING as u64 {
            waiting.call(LATE + 5 + turn, "x\n", 'c');
        }
        assert!(waiting.calls.len() <= MAX_WAITING);
    }

    #[test]
    fn what_printf_makes_fits() {
        for (name, number, tail) in
            [("", 0_i32, ""), ("X", -5, "s"), ("a b", i32::MAX, " of it "), ("has", 7, "has")]
        {
            let format = format!("%s has %5d {tail}\n");
            assert!(fits(&format, &format!("{name} has {number:5} {tail}")), "{name:?} {number} {tail:?}");
        }
    }

    /// Formats and lines made of parts that matter, all with all.
    #[test]
    fn nothing_panics() {
        let parts = [
            "",
            "%",
            "%%",
            "%5",
            "%-*.3lld",
            "\u{1b}[",
            "sevr=",
            "sevr=major ",
            "line number=",
            "\u{e9}",
            "\n",
            "x",
        ];
        for first in parts {
            for second in parts {
                let text = format!("{first}{second}");
                for line in parts {
                    let _ = (fits(&text, line), fits(line, &text), fits(&text, &text));
                }
            }
        }
    }
}
