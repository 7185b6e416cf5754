//! `crypt`: a device of which only the ciphertext reaches the device below, bit for bit as the kernel's dm-crypt.
//!
//! ```text
//!   write ──> memory of its own? ── no ──> waits, and what changes the device behind it
//!                  │ yes: encrypted on the way into it
//!                  v
//!             device below ──> the submitter's memory is put back
//!
//!   read ───> device below ──> decrypted where it lies
//! ```
//!
//! Above it promises a device that is like the one below, in order, in blocks of at least one unit; the submitter's
//! memory is only ever changed by a read. It does neither appends nor zeroes. Below it asks for nothing special.
//!
//! - [`cipher`]: what it asks of a cipher; `software` has the portable ones, others come from outside.
//! - `spec`, `key`, `args`: a table line, from the cipher's name to the options.
//! - `iv`, `volume`: which key and which IV a unit gets.
//! - `segments`, `bounce`, `device`: bios, their memory, and what waits for it.

mod args;
mod bounce;
pub mod cipher;
mod device;
mod iv;
mod key;
mod segments;
mod software;
mod spec;
mod volume;

pub(super) use args::TYPE;
pub use cipher::{CipherError, Ciphers, Iv, Mode, SectorCipher};
pub use device::{Crypt, CryptConfig};
pub use iv::IvMode;
pub use key::{Key, KeyArgument, KeyPlace, KeyReference, KeySource, NoKeys};
pub use software::SoftwareCiphers;
pub use spec::CipherSpec;
pub use volume::{Units, VolumeCipher};
