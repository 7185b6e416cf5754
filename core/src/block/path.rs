//! What a device that stands above several paths to one disk, and the paths, say to each other.
//!
//! A path can give up a command: the bio comes back with a path error ([`Status::is_path_error`](super::Status::is_path_error)), while the
//! command itself may be in a queue on the way and reach the disk later. What was sent anew on another path in between, or
//! written after it, is then undone by the old one. Nothing that the disk can be asked proves that this will not happen; only
//! the path knows. So a change is not sent anew before its path is silent:
//!
//! ```text
//!  head ── bio ──────────────> path ── command ──> (stalls)
//!  head ── Event::GiveUp ────> path      a head may, or the path does it by itself
//!  head <── bio, timeout ───── path                  :
//!  head ── Event::AskSilence > path                  : may still take effect
//!  head <── Event::Silent ──── path <────────────────: over
//! ```
//!
//! A disk that loses its power while its host goes on loses its write cache, and pointers of zones can go back. It is the path who knows:
//! a controller that has started anew (NVMe), a unit attention of the kind "power on" (SCSI). The rule for a path is that nothing that it was
//! given before it has announced the loss is carried out after it.
//!
//! A device in between that gives up nothing itself, as a table, need not know of this: the stack asks those below it that do
//! give up, and says that the path is silent when all of them have.
//!
//! Who does not want to be told waits for the time that [`Silence::After`] states, from when the bio came back. NVMe knows both: a
//! controller states how long it needs to quiesce when it has lost its host (command quiesce time), or another one reports
//! that the commands of a lost controller are over (cross-controller reset; NVMe base specification 2.1 and later).

use super::id::DeviceId;
use crate::time::Duration;

/// When a command can no longer take effect whose bio came back with a path error. A later one is worse: they are in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Silence {
    /// At once: what came back is over. So it is with every disk itself.
    AtOnce,
    /// So long after the bio came back; sooner if the device says so when it is asked.
    After(Duration),
    /// When the device says so, which has to be asked: nobody knows a bound.
    Told,
}

/// What is said beside bios, with [`Cx::tell_path`](super::Cx::tell_path). A device of which
/// [`BlockDevice::silence`](super::BlockDevice::silence) says nothing hears none of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathEvent {
    /// To a path: every bio that is in it ends now, with a path error.
    GiveUp,
    /// To a path: tell `by` once no command can take effect any more whose bio is back. That can be at once.
    AskSilence {
        /// Who asks.
        by: DeviceId,
        /// Its number for that, each once.
        question: u64,
    },
    /// From a path: it is so, and was when this was sent.
    Silent {
        /// The path.
        path: DeviceId,
        /// The question that this answers.
        question: u64,
    },
    /// From a path: its disk has lost its power. See [`Cx::announce_losses`](super::Cx::announce_losses).
    Losses {
        /// The path.
        path: DeviceId,
        /// How often it has so far; `None`: nobody counts.
        losses: Option<u64>,
    },
    /// From a path: what it is to the disk from now on. See [`Cx::announce`](super::Cx::announce).
    State {
        /// The path.
        path: DeviceId,
        /// What it is.
        state: AnaState,
    },
}

crate::named_enum! {
    /// State of the group that a disk belongs to, seen from one controller (NVMe base specification 2.0, 8.1.1): asymmetric namespace
    /// access, NVMe's word for what SCSI calls ALUA.
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
