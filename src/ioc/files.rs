//! The files whose code a process has mapped.

use std::collections::btree_map::Entry;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use crate::ioc::module::Module;
use crate::linux::descriptors;
use crate::linux::elf::Elf;
use crate::linux::opened::{self, Named, Opened};
use crate::linux::process::Mapping;
use crate::linux::FileId;

/// A file whose code a process has mapped.
pub(super) struct MappedFile<'a> {
    mappings: &'a [Mapping],
    /// The first mapping with code.
    pub code: &'a Mapping,
    pub named: Named,
}

/// Most files whose code a process may have mapped: an IOC has some dozens. Each is a descriptor while the process is looked at.
const MAX_FILES: usize = 4096;
/// Times that one of them counts as loaded: two were seen.
const MAX_LOADS: usize = 16;
/// Most loaded libraries that count of those that are looked for: each word of a process's memory is compared with what they have,
/// and whoever maps one thousands of times would have that take minutes.
const MAX_LOADED: usize = 16;

/// The files whose code a process has mapped, as far as they are accessible; each as often as it was loaded, up to a bound.
///
/// # Errors
/// There are more than an IOC has; EMFILE if they would take a quarter of the files that may be open: what a process maps is
/// its own choice, and others must not lack descriptors for it.
pub(super) fn files(pid: u32, mappings: &[Mapping]) -> io::Result<Vec<MappedFile<'_>>> {
    let files = bounded(mappings)
        .ok_or_else(|| io::Error::other("it has mapped the code of more files than an IOC"))?;
    let most = descriptors::limit() / 4;
    if most > 0 && files.len() as u64 > most {
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    let mapped = files.into_iter().filter_map(|(mappings, code)| {
        Some(MappedFile { named: Named::mapped(pid, code).ok()?, code, mappings })
    });
    Ok(mapped.collect())
}

/// A file that was loaded: its mappings, and the first of them with code.
type Load<'a> = (&'a [Mapping], &'a Mapping);

/// What a process has loaded, each file [`MAX_LOADS`] times at most; `None` if it is more than [`MAX_FILES`].
fn bounded(mappings: &[Mapping]) -> Option<Vec<Load<'_>>> {
    let mut files: Vec<Load> = Vec::new();
    // how often each counts so far, in order: a process may have tens of thousands of mappings
    let mut loads: Vec<(FileId, usize)> = Vec::new();
    for load in loaded(mappings) {
        let file = load.1.file;
        let at = loads.binary_search_by_key(&file, |before| before.0).unwrap_or_else(|at| {
            loads.insert(at, (file, 0));
            at
        });
        let Some((_, count)) = loads.get_mut(at) else { continue };
        if *count < MAX_LOADS {
            *count += 1;
            files.push(load);
        }
        if files.len() > MAX_FILES {
            return None;
        }
    }
    Some(files)
}

/// The mappings of each file that a process has loaded, and the first of them with code. A linker may have loaded a file twice
/// (dlmopen), and whoever looks up symbols maps it once more, as data.
fn loaded(mappings: &[Mapping]) -> impl Iterator<Item = Load<'_>> {
    let goes_on = |before: &Mapping, next: &Mapping| {
        next.file == before.file && next.offset > 0 && next.offset >= before.offset
    };
    let once = mappings.chunk_by(goes_on);
    once.filter_map(|once| Some((once, once.iter().find(|mapping| mapping.executable)?)))
}

/// What was found in files that may be a library. One that can't be read through a process is not remembered: the process may
/// have ended just now, or have used up the time for it, and others have the same file.
#[derive(Default)]
pub(super) struct LibraryFiles(BTreeMap<FileId, Option<Elf>>);

impl LibraryFiles {
    /// Passes on the files that have any of these symbols and whose code a process has mapped, each as often as it was loaded,
    /// with its load bias; not all if a process has loaded very many.
    pub fn each(
        &mut self,
        pid: u32,
        mappings: &[Mapping],
        names: &[&'static str],
        take: &mut dyn FnMut(&Elf, u64),
    ) {
        let mut left = MAX_LOADED;
        for (mappings, code) in loaded(mappings) {
            if left == 0 {
                break;
            }
            let file = code.file;
            if self.0.len() >= MAX_FILES && !self.0.contains_key(&file) {
                self.0 = BTreeMap::new();
            }
            let known = match self.0.entry(file) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => match read(pid, code, names) {
                    Some(found) => place.insert(found),
                    None => continue,
                },
            };
            let Some(elf) = known else { continue };
            if let Some(bias) = elf.bias(mappings.iter()) {
                take(elf, bias);
                left -= 1;
            }
        }
    }
}

