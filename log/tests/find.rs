//! Which segments a LOG stands for, and the errors if there are none.

mod common;

use common::disk::Disk;
use common::{noise_mark, SECOND};
use iocrec_log::format::SEGMENT_HEADER;
use iocrec_log::reader::{find, ReadError, Segment};
use iocrec_log::writer::{Options, Writer, MIN_SEGMENT};
use std::fs;
use std::path::Path;

/// The segments of a run that begins at a wall-clock time.
fn run(run: u128, wall: i64) -> Vec<(String, Vec<u8>)> {
    let disk = Disk::default();
    disk.set_wall(wall);
    let options = Options { segment: Some(MIN_SEGMENT), level: 1, ..Options::default() };
    let mut writer = Writer::open(disk.clone(), options, run).unwrap();
    for number in 0..150 {
        writer.push(noise_mark(SECOND + number, 1000, &mut 1));
        writer.push(noise_mark(SECOND + number, 1000, &mut (number + 2)));
        writer.tick(SECOND * number);
    }
    writer.close(SECOND);
    disk.segments()
}

fn store(directory: &Path, segments: &[(String, Vec<u8>)]) {
    fs::create_dir_all(directory).unwrap();
    for (name, bytes) in segments {
        fs::write(directory.join(name), bytes).unwrap();
    }
}

#[test]
fn segments_directories_and_directories_of_directories() {
    let root = tempfile::tempdir().unwrap();
    let early = run(9, 1_000_000_000_000_000_000);
    let late = run(4, 1_700_000_000_000_000_000);
    assert!(early.len() > 2 && late.len() > 2);
    store(&root.path().join("hostA"), &late);
    store(&root.path().join("hostB"), &early);
    store(root.path(), &[("copy.iocrec".into(), early[0].1.clone()), ("notes.txt".into(), vec![1])]);
    // One that can't be read is listed last.
    store(&root.path().join("hostA"), &[("0.iocrec".into(), vec![])]);

    let found = find(root.path()).unwrap();
    let order: Vec<_> =
        found.iter().map(|file| file.header.map(|header| (header.run, header.sequence))).collect();
    let mut expected = vec![Some((9, 0))];
    expected.extend((0..early.len() as u32).map(|sequence| Some((9, sequence))));
    expected.extend((0..late.len() as u32).map(|sequence| Some((4, sequence))));
    expected.push(None);
    assert_eq!(order, expected);
    assert!(matches!(Segment::open(&found.last().unwrap().path), Err(ReadError::Empty(_))));

    let one = root.path().join("copy.iocrec");
    let found = find(&one).unwrap();
    assert_eq!((found.len(), &found[0].path, found[0].size), (1, &one, early[0].1.len() as u64));
}

#[test]
fn lines() {
    let root = tempfile::tempdir().unwrap();
    let whole = run(1, 0).remove(0).1;
    let file = |name: &str, bytes: &[u8]| {
        let path = root.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let mut newer = whole.clone();
    newer[8] = 2; // the version; the checksum has to follow
    let crc = crc32fast::hash(&newer[..SEGMENT_HEADER - 4]).to_le_bytes();
    newer[SEGMENT_HEADER - 4..SEGMENT_HEADER].copy_from_slice(&crc);
    let mut flagged = whole.clone();
    flagged[23] = 0x80; // the highest incompatible flag
    let crc = crc32fast::hash(&flagged[..SEGMENT_HEADER - 4]).to_le_bytes();
    flagged[SEGMENT_HEADER - 4..SEGMENT_HEADER].copy_from_slice(&crc);
    let mut damaged = whole.clone();
    damaged[30] ^= 1;
    damaged[30 + SEGMENT_HEADER] ^= 1;
    let none = root.path().join("directory");
    fs::create_dir(&none).unwrap();
    let cases = [
        (root.path().join("missing"), " does not exist; name a segment (.iocrec) or a directory of them"),
        (none, " holds no segments (files ending in .iocrec); name the directory given to iocrec record --dir"),
        (
            file("empty", b""),
            " is empty: the recorder stopped, or the copy was made, before anything was written; \
             try the other segments",
        ),
        (file("foreign", b"PGDMP\x01"), " is not an iocrec segment; name a file that iocrec record wrote"),
        (file("text", &[b'a'; 500]), " is not an iocrec segment; name a file that iocrec record wrote"),
        (file("cut", &whole[..50]), " is cut off within its header; copy it again or leave it out"),
        (file("damaged", &damaged), " has a damaged header; copy it again or leave it out"),
        (
            file("newer", &newer),
            " was written by a newer iocrec (format 2, flags 0x0; this one reads format 1); use a newer iocreplay",
        ),
        (
            file("flagged", &flagged),
            " was written by a newer iocrec (format 1, flags 0x80000000; this one reads format 1); \
             use a newer iocreplay",
        ),
    ];
    for (path, line) in cases {
        assert_eq!(find(&path).unwrap_err().to_string(), format!("{}{line}", path.display()));
    }
    // A directory in which nothing can be read says why of the first.
    let directory = root.path().join("broken");
    store(&directory, &[("a.iocrec".into(), vec![])]);
    assert!(matches!(find(&directory), Err(ReadError::Empty(_))));
}

/// What would have everybody wait who opens it, and what leads round in circles.
#[cfg(unix)]
#[test]
fn pipes_devices_sockets_and_circles() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("log");
    let segments = run(9, 1_700_000_000_000_000_000);
    store(&directory, &segments);
    let at = |name: &str| directory.join(name);
    let pipe = std::ffi::CString::new(at("pipe.iocrec").to_str().unwrap()).unwrap();
    // SAFETY: a path that ends with a NUL.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    let _socket = std::os::unix::net::UnixListener::bind(at("socket.iocrec")).unwrap();
    let link = |to: &str, name| std::os::unix::fs::symlink(to, at(name)).unwrap();
    link("/dev/zero", "device.iocrec");
    link("circle.iocrec", "circle.iocrec");
    link("nowhere", "nothing.iocrec");
    link(".", "itself");
    link(&segments[0].0, "again.iocrec");
    let found = find(&directory).unwrap();
    assert_eq!(found.iter().filter(|file| file.header.is_some()).count(), segments.len(), "each once");
    let mut lines: Vec<String> = found
        .iter()
        .filter(|file| file.header.is_none())
        .map(|file| Segment::open(&file.path).err().unwrap().to_string())
        .collect();
    lines.sort();
    let parts = [
        "circle.iocrec: ",
        "device.iocrec is a device, not a file",
        "nothing.iocrec does not exist",
        "a pipe",
        "a socket",
    ];
    assert_eq!(lines.len(), parts.len(), "{lines:?}");
    for part in parts {
        assert!(lines.iter().any(|line| line.contains(part)), "{part}: {lines:?}");
    }
    assert!(matches!(find(&at("pipe.iocrec")), Err(ReadError::NotAFile(_, "a pipe"))));
}
