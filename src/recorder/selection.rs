//! Which records and PVs are wanted: `--only` and `--exclude`.

use epics::Pv;
use iocrec_log::glob::Glob;

/// Patterns of names.
#[derive(Default)]
pub struct Selection {
    only: Vec<Glob>,
    exclude: Vec<Glob>,
}

impl Selection {
    /// From what the user wrote.
    pub fn new(only: &[String], exclude: &[String]) -> Selection {
        let globs = |patterns: &[String]| patterns.iter().map(|pattern| Glob::new(pattern)).collect();
        Selection { only: globs(only), exclude: globs(exclude) }
    }

    /// Is everything wanted?
    pub fn is_all(&self) -> bool {
        self.only.is_empty() && self.exclude.is_empty()
    }

    /// Is a record wanted? One without a known name (empty) is, unless only certain ones are.
    pub fn record(&self, name: &str) -> bool {
        (self.only.is_empty() || self.only.iter().any(|glob| glob.matches(name)))
            && !self.exclude.iter().any(|glob| glob.matches(name))
    }

    /// Is a PV, `RECORD` or `RECORD.FIELD`, wanted? By its whole name or by its record's.
    pub fn pv(&self, name: &str) -> bool {
        let record = Pv::new(name).record;
        let matches = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(name) || glob.matches(record));
        (self.only.is_empty() || matches(&self.only)) && !matches(&self.exclude)
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
        assert!(!selection.record("LI:BPM1") && !selection.pv(""));
        assert!(Selection::default().pv(""));
    }
}
