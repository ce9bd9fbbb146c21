//! A bounded view of a file that moves from its beginning to its end.

use std::io::{self, Read, Seek, SeekFrom};

/// Minimum number of bytes to read from the file at once.
const CHUNK: usize = 64 << 10;

/// The part of a file in view.
#[derive(Debug)]
pub(super) struct Window<R> {
    file: R,
    buffer: Vec<u8>,
    /// Number of bytes of the buffer that were passed.
    passed: usize,
    /// Offset in the file of the rest.
    offset: u64,
    /// Number of bytes to read at once.
    chunk: usize,
    /// The file's length when it was opened. Bytes written later are not read.
    length: u64,
}

impl<R: Read + Seek> Window<R> {
    pub fn new(mut file: R) -> io::Result<Self> {
        let length = file.seek(SeekFrom::End(0))?;
        file.rewind()?;
        Ok(Window { file, buffer: Vec::new(), passed: 0, offset: 0, chunk: CHUNK, length })
    }

    /// From now on, reads no more than `chunk` bytes beyond those that are looked at.
    pub fn sip(&mut self, chunk: usize) {
        self.chunk = chunk;
    }

    /// From now on, reads as much at once as at the beginning.
    pub fn gulp(&mut self) {
        self.chunk = CHUNK;
    }

    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Number of bytes left.
    pub fn left(&self) -> u64 {
        self.length.saturating_sub(self.offset)
    }

    /// The next bytes: at least `count`, or fewer if the file ends.
    pub fn look(&mut self, count: usize) -> io::Result<&[u8]> {
        if self.buffer.len() - self.passed < count {
            self.buffer.drain(..self.passed);
            self.passed = 0;
            let end = self.offset.saturating_add(self.buffer.len() as u64);
            let missing = count.max(self.chunk) - self.buffer.len();
            let there = (missing as u64).min(self.length.saturating_sub(end));
            let got = (&mut self.file).take(there).read_to_end(&mut self.buffer)?;
            if (got as u64) < there {
                self.length = end + got as u64; // truncated while it is read
            }
        }
        Ok(self.buffer.get(self.passed..).unwrap_or(&[]))
    }

    /// Skips bytes, at most to the end.
    pub fn pass(&mut self, count: u64) -> io::Result<()> {
        let count = count.min(self.left());
        let here = (self.buffer.len() - self.passed) as u64;
        if count <= here {
            self.passed += count as usize;
        } else {
            self.buffer.clear();
            self.passed = 0;
            self.file.seek(SeekFrom::Start(self.offset + count))?;
        }
        self.offset += count;
        Ok(())
    }
}
