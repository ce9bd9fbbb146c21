//! Selection of records and PVs: `--only` and `--exclude`.

use epics::Pv;
use iocrec_log::glob::Glob;

/// Patterns of names.
#[derive(Default)]
pub struct Selection {
    only: Vec<Glob>,
    exclude: Vec<Glob>,
}

impl Selection {
    /// Reads the user's patterns.
    pub fn new(only: &[String], exclude: &[String]) -> Selection {
        let globs = |patterns: &[String]| patterns.iter().map(|pattern| Glob::new(pattern)).collect();
        Selection { only: globs(only), exclude: globs(exclude) }
    }

    /// Whether everything is wanted.
    pub fn is_all(&self) -> bool {
        self.only.is_empty() && self.exclude.is_empty()
    }

    /// Whether a record is wanted. A record without a known name (empty) is, unless `--only` is given.
    pub fn record(&self, name: &str) -> bool {
        (self.only.is_empty() || self.only.iter().any(|glob| glob.matches(name)))
            && !self.exclude.iter().any(|glob| glob.matches(name))
    }

    /// Whether a PV, `RECORD` or `RECORD.FIELD`, is wanted, by its whole name or by its record's. One whose name is not known
    /// yet (empty) is: it may turn out to be.
    pub fn pv(&self, name: &str) -> bool {
        let record = Pv::new(name).record;
        let matches = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(name) || glob.matches(record));
        name.is_empty() || (self.only.is_empty() || matches(&self.only)) && !matches(&self.exclude)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_and_exclude() {
        let selection = Selection::new(&["SR:*".into()], &["*:SCAN?".into()]);
        assert!(selection.record("SR:BPM1") && selection.pv("SR:BPM1.VAL"));
        assert!(!selection.record("SR:SCAN1") && !selection.pv("SR:SCAN1.PROC"));
        assert!(!selection.record("LI:BPM1") && !selection.record("") && !selection.pv("LI:BPM1"));
        assert!(selection.pv("") && Selection::new(&[], &["*".into()]).pv("") && Selection::default().pv(""));
    }
}
