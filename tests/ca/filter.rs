//! The socket filter, run by a small interpreter of classic BPF, against what it promises.

use crate::wire::*;
use iocrec::ca::SERVICE;
use iocrec::net::filter::{self, DEPTHS, MAX_PORTS};
use iocrec::net::service::Ports;
use iocrec_log::event::Address;
use libc::sock_filter;
use proptest::collection::vec;
use proptest::prelude::*;

/// The filter for Channel Access alone.
fn build(ports: &[u16], interfaces: &[u32], depth: usize) -> Vec<sock_filter> {
    filter::build(&Ports::of(&SERVICE, ports), interfaces, depth)
}

/// What the kernel knows of a packet besides its bytes.
struct Meta {
    protocol: u32,
    outgoing: bool,
    interface: u32,
    hardware: u32,
}

const ETHERNET: Meta = Meta { protocol: 0x0800, outgoing: false, interface: 2, hardware: 1 };

/// Runs a program as the kernel does: how many bytes it lets through.
fn run(program: &[sock_filter], packet: &[u8], meta: &Meta) -> u32 {
    let (mut a, mut x, mut memory, mut pc) = (0u32, 0u32, [0u32; 16], 0usize);
    let read = |at: u32, width: usize| -> Option<u32> {
        let bytes = packet.get(at as usize..(at as usize).checked_add(width)?)?;
        Some(bytes.iter().fold(0, |n, b| n << 8 | u32::from(*b)))
    };
    loop {
        let op = program[pc];
        pc += 1;
        let loaded = match op.code {
            // ld, ldh, ldb absolute
            0x20 if op.k == 0xffff_f000 => Some(meta.protocol),
            0x20 if op.k == 0xffff_f004 => Some(if meta.outgoing { 4 } else { 0 }),
            0x20 if op.k == 0xffff_f008 => Some(meta.interface),
            0x20 if op.k == 0xffff_f01c => Some(meta.hardware),
            0x20 => read(op.k, 4),
            0x28 => read(op.k, 2),
            0x30 => read(op.k, 1),
            // ld, ldh, ldb relative to X
            0x40 => read(x.wrapping_add(op.k), 4),
            0x48 => read(x.wrapping_add(op.k), 2),
            0x50 => read(x.wrapping_add(op.k), 1),
            0x80 => Some(packet.len() as u32),
            0x60 => Some(memory[op.k as usize]),
            _ => Some(a),
        };
        match loaded {
            Some(loaded) => a = loaded,
            None => return 0,
        }
        let jump = |yes: bool| usize::from(if yes { op.jt } else { op.jf });
        match op.code {
            0x20 | 0x28 | 0x30 | 0x40 | 0x48 | 0x50 | 0x80 | 0x60 => {}
            0xb1 => match read(op.k, 1) {
                Some(byte) => x = (byte & 0xf) * 4,
                None => return 0,
            },
            0x61 => x = memory[op.k as usize],
            0x02 => memory[op.k as usize] = a,
            0x03 => memory[op.k as usize] = x,
            0x07 => x = a,
            0x54 => a &= op.k,
            0x74 => a >>= op.k,
            0x04 => a = a.wrapping_add(op.k),
            0x0c => a = a.wrapping_add(x),
            0x1c => a = a.wrapping_sub(x),
            0x05 => pc += op.k as usize,
            0x15 => pc += jump(a == op.k),
            0x25 => pc += jump(a > op.k),
            0x35 => pc += jump(a >= op.k),
            0x45 => pc += jump(a & op.k != 0),
            0x1d => pc += jump(a == x),
            0x2d => pc += jump(a > x),
            0x06 => return op.k,
            0x16 => return a,
            code => panic!("instruction {code:#x}"),
        }
    }
}

/// What a segment that is put together from these messages should be cut to, in bytes of payload;
/// none for not at all.
fn cut(payload: &[u8]) -> Option<usize> {
    let mut at = 0;
    for _ in 0..DEPTHS[0] {
        let h: &[u8] = payload.get(at..at + 16)?;
        let update = matches!(h[..2], [0, 1] | [0, 15]);
        let size = usize::from(u16::from_be_bytes([h[2], h[3]]));
        let dbr = u16::from_be_bytes([h[4], h[5]]);
        if !update || size % 8 != 0 || dbr > 38 || h[8..12] != [0, 0, 0, 1] {
            return None;
        }
        match (at + 16 + size).cmp(&payload.len()) {
            std::cmp::Ordering::Equal => return Some(0),
            std::cmp::Ordering::Greater => return Some(at + 16),
            std::cmp::Ordering::Less => at += 16 + size,
        }
    }
    None
}

fn update(size: usize) -> Vec<u8> {
    message(1, 20, 1, 1, 9, &vec![3; size])
}

