//! The tables for people: a line for each IOC, then one for each of its threads that used most.

use crate::answers::resources::{Key, Row, SLACK};
use crate::answers::served::Count;
use crate::out::{line, Out};
use crate::time::Zone;
use crate::words::counted;
use iocrec_log::escape::Shown;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

/// Processes and threads that are added up; bounds for hostile logs.
const MAX_PROCESSES: usize = 10_000;
const MAX_THREADS: usize = 2000;
/// Threads shown of an IOC.
const MOST: usize = 8;

/// An amount over known time, and the most of it in a row.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    /// Microseconds of it, and of the periods for which it is known.
    amount: u64,
    over: u64,
    /// Percent, and the row's end.
    most: Option<(f64, i64)>,
}

impl Share {
    fn add(&mut self, row: &Row, amount: Option<u64>) {
        let (Some(percent), Some(amount)) = (row.percent(amount), amount) else { return };
        self.amount = self.amount.saturating_add(amount);
        self.over = self.over.saturating_add(row.used.period);
        if self.most.is_none_or(|(most, _)| percent > most) {
            self.most = Some((percent, row.time));
        }
    }

    fn percent(&self) -> Option<f64> {
        (self.over > 0).then(|| 100.0 * self.amount as f64 / self.over as f64)
    }
}

/// What one process used.
#[derive(Debug, Default)]
struct Process {
    host: Rc<str>,
    ioc: Rc<str>,
    pid: Option<u32>,
    since: i64,
    until: i64,
    /// Its end in the order of time, and who told of it last.
    even: i64,
    by: Key,
    period: u64,
    cpu: Share,
    waiting: Share,
    /// First, last and most.
    resident: Option<(u64, u64, u64)>,
    minor: u64,
    major: u64,
    /// Last and most.
    descriptors: Option<(u32, u32)>,
    threads: (u32, u32),
    drops: Option<u64>,
    /// At the end.
    served: Option<Count>,
    by_thread: BTreeMap<Rc<str>, (u64, u64, u64)>,
}

impl Process {
    /// What it used, in words; what is not known is left out.
    fn words(&self) -> String {
        let mut words = Vec::new();
        if let (Some(percent), Some((most, _))) = (self.cpu.percent(), self.cpu.most) {
            words.push(format!("{percent:.1} % of one CPU, at most {most:.1} %"));
        }
        if let Some((first, last, highest)) = self.resident {
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            let grew = (last as f64 - first as f64) / f64::from(1 << 20);
            words.push(format!(
                "{:.1} MiB of memory at the end ({grew:+.1} MiB), at most {:.1} MiB",
                mib(last),
                mib(highest)
            ));
        }
        let mut at_end: Vec<String> = Vec::new();
        at_end.extend(self.descriptors.map(|(last, _)| counted(last.into(), "descriptor")));
        at_end.push(counted(self.threads.0.into(), "thread"));
        if let Some(served) = self.served {
            at_end.push(counted(served.clients.into(), "client"));
            at_end.push(counted(served.channels.into(), "channel"));
        }
        words.push(format!("{} at the end", at_end.join(", ")));
        words.push(format!("known for {}", known(self)));
        words.join("; ")
    }
}

/// The tables.
#[derive(Debug, Default)]
pub struct Summary {
    processes: Vec<Process>,
    numbers: BTreeMap<Key, usize>,
    /// Where the runs of recorders are added up: the first key of each process.
    joined: Option<BTreeMap<usize, Key>>,
}

impl Summary {
    /// One in which a process that several recorders have recorded, one after the other, is one.
    pub fn of_processes() -> Summary {
        Summary { joined: Some(BTreeMap::new()), ..Summary::default() }
    }

    /// Takes the next row.
    pub fn add(&mut self, row: &Row) {
        let new = self.processes.len();
        let key = match (&mut self.joined, row.process) {
            (Some(joined), Some(process)) => *joined.entry(process).or_insert(row.key),
            _ => row.key,
        };
        let number = *self.numbers.entry(key).or_insert(new);
        if number == new {
            if new >= MAX_PROCESSES {
                self.numbers.remove(&key);
                return;
            }
            let (host, ioc) = (Rc::clone(&row.host), Rc::clone(&row.ioc));
            let (pid, since) = (row.pid, row.since);
            self.processes.push(Process { host, ioc, pid, since, ..Process::default() });
        }
        let Some(process) = self.processes.get_mut(number) else { return };
        let used = &row.used;
        let period = i64::try_from(used.period.saturating_mul(1000)).unwrap_or(i64::MAX);
        // a recorder beside its own has told of that time
        let begin = row.even.saturating_sub(period).saturating_add(SLACK);
        if number != new && process.by != row.key && begin < process.even {
            return;
        }
        (process.even, process.by) = (process.even.max(row.even), row.key);
        process.until = process.until.max(row.time);
        process.since = process.since.min(row.since);
        process.period = process.period.saturating_add(used.period);
        process.cpu.add(row, used.cpu);
        process.waiting.add(row, used.waiting);
        process.minor = process.minor.saturating_add(used.minor_faults);
        process.major = process.major.saturating_add(used.major_faults);
        if let Some(now) = row.resident() {
            let (first, _, most) = process.resident.unwrap_or((now, now, now));
            process.resident = Some((first, now, most.max(now)));
        }
        if let Some(now) = used.descriptors {
            process.descriptors = Some((now, process.descriptors.map_or(now, |(_, most)| most.max(now))));
        }
        process.served = row.serves();
        process.threads = (used.threads, process.threads.1.max(used.threads));
        if let Some(drops) = used.udp_drops {
            process.drops = Some(process.drops.unwrap_or_default().saturating_add(drops));
        }
        for thread in &row.threads {
            let full =
                process.by_thread.len() >= MAX_THREADS && !process.by_thread.contains_key(&thread.name);
            if !full {
                let (cpu, waiting, times) = process.by_thread.entry(Rc::clone(&thread.name)).or_default();
                *cpu = cpu.saturating_add(thread.used.cpu);
                *waiting = waiting.saturating_add(thread.used.waiting);
                *times = times.saturating_add(thread.used.times);
            }
        }
    }

