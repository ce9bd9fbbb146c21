//! Whether a hit is what a request asked for: by time, name and value.

use super::{has_fields_of_records, Hit, Target, Waiting};
use crate::model::chain::{PutSpan, SpanKind};
use crate::model::numbered::Numbered;
use crate::model::open_chains::OpenChains;
use crate::model::{outcome, run, value};
use epics::Pv;
use iocrec_log::context::Context;
use iocrec_log::event::{ChannelId, CircuitId, IocId, PvaKind, ThreadId, Value};

/// The way in which a hit fits a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// It is the request's put.
    Own,
    /// It is one of the puts of a group.
    Member,
    /// It may be one: the log does not hold all that was sent.
    Perhaps,
}

/// Whether a hit is between a request and its answer.
pub(super) fn is_within(hit: u64, asked: u64, answered: Option<u64>, error: u64) -> bool {
    asked <= hit.saturating_add(error)
        && answered.is_none_or(|answered| hit <= answered.saturating_add(error))
}

/// Whether the thread may belong to the IOC.
pub(super) fn is_of(context: &Context, thread: ThreadId, ioc: Option<IocId>) -> bool {
    let own = run::ioc_of_thread(context, thread).map(|ioc| ioc.id);
    ioc.is_none() || own.is_none() || ioc == own
}

/// Whether the circuit is known to lead to the IOC of the thread.
pub(super) fn leads_to(context: &Context, circuit: CircuitId, thread: ThreadId) -> bool {
    let own = run::ioc_of_thread(context, thread).map(|ioc| ioc.id);
    own.is_some() && run::ioc_of_circuit(context, circuit).map(|ioc| ioc.id) == own
}

/// Whether the request may have asked for this value.
pub(super) fn has_value(request: &PutSpan, value: &Value) -> bool {
    if *value == Value::Unknown {
        return true;
    }
    let pva = request.packet.as_ref().and_then(|packet| packet.pva.as_ref());
    if let (Some("enum"), Value::Int(index)) = (pva.map(|pva| pva.sent.kind.as_str()), &request.requested) {
        // a client sends 32 bits, a record has 16 of them
        let kept = Value::Int((*index as u16).into());
        return value::same(&kept, value) != Some(false) || is_same(&request.requested, value) != Some(false);
    }
    match pva.map(|pva| &pva.possible).filter(|possible| !possible.is_empty()) {
        Some(possible) => possible.iter().any(|one| is_same(one, value) == Some(true)),
        None => is_same(&request.requested, value) != Some(false),
    }
}

/// Whether a field was given the value that was sent.
fn is_same(sent: &Value, given: &Value) -> Option<bool> {
    match (sent, given) {
        // a field has room for less
        (Value::Text(sent), Value::Text(given)) => Some(sent.starts_with(given)),
        // a link is written as an array of characters: of an empty text that is its end alone, one number
        (Value::Text(sent), Value::Int(0) | Value::UInt(0)) if sent.is_empty() => Some(true),
        // where the type is not known, no elements look like no letters
        (Value::Text(sent), Value::Array(given)) if sent.is_empty() && given.count == 0 => Some(true),
        _ => value::same(sent, given),
    }
}

/// Whether a value of an unknown type may hold this number or text. Short ones are in everything.
fn holds(bytes: &[u8], value: &Value) -> bool {
    let has = |one: &[u8]| {
        let swapped: Vec<u8> = one.iter().rev().copied().collect();
        bytes.windows(one.len()).any(|window| window == one || window == swapped)
    };
    match value {
        Value::Double(number) => has(&number.to_le_bytes()),
        Value::Float(number) => has(&number.to_le_bytes()) || has(&f64::from(*number).to_le_bytes()),
        Value::Int(number) => {
            has(&number.to_le_bytes()) || i32::try_from(*number).is_ok_and(|n| has(&n.to_le_bytes()))
        }
        Value::UInt(number) => {
            has(&number.to_le_bytes()) || u32::try_from(*number).is_ok_and(|n| has(&n.to_le_bytes()))
        }
        Value::Text(text) => !text.is_empty() && bytes.windows(text.len()).any(|window| window == text),
        Value::Array(_) | Value::Unknown => false,
    }
}

