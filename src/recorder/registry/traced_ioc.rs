//! A traced process, and everything that belongs to it.
//!
//! It is an IOC, or a CA server that is not EPICS Base. The latter's memory is not read and no hits come from it, so
//! its [`TracedIoc::process`] is `None`. All of this is dropped when the process ends ([`super::Registry::remove`]).

use std::sync::Arc;

use iocrec_log::event::{
    CallSiteId, CircuitId, Container, Fact, FieldId, Ioc, IocId, Linkage, PactCheck, RecordId, Value,
};
use nix::errno::Errno;

use crate::health::connections::{Connections, Quota};
use crate::health::threads::Unwatched;
use crate::health::Health;
use crate::inspector::{FoundRecord, ServedClient};
use crate::ioc::{scanning, Database, IocProcess, LayoutError};
use crate::linux::ending::Ending;
use crate::linux::memory::{self, Memory, Ranges};
use crate::net::Namespace;
use crate::recorder::env::Env;
use crate::recorder::registry::after_puts::{AfterPuts, PutTo};
use crate::recorder::registry::call_sites::CallSites;
use crate::recorder::registry::client_channels::ClientChannels;
use crate::recorder::registry::console::Console;
use crate::recorder::registry::disabled::Disabled;
use crate::recorder::registry::dying::Dying;
use crate::recorder::registry::fields::{Fields, KnownField};
use crate::recorder::registry::hash::AddressMap;
use crate::recorder::registry::links::Links;
use crate::recorder::registry::owner::Owner;
use crate::recorder::registry::records::Records;
use crate::recorder::registry::rereads::{Reread, Rereads};
use crate::recorder::registry::scan_lists::ScanLists;
use crate::recorder::registry::snapshots::Snapshots;
use crate::recorder::registry::states::States;
use crate::recorder::registry::stuck::{self, StuckThreads};
use crate::recorder::registry::threads::{HitPlace, KnownThread, NewThread, Step, Threads};
use crate::recorder::shortfall::Shortfalls;

/// An IOC that serves no port counts as initialized after this time, nanoseconds.
const INITIALIZED: u64 = 30_000_000_000;

/// Progress of an IOC's probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probing {
    /// Number of probes in place.
    pub placed: usize,
    /// Whether its records are known, as far as they can be read.
    pub ready: bool,
    /// Whether the BPF programs have its layout.
    pub in_maps: bool,
    /// Whether its hits are taken; the log has an `Attached`.
    pub attached: bool,
    /// Since when they were not, if its probes were lost; monotonic, else 0.
    pub lost: u64,
}

impl Probing {
    /// Notes that probes were added, and how many there are now. While others are lost that is not all of them, and hits are not
    /// taken.
    pub fn added(&mut self, placed: usize) {
        if self.lost == 0 {
            self.placed = placed;
        }
    }
}

