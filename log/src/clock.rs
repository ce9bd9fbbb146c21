//! Whether a wall clock was ever set. Boxes without a clock of their own boot in 1970 or so, and hear of the time later.

/// 2026-01-01T00:00:00Z: there were no logs before.
const FIRST_LOGS: i64 = 1_767_225_600_000_000_000;

/// Can a wall clock that showed this, in nanoseconds since 1970, have been right?
pub fn can_be_right(wall: i64) -> bool {
    wall >= FIRST_LOGS
}
