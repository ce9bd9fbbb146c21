//! What a client claims of itself.

use epics::pva::cursor::text;
use epics::pva::types::Scalar;
use epics::pva::value::Visitor;
use epics::pva::{Cursor, Fault, Leaf, Read};

/// Longest user or host name, as in Channel Access.
const LONGEST_USER: usize = 512;

/// A name as servers take it: to its first NUL.
pub(super) fn name(bytes: &[u8]) -> String {
    text(bytes.split(|byte| *byte == 0).next().unwrap_or_default())
}

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
        let Leaf::One(Scalar::STRING, bytes) = leaf else { return };
        let [field] = self.path.as_slice() else { return };
        let claim = match field.as_slice() {
            b"user" => &mut self.user,
            b"host" => &mut self.host,
            _ => return,
        };
        *claim = name(bytes.get(..LONGEST_USER).unwrap_or(bytes));
    }

    /// pvxs believes what is in one, QSRV1 does not.
    fn any(&mut self, _: &mut Cursor<'_>, _: &mut Vec<u8>) -> Read<bool> {
        Err(Fault::Wrong)
    }
}
