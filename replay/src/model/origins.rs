//! Where changes came from: for each record, the causes of its last changes, so that a chain which began by a CP link
//! leads on to the chain that changed the link's source.
//!
//! A CP link makes its record process when it is told of a change of its source. Nothing in the log joins the two; the
//! source's name does, if the log holds it ([`links`](super::links)), together with the time: the last change before,
//! and not more than [`prompt`] before. Anything else is said to be unknown, not guessed.

mod reads;

pub use self::reads::{key, processing, ChainKey, Inputs, Processing, Read};

use super::chain::{Chain, Outcome, ProcessSpan, PutSpan, SpanKind, Trigger};
use super::finder::Finder;
use super::input_links::InputLinks;
use super::numbered::{Keyed, OfRecords};
use super::outcome::{self, Source};
use super::packed_texts::PackedTexts;
use super::putlog::{root_put, PutLine};
use super::run::{field_name, record_name, Run};
use super::value;
use super::weighing::Part;
use super::who::Clients;
use super::words::{Ends, Words};
use crate::room;
use crate::time::{duration, SECOND};
use epics::Pv;
use iocrec_log::context::Context;
use iocrec_log::event::{Dbf, RecordId, Value};
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::{Rc, Weak};

/// Longest time from a change to the processing for a CP link that it sets off. It takes a millisecond at most; a busy
/// IOC or network may take longer.
const PROMPT: i64 = SECOND as i64;
/// Disorder among times of one host: the end of a record's processing is noted after its monitors are posted.
const SKEW: i64 = SECOND as i64 / 1000;
/// Changes remembered of a record at least: a record may complete again before a chain that its change set off is looked
/// at. More are remembered for what reads it and is scanned more slowly, as long as there are few.
const MAX_CHANGES: usize = 4;
const MANY_CHANGES: usize = 16;
/// Changes of all records up to which each has [`MANY_CHANGES`].
const FEW_IN_ALL: usize = 100_000;
/// Fields of a record, apart from its value, of which the last puts are remembered, and records of which one is.
const MAX_FIELDS: usize = 16;
const MAX_OWN_PUTS: usize = 100_000;
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
    pub text: Words,
    /// The put at the root, if it is one; only who made it, if [`Origins::naming_clients`] asked for no more.
    pub put: Option<Rc<PutLine>>,
    /// Whether the root is known: `text` names what began it all.
    pub known: bool,
    /// Boxed: most causes have none, and a hundred thousand records one each.
    pub(super) links: Option<Box<Through>>,
}

const _: () = assert!(std::mem::size_of::<Cause>() <= 56);

/// CP links that were followed to a cause.
#[derive(Debug)]
pub(super) struct Through {
    through: Box<[Rc<str>]>,
    behind: Option<Box<Processing>>,
}

impl Cause {
    /// The records whose CP links were followed to get there, from the root on.
    pub fn through(&self) -> &[Rc<str>] {
        self.links.as_ref().map_or(&[], |links| &links.through)
    }

    /// If CP links were followed to a change that no put made: the processing in which that was.
    pub fn behind(&self) -> Option<&Processing> {
        self.links.as_ref()?.behind.as_deref()
    }
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

/// Whether something changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turn {
    /// It is as it was.
    #[default]
    No,
    /// It was processed or written; what it was before or since is not known.
    Perhaps,
    /// It is known to have changed.
    Yes,
}

/// What of a record changed: its value and its alarm.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turns {
    /// The value.
    pub value: Turn,
    /// The alarm.
    pub alarm: Turn,
    /// When the record began to process the time before.
    pub before: Option<i64>,
}

/// A change of a record, or a put to one of its fields.
struct Change {
    /// Wall-clock times of the begin and end of its processing.
    begin: i64,
    end: i64,
    cause: Rc<Cause>,
    by: By,
    chain: ChainKey,
    turns: (Turn, Turn),
}

/// What made a change.
enum By {
    /// A put.
    Put,
    /// The record's own processing: its monotonic time, its begin the time before, and whether it was for a CP link.
    Own { at: u64, before: i64, for_link: bool },
    /// That of another record, which wrote to it.
    Other(Box<Processing>),
}

