//! What `qd1` promises beyond `plug`, one claim a test: one zone write in flight for the whole disk. The desk below notes
//! a second one.

use shingle_core::block::{Flags, Op, Status};
use shingle_core::harness::{Harness, MockDevice};
use shingle_core::plug::{Append, PlugOptions, WritePolicy};
use shingle_core::time::{Duration, Instant};

use crate::desk::*;

fn qd1() -> Harness {
    one_at_a_time(WritePolicy::Qd1)
}

/// What reaches the desk from now on, each ended well in turn.
fn served(h: &mut Harness) -> Vec<String> {
    let mut sent = vec![];
    while let Some(first) = at_desk(h).first().cloned() {
        sent.push(first);
        h.end(Status::Ok);
    }
    sent
}

#[test]
fn one_zone_write_is_in_flight_for_the_whole_disk() {
    let mut h = qd1();
    let tags = h.submit_all((1..6).map(|n| write(zone(n), 8)));
    assert_eq!(at_desk(&h), ["WRITE 64+8"]);
    assert_eq!(the_plug(&h).active(), 5);
    assert_eq!(served(&mut h), ["WRITE 64+8", "WRITE 128+8", "WRITE 192+8", "WRITE 256+8", "WRITE 320+8"]);
    assert_eq!(h.statuses(), tags.iter().map(|tag| (*tag, Status::Ok)).collect::<Vec<_>>());
    h.assert_clean();
}

#[test]
fn a_write_to_an_idle_disk_goes_out_at_once() {
    let mut h = qd1();
    for n in 1..4 {
        h.submit(write(zone(n), 8));
        assert_eq!(at_desk(&h), [format!("WRITE {}+8", zone(n))]);
        h.end(Status::Ok);
    }
    assert_eq!(the_plug(&h).longest_wait(), Duration::ZERO);
    h.assert_clean();
}

#[test]
fn zones_are_served_in_the_order_of_their_first_write_and_each_is_drained() {
    let mut h = qd1();
    for (n, at) in [(3, 0), (1, 0), (2, 0), (1, 8), (3, 8), (2, 8)] {
        h.submit(fua(write(zone(n) + at, 8)));
    }
    let order = ["192+8", "200+8", "64+8", "72+8", "128+8", "136+8"];
    assert_eq!(served(&mut h), order.map(|at| format!("WRITE {at}")));
    h.assert_clean();
}

#[test]
fn what_joins_a_zone_while_it_is_drained_is_drained_with_it() {
    let mut h = qd1();
    h.submit_all([write(zone(2), 8), write(zone(1), 8)]);
    for n in 1..5 {
        h.submit(write(zone(2) + 8 * n, 8));
        h.end(Status::Ok);
        assert_eq!(at_desk(&h), [format!("WRITE {}+8", zone(2) + 8 * n)], "zone 1 still waits, as in Linux");
    }
    h.end(Status::Ok);
    assert_eq!(at_desk(&h), ["WRITE 64+8"]);
    h.end(Status::Ok);
    h.assert_clean();
}

#[test]
fn waiting_neighbours_leave_as_one_command() {
    let mut h = qd1();
    h.submit(write(zone(2), 8));
    h.submit_all((0..4).map(|n| write(zone(1) + n * 8, 8)));
    assert_eq!(served(&mut h), ["WRITE 128+8", "WRITE 64+32"]);
    h.assert_clean();
}

#[test]
fn reads_flushes_conventional_writes_zone_management_and_native_appends_do_not_wait_for_the_disk() {
    let mut desk = MockDevice::zoned(8, ZONE, ZONE, 1);
    desk.limits_mut().zoned.as_mut().unwrap().max_append = Some(ZONE);
    desk.one_write = true;
    let options = PlugOptions { policy: WritePolicy::Qd1, append: Append::Native, ..PlugOptions::default() };
    let mut h = plug_over(desk, options);
    h.submit_all([write(zone(1), 8), write(zone(2), 8)]);
    h.submit_all([read(zone(3), 8), flush(), write(5, 8), reset(3), append(4, 8), append(4, 8)]);
    let beside = ["READ 192+8", "FLUSH 0+0", "WRITE 5+8", "ZONE_RESET 192+0", "ZONE_APPEND 256+8", "ZONE_APPEND 256+8"];
    assert_eq!(at_desk(&h)[1..], beside);
    h.end_all(Status::Ok);
    assert!(h.statuses().iter().all(|(_, status)| status.is_ok()));
    h.assert_clean();
}

#[test]
fn zone_management_keeps_its_turn_in_its_zone() {
    let mut h = qd1();
    h.submit_all([write(zone(2), 8), write(zone(1), 8), reset(1), write(zone(1), 16)]);
    h.end(Status::Ok);
    assert_eq!(at_desk(&h), ["WRITE 64+8"]);
    h.end(Status::Ok);
    assert_eq!(at_desk(&h), ["ZONE_RESET 64+0"]);
    // The disk is free meanwhile.
    h.submit(write(zone(3), 8));
    assert_eq!(at_desk(&h), ["ZONE_RESET 64+0", "WRITE 192+8"]);
    h.end(Status::Ok);
    assert_eq!(at_desk(&h), ["WRITE 192+8"], "zone 1 waits for the disk again");
    assert_eq!(served(&mut h), ["WRITE 192+8", "WRITE 64+16"]);
    assert!(h.statuses().iter().all(|(_, status)| status.is_ok()));
    h.assert_clean();
}

