//! Segments of every released version stay readable. What to do when this fails: golden/README.md.

mod common;

use common::disk::{Disk, Faults};
use common::{read_segment, SECOND};
use iocrec_log::event::*;
use iocrec_log::format::{FACTS, VERSION};
use iocrec_log::reader::Segment;
use iocrec_log::writer::{Options, Writer};
use std::fmt::Write;
use std::io::Cursor;
use std::path::{Path, PathBuf};

/// Segments of every version and encoding that was ever released.
const GOLDEN: [&str; 25] = [
    "v1",
    "v1-columns",
    "v1-scans",
    "v1-thinning",
    "v1-routine",
    "v1-pins",
    "v1-ended",
    "v1-attached",
    "v1-snapshots",
    "v1-contents",
    "v1-pvaccess",
    "v1-traffic",
    "v1-forgotten",
    "v1-processes",
    "v1-outputs",
    "v1-pva-searches",
    "v1-stalls",
    "v1-ip6",
    "v1-deaths",
    "v1-resources",
    "v1-stuck",
    "v1-connections",
    "v1-files",
    "v1-queues",
    "v1-containers",
];

fn path(name: &str, ending: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.{ending}"))
}

fn print(bytes: &[u8]) -> String {
    let mut out = String::new();
    let segment = Segment::read(Cursor::new(bytes), Path::new("golden")).unwrap();
    writeln!(out, "{:#?}", segment.header()).unwrap();
    for block in read_segment(bytes).unwrap() {
        let block = block.unwrap();
        writeln!(out, "block {} at {}, keyframe {}", block.sequence, block.offset, block.keyframe).unwrap();
        for event in block.events {
            writeln!(out, "{} {:?}", event.time, event.fact).unwrap();
        }
    }
    out
}

#[test]
fn golden_segments_are_read() {
    assert!(GOLDEN.iter().any(|name| name.starts_with(&format!("v{VERSION}"))));
    for name in GOLDEN {
        let bytes = std::fs::read(path(name, "iocrec")).unwrap();
        let expected = std::fs::read_to_string(path(name, "txt")).unwrap();
        let found = print(&bytes);
        for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
            assert_eq!(found, expected, "line {} of {name}.txt; see golden/README.md", number + 1);
        }
        assert_eq!(found.len(), expected.len());
    }
}

