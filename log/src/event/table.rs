//! The one table of facts: the number, name and class of each, and the store of each definition.

use super::connections::*;
use super::deaths::*;
use super::definitions::*;
use super::files::*;
use super::health::*;
use super::hits::*;
use super::ids::*;
use super::life::Ended;
use super::notes::*;
use super::queues::*;
use super::resources::*;
use super::stuck::*;
use super::traffic::*;
use serde::{Deserialize, Serialize};

/// The class of a fact: its bearing on order and loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Gives a number its meaning. It must stay before all facts that were pushed after it.
    Definition,
    /// Takes a number's meaning away. It must stay after all facts that were pushed before it.
    End,
    /// Something happened. Hits come in thousands, and the recorder may drop them if the disk is too slow.
    Hit,
    /// Something happened that people should know about. Never dropped.
    Note,
    /// The writer's report on the log itself.
    Storage,
}

impl Class {
    /// Whether the meaning of numbers depends on the order of such a fact among others.
    pub fn defines(self) -> bool {
        matches!(self, Class::Definition | Class::End)
    }
}

/// Properties of all facts of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The number in a log: the index of its variant in [`Fact`].
    pub number: u16,
    /// The name of its variant in [`Fact`], as in docs/format.md.
    pub variant: &'static str,
    /// The name in JSON, as in the counts of `iocreplay info`. It never changes, even if the variant is renamed.
    pub name: &'static str,
    /// Its class.
    pub class: Class,
}

