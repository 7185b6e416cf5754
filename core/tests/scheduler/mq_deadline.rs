//! The order in which `mq-deadline` dispatches.

use shingle_core::block::{Bio, Limits, Op, Payload, Priority, Scheduler, ZonedLimits};
use shingle_core::scheduler::{DeadlineOptions, MqDeadline, Sabotage, SchedulerKind};
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};

pub const ZONE: u32 = 64;

pub fn bio(op: Op, sector: u64) -> Box<Bio> {
    Box::new(Bio::new(op, Sector(sector), 1, Payload::None))
}

pub fn at_ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// Eight zones, the first conventional.
pub fn zoned_limits() -> Limits {
    let zoned = ZonedLimits::new(ZONE).with_conventional(1);
    Limits { zoned: Some(zoned), ..Limits::new(8 * u64::from(ZONE)) }
}

fn regular() -> MqDeadline {
    MqDeadline::new(&Limits::new(1 << 20), DeadlineOptions::default())
}

fn zoned() -> MqDeadline {
    MqDeadline::new(&zoned_limits(), DeadlineOptions::default())
}

fn insert(scheduler: &mut MqDeadline, op: Op, sectors: impl IntoIterator<Item = u64>) {
    sectors.into_iter().for_each(|sector| scheduler.insert(bio(op, sector), Instant::ZERO));
}

fn insert_class(scheduler: &mut MqDeadline, op: Op, sector: u64, class: Priority) {
    scheduler.insert(Box::new(Bio::new(op, Sector(sector), 1, Payload::None).with_priority(class)), Instant::ZERO);
}

/// Dispatches up to `count` bios at `now`.
fn dispatch(scheduler: &mut MqDeadline, now: Instant, count: usize) -> Vec<(Op, u64)> {
    std::iter::from_fn(|| scheduler.next(now)).take(count).map(|bio| (bio.op, bio.sector.0)).collect()
}

fn all(scheduler: &mut MqDeadline) -> Vec<u64> {
    dispatch(scheduler, Instant::ZERO, usize::MAX).into_iter().map(|(_, sector)| sector).collect()
}

#[test]
fn reads_leave_by_rising_sector_and_wrap_around() {
    let mut scheduler = regular();
    insert(&mut scheduler, Op::Read, [500]);
    assert_eq!(all(&mut scheduler), [500]);
    insert(&mut scheduler, Op::Read, [700, 100, 600, 300]);
    assert_eq!(all(&mut scheduler), [600, 700, 100, 300]);
}

#[test]
fn bios_of_one_sector_leave_in_order_of_arrival() {
    let mut scheduler = regular();
    for sectors in [3, 1, 2] {
        scheduler.insert(Box::new(Bio::new(Op::Write, Sector(8), sectors, Payload::None)), Instant::ZERO);
    }
    let lengths: Vec<u32> = std::iter::from_fn(|| scheduler.next(Instant::ZERO)).map(|bio| bio.sectors).collect();
    assert_eq!(lengths, [3, 1, 2]);
}

#[test]
fn batch_of_16_goes_to_one_direction_before_the_other() {
    let mut scheduler = regular();
    insert(&mut scheduler, Op::Read, 0..100);
    insert(&mut scheduler, Op::Write, 1000..1100);
    let ops = dispatch(&mut scheduler, Instant::ZERO, 96 + 16).into_iter().map(|(op, _)| op);
    let runs = ops.fold(Vec::<(Op, usize)>::new(), |mut runs, op| {
        match runs.last_mut() {
            Some((last, count)) if *last == op => *count += 1,
            _ => runs.push((op, 1)),
        }
        runs
    });
    // The batch at hand, and then two batches of reads before each one of writes.
    assert_eq!(runs, [(Op::Read, 48), (Op::Write, 16), (Op::Read, 32), (Op::Write, 16)]);
}

#[test]
fn expired_read_starts_the_next_batch() {
    let mut scheduler = regular();
    insert(&mut scheduler, Op::Read, [900]);
    assert_eq!(all(&mut scheduler), [900]);
    insert(&mut scheduler, Op::Read, [5]);
    (0..40).for_each(|n| scheduler.insert(bio(Op::Read, 1000 + n), at_ms(400)));
    // The batch that 900 began has 15 left; then the deadline of 500 ms counts.
    let sent = dispatch(&mut scheduler, at_ms(500), 16);
    assert_eq!((sent[14].1, sent[15].1), (1014, 5));
}

#[test]
fn write_does_not_start_a_batch_before_5_s() {
    let sector_after_batch = |now| {
        let mut scheduler = regular();
        insert(&mut scheduler, Op::Write, [900]);
        assert_eq!(all(&mut scheduler), [900]);
        insert(&mut scheduler, Op::Write, [5]);
        insert(&mut scheduler, Op::Write, 1000..1040);
        dispatch(&mut scheduler, now, 16)[15].1
    };
    assert_eq!((sector_after_batch(at_ms(4_999)), sector_after_batch(at_ms(5_000))), (1015, 5));
}

