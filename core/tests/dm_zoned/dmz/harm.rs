//! What can happen to a block of metadata.

use shingle_core::random::Rng;

/// One of those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    Zeroed,
    Ones,
    Garbage,
    Flipped,
    /// It is what a format made it.
    Stale,
    Unreadable,
}

pub const HARMS: [Harm; 6] = [Harm::Zeroed, Harm::Ones, Harm::Garbage, Harm::Flipped, Harm::Stale, Harm::Unreadable];

impl Harm {
    /// Does that to `bytes`, which a format fills with `stale`; returns whether they can still be read.
    pub fn spoil(self, bytes: &mut [u8], stale: u8, rng: &mut Rng) -> bool {
        match self {
            Self::Zeroed => bytes.fill(0),
            Self::Ones => bytes.fill(0xff),
            Self::Garbage => bytes.iter_mut().for_each(|byte| *byte = rng.draw() as u8),
            Self::Flipped => {
                let bit = rng.below(64 * 8) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            Self::Stale => bytes.fill(stale),
            Self::Unreadable => return false,
        }
        true
    }
}
