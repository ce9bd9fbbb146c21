//! Stale uprobe events: those that killed recorders have left in tracefs.
//!
//! Kernels before 4.17 have no PMU for uprobes. There libbpf makes an event in tracefs for each probe, and the event
//! outlives its maker if the maker is killed. Such an event does nothing, but takes memory and a name in the kernel.
//! libbpf puts the maker's PID into the name, so a starting recorder removes all events whose maker is gone. It
//! recognizes other programs' events by their names and leaves them alone, and also those of live processes. An event
//! in use cannot be removed (EBUSY), as it should be.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use crate::linux::kernel::{TRACEFS, UPROBE_EVENTS, UPROBE_PMU};
use crate::linux::process;

/// Whether this kernel makes probes by such events.
pub fn are_possible() -> bool {
    !Path::new(UPROBE_PMU).exists()
}

/// Removes all stale events.
pub fn remove() {
    // in another PID namespace the PIDs are those of other processes
    if process::is_first_pid_namespace() {
        remove_those(&|maker| !Path::new("/proc").join(maker.to_string()).exists());
    }
}

/// Removes the events of a recorder that is about to end.
pub fn remove_of(recorder: u32) {
    remove_those(&|maker| maker == recorder);
}

fn remove_those(dead: &dyn Fn(u32) -> bool) {
    let events = TRACEFS.iter().map(|tracefs| Path::new(tracefs).join(UPROBE_EVENTS));
    if let Some(events) = events.into_iter().find(|events| events.exists()) {
        remove_from(&events, dead);
    }
}

fn remove_from(events: &Path, dead: &dyn Fn(u32) -> bool) {
    let Ok(text) = fs::read_to_string(events) else { return };
    for name in stale(&text, dead) {
        // opening it with O_TRUNC would remove all events of all programs
        let file = OpenOptions::new().append(true).open(events);
        // it may be in use after all, or gone
        let _ = file.and_then(|mut file| file.write_all(format!("-:{name}\n").as_bytes()));
    }
}

/// Names, with their group, of events that libbpf made for a process that is `dead`.
fn stale<'a>(events: &'a str, dead: &dyn Fn(u32) -> bool) -> Vec<&'a str> {
    let dead = |name: &&str| {
        let maker =
            name.strip_prefix("uprobes/libbpf_").and_then(|rest| rest.split('_').next()?.parse().ok());
        maker.is_some_and(dead)
    };
    events.lines().filter_map(|line| line.strip_prefix("p:")?.split(' ').next()).filter(dead).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_events_of_the_dead() {
        let events = "p:uprobes/libbpf_41_0__libdbCore_so_0x1000 /lib/libdbCore.so:0x0000000000001000\n\
                      p:uprobes/libbpf_42_0_x /x:0x1\n\
                      p:probe_libc/malloc /lib/libc.so.6:0x9a0e0 arg1=%di\n\
                      r:uprobes/libbpf_43_0_x /x:0x1\n\
                      p:uprobes/libbpf_ /x:0x1\n\
                      p:uprobes/libbpf_99999999999_0_x /x:0x1\n\
                      p:mine/libbpf_44_0_x /x:0x1\n";
        assert_eq!(stale(events, &|pid| pid != 42), ["uprobes/libbpf_41_0__libdbCore_so_0x1000"]);
    }
}
