//! Files, sockets and devices, once a second: by the programs of [`crate::files`], or where these can't be used all that
//! a process did, by /proc/PID/io.

use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::time::Duration;

use iocrec_log::event::files::{is_sum, word, CallKind, KIND_WORDS, WORDS};
use iocrec_log::event::{Fact, FileHow, IoFile, IoFileEnd, IoUse, LossSource, Word};

use crate::files::contract::{FileUse, How};
use crate::files::{Files as Programs, Lack};
use crate::linux::process;
use crate::linux::reader::file::read_at;
use crate::linux::sockets::{self, Connection};
use crate::net::Namespace;
use crate::recorder::context::Context;
use crate::recorder::env::Env;
use crate::recorder::sources::{Lost, Resting, Source, UNTIL_WOKEN};

/// Beginning of a 64-bit ELF file.
const ELF_OF_64_BITS: [u8; 5] = *b"\x7fELF\x02";

/// What was told, in the order of the keys: in boxes, since those behind a new one move, and each has two kilobytes.
#[allow(clippy::vec_box)]
type Sorted = Vec<Box<Told>>;

/// What was last told of a file.
struct Told {
    /// The programs' id, or that of a process.
    key: u64,
    id: u32,
    words: [u64; WORDS],
    name: Vec<u8>,
}

/// A process whose files are followed.
struct Watched {
    pid: u32,
    start: u64,
    ranges: u32,
    lost: u64,
}

/// See the module.
pub struct Files {
    programs: Result<Programs, Lack>,
    watched: Vec<Watched>,
    told: Sorted,
    lost: u64,
}

impl Files {
    /// Takes what these programs count.
    pub fn new(programs: Result<Programs, Lack>) -> Files {
        Files { programs, watched: Vec::new(), told: Vec::new(), lost: 0 }
    }

    fn look(&mut self, cx: &mut Context<'_>) {
        match &self.programs {
            Ok(programs) => {
                // all files are older than these
                let mut connections = Vec::new();
                for id in programs.ids() {
                    let Some(file) = programs.file(id).filter(|file| file.pid > 0) else { continue };
                    let Some(ioc) = cx.iocs.get(file.pid) else { continue };
                    let (ioc, at) = (ioc.id, ioc.namespace.unwrap_or_default());
                    let Some(process) = self.watched.iter().find(|of| of.pid == file.pid) else { continue };
                    let before = place(&self.told, id).ok().and_then(|place| self.told.get(place));
                    let before = before.map(|told| told.name.as_slice());
                    let name = name_of(programs, &file, before, at, &mut connections);
                    let fact = IoFile {
                        id: 0,
                        ioc,
                        how: how(file.how),
                        since: id,
                        descriptor: Some(file.fd).filter(|fd| fd.cast_signed() >= 0),
                        flags: file.flags,
                        mode: file.mode,
                        name,
                        is_cut: file.cut > 0,
                        is_unplaced: file.unplaced > 0,
                    };
                    // closed by close_range, which tells no files
                    let is_open = || programs.is_behind(&file) && link(&file).is_some();
                    let is_gone = programs.process(file.pid).is_some_and(|now| now.ranges != process.ranges)
                        && file.refs == 1
                        && fact.how != FileHow::Others
                        && !is_open();
                    tell(&mut cx.env, &mut self.told, id, fact, &file.words);
                    if file.closed > 0 || is_gone {
                        programs.drop_file(id);
                        if let Ok(place) = place(&self.told, id) {
                            let told = self.told.remove(place);
                            let end = IoFileEnd { id: told.id, closed: file.closed };
                            let now = cx.env.monotonic();
                            cx.env.push(now, Fact::IoFileEnd(end));
                        }
                    }
                }
                for process in &mut self.watched {
                    let Some(now) = programs.process(process.pid) else { continue };
                    self.lost += now.lost - std::mem::replace(&mut process.lost, now.lost);
                    process.ranges = now.ranges;
                }
            }
            Err(why) => {
                for ioc in cx.iocs.iter() {
                    let Some(words) = of_process(ioc.pid) else { continue };
                    let fact = IoFile {
                        ioc: ioc.id,
                        how: FileHow::Process,
                        name: why.to_string().into_bytes(),
                        ..nothing()
                    };
                    let key = key_of_process(ioc.pid, ioc.start);
                    tell(&mut cx.env, &mut self.told, key, fact, &words);
                }
            }
        }
    }
}

