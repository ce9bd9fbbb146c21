//! What comes out of messages made by hand.

use crate::wire::*;
use iocrec::net::protocol::Decoder as _;
use iocrec::net::served::Served;
use iocrec::net::service::Ports;
use iocrec::pva::{Seed, SERVICE};
use iocrec_log::event::Fact;

fn double(number: f64) -> Vec<u8> {
    number.to_le_bytes().to_vec()
}

/// The bytes of pvput with QSRV1, as they were seen.
#[test]
fn a_put_as_it_was_seen() {
    let mut w = Wire::open();
    w.server(&hex("ca024102 00000000"));
    let identity = "ca020001 25000000 001e3c00 ff7f 0000 02 6361 fd0100 80 00 02 04 75736572 60 04 686f7374 60 04 726f6f74 02 766d";
    w.client(&hex(identity));
    w.server(&hex("ca024009 01000000 ff"));
    w.client(&hex("ca020007 0b000000 0100 41302010 04 543a414f"));
    w.server(&hex("ca024007 09000000 41302010 01340012 ff"));
    // the options' type 2 was defined before; here it is whole
    w.client(&hex("ca02000b 0f000000 01340012 52607080 08 fd0200 80 00 00"));
    let scalar = "ca02400b 13000000 52607080 08 ff fd0100 80 00 01 05 76616c7565 43";
    w.server(&hex(scalar));
    w.client(&hex("ca02000b 13000000 01340012 52607080 00 01 02 0000000000000c40"));
    w.server(&hex("ca02400b 1a000000 52607080 00 02 11 507574206e6f74207065726d6974746564 00 00"));
    w.client(&hex("ca02000b 13000000 01340012 52607080 00 01 02 0000000000000c40"));
    w.server(&hex("ca02400b 06000000 52607080 00 ff"));
    w.client(&hex("ca020008 08000000 01340012 41302010"));
    let expected = [
        "circuit 1 @",
        "pva 1 v2 ",
        "circuit 1 root@vm",
        "pva 1 v2 ca",
        "channel 1 T:AO cid Some(270544961) sid None",
        "channel 1 T:AO cid Some(270544961) sid Some(302003201)",
        "type 2 of 3 bytes",
        "type 3 of 10 bytes",
    ];
    let facts = w.facts();
    let (head, rest) = facts.split_at(6);
    assert_eq!(head, &expected[..6]);
    assert!(rest.iter().any(|fact| fact.ends_with("of 10 bytes")), "{rest:#?}");
    let puts: Vec<&String> = rest.iter().filter(|fact| !fact.starts_with("type")).collect();
    assert_eq!(puts.len(), 5, "{rest:#?}");
    assert!(puts[0].starts_with("Put to 1: [") && puts[0].ends_with("] 10 01020000000000000c40"), "{puts:?}");
    assert_eq!(puts[1], "Put answered 2 \"Put not permitted\": [] 0 ");
    assert_eq!(puts[2], puts[0]);
    assert_eq!(puts[3..], ["Put answered 0 \"\": [] 0 ", "channel 1 ends"]);
}

