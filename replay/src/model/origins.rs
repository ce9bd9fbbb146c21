//! Where changes came from: for each record, the causes of its last changes, so that a chain which began by a CP link
//! leads on to the chain that changed the link's source.
//!
//! A CP link makes its record process when it is told of a change of its source. Nothing in the log joins the two; the
//! source's name does, if the log holds it ([`links`](super::links)), together with the time: the last change before,
//! and not more than [`prompt`] before. Anything else is said to be unknown, not guessed.

use super::chain::{Chain, Outcome, ProcessSpan, PutSpan, SpanKind, Trigger};
use super::numbered::{Keyed, OfRecords};
use super::outcome;
use super::putlog::{root_put, PutLine};
use super::run::{field_name, record_name, Run};
use super::who::Clients;
use crate::room;
use crate::time::{duration, SECOND};
use epics::Pv;
use iocrec_log::context::Context;
use iocrec_log::event::{RecordId, Value};
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::{Rc, Weak};

/// Longest time from a change to the processing for a CP link that it sets off. It takes a millisecond at most; a busy
/// IOC or network may take longer.
const PROMPT: i64 = SECOND as i64;
/// Disorder among times of one host: the end of a record's processing is noted after its monitors are posted.
const SKEW: i64 = SECOND as i64 / 1000;
/// Changes remembered of a record: a record may complete again before a chain that its change set off is looked at.
const MAX_CHANGES: usize = 4;
/// Records remembered, and records of the same name; bounds for hostile logs.
const MAX_RECORDS: usize = 500_000;
const MAX_NAMESAKES: usize = 16;
/// Causes of scans and the like that are remembered, which are few in any IOC.
const MAX_COMMON: usize = 10_000;
/// CP links followed one after the other: records can feed themselves in circles.
pub const MAX_HOPS: usize = 8;

/// Longest time from a change to the processing for a CP link that begins so: if the link found its record active, that
/// had to end first.
pub fn prompt(start: u64, process: &ProcessSpan) -> i64 {
    let found_active = process.asked.as_ref().filter(|_| process.for_link);
    let active = found_active.map_or(0, |asked| start.saturating_sub(asked.time));
    PROMPT.saturating_add(i64::try_from(active).unwrap_or(i64::MAX))
}

/// The cause of a chain in words, with the put that is its root, if it is one.
pub type Wording = fn(&Chain, Option<&PutLine>) -> String;

/// What began a chain.
#[derive(Debug, Default)]
pub struct Cause {
    /// In words.
    pub text: Rc<str>,
    /// The put at the root, if it is one; only who made it, if [`Origins::naming_clients`] asked for no more.
    pub put: Option<Rc<PutLine>>,
    /// The records whose CP links were followed to get there, from the root on.
    pub through: Vec<Rc<str>>,
    /// Whether the root is known: `text` names what began it all.
    pub known: bool,
}

/// What makes the causes of two chains the same, if they are no puts and not for a link.
#[derive(PartialEq, Eq, Hash)]
struct Common {
    run: usize,
    trigger: &'static str,
    thread: Option<u32>,
    list: Option<u32>,
    asked: Option<(u32, u32)>,
}

/// A change of a record.
struct Change {
    /// Wall-clock times of the begin and end of its processing.
    begin: i64,
    end: i64,
    cause: Rc<Cause>,
}

/// A record of a run.
struct Seen {
    name: Rc<str>,
    /// `None` if it is not followed: few records are.
    followed: Option<Box<Followed>>,
}

/// What is remembered of a record that is followed.
#[derive(Default)]
struct Followed {
    /// Its value and alarm, if known.
    state: Option<Fingerprint>,
    changes: VecDeque<Change>,
}

/// A record's number here.
pub type Number = usize;

