//! Messages that servers take differently: QSRV1 (pvAccessCPP 7.1) goes by the byte order of the connection, by the newer
//! of two types with one number, and carries out a put once what it needs has come; pvxs 1.5 goes by the flag of a message's
//! last segment, by the older type, and hangs up when segments do not follow each other. Seen with raw messages
//! (tests/e2e/odd_messages.rs). A put is told as the server took it, or that it is not known.

use crate::wire::*;
use iocrec::pva::Seed;

/// The first messages of pvAccessCPP's servers, and of pvxs'.
const QSRV1: &str = "00440000 ff7f 01 02 6361";
const PVXS: &str = "00000100 ff7f 01 02 6361";

/// SET_ENDIANNESS.
const BIG: &str = "ca028102 00000000";
const LITTLE: &str = "ca020102 00000000";

/// Channels A and B (cids 1 and 2, sids 1 and 2), with prepared puts (ioids 5 and 6).
fn ready(hello: &str) -> Wire {
    let mut w = Wire::open();
    w.server(&[hex("ca024102 00000000"), message(0x40, 1, &hex(hello))].concat());
    w.client(&identity("op", "console"));
    w.server(&message(0x40, 9, &[0xff]));
    w.client(&[create(1, "A"), create(2, "B")].concat());
    w.server(&[created(1, 1), created(2, 2)].concat());
    w.client(&[request(11, 1, 5, 8, NO_OPTIONS), request(11, 2, 6, 8, NO_OPTIONS)].concat());
    w.server(&[5, 6].map(|ioid| answer(11, ioid, 8, &[&[0xff], SCALAR].concat())).concat());
    w.facts();
    w
}

fn body(id: u32, big: bool, number: f64) -> Vec<u8> {
    let numbers = match big {
        true => [id.to_be_bytes(), (id + 4).to_be_bytes()].concat(),
        false => [id.to_le_bytes(), (id + 4).to_le_bytes()].concat(),
    };
    let number = if big { number.to_be_bytes() } else { number.to_le_bytes() };
    [&numbers[..], &[0, 1, 2], &number].concat()
}

/// A message whose size is in another order than its flag says.
fn contrary(payload: &[u8], big: bool) -> Vec<u8> {
    let mut message = message(if big { 0x80 } else { 0 }, 11, payload);
    message[2] ^= 0x80;
    message
}

/// Checks which puts are told: channel, whether big-endian, number.
fn expect(w: &mut Wire, of: &[(u32, bool, f64)]) {
    let facts = w.facts();
    let puts: Vec<&String> = facts.iter().filter(|fact| fact.starts_with("Put to")).collect();
    assert_eq!(puts.len(), of.len(), "{facts:?}");
    for (put, &(channel, big, number)) in puts.iter().zip(of) {
        let bytes = if big { number.to_be_bytes() } else { number.to_le_bytes() };
        let bytes: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let is_right = put.starts_with(&format!("Put to {channel}: "))
            && put.contains(&format!(" 10 0102{bytes}"))
            && put.contains(" big ") == big;
        assert!(is_right, "{put}, not {number} to {channel}");
    }
}

fn lost(w: &mut Wire) -> bool {
    w.wait(10_000);
    w.facts().iter().any(|fact| fact.starts_with("lost"))
}

/// The socket filter may have gone by the flag, so it is not said that nothing is missing.
#[test]
fn qsrv1_passes_over_the_flag() {
    let mut w = ready(QSRV1);
    w.client(&contrary(&body(1, false, 12.5), false));
    w.client(&message(0, 11, &body(2, false, 13.5)));
    expect(&mut w, &[(1, false, 12.5), (2, false, 13.5)]);
    assert!(lost(&mut w));
    // split inside the header
    let mut w = ready(QSRV1);
    let bytes = contrary(&body(1, false, 12.5), false);
    w.client(&bytes[..5]);
    w.client(&bytes[5..]);
    expect(&mut w, &[(1, false, 12.5)]);
}

#[test]
fn qsrv1_takes_the_order_that_the_client_sets() {
    let mut w = ready(QSRV1);
    w.client(&[hex(BIG), message(0x80, 11, &body(1, true, 22.5))].concat());
    w.client(&contrary(&body(2, true, 23.5), true));
    w.client(&[hex(LITTLE), message(0, 11, &body(1, false, 24.5))].concat());
    expect(&mut w, &[(1, true, 22.5), (2, true, 23.5), (1, false, 24.5)]);
}

