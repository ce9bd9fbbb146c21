//! SIGINT, SIGTERM and SIGHUP end a recording in good order.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{sigaction, SaFlags, SigAction, SigHandler, SigSet, Signal};

static ENDED: AtomicBool = AtomicBool::new(false);

extern "C" fn end(_: libc::c_int) {
    ENDED.store(true, Ordering::Relaxed);
}

/// Ends the recording as a signal would.
pub fn end_now() {
    ENDED.store(true, Ordering::Relaxed);
}

/// From now on these signals are only noted.
pub fn catch() {
    let action = SigAction::new(SigHandler::Handler(end), SaFlags::empty(), SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: the handler only stores into an atomic, which a signal handler may.
        // It cannot fail: the signals exist and may be caught.
        let _ = unsafe { sigaction(signal, &action) };
    }
}

/// Has one of them come?
pub fn ended() -> bool {
    ENDED.load(Ordering::Relaxed)
}
