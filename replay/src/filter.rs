//! Selection of chains and puts.

use crate::model::chain::{Chain, Span, SpanKind};
use crate::model::putlog::{ioc_of_span, PutLine};
use crate::model::run::{field_name, record_name};
use epics::pv::{link_target, Pv};
use iocrec_log::context::Context;
use iocrec_log::glob::Glob;

/// A pattern for a whole name, with `*`, `?`, `[a-z]` and `[!a-z]`.
pub struct Pattern {
    text: String,
    glob: Glob,
}

impl Pattern {
    /// The pattern as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it matches the whole name.
    pub fn matches(&self, name: &str) -> bool {
        self.glob.matches(name)
    }
}

impl From<&str> for Pattern {
    fn from(text: &str) -> Self {
        Pattern { text: text.to_owned(), glob: Glob::new(text) }
    }
}

/// Selects chains and puts; by default all. Times are nanoseconds since 1970 UTC.
///
/// ```
/// # let log = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/travelled/x86_64-6.1/log");
/// use iocreplay::{Filter, Logs};
///
/// let all = Filter::default();
/// let none = Filter { ioc: Some("no such IOC".into()), ..Filter::default() };
/// let logs = Logs::open([log])?;
/// assert!(logs.puts(&all).count() > 0);
/// assert_eq!(logs.puts(&none).count(), 0);
/// # Ok::<(), iocreplay::OpenError>(())
/// ```
#[derive(Default)]
pub struct Filter {
    /// Earliest wall-clock time, inclusive.
    pub since: Option<i64>,
    /// Latest wall-clock time, exclusive.
    pub until: Option<i64>,
    /// PVs and records.
    pub pv: Option<Pattern>,
    /// IOCs.
    pub ioc: Option<Pattern>,
    /// Hosts that were recorded.
    pub host: Option<Pattern>,
}

impl Filter {
    /// Whether the time is selected.
    pub fn time(&self, wall: i64) -> bool {
        self.since.is_none_or(|since| wall >= since) && self.until.is_none_or(|until| wall < until)
    }

    /// Whether the put is selected.
    pub fn put(&self, put: &PutLine) -> bool {
        let is = |glob: &Option<Pattern>, name: &Option<String>| {
            glob.as_ref().is_none_or(|glob| glob.matches(name.as_deref().unwrap_or_default()))
        };
        let pv = |glob: &Pattern| {
            let (record, field) = (put.record.as_deref(), put.field.as_deref());
            put.pv.as_deref().is_some_and(|pv| glob.matches(pv))
                || names(glob, record.unwrap_or_default(), field)
        };
        self.time(put.time)
            && is(&self.ioc, &put.ioc)
            && is(&self.host, &put.host)
            && self.pv.as_ref().is_none_or(pv)
    }

    /// Whether the chain is selected, as a unit: by the time when it began, and by any record, PV, IOC or host in it or
    /// in a chain that its CA links led to.
    pub fn chain(&self, chain: &Chain) -> bool {
        let began = chain.root().map_or(0, |root| chain.run.wall(root.start));
        self.time(began)
            && self.host.as_ref().is_none_or(|host| any(chain, &|chain, _| host.matches(&chain.run.host())))
            && self.ioc.as_ref().is_none_or(|ioc| {
                any(chain, &|chain, span| ioc.matches(&ioc_of_span(&chain.run.context(), span)))
            })
            && self
                .pv
                .as_ref()
                .is_none_or(|pv| any(chain, &|chain, span| span_names(pv, &chain.run.context(), span)))
    }
}

/// Whether the chain, or one that its CA links led to, has a wanted span.
fn any(chain: &Chain, wanted: &impl Fn(&Chain, &Span) -> bool) -> bool {
    chain.spans.iter().any(|span| {
        wanted(chain, span)
            || match &span.kind {
                SpanKind::Link(link) => link.target.as_ref().is_some_and(|target| any(target, wanted)),
                _ => false,
            }
    })
}

/// Whether the pattern matches the record, or the record and field.
fn names(glob: &Pattern, record: &str, field: Option<&str>) -> bool {
    glob.matches(record) || field.is_some_and(|field| glob.matches(&format!("{record}.{field}")))
}

fn span_names(glob: &Pattern, context: &Context, span: &Span) -> bool {
    match &span.kind {
        SpanKind::Process(process) => names(glob, &record_name(context, process.record), None),
        SpanKind::Link(link) => {
            let pv = Pv::new(link_target(&link.pv));
            names(glob, pv.record, Some(pv.field))
        }
        SpanKind::Put(put) => {
            let channel = put.packet.as_ref().and_then(|packet| context.channel(packet.channel));
            let named = channel.map(|channel| channel.pv.as_str()).filter(|pv| !pv.is_empty());
            let by_name = named.is_some_and(|pv| glob.matches(pv) || glob.matches(Pv::new(pv).record));
            by_name
                || put.record.is_some_and(|record| {
                    names(glob, &record_name(context, record), field_name(context, put.field))
                })
        }
    }
}
