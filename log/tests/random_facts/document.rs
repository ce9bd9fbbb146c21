//! docs/format.md says what the code does: its tables are compared with the code.

use crate::facts;
use iocrec_log::event::Fact;
use iocrec_log::format::*;
use iocrec_log::stream;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

const PAGE: &str = include_str!("../../../docs/format.md");

/// The rows of the first table after a heading, without head and rule.
fn table(heading: &str) -> Vec<Vec<&'static str>> {
    let (_, section) = PAGE.split_once(heading).unwrap_or_else(|| panic!("no {heading}"));
    let rows =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    rows.skip(2).map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn headers_have_no_gaps() {
    for (heading, length) in [
        ("\n## Segment header\n", SEGMENT_HEADER),
        ("\n## Block\n", BLOCK_HEADER),
        ("\n## The stream\n", stream::HEADER),
        ("\nA frame is a header of", stream::FRAME_HEADER),
    ] {
        let mut offset = 0;
        for row in table(heading) {
            assert_eq!(row[0].parse(), Ok(offset), "{row:?}");
            offset += row[1].parse::<usize>().unwrap();
        }
        assert_eq!(offset, length, "{heading}");
    }
}

#[test]
fn numbers_are_those_of_the_code() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(" ");
    for text in [
        format!("`{}`", hex(&SEGMENT_MAGIC)),
        format!("`{}`", hex(&BLOCK_MAGIC)),
        format!("version of the format: {VERSION} "),
        format!("length of the header: {SEGMENT_HEADER} "),
        format!("how many kinds of facts the writer knew: {FACTS} "),
        format!("copies of the header: {HEADER_COPIES} "),
        format!("The first block begins at byte {FIRST_BLOCK}."),
        format!("A header of {BLOCK_HEADER} bytes"),
        format!("unpacked, at most {MAX_RAW} "),
        format!("in the file, at most {MAX_STORED} "),
        format!("number of events, at most {MAX_EVENTS} "),
        format!("window of at most 2^{WINDOW_LOG} bytes"),
        format!("`{}` (`\\x89IOCCAT\\n`)", hex(&stream::MAGIC)),
        format!("version of the stream: {} ", stream::VERSION),
        format!("a header of {} bytes, then frames", stream::HEADER),
        format!("A frame is a header of {} bytes", stream::FRAME_HEADER),
        format!("length of the name, at most {} ", stream::MAX_NAME),
        format!("length of the payload, at most {} ", stream::MAX_PAYLOAD),
    ] {
        assert!(PAGE.contains(&text), "docs/format.md doesn't say {text:?}");
    }
}

/// Numbers, names, classes and members of all facts.
#[test]
fn facts_are_listed_in_order() {
    let mut runner = TestRunner::deterministic();
    let rows = table("\n## Facts\n");
    let all = facts::all();
    assert_eq!((rows.len(), Fact::KINDS.len()), (all.len(), all.len()));
    for ((row, strategy), kind) in rows.iter().zip(all).zip(Fact::KINDS) {
        assert_eq!((row[0].parse(), row[1], row[2]), (Ok(kind.number), kind.variant, kind.name));
        assert_eq!(row[3], format!("{:?}", kind.class).to_lowercase());
        let fact = format!("{:?}", strategy.new_tree(&mut runner).unwrap().current());
        let (name, content) = fact.split_once('(').unwrap();
        assert_eq!(name, kind.variant);
        // Members print as `name: value`; newtypes of a number or a text have none.
        let Some((_, content)) = content.split_once(" { ") else { continue };
        let mut rest = content;
        for member in row[4].split(", ").filter(|member| !member.ends_with(")]")) {
            let member = member.split(' ').next().unwrap();
            let place =
                rest.find(&format!("{member}: ")).unwrap_or_else(|| panic!("{name}: no {member} in {rest}"));
            rest = &rest[place..];
        }
    }
}