/// The symbols of a file, if it has any of these. The outer `None`: it can't be read now, or not all of it.
fn read(pid: u32, code: &Mapping, names: &[&'static str]) -> Option<Option<Elf>> {
    let opened = Named::mapped(pid, code).and_then(|named| named.open()).ok()?;
    let elf = Elf::read(&opened, names).ok();
    let elf = elf.filter(|elf| names.iter().any(|name| elf.symbol(name).is_some()));
    // that can be told only as long as reading is not refused
    opened.is_unchanged().then_some(elf)
}

impl MappedFile<'_> {
    /// Opens the file. Also fails if the process now has something else mapped there.
    pub fn open(&self, pid: u32) -> io::Result<Opened> {
        let opened = self.named.open()?;
        if opened::is_still_mapped(pid, self.code) && opened.is_of(self.code) {
            Ok(opened)
        } else {
            Err(io::Error::other("the opened file is not the one that is mapped"))
        }
    }

    /// The file as a module; `exe` is the path of the process's program.
    pub fn module(&self, opened: Opened, elf: Arc<Elf>, exe: &str) -> Option<Module> {
        let code = self.mappings.iter().filter(|mapping| mapping.executable);
        Some(Module {
            file: self.code.file,
            path: self.code.path.clone(),
            bias: elf.bias(self.mappings.iter())?,
            range: (self.mappings.first()?.start, self.mappings.last()?.end),
            elf,
            opened: Arc::new(opened),
            code: code.cloned().collect(),
            is_program: self.code.path == exe,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::process;

    #[test]
    fn each_time_that_a_file_was_loaded() {
        let mapping = |start, offset, executable| {
            let path = "/lib/libdbCore.so".to_string();
            Mapping { start, end: start + 0x1000, offset, executable, file: (1, 7), path }
        };
        let maps = [
            mapping(0x1000, 0, false), // as data
            mapping(0x2000, 0, false),
            mapping(0x3000, 0x1000, true),
            mapping(0x4000, 0x2000, false),
            mapping(0x5000, 0x2000, false),
            mapping(0x6000, 0, true), // once more, all of it code
            Mapping { file: (1, 8), ..mapping(0x7000, 0, true) },
            mapping(0x8000, 0x1000, false), // as data
        ];
        let found: Vec<_> =
            loaded(&maps).map(|(once, code)| (once[0].start, once.len(), code.start)).collect();
        assert_eq!(found, [(0x2000, 4, 0x3000), (0x6000, 1, 0x6000), (0x7000, 1, 0x7000)]);
    }

    /// A client of any user's could map a library tens of thousands of times.
    #[test]
    fn a_library_that_was_loaded_very_often_counts_some_times() {
        let own = std::process::id();
        let once = process::mappings(own).unwrap();
        let often: Vec<Mapping> = (0..100).flat_map(|_| once.clone()).collect();
        let mut found = 0;
        LibraryFiles::default().each(own, &often, &["environ"], &mut |_, _| found += 1);
        assert_eq!(found, MAX_LOADED);
    }

    /// A descriptor each time, and others would lack them.
    #[test]
    fn a_file_that_was_loaded_very_often_takes_few_descriptors() {
        let own = std::process::id();
        let mut once = process::mappings(own).unwrap();
        let file = loaded(&once).next().expect("its program").1.file;
        once.retain(|mapping| mapping.file == file);
        let often: Vec<Mapping> = (0..100).flat_map(|_| once.clone()).collect();
        assert_eq!(files(own, &often).unwrap().len(), MAX_LOADS);
    }

    /// As many as a process may have mappings, in whatever order.
    #[test]
    fn each_of_many_files_counts_some_times() {
        let load = |number: u64| {
            let (start, path) = (number << 12, String::new());
            let file = (1, number * 7919 % 200);
            Mapping { start, end: start + 0x1000, offset: 0, executable: true, file, path }
        };
        let mut often: Vec<Mapping> = (0..60_000).map(load).collect();
        let found = bounded(&often).unwrap();
        for number in 0..200 {
            let of_it: Vec<u64> =
                found.iter().filter(|(_, code)| code.file.1 == number).map(|(_, code)| code.start).collect();
            assert_eq!(of_it.len(), MAX_LOADS, "{number}");
            assert!(of_it.is_sorted(), "the first ones");
        }
        often.iter_mut().for_each(|mapping| mapping.file.0 = mapping.start >> 22);
        assert!(bounded(&often).is_none(), "more than an IOC has");
    }

    /// A client that ends before its library is read tells nothing of the library.
    #[test]
    fn what_could_not_be_read_is_read_through_another_process() {
        let (own, ended) = (std::process::id(), i32::MAX.unsigned_abs());
        let mappings = process::mappings(own).unwrap();
        let (mut files, mut found) = (LibraryFiles::default(), 0);
        let mut each = |pid| {
            files.each(pid, &mappings, &["environ"], &mut |_, _| found += 1);
            std::mem::take(&mut found)
        };
        assert_eq!(each(ended), 0);
        let known = each(own);
        assert!(known > 0, "it has the C library");
        assert_eq!(each(ended), known, "that is remembered");
    }
}
