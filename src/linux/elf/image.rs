//! A small ELF file, made by hand for tests.

const NAMES: &[u8] = b"\0pdbbase\0dbProcess\0.rodata\0.dynsym\0.dynstr\0.symtab\0.rodata.str\0";

/// A small ELF file as linkers make them: a code segment and a data segment, two symbols in both the dynamic and the
/// full table, constants in two sections.
pub fn small(is_64bit: bool) -> Vec<u8> {
    let word = |value: u64| {
        if is_64bit {
            value.to_le_bytes().to_vec()
        } else {
            (value as u32).to_le_bytes().to_vec()
        }
    };
    let half = |value: u16| value.to_le_bytes().to_vec();
    let quad = |value: u32| value.to_le_bytes().to_vec();
    let (head, program, section, entry) = if is_64bit { (64, 56, 64, 24) } else { (52, 32, 40, 16) };
    let symbols_at = head + 2 * program;
    let names_at = symbols_at + 3 * entry;
    let constants_at = names_at + NAMES.len() as u64;
    // Not in the form searched for, or this program would be taken for an IOC.
    let constants = "dbLoadDatabase|dbLoadRecords|iocInit|".replace('|', "\0").into_bytes();
    let sections_at = constants_at + constants.len() as u64;
    let class = if is_64bit { 2 } else { 1 };
    let mut file = vec![0x7F, b'E', b'L', b'F', class, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend([half(3), half(if is_64bit { 62 } else { 3 }), quad(1), word(0x1000), word(head)].concat());
    file.extend([word(sections_at), quad(0), half(head as u16), half(program as u16), half(2)].concat());
    file.extend([half(section as u16), half(6), half(3)].concat());
    for (flags, address) in [(5, 0x1000), (6, 0x2000)] {
        let place = [word(0), word(address), word(address), word(0x400), word(0x800)].concat();
        let flags = quad(flags);
        let (before, after) = if is_64bit { (flags, Vec::new()) } else { (Vec::new(), flags) };
        file.extend([quad(1), before, place, after, word(0x1000)].concat());
    }
    file.extend(vec![0; entry as usize]);
    for (name, kind, address) in [(1, 0x11, 0x2010), (9, 0x12, 0x1020)] {
        let rest = [vec![kind, 0], half(1)].concat();
        let (value, size) = (word(address), word(0x40));
        let parts = if is_64bit { [quad(name), rest, value, size] } else { [quad(name), value, size, rest] };
        file.extend(parts.concat());
    }
    file.extend(NAMES);
    file.extend(&constants);
    let (symbols, names) = (3 * entry, NAMES.len() as u64);
    let (constants, first) = (constants.len() as u64, "dbLoadDatabase|".len() as u64);
    for (name, kind, at, size, link, each) in [
        (0, 0, 0, 0, 0, 0),
        (19, 1, constants_at, first, 0, 0),
        (27, 11, symbols_at, symbols, 3, entry),
        (35, 3, names_at, names, 0, 0),
        (43, 2, symbols_at, symbols, 3, entry),
        (51, 1, constants_at + first, constants - first, 0, 0),
    ] {
        let place = [word(0), word(0x1000), word(at), word(size)].concat();
        file.extend([quad(name), quad(kind), place, quad(link), quad(1), word(1), word(each)].concat());
    }
    file
}
