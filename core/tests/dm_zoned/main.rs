//! dm-zoned: the target, its format, and its tools.

mod dmz;
#[path = "../shared/rig.rs"]
mod rig;
#[path = "../shared/zoned.rs"]
mod zoned;

mod dm_zoned;
mod dm_zoned_kernel;
mod dm_zoned_trouble;
mod dmz_format;
mod dmz_format_cut;
mod dmz_members;
mod dmz_repair;
mod dmz_rules;
mod dmz_salvage;
mod dmz_stale;
mod dmz_start;
mod dmz_survival;
mod dmz_volume;
mod extents;
mod kernel_2020;
mod zoned_policy;
