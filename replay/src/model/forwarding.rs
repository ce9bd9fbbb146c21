//! Record types that were seen to call `recGblFwdLink`, by IOC.
//!
//! All of Base's types do ([`base_types`]), but the probe is at the function's beginning. A compiler
//! that optimizes the whole program (LTO) makes the function a part of some callers, which then pass no probe: clang 14 at -O3
//! did so for sel, gcc 12 for most types of a program that exports nothing. So only a type that was seen to complete in this
//! IOC proves anything by not completing.

use std::collections::HashSet;

use super::base_types;
use super::numbered::Dense;
use iocrec_log::context::Context;
use iocrec_log::event::{IocId, RecordId};

/// Types that are remembered; a bound for hostile logs. An IOC has some tens.
const MAX_TYPES: usize = 10_000;

/// The types that were seen to complete.
#[derive(Default)]
pub struct Forwarding {
    /// Records that have completed, so that a type is looked up once for each.
    records: Dense<()>,
    types: HashSet<(IocId, Box<str>)>,
}

impl Forwarding {
    /// A record has called `recGblFwdLink`.
    #[inline]
    pub fn has_completed(&mut self, context: &Context, record: RecordId) {
        if !self.records.contains(record) {
            self.learn(context, record);
        }
    }

    fn learn(&mut self, context: &Context, record: RecordId) {
        // else its type is not known yet
        let Some(found) = context.record(record).filter(|found| !found.rtype.is_empty()) else { return };
        if self.types.len() < MAX_TYPES {
            self.types.insert((found.ioc, found.rtype.into()));
        }
        self.records.insert(record, ());
    }

    /// Whether records of this type forward all that they do, in this IOC.
    pub fn always_forwards(&self, context: &Context, record: RecordId) -> bool {
        let Some(found) = context.record(record) else { return false };
        base_types::always_forwards(found.rtype)
            && (self.records.contains(record) || self.types.contains(&(found.ioc, Box::from(found.rtype))))
    }
}
