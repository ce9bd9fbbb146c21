//! As pyburt reads a snapshot of BURT: `%` ends a line, quotation marks have no escape.

/// A line of a snapshot.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// RO, RON or WO.
    pub modifier: Option<String>,
    /// The PV.
    pub name: String,
    /// The number of elements that it says.
    pub count: u32,
    /// The elements; `\0` for none.
    pub values: Vec<String>,
}

/// The words of `([^\s"']+)|"([^"]*)"|'([^']*)'`.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut rest) = (Vec::new(), line);
    while let Some(first) = rest.chars().next() {
        if first == '"' || first == '\'' {
            let (word, after) = rest[1..].split_once(first).expect("a closing mark");
            words.push(word.to_owned());
            rest = after;
        } else if first.is_whitespace() {
            rest = &rest[first.len_utf8()..];
        } else {
            let end = rest.find(|c: char| c.is_whitespace() || c == '"' || c == '\'').unwrap_or(rest.len());
            words.push(rest[..end].to_owned());
            rest = &rest[end..];
        }
    }
    words
}

/// The lines of a snapshot.
///
/// # Panics
/// If it is none.
pub fn parse(file: &str) -> Vec<Line> {
    let parts: Vec<&str> = file.split("--- End BURT header").collect();
    let [head, body] = parts[..] else { panic!("{} headers", parts.len() - 1) };
    let head: Vec<&str> = head.trim().lines().collect();
    assert_eq!(head[0], "--- Start BURT header");
    let known =
        ["Time", "Login ID", "Eff  UID", "Group ID", "Keywords", "Comments", "Type", "Directory", "Req File"];
    for (line, key) in head[1..].iter().zip(known) {
        let found = line.split_once(':').or_else(|| line.split_once(' ')).unwrap().0;
        assert_eq!(found, key);
    }
    assert_eq!(head.len(), known.len() + 1);
    let lines =
        body.lines().map(|line| line.split('%').next().unwrap().trim()).filter(|line| !line.is_empty());
    let entry = |line: &str| {
        let mut words = words(line).into_iter();
        let first = words.next().unwrap();
        let modifier = ["RO", "RON", "WO"].contains(&first.as_str()).then(|| first.clone());
        let name = if modifier.is_some() { words.next().unwrap() } else { first };
        let count = words.next().unwrap().parse().unwrap();
        Line { modifier, name, count, values: words.collect() }
    };
    lines.map(entry).collect()
}
