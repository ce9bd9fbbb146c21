//! Replaces names: of PVs, users, hosts, addresses, programs, files, and texts for people.
//!
//! A name that stands for the same thing in two places is replaced by the same there: the record of a PV, an alias and a
//! link; the host of a client and that of a recorder; an address in a packet, in a socket and in a text.

use super::{words, Redaction};
use crate::model::outcome::is_refusal;
use iocrec_log::event::Address;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses below are no hosts': they stand for IPv6 ones of the log ([`Ip6`](iocrec_log::event::Ip6)).
const FIRST_HOST: u64 = 0x0100_0000;

impl Redaction {
    /// Replaces a text by a token of this kind, if there is one.
    pub(super) fn token(&mut self, of: &'static str, text: &mut String) {
        if text.is_empty() {
            return;
        }
        let token = self.secret.token(of, text.as_bytes());
        self.note(of, text, &token);
        *text = token;
    }

    /// A record or an alias.
    pub(super) fn record(&mut self, name: &mut String) {
        if !self.choice.keep_names {
            self.token("pv", name);
        }
    }

    /// A PV as a client names it: the record, and its field if that is a field's name. What follows it stays only if it
    /// is the mark of a long string.
    pub(super) fn pv(&mut self, name: &mut String) {
        if self.choice.keep_names || name.is_empty() {
            return;
        }
        // A record's name may have any character but a point: at some sites `SR:C01{PS:Q1}I-SP`. Filters follow the point.
        let (mut record, rest) = match name.find('.') {
            Some(at) => (name[..at].to_owned(), name[at..].to_owned()),
            None => (name.clone(), String::new()),
        };
        let (field, mark) = match rest.strip_suffix('$') {
            Some(field) => (field, "$"),
            None => (rest.as_str(), ""),
        };
        match field.strip_prefix('.') {
            Some(field) if words::is_field(field) && !record.is_empty() => {
                self.record(&mut record);
                *name = format!("{record}.{field}{mark}");
            }
            _ if rest.is_empty() => {
                self.record(&mut record);
                *name = record;
            }
            // filters, parts of arrays, names of PVAccess with dots
            _ => {
                self.record(&mut record);
                self.token("field", &mut rest.clone());
                *name = format!("{record}.{}", self.secret.token("field", rest.as_bytes()));
            }
        }
    }

    /// The text of a link: its target, and what it says of how that is read or written. Anything else is an address of
    /// hardware, a constant or JSON.
    pub(super) fn link(&mut self, text: &str) -> String {
        let mut words = text.split_ascii_whitespace();
        let Some(target) = words.next() else { return text.to_owned() };
        let is_pv = !target.starts_with(['@', '#', '{', '"', '[']) && target.parse::<f64>().is_err();
        if !is_pv || !words.clone().all(words::is_link_flag) {
            if target.parse::<f64>().is_ok() && words.next().is_none() {
                return self.number_text(text);
            }
            let mut text = text.to_owned();
            self.token("link", &mut text);
            return text;
        }
        let mut link = target.to_owned();
        self.pv(&mut link);
        words.for_each(|flag| {
            link.push(' ');
            link.push_str(flag);
        });
        link
    }

    /// An IOC's name.
    pub(super) fn ioc(&mut self, name: &mut String) {
        if !self.choice.keep_names {
            self.token("ioc", name);
        }
    }

    /// A user's name or number.
    pub(super) fn user(&mut self, name: &mut String) {
        self.token("user", name);
    }

    /// A host: a name, or an address with or without a port. Of a name with a domain each is replaced, so that the host
    /// is the same without its domain.
    pub(super) fn host(&mut self, name: &mut String) {
        if name.is_empty() || name == "localhost" {
            return;
        }
        let (address, port) = match name.rsplit_once(':') {
            Some((address, port)) if port.parse::<u16>().is_ok() && !address.contains(':') => {
                (address.to_owned(), Some(port.to_owned()))
            }
            _ => (name.clone(), None),
        };
        let bare = address.trim_start_matches('[').trim_end_matches(']');
        let replaced = match bare.parse::<IpAddr>() {
            Ok(ip) => {
                let replaced = match ip {
                    IpAddr::V4(ip) => IpAddr::from(Ipv4Addr::from(self.ip4(ip.into()))),
                    IpAddr::V6(ip) => IpAddr::from(self.ip6(ip.octets())),
                };
                self.note("address", bare, &replaced.to_string());
                replaced.to_string()
            }
            Err(_) => {
                let (own, domain) =
                    address.split_once('.').map_or((&*address, None), |(own, rest)| (own, Some(rest)));
                let mut own = own.to_owned();
                self.token("host", &mut own);
                match domain {
                    Some(domain) => format!("{own}.{}", self.secret.token("domain", domain.as_bytes())),
                    None => own,
                }
            }
        };
        *name = match port {
            Some(port) => format!("{replaced}:{port}"),
            None => replaced,
        };
    }

