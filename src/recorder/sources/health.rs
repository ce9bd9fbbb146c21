//! The beat: what each recorded IOC uses of the machine, once a second.
//!
//! It reads files of /proc that never block ([`crate::health`]), before the loop looks for processes that have ended.

use std::time::Duration;

use iocrec_log::event::{Fact, Resources, SlowClient, TcpConnection, ThreadUse, WatchedThread};

use crate::health::connections::{self, Change, Places, Whose};
use crate::health::descriptors::Tables;
use crate::health::piece::Piece;
use crate::health::Beat;
use crate::ioc::updates;
use crate::linux::clock;
use crate::linux::memory;
use crate::linux::reader::MAX_PROCESSES;
use crate::linux::sock_diag::{Row, WINDOW_PROBE};
use crate::recorder::circuits::Circuits;
use crate::recorder::context::Context;
use crate::recorder::env::Env;
use crate::recorder::registry::traced_ioc::TracedIoc;
use crate::recorder::shortfall::Shortfall;
use crate::recorder::sources::{Resting, Source, UNTIL_WOKEN};

/// Descriptors that the beats of all IOCs may hold: those of 100 IOCs of 20 threads. A quarter of what this process may
/// open at most, since the probes need some, too.
const MAX_DESCRIPTORS: u64 = 2048;
/// Seconds between two looks at descriptors and dropped datagrams, which cost as much as the rest of five beats.
const LOOK: u32 = 10;
/// If it takes that long to read the memory of several IOCs, nanoseconds, one of them may be to blame: then each is read by itself,
/// which shows that, for so long.
const LONG: u64 = 10_000_000;
const APART: u64 = 60_000_000_000;
/// Nanoseconds in a microsecond.
const MICRO: u64 = 1000;

/// See the module.
pub struct Health {
    /// Descriptors that may be open.
    allowed: usize,
    beats: u32,
    connections: Places,
    /// Until when the memory of each IOC is read by itself, monotonic.
    apart_until: u64,
}

impl Default for Health {
    fn default() -> Health {
        let mut files = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: getrlimit fills the struct, which outlives the call.
        let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut files) } == 0;
        // the type of the limit has 32 bits on some targets
        #[allow(clippy::useless_conversion)]
        let limit = if known { u64::from(files.rlim_cur) } else { 0 };
        Health {
            allowed: (limit / 4).min(MAX_DESCRIPTORS) as usize,
            beats: 0,
            connections: Places::default(),
            apart_until: 0,
        }
    }
}

impl Source for Health {
    fn take(&mut self, _cx: &mut Context<'_>) -> bool {
        false
    }

    fn rest(&mut self, _cx: &Resting<'_>) -> Duration {
        UNTIL_WOKEN
    }

    fn survey(&mut self, cx: &mut Context<'_>) {
        let suspended = clock::suspended();
        let is_due = self.beats.is_multiple_of(LOOK);
        self.beats = self.beats.wrapping_add(1);
        let mut tables = Tables::default();
        let read_at = cx.env.monotonic();
        let mut read = self.read_together(cx, read_at);
        let mut open: usize = cx.iocs.iter().map(|ioc| ioc.health.open()).sum();
        for ioc in cx.iocs.iter_mut() {
            if ioc.end_noticed {
                // what it died of may take a while to be told: a reader sorts events that are two seconds late
                end(&mut cx.env, ioc);
                continue;
            }
            let before = ioc.health.open();
            let beat = Beat {
                now: cx.env.monotonic(),
                suspended,
                spare: self.allowed.saturating_sub(open),
                tables: (is_due || before == 0).then_some(&mut tables),
            };
            let now = beat.now;
            let pieces = ioc.health.beat(ioc.pid, ioc.start, beat);
            // of one that has just ended nothing runs again
            if ioc.health.was_seen() {
                let own = read.iter_mut().find(|(pid, _)| *pid == ioc.pid);
                let own = own.map(|(_, bytes)| (read_at, std::mem::take(bytes)));
                ioc.judge_threads(&mut cx.env, now, own);
            }
            open = open.saturating_sub(before) + ioc.health.open();
            record(&mut cx.env, ioc, pieces);
            tell_what_is_missing(&mut cx.env, ioc);
        }
        // those of one namespace are listed once, so all of its IOCs are looked at as of that time
        let now = cx.env.monotonic();
        for ioc in cx.iocs.iter_mut().filter(|ioc| !ioc.end_noticed) {
            self.connections(&mut cx.env, cx.circuits, ioc, now);
        }
        self.connections.end(&|namespace| cx.iocs.iter().any(|ioc| ioc.namespace == Ok(namespace)));
    }

