//! Text that was written for a terminal, without what only a terminal understands.
//!
//! A program colours its messages with escape sequences (ECMA-48). They stay in the log; for people they are taken out,
//! since they must neither reach their terminals nor hide what they read.

/// The text without escape sequences: `ESC [` up to a final byte, `ESC ]` up to BEL or `ESC \`, and `ESC` with one
/// character. A sequence that is cut off is taken out as far as it goes.
pub fn without_sequences(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\u{1b}' {
            out.push(letter);
            continue;
        }
        match letters.next() {
            Some('[') => while letters.next().is_some_and(|letter| !matches!(letter, '@'..='~')) {},
            Some(']') => {
                let mut before = ' ';
                for letter in letters.by_ref() {
                    if letter == '\u{7}' || (before, letter) == ('\u{1b}', '\\') {
                        break;
                    }
                    before = letter;
                }
            }
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sequences() {
        for (text, expected) in [
            ("plain", "plain"),
            ("\u{1b}[31;1mERROR\u{1b}[0m X", "ERROR X"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("\u{1b}]0;title\u{1b}\\text", "text"),
            ("\u{1b}=text", "text"),
            ("cut \u{1b}[3", "cut "),
            ("cut \u{1b}", "cut "),
            ("5 \u{e9} \u{1b}[0;0m\u{1b}[1m!", "5 \u{e9} !"),
        ] {
            assert_eq!(without_sequences(text), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_escape_is_left(text in "(\\PC|\u{1b}|\u{7}|\\[|\\]|m){0,40}") {
            let out = without_sequences(&text);
            let is_left = out.contains('\u{1b}');
            prop_assert!(!is_left);
            if !text.contains('\u{1b}') {
                prop_assert_eq!(out, text);
            }
        }
    }
}
