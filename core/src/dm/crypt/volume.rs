//! Sectors in, sectors out: the ciphers of a volume, and which of them and which IV a unit gets.

use core::sync::atomic::AtomicU64;

use super::cipher::{CipherError, Ciphers, Iv, SectorCipher};
use super::iv::IvMaker;
use super::key::Key;
use super::spec::CipherSpec;
use crate::prelude::*;
use crate::sector::SECTOR_BYTES;

/// Units in one call of a cipher, at most: enough to keep a pipeline full, and few to prepare for a short bio.
const BATCH: usize = 16;

/// How a volume is cut into units, and how they are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units {
    /// Size of a unit: a power of two from 512 to 4096.
    pub bytes: u32,
    /// Added to a sector's number on the volume.
    pub iv_offset: u64,
    /// Whether units are counted, and not their first sectors of 512 bytes.
    pub large: bool,
}

impl Units {
    /// Sectors of 512 bytes in a unit.
    #[must_use]
    pub const fn sectors(&self) -> u32 {
        self.bytes / SECTOR_BYTES
    }

    /// Words of 8 bytes in a unit.
    #[must_use]
    pub const fn words(&self) -> usize {
        self.bytes as usize / size_of::<u64>()
    }

    /// How many units `words` are. A shift: a division would take as long as the cipher takes for 200 bytes.
    #[inline]
    const fn count(&self, words: usize) -> usize {
        words >> self.words().trailing_zeros()
    }
}

/// A volume's ciphers, ready to use. Dropping it wipes the keys.
pub struct VolumeCipher {
    units: Units,
    ivs: IvMaker,
    /// As many as the keys that units are encrypted with in turns: a power of two.
    ciphers: Vec<Box<dyn SectorCipher>>,
}

#[derive(Clone, Copy)]
enum Direction {
    Encrypt,
    Decrypt,
}

impl VolumeCipher {
    /// The ciphers of `spec` with `key`, which is the keys of all of them in a row.
    ///
    /// # Errors
    /// If the key's length does not fit.
    pub fn new(spec: &CipherSpec, units: Units, key: &Key, from: &dyn Ciphers) -> Result<Self, CipherError> {
        spec.check_key(key.len())?;
        let bytes = key.bytes();
        let keys = bytes.chunks(key.len() / spec.keys);
        let ciphers: Result<_, _> = keys.clone().map(|key| from.sector_cipher(spec.mode, key)).collect();
        Ok(Self { units, ivs: IvMaker::new(spec.iv, units.bytes, keys), ciphers: ciphers? })
    }

    /// How the volume is cut.
    #[must_use]
    pub const fn units(&self) -> Units {
        self.units
    }

    /// Encrypts whole units from `from` to `to`, which may be the same memory. The first begins at `sector` of the
    /// volume.
    pub fn encrypt(&mut self, sector: u64, from: &[AtomicU64], to: &[AtomicU64]) {
        self.convert(sector, from, to, Direction::Encrypt);
    }

    /// Decrypts whole units where they lie. The first begins at `sector` of the volume.
    pub fn decrypt(&mut self, sector: u64, words: &[AtomicU64]) {
        self.convert(sector, words, words, Direction::Decrypt);
    }

    #[inline]
    fn convert(&mut self, sector: u64, from: &[AtomicU64], to: &[AtomicU64], direction: Direction) {
        let number = sector.wrapping_add(self.units.iv_offset);
        if from.len() == self.units.words() {
            return self.convert_batch::<1>(number, from, to, direction);
        }
        self.convert_many(number, from, to, direction);
    }

    #[inline(never)]
    fn convert_many(&mut self, mut number: u64, mut from: &[AtomicU64], mut to: &[AtomicU64], direction: Direction) {
        // Units with one key take turns with those of the others, so then each is a call of its own.
        let batch = if self.ciphers.len() == 1 { BATCH } else { 1 };
        while !from.is_empty() {
            let units = self.units.count(from.len()).min(batch);
            let (front, rest) = from.split_at(units * self.units.words());
            let (front_to, rest_to) = to.split_at(front.len());
            self.convert_batch::<BATCH>(number, front, front_to, direction);
            (from, to) = (rest, rest_to);
            number = number.wrapping_add(units as u64 * u64::from(self.units.sectors()));
        }
    }

    /// Converts at most `N` units with one key. For one unit the compiler has nothing to prepare and nothing to repeat.
    #[inline]
    fn convert_batch<const N: usize>(
        &mut self,
        number: u64,
        from: &[AtomicU64],
        to: &[AtomicU64],
        direction: Direction,
    ) {
        let mut ivs = [Iv::default(); N];
        let ivs = if N == 1 { &mut ivs[..] } else { &mut ivs[..self.units.count(from.len())] };
        let key = number as usize & (self.ciphers.len() - 1);
        self.fill(ivs, number, key);
        match direction {
            Direction::Encrypt => self.ciphers[key].encrypt(ivs, from, to),
            Direction::Decrypt => self.ciphers[key].decrypt(ivs, from, to),
        }
    }

    /// The IVs of units from the one at `number` on, which counts sectors of 512 bytes.
    #[inline]
    fn fill(&mut self, ivs: &mut [Iv], number: u64, key: usize) {
        let sectors = u64::from(self.units.sectors());
        let shift = self.units.sectors().trailing_zeros();
        let (first, step) = if self.units.large { (number >> shift, 1) } else { (number, sectors) };
        self.ivs.fill(ivs, first, step, key, self.ciphers[0].as_mut());
    }
}
