//! Callers: the cause of a hit, as the name of a function or thread reveals it.
//!
//! The names are those of EPICS Base 3.14 to 7.0. Many of the functions are static, so a stripped IOC does not have
//! their names; then only the threads' names and the stack remain.

use super::chain::Trigger;
use super::numbered::Numbered;
use super::run::Run;
use iocrec_log::context::Context;
use iocrec_log::event::{CallSiteId, Linkage, ThreadId};

/// Callers and threads that are remembered; a bound for hostile logs.
const MAX_KNOWN: usize = 100_000;

/// The function that called a probed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Works through a scan list: periodic in a scan thread, of an event or I/O Intr in a callback thread.
    ScanList,
    /// Begins processing on its own: nothing above it on the stack is a cause.
    Root(Trigger),
    /// Requests that a scan list be processed.
    Asks(Trigger),
    /// Follows a link of a record that is being processed.
    Link,
    /// `dbChannelPut`: a put from outside that bypasses `dbPutField` (PVA, and CA with
    /// callback).
    ChannelPut,
    /// The CA server, or the CA client's shortcut to a record of the same IOC.
    Server,
    /// `dbpf`, `dbtpf` or `tpn` in the IOC shell; the last one has a thread of its own.
    Shell,
    /// Python: one of its extension modules, or ctypes.
    Python,
    /// Unknown or inconclusive.
    Unknown,
}

/// A function's name as in its source. Compilers add to the names of parts and copies of functions, and LTO to those of local
/// ones: `dbtpf.part.0`, `notify.lto_priv.0`, `process.4979`. No name in C or C++ has a dot.
fn in_source(function: &str) -> &str {
    function.split_once('.').map_or(function, |(name, _)| name)
}

/// Classifies the caller at `site`.
pub fn caller(context: &Context, site: CallSiteId) -> Caller {
    let Some(site) = context.call_site(site) else { return Caller::Unknown };
    match in_source(&site.function) {
        "scanList" => Caller::ScanList,
        "periodicTask" => Caller::Root(Trigger::Scan),
        "eventCallback" => Caller::Root(Trigger::Event),
        // 3.14 calls it ioeventCallback
        "ioscanCallback" | "ioeventCallback" => Caller::Root(Trigger::IoInterrupt),
        "ProcessCallback" | "myCallbackFunc" => Caller::Root(Trigger::Callback),
        "onceTask" => Caller::Root(Trigger::Once),
        "doRecordPini" | "piniProcess" | "piniProcessHook" => Caller::Root(Trigger::Pini),
        // and its command in iocsh, of which LTO makes it a part
        "dbtr" | "dbtrCallFunc" => Caller::Root(Trigger::Shell),
        "postEvent" | "post_event" => Caller::Asks(Trigger::Event),
        "scanIoRequest" | "scanIoImmediate" => Caller::Asks(Trigger::IoInterrupt),
        "dbScanPassive" | "processTarget" | "dbDbScanFwdLink" | "dbScanFwdLink" | "dbScanLink"
        | "dbDbPutValue" | "dbDbGetValue" | "dbPutLink" | "dbPutLinkValue" | "dbGetLink"
        | "dbGetLinkValue" => Caller::Link,
        "dbChannelPut" => Caller::ChannelPut,
        "dbChannel_put"
        | "dbChannelPutField"
        | "db_put_field"
        | "write_action"
        | "write_notify_action"
        | "ca_array_put"
        | "ca_array_put_callback" => Caller::Server,
        "dbpf" | "dbpfCallFunc" | "dbtpf" | "dbtpfCallFunc" | "tpnThread" => Caller::Shell,
        _ => by_module(&site.module),
    }
}

/// Whether a caller is `dbPutField`, by which a client's put without callback comes to `dbPut`.
pub fn is_put_field(context: &Context, site: CallSiteId) -> bool {
    context.call_site(site).is_some_and(|site| in_source(&site.function) == "dbPutField")
}