/// See the module.
pub struct TracedIoc {
    /// Its id in the log.
    pub id: IocId,
    /// Its process id.
    pub pid: u32,
    /// Start of the process, nanoseconds after boot.
    pub start: u64,
    /// The program that it runs, as [`crate::linux::procfs::Procfs::image`] gives it.
    pub image: Option<(u64, u64)>,
    /// The fact about it for the log, without the shortfalls.
    pub about: Ioc,
    /// Shortfalls of its recording.
    pub shortfalls: Shortfalls,
    /// The container that it runs in, until the log has it.
    pub container: Option<Container>,
    /// The UDP port on which a process that is no IOC is searched for over PVAccess, where it is known.
    pub pva_search: Option<u16>,
    /// TCP ports at which it may serve PVAccess: they are captured, and told once packets have shown that.
    pub guessed: Vec<u16>,
    /// Whether the packets of its clients are captured, where they can be. Until then the log does not have its ports: from
    /// when it has them, nothing is missing.
    pub is_captured: bool,
    /// The fact as the log has it.
    announced: Option<Ioc>,
    /// The IOC as last inspected; `None`: a CA server that is not EPICS Base.
    pub process: Option<Arc<IocProcess>>,
    /// Whether its record database was found to be gone.
    pub database_is_gone: bool,
    /// Progress of its probes.
    pub probing: Probing,
    /// The network namespace that it lives in, or why that is unknown.
    pub namespace: Result<Namespace, Errno>,
    /// Finds out how it ends.
    pub ending: Ending,
    /// What it may die of.
    pub dying: Dying,
    /// Thread, stack pointer and time of the last hit in which it gave up.
    pub gave_up: (u32, u64, u64),
    /// Whether its end was noticed.
    pub end_noticed: bool,
    /// Whether all that it did before that has been taken.
    pub taken_to_its_end: bool,
    /// Whether it has failed to answer the loop, and that was reported.
    pub is_stalled: bool,
    /// Until when it counts as just started, monotonic; until then its ports are looked for more often.
    pub young_until: u64,
    /// Its threads.
    pub threads: Threads,
    /// Its records and their aliases.
    pub records: Records,
    /// Its fields and menus.
    pub fields: Fields,
    /// The places in its code that call probed functions.
    pub call_sites: CallSites,
    /// The channels to which its threads put as clients.
    pub client_channels: ClientChannels,
    /// What it prints.
    pub console: Console,
    /// What it uses of the machine.
    pub health: Health,
    /// Its TCP connections.
    pub connections: Connections,
    /// Whether the log says that they are unknown.
    pub lacks_connections: bool,
    /// How many more of its connections may be noted.
    pub connection_quota: Quota,
    /// Why not all of its threads are watched, as the log has it.
    pub unwatched: Option<Unwatched>,
    /// Its scan lists.
    pub scan_lists: ScanLists,
    /// Its threads that stand still.
    pub stuck: StuckThreads,
    /// The records that links lie in, and CP links.
    pub links: Links,
    /// Fields to read after puts.
    pub after_puts: AfterPuts,
    disabled: Disabled,
    /// Other parts of records to read after puts.
    pub rereads: Rereads,
    /// The names of its records' states.
    pub states: States,
    /// The snapshots of its records.
    pub snapshots: Snapshots,
    /// Clients read from its memory that the circuits have not taken over yet.
    pub clients: Vec<ServedClient>,
    /// Threads that have had no hit yet and serve a circuit.
    pub serving: AddressMap<u32, CircuitId>,
}

impl TracedIoc {
    /// Creates it for a newly traced process.
    pub fn new(env: &Env<'_>, about: Ioc, process: Option<Arc<IocProcess>>) -> TracedIoc {
        let (id, pid, start) = (about.id, about.pid, about.start);
        TracedIoc {
            id,
            pid,
            start,
            image: env.procfs().image(pid),
            about,
            shortfalls: Shortfalls::default(),
            container: None,
            pva_search: None,
            guessed: Vec::new(),
            // of others no gap is told
            is_captured: process.is_none(),
            announced: None,
            process,
            database_is_gone: false,
            probing: Probing::default(),
            namespace: Ok(env.procfs().namespace(pid).unwrap_or_default()),
            ending: Ending::expect(pid),
            dying: Dying::default(),
            gave_up: (0, 0, 0),
            end_noticed: false,
            taken_to_its_end: false,
            is_stalled: false,
            young_until: 0,
            threads: Threads::default(),
            records: Records::default(),
            fields: Fields::default(),
            call_sites: CallSites::default(),
            client_channels: ClientChannels::default(),
            console: Console::default(),
            health: Health::default(),
            connections: Connections::default(),
            lacks_connections: false,
            connection_quota: Quota::default(),
            unwatched: None,
            scan_lists: ScanLists::default(),
            stuck: StuckThreads::default(),
            links: Links::default(),
            after_puts: AfterPuts::default(),
            disabled: Disabled::default(),
            rereads: Rereads::default(),
            states: States::default(),
            snapshots: Snapshots::default(),
            clients: Vec::new(),
            serving: AddressMap::default(),
        }
    }

    /// Whether it is an IOC, and not another CA server.
    pub fn is_ioc(&self) -> bool {
        self.about.linkage != Linkage::Foreign
    }

    /// Whether it has a record database, whose links may make its puts and searches. A client or a server that is made with
    /// EPICS Base, like pvaPy's, has none; an IOC, only before it loads one.
    pub fn has_database(&self) -> bool {
        let layout = self.process.as_ref().map(|process| &process.layout);
        self.is_ioc() && !matches!(layout, Some(Err(LayoutError::NotLoaded)))
    }

