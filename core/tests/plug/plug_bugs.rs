//! Bugs of the kernel's zone write plugging that could be made again, each with its story.
//!
//! Numbers are those of the project's list of fixes. Bugs of reference counts (B2, B5, B30, B37b) can hardly be made: a zone
//! has one owner here and nothing to count; what they did to users is tested for the policies in which zones get in line.
//! Those of emulated devices are tested with the devices.

use shingle_core::block::{Bio, Cx, Event, Flags, Op, Payload, Status};
use shingle_core::harness::MockDevice;
use shingle_core::plug::{PlugError, PlugOptions, WritePolicy, ZonePlug};
use shingle_core::sector::Sector;
use shingle_core::time::Duration;
use shingle_core::zone::{Condition, Zone, ZoneKind};

use crate::desk::*;

/// The policies under which zones get in line for the disk.
const IN_LINE: [WritePolicy; 2] = [WritePolicy::Qd1, WritePolicy::Elevator];

fn all_ok(outcomes: &[(u64, Status)]) -> bool {
    outcomes.iter().all(|(_, status)| status.is_ok())
}

/// B1, Linux 7.1. The last write of a zone completed before the worker that had issued it dropped its reference; the plug of
/// the full zone then stayed in the table for good.
#[test]
fn b1_the_plug_of_a_zone_is_gone_when_its_filling_write_completes() {
    for queued in [false, true] {
        let mut h = plug();
        if queued {
            h.submit_all([write(zone(1), 32), write(zone(1) + 32, 32)]);
        } else {
            h.submit(write(zone(1), ZONE));
        }
        h.end_all(Status::Ok);
        assert!(all_ok(&h.statuses()));
        assert_eq!(the_plug(&h).dump().count(), 0);
    }
}

/// B1, B2, B5 and B9 for disks that take one zone write at a time. The worker kept a reference for each listing and each
/// drain: taken twice, or dropped late, the plug of a full zone stayed for good, or was used after it was gone.
#[test]
fn b1_b2_b5_b9_a_zone_that_fills_up_in_line_or_at_the_disk_leaves_nothing_behind() {
    for policy in IN_LINE {
        let mut h = one_at_a_time(policy);
        // Zone 1 is drained, gets in line again meanwhile, and fills up; zone 2 fills up with its first command.
        h.submit_all([write(zone(1), 16), write(zone(2), ZONE), write(zone(1) + 16, 16)]);
        h.end(Status::Ok);
        h.submit(write(zone(1) + 32, 32));
        end_all_in_time(&mut h);
        let outcomes = h.statuses();
        assert!(all_ok(&outcomes) && outcomes.len() == 4, "{policy}: {outcomes:?}");
        assert_eq!(the_plug(&h).dump().count(), 0, "{policy}");
        assert!(the_plug(&h).is_idle(), "{policy}");
        h.assert_clean();
    }
}

/// B3, Linux 7.1. Write, reset, and at once a write at the start: the worker still held the dead plug, and the legal write
/// failed (fio's zbd test 46 on a slow kernel).
#[test]
fn b3_a_write_right_after_a_reset_succeeds_whatever_is_still_under_way() {
    let mut h = plug();
    h.submit_all([write(zone(1), 32), write(zone(1) + 32, 32), reset(1), write(zone(1), 8)]);
    end_all_in_time(&mut h);
    assert!(all_ok(&h.statuses()));
    h.assert_clean();
}

/// B3 where zones get in line: the reset comes while the zone waits for the disk, while it has it, and while another has.
#[test]
fn b3_a_write_right_after_a_reset_succeeds_although_the_zone_is_in_line() {
    for policy in IN_LINE {
        let mut h = one_at_a_time(policy);
        h.submit_all([write(zone(1), 32), write(zone(2), 8), reset(2), write(zone(2), 8), reset(1), write(zone(1), 8)]);
        h.submit_all([reset(3), write(zone(3), 8), reset(3), write(zone(3), 8)]);
        end_all_in_time(&mut h);
        let outcomes = h.statuses();
        assert!(all_ok(&outcomes) && outcomes.len() == 10, "{policy}: {outcomes:?}");
        h.assert_clean();
    }
}

