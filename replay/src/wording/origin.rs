//! The origin of a value: its cause, the put at its root, and the record at which the chain began.

use super::cause;
use crate::model::caller::{self, Role};
use crate::model::chain::{SpanKind, Trigger};
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

/// The record at which it began, unless it may have begun with another one: what made the first record process that was seen
/// is not known.
pub fn began(origin: &Origin) -> Option<String> {
    let span = origin.chain.root()?;
    let SpanKind::Process(process) = &span.kind else { return root(origin) };
    let context = origin.chain.run.context();
    let is_known = match process.trigger {
        Trigger::Completion => false,
        Trigger::Unknown => {
            span.thread.is_some_and(|thread| caller::role(&context, thread) == Role::PvaServer)
        }
        _ => true,
    };
    drop(context);
    root(origin).filter(|_| is_known)
}

/// The first record of it that was seen, if known.
pub fn root(origin: &Origin) -> Option<String> {
    let record = match &origin.chain.root()?.kind {
        SpanKind::Put(put) => put.record?,
        SpanKind::Process(process) => process.record,
        SpanKind::Link(link) => link.record?,
    };
    Some(record_name(&origin.chain.run.context(), record))
}
