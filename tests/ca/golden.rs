//! Hand-made bytes of each message, and the facts they must give.

use crate::wire::*;

const NAME: &[u8] =
    b"\x00\x12\x00\x10\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x0dT:SP.DESC\0\0\0\0\0\0\0";
const CREATED: &[u8] =
    b"\x00\x16\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x03\x00\x12\x00\x00\x00\x06\x00\x01\x00\x00\x00\x05\x00\x00\x00\x07";

/// A circuit with channel 1, cid 5, sid 7.
fn with_channel() -> Wire {
    let mut w = Wire::open();
    w.client(b"\x00\x00\x00\x00\x00\x00\x00\x0d\x00\x00\x00\x00\x00\x00\x00\x00");
    w.client(NAME);
    w.server(CREATED);
    w.facts();
    w
}

#[test]
fn opening_of_a_circuit() {
    let mut w = Wire::open();
    assert_eq!(w.facts(), [""; 0]);
    w.client(b"\x00\x00\x00\x00\x00\x00\x00\x0d\x00\x00\x00\x00\x00\x00\x00\x00");
    assert_eq!(w.facts(), ["circuit 1 Opened user= host= minor=13"]);
    w.client(b"\x00\x14\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00operator");
    assert_eq!(w.facts(), ["circuit 1 Opened user=operator host= minor=13"]);
    w.client(b"\x00\x15\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00opi-1\0\0\0");
    assert_eq!(w.facts(), ["circuit 1 Opened user=operator host=opi-1 minor=13"]);
    w.client(NAME);
    assert_eq!(w.facts(), ["channel 1 on 1 Opened cid=5 sid=- pv=T:SP.DESC dbr=- count=-"]);
    w.server(CREATED);
    assert_eq!(w.facts(), ["channel 1 on 1 Opened cid=5 sid=7 pv=T:SP.DESC dbr=6 count=1"]);
    // Too late: a server takes no new identity once there is a channel.
    w.client(&named(20, 0, 0, "intruder"));
    assert_eq!(w.facts(), [""; 0]);
    assert_eq!(w.decoder.circuit(0, CLIENT, SERVER), Some(1));
    assert_eq!(w.decoder.circuit(0, SERVER, CLIENT), None);
}

#[test]
fn put_of_a_double() {
    let mut w = with_channel();
    w.client(b"\x00\x04\x00\x08\x00\x06\x00\x01\x00\x00\x00\x07\x00\x00\x00\x2a\x3f\xf8\0\0\0\0\0\0");
    assert_eq!(
        w.facts(),
        ["put on 1 channel 1 dbr=6 count=1 ioid=42 length=8 [3f, f8, 00, 00, 00, 00, 00, 00]"]
    );
}

#[test]
fn put_of_a_string_with_answer() {
    let mut w = with_channel();
    w.client(b"\x00\x13\x00\x08\x00\x00\x00\x01\x00\x00\x00\x07\x00\x00\x00\x2bOn\0\0\0\0\0\0");
    assert_eq!(
        w.facts(),
        ["put with answer on 1 channel 1 dbr=0 count=1 ioid=43 length=8 [4f, 6e, 00, 00, 00, 00, 00, 00]"]
    );
    w.server(b"\x00\x13\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x2b");
    assert_eq!(w.facts(), ["answer on 1 ioid=43 notify=true status=1 "]);
}

#[test]
fn put_of_a_long_array() {
    let mut w = with_channel();
    // The long form: 24 bytes of header, 80,000 bytes of DBR_LONG.
    let mut m =
        b"\x00\x13\xff\xff\x00\x05\x00\x00\x00\x00\x00\x07\x00\x00\x00\x2c\x00\x01\x38\x80\x00\x00\x4e\x20"
            .to_vec();
    m.resize(24 + 80_000, 9);
    for part in m.chunks(1448) {
        w.client(part);
    }
    w.client(&put(false, 7, 45, &[2.0]));
    let facts = w.facts();
    assert_eq!(facts.len(), 2);
    assert!(
        facts[0].starts_with("put with answer on 1 channel 1 dbr=5 count=20000 ioid=44 length=80000 [09, 09")
    );
    assert_eq!(facts[0].matches("09").count(), 4096);
    assert!(facts[1].starts_with("put on 1 channel 1 dbr=6 count=1 ioid=45 length=8 "));
}

