//! The portable provider: the block cipher of the `aes` crate, with modes that keep its pipeline full.
//!
//! The crate uses the machine's AES instructions where it has some and is bitsliced elsewhere: no table look-up depends
//! on a key. A loop over single blocks would wait for each of them, so everything that need not wait goes in batches.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes192, Aes256, Block};

use super::cipher::{CipherError, Ciphers, Iv, Mode, SectorCipher, unit_words};
use crate::prelude::*;

/// Blocks in one call of the block cipher: a multiple of what its widest backend takes at once.
const BATCH: usize = 64;
const BLOCK_WORDS: usize = 2;

/// Ciphers in Rust alone, the same on every machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SoftwareCiphers;

impl Ciphers for SoftwareCiphers {
    fn sector_cipher(&self, mode: Mode, key: &[u8]) -> Result<Box<dyn SectorCipher>, CipherError> {
        let cipher = match mode {
            Mode::AesXts => match key.len() {
                32 => Xts::<Aes128>::boxed(key),
                48 => Xts::<Aes192>::boxed(key),
                64 => Xts::<Aes256>::boxed(key),
                _ => None,
            },
            Mode::AesCbc => match key.len() {
                16 => Cbc::<Aes128>::boxed(key),
                24 => Cbc::<Aes192>::boxed(key),
                32 => Cbc::<Aes256>::boxed(key),
                _ => None,
            },
        };
        cipher.ok_or(CipherError { mode, keys: 1, bytes: key.len() })
    }
}

/// What the modes need of a block cipher.
trait Aes:
    BlockCipherEncrypt<BlockSize = aes::cipher::consts::U16>
    + BlockCipherDecrypt<BlockSize = aes::cipher::consts::U16>
    + KeyInit
    + 'static
{
}

impl Aes for Aes128 {}
impl Aes for Aes192 {}
impl Aes for Aes256 {}

/// XTS (IEEE 1619-2018, section 5) for units of whole blocks, so without ciphertext stealing.
struct Xts<C> {
    data: C,
    tweak: C,
}

impl<C: Aes> Xts<C> {
    fn boxed(key: &[u8]) -> Option<Box<dyn SectorCipher>> {
        let (data, tweak) = key.split_at(key.len() / 2);
        Some(Box::new(Self { data: C::new_from_slice(data).ok()?, tweak: C::new_from_slice(tweak).ok()? }))
    }

    /// Runs `blocks` over all units, each block masked with its tweak before and after.
    fn convert(&self, ivs: &[Iv], from: &[AtomicU64], to: &[AtomicU64], blocks: impl Fn(&C, &mut [Block])) {
        let words = unit_words(ivs.len(), from, to);
        for (n, ivs) in ivs.chunks(BATCH).enumerate() {
            let tweaks = &mut [Block::default(); BATCH][..ivs.len()];
            tweaks.iter_mut().zip(ivs).for_each(|(tweak, iv)| *tweak = (*iv).into());
            self.tweak.encrypt_blocks(tweaks);
            for (unit, tweak) in (n * BATCH..).zip(tweaks) {
                let range = unit * words..(unit + 1) * words;
                self.convert_unit(u128::from_le_bytes((*tweak).into()), &from[range.clone()], &to[range], &blocks);
            }
        }
    }

    fn convert_unit(&self, mut tweak: u128, from: &[AtomicU64], to: &[AtomicU64], blocks: impl Fn(&C, &mut [Block])) {
        for (from, to) in from.chunks(BATCH * BLOCK_WORDS).zip(to.chunks(BATCH * BLOCK_WORDS)) {
            let (mut masks, mut batch) = ([0; BATCH], [Block::default(); BATCH]);
            let batch = &mut batch[..from.len() / BLOCK_WORDS];
            for ((block, mask), words) in batch.iter_mut().zip(&mut masks).zip(from.as_chunks().0) {
                *block = (load(words) ^ tweak).to_le_bytes().into();
                *mask = tweak;
                tweak = next_tweak(tweak);
            }
            blocks(&self.data, batch);
            for ((block, mask), words) in batch.iter().zip(&masks).zip(to.as_chunks().0) {
                store(words, u128::from_le_bytes((*block).into()) ^ mask);
            }
        }
    }
}