/// B4, Linux 7.1. A revalidation that failed freed the zones' resources twice, and stopped the worker of the disk twice.
#[test]
fn b4_a_revalidation_that_fails_twice_can_be_followed_by_one_that_succeeds() {
    use shingle_core::plug::ZonePlug;
    for policy in IN_LINE {
        let mut h = one_at_a_time(policy);
        let top = h.top;
        h.submit_all([write(zone(1), 8), write(zone(2), 8)]);
        end_all_in_time(&mut h);
        h.statuses();
        for (kind, works) in
            [(ZoneKind::Conventional, false), (ZoneKind::Conventional, false), (ZoneKind::Sequential, true)]
        {
            h.with_desk(|desk, _| desk.zone_mut(3).kind = kind);
            assert_eq!(h.stack.with_device(top, |plug: &mut ZonePlug, cx| plug.revalidate(cx)), Some(Ok(())));
            h.run();
            h.end(Status::Ok);
            assert_eq!(the_plug(&h).is_ready(), works, "{policy}: {:?}", the_plug(&h).failure());
            let tags = h.submit_all([write(zone(4), 8), write(zone(5), 8)]);
            end_all_in_time(&mut h);
            let status = if works { Status::Ok } else { Status::Io };
            assert_eq!(h.statuses(), tags.iter().map(|tag| (*tag, status)).collect::<Vec<_>>());
        }
        h.assert_clean();
    }
}

/// A lost wake-up (the notes on QD1). The worker looked for a zone, found none and went to sleep; a write that came in
/// between found it awake and did not wake it. Here everything that sets the disk free gives it to the next zone.
#[test]
fn whatever_sets_the_disk_free_gives_it_to_the_next_zone() {
    for policy in IN_LINE {
        for status in [Status::Ok, Status::Medium, Status::ZoneActiveResource] {
            let mut h = one_at_a_time(policy);
            h.submit(write(zone(1), 8));
            let number = h.held()[0].number;
            // The write ends in the turn in which others arrive, before and after it.
            let port = h.stack.open_port();
            h.stack.submit(port, 0, h.top, Box::new(write(zone(2), 8)));
            h.with_desk(|desk, cx| desk.end(number, status, 0, cx));
            h.stack.submit(port, 1, h.top, Box::new(write(zone(3) + 8, 8)));
            h.stack.submit(port, 2, h.top, Box::new(write(zone(4), 8)));
            h.run();
            end_all_in_time(&mut h);
            let outcomes: Vec<_> =
                std::iter::from_fn(|| h.stack.poll_completion(port)).map(|c| (c.tag, c.status)).collect();
            let [ok, bad] = [Status::Ok, Status::Io];
            assert_eq!(outcomes.len(), 3, "{policy}, {status}");
            assert!([(0, ok), (1, bad), (2, ok)].iter().all(|one| outcomes.contains(one)), "{policy}: {outcomes:?}");
            assert!(the_plug(&h).is_idle());
            h.assert_clean();
        }
    }
}

/// Aborting a zone's queue had to take the zone off the disk's list, too: else the worker found a plug without writes, or
/// none. Here the queue of a failed zone is failed when its turn comes, and the next zone has the turn.
#[test]
fn a_failed_zone_does_not_stay_in_line() {
    for policy in IN_LINE {
        let mut h = one_at_a_time(policy);
        h.submit_all([fua(write(zone(1), 8)), fua(write(zone(1) + 8, 8)), write(zone(2), 8), write(zone(3), 8)]);
        h.end(Status::Medium);
        let plugged: Vec<u32> = the_plug(&h).dump().filter(|dump| dump.plugged).map(|dump| dump.zone.0).collect();
        assert_eq!(plugged, [2, 3], "{policy}");
        end_all_in_time(&mut h);
        let outcomes: Vec<Status> = h.statuses().iter().map(|(_, status)| *status).collect();
        assert_eq!(outcomes, [Status::Medium, Status::Io, Status::Ok, Status::Ok], "{policy}");
    }
}

