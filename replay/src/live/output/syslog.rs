//! Syslog, as RFC 5424 lays it down: one message for each row, to a local socket or by UDP.
//!
//! `<PRIORITY>1 TIME HOST iocrec - KIND - TEXT`: the facility is local0; the time, in UTC, and the host are those of the
//! log; the kind is `put`, `alarm`, `death`, `hang`, `console`, `loss` or `mark`. The text is one line, without control
//! characters. A message that can't be sent is lost, and that is said: the log still has it.

use crate::live::notes::Grade;
use crate::live::output::{event, sentence};
use crate::live::row::Row;
use crate::model::alarms::{AlarmLine, What};
use crate::output::console::said;
use crate::output::rows::Row as Listed;
use crate::time::Zone;
use iocrec_log::escape::{is_unsafe, push};
use std::net::{ToSocketAddrs, UdpSocket};
#[cfg(unix)]
use std::os::unix::net::UnixDatagram;
use std::time::Duration;
use std::{fmt, io};

/// Facility local0, as RFC 5424 numbers it.
const FACILITY: u8 = 16;
/// Bytes of a message: receivers should take as many (RFC 5424, section 6.1).
const MAX_MESSAGE: usize = 2048;
/// Bytes of a host's name (section 6).
const MAX_HOST: usize = 255;
/// A receiver that is slower loses messages, so that following goes on.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Severities of RFC 5424.
#[derive(Clone, Copy)]
enum Severity {
    Critical = 2,
    Error = 3,
    Warning = 4,
    Notice = 5,
    Information = 6,
}

/// Where messages go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A datagram socket of this machine, by its path.
    Unix(String),
    /// A host and a port.
    Udp(String),
}

impl Target {
    /// Reads `unix:/dev/log` or `udp://HOST:PORT`.
    ///
    /// # Errors
    /// It is neither.
    pub fn parse(text: &str) -> Result<Target, String> {
        let named = |rest: &str| {
            rest.rsplit_once(':').is_some_and(|(host, port)| {
                !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
            })
        };
        match (text.strip_prefix("unix:"), text.strip_prefix("udp://")) {
            (Some(path), _) if path.starts_with('/') => Ok(Target::Unix(path.to_owned())),
            (_, Some(rest)) if named(rest) => Ok(Target::Udp(rest.to_owned())),
            _ => Err(format!("'{text}' is no place for syslog; write unix:/dev/log or udp://HOST:514")),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Unix(path) => write!(f, "unix:{path}"),
            Target::Udp(host) => write!(f, "udp://{host}"),
        }
    }
}

enum Socket {
    #[cfg(unix)]
    Unix(UnixDatagram),
    Udp(UdpSocket),
}

impl Socket {
    fn open(target: &Target) -> io::Result<Socket> {
        match target {
            #[cfg(unix)]
            Target::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                socket.set_write_timeout(Some(TIMEOUT))?;
                Ok(Socket::Unix(socket))
            }
            #[cfg(not(unix))]
            Target::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
            Target::Udp(host) => {
                let mut error = io::Error::from(io::ErrorKind::NotFound);
                for address in host.to_socket_addrs()? {
                    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                    match UdpSocket::bind(any).and_then(|socket| socket.connect(address).map(|()| socket)) {
                        Ok(socket) => return Ok(Socket::Udp(socket)),
                        Err(reason) => error = reason,
                    }
                }
                Err(error)
            }
        }
    }

    fn send(&self, message: &[u8]) -> io::Result<()> {
        match self {
            #[cfg(unix)]
            Socket::Unix(socket) => socket.send(message).map(drop),
            Socket::Udp(socket) => socket.send(message).map(drop),
        }
    }
}

/// Sends messages.
pub struct Syslog {
    target: Target,
    socket: Option<Socket>,
    /// Messages that were lost since the last that was not.
    lost: u64,
    zone: Zone,
}

impl Syslog {
    /// Opens the target.
    ///
    /// # Errors
    /// It can't be reached.
    pub fn open(target: &Target) -> io::Result<Syslog> {
        let socket = Some(Socket::open(target)?);
        Ok(Syslog { target: target.clone(), socket, lost: 0, zone: Zone::utc() })
    }

