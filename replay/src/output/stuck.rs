//! Threads that stood still, and scans that came too late: a line each.

use super::rows::{self, Row};
use crate::answers::hangs::{Hang, What};
use crate::output::format::Format;
use crate::time::Zone;
use serde::Serialize;

/// The formats.
pub static FORMATS: [Format<Hang>; 3] = rows::formats();

/// The keys of a row.
#[derive(Serialize)]
pub struct Line<'a> {
    time: String,
    end: Option<String>,
    host: Option<&'a str>,
    ioc: Option<&'a str>,
    pid: Option<u32>,
    /// `stuck`, `overrun` or `queue`.
    kind: &'static str,
    text: &'a str,
    seconds_min: f64,
    seconds_max: Option<f64>,
    /// `open`, `runs`, `thread_ended`, `ioc_ended`, `unseen`, `recorder_ended` or `not_known`.
    ended: Option<&'static str>,
    thread: Option<&'a str>,
    tid: Option<u32>,
    waits_for: Option<&'static str>,
    object: Option<&'a str>,
    call: Option<u32>,
    record: Option<&'a str>,
    lockset: Option<bool>,
    holder: Option<&'a str>,
    holder_tid: Option<u32>,
    holder_record: Option<&'a str>,
    holder_certain: Option<bool>,
    scan: Option<&'a str>,
    overruns: Option<u64>,
    longest: Option<&'a str>,
    longest_s: Option<f64>,
    queue: Option<&'static str>,
    queue_size: Option<u32>,
    queue_most: Option<u32>,
    overflows: Option<u32>,
}

impl Row for Hang {
    type Line<'a> = Line<'a>;

    fn line<'a>(&'a self, zone: &'a Zone) -> Line<'a> {
        let known = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        let mut line = Line {
            time: zone.format(self.time, 9),
            end: self.end.map(|end| zone.format(end, 9)),
            host: known(&self.host),
            ioc: known(&self.ioc),
            pid: self.pid,
            kind: "stuck",
            text: &self.text,
            seconds_min: self.seconds.0,
            seconds_max: self.seconds.1,
            ended: None,
            thread: None,
            tid: None,
            waits_for: None,
            object: None,
            call: None,
            record: None,
            lockset: None,
            holder: None,
            holder_tid: None,
            holder_record: None,
            holder_certain: None,
            scan: None,
            overruns: None,
            longest: None,
            longest_s: None,
            queue: None,
            queue_size: None,
            queue_most: None,
            overflows: None,
        };
        match &self.what {
            What::Stuck { stuck, ended, record, holder_record, .. } => {
                line.ended = Some(ended.name());
                (line.thread, line.tid) = (known(&stuck.thread), Some(stuck.tid));
                (line.waits_for, line.object) = (Some(stuck.wait.name()), known(&stuck.object));
                (line.call, line.record) = (stuck.call, record.as_deref());
                line.lockset = Some(stuck.is_lockset);
                if let Some(holder) = &stuck.holder {
                    (line.holder, line.holder_tid) = (known(&holder.thread), Some(holder.tid));
                    line.holder_record = holder_record.as_deref();
                    line.holder_certain = Some(holder.is_certain);
                }
            }
            What::Queue { fill, record } => {
                line.kind = "queue";
                line.queue = Some(fill.queue.name());
                (line.queue_size, line.queue_most) = (Some(fill.size), Some(fill.most));
                line.overflows = Some(fill.overflows);
                (line.thread, line.record) = (known(&fill.thread), record.as_deref());
            }
            What::Overruns { list, count, longest } => {
                line.kind = "overrun";
                (line.scan, line.overruns) = (Some(list.as_str()), Some(*count));
                line.longest = longest.as_ref().map(|(name, _)| name.as_str());
                line.longest_s = longest.as_ref().map(|(_, took)| *took);
            }
        }
        line
    }

    fn text(&self, zone: &Zone) -> String {
        let ioc = if self.ioc.is_empty() { "-" } else { &*self.ioc };
        format!("{:<32}  {ioc:<12}  {}", zone.format(self.time, 6), self.text)
    }
}