    fn finish(&mut self, cx: &mut Context<'_>) {
        cx.iocs.iter_mut().for_each(|ioc| end(&mut cx.env, ioc));
    }
}

impl Health {
    /// Reads what is looked at in the memory of all IOCs, as of some time: one turn to the process that reads takes as long for all of
    /// them as for one. Returns what was read of each pid.
    fn read_together(&mut self, cx: &Context<'_>, now: u64) -> Vec<(u32, Vec<u8>)> {
        let mut read = Vec::new();
        if now < self.apart_until {
            return read;
        }
        let wanted = cx.iocs.iter().filter_map(|ioc| Some((ioc.pid, ioc.beat_places()?)));
        let (pids, places): (Vec<_>, Vec<_>) = wanted.unzip();
        let mut are_read = true;
        for (pids, places) in pids.chunks(MAX_PROCESSES).zip(places.chunks(MAX_PROCESSES)) {
            let Some(found) = memory::of_several(places) else {
                are_read = false;
                break;
            };
            read.extend(pids.iter().zip(found).filter_map(|(pid, bytes)| Some((*pid, bytes?))));
        }
        if !are_read || cx.env.monotonic().saturating_sub(now) >= LONG {
            self.apart_until = now.saturating_add(APART);
        }
        read
    }

    /// Looks at an IOC's TCP connections.
    fn connections(&mut self, env: &mut Env<'_>, circuits: &Circuits, ioc: &mut TracedIoc, now: u64) {
        let Ok(namespace) = ioc.namespace else { return };
        let TracedIoc { id, pid, health, about, connections: known, process, connection_quota, .. } =
            &mut *ioc;
        let mut are_left_out = false;
        let is_served =
            |row: &Row| about.ca_ports.contains(&row.ports[0]) || about.pva_ports.contains(&row.ports[0]);
        let circuit = |row: &Row| {
            let (local, remote) = (row.v4(0)?, row.v4(1)?);
            let (client, server) = if is_served(row) { (remote, local) } else { (local, remote) };
            circuits.circuit(namespace, client, server)
        };
        let is_alive = || health.is_alive();
        let whose = Whose { namespace, pid: *pid, now, is_alive: &is_alive, circuit: &circuit };
        let tells = self.connections.look(&whose, known, &mut |known, change| {
            let [local, remote] = [0, 1].map(|end| connections::end(&known.row, end));
            let after = match change {
                // the circuit tells when a client comes and goes
                Change::State(_) if is_served(&known.row) => return,
                Change::State(after) | Change::Retransmission(after) => after,
                Change::Waits | Change::WaitsNoMore if !is_served(&known.row) => return,
                Change::Waits | Change::WaitsNoMore => {
                    let mut fact = SlowClient {
                        ioc: *id,
                        client: remote,
                        server: local,
                        circuit: known.circuit,
                        since: known.waits_since,
                        is_over: change == Change::WaitsNoMore,
                        unsent: known.row.unsent,
                        window_closed: known.row.timer == WINDOW_PROBE,
                        updates: None,
                        is_whole: false,
                    };
                    if known.slow.0 || !fact.is_over {
                        let read = process.as_ref().zip(known.row.v4(1));
                        let read = read.and_then(|(process, client)| updates::updates(process, client));
                        (fact.updates, fact.is_whole) =
                            read.map_or((None, false), |(all, whole)| (Some(all), whole));
                    }
                    if is_slow(&fact, &mut known.slow) {
                        env.push(now, Fact::from(fact));
                    }
                    return;
                }
            };
            if !*known.in_log.get_or_insert_with(|| connection_quota.take(now)) {
                are_left_out = true;
                return;
            }
            let fact = TcpConnection {
                ioc: *id,
                socket: u32::try_from(known.row.inode).unwrap_or(0),
                local,
                remote,
                state: known.state,
                circuit: known.circuit,
                after,
                opened: known.opened,
                opened_after: known.opened_after,
                retransmitted: known.row.retransmitted,
                unsent: known.row.unsent,
            };
            env.push(now, Fact::from(fact));
        });
        if are_left_out {
            ioc.shortfalls.add(Shortfall::ManyConnections);
            ioc.announce(env, now);
        }
        if tells == ioc.lacks_connections {
            ioc.lacks_connections = !tells;
            ioc.shortfalls.remove(|shortfall| matches!(shortfall, Shortfall::NoConnections));
            if !tells {
                ioc.shortfalls.add(Shortfall::NoConnections);
            }
            ioc.announce(env, now);
        }
    }
}

