//! Every segment can be read alone: whatever was deleted, the others define all numbers that they use.

mod common;

use common::disk::Disk;
use common::{noise_mark, read_segment, SECOND};
use iocrec_log::context::Context;
use iocrec_log::event::*;
use iocrec_log::writer::{Options, Writer, MIN_DISK};
use proptest::collection::vec;
use proptest::prelude::*;

/// What happens at the IOCs. Numbers choose among what is there.
#[derive(Clone, Debug)]
enum Step {
    IocStarts,
    IocEnds(usize),
    CircuitOpens,
    CircuitCloses(usize),
    ChannelOpens(usize),
    ChannelCloses(usize),
    /// The user of a circuit becomes known: it is defined again.
    UserSeen(usize),
    /// A record processes, and is defined just before, as the recorder does when it sees one first.
    NewRecord(usize),
    Process(usize, i64),
    CaPut(usize, i64),
    Bulk(usize),
    Tick,
}

fn step() -> impl Strategy<Value = Step> {
    let jitter = -50_000..50_000i64;
    prop_oneof![
        1 => Just(Step::IocStarts),
        1 => any::<usize>().prop_map(Step::IocEnds),
        2 => Just(Step::CircuitOpens),
        1 => any::<usize>().prop_map(Step::CircuitCloses),
        4 => any::<usize>().prop_map(Step::ChannelOpens),
        2 => any::<usize>().prop_map(Step::ChannelCloses),
        1 => any::<usize>().prop_map(Step::UserSeen),
        4 => any::<usize>().prop_map(Step::NewRecord),
        10 => (any::<usize>(), jitter.clone()).prop_map(|(which, jitter)| Step::Process(which, jitter)),
        10 => (any::<usize>(), jitter).prop_map(|(which, jitter)| Step::CaPut(which, jitter)),
        10 => (100..4000usize).prop_map(Step::Bulk),
        5 => Just(Step::Tick),
    ]
}

/// A recorder that pushes definitions before their use and ends after it.
struct Recorder {
    writer: Writer<Disk>,
    now: u64,
    seed: u64,
    next: u32,
    iocs: Vec<u32>,
    /// Record and its IOC; thread of the same number.
    records: Vec<(u32, u32)>,
    circuits: Vec<u32>,
    channels: Vec<(u32, u32)>,
}

impl Recorder {
    fn push(&mut self, fact: Fact) {
        self.writer.push(Event { time: self.now, fact });
    }

    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn step(&mut self, step: Step) {
        self.now += 20_000;
        match step {
            Step::IocStarts => {
                let id = self.number();
                self.iocs.push(id);
                self.push(Fact::from(Ioc {
                    id,
                    pid: id,
                    start: 0,
                    name: format!("ioc{id}"),
                    exe: String::new(),
                    cwd: String::new(),
                    command: vec![],
                    base_version: String::new(),
                    ca_ports: vec![],
                    linkage: Linkage::Shared,
                    not_probed: vec![],
                    user: String::new(),
                    pva_ports: Vec::new(),
                    environment: Vec::new(),
                }));
            }
            Step::IocEnds(which) if !self.iocs.is_empty() => {
                let ioc = self.iocs.swap_remove(which % self.iocs.len());
                self.records.retain(|record| record.1 != ioc);
                self.push(Fact::IocEnd(IocEnd { ioc, how: String::new() }));
            }
            Step::NewRecord(which) if !self.iocs.is_empty() => {
                let ioc = self.iocs[which % self.iocs.len()];
                let id = self.number();
                self.records.push((id, ioc));
                let name = format!("thread{id}");
                self.push(Fact::Thread(Thread { id, ioc, tid: id, name, stack: 0 }));
                let (name, rtype) = (format!("record{id}"), format!("type{}", id % 3));
                self.push(Fact::from(Record { id, ioc, address: id.into(), name, rtype }));
                let (function, module) = (format!("site{id}"), String::new());
                self.push(Fact::from(CallSite { id, ioc, address: 0, function, module }));
            }
            Step::CircuitOpens => {
                let id = self.number();
                self.circuits.push(id);
                self.circuit(id, "");
            }
            Step::UserSeen(which) if !self.circuits.is_empty() => {
                self.circuit(self.circuits[which % self.circuits.len()], "operator");
            }
            Step::CircuitCloses(which) if !self.circuits.is_empty() => {
                let circuit = self.circuits.swap_remove(which % self.circuits.len());
                self.channels.retain(|channel| channel.1 != circuit);
                self.push(Fact::CircuitEnd(circuit));
            }
            Step::ChannelOpens(which) if !self.circuits.is_empty() => {
                let circuit = self.circuits[which % self.circuits.len()];
                let id = self.number();
                self.channels.push((id, circuit));
                let (cid, sid, dbr, count, pv) = (Some(id), None, None, None, format!("pv{id}"));
                let origin = Origin::Opened;
                self.push(Fact::from(Channel { id, circuit, cid, sid, pv, dbr, count, origin }));
            }
            Step::ChannelCloses(which) if !self.channels.is_empty() => {
                let (channel, _) = self.channels.swap_remove(which % self.channels.len());
                self.push(Fact::ChannelEnd(channel));
            }
            Step::Process(which, jitter) if !self.records.is_empty() => {
                let (id, ioc) = self.records[which % self.records.len()];
                let fact = Fact::Process(Process {
                    thread: id,
                    sp: ioc.into(),
                    site: id,
                    record: id,
                    active: false,
                });
                self.writer.push(Event { time: self.now.wrapping_add_signed(jitter), fact });
            }
            Step::CaPut(which, jitter) if !self.channels.is_empty() => {
                let (channel, circuit) = self.channels[which % self.channels.len()];
                let (notify, dbr, count, ioid, length, payload) = (false, 6, 1, 0, 0, vec![]);
                let fact = Fact::CaPut(CaPut { circuit, channel, notify, dbr, count, ioid, length, payload });
                self.writer.push(Event { time: self.now.wrapping_add_signed(jitter), fact });
            }
            Step::Bulk(size) => {
                let mark = noise_mark(self.now, size, &mut self.seed);
                self.writer.push(mark);
            }
            Step::Tick => {
                self.now += SECOND;
                self.writer.tick(self.now);
            }
            _ => {}
        }
    }

