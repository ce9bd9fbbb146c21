//! Writes the answer on a thread of its own, while the caller makes what comes next.
//!
//! Promises: the same bytes come below in the same order as without a thread. What was flushed has been written. An error
//! below is returned by a later call, at the latest by the next flush or the end. At most [`WAITING`] pieces of [`PIECE`]
//! bytes wait, so whoever reads slowly is waited for. There is a thread only from the first piece that is full on, so
//! that a short answer has none, and only if there are several CPUs.

use std::io::{self, Write};
use std::mem;
use std::sync::mpsc::{channel, sync_channel, Receiver, Sender, SyncSender};
use std::thread::{self, JoinHandle};

/// Bytes that are written at once.
const PIECE: usize = 1 << 16;
/// Pieces that wait to be written.
const WAITING: usize = 2;

/// Passes what is written to it on to `W`.
pub struct Writing<W: Write + Send + 'static> {
    /// What was not passed on yet.
    piece: Vec<u8>,
    to: To<W>,
    /// Whether a thread is of use.
    is_shared: bool,
}

enum To<W> {
    Here(W),
    Thread(Thread<W>),
    /// A thread had it that has panicked.
    Gone,
}

struct Thread<W> {
    messages: SyncSender<Message>,
    /// Pieces that were written, for their memory.
    written: Receiver<Vec<u8>>,
    flushed: Receiver<()>,
    /// Returns what it was given, and whether everything was written.
    handle: JoinHandle<Option<(W, io::Result<()>)>>,
}

enum Message {
    Piece(Vec<u8>),
    Flush,
}

impl<W: Write + Send + 'static> Writing<W> {
    /// Writes to `below`.
    pub fn new(below: W) -> Self {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        Writing::on(below, threads)
    }

    /// The same on at most so many threads, the caller's included.
    pub fn on(below: W, threads: usize) -> Self {
        Writing { piece: Vec::with_capacity(PIECE), to: To::Here(below), is_shared: threads > 1 }
    }

    /// Writes the rest, and returns what it was written to.
    ///
    /// # Errors
    /// What could not be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.pass()?;
        self.end_thread()?;
        match mem::replace(&mut self.to, To::Gone) {
            To::Here(below) => Ok(below),
            _ => Err(gone()),
        }
    }

    /// Gives what is written from now on to a thread, if that is of use.
    fn begin_thread(&mut self) {
        if !self.is_shared || !matches!(self.to, To::Here(_)) {
            return;
        }
        let (hand_over, handed_over) = sync_channel::<W>(1);
        let (messages, to_write) = sync_channel(WAITING);
        let (done, written) = channel();
        let (say, flushed) = channel();
        let work = move || {
            let mut below = handed_over.recv().ok()?;
            let result = write_all(&mut below, &to_write, &done, &say);
            Some((below, result))
        };
        let Ok(handle) = thread::Builder::new().name("write".into()).spawn(work) else {
            self.is_shared = false;
            return;
        };
        let thread = To::Thread(Thread { messages, written, flushed, handle });
        if let To::Here(below) = mem::replace(&mut self.to, thread) {
            // The thread waits for it, so this can't fail.
            let _ = hand_over.send(below);
        }
    }

    /// Ends the thread, if there is one, once it has written what waits. The rest is written here.
    fn end_thread(&mut self) -> io::Result<()> {
        self.is_shared = false;
        match mem::replace(&mut self.to, To::Gone) {
            To::Thread(Thread { messages, handle, .. }) => {
                drop(messages);
                let Ok(Some((below, result))) = handle.join() else { return Err(gone()) };
                self.to = To::Here(below);
                result
            }
            here => {
                self.to = here;
                Ok(())
            }
        }
    }

    /// The error that has ended the thread.
    fn failure(&mut self) -> io::Error {
        self.end_thread().err().unwrap_or_else(gone)
    }

    /// Passes the piece on.
    fn pass(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        match &mut self.to {
            To::Here(below) => {
                let written = below.write_all(&self.piece);
                self.piece.clear();
                written
            }
            To::Thread(thread) => {
                let empty = thread.written.try_recv().unwrap_or_else(|_| Vec::with_capacity(PIECE));
                let full = mem::replace(&mut self.piece, empty);
                match thread.messages.send(Message::Piece(full)) {
                    Ok(()) => Ok(()),
                    Err(_) => Err(self.failure()),
                }
            }
            To::Gone => Err(gone()),
        }
    }
}

impl<W: Write + Send + 'static> Write for Writing<W> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.piece.len() + bytes.len() > PIECE && !self.piece.is_empty() {
            self.begin_thread();
            self.pass()?;
        }
        let (taken, _) = bytes.split_at(bytes.len().min(PIECE));
        self.piece.extend_from_slice(taken);
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass()?;
        match &mut self.to {
            To::Here(below) => below.flush(),
            To::Thread(thread) => {
                let is_asked = thread.messages.send(Message::Flush).is_ok();
                match is_asked && thread.flushed.recv().is_ok() {
                    true => Ok(()),
                    false => Err(self.failure()),
                }
            }
            To::Gone => Err(gone()),
        }
    }
}

