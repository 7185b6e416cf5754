//! Which zone is cleaned next.

named_enum! {
    /// A way to choose.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Choice {
        /// The zone with the fewest live blocks.
        Greedy => "greedy",
        /// That with the most benefit for its cost: `(1 - v) * age / (1 + v)` (Rosenblum and Ousterhout 1991).
        CostBenefit => "cost-benefit",
        /// That for which waiting longer pays least.
        Decline => "decline",
    }

    /// Its name.
    fn name(self) -> &'static str;
}

/// A zone that could be cleaned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Live blocks, as a share of what the zone can have.
    pub live: f64,
    /// How long ago it became full, in blocks that were written since.
    pub age: f64,
}

impl Choice {
    /// The larger, the better to clean. A zone without live blocks is better than any other.
    #[must_use]
    pub fn score(self, zone: &Candidate) -> f64 {
        let Candidate { live, age } = *zone;
        let dead = 1.0 - live;
        if live <= 0.0 {
            return f64::INFINITY;
        }
        match self {
            Self::Greedy => dead,
            Self::CostBenefit => dead * age / (1.0 + live),
            // Blocks of it die at a rate of `-ln(v) / age`; by that the cost `1 / (1 - v)` of a block of space declines with time.
            Self::Decline if dead <= 0.0 => 0.0,
            Self::Decline => age * dead * dead / (live * -libm::log(live)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;
    use crate::random::Rng;

    /// A volume of zones of 64 blocks, of which `used` is live: blocks written for each that users write. `hot` of 100 writes go to
    /// a tenth of the blocks. Survivors go to zones of their own, by how often they have survived.
    fn simulated(choice: Choice, used: f64, hot: u64) -> f64 {
        let mut volume = Volume::new(used);
        let mut rng = Rng::new(5);
        let blocks = volume.place.len() as u64;
        let mut measured = (0, 0);
        for step in 0..blocks * 7 {
            let is_hot = rng.below(100) < hot;
            let block = if is_hot { rng.below(blocks / 10) } else { rng.below(blocks) };
            volume.write(block as usize, 0);
            while volume.free.len() < 8 {
                volume.clean(choice);
            }
            if step == blocks * 4 {
                measured = (volume.written, step);
            }
        }
        (volume.written - measured.0) as f64 / (blocks * 7 - 1 - measured.1) as f64
    }

    const ZONES: usize = 512;
    const BLOCKS: usize = 64;
    const STREAMS: usize = 4;

    /// Where blocks are, and what is in zones.
    struct Volume {
        place: Vec<usize>,
        zones: Vec<Vec<usize>>,
        live: Vec<usize>,
        survived: Vec<usize>,
        closed: Vec<Option<u64>>,
        open: [usize; STREAMS],
        free: Vec<usize>,
        written: u64,
    }

    impl Volume {
        fn new(used: f64) -> Self {
            // Free and open zones hold no data, or not yet.
            let blocks = ((ZONES - 8 - STREAMS) as f64 * BLOCKS as f64 * used) as usize;
            let mut it = Self {
                place: vec![usize::MAX; blocks],
                zones: vec![Vec::new(); ZONES],
                live: vec![0; ZONES],
                survived: vec![0; ZONES],
                closed: vec![None; ZONES],
                open: [0, 1, 2, 3],
                free: (STREAMS..ZONES).collect(),
                written: 0,
            };
            (0..blocks).for_each(|block| it.write(block, 0));
            it
        }

        fn write(&mut self, block: usize, stream: usize) {
            let old = self.place[block];
            if old != usize::MAX {
                self.live[old] -= 1;
            }
            let mut zone = self.open[stream];
            if self.zones[zone].len() == BLOCKS {
                self.closed[zone] = Some(self.written);
                zone = self.free.pop().unwrap();
                (self.open[stream], self.survived[zone]) = (zone, stream);
            }
            self.zones[zone].push(block);
            self.live[zone] += 1;
            self.place[block] = zone;
            self.written += 1;
        }

        fn clean(&mut self, choice: Choice) {
            let score = |zone: &usize| {
                let age = (self.written - self.closed[*zone].unwrap()) as f64;
                choice.score(&Candidate { live: self.live[*zone] as f64 / BLOCKS as f64, age })
            };
            let closed = (0..ZONES).filter(|zone| self.closed[*zone].is_some());
            let victim = closed.max_by(|a, b| score(a).total_cmp(&score(b))).unwrap();
            let stream = (self.survived[victim] + 1).min(STREAMS - 1);
            let blocks = core::mem::take(&mut self.zones[victim]);
            self.closed[victim] = None;
            for block in blocks {
                if self.place[block] == victim {
                    self.write(block, stream);
                }
            }
            self.free.push(victim);
        }
    }

    #[test]
    fn where_all_blocks_are_alike_no_choice_is_far_from_the_analysis() {
        for choice in Choice::ALL {
            let (found, expected) = (simulated(choice, 0.8, 0), super::super::amplification(0.8));
            assert!((found / expected - 1.0).abs() < 0.1, "{}: {found} against {expected}", choice.name());
        }
    }

    #[test]
    fn where_a_tenth_of_the_blocks_is_hot_waiting_for_it_pays() {
        let [greedy, benefit, decline] = Choice::ALL.map(|choice| simulated(choice, 0.8, 90));
        assert!(decline < 0.57 * 3.5, "{decline} against 3.5 of greedy with one stream");
        assert!(decline < 0.8 * greedy && decline < benefit, "{decline} against {benefit} and {greedy}");
    }

    #[test]
    fn an_empty_zone_is_best_and_a_full_one_worst() {
        for choice in Choice::ALL {
            let score = |live| choice.score(&Candidate { live, age: 100.0 });
            assert_eq!(score(0.0), f64::INFINITY);
            assert!(score(0.1) > score(0.5) && score(0.5) > score(0.99) && score(0.99) > score(1.0));
            assert_eq!(score(1.0), 0.0);
        }
    }
}
