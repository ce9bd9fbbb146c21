//! Detects a wall clock that was never set. Boxes without a battery-backed clock boot in about 1970 and learn the time
//! later.

/// 2026-01-01T00:00:00Z: no log is older.
const FIRST_LOGS: i64 = 1_767_225_600_000_000_000;

/// Whether a wall clock that showed `wall` nanoseconds since 1970 can have been right.
pub fn can_be_right(wall: i64) -> bool {
    wall >= FIRST_LOGS
}