/// The kernel's drain has no bound: a zone that never runs empty keeps the disk, and `qd1` does as the kernel does. Under
/// `elevator` the others wait for a time that can be told.
#[test]
fn a_zone_that_never_runs_empty_starves_others_under_qd1_and_not_under_elevator() {
    for policy in IN_LINE {
        let mut h = one_at_a_time(policy);
        h.submit_all([write(zone(1), 1), write(zone(1) + 1, 1), write(zone(7), 1)]);
        let mut sent = 0;
        for n in 2..u64::from(ZONE) {
            h.submit(write(zone(1) + n, 1));
            h.now = h.now + Duration::from_millis(500);
            h.run();
            h.end(Status::Ok);
            sent += 1;
            if h.held()[0].sector.0 == zone(7) {
                break;
            }
        }
        // It is overdue after five seconds, when a batch of one and a half is under way.
        let expected = if policy == WritePolicy::Qd1 { u64::from(ZONE) - 2 } else { 12 };
        assert_eq!(sent, expected, "{policy}");
        end_all_in_time(&mut h);
        h.assert_clean();
    }
}

/// B6, 2024. A write with a flush went to the flush machinery before it was marked as the zone's: its completion was not
/// seen, and the zone stayed plugged for ever.
#[test]
fn b6_a_write_with_flush_or_fua_releases_its_zone() {
    for flags in [Flags::FUA, Flags::PREFLUSH, Flags::FUA.with(Flags::PREFLUSH)] {
        let mut h = plug();
        h.submit_all([write(zone(1), 8).with_flags(flags), write(zone(1) + 8, 8)]);
        h.end_all(Status::Ok);
        assert!(all_ok(&h.statuses()) && the_plug(&h).is_idle());
    }
}

/// B7, 2024. A bio was split over two small zones and its second part completed first; that zone was full and its plug
/// gone when the bio as a whole completed (btrfs on zones of 4 MB with a capacity of 3 MB).
#[test]
fn b7_parts_of_a_split_write_may_complete_in_any_order() {
    let mut h = plug();
    h.submit(write(zone(1), 60));
    h.end(Status::Ok);
    let split = h.submit(write(zone(1) + 60, 4 + ZONE));
    let second = h.held()[1].number;
    h.end_number(second, Status::Ok, 0);
    h.end(Status::Ok);
    assert_eq!(h.statuses()[1], (split, Status::Ok));
    assert_eq!(the_plug(&h).dump().count(), 0, "both zones are full");
}

/// B8, 2024. Whether the last zone is full was decided with the capacity of the others.
#[test]
fn b8_a_smaller_last_zone_is_full_at_its_own_capacity() {
    let mut desk = MockDevice::zoned(4, ZONE, ZONE, 0);
    desk.limits_mut().capacity -= 24;
    let last = desk.zone_mut(3);
    (last.len, last.capacity) = (40, 40);
    let mut h = plug_over(desk, PlugOptions::default());
    let tags = h.submit_all([write(zone(3), 40), append(3, 1)]);
    h.end_all(Status::Ok);
    assert_eq!(h.statuses(), [(tags[0], Status::Ok), (tags[1], Status::Io)]);
    assert_eq!(the_plug(&h).dump().count(), 0);
}

/// B10 and B12, Linux 6.13 and 6.16. A write error, or the release of queued writes, needed a request that a pending freeze
/// did not grant, while the freeze waited for those writes.
#[test]
fn b10_b12_a_suspended_plug_drains_through_errors_and_queues() {
    for mut h in [plug()].into_iter().chain(IN_LINE.map(one_at_a_time)) {
        h.submit_all((0..6).map(|n| fua(write(zone(1) + n * 8, 8))));
        h.stack.suspend(h.top);
        h.end(Status::Ok);
        h.end(Status::Medium);
        assert!(h.held().is_empty(), "recovery sends nothing of its own");
        assert!(h.stack.is_drained(h.top));
        assert_eq!(h.statuses().len(), 6);
    }
}

/// B11, Linux 6.13. A NOWAIT write passed the plug, which advanced the pointer, and then found no request: the pointer was
/// one write ahead.
#[test]
fn b11_a_nowait_write_that_comes_back_leaves_the_pointer_where_it_was() {
    let mut h = plug();
    let again = h.submit(write(zone(1), ZONE + 8).with_flags(Flags::NOWAIT));
    let write = h.submit(write(zone(1), 8));
    h.end(Status::Ok);
    assert_eq!(h.statuses(), [(again, Status::Again), (write, Status::Ok)]);
}

