//! proptest strategies for everything that a log can hold.

use iocrec_log::event::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Union;

fn text() -> BoxedStrategy<String> {
    prop_oneof![Just(String::new()), "[A-Za-z0-9:._-]{1,24}", any::<String>()].boxed()
}

fn one_of<T: Copy + std::fmt::Debug + 'static>(all: &'static [T]) -> BoxedStrategy<T> {
    proptest::sample::select(all).boxed()
}

/// Numbers: mostly small, so that they meet; sometimes as large as can be.
fn id() -> BoxedStrategy<u32> {
    prop_oneof![9 => 0..6u32, 1 => any::<u32>()].boxed()
}

fn tier() -> BoxedStrategy<Tier> {
    one_of(&[Tier::Ring, Tier::Perf, Tier::Packet])
}

fn dbf() -> BoxedStrategy<Dbf> {
    use Dbf::*;
    one_of(&[
        String, Char, UChar, Short, UShort, Long, ULong, Int64, UInt64, Float, Double, Enum, Menu, Device,
        InLink, OutLink, FwdLink, NoAccess,
    ])
}

pub fn value() -> BoxedStrategy<Value> {
    let bits32 = any::<u32>().prop_map(f32::from_bits);
    let bits64 = any::<u64>().prop_map(f64::from_bits);
    prop_oneof![
        Just(Value::Unknown),
        any::<i64>().prop_map(Value::Int),
        any::<u64>().prop_map(Value::UInt),
        bits32.prop_map(Value::Float),
        bits64.prop_map(Value::Double),
        vec(any::<u8>(), 0..40).prop_map(Value::Text),
        (dbf(), any::<u32>(), vec(any::<u8>(), 0..200)).prop_map(|(dbf, count, bytes)| Value::Array(Array {
            dbf,
            count,
            bytes
        })),
    ]
    .boxed()
}

fn address() -> BoxedStrategy<Address> {
    (any::<u32>(), any::<u16>()).prop_map(|(ip, port)| Address { ip, port }).boxed()
}

fn counted<T: std::fmt::Debug + 'static>(
    count: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<Vec<(Address, T)>> {
    vec((address(), count), 0..3).boxed()
}

fn origin() -> BoxedStrategy<Origin> {
    one_of(&[Origin::Opened, Origin::MidStream, Origin::Memory])
}

fn place() -> impl Strategy<Value = (u32, i64, u32)> {
    (id(), any::<i64>(), id())
}

fn limits() -> impl Strategy<Value = Option<Limits>> {
    let bits = any::<u64>().prop_map(f64::from_bits);
    proptest::option::of((bits.clone(), bits).prop_map(|(low, high)| Limits { low, high }))
}

fn alarm_limit() -> impl Strategy<Value = Option<AlarmLimit>> {
    let bits = any::<u64>().prop_map(f64::from_bits);
    proptest::option::of((bits, any::<u16>()).prop_map(|(limit, severity)| AlarmLimit { limit, severity }))
}

