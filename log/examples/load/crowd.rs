//! Very many puts to very many PVs, each with all of its effects, as no scanning makes them.

use super::{carry_out, SERVER_THREAD};
use iocrec_log::event::{
    Address, CaPut, Channel, Circuit, Event, Fact, Origin, Record, ServerThread, Thread,
};

/// A crowd of clients.
#[derive(Clone, Copy)]
pub struct Crowd {
    /// Number of PVs, each with a channel of its own.
    pub pvs: u32,
    /// Number of circuits that they are spread over.
    pub circuits: u32,
    /// How often each PV is put to.
    pub rounds: u32,
    /// Nanoseconds from one put to the next.
    pub pace: u64,
}

/// 300,000 puts to 10,000 PVs within 3 s: a program that has run wild.
pub const FLOOD: Crowd = Crowd { pvs: 10_000, circuits: 20, rounds: 30, pace: 10_000 };
/// A million puts to 100,000 PVs on 2,000 circuits within 50 s: everybody restores everything.
pub const CROWD: Crowd = Crowd { pvs: 100_000, circuits: 2_000, rounds: 10, pace: 50_000 };

/// Nanoseconds between the events of a put.
const STEP: u64 = 1_500;

impl Crowd {
    /// Its records, circuits, channels and threads; call sites and field 1 are defined already.
    pub fn definitions(self) -> Vec<Fact> {
        let mut facts = Vec::new();
        for circuit in 1..=self.circuits {
            let (id, name) = (SERVER_THREAD + circuit, "CAS-client".into());
            facts.push(Fact::Thread(Thread {
                id,
                ioc: 1,
                tid: 5000 + circuit,
                name,
                stack: u64::from(id) << 20,
            }));
            facts.push(Fact::from(Circuit {
                id: circuit,
                client: Address { ip: 0x0a00_0000 + circuit / 16, port: 40_000 + (circuit % 16) as u16 },
                server: Address { ip: 0x0a00_fffe, port: 5064 },
                user: format!("operator{}", circuit % 40),
                host: format!("console{}", circuit / 16),
                minor: 13,
                origin: Origin::Opened,
            }));
            facts.push(Fact::ServerThread(ServerThread { thread: id, circuit }));
        }
        for pv in 0..self.pvs {
            let (id, name) = (pv + 1, format!("LINAC:MAG{pv:06}:CUR"));
            let address = 0x55aa_0000_0000 + u64::from(pv) * 1216;
            facts.push(Fact::from(Record { id, ioc: 1, address, name: name.clone(), rtype: "ao".into() }));
            facts.push(Fact::from(Channel {
                id,
                circuit: self.circuit(pv),
                cid: Some(id),
                sid: Some(id),
                pv: name,
                dbr: Some(super::DOUBLE),
                count: Some(1),
                origin: Origin::Opened,
            }));
        }
        facts
    }

    fn circuit(self, pv: u32) -> u32 {
        1 + pv % self.circuits
    }

    /// All puts from this time on, in order. In every other round the record goes into alarm, in the others out of it.
    pub fn puts(self, begin: u64) -> impl Iterator<Item = Event> {
        let one = move |number: u64| {
            let (round, pv) = (number / u64::from(self.pvs), (number % u64::from(self.pvs)) as u32);
            let (circuit, channel, value) = (self.circuit(pv), pv + 1, round as f64 + f64::from(pv) / 1e6);
            let payload = value.to_be_bytes().to_vec();
            let (notify, dbr, count, ioid, length) = (false, super::DOUBLE, 1, number as u32, 8);
            let mut facts =
                vec![Fact::CaPut(CaPut { circuit, channel, notify, dbr, count, ioid, length, payload })];
            carry_out(&mut facts, SERVER_THREAD + circuit, channel, notify, (value - 1.0, value));
            if let (0, Some(Fact::Complete(complete))) = (round % 2, facts.last_mut()) {
                (complete.severity, complete.status) = (2, 3);
            }
            let at = begin + number * self.pace;
            (0..).zip(facts).map(move |(step, fact)| Event { time: at + step * STEP, fact })
        };
        (0..u64::from(self.pvs) * u64::from(self.rounds)).flat_map(one)
    }
}