/// B13 and B15, 2025. The remainder of a split write went to the tail of the queue, behind later writes of its zone.
#[test]
fn b13_b15_the_remainder_of_a_split_write_stays_ahead_of_later_writes() {
    let mut desk = MockDevice::zoned(8, ZONE, ZONE, 1);
    desk.limits_mut().max_sectors = Some(4);
    let mut h = plug_over(desk, PlugOptions::default());
    // All in one turn: the later writes already wait when the first is split, and split again.
    let port = h.stack.open_port();
    for (tag, (at, sectors)) in [(0, 24), (24, 24), (48, 16 + 32)].into_iter().enumerate() {
        h.stack.submit(port, tag as u64, h.top, Box::new(write(zone(1) + at, sectors)));
    }
    h.run();
    h.end_all(Status::Ok);
    let outcomes: Vec<_> = std::iter::from_fn(|| h.stack.poll_completion(port)).map(|c| (c.tag, c.status)).collect();
    assert_eq!(outcomes, [(0, Status::Ok), (1, Status::Ok), (2, Status::Ok)]);
    h.assert_clean();
}

/// B14, 2025. Failing a queued bio called its owner back with the plug's lock held; a stacked plug took the same lock.
#[test]
fn b14_plugs_stack() {
    use shingle_core::block::Stack;
    use shingle_core::plug::ZonePlug;
    let mut stack = Stack::new();
    let disk = stack.add(Box::new(MockDevice::zoned(4, ZONE, ZONE, 0))).unwrap();
    let mut top = disk;
    for _ in 0..3 {
        let plug = ZonePlug::new(top, stack.limits(top), PlugOptions::default()).unwrap();
        top = stack.add(Box::new(plug)).unwrap();
    }
    let port = stack.open_port();
    for (tag, at) in [0, 8, 999, 16].into_iter().enumerate() {
        stack.submit(port, tag as u64, top, Box::new(write(at.min(90), 8)));
    }
    let mut number = 0;
    loop {
        while stack.step() {}
        let Some(held) = stack.device::<MockDevice>(disk).unwrap().held().first().copied() else { break };
        let status = if number == 5 { Status::Medium } else { Status::Ok };
        stack.with_device(disk, |desk: &mut MockDevice, cx| desk.end(held.number, status, 0, cx));
        number += 1;
    }
    let outcomes: Vec<_> = std::iter::from_fn(|| stack.poll_completion(port)).map(|c| c.status).collect();
    assert_eq!(outcomes.len(), 4);
    assert!(outcomes.contains(&Status::Io) && outcomes.contains(&Status::Ok));
    assert!(stack.device::<MockDevice>(disk).unwrap().violations.is_empty());
}

/// B17, Linux 6.16. The mark of an emulated append stayed on the bio; when the memory was used again, a plain write was
/// treated as an append.
#[test]
fn b17_a_bio_comes_back_from_an_append_as_it_went() {
    for status in [Status::Ok, Status::Medium] {
        let mut h = plug();
        let port = h.stack.open_port();
        h.stack.submit(port, 0, h.top, Box::new(append(1, 8)));
        h.run();
        h.end(status);
        let mut bio = h.stack.poll_completion(port).unwrap().bio;
        assert_eq!((bio.op, bio.sector.0, bio.sectors), (Op::ZoneAppend, zone(1), 8));
        (bio.op, bio.sector) = (Op::Write, Sector(zone(2) + 8));
        h.stack.submit(port, 1, h.top, bio);
        h.run();
        assert_eq!(h.stack.poll_completion(port).unwrap().status, Status::Io, "a write out of place stays one");
    }
}

/// B18, 2025. A zone that was partly written by writes and then filled by native appends kept its plug for ever.
#[test]
fn b18_a_zone_filled_by_native_appends_needs_no_plug() {
    let mut h = with_native_append();
    h.submit_all([write(zone(1), 32), append(1, 16), append(1, 16)]);
    h.end_all(Status::Ok);
    assert!(all_ok(&h.statuses()));
    assert_eq!(the_plug(&h).dump().count(), 0);
}