    /// A sentence about each process.
    pub fn words(&self) -> impl Iterator<Item = (Key, String)> + '_ {
        let of = |(key, number): (&Key, &usize)| Some((*key, self.processes.get(*number)?.words()));
        self.numbers.iter().filter_map(of)
    }

    /// Whether there were no rows.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Writes the tables.
    ///
    /// # Errors
    /// If the output can't be written.
    pub fn write(&self, out: &mut Out, zone: &Zone) -> io::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        line!(
            out,
            "{:<20} {:>7} {:>7} {:>7} {:>7} {:>9} {:>9} {:>9} {:>7} {:>5} {:>4} {:>7} {:>8} {:>7}  {}",
            "IOC",
            "CPU %",
            "most %",
            "wait %",
            "most %",
            "mem MiB",
            "most MiB",
            "grew MiB",
            "disk f.",
            "descr",
            "thr",
            "clients",
            "channels",
            "dropped",
            "known from, for"
        )?;
        // hosts matter where there are several
        let host = self.processes.first().map(|process| &process.host);
        let named = |process: &Process| match &*process.host {
            name if self.processes.iter().any(|other| Some(&other.host) != host) => {
                format!("{} ({name})", self::name(process))
            }
            _ => self::name(process),
        };
        for process in &self.processes {
            self.process(out, (process, &named(process)), zone)?;
        }
        for process in &self.processes {
            threads(out, process, &named(process))?;
        }
        Ok(())
    }

    fn process(&self, out: &mut Out, (process, name): (&Process, &str), zone: &Zone) -> io::Result<()> {
        let most = |share: &Share| number(share.most.map(|(most, _)| most));
        let mib = |bytes: Option<u64>| number(bytes.map(|bytes| bytes as f64 / f64::from(1 << 20)));
        let [first, last, highest] = match process.resident {
            Some((first, last, most)) => [Some(first), Some(last), Some(most)],
            None => [None; 3],
        };
        let grew = first.zip(last).map(|(first, last)| (last as f64 - first as f64) / f64::from(1 << 20));
        let grew = grew.map_or("-".to_owned(), |grew| format!("{grew:+.1}"));
        let count = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
        let (descriptors, threads) = (process.descriptors.map(|(last, _)| last.into()), process.threads.0);
        line!(
            out,
            "{:<20} {:>7} {:>7} {:>7} {:>7} {:>9} {:>9} {grew:>9} {:>7} {:>5} {threads:>4} {:>7} {:>8} {:>7}  {}, {}",
            Shown(name).to_string(),
            number(process.cpu.percent()),
            most(&process.cpu),
            number(process.waiting.percent()),
            most(&process.waiting),
            mib(last),
            mib(highest),
            process.major,
            count(descriptors),
            count(process.served.map(|served| served.clients.into())),
            count(process.served.map(|served| served.channels.into())),
            count(process.drops),
            zone.format(process.since, 0),
            known(process),
        )
    }
}

/// How long it is known, and of what span.
fn known(process: &Process) -> String {
    let (known, span) =
        (process.period / 1_000_000, process.until.saturating_sub(process.since) / 1_000_000_000);
    match u64::try_from(span).unwrap_or_default() {
        span if span > known.saturating_add(1) => format!("{known} s of {span} s"),
        _ => format!("{known} s"),
    }
}

fn name(process: &Process) -> String {
    match (&*process.ioc, process.pid) {
        ("", Some(pid)) => format!("pid {pid}"),
        ("", None) => "-".to_owned(),
        (ioc, _) => ioc.to_owned(),
    }
}

fn threads(out: &mut Out, process: &Process, name: &str) -> io::Result<()> {
    let mut most: Vec<_> = process.by_thread.iter().collect();
    most.sort_by_key(|(_, (cpu, waiting, _))| std::cmp::Reverse(cpu.saturating_add(*waiting)));
    if most.is_empty() || process.period == 0 {
        return Ok(());
    }
    line!(out)?;
    line!(
        out,
        "{:<20} {:>7} {:>7} {:>10}  (threads of {})",
        "THREAD",
        "CPU %",
        "wait %",
        "switches/s",
        Shown(name).to_string()
    )?;
    let of = |amount: u64| number(Some(100.0 * amount as f64 / process.period as f64));
    let (mut cpu_told, left_out) = (0_u64, most.len().saturating_sub(MOST));
    for (name, (cpu, waiting, times)) in most.into_iter().take(MOST) {
        cpu_told = cpu_told.saturating_add(*cpu);
        let name = if name.is_empty() { "-" } else { name };
        let switches = *times as f64 * 1e6 / process.period as f64;
        line!(out, "{:<20} {:>7} {:>7} {switches:>10.1}", Shown(name).to_string(), of(*cpu), of(*waiting))?;
    }
    let rest = process.cpu.amount.saturating_sub(cpu_told);
    if rest.saturating_mul(1000) > process.period || left_out > 0 {
        line!(out, "{:<20} {:>7}", "(others)", of(rest))?;
    }
    Ok(())
}

fn number(number: Option<f64>) -> String {
    number.map_or("-".to_owned(), |number| format!("{number:.1}"))
}
