//! What becomes of each fact, member by member.
//!
//! Every member is named here: with a call that replaces it, or with `_` if it stays. So a new fact, or a new member, does
//! not compile before somebody has decided. What stays is of these kinds: numbers that definitions assign; times, counts
//! and sizes; kinds and states; types and statuses of the protocols; process, thread and socket numbers; addresses in an
//! IOC's memory; ports.

use super::{pva, words, Redaction, Values};
use iocrec_log::event::*;

impl Redaction {
    /// Replaces what a fact tells of a site. False if the fact is to be left out.
    pub(super) fn fact(&mut self, fact: &mut Fact) {
        match fact {
            Fact::Host(host) => self.of_host(host),
            Fact::Clock(Clock { wall: _ }) => {}
            Fact::Tier(TierChoice { tier: _, refused }) => {
                refused.iter_mut().for_each(|(_, reason)| self.text(reason));
            }
            Fact::Ioc(ioc) => self.of_ioc(ioc),
            Fact::IocEnd(IocEnd { ioc: _, how }) => self.ending(how),
            Fact::Thread(Thread { id: _, ioc: _, tid: _, name, stack: _ }) => self.thread(name),
            Fact::Record(record) => {
                let Record { id: _, ioc: _, address: _, name, rtype } = &mut **record;
                self.record(name);
                self.record_type(rtype);
            }
            Fact::Field(field) => {
                let Field { id, ioc: _, rtype, name, dbf, menu: _ } = &mut **field;
                self.record_type(rtype);
                self.links.field(*id, dbf.is_link());
                if !words::is_field(name) {
                    self.token("field", name);
                }
            }
            Fact::CallSite(site) => self.of_site(site),
            Fact::Circuit(circuit) => {
                let Circuit { id: _, client, server, user, host, minor: _, origin: _ } = &mut **circuit;
                self.address(client);
                self.address(server);
                self.user(user);
                self.host(host);
            }
            Fact::CircuitEnd(_)
            | Fact::ChannelEnd(_)
            | Fact::CircuitForgotten(_)
            | Fact::ChannelForgotten(_) => {}
            Fact::Channel(channel) => {
                let Channel { id, circuit, cid: _, sid: _, pv, dbr: _, count: _, origin: _ } = &mut **channel;
                self.links.channel(*id, *circuit, words::is_link_field(epics::Pv::new(pv).field));
                self.pv(pv);
            }
            Fact::ServerThread(ServerThread { thread: _, circuit: _ }) => {}
            Fact::CaPut(put) => {
                let is_link = self.links.is_channel(put.channel);
                self.payload(put, is_link);
            }
            Fact::CaAnswer(CaAnswer { circuit: _, ioid: _, notify: _, status: _, text }) => self.text(text),
            Fact::Put(put) => {
                let Put {
                    thread: _,
                    sp: _,
                    site: _,
                    kind: _,
                    record: _,
                    field,
                    dbf: _,
                    count: _,
                    requested,
                    old,
                } = &mut **put;
                let is_link = field.is_some_and(|field| self.links.is_field(field));
                self.value(requested, is_link);
                self.value(old, is_link);
            }
            Fact::Process(Process { thread: _, sp: _, site: _, record: _, active: _ })
            | Fact::RsetProcess(Process { thread: _, sp: _, site: _, record: _, active: _ }) => {}
            Fact::Complete(Complete {
                thread: _,
                sp: _,
                site: _,
                record: _,
                value,
                severity: _,
                status: _,
            }) => {
                self.value(value, false);
            }
            Fact::Cause(Cause { thread: _, sp: _, site: _, kind: _, object: _, record: _ }) => {}
            Fact::CaLinkPut(put) => {
                let CaLinkPut { thread: _, sp: _, site: _, record: _, pv, dbf: _, count: _, value } =
                    &mut **put;
                self.pv(pv);
                self.value(value, false);
            }
            Fact::Loss(Loss { source: _, count: _, since: _, cause }) => self.text(cause),
            Fact::Mark(text) => self.text(text),
            Fact::Alias(Alias { record: _, name }) => self.record(name),
            Fact::Menu(Menu { id: _, ioc: _, name, choices }) => {
                if !words::is_menu(name) {
                    self.record_type(name);
                }
                choices.iter_mut().for_each(|choice| self.choice(choice));
            }
            Fact::EnumStrings(EnumStrings { record: _, states }) => {
                // an empty one stands for no name, or for names that are not known any more
                states.iter_mut().filter(|state| !state.is_empty()).for_each(|state| self.choice(state));
            }
            Fact::ScanList(ScanList { id: _, ioc: _, kind: _, name, callback: _ }) => {
                if !words::is_period(name) && name.parse::<u8>().is_err() {
                    self.token("event", name);
                }
            }
            Fact::RecordScan(RecordScan { record: _, list: _ }) => {}
            Fact::PactCheck(PactCheck { record: _, active: _, disabled: _ }) => {}
            Fact::ChainSampling(ChainSampling { chains: _, window: _, cause }) => self.text(cause),
            Fact::ChainsLeftOut(ChainsLeftOut { record: _, count: _, since: _ }) => {}
            Fact::Pinned(Pinned { from: _, to: _, cause }) => self.text(cause),
            Fact::Unpinned(Unpinned { segments: _ }) => {}
            // the number of blocks is that of the copy (copy.rs)
            Fact::SegmentEnd(SegmentEnd { segment: _, blocks: _, last: _ }) => {}
            Fact::Attached(Attached { ioc: _, from: _, since: _, cause }) => self.text(cause),
            Fact::Detached(Detached { ioc: _, since: _, cause }) => self.text(cause),
            Fact::CircuitEnds(CircuitEnds { circuit: _, namespace: _, server: _, client: _ }) => {}
            Fact::FieldValue(FieldValue { record: _, field, value }) => {
                let is_link = self.links.is_field(*field);
                self.value(value, is_link);
            }
            Fact::Snapshot(Snapshot { record: _, value, severity: _, status: _, stamp: _ }) => {
                self.value(value, false);
            }
            Fact::Properties(properties) => self.of_properties(properties),
            Fact::SnapshotEnd(SnapshotEnd {
                ioc: _,
                since: _,
                taken: _,
                unread: _,
                left: _,
                properties_left: _,
            }) => {}
            Fact::PvaCircuit(circuit) => {
                let PvaCircuit { circuit: _, version: _, method, client_ip, server_ip } = &mut **circuit;
                if !matches!(method.as_str(), "" | "ca" | "anonymous" | "x509") {
                    self.token("method", method);
                }
                self.ip_bytes(client_ip);
                self.ip_bytes(server_ip);
            }
            Fact::PvaType(of) => self.pva_type(of),
            Fact::PvaPut(put) => {
                let PvaPut { circuit: _, channel, ioid: _, kind, options, value } = &mut **put;
                let links = match self.links.is_channel(*channel) {
                    true => pva::Links::All,
                    false => pva::Links::None,
                };
                self.pva_value(options, false, true, pva::Links::None);
                self.pva_value(value, matches!(kind, PvaKind::Put | PvaKind::PutGet), false, links);
            }
            Fact::PvaAnswer(answer) => {
                let PvaAnswer { circuit, ioid: _, kind, status: _, text, value } = &mut **answer;
                self.error_text(text);
                let links = match self.links.is_on_circuit(*circuit) {
                    true => pva::Links::ByTheirFlags,
                    false => pva::Links::None,
                };
                self.pva_value(value, matches!(kind, PvaKind::Get | PvaKind::PutGet), false, links);
            }
            Fact::PvaMonitor(PvaMonitor { circuit: _, channel: _, ioid: _, starts: _ }) => {}
            Fact::PvaMessage(PvaMessage { circuit: _, channel: _, command: _, level: _, text }) => {
                self.text(text)
            }
            Fact::Searches(searches) => self.of_searches(searches),
            Fact::SearchLoad(load) | Fact::PvaSearchLoad(load) => {
                let SearchLoad {
                    namespace: _,
                    since: _,
                    datagrams: _,
                    names: _,
                    left_out: _,
                    cut: _,
                    unread: _,
                    one_in: _,
                    most,
                } = &mut **load;
                most.iter_mut().for_each(|(sender, _)| self.address(sender));
            }
            Fact::Beacons(beacons) => self.of_beacons(beacons),
            Fact::Sender(sender) => {
                let Sender { namespace: _, client, pid: _, program, user, ioc: _ } = &mut **sender;
                self.address(client);
                self.program(program);
                self.user(user);
            }
            Fact::Registrations(Registrations {
                namespace: _,
                repeater,
                requests: _,
                confirmed: _,
                since: _,
            }) => {
                self.address(repeater);
            }
            Fact::CircuitClosed(CircuitClosed { circuit: _, reason: _, by: _ }) => {}
            Fact::ChannelClosed(ChannelClosed { channel: _, reason: _ }) => {}
            Fact::AccessRights(AccessRights { channel: _, circuit: _, rights: _ }) => {}
            Fact::CircuitPriority(CircuitPriority { circuit: _, priority: _ }) => {}
            Fact::CircuitTraffic(traffic) => {
                let CircuitTraffic {
                    circuit: _,
                    since: _,
                    from_client: _,
                    from_server: _,
                    messages: _,
                    not_looked_at: _,
                } = &**traffic;
            }
            Fact::ChannelTraffic(ChannelTraffic {
                channel: _,
                since: _,
                gets: _,
                subscriptions: _,
                updates: _,
                bytes: _,
                complete: _,
            }) => {}
            Fact::EventsOff(EventsOff { circuit: _, since: _, times: _, off: _, is_off: _ }) => {}
            Fact::EchoLate(EchoLate { circuit: _, since: _, is_answered: _ }) => {}
            Fact::CaError(CaError {
                circuit: _,
                channel: _,
                command: _,
                status: _,
                count: _,
                since: _,
                text,
            }) => {
                self.text(text);
            }
            Fact::CircuitProcess(CircuitProcess { circuit: _, holders, more: _, is_whole: _ }) => {
                holders.iter_mut().for_each(|holder| self.of_holder(holder));
            }
            Fact::ThreadNames(ThreadNames { ioc: _, names, is_whole: _ }) => {
                names.iter_mut().for_each(|name| self.thread(name));
            }
            Fact::OutputLinks(OutputLinks { record: _, links }) => {
                for OutputLink { field: _, text } in links {
                    *text = self.link(text);
                }
            }
            Fact::CaClientPut(CaClientPut { thread: _, sp: _, site: _, channel: _ }) => {}
            Fact::PvaSearches(searches) => {
                let PvaSearches { searches, guids } = &mut **searches;
                self.of_searches(searches);
                guids.iter_mut().for_each(|guid| *guid = self.secret.bytes("guid", guid));
            }
            Fact::PvaBeacons(beacons) => {
                let PvaBeacons { beacons, guid, before } = &mut **beacons;
                self.of_beacons(beacons);
                *guid = self.secret.bytes("guid", guid);
                *before = self.secret.bytes("guid", before);
            }
            Fact::ClientChannel(channel) => {
                let ClientChannel { id: _, ioc: _, address: _, cid: _, pv } = &mut **channel;
                self.pv(pv);
            }
            Fact::ClientStalled(ClientStalled { circuit: _, since: _, until: _, is_over: _ }) => {}
            Fact::Ip6(Ip6 { ip: _, bytes }) => self.ip_bytes(bytes),
            Fact::ConsoleLine(line) => {
                let ConsoleLine { thread: _, sp: _, output: _, text, cut: _, is_ended: _ } = &mut **line;
                self.text(text);
            }
            Fact::ConsoleLeftOut(ConsoleLeftOut { ioc: _, lines: _, writes: _, since: _ }) => {}
            Fact::ErrlogCall(call) => {
                let ErrlogCall { thread: _, sp: _, site: _, severity: _, format } = &mut **call;
                self.text(format);
            }
            Fact::GivingUp(giving_up) => {
                let GivingUp { thread: _, sp: _, site: _, how: _, file, line: _, expression } =
                    &mut **giving_up;
                self.file(file);
                self.text(expression);
            }
            Fact::SignalSent(signal) => self.of_signal(signal),
            Fact::Crash(crash) => self.of_crash(crash),
            Fact::Resources(resources) => {
                let Resources {
                    ioc: _,
                    period: _,
                    cpu: _,
                    waiting: _,
                    minor_faults: _,
                    major_faults: _,
                    resident: _,
                    threads: _,
                    descriptors: _,
                    udp_drops: _,
                    most: _, // of numbers
                } = &**resources;
            }
            Fact::WatchedThread(thread) => {
                let WatchedThread { id: _, ioc: _, name } = &mut **thread;
                self.thread(name);
            }
            Fact::Stuck(stuck) => self.of_stuck(stuck),
            Fact::StuckEnd(StuckEnd { id: _, ioc: _, after: _, has_ended: _ }) => {}
            Fact::ScanOverruns(ScanOverruns { ioc: _, list: _, more: _, total: _, since: _ }) => {}
            Fact::TcpConnection(connection) => {
                let TcpConnection {
                    ioc: _,
                    socket: _,
                    local,
                    remote,
                    state: _,
                    circuit: _,
                    after: _,
                    opened: _,
                    opened_after: _,
                    retransmitted: _,
                    unsent: _,
                } = &mut **connection;
                self.of_end(local);
                self.of_end(remote);
            }
            Fact::SlowClient(client) => self.of_slow_client(client),
            Fact::IoFile(file) => self.of_file(file),
            Fact::IoUse(IoUse { file: _, words: _ }) => {}
            Fact::IoFileEnd(IoFileEnd { id: _, closed: _ }) => {}
            Fact::QueueFill(fill) => {
                let QueueFill {
                    ioc: _,
                    queue: _,
                    since: _,
                    last: _,
                    is_over: _,
                    size: _,
                    used: _,
                    most: _,
                    overflows: _,
                    thread,
                    record: _,
                } = &mut **fill;
                self.thread(thread);
            }
            Fact::Container(container) => {
                let Container { ioc: _, runtime: _, id, pod, is_kubernetes: _, host_name } = &mut **container;
                self.token("container", id);
                self.token("pod", pod);
                self.host(host_name);
            }
        }
    }