fn anything() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        40 => (0usize..60).prop_map(update),
        5 => (0usize..60).prop_map(|n| message(15, 6, 1, 1, 4, &vec![0; n])),
        1 => Just(message(19, 6, 1, 1, 4, b"")),
        1 => Just(message(1, 20, 1, 2, 9, &[0; 8])),
        1 => Just(message(1, 39, 1, 1, 9, &[0; 8])),
        1 => Just(long_header(1, 100_000, 5, 25_000, 1, 1)),
        1 => vec(any::<u8>(), 0..30),
        1 => Just(update(5000)[..100].to_vec()),
    ];
    let part = part.boxed();
    prop_oneof![vec(part.clone(), 0..6), vec(part, 0..130)].prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn segments_of_servers_are_cut_as_promised(payload in anything(), options in 0u8..11, big in any::<bool>()) {
        let program = build(&[5064, 5065], &[], DEPTHS[0]);
        let mut p = packet(SERVER, CLIENT, 1, Some(1), 8, &payload);
        if big {
            p[2..4].fill(0);
        }
        // IP options.
        for _ in 0..options {
            p.splice(20..20, [1, 1, 1, 1]);
        }
        p[0] += options;
        if !big {
            let total = p.len() as u16;
            p[2..4].copy_from_slice(&total.to_be_bytes());
        }
        let headers = 40 + 4 * u32::from(options);
        let passed = run(&program, &p, &ETHERNET);
        let expected = match cut(&payload) {
            _ if payload.is_empty() => 0,
            Some(n) => headers + n as u32,
            None => u32::MAX,
        };
        prop_assert_eq!(passed, expected);
        // Without the walk: whole.
        let whole = run(&build(&[5064, 5065], &[], 0), &p, &ETHERNET);
        prop_assert_eq!(whole, if payload.is_empty() { 0 } else { u32::MAX });
    }

    #[test]
    fn any_bytes_are_filtered(bytes in vec(any::<u8>(), 0..200), ports in vec(any::<u16>(), 0..MAX_PORTS)) {
        let program = build(&ports, &[1, 2], DEPTHS[0]);
        prop_assert!(program.len() <= 4096);
        run(&program, &bytes, &ETHERNET);
    }
}

#[test]
fn ports_and_protocols() {
    let program = build(&[5064, 6000, 6001], &[], DEPTHS[0]);
    let from = |source: u16, destination: u16| {
        let p = packet(
            Address { ip: 1, port: source },
            Address { ip: 2, port: destination },
            1,
            None,
            0,
            &put(false, 1, 1, &[1.0]),
        );
        run(&program, &p, &ETHERNET) == u32::MAX
    };
    assert!(from(40_000, 5064) && from(5064, 40_000) && from(6001, 9) && from(9, 6000));
    assert!(!from(40_000, 5065) && !from(1, 2));
    let mut p = packet(CLIENT, SERVER, 1, None, 0, &put(false, 1, 1, &[1.0]));
    assert_eq!(run(&program, &p, &ETHERNET), u32::MAX);
    assert_eq!(run(&program, &p, &Meta { protocol: 0x8100, ..ETHERNET }), u32::MAX);
    assert_eq!(run(&program, &p, &Meta { protocol: 0x86dd, ..ETHERNET }), 0);
    assert_eq!(run(&build(&[], &[], DEPTHS[0]), &p, &ETHERNET), 0);
    // Fragments: only the first has ports.
    p[6] = 0x20;
    assert_eq!(run(&program, &p, &ETHERNET), u32::MAX);
    p[7] = 1;
    assert_eq!(run(&program, &p, &ETHERNET), 0);
    p[6..8].fill(0);
    p[9] = 17;
    assert_eq!(run(&program, &p, &ETHERNET), 0);
}

#[test]
fn loopback_once_and_interfaces_by_index() {
    let p = packet(CLIENT, SERVER, 1, None, 0, &put(false, 1, 1, &[1.0]));
    let program = build(&[5064], &[], DEPTHS[0]);
    let lo = Meta { interface: 1, hardware: 772, ..ETHERNET };
    assert_eq!(run(&program, &p, &lo), u32::MAX);
    assert_eq!(run(&program, &p, &Meta { outgoing: true, ..lo }), 0);
    assert_eq!(run(&program, &p, &Meta { outgoing: true, ..ETHERNET }), u32::MAX);
    let program = build(&[5064], &[2, 7], DEPTHS[0]);
    assert_eq!(run(&program, &p, &lo), 0);
    assert_eq!(run(&program, &p, &ETHERNET), u32::MAX);
    assert_eq!(run(&program, &p, &Meta { interface: 7, ..ETHERNET }), u32::MAX);
}

#[test]
fn acknowledgements_are_dropped_and_ends_are_kept() {
    let program = build(&[5064], &[], DEPTHS[0]);
    let passed = |flags: u8, payload: &[u8]| {
        let mut p = packet(CLIENT, SERVER, 1, Some(9), flags, payload);
        // Ethernet's shortest frame is padded.
        p.resize(p.len().max(46), 0);
        run(&program, &p, &ETHERNET)
    };
    assert_eq!(passed(0, b""), 0);
    assert_eq!(passed(0, b"x"), u32::MAX);
    for flags in [SYN, FIN, RST] {
        assert_eq!(passed(flags, b""), u32::MAX);
    }
}

#[test]
fn the_program_fits_into_a_small_sockets_memory() {
    assert!(build(&[5064, 5065], &[], DEPTHS[1]).len() * 8 < 4500);
}
