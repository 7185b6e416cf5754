//! The NBD server on threads and sockets, and back ends and front ends of other crates.

#[path = "../../../core/tests/shared/allocator.rs"]
mod allocator;
#[path = "../../benches/support/client.rs"]
mod client;
mod support;

mod nbd_hostile;
mod nbd_interop;
mod nbd_no_alloc;
mod own_back_end;
mod own_front_end;