/// Under which the sums of a process are kept.
fn key_of_process(pid: u32, start: u64) -> u64 {
    u64::from(pid) << 32 ^ start
}

fn nothing() -> IoFile {
    IoFile {
        id: 0,
        ioc: 0,
        how: FileHow::Others,
        since: 0,
        descriptor: None,
        flags: 0,
        mode: 0,
        name: Vec::new(),
        is_cut: false,
        is_unplaced: false,
    }
}

/// Where a file is among those told of, or would be.
fn place(told: &Sorted, key: u64) -> Result<usize, usize> {
    told.binary_search_by_key(&key, |told| told.key)
}

/// Records a file that is new or has got a name, and what has changed of its words.
fn tell(env: &mut Env<'_>, told: &mut Sorted, key: u64, file: IoFile, words: &[u64; WORDS]) {
    let now = env.monotonic();
    let found = place(told, key);
    if let Err(place) = found {
        // sums of a process are those since its start, of which nothing is told
        let words = if file.how == FileHow::Process { *words } else { [0; WORDS] };
        let id = env.run.ids.file();
        told.insert(place, Box::new(Told { key, id, words, name: Vec::new() }));
    }
    let (Ok(place) | Err(place)) = found;
    let Some(told) = told.get_mut(place) else { return };
    let id = told.id;
    let changed = (0_u16..).zip(words.iter().zip(&told.words)).filter(|(_, (now, before))| now != before);
    let changed = changed.map(|(number, (now, before))| {
        let value = if is_sum(number.into()) { now.wrapping_sub(*before) } else { *now };
        Word { number, value }
    });
    let changed: Vec<Word> = changed.collect();
    told.words = *words;
    let is_renamed = told.name != file.name;
    if found.is_err() || is_renamed || (file.is_unplaced && !changed.is_empty()) {
        told.name.clone_from(&file.name);
        env.push(now, Fact::from(IoFile { id, ..file }));
    }
    if !changed.is_empty() {
        env.push(now, Fact::IoUse(IoUse { file: id, words: changed }));
    }
}

fn how(number: u32) -> FileHow {
    match How::of(number) {
        Some(How::Opened) => FileHow::Opened,
        Some(How::Failed) => FileHow::Failed,
        Some(How::Named) => FileHow::Named,
        Some(How::Socket) => FileHow::Socket,
        Some(How::Accepted) => FileHow::Accepted,
        Some(How::Found) => FileHow::Found,
        _ => FileHow::Others,
    }
}

fn link(file: &FileUse) -> Option<Vec<u8>> {
    let link = process::directory(file.pid).join("fd").join(file.fd.to_string());
    Some(std::fs::read_link(link).ok()?.into_os_string().into_vec())
}

/// The name of a file: what the programs saw, or of one that was found what /proc says as long as it is open. `before`:
/// what was told. `at`: the process's network namespace. `connections`: those of namespaces as far as they were read, each once,
/// since there may be very many of them, and as many such files.
fn name_of(
    programs: &Programs,
    file: &FileUse,
    before: Option<&[u8]>,
    at: Namespace,
    connections: &mut Vec<(Namespace, Vec<Connection>)>,
) -> Vec<u8> {
    let seen = file.path.get(..file.path_bytes as usize).unwrap_or_default();
    if !seen.is_empty() || !matches!(how(file.how), FileHow::Found | FileHow::Accepted) {
        return seen.to_vec();
    }
    if let Some(before) = before.filter(|before| !before.is_empty()) {
        return before.to_vec();
    }
    let named = link(file).filter(|_| programs.is_behind(file)).unwrap_or_default();
    let inode = std::str::from_utf8(&named)
        .ok()
        .and_then(|name| name.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u64>().ok());
    let Some(inode) = inode else { return named };
    if !connections.iter().any(|(known, _)| *known == at) {
        // else it is asked for again
        let Some(there) = sockets::connections_at_once(file.pid) else { return Vec::new() };
        connections.push((at, there));
    }
    let mut there = connections.iter().filter(|(known, _)| *known == at).flat_map(|(_, all)| all);
    let peer = there.find(|connection| connection.inode == inode);
    peer.map_or(named, |of| format!("{}:{}", Ipv4Addr::from(of.remote.ip), of.remote.port).into_bytes())
}

