//! The stack of the first thread, on which the recorder's loop runs. Other threads bring theirs.

/// Bytes that it may need: as much as other threads have.
const NEEDED: libc::rlim_t = 2 << 20;

/// Lets the stack grow to what it may need, as far as allowed, root's and with CAP_SYS_RESOURCE beyond the hard limit: the
/// kernel goes by the limit of the moment, and ends a program without a word of it. Returns the limit, bytes, if it is less.
pub fn raise() -> Option<libc::rlim_t> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: each call gets a struct that outlives it; setrlimit only reads it.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) != 0 || limit.rlim_cur >= NEEDED {
            return None;
        }
        let wanted = libc::rlimit { rlim_cur: NEEDED, rlim_max: limit.rlim_max.max(NEEDED) };
        if libc::setrlimit(libc::RLIMIT_STACK, &raw const wanted) == 0 {
            return None;
        }
        // as the hard limit is less
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_STACK, &raw const limit);
    }
    Some(limit.rlim_cur)
}
