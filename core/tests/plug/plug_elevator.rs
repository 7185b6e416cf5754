//! What `elevator` promises beyond `qd1`, on a desk: one claim a test. How fast it makes a disk is another file's matter.

use shingle_core::block::Status;
use shingle_core::harness::{Harness, MockDevice};
use shingle_core::plug::{ElevatorOptions, PlugOptions, WritePolicy};
use shingle_core::time::{Duration, Instant};

use crate::desk::*;

const MS: u64 = 1_000_000;

fn elevator() -> Harness {
    one_at_a_time(WritePolicy::Elevator)
}

/// A disk that does not turn.
fn over_flash() -> Harness {
    with_policy(WritePolicy::Elevator)
}

fn with_options(elevator: ElevatorOptions, rotational: bool) -> Harness {
    let mut desk = MockDevice::zoned(8, ZONE, ZONE, 1);
    desk.limits_mut().rotational = rotational;
    desk.one_write = rotational;
    plug_over(desk, PlugOptions { policy: WritePolicy::Elevator, elevator, ..PlugOptions::default() })
}

/// Without pauses, so that a desk without time sees what is chosen.
fn hasty(elevator: ElevatorOptions) -> Harness {
    with_options(ElevatorOptions { hold_back: Duration::ZERO, linger: Duration::ZERO, ..elevator }, true)
}

/// The zones of the writes that reach the desk from now on, each ended well in turn.
fn zones_served(h: &mut Harness) -> Vec<u64> {
    let mut zones = vec![];
    while let Some(first) = h.held().first().copied() {
        zones.push(first.sector.0 / u64::from(ZONE));
        h.end(Status::Ok);
    }
    zones
}

fn at(h: &mut Harness, ns: u64) {
    h.now = Instant(ns);
    h.run();
}

#[test]
fn on_a_disk_that_turns_one_zone_write_is_in_flight_and_zones_are_swept() {
    let mut h = hasty(ElevatorOptions::default());
    h.submit(write(zone(1), 8));
    h.submit_all([6, 3, 5, 2, 7, 4].map(|n| write(zone(n), 8)));
    assert_eq!(zones_served(&mut h), [1, 2, 3, 4, 5, 6, 7]);
    h.assert_clean();
}

#[test]
fn the_zone_with_most_to_write_goes_first_when_the_way_is_the_same() {
    let mut h = hasty(ElevatorOptions::default());
    h.submit(write(zone(4), 8));
    h.submit_all([write(zone(3), 8), write(zone(5), 32), write(zone(5) + 32, 24)]);
    assert_eq!(zones_served(&mut h), [4, 5, 3]);
    h.assert_clean();
}

#[test]
fn a_zone_that_waits_too_long_goes_before_a_better_one() {
    let mut h = hasty(ElevatorOptions { max_wait: Duration::from_millis(10), batch_sectors: 1, ..Default::default() });
    h.submit(fua(write(zone(1), 8)));
    h.submit(write(zone(7), 1));
    for n in 1..4 {
        h.submit(fua(write(zone(1) + n * 8, 8)));
        at(&mut h, n * 3 * MS);
        h.end(Status::Ok);
        assert_eq!(at_desk(&h), [format!("WRITE {}+8", zone(1) + n * 8)], "the head is there");
    }
    h.submit(fua(write(zone(1) + 32, 8)));
    at(&mut h, 10 * MS);
    h.end(Status::Ok);
    assert_eq!(at_desk(&h), ["WRITE 448+1"]);
    assert_eq!(the_plug(&h).longest_wait(), Duration::from_millis(10));
    assert_eq!(zones_served(&mut h), [7, 1]);
    h.assert_clean();
}

#[test]
fn a_batch_keeps_zones_that_all_wait_too_long_from_taking_turns_at_every_command() {
    let options = ElevatorOptions { max_wait: Duration::ZERO, batch_sectors: 16, ..Default::default() };
    let mut h = hasty(options);
    for n in 0..4 {
        at(&mut h, n);
        h.submit_all([fua(write(zone(1) + n * 8, 8)), fua(write(zone(2) + n * 8, 8))]);
    }
    assert_eq!(zones_served(&mut h), [1, 1, 2, 2, 1, 1, 2, 2]);
    h.assert_clean();
}

#[test]
fn a_disk_stays_for_a_moment_with_a_zone_that_ran_empty() {
    let mut h = elevator();
    h.submit_all([write(zone(1), 8), write(zone(5), 8)]);
    h.end(Status::Ok);
    assert!(h.held().is_empty(), "the writer of zone 1 may go on");
    assert_eq!(the_plug(&h).active(), 2);
    h.submit(write(zone(1) + 8, 8));
    assert_eq!(at_desk(&h), ["WRITE 72+8"]);
    h.end(Status::Ok);
    at(&mut h, MS);
    assert_eq!(at_desk(&h), ["WRITE 320+8"], "it did not");
    h.end(Status::Ok);
    assert!(the_plug(&h).is_idle());
    h.assert_clean();
}

#[test]
fn nobody_is_waited_for_when_no_other_zone_waits() {
    let mut h = elevator();
    h.submit(write(zone(1), 8));
    h.end(Status::Ok);
    assert!(the_plug(&h).is_idle());
}

#[test]
fn a_reset_of_a_zone_that_is_held_goes_at_once() {
    let mut h = elevator();
    h.submit_all([write(zone(1), 8), write(zone(5), 8)]);
    h.end(Status::Ok);
    h.submit(reset(1));
    assert_eq!(at_desk(&h), ["ZONE_RESET 64+0", "WRITE 320+8"]);
    h.end_all(Status::Ok);
    h.assert_clean();
}

