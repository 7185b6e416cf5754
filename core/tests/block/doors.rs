//! What the stack promises of bios that were passed on for good and are still counted, and of places that change hands.

use std::cell::RefCell;
use std::rc::Rc;

use shingle_core::block::{
    Bio, BlockDevice, Cx, DeviceId, Event, FRAMES, Flags, Limits, Observer, Op, Payload, Span, Stack, StackError,
    Status,
};
use shingle_core::dm::Table;
use shingle_core::harness::{Harness, MockDevice};
use shingle_core::sector::Sector;
use shingle_core::time::Instant;

use crate::desk::*;

/// Passes everything on, `shift` sectors further. While it is told to, it keeps bios back instead; at a suspension they go on,
/// or back to the door.
struct Passer {
    limits: Limits,
    below: [DeviceId; 1],
    shift: u64,
    keeps: bool,
    #[expect(clippy::vec_box, reason = "a bio keeps its box on its whole way")]
    kept: Vec<Box<Bio>>,
}

impl Passer {
    fn boxed(below: DeviceId, limits: &Limits, shift: u64, keeps: bool) -> Box<dyn BlockDevice> {
        let limits = Limits { capacity: limits.capacity - shift, ..limits.clone() };
        Box::new(Self { limits, below: [below], shift, keeps, kept: vec![] })
    }

    fn go(&self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        let sector = bio.sector + self.shift;
        cx.pass(self.below[0], bio, sector);
    }
}

impl BlockDevice for Passer {
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn below(&self) -> &[DeviceId] {
        &self.below
    }
    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if self.keeps { self.kept.push(bio) } else { self.go(bio, cx) }
    }
    fn on_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        let Event::Suspend { push_back } = event else { return };
        for bio in std::mem::take(&mut self.kept) {
            match if push_back { cx.push_back(bio) } else { Err(bio) } {
                Ok(()) => {}
                Err(bio) => self.go(bio, cx),
            }
        }
    }
    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.kept.iter().for_each(|bio| visit(bio));
    }
    fn describe(&self, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        out.write_str("passer")
    }
}

/// A desk, a passer that may keep bios, and one above it.
fn two_passers(keeps: bool) -> (Harness, DeviceId) {
    let mut h = Harness::new(MockDevice::regular(), |below, limits| Passer::boxed(below, limits, 8, keeps), |_, _| ());
    let lower = h.top;
    let upper = Passer::boxed(lower, h.stack.limits(lower), 100, false);
    h.top = h.stack.add(upper).unwrap();
    (h, lower)
}

#[test]
fn what_was_passed_on_counts_as_in_flight_and_has_its_own_sector_again_when_it_is_done() {
    let (mut h, lower) = two_passers(false);
    let port = h.stack.open_port();
    h.stack.submit(port, 5, h.top, Box::new(write(16, 8)));
    h.run();
    assert_eq!(at_desk(&h), ["WRITE 124+8"]);
    assert!(!h.stack.is_drained(h.top) && !h.stack.is_drained(lower));
    assert_eq!(h.stack.counters(h.top).in_flight, 1);
    h.end(Status::Medium);
    let done = h.stack.poll_completion(port).unwrap();
    assert_eq!((done.tag, done.status, done.bio.sector), (5, Status::Medium, Sector(16)));
    assert!(h.stack.is_drained(h.top) && h.stack.is_drained(lower) && done.bio.is_idle());
}

#[test]
fn an_append_comes_back_with_the_offset_of_below_in_the_zone_of_above() {
    let mut desk = MockDevice::zoned(8, ZONE, ZONE, 0);
    desk.limits_mut().zoned.as_mut().unwrap().max_append = Some(ZONE);
    let shift = zone(3);
    let build = move |below, limits: &Limits| Passer::boxed(below, limits, shift, false);
    let mut h = Harness::new(desk, build, |_, _| ());
    for expected in [zone(2), zone(2) + 8] {
        h.submit(append(2, 8));
        assert_eq!(at_desk(&h), [format!("ZONE_APPEND {}+8", zone(5))]);
        h.end(Status::Ok);
        assert_eq!(h.outcomes().last().unwrap().sector.0, expected);
    }
}

