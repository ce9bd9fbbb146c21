//! The origin of a value: its cause, the put at its root, and the record at which the chain began.

use super::cause;
use crate::model::chain::SpanKind;
use crate::model::history::Origin;
use crate::model::putlog::{root_put, PutLine};
use crate::model::run::record_name;

/// The cause at the root, in words.
pub fn cause(origin: &Origin) -> String {
    cause::cause(&origin.chain, None)
}

/// The put at the root, if it was one.
pub fn put(origin: &Origin) -> Option<PutLine> {
    root_put(&origin.chain, None)
}

/// The record at the root, if known.
pub fn root(origin: &Origin) -> Option<String> {
    let record = match &origin.chain.root()?.kind {
        SpanKind::Put(put) => put.record?,
        SpanKind::Process(process) => process.record,
        SpanKind::Link(link) => link.record?,
    };
    Some(record_name(&origin.chain.run.context(), record))
}
