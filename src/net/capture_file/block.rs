//! Numbers in either byte order, at offsets that may lie outside.

/// A byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The least significant byte first.
    #[default]
    Little,
    /// The most significant byte first.
    Big,
}

impl Order {
    /// Two bytes.
    pub fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self == Order::Big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    /// Four bytes.
    pub fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self == Order::Big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    /// Eight bytes.
    pub fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self == Order::Big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }
}
