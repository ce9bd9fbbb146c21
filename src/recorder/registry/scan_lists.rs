//! The scan lists of an IOC, and the scan list of each record.
//!
//! Records are looked up when they become known, when a put has moved them, and repeatedly while their SCAN says that
//! they are on a list and the IOC has not put them there (before iocInit is done). The log gets changes only.

use iocrec_log::event::{Fact, RecordId, RecordScan, ScanKind, ScanList, ScanListId, ScanOverruns};

use crate::ioc::menus;
use crate::ioc::queues::Read;
use crate::ioc::scanning::{self, PeriodicAt, Place};
use crate::linux::memory::Ranges;
use crate::linux::width::Width;
use crate::recorder::env::Env;
use crate::recorder::registry::hash::AddressMap;
use crate::recorder::registry::owner::Owner;

/// Records that are on no list yet are looked up after 1, 2, 4, 8 s, and then every 8 s, nanoseconds: an event that
/// does not exist may never come, and an IOC's start may take minutes.
const SHORTEST_PAUSE: u64 = 1_000_000_000;
const LONGEST_PAUSE: u64 = 8_000_000_000;
/// Most periods whose overruns are counted. Base has seven; sites add some.
const MAX_PERIODS: usize = 64;

/// A list that is scanned periodically.
struct Periodic {
    list: ScanListId,
    at: PeriodicAt,
    /// Overruns at the last look, and when that was; `None`: not looked at yet.
    seen: Option<(u64, u64)>,
}

/// The scan lists of one IOC.
#[derive(Default)]
pub struct ScanLists {
    /// The choices of menuScan, read when first needed.
    periods: Vec<String>,
    /// By the address of the scan_list.
    known: AddressMap<u64, ScanListId>,
    /// The list of each record, as the log has it.
    placed: AddressMap<RecordId, ScanListId>,
    /// Records that should be on a list and are not, with their addresses.
    waiting: Vec<(RecordId, u64)>,
    periodic: Vec<Periodic>,
    next: u64,
    pause: u64,
}

impl ScanLists {
    /// Looks up records, by ids and addresses; changes go to the sink.
    pub fn look(&mut self, env: &mut Env<'_>, time: u64, owner: Owner<'_>, records: &[(RecordId, u64)]) {
        let (id, memory) = (owner.id, &owner.process.memory);
        let layout = owner.process.layout.as_ref().ok();
        let Some((layout, fields)) = layout.and_then(|l| Some((l, l.scanning.as_ref()?))) else { return };
        for records in records.chunks(scanning::BATCH) {
            let addresses: Vec<u64> = records.iter().map(|(_, address)| *address).collect();
            let places = scanning::places(memory, fields, &addresses);
            for (&(record, address), place) in records.iter().zip(places) {
                let list = match place {
                    Some(Place::On { list, scan }) => self.known.get(&list).copied().or_else(|| {
                        if self.periods.is_empty() {
                            let menu = menus::menu(memory, layout, fields.scan.description);
                            self.periods = menu.map(|menu| menu.choices).unwrap_or_default();
                        }
                        let found = scanning::list(memory, layout, address, list, scan, &self.periods)?;
                        let scanning::ListAt { kind, name, callback } = found;
                        let new = env.run.ids.scan_list();
                        self.known.insert(list, new);
                        if kind == ScanKind::Periodic && self.periodic.len() < MAX_PERIODS {
                            let at = scanning::periodic(memory, list, &name);
                            self.periodic.extend(at.map(|at| Periodic { list: new, at, seen: None }));
                        }
                        env.push(time, Fact::ScanList(ScanList { id: new, ioc: id, kind, name, callback }));
                        Some(new)
                    }),
                    Some(Place::None) => {
                        self.waiting.push((record, address));
                        None
                    }
                    Some(Place::Passive) | None => None,
                };
                let before = match list {
                    Some(list) => self.placed.insert(record, list),
                    None => self.placed.remove(&record),
                };
                if before != list {
                    env.push(time, Fact::RecordScan(RecordScan { record, list }));
                }
            }
        }
    }

    /// Whether records are scanned with this period, seconds; names of threads have six digits of it.
    pub fn has_period(&self, period: f64) -> bool {
        self.periodic.iter().any(|known| (known.at.period - period).abs() <= period * 1e-5)
    }

    /// Where overruns are counted, to be read for [`ScanLists::count_overruns`].
    pub fn overruns(&self, width: Width) -> impl Iterator<Item = Ranges> + '_ {
        self.periodic.iter().map(move |known| vec![(known.at.overruns, width.bytes())])
    }

    /// Looks for overruns since the last call, in what was read of all lists.
    pub fn count_overruns(&mut self, env: &mut Env<'_>, now: u64, owner: Owner<'_>, read: Read) {
        let width = owner.process.memory.width();
        for (known, count) in self.periodic.iter_mut().zip(read) {
            let Some(total) = count.map(|count| width.pointer(&count, 0)) else { continue };
            if let Some((before, since)) = known.seen.replace((total, now)).filter(|seen| seen.0 < total) {
                let (ioc, list) = (owner.id, known.list);
                let fact = ScanOverruns { ioc, list, more: total - before, total, since };
                env.push(now, Fact::ScanOverruns(fact));
            }
        }
    }

    /// Looks up the records again that should be on a list and were not, when that is due.
    pub fn look_again(&mut self, env: &mut Env<'_>, time: u64, owner: Owner<'_>) {
        if self.waiting.is_empty() || time < self.next {
            return;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_unstable();
        waiting.dedup();
        self.look(env, time, owner, &waiting);
        // where one has appeared others will
        let slower = if self.waiting.len() < waiting.len() { 0 } else { self.pause * 2 };
        self.pause = slower.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        self.next = time + self.pause;
    }
}