/// Definitions, as at the beginning of a run.
fn definitions() -> Vec<Fact> {
    let (client, server) =
        (Address { ip: 0x0A00_0105, port: 43210 }, Address { ip: 0x0A00_0102, port: 5064 });
    vec![
        Fact::from(Host {
            name: "ioc-box".into(),
            kernel: "6.1.0-18-amd64".into(),
            arch: "x86_64".into(),
            boot_id: "0b8c2a3e-6f52-4d8e-9b35-0f3c1d0a7e11".into(),
            recorder: "0.1.0".into(),
            utc_offset: -3600,
        }),
        Fact::Clock(Clock { wall: 1_770_000_000_123_456_789 }),
        Fact::Tier(TierChoice {
            tier: Tier::Perf,
            refused: vec![(Tier::Ring, "kernel 4.19 has no ring buffer".into())],
        }),
        Fact::from(Ioc {
            id: 1,
            pid: 4242,
            start: 88_120_000_000,
            name: "LINAC".into(),
            exe: "/opt/ioc/bin/softIoc".into(),
            cwd: "/opt/ioc".into(),
            command: vec!["softIoc".into(), "st.cmd".into()],
            base_version: "7.0.10".into(),
            ca_ports: vec![5064, 40001],
            linkage: Linkage::Static,
            not_probed: vec!["postEvent: would be single-stepped".into()],
            user: "ioc".into(),
            pva_ports: vec![5075],
            environment: vec![("TOP".into(), "/opt/ioc".into())],
        }),
        Fact::ChainSampling(ChainSampling { chains: 1, window: SECOND, cause: "--thin 1".into() }),
        Fact::Thread(Thread { id: 2, ioc: 1, tid: 4250, name: "CAS-client".into(), stack: 0x7FFC_0000_1000 }),
        Fact::from(Record {
            id: 3,
            ioc: 1,
            address: 0x55AA_0000_04C0,
            name: "LINAC:M1".into(),
            rtype: "ao".into(),
        }),
        Fact::Alias(Alias { record: 3, name: "LINAC:MAGNET1".into() }),
        Fact::EnumStrings(EnumStrings { record: 3, states: vec!["Off".into(), "On".into()] }),
        Fact::Menu(Menu {
            id: 8,
            ioc: 1,
            name: "menuScan".into(),
            choices: vec!["Passive".into(), "Event".into()],
        }),
        Fact::ScanList(ScanList {
            id: 9,
            ioc: 1,
            kind: ScanKind::IoInterrupt,
            name: String::new(),
            callback: 0x55AA_0000_0800,
        }),
        Fact::RecordScan(RecordScan { record: 3, list: Some(9) }),
        Fact::from(Field {
            id: 4,
            ioc: 1,
            rtype: "ao".into(),
            name: "SCAN".into(),
            dbf: Dbf::Menu,
            menu: Some(8),
        }),
        Fact::from(CallSite {
            id: 5,
            ioc: 1,
            address: 0x7F00_4567_89AB,
            function: "write_notify_action".into(),
            module: "libdbCore.so.3.23".into(),
        }),
        Fact::from(Circuit {
            id: 6,
            client,
            server,
            user: "operator".into(),
            host: "console1".into(),
            minor: 13,
            origin: Origin::MidStream,
        }),
        Fact::from(Channel {
            id: 7,
            circuit: 6,
            cid: Some(1),
            sid: Some(70_000),
            pv: "LINAC:M1".into(),
            dbr: Some(6),
            count: Some(1),
            origin: Origin::Memory,
        }),
        Fact::ServerThread(ServerThread { thread: 2, circuit: 6 }),
        Fact::Attached(Attached { ioc: 1, from: 88_120_000_000, since: 88_500_000_000, cause: "new".into() }),
        Fact::CircuitEnds(CircuitEnds {
            circuit: 6,
            namespace: 4_026_531_840,
            server: Some(1),
            client: None,
        }),
        Fact::from(PvaCircuit {
            circuit: 6,
            version: 2,
            method: "ca".into(),
            client_ip: vec![0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            server_ip: Vec::new(),
        }),
        Fact::PvaType(PvaType { id: 8, description: b"\x80\x00\x01\x05value\x43".to_vec() }),
    ]
}

fn hits() -> Vec<Fact> {
    let (thread, site, record) = (2, 5, 3);
    let array = Array { dbf: Dbf::Short, count: 100_000, bytes: vec![1, 0, 0xFE, 0xFF] };
    vec![
        Fact::CaPut(CaPut {
            circuit: 6,
            channel: 7,
            notify: true,
            dbr: 6,
            count: 1,
            ioid: 99,
            length: 8,
            payload: 12.5_f64.to_be_bytes().to_vec(),
        }),
        Fact::from(Put {
            thread,
            sp: -480,
            site,
            kind: PutKind::Notify,
            record,
            field: Some(4),
            dbf: Dbf::Double,
            count: 1,
            requested: Value::Double(12.5),
            old: Value::Float(-0.5),
        }),
        Fact::from(Put {
            thread,
            sp: i64::MIN,
            site: 0,
            kind: PutKind::Put,
            record,
            field: None,
            dbf: Dbf::NoAccess,
            count: u32::MAX,
            requested: Value::Array(array),
            old: Value::Text(b"on\xFF".to_vec()),
        }),
        Fact::Process(Process { thread, sp: -640, site, record, active: true }),
        Fact::RsetProcess(Process { thread: 4, sp: -560, site: 5, record, active: true }),
        Fact::Complete(Complete {
            thread,
            sp: 64,
            site,
            record,
            value: Value::Int(-1),
            severity: 3,
            status: 17,
        }),
        Fact::Cause(Cause {
            thread,
            sp: -1,
            site,
            kind: CauseKind::PostEvent,
            object: u64::MAX,
            record: Some(3),
        }),
        Fact::from(CaLinkPut {
            thread,
            sp: -2,
            site,
            record: None,
            pv: "OTHER:PV.DESC NPP".into(),
            dbf: Dbf::Enum,
            count: 1,
            value: Value::UInt(u64::MAX),
        }),
        Fact::CaAnswer(CaAnswer { circuit: 6, ioid: 99, notify: true, status: 1, text: "größer".into() }),
        Fact::Complete(Complete {
            thread,
            sp: 0,
            site,
            record,
            value: Value::Unknown,
            severity: 0,
            status: 0,
        }),
        Fact::PactCheck(PactCheck { record, active: false, disabled: true }),
        Fact::Loss(Loss { source: LossSource::Hits, count: 12, since: 5, cause: "ring buffer full".into() }),
        Fact::ChainsLeftOut(ChainsLeftOut { record, count: 90, since: 20 * SECOND }),
        Fact::Mark("beam lost".into()),
        Fact::Pinned(Pinned { from: 5, to: 70_000_000_000, cause: "beam lost".into() }),
        Fact::Unpinned(Unpinned { segments: 3 }),
        Fact::SegmentEnd(SegmentEnd { segment: 41, blocks: 977, last: 19 * SECOND }),
        Fact::FieldValue(FieldValue { record, field: 2, value: Value::Double(-0.5) }),
        Fact::Snapshot(Snapshot {
            record,
            value: Value::Double(12.5),
            severity: 2,
            status: 3,
            stamp: Some(1_770_000_000_123_456_789),
        }),
        Fact::Snapshot(Snapshot { record: 4, value: Value::Unknown, severity: 3, status: 17, stamp: None }),
        Fact::Properties(Box::new(Properties {
            record,
            description: "current of magnet 1".into(),
            units: "A".into(),
            precision: Some(-2),
            display: Some(Limits { low: -10.0, high: 120.5 }),
            control: None,
            lolo: None,
            low: Some(AlarmLimit { limit: f64::NEG_INFINITY, severity: 1 }),
            high: Some(AlarmLimit { limit: 100.0, severity: 1 }),
            hihi: Some(AlarmLimit { limit: 110.0, severity: 2 }),
        })),
        Fact::SnapshotEnd(SnapshotEnd {
            ioc: 1,
            since: 19 * SECOND,
            taken: 2,
            unread: 3,
            left: 70_000,
            properties_left: 80_000,
        }),
        Fact::PvaPut(Box::new(PvaPut {
            circuit: 6,
            channel: 7,
            ioid: 0x1000_2000,
            kind: PvaKind::Put,
            options: PvaValue::default(),
            value: PvaValue {
                types: vec![8, 0],
                big_endian: true,
                length: 10,
                bytes: [&[1, 2], &3.5_f64.to_be_bytes()[..]].concat(),
            },
        })),
        Fact::PvaAnswer(Box::new(PvaAnswer {
            circuit: 6,
            ioid: 0x1000_2000,
            kind: PvaKind::Get,
            status: 2,
            text: "Put not permitted".into(),
            value: PvaValue::default(),
        })),
        Fact::PvaMonitor(PvaMonitor { circuit: 6, channel: 7, ioid: 9, starts: true }),
        Fact::PvaMessage(PvaMessage {
            circuit: 6,
            channel: None,
            command: 18,
            level: 1,
            text: "größer".into(),
        }),
        Fact::from(Searches {
            namespace: 4_026_531_840,
            client: at([10, 0, 0, 7], 39_001),
            tcp: false,
            name: "LINAC:MISSING".into(),
            count: 12,
            since: 15 * SECOND,
            last: 18 * SECOND,
            not_found: 0,
            answers: vec![(at([10, 0, 0, 3], 5064), 1), (at([10, 0, 0, 4], 41_234), 2)],
        }),
        Fact::from(SearchLoad {
            namespace: 4_026_531_840,
            since: 18 * SECOND,
            datagrams: 900,
            names: 27_000,
            left_out: 22_904,
            cut: 880,
            unread: 3,
            one_in: 16,
            most: vec![(at([10, 0, 0, 7], 39_001), 26_990)],
        }),
        Fact::Beacons(Beacons {
            namespace: 0,
            server: at([10, 0, 0, 3], 5064),
            noted: BeaconsNoted::OutOfStep,
            count: 1,
            since: 18 * SECOND,
            seen: 18 * SECOND,
            last: 0,
            expected: 120,
            gap: 7 * SECOND,
            version: 13,
        }),
        Fact::from(Sender {
            namespace: 0,
            client: at([10, 0, 0, 7], 39_001),
            pid: 812,
            program: "/usr/bin/python3 archive.py".into(),
            user: "ops".into(),
            ioc: None,
        }),
        Fact::Registrations(Registrations {
            namespace: 0,
            repeater: at([127, 0, 0, 1], 5065),
            requests: 3,
            confirmed: 2,
            since: 18 * SECOND,
        }),
        Fact::CircuitPriority(CircuitPriority { circuit: 6, priority: 20 }),
        Fact::CircuitProcess(CircuitProcess {
            circuit: 6,
            holders: vec![SocketHolder {
                pid: 912,
                start: 77 * SECOND,
                program: "archive.py".into(),
                command: vec!["python3".into(), "archive.py".into(), "--token=***".into()],
                is_cut: true,
                user: "ops".into(),
            }],
            more: 1,
            is_whole: false,
        }),
        Fact::ThreadNames(ThreadNames {
            ioc: 1,
            names: vec!["CAS-TCP".into(), "sncRamp".into()],
            is_whole: true,
        }),
        Fact::from(Container {
            ioc: 1,
            runtime: ContainerRuntime::Containerd,
            id: "4f3c".repeat(16),
            pod: "8d2f6f0e-5a3b-4c11-9e57-0b1d2c3e4f50".into(),
            is_kubernetes: true,
            host_name: "bl01t-ea-test-01-0".into(),
        }),
        Fact::from(QueueFill {
            ioc: 1,
            queue: Queue::Low,
            since: 10 * SECOND,
            last: 11 * SECOND,
            is_over: false,
            size: 2000,
            used: 2000,
            most: 2000,
            overflows: 12,
            thread: "cbLow".into(),
            record: Some(4),
        }),
        Fact::OutputLinks(OutputLinks {
            record: 3,
            links: vec![OutputLink { field: 4, text: "OTHER:SP.VAL CA NMS".into() }],
        }),
        Fact::CaClientPut(CaClientPut { thread: 2, sp: -96, site: 5, channel: 0x55AA_0001_0040 }),
        Fact::from(ClientChannel {
            id: 1,
            ioc: 1,
            address: 0x55AA_0001_0040,
            cid: 3,
            pv: "OTHER:SP.VAL".into(),
        }),
        Fact::ClientStalled(ClientStalled {
            circuit: 6,
            since: 9 * SECOND,
            until: 11 * SECOND,
            is_over: false,
        }),
        Fact::from(ErrlogCall {
            thread: 2,
            sp: -160,
            site: 5,
            severity: Some(2),
            format: "%s: no answer in %d s".into(),
        }),
        Fact::from(ConsoleLine {
            thread: 2,
            sp: -200,
            output: Output::Error,
            text: "sevr=major X: no answer in 3 s".into(),
            cut: 7,
            is_ended: true,
        }),
        Fact::ConsoleLeftOut(ConsoleLeftOut { ioc: 1, lines: 80, writes: 12, since: 9 * SECOND }),
        Fact::from(GivingUp {
            thread: 2,
            sp: -300,
            site: 5,
            how: GaveUp::EpicsAssert,
            file: "../devMotor.c".into(),
            line: 31,
            expression: "axis != NULL".into(),
        }),
        Fact::AccessRights(AccessRights { channel: 7, circuit: 6, rights: 1 }),
        Fact::from(CircuitTraffic {
            circuit: 6,
            since: 2 * SECOND,
            from_client: 4000,
            from_server: 5_000_000_000,
            messages: vec![(Message::Subscribe, 2), (Message::Update, 70), (Message::Other, 1)],
            not_looked_at: 4_999_990_000,
        }),
        Fact::ChannelTraffic(ChannelTraffic {
            channel: 7,
            since: 2 * SECOND,
            gets: 1,
            subscriptions: 2,
            updates: 70,
            bytes: 2800,
            complete: false,
        }),
        Fact::EventsOff(EventsOff {
            circuit: 6,
            since: 17 * SECOND,
            times: 3,
            off: SECOND / 2,
            is_off: true,
        }),
        Fact::EchoLate(EchoLate { circuit: 6, since: 12 * SECOND, is_answered: false }),
        Fact::CaError(CaError {
            circuit: 6,
            channel: Some(7),
            command: 1,
            status: 48,
            count: 2,
            since: 18 * SECOND,
            text: "no".into(),
        }),
        Fact::ChannelClosed(ChannelClosed { channel: 7, reason: ChannelReason::Disconnected }),
        Fact::CircuitClosed(CircuitClosed {
            circuit: 6,
            reason: CloseReason::Reset,
            by: Some(CircuitSide::Client),
        }),
        Fact::Detached(Detached { ioc: 1, since: 19 * SECOND, cause: "its main thread ended".into() }),
        Fact::ChannelForgotten(8),
        Fact::Ip6(Ip6 { ip: 2, bytes: [&[0xfd, 0x12][..], &[0; 13], &[7]].concat() }),
        Fact::from(PvaSearches {
            searches: Searches {
                namespace: 0,
                client: at([10, 0, 0, 7], 40_312),
                tcp: false,
                name: "LINAC:IMAGE".into(),
                count: 3,
                since: 19 * SECOND,
                last: 20 * SECOND,
                not_found: 0,
                answers: vec![(at([10, 0, 0, 3], 5075), 1)],
            },
            guids: vec![(1..13).collect()],
        }),
        Fact::PvaSearchLoad(Box::new(SearchLoad {
            namespace: 0,
            since: 18 * SECOND,
            datagrams: 4,
            names: 3,
            left_out: 0,
            cut: 0,
            unread: 0,
            one_in: 1,
            most: Vec::new(),
        })),
        Fact::from(PvaBeacons {
            beacons: Beacons {
                namespace: 0,
                server: at([10, 0, 0, 3], 5075),
                noted: BeaconsNoted::Restarted,
                count: 1,
                since: 19 * SECOND,
                seen: 19 * SECOND,
                last: 0,
                expected: 0,
                gap: 9 * SECOND,
                version: 2,
            },
            guid: (1..13).collect(),
            before: (2..14).collect(),
        }),
        Fact::from(SignalSent {
            ioc: 1,
            signal: 10,
            code: 0,
            from: SignalFrom::Process,
            pid: 4711,
            uid: 1000,
            user: "op".into(),
            program: "bash".into(),
            command: vec!["bash".into(), "-l".into()],
            left_out: 3,
        }),
        Fact::from(WatchedThread { id: 1, ioc: 1, name: "scan-0.1".into() }),
        Fact::from(Resources {
            ioc: 1,
            period: 60_000_123,
            cpu: Some(180_000),
            waiting: Some(4_000),
            minor_faults: 12,
            major_faults: 1,
            resident: Some(20_480),
            threads: 21,
            descriptors: Some(17),
            udp_drops: Some(2744),
            most: vec![ThreadUse { thread: 1, cpu: 150_000, waiting: 3_000, times: 600 }],
        }),
        Fact::from(Resources {
            ioc: 1,
            period: 1_000_000,
            cpu: None,
            waiting: None,
            minor_faults: 0,
            major_faults: 0,
            resident: None,
            threads: 0,
            descriptors: None,
            udp_drops: None,
            most: vec![],
        }),
        Fact::from(Stuck {
            id: 1,
            ioc: 1,
            tid: 4251,
            thread: "scan-0.1".into(),
            after: 9 * SECOND,
            since: 10 * SECOND,
            wait: Wait::Mutex,
            object: String::new(),
            call: Some(202),
            record: Some(3),
            is_lockset: true,
            holder: Some(Holder { tid: 4250, thread: "cbLow".into(), record: Some(4), is_certain: true }),
        }),
        Fact::StuckEnd(StuckEnd { id: 1, ioc: 1, after: 12 * SECOND, has_ended: false }),
        Fact::from(Stuck {
            id: 2,
            ioc: 1,
            tid: 4252,
            thread: "CAS-client".into(),
            after: 0,
            since: 11 * SECOND,
            wait: Wait::Poll,
            object: "10.0.0.7:4001".into(),
            call: Some(7),
            record: None,
            is_lockset: false,
            holder: None,
        }),
        Fact::ScanOverruns(ScanOverruns { ioc: 1, list: 1, more: 2, total: 31, since: 11 * SECOND }),
        Fact::from(TcpConnection {
            ioc: 1,
            socket: 81_234,
            local: TcpEnd { ip: vec![10, 0, 0, 5], port: 40_112 },
            remote: TcpEnd { ip: vec![10, 0, 0, 7], port: 4001 },
            state: TcpState::PeerClosed,
            circuit: None,
            after: 11 * SECOND,
            opened: 3 * SECOND,
            opened_after: 2 * SECOND,
            retransmitted: 3,
            unsent: 17,
        }),
        Fact::from(SlowClient {
            ioc: 1,
            client: TcpEnd { ip: vec![10, 0, 1, 5], port: 43_210 },
            server: TcpEnd { ip: vec![10, 0, 1, 2], port: 5064 },
            circuit: Some(1),
            since: 9 * SECOND,
            is_over: false,
            unsent: 2_800_000,
            window_closed: true,
            updates: Some(vec![
                Updates { pv: "H:SCAN".into(), pending: 107, replaced: Some(113) },
                Updates { pv: "H:WF".into(), pending: 1, replaced: None },
            ]),
            is_whole: true,
        }),
        Fact::from(IoFile {
            id: 1,
            ioc: 1,
            how: FileHow::Opened,
            since: 12 * SECOND,
            descriptor: Some(9),
            flags: 0o1101,
            mode: 0o644,
            name: b"/ioc/auto.savB".to_vec(),
            is_cut: false,
            is_unplaced: false,
        }),
        Fact::IoUse(IoUse {
            file: 1,
            words: vec![Word { number: 32, value: 3 }, Word { number: 34, value: 4200 }],
        }),
        Fact::from(IoFile {
            id: 2,
            ioc: 1,
            how: FileHow::Found,
            since: 12 * SECOND,
            descriptor: None,
            flags: 0,
            mode: 0,
            name: vec![2, 0, 0x13, 0x88, 127, 0, 0, 1],
            is_cut: true,
            is_unplaced: true,
        }),
        Fact::IoFileEnd(IoFileEnd { id: 1, closed: 13 * SECOND }),
        Fact::from(Crash {
            ioc: 1,
            tid: 4700,
            thread: "cbLow".into(),
            signal: 11,
            code: 1,
            address: Some(0x1230),
            handled: false,
            ip: 0x55AA_0000_1001,
            sp: 0x7F00_0000_8000,
            site: 5,
            offset: 17,
            record: Some(3),
            from: 0,
            bytes: 2048,
            frames: vec![Frame { at: 8, site: 5, offset: 33 }],
            records: vec![StackRecord { at: 56, record: 3 }],
        }),
        Fact::ChannelEnd(7),
        Fact::CircuitForgotten(5),
        Fact::CircuitEnd(6),
        Fact::IocEnd(IocEnd { ioc: 1, how: "exit status 1".into() }),
    ]
}

fn at(ip: [u8; 4], port: u16) -> Address {
    Address::new(ip.into(), port)
}

/// What an IOC does again and again: two threads, each with a chain of records, now and then at the same
/// time, and a client that puts.
fn rhythm() -> Vec<Fact> {
    let mut facts = Vec::new();
    for turn in 0..12_u32 {
        let number = f64::from(turn);
        // A counter, a constant, noise, a value that goes to and fro, text, and what is no number.
        let values = [
            Value::Double(number),
            Value::Int(-7),
            Value::Double(20.0 + (number * 78.233).sin()),
            Value::Float(if turn % 3 == 0 { 1.5 } else { 2.25 }),
            Value::Text(if turn < 6 { b"idle".to_vec() } else { b"run".to_vec() }),
            Value::Double(if turn == 5 { f64::NAN } else { 1e300 * number }),
            Value::UInt(u64::MAX - u64::from(turn * turn)),
            Value::Unknown,
        ];
        let mut threads = [Vec::new(), Vec::new()];
        for (record, value) in (100..).zip(values) {
            let thread = record % 2;
            let sp = -64 - 32 * i64::from(record - 100);
            let severity = u16::from(turn > 8 && record == 102);
            threads[thread as usize].extend([
                Fact::Process(Process { thread, sp, site: 1 + thread, record, active: false }),
                Fact::Complete(Complete {
                    thread,
                    sp: sp - 16,
                    site: 3,
                    record,
                    value,
                    severity,
                    status: 3 * severity,
                }),
            ]);
        }
        let [one, other] = threads;
        if turn % 4 == 1 {
            facts.extend(one.into_iter().zip(other).flat_map(|(one, other)| [one, other]));
        } else {
            facts.extend(one);
            facts.extend(other);
        }
        let (old, new) = (Value::Double(number - 1.0), Value::Double(number));
        facts.extend([
            Fact::CaPut(CaPut {
                circuit: 6,
                channel: 7,
                notify: true,
                dbr: 6,
                count: 1,
                ioid: 100 + turn,
                length: 8,
                payload: number.to_be_bytes().to_vec(),
            }),
            Fact::from(Put {
                thread: 2,
                sp: -480,
                site: 5,
                kind: PutKind::PutField,
                record: 3,
                field: Some(4),
                dbf: Dbf::Double,
                count: 1,
                requested: new,
                old,
            }),
            Fact::Cause(Cause {
                thread: 2,
                sp: -500,
                site: 5,
                kind: CauseKind::CallbackRequest,
                object: 0x55AA_0000_0000 + u64::from(turn % 2) * 64,
                record: None,
            }),
            Fact::CaAnswer(CaAnswer {
                circuit: 6,
                ioid: 100 + turn,
                notify: true,
                status: 1,
                text: String::new(),
            }),
        ]);
    }
    facts
}

/// A segment with every kind of fact, a keyframe and two blocks.
fn write() -> Vec<u8> {
    let disk = Disk::default();
    disk.set_wall(1_770_000_100_000_000_000);
    let run = 0x0123_4567_89AB_CDEF_0011_2233_4455_6677;
    let mut writer = Writer::open(disk.clone(), Options::default(), run).unwrap();
    // The first segment can't be made, so that the second begins with a keyframe.
    disk.set_faults(Some(Faults { first: 1, count: 1, kind: std::io::ErrorKind::Other }));
    for fact in definitions() {
        writer.push(Event { time: 10 * SECOND, fact });
    }
    disk.set_faults(None);
    writer.tick(20 * SECOND);
    for (number, fact) in definitions().into_iter().chain(rhythm()).chain(hits()).enumerate() {
        // Not quite in order.
        writer.push(Event { time: 20 * SECOND + (number as u64 ^ 1) * 1_234, fact });
        if number == 12 {
            writer.tick(22 * SECOND);
        }
    }
    writer.tick(29 * SECOND);
    // Large enough for a list of contents.
    for (number, fact) in rhythm().into_iter().enumerate() {
        writer.push(Event { time: 29 * SECOND + number as u64, fact });
    }
    writer.push(common::noise_mark(29 * SECOND, 10_000, &mut 1));
    writer.close(30 * SECOND);
    let mut segments = disk.segments();
    assert_eq!(segments.len(), 1);
    segments.remove(0).1
}

/// The golden segments have all there is in this version.
#[test]
fn nothing_is_left_out() {
    let mut seen = vec![false; FACTS.into()];
    for name in GOLDEN {
        for block in read_segment(&std::fs::read(path(name, "iocrec")).unwrap()).unwrap() {
            for event in block.unwrap().events {
                seen[usize::from(event.fact.number())] = true;
            }
        }
    }
    assert!(seen.iter().all(|seen| *seen), "{seen:?}");
}

/// A golden segment says what is in its blocks, by flags and by lists.
#[test]
fn golden_segments_list_their_contents() {
    let bytes = std::fs::read(path("v1-contents", "iocrec")).unwrap();
    let mut segment = Segment::read(Cursor::new(bytes), Path::new("golden")).unwrap();
    let abouts: Vec<_> = std::iter::from_fn(|| segment.next_about()).map(Result::unwrap).collect();
    assert!(abouts.iter().all(|about| about.classes.is_some()));
    let listed: Vec<_> = abouts.iter().filter_map(|about| about.contents.as_ref()).collect();
    let [contents] = listed.as_slice() else { panic!("{listed:#?}") };
    assert_eq!(contents.counts, [(14, 12), (15, 12), (16, 12), (17, 96), (18, 96), (19, 12), (22, 1)]);
    let threads: Vec<u32> = contents.threads.iter().flatten().map(|of| of.thread).collect();
    assert_eq!(threads, [0, 1, 2]);
    assert!((100..108).all(|record| contents.may_hold_record(record)) && !contents.may_hold_record(108));
    assert!(contents.may_hold_channel(7) && !contents.may_hold_channel(6));
}

/// Writes the golden segments that are not there. See golden/README.md.
#[test]
#[ignore = "only for a new version or encoding"]
fn write_golden_segment() {
    for name in GOLDEN {
        let (segment, text) = (path(name, "iocrec"), path(name, "txt"));
        if segment.exists() || text.exists() {
            continue; // golden segments are never written again
        }
        let bytes = write();
        std::fs::write(text, print(&bytes)).unwrap();
        std::fs::write(segment, bytes).unwrap();
    }
}