/// Whether a request of this kind sends a value that is written.
fn can_change(kind: PvaKind) -> bool {
    matches!(kind, PvaKind::Put | PvaKind::PutGet)
}

/// The way in which a hit fits a request, if it does.
pub(super) fn fits(
    chains: &OpenChains,
    context: &Context,
    targets: &Numbered<ChannelId, Vec<Target>>,
    hit: &Hit,
    message: &Waiting,
    error: u64,
) -> Option<Fit> {
    let request = chains.put(message.at)?;
    let packet = request.packet.as_ref()?;
    let pva = packet.pva.as_ref()?;
    let answered = packet.answer.as_ref().map(|answer| answer.time);
    // a put of no field: QSRV2 writes 0 all the same, QSRV1 nothing
    let is_empty = pva.kind != PvaKind::Process && pva.sent.fields.is_empty() && !pva.sent.is_cut;
    let error = if is_empty { 0 } else { error };
    let can_put = pva.kind != PvaKind::Rpc && !pva.is_broken_off;
    if !can_put || !is_within(hit.time, message.time, answered, error) {
        return None;
    }
    let ioc = run::ioc_of_circuit(context, message.circuit).map(|ioc| ioc.id);
    if !is_of(context, hit.thread, ioc) {
        return None;
    }
    let (record, field, requested) = match &chains.span(hit.at)?.kind {
        SpanKind::Put(put) => (put.record?, put.field, Some(&put.requested)),
        SpanKind::Process(process) => (process.record, None, None),
        SpanKind::Link(_) => return None,
    };
    // Who lacks the right to write gets no further; other errors may be what the record's own `dbPut` said.
    let refused = pva.status.is_some_and(|status| matches!(status, 2 | 3)) && outcome::is_refusal(&pva.text);
    let name = context.channel(message.channel).map_or("", |channel| channel.pv.as_str());
    if name.is_empty() {
        let known = targets.get(&message.channel).map(Vec::as_slice);
        let own = known == Some(&[(record, field)]) && !refused;
        return (own && requested.is_some_and(|given| has_value(request, given))).then_some(Fit::Own);
    }
    let pv = Pv::new(name);
    let is_named = context.record(record).is_some_and(|record| record.name == pv.record)
        || context.aliases(record).iter().any(|alias| **alias == *pv.record);
    let same_field = run::field_name(context, field).is_none_or(|field| field == pv.field);
    // a group that is called like a field of one of its members
    let may_be_member = !pva.names_record && (requested.is_none() || !same_field);
    let is_group = may_be_member && can_change(pva.kind) && !has_fields_of_records(&pva.sent);
    if is_named && !is_group {
        let fits = match requested {
            Some(given) => pva.kind != PvaKind::Process && same_field && has_value(request, given),
            None => pva.kind == PvaKind::Process,
        };
        return (fits && !refused).then_some(Fit::Own);
    }
    if pva.names_record || ioc.is_none() || pva.kind == PvaKind::Process {
        return None;
    }
    match requested {
        // its record is locked with others, so the value is read later
        Some(Value::Unknown) => Some(Fit::Member),
        Some(given) => {
            let is_sent = pva.sent.fields.iter().any(|(_, sent)| is_same(sent, given) == Some(true));
            if is_sent || holds(&pva.unread, given) {
                return Some(Fit::Member);
            }
            // it was sent behind what the log holds
            (pva.sent.is_cut && pva.sent.is_known).then_some(Fit::Perhaps)
        }
        // a member that only makes its record process
        None => Some(Fit::Member),
    }
}
