//! Which chains and puts are asked for.

use crate::model::putlog::{ioc_of_span, PutLine};
use crate::model::run::{field_name, record_name};
use crate::model::span::{Span, Tree, What};
use epics::pv::{link_target, Pv};
use iocrec_log::context::Context;
use iocrec_log::glob::Glob;

/// What `--since`, `--until`, `--pv`, `--ioc` and `--host` ask for.
#[derive(Default)]
pub struct Filter {
    /// Wall-clock time of the first that is wanted.
    pub since: Option<i64>,
    /// Wall-clock time after the last that is wanted.
    pub until: Option<i64>,
    /// Pattern of PVs and records.
    pub pv: Option<Glob>,
    /// Pattern of IOC names.
    pub ioc: Option<Glob>,
    /// Pattern of hosts' names.
    pub host: Option<Glob>,
}

impl Filter {
    /// Is the time asked for?
    pub fn time(&self, wall: i64) -> bool {
        self.since.is_none_or(|since| wall >= since) && self.until.is_none_or(|until| wall < until)
    }

    /// Is the put asked for?
    pub fn put(&self, put: &PutLine) -> bool {
        let is = |glob: &Option<Glob>, name: &Option<String>| {
            glob.as_ref().is_none_or(|glob| glob.matches(name.as_deref().unwrap_or_default()))
        };
        let pv = |glob: &Glob| {
            let (record, field) = (put.record.as_deref(), put.field.as_deref());
            put.pv.as_deref().is_some_and(|pv| glob.matches(pv))
                || names(glob, record.unwrap_or_default(), field)
        };
        self.time(put.time)
            && is(&self.ioc, &put.ioc)
            && is(&self.host, &put.host)
            && self.pv.as_ref().is_none_or(pv)
    }

    /// Is the chain asked for? It is whole or not at all: by when it began, and by any record, PV, IOC
    /// or host in it or in a chain that its CA links led to.
    pub fn tree(&self, tree: &Tree) -> bool {
        let began = tree.root().map_or(0, |root| tree.run.wall(root.start));
        self.time(began)
            && self.host.as_ref().is_none_or(|host| any(tree, &|tree, _| host.matches(&tree.run.host())))
            && self.ioc.as_ref().is_none_or(|ioc| {
                any(tree, &|tree, span| ioc.matches(&ioc_of_span(&tree.run.context(), span)))
            })
            && self
                .pv
                .as_ref()
                .is_none_or(|pv| any(tree, &|tree, span| span_names(pv, &tree.run.context(), span)))
    }
}

/// Is there such a span in the chain, or in one that its CA links led to?
fn any(tree: &Tree, wanted: &impl Fn(&Tree, &Span) -> bool) -> bool {
    tree.spans.iter().any(|span| {
        wanted(tree, span)
            || match &span.what {
                What::Link(link) => link.target.as_ref().is_some_and(|target| any(target, wanted)),
                _ => false,
            }
    })
}

/// Does the pattern match the record, or the record and field?
fn names(glob: &Glob, record: &str, field: Option<&str>) -> bool {
    glob.matches(record) || field.is_some_and(|field| glob.matches(&format!("{record}.{field}")))
}

fn span_names(glob: &Glob, context: &Context, span: &Span) -> bool {
    match &span.what {
        What::Process(process) => names(glob, &record_name(context, process.record), None),
        What::Link(link) => {
            let pv = Pv::new(link_target(&link.pv));
            names(glob, pv.record, Some(pv.field))
        }
        What::Put(put) => {
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
