//! What the target asks of a cipher, whoever provides it.

use core::sync::atomic::AtomicU64;

use crate::prelude::*;

/// The IV of one unit: 16 bytes, as the kernel's crypto API takes it.
pub type Iv = [u8; 16];

named_enum! {
    /// A cipher and how its blocks are chained.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Mode {
        /// `aes-xts`: the first half of the key encrypts the data, the second half the tweak.
        AesXts => "aes-xts",
        /// `aes-cbc`.
        AesCbc => "aes-cbc",
    }

    /// As a table line names it.
    fn name(self) -> &'static str;
}

impl Mode {
    /// The lengths that a key may have, in bytes: AES-128, AES-192 and AES-256.
    #[must_use]
    pub const fn key_bytes(self) -> [usize; 3] {
        match self {
            Mode::AesXts => [32, 48, 64],
            Mode::AesCbc => [16, 24, 32],
        }
    }
}

impl_display!(Mode, |self, f| f.write_str(self.name()));

/// A cipher with its key. Dropping it wipes the key.
///
/// A *unit* is what has an IV of its own: an encryption sector of 512 to 4096 bytes, a whole number of 16-byte blocks.
/// A call takes one or more of them, one for each IV, all of the same length. Words are in the machine's byte order:
/// the bytes as they lie in memory. Memory that somebody else changes meanwhile makes the result wrong and nothing
/// else.
pub trait SectorCipher {
    /// Encrypts the units in `from` to `to`, which is the same memory or does not overlap it.
    ///
    /// # Panics
    /// If the lengths differ or are not one unit of whole blocks for each IV.
    fn encrypt(&mut self, ivs: &[Iv], from: &[AtomicU64], to: &[AtomicU64]);

    /// Decrypts the units in `from` to `to`, as [`SectorCipher::encrypt`] encrypts them.
    fn decrypt(&mut self, ivs: &[Iv], from: &[AtomicU64], to: &[AtomicU64]);
}

/// Where ciphers come from: the portable ones of this crate, or faster ones of the machine.
pub trait Ciphers {
    /// The cipher of `mode` with `key`.
    ///
    /// # Errors
    /// If the key has none of the lengths of [`Mode::key_bytes`].
    fn sector_cipher(&self, mode: Mode, key: &[u8]) -> Result<Box<dyn SectorCipher>, CipherError>;
}

/// Unknown or unusable cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CipherError {
    /// The cipher.
    pub mode: Mode,
    /// How many keys there should be in a row.
    pub keys: usize,
    /// The length of what was to be the key, or the keys, in bytes.
    pub bytes: usize,
}

impl_error!(CipherError, |self, f| {
    let ([a, b, c], mode, bytes) = (self.mode.key_bytes().map(|each| each * self.keys), self.mode, self.bytes);
    write!(f, "{mode} takes a key of {a}, {b} or {c} bytes, not of {bytes}; two hexadecimal digits make a byte")
});

/// Words in one of `units` units of `from`, checked: what every provider does first.
///
/// # Panics
/// As [`SectorCipher::encrypt`] says.
#[must_use]
pub fn unit_words(units: usize, from: &[AtomicU64], to: &[AtomicU64]) -> usize {
    assert_eq!(from.len(), to.len(), "encryption changes no length");
    // A division takes as long as the cipher takes for a few blocks.
    let words = if units == 1 { from.len() } else { from.len() / units };
    assert!(words > 0 && words.is_multiple_of(2) && words * units == from.len(), "whole blocks for each IV");
    words
}
