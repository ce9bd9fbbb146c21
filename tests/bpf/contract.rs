//! Test that C (bpf/hits.h) and Rust (src/bpf/contract.rs) mean the same: each struct, enum, number, map and program, in
//! the objects for every machine and tier.
//!
//! When one fails the two sides differ at the place that it names: mend the one that is wrong. Something new stands on
//! both sides, a type of C that no map has also in `struct contract` of bpf/hits.h.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use iocrec::bpf::contract::{self, ARRAY_BYTES_PERF, ARRAY_BYTES_RING};
use iocrec::bpf::shared::{Enum, Struct};
use libbpf_rs::btf::types::{self, MemberAttr};
use libbpf_rs::btf::{BtfKind, BtfType, HasSize};
use libbpf_rs::{Btf, ObjectBuilder};

use crate::objects::{programs_of, Compiled, ALL};

/// Those that the contract is for.
fn objects() -> impl Iterator<Item = (&'static Compiled, Btf<'static>)> {
    let objects = ALL.iter().filter(|object| object.name == contract::OBJECT);
    objects.map(|object| (object, Btf::from_path(object.path).unwrap()))
}

fn text(name: Option<&OsStr>) -> String {
    name.unwrap_or_default().to_string_lossy().into_owned()
}

/// Bytes of a type.
fn size(of: BtfType<'_>) -> usize {
    let of = of.skip_mods_and_typedefs();
    match of.kind() {
        BtfKind::Int => types::Int::try_from(of).unwrap().size(),
        BtfKind::Enum => types::Enum::try_from(of).unwrap().size(),
        BtfKind::Struct => types::Struct::try_from(of).unwrap().size(),
        BtfKind::Array => {
            let array = types::Array::try_from(of).unwrap();
            array.capacity() * size(array.contained_type())
        }
        other => panic!("a member of kind {other:?}"),
    }
}

/// A struct as C has it: name, offset and size of each member.
fn members(btf: &Btf<'_>, found: &types::Struct<'_>) -> Vec<(String, usize, usize)> {
    let member = |member: types::StructMember<'_>| {
        let MemberAttr::Normal { offset } = member.attr else { panic!("a bit field") };
        let of = btf.type_by_id(member.ty).unwrap();
        (text(member.name), offset as usize / 8, size(of))
    };
    found.iter().map(member).collect()
}

/// The numbers of an enum by name; `None` if there is none.
fn values(btf: &Btf<'_>, name: &str) -> Option<Vec<(String, u32)>> {
    // a map may have the same name
    let found = btf.type_by_kind::<types::Enum>().find(|found| text(found.name()) == name)?;
    Some(found.iter().map(|value| (text(value.name), value.value as u32)).collect())
}

#[test]
fn structs() {
    for (object, btf) in objects() {
        let label = object.label();
        let expected: Vec<Struct> = if object.ring {
            contract::structs::<ARRAY_BYTES_RING>().into()
        } else {
            contract::structs::<ARRAY_BYTES_PERF>().into()
        };
        for Struct { name, size, members: expected } in expected {
            let found = btf
                .type_by_kind::<types::Struct>()
                .find(|found| text(found.name()) == name)
                .unwrap_or_else(|| panic!("{label}: C has no struct {name}, or struct contract has not"));
            let expected: Vec<_> =
                expected.iter().map(|member| (member.name.to_string(), member.offset, member.size)).collect();
            assert_eq!(members(&btf, &found), expected, "{label}: struct {name} (C, Rust)");
            assert_eq!(found.size(), size, "{label}: size of struct {name} (C, Rust)");
        }
    }
}

/// Nothing is shared that Rust does not know: what `struct contract` and the maps name is what Rust has.
#[test]
fn no_struct_of_c_alone() {
    /// Those of the programs alone, in maps that the agent does not look into.
    const OWN: [&str; 2] = ["put_place", "client_place"];
    for (object, btf) in objects() {
        let known: BTreeSet<&str> = contract::structs::<0>().iter().map(|known| known.name).collect();
        let contract =
            btf.type_by_kind::<types::Struct>().find(|found| text(found.name()) == "contract").unwrap();
        let mut shared: BTreeSet<String> = contract.iter().map(|member| text(member.name)).collect();
        for name in ["kind", "form", "lost", "numbers"] {
            assert!(shared.remove(name), "{name}");
        }
        for found in btf.type_by_kind::<types::Struct>() {
            let name = text(found.name());
            if name.ends_with("_layout")
                || name.ends_with("_key")
                || name.ends_with("_state")
                || name.ends_with("_place")
            {
                shared.insert(name);
            }
        }
        OWN.iter().for_each(|own| assert!(shared.remove(*own), "{own}"));
        let shared: BTreeSet<&str> = shared.iter().map(String::as_str).collect();
        assert_eq!(shared, known, "{} (C, Rust)", object.label());
    }
}

