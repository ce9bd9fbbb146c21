//! Tests that do not run on this machine, and what they need: one line on stderr for each, which scripts/test collects.
//!
//! The need has a type, since it decides what a skipped test means. One that could have run fails: it needs what
//! scripts/setup installs, and the tests run as root. With CI=true or IOCREC_REQUIRE_ALL=1 every skipped test fails,
//! except for those that need root in a run that does without it (IOCREC_UNPRIVILEGED=1, `make test-unprivileged`).
//!
//! The unit tests of all crates share this file.

#![allow(dead_code)] // each crate has tests with some of these needs only

use std::fmt::{self, Display, Formatter};
use std::io::Write;

/// What a test needs that is missing here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Root, or its capabilities.
    Root,
    /// A program or file that scripts/setup installs.
    Program(&'static str),
    /// Something of the kernel or of the way that it is configured; with the error, if there is one.
    Kernel(String),
    /// Another machine: of an architecture, or faster.
    Machine(&'static str),
}

impl Needs {
    /// For what fails without root, but may fail with it, too.
    pub fn root_or_kernel(feature: impl Into<String>) -> Needs {
        if is_root() {
            Needs::Kernel(feature.into())
        } else {
            Needs::Root
        }
    }

    /// Could this machine have it?
    fn is_avoidable(&self) -> bool {
        match self {
            Needs::Root | Needs::Program(_) => is_root(),
            Needs::Kernel(_) | Needs::Machine(_) => false,
        }
    }
}

impl Display for Needs {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Needs::Root => write!(f, "needs root"),
            Needs::Program(name) => write!(f, "needs {name}, which scripts/setup installs"),
            Needs::Kernel(feature) => write!(f, "needs support by the kernel: {feature}"),
            Needs::Machine(name) => write!(f, "needs another machine: {name}"),
        }
    }
}

/// Do the tests have root's rights, and may use them?
pub fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() == 0 && !is_set("IOCREC_UNPRIVILEGED", "1") }
}

/// Reports that a test does not run.
///
/// # Panics
/// If it could run here, or has to (see the module).
#[track_caller]
pub fn not_run(test: &str, needs: Needs) {
    assert!(!needs.is_avoidable(), "{test} could run here, and must: {needs}");
    let expected = needs == Needs::Root && is_set("IOCREC_UNPRIVILEGED", "1");
    let required = is_set("CI", "true") || is_set("IOCREC_REQUIRE_ALL", "1");
    assert!(expected || !required, "every test must run: {test} {needs}");
    // Past the test runner, which would swallow what a passing test prints; and at once, since others print meanwhile.
    #[allow(clippy::disallowed_methods)] // only programs must print through their terminal modules
    let _ = std::io::stderr().write_all(format!("NOT RUN: {test}: {needs}\n").as_bytes());
}

fn is_set(name: &str, value: &str) -> bool {
    std::env::var(name).is_ok_and(|found| found == value)
}
