//! The events that the BPF programs hand over, taken apart.
//!
//! Mirrors bpf/hits.h by offsets, in the byte order of the machine. A sample may be longer than the
//! event: perf buffers pad to 8 bytes less 4. No sample, however malformed, panics.

use iocrec_log::event::{CauseKind, PutKind};

/// Bytes of `struct hit`.
const HEAD: usize = 48;
/// Bytes of a link target's name in `struct link_put` (NAME_BYTES).
const NAME: usize = 64;
/// `hit.dbf` where there is no value (NO_VALUE).
const NO_VALUE: u8 = 0xff;

/// `put.link` where the field is none (NO_LINK).
const NO_LINK: u16 = 0xffff;

/// What every hit tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub time: u64,
    /// Stack pointer at the function's entry.
    pub sp: u64,
    /// Return address; 0 where it could not be read.
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

/// Raw bytes of a value: elements, and how many there really were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw<'a> {
    /// Type as the traced process numbers it.
    pub dbf: u16,
    /// Number of elements in the IOC.
    pub count: u32,
    /// The first of them, in the machine's byte order; empty where they could not be read.
    pub bytes: &'a [u8],
}

/// What a record's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One value.
    Single,
    /// An array, of one element too.
    Array,
    /// Characters that are a string.
    Text,
}

/// What a hit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// dbProcess.
    Process,
    /// A record type's process routine.
    RsetProcess,
    /// recGblFwdLink.
    Complete {
        /// What the value is.
        form: Form,
        /// The record's value, where it has one.
        value: Option<Raw<'a>>,
    },
    /// dbPut, dbPutField or dbProcessNotify.
    Put {
        /// Which.
        kind: PutKind,
        /// Address of the field's dbFldDes.
        field: u64,
        /// Asked for.
        requested: Raw<'a>,
        /// Held before.
        old: Raw<'a>,
        /// Held before is the text of a link, of this kind and with this `pvlMask` (link.h).
        link: Option<(u16, u16)>,
    },
    /// dbCaPutLinkCallback.
    LinkPut {
        /// The record, where the link tells.
        record: u64,
        /// Target, up to its NUL.
        pv: &'a [u8],
        /// What is sent.
        value: Raw<'a>,
    },
    /// Chains that began with a record and were left out.
    ChainsLeftOut {
        /// When the first of them began.
        since: u64,
        /// How many.
        count: u64,
    },
    /// A request to process something later.
    Cause {
        /// Which function.
        kind: CauseKind,
        /// The record named, or what may be one.
        user: u64,
    },
}

fn u16_at(sample: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(sample.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(sample: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(sample.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(sample: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(sample.get(at..at + 8)?.try_into().ok()?))
}

/// At most `bytes` of `sample` from `at`.
fn some_of(sample: &[u8], at: usize, bytes: usize) -> &[u8] {
    let rest = sample.get(at..).unwrap_or_default();
    rest.get(..bytes).unwrap_or(rest)
}

/// Takes a sample apart; `None` if it is none of ours.
pub fn parse(sample: &[u8]) -> Option<(Head, Body<'_>)> {
    // what a perf buffer has padded
    let sample = &sample[..sample.len() & !7];
    let dbf = *sample.get(47)?;
    let head = Head {
        time: u64_at(sample, 0)?,
        sp: u64_at(sample, 8)?,
        caller: u64_at(sample, 16)?,
        object: u64_at(sample, 24)?,
        pid: u32_at(sample, 32)?,
        tid: u32_at(sample, 36)?,
        status: u16_at(sample, 42)?,
        severity: u16_at(sample, 44)?,
        active: *sample.get(46)? != 0,
        dbf: (dbf != NO_VALUE).then_some(dbf),
    };
    let cause = |kind| Some(Body::Cause { kind, user: u64_at(sample, HEAD)? });
    let body = match u16_at(sample, 40)? {
        1 => Body::Process,
        15 => Body::RsetProcess,
        2 => Body::Complete { form: form(*sample.get(46)?), value: complete(sample, head.dbf) },
        3 => put(sample, PutKind::Put, head.dbf)?,
        4 => put(sample, PutKind::PutField, head.dbf)?,
        5 => put(sample, PutKind::Notify, head.dbf)?,
        6 => link_put(sample, head.dbf)?,
        7 => cause(CauseKind::CallbackRequest)?,
        8 => cause(CauseKind::CallbackRequestDelayed)?,
        9 => cause(CauseKind::CallbackRequestProcess)?,
        10 => cause(CauseKind::CallbackRequestProcessDelayed)?,
        11 => cause(CauseKind::ScanOnce)?,
        12 => cause(CauseKind::ScanIoRequest)?,
        13 => cause(CauseKind::PostEvent)?,
        14 => Body::ChainsLeftOut { since: u64_at(sample, HEAD)?, count: u64_at(sample, HEAD + 8)? },
        _ => return None,
    };
    Some((head, body))
}

/// `enum form` in `hit.detail`.
fn form(detail: u8) -> Form {
    match detail {
        3 => Form::Array,
        4 => Form::Text,
        _ => Form::Single,
    }
}

fn complete(sample: &[u8], dbf: Option<u8>) -> Option<Raw<'_>> {
    let bytes = u32_at(sample, HEAD + 4)? as usize;
    Some(Raw { dbf: dbf?.into(), count: u32_at(sample, HEAD)?, bytes: some_of(sample, HEAD + 8, bytes) })
}

fn put(sample: &[u8], kind: PutKind, dbf: Option<u8>) -> Option<Body<'_>> {
    const VALUES: usize = HEAD + 24;
    // the rest is two values of the same room
    let room = sample.len().checked_sub(VALUES)? / 2;
    let requested = usize::from(u16_at(sample, HEAD + 18)?).min(room);
    let old = usize::from(u16_at(sample, HEAD + 20)?).min(room);
    let link = u16_at(sample, HEAD + 22)?;
    Some(Body::Put {
        kind,
        field: u64_at(sample, HEAD)?,
        requested: Raw {
            dbf: dbf.unwrap_or_default().into(),
            count: u32_at(sample, HEAD + 8)?,
            bytes: some_of(sample, VALUES, requested),
        },
        old: Raw {
            dbf: u16_at(sample, HEAD + 16)?,
            count: u32_at(sample, HEAD + 12)?,
            bytes: some_of(sample, VALUES + room, old),
        },
        link: (link != NO_LINK).then_some((link >> 12, link & 0xfff)),
    })
}

fn link_put(sample: &[u8], dbf: Option<u8>) -> Option<Body<'_>> {
    let pv = some_of(sample, HEAD + 16, NAME);
    let end = pv.iter().position(|&byte| byte == 0).unwrap_or(pv.len());
    let bytes = u32_at(sample, HEAD + 12)? as usize;
    Some(Body::LinkPut {
        record: u64_at(sample, HEAD)?,
        pv: &pv[..end],
        value: Raw {
            dbf: dbf?.into(),
            count: u32_at(sample, HEAD + 8)?,
            bytes: some_of(sample, HEAD + 16 + NAME, bytes),
        },
    })
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
        assert_eq!(sample.len(), HEAD);
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

    proptest! {
        #[test]
        fn no_sample_panics(sample in prop::collection::vec(any::<u8>(), 0..500), kind in 0u16..17) {
            let mut sample = sample;
            if sample.len() > 42 {
                sample[40..42].copy_from_slice(&kind.to_ne_bytes());
            }
            let _ = parse(&sample);
        }
    }
}
