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
        let description = context.types.get(of).unwrap_or_default().to_vec();
        let known = match side {
            Side::Client => &mut self.from_client,
            Side::Server => &mut self.from_server,
        };
        let mut anys = Anys { known, types: context.types, found: Vec::new() };
        // as far as it can be read
        let read = match changed {
            true => cursor.bits().and_then(|bits| value::changed(&description, bits, cursor, &mut anys)),
            false => value::whole(&description, cursor, &mut anys),
        };
        let found = anys.found;
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