/// The words of a process as a whole.
fn of_process(pid: u32) -> Option<[u64; WORDS]> {
    /// Names in /proc/PID/io, and the words.
    const NAMES: [(&str, usize); 6] = [
        ("rchar", CallKind::Read as usize * KIND_WORDS + word::BYTES),
        ("wchar", CallKind::Write as usize * KIND_WORDS + word::BYTES),
        ("syscr", CallKind::Read as usize * KIND_WORDS + word::CALLS),
        ("syscw", CallKind::Write as usize * KIND_WORDS + word::CALLS),
        ("read_bytes", word::DISK_READ),
        ("write_bytes", word::DISK_WRITTEN),
    ];
    let text = process::text(process::directory(pid).join("io")).ok()?;
    let mut words = [0; WORDS];
    for line in text.lines() {
        let Some((name, value)) = line.split_once(": ") else { continue };
        let place = NAMES.iter().find(|(known, _)| *known == name).and_then(|(_, at)| words.get_mut(*at));
        if let (Some(place), Ok(value)) = (place, value.parse()) {
            *place = value;
        }
    }
    Some(words)
}

/// Whether a process that executes this file has 32 bits, and the kernel 64: only then a 64-bit recorder has programs. The file
/// may be on a server, or in a file system of its user's, that never answers.
fn is_compat(file: &Path) -> bool {
    let mut begin = [0; 5];
    let read = read_at(file, &mut begin, 0);
    read.is_ok_and(|have| have == begin.len()) && begin != ELF_OF_64_BITS
}

impl Source for Files {
    fn take(&mut self, _cx: &mut Context<'_>) -> bool {
        false
    }

    fn rest(&mut self, _cx: &Resting<'_>) -> Duration {
        UNTIL_WOKEN
    }

    fn process_ended(&mut self, cx: &mut Context<'_>) {
        self.look(cx);
    }

    fn survey(&mut self, cx: &mut Context<'_>) {
        self.look(cx);
    }

    fn adapt(&mut self, cx: &mut Context<'_>) {
        let Ok(programs) = &self.programs else {
            let is_there = |key: u64| cx.iocs.iter().any(|ioc| key_of_process(ioc.pid, ioc.start) == key);
            self.told.retain(|told| is_there(told.key));
            return;
        };
        let before = self.watched.len();
        self.watched.retain(|watched| {
            let is_there = cx.iocs.get(watched.pid).is_some_and(|ioc| ioc.start == watched.start);
            if !is_there {
                programs.forget(watched.pid);
            }
            is_there
        });
        if self.watched.len() < before {
            self.told.retain(|told| programs.file(told.key).is_some());
        }
        for ioc in cx.iocs.iter() {
            if self.watched.iter().any(|watched| watched.pid == ioc.pid) {
                continue;
            }
            match programs.watch(ioc.pid, is_compat(&process::directory(ioc.pid).join("exe"))) {
                Ok(()) => {
                    let watched = Watched { pid: ioc.pid, start: ioc.start, ranges: 0, lost: 0 };
                    self.watched.push(watched);
                }
                Err(error) => {
                    let line = format!("files of {} are not recorded: {error}", ioc.label());
                    if !cx.env.messages.contains(&line) {
                        cx.env.messages.push(line);
                    }
                }
            }
        }
    }

    fn lost(&mut self) -> Vec<Lost> {
        let count = std::mem::take(&mut self.lost);
        vec![Lost {
            source: LossSource::Hits,
            count,
            cause: "too many calls or descriptors at once for --io",
        }]
    }

    fn finish(&mut self, cx: &mut Context<'_>) {
        self.look(cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever opens it without a reader process waits until somebody writes to it.
    #[test]
    fn a_program_s_file_that_never_answers_does_not_hold_up_the_loop() {
        crate::linux::reader::use_reader_process();
        let place = std::env::temp_dir().join(format!("iocrec-compat-{}", std::process::id()));
        let _ = std::fs::remove_file(&place);
        nix::unistd::mkfifo(&place, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(!is_compat(&place), "it can't be read");
        std::fs::remove_file(&place).unwrap();
        for (class, expected) in [(1, true), (2, false)] {
            std::fs::write(&place, [0x7f, b'E', b'L', b'F', class, 1]).unwrap();
            assert_eq!(is_compat(&place), expected);
        }
        std::fs::remove_file(&place).unwrap();
    }
}
