//! The report: what its head says, what its data holds, and the page in a real browser.

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../log/examples/load/mod.rs"]
#[allow(dead_code)] // the examples use the rest
mod load;
#[path = "../../../tests/rig/not_run.rs"]
mod not_run;

mod browser;
mod chromium;
mod head;
mod sizes;
mod story;
mod ticks;
mod usage;