/// Every kind of fact, in the order of their numbers; a test counts them.
pub fn all() -> Vec<BoxedStrategy<Fact>> {
    let host = (text(), text(), text(), text(), text(), any::<i32>());
    let ioc = (
        (id(), any::<u32>(), any::<u64>(), text(), text(), text()),
        (vec(text(), 0..4), text(), vec(any::<u16>(), 0..3)),
        (one_of(&[Linkage::Shared, Linkage::Static, Linkage::Foreign]), vec(text(), 0..3)),
        (text(), vec(any::<u16>(), 0..3), vec((text(), text()), 0..3)),
    );
    let channel = (id(), id(), any::<Option<u32>>(), any::<Option<u32>>(), text());
    let put_kind = one_of(&[PutKind::Put, PutKind::PutField, PutKind::Notify]);
    let cause_kind = one_of(&[
        CauseKind::CallbackRequest,
        CauseKind::CallbackRequestDelayed,
        CauseKind::CallbackRequestProcess,
        CauseKind::CallbackRequestProcessDelayed,
        CauseKind::ScanOnce,
        CauseKind::ScanIoRequest,
        CauseKind::PostEvent,
    ]);
    let source = one_of(&[
        LossSource::Hits,
        LossSource::Packets,
        LossSource::Stream,
        LossSource::Names,
        LossSource::Storage,
    ]);
    let scan_kind = one_of(&[ScanKind::Periodic, ScanKind::Event, ScanKind::IoInterrupt]);
    let side = one_of(&[CircuitSide::Client, CircuitSide::Server]);
    let close = one_of(&[
        CloseReason::Closed,
        CloseReason::Reset,
        CloseReason::Replaced,
        CloseReason::Forgotten,
        CloseReason::HalfClosed,
        CloseReason::NotCaptured,
        CloseReason::Moved,
    ]);
    let channel_reason = one_of(&[
        ChannelReason::Cleared,
        ChannelReason::Refused,
        ChannelReason::Disconnected,
        ChannelReason::Replaced,
        ChannelReason::Forgotten,
    ]);
    let message = one_of(&[
        Message::Subscribe,
        Message::Unsubscribe,
        Message::Update,
        Message::Get,
        Message::GetAnswer,
        Message::Put,
        Message::EventsOff,
        Message::EventsOn,
        Message::Error,
        Message::Clear,
        Message::Create,
        Message::CreateFailed,
        Message::Disconnect,
        Message::Echo,
        Message::EchoAnswer,
        Message::Search,
        Message::NotFound,
        Message::Other,
    ]);
    vec![
        host.prop_map(|(name, kernel, arch, boot_id, recorder, utc_offset)| {
            Fact::from(Host { name, kernel, arch, boot_id, recorder, utc_offset })
        })
        .boxed(),
        any::<i64>().prop_map(|wall| Fact::Clock(Clock { wall })).boxed(),
        (tier(), vec((tier(), text()), 0..3))
            .prop_map(|(tier, refused)| Fact::Tier(TierChoice { tier, refused }))
            .boxed(),
        ioc.prop_map(|((id, pid, start, name, exe, cwd), (command, base_version, ca_ports), rest, more)| {
            let ((linkage, not_probed), (user, pva_ports, environment)) = (rest, more);
            Fact::from(Ioc {
                id,
                pid,
                start,
                name,
                exe,
                cwd,
                command,
                base_version,
                ca_ports,
                linkage,
                not_probed,
                user,
                pva_ports,
                environment,
            })
        })
        .boxed(),
        (id(), text()).prop_map(|(ioc, how)| Fact::IocEnd(IocEnd { ioc, how })).boxed(),
        (id(), id(), any::<u32>(), text(), any::<u64>())
            .prop_map(|(id, ioc, tid, name, stack)| Fact::Thread(Thread { id, ioc, tid, name, stack }))
            .boxed(),
        (id(), id(), any::<u64>(), text(), text())
            .prop_map(|(id, ioc, address, name, rtype)| Fact::from(Record { id, ioc, address, name, rtype }))
            .boxed(),
        (id(), id(), text(), text(), dbf(), any::<Option<u32>>())
            .prop_map(|(id, ioc, rtype, name, dbf, menu)| {
                Fact::from(Field { id, ioc, rtype, name, dbf, menu })
            })
            .boxed(),
        (id(), id(), any::<u64>(), text(), text())
            .prop_map(|(id, ioc, address, function, module)| {
                Fact::from(CallSite { id, ioc, address, function, module })
            })
            .boxed(),
        (id(), address(), address(), text(), text(), any::<u16>(), origin())
            .prop_map(|(id, client, server, user, host, minor, origin)| {
                Fact::from(Circuit { id, client, server, user, host, minor, origin })
            })
            .boxed(),
        id().prop_map(Fact::CircuitEnd).boxed(),
        (channel, any::<Option<u16>>(), any::<Option<u32>>(), origin())
            .prop_map(|((id, circuit, cid, sid, pv), dbr, count, origin)| {
                Fact::from(Channel { id, circuit, cid, sid, pv, dbr, count, origin })
            })
            .boxed(),
        id().prop_map(Fact::ChannelEnd).boxed(),
        (id(), id())
            .prop_map(|(thread, circuit)| Fact::ServerThread(ServerThread { thread, circuit }))
            .boxed(),
        ((id(), id(), any::<bool>()), any::<u16>(), any::<[u32; 3]>(), vec(any::<u8>(), 0..200))
            .prop_map(|((circuit, channel, notify), dbr, [count, ioid, length], payload)| {
                Fact::CaPut(CaPut { circuit, channel, notify, dbr, count, ioid, length, payload })
            })
            .boxed(),
        (id(), any::<u32>(), any::<bool>(), any::<u32>(), text())
            .prop_map(|(circuit, ioid, notify, status, text)| {
                Fact::CaAnswer(CaAnswer { circuit, ioid, notify, status, text })
            })
            .boxed(),
        (place(), put_kind, id(), any::<Option<u32>>(), dbf(), any::<u32>(), value(), value())
            .prop_map(|((thread, sp, site), kind, record, field, dbf, count, requested, old)| {
                Fact::from(Put { thread, sp, site, kind, record, field, dbf, count, requested, old })
            })
            .boxed(),
        (place(), id(), any::<bool>())
            .prop_map(|((thread, sp, site), record, active)| {
                Fact::Process(Process { thread, sp, site, record, active })
            })
            .boxed(),
        (place(), id(), value(), any::<u16>(), any::<u16>())
            .prop_map(|((thread, sp, site), record, value, severity, status)| {
                Fact::Complete(Complete { thread, sp, site, record, value, severity, status })
            })
            .boxed(),
        (place(), cause_kind, any::<u64>(), any::<Option<u32>>())
            .prop_map(|((thread, sp, site), kind, object, record)| {
                Fact::Cause(Cause { thread, sp, site, kind, object, record })
            })
            .boxed(),
        (place(), any::<Option<u32>>(), text(), dbf(), any::<u32>(), value())
            .prop_map(|((thread, sp, site), record, pv, dbf, count, value)| {
                Fact::from(CaLinkPut { thread, sp, site, record, pv, dbf, count, value })
            })
            .boxed(),
        (source, any::<u64>(), any::<u64>(), text())
            .prop_map(|(source, count, since, cause)| Fact::Loss(Loss { source, count, since, cause }))
            .boxed(),
        text().prop_map(Fact::Mark).boxed(),
        (id(), text()).prop_map(|(record, name)| Fact::Alias(Alias { record, name })).boxed(),
        (id(), id(), text(), vec(text(), 0..4))
            .prop_map(|(id, ioc, name, choices)| Fact::Menu(Menu { id, ioc, name, choices }))
            .boxed(),
        (id(), vec(text(), 0..4))
            .prop_map(|(record, states)| Fact::EnumStrings(EnumStrings { record, states }))
            .boxed(),
        (id(), id(), scan_kind, text(), any::<u64>())
            .prop_map(|(id, ioc, kind, name, callback)| {
                Fact::ScanList(ScanList { id, ioc, kind, name, callback })
            })
            .boxed(),
        (id(), any::<Option<u32>>())
            .prop_map(|(record, list)| Fact::RecordScan(RecordScan { record, list }))
            .boxed(),
        (id(), any::<bool>(), any::<bool>())
            .prop_map(|(record, active, disabled)| Fact::PactCheck(PactCheck { record, active, disabled }))
            .boxed(),
        (0u32..9, any::<u64>(), text())
            .prop_map(|(chains, window, cause)| Fact::ChainSampling(ChainSampling { chains, window, cause }))
            .boxed(),
        (id(), any::<u64>(), any::<u64>())
            .prop_map(|(record, count, since)| Fact::ChainsLeftOut(ChainsLeftOut { record, count, since }))
            .boxed(),
        (place(), id(), any::<bool>())
            .prop_map(|((thread, sp, site), record, active)| {
                Fact::RsetProcess(Process { thread, sp, site, record, active })
            })
            .boxed(),
        (any::<u64>(), any::<u64>(), text())
            .prop_map(|(from, to, cause)| Fact::Pinned(Pinned { from, to, cause }))
            .boxed(),
        any::<u32>().prop_map(|segments| Fact::Unpinned(Unpinned { segments })).boxed(),
        (any::<u32>(), any::<u32>(), any::<u64>())
            .prop_map(|(segment, blocks, last)| Fact::SegmentEnd(SegmentEnd { segment, blocks, last }))
            .boxed(),
        (id(), any::<u64>(), any::<u64>(), text())
            .prop_map(|(ioc, from, since, cause)| Fact::Attached(Attached { ioc, from, since, cause }))
            .boxed(),
        (id(), any::<u64>(), text())
            .prop_map(|(ioc, since, cause)| Fact::Detached(Detached { ioc, since, cause }))
            .boxed(),
        (id(), any::<u64>(), any::<Option<u32>>(), any::<Option<u32>>())
            .prop_map(|(circuit, namespace, server, client)| {
                Fact::CircuitEnds(CircuitEnds { circuit, namespace, server, client })
            })
            .boxed(),
        (id(), id(), value())
            .prop_map(|(record, field, value)| Fact::FieldValue(FieldValue { record, field, value }))
            .boxed(),
        (id(), value(), any::<u16>(), any::<u16>(), any::<Option<i64>>())
            .prop_map(|(record, value, severity, status, stamp)| {
                Fact::Snapshot(Snapshot { record, value, severity, status, stamp })
            })
            .boxed(),
        (id(), text(), text(), any::<Option<i32>>(), limits(), limits(), vec(alarm_limit(), 4))
            .prop_map(|(record, description, units, precision, display, control, limits)| {
                Fact::Properties(Box::new(Properties {
                    record,
                    description,
                    units,
                    precision,
                    display,
                    control,
                    lolo: limits[0],
                    low: limits[1],
                    high: limits[2],
                    hihi: limits[3],
                }))
            })
            .boxed(),
        (id(), any::<u64>(), any::<[u32; 4]>())
            .prop_map(|(ioc, since, [taken, unread, left, properties_left])| {
                Fact::SnapshotEnd(SnapshotEnd { ioc, since, taken, unread, left, properties_left })
            })
            .boxed(),
        (id(), any::<u16>(), text(), vec(any::<u8>(), 0..17), vec(any::<u8>(), 0..17))
            .prop_map(|(circuit, version, method, client_ip, server_ip)| {
                Fact::from(PvaCircuit { circuit, version, method, client_ip, server_ip })
            })
            .boxed(),
        (id(), vec(any::<u8>(), 0..40))
            .prop_map(|(id, description)| Fact::PvaType(PvaType { id, description }))
            .boxed(),
        (id(), id(), any::<u32>(), pva_kind(), pva_value(), pva_value())
            .prop_map(|(circuit, channel, ioid, kind, options, value)| {
                Fact::PvaPut(Box::new(PvaPut { circuit, channel, ioid, kind, options, value }))
            })
            .boxed(),
        (id(), any::<u32>(), pva_kind(), 0u16..5, text(), pva_value())
            .prop_map(|(circuit, ioid, kind, status, text, value)| {
                Fact::PvaAnswer(Box::new(PvaAnswer { circuit, ioid, kind, status, text, value }))
            })
            .boxed(),
        (id(), id(), any::<u32>(), any::<bool>())
            .prop_map(|(circuit, channel, ioid, starts)| {
                Fact::PvaMonitor(PvaMonitor { circuit, channel, ioid, starts })
            })
            .boxed(),
        (id(), any::<Option<u32>>(), any::<u16>(), any::<u16>(), text())
            .prop_map(|(circuit, channel, command, level, text)| {
                Fact::PvaMessage(PvaMessage { circuit, channel, command, level, text })
            })
            .boxed(),
        searches().prop_map(Fact::from).boxed(),
        load().prop_map(Fact::from).boxed(),
        beacons().prop_map(Fact::Beacons).boxed(),
        (any::<u64>(), address(), any::<u32>(), text(), text(), any::<Option<u32>>())
            .prop_map(|(namespace, client, pid, program, user, ioc)| {
                Fact::from(Sender { namespace, client, pid, program, user, ioc })
            })
            .boxed(),
        (any::<[u64; 2]>(), address(), any::<[u32; 2]>())
            .prop_map(|([namespace, since], repeater, [requests, confirmed])| {
                Fact::Registrations(Registrations { namespace, repeater, requests, confirmed, since })
            })
            .boxed(),
        (id(), close, proptest::option::of(side))
            .prop_map(|(circuit, reason, by)| Fact::CircuitClosed(CircuitClosed { circuit, reason, by }))
            .boxed(),
        (id(), channel_reason)
            .prop_map(|(channel, reason)| Fact::ChannelClosed(ChannelClosed { channel, reason }))
            .boxed(),
        (id(), id(), any::<u16>())
            .prop_map(|(channel, circuit, rights)| {
                Fact::AccessRights(AccessRights { channel, circuit, rights })
            })
            .boxed(),
        (id(), any::<u16>())
            .prop_map(|(circuit, priority)| Fact::CircuitPriority(CircuitPriority { circuit, priority }))
            .boxed(),
        (id(), any::<[u64; 4]>(), vec((message, any::<u32>()), 0..4))
            .prop_map(|(circuit, [since, from_client, from_server, not_looked_at], messages)| {
                let traffic =
                    CircuitTraffic { circuit, since, from_client, from_server, messages, not_looked_at };
                Fact::from(traffic)
            })
            .boxed(),
        (id(), any::<[u64; 3]>(), any::<[u32; 2]>(), any::<bool>())
            .prop_map(|(channel, [since, updates, bytes], [gets, subscriptions], complete)| {
                let traffic =
                    ChannelTraffic { channel, since, gets, subscriptions, updates, bytes, complete };
                Fact::ChannelTraffic(traffic)
            })
            .boxed(),
        (id(), any::<[u64; 2]>(), any::<u32>(), any::<bool>())
            .prop_map(|(circuit, [since, off], times, is_off)| {
                Fact::EventsOff(EventsOff { circuit, since, times, off, is_off })
            })
            .boxed(),
        (id(), any::<u64>(), any::<bool>())
            .prop_map(|(circuit, since, is_answered)| {
                Fact::EchoLate(EchoLate { circuit, since, is_answered })
            })
            .boxed(),
        (id(), any::<Option<u32>>(), any::<u16>(), any::<[u32; 2]>(), any::<u64>(), text())
            .prop_map(|(circuit, channel, command, [status, count], since, text)| {
                Fact::CaError(CaError { circuit, channel, command, status, count, since, text })
            })
            .boxed(),
        id().prop_map(Fact::CircuitForgotten).boxed(),
        id().prop_map(Fact::ChannelForgotten).boxed(),
        (id(), vec(holder(), 0..3), any::<u32>(), any::<bool>())
            .prop_map(|(circuit, holders, more, is_whole)| {
                Fact::CircuitProcess(CircuitProcess { circuit, holders, more, is_whole })
            })
            .boxed(),
        (id(), vec(text(), 0..4), any::<bool>())
            .prop_map(|(ioc, names, is_whole)| Fact::ThreadNames(ThreadNames { ioc, names, is_whole }))
            .boxed(),
        (id(), vec((id(), text()).prop_map(|(field, text)| OutputLink { field, text }), 0..3))
            .prop_map(|(record, links)| Fact::OutputLinks(OutputLinks { record, links }))
            .boxed(),
        (id(), any::<i64>(), id(), any::<u64>())
            .prop_map(|(thread, sp, site, channel)| {
                Fact::CaClientPut(CaClientPut { thread, sp, site, channel })
            })
            .boxed(),
        (searches(), vec(guid(), 0..3))
            .prop_map(|(searches, guids)| Fact::from(PvaSearches { searches, guids }))
            .boxed(),
        load().prop_map(|load| Fact::PvaSearchLoad(Box::new(load))).boxed(),
        (beacons(), guid(), guid())
            .prop_map(|(beacons, guid, before)| Fact::from(PvaBeacons { beacons, guid, before }))
            .boxed(),
        (id(), id(), any::<u64>(), any::<u32>(), text())
            .prop_map(|(id, ioc, address, cid, pv)| Fact::from(ClientChannel { id, ioc, address, cid, pv }))
            .boxed(),
        (id(), any::<[u64; 2]>(), any::<bool>())
            .prop_map(|(circuit, [since, until], is_over)| {
                Fact::ClientStalled(ClientStalled { circuit, since, until, is_over })
            })
            .boxed(),
        (id(), vec(any::<u8>(), 0..17)).prop_map(|(ip, bytes)| Fact::Ip6(Ip6 { ip, bytes })).boxed(),
        (id(), any::<i64>(), 0_usize..4, text(), any::<u32>(), any::<bool>())
            .prop_map(|(thread, sp, output, text, cut, is_ended)| {
                let output = [Output::Terminal, Output::Pipe, Output::Unknown, Output::Error][output];
                Fact::from(ConsoleLine { thread, sp, output, text, cut, is_ended })
            })
            .boxed(),
        (id(), any::<[u64; 3]>())
            .prop_map(|(ioc, [lines, writes, since])| {
                Fact::ConsoleLeftOut(ConsoleLeftOut { ioc, lines, writes, since })
            })
            .boxed(),
        (id(), any::<i64>(), id(), any::<Option<u16>>(), text())
            .prop_map(|(thread, sp, site, severity, format)| {
                Fact::from(ErrlogCall { thread, sp, site, severity, format })
            })
            .boxed(),
        ((id(), any::<i64>(), id()), (0_usize..2, any::<i32>()), (text(), any::<u32>(), text()))
            .prop_map(|((thread, sp, site), (number, status), (file, line, expression))| {
                let all = [GaveUp::Exit(status), GaveUp::EpicsAssert];
                let how = all[number];
                Fact::from(GivingUp { thread, sp, site, how, file, line, expression })
            })
            .boxed(),
        signal_sent(),
        crash(),
        resources(),
        (id(), id(), text()).prop_map(|(id, ioc, name)| Fact::from(WatchedThread { id, ioc, name })).boxed(),
        stuck(),
        (id(), id(), any::<u64>(), any::<bool>())
            .prop_map(|(id, ioc, after, has_ended)| Fact::StuckEnd(StuckEnd { id, ioc, after, has_ended }))
            .boxed(),
        (id(), id(), any::<[u64; 3]>())
            .prop_map(|(ioc, list, [more, total, since])| {
                Fact::ScanOverruns(ScanOverruns { ioc, list, more, total, since })
            })
            .boxed(),
        tcp_connection(),
        slow_client(),
        io_file(),
        (id(), vec((any::<u16>(), any::<u64>()).prop_map(|(number, value)| Word { number, value }), 0..4))
            .prop_map(|(file, words)| Fact::IoUse(IoUse { file, words }))
            .boxed(),
        (id(), any::<u64>()).prop_map(|(id, closed)| Fact::IoFileEnd(IoFileEnd { id, closed })).boxed(),
        queue_fill(),
        container(),
    ]
}

