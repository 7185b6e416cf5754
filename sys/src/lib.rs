//! Everything unsafe is here.
//!
//! - [`crypto`]: ciphers in assembly.
//! - [`file_status`]: the status of files, and answers of requests that are not just a number.
//! - [`program_memory`]: pages of the program itself.
//! - [`request`]: what the kernel can be asked to do, together with all the memory that it touches meanwhile.
//! - [`ring`]: a single-threaded io_uring that owns its requests until they are done; [`ring_setup`] makes it, [`ring_handle`]
//!   shares it.
//! - [`shared_memory`]: memory that outlives the process.
//! - [`ublk`]: block devices of the machine's kernel that a process serves.
//! - [`unix`]: the few system calls that neither the standard library nor `rustix` makes safe.
//! - [`zoned_block`]: zones of block devices of the kernel.
//!
//! Every interface is sound without rules for the caller: what the kernel may write to is owned here until it is done.
#![deny(unsafe_op_in_unsafe_fn)]
#![warn(clippy::undocumented_unsafe_blocks)]
// They panic if nobody reads.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod crypto;
pub mod file_status;
pub mod program_memory;
pub mod request;
pub mod ring;
pub mod ring_handle;
pub mod ring_setup;
pub mod shared_memory;
#[cfg(test)]
mod testing;
pub mod ublk;
pub mod unix;
pub mod zoned_block;

pub use file_status::{Answer, FileStatus, StatusBuffer, cached_status};
/// For those who write an [`Operation`].
pub use io_uring;
pub use program_memory::populate_program;
pub use request::{Allocate, Entries, Fd, Operation, Part, Request, Submission, read_at, write_at};
pub use ring::{Completion, MOST_DRIVER_REGIONS, Ring, Token, driver_region};
pub use ring_handle::{RequestQueue, RingHandle};
pub use ring_setup::RingError;
pub use shared_memory::SharedMemory;
pub use unix::{give_back_memory, inherited};
