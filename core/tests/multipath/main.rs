//! Multipath: the head of NVMe, and the target of device-mapper.

#[path = "../shared/desk.rs"]
mod desk;
mod head_desk;
#[path = "../shared/mapped.rs"]
mod mapped;
#[path = "../shared/rig.rs"]
mod rig;

mod dm_multipath;
mod multipath_head;
mod multipath_membership;
mod multipath_past_bugs;
mod multipath_policies;
mod multipath_power;
