//! Guards of acknowledged data that tests take away, to show that they notice.

/// Guards that are gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sabotage {
    /// Requests are executed whatever a killed server has left of them.
    pub records_unread: bool,
    /// What looks like an append that was done is taken for it, whatever its data.
    pub appends_uncompared: bool,
    /// Of an append that was done in part nothing is remembered.
    pub parts_unfinished: bool,
    /// Other appends go before the rest of one that was done in part.
    pub parts_overtaken: bool,
    /// A reset forgets nothing.
    pub resets_forget_nothing: bool,
    /// Records stay when the kernel is told.
    pub told_records_stay: bool,
    /// What is not flushed is not written again.
    pub no_replay: bool,
    /// It is forgotten when a flush is sent.
    pub flushed_when_sent: bool,
    /// It is written again in no order.
    pub replay_unordered: bool,
    /// Records are forgotten when they are written again, before the flush.
    pub forgotten_unflushed: bool,
    /// The newest writes are written again, and forgotten, first.
    pub replayed_newest_first: bool,
    /// Writes found done are as durable as they ought to be.
    pub durable_when_found: bool,
    /// Memory of requests is used by number whether or not it is registered.
    pub registered_unasked: bool,
    /// The driver opens the memory of another boot as that of this one.
    pub boots_untold: bool,
}

pub(super) type Guards = crate::guards::Guards<Sabotage>;
