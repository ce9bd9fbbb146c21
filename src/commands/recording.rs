//! Code that `record` and `watch` share: privileges, the recorder's run, its end.

use iocrec_log::event::Tier;

use crate::bpf;
use crate::failure::{Failure, UsageError};
use crate::linux::ending::Ends;
use crate::linux::privileges;
use crate::probes::deferred_close;
use crate::probes::tiers::TierRequest;
use crate::recorder::holding::Holding;
use crate::recorder::sink::Sink;
use crate::recorder::{Options, Recorder};
use crate::terminal::complain;

/// Drops all privileges: what is read is a file that is open already. Call this before a second thread starts.
/// `foreign_log` is that of [`limit_privileges`].
pub fn drop_privileges(foreign_log: bool) {
    if let Err(error) = privileges::drop_all(foreign_log.then_some(privileges::DAC_OVERRIDE)) {
        complain(&format!("capabilities that are not needed could not be dropped: {error}"));
    }
}

/// Drops the privileges that recording does not need. Call this before a second thread starts. `foreign_log`: the log's
/// directory may belong to another user, so its permissions must not count. Returns what tells how processes end, which
/// needs one of them.
pub fn limit_privileges(foreign_log: bool) -> Ends {
    let ends = Ends::open();
    // the last call that needs CAP_SYS_RESOURCE
    raise_limits();
    if let Err(error) = privileges::limit(foreign_log.then_some(privileges::DAC_OVERRIDE)) {
        complain(&format!("capabilities that are not needed could not be dropped: {error}"));
    }
    ends
}

/// Raises the limits that probes may reach, and says so if descriptors are too few even so.
pub fn raise_limits() {
    if let Some(files) = bpf::raise_limits() {
        complain(&format!(
            "{files} files may be open (RLIMIT_NOFILE), too few to find and probe IOCs: allow 65536 (ulimit -n, LimitNOFILE)"
        ));
    }
}

/// Records until the end. Returns the recorder, whose events must be stored before it is [dropped](end).
pub fn record(options: Options, ends: Ends, sink: &mut dyn Sink) -> Result<Recorder, Failure> {
    match (options.puts, options.process, options.tier) {
        (false, false, _) if !options.console => return Err(UsageError::NothingToRecord.into()),
        (false, _, TierRequest::Only(Tier::Packet)) => return Err(UsageError::NoPutsInPacketTier.into()),
        _ => {}
    }
    let sink = &mut Holding::new(sink);
    let (mut recorder, lines) = Recorder::new(options, ends, sink)?;
    lines.iter().for_each(|line| complain(line));
    recorder.run(sink, &mut complain);
    Ok(recorder)
}

/// Ends a recorder whose events are all stored. Removing its probes takes seconds, so children do it if possible.
pub fn end(recorder: Recorder) {
    if deferred_close::leave_to_children() {
        // removing the probes here, too, would mean waiting for it
        std::mem::forget(recorder);
    }
}
