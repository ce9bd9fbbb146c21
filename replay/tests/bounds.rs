//! Logs that are small on the disk and huge when they are read: memory stays within its bound, work ends, and both say
//! so. What a recorder writes is far from either.

mod common;

use common::{measured, segments, SECOND};
use iocrec_log::event::*;
use iocrec_log::storage::Directory;
use iocrec_log::writer::{Options, Writer};
use std::fs;
use std::path::Path;

/// Bytes of headers (docs/format.md).
const SEGMENT: usize = 160;
const BLOCK: usize = 52;
/// The bound of everything that a command holds.
const MOST: u64 = 256 << 20;

/// The blocks of a segment.
fn blocks(bytes: &[u8]) -> Vec<&[u8]> {
    let mut rest = &bytes[SEGMENT..];
    let mut blocks = Vec::new();
    while rest.len() >= BLOCK {
        let stored = u32::from_le_bytes(rest[20..24].try_into().unwrap()) as usize;
        let (block, after) = rest.split_at(BLOCK + stored);
        blocks.push(block);
        rest = after;
    }
    blocks
}

/// A block with another number, and rightly so.
fn renumbered(block: &[u8], number: u32) -> Vec<u8> {
    let mut block = block.to_vec();
    block[8..12].copy_from_slice(&number.to_le_bytes());
    let crc = crc32fast::hash(&block[..48]);
    block[48..52].copy_from_slice(&crc.to_le_bytes());
    block
}

/// Writes a log of these facts, and then makes the block with the most events in it come so many times.
fn write_repeated(directory: &Path, facts: Vec<Fact>, times: u32) {
    write_plain(directory, 7, common::definitions("box1").into_iter().chain(facts), 0);
    let file = segments(directory).remove(0);
    let bytes = fs::read(&file).unwrap();
    let events = |block: &[u8]| u32::from_le_bytes(block[24..28].try_into().unwrap());
    let all = blocks(&bytes);
    let largest = (0..all.len()).max_by_key(|&number| events(all[number])).unwrap();
    let repeated = std::iter::repeat_n(&all[largest], times as usize);
    let mut bomb: Vec<u8> = bytes[..SEGMENT].to_vec();
    for (number, block) in all[..largest].iter().chain(repeated).enumerate() {
        bomb.extend(renumbered(block, number as u32));
    }
    fs::write(&file, bomb).unwrap();
}

fn process(n: u64) -> Fact {
    Fact::Process(Process { thread: 1, sp: -100, site: 1, record: 1 + (n % 2) as u32, active: false })
}

/// Writes facts into one segment as they come, `pace` nanoseconds apart.
fn write_plain(directory: &Path, run: u128, facts: impl Iterator<Item = Fact>, pace: u64) {
    let options = Options { max_disk: 8 << 30, segment: Some(1 << 30), ..Options::default() };
    let mut writer = Writer::open(Directory::open(directory).unwrap(), options, run).unwrap();
    let mut time = SECOND;
    writer.push(Event { time, fact: Fact::Clock(Clock { wall: common::WALL }) });
    for fact in facts {
        time += pace;
        writer.push(Event { time, fact });
        writer.tick(time);
    }
    writer.close(time);
}

fn channel(id: u32, pv: String) -> Fact {
    let (cid, sid) = (None, None);
    Fact::from(Channel { id, circuit: 1, cid, sid, pv, dbr: None, count: None, origin: Origin::Opened })
}

/// Definitions of a sort, each with its number.
fn definitions(sort: &str) -> Box<dyn Fn(u32) -> Fact> {
    let sort = sort.to_owned();
    Box::new(move |id| match sort.as_str() {
        "channels" => channel(id, format!("P{id}")),
        "records" => Fact::from(Record { id, ioc: 1, address: 0, name: "P".into(), rtype: "ao".into() }),
        "records-late" => Fact::from(Record {
            id: u32::MAX - id,
            ioc: 1,
            address: 0,
            name: "P".into(),
            rtype: format!("t{}", id % 60_000),
        }),
        "threads" => Fact::Thread(Thread { id, ioc: 1, tid: 1, name: "x".into(), stack: 1 }),
        "aliases" => Fact::Alias(Alias { record: id, name: "a".into() }),
        "aliases-of-one" => Fact::Alias(Alias { record: 1, name: format!("{id}") }),
        "states" => Fact::EnumStrings(EnumStrings { record: id, states: vec!["a".into(); 16] }),
        "menus" => Fact::Menu(Menu { id, ioc: 1, name: "m".into(), choices: vec!["a".into(); 60] }),
        "fields" => Fact::from(Field {
            id,
            ioc: 1,
            rtype: "a".into(),
            name: "V".into(),
            dbf: Dbf::Double,
            menu: None,
        }),
        "sites" => Fact::from(CallSite { id, ioc: 1, address: 1, function: "f".into(), module: "m".into() }),
        "scanned" => Fact::RecordScan(RecordScan { record: id, list: Some(1) }),
        "iocs" | "iocs-end" if sort == "iocs" || id % 2 == 0 => Fact::from(Ioc {
            id,
            pid: 1,
            start: 1,
            name: "i".into(),
            exe: "e".into(),
            cwd: "c".into(),
            command: vec!["c".into(); 30],
            base_version: "7".into(),
            ca_ports: vec![1],
            linkage: Linkage::Static,
            not_probed: vec![],
            user: "u".into(),
            pva_ports: vec![2],
            environment: vec![("A".into(), "B".into()); 10],
        }),
        "iocs-end" => Fact::IocEnd(IocEnd { ioc: id - 1, how: "h".into() }),
        _ => Fact::from(Circuit {
            id,
            client: Address { ip: 1, port: 1 },
            server: Address { ip: 1, port: 1 },
            user: "u".into(),
            host: "h".into(),
            minor: 13,
            origin: Origin::Opened,
        }),
    })
}