    /// Of the kernel's release its version stays; the zone of the machine's clock stays.
    fn of_host(&mut self, host: &mut Host) {
        let Host { name, kernel, arch, boot_id, recorder, utc_offset: _ } = host;
        self.host(name);
        let version = |byte: char| !(byte.is_ascii_digit() || byte == '.');
        kernel.truncate(kernel.find(version).unwrap_or(kernel.len()));
        let is_machine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if arch.len() > 16 || !arch.bytes().all(is_machine) {
            self.token("machine", arch);
        }
        *boot_id = self.boot_id_text(boot_id);
        if !words::is_version(recorder) {
            self.token("version", recorder);
        }
    }

    fn of_ioc(&mut self, ioc: &mut Ioc) {
        let Ioc {
            id: _,
            pid: _,
            start: _,
            name,
            exe,
            cwd,
            command,
            base_version,
            ca_ports: _,
            linkage: _,
            not_probed,
            user,
            pva_ports: _,
            environment,
        } = ioc;
        self.ioc(name);
        self.file(exe);
        self.file(cwd);
        self.command(command);
        if !words::is_version(base_version) {
            self.token("version", base_version);
        }
        // Four sentences have a meaning for the reader; docs/format.md lists them.
        let has_meaning = |line: &str| {
            [NO_PROCESSING, NO_PUTS, NO_CONSOLE, "resources: not recorded (--no-resources)"].contains(&line)
        };
        not_probed.iter_mut().filter(|line| !has_meaning(line)).for_each(|line| self.text(line));
        self.user(user);
        environment.iter_mut().for_each(|(name, value)| self.variable(name, value));
    }

