//! The shape of the page's data: what the script in the page reads, by these names.

use crate::output::report::strings::{Selected, Strings, Text};
use serde::Serialize;

/// All of it.
#[derive(Serialize, Default)]
pub struct Data {
    pub(super) base: i64,
    pub(super) offset: i32,
    pub(super) days: bool,
    pub(super) digits: usize,
    pub(super) first: f64,
    pub(super) last: f64,
    /// Whether only some PVs, users or clients were asked for.
    pub(super) chosen: bool,
    pub(super) strings: Strings,
    pub(super) iocs: Vec<Ioc>,
    pub(super) writers: Vec<(Text, u64)>,
    pub(super) puts: Puts,
    pub(super) alarms: Alarms,
    pub(super) causes: Vec<(&'static str, Text, Text, Text, Text)>,
    pub(super) records: Records,
    pub(super) plots: Vec<Plot>,
    pub(super) chains: Vec<Chain>,
    pub(super) chain_total: u64,
    pub(super) usage: Vec<Usage>,
    /// IOCs without a plot of what they used, and lines that had no room.
    pub(super) usage_left_out: (usize, usize),
    pub(super) losses: Vec<Gap>,
    pub(super) gaps: Vec<Gap>,
    pub(super) marks: Vec<(f64, String)>,
}

/// From when to when, if known.
pub(super) type Span = (Option<f64>, Option<f64>);

#[derive(Serialize)]
pub(super) struct Ioc {
    pub(super) name: String,
    pub(super) host: String,
    pub(super) end: Option<f64>,
    pub(super) how: String,
    /// Times in which it was recorded; an end is null if it lasted to the end of the log.
    pub(super) recorded: Vec<Span>,
    pub(super) bins: Bins,
}

/// Counts: start of the first bin, width in ms, counts; a negative number stands for so many zeros.
#[derive(Serialize, Default)]
pub(super) struct Bins(pub(super) f64, pub(super) f64, pub(super) Vec<i64>);

#[derive(Serialize, Default)]
pub(super) struct Puts {
    pub(super) total: u64,
    pub(super) time: Vec<f64>,
    pub(super) pv: Vec<Text>,
    pub(super) record: Vec<i64>,
    pub(super) ioc: Vec<i64>,
    pub(super) writer: Vec<i64>,
    pub(super) from: Vec<Text>,
    pub(super) address: Vec<Text>,
    pub(super) old: Vec<Text>,
    pub(super) new: Vec<Text>,
    pub(super) asked: Vec<Text>,
    pub(super) status: Vec<Text>,
    pub(super) via: Vec<Text>,
    pub(super) ms: Vec<Option<f64>>,
    pub(super) chain: Vec<i64>,
    pub(super) flags: Vec<u16>,
}

#[derive(Serialize, Default)]
pub(super) struct Alarms {
    pub(super) total: u64,
    pub(super) time: Vec<f64>,
    pub(super) record: Vec<i64>,
    pub(super) from: Vec<i64>,
    pub(super) to: Vec<u16>,
    pub(super) status: Vec<Text>,
    pub(super) value: Vec<Text>,
    pub(super) cause: Vec<i64>,
    pub(super) chain: Vec<i64>,
    pub(super) gap: Vec<u8>,
}

#[derive(Serialize, Default)]
pub(super) struct Records {
    pub(super) total: usize,
    pub(super) name: Vec<Text>,
    pub(super) rtype: Vec<Text>,
    pub(super) ioc: Vec<i64>,
    pub(super) processed: Vec<u64>,
    pub(super) busy_ms: Vec<f64>,
    pub(super) longest_ms: Vec<f64>,
    pub(super) rate: Vec<u64>,
    /// Null for records that are not counted in a chosen time.
    pub(super) bins: Vec<Option<Bins>>,
}

#[derive(Serialize)]
pub(super) struct Plot {
    pub(super) record: i64,
    pub(super) units: Text,
    pub(super) states: Vec<Text>,
    pub(super) seen: u64,
    pub(super) thinned: bool,
    pub(super) time: Vec<f64>,
    pub(super) value: Vec<Option<f64>>,
}

/// What an IOC used.
#[derive(Serialize)]
pub(super) struct Usage {
    pub(super) ioc: i64,
    pub(super) plots: Vec<UsagePlot>,
}

#[derive(Serialize)]
pub(super) struct UsagePlot {
    pub(super) title: &'static str,
    pub(super) units: &'static str,
    /// Whether the axis begins with 0.
    pub(super) zero: bool,
    /// The IOC's, then those of its threads.
    pub(super) lines: Vec<UsageLine>,
}

#[derive(Serialize)]
pub(super) struct UsageLine {
    /// Name of the thread.
    pub(super) name: String,
    pub(super) seen: u64,
    pub(super) thinned: bool,
    pub(super) time: Vec<f64>,
    /// Null: not known from then on.
    pub(super) value: Vec<Option<f64>>,
}

#[derive(Serialize)]
pub(super) struct Chain {
    pub(super) serial: u64,
    pub(super) time: f64,
    pub(super) ms: f64,
    pub(super) cause: i64,
    pub(super) title: Text,
    pub(super) ioc: i64,
    pub(super) iocs: u32,
    pub(super) severity: u16,
    pub(super) processed: u64,
    pub(super) open: bool,
    /// Steps that are not in the page.
    pub(super) left_out: usize,
    pub(super) parent: Vec<i64>,
    pub(super) kind: Vec<u8>,
    pub(super) name: Vec<Text>,
    pub(super) detail: Vec<Text>,
    pub(super) value: Vec<Text>,
    pub(super) severities: Vec<u16>,
    /// Microseconds from the begin of the chain.
    pub(super) start: Vec<f64>,
    pub(super) length: Vec<Option<f64>>,
    pub(super) place: Vec<i64>,
    pub(super) hop: Vec<u8>,
}

#[derive(Serialize)]
pub(super) struct Gap {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) count: u64,
    pub(super) what: &'static str,
    pub(super) cause: String,
    pub(super) ioc: i64,
}

impl Data {
    /// Drops the texts that nothing refers to: a flood has one or two for each put, and the page lists few of the puts.
    pub(super) fn drop_unused_texts(&mut self) {
        let mut used = Selected::of(std::mem::take(&mut self.strings));
        self.each_text(&mut |text| *text = used.number(*text));
        self.strings = used.into_strings();
    }

    /// Calls `take` with the number of each text that anything refers to. Beside its numbers, the data has no others.
    fn each_text(&mut self, take: &mut impl FnMut(&mut Text)) {
        self.writers.iter_mut().for_each(|(name, _)| take(name));
        let Puts { pv, from, address, old, new, asked, status, via, .. } = &mut self.puts;
        [pv, from, address, old, new, asked, status, via].into_iter().flatten().for_each(&mut *take);
        let Alarms { status, value, .. } = &mut self.alarms;
        [status, value].into_iter().flatten().for_each(&mut *take);
        for (_, what, value, who, through) in &mut self.causes {
            [what, value, who, through].into_iter().for_each(&mut *take);
        }
        let Records { name, rtype, .. } = &mut self.records;
        [name, rtype].into_iter().flatten().for_each(&mut *take);
        for Plot { units, states, .. } in &mut self.plots {
            take(units);
            states.iter_mut().for_each(&mut *take);
        }
        for Chain { title, name, detail, value, .. } in &mut self.chains {
            take(title);
            [name, detail, value].into_iter().flatten().for_each(&mut *take);
        }
    }
}
