//! How many zones of which kind there are.

/// Zones of one kind that can hold data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Those that can be taken now.
    pub free: u32,
    /// All of them.
    pub total: u32,
}

/// The zones of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stock {
    /// Pieces of the regular device.
    pub cache: Pool,
    /// Conventional zones of zoned devices.
    pub random: Pool,
    /// Sequential zones, without the reserve.
    pub sequential: Pool,
    /// Free sequential zones that are kept for reclaim.
    pub reserve: u32,
    /// Blocks of a zone.
    pub zone_blocks: u32,
    /// Zones of any kind that are freed but cannot be taken before the commit that freed them is durable.
    pub leaving: u32,
    /// True if conventional zones take buffers and first writes beside a cache ([`Style::Kernel2020`](super::Style::Kernel2020)).
    pub random_buffers: bool,
}

impl Pool {
    /// Percent that are free, rounded down; 100 if there are none at all.
    #[must_use]
    pub fn free_percent(self) -> u32 {
        percent(self.free, self.total)
    }
}

impl Stock {
    /// The zones that take buffers and first writes: the cache if there is one, with conventional zones if these buffer, too.
    #[must_use]
    pub fn buffers(&self) -> Pool {
        match (self.has_cache(), self.random_buffers) {
            (false, _) => self.random,
            (true, false) => self.cache,
            (true, true) => Pool {
                free: self.cache.free.saturating_add(self.random.free),
                total: self.cache.total.saturating_add(self.random.total),
            },
        }
    }

    /// Whether the set has a regular device.
    #[must_use]
    pub fn has_cache(&self) -> bool {
        self.cache.total > 0
    }

    /// Free sequential zones that reclaim may copy to.
    #[must_use]
    pub fn for_reclaim(&self) -> u32 {
        self.sequential.free.saturating_add(self.reserve)
    }

    /// Percent of [`Stock::buffers`] that are free or will be with the next commit.
    pub(super) fn buffers_percent(&self) -> u32 {
        let Pool { free, total } = self.buffers();
        percent(free.saturating_add(self.leaving).min(total), total)
    }
}

fn percent(part: u32, whole: u32) -> u32 {
    (u64::from(part) * 100).checked_div(u64::from(whole)).unwrap_or(100) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_cache_zones_if_there_are_any_and_random_ones_if_not() {
        let (cache, random) = (Pool { free: 1, total: 4 }, Pool { free: 3, total: 4 });
        let mut stock = Stock { cache, random, ..Stock::default() };
        assert_eq!(stock.buffers(), cache);
        assert_eq!(Stock { random_buffers: true, ..stock }.buffers(), Pool { free: 4, total: 8 });
        stock.cache = Pool::default();
        assert_eq!(stock.buffers(), random);
        assert_eq!(Stock { random_buffers: true, ..stock }.buffers(), random);
    }

    #[test]
    fn percentages_round_down_and_survive_any_number() {
        assert_eq!(Pool { free: 1, total: 3 }.free_percent(), 33);
        assert_eq!(Pool { free: u32::MAX, total: u32::MAX }.free_percent(), 100);
        assert_eq!(Pool::default().free_percent(), 100);
    }

    #[test]
    fn zones_that_wait_for_a_commit_count_as_almost_free() {
        let random = Pool { free: 1, total: 4 };
        let stock = Stock { random, leaving: 1, ..Stock::default() };
        assert_eq!(stock.buffers_percent(), 50);
        assert_eq!(Stock { leaving: u32::MAX, ..stock }.buffers_percent(), 100);
    }
}
