//! Kinds of losses of PVAccess.

use crate::net::losses;

/// Kinds of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes that were not captured, or after what answers them.
    Gap,
    /// Bytes in which no messages could be found, or that could not be understood.
    Unframed,
    /// Bytes of other protocols on PVAccess ports.
    Foreign,
    /// Bytes of encrypted circuits.
    Encrypted,
    /// Circuits that had to be forgotten while open.
    Circuits,
    /// Channels and requests that had to be forgotten while open.
    Channels,
    /// Types that had to be forgotten.
    Types,
    /// TCP segments that are not what they say.
    Unbelieved,
    /// Segments of clients on connections of which the server has shown nothing.
    Unconfirmed,
}

impl losses::Kind for Kind {
    const ALL: &'static [Kind] = &[
        Kind::Gap,
        Kind::Unframed,
        Kind::Foreign,
        Kind::Encrypted,
        Kind::Circuits,
        Kind::Channels,
        Kind::Types,
        Kind::Unbelieved,
        Kind::Unconfirmed,
    ];

    fn what(self) -> &'static str {
        match self {
            Kind::Gap => "bytes of PVAccess were not captured, or too late",
            Kind::Unframed => "bytes are not PVAccess messages, or their beginning was not seen",
            Kind::Foreign => "bytes of something else than PVAccess, ignored",
            Kind::Encrypted => "bytes are encrypted (TLS): puts over PVAccess can't be seen in them",
            Kind::Circuits => "PVAccess circuits forgotten: more are open than are kept",
            Kind::Channels => "PVAccess channels or requests forgotten: more are open than are kept",
            Kind::Unconfirmed => {
                "TCP segments to servers that did not confirm them, on connections whose opening was not seen: not decoded"
            }
            Kind::Unbelieved => "TCP segments not believed: they do not fit their PVAccess circuit",
            Kind::Types => "PVAccess types forgotten: more are in use than are kept",
        }
    }

    fn is_foreign(self) -> bool {
        matches!(self, Kind::Foreign | Kind::Encrypted)
    }
}