#[test]
fn blocks_that_are_all_alike() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    // 16384 events a block
    for (name, blocks) in [("scans", 220), ("many", 600)] {
        let log = here.join(name);
        fs::create_dir(&log).unwrap();
        write_repeated(&log, vec![process(0); 40_000], blocks);
        let size = fs::metadata(&segments(&log)[0]).unwrap().len();
        assert!(size < u64::from(blocks) * 200, "{name}: {size} bytes");
        // what is said is the same, and a chain for each takes its time
        let command = if name == "many" { "info" } else { "traces" };
        let (code, said, most) = measured(here, &[command, name]);
        println!("{command} {name}: {size} bytes of log, {} MiB; {said}", most >> 20);
        assert_eq!(code, 1, "{name}: {said}");
        assert!(
            said.contains("far more than a recorder writes") && said.contains("--no-limit"),
            "{name}: {said}"
        );
        assert!(most < MOST, "{name}: {most} bytes");
    }
    let (code, out, _) = common::run(here, &["verify", "many"]);
    assert!(code == 1 && out.contains("damage") && out.contains("far more than a recorder writes"), "{out}");
    let (code, out, _) = common::run(here, &["verify", "many", "--no-limit"]);
    assert!(code == 0 && out.contains(" 98"), "all of it: {out}");
}

#[test]
fn definitions_without_end() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    // each many times as large in memory as in the log
    for (sort, count, command) in [("channels", 900_000, "traces"), ("menus", 40_000, "iocs")] {
        // smaller in memory where addresses are
        let count = count * (64 / usize::BITS);
        write_plain(&here.join(sort), 7, (1..count).map(definitions(sort)), 1000);
        let (code, said, most) = measured(here, &[command, sort]);
        println!("{command} {sort}: {} MiB; {said}", most >> 20);
        assert_eq!(code, 1, "{command} {sort}: {said}");
        assert!(said.contains("definitions are left out"), "{command} {sort}: {said}");
        assert!(most < MOST, "{command} {sort}: {most} bytes");
    }
}

/// What ends has all looked through for what is its own; and of one thing there are many.
#[test]
fn much_that_ends_and_much_of_one() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let (records, ends) = (definitions("records"), definitions("iocs-end"));
    write_plain(&here.join("ends"), 7, (1..50_000).map(records).chain((2..20_000).map(ends)), 10_000_000);
    write_plain(&here.join("one"), 7, (1..100_000).map(definitions("aliases-of-one")), 1000);
    let begun = std::time::Instant::now();
    for (command, log) in [("traces", "ends"), ("traces", "one"), ("records", "one")] {
        let (_, said, most) = measured(here, &[command, log]);
        println!("{command} {log}: {:?}, {} MiB; {said}", begun.elapsed(), most >> 20);
        assert!(most < MOST, "{command} {log}: {most} bytes");
    }
    // It took hours before; a busy machine and a slow build are no reason to fail.
    assert!(begun.elapsed().as_secs() < 300, "{:?}", begun.elapsed());
}

/// Many runs of a few hundred bytes, all at the same time.
#[test]
fn many_small_runs() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    fs::create_dir(here.join("log")).unwrap();
    for run in 0..40 {
        let one = here.join("one");
        let facts = common::definitions("box1").into_iter().chain(vec![process(0); 4_000]);
        write_plain(&one, run, facts, 1000);
        fs::rename(&segments(&one)[0], here.join(format!("log/{run}.iocrec"))).unwrap();
    }
    let (_, said, most) = measured(here, &["traces", "log"]);
    println!("{} MiB; {said}", most >> 20);
    assert!(said.contains("more than 16 recorders' runs overlap"), "{said}");
    assert!(most < MOST, "{most} bytes");
}

/// Very many records, each in an alarm of its own, written by very many clients: what every command holds of them is
/// bounded, too.
#[test]
fn many_of_everything() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let count = 40_000;
    let each = |n: u32| {
        let id = 100 + n;
        let name = format!("RECORD:{n}:WITH:A:NAME:THAT:IS:LONG");
        let user = format!("user {n}");
        let place = (1, -100, 1);
        let (thread, sp, site) = place;
        let put = Put {
            thread,
            sp: -50,
            site,
            kind: PutKind::PutField,
            record: id,
            field: Some(1),
            dbf: Dbf::Double,
            count: 1,
            requested: Value::Double(f64::from(n)),
            old: Value::Double(-1.0),
        };
        let value = Value::Double(f64::from(n));
        let (severity, status) = (1 + (n % 3) as u16, 3);
        [
            Fact::from(Record { id, ioc: 1, address: 0, name, rtype: "ao".into() }),
            Fact::from(Circuit {
                id,
                client: Address { ip: n, port: 1 },
                server: Address { ip: 1, port: 1 },
                user,
                host: format!("host {n}"),
                minor: 13,
                origin: Origin::Opened,
            }),
            Fact::from(put),
            Fact::Process(Process { thread, sp, site, record: id, active: false }),
            Fact::Complete(Complete { thread, sp: -150, site: 0, record: id, value, severity, status }),
        ]
    };
    let facts = common::definitions("box1").into_iter().chain((0..count).flat_map(each));
    write_plain(&here.join("log"), 7, facts, 1000);
    for words in common::every::every_once("log", "RECORD:7:*", "2026-09-21T14:13:21Z") {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (code, said, most) = measured(here, &words);
        println!("{words:?}: {} MiB; {said}", most >> 20);
        assert!(code < 2 && most < MOST, "{words:?}: {code}, {most} bytes, {said}");
    }
}
