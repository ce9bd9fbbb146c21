//! Where the lines of puts stand, one below the other.
//!
//! Chains come for each record in the order in which the puts that they begin with were carried out; the message of one
//! may be older than that of another that was carried out before. Then its line stands behind the other's all the same, or
//! their old values would contradict each other.

use crate::model::putlog::PutLine;
use std::collections::HashMap;

/// Records that were put to whose last places are remembered, before those that no longer matter go.
const MOST: usize = 10_000;

/// The last place of each record that was put to, by IOC and record.
#[derive(Default)]
pub struct Turns(HashMap<(Option<String>, Option<String>), i64>);

impl Turns {
    /// The time by which the line of a put stands in the order, in a chain that began then.
    pub fn place(&mut self, began: i64, put: &PutLine) -> i64 {
        if put.time != began {
            return put.time;
        }
        if self.0.len() > MOST {
            self.0.retain(|_, last| *last > began);
        }
        let last = self.0.entry((put.ioc.clone(), put.record.clone())).or_insert(began);
        *last = (*last).max(began);
        *last
    }
}