const _: () = assert!(std::mem::size_of::<Change>() <= 80);

impl Change {
    /// The processing that made it, of the record with this number; `None` if a put did.
    fn processing(&self, of: (usize, RecordId)) -> Option<Processing> {
        match &self.by {
            By::Put => None,
            By::Own { at, before, for_link } => {
                Some(Processing::of(of, *at, (*before, self.begin, self.end), self.chain, *for_link))
            }
            By::Other(other) => Some((**other).clone()),
        }
    }

    /// Whether it is one of this part of the record.
    fn is_of(&self, part: Part) -> bool {
        self.turn(part) != Turn::No
    }

    fn is_certain(&self, part: Part) -> bool {
        self.turn(part) == Turn::Yes
    }

    fn turn(&self, part: Part) -> Turn {
        match part {
            Part::Alarm => self.turns.1,
            Part::Value | Part::Setting | Part::Other => self.turns.0,
        }
    }
}

/// A record of a run.
struct Seen {
    /// `None` if it is not followed: few records are.
    followed: Option<Box<Followed>>,
}

/// What is remembered of a record that is followed.
struct Followed {
    /// Its run, as an address, and its number.
    of: (usize, RecordId),
    /// Its value and alarm, if known.
    value: Option<Fingerprint>,
    /// Whether that may be of more than the end of its processing shows.
    is_longer: bool,
    alarm: Option<(u16, u16)>,
    /// When it last began to process.
    began: Option<i64>,
    changes: VecDeque<Change>,
    /// Whether there were more changes.
    forgot: bool,
    /// The last put to each of its fields but the value.
    fields: Vec<(Rc<str>, Change)>,
}

/// A put to a field of a record: when, to which, and its cause.
type OwnPut = (i64, Rc<str>, Rc<Cause>);

/// A record's number here.
pub type Number = usize;

/// The last changes of all records.
pub struct Origins {
    wording: Wording,
    /// The runs whose addresses are used as keys; they keep the addresses from being used again.
    runs: HashMap<usize, Weak<Run>>,
    numbers: OfRecords<u32>,
    /// By number, as their names and places are.
    records: Vec<Seen>,
    names: PackedTexts,
    found: Finder,
    /// The further records of a name, where IOCs share it or it is an alias; few do.
    namesakes: Keyed<Box<str>, Vec<Number>>,
    common: Keyed<Common, Rc<Cause>>,
    /// The records that [`Origins::take`] looks at, and those of a run as they were looked up.
    sources: HashSet<String>,
    /// Who made puts, if that is all that is kept of them.
    clients: Option<Clients>,
    /// What the words of their causes end with.
    ends: Ends,
    followed: Keyed<(usize, RecordId), Option<Number>>,
    /// The input links of all records, if inputs are followed, too; and when a put last changed one, by run and record.
    links: Option<Rc<InputLinks>>,
    links_changed: Keyed<(usize, RecordId), u64>,
    /// The last put to a field of a record but its value: when, to which, and its cause.
    own_puts: Keyed<(usize, RecordId), OwnPut>,
    /// Whether records of these names were in the logs, and how much was defined then.
    recorded: HashMap<String, (u64, bool)>,
    /// Number of changes remembered.
    remembered: usize,
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
            records: Vec::new(),
            names: PackedTexts::default(),
            found: Finder::default(),
            namesakes: Keyed::default(),
            common: Keyed::default(),
            sources: HashSet::new(),
            clients: None,
            ends: Ends::default(),
            followed: Keyed::default(),
            links: None,
            links_changed: Keyed::default(),
            own_puts: Keyed::default(),
            recorded: HashMap::new(),
            remembered: 0,
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

