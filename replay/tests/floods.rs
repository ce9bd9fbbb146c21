//! Floods of puts to very many PVs: memory stays within its bound, whatever is asked; and all puts and alarms are told.

mod common;
#[path = "../../log/examples/load/mod.rs"]
#[allow(dead_code)] // the examples use the rest
mod load;

use common::measured;
use load::crowd::Crowd;
use std::fs;

const MIB: u64 = 1 << 20;
/// Rounds of a flood, each with a put to every PV.
const ROUNDS: u32 = 4;

/// A program that has run wild: 100,000 puts a second, half of which put their record into alarm.
const FLOOD: Crowd = Crowd { pvs: 10_000, circuits: 20, rounds: ROUNDS, pace: 10_000 };

#[test]
fn a_flood_of_puts() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    fs::create_dir(here.join("log")).unwrap();
    load::write_crowd(&here.join("log"), FLOOD).unwrap();
    let puts = (FLOOD.pvs * ROUNDS) as usize;
    // The memory in MiB that was measured, and a fifth more: allocators and CPUs differ.
    for (most, lines, words) in [
        (MOST_PUTS, Some(puts), vec!["puts", "log", "--format", "jsonl"]),
        (MOST_ALARMS, Some(puts), vec!["alarms", "--all", "log", "--format", "jsonl"]),
        (MOST_LAST, None, vec!["last", "log"]),
        (MOST_UNDO, None, vec!["undo", "--since", "2026-02-02T02:00:00Z", "log"]),
        (MOST_REPORT, None, vec!["report", "log"]),
    ] {
        let (code, said, peak) = measured(here, &words);
        println!("{words:?}: {} MiB; {said}", peak / MIB);
        assert!(code == 0 && peak < most * MIB, "{words:?}: {code}, {} MiB, {said}", peak / MIB);
        // what could not be kept is said
        assert!(said.contains("chains are shown as they were less than a second"), "{words:?}: {said}");
        let answer = fs::read_to_string(here.join("answer")).unwrap();
        let told = answer.lines().filter(|line| !line.contains("\"what\":\"still\"")).count();
        assert!(lines.is_none_or(|lines| lines == told), "{words:?}: {told}");
        let hurried = said.contains("without waiting for losses");
        assert_eq!(hurried, words[0] == "alarms", "{words:?}: {said}");
    }
}

const MOST_PUTS: u64 = 70;
const MOST_ALARMS: u64 = 85;
const MOST_LAST: u64 = 130;
const MOST_UNDO: u64 = 130;
const MOST_REPORT: u64 = 120;
