//! Whether a wall clock was ever set. Boxes without a battery-backed clock boot in 1970 or so, and learn the time later.

/// 2026-01-01T00:00:00Z: there were no logs before.
const FIRST_LOGS: i64 = 1_767_225_600_000_000_000;

/// Can a wall clock have been right that showed this many nanoseconds since 1970?
pub fn can_be_right(wall: i64) -> bool {
    wall >= FIRST_LOGS
}
