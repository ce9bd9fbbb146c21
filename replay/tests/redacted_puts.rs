//! Puts in a redacted copy are those of the original: packets and probes still show one put, the record of a PV is still
//! that record, and values still fit their types; and it tells how IOCs ended. Names and values here are such as real sites
//! have.

mod common;

use common::{iocreplay, outcome, write_events, CLIENT, MS, SECOND};
use iocrec_log::event::*;
use serde_json::Value as Json;
use std::path::Path;

/// A name with braces, as a whole site has them.
const MAGNET: &str = "SR:C01{PS:Q1}I-SP";

fn puts(log: &Path) -> Vec<Json> {
    let log = log.to_str().unwrap();
    let (code, out, err) =
        outcome(iocreplay(["puts", "--all", "--format", "jsonl", "--utc", log]).output().unwrap());
    assert_eq!((code, err.as_str()), (0, ""));
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A client's put on the network and in the IOC, as both are recorded: the packet in the type that the client sends, the
/// probe with the same value in that type, and the record's value when it is done in its own.
fn put(at: u64, (dbr, payload): (u16, Vec<u8>), old: Value, new: Value) -> Vec<(u64, Fact)> {
    let dbf = epics::Dbr(dbr).element().unwrap();
    let (length, count) = (payload.len() as u32, (payload.len() / dbf.size()) as u32);
    let requested = iocrec_log::value::from_channel_access(dbr, count, &payload);
    let packet = CaPut { circuit: 1, channel: 9, notify: false, dbr, count, ioid: 1, length, payload };
    let of = |kind, old, requested| {
        let sp = if kind == PutKind::PutField { -1000 } else { -1200 };
        let (record, field) = (9, Some(9));
        Fact::from(Put { thread: CLIENT, sp, site: 1, kind, record, field, dbf, count, requested, old })
    };
    let process = Process { thread: CLIENT, sp: -1200, site: 0, record: 9, active: false };
    let complete =
        Complete { thread: CLIENT, sp: -1300, site: 0, record: 9, value: new, severity: 0, status: 0 };
    vec![
        (at, Fact::CaPut(packet)),
        (at + 100_000, of(PutKind::PutField, Value::Unknown, requested.clone())),
        (at + 110_000, of(PutKind::Put, old, requested)),
        (at + 120_000, Fact::Process(process)),
        (at + 130_000, Fact::Complete(complete)),
    ]
}

fn definitions(rtype: &str, dbf: Dbf) -> Vec<(u64, Fact)> {
    let (pv, dbr, count) = (MAGNET.to_owned(), Some(5), Some(1));
    vec![
        (MS, Fact::from(Record { id: 9, ioc: 1, address: 8192, name: MAGNET.into(), rtype: rtype.into() })),
        (MS, Fact::from(Field { id: 9, ioc: 1, rtype: rtype.into(), name: "VAL".into(), dbf, menu: None })),
        (
            MS,
            Fact::from(Channel {
                id: 9,
                circuit: 1,
                cid: Some(9),
                sid: Some(9),
                pv,
                dbr,
                count,
                origin: Origin::Opened,
            }),
        ),
    ]
}

/// The puts of a log of such happenings, and those of its redacted copy.
fn both(happenings: Vec<(u64, Fact)>, values: &str) -> (Vec<Json>, Vec<Json>) {
    let place = tempfile::tempdir().unwrap();
    let (log, copy) = (place.path().join("log"), place.path().join("copy"));
    write_events(&log, "box1", 1, happenings);
    let words = ["redact", log.to_str().unwrap(), "-o", copy.to_str().unwrap(), "--values", values];
    let (code, _, err) = outcome(iocreplay(words).output().unwrap());
    assert_eq!((code, err.as_str()), (0, ""));
    (puts(&log), puts(&copy))
}

#[test]
fn a_pv_with_braces_is_still_its_record() {
    let one = (5, 100_i32.to_be_bytes().to_vec());
    let mut happenings = definitions("longout", Dbf::Long);
    happenings.extend(put(SECOND, one, Value::Int(20), Value::Int(100)));
    let (before, after) = both(happenings, "replace");
    assert_eq!((before.len(), after.len()), (1, 1), "{after:?}");
    assert_eq!((&before[0]["pv"], &before[0]["record"]), (&Json::from(MAGNET), &Json::from(MAGNET)));
    assert_eq!(after[0]["pv"], after[0]["record"], "{}", after[0]);
    assert!(after[0]["pv"].as_str().unwrap().starts_with("pv-"), "{}", after[0]);
}

/// The least number of a type still fits it: packets have it in 32 bits, probes in 64.
#[test]
fn the_least_number_of_a_type_stays_one_put() {
    for (dbr, dbf, least, most) in [
        (5, Dbf::Long, i64::from(i32::MIN), i64::from(i32::MAX)),
        (1, Dbf::Short, i64::from(i16::MIN), i64::from(i16::MAX)),
    ] {
        let bytes = |number: i64| match dbr {
            5 => (number as i32).to_be_bytes().to_vec(),
            _ => (number as i16).to_be_bytes().to_vec(),
        };
        let mut happenings = definitions("longout", dbf);
        let (mut old, mut at) = (20, SECOND);
        for new in [least, most, least + 1, -16, -17, least] {
            happenings.extend(put(at, (dbr, bytes(new)), Value::Int(old), Value::Int(new)));
            (old, at) = (new, at + SECOND);
        }
        let (before, after) = both(happenings, "replace");
        assert_eq!(before.len(), 6);
        assert_eq!(after.len(), 6, "{dbf:?}: {after:?}");
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(
                (before["source"].as_str(), &before["source"]),
                (Some("both"), &after["source"]),
                "{after}"
            );
            let (was, is) = (before["new"].as_i64().unwrap(), after["new"].as_i64().unwrap());
            assert!((least..=most).contains(&is) && is.signum() == was.signum(), "{was} became {is}");
            assert_eq!(after["requested"], after["new"], "{after}");
        }
        for pair in after.windows(2) {
            assert_eq!(pair[0]["new"], pair[1]["old"], "{pair:?}");
        }
        assert_eq!(after[0]["new"], after[5]["new"]);
        assert_ne!(after[0]["new"], after[2]["new"]);
    }
}