#[test]
fn refused_put() {
    let mut w = with_channel();
    w.client(&put(false, 7, 46, &[2.0]));
    w.facts();
    let mut payload = header(4, 8, 6, 1, 7, 46);
    payload.extend(b"Write access denied\0");
    w.server(&message(11, 0, 0, 5, 376, &payload));
    assert_eq!(w.facts(), ["answer on 1 ioid=46 notify=false status=376 Write access denied"]);
    let mut payload = long_header(19, 80_000, 5, 20_000, 7, 47);
    payload.extend(b"no\0");
    w.server(&message(11, 0, 0, 5, 160, &payload));
    assert_eq!(w.facts(), ["answer on 1 ioid=47 notify=true status=160 no"]);
    // An error that has nothing to do with a put.
    w.server(&message(11, 0, 0, 5, 160, &header(15, 0, 6, 1, 7, 48)));
    assert_eq!(w.facts(), [""; 0]);
}

#[test]
fn channels_end() {
    let mut w = with_channel();
    w.client(b"\x00\x0c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x05");
    assert_eq!(w.facts(), ["end of channel 1"]);
    // The sid is used again at once; the answer to the clearing comes later than it could.
    w.client(&named(18, 6, 13, "B"));
    w.server(&message(18, 5, 1, 6, 7, b""));
    w.server(b"\x00\x0c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x05");
    assert_eq!(
        w.facts(),
        [
            "channel 2 on 1 Opened cid=6 sid=- pv=B dbr=- count=-",
            "channel 2 on 1 Opened cid=6 sid=7 pv=B dbr=5 count=1"
        ]
    );
    w.server(b"\x00\x1b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x00");
    assert_eq!(w.facts(), ["end of channel 2"]);
    w.client(&named(18, 7, 13, "NO:SUCH"));
    w.facts();
    w.server(b"\x00\x1a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00");
    assert_eq!(w.facts(), ["end of channel 3"]);
}

#[test]
fn channel_of_a_large_array_with_empty_long_form() {
    let mut w = with_channel();
    w.client(&named(18, 6, 13, "IMAGE"));
    w.facts();
    let mut m = long_header(18, 0, 4, 1_000_000, 6, 8);
    m.extend(message(19, 6, 1, 1, 99, b""));
    w.server(&m);
    assert_eq!(
        w.facts(),
        [
            "channel 2 on 1 Opened cid=6 sid=8 pv=IMAGE dbr=4 count=1000000",
            "answer on 1 ioid=99 notify=true status=1 "
        ]
    );
}

#[test]
fn other_messages_are_skipped_exactly() {
    let mut w = with_channel();
    let mut m = Vec::new();
    m.extend(message(1, 6, 1, 7, 1, &[0; 16]));
    m.extend(message(15, 6, 1, 7, 2, b""));
    m.extend(message(2, 6, 1, 7, 1, b""));
    m.extend(message(8, 0, 0, 0, 0, b""));
    m.extend(message(9, 0, 0, 0, 0, b""));
    m.extend(message(10, 0, 0, 0, 0, b""));
    m.extend(message(23, 0, 0, 0, 0, b""));
    m.extend(put(false, 7, 50, &[1.0]));
    w.client(&m);
    assert_eq!(w.facts().len(), 1);
    let mut m = header(0, 0, 0, 13, 0, 0);
    m.extend(message(1, 20, 1, 1, 1, &[7; 24]));
    m.extend(long_header(1, 200_000, 20, 24_998, 1, 1));
    m.extend(vec![4; 200_000]);
    m.extend(message(1, 20, 0, 7, 1, b""));
    m.extend(message(19, 6, 1, 1, 50, b""));
    for part in m.chunks(60_000) {
        w.server(part);
    }
    assert_eq!(w.facts(), ["answer on 1 ioid=50 notify=true status=1 "]);
}

