//! TCP connections of IOCs that are no circuits: those with devices. When they end, by whom, and when the IOC was connected
//! again; and what any connection of an IOC, circuits included, had to send again.
//!
//! The recorder looks once a second, so each moment lies between two looks.

use super::{push, Kind, NetLine, Reading, Who};
use crate::words::age::age;
use crate::words::counted;
use iocrec_log::event::{Address, Fact, IocId, TcpConnection, TcpEnd, TcpState};
use std::collections::{HashMap, HashSet};

/// Connections that are open at the same time; a bound for hostile logs.
const MAX_OPEN: usize = 100_000;

/// A connection that came about, ended, or failed.
struct Noted {
    /// The IOC, the other end, and the socket.
    key: (IocId, TcpEnd, u32),
    local: TcpEnd,
    line: NetLine,
}

/// See the module.
#[derive(Default)]
pub struct Devices {
    /// Ends of circuits: as the client sees them.
    circuits: HashSet<(TcpEnd, TcpEnd)>,
    noted: Vec<Noted>,
    /// The last line of each end that was lost, until the IOC is connected again.
    lost: HashMap<(IocId, TcpEnd), usize>,
    /// The line of what each socket sent again.
    again: HashMap<(IocId, u32), usize>,
    left_out: u64,
}

fn end(address: Address) -> TcpEnd {
    TcpEnd { ip: address.ip.to_be_bytes().to_vec(), port: address.port }
}

/// A length of time of which the least and the most are known, nanoseconds; no most: it is unknown.
fn between(least: u64, most: Option<u64>) -> String {
    let text = |length: u64| age(i64::try_from(length).unwrap_or(i64::MAX));
    match most.map(text) {
        Some(most) if most == text(least) => most,
        Some(most) => format!("{} to {most}", text(least)),
        None => format!("at least {}", text(least)),
    }
}

impl Devices {
    pub(super) fn take(&mut self, reading: &Reading, time: u64, fact: &Fact) {
        match fact {
            Fact::Circuit(circuit) if self.circuits.len() < MAX_OPEN => {
                self.circuits.insert((end(circuit.client), end(circuit.server)));
            }
            Fact::TcpConnection(connection) => self.connection(reading, time, connection),
            Fact::IocEnd(ended) => {
                // it can't connect again
                let noted = &mut self.noted;
                self.lost.retain(|(ioc, _), at| {
                    let is_its = *ioc == ended.ioc;
                    if let Some(noted) = noted.get_mut(*at).filter(|_| is_its) {
                        noted.line.going_on = None;
                    }
                    !is_its
                });
            }
            _ => {}
        }
    }

    fn line(reading: &Reading, kind: Kind, time: u64, connection: &TcpConnection) -> NetLine {
        let ioc = reading.context.ioc(connection.ioc).map_or(String::new(), |ioc| ioc.name.clone());
        NetLine {
            client: Who { address: connection.local.to_string(), ..Who::default() },
            servers: vec![connection.remote.to_string()],
            ioc,
            ..NetLine::new(kind, reading.host, reading.wall(time))
        }
    }

    fn connection(&mut self, reading: &Reading, time: u64, connection: &TcpConnection) {
        self.sent_again(reading, time, connection);
        let key = (connection.ioc, connection.remote.clone(), connection.socket);
        let place = (connection.ioc, connection.remote.clone());
        if !connection.is_over() {
            // one that is only asked for may fail
            if connection.state == TcpState::Opening || self.is_known(&key) {
                return;
            }
            if let Some(lost) = self.lost.remove(&place).and_then(|at| self.noted.get_mut(at)) {
                lost.line.going_on = Some(false);
                lost.line.last = Some(reading.wall(connection.opened));
            }
            let mut line = Self::line(reading, Kind::DeviceConnected, connection.opened, connection);
            // the first look shows what was there before
            line.at_least = connection.opened_after == 0;
            self.note(key, connection, line);
            return;
        }
        let kind = match connection.opened {
            0 => Kind::DeviceUnreachable,
            _ => Kind::DeviceDisconnected,
        };
        let mut line = Self::line(reading, kind, time, connection);
        (line.reason, line.by) = match connection.state {
            TcpState::PeerClosed => ("closed", "device"),
            TcpState::Closed => ("closed", "ioc"),
            TcpState::Aborted => ("broken_off", ""),
            _ => ("unknown", ""),
        };
        if connection.opened > 0 {
            let least = connection.after.saturating_sub(connection.opened);
            let most = Some(connection.opened_after).filter(|after| *after > 0);
            let most = most.map(|after| time.saturating_sub(after));
            line.duration = i64::try_from(least).ok();
            line.text = format!("it was connected for {}", between(least, most));
        }
        line.going_on = Some(true);
        if connection.unsent > 0 && connection.retransmitted > 0 {
            let what =
                format!("{} not acknowledged at the last look", counted(connection.unsent.into(), "byte"));
            line.text += if line.text.is_empty() { "" } else { "; " };
            line.text += &what;
        }
        if self.lost.len() < MAX_OPEN {
            self.lost.insert(place, self.noted.len());
        }
        self.note(key, connection, line);
    }

    fn is_known(&self, key: &(IocId, TcpEnd, u32)) -> bool {
        // a socket's number is not used again soon
        let of = |noted: &Noted| noted.key == *key && noted.line.kind != Kind::Retransmissions;
        self.noted.iter().rev().take(1000).any(of)
    }

    fn note(&mut self, key: (IocId, TcpEnd, u32), connection: &TcpConnection, line: NetLine) {
        let local = connection.local.clone();
        push(&mut self.noted, Noted { key, local, line }, &mut self.left_out);
    }

    fn sent_again(&mut self, reading: &Reading, time: u64, connection: &TcpConnection) {
        if connection.retransmitted == 0 {
            return;
        }
        let place = (connection.ioc, connection.socket);
        let known = self.again.get(&place).and_then(|at| self.noted.get_mut(*at));
        let known = known.filter(|noted| noted.key.1 == connection.remote);
        if let Some(known) = known {
            if u64::from(connection.retransmitted) > known.line.count {
                known.line.count = connection.retransmitted.into();
                known.line.last = Some(reading.wall(time));
            }
            return;
        }
        let mut line = Self::line(reading, Kind::Retransmissions, time, connection);
        line.count = connection.retransmitted.into();
        line.last = Some(line.since);
        if self.again.len() < MAX_OPEN {
            self.again.insert(place, self.noted.len());
        }
        self.note((connection.ioc, connection.remote.clone(), connection.socket), connection, line);
    }

    /// The lines of a run that has been read.
    pub(super) fn lines(self) -> (Vec<NetLine>, u64) {
        let is_circuit = |noted: &Noted| {
            let (local, remote) = (&noted.local, &noted.key.1);
            let has =
                |client: &TcpEnd, server: &TcpEnd| self.circuits.contains(&(client.clone(), server.clone()));
            // the IOC may serve at a port that is not known as its own
            matches!(remote.port, 5064 | 5075) || has(local, remote) || has(remote, local)
        };
        let wanted = |noted: &Noted| noted.line.kind == Kind::Retransmissions || !is_circuit(noted);
        let lines: Vec<NetLine> =
            self.noted.iter().filter(|noted| wanted(noted)).map(|noted| noted.line.clone()).collect();
        (lines, self.left_out)
    }
}