/// A scaled number still fits its type, and the packet and the probe agree on it. Each run has another factor.
#[test]
fn a_scaled_number_fits_its_type() {
    for _ in 0..6 {
        for (dbr, dbf, number) in
            [(5, Dbf::Long, i32::MAX.into()), (5, Dbf::Long, i32::MIN.into()), (1, Dbf::Short, 32_767_i64)]
        {
            let payload = match dbr {
                5 => (number as i32).to_be_bytes().to_vec(),
                _ => (number as i16).to_be_bytes().to_vec(),
            };
            let mut happenings = definitions("longout", dbf);
            happenings.extend(put(SECOND, (dbr, payload), Value::Int(20), Value::Int(number)));
            let (_, after) = both(happenings, "scale");
            assert_eq!(after.len(), 1, "{number}: {after:?}");
            let new = after[0]["new"].as_i64().unwrap();
            assert!(new.unsigned_abs() <= number.unsigned_abs() && new.signum() == number.signum(), "{new}");
            assert_eq!(after[0]["requested"], after[0]["new"], "{number}");
        }
    }
}

/// A whole number that a client sends as a 32-bit float or a double is the same number in an integer's record.
#[test]
fn a_number_is_the_same_as_float_and_as_integer() {
    let large = [(1 << 53) + 2, -(1 << 60) - (1 << 30)];
    for number in
        [-100_i64, 100_000, 20_000_000, -1 << 24, -(1 << 31), 1 << 40, (1 << 53) - 1, large[0], large[1]]
    {
        let mut payloads = vec![(6, (number as f64).to_be_bytes().to_vec())];
        if number.unsigned_abs() <= 1 << 24 {
            payloads.push((2, (number as f32).to_be_bytes().to_vec()));
        }
        for payload in payloads {
            let mut happenings = definitions("int64out", Dbf::Int64);
            happenings.extend(put(SECOND, payload, Value::Int(20), Value::Int(number)));
            let (before, after) = both(happenings, "replace");
            assert_eq!((before.len(), after.len()), (1, 1), "{number}: {after:?}");
            let asked = after[0]["requested"].as_f64().unwrap();
            assert_eq!(asked, after[0]["new"].as_i64().unwrap() as f64, "{number}: {}", after[0]);
        }
    }
}