#[test]
fn higher_class_leaves_first() {
    let mut scheduler = regular();
    insert_class(&mut scheduler, Op::Read, 1, Priority::Idle);
    insert_class(&mut scheduler, Op::Read, 2, Priority::BestEffort);
    insert_class(&mut scheduler, Op::Write, 3, Priority::RealTime);
    assert_eq!(all(&mut scheduler), [3, 2, 1]);
}

#[test]
fn lower_class_gets_every_second_dispatch_after_10_s() {
    let mut scheduler = regular();
    (1..=3).for_each(|sector| insert_class(&mut scheduler, Op::Write, sector, Priority::Idle));
    for sector in 10..20 {
        let bio = Bio::new(Op::Read, Sector(sector), 1, Payload::None);
        scheduler.insert(Box::new(bio), at_ms(9_000));
    }
    let sectors = |scheduler: &mut MqDeadline, now, count| -> Vec<u64> {
        dispatch(scheduler, now, count).into_iter().map(|(_, sector)| sector).collect()
    };
    assert_eq!(sectors(&mut scheduler, at_ms(9_999), 2), [10, 11]);
    assert_eq!(sectors(&mut scheduler, at_ms(10_000), 6), [1, 12, 2, 13, 3, 14]);
}

#[test]
fn writes_of_a_zone_leave_in_order_of_arrival() {
    let mut scheduler = zoned();
    // A reset between writes, and neither by rising sector.
    insert(&mut scheduler, Op::Write, [64 + 9]);
    insert(&mut scheduler, Op::ZoneReset, [64]);
    insert(&mut scheduler, Op::Write, [64, 64 + 1]);
    insert(&mut scheduler, Op::Write, [3 * 64]);
    assert_eq!(all(&mut scheduler), [73, 64, 64, 65, 192]);
}

#[test]
fn higher_class_does_not_overtake_within_a_zone() {
    let mut scheduler = zoned();
    insert_class(&mut scheduler, Op::Write, 64, Priority::Idle);
    insert_class(&mut scheduler, Op::Write, 65, Priority::RealTime);
    insert_class(&mut scheduler, Op::Write, 128, Priority::BestEffort);
    assert_eq!(all(&mut scheduler), [128, 64, 65]);
}

#[test]
fn conventional_zone_is_sorted_by_sector() {
    let mut scheduler = zoned();
    insert(&mut scheduler, Op::Write, [40, 10, 30]);
    assert_eq!(all(&mut scheduler), [10, 30, 40]);
}

#[test]
fn mutation_of_zone_order_is_seen() {
    let sabotage = Sabotage { zones_unordered: true, ..Sabotage::default() };
    let mut scheduler = zoned().without(sabotage);
    insert(&mut scheduler, Op::Write, [64 + 9, 64]);
    assert_eq!(all(&mut scheduler), [64, 73], "the guard is gone");
    insert_class(&mut scheduler, Op::Write, 64, Priority::Idle);
    insert_class(&mut scheduler, Op::Write, 65, Priority::RealTime);
    assert_eq!(all(&mut scheduler), [65, 64], "the guard is gone");
}

#[test]
fn held_shows_every_waiting_bio() {
    let mut scheduler = zoned();
    insert(&mut scheduler, Op::Write, [64, 128]);
    insert(&mut scheduler, Op::Read, [7]);
    let mut shown = Vec::new();
    scheduler.held(&mut |bio| shown.push(bio.sector.0));
    shown.sort_unstable();
    assert_eq!((shown, scheduler.waiting()), (vec![7, 64, 128], 3));
    all(&mut scheduler);
}

#[test]
fn remove_oldest_returns_bios_in_order_of_arrival() {
    let mut scheduler = regular();
    insert_class(&mut scheduler, Op::Write, 9, Priority::Idle);
    insert_class(&mut scheduler, Op::Read, 1, Priority::RealTime);
    insert_class(&mut scheduler, Op::Read, 5, Priority::BestEffort);
    let sectors: Vec<u64> = std::iter::from_fn(|| scheduler.remove_oldest()).map(|(bio, _)| bio.sector.0).collect();
    assert_eq!(sectors, [9, 1, 5]);
}

#[test]
fn unknown_scheduler_names_the_known_ones() {
    assert_eq!("mq-deadline".parse(), Ok(SchedulerKind::MqDeadline));
    let error = "kyber".parse::<SchedulerKind>().unwrap_err();
    assert_eq!(error.to_string(), "unknown scheduler; use one of: none, mq-deadline");
}
