//! Those who write in order, as far as is known: however much others write at random between their writes.

use crate::dm::stl::Lba;
use crate::prelude::*;

/// Places that are remembered, at each of which somebody may go on: a random write takes the place of one that is any of them.
const PLACES: usize = 256;

/// Where somebody's writes have come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Writer {
    end: Lba,
    /// Blocks in a row up to there.
    blocks: u64,
}

/// Where writes ended.
#[derive(Clone, Debug)]
pub struct Writers(Box<[Writer]>);

impl Default for Writers {
    fn default() -> Self {
        Self(vec![Writer::default(); PLACES].into())
    }
}

impl Writers {
    /// Somebody writes so many blocks: how many were written in a row up to their end.
    pub fn write(&mut self, lba: Lba, blocks: u64) -> u64 {
        let known = &mut self.0[place(lba)];
        let before = if known.end == lba { core::mem::take(known).blocks } else { 0 };
        let writer = Writer { end: lba + blocks, blocks: before + blocks };
        self.0[place(writer.end)] = writer;
        writer.blocks
    }
}

/// Where somebody is remembered who ended there: any block as likely as any other (Fibonacci hashing).
fn place(end: Lba) -> usize {
    (end.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PLACES.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;

    #[test]
    fn those_who_write_in_order_are_known_beside_many_random_writes() {
        let (mut writers, mut rng) = (Writers::default(), Rng::new(1));
        let mut in_a_row = [0; 3];
        for step in 0..1000 {
            for (writer, row) in (1..).zip(&mut in_a_row) {
                *row = writers.write(Lba(writer * 1_000_000 + step * 8), 8);
            }
            (0..20).for_each(|_| assert!(writers.write(Lba(rng.below(1 << 40)), 1) < 3));
        }
        // Each is taken for a new one when a random write has taken its place, which does not happen each time.
        assert!(in_a_row.iter().sum::<u64>() > 60, "{in_a_row:?}");
    }

    #[test]
    fn what_begins_elsewhere_is_no_more_of_it() {
        let mut writers = Writers::default();
        assert_eq!(
            [(10, 5), (15, 5), (21, 5), (20, 1)].map(|(lba, blocks)| writers.write(Lba(lba), blocks)),
            [5, 10, 5, 11]
        );
        assert_eq!(writers.write(Lba(20), 1), 1, "somebody has gone on there");
    }
}