    /// A place in a library that everybody has keeps its function; in a site's own program only Base's functions do.
    fn of_site(&mut self, site: &mut CallSite) {
        let CallSite { id: _, ioc: _, address: _, function, module } = site;
        let is_public = words::is_library(module) && !module.is_empty();
        if !is_public {
            let is_extension = module.contains(".cpython-");
            self.token("module", module);
            if is_extension {
                module.push_str(".cpython-.so"); // by which the reader knows Python
            }
        }
        if !is_public && !words::is_function(function) {
            self.token("function", function);
        }
    }

    fn of_properties(&mut self, properties: &mut Properties) {
        let Properties {
            record: _,
            description,
            units,
            precision: _,
            display,
            control,
            lolo,
            low,
            high,
            hihi,
        } = properties;
        self.text(description);
        if self.choice.values != Values::Keep {
            self.token("units", units);
        }
        self.limits(display);
        self.limits(control);
        [lolo, low, high, hihi].into_iter().for_each(|limit| self.alarm_limit(limit));
    }

    fn of_searches(&mut self, searches: &mut Searches) {
        let Searches {
            namespace: _,
            client,
            tcp: _,
            name,
            count: _,
            since: _,
            last: _,
            not_found: _,
            answers,
        } = searches;
        self.address(client);
        self.pv(name);
        answers.iter_mut().for_each(|(server, _)| self.address(server));
    }

