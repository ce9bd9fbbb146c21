//! Requests to a recorder, and its replies, as bytes.

use std::time::Duration;

/// Longest wait of either side for the other. A disk may take seconds to store a mark.
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);
/// Size of the longest request, bytes: a mark is a line or two.
pub const MAX_BYTES: usize = 4096;

/// A request to a recorder.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// Report your status.
    Status {
        /// Whether to report as JSON.
        json: bool,
    },
    /// Write a mark with this text.
    Mark(String),
}

/// A recorder's reply.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// The request was carried out; the text requested.
    Done(String),
    /// The request was refused; the reason, as a sentence for people.
    Refused(String),
}

impl Request {
    pub(super) fn encode(&self) -> String {
        match self {
            Request::Status { json: false } => "status text".into(),
            Request::Status { json: true } => "status json".into(),
            Request::Mark(text) => format!("mark {text}"),
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Request> {
        match std::str::from_utf8(bytes).ok()? {
            "status text" => Some(Request::Status { json: false }),
            "status json" => Some(Request::Status { json: true }),
            text => text.strip_prefix("mark ").map(|mark| Request::Mark(mark.into())),
        }
    }
}

impl Reply {
    pub(super) fn encode(&self) -> String {
        let (word, text) = match self {
            Reply::Done(text) => ("ok", text),
            Reply::Refused(text) => ("no", text),
        };
        format!("{word}\n{text}")
    }

    pub(super) fn decode(text: &str) -> Option<Reply> {
        match text.split_once('\n')? {
            ("ok", text) => Some(Reply::Done(text.into())),
            ("no", text) => Some(Reply::Refused(text.into())),
            _ => None,
        }
    }
}
