//! Disks that are directories or files: what they promise, also when they are killed or the power goes.

#[path = "../../../core/tests/shared/allocator.rs"]
mod allocator;
mod common;

mod disk_no_allocation;
mod file_disk;
mod power_cut;
mod zoned_dir;
mod zoned_dir_crash;
mod zoned_dir_loader;
mod zoned_dir_presence;
mod zoned_dir_second_daemon;
