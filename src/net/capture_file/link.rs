//! From the header of a link to that of IP.
//!
//! The numbers are those of <https://www.tcpdump.org/linktypes.html>. Tags of VLANs are passed over, also several.

use super::block::Order;

const NULL: u16 = 0;
const ETHERNET: u16 = 1;
/// 101 in files; 12 and 14 are what some systems have for it in memory, and some programs wrote.
const RAW: [u16; 3] = [101, 12, 14];
const LOOP: u16 = 108;
/// Linux "cooked", as of `tcpdump -i any`: versions 1 and 2.
const COOKED: u16 = 113;
const COOKED_2: u16 = 276;
const IPV4: u16 = 228;
const IPV6: u16 = 229;

/// Most VLAN tags of a packet; two are in use.
const MAX_TAGS: usize = 4;

/// A packet behind its link's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inner<'a> {
    /// From the IP header on, and its length before it was cut. It may be followed by padding.
    Ip(&'a [u8], usize),
    /// Another protocol, such as ARP.
    Other,
    /// So little was kept of it that its protocol is unknown.
    Cut,
    /// The link type is not known.
    UnknownLink,
}

/// The number of the interface on the machine that captured, if the link's header has it.
pub fn interface(link: u16, bytes: &[u8]) -> Option<u32> {
    (link == COOKED_2).then(|| Order::Big.u32(bytes, 4)).flatten()
}

/// Passes over the header of a link.
pub fn inner(link: u16, bytes: &[u8], length: usize) -> Inner<'_> {
    let inner = match link {
        ETHERNET => tagged(Order::Big.u16(bytes, 12), bytes, 14),
        COOKED => tagged(Order::Big.u16(bytes, 14), bytes, 16),
        COOKED_2 => tagged(Order::Big.u16(bytes, 0), bytes, 20),
        NULL | LOOP => family(bytes),
        IPV4 | IPV6 => Ok(0),
        link if RAW.contains(&link) => Ok(0),
        _ => Err(Inner::UnknownLink),
    };
    match inner {
        Ok(header) => match bytes.get(header..) {
            Some(bytes @ [_, ..]) => Inner::Ip(bytes, length.saturating_sub(header)),
            _ => Inner::Cut,
        },
        Err(inner) => inner,
    }
}

/// Length of the headers up to IP, of a link that names protocols by Ethernet's numbers.
fn tagged(mut protocol: Option<u16>, bytes: &[u8], header: usize) -> Result<usize, Inner<'static>> {
    let mut length = header;
    for _ in 0..=MAX_TAGS {
        match protocol {
            Some(0x0800 | 0x86dd) => return Ok(length),
            // a tag of four bytes: the VLAN, then the protocol within
            Some(0x8100 | 0x88a8 | 0x9100) => {
                protocol = Order::Big.u16(bytes, length + 2);
                length += 4;
            }
            Some(_) => return Err(Inner::Other),
            None => return Err(Inner::Cut),
        }
    }
    Err(Inner::Other)
}

/// Length of the header of a loopback interface of BSD: the protocol family of the machine that captured, in its byte
/// order.
fn family(bytes: &[u8]) -> Result<usize, Inner<'static>> {
    let families = [Order::Little, Order::Big].map(|order| order.u32(bytes, 0));
    let [Some(little), Some(big)] = families else { return Err(Inner::Cut) };
    // AF_INET, and AF_INET6 of Linux, NetBSD, FreeBSD, macOS
    if [2, 10, 24, 28, 30].iter().any(|known| [little, big].contains(known)) {
        return Ok(4);
    }
    Err(Inner::Other)
}
