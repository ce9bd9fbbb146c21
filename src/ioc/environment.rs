//! The live environment of an IOC, which holds the IOC's name and version.
//!
//! It is read from the process's memory, since `epicsEnvSet` in a start-up script does not change /proc/PID/environ.

use std::collections::HashMap;

use crate::ioc::module::{addresses, variable, Module};
use crate::ioc::{redact, script};
use crate::linux::memory::Memory;
use crate::linux::process;
use crate::linux::text::printable;

/// More variables than any environment has.
const MAX_VARIABLES: u64 = 4096;
/// Longest variable, bytes; longer ones are left out, and none of them matters.
const MAX_LENGTH: usize = 1024;

/// Times that the list is read if the process changes it meanwhile.
const ATTEMPTS: usize = 3;
/// Names of the variable that points to the list.
const LISTS: [&str; 2] = ["environ", "__environ"];

/// Variables by name.
#[derive(Debug, Default)]
pub struct Environment(HashMap<String, String>);

impl Environment {
    /// Reads the live environment, or /proc/PID/environ if no module has one. Empty if it can't be read now.
    pub fn read(memory: &Memory, modules: &[Module], pid: u32) -> Environment {
        if LISTS.iter().all(|name| addresses(modules, name).next().is_none()) {
            let bytes = process::contents(format!("/proc/{pid}/environ")).unwrap_or_default();
            let short = bytes.split(|&byte| byte == 0).filter(|variable| variable.len() <= MAX_LENGTH);
            return Environment::of(short.take(MAX_VARIABLES as usize).map(printable));
        }
        let place = || LISTS.iter().find_map(|name| variable(memory, modules, name));
        for _ in 0..ATTEMPTS {
            let Some(list) = place() else { break };
            let entry = |index: u64| {
                let pointer = memory.pointer(list.wrapping_add(index * memory.width().bytes() as u64));
                pointer.filter(|&pointer| pointer != 0)
            };
            let strings = (0..MAX_VARIABLES).map_while(entry);
            let found = Environment::of(strings.filter_map(|pointer| memory.string(pointer, MAX_LENGTH)));
            // setenv moves the list as it grows: then anything may have been read at the old place
            if place() == Some(list) {
                return found;
            }
        }
        Environment::default()
    }

    fn of(variables: impl Iterator<Item = String>) -> Environment {
        let pair = |variable: String| {
            let (name, value) = variable.split_once('=')?;
            Some((name.to_string(), value.to_string()))
        };
        Environment(variables.filter_map(pair).collect())
    }

    /// Whether nothing could be read. This happens while a process is ending, or changes it: a process that was started
    /// without variables gets some from EPICS Base.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the IOC's name: the variable that st.cmd sets by convention, else the directory of st.cmd, which by
    /// convention is named after the IOC, else the name of the program or script.
    pub fn ioc_name(&self, command: &[String]) -> String {
        let last = |path: &str| path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_string();
        if let Some(name) = ["IOC", "IOCNAME", "IOC_NAME"].iter().find_map(|name| self.get(name)) {
            return name.to_string();
        }
        if let Some((directory, _)) = self.get("IOCSH_STARTUP_SCRIPT").and_then(|path| path.rsplit_once('/'))
        {
            if !last(directory).is_empty() {
                return last(directory);
            }
        }
        script::name(command)
    }

    /// Returns the version of EPICS Base, which 3.15 and later put in the environment.
    pub fn base_version(&self) -> Option<String> {
        self.get("EPICS_VERSION_FULL").map(str::to_string)
    }

    /// Returns the variables that [may be logged](redact::is_logged), sorted by name: those that configure Channel
    /// Access and PV Access.
    pub fn logged(&self) -> Vec<(String, String)> {
        let mut logged: Vec<(String, String)> = self
            .0
            .iter()
            .filter(|(name, value)| redact::is_logged(name) && !value.is_empty())
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        logged.sort_unstable();
        logged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(variables: &[(&str, &str)], command: &[&str]) -> String {
        let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let command: Vec<String> = command.iter().map(ToString::to_string).collect();
        Environment(variables.collect()).ioc_name(&command)
    }

    #[test]
    fn variables_that_may_be_logged() {
        let set = [
            ("TOP", "/ioc"),
            ("EPICS_CA_SITE_PASSWORD", "x"),
            ("EPICS_PVAS_TLS_KEYCHAIN", "/ioc/keys.p12;x"),
            ("EPICS_CAS_SERVER_PORT", "5070"),
            ("EPICS_CA_ADDR_LIST", ""),
        ];
        let variables = set.map(|(name, value)| (name.to_string(), value.to_string()));
        let logged = Environment(variables.into_iter().collect()).logged();
        let names: Vec<&str> = logged.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["EPICS_CAS_SERVER_PORT"]);
    }

    #[test]
    fn an_iocs_name() {
        assert_eq!(name(&[("IOC", "iocVac1")], &["bin/vac"]), "iocVac1");
        let script = ("IOCSH_STARTUP_SCRIPT", "/ioc/boot/iocLlrf/st.cmd");
        assert_eq!(name(&[script], &["../../bin/llrf"]), "iocLlrf");
        assert_eq!(name(&[("IOCSH_STARTUP_SCRIPT", "st.cmd")], &["/opt/softIoc", "st.cmd"]), "softIoc");
        assert_eq!(name(&[], &["/usr/bin/python3", "-u", "-m", "epicscorelibs.ioc"]), "epicscorelibs.ioc");
        assert_eq!(name(&[], &["python", "/srv/my_ioc.py", "-m"]), "my_ioc.py");
        assert_eq!(name(&[], &["python3", "-c", "import ioc; ioc.run('/a/b')"]), "python3");
        assert_eq!(name(&[], &[]), "");
    }
}