    /// Follows inputs, too, to the records that were given as sources.
    pub fn with_inputs(self, links: InputLinks) -> Self {
        Origins { links: Some(Rc::new(links)), ..self }
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
            let begin = chain.run.wall(if done.is_some() { span.start } else { end });
            let turns = match done {
                Some(done) => self.state(number, begin, &done.value, (done.severity, done.status)),
                None => Some(Turns::default()),
            };
            let Some(turns) = turns else { continue };
            let cause = cause.get_or_insert_with(|| self.cause(top, None));
            self.changed(number, (begin, chain.run.wall(end)), key(top), turns, None, cause);
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
        let name = record_name(&run.context(), record);
        self.also_named(&name, number);
        self.found.add(&*name, self.names.iter());
        self.names.push(&name);
        room::for_one_more(&mut self.records);
        let context = run.context();
        let aliases = context.aliases(record).iter().filter(|alias| self.sources.contains(&***alias));
        let aliases: Vec<Box<str>> = aliases.map(|alias| (**alias).into()).collect();
        drop(context);
        let is_followed = self.sources.contains(&*name) || !aliases.is_empty();
        let followed = is_followed.then(|| {
            Box::new(Followed {
                of: key,
                value: None,
                is_longer: false,
                alarm: None,
                began: None,
                changes: VecDeque::new(),
                forgot: false,
                fields: Vec::new(),
            })
        });
        aliases.iter().for_each(|alias| self.also_named(alias, number));
        self.records.push(Seen { followed });
        self.numbers.insert(key.0, record, number as u32);
        Some(number)
    }

