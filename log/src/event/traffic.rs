//! Traffic beside puts: searches, beacons, ends of circuits and channels, requests, slow clients.
//!
//! Most of it is counted, not listed: a fact stands for everything since its `since`, and its time is that of counting
//! up. A recorder sees only what passes its own interfaces: other hosts' broadcasts, but not the answers
//! between two other hosts.

use super::definitions::Address;
use super::ids::*;
use super::life::{Ended, OwnedBy, Whole};
use serde::{Deserialize, Serialize};

/// Requests from one sender for one name, and the answers to them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Searches {
    /// Inode number of the network namespace in which they were seen; 0 where not known.
    pub namespace: u64,
    /// The sender: its UDP socket, or with `tcp` the client's end of a circuit to a name server.
    pub client: Address,
    /// Whether they came on a circuit.
    pub tcp: bool,
    /// The PV name.
    pub name: String,
    /// Number of requests.
    pub count: u32,
    /// Monotonic time of the first of them. If there are none but answers, that of the first answer.
    pub since: u64,
    /// Monotonic time of the last request or answer.
    pub last: u64,
    /// Number of answers that the name is not there (NOT_FOUND); only name servers send them.
    pub not_found: u32,
    /// The servers that said to have it, and the number of their answers.
    pub answers: Vec<(Address, u32)>,
}

/// All datagrams at Channel Access ports in a network namespace: written when they begin to be read there, every ten
/// minutes, and every ten seconds while there are many searches, or something of them is in no other fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchLoad {
    /// See [`Searches::namespace`].
    pub namespace: u64,
    /// Monotonic time of the beginning of the count.
    pub since: u64,
    /// Number of datagrams that were read.
    pub datagrams: u64,
    /// Number of requests for names in them.
    pub names: u64,
    /// Number of those that no [`Searches`] counts, because too many names or senders were in use.
    pub left_out: u64,
    /// Number of read datagrams whose end was not looked at: names there are in no count.
    pub cut: u64,
    /// Number of datagrams that were lost between the kernel and the recorder.
    pub unread: u64,
    /// One datagram in so many was read, chosen by chance, during all of this time; 1 if none was skipped.
    pub one_in: u32,
    /// The senders of the most names, if there were many. Exact while no more than 64 were busy; else a number may be too
    /// high, but none is too low.
    pub most: Vec<(Address, u64)>,
}

/// Why a count of beacons was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BeaconsNoted {
    /// The server's first beacon that the recorder saw.
    First,
    /// The counts so far; nothing is unusual.
    InStep,
    /// The number of the last beacon did not follow that of the one before: the server was started again, beacons were
    /// lost, or two servers share an address.
    OutOfStep,
    /// The time since the beacon before was much shorter than usual.
    Early,
    /// None has come for longer than usual. The count may be 0.
    Overdue,
    /// The first one after some were overdue.
    Again,
    /// The server has another GUID than before: it was started again, or another one has its address. Only servers of
    /// PVAccess have GUIDs.
    Restarted,
}

/// Beacons of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beacons {
    /// See [`Searches::namespace`].
    pub namespace: u64,
    /// The server, as the beacons say.
    pub server: Address,
    /// Why it was written now.
    pub noted: BeaconsNoted,
    /// Number of beacons.
    pub count: u32,
    /// Monotonic time of the first of them; of the last known one if there are none.
    pub since: u64,
    /// Monotonic time of the last one.
    pub seen: u64,
    /// The number (beacon id) that the last of them carries.
    pub last: u32,
    /// The number that was expected there: one more than that of the beacon before it. The same as `last` where none
    /// was known before.
    pub expected: u32,
    /// Nanoseconds from the beacon before to the last one; 0 if not known.
    pub gap: u64,
    /// The protocol's minor version that they claim.
    pub version: u16,
}

/// Searches of PVAccess.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PvaSearches {
    /// As for Channel Access, but the client is where it wants answers.
    pub searches: Searches,
    /// The GUID (12 bytes) of each server in the answers, in their order: servers with several addresses have one.
    pub guids: Vec<Vec<u8>>,
}