/// Types are kept for all circuits, and logged when a put needs them.
#[test]
fn types_are_whole_and_logged_once() {
    let mut w = Wire::ready();
    w.client(&request(11, 2, 3, 0, &[hex("0102"), double(3.5)].concat()));
    w.server(&answer(11, 3, 0, &[0xff]));
    // prepared again: the server refers to its type
    w.client(&request(11, 2, 4, 8, NO_OPTIONS));
    w.server(&answer(11, 4, 8, &hex("ff fe0100")));
    w.client(&request(11, 2, 4, 0, &[hex("0102"), double(4.5)].concat()));
    let types: Vec<Vec<u8>> = w
        .out
        .iter()
        .filter_map(|event| match &event.fact {
            Fact::PvaType(found) => Some(found.description.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(types, [WHOLE.to_vec(), NO_OPTIONS.to_vec()]);
    let facts = w.facts();
    let puts: Vec<&String> = facts.iter().filter(|fact| fact.starts_with("Put to")).collect();
    assert!(
        puts.iter().all(|put| put.starts_with("Put to 1: [3]")
            || put.starts_with("Put to 1: [4]")
            || put.starts_with("Put to 1: [2]")),
        "{facts:#?}"
    );
}

/// QSRV2 puts where the number of the request leads, whatever number of a channel comes with it.
#[test]
fn the_request_names_the_channel() {
    let mut w = Wire::ready();
    w.client(&create(7, "T:BO"));
    w.server(&created(7, 8));
    w.facts();
    let put = |sid: u32, ioid: u32| request(11, sid, ioid, 0, &[hex("0102"), double(3.5)].concat());
    w.client(&put(8, 3));
    // one that was not seen to be prepared
    w.client(&put(8, 4));
    let facts = w.facts();
    let puts: Vec<&str> =
        facts.iter().filter(|fact| fact.starts_with("Put")).map(|fact| &fact[..9]).collect();
    assert_eq!(puts, ["Put to 1:", "Put to 2:"], "{facts:?}");
}

/// QSRV1 believes for each channel who the client said to be when it asked for that, QSRV2 who it says to be when it first
/// puts (pvxs 1.5.2 by that channel, 1.5.0 by that request); both only what comes with method ca.
#[test]
fn who_asked_for_the_channel_puts() {
    for (hello, older) in [("00440000 ff7f 01 02 6361", "op@console"), ("00000100 ff7f 01 02 6361", "@")] {
        who_puts(hello, older);
    }
    let mut w = Wire::open();
    let other: Vec<u8> =
        identity("op", "console").iter().map(|b| if *b == b'a' { b'b' } else { *b }).collect();
    w.client(&other);
    assert_eq!(w.facts(), ["circuit 1 @", "pva 1 v2 ", "pva 1 v2 cb"]);
}

/// `older`: who puts by a channel that is older than the client's new name.
fn who_puts(hello: &str, older: &str) {
    let mut w = Wire::ready();
    w.server(&message(0x40, 1, &hex(hello)));
    let put = |sid: u32, ioid: u32| request(11, sid, ioid, 0, &[hex("0102"), double(3.5)].concat());
    w.client(&put(2, 3));
    w.client(&identity("guest", "elsewhere"));
    w.client(&put(2, 3));
    w.client(&create(7, "T:BO"));
    w.server(&created(7, 8));
    for sid in [8, 2] {
        w.client(&put(sid, 4));
    }
    let mut user = "op@console".to_owned();
    let mut users = Vec::new();
    for fact in w.facts() {
        match fact.strip_prefix("circuit 1 ") {
            Some(who) => user = who.to_owned(),
            None if fact.starts_with("Put to") => users.push(user.clone()),
            None => {}
        }
    }
    assert_eq!(users, ["op@console", older, "guest@elsewhere", older]);
    // in one packet with a put, which is told by who is known at its time
    w.client(&[put(2, 3), identity("third", "elsewhere")].concat());
    assert!(!w.facts().iter().any(|fact| fact.starts_with("circuit")), "nobody else has put yet");
    // without any channel, the name counts at once, and no other one does any more
    for (cid, sid) in [(1, 2), (7, 8)] {
        w.client(&message(0, 8, &[(sid as u32).to_le_bytes(), (cid as u32).to_le_bytes()].concat()));
    }
    w.client(&identity("fourth", "here"));
    w.client(&create(9, "T:AO"));
    w.server(&created(9, 10));
    w.client(&put(10, 5));
    let facts = w.facts();
    let circuits: Vec<&String> = facts.iter().filter(|fact| fact.starts_with("circuit")).collect();
    assert_eq!(circuits, ["circuit 1 fourth@here"], "{facts:?}");
}

/// pvAccessCPP cuts a message with an array in three, with control messages and empty segments between them.
#[test]
fn segments_are_joined() {
    let mut w = Wire::ready();
    let ids = [2u32.to_le_bytes(), 3u32.to_le_bytes()].concat();
    let control = hex("ca020100 78563412");
    w.client(&[message(0x10, 11, &[&ids[..3]].concat()), control.clone()].concat());
    w.client(&message(0x30, 11, b""));
    w.client(&message(0x30, 11, &[&ids[3..], &hex("00 0102 0000")[..]].concat()));
    let last = message(0x20, 11, &hex("000000000c40"));
    for byte in last {
        w.client(&[byte]);
    }
    w.client(&control);
    w.client(&request(11, 2, 3, 0, &[hex("0102"), double(4.5)].concat()));
    let facts = w.facts();
    let puts: Vec<&str> = facts.iter().filter_map(|fact| fact.strip_prefix("Put to 1: ")).collect();
    let values: Vec<&str> = puts.iter().map(|put| put.split_once(' ').expect("types").1).collect();
    assert_eq!(values, ["10 01020000000000000c40", "10 01020000000000001240"], "{facts:#?}");
}

/// pvxs mixes byte orders in one connection.
#[test]
fn each_message_has_its_byte_order() {
    let mut w = Wire::ready();
    let big = [&hex("00000002 00000003 00 0102")[..], &3.5f64.to_be_bytes()].concat();
    w.client(&message(0x80, 11, &big));
    w.client(&request(11, 2, 3, 0, &[hex("0102"), double(3.5)].concat()));
    w.server(&message(0xc0, 11, &hex("00000003 00 ff")));
    let facts = w.facts();
    assert!(facts.iter().any(|fact| fact.contains(" big 10 0102400c000000000000")), "{facts:#?}");
    assert!(facts.iter().any(|fact| fact.contains("] 10 01020000000000000c40")), "{facts:#?}");
    assert_eq!(facts.last().map(String::as_str), Some("Put answered 0 \"\": [] 0 "));
}

#[test]
fn everything_that_is_asked_for() {
    let mut w = Wire::ready();
    // the value before
    w.client(&request(11, 2, 3, 0x40, b""));
    w.server(&answer(11, 3, 0x40, &[hex("ff 0102"), double(1.5)].concat()));
    // PUT_GET with two types
    w.client(&request(12, 2, 5, 8, NO_OPTIONS));
    w.server(&answer(12, 5, 8, &hex("ff fe0100 fe0100")));
    w.client(&request(12, 2, 5, 0, &[hex("0102"), double(2.5)].concat()));
    w.server(&answer(12, 5, 0, &[hex("ff 0102"), double(2.5)].concat()));
    // PROCESS
    w.client(&request(16, 2, 6, 8, NO_OPTIONS));
    w.server(&answer(16, 6, 8, &[0xff]));
    w.client(&request(16, 2, 6, 0x10, b""));
    w.server(&answer(16, 6, 0x10, &[0xff]));
    // RPC: a structure with a text
    w.client(&request(20, 2, 7, 8, NO_OPTIONS));
    w.server(&answer(20, 7, 8, &[0xff]));
    w.client(&request(20, 2, 7, 0, b"\x80\x00\x01\x01q\x60\x02hi"));
    w.server(&answer(20, 7, 0, b"\xff\x80\x00\x01\x01r\x22\x05\x00\x00\x00"));
    // a put whose answer the client doesn't await
    w.client(&request(11, 2, 3, 0, &[hex("0102"), double(9.0)].concat()));
    w.client(&message(0, 21, &hex("02000000 03000000")));
    // a monitor
    w.client(&request(13, 2, 8, 0x88, &[NO_OPTIONS, &4u32.to_le_bytes()].concat()));
    w.client(&request(13, 2, 8, 0x44, b""));
    w.client(&request(13, 2, 8, 0x44, b"").repeat(3)); // it runs already
    w.client(&message(0, 15, &hex("02000000 08000000")));
    // refused: a channel, a request; and a message
    w.client(&create(9, "NO:SUCH"));
    w.server(&message(
        0x40,
        7,
        &[&hex("09000000 00000000 02")[..], &string("no such channel"), &[0]].concat(),
    ));
    w.client(&request(11, 2, 10, 8, NO_OPTIONS));
    w.server(&answer(11, 10, 8, &[&[2][..], &string("read only"), &[0]].concat()));
    w.server(&message(0x40, 18, &[&hex("03000000 01")[..], &string("careful")].concat()));
    // no such field, and one that there is
    w.client(&message(0, 17, &[&hex("02000000 0b000000")[..], &string("odd")].concat()));
    w.server(&message(0x40, 17, &[&hex("0b000000 02")[..], &string("no field"), &[0]].concat()));
    w.client(&message(0, 17, &[&hex("02000000 0b000000")[..], &string("value")].concat()));
    w.server(&message(0x40, 17, &[&hex("0b000000 ff")[..], WHOLE].concat()));
    let facts: Vec<String> = w.facts().into_iter().filter(|fact| !fact.starts_with("type")).collect();
    let expected = [
        "Get answered 0 \"\": [1] 10 0102000000000000f83f",
        "PutGet to 1: [1] 10 01020000000000000440",
        "PutGet answered 0 \"\": [1] 10 01020000000000000440",
        "Process to 1: [] 0 ",
        "Process answered 0 \"\": [] 0 ",
        "Rpc to 1: [5] 3 026869",
        "Rpc answered 0 \"\": [6] 4 05000000",
        "Put to 1: [1] 10 01020000000000002240",
        "Put answered 4 \"\": [] 0 ",
        "monitor of 1 starts",
        "monitor of 1 stops",
        "channel 2 NO:SUCH cid Some(9) sid None",
        "message 7 of Some(2), level 2: no such channel",
        "channel 2 ends",
        "message 11 of Some(1), level 2: read only",
        "message 18 of Some(1), level 1: careful",
        "message 17 of None, level 2: no field",
    ];
    let plain = |fact: &str| -> String {
        // numbers of types are those of an order that does not matter
        let mut out = String::new();
        let mut within = false;
        for c in fact.chars() {
            within = within && c != ']';
            if !within {
                out.push(c);
            }
            within |= c == '[';
        }
        out
    };
    let found: Vec<String> = facts.iter().map(|fact| plain(fact)).collect();
    assert_eq!(found, expected.map(plain));
}

/// A union and an any in the structure; the any's type is defined in one put and referred to in the next.
#[test]
fn types_within_values() {
    let mut w = Wire::open();
    w.client(&create(1, "T:ANY"));
    w.server(&created(1, 2));
    w.client(&request(11, 2, 3, 8, NO_OPTIONS));
    w.server(&answer(11, 3, 8, b"\xff\x80\x00\x02\x01x\x82\x01u\x81\x00\x02\x01d\x43\x01s\x60"));
    w.client(&request(11, 2, 3, 0, &hex("01 06 fd0900 80 00 01 01 6e 22 05000000 01 02 6869")));
    w.client(&request(11, 2, 3, 0, &hex("01 02 fe0900 06000000")));
    w.client(&request(11, 2, 3, 0, &hex("01 02 fe0800 06000000")));
    w.client(&request(11, 2, 3, 0, &hex("01 02 ff")));
    let found: Vec<usize> = w
        .out
        .iter()
        .filter_map(|event| match &event.fact {
            Fact::PvaPut(put) => {
                let last = put.value.types.last().copied().unwrap_or_default();
                Some(put.value.types.len() * 10 + usize::from(last != 0))
            }
            _ => None,
        })
        .collect();
    assert_eq!(found, [21, 21, 20, 20], "known, known, unknown, nothing");
}

/// Nothing of it is read into memory, and what follows is found.
#[test]
fn arrays_are_cut() {
    let mut w = Wire::ready();
    let array = [hex("01 02"), vec![0xfe], 1_000_000u32.to_le_bytes().to_vec(), vec![7; 1_000_000]].concat();
    let put = request(11, 2, 3, 0, &array);
    for part in put.chunks(1448) {
        w.client(part);
    }
    w.client(&request(11, 2, 3, 0, &[hex("0102"), double(3.5)].concat()));
    let lengths: Vec<(u32, usize)> = w
        .out
        .iter()
        .filter_map(|event| match &event.fact {
            Fact::PvaPut(put) => Some((put.value.length, put.value.bytes.len())),
            _ => None,
        })
        .collect();
    assert_eq!(lengths, [(1_000_007, 4096), (10, 10)]);
}

#[test]
fn joined_in_the_middle() {
    let mut w = Wire::new();
    // the end of a message, then one that nothing follows
    w.client(&[vec![9; 30], request(11, 2, 3, 0, &[hex("0102"), double(3.5)].concat())].concat());
    w.server(&answer(11, 3, 0, &[0xff]));
    let facts = w.facts();
    assert!(facts.contains(&"Put to 1: [0] 10 01020000000000000c40".to_owned()), "{facts:#?}");
    assert!(facts.contains(&"Put answered 0 \"\": [] 0 ".to_owned()), "{facts:#?}");
    assert!(facts.contains(&"channel 1  cid None sid Some(2)".to_owned()), "{facts:#?}");
    w.wait(1);
    assert_eq!(w.facts(), ["lost 30 bytes are not PVAccess messages, or their beginning was not seen"]);
}

/// A hole within a message costs only it; one across a header costs what is before the next header. After either a
/// reference to a type may mean another.
#[test]
fn holes() {
    let mut w = Wire::ready();
    let put = |number: f64| request(11, 2, 3, 0, &[hex("0102"), double(number)].concat());
    let long = request(
        11,
        2,
        3,
        0,
        &[hex("01 02"), vec![0xfe], 3000u32.to_le_bytes().to_vec(), vec![7; 3000]].concat(),
    );
    w.client(&long[..500]);
    w.lose(true, 1000);
    w.client(&[&long[1500..], &put(1.5)].concat());
    w.wait(2000);
    let facts = w.facts();
    let puts = |facts: &[String]| facts.iter().filter(|fact| fact.starts_with("Put to")).count();
    assert_eq!(puts(&facts), 2, "{facts:#?}");
    w.client(&put(2.5)[..3]);
    w.lose(true, 40);
    w.client(&put(3.5));
    w.wait(2000);
    let facts = w.facts();
    assert_eq!(puts(&facts), 1, "{facts:#?}");
    assert!(facts.iter().any(|fact| fact.starts_with("lost 43 ")), "{facts:#?}");
    // on the server's side, its types are forgotten
    w.lose(false, 40);
    w.server(&answer(11, 3, 0, &[0xff]));
    w.client(&request(11, 2, 4, 8, NO_OPTIONS));
    w.server(&answer(11, 4, 8, &hex("ff fe0100")));
    w.wait(2000);
    w.client(&request(11, 2, 4, 0, &[hex("0102"), double(4.5)].concat()));
    let facts = w.facts();
    assert!(facts.iter().any(|fact| fact.starts_with("Put to 1: [0] 10")), "{facts:#?}");
}

#[test]
fn what_is_not_pvaccess() {
    let mut w = Wire::open();
    w.client(&hex("16030100 05 0102030405"));
    w.wait(1);
    // that there is a circuit shows, and how it ends
    let encrypted = ["circuit 1 @", "pva 1 v0 tls", "lost 10 bytes are encrypted (TLS)"];
    assert_eq!(w.facts(), encrypted);
    w.server(&hex("16030300 05 0102030405"));
    w.client(&hex("17030300 05 0102030405"));
    let seq = w.seq[0];
    w.raw(true, seq, None, RST, b"");
    let facts = w.facts();
    let is_end = |fact: &String| fact == "circuit 1 ends";
    assert!(facts.iter().any(is_end), "{facts:?}");
    assert!(facts.iter().all(|fact| is_end(fact) || fact.starts_with("CircuitClosed")), "{facts:?}");
    let mut w = Wire::open();
    w.client(b"GET / HTTP/1.1\r\n");
    w.wait(1);
    assert_eq!(w.facts(), ["lost 16 bytes of something else than PVAccess, ignored"]);
    w.client(&request(11, 2, 3, 0, &hex("0102")));
    assert_eq!(w.facts(), [""; 0]);
}

/// What its packets hide stands in the server's memory.
#[test]
fn an_encrypted_circuit_is_named_from_memory() {
    let mut w = Wire::open();
    w.client(&hex("16030100 05 0102030405"));
    w.facts();
    let seed = Seed { user: "op", method: "x509", channels: &[(7, 1, "A")] };
    w.decoder.seed(0, w.time, (CLIENT.into(), SERVER.into()), &seed, &mut w.out).expect("no packet does");
    assert_eq!(w.facts(), ["circuit 1 op@", "channel 1 A cid Some(7) sid Some(1)"]);
}

/// Anybody can answer a search with the port of something else.
#[test]
fn a_port_that_may_be_pvaccess_is_quiet_until_its_server_shows_that() {
    let hello = |protocol: &str| hex(&format!("16030100 0c 0010 0009 06 05 {protocol}"));
    let (pvaccess, http) = ("7076612f31", "6874742f31");
    let answer = hex("16030300 05 0102030405");
    let validation = message(0x40, 1, &hex("00000100 ff7f 01 02 6361"));
    let first = [hex("ca024102 00000000"), validation].concat();
    // a page that shows what was asked for
    let page = [&b"HTTP/1.1 400 Bad Request\r\n"[..], &first].concat();
    // what the client says, what comes back, whether it is a server of PVAccess
    let cases: [(Vec<u8>, Vec<u8>, bool); 7] = [
        (b"GET / HTTP/1.1\r\n".to_vec(), b"HTTP/1.1 200 OK\r\n".to_vec(), false),
        (identity("op", "console"), page, false),
        (hello(http), answer.clone(), false),
        (hello(pvaccess), b"HTTP/1.1 400 Bad Request\r\n".to_vec(), false),
        (hello(pvaccess), hex("15030300 02 0278"), false),
        (hello(pvaccess), answer, true),
        (Vec::new(), first, true),
    ];
    for (request, answer, is_server) in cases {
        let mut w = Wire::new();
        let ports = Ports::of(&SERVICE, &[SERVER.port]);
        let guessed = vec![SERVER.port];
        w.decoder.set_served(0, vec![Served { ports, guessed, ..Served::default() }], &mut w.out);
        let [c, s] = w.seq;
        w.raw(true, c.wrapping_sub(1), None, SYN, b"");
        w.raw(false, s.wrapping_sub(1), Some(c), SYN, b"");
        w.client(&request);
        w.server(&answer);
        w.wait(2000);
        let shown: Vec<u16> = w.decoder.take_shown().iter().map(|(_, server)| server.port).collect();
        assert_eq!(shown, if is_server { vec![SERVER.port] } else { Vec::new() }, "{request:02x?}");
        let facts = w.facts();
        assert!(!facts.iter().any(|fact| fact.starts_with("lost")), "{facts:?}");
        // what a client says of itself may be told, but nothing of a server
        let says = request == identity("op", "console");
        assert_eq!(facts.iter().any(|fact| fact.starts_with("circuit 1")), is_server || says, "{facts:?}");
        assert!(w.decoder.take_shown().is_empty());
    }
}

/// Updates are not looked at, but what defines their types is.
#[test]
fn updates_define_nothing_but_init_does() {
    let mut w = Wire::open();
    w.client(&create(1, "T:AO"));
    w.server(&created(1, 2));
    w.server(&answer(13, 8, 8, &[&[0xff], SCALAR].concat()));
    for _ in 0..100 {
        w.server(&answer(13, 8, 0, &vec![1; 3000]));
    }
    w.client(&request(11, 2, 3, 8, NO_OPTIONS));
    w.server(&answer(11, 3, 8, &hex("ff fe0100")));
    w.facts();
    w.client(&request(11, 2, 3, 0, &[hex("0102"), double(3.5)].concat()));
    let facts = w.facts();
    assert_eq!(facts.len(), 3, "{facts:#?}");
    assert!(facts[2].starts_with("Put to 1: [") && !facts[2].starts_with("Put to 1: [0]"), "{facts:#?}");
}

#[test]
fn tables_are_bounded() {
    let mut w = Wire::open();
    for cid in 0..20_000u32 {
        w.client(&create(cid, &format!("T:{cid}")));
        w.server(&created(cid, cid + 1));
        w.client(&request(11, cid + 1, cid, 8, NO_OPTIONS));
        w.client(&request(13, cid + 1, cid | 1 << 20, 0x44, b""));
    }
    w.wait(2000);
    let mut open = 0i64;
    for event in &w.out {
        match &event.fact {
            Fact::Channel(channel) if channel.sid.is_none() => open += 1,
            Fact::ChannelForgotten(_) => open -= 1,
            Fact::ChannelEnd(_) => panic!("no channel was closed"),
            _ => {}
        }
    }
    assert!(open <= 8192, "{open}");
    let facts = w.facts();
    assert!(facts.iter().any(|fact| fact.contains("channels or requests forgotten")));
}

/// Over IPv6 the same is found as over IPv4, with the addresses; those that stand for IPv4 ones are these.
#[test]
fn over_ipv6() {
    use iocrec::protocols::Protocols;
    use iocrec_log::event::Fact;

    let over = |from_client: bool, ip: [u128; 2], payload: &[u8], seq: [u32; 2], flags: u8| {
        let (from, to) = if from_client { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        let (mine, theirs) = if from_client { (ip[0], ip[1]) } else { (ip[1], ip[0]) };
        let tcp = &packet(from, to, seq[0], Some(seq[1]), flags, payload)[20..];
        // options for the destination come first
        let mut bytes = vec![0x60, 0, 0, 0];
        bytes.extend((8 + tcp.len() as u16).to_be_bytes());
        bytes.extend([60, 64]);
        bytes.extend(mine.to_be_bytes());
        bytes.extend(theirs.to_be_bytes());
        [&bytes[..], &[6, 0, 1, 4, 0, 0, 0, 0], tcp].concat()
    };
    let mapped = |ip: u32| 0xffff_u128 << 32 | u128::from(ip);
    let six = ([0xfd00 << 112 | 7, 0xfd00 << 112 | 9], ["[fd00::7]:40001", "[fd00::9]:5075"]);
    let four = ([mapped(0x0a00_0007), mapped(0x0a00_0009)], ["10.0.0.7:40001", "10.0.0.9:5075"]);
    // a server of Channel Access may have the number of the client's port
    for ((ip, expected), ca_port) in [(six, 5064), (four, 5064), (six, CLIENT.port), (four, CLIENT.port)] {
        let mut protocols = Protocols::default();
        let mut ports = Ports::of(&iocrec::pva::SERVICE, &[SERVER.port]);
        ports.add(&iocrec::ca::SERVICE, &[ca_port]);
        protocols.set_served(0, &[Served { ports, ..Served::default() }], &mut Vec::new());
        let (mut out, mut seq, mut time) = (Vec::new(), [1000, 5000], 1000 * MS);
        let mut say = |from_client: bool, flags: u8, payload: &[u8]| {
            let at = usize::from(!from_client);
            time += MS;
            let bytes = over(from_client, ip, payload, [seq[at], seq[1 - at]], flags);
            protocols.packet(0, time, &bytes, bytes.len(), None, &mut out);
            seq[at] += payload.len() as u32 + u32::from(flags & SYN != 0);
        };
        say(true, SYN, b"");
        say(false, SYN, b"");
        say(true, 0, &identity("op", "console"));
        say(true, 0, &create(1, "T:AO"));
        say(false, 0, &created(1, 2));
        say(true, 0, &request(11, 2, 3, 8, NO_OPTIONS));
        say(false, 0, &answer(11, 3, 8, &[&[0xff], SCALAR].concat()));
        say(true, 0, &request(11, 2, 3, 0, &[&[1, 2][..], &2.5f64.to_le_bytes()].concat()));
        say(false, 0, &answer(11, 3, 0, &[0xff]));
        let mut context = iocrec_log::context::Context::default();
        let mut ends = Vec::new();
        for event in &out {
            context.apply(event.time, &event.fact);
            if let Fact::PvaPut(put) = &event.fact {
                ends.push(context.addresses(put.circuit));
            }
            assert!(!matches!(event.fact, Fact::Loss(_)), "{event:?}");
        }
        assert_eq!(ends, [expected.map(|end| Some(end.to_owned()))]);
    }
}

/// A port that somebody names may be of either protocol. Only PVAccess has TLS.
#[test]
fn what_is_encrypted_on_a_port_of_both() {
    use iocrec::protocols::Protocols;

    let said = |first: &[u8], back: &[u8]| {
        let mut protocols = Protocols::default();
        let mut ports = Ports::of(&iocrec::pva::SERVICE, &[SERVER.port]);
        ports.add(&iocrec::ca::SERVICE, &[SERVER.port]);
        protocols.set_served(0, &[Served { ports, ..Served::default() }], &mut Vec::new());
        let behind = 1000 + first.len() as u32;
        let packets = [
            packet(CLIENT, SERVER, 999, None, SYN, b""),
            packet(SERVER, CLIENT, 4999, Some(1000), SYN, b""),
            packet(CLIENT, SERVER, 1000, Some(5000), 0, first),
            packet(SERVER, CLIENT, 5000, Some(behind), 0, back),
        ];
        let (mut out, mut time) = (Vec::new(), 1000 * MS);
        for packet in packets {
            time += MS;
            protocols.packet(0, time, &packet, packet.len(), None, &mut out);
        }
        protocols.tick(time + 2000 * MS, &mut out);
        out.iter().map(|event| words(&event.fact)).collect::<Vec<String>>()
    };
    let encrypted = said(&hex("16030100 05 0102030405"), &hex("16030300 05 0102030405"));
    assert_eq!(encrypted, ["circuit 1 @", "pva 1 v0 tls", "lost 10 bytes are encrypted (TLS)"]);
    let other = said(b"GET / HTTP/1.1\r\n", b"HTTP/1.1 400 Bad Request\r\n");
    assert!(other.iter().all(|fact| fact.starts_with("lost")), "{other:?}");
}

/// A client asks a name server on a circuit; the byte order changes from message to message, as pvxs has it. Searches
/// are counted as those over UDP, and don't disturb the puts beside them.
#[test]
fn searches_on_a_circuit() {
    let mut w = Wire::ready();
    let name = |cid: u32, name: &str| [&cid.to_be_bytes()[..], &string(name)].concat();
    let search = |names: &[Vec<u8>]| {
        [
            &hex("66696e64 80000000 00000000000000000000000000000000 0000 01")[..],
            &string("tcp"),
            &[0, names.len() as u8],
            &names.concat(),
        ]
        .concat()
    };
    w.client(&message(0x80, 3, &search(&[name(7, "X:A"), name(8, "X:B"), name(9, "X:C")])));
    let guid = hex("0102030405060708090a0b0c");
    let found = |ip: &str, cid: u32| {
        [&guid[..], b"find", &hex(ip), &5075u16.to_be_bytes(), &string("tcp"), &[1, 0, 1], &cid.to_be_bytes()]
            .concat()
    };
    // the server itself, another one, one over IPv6
    w.server(&message(0xc0, 4, &found("00000000000000000000000000000000", 7)));
    w.client(&request(11, 2, 3, 0, &[hex("0102"), double(3.5)].concat()));
    w.server(&message(0xc0, 4, &found("00000000000000000000ffff0a000009", 8)));
    w.server(&message(0xc0, 4, &found("fd000000000000000000000000000007", 9)));
    w.server(&answer(11, 3, 0, &[0xff]));
    w.wait(3000);
    w.wait(1000);
    let at = |ip: u32| iocrec_log::event::Address { ip, port: 5075 };
    let mut searches = Vec::new();
    let mut told = None;
    for event in &w.out {
        match &event.fact {
            Fact::Ip6(of) => told = Some((of.ip, of.bytes.clone())),
            Fact::PvaSearches(of) => {
                let it = &of.searches;
                assert_eq!((it.client, it.tcp, it.count, of.guids.len()), (CLIENT, true, 1, 1));
                searches.push((it.name.clone(), it.answers.clone()));
            }
            _ => {}
        }
    }
    searches.sort();
    let (ip6, bytes) = told.expect("the IPv6 address is told");
    assert_eq!(bytes, hex("fd000000000000000000000000000007"));
    let expected = [("X:A", SERVER.ip), ("X:B", 0x0a00_0009), ("X:C", ip6)];
    assert_eq!(searches, expected.map(|(name, ip)| (name.to_owned(), vec![(at(ip), 1)])));
    let facts = w.facts();
    assert_eq!(facts.iter().filter(|fact| fact.starts_with("Put ")).count(), 2, "{facts:#?}");
}

/// PUT_GET as pvaPy carries it out: it fetches both structures before, which puts nothing.
#[test]
fn a_put_get_that_fetches_first() {
    let mut w = Wire::ready();
    w.client(&request(12, 2, 5, 8, NO_OPTIONS));
    // what it puts to is a double, what it sends back a structure with an int
    w.server(&answer(12, 5, 8, &hex("ff fe0100 80 00 01 01 6e 22")));
    w.client(&request(12, 2, 5, 0x40, b""));
    w.server(&answer(12, 5, 0x40, &hex("ff 0102 07000000")));
    w.client(&request(12, 2, 5, 0x80, b""));
    w.server(&answer(12, 5, 0x80, &[hex("ff 0102"), double(1.5)].concat()));
    w.client(&request(12, 2, 5, 0, &[hex("0102"), double(2.5)].concat()));
    w.server(&answer(12, 5, 0, &hex("ff 0102 08000000")));
    let facts: Vec<String> = w.facts().into_iter().filter(|fact| fact.contains("Get")).collect();
    let values: Vec<&str> = facts.iter().map(|fact| fact.rsplit_once("] ").unwrap().1).collect();
    assert_eq!(
        values,
        ["6 010207000000", "10 0102000000000000f83f", "10 01020000000000000440", "6 010208000000"]
    );
    let kinds: Vec<&str> = facts.iter().map(|fact| fact.split(':').next().unwrap()).collect();
    assert_eq!(
        kinds,
        ["Get answered 0 \"\"", "Get answered 0 \"\"", "PutGet to 1", "PutGet answered 0 \"\""]
    );
    let types: Vec<&str> = facts.iter().map(|fact| fact.split(['[', ']']).nth(1).unwrap()).collect();
    assert!(types[0] == types[3] && types[1] == types[2] && types[0] != types[1], "{facts:#?}");
}
