//! Guards of the I/O scheduler that are gone.

use crate::harness::{Mutation, Rules, first};
use shingle_core::scheduler::Sabotage;
use shingle_sim::model::Rule;
use shingle_sim::swarm::{Profile, SwarmOptions};

macro_rules! guards {
    ($($claim:ident: $guard:ident, $rule:ident;)*) => {$(
        #[test]
        fn $claim() {
            let options = |sabotage_scheduler| SwarmOptions { profile: Profile::All, sabotage_scheduler, ..SwarmOptions::default() };
            let (planted, sound) = (options(Sabotage { $guard: true, ..Sabotage::default() }), options(Sabotage::default()));
            let name = &format!("scheduler-{}", stringify!($guard).replace('_', "-"));
            let rules = Rules::One(&[Rule::$rule]);
            Mutation { name, planted, sound, rules, seeds: &first::<3000>(), at_least: 1 }.is_found();
        }
    )*};
}

guards! {
    a_scheduler_that_reorders_a_zone_is_found: zones_unordered, Order;
    a_scheduler_without_deadlines_is_found: expiry_ignored, Stuck;
    a_scheduler_that_starves_writes_is_found: writes_starved, Stuck;
    a_scheduler_without_aging_is_found: aging_ignored, Stuck;
}
