//! Whether a client broke off before all of a value had come. No server puts a part of one: QSRV1 reads all the fields that
//! are marked as changed, QSRV2 the whole message, before either puts any.
//!
//! The type is the server's own, and no client can feign that bytes are missing. It could in an any, whose type it sends: what
//! stands behind one is not looked at.

use crate::model::pva_value::Sent;
use epics::pva::value::{self, Visitor};
use epics::pva::{Cursor, Fault, Leaf, Read};
use iocrec_log::context::Context;
use iocrec_log::event::PvaValue;

/// Whether the log has all that came of a value of changed fields, and these take more.
pub(super) fn is_broken_off(context: &Context, sent: &Sent, value: &PvaValue) -> bool {
    let is_all = usize::try_from(value.length).is_ok_and(|length| length == value.bytes.len());
    if !is_all || !sent.is_known || !sent.is_cut {
        return false;
    }
    let of = value.types.first().and_then(|of| context.in_force().pva_types.get(*of));
    let Some(of) = of else { return false };
    let cursor = &mut Cursor::new(&value.bytes, value.big_endian);
    let read = cursor.bits().and_then(|bits| value::changed(&of.description, bits, cursor, &mut Nothing));
    read == Err(Fault::Short)
}

/// Keeps nothing: only whether the bytes suffice is asked.
struct Nothing;

impl Visitor for Nothing {
    fn enter(&mut self, _: &[u8]) {}

    fn leave(&mut self) {}

    fn leaf(&mut self, _: Leaf<'_>) {}

    fn any(&mut self, _: &mut Cursor<'_>, _: &mut Vec<u8>) -> Read<bool> {
        Err(Fault::UnknownType)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::pva_value::sent;
    use iocrec_log::event::{Fact, PvaType};

    /// Types: an array of doubles and a number; an any; a field whose name is longer than those that are kept.
    const ARRAY: u32 = 1;
    const ANY: u32 = 2;
    const LONG: u32 = 3;

    fn is(types: &[u32], bytes: &[u8], length: usize) -> bool {
        let mut context = Context::default();
        let of = |id: u32, description: Vec<u8>| Fact::PvaType(PvaType { id, description });
        context.apply(0, &of(ARRAY, b"\x80\x00\x02\x05value\x4b\x01n\x22".to_vec()));
        context.apply(0, &of(ANY, b"\x80\x00\x01\x01x\x82".to_vec()));
        let inner = [&b"\x80\x00\x01\xc8"[..], &[b'b'; 200], b"\x22"].concat();
        let outer = [&b"\x80\x00\x01\xc8"[..], &[b'a'; 200], &inner[..]].concat();
        context.apply(0, &of(LONG, outer));
        let value = PvaValue {
            types: types.to_vec(),
            big_endian: false,
            length: length as u32,
            bytes: bytes.to_vec(),
        };
        is_broken_off(&context, &sent(&context, &value, true), &value)
    }

    #[test]
    fn what_takes_more_than_came_is_broken_off() {
        let array = [&[1, 6, 2][..], &1f64.to_le_bytes(), &2f64.to_le_bytes(), &7i32.to_le_bytes()].concat();
        // the set of fields, the count, elements, and the second field
        for length in 0..array.len() {
            assert!(is(&[ARRAY], &array[..length], length), "{length}");
            // the log has no more, but the server had
            assert!(!is(&[ARRAY], &array[..length], array.len()), "{length}");
        }
        assert!(!is(&[ARRAY], &array, array.len()));
        // more came than it takes
        assert!(!is(&[ARRAY], &[&array[..], &[0]].concat(), array.len() + 1));
    }

    /// That the log holds no field of it has other reasons.
    #[test]
    fn what_the_reader_can_not_take_apart_is_whole() {
        let any = b"\x01\x02\xfe\x63\x00\x07\x00\x00\x00";
        assert!(!is(&[ANY, 0], any, any.len()));
        let long = b"\x01\x04\x07\x00\x00\x00";
        assert!(!is(&[LONG], long, long.len()));
        assert!(is(&[LONG], &long[..5], 5));
    }
}
