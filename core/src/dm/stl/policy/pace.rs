//! How cleaning keeps up with users: every block that users write owes cleaning a share of what it costs to get a block back.

/// How many zones there are to write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Free zones, and those that will be.
    pub free: usize,
    /// With so many nothing is owed.
    pub high: usize,
}

impl Level {
    /// Of what cleaning costs, how much users owe: nothing at the high mark, all of it half way, twice as much when there is nothing left.
    /// What comes in and what goes out are equal where it is 1, and so it comes to rest there.
    #[must_use]
    pub fn share(self) -> f64 {
        let Self { free, high } = self;
        2.0 * high.saturating_sub(free) as f64 / high.max(1) as f64
    }
}

/// An account of what users owe to cleaning, in blocks that are read or written for it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    owed: f64,
    /// What a block costs, on average over the last victims.
    cost: Option<f64>,
}

/// Victims of which the average is taken.
const VICTIMS: f64 = 16.0;

impl Pace {
    /// A victim with this share of live blocks is cleaned: all of it is read, what is live is written, and the rest is gained.
    pub fn begin(&mut self, live: f64) {
        let cost = (1.0 + live) / (1.0 - live).max(0.01);
        self.cost = Some(self.cost.map_or(cost, |mean| mean + (cost - mean) / VICTIMS));
    }

    /// Users have written so many blocks.
    pub fn charge(&mut self, blocks: u64, level: Level) {
        self.owed += blocks as f64 * level.share() * self.cost.unwrap_or(1.0);
    }

    /// Cleaning has read or written so many blocks. What it does ahead of users counts up to `ahead` blocks.
    pub fn pay(&mut self, blocks: u64, ahead: f64) {
        self.owed = (self.owed - blocks as f64).max(-ahead);
    }

    /// Nothing can be cleaned: nothing is owed.
    pub fn forgive(&mut self) {
        self.owed = 0.0;
    }

    /// The share of live blocks of the last victims, on average; 0 before the first.
    #[must_use]
    pub fn live_share(&self) -> f64 {
        self.cost.map_or(0.0, |cost| (cost - 1.0) / (cost + 1.0))
    }

    /// Blocks that cleaning has yet to read or write for what users wrote.
    #[must_use]
    pub fn owed(&self) -> f64 {
        self.owed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_owe_nothing_at_the_high_mark_and_all_of_it_half_way() {
        let share = |free| Level { free, high: 20 }.share();
        assert_eq!([30, 20, 15, 10, 0].map(share), [0.0, 0.0, 0.5, 1.0, 2.0]);
        assert_eq!(Level { free: 0, high: 0 }.share(), 0.0);
    }

    #[test]
    fn free_space_comes_to_rest_half_way_and_writes_are_paced_by_what_space_costs() {
        let (high, zone, live) = (64, 1000_u64, 0.5);
        let (mut pace, mut free, mut written, mut cleaned) = (Pace::default(), 64.0 * 1000.0, 0_u64, 0_u64);
        pace.begin(live);
        for _ in 0..400_000 {
            let level = Level { free: (free / zone as f64) as usize, high };
            if pace.owed() < 100.0 && free > 0.0 {
                (written, free) = (written + 10, free - 10.0);
                pace.charge(10, level);
            } else {
                // 15 blocks of work: 10 read, 5 written, 5 gained.
                (cleaned, free) = (cleaned + 15, free + 5.0);
                pace.pay(15, 0.0);
            }
        }
        assert!((free / zone as f64 - 32.0).abs() < 3.0, "{free}");
        let cost = cleaned as f64 / written as f64;
        assert!((cost - 3.0).abs() < 0.1, "{cost}");
    }

    #[test]
    fn the_live_share_of_the_last_victims_is_known_from_what_they_cost() {
        let mut pace = Pace::default();
        assert_eq!(pace.live_share(), 0.0);
        (0..9).for_each(|_| pace.begin(0.25));
        assert!((pace.live_share() - 0.25).abs() < 1e-9);
        pace.begin(0.75);
        assert!((0.25..0.5).contains(&pace.live_share()), "{}", pace.live_share());
    }

    #[test]
    fn work_ahead_of_users_counts_up_to_a_bound() {
        let mut pace = Pace::default();
        pace.pay(1000, 100.0);
        assert_eq!(pace.owed(), -100.0);
        pace.charge(50, Level { free: 0, high: 4 });
        assert_eq!(pace.owed(), 0.0);
    }
}
