//! The capabilities that a running recorder keeps: only those needed for IOCs that start later.
//!
//! The others are dropped before the first thread starts, since Linux keeps capabilities per thread: from the
//! permitted, effective, inheritable and ambient sets, and from the bounding set, so that no executed program gets them
//! back. With no_new_privs, set-user-ID programs grant none either. The needed ones were found by leaving out one at a
//! time (docs/operating.md).

use std::io;

/// A capability by its number in linux/capability.h.
pub type Capability = u8;

/// Read files that others may not: programs of IOCs, and /proc of other users' processes.
const DAC_READ_SEARCH: Capability = 2;
/// Open packet sockets.
const NET_RAW: Capability = 13;
/// Read memory and mappings of other users' processes.
const SYS_PTRACE: Capability = 19;
/// Place probes (since CVE-2025-38466 was fixed, and everywhere before 5.8), use /proc/PID/map_files, and enter other
/// network namespaces.
const SYS_ADMIN: Capability = 21;
/// Place probes and read memory from BPF, from 5.8 on; SYS_ADMIN includes it.
const PERFMON: Capability = 38;
/// Create BPF maps, from 5.8 on; SYS_ADMIN includes it.
const BPF: Capability = 39;

/// The capabilities that recording needs.
const NEEDED: [Capability; 4] = [DAC_READ_SEARCH, NET_RAW, SYS_PTRACE, SYS_ADMIN];
/// The same without SYS_ADMIN.
const LESS: [Capability; 5] = [DAC_READ_SEARCH, NET_RAW, SYS_PTRACE, PERFMON, BPF];

/// Also needed if the log's directory, or its parent, belongs to another user.
pub const DAC_OVERRIDE: Capability = 1;

/// _LINUX_CAPABILITY_VERSION_3: two words of 32 bits each.
const VERSION: u32 = 0x2008_0522;

/// struct __user_cap_header_struct
#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

/// struct __user_cap_data_struct
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Word {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// What to do where [`may_read_others`] says no.
pub const TO_READ_OTHERS: &str = "run as root, with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH";

/// Whether this thread may read the memory and files of all processes.
pub fn may_read_others() -> bool {
    const BOTH: u32 = 1 << SYS_PTRACE | 1 << DAC_READ_SEARCH;
    held().is_ok_and(|(_, words)| words[0].effective & BOTH == BOTH)
}

/// Drops all capabilities that this thread has, except the needed ones and `more`.
///
/// # Errors
/// The system refuses; some may have been dropped.
pub fn limit(more: Option<Capability>) -> io::Result<()> {
    let (header, words) = held()?;
    let has_admin = words[0].permitted >> SYS_ADMIN & 1 == 1;
    let needed = if has_admin { &NEEDED[..] } else { &LESS };
    keep(header, words, &mut needed.iter().copied().chain(more))
}

/// Drops all capabilities that this thread has, except `more`.
///
/// # Errors
/// The system refuses; some may have been dropped.
pub fn drop_all(more: Option<Capability>) -> io::Result<()> {
    let (header, words) = held()?;
    keep(header, words, &mut more.into_iter())
}

/// The capabilities that this thread has.
fn held() -> io::Result<(Header, [Word; 2])> {
    let mut header = Header { version: VERSION, pid: 0 };
    let mut words = [Word::default(); 2];
    // SAFETY: version 3 reads the header and writes two words, which live until the call returns.
    done(unsafe { libc::syscall(libc::SYS_capget, &raw mut header, words.as_mut_ptr()) })?;
    Ok((header, words))
}

fn keep(
    mut header: Header,
    mut words: [Word; 2],
    kept: &mut dyn Iterator<Item = Capability>,
) -> io::Result<()> {
    let kept = kept.fold(0u64, |kept, capability| kept | 1 << capability);
    // first, while CAP_SETPCAP is still held; without it nothing could raise capabilities from the bounding set anyway
    for capability in 0..64 {
        if kept >> capability & 1 == 0 {
            // SAFETY: no pointers are passed. Numbers that this kernel does not know are refused.
            unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability as libc::c_ulong, 0, 0, 0) };
        }
    }
    // SAFETY: no pointers are passed. Kernels before 4.3 have none of these.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
    for (word, kept) in words.iter_mut().zip([kept as u32, (kept >> 32) as u32]) {
        word.permitted &= kept;
        word.effective = word.permitted;
        word.inheritable = 0;
    }
    // SAFETY: version 3 reads the header and two words, which live until the call returns.
    done(unsafe { libc::syscall(libc::SYS_capset, &raw mut header, words.as_ptr()) })?;
    // SAFETY: no pointers are passed.
    done(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())
}

fn done(result: libc::c_long) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::not_run::{not_run, Needs};

    fn set(name: &str) -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let hex = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(hex.trim(), 16).unwrap()
    }

    /// On a thread of its own, since it can't be undone.
    #[test]
    fn what_is_not_needed_is_gone() {
        let test = || {
            let before = set("CapPrm:");
            if before >> SYS_ADMIN & 1 == 0 {
                return not_run("privileges::what_is_not_needed_is_gone", Needs::Root);
            }
            limit(Some(DAC_OVERRIDE)).unwrap();
            let needed =
                NEEDED.into_iter().chain([DAC_OVERRIDE]).fold(0, |set, capability| set | 1 << capability);
            assert_eq!(set("CapPrm:"), before & needed);
            assert_eq!(set("CapEff:"), before & needed);
            assert_eq!((set("CapInh:"), set("CapAmb:")), (0, 0));
            assert_eq!(set("NoNewPrivs:"), 1);
            limit(None).unwrap();
            assert_eq!(set("CapEff:") >> DAC_OVERRIDE & 1, 0);
            assert_eq!(
                set("CapBnd:") & !needed,
                if before >> 8 & 1 == 1 { 0 } else { set("CapBnd:") & !needed }
            );
        };
        std::thread::spawn(test).join().unwrap();
    }
}
