//! Device-mapper: tables, the mapper, and the targets that have no program of their own.

#[path = "../shared/allocator.rs"]
mod allocator;
#[path = "../shared/desk.rs"]
mod desk;
#[path = "../shared/mapped.rs"]
mod mapped;
#[path = "../shared/rig.rs"]
mod rig;
#[path = "../shared/tables.rs"]
mod tables;
#[path = "../shared/vectors.rs"]
mod vectors;

mod crypt_ciphers;
mod dm;
mod dm_crypt;
mod dm_delay;
mod dm_dust;
mod dm_error;
mod dm_flakey;
mod dm_log_writes;
mod dm_stats;
mod dm_stats_model;
mod dm_striped;
mod dm_striped_zones;
mod dm_zero;
mod mapper;
mod mapper_claims;
mod mapper_plugs;
mod table_splits;
mod zoned_stacking;
