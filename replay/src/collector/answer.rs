//! What a collector answers. Nothing of it is trusted: it is read up to a bound, and its texts are cut.

use super::signal::Signal;
use std::fmt::Display;
use std::io;
use std::time::Duration;

/// Bytes of an answer's body that are read, and of its headers that are taken: a hundred times what collectors send.
pub(super) const BOUND: usize = 1 << 16;
/// Characters of its texts that are shown.
const SHOWN: usize = 300;

/// An answer to a request, as far as it was read.
pub(super) struct Reply {
    status: i32,
    phrase: String,
    kind: String,
    retry_after: Option<String>,
    /// How the body is packed, if it is, though nobody asked for that: it is not unpacked, since it may be a bomb.
    packed: Option<String>,
    body: Vec<u8>,
}

/// What an answer means.
pub(super) enum Answer {
    /// The request was taken, but for so many; the reason, or a warning.
    Taken { rejected: u64, reason: String },
    /// The request is larger than the collector takes.
    TooLarge,
    /// The collector won't take it, ever.
    Refused(String),
    /// It may be sent again, after the time that the collector asks for.
    Later { reason: String, after: Option<Duration> },
}

/// What it means if there is no answer.
pub(super) fn broken(error: minreq::Error) -> Answer {
    match error {
        minreq::Error::TooManyRedirections => {
            Answer::Refused("answered with a redirection, which is not followed".into())
        }
        minreq::Error::IoError(error) => Answer::Later { reason: shown(&error), after: None },
        error => Answer::Later { reason: shown(&error), after: None },
    }
}

impl Reply {
    /// Reads a reply.
    pub(super) fn read(mut response: minreq::ResponseLazy) -> Result<Reply, minreq::Error> {
        let mut header = |name: &str| response.headers.remove(name);
        let (kind, retry_after) = (header("content-type").unwrap_or_default(), header("retry-after"));
        let packed =
            header("content-encoding").filter(|packed| !packed.trim().eq_ignore_ascii_case("identity"));
        let (status, phrase) = (response.status_code, std::mem::take(&mut response.reason_phrase));
        let parts = response.by_ref().take(BOUND).map(|byte| Ok(byte?.0));
        let mut body = parts.collect::<Result<Vec<u8>, minreq::Error>>()?;
        let length: Option<usize> =
            response.headers.get("content-length").and_then(|text| text.trim().parse().ok());
        // minreq takes off the header of chunks when it has read the last one
        let is_short = match length {
            Some(length) => body.len() < length,
            None => response.headers.contains_key("transfer-encoding"),
        };
        // the end may say what was rejected; a status of less than three digits is cut, too
        if status < 100 || is_short && body.len() < BOUND {
            let error =
                io::Error::new(io::ErrorKind::UnexpectedEof, "the connection broke within the answer");
            return Err(minreq::Error::IoError(error));
        }
        if packed.is_some() {
            body.clear();
        }
        Ok(Reply { status, phrase, kind: kind.to_ascii_lowercase(), retry_after, packed, body })
    }

    fn is(&self, kind: &str) -> bool {
        self.kind.split(';').next().is_some_and(|own| own.trim() == kind)
    }

    /// The text of an error: of a protobuf or JSON Status, or what the body says.
    fn message(&self) -> String {
        if let Some(packed) = &self.packed {
            return format!("its text is packed ({}), which was not asked for", shown(packed));
        }
        let text = if self.is("application/x-protobuf") {
            Fields(&self.body).texts(2).last().unwrap_or_default()
        } else if self.is("application/json") {
            let json: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
            json.get("message").and_then(|text| text.as_str()).unwrap_or_default().to_owned()
        } else {
            String::from_utf8_lossy(&self.body).into_owned()
        };
        shown(&text.trim())
    }

    /// How many were rejected, and the reason.
    fn partial_success(&self, signal: &Signal) -> (u64, String) {
        if let Some(packed) = &self.packed {
            let said = "whether it rejected some is not known: its answer is packed";
            return (0, format!("{said} ({}), which was not asked for", shown(packed)));
        }
        if self.is("application/json") {
            let json: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
            let part = json.get("partialSuccess").cloned().unwrap_or_default();
            let rejected = part.get(signal.rejected).cloned().unwrap_or_default();
            let rejected = rejected.as_u64().or_else(|| rejected.as_str()?.parse().ok()).unwrap_or(0);
            let reason = part.get("errorMessage").and_then(|text| text.as_str()).unwrap_or_default();
            return (rejected, shown(&reason));
        }
        let Some(Field::Bytes(part)) = Fields(&self.body).of(1).last() else { return (0, String::new()) };
        let rejected = match Fields(part).of(1).last() {
            Some(Field::Number(rejected)) => rejected,
            _ => 0,
        };
        (rejected, shown(&Fields(part).texts(2).last().unwrap_or_default()))
    }
}

