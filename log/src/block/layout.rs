//! The columns of a body in encoding 2 (docs/format.md).

/// Number of columns of a body. They are in this order.
pub(super) const COLUMNS: usize = 17;
/// Facts that are templates.
pub(super) const TEMPLATES: usize = 0;
/// The template of each shape.
pub(super) const SHAPE_TEMPLATES: usize = 1;
/// The record of each shape.
pub(super) const SHAPE_RECORDS: usize = 2;
/// The shape of each event.
pub(super) const SHAPES: usize = 3;
/// Times of Process hits without their low bytes. They are separate from those of other events because the time before
/// a record is processed differs from the time of the processing itself.
pub(super) const PROCESS_TIMES: usize = 4;
/// Times of all other events, likewise.
pub(super) const OTHER_TIMES: usize = 5;
/// The encoding of each number.
pub(super) const NUMBERS: usize = 6;
/// Whole facts, and values that are not numbers.
pub(super) const FACTS: usize = 7;
/// The low bytes of all times.
pub(super) const LOW_TIMES: usize = 8;
/// The bytes of the differences of numbers: the most significant ones in the first of eight columns.
pub(super) const DIFFERENCES: usize = 9;

/// The column for the byte of a difference with weight 256^place.
pub(super) fn plane(place: u8) -> usize {
    DIFFERENCES + 7 - usize::from(place & 7)
}
