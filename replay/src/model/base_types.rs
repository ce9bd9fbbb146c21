//! The types of records that are EPICS Base's own, and what their process functions have in common.

use super::chain::{Outcome, ProcessSpan};
use iocrec_log::context::Context;

/// How often dbProcess finds a record active before it gives it the alarm SCAN at the next time, unless it is INVALID already
/// (MAX_LOCK in dbAccess.c of 3.14.12 to 7.0.10).
pub const MAX_LOCK: u8 = 10;

/// The types in base.dbd of EPICS Base 3.14.12 to 7.0. Their process functions call `recGblFwdLink` whenever they are done,
/// but for that of compress while it collects.
const OF_BASE: [&str; 34] = [
    "aSub",
    "aai",
    "aao",
    "ai",
    "ao",
    "bi",
    "bo",
    "calc",
    "calcout",
    "compress",
    "dfanout",
    "event",
    "fanout",
    "histogram",
    "int64in",
    "int64out",
    "longin",
    "longout",
    "lsi",
    "lso",
    "mbbi",
    "mbbiDirect",
    "mbbo",
    "mbboDirect",
    "permissive",
    "printf",
    "sel",
    "seq",
    "state",
    "stringin",
    "stringout",
    "sub",
    "subArray",
    "waveform",
];

/// Whether records of this type forward all that they do: one that was processed, is not active and did not call
/// `recGblFwdLink` did nothing. Other types return early though they work: a motor record while its motor moves.
pub fn always_forwards(rtype: &str) -> bool {
    OF_BASE.contains(&rtype)
}

/// Whether `dbProcess` did its work on the record, as far as that is known: not on one that was active or disabled. Of
/// Base's types, compress alone passes nothing on and has processed. A record that goes on with the processing that it had
/// begun is none that processes once more.
pub fn has_processed(context: &Context, process: &ProcessSpan) -> bool {
    match process.outcome {
        Outcome::Active | Outcome::Disabled | Outcome::Entered { again: true } => false,
        Outcome::Skipped => collects(context, process),
        _ => true,
    }
}

/// Whether the record processed, and passes nothing on while it collects, as compress does; it keeps its alarm then
/// (compressRecord.c). Until one was seen to complete, it is not known to do that always.
pub fn collects(context: &Context, process: &ProcessSpan) -> bool {
    matches!(process.outcome, Outcome::Skipped | Outcome::Open)
        && context.record(process.record).is_some_and(|record| record.rtype == "compress")
}

/// Whether records of this type, and sseq of synApps, write by links that are named LNKn, and have no OUT.
pub fn is_sequence(rtype: &str) -> bool {
    matches!(rtype, "seq" | "sseq")
}
