//! Kinds of losses of Channel Access.

use crate::net::losses;

/// Kinds of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes that were not captured, or after what answers them.
    Gap,
    /// Bytes in which no messages could be found.
    Unframed,
    /// Bytes of other protocols on Channel Access ports.
    Foreign,
    /// Circuits that had to be forgotten while open.
    Circuits,
    /// Channels that had to be forgotten while open.
    Channels,
    /// Subscriptions whose updates are not counted.
    Uncounted,
    /// Segments of data that are not believed.
    ForgedData,
    /// Segments of clients on connections of which the server has shown nothing.
    Unconfirmed,
    /// Segments that were sent again with other bytes.
    ChangedData,
    /// Resets that are not believed.
    ForgedResets,
    /// Openings of circuits that were open.
    ForgedOpenings,
}

impl losses::Kind for Kind {
    const ALL: &'static [Kind] = &[
        Kind::Gap,
        Kind::Unframed,
        Kind::Foreign,
        Kind::Circuits,
        Kind::Channels,
        Kind::Uncounted,
        Kind::ForgedData,
        Kind::Unconfirmed,
        Kind::ChangedData,
        Kind::ForgedResets,
        Kind::ForgedOpenings,
    ];

    fn what(self) -> &'static str {
        match self {
            Kind::Gap => "bytes were not captured, or too late",
            Kind::Unframed => "bytes are not Channel Access messages, or their beginning was not seen",
            Kind::Foreign => "bytes of something else than Channel Access, ignored",
            Kind::Circuits => "circuits forgotten: more are open than are kept",
            Kind::Channels => "channels forgotten: more are open than are kept",
            Kind::Uncounted => "subscriptions whose updates are not counted: more are open than are kept",
            Kind::ForgedData => {
                "TCP segments not believed: they fit neither what was sent nor what was acknowledged"
            }
            Kind::Unconfirmed => {
                "TCP segments to servers that did not confirm them, on connections whose opening was not seen: not decoded"
            }
            Kind::ChangedData => "TCP segments repeated with other bytes: the first ones are shown, the receiver may have taken the others",
            Kind::ForgedResets => {
                "TCP resets not believed: they lack the sequence number that a reset must have"
            }
            Kind::ForgedOpenings => {
                "TCP openings of circuits that are open: nothing changes unless they are answered"
            }
        }
    }

    fn is_foreign(self) -> bool {
        self == Kind::Foreign
    }
}
