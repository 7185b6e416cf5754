//! Units of a bio's memory, which may be in pieces: a segment can end inside of a unit.

use core::sync::atomic::AtomicU64;

use super::volume::VolumeCipher;
use crate::block::Data;
use crate::prelude::*;

/// Encrypts the memory in `from` to `to`, which is as long and in one piece.
pub(super) fn encrypt(cipher: &mut VolumeCipher, mut sector: u64, from: &[Data], mut to: &[AtomicU64]) {
    let units = cipher.units();
    let mut place = Place { segments: from, skip: 0 };
    while let Some(words) = place.words() {
        let whole = words.len() - words.len() % units.words();
        let (front, rest) = to.split_at(whole.max(units.words()));
        if whole > 0 {
            cipher.encrypt(sector, &words[..whole], front);
            place.skip += whole;
        } else {
            place.each(front, |from, to| shingle_mem::copy(to, from));
            cipher.encrypt(sector, front, front);
        }
        sector += (front.len() / units.words()) as u64 * u64::from(units.sectors());
        to = rest;
    }
}

/// Decrypts memory where it lies. `scratch` has room for a unit.
pub(super) fn decrypt(cipher: &mut VolumeCipher, mut sector: u64, segments: &[Data], scratch: &[AtomicU64]) {
    let units = cipher.units();
    let mut place = Place { segments, skip: 0 };
    while let Some(words) = place.words() {
        let whole = words.len() - words.len() % units.words();
        if whole > 0 {
            cipher.decrypt(sector, &words[..whole]);
            place.skip += whole;
        } else {
            let scratch = &scratch[..units.words()];
            let back = place;
            place.each(scratch, |from, to| shingle_mem::copy(to, from));
            cipher.decrypt(sector, scratch);
            { back }.each(scratch, shingle_mem::copy);
        }
        sector += (whole / units.words()).max(1) as u64 * u64::from(units.sectors());
    }
}

/// Memory for one unit in pieces.
pub(super) fn scratch(words: usize) -> Box<[AtomicU64]> {
    core::iter::repeat_with(|| AtomicU64::new(0)).take(words).collect()
}

/// A place in segments.
#[derive(Clone, Copy)]
struct Place<'a> {
    segments: &'a [Data],
    /// Words of the first of them that lie before it.
    skip: usize,
}

impl<'a> Place<'a> {
    /// What is left of the segment; `None` at the end of the last.
    fn words(&mut self) -> Option<&'a [AtomicU64]> {
        loop {
            let (first, rest) = self.segments.split_first()?;
            if self.skip < first.words().len() {
                return Some(&first.words()[self.skip..]);
            }
            (self.segments, self.skip) = (rest, 0);
        }
    }

    /// Goes along the segments and `with`, and shows pieces of both that belong together.
    fn each(&mut self, mut with: &[AtomicU64], visit: impl Fn(&[AtomicU64], &[AtomicU64])) {
        while !with.is_empty()
            && let Some(words) = self.words()
        {
            let len = words.len().min(with.len());
            let (front, rest) = with.split_at(len);
            visit(&words[..len], front);
            self.skip += len;
            with = rest;
        }
    }
}
