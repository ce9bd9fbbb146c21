//! Another process's memory, read without stopping it.
//!
//! process_vm_readv copies; it takes no lock in the target and leaves no trace there. Whatever is
//! read may be garbage or half changed: every caller must treat it so.

use std::io::IoSliceMut;

use nix::errno::Errno;
use nix::sys::uio::{process_vm_readv, RemoteIoVec};
use nix::unistd::Pid;

use super::process;
use super::width::Width;

/// The memory of a process.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    pid: u32,
    /// The thread that is asked.
    thread: Pid,
    width: Width,
}

impl Memory {
    /// Of this 64-bit process. Nothing is opened: a wrong pid shows at the first read.
    pub fn new(pid: u32) -> Memory {
        Memory::of(pid, Width::Wide)
    }

    /// Of a process with pointers of this width.
    pub fn of(pid: u32, width: Width) -> Memory {
        Memory { pid, thread: Pid::from_raw(process::living(pid).cast_signed()), width }
    }

    /// How wide the process's pointers are.
    pub fn width(&self) -> Width {
        self.width
    }

    /// Fills `into` from `address`; false if not all of it is there.
    #[must_use]
    pub fn read(&self, address: u64, into: &mut [u8]) -> bool {
        self.read_some(address, into) == into.len()
    }

    /// Fills the head of `into` with what is there, up to the end of the mapping; how many bytes.
    pub fn read_some(&self, address: u64, into: &mut [u8]) -> usize {
        let (Ok(base), len) = (usize::try_from(address), into.len()) else { return 0 };
        let remote = [RemoteIoVec { base, len }];
        match process_vm_readv(self.thread, &mut [IoSliceMut::new(into)], &remote) {
            // that thread has ended since, others may live
            Err(Errno::ESRCH) => {
                let thread = Pid::from_raw(process::living(self.pid).cast_signed());
                process_vm_readv(thread, &mut [IoSliceMut::new(into)], &remote).unwrap_or(0)
            }
            read => read.unwrap_or(0),
        }
    }

    /// A fixed number of bytes.
    pub fn bytes<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.read(address, &mut bytes).then_some(bytes)
    }

    /// The first `some` of a structure's bytes, the rest zero.
    pub fn head<const N: usize>(&self, address: u64, some: usize) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.read(address, bytes.get_mut(..some)?).then_some(bytes)
    }

    /// The same number of bytes at many addresses, by one system call as long as all can be read.
    pub fn each<const N: usize>(&self, addresses: impl Iterator<Item = u64>) -> Vec<Option<[u8; N]>> {
        let addresses: Vec<u64> = addresses.collect();
        let mut bytes = vec![0; addresses.len() * N];
        let remote: Vec<RemoteIoVec> =
            addresses.iter().map(|&address| RemoteIoVec { base: address as usize, len: N }).collect();
        let all = process_vm_readv(self.thread, &mut [IoSliceMut::new(&mut bytes)], &remote);
        if all == Ok(bytes.len()) {
            return bytes.as_chunks::<N>().0.iter().copied().map(Some).collect();
        }
        addresses.into_iter().map(|address| self.bytes(address)).collect()
    }

    /// As [`Memory::each`], but the first `some` of the bytes alone; the rest are zero.
    pub fn each_head<const N: usize>(
        &self,
        addresses: impl Iterator<Item = u64>,
        some: usize,
    ) -> Vec<Option<[u8; N]>> {
        let addresses: Vec<u64> = addresses.collect();
        if addresses.is_empty() || some == 0 || some > N {
            return vec![None; addresses.len()];
        }
        let mut bytes = vec![0; addresses.len() * some];
        let remote: Vec<RemoteIoVec> =
            addresses.iter().map(|&address| RemoteIoVec { base: address as usize, len: some }).collect();
        let all = process_vm_readv(self.thread, &mut [IoSliceMut::new(&mut bytes)], &remote);
        if all != Ok(bytes.len()) {
            return addresses.into_iter().map(|address| self.head(address, some)).collect();
        }
        let heads = bytes.chunks_exact(some).map(|head| {
            let mut whole = [0; N];
            whole.iter_mut().zip(head).for_each(|(into, byte)| *into = *byte);
            Some(whole)
        });
        heads.collect()
    }

    /// A pointer, 0 included.
    pub fn pointer(&self, address: u64) -> Option<u64> {
        match self.width {
            Width::Narrow => self.bytes(address).map(|bytes| u32::from_ne_bytes(bytes).into()),
            Width::Wide => self.bytes(address).map(u64::from_ne_bytes),
        }
    }

    /// A string of at most `limit` bytes before its NUL. Bytes that are not UTF-8 or not printable
    /// stand as `\xNN`. `None` if there is no memory or no NUL within the limit.
    pub fn string(&self, address: u64, limit: usize) -> Option<String> {
        let mut bytes = vec![0; limit + 1];
        let mut have = self.read_some(address, &mut bytes);
        if have == 0 {
            // a read across the end of a mapping may fail as a whole: up to the end of the page then
            let page = 4096 - (address as usize & 4095);
            have = self.read_some(address, bytes.get_mut(..page)?);
        }
        let text = bytes.get(..have)?;
        text.iter().position(|&byte| byte == 0).map(|end| printable(&text[..end]))
    }
}

/// A name of any bytes as text: what is not printable UTF-8 stands as `\xNN`.
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter.is_control() {
                let mut buffer = [0; 4];
                letter.encode_utf8(&mut buffer).bytes().for_each(|byte| escape(&mut text, byte));
            } else {
                text.push(letter);
            }
        }
        chunk.invalid().iter().for_each(|&byte| escape(&mut text, byte));
    }
    text
}

fn escape(text: &mut String, byte: u8) {
    use std::fmt::Write;
    // writing to a String cannot fail
    let _ = write!(text, "\\x{byte:02x}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_its_own_memory() {
        let memory = Memory::new(std::process::id());
        let text = b"T:SP\0rest";
        assert_eq!(memory.string(text.as_ptr() as u64, 61).as_deref(), Some("T:SP"));
        assert_eq!(memory.string(text.as_ptr() as u64, 3), None, "no NUL within the limit");
        assert_eq!(memory.pointer(8), None, "nothing there");
        let value = 0x1122_3344_5566_7788u64;
        assert_eq!(memory.pointer(&raw const value as u64), Some(value));
    }

    #[test]
    fn odd_names_are_shown_byte_by_byte() {
        assert_eq!(printable(b"\xffA\n\xc3\xa9"), "\\xffA\\x0a\u{e9}");
    }
}
