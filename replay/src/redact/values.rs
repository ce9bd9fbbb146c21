//! Replaces values, so that what was equal stays equal: a put on the network is still found again in the IOC, and a value
//! that did not change does not change.
//!
//! Whole numbers from -15 to 15 stay in any type: most of them are choices (on, off, which motor), of which so few are in
//! use that equal ones would give them away in any case.

use super::{words, Redaction, Values};
use epics::dbf::Kind;
use epics::Dbr;
use iocrec_log::event::{AlarmLimit, Array, CaPut, Dbf, Limits, Value};

/// The highest whole number that stays.
const CHOICES: u64 = 15;
/// Ranges in which whole numbers are permuted: each number stays in the types that it fits. The bounds are those of types
/// of 8, 16, 32 and 64 bits, with and without a sign, and of what is exact in a 32-bit and in a 64-bit float.
const RANGES: [(u64, u64); 10] = [
    (CHOICES + 1, i8::MAX as u64),
    (i8::MAX as u64 + 1, u8::MAX as u64),
    (u8::MAX as u64 + 1, i16::MAX as u64),
    (i16::MAX as u64 + 1, u16::MAX as u64),
    (u16::MAX as u64 + 1, (1 << 24) - 1),
    (1 << 24, i32::MAX as u64),
    (i32::MAX as u64 + 1, u32::MAX as u64),
    (u32::MAX as u64 + 1, (1 << 53) - 1),
    (1 << 53, i64::MAX as u64),
    (i64::MAX as u64 + 1, u64::MAX),
];
/// Whole numbers below this are replaced as integers of 64 bits are.
const INTEGERS: f64 = (1u64 << 63) as f64;
/// Other numbers become one of 2^23 multiples of 2^-10, none of them whole: exact in a 32-bit float.
const STEPS: u64 = 1 << 23;
const STEP: f64 = 1024.0;
/// Bytes of a string in an IOC and in Channel Access.
const STRING: usize = 40;

/// Whether arrays of this type are long strings.
fn is_character(dbf: Dbf) -> bool {
    matches!(dbf, Dbf::Char | Dbf::UChar)
}

impl Redaction {
    /// The magnitude of a whole number.
    fn magnitude(&self, number: u64) -> u64 {
        let Some((first, last)) = RANGES.into_iter().find(|(first, last)| (*first..=*last).contains(&number))
        else {
            return number;
        };
        match self.choice.values {
            Values::Keep | Values::Drop => number,
            Values::Scale => ((number as f64 * self.factor).round() as u64).max(CHOICES + 1),
            Values::Replace => self.secret.permuted("number", number, first, last),
        }
    }

    /// A whole number.
    pub(super) fn integer(&self, number: i64) -> i64 {
        match (self.choice.values, number) {
            (Values::Replace, ..0) => self.negative(number),
            _ => self.magnitude(number.unsigned_abs()).min(i64::MAX as u64) as i64 * number.signum(),
        }
    }

    /// A whole number below zero. A type has one more of them than above zero, so they are counted from -1 (0) on: -128,
    /// like 127, is the last that fits 8 bits, and stays among those.
    fn negative(&self, number: i64) -> i64 {
        let place = !number as u64;
        let range = RANGES.into_iter().find(|(_, last)| place <= *last);
        let Some((first, last)) = range.filter(|_| place >= CHOICES) else { return number };
        let first = if first == CHOICES + 1 { CHOICES } else { first };
        !(self.secret.permuted("negative", place, first, last) as i64)
    }

    /// Any number. What is no number, infinite or zero stays.
    pub(super) fn float(&self, number: f64) -> f64 {
        if !number.is_finite() || number == 0.0 || matches!(self.choice.values, Values::Keep | Values::Drop) {
            return number;
        }
        let magnitude = number.abs();
        let replaced = if magnitude.fract() == 0.0 && magnitude < INTEGERS {
            return self.integer(number as i64) as f64;
        } else if self.choice.values == Values::Scale {
            magnitude * self.factor
        } else {
            let place = (self.secret.number("float", &magnitude.to_le_bytes(), 0) % STEPS) | 1;
            place as f64 / STEP
        };
        replaced.copysign(number)
    }

    /// A 32-bit float. The nearest one to what the same number becomes in 64 bits.
    fn single(&self, number: f32) -> f32 {
        self.float(number.into()) as f32
    }

    /// A text that may be a number.
    pub(super) fn number_text(&self, text: &str) -> String {
        let trimmed = text.trim();
        match (trimmed.parse::<i64>(), trimmed.parse::<u64>(), trimmed.parse::<f64>()) {
            (Ok(number), ..) => self.integer(number).to_string(),
            (_, Ok(number), _) => self.magnitude(number).to_string(),
            (.., Ok(number)) => self.float(number).to_string(),
            _ => String::from_utf8_lossy(&self.secret.letters("text", text.as_bytes())).into_owned(),
        }
    }