/// B19, 2024. An append that failed half way was counted as written in full.
#[test]
fn b19_a_partly_failed_append_leaves_the_pointer_to_be_learned() {
    let mut h = plug();
    h.submit(append(1, 8));
    h.end_number(h.held()[0].number, Status::Medium, 5);
    h.submit(report());
    h.end(Status::Ok);
    let next = h.submit(append(1, 8));
    h.end(Status::Ok);
    let outcome = h.outcomes().into_iter().find(|outcome| outcome.tag == next).unwrap();
    assert_eq!((outcome.status, outcome.sector.0), (Status::Ok, zone(1) + 5));
    h.assert_clean();
}

/// B20 and B23, Linux 6.19. Reset and finish changed the tracked pointer when they were submitted; if they then failed, good
/// writes were refused and bad ones let through. Here the pointer is asked for, as what failed may be done all the same.
#[test]
fn b20_b23_a_failed_reset_or_finish_moves_no_pointer_that_the_disk_has_not_moved() {
    for op in [Op::ZoneReset, Op::ZoneFinish, Op::ZoneResetAll] {
        let mut h = plug();
        h.submit(write(zone(1), 8));
        h.end(Status::Ok);
        let failed = h.submit(manage(op, u64::from(op != Op::ZoneResetAll)));
        h.end(Status::Target);
        let report = h.submit(report());
        h.end(Status::Ok);
        let bad = h.submit(write(zone(1), 8));
        let good = h.submit(write(zone(1) + 8, 8));
        h.end(Status::Ok);
        let expected = [(failed, Status::Target), (report, Status::Ok), (bad, Status::Io), (good, Status::Ok)];
        assert_eq!(h.statuses()[1..], expected, "{}", op.name());
        h.assert_clean();
    }
}

/// B22, Linux 6.19. A reset aborted the queued writes and left the zone marked as plugged: a later write waited for ever.
#[test]
fn b22_a_zone_works_on_after_a_reset_that_came_while_writes_waited() {
    let mut h = plug();
    h.submit_all((0..5).map(|n| write(zone(1) + n * 8, 8)));
    h.submit(reset(1));
    h.end_all(Status::Ok);
    h.submit_all((0..5).map(|n| write(zone(1) + n * 8, 8)));
    h.end_all(Status::Ok);
    assert!(all_ok(&h.statuses()) && the_plug(&h).is_idle());
    h.assert_clean();
}

/// B25 to B27. Reset all, finish and open were not classified as operations that write, and slipped past the checks of
/// read-only devices.
#[test]
fn b25_b27_every_zone_operation_counts_as_a_write() {
    let mut desk = MockDevice::zoned(4, ZONE, ZONE, 0);
    desk.limits_mut().read_only = true;
    let mut h = plug_over(desk, PlugOptions::default());
    let writes: Vec<Op> = Op::ALL.into_iter().filter(|op| op.is_zone_management() || op.writes_data()).collect();
    assert_eq!(writes.len(), 8);
    for op in writes {
        let tag = h.submit(Bio::new(op, Sector(0), 0, Payload::None));
        assert_eq!(h.statuses(), [(tag, Status::ReadOnly)], "{}", op.name());
    }
}

/// B29, Linux 7.3. Open and close of conventional zones went through on some kinds of disks.
#[test]
fn b29_no_zone_operation_is_for_conventional_zones() {
    let mut h = plug();
    for op in [Op::ZoneOpen, Op::ZoneClose, Op::ZoneFinish, Op::ZoneReset] {
        let tag = h.submit(manage(op, 0));
        assert_eq!(h.statuses(), [(tag, Status::Io)], "{}", op.name());
    }
    assert!(h.held().is_empty());
}

