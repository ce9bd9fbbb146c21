//! The cause of a chain, in words.

use super::put::{change, who};
use crate::model::caller::{self, Role};
use crate::model::chain::{Chain, ProcessSpan, Span, SpanKind, Trigger};
use crate::model::putlog::{root_put, PutLine};
use crate::model::run::{field_name, record_name};
use crate::out::Out;
use crate::terminal::style::Style;
use crate::words::name;
use iocrec_log::context::Context;

/// Adds the cause of a chain that is not a CA link's to the line, what was refused in its style.
pub fn push_cause(out: &mut Out, chain: &Chain) {
    // By far the most are of a scan thread.
    if let Some(Span { kind: SpanKind::Process(process), thread: Some(thread), .. }) = chain.root() {
        let context = chain.run.context();
        let thread = context.thread(*thread).filter(|_| process.trigger == Trigger::Scan);
        if let Some(seconds) = thread.and_then(|thread| caller::scan_seconds(&thread.name)) {
            ["scan ", seconds, " second"].into_iter().for_each(|part| out.text().push_str(part));
            return;
        }
    }
    let Some(put) = root_put(chain, None) else { return out.text().push_str(&cause(chain, None)) };
    out.text().push_str(&put_made(chain, &put));
    if let Some(status) = unusual_status(chain, &put) {
        out.text().push_str(", ");
        out.style(Style::of_status(status));
        out.text().push_str(status);
        out.style(Style::Plain);
    }
}

/// The put at the root of the chain, and who made it.
fn put_made(chain: &Chain, put: &PutLine) -> String {
    let pv = put.pv.as_deref().unwrap_or("(unnamed channel)");
    if only_processes(chain) {
        return format!("processing of {pv} asked for by {}", who(put));
    }
    format!("{} {pv} {} by {}", put.via.name(), change(put), who(put))
}

/// The put's status, if it is worth a word.
fn unusual_status<'a>(chain: &Chain, put: &'a PutLine) -> Option<&'a str> {
    Some(&*put.status).filter(|status| *status != "ok" && !only_processes(chain))
}

fn only_processes(chain: &Chain) -> bool {
    matches!(chain.root(), Some(Span { kind: SpanKind::Put(put), .. }) if put.only_processes)
}

/// The cause of the chain, in words. `link`: the record whose CA link made it.
pub fn cause(chain: &Chain, link: Option<&str>) -> String {
    of_root(chain, root_put(chain, link).as_ref())
}

/// The same of a chain whose root is this put, or is none.
pub fn of_root(chain: &Chain, put: Option<&PutLine>) -> String {
    let Some(root) = chain.root() else { return String::new() };
    if let Some(put) = put {
        let made = put_made(chain, put);
        return match unusual_status(chain, put) {
            Some(status) => format!("{made}, {status}"),
            None => made,
        };
    }
    let context = chain.run.context();
    let thread = root.thread.and_then(|thread| context.thread(thread));
    let thread = thread.map_or("", |thread| thread.name.as_str());
    let shown = name(thread);
    match &root.kind {
        SpanKind::Process(process) => match process.trigger {
            Trigger::Scan => match caller::scan_period(thread).as_deref().or(list_name(&context, process)) {
                Some(period) => format!("scan {period}"),
                None => "scan".to_owned(),
            },
            Trigger::Event => {
                let name = list_name(&context, process).map(|name| format!(" {name}")).unwrap_or_default();
                format!("event{name}{}", asker(&context, process))
            }
            Trigger::IoInterrupt => format!("I/O Intr{}", asker(&context, process)),
            Trigger::Python => format!("I/O Intr by Python code{}", asker(&context, process)),
            Trigger::Callback => format!("callback in {shown}"),
            Trigger::Once | Trigger::CpLink if process.for_link => {
                match chain.run.cp_link(root.start, process.record) {
                    Some((field, source)) => {
                        let field = field_name(&context, Some(field)).unwrap_or("?");
                        format!("CP link {}.{field} from {source}", record_name(&context, process.record))
                    }
                    None => "CP link, source not known".to_owned(),
                }
            }
            Trigger::Once | Trigger::CpLink => {
                "scanOnce (CP link, put while active, or a request by code of the IOC)".to_owned()
            }
            Trigger::Pini => "PINI".to_owned(),
            Trigger::Shell => "dbtr in the IOC shell".to_owned(),
            // It began before the recording, or device support called the record's process function itself.
            Trigger::Completion if thread.is_empty() => "only the end was seen".to_owned(),
            Trigger::Completion => format!("only the end was seen, in thread {shown}"),
            _ => match root.thread.map(|thread| caller::role(&context, thread)) {
                Some(Role::PvaServer) => "PVA client".to_owned(),
                _ if thread.is_empty() => "unknown".to_owned(),
                _ => format!("unknown, in thread {shown}"),
            },
        },
        _ => format!("CA link, in thread {shown}"),
    }
}

/// The event or period that the record was processed for.
fn list_name<'a>(context: &'a Context, process: &ProcessSpan) -> Option<&'a str> {
    let name = context.scan_list(process.list?)?.name.as_str();
    (!name.is_empty()).then_some(name)
}

/// The origin of a request for an event or for I/O Intr, if known.
fn asker(context: &Context, process: &ProcessSpan) -> String {
    let Some(asked) = &process.asked else { return String::new() };
    let site =
        context.call_site(asked.site).filter(|site| !site.function.is_empty() || !site.module.is_empty());
    let by = site.map(|site| match (site.function.as_str(), site.module.as_str()) {
        ("", module) => format!(" by {module}"),
        (function, module) => format!(" by {function} ({module})"),
    });
    // the thread may have ended before its name was read
    let thread = context.thread(asked.thread).map(|thread| match thread.name.as_str() {
        "" => format!(" in thread {}", thread.tid),
        named => format!(" in thread {}", name(named)),
    });
    match (by, thread) {
        (None, None) => String::new(),
        (by, thread) => format!(", asked for{}{}", by.unwrap_or_default(), thread.unwrap_or_default()),
    }
}
