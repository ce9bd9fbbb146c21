//! A PVAccess client that says byte by byte what it is told: what no library sends, and what each sends in its own way.

use crate::pva_messages::{create, identity, message, request};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// Channels have these ids of the client, in the order in which they are made.
const FIRST_CID: u32 = 1;

/// A connection.
pub struct PvaClient {
    stream: TcpStream,
    cids: u32,
    ioids: u32,
    /// Its end of the connection.
    pub address: String,
}

/// An answer: subcommand, and what follows it.
pub type Answer = (u8, Vec<u8>);

impl PvaClient {
    /// Connects to a server on this machine, as this user on this host.
    pub fn connect(port: u16, user: &str, host: &str) -> PvaClient {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("a server");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
        stream.set_nodelay(true).expect("no delay");
        let address = stream.local_addr().expect("an address").to_string();
        let mut client = PvaClient { stream, cids: FIRST_CID, ioids: 100, address };
        // its methods
        client.receive(1);
        client.say(&identity(user, host));
        client.receive(9);
        client
    }

    /// Sends bytes.
    pub fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("sent");
    }

    /// Waits for a message with this command, and returns its payload.
    pub fn receive(&mut self, command: u8) -> Vec<u8> {
        loop {
            let mut header = [0; 8];
            self.stream.read_exact(&mut header).expect("an answer");
            assert_eq!(header[0], 0xca);
            if header[2] & 1 != 0 {
                continue;
            }
            let size: [u8; 4] = header[4..].try_into().expect("four bytes");
            let size =
                if header[2] & 0x80 != 0 { u32::from_be_bytes(size) } else { u32::from_le_bytes(size) };
            let mut payload = vec![0; size as usize];
            self.stream.read_exact(&mut payload).expect("all of it");
            if header[3] == command {
                return payload;
            }
        }
    }

    /// Makes a channel and returns the server's id of it.
    pub fn channel(&mut self, pv: &str) -> u32 {
        let cid = self.cids;
        self.cids += 1;
        self.say(&create(cid, pv));
        let created = self.receive(7);
        assert_eq!(created[..4], cid.to_le_bytes());
        assert_eq!(created[8], 0xff, "{pv} is there");
        u32::from_le_bytes(created[4..8].try_into().expect("four bytes"))
    }

    /// Prepares a request and returns its id. `options`: type and value of the pvRequest.
    pub fn prepare(&mut self, command: u8, sid: u32, options: &[u8]) -> (u32, Answer) {
        self.ioids += 1;
        let answer = self.ask(command, sid, self.ioids, 8, options);
        (self.ioids, answer)
    }

    /// Sends a request and waits for its answer.
    pub fn ask(&mut self, command: u8, sid: u32, ioid: u32, subcommand: u8, rest: &[u8]) -> Answer {
        self.say(&request(command, sid, ioid, subcommand, rest));
        let answer = self.receive(command);
        assert_eq!(answer[..4], ioid.to_le_bytes());
        (answer[4], answer[5..].to_vec())
    }

    /// Prepares a put, and puts the fields of `bits` in one go. Returns the status, 0 for OK.
    pub fn put(&mut self, sid: u32, options: &[u8], bits: u8, value: &[u8]) -> u8 {
        let (ioid, _) = self.prepare(11, sid, options);
        let (_, status) = self.ask(11, sid, ioid, 0, &[&[1, bits], value].concat());
        self.say(&message(0, 15, &[sid.to_le_bytes(), ioid.to_le_bytes()].concat()));
        if status[0] == 0xff {
            0
        } else {
            status[0]
        }
    }
}

impl PvaClient {
    /// Prepares a put, puts the fields of `bits`, and ends the connection at once (FIN). Returns whether the answer came before
    /// the server ended it, too.
    pub fn put_and_end(&mut self, sid: u32, options: &[u8], bits: u8, value: &[u8]) -> bool {
        let (ioid, _) = self.prepare(11, sid, options);
        self.say(&request(11, sid, ioid, 0, &[&[1, bits], value].concat()));
        self.stream.shutdown(Shutdown::Write).expect("it is open");
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).expect("the server ends it");
        let answer = message(0x40, 11, &[&ioid.to_le_bytes()[..], &[0, 0xff]].concat());
        assert!(rest.is_empty() || rest == answer, "{rest:x?}");
        !rest.is_empty()
    }
}

/// A pvRequest with the options `process` and `block`.
pub fn options(process: &str, block: &str) -> Vec<u8> {
    let mut options =
        b"\x80\x00\x01\x06record\x80\x00\x01\x08_options\x80\x00\x02\x07process\x60\x05block\x60".to_vec();
    for text in [process, block] {
        options.push(text.len() as u8);
        options.extend(text.as_bytes());
    }
    options
}
