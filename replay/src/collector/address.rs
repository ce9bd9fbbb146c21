//! Where a collector is.

use super::signal::{LOGS, METRICS, TRACES};
use std::fmt;

/// The base of a collector's URL, as `http://HOST:4318`, below which each signal has its path, as `/v1/traces`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(String);

/// Why a text is no address of a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAnAddress {
    /// It is none of `http://HOST[:PORT][/PATH]`.
    NotAUrl,
    /// It asks for TLS.
    Tls,
    /// The host is an IPv6 address.
    Ipv6,
    /// It has a user or a password.
    User,
    /// This is no port.
    Port(String),
}

impl fmt::Display for NotAnAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotAnAddress::NotAUrl => "this is no URL of a collector; write http://HOST:4318",
            NotAnAddress::Tls => {
                "TLS is not spoken; send to a collector on this machine or network, which forwards"
            }
            NotAnAddress::Ipv6 => "an IPv6 address can't be given; name the host",
            NotAnAddress::User => "a user and password can't be given; leave out what stands before @",
            NotAnAddress::Port(port) => {
                return write!(f, "port '{port}' is none from 1 to 65535; a collector's is 4318");
            }
        })
    }
}

impl std::error::Error for NotAnAddress {}

impl Address {
    /// Reads a base; the whole URL of a signal is taken as well.
    ///
    /// # Errors
    /// If it is not `http://HOST[:PORT][/PATH]`.
    pub fn parse(text: &str) -> Result<Address, NotAnAddress> {
        if text.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://")) {
            return Err(NotAnAddress::Tls);
        }
        let Some(rest) = text.strip_prefix("http://") else {
            return Err(NotAnAddress::NotAUrl);
        };
        let host = rest.split('/').next().unwrap_or_default();
        let (name, port) = host.rsplit_once(':').unwrap_or((host, "80"));
        if host.starts_with('[') {
            return Err(NotAnAddress::Ipv6);
        }
        if host.contains('@') {
            return Err(NotAnAddress::User);
        }
        let is_plain = |c: char| c.is_ascii_graphic() && !"?#\\\"<>^`{|}".contains(c);
        if name.is_empty() || name.contains(':') || !rest.chars().all(is_plain) {
            return Err(NotAnAddress::NotAUrl);
        }
        if !port.parse::<u16>().is_ok_and(|port| port > 0) {
            return Err(NotAnAddress::Port(port.to_owned()));
        }
        let base = text.trim_end_matches('/');
        let paths = [TRACES.path, LOGS.path, METRICS.path];
        let stripped = paths.iter().find_map(|path| base.strip_suffix(path));
        Ok(Address(stripped.unwrap_or(base).to_owned()))
    }

    /// The URL below it with this path.
    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_and_whole_urls() {
        for (given, url) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
            ("http://10.0.0.1:4318/v1/traces", "http://10.0.0.1:4318/v1/traces"),
            ("http://gate/otlp", "http://gate/otlp/v1/traces"),
            ("http://gate/otlp/v1/logs/", "http://gate/otlp/v1/traces"),
            ("http://gate/v1/metrics", "http://gate/v1/traces"),
        ] {
            assert_eq!(Address::parse(given).map(|address| address.at(TRACES.path)), Ok(url.to_owned()));
        }
        for wrong in [
            "",
            "localhost:4318",
            "https://x",
            "http://",
            "http://:4318",
            "http://a:0",
            "http://a:x",
            "http://a:99999",
            "http://u:p@a:4318",
            "http://[::1]:4318",
            "http://a b",
            "http://a\r\nX: y",
            "http://a/?x",
            "http://é",
        ] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }
}
