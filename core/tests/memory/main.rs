//! Memory: the data path allocates nothing once it is warm, and survives where there is none.

#[path = "../shared/allocator.rs"]
mod allocator;
#[path = "../shared/mapped.rs"]
mod mapped;
#[path = "../shared/rig.rs"]
mod rig;
#[path = "../shared/zoned.rs"]
mod zoned;

mod crypt_no_allocation;
mod nbd_no_alloc;
mod no_allocation;
mod no_memory;
mod ublk_no_alloc;
