//! Random worlds of a swarm with a disk of this crate in the place of the simulated one.

use shingle_sim::disk::{MakeDisk, OtherDisk};
use shingle_sim::swarm::{Profile, Report, SwarmOptions, run};

const PROFILES: [Profile; 4] = [Profile::All, Profile::Zones, Profile::Plug, Profile::Append];

/// Seeds in which a bug is looked for.
const SEARCHED: u64 = 60;

/// The number in an environment variable.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Worlds on a disk, and how the swarm uses that.
pub struct Worlds {
    pub disk: fn(MakeDisk) -> OtherDisk,
    pub make: MakeDisk,
}

impl Worlds {
    fn options(&self, profile: Profile) -> SwarmOptions {
        SwarmOptions { profile, disk: Some((self.disk)(self.make)), ..SwarmOptions::default() }
    }

    /// One world, in which nothing is to be found.
    pub fn pass(&self, profile: Profile, seed: u64) -> Report {
        run(seed, &self.options(profile)).unwrap_or_else(|failure| panic!("{profile:?}: {failure}"))
    }

    /// So many seeds of all profiles, or those that `SWARM_FIRST` and `SWARM_SEEDS` name.
    pub fn all_pass(&self, seeds: u64) {
        let (first, seeds) = (number("SWARM_FIRST").unwrap_or(0), number("SWARM_SEEDS").unwrap_or(seeds));
        let (mut cuts, mut faults) = (0, 0);
        for seed in first..first + seeds {
            for profile in PROFILES {
                let report = self.pass(profile, seed);
                (cuts, faults) = (cuts + report.cuts, faults + report.faults);
            }
        }
        println!("{cuts} losses of power, {faults} faults");
        assert!(cuts > seeds && faults > seeds);
    }

    /// Returns whether one of the first seeds finds something. The search begins with the seed that did last; a change of what seeds draw can
    /// make it one of the others.
    pub fn is_found(&self, last: u64) -> bool {
        let world = |seed| PROFILES.iter().find_map(|profile| run(seed, &self.options(*profile)).err());
        let found = (last..SEARCHED).chain(0..last).find_map(world);
        found.iter().for_each(|failure| println!("{failure}"));
        found.is_some()
    }
}

/// A test that a bug is noticed by some seed of the worlds that the macro `$worlds` makes with it; `$last` is the seed that did last.
macro_rules! planted {
    ($worlds:ident, $name:ident, $bug:ident, $last:literal) => {
        #[test]
        fn $name() {
            assert!($worlds!($bug).is_found($last));
        }
    };
}
pub(crate) use planted;
