//! A put for tests.

use crate::model::putlog::{PutLine, Via};
use iocrec_log::event::{Dbf, Value};

/// A put with callback whose value the record limited.
pub fn put() -> PutLine {
    PutLine {
        span: None,
        time: 1_790_000_000_123_456_789,
        even: 1_790_000_000_123_456_789,
        host: Some("box1".into()),
        ioc: Some("demo".into()),
        ioc_process: Some((100, 1_000_000_000)),
        pv: Some("T:SP".into()),
        record: Some("T:SP".into()),
        field: Some("VAL".into()),
        user: Some("alice".into()),
        client_host: Some("console3".into()),
        client: Some("10.0.0.5:41022".into()),
        server: Some("10.0.0.9:5064".into()),
        via: Via::CaWriteNotify,
        dbr: "DBR_DOUBLE".into(),
        count: 1,
        requested: Value::Double(12.0),
        old: Value::Double(1.5),
        new: Value::Double(10.0),
        status: "ok".into(),
        callback_ms: Some(3.25),
        thread: Some("CAS-client".into()),
        source: "both",
        inexact: false,
        as_asked: false,
        cause_record: None,
        old_text: None,
        new_text: None,
        requested_cut: Some(false),
        old_cut: Some(false),
        new_cut: Some(false),
        acknowledges: None,
        client_ioc: None,
        ended: 1_790_000_000_126_706_789,
        processed: Some(1_790_000_000_123_556_789),
        rtype: Some("ao".into()),
        dbf: Some(Dbf::Double),
        wrote: true,
        written: None,
        protocol: Some("ca"),
        pva: None,
        process: None,
    }
}
