//! The input links of a record, looked up in the logs: two passes over the few blocks that hold any, of the segments
//! around the time first. What holds none is skipped: if it is damaged, whoever reads it says so.

use crate::logs::Logs;
use crate::model::input_links::InputLinks;
use crate::model::inputs::{text_of, Known, Search};
use crate::model::links::is_cp;
use crate::model::run::{record_name, Run};
use crate::reading::runs::course::Course;
use crate::reading::runs::set::SetLater;
use crate::reading::scan::{abouts, Blocks, Choose, Part, Scan, MARGIN};
use epics::pv::link_target;
use epics::Pv;
use iocrec_log::event::{Dbf, Fact, FieldId, Ioc, Value};
use iocrec_log::reader::{About, Choice, SegmentFile};
use std::collections::HashSet;
use std::sync::Arc;

/// A record of an IOC's process; its name alone may exist in several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the host.
    pub host: String,
    /// Pid and start of the IOC's process.
    pub process: (u32, u64),
    /// The record's name.
    pub record: String,
}

impl Place {
    fn is_of(&self, run: &Run, ioc: &Ioc) -> bool {
        self.process == (ioc.pid, ioc.start) && run.host() == self.host
    }
}

/// The inputs of a record at a wall-clock time.
pub fn inputs(logs: &Logs, place: &Place, time: i64) -> Known {
    let mut search = Search::at(time);
    // where a clock was set, segments are not in the order of its times
    let in_order = logs.uses_index() && !logs.courses().iter().any(Course::is_set_back);
    for files in logs.runs() {
        if in_order && SetLater::find(files).is_none() {
            take_nearest(logs, files, place, time, &mut search);
        } else {
            take(logs, files, place, &mut search);
        }
    }
    search.known()
}

/// Segments up to the time that are read first. Links are noted after the beginning of each, over a time that may reach
/// into the next.
const NEAR: usize = 2;

/// Takes what a run holds of the record around the time, and the rest only if that does not tell.
fn take_nearest(logs: &Logs, files: &[SegmentFile], place: &Place, time: i64, search: &mut Search) {
    let begin = |file: &SegmentFile| file.header.map_or(i64::MIN, |header| header.created_wall);
    // a segment may hold events from shortly before its beginning
    let begun = files.partition_point(|file| begin(file).saturating_sub(MARGIN) <= time);
    let (before, after) = files.split_at(begun);
    let (early, near) = before.split_at(before.len().saturating_sub(NEAR));
    take(logs, near, place, search);
    let since = near.first().map_or(i64::MAX, begin).saturating_add(MARGIN);
    let noted = search.last_noted();
    let is_settled = early.is_empty() || noted.is_some_and(|noted| noted > since);
    if is_settled && noted.is_some() && !search.is_changed() {
        return;
    }
    // What was noted earlier than that no longer counts.
    let early = if is_settled { &[] } else { early };
    // Where none is noted, it does not matter what puts changed.
    if early.iter().chain(after).any(may_hold_links) {
        take(logs, early, place, search);
        take(logs, after, place, search);
    }
}

/// Whether anything that was read in an IOC's memory may be in a segment.
fn may_hold_links(file: &SegmentFile) -> bool {
    let may = |about: &About| about.classes.is_none_or(|classes| classes.readings());
    abouts(file).is_none_or(|abouts| abouts.iter().any(may))
}

/// Names of records that links are known to lead to; a bound for hostile logs.
const MAX_SOURCES: usize = 100_000;

/// The names of the records that the CP links in the logs follow: one pass over the few blocks that hold links.
pub fn cp_sources(logs: &Logs) -> HashSet<String> {
    sources(logs, None)
}

/// The input links of all records, and the names of the records that these and CP links lead to.
pub fn all_inputs(logs: &Logs) -> (InputLinks, HashSet<String>) {
    let mut links = InputLinks::default();
    let mut names = sources(logs, Some(&mut links));
    for pv in links.pvs() {
        let record = Pv::new(&pv).record;
        if names.len() < MAX_SOURCES && !names.contains(record) {
            names.insert(record.to_owned());
        }
    }
    (links, names)
}

/// A link that names this record, as `RECORD.FIELD`: one that leads to an IOC of which there is no log may be all that is known
/// of a record. `None` if none does.
pub fn linked_from(logs: &Logs, record: &str) -> Option<String> {
    let choose = |about: &About| match about.classes {
        Some(classes) if !(classes.readings() || classes.link_puts() || about.defines) => Choice::Skip,
        _ => Choice::Only(Arc::new(|_| false)),
    };
    let is_it = |link: &str| Pv::new(link_target(link)).record == record;
    for files in logs.runs() {
        let mut scan = Scan::new(files, Blocks::All);
        if logs.uses_index() {
            scan.choose(Arc::new(choose));
        }
        let run = Run::new(None);
        for part in scan {
            let Part::Block(block) = part else { continue };
            for event in &block.events {
                run.apply(event.time, &event.fact);
                let context = run.context();
                let found = match &event.fact {
                    Fact::FieldValue(held) => {
                        let field = context.field(held.field).filter(|field| field.dbf.is_link());
                        let names_it = || text_of(&held.value).is_some_and(|text| is_it(&text));
                        field.filter(|_| names_it()).map(|field| (held.record, Some(field.id)))
                    }
                    Fact::OutputLinks(of) => {
                        let link = of.links.iter().find(|link| is_it(&link.text));
                        link.map(|link| (of.record, Some(link.field)))
                    }
                    Fact::CaLinkPut(put) => put.record.filter(|_| is_it(&put.pv)).map(|of| (of, None)),
                    _ => None,
                };
                if let Some((of, field)) = found {
                    let name = record_name(&context, of);
                    let field = field.and_then(|field| context.field(field));
                    return Some(field.map_or(name.clone(), |field| format!("{name}.{}", field.name)));
                }
            }
        }
    }
    None
}

