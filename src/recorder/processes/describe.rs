//! Descriptions of a traced process, for the log and for people.

use iocrec_log::event::{Container, Ioc, IocId, Linkage};

use crate::inspector::ProcessInfo;
use crate::ioc::{redact, script, IocProcess};
use crate::recorder::env::Env;

/// Describes a newly traced process by /proc.
pub(super) fn describe(env: &mut Env<'_>, pid: u32, start: u64, about: &ProcessInfo) -> Ioc {
    let ProcessInfo { command, exe, cwd, user, container: _ } = about.clone();
    let id: IocId = env.run.ids.ioc();
    Ioc {
        id,
        pid,
        start,
        name: script::name_of_server(&command, &exe),
        cwd,
        exe,
        command: if env.options.no_command_lines { Vec::new() } else { redact::command(&command) },
        base_version: String::new(),
        ca_ports: Vec::new(),
        linkage: Linkage::Foreign,
        not_probed: Vec::new(),
        user,
        pva_ports: Vec::new(),
        environment: Vec::new(),
    }
}

/// The container that a traced process runs in.
pub(super) fn container(ioc: IocId, about: &ProcessInfo) -> Option<Container> {
    about.container.clone().map(|container| Container { ioc, ..container })
}

/// Adds the IOC's description of itself.
pub(super) fn identify(process: &IocProcess, about: &mut Ioc) {
    // an IOC that was read while it ended has none
    if !process.name.is_empty() {
        about.name.clone_from(&process.name);
    }
    about.base_version.clone_from(&process.base_version);
    about.environment.clone_from(&process.environment);
}

/// The line about a newly recorded process.
pub fn recording(ioc: &Ioc) -> String {
    let what = match (ioc.linkage, ioc.base_version.as_str()) {
        (Linkage::Foreign, _) => "a server that was not found to be EPICS Base".to_string(),
        (_, "") => "EPICS Base".to_string(),
        (_, version) => format!("EPICS Base {version}"),
    };
    if ioc.name.is_empty() {
        // it ended, or may not be read, as it was described
        return format!("recording process {} ({what})", ioc.pid);
    }
    format!("recording {} (pid {}, {what})", ioc.name, ioc.pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::testing::{Bench, PID};

    #[test]
    fn a_server_without_a_name() {
        let mut bench = Bench::new();
        let about = ProcessInfo {
            command: Vec::new(),
            exe: String::new(),
            cwd: String::new(),
            user: String::new(),
            container: None,
        };
        let mut cx = bench.context();
        let mut ioc = describe(&mut cx.env, PID, 1, &about);
        let what = "a server that was not found to be EPICS Base";
        assert_eq!(recording(&ioc), format!("recording process {PID} ({what})"));
        ioc.name = "plc".to_string();
        assert_eq!(recording(&ioc), format!("recording plc (pid {PID}, {what})"));
    }
}
