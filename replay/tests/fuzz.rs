//! What the model makes of logs that nobody would write: golden segments whose blocks were changed at random
//! and have right checksums, several of them together. A fixed number of times here, longer with `make fuzz`.

#[path = "../../log/tests/common/mutate.rs"]
mod mutate;

use iocrec_log::context::Budget;
use iocrec_log::format::SegmentHeader;
use iocrec_log::reader::{find, verify};
use iocrec_testing::chance::{fuzz, Random};
use iocreplay::clients::Clients;
use iocreplay::last::Last;
use iocreplay::model::putlog::each_put;
use iocreplay::model::replay::Replay;
use iocreplay::model::source::Source;
use iocreplay::out::Out;
use iocreplay::output::rows::Shape;
use iocreplay::output::{alarms, clients, last, puts, report, traces};
use iocreplay::runs::group;
use iocreplay::time::Zone;
use iocreplay::wording::cause::of_root;
use iocreplay::{Filter, Logs, Notices};
use mutate::Pieces;
use std::io;
use std::path::Path;
use std::rc::Rc;

fn golden() -> Vec<Pieces> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../log/tests/golden");
    let mut files: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "iocrec"));
    files.sort();
    files.iter().map(|file| Pieces::of(&std::fs::read(file).unwrap())).collect()
}

/// Gives a segment another number, or another run's, with right checksums.
fn renumber(pieces: &mut Pieces, run: u8, sequence: u8) {
    const HEADER: usize = 80;
    let mut header = pieces.head[..HEADER].to_vec();
    header[24] = run;
    header[72] = sequence;
    let crc = crc32fast::hash(&header[..HEADER - 4]).to_le_bytes();
    header[HEADER - 4..].copy_from_slice(&crc);
    pieces.head = [header.clone(), header].concat();
    pieces.blocks.iter_mut().for_each(|block| block.header[4..8].copy_from_slice(&crc));
}

#[test]
fn logs_that_nobody_would_write() {
    let golden = golden();
    let directory = tempfile::tempdir().unwrap();
    let zone = Zone::utc();
    let (mut chains, mut lines) = (0_u64, 0_u64);
    fuzz(150, |random: &mut Random| {
        for number in 0..3 {
            let mut pieces = golden[random.below(golden.len())].clone();
            pieces.mutate(random);
            renumber(&mut pieces, random.below(2) as u8, random.below(4) as u8);
            std::fs::write(directory.path().join(format!("{number}.iocrec")), pieces.segment()).unwrap();
        }
        let files = find(directory.path()).unwrap();
        let headers: Vec<SegmentHeader> = files.iter().filter_map(|file| file.header).collect();
        assert_eq!(headers.len(), 3);
        let since =
            (random.below(2) == 0).then(|| headers[0].created_wall.wrapping_add(random.next() as i64 >> 24));
        let runs = group(files);
        runs.iter().for_each(|run| drop(verify(run)));
        let (budget, notices) = (Budget::new(0), Rc::new(Notices::default()));
        let sources = runs.iter().map(|files| Source::new(files, since, &budget, &notices)).collect();
        for chain in Replay::new(sources, i64::MAX, &notices) {
            chains += 1;
            let mut below = io::sink();
            let mut out = Out::new(&mut below);
            for format in &traces::FORMATS {
                let mut writer = (format.writer)(&zone);
                writer.write(&mut out, &chain).unwrap();
                writer.end(&mut out).unwrap();
            }
            each_put(&chain, true, &mut |put| {
                for format in &puts::FORMATS {
                    let options = iocreplay::output::puts::Options::default();
                    let mut writer = (format.writer)(&zone, &options);
                    writer.write(&mut out, &put).unwrap();
                    writer.end(&mut out).unwrap();
                }
                lines += 1;
            });
        }
        questions(directory.path(), since);
        let (filter, logs) = (Filter { since, ..Filter::default() }, Logs::open([directory.path()]).unwrap());
        let made = report::make(&logs, &filter, &zone);
        let mut below = io::sink();
        report::write(&mut Out::new(&mut below), made, String::new()).unwrap();
    });
    println!("{chains} chains, {lines} puts");
    assert!(std::env::var("FUZZ_SEED").is_ok() || (chains > 100 && lines > 100));
}

/// Asks what is asked of whole logs.
fn questions(directory: &Path, since: Option<i64>) {
    let Ok(logs) = Logs::open([directory]) else { return };
    let (zone, filter) = (Zone::utc(), Filter { since, ..Filter::default() });
    let mut below = io::sink();
    let mut out = Out::new(&mut below);
    for line in logs.alarms(&filter).with_all() {
        for format in &alarms::FORMATS {
            (format.writer)(&zone).write(&mut out, &line).unwrap();
        }
    }
    for line in Clients::read(&logs, &filter).lines(&filter) {
        for format in &clients::FORMATS {
            (format.writer)(&zone).write(&mut out, &line).unwrap();
        }
    }
    if let Some(found) = Last::read(&logs, &Filter { until: since, ..Filter::default() }, of_root) {
        for shape in [Shape::Text, Shape::JsonLines, Shape::Csv] {
            last::write(&mut out, &found, shape, &zone).unwrap();
        }
    }
}
