//! Parses the events that the BPF programs send.
//!
//! Their layout is that of [`contract`]. A sample may be longer than the event: perf buffers pad to
//! 8 bytes less 4. No sample, however malformed, panics.

use std::mem::offset_of;

use iocrec_log::event::{CauseKind, GaveUp, PutKind};

use crate::bpf::contract::{self, Hit, Kind, NO_LINK, NO_SEVERITY, NO_VALUE};
use crate::bpf::shared::Shared;

/// Members of every hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub time: u64,
    /// Stack pointer at the function's entry.
    pub sp: u64,
    /// Return address; 0 if it could not be read.
    pub caller: u64,
    /// The record's address, or the pointer that links cause and effect.
    pub object: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Alarm status at completion.
    pub status: u16,
    /// Alarm severity at completion.
    pub severity: u16,
    /// PACT at dbProcess or in the process routine.
    pub active: bool,
    /// Type of the first value as the traced process numbers it.
    pub dbf: Option<u8>,
}

/// Raw bytes of a value, and its actual number of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw<'a> {
    /// Type as the traced process numbers it.
    pub dbf: u16,
    /// Number of elements in the IOC.
    pub count: u32,
    /// The first elements, in the machine's byte order; empty if they could not be read.
    pub bytes: &'a [u8],
}

/// Kind of a record's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One value.
    Single,
    /// An array, even of one element.
    Array,
    /// Characters that form a string.
    Text,
}

/// The function hit, with its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// dbProcess.
    Process,
    /// A record type's process routine.
    RsetProcess,
    /// recGblFwdLink.
    Complete {
        /// Kind of value.
        form: Form,
        /// The record's value, if it has one.
        value: Option<Raw<'a>>,
    },
    /// dbPut, dbPutField or dbProcessNotify.
    Put {
        /// Which of the three.
        kind: PutKind,
        /// Address of the field's dbFldDes.
        field: u64,
        /// Requested value.
        requested: Raw<'a>,
        /// Value before the put.
        old: Raw<'a>,
        /// `old` is the text of a link, of this kind and with this `pvlMask` (link.h).
        link: Option<(u16, u16)>,
    },
    /// dbCaPutLinkCallback.
    LinkPut {
        /// The record; 0 if the link does not point to it.
        record: u64,
        /// Target, up to its NUL.
        pv: &'a [u8],
        /// The value sent.
        value: Raw<'a>,
    },
    /// Chains that began with a record and were left out.
    ChainsLeftOut {
        /// Start of the first of them.
        since: u64,
        /// Number of chains.
        count: u64,
    },
    /// A request to process something later.
    Cause {
        /// The function called.
        kind: CauseKind,
        /// The record named, or an address that may be one.
        user: u64,
    },
    /// ca_array_put or ca_array_put_callback; the head's object is the chid.
    ClientPut {
        /// The channel's number (CID); `None` if it could not be read.
        cid: Option<u32>,
    },
    /// write or writev to standard output or standard error, which is the head's object.
    Console {
        /// Bytes that the process writes.
        length: u32,
        /// The first of them.
        text: &'a [u8],
    },
    /// A message for errlog.
    Errlog {
        /// Its severity as errlog.h numbers it, if it was sent with one.
        severity: Option<u16>,
        /// Its format, perhaps cut.
        format: &'a [u8],
    },
    /// exit or epicsAssert; the head's object is the line of an assertion.
    GivingUp {
        /// Which.
        how: GaveUp,
        /// Of an assertion, the source file, perhaps cut.
        file: &'a [u8],
        /// What should have been true, perhaps cut.
        expression: &'a [u8],
    },
}

/// At most `bytes` of `sample` from `at`.
fn some_of(sample: &[u8], at: usize, bytes: usize) -> &[u8] {
    let rest = sample.get(at..).unwrap_or_default();
    rest.get(..bytes).unwrap_or(rest)
}