fn tcp_end() -> impl Strategy<Value = TcpEnd> {
    (proptest::collection::vec(any::<u8>(), 0..17), any::<u16>()).prop_map(|(ip, port)| TcpEnd { ip, port })
}

fn queue_fill() -> BoxedStrategy<Fact> {
    let queue = (0..Queue::ALL.len()).prop_map(|number| Queue::ALL[number]);
    let record = proptest::option::of(id());
    (id(), queue, any::<[u64; 2]>(), any::<bool>(), any::<[u32; 4]>(), ".{0,15}", record)
        .prop_map(|(ioc, queue, [since, last], is_over, [size, used, most, overflows], thread, record)| {
            Fact::from(QueueFill {
                ioc,
                queue,
                since,
                last,
                is_over,
                size,
                used,
                most,
                overflows,
                thread,
                record,
            })
        })
        .boxed()
}

fn slow_client() -> BoxedStrategy<Fact> {
    let updates = (text(), any::<u64>(), proptest::option::of(any::<u64>()))
        .prop_map(|(pv, pending, replaced)| Updates { pv, pending, replaced });
    let updates = proptest::option::of(proptest::collection::vec(updates, 0..4));
    let circuit = proptest::option::of(id());
    (id(), tcp_end(), tcp_end(), circuit, any::<u64>(), any::<u32>(), any::<[bool; 3]>(), updates)
        .prop_map(|(ioc, client, server, circuit, since, unsent, flags, updates)| {
            let [is_over, window_closed, is_whole] = flags;
            Fact::from(SlowClient {
                ioc,
                client,
                server,
                circuit,
                since,
                is_over,
                unsent,
                window_closed,
                updates,
                is_whole,
            })
        })
        .boxed()
}