/// Passes the table to a macro. Columns: number, variant and content, name in JSON, class; for a definition also the
/// name and type of its store in the [`context`](crate::context). Large contents are boxed ([`Event`](super::Event) says
/// why). Add rows only at the end.
macro_rules! for_each_fact {
    ($macro:ident) => {
        $macro! {
            /// The machine that the recorder runs on.
            0 Host(Box<Host>) "host" Definition in host: Latest<Host>;
            /// The reading of the wall clock.
            1 Clock(Clock) "clock" Definition in clocks: Clocks;
            /// The tier in use, and the reasons against better ones.
            2 Tier(TierChoice) "tier" Definition in tier: Latest<TierChoice>;
            /// An IOC, or another process that serves Channel Access.
            3 Ioc(Box<Ioc>) "ioc" Definition in iocs: Table<Ioc>;
            /// An IOC has ended.
            4 IocEnd(IocEnd) "ioc_end" End;
            /// A thread of an IOC.
            5 Thread(Thread) "thread" Definition in threads: Table<Thread>;
            /// A record of an IOC.
            6 Record(Box<Record>) "record" Definition in records: Records;
            /// A field of a record type in an IOC.
            7 Field(Box<Field>) "field" Definition in fields: Table<Field>;
            /// A place in an IOC's code that calls a probed function.
            8 CallSite(Box<CallSite>) "site" Definition in call_sites: Table<CallSite>;
            /// A Channel Access circuit: one TCP connection.
            9 Circuit(Box<Circuit>) "circuit" Definition in circuits: Table<Circuit>;
            /// A circuit was closed, and its channels with it.
            10 CircuitEnd(CircuitId) "circuit_end" End;
            /// A channel on a circuit.
            11 Channel(Box<Channel>) "channel" Definition in channels: Table<Channel>;
            /// A channel was cleared.
            12 ChannelEnd(ChannelId) "channel_end" End;
            /// A thread of an IOC serves a circuit.
            13 ServerThread(ServerThread) "serves" Definition in server_threads: Table<ServerThread>;
            /// A put seen on the network.
            14 CaPut(CaPut) "ca_put" Hit;
            /// A server's answer to a put, seen on the network.
            15 CaAnswer(CaAnswer) "ca_answer" Hit;
            /// A put seen inside the IOC.
            16 Put(Box<Put>) "put" Hit;
            /// `dbProcess` was entered.
            17 Process(Process) "process" Hit;
            /// `recGblFwdLink` was entered: the record has finished processing.
            18 Complete(Complete) "complete" Hit;
            /// Something asked for processing to be done later or elsewhere.
            19 Cause(Cause) "cause" Hit;
            /// A record's CA link wrote to its target.
            20 CaLinkPut(Box<CaLinkPut>) "ca_link_put" Hit;
            /// Something was lost.
            21 Loss(Loss) "loss" Note;
            /// An operator's note.
            22 Mark(String) "mark" Note;
            /// An alias of a record.
            23 Alias(Alias) "alias" Definition in aliases: Table<Alias>;
            /// The choices of a menu, or of a record type's device support.
            24 Menu(Menu) "menu" Definition in menus: Table<Menu>;
            /// The enum strings of a bi, bo, mbbi or mbbo record.
            25 EnumStrings(EnumStrings) "states" Definition in enum_strings: Table<EnumStrings>;
            /// A list of records that an IOC processes together.
            26 ScanList(ScanList) "scan_list" Definition in scan_lists: Table<ScanList>;
            /// The list that a record is on.
            27 RecordScan(RecordScan) "scanned" Definition in record_scans: Table<RecordScan>;
            /// The recorder looked at the PACT of a record that was not seen to complete.
            28 PactCheck(PactCheck) "inspected" Hit;
            /// Number of chains that are kept from now on (chain sampling).
            29 ChainSampling(ChainSampling) "thinning" Definition in chain_sampling: Latest<ChainSampling>;
            /// Chains that chain sampling left out.
            30 ChainsLeftOut(ChainsLeftOut) "thinned" Note;
            /// A record type's process routine (`rset->process`) was entered, in an IOC whose `dbProcess` cannot be
            /// found. `active`: the record was already active, so it continues what it has begun.
            31 RsetProcess(Process) "routine" Hit;
            /// Segments are pinned, that is, kept when older ones are deleted.
            32 Pinned(Pinned) "pinned" Storage;
            /// Segments are no longer pinned.
            33 Unpinned(Unpinned) "unpinned" Storage;
            /// A segment was closed in good order.
            34 SegmentEnd(SegmentEnd) "ended" Storage;
            /// An IOC's hits are recorded from now on.
            35 Attached(Attached) "attached" Definition in attached: Table<Attached>;
            /// An IOC's hits are no longer recorded, though it lives.
            36 Detached(Detached) "detached" End;
            /// The recorded processes at the ends of a circuit.
            37 CircuitEnds(CircuitEnds) "circuit_ends" Definition in circuit_ends: Table<CircuitEnds>;
            /// A field's value some time after a put.
            38 FieldValue(FieldValue) "field_value" Hit;
            /// A record's value and alarm in the IOC's memory.
            39 Snapshot(Snapshot) "snapshot" Hit;
            /// A record's description, units and limits. A keyframe does not repeat it; the next snapshot does.
            40 Properties(Box<Properties>) "properties" Hit;
            /// An IOC's records were read for a snapshot.
            41 SnapshotEnd(SnapshotEnd) "snapshot_end" Hit;
            /// A circuit speaks PVAccess.
            42 PvaCircuit(Box<PvaCircuit>) "pva_circuit" Definition in pva_circuits: Table<PvaCircuit>;
            /// A type of PVAccess values.
            43 PvaType(PvaType) "pva_type" Definition in pva_types: Table<PvaType>;
            /// A PVAccess request that writes, processes or calls.
            44 PvaPut(Box<PvaPut>) "pva_put" Hit;
            /// The answer to a PVAccess request.
            45 PvaAnswer(Box<PvaAnswer>) "pva_answer" Hit;
            /// A PVAccess monitor starts or stops.
            46 PvaMonitor(PvaMonitor) "pva_monitor" Hit;
            /// A PVAccess server's message.
            47 PvaMessage(PvaMessage) "pva_message" Note;
            /// Searches for a name.
            48 Searches(Box<Searches>) "searches" Hit;
            /// All searches, when they are many or not all are counted by name.
            49 SearchLoad(Box<SearchLoad>) "search_load" Hit;
            /// Beacons of a server.
            50 Beacons(Beacons) "beacons" Hit;
            /// The process that searches.
            51 Sender(Box<Sender>) "sender" Hit;
            /// Registrations at a repeater.
            52 Registrations(Registrations) "registrations" Hit;
            /// How a circuit ended.
            53 CircuitClosed(CircuitClosed) "circuit_closed" Hit;
            /// How a channel ended.
            54 ChannelClosed(ChannelClosed) "channel_closed" Hit;
            /// What a client may do with a channel.
            55 AccessRights(AccessRights) "access_rights" Definition in access_rights: Table<AccessRights>;
            /// A circuit's priority.
            56 CircuitPriority(CircuitPriority) "circuit_priority" Definition in priorities: Table<CircuitPriority>;
            /// What went over a circuit.
            57 CircuitTraffic(Box<CircuitTraffic>) "circuit_traffic" Hit;
            /// What was asked for on a channel.
            58 ChannelTraffic(ChannelTraffic) "channel_traffic" Hit;
            /// A client could not keep up.
            59 EventsOff(EventsOff) "events_off" Hit;
            /// A server did not answer an ECHO.
            60 EchoLate(EchoLate) "echo_late" Hit;
            /// A server refused a request.
            61 CaError(CaError) "ca_error" Hit;
            /// The recorder has forgotten a circuit that is open, and its channels with it: more were open than it keeps.
            /// If it sees the circuit again, it gives it another number, and does not know the names of its channels.
            62 CircuitForgotten(CircuitId) "circuit_forgotten" End;
            /// The recorder has forgotten a channel that is open: more were open than it keeps.
            63 ChannelForgotten(ChannelId) "channel_forgotten" End;
            /// The processes behind a circuit's client.
            64 CircuitProcess(CircuitProcess) "circuit_process" Definition in processes: Table<CircuitProcess>;
            /// The names of an IOC's threads.
            65 ThreadNames(ThreadNames) "thread_names" Definition in thread_names: Table<ThreadNames>;
            /// The links of a record that write over Channel Access.
            66 OutputLinks(OutputLinks) "output_links" Definition in output_links: Table<OutputLinks>;
            /// An IOC's thread asked libca to put.
            67 CaClientPut(CaClientPut) "ca_client_put" Hit;
            /// Searches of PVAccess for a name.
            68 PvaSearches(Box<PvaSearches>) "pva_searches" Hit;
            /// All datagrams of PVAccess.
            69 PvaSearchLoad(Box<SearchLoad>) "pva_search_load" Hit;
            /// Beacons of a server of PVAccess.
            70 PvaBeacons(Box<PvaBeacons>) "pva_beacons" Hit;
            /// A channel to which an IOC's threads put as clients.
            71 ClientChannel(Box<ClientChannel>) "client_channel" Definition in client_channels: Table<ClientChannel>;
            /// A client has taken nothing from its circuit for a while.
            72 ClientStalled(ClientStalled) "client_stalled" Hit;
            /// An IPv6 address, and the IP address that stands for it.
            73 Ip6(Ip6) "ip6" Definition in ip6: Table<Ip6>;
            /// An IOC wrote a line to its console.
            74 ConsoleLine(Box<ConsoleLine>) "console" Hit;
            /// Lines of the console were left out.
            75 ConsoleLeftOut(ConsoleLeftOut) "console_left_out" Note;
            /// A thread sent a message to errlog.
            76 ErrlogCall(Box<ErrlogCall>) "errlog_call" Hit;
            /// A thread ended the process, or gave itself up.
            77 GivingUp(Box<GivingUp>) "giving_up" Note;
            /// A signal was sent to an IOC.
            78 SignalSent(Box<SignalSent>) "signal_sent" Note;
            /// A thread of an IOC got a deadly signal, or its own fault was handed to a handler. The last of each IOC is in
            /// force until the IOC ends.
            79 Crash(Box<Crash>) "crash" Definition in crashes: Table<Crash>;
            /// What an IOC has used of the machine.
            80 Resources(Box<Resources>) "resources" Hit;
            /// The name of threads in them.
            81 WatchedThread(Box<WatchedThread>) "watched_thread" Definition in watched_threads: Table<WatchedThread>;
            /// A thread stands still though it should run.
            82 Stuck(Box<Stuck>) "stuck" Definition in stuck: Table<Stuck>;
            /// A thread that stood still runs again, or has ended.
            83 StuckEnd(StuckEnd) "stuck_end" End;
            /// Periodic scans came too late.
            84 ScanOverruns(ScanOverruns) "scan_overruns" Note;
            /// A TCP connection of an IOC began, changed or ended.
            85 TcpConnection(Box<TcpConnection>) "tcp_connection" Note;
            /// A client does not take what waits for it.
            86 SlowClient(Box<SlowClient>) "slow_client" Note;
            /// One open of a file, or a socket.
            87 IoFile(Box<IoFile>) "io_file" Definition in io_files: Table<IoFile>;
            /// What changed of its counters.
            88 IoUse(IoUse) "io_use" Hit;
            /// It has no descriptor any longer.
            89 IoFileEnd(IoFileEnd) "io_file_end" End;
            /// A queue of callbacks fills or overflows.
            90 QueueFill(Box<QueueFill>) "queue_fill" Note;
            /// The container that an IOC runs in.
            91 Container(Box<Container>) "container" Definition in containers: Table<Container>;
        }
    };
}
pub(crate) use for_each_fact;

