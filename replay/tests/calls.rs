//! Calls over PVAccess (RPC): they are in the put log, and write no value.

mod common;

use common::network::{log_of, NAMESPACE};
use common::{run, SECOND};
use iocrec_log::event::*;

const CIRCUIT: u32 = 81;
const CHANNEL: u32 = 811;

/// A call that its server carries out.
fn call() -> Vec<(u64, Fact)> {
    let circuit = Circuit {
        id: CIRCUIT,
        client: Address { ip: 0x0a00_0007, port: 40_081 },
        server: Address { ip: 0x0a00_0003, port: 5075 },
        user: "carol".into(),
        host: "office".into(),
        minor: 0,
        origin: Origin::Opened,
    };
    let channel = Channel {
        id: CHANNEL,
        circuit: CIRCUIT,
        cid: Some(1),
        sid: Some(1),
        pv: "ADD:UP".into(),
        dbr: None,
        count: None,
        origin: Origin::Opened,
    };
    let ends = CircuitEnds { circuit: CIRCUIT, namespace: NAMESPACE, server: Some(1), client: None };
    let bytes = 5_f64.to_le_bytes().to_vec();
    let value = PvaValue { types: vec![1], big_endian: false, length: bytes.len() as u32, bytes };
    let (kind, options) = (PvaKind::Rpc, PvaValue::default());
    let put = PvaPut { circuit: CIRCUIT, channel: CHANNEL, ioid: 5, kind, options, value };
    let (text, value) = (String::new(), PvaValue::default());
    let answer = PvaAnswer { circuit: CIRCUIT, ioid: 5, kind, status: 0, text, value };
    vec![
        (SECOND, Fact::PvaType(PvaType { id: 1, description: b"\x80\x00\x01\x05value\x43".to_vec() })),
        (SECOND, Fact::from(circuit)),
        (SECOND, Fact::CircuitEnds(ends)),
        (SECOND, Fact::from(channel)),
        (2 * SECOND, Fact::PvaPut(Box::new(put))),
        (2 * SECOND + SECOND / 1000, Fact::PvaAnswer(Box::new(answer))),
        (3 * SECOND, Fact::Mark("end".into())),
    ]
}

#[test]
fn a_call_writes_no_value() {
    let directory = log_of(call());
    let (code, out, err) = run(directory.path(), &["puts", "log"]);
    assert!(code == 0 && out.contains("ADD:UP") && out.contains("call("), "{out}{err}");
    let (_, out, _) = run(directory.path(), &["values", "ADD:UP", "log"]);
    assert_eq!(out, "");
    let (_, out, _) = run(directory.path(), &["at", "-1ms", "log"]);
    assert!(!out.contains("ADD:UP"), "{out}");
}

#[test]
fn ca_put_log_sees_no_call() {
    let directory = log_of(call());
    for format in ["caputlog", "caputlog-json"] {
        let (code, out, err) = run(directory.path(), &["puts", "log", "--level", "2", "--format", format]);
        assert_eq!((code, out.as_str()), (0, ""), "{err}");
        assert!(err.contains("1 put is not in it"), "{err}");
    }
}
