//! What a path is to the disk that it leads to: asymmetric namespace access, NVMe's word for what SCSI calls ALUA.

use super::policy::Access;

crate::named_enum! {
    /// State of the group that a disk belongs to, seen from one controller (NVMe base specification 2.0, 8.1.1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum AnaState {
        /// The controller has the disk at hand.
        Optimized => "optimized",
        /// It asks another one for it.
        NonOptimized => "non-optimized",
        /// It cannot reach the disk at the moment.
        Inaccessible => "inaccessible",
        /// It never will again.
        PersistentLoss => "persistent-loss",
        /// It is changing from one state to another.
        Change => "change",
    }

    /// What Linux calls it in sysfs.
    fn name(self) -> &'static str;
}

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
