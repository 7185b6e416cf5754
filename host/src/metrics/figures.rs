//! Figures that targets show of themselves, as metrics. What a figure means is on the page of its target.

use shingle_core::block::Figure;

use super::families::{Family, Kind, family};

/// A figure and its family.
pub(super) struct Row {
    /// What the target calls it.
    pub figure: &'static str,
    pub family: Family,
}

/// Figures of a kind of target.
pub(super) struct Figures {
    /// The name of the target in a table.
    pub target: &'static str,
    pub rows: &'static [Row],
}

const DEVICE: &[&str] = &["device"];
/// A figure in words: 1 with the word that holds.
const STATE: &[&str] = &["device", "state"];

const fn counter(figure: &'static str, name: &'static str, help: &'static str) -> Row {
    Row { figure, family: family(name, Kind::Counter, DEVICE, help) }
}

const fn gauge(figure: &'static str, name: &'static str, help: &'static str) -> Row {
    Row { figure, family: family(name, Kind::Gauge, DEVICE, help) }
}

const fn state(figure: &'static str, name: &'static str, help: &'static str) -> Row {
    Row { figure, family: family(name, Kind::Gauge, STATE, help) }
}

/// All of them. Blocks are of 4 KiB.
#[rustfmt::skip]
pub(super) const FIGURES: &[Figures] = &[
    Figures { target: "zoned", rows: &[
        counter("direct_blocks", "dmzoned_direct_blocks", "Blocks that users wrote to sequential zones"),
        counter("random_blocks", "dmzoned_random_blocks", "Blocks that users wrote to cache or random zones"),
        counter("filled_blocks", "dmzoned_filled_blocks", "Blocks of zeroes in front of direct writes"),
        counter("copied_blocks", "dmzoned_copied_blocks", "Blocks that reclaim wrote"),
        counter("reclaimed_zones", "dmzoned_reclaimed_zones", "Zones that reclaim freed"),
        counter("commits", "dmzoned_commits", "Commits of metadata"),
        counter("metadata_blocks", "dmzoned_metadata_blocks", "Blocks that they wrote"),
        gauge("amplification", "dmzoned_amplification", "Blocks written to the disks for each that users wrote, since the table was loaded"),
        gauge("waiting_writes", "dmzoned_waiting_writes", "Writes that wait for a zone, or are paced"),
        gauge("cache_zones", "dmzoned_cache_zones", "Zones of the cache"),
        gauge("free_cache_zones", "dmzoned_free_cache_zones", "Those of them that are free"),
        gauge("random_zones", "dmzoned_random_zones", "Zones that take writes anywhere, but for the cache"),
        gauge("free_random_zones", "dmzoned_free_random_zones", "Those of them that are free"),
        gauge("sequential_zones", "dmzoned_sequential_zones", "Zones that are written in order, those that are kept for reclaim included"),
        gauge("free_sequential_zones", "dmzoned_free_sequential_zones", "Those of them that are free"),
        gauge("unrecorded_zones", "dmzoned_unrecorded_zones", "Zones that may be written and that the metadata on the disk gives to no chunk"),
        state("policy", "dmzoned_policy", "1 for whose decisions are taken"),
        state("reclaim", "dmzoned_reclaim", "1 for how much reclaim is needed"),
    ] },
    Figures { target: "stl", rows: &[
        counter("user_blocks", "stl_user_blocks", "Blocks that users wrote"),
        counter("header_blocks", "stl_header_blocks", "Blocks of headers"),
        counter("copied_blocks", "stl_copied_blocks", "Blocks that cleaning copied"),
        counter("map_blocks", "stl_map_blocks", "Blocks of the map and its tables"),
        counter("root_blocks", "stl_root_blocks", "Blocks of roots"),
        counter("filler_blocks", "stl_filler_blocks", "Blocks that were left empty at ends of zones"),
        counter("cleaned_zones", "stl_cleaned_zones", "Zones that were cleaned"),
        counter("checkpoints", "stl_checkpoints", "Checkpoints"),
        counter("sweeps", "stl_sweeps", "Sweeps over the map"),
        counter("recounts", "stl_recounts", "Those that looked at every leaf"),
        counter("compactions", "stl_compactions", "Times that several runs became one"),
        counter("batches", "stl_batches", "Batches of users"),
        counter("retries", "stl_retries", "Batches that had to be written again elsewhere"),
        counter("wrong_checksums", "stl_wrong_checksums", "Blocks that were read and had another checksum than they should"),
        counter("ahead_blocks", "stl_ahead_blocks", "Blocks that readers in order got out of memory"),
        counter("rewritten_blocks", "stl_rewritten_blocks", "Blocks that were written in order, as they had been read so"),
        gauge("amplification", "stl_amplification", "Blocks written to the disks for each that users wrote, since the table was loaded"),
        gauge("data_amplification", "stl_data_amplification", "The same of data alone: what users wrote, and copies of it"),
        gauge("victims_live_share", "stl_victims_live_share", "The share of live blocks of the last zones that were cleaned, on average"),
        gauge("pace", "stl_pace", "Of what cleaning costs, how much writes of users wait for: 0 with enough free zones, 2 without one"),
        gauge("owed_blocks", "stl_owed_blocks", "Blocks that cleaning has yet to read or write for what users wrote"),
        gauge("waiting_writes", "stl_waiting_writes", "Changes of users that do not count yet"),
        state("volume", "stl_state", "1 for the state of the volume"),
        state("cleaning", "stl_cleaning", "1 for what cleaning is at"),
        gauge("leaving_zones", "stl_leaving_zones", "Zones of a device that leaves which are not empty yet"),
        gauge("leaving_blocks", "stl_leaving_blocks", "Live blocks in them"),
        gauge("exposed_blocks", "stl_exposed_blocks", "Blocks that users have"),
        gauge("live_blocks", "stl_live_blocks", "Blocks that are live as far as is known: what was written over since the last sweep still counts"),
        gauge("zones", "stl_zones", "Zones"),
        gauge("free_zones", "stl_free_zones", "Those of them that are free"),
        gauge("wanted_free_zones", "stl_wanted_free_zones", "Free zones below which cleaning works"),
        gauge("given_back_zones", "stl_given_back_zones", "Zones with nothing live, which are being given back"),
        gauge("data_zones", "stl_data_zones", "Full zones of what users wrote"),
        gauge("copies_zones", "stl_copies_zones", "Full zones of copies"),
        gauge("map_zones", "stl_map_zones", "Full zones of the map"),
        gauge("open_zones", "stl_open_zones", "Zones that are written"),
        gauge("marked_zones", "stl_marked_zones", "Zones whose live blocks are known one by one"),
        gauge("slowest_write_us", "stl_slowest_write_seconds", "The longest that a change waited until it counted"),
        gauge("pending_extents", "stl_pending_extents", "Extents of the map that no run has yet"),
        gauge("pending_bytes", "stl_pending_bytes", "Memory of them"),
        gauge("runs", "stl_runs", "Runs"),
        gauge("index_bytes", "stl_index_bytes", "Memory of their index"),
        gauge("leaves", "stl_leaves", "Leaves that have something"),
        gauge("memory_bytes", "stl_memory_bytes", "Memory of the whole map"),
    ] },
    Figures { target: "multipath", rows: &[
        counter("bios that waited for a path", "multipath_waited", "Bios that have had to wait for a path"),
        counter("bios that failed without one", "multipath_failed_without_path", "Bios that have failed because there was none"),
        counter("appends that failed undecided", "multipath_uncertain_appends", "Appends that have failed since nobody knows whether they are done"),
        counter("appends sent again", "multipath_doubled_appends", "Appends that were sent again although they may have been done"),
        counter("changes that failed unsettled", "multipath_unsettled", "Changes that have failed since their path never said that it could carry them out no more"),
        counter("losses of a write cache", "multipath_cache_losses", "Times that a disk lost what was in its cache while its users went on"),
    ] },
];

/// The family of what a target calls so.
pub(super) fn of(target: &str, figure: &str) -> Option<&'static Family> {
    let rows = FIGURES.iter().find(|of_target| of_target.target == target)?.rows;
    rows.iter().find(|row| row.figure == figure).map(|row| &row.family)
}

/// What a figure is as a number: in the unit that its family is named after.
pub(super) fn number(family: &Family, figure: Figure) -> Option<f64> {
    match figure {
        // Microseconds are what targets count in.
        Figure::Count(count) if family.name.ends_with("_seconds") => Some(count as f64 / 1e6),
        Figure::Count(count) => Some(count as f64),
        Figure::Ratio(ratio) => Some(ratio),
        Figure::Word(_) => None,
    }
}
