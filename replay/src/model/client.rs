//! The process behind the client of a circuit, as the recorder on the client's host found it by the client's socket.
//!
//! That recorder may be another one than that which recorded the put: the logs of two hosts are joined by the circuit's
//! addresses and ports, and by time ([`peers`](super::peers)). Nothing here is a claim of the client's but the names that
//! its process has chosen.

use super::run::{field_name, Run};
use epics::pv::{link_target, Pv};
use iocrec_log::context::Context;
use iocrec_log::event::{CircuitId, FieldId, IocId, OutputLinks, RecordId, SocketHolder, ThreadNames};
use std::collections::HashMap;
use std::rc::Rc;

/// Links to one PV, and threads, that are named as those that may have made a put.
const MAX_RECORDS: usize = 16;
/// Links that are remembered, and bytes of the text of one; bounds for hostile logs.
const MAX_OUTPUTS: usize = 200_000;
const MAX_TEXT: usize = 1100;

/// A process that held the client's socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// What the recorder noted of it.
    pub of: SocketHolder,
    /// The recorded IOC that it is, by name.
    pub ioc: Option<String>,
}

/// The client of a circuit, by what one log tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Client {
    /// The client's host, whose recorder found it; empty if unknown.
    pub host: String,
    /// The processes that held its socket, the first one that had it first.
    pub holders: Vec<Holder>,
    /// Number of further ones.
    pub more: u32,
    /// Whether no other process can have held it.
    pub is_whole: bool,
    /// The recorded IOC that is the client, by its number in its run: its process alone of the recorded ones holds the
    /// socket.
    pub ioc: Option<IocId>,
    /// Its name, pid and program.
    pub named: Option<(String, u32, String)>,
    /// The names of its threads.
    pub threads: Option<Rc<ThreadNames>>,
}

impl Client {
    /// The client of a circuit by this context alone; `None` if nothing is known of its process.
    pub fn of(context: &Context, circuit: CircuitId) -> Option<Client> {
        let ioc = context.circuit_ends(circuit).and_then(|ends| context.ioc(ends.client?));
        let process = context.circuit_process(circuit);
        if ioc.is_none() && process.is_none() {
            return None;
        }
        let holder = |of: &SocketHolder| {
            let same = context.iocs().find(|ioc| (ioc.pid, ioc.start) == (of.pid, of.start));
            Holder { of: of.clone(), ioc: same.map(|ioc| ioc.name.clone()) }
        };
        Some(Client {
            host: context.host().map(|host| host.name.clone()).unwrap_or_default(),
            holders: process.iter().flat_map(|process| &process.holders).map(holder).collect(),
            more: process.map_or(0, |process| process.more),
            is_whole: process.is_some_and(|process| process.is_whole),
            ioc: ioc.map(|ioc| ioc.id),
            named: ioc.map(|ioc| (ioc.name.clone(), ioc.pid, program(ioc.exe.as_str()))),
            threads: ioc.and_then(|ioc| context.thread_names(ioc.id)).cloned().map(Rc::new),
        })
    }

    /// Whether it names a process.
    pub fn is_known(&self) -> bool {
        self.ioc.is_some() || !self.holders.is_empty()
    }

    /// The only process that can be it.
    pub fn only(&self) -> Option<&Holder> {
        match self.holders.as_slice() {
            [only] if self.more == 0 => Some(only),
            _ => None,
        }
    }

    /// Whether both name the same processes.
    pub fn is_same(&self, other: &Client) -> bool {
        let who = |of: &Client| {
            let pids: Vec<(u32, u64)> =
                of.holders.iter().map(|holder| (holder.of.pid, holder.of.start)).collect();
            (of.host.clone(), pids, of.named.as_ref().map(|(_, pid, _)| *pid))
        };
        who(self) == who(other)
    }
}

fn program(exe: &str) -> String {
    exe.rsplit('/').next().unwrap_or_default().to_owned()
}

/// How two logs' accounts of a circuit were joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// How far the clock of the client's host is ahead, nanoseconds, by the beginning of the circuit in both logs; `None`
    /// if that was not seen in both.
    pub ahead: Option<i64>,
}

/// Who is behind a circuit, if any log tells.
pub struct Behind {
    /// The client.
    pub client: Client,
    /// Set if another log tells.
    pub joined: Option<Joined>,
    /// The run that tells, if it is another one.
    pub run: Option<usize>,
}

