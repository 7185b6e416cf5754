//! Guards of the scheduler that tests take away, to show that they notice.

/// Guards that are gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sabotage {
    /// Writes to a zone are sorted by their own sectors and by their own priority classes, so one may overtake another.
    pub zones_unordered: bool,
    /// A batch begins with the next sector, however long another bio has waited.
    pub expiry_ignored: bool,
    /// Reads go first, however often they have.
    pub writes_starved: bool,
    /// A lower priority class waits until no other does.
    pub aging_ignored: bool,
    /// Bios of lower classes that have waited too long go before all others, however many there are.
    pub aging_unbounded: bool,
}

pub(super) type Guards = crate::guards::Guards<Sabotage>;
