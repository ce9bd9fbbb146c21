//! Channel Access and PVAccess clients (client.py), and a server that is not EPICS Base.

use super::child::Talk;
use super::network::beside;
use super::programs::python;
use super::Rig;
use serde_json::{json, Value};
use std::process::Command;

/// A running Channel Access client.
pub struct Client {
    /// The user that it claims.
    pub user: String,
    /// The host that it claims.
    pub host: String,
    talk: Talk,
}

impl Client {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.talk.pid()
    }

    fn ask(&mut self, command: Value) -> Value {
        self.talk.send(&command.to_string());
        let answer = self.talk.line_as_json();
        assert!(answer["error"].is_null(), "{command}: {answer}");
        answer
    }

    /// Connects the channel; returns this client's `ip:port`.
    pub fn connect(&mut self, pv: &str) -> String {
        let answer = self.ask(json!({"do": "connect", "pv": pv}));
        answer["address"].as_str().expect("an address").to_string()
    }

    /// Puts; returns the ECA status (1 is normal; without callback always 1).
    pub fn put(&mut self, pv: &str, dbr: u16, value: Value, notify: bool) -> u64 {
        let answer = self.ask(json!({"do": "put", "pv": pv, "dbr": dbr, "value": value, "notify": notify}));
        answer["status"].as_u64().expect("a status")
    }

    /// Reads.
    pub fn get(&mut self, pv: &str) -> Value {
        self.ask(json!({"do": "get", "pv": pv}))["value"].take()
    }

    /// Puts 0, 1, 2 ... without callback, and waits until all are carried out.
    pub fn flood(&mut self, pv: &str, count: u32) {
        self.ask(json!({"do": "flood", "pv": pv, "count": count}));
    }

    /// Subscribes to a PV, and from then on puts each value that comes to another one, in the monitor's callback.
    pub fn repeat(&mut self, pv: &str, to: &str) {
        self.ask(json!({"do": "repeat", "pv": pv, "to": to}));
    }

    /// Begins what [`flood`](Self::flood) does; nothing else can be asked of this client after it.
    pub fn begin_flood(&mut self, pv: &str, count: u32) {
        self.talk.send(&json!({"do": "flood", "pv": pv, "count": count}).to_string());
    }
}

impl Client {
    /// Calls a PV (RPC) with these arguments. Returns the result's value, or the error.
    pub fn rpc(&mut self, pv: &str, arguments: Value) -> Value {
        self.talk.send(&json!({"do": "rpc", "pv": pv, "arguments": arguments}).to_string());
        self.talk.line_as_json()
    }

    /// Reads or puts, and returns the answer, whatever it is.
    pub fn tries(&mut self, command: Value) -> Value {
        self.talk.send(&command.to_string());
        self.talk.line_as_json()
    }
}

impl Rig {
    /// Starts a client and waits until it takes commands.
    pub fn client(&self, library: &str, ports: &[u16], options: &[&str]) -> Client {
        self.client_by(python("client.py"), library, ports, options)
    }

    /// Starts a client in the network namespace of a process, and waits until it takes commands.
    pub fn client_beside(&self, pid: u32, library: &str, port: u16, options: &[&str]) -> Client {
        self.client_by(beside(pid, python("client.py")), library, &[port], options)
    }

    fn client_by(&self, mut command: Command, library: &str, ports: &[u16], options: &[&str]) -> Client {
        let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
        command.arg(library).arg(ports.join(",")).args(options);
        let mut talk = Talk::start(library, &mut command, &self.dir);
        let who = talk.line_as_json();
        let word = |key: &str| who[key].as_str().expect("who the client claims to be").to_string();
        Client { user: word("user"), host: word("host"), talk }
    }

    /// Starts raw_client.py, which takes commands as lines of JSON; also returns its first line.
    pub fn raw_client(&self, port: u16) -> (Talk, Value) {
        let mut command = python("raw_client.py");
        command.arg(port.to_string());
        let mut talk = Talk::start("raw_client", &mut command, &self.dir);
        let who = talk.line_as_json();
        (talk, who)
    }

    /// Starts injected.py, a client and whoever injects into its circuit; also returns its first line.
    pub fn injector(&self, port: u16, pv: &str) -> (Talk, Value) {
        let mut command = python("injected.py");
        command.arg(port.to_string()).arg(pv);
        self.injector_by(command)
    }

    /// The same over PVAccess and IPv6, with ioc.py's ports: injected6.py.
    pub fn injector_over_ipv6(&self, port: u16, pv: &str) -> (Talk, Value) {
        let mut command = python("injected6.py");
        command.args([(port + 1000).to_string(), port.to_string()]).arg(pv);
        self.injector_by(command)
    }

    fn injector_by(&self, mut command: Command) -> (Talk, Value) {
        let mut talk = Talk::start("injected", &mut command, &self.dir);
        let first = talk.line_as_json();
        (talk, first)
    }

    /// Starts streams.py, a client on circuits of odd TCP.
    pub fn odd_client(&self, port: u16, pv: &str, wave: &str) -> Talk {
        let mut command = python("streams.py");
        command.arg(port.to_string()).args([pv, wave]);
        let mut talk = Talk::start("streams", &mut command, &self.dir);
        talk.lines_until("ready");
        talk
    }

    /// Starts a PVAccess server without records, with one PV of that name.
    pub fn pva_server(&self, port: u16, search_port: u16, pv: &str) -> Talk {
        self.pva_server_on("127.0.0.1", port, search_port, pv)
    }

    /// The same on this address.
    pub fn pva_server_on(&self, address: &str, port: u16, search_port: u16, pv: &str) -> Talk {
        let mut command = python("pva_server.py");
        command.arg(port.to_string()).arg(search_port.to_string()).arg(pv).arg(address);
        command.env("EPICS_PVAS_SERVER_PORT", port.to_string());
        command.env("EPICS_PVAS_BROADCAST_PORT", search_port.to_string());
        let mut talk = Talk::start("pva_server", &mut command, &self.dir);
        talk.lines_until("ready");
        talk
    }

    /// Starts a PVAccess server without records that has values of all forms (pva_values.py).
    pub fn pva_values(&self, port: u16, search_port: u16) -> Talk {
        let mut command = python("pva_values.py");
        command.args(["serve", &port.to_string(), &search_port.to_string()]);
        command.env("EPICS_PVAS_SERVER_PORT", port.to_string());
        command.env("EPICS_PVAS_BROADCAST_PORT", search_port.to_string());
        let mut talk = Talk::start("pva_values", &mut command, &self.dir);
        talk.lines_until("ready");
        talk
    }

    /// Starts a Channel Access server that is not EPICS Base, with one PV of that name.
    pub fn foreign_server(&self, port: u16, pv: &str) -> Talk {
        let mut command = python("foreign_server.py");
        command.arg(port.to_string()).arg(pv);
        let mut talk = Talk::start("foreign_server", &mut command, &self.dir);
        talk.lines_until("ready");
        talk
    }
}