fn tcp_connection() -> BoxedStrategy<Fact> {
    let state = one_of(&[
        TcpState::Opening,
        TcpState::Open,
        TcpState::PeerClosed,
        TcpState::Closed,
        TcpState::Aborted,
        TcpState::Gone,
    ]);
    let circuit = proptest::option::of(id());
    (id(), any::<u32>(), tcp_end(), tcp_end(), state, circuit, any::<[u64; 3]>(), any::<[u32; 2]>())
        .prop_map(|(ioc, socket, local, remote, state, circuit, times, [retransmitted, unsent])| {
            let [after, opened, opened_after] = times;
            Fact::from(TcpConnection {
                ioc,
                socket,
                local,
                remote,
                state,
                circuit,
                after,
                opened,
                opened_after,
                retransmitted,
                unsent,
            })
        })
        .boxed()
}

fn stuck() -> BoxedStrategy<Fact> {
    let wait = one_of(&[Wait::Unknown, Wait::Mutex, Wait::Poll, Wait::Suspended, Wait::Frozen]);
    let holder = (any::<u32>(), text(), proptest::option::of(id()), any::<bool>())
        .prop_map(|(tid, thread, record, is_certain)| Holder { tid, thread, record, is_certain });
    let number = proptest::option::of(any::<u32>());
    (
        (id(), id(), any::<u32>(), text(), any::<[u64; 2]>()),
        (wait, text(), number, proptest::option::of(id()), any::<bool>(), proptest::option::of(holder)),
    )
        .prop_map(|((id, ioc, tid, thread, times), (wait, object, call, record, is_lockset, holder))| {
            let [after, since] = times;
            Fact::from(Stuck {
                id,
                ioc,
                tid,
                thread,
                after,
                since,
                wait,
                object,
                call,
                record,
                is_lockset,
                holder,
            })
        })
        .boxed()
}

