//! The block layer: bios, stacks, zones, devices, and what is said of errors.

#[path = "../shared/desk.rs"]
mod desk;
#[path = "../shared/rig.rs"]
mod rig;

mod block;
mod doors;
mod dropped_bio;
mod emulated_fua;
mod life_of_a_write;
mod null_device;
mod reasons;
mod shift;
mod zone_state_machine;