#[test]
fn enums() {
    for (object, btf) in objects() {
        for Enum { name, values: expected } in contract::ENUMS {
            let expected: Vec<_> = expected.iter().map(|(name, value)| (name.to_string(), *value)).collect();
            let found = values(&btf, name);
            assert_eq!(found, Some(expected), "{}: enum {name} (C, Rust)", object.label());
        }
    }
}

#[test]
fn numbers() {
    for (object, btf) in objects() {
        let array = if object.ring { ARRAY_BYTES_RING } else { ARRAY_BYTES_PERF };
        let mut expected: Vec<_> = contract::NUMBERS.to_vec();
        expected.push(("ARRAY_BYTES", array as u32));
        let expected: BTreeSet<_> =
            expected.into_iter().map(|(name, value)| (format!("NUMBER_{name}"), value)).collect();
        let found: BTreeSet<_> = values(&btf, "numbers").unwrap().into_iter().collect();
        assert_eq!(found, expected, "{} (C, Rust)", object.label());
    }
}

#[test]
fn maps() {
    // that it skips the section of struct contract
    libbpf_rs::set_print(None);
    for (compiled, _) in objects() {
        let label = compiled.label();
        let object = ObjectBuilder::default().open_file(compiled.path).unwrap();
        let find = |name: &str| object.maps().find(|map| map.name() == name);
        for (name, key, value) in contract::MAPS {
            let map = find(name).unwrap_or_else(|| panic!("{label}: no map {name}"));
            let sizes = (map.key_size() as usize, map.value_size() as usize);
            assert_eq!(sizes, (*key, *value), "{label}: key and value of map {name} (C, Rust)");
            let is_array = map.map_type() == libbpf_rs::MapType::Array;
            assert!(
                !is_array || map.max_entries().is_power_of_two(),
                "{label}: {name} has no place for a hash"
            );
        }
        for name in [contract::map::HITS, contract::map::PUTS] {
            let ring = find(name).map(|map| map.map_type() == libbpf_rs::MapType::RingBuf);
            assert_eq!(ring, Some(compiled.ring), "{label}: map {name}");
        }
        let lost = find(contract::map::LOST).map(|map| (map.key_size(), map.value_size(), map.max_entries()));
        let sorts = contract::Lost::Sorts as u32;
        assert_eq!(lost, compiled.ring.then_some((4, 8, sorts)), "{label}: map of what was lost");
        let given = find(contract::map::GIVEN).map(|map| (map.key_size(), map.value_size()));
        assert_eq!(given, (!compiled.ring).then_some((4, 64)), "{label}: map of what the buffers were given");
    }
}

#[test]
fn programs() {
    for (object, _) in objects() {
        let label = object.label();
        let found: BTreeSet<String> = programs_of(object).into_iter().map(|program| program.label).collect();
        let expected: BTreeSet<String> =
            contract::PROGRAMS.iter().map(|program| format!("{label}: {}", program.name)).collect();
        assert_eq!(found, expected, "(C, Rust)");
    }
}

/// The same for bpf/files.h and src/files/contract.rs.
#[test]
fn files() {
    use iocrec::files::contract::{structs, ENUMS, OBJECT};
    let objects: Vec<_> = ALL.iter().filter(|object| object.name == OBJECT).collect();
    assert_eq!(objects.len(), 3, "three machines for the ring");
    for object in objects {
        let btf = Btf::from_path(object.path).unwrap();
        for Struct { name, size, members: expected } in structs() {
            let found = btf.type_by_kind::<types::Struct>().find(|found| text(found.name()) == name).unwrap();
            let expected: Vec<_> =
                expected.iter().map(|member| (member.name.to_string(), member.offset, member.size)).collect();
            assert_eq!((members(&btf, &found), found.size()), (expected, size), "{}: {name}", object.label());
        }
        for Enum { name, values: expected } in ENUMS {
            let expected: Vec<_> =
                expected.iter().map(|(name, number)| (name.to_string(), *number)).collect();
            assert_eq!(values(&btf, name), Some(expected), "{}: {name}", object.label());
        }
    }
}

/// The same for bpf/deaths.h and src/deaths/contract.rs.
#[test]
fn deaths() {
    use iocrec::deaths::contract::{structs, ENUMS, OBJECT};
    let objects: Vec<_> = ALL.iter().filter(|object| object.name == OBJECT).collect();
    assert_eq!(objects.len(), 8, "three machines for the ring, five for perf buffers");
    for object in objects {
        let btf = Btf::from_path(object.path).unwrap();
        for Struct { name, size, members: expected } in structs() {
            let found = btf.type_by_kind::<types::Struct>().find(|found| text(found.name()) == name).unwrap();
            let expected: Vec<_> =
                expected.iter().map(|member| (member.name.to_string(), member.offset, member.size)).collect();
            assert_eq!((members(&btf, &found), found.size()), (expected, size), "{}: {name}", object.label());
        }
        for Enum { name, values: expected } in ENUMS {
            let expected: Vec<_> =
                expected.iter().map(|(name, number)| (name.to_string(), *number)).collect();
            assert_eq!(values(&btf, name), Some(expected), "{}: {name}", object.label());
        }
    }
}