/// Who is behind a circuit that a run recorded, at a wall-clock time.
pub fn behind(run: &Run, circuit: CircuitId, time: i64) -> Option<Behind> {
    let own = Client::of(&run.context(), circuit);
    if let Some(own) = own.as_ref().filter(|own| own.is_known()) {
        return Some(Behind { client: own.clone(), joined: None, run: None });
    }
    let other = run.peers().and_then(|(peers, number)| {
        let context = run.context();
        let circuit = context.circuit(circuit)?;
        let place = super::peers::place(&context, circuit);
        peers.find(number, (circuit.client, circuit.server, place), time)
    });
    match other {
        Some((of, joined, client)) => {
            Some(Behind { client: (*client).clone(), joined: Some(joined), run: Some(of) })
        }
        None => own.map(|client| Behind { client, joined: None, run: None }),
    }
}

/// The links that write to PVs over Channel Access, by the PV: record and field.
#[derive(Debug, Default)]
pub struct Outputs {
    by_target: HashMap<(String, String), Vec<(RecordId, FieldId)>>,
    count: usize,
}

impl Outputs {
    /// Notes the links of a record. Links noted before count as well: one may have been changed after a put.
    pub fn note(&mut self, of: &OutputLinks) {
        for link in &of.links {
            if self.count >= MAX_OUTPUTS || link.text.len() > MAX_TEXT {
                return;
            }
            let all = self.by_target.entry(target(&link.text)).or_default();
            if !all.contains(&(of.record, link.field)) && all.len() < MAX_RECORDS {
                all.push((of.record, link.field));
                self.count += 1;
            }
        }
    }

    /// What a record's links write to, and each link as `RECORD.FIELD`.
    pub fn each(context: &Context, of: &OutputLinks) -> Vec<((String, String), String)> {
        let Some(record) = context.record(of.record) else { return Vec::new() };
        let links = of.links.iter().filter(|link| link.text.len() <= MAX_TEXT).take(MAX_RECORDS);
        let named = links.map(|link| {
            let field = field_name(context, Some(link.field)).unwrap_or("?");
            (target(&link.text), format!("{}.{field}", record.name))
        });
        named.collect()
    }

    /// The links of an IOC that write to this PV, as `RECORD.FIELD`, in alphabetical order.
    pub fn of(&self, context: &Context, ioc: IocId, pv: &str) -> Vec<String> {
        let all = self.by_target.get(&target(pv)).map(Vec::as_slice).unwrap_or_default();
        let own = all.iter().filter_map(|(record, field)| {
            let record = context.record(*record).filter(|record| record.ioc == ioc)?;
            Some(format!("{}.{}", record.name, field_name(context, Some(*field)).unwrap_or("?")))
        });
        let mut own: Vec<String> = own.collect();
        own.sort_unstable();
        own.dedup();
        own
    }
}

/// Record and field that a link or a PV names.
fn target(text: &str) -> (String, String) {
    let pv = Pv::new(link_target(text));
    (pv.record.to_owned(), pv.field.to_owned())
}

/// The part of an IOC that made a put, as far as known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Its links that write to the PV, as `RECORD.FIELD`.
    pub links: Vec<String>,
    /// The threads that asked libca to put just before.
    pub threads: Vec<String>,
    /// The sequencer program whose thread it is, if the sequencer's code asked.
    pub sequencer: Option<String>,
    /// If none are known: its threads that are not EPICS Base's own.
    pub programs: Vec<String>,
}

