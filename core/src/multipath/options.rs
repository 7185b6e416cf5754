//! What a head can be told, and what is wrong with paths that do not belong together.

use super::policy::Node;
use super::retry::Rules;
use crate::block::LimitsError;
use crate::prelude::*;
use crate::time::Duration;

/// What a head can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadOptions {
    /// Which errors are a path's, and who brings it back.
    pub rules: Rules,
    /// Who submits.
    pub node: Node,
    /// How long bios wait for a path before they fail; `None`: for ever.
    pub no_path_timeout: Option<Duration>,
    /// Most bios that wait for a path; further ones fail.
    pub most_waiting: usize,
    /// Most attempts on one path, as long as the disk is busy.
    pub attempts: u8,
    /// Pause before a further one.
    pub pause: Duration,
    /// Longest time between two probes of a path that failed.
    pub probe: Duration,
    /// How long a path may be between two states before it counts as failed.
    pub change_timeout: Duration,
    /// How long bios wait for a path after the last one is gone that could come back by itself: removed, taken out or lost for good.
    pub delayed_removal: Duration,
    /// How long a change waits for the silence of a path that gave it up and states no time; then it fails, done or not. `None`: for ever.
    pub silence_timeout: Option<Duration>,
    /// Whether an append that may be done or not is sent again: then its data can be in its zone twice. Otherwise it fails.
    pub may_double_appends: bool,
}

impl Default for HeadOptions {
    /// Numbers as those of NVMe hosts: five attempts, a pause of 100 ms, reconnects every 10 s, for ten
    /// minutes; a minute without a path.
    fn default() -> Self {
        Self {
            rules: Rules::Nvme,
            node: Node(0),
            no_path_timeout: Some(Duration::from_millis(60_000)),
            most_waiting: 1 << 16,
            attempts: 5,
            pause: Duration::from_millis(100),
            probe: Duration::from_millis(10_000),
            change_timeout: Duration::from_millis(20_000),
            delayed_removal: Duration::ZERO,
            silence_timeout: Some(Duration::from_millis(600_000)),
            may_double_appends: false,
        }
    }
}

/// Most paths of a head.
pub const MOST_PATHS: usize = 32;

/// Refusal of paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// There are none, or more than [`MOST_PATHS`].
    Count(usize),
    /// The path of this number leads to another disk than the first one: what each says it is.
    OtherDisk(usize, String, String),
    /// It leads to a disk of another size, in sectors.
    OtherSize(usize, u64, u64),
    /// Its limits do not go with those of the others.
    Limits(usize, LimitsError),
    /// The same of one that comes later: the disk would no longer take all that it takes now.
    Serves(usize, LimitsError),
    /// It is the path of this number already.
    Twice(usize),
    /// The same, and that is being removed.
    Removing(usize),
}

impl_error!(HeadError, |self, f| match self {
    Self::Count(count) => write!(f, "{count} paths: a disk has 1 to {MOST_PATHS}"),
    Self::OtherDisk(path, one, other) => {
        write!(f, "path {path} leads to another disk: it says `{other}`, and the others say `{one}`")
    }
    Self::OtherSize(path, one, other) => {
        write!(f, "path {path} leads to a disk of {other} sectors, and the others to one of {one}")
    }
    Self::Limits(path, error) => write!(f, "path {path} does not go with the others: {error}"),
    Self::Serves(path, error) => {
        write!(f, "path {path} takes less than the disk does over the others: {error}; make the disk anew with it")
    }
    Self::Twice(path) => write!(f, "it is path {path} already"),
    Self::Removing(path) => write!(f, "it is being removed as path {path}: what it was given has to end first"),
});
