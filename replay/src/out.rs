//! Output: the place where text from outside is escaped.
//!
//! An [`Out`] takes lines and JSON, so no output for people can bypass it: names, users, hosts, paths and
//! everything else in a log is hostile until it has passed through here. [`iocrec_log::escape`] has the rules. `Out`
//! does not implement [`Write`], so `writeln!` to it does not compile; use `line!` and `add!` instead.

use crate::terminal::style::Style;
use iocrec_log::escape::{push, push_json, Lines};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use std::fmt::Arguments;
use std::io::{self, Write};

/// Prints a line: `line!(out, "{} of {}", 1, 2)?`.
macro_rules! line {
    ($out:expr) => { $out.end() };
    ($out:expr, $($part:tt)*) => { $out.line(format_args!($($part)*)) };
}
/// Adds to a line; end it with `line!`.
macro_rules! add {
    ($out:expr, $($part:tt)*) => { $out.add(format_args!($($part)*)) };
}
pub(crate) use {add, line};

/// Takes lines and JSON, and writes them escaped; and bytes that no terminal sees.
pub struct Out<'a> {
    lines: Lines<&'a mut dyn Write>,
    /// Whether parts of lines are shown in their styles.
    styled: bool,
    /// Where in the line a style begins.
    styles: Vec<(usize, Style)>,
}

impl<'a> Out<'a> {
    /// Writes to `below`.
    pub fn new(below: &'a mut dyn Write) -> Self {
        Out { lines: Lines::new(below), styled: false, styles: Vec::new() }
    }

    /// Shows parts of lines in their styles from now on, or not. By default they are not.
    pub fn use_styles(&mut self, styled: bool) {
        self.styled = styled;
    }

    /// Whether they are.
    pub fn is_styled(&self) -> bool {
        self.styled
    }

    /// Shows what is added to the line from now on in this style, until the next call or the end of the line.
    pub fn style(&mut self, style: Style) {
        if self.styled {
            self.styles.push((self.lines.text().len(), style));
        }
    }

    /// Adds to the line.
    pub fn add(&mut self, part: Arguments) {
        self.lines.add(part);
    }

    /// The line so far, to add to it; it is escaped when it ends.
    pub fn text(&mut self) -> &mut String {
        self.lines.text()
    }

    /// Adds to the line and ends it.
    pub fn line(&mut self, part: Arguments) -> io::Result<()> {
        self.add(part);
        self.end()
    }

    /// Ends the line.
    pub fn end(&mut self) -> io::Result<()> {
        if self.styles.is_empty() {
            return self.lines.end();
        }
        let line = std::mem::take(self.lines.text());
        let mut shown = String::new();
        let mut styles = std::mem::take(&mut self.styles).into_iter().peekable();
        push(&mut shown, styles.peek().and_then(|(first, _)| line.get(..*first)).unwrap_or_default());
        while let Some((from, style)) = styles.next() {
            // What was added may have been cut off again.
            let to = styles.peek().map_or(line.len(), |(next, _)| (*next).min(line.len()));
            let Some(part) = line.get(from..to).filter(|part| !part.is_empty()) else { continue };
            // The codes are the program's own; what is between them is escaped.
            let (begin, end) = style.codes(true);
            shown.push_str(begin);
            push(&mut shown, part);
            shown.push_str(end);
        }
        shown.push('\n');
        self.lines.below().write_all(shown.as_bytes())
    }

    /// Writes a JSON object on a line of its own.
    pub fn json(&mut self, object: &impl Serialize) -> io::Result<()> {
        object.serialize(&mut Serializer::with_formatter(self.lines.below(), Compact))?;
        self.end()
    }

    /// Writes a JSON object as an element of an array, on a line of its own. A comma stands before all but the first.
    pub fn json_element(&mut self, is_first: bool, object: &impl Serialize) -> io::Result<()> {
        if !is_first {
            self.lines.below().write_all(b",")?;
        }
        self.json(object)
    }

