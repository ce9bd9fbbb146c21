//! What can be sent to a collector: spans, log records, data points of metrics.

use serde::Serialize;

/// A batch that has so many is sent or written, 300 to 500 kB of spans as JSON. Collectors take 4 MB and more in a request.
pub const SIZE: usize = 1000;

/// A signal of OpenTelemetry.
#[derive(Debug, PartialEq, Eq)]
pub struct Signal {
    /// The path below a collector's URL that it is posted to.
    pub path: &'static str,
    /// What it consists of, as counted.
    pub noun: &'static str,
    /// What is never divided, and consists of these.
    pub whole: &'static str,
    /// The key in an answer as JSON that counts those which were rejected.
    pub rejected: &'static str,
    /// The option that leaves out the first of them.
    pub skip: &'static str,
}

/// Chains as traces.
pub static TRACES: Signal = Signal {
    path: "/v1/traces",
    noun: "span",
    whole: "trace",
    rejected: "rejectedSpans",
    skip: "--skip-spans",
};

/// What happened, as log records.
pub static LOGS: Signal = Signal {
    path: "/v1/logs",
    noun: "log record",
    whole: "request",
    rejected: "rejectedLogRecords",
    skip: "--skip-records",
};

/// Metrics.
pub static METRICS: Signal = Signal {
    path: "/v1/metrics",
    noun: "data point",
    whole: "request",
    rejected: "rejectedDataPoints",
    skip: "--skip-points",
};

/// What is sent in one request. It serializes as OTLP JSON.
pub trait Batch: Default + Serialize {
    /// What is never divided between two.
    type Part;
    /// What it is.
    const SIGNAL: &'static Signal;

    /// Adds a part.
    fn add(&mut self, part: &Self::Part);

    /// How many spans, records or points it has.
    fn count(&self) -> usize;

    /// How many parts it has.
    fn parts(&self) -> usize;

    /// As a protobuf message.
    fn protobuf(&self) -> Vec<u8>;

    /// The first half of its parts, and the others.
    ///
    /// # Errors
    /// The batch itself, if it has only one.
    fn halves(self) -> Result<(Self, Self), Self>;
}
