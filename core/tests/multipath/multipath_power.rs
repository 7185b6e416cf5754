//! A disk that loses its power while its host goes on: nobody is told that what is gone is there.

use shingle_core::block::{DeviceId, Flags, Limits, Op, Reason, Silence, Status};
use shingle_core::multipath::{Head, PathConfig};
use shingle_core::plug::WritePolicy;

use Op::{Flush, Write};

use crate::head_desk::*;

/// Two paths to a disk with a write cache, with zones or without.
fn desk(zones: bool) -> Desk {
    let limits = if zones { zoned() } else { Limits { write_cache: true, ..Limits::new(1 << 16) } };
    Desk::new(&limits, &[Silence::AtOnce; 2], options())
}

/// What failed, and that the loss is why.
fn lost(desk: &mut Desk) -> Vec<u64> {
    let all = desk.completions();
    let is_it = |done: &shingle_core::block::Completion| {
        assert_eq!(done.why().map(|why| &why.reason), Some(&Reason::CacheLost), "{}", done.tag);
        done.tag
    };
    all.iter().map(is_it).collect()
}

#[test]
fn after_a_loss_of_power_no_flush_succeeds_until_somebody_accepts_it() {
    let mut desk = desk(false);
    desk.submit(Flush, 0, 0);
    desk.submit_with(Write, 8, 8, Flags::PREFLUSH);
    desk.lose_power(1, Some(1));
    desk.submit(Flush, 0, 0);
    desk.submit_with(Write, 16, 8, Flags::PREFLUSH.with(Flags::FUA));
    assert_eq!(lost(&mut desk), [2, 3], "new ones");
    desk.end(0, Status::Ok);
    desk.end(1, Status::Timeout);
    assert_eq!(lost(&mut desk), [0, 1], "those under way, whatever the disk says");
    desk.tell("accept_losses");
    desk.submit(Flush, 0, 0);
    desk.end(0, Status::Ok);
    assert_eq!(desk.done(), [(4, Status::Ok)]);
}

#[test]
fn what_waits_for_a_path_when_the_power_goes_does_not_count_as_new_afterwards() {
    let mut desk = desk(true);
    (0..2).for_each(|path| desk.tell(&format!("state {path} change")));
    desk.submit(Flush, 0, 0);
    desk.submit(Op::Read, 0, 8);
    desk.submit(Write, 0, 8);
    desk.lose_power(1, Some(1));
    assert_eq!(lost(&mut desk), [0, 2]);
    desk.tell("state 1 optimized");
    assert_eq!(desk.on(1), [(Op::Read, 0, 8)]);
}

/// The pointer is back where it was before, and the zone may hold data of another life: that it fits says nothing.
#[test]
fn what_changes_a_zone_and_came_before_the_loss_fails_done_or_not_and_is_not_looked_for() {
    for (op, sectors) in
        [(Write, 8), (Op::ZoneAppend, 8), (Op::ZoneReset, 0), (Op::ZoneFinish, 0), (Op::ZoneResetAll, 0)]
    {
        for status in [Status::Ok, Status::Transport] {
            let mut desk = desk(true);
            desk.submit(op, if op == Op::ZoneResetAll { 0 } else { ZONE }, sectors);
            desk.lose_power(1, Some(1));
            assert_eq!(desk.done(), [], "it may still be under way");
            desk.end(0, status);
            if (op, status) == (Op::ZoneAppend, Status::Transport) {
                assert_eq!(desk.done(), [(0, Status::Io)], "as always");
            } else {
                assert_eq!(lost(&mut desk), [0], "{op:?} {status}");
            }
            assert_eq!(desk.on(1), []);
        }
    }
}

#[test]
fn a_look_at_a_pointer_from_before_the_loss_proves_nothing() {
    let mut desk = desk(true);
    desk.submit_with(Write, ZONE, 8, Flags::FUA);
    desk.end(0, Status::Transport);
    assert_eq!(desk.on(1), [(Op::ReportZones, ZONE, 0)]);
    desk.lose_power(0, Some(1));
    desk.report(1, 8);
    assert_eq!(lost(&mut desk), [0]);
}

#[test]
fn writes_to_where_there_is_no_pointer_and_reads_take_another_path_as_always() {
    let mut desk = desk(false);
    desk.submit_with(Write, 8, 8, Flags::FUA);
    desk.submit(Op::Read, 16, 8);
    desk.lose_power(1, Some(1));
    desk.end(0, Status::Transport);
    desk.end(1, Status::Ok);
    desk.end(1, Status::Ok);
    assert_eq!(desk.done(), [(1, Status::Ok), (0, Status::Ok)]);
}

#[test]
fn a_disk_without_a_write_cache_has_lost_nothing() {
    let limits = Limits { write_cache: false, ..zoned() };
    let mut desk = Desk::new(&limits, &[Silence::AtOnce; 2], options());
    desk.put_plug(WritePolicy::Plug);
    desk.submit(Write, ZONE, 8);
    desk.lose_power(0, Some(1));
    desk.end(1, Status::Transport);
    desk.report(0, 4);
    assert_eq!(desk.on(0), [(Write, ZONE + 4, 4)], "what its pointer tells is true");
    desk.end(0, Status::Ok);
    desk.submit(Flush, 0, 0);
    desk.submit(Write, ZONE + 8, 8);
    assert_eq!(desk.done(), [(0, Status::Ok), (1, Status::Ok)]);
    assert_eq!(desk.on(0), [(Write, ZONE + 8, 8)]);
    assert_eq!(desk.head().counters().losses, 0);
}

