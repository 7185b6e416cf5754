//! What the state of a path means for I/O.

use super::policy::Access;
use crate::block::AnaState;

impl AnaState {
    /// Whether a path in this state takes I/O.
    #[must_use]
    pub fn access(self) -> Access {
        match self {
            Self::Optimized => Access::Optimized,
            Self::NonOptimized => Access::NonOptimized,
            Self::Inaccessible | Self::PersistentLoss | Self::Change => Access::Unusable,
        }
    }
}
