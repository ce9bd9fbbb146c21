//! Tests of the framing: every byte is somewhere.

use super::messages::{header, message, put};
use super::one_message::MAX_HELD;
use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::cell::Cell;

#[derive(Clone, Debug)]
enum Input {
    Bytes(Vec<u8>, bool, bool),
    Gap(u32, Gap),
}

fn input() -> impl Strategy<Value = Input> {
    let bytes = prop_oneof![
        (any::<bool>(), any::<u32>()).prop_map(|(notify, ioid)| put(notify, 1, ioid, &[1.0; 5])),
        Just(message(1, 20, 1, 1, 1, &[0; 24])),
        Just(message(18, 0, 0, 1, 13, b"PV\0")),
        Just([message(18, 0, 0, 1, 13, &[1]), put(true, 1, 1, &[1.0; 3]), put(false, 1, 1, &[])].concat()),
        (0u16..30, any::<u16>()).prop_map(|(command, size)| header(command, size, 0, 1, 1, 1)),
        vec(any::<u8>(), 0..100),
        vec(0u8..3, 0..100),
        Just(message(23, 0, 0, 0, 0, b"")),
    ];
    let bytes =
        (bytes, 0usize..60, any::<bool>(), any::<bool>()).prop_map(|(mut bytes, cut, starts, ends)| {
            bytes.truncate(bytes.len().max(60) - cut);
            Input::Bytes(bytes, starts, ends)
        });
    let gap = (0u32..100, any::<bool>())
        .prop_map(|(n, lost)| Input::Gap(n, if lost { Gap::Lost } else { Gap::Elided }));
    prop_oneof![8 => bytes, 1 => gap]
}

/// What seems to be a request for a channel is none, since its name is no text.
#[test]
fn a_candidate_that_is_no_message_is_passed_over() {
    let mut segment = message(18, 0, 0, 1, 13, &[1; 8]);
    let puts = [1, 2, 3].map(|ioid| put(true, 1, ioid, &[1.0; 5])).concat();
    segment.extend(&puts);
    let mut framer = Framer::new(Side::Client, 16);
    for starts in [true, false] {
        let mut told = Vec::new();
        framer.bytes(0, &segment, starts, true, &mut |_, header, _| told.push(header.p2));
        framer.bytes(0, &puts, true, true, &mut |_, header, _| told.push(header.p2));
        assert_eq!((told, framer.take_lost()), (vec![1, 2, 3, 1, 2, 3], 24));
        framer.give_up();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Every byte is in a message, counted as lost, or still undecided.
    #[test]
    fn no_byte_is_forgotten(inputs in vec(input(), 0..60), from_start in any::<bool>(), server in any::<bool>()) {
        let mut framer = Framer::new(if server { Side::Server } else { Side::Client }, 16);
        if from_start {
            framer.start();
        }
        let (mut fed, in_messages, mut lost) = (0u64, Cell::new(0u64), 0u64);
        for input in &inputs {
            let mut sink = |_: u64, header: &Header, payload: &[u8]| {
                in_messages.set(in_messages.get() + header.bytes() as u64 + u64::from(header.size));
                assert!(payload.len() as u64 <= u64::from(header.size).min(512));
            };
            match input {
                Input::Bytes(bytes, starts, ends) => {
                    framer.bytes(0, bytes, *starts, *ends, &mut sink);
                    fed += bytes.len() as u64;
                }
                Input::Gap(length, cause) => {
                    let before = (framer.lost, framer.unsettled, in_messages.get());
                    framer.gap(0, *length, *cause, &mut sink);
                    // Omitted updates between messages are not a loss.
                    let passed = *cause == Gap::Elided && before == (framer.lost, framer.unsettled, in_messages.get());
                    fed += if passed { 0 } else { u64::from(*length) };
                }
            }
            lost += framer.take_lost();
            if framer.held.len() >= MAX_HELD {
                // From here on, blank messages are passed over.
                return Ok(());
            }
            prop_assert_eq!(fed, in_messages.get() + lost + framer.unsettled);
        }
    }
}