/// What was not passed on is dropped: who wants it written calls [`Writing::finish`].
impl<W: Write + Send + 'static> Drop for Writing<W> {
    fn drop(&mut self) {
        let _ = self.end_thread();
    }
}

/// Writes the pieces as they come, until no more do or one can't be written.
fn write_all(
    below: &mut impl Write,
    messages: &Receiver<Message>,
    done: &Sender<Vec<u8>>,
    flushed: &Sender<()>,
) -> io::Result<()> {
    for message in messages {
        match message {
            Message::Piece(mut piece) => {
                below.write_all(&piece)?;
                piece.clear();
                // if nobody wants it, no more comes
                let _ = done.send(piece);
            }
            Message::Flush => {
                below.flush()?;
                let _ = flushed.send(());
            }
        }
    }
    Ok(())
}

fn gone() -> io::Error {
    io::Error::other("the thread that writes the output has ended")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    /// What was written, for who looks from another thread. Like a full disk it takes no more than `room`.
    #[derive(Clone)]
    struct Below {
        bytes: Arc<Mutex<Vec<u8>>>,
        room: usize,
        delay: Duration,
    }

    impl Below {
        fn new(room: usize, delay: Duration) -> Below {
            Below { bytes: Arc::default(), room, delay }
        }

        fn len(&self) -> usize {
            self.bytes.lock().unwrap().len()
        }
    }

    impl Write for Below {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            thread::sleep(self.delay);
            let mut all = self.bytes.lock().unwrap();
            if all.len() + bytes.len() > self.room {
                return Err(io::ErrorKind::StorageFull.into());
            }
            // as a pipe takes less than all at a time
            let taken = bytes.len().min(50_000);
            all.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Pieces of many lengths, some longer than what is passed on at once.
    fn pieces() -> impl Iterator<Item = Vec<u8>> {
        let mut state = 1_u64;
        (0..400_u32).map(move |number| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let most = [10, 1000, 10_000, 3 * PIECE as u64][number as usize % 4];
            vec![number as u8; ((state >> 33) % most) as usize]
        })
    }

    #[test]
    fn the_same_bytes_on_one_thread_and_on_two() {
        let all: Vec<u8> = pieces().flatten().collect();
        for threads in [1, 2] {
            for flushes in [false, true] {
                let below = Below::new(usize::MAX, Duration::ZERO);
                let mut writing = Writing::on(below.clone(), threads);
                let mut length = 0;
                for piece in pieces() {
                    writing.write_all(&piece).unwrap();
                    length += piece.len();
                    if flushes {
                        writing.flush().unwrap();
                        assert_eq!(below.len(), length, "what was flushed is there");
                    }
                }
                let there = writing.finish().unwrap();
                assert!(*there.bytes.lock().unwrap() == all, "{threads} threads");
            }
        }
    }

    #[test]
    fn a_short_answer_needs_no_thread() {
        let mut writing = Writing::on(Vec::new(), 2);
        writing.write_all(b"one\n").unwrap();
        writing.flush().unwrap();
        assert!(matches!(&writing.to, To::Here(bytes) if bytes == b"one\n"));
        writing.write_all(&[b'x'; 2 * PIECE]).unwrap();
        assert!(matches!(writing.to, To::Thread(_)));
        assert_eq!(writing.finish().unwrap().len(), 4 + 2 * PIECE);
    }

    #[test]
    fn what_can_not_be_written_is_told() {
        for threads in [1, 2] {
            let mut writing = Writing::on(Below::new(1 << 20, Duration::ZERO), threads);
            let failed = (0..1000).find_map(|_| writing.write_all(&[b'x'; 10_000]).err());
            assert_eq!(failed.map(|error| error.kind()), Some(io::ErrorKind::StorageFull));
            drop(writing);
            // the last bytes fail only when they are flushed, or at the end
            for flushes in [true, false] {
                let mut writing = Writing::on(Below::new(2 * PIECE, Duration::ZERO), threads);
                writing.write_all(&[b'x'; 2 * PIECE + 1]).unwrap();
                let failed = if flushes { writing.flush().err() } else { writing.finish().err() };
                assert_eq!(failed.map(|error| error.kind()), Some(io::ErrorKind::StorageFull));
            }
        }
    }

    #[test]
    fn who_reads_slowly_is_waited_for() {
        let below = Below::new(usize::MAX, Duration::from_millis(1));
        let mut writing = Writing::on(below.clone(), 2);
        for number in 1..=100 {
            writing.write_all(&[b'x'; PIECE]).unwrap();
            // one is being filled, one was taken by the thread
            let waiting = number * PIECE - below.len();
            assert!(waiting <= (WAITING + 2) * PIECE, "{waiting}");
        }
        assert_eq!(writing.finish().unwrap().len(), 100 * PIECE);
    }
}
