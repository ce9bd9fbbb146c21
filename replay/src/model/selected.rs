//! Which puts and chains a filter selects.

use super::chain::{Chain, Span, SpanKind};
use super::history::Origin;
use super::putlog::{each_put, ioc_of_span, root_put, PutLine};
use super::run::{field_name, record_name};
use crate::filter::{names, names_of_address, Filter};
use crate::pattern::Pattern;
use crate::shown_names;
use epics::pv::{link_target, Pv};
use iocrec_log::context::Context;

impl Filter {
    /// Whether the user and client of the put are selected.
    pub fn who(&self, put: &PutLine) -> bool {
        let user = |glob: &Pattern| put.user.as_deref().is_some_and(|user| glob.matches(user));
        let client = |glob: &Pattern| {
            let address = put.client.as_deref().map(names_of_address);
            let mut names = address.into_iter().flatten().chain(put.client_host.as_deref());
            let by_name = names.any(|name| !name.is_empty() && glob.matches(name));
            by_name || put.client_ioc.as_deref().is_some_and(|ioc| shown_names::selects(glob, ioc))
        };
        self.user.as_ref().is_none_or(user) && self.client.as_ref().is_none_or(client)
    }

    /// Whether the put that led to a value is of a user and client that are selected. Without one the value is nobody's.
    pub fn led_to(&self, origin: Option<&Origin>) -> bool {
        let by_put = |origin: &Origin| root_put(&origin.chain, None).is_some_and(|put| self.who(&put));
        !self.asks_who() || origin.is_some_and(by_put)
    }

    /// Whether the put is selected.
    pub fn put(&self, put: &PutLine) -> bool {
        let [host, ioc] = [&put.host, &put.ioc].map(|name| name.as_deref().unwrap_or_default());
        let pv = |glob: &Pattern| {
            let (record, field) = (put.record.as_deref(), put.field.as_deref());
            let of_member = |member: &PutLine| {
                names(glob, member.record.as_deref().unwrap_or_default(), member.field.as_deref())
            };
            put.pv.as_deref().is_some_and(|pv| glob.matches(pv))
                || names(glob, record.unwrap_or_default(), field)
                || put.members().iter().any(of_member)
        };
        self.time(put.time) && self.place(host, ioc) && self.name(pv) && self.who(put)
    }

    /// Whether the chain is selected, as a unit: by the time when it began, and by any record, PV, IOC or host in it or
    /// in a chain that its CA links led to, and by the user and client of any put from outside in it.
    pub fn chain(&self, chain: &Chain) -> bool {
        let began = chain.root().map_or(0, |root| chain.run.wall(root.start));
        let by_name = !self.pv.is_empty() || !self.exclude.is_empty();
        self.time(began)
            && self.host.as_ref().is_none_or(|host| any(chain, &|chain, _| host.matches(&chain.run.host())))
            && (self.ioc.is_none() && self.pod.is_none()
                || any(chain, &|chain, span| {
                    self.ioc(&chain.run.host(), &ioc_of_span(&chain.run.context(), span))
                }))
            && (!by_name
                || any(chain, &|chain, span| self.name(|pv| span_names(pv, &chain.run.context(), span))))
            && (!self.asks_who() || {
                let mut found = false;
                each_put(chain, false, &mut |put| found |= self.who(&put));
                found
            })
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
            // a group's name may look like that of a record's field
            let pva = put.packet.as_ref().and_then(|packet| packet.pva.as_ref());
            let is_record = put.record.is_some() || pva.is_none_or(|pva| pva.names_record);
            let by_name =
                named.is_some_and(|pv| glob.matches(pv) || is_record && glob.matches(Pv::new(pv).record));
            by_name
                || put.record.is_some_and(|record| {
                    names(glob, &record_name(context, record), field_name(context, put.field))
                })
        }
    }
}