impl<C: Aes> SectorCipher for Xts<C> {
    fn encrypt(&mut self, ivs: &[Iv], from: &[AtomicU64], to: &[AtomicU64]) {
        self.convert(ivs, from, to, |cipher, blocks| cipher.encrypt_blocks(blocks));
    }

    fn decrypt(&mut self, ivs: &[Iv], from: &[AtomicU64], to: &[AtomicU64]) {
        self.convert(ivs, from, to, |cipher, blocks| cipher.decrypt_blocks(blocks));
    }
}

/// The tweak of the next block: a multiplication by x in GF(2^128) (IEEE 1619-2018, section 5.2).
fn next_tweak(tweak: u128) -> u128 {
    tweak << 1 ^ (0x87 & (tweak >> 127).wrapping_neg())
}

/// CBC (NIST SP 800-38A, section 6.2). Encryption of a unit has to wait for each block; decryption has not.
struct Cbc<C>(C);

impl<C: Aes> Cbc<C> {
    fn boxed(key: &[u8]) -> Option<Box<dyn SectorCipher>> {
        Some(Box::new(Self(C::new_from_slice(key).ok()?)))
    }

    fn encrypt_unit(&self, iv: Iv, from: &[AtomicU64], to: &[AtomicU64]) {
        let mut last = u128::from_le_bytes(iv);
        for (from, to) in from.as_chunks().0.iter().zip(to.as_chunks().0) {
            let mut block: Block = (load(from) ^ last).to_le_bytes().into();
            self.0.encrypt_block(&mut block);
            last = u128::from_le_bytes(block.into());
            store(to, last);
        }
    }

    fn decrypt_unit(&self, iv: Iv, from: &[AtomicU64], to: &[AtomicU64]) {
        let mut last = u128::from_le_bytes(iv);
        for (from, to) in from.chunks(BATCH * BLOCK_WORDS).zip(to.chunks(BATCH * BLOCK_WORDS)) {
            // The masks are the blocks before, read before anything is written: `to` may be `from`.
            let (mut masks, mut batch) = ([0; BATCH], [Block::default(); BATCH]);
            let batch = &mut batch[..from.len() / BLOCK_WORDS];
            for ((block, mask), words) in batch.iter_mut().zip(&mut masks).zip(from.as_chunks().0) {
                *mask = core::mem::replace(&mut last, load(words));
                *block = last.to_le_bytes().into();
            }
            self.0.decrypt_blocks(batch);
            for ((block, mask), words) in batch.iter().zip(&masks).zip(to.as_chunks().0) {
                store(words, u128::from_le_bytes((*block).into()) ^ mask);
            }
        }
    }
}

impl<C: Aes> SectorCipher for Cbc<C> {
    fn encrypt(&mut self, ivs: &[Iv], from: &[AtomicU64], to: &[AtomicU64]) {
        let words = unit_words(ivs.len(), from, to);
        for ((iv, from), to) in ivs.iter().zip(from.chunks(words)).zip(to.chunks(words)) {
            self.encrypt_unit(*iv, from, to);
        }
    }

    fn decrypt(&mut self, ivs: &[Iv], from: &[AtomicU64], to: &[AtomicU64]) {
        let words = unit_words(ivs.len(), from, to);
        for ((iv, from), to) in ivs.iter().zip(from.chunks(words)).zip(to.chunks(words)) {
            self.decrypt_unit(*iv, from, to);
        }
    }
}

/// A block of memory, its first byte the lowest.
#[inline]
fn load([low, high]: &[AtomicU64; BLOCK_WORDS]) -> u128 {
    u128::from(u64::from_le(low.load(Relaxed))) | u128::from(u64::from_le(high.load(Relaxed))) << 64
}

#[inline]
fn store([low, high]: &[AtomicU64; BLOCK_WORDS], block: u128) {
    low.store((block as u64).to_le(), Relaxed);
    high.store(((block >> 64) as u64).to_le(), Relaxed);
}