#[test]
fn bios_that_come_back_to_the_door_go_in_again_before_those_that_came_later() {
    let (mut h, keeper) = two_passers(true);
    let door = h.top;
    for n in 0..3 {
        h.submit(write(n * 8, 8));
    }
    assert_eq!(at_desk(&h).len(), 0, "they are kept back");
    h.stack.suspend(door);
    h.submit(write(24, 8));
    h.stack.deliver(keeper, Event::Suspend { push_back: true });
    h.run();
    assert!(h.stack.is_drained(door) && h.stack.is_drained(keeper), "nothing is inside any more");
    let mut waiting = vec![];
    h.stack.held(&mut |device, bio| waiting.push((device, bio.sector.0)));
    assert_eq!(waiting, [(door, 0), (door, 8), (door, 16), (door, 24)], "where they were at the door");
    h.stack.with_device(keeper, |passer: &mut Passer, _| passer.keeps = false);
    h.stack.resume(door);
    h.run();
    assert_eq!(at_desk(&h), ["WRITE 108+8", "WRITE 116+8", "WRITE 124+8", "WRITE 132+8"]);
    h.end_all(Status::Ok);
    assert_eq!(h.statuses().len(), 4);
}

/// Found by the swarm (mapper 179539773036): what had waited above overtook it, a reset for one.
#[test]
fn what_waited_at_a_lower_door_goes_before_what_waited_above_whichever_opens_first() {
    for upper_first in [false, true] {
        let (mut h, lower) = two_passers(false);
        for (sector, shut) in [(0, lower), (8, h.top)] {
            h.stack.suspend(shut);
            h.submit(write(sector, 8));
        }
        let doors = if upper_first { [h.top, lower] } else { [lower, h.top] };
        doors.into_iter().for_each(|door| h.stack.resume(door));
        h.submit(write(16, 8));
        assert_eq!(at_desk(&h), ["WRITE 108+8", "WRITE 116+8", "WRITE 124+8"], "upper first: {upper_first}");
        h.end_all(Status::Ok);
    }
}

#[test]
fn what_calls_from_outside_send_goes_in_the_order_of_the_calls() {
    let (mut h, keeper) = two_passers(true);
    for n in 0..3 {
        h.submit(write(n * 8, 8));
    }
    for _ in 0..3 {
        h.stack.with_device(keeper, |passer: &mut Passer, cx| {
            let next = passer.kept.remove(0);
            passer.go(next, cx);
        });
    }
    h.run();
    assert_eq!(at_desk(&h), ["WRITE 108+8", "WRITE 116+8", "WRITE 124+8"]);
    h.end_all(Status::Ok);
}

#[test]
fn who_does_not_want_to_wait_is_not_kept_at_the_door_of_a_suspended_device() {
    let (mut h, _) = two_passers(false);
    h.stack.suspend(h.top);
    let hasty = h.submit(read(0, 8).with_flags(Flags::NOWAIT));
    let patient = h.submit(read(0, 8));
    assert_eq!(h.statuses(), [(hasty, Status::Again)]);
    h.stack.resume(h.top);
    h.run();
    h.end_all(Status::Ok);
    assert_eq!(h.statuses(), [(patient, Status::Ok)]);
}

#[test]
fn nothing_goes_back_to_a_door_that_is_open() {
    let (mut h, lower) = two_passers(true);
    h.submit(write(0, 8));
    h.stack.deliver(lower, Event::Suspend { push_back: true });
    h.run();
    assert_eq!(at_desk(&h), ["WRITE 108+8"]);
    h.end_all(Status::Ok);
}

/// Found by the fuzz target `bio_ops`: a table cut a zone management bio whose meaningless length crossed its end.
#[test]
fn a_length_means_nothing_to_what_has_none() {
    let build = |below, limits: &Limits| {
        let table = Table::linear(below, limits, zone(6), zone(2)).unwrap();
        Box::new(table) as Box<dyn BlockDevice>
    };
    let mut h = Harness::new(MockDevice::zoned(8, ZONE, ZONE, 0), build, |_, _| ());
    let finish = Bio::new(Op::ZoneFinish, Sector(zone(1)), 2 * ZONE, Payload::None).with_flags(Flags::NOWAIT);
    let tag = h.submit(finish);
    assert_eq!(at_desk(&h), [format!("ZONE_FINISH {}+0", zone(7))]);
    h.end_all(Status::Ok);
    assert_eq!(h.statuses(), [(tag, Status::Ok)]);
}

/// Notes what it sees.
struct Notes(Rc<RefCell<Vec<String>>>);

impl Observer for Notes {
    fn entered(&mut self, span: &Span, now: Instant) {
        let Span { op, sector, sectors } = span;
        self.0.borrow_mut().push(format!("{} {sector}+{sectors} in at {}", op.name(), now.0));
    }
    fn left(&mut self, span: &Span, entered: Instant, now: Instant) {
        let Span { op, sector, sectors } = span;
        self.0.borrow_mut().push(format!("{} {sector}+{sectors} out at {}, in at {}", op.name(), now.0, entered.0));
    }
}

