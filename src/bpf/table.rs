//! A hash table or an array of the BPF programs, typed by the contract.
//!
//! libbpf is called directly, since libbpf-rs hides error numbers.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libbpf_rs::{libbpf_sys, MapCore, Object};

use crate::bpf::shared::Shared;

/// A map that refused an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapError {
    /// Its name.
    pub map: &'static str,
    /// The kernel's error.
    pub errno: i32,
}

impl Display for MapError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let MapError { map, errno } = self;
        match *errno {
            libc::E2BIG => write!(f, "the BPF map of {map} is full"),
            errno => write!(f, "the BPF map of {map}: {}", io::Error::from_raw_os_error(errno)),
        }
    }
}

impl std::error::Error for MapError {}

/// A map with keys `K` and values `V`.
pub struct Table<K, V> {
    name: &'static str,
    fd: OwnedFd,
    entries: u32,
    types: PhantomData<(K, V)>,
}

impl<K: Shared, V: Shared> Table<K, V> {
    /// Opens the map of this name in a loaded object.
    ///
    /// # Errors
    /// There is no such map, its keys or values have other sizes, or there are no more descriptors.
    pub fn open(object: &Object, name: &'static str) -> io::Result<Table<K, V>> {
        let found = map_of(object, name)?;
        let sizes = (found.key_size() as usize, found.value_size() as usize);
        if sizes != (size_of::<K>(), size_of::<V>()) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let fd = found.as_fd().try_clone_to_owned()?;
        Ok(Table { name, fd, entries: found.max_entries(), types: PhantomData })
    }

    /// Largest number of entries.
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// The value of a key.
    pub fn get(&self, key: K) -> Option<V> {
        // any bytes are a valid value
        let mut value = V::zeroed();
        let into = std::ptr::from_mut(&mut value).cast();
        // SAFETY: `open` made sure that the kernel reads and writes as many bytes as the two have.
        let found = unsafe { libbpf_sys::bpf_map_lookup_elem(self.raw(), key.bytes().as_ptr().cast(), into) };
        (found == 0).then_some(value)
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// The map is full.
    pub fn set(&self, key: K, value: V) -> Result<(), MapError> {
        let (key, value) = (key.bytes().as_ptr().cast(), value.bytes().as_ptr().cast());
        let flags = u64::from(libbpf_sys::BPF_ANY);
        // SAFETY: `open` made sure that the kernel reads as many bytes as the two have.
        match unsafe { libbpf_sys::bpf_map_update_elem(self.raw(), key, value, flags) } {
            0 => Ok(()),
            error => Err(MapError { map: self.name, errno: -error }),
        }
    }

    /// Removes a key from a hash table; a missing key is not an error.
    pub fn remove(&self, key: K) {
        // SAFETY: `open` made sure that the kernel reads as many bytes as it has.
        unsafe { libbpf_sys::bpf_map_delete_elem(self.raw(), key.bytes().as_ptr().cast()) };
    }

    /// All keys; only those found if the programs change the map meanwhile.
    pub fn keys(&self) -> Vec<K> {
        // SAFETY: `open` made sure that the keys have this type.
        unsafe { keys(self.raw(), self.entries) }
    }

    fn raw(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

/// The keys of a map; once for all kinds of values, to save code.
///
/// # Safety
/// The map's keys are as large as a `K`.
unsafe fn keys<K: Shared>(map: i32, entries: u32) -> Vec<K> {
    let mut keys: Vec<K> = Vec::new();
    // a program that removes keys makes the kernel start over
    while keys.len() <= entries as usize {
        let mut next = K::zeroed();
        let before = keys.last().map_or(std::ptr::null(), |key| key.bytes().as_ptr().cast());
        let into = std::ptr::from_mut(&mut next).cast();
        // SAFETY: the kernel reads and writes as many bytes as a key has.
        if unsafe { libbpf_sys::bpf_map_get_next_key(map, before, into) } != 0 {
            break;
        }
        keys.push(next);
    }
    keys
}

/// The map of this name.
///
/// # Errors
/// There is no such map.
pub fn map_of<'a>(object: &'a Object, name: &str) -> io::Result<libbpf_rs::Map<'a>> {
    let found = object.maps().find(|map| map.name() == name);
    found.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
}