/// Whether a client for which data waits does not keep up: it has no room, or updates were replaced since the last time
/// (`known`: whether it was slow then, and how many had been replaced).
fn is_slow(fact: &SlowClient, known: &mut (bool, Option<u64>)) -> bool {
    let all = fact.updates.iter().flatten();
    let replaced = all.fold(0, |sum: u64, of| sum.saturating_add(of.replaced.unwrap_or(0)));
    let before = fact.updates.as_ref().and_then(|_| known.1.replace(replaced));
    let is_slow = known.0 || fact.window_closed || before.is_some_and(|before| replaced > before);
    known.0 = is_slow;
    is_slow
}

/// Records what was held back of an IOC's use. Call this before its end.
pub fn end(env: &mut Env<'_>, ioc: &mut TracedIoc) {
    let pieces = ioc.health.end();
    record(env, ioc, pieces);
}

fn record(env: &mut Env<'_>, ioc: &mut TracedIoc, pieces: Vec<Piece>) {
    for piece in pieces {
        let mut most = Vec::new();
        for (name, share) in piece.most() {
            let ids = &mut env.run.ids;
            let Some((thread, new)) = ioc.health.known.id(name, &mut || ids.watched_thread()) else {
                continue;
            };
            if let Some(name) = new {
                env.push(piece.end, Fact::from(WatchedThread { id: thread, ioc: ioc.id, name }));
            }
            let (cpu, waiting) = (share.run / MICRO, share.waiting / MICRO);
            most.push(ThreadUse { thread, cpu, waiting, times: share.times });
        }
        let fact = Resources {
            ioc: ioc.id,
            period: piece.period / MICRO,
            cpu: piece.cpu.map(|cpu| cpu / MICRO),
            waiting: piece.waiting.map(|waiting| waiting / MICRO),
            minor_faults: piece.minor_faults,
            major_faults: piece.major_faults,
            resident: piece.resident,
            threads: u32::try_from(piece.threads).unwrap_or(u32::MAX),
            descriptors: piece.descriptors,
            udp_drops: piece.drops,
            most,
        };
        env.push(piece.end, Fact::from(fact));
    }
}

/// Tells of threads that are not watched.
fn tell_what_is_missing(env: &mut Env<'_>, ioc: &mut TracedIoc) {
    let why = ioc.health.threads.unwatched().map(|(_, why)| why);
    let told = ioc.unwatched;
    if why == told {
        return;
    }
    ioc.unwatched = why;
    ioc.shortfalls.remove(|shortfall| matches!(shortfall, Shortfall::Unwatched(_)));
    ioc.shortfalls.renew(why.map(Shortfall::Unwatched).into_iter().collect());
    let now = env.now;
    ioc.announce(env, now);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::process;
    use crate::not_run::{not_run, Needs};
    use crate::recorder::testing::{about, Bench, FakeProcess, MILLISECOND, SECOND};
    use iocrec_log::event::{Ioc, Linkage};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;
    use std::process::{Child, Command, Stdio};

    /// A process that has a connection, and waits for what comes over it.
    fn connected(to: &TcpListener) -> Child {
        let stream = TcpStream::connect(to.local_addr().unwrap()).unwrap();
        let mut command = Command::new("cat");
        command.stdin(Stdio::from(OwnedFd::from(stream))).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// Time passes while one after the other is looked at.
    #[test]
    fn connections_of_every_ioc_in_a_namespace() {
        if let Some(why) = connections::lacks() {
            return not_run("health::connections_of_every_ioc_in_a_namespace", Needs::Kernel(why.to_owned()));
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut children = [(); 3].map(|()| connected(&listener));
        let mut bench = Bench::new();
        bench.clock.monotonic.set(100 * SECOND);
        bench.clock.step.set(MILLISECOND);
        let namespace = process::namespace(std::process::id()).unwrap();
        let mut ids = Vec::new();
        for child in &children {
            let (pid, start) = (child.id(), process::start(child.id()).unwrap());
            bench.procfs.set(pid, FakeProcess { start, namespace, ..FakeProcess::default() });
            let id = bench.run.ids.ioc();
            let described = Ioc { start, linkage: Linkage::Foreign, ..about(id, pid) };
            let ioc = TracedIoc::new(&bench.env(), described, None);
            bench.iocs.add(ioc, &mut bench.run);
            ids.push(id);
        }
        let mut health = Health::default();
        health.survey(&mut bench.context());
        let of = |fact| match fact {
            Fact::TcpConnection(connection) => Some(connection.ioc),
            _ => None,
        };
        let mut told: Vec<_> = bench.facts().into_iter().filter_map(of).collect();
        told.sort_unstable();
        for child in &mut children {
            drop((child.kill(), child.wait()));
        }
        assert_eq!(told, ids);
    }
}