#[test]
fn emulated_appends_and_write_zeroes_take_turns_as_writes_do() {
    let mut h = qd1();
    h.submit_all([append(1, 8), append(2, 8), append(1, 8)]);
    h.submit(shingle_core::block::Bio::new(
        Op::WriteZeroes,
        shingle_core::sector::Sector(zone(3)),
        8,
        shingle_core::block::Payload::None,
    ));
    assert_eq!(served(&mut h), ["WRITE 64+8", "WRITE 72+8", "WRITE 128+8", "WRITE_ZEROES 192+8"]);
    let at: Vec<u64> = h.outcomes().iter().map(|outcome| outcome.sector.0).collect();
    assert_eq!(at[..3], [64, 72, 128], "an append tells where it went");
    h.assert_clean();
}

#[test]
fn a_zone_whose_writes_all_fail_hands_the_disk_on() {
    let mut h = qd1();
    let good = h.submit(write(zone(1), 8));
    let bad = h.submit_all([write(zone(2) + 8, 8), write(zone(2) + 8, 8), write(zone(3) + 9, 8)]);
    let last = h.submit(write(zone(4), 8));
    h.end(Status::Ok);
    assert_eq!(at_desk(&h), ["WRITE 256+8"]);
    h.end(Status::Ok);
    let mut expected = vec![(good, Status::Ok)];
    expected.extend(bad.iter().map(|tag| (*tag, Status::Io)));
    expected.push((last, Status::Ok));
    assert_eq!(h.statuses(), expected);
    assert!(the_plug(&h).is_idle());
    h.assert_clean();
}

#[test]
fn a_device_error_fails_the_zone_and_hands_the_disk_on() {
    let mut h = qd1();
    h.submit_all((0..3).map(|n| fua(write(zone(1) + n * 8, 8))));
    h.submit(write(zone(2), 8));
    h.end(Status::Medium);
    assert_eq!(at_desk(&h), ["WRITE 128+8"]);
    h.end(Status::Ok);
    let statuses: Vec<Status> = h.statuses().iter().map(|(_, status)| *status).collect();
    assert_eq!(statuses, [Status::Medium, Status::Io, Status::Io, Status::Ok]);
}

#[test]
fn a_reset_of_all_zones_waits_for_everybody_in_line() {
    let mut h = qd1();
    h.submit_all((1..4).map(|n| write(zone(n), 8)));
    h.submit_all([reset_all(), write(zone(1), 8), write(zone(5), 8)]);
    let order = ["WRITE 64+8", "WRITE 128+8", "WRITE 192+8", "ZONE_RESET_ALL 0+0", "WRITE 64+8", "WRITE 320+8"];
    assert_eq!(served(&mut h), order);
    assert!(h.statuses().iter().all(|(_, status)| status.is_ok()));
    h.assert_clean();
}

#[test]
fn a_queued_nowait_write_takes_its_turn() {
    let mut h = qd1();
    h.submit(write(zone(1), 8));
    let nowait = h.submit(write(zone(2), 8).with_flags(Flags::NOWAIT));
    h.end_all(Status::Ok);
    assert!(h.statuses().contains(&(nowait, Status::Ok)));
    h.assert_clean();
}

#[test]
fn the_longest_wait_is_from_submission_to_dispatch() {
    let mut h = qd1();
    h.submit_all([write(zone(1), 8), write(zone(2), 8)]);
    h.now = Instant(3_000_000);
    h.run();
    h.end(Status::Ok);
    assert_eq!(the_plug(&h).longest_wait(), Duration::from_millis(3));
    h.end(Status::Ok);
    let mut line = String::new();
    h.stack.describe(h.top, &mut line).unwrap();
    assert!(line.contains("qd1") && line.contains("longest wait 3.000 ms"), "{line}");
}

#[test]
fn a_zone_in_line_is_dumped_as_plugged() {
    let mut h = qd1();
    h.submit_all([write(zone(1), 8), write(zone(2), 8), write(zone(2) + 8, 8)]);
    let dumps: Vec<_> = the_plug(&h).dump().map(|dump| (dump.zone.0, dump.plugged, dump.refs, dump.pending)).collect();
    assert_eq!(dumps, [(1, true, 3, 0), (2, true, 4, 2)]);
}

#[test]
fn it_is_what_a_zoned_disk_that_turns_gets_when_nobody_chooses() {
    let mut limits = shingle_core::block::Limits::new(1 << 20);
    assert_eq!(PlugOptions::for_device(&limits).policy, WritePolicy::Plug);
    limits.rotational = true;
    assert_eq!(PlugOptions::for_device(&limits).policy, WritePolicy::Qd1);
}
