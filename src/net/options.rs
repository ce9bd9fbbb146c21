//! Options of IP, and the headers between those of IPv6 and TCP: whether a receiver passes over them.
//!
//! Whoever puts something in there that makes the receiver drop the packet has sent nothing. The rules are Linux's
//! (net/ipv6/exthdrs.c, net/ipv4/ip_options.c), with the settings that it starts with. Of what depends on more than the packet
//! (routes, authentication), nobody knows here whether it is taken: it is not decoded, and counted.

/// Headers of options for each hop, which only come first; of a route; of options for the destination.
pub(super) const HOP_BY_HOP: u8 = 0;
pub(super) const ROUTE: u8 = 43;
pub(super) const DESTINATION: u8 = 60;
/// Options that fill: one byte, several.
const PAD: u8 = 0;
const PADS: u8 = 1;
/// Most bytes of them in a row, and most other options.
const MOST_PADDING: usize = 7;
const MOST_OPTIONS: usize = 8;
/// Asks routers to look, by a number of two bytes.
const ROUTER_ALERT: u8 = 5;
/// The length of a packet that joins more than 64 KiB.
const JUMBO: u8 = 0xc2;
/// Of options that it does not know, a receiver passes over those below this.
const REFUSED: u8 = 0x40;

/// Whether such a header of IPv6 is passed over. `is_large`: the packet's own header has no length.
pub(super) fn passes(kind: u8, header: &[u8], is_first: bool, is_large: bool) -> bool {
    let Some([_, _, body @ ..]) = header.first_chunk::<8>().map(|_| header) else { return false };
    match kind {
        HOP_BY_HOP => is_first && are_sound(body, is_large),
        DESTINATION => are_sound(body, false),
        // the first kind of route, at its end
        _ => kind == ROUTE && body.starts_with(&[0, 0]),
    }
}

fn are_sound(mut rest: &[u8], may_be_large: bool) -> bool {
    let (mut padding, mut others) = (0, 0);
    loop {
        let (kind, length) = match *rest {
            [] => return true,
            [PAD, ..] => (PAD, 1),
            [kind, length, ..] => (kind, 2 + usize::from(length)),
            [_] => return false,
        };
        let Some((option, behind)) = rest.split_at_checked(length) else { return false };
        let is_sound = match kind {
            PAD | PADS => {
                padding += length;
                padding <= MOST_PADDING && option.iter().skip(2).all(|byte| *byte == 0)
            }
            _ => {
                (padding, others) = (0, others + 1);
                let is_taken =
                    kind < REFUSED && (kind != ROUTER_ALERT || length == 4) || kind == JUMBO && may_be_large;
                is_taken && others <= MOST_OPTIONS
            }
        };
        if !is_sound {
            return false;
        }
        rest = behind;
    }
}

/// Whether these options of IPv4 are passed over.
pub(super) fn pass_ipv4(mut rest: &[u8]) -> bool {
    const END: u8 = 0;
    const NOTHING: u8 = 1;
    const RECORD: u8 = 7;
    const STAMPS: u8 = 68;
    const ALERT: u8 = 148;
    // a way that the sender chooses, loosely or strictly, and security that nobody has set up
    const REFUSED: [u8; 3] = [131, 137, 134];
    let mut noted = [false; 2];
    loop {
        let (kind, length) = match *rest {
            [] | [END, ..] => return true,
            [NOTHING, ref behind @ ..] => {
                rest = behind;
                continue;
            }
            [kind, length, ..] if length >= 2 => (kind, usize::from(length)),
            _ => return false,
        };
        let Some((option, behind)) = rest.split_at_checked(length) else { return false };
        rest = behind;
        // where the next address or time is noted, from 1 on, and how
        let (next, how) = (usize::from(*option.get(2).unwrap_or(&0)), *option.get(3).unwrap_or(&0));
        let has = |bytes: usize| next + bytes - 1 <= length;
        let is_taken = match kind {
            RECORD => next >= 4 && (next > length || has(4)) && !std::mem::replace(&mut noted[0], true),
            STAMPS => {
                let fits = if next > length { how < 0xf0 } else { has(if how & 1 == 0 { 4 } else { 8 }) };
                next >= 5 && length >= 4 && fits && !std::mem::replace(&mut noted[1], true)
            }
            ALERT => length >= 4,
            kind => !REFUSED.contains(&kind),
        };
        if !is_taken {
            return false;
        }
    }
}
