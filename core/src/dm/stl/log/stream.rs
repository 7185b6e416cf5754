//! What the batches of a zone have in common: who writes them.

use super::zones::Pool;

named_enum! {
    /// What is written to a zone, as rows of zones have it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Stream {
        /// The map and its tables.
        Map = 1 => "map",
        /// What users wrote and cleaning copied once.
        Copies = 2 => "copies",
        /// What users write, in zones of which a start knows that the next is opened only when one is full.
        Users = 3 => "users",
        /// What cleaning copied twice.
        OldCopies = 4 => "old copies",
        /// What it copied more often.
        OldestCopies = 5 => "oldest copies",
        /// What users write beside that, in zones that a root named before they were opened.
        Side = 6 => "users beside",
    }

    /// Its name.
    fn name(self) -> &'static str;
}

impl Stream {
    /// That of a row.
    #[must_use]
    pub fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|stream| *stream as u8 == byte)
    }

    /// Whose zones those of this stream are.
    #[must_use]
    pub fn pool(self) -> Pool {
        match self {
            Self::Map => Pool::Map,
            Self::Copies | Self::OldCopies | Self::OldestCopies => Pool::Cleaning,
            Self::Users | Self::Side => Pool::Users,
        }
    }

    /// Where copies of what is in a zone of this stream go: what was copied more often lives longer, and dies together.
    #[must_use]
    pub fn of_copies(self) -> Self {
        match self {
            Self::Users | Self::Side | Self::Map => Self::Copies,
            Self::Copies => Self::OldCopies,
            Self::OldCopies | Self::OldestCopies => Self::OldestCopies,
        }
    }
}

/// Whose a zone with this byte in its row is.
#[must_use]
pub fn pool_of(byte: u8) -> Option<Pool> {
    Stream::of(byte).map(Stream::pool)
}
