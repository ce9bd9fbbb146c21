//! The fields of an IOC's record types, and their menus. Both are defined when a put to such a field is seen.

use std::collections::hash_map::Entry;

use iocrec_log::event::{Dbf, Fact, Field, FieldId, Menu, MenuId};

use crate::ioc::layout::{Form, Layout};
use crate::ioc::menus;
use crate::linux::memory::Memory;
use crate::recorder::env::Env;
use crate::recorder::registry::hash::AddressMap;
use crate::recorder::registry::owner::Owner;
use crate::recorder::registry::rereads::Reread;

/// A defined field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownField {
    /// Its id.
    pub id: FieldId,
    /// The part of a record to read again after a put to it.
    pub reread: Option<Reread>,
    /// What a probe finds in it before a put.
    pub before: Before,
}

/// What a probe finds in a field before a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Its value.
    Value,
    /// Its value, an array however many elements it has.
    Array,
    /// Its value if that is a single element: the address names the room of an array, and the record alone knows how
    /// many elements are in use (aSub).
    SingleValue,
    /// Nothing that means its value: the record alone knows where that lies and in which order (compress, histogram).
    Nothing,
}

impl Before {
    fn of(layout: &Layout, memory: &Memory, description: u64, dbf: Dbf) -> Before {
        if dbf != Dbf::NoAccess {
            return Before::Value;
        }
        match layout.form_of_value(memory, description) {
            Some(Form::Array { .. }) => Before::Array,
            Some(Form::LongString { .. }) => Before::Value,
            Some(_) => Before::Nothing,
            None => Before::SingleValue,
        }
    }
}

/// The fields and menus of one IOC.
#[derive(Default)]
pub struct Fields {
    /// By the address of the description (dbFldDes); `None`: the description was not valid.
    fields: AddressMap<u64, Option<KnownField>>,
    /// By the address of the menu.
    menus: AddressMap<u64, MenuId>,
}

impl Fields {
    /// The field whose description is at this address, defined if it is new; `None` if the description is not valid.
    pub fn get(
        &mut self,
        env: &mut Env<'_>,
        time: u64,
        owner: Owner<'_>,
        description: u64,
    ) -> Option<KnownField> {
        let place = match self.fields.entry(description) {
            Entry::Occupied(known) => return *known.get(),
            Entry::Vacant(place) => place,
        };
        let (ioc, memory) = (owner.id, &owner.process.memory);
        let layout = owner.process.layout.as_ref().ok()?;
        let Some((rtype, name, dbf)) = layout.field(memory, description) else {
            return *place.insert(None);
        };
        let menu = menus::menu(memory, layout, description).map(|menu| {
            *self.menus.entry(menu.address).or_insert_with(|| {
                let id = env.run.ids.menu();
                let (name, choices) = (menu.name, menu.choices);
                env.push(time, Fact::Menu(Menu { id, ioc, name, choices }));
                id
            })
        });
        let id = env.run.ids.field();
        let before = Before::of(layout, memory, description, dbf);
        let known = KnownField { id, reread: Reread::after_put_to(&name), before };
        env.push(time, Fact::from(Field { id, ioc, rtype, name, dbf, menu }));
        *place.insert(Some(known))
    }
}
