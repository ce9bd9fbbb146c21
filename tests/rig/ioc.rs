//! IOCs: softIocs of EPICS Base by Python (ioc.py), and any command that reports its state by lines.

use super::child::Talk;
use super::network::beside;
use super::programs::{environment, epics_programs, python, rig_file};
use super::Rig;
use std::process::Command;

/// A running IOC.
pub struct Ioc {
    talk: Talk,
}

impl Ioc {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.talk.pid()
    }

    /// Its process id, as an argument.
    pub fn pid_argument(&self) -> String {
        self.talk.pid().to_string()
    }

    /// Runs an iocsh command; returns the lines that it printed.
    pub fn command(&mut self, line: &str) -> Vec<String> {
        self.talk.send(line);
        self.talk.lines_until("done")
    }

    /// Sends a line, and waits for nothing.
    pub fn tell(&mut self, line: &str) {
        self.talk.send(line);
    }

    /// Waits for its end; its wait status.
    pub fn wait(&mut self) -> std::process::ExitStatus {
        self.talk.wait()
    }

    /// Sends a line and waits for a word.
    pub fn command_until(&mut self, line: &str, word: &str) {
        self.talk.send(line);
        self.talk.lines_until(word);
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.talk.signal(libc::SIGKILL);
        self.talk.wait();
    }

    /// Ends it as a service manager would.
    pub fn stop(&mut self) {
        self.talk.signal(libc::SIGTERM);
        self.talk.wait();
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        self.talk.signal(signal);
    }

    /// Its stderr so far.
    pub fn errors(&self) -> String {
        self.talk.errors()
    }

    /// Is it still running?
    pub fn runs(&mut self) -> bool {
        self.talk.runs()
    }
}

impl Rig {
    /// Starts an IOC with a database of tests/rig and waits until it serves.
    /// Its CA links look for their targets on `find` as well.
    pub fn ioc(&self, name: &str, port: u16, database: &str, find: &[u16]) -> Ioc {
        let ports: Vec<String> = find.iter().map(u16::to_string).collect();
        let ports = ports.join(",");
        let find: &[&str] = if find.is_empty() { &[] } else { &["--find", &ports] };
        self.ioc_with(name, port, database, find)
    }

    /// Starts an IOC as [`Rig::ioc`] does, with more of ioc.py's options.
    pub fn ioc_with(&self, name: &str, port: u16, database: &str, options: &[&str]) -> Ioc {
        let mut command = python("ioc.py");
        command.arg(name).arg(port.to_string()).arg(rig_file(database)).args(options);
        self.serving(name, command)
    }

    /// Starts the IOC of python_ioc.py, which softioc runs; its commands are `RECORD VALUE`.
    pub fn python_ioc(&self, name: &str, port: u16) -> Ioc {
        let mut command = python("python_ioc.py");
        command.arg(name).arg(port.to_string());
        self.serving(name, command)
    }

    fn serving(&self, name: &str, mut command: Command) -> Ioc {
        let mut ioc = Ioc { talk: Talk::start(name, &mut command, &self.dir) };
        ioc.talk.lines_until("ready");
        ioc
    }

    /// Starts an IOC by a command that prints `ready` and `done` as ioc.py does, and waits until it serves.
    pub fn ioc_by(&self, name: &str, command: &mut Command) -> Ioc {
        self.ioc_at(name, command, "ready")
    }

    /// Starts an IOC by a command and waits until it prints a word.
    pub fn ioc_at(&self, name: &str, command: &mut Command, word: &str) -> Ioc {
        let mut ioc = Ioc { talk: Talk::start(name, command, &self.dir) };
        ioc.talk.lines_until(word);
        ioc
    }

    /// Starts the softIoc of EPICS Base with a database of tests/rig, which takes a moment; `None` on machines for which no package
    /// has it. Its shell reads stdin, and says nothing when it is done.
    pub fn soft_ioc(&self, name: &str, port: u16, database: &str) -> Option<Ioc> {
        let programs = epics_programs()?;
        // the package has no record definitions; the records of this version have the same fields
        let definitions = environment().join("epics/7.0.7.99.1.2/epicscorelibs/dbd");
        let mut command = Command::new("sh");
        command.args(["-c", "echo ready; exec \"$@\"", "sh"]).arg(programs.join("softIoc"));
        command.arg("-D").arg(definitions.join("base.dbd")).arg("-d").arg(rig_file(database));
        command.env("EPICS_DB_INCLUDE_PATH", definitions).env("IOC", name);
        command.env("EPICS_CAS_SERVER_PORT", port.to_string());
        for variable in ["EPICS_CAS_INTF_ADDR_LIST", "EPICS_CAS_BEACON_ADDR_LIST", "EPICS_CA_ADDR_LIST"] {
            command.env(variable, "127.0.0.1");
        }
        command.env("EPICS_CAS_AUTO_BEACON_ADDR_LIST", "NO").env("EPICS_CA_AUTO_ADDR_LIST", "NO");
        Some(self.ioc_by(name, &mut command))
    }

    /// Starts an IOC in a network namespace of its own, which has nothing but loopback, and waits until it serves.
    pub fn ioc_apart(&self, name: &str, port: u16, database: &str, options: &[&str]) -> Ioc {
        let mut command = python("private_net.py");
        let script = python("ioc.py");
        command.arg(script.get_program()).args(script.get_args());
        command.arg(name).arg(port.to_string()).arg(rig_file(database)).args(options);
        self.serving(name, command)
    }

    /// Starts an IOC in the network namespace of a process, and waits until it serves.
    pub fn ioc_beside(&self, pid: u32, name: &str, port: u16, database: &str, options: &[&str]) -> Ioc {
        let mut command = beside(pid, python("ioc.py"));
        command.arg(name).arg(port.to_string()).arg(rig_file(database)).args(options);
        self.serving(name, command)
    }
}
