//! Memory of an IOC for tests: a block of our own, laid out as in EPICS Base, with pointers into itself. The offsets
//! are repeated here, so that the tests notice when those of the code change.

use std::sync::atomic::{AtomicUsize, Ordering};

use iocrec_log::event::Linkage;

use crate::ioc::layout::Layout;
use crate::ioc::offsets::{Abi, Generation};
use crate::ioc::process::IocProcess;
use crate::linux::memory::Memory;
use crate::linux::width::Width;
use iocrec_testing::chance::Random;

/// Size of an image, bytes.
pub const ROOM: usize = 1 << 20;

/// Field of a record type: name, type as the process numbers it, offset, size.
pub type FieldLine<'a> = (&'a str, u32, u16, i16);

/// An image.
pub struct Image {
    pub width: Width,
    at: *mut u8,
    used: usize,
}

impl Image {
    /// An empty image, at an address that fits into a pointer of that width.
    pub fn new(width: Width) -> Image {
        // starts over after PLACES
        const FIRST: usize = 0x2000_0000;
        const PLACES: usize = 1000;
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // a place that another test still has is passed over
        let at = (0..PLACES).find_map(|_| {
            let hint = FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % PLACES * 2 * ROOM;
            // SAFETY: a new private mapping; without MAP_FIXED it replaces none.
            let at = unsafe {
                libc::mmap(
                    std::ptr::without_provenance_mut(hint),
                    ROOM,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                )
            };
            assert!(at != libc::MAP_FAILED);
            if (at as usize) < u32::MAX as usize - ROOM {
                return Some(at);
            }
            // SAFETY: the mapping that was just made.
            unsafe { libc::munmap(at, ROOM) };
            None
        });
        let at = at.expect("room below 4 GiB");
        Image { width, at: at.cast(), used: 0 }
    }

    /// This process's memory, read with the image's width.
    pub fn memory(&self) -> Memory {
        Memory::of(std::process::id(), self.width)
    }

    pub fn address(&self, at: usize) -> u64 {
        self.at as u64 + at as u64
    }

    /// Adds a block of zeroes and returns its start.
    pub fn room(&mut self, size: usize) -> usize {
        let at = self.used;
        self.used += size.next_multiple_of(8);
        assert!(self.used <= ROOM);
        at
    }

