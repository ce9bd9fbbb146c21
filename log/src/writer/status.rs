//! How a writer does, for those who watch it.

/// Whether events are being stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// They are.
    #[default]
    Ok,
    /// They are not, and are counted as lost until it works again.
    Paused {
        /// Why, in words.
        reason: String,
    },
}

/// How a writer does. All counts only rise, but for those of what is on disk now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Events pushed that are in a block that was written.
    pub stored: u64,
    /// Events pushed that are not in the log and never will be.
    pub lost: u64,
    /// Bytes written by this run.
    pub written: u64,
    /// Length of all segments in the directory, those of earlier runs included.
    pub on_disk: u64,
    /// How many they are.
    pub segments: usize,
    /// Segments deleted to make room.
    pub deleted: u64,
    /// Is it storing?
    pub state: State,
}
