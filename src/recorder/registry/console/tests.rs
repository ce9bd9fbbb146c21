//! Tests of the console: what becomes lines, and what never does.

use super::*;
use crate::recorder::testing::{Bench, FakeProcess, TestIoc, PID, SECOND};
use proptest::prelude::*;

/// A call of `write` to standard error on a thread other than the first.
fn error(text: &[u8]) -> Written<'_> {
    Written { time: 5 * SECOND, tid: 7, thread: 3, sp: -8, descriptor: 2, length: text.len() as u32, text }
}

fn bench(stdout: &'static str) -> Bench {
    let mut bench = Bench::new();
    bench.procfs.set(PID, FakeProcess { stdout, ..FakeProcess::default() });
    bench.trace(&TestIoc::new(PID));
    bench
}

fn write(bench: &mut Bench, written: Written<'_>) {
    bench.with(PID, |ioc, env| ioc.console.write(env, PID, written));
}

/// The lines so far: text, bytes cut, whether it has ended.
fn lines(bench: &Bench) -> Vec<(String, u32, bool)> {
    let line = |event: iocrec_log::event::Event| match event.fact {
        Fact::ConsoleLine(line) => Some((line.text, line.cut, line.is_ended)),
        _ => None,
    };
    bench.sink.take().into_iter().filter_map(line).collect()
}

fn ended(text: &str) -> (String, u32, bool) {
    (text.into(), 0, true)
}

#[test]
fn a_line_in_parts_and_lines_in_one_part() {
    let mut bench = bench("pipe:[5]");
    for text in [&b"one "[..], b"line\ntwo\nand", b" three\r\n", b"\n"] {
        write(&mut bench, error(text));
    }
    assert_eq!(lines(&bench), ["one line", "two", "and three"].map(ended));
    // another thread's
    write(&mut bench, error(b"begun"));
    write(&mut bench, Written { tid: 8, ..error(b"other\n") });
    write(&mut bench, error(b" ended\n"));
    assert_eq!(lines(&bench), ["other", "begun ended"].map(ended));
}

#[test]
fn what_was_not_read_is_not_made_up() {
    let mut bench = bench("pipe:[5]");
    write(&mut bench, Written { length: 500, ..error(b"long") });
    assert_eq!(lines(&bench), [("long".to_string(), 496, false)]);
    write(&mut bench, Written { length: MUCH, ..error(b"piece") });
    assert_eq!(lines(&bench), [("piece".to_string(), MUCH, false)]);
    let long = [b'x'; 2 * MAX_LINE];
    write(&mut bench, error(&long));
    write(&mut bench, error(b"y\n"));
    assert_eq!(lines(&bench), [("x".repeat(MAX_LINE), MAX_LINE as u32 + 1, true)]);
    write(&mut bench, error(b"no end"));
    assert_eq!(lines(&bench), []);
    bench.with(PID, |ioc, env| ioc.console.second(env, 1, 6 * SECOND, None));
    assert_eq!(lines(&bench), [("no end".to_string(), 0, false)]);
}

#[test]
fn what_may_be_typed_is_left_out() {
    let typed = |text| Written { tid: PID, descriptor: 1, ..error(text) };
    for (stdout, expected) in
        [("/dev/pts/3", vec!["printed"]), ("", vec!["printed"]), ("pipe:[5]", vec!["secret\u{8}printed"])]
    {
        let mut bench = bench(stdout);
        for text in [&b"s"[..], b"ecret", b"\x08", b"printed\n"] {
            write(&mut bench, typed(text));
        }
        assert_eq!(lines(&bench), expected.into_iter().map(ended).collect::<Vec<_>>(), "{stdout}");
        // a line that wraps, out of the history
        write(&mut bench, typed(b"secret that is long\nand goes on"));
        // cut: perhaps it has no end
        write(&mut bench, Written { length: 900, ..typed(b"secret\n") });
        assert_eq!(lines(&bench).len(), if stdout.starts_with("pipe") { 3 } else { 0 }, "{stdout}");
        // another thread types nothing
        write(&mut bench, Written { tid: 7, ..typed(b"done 5 %\n") });
        assert!(lines(&bench).iter().any(|line| line.0.ends_with("done 5 %")), "{stdout}");
    }
}

#[test]
fn as_many_lines_a_second_as_allowed() {
    let mut bench = bench("pipe:[5]");
    let rate = bench.options.console_rate as usize;
    for second in 5..7 {
        for turn in 0..100 {
            write(&mut bench, Written { time: second * SECOND + turn, ..error(b"flood\n") });
        }
    }
    assert_eq!(lines(&bench).len(), 2 * rate);
    bench.clock.monotonic.set(8 * SECOND);
    bench.with(PID, |ioc, env| ioc.console.second(env, 1, 8 * SECOND, Some(12)));
    let facts = bench.facts();
    let [Fact::ConsoleLeftOut(left_out)] = facts[..] else { panic!("{facts:?}") };
    assert_eq!((left_out.lines, left_out.writes), (200 - 2 * rate as u64, 12));
    assert_eq!(left_out.since, 5 * SECOND + rate as u64, "the first of them");
    bench.sink.take();
    bench.with(PID, |ioc, env| ioc.console.second(env, 1, 9 * SECOND, Some(12)));
    assert_eq!(bench.facts(), [], "once");
}

proptest! {
    /// Whatever is written, in whatever pieces, no byte is lost or made up, and memory is bounded.
    #[test]
    fn pieces(text in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'a'), any::<u8>()], 0..300), at in 1_usize..40) {
        let mut bench = bench("pipe:[5]");
        bench.options.console_rate = u32::MAX;
        for piece in text.chunks(at) {
            write(&mut bench, error(piece));
        }
        write(&mut bench, error(b"\n"));
        let whole = [&text[..], b"\n"].concat();
        let expected = whole.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let expected: Vec<String> = expected.filter(|line| !line.is_empty()).map(printable).collect();
        let seen: Vec<String> = lines(&bench).into_iter().map(|line| line.0).collect();
        prop_assert_eq!(seen, expected);
    }

    #[test]
    fn any_descriptors_and_threads(calls in prop::collection::vec((0_u32..300, 0_u64..5, 0_u32..2000), 0..500)) {
        let mut bench = bench("/dev/pts/1");
        for (tid, descriptor, length) in calls {
            write(&mut bench, Written { tid, descriptor, length, ..error(b"x") });
        }
        bench.with(PID, |ioc, _| assert!(ioc.console.begun.len() <= MAX_OPEN));
    }
}
