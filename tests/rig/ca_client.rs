//! A Channel Access client that says byte by byte what it is told, at any address of this machine.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

const CREATE_CHAN: u16 = 18;
const WRITE_NOTIFY: u16 = 19;
const LONG: u16 = 5;

/// A message.
pub fn message(command: u16, dbr: u16, count: u16, ids: [u32; 2], payload: &[u8]) -> Vec<u8> {
    let mut payload = payload.to_vec();
    payload.resize(payload.len().next_multiple_of(8), 0);
    let mut bytes = Vec::new();
    for half in [command, payload.len() as u16, dbr, count] {
        bytes.extend(half.to_be_bytes());
    }
    ids.iter().for_each(|id| bytes.extend(id.to_be_bytes()));
    [bytes, payload].concat()
}

/// A circuit.
pub struct CaClient {
    stream: TcpStream,
    ids: u32,
    /// Its end of the circuit.
    pub address: String,
}

impl CaClient {
    /// Connects to a server.
    pub fn connect(host: &str, port: u16, user: &str) -> CaClient {
        let stream = TcpStream::connect((host, port)).expect("a server");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
        stream.set_nodelay(true).expect("no delay");
        let address = stream.local_addr().expect("an address").to_string();
        let mut client = CaClient { stream, ids: 0, address };
        let text = |command, text: &str| message(command, 0, 0, [0; 2], format!("{text}\0").as_bytes());
        client.say(&[message(0, 0, 13, [0; 2], b""), text(20, user), text(21, "console-7")].concat());
        client
    }

    /// Sends bytes.
    pub fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("sent");
    }

    /// Waits for a message with this command: its two numbers. `None` if the server ends the circuit.
    pub fn receive(&mut self, command: u16) -> Option<[u32; 2]> {
        loop {
            let mut header = [0; 16];
            self.stream.read_exact(&mut header).ok()?;
            let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
            let mut payload = vec![0; half(2).into()];
            self.stream.read_exact(&mut payload).ok()?;
            if half(0) == command {
                let word = |at: usize| u32::from(half(at)) << 16 | u32::from(half(at + 2));
                return Some([word(8), word(12)]);
            }
        }
    }

    /// Makes a channel and returns the server's id of it.
    pub fn channel(&mut self, pv: &str) -> u32 {
        self.ids += 1;
        self.say(&message(CREATE_CHAN, 0, 0, [self.ids, 13], format!("{pv}\0").as_bytes()));
        self.receive(CREATE_CHAN).expect("the server has it")[1]
    }

    /// Puts a long and waits for the answer.
    pub fn put(&mut self, sid: u32, value: i32) {
        self.ids += 1;
        self.say(&message(WRITE_NOTIFY, LONG, 1, [sid, self.ids], &value.to_be_bytes()));
        assert_eq!(self.receive(WRITE_NOTIFY), Some([1, self.ids]), "ECA_NORMAL");
    }

    /// Puts a long and ends the circuit at once (FIN). Returns whether the answer came before the server ended it, too.
    pub fn put_and_end(&mut self, sid: u32, value: i32) -> bool {
        self.ids += 1;
        self.say(&message(WRITE_NOTIFY, LONG, 1, [sid, self.ids], &value.to_be_bytes()));
        self.stream.shutdown(Shutdown::Write).expect("it is open");
        self.receive(WRITE_NOTIFY) == Some([1, self.ids])
    }
}