#[test]
fn two_channels_and_two_of_one_pv_at_once() {
    let mut w = Wire::open();
    let mut m = version();
    for (cid, pv) in [(1, "A"), (2, "B"), (3, "A")] {
        m.extend(named(18, cid, 13, pv));
    }
    w.client(&m);
    let mut m = Vec::new();
    for (cid, sid) in [(3, 30), (1, 10), (2, 20)] {
        m.extend(message(18, 6, 1, cid, sid, b""));
    }
    w.server(&m);
    w.facts();
    w.client(&[put(false, 20, 1, &[1.0]), put(false, 30, 2, &[1.0]), put(false, 10, 3, &[1.0])].concat());
    let facts = w.facts();
    let channels: Vec<_> = facts.iter().map(|f| f.split(" dbr").next().unwrap_or("")).collect();
    assert_eq!(channels, ["put on 1 channel 2", "put on 1 channel 3", "put on 1 channel 1"]);
}

#[test]
fn names_that_are_not_utf8() {
    let mut w = Wire::open();
    w.client(&version());
    w.client(&message(18, 0, 0, 1, 13, b"A\xffB\xc3\xa9\0junk"));
    assert_eq!(w.facts()[1], "channel 1 on 1 Opened cid=1 sid=- pv=A\\xffBé dbr=- count=-");
}

/// RSRV reads a name up to its NUL, and takes it if it is short enough then, whatever follows it.
#[test]
fn names_with_more_behind_them() {
    let mut w = Wire::open();
    w.client(&[version(), named(20, 0, 0, "first")].concat());
    w.client(&message(20, 0, 0, 0, 0, &[&b"operator\0"[..], &[b'x'; 600]].concat()));
    w.client(&message(20, 0, 0, 0, 0, &[b'y'; 600]));
    w.client(&message(21, 0, 0, 0, 0, &[&b"console\0"[..], &[b'x'; 600]].concat()));
    let last = w.facts().pop();
    assert_eq!(last.as_deref(), Some("circuit 1 Opened user=operator host=console minor=13"));
}

/// A name counts as long as there is no channel: also behind requests for channels that are all refused.
#[test]
fn names_behind_channels_that_are_refused() {
    for (refused, user) in [([true, true], "other"), ([true, false], "op"), ([false, true], "op")] {
        let mut w = Wire::open();
        w.client(&[version(), named(20, 0, 0, "op"), named(18, 1, 13, "A"), named(18, 2, 13, "B")].concat());
        w.client(&[named(20, 0, 0, "another"), named(20, 0, 0, "other"), named(18, 3, 13, "C")].concat());
        for (cid, refused) in (1..).zip(refused) {
            let made = message(18, 6, 1, cid, 10 + cid, b"");
            w.server(&if refused { message(26, 0, 0, cid, 0, b"") } else { made });
        }
        w.server(&message(18, 6, 1, 3, 13, b""));
        let facts = w.facts();
        let last = facts.iter().rfind(|fact| fact.starts_with("circuit")).expect("a circuit");
        assert!(last.contains(&format!("user={user} ")), "{refused:?} {last}");
    }
}

/// RSRV adds the header's length to a payload's in 32 bits: what it does with such a message, its client does not say.
#[test]
fn sizes_that_overflow_are_counted() {
    let mut w = with_channel();
    let put = [&long_header(19, 0xffff_fff0, 5, 1, 7, 1)[..], &[0, 0, 0, 49, 0, 0, 0, 0]].concat();
    w.client(&put);
    w.wait(1);
    let facts = w.facts();
    assert!(facts.iter().any(|fact| fact.starts_with("loss 32 bytes")), "{facts:?}");
}

#[test]
fn client_of_the_other_order_and_old_clients() {
    // caproto says its host before its user.
    let mut w = Wire::open();
    w.client(&[version(), named(21, 0, 0, "h"), named(20, 0, 0, "u"), named(18, 1, 13, "A")].concat());
    let facts = w.facts();
    assert_eq!(facts[0], "circuit 1 Opened user=u host=h minor=13", "told once");
    assert!(facts[1].starts_with("channel 1 on 1 Opened"), "{facts:?}");
    // Before VERSION was sent on TCP.
    let mut w = Wire::open();
    w.client(&[named(20, 0, 0, "u"), named(18, 1, 4, "A")].concat());
    assert_eq!(w.facts()[0], "circuit 1 Opened user=u host= minor=4");
}