/// Which part of a client that is an IOC made a put to this PV, on the client's channel of this number, seen at a wall-clock
/// time.
pub fn part(run: &Run, behind: &Behind, cid: Option<u32>, pv: &str, time: i64) -> Option<Part> {
    let ioc = behind.client.ioc?;
    let links = match (behind.run, run.peers()) {
        (Some(other), Some((peers, _))) => peers.writers(other, ioc, &target(pv)),
        (Some(_), None) => Vec::new(),
        (None, _) => run.writers(ioc, pv),
    };
    let asked = run.peers().and_then(|(peers, own)| {
        let by_its_clock = time.saturating_add(behind.joined.and_then(|joined| joined.ahead).unwrap_or(0));
        peers.threads(behind.run.unwrap_or(own), ioc, by_its_clock, (cid, pv))
    });
    let (mut threads, by_sequencer, may_be_others) =
        asked.map_or_else(Default::default, |found| (found.names, found.by_sequencer, found.may_be_others));
    let mut programs: Vec<String> = match (&behind.client.threads, threads.is_empty()) {
        (Some(names), true) => {
            names.names.iter().filter(|name| !is_of_base(name)).take(MAX_RECORDS).cloned().collect()
        }
        _ => Vec::new(),
    };
    if may_be_others {
        programs.append(&mut threads);
    }
    let sequencer = match threads.as_slice() {
        [thread] if by_sequencer => Some(program_of(thread, behind.client.threads.as_deref())),
        _ => None,
    };
    Some(Part { links, threads, sequencer, programs })
}

/// The sequencer program of one of its threads: the first state set's thread has the program's name, the others `_1`, `_2`
/// behind it.
fn program_of(thread: &str, all: Option<&ThreadNames>) -> String {
    let base = thread.rsplit_once('_').filter(|(base, number)| {
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number && all.is_some_and(|all| all.names.iter().any(|name| name == base))
    });
    base.map_or(thread, |(base, _)| base).to_owned()
}

/// Whether EPICS Base gives this name to threads of its own that put nothing as a client, or to those of its libraries.
fn is_of_base(name: &str) -> bool {
    const NAMES: [&str; 20] = [
        "_main_",
        "errlog",
        "taskwd",
        "timerQueue",
        "scanOnce",
        "dbCaLink",
        "asCaTask",
        "ipToAsciiProxy",
        "poolPoll",
        "cbLow",
        "cbMedium",
        "cbHigh",
        "ClockTimeSync",
        "NTPTimeSync",
        "TCP-rx",
        "TCP-tx",
        "UDP-rx",
        "PVXTCP",
        "PVXUDP",
        "PVXCTCP",
    ];
    const BEGINNINGS: [&str; 9] = ["CAC-", "CAS-", "CAC_", "cb", "scan-", "scan", "PVX", "dbEvent", "TCP-"];
    NAMES.contains(&name) || BEGINNINGS.iter().any(|begin| name.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::{Fact, OutputLink, Record};

    #[test]
    fn links_by_the_pv_that_they_write_to() {
        let mut context = Context::default();
        let mut outputs = Outputs::default();
        for (id, ioc, name) in [(1, 1, "A:ONE"), (2, 1, "A:TWO"), (3, 2, "B:ONE")] {
            let rtype = "ao".to_owned();
            context.apply(0, &Fact::from(Record { id, ioc, address: 0, name: name.into(), rtype }));
            let link = |text: &str| OutputLink { field: 9, text: text.into() };
            let links = vec![link("T:SP CA NMS"), link("T:SP.DESC CA NMS")];
            outputs.note(&OutputLinks { record: id, links: links.clone() });
            outputs.note(&OutputLinks { record: id, links });
        }
        assert_eq!(outputs.of(&context, 1, "T:SP.VAL"), ["A:ONE.?", "A:TWO.?"], "VAL is the same");
        assert_eq!(outputs.of(&context, 2, "T:SP.DESC"), ["B:ONE.?"]);
        assert_eq!(outputs.of(&context, 2, "T:SP.EGU"), Vec::<String>::new());
    }

    #[test]
    fn programs_of_state_sets() {
        let names = ["ramp", "ramp_1", "late_2"].map(str::to_owned).to_vec();
        let all = ThreadNames { ioc: 1, names, is_whole: true };
        let of = |thread| program_of(thread, Some(&all));
        assert_eq!(["ramp", "ramp_1", "ramp_x", "late_2"].map(of), ["ramp", "ramp", "ramp_x", "late_2"]);
        assert_eq!(program_of("ramp_1", None), "ramp_1");
    }

    #[test]
    fn threads_of_base() {
        for name in ["CAC-TCP-recv", "cbHigh-1", "scan-0.1", "CAS-client", "dbCaLink"] {
            assert!(is_of_base(name), "{name}");
        }
        for name in ["sncRamp", "python3", "RF1", ""] {
            assert!(!is_of_base(name), "{name}");
        }
    }
}
