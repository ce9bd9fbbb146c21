//! Writes the copy: a segment for each segment, a block for each block.

use super::{Choice, Map, Redaction};
use crate::found::Found;
use crate::unfinished::Unfinished;
use iocrec_log::event::{Event, Fact, SegmentEnd};
use iocrec_log::format::{SegmentHeader, FACTS};
use iocrec_log::reader::{Block, Cause, ReadError, Segment, SegmentFile};
use iocrec_log::writer::{copy_name, SegmentCopy};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Mode of what is written, before the user's umask: as of the recorder's logs, not for everybody.
#[cfg(unix)]
const MODES: (u32, u32) = (0o750, 0o640);
/// Mode of the map, which is for its owner only.
#[cfg(unix)]
const MAP_MODE: u32 = 0o600;

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Segments.
    pub segments: u64,
    /// Events.
    pub events: u64,
    /// Blocks of a newer version, which were left out.
    pub newer: u64,
    /// Blocks that are damaged or missing.
    pub damaged: u64,
    /// Events for which no block has room.
    pub too_large: u64,
    /// Replacements that the map has no room for.
    pub unmapped: u64,
}

/// Why there is no copy. What was written of it is removed.
#[derive(Debug)]
pub enum CopyError {
    /// The directory is there, and not empty.
    NotEmpty(PathBuf),
    /// It is in a log that is read, or the other way round.
    InLog(PathBuf),
    /// The map exists.
    MapExists(PathBuf),
    /// A segment can't be read.
    Read(ReadError),
    /// Something can't be written.
    Write(PathBuf, io::Error),
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CopyError::NotEmpty(path) => {
                write!(f, "{} is not an empty directory; name a new one with -o", path.display())
            }
            CopyError::InLog(path) => {
                write!(f, "{} is in the directory of a log; name another one with -o", path.display())
            }
            CopyError::MapExists(path) => {
                write!(f, "{} exists and is not overwritten; name a new file with --map", path.display())
            }
            CopyError::Read(error) => error.fmt(f),
            CopyError::Write(path, error) => {
                write!(
                    f,
                    "can't write {}: {error}; nothing is left there; make room or name another place",
                    path.display()
                )
            }
        }
    }
}

/// What was made, to be removed if the copy is not finished.
#[derive(Default)]
struct Made {
    files: Vec<PathBuf>,
    directory: Option<PathBuf>,
    /// The same for a signal.
    unfinished: Vec<Unfinished>,
}

impl Made {
    fn file(&mut self, path: PathBuf) {
        self.unfinished.push(Unfinished::new(&path));
        self.files.push(path);
    }

    /// It is whole.
    fn is_finished(&mut self) {
        (self.files, self.directory) = (Vec::new(), None);
        self.unfinished.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for file in self.files.drain(..) {
            let _ = fs::remove_file(file);
        }
        if let Some(directory) = self.directory.take() {
            let _ = fs::remove_dir(directory);
        }
    }
}

/// Copies logs into a directory, or only counts if there is none. `map`: the file to write the map to.
///
/// # Errors
/// If the copy is not whole.
pub fn copy(
    found: &Found,
    to: Option<&Path>,
    map: Option<&Path>,
    choice: Choice,
) -> Result<Copied, CopyError> {
    let mut made = Made::default();
    if let Some(to) = to {
        prepare(to, found, &mut made)?;
    }
    let map_file = map.map(|path| create_map(path, &mut made)).transpose()?;
    let mut redaction = Redaction::new(choice, map_file.is_some().then(Map::default));
    let mut copied = Copied::default();
    for (_, files) in &found.runs {
        redaction.begin_run();
        // What became of the segment before: its number, and by how much its blocks are more than they were.
        let mut before = None;
        for file in files {
            let Some(header) = file.header else { continue };
            let mut segment = file.open().map_err(CopyError::Read)?;
            let out: Box<dyn Write> = match to {
                Some(to) => Box::new(BufWriter::new(create(to, file, &header, &mut made)?)),
                None => Box::new(io::sink()),
            };
            let path = made.files.last().filter(|_| to.is_some()).cloned().unwrap_or_default();
            let copy = Copying { redaction: &mut redaction, header, before, shift: 0, copied: &mut copied };
            let shift = copy.run(&mut segment, out).map_err(|error| CopyError::Write(path, error))?;
            before = Some((header.sequence, shift));
            copied.segments += 1;
        }
    }
    if let (Some((path, file)), Some(map)) = (map_file, &redaction.map) {
        map.write(&mut BufWriter::new(file)).map_err(|error| CopyError::Write(path, error))?;
        copied.unmapped = map.left_out();
    }
    made.is_finished();
    Ok(copied)
}