/// Clients send the zero behind a long text, records do not have it.
#[test]
fn a_long_text_is_the_same_with_a_zero_behind_it() {
    let text = b"this is a text of more than forty characters in all".to_vec();
    let array = Value::Array(Array { dbf: Dbf::Char, count: text.len() as u32, bytes: text.clone() });
    let sent = [text.as_slice(), &[0]].concat();
    let mut happenings = definitions("waveform", Dbf::Char);
    let empty = Value::Array(Array { dbf: Dbf::Char, count: 0, bytes: vec![] });
    happenings.extend(put(SECOND, (4, sent), empty, array));
    let (before, after) = both(happenings, "replace");
    assert_eq!((before.len(), after.len()), (1, 1), "{after:?}");
    let letters = |line: &Json, key: &str| -> Vec<u8> {
        line[key].as_array().unwrap().iter().map(|byte| byte.as_u64().unwrap() as u8).collect()
    };
    assert_eq!(letters(&before[0], "new"), text);
    let (asked, new) = (letters(&after[0], "requested"), letters(&after[0], "new"));
    assert_ne!(new, text);
    assert_eq!(asked.strip_suffix(&[0]), Some(new.as_slice()), "{}", after[0]);
}

#[test]
fn a_copy_tells_how_an_ioc_ended_but_not_by_whom() {
    for (how, expected) in [
        ("exit status 0", "the IOC ended: exit status 0"),
        ("killed by SIGSEGV, with a core dump", "the IOC ended: killed by SIGSEGV, with a core dump"),
        ("killed by SIGKILL, sent by pid 12 (bash, user bob)", "the IOC ended: killed by SIGKILL, text-"),
        (
            "killed by SIGSEGV in secret, while processing H:SEGV, with a core dump",
            "the IOC ended: killed by SIGSEGV, text-",
        ),
        ("killed by bob", "the IOC ended: text-"),
        (
            "exit status 1 (up to 6.0 s before this was seen)",
            "the IOC ended: exit status 1 (up to 6.0 s before this was seen)",
        ),
        (
            "killed by SIGKILL (sent 6.0 s before this was seen), sent by pid 12 (bash, user bob)",
            "the IOC ended: killed by SIGKILL (sent 6.0 s before this was seen), text-",
        ),
        ("exit status 1 (up to bob s before this was seen)", "the IOC ended: exit status 1, text-"),
    ] {
        let place = tempfile::tempdir().unwrap();
        let (log, copy) = (place.path().join("log"), place.path().join("copy"));
        write_events(&log, "box1", 1, vec![(SECOND, Fact::IocEnd(IocEnd { ioc: 1, how: how.into() }))]);
        let words = ["redact", log.to_str().unwrap(), "-o", copy.to_str().unwrap()];
        assert_eq!(outcome(iocreplay(words).output().unwrap()).0, 0);
        let words = ["logs", "--kind", "ends", copy.to_str().unwrap()];
        let (code, out, _) = outcome(iocreplay(words).output().unwrap());
        let told = out.trim_end().split("  ").last().unwrap_or_default();
        assert!(code == 0 && told.starts_with(expected), "{how}: {out}");
        assert!(["bob", "bash", "secret", "H:SEGV"].iter().all(|word| !out.contains(word)), "{out}");
        assert_eq!(told.ends_with("core dump"), how.ends_with("core dump"), "{out}");
    }
}

