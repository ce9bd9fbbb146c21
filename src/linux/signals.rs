//! SIGINT and SIGTERM end a recording in good order. So does SIGHUP for `watch`, whose terminal may close; a recording
//! into a log continues.

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

/// The effect of SIGHUP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HangUp {
    /// The same as SIGTERM.
    Ends,
    /// Nothing: there is no configuration to reload, though a service manager may send SIGHUP to request it.
    IsIgnored,
}

/// From now on, these signals only set a flag.
pub fn catch(hang_up: HangUp) {
    let handler = SigHandler::Handler(end);
    let of_hang_up = if hang_up == HangUp::Ends { handler } else { SigHandler::SigIgn };
    for (signal, handler) in
        [(Signal::SIGINT, handler), (Signal::SIGTERM, handler), (Signal::SIGHUP, of_hang_up)]
    {
        let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler only stores to an atomic, which is allowed in a signal handler.
        // sigaction cannot fail: the signals exist and may be caught.
        let _ = unsafe { sigaction(signal, &action) };
    }
}

/// Whether a signal or [`end_now`] has ended the recording.
pub fn ended() -> bool {
    ENDED.load(Ordering::Relaxed)
}
