//! How much statistics there may be.

/// Most regions of a device. Every bio is compared with each of them.
pub const MAX_REGIONS: usize = 1024;
/// Most areas of a region, as in the kernel.
pub const MAX_AREAS: u64 = 8_388_608;
/// Most boundaries of a histogram.
pub const MAX_BOUNDARIES: usize = 1024;
/// Most bytes of counters of a device. The kernel allows a quarter of all memory to all devices.
pub const MAX_BYTES: u64 = 1 << 30;
/// Most numbers of an answer to `@stats_print`: about 70,000 lines without histograms.
pub const MAX_PRINTED: u64 = 1 << 20;
/// Most bytes of a program's name, or of the data that a program keeps with a region.
pub const MAX_TEXT_BYTES: usize = 1024;
