//! What PVAccess adds to a put: attributes of its span, and of its log record.
//!
//! Fields, options and results are JSON texts, as `detail` in exported tables: their names are the server's and the client's, and
//! a backend that makes a column of each attribute must not get new ones from every structure.

use super::shape::{text, AnyValue, Attribute};
use crate::model::putlog::PutLine;
use crate::output::puts::jsonl::{fields, options};

/// Adds what was asked for, with which fields and options, and what the server answered. Nothing for other puts.
pub(crate) fn describe_pva(attributes: &mut Vec<Attribute>, put: &PutLine) {
    let Some(pva) = put.pva.as_deref() else { return };
    text(attributes, "epics.pva.request", pva.request);
    if !pva.fields.is_empty() {
        text(attributes, "epics.pva.fields", &fields(Some(&pva.fields)).to_string());
    }
    if pva.is_cut {
        attributes.push(Attribute { key: "epics.pva.fields_cut", value: AnyValue::Bool(true) });
    }
    if !pva.options.is_empty() {
        text(attributes, "epics.pva.options", &options(pva).to_string());
    }
    text(attributes, "epics.pva.message", pva.message.as_deref().unwrap_or_default());
    if !pva.result.is_empty() {
        text(attributes, "epics.pva.result", &fields(Some(&pva.result)).to_string());
    }
}

/// The name of its span.
pub(super) fn span_name(request: &str, pv: &str) -> String {
    match request {
        "process" => format!("request process {pv}"),
        "rpc" => format!("rpc {pv}"),
        _ => format!("put {pv}"),
    }
}
