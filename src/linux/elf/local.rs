//! Local symbols: those that are no part of what a file offers to others.

use crate::linux::elf::headers::{ElfError, Head};
use crate::linux::elf::pieces::Pieces;
use crate::linux::elf::{Elf, SHT_SYMTAB};
use crate::linux::opened::Opened;

impl Elf {
    /// Notes which of these names local symbols have: a linker that optimizes the whole program (LTO) makes all local that
    /// nothing outside refers to. They are not looked up by [`Elf::symbol`].
    ///
    /// # Errors
    /// The same as of [`Elf::read`].
    pub fn note_local(&mut self, opened: &Opened, names: &[&'static str]) -> Result<(), ElfError> {
        let pieces = Pieces::of(opened);
        let head = Head::read(&pieces)?;
        let found = self.found(&pieces, &head, (SHT_SYMTAB, true), names);
        self.local = names.iter().copied().filter(|name| found.iter().any(|one| one.0 == *name)).collect();
        Ok(())
    }

    /// Whether a local symbol noted by [`Elf::note_local`] has this name.
    pub fn has_local(&self, name: &str) -> bool {
        self.local.contains(&name)
    }

    /// Looks up local symbols, too, but only where each is the only one of its name and all of `names` are there.
    ///
    /// # Errors
    /// The same as of [`Elf::read`].
    pub fn read_local(
        &mut self,
        opened: &Opened,
        names: &[&'static str],
        wanted: &[&'static str],
    ) -> Result<(), ElfError> {
        let pieces = Pieces::of(opened);
        let head = Head::read(&pieces)?;
        let mut found = self.found(&pieces, &head, (SHT_SYMTAB, true), &[names, wanted].concat());
        found.sort_by_key(|(name, symbol)| (*name, symbol.address));
        found.dedup_by_key(|(name, symbol)| (*name, symbol.address));
        let only = |name: &str| found.iter().filter(|one| one.0 == name).count() == 1;
        if names.iter().all(|name| only(name)) {
            for (name, symbol) in found.iter().filter(|one| wanted.contains(&one.0) && only(one.0)) {
                self.symbols.entry(name).or_insert(*symbol);
            }
        }
        Ok(())
    }
}
