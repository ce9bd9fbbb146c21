//! Tells whether sockets have begun or ceased to listen, by a number that changes with them ([`crate::linux::sock_diag`]).

use crate::linux::sock_diag::{Diag, Row, CLOSE, LISTEN};

/// A number that changes when a socket of this network namespace begins or ceases to listen on TCP, or to be bound to
/// UDP. `None` if the kernel doesn't tell.
pub fn listening() -> Option<u64> {
    let mut diag = Diag::open()?;
    let mut sum = 0u64;
    for (protocol, state) in [(libc::IPPROTO_TCP, LISTEN), (libc::IPPROTO_UDP, CLOSE)] {
        sum = sum.wrapping_mul(31);
        diag.each(protocol, &[state], &mut |row| sum = sum.wrapping_add(hash(&row)))?;
    }
    Some(sum)
}

/// A number for a socket. The sum of those of several does not depend on their order.
fn hash(row: &Row) -> u64 {
    let ports = row.ports.map(u16::to_ne_bytes);
    let inode = row.inode.to_ne_bytes();
    let bytes = ports.iter().flatten().chain(row.addresses.iter().flatten()).chain(&inode);
    // FNV-1a
    bytes
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    /// Other tests open sockets, too, so this can only wait for a number that stays and then changes.
    #[test]
    fn a_socket_that_listens_changes_the_number() {
        let Some(_) = listening() else { return };
        let mut changed = [false; 2];
        for _ in 0..200 {
            let (before, again) = (listening(), listening());
            let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
            let with_tcp = listening();
            let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
            let with_both = listening();
            drop((tcp, udp));
            changed = [with_tcp != again, with_both != with_tcp];
            assert_eq!(changed, [true; 2]);
            if before == again && listening() == before {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("never the same number twice: {changed:?}");
    }
}
