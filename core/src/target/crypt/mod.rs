//! `crypt`: a device of which only the ciphertext reaches the device below, bit for bit as the kernel's dm-crypt.
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