fn resources() -> BoxedStrategy<Fact> {
    let number = || proptest::option::of(any::<u64>());
    let most = (id(), any::<[u64; 3]>()).prop_map(|(thread, [cpu, waiting, times])| ThreadUse {
        thread,
        cpu,
        waiting,
        times,
    });
    (
        (id(), any::<u64>(), number(), number(), any::<[u64; 2]>()),
        (number(), any::<u32>(), proptest::option::of(any::<u32>()), number(), vec(most, 0..4)),
    )
        .prop_map(
            |((ioc, period, cpu, waiting, faults), (resident, threads, descriptors, udp_drops, most))| {
                let [minor_faults, major_faults] = faults;
                Fact::from(Resources {
                    ioc,
                    period,
                    cpu,
                    waiting,
                    minor_faults,
                    major_faults,
                    resident,
                    threads,
                    descriptors,
                    udp_drops,
                    most,
                })
            },
        )
        .boxed()
}

fn container() -> BoxedStrategy<Fact> {
    ((id(), one_of(&ContainerRuntime::ALL), any::<bool>()), (text(), text(), text()))
        .prop_map(|((ioc, runtime, is_kubernetes), (id, pod, host_name))| {
            Fact::from(Container { ioc, runtime, id, pod, is_kubernetes, host_name })
        })
        .boxed()
}

