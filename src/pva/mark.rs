//! How PVAccess connections begin, to recognize them on any port.

use crate::net::flows::Beginning;
use crate::net::protocol::Side;
use crate::pva::message::{Header, FROM_SERVER, HEADER};

/// Control message of a server at the beginning: the byte order of its messages.
const SET_ENDIANNESS: u8 = 2;

/// Whether these bytes begin a circuit: a server speaks first, and tells its byte order. Where the connection's opening
/// was not captured, they are a client's whole messages.
pub fn begins_circuit(bytes: &[u8], at: Beginning) -> bool {
    let Some(first) = Header::parse(bytes) else { return false };
    if at == Beginning::Certain {
        let side = if first.flags & FROM_SERVER != 0 { Side::Server } else { Side::Client };
        let tells = first.is_control() && first.command == SET_ENDIANNESS;
        return first.is_plausible(side) && (tells || side == Side::Client);
    }
    let second = HEADER.saturating_add(first.size as usize);
    let follows = match bytes.get(second..) {
        Some([]) => first.size > 0,
        Some(rest) => Header::parse(rest).is_some_and(|second| second.is_plausible(Side::Client)),
        None => false,
    };
    first.is_plausible(Side::Client) && follows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_begins_and_a_client_goes_on() {
        let order = b"\xca\x02\x41\x02\0\0\0\0";
        let begins = |bytes: &[u8], at| begins_circuit(bytes, at);
        assert!(begins(order, Beginning::Certain) && begins(b"\xca\x01\xc1\x02\0\0\0\0", Beginning::Certain));
        assert!(!begins(order, Beginning::MidStream) && !begins(b"\xca\x02\x41\x02\0", Beginning::Certain));
        let destroy = b"\xca\x02\x00\x0f\x08\0\0\0\x01\0\0\0\x02\0\0\0";
        assert!(begins(destroy, Beginning::MidStream) && begins(&destroy.repeat(2), Beginning::MidStream));
        assert!(!begins(&destroy[..12], Beginning::MidStream));
        assert!(!begins(&[destroy, &b"GET /"[..]].concat(), Beginning::MidStream));
        assert!(!begins(b"GET / HTTP/1.1\r\n", Beginning::Certain));
    }
}
