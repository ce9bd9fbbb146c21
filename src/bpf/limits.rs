//! Limits of this process that BPF maps and probes may reach.

use libbpf_rs::libbpf_sys;

use crate::linux::descriptors;

/// Descriptors requested: enough for 500 IOCs. Many systems allow 4,096 by default, enough for 30.
const MAX_FILES: libc::rlim_t = 65536;

/// Raises the limits as far as allowed, root's and with CAP_SYS_RESOURCE beyond the hard limit. Kernels before 5.11 count BPF
/// maps as locked memory, with a limit of 64 KiB; each probe has two descriptors. A limit that cannot be raised is
/// not an error: newer kernels don't need the first, and a missing descriptor is reported where it is missing. Returns
/// the number of descriptors if that is too small to find and probe even one IOC.
pub fn raise_limits() -> Option<libc::rlim_t> {
    let limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: setrlimit only reads the struct, which lives until it returns; libbpf notes that it need not do the same.
    unsafe {
        libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit);
        libbpf_sys::libbpf_set_memlock_rlim(0);
    }
    let mut files = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls get a struct that outlives them; the second only reads it.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut files) == 0 {
            let wanted = libc::rlimit { rlim_cur: MAX_FILES, rlim_max: files.rlim_max.max(MAX_FILES) };
            if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const wanted) == 0 {
                return None;
            }
            files.rlim_cur = files.rlim_max.min(MAX_FILES);
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const files);
        }
    }
    Some(files.rlim_cur).filter(|_| descriptors::are_few())
}