#[test]
fn a_reset_of_all_zones_comes_after_a_hold_and_is_not_lost() {
    let mut h = elevator();
    h.submit_all([write(zone(1), 8), write(zone(5), 8)]);
    h.end(Status::Ok);
    let reset = h.submit(reset_all());
    assert!(h.held().is_empty());
    at(&mut h, MS);
    assert_eq!(at_desk(&h), ["WRITE 320+8"]);
    h.end(Status::Ok);
    assert_eq!(at_desk(&h), ["ZONE_RESET_ALL 0+0"]);
    h.end(Status::Ok);
    assert_eq!(h.statuses().last(), Some(&(reset, Status::Ok)));
    h.assert_clean();
}

#[test]
fn on_flash_zones_do_not_wait_for_each_other() {
    let mut h = over_flash();
    h.submit_all((1..8).map(|n| write(zone(n), 8)));
    assert_eq!(h.held().len(), 7);
    h.end_all(Status::Ok);
    h.assert_clean();
}

/// Sixteen writes of one sector under way in one zone: one at the desk, the others queued.
fn sixteen() -> Harness {
    let mut h = over_flash();
    h.submit_all((0..16).map(|n| write(zone(1) + n, 1)));
    h.end(Status::Ok);
    assert_eq!(at_desk(&h), ["WRITE 65+15"]);
    h.submit(write(zone(1) + 16, 1));
    h.end(Status::Ok);
    assert!(h.held().is_empty(), "one of sixteen is no command");
    h
}

#[test]
fn a_small_command_waits_until_half_of_what_was_under_way_is_back() {
    let mut h = sixteen();
    h.submit_all((17..23).map(|n| write(zone(1) + n, 1)));
    assert!(h.held().is_empty());
    h.submit(write(zone(1) + 23, 1));
    assert_eq!(at_desk(&h), ["WRITE 80+8"]);
    h.submit_all((24..32).map(|n| write(zone(1) + n, 1)));
    h.end(Status::Ok);
    assert_eq!(at_desk(&h), ["WRITE 88+8"], "from now on nobody waits");
    h.end(Status::Ok);
    h.assert_clean();
}

#[test]
fn a_hold_ends_by_its_timer_and_not_by_that_of_an_older_one() {
    let mut h = sixteen();
    at(&mut h, 19_999);
    assert!(h.held().is_empty());
    at(&mut h, 20_000);
    assert_eq!(at_desk(&h), ["WRITE 80+1"]);
    h.end(Status::Ok);
    assert!(the_plug(&h).is_idle());
    let mut h = sixteen();
    h.submit_all((17..24).map(|n| write(zone(1) + n, 1)));
    assert_eq!(at_desk(&h), ["WRITE 80+8"]);
    h.submit_all((24..26).map(|n| write(zone(1) + n, 1)));
    at(&mut h, 10_000);
    h.end(Status::Ok);
    at(&mut h, 20_000);
    assert!(h.held().is_empty(), "the timer of the first hold is due, the second goes on");
    at(&mut h, 30_000);
    assert_eq!(at_desk(&h), ["WRITE 88+2"]);
    h.end(Status::Ok);
    h.assert_clean();
}

#[test]
fn what_cannot_join_a_command_is_not_waited_for() {
    for bio in [fua(write(zone(1) + 17, 1)), append(1, 1), reset(1)] {
        let mut h = sixteen();
        h.submit(bio);
        assert_eq!(at_desk(&h), ["WRITE 80+1"]);
        h.end_all(Status::Ok);
        h.assert_clean();
    }
}

#[test]
fn merged_commands_have_a_bound_on_disks_with_a_write_cache_and_only_there() {
    for (write_cache, longest) in [(true, 12), (false, 20)] {
        let mut desk = MockDevice::zoned(8, ZONE, ZONE, 1);
        (desk.limits_mut().max_sectors, desk.limits_mut().write_cache) = (Some(20), write_cache);
        let elevator = ElevatorOptions { merge_sectors: 12, ..Default::default() };
        let mut h = plug_over(desk, PlugOptions { policy: WritePolicy::Elevator, elevator, ..Default::default() });
        h.submit_all((0..8).map(|n| write(zone(1) + n * 4, 4)));
        h.end(Status::Ok);
        assert_eq!(at_desk(&h), [format!("WRITE 68+{longest}")]);
        h.end_all(Status::Ok);
        h.assert_clean();
    }
}

#[test]
fn a_failed_write_is_not_followed_by_a_hold() {
    let mut h = over_flash();
    h.submit_all((0..16).map(|n| write(zone(1) + n, 1)));
    h.end(Status::Ok);
    h.submit(write(zone(1) + 16, 1));
    h.end(Status::Medium);
    assert!(the_plug(&h).is_idle());
    assert_eq!(h.statuses().len(), 17);
}

#[test]
fn pauses_can_be_switched_off() {
    let none = ElevatorOptions { hold_back: Duration::ZERO, linger: Duration::ZERO, ..Default::default() };
    let mut h = with_options(none, false);
    h.submit_all((0..16).map(|n| write(zone(1) + n, 1)));
    h.end(Status::Ok);
    h.submit(write(zone(1) + 16, 1));
    h.end(Status::Ok);
    assert_eq!(at_desk(&h), ["WRITE 80+1"]);
    h.end_all(Status::Ok);
    let mut h = with_options(none, true);
    h.submit_all([write(zone(1), 8), write(zone(5), 8)]);
    h.end(Status::Ok);
    assert_eq!(at_desk(&h), ["WRITE 320+8"]);
}