/// Makes the directory, or finds it empty and outside of all logs.
fn prepare(to: &Path, found: &Found, made: &mut Made) -> Result<(), CopyError> {
    let failed = |error| CopyError::Write(to.to_owned(), error);
    match fs::read_dir(to) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                return Err(CopyError::NotEmpty(to.to_owned()));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            #[allow(unused_mut)]
            let mut builder = fs::DirBuilder::new();
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, MODES.0);
            builder.create(to).map_err(failed)?;
            made.unfinished.push(Unfinished::new(to));
            made.directory = Some(to.to_owned());
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(CopyError::NotEmpty(to.to_owned()))
        }
        Err(error) => return Err(failed(error)),
    }
    // A copy beside the originals, in their directory, would be read and sent with them.
    let own = to.canonicalize().map_err(failed)?;
    let logs = found.runs.iter().flat_map(|(_, files)| files).filter_map(|file| file.path.parent());
    let mut last = None;
    for log in logs {
        if last.replace(log) == Some(log) {
            continue;
        }
        let log = if log.as_os_str().is_empty() { Path::new(".") } else { log };
        if log.canonicalize().is_ok_and(|log| own.parent() == Some(&log) || own == log) {
            return Err(CopyError::InLog(to.to_owned()));
        }
    }
    Ok(())
}

fn create_new(path: &Path, #[allow(unused_variables)] mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    options.open(path)
}

fn create_map(path: &Path, made: &mut Made) -> Result<(PathBuf, File), CopyError> {
    match create_new(path, MAP_MODE) {
        Ok(file) => {
            made.file(path.to_owned());
            Ok((path.to_owned(), file))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(CopyError::MapExists(path.to_owned()))
        }
        Err(error) => Err(CopyError::Write(path.to_owned(), error)),
    }
}

fn create(to: &Path, file: &SegmentFile, header: &SegmentHeader, made: &mut Made) -> Result<File, CopyError> {
    let original = file.path.file_name().unwrap_or_default().to_string_lossy();
    let name = copy_name(&original, header, |name| to.join(name).exists());
    let path = to.join(name);
    let created = create_new(&path, MODES.1).map_err(|error| CopyError::Write(path.clone(), error))?;
    made.file(path);
    Ok(created)
}

/// A segment that is being copied.
struct Copying<'a> {
    redaction: &'a mut Redaction,
    header: SegmentHeader,
    before: Option<(u32, i64)>,
    /// By how much the number of the next block is higher than that of the original.
    shift: i64,
    copied: &'a mut Copied,
}

impl Copying<'_> {
    /// Copies it. Returns by how much its blocks are more than they were.
    fn run(mut self, segment: &mut Segment, to: impl Write) -> io::Result<i64> {
        let header = SegmentHeader {
            facts: self.header.facts.min(FACTS),
            run: self.redaction.run(self.header.run),
            boot_id: self.redaction.boot_id(self.header.boot_id),
            ..self.header
        };
        let mut copy = SegmentCopy::begin(to, &header)?;
        while let Some(next) = segment.next_block() {
            match next {
                Ok(block) => self.block(block, &mut copy)?,
                Err(damage) => match damage.cause {
                    Cause::Header | Cause::Repeated | Cause::Stray => {}
                    Cause::Newer => {
                        self.shift -= i64::from(damage.blocks);
                        self.copied.newer += u64::from(damage.blocks);
                    }
                    _ => {
                        copy.skip_blocks(damage.blocks);
                        self.copied.damaged += u64::from(damage.blocks.max(1));
                    }
                },
            }
        }
        self.copied.too_large += copy.too_large();
        copy.finish()?;
        Ok(self.shift)
    }

    fn block(&mut self, block: Block, copy: &mut SegmentCopy<impl Write>) -> io::Result<()> {
        let (first, keyframe) = (copy.next_block(), block.keyframe);
        let mut events = block.events;
        for Event { time: _, fact } in &mut events {
            if let Fact::SegmentEnd(SegmentEnd { segment, blocks, last: _ }) = fact {
                let shift = match self.before {
                    _ if *segment == self.header.sequence => self.shift,
                    Some((before, shift)) if before == *segment => shift,
                    _ => 0,
                };
                *blocks = u32::try_from(i64::from(*blocks).saturating_add(shift)).unwrap_or(*blocks);
            }
            self.redaction.fact(fact);
        }
        self.copied.events += events.len() as u64;
        copy.block(&events, keyframe)?;
        self.shift += i64::from(copy.next_block()) - i64::from(first) - 1;
        Ok(())
    }
}