/// Makes [`Fact`] and the properties of its kinds.
macro_rules! fact {
    ($($(#[$doc:meta])* $number:literal $variant:ident($content:ty) $name:literal $class:ident
        $(in $store:ident: $kept:ty)?;)*) => {
        /// Any fact that a log can hold.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub enum Fact {
            $($(#[$doc])* $variant($content),)*
        }

        impl Fact {
            /// All kinds, in the order of their numbers.
            pub const KINDS: &'static [Kind] = &[
                $(Kind { number: $number, variant: stringify!($variant), name: $name, class: Class::$class },)*
            ];

            /// Its kind's number in a log.
            pub const fn number(&self) -> u16 {
                match self {
                    $(Fact::$variant(_) => $number,)*
                }
            }

            /// Its class.
            pub const fn class(&self) -> Class {
                match self {
                    $(Fact::$variant(_) => Class::$class,)*
                }
            }
        }
    };
}
for_each_fact!(fact);

impl Fact {
    /// Its kind.
    pub fn kind(&self) -> &'static Kind {
        &Fact::KINDS[usize::from(self.number())]
    }

    /// The thing that it ends, if it is an end.
    pub fn ended(&self) -> Option<Ended> {
        match self {
            Fact::IocEnd(end) => Some(Ended::Ioc(end.ioc)),
            Fact::Detached(detached) => Some(Ended::Recording(detached.ioc)),
            Fact::CircuitEnd(circuit) | Fact::CircuitForgotten(circuit) => Some(Ended::Circuit(*circuit)),
            Fact::ChannelEnd(channel) | Fact::ChannelForgotten(channel) => Some(Ended::Channel(*channel)),
            Fact::StuckEnd(end) => Some(Ended::Stuck(end.id)),
            Fact::IoFileEnd(end) => Some(Ended::File(end.id)),
            _ => None,
        }
    }
}

// The number of a kind is the index of its variant, which serde encodes.
const _: () = {
    let mut place = 0;
    while place < Fact::KINDS.len() {
        assert!(Fact::KINDS[place].number as usize == place);
        place += 1;
    }
};

/// Makes facts of contents that are boxed.
macro_rules! boxed {
    ($($content:ident)*) => {
        $(impl From<$content> for Fact {
            fn from(content: $content) -> Self {
                Fact::$content(Box::new(content))
            }
        })*
    };
}
boxed!(Host Ioc Record Field CallSite Circuit Channel ClientChannel Put CaLinkPut Searches SearchLoad Sender CircuitTraffic
    PvaSearches PvaBeacons PvaCircuit ConsoleLine ErrlogCall GivingUp SignalSent Crash Resources WatchedThread Stuck TcpConnection SlowClient
    IoFile QueueFill Container);

// Readers hold a hundred thousand events, so one large fact must not make all events large.
const _: () = assert!(size_of::<Fact>() <= 64);