/// Whether a caller that is [`Caller::Unknown`] can't be the CA server: its function is known, or it is in another
/// library than the server (libdbCore, in 3.14 librsrvIoc).
pub fn is_other(context: &Context, site: CallSiteId) -> bool {
    context.call_site(site).is_some_and(|site| {
        let of_server = ["libdbCore.", "librsrvIoc."].iter().any(|library| site.module.starts_with(library));
        !site.function.is_empty() || site.module.starts_with("lib") && !of_server
    })
}

/// Whether a caller may be any function of EPICS Base's database: its library is known, but not its name. So it is where the
/// library's symbols could not be read in time.
pub fn may_be_any_of_database(context: &Context, site: CallSiteId) -> bool {
    context.call_site(site).is_some_and(|site| {
        let of_database = ["libdbCore.", "libdbIoc."].iter().any(|library| site.module.starts_with(library));
        site.function.is_empty() && of_database
    })
}

/// Whether a caller that is [`Caller::Unknown`] is no function of EPICS Base's database, which follows the links of records:
/// code of the IOC. Where Base is linked statically, its name tells.
pub fn is_outside_database(context: &Context, site: CallSiteId) -> bool {
    let Some(site) = context.call_site(site).filter(|site| !site.module.is_empty()) else { return false };
    let of_database = ["libdbCore.", "libdbIoc."].iter().any(|library| site.module.starts_with(library));
    let is_shared = context.ioc(site.ioc).is_some_and(|ioc| ioc.linkage == Linkage::Shared);
    // LTO may make the functions that follow a link a part of the one that they are called from
    let is_named = !site.function.is_empty() && in_source(&site.function) != "recGblFwdLink";
    !of_database && (is_shared || is_named)
}

/// The caller by its library: if `dbChannelPut` ends in a jump to `dbPut`, the caller is that of `dbChannelPut`.
fn by_module(module: &str) -> Caller {
    let is = |library: &str| module.starts_with(library);
    if is("libqsrv.") || is("libpvxsIoc.") {
        Caller::ChannelPut
    } else if is("libffi") || is("_ctypes.") || module.contains(".cpython-") {
        Caller::Python
    } else {
        Caller::Unknown
    }
}

/// Whether a put that libca was asked for was asked for by the sequencer: its functions since 2.2 (pv.c), and before it
/// (pvCa.cc, C++).
pub fn is_sequencer(context: &Context, site: CallSiteId) -> bool {
    let function = context.call_site(site).map_or("", |site| in_source(&site.function));
    matches!(function, "pvVarPutNoBlock" | "pvVarPutCallback") || function.starts_with("_ZN10caVariable3put")
}

/// Callers and roles that are known, so that names are compared once and not at every hit.
#[derive(Default)]
pub struct Known {
    /// [`Run::meanings`] when they were found.
    meanings: u64,
    callers: Numbered<CallSiteId, Caller>,
    roles: Numbered<ThreadId, Role>,
}

impl Known {
    /// The caller at `site`, and the role of `thread`.
    pub fn ask(&mut self, run: &Run, thread: ThreadId, site: CallSiteId) -> (Caller, Role) {
        let full = self.callers.len() >= MAX_KNOWN || self.roles.len() >= MAX_KNOWN;
        if self.meanings != run.meanings() || full {
            self.meanings = run.meanings();
            self.callers.clear();
            self.roles.clear();
        }
        let caller = *self.callers.entry(site).or_insert_with(|| caller(&run.context(), site));
        let role = *self.roles.entry(thread).or_insert_with(|| role(&run.context(), thread));
        (caller, role)
    }
}

/// The name of the thread that carries out puts through CA links.
pub const CA_LINKS: &str = "dbCaLink";

/// Purpose of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Serves one CA client.
    CaServer,
    /// Serves PVA clients.
    PvaServer,
    /// Carries out puts through CA links.
    CaLink,
    /// Processes periodically scanned records.
    Scan,
    /// Processes the records passed to `scanOnce`.
    ScanOnce,
    /// Carries out callbacks: events, I/O Intr, asynchronous completion.
    Callback,
    /// The IOC's first thread, which runs its shell.
    Main,
    /// Python code that hosts the IOC.
    Python,
    /// Unknown.
    Other,
}

