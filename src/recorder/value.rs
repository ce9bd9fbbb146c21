//! Turns values in an IOC's memory into values of the log.

use iocrec_log::event::{Array, Dbf, Value};
use iocrec_log::value::{element, until_nul};

use crate::bpf::hit::Raw;
use epics::dbf::Numbering;

/// Type of a value; `NoAccess` if Base has no such type.
pub fn dbf(raw: &Raw, numbering: Numbering) -> Dbf {
    numbering.dbf(raw.dbf).unwrap_or(Dbf::NoAccess)
}

/// A single value, or an array if `array` is set or there is more than one element.
pub fn value(raw: &Raw, numbering: Numbering, array: bool) -> Value {
    let dbf = dbf(raw, numbering);
    if raw.count == 0 && dbf.holds_value() {
        return Value::Array(Array { dbf, count: 0, bytes: Vec::new() });
    }
    if raw.bytes.is_empty() || !dbf.holds_value() {
        return Value::Unknown;
    }
    let size = dbf.size();
    if array || raw.count != 1 {
        let whole = (raw.bytes.len() / size).min(raw.count as usize) * size;
        return Value::Array(Array { dbf, count: raw.count, bytes: little_endian(raw.bytes, size, whole) });
    }
    element(dbf, &little_endian(raw.bytes, size, size)).unwrap_or(Value::Unknown)
}

/// The text of a char array up to its NUL.
pub fn text(raw: &Raw) -> Value {
    let bytes = raw.bytes.get(..raw.count as usize).unwrap_or(raw.bytes);
    Value::Text(until_nul(bytes).to_vec())
}

/// The first `whole` bytes (a string that was read in part may be shorter), in elements of `size`, in the log's byte
/// order.
fn little_endian(bytes: &[u8], size: usize, whole: usize) -> Vec<u8> {
    let mut bytes = bytes.get(..whole).unwrap_or(bytes).to_vec();
    if cfg!(target_endian = "big") && matches!(size, 2 | 4 | 8) {
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use Numbering::{Before3161, Since3161};

    fn raw(dbf: u16, count: u32, bytes: &[u8]) -> Raw<'_> {
        Raw { dbf, count, bytes }
    }

    #[test]
    fn types_are_numbered_by_version() {
        let one = 1.5f64.to_ne_bytes();
        assert_eq!(value(&raw(10, 1, &one), Since3161, false), Value::Double(1.5));
        assert_eq!(value(&raw(8, 1, &one), Before3161, false), Value::Double(1.5));
        assert_eq!(value(&raw(8, 1, &[255; 8]), Since3161, false), Value::UInt(u64::MAX));
        assert_eq!(value(&raw(7, 1, &[255; 8]), Since3161, false), Value::Int(-1));
        assert_eq!(value(&raw(3, 1, &[254, 255]), Since3161, false), Value::Int(-2));
    }

    #[test]
    fn strings_end_at_their_nul() {
        assert_eq!(value(&raw(0, 1, b"abc\0def"), Since3161, false), Value::Text(b"abc".to_vec()));
        assert_eq!(value(&raw(0, 1, &[b'x'; 50]), Since3161, false), Value::Text(vec![b'x'; 40]));
        assert_eq!(text(&raw(1, 3, b"abcdef")), Value::Text(b"abc".to_vec()));
    }

    #[test]
    fn arrays_hold_whole_elements_and_the_true_count() {
        let bytes: Vec<u8> = (0..20).collect();
        let Value::Array(array) = value(&raw(5, 100, &bytes[..18]), Since3161, false) else { panic!() };
        assert_eq!((array.dbf, array.count, array.bytes.len()), (Dbf::Long, 100, 16));
        let Value::Array(array) = value(&raw(5, 2, &bytes), Since3161, true) else { panic!() };
        assert_eq!(array.bytes.len(), 8, "what lies behind the array is not part of it");
        assert!(matches!(value(&raw(5, 1, &bytes), Since3161, true), Value::Array(_)));
    }

    #[test]
    fn nothing_read_is_unknown_but_an_empty_array_is_known() {
        let empty = Array { dbf: Dbf::Double, count: 0, bytes: vec![] };
        assert_eq!(value(&raw(10, 0, &[]), Since3161, true), Value::Array(empty));
        assert_eq!(value(&raw(10, 1, &[]), Since3161, false), Value::Unknown);
        assert_eq!(value(&raw(10, 1, &[1, 2]), Since3161, false), Value::Unknown);
        assert_eq!(value(&raw(14, 1, &[1; 8]), Since3161, false), Value::Unknown, "a link");
        assert_eq!(value(&raw(255, 1, &[1; 8]), Since3161, false), Value::Unknown, "no type of Base");
    }
}