/// Parses a sample; `None` if it is malformed.
pub fn parse(sample: &[u8]) -> Option<(Head, Body<'_>)> {
    // without the padding of a perf buffer
    let sample = &sample[..sample.len() & !7];
    let hit = Hit::read(sample)?;
    let head = Head {
        time: hit.time,
        sp: hit.sp,
        caller: hit.caller,
        object: hit.object,
        pid: hit.pid,
        tid: hit.tid,
        status: hit.status,
        severity: hit.severity,
        active: hit.detail != 0,
        dbf: (hit.dbf != NO_VALUE).then_some(hit.dbf),
    };
    let cause = |kind| Some(Body::Cause { kind, user: contract::Cause::read(sample)?.user });
    let body = match Kind::of(hit.kind.into())? {
        Kind::Process => Body::Process,
        Kind::RsetProcess => Body::RsetProcess,
        Kind::Complete => Body::Complete { form: form(hit.detail), value: complete(sample, head.dbf) },
        Kind::Put => put(sample, PutKind::Put, head.dbf)?,
        Kind::PutField => put(sample, PutKind::PutField, head.dbf)?,
        Kind::Notify => put(sample, PutKind::Notify, head.dbf)?,
        Kind::LinkPut => link_put(sample, head.dbf)?,
        Kind::CallbackRequest => cause(CauseKind::CallbackRequest)?,
        Kind::CallbackDelayed => cause(CauseKind::CallbackRequestDelayed)?,
        Kind::CallbackProcess => cause(CauseKind::CallbackRequestProcess)?,
        Kind::CallbackProcessDelayed => cause(CauseKind::CallbackRequestProcessDelayed)?,
        Kind::ScanOnce => cause(CauseKind::ScanOnce)?,
        Kind::ScanIoRequest => cause(CauseKind::ScanIoRequest)?,
        Kind::PostEvent => cause(CauseKind::PostEvent)?,
        Kind::ClientPut => {
            // libca counts from 1
            let cid = u32::try_from(contract::Cause::read(sample)?.user).ok().filter(|&cid| cid != 0);
            Body::ClientPut { cid }
        }
        Kind::Console => {
            let (length, text) = console(sample)?;
            Body::Console { length, text }
        }
        Kind::Errlog => {
            let severity =
                u16::try_from(hit.object).ok().filter(|&severity| hit.object != NO_SEVERITY && severity < 4);
            Body::Errlog { severity, format: until_nul(console(sample)?.1) }
        }
        Kind::Exit => gives_up(GaveUp::Exit(status(sample)?)),
        Kind::Assertion => assertion(sample)?,
        Kind::Thinned => {
            let contract::Thinned { since, count, .. } = contract::Thinned::read(sample)?;
            Body::ChainsLeftOut { since, count }
        }
    };
    Some((head, body))
}

/// `hit.detail` of a completion.
fn form(detail: u8) -> Form {
    match contract::Form::of(detail.into()) {
        Some(contract::Form::Array) => Form::Array,
        Some(contract::Form::Text) => Form::Text,
        _ => Form::Single,
    }
}

fn complete(sample: &[u8], dbf: Option<u8>) -> Option<Raw<'_>> {
    /// Parses all but the value, whose length varies.
    type Start = contract::Complete<0>;
    let Start { count, bytes, .. } = Start::read(sample)?;
    Some(Raw { dbf: dbf?.into(), count, bytes: some_of(sample, size_of::<Start>(), bytes as usize) })
}

fn put(sample: &[u8], kind: PutKind, dbf: Option<u8>) -> Option<Body<'_>> {
    /// Parses all but the values, whose length varies.
    type Start = contract::Put<0>;
    const VALUES: usize = size_of::<Start>();
    let start = Start::read(sample)?;
    // the rest is two values of the same size
    let room = sample.len().checked_sub(VALUES)? / 2;
    let requested = usize::from(start.requested_bytes).min(room);
    let old = usize::from(start.old_bytes).min(room);
    // Base passes -1 for a type that no put can have, and refuses it: what it would have been is not known.
    let no_type = if kind == PutKind::Notify { 0 } else { NO_VALUE };
    Some(Body::Put {
        kind,
        field: start.field,
        requested: Raw {
            dbf: dbf.unwrap_or(no_type).into(),
            count: start.count,
            bytes: some_of(sample, VALUES, requested),
        },
        old: Raw { dbf: start.old_dbf, count: start.old_count, bytes: some_of(sample, VALUES + room, old) },
        link: (start.link != NO_LINK).then_some((start.link >> 12, start.link & 0xfff)),
    })
}

fn link_put(sample: &[u8], dbf: Option<u8>) -> Option<Body<'_>> {
    use contract::LinkPut;
    let LinkPut { record, count, bytes, .. } = LinkPut::read(sample)?;
    Some(Body::LinkPut {
        record,
        pv: until_nul(some_of(sample, offset_of!(LinkPut, pv), contract::NAME_BYTES)),
        value: Raw {
            dbf: dbf?.into(),
            count,
            bytes: some_of(sample, offset_of!(LinkPut, value), bytes as usize),
        },
    })
}