#[test]
fn pvxs_goes_by_each_message() {
    let mut w = ready(PVXS);
    w.client(&message(0x80, 11, &body(1, true, 11.5)));
    w.client(&[hex(BIG), message(0, 11, &body(2, false, 21.5))].concat());
    expect(&mut w, &[(1, true, 11.5), (2, false, 21.5)]);
    assert!(!lost(&mut w));
}

/// Read by its first segment's flag, the put would be one to another channel.
#[test]
fn pvxs_goes_by_the_last_segment() {
    let mut w = ready(PVXS);
    let payload = body(1, true, 45.5);
    w.client(&[message(0x10, 11, &payload[..9]), message(0xa0, 11, &payload[9..])].concat());
    expect(&mut w, &[(1, true, 45.5)]);
}

/// QSRV1 writes 40.5, and refuses 41.5 since the other is under way.
#[test]
fn a_put_that_has_come_whole_before_its_last_segment() {
    let mut w = ready(QSRV1);
    w.client(&[message(0x10, 11, &body(1, false, 40.5)), message(0, 11, &body(1, false, 41.5))].concat());
    expect(&mut w, &[(1, false, 40.5), (1, false, 41.5)]);
    w.client(&message(0x10, 11, &body(2, false, 31.5)));
    expect(&mut w, &[]);
    w.raw(true, w.seq[0], Some(w.seq[1]), FIN, b"");
    w.raw(false, w.seq[1], Some(w.seq[0] + 1), FIN, b"");
    w.wait(6000);
    expect(&mut w, &[(2, false, 31.5)]);
}

/// QSRV1 answers it in an order of its own, whatever that of the client.
#[test]
fn a_put_that_is_answered_before_its_last_segment() {
    for big in [false, true] {
        let mut w = ready(QSRV1);
        let (order, flag) = if big { (BIG, 0x80) } else { (LITTLE, 0) };
        w.client(&[hex(order), message(0x10 | flag, 11, &body(1, big, 40.5))].concat());
        w.server(&answer(11, 5, 0, &[0xff]));
        let facts = w.facts();
        let puts: Vec<&String> = facts.iter().filter(|fact| fact.starts_with("Put ")).collect();
        assert_eq!(puts.len(), 2, "{facts:?}");
        assert!(puts[0].starts_with("Put to 1: ") && puts[1].starts_with("Put answered 0 "), "{facts:?}");
    }
}

/// The other segments of a message are nothing without the first, and not a put of what came before.
#[test]
fn segments_without_a_first() {
    for hello in [QSRV1, PVXS] {
        let mut w = ready(hello);
        w.client(
            &[message(0x20, 11, &body(1, false, 35.5)), message(0x30, 11, &body(1, false, 36.5))].concat(),
        );
        expect(&mut w, &[]);
    }
}

/// The options of a put, of a type whose number has been defined as two.
#[test]
fn a_number_that_is_defined_as_two_types() {
    let process = b"\x80\x00\x01\x07process\x60\x04true";
    let block = b"\x80\x00\x01\x05block\x60\x04true";
    let mut w = ready(PVXS);
    let with = |number: u8, rest: &[u8]| [&[0xfd, number, 0][..], rest].concat();
    w.client(&request(11, 1, 7, 8, &with(9, process)));
    w.client(&request(11, 1, 8, 8, &with(9, block)));
    w.client(&request(11, 1, 9, 8, b"\xfe\x09\x00\x04true"));
    w.client(&request(11, 1, 9, 0, b"\x01\x02abcdefgh"));
    let of = |w: &mut Wire| w.facts().into_iter().find(|fact| fact.starts_with("Put to")).expect("a put");
    let put = of(&mut w);
    assert!(put.contains("options [0] 5 "), "{put}");
    // the same definition again is no other
    w.client(&request(11, 1, 7, 8, &with(8, process)));
    w.client(&request(11, 1, 8, 8, &with(8, process)));
    w.client(&request(11, 1, 9, 8, b"\xfe\x08\x00\x04true"));
    w.client(&request(11, 1, 9, 0, b"\x01\x02abcdefgh"));
    let put = of(&mut w);
    assert!(!put.contains("options [0]") && put.contains("options ["), "{put}");
}

