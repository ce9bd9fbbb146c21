//! Fields that start something when they are written: what they hold is no setting, and a second put undoes nothing.

/// Those of EPICS Base's records, and of the motor, busy, scaler and sscan records.
const COMMANDS: [&str; 18] = [
    "PROC", "RES", "CMD", "STOP", "STUP", "SYNC", "JOGF", "JOGR", "HOMF", "HOMR", "TWF", "TWR", "EXSC",
    "CMND", "CNT", "RLV", "PAUS", "ABRT",
];

/// Whether a field of this name is one.
pub fn is_command(field: &str) -> bool {
    COMMANDS.contains(&field)
}
