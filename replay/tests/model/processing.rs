//! Records that process each other: stacks, links, process routines.

use super::*;
use iocreplay::model::putlog::Via;

/// A put to an ao record that processes a calc and a fanout, with the stack pointers of a real IOC.
#[test]
fn a_nested_chain_by_entry_probes_alone() {
    let mut story = story();
    for (n, (what, sp, record)) in [
        ("PUTF", 0x8d08, SP),
        ("PUT", 0x8be8, SP),
        ("P", 0x8be8, SP),
        ("PUT", 0x8ac8, CALC),
        ("P", 0x8a78, CALC),
        ("F", 0x8978, CALC),
        ("P", 0x88e8, FAN),
        ("P", 0x87b8, RB1),
        ("F", 0x86c8, RB1),
        ("P", 0x87b8, STR),
        ("F", 0x86e8, STR),
        ("F", 0x8838, FAN),
        ("F", 0x8b18, SP),
    ]
    .into_iter()
    .enumerate()
    {
        let time = SECOND + n as u64 * 1000;
        match what {
            "PUTF" => story.put(time, PutKind::PutField, CLIENT, sp, "", record, 2.0),
            "PUT" => story.put(time, PutKind::Put, CLIENT, sp, "", record, 2.0),
            "P" => story.process(time, CLIENT, sp, "", record),
            _ => story.complete(time, CLIENT, sp, record, f64::from(record)),
        };
    }
    assert_eq!(
        story.sketch(),
        "put T:SP 2\n  T:SP put = 1\n    put T:CALC 2\n      T:CALC OUT = 2\n        T:FAN FLNK = 3\n          \
         T:RB1 LNKn = 4\n          T:STR LNKn = 5\n"
    );
}

#[test]
fn forward_links_of_the_root_are_siblings_of_what_it_wrote_to() {
    let mut story = story();
    story
        .process(SECOND, SCAN, -100, "scanList", SP)
        .put(SECOND + 1, PutKind::Put, SCAN, -300, "", RB1, 7.0)
        .complete(SECOND + 2, SCAN, -200, SP, 7.0)
        .process(SECOND + 3, SCAN, -300, "dbScanPassive", CALC)
        .complete(SECOND + 4, SCAN, -400, CALC, 8.0)
        .process(SECOND + 5, SCAN, -100, "scanList", FAN)
        .complete(SECOND + 6, SCAN, -200, FAN, 0.0);
    assert_eq!(story.sketch(), "T:SP scan = 7\n  put T:RB1 7\n  T:CALC FLNK = 8\nT:FAN scan = 0\n");
}

/// Of two puts to a record the hits between the first's process and the second's are lost: its value is not the first's, which
/// was not skipped, either.
#[test]
fn what_is_processed_after_a_loss_is_no_earlier_puts() {
    let mut story = story();
    story
        .put(SECOND, PutKind::PutField, CLIENT, -100, "", SP, 1.0)
        .put(SECOND + 1, PutKind::Put, CLIENT, -300, "", SP, 1.0)
        .process(SECOND + 2, CLIENT, -300, "", SP)
        .process(SECOND + 1000, CLIENT, -300, "", SP)
        .complete(SECOND + 1001, CLIENT, -400, SP, 9.0);
    assert_eq!(story.sketch(), "put T:SP 1\n  T:SP put open\nT:SP unknown = 9\n");
}

/// A compiler has made `recGblFwdLink` a part of a type's process routine, as clang 14 does of sel's with LTO: these records never seem to
/// complete. That they did nothing is not claimed, nor that what their forward links process was read from.
#[test]
fn a_type_that_was_never_seen_to_complete_is_not_taken_for_skipped() {
    let mut story = story();
    let hits = |story: &mut Story, from: u64| {
        story
            .process(from, SCAN, -100, "scanList", STR)
            .process(from + 1, SCAN, -300, "processTarget", CALC)
            .complete(from + 2, SCAN, -400, CALC, 8.0);
    };
    hits(&mut story, SECOND);
    hits(&mut story, 2 * SECOND);
    let open = "T:STR scan open\n  T:CALC link = 8\n";
    assert_eq!(story.sketch(), format!("{open}{open}"));
}

/// One that was seen to complete calls it, so that a record of the type that was not has done nothing.
#[test]
fn a_type_that_was_seen_to_complete_proves_what_was_skipped() {
    let mut story = story();
    story
        .process(SECOND, SCAN, -100, "scanList", SP)
        .complete(SECOND + 1, SCAN, -200, SP, 1.0)
        .process(2 * SECOND, SCAN, -100, "scanList", SP)
        .process(3 * SECOND, SCAN, -100, "scanList", SP)
        .complete(3 * SECOND + 1, SCAN, -200, SP, 2.0);
    assert_eq!(story.sketch(), "T:SP scan = 1\nT:SP scan not completed\nT:SP scan = 2\n");
}