    /// Writes a JSON object over several lines, for people as well.
    pub fn pretty_json(&mut self, object: &impl Serialize) -> io::Result<()> {
        object
            .serialize(&mut Serializer::with_formatter(self.lines.below(), Pretty(PrettyFormatter::new())))?;
        self.end()
    }

    /// Writes bytes as they are: those of a format that is not text. A command refuses to write them to a terminal.
    pub fn binary(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.lines.below().write_all(bytes)
    }

    /// Writes lines that another [`Out`] has made.
    pub fn made(&mut self, lines: &[u8]) -> io::Result<()> {
        self.lines.below().write_all(lines)
    }

    /// Flushes the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.lines.flush()
    }
}

/// Writes a part of a string in which `"`, `\` and ASCII control characters are already escaped.
fn fragment<W: ?Sized + Write>(writer: &mut W, part: &str) -> io::Result<()> {
    if iocrec_log::escape::is_safe(part) {
        return writer.write_all(part.as_bytes());
    }
    let mut escaped = String::new();
    push_json(&mut escaped, part);
    writer.write_all(escaped.as_bytes())
}

/// JSON on one line.
struct Compact;

impl Formatter for Compact {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, part: &str) -> io::Result<()> {
        fragment(writer, part)
    }
}

/// JSON on many lines.
struct Pretty<'a>(PrettyFormatter<'a>);

/// Methods that lay out JSON as serde_json does.
macro_rules! laid_out {
    ($($name:ident($($argument:ident: $kind:ty)?)),* $(,)?) => {
        $(fn $name<W: ?Sized + Write>(&mut self, writer: &mut W $(, $argument: $kind)?) -> io::Result<()> {
            self.0.$name(writer $(, $argument)?)
        })*
    };
}

impl Formatter for Pretty<'_> {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, part: &str) -> io::Result<()> {
        fragment(writer, part)
    }

    laid_out! {
        begin_array(),
        end_array(),
        begin_array_value(first: bool),
        end_array_value(),
        begin_object(),
        end_object(),
        begin_object_key(first: bool),
        end_object_key(),
        begin_object_value(),
        end_object_value(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, Value};

    #[test]
    fn json_is_what_it_was_and_harmless() {
        let odd = "a\"b\\c\n\u{1}\u{7f}\u{85}\u{202e}é\u{2028}\u{feff}\u{e0041}電";
        let value = json!({odd: [odd, 1.5, null, {"x": []}], "empty": {}});
        let mut bytes = Vec::new();
        let mut out = Out::new(&mut bytes);
        out.json(&value).unwrap();
        out.pretty_json(&value).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.lines().all(iocrec_log::escape::is_safe), "{text}");
        let (line, rest) = text.split_once('\n').unwrap();
        assert_eq!(serde_json::from_str::<Value>(line).unwrap(), value);
        assert_eq!(serde_json::from_str::<Value>(rest).unwrap(), value);
        assert_eq!(rest.lines().count(), serde_json::to_string_pretty(&value).unwrap().lines().count());
    }

    #[test]
    fn only_the_program_gives_parts_a_style() {
        let print = |styled| {
            let mut bytes = Vec::new();
            let mut out = Out::new(&mut bytes);
            out.use_styles(styled);
            add!(out, "a\x1b[31m ");
            out.style(Style::Bad);
            add!(out, "MAJOR\n");
            out.style(Style::Plain);
            line!(out, " b").unwrap();
            line!(out, "c").unwrap();
            String::from_utf8(bytes).unwrap()
        };
        assert_eq!(print(false), "a\\x1b[31m MAJOR\\n b\nc\n");
        assert_eq!(print(true), "a\\x1b[31m \x1b[31mMAJOR\\n\x1b[0m b\nc\n");
    }

    #[test]
    fn a_name_with_a_line_feed_makes_no_line() {
        let mut bytes = Vec::new();
        let mut out = Out::new(&mut bytes);
        add!(out, "{} ", "a\n");
        line!(out, "{}", "b\u{1b}[2J").unwrap();
        assert_eq!(bytes, b"a\\n b\\x1b[2J\n");
    }
}
