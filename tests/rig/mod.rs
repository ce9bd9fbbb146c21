//! The rig of the whole-program tests: real IOCs, real Channel Access clients and the two programs, as child processes
//! in a network of their own.
//!
//! Each [`Rig`] has its own network namespace (with nothing but loopback), its own directory and its own children, so
//! tests may run side by side. Children are killed when the rig is dropped, also when a test fails: by process group,
//! and by the kernel when the test's thread ends.
//!
//! A test that cannot run here reports what it needs ([`not_run`]).

pub mod ca_client;
mod child;
mod client;
mod ioc;
mod mounts;
mod network;
pub mod not_run;
pub mod own_program;
mod programs;
pub mod pva_client;
mod recorder;
pub mod spans;
mod wait;

pub use child::{run, run_within, Talk};
pub use client::Client;
pub use ioc::Ioc;
pub use mounts::{enter_mounts_with_tracefs, enter_private_mounts, mount_small};
pub use network::{beside, join_by_switch, join_networks, join_networks_by};
pub use not_run::{not_run, Needs};
pub use programs::{
    check_script, environment, epics_programs, epics_versions, iocreplay, python, rig_file, IOCREC,
};
pub use recorder::{json_lines, Running, FLUSH};
pub use wait::{wait_until, Delays, PATIENCE};

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;

/// The surroundings of a test: a network, a directory, and children.
pub struct Rig {
    /// The test's own directory, removed with the rig unless the test fails.
    pub dir: PathBuf,
    /// Whether other tests may run at the same time.
    _turn: Turn,
}

/// Tests may run side by side, except those that need the kernel's attention: it places and removes one probe at a time, for
/// all processes.
static TURNS: RwLock<()> = RwLock::new(());

thread_local! {
    /// Whether this thread's test has its turn: a second rig of it must not wait for another test that waits for the first.
    static HAS_TURN: Cell<bool> = const { Cell::new(false) };
}

enum Turn {
    Beside {
        _guard: RwLockReadGuard<'static, ()>,
    },
    Alone {
        _guard: RwLockWriteGuard<'static, ()>,
    },
    /// That of the test's first rig.
    Same,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !matches!(self, Turn::Same) {
            HAS_TURN.set(false);
        }
    }
}

impl Rig {
    /// Makes the surroundings of a test. None if it cannot run here, which is reported.
    pub fn new(name: &str) -> Option<Rig> {
        if HAS_TURN.get() {
            return Rig::with(name, Turn::Same);
        }
        // a test that failed has left nothing half done
        let guard = TURNS.read().unwrap_or_else(PoisonError::into_inner);
        Rig::with(name, Turn::Beside { _guard: guard })
    }

    /// The same for a test that runs alone: no other test runs, and the probes of earlier ones have been removed.
    pub fn alone(name: &str) -> Option<Rig> {
        let guard = TURNS.write().unwrap_or_else(PoisonError::into_inner);
        let is_leaving = |process: &fs::DirEntry| {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            name.trim_end() == "iocrec-closing"
        };
        wait_until("no recorder's probes are being taken out", || {
            !fs::read_dir("/proc").expect("/proc").flatten().any(|process| is_leaving(&process))
        });
        Rig::with(name, Turn::Alone { _guard: guard })
    }

    fn with(name: &str, turn: Turn) -> Option<Rig> {
        if !not_run::is_root() {
            not_run(name, Needs::Root);
            return None;
        }
        HAS_TURN.set(true);
        network::enter_private_network();
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("iocrec-{}-{number}-{name}", std::process::id()));
        fs::create_dir_all(&dir).expect("the test's directory");
        Some(Rig { dir, _turn: turn })
    }

    /// The directory for logs, as an argument.
    pub fn log(&self) -> String {
        self.path("log")
    }

    /// A path in the rig's directory, as an argument.
    pub fn path(&self, name: &str) -> String {
        self.dir.join(name).to_str().expect("a UTF-8 path").to_string()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the test's files are kept in {}", self.dir.display());
        } else {
            // What can't be removed does no harm in a directory for temporary files.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}