impl Answer {
    /// What a reply means for this signal.
    pub(super) fn of(reply: Reply, signal: &Signal) -> Answer {
        let said = |text: String| {
            let phrase =
                if reply.phrase.is_empty() { String::new() } else { format!(" {}", shown(&reply.phrase)) };
            let text = if text.is_empty() { text } else { format!(": {text}") };
            format!("answered {}{phrase}{text}", reply.status)
        };
        match reply.status {
            // A server of pages that answers anything with a page has taken nothing.
            200..=299 if reply.body.is_empty() || reply.is("application/x-protobuf") || reply.is("application/json") => {
                let (rejected, reason) = reply.partial_success(signal);
                Answer::Taken { rejected, reason }
            }
            200..=299 => Answer::Refused(format!(
                "answered {} with {}, not as a collector does; see whether the port is that of OTLP over HTTP",
                reply.status,
                if reply.kind.is_empty() { "a text of no kind".to_owned() } else { shown(&reply.kind) }
            )),
            413 => Answer::TooLarge,
            429 | 502 | 503 | 504 => {
                let after = reply.retry_after.as_ref().and_then(|text| text.trim().parse().ok());
                Answer::Later { reason: said(reply.message()), after: after.map(Duration::from_secs) }
            }
            _ => Answer::Refused(said(reply.message())),
        }
    }
}

/// A text to be shown, cut.
fn shown(text: &dyn Display) -> String {
    let text = text.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// A field of a protobuf message.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a protobuf message; ends where it is damaged.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Those of a number.
    fn of(self, number: u64) -> impl Iterator<Item = Field<'a>> {
        self.filter(move |(own, _)| *own == number).map(|(_, field)| field)
    }

    /// The texts of a number.
    fn texts(self, number: u64) -> impl Iterator<Item = String> + use<'a> {
        self.of(number).filter_map(|field| match field {
            Field::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            Field::Number(_) => None,
        })
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn bytes(&mut self, length: u64) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Field<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let tag = self.varint()?;
        let field = match tag & 7 {
            0 => Field::Number(self.varint()?),
            1 => Field::Bytes(self.bytes(8)?),
            2 => {
                let length = self.varint()?;
                Field::Bytes(self.bytes(length)?)
            }
            5 => Field::Bytes(self.bytes(4)?),
            _ => return None,
        };
        Some((tag >> 3, field))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collector::signal::TRACES;

    fn reply(status: i32, kind: &str, body: &[u8]) -> Reply {
        let (phrase, kind, body) = (String::new(), kind.into(), body.into());
        Reply { status, phrase, kind, retry_after: None, packed: None, body }
    }

    #[test]
    fn partial_success_in_both_forms() {
        let protobuf = reply(200, "application/x-protobuf", b"\x0a\x08\x08\x03\x12\x04full");
        assert_eq!(protobuf.partial_success(&TRACES), (3, "full".into()));
        for rejected in ["3", "\"3\""] {
            let json = format!(
                "{{\"partialSuccess\": {{\"rejectedSpans\": {rejected}, \"errorMessage\": \"full\"}}}}"
            );
            let json = reply(200, "application/json; charset=utf-8", json.as_bytes());
            assert_eq!(json.partial_success(&TRACES), (3, "full".into()));
        }
        assert_eq!(reply(200, "", b"").partial_success(&TRACES), (0, String::new()));
    }

    #[test]
    fn damaged_answers_are_no_harm() {
        let whole = b"\x0a\x08\x08\x03\x12\x04full\x15\x01\x02\x03\x04\x19\x01";
        for end in 0..whole.len() {
            let _ = reply(200, "application/x-protobuf", &whole[..end]).partial_success(&TRACES);
            let _ = reply(400, "application/x-protobuf", &whole[..end]).message();
        }
        let endless = reply(400, "application/x-protobuf", &[0xff; 100]);
        assert_eq!(endless.message(), "");
        assert_eq!(reply(400, "text/plain", &[b'x'; 1000]).message().len(), SHOWN + 3);
    }

    #[test]
    fn a_page_is_no_success() {
        assert!(matches!(Answer::of(reply(200, "text/html", b"<p>"), &TRACES), Answer::Refused(_)));
        assert!(matches!(Answer::of(reply(200, "", b""), &TRACES), Answer::Taken { rejected: 0, .. }));
        assert!(matches!(Answer::of(reply(413, "", b""), &TRACES), Answer::TooLarge));
    }
}