    /// The numbers of the records of a name.
    pub fn named<'a>(&'a self, name: &str) -> impl Iterator<Item = Number> + 'a {
        self.find(name).into_iter().chain(self.namesakes.get(name).into_iter().flatten().copied())
    }

    /// The name of a record.
    pub fn name(&self, number: Number) -> Rc<str> {
        self.names.get(number).unwrap_or_default().into()
    }

    /// The first record of a name.
    fn find(&self, name: &str) -> Option<Number> {
        self.found.find(name, |number| self.names.get(number) == Some(name))
    }

    /// Notes a further record of a name: the first is found by that.
    fn also_named(&mut self, name: &str, number: Number) {
        let known = self.find(name);
        if known == Some(number) || known.is_none() && number == self.names.len() {
            return;
        }
        match self.namesakes.get_mut(name) {
            Some(numbers) if numbers.contains(&number) || numbers.len() + 1 >= MAX_NAMESAKES => {}
            Some(numbers) => numbers.push(number),
            None => _ = self.namesakes.insert(name.into(), vec![number]),
        }
    }

    /// Takes the state of a record that is followed at the end of its processing, which began then. Returns what may have
    /// changed, if anything has; if so, call [`Origins::changed`].
    pub fn state(&mut self, number: Number, begin: i64, value: &Value, alarm: (u16, u16)) -> Option<Turns> {
        let followed = self.records.get_mut(number)?.followed.as_mut()?;
        // of what is cut, the rest may have changed; and it may be the beginning of what was read
        let is_whole = outcome::is_cut(value, Source::Head) != Some(true);
        let (value, before) = (fingerprint(value), followed.began.replace(begin));
        let value_turn = match (followed.value, value) {
            (Some(was), Some(is)) if was == is && is_whole => Turn::No,
            (Some(was), Some(is)) if was == is || followed.is_longer && !is_whole => Turn::Perhaps,
            (Some(_), Some(_)) => Turn::Yes,
            _ => Turn::Perhaps,
        };
        let is_other = followed.alarm.map_or(alarm.0 > 0, |was| was != alarm);
        let alarm_turn = if is_other { Turn::Yes } else { Turn::No };
        let same = value_turn == Turn::No && followed.alarm == Some(alarm);
        (followed.value, followed.is_longer, followed.alarm) = (value, false, Some(alarm));
        (!same).then_some(Turns { value: value_turn, alarm: alarm_turn, before })
    }

    /// Takes what the recorder read of a record that is followed.
    pub fn read_state(&mut self, number: Number, value: &Value, alarm: (u16, u16)) {
        let Some(followed) = self.records.get_mut(number).and_then(|record| record.followed.as_mut()) else {
            return;
        };
        if let Some(value) = fingerprint(value) {
            (followed.value, followed.is_longer) = (Some(value), true);
        }
        followed.alarm = Some(alarm);
    }

    /// Takes what a put to a record's value left in it. Returns whether that is another value. `processes`: whether the
    /// record processed for it, the end of which shows its value.
    pub fn written(&mut self, number: Number, put: &PutSpan, dbf: Option<Dbf>, processes: bool) -> Turns {
        let followed = self.records.get_mut(number).and_then(|record| record.followed.as_mut());
        let Some(followed) = followed else { return Turns::default() };
        if processes {
            followed.value = followed.value.or_else(|| of_put(&put.old));
            return Turns::default();
        }
        followed.is_longer = true;
        let new = dbf.map_or_else(|| put.requested.clone(), |dbf| value::convert(&put.requested, dbf));
        followed.value = of_put(&new);
        Turns { value: turn(&put.old, &new), ..Turns::default() }
    }

    /// Notes the cause of a record's change, and the wall-clock times of the begin and end of its processing. `by`: that
    /// processing, if no put began it.
    pub fn changed(
        &mut self,
        number: Number,
        (begin, end): (i64, i64),
        chain: ChainKey,
        turns: Turns,
        by: Option<Processing>,
        cause: &Rc<Cause>,
    ) {
        let followed = self.records.get_mut(number).and_then(|record| record.followed.as_mut());
        let Some(Followed { changes, forgot, of, .. }) = followed.map(|followed| &mut **followed) else {
            return;
        };
        let many = self.links.is_some() && self.remembered < FEW_IN_ALL;
        if changes.len() >= if many { MANY_CHANGES } else { MAX_CHANGES } {
            changes.pop_front();
            self.remembered = self.remembered.saturating_sub(1);
            *forgot = true;
        }
        self.remembered += 1;
        let turns = (turns.value, turns.alarm);
        let by = by.map_or(By::Put, |by| by.compact(*of, begin));
        changes.push_back(Change { begin, end, cause: Rc::clone(cause), by, chain, turns });
    }

    /// Whether puts to other fields than the value are to be noted.
    pub fn follows_inputs(&self) -> bool {
        self.links.is_some()
    }

    /// Notes a put to another field of a record than its value.
    pub fn field_written(
        &mut self,
        (chain, number): (&Chain, Option<Number>),
        (record, at): (RecordId, u64),
        (field, dbf): (&str, Dbf),
        put: &PutSpan,
        cause: &Rc<Cause>,
    ) {
        let of = (Rc::as_ptr(&chain.run) as usize, record);
        if dbf.is_link() && (self.links_changed.len() < MAX_RECORDS || self.links_changed.contains_key(&of)) {
            self.links_changed.insert(of, at);
        }
        let (field, time): (Rc<str>, i64) = (field.into(), chain.run.even(at));
        if self.own_puts.len() < MAX_OWN_PUTS || self.own_puts.contains_key(&of) {
            self.own_puts.insert(of, (time, Rc::clone(&field), Rc::clone(cause)));
        }
        let turns = (turn(&put.old, &value::convert(&put.requested, dbf)), Turn::No);
        let followed = number.and_then(|number| self.records.get_mut(number)?.followed.as_mut());
        let Some(followed) = followed.filter(|_| turns.0 != Turn::No) else { return };
        let change =
            Change { begin: time, end: time, cause: Rc::clone(cause), by: By::Put, chain: key(chain), turns };
        let place = followed.fields.iter().position(|(name, _)| *name == field);
        if let Some(place) = place {
            followed.fields.remove(place);
        }
        if followed.fields.len() < MAX_FIELDS {
            followed.fields.push((field, change));
        }
    }

    /// The cause of a chain, with the put that is its root, if that is at hand. Takes chains in the order in which they
    /// began.
    pub fn cause(&mut self, chain: &Chain, put: Option<&PutLine>) -> Rc<Cause> {
        let Some(root) = chain.root() else { return Rc::default() };
        let process = match &root.kind {
            SpanKind::Process(process) => process,
            SpanKind::Put(_) => {
                let made = if put.is_none() { root_put(chain, None) } else { None };
                let text = self.ends.share(&(self.wording)(chain, put.or(made.as_ref())));
                let put = match &mut self.clients {
                    Some(clients) => put.or(made.as_ref()).map(|put| clients.of(put)),
                    None => made.or_else(|| put.cloned()).map(Rc::new),
                };
                return Rc::new(Cause { text, put, known: true, ..Cause::default() });
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
        let found = self.before(pv.record, begin, prompt);
        match found.as_slice() {
            [] => unknown("no change of which is in the log".to_owned()),
            [(change, _)] if begin.saturating_sub(change.end) > prompt => {
                let age = duration(u64::try_from(begin.saturating_sub(change.end)).unwrap_or(0));
                unknown(format!("which last changed {age} before"))
            }
            [(change, of)] => {
                let mut through = change.cause.through().to_vec();
                if through.len() < MAX_HOPS {
                    through.push(record.as_str().into());
                }
                let Cause { text, put, known, .. } = &*change.cause;
                let first = change.cause.behind().cloned().or_else(|| change.processing(*of));
                let behind = first.filter(|_| put.is_none()).map(Box::new);
                let links = Some(Box::new(Through { through: through.into(), behind }));
                Cause { text: text.clone(), put: put.clone(), known: *known, links }
            }
            several => unknown(format!("which is in {} IOCs", several.len())),
        }
    }

    /// The last change before a time of each record of this name. Of several, those that are too old don't count if
    /// one is not.
    fn before(&self, name: &str, begin: i64, prompt: i64) -> Vec<(&Change, (usize, RecordId))> {
        let last = |number: Number| {
            let followed = self.records.get(number)?.followed.as_ref()?;
            let earlier = followed
                .changes
                .iter()
                .filter(|change| change.begin <= begin && change.end <= begin.saturating_add(SKEW));
            Some((earlier.max_by_key(|change| change.begin)?, followed.of))
        };
        let mut found: Vec<_> = self.named(name).filter_map(last).collect();
        if found.iter().any(|(change, _)| begin.saturating_sub(change.end) <= prompt) {
            found.retain(|(change, _)| begin.saturating_sub(change.end) <= prompt);
        } else if found.len() > 1 {
            found.sort_by_key(|(change, _)| change.end);
            found.drain(..found.len() - 1);
        }
        found
    }
}

/// What two values share if they are the same: the kind of value, and a number's bits or a hash.
pub(super) type Fingerprint = (u8, u64);

/// Whether a value has become another.
fn turn(old: &Value, new: &Value) -> Turn {
    let is_cut = |value: &Value| outcome::is_cut(value, Source::Head) == Some(true);
    match value::agrees(new, old, is_cut(old)) {
        Some(true) if is_cut(old) || is_cut(new) => Turn::Perhaps,
        Some(true) => Turn::No,
        Some(false) => Turn::Yes,
        None => Turn::Perhaps,
    }
}

/// A number's bits, as numbers are compared: both zeros are one, and so is all that is no number.
fn bits(number: f64) -> u64 {
    match number.is_nan() {
        true => f64::NAN.to_bits(),
        false => (number + 0.0).to_bits(),
    }
}

/// That of a value; `None` if it is unknown.
pub(super) fn fingerprint(value: &Value) -> Option<Fingerprint> {
    let hash = |hashed: &dyn Fn(&mut DefaultHasher)| {
        let mut hasher = DefaultHasher::new();
        hashed(&mut hasher);
        hasher.finish()
    };
    let (kind, bits) = match value {
        Value::Unknown => return None,
        Value::Int(number) => (0, *number as u64),
        Value::UInt(number) => (1, *number),
        Value::Float(number) => (2, bits(f64::from(*number))),
        Value::Double(number) => (3, bits(*number)),
        Value::Text(text) => (4, hash(&|hasher| text.hash(hasher))),
        Value::Array(array) => (5, hash(&|hasher| (array.count, &array.bytes).hash(hasher))),
    };
    Some((kind, bits))
}

/// That of what a put finds or asks for; `None` if it may be the beginning of a text, which the record shows whole later.
fn of_put(value: &Value) -> Option<Fingerprint> {
    let is_beginning = matches!(value, Value::Text(_)) && outcome::is_cut(value, Source::Head) == Some(true);
    match is_beginning {
        true => None,
        false => fingerprint(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::Array;

    /// Follows one record, of which nothing is known yet.
    fn following() -> Origins {
        let followed = Followed {
            of: (0, 0),
            value: None,
            is_longer: false,
            alarm: None,
            began: None,
            changes: VecDeque::new(),
            forgot: false,
            fields: Vec::new(),
        };
        let mut origins = Origins::new(|_, _| String::new());
        origins.records.push(Seen { followed: Some(Box::new(followed)) });
        origins
    }

    #[test]
    fn what_is_cut_may_have_changed() {
        let mut origins = following();
        let array = |count| Value::Array(Array { dbf: Dbf::Double, count, bytes: vec![0; 16] });
        let turns = [2, 2, 100, 100].map(|count| origins.state(0, 0, &array(count), (0, 0)));
        let of_values = turns.map(|turns| turns.map(|turns| turns.value));
        assert_eq!(of_values, [Some(Turn::Perhaps), None, Some(Turn::Yes), Some(Turn::Perhaps)]);
        assert_eq!([2, 100].map(|count| turn(&array(count), &array(count))), [Turn::No, Turn::Perhaps]);
        // a put finds the beginning of a long text
        let text = |length: usize| Value::Text(vec![b'x'; length]);
        let found = [(40, 60), (39, 60), (39, 39)].map(|(old, new)| turn(&text(old), &text(new)));
        assert_eq!(found, [Turn::Perhaps, Turn::Yes, Turn::No]);
    }

    /// What the record has after it is the whole text, which a put finds, or asks for, in part.
    #[test]
    fn a_text_is_no_other_than_its_beginning() {
        let text = |length: usize| Value::Text(vec![b'x'; length]);
        for (length, expected) in [(39, Turn::Yes), (40, Turn::Perhaps)] {
            let put = PutSpan {
                kind: None,
                site: 0,
                record: None,
                field: None,
                dbf: Dbf::String,
                count: 1,
                requested: text(length),
                old: text(length),
                after: None,
                wrote: true,
                written: None,
                only_processes: false,
                is_one_of_several: false,
                packet: None,
            };
            for processes in [true, false] {
                let mut origins = following();
                origins.written(0, &put, None, processes);
                let turns = origins.state(0, 0, &text(60), (0, 0));
                assert_eq!(turns.map(|turns| turns.value), Some(expected), "{length} {processes}");
            }
        }
    }

    /// The recorder reads all of a text, of which the end of processing shows the beginning.
    #[test]
    fn a_beginning_is_no_other_than_the_text_that_was_read() {
        let text = |length: usize| Value::Text(vec![b'x'; length]);
        for (length, expected) in [(152, Turn::Perhaps), (151, Turn::Yes)] {
            let mut origins = following();
            origins.read_state(0, &text(300), (0, 0));
            let turns = origins.state(0, 0, &text(length), (0, 0));
            assert_eq!(turns.map(|turns| turns.value), Some(expected), "{length}");
        }
    }

    #[test]
    fn values_that_are_the_same_have_one_fingerprint() {
        let nan = f64::NAN;
        let numbers = [0.0, -0.0, 1.5, -1.5, nan, nan.copysign(-1.0), f64::INFINITY, f64::NEG_INFINITY];
        for all in [numbers.map(Value::Double), numbers.map(|number| Value::Float(number as f32))] {
            for (a, b) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))) {
                let is_one = fingerprint(a) == fingerprint(b);
                assert_eq!(Some(is_one), value::same(a, b), "{a:?} {b:?}");
            }
        }
        assert_eq!(fingerprint(&Value::Unknown), None);
    }
}