/// The length and the bytes of a text.
fn console(sample: &[u8]) -> Option<(u32, &[u8])> {
    type Start = contract::Console<0>;
    let Start { length, bytes, .. } = Start::read(sample)?;
    Some((length, some_of(sample, size_of::<Start>(), bytes as usize)))
}

/// The argument of exit, an int.
fn status(sample: &[u8]) -> Option<i32> {
    Some((contract::Cause::read(sample)?.user as u32).cast_signed())
}

fn gives_up(how: GaveUp) -> Body<'static> {
    Body::GivingUp { how, file: &[], expression: &[] }
}

fn assertion(sample: &[u8]) -> Option<Body<'_>> {
    use contract::{Assertion, ASSERTION_BYTES};
    Assertion::read(sample)?;
    let text = |at| until_nul(some_of(sample, at, ASSERTION_BYTES));
    let (file, expression) = (text(offset_of!(Assertion, file)), text(offset_of!(Assertion, expression)));
    Some(Body::GivingUp { how: GaveUp::EpicsAssert, file, expression })
}

/// A text up to its NUL.
fn until_nul(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(kind: u16, dbf: u8) -> Vec<u8> {
        let mut sample = Vec::new();
        for word in [11u64, 0x7fff_0000, 0x55_0000, 0xabc0] {
            sample.extend_from_slice(&word.to_ne_bytes());
        }
        sample.extend_from_slice(&7u32.to_ne_bytes());
        sample.extend_from_slice(&8u32.to_ne_bytes());
        for half in [kind, 3, 1] {
            sample.extend_from_slice(&half.to_ne_bytes());
        }
        sample.extend_from_slice(&[1, dbf]);
        assert_eq!(sample.len(), size_of::<Hit>());
        sample
    }

    #[test]
    fn process_padded_as_perf_does() {
        let mut sample = head(1, NO_VALUE);
        sample.extend_from_slice(&[0; 4]);
        let (head, body) = parse(&sample).unwrap();
        assert_eq!((head.time, head.object, head.pid, head.tid), (11, 0xabc0, 7, 8));
        assert!(head.active);
        assert_eq!(body, Body::Process);
    }

    #[test]
    fn put_array_shares_the_rest_between_two_values() {
        let mut sample = head(4, 10);
        sample.extend_from_slice(&0x1234u64.to_ne_bytes());
        sample.extend_from_slice(&3u32.to_ne_bytes());
        sample.extend_from_slice(&2u32.to_ne_bytes());
        for half in [9u16, 24, 8, 11 << 12 | 5] {
            sample.extend_from_slice(&half.to_ne_bytes());
        }
        sample.extend((0..152).map(|_| 1u8));
        sample.extend((0..152).map(|_| 2u8));
        sample.extend_from_slice(&[0; 4]);
        let Some((_, Body::Put { kind, field, requested, old, link })) = parse(&sample) else { panic!() };
        assert_eq!((kind, field), (PutKind::PutField, 0x1234));
        assert_eq!(requested, Raw { dbf: 10, count: 3, bytes: &[1; 24] });
        assert_eq!(old, Raw { dbf: 9, count: 2, bytes: &[2; 8] });
        assert_eq!(link, Some((11, 5)));
    }

    /// Base's CA server makes DBR_CTRL_DOUBLE, and its like, a type of -1 before it puts with callback.
    #[test]
    fn a_put_of_a_type_that_base_lacks_is_no_text() {
        let sample = |kind| {
            let mut sample = head(kind, NO_VALUE);
            sample.resize(size_of::<Hit>() + 24 + 2 * 40, 0);
            sample
        };
        let of = |kind| match parse(&sample(kind)) {
            Some((_, Body::Put { requested, .. })) => requested.dbf,
            other => panic!("{other:?}"),
        };
        assert_eq!((of(Kind::Put as u16), of(Kind::PutField as u16)), (255, 255));
        assert_eq!(of(Kind::Notify as u16), 0, "dbProcessNotify has no value");
    }

    proptest! {
        #[test]
        fn no_sample_panics(sample in prop::collection::vec(any::<u8>(), 0..500), kind in 0u16..24) {
            let mut sample = sample;
            if sample.len() > 42 {
                sample[40..42].copy_from_slice(&kind.to_ne_bytes());
            }
            let _ = parse(&sample);
        }
    }
}
