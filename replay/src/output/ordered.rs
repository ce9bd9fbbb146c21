//! Output that threads make of batches, in the order of the batches.
//!
//! Promises: the output is that of making one batch after the other in the caller's thread. At most [`AHEAD`] batches are
//! with each thread, so memory is bounded by the size of a batch. An answer of less than a batch needs no thread. Where
//! there is one CPU, there are none.

use crate::out::Out;
use std::io;
use std::mem;
use std::sync::mpsc::{channel, sync_channel, Receiver, SyncSender, TryRecvError};
use std::sync::OnceLock;
use std::thread;

/// Batches that a thread has: the one that it works on, and the next.
const AHEAD: usize = 2;
/// The most threads. One thread joins what they are to work on, and can't keep more of them busy.
const MOST: usize = 3;

/// Rows that are made into output together.
pub trait Batch: Default + Send + 'static {
    /// Whether there are none.
    fn is_empty(&self) -> bool;

    /// Whether they are as many as are worth to be handed over.
    fn is_full(&self) -> bool;

    /// Appends the output, which is escaped, and forgets the rows.
    fn make(&mut self, output: &mut Vec<u8>);
}

/// A batch, and the memory for its output.
type Job<B> = (B, Vec<u8>);

/// Makes output of batches.
pub struct Ordered<B: Batch> {
    batch: B,
    is_of_use: bool,
    /// How many threads there may be, and those that there are.
    most: usize,
    threads: Vec<Thread<B>>,
    /// The batches that were handed over, one thread after the other; and how many of them are not written.
    handed_over: usize,
    waiting: usize,
    /// What was written, for its memory.
    written: Vec<Job<B>>,
}

struct Thread<B> {
    to_do: SyncSender<Job<B>>,
    done: Receiver<Job<B>>,
}

impl<B: Batch> Ordered<B> {
    /// With as many threads as there are further CPUs, or a few.
    pub fn new() -> Self {
        // the kernel is asked for it by several files
        static COUNT: OnceLock<usize> = OnceLock::new();
        let count = COUNT.get_or_init(|| thread::available_parallelism().map_or(1, usize::from));
        Ordered::on(*count)
    }

    /// On so many threads, the caller's included.
    pub fn on(threads: usize) -> Self {
        Ordered {
            batch: B::default(),
            is_of_use: threads > 1,
            most: threads.saturating_sub(1).min(MOST),
            threads: Vec::new(),
            handed_over: 0,
            waiting: 0,
            written: Vec::new(),
        }
    }

    /// Whether there may be threads to hand batches to: otherwise it is as well to write at once. It stays so, also where no
    /// thread can be had: what was added comes first.
    pub fn is_of_use(&self) -> bool {
        self.is_of_use
    }

    /// The batch to add to. Call [`Ordered::added`] afterwards.
    pub fn batch(&mut self) -> &mut B {
        &mut self.batch
    }

    /// Hands over the batch if it is full, and writes what is due.
    ///
    /// # Errors
    /// If the output can't be written; the same holds for [`Ordered::finish`].
    pub fn added(&mut self, out: &mut Out) -> io::Result<()> {
        if !self.batch.is_full() {
            return Ok(());
        }
        if self.threads.is_empty() {
            self.begin();
        }
        let count = self.threads.len();
        if count == 0 {
            return self.make_here(out);
        }
        // who reads the answer need not wait for what is made
        while self.waiting > 0 && self.write_next(out, self.waiting >= AHEAD * count)? {}
        let (empty, output) = self.written.pop().unwrap_or_default();
        let full = mem::replace(&mut self.batch, empty);
        let thread = self.threads.get(self.handed_over % count).ok_or_else(gone)?;
        thread.to_do.send((full, output)).map_err(|_| gone())?;
        self.handed_over += 1;
        self.waiting += 1;
        Ok(())
    }