/// B31 and B35. Zone numbers and sizes changed under writers: here they change only when the plug is idle.
#[test]
fn b31_b35_revalidation_is_refused_while_writes_are_under_way() {
    use shingle_core::plug::{PlugError, ZonePlug};
    let mut h = plug();
    h.submit(write(zone(1), 8));
    let top = h.top;
    let revalidate = |h: &mut shingle_core::harness::Harness| {
        h.stack.with_device(top, |plug: &mut ZonePlug, cx| plug.revalidate(cx)).unwrap()
    };
    assert_eq!(revalidate(&mut h), Err(PlugError::Busy));
    h.end(Status::Ok);
    assert_eq!(revalidate(&mut h), Ok(()));
    h.run();
    assert_eq!(revalidate(&mut h), Err(PlugError::Busy), "one at a time");
    h.end_all(Status::Ok);
    assert!(the_plug(&h).is_ready());
}

/// B34. A zone that went read-only after a write error was cached as full, and later written again.
#[test]
fn b34_a_zone_that_turned_read_only_stays_refused() {
    let mut h = plug();
    h.submit(write(zone(1), 8));
    h.with_desk(|desk, _| desk.zone_mut(1).cond = Condition::ReadOnly);
    h.end(Status::Medium);
    h.submit(report());
    h.end(Status::Ok);
    h.submit(reset_all());
    h.end(Status::Ok);
    let refused = [h.submit(write(zone(1), 8)), h.submit(append(1, 8))];
    let outcomes = h.statuses();
    assert!(refused.iter().all(|tag| outcomes.contains(&(*tag, Status::Io))));
    assert!(h.held().is_empty());
}

/// B37. A device that reports more zones than it has wrote past the end of an array.
#[test]
fn b37_a_report_with_too_many_zones_is_refused() {
    let mut desk = MockDevice::zoned(5, ZONE, ZONE, 0);
    desk.limits_mut().capacity = zone(4);
    let mut h = plug_over(desk, PlugOptions::default());
    // The room for the answer has a bound, so the surplus is cut; a surplus in a user's report changes nothing either.
    let zones = Vec::with_capacity(64);
    h.submit(Bio::new(Op::ReportZones, Sector(0), 0, Payload::Zones(zones)));
    h.end(Status::Ok);
    let tag = h.submit(write(zone(3), 8));
    h.end(Status::Ok);
    assert!(h.statuses().contains(&(tag, Status::Ok)));
}

/// B40 and B41, zone locking. Breaking sequential runs on rotating disks cost throughput; a scheduler in which every write
/// was blocked was not run again after the completion that unblocked it.
#[test]
fn b40_b41_zone_locking_keeps_runs_together_and_never_stalls() {
    let mut desk = MockDevice::zoned(8, ZONE, ZONE, 1);
    desk.limits_mut().rotational = true;
    desk.limits_mut().max_segments = Some(1);
    let mut h = plug_over(desk, PlugOptions { policy: WritePolicy::ZoneLock, ..PlugOptions::default() });
    let tags = h.submit_all((0..6).map(|n| write(zone(1) + n * 8, 8)).chain([write(zone(2), 8)]));
    assert_eq!(at_desk(&h), ["WRITE 64+8", "WRITE 128+8"], "one a zone");
    h.end_all(Status::Ok);
    let outcomes = h.statuses();
    assert!(all_ok(&outcomes) && outcomes.len() == tags.len());
    h.assert_clean();
}

/// B55. Somebody else reset a zone; the host's pointer was stale, and no report mended it.
#[test]
fn b55_a_report_mends_a_pointer_that_went_stale_behind_our_back() {
    let mut h = plug();
    h.submit(write(zone(1), 8));
    h.end(Status::Ok);
    h.with_desk(|desk, _| {
        let zone = desk.zone_mut(1);
        (zone.wp, zone.cond) = (zone.start, Condition::Empty);
    });
    h.submit(report());
    h.end(Status::Ok);
    let tag = h.submit(write(zone(1), 8));
    h.end(Status::Ok);
    assert!(h.statuses().contains(&(tag, Status::Ok)));
}

/// B56. A write refused by the check on arrival was counted twice on its way out, or not at all.
#[test]
fn b56_a_refused_write_leaves_no_trace() {
    let mut h = plug();
    (0..100).for_each(|_| assert!(h.submit(write(zone(1) + 8, 8)) < 100));
    assert_eq!(h.statuses().len(), 100);
    assert!(the_plug(&h).is_idle() && h.stack.is_drained(h.top));
    assert_eq!(the_plug(&h).dump().count(), 0);
}