/// The last changes of all records.
pub struct Origins {
    wording: Wording,
    /// The runs whose addresses are used as keys; they keep the addresses from being used again.
    runs: HashMap<usize, Weak<Run>>,
    numbers: OfRecords<u32>,
    names: Keyed<Rc<str>, u32>,
    /// The further records of a name, where IOCs share it; few do.
    namesakes: Keyed<Rc<str>, Vec<Number>>,
    records: Vec<Seen>,
    common: Keyed<Common, Rc<Cause>>,
    /// The records that [`Origins::take`] looks at, and those of a run as they were looked up.
    sources: HashSet<String>,
    /// Who made puts, if that is all that is kept of them.
    clients: Option<Clients>,
    followed: Keyed<(usize, RecordId), Option<Number>>,
}

/// Whether the put writes to the record's value.
pub fn is_value(context: &Context, put: &PutSpan) -> bool {
    put.wrote
        && !put.only_processes
        && field_name(context, put.field) == Some("VAL")
        && !outcome::acknowledges(context, put)
}

impl Origins {
    /// An empty one, which words causes so.
    pub fn new(wording: Wording) -> Self {
        Origins {
            wording,
            runs: HashMap::new(),
            numbers: OfRecords::default(),
            names: Keyed::default(),
            namesakes: Keyed::default(),
            records: Vec::new(),
            common: Keyed::default(),
            sources: HashSet::new(),
            clients: None,
            followed: Keyed::default(),
        }
    }

    /// Keeps of puts only who made them, each client once: a flood has a cause for each put.
    pub fn naming_clients(self) -> Self {
        Origins { clients: Some(Clients::default()), ..self }
    }

    /// Whether changes of this record can be asked for: those of others need not be noted.
    pub fn is_followed(&self, number: Number) -> bool {
        self.records.get(number).is_some_and(|record| record.followed.is_some())
    }

    /// The same for [`Origins::take`], which looks at records of these names: those that CP links follow.
    pub fn of_sources(wording: Wording, sources: HashSet<String>) -> Self {
        Origins { sources, ..Origins::new(wording) }
    }

    /// Takes the changes of the sources in a chain, and in those that its CA links led to, in the order in which chains
    /// began.
    pub fn take(&mut self, chain: &Chain) {
        if !self.sources.is_empty() {
            self.walk(chain, chain, &mut None);
        }
    }

    fn walk(&mut self, top: &Chain, chain: &Chain, cause: &mut Option<Rc<Cause>>) {
        for span in &chain.spans {
            let (record, end, done) = match &span.kind {
                SpanKind::Process(process) => {
                    let Outcome::Completed(done) = &process.outcome else { continue };
                    (process.record, span.end, Some(done))
                }
                SpanKind::Put(put) => {
                    let Some(record) = put.record.filter(|_| is_value(&chain.run.context(), put)) else {
                        continue;
                    };
                    (record, put.written.unwrap_or(span.end), None)
                }
                SpanKind::Link(link) => {
                    link.target.iter().for_each(|target| self.walk(top, target, cause));
                    continue;
                }
            };
            let Some(number) = self.source(&chain.run, record) else { continue };
            if done.is_some_and(|done| !self.state(number, &done.value, (done.severity, done.status))) {
                continue;
            }
            let begin = if done.is_some() { span.start } else { end };
            let cause = cause.get_or_insert_with(|| self.cause(top, None));
            self.changed(number, chain.run.wall(begin), chain.run.wall(end), cause);
        }
    }

    /// The number of a record if it is one of the sources.
    fn source(&mut self, run: &Rc<Run>, record: RecordId) -> Option<Number> {
        let key = (Rc::as_ptr(run) as usize, record);
        if let Some(known) = self.followed.get(&key) {
            return *known;
        }
        let is_source = self.sources.contains(&record_name(&run.context(), record));
        let number = if is_source { self.number(run, record) } else { None };
        if self.followed.len() < MAX_RECORDS {
            // The address is not used again as long as it is a key.
            self.runs.entry(key.0).or_insert_with(|| Rc::downgrade(run));
            self.followed.insert(key, number);
        }
        number
    }

