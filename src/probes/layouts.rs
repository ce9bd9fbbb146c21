//! What an IOC looks like, in the form in which the BPF programs are given it.

use iocrec_log::event::Dbf;

use crate::bpf::contract::{self, ProcessLayout, TypeKey, ValueLayout, NO_OFFSET};
use crate::bpf::maps::Layouts;
use crate::bpf::shared::Shared;
use crate::ioc::layout::{Fixed, Form, Layout, Numbering, TypeLayout};

/// The layouts of a process.
pub fn layouts(pid: u32, layout: &Layout, fixed: Fixed) -> Layouts {
    let old = layout.numbering == Numbering::Before3161;
    // struct link: before 3.16.1 it has no record and begins with its value (link.h)
    let (link_record, link_pvname) = if old { (NO_OFFSET, 0) } else { (0, fixed.width.pick(24, 48)) };
    let process = ProcessLayout {
        rdes: layout.rdes.into(),
        stat: layout.stat.into(),
        pact: layout.pact.into(),
        notify_chan: fixed.notify_channel,
        chan_address: fixed.channel_address,
        link_record,
        link_pvname,
        no_int64: old.into(),
        ..ProcessLayout::zeroed()
    };
    let pid = pid.into();
    let types = layout.types.values().map(|rtype| {
        let key = TypeKey { rdes: rtype.address, pid };
        (key, value_layout(rtype, layout.numbering))
    });
    Layouts { process, types: types.collect() }
}

/// Where the records of a type have their value.
fn value_layout(rtype: &TypeLayout, numbering: Numbering) -> ValueLayout {
    let field = rtype.value.as_ref().map_or(0, |value| value.description);
    let nothing = ValueLayout { field, ..ValueLayout::zeroed() };
    let of_field = |form: contract::Form| {
        let (value, dbf) =
            rtype.value.as_ref().map_or((0, 0), |value| (value.offset.into(), value.dbf.into()));
        ValueLayout { form: form as u32, value, dbf, ..nothing }
    };
    // a link or a pointer is no value
    let is_value = || {
        let dbf = rtype.value.as_ref().and_then(|value| numbering.dbf(value.dbf));
        dbf.is_some_and(|dbf| dbf < Dbf::InLink)
    };
    match rtype.form {
        Form::Scalar if is_value() => of_field(contract::Form::Scalar),
        Form::None | Form::Scalar => nothing,
        Form::String => of_field(contract::Form::String),
        Form::Array { pointer, count, element } => ValueLayout {
            form: contract::Form::Array as u32,
            value: pointer.into(),
            nord: count.into(),
            ftvl: element.into(),
            ..nothing
        },
        Form::LongString { pointer, length } => ValueLayout {
            form: contract::Form::Text as u32,
            value: pointer.into(),
            nord: length.into(),
            dbf: DBF_CHAR.into(),
            ..nothing
        },
    }
}

/// DBF_CHAR in every Base.
const DBF_CHAR: u16 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ioc::layout::FieldAt;
    use crate::linux::width::Width;

    #[test]
    fn offsets_of_each_base_and_width() {
        for (numbering, width, fixed, link, link_pvname) in [
            (Numbering::Before3161, Width::Wide, Fixed::base_3_14(Width::Wide), NO_OFFSET, 0),
            (Numbering::Before3161, Width::Narrow, Fixed::base_3_15(Width::Narrow), NO_OFFSET, 0),
            (Numbering::Since3161, Width::Wide, Fixed::base_3_15(Width::Wide), 0, 48),
            (Numbering::Since3161, Width::Narrow, Fixed::base_3_15(Width::Narrow), 0, 24),
        ] {
            let found = layouts(42, &Layout::of(numbering, [10, 20, 30], &[]), fixed);
            let expected = ProcessLayout {
                rdes: 10,
                stat: 20,
                pact: 30,
                notify_chan: fixed.notify_channel,
                chan_address: fixed.channel_address,
                link_record: link,
                link_pvname,
                no_int64: u32::from(numbering == Numbering::Before3161),
                window: 0,
                chains: 0,
                selects: 0,
            };
            assert_eq!(found, Layouts { process: expected, types: vec![] }, "{numbering:?}, {width:?}");
        }
    }

    #[test]
    fn where_values_are() {
        const DBF_DOUBLE: u16 = 10;
        const DBF_INLINK: u16 = 14;
        let field = |dbf| Some(FieldAt { description: 0x5_0000_0001, dbf, offset: 99, size: 8 });
        let of = |value: Option<FieldAt>, form: Form| {
            let layout = Layout::of(Numbering::Since3161, [0; 3], &[(7, value, form)]);
            let found = layouts(42, &layout, Fixed::base_3_15(Width::Wide)).types;
            let [(key, layout)] = found[..] else { panic!("{found:?}") };
            assert_eq!(key, TypeKey { rdes: 7, pid: 42 });
            let ValueLayout { field, form, value, nord, ftvl, dbf, unused: _ } = layout;
            (field, form, [value, nord, ftvl, dbf])
        };
        let address = 0x5_0000_0001;
        assert_eq!(of(field(DBF_DOUBLE), Form::Scalar), (address, 1, [99, 0, 0, 10]));
        assert_eq!(of(field(DBF_INLINK), Form::Scalar), (address, 0, [0; 4]), "a link is no value");
        assert_eq!(of(field(200), Form::Scalar), (address, 0, [0; 4]), "a type that there is not");
        assert_eq!(of(field(0), Form::String), (address, 2, [99, 0, 0, 0]));
        let array = Form::Array { pointer: 1, count: 2, element: 3 };
        assert_eq!(of(field(DBF_DOUBLE), array), (address, 3, [1, 2, 3, 0]));
        let text = Form::LongString { pointer: 4, length: 5 };
        assert_eq!(of(field(DBF_DOUBLE), text), (address, 4, [4, 5, 0, 1]));
        assert_eq!(of(None, Form::None), (0, 0, [0; 4]));
    }
}
