//! Selection of chains and puts.

use crate::pattern::Pattern;
use crate::pods::Pods;
use crate::shown_names::{self, may_be_unnamed};
use epics::pv::Pv;

/// The name of the field that a channel is of: `REC.DESC` for `REC.DESC$`, which is its characters; `REC.VAL` for `REC.`,
/// `REC.{"dbnd":{}}` and `REC.VAL[0:9]`. `None` if the name says no more than a field's. The record may be a pattern.
pub(crate) fn field_of_channel(name: &str) -> Option<String> {
    let (record, rest) = name.split_once('.')?;
    let (field, _) = rest.split_once(['$', '{']).unwrap_or((rest, ""));
    // `[0-9]` is a pattern for a letter
    let is_part = |text: &str| {
        let part = text.strip_suffix(']').unwrap_or_default();
        part.contains(':') && part.bytes().all(|byte| byte.is_ascii_digit() || b":-".contains(&byte))
    };
    let field = match field.split_once('[') {
        Some((field, part)) if is_part(part) => field,
        _ => field,
    };
    match field {
        "" => Some(format!("{record}.VAL")),
        field => (field.len() < rest.len()).then(|| format!("{record}.{field}")),
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
#[derive(Clone, Default)]
pub struct Filter {
    /// Earliest wall-clock time, inclusive.
    pub since: Option<i64>,
    /// Latest wall-clock time, exclusive.
    pub until: Option<i64>,
    /// PVs and records: those that match one of these, or all if there are none.
    pub pv: Vec<Pattern>,
    /// PVs and records to leave out.
    pub exclude: Vec<Pattern>,
    /// IOCs.
    pub ioc: Option<Pattern>,
    /// IOCs by their pods and containers: [`Logs::pods`](crate::Logs::pods).
    pub pod: Option<Pods>,
    /// Hosts that were recorded.
    pub host: Option<Pattern>,
    /// Claimed names of users.
    pub user: Option<Pattern>,
    /// Clients: address, address and port, claimed host, or the recorded IOC that is the client.
    pub client: Option<Pattern>,
}

impl Filter {
    /// The same for all times before this one.
    pub fn until(&self, until: i64) -> Filter {
        Filter { since: None, until: Some(until), ..self.clone() }
    }

    /// The same and VAL of each record of which it may select another field; `None` if it selects that already.
    pub fn with_values(&self) -> Option<Filter> {
        let value = |pattern: &Pattern| {
            let text = pattern.text();
            match (text.find(['*', '?', '[']), text.rsplit_once('.')) {
                (Some(wild), _) => Some(format!("{}*.VAL", text.get(..wild)?)),
                (None, Some((record, _))) => Some(format!("{record}.VAL")),
                // a name may hold a dot, but then it is that of a record
                (None, None) => None,
            }
        };
        let values: Vec<Pattern> =
            self.pv.iter().filter_map(value).map(|text| Pattern::from(text.as_str())).collect();
        if values.is_empty() && self.exclude.is_empty() {
            return None;
        }
        let pv = self.pv.iter().cloned().chain(values).collect();
        Some(Filter { pv, exclude: Vec::new(), ..self.clone() })
    }

    /// The names of the only records whose PVs can be selected; `None` if a pattern may match any, or one that the log doesn't name.
    pub fn only_records(&self) -> Option<Vec<String>> {
        let literal = |pattern: &Pattern| !pattern.text().contains(['*', '?', '[']);
        let name = |pattern: &Pattern| Pv::new(pattern.text()).record.to_owned();
        let known = !self.pv.is_empty() && self.pv.iter().all(literal);
        let names: Vec<String> = known.then(|| self.pv.iter().map(name).collect())?;
        (!names.iter().any(|name| may_be_unnamed(name))).then_some(names)
    }

    /// Whether the time is selected.
    pub fn time(&self, wall: i64) -> bool {
        self.since.is_none_or(|since| wall >= since) && self.until.is_none_or(|until| wall < until)
    }

    /// Whether a name is selected. `names`: whether a pattern matches it.
    pub fn name(&self, names: impl Fn(&Pattern) -> bool) -> bool {
        (self.pv.is_empty() || self.pv.iter().any(&names)) && !self.exclude.iter().any(&names)
    }

    /// Whether a field of a record is selected, by the record's name or as `record.FIELD`.
    pub fn field(&self, record: &str, field: &str) -> bool {
        self.name(|glob| names(glob, record, Some(field)))
    }

    /// Whether the IOC and the host are selected. Empty names are unknown.
    pub fn place(&self, host: &str, ioc: &str) -> bool {
        self.host.as_ref().is_none_or(|glob| glob.matches(host)) && self.ioc(host, ioc)
    }

    /// Whether the IOC of a host is selected, as it is shown or by the name that it shares with others.
    pub(crate) fn ioc(&self, host: &str, ioc: &str) -> bool {
        self.ioc.as_ref().is_none_or(|glob| shown_names::selects(glob, ioc))
            && self.pod.as_ref().is_none_or(|pods| pods.have(host, ioc))
    }

    /// Whether it selects by anything but time.
    pub fn narrows(&self) -> bool {
        let names = [&self.ioc, &self.host, &self.user, &self.client].iter().any(|name| name.is_some());
        names || self.pod.is_some() || !self.pv.is_empty() || !self.exclude.is_empty()
    }

    /// By how many things it selects; the time is one.
    pub fn count(&self) -> usize {
        let names =
            [&self.ioc, &self.host, &self.user, &self.client].iter().filter(|name| name.is_some()).count();
        let others = [self.pod.is_some(), !self.pv.is_empty(), !self.exclude.is_empty()];
        let has_time = self.since.is_some() || self.until.is_some();
        names + others.iter().filter(|is_there| **is_there).count() + usize::from(has_time)
    }

    /// Whether it selects by user or client.
    pub fn asks_who(&self) -> bool {
        self.user.is_some() || self.client.is_some()
    }

    /// The same for all PVs, users and clients.
    pub fn of_place_and_time(&self) -> Filter {
        Filter { pv: Vec::new(), exclude: Vec::new(), user: None, client: None, ..self.clone() }
    }

    /// Whether it selects by time and place alone.
    pub fn is_of_place_and_time(&self) -> bool {
        self.pv.is_empty() && self.exclude.is_empty() && !self.asks_who()
    }
}

/// What a client's `ADDRESS:PORT` is asked for by: all of it, the address, and one of IPv6 without its brackets. Empty if
/// there is none.
pub(crate) fn names_of_address(address: &str) -> [&str; 3] {
    let (ip, _) = address.rsplit_once(':').unwrap_or_default();
    [address, ip, ip.trim_matches(['[', ']'])]
}

/// Whether the pattern matches the record, or the record and field.
pub(crate) fn names(glob: &Pattern, record: &str, field: Option<&str>) -> bool {
    glob.matches(record) || field.is_some_and(|field| glob.matches(&format!("{record}.{field}")))
}
