//! What the log costs in memory, counted by the allocator.

use iocrec_log::context::Context;
use iocrec_log::event::{Complete, Event, Fact, Process, Record, Value};
use iocrec_log::reader::Segment;
use iocrec_log::storage::Directory;
use iocrec_log::writer::{Options, Writer};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Mutex;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static CALLS: AtomicUsize = AtomicUsize::new(0);
/// One test at a time: they count the same bytes.
static TURN: Mutex<()> = Mutex::new(());

struct Counting;

// SAFETY: all is passed on to the system's allocator; counting touches nothing of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Relaxed);
        let held = HELD.fetch_add(layout.size() + 16, Relaxed) + layout.size() + 16;
        PEAK.fetch_max(held, Relaxed);
        // SAFETY: the caller keeps alloc's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() + 16, Relaxed);
        // SAFETY: the caller keeps dealloc's contract.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn record(id: u32) -> Fact {
    let name = format!("LINAC-SECTOR3:MAGNET{id:05}:CURRENT");
    Fact::from(Record { id, ioc: 1, address: u64::from(id) * 1216, name, rtype: "calcout".into() })
}

#[test]
fn ten_thousand_records() {
    let _turn = TURN.lock();
    let before = HELD.load(Relaxed);
    let mut context = Context::default();
    for id in 0..10_000 {
        context.apply(0, &record(id));
    }
    let held = HELD.load(Relaxed) - before;
    println!("10,000 records: {held} bytes");
    assert!(held < 2 << 20, "{held} bytes");
    drop(context);
}

/// Storing a hit takes no memory from the allocator once the buffers have grown.
#[test]
fn hits_do_not_allocate() {
    let _turn = TURN.lock();
    let directory = tempfile::tempdir().unwrap();
    let options = Options { max_disk: 1 << 30, ..Options::default() };
    let mut writer = Writer::open(Directory::open(directory.path()).unwrap(), options, 1).unwrap();
    let mut push = |from: u64, count: u64| {
        for number in from..from + count {
            let record = number as u32 % 100;
            let process = Process { thread: 1, sp: -8, site: 1, record, active: false };
            let value = Value::Double(number as f64);
            let complete = Complete { thread: 1, sp: -99, site: 1, record, value, severity: 0, status: 0 };
            writer.push(Event { time: number * 1000, fact: Fact::Process(process) });
            writer.push(Event { time: number * 1000 + 500, fact: Fact::Complete(complete) });
        }
    };
    push(1, 50_000);
    let before = CALLS.load(Relaxed);
    push(100_000, 50_000);
    let calls = CALLS.load(Relaxed) - before;
    println!("100,000 events: {calls} allocations");
    assert!(calls < 100, "{calls} allocations for 100,000 events");
}

/// A log that is small on disk and huge when unpacked is read within bounds.
#[test]
fn reading_is_bounded() {
    let _turn = TURN.lock();
    let directory = tempfile::tempdir().unwrap();
    let options = Options { max_disk: 1 << 30, segment: Some(64 << 20), ..Options::default() };
    let mut writer = Writer::open(Directory::open(directory.path()).unwrap(), options, 1).unwrap();
    for number in 0..2_000_000 {
        writer.push(Event { time: 1, fact: Fact::ChannelEnd(number % 2) });
    }
    for _ in 0..200 {
        writer.push(Event { time: 1, fact: Fact::Mark("x".repeat(250_000)) });
    }
    writer.close(2);
    assert!(writer.status().on_disk < 1 << 20, "{:?}", writer.status());
    drop(writer);
    for file in iocrec_log::reader::find(directory.path()).unwrap() {
        let before = HELD.load(Relaxed);
        PEAK.store(before, Relaxed);
        let mut segment = Segment::open(&file.path).unwrap();
        let mut events = 0;
        while let Some(block) = segment.next_block() {
            events += block.unwrap().events.len();
        }
        let peak = PEAK.load(Relaxed) - before;
        println!("{events} events read: at most {peak} bytes");
        assert!(peak < 16 << 20, "{peak} bytes");
    }
}
