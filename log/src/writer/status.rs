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

/// How a writer does. All counts only rise, but for those of what is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Events pushed that are in a block that was written, but for those that are known to be gone since.
    pub stored: u64,
    /// Events pushed that are not in the log and never will be.
    pub lost: u64,
    /// Bytes written by this run.
    pub written: u64,
    /// Length of all segments in the directory, those of earlier runs included.
    pub on_disk: u64,
    /// Bytes of the disk that they take, and the directory; with what is set aside for the open one. Never less
    /// than they really do, and never more than the cap.
    pub taken: u64,
    /// How many they are.
    pub segments: usize,
    /// How many of them are kept.
    pub kept: usize,
    /// Bytes of the disk that those take.
    pub kept_taken: u64,
    /// Bytes of the disk that kept segments may take.
    pub kept_share: u64,
    /// Segments deleted to make room, or because they were too old.
    pub deleted: u64,
    /// Those of them that went because the file system was full, not the log.
    pub deleted_early: u64,
    /// Marks that wait in memory until storing is possible.
    pub waiting_marks: usize,
    /// Is it storing?
    pub state: State,
}
