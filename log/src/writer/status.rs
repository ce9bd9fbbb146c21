//! How a writer is doing.

/// Whether events are being stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// They are.
    #[default]
    Ok,
    /// They are not, and are counted as lost until it works again.
    Paused {
        /// Why, for people.
        reason: String,
    },
}

/// How a writer is doing. Counts only rise, except those of what is on the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Events pushed that are in a written block, without those that are known to be missing since.
    pub stored: u64,
    /// Events pushed that are not in the log, and never will be.
    pub lost: u64,
    /// Bytes written by this run.
    pub written: u64,
    /// Length of all segments in the directory, those of earlier runs included.
    pub on_disk: u64,
    /// Bytes of the disk that they and the directory take, with what is preallocated for the open one. Never less than
    /// they really take, and never more than the cap.
    pub taken: u64,
    /// Number of segments in the directory.
    pub segments: usize,
    /// How many of them are pinned.
    pub pinned: usize,
    /// Bytes of the disk that pinned segments take.
    pub pinned_taken: u64,
    /// Bytes of the disk that pinned segments may take.
    pub pinned_share: u64,
    /// Segments that were deleted to make room, or because they were too old.
    pub deleted: u64,
    /// Those of them that were deleted because the file system was full, not the log.
    pub deleted_early: u64,
    /// Marks that wait in memory until storing is possible.
    pub waiting_marks: usize,
    /// Are events being stored?
    pub state: State,
}