#[test]
fn a_loss_counts_once_however_many_paths_tell_of_it_and_one_that_nobody_counts_each_time() {
    let mut desk = desk(true);
    for (path, counted, losses) in [(0, Some(2), 1), (1, Some(2), 1), (1, Some(1), 1), (0, Some(3), 2), (1, None, 3)] {
        desk.lose_power(path, counted);
        assert_eq!(desk.head().counters().losses, losses, "{counted:?} of path {path}");
    }
}

/// It may be the first path over which something is carried out after the loss.
#[test]
fn a_path_that_is_added_tells_of_losses_that_nobody_else_has_told_of() {
    let mut desk = desk(true);
    desk.put_plug(WritePolicy::Plug);
    for (counted, losses) in [(None, 0), (Some(1), 1), (Some(1), 1), (Some(2), 2)] {
        let device = desk.another_path(&zoned());
        let path = PathConfig { losses: counted, ..PathConfig::new(device) };
        Head::add_path(&mut desk.stack, desk.head, &path).unwrap();
        desk.turn();
        assert_eq!(desk.head().counters().losses, losses);
        desk.submit(Write, ZONE, 8);
        assert_eq!(desk.done().len(), usize::from(losses > 0), "the plug knows its pointer, or refuses");
        if losses == 0 {
            desk.end(1, Status::Ok);
            assert_eq!(desk.done(), [(0, Status::Ok)]);
        }
    }
}

#[test]
fn a_plug_above_refuses_writes_to_every_zone_until_its_pointer_is_known() {
    let mut desk = desk(true);
    desk.put_plug(WritePolicy::Plug);
    desk.lose_power(0, Some(1));
    desk.submit(Write, 0, 8);
    assert_eq!(desk.done(), [(0, Status::Io)]);
    desk.submit_report();
    desk.reports(1, [0, 8, 0, 0]);
    desk.submit(Write, ZONE + 8, 8);
    desk.end(0, Status::Ok);
    assert_eq!(desk.done(), [(1, Status::Ok), (2, Status::Ok)]);
}

/// Found by the swarm: what the head ended set the disk free, and a plug that takes one write at a time gave it the next, before it had heard.
#[test]
fn nothing_goes_down_between_the_head_hearing_of_a_loss_and_the_plug_hearing_of_it() {
    let mut desk = desk(true);
    desk.put_plug(WritePolicy::Qd1);
    (0..2).for_each(|path| desk.tell(&format!("state {path} change")));
    desk.submit(Write, 0, 8);
    desk.submit(Write, ZONE, 8);
    desk.lose_power(0, Some(1));
    assert_eq!(desk.done(), [(0, Status::Io), (1, Status::Io)]);
    desk.tell("state 0 optimized");
    assert_eq!(desk.on(0), []);
}

/// A report that was taken before is too old.
#[test]
fn a_report_under_way_does_not_tell_a_plug_its_pointers_after_a_loss() {
    let mut desk = desk(true);
    desk.put_plug(WritePolicy::Plug);
    desk.submit_report();
    desk.lose_power(0, Some(1));
    desk.reports(1, [0; 4]);
    desk.submit(Write, 0, 8);
    assert_eq!(desk.done(), [(0, Status::Ok), (1, Status::Io)]);
}

#[test]
fn a_plug_that_is_learning_its_zones_when_the_power_goes_asks_again() {
    let mut desk = desk(true);
    desk.start_plug(WritePolicy::Plug);
    desk.lose_power(0, Some(1));
    desk.reports(0, [8; 4]);
    desk.submit(Write, 0, 8);
    assert_eq!((desk.done(), desk.on(1)), (vec![], vec![(Op::ReportZones, 0, 0)]));
    desk.reports(1, [0; 4]);
    assert_eq!(desk.on(0), [(Write, 0, 8)]);
}

#[test]
fn a_loss_is_heard_through_mapped_devices_and_not_counted_where_several_disks_meet() {
    use shingle_core::dm::{build_table, parse_table};
    use shingle_core::multipath::PolicyKind;
    let limits = Limits { write_cache: true, ..Limits::new(1 << 12) };
    let mut stack = shingle_core::block::Stack::new();
    let disks = [(); 2].map(|()| by_hand(&mut stack, &limits, Silence::AtOnce));
    let mut map = |text: &str| -> DeviceId {
        let resolve = |name: &str| Ok(disks[usize::from(name == "b")]);
        let built = build_table(&mut stack, &parse_table(text).unwrap(), &resolve).unwrap();
        stack.add(Box::new(built.table)).unwrap()
    };
    let paths = [map("0 4096 linear a 0"), map("0 2048 linear a 0\n2048 2048 linear b 0")];
    let mut desk = Desk::over(stack, &paths, PolicyKind::RoundRobin, options());
    for (disk, heard) in [(0, 2), (1, 3), (1, 4)] {
        desk.stack.with_device::<ByHand, _>(disks[disk], |_, cx| cx.announce_losses(Some(7)));
        desk.turn();
        assert_eq!(desk.head().counters().losses, heard);
    }
}
