//! What zone write plugging promises, one claim a test. `desk/mod.rs` checks the plug against itself after every hop, and
//! the desk below notes every write that a zoned disk would refuse.

use shingle_core::block::{Bio, Data, Flags, Op, Payload, Reason, Stack, Status};
use shingle_core::device::null::{NullConfig, NullDevice, NullZones};
use shingle_core::harness::MockDevice;
use shingle_core::plug::{DumpFormat, PlugOptions, WritePolicy, ZonePlug};
use shingle_core::sector::Sector;
use shingle_core::time::Instant;
use shingle_core::zone::ZoneNo;

use crate::desk::{self, *};

#[test]
fn writes_to_one_zone_go_down_one_at_a_time_in_arrival_order() {
    let mut h =
        plug_over(MockDevice::zoned(8, ZONE, ZONE, 1), PlugOptions { max_segments: 1, ..PlugOptions::default() });
    let tags = h.submit_all((0..4).map(|n| write(zone(1) + n * 8, 8)));
    for n in 0..4 {
        assert_eq!(at_desk(&h), [format!("WRITE {}+8", zone(1) + n * 8)]);
        h.end(Status::Ok);
        assert_eq!(h.statuses(), [(tags[n as usize], Status::Ok)]);
    }
    h.assert_clean();
}

#[test]
fn a_write_between_the_physical_blocks_of_a_zone_fails_alone_and_the_zone_goes_on() {
    let mut desk = MockDevice::zoned(8, ZONE, ZONE, 1);
    desk.limits_mut().zoned.as_mut().unwrap().write_granularity_bytes = 4096;
    let mut h = plug_over(desk, PlugOptions::default());
    let tags = h.submit_all([write(zone(1), 1), write(zone(1), 8), write(zone(1) + 8, 12), write(zone(1) + 8, 8)]);
    assert_eq!(at_desk(&h), ["WRITE 64+8"], "the disk hears of none that it would refuse");
    h.end(Status::Ok);
    h.end(Status::Ok);
    let failed = [tags[0], tags[2]].map(|tag| (tag, Status::Io));
    assert_eq!(h.statuses(), [failed[0], failed[1], (tags[1], Status::Ok), (tags[3], Status::Ok)]);
    h.assert_clean();
}

#[test]
fn a_busy_zone_delays_neither_reads_nor_other_zones_nor_conventional_writes_nor_flushes() {
    let mut h = plug();
    for bio in [write(zone(1), 8), write(zone(1) + 8, 8), read(zone(1), 8), write(zone(2), 8), write(5, 8), flush()] {
        h.submit(bio);
    }
    assert_eq!(at_desk(&h), ["WRITE 64+8", "READ 64+8", "WRITE 128+8", "WRITE 5+8", "FLUSH 0+0"]);
    h.end_all(Status::Ok);
    assert!(h.statuses().iter().all(|(_, status)| status.is_ok()));
    h.assert_clean();
}

#[test]
fn zone_locking_holds_back_only_writes_to_sequential_zones() {
    let mut h = with_policy(WritePolicy::ZoneLock);
    for bio in [write(zone(1), 8), write(zone(1) + 8, 8), read(zone(1), 8), write(5, 8), write(16, 8)] {
        h.submit(bio);
    }
    let mut sent = at_desk(&h);
    sent.sort();
    assert_eq!(sent, ["READ 64+8", "WRITE 16+8", "WRITE 5+8", "WRITE 64+8"]);
    h.end_all(Status::Ok);
    assert!(h.statuses().iter().all(|(_, status)| status.is_ok()));
    h.assert_clean();
}

#[test]
fn queued_neighbours_leave_as_one_command_and_each_gets_its_own_memory_back() {
    let mut h = plug();
    let tags = h.submit_all((0..5).map(|n| write(zone(1) + n * 8, 8)));
    h.end(Status::Ok);
    let merged = h.held()[0];
    assert_eq!((merged.sector.0, merged.sectors, merged.segments), (zone(1) + 8, 32, 4));
    let expected: Vec<u8> = (zone(1) + 8..zone(1) + 40).flat_map(|sector| [sector as u8; 512]).collect();
    assert_eq!(h.with_desk(|desk, _| desk.bytes(merged.number)), expected);
    h.end(Status::Ok);
    assert_eq!(h.statuses(), tags.iter().map(|tag| (*tag, Status::Ok)).collect::<Vec<_>>());
    assert_eq!(h.stack.counters(h.top).merges, 3);
    h.assert_clean();
}

