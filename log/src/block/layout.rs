//! The columns of a body in encoding 2 (docs/format.md).

/// Columns of a body, in this order.
pub(super) const COLUMNS: usize = 17;
/// Facts that are templates.
pub(super) const TEMPLATES: usize = 0;
/// The template of each shape.
pub(super) const SHAPE_TEMPLATES: usize = 1;
/// The record of each shape.
pub(super) const SHAPE_RECORDS: usize = 2;
/// The shape of each event.
pub(super) const SHAPES: usize = 3;
/// Times of Process hits, without their low bytes, and of all other events: what lies before a record
/// is processed is of another length than the processing itself.
pub(super) const PROCESS_TIMES: usize = 4;
pub(super) const OTHER_TIMES: usize = 5;
/// How each number is stored.
pub(super) const NUMBERS: usize = 6;
/// Whole facts, and values that are no numbers.
pub(super) const FACTS: usize = 7;
/// The low bytes of all times.
pub(super) const LOW_TIMES: usize = 8;
/// The bytes of numbers' differences: the highest in the first of eight columns.
pub(super) const DIFFERENCES: usize = 9;

/// The column of the byte of a difference that counts 256^place.
pub(super) fn plane(place: u8) -> usize {
    DIFFERENCES + 7 - usize::from(place & 7)
}
