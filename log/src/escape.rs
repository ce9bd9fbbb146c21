//! Text from outside, on its way to a terminal, a file or another program.
//!
//! Names, users, hosts, paths, command lines and kernel messages come from outside. A line feed in them makes two lines
//! out of one, an escape moves the cursor or changes the window's title, a bidirectional control shows the rest
//! backwards, and a zero-width space makes two names look the same. So none of them is printed unchecked: this module
//! alone decides which characters may be printed, and both programs print through it.
//!
//! **Lines of text** are written with [`Lines`], which prints a line feed only to end a line. (So it is not a
//! [`Write`]: `writeln!` to it does not compile.) clippy.toml forbids both programs to use standard output or standard
//! error elsewhere. Characters that must not be shown are escaped:
//!
//! | character | shown as |
//! |---|---|
//! | line feed, carriage return, tab | `\n` `\r` `\t` |
//! | the other control characters of ASCII, and DEL | `\x1b` |
//! | a byte that is not UTF-8 (already escaped by [`push_lossy`](crate::value::push_lossy)) | `\x80` to `\xff` |
//! | everything else that [`is_unsafe`] | `\u{85}` `\u{202e}` |
//!
//! A backslash is not escaped: names, paths and values contain them, and escaping twice must equal escaping once. So a
//! name with the four characters `\x1b` in it looks like one with an escape. Where that matters, use JSON, which keeps
//! them apart.
//!
//! **JSON** preserves every value: [`push_json`] writes unsafe characters as `\u202e`, which every parser decodes.

use std::fmt::{self, Arguments, Display, Write as _};
use std::io::{self, Write};

/// Whether this character must be escaped on its way to a terminal. Three kinds are unsafe: characters that control a
/// terminal (Unicode category Cc: C0, DEL, C1); characters that change the display of others or show nothing themselves
/// (Cf: bidirectional controls, zero-width characters, byte order mark, tags; and blank letters and marks); and line
/// and paragraph separators (Zl, Zp).
pub fn is_unsafe(letter: char) -> bool {
    match letter {
        ' '..='~' => false,
        '\0'..='\u{9f}' => true,
        // soft hyphen; the joiner and the fillers that show nothing
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => true,
        // signs before Arabic and Syriac numbers, the Arabic letter mark, the Mongolian vowel separator and selectors
        '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}' | '\u{891}' | '\u{8e2}' => true,
        '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' => true,
        // zero width, directions, separators, embeddings and isolates, invisible operators
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        // variation selectors, byte order mark, annotations, tags
        '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}' => true,
        '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' => true,
        '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => true,
        // noncharacters: their display depends on the terminal's font
        _ => (letter as u32) & 0xfffe == 0xfffe,
    }
}

/// Whether the text can be shown unchanged.
#[inline]
pub fn is_safe(text: &str) -> bool {
    let mut rest = text;
    // Nearly all text is printable ASCII: eight letters at a time, and one by one only where there is another.
    loop {
        let plain = rest.as_bytes().chunks(8).take_while(|eight| are_printable(eight)).map(<[u8]>::len).sum();
        let Some(after) = rest.get(plain..) else { return !rest.chars().any(is_unsafe) };
        let mut letters = after.chars();
        match letters.by_ref().find(|letter| !matches!(letter, ' '..='~')) {
            None => return true,
            Some(letter) if is_unsafe(letter) => return false,
            Some(_) => rest = letters.as_str(),
        }
    }
}

/// Whether all of up to eight bytes are printable ASCII.
#[inline]
fn are_printable(bytes: &[u8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    let Some(eight) = bytes.first_chunk().filter(|_| bytes.len() == 8) else {
        return bytes.iter().all(|byte| matches!(byte, b' '..=b'~'));
    };
    let eight = u64::from_ne_bytes(*eight);
    // With no high bit set, no sum or difference reaches the next byte.
    let above = eight.wrapping_add(ONES); // DEL becomes 0x80
    let below = (eight | HIGH).wrapping_sub(u64::from(b' ') * ONES); // the high bit stays if it is at least a space
    eight & HIGH == 0 && above & HIGH == 0 && below & HIGH == HIGH
}

/// Appends `text` with every character that [`is_unsafe`] escaped.
pub fn push(out: &mut String, text: &str) {
    if is_safe(text) {
        return out.push_str(text);
    }
    text.chars().for_each(|letter| push_letter(out, letter));
}

/// Appends a character as [`push`] does.
pub fn push_letter(out: &mut String, letter: char) {
    // writing to a String cannot fail
    let _ = match letter {
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        _ if !is_unsafe(letter) => out.write_char(letter),
        '\0'..='\x7f' => write!(out, "\\x{:02x}", letter as u32),
        _ => write!(out, "\\u{{{:x}}}", letter as u32),
    };
}

/// Text that is displayed escaped, as by [`push`].
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(pub &'a str);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_safe(self.0) {
            return f.pad(self.0);
        }
        let mut shown = String::new();
        push(&mut shown, self.0);
        f.pad(&shown)
    }
}

