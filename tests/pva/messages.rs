//! Makes PVAccess messages.

/// Bytes of hexadecimal digits; whatever else is there separates them.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("hexadecimal");
    digits.chunks(2).map(byte).collect()
}

/// A message: flags 40 from a server, 80 big-endian, 10, 30, 20 segments.
pub fn message(flags: u8, command: u8, payload: &[u8]) -> Vec<u8> {
    let size = payload.len() as u32;
    let size = if flags & 0x80 != 0 { size.to_be_bytes() } else { size.to_le_bytes() };
    [&[0xca, 2, flags, command][..], &size, payload].concat()
}

/// A string.
pub fn string(text: &str) -> Vec<u8> {
    [&[text.len() as u8][..], text.as_bytes()].concat()
}

/// A client's identity.
pub fn identity(user: &str, host: &str) -> Vec<u8> {
    let kind = hex("fd0100 80 00 02 04 75736572 60 04 686f7374 60");
    let payload = [hex("00440000 ff7f 0000 02 6361"), kind, string(user), string(host)].concat();
    message(0, 1, &payload)
}

/// Asks for a channel.
pub fn create(cid: u32, name: &str) -> Vec<u8> {
    message(0, 7, &[&[1, 0][..], &cid.to_le_bytes(), &string(name)].concat())
}

/// A client's request: PUT, PUT_GET, MONITOR, PROCESS, RPC ...
pub fn request(command: u8, sid: u32, ioid: u32, subcommand: u8, rest: &[u8]) -> Vec<u8> {
    message(0, command, &[&sid.to_le_bytes()[..], &ioid.to_le_bytes(), &[subcommand], rest].concat())
}
