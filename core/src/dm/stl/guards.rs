//! Guards of data that tests take away, to show that they notice. Numbers are those of the invariants in `docs/decisions/0016-stl.md`.

/// Guards that are gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sabotage {
    /// Recovery goes on behind a number that is missing (I1).
    pub replay_over_gaps: bool,
    /// A flush reaches the first device alone (I3).
    pub flush_one_device: bool,
    /// A start goes on in the life of the one before (I4).
    pub keep_epoch: bool,
    /// A start changes something before what it found is durable (I34).
    pub start_unflushed: bool,
    /// A zone that is gone had nothing behind the newest root (I35).
    pub gone_is_empty: bool,
    /// A member is taken as it is though it is an older copy (I36).
    pub older_copies: bool,
    /// Users are in another zone than the one that the newest root names as their next (I35).
    pub next_is_any: bool,
    /// A volume is found on its devices when it is made: then an instance before it may still be at work (I28).
    pub found_early: bool,
    /// A life does not remember that batches of one before it count for nothing (I24).
    pub lives_forgotten: bool,
    /// A victim is reset though what replaced its blocks may not be durable (I5).
    pub reset_unjudged: bool,
    /// A victim is reset before a root knows its batches (I7).
    pub reset_uncovered: bool,
    /// A victim is reset before a root knows the copies from it and to it (I8).
    pub reset_before_copies: bool,
    /// A root is written before what it names is durable (I9).
    pub root_before_flush: bool,
    /// Discards and zeroes are applied to the map and not logged (I10).
    pub discards_unlogged: bool,
    /// A copy counts whatever a user has written meanwhile, in memory (I11).
    pub copies_unconditional: bool,
    /// A range is copied as it was when it was read, without asking the map again (I11).
    pub ranges_unasked: bool,
    /// A zone is taken for the victim that it was before it was given back and opened again (I12).
    pub victims_by_place: bool,
    /// A copy counts whatever a user has written meanwhile, in recovery.
    pub replay_copies_unconditional: bool,
    /// Headers count wherever they lie and whenever they were written (I13, I16).
    pub headers_unchecked: bool,
    /// A batch counts by its header alone (I14).
    pub torn_batches_count: bool,
    /// A zone that was reset is opened before a root says so (I17).
    pub open_ungranted: bool,
    /// Readers do not keep a zone from being reset (I18).
    pub readers_unpinned: bool,
    /// Parts of the map are given up before a root does without them (I19).
    pub free_map_at_once: bool,
    /// Of runs that become one the oldest has what several have (I32).
    pub older_runs_win: bool,
    /// A root says of leaves that they have what runs told of them before they have it (I33).
    pub merged_early: bool,
    /// What a run told of leaves is merged into them again, where an extent of it reaches beyond them (I33).
    pub merged_again: bool,
    /// A batch that failed counts as done (I21).
    pub failed_batches_count: bool,
    /// A zone of the map that was opened for the tables of the newest root is free where a tool has begun another life (I29).
    pub named_is_free: bool,
    /// A device that leaves is empty though something is on it (I30).
    pub emptied_early: bool,
    /// The number of a batch that a host refused is left out, and later batches count (I39).
    pub voids_unwritten: bool,
    /// A flush that follows a failed one succeeds without flushing (I37).
    pub failed_flush_counts: bool,
    /// Data that a disk returns is not compared with its checksum (I38).
    pub reads_unchecked: bool,
    /// FUA writes are acknowledged as others are (I26).
    pub fua_is_nothing: bool,
}

pub(super) type Guards = crate::guards::Guards<Sabotage>;
