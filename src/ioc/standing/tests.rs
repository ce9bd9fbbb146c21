//! Tests on this process's own threads, whose memory holds an image of an IOC's records and locks.

use super::*;
use crate::ioc::image::{FieldLine, Image};
use crate::ioc::Module;
use crate::linux::elf::Elf;
use crate::linux::opened::Opened;
use crate::linux::width::Width;
use iocrec_testing::chance::fuzz;
use std::fs::File;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{mpsc, Arc};
use std::time::{Duration, Instant};

const RDES: u16 = 544;
const LSET: usize = 576;

pub(crate) struct World {
    image: Image,
    pub process: IocProcess,
    pub record: u64,
    /// Offset of the mutex of its lock set.
    mutex: usize,
}

/// A record, the lock set that it is in, and the epicsMutex of that (Base 7.0.10).
pub(crate) fn world() -> World {
    let mut image = Image::new(Width::Bits64);
    let fields: [FieldLine; 5] = [
        ("STAT", 12, 410, 2),
        ("PACT", 2, 505, 1),
        ("RDES", 17, RDES, 8),
        ("LSET", 17, LSET as u16, 8),
        ("VAL", 10, 700, 8),
    ];
    let (base, first) = image.base();
    let rtype = image.record_type(first, "calc", &fields);
    let record = image.record(rtype, RDES, "A");
    let (lock, set, parameters) = (image.room(64), image.room(64), image.room(96));
    image.point(record + LSET, lock);
    image.point(lock + 16, set);
    image.point(lock + 24, record);
    image.point(set + 40, parameters);
    image.put(parameters + 24, &86u32.to_ne_bytes());
    image.point_to_string(parameters + 16, "../db/dbLock.c");
    let mutex = parameters + 32;
    image.put(mutex + 16, &0x21u32.to_ne_bytes());
    let (process, _) = image.process(std::process::id(), base);
    let record = image.address(record);
    World { image, process, record, mutex }
}

impl World {
    /// A thread that waits for the mutex.
    pub fn waiting(&self) -> Standing {
        let is_record = |_: u64| false;
        let look = Look::at(&self.process, &is_record);
        let mutex = look.mutex(self.image.address(self.mutex), LOCK_PI, 0, &[self.record]);
        Standing { wait: Wait::Mutex, call: None, mutex, holds: None, text: String::new() }
    }

    /// A thread holds the mutex.
    pub fn hold(&mut self, tid: u32) {
        for (member, value) in [(0, tid | 1 << 31), (4, 1), (8, tid), (12, 1)] {
            self.image.put(self.mutex + member, &value.to_ne_bytes());
        }
    }
}

/// A thread that sleeps, with an address on its stack; its number, and what ends it.
fn sleeper(address: u64) -> (u32, mpsc::Sender<()>, std::thread::JoinHandle<()>) {
    let ((told, tid), (end, ended)) = (mpsc::channel(), mpsc::channel::<()>());
    let work = move || {
        // below the frames of the wait
        let on_stack = std::hint::black_box([address; 4]);
        told.send(nix::unistd::gettid().as_raw().unsigned_abs()).unwrap();
        let _ = ended.recv();
        std::hint::black_box(&on_stack);
    };
    let thread = std::thread::spawn(work);
    (tid.recv().unwrap(), end, thread)
}

#[test]
fn a_thread_by_its_own_number() {
    let (world, is_record) = (world(), |_: u64| false);
    let look = Look::at(&world.process, &is_record);
    let tid = nix::unistd::gettid().as_raw().unsigned_abs();
    assert_eq!((look.thread_of(tid), look.thread_of(u32::MAX)), (Some(tid), None));
}

