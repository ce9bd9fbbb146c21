//! Rows on their way to a file.

use super::schema::VALUE_COLUMNS;
use crate::model::value::{elements, push_lossy};
use iocrec_log::event::{Array, Dbf, Value};
use iocrec_log::value::not_finite;
use std::borrow::Cow;

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell<'a> {
    /// Null.
    Null,
    /// An integer, or a time.
    Int(i64),
    /// A double.
    Double(f64),
    /// True or false.
    Bool(bool),
    /// Text.
    Text(Cow<'a, str>),
    /// A list of doubles.
    Doubles(Vec<f64>),
    /// A list of integers.
    Ints(Vec<i64>),
    /// A list of texts.
    Texts(Vec<Cow<'a, str>>),
}

impl<'a> From<&'a str> for Cell<'a> {
    fn from(text: &'a str) -> Self {
        Cell::Text(text.into())
    }
}

impl From<String> for Cell<'_> {
    fn from(text: String) -> Self {
        Cell::Text(text.into())
    }
}

impl From<i64> for Cell<'_> {
    fn from(number: i64) -> Self {
        Cell::Int(number)
    }
}

impl From<u64> for Cell<'_> {
    fn from(number: u64) -> Self {
        // no count of anything is that high
        Cell::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Cell<'_> {
    fn from(number: u32) -> Self {
        Cell::Int(number.into())
    }
}

impl From<usize> for Cell<'_> {
    fn from(number: usize) -> Self {
        Cell::from(number as u64)
    }
}

impl From<f64> for Cell<'_> {
    fn from(number: f64) -> Self {
        Cell::Double(number)
    }
}

impl From<bool> for Cell<'_> {
    fn from(is: bool) -> Self {
        Cell::Bool(is)
    }
}

impl<'a, T: Into<Cell<'a>>> From<Option<T>> for Cell<'a> {
    fn from(cell: Option<T>) -> Self {
        cell.map_or(Cell::Null, Into::into)
    }
}

/// A text, or null if it is empty: unknown.
pub fn known(text: &str) -> Cell<'_> {
    match text {
        "" => Cell::Null,
        text => text.into(),
    }
}

/// A list of texts.
pub fn texts<'a>(list: impl IntoIterator<Item = &'a str>) -> Cell<'a> {
    Cell::Texts(list.into_iter().map(Cow::from).collect())
}

/// The cells of a value: a number, integer, text, three lists, the count and whether it was cut. `text` is the state
/// that it stands for.
pub fn of_value<'a>(
    value: &Value,
    text: Option<Cow<'a, str>>,
    cut: Option<bool>,
) -> [Cell<'a>; VALUE_COLUMNS] {
    let mut cells: [Cell; VALUE_COLUMNS] = std::array::from_fn(|_| Cell::Null);
    let [number, integer, string, doubles, integers, strings, count, is_cut] = &mut cells;
    match value {
        Value::Unknown => {}
        Value::Int(v) => (*number, *integer) = (Cell::Double(*v as f64), Cell::Int(*v)),
        Value::UInt(v) => {
            *number = Cell::Double(*v as f64);
            match i64::try_from(*v) {
                Ok(v) => *integer = Cell::Int(v),
                Err(_) => *string = v.to_string().into(),
            }
        }
        Value::Float(_) | Value::Double(_) => {
            let exact = as_double(value);
            *number = Cell::Double(exact);
            if !exact.is_finite() {
                *string = not_finite(exact).into();
            }
        }
        Value::Text(bytes) => *string = lossy(bytes).into(),
        Value::Array(array) => {
            *count = array.count.into();
            push_array(array, doubles, integers, strings);
        }
    }
    if let (Some(text), Value::Int(_) | Value::UInt(_)) = (text, value) {
        *string = Cell::Text(text);
    }
    if *value != Value::Unknown {
        *is_cut = cut.into();
    }
    cells
}

fn push_array(array: &Array, doubles: &mut Cell, integers: &mut Cell, strings: &mut Cell) {
    let elements = elements(array);
    match array.dbf {
        Dbf::String => {
            let text = |element| match element {
                Value::Text(bytes) => lossy(&bytes).into(),
                _ => Cow::Borrowed(""),
            };
            *strings = Cell::Texts(elements.map(text).collect());
        }
        Dbf::Int64 | Dbf::UInt64 => {
            let (mut numbers, mut exact) = (Vec::new(), Vec::new());
            for element in elements {
                numbers.push(as_double(&element));
                exact.push(match element {
                    Value::Int(v) => v,
                    Value::UInt(v) => v as i64, // the same bits, as documented
                    _ => 0,
                });
            }
            (*doubles, *integers) = (Cell::Doubles(numbers), Cell::Ints(exact));
        }
        _ => *doubles = Cell::Doubles(elements.map(|element| as_double(&element)).collect()),
    }
}

/// A number as a double; a float by its own digits, as everywhere: 0.1 and not 0.10000000149011612.
fn as_double(value: &Value) -> f64 {
    match value {
        Value::Int(v) => *v as f64,
        Value::UInt(v) => *v as f64,
        Value::Float(v) if v.is_finite() => v.to_string().parse().unwrap_or(f64::from(*v)),
        Value::Float(v) => f64::from(*v),
        Value::Double(v) => *v,
        _ => f64::NAN,
    }
}

fn lossy(bytes: &[u8]) -> String {
    let mut text = String::new();
    push_lossy(&mut text, bytes);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(value: Value, text: Option<&'static str>) -> [Cell<'static>; VALUE_COLUMNS] {
        of_value(&value, text.map(Cow::from), Some(false))
    }

    #[test]
    fn integers_are_exact_and_what_is_no_number_is_text() {
        let [number, integer, string] =
            [9_007_199_254_740_993_i64].map(|v| cells(Value::Int(v), None)).concat()[..3]
                .to_vec()
                .try_into()
                .unwrap();
        assert_eq!(number, Cell::Double(9_007_199_254_740_992.0));
        assert_eq!((integer, string), (Cell::Int(9_007_199_254_740_993), Cell::Null));
        let high = cells(Value::UInt(u64::MAX), None);
        assert_eq!(high[1..3], [Cell::Null, "18446744073709551615".into()]);
        assert_eq!(cells(Value::Int(1), Some("On"))[1..3], [Cell::Int(1), "On".into()]);
        assert_eq!(cells(Value::Float(0.1), None)[0], Cell::Double(0.1));
        let nan = cells(Value::Double(f64::NAN), None);
        assert!(matches!(nan[0], Cell::Double(v) if v.is_nan()) && nan[2] == "NaN".into());
        assert!(cells(Value::Unknown, None).iter().all(|cell| *cell == Cell::Null));
    }

    #[test]
    fn arrays_are_lists() {
        let array = |dbf, bytes: &[u8], count| Value::Array(Array { dbf, count, bytes: bytes.to_vec() });
        let long = cells(array(Dbf::Int64, &(-3_i64).to_le_bytes(), 7), None);
        assert_eq!(long[3..7], [Cell::Doubles(vec![-3.0]), Cell::Ints(vec![-3]), Cell::Null, Cell::Int(7)]);
        let short = cells(array(Dbf::Short, &[1, 0, 2, 0], 2), None);
        assert_eq!(short[3..5], [Cell::Doubles(vec![1.0, 2.0]), Cell::Null]);
        let mut text = vec![0; 40];
        text[..2].copy_from_slice(b"on");
        assert_eq!(cells(array(Dbf::String, &text, 1), None)[5], Cell::Texts(vec!["on".into()]));
    }
}
