//! Traces that are encoded by other threads than the one that joins chains.
//!
//! Promises: the bytes are those of one batch after the other. What a batch holds was looked up before it is handed over, since
//! definitions change while the log is read.

use super::proto::{encode, length};
use super::shape::TracesData;
use super::{add, Runs};
use crate::collector::signal::SIZE;
use crate::model::chain::Chain;
use crate::out::Out;
use crate::output::format::Writer;
use crate::output::ordered::{Batch, Ordered};
use crate::output::otlp::Encoding;
use std::{io, mem};

/// Spans on their way to a thread.
#[derive(Default)]
struct Spans {
    data: TracesData,
    count: usize,
    encoding: Encoding,
}

impl Batch for Spans {
    fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn is_full(&self) -> bool {
        self.count >= SIZE
    }

    fn make(&mut self, output: &mut Vec<u8>) {
        let data = mem::take(&mut self.data);
        self.count = 0;
        if self.encoding == Encoding::JsonLines {
            // in memory it can always be written
            let _ = Out::new(output).json(&data);
            return;
        }
        let message = encode(&data);
        if self.encoding == Encoding::Delimited {
            output.extend(length(message.len()));
        }
        output.extend(message);
    }
}

/// Writes chains as traces.
pub struct Written {
    encoding: Encoding,
    spans: Ordered<Spans>,
    /// Those of the batch that is being filled.
    runs: Runs,
}

impl Written {
    /// In this encoding.
    pub fn new(encoding: Encoding) -> Self {
        Written { encoding, spans: Ordered::new(), runs: Runs::default() }
    }
}

impl Writer<Chain> for Written {
    fn write(&mut self, out: &mut Out, chain: &Chain) -> io::Result<()> {
        let batch = self.spans.batch();
        batch.encoding = self.encoding;
        batch.count += add(&mut batch.data, &mut self.runs, chain).map_or(0, |(_, count)| count);
        self.spans.added(out)?;
        if self.spans.batch().is_empty() {
            self.runs = Runs::default();
        }
        Ok(())
    }

    fn flush(&mut self, out: &mut Out) -> io::Result<()> {
        self.runs = Runs::default();
        self.spans.finish(out)
    }

    fn end(&mut self, out: &mut Out) -> io::Result<()> {
        self.flush(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collector::Batch as _;
    use crate::output::traces::otlp;
    use crate::{Filter, Logs};
    use std::path::Path;

    /// What so many threads write of the chains of a log, each of them several times over.
    fn written(log: &Path, encoding: Encoding, threads: usize) -> Vec<u8> {
        let (filter, mut bytes) = (Filter::default(), Vec::new());
        let mut out = Out::new(&mut bytes);
        let mut writer = Written { spans: Ordered::on(threads), ..Written::new(encoding) };
        for (number, chain) in Logs::open([log]).unwrap().chains(&filter).enumerate() {
            (0..20).for_each(|_| writer.write(&mut out, &chain).unwrap());
            if number == 70 {
                writer.flush(&mut out).unwrap();
            }
        }
        writer.end(&mut out).unwrap();
        bytes
    }

    #[test]
    fn several_threads_write_what_one_does() {
        let travelled = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/travelled"));
        let machines = std::fs::read_dir(travelled).unwrap();
        let logs = machines.map(|machine| machine.unwrap().path().join("log"));
        let mut most = 0;
        for log in logs.filter(|log| log.is_dir()) {
            // one message after the other, and all in one, hold the same
            let mut whole = otlp::Batch::default();
            let filter = Filter::default();
            for chain in Logs::open([&log]).unwrap().chains(&filter) {
                (0..20).for_each(|_| whole.add(&chain));
            }
            most = most.max(whole.count());
            for encoding in [Encoding::JsonLines, Encoding::Protobuf, Encoding::Delimited] {
                let one = written(&log, encoding, 1);
                assert_eq!(one.is_empty(), whole.count() == 0);
                for threads in [2, 4] {
                    assert!(written(&log, encoding, threads) == one, "{}, {threads} threads", log.display());
                }
            }
        }
        assert!(most > 2 * SIZE, "{most} spans");
    }
}