/// Beacons of one server of PVAccess.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PvaBeacons {
    /// As for Channel Access. Their numbers end at 255 and begin again.
    pub beacons: Beacons,
    /// The server's GUID, 12 bytes.
    pub guid: Vec<u8>,
    /// The GUID before it, if this was noted because it changed; else empty.
    pub before: Vec<u8>,
}

/// The process behind a sender of searches, if its socket is on the recorded machine and was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// See [`Searches::namespace`].
    pub namespace: u64,
    /// The UDP socket.
    pub client: Address,
    /// The process, by its id in the recorder's namespace.
    pub pid: u32,
    /// Its program: the first words of its command line.
    pub program: String,
    /// The name of the user who made the socket, or the number.
    pub user: String,
    /// The recorded IOC that it is, if it is one.
    pub ioc: Option<IocId>,
}

/// Clients that registered at a CA repeater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registrations {
    /// See [`Searches::namespace`].
    pub namespace: u64,
    /// The repeater.
    pub repeater: Address,
    /// Number of requests.
    pub requests: u32,
    /// Number of confirmations.
    pub confirmed: u32,
    /// Monotonic time of the first of them.
    pub since: u64,
}

/// An end of a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CircuitSide {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// How a circuit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CloseReason {
    /// Both sides closed it (FIN).
    Closed,
    /// One side broke it off (RST).
    Reset,
    /// A new connection between the same ends was opened.
    Replaced,
    /// The recorder forgot it, because it can keep only so many. It may be open.
    Forgotten,
    /// One side closed it (FIN), and the other side did not within a minute.
    HalfClosed,
    /// Its packets are no longer taken there, but perhaps at the server, under another number. It may be open.
    NotCaptured,
    /// Its packets are taken at the server from now on, under another number. (No recorder has written it yet.)
    Moved,
}

/// A circuit's end, written before its `CircuitEnd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CircuitClosed {
    /// The circuit.
    pub circuit: CircuitId,
    /// How it ended.
    pub reason: CloseReason,
    /// The side that closed it, or closed it first; `None` if neither did, or if that was not seen.
    pub by: Option<CircuitSide>,
}

/// How a channel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ChannelReason {
    /// The client closed it (CLEAR_CHANNEL).
    Cleared,
    /// The server refused to make it (CREATE_CH_FAIL).
    Refused,
    /// The server ended it (SERVER_DISCONN; DESTROY_CHANNEL of PVAccess that the client had not asked for).
    Disconnected,
    /// Its numbers belong to another channel now: its end was not seen.
    Replaced,
    /// The recorder forgot it, because it can keep only so many. It may be open.
    Forgotten,
}

/// A channel's end on a circuit that goes on, written before its `ChannelEnd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelClosed {
    /// The channel.
    pub channel: ChannelId,
    /// How it ended.
    pub reason: ChannelReason,
}

/// What a client may do with a channel (ACCESS_RIGHTS). Written if that is less than reading and writing, and when it
/// changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessRights {
    /// The channel.
    pub channel: ChannelId,
    /// Its circuit.
    pub circuit: CircuitId,
    /// 1: read; 2: write; 3: both.
    pub rights: u16,
}

impl Whole for AccessRights {
    const OWNED_BY: OwnedBy = OwnedBy::Circuit;

    fn key(&self) -> u32 {
        self.channel
    }

    fn owner(&self) -> u32 {
        self.circuit
    }

    fn ended_by(ended: Ended) -> Option<u32> {
        match ended {
            Ended::Channel(id) => Some(id),
            _ => None,
        }
    }

    fn heap(&self) -> usize {
        0
    }
}

/// The priority that the client asked for. Written if it is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CircuitPriority {
    /// The circuit.
    pub circuit: CircuitId,
    /// 1 to 99.
    pub priority: u16,
}

impl Whole for CircuitPriority {
    const OWNED_BY: OwnedBy = OwnedBy::Run;

    fn key(&self) -> u32 {
        self.circuit
    }

    fn ended_by(ended: Ended) -> Option<u32> {
        match ended {
            Ended::Circuit(id) => Some(id),
            _ => None,
        }
    }

    fn heap(&self) -> usize {
        0
    }
}

