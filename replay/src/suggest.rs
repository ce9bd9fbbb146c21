//! Suggestions for misspelled names.

use crate::logs::Logs;
use crate::reading::scan::{Part, Scan};
use epics::Pv;
use iocrec_log::event::Fact;
use std::collections::BTreeSet;

/// Limit of suggested names.
const MAX_SUGGESTIONS: usize = 5;
/// Limit of names compared, and of the bytes of one; bounds for hostile logs. PV names have a few dozen bytes.
const MAX_NAMES: usize = 500_000;
const MAX_LENGTH: usize = 200;

/// Names of all records and PVs in the logs. Leaves out parts that can't be read.
pub fn names(logs: &Logs) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for part in Scan::of_definitions(logs.runs().iter().flatten()) {
        let Part::Block(block) = part else { continue };
        for event in block.events {
            let name = match event.fact {
                Fact::Record(record) => record.name,
                Fact::Channel(channel) => Pv::new(&channel.pv).record.to_owned(),
                Fact::Alias(alias) => alias.name,
                _ => continue,
            };
            if (1..=MAX_LENGTH).contains(&name.len()) && names.len() < MAX_NAMES {
                names.insert(name);
            }
        }
    }
    names
}

/// The names most like `name`: with few letters changed, or containing it.
pub fn nearest(names: &BTreeSet<String>, name: &str) -> Vec<String> {
    let wanted = name.to_lowercase();
    let limit = (name.len() / 3).max(2);
    let mut nearby: Vec<(usize, &String)> = names
        .iter()
        .filter_map(|candidate| {
            let lower = candidate.to_lowercase();
            let contained = !wanted.is_empty() && lower.contains(&wanted);
            let distance = match contained {
                true => 1,
                // the surplus letters alone exceed the limit
                false if lower.len().abs_diff(wanted.len()) > limit * 4 => return None,
                false => distance(&lower, &wanted),
            };
            (distance <= limit).then_some((distance, candidate))
        })
        .collect();
    nearby.sort();
    nearby.into_iter().take(MAX_SUGGESTIONS).map(|(_, name)| name.clone()).collect()
}

/// Number of letters to change, add or remove to make one of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = i;
        let mut left = i + 1;
        let mut next = vec![left];
        for (y, &above) in b.iter().zip(row.iter().skip(1)) {
            left = (corner + usize::from(x != *y)).min(above + 1).min(left + 1);
            corner = above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in [
            ("", "", 0),
            ("abc", "abc", 0),
            ("abc", "axc", 1),
            ("abc", "ab", 1),
            ("", "xy", 2),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn nearby_names() {
        let names: BTreeSet<String> =
            ["T:SP", "T:CALC", "MOTOR:VELOCITY", "MOTOR:POSITION"].map(String::from).into();
        assert_eq!(nearest(&names, "t:sp"), ["T:SP"]);
        assert_eq!(nearest(&names, "T:SPP"), ["T:SP"]);
        assert_eq!(nearest(&names, "velocity"), ["MOTOR:VELOCITY"]);
        assert!(nearest(&names, "something else").is_empty());
    }
}
