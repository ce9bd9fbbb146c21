//! Which end of a TCP connection is where, from /proc/PID/net/tcp of the process's own network namespace.

use std::fs;
use std::net::Ipv4Addr;

use iocrec_log::event::Address;

/// This end of the connection of a server on one of `ports` with a client.
pub fn local_end(pid: u32, client: Address, ports: &[u16]) -> Option<Address> {
    let table = fs::read_to_string(format!("/proc/{pid}/net/tcp")).ok()?;
    table.lines().skip(1).find_map(|line| {
        // "sl: local_address rem_address st ...", addresses in hexadecimal (proc_pid_net(5))
        let mut words = line.split_ascii_whitespace().skip(1);
        let (local, remote) = (address(words.next()?)?, address(words.next()?)?);
        (remote == client && ports.contains(&local.port)).then_some(local)
    })
}

/// `0100007F:13C8`: the IP address as the kernel holds it, that is in network order read as a number of this
/// machine; the port as a number.
fn address(text: &str) -> Option<Address> {
    let (ip, port) = text.split_once(':')?;
    let ip = u32::from_str_radix(ip, 16).ok()?.to_ne_bytes();
    Some(Address::new(Ipv4Addr::from(ip), u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{SocketAddr, TcpListener, TcpStream};

    #[test]
    fn both_ends_of_a_connection_of_our_own() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let ours = |address: SocketAddr| match address {
            SocketAddr::V4(address) => Address::new(*address.ip(), address.port()),
            SocketAddr::V6(_) => unreachable!(),
        };
        let server = ours(listener.local_addr().unwrap());
        let client = ours(client.local_addr().unwrap());
        assert_eq!(local_end(std::process::id(), client, &[server.port]), Some(server));
        assert_eq!(local_end(std::process::id(), client, &[1]), None);
    }
}
