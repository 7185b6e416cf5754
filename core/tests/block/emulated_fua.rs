//! A FUA write to a disk with a volatile write cache and no FUA is a write and a flush.

use shingle_core::block::{Action, DeviceId, Flags, Limits, Op, Status};
use shingle_core::harness::{Harness, MockDevice};
use shingle_core::plug::{PlugOptions, WritePolicy, ZonePlug};

use crate::desk::{at_desk, fua, write, zone};

/// A plug with this policy over a disk that has a write cache, and FUA or not.
fn plugged(policy: WritePolicy, has_fua: bool) -> Harness {
    let mut desk = MockDevice::zoned(8, 64, 64, 1);
    desk.limits_mut().fua = has_fua;
    let options = PlugOptions { policy, ..PlugOptions::default() };
    let build = |below: DeviceId, limits: &Limits| Box::new(ZonePlug::new(below, limits, options).unwrap()) as _;
    Harness::new(desk, build, |stack, top| {
        let plug: &ZonePlug = stack.device(top).expect("the plug is a plug");
        plug.verify().expect("the plug is consistent");
    })
}

fn without_fua() -> Harness {
    plugged(WritePolicy::Plug, false)
}

#[test]
fn a_fua_write_completes_after_its_flush() {
    let mut h = without_fua();
    let tag = h.submit(fua(write(zone(1), 8)));
    assert_eq!(at_desk(&h), ["WRITE 64+8"]);
    assert!(!h.held()[0].flags.has(Flags::FUA), "the disk would ignore it, or refuse it");
    h.end(Status::Ok);
    assert_eq!((h.statuses(), h.held()[0].op, h.held().len()), (vec![], Op::Flush, 1));
    h.end(Status::Ok);
    assert_eq!(h.statuses(), [(tag, Status::Ok)]);
    h.assert_clean();
}

#[test]
fn a_disk_with_fua_or_without_a_cache_gets_no_flush() {
    let mut h = plugged(WritePolicy::Plug, true);
    h.submit(fua(write(zone(1), 8)));
    assert!(h.held()[0].flags.has(Flags::FUA));
    h.end(Status::Ok);
    assert_eq!((h.statuses().len(), h.held().len()), (1, 0));

    let mut desk = MockDevice::zoned(8, 64, 64, 1);
    (desk.limits_mut().fua, desk.limits_mut().write_cache) = (false, false);
    let options = PlugOptions::default();
    let mut h = Harness::new(desk, |id, limits| Box::new(ZonePlug::new(id, limits, options).unwrap()), |_, _| ());
    h.submit(fua(write(zone(1), 8)));
    h.end(Status::Ok);
    assert_eq!((h.statuses().len(), h.held().len()), (1, 0));
}

#[test]
fn only_the_next_write_of_the_same_zone_waits_for_the_flush() {
    let mut h = without_fua();
    let tags = h.submit_all([fua(write(zone(1), 8)), write(zone(1) + 8, 8), write(zone(2), 8), write(zone(0), 8)]);
    assert_eq!(at_desk(&h), ["WRITE 64+8", "WRITE 128+8", "WRITE 0+8"]);
    h.end(Status::Ok);
    let flush = h.held().into_iter().find(|held| held.op == Op::Flush).expect("a flush");
    h.submit(write(zone(3), 8));
    assert!(at_desk(&h).contains(&"WRITE 192+8".to_owned()), "another zone does not wait");
    assert!(!at_desk(&h).contains(&"WRITE 72+8".to_owned()));
    h.end_number(flush.number, Status::Ok, 0);
    assert_eq!(h.statuses(), [(tags[0], Status::Ok)]);
    assert!(at_desk(&h).contains(&"WRITE 72+8".to_owned()));
    h.end_all(Status::Ok);
    h.assert_clean();
}

#[test]
fn a_failed_flush_fails_the_write_and_the_zone_asks_for_its_pointer() {
    let mut h = without_fua();
    let tag = h.submit(fua(write(zone(1), 8)));
    h.end(Status::Ok);
    h.end(Status::Io);
    assert_eq!(h.statuses(), [(tag, Status::Io)]);
    let next = h.submit(write(zone(1) + 8, 8));
    assert_eq!(h.statuses(), [(next, Status::Io)], "it refuses writes until a report");
}

/// Found by the swarm (paths 60): a plug believes of some statuses that the write pointer is where it was.
#[test]
fn a_refused_flush_does_not_say_that_nothing_was_written() {
    let mut h = without_fua();
    let tag = h.submit(fua(write(zone(1), 8)));
    h.end(Status::Ok);
    h.end(Status::NotSupported);
    assert_eq!(h.statuses(), [(tag, Status::Io)]);
    let next = h.submit(write(zone(1), 8));
    assert_eq!((h.statuses(), h.held().len()), (vec![(next, Status::Io)], 0), "it refuses writes until a report");
}

#[test]
fn a_failed_write_is_not_flushed() {
    let mut h = without_fua();
    let tag = h.submit(fua(write(zone(1), 8)));
    h.end(Status::Medium);
    assert_eq!((h.statuses(), h.held().len()), (vec![(tag, Status::Medium)], 0));
}

#[test]
fn under_qd1_the_flush_belongs_to_the_one_zone_write() {
    let mut h = plugged(WritePolicy::Qd1, false);
    h.submit_all([fua(write(zone(1), 8)), write(zone(2), 8)]);
    h.end(Status::Ok);
    assert_eq!((h.held()[0].op, h.held().len()), (Op::Flush, 1));
    h.end(Status::Ok);
    assert_eq!(at_desk(&h), ["WRITE 128+8"]);
    h.end_all(Status::Ok);
    h.assert_clean();
}

#[test]
fn the_trace_has_each_command_that_the_disk_gets_once() {
    let mut h = without_fua();
    h.stack.set_trace(Some(64));
    h.submit(fua(write(zone(1), 8)));
    h.end(Status::Ok);
    h.end(Status::Ok);
    let mut seen = Vec::new();
    while let Some(event) = h.stack.trace().and_then(|trace| trace.pop()) {
        if event.device == h.desk && matches!(event.action, Action::Dispatch | Action::Complete) {
            seen.push((event.action, event.op));
        }
    }
    let (sent, done) = (Action::Dispatch, Action::Complete);
    assert_eq!(seen, [(sent, Op::Write), (sent, Op::Flush), (done, Op::Flush), (done, Op::Write)]);
}

#[test]
fn a_suspended_disk_finishes_the_fua_write_that_is_inside() {
    let mut h = without_fua();
    let tag = h.submit(fua(write(zone(1), 8)));
    h.stack.suspend(h.desk);
    h.end(Status::Ok);
    assert_eq!((h.held()[0].op, h.stack.is_drained(h.desk)), (Op::Flush, false));
    h.end(Status::Ok);
    assert_eq!((h.statuses(), h.stack.is_drained(h.desk)), (vec![(tag, Status::Ok)], true));
}

#[test]
fn a_write_that_waits_for_its_flush_is_shown_as_held() {
    let mut h = without_fua();
    h.submit(fua(write(zone(1), 8)));
    h.end(Status::Ok);
    let mut held = Vec::new();
    h.stack.held(&mut |id, bio| held.push((id, bio.op)));
    held.sort_unstable();
    assert_eq!(held, [(h.desk, Op::Write), (h.desk, Op::Flush)]);
}
