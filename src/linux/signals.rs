//! SIGINT and SIGTERM end a recording in good order. So does SIGHUP for `watch`, whose terminal may close; a recording
//! into a log continues.
//!
//! A program inherits which signals are ignored and which are blocked from the one that starts it: a shell with
//! `trap '' TERM`, a supervisor, nohup. [`begin`] undoes what would keep the recorder from working.

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

/// Makes signals what this program relies on, whatever it inherited. Call this once, before anything else.
///
/// The end of a child must be told, SIGTERM must reach a child that tries whether deaths are seen, and a write beyond the
/// limit of file sizes (RLIMIT_FSIZE) must fail instead of killing the recorder without a word.
pub fn begin() {
    // none of these can fail: the signals exist and may be caught, and the mask is valid
    let _ = SigSet::empty().thread_set_mask();
    for (signal, handler) in [
        (Signal::SIGCHLD, SigHandler::SigDfl),
        (Signal::SIGTERM, SigHandler::SigDfl),
        (Signal::SIGXFSZ, SigHandler::SigIgn),
    ] {
        set(signal, handler);
    }
}

/// Sets what a signal does; returns what it did before.
fn set(signal: Signal, handler: SigHandler) -> Option<SigHandler> {
    let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
    // SAFETY: the only handler, `end`, stores to an atomic alone, which is allowed in a signal handler.
    unsafe { sigaction(signal, &action) }.ok().map(|before| before.handler())
}

/// The effect of SIGHUP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HangUp {
    /// The same as SIGTERM.
    Ends,
    /// Nothing: there is no configuration to reload, though a service manager may send SIGHUP to request it.
    IsIgnored,
}

/// From now on, these signals only set a flag. SIGHUP stays ignored if it was (nohup).
pub fn catch(hang_up: HangUp) {
    let handler = SigHandler::Handler(end);
    set(Signal::SIGINT, handler);
    set(Signal::SIGTERM, handler);
    let before = set(Signal::SIGHUP, SigHandler::SigIgn);
    if hang_up == HangUp::Ends && !matches!(before, Some(SigHandler::SigIgn)) {
        set(Signal::SIGHUP, handler);
    }
}

/// Whether a signal or [`end_now`] has ended the recording.
pub fn ended() -> bool {
    ENDED.load(Ordering::Relaxed)
}
