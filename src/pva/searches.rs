//! Reads messages of searches, over UDP and TCP, and beacons.

use epics::pva::{Cursor, Read};

use crate::net::packet::End;

/// Names of a message that are looked at: more than fit in a datagram.
const MAX_NAMES: usize = 8192;

/// A server's GUID.
pub type Guid = [u8; 12];

/// Reads a request from this sender: for each name its number, who wants the answer, and the name.
pub fn request(cursor: &mut Cursor<'_>, from: End, found: &mut dyn FnMut(u32, End, &[u8])) -> Read<()> {
    // sequence number; flags and three bytes to spare
    cursor.take(4 + 4)?;
    let client = end(cursor, from)?;
    for _ in 0..cursor.size()?.unwrap_or(0).min(MAX_NAMES) {
        cursor.string()?;
    }
    for _ in 0..usize::from(cursor.u16()?).min(MAX_NAMES) {
        let cid = cursor.u32()?;
        found(cid, client, cursor.string()?);
    }
    Ok(())
}

/// Reads an answer from this sender: for each name its number, and the server if it is there.
pub fn response(
    cursor: &mut Cursor<'_>,
    from: End,
    found: &mut dyn FnMut(u32, Option<(End, Guid)>),
) -> Read<()> {
    let guid = guid(cursor)?;
    // sequence number
    cursor.take(4)?;
    let server = end(cursor, from)?;
    // protocol
    cursor.string()?;
    let has = cursor.u8()? != 0;
    for _ in 0..usize::from(cursor.u16()?).min(MAX_NAMES) {
        found(cursor.u32()?, has.then_some((server, guid)));
    }
    Ok(())
}

/// Reads a beacon from this sender: the server, its GUID, and the beacon's number.
pub fn beacon(cursor: &mut Cursor<'_>, from: End) -> Read<(End, Guid, u32)> {
    let guid = guid(cursor)?;
    // flags
    cursor.u8()?;
    let number = cursor.u8()?;
    // number of changes of the server's PVs
    cursor.u16()?;
    Ok((end(cursor, from)?, guid, number.into()))
}

fn guid(cursor: &mut Cursor<'_>) -> Read<Guid> {
    cursor.take(12)?.first_chunk().copied().ok_or(epics::pva::Fault::Short)
}

/// An address, and a port. The address is the sender's if there is none.
fn end(cursor: &mut Cursor<'_>, from: End) -> Read<End> {
    let bytes = cursor.take(16)?.first_chunk().copied().ok_or(epics::pva::Fault::Short)?;
    let port = cursor.u16()?;
    let there = End::v6(u128::from_be_bytes(bytes), port);
    Ok(if there.is_unspecified() { from.at(port) } else { there })
}