/// Appends `text` as the content of a JSON string, without quotes (RFC 8259, section 7). No character of the result
/// [`is_unsafe`].
pub fn push_json(out: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            _ if !is_unsafe(letter) => out.push(letter),
            // a character above U+FFFF is two UTF-16 units
            _ => letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| _ = write!(out, "\\u{unit:04x}")),
        }
    }
}

/// Writes lines of text safely, whatever they contain.
#[derive(Debug)]
pub struct Lines<W> {
    out: W,
    /// The line so far, not escaped.
    raw: String,
    /// The escaped line, if it differs.
    shown: String,
}

impl<W: Write> Lines<W> {
    /// Lines that are written to `out`.
    pub fn new(out: W) -> Self {
        Lines { out, raw: String::new(), shown: String::new() }
    }

    /// Adds to the line. Nothing is written yet.
    pub fn add(&mut self, part: Arguments) {
        // fails only if a Display implementation does
        let _ = self.raw.write_fmt(part);
    }

    /// The line so far, to add to it. What is added is escaped like everything else when the line ends.
    pub fn text(&mut self) -> &mut String {
        &mut self.raw
    }

    /// Adds to the line and ends it.
    ///
    /// # Errors
    /// Those of writing to `out`. The line is lost.
    pub fn line(&mut self, part: Arguments) -> io::Result<()> {
        self.add(part);
        self.end()
    }

    /// Ends the line.
    ///
    /// # Errors
    /// Those of [`Lines::line`].
    pub fn end(&mut self) -> io::Result<()> {
        let written = if is_safe(&self.raw) {
            self.raw.push('\n');
            self.out.write_all(self.raw.as_bytes())
        } else {
            self.shown.clear();
            push(&mut self.shown, &self.raw);
            self.shown.push('\n');
            self.out.write_all(self.shown.as_bytes())
        };
        self.raw.clear();
        written
    }

    /// Flushes `out`.
    ///
    /// # Errors
    /// Those of flushing `out`.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// The writer below, for output that is not lines of text and is safe by itself (JSON).
    pub fn below(&mut self) -> &mut W {
        &mut self.out
    }
}

/// Lines collected in memory, for an answer of many lines.
impl Lines<Vec<u8>> {
    /// Everything that was written.
    pub fn into_text(self) -> String {
        // only Strings were written
        String::from_utf8(self.out).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> String {
        let mut out = String::new();
        push(&mut out, text);
        assert_eq!(Shown(text).to_string(), out);
        out
    }

    #[test]
    fn what_is_shown_otherwise() {
        for (text, expected) in [
            (
                "SR:C01-MG:G02A{Quad:1}Fld-I °C µm Größe 電流 — ✓",
                "SR:C01-MG:G02A{Quad:1}Fld-I °C µm Größe 電流 — ✓",
            ),
            ("a\r\n\tb", r"a\r\n\tb"),
            ("\u{1b}[2J\u{7}\0\u{7f}", r"\x1b[2J\x07\x00\x7f"),
            ("\u{85}\u{9b}2J", r"\u{85}\u{9b}2J"),
            ("\u{202e}\u{2066}\u{200e}\u{61c}", r"\u{202e}\u{2066}\u{200e}\u{61c}"),
            ("\u{2028}\u{2029}\u{200b}\u{feff}\u{e0041}", r"\u{2028}\u{2029}\u{200b}\u{feff}\u{e0041}"),
            (r"C:\temp \x1b", r"C:\temp \x1b"),
        ] {
            assert_eq!(shown(text), expected);
            assert_eq!(shown(expected), expected, "twice is once");
        }
        assert_eq!(format!("{:<6}|", Shown("a\n")), "a\\n   |");
    }

    #[test]
    fn a_line_ends_only_at_its_end() {
        let mut lines = Lines::new(Vec::new());
        lines.add(format_args!("a {}", "b\n"));
        lines.line(format_args!("{}\n", "c")).unwrap();
        lines.line(format_args!("d")).unwrap();
        lines.end().unwrap();
        assert_eq!(lines.into_text(), "a b\\nc\\n\nd\n\n");
    }

    #[test]
    fn json_keeps_what_it_shows_otherwise() {
        let mut json = String::from("\"");
        push_json(&mut json, "a\"\\\n\u{85}\u{202e}é\u{e0041}");
        json.push('"');
        assert_eq!(json, r#""a\"\\\u000a\u0085\u202eé\udb40\udc41""#);
    }

    proptest! {
        /// However letters lie in groups of eight.
        #[test]
        fn safe_is_what_has_no_unsafe_letter(text in "[ -~]{0,20}[\\x00-\\x7f\u{80}-\u{ff}\u{3bc}]{0,3}[ -~]{0,20}") {
            prop_assert_eq!(is_safe(&text), !text.chars().any(is_unsafe));
        }

        #[test]
        fn nothing_unsafe_gets_through(text in any::<String>()) {
            prop_assert_eq!(is_safe(&text), !text.chars().any(is_unsafe));
            prop_assert!(is_safe(&shown(&text)));
            let mut json = String::new();
            push_json(&mut json, &text);
            prop_assert!(is_safe(&json));
        }
    }
}
