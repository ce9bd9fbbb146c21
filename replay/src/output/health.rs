//! What IOCs used of the machine: a table of the IOCs and one of their threads, or a line for each while.

pub mod drawing;
pub mod summary;

use super::rows::{self, Row as Listed};
use crate::answers::resources::Row;
use crate::output::format::Format;
use crate::time::Zone;
use serde::Serialize;

/// The formats of rows; for people there is the [`summary`].
pub static FORMATS: [Format<Row>; 3] = rows::formats();

/// The keys of a line.
#[derive(Serialize)]
pub struct Line<'a> {
    /// End of the while.
    time: String,
    since: String,
    seconds: f64,
    host: Option<&'a str>,
    ioc: Option<&'a str>,
    pid: Option<u32>,
    /// Of one CPU, as in all percentages here.
    cpu_percent: Option<f64>,
    waiting_percent: Option<f64>,
    resident_bytes: Option<u64>,
    minor_faults: u64,
    major_faults: u64,
    threads: u32,
    descriptors: Option<u32>,
    udp_drops: Option<u64>,
    /// Circuits that it served at the end of the while, and channels on them.
    clients: Option<u32>,
    channels: Option<u32>,
    most: Vec<ThreadLine<'a>>,
}

/// The keys of the threads of one name.
#[derive(Serialize)]
pub struct ThreadLine<'a> {
    thread: Option<&'a str>,
    cpu_percent: Option<f64>,
    waiting_percent: Option<f64>,
    /// How often it got a CPU.
    switches: u64,
}

/// A number with three digits behind the point.
fn rounded(number: Option<f64>) -> Option<f64> {
    number.map(|number| (number * 1000.0).round() / 1000.0)
}

impl Listed for Row {
    type Line<'a> = Line<'a>;

    fn line<'a>(&'a self, zone: &'a Zone) -> Line<'a> {
        let known = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        let used = &self.used;
        let most = self.threads.iter().map(|thread| ThreadLine {
            thread: known(&thread.name),
            cpu_percent: rounded(self.percent(Some(thread.used.cpu))),
            waiting_percent: rounded(self.percent(Some(thread.used.waiting))),
            switches: thread.used.times,
        });
        Line {
            time: zone.format(self.time, 9),
            since: zone.format(self.since, 9),
            seconds: used.period as f64 / 1e6,
            host: known(&self.host),
            ioc: known(&self.ioc),
            pid: self.pid,
            cpu_percent: rounded(self.percent(used.cpu)),
            waiting_percent: rounded(self.percent(used.waiting)),
            resident_bytes: self.resident(),
            minor_faults: used.minor_faults,
            major_faults: used.major_faults,
            threads: used.threads,
            descriptors: used.descriptors,
            udp_drops: used.udp_drops,
            clients: self.serves().map(|count| count.clients),
            channels: self.serves().map(|count| count.channels),
            most: most.collect(),
        }
    }

    fn text(&self, zone: &Zone) -> String {
        // not used: people get the summary
        zone.format(self.time, 3)
    }
}