    fn of_beacons(&mut self, beacons: &mut Beacons) {
        let Beacons {
            namespace: _,
            server,
            noted: _,
            count: _,
            since: _,
            seen: _,
            last: _,
            expected: _,
            gap: _,
            version: _,
        } = beacons;
        self.address(server);
    }

    fn of_holder(&mut self, holder: &mut SocketHolder) {
        let SocketHolder { pid: _, start: _, program, command, is_cut: _, user } = holder;
        self.program(program);
        self.command(command);
        self.user(user);
    }

    /// Root's number stays.
    fn of_signal(&mut self, signal: &mut SignalSent) {
        let SignalSent {
            ioc: _,
            signal: _,
            code: _,
            from: _,
            pid: _,
            uid,
            user,
            program,
            command,
            left_out: _,
        } = signal;
        *uid = self.secret.permuted("uid", (*uid).into(), 1, u32::MAX.into()) as u32;
        self.user(user);
        self.program(program);
        self.command(command);
    }

    fn of_crash(&mut self, crash: &mut Crash) {
        let Crash {
            ioc: _,
            tid: _,
            thread,
            signal: _,
            code: _,
            address: _,
            handled: _,
            ip: _,
            sp: _,
            site: _,
            offset: _,
            record: _,
            from: _,
            bytes: _,
            frames: _,  // addresses
            records: _, // numbers
        } = crash;
        self.thread(thread);
    }