    fn circuit(&mut self, id: u32, user: &str) {
        let (client, server) = (Address { ip: id, port: 1 }, Address { ip: 1, port: 5064 });
        let (user, host, minor, origin) = (user.to_owned(), String::new(), 13, Origin::Opened);
        self.push(Fact::from(Circuit { id, client, server, user, host, minor, origin }));
    }
}

/// Reads a segment alone and checks that all that its hits refer to is defined, and as what it was.
fn check_segment(bytes: &[u8]) -> usize {
    let mut context = Context::default();
    let mut hits = 0;
    for block in read_segment(bytes).unwrap() {
        for event in block.unwrap().events {
            context.apply(event.time, &event.fact);
            match &event.fact {
                Fact::Process(process) => {
                    let id = process.record;
                    let record = context.record(id).unwrap_or_else(|| panic!("record {id}"));
                    assert_eq!((record.name, record.address), (&*format!("record{id}"), u64::from(id)));
                    assert_eq!(
                        (record.rtype, i64::from(record.ioc)),
                        (&*format!("type{}", id % 3), process.sp)
                    );
                    assert_eq!(context.thread(id).unwrap().name, format!("thread{id}"));
                    assert_eq!(context.call_site(id).unwrap().function, format!("site{id}"));
                    assert_eq!(context.ioc(record.ioc).unwrap().name, format!("ioc{}", record.ioc));
                    hits += 1;
                }
                Fact::CaPut(put) => {
                    let channel =
                        context.channel(put.channel).unwrap_or_else(|| panic!("channel {}", put.channel));
                    assert_eq!((&channel.pv, channel.circuit), (&format!("pv{}", put.channel), put.circuit));
                    assert_eq!(context.circuit(put.circuit).unwrap().client.ip, put.circuit);
                    hits += 1;
                }
                _ => {}
            }
        }
    }
    hits
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn segments_stand_alone(steps in vec(step(), 200..1200), max_disk in MIN_DISK..3 * MIN_DISK) {
        let disk = Disk::default();
        let options = Options { max_disk, level: 1, ..Options::default() };
        let writer = Writer::open(disk.clone(), options, 1).unwrap();
        let mut recorder = Recorder {
            writer, now: SECOND, seed: 3, next: 0, iocs: vec![], records: vec![], circuits: vec![], channels: vec![],
        };
        for step in steps {
            recorder.step(step);
        }
        recorder.writer.close(recorder.now);
        prop_assert_eq!(recorder.writer.status().lost, 0);
        let segments = disk.segments();
        prop_assert!(!segments.is_empty());
        let hits: usize = segments.iter().map(|(_, bytes)| check_segment(bytes)).sum();
        prop_assert!(hits > 0 || recorder.next < 50);
    }
}