fn io_file() -> BoxedStrategy<Fact> {
    let how = one_of(&[
        FileHow::Others,
        FileHow::Opened,
        FileHow::Failed,
        FileHow::Named,
        FileHow::Socket,
        FileHow::Accepted,
        FileHow::Found,
        FileHow::Process,
    ]);
    (
        (id(), id(), how, any::<u64>(), proptest::option::of(any::<u32>())),
        (any::<[u32; 2]>(), vec(any::<u8>(), 0..40), any::<[bool; 2]>()),
    )
        .prop_map(|((id, ioc, how, since, descriptor), ([flags, mode], name, [is_cut, is_unplaced]))| {
            Fact::from(IoFile { id, ioc, how, since, descriptor, flags, mode, name, is_cut, is_unplaced })
        })
        .boxed()
}

fn signal_sent() -> BoxedStrategy<Fact> {
    let from = one_of(&[SignalFrom::Process, SignalFrom::Kernel, SignalFrom::OutOfMemory]);
    (
        (id(), any::<u16>(), any::<i32>(), from, any::<u32>(), any::<u32>()),
        (text(), text(), vec(text(), 0..3), any::<u64>()),
    )
        .prop_map(|((ioc, signal, code, from, pid, uid), (user, program, command, left_out))| {
            let sent = SignalSent { ioc, signal, code, from, pid, uid, user, program, command, left_out };
            Fact::from(sent)
        })
        .boxed()
}