/// A link is a name, not a value, also where it is put as a long string, as one of several strings, or over PVAccess.
#[test]
fn kept_values_hold_no_names_of_pvs() {
    let place = tempfile::tempdir().unwrap();
    let (log, copy) = (place.path().join("log"), place.path().join("copy"));
    let mut happenings = definitions("ai", Dbf::Double);
    let channel = |id: u32, circuit: u32, pv: &str| {
        let (cid, sid, dbr, count) = (Some(id), Some(id), Some(0), Some(1));
        Fact::from(Channel { id, circuit, cid, sid, pv: pv.into(), dbr, count, origin: Origin::Opened })
    };
    let field =
        Field { id: 10, ioc: 1, rtype: "ai".into(), name: "INP".into(), dbf: Dbf::InLink, menu: None };
    happenings.extend([
        (MS, Fact::from(field)),
        (MS, channel(10, 1, "SR:C01{PS:Q1}I-SP.INP$")),
        (MS, channel(11, 1, "SR:C01{PS:Q1}I-SP.INP")),
        (MS, channel(12, 1, "SR:C01{PS:Q1}I-SP.DESC")),
    ]);
    let put = |channel: u32, dbr: u16, count: u32, payload: Vec<u8>| {
        let length = payload.len() as u32;
        Fact::CaPut(CaPut { circuit: 1, channel, notify: false, dbr, count, ioid: 1, length, payload })
    };
    let mut long = b"SECRET:LONG CP MS".to_vec();
    let characters = long.len() as u32;
    long.resize(24, 0);
    let mut several = vec![0; 80];
    several[..14].copy_from_slice(b"SECRET:ONE NPP");
    several[40..53].copy_from_slice(b"SECRET:TWO PP");
    happenings.extend([
        (SECOND, put(10, 4, characters, long)),
        (2 * SECOND, put(11, 0, 2, several)),
        (3 * SECOND, put(12, 0, 1, b"kept text here\0\0".to_vec())),
    ]);
    let bytes = b"SECRET:ARRAY PP NMS\0".to_vec();
    let requested = Value::Array(Array { dbf: Dbf::Char, count: bytes.len() as u32, bytes });
    let (kind, dbf, count, old) = (PutKind::Put, Dbf::Char, 20, Value::Text(b"SECRET:OLD NPP".to_vec()));
    let hit = Put {
        thread: CLIENT,
        sp: -1200,
        site: 1,
        kind,
        record: 9,
        field: Some(10),
        dbf,
        count,
        requested,
        old,
    };
    happenings.push((4 * SECOND, Fact::from(hit)));
    // a structure with a string named value, as PVAccess sends it
    let description = b"\x80\0\x01\x05value\x60".to_vec();
    happenings.push((MS, Fact::PvaType(PvaType { id: 1, description })));
    let value = |bitset: &[u8], text: &[u8]| {
        let bytes = [bitset, &[text.len() as u8], text].concat();
        PvaValue { types: vec![1], big_endian: false, length: bytes.len() as u32, bytes }
    };
    let pva = PvaPut {
        circuit: 1,
        channel: 11,
        ioid: 1,
        kind: PvaKind::Put,
        options: PvaValue::default(),
        value: value(&[1, 2], b"SECRET:PVA"),
    };
    let of_answer = |text: &[u8]| PvaAnswer {
        circuit: 1,
        ioid: 1,
        kind: PvaKind::Get,
        status: 0,
        text: String::new(),
        value: value(&[1, 2], text),
    };
    happenings.extend([
        (5 * SECOND, Fact::PvaAnswer(Box::new(of_answer(b"SECRET:BEFORE NPP NMS")))),
        (5 * SECOND, Fact::PvaAnswer(Box::new(of_answer(b"another kept text")))),
        (6 * SECOND, Fact::PvaPut(Box::new(pva))),
    ]);
    write_events(&log, "box1", 1, happenings);
    let copied = |options: &[&str]| {
        let _ = std::fs::remove_dir_all(&copy);
        let words = ["redact", log.to_str().unwrap(), "-o", copy.to_str().unwrap(), "--values", "keep"];
        let (code, _, err) = outcome(iocreplay([&words, options].concat()).output().unwrap());
        assert_eq!((code, err.as_str()), (0, ""));
        let mut texts = String::new();
        for file in iocrec_log::reader::find(&copy).unwrap() {
            let mut segment = file.open().unwrap();
            while let Some(block) = segment.next_block() {
                for event in block.unwrap().events {
                    let json = serde_json::to_value(&event.fact).unwrap();
                    bytes_in(&json, &mut texts);
                }
            }
        }
        texts
    };
    let texts = copied(&[]);
    assert!(!texts.contains("SECRET"), "{texts}");
    for kept in ["kept text here", "another kept text"] {
        assert!(texts.contains(kept), "{kept}: {texts}");
    }
    // what they say of how they are read stays
    for flags in [" CP MS", " NPP", " PP NMS", " NPP NMS"] {
        assert!(texts.contains(flags), "{flags}: {texts}");
    }
    let texts = copied(&["--keep-names"]);
    for name in ["LONG CP MS", "ONE NPP", "TWO PP", "ARRAY PP NMS", "OLD NPP", "PVA", "BEFORE NPP NMS"] {
        assert!(texts.contains(&format!("SECRET:{name}")), "{name}: {texts}");
    }
}

/// All texts, and all lists of bytes as texts.
fn bytes_in(value: &Json, texts: &mut String) {
    match value {
        Json::String(text) => *texts += &format!("{text}\n"),
        Json::Array(all) => {
            let byte = |value: &Json| u8::try_from(value.as_u64()?).ok();
            match all.iter().map(byte).collect::<Option<Vec<u8>>>() {
                Some(bytes) => *texts += &format!("{}\n", String::from_utf8_lossy(&bytes)),
                None => all.iter().for_each(|value| bytes_in(value, texts)),
            }
        }
        Json::Object(all) => all.values().for_each(|value| bytes_in(value, texts)),
        _ => {}
    }
}