/// A hole in the kernel's design (2.23, 7): a report taken before a write failed was read after it, and installed an old
/// pointer as the cure.
#[test]
fn a_report_older_than_the_failure_does_not_cure_it() {
    let mut h = plug();
    h.submit(write(zone(1), 8));
    h.end(Status::Ok);
    h.submit(report());
    let old = h.held()[0].number;
    h.submit(write(zone(1) + 8, 8));
    h.end_number(h.held()[1].number, Status::Medium, 8);
    h.end_number(old, Status::Ok, 0);
    let refused = h.submit(write(zone(1) + 8, 8));
    assert!(h.statuses().contains(&(refused, Status::Io)), "the pointer is still unknown");
    h.submit(report());
    h.end(Status::Ok);
    let good = h.submit(write(zone(1) + 16, 8));
    h.end(Status::Ok);
    assert!(h.statuses().contains(&(good, Status::Ok)));
    h.assert_clean();
}

/// Ours, found by the swarm (mapper 141020399): what had changed was noted for all reports in flight together, so one that was sent
/// after a failed write taught nothing while an older one was under way; with reports that overlap, a zone stayed lost.
#[test]
fn a_report_newer_than_the_failure_cures_it_while_an_older_one_is_under_way() {
    let mut h = plug();
    h.submit(report());
    let older = h.held()[0].number;
    h.submit(write(zone(1), 8));
    h.end_number(h.held()[1].number, Status::Medium, 8);
    h.submit(report());
    let newer = h.held()[1].number;
    h.end_number(newer, Status::Ok, 0);
    let good = h.submit(write(zone(1) + 8, 8));
    h.end_number(h.held()[1].number, Status::Ok, 8);
    assert!(h.statuses().contains(&(good, Status::Ok)));
    h.end_number(older, Status::Ok, 0);
    h.assert_clean();
}

/// A hole (2.23, 6): reset or finish completed while one write was in flight and others waited; then two writes could be in
/// flight in one zone. Here the operation waits for its turn.
#[test]
fn a_reset_never_overlaps_a_write() {
    for op in [Op::ZoneReset, Op::ZoneFinish] {
        let mut h = plug();
        h.submit_all([fua(write(zone(1), 8)), fua(write(zone(1) + 8, 8)), manage(op, 1), write(zone(1), 8)]);
        for _ in 0..3 {
            assert_eq!(h.held().len(), 1, "{}", op.name());
            h.end(Status::Ok);
        }
        h.end_all(Status::Ok);
        h.assert_clean();
    }
}

/// Under `zone-lock` and `none` nothing checks the pointer: the device decides, as before plugging.
#[test]
fn the_baselines_let_the_device_judge() {
    for policy in [WritePolicy::ZoneLock, WritePolicy::None] {
        let mut h = with_policy(policy);
        h.submit(write(zone(1) + 8, 8));
        assert_eq!(at_desk(&h), ["WRITE 72+8"], "{policy}");
        assert_eq!(h.desk_ref().violations.len(), 1);
    }
}

/// Found by the swarm (seed 47): a report through a table of two lines on one disk comes to the plug a second time with the
/// zones of the first line, in the table's numbers, and the plug learned those too: it believed pointers of other zones.
#[test]
fn a_plug_learns_from_a_report_only_what_the_device_below_it_said() {
    let mut h = plug();
    h.submit(write(zone(1), 8));
    h.end_all(Status::Ok);
    let mut half = report();
    let elsewhere = Zone {
        start: Sector(zone(1)),
        len: ZONE.into(),
        capacity: ZONE.into(),
        wp: Sector(zone(1) + 32),
        kind: ZoneKind::Sequential,
        cond: Condition::Closed,
    };
    let Payload::Zones(zones) = &mut half.payload else { unreachable!() };
    zones.push(elsewhere);
    half.sector = Sector(zone(2));
    h.submit(half);
    h.end_all(Status::Ok);
    h.submit(write(zone(1) + 8, 8));
    h.end_all(Status::Ok);
    assert!(all_ok(&h.statuses()));
}

