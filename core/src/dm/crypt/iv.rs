//! The IV of a unit, from its number (`drivers/md/dm-crypt.c:crypt_iv_*_ops`).

use core::sync::atomic::AtomicU64;

use aes::Aes256;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use sha2::{Digest, Sha256};
use zeroize::Zeroize;

use super::cipher::{Iv, SectorCipher};
use crate::prelude::*;

named_enum! {
    /// How a unit's number becomes its IV.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum IvMode {
        /// The low 32 bits of the number, little-endian: it comes round after 2 TiB.
        Plain => "plain",
        /// The number, little-endian.
        Plain64 => "plain64",
        /// The number, big-endian, in the last 8 bytes.
        Plain64Be => "plain64be",
        /// The number of the unit's first cipher block, counted from 1, big-endian, in the last 8 bytes.
        Benbi => "benbi",
        /// `plain64`, encrypted with a key that is the SHA-256 of the volume's key.
        EssivSha256 => "essiv:sha256",
        /// The unit's byte offset, encrypted with the volume's key.
        Eboiv => "eboiv",
        /// Zeroes.
        Null => "null",
    }

    /// As a table line names it.
    fn name(self) -> &'static str;
}

/// Cipher blocks in 512 bytes, as a shift: what `benbi` counts in.
const BENBI_SHIFT: u32 = 5;

/// Makes IVs. It has what they take: keys of its own for `essiv`, the units' size for `eboiv`.
pub(super) struct IvMaker {
    mode: IvMode,
    unit_bytes: u64,
    /// The ciphers of `essiv`, one for each of the volume's keys.
    essiv: Vec<Aes256>,
}

impl IvMaker {
    /// For units of `unit_bytes`, encrypted with these keys in turns.
    pub fn new<'a>(mode: IvMode, unit_bytes: u32, keys: impl Iterator<Item = &'a [u8]>) -> Self {
        let salted = |key: &[u8]| {
            let mut salt = Sha256::digest(key);
            let cipher = Aes256::new(&salt);
            salt.as_mut_slice().zeroize();
            cipher
        };
        let essiv = if mode == IvMode::EssivSha256 { keys.map(salted).collect() } else { Vec::new() };
        Self { mode, unit_bytes: unit_bytes.into(), essiv }
    }

    /// The IVs of `ivs.len()` units: the first has number `first`, each further one `step` more. All have the volume's
    /// key number `key`; `cipher` is the one of its first key.
    #[inline]
    pub fn fill(&self, ivs: &mut [Iv], first: u64, step: u64, key: usize, cipher: &mut dyn SectorCipher) {
        let mut number = first;
        for iv in ivs.iter_mut() {
            *iv = self.plain(number);
            number = number.wrapping_add(step);
        }
        match self.mode {
            IvMode::EssivSha256 => {
                self.essiv[key].encrypt_blocks(aes::Block::cast_slice_from_core_mut(ivs));
            }
            IvMode::Eboiv => ivs.iter_mut().for_each(|iv| *iv = encrypt_zeroes(cipher, iv)),
            _ => {}
        }
    }

    /// What needs no key.
    #[inline]
    fn plain(&self, number: u64) -> Iv {
        let low = |number: u64| u128::from(number).to_le_bytes();
        let high_be = |number: u64| u128::from(number).to_be_bytes();
        match self.mode {
            IvMode::Plain => low(number & 0xffff_ffff),
            IvMode::Plain64 | IvMode::EssivSha256 => low(number),
            IvMode::Plain64Be => high_be(number),
            IvMode::Benbi => high_be((number << BENBI_SHIFT).wrapping_add(1)),
            IvMode::Eboiv => low(number.wrapping_mul(self.unit_bytes)),
            IvMode::Null => [0; 16],
        }
    }
}

/// A block of zeroes under the volume's own cipher and mode, with `iv` (`drivers/md/dm-crypt.c:crypt_iv_eboiv_gen`).
fn encrypt_zeroes(cipher: &mut dyn SectorCipher, iv: &Iv) -> Iv {
    let block = [const { AtomicU64::new(0) }; 2];
    cipher.encrypt(&[*iv], &block, &block);
    let mut bytes = [0; 16];
    shingle_mem::read(&block, 0, &mut bytes);
    bytes
}