#[test]
fn an_observer_sees_bios_where_they_went_through_with_the_times_of_both_ways() {
    let (mut h, lower) = two_passers(false);
    let notes = Rc::new(RefCell::new(vec![]));
    h.stack.observe(lower, Some(Box::new(Notes(notes.clone()))));
    let port = h.stack.open_port();
    h.stack.turn(Instant(1_000));
    h.stack.submit(port, 0, h.top, Box::new(read(0, 8)));
    h.stack.turn(Instant(5_000));
    let number = h.stack.device::<MockDevice>(h.desk).unwrap().held()[0].number;
    h.stack.with_device(h.desk, |desk: &mut MockDevice, cx| desk.end(number, Status::Ok, 0, cx));
    h.stack.turn(Instant(9_000));
    // The desk ended it between two turns, when the last known time was that of the first.
    assert_eq!(*notes.borrow(), ["READ 100+8 in at 5000", "READ 100+8 out at 5000, in at 5000"]);
    assert!(h.stack.observe(lower, None).is_some() && h.stack.observe(lower, None).is_none());
}

#[test]
fn a_place_is_emptied_only_when_nobody_uses_it_and_then_taken_again() {
    let (mut h, lower) = two_passers(false);
    let top = h.top;
    assert_eq!(h.stack.remove(lower).err(), Some(StackError::InUse(top)));
    h.submit(write(0, 8));
    assert_eq!(h.stack.remove(top).err(), Some(StackError::Busy { device: top, in_flight: 1 }));
    h.end_all(Status::Ok);
    h.stack.suspend(top);
    h.submit(write(0, 8));
    assert_eq!(h.stack.remove(top).err(), Some(StackError::Busy { device: top, in_flight: 1 }), "one is at the door");
    h.stack.resume(top);
    h.run();
    h.end_all(Status::Ok);
    assert!(h.stack.remove(top).is_ok() && h.stack.remove(lower).is_ok());
    let places = h.stack.devices();
    let port = h.stack.open_port();
    h.stack.submit(port, 1, top, Box::new(read(0, 1)));
    h.run();
    assert_eq!(h.stack.poll_completion(port).unwrap().status, Status::Offline, "there is nobody");
    let again = h.stack.add(Box::new(MockDevice::regular())).unwrap();
    assert!(again == top || again == lower);
    assert_eq!(h.stack.devices(), places);
}

fn passer_over(stack: &Stack, below: DeviceId) -> Box<dyn BlockDevice> {
    Passer::boxed(below, stack.limits(below), 0, false)
}

#[test]
fn a_device_can_be_replaced_by_one_that_lies_on_a_newer_one_but_never_on_itself() {
    let mut stack = Stack::new();
    let old = stack.add(Box::new(MockDevice::regular())).unwrap();
    let middle = stack.add(passer_over(&stack, old)).unwrap();
    let top = stack.add(passer_over(&stack, middle)).unwrap();
    let new = stack.add(Box::new(MockDevice::regular())).unwrap();
    for device in [middle, top] {
        stack.suspend(device);
    }
    let round = passer_over(&stack, top);
    assert_eq!(stack.replace(middle, round), Err(StackError::Loop(middle)));
    let itself = passer_over(&stack, middle);
    assert_eq!(stack.replace(middle, itself), Err(StackError::Loop(middle)));
    let newer = passer_over(&stack, new);
    stack.replace(middle, newer).unwrap();
    assert_eq!((stack.above(old), stack.above(new)), (None, Some(middle)));
}

#[test]
fn a_replacement_must_serve_what_lies_above_it_and_leave_room_for_its_frames() {
    let mut stack = Stack::new();
    let desk = stack.add(Box::new(MockDevice::regular())).unwrap();
    let low = stack.add(passer_over(&stack, desk)).unwrap();
    let high = stack.add(passer_over(&stack, low)).unwrap();
    stack.suspend(low);
    let shorter = Passer::boxed(desk, stack.limits(desk), 8, false);
    let error = stack.replace(low, shorter).unwrap_err();
    assert!(matches!(error, StackError::Serves { above, .. } if above == high), "{error}");
    // As deep as it goes beside it, then one more below what has a device above it.
    let mut deep = desk;
    while let Ok(deeper) = stack.add(passer_over(&stack, deep)) {
        deep = deeper;
        assert!(stack.devices() < 2 * FRAMES);
    }
    let below_deepest = stack.below(deep)[0];
    let too_deep = passer_over(&stack, below_deepest);
    assert_eq!(stack.replace(low, too_deep), Err(StackError::TooDeep));
    let port = stack.open_port();
    stack.resume(low);
    stack.submit(port, 0, high, Box::new(read(0, 1)));
    stack.turn(Instant::ZERO);
    assert_eq!(stack.device::<MockDevice>(desk).unwrap().held().len(), 1, "the old one still works");
}