    /// A text as a value: a choice of Base stays, a number becomes that number's replacement, and anything else letters of
    /// the same length.
    pub(super) fn value_text(&self, text: &[u8]) -> Vec<u8> {
        match std::str::from_utf8(text) {
            Ok(text) if words::is_choice(text) => text.as_bytes().to_vec(),
            Ok(text) => self.number_text(text).into_bytes(),
            Err(_) => self.secret.letters("text", text),
        }
    }

    /// The text of a choice of an enum or a menu.
    pub(super) fn choice(&mut self, text: &mut String) {
        if self.choice.values == Values::Keep || words::is_choice(text) {
            return;
        }
        let replaced = String::from_utf8_lossy(&self.value_text(text.as_bytes())).into_owned();
        self.note("choice", text, &replaced);
        *text = replaced;
    }

    /// A value. `is_link`: its text is that of a link, which is no value but a name.
    pub(super) fn value(&mut self, value: &mut Value, is_link: bool) {
        match &mut *value {
            Value::Text(text) if is_link => {
                *text = self.link(&epics::pva::cursor::text(text)).into_bytes();
                return;
            }
            // kept values hold no names of PVs; those that are replaced become letters
            Value::Array(array) if is_link && self.choice.values == Values::Keep => {
                let Array { dbf, count, bytes } = array;
                let is_cut = (bytes.len() as u64) < u64::from(*count);
                self.link_elements(*dbf, bytes);
                if is_character(*dbf) && !is_cut {
                    *count = bytes.len() as u32;
                }
                return;
            }
            _ => {}
        }
        match self.choice.values {
            Values::Keep => return,
            Values::Drop => return *value = Value::Unknown,
            Values::Scale | Values::Replace => {}
        }
        match value {
            Value::Unknown => {}
            Value::Int(number) => *number = self.integer(*number),
            Value::UInt(number) => *number = self.magnitude(*number),
            Value::Float(number) => *number = self.single(*number),
            Value::Double(number) => *number = self.float(*number),
            Value::Text(text) => *text = self.value_text(text),
            Value::Array(Array { dbf, count: _, bytes }) => {
                let whole = bytes.len() - bytes.len() % dbf.size();
                bytes.truncate(whole);
                self.elements(*dbf, bytes, false);
            }
        }
    }

    /// The elements of an array, in place.
    pub(super) fn elements(&self, dbf: Dbf, bytes: &mut [u8], big_endian: bool) {
        if is_character(dbf) && bytes.len() > 1 {
            // Mostly a long text, of which letters would be told apart by how often they come. A client may send zeros
            // behind it, which the record does not have.
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            let (text, rest) = bytes.split_at_mut(end);
            for part in [text, rest] {
                if part.iter().any(|byte| u64::from(*byte) > CHOICES) {
                    let letters = self.secret.letters("text", part);
                    part.copy_from_slice(&letters);
                }
            }
            return;
        }
        for element in bytes.chunks_mut(dbf.size()) {
            if element.len() == dbf.size() {
                self.element(dbf, element, big_endian);
            } else {
                element.fill(0);
            }
        }
    }

    /// The elements of an array in which the text of a link stands: a long string, or short ones.
    fn link_elements(&mut self, dbf: Dbf, bytes: &mut Vec<u8>) {
        let text_of = |bytes: &[u8]| {
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            (epics::pva::cursor::text(bytes.get(..end).unwrap_or_default()), end)
        };
        if is_character(dbf) {
            let (text, end) = text_of(bytes);
            let zeros = bytes.len() - end;
            *bytes = self.link(&text).into_bytes();
            bytes.resize(bytes.len() + zeros, 0);
        } else if dbf.kind() == Kind::Text {
            for element in bytes.chunks_mut(dbf.size()) {
                let mut text = self.link(&text_of(element).0).into_bytes();
                text.truncate(element.len().saturating_sub(1));
                text.resize(element.len(), 0);
                element.copy_from_slice(&text);
            }
        }
    }

