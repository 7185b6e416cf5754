//! Guards of data that tests take away, to show that they notice.

/// Guards that are gone (`drivers/md/dm-zoned-metadata.c` has none of them).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sabotage {
    /// A set that lags behind stays as it is when the metadata is loaded.
    pub no_resync: bool,
    /// What a host has left in the caches of its disks as it was killed is taken for durable.
    pub trust_caches_at_load: bool,
    /// A superblock counts although its checksum is wrong.
    pub superblock_unchecked: bool,
    /// A superblock that cannot be read is taken as none.
    pub unread_is_none: bool,
    /// The other set is written over whatever the one in force says.
    pub resync_unjudged: bool,
    /// A zone is used again before the commit that let it go.
    pub reuse_at_once: bool,
    /// Blocks become valid when their write is sent.
    pub valid_when_sent: bool,
    /// A flush reaches the device of the metadata alone.
    pub flush_metadata_only: bool,
    /// Blocks at and behind the write pointer that a zone has when the metadata is loaded stay valid.
    pub trust_bits_at_load: bool,
    /// The same for the pointer that it has after a write failed.
    pub trust_bits_after_failure: bool,
    /// A set is used although one of its disks is an older copy.
    pub older_copies: bool,
    /// Zones without an owner are reset before zones are needed.
    pub reset_unneeded: bool,
    /// The number of unrecorded zones has no bound.
    pub unrecorded_unbound: bool,
    /// The metadata is read when a table is loaded, while the live table is in use.
    pub found_early: bool,
    /// A suspend does not wait for writes in flight and what they change.
    pub rest_while_written: bool,
    /// A suspend does not wait for writes that wait in the volume, for a zone for instance.
    pub rest_while_held: bool,
    /// A table is replaced although acknowledged writes are in memory only.
    pub replaceable_after_loss: bool,
    /// A copy counts for blocks to which a write failed meanwhile.
    pub trust_copy_after_failure: bool,
}

pub(super) type Guards = crate::guards::Guards<Sabotage>;