fn crash() -> BoxedStrategy<Fact> {
    let frame = (any::<u32>(), id(), any::<u64>()).prop_map(|(at, site, offset)| Frame { at, site, offset });
    (
        (
            id(),
            any::<u32>(),
            text(),
            any::<u16>(),
            any::<i32>(),
            proptest::option::of(any::<u64>()),
            any::<bool>(),
        ),
        (any::<[u64; 3]>(), id(), proptest::option::of(id()), any::<[u32; 2]>()),
        (
            vec(frame, 0..4),
            vec((any::<u32>(), id()).prop_map(|(at, record)| StackRecord { at, record }), 0..3),
        ),
    )
        .prop_map(|(what, ([ip, sp, offset], site, record, [from, bytes]), (frames, records))| {
            let (ioc, tid, thread, signal, code, address, handled) = what;
            Fact::from(Crash {
                ioc,
                tid,
                thread,
                signal,
                code,
                address,
                handled,
                ip,
                sp,
                site,
                offset,
                record,
                from,
                bytes,
                frames,
                records,
            })
        })
        .boxed()
}

fn holder() -> impl Strategy<Value = SocketHolder> {
    (any::<u32>(), any::<u64>(), text(), vec(text(), 0..3), any::<bool>(), text()).prop_map(
        |(pid, start, program, command, is_cut, user)| SocketHolder {
            pid,
            start,
            program,
            command,
            is_cut,
            user,
        },
    )
}

