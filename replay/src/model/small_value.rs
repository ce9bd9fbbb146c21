//! Values in half the memory, for what holds one of each of a hundred thousand PVs: most are numbers.

use iocrec_log::event::Value;
use std::mem::size_of;

/// A value.
#[derive(Clone, Debug, Default)]
pub struct SmallValue(Small);

const _: () = assert!(size_of::<SmallValue>() <= 16);

#[derive(Clone, Debug, Default)]
enum Small {
    #[default]
    Unknown,
    Int(i64),
    UInt(u64),
    Float(f32),
    Double(f64),
    /// A text or an array.
    Other(Box<Value>),
}

impl SmallValue {
    /// The value.
    pub fn value(&self) -> Value {
        match &self.0 {
            Small::Unknown => Value::Unknown,
            Small::Int(number) => Value::Int(*number),
            Small::UInt(number) => Value::UInt(*number),
            Small::Float(number) => Value::Float(*number),
            Small::Double(number) => Value::Double(*number),
            Small::Other(value) => Value::clone(value),
        }
    }

    /// What `look` tells of the value, which is not copied.
    pub fn with<Answer>(&self, look: impl FnOnce(&Value) -> Answer) -> Answer {
        match &self.0 {
            Small::Other(value) => look(value),
            _ => look(&self.value()),
        }
    }

    /// Whether the value is known.
    pub fn is_known(&self) -> bool {
        !matches!(self.0, Small::Unknown)
    }
}

impl From<Value> for SmallValue {
    fn from(value: Value) -> SmallValue {
        SmallValue(match value {
            Value::Unknown => Small::Unknown,
            Value::Int(number) => Small::Int(number),
            Value::UInt(number) => Small::UInt(number),
            Value::Float(number) => Small::Float(number),
            Value::Double(number) => Small::Double(number),
            Value::Text(_) | Value::Array(_) => Small::Other(Box::new(value)),
        })
    }
}

/// Whether two values are the same in type and bits, so that one can stand for the other: 0.0 and -0.0 are not.
pub fn is_identical(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Float(one), Value::Float(other)) => one.to_bits() == other.to_bits(),
        (Value::Double(one), Value::Double(other)) => one.to_bits() == other.to_bits(),
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocrec_log::event::{Array, Dbf};

    #[test]
    fn a_value_comes_back_as_it_was() {
        let array = Array { dbf: Dbf::Short, count: 3, bytes: vec![1, 0, 2, 0] };
        let all = [
            Value::Unknown,
            Value::Int(-1),
            Value::UInt(u64::MAX),
            Value::Float(-0.0),
            Value::Double(f64::NAN),
            Value::Double(0.0),
            Value::Double(-0.0),
            Value::Text(b"ab".to_vec()),
            Value::Array(array),
        ];
        for (place, value) in all.iter().enumerate() {
            let small = SmallValue::from(value.clone());
            assert_eq!(small.is_known(), *value != Value::Unknown);
            for (other, of) in all.iter().enumerate() {
                assert_eq!(is_identical(&small.value(), of), place == other, "{value:?} {of:?}");
            }
        }
    }
}
