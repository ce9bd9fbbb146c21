//! Queues of an IOC's callbacks that fill or overflow.

use super::ids::*;
use serde::{Deserialize, Serialize};

/// A queue whose entries one or some threads of the IOC work off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Queue {
    /// Callbacks of low priority.
    Low,
    /// Callbacks of medium priority.
    Medium,
    /// Callbacks of high priority.
    High,
    /// Requests to process a record once: `scanOnce`.
    ScanOnce,
}

impl Queue {
    /// All.
    pub const ALL: [Queue; 4] = [Queue::Low, Queue::Medium, Queue::High, Queue::ScanOnce];

    /// Its name in JSON, and for people.
    pub fn name(self) -> &'static str {
        match self {
            Queue::Low => "callback queue low",
            Queue::Medium => "callback queue medium",
            Queue::High => "callback queue high",
            Queue::ScanOnce => "scanOnce queue",
        }
    }

    /// The name with which those of the threads begin that work it off.
    pub fn thread(self) -> &'static str {
        match self {
            Queue::Low => "cbLow",
            Queue::Medium => "cbMedium",
            Queue::High => "cbHigh",
            Queue::ScanOnce => "scanOnce",
        }
    }
}

/// A queue is more than half full, or overflows, or does so no more. It is noted when that begins, when the first entry is
/// lost, when the thread is found, and when it is over: not more than a quarter full for ten seconds, in which nothing was lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueFill {
    /// The IOC.
    pub ioc: IocId,
    /// The queue.
    pub queue: Queue,
    /// Monotonic time of the look before the one that first showed it; nanoseconds. With IOC and queue it names this
    /// filling.
    pub since: u64,
    /// Monotonic time of the last look that showed it so.
    pub last: u64,
    /// Whether it is over.
    pub is_over: bool,
    /// The entries that it has room for.
    pub size: u32,
    /// The entries in it, at this look.
    pub used: u32,
    /// The most entries that were seen in it meanwhile, or that the IOC counted (its high-water mark).
    pub most: u32,
    /// How often it had no room for an entry meanwhile: so many were lost.
    pub overflows: u32,
    /// The thread that works it off and has processed one record since before the last look; empty if none is known.
    pub thread: String,
    /// That record; `None` if unknown.
    pub record: Option<RecordId>,
}

impl QueueFill {
    /// What it is, for people. `lasted`: for how long; `None`: it is about the present. `record`: the name of the record.
    pub fn sentence(&self, lasted: Option<&str>, record: Option<&str>) -> String {
        let Self { size, used, most, overflows, .. } = self;
        let name = self.queue.name();
        let times = if *overflows == 1 { "time" } else { "times" };
        let mut text = match (lasted, overflows) {
            (None, 0) => format!("{name} fills: {used} of {size} entries, at most {most}"),
            (None, _) => format!("{name} has overflowed {overflows} {times}: {used} of {size} entries"),
            (Some(lasted), 0) => format!("{name} was filled for {lasted}: at most {most} of {size} entries"),
            (Some(lasted), _) => {
                format!("{name} overflowed {overflows} {times}, filled for {lasted}: {size} entries")
            }
        };
        if !self.thread.is_empty() {
            text += &format!("; {}", self.thread);
            text += &record.map_or(" was in one record".to_string(), |record| format!(" processed {record}"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences() {
        let mut fill = QueueFill {
            ioc: 1,
            queue: Queue::Low,
            since: 1,
            last: 2,
            is_over: false,
            size: 2000,
            used: 1203,
            most: 1300,
            overflows: 0,
            thread: "cbLow".into(),
            record: Some(1),
        };
        let text = |fill: &QueueFill, lasted| fill.sentence(lasted, Some("H:LOW"));
        assert_eq!(
            text(&fill, None),
            "callback queue low fills: 1203 of 2000 entries, at most 1300; cbLow processed H:LOW"
        );
        assert_eq!(
            text(&fill, Some("3.0 s")),
            "callback queue low was filled for 3.0 s: at most 1300 of 2000 entries; cbLow processed H:LOW"
        );
        (fill.overflows, fill.thread) = (12, String::new());
        assert_eq!(text(&fill, None), "callback queue low has overflowed 12 times: 1203 of 2000 entries");
        assert_eq!(
            text(&fill, Some("3.0 s")),
            "callback queue low overflowed 12 times, filled for 3.0 s: 2000 entries"
        );
    }
}
