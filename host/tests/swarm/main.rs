//! Disks, servers and whole shards on a simulated kernel, in random lives; and a zoned block device step by step.

mod simulated;
mod stops;

mod file_disk_swarm;
mod nbd_swarm;
mod stop_swarm;
mod zoned_blk;
mod zoned_blk_swarm;
mod zoned_dir_swarm;
