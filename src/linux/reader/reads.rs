//! The reads that other rooms request: files of /proc, links, memory, lists in memory.
//!
//! Each returns `None` on a thread without a reader process; its caller then reads in place.

use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::linux::reader::shared::{Part, Request, MAX_DATA, MAX_IOVECS, MAX_PROCESSES};
use crate::linux::reader::thread::{
    has_reader, pid_in, put_path, request, take_data, with_buffer, with_data,
};

/// The first bytes of the reply.
fn replied(bytes: usize) -> Vec<u8> {
    with_data(|data| data.get(..bytes).unwrap_or_default().to_vec())
}

/// The content of a file of /proc, up to `most` bytes.
///
/// # Errors
/// The file can't be read, or not in time.
pub fn contents(path: &Path, most: u64) -> Option<io::Result<Vec<u8>>> {
    let first = request(pid_in(path), Request::Contents, |buffer| {
        put_path(buffer, path);
        buffer.length = most.min(MAX_DATA as u64);
    })?;
    let mut bytes = match first {
        Ok((have, _)) => replied(have),
        Err(error) => return Some(Err(error)),
    };
    let mut last = bytes.len();
    while last == MAX_DATA && (bytes.len() as u64) < most {
        let left = (most - bytes.len() as u64).min(MAX_DATA as u64);
        match request(pid_in(path), Request::More, |buffer| buffer.length = left)? {
            Ok((have, _)) => {
                bytes.extend(replied(have));
                last = have;
            }
            Err(error) => return Some(Err(error)),
        }
    }
    Some(Ok(bytes))
}

/// The target of a symbolic link.
///
/// # Errors
/// The path is not a link, can't be read, or not in time.
pub fn link(path: &Path) -> Option<io::Result<PathBuf>> {
    let answer = request(pid_in(path), Request::Link, |buffer| put_path(buffer, path))?;
    Some(answer.map(|(have, _)| PathBuf::from(std::ffi::OsString::from_vec(replied(have)))))
}

/// Fills `into` from these ranges (address, length) of a process's memory, up to the first unmapped one; returns the
/// number of bytes. `thread`: the thread that names the memory.
///
/// # Errors
/// Nothing is mapped there, or it can't be read, or not in time.
pub fn memory(
    pid: u32,
    thread: i32,
    into: &mut [u8],
    places: &[(usize, usize)],
) -> Option<io::Result<usize>> {
    if !has_reader() {
        return None;
    }
    // long ranges in parts, since the room in an answer is limited
    let parts = places.iter().flat_map(|&(address, length)| {
        (0..length).step_by(MAX_DATA).map(move |at| (address.wrapping_add(at), MAX_DATA.min(length - at)))
    });
    let mut parts = parts.peekable();
    let (mut batch, mut copied) = (Vec::with_capacity(places.len().min(MAX_IOVECS)), 0);
    while parts.peek().is_some() {
        batch.clear();
        let mut bytes = 0;
        while let Some(part) = parts.next_if(|part| batch.len() < MAX_IOVECS && bytes + part.1 <= MAX_DATA) {
            bytes += part.1;
            batch.push(part);
        }
        match piece(pid, thread, into.get_mut(copied..).unwrap_or_default(), &batch) {
            Ok(have) => {
                copied += have;
                if have < bytes {
                    break;
                }
            }
            Err(error) if copied == 0 => return Some(Err(error)),
            Err(_) => break,
        }
    }
    Some(Ok(copied))
}

/// Reads as much as one answer has room for.
fn piece(pid: u32, thread: i32, into: &mut [u8], places: &[(usize, usize)]) -> io::Result<usize> {
    let answer = request(Some(pid), Request::Memory, |buffer| {
        buffer.thread = thread;
        buffer.count = places.len() as u64;
        buffer.iovecs.iter_mut().zip(places).for_each(|(to, from)| *to = *from);
        put_path(buffer, Path::new(&format!("/proc/{thread}/mem")));
    });
    let (have, _) = answer.unwrap_or(Err(io::ErrorKind::Unsupported.into()))?;
    take_data(into, have);
    Ok(have)
}

/// The ranges (address, length) of the memory of several processes, each with the thread that names it, by one request. Of each
/// the bytes, one range after the other, or `None` if not all of them could be read. The outer `None`: on a thread without a
/// reader process, if they are too many, or not in time, and which of the processes is to blame is not known.
pub fn several(wanted: &[(i32, Vec<(usize, usize)>)]) -> Option<Vec<Option<Vec<u8>>>> {
    let ranges = || wanted.iter().flat_map(|(_, ranges)| ranges);
    let bytes = ranges().fold(0_usize, |sum, range| sum.saturating_add(range.1));
    if wanted.len() > MAX_PROCESSES || ranges().count() > MAX_IOVECS || bytes > MAX_DATA {
        return None;
    }
    let answer = request(None, Request::Several, |buffer| {
        buffer.count = wanted.len() as u64;
        buffer.iovecs.iter_mut().zip(ranges()).for_each(|(to, from)| *to = *from);
        for (part, (thread, ranges)) in buffer.parts.iter_mut().zip(wanted) {
            *part = Part { thread: *thread, ranges: ranges.len() as u32, copied: -1 };
        }
    });
    answer?.ok()?;
    Some(with_buffer(|buffer| {
        let (mut at, mut read) = (0, Vec::with_capacity(wanted.len()));
        for (part, (_, ranges)) in buffer.parts.iter().zip(wanted) {
            let length: usize = ranges.iter().map(|range| range.1).sum();
            let bytes = buffer.data.get(at..at + length).filter(|_| part.copied == length as i64);
            read.push(bytes.map(<[u8]>::to_vec));
            at += length;
        }
        read
    }))
}

/// The nodes of a list in a process's memory, one after the other, each beginning with the next one's address in
/// `width` bytes: as many as one answer has room for, `count` at most; `bytes` is the length of each. `None` on a
/// thread without a reader process.
///
/// # Errors
/// Not even the first node is there, or it can't be read, or not in time.
pub fn list(
    pid: u32,
    thread: i32,
    first: u64,
    bytes: usize,
    count: usize,
    width: usize,
) -> Option<io::Result<Vec<u8>>> {
    let answer = request(Some(pid), Request::List, |buffer| {
        buffer.thread = thread;
        buffer.offset = first;
        buffer.length = bytes as u64;
        buffer.count = count as u64;
        buffer.width = width as u32;
        put_path(buffer, Path::new(&format!("/proc/{thread}/mem")));
    })?;
    Some(answer.map(|(have, _)| replied(have * bytes)))
}