    fn of_stuck(&mut self, stuck: &mut Stuck) {
        let Stuck {
            id: _,
            ioc: _,
            tid: _,
            thread,
            after: _,
            since: _,
            wait: _,
            object,
            call: _,
            record: _,
            is_lockset: _,
            holder,
        } = stuck;
        self.thread(thread);
        match object.rsplit_once(':').map(|(address, _)| address.trim_matches(['[', ']'])) {
            Some(address) if address.parse::<std::net::IpAddr>().is_ok() => self.host(object),
            _ => self.file(object),
        }
        if let Some(Holder { tid: _, thread, record: _, is_certain: _ }) = holder {
            self.thread(thread);
        }
    }

    fn of_end(&mut self, end: &mut TcpEnd) {
        let TcpEnd { ip, port: _ } = end;
        self.ip_bytes(ip);
    }

    fn of_slow_client(&mut self, slow: &mut SlowClient) {
        let SlowClient {
            ioc: _,
            client,
            server,
            circuit: _,
            since: _,
            is_over: _,
            unsent: _,
            window_closed: _,
            updates,
            is_whole: _,
        } = slow;
        self.of_end(client);
        self.of_end(server);
        for Updates { pv, pending: _, replaced: _ } in updates.iter_mut().flatten() {
            self.pv(pv);
        }
    }

    fn of_file(&mut self, file: &mut IoFile) {
        let IoFile {
            id: _,
            ioc: _,
            how,
            since: _,
            descriptor: _,
            flags: _,
            mode: _,
            name,
            is_cut: _,
            is_unplaced: _,
        } = file;
        match how {
            // the recorder's reason why there is no more
            FileHow::Process => {
                let mut reason = epics::pva::cursor::text(name);
                self.text(&mut reason);
                *name = reason.into_bytes();
            }
            FileHow::Others
            | FileHow::Opened
            | FileHow::Failed
            | FileHow::Named
            | FileHow::Socket
            | FileHow::Accepted
            | FileHow::Found => self.file_bytes(name),
        }
    }
}
