//! Layouts of an IOC in the form that the BPF programs take.

use epics::dbf::Numbering;
use iocrec_log::event::Dbf;

use crate::bpf::contract::{self, ProcessLayout, TypeKey, ValueLayout, NO_OFFSET};
use crate::bpf::maps::Layouts;
use crate::bpf::shared::Shared;
use crate::ioc::layout::{Form, Layout, TypeLayout};
use crate::ioc::offsets::{Abi, Link, Notify};

/// The layouts of a process.
pub fn layouts(pid: u32, layout: &Layout, abi: Abi) -> Layouts {
    let (link, notify) = (Link::of(abi.width, layout.numbering), Notify::of(abi));
    let process = ProcessLayout {
        rdes: layout.rdes.into(),
        stat: layout.stat.into(),
        pact: layout.pact.into(),
        notify_chan: notify.channel,
        chan_address: notify.address,
        link_record: link.record.map_or(NO_OFFSET, |offset| offset as u32),
        link_pvname: link.pv as u32,
        no_int64: (layout.numbering == Numbering::Before3161).into(),
        ..ProcessLayout::zeroed()
    };
    let pid = pid.into();
    let types = layout.types.values().map(|rtype| {
        let key = TypeKey { rdes: rtype.address, pid };
        (key, value_layout(rtype, layout.numbering))
    });
    Layouts { process, types: types.collect() }
}

/// Location of the value in the records of a type.
fn value_layout(rtype: &TypeLayout, numbering: Numbering) -> ValueLayout {
    let field = rtype.value.as_ref().map_or(0, |value| value.description);
    let nothing = ValueLayout { field, ..ValueLayout::zeroed() };
    let of_field = |form: contract::Form| {
        let (value, dbf) =
            rtype.value.as_ref().map_or((0, 0), |value| (value.offset.into(), value.dbf.into()));
        ValueLayout { form: form as u32, value, dbf, ..nothing }
    };
    // a link or a pointer is not a value
    let is_value = || {
        let dbf = rtype.value.as_ref().and_then(|value| numbering.dbf(value.dbf));
        dbf.is_some_and(Dbf::holds_value)
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
    use crate::ioc::offsets::Generation;
    use crate::linux::width::Width;

    #[test]
    fn offsets_of_each_base_and_width() {
        use Generation::{Base314, Base315};
        use Width::{Bits32, Bits64};
        for (numbering, width, generation, expected) in [
            (Numbering::Before3161, Bits64, Base314, [32, 0, NO_OFFSET, 0, 1]),
            (Numbering::Before3161, Bits32, Base315, [28, 4, NO_OFFSET, 0, 1]),
            (Numbering::Since3161, Bits64, Base315, [48, 8, 0, 48, 0]),
            (Numbering::Since3161, Bits32, Base315, [28, 4, 0, 24, 0]),
        ] {
            let found = layouts(42, &Layout::of(numbering, [10, 20, 30], &[]), Abi { width, generation });
            let [notify_chan, chan_address, link_record, link_pvname, no_int64] = expected;
            let expected = ProcessLayout {
                rdes: 10,
                stat: 20,
                pact: 30,
                notify_chan,
                chan_address,
                link_record,
                link_pvname,
                no_int64,
                window: 0,
                chains: 0,
                selects: 0,
                tag: 0,
            };
            assert_eq!(found, Layouts { process: expected, types: vec![] }, "{numbering:?}, {width:?}");
        }
    }

    #[test]
    fn where_values_are() {
        const ABI: Abi = Abi { width: Width::Bits64, generation: Generation::Base315 };
        const DBF_DOUBLE: u16 = 10;
        const DBF_INLINK: u16 = 14;
        let field = |dbf| Some(FieldAt { description: 0x5_0000_0001, dbf, offset: 99, size: 8 });
        let of = |value: Option<FieldAt>, form: Form| {
            let layout = Layout::of(Numbering::Since3161, [0; 3], &[(7, value, form)]);
            let found = layouts(42, &layout, ABI).types;
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
