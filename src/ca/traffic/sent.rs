//! How many bytes a server sent on a circuit. The packet filter leaves updates out, and TCP's sequence numbers tell of them
//! only when something later passes; what the filter has counted of them is known before that.

/// See the module. All of it since the circuit was first seen.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// What was here.
    looked_at: u64,
    /// Updates among that which the filter has counted, too.
    passed: u64,
    /// What was not here, by sequence numbers.
    missing: u64,
    /// Bytes of updates by the filter's counts, whether they passed or not.
    counted: u64,
    /// As of the last note: all, and what of it was not here.
    noted: (u64, u64),
}

impl Sent {
    /// Bytes of which the sequence numbers tell.
    pub(super) fn bytes(&mut self, count: u64, looked_at: bool) {
        let bytes = if looked_at { &mut self.looked_at } else { &mut self.missing };
        *bytes = bytes.saturating_add(count);
    }

    /// An update that passed, of a subscription that the filter counts.
    pub(super) fn passed(&mut self, bytes: u64) {
        self.passed = self.passed.saturating_add(bytes);
    }

    /// Bytes of updates that the filter has counted.
    pub(super) fn counted(&mut self, bytes: u64) {
        self.counted = self.counted.saturating_add(bytes);
    }

    fn not_looked_at(&self) -> u64 {
        self.missing.max(self.counted.saturating_sub(self.passed))
    }

    fn all(&self) -> u64 {
        self.looked_at.saturating_add(self.not_looked_at())
    }

    /// All since the last note.
    pub(super) fn since_note(&self) -> u64 {
        self.all().saturating_sub(self.noted.0)
    }

    /// All since the last note, and what of it was not here. From now on it counts anew.
    pub(super) fn note(&mut self) -> (u64, u64) {
        let now = (self.all(), self.not_looked_at());
        let before = self.noted;
        self.noted = (now.0.max(before.0), now.1.max(before.1));
        (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1))
    }
}

#[cfg(test)]
mod tests {
    use super::Sent;

    #[test]
    fn what_was_left_out_last_counts_and_no_byte_twice() {
        let mut sent = Sent::default();
        // 48 bytes that open a channel, and the first of five updates of 24 bytes
        sent.bytes(72, true);
        sent.passed(24);
        sent.counted(5 * 24);
        assert_eq!(sent.since_note(), 168);
        assert_eq!(sent.note(), (168, 96));
        // an answer passes, and shows that two more updates came before it
        sent.bytes(6 * 24, false);
        sent.bytes(16, true);
        sent.counted(2 * 24);
        assert_eq!(sent.note(), (64, 48));
        assert_eq!(sent.note(), (0, 0));
        // without a filter
        let mut sent = Sent::default();
        sent.bytes(72, true);
        sent.passed(24);
        assert_eq!(sent.note(), (72, 0));
    }
}