    /// An IPv4 address. Loopback, broadcast, and what is no host's stays.
    pub(super) fn ip4(&mut self, ip: u32) -> u32 {
        let own = Ipv4Addr::from(ip);
        if u64::from(ip) < FIRST_HOST || own.is_loopback() || own.is_broadcast() {
            return ip;
        }
        let mut number = u64::from(ip);
        loop {
            number = self.secret.permuted("ip4", number, FIRST_HOST, u64::from(u32::MAX) - 1);
            let replaced = Ipv4Addr::from(number as u32);
            if !replaced.is_loopback() {
                self.note_of("address", || (own.to_string(), replaced.to_string()));
                return number as u32;
            }
        }
    }

    /// An IPv6 address: one of fd00::/8, which is no host's elsewhere. Loopback stays.
    pub(super) fn ip6(&mut self, bytes: [u8; 16]) -> Ipv6Addr {
        let own = Ipv6Addr::from(bytes);
        if own.is_loopback() || own.is_unspecified() {
            return own;
        }
        if let Some(ip) = own.to_ipv4_mapped() {
            return Ipv4Addr::from(self.ip4(ip.into())).to_ipv6_mapped();
        }
        let mut replaced = [0xfd; 16];
        for (to, from) in replaced.iter_mut().skip(1).zip(self.secret.bytes("ip6", &bytes)) {
            *to = from;
        }
        let replaced = Ipv6Addr::from(replaced);
        self.note_of("address", || (own.to_string(), replaced.to_string()));
        replaced
    }

    /// An address in bytes: of 4, of 16, or something else that is replaced all the same.
    pub(super) fn ip_bytes(&mut self, bytes: &mut Vec<u8>) {
        *bytes = match (<[u8; 4]>::try_from(bytes.as_slice()), <[u8; 16]>::try_from(bytes.as_slice())) {
            (Ok(ip), _) => self.ip4(u32::from_be_bytes(ip)).to_be_bytes().to_vec(),
            (_, Ok(ip)) => self.ip6(ip).octets().to_vec(),
            _ => self.secret.bytes("address", bytes),
        };
    }

    /// A port stays: it tells protocols apart, and nothing of a site.
    pub(super) fn address(&mut self, Address { ip, port: _ }: &mut Address) {
        *ip = self.ip4(*ip);
    }

    /// A program, by its name.
    pub(super) fn program(&mut self, name: &mut String) {
        self.token("program", name);
    }

    /// A command line becomes one word.
    pub(super) fn command(&mut self, words: &mut Vec<String>) {
        if words.is_empty() {
            return;
        }
        let mut line = words.join(" ");
        self.token("command", &mut line);
        *words = vec![line];
    }

    /// A file, a directory.
    pub(super) fn file(&mut self, path: &mut String) {
        self.token("file", path);
    }

    /// A text for people: what somebody wrote, or the recorder wrote about something that has a name.
    pub(super) fn text(&mut self, text: &mut String) {
        self.token("text", text);
    }

    /// What a server says of an error. That it refused stays: it is the status of a put.
    pub(super) fn error_text(&mut self, text: &mut String) {
        let is_refusal = is_refusal(text);
        self.text(text);
        if is_refusal {
            text.push_str(", denied");
        }
    }

    /// How an IOC ended: exit status and signal stay, and whether there was a core dump. Who sent the signal, and where the
    /// IOC was, is a text.
    pub(super) fn ending(&mut self, how: &mut String) {
        const DUMPED: &str = ", with a core dump";
        let known = ["exit status ", "killed by SIG"].iter().find_map(|words| how.strip_prefix(words));
        let Some(rest) = known else { return self.text(how) };
        let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '+';
        let rest = after_time(rest.trim_start_matches(is_name));
        let (beginning, mut more) = (how[..how.len() - rest.len()].to_owned(), rest.to_owned());
        let end = if more.ends_with(DUMPED) { DUMPED } else { "" };
        more.truncate(more.len() - end.len());
        if !more.is_empty() {
            self.text(&mut more);
            more.insert_str(0, ", ");
        }
        *how = format!("{beginning}{more}{end}");
    }