/// Who the client says to be, as a type and a value.
fn claim(kind_and_value: &[u8]) -> Vec<u8> {
    message(0, 1, &[&hex("00440000 ff7f 0000 02 6361")[..], kind_and_value].concat())
}

/// Both servers take names to their first NUL, and believe no user that is no text. Of one in an any, QSRV1 believes
/// nothing, and pvxs only where the any is the field itself.
#[test]
fn names_end_at_their_first_nul_and_are_texts() {
    let member = |name: &str, kind: &[u8]| [&string(name)[..], kind].concat();
    let host = member("host", b"\x60");
    let user = |kind: &[u8], value: &[u8]| {
        [b"\x80\x00\x02", &host[..], &member("user", kind), &string("console"), value].concat()
    };
    let any = user(b"\x82", &[b"\x60", &string("op")[..]].concat());
    for (what, who) in [
        (user(b"\x60", &string("op")), "op@console"),
        (user(b"\x60", &string("op\0other")), "op@console"),
        (user(b"\x22", b"ops\0"), "@console"),
        (any.clone(), "@console"),
        ([b"\x82", &user(b"\x60", &string("op"))[..]].concat(), "@"),
    ] {
        let mut w = Wire::open();
        w.server(&message(0x40, 1, &hex(PVXS)));
        w.client(&claim(&what));
        let facts = w.facts();
        let told = facts.iter().rfind(|fact| fact.starts_with("circuit 1 ")).expect("a circuit");
        assert_eq!(told.rsplit(' ').next(), Some(who), "{what:?}");
    }
    let mut w = Wire::open();
    w.client(&[create(1, "A\0B"), create(2, "\0"), create(3, "C")].concat());
    let facts = w.facts();
    let channels: Vec<&String> = facts.iter().filter(|fact| fact.starts_with("channel")).collect();
    assert_eq!(channels, ["channel 1 A cid Some(1) sid None", "channel 2 C cid Some(3) sid None"]);
}

/// The user that is told with the first of these facts that tells one.
fn told(w: &mut Wire) -> Option<String> {
    w.facts().iter().find_map(|fact| fact.strip_prefix("circuit 1 ").map(str::to_owned))
}

/// A client that may not put asks for a channel, or one that may, and then says to be the other.
#[test]
fn who_puts_is_not_who_asked_for_the_channel() {
    for (hello, expected) in [(QSRV1, None), (PVXS, Some("@"))] {
        let mut w = ready(hello);
        w.client(&identity("other", "console"));
        w.client(&message(0, 11, &body(1, false, 1.5)));
        // told under the first name, or under none
        assert_eq!(told(&mut w).as_deref(), expected, "{hello}");
    }
}

/// What the circuit was when the last of these puts came.
fn last_put_by(facts: &[String]) -> &str {
    let put = facts.iter().rposition(|fact| fact.starts_with("Put to 1")).expect("a put");
    facts[..put].iter().rfind(|fact| fact.starts_with("circuit 1 ")).expect("a circuit")
}

/// A client asked for a channel, and says now to be somebody else: whom the server believes was not seen.
#[test]
fn a_name_that_is_younger_than_channels_that_were_not_seen() {
    let number = 1.5f64.to_le_bytes();
    let put = |sid: u32| request(11, sid, sid + 4, 0, &[&[1, 2][..], &number].concat());
    // the circuit is older than the recorder, or bytes of the client were lost
    let mut lost = Wire::open();
    lost.client(&message(0, 2, b""));
    lost.lose(true, 500);
    for mut w in [Wire::new(), lost] {
        w.client(&identity("other", "console"));
        w.wait(2000);
        w.client(&put(1));
        assert_eq!(last_put_by(&w.facts()), "circuit 1 @");
        // a channel that is asked for under the new name
        w.client(&create(9, "B"));
        w.server(&created(9, 9));
        w.client(&put(9));
        assert_eq!(told(&mut w).as_deref(), Some("other@console"));
    }
}