/// A kind of message, as [`CircuitTraffic`] counts them. (In the order of the protocol's commands.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Message {
    /// EVENT_ADD from the client: a subscription.
    Subscribe,
    /// EVENT_CANCEL from the client: its end.
    Unsubscribe,
    /// EVENT_ADD from the server: an update.
    Update,
    /// READ or READ_NOTIFY from the client.
    Get,
    /// The server's answer.
    GetAnswer,
    /// WRITE or WRITE_NOTIFY.
    Put,
    /// EVENTS_OFF.
    EventsOff,
    /// EVENTS_ON.
    EventsOn,
    /// ERROR.
    Error,
    /// CLEAR_CHANNEL from the client.
    Clear,
    /// CREATE_CHAN from the client.
    Create,
    /// CREATE_CH_FAIL.
    CreateFailed,
    /// SERVER_DISCONN.
    Disconnect,
    /// ECHO from the client.
    Echo,
    /// ECHO from the server.
    EchoAnswer,
    /// SEARCH from the client.
    Search,
    /// NOT_FOUND from the server.
    NotFound,
    /// Any other.
    Other,
}

/// What went over a circuit since `since`. Written about once a minute, for the busiest circuits, and at the end of one
/// that was open for more than a second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CircuitTraffic {
    /// The circuit.
    pub circuit: CircuitId,
    /// Monotonic time of the beginning of the count.
    pub since: u64,
    /// Bytes that the client sent, whether captured or not.
    pub from_client: u64,
    /// Bytes that the server sent, whether captured or not.
    pub from_server: u64,
    /// The messages that were seen, by kind.
    pub messages: Vec<(Message, u32)>,
    /// Bytes from the server that hold messages which were not looked at, mostly updates and answers to gets: the socket
    /// filter leaves them out. Unless it is 0, the numbers of updates and of answers are lower bounds.
    pub not_looked_at: u64,
}

/// What was asked for on a channel since `since`. Written about once a minute, for the busiest channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelTraffic {
    /// The channel.
    pub channel: ChannelId,
    /// Monotonic time of the beginning of the count.
    pub since: u64,
    /// Number of gets.
    pub gets: u32,
    /// Number of new subscriptions.
    pub subscriptions: u32,
    /// Number of updates that were seen, or counted where a filter leaves them out.
    pub updates: u64,
    /// Bytes of those, headers included.
    pub bytes: u64,
    /// Whether these are all updates. If not, `updates` and `bytes` are lower bounds.
    pub complete: bool,
}

/// A client asked its server to send no updates, since it could not keep up (EVENTS_OFF and EVENTS_ON).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsOff {
    /// The circuit.
    pub circuit: CircuitId,
    /// Monotonic time of the beginning of the count.
    pub since: u64,
    /// Number of times since then.
    pub times: u32,
    /// Nanoseconds during which updates were off since then.
    pub off: u64,
    /// Whether they are off now.
    pub is_off: bool,
}

/// A client has taken nothing from its circuit for a while: its window was closed, and the server tried in vain to send
/// more. Written when that has lasted for a second or longer, again while it lasts, and when it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientStalled {
    /// The circuit.
    pub circuit: CircuitId,
    /// Monotonic time at which its window was first seen closed.
    pub since: u64,
    /// Monotonic time at which it was last seen closed; if it is over, at which it was first seen open, or the circuit
    /// ended.
    pub until: u64,
    /// Whether it is over.
    pub is_over: bool,
}

/// A server did not answer an ECHO within five seconds, after which clients call it unresponsive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EchoLate {
    /// The circuit.
    pub circuit: CircuitId,
    /// Monotonic time of the ECHO.
    pub since: u64,
    /// Whether it is answered now; if not, the server has not answered so far.
    pub is_answered: bool,
}

/// An ERROR from the server about anything but a put.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaError {
    /// The circuit.
    pub circuit: CircuitId,
    /// The channel of the request, if it is known.
    pub channel: Option<ChannelId>,
    /// The command of the request ([`CircuitTraffic`] counts all; this is the protocol's number).
    pub command: u16,
    /// ECA status code ([`epics::eca`]).
    pub status: u32,
    /// Number of such errors, up to this one.
    pub count: u32,
    /// Monotonic time of the first of them.
    pub since: u64,
    /// The text of the latest.
    pub text: String,
}
