//! As CSVParser.java and CSVImporter.java of Phoebus' save-and-restore read a file: an exception anywhere stops the import.

use std::collections::HashMap;

const TAGS: [&str; 7] =
    ["Hierarchy:", "SaveSet name:", "Snapshot name:", "Description:", "Creator:", "Date:", "Tags:"];

/// A row of a file: its cells, by column.
pub type Row = HashMap<String, String>;

/// The head by tag, and the rows.
///
/// # Panics
/// Where the importer would throw an exception.
pub fn parse(file: &str) -> (HashMap<String, String>, Vec<Row>) {
    let (mut head, mut columns, mut rows) = (HashMap::new(), Vec::new(), Vec::new());
    let mut lines = file.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(comment) = line.strip_prefix('#') else {
            let cells = cells(line);
            if columns.is_empty() {
                columns = cells;
            } else {
                rows.push(columns.iter().cloned().zip(cells).collect());
            }
            continue;
        };
        let tag = comment.trim();
        assert!(TAGS.contains(&tag), "{line}");
        let mut text = String::new();
        if tag == "Description:" {
            // to the next tag or row, which there must be
            while let Some(more) =
                lines.peek().unwrap().strip_prefix('#').filter(|line| !TAGS.contains(&line.trim()))
            {
                assert!(more.len() < 10_000);
                text += more.trim();
                lines.next();
            }
        } else {
            text += lines.next().unwrap().strip_prefix('#').unwrap().trim();
        }
        head.insert(tag.to_owned(), text);
    }
    (head, rows)
}

fn cells(line: &str) -> Vec<String> {
    let (mut line, mut quoted) = (line.to_owned(), Vec::new());
    while let Some(start) = line.find('"') {
        let end = line[start + 1..].find('"').expect("an even number of quotation marks") + start + 1;
        quoted.push(line[start + 1..end].to_owned());
        line = line.replace(&line[start..=end].to_owned(), &format!("dataInQuotes_{}", quoted.len() - 1));
    }
    let mut cells: Vec<String> = line.split(',').map(str::to_owned).collect();
    for cell in cells.iter_mut().filter(|cell| cell.starts_with("dataInQuotes")) {
        *cell = quoted[cell.split('_').nth(1).unwrap().parse::<usize>().unwrap()].clone();
    }
    cells
}

/// What `createVType` makes of a row: its texts, and the labels of an enum.
///
/// # Panics
/// Where the importer would throw an exception, or take the PV for one that is not connected.
pub fn value(row: &Row) -> (Vec<String>, Vec<String>) {
    let (kind, value) = (row["VALUE_TYPE"].as_str(), row["VALUE"].as_str());
    assert!(!value.is_empty() && !value.eq_ignore_ascii_case("null") && value != "---", "disconnected");
    assert!(["NONE", "MINOR", "MAJOR", "INVALID", "UNDEFINED"].contains(&row["SEVERITY"].as_str()));
    let time = &row["TIMESTAMP"];
    if let Some((seconds, nanoseconds)) = time.split_once('.') {
        assert!(
            seconds.parse::<i64>().is_ok() && nanoseconds.len() == 9 && nanoseconds.parse::<i32>().is_ok()
        );
    } else {
        assert_eq!(time, "");
    }
    let mut parts = value.split('~');
    let first = parts.next().unwrap();
    let inner = |text: &str| text[1..text.len() - 1].to_owned();
    let first = if first.starts_with('[') { inner(first) } else { first.to_owned() };
    let labels: Vec<String> =
        parts.next().map_or(Vec::new(), |text| inner(text).split(';').map(str::to_owned).collect());
    assert!(parts.next().is_none() && (kind == "enum") != labels.is_empty());
    let number = |text: &str| match kind.trim_end_matches("_array") {
        "double" | "float" => {
            ["NaN", "Infinity", "-Infinity"].contains(&text)
                || !text.contains(['n', 'N', 'i']) && text.parse::<f64>().is_ok()
        }
        "long" => text.parse::<i64>().is_ok(),
        "int" => text.parse::<i32>().is_ok(),
        "short" => text.parse::<i16>().is_ok(),
        "byte" => text.parse::<i8>().is_ok(),
        "enum" | "string" => true,
        other => panic!("unknown type {other}"),
    };
    assert_ne!(kind, "string_array");
    let texts = match kind.ends_with("_array") {
        true => first.split(';').map(str::to_owned).collect(),
        false => vec![first],
    };
    assert!(texts.iter().all(|text| number(text)), "{kind}: {texts:?}");
    (texts, labels)
}