/// A thread of RSRV, which serves one client.
const CA_SERVER: &str = "CAS-client";
/// pvxs has one thread for all clients, QSRV1 one per connection.
const PVA_SERVERS: [&str; 2] = ["PVXTCP", "TCP-rx"];

/// Whether a thread of this name carries out what clients ask for.
pub fn serves_clients(thread: &str) -> bool {
    thread == CA_SERVER || PVA_SERVERS.contains(&thread)
}

/// The purpose of `thread`.
pub fn role(context: &Context, thread: ThreadId) -> Role {
    let Some(thread) = context.thread(thread) else { return Role::Other };
    match thread.name.as_str() {
        CA_SERVER => Role::CaServer,
        name if PVA_SERVERS.contains(&name) => Role::PvaServer,
        CA_LINKS => Role::CaLink,
        "scanOnce" => Role::ScanOnce,
        "cbLow" | "cbMedium" | "cbHigh" => Role::Callback,
        "_main_" => Role::Main,
        name if scan_seconds(name).is_some() => Role::Scan,
        // If there are several callback threads per priority, they are numbered: cbLow-0.
        name if ["cbLow-", "cbMedium-", "cbHigh-"].iter().any(|cb| name.starts_with(cb)) => Role::Callback,
        name if name.starts_with("python") => Role::Python,
        _ if context.ioc(thread.ioc).is_some_and(|ioc| ioc.pid == thread.tid) => Role::Main,
        _ => Role::Other,
    }
}

/// The period of a scan thread's records, as in SCAN: `.1 second`, `10 second`. Base 3.14 has no dash in the thread's
/// name.
pub fn scan_period(thread_name: &str) -> Option<String> {
    Some(format!("{} second", scan_seconds(thread_name)?))
}

/// The number in that period: `.1`, `10`.
pub fn scan_seconds(thread_name: &str) -> Option<&str> {
    let seconds = thread_name.strip_prefix("scan")?;
    let seconds = seconds.strip_prefix('-').unwrap_or(seconds);
    // not scanOnce
    seconds.starts_with(|first: char| first.is_ascii_digit()).then_some(())?;
    // EPICS formats the period with %g in the thread's name, and without a leading zero in the menu.
    Some(seconds.strip_prefix('0').filter(|rest| rest.starts_with('.')).unwrap_or(seconds))
}

/// The period of a scan list by its name, a choice of SCAN: `.1 second`, `2 minute`, `10 Hz`; seconds.
pub fn seconds_of(list: &str) -> Option<f64> {
    let (number, unit) = list.trim().split_once(' ')?;
    let number: f64 = number.parse().ok().filter(|number| *number > 0.0)?;
    match unit.trim().to_ascii_lowercase().trim_end_matches('s') {
        "second" => Some(number),
        "minute" => Some(60.0 * number),
        "hour" => Some(3600.0 * number),
        "hz" | "hertz" => Some(1.0 / number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scan_threads_are_named_for_their_period() {
        assert_eq!(scan_period("scan-0.1").as_deref(), Some(".1 second"));
        assert_eq!(scan_period("scan-10").as_deref(), Some("10 second"));
        assert_eq!(scan_period("scan0.5").as_deref(), Some(".5 second"), "3.14");
        assert_eq!(scan_period("scanOnce"), None);
        assert_eq!(scan_period("cbLow"), None);
    }

    #[test]
    fn periods() {
        assert_eq!(seconds_of(".1 second"), Some(0.1));
        assert_eq!(seconds_of("2 minutes"), Some(120.0));
        assert_eq!(seconds_of("10 Hz"), Some(0.1));
        for other in ["", "I/O Intr", "0 second", "-1 second", "fast", "1 blink"] {
            assert_eq!(seconds_of(other), None, "{other}");
        }
    }
}
