//! What the model makes of logs that nobody would write: golden segments whose blocks were changed at random
//! and have right checksums, several of them together. A fixed number of times here, longer with `make fuzz`.

#[path = "../../../log/tests/common/chance.rs"]
mod chance;
#[path = "../../../log/tests/common/mutate.rs"]
mod mutate;

use super::chain::Tree;
use super::putlog::each_put;
use super::replay;
use super::source::{group, Source};
use crate::notices::Notices;
use crate::out::Out;
use crate::output;
use crate::time::Zone;
use chance::{fuzz, Random};
use iocrec_log::context::Budget;
use iocrec_log::format::SegmentHeader;
use iocrec_log::reader::{find, verify};
use mutate::Pieces;
use std::io;
use std::path::Path;

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
    let (mut trees, mut lines) = (0_u64, 0_u64);
    fuzz(300, |random: &mut Random| {
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
        let sources = runs.into_iter().map(|files| Source::new(files, since, &Budget::new(0))).collect();
        let mut sink = |tree: Tree| -> io::Result<()> {
            trees += 1;
            let mut below = io::sink();
            let mut out = Out::new(&mut below);
            output::traces::text::write(&mut out, &tree, &zone)?;
            output::traces::otlp::write(&mut out, &tree)?;
            each_put(&tree, true, &mut |put| {
                lines += u64::from(
                    output::puts::text::write(&mut out, &put, output::puts::text::Format::Text, &zone)
                        .is_ok(),
                );
            });
            Ok(())
        };
        replay(sources, i64::MAX, &mut Notices::quiet(), &mut sink).unwrap();
    });
    println!("{trees} chains, {lines} puts");
    assert!(std::env::var("FUZZ_SEED").is_ok() || (trees > 100 && lines > 100));
}
