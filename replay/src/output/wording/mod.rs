//! Wording for puts and chains, shared by all text output.

pub mod age;
pub mod alarm;
pub mod cause;
pub mod origin;
pub mod put;

/// A count with its noun: `1 put`, `2 puts`.
pub fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}
