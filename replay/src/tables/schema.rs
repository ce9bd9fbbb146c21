//! The columns of all tables, once. docs/tables.md describes them; columns never change, new ones come at the end.

use Kind::{Bool, Double, Int, Ints, Text, Texts, Time};

/// Types of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nanoseconds since 1970 UTC, as a time.
    Time,
    /// A 64-bit integer.
    Int,
    /// A double.
    Double,
    /// True or false.
    Bool,
    /// Text.
    Text,
    /// A list of doubles.
    Doubles,
    /// A list of 64-bit integers.
    Ints,
    /// A list of texts.
    Texts,
}

impl Kind {
    /// Its name in docs/tables.md.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Time => "time",
            Kind::Int => "int64",
            Kind::Double => "double",
            Kind::Bool => "bool",
            Kind::Text => "text",
            Kind::Doubles => "list(double)",
            Kind::Ints => "list(int64)",
            Kind::Texts => "list(text)",
        }
    }
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Whether it can be null.
    pub nullable: bool,
}

/// A table.
#[derive(Debug)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Its columns in their order.
    pub columns: &'static [Column],
}

/// Number of columns of a value, see `value!`.
pub const VALUE_COLUMNS: usize = 8;

/// A column that is never null.
const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, nullable: false }
}

/// A column that may be null.
const fn maybe(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, nullable: true }
}

/// A list of columns; `value "X"` stands for those of a value, which are null if it is not known.
macro_rules! columns {
    (@more [$($done:expr,)*]) => { &[
        column("time", Time),
        column("time_ns", Int),
        maybe("host", Text),
        maybe("ioc", Text),
        column("run", Text),
        $($done,)*
    ] };
    (@more [$($done:expr,)*] value $name:literal, $($rest:tt)*) => { columns!(@more [
        $($done,)*
        maybe(concat!($name, "_num"), Double),
        maybe(concat!($name, "_int"), Int),
        maybe(concat!($name, "_str"), Text),
        maybe(concat!($name, "_array"), Kind::Doubles),
        maybe(concat!($name, "_array_int"), Ints),
        maybe(concat!($name, "_array_str"), Texts),
        maybe(concat!($name, "_count"), Int),
        maybe(concat!($name, "_cut"), Bool),
    ] $($rest)*) };
    (@more [$($done:expr,)*] $name:literal: $kind:ident?, $($rest:tt)*) => {
        columns!(@more [$($done,)* maybe($name, $kind),] $($rest)*)
    };
    (@more [$($done:expr,)*] $name:literal: $kind:ident, $($rest:tt)*) => {
        columns!(@more [$($done,)* column($name, $kind),] $($rest)*)
    };
    ($($all:tt)*) => { columns!(@more [] $($all)*) };
}

/// The tables, each with its number in `TABLES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // docs/tables.md
pub enum Of {
    Puts,
    Processing,
    Values,
    Alarms,
    Chains,
    Circuits,
    Iocs,
    Losses,
    Health,
}

impl Of {
    /// All of them.
    pub const ALL: [Of; 9] = [
        Of::Puts,
        Of::Processing,
        Of::Values,
        Of::Alarms,
        Of::Chains,
        Of::Circuits,
        Of::Iocs,
        Of::Losses,
        Of::Health,
    ];

    /// The table.
    pub fn table(self) -> &'static Table {
        match self {
            Of::Puts => &PUTS,
            Of::Processing => &PROCESSING,
            Of::Values => &VALUES,
            Of::Alarms => &ALARMS,
            Of::Chains => &CHAINS,
            Of::Circuits => &CIRCUITS,
            Of::Iocs => &IOCS,
            Of::Losses => &LOSSES,
            Of::Health => &HEALTH,
        }
    }

    /// Whether its rows are made in the pass over all chains.
    pub fn is_of_chains(self) -> bool {
        matches!(self, Of::Puts | Of::Processing | Of::Values | Of::Chains)
    }

    /// The table of this name.
    pub fn find(name: &str) -> Option<Of> {
        Of::ALL.into_iter().find(|of| of.table().name == name)
    }
}