/// Of a channel that was named from the server's memory it is not known either.
#[test]
fn a_name_that_is_younger_than_a_channel_from_memory() {
    let mut w = Wire::new();
    w.client(&identity("other", "console"));
    w.client(&message(0, 11, &body(1, false, 1.5)));
    let seed = Seed { user: "", method: "", channels: &[(7, 1, "A")] };
    w.decoder.seed(0, w.time, (CLIENT.into(), SERVER.into()), &seed, &mut w.out).expect("it is older");
    w.client(&message(0, 11, &body(1, false, 2.5)));
    let facts = w.facts();
    assert_eq!(last_put_by(&facts), "circuit 1 @");
    assert!(facts.contains(&"channel 1 A cid Some(7) sid Some(1)".to_owned()), "{facts:?}");
}

/// QSRV1 goes by the newer of two types with one number: whom it believes is not known here, and not who was known before.
#[test]
fn a_name_of_a_type_that_is_not_known() {
    let mut w = ready(QSRV1);
    w.client(&claim(b"\xfe\x63\x00\x04boss\x07console"));
    w.client(&create(3, "C"));
    w.server(&created(3, 3));
    w.client(&message(0, 11, &body(3, false, 1.5)));
    assert_eq!(told(&mut w).as_deref(), Some("@"));
}

/// QSRV1 learns types from all messages, and goes by the newer one.
#[test]
fn a_name_of_a_type_that_was_defined_elsewhere() {
    let other = b"\xfd\x01\x00\x80\x00\x02\x04host\x60\x04user\x60\x01a\x01b";
    let any = [&b"\x80\x00\x01\x01x\x82"[..], other].concat();
    for hidden in [
        message(0, 5, other),
        message(0, 5, &any),
        request(10, 1, 77, 8, &any),
        request(13, 1, 77, 8, &any),
        request(14, 1, 77, 8, other),
        request(11, 1, 77, 8, &[&b"\xfe\x63\x00"[..], other].concat()),
        // by a request that was not seen to be prepared
        request(11, 1, 78, 0, &[&b"\x01\x01"[..], other].concat()),
    ] {
        let mut w = ready(QSRV1);
        w.client(&hidden);
        w.client(&claim(b"\xfe\x01\x00\x01x\x04boss"));
        w.client(&create(3, "C"));
        w.server(&created(3, 3));
        w.client(&message(0, 11, &body(3, false, 1.5)));
        assert_eq!(told(&mut w).as_deref(), Some("@"), "{hidden:x?}");
    }
}

/// Of two fields with that name pvxs takes the last.
#[test]
fn a_name_behind_what_can_not_be_read() {
    let mut w = Wire::open();
    w.server(&message(0x40, 1, &hex(PVXS)));
    let fields = [&string("user")[..], b"\x60", &string("x"), b"\x82", &string("user"), b"\x60"].concat();
    let values = [&string("guest")[..], b"\xfe\x63\x00", &string("boss")].concat();
    w.client(&claim(&[&b"\x80\x00\x03"[..], &fields, &values].concat()));
    let facts = w.facts();
    assert!(!facts.iter().any(|fact| fact.contains("guest")), "{facts:?}");
}

/// More names than are remembered: of an old channel it is forgotten who asked for it, and it is nobody else's.
#[test]
fn many_names() {
    let mut w = ready(QSRV1);
    for number in 0..20 {
        w.client(&identity(&format!("user{number}"), "console"));
        w.client(&[create(10 + number, "C"), message(0, 2, b"")].concat());
        w.server(&created(10 + number, 10 + number));
    }
    w.facts();
    w.client(&message(0, 11, &body(1, false, 1.5)));
    assert_eq!(told(&mut w).as_deref(), Some("@"));
    w.client(&message(0, 11, &body(29, false, 1.5)));
    assert_eq!(told(&mut w).as_deref(), Some("user19@console"));
}

/// What a client calls its method takes no room.
#[test]
fn a_long_name_of_a_method() {
    let mut w = ready(PVXS);
    let method = [&[0xfe][..], &60_000u32.to_le_bytes(), &vec![0xff; 60_000]].concat();
    w.client(&message(0, 1, &[&hex("00440000 ff7f 0000")[..], &method, &[0xff]].concat()));
    let facts = w.facts();
    let told = facts.iter().find(|fact| fact.starts_with("pva 1 ")).expect("the method");
    assert!(told.len() < 400, "{} bytes", told.len());
}
