//! Guards of the head over several paths that are gone, and a plug that does not hear of a power loss.

use std::fmt;

use crate::harness::{Mutation, Rules, first};
use shingle_core::block::{Bio, BlockDevice, Cx, DeviceId, Event, Limits, Status};
use shingle_core::multipath::Sabotage;
use shingle_core::plug::{PlugOptions, ZonePlug};
use shingle_sim::model::Rule;
use shingle_sim::swarm::{MakePlug, Profile, SwarmOptions};

macro_rules! guards {
    ($($claim:ident: $guard:ident;)*) => {$(
        #[test]
        fn $claim() {
            let options = |sabotage_paths| SwarmOptions { profile: Profile::Paths, sabotage_paths, ..SwarmOptions::default() };
            let (planted, sound) = (options(Sabotage { $guard: true, ..Sabotage::default() }), options(Sabotage::default()));
            let name = &format!("paths-{}", stringify!($guard).replace('_', "-"));
            Mutation { name, planted, sound, rules: Rules::Any, seeds: &first::<3000>(), at_least: 1 }.is_found();
        }
    )*};
}

guards! {
    a_head_without_its_guard_of_stale_reset_is_found: resets_unawaited;
    a_head_without_its_guard_of_stale_conventional_write_is_found: overwrites_unawaited;
    a_head_without_its_guard_of_stale_zone_write_is_found: zone_writes_unawaited;
    a_head_without_its_guard_of_stale_append_is_found: appends_unawaited;
    a_head_without_its_guard_of_same_path_again_is_found: same_path_again;
    a_head_without_its_guard_of_kicked_early_is_found: kicked_early;
    a_head_without_its_guard_of_states_ignored_is_found: states_ignored;
    a_head_without_its_guard_of_pointers_unasked_is_found: pointers_unasked;
    a_head_without_its_guard_of_silence_unbounded_is_found: silence_unbounded;
    a_head_without_its_guard_of_removal_ignored_is_found: removal_ignored;
    a_head_without_its_guard_of_removed_unawaited_is_found: removed_unawaited;
    a_head_without_its_guard_of_classes_mixed_is_found: classes_mixed;
    a_head_without_its_guard_of_loss_unheard_is_found: losses_unheard;
    a_head_without_its_guard_of_flush_after_a_loss_is_found: losses_unflushed;
    a_head_without_its_guard_of_change_from_before_a_loss_is_found: losses_undone;
}

/// A plug that hears when the disk has lost its power, or does not.
struct Listener<const HEARS: bool>(ZonePlug);

impl<const HEARS: bool> BlockDevice for Listener<HEARS> {
    fn hears_losses(&self) -> bool {
        HEARS
    }

    fn limits(&self) -> &Limits {
        self.0.limits()
    }

    fn below(&self) -> &[DeviceId] {
        self.0.below()
    }

    fn attached(&mut self, cx: &mut Cx<'_>) {
        self.0.attached(cx);
    }

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        self.0.submit(bio, cx);
    }

    fn end_io(&mut self, bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        self.0.end_io(bio, status, word, cx);
    }

    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        self.0.on_event(event, cx);
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.0.held(visit);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.0.describe(out)
    }
}

fn listener<const HEARS: bool>(below: DeviceId, limits: &Limits, options: PlugOptions) -> Box<dyn BlockDevice> {
    Box::new(Listener::<HEARS>(ZonePlug::new(below, limits, options).unwrap()))
}

#[test]
fn a_plug_that_trusts_its_pointers_after_a_loss_of_power_is_found() {
    // Writes that came to the disk before anything told where the pointer is. A plug of another kind is not mended by its operator when it
    // cannot learn its zones, so other rules say nothing here.
    let options =
        |plug: MakePlug| SwarmOptions { profile: Profile::Paths, plug: Some(plug), ..SwarmOptions::default() };
    let (planted, sound) = (options(listener::<false>), options(listener::<true>));
    let (name, rules) = ("paths-deaf-plug", Rules::One(&[Rule::Order]));
    Mutation { name, planted, sound, rules, seeds: &first::<300>(), at_least: 4 }.is_found();
}
