//! As dbrestore.c of the module autosave reads a `.sav` file: pieces of 199 bytes, `%80s%c%[^\n\r]`, escapes.

use std::collections::BTreeMap;

/// `fgets` with a buffer of 200 bytes.
struct Pieces<'a>(&'a [u8]);

impl<'a> Pieces<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let line = self.0.iter().position(|byte| *byte == b'\n').map_or(self.0.len(), |at| at + 1);
        let (piece, rest) = self.0.split_at(line.min(199));
        self.0 = rest;
        (!piece.is_empty()).then_some(piece)
    }
}

/// `epicsStrnRawFromEscaped`.
fn raw(text: &[u8]) -> Vec<u8> {
    let (mut raw, mut rest) = (Vec::new(), text);
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'\\' {
            raw.push(*first);
            continue;
        }
        let Some((letter, tail)) = rest.split_first() else { break };
        rest = tail;
        raw.push(match letter {
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'x' => {
                let (digits, tail) = rest.split_at(2);
                rest = tail;
                u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap()
            }
            b'0'..=b'9' => panic!("octal"),
            other => *other,
        });
    }
    raw
}

/// What is restored of a PV.
#[derive(Debug, PartialEq, Eq)]
pub struct Restored {
    /// Its text, or those of its elements.
    pub values: Vec<Vec<u8>>,
    /// Whether it is written as an array.
    pub is_array: bool,
}

/// What the file restores, by name.
///
/// # Panics
/// If the module would take the file for damaged, or read anything else than what is there.
pub fn restored(file: &str) -> BTreeMap<String, Restored> {
    let (mut pieces, mut found) = (Pieces(file.as_bytes()), BTreeMap::new());
    let head = pieces.next().unwrap();
    assert!(head.starts_with(b"# autosave R5.3") && head.ends_with(b"\n"));
    assert!(file.ends_with("\n<END>\n"), "R5.3 requires it");
    while let Some(piece) = pieces.next() {
        let line = piece.strip_suffix(b"\n").expect("a whole line");
        let name_end = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
        let name = std::str::from_utf8(&line[..name_end]).unwrap();
        let value = line.get(name_end + 1..).unwrap_or_default();
        if name == "<END>" {
            break;
        }
        if name == "#" {
            assert!(!value.starts_with(b"@array@"));
            continue;
        }
        let with_field = name.len() + if name.contains('.') { 0 } else { ".VAL".len() };
        assert!(with_field < 63 && name.as_bytes()[0].is_ascii_alphanumeric(), "{name}");
        let array = value.strip_prefix(b"@array@");
        let values = match array {
            Some(begin) => elements_of(begin, &mut pieces),
            None => vec![raw(value)],
        };
        assert!(!value.windows(2).any(|two| two == b"$(" || two == b"${"), "{name}: a macro");
        found.insert(name.to_owned(), Restored { values, is_array: array.is_some() });
    }
    assert!(pieces.next().is_none());
    found
}

/// `SR_array_restore`: elements in quotation marks, up to `}` outside of them.
fn elements_of(begin: &[u8], pieces: &mut Pieces) -> Vec<Vec<u8>> {
    let mut values = Vec::new();
    let mut piece = &begin[begin.iter().position(|byte| *byte == b'{').unwrap() + 1..];
    loop {
        let Some((first, rest)) = piece.split_first() else {
            piece = pieces.next().unwrap();
            continue;
        };
        piece = rest;
        match first {
            b'}' => return values,
            b'"' => {
                let mut element = Vec::new();
                loop {
                    let Some((letter, rest)) = piece.split_first() else {
                        piece = pieces.next().unwrap();
                        continue;
                    };
                    piece = rest;
                    let mut letter = *letter;
                    if letter == b'"' {
                        break;
                    }
                    if letter == b'\\' {
                        // both in one piece, or the escape is lost
                        let next = *piece.first().expect("an escape across pieces");
                        if matches!(next, b'"' | b'\\') {
                            letter = next;
                            piece = &piece[1..];
                        }
                    }
                    assert!((b' '..=b'~').contains(&letter), "it vanishes");
                    element.push(letter);
                }
                assert!(element.len() <= 39, "it is cut");
                values.push(raw(&element));
            }
            _ => {}
        }
    }
}
