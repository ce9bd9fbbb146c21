//! A field's state as a setting, for formats that restore values.

use super::state::FieldState;
use crate::model::setting::Setting;
use iocrec_log::context::Context;
use iocrec_log::event::{Dbf, Field, RecordId};

/// Fields that show what the record does, and that nobody writes to restore it.
const READ_ONLY: [&str; 7] = ["STAT", "SEVR", "NSTA", "NSEV", "PACT", "NAME", "RTYP"];

/// Types of records whose value comes from their inputs: written, it is computed anew. If a put from outside gave it the
/// value that it holds, it does not: it has no input, or was simulated by hand.
const INPUTS: [&str; 19] = [
    "ai",
    "bi",
    "longin",
    "int64in",
    "stringin",
    "lsi",
    "mbbi",
    "mbbiDirect",
    "calc",
    "calcout",
    "sub",
    "sel",
    "compress",
    "histogram",
    "event",
    "subArray",
    "aai",
    "aSub",
    "printf",
];

/// The state as a setting. A value in doubt is marked inexact.
pub fn setting(field: &FieldState) -> Setting {
    let (process, record, name) = &field.key;
    let seen = field.seen.as_ref();
    let mut setting = Setting {
        host: process.host.to_string(),
        ioc: process.ioc.to_string(),
        pv: field.pv(),
        record: record.to_string(),
        field: name.to_string(),
        value: field.value(),
        text: seen.and_then(|seen| seen.text().map(str::to_owned)),
        cut: seen.and_then(|seen| seen.cut),
        inexact: field.is_known() && !field.is_certain(),
        alarm: seen.and_then(|seen| seen.alarm),
        time: seen.map(|seen| seen.set().unwrap_or(seen.time)),
        remark: field.doubt.as_deref().map(str::to_owned),
        process: (process.start, process.pid),
        by_put: seen.is_some_and(|seen| seen.by_put),
        ..Setting::default()
    };
    if let Some(of) = &field.of {
        let context = of.run.context();
        let definition = match of.field {
            Some(number) => context.field(number),
            None => definition(&context, of.record, name),
        };
        describe(&mut setting, &context, of.record, definition);
        setting.room = of.run.room(of.record).filter(|_| setting.field == "VAL");
    }
    setting
}

/// Adds what the log says of the field.
pub fn describe(setting: &mut Setting, context: &Context, record: RecordId, definition: Option<&Field>) {
    setting.rtype = context.record(record).map_or_else(String::new, |record| record.rtype.to_owned());
    setting.dbf = definition.map(|field| field.dbf);
    let owned = |texts: &[Box<str>]| texts.iter().map(|text| text.to_string()).collect::<Vec<_>>();
    setting.labels = match definition.map(|field| (field.dbf, field.menu)) {
        Some((Dbf::Menu | Dbf::Device, Some(menu))) => {
            context.menu(menu).map(|menu| menu.choices.clone()).unwrap_or_default()
        }
        _ if setting.field == "VAL" => owned(context.enum_strings(record)),
        _ => Vec::new(),
    };
    let input = setting.field == "VAL" && INPUTS.contains(&setting.rtype.as_str());
    setting.read_only = input && !setting.by_put || READ_ONLY.contains(&setting.field.as_str());
}

/// The definition of a record's field, if the log has it.
fn definition<'a>(context: &'a Context, record: RecordId, name: &str) -> Option<&'a Field> {
    let record = context.record(record)?;
    let fields = context.in_force().fields.values();
    fields
        .into_iter()
        .find(|field| field.ioc == record.ioc && field.rtype == record.rtype && field.name == name)
}
