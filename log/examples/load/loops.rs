//! Records that feed themselves through links: nothing else happens, as fast as an IOC can.

use super::{carry_out, BEGUN_AFTER};
use iocrec_log::event::{CaLinkPut, Dbf, Event, Fact, Record, Thread, Value};

/// Pairs of records that write to each other over Channel Access.
#[derive(Clone, Copy)]
pub struct Loops {
    /// Number of pairs, all of which are under way at a time.
    pub pairs: u32,
    /// Number of puts of all links.
    pub puts: u64,
    /// Nanoseconds from one put to the next.
    pub pace: u64,
}

/// 2.4 million puts within 30 s.
pub const LOOPS: Loops = Loops { pairs: 10, puts: 2_400_000, pace: 12_500 };

/// The thread that carries out the puts of links to records of their own IOC.
const LINK_THREAD: u32 = 1;
/// Nanoseconds between the events of a put.
const STEP: u64 = 1_500;

impl Loops {
    /// Its records and its thread; call sites and field 1 are defined already.
    pub fn definitions(self) -> Vec<Fact> {
        let (id, name, stack) = (LINK_THREAD, "dbCaLink".into(), 0x7f00_0000_0000);
        let mut facts = vec![Fact::Thread(Thread { id, ioc: 1, tid: 4300, name, stack })];
        facts.extend((1..=2 * self.pairs).map(|id| {
            let (address, name, rtype) = (0x55aa_0000_0000 + u64::from(id) * 1216, name_of(id), "ao".into());
            Fact::from(Record { id, ioc: 1, address, name, rtype })
        }));
        facts
    }

    /// All puts, in order.
    pub fn puts(self) -> impl Iterator<Item = Event> {
        let one = move |number: u64| {
            let (pair, turn) = ((number % u64::from(self.pairs)) as u32, number / u64::from(self.pairs));
            let own = 1 + 2 * pair + (turn % 2) as u32;
            let other = 1 + 2 * pair + ((turn + 1) % 2) as u32;
            let value = turn as f64;
            let mut facts = Vec::new();
            carry_out(&mut facts, LINK_THREAD, own, false, (value - 2.0, value));
            // while it processes, it writes to the other one
            let complete = facts.pop();
            facts.push(Fact::from(CaLinkPut {
                thread: LINK_THREAD,
                sp: -560,
                site: 3,
                record: Some(own),
                pv: name_of(other),
                dbf: Dbf::Double,
                count: 1,
                value: Value::Double(value + 1.0),
            }));
            facts.extend(complete);
            let at = BEGUN_AFTER + number * self.pace;
            (0..).zip(facts).map(move |(step, fact)| Event { time: at + step * STEP, fact })
        };
        (0..self.puts).flat_map(one)
    }
}

fn name_of(record: u32) -> String {
    format!("LINAC:LOOP{record:04}:CUR")
}
