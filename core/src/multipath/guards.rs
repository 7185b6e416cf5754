//! Guards of a head that tests take away, to show that they notice.

/// Guards that are gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sabotage {
    /// A reset that a path has given up is sent again while it may still land.
    pub resets_unawaited: bool,
    /// The same of a write to where there is no pointer.
    pub overwrites_unawaited: bool,
    /// The same of a write at a pointer, as soon as that was asked for.
    pub zone_writes_unawaited: bool,
    /// An append fails, or is sent again, while it may still land.
    pub appends_unawaited: bool,
    /// A path that has failed gets the same bio again.
    pub same_path_again: bool,
    /// An answer counts for bios that came back after the question.
    pub kicked_early: bool,
    /// What a path is to the disk stays what it was in the beginning.
    pub states_ignored: bool,
    /// A write to a zone is sent again as a whole, whatever of it is done.
    pub pointers_unasked: bool,
    /// A path that never says that it is silent is waited for.
    pub silence_unbounded: bool,
    /// A path that is removed gets more.
    pub removal_ignored: bool,
    /// What a path gave up is settled when it is removed.
    pub removed_unawaited: bool,
    /// A loss of the disk's power is not heard.
    pub losses_unheard: bool,
    /// A flush is acknowledged although the disk has lost its cache.
    pub losses_unflushed: bool,
    /// What a zone was to get before the disk lost its cache goes there afterwards.
    pub losses_undone: bool,
    /// Paths that are not optimized get I/O as those that are.
    pub classes_mixed: bool,
}

pub(super) type Guards = crate::guards::Guards<Sabotage>;