#[test]
fn zone_locking_merges_neighbours_whose_data_has_one_segment_each() {
    let mut h = with_policy(WritePolicy::ZoneLock);
    let tags = h.submit_all((0..5).map(|n| write(zone(1) + n * 8, 8)));
    h.end(Status::Ok);
    let merged = h.held()[0];
    assert_eq!((merged.sector.0, merged.sectors, merged.segments), (zone(1) + 8, 32, 4));
    h.end(Status::Ok);
    assert_eq!(h.statuses(), tags.iter().map(|tag| (*tag, Status::Ok)).collect::<Vec<_>>());
    h.submit(write(zone(2), 8));
    let in_two_segments = |n: u64| {
        let data = Data::zeroed(8 * 512);
        let halves = [0, 4].map(|sector| data.slice(sector * 512, 4 * 512));
        Bio::new(Op::Write, Sector(zone(2) + n * 8), 8, Payload::Segments(halves.into()))
    };
    h.submit_all((1..3).map(in_two_segments));
    h.end(Status::Ok);
    assert_eq!(h.held().iter().map(|held| (held.sector.0, held.sectors)).collect::<Vec<_>>(), [(zone(2) + 8, 8)]);
    h.end(Status::Ok);
    h.end(Status::Ok);
    h.assert_clean();
}

#[test]
fn merging_stops_at_the_limits_of_the_device_and_the_zone() {
    let mut desk = MockDevice::zoned(8, ZONE, 48, 1);
    desk.limits_mut().max_sectors = Some(20);
    desk.limits_mut().max_segments = Some(3);
    let mut h = plug_over(desk, PlugOptions::default());
    h.submit_all((0..4).map(|n| write(zone(1) + n * 8, 8)));
    h.submit_all((0..8).map(|n| write(zone(2) + n * 2, 2)));
    h.submit_all((0..7).map(|n| write(zone(3) + n * 8, 8)));
    let mut sent = vec![];
    while let Some(held) = h.held().first().copied() {
        sent.push((held.sector.0, held.sectors));
        h.end(Status::Ok);
    }
    let of_zone = |n: u64| sent.iter().copied().filter(|(s, _)| s / u64::from(ZONE) == n).collect::<Vec<_>>();
    assert_eq!(of_zone(1), [(64, 8), (72, 16), (88, 8)], "two of eight sectors fit into twenty");
    assert_eq!(of_zone(2), [(128, 2), (130, 6), (136, 6), (142, 2)], "three segments a command");
    assert_eq!(of_zone(3), [(192, 8), (200, 16), (216, 16), (232, 8)], "nothing past the capacity of 48");
    let failed = h.statuses().iter().filter(|(_, status)| !status.is_ok()).count();
    assert_eq!(failed, 1, "the seventh write of zone 3 lies past its capacity");
    h.assert_clean();
}

#[test]
fn fua_preflush_and_appends_are_never_merged() {
    let mut h = plug();
    h.submit(write(zone(1), 8));
    h.submit(fua(write(zone(1) + 8, 8)));
    h.submit(write(zone(1) + 16, 8));
    h.submit(append(1, 8));
    h.submit(append(1, 8));
    h.submit(write(zone(1) + 40, 8).with_flags(Flags::PREFLUSH));
    let mut sent = vec![];
    while let Some(held) = h.held().first().copied() {
        sent.push((held.sector.0 - zone(1), held.sectors, held.flags));
        h.end(Status::Ok);
    }
    let (none, fua, pre) = (Flags::NONE, Flags::FUA, Flags::PREFLUSH);
    assert_eq!(sent, [(0, 8, none), (8, 8, fua), (16, 8, none), (24, 8, none), (32, 8, none), (40, 8, pre)]);
    assert!(h.statuses().iter().all(|(_, status)| status.is_ok()));
    h.assert_clean();
}

#[test]
fn a_write_that_crosses_a_zone_edge_is_cut_there_and_both_parts_keep_their_order() {
    let mut h = plug();
    h.submit(write(zone(1), 56));
    let crossing = h.submit(write(zone(1) + 56, 16));
    let next = h.submit(write(zone(2) + 8, 8));
    h.end_all(Status::Ok);
    let outcomes = h.statuses();
    assert!(outcomes.contains(&(crossing, Status::Ok)) && outcomes.contains(&(next, Status::Ok)), "{outcomes:?}");
    h.assert_clean();
}