    /// Writes everything that was added.
    pub fn finish(&mut self, out: &mut Out) -> io::Result<()> {
        while self.waiting > 0 {
            self.write_next(out, true)?;
        }
        if self.batch.is_empty() {
            return Ok(());
        }
        self.make_here(out)
    }

    /// Starts the threads, as far as they can be had.
    fn begin(&mut self) {
        while self.threads.len() < self.most {
            let (to_do, jobs) = sync_channel::<Job<B>>(AHEAD);
            let (finished, done) = channel();
            let work = move || {
                for (mut batch, mut output) in jobs {
                    batch.make(&mut output);
                    // or nobody wants it any more
                    if finished.send((batch, output)).is_err() {
                        return;
                    }
                }
            };
            if thread::Builder::new().name("format".into()).spawn(work).is_err() {
                self.most = self.threads.len();
                return;
            }
            self.threads.push(Thread { to_do, done });
        }
    }

    /// Writes the output of the earliest batch that was handed over, if it is made, or once it is. Returns whether it was.
    fn write_next(&mut self, out: &mut Out, waits: bool) -> io::Result<bool> {
        let turn = (self.handed_over - self.waiting) % self.threads.len().max(1);
        let thread = self.threads.get(turn).ok_or_else(gone)?;
        let made = match thread.done.try_recv() {
            Err(TryRecvError::Empty) if !waits => return Ok(false),
            Err(TryRecvError::Empty) => thread.done.recv().map_err(|_| gone()),
            made => made.map_err(|_| gone()),
        };
        let (batch, mut output) = made?;
        self.waiting -= 1;
        out.made(&output)?;
        output.clear();
        self.written.push((batch, output));
        Ok(true)
    }

    fn make_here(&mut self, out: &mut Out) -> io::Result<()> {
        let (other, mut output) = self.written.pop().unwrap_or_default();
        self.batch.make(&mut output);
        let written = out.made(&output);
        output.clear();
        self.written.push((other, output));
        written
    }
}

fn gone() -> io::Error {
    io::Error::other("a thread that makes the output has ended")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Numbers, some of which take long.
    #[derive(Default)]
    struct Numbers(Vec<u64>);

    impl Batch for Numbers {
        fn is_empty(&self) -> bool {
            self.0.is_empty()
        }

        fn is_full(&self) -> bool {
            self.0.len() >= 10
        }

        fn make(&mut self, output: &mut Vec<u8>) {
            for number in self.0.drain(..) {
                if number % 37 == 0 {
                    thread::sleep(Duration::from_millis(number % 5));
                }
                output.extend_from_slice(format!("{number}\n").as_bytes());
            }
        }
    }

    #[test]
    fn in_the_order_in_which_they_were_added() {
        let expected: String = (0..2005).map(|number| format!("{number}\n")).collect();
        for threads in 1..6 {
            let mut bytes = Vec::new();
            let mut out = Out::new(&mut bytes);
            let mut ordered: Ordered<Numbers> = Ordered::on(threads);
            for number in 0..2005 {
                ordered.batch().0.push(number);
                ordered.added(&mut out).unwrap();
                if number == 1234 {
                    ordered.finish(&mut out).unwrap();
                }
            }
            assert_eq!(ordered.threads.len(), (threads - 1).min(MOST));
            assert!(ordered.waiting <= AHEAD * MOST);
            ordered.finish(&mut out).unwrap();
            ordered.finish(&mut out).unwrap();
            assert!(String::from_utf8(bytes).unwrap() == expected, "{threads} threads");
        }
    }

    #[test]
    fn a_few_rows_need_no_thread() {
        let mut bytes = Vec::new();
        let mut out = Out::new(&mut bytes);
        let mut ordered: Ordered<Numbers> = Ordered::on(4);
        ordered.batch().0.push(1);
        ordered.added(&mut out).unwrap();
        ordered.finish(&mut out).unwrap();
        assert!(ordered.threads.is_empty());
        assert_eq!(bytes, b"1\n");
    }
}
