//! Words that stay as they are, since EPICS Base, its usual modules or the kernel chose them, and no site did. Everything
//! else is replaced, so a word that is missing here costs a reader something, but nobody's secret.

/// Record types of Base and of the usual modules.
#[rustfmt::skip]
const RECORD_TYPES: &[&str] = &[
    "aai", "aao", "acalcout", "ai", "ao", "aSub", "asyn", "bi", "bo", "busy", "calc", "calcout", "compress",
    "dfanout", "epid", "event", "fanout", "histogram", "int64in", "int64out", "longin", "longout", "lsi", "lso",
    "luascript", "mbbi", "mbbiDirect", "mbbo", "mbboDirect", "mca", "motor", "permissive", "printf", "scalcout",
    "scaler", "sel", "seq", "sseq", "sscan", "state", "stringin", "stringout", "sub", "subArray", "swait", "table",
    "throttle", "timestamp", "transform", "waveform",
];

/// Menus of Base.
#[rustfmt::skip]
const MENUS: &[&str] = &[
    "menuAlarmSevr", "menuAlarmStat", "menuConvert", "menuFtype", "menuIvoa", "menuOmsl", "menuPini", "menuPost",
    "menuPriority", "menuScan", "menuSimm", "menuYesNo",
];

/// Choices of menus and device supports of Base, and values that such fields are given as texts.
#[rustfmt::skip]
const CHOICES: &[&str] = &[
    "", "NO", "YES", "RAW", "NO_ALARM", "MINOR", "MAJOR", "INVALID", "READ", "WRITE", "HIHI", "HIGH", "LOLO", "LOW",
    "STATE", "COS", "COMM", "TIMEOUT", "HWLIMIT", "CALC", "SCAN", "LINK", "SOFT", "BAD_SUB", "UDF", "DISABLE",
    "SIMM", "READ_ACCESS", "WRITE_ACCESS", "Passive", "Event", "I/O Intr", "LOW", "MEDIUM", "HIGH", "RUN",
    "RUNNING", "RUNNING_NOT_CA", "PAUSED", "PAUSED_NOT_CA", "supervisory", "closed_loop", "Continue normally",
    "Don't drive outputs", "Set output to IVOV", "On Change", "Always", "NO CONVERSION", "SLOPE", "LINEAR",
    "STRING", "CHAR", "UCHAR", "SHORT", "USHORT", "LONG", "ULONG", "INT64", "UINT64", "FLOAT", "DOUBLE", "ENUM",
    "Soft Channel", "Raw Soft Channel", "Async Soft Channel", "Soft Timestamp", "General Time", "Every Time",
    "On Change", "When Zero", "When Non-zero", "Transition To Zero", "Transition To Non-zero", "Use CALC",
    "Use OCAL", "All", "Specified", "Mask", "Ext PV NC", "Ext PV OK", "Local PV", "Constant",
];

/// What follows a link's target.
#[rustfmt::skip]
const LINK_FLAGS: &[&str] = &[
    "CA", "CP", "CPP", "PP", "NPP", "MS", "NMS", "MSI", "MSS",
];

/// Functions of Base and of the sequencer by which the reader tells who called.
#[rustfmt::skip]
const FUNCTIONS: &[&str] = &[
    "scanList", "periodicTask", "eventCallback", "ioscanCallback", "ioeventCallback", "ProcessCallback",
    "myCallbackFunc", "onceTask", "doRecordPini", "piniProcess", "piniProcessHook", "dbtr", "postEvent",
    "post_event", "scanIoRequest", "scanIoImmediate", "dbScanPassive", "processTarget", "dbDbScanFwdLink",
    "dbScanFwdLink", "dbScanLink", "dbDbPutValue", "dbDbGetValue", "dbPutLink", "dbPutLinkValue", "dbGetLink",
    "dbGetLinkValue", "dbChannelPut", "dbChannel_put", "dbChannelPutField", "db_put_field", "write_action",
    "write_notify_action", "ca_array_put", "ca_array_put_callback", "dbpf", "dbpfCallFunc", "dbtpf", "dbtpfCallFunc",
    "tpnThread", "dbtrCallFunc", "pvVarPutNoBlock", "pvVarPutCallback", "dbProcess", "dbPut", "dbPutField", "recGblFwdLink", "callbackRequest", "scanOnce", "process", "main",
];

/// Beginnings of the names of libraries of Base, of usual modules and of the system. What follows is a version.
#[rustfmt::skip]
const LIBRARIES: &[&str] = &[
    "_ctypes.", "ld-linux", "libasyn.", "libc.", "libc-", "libca.", "libcalc.", "libCom.", "libdbCore.",
    "libdbIoc.", "libdbRecStd.", "libdbStaticIoc.", "libffi", "libgcc_s.", "libiocsh.", "liblnkcalc.", "libm.",
    "libpthread", "libpv.", "libpvAccess.", "libpvAccessCA.", "libpvAccessIOC.", "libpvData.", "libpvxs.",
    "libpvxsIoc.", "libqsrv.", "librecIoc.", "libregistryIoc.", "librsrvIoc.", "libseq.", "libstdc++.",
    "libautosave.", "libbusy.",
];