    /// A thread, unless Base named it.
    pub(super) fn thread(&mut self, name: &mut String) {
        if !words::is_thread(name) && !is_python(name) {
            self.token("thread", name);
        }
    }

    /// A record type, unless it is one of Base or of a usual module.
    pub(super) fn record_type(&mut self, name: &mut String) {
        if !words::is_record_type(name) {
            self.token("type", name);
        }
    }

    /// The name of a file as an IOC gave it, or a socket's peer as the kernel has it (`struct sockaddr`, whose second
    /// byte is zero: on the machines that the recorder knows the family has its lowest byte first).
    pub(super) fn file_bytes(&mut self, name: &mut Vec<u8>) {
        /// AF_INET and AF_INET6.
        const FAMILIES: (u8, u8) = (2, 10);
        if is_kernels(name) {
            return;
        }
        match name.as_mut_slice() {
            [] => {}
            [family, 0, _, _, ip @ ..] if *family == FAMILIES.0 => {
                if let Some((own, rest)) = ip.split_first_chunk_mut::<4>() {
                    *own = self.ip4(u32::from_be_bytes(*own)).to_be_bytes();
                    rest.fill(0);
                } else {
                    ip.fill(0);
                }
            }
            [family, 0, _, _, _, _, _, _, ip @ ..] if *family == FAMILIES.1 => {
                if let Some((own, rest)) = ip.split_first_chunk_mut::<16>() {
                    *own = self.ip6(*own).octets();
                    rest.fill(0);
                } else {
                    ip.fill(0);
                }
            }
            // another family, or too short: only the family stays
            [_, 0, ..] => name.truncate(2),
            _ => {
                let mut path = epics::pva::cursor::text(name);
                self.file(&mut path);
                *name = format!("/{path}").into_bytes();
            }
        }
    }

    /// Variables whose values are addresses keep those, replaced; numbers and YES or NO stay.
    pub(super) fn variable(&mut self, name: &mut String, value: &mut String) {
        let is_known = matches!(
            name.as_str(),
            "IOC" | "IOCNAME" | "TOP" | "ARCH" | "ENGINEER" | "LOCATION" | "IOCSH_STARTUP_SCRIPT"
        );
        let is_epics = (name.starts_with("EPICS_CA") || name.starts_with("EPICS_PVA"))
            && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
        match name.as_str() {
            "IOC" | "IOCNAME" => self.ioc(value),
            _ if is_epics => {
                let is_plain = |word: &str| {
                    word.is_empty() || word.parse::<f64>().is_ok() || matches!(word, "YES" | "NO")
                };
                let replaced: Vec<String> = value
                    .split_ascii_whitespace()
                    .map(|word| {
                        let mut word = word.to_owned();
                        if !is_plain(&word) {
                            self.host(&mut word);
                        }
                        word
                    })
                    .collect();
                *value = replaced.join(" ");
            }
            _ if is_known => self.token("value", value),
            _ => {
                self.token("variable", name);
                self.token("value", value);
            }
        }
    }
}

/// What follows the words by which an end was seen late: ` (up to 6.0 s before this was seen)`.
fn after_time(rest: &str) -> &str {
    let after = || {
        let (time, after) = rest.strip_prefix(" (")?.split_once(" s before this was seen)")?;
        let seconds = time.strip_prefix("up to ").or_else(|| time.strip_prefix("sent "))?;
        seconds.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.').then_some(after)
    };
    after().unwrap_or(rest)
}

/// `python3`, `python3.11`.
fn is_python(name: &str) -> bool {
    let version = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    name.strip_prefix("python").is_some_and(version)
}

/// What the kernel calls files without a name: `socket:[123]`, `anon_inode:[eventpoll]`.
fn is_kernels(name: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(name) else { return false };
    let inside = |of: &str| name.strip_prefix(of).and_then(|rest| rest.strip_suffix(']'));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    inside("socket:[").is_some_and(is_number)
        || inside("pipe:[").is_some_and(is_number)
        || inside("anon_inode:[").is_some_and(|what| {
            matches!(
                what,
                "eventfd" | "eventpoll" | "timerfd" | "signalfd" | "inotify" | "io_uring" | "perf_event"
            )
        })
        || name == "/dev/null"
}