    /// Its name and pid, for people.
    pub fn label(&self) -> String {
        match self.about.name.as_str() {
            "" => format!("process {}", self.pid),
            name => format!("{name} (pid {})", self.pid),
        }
    }

    /// Tells its ports, if they are known: packets are captured there by now, if ever. True if the log did not have them.
    pub fn tell_ports(&mut self, env: &mut Env<'_>, time: u64) -> bool {
        let is_known = !self.about.ca_ports.is_empty() || !self.about.pva_ports.is_empty();
        let is_new = is_known && !self.is_captured;
        if is_new {
            self.is_captured = true;
            self.announce(env, time);
        }
        is_new
    }

    /// Hands the fact about it to the sink if that has changed, at first with that about its container.
    pub fn announce(&mut self, env: &mut Env<'_>, time: u64) {
        let mut fact = Ioc { not_probed: self.shortfalls.lines(), ..self.about.clone() };
        if !self.is_captured {
            fact.ca_ports.clear();
            fact.pva_ports.clear();
        }
        if self.announced.as_ref() != Some(&fact) {
            self.announced = Some(fact.clone());
            env.push(time, Fact::from(fact));
        }
        if let Some(container) = self.container.take() {
            env.push(time, Fact::from(container));
        }
    }

    fn owner(&self) -> Option<Owner<'_>> {
        Some(Owner { id: self.id, process: self.process.as_ref()? })
    }

    /// Notes a hit on a thread. The first one defines the thread.
    pub fn hit(
        &mut self,
        env: &mut Env<'_>,
        place: HitPlace,
        step: Step,
    ) -> Option<(KnownThread, Option<NewThread>)> {
        if let Step::Complete(address) = step {
            self.after_puts.completed(place.tid, address);
            self.disabled.completed(address);
            self.threads.completed(place.tid, address);
        }
        if let Some(known) = self.threads.step(place, step) {
            return Some((known, None));
        }
        let owner = Owner { id: self.id, process: self.process.as_ref()? };
        let (known, new) = self.threads.define(env, owner, place, step);
        Some((known, Some(new)))
    }

    /// The record at an address, defined at its first hit; `None` if it is not wanted.
    pub fn record(&mut self, env: &mut Env<'_>, time: u64, address: u64) -> Option<RecordId> {
        if let Some(known) = self.records.known(address) {
            return known;
        }
        let process = self.process.as_ref()?;
        // a record that was not in the database may belong to another one, and so may all later ones
        if self.database_is_gone || process.database() == Database::Gone {
            self.database_is_gone = true;
            return None;
        }
        self.records.define(env, time, Owner { id: self.id, process }, address)
    }

    /// Defines those records found in its database that have no id yet.
    pub fn define(&mut self, env: &mut Env<'_>, time: u64, found: Vec<FoundRecord>) {
        let Some(process) = &self.process else { return };
        let owner = Owner { id: self.id, process };
        let mut fresh: Vec<(RecordId, u64)> = Vec::with_capacity(found.len());
        // they come type by type
        let mut rtype: Option<(String, Option<(u16, u16)>)> = None;
        for found in found {
            let (address, alias) = (found.address, found.alias);
            if rtype.as_ref().is_none_or(|(name, _)| *name != found.rtype) {
                rtype = Some((found.rtype.clone(), process.states_of(&found.rtype)));
            }
            let states = rtype.as_ref().and_then(|(_, states)| *states).filter(|_| !alias);
            let states = states.map(|at| (at, found.states.clone()));
            let is_new = self.records.known(address).is_none();
            let known = self.records.define_found(env, time, owner, found);
            if let (Some(record), Some(((offset, bytes), states))) = (known, states) {
                let at = address.wrapping_add(offset.into());
                self.states.define(time, record, at, bytes, is_new.then_some(&states));
            }
            fresh.extend(known.filter(|_| !alias).map(|record| (record, address)));
        }
        for fresh in fresh.chunks(scanning::BATCH) {
            self.scan_lists.look(env, time, owner, fresh);
        }
    }

    /// The field with a description at this address, defined if it is new.
    pub fn field(&mut self, env: &mut Env<'_>, time: u64, description: u64) -> Option<KnownField> {
        let owner = Owner { id: self.id, process: self.process.as_ref()? };
        self.fields.get(env, time, owner, description)
    }

    /// The call site with this return address; 0 if that is unknown.
    pub fn call_site(&mut self, env: &mut Env<'_>, time: u64, address: u64) -> CallSiteId {
        if let Some(known) = self.call_sites.known(address) {
            return known;
        }
        let Some(process) = &self.process else { return 0 };
        self.call_sites.define(env, time, Owner { id: self.id, process }, address)
    }

    /// Notes a channel to which one of its threads puts as a client, defined at the first put.
    pub fn client_channel(&mut self, env: &mut Env<'_>, time: u64, address: u64, cid: u32) {
        let Some(process) = &self.process else { return };
        self.client_channels.note(env, time, Owner { id: self.id, process }, address, cid);
    }

    /// The address of the record that a struct link lies in.
    pub fn link_owner(&mut self, env: &mut Env<'_>, link: u64) -> Option<u64> {
        let owner = Owner { id: self.id, process: self.process.as_ref()? };
        self.links.owner(env, owner, &self.records, link)
    }

    /// Notes that a record, by id and address, is processed on a thread: writes its CP links if one of them may be the
    /// cause.
    pub fn write_cp_links(
        &mut self,
        env: &mut Env<'_>,
        time: u64,
        record: (RecordId, u64),
        thread: &KnownThread,
    ) {
        let Some(process) = self.process.as_ref().filter(|_| thread.follows_links) else { return };
        let owner = Owner { id: self.id, process };
        self.links.write_cp_links(env, time, owner, &mut self.fields, record);
    }

    /// The field that an alarm acknowledgement is about, by the address of its description: ACKS (`severity`) or ACKT.
    pub fn acknowledged(&self, address: u64, severity: bool) -> Option<u64> {
        let process = self.process.as_ref()?;
        let layout = process.layout.as_ref().ok()?;
        let (transient, severe) = layout.type_of(&process.memory, address)?.acknowledge?;
        Some(if severity { severe } else { transient })
    }

    /// Notes a put to a field of the record at an address, so that the field is read afterwards. `is_inner`: the hit is
    /// that of `dbPut`, which other puts call, too.
    #[allow(clippy::too_many_arguments)] // a hit's parts
    pub fn note_put(
        &mut self,
        env: &mut Env<'_>,
        place: HitPlace,
        (record, address): (RecordId, u64),
        field: FieldId,
        description: u64,
        old: &Value,
        is_inner: bool,
    ) {
        let (time, tid) = (place.time, place.tid);
        let follows = is_inner && !self.threads.serves(tid);
        // puts of records to each other are as frequent as their processing
        if follows && !self.after_puts.has(address) {
            return;
        }
        let Some(layout) = self.process.as_ref().and_then(|process| process.layout.as_ref().ok()) else {
            return;
        };
        let shown_by_processing = layout.is_plain_value(description);
        let to = PutTo { time, record, address, field, description, tid, shown_by_processing, follows };
        self.after_puts.note(env, to, old.clone());
    }

    /// Does the reads that are due after puts. Call this some times a second.
    pub fn read_due(&mut self, env: &mut Env<'_>, now: u64) {
        let Some(process) = &self.process else { return };
        let owner = Owner { id: self.id, process };
        self.after_puts.read(env, now, owner);
        self.rereads.read(env, now, owner, &mut self.scan_lists, &mut self.states);
    }

    /// Reads the names of states again, once a second. `last`: for the last time.
    pub fn read_states(&mut self, env: &mut Env<'_>, now: u64, last: bool) {
        let Some(process) = self.process.as_ref().filter(|_| self.can_be_read(env, now)) else { return };
        let owner = Owner { id: self.id, process };
        if last {
            return self.states.finish(env, owner);
        }
        let rereads = &self.rereads;
        self.states.read(env, owner, |record| rereads.awaits(record, Reread::EnumStrings));
    }

    /// Whether reads after puts will be due.
    pub fn has_reads(&self) -> bool {
        !(self.after_puts.is_empty() && self.rereads.is_empty())
    }

    /// Looks up the scan lists of records that were on none yet.
    pub fn look_for_scan_lists(&mut self, env: &mut Env<'_>, now: u64) {
        let Some(process) = &self.process else { return };
        self.scan_lists.look_again(env, now, Owner { id: self.id, process });
    }

    /// What is to be read of its memory at each beat: its queues, and counts of scans that came too late. `None`: nothing.
    pub fn beat_places(&self) -> Option<(Memory, Vec<Ranges>)> {
        // for a core dump the kernel wakes all threads: they end, and don't run again
        let is_off = self.database_is_gone || self.is_stalled || self.end_noticed || self.dying.is_certain();
        let process = self.process.as_ref().filter(|_| !is_off)?;
        let mut places = self.stuck.queues.places(process);
        places.extend(self.scan_lists.overruns(process.memory.width()));
        Some((process.memory, places))
    }

    /// Looks for threads that stand still and for scans that came too late, after a beat. `read`: when
    /// [`TracedIoc::beat_places`] were read, and their bytes, if they were.
    pub fn judge_threads(&mut self, env: &mut Env<'_>, now: u64, read: Option<(u64, Vec<u8>)>) {
        let Some((memory, places)) = self.beat_places() else { return };
        let length: usize = places.iter().flatten().map(|range| range.1).sum();
        let (read_at, read) = match read.filter(|(_, bytes)| bytes.len() == length) {
            Some((read_at, bytes)) => (read_at, memory::split(&bytes, &places)),
            None => (now, memory.groups(&places)),
        };
        let overruns = self.stuck.queues.take(&memory, read_at, read);
        let Some(process) = &self.process else { return };
        let owner = Owner { id: self.id, process };
        self.scan_lists.count_overruns(env, read_at, owner, overruns);
        let ioc = stuck::Ioc {
            owner,
            watched: &self.health.threads,
            records: &self.records,
            threads: &self.threads,
            scan_lists: &self.scan_lists,
        };
        self.stuck.beat(env, now, &ioc);
    }

    /// Whether its records can be read and have been initialized: iocInit gives them values that no hit shows, and then
    /// opens the server's port.
    pub fn can_be_read(&self, env: &Env<'_>, now: u64) -> bool {
        let serves = !self.about.ca_ports.is_empty() || !self.about.pva_ports.is_empty();
        let began = env.machine.clock.monotonic_of_boot(self.start);
        let is_readable = self.process.as_ref().is_some_and(|process| process.layout.is_ok());
        is_readable
            && !(self.database_is_gone || self.end_noticed || self.is_stalled)
            && (serves || now.saturating_sub(began) > INITIALIZED)
    }

    /// Takes the next step of the snapshot. Returns the bytes taken in the log.
    pub fn step_snapshot(&mut self, env: &mut Env<'_>) -> usize {
        let Some(process) = &self.process else { return 0 };
        let owner = Owner { id: self.id, process };
        self.snapshots.step(env, owner, self.image, &self.records, &mut self.fields)
    }

    /// Ends the snapshot that is under way, if any. Returns the bytes taken in the log.
    pub fn end_snapshot(&mut self, env: &mut Env<'_>) -> usize {
        let Some(process) = &self.process else { return 0 };
        self.snapshots.end(env, Owner { id: self.id, process })
    }

    /// Checks records that began to process before a time and were not seen to complete. A record whose processing has
    /// not returned gets a fact only if PACT or DISA says why.
    pub fn check_pact(&mut self, env: &mut Env<'_>, before: u64) {
        for unfinished in self.threads.take_unfinished(before) {
            let Some(record) = self.records.id(unfinished.address) else { continue };
            let Some(Owner { process, .. }) = self.owner() else { continue };
            let layout = process.layout.as_ref().ok();
            let state = layout.and_then(|layout| layout.state(&process.memory, unfinished.address));
            let Some((active, disabled)) = state else { continue };
            if unfinished.returned || active || disabled {
                // the time after the read: hits show the completions before it
                let time = env.monotonic();
                env.push(time, Fact::PactCheck(PactCheck { record, active, disabled }));
                let process = self.process.as_ref().filter(|_| disabled && !active);
                if let Some(process) = process {
                    let owner = Owner { id: self.id, process };
                    self.disabled.read(env, owner, record, unfinished.address);
                }
            }
        }
    }
}