/// Threads of Base, of PVXS and of the usual modules.
#[rustfmt::skip]
const THREADS: &[&str] = &[
    "_main_", "CAC-event", "CAC-repeater", "CAC-UDP", "CAC-TCP-recv", "CAC-TCP-send", "CAS-beacon", "CAS-client",
    "CAS-event", "CAS-TCP", "CAS-UDP", "cbHigh", "cbLow", "cbMedium", "ClockTimeSync", "dbCaLink", "errlog",
    "ipToAsciiProxy", "NTPTimeSync", "PVXCTCP", "PVXTCP", "PVXUDP", "QSRV", "scanOnce", "seq", "taskwd",
    "TCP-acceptor", "TCP-rx", "TCP-tx", "timerQueue", "UDP-rx",
];

/// Threads of these names have a number behind.
#[rustfmt::skip]
const NUMBERED_THREADS: &[&str] = &[
    "cbHigh-", "cbLow-", "cbMedium-", "scan-", "scan",
];

/// Names of fields and types of PVAccess's normative types, and of requests.
#[rustfmt::skip]
const PVA_NAMES: &[&str] = &[
    "", "any", "structure", "union", "epics:nt/NTScalar:1.0", "epics:nt/NTScalarArray:1.0", "epics:nt/NTEnum:1.0",
    "epics:nt/NTTable:1.0", "epics:nt/NTNDArray:1.0", "epics:nt/NTURI:1.0", "epics:nt/NTAttribute:1.0",
    "epics:nt/NTAggregate:1.0", "epics:nt/NTNameValue:1.0", "epics:nt/NTUnion:1.0", "enum_t", "alarm_t", "time_t",
    "display_t", "control_t", "valueAlarm_t", "codec_t", "dimension_t", "alarmLimit_t", "value", "index", "choices",
    "alarm", "severity", "status", "message", "timeStamp", "secondsPastEpoch", "nanoseconds", "userTag", "display",
    "limitLow", "limitHigh", "description", "format", "units", "precision", "form", "control", "minStep",
    "valueAlarm", "active", "lowAlarmLimit", "lowWarningLimit", "highWarningLimit", "highAlarmLimit",
    "lowAlarmSeverity", "lowWarningSeverity", "highWarningSeverity", "highAlarmSeverity", "hysteresis",
    "descriptor", "labels", "scheme", "path", "query", "authority", "record", "_options", "process", "block",
    "atomic", "pipeline", "queueSize", "field", "getField", "putField", "DBRType", "true", "false", "passive",
    "double", "float", "int", "short", "long", "string", "boolean", "ubyte", "ushort", "uint", "ulong",
    "booleanValue", "byteValue", "shortValue", "intValue", "longValue", "ubyteValue", "ushortValue", "uintValue",
    "ulongValue", "floatValue", "doubleValue", "stringValue", "name",
];

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// A record type.
pub fn is_record_type(name: &str) -> bool {
    name.is_empty() || RECORD_TYPES.contains(&name)
}

/// A menu of Base, or one of the record types of Base (`calcoutOOPT`, `selSELM`).
pub fn is_menu(name: &str) -> bool {
    let upper = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    MENUS.contains(&name) || RECORD_TYPES.iter().any(|of| name.strip_prefix(of).is_some_and(upper))
}

/// A choice of a menu: one of Base's, or a period.
pub fn is_choice(text: &str) -> bool {
    CHOICES.contains(&text) || is_period(text)
}

/// A period as in SCAN: `.1 second`.
pub fn is_period(text: &str) -> bool {
    let words = [" seconds", " second", " minutes", " minute", " hours", " hour", " Hz", " Hertz"];
    words.iter().any(|word| text.strip_suffix(word).is_some_and(is_number))
}

/// What follows a link's target.
pub fn is_link_flag(word: &str) -> bool {
    LINK_FLAGS.contains(&word)
}

/// A function of Base.
pub fn is_function(name: &str) -> bool {
    name.is_empty() || FUNCTIONS.contains(&name)
}

/// A library of Base, of a usual module or of the system, or (with nothing more in its name) one of Python's.
pub fn is_library(name: &str) -> bool {
    let version = |rest: &str| {
        rest.bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b's' | b'o' | b'_' | b'x'))
            || ["x86-64.so.2", "-x86-64.so.2", "-aarch64.so.1", "-armhf.so.3"].contains(&rest)
    };
    name.is_empty() || LIBRARIES.iter().any(|of| name.strip_prefix(of).is_some_and(version))
}

/// A thread of Base or of a usual module.
pub fn is_thread(name: &str) -> bool {
    let numbered = |of: &&str| name.strip_prefix(*of).is_some_and(is_number);
    name.is_empty() || THREADS.contains(&name) || NUMBERED_THREADS.iter().any(numbered)
}

/// A name of PVAccess's normative types, or a value of its options.
pub fn is_pva_name(name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(|name| PVA_NAMES.contains(&name))
}

/// A version: digits with dots, and letters that versions of Base have.
pub fn is_version(text: &str) -> bool {
    text.len() <= 20
        && text.trim_end_matches("-DEV").bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// The name of a field, as record types have them.
pub fn is_field(name: &str) -> bool {
    let upper = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    (1..=8).contains(&name.len()) && name.bytes().all(upper)
}

/// Whether a field of this name is a link in the record types of Base.
pub fn is_link_field(name: &str) -> bool {
    let numbered = |of: &str| name.strip_prefix(of).is_some_and(|rest| rest.len() == 1);
    matches!(
        name,
        "INP" | "OUT" | "FLNK" | "DOL" | "SDIS" | "TSEL" | "SIOL" | "SIML" | "NVL" | "SELL" | "SVL" | "SUBL"
    ) || ["INP", "OUT", "LNK", "DOL"].iter().any(|of| numbered(of))
}
