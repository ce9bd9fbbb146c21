//! Makes messages of Channel Access for tests. (The framer's unit tests take this file in as well.)
#![allow(dead_code)] // not every user needs all of it

/// A message: short header if it can be, payload padded.
pub fn message(command: u16, dbr: u16, count: u32, p1: u32, p2: u32, payload: &[u8]) -> Vec<u8> {
    let padded = payload.len().next_multiple_of(8);
    let mut m = if padded < 0xffff && count < 0xffff {
        header(command, padded as u16, dbr, count as u16, p1, p2)
    } else {
        long_header(command, padded as u32, dbr, count, p1, p2)
    };
    m.extend_from_slice(payload);
    m.resize(m.len() + padded - payload.len(), 0);
    m
}

pub fn header(command: u16, size: u16, dbr: u16, count: u16, p1: u32, p2: u32) -> Vec<u8> {
    let mut h = Vec::new();
    for v in [command, size, dbr, count] {
        h.extend(v.to_be_bytes());
    }
    for v in [p1, p2] {
        h.extend(v.to_be_bytes());
    }
    h
}

pub fn long_header(command: u16, size: u32, dbr: u16, count: u32, p1: u32, p2: u32) -> Vec<u8> {
    let mut h = header(command, 0xffff, dbr, 0, p1, p2);
    h.extend(size.to_be_bytes());
    h.extend(count.to_be_bytes());
    h
}

/// A string with its NUL.
pub fn named(command: u16, p1: u32, p2: u32, text: &str) -> Vec<u8> {
    message(command, 0, 0, p1, p2, format!("{text}\0").as_bytes())
}

pub fn version() -> Vec<u8> {
    header(0, 0, 0, 13, 0, 0)
}

pub fn put(notify: bool, sid: u32, ioid: u32, values: &[f64]) -> Vec<u8> {
    let payload: Vec<u8> = values.iter().flat_map(|v| v.to_be_bytes()).collect();
    message(if notify { 19 } else { 4 }, 6, values.len() as u32, sid, ioid, &payload)
}