/// Found by the swarm (seed 1057): writes that pass without an order did not count as being in the plug, so a policy could be
/// switched while they were under way, and the plug then learned pointers that were about to move.
#[test]
fn a_policy_is_not_switched_while_writes_that_passed_without_an_order_are_under_way() {
    for (policy, bio) in [(WritePolicy::None, write(zone(1), 8)), (WritePolicy::ZoneLock, append(1, 8))] {
        let mut desk = MockDevice::zoned(8, ZONE, ZONE, 1);
        desk.limits_mut().zoned.as_mut().unwrap().max_append = Some(ZONE);
        let mut h = plug_over(desk, PlugOptions { policy, ..PlugOptions::default() });
        h.submit(bio);
        h.stack.suspend(h.top);
        let switch = |plug: &mut ZonePlug, cx: &mut Cx<'_>| plug.set_policy(WritePolicy::Plug, cx);
        assert!(!h.stack.is_drained(h.top), "{policy}: the write is lost sight of");
        assert_eq!(h.stack.with_device(h.top, switch), Some(Err(PlugError::Busy)), "{policy}");
        h.end_all(Status::Ok);
        assert!(h.stack.is_drained(h.top));
        assert_eq!(h.stack.with_device(h.top, switch), Some(Ok(())), "{policy}");
        h.end_all(Status::Ok);
        h.stack.resume(h.top);
        h.submit(write(zone(1) + 8, 8));
        h.end_all(Status::Ok);
        assert!(all_ok(&h.statuses()), "{policy}");
    }
}

/// Ours, found by the swarm of mapped devices. The plug of a table that is loaded asks for zones while the table before it is in
/// use. The answer came after the swap and told pointers that were older than the last writes.
#[test]
fn a_report_that_was_under_way_when_the_plug_came_into_use_is_asked_for_again() {
    let mut h = plug();
    let top = h.top;
    h.stack.deliver(top, Event::Resume);
    h.run();
    assert_eq!(h.held().len(), 1, "a plug at rest asks for its zones");
    // Now it is in use; the write waits.
    h.stack.deliver(top, Event::Resume);
    h.submit(write(zone(1) + 8, 8));
    h.with_desk(|desk, _| {
        let zone = desk.zone_mut(1);
        (zone.wp, zone.cond) = (zone.start + 8, Condition::ImplicitOpen);
    });
    h.end(Status::Ok);
    assert_eq!(h.held().iter().map(|held| held.op).collect::<Vec<_>>(), [Op::ReportZones], "and once more");
    h.end_all(Status::Ok);
    assert!(all_ok(&h.statuses()));
    h.assert_clean();
}

/// Ours, found by the swarm once its disk told of the moment when a report came. `zone-lock` did not note what ended while a report
/// was under way: the next append that was emulated went to a pointer that was older, and failed at the disk.
#[test]
fn under_every_policy_a_report_older_than_a_change_does_not_bring_back_the_pointer_before_it() {
    let changes: [(fn() -> Bio, u64); 3] = [(|| append(1, 8), 16), (|| reset(1), 0), (reset_all, 0)];
    for policy in WritePolicy::ALL.into_iter().filter(|policy| *policy != WritePolicy::None) {
        for (change, after) in changes {
            let mut h = with_policy(policy);
            h.submit(write(zone(1), 8));
            end_all_in_time(&mut h);
            h.submit(report());
            let old = h.held()[0].number;
            h.submit(change());
            h.end_number(h.held()[1].number, Status::Ok, 8);
            let now = h.with_desk(|desk, _| {
                let zone = desk.zone_mut(1);
                std::mem::replace(zone, Zone { wp: zone.start + 8, cond: Condition::ImplicitOpen, ..*zone })
            });
            h.end_number(old, Status::Ok, 0);
            h.with_desk(|desk, _| *desk.zone_mut(1) = now);
            h.submit(append(1, 8));
            assert_eq!(h.held()[0].sector, Sector(zone(1) + after), "{policy}");
            end_all_in_time(&mut h);
            assert!(all_ok(&h.statuses()), "{policy}");
        }
    }
}
