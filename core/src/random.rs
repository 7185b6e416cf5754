//! Random numbers that are the same for the same seed: wyrand, one multiplication each.

/// A seeded generator.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0xa076_1d64_78bd_642f);
        let wide = u128::from(self.0) * u128::from(self.0 ^ 0xe703_7ed1_a0b4_28db);
        (wide >> 64) as u64 ^ wide as u64
    }

    /// A number below `bound`, by multiplication instead of division.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    /// True in `of` out of `n` cases.
    #[inline]
    pub fn chance(&mut self, of: u64, n: u64) -> bool {
        self.below(n) < of
    }

    /// A generator of its own for a part of the world, so that what one part draws does not move what another gets.
    #[must_use]
    pub fn fork(&mut self) -> Rng {
        Rng(self.draw())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_seed_others() {
        let take = |seed| -> Vec<u64> {
            let mut rng = Rng::new(seed);
            (0..8).map(|_| rng.draw()).collect()
        };
        assert_eq!(take(1), take(1));
        assert_ne!(take(1), take(2));
    }

    #[test]
    fn numbers_below_a_bound_reach_every_value_about_equally_often() {
        let mut rng = Rng::new(7);
        let mut seen = [0u32; 10];
        (0..10_000).for_each(|_| seen[rng.below(10) as usize] += 1);
        assert!(seen.iter().all(|n| (800..1200).contains(n)), "{seen:?}");
    }
}