    /// The number of a record; `None` if there are too many.
    pub fn number(&mut self, run: &Rc<Run>, record: RecordId) -> Option<Number> {
        let key = (Rc::as_ptr(run) as usize, record);
        if let Some(number) = self.numbers.get(key.0, record) {
            return Some(number as Number);
        }
        let number = self.records.len();
        if number >= MAX_RECORDS {
            return None;
        }
        self.runs.entry(key.0).or_insert_with(|| Rc::downgrade(run));
        let name: Rc<str> = record_name(&run.context(), record).into();
        if *self.names.entry(Rc::clone(&name)).or_insert(number as u32) != number as u32 {
            let namesakes = self.namesakes.entry(Rc::clone(&name)).or_default();
            if namesakes.len() + 1 < MAX_NAMESAKES {
                namesakes.push(number);
            }
        }
        room::for_one_more(&mut self.records);
        let followed = self.sources.contains(&*name).then(Box::default);
        self.records.push(Seen { name, followed });
        self.numbers.insert(key.0, record, number as u32);
        Some(number)
    }

    /// The numbers of the records of a name.
    pub fn named<'a>(&'a self, name: &str) -> impl Iterator<Item = Number> + 'a {
        let first = self.names.get(name).map(|number| *number as Number);
        first.into_iter().chain(self.namesakes.get(name).into_iter().flatten().copied())
    }

    /// The name of a record.
    pub fn name(&self, number: Number) -> Rc<str> {
        self.records.get(number).map(|record| Rc::clone(&record.name)).unwrap_or_default()
    }

    /// Takes the state of a record that is followed at the end of its processing, or after a put. Returns whether it may
    /// have changed; if so, call [`Origins::changed`].
    pub fn state(&mut self, number: Number, value: &Value, alarm: (u16, u16)) -> bool {
        let Some(record) = self.records.get_mut(number) else { return false };
        let Some(followed) = &mut record.followed else { return false };
        let state = fingerprint(value, alarm);
        let same = state.is_some() && state == followed.state;
        followed.state = state;
        !same
    }

    /// Notes the cause of a record's change, and the wall-clock times of the begin and end of its processing.
    pub fn changed(&mut self, number: Number, begin: i64, end: i64, cause: &Rc<Cause>) {
        let followed = self.records.get_mut(number).and_then(|record| record.followed.as_mut());
        let Some(Followed { changes, .. }) = followed.map(|followed| &mut **followed) else { return };
        if changes.len() >= MAX_CHANGES {
            changes.pop_front();
        }
        changes.push_back(Change { begin, end, cause: Rc::clone(cause) });
    }

    /// The cause of a chain, with the put that is its root, if that is at hand. Takes chains in the order in which they
    /// began.
    pub fn cause(&mut self, chain: &Chain, put: Option<&PutLine>) -> Rc<Cause> {
        let Some(root) = chain.root() else { return Rc::default() };
        let process = match &root.kind {
            SpanKind::Process(process) => process,
            SpanKind::Put(_) => {
                let made = if put.is_none() { root_put(chain, None) } else { None };
                let text = (self.wording)(chain, put.or(made.as_ref())).into();
                let put = match &mut self.clients {
                    Some(clients) => put.or(made.as_ref()).map(|put| clients.of(put)),
                    None => made.or_else(|| put.cloned()).map(Rc::new),
                };
                return Rc::new(Cause { text, put, through: Vec::new(), known: true });
            }
            SpanKind::Link(_) => return Rc::new(self.plain(chain, true)),
        };
        let for_link = process.for_link && matches!(process.trigger, Trigger::Once | Trigger::CpLink);
        if for_link {
            return Rc::new(self.of_link(chain, root.start, process));
        }
        let run = Rc::as_ptr(&chain.run) as usize;
        let asked = process.asked.as_ref().map(|asked| (asked.thread, asked.site));
        let trigger = process.trigger;
        let key = Common { run, trigger: trigger.name(), thread: root.thread, list: process.list, asked };
        if let Some(cause) = self.common.get(&key) {
            return Rc::clone(cause);
        }
        let known =
            !matches!(trigger, Trigger::Unknown | Trigger::Link | Trigger::Once | Trigger::Completion);
        let cause = Rc::new(self.plain(chain, known));
        if self.common.len() < MAX_COMMON {
            self.runs.entry(run).or_insert_with(|| Rc::downgrade(&chain.run));
            self.common.insert(key, Rc::clone(&cause));
        }
        cause
    }

    fn plain(&self, chain: &Chain, known: bool) -> Cause {
        Cause { text: (self.wording)(chain, None).into(), known, ..Cause::default() }
    }

    /// The cause of a chain that began by a CP link.
    fn of_link(&self, chain: &Chain, start: u64, process: &ProcessSpan) -> Cause {
        let Some((field, source)) = chain.run.cp_link(start, process.record) else {
            return self.plain(chain, false);
        };
        let begin = chain.run.wall(start);
        let context = chain.run.context();
        let record = record_name(&context, process.record);
        let link = format!("CP link {record}.{}", field_name(&context, Some(field)).unwrap_or("?"));
        let pv = Pv::new(&source);
        let unknown =
            |why: String| Cause { text: format!("{link} from {source}, {why}").into(), ..Cause::default() };
        if pv.field != "VAL" {
            return unknown("the change of which is not followed".to_owned());
        }
        let prompt = prompt(start, process);
        match self.before(pv.record, begin, prompt).as_slice() {
            [] => unknown("no change of which is in the log".to_owned()),
            [change] if begin.saturating_sub(change.end) > prompt => {
                let age = duration(u64::try_from(begin.saturating_sub(change.end)).unwrap_or(0));
                unknown(format!("which last changed {age} before"))
            }
            [change] => {
                let mut through = change.cause.through.clone();
                if through.len() < MAX_HOPS {
                    through.push(record.as_str().into());
                }
                let Cause { text, put, known, .. } = &*change.cause;
                Cause { text: Rc::clone(text), put: put.clone(), through, known: *known }
            }
            several => unknown(format!("which is in {} IOCs", several.len())),
        }
    }

    /// The last change before a time of each record of this name. Of several, those that are too old don't count if
    /// one is not.
    fn before(&self, name: &str, begin: i64, prompt: i64) -> Vec<&Change> {
        let last = |number: Number| {
            let changes = self.records.get(number)?.followed.iter().flat_map(|followed| &followed.changes);
            let earlier =
                changes.filter(|change| change.begin <= begin && change.end <= begin.saturating_add(SKEW));
            earlier.max_by_key(|change| change.begin)
        };
        let mut found: Vec<&Change> = self.named(name).filter_map(last).collect();
        if found.iter().any(|change| begin.saturating_sub(change.end) <= prompt) {
            found.retain(|change| begin.saturating_sub(change.end) <= prompt);
        } else if found.len() > 1 {
            found.sort_by_key(|change| change.end);
            found.drain(..found.len() - 1);
        }
        found
    }
}

/// What two states share if they are the same: alarm, kind of value, and a number's bits or a hash.
type Fingerprint = ((u16, u16), u8, u64);

/// That of a state; `None` if the value is unknown.
fn fingerprint(value: &Value, alarm: (u16, u16)) -> Option<Fingerprint> {
    let hash = |hashed: &dyn Fn(&mut DefaultHasher)| {
        let mut hasher = DefaultHasher::new();
        hashed(&mut hasher);
        hasher.finish()
    };
    let (kind, bits) = match value {
        Value::Unknown => return None,
        Value::Int(number) => (0, *number as u64),
        Value::UInt(number) => (1, *number),
        Value::Float(number) => (2, number.to_bits().into()),
        Value::Double(number) => (3, number.to_bits()),
        Value::Text(text) => (4, hash(&|hasher| text.hash(hasher))),
        Value::Array(array) => (5, hash(&|hasher| (array.count, &array.bytes).hash(hasher))),
    };
    Some((alarm, kind, bits))
}