/// The sources of CP links; takes all links, too, if these are wanted.
fn sources(logs: &Logs, mut links: Option<&mut InputLinks>) -> HashSet<String> {
    let mut names = HashSet::new();
    let with_definitions = links.is_some();
    let choose = move |about: &About| match about.classes {
        Some(classes) if !(classes.readings() || with_definitions && about.defines) => Choice::Skip,
        // what was read in the IOC's memory is no hit
        _ => Choice::Only(Arc::new(|_| false)),
    };
    let choose = Arc::new(choose);
    for (number, files) in (0..).zip(logs.runs()) {
        let mut scan = Scan::new(files, Blocks::All);
        if logs.uses_index() {
            scan.choose(Arc::clone(&choose) as Arc<Choose>);
        }
        let run = Run::new(None);
        for part in scan {
            let Part::Block(block) = part else { continue };
            for event in &block.events {
                let held = match &event.fact {
                    Fact::FieldValue(held) => held,
                    Fact::Field(_) | Fact::Menu(_) if with_definitions => {
                        run.apply(event.time, &event.fact);
                        continue;
                    }
                    _ => continue,
                };
                if let Some(links) = &mut links {
                    let of = (number, held.record);
                    named(&run, held.field, &held.value, &mut |name, dbf, word| match dbf {
                        Dbf::InLink => links.link(of, event.time, name, text_of(&held.value)),
                        Dbf::Device if name == "DTYP" => {
                            word.into_iter().for_each(|word| links.device(of, event.time, word));
                        }
                        _ => {}
                    });
                }
                let Value::Text(link) = &held.value else { continue };
                if names.len() < MAX_SOURCES && is_cp(link) {
                    let text = text_of(&held.value).unwrap_or_default();
                    names.insert(Pv::new(link_target(&text)).record.to_owned());
                }
            }
        }
        links.iter_mut().for_each(|links| links.close());
    }
    names
}

/// The numbers that the record has in a run.
fn numbers(files: &[SegmentFile], place: &Place) -> HashSet<u32> {
    let run = Run::new(SetLater::find(files));
    let mut numbers = HashSet::new();
    for part in Scan::of_definitions(files) {
        let Part::Block(block) = part else { continue };
        for event in &block.events {
            run.apply(event.time, &event.fact);
            if let Fact::Record(record) = &event.fact {
                if record.name == place.record
                    && run.context().ioc(record.ioc).is_some_and(|ioc| place.is_of(&run, ioc))
                {
                    numbers.insert(record.id);
                }
            }
        }
    }
    numbers
}

/// Takes what segments of a run hold of the record.
fn take(logs: &Logs, files: &[SegmentFile], place: &Place, search: &mut Search) {
    let numbers = Arc::new(numbers(files, place));
    if numbers.is_empty() {
        return;
    }
    let wanted = Arc::clone(&numbers);
    let choose = move |about: &About| {
        let holds = match (about.classes, &about.contents) {
            (Some(classes), Some(contents)) => {
                (classes.readings() || classes.puts() || classes.writes())
                    && wanted.iter().any(|number| contents.may_hold_record(*number))
            }
            _ => true,
        };
        if !holds && !about.defines {
            return Choice::Skip;
        }
        let wanted = Arc::clone(&wanted);
        Choice::Only(Arc::new(move |shape| shape.record.is_some_and(|record| wanted.contains(&record))))
    };
    let mut scan = Scan::new(files, Blocks::All);
    if logs.uses_index() {
        scan.choose(Arc::new(choose));
    }
    let run = Run::new(SetLater::find(files));
    for part in scan {
        let Part::Block(block) = part else { continue };
        for event in &block.events {
            match &event.fact {
                Fact::FieldValue(held) if numbers.contains(&held.record) => {
                    field(&run, event.time, held.field, &held.value, search);
                }
                Fact::Put(put) if numbers.contains(&put.record) => {
                    let context = run.context();
                    let field = put.field.and_then(|field| context.field(field));
                    if field.is_some_and(|field| field.dbf.is_link()) {
                        search.change(run.wall(event.time));
                    }
                }
                fact => run.apply(event.time, fact),
            }
        }
    }
}

fn field(run: &Run, time: u64, field: FieldId, held: &Value, search: &mut Search) {
    let wall = run.wall(time);
    named(run, field, held, &mut |name, dbf, word| search.field(wall, name, dbf, held, word));
}

/// Gives the name and type of a field that was read, and the word for its value if that is an index.
fn named(run: &Run, field: FieldId, held: &Value, take: &mut dyn FnMut(&str, Dbf, Option<&str>)) {
    let context = run.context();
    let Some(field) = context.field(field) else { return };
    let index = match held {
        Value::Int(index) => usize::try_from(*index).ok(),
        Value::UInt(index) => usize::try_from(*index).ok(),
        _ => None,
    };
    let choices = field.menu.and_then(|menu| context.menu(menu)).map(|menu| &menu.choices);
    let word = index.zip(choices).and_then(|(index, choices)| choices.get(index)).map(String::as_str);
    take(&field.name, field.dbf, word);
}