fn look_until(world: &World, tid: u32, good: impl Fn(&Standing) -> bool) -> Standing {
    let begin = Instant::now();
    loop {
        let record = world.record;
        let is_record = move |address| address == record;
        if let Some(found) = Look::at(&world.process, &is_record).thread(tid).filter(&good) {
            return found;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "it is not seen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_record_on_the_stack_counts_if_its_lock_is_held() {
    let mut world = world();
    let (tid, end, thread) = sleeper(world.record);
    let idle = look_until(&world, tid, |found| found.wait != Wait::Processor);
    assert_eq!(idle.holds, None, "its address alone says nothing");
    world.hold(tid + 1);
    assert_eq!(
        look_until(&world, tid, |found| found.wait != Wait::Processor).holds,
        None,
        "another holds it"
    );
    world.hold(tid);
    let found = look_until(&world, tid, |found| found.wait != Wait::Processor);
    assert_eq!(found.holds, Some(world.record));
    let is_none = |_| false;
    let look = Look::at(&world.process, &is_none);
    assert_eq!(look.thread(tid).unwrap().holds, None, "no record is there");
    assert!(look.still_stands(tid, &found));
    drop(end);
    thread.join().unwrap();
    assert!(!look.still_stands(tid, &found) && look.thread(tid).is_none(), "it has ended");
}

#[test]
fn a_mutex_that_is_waited_for() {
    let mut world = world();
    let (holder, end, thread) = sleeper(0);
    world.hold(holder);
    let word = world.image.address(world.mutex);
    let record = world.record;
    let is_record = |address| address == record;
    let look = Look::at(&world.process, &is_record);
    let found = look.mutex(word, LOCK_PI, 0, &[record]).unwrap();
    assert_eq!((found.holder, found.record), (Some(holder), Some(record)));
    assert_eq!(look.source(word), "dbLock.c:86");
    assert_eq!(look.mutex(word, LOCK_PI2, 0, &[]).unwrap().record, None, "no record on the stack");
    // what is no lock, and a holder that is no thread of the process
    assert_eq!(look.mutex(word, WAIT, 0, &[]), None);
    assert_eq!(look.mutex(word, 9, 2, &[]), None, "a condition variable");
    world.hold(1);
    let is_record = |address| address == record;
    let look = Look::at(&world.process, &is_record);
    assert_eq!(look.mutex(word, LOCK_PI, 0, &[]).unwrap().holder, None);
    assert_eq!(look.mutex(8, WAIT, 2, &[]), None);
    drop(end);
    thread.join().unwrap();
}

/// The program of these tests, which says for which architecture it was built.
fn own_program() -> Module {
    let opened = Opened::named(&std::env::current_exe().unwrap()).unwrap();
    let elf = Arc::new(Elf::read(&opened, &[]).unwrap());
    let mapped = process::mappings(std::process::id()).unwrap();
    let file = mapped.into_iter().find(|mapping| mapping.executable).unwrap().file;
    let (opened, code, path) = (Arc::new(opened), Vec::new(), String::new());
    Module { file, opened, code, is_program: true, path, elf, bias: 0, range: (0, 0) }
}

#[test]
fn a_connection_that_is_read() {
    let mut world = world();
    world.process.modules.push(own_program());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    let (told, tid) = mpsc::channel();
    // read(2), which may be of a file, too
    let mut file = File::from(OwnedFd::from(stream));
    let thread = std::thread::spawn(move || {
        told.send(nix::unistd::gettid().as_raw().unsigned_abs()).unwrap();
        file.read(&mut [0]).unwrap()
    });
    let found = look_until(&world, tid.recv().unwrap(), |found| found.wait == Wait::Read);
    let is_none = |_| false;
    let peer = listener.local_addr().unwrap().to_string();
    assert_eq!(Look::at(&world.process, &is_none).object(&found), (Wait::Receive, peer));
    drop(other);
    assert_eq!(thread.join().unwrap(), 0);
}

/// Whatever the memory holds: nothing panics or hangs, and no record is named that is none.
#[test]
fn images_that_were_changed() {
    let (tid, end, thread) = sleeper(0);
    fuzz(200, |random| {
        let mut world = world();
        let used = world.image.used() - 8;
        for _ in 0..random.below(20) {
            let at = random.below(used);
            let value = match random.below(3) {
                0 => random.next(),
                1 => world.image.address(random.below(used) / 8 * 8),
                _ => random.below(70_000) as u64,
            };
            world.image.put(at, &value.to_ne_bytes());
        }
        let record = world.record;
        let is_record = move |address| address == record;
        let look = Look::at(&world.process, &is_record);
        let stack: Vec<u8> = (0..random.below(200))
            .flat_map(|_| {
                let word = if random.below(4) == 0 { record } else { random.next() };
                word.to_ne_bytes()
            })
            .collect();
        let records = look.records(&stack);
        assert!(records.len() <= 1 && records.iter().all(|found| *found == record));
        let word = if random.below(2) == 0 { world.image.address(world.mutex) } else { random.next() };
        let operation = [WAIT, LOCK_PI, LOCK_PI2, 9][random.below(4)];
        if let Some(mutex) = look.mutex(word, operation, random.next(), &records) {
            assert!(mutex.record.is_none_or(|found| found == record));
        }
        look.source(word);
        look.owner(record);
        look.is_suspended(&stack);
    });
    drop(end);
    thread.join().unwrap();
    let _ = tid;
}