/// LTO makes `dbpf` a part of the command that calls it, and adds to the names of local functions.
#[test]
fn puts_of_the_shell_are_known_in_a_program_that_was_optimized_as_a_whole() {
    for caller in ["dbpf", "dbpfCallFunc", "dbpfCallFunc.lto_priv.0", "dbpf.part.0"] {
        let mut story = story();
        story.put(SECOND, PutKind::PutField, MAIN, -100, caller, SP, 2.0).put(
            SECOND + 1,
            PutKind::Put,
            MAIN,
            -200,
            "",
            SP,
            2.0,
        );
        assert_eq!(story.puts()[0].via, Via::Dbpf, "{caller}");
    }
}

/// `dbtpf` puts a value in each type, in whatever thread runs the shell; `tpn` puts with callback, in a thread of its own.
#[test]
fn other_commands_of_the_shell_that_put() {
    for (kind, caller) in [(PutKind::PutField, "dbtpf"), (PutKind::Notify, "tpnThread")] {
        let mut story = story();
        story.put(SECOND, kind, MAIN, -100, caller, SP, 2.0).put(
            SECOND + 1,
            PutKind::Put,
            MAIN,
            -200,
            "",
            SP,
            2.0,
        );
        assert_eq!(story.puts()[0].via, Via::Dbpf, "{caller}");
    }
}

/// Where only process routines are probed, one below another's stack pointer need not be called by it: nothing
/// is claimed, and none is taken for skipped.
#[test]
fn process_routines_stand_alone() {
    let mut story = story();
    story
        .routine(SECOND, CLIENT, -100, SP, false)
        .routine(SECOND + 1, CLIENT, -300, CALC, false)
        .routine(SECOND + 2, CB_LOW, -100, CALC, true)
        .routine(2 * SECOND, CLIENT, -100, SP, false);
    let expected =
        "T:SP unknown entered\nT:CALC unknown entered\nT:CALC unknown entered again\nT:SP unknown entered\n";
    assert_eq!(story.sketch(), expected);
}

#[test]
fn a_record_read_through_a_link_and_one_that_is_busy() {
    let mut story = story();
    story.process(SECOND, SCAN, -100, "scanList", CALC).process(SECOND + 1, SCAN, -300, "dbScanPassive", RB1);
    let active = Process { thread: SCAN, sp: -300, site: 0, record: SP, active: true };
    story.complete(SECOND + 2, SCAN, -400, RB1, 1.0).push(SECOND + 3, Fact::Process(active)).complete(
        SECOND + 4,
        SCAN,
        -200,
        CALC,
        2.0,
    );
    assert_eq!(story.sketch(), "T:CALC scan = 2\n  T:RB1 INP = 1\n  T:SP INP active\n");
}

/// The recorder has looked at records that it did not see complete.
#[test]
fn records_that_were_looked_at() {
    let mut story = story();
    let looked = |record, active, disabled| Fact::PactCheck(PactCheck { record, active, disabled });
    for (n, record) in (0..).zip([SP, CALC, RB1]) {
        story.process(SECOND + n * MS, SCAN, -100, "scanList", record);
    }
    story
        .push(2 * SECOND, looked(SP, false, true))
        .push(2 * SECOND, looked(CALC, true, false))
        .push(2 * SECOND, looked(RB1, true, false))
        .complete(3 * SECOND, CB_LOW, -200, RB1, 1.0);
    assert_eq!(story.sketch(), "T:SP scan disabled\nT:CALC scan waiting\nT:RB1 scan = 1 went on in cbLow\n");
}

#[test]
fn chains_come_in_the_order_in_which_they_began() {
    let mut story = story();
    // The first is asynchronous and ends last.
    story.process(SECOND, SCAN, -100, "scanList", SP);
    for n in 1..50 {
        let time = SECOND + n * 100 * MS;
        story.process(time, SCAN, -100, "scanList", CALC).complete(time + 1, SCAN, -200, CALC, n as f64);
    }
    story.complete(SECOND + 20 * SECOND, CB_LOW, -200, SP, 5.0);
    let starts: Vec<u64> = story.in_order().iter().map(|chain| chain.spans[0].start).collect();
    assert_eq!(starts.len(), 50);
    assert!(starts.is_sorted());
}
