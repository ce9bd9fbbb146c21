//! Parquet's encoding of small numbers, such as levels and numbers of a dictionary: runs of the same number, and between them
//! numbers of a few bits each in groups of eight. Own code, since the crate shows its encoder only together with Arrow, four times
//! as many crates.

/// Numbers of a group.
const GROUP: usize = 8;

/// The bits that a number takes; at least one, which every reader understands.
pub fn width(most: u32) -> u32 {
    (u32::BITS - most.leading_zeros()).max(1)
}

/// Appends numbers of that many bits at most.
pub fn push<T: Copy + PartialEq + Into<u32>>(out: &mut Vec<u8>, width: u32, numbers: &[T]) {
    let bytes = width.div_ceil(8) as usize;
    // A run pays once it is longer than itself and what comes between groups: the lengths of both.
    let least = (bytes + 2) * 8 / width as usize + 1;
    let mut rest = numbers;
    let mut before = 0; // numbers at the beginning of `rest` that are in no run
    while let Some(first) = rest.get(before).copied() {
        let run = rest.iter().skip(before).take_while(|number| **number == first).count();
        // those before it come in whole groups, so the last of them takes some of the run
        let missing = before.next_multiple_of(GROUP) - before;
        if run < missing + least {
            before += run;
            continue;
        }
        let (packed, after) = rest.split_at(before + missing);
        push_packed(out, width, packed);
        push_length(out, (run - missing) << 1);
        out.extend_from_slice(first.into().to_le_bytes().get(..bytes).unwrap_or_default());
        (rest, before) = (after.get(run - missing..).unwrap_or_default(), 0);
    }
    push_packed(out, width, rest);
}

/// Appends numbers in groups; the last one is filled up with zeros.
fn push_packed<T: Copy + Into<u32>>(out: &mut Vec<u8>, width: u32, numbers: &[T]) {
    if numbers.is_empty() {
        return;
    }
    push_length(out, numbers.len().div_ceil(GROUP) << 1 | 1);
    for group in numbers.chunks(GROUP) {
        let (mut bits, mut count) = (0_u64, 0);
        let filled = group.iter().map(|number| (*number).into()).chain(std::iter::repeat(0));
        for number in filled.take(GROUP) {
            bits |= u64::from(number) << count;
            count += width;
            while count >= 8 {
                out.push(bits as u8);
                bits >>= 8;
                count -= 8;
            }
        }
    }
}

/// Appends a number with seven bits in each byte, the lowest first.
fn push_length(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(width: u32, numbers: &[u32]) -> Vec<u8> {
        let mut out = Vec::new();
        push(&mut out, width, numbers);
        out
    }

    /// What the specification says how to read.
    fn decoded(width: u32, mut bytes: &[u8], count: usize) -> Vec<u32> {
        let mut numbers = Vec::new();
        while numbers.len() < count {
            let (mut header, mut shift) = (0_usize, 0);
            loop {
                let byte = bytes[0];
                bytes = &bytes[1..];
                header |= usize::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    break;
                }
            }
            let is_packed = header & 1 == 1;
            let length = if is_packed { (header >> 1) * width as usize } else { width.div_ceil(8) as usize };
            let (own, rest) = bytes.split_at(length);
            bytes = rest;
            let bit = |at: usize| u32::from(own[at / 8] >> (at % 8) & 1);
            let number =
                |at: usize| -> u32 { (0..width as usize).map(|place| bit(at + place) << place).sum() };
            match is_packed {
                true => numbers.extend((0..(header >> 1) * 8).map(|group| number(group * width as usize))),
                false => {
                    let value = own.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte));
                    numbers.extend(std::iter::repeat_n(value, header >> 1));
                }
            }
        }
        assert!(bytes.is_empty(), "{} bytes more than numbers", bytes.len());
        assert!(numbers.len() < count + 8 && numbers[count..].iter().all(|filled| *filled == 0));
        numbers.truncate(count);
        numbers
    }

    #[test]
    fn the_example_of_the_specification() {
        // Encodings.md: 0 to 7 with three bits
        assert_eq!(encoded(3, &[0, 1, 2, 3, 4, 5, 6, 7]), [0b11, 0b1000_1000, 0b1100_0110, 0b1111_1010]);
        assert_eq!(encoded(9, &[300; 100]), [200, 1, 44, 1]);
        assert!(encoded(1, &[]).is_empty());
    }

    #[test]
    fn what_is_written_is_read() {
        let mut state = 1_u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for round in 0..2000 {
            let width = 1 + round % 24;
            let mut numbers = Vec::new();
            for _ in 0..next(12) {
                let run = if next(2) == 0 { 1 } else { 1 + next(40) as usize };
                numbers.extend(std::iter::repeat_n(next(1 << width) as u32, run));
            }
            assert_eq!(decoded(width, &encoded(width, &numbers), numbers.len()), numbers, "{width} bits");
        }
        assert_eq!([0, 1, 2, 255, 256, u32::MAX].map(width), [1, 1, 2, 8, 9, 32]);
    }
}