#[test]
fn a_failed_part_of_a_crossing_write_does_not_poison_the_zone_of_the_other_part() {
    let mut h = plug();
    h.submit(write(zone(1), 56));
    h.end(Status::Ok);
    let crossing = h.submit(write(zone(1) + 56, 16));
    h.end(Status::Medium);
    h.end(Status::Ok);
    assert_eq!(h.statuses(), [(0, Status::Ok), (crossing, Status::Medium)]);
    let after = h.submit(write(zone(2) + 8, 8));
    h.end(Status::Ok);
    assert_eq!(h.statuses(), [(after, Status::Ok)]);
}

#[test]
fn a_write_that_does_not_line_up_fails_alone_and_never_reaches_the_device() {
    for queued in [false, true] {
        let mut h = plug();
        if queued {
            h.submit(write(zone(1), 8));
        }
        let bad = h.submit(write(zone(1) + 16, 8));
        h.end_all(Status::Ok);
        assert!(h.statuses().contains(&(bad, Status::Io)));
        let good = h.submit(write(zone(1) + if queued { 8 } else { 0 }, 8));
        h.end(Status::Ok);
        assert_eq!(h.statuses(), [(good, Status::Ok)], "the zone is not poisoned by a mistake of the host");
        h.assert_clean();
    }
}

#[test]
fn the_first_write_to_an_empty_zone_is_checked_like_every_other() {
    let mut h = plug();
    let bad = h.submit(write(zone(1) + 8, 8));
    assert_eq!(h.statuses(), [(bad, Status::Io)]);
    assert!(h.held().is_empty());
}

#[test]
fn a_write_that_crosses_the_capacity_is_refused_and_changes_nothing() {
    let mut h = plug_over(MockDevice::zoned(8, ZONE, 48, 1), PlugOptions::default());
    h.submit(write(zone(1), 40));
    h.end(Status::Ok);
    let straddling = h.submit(write(zone(1) + 40, 16));
    let fitting = h.submit(write(zone(1) + 40, 8));
    h.end(Status::Ok);
    assert_eq!(h.statuses(), [(0, Status::Ok), (straddling, Status::Io), (fitting, Status::Ok)]);
    let full = h.submit(write(zone(1) + 48, 8));
    assert_eq!(h.statuses(), [(full, Status::Io)], "a full zone takes nothing");
    h.assert_clean();
}