    /// Number of bytes in use.
    pub fn used(&self) -> usize {
        self.used
    }

    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= ROOM);
        // SAFETY: within the mapping, which nothing else refers to.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at.add(at), bytes.len()) };
    }

    /// A pointer to any address.
    pub fn put_pointer(&mut self, at: usize, address: u64) {
        match self.width {
            Width::Bits32 => self.put(at, &(address as u32).to_ne_bytes()),
            Width::Bits64 => self.put(at, &address.to_ne_bytes()),
        }
    }

    pub fn point(&mut self, at: usize, to: usize) {
        self.put_pointer(at, self.address(to));
    }

    pub fn string(&mut self, text: &str) -> usize {
        let at = self.room(text.len() + 1);
        self.put(at, text.as_bytes());
        at
    }

    /// A pointer in a structure to a string.
    pub fn point_to_string(&mut self, at: usize, text: &str) {
        let string = self.string(text);
        self.point(at, string);
    }

    /// Changes up to `most` words at random, as memory of another process may be that changes while it is read, or was
    /// never that of an IOC.
    pub fn change(&mut self, random: &mut Random, most: usize) {
        let (used, word) = (self.used, self.width.bytes());
        for _ in 0..random.below(most) {
            let at = random.below(used / word) * word;
            match random.below(6) {
                0 => self.put(at + random.below(word), &[random.next() as u8]),
                1 => self.put(at, &[[0, 1, 2, 0x7F, 0xFF][random.below(5)]; 4]),
                2 => self.put_pointer(at, random.next() >> random.below(64)),
                3 => self.put_pointer(at, 0),
                // to its end, beyond which nothing is mapped
                4 => self.put_pointer(at, self.address(ROOM - random.below(64))),
                _ => self.point(at, random.below(used)),
            }
        }
    }

    /// Adds dbBase and returns its start. Its list of record types is the "last node" for the first one.
    pub fn base(&mut self) -> (usize, usize) {
        let base = self.room(300);
        (base, base + self.width.pick(12, 24))
    }

    /// Adds a record type after the list's `last` node and returns its start.
    pub fn record_type(&mut self, last: usize, name: &str, fields: &[FieldLine]) -> usize {
        let width = self.width;
        let node = self.room(width.pick(100, 192));
        self.point(last, node);
        self.point_to_string(node + width.pick(56, 112), name);
        self.put(node + width.pick(60, 120), &(fields.len() as u16).to_ne_bytes());
        self.put(node + width.pick(96, 184), &1000u32.to_ne_bytes());
        let list = self.room(fields.len() * width.bytes());
        self.point(node + width.pick(88, 168), list);
        for (index, (name, dbf, offset, size)) in fields.iter().enumerate() {
            let field = self.room(width.pick(52, 80));
            self.point(list + index * width.bytes(), field);
            self.point_to_string(field + width.pick(4, 8), name);
            self.point(field + width.pick(12, 24), node);
            self.put(field + width.pick(20, 36), &dbf.to_ne_bytes());
            self.put(field + width.pick(48, 72), &size.to_ne_bytes());
            self.put(field + width.pick(50, 74), &offset.to_ne_bytes());
        }
        node
    }

    /// Address of the description of a record type's field number `index`.
    pub fn field(&self, rtype: usize, index: usize) -> usize {
        let list = self.memory().pointer(self.address(rtype + self.width.pick(88, 168))).unwrap();
        let field = self.memory().pointer(list + (index * self.width.bytes()) as u64).unwrap();
        (field - self.at as u64) as usize
    }

    /// Adds a record node for `record` at the end of a type's list; an alias if it has a name of its own.
    pub fn node(&mut self, rtype: usize, record: usize, alias: Option<&str>) -> usize {
        let width = self.width;
        let list = rtype + width.pick(20, 40);
        let count_at = self.address(list + width.pick(8, 16));
        let count = u32::from_ne_bytes(self.memory().bytes(count_at).unwrap());
        let mut last = list;
        for _ in 0..count {
            last = (self.memory().pointer(self.address(last)).unwrap() - self.at as u64) as usize;
        }
        let node = self.room(width.pick(40, 72));
        self.point(last, node);
        self.point(list + width.bytes(), node);
        self.put(list + width.pick(8, 16), &(count + 1).to_ne_bytes());
        self.point(node + width.pick(8, 16), record);
        self.point(node + width.pick(12, 24), record);
        if let Some(name) = alias {
            self.point_to_string(node + width.pick(12, 24), name);
            self.put(node + width.pick(28, 56), &3u32.to_ne_bytes());
        }
        node
    }

    /// Adds a record with its node and returns the record's start.
    pub fn record(&mut self, rtype: usize, rdes: u16, name: &str) -> usize {
        let record = self.room(1200);
        self.put(record, name.as_bytes());
        self.point(record + usize::from(rdes), rtype);
        self.node(rtype, record, None);
        record
    }

    /// Adds a dbMenu and returns its start.
    pub fn menu(&mut self, name: &str, choices: &[&str]) -> usize {
        let width = self.width;
        let menu = self.room(width.pick(24, 48));
        self.point_to_string(menu + width.pick(8, 16), name);
        self.put(menu + width.pick(12, 24), &(choices.len() as u32).to_ne_bytes());
        let list = self.choices(choices);
        self.point(menu + width.pick(20, 40), list);
        menu
    }

    /// Adds a dbDeviceMenu and returns its start.
    pub fn device_menu(&mut self, choices: &[&str]) -> usize {
        let menu = self.room(self.width.pick(8, 16));
        self.put(menu, &(choices.len() as u32).to_ne_bytes());
        let list = self.choices(choices);
        self.point(menu + self.width.pick(4, 8), list);
        menu
    }

    fn choices(&mut self, choices: &[&str]) -> usize {
        let list = self.room(choices.len() * self.width.bytes());
        for (index, choice) in choices.iter().enumerate() {
            self.point_to_string(list + index * self.width.bytes(), choice);
        }
        list
    }
}

impl Image {
    /// The process whose record database begins at `base`, as if it had been examined, and the address of the variable
    /// that points to the database.
    pub fn process(&mut self, pid: u32, base: usize) -> (IocProcess, usize) {
        let variable = self.room(8);
        self.point(variable, base);
        let memory = self.memory();
        let process = IocProcess {
            pid,
            start: 1,
            name: "test".into(),
            base_version: "7.0.10".into(),
            environment: Vec::new(),
            linkage: Linkage::Shared,
            layout: Layout::read(&memory, self.address(base)),
            memory,
            modules: Vec::new(),
            database: Some(self.address(variable)),
            is_translated: false,
            code: [].into(),
            abi: Abi { width: self.width, generation: Generation::Base315 },
        };
        (process, variable)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // SAFETY: our own mapping, of this length.
        unsafe { libc::munmap(self.at.cast(), ROOM) };
    }
}
