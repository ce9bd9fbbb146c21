//! What a client claims of itself.

use epics::pva::cursor::text;
use epics::pva::value::{self, Visitor};
use epics::pva::{Cursor, Leaf, Read};

/// Longest user or host name, as in Channel Access.
const LONGEST_USER: usize = 512;

/// What a client claims of itself.
#[derive(Debug, Default)]
pub(super) struct Claims {
    pub(super) user: String,
    pub(super) host: String,
    pub(super) path: Vec<Vec<u8>>,
}

impl Visitor for Claims {
    fn enter(&mut self, name: &[u8]) {
        self.path.push(name.to_vec());
    }

    fn leave(&mut self) {
        self.path.pop();
    }

    fn leaf(&mut self, leaf: Leaf<'_>) {
        let Leaf::One(_, bytes) = leaf else { return };
        let [name] = self.path.as_slice() else { return };
        let claim = match name.as_slice() {
            b"user" => &mut self.user,
            b"host" => &mut self.host,
            _ => return,
        };
        *claim = text(bytes.get(..LONGEST_USER).unwrap_or(bytes));
    }

    fn any(&mut self, value: &mut Cursor<'_>, out: &mut Vec<u8>) -> Read<bool> {
        value::any_alone(value, out)
    }
}
