//! Guards of the server of a ublk device that are gone.

use crate::harness::{Mutation, Rules, first};
use shingle_core::frontend::ublk::Sabotage;
use shingle_sim::swarm::{Profile, SwarmOptions};

macro_rules! guards {
    ($($claim:ident: $guard:ident;)*) => {$(
        #[test]
        fn $claim() {
            let options = |sabotage_ublk| SwarmOptions { profile: Profile::Ublk, sabotage_ublk, ..SwarmOptions::default() };
            let (planted, sound) = (options(Sabotage { $guard: true, ..Sabotage::default() }), options(Sabotage::default()));
            let name = &format!("ublk-{}", stringify!($guard).replace('_', "-"));
            Mutation { name, planted, sound, rules: Rules::Any, seeds: &first::<3000>(), at_least: 1 }.is_found();
        }
    )*};
}

guards! {
    a_server_without_its_guard_of_records_unread_is_found: records_unread;
    a_server_without_its_guard_of_appends_uncompared_is_found: appends_uncompared;
    a_server_without_its_guard_of_resets_forget_nothing_is_found: resets_forget_nothing;
    a_server_without_its_guard_of_told_records_stay_is_found: told_records_stay;
    a_server_without_its_guard_of_no_replay_is_found: no_replay;
    a_server_without_its_guard_of_flushed_when_sent_is_found: flushed_when_sent;
    a_server_without_its_guard_of_replay_unordered_is_found: replay_unordered;
    a_server_without_its_guard_of_forgotten_unflushed_is_found: forgotten_unflushed;
    a_server_without_its_guard_of_replayed_newest_first_is_found: replayed_newest_first;
    a_server_without_its_guard_of_durable_when_found_is_found: durable_when_found;
    a_server_without_its_guard_of_parts_unfinished_is_found: parts_unfinished;
    a_server_without_its_guard_of_parts_overtaken_is_found: parts_overtaken;
    a_server_without_its_guard_of_registered_unasked_is_found: registered_unasked;
    a_server_without_its_guard_of_boots_untold_is_found: boots_untold;
}
