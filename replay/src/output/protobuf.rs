//! Protobuf, as far as outputs need it: what a message is written with.
//!
//! A message that another one holds stands after its length, so it is written first and copied, which is cheap as long as
//! they are short.

/// Bytes of a message.
#[derive(Default)]
pub struct Message(pub(in crate::output) Vec<u8>);

impl Message {
    /// A number of any length.
    pub(in crate::output) fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn tag(&mut self, field: u64, wire_type: u64) {
        self.varint(field << 3 | wire_type);
    }

    /// An integer, a boolean, an enum.
    pub(in crate::output) fn number(&mut self, field: u64, number: u64) {
        self.tag(field, 0);
        self.varint(number);
    }

    /// A fixed64 or a double, by its bits.
    pub(in crate::output) fn fixed(&mut self, field: u64, bits: u64) {
        self.tag(field, 1);
        self.0.extend(bits.to_le_bytes());
    }

    /// Bytes or a text.
    pub(in crate::output) fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.tag(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    /// A message inside of this one.
    pub(in crate::output) fn message(&mut self, field: u64, write: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    /// A text, unless it is empty.
    pub(in crate::output) fn text(&mut self, field: u64, text: &str) {
        if !text.is_empty() {
            self.bytes(field, text.as_bytes());
        }
    }
}
