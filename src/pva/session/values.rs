//! Values of puts and answers, with the numbers of their types, and of those within them.

use epics::pva::value::{self, Visitor};
use epics::pva::{Cursor, Fault, Leaf, Read};
use iocrec_log::event::{PvaTypeId, PvaValue};

use super::context::Context;
use super::Session;
use crate::net::protocol::Side;
use crate::pva::types::{Known, TypeRef, Types};

/// Anys of a value that are looked at. As many numbers in anys fit in what is kept of a value.
const MOST_ANYS: usize = 512;

impl Session {
    /// A value of this type, `length` bytes long, of which the first are at `cursor`.
    #[allow(clippy::too_many_arguments)] // a value's members
    pub(super) fn value(
        &mut self,
        time: u64,
        side: Side,
        of: Option<TypeRef>,
        changed: bool,
        cursor: &mut Cursor<'_>,
        length: u64,
        context: &mut Context,
    ) -> PvaValue {
        let rest = cursor.rest();
        let bytes = rest.get(..context.limits.payload).unwrap_or(rest).to_vec();
        let mut types = vec![context.types.number(time, of, context.out)];
        types.extend(self.types_within(time, side, of, changed, cursor, context));
        PvaValue {
            types,
            big_endian: cursor.is_big_endian(),
            length: u32::try_from(length).unwrap_or(u32::MAX),
            bytes,
        }
    }

    /// The types of the anys in a value, which may define more.
    pub(super) fn types_within(
        &mut self,
        time: u64,
        side: Side,
        of: Option<TypeRef>,
        changed: bool,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
    ) -> Vec<PvaTypeId> {
        let Some(of) = of.filter(|of| context.types.has_any(*of)) else { return Vec::new() };
        if !context.types.may_walk(time) {
            self.misses_types |= side == Side::Client;
            return Vec::new();
        }
        let description = context.types.get(of).unwrap_or_default().to_vec();
        let known = match side {
            Side::Client => &mut self.from_client,
            Side::Server => &mut self.from_server,
        };
        let mut anys = Anys { known, types: context.types, found: Vec::new() };
        let before = cursor.rest().len();
        let bits = if changed { cursor.bits().map(Some) } else { Ok(None) };
        // as far as it can be read
        let (read, steps) = match bits {
            Ok(bits) => value::counted(&description, bits, cursor, &mut anys),
            Err(fault) => (Err(fault), 0),
        };
        let found = anys.found;
        context.types.count_walk(time, (steps + cursor.rest().len()).saturating_sub(before));
        self.misses_types |= read.is_err() && side == Side::Client;
        found.into_iter().map(|of| context.types.number(time, of, context.out)).collect()
    }
}

/// Collects the types of anys.
struct Anys<'a> {
    pub(super) known: &'a mut Known,
    pub(super) types: &'a mut Types,
    pub(super) found: Vec<Option<TypeRef>>,
}

impl Visitor for Anys<'_> {
    fn enter(&mut self, _: &[u8]) {}

    fn leave(&mut self) {}

    fn leaf(&mut self, _: Leaf<'_>) {}

    fn any(&mut self, value: &mut Cursor<'_>, out: &mut Vec<u8>) -> Read<bool> {
        if self.found.len() >= MOST_ANYS {
            return Err(Fault::TooMuch);
        }
        let of = self.known.read(value, self.types);
        self.found.push(of.ok().flatten());
        let description = of?.and_then(|of| self.types.get(of));
        out.extend_from_slice(description.unwrap_or_default());
        Ok(description.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::packet::End;
    use crate::net::protocol::{Ends, Start};
    use crate::pva::session::{Ids, SessionLimits};

    /// An array of structures, each with 2000 empty ones: forty bytes of it take as many steps as forty thousand do else.
    #[test]
    fn few_bytes_do_not_make_walks_without_end() {
        const SECOND: u64 = 1_000_000_000;
        let fields = b"\x01a\x80\x00\x00".repeat(2000);
        let wire = [&b"\x88\x80\x00\xfe\xd1\x07\x00\x00"[..], &fields, b"\x01x\x82"].concat();
        let value = [&[20_u8][..], &[1_u8, 0xff].repeat(20)].concat();
        let end = End::v6(1, 5075);
        let (start, listener) = (Start::Opened, None);
        let ends = Ends { namespace: 0, client: end, server: end, start, listener, is_guess: false };
        let (mut ids, mut types, mut out) = (Ids::default(), Types::default(), Vec::new());
        let limits = SessionLimits { circuit: 100, all: 100, own: 1, payload: 64 };
        let mut context = Context { ids: &mut ids, types: &mut types, limits, out: &mut out };
        let mut session = Session::new(&ends, false);
        let of = session.from_client.read(&mut Cursor::new(&wire, false), context.types).expect("a type");
        let mut walks = |time: u64, of_them: usize| {
            let walks = |_: &usize| {
                let cursor = &mut Cursor::new(&value, false);
                session.types_within(time, Side::Client, of, false, cursor, &mut context);
                cursor.is_empty()
            };
            (0..of_them).filter(walks).count()
        };
        let walked = walks(100 * SECOND, 1000);
        assert!((100..200).contains(&walked), "{walked}");
        assert!((100..200).contains(&walks(101 * SECOND, 1000)));
        assert_eq!(walks(200 * SECOND, 10), 10);
        // the clock of a file that was set back
        assert_eq!(walks(1, 10), 10);
    }
}
