//! Which metrics there are. Names never change; add new ones at the end.

/// A unit, as both formats write it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Things are counted, as named.
    Things(&'static str),
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
}

impl Unit {
    /// By the Unified Code for Units of Measure.
    pub(super) fn ucum(self) -> &'static str {
        match self {
            Unit::Things(name) => name,
            Unit::Seconds => "s",
            Unit::Bytes => "By",
        }
    }

    /// The suffix of a name in OpenMetrics.
    pub(super) fn suffix(self) -> Option<&'static str> {
        match self {
            Unit::Things(_) => None,
            Unit::Seconds => Some("seconds"),
            Unit::Bytes => Some("bytes"),
        }
    }

    /// Whether its numbers are whole.
    pub(super) fn is_whole(self) -> bool {
        self != Unit::Seconds
    }
}

/// A metric.
pub(super) struct Family {
    /// Its name by the rules of OpenTelemetry; OpenMetrics has `_` for `.`, and the unit.
    pub(super) name: &'static str,
    /// Whether it only grows.
    pub(super) is_counter: bool,
    pub(super) unit: Unit,
    pub(super) help: &'static str,
}

const fn counter(name: &'static str, unit: Unit, help: &'static str) -> Family {
    Family { name, is_counter: true, unit, help }
}

const fn gauge(name: &'static str, unit: Unit, help: &'static str) -> Family {
    Family { name, is_counter: false, unit, help }
}

/// The number of a metric in [`FAMILIES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Metric {
    Puts,
    Processings,
    AlarmChanges,
    ConsoleLines,
    Ends,
    CpuTime,
    CpuWaiting,
    PageFaults,
    UdpDrops,
    Resident,
    Threads,
    Descriptors,
    Clients,
    Channels,
    ChainsLeftOut,
    Marks,
    Losses,
    Lost,
}

/// The metrics, in the order of [`Metric`].
pub(super) static FAMILIES: [Family; 18] = [
    counter("epics.ioc.puts", Unit::Things("{put}"), "Puts from outside the IOC."),
    counter(
        "epics.ioc.record.processings",
        Unit::Things("{processing}"),
        "Times that a record was processed, as far as it was recorded.",
    ),
    counter("epics.ioc.alarm.changes", Unit::Things("{change}"), "Changes of alarms, by the severity after them."),
    counter("epics.ioc.console.lines", Unit::Things("{line}"), "Lines that the IOC printed."),
    counter("epics.ioc.ends", Unit::Things("{end}"), "Ends of the IOC's process."),
    counter("epics.ioc.cpu.time", Unit::Seconds, "CPU time of all threads of the IOC."),
    counter("epics.ioc.cpu.waiting", Unit::Seconds, "Time that threads could have run and waited for a CPU."),
    counter("epics.ioc.page.faults", Unit::Things("{fault}"), "Page faults; the major ones needed the disk."),
    counter(
        "epics.ioc.udp.drops",
        Unit::Things("{datagram}"),
        "Datagrams dropped since the queues of the IOC's sockets were full.",
    ),
    gauge("epics.ioc.memory.resident", Unit::Bytes, "Resident memory."),
    gauge("epics.ioc.threads", Unit::Things("{thread}"), "Threads."),
    gauge("epics.ioc.descriptors", Unit::Things("{descriptor}"), "Open file descriptors."),
    gauge(
        "epics.ioc.clients",
        Unit::Things("{circuit}"),
        "Circuits of Channel Access and PVAccess that it serves.",
    ),
    gauge("epics.ioc.channels", Unit::Things("{channel}"), "Channels on its circuits."),
    counter(
        "epics.ioc.chains.left_out",
        Unit::Things("{chain}"),
        "Process chains that chain sampling left out on purpose.",
    ),
    counter("iocrec.marks", Unit::Things("{mark}"), "Marks of operators."),
    counter("iocrec.losses", Unit::Things("{loss}"), "Times that something was not recorded."),
    counter(
        "iocrec.lost",
        Unit::Things("{event}"),
        "What was not recorded, as far as its number is known: hits, packets, names, events; of streams, bytes.",
    ),
];

impl Metric {
    /// What it is.
    pub(super) fn family(self) -> &'static Family {
        &FAMILIES[self as usize]
    }
}