#[test]
fn after_a_device_error_the_zone_refuses_writes_until_its_pointer_is_known() {
    type Cure = (&'static str, fn() -> shingle_core::block::Bio, u64);
    let cures: [Cure; 3] = [("report", report, 3), ("reset", || reset(1), 0), ("reset all", reset_all, 0)];
    for (name, cure, offset) in cures {
        let mut h = plug();
        let failed = h.submit(write(zone(1), 8));
        let queued = h.submit(write(zone(1) + 8, 8));
        let other = h.submit(write(zone(2), 8));
        // Three sectors reached the medium: only the device knows.
        h.end_number(h.held()[0].number, Status::Medium, 3);
        h.end(Status::Ok);
        assert_eq!(h.statuses(), [(failed, Status::Medium), (queued, Status::Io), (other, Status::Ok)]);
        let refused = h.submit(write(zone(1) + 3, 8));
        assert_eq!(h.statuses(), [(refused, Status::Io)], "before the {name}");
        h.submit(cure());
        h.end(Status::Ok);
        let written = h.submit(write(zone(1) + offset, 8));
        h.end(Status::Ok);
        assert_eq!(h.statuses()[1], (written, Status::Ok), "after the {name}");
        h.assert_clean();
    }
}

/// What was done can be reported as failed: then the pointer is not where the plug has it.
#[test]
fn after_a_reset_or_finish_that_failed_the_zone_refuses_writes_until_its_pointer_is_known() {
    let done: [(fn() -> Bio, u64); 3] = [(|| reset(1), 0), (|| finish(1), u64::from(ZONE)), (reset_all, 0)];
    for ((op, offset), is_done) in done.into_iter().flat_map(|op| [(op, false), (op, true)]) {
        let mut h = plug();
        h.submit(write(zone(1), 8));
        h.end(Status::Ok);
        let failed = h.submit(op());
        let queued = h.submit(write(zone(1) + 8, 8));
        let written = if is_done { offset } else { 8 };
        h.with_desk(|desk, _| desk.zone_mut(1).wp = Sector(zone(1) + written));
        h.end(Status::Timeout);
        assert_eq!(h.statuses()[1..], [(failed, Status::Timeout), (queued, Status::Io)]);
        assert_eq!(at_desk(&h), [""; 0], "the disk is not asked where nobody knows the pointer");
        h.submit(report());
        h.end(Status::Ok);
        let fits = written < u64::from(ZONE);
        let at_pointer = h.submit(write(zone(1) + if fits { written } else { 8 }, 8));
        assert_eq!(at_desk(&h).len(), usize::from(fits));
        h.end_all(Status::Ok);
        assert_eq!(h.statuses()[1], (at_pointer, if fits { Status::Ok } else { Status::Io }));
        h.assert_clean();
    }
}

#[test]
fn zone_management_that_moves_no_pointer_or_breaks_a_rule_poisons_no_zone() {
    let refused = [(Op::ZoneOpen, Status::Timeout), (Op::ZoneClose, Status::Io), (Op::ZoneReset, Status::NotSupported)];
    for (op, status) in refused {
        let mut h = plug();
        let failed = h.submit(manage(op, 1));
        let queued = h.submit(write(zone(1), 8));
        h.end(status);
        h.end(Status::Ok);
        assert_eq!(h.statuses(), [(failed, status), (queued, Status::Ok)], "{}", op.name());
        h.assert_clean();
    }
    let mut stack = Stack::new();
    let disk = NullDevice::new(&NullConfig::zoned(8 * u64::from(ZONE), NullZones::new(ZONE.into()))).unwrap();
    let disk = stack.add(Box::new(disk)).unwrap();
    let plug = ZonePlug::new(disk, stack.limits(disk), PlugOptions::default()).unwrap();
    let (plug, port) = (stack.add(Box::new(plug)).unwrap(), stack.open_port());
    stack.turn(Instant::ZERO);
    stack.with_device(disk, |disk: &mut NullDevice, _| disk.set_read_only(ZoneNo(1)).unwrap());
    for (tag, bio) in [reset(1), write(zone(1), 8)].into_iter().enumerate() {
        stack.submit(port, tag as u64, plug, Box::new(bio));
        stack.turn(Instant::ZERO);
        let done = stack.poll_completion(port).unwrap();
        let reason = done.why().map(|why| why.reason.clone());
        assert!(matches!(reason, Some(Reason::Zone(_))), "the disk is asked, and says why: {reason:?}");
    }
}

#[test]
fn finish_cures_a_poisoned_zone_and_fills_it() {
    let mut h = plug();
    h.submit(write(zone(1), 8));
    h.end(Status::Io);
    h.submit(finish(1));
    h.end(Status::Ok);
    assert_eq!(the_plug(&h).dump().count(), 0, "a full zone needs no plug");
    let full = h.submit(write(zone(1) + 8, 8));
    assert!(h.statuses().contains(&(full, Status::Io)));
}

#[test]
fn a_failed_merged_write_fails_every_bio_in_it() {
    let mut h = plug();
    h.submit_all((0..4).map(|n| write(zone(1) + n * 8, 8)));
    h.end(Status::Ok);
    h.end(Status::NoSpace);
    assert_eq!(h.statuses()[1..], [(1, Status::NoSpace), (2, Status::NoSpace), (3, Status::NoSpace)]);
}

#[test]
fn a_device_that_refuses_for_lack_of_zone_resources_has_not_moved_the_pointer() {
    for status in [Status::ZoneActiveResource, Status::ZoneOpenResource, Status::NotSupported] {
        let mut h = plug();
        h.submit(write(zone(1), 8));
        h.end(status);
        let again = h.submit(write(zone(1), 8));
        h.end(Status::Ok);
        assert_eq!(h.statuses(), [(0, status), (again, Status::Ok)]);
        h.assert_clean();
    }
}

#[test]
fn nowait_writes_take_their_turn_and_those_that_must_be_split_are_sent_back() {
    let mut h = plug();
    h.submit(write(zone(1), 8));
    let queued = h.submit(write(zone(1) + 8, 8).with_flags(Flags::NOWAIT));
    let split = h.submit(write(zone(1) + 60, 8).with_flags(Flags::NOWAIT));
    h.end_all(Status::Ok);
    assert_eq!(h.statuses(), [(split, Status::Again), (0, Status::Ok), (queued, Status::Ok)]);
    h.assert_clean();
}

#[test]
fn an_emulated_append_tells_exactly_where_its_data_went() {
    let mut h = plug();
    h.submit(write(zone(1), 8));
    let tags = h.submit_all((0..4).map(|_| append(1, 4)));
    h.end_all(Status::Ok);
    let outcomes = h.outcomes();
    for (n, tag) in tags.iter().enumerate() {
        let outcome = outcomes.iter().find(|outcome| outcome.tag == *tag).unwrap();
        assert_eq!((outcome.status, outcome.sector.0), (Status::Ok, zone(1) + 8 + 4 * n as u64));
    }
    h.assert_clean();
}

#[test]
fn an_append_without_room_or_to_a_wrong_place_fails_without_the_device() {
    let mut h = plug();
    h.submit(write(zone(1), 60));
    h.end(Status::Ok);
    let bad = [h.submit(append(1, 8)), h.submit(append(0, 8)), h.submit(desk::data(Op::ZoneAppend, zone(2) + 8, 8))];
    let too_long = h.submit(append(2, ZONE + 1));
    assert_eq!(h.statuses()[1..], [bad[0], bad[1], bad[2], too_long].map(|tag| (tag, Status::Io)));
    let fits = h.submit(append(1, 4));
    h.end(Status::Ok);
    assert_eq!(h.statuses(), [(fits, Status::Ok)]);
    let full = h.submit(append(1, 1));
    assert_eq!(h.statuses(), [(full, Status::Io)]);
}

#[test]
fn native_appends_share_a_zone_and_writes_wait_for_them() {
    let mut h = with_native_append();
    h.submit_all((0..3).map(|_| append(1, 8)));
    assert_eq!(at_desk(&h), ["ZONE_APPEND 64+8"; 3]);
    let write_behind = h.submit(write(zone(1) + 24, 8));
    let append_behind = h.submit(append(1, 8));
    assert_eq!(h.held().len(), 3, "a write is never beside appends, and nothing overtakes it");
    // The device finishes them in an order of its own.
    for number in [h.held()[2].number, h.held()[0].number, h.held()[1].number] {
        h.end_number(number, Status::Ok, 0);
    }
    assert_eq!(at_desk(&h), ["WRITE 88+8"]);
    h.end_all(Status::Ok);
    let outcomes = h.outcomes();
    assert!(outcomes.iter().all(|outcome| outcome.status.is_ok()), "{outcomes:?}");
    assert_eq!(outcomes.iter().find(|o| o.tag == append_behind).unwrap().sector.0, zone(1) + 32);
    assert_eq!(outcomes.iter().find(|o| o.tag == write_behind).unwrap().status, Status::Ok);
    h.assert_clean();
}

#[test]
fn zone_management_takes_its_turn_between_the_writes_around_it() {
    for (op, then) in [(Op::ZoneReset, 0), (Op::ZoneClose, 8), (Op::ZoneOpen, 8)] {
        let mut h = plug();
        h.submit(write(zone(1), 8));
        let managed = h.submit(manage(op, 1));
        let after = h.submit(write(zone(1) + then, 8));
        assert_eq!(at_desk(&h), ["WRITE 64+8"], "{} is not sent while a write is in flight", op.name());
        h.end(Status::Ok);
        assert_eq!(at_desk(&h), [format!("{} 64+0", op.name())]);
        h.end(Status::Ok);
        h.end(Status::Ok);
        assert_eq!(h.statuses(), [(0, Status::Ok), (managed, Status::Ok), (after, Status::Ok)], "{}", op.name());
        h.assert_clean();
    }
}

#[test]
fn reset_all_waits_for_every_zone_and_later_writes_wait_for_it() {
    let mut h = plug();
    h.submit(write(zone(1), 8));
    h.submit(write(zone(2), 8));
    let reset = h.submit(reset_all());
    let later = h.submit(write(zone(1), 8));
    let other = h.submit(write(zone(3), 8));
    let conventional = h.submit(write(0, 8));
    assert_eq!(at_desk(&h), ["WRITE 64+8", "WRITE 128+8", "WRITE 0+8"]);
    h.end(Status::Ok);
    h.end(Status::Ok);
    assert_eq!(at_desk(&h), ["WRITE 0+8", "ZONE_RESET_ALL 0+0"]);
    h.end_all(Status::Ok);
    let order: Vec<u64> = h.statuses().iter().map(|(tag, _)| *tag).collect();
    assert_eq!(order, [0, 1, conventional, reset, later, other]);
    h.assert_clean();
}

#[test]
fn two_resets_of_all_zones_do_not_lose_each_other() {
    let mut h = plug();
    let tags = [h.submit(reset_all()), h.submit(reset_all()), h.submit(write(zone(1), 8))];
    h.end_all(Status::Ok);
    assert_eq!(h.statuses(), tags.map(|tag| (tag, Status::Ok)));
}

#[test]
fn read_only_and_offline_zones_refuse_writes_early_and_stay_so_through_reset_all() {
    use shingle_core::zone::Condition;
    let mut h = plug();
    h.with_desk(|desk, _| desk.zone_mut(1).cond = Condition::ReadOnly);
    h.with_desk(|desk, _| desk.zone_mut(2).cond = Condition::Offline);
    h.submit(report());
    h.end(Status::Ok);
    h.submit(reset_all());
    h.end(Status::Ok);
    for n in [1, 2] {
        let refused = [h.submit(write(zone(n), 8)), h.submit(append(n, 8))];
        let outcomes = h.statuses();
        assert!(refused.iter().all(|tag| outcomes.contains(&(*tag, Status::Io))), "zone {n}: {outcomes:?}");
    }
    assert!(h.held().is_empty(), "nothing reached the device");
}

#[test]
fn flush_and_zone_management_of_conventional_zones_behave_as_on_a_disk() {
    let mut h = plug();
    let flushed = h.submit(flush());
    h.end(Status::Ok);
    let bad = [Op::ZoneOpen, Op::ZoneClose, Op::ZoneFinish, Op::ZoneReset].map(|op| h.submit(manage(op, 0)));
    assert_eq!(h.statuses(), [vec![(flushed, Status::Ok)], bad.map(|tag| (tag, Status::Io)).to_vec()].concat());
}

#[test]
fn a_plug_over_an_untruthful_report_refuses_writes_and_says_why() {
    let mut desk = MockDevice::zoned(4, ZONE, ZONE, 0);
    desk.zone_mut(2).start = shingle_core::sector::Sector(7);
    let mut h = plug_over(desk, PlugOptions::default());
    let refused = h.submit(write(zone(1), 8));
    assert_eq!(h.statuses(), [(refused, Status::Io)]);
    let error = the_plug(&h).failure().unwrap().to_string();
    assert!(error.contains("zone 2") && error.contains("check the device"), "{error}");
}

#[test]
fn what_arrives_before_the_zones_are_known_waits_in_order() {
    let mut stack = shingle_core::block::Stack::new();
    let disk = stack.add(Box::new(MockDevice::zoned(4, ZONE, ZONE, 0))).unwrap();
    let limits = stack.limits(disk).clone();
    let top = stack.add(Box::new(ZonePlug::new(disk, &limits, PlugOptions::default()).unwrap())).unwrap();
    let port = stack.open_port();
    (0..3).for_each(|n| stack.submit(port, n, top, Box::new(write(n * 8, 8))));
    while stack.step() {}
    let held = stack.device::<MockDevice>(disk).unwrap().held();
    assert_eq!((held.len(), held[0].op), (1, Op::ReportZones));
    stack.with_device(disk, |desk: &mut MockDevice, cx| desk.end(0, Status::Ok, 0, cx));
    while stack.step() {}
    let held = stack.device::<MockDevice>(disk).unwrap().held();
    assert_eq!((held.len(), held[0].sector.0), (1, 0));
}

#[test]
fn the_policy_switches_live_and_only_when_nothing_is_in_flight() {
    let mut h = plug();
    h.submit(write(zone(1), 8));
    h.stack.suspend(h.top);
    let waiting = h.submit(write(zone(1) + 8, 8));
    let switch = |h: &mut shingle_core::harness::Harness, policy| {
        let result = h.stack.with_device(h.top, |plug: &mut ZonePlug, cx| plug.set_policy(policy, cx)).unwrap();
        h.run();
        result
    };
    assert!(!h.stack.is_drained(h.top));
    assert!(switch(&mut h, WritePolicy::None).unwrap_err().to_string().contains("suspend"));
    h.end(Status::Ok);
    assert!(h.stack.is_drained(h.top));
    for policy in [WritePolicy::None, WritePolicy::ZoneLock, WritePolicy::Plug] {
        switch(&mut h, policy).unwrap();
        h.end(Status::Ok); // the report
        assert_eq!(the_plug(&h).policy(), policy);
    }
    h.stack.resume(h.top);
    h.run();
    h.end(Status::Ok);
    assert_eq!(h.statuses(), [(0, Status::Ok), (waiting, Status::Ok)]);
    h.assert_clean();
}

#[test]
fn the_dump_reads_as_debugfs_does() {
    let mut h = plug();
    h.submit_all((0..4).map(|n| write(zone(3) + n * 8, 8)));
    h.submit(write(zone(5), 8));
    h.end_number(h.held()[1].number, Status::Io, 0);
    h.submit(write(zone(6), 8));
    h.end_number(h.held()[1].number, Status::Ok, 0);
    let lines = |format| {
        let line = |dump: shingle_core::plug::PlugDump| {
            let mut line = String::new();
            dump.write(format, &mut line).unwrap();
            line
        };
        the_plug(&h).dump().map(line).collect::<Vec<_>>()
    };
    assert_eq!(
        lines(DumpFormat::Named),
        [
            "Zone no: 3, flags: 0x1, ref: 6, cond: ACTIVE, wp ofst: 8, pending BIO: 3",
            "Zone no: 5, flags: 0x2, ref: 1, cond: ACTIVE, wp ofst: 8, pending BIO: 0",
            "Zone no: 6, flags: 0x0, ref: 1, cond: ACTIVE, wp ofst: 8, pending BIO: 0",
        ]
    );
    assert_eq!(lines(DumpFormat::Bare), ["3 0x1 6 8 3", "5 0x2 1 8 0", "6 0x0 1 8 0"]);
    assert_eq!(the_plug(&h).active(), 1);
}

#[test]
fn idle_zones_have_plugs_only_while_partly_written() {
    let mut h = plug();
    assert_eq!(the_plug(&h).dump().count(), 0);
    h.submit(write(zone(1), 8));
    h.end(Status::Ok);
    assert_eq!(the_plug(&h).dump().count(), 1);
    h.submit(write(zone(1) + 8, ZONE - 8));
    h.end(Status::Ok);
    assert_eq!(the_plug(&h).dump().count(), 0, "a full zone");
    h.submit(reset(1));
    h.end(Status::Ok);
    assert_eq!(the_plug(&h).dump().count(), 0, "an empty zone");
}

#[test]
fn held_bios_are_shown_for_the_stuck_io_report() {
    let mut h = plug();
    h.submit_all((0..4).map(|n| write(zone(1) + n * 8, 8)));
    h.submit(reset_all());
    h.submit(write(zone(2), 8));
    let mut held = vec![];
    h.stack.held(&mut |device, bio| held.push((device, bio.op)));
    assert_eq!(held.iter().filter(|(device, _)| *device == h.top).count(), 5);
    assert_eq!(held.iter().filter(|(device, _)| *device == h.desk).count(), 1);
}

#[test]
fn a_plug_that_is_still_learning_does_not_learn_twice() {
    use shingle_core::plug::PlugError;
    let mut stack = shingle_core::block::Stack::new();
    let disk = stack.add(Box::new(MockDevice::zoned(4, ZONE, ZONE, 0))).unwrap();
    let limits = stack.limits(disk).clone();
    let top = stack.add(Box::new(ZonePlug::new(disk, &limits, PlugOptions::default()).unwrap())).unwrap();
    // A second report could be answered late, and put old write pointers in the place of newer ones.
    let early = stack.with_device(top, |plug: &mut ZonePlug, cx| plug.set_policy(WritePolicy::None, cx));
    assert_eq!(early, Some(Err(PlugError::Busy)));
    while stack.step() {}
    assert_eq!(stack.device::<MockDevice>(disk).unwrap().held().len(), 1);
}

#[test]
fn a_report_in_flight_keeps_the_zones_from_being_learned_anew() {
    use shingle_core::plug::PlugError;
    let mut h = plug();
    // It notes what changed since it was sent; learning anew would forget those notes, and its old pointers be believed.
    h.submit(report());
    let top = h.top;
    let mut revalidate = || h.stack.with_device(top, |plug: &mut ZonePlug, cx| plug.revalidate(cx)).unwrap();
    assert_eq!(revalidate(), Err(PlugError::Busy));
    h.end(Status::Ok);
    assert_eq!(h.stack.with_device(top, |plug: &mut ZonePlug, cx| plug.revalidate(cx)), Some(Ok(())));
}