fn guid() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..14)
}

fn searches() -> impl Strategy<Value = Searches> {
    (
        (any::<u64>(), address(), any::<bool>()),
        text(),
        any::<[u32; 2]>(),
        any::<[u64; 2]>(),
        counted(any::<u32>()),
    )
        .prop_map(|((namespace, client, tcp), name, [count, not_found], [since, last], answers)| {
            Searches { namespace, client, tcp, name, count, since, last, not_found, answers }
        })
}

fn load() -> impl Strategy<Value = SearchLoad> {
    (any::<[u64; 7]>(), any::<u32>(), counted(any::<u64>())).prop_map(
        |([namespace, since, datagrams, names, left_out, cut, unread], one_in, most)| SearchLoad {
            namespace,
            since,
            datagrams,
            names,
            left_out,
            cut,
            unread,
            one_in,
            most,
        },
    )
}

fn beacons() -> impl Strategy<Value = Beacons> {
    let noted = one_of(&[
        BeaconsNoted::First,
        BeaconsNoted::InStep,
        BeaconsNoted::OutOfStep,
        BeaconsNoted::Early,
        BeaconsNoted::Overdue,
        BeaconsNoted::Again,
        BeaconsNoted::Restarted,
    ]);
    (address(), noted, any::<[u64; 4]>(), any::<[u32; 3]>(), any::<u16>()).prop_map(
        |(server, noted, [namespace, since, seen, gap], [count, last, expected], version)| Beacons {
            namespace,
            server,
            noted,
            count,
            since,
            seen,
            last,
            expected,
            gap,
            version,
        },
    )
}

fn pva_kind() -> impl Strategy<Value = PvaKind> {
    use PvaKind::*;
    prop_oneof![Just(Put), Just(PutGet), Just(Process), Just(Rpc), Just(Get)]
}

fn pva_value() -> impl Strategy<Value = PvaValue> {
    (vec(id(), 0..3), any::<bool>(), any::<u32>(), vec(any::<u8>(), 0..100))
        .prop_map(|(types, big_endian, length, bytes)| PvaValue { types, big_endian, length, bytes })
}

pub fn fact() -> impl Strategy<Value = Fact> {
    Union::new(all())
}

pub fn events(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Event>> {
    let time = prop_oneof![4 => 0..1000u64, 1 => any::<u64>()];
    vec((time, fact()).prop_map(|(time, fact)| Event { time, fact }), count)
}
