//! Copies of logs from which names and values are gone: for a report of a bug, for a supplier, for a paper.
//!
//! Promises, apart from what the user wants to keep ([`Choice`]):
//!
//! - Nothing that names a user, host, address, program, file, PV, record or IOC, no text that a person wrote, and no value
//!   that is not one of a few choices is in the copy, in any form. What is replaced is listed, member by member, in
//!   `facts.rs`; a fact that this version does not know is left out.
//! - The same original gets the same replacement in all logs of one run, in another run another (`Secret`).
//! - The copy has the same segments with the same blocks and events at the same times. What is missing in the original is
//!   missing in the copy.
//! - A block at a time is in memory, and of what was before only which fields are links and what types of PVAccess there
//!   are.
//!
//! What a copy still tells is written in docs/redact.md.

mod copy;
mod facts;
mod map;
mod names;
mod pva;
mod secret;
mod values;
mod words;

pub use copy::{copy, Copied, CopyError};
pub use map::Map;

use secret::Secret;
use std::collections::HashSet;

/// What becomes of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Values {
    /// They stay.
    Keep,
    /// Numbers are multiplied by a secret factor.
    Scale,
    /// Each is replaced by another, the same by the same.
    #[default]
    Replace,
    /// They are unknown.
    Drop,
}

impl Values {
    /// All, with their names.
    pub const ALL: [(&'static str, Values); 4] = [
        ("replace", Values::Replace),
        ("scale", Values::Scale),
        ("drop", Values::Drop),
        ("keep", Values::Keep),
    ];
}

/// What the user wants to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Names of PVs, records and IOCs stay.
    pub keep_names: bool,
    /// What becomes of values.
    pub values: Values,
}

/// Replaces names and values.
#[derive(Default)]
pub struct Redaction {
    choice: Choice,
    secret: Secret,
    /// What values are multiplied by, if they are.
    factor: f64,
    links: Links,
    types: pva::Types,
    map: Option<Map>,
}

impl Redaction {
    /// Begins with a new secret. With a map it notes what it replaces.
    pub fn new(choice: Choice, map: Option<Map>) -> Redaction {
        let secret = Secret::default();
        // From a quarter to one: above one, numbers would not fit their types any more. Neither end is likely: a quarter
        // more or less is seen in any plot of two logs.
        let part = (secret.number("factor", &[], 0) >> 11) as f64 / (1u64 << 53) as f64;
        let factor = 2f64.powf(-2.0 * part);
        Redaction { choice, secret, factor, map, ..Redaction::default() }
    }

    /// Forgets what belongs to one run of the recorder.
    fn begin_run(&mut self) {
        self.links = Links::default();
        self.types = pva::Types::default();
    }

    /// The number of a run.
    fn run(&self, run: u128) -> u128 {
        let half = |round| u128::from(self.secret.number("run", &run.to_le_bytes(), round));
        half(0) << 64 | half(1)
    }

    /// A boot id; zero, which stands for none, stays.
    fn boot_id(&self, id: [u8; 16]) -> [u8; 16] {
        if id == [0; 16] {
            return id;
        }
        let half = |round| u128::from(self.secret.number("boot", &id, round));
        (half(0) << 64 | half(1)).to_be_bytes()
    }

    /// The same as the kernel prints it.
    fn boot_id_text(&self, text: &str) -> String {
        let digits = text.trim().replace('-', "");
        if digits.is_empty() {
            return digits;
        }
        let number = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32);
        let id = match number {
            Some(number) => self.boot_id(number.to_be_bytes()),
            None => {
                let half = |round| u128::from(self.secret.number("boot", text.as_bytes(), round));
                (half(0) << 64 | half(1)).to_be_bytes()
            }
        };
        let hex = format!("{:032x}", u128::from_be_bytes(id));
        let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
        [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
    }

    fn note(&mut self, of: &'static str, original: &str, replacement: &str) {
        if let Some(map) = &mut self.map {
            map.note(of, original, replacement);
        }
    }

    fn note_of(&mut self, of: &'static str, both: impl FnOnce() -> (String, String)) {
        if self.map.is_some() {
            let (original, replacement) = both();
            self.note(of, &original, &replacement);
        }
    }
}

/// Most fields and channels that are remembered as links; those beyond are taken for values, whose texts are replaced, too.
const MOST_LINKS: usize = 1 << 20;

/// The fields and channels of a run that are links.
#[derive(Default)]
struct Links {
    fields: HashSet<u32>,
    channels: HashSet<u32>,
    /// The circuits of these channels.
    circuits: HashSet<u32>,
}

impl Links {
    fn field(&mut self, id: u32, is_link: bool) {
        set(&mut self.fields, id, is_link);
    }

    fn channel(&mut self, id: u32, circuit: u32, is_link: bool) {
        set(&mut self.channels, id, is_link);
        if is_link {
            set(&mut self.circuits, circuit, true);
        }
    }

    fn is_on_circuit(&self, id: u32) -> bool {
        self.circuits.contains(&id)
    }

    fn is_field(&self, id: u32) -> bool {
        self.fields.contains(&id)
    }

    fn is_channel(&self, id: u32) -> bool {
        self.channels.contains(&id)
    }
}

fn set(all: &mut HashSet<u32>, id: u32, is_in: bool) {
    if !is_in {
        all.remove(&id);
    } else if all.len() < MOST_LINKS {
        all.insert(id);
    }
}