    fn element(&self, dbf: Dbf, element: &mut [u8], big_endian: bool) {
        if dbf.kind() == Kind::Text {
            let end = element.iter().position(|byte| *byte == 0).unwrap_or(element.len());
            let mut text = self.value_text(element.get(..end).unwrap_or_default());
            text.resize(element.len(), 0);
            element.copy_from_slice(&text);
            return;
        }
        let mut wide = [0u8; 8];
        let width = element.len().min(wide.len());
        if big_endian {
            element.reverse();
        }
        wide[..width].copy_from_slice(&element[..width]);
        let number = u64::from_le_bytes(wide);
        let unused = 64 - 8 * width as u32;
        let replaced = match (dbf.kind(), width) {
            (Kind::Float, 4) => self.single(f32::from_bits(number as u32)).to_bits().into(),
            (Kind::Float, _) => self.float(f64::from_bits(number)).to_bits(),
            // what its type has no room for is the largest that it has
            (Kind::Signed, _) => {
                let (least, most) = (i64::MIN >> unused, i64::MAX >> unused);
                self.integer((number << unused) as i64 >> unused).clamp(least, most) as u64
            }
            _ => self.magnitude(number).min(u64::MAX >> unused),
        };
        element[..width].copy_from_slice(&replaced.to_le_bytes()[..width]);
        if big_endian {
            element.reverse();
        }
    }

    /// The payload of a put on the network. What fills it up behind the elements is memory of the client, and becomes zero.
    pub(super) fn payload(&mut self, put: &mut CaPut, is_link: bool) {
        let CaPut { circuit: _, channel: _, notify: _, dbr, count, ioid: _, length, payload } = put;
        let is_cut = payload.len() < *length as usize;
        let dbr = Dbr(*dbr);
        let (Some(dbf), Some(offset)) = (dbr.element(), dbr.value_offset()) else { return payload.clear() };
        if let (Dbf::String, 1, true) = (dbf, *count, offset == 0) {
            return self.text_payload(length, payload, is_link);
        }
        let offset = offset.min(payload.len());
        let (head, rest) = payload.split_at_mut(offset);
        head.fill(0);
        let own = usize::try_from(*count).unwrap_or(usize::MAX).saturating_mul(dbf.size()).min(rest.len());
        let (own, padding) = rest.split_at_mut(own);
        padding.fill(0);
        match self.choice.values {
            // switched on or off, or a severity: no value of the record
            _ if matches!(dbr, Dbr::PUT_ACKT | Dbr::PUT_ACKS) => {}
            Values::Keep if is_link => {
                let mut kept = own.to_vec();
                self.link_elements(dbf, &mut kept);
                if is_character(dbf) {
                    *count = kept.len() as u32;
                }
                payload.truncate(offset);
                payload.extend(kept);
                payload.resize(payload.len().next_multiple_of(8), 0);
                if !is_cut {
                    *length = payload.len() as u32;
                }
            }
            Values::Keep => {}
            Values::Drop => payload.clear(),
            Values::Scale | Values::Replace => self.elements(dbf, own, true),
        }
    }

    /// A payload that is one text. Its length changes with it.
    fn text_payload(&mut self, length: &mut u32, payload: &mut Vec<u8>, is_link: bool) {
        let end = payload.iter().position(|byte| *byte == 0).unwrap_or(payload.len());
        payload.iter_mut().skip(end).for_each(|byte| *byte = 0);
        if self.choice.values == Values::Keep && !is_link {
            return;
        }
        let is_cut = (payload.len() as u32) < *length;
        let mut text = Value::Text(payload.get(..end).unwrap_or_default().to_vec());
        self.value(&mut text, is_link);
        let Value::Text(text) = text else { return payload.clear() };
        let padded = (text.len() + 1).next_multiple_of(8).min(STRING.max(end));
        *payload = text;
        payload.resize(padded, 0);
        if !is_cut {
            *length = payload.len() as u32;
        }
    }

    /// Limits of a display or of a control.
    pub(super) fn limits(&self, limits: &mut Option<Limits>) {
        if self.choice.values == Values::Drop {
            *limits = None;
        }
        if let Some(Limits { low, high }) = limits {
            (*low, *high) = (self.float(*low), self.float(*high));
        }
    }

    /// A limit of an alarm.
    pub(super) fn alarm_limit(&self, limit: &mut Option<AlarmLimit>) {
        if self.choice.values == Values::Drop {
            *limit = None;
        }
        if let Some(AlarmLimit { limit, severity: _ }) = limit {
            *limit = self.float(*limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::Choice;

    /// A client may put as a text what the record holds as a number.
    #[test]
    fn the_text_of_a_number_becomes_that_of_its_replacement() {
        for values in [Values::Replace, Values::Scale] {
            let redaction = Redaction::new(Choice { values, ..Choice::default() }, None);
            for number in [20, 1 << 53, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX - 5] {
                let replaced = redaction.magnitude(number);
                assert_eq!(redaction.number_text(&number.to_string()), replaced.to_string(), "{values:?}");
            }
        }
    }
}