static PUTS: Table = Table {
    name: "puts",
    columns: columns! {
        "chain": Text, "pv": Text?, "record": Text?, "field": Text?, "rtype": Text?, "user": Text?,
        "client_host": Text?, "client": Text?, "server": Text?, "via": Text, "from_outside": Bool, "dbr": Text?,
        "count": Int?, value "requested", value "old", value "new", "inexact": Bool, "status": Text,
        "message": Text?, "callback_ms": Double?, "thread": Text?, "source": Text, "cause_record": Text?,
        "client_ioc": Text?, "protocol": Text?, "request": Text?, "process_host": Text?, "process_pid": Int?,
        "process_program": Text?, "process_user": Text?, "detail": Text?,
    },
};

static PROCESSING: Table = Table {
    name: "processing",
    columns: columns! {
        "chain": Text, "span": Int, "parent": Int?, "record": Text, "rtype": Text?, "thread": Text?,
        "trigger": Text, "list": Text?, "outcome": Text, "duration_ns": Int?, value "value", "severity": Text?,
        "severity_num": Int?, "status": Text?,
    },
};

static VALUES: Table = Table {
    name: "values",
    columns: columns! {
        "chain": Text?, "pv": Text, "record": Text, "field": Text, value "value", "severity": Text?,
        "severity_num": Int?, "status": Text?, "source": Text, "inexact": Bool, "stamp": Time?, "units": Text?,
    },
};

static ALARMS: Table = Table {
    name: "alarms",
    columns: columns! {
        "record": Text, "what": Text, "from_severity": Text?, "from_status": Text?, "severity": Text?,
        "severity_num": Int?, "status": Text?, value "value", "cause": Text?, "by": Text?, "user": Text?,
        "client_host": Text?, "client": Text?, "through": Texts, "source": Text, "lasted_ns": Int?,
        "until": Text?, "gap": Text?, "unprocessed": Bool,
    },
};

static CHAINS: Table = Table {
    name: "chains",
    columns: columns! {
        "chain": Text, "trigger": Text, "record": Text?, "pv": Text?, "cause": Text, "user": Text?,
        "client_host": Text?, "client": Text?, "thread": Text?, "spans": Int, "processed": Int, "puts": Int,
        "links": Int, "iocs": Int, "severity_num": Int?, "duration_ns": Int, "open": Bool,
    },
};

static CIRCUITS: Table = Table {
    name: "circuits",
    columns: columns! {
        "circuit": Int, "client": Text, "server": Text, "user": Text?, "client_host": Text?, "client_ioc": Text?,
        "program": Text?, "protocol": Text, "minor_version": Int?, "origin": Text, "first_seen": Time,
        "first_seen_ns": Int, "connected": Time?, "disconnected": Time?, "state": Text, "end_reason": Text?,
        "ended_by": Text?, "channels": Int, "puts": Int, "denied": Int, "failed": Int, "unknown": Int,
    },
};

static IOCS: Table = Table {
    name: "iocs",
    columns: columns! {
        "pid": Int, "started": Time?, "ended": Time?, "end": Text?, "user": Text?, "base_version": Text?,
        "linkage": Text, "exe": Text, "cwd": Text, "command": Texts, "ca_ports": Ints, "pva_ports": Ints,
        "records": Int, "not_probed": Texts, "boot_id": Text?, "kernel": Text?, "arch": Text?,
        "container_id": Text?, "container_runtime": Text?, "pod_uid": Text?, "pod_name": Text?, "podman_pod": Text?,
        "container_host_name": Text?,
    },
};

static LOSSES: Table = Table {
    name: "losses",
    columns: columns! {
        "since": Time?, "since_ns": Int?, "kind": Text, "source": Text?, "count": Int?, "record": Text?,
        "cause": Text?, "open": Bool,
    },
};

static HEALTH: Table = Table {
    name: "health",
    columns: columns! {
        "pid": Int?, "since": Time, "since_ns": Int, "cpu_percent": Double?, "waiting_percent": Double?,
        "resident_bytes": Int?, "minor_faults": Int, "major_faults": Int, "threads": Int, "descriptors": Int?,
        "udp_drops": Int?, "clients": Int?, "channels": Int?,
    },
};
