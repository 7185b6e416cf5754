//! What a block of a volume holds.

use crate::stamp::Seen;

/// What a block can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Zeroes,
    /// What this request has written to it.
    Data(u64),
}

impl Value {
    pub fn looks(self, block: u32) -> Seen {
        match self {
            Value::Zeroes => Seen::Zeroes,
            Value::Data(request) => Seen::Data(request, block),
        }
    }
}
