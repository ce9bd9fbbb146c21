//! The callback queues of an IOC that fill or overflow, looked at once a second.
//!
//! A filling begins when a queue is more than half full, its high-water mark rises above the half, or it overflows. It ends
//! when the queue has been at most a quarter full for [`CALM`] and nothing was lost: at most four notes of each filling, the others
//! when the first entry is lost and when a thread is found that works the queue off and does not get on.

use iocrec_log::event::{Fact, Queue, QueueFill};

use crate::ioc::queues::{self, Fill, Read};
use crate::ioc::standing::Look;
use crate::ioc::IocProcess;
use crate::linux::memory::{Memory, Ranges};
use crate::recorder::env::Env;
use crate::recorder::registry::stuck::Ioc;

/// Time without filling after which it is over, nanoseconds: a burst each second is one filling, and the notes are few.
const CALM: u64 = 10_000_000_000;

#[derive(Debug, Default)]
struct Known {
    /// The last look: when, and what it showed.
    seen: Option<(u64, Fill)>,
    open: Option<QueueFill>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Queues {
    known: [Known; 4],
    /// Where their rings are.
    rings: [u64; 4],
    /// What was read for the next beat, and when.
    fills: [Option<Fill>; 4],
    read_at: u64,
}

impl Queues {
    /// What to read of them for [`Queues::take`].
    pub fn places(&self, process: &IocProcess) -> Vec<Ranges> {
        queues::places(process, &self.rings)
    }

    /// Takes what was read of them at a time, for the next beat. Returns what else was read behind that.
    pub fn take(&mut self, memory: &Memory, read_at: u64, read: Read) -> Read {
        let others;
        (self.fills, others) = queues::fills(memory, &mut self.rings, read);
        self.read_at = read_at;
        others
    }

    /// Looks at the queues, as they were read.
    pub fn beat(&mut self, env: &mut Env<'_>, ioc: &Ioc<'_>, look: &Look<'_>) {
        let (now, fills) = (self.read_at, std::mem::take(&mut self.fills));
        for ((known, queue), fill) in self.known.iter_mut().zip(Queue::ALL).zip(fills) {
            let Some(fill) = fill else { continue };
            let Some((since, before)) = known.seen.replace((now, fill)) else { continue };
            let Fill { size, used, high, .. } = fill;
            // counters are ints that may wrap; one that was set back says nothing
            let lost = fill.overflows.wrapping_sub(before.overflows);
            let lost = if lost > i32::MAX as u32 { 0 } else { lost };
            let half = size / 2;
            let rose = if high > before.high { high } else { 0 };
            let most = used.max(rose);
            let fills = most > half || lost > 0;
            let is_new = known.open.is_none();
            if is_new && !fills {
                continue;
            }
            let (overflows, last) = (0, now);
            let (ioc_id, is_over) = (ioc.owner.id, false);
            let open = known.open.get_or_insert_with(|| QueueFill {
                ioc: ioc_id,
                queue,
                since,
                last,
                is_over,
                size,
                used,
                most,
                overflows,
                thread: String::new(),
                record: None,
            });
            let first_lost = open.overflows == 0 && lost > 0;
            (open.used, open.most) = (used, open.most.max(most));
            open.overflows = open.overflows.saturating_add(lost);
            if fills || used > size / 4 {
                open.last = now;
            }
            open.is_over = now.saturating_sub(open.last) >= CALM;
            let was_unnamed = open.thread.is_empty();
            if was_unnamed && !open.is_over {
                let works = |tid: &u32| ioc.processes(look, *tid, since).is_some();
                let tids = ioc.watched.iter().map(|thread| thread.tid).filter(works);
                let named = tids.map(|tid| (tid, ioc.thread_name(env, tid)));
                if let Some((tid, name)) =
                    named.into_iter().find(|(_, name)| name.starts_with(queue.thread()))
                {
                    let record = ioc.processes(look, tid, since);
                    open.thread = name;
                    open.record = record.and_then(|record| ioc.records.id(record));
                }
            }
            let is_over = open.is_over;
            let is_named = was_unnamed && !open.thread.is_empty();
            if is_new || first_lost || is_named || is_over {
                env.push(now, Fact::from(open.clone()));
            }
            if is_over {
                known.open = None;
            }
        }
    }
}
