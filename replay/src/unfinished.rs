//! Files and directories that are not whole yet: removed if a signal ends the program meanwhile, as ^C does.
//!
//! Promises: what is finished is never removed. A signal ends the program as it would without this, within a moment. Nothing is done about a
//! signal that is ignored, as with nohup or in the background of a script, nor about one that the program itself waits
//! for: it ends nothing. Signals are watched only in the program ([`remove_at_signals`]), not where the library is used,
//! and only once there is something to remove.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A file or directory that is there and not whole yet, for as long as this lives. Whoever drops this has finished or removed it.
pub struct Unfinished(u64);

struct List {
    next: u64,
    /// In the order in which they were made: a directory comes before what is in it.
    paths: BTreeMap<u64, PathBuf>,
    #[cfg(target_os = "linux")]
    watch: Watch,
}

#[cfg(target_os = "linux")]
#[derive(PartialEq)]
enum Watch {
    Unwanted,
    Wanted,
    Begun,
}

static LIST: Mutex<List> = Mutex::new(List {
    next: 0,
    paths: BTreeMap::new(),
    #[cfg(target_os = "linux")]
    watch: Watch::Unwanted,
});

impl Unfinished {
    /// Notes what was just made.
    pub fn new(path: &Path) -> Unfinished {
        let mut list = list();
        let number = list.next;
        list.next = list.next.wrapping_add(1);
        list.paths.insert(number, path.to_owned());
        #[cfg(target_os = "linux")]
        if list.watch == Watch::Wanted {
            list.watch = Watch::Begun;
            linux::watch();
        }
        Unfinished(number)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        list().paths.remove(&self.0);
    }
}

/// Removes what is unfinished when a signal ends the program.
pub fn remove_at_signals() {
    #[cfg(target_os = "linux")]
    {
        let mut list = list();
        if list.watch == Watch::Unwanted {
            list.watch = Watch::Wanted;
        }
    }
}

fn list() -> MutexGuard<'static, List> {
    LIST.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(target_os = "linux")]
mod linux {
    use super::{list, Path};
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use std::fs;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::Arc;
    use std::thread::sleep;
    use std::time::Duration;

    /// How often is looked whether a signal came.
    const LOOK: Duration = Duration::from_millis(50);

    /// Waits for signals on a thread of its own.
    pub(super) fn watch() {
        let Some(kept) = kept_signals() else { return };
        let came = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&came);
        let watch = move || loop {
            sleep(LOOK);
            let signal = i32::try_from(seen.load(Ordering::Relaxed)).unwrap_or(0);
            if signal > 0 {
                // held to the end: nothing more is finished or noted
                let list = list();
                remove(list.paths.values().rev().map(|path| path.as_path()));
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        };
        if std::thread::Builder::new().spawn(watch).is_err() {
            return;
        }
        for (signal, number) in [(SIGHUP, 1), (SIGINT, 2), (SIGTERM, 15)] {
            if (kept >> (number - 1)) & 1 == 0 {
                let _ = signal_hook::flag::register_usize(signal, Arc::clone(&came), number);
            }
        }
    }

    /// Removes files, and directories that are empty by then.
    pub(super) fn remove<'a>(paths: impl Iterator<Item = &'a Path>) {
        for path in paths {
            if fs::remove_file(path).is_err() {
                let _ = fs::remove_dir(path);
            }
        }
    }

    /// The signals that this program ignores or waits for itself, as bits from that of signal 1 on; `None` if /proc does not tell.
    fn kept_signals() -> Option<u64> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let bits = |name: &str| {
            let bits = status.lines().find_map(|line| line.strip_prefix(name))?;
            u64::from_str_radix(bits.trim(), 16).ok()
        };
        Some(bits("SigIgn:")? | bits("SigCgt:")?)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::fs;

    fn is_noted(path: &Path) -> bool {
        list().paths.values().any(|noted| noted == path)
    }

    #[test]
    fn what_is_finished_is_not_removed() {
        let place = tempfile::tempdir().unwrap();
        let [made, own, finished] =
            ["made", "made/own.part", "made/whole"].map(|name| place.path().join(name));
        fs::create_dir(&made).unwrap();
        let _made = Unfinished::new(&made);
        fs::write(&own, "").unwrap();
        let part = Unfinished::new(&own);
        assert!(is_noted(&made) && is_noted(&own));
        fs::rename(&own, &finished).unwrap();
        drop(part);
        assert!(is_noted(&made) && !is_noted(&own));
        linux::remove([&own, &made].into_iter().map(PathBuf::as_path));
        assert!(finished.exists(), "a directory with something in it stays");
        fs::remove_file(&finished).unwrap();
        fs::write(&own, "").unwrap();
        linux::remove([&own, &made].into_iter().map(PathBuf::as_path));
        assert!(!made.exists());
    }
}
