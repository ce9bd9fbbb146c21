//! The state of a writer.

/// Whether events are being stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Events are stored.
    #[default]
    Ok,
    /// Events are not stored. They are counted as lost until storing works again.
    Paused {
        /// The reason, for people.
        reason: String,
    },
}

/// The state of a writer. Counts only rise, except those of the disk's contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Number of pushed events in written blocks, without those known to have gone missing since.
    pub stored: u64,
    /// Number of pushed events that are not in the log and never will be.
    pub lost: u64,
    /// Number of bytes written by this run.
    pub written: u64,
    /// Number of segments that this run has begun.
    pub begun: u32,
    /// Length of all segments in the directory, those of earlier runs included, bytes.
    pub on_disk: u64,
    /// Bytes that they and the directory take on the disk, with the space preallocated for the open segment. Never less
    /// than they really take, and never more than the cap.
    pub taken: u64,
    /// Number of segments in the directory.
    pub segments: usize,
    /// Number of pinned ones among them.
    pub pinned: usize,
    /// Bytes that pinned segments take on the disk.
    pub pinned_taken: u64,
    /// Bytes that pinned segments may take on the disk.
    pub pinned_share: u64,
    /// Number of segments that were deleted to free space, or because they were too old.
    pub deleted: u64,
    /// Number of them that were deleted because the file system, not the log, was full.
    pub deleted_early: u64,
    /// Number of marks that wait in memory until storing is possible.
    pub waiting_marks: usize,
    /// Whether events are being stored.
    pub state: State,
}