    /// Sends a row. Returns what people should know: that messages are lost, or are sent again.
    pub fn send(&mut self, row: &Row) -> Option<String> {
        let message = message(row, &self.zone)?;
        // a syslog that was started anew has another socket; and UDP tells the refusal of the message before
        let mut outcome = Err(io::ErrorKind::NotConnected.into());
        for _ in 0..2 {
            if self.socket.is_none() {
                match Socket::open(&self.target) {
                    Ok(socket) => self.socket = Some(socket),
                    Err(error) => {
                        outcome = Err(error);
                        break;
                    }
                }
            }
            if let Some(socket) = &self.socket {
                outcome = socket.send(message.as_bytes());
            }
            match &outcome {
                Ok(()) => break,
                Err(error) if is_slow(error) => break,
                Err(_) => self.socket = None,
            }
        }
        let target = &self.target;
        match outcome {
            Ok(()) => {
                let lost = std::mem::take(&mut self.lost);
                (lost > 0).then(|| format!("{target} takes messages again; {lost} were lost"))
            }
            Err(error) => {
                self.lost += 1;
                (self.lost == 1).then(|| format!("{target}: {error}; messages are lost until it takes them"))
            }
        }
    }
}

fn is_slow(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// The message of a row; what is only sent elsewhere has none.
pub fn message(row: &Row, utc: &Zone) -> Option<String> {
    let (host, time, severity, text) = match row {
        Row::Put(put) => {
            let severity = match &*put.status {
                "ok" | "unknown" => Severity::Information,
                _ => Severity::Warning,
            };
            (put.host.as_deref().unwrap_or_default(), put.time, severity, put.text(utc))
        }
        Row::Alarm(alarm) => (&*alarm.place.host, alarm.time, of_alarm(alarm), alarm.text(utc)),
        Row::Console(line) => {
            let severity = match line.severity {
                Some("fatal") => Severity::Critical,
                Some("major") => Severity::Error,
                Some("minor") => Severity::Warning,
                _ => Severity::Information,
            };
            (&*line.host, line.time, severity, format!("{}  {}", line.ioc, said(line)))
        }
        Row::Note(note) => {
            let severity = match note.grade {
                Grade::Notice => Severity::Notice,
                Grade::Warning => Severity::Warning,
                Grade::Error => Severity::Error,
                Grade::Critical => Severity::Critical,
            };
            (note.host.as_str(), note.time, severity, sentence(note))
        }
        Row::Chain(_) | Row::Event(_) | Row::Used(_) | Row::LeftOut(_) => return None,
    };
    let time = utc.format(time, 6);
    // texts of lists begin with their time
    let text = text.strip_prefix(time.as_str()).unwrap_or(&text).trim();
    let priority = FACILITY * 8 + severity as u8;
    let time = time.strip_suffix("+00:00").map_or(time.clone(), |time| format!("{time}Z"));
    let mut message = format!("<{priority}>1 {time} {} iocrec - {} - ", name_of(host), event(row));
    push(&mut message, text);
    debug_assert!(!message.chars().any(is_unsafe));
    if message.len() > MAX_MESSAGE {
        const CUT: &str = " ... (cut)";
        let most = MAX_MESSAGE - CUT.len();
        let end = (0..=most).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
        message.truncate(end);
        message.push_str(CUT);
    }
    Some(message)
}

fn of_alarm(alarm: &AlarmLine) -> Severity {
    match alarm.to.map(|to| to.0).filter(|_| alarm.what != What::Acknowledged) {
        Some(epics::alarm::MINOR) => Severity::Warning,
        Some(epics::alarm::MAJOR | epics::alarm::INVALID) => Severity::Error,
        _ => Severity::Notice,
    }
}

/// A host's name as syslog takes it: printable ASCII without spaces; `-` where it is not known.
fn name_of(host: &str) -> String {
    let printable = |c: char| if c.is_ascii_graphic() { c } else { '?' };
    let name: String = host.chars().map(printable).take(MAX_HOST).collect();
    if name.is_empty() {
        "-".to_owned()
    } else {
        name
    }
}
