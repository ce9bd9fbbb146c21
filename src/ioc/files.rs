//! The files whose code a process has mapped.

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
    mappings: Vec<&'a Mapping>,
    /// The first mapping with code.
    pub code: &'a Mapping,
    pub named: Named,
}

/// Most files whose code a process may have mapped: an IOC has some dozens. Each is a descriptor while the process is looked at.
const MAX_FILES: usize = 4096;

/// The files whose code a process has mapped, as far as they are accessible.
///
/// # Errors
/// There are more than an IOC has; EMFILE if they would take a quarter of the files that may be open: what a process maps is
/// its own choice, and others must not lack descriptors for it.
pub(super) fn files(pid: u32, mappings: &[Mapping]) -> io::Result<Vec<MappedFile<'_>>> {
    let mut files: BTreeMap<FileId, Vec<&Mapping>> = BTreeMap::new();
    for mapping in mappings {
        files.entry(mapping.file).or_default().push(mapping);
    }
    files.retain(|_, mappings| mappings.iter().any(|mapping| mapping.executable));
    if files.len() > MAX_FILES {
        return Err(io::Error::other("it has mapped the code of more files than an IOC"));
    }
    let most = descriptors::limit() / 4;
    if most > 0 && files.len() as u64 > most {
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    let mapped = files.into_values().filter_map(|mappings| {
        let code = mappings.iter().copied().find(|mapping| mapping.executable)?;
        Some(MappedFile { named: Named::mapped(pid, code).ok()?, code, mappings })
    });
    Ok(mapped.collect())
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
        let code = self.mappings.iter().copied().filter(|mapping| mapping.executable);
        Some(Module {
            file: self.code.file,
            path: self.code.path.clone(),
            bias: elf.bias(self.mappings.iter().copied())?,
            range: (self.mappings.first()?.start, self.mappings.last()?.end),
            elf,
            opened: Arc::new(opened),
            code: code.cloned().collect(),
            is_program: self.code.path == exe,
        })
    }
}
